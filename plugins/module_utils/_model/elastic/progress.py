# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a training is, from reports that may come twice, late or not at all.

A trainer tells its step and its size every half minute, and each checkpoint that is safely stored. Speeds are those of
the steps alone: what a restart or the writing of a checkpoint took is no part of them.
"""

from __future__ import annotations

import dataclasses
import itertools
import statistics
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields, without_none

PROGRESS_FORMAT = 1
# So many intervals between reports are kept for each size, and so many checkpoints.
KEPT_PACES = 20
KEPT_CHECKPOINTS = 8
# An interval whose steps took so many times the usual had a gap in it.
_GAP = 1.5
_MOST = 2**53


class StepSeen(t.NamedTuple):
    """A step that a trainer reported, when, and at which size."""

    time: float
    step: int
    size: int


class StepPace(t.NamedTuple):
    """Steps between two reports of one size, and the seconds they took."""

    steps: int
    seconds: float

    @property
    def per_step(self) -> float:
        """Seconds of one step."""
        return self.seconds / self.steps


class Checkpoint(t.NamedTuple):
    """A step that is safely stored, and since when."""

    time: float
    step: int


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """What is known of a training's progress; each report makes a new one of it."""

    seen: StepSeen | None = None
    total: int | None = None
    paces: Mapping[int, tuple[StepPace, ...]] = dataclasses.field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] = ()

    def at_step(self, time: float, step: int, size: int, total: int | None = None) -> Progress:
        """After a report of a step. One that is no later than the last, or tells the same again, changes nothing.

        A later report of an earlier step is a trainer that was restarted from a checkpoint.
        """
        last = self.seen
        if last is not None and (time <= last.time or (step, size) == (last.step, last.size)):
            return self
        told = dataclasses.replace(self, seen=StepSeen(time, step, size), total=self.total if total is None else total)
        if last is None or size != last.size or step <= last.step:
            return told
        kept = (*self.paces.get(size, ()), StepPace(step - last.step, time - last.time))[-KEPT_PACES:]
        return dataclasses.replace(told, paces={**self.paces, size: kept})

    def at_checkpoint(self, time: float, step: int) -> Progress:
        """After a checkpoint was safely stored; older ones change nothing."""
        last = self.checkpoint
        if last is not None and (time <= last.time or step <= last.step):
            return self
        return dataclasses.replace(self, checkpoints=(*self.checkpoints, Checkpoint(time, step))[-KEPT_CHECKPOINTS:])

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The last one that is safely stored."""
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def checkpoint_interval(self) -> float | None:
        """Seconds that usually pass between two checkpoints; None before the second."""
        times = [item.time for item in self.checkpoints]
        between = [later - earlier for earlier, later in itertools.pairwise(times)]
        return statistics.median(between) if between else None

    @property
    def remaining(self) -> int | None:
        """Steps that are left; None when nobody told how many there are."""
        if self.total is None:
            return None
        return max(0, self.total - (self.seen.step if self.seen is not None else 0))

    @property
    def share(self) -> float | None:
        """The part that is done, from 0 to 1; None when nobody told how much there is."""
        return None if not self.total or self.remaining is None else 1 - self.remaining / self.total

    def speed(self, size: int) -> float | None:
        """Steps a second at a size, without gaps; None when it was not seen there long enough."""
        paces = self.paces.get(size, ())
        if not paces:
            return None
        usual = statistics.median_low(pace.per_step for pace in paces)
        steady = [pace for pace in paces if pace.per_step <= _GAP * usual]
        return sum(pace.steps for pace in steady) / sum(pace.seconds for pace in steady)

    @property
    def speeds(self) -> dict[int, float]:
        """Steps a second at all sizes that were measured."""
        found = {size: self.speed(size) for size in self.paces}
        return {size: speed for size, speed in sorted(found.items()) if speed is not None}

    def unsaved(self, step: int | None = None) -> int:
        """Steps that would have to be computed again if the training were killed now."""
        here = step if step is not None else self.seen.step if self.seen is not None else 0
        return max(0, here - (self.checkpoint.step if self.checkpoint is not None else 0))

    def as_data(self) -> Data:
        """The progress as it is stored."""
        paces = {str(size): [list(pace) for pace in kept] for size, kept in sorted(self.paces.items())}
        stored = [list(item) for item in self.checkpoints]
        seen = None if self.seen is None else self.seen._asdict()
        told = without_none({"seen": seen, "total": self.total, "paces": paces or None, "checkpoints": stored or None})
        return {"format": PROGRESS_FORMAT, **told}


def read_progress(data: t.Any, where: str) -> Progress:
    """Progress as it was stored; BadInput when somebody damaged it."""
    fields = Fields(data, where)
    fields.require_format(PROGRESS_FORMAT)
    seen = Fields(fields.mapping("seen"), f"{where}: seen") if fields.get("seen") is not None else None
    return Progress(
        seen=None if seen is None else StepSeen(seen.number("time"), seen.whole("step", 0, _MOST), _size(seen)),
        total=None if fields.get("total") is None else fields.whole("total", 0, _MOST),
        paces={int(size): _paces(fields, size) for size in fields.mapping("paces") if str(size).isdecimal()},
        checkpoints=tuple(Checkpoint(time, int(step)) for time, step in _pairs(fields, "checkpoints")),
    )


def _size(fields: Fields) -> int:
    return fields.whole("size", 1, _MOST, required=True)


def _paces(fields: Fields, size: str) -> tuple[StepPace, ...]:
    """The intervals of one size; without steps or time they would say nothing."""
    entry = Fields(fields.mapping("paces"), f"{fields.where}: paces")
    return tuple(StepPace(int(steps), seconds) for steps, seconds in _pairs(entry, size) if steps >= 1 and seconds > 0)


def _pairs(fields: Fields, key: str) -> list[tuple[float, float]]:
    """Pairs of numbers that are not negative."""
    found = []
    for index, item in enumerate(fields.sequence(key)):
        place = f"{key}[{index}]"
        if not isinstance(item, list) or len(item) != 2:
            raise fields.fail(place, f"two numbers are needed, not {item!r}")
        pair = Fields({"first": item[0], "second": item[1]}, f"{fields.where}: {place}")
        found.append((pair.number("first"), pair.number("second")))
    return found
