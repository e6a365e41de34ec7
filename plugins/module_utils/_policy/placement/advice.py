# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Advice: the smallest change after which a waiting gang would fit, each tried out before it is given."""

from __future__ import annotations

import dataclasses
import heapq
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NODE_REASONS, Advice, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import Placed, open_case, try_to_fit
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import (
    PlacementState,
    PodsetIndex,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import (
    EXPLORE_LIMIT,
    Budget,
    arithmetic_proof,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex, Room

# More pods than this are not "a small change"; the search stops there.
MOST_PODS_TO_END = 64
MOST_SLOTS_TO_FREE = 4 * MOST_PODS_TO_END
# Trying out whether a pod could stay costs a look at every node; this many looks are spent on it.
MOST_NODES_TO_PRUNE = 50_000
# On more nodes than this only proofs by counting are tried while sizes are searched for.
MANY_NODES = 1000
# All searches for the advice on one verdict share this.
ADVICE_LOOKS = 3 * EXPLORE_LIMIT


def with_advice(room: Room, gang: Gang, verdict: Verdict) -> Verdict:
    """The verdict with what would help; only shortages of nodes can be advised on."""
    if verdict.answer == "fits" or verdict.reason not in NODE_REASONS or not verdict.nodes_visible:
        return verdict
    budget = Budget(ADVICE_LOOKS)
    tries = [fewer_replicas(room, gang, budget)]
    if verdict.answer == "waits":
        tries += [pods_to_end(room, gang, budget), nodes_to_open(room, gang, budget)]
    return dataclasses.replace(verdict, advice=tuple(advice for advice in tries if advice is not None))


def fewer_replicas(room: Room, gang: Gang, budget: Budget) -> Advice | None:
    """The largest smaller gang that fits: one podset cut, or all of them in proportion."""
    full = {podset.name: podset.count for podset in gang.podsets}
    best: tuple[dict[str, int], Placed] | None = None
    for name, count in full.items():
        found = _largest(room, gang, budget, count - 1, lambda k, name=name: {**full, name: k})  # type: ignore[misc]
        if found and (best is None or sum(found[0].values()) > sum(best[0].values())):
            best = found
    if best is None and len(full) > 1:
        steps = max(full.values())
        best = _largest(
            room, gang, budget, steps - 1, lambda k: {name: max(min(1, c), c * k // steps) for name, c in full.items()}
        )
    if best is None:
        return None
    counts, placed = best
    changes = {name: counts[name] for name in full if counts[name] != full[name]}
    words = ", ".join(f"{count} instead of {full[name]} of {name}" for name, count in changes.items())
    details = {"counts": counts, "then": "steered" if placed.narrowing else "now"}
    return Advice("fewer_replicas", f"run {words}", details)


def _largest(
    room: Room, gang: Gang, budget: Budget, most: int, counts: t.Callable[[int], dict[str, int]]
) -> tuple[dict[str, int], Placed] | None:
    """The largest k up to most whose counts fit, by bisection."""
    best = None
    low, high = 1, most
    while low <= high:
        middle = (low + high) // 2
        case = open_case(gang.resized(counts(middle)), room)
        hard_to_prove = len(case.state.nodes) > MANY_NODES and not arithmetic_proof(case.state)
        placed = None if hard_to_prove else try_to_fit(case, budget)
        if placed:
            best, low = (counts(middle), placed), middle + 1
        else:
            high = middle - 1
    return best


def pods_to_end(room: Room, gang: Gang, budget: Budget) -> Advice | None:
    """A small set of running pods whose end lets the gang fit."""
    chosen = _choose_pods(room, gang, budget)
    return _advise_pods(chosen) if chosen else None


def _advise_pods(pods: t.Sequence[Pod]) -> Advice:
    """The advice to let these pods end."""
    owners = sorted({pod.owner or f"Pod/{pod.name}" for pod in pods})
    keys = sorted(pod.key for pod in pods)
    words = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
    return Advice("pods_end", f"wait for, or end, {len(keys)} pod(s): {words}", {"pods": keys, "owners": owners})


def _choose_pods(room: Room, gang: Gang, budget: Budget) -> list[Pod] | None:
    """Pods to end: single ones where that opens slots, else whole nodes; then those not needed are let off."""
    chosen = _cheapest_slots(room, gang)
    if not chosen or not _fits_without(room, gang, chosen, budget):
        chosen = _whole_nodes(room, gang, budget)
    return _pruned(room, gang, chosen, budget) if chosen else None


def _fits_without(room: Room, gang: Gang, gone: t.Iterable[Pod], budget: Budget) -> bool:
    return try_to_fit(open_case(gang, room.without(gone)), budget) is not None


def _removable(room: Room, node: NodeIndex) -> list[Pod]:
    """Pods of a node that end for good when they end, biggest share of the node first."""
    capacity = room.nodes[node].allocatable

    def share(pod: Pod) -> float:
        return max(
            (amount / capacity[name] for name, amount in pod.requests.items() if capacity.get(name)), default=0.0
        )

    pods = [pod for pod in room.pods_on[node] if not pod.stays and not pod.virtual]
    return sorted(pods, key=lambda pod: (-share(pod), pod.key))


def _cheapest_slots(room: Room, gang: Gang) -> list[Pod] | None:
    """Free slots one after the other where the fewest pods have to end; None if that takes too many."""
    state = open_case(gang, room).state
    gone: list[Pod] = []
    for index, podset in sorted(enumerate(state.podsets), key=lambda item: -sum(item[1].cost)):
        for node in sorted(podset.allowed, key=lambda node: -state.room_for(index, node)):
            state.place(index, node, min(state.left[index], state.room_for(index, node)))
        if not _free_slots(room, state, index, gone):
            return None
    return gone


def _free_slots(room: Room, state: PlacementState, index: PodsetIndex, gone: list[Pod]) -> bool:
    """Add pods to gone until the podset's last pod finds room; False if that takes too many."""
    if state.left[index] > MOST_SLOTS_TO_FREE:
        return False
    ways = [
        way
        for node in state.podsets[index].allowed
        if state.left[index] and (way := _way_to_slot(room, state, index, node, gone))
    ]
    heapq.heapify(ways)
    while state.left[index]:
        if not ways or len(gone) > MOST_PODS_TO_END:
            return False
        _number, node, pods = heapq.heappop(ways)
        for pod in pods:
            gone.append(pod)
            for resource, name in enumerate(state.resources):
                state.free[node][resource] += pod.requests.get(name, 0)
        state.place(index, node, min(state.left[index], state.room_for(index, node)))
        if way := _way_to_slot(room, state, index, node, gone):
            heapq.heappush(ways, way)
    return len(gone) <= MOST_PODS_TO_END


def _way_to_slot(
    room: Room, state: PlacementState, index: PodsetIndex, node: NodeIndex, gone: t.Sequence[Pod]
) -> tuple[int, int, list[Pod]] | None:
    """How many and which pods to end on a node until one more pod of the podset finds room there."""
    free = list(state.free[node])
    needs = state.podsets[index].needs
    pods: list[Pod] = []
    for pod in _removable(room, node):
        if all(free[resource] >= cost for resource, cost in needs):
            break
        if not any(pod is other for other in gone):
            pods.append(pod)
            for resource, name in enumerate(state.resources):
                free[resource] += pod.requests.get(name, 0)
    fits = all(free[resource] >= cost for resource, cost in needs)
    return (len(pods), node, pods) if fits and pods else None


def _whole_nodes(room: Room, gang: Gang, budget: Budget) -> list[Pod] | None:
    """Clear nodes the gang could use, least occupied first, until it fits; None if it takes too many pods."""
    useful = open_case(gang, room.emptied()).state.nodes
    by_node = sorted((len(pods), node, pods) for node in useful if (pods := _removable(room, node)))
    low, high = 1, len(by_node)
    best: list[Pod] | None = None
    while low <= high:
        middle = (low + high) // 2
        pods = [pod for _number, _n, here in by_node[:middle] for pod in here]
        if len(pods) > MOST_PODS_TO_END:
            high = middle - 1
        elif _fits_without(room, gang, pods, budget):
            best, high = pods, middle - 1
        else:
            low = middle + 1
    return best


def _pruned(room: Room, gang: Gang, chosen: list[Pod], budget: Budget) -> list[Pod]:
    """Keep only the pods whose end is needed, as far as trying it out stays cheap."""
    kept = list(chosen)
    for pod in chosen[: MOST_NODES_TO_PRUNE // max(1, len(room.nodes))]:
        fewer = [other for other in kept if other is not pod]
        if fewer and _fits_without(room, gang, fewer, budget):
            kept = fewer
    return kept


def nodes_to_open(room: Room, gang: Gang, budget: Budget) -> Advice | None:
    """Nodes that are cordoned or not ready now and would make the gang fit, alone or together with pods that end."""
    opened = room.opened()
    if opened is room:
        return None
    ending: list[Pod] = []
    case = open_case(gang, opened)
    placed = try_to_fit(case, budget)
    if placed is None:
        ending = _choose_pods(opened, gang, budget) or []
        case = open_case(gang, opened.without(ending))
        placed = try_to_fit(case, budget)
    closed = {now.name for now, then in zip(room.nodes, opened.nodes, strict=True) if now != then}
    used = {case.room.nodes[node].name for here in placed.placement for node in here} if placed else set()
    names = sorted(closed & used)
    if not names or not _fits_without(room.opened(names), gang, ending, budget):
        return None
    words = f"uncordon, or wait for, {', '.join(names[:8])}"
    if not ending:
        return Advice("open_nodes", words, {"nodes": names})
    others = _advise_pods(ending)
    return Advice("open_nodes", f"{words}; and {others.text}", {"nodes": names, **others.details})
