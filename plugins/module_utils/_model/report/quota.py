# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota trees as a report shows them: queues with their amounts, and what an administrator should look at."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True, slots=True)
class AmountRow:
    """One resource of a queue, in scaled amounts; those of use are None where nobody could see it."""

    resource: str
    flavor: str
    entitled: int
    used: int | None
    borrowed: int | None
    lent: int | None
    headroom: int | None
    idle: int | None

    @property
    def name(self) -> str:
        """The resource, with its flavor if it has one."""
        return f"{self.resource} of {self.flavor}" if self.flavor else self.resource

    @property
    def own(self) -> int:
        """What is used of the queue's own amount."""
        return max(0, (self.used or 0) - (self.borrowed or 0))

    @property
    def matters(self) -> bool:
        """Whether the queue has or uses any of it."""
        return bool(self.entitled or self.used)


@dataclasses.dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue with its place in the tree; started and waiting are None where nobody could see them."""

    name: str
    path: str
    depth: int
    stop: str
    started: int | None
    waiting: int | None
    amounts: tuple[AmountRow, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class TreeRows:
    """One tree; pairs, unqueued and drift are lines of tables as they were told."""

    name: str
    problem: str
    as_of: str
    published: bool
    queues: tuple[QueueRow, ...]
    fairness: Mapping[str, float | None]
    pairs: Sequence[Sequence[str]] = ()
    unqueued: Sequence[Sequence[str]] = ()
    drift: Sequence[Sequence[str]] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaTreeSection:
    """The section of a report."""

    title: str
    trees: tuple[TreeRows, ...]

    @property
    def queues(self) -> int:
        """How many queues there are."""
        return sum(len(tree.queues) for tree in self.trees)
