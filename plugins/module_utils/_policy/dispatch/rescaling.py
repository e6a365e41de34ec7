# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs whose objects get another size while they are there: by which method, how far they are, what is kept for them.

A gang that is rescaling keeps the larger of both sizes until exactly the pods of its new size are bound. Where that
does not come in time its object gets the old size again, and where that fails too, the gang is taken back.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import find_target, resize_method
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.deciders import is_managed, scale_obstacle
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.patches import (
    is_suspended,
    resize_mark,
    resized_place,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, Items, Raw
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import RESIZED, Changes
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import is_kept
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import ExpectedPods, Method
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    Outstanding,
    pods_by_podset,
    wanted_now,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import reserved_of
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import open_case, try_to_fit
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room


@dataclasses.dataclass(frozen=True, slots=True)
class Rescale:
    """A running gang whose object gets another size; gang is the larger of both, asker the one that it shrinks for."""

    record: Record
    resize: Resize
    gang: Gang
    reason: str = RESIZED
    asker: str | None = None

    @property
    def message(self) -> str:
        """What is told of it."""
        return f"from size {self.resize.size} to {self.resize.to}: {self.resize.why}"

    def changes(self, resize_id: str, since: str) -> Changes:
        """What its state says from before the first patch on."""
        state = self.record.state
        started = state.started_size or state.allotment if state is not None else None
        return {
            "holding": False,
            "resize": dataclasses.replace(self.resize, id=resize_id, since=since),
            "allotment": self.resize.larger,
            "started_size": started,
            "reserved": reserved_of(self.gang),
            "planned": None,
        }


def ended(resize: Resize, gang: Gang) -> Changes:
    """What a state says when a gang has the size that it is to have; the gang is of that size."""
    return {"allotment": resize.goal, "reserved": reserved_of(gang), "resize": resize}


# By which method.


def method_in_place(record: Record, items: Items, *, suspended_jobs_change: bool, shrinks: bool) -> Method:
    """How the size of a running gang is changed; by recreating it wherever anything speaks against another method.

    What is confined to certain nodes stays so while it is there. A method that came to nothing is not tried again.
    """
    spec, state = record.spec, record.state
    if spec is None or spec.elastic is None or state is None or state.steering:
        return "recreate"
    if any(charge.flavors for charge in state.charged) or _failed_in_place(state.resize, state.allotment):
        return "recreate"
    try:
        index = resized_place(spec.objects, spec.elastic.range, spec.namespace)
        found = resize_method(
            spec.objects,
            spec.elastic.range,
            suspended_jobs_change=suspended_jobs_change,
            namespace=spec.namespace,
            shrinks=shrinks,
        )
    except BadInput:
        return "recreate"
    live = items.get(index)
    if live is None or is_suspended(live) or is_kept(spec.objects[index]):
        return "recreate"
    # Somebody else may have given it to Kueue since.
    beyond = is_managed(live) and (found != "scale" or scale_obstacle(live) is not None)
    return "recreate" if beyond else found


def turned_back(spec: GangSpec, resize: Resize, why: str, since: str) -> Resize:
    """A resize whose object gets its old size again; where that is a smaller one, as objects of its kind shrink."""
    method = resize.method
    if method == "scale" and resize.size < resize.to and spec.elastic is not None:
        with contextlib.suppress(BadInput):
            method = resize_method(
                spec.objects, spec.elastic.range, suspended_jobs_change=False, namespace=spec.namespace, shrinks=True
            )
    return dataclasses.replace(resize, method=method, back=why, since=since, patched=None)


def _failed_in_place(last: Resize | None, allotment: int | None) -> bool:
    """Whether the last resize of a gang was one of its objects, and came to nothing.

    One that was evicted since has another size too, which is not its object's fault.
    """
    return last is not None and last.method != "recreate" and bool(last.back) and allotment != last.to


class RoomToGrow(t.NamedTuple):
    """What a gang that grows takes besides what it has, and for pods that get larger on which nodes, by podset."""

    gang: Gang
    nodes: Mapping[str, Sequence[str]]


def find_growth(room: Room, before: Gang, after: Gang, homes: Mapping[str, Sequence[str]]) -> RoomToGrow | None:
    """What a gang that grows takes besides what it has; None when it is not certain that it finds it.

    More pods may be put on any node. Larger ones are counted on the nodes that the gang has, given by podset: those
    have to have room for them.
    """
    counts = {item.name: item.count for item in before.podsets}
    more = after.resized({item.name: item.count - counts[item.name] for item in after.podsets})
    more = dataclasses.replace(more, made=MadeObjects())
    if any(item.count for item in more.podsets):
        placed = try_to_fit(open_case(more, room))
        return RoomToGrow(more, {}) if placed is not None and not placed.narrowing else None
    return _larger_at_home(room, before, after, homes)


def _larger_at_home(room: Room, before: Gang, after: Gang, homes: Mapping[str, Sequence[str]]) -> RoomToGrow | None:
    """The difference of pods that get larger, if each node that has them has room for it."""
    found: list[PodSet] = []
    for one, other in zip(before.podsets, after.podsets, strict=True):
        extra = _difference(one.requests, other.requests)
        if not extra:
            continue
        nodes = homes.get(one.name, ())
        if len(nodes) != other.count or any(node not in room.index for node in nodes):
            return None
        for node in {*nodes}:
            free = room.free[room.index[node]]
            if any(free.get(name, 0) < nodes.count(node) * amount for name, amount in extra.items()):
                return None
        found.append(dataclasses.replace(other, requests=extra))
    gang = dataclasses.replace(after, podsets=tuple(found), made=MadeObjects())
    return RoomToGrow(gang, {item.name: homes[item.name] for item in found})


def _difference(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much a pod asks for more than another."""
    return {name: amount - before.get(name, 0) for name, amount in after.items() if amount > before.get(name, 0)}


# What is kept.


def kept_while_rescaling(
    gang: Gang, record: Record, pods: Sequence[GangPod], items: Items, hosts: Mapping[str, str]
) -> Iterator[Outstanding]:
    """What a gang that is rescaling gets besides what its pods have, up to the larger of both sizes.

    The gang is that of the larger size. Pods that are going keep their place for those that come. hosts are the host
    names of nodes. A pod that is to be larger, or may have to be again, has its difference kept on its node.
    """
    spec, state = record.spec, record.state
    if spec is None or state is None:
        return
    gang = dataclasses.replace(gang, made=MadeObjects())
    wanted, mine = wanted_now(gang.podsets, spec, items), pods_by_podset(gang.podsets, pods, items)
    there = {name: [pod for pod in found if not pod.finished] for name, found in mine.items()}
    unplaced = {name: [pod for pod in found if pod.unplaced] for name, found in there.items()}
    changing = {item.name for item in _changing(spec, state.resize, gang.podsets)}
    counts: dict[str, int] = {}
    for podset in gang.podsets:
        placed = [pod for pod in there[podset.name] if not pod.unplaced and (podset.name in changing or pod.live)]
        want = wanted[podset.name].now
        most = max(podset.count, want) if podset.name in changing else want
        counts[podset.name] = max(len(unplaced[podset.name]), most - len(placed))
        if podset.name in changing:
            yield from _kept_at_home(gang, podset, placed[:most], hosts)
    yield Outstanding(
        gang,
        {name: count for name, count in counts.items() if count},
        state.steering,
        {name: len(found) for name, found in unplaced.items() if found},
        frozenset((pod.namespace, pod.name) for found in unplaced.values() for pod in found),
    )


def _kept_at_home(
    gang: Gang, podset: PodSet, pods: Iterable[GangPod], hosts: Mapping[str, str]
) -> Iterator[Outstanding]:
    """What is kept on the nodes of pods for larger ones."""
    for pod in pods:
        extra = _difference(pod.requests, podset.requests)
        host = hosts.get(pod.node or "")
        if extra and host is not None:
            part = dataclasses.replace(podset, count=1, requests=extra)
            alone = dataclasses.replace(gang, podsets=(part,))
            yield Outstanding(alone, {part.name: 1}, {part.name: (host,)})


def _changing(spec: GangSpec, resize: Resize | None, podsets: Sequence[PodSet]) -> Sequence[PodSet]:
    """The podsets whose pods come and go: one, or all of an object that is suspended."""
    if spec.elastic is None or resize is None:
        return podsets
    named = [item for item in podsets if item.name == spec.elastic.range.podset]
    if resize.method == "scale":
        return named
    return [item for item in podsets if any(item.source_index == one.source_index for one in named)]


# How far they are.


class Finding(t.NamedTuple):
    """What becomes of a resize: it has come to its end, its object goes back, or the gang is taken back; and why."""

    end: t.Literal["settled", "back", "parked"]
    why: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Rescaling:
    """A gang that is rescaling, as it was read.

    goal is the gang with the size that it is to have; podsets are of the larger size, pods and wanted are by podset.
    """

    spec: GangSpec
    resize: Resize
    goal: Gang
    podsets: Sequence[PodSet]
    pods: Mapping[str, Sequence[GangPod]]
    wanted: Mapping[str, ExpectedPods]
    items: Items

    def judge(self, is_before: Callable[[float], bool], bind_timeout: float, start_timeout: float) -> Finding | None:
        """What becomes of it now; None while it goes on. is_before tells whether a moment lies ahead, and notes it."""
        since, live = read_time(self.resize.since) or 0.0, self._live()
        mark = resize_mark(live)
        sized = live is not None and mark == self.resize.sized_mark and not is_suspended(live)
        short = self._short()
        if sized and not short:
            return Finding("settled")
        if mark == self.resize.suspended_mark and live is not None and is_suspended(live):
            # Pods take the time that they need to save and to go.
            return None
        if sized:
            since = read_time(self.resize.patched) or since
            if self._only_leaves():
                return None
            for pod in self._without_node():
                if not is_before((pod.unschedulable_since or 0.0) + bind_timeout):
                    said = f": {pod.unschedulable_message}" if pod.unschedulable_message else ""
                    return self._fail(f"no node for pod {pod.name} in {bind_timeout:g} seconds{said}")
        if is_before(since + start_timeout):
            return None
        what = short if sized else "it could not be changed"
        return self._fail(f"{what} after {start_timeout:g} seconds")

    def _fail(self, why: str) -> Finding:
        """First the object goes back, then the gang."""
        return Finding("parked" if self.resize.back else "back", why)

    def _live(self) -> Raw | None:
        """The object that is resized; podsets do not tell of one that was edited, which declares what was started."""
        place = is_about(self.spec)
        return None if place is None else self.items.get(place)

    def _changing(self) -> Sequence[PodSet]:
        return _changing(self.spec, self.resize, self.podsets)

    def _short(self) -> str:
        """Which pods are not as they are to be, in words; empty when exactly those of the size are bound."""
        goals = {item.name: item for item in self.goal.podsets}
        parts = []
        for podset in self._changing():
            goal, want = goals[podset.name], self.wanted[podset.name].now
            there = [pod for pod in self.pods[podset.name] if not pod.finished]
            right = sum(pod.bound and self._is_sized(pod, goal) for pod in there)
            if right != want or len(there) != want or want > goal.count:
                parts.append(f"{right} of {min(want, goal.count)} pods of {podset.name} are bound")
        return "; ".join(parts)

    def _is_sized(self, pod: GangPod, goal: PodSet) -> bool:
        """Whether a pod has the GPUs that pods of the size have."""
        resource = self.spec.elastic.range.resource if self.spec.elastic is not None else ""
        return pod.requests.get(resource, 0) == goal.requests.get(resource, 0)

    def _only_leaves(self) -> bool:
        """Whether all that is left to happen is that pods go that were told to."""
        goals = {item.name: item for item in self.goal.podsets}
        for podset in self._changing():
            live = [pod for pod in self.pods[podset.name] if pod.live]
            if len(live) != self.wanted[podset.name].now or len(live) > goals[podset.name].count:
                return False
            if not all(pod.bound and self._is_sized(pod, goals[podset.name]) for pod in live):
                return False
        return True

    def _without_node(self) -> list[GangPod]:
        """Pods that wait for a node, the first one first."""
        found = [pod for item in self._changing() for pod in self.pods[item.name] if pod.live and not pod.node]
        waiting = [pod for pod in found if pod.unschedulable_since is not None]
        return sorted(waiting, key=lambda pod: (pod.unschedulable_since or 0.0, pod.name))


def is_about(spec: GangSpec) -> int | None:
    """The place of the object that gets another size; None where the specification does not tell any more."""
    try:
        return None if spec.elastic is None else find_target(spec.objects, spec.elastic.range, spec.namespace).index
    except BadInput:
        return None
