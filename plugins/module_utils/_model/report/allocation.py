# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which GPUs elastic jobs held over time, and how their sizes changed; arithmetic only.

Times are seconds since 1970. What nobody knows is None, and stays so in all that follows from it.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing as t
from collections.abc import Iterable, Mapping, Sequence

# How a resize ended; one that is not over yet is under way, and of one that is unknown nobody noted the end.
ResizeEnd = t.Literal["verified", "rolled back", "under way", "given up", "unknown"]


@dataclasses.dataclass(frozen=True, slots=True)
class NotedSize:
    """What a record noted: from when on which size was held, with its GPUs; running once all pods had a node."""

    at: float
    size: int | None
    gpus: int | None
    running: bool = False
    resize: NotedResize | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NotedResize:
    """A resize as it was begun."""

    size: int
    to: int
    method: str
    why: str
    lost_seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Holding:
    """A stretch of time in which the same was held; size and GPUs are None where nobody noted them."""

    start: float
    end: float
    size: int | None
    gpus: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class ResizeRow:
    """One resize from its beginning until all pods had a node; end is None where that is not known."""

    at: float
    begun: NotedResize
    end: float | None
    outcome: ResizeEnd

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        return None if self.end is None else self.end - self.at

    @property
    def grows(self) -> bool:
        """Whether the size became larger."""
        return self.begun.to > self.begun.size


@dataclasses.dataclass(frozen=True, slots=True)
class TrainingRow:
    """How far a training is; speeds are steps a second by size, saved are moments and steps of checkpoints."""

    step: int | None = None
    total: int | None = None
    share: float | None = None
    speeds: Mapping[int, float] = dataclasses.field(default_factory=dict)
    saved: tuple[tuple[float, int], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class JobRow:
    """One job; sizes is its range, size what it has now, waits the stretches in which it was queued.

    endings are the stretches in which it was taken back: its pods ended at some moment of them, which nobody noted.

    A gang of fixed size has no range and no size. plan is a change that waits for a checkpoint, in words. lost_seconds
    is None where nobody told anything. training is None where nothing is known of it.
    """

    name: str
    namespace: str
    queue: str
    phase: str
    resource: str
    held: tuple[Holding, ...]
    sizes: tuple[int, ...] = ()
    size: int | None = None
    waits: tuple[tuple[float, float], ...] = ()
    endings: tuple[tuple[float, float], ...] = ()
    resizes: tuple[ResizeRow, ...] = ()
    plan: str = ""
    restarts: int | None = None
    lost_seconds: float | None = None
    training: TrainingRow | None = None
    ended: float | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def gpu_seconds(self) -> int | float:
        """GPUs times seconds, as far as they are known."""
        return sum((item.gpus or 0) * (item.end - item.start) for item in self.held)


@dataclasses.dataclass(frozen=True, slots=True)
class OtherPod:
    """A pod that belongs to none of the jobs and holds GPUs."""

    name: str
    resource: str
    start: float
    gpus: int


@dataclasses.dataclass(frozen=True, slots=True)
class AllocationStretch:
    """A stretch in which nothing changed: GPUs by place of the job, those of other pods, and whose GPUs are unknown."""

    start: float
    end: float
    amounts: tuple[tuple[int, int], ...]
    others: int
    unknown: tuple[int, ...] = ()

    @property
    def total(self) -> int:
        """All that is known to be held."""
        return self.others + sum(gpus for _place, gpus in self.amounts)


@dataclasses.dataclass(frozen=True, slots=True)
class Allocation:
    """The section: jobs in order, and what else held GPUs. until is the last moment that anything is known of."""

    title: str
    jobs: tuple[JobRow, ...]
    others: tuple[OtherPod, ...] = ()
    as_of: float | None = None
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)
    first: float | None = None
    until: float | None = None

    @property
    def resources(self) -> list[str]:
        """The resources that anybody held, those that were held most first."""
        used: dict[str, float] = {}
        for job in self.jobs:
            if job.resource:
                used[job.resource] = used.get(job.resource, 0.0) + job.gpu_seconds
        return sorted(used, key=lambda name: (-used[name], name))

    @property
    def resizes(self) -> int:
        """How many resizes are known."""
        return sum(len(job.resizes) for job in self.jobs)

    def stretches(self, resource: str) -> tuple[AllocationStretch, ...]:
        """Who held how much of a resource from the first moment to the last; neighbors that are equal are one."""
        if self.first is None or self.until is None:
            return ()
        changes: dict[float, list[_Change]] = {self.first: [], self.until: []}
        for place, job in enumerate(self.jobs):
            for item in job.held if job.resource == resource else ():
                changes.setdefault(item.start, []).append(_Change("held", place, item.gpus))
                changes.setdefault(item.end, []).append(_Change("held", place, 0))
            for start, end in job.endings if job.resource == resource else ():
                changes.setdefault(start, []).append(_Change("ending", place, 1))
                changes.setdefault(end, []).append(_Change("ending", place, 0))
        for pod in self.others:
            if pod.resource == resource:
                changes.setdefault(max(self.first, pod.start), []).append(_Change("others", 0, pod.gpus))
        return _swept(changes, self.capacity.get(resource))


class _Change(t.NamedTuple):
    """What is different from a moment on: of which job, and the GPUs, None where nobody knows."""

    what: t.Literal["held", "ending", "others"]
    place: int
    gpus: int | None


def _swept(changes: Mapping[float, Sequence[_Change]], capacity: int | None) -> tuple[AllocationStretch, ...]:
    """The stretches between changes; at one moment an end makes room for what begins.

    What a job that is taken back held counts until others have the room at the latest.
    """
    found: list[AllocationStretch] = []
    held: dict[int, int | None] = {}
    ending: dict[int, int | None] = {}
    others = 0
    for start, end in itertools.pairwise(sorted(changes)):
        for change in sorted(changes[start], key=lambda change: change.gpus != 0):
            if change.what == "others":
                others += change.gpus or 0
            else:
                (held if change.what == "held" else ending)[change.place] = change.gpus
        amounts = tuple((place, gpus) for place, gpus in sorted(held.items()) if gpus)
        if capacity is not None and others + sum(gpus for _place, gpus in amounts) > capacity:
            amounts = tuple((place, gpus) for place, gpus in amounts if not ending.get(place))
        unknown = tuple(place for place, gpus in sorted(held.items()) if gpus is None)
        if found and (found[-1].amounts, found[-1].others, found[-1].unknown) == (amounts, others, unknown):
            found[-1] = dataclasses.replace(found[-1], end=end)
        else:
            found.append(AllocationStretch(start, end, amounts, others, unknown))
    return tuple(found)


def used_share(stretches: Sequence[AllocationStretch], capacity: int | None) -> float | None:
    """The part of what there is that was held over time, from 0 to 1; None where anything of it is unknown."""
    seconds = sum(item.end - item.start for item in stretches)
    if not capacity or not seconds or any(item.unknown for item in stretches):
        return None
    return sum(item.total * (item.end - item.start) for item in stretches) / (capacity * seconds)


def holdings(noted: Iterable[NotedSize], until: float) -> tuple[Holding, ...]:
    """The stretches in which anything was held; a clock that went back gives no time."""
    entries = list(noted)
    starts = list(itertools.accumulate((item.at for item in entries), max))
    ends = [*starts[1:], *(max(until, start) for start in starts[-1:])]
    found: list[Holding] = []
    for item, start, end in zip(entries, starts, ends, strict=True):
        if item.gpus == 0 or end <= start:
            continue
        last = found[-1] if found else None
        if last is not None and last.end == start and (last.size, last.gpus) == (item.size, item.gpus):
            found[-1] = dataclasses.replace(last, end=end)
        else:
            found.append(Holding(start, end, item.size, item.gpus))
    return tuple(found)


def resize_rows(noted: Sequence[NotedSize], *, open_end: ResizeEnd) -> tuple[ResizeRow, ...]:
    """The resizes that were begun, each with its end; open_end is what became of the last one if nobody noted it."""
    begun = [(place, item, item.resize) for place, item in enumerate(noted) if item.resize is not None]
    rows = []
    for number, (place, item, resize) in enumerate(begun):
        last = number + 1 == len(begun)
        following = noted[place + 1 :] if last else noted[place + 1 : begun[number + 1][0]]
        rows.append(_resize_row(item.at, resize, following, open_end if last else "given up"))
    return tuple(rows)


def _resize_row(at: float, resize: NotedResize, following: Sequence[NotedSize], open_end: ResizeEnd) -> ResizeRow:
    """One resize: it is over when all pods had a node again, at whatever size."""
    for item in following:
        if item.size is None:
            break
        if item.running:
            outcome: ResizeEnd = "verified" if item.size == resize.to else "rolled back"
            return ResizeRow(at, resize, max(at, item.at), outcome)
    unnoted = any(item.size is None for item in following)
    return ResizeRow(at, resize, None, "unknown" if unnoted else open_end)
