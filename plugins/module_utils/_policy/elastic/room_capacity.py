# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of nodes to what fits where: jobs are placed on a room as gangs are."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    Case,
    open_case,
    try_to_fit,
    virtual_pod,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import Placement
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import find_packing


@dataclasses.dataclass(frozen=True, slots=True)
class RoomCapacity:
    """A room with the pods of jobs in it.

    held are the pods of each job, the same objects that the room has. gang_at is a job's gang at a size. resource is
    what idle counts. A job stays on its nodes if they can have it, else it fits for certain wherever that is.
    """

    room: Room
    held: Mapping[str, tuple[Pod, ...]]
    gang_at: Callable[[ElasticJob, int], Gang]
    resource: str

    def resized(self, job: ElasticJob, size: int) -> RoomCapacity | None:
        """With the job at a size, on its own nodes if they have room for all of it."""
        room = self.room.without(self.held.get(job.uid, ()))
        if not size:
            return dataclasses.replace(self, room=room, held={**self.held, job.uid: ()})
        pods = self._at_home(room, job, size) or self._anywhere(room, job, size)
        if pods is None:
            return None
        for pod in pods:
            room.add(pod)
        return dataclasses.replace(self, room=room, held={**self.held, job.uid: pods})

    def stays(self, job: ElasticJob, size: int) -> bool:
        """Whether its own nodes have room for that size; a job without nodes leaves none."""
        if not self.held.get(job.uid):
            return True
        return self._at_home(self.room.without(self.held[job.uid]), job, size) is not None

    @property
    def idle(self) -> Mapping[str, int]:
        """Free amounts by node."""
        free = zip(self.room.nodes, self.room.free, strict=True)
        return {node.name: left for node, amounts in free if (left := max(0, amounts.get(self.resource, 0)))}

    def _at_home(self, room: Room, job: ElasticJob, size: int) -> tuple[Pod, ...] | None:
        """Pods of the job on the nodes it has; None if they have no room."""
        homes = frozenset(room.index[pod.node] for pod in self.held.get(job.uid, ()) if pod.node in room.index)
        if not homes:
            return None
        case = open_case(self.gang_at(job, size), room)
        placement = find_packing(case.state.narrow(dict.fromkeys(range(len(case.pairs)), homes)))
        return None if placement is None else _pods(case, placement, job)

    def _anywhere(self, room: Room, job: ElasticJob, size: int) -> tuple[Pod, ...] | None:
        """Pods of the job wherever they fit for certain."""
        case = open_case(self.gang_at(job, size), room)
        placed = try_to_fit(case)
        return None if placed is None else _pods(case, placed.placement, job)


def _pods(case: Case, placement: Placement, job: ElasticJob) -> tuple[Pod, ...]:
    """The pods that stand for a job at its places."""
    return tuple(
        virtual_pod(f"{job.uid}/{podset.name}/{node}/{turn}", podset, wish, case.room.nodes[node].name)
        for (podset, wish), here in zip(case.pairs, placement, strict=True)
        for node, count in here.items()
        for turn in range(count)
    )
