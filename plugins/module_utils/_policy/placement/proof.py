# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Proof that every pod of a gang finds a node, in whatever order kube-scheduler takes them and whichever it prefers.

Two means. Arithmetic: each podset keeps enough slots even if the others do their worst; exact for one podset, and cheap
on thousands of nodes. Exploration: for few nodes or few pods all courses of play are tried, alike nodes counted once.
A proof may fail although no bad course exists; it never succeeds when one does.
"""

from __future__ import annotations

import enum
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._policy.placement.board import Board, Piece, SpreadRule

# Looks at a node that one exploration may spend; some tenths of a second.
EXPLORE_LIMIT = 60_000
# Exploration goes as deep as there are pods.
MOST_PODS = 300


class ProofOutcome(enum.Enum):
    """What exploration found out."""

    SAFE = "every course of play places all pods"
    DEAD_END = "some course of play leaves pods without a node"
    UNKNOWN = "too many courses to try"


class Budget:
    """Looks at nodes that one or several explorations may still spend."""

    def __init__(self, looks: int = EXPLORE_LIMIT) -> None:
        """Start full."""
        self.left = looks


def arithmetic_proof(board: Board) -> bool:
    """Each piece is guaranteed its slots, by counting alone."""
    slots = [board.slots(p) for p in range(len(board.pieces))]
    if any(sum(here.values()) < piece.count for here, piece in zip(slots, board.pieces, strict=True)):
        return False
    if all(_has_to_spare(board, p, slots) for p in range(len(slots))):
        return True
    disturbed = _disturbed_nodes(board, slots)
    for p, piece in enumerate(board.pieces):
        if piece.coupled and not _only_moot_affinity(board, p):
            if any(n in disturbed for n in piece.allowed) or not _only_itself(p, piece):
                return False
            if _lone_capacity(board, p, slots[p]) < piece.count:
                return False
        elif _guaranteed(board, p, slots, disturbed) < piece.count:
            return False
    return True


def _has_to_spare(board: Board, p: int, slots: t.Sequence[t.Mapping[int, int]]) -> bool:
    """Whether a piece without rules keeps its slots even if every rival pod does its worst; needs no look at nodes."""
    piece = board.pieces[p]
    if piece.coupled:
        return False
    harm = sum(rival.count * _harm(rival, piece) for q, rival in enumerate(board.pieces) if q != p)
    return sum(slots[p].values()) >= piece.count + harm


def _disturbed_nodes(board: Board, slots: t.Sequence[t.Mapping[int, int]]) -> set[int]:
    """Nodes on which the pieces could get into each other's way."""
    if len(board.pieces) == 1:
        return set()
    wanted: dict[int, list[int]] = {}
    for p, piece in enumerate(board.pieces):
        for n, here in slots[p].items():
            most = min(piece.count, here)
            if most:
                total = wanted.setdefault(n, [0] * len(piece.cost))
                for r, cost in enumerate(piece.cost):
                    total[r] += most * cost
    return {n for n, total in wanted.items() if _too_much(total, board.free[n])}


def _too_much(wanted: t.Sequence[int], free: t.Sequence[int]) -> bool:
    """Whether any resource is asked for beyond what is free; a resource nobody asks for may be overdrawn."""
    return any(want > have and want for want, have in zip(wanted, free, strict=True))


def _guaranteed(board: Board, p: int, slots: t.Sequence[t.Mapping[int, int]], disturbed: set[int]) -> int:
    """Slots piece p keeps for certain: all on undisturbed nodes, elsewhere less what rivals can take away."""
    piece = board.pieces[p]
    safe = sum(min(piece.count, here) for n, here in slots[p].items() if n not in disturbed)
    if safe >= piece.count:
        return safe
    contested = {n for n in slots[p] if n in disturbed}
    risky = sum(slots[p][n] for n in contested)
    for q, rival in enumerate(board.pieces):
        if q != p and not contested.isdisjoint(n for n, here in slots[q].items() if here):
            risky -= rival.count * _harm(rival, piece)
    return safe + max(0, risky)


def _harm(rival: Piece, piece: Piece) -> int:
    """The most slots of a piece that one pod of a rival can destroy."""
    return max((-(-theirs // ours) for theirs, ours in zip(rival.cost, piece.cost, strict=True) if ours), default=0)


def _only_itself(p: int, piece: Piece) -> bool:
    """Whether the piece's moving rules speak of its own pods only."""
    others = [q for q, key in piece.conflicts if q != p]
    rules = [rule.hits for rule in piece.spreads] + ([piece.affinity.hits] if piece.affinity else [])
    return not others and not any(hit for hits in rules for q, hit in enumerate(hits) if q != p)


def _only_moot_affinity(board: Board, p: int) -> bool:
    """Whether the piece's only rule is an affinity that is bound to hold.

    So it is when the piece can only use one domain, and a piece it looks for, itself free to go, only that one too.
    """
    piece = board.pieces[p]
    rule = piece.affinity
    if rule is None or piece.conflicts or piece.spreads:
        return False
    # The first of its kind may start anywhere, but only as long as no pod it looks for stands in another domain.
    first = not rule.anyone and not any(hit for q, hit in enumerate(rule.hits) if q != p)
    for q, other in enumerate(board.pieces):
        sought = rule.hits[q] and other.count and (first if q == p else other.affinity is None)
        if sought and all(_single_domain(board, key, (*piece.allowed, *other.allowed)) for key in rule.keys):
            return True
    return False


def _single_domain(board: Board, key: str, nodes: t.Iterable[int]) -> bool:
    """Whether the nodes all lie in one domain of the key."""
    domains = {board.domain[key][n] for n in nodes}
    return len(domains) == 1 and None not in domains


def _lone_capacity(board: Board, p: int, slots: t.Mapping[int, int]) -> int:
    """How many pods a piece with one rule about itself places at least, by formula; 0 where no formula is known."""
    piece = board.pieces[p]
    rules = len(piece.conflicts) + len(piece.spreads) + int(piece.affinity is not None)
    if rules != 1:
        return 0
    if piece.conflicts:
        return _one_per_domain(board, piece.conflicts[0][1], slots)
    if piece.spreads:
        return _spread_capacity(board, piece.spreads[0], slots)
    return _same_domain(board, piece, slots)


def _by_domain(board: Board, key: str, slots: t.Mapping[int, int]) -> tuple[dict[str, int], int]:
    """Slots per domain of a key, and those on nodes without it."""
    domains = board.domain[key]
    found: dict[str, int] = {}
    outside = 0
    for n, here in slots.items():
        domain = domains[n]
        if domain is None:
            outside += here
        else:
            found[domain] = found.get(domain, 0) + here
    return found, outside


def _one_per_domain(board: Board, key: str, slots: t.Mapping[int, int]) -> int:
    """Pods that repel each other over a key: one for each domain with room; nodes without the key are no domain."""
    found, outside = _by_domain(board, key, slots)
    return sum(1 for here in found.values() if here) + outside


def _spread_capacity(board: Board, rule: SpreadRule, slots: t.Mapping[int, int]) -> int:
    """Pods that spread over a key: the fullest the emptiest domain can get, plus the skew, bounds every domain."""
    found, _outside = _by_domain(board, rule.key, slots)
    if not rule.own or any(n not in rule.takes_part for n, here in slots.items() if here):
        return 0
    tops = {domain: count + found.get(domain, 0) for domain, count in rule.counts.items()}
    lowest = min(tops.values()) if tops and len(tops) >= rule.min_domains else 0
    return sum(max(0, min(top, lowest + rule.max_skew) - rule.counts[domain]) for domain, top in tops.items())


def _same_domain(board: Board, piece: Piece, slots: t.Mapping[int, int]) -> int:
    """Pods that must join each other: the first picks the domain, so the smallest one it could pick is what counts."""
    rule = piece.affinity
    if rule is None or len(rule.keys) != 1 or not rule.matches_itself or rule.anyone:
        return 0
    found, _outside = _by_domain(board, rule.keys[0], slots)
    return min((here for here in found.values() if here), default=0)


def explore(board: Board, budget: Budget | None = None) -> ProofOutcome:
    """Try all courses of play, as far as the budget allows; the board is left as it was."""
    if sum(board.left) > MOST_PODS:
        return ProofOutcome.UNKNOWN
    return _Explorer(board, budget or Budget()).visit()


def find_full(board: Board, budget: Budget | None = None) -> tuple[list[dict[int, int]] | None, bool]:
    """Look for any course that places all pods: the placement or None, and whether the search was exhaustive."""
    if sum(board.left) > MOST_PODS:
        return None, False
    search = _Finder(board, budget or Budget())
    found = search.visit()
    return search.placement, found is not ProofOutcome.UNKNOWN


class _Positions:
    """Positions of a board: how many pods of each piece stand on each kind of node, and the moves from there."""

    def __init__(self, board: Board, budget: Budget) -> None:
        """Group alike nodes once."""
        self.board = board
        self.budget = budget
        self.kinds = alike_nodes(board)
        self.seen: set[t.Hashable] = set()

    def moves(self, pieces: t.Iterable[int]) -> list[tuple[int, int]]:
        """Moves that differ: of alike nodes in the same position only the first."""
        board = self.board
        moves = []
        for p in pieces:
            if not board.left[p]:
                continue
            tried = set()
            allowed = board.pieces[p].allowed
            self.budget.left -= len(allowed)
            for n in allowed:
                mark = (self.kinds[n], *(placed.get(n, 0) for placed in board.placed))
                if mark not in tried:
                    tried.add(mark)
                    if board.feasible(p, n):
                        moves.append((p, n))
        return moves

    def position(self) -> t.Hashable:
        """The position up to swapping alike nodes."""
        standing: dict[int, list[int]] = {}
        for p, placed in enumerate(self.board.placed):
            for n, count in placed.items():
                standing.setdefault(n, [0] * len(self.board.placed))[p] = count
        self.budget.left -= len(standing)
        return tuple(sorted((self.kinds[n], tuple(counts)) for n, counts in standing.items()))

    def is_new(self) -> bool:
        """Whether the position was not seen before; it is from now on."""
        key = self.position()
        if key in self.seen:
            return False
        self.seen.add(key)
        return True


class _Explorer(_Positions):
    """Depth-first over all positions, looking for a dead end."""

    def visit(self) -> ProofOutcome:
        """One position: dead if pods are left and none can move; otherwise as bad as its worst continuation."""
        board = self.board
        if not any(board.left):
            return ProofOutcome.SAFE
        if self.budget.left <= 0:
            return ProofOutcome.UNKNOWN
        moves = self.moves(range(len(board.pieces)))
        if not moves:
            return ProofOutcome.DEAD_END
        for p, n in moves:
            board.place(p, n)
            worst = self.visit() if self.is_new() else ProofOutcome.SAFE
            board.place(p, n, -1)
            if worst is not ProofOutcome.SAFE:
                return worst
        return ProofOutcome.SAFE


class _Finder(_Positions):
    """Depth-first for one position in which all pods stand."""

    placement: list[dict[int, int]] | None = None

    def visit(self) -> ProofOutcome:
        """Stop at the first full position; without rules the order of pieces does not matter, so it is fixed."""
        board = self.board
        if not any(board.left):
            self.placement = [dict(placed) for placed in board.placed]
            return ProofOutcome.SAFE
        if self.budget.left <= 0:
            return ProofOutcome.UNKNOWN
        waiting = [p for p, left in enumerate(board.left) if left]
        if not any(piece.coupled for piece in board.pieces):
            waiting = waiting[:1]
        unknown = False
        for p, n in self.moves(waiting):
            board.place(p, n)
            outcome = self.visit() if self.is_new() else ProofOutcome.DEAD_END
            board.place(p, n, -1)
            if outcome is ProofOutcome.SAFE:
                return outcome
            unknown = unknown or outcome is ProofOutcome.UNKNOWN
        return ProofOutcome.UNKNOWN if unknown else ProofOutcome.DEAD_END


def alike_nodes(board: Board) -> dict[int, int]:
    """Number the kinds of nodes: two of a kind can be swapped without changing any answer."""
    sizes: dict[str, dict[str, int]] = {key: {} for key in board.keys}
    for key, domains in board.domain.items():
        for n in board.nodes:
            domain = domains[n]
            if domain is not None:
                sizes[key][domain] = sizes[key].get(domain, 0) + 1
    members = [frozenset(piece.allowed) for piece in board.pieces]
    kinds: dict[t.Hashable, int] = {}
    numbered = {}
    for n in board.nodes:
        places = tuple(_place(board, key, n, sizes[key]) for key in board.keys)
        part = tuple(n in rule.takes_part for piece in board.pieces for rule in piece.spreads)
        mark = (tuple(board.free[n]), tuple(n in member for member in members), places, part)
        numbered[n] = kinds.setdefault(mark, len(kinds))
    return numbered


def _place(board: Board, key: str, n: int, sizes: t.Mapping[str, int]) -> t.Hashable:
    """A node's place in a topology; domains of one node are alike when everything counted there is equal."""
    domain = board.domain[key][n]
    if domain is None or sizes[domain] > 1:
        return domain
    counts = []
    for piece in board.pieces:
        counts += [rule.counts.get(domain, 0) for rule in piece.spreads if rule.key == key]
        if piece.affinity:
            pairs = zip(piece.affinity.keys, piece.affinity.present, strict=True)
            counts += [present.get(domain, 0) for one, present in pairs if one == key]
    return ("alone", *counts)
