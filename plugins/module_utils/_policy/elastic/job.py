# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A job to which sizes are given, running or waiting, and one step of its size."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import Timing
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.timing import lost_seconds

_T = t.TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class ElasticJob:
    """What is known of one job at the moment of a decision; a gang of fixed size has a range of one size.

    Times are seconds since some common moment. size is 0 while it waits; target is the size that a resize under way
    leads to, planned one that waits for a checkpoint. remaining and total are steps, None when nobody told. gained is
    what waiting added to its priority. ran is how long it has run. missed is when a resize was given up since no
    checkpoint came for it. restart is what a resize costs it: to save, stop, start and load, and what would be lost.
    busy is any other reason not to touch it. Others have shrunk, or are about to, for a gang that is nominated. most is
    the largest size that more than nodes lets it have; None where nobody has asked.
    """

    uid: str
    range: Range
    size: int = 0
    curve: SpeedCurve = dataclasses.field(default_factory=SpeedCurve)
    remaining: float | None = None
    total: float | None = None
    priority: int = 0
    gained: float = 0.0
    submitted: float = 0.0
    resized: float | None = None
    ran: float = 0.0
    most: int | None = None
    checkpointed: float | None = None
    missed: float | None = None
    timing: Timing = "at_checkpoint"
    attained: float = 0.0
    deadline: float | None = None
    restart: float = 60.0
    cooldown: float = 60.0
    target: int | None = None
    planned: int | None = None
    busy: str | None = None
    nominated: bool = False
    # What follows from the job whatever time it is, once somebody has asked for it.
    notes: dict[t.Hashable, t.Any] = dataclasses.field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def waits(self) -> bool:
        """Whether it has not been started."""
        return self.size == 0

    @property
    def order(self) -> tuple[float, float, str]:
        """Who comes first in the queue."""
        return -(self.priority + self.gained), self.submitted, self.uid

    @property
    def heading(self) -> int:
        """The size it has, or that it gets by a resize under way."""
        return self.size if self.target is None else self.target

    @property
    def leaning(self) -> int:
        """In which direction its trainer was asked to save for: 1 to grow, -1 to shrink, 0 for neither."""
        return 0 if self.planned is None else (self.planned > self.size) - (self.planned < self.size)

    @property
    def share(self) -> float | None:
        """The part that is done; None when nobody told how much there is."""
        return None if not self.total or self.remaining is None else 1 - self.remaining / self.total

    def at(self, ran: float, attained: float, restart: float) -> ElasticJob:
        """The same job at another moment: what time alone changes of it. There are many, and this is done to all."""
        job = ElasticJob(
            self.uid,
            self.range,
            self.size,
            self.curve,
            self.remaining,
            self.total,
            self.priority,
            self.gained,
            self.submitted,
            self.resized,
            ran,
            self.most,
            self.checkpointed,
            self.missed,
            self.timing,
            attained,
            self.deadline,
            restart,
            self.cooldown,
            self.target,
            self.planned,
            self.busy,
            self.nominated,
        )
        object.__setattr__(job, "notes", self.notes)
        return job

    def noted(self, key: t.Hashable, work_out: Callable[[], _T]) -> _T:
        """What follows from the job whatever time it is, worked out once."""
        found: _T | None = self.notes.get(key)
        if found is None:
            found = self.notes[key] = work_out()
        return found

    def speed(self, size: int) -> float:
        """How fast it is at a size."""
        found: float | None = self.notes.get(size)
        if found is None:
            found = self.notes[size] = self.curve.at(size)
        return found

    def left(self, size: int) -> float:
        """Seconds to its end at a size; where nobody knows, as long again as it has run so far."""
        speed = self.speed(size)
        if self.remaining is not None and self.curve.known:
            return self.remaining / speed
        return self.ran * self.speed(self.size or self.range.min) / speed


@dataclasses.dataclass(frozen=True, slots=True)
class SizeStep:
    """One job from one size to another."""

    job: ElasticJob
    size: int
    to: int

    @property
    def gpus(self) -> int:
        """How many GPUs it takes, or gives back."""
        return abs(self.job.range.gpus(self.to) - self.job.range.gpus(self.size))

    @property
    def saved(self) -> float:
        """Seconds by which the job ends earlier; negative when it ends later."""
        return self.job.left(self.size) - self.job.left(self.to)

    @property
    def speedup(self) -> float:
        """By what each GPU of the step multiplies the speed."""
        return float((self.job.speed(self.to) / self.job.speed(self.size)) ** (1 / max(1, self.gpus)))


def informed(job: ElasticJob, progress: Progress, now: float) -> ElasticJob:
    """The job with what its trainer reported; its restart then also costs what would be computed again."""
    checkpoint = progress.checkpoint
    saved = None if checkpoint is None else checkpoint.time
    return dataclasses.replace(
        job,
        curve=dataclasses.replace(job.curve, measured=progress.speeds),
        remaining=progress.remaining,
        total=progress.total,
        checkpointed=saved,
        restart=job.restart + lost_seconds(job.timing, saved, job.ran, now),
    )
