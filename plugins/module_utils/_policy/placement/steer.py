# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packing and steering: place a whole gang, and narrow podsets to nodes so that the scheduler must succeed too."""

from __future__ import annotations

import heapq
import itertools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._policy.placement.board import Board
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import (
    MOST_PODS,
    Budget,
    ProofOutcome,
    arithmetic_proof,
    explore,
    find_full,
)

Placement = list[dict[int, int]]
Narrowing = dict[int, frozenset[int]]
Strategy = t.Callable[[Board, int, int], tuple[float, ...]]

MAX_ORDERS = 6
MAX_DOMAINS = 8
MAX_CANDIDATES = 24
# Nodes and pods, times candidates, that may be tried; among thousands a few good guesses must do.
MAX_NODES_TRIED = 12_000
# Nodes looked at for a place that any of many would offer, as kube-scheduler itself does on large clusters.
SAMPLE = 100
# The same where rules must be checked for every pod anew.
SMALL_SAMPLE = 16


def emptiest(board: Board, p: int, n: int) -> tuple[float, ...]:
    """Prefer nodes that stay least used, as kube-scheduler's default scoring does."""
    room = board.room.nodes[n].allocatable
    free = board.free[n]
    shares = [free[r] / room[name] for r, name in enumerate(board.resources) if room.get(name)]
    return (-sum(shares), n)


def tightest(board: Board, p: int, n: int) -> tuple[float, ...]:
    """Prefer nodes that the pod fills up."""
    return (board.room_for(p, n), n)


def gathered(board: Board, p: int, n: int) -> tuple[float, ...]:
    """Prefer nodes the podset already uses, then ones no other podset uses, then those that take most of it."""
    mine = board.placed[p].get(n, 0) > 0
    shared = any(placed.get(n, 0) for q, placed in enumerate(board.placed) if q != p)
    return (not mine, shared, -board.room_for(p, n), n)


STRATEGIES: tuple[Strategy, ...] = (gathered, tightest, emptiest)


def play(board: Board, order: t.Sequence[int], strategy: Strategy) -> Placement | None:
    """Place all pods piece by piece; pieces that wait for another (affinity) get their turn again. None if stuck."""
    progress = True
    while any(board.left) and progress:
        progress = False
        for p in order:
            before = board.left[p]
            _place_piece(board, p, strategy)
            progress = progress or board.left[p] < before
    placement = None if any(board.left) else [dict(placed) for placed in board.placed]
    board.reset()
    return placement


def place_as_many(board: Board, p: int, strategy: Strategy) -> dict[int, int]:
    """Place what will go of one piece, by itself; pods per node."""
    _place_piece(board, p, strategy)
    placed = dict(board.placed[p])
    board.reset()
    return placed


def _place_piece(board: Board, p: int, strategy: Strategy) -> None:
    """Place as many pods of a piece as will go."""
    piece = board.pieces[p]
    if not piece.coupled:
        _place_in_bulk(board, p, strategy)
        return
    while board.left[p]:
        open_nodes = list(itertools.islice((n for n in piece.allowed if board.feasible(p, n)), SMALL_SAMPLE))
        if not open_nodes:
            return
        board.place(p, min(open_nodes, key=lambda n: strategy(board, p, n)))


def _place_in_bulk(board: Board, p: int, strategy: Strategy) -> None:
    """Without moving rules a heap of nodes suffices; packing strategies fill a node before the next."""
    heap = [(strategy(board, p, n), n) for n in _some_with_room(board, p)]
    heapq.heapify(heap)
    while heap and board.left[p]:
        _score, n = heapq.heappop(heap)
        board.place(p, n, 1 if strategy is emptiest else min(board.left[p], board.room_for(p, n)))
        if strategy is emptiest and board.room_for(p, n):
            heapq.heappush(heap, (strategy(board, p, n), n))


def _some_with_room(board: Board, p: int) -> list[int]:
    """Nodes with room for the piece, all of them if they are few, else enough for twice its pods."""
    found = []
    slots = 0
    for n in board.pieces[p].allowed:
        here = board.room_for(p, n)
        if here:
            found.append(n)
            slots += here
            if len(found) >= SAMPLE and slots >= 2 * board.left[p]:
                break
    return found


def played(board: Board) -> t.Iterator[Placement]:
    """Different ways to place the whole gang, found by playing; likely good ones first."""
    for base in _bases(board):
        for order in _orders(base):
            for strategy in STRATEGIES:
                placement = play(base, order, strategy)
                if placement is not None:
                    yield placement


def packings(board: Board, budget: Budget | None = None) -> t.Iterator[Placement]:
    """Different ways to place the whole gang; where playing finds none, on small boards, a full search."""
    found = False
    for placement in played(board):
        found = True
        yield placement
    if not found:
        searched, _exhaustive = find_full(board, budget)
        if searched is not None:
            yield searched


def find_packing(board: Board) -> Placement | None:
    """Any way to place the whole gang."""
    return next(packings(board), None)


def _orders(board: Board) -> list[tuple[int, ...]]:
    """Orders in which to place the pieces: big ones first, then other permutations while they are few."""
    sizes = [max(piece.cost, default=0) * max(1, piece.count) for piece in board.pieces]
    scarce = sorted(range(len(board.pieces)), key=lambda p: (len(board.pieces[p].allowed), -sizes[p]))
    orders = [tuple(scarce)]
    if len(scarce) <= 4:
        orders += [order for order in itertools.permutations(scarce) if order != orders[0]]
    else:
        orders += [tuple(reversed(scarce)), tuple(range(len(scarce)))]
    return orders[:MAX_ORDERS]


def _bases(board: Board) -> t.Iterator[Board]:
    """The board itself, then boards on which pods that must be together are confined to one domain each."""
    yield board
    for key in board.keys:
        together = [p for p, piece in enumerate(board.pieces) if piece.affinity and key in piece.affinity.keys]
        if not together:
            continue
        sought = {q for p in together for q, hit in enumerate(board.pieces[p].affinity.hits) if hit}  # type: ignore[union-attr]
        members = sorted(set(together) | sought)
        for domain in _largest_domains(board, key, members):
            nodes = frozenset(n for n in board.nodes if board.domain[key][n] == domain)
            yield board.narrow({**board.narrowed, **dict.fromkeys(members, nodes)})


def _largest_domains(board: Board, key: str, members: t.Sequence[int]) -> list[str]:
    """Domains of a key with most room for the pieces in question."""
    room: dict[str, int] = {}
    for p in members:
        for n in board.pieces[p].allowed:
            domain = board.domain[key][n]
            if domain is not None:
                room[domain] = room.get(domain, 0) + board.room_for(p, n)
    return sorted(room, key=lambda domain: (-room[domain], domain))[:MAX_DOMAINS]


def order_free(board: Board, budget: Budget) -> bool:
    """Whether all pods will be placed in any order on any choice of nodes.

    Before the long search a few games are played: one that gets stuck is all the proof of the contrary one needs.
    """
    if board.overdrawn():
        return False
    if arithmetic_proof(board):
        return True
    if sum(board.left) > MOST_PODS:
        return False
    if any(play(board, order, strategy) is None for order in _orders(board) for strategy in STRATEGIES):
        return False
    return explore(board, budget) is ProofOutcome.SAFE


def find_steering(board: Board, budget: Budget) -> tuple[Narrowing, Placement] | None:
    """Nodes per podset such that the scheduler, confined to them, places the gang in any order; with one placement."""
    tried: set[tuple[frozenset[int], ...]] = set()
    size = len(board.nodes) + sum(piece.count for piece in board.pieces)
    most = max(3, min(MAX_CANDIDATES, MAX_NODES_TRIED // max(1, size)))
    for placement in itertools.islice(packings(board, budget), most):
        sets = tuple(frozenset(here) for here in placement)
        if sets in tried:
            continue
        tried.add(sets)
        narrowing = {p: nodes for p, nodes in enumerate(sets) if nodes and nodes != frozenset(board.pieces[p].allowed)}
        if steerable(board, narrowing) and order_free(board.narrow(narrowing), budget):
            return narrowing, placement
    return None


def steerable(board: Board, narrowing: Narrowing) -> bool:
    """Whether the nodes can be told apart by host name label, which steering relies on."""
    names = board.room.host_names
    return all(names.get(n) for nodes in narrowing.values() for n in nodes)
