# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Advice: the smallest change after which a waiting gang would fit, each tried out before it is given."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import Advice, Verdict
from ansible_collections.muster.kube.plugins.module_utils._policy.board import Board
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import Placed, open_case, try_to_fit
from ansible_collections.muster.kube.plugins.module_utils._policy.room import Room

# More pods than this are not "a small change"; the search stops there.
MOST_PODS_TO_END = 64
NODE_REASONS = (
    "insufficient",
    "fragmentation",
    "no_matching_node",
    "constraints",
    "order_dependent",
)


def with_advice(room: Room, gang: Gang, verdict: Verdict) -> Verdict:
    """The verdict with what would help; only shortages of nodes can be advised on."""
    if verdict.answer == "fits" or verdict.reason not in NODE_REASONS or not verdict.nodes_visible:
        return verdict
    tries = [fewer_replicas(room, gang)]
    if verdict.answer == "waits":
        tries += [pods_to_end(room, gang), nodes_to_open(room, gang)]
    return dataclasses.replace(verdict, advice=tuple(advice for advice in tries if advice is not None))


def fewer_replicas(room: Room, gang: Gang) -> Advice | None:
    """The largest smaller gang that fits: one podset cut, or all of them in proportion."""
    full = {podset.name: podset.count for podset in gang.podsets}
    best: tuple[dict[str, int], Placed] | None = None
    for name, count in full.items():
        found = _largest(room, gang, 1, count - 1, lambda k, name=name: {**full, name: k})  # type: ignore[misc]
        if found and (best is None or sum(found[0].values()) > sum(best[0].values())):
            best = found
    if best is None and len(full) > 1:
        steps = max(full.values())
        best = _largest(
            room, gang, 1, steps - 1, lambda k: {name: max(min(1, n), n * k // steps) for name, n in full.items()}
        )
    if best is None:
        return None
    counts, placed = best
    changes = {name: counts[name] for name in full if counts[name] != full[name]}
    words = ", ".join(f"{count} instead of {full[name]} of {name}" for name, count in changes.items())
    details = {"counts": counts, "then": "steered" if placed.narrowing else "now"}
    return Advice("fewer_replicas", f"run {words}", details)


def _largest(
    room: Room, gang: Gang, low: int, high: int, counts: t.Callable[[int], dict[str, int]]
) -> tuple[dict[str, int], Placed] | None:
    """The largest k in low..high whose counts fit, by bisection."""
    best = None
    while low <= high:
        middle = (low + high) // 2
        placed = try_to_fit(open_case(gang.resized(counts(middle)), room))
        if placed:
            best, low = (counts(middle), placed), middle + 1
        else:
            high = middle - 1
    return best


def pods_to_end(room: Room, gang: Gang) -> Advice | None:
    """A small set of running pods whose end lets the gang fit."""
    chosen = _cheapest_slots(room, gang)
    if chosen is None or not _fits_without(room, gang, chosen):
        chosen = _whole_nodes(room, gang)
    if not chosen:
        return None
    chosen = _pruned(room, gang, chosen)
    owners = sorted({pod.owner or f"Pod/{pod.name}" for pod in chosen})
    keys = sorted(pod.key for pod in chosen)
    words = ", ".join(keys[:5]) + (f" and {len(keys) - 5} more" if len(keys) > 5 else "")
    return Advice("pods_end", f"wait for, or end, {len(keys)} pod(s): {words}", {"pods": keys, "owners": owners})


def _fits_without(room: Room, gang: Gang, gone: t.Iterable[Pod]) -> bool:
    """Whether the gang fits once these pods have ended."""
    return try_to_fit(open_case(gang, room.without({pod.key for pod in gone}))) is not None


def _removable(room: Room, n: int) -> list[Pod]:
    """Pods of a node that end for good when they end, biggest share of the node first."""
    capacity = room.nodes[n].allocatable

    def share(pod: Pod) -> float:
        return max(
            (amount / capacity[name] for name, amount in pod.requests.items() if capacity.get(name)), default=0.0
        )

    return sorted(
        (pod for pod in room.pods_on[n] if not pod.stays and not pod.virtual), key=lambda pod: (-share(pod), pod.key)
    )


def _cheapest_slots(room: Room, gang: Gang) -> list[Pod] | None:
    """Free slots one after the other where the fewest pods stand in the way; None if that takes too many."""
    board = open_case(gang, room).board
    gone: list[Pod] = []
    taken: set[str] = set()
    for p, piece in sorted(enumerate(board.pieces), key=lambda item: -sum(item[1].cost)):
        missing = piece.count
        for n in sorted(piece.allowed, key=lambda n: -board.room_for(p, n)):
            fill = min(missing, board.room_for(p, n))
            board.place_many(p, n, fill)
            missing -= fill
        while missing and len(gone) <= MOST_PODS_TO_END:
            options = [option for n in piece.allowed if (option := _way_to_slot(room, board, p, n, taken)) is not None]
            if not options:
                return None
            n, pods = min(options, key=lambda option: (len(option[1]), option[0]))
            for pod in pods:
                taken.add(pod.key)
                gone.append(pod)
                _release(board, n, pod)
            while missing and board.room_for(p, n):
                board.place(p, n)
                missing -= 1
    return gone if len(gone) <= MOST_PODS_TO_END else None


def _way_to_slot(room: Room, board: Board, p: int, n: int, taken: t.Collection[str]) -> tuple[int, list[Pod]] | None:
    """The pods to end on a node until one more pod of the piece finds room there."""
    free = list(board.free[n])
    cost = board.pieces[p].cost
    pods: list[Pod] = []
    for pod in _removable(room, n):
        if all(have >= want or not want for have, want in zip(free, cost, strict=True)):
            break
        if pod.key not in taken:
            pods.append(pod)
            for r, name in enumerate(board.resources):
                free[r] += pod.requests.get(name, 0)
    fits = all(have >= want or not want for have, want in zip(free, cost, strict=True))
    return (n, pods) if fits and pods else None


def _release(board: Board, n: int, pod: Pod) -> None:
    """Give a pod's resources back to its node on the board."""
    for r, name in enumerate(board.resources):
        board.free[n][r] += pod.requests.get(name, 0)


def _whole_nodes(room: Room, gang: Gang) -> list[Pod] | None:
    """Clear nodes, least occupied first, until the gang fits; None if it takes too many pods."""
    nodes = [n for n in range(len(room.nodes)) if _removable(room, n)]
    nodes.sort(key=lambda n: (len(_removable(room, n)), n))
    low, high = 1, len(nodes)
    best: list[Pod] | None = None
    while low <= high:
        middle = (low + high) // 2
        pods = [pod for n in nodes[:middle] for pod in _removable(room, n)]
        if len(pods) > MOST_PODS_TO_END * 4:
            high = middle - 1
        elif _fits_without(room, gang, pods):
            best, high = pods, middle - 1
        else:
            low = middle + 1
    return best


def _pruned(room: Room, gang: Gang, chosen: list[Pod]) -> list[Pod]:
    """Keep only the pods whose end is needed."""
    kept = list(chosen)
    for pod in chosen:
        fewer = [other for other in kept if other is not pod]
        if fewer and _fits_without(room, gang, fewer):
            kept = fewer
    return kept


def nodes_to_open(room: Room, gang: Gang) -> Advice | None:
    """Nodes that are cordoned or not ready now and would make the gang fit."""
    placed = try_to_fit(case := open_case(gang, room, ignore_passing=True))
    if placed is None:
        return None
    usable = [set(piece.allowed) for piece in open_case(gang, room).board.pieces]
    names = sorted(
        {case.room.nodes[n].name for p, here in enumerate(placed.placement) for n in here if n not in usable[p]}
    )
    if not names:
        return None
    return Advice("open_nodes", f"uncordon, or wait for, {', '.join(names[:8])}", {"nodes": names})
