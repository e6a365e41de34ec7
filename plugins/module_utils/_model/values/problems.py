# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that is wrong with what somebody wrote, told at once and not the first mistake only."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields

_Value = t.TypeVar("_Value")


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where (an object, or a part of what was written), in which field, and why."""

    where: str
    field: str
    cause: str

    def __str__(self) -> str:
        place = f"{self.where}: {self.field}" if self.field else self.where
        return f"{place}: {self.cause}"


class SeveralProblems(BadInput):
    """Something that is refused, with everything that is wrong with it."""

    def __init__(self, target: str, problems: Sequence[Problem]) -> None:
        """Keep the problems apart so that results can list them."""
        several = f"{len(problems)} things are wrong: " if len(problems) > 1 else ""
        super().__init__("read", target, several + "; ".join(map(str, problems)))
        self.problems = tuple(problems)

    def as_result(self) -> Data:
        """The keys a module adds to its failure result, the problems one by one among them."""
        return {**super().as_result(), "problems": [dataclasses.asdict(item) for item in self.problems]}


class Attempts:
    """One reading of several fields, with the problems found so far."""

    def __init__(self) -> None:
        """Nothing is wrong yet."""
        self.problems: list[Problem] = []

    def read(self, where: str, fields: Fields, read: Callable[[Fields], _Value], usual: _Value) -> _Value:
        """What a field says; when it is wrong that is noted, and the usual value stands in for it."""
        try:
            return read(fields)
        except NewerVersion:
            raise
        except BadInput as error:
            field = error.target.removeprefix(where).removeprefix(": ").replace(": ", ".")
            self.problems.append(Problem(where, field, error.cause))
            return usual
