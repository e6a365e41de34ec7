# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proof that every pod of a gang finds a node, in whatever order kube-scheduler takes them and whichever it prefers.

Two means. Arithmetic: each podset keeps enough slots even if the others destroy as many as they can; exact for one
podset, and cheap on thousands of nodes. Exploration: for few nodes or few pods all orders and choices of nodes are
tried, alike nodes once. A proof may fail although every order works; it never succeeds when one does not.
"""

from __future__ import annotations

import enum
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import (
    Placement,
    PlacementState,
    PodsetIndex,
    PodsetState,
    SlotsPerNode,
    SpreadRule,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex

# Looks at a node that one exploration may spend; some tenths of a second.
EXPLORE_LIMIT = 60_000
# Exploration goes as deep as there are pods.
MOST_PODS = 300


class ProofOutcome(enum.Enum):
    """What exploration found out."""

    SAFE = "every order and choice of nodes places all pods"
    DEAD_END = "some order or choice leaves pods without a node"
    UNKNOWN = "too many orders and choices to try"


class Budget:
    """Looks at nodes that one or several explorations may still spend."""

    def __init__(self, looks: int = EXPLORE_LIMIT) -> None:
        self.left = looks


def arithmetic_proof(state: PlacementState) -> bool:
    """Whether counting alone shows that each podset keeps its slots."""
    slots = [state.slots(index) for index in range(len(state.podsets))]
    if any(sum(here.values()) < podset.count for here, podset in zip(slots, state.podsets, strict=True)):
        return False
    if all(_has_to_spare(state, index, slots) for index in range(len(slots))):
        return True
    disturbed = _disturbed_nodes(state, slots)
    for index, podset in enumerate(state.podsets):
        if podset.coupled and not _only_moot_affinity(state, index):
            if any(node in disturbed for node in podset.allowed) or not _only_itself(index, podset):
                return False
            if _capacity_alone(state, index, slots[index]) < podset.count:
                return False
        elif _guaranteed(state, index, slots, disturbed) < podset.count:
            return False
    return True


def _has_to_spare(state: PlacementState, index: PodsetIndex, slots: t.Sequence[SlotsPerNode]) -> bool:
    """Whether a podset without rules keeps its slots whatever nodes the pods of other podsets take, by totals alone."""
    podset = state.podsets[index]
    if podset.coupled:
        return False
    harm = sum(rival.count * _harm(rival, podset) for other, rival in enumerate(state.podsets) if other != index)
    return sum(slots[index].values()) >= podset.count + harm


def _disturbed_nodes(state: PlacementState, slots: t.Sequence[SlotsPerNode]) -> set[NodeIndex]:
    """Nodes that cannot take all podsets at once, as many pods of each as they could take alone."""
    if len(state.podsets) == 1:
        return set()
    wanted: dict[int, list[int]] = {}
    for index, podset in enumerate(state.podsets):
        for node, here in slots[index].items():
            most = min(podset.count, here)
            if most:
                total = wanted.setdefault(node, [0] * len(podset.cost))
                for resource, cost in enumerate(podset.cost):
                    total[resource] += most * cost
    return {node for node, total in wanted.items() if _too_much(total, state.free[node])}


def _too_much(wanted: t.Sequence[int], free: t.Sequence[int]) -> bool:
    """Whether the pods ask for more than is free of any resource; one they do not ask for may be overdrawn."""
    return any(want > have and want for want, have in zip(wanted, free, strict=True))


def _guaranteed(
    state: PlacementState, index: PodsetIndex, slots: t.Sequence[SlotsPerNode], disturbed: set[NodeIndex]
) -> int:
    """Slots a podset keeps for certain: all on undisturbed nodes, elsewhere less what the others can take away."""
    podset = state.podsets[index]
    safe = sum(min(podset.count, here) for node, here in slots[index].items() if node not in disturbed)
    if safe >= podset.count:
        return safe
    contested = {node for node in slots[index] if node in disturbed}
    risky = sum(slots[index][node] for node in contested)
    for other, rival in enumerate(state.podsets):
        if other != index and not contested.isdisjoint(node for node, here in slots[other].items() if here):
            risky -= rival.count * _harm(rival, podset)
    return safe + max(0, risky)


def _harm(rival: PodsetState, podset: PodsetState) -> int:
    """The most slots of a podset that one pod of a rival podset can destroy."""
    return max((-(-theirs // ours) for theirs, ours in zip(rival.cost, podset.cost, strict=True) if ours), default=0)


def _only_itself(index: PodsetIndex, podset: PodsetState) -> bool:
    """Whether the podset's rules are about its own pods only."""
    others = [other for other, key in podset.conflicts if other != index]
    rules = [rule.hits for rule in podset.spreads] + ([podset.affinity.hits] if podset.affinity else [])
    return not others and not any(hit for hits in rules for other, hit in enumerate(hits) if other != index)


def _only_moot_affinity(state: PlacementState, index: PodsetIndex) -> bool:
    """Whether the podset's only rule is an affinity that always holds.

    It does when the podset can use one domain only, and a podset that it must join, itself without affinity, too.
    """
    podset = state.podsets[index]
    rule = podset.affinity
    if rule is None or podset.conflicts or podset.spreads:
        return False
    # The first pod of its kind may go anywhere, but only while no pod that it must join is in another domain.
    first = not rule.matching_pods and not any(hit for other, hit in enumerate(rule.hits) if other != index)
    for other, target in enumerate(state.podsets):
        sought = rule.hits[other] and target.count and (first if other == index else target.affinity is None)
        if sought and all(_single_domain(state, key, (*podset.allowed, *target.allowed)) for key in rule.keys):
            return True
    return False


def _single_domain(state: PlacementState, key: str, nodes: t.Iterable[int]) -> bool:
    domains = {state.domain[key][node] for node in nodes}
    return len(domains) == 1 and None not in domains


def _capacity_alone(state: PlacementState, index: PodsetIndex, slots: SlotsPerNode) -> int:
    """How many pods a podset with one rule about itself places at least, by formula; 0 where no formula is known."""
    podset = state.podsets[index]
    rules = len(podset.conflicts) + len(podset.spreads) + int(podset.affinity is not None)
    if rules != 1:
        return 0
    if podset.conflicts:
        return _one_per_domain(state, podset.conflicts[0][1], slots)
    if podset.spreads:
        return _spread_capacity(state, podset.spreads[0], slots)
    return _same_domain(state, podset, slots)


def _by_domain(state: PlacementState, key: str, slots: SlotsPerNode) -> tuple[dict[str, int], int]:
    """Slots per domain of a key, and those on nodes without it."""
    domains = state.domain[key]
    found: dict[str, int] = {}
    outside = 0
    for node, here in slots.items():
        domain = domains[node]
        if domain is None:
            outside += here
        else:
            found[domain] = found.get(domain, 0) + here
    return found, outside


def _one_per_domain(state: PlacementState, key: str, slots: SlotsPerNode) -> int:
    """Pods that repel each other over a key: one for each domain with room; nodes without the key are no domain."""
    found, outside = _by_domain(state, key, slots)
    return sum(1 for here in found.values() if here) + outside


def _spread_capacity(state: PlacementState, rule: SpreadRule, slots: SlotsPerNode) -> int:
    """Pods that spread over a key: the fullest the emptiest domain can get, plus the skew, bounds every domain."""
    found, _outside = _by_domain(state, rule.key, slots)
    if not rule.own or any(node not in rule.takes_part for node, here in slots.items() if here):
        return 0
    tops = {domain: count + found.get(domain, 0) for domain, count in rule.counts.items()}
    lowest = min(tops.values()) if tops and len(tops) >= rule.min_domains else 0
    return sum(max(0, min(top, lowest + rule.max_skew) - rule.counts[domain]) for domain, top in tops.items())


def _same_domain(state: PlacementState, podset: PodsetState, slots: SlotsPerNode) -> int:
    """Pods that must join each other: the first picks the domain, so the smallest one it could pick is what counts."""
    rule = podset.affinity
    if rule is None or len(rule.keys) != 1 or not rule.matches_itself or rule.matching_pods:
        return 0
    found, _outside = _by_domain(state, rule.keys[0], slots)
    return min((here for here in found.values() if here), default=0)


def explore(state: PlacementState, budget: Budget | None = None) -> ProofOutcome:
    """Try all orders and choices of nodes, as far as the budget allows; the state is the same afterwards."""
    if sum(state.left) > MOST_PODS:
        return ProofOutcome.UNKNOWN
    return _DeadEndSearch(state, budget or Budget()).visit()


def find_full(state: PlacementState, budget: Budget | None = None) -> tuple[Placement | None, bool]:
    """Look for a placement of all pods: the placement or None, and whether the search was exhaustive."""
    if sum(state.left) > MOST_PODS:
        return None, False
    search = _PlacementSearch(state, budget or Budget())
    found = search.visit()
    return search.placement, found is not ProofOutcome.UNKNOWN


class _StateSearch:
    """A search through states, which are equal if they have as many pods of each podset on each kind of node."""

    def __init__(self, state: PlacementState, budget: Budget) -> None:
        self.state = state
        self.budget = budget
        self.kinds = alike_nodes(state)
        self.seen: set[t.Hashable] = set()

    def next_placements(self, podsets: t.Iterable[PodsetIndex]) -> list[tuple[PodsetIndex, NodeIndex]]:
        """Where the next pod of each podset may go; of alike nodes with the same pods only the first."""
        state = self.state
        possible = []
        for index in podsets:
            if not state.left[index]:
                continue
            tried = set()
            allowed = state.podsets[index].allowed
            self.budget.left -= len(allowed)
            for node in allowed:
                mark = (self.kinds[node], *(placed.get(node, 0) for placed in state.placed))
                if mark not in tried:
                    tried.add(mark)
                    if state.feasible(index, node):
                        possible.append((index, node))
        return possible

    def normal_form(self) -> t.Hashable:
        """The state up to swapping alike nodes."""
        counted: dict[NodeIndex, list[int]] = {}
        for index, placed in enumerate(self.state.placed):
            for node, count in placed.items():
                counted.setdefault(node, [0] * len(self.state.placed))[index] = count
        self.budget.left -= len(counted)
        return tuple(sorted((self.kinds[node], tuple(counts)) for node, counts in counted.items()))

    def _is_new(self) -> bool:
        """Whether the search is in this state for the first time."""
        key = self.normal_form()
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


class _DeadEndSearch(_StateSearch):
    """Depth-first over all states, looking for a dead end."""

    def visit(self) -> ProofOutcome:
        """A dead end if pods are left and none can be placed; otherwise the worst outcome of the next placements."""
        state = self.state
        if not any(state.left):
            return ProofOutcome.SAFE
        if self.budget.left <= 0:
            return ProofOutcome.UNKNOWN
        possible = self.next_placements(range(len(state.podsets)))
        if not possible:
            return ProofOutcome.DEAD_END
        for index, node in possible:
            state.place(index, node)
            outcome = self.visit() if self._is_new() else ProofOutcome.SAFE
            state.place(index, node, -1)
            if outcome is not ProofOutcome.SAFE:
                return outcome
        return ProofOutcome.SAFE


class _PlacementSearch(_StateSearch):
    """Depth-first for one state in which all pods are placed."""

    placement: Placement | None = None

    def visit(self) -> ProofOutcome:
        """Stop at the first full state; without rules the order of podsets does not matter, so it is fixed."""
        state = self.state
        if not any(state.left):
            self.placement = [dict(placed) for placed in state.placed]
            return ProofOutcome.SAFE
        if self.budget.left <= 0:
            return ProofOutcome.UNKNOWN
        waiting = [index for index, left in enumerate(state.left) if left]
        if not any(podset.coupled for podset in state.podsets):
            waiting = waiting[:1]
        unknown = False
        for index, node in self.next_placements(waiting):
            state.place(index, node)
            outcome = self.visit() if self._is_new() else ProofOutcome.DEAD_END
            state.place(index, node, -1)
            if outcome is ProofOutcome.SAFE:
                return outcome
            unknown = unknown or outcome is ProofOutcome.UNKNOWN
        return ProofOutcome.UNKNOWN if unknown else ProofOutcome.DEAD_END


def alike_nodes(state: PlacementState) -> dict[NodeIndex, int]:
    """Number the kinds of nodes: two of a kind can be swapped without changing any answer."""
    sizes: dict[str, dict[str, int]] = {key: {} for key in state.keys}
    for key, domains in state.domain.items():
        for node in state.nodes:
            domain = domains[node]
            if domain is not None:
                sizes[key][domain] = sizes[key].get(domain, 0) + 1
    members = [frozenset(podset.allowed) for podset in state.podsets]
    kinds: dict[t.Hashable, int] = {}
    numbered = {}
    for node in state.nodes:
        domain_kinds = tuple(_domain_kind(state, key, node, sizes[key]) for key in state.keys)
        part = tuple(node in rule.takes_part for podset in state.podsets for rule in podset.spreads)
        mark = (tuple(state.free[node]), tuple(node in member for member in members), domain_kinds, part)
        numbered[node] = kinds.setdefault(mark, len(kinds))
    return numbered


def _domain_kind(state: PlacementState, key: str, node: NodeIndex, sizes: t.Mapping[str, int]) -> t.Hashable:
    """A node's domain of a topology key; domains of one node are alike when everything counted there is equal."""
    domain = state.domain[key][node]
    if domain is None or sizes[domain] > 1:
        return domain
    counts = []
    for podset in state.podsets:
        counts += [rule.counts.get(domain, 0) for rule in podset.spreads if rule.key == key]
        if podset.affinity:
            pairs = zip(podset.affinity.keys, podset.affinity.present, strict=True)
            counts += [present.get(domain, 0) for one, present in pairs if one == key]
    return ("alone", *counts)
