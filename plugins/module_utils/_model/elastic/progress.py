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
import re
import statistics
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields, without_none
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import LAST_MOMENT

PROGRESS_FORMAT = 1
# So many intervals between reports are kept for each size, and so many checkpoints.
KEPT_PACES = 20
KEPT_CHECKPOINTS = 8
# Of so many sizes at most: who reports may make them up.
KEPT_SIZES = 64
# An interval whose steps took so many times the usual had a gap in it.
_GAP = 1.5
_MOST = 2**53
# Steps of an epoch, and what a step is at most a part of.
MOST_EACH = 1e12
# Whoever reports may make numbers up, and nobody reckons with these.
_SHORTEST = 1e-3
_FASTEST = 1e9
_SIZE = re.compile("[1-9][0-9]{0,8}")


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

    @property
    def plausible(self) -> bool:
        """Whether any training could have taken it."""
        return self.steps >= 1 and self.seconds >= _SHORTEST and 1 / _FASTEST <= self.steps / self.seconds <= _FASTEST


class Checkpoint(t.NamedTuple):
    """A step that is safely stored, and since when."""

    time: float
    step: int


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """What is known of a training's progress; each report makes a new one of it.

    epoch_steps is how many steps an epoch has, for trainings that tell epochs; None where nobody told any.
    """

    seen: StepSeen | None = None
    total: int | None = None
    paces: Mapping[int, tuple[StepPace, ...]] = dataclasses.field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] = ()
    epoch_steps: float | None = None

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
        pace = StepPace(step - last.step, time - last.time)
        if not pace.plausible:
            return told
        kept = (*self.paces.get(size, ()), pace)[-KEPT_PACES:]
        others = {other: paces for other, paces in self.paces.items() if other != size}
        return dataclasses.replace(told, paces={**dict(sorted(others.items())[: KEPT_SIZES - 1]), size: kept})

    def at_checkpoint(self, time: float, step: int, *, answers: bool = False) -> Progress:
        """After a checkpoint was safely stored; older ones change nothing. One that answers a question has its time."""
        last = self.checkpoint
        if answers and last is not None and step == last.step and time > last.time:
            return dataclasses.replace(self, checkpoints=(*self.checkpoints[:-1], Checkpoint(time, step)))
        if last is not None and (time <= last.time or step <= last.step):
            return self
        return dataclasses.replace(self, checkpoints=(*self.checkpoints, Checkpoint(time, step))[-KEPT_CHECKPOINTS:])

    def at_end(self) -> Progress:
        """After the training has said that it is done: the step it was seen at is the last one."""
        return self if self.seen is None else dataclasses.replace(self, total=self.seen.step)

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
        told = {"seen": seen, "total": self.total, "paces": paces or None, "checkpoints": stored or None}
        return {"format": PROGRESS_FORMAT, **without_none({**told, "epoch_steps": self.epoch_steps})}


def read_progress(data: t.Any, where: str) -> Progress:
    """Progress as it was stored; BadInput when somebody damaged it."""
    fields = Fields(data, where)
    fields.require_format(PROGRESS_FORMAT)
    seen = Fields(fields.mapping("seen"), f"{where}: seen") if fields.get("seen") is not None else None
    return Progress(
        seen=None if seen is None else StepSeen(_time(seen, "time"), seen.whole("step", 0, _MOST), _size(seen)),
        total=None if fields.get("total") is None else fields.whole("total", 0, _MOST),
        paces={int(size): _paces(fields, size) for size in _sizes(fields)[:KEPT_SIZES]},
        checkpoints=_checkpoints(fields)[-KEPT_CHECKPOINTS:],
        epoch_steps=_each(fields),
    )


def _time(fields: Fields, key: str) -> float:
    """A moment in seconds since 1970, before the year 10000: later ones cannot be told."""
    time = fields.number(key)
    if time > LAST_MOMENT:
        raise fields.fail(key, f"{time:g} is no time in seconds since 1970")
    return time


def _checkpoints(fields: Fields) -> tuple[Checkpoint, ...]:
    """The checkpoints that were told."""
    pairs = _pairs(fields, "checkpoints")
    times = [_time(Fields({"time": time}, f"{fields.where}: checkpoints"), "time") for time, _step in pairs]
    return tuple(Checkpoint(time, int(step)) for time, (_same, step) in zip(times, pairs, strict=True))


def _each(fields: Fields) -> float | None:
    """How many steps an epoch has."""
    each = fields.number("epoch_steps")
    if each and not 1 / MOST_EACH <= each <= MOST_EACH:
        raise fields.fail("epoch_steps", f"an epoch of {each:g} steps makes no sense")
    return each or None


def _size(fields: Fields) -> int:
    return fields.whole("size", 1, _MOST, required=True)


def _sizes(fields: Fields) -> list[str]:
    """The sizes of which intervals are told."""
    return [size for size in fields.mapping("paces") if _SIZE.fullmatch(str(size))]


def _paces(fields: Fields, size: str) -> tuple[StepPace, ...]:
    """The intervals of one size; without steps or time they would say nothing."""
    entry = Fields(fields.mapping("paces"), f"{fields.where}: paces")
    told = [StepPace(int(steps), seconds) for steps, seconds in _pairs(entry, size)]
    return tuple(pace for pace in told if pace.plausible)[-KEPT_PACES:]


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
