# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes while they are being decided."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import Capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob


class SizesSoFar:
    """The size of each job by uid, and the room as it is with them; resizes under way count as done."""

    def __init__(self, jobs: Sequence[ElasticJob], capacity: Capacity, now: float, terms: SizeTerms) -> None:
        """Start with what there is; jobs are in the order of the queue."""
        self.jobs = jobs
        self.now = now
        self.terms = terms
        self.capacity = capacity
        self.of = {job.uid: job.heading for job in jobs}
        self._resized = {job.uid for job in jobs if job.target is not None}
        # One that waits for a checkpoint has not begun.
        self._begun = len(self._resized)
        for job in jobs:
            if job.heading < job.size:
                self.capacity = self.capacity.resized(job, job.heading) or self.capacity
        self._empty: Capacity | None = None

    def set(self, job: ElasticJob, size: int, room: Capacity) -> None:
        """Give a job a size."""
        self.of[job.uid] = size
        self.capacity = room
        if self.untouched(job):
            self._resized.add(job.uid)
            self._begun += job.timing != "at_checkpoint"

    @property
    def waiting(self) -> list[ElasticJob]:
        """Those that are not to start so far."""
        return [job for job in self.jobs if not self.of[job.uid]]

    @property
    def resizes_left(self) -> float:
        """How many more resizes of running jobs may begin now."""
        return math.inf if self.terms.most_resizes is None else self.terms.most_resizes - self._begun

    def untouched(self, job: ElasticJob) -> bool:
        """Whether a job runs and keeps its size so far."""
        return not job.waits and job.uid not in self._resized

    def hopeless(self, job: ElasticJob) -> bool:
        """Whether a gang would not even fit if all jobs ended."""
        if self._empty is None:
            self._empty = self.capacity.without(other for other in self.jobs if self.of[other.uid])
        return self._empty.resized(job, job.range.min) is None
