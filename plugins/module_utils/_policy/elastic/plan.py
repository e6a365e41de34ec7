# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One decision about the sizes of all jobs.

Waiting gangs that fit at their minimum start; for those that do not, running jobs shrink; what is free then goes to
gangs that start now and to running jobs, step by step, as the policy says. Nobody shrinks but for a gang that waits,
and a start is never capped.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import Capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import (
    SizeTerms,
    growth_guard,
    untouchable,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import (
    SizeDecision,
    SizePlan,
    SizeReason,
    idle_gpus,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import POLICIES, PolicyName
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.shrinking import (
    MayTake,
    by_priority,
    make_room,
)


def plan_sizes(
    jobs: Iterable[ElasticJob],
    capacity: Capacity,
    *,
    now: float,
    policy: PolicyName = "afs",
    terms: SizeTerms | None = None,
    may_take: MayTake = by_priority,
) -> SizePlan:
    """The size of every job, with a reason for each and for each GPU that is left.

    capacity already holds what running jobs have. The order in which jobs are given makes no difference.
    """
    planning = _Planning(sorted(jobs, key=lambda job: job.order), capacity, now, policy, terms or SizeTerms(), may_take)
    planning.start()
    planning.grow()
    while planning.start():
        planning.grow()
    return planning.plan()


@dataclasses.dataclass(slots=True)
class _Planning:
    """One decision while it is made."""

    jobs: list[ElasticJob]
    capacity: Capacity
    now: float
    policy: PolicyName
    terms: SizeTerms
    may_take: MayTake
    sizes: dict[str, int] = dataclasses.field(default_factory=dict)
    # Whom those who shrink make room for.
    askers: dict[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes = {job.uid: job.size for job in self.jobs}

    def start(self) -> bool:
        """Give gangs that wait their minimum, in the order of the queue; whether any of them starts.

        A start can make room on nodes, since jobs that shrink for it may leave some.
        """
        waiting = [job for job in self.jobs if not self.sizes[job.uid]]
        started = [self._start(job) for job in waiting]
        if any(started):
            self.start()
        return any(started)

    def _start(self, job: ElasticJob) -> bool:
        """One gang, as it is or after others have shrunk for it."""
        room = self.capacity.resized(job, job.range.min)
        shrunk: Mapping[str, int] = {}
        if room is None:
            victims = [other for other in self._untouched() if self.may_take(job, other)]
            made = make_room(self.capacity, job, victims, self.now, self.terms)
            if made is None or len(made[1]) > self._resizes_left():
                return False
            room, shrunk = made
        self.capacity = room
        self.sizes |= {job.uid: job.range.min, **shrunk}
        self.askers |= dict.fromkeys(shrunk, job.uid)
        return True

    def grow(self) -> None:
        """Give what is free away, one step after the other; those first that need not leave their nodes."""
        policy = POLICIES[self.policy]
        refused: set[tuple[str, int]] = set()
        while steps := [step for step in self._steps() if (step.job.uid, step.to) not in refused]:
            near = [step for step in steps if self.capacity.stays(step.job, step.to)]
            step = policy.first(near or steps, self.now)
            room = self.capacity.resized(step.job, step.to)
            if room is None:
                refused.add((step.job.uid, step.to))
                continue
            self.capacity = room
            self.sizes[step.job.uid] = step.to
            if not near:
                # It left its nodes, where others may have room now.
                refused.clear()

    def plan(self) -> SizePlan:
        """The decisions by uid."""
        decisions = {job.uid: self._decision(job) for job in sorted(self.jobs, key=lambda job: job.uid)}
        return SizePlan(decisions, idle_gpus(self.capacity, list(decisions.values())), self.capacity)

    def _untouched(self) -> Iterator[ElasticJob]:
        """Running jobs that have the size they had."""
        return (job for job in self.jobs if not job.waits and self.sizes[job.uid] == job.size)

    def _resizes_left(self) -> float:
        """How many more running jobs may be resized."""
        most = self.terms.most_resizes
        resized = sum(not job.waits and self.sizes[job.uid] != job.size for job in self.jobs)
        return float("inf") if most is None else most - resized

    def _steps(self) -> Iterator[SizeStep]:
        """The next step of each job that may take one."""
        for job in self.jobs:
            step = self._next(job)
            if isinstance(step, SizeStep):
                yield step

    def _next(self, job: ElasticJob) -> SizeStep | SizeReason:
        """The next larger size of a job, or why it gets none."""
        size = self.sizes[job.uid]
        larger = job.range.larger(size) if size else None
        if larger is None:
            return "at_max" if size else "waits"
        if job.waits:
            step = SizeStep(job, size, larger)
            return step if job.curve.at(larger) > job.curve.at(size) else "no_gain"
        return self._growth(job, size)

    def _growth(self, job: ElasticJob, size: int) -> SizeStep | SizeReason:
        """The smallest growth of a running job that is worth it; what it had counts, not what it was given just now."""
        if size < job.size:
            return "shrinks"
        kept = untouchable(job, self.now, self.terms)
        if kept is not None:
            return kept
        if any(not self.sizes[other.uid] for other in self.jobs):
            return "queued_work"
        if size == job.size and self._resizes_left() < 1:
            return "too_many"
        return self._worthy(job, size)

    def _worthy(self, job: ElasticJob, size: int) -> SizeStep | SizeReason:
        """The first larger size that no guard forbids; else what the next one is forbidden by."""
        reason: SizeReason | None = None
        for to in job.range.sizes:
            if to > size:
                guard = growth_guard(SizeStep(job, job.size, to), self.terms)
                if guard is None and job.curve.at(to) > job.curve.at(size):
                    return SizeStep(job, size, to)
                reason = reason or guard or "no_gain"
        return reason or "at_max"

    def _decision(self, job: ElasticJob) -> SizeDecision:
        """What became of one job."""
        size = self.sizes[job.uid]
        larger = job.range.larger(size) if size else job.range.min
        score = POLICIES[self.policy].score(SizeStep(job, size, larger), self.now) if size and larger else None
        return SizeDecision(job.uid, job.size, size, self._reason(job, size), score, self.askers.get(job.uid), larger)

    def _reason(self, job: ElasticJob, size: int) -> SizeReason:
        """In one word."""
        if size != job.size:
            return "starts" if job.waits else "grows" if size > job.size else "shrinks"
        following = self._next(job)
        return "no_room" if isinstance(following, SizeStep) else following
