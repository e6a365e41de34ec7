# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What fits where: the one question that sizes are decided by, and the plainest answer to it."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob


class Capacity(t.Protocol):
    """The GPUs of jobs and those that nobody has. It is never changed: a resize makes another one of it."""

    def resized(self, job: ElasticJob, size: int) -> Capacity | None:
        """With this job at a size, whatever it had before (0: nothing); None when that does not fit."""

    def without(self, jobs: Iterable[ElasticJob]) -> Capacity:
        """With nothing for these jobs."""

    def stays(self, job: ElasticJob, size: int) -> bool:
        """Whether the job can have this size on the nodes it has."""

    def has_gpus(self, job: ElasticJob, size: int, others: Sequence[tuple[ElasticJob, int]] = ()) -> bool:
        """Whether there could be GPUs for a job at a size if others had these sizes; a no is certain.

        This takes far less time than to look for places.
        """

    @property
    def idle(self) -> Mapping[str, int]:
        """The GPUs that nobody has, by node or pool."""

    @property
    def unused(self) -> int:
        """How many there are of them in all."""


@dataclasses.dataclass(frozen=True, slots=True)
class GpuPool:
    """GPUs without nodes: whatever is free can be given to anybody."""

    free: int
    held: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def resized(self, job: ElasticJob, size: int) -> GpuPool | None:
        """With the job at a size."""
        gpus = job.range.gpus(size) if size else 0
        free = self.free + self.held.get(job.uid, 0) - gpus
        return GpuPool(free, {**self.held, job.uid: gpus}) if free >= 0 else None

    def without(self, jobs: Iterable[ElasticJob]) -> GpuPool:
        """With nothing for these jobs."""
        none = {job.uid: 0 for job in jobs}
        return GpuPool(self.free + sum(self.held.get(uid, 0) for uid in none), {**self.held, **none})

    def has_gpus(self, job: ElasticJob, size: int, others: Sequence[tuple[ElasticJob, int]] = ()) -> bool:
        """Whether there are as many."""
        given = sum(self.held.get(other.uid, 0) - other.range.gpus(its) for other, its in others)
        return job.range.gpus(size) <= self.free + self.held.get(job.uid, 0) + given

    def stays(self, _job: ElasticJob, _size: int) -> bool:
        """There are no nodes to leave."""
        return True

    @property
    def idle(self) -> Mapping[str, int]:
        """All that is free."""
        return {"": self.free} if self.free else {}

    @property
    def unused(self) -> int:
        """The same."""
        return self.free
