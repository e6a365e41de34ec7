# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""On which terms a gang is elastic: its range, a size that its user insists on, and when it may be resized."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.job_range import range_of
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import DeclaredRange, Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import (
    MOST,
    Profile,
    read_profile,
    read_range,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Object
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields, without_none
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

# At once, when the trainer has saved, or at once with time to save after SIGTERM.
Timing = t.Literal["now", "at_checkpoint", "on_sigterm"]

# What becomes of a resize for which no checkpoint came: another gang takes its place, or it is carried out anyway.
OnTimeout = t.Literal["give_up", "now"]

TIMINGS: tuple[Timing, ...] = t.get_args(Timing)
ON_TIMEOUT: tuple[OnTimeout, ...] = t.get_args(OnTimeout)
TERM_KEYS = (
    *("range", "size", "timing", "checkpoint_timeout", "on_timeout", "cooldown", "restart_cost", "deadline"),
    "profile",
)
COOLDOWN = 60.0
RESTART_COST = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class ElasticTerms:
    """What a gang's record says of its elasticity.

    range is what follows from declared and the objects; declared is None where the objects alone name it. size is one
    that the user wants, whatever a policy would choose. checkpoint_timeout is how long a planned resize waits for a
    checkpoint, None for twice the usual time between two. restart_cost are the seconds that a resize costs it: to
    save, stop, start and load. deadline is when it should be done, as a time in text. profile is how fast its user
    knows it to be at some sizes; only their ratios count.
    """

    range: Range
    declared: DeclaredRange | None = None
    size: int | None = None
    timing: Timing = "at_checkpoint"
    checkpoint_timeout: float | None = None
    on_timeout: OnTimeout = "give_up"
    cooldown: float = COOLDOWN
    restart_cost: float = RESTART_COST
    deadline: str | None = None
    profile: Profile = ()

    @property
    def due(self) -> float | None:
        """The deadline in seconds since 1970; None without one."""
        return read_time(self.deadline)

    @property
    def wanted(self) -> Range:
        """The range that it may be given sizes of."""
        return self.range if self.size is None else dataclasses.replace(self.range, sizes=(self.size,))

    def as_data(self) -> Data:
        """Plain values from which read_terms makes the same terms again."""
        own = {key: getattr(self, key) for key in TERM_KEYS if key != "range"}
        if self.on_timeout == "give_up":
            del own["on_timeout"]
        own["profile"] = {str(size): speed for size, speed in self.profile} or None
        return without_none({"range": None if self.declared is None else self.declared.as_data(), **own})

    def as_result(self) -> Data:
        """The terms as results tell them, with what follows from the objects."""
        found = self.range
        told = {"sizes": list(found.sizes), "resource": found.resource, "podset": found.podset, "axis": found.axis}
        return {**told, "size": self.size}


def read_terms(fields: Fields, objects: Sequence[Object], namespace: str, *, stored: bool = False) -> ElasticTerms:
    """The terms of plain values and a gang's objects; BadInput tells what is wrong with them.

    The caller has looked for keys that are unknown.
    """
    given = fields.get("range")
    declared = None if given is None else read_range(given, stored=stored)
    found = range_of(objects, declared, namespace=namespace)
    if found is None:
        raise fields.fail("range", "neither this nor an object of the gang names the sizes that it may have")
    return ElasticTerms(
        range=found,
        declared=declared,
        size=_size(fields, found),
        timing=fields.choice("timing", TIMINGS, "at_checkpoint"),
        checkpoint_timeout=fields.duration("checkpoint_timeout", None),
        on_timeout=fields.choice("on_timeout", ON_TIMEOUT, "give_up"),
        cooldown=fields.duration("cooldown", COOLDOWN),
        restart_cost=fields.duration("restart_cost", RESTART_COST),
        deadline=_deadline(fields),
        profile=read_profile(fields),
    )


def _deadline(fields: Fields) -> str | None:
    """The time at which the work should be done."""
    text = fields.text("deadline")
    if text is not None and read_time(text) is None:
        raise fields.fail("deadline", f"a time such as 2026-01-31T18:00:00Z is needed, not {text!r}")
    return text


def _size(fields: Fields, range_: Range) -> int | None:
    """The size that the user wants; None leaves it to the policy."""
    if fields.get("size") is None:
        return None
    size = fields.whole("size", 1, MOST)
    if size not in range_.sizes:
        raise fields.fail("size", f"{size} is none of the allowed sizes {', '.join(map(str, range_.sizes))}")
    return size
