# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make room for a gang that waits: which running jobs shrink, and to which sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import Capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import (
    SizeTerms,
    shrink_guard,
    untouchable,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import least_harm

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
    if not victims or _given(capacity, asker, victims, {job.uid: job.range.min for job in victims}) is None:
        return None
    alone = [step for job in victims if (step := _alone(capacity, asker, job)) is not None]
    if alone:
        step = least_harm(alone)
        return _given(capacity, asker, victims, {step.job.uid: step.to})
    return _together(capacity, asker, victims)


def _alone(capacity: Capacity, asker: ElasticJob, victim: ElasticJob) -> SizeStep | None:
    """The smallest shrink of one job by which the asker fits."""
    smaller = [size for size in reversed(victim.range.sizes) if size < victim.size]
    steps = (SizeStep(victim, victim.size, size) for size in smaller)
    return next((step for step in steps if _given(capacity, asker, [victim], {victim.uid: step.to}) is not None), None)


def _together(
    capacity: Capacity, asker: ElasticJob, victims: Iterable[ElasticJob]
) -> tuple[Capacity, dict[str, int]] | None:
    """One after the other to its minimum, whom it harms least first, until the asker fits; then back up as may be."""
    left = list(victims)
    taken: list[ElasticJob] = []
    sizes: dict[str, int] = {}
    given = None
    while given is None:
        if not left:
            return None
        taken.append(least_harm([SizeStep(job, job.size, job.range.min) for job in left]).job)
        left.remove(taken[-1])
        sizes[taken[-1].uid] = taken[-1].range.min
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
