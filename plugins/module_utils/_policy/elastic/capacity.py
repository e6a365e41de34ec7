# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What fits where: the one question that sizes are decided by, and two plain answers to it."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob


class Capacity(t.Protocol):
    """The GPUs of jobs and those that nobody has. It is never changed: a resize makes another one of it."""

    def resized(self, job: ElasticJob, size: int) -> Capacity | None:
        """With this job at a size, whatever it had before (0: nothing); None when that does not fit."""

    def stays(self, job: ElasticJob, size: int) -> bool:
        """Whether the job can have this size on the nodes it has."""

    @property
    def idle(self) -> Mapping[str, int]:
        """The GPUs that nobody has, by node or pool."""


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

    def stays(self, _job: ElasticJob, _size: int) -> bool:
        """There are no nodes to leave."""
        return True

    @property
    def idle(self) -> Mapping[str, int]:
        """All that is free."""
        return {"": self.free} if self.free else {}


@dataclasses.dataclass(frozen=True, slots=True)
class NodePool:
    """GPUs on nodes: no pod has those of two. Held are each job's pods, as GPUs on nodes."""

    free: Mapping[str, int]
    held: Mapping[str, tuple[tuple[str, int], ...]] = dataclasses.field(default_factory=dict)

    def resized(self, job: ElasticJob, size: int) -> NodePool | None:
        """With the job at a size, on its own nodes as far as they have room, else where it fits tightest."""
        free, homes = self._without(job)
        placed = self._placed(free, homes, job, size)
        return None if placed is None else NodePool(free, {**self.held, job.uid: placed})

    def stays(self, job: ElasticJob, size: int) -> bool:
        """Whether its own nodes have room for that size."""
        free, homes = self._without(job)
        return self._placed({node: free[node] for node in homes}, homes, job, size) is not None

    @property
    def idle(self) -> Mapping[str, int]:
        """Free GPUs by node."""
        return {node: count for node, count in sorted(self.free.items()) if count}

    def _without(self, job: ElasticJob) -> tuple[dict[str, int], set[str]]:
        """What is free once the job is gone, and the nodes it was on."""
        free = dict(self.free)
        for node, gpus in self.held.get(job.uid, ()):
            free[node] += gpus
        return free, {node for node, _gpus in self.held.get(job.uid, ())}

    @staticmethod
    def _placed(
        free: dict[str, int], homes: set[str], job: ElasticJob, size: int
    ) -> tuple[tuple[str, int], ...] | None:
        """Place the job's pods and take them from what is free; None when one finds no node."""
        placed = []
        for gpus in pod_gpus(job, size):
            able = [node for node, count in free.items() if count >= gpus]
            if not able:
                return None
            node = min(able, key=lambda name: (name not in homes, free[name], name))
            free[node] -= gpus
            placed.append((node, gpus))
        return tuple(placed)


def pod_gpus(job: ElasticJob, size: int) -> Iterator[int]:
    """The GPUs of each pod of a job at a size; those beside the resized podset are taken to be one pod."""
    range_ = job.range
    if not size:
        return
    if range_.fixed:
        yield range_.fixed
    each, pods = (range_.unit, size) if range_.axis == "pods" else (size, range_.unit)
    yield from [each] * pods if each else []
