# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Board: the podsets of one gang against the nodes they may use, with every rule that couples them.

A board answers "may the next pod of this podset go to that node now?" exactly as kube-scheduler's filters would, and
can be played forward and back. What does not depend on the gang itself was filtered before; what is a plain count per
node (host ports, a podset that repels itself per host) is expressed as a resource, so that arithmetic covers it.
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
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

HOSTNAME = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A podset with its constraints and the nodes the filters left it."""

    podset: PodSet
    wish: Constraints
    filtered: Filtered


@dataclasses.dataclass(slots=True)
class AffinityRule:
    """A podset's required pod affinity: the domains that satisfy it already and the gang's pods that will."""

    keys: tuple[str, ...]
    present: tuple[dict[str, int], ...]
    hits: tuple[bool, ...]
    matches_itself: bool
    anyone: int


@dataclasses.dataclass(slots=True)
class SpreadRule:
    """A podset's DoNotSchedule spread: counts per domain, over the nodes that take part."""

    key: str
    max_skew: int
    min_domains: int
    counts: dict[str, int]
    hits: tuple[bool, ...]
    own: int
    takes_part: frozenset[int]
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
class Piece:
    """A podset on the board: how many, what each costs, where it may go, and the rules that move with the game."""

    name: str
    count: int
    cost: tuple[int, ...]
    allowed: tuple[int, ...]
    conflicts: list[tuple[int, str]] = dataclasses.field(default_factory=list)
    affinity: AffinityRule | None = None
    spreads: list[SpreadRule] = dataclasses.field(default_factory=list)
    closed: dict[str, int] = dataclasses.field(default_factory=dict)
    needs: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        """Keep the resources that one pod really takes apart; most loops are over these."""
        self.needs = tuple((r, cost) for r, cost in enumerate(self.cost) if cost)

    @property
    def coupled(self) -> bool:
        """Whether more than resources decides where its pods may go."""
        return bool(self.conflicts or self.affinity or self.spreads)


class Board:
    """Pieces, free amounts per node, and the state of play."""

    def __init__(
        self, room: Room, candidates: t.Sequence[Candidate], narrowed: t.Mapping[int, frozenset[int]] | None = None
    ):
        """Set up the board; narrowed restricts pieces to nodes, as steering by node affinity would."""
        self.room = room
        self.candidates = tuple(candidates)
        self.narrowed = dict(narrowed or {})
        builder = _Builder(room, self.candidates, self.narrowed)
        self.resources = builder.resources
        self.pieces = builder.pieces()
        self.nodes = sorted(set().union(*(piece.allowed for piece in self.pieces)))
        self.free = builder.free_amounts(self.nodes)
        self.keys = builder.keys
        self.domain = {key: room.domains(key) for key in self.keys}
        self.placed: list[collections.Counter[int]] = [collections.Counter() for piece in self.pieces]
        self.left = [piece.count for piece in self.pieces]
        self.in_domain: dict[str, dict[str, list[int]]] = {key: {} for key in self.keys}
        self._slots: dict[int, dict[int, int]] = {}

    def slots(self, p: int) -> dict[int, int]:
        """Room for piece p on each node it may use, as long as nothing of the gang is placed; rules aside."""
        if p not in self._slots:
            self._slots[p] = {n: self.room_for(p, n) for n in self.pieces[p].allowed}
        return self._slots[p]

    def overdrawn(self) -> bool:
        """Whether the gang as a whole, or a piece by itself, asks for more than there is: then no search can help."""
        if any(sum(self.slots(p).values()) < piece.count for p, piece in enumerate(self.pieces)):
            return True
        for r in range(len(self.resources)):
            wanted = sum(piece.count * piece.cost[r] for piece in self.pieces)
            if wanted > sum(free[r] for free in self.free.values() if free[r] > 0):
                return True
        return False

    def narrow(self, nodes: t.Mapping[int, frozenset[int]]) -> Board:
        """A fresh board on which the given pieces may use only the given nodes."""
        return Board(self.room, self.candidates, nodes)

    def room_for(self, p: int, n: int) -> int:
        """How many pods of piece p the free amounts of node n would take, rules aside."""
        free = self.free[n]
        slots = -1
        for r, cost in self.pieces[p].needs:
            here = free[r] // cost
            if here <= 0:
                return 0
            if slots < 0 or here < slots:
                slots = here
        return slots

    def feasible(self, p: int, n: int) -> bool:
        """Whether kube-scheduler's filters would let the next pod of piece p onto node n now."""
        piece = self.pieces[p]
        free = self.free[n]
        for r, cost in piece.needs:
            if cost > free[r]:
                return False
        if not piece.coupled:
            return True
        for q, key in piece.conflicts:
            domain = self.domain[key][n]
            if domain is not None and self._standing(key, domain, q):
                return False
        for rule in piece.spreads:
            domain = self.domain[rule.key][n]
            if domain is None or not rule.allows(domain):
                return False
        return piece.affinity is None or self._attracted(piece.affinity, n)

    def _standing(self, key: str, domain: str, q: int) -> int:
        """How many pods of piece q stand in a domain."""
        counts = self.in_domain[key].get(domain)
        return counts[q] if counts else 0

    def _attracted(self, rule: AffinityRule, n: int) -> bool:
        """Required affinity: every term's domain holds a matching pod, or the pod is the first of its kind."""
        satisfied = True
        for key, present in zip(rule.keys, rule.present, strict=True):
            domain = self.domain[key][n]
            if domain is None:
                return False
            if not present.get(domain, 0):
                counts = self.in_domain[key].get(domain)
                if not counts or not any(count and hit for count, hit in zip(counts, rule.hits, strict=True)):
                    satisfied = False
        return satisfied or (rule.anyone == 0 and rule.matches_itself)

    def place(self, p: int, n: int, step: int = 1) -> None:
        """Put so many pods of piece p on node n, or with a negative step take them back."""
        free = self.free[n]
        for r, cost in self.pieces[p].needs:
            free[r] -= cost * step
        self.placed[p][n] += step
        if not self.placed[p][n]:
            del self.placed[p][n]
        self.left[p] -= step
        for key in self.keys:
            domain = self.domain[key][n]
            if domain is not None:
                self.in_domain[key].setdefault(domain, [0] * len(self.pieces))[p] += step
        for other in self.pieces:
            for spread in other.spreads:
                if spread.hits[p] and n in spread.takes_part:
                    spread.add(t.cast(str, self.domain[spread.key][n]), step)
            rule = other.affinity
            if rule and rule.hits[p] and any(self.domain[key][n] is not None for key in rule.keys):
                rule.anyone += step

    def reset(self) -> None:
        """Take every pod back."""
        for p in range(len(self.pieces)):
            for n, count in list(self.placed[p].items()):
                self.place(p, n, -count)


class _Builder:
    """Turns candidates into pieces: compiles selectors into counts so that play needs no label matching."""

    def __init__(self, room: Room, candidates: tuple[Candidate, ...], narrowed: t.Mapping[int, frozenset[int]]) -> None:
        """Collect resources and topology keys first; pieces refer to them by position."""
        self.room = room
        self.candidates = candidates
        self.narrowed = narrowed
        self.port_of = _ports_as_resources(candidates)
        self.repels_itself = [self._repels_itself_per_host(p) for p in range(len(candidates))]
        real = sorted({name for item in candidates for name in item.podset.requests})
        self.real_resources = real
        self.resources = tuple(
            real
            + [f"port {port.address}:{port.port}/{port.protocol}" for port in self.port_of]
            + [f"one of {p} per host" for p in self._loners()]
        )
        self.keys: tuple[str, ...] = ()

    def _loners(self) -> list[int]:
        """Pieces of which at most one fits a host by their own anti-affinity."""
        return [p for p, alone in enumerate(self.repels_itself) if alone]

    def _repels_itself_per_host(self, p: int) -> bool:
        """Whether the podset's anti-affinity on the host name speaks of its own pods.

        Only where each node has a host name of its own is that a count per node; elsewhere it stays a rule.
        """
        wish = self.candidates[p].wish
        if not wish.anti_affinity or len(self.room.host_names) < len(self.room.nodes):
            return False
        labels = self.room.namespace_labels(wish.namespace)
        return any(
            term.topology_key == HOSTNAME and term.matches(wish.namespace, wish.labels, labels)
            for term in wish.anti_affinity
        )

    def cost(self, p: int) -> tuple[int, ...]:
        """What one pod of the piece takes, resource by resource."""
        item = self.candidates[p]
        real = [item.podset.requests.get(name, 0) for name in self.real_resources]
        ports = [int(any(_takes_port(port, taken) for port in item.wish.host_ports)) for taken in self.port_of]
        alone = [int(q == p) for q in self._loners()]
        return tuple(real + ports + alone)

    def free_amounts(self, nodes: t.Sequence[int]) -> dict[int, list[int]]:
        """Free amount of every resource on every node in play."""
        extra = [1] * (len(self.resources) - len(self.real_resources))
        names = self.real_resources
        return {n: [free.get(name, 0) for name in names] + extra for n in nodes for free in (self.room.free[n],)}

    def pieces(self) -> list[Piece]:
        """Compile every candidate."""
        made = [self._piece(p) for p in range(len(self.candidates))]
        self._add_conflicts(made)
        for p, piece in enumerate(made):
            piece.affinity = self._affinity(p)
            piece.spreads = [self._spread(p, spread) for spread in self.candidates[p].wish.spreads]
            self._settle(p, piece)
        keys = {key for piece in made for other, key in piece.conflicts}
        keys |= {key for piece in made if piece.affinity for key in piece.affinity.keys}
        keys |= {rule.key for piece in made for rule in piece.spreads}
        self.keys = tuple(sorted(keys))
        return made

    def _piece(self, p: int) -> Piece:
        """The piece without its rules."""
        item = self.candidates[p]
        allowed = item.filtered.allowed
        if p in self.narrowed:
            allowed = tuple(n for n in allowed if n in self.narrowed[p])
        return Piece(item.podset.name, item.podset.count, self.cost(p), allowed)

    def _matches(self, q: int, term_matches: t.Callable[[str, t.Mapping[str, str], t.Mapping[str, str]], bool]) -> bool:
        """Whether the pods of piece q are ones a term speaks of."""
        wish = self.candidates[q].wish
        return term_matches(wish.namespace, wish.labels, self.room.namespace_labels(wish.namespace))

    def _add_conflicts(self, pieces: list[Piece]) -> None:
        """Anti-affinity works both ways, whoever comes second."""
        for p, item in enumerate(self.candidates):
            for term in item.wish.anti_affinity:
                for q in range(len(pieces)):
                    counted = p == q and term.topology_key == HOSTNAME and self.repels_itself[p]
                    if counted or not self._matches(q, term.matches):
                        continue
                    for one, other in sorted({(p, q), (q, p)}):
                        if (other, term.topology_key) not in pieces[one].conflicts:
                            pieces[one].conflicts.append((other, term.topology_key))

    def _affinity(self, p: int) -> AffinityRule | None:
        """Compile required pod affinity; a pod counts only if it matches all terms, as the scheduler has it."""
        terms = self.candidates[p].wish.affinity
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
            for n, count in counts.items():
                domain = domains[n]
                if domain is not None:
                    found[domain] += count
            present.append(dict(found))
        hits = tuple(self._matches(q, matches_all) for q in range(len(self.candidates)))
        anyone = sum(sum(found.values()) for found in present)
        return AffinityRule(tuple(term.topology_key for term in terms), tuple(present), hits, hits[p], anyone)

    def _settle(self, p: int, piece: Piece) -> None:
        """Turn rules that the gang's own pods cannot change into a plain restriction of nodes."""
        rule = piece.affinity
        if rule and (not any(rule.hits) or (rule.anyone and not any(hit for q, hit in enumerate(rule.hits) if q != p))):
            pairs = [(self.room.domains(key), present) for key, present in zip(rule.keys, rule.present, strict=True)]
            self._close(
                piece, "pod_affinity", lambda n: all(present.get(domains[n] or "", 0) for domains, present in pairs)
            )
            piece.affinity = None
        for spread in list(piece.spreads):
            self._close(piece, "topology_spread", functools.partial(self._spread_open, spread))
            if not any(spread.hits):
                piece.spreads.remove(spread)

    def _spread_open(self, rule: SpreadRule, n: int) -> bool:
        """Whether a spread constraint leaves a node open: it has the label, and a rule nobody moves is kept now."""
        domain = self.room.domains(rule.key)[n]
        return domain is not None and (any(rule.hits) or rule.allows(domain))

    @staticmethod
    def _close(piece: Piece, reason: str, is_open: t.Callable[[int], bool]) -> None:
        """Drop nodes from a piece and remember how many and why."""
        kept = tuple(n for n in piece.allowed if is_open(n))
        if len(kept) < len(piece.allowed):
            piece.closed[reason] = piece.closed.get(reason, 0) + len(piece.allowed) - len(kept)
            piece.allowed = kept

    def _spread(self, p: int, spread: Spread) -> SpreadRule:
        """Compile a spread constraint: which nodes take part, and what stands there already."""
        wish = self.candidates[p].wish
        takes_part = [n for n in range(len(self.room.nodes)) if self._takes_part(p, n, spread)]
        domains = self.room.domains(spread.topology_key)
        counts = {t.cast(str, domains[n]): 0 for n in takes_part}

        def matches(
            namespace: str, labels: t.Mapping[str, str], of_namespace: t.Mapping[str, str] | None = None
        ) -> bool:
            return namespace == wish.namespace and spread.selector is not None and spread.selector.matches(labels)

        taking = frozenset(takes_part)
        for n, count in self.room.count_matching(matches, terminating=False).items():
            if n in taking:
                counts[t.cast(str, domains[n])] += count
        hits = tuple(self._matches(q, matches) for q in range(len(self.candidates)))
        return SpreadRule(spread.topology_key, spread.max_skew, spread.min_domains, counts, hits, int(hits[p]), taking)

    def _takes_part(self, p: int, n: int, spread: Spread) -> bool:
        """A node counts if it has all topology keys of the podset and passes the inclusion policies."""
        node, wish = self.room.nodes[n], self.candidates[p].wish
        if any(other.topology_key not in node.labels for other in wish.spreads):
            return False
        steered_away = p in self.narrowed and n not in self.narrowed[p]
        if spread.honor_affinity and (steered_away or not matches_node(node, wish)):
            return False
        if spread.honor_taints:
            stopping = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
            return all(tolerated(taint, wish.tolerations) for taint in stopping)
        return True


def _ports_as_resources(candidates: tuple[Candidate, ...]) -> list[HostPort]:
    """Host ports the gang asks for, by address; each is a resource of which a node has one."""
    ports: set[HostPort] = {port for item in candidates for port in item.wish.host_ports}
    return sorted(ports, key=lambda port: (port.protocol, port.port, port.address))


def _takes_port(port: HostPort, taken: HostPort) -> bool:
    """Whether a pod with this port uses up that one: its own, and with the wildcard address those of all addresses."""
    return port == taken or (port.address == ANY_ADDRESS and port.conflicts(taken))
