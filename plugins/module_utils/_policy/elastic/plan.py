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

import functools
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import Capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.growth import Growing
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import (
    SizeDecision,
    SizeDecisions,
    SizePlan,
    SizeReason,
    When,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import POLICIES, PolicyName
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.queue_start import Starting
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.shrinking import MayTake, by_priority
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.sizes_so_far import SizesSoFar


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

    capacity already holds what running jobs have; of one that is resized, the larger of both sizes. The order in which
    jobs are given makes no difference.
    """
    ordered = sorted(jobs, key=lambda job: job.order)
    sizes = SizesSoFar(ordered, capacity, now, terms or SizeTerms())
    starting, growing = Starting(sizes, may_take), Growing(sizes, POLICIES[policy])
    starting.start()
    growing.grow()
    # A job that grew may have left nodes on which a gang now fits.
    while starting.start():
        growing.grow()
    return _Telling(sizes, starting, growing, capacity).plan()


class _Telling:
    """What was decided, in words; present is the room as it was before."""

    def __init__(self, sizes: SizesSoFar, starting: Starting, growing: Growing, present: Capacity) -> None:
        """Take what was decided for good."""
        self.sizes, self.starting, self.growing, self.present = sizes, starting, growing, present

    def plan(self) -> SizePlan:
        """The decisions by uid."""
        jobs = {job.uid: job for job in self.sizes.jobs}
        decisions = SizeDecisions(sorted(jobs), lambda uid: self._decision(jobs[uid]))
        changed = sorted(job.uid for job in self._changed)
        return SizePlan(decisions, {uid: self.sizes.of[uid] for uid in decisions}, changed, self.sizes.capacity)

    @functools.cached_property
    def _changed(self) -> list[ElasticJob]:
        """The jobs with other sizes than they have or are on their way to."""
        return [job for job in self.sizes.jobs if self.sizes.of[job.uid] != job.heading]

    @functools.cached_property
    def _times(self) -> dict[str, When]:
        """When each change is carried out: room that others have yet to leave cannot be used before.

        Those that leave room by going elsewhere come last, one of them at a time.
        """
        present, times = self.present, dict[str, When]()
        moved = False
        for moves, job in sorted(((self._moves(job), job) for job in self._changed), key=lambda pair: pair[0]):
            size = self.sizes.of[job.uid]
            room = present.resized(job, size) if size > job.heading else present
            if room is None or (moves and moved):
                times[job.uid] = "after_others"
                continue
            times[job.uid] = "at_checkpoint" if job.timing == "at_checkpoint" and not job.waits else "now"
            present, moved = room, moves
        return times

    def _moves(self, job: ElasticJob) -> bool:
        """Whether a running job leaves its nodes."""
        return not job.waits and not self.present.stays(job, self.sizes.of[job.uid])

    def _decision(self, job: ElasticJob) -> SizeDecision:
        """What became of one job."""
        size = self.sizes.of[job.uid]
        larger = job.range.larger(size) if size else job.range.min
        score = self.growing.policy.score(SizeStep(job, size, larger), self.sizes.now) if size and larger else None
        related = self.starting.askers.get(job.uid) or self.starting.passed_by(job)
        reason = self._reason(job, size)
        return SizeDecision(job.uid, job.heading, size, reason, self._times.get(job.uid), score, related, larger)

    def _reason(self, job: ElasticJob, size: int) -> SizeReason:
        """In one word."""
        if size != job.heading:
            return "starts" if job.waits else "grows" if size > job.size else "shrinks"
        if not size:
            return "waits" if self.starting.passed_by(job) is None else "behind"
        following = self.growing.following(job)
        return "no_room" if isinstance(following, SizeStep) else following
