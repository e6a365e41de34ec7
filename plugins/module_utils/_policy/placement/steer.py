# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packing and steering: place a whole gang, and narrow podsets to nodes so that the scheduler must succeed too."""

from __future__ import annotations

import heapq
import itertools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import (
    Narrowing,
    Placement,
    PlacementState,
    PodsetIndex,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import (
    MOST_PODS,
    Budget,
    ProofOutcome,
    arithmetic_proof,
    explore,
    find_full,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex

Strategy = t.Callable[[PlacementState, PodsetIndex, NodeIndex], tuple[float, ...]]

MAX_ORDERS = 6
MAX_DOMAINS = 8
MAX_CANDIDATES = 24
# Nodes and pods, times candidates, that may be tried; among thousands a few good guesses must do.
MAX_NODES_TRIED = 12_000
# Nodes looked at for a place that any of many would offer, as kube-scheduler itself does on large clusters.
SAMPLE = 100
# The same where rules must be checked for every pod anew.
SMALL_SAMPLE = 16


def emptiest(state: PlacementState, index: PodsetIndex, node: NodeIndex) -> tuple[float, ...]:
    """Prefer nodes that stay least used, as kube-scheduler's default scoring does."""
    room = state.room.nodes[node].allocatable
    free = state.free[node]
    shares = [free[resource] / room[name] for resource, name in enumerate(state.resources) if room.get(name)]
    return (-sum(shares), node)


def tightest(state: PlacementState, index: PodsetIndex, node: NodeIndex) -> tuple[float, ...]:
    """Prefer nodes that the pod fills up."""
    return (state.room_for(index, node), node)


def gathered(state: PlacementState, index: PodsetIndex, node: NodeIndex) -> tuple[float, ...]:
    """Prefer nodes the podset already uses, then ones no other podset uses, then those that take most of it."""
    mine = state.placed[index].get(node, 0) > 0
    shared = any(placed.get(node, 0) for other, placed in enumerate(state.placed) if other != index)
    return (not mine, shared, -state.room_for(index, node), node)


STRATEGIES: tuple[Strategy, ...] = (gathered, tightest, emptiest)


def place_greedily(state: PlacementState, order: t.Sequence[PodsetIndex], strategy: Strategy) -> Placement | None:
    """Place all pods podset by podset; podsets whose affinity must wait for another are tried again. None if stuck."""
    progress = True
    while any(state.left) and progress:
        progress = False
        for index in order:
            before = state.left[index]
            _place_podset(state, index, strategy)
            progress = progress or state.left[index] < before
    placement = None if any(state.left) else [dict(placed) for placed in state.placed]
    state.reset()
    return placement


def place_as_many(state: PlacementState, index: PodsetIndex, strategy: Strategy) -> dict[int, int]:
    """Place as many pods of one podset alone as will go; pods per node."""
    _place_podset(state, index, strategy)
    placed = dict(state.placed[index])
    state.reset()
    return placed


def _place_podset(state: PlacementState, index: PodsetIndex, strategy: Strategy) -> None:
    """Place as many pods of a podset as will go."""
    podset = state.podsets[index]
    if not podset.coupled:
        _place_in_bulk(state, index, strategy)
        return
    while state.left[index]:
        open_nodes = list(
            itertools.islice((node for node in podset.allowed if state.feasible(index, node)), SMALL_SAMPLE)
        )
        if not open_nodes:
            return
        state.place(index, min(open_nodes, key=lambda node: strategy(state, index, node)))


def _place_in_bulk(state: PlacementState, index: PodsetIndex, strategy: Strategy) -> None:
    """Without moving rules a heap of nodes suffices; packing strategies fill a node before the next."""
    heap = [(strategy(state, index, node), node) for node in _some_with_room(state, index)]
    heapq.heapify(heap)
    while heap and state.left[index]:
        _score, node = heapq.heappop(heap)
        state.place(index, node, 1 if strategy is emptiest else min(state.left[index], state.room_for(index, node)))
        if strategy is emptiest and state.room_for(index, node):
            heapq.heappush(heap, (strategy(state, index, node), node))


def _some_with_room(state: PlacementState, index: PodsetIndex) -> list[int]:
    """Nodes with room for the podset, all of them if they are few, else enough for twice its pods."""
    found = []
    slots = 0
    for node in state.podsets[index].allowed:
        here = state.room_for(index, node)
        if here:
            found.append(node)
            slots += here
            if len(found) >= SAMPLE and slots >= 2 * state.left[index]:
                break
    return found


def greedy_placements(state: PlacementState) -> t.Iterator[Placement]:
    """Different ways to place the whole gang, found greedily; likely good ones first."""
    for base in _bases(state):
        for order in _orders(base):
            for strategy in STRATEGIES:
                placement = place_greedily(base, order, strategy)
                if placement is not None:
                    yield placement


def packings(state: PlacementState, budget: Budget | None = None) -> t.Iterator[Placement]:
    """Different ways to place the whole gang; where greedy placing finds none and pods are few, by a full search."""
    found = False
    for placement in greedy_placements(state):
        found = True
        yield placement
    if not found:
        searched, _exhaustive = find_full(state, budget)
        if searched is not None:
            yield searched


def find_packing(state: PlacementState) -> Placement | None:
    """Any way to place the whole gang."""
    return next(packings(state), None)


def _orders(state: PlacementState) -> list[tuple[int, ...]]:
    """Orders in which to place the podsets: big ones first, then other permutations while they are few."""
    sizes = [max(podset.cost, default=0) * max(1, podset.count) for podset in state.podsets]
    scarce = sorted(range(len(state.podsets)), key=lambda index: (len(state.podsets[index].allowed), -sizes[index]))
    orders = [tuple(scarce)]
    if len(scarce) <= 4:
        orders += [order for order in itertools.permutations(scarce) if order != orders[0]]
    else:
        orders += [tuple(reversed(scarce)), tuple(range(len(scarce)))]
    return orders[:MAX_ORDERS]


def _bases(state: PlacementState) -> t.Iterator[PlacementState]:
    """The state itself, then states in which pods that must be together are confined to one domain each."""
    yield state
    for key in state.keys:
        rules = [(index, podset.affinity) for index, podset in enumerate(state.podsets) if podset.affinity]
        hits = {index: rule.hits for index, rule in rules if key in rule.keys}
        members = sorted({*hits, *(other for found in hits.values() for other, hit in enumerate(found) if hit)})
        for domain in _largest_domains(state, key, members):
            nodes = frozenset(node for node in state.nodes if state.domain[key][node] == domain)
            yield state.narrow({**state.narrowed, **dict.fromkeys(members, nodes)})


def _largest_domains(state: PlacementState, key: str, members: t.Sequence[int]) -> list[str]:
    """Domains of a key with most room for the given podsets."""
    room: dict[str, int] = {}
    for index in members:
        for node in state.podsets[index].allowed:
            domain = state.domain[key][node]
            if domain is not None:
                room[domain] = room.get(domain, 0) + state.room_for(index, node)
    return sorted(room, key=lambda domain: (-room[domain], domain))[:MAX_DOMAINS]


def order_free(state: PlacementState, budget: Budget) -> bool:
    """Whether all pods will be placed in any order on any choice of nodes.

    Before the long search some greedy placements are tried: one that gets stuck disproves it.
    """
    if state.overdrawn():
        return False
    if arithmetic_proof(state):
        return True
    if sum(state.left) > MOST_PODS:
        return False
    if any(place_greedily(state, order, strategy) is None for order in _orders(state) for strategy in STRATEGIES):
        return False
    return explore(state, budget) is ProofOutcome.SAFE


def find_steering(state: PlacementState, budget: Budget) -> tuple[Narrowing, Placement] | None:
    """Nodes per podset such that the scheduler, confined to them, places the gang in any order; with one placement."""
    tried: set[tuple[frozenset[int], ...]] = set()
    size = len(state.nodes) + sum(podset.count for podset in state.podsets)
    most = max(3, min(MAX_CANDIDATES, MAX_NODES_TRIED // max(1, size)))
    for placement in itertools.islice(packings(state, budget), most):
        sets = tuple(frozenset(here) for here in placement)
        if sets in tried:
            continue
        tried.add(sets)
        narrowing = {
            index: nodes
            for index, nodes in enumerate(sets)
            if nodes and nodes != frozenset(state.podsets[index].allowed)
        }
        if steerable(state, narrowing) and order_free(state.narrow(narrowing), budget):
            return narrowing, placement
    return None


def steerable(state: PlacementState, narrowing: Narrowing) -> bool:
    """Whether each node has a host name label of its own, by which steering names it."""
    names = state.room.host_names
    return all(names.get(node) for nodes in narrowing.values() for node in nodes)
