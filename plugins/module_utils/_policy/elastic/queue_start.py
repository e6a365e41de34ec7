# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which waiting gangs start, as they are or after others have shrunk for them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.shrinking import (
    MayTake,
    make_room,
    may_shrink,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.sizes_so_far import SizesSoFar


class Starting:
    """Minimal sizes for gangs that wait, in the order of the queue.

    First those for which room was made, then those that fit as they are, then those for which others shrink. One that
    has lost its patience is tried in both ways before anybody behind it is; if in vain, nobody behind it starts.
    """

    def __init__(self, sizes: SizesSoFar, may_take: MayTake) -> None:
        """Nobody was asked yet."""
        self._sizes = sizes
        self._may_take = may_take
        # Whom those who shrink make room for.
        self.askers: dict[str, str] = {}
        # The gang that nobody behind it may pass.
        self._blocker: ElasticJob | None = None

    @functools.cached_property
    def _givers(self) -> list[ElasticJob]:
        """The running jobs that may shrink, found once somebody needs them."""
        return [job for job in self._sizes.jobs if may_shrink(job, self._sizes.now, self._sizes.terms)]

    def start(self) -> bool:
        """Start all that can be; whether there was any."""
        started = False
        while self._walk():
            started = True
        return started

    def passed_by(self, job: ElasticJob) -> str | None:
        """The gang that one which waits may not pass."""
        blocker = self._blocker
        behind = blocker is not None and job.order > blocker.order and not self._sizes.of[job.uid]
        return blocker.uid if blocker is not None and behind else None

    def _walk(self) -> bool:
        """One walk down the queue."""
        self._blocker = None
        nominated = [job for job in self._sizes.waiting if job.nominated]
        started, left = sum(map(self._as_it_is, nominated)) > 0, list[ElasticJob]()
        for job in self._sizes.waiting:
            impatient = self._sizes.now - job.submitted > self._sizes.terms.patience
            if self._as_it_is(job):
                started = True
            elif impatient and self._by_shrinks(job):
                started, left = True, self._left_over(left)
            elif impatient and not self._sizes.hopeless(job):
                self._blocker = job
                break
            elif not impatient:
                left.append(job)
        passed: list[ElasticJob] = []
        for job in left:
            if self._as_it_is(job):
                started = True
            elif self._by_shrinks(job):
                started, passed = True, self._left_over(passed)
            else:
                passed.append(job)
        return started

    def _left_over(self, passed: Sequence[ElasticJob]) -> list[ElasticJob]:
        """Those that still wait once what somebody's shrink leaves over was offered to all before the one it is for."""
        return [job for job in passed if not self._as_it_is(job)]

    def _as_it_is(self, job: ElasticJob) -> bool:
        """Start a gang that fits."""
        room = self._sizes.capacity.resized(job, job.range.min)
        if room is not None:
            self._sizes.set(job, job.range.min, room)
        return room is not None

    def _by_shrinks(self, job: ElasticJob) -> bool:
        """Start a gang for which others make room."""
        sizes = self._sizes
        givers = [other for other in self._givers if sizes.untouched(other) and self._may_take(job, other)]
        made = make_room(sizes.capacity, job, givers)
        if made is None:
            return False
        room, shrunk = made
        victims = [other for other in givers if other.uid in shrunk]
        if sum(other.timing != "at_checkpoint" for other in victims) > sizes.resizes_left:
            return False
        for other in victims:
            sizes.set(other, shrunk[other.uid], room)
            self.askers[other.uid] = job.uid
        sizes.set(job, job.range.min, room)
        return True
