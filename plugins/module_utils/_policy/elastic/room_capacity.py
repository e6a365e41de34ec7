# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of nodes to what fits where: jobs are placed on a room as gangs are."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

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

# The pods of jobs by uid, with the GPUs that they have by node, and all of them.
Owned = dict[str, tuple[tuple[Pod, ...], Mapping[int, int], int]]


@dataclasses.dataclass(frozen=True)
class RoomCapacity:
    """A room with the pods of jobs in it.

    held are the pods of each job, the same objects that the room has. gang_at is a job's gang at a size. resource is
    what idle counts. counted says how many nodes have so much of it free, where that is known; owned is what pods have,
    shared by all capacities that are made of one. A job stays on its nodes if they can have it, else it fits for
    certain wherever that is.
    """

    room: Room
    held: Mapping[str, tuple[Pod, ...]]
    gang_at: Callable[[ElasticJob, int], Gang]
    resource: str
    counted: Mapping[int, int] | None = dataclasses.field(default=None, compare=False)
    owned: Owned = dataclasses.field(default_factory=dict, compare=False, repr=False)

    def resized(self, job: ElasticJob, size: int) -> RoomCapacity | None:
        """With the job at a size, on its own nodes if they have room for all of it."""
        if not size:
            return self.without([job])
        if not self.has_gpus(job, size):
            return None
        room = self.room.without(self.held.get(job.uid, ()))
        pods = self._at_home(room, job, size) or self._anywhere(room, job, size)
        if pods is None:
            return None
        for pod in pods:
            room.add(pod)
        return self._changed(room, {job.uid: pods})

    def without(self, jobs: Iterable[ElasticJob]) -> RoomCapacity:
        """With nothing for these jobs."""
        gone = {job.uid: () for job in jobs}
        return self._changed(self.room.without(pod for uid in gone for pod in self.held.get(uid, ())), gone)

    def _changed(self, room: Room, held: Mapping[str, tuple[Pod, ...]]) -> RoomCapacity:
        """With another room, made of this one, in which some jobs have other pods."""
        counts = dict(self._counts)
        for node in {*room.touched}:
            before, after = self._free(node), room.free[node].get(self.resource, 0)
            counts[before] -= 1
            counts[after] = counts.get(after, 0) + 1
        return dataclasses.replace(self, room=room, held={**self.held, **held}, counted=counts)

    def has_gpus(self, job: ElasticJob, size: int, others: Sequence[tuple[ElasticJob, int]] = ()) -> bool:
        """Whether GPUs could be enough for each podset by itself, and for all of them together."""
        asked, total = self._asked(job, size), self.unused
        owned = [self._owned(uid) for uid in (job.uid, *(other.uid for other, _its in others))]
        for _nodes, gpus in owned:
            total += gpus
        for other, its in others:
            for each, count in self._asked(other, its):
                total -= each * count
        for each, count in asked:
            total -= each * count
        if total < 0:
            return False
        freed = owned[0][0]
        if others:
            freed = dict(freed)
            for nodes, _gpus in owned[1:]:
                for node, gpus in nodes.items():
                    freed[node] = freed.get(node, 0) + gpus
        return all(self._slots(each) + self._more_slots(each, freed) >= count for each, count in asked)

    @functools.cached_property
    def _counts(self) -> Mapping[int, int]:
        """How many nodes have so many free GPUs."""
        if self.counted is not None:
            return self.counted
        return collections.Counter(free.get(self.resource, 0) for free in self.room.free)

    def _free(self, node: int) -> int:
        return self.room.free[node].get(self.resource, 0)

    def _asked(self, job: ElasticJob, size: int) -> list[tuple[int, int]]:
        """The GPUs of a pod and the number of pods, for each podset that has any."""
        key = "asked", self.resource, size
        known: list[tuple[int, int]] | None = job.notes.get(key)
        if known is None:
            podsets = self.gang_at(job, size).podsets
            found = ((podset.requests.get(self.resource, 0), podset.count) for podset in podsets)
            known = job.notes[key] = [(each, count) for each, count in found if each]
        return known

    def _owned(self, uid: str) -> tuple[Mapping[int, int], int]:
        """The GPUs of a job's pods by node, and all of them."""
        held, known = self.held.get(uid, ()), self.owned.get(uid)
        if known is None or known[0] is not held:
            gpus = sum(pod.requests.get(self.resource, 0) for pod in held)
            known = self.owned[uid] = held, self._by_node(held), gpus
        return known[1:]

    def _by_node(self, pods: Iterable[Pod]) -> dict[int, int]:
        """The GPUs of pods by node."""
        found: dict[int, int] = {}
        for pod in pods:
            node = self.room.index.get(pod.node or "")
            if node is not None:
                found[node] = found.get(node, 0) + pod.requests.get(self.resource, 0)
        return found

    def _slots(self, each: int) -> int:
        """How many pods with so many GPUs nodes take as they are."""
        known = self._slots_by_size.get(each)
        if known is None:
            known = sum(free // each * nodes for free, nodes in self._counts.items() if free > 0)
            self._slots_by_size[each] = known
        return known

    @functools.cached_property
    def _slots_by_size(self) -> dict[int, int]:
        """The same for what was asked already."""
        return {}

    def _more_slots(self, each: int, freed: Mapping[int, int]) -> int:
        """How many more they take once so much of them is free."""
        more = 0
        for node, gpus in freed.items():
            free = self._free(node)
            more += max(0, free + gpus) // each - max(0, free) // each
        return more

    def stays(self, job: ElasticJob, size: int) -> bool:
        """Whether its own nodes have room for that size; a job without nodes leaves none."""
        if not self.held.get(job.uid):
            return True
        own, _gpus = self._owned(job.uid)
        here = [max(0, self._free(node) + gpus) for node, gpus in own.items()]
        for each, count in self._asked(job, size):
            if sum([free // each for free in here]) < count:
                return False
        return self._at_home(self.room.without(self.held[job.uid]), job, size) is not None

    @property
    def idle(self) -> Mapping[str, int]:
        """Free amounts by node."""
        free = zip(self.room.nodes, self.room.free, strict=True)
        return {node.name: left for node, amounts in free if (left := max(0, amounts.get(self.resource, 0)))}

    @functools.cached_property
    def unused(self) -> int:
        """How many there are of them in all."""
        return sum(free * nodes for free, nodes in self._counts.items() if free > 0)

    def _homes(self, job: ElasticJob) -> frozenset[int]:
        """The nodes that a job has."""
        index = self.room.index
        return frozenset(index[pod.node] for pod in self.held.get(job.uid, ()) if pod.node in index)

    def _at_home(self, room: Room, job: ElasticJob, size: int) -> tuple[Pod, ...] | None:
        """Pods of the job on the nodes it has; None if they have no room."""
        homes = self._homes(job)
        if not homes:
            return None
        case = open_case(self.gang_at(job, size), room, nodes=homes)
        placement = find_packing(case.state)
        return None if placement is None else _pods(case, placement, job)

    def _anywhere(self, room: Room, job: ElasticJob, size: int) -> tuple[Pod, ...] | None:
        """Pods of the job wherever they fit for certain."""
        gang = self.gang_at(job, size)
        case = open_case(gang, room, nodes=self._with_gpus(room, gang))
        placed = try_to_fit(case)
        return None if placed is None else _pods(case, placed.placement, job)

    def _with_gpus(self, room: Room, gang: Gang) -> list[int] | None:
        """The nodes that have GPUs for any pod of a gang, if no others matter to it; None where all may."""
        least = min((podset.requests.get(self.resource, 0) for podset in gang.podsets), default=0)
        if not least or any(item.constraints.spreads or item.constraints.affinity for item in gang.podsets):
            return None
        return [node for node, free in enumerate(room.free) if free.get(self.resource, 0) >= least]


def _pods(case: Case, placement: Placement, job: ElasticJob) -> tuple[Pod, ...]:
    """The pods that stand for a job at its places."""
    return tuple(
        virtual_pod(f"{job.uid}/{podset.name}/{node}/{turn}", podset, wish, case.room.nodes[node].name)
        for (podset, wish), here in zip(case.pairs, placement, strict=True)
        for node, count in here.items()
        for turn in range(count)
    )
