# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placement state: the podsets of one gang, the nodes they may use, what is placed so far, and the rules between pods.

It answers "may the next pod of this podset go to that node now?" exactly as kube-scheduler's filters would; pods can be
placed and taken back. What does not depend on the gang itself was filtered before; what is a plain count per node (host
ports, a podset that repels itself per host) is expressed as a resource, so that arithmetic covers it.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import (
    ANY_ADDRESS,
    Constraints,
    HostPort,
    Spread,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.filters import (
    Filtered,
    matches_node,
    tolerated,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex, Room

HOSTNAME = "kubernetes.io/hostname"
# A podset's position in its gang.
PodsetIndex = int
# The nodes to which steering restricts podsets.
Narrowing = t.Mapping[PodsetIndex, frozenset[NodeIndex]]
SlotsPerNode = t.Mapping[NodeIndex, int]
# Pods per node, for each podset.
Placement = list[dict[NodeIndex, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A podset with its constraints and the nodes the filters left it."""

    podset: PodSet
    wish: Constraints
    filtered: Filtered


@dataclasses.dataclass(slots=True)
class AffinityRule:
    """A podset's required pod affinity: the domains that satisfy it already and the gang's pods that will."""

    # Per term: its topology key, and the matching pods in each domain that run already.
    keys: tuple[str, ...]
    present: tuple[dict[str, int], ...]
    # Per podset of the gang: whether its pods match all terms.
    hits: tuple[bool, ...]
    matches_itself: bool
    # Running and placed pods that match.
    matching_pods: int


@dataclasses.dataclass(slots=True)
class SpreadRule:
    """A podset's DoNotSchedule spread: counts per domain, over the nodes that take part."""

    key: str
    max_skew: int
    min_domains: int
    counts: dict[str, int]
    hits: tuple[bool, ...]
    # 1 if the podset's own pods are counted, else 0.
    own: int
    takes_part: frozenset[NodeIndex]
    # The smallest count; None until it is needed again.
    lowest: int | None = dataclasses.field(default=None, compare=False)

    def allows(self, domain: str) -> bool:
        """Whether one more pod in the domain keeps the skew."""
        if self.lowest is None:
            self.lowest = min(self.counts.values()) if len(self.counts) >= self.min_domains and self.counts else 0
        return self.counts.get(domain, 0) + self.own - self.lowest <= self.max_skew

    def add(self, domain: str, step: int) -> None:
        """Count pods that come to a domain or leave it."""
        self.counts[domain] += step
        self.lowest = None


@dataclasses.dataclass(slots=True)
class PodsetState:
    """A podset that is being placed: how many pods, what each takes, where they may go, and rules about other pods."""

    name: str
    count: int
    # What one pod takes of each resource of the PlacementState.
    cost: tuple[int, ...]
    allowed: tuple[NodeIndex, ...]
    # Podsets that must not share a domain of the topology key with this one.
    conflicts: list[tuple[PodsetIndex, str]] = dataclasses.field(default_factory=list)
    affinity: AffinityRule | None = None
    spreads: list[SpreadRule] = dataclasses.field(default_factory=list)
    # Nodes dropped by rules that placing pods of the gang cannot change, counted by reason.
    closed: dict[str, int] = dataclasses.field(default_factory=dict)
    # (resource, amount) of the resources that one pod takes; most loops are over these.
    needs: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        self.needs = tuple((resource, cost) for resource, cost in enumerate(self.cost) if cost)

    @property
    def coupled(self) -> bool:
        """Whether more than resources decides where its pods may go."""
        return bool(self.conflicts or self.affinity or self.spreads)


class PlacementState:
    """The podsets of a gang, the free amounts of nodes, and the pods placed so far."""

    def __init__(
        self,
        room: Room,
        candidates: t.Sequence[Candidate],
        narrowed: Narrowing | None = None,
    ):
        """Nothing is placed at first; narrowed restricts podsets to nodes, as steering by node affinity would."""
        self.room = room
        self.candidates = tuple(candidates)
        self.narrowed = dict(narrowed or {})
        builder = _Builder(room, self.candidates, self.narrowed)
        self.resources = builder.resources
        self.podsets = builder.podsets()
        self.nodes = sorted(set().union(*(podset.allowed for podset in self.podsets)))
        self.free = builder.free_amounts(self.nodes)
        self.keys = builder.keys
        self.domain = {key: room.domains(key) for key in self.keys}
        self.placed: list[collections.Counter[int]] = [collections.Counter() for podset in self.podsets]
        self.left = [podset.count for podset in self.podsets]
        self.in_domain: dict[str, dict[str, list[int]]] = {key: {} for key in self.keys}
        self._slots: dict[int, dict[int, int]] = {}

    def slots(self, index: PodsetIndex) -> dict[int, int]:
        """Slots of a podset on each node it may use while nothing of the gang is placed, without rules about pods."""
        if index not in self._slots:
            self._slots[index] = {node: self.room_for(index, node) for node in self.podsets[index].allowed}
        return self._slots[index]

    def overdrawn(self) -> bool:
        """Whether the gang as a whole, or a podset by itself, asks for more than is free: then no search can help."""
        if any(sum(self.slots(index).values()) < podset.count for index, podset in enumerate(self.podsets)):
            return True
        for resource in range(len(self.resources)):
            wanted = sum(podset.count * podset.cost[resource] for podset in self.podsets)
            if wanted > sum(free[resource] for free in self.free.values() if free[resource] > 0):
                return True
        return False

    def narrow(self, nodes: Narrowing) -> PlacementState:
        """A state with nothing placed in which the given podsets may use only the given nodes."""
        return PlacementState(self.room, self.candidates, nodes)

    def room_for(self, index: PodsetIndex, node: NodeIndex) -> int:
        """How many more pods of a podset the free amounts of a node take, without rules about other pods."""
        free = self.free[node]
        slots = -1
        for resource, cost in self.podsets[index].needs:
            here = free[resource] // cost
            if here <= 0:
                return 0
            if slots < 0 or here < slots:
                slots = here
        return slots

    def feasible(self, index: PodsetIndex, node: NodeIndex) -> bool:
        """Whether kube-scheduler's filters would let the next pod of a podset onto a node now."""
        podset = self.podsets[index]
        free = self.free[node]
        for resource, cost in podset.needs:
            if cost > free[resource]:
                return False
        if not podset.coupled:
            return True
        for other, key in podset.conflicts:
            domain = self.domain[key][node]
            if domain is not None and self._pods_in_domain(key, domain, other):
                return False
        for rule in podset.spreads:
            domain = self.domain[rule.key][node]
            if domain is None or not rule.allows(domain):
                return False
        return podset.affinity is None or self._affinity_holds(podset.affinity, node)

    def _pods_in_domain(self, key: str, domain: str, other: PodsetIndex) -> int:
        counts = self.in_domain[key].get(domain)
        return counts[other] if counts else 0

    def _affinity_holds(self, rule: AffinityRule, node: NodeIndex) -> bool:
        """Required affinity: every term's domain holds a matching pod, or the pod is the first of its kind."""
        satisfied = True
        for key, present in zip(rule.keys, rule.present, strict=True):
            domain = self.domain[key][node]
            if domain is None:
                return False
            if not present.get(domain, 0):
                counts = self.in_domain[key].get(domain)
                if not counts or not any(count and hit for count, hit in zip(counts, rule.hits, strict=True)):
                    satisfied = False
        return satisfied or (rule.matching_pods == 0 and rule.matches_itself)

    def place(self, index: PodsetIndex, node: NodeIndex, step: int = 1) -> None:
        """Place pods of a podset on a node, or with a negative step take them back."""
        free = self.free[node]
        for resource, cost in self.podsets[index].needs:
            free[resource] -= cost * step
        self.placed[index][node] += step
        if not self.placed[index][node]:
            del self.placed[index][node]
        self.left[index] -= step
        for key in self.keys:
            domain = self.domain[key][node]
            if domain is not None:
                self.in_domain[key].setdefault(domain, [0] * len(self.podsets))[index] += step
        for other in self.podsets:
            for spread in other.spreads:
                if spread.hits[index] and node in spread.takes_part:
                    spread.add(t.cast(str, self.domain[spread.key][node]), step)
            rule = other.affinity
            if rule and rule.hits[index] and any(self.domain[key][node] is not None for key in rule.keys):
                rule.matching_pods += step

    def reset(self) -> None:
        """Take every pod back."""
        for index in range(len(self.podsets)):
            for node, count in list(self.placed[index].items()):
                self.place(index, node, -count)


class _Builder:
    """Turns candidates into podset states: compiles selectors into counts, so that placing needs no label matching."""

    def __init__(self, room: Room, candidates: tuple[Candidate, ...], narrowed: Narrowing) -> None:
        self.room = room
        self.candidates = candidates
        self.narrowed = narrowed
        self.port_of = _ports_as_resources(candidates)
        self.repels_itself = [self._repels_itself_per_host(index) for index in range(len(candidates))]
        real = sorted({name for item in candidates for name in item.podset.requests})
        self.real_resources = real
        self.resources = tuple(
            real
            + [f"port {port.address}:{port.port}/{port.protocol}" for port in self.port_of]
            + [f"one of {index} per host" for index in self._one_per_host()]
        )
        self.keys: tuple[str, ...] = ()

    def _one_per_host(self) -> list[int]:
        """Podsets of which a host takes at most one pod, by their own anti-affinity."""
        return [index for index, alone in enumerate(self.repels_itself) if alone]

    def _repels_itself_per_host(self, index: PodsetIndex) -> bool:
        """Whether the podset's anti-affinity on the host name speaks of its own pods.

        Only where each node has a host name of its own is that a count per node; elsewhere it stays a rule.
        """
        wish = self.candidates[index].wish
        if not wish.anti_affinity or len(self.room.host_names) < len(self.room.nodes):
            return False
        labels = self.room.namespace_labels(wish.namespace)
        return any(
            term.topology_key == HOSTNAME and term.matches(wish.namespace, wish.labels, labels)
            for term in wish.anti_affinity
        )

    def cost(self, index: PodsetIndex) -> tuple[int, ...]:
        """What one pod of the podset takes of each resource."""
        item = self.candidates[index]
        real = [item.podset.requests.get(name, 0) for name in self.real_resources]
        ports = [int(any(_takes_port(port, taken) for port in item.wish.host_ports)) for taken in self.port_of]
        alone = [int(other == index) for other in self._one_per_host()]
        return tuple(real + ports + alone)

    def free_amounts(self, nodes: t.Sequence[int]) -> dict[int, list[int]]:
        """Free amount of every resource on each of the nodes."""
        extra = [1] * (len(self.resources) - len(self.real_resources))
        names = self.real_resources
        return {
            node: [free.get(name, 0) for name in names] + extra for node in nodes for free in (self.room.free[node],)
        }

    def podsets(self) -> list[PodsetState]:
        """Compile every candidate."""
        made = [self._without_rules(index) for index in range(len(self.candidates))]
        self._add_conflicts(made)
        for index, podset in enumerate(made):
            podset.affinity = self._affinity(index)
            podset.spreads = [self._spread(index, spread) for spread in self.candidates[index].wish.spreads]
            self._compile_fixed_rules(index, podset)
        keys = {key for podset in made for other, key in podset.conflicts}
        keys |= {key for podset in made if podset.affinity for key in podset.affinity.keys}
        keys |= {rule.key for podset in made for rule in podset.spreads}
        self.keys = tuple(sorted(keys))
        return made

    def _without_rules(self, index: PodsetIndex) -> PodsetState:
        """The podset before its rules are compiled."""
        item = self.candidates[index]
        allowed = item.filtered.allowed
        if index in self.narrowed:
            allowed = tuple(node for node in allowed if node in self.narrowed[index])
        return PodsetState(item.podset.name, item.podset.count, self.cost(index), allowed)

    def _matches(
        self, other: PodsetIndex, term_matches: t.Callable[[str, t.Mapping[str, str], t.Mapping[str, str]], bool]
    ) -> bool:
        """Whether a term matches the pods of a podset."""
        wish = self.candidates[other].wish
        return term_matches(wish.namespace, wish.labels, self.room.namespace_labels(wish.namespace))

    def _add_conflicts(self, podsets: list[PodsetState]) -> None:
        """Anti-affinity of one podset keeps the pods of both apart, in whatever order they come."""
        for index, item in enumerate(self.candidates):
            for term in item.wish.anti_affinity:
                for other in range(len(podsets)):
                    counted = index == other and term.topology_key == HOSTNAME and self.repels_itself[index]
                    if counted or not self._matches(other, term.matches):
                        continue
                    for repelled, present in sorted({(index, other), (other, index)}):
                        if (present, term.topology_key) not in podsets[repelled].conflicts:
                            podsets[repelled].conflicts.append((present, term.topology_key))

    def _affinity(self, index: PodsetIndex) -> AffinityRule | None:
        """Compile required pod affinity; a pod counts only if it matches all terms, as the scheduler has it."""
        terms = self.candidates[index].wish.affinity
        if not terms:
            return None

        def matches_all(namespace: str, labels: t.Mapping[str, str], of_namespace: t.Mapping[str, str]) -> bool:
            return all(term.matches(namespace, labels, of_namespace) for term in terms)

        counts = self.room.count_matching(
            lambda namespace, labels: matches_all(namespace, labels, self.room.namespace_labels(namespace)),
            terminating=True,
        )
        present = []
        for term in terms:
            domains = self.room.domains(term.topology_key)
            found: collections.Counter[str] = collections.Counter()
            for node, count in counts.items():
                domain = domains[node]
                if domain is not None:
                    found[domain] += count
            present.append(dict(found))
        hits = tuple(self._matches(other, matches_all) for other in range(len(self.candidates)))
        matching_pods = sum(sum(found.values()) for found in present)
        return AffinityRule(
            tuple(term.topology_key for term in terms), tuple(present), hits, hits[index], matching_pods
        )

    def _compile_fixed_rules(self, index: PodsetIndex, podset: PodsetState) -> None:
        """Replace rules whose answer the gang's own pods cannot change by a restriction of nodes."""
        rule = podset.affinity
        if rule and (
            not any(rule.hits)
            or (rule.matching_pods and not any(hit for other, hit in enumerate(rule.hits) if other != index))
        ):
            pairs = [(self.room.domains(key), present) for key, present in zip(rule.keys, rule.present, strict=True)]
            self._drop_nodes(
                podset,
                "pod_affinity",
                lambda node: all(present.get(domains[node] or "", 0) for domains, present in pairs),
            )
            podset.affinity = None
        for spread in list(podset.spreads):
            self._drop_nodes(podset, "topology_spread", functools.partial(self._is_open_by_spread, spread))
            if not any(spread.hits):
                podset.spreads.remove(spread)

    def _is_open_by_spread(self, rule: SpreadRule, node: NodeIndex) -> bool:
        """Whether a spread constraint leaves a node open: it has the label, and a rule that cannot change allows it."""
        domain = self.room.domains(rule.key)[node]
        return domain is not None and (any(rule.hits) or rule.allows(domain))

    @staticmethod
    def _drop_nodes(podset: PodsetState, reason: str, is_open: t.Callable[[int], bool]) -> None:
        """Drop nodes from a podset and count them by reason."""
        kept = tuple(node for node in podset.allowed if is_open(node))
        if len(kept) < len(podset.allowed):
            podset.closed[reason] = podset.closed.get(reason, 0) + len(podset.allowed) - len(kept)
            podset.allowed = kept

    def _spread(self, index: PodsetIndex, spread: Spread) -> SpreadRule:
        """Compile a spread constraint: which nodes take part, and how many matching pods run there."""
        wish = self.candidates[index].wish
        takes_part = [node for node in range(len(self.room.nodes)) if self._takes_part(index, node, spread)]
        domains = self.room.domains(spread.topology_key)
        counts = {t.cast(str, domains[node]): 0 for node in takes_part}

        def matches(
            namespace: str, labels: t.Mapping[str, str], of_namespace: t.Mapping[str, str] | None = None
        ) -> bool:
            return namespace == wish.namespace and spread.selector is not None and spread.selector.matches(labels)

        taking = frozenset(takes_part)
        for node, count in self.room.count_matching(matches, terminating=False).items():
            if node in taking:
                counts[t.cast(str, domains[node])] += count
        hits = tuple(self._matches(other, matches) for other in range(len(self.candidates)))
        return SpreadRule(
            spread.topology_key, spread.max_skew, spread.min_domains, counts, hits, int(hits[index]), taking
        )

    def _takes_part(self, index: PodsetIndex, node: NodeIndex, spread: Spread) -> bool:
        """A node counts if it has all topology keys of the podset and passes the inclusion policies."""
        here, wish = self.room.nodes[node], self.candidates[index].wish
        if any(other.topology_key not in here.labels for other in wish.spreads):
            return False
        steered_away = index in self.narrowed and node not in self.narrowed[index]
        if spread.honor_affinity and (steered_away or not matches_node(here, wish)):
            return False
        if spread.honor_taints:
            stopping = [taint for taint in here.taints if taint.effect in ("NoSchedule", "NoExecute")]
            return all(tolerated(taint, wish.tolerations) for taint in stopping)
        return True


def _ports_as_resources(candidates: tuple[Candidate, ...]) -> list[HostPort]:
    """Host ports the gang asks for, by address; each is a resource of which a node has one."""
    ports: set[HostPort] = {port for item in candidates for port in item.wish.host_ports}
    return sorted(ports, key=lambda port: (port.protocol, port.port, port.address))


def _takes_port(port: HostPort, taken: HostPort) -> bool:
    """Whether a pod with this port uses up that one: its own, and with the wildcard address those of all addresses."""
    return port == taken or (port.address == ANY_ADDRESS and port.conflicts(taken))
