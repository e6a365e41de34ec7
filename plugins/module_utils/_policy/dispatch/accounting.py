# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting: whose pods these are, which ones a started gang still lacks, and the room kept for those."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang, confined
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, Items, Raw
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    ACTIVE_PHASES,
    STARTING_PHASES,
    GangState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import podset_label
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import ExpectedPods
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import expected_pods
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, infer_known
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import Case, open_case, virtual_pod
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import Placement
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import (
    emptiest,
    find_packing,
    place_as_many,
    place_greedily,
)

# A pod this much older than its attempt belongs to an earlier one; servers' clocks differ by less.
_CLOCKS_DIFFER = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class PodIndex:
    """Pods by namespace and gang label, and those without one by namespace and the uid of any owner above them."""

    by_gang: Mapping[tuple[str, str], Sequence[GangPod]]
    by_owner: Mapping[tuple[str, str], Sequence[GangPod]]


@dataclasses.dataclass(frozen=True, slots=True)
class Outstanding:
    """Pods of a gang that have no node yet: so many per podset, confined to hosts where it was steered.

    existing says how many of them exist already, waiting which those are, by namespace and name. queue is the one that
    an open entry of the batch names, flavors are those of podsets, by tree, as far as the entry tells them.
    """

    gang: Gang
    counts: Mapping[str, int]
    steering: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    existing: Mapping[str, int] = dataclasses.field(default_factory=dict)
    waiting: frozenset[tuple[str, str]] = frozenset()
    queue: str | None = None
    flavors: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)


def index_pods(pods: Iterable[GangPod], parents: Mapping[str, Sequence[str]] | None = None) -> PodIndex:
    """Sort pods once; parents maps the uids of objects between an item and its pods to the uids of their owners."""
    by_gang: dict[tuple[str, str], list[GangPod]] = {}
    by_owner: dict[tuple[str, str], list[GangPod]] = {}
    for pod in pods:
        chain = _owner_chain(pod, parents or {})
        known = pod if chain == pod.owner_uids else dataclasses.replace(pod, owner_uids=chain)
        if pod.gang is not None:
            by_gang.setdefault((pod.namespace, pod.gang), []).append(known)
            continue
        for uid in chain:
            by_owner.setdefault((pod.namespace, uid), []).append(known)
    return PodIndex(by_gang, by_owner)


def pods_of_gang(
    record_uid: str,
    namespace: str,
    item_uids: Iterable[str],
    pods: PodIndex,
    *,
    attempt: int | None = None,
    since: float | None = None,
) -> list[GangPod]:
    """The pods of a gang's attempt: by label, else by owner; those of other namespaces and earlier attempts never.

    since is when the attempt began; it tells attempts apart where pods carry no number.
    """
    found = {pod.uid: pod for pod in pods.by_gang.get((namespace, record_uid), ())}
    for uid in item_uids:
        found.update((pod.uid, pod) for pod in pods.by_owner.get((namespace, uid), ()))
    return [pod for pod in found.values() if _is_of_attempt(pod, attempt, since)]


def started_moment(state: GangState) -> float | None:
    """When the present attempt began to create objects; None when the state does not tell any more."""
    for phase in STARTING_PHASES:
        for transition in reversed(state.transitions):
            if transition.phase == phase:
                return read_time(transition.at)
    return read_time(state.started_at)


def wanted_now(podsets: Sequence[PodSet], spec: GangSpec, items: Items) -> dict[str, ExpectedPods]:
    """What the live objects want now, by the gang's podsets.

    Objects that were not read, or that say nothing, want what they wanted at the start; objects that are gone want
    nothing. Declared podsets are matched with those of the objects as for the labels: by name, else by order.
    """
    found = {item.name: ExpectedPods(item.name, item.count, item.count) for item in podsets}
    declared = [item for item in podsets if item.source_index < 0]
    for index in sorted({item.source_index for item in podsets if item.source_index >= 0}):
        mine = [item for item in podsets if item.source_index == index]
        wants = _live_wants(mine, spec.namespace, items, index)
        found.update(
            (item.name, dataclasses.replace(want, name=item.name)) for item, want in zip(mine, wants, strict=True)
        )
    if declared:
        found.update(_declared_wants(declared, spec, items))
    return found


def expected_counts(podsets: Sequence[PodSet], spec: GangSpec, items: Items) -> dict[str, int]:
    """How many pods of each podset should exist now."""
    return {name: want.now for name, want in wanted_now(podsets, spec, items).items()}


def pods_by_podset(podsets: Sequence[PodSet], pods: Iterable[GangPod], items: Items) -> dict[str, list[GangPod]]:
    """The gang's pods by podset: by label, else (templates we cannot reach) where they match best."""
    names = {podset_label(item.name): item.name for item in podsets}
    found: dict[str, list[GangPod]] = {item.name: [] for item in podsets}
    loose: list[GangPod] = []
    for pod in pods:
        name = names.get(pod.podset or "")
        if name is None:
            loose.append(pod)
        else:
            found[name].append(pod)
    places = {str((obj.get("metadata") or {}).get("uid")): index for index, obj in items.items() if obj is not None}
    for pod in sorted(loose, key=lambda pod: (pod.created, pod.name)):
        best = _best_podset(podsets, pod, found, places)
        if best is not None:
            found[best].append(pod)
    return found


def raised(podsets: Iterable[PodSet], observed: Iterable[Data]) -> tuple[PodSet, ...]:
    """The podsets with the larger of what was declared and what was seen of them, resource by resource."""
    seen = {str(item["name"]): item for item in observed}
    return tuple(_raised(item, seen[item.name]) if item.name in seen else item for item in podsets)


def outstanding_of(
    gang: Gang,
    spec: GangSpec,
    state: GangState,
    pods: Sequence[GangPod],
    items: Items,
    *,
    now: float,
    start_timeout: float,
) -> Outstanding:
    """What a gang still lacks: per podset the pods its live objects want, less those that have a node.

    Pods that live without a node count, whoever has to bind them. Terminating and finished pods satisfy nobody. Once a
    gang runs, a gap (between two tries of a Job, say) keeps its reservation for start_timeout after the last pod of the
    podset went, except for pods that wait for others. While a gang is being started its objects tell nothing yet.
    """
    if state.phase not in ACTIVE_PHASES:
        return Outstanding(gang, {}, state.steering)
    wanted = wanted_now(gang.podsets, spec, {} if state.phase == "dispatching" else items)
    mine = pods_by_podset(gang.podsets, pods, items)
    unplaced = {name: [pod for pod in found if pod.unplaced] for name, found in mine.items()}
    counts = {
        name: len(unplaced[name])
        + (0 if _is_given_up(state, wanted[name], found, now - start_timeout) else _to_come(wanted[name], found))
        for name, found in mine.items()
    }
    podsets = tuple(_as_seen(podset, unplaced[podset.name]) for podset in gang.podsets)
    return Outstanding(
        dataclasses.replace(gang, podsets=podsets) if any(unplaced.values()) else gang,
        {name: count for name, count in counts.items() if count},
        state.steering,
        {name: len(found) for name, found in unplaced.items() if found},
        frozenset((pod.namespace, pod.name) for found in unplaced.values() for pod in found),
    )


def _to_come(want: ExpectedPods, pods: Iterable[GangPod]) -> int:
    """How many pods of a podset do not exist yet."""
    return max(0, want.now - sum(pod.live for pod in pods))


def _is_given_up(state: GangState, want: ExpectedPods, pods: Iterable[GangPod], before: float) -> bool:
    """Whether pods of a running gang are missing for so long that no room is kept for them any more."""
    waits_for_others = want.prompt < want.now
    return state.phase == "running" and not waits_for_others and _gap_began(state, pods) <= before


def _as_seen(podset: PodSet, unplaced: Sequence[GangPod]) -> PodSet:
    """A podset as large as its pods without a node turned out to be; what was only declared goes where they may."""
    if not unplaced:
        return podset
    requests = dict(podset.requests)
    for pod in unplaced:
        for name, amount in pod.requests.items():
            requests[name] = max(requests.get(name, 0), amount)
    declared = podset.source_index < 0
    template = unplaced[0].template if declared and unplaced[0].template is not None else podset.template
    return dataclasses.replace(podset, requests=requests, template=template)


def place_outstanding(room: Room, items: Iterable[Outstanding]) -> int:
    """Let pods that have no node yet take their place in the room; how many found none."""
    unplaced = 0
    for item in items:
        podsets = tuple(
            confined(dataclasses.replace(podset, count=item.counts[podset.name]), item.steering.get(podset.name))
            for podset in item.gang.podsets
            if item.counts.get(podset.name)
        )
        if podsets:
            unplaced += _place(room, dataclasses.replace(item.gang, podsets=podsets))
    return unplaced


def _place(room: Room, gang: Gang) -> int:
    """Place a gang whole if there is a way, else as many as will go; how many found no place."""
    case = open_case(gang, room)
    state = case.state
    whole = None
    if not state.overdrawn():
        whole = place_greedily(state, range(len(state.podsets)), emptiest) or find_packing(state)
    if whole is not None:
        _take(room, case, whole)
        return 0
    unplaced = 0
    for podset in gang.podsets:
        alone = open_case(dataclasses.replace(gang, podsets=(podset,)), room)
        placed = place_as_many(alone.state, 0, emptiest)
        _take(room, alone, [placed])
        unplaced += podset.count - sum(placed.values())
    return unplaced


def _take(room: Room, case: Case, placement: Placement) -> None:
    """Put the pods of a placement into the room."""
    for (podset, wish), nodes in zip(case.pairs, placement, strict=True):
        for n, count in nodes.items():
            for turn in range(count):
                name = f"{case.gang.name}/{podset.name}/outstanding/{room.nodes[n].name}/{turn}"
                room.add(virtual_pod(name, podset, wish, room.nodes[n].name))


def _owner_chain(pod: GangPod, parents: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The uids of all owners above a pod, as far as they were read; a circle ends where it began."""
    chain = list(dict.fromkeys(pod.owner_uids))
    for uid in chain:
        chain.extend(parent for parent in parents.get(uid, ()) if parent not in chain)
    return tuple(chain)


def _is_of_attempt(pod: GangPod, attempt: int | None, since: float | None) -> bool:
    """Whether a pod was made by this attempt: by its number, else by its age."""
    if pod.attempt is not None and attempt is not None:
        return pod.attempt == attempt
    return since is None or pod.created >= since - _CLOCKS_DIFFER


def _gap_began(state: GangState, pods: Iterable[GangPod]) -> float:
    """When pods of a running gang's podset went missing, as far as anybody knows: the last one, or its last change."""
    last = read_time(state.transitions[-1].at) if state.transitions else None
    return max([last or 0.0, *(pod.unavailable_since for pod in pods if pod.unavailable_since is not None)])


def _live_wants(podsets: Sequence[PodSet], namespace: str, items: Items, index: int) -> list[ExpectedPods]:
    """What one object wants now for these podsets of it."""
    at_start = [ExpectedPods(item.name, item.count, item.count) for item in podsets]
    if index not in items:
        return at_start
    obj = items[index]
    if obj is None:
        return [ExpectedPods(item.name, 0, 0) for item in podsets]
    try:
        wants = expected_pods(obj, namespace=namespace)
    except BadInput:
        return at_start
    return wants if len(wants) == len(podsets) else at_start


def _declared_wants(declared: Sequence[PodSet], spec: GangSpec, items: Items) -> dict[str, ExpectedPods]:
    """What the objects want now, under the names the user declared."""
    known, inferred = infer_known(spec.planned, namespace=spec.namespace, unknown=BadInput)
    silent = [index for index in range(len(spec.objects)) if index not in known]
    wants: dict[str, ExpectedPods] = {}
    for index in sorted({item.source_index for item in inferred}):
        mine = [item for item in inferred if item.source_index == index]
        wants.update(zip([item.name for item in mine], _live_wants(mine, spec.namespace, items, index), strict=True))
    over = not any(want.now for want in wants.values()) and all(_is_gone(items, index) for index in silent)
    sources = {item.name: item.name for item in declared}
    if not wants.keys() & sources.keys() and len(declared) == len(wants):
        sources = dict(zip(sources, wants, strict=True))
    result: dict[str, ExpectedPods] = {}
    for item in declared:
        count = 0 if over else item.count
        want = wants.get(sources[item.name], ExpectedPods(item.name, count, count))
        result[item.name] = dataclasses.replace(want, name=item.name)
    return result


def _is_gone(items: Items, index: int) -> bool:
    """Whether an object of an unknown kind is known to want nothing."""
    obj: Raw | None = items.get(index, {})
    return obj is None or "deletionTimestamp" in (obj.get("metadata") or {})


def _best_podset(
    podsets: Sequence[PodSet], pod: GangPod, found: Mapping[str, Sequence[GangPod]], places: Mapping[str, int]
) -> str | None:
    """The podset a pod without a podset label belongs to: one of its object, and the one most like it."""
    index = next((places[uid] for uid in (pod.uid, *pod.owner_uids) if uid in places), None)
    candidates = [item for item in podsets if index is None or item.source_index in (index, -1)]

    def likeness(item: PodSet) -> tuple[bool, ...]:
        labels = (item.template.get("metadata") or {}).get("labels") or {}
        return (
            labels.items() <= dict(pod.labels).items(),
            item.requests == pod.requests,
            sum(other.live for other in found[item.name]) < item.count,
        )

    return max(candidates, key=likeness).name if candidates else None


def _raised(podset: PodSet, seen: Data) -> PodSet:
    """One podset, at least as large as it was seen."""
    requests = dict(podset.requests)
    for name, amount in seen["requests"].items():
        requests[name] = max(requests.get(name, 0), _amount(name, amount))
    return dataclasses.replace(podset, count=max(podset.count, int(seen["count"])), requests=requests)


def _amount(name: str, value: t.Any) -> int:
    """An observed amount, a quantity; the state that holds it can be edited by others, so nonsense counts nothing."""
    try:
        return scaled(name, parse_quantity(value))
    except BadInput:
        return 0
