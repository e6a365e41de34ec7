# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who gets what is left: one step after the other, as a policy says."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import growth_guard, untouchable
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, SizeStep
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import SizeReason
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import RankedStep, SizePolicy
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.sizes_so_far import SizesSoFar

_Ranked = dict[str, RankedStep]


class Growing:
    """Larger sizes for gangs that start now, and for running jobs if nobody waits."""

    def __init__(self, sizes: SizesSoFar, policy: SizePolicy) -> None:
        """Nothing was given away yet."""
        self._sizes = sizes
        self.policy = policy
        self._queued = False
        self._at_home: dict[tuple[str, int], bool] = {}
        # What does not depend on who has got what: guards by job, and steps by job and size, ready to be compared.
        self._guards: dict[str, SizeReason | None] = {}
        self._worth: dict[tuple[str, int], SizeStep | SizeReason] = {}
        self._ranks: dict[tuple[str, int], RankedStep] = {}
        # One for whose step there could be GPUs as the room is now, and those for which there are none.
        self._able: str | None = None
        self._unable: set[str] = set()
        self._asked = {job.uid: job.planned or 0 for job in sizes.jobs if job.leaning > 0}

    def grow(self) -> None:
        """Give what is free away; those first that need not leave their nodes.

        Room only gets less until somebody leaves nodes: then all are asked again.
        """
        sizes = self._sizes
        self._queued = any(not sizes.hopeless(job) for job in sizes.waiting)
        if sizes.capacity.unused <= 0:
            return
        ranked = self._ranked(sizes.jobs)
        near, far = dict(ranked), _Ranked()
        self._forget_room()
        # Where nobody has GPUs enough for his step, there is nothing to choose.
        while self._is_anybody_able(near, far):
            if near and not any(self._stays(item.step) for item in near.values()):
                far, near = {**far, **near}, {}
            at_home = bool(near)
            item = self._choose(list((near or far).values()))
            job, size = item.step.job, item.step.to
            del (near or far)[job.uid]
            if at_home and not self._stays(item.step):
                far[job.uid] = item
                continue
            room = sizes.capacity.resized(job, size)
            if room is None:
                continue
            may_resize = sizes.resizes_left >= 1
            sizes.set(job, size, room)
            self._forget_room()
            fewer = may_resize and sizes.resizes_left < 1
            self._rank_again(ranked, sizes.jobs if fewer else [job])
            if fewer or not at_home:
                near, far = dict(ranked), _Ranked()
            elif job.uid in ranked:
                near[job.uid] = ranked[job.uid]

    def _rank_again(self, ranked: _Ranked, jobs: Iterable[ElasticJob]) -> None:
        """Bring the next steps of these jobs up to date."""
        for job in jobs:
            ranked.pop(job.uid, None)
        ranked.update(self._ranked(jobs))

    def _is_anybody_able(self, near: _Ranked, far: _Ranked) -> bool:
        """Whether there could be GPUs for the step of any of them; one is enough, and is remembered."""
        has_gpus = self._sizes.capacity.has_gpus
        if self._able is not None and (self._able in near or self._able in far):
            return True
        for uid, item in itertools.chain(near.items(), far.items()):
            if uid not in self._unable:
                if has_gpus(item.step.job, item.step.to):
                    self._able = uid
                    return True
                self._unable.add(uid)
        return False

    def _forget_room(self) -> None:
        """Forget what was found out about the room: it is another one."""
        self._at_home.clear()
        self._unable.clear()
        self._able = None

    def _stays(self, step: SizeStep) -> bool:
        """Whether a job takes its step on the nodes it has, as the room is now."""
        key = step.job.uid, step.to
        if key not in self._at_home:
            self._at_home[key] = self._sizes.capacity.stays(step.job, step.to)
        return self._at_home[key]

    def _choose(self, steps: Sequence[RankedStep]) -> RankedStep:
        """Whose step is taken: one for which a trainer was asked to save comes before those that nobody was told of."""
        if not self._asked:
            return self.policy.choose(steps)
        asked = [item for item in steps if item.step.to <= self._asked.get(item.step.job.uid, 0)]
        return self.policy.choose(asked or steps)

    def following(self, job: ElasticJob) -> SizeStep | SizeReason:
        """The next larger size of a job, or why it gets none."""
        size = self._sizes.of[job.uid]
        if not size:
            return "waits"
        if size >= job.range.max:
            return "at_max"
        if not job.waits:
            return self._growth(job, size)
        faster = (to for to in job.range.sizes if to > size and job.speed(to) > job.speed(size))
        return next((SizeStep(job, size, to) for to in faster), "no_gain")

    def _ranked(self, jobs: Iterable[ElasticJob]) -> _Ranked:
        """The next step of each job that may take one."""
        found = _Ranked()
        for job in jobs:
            step = self.following(job)
            if isinstance(step, SizeStep):
                found[job.uid] = self._rank(step)
        return found

    def _rank(self, step: SizeStep) -> RankedStep:
        """A step ready to be compared; from one size a job has but one that it may take."""
        key = step.job.uid, step.size
        known = self._ranks.get(key)
        if known is None:
            known = self._ranks[key] = self.policy.rank(step, self._sizes.now)
        return known

    def _growth(self, job: ElasticJob, size: int) -> SizeStep | SizeReason:
        """The smallest growth of a running job that is worth it; what it had counts, not what it was given just now."""
        sizes, uid = self._sizes, job.uid
        if uid not in self._guards:
            self._guards[uid] = untouchable(job, sizes.now, sizes.terms)
        kept = self._guards[uid]
        if kept is not None:
            return kept
        if size < job.size:
            return "shrinks"
        if self._queued:
            return "queued_work"
        if sizes.untouched(job) and job.timing != "at_checkpoint" and sizes.resizes_left < 1:
            return "too_many"
        if (uid, size) not in self._worth:
            self._worth[uid, size] = self._worthy(job, size)
        return self._worth[uid, size]

    def _worthy(self, job: ElasticJob, size: int) -> SizeStep | SizeReason:
        """The first larger size that no guard forbids; else what the next one is forbidden by."""
        reason: SizeReason | None = None
        for to in job.range.sizes:
            if to > size:
                allowed = job.most is None or to <= job.most
                guard = growth_guard(SizeStep(job, job.size, to), self._sizes.terms) if allowed else "quota"
                if guard is None and job.speed(to) > job.speed(size):
                    return SizeStep(job, size, to)
                reason = reason or guard or "no_gain"
        return reason or "at_max"
