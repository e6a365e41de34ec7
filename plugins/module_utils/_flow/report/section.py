# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a section type of a report consists of; registry.py lists the types."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Mapping, Sequence


class Titled(t.Protocol):
    """What the page asks of the values of a section."""

    @property
    def title(self) -> str:
        """The title of the section."""


class Figure(t.NamedTuple):
    """A number a reader asks for first, with a note below; bad marks a note that is no good news."""

    name: str
    value: str
    note: str = ""
    bad: bool = False


class Table(t.NamedTuple):
    """A plain table; the first cell of a row names it."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[t.Any]]


Values = t.TypeVar("Values", bound=Titled)


@dataclasses.dataclass(frozen=True, slots=True)
class Section(t.Generic[Values]):
    """One section type, in four parts that meet only in its values.

    The template of a type has its name; a type without one shows lede, figures, tables and remark as far as it
    draws them.
    """

    # From the task's entry to values; the text names the entry in complaints.
    read: Callable[[Mapping[str, t.Any], str], Values]
    # From values to what the template shows.
    draw: Callable[[Values], Mapping[str, t.Any]]
    # What the section holds, in numbers, for the result of the task.
    summary: Callable[[Values], Mapping[str, int]]
    # Its own options, as argument specifications; the first one holds what the section shows.
    options: Mapping[str, Mapping[str, t.Any]]

    @property
    def shows(self) -> str:
        """The name of the option that holds what the section shows."""
        return next(iter(self.options))
