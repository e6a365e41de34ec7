# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make room for a gang that waits: which running jobs shrink, and to which sizes."""

from __future__ import annotations

import heapq
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import Capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import (
    SizeTerms,
    shrink_guard,
    untouchable,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import Harm, harm, least_harm

# Whether a gang that waits may take from a running job.
MayTake = Callable[[ElasticJob, ElasticJob], bool]
_Sizes = Mapping[str, int]


def by_priority(asker: ElasticJob, victim: ElasticJob) -> bool:
    """Nobody takes from a job of higher priority."""
    return victim.priority <= asker.priority


def may_shrink(job: ElasticJob, now: float, terms: SizeTerms) -> bool:
    """Whether a running job can give anything away, and no guard forbids it."""
    if job.size <= job.range.min or untouchable(job, now, terms) is not None:
        return False
    return shrink_guard(SizeStep(job, job.size, job.size), terms) is None


def make_room(
    capacity: Capacity, asker: ElasticJob, victims: Sequence[ElasticJob]
) -> tuple[Capacity, dict[str, int]] | None:
    """The room after the asker was given its minimum, and the new sizes of those who shrink for it.

    One victim is better than several: each is a restart. None when all of them together do not help.
    """
    if not victims or not capacity.has_gpus(asker, asker.range.min, [(job, job.range.min) for job in victims]):
        return None
    step = _least_harm(capacity, asker, [job for job in victims if job.leaning < 0])
    step = step or _least_harm(capacity, asker, [job for job in victims if job.leaning >= 0])
    if step is not None:
        return _given(capacity, asker, victims, {step.job.uid: step.to})
    if _given(capacity, asker, victims, {job.uid: job.range.min for job in victims}) is None:
        return None
    return _together(capacity, asker, victims)


def _least_harm(capacity: Capacity, asker: ElasticJob, victims: Iterable[ElasticJob]) -> SizeStep | None:
    """The shrink of one job that harms it least, of those by which the asker fits.

    Of each job that is its smallest one. Looked at first are those whose shrinks could harm least: to look for places
    takes far longer than to compare.
    """
    heap: list[tuple[Harm, ElasticJob, tuple[_Try, ...]]] = [(least_harm(job), job, ()) for job in victims]
    heapq.heapify(heap)
    while heap:
        _harm, job, steps = heapq.heappop(heap)
        if not steps:
            # Only now it is asked which of its shrinks could be enough.
            able = _tries(capacity, asker, job)
            if able:
                heapq.heappush(heap, (_least(able), job, able))
            continue
        first = steps[0].step
        if steps[0].fits:
            return first
        if _given(capacity, asker, [job], {job.uid: first.to}) is not None:
            heapq.heappush(heap, (harm(first), job, (_Try(first, fits=True),)))
        elif len(steps) > 1:
            heapq.heappush(heap, (_least(steps[1:]), job, steps[1:]))
    return None


class _Try(t.NamedTuple):
    """A shrink of a job, and whether it is known that the asker fits then."""

    step: SizeStep
    fits: bool = False


def _least(steps: Sequence[_Try]) -> Harm:
    """The least that any of them harms."""
    return min(harm(item.step) for item in steps)


def _tries(capacity: Capacity, asker: ElasticJob, job: ElasticJob) -> tuple[_Try, ...]:
    """The shrinks of a job that could be enough, the smallest first."""
    least = asker.range.min
    sizes = [size for size in reversed(job.range.sizes) if size < job.size]
    able = (size for size in sizes if capacity.has_gpus(asker, least, [(job, size)]))
    return tuple(_Try(SizeStep(job, job.size, size)) for size in able)


def _together(
    capacity: Capacity, asker: ElasticJob, victims: Iterable[ElasticJob]
) -> tuple[Capacity, dict[str, int]] | None:
    """One after the other to its minimum, whom it harms least first, until the asker fits; then back up as may be."""
    steps = (SizeStep(job, job.size, job.range.min) for job in victims)
    left = [step.job for step in sorted(steps, key=lambda step: (step.job.leaning >= 0, harm(step)))]
    taken: list[ElasticJob] = []
    sizes: dict[str, int] = {}
    given = None
    while given is None:
        if not left:
            return None
        taken.append(left.pop(0))
        sizes[taken[-1].uid] = taken[-1].range.min
        if capacity.has_gpus(asker, asker.range.min, [(job, job.range.min) for job in taken]):
            given = _given(capacity, asker, taken, sizes)
    for job in reversed(taken):
        for size in (size for size in reversed(job.range.sizes) if size <= job.size):
            back = _given(capacity, asker, taken, {**sizes, job.uid: size})
            if back is not None:
                given, sizes[job.uid] = back, size
                break
    return given


def _given(
    capacity: Capacity, asker: ElasticJob, victims: Iterable[ElasticJob], sizes: _Sizes
) -> tuple[Capacity, dict[str, int]] | None:
    """The room with these sizes and the asker at its minimum; None when it does not fit."""
    room: Capacity | None = capacity
    shrunk = {job.uid: sizes[job.uid] for job in victims if sizes.get(job.uid, job.size) != job.size}
    for job in victims:
        if job.uid in shrunk and room is not None:
            room = room.resized(job, shrunk[job.uid])
    room = room.resized(asker, asker.range.min) if room is not None else None
    return None if room is None else (room, shrunk)
