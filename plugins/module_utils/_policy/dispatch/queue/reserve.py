# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reservation: hold nodes for a gang that has waited long, and let later gangs use them only if they end in time.

Each cycle the first gang in the queue that has waited long and lacks only nodes is set against the room as it will be
when running gangs end, moment by moment. The nodes it would use at the earliest moment at which it fits are held for
it; nothing is remembered between cycles. Later gangs start on other nodes, to which they are steered, because only
that keeps kube-scheduler off the held ones; or on the held nodes if their enforced end comes before that moment.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import (
    NODE_REASONS,
    Verdict,
    gang_for_reader,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import QueuedGang
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    Case,
    Placed,
    occupy,
    open_case,
    try_to_fit,
    with_placement,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    judge as judge_alone,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import (
    Narrowing,
    Placement,
    PlacementState,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import Budget
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex, Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import (
    Strategy,
    find_steering,
    order_free,
    packings,
    place_greedily,
    steerable,
    tightest,
)

# Ways around the held nodes that are tried for one gang.
MOST_WAYS_AROUND = 6
# Where a pod's end may also do harm (affinity to it, spread) moments are tried in turn: so many nodes are looked at in
# all, but some moments are always tried.
MOST_NODES_IN_TURN = 100_000
FEWEST_MOMENTS = 5
# What a generated part of a name looks like: digits (a date, a number), or five or more characters with a digit.
_GENERATED = re.compile(r"(?:[-_.](?:\d+|(?=[a-z0-9]*\d)[a-z0-9]{5,}))+$")
_PERCENTILE = 0.9

Judging = t.Callable[[Room, Gang, "QuotaUse | None"], Verdict]
Reaching = t.Callable[[Gang, Room], "frozenset[NodeIndex] | None"]
Classing = t.Callable[[Gang, Room], "t.Hashable | None"]

NO_END_KNOWN = "no reservation: no end is known for enough of what runs on its nodes"


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """How many seconds a gang runs, None if nobody knows; enforced if it is stopped after that time."""

    seconds: float | None = None
    enforced: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """The pods of one started gang, the very objects in the room, and when they end; at is None if nobody knows."""

    pods: tuple[Pod, ...]
    at: float | None
    enforced: bool


# Known endings, or how to find them.
Endings: t.TypeAlias = t.Iterable[Ending] | t.Callable[[], t.Iterable[Ending]]


@dataclasses.dataclass(frozen=True, slots=True)
class ReserveOptions:
    """After how many seconds of waiting a gang may reserve; hold hard stops others even when no end is known."""

    reserve_after: float = 3600.0
    hold: t.Literal["soft", "hard"] = "soft"


@dataclasses.dataclass(frozen=True, slots=True)
class Reservation:
    """Nodes held for a gang until starts_at; None there means without end, which only a hard hold does.

    firm says that what runs on the nodes is stopped by then, so that the gang starts in time unless foreign pods come.
    """

    uid: str
    gang: str
    nodes: frozenset[str]
    starts_at: float | None
    firm: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FreedPlaces:
    """How a gang would stand if some pods had gone; confined if it has to keep off nodes held for others."""

    case: Case
    placed: Placed
    leaving: tuple[Pod, ...]
    confined: bool


@dataclasses.dataclass(frozen=True, slots=True)
class _Held:
    """A reservation with its nodes by index, and all nodes its gang may use at all: its class."""

    reservation: Reservation
    nodes: frozenset[int]
    node_class: frozenset[int]


def estimate_run_time(
    max_run_time: float | None, deadlines: t.Sequence[float | None], history: float | None
) -> Estimate:
    """What is known of a gang's run time; the gang's own limit first, then its Jobs' deadlines, then earlier runs.

    deadlines has one entry for each object with pods. If all have a deadline, every pod is gone by the latest of them.
    If only some have, the earliest is a guess: that Job may well succeed before, and the others go on.
    """
    if max_run_time is not None:
        return Estimate(max_run_time, True)
    known = [deadline for deadline in deadlines if deadline is not None]
    if known:
        whole = len(known) == len(deadlines)
        return Estimate(max(known) if whole else min(known), whole)
    return Estimate(history, False)


def name_prefix(name: str) -> str:
    """A gang's name without its generated end, so that runs of the same work are found again."""
    return _GENERATED.sub("", name) or name


def run_time_history(finished: t.Iterable[tuple[str | None, str, float]]) -> dict[tuple[str | None, str], float]:
    """What nine of ten finished gangs of the same queue and name prefix stayed within; from (queue, name, seconds)."""
    seconds: dict[tuple[str | None, str], list[float]] = {}
    for queue, name, took in finished:
        seconds.setdefault((queue, name_prefix(name)), []).append(took)
    return {key: usual_run_time(took) for key, took in seconds.items()}


def usual_run_time(seconds: t.Collection[float]) -> float:
    """What nine of ten runs stayed within."""
    return sorted(seconds)[math.ceil(_PERCENTILE * len(seconds)) - 1]


def has_end(at: float | None, enforced: bool, now: float) -> bool:
    """Whether an end can be counted on; a guess that has passed already says nothing any more."""
    return at is not None and (enforced or at > now)


def gather_endings(
    pods_on: t.Iterable[t.Iterable[Pod]],
    ends: t.Mapping[str, tuple[float | None, bool]],
    gang_of: t.Callable[[Pod], str | None],
) -> list[Ending]:
    """The pods of started gangs that stand on nodes, with their end; ends maps a gang's uid to (at, enforced)."""
    found: dict[str, list[Pod]] = collections.defaultdict(list)
    for here in pods_on:
        for pod in here:
            uid = gang_of(pod)
            if uid is not None and uid in ends:
                found[uid].append(pod)
    return [Ending(tuple(pods), *ends[uid]) for uid, pods in found.items()]


class Reserver:
    """One cycle's walk under the policy reserve: judges gangs in the queue's order and holds nodes on the way."""

    def __init__(
        self,
        room: Room,
        endings: Endings,
        now: float,
        terms: ReserveOptions | None = None,
        judging: Judging = judge_alone,
        reaching: Reaching | None = None,
        classing: Classing | None = None,
    ) -> None:
        """Take the cycle's room, to which starts are added, and what is known of the ends of its pods.

        Endings that have to be looked for are not before they are needed. judging answers for a gang on the whole room;
        a caller may give one that explains less. reaching tells which nodes a gang may use where it can do so without
        looking at each, else None. classing tells what gangs have in common that nodes answer the same, else None.
        """
        self.room = room
        self.judging = judging
        self.reaching = reaching
        self.classing = classing
        self.now = now
        self.terms = terms or ReserveOptions()
        self._given: Endings = endings if callable(endings) else tuple(endings)
        self._endings_so_far: list[Ending] = []
        self._held: list[_Held] = []
        # How often nodes were held so far.
        self.holds = 0
        self._refused: dict[tuple[t.Hashable, frozenset[int]], Verdict] = {}
        # All nodes that are held, and classes of gangs that find no place off these, with how often the room changed.
        self._held_nodes: frozenset[int] = frozenset()
        self._crowded_out: set[tuple[t.Hashable, frozenset[int], int]] = set()
        self._without_moment: set[t.Hashable] = set()
        self._blockers: dict[str, str] = {}
        self._horizon: Room | None = None

    @property
    def _endings(self) -> list[Ending]:
        """The ends that can be counted on, those of this cycle's starts last."""
        if self._given:
            given = self._given() if callable(self._given) else self._given
            self._endings_so_far[:0] = [item for item in given if has_end(item.at, item.enforced, self.now)]
            self._given = ()
        return self._endings_so_far

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """What is held so far."""
        return tuple(held.reservation for held in self._held)

    def reservation_of(self, item: QueuedGang) -> Reservation | None:
        """What is held for a gang, None if nothing is."""
        return next((held.reservation for held in self._held if held.reservation.uid == item.uid), None)

    def blocked_by(self, item: QueuedGang) -> str | None:
        """The gang whose reservation stopped this one, if that is why it waits."""
        return self._blockers.get(item.uid)

    def judge(
        self,
        item: QueuedGang,
        gang: Gang,
        estimate: Estimate,
        taken: QuotaUse | None = None,
        *,
        demand: t.Hashable | None = None,
        hold: bool = True,
    ) -> Verdict:
        """The verdict for the next gang in order, with nodes held for earlier ones closed to it if it ends too late.

        demand is equal for gangs that ask for the same; one that was refused is not worked out again in this cycle,
        since the room only shrinks. Without hold no nodes are held for it yet: it may start on others.
        """
        stopping, closed = self._closed(estimate) if self._held else ([], frozenset[int]())
        known = self._refused.get((demand, closed)) if demand is not None else None
        if known is not None:
            verdict = dataclasses.replace(known, gang=gang.name, namespace=gang.namespace)
        else:
            verdict = self.judging(self.room, gang, taken)
            if verdict.answer == "fits" and closed and verdict.nodes_visible:
                verdict = self._kept_off(gang, verdict, closed, stopping)
            # What the namespace refuses is told with names of the gang's own and must not be told of another.
            if verdict.answer != "fits" and demand is not None and not verdict.space.problems:
                self._refused[(demand, closed)] = verdict
        if verdict.reason == "reserved":
            self._blockers[item.uid] = stopping[0].reservation.uid
        waited = hold and self.now - item.submitted > self.terms.reserve_after
        if waited and verdict.answer == "waits" and verdict.reason in NODE_REASONS and verdict.nodes_visible:
            note = self._reserve(item, gang, demand)
            verdict = verdict if note is None else dataclasses.replace(verdict, detail=note)
        return verdict

    def start(self, gang: Gang, verdict: Verdict, estimate: Estimate) -> tuple[Pod, ...]:
        """Put a gang that fits into the room, and remember when it will have left; the pods that stand for it."""
        before = {n: len(self.room.pods_on[n]) for n in self._nodes_of(verdict)}
        occupy(self.room, gang, verdict)
        self._horizon = None
        pods = tuple(pod for n, count in sorted(before.items()) for pod in self.room.pods_on[n][count:])
        if estimate.seconds is not None:
            self._endings_so_far.append(Ending(pods, self.now + estimate.seconds, estimate.enforced))
        return pods

    def fit_without(
        self,
        gang: Gang,
        estimate: Estimate,
        gone: t.Iterable[Pod],
        taken: QuotaUse | None = None,
        then: Room | None = None,
    ) -> FreedPlaces | None:
        """Where a gang would stand if these pods of the room had gone; None if it would not fit even then.

        Nodes that are held for others stay closed to it. then is the room without these pods, where it is known.
        """
        leaving = tuple(gone)
        then = then or self.room.without(leaving)
        if not then.snapshot.nodes_visible:
            return None
        case, (_stopping, closed) = open_case(gang, then), self._closed(estimate)
        # Why it does not fit is of no interest here.
        if case.state.overdrawn() or judge_alone(then, gang, taken, lambda *_asked: case).answer != "fits":
            return None
        placed = place_outside(case, closed) if closed else try_to_fit(case)
        return None if placed is None else FreedPlaces(case, placed, leaving, bool(closed))

    def hold_freed(self, item: QueuedGang, gang: Gang, places: FreedPlaces) -> None:
        """Hold the nodes for a gang on which it is to stand when pods are gone that are about to go."""
        freed = {self.room.index[t.cast(str, pod.node)]: math.inf for pod in places.leaving}
        nodes = self._nodes_to_hold(places.case, places.placed, freed, confined=places.confined)
        names = frozenset(self.room.nodes[n].name for n in nodes)
        reservation = Reservation(item.uid, f"{gang.namespace}/{gang.name}", names, None, False)
        self._hold(_Held(reservation, nodes, frozenset(places.case.state.nodes)))

    def _closed(self, estimate: Estimate) -> tuple[list[_Held], frozenset[int]]:
        """The reservations that a gang of this run time has to respect, and their nodes."""
        if not estimate.enforced or estimate.seconds is None:
            return self._held, self._held_nodes
        stopping = [held for held in self._held if not self._ends_in_time(estimate, held.reservation)]
        return stopping, frozenset().union(*(held.nodes for held in stopping))

    def _nodes_of(self, verdict: Verdict) -> set[int]:
        """The nodes a verdict places pods on."""
        return {self.room.index[name] for nodes in (verdict.placement or {}).values() for name in nodes}

    def _ends_in_time(self, estimate: Estimate, reservation: Reservation) -> bool:
        """Whether a gang started now is sure to have left the held nodes when they are needed."""
        if not estimate.enforced or estimate.seconds is None or reservation.starts_at is None:
            return False
        return self.now + estimate.seconds <= reservation.starts_at

    def _kept_off(self, gang: Gang, verdict: Verdict, closed: frozenset[int], stopping: t.Sequence[_Held]) -> Verdict:
        """The verdict once the held nodes are closed: unchanged, steered around them, or waiting."""
        kind = self.classing(gang, self.room) if self.classing is not None else None
        crowd = kind, closed, len(self.room.touched)
        if kind is None or crowd not in self._crowded_out:
            case = open_case(gang, self.room)
            if all(closed.isdisjoint(podset.allowed) for podset in case.state.podsets if podset.count):
                return verdict
            placed = place_outside(case, closed)
            if placed is not None:
                how = verdict.how if verdict.how == "unproven" else "steered"
                return dataclasses.replace(with_placement(verdict, case, placed), how=how)
            self._crowded_out.add(crowd)
        note = "; ".join(_told(held.reservation, gang.namespace) for held in stopping)
        return verdict.held_back("reserved", note)

    def _reserve(self, item: QueuedGang, gang: Gang, demand: t.Hashable | None) -> str | None:
        """Hold nodes for a gang if nothing is held on nodes it may use; what the verdict should say of it."""
        if sum(len(held.node_class) for held in self._held) == len(self.room.nodes):
            return None
        if demand is not None and demand in self._without_moment:
            return NO_END_KNOWN
        if not self._held and not self._endings and self.terms.hold == "soft":
            # Nobody is known to leave, so that no moment comes to anything.
            self._without_moment.add(demand)
            return NO_END_KNOWN
        reach = self.reaching(gang, self.room) if self.reaching is not None else None
        if reach is not None and any(not reach.isdisjoint(held.node_class) for held in self._held):
            return None
        if self._horizon is None:
            self._horizon = self.room.without(pod for ending in self._endings for pod in ending.pods)
        last = open_case(gang, self._horizon)
        node_class = frozenset(last.state.nodes)
        if any(not node_class.isdisjoint(held.node_class) for held in self._held):
            return None
        key = f"{gang.namespace}/{gang.name}"
        found = self._earliest(gang, last)
        if found is None:
            self._without_moment.add(demand)
            if self.terms.hold == "hard":
                names = frozenset(self.room.nodes[n].name for n in node_class)
                self._hold(_Held(Reservation(item.uid, key, names, None, False), node_class, node_class))
            return NO_END_KNOWN
        at, case, placed = found
        nodes = self._nodes_to_hold(case, placed, self._freed_until(at))
        names = frozenset(self.room.nodes[n].name for n in nodes)
        reservation = Reservation(item.uid, key, names, at, self._firm(nodes, at))
        self._hold(_Held(reservation, nodes, node_class))
        return f"{len(nodes)} node(s) are held for it; expected to start by {time_text(at)}"

    def _hold(self, held: _Held) -> None:
        """Hold nodes for a gang."""
        self._held.append(held)
        self._held_nodes |= held.nodes
        self.holds += 1

    def _earliest(self, gang: Gang, last: Case) -> tuple[float, Case, Placed] | None:
        """The first moment at which so many gangs have ended that this one fits, and how it stands then.

        Where ends can only help, counting slots finds the first moment worth trying, mostly the right one; from there
        halving does. Where they may also do harm, the moments are tried in turn.
        """
        by_moment: dict[float, list[Pod]] = collections.defaultdict(list)
        for ending in self._endings:
            by_moment[max(self.now, t.cast(float, ending.at))].extend(ending.pods)
        moments = sorted(by_moment)
        if any(wish.affinity or wish.spreads for _podset, wish in last.pairs):
            return self._first_in_turn(gang, moments, by_moment)
        tried = self._first_with_slots(last, moments, by_moment)
        low, high, before = tried - 1, len(moments), self.room
        best: tuple[Case, Placed] | None = None
        while low + 1 < high:
            then = before.without(pod for moment in moments[: tried + 1] for pod in by_moment[moment])
            case = open_case(gang, then)
            placed = try_to_fit(case)
            if placed is None:
                low = tried
            else:
                high, best = tried, (case, placed)
            tried = (low + high) // 2
        return (moments[high], *best) if best else None

    def _first_with_slots(
        self, last: Case, moments: t.Sequence[float], by_moment: t.Mapping[float, t.Sequence[Pod]]
    ) -> int:
        """The first moment at which every podset has slots enough, rules and rivals aside; their number if none."""
        counts = [
            _SlotCount(self.room, podset, state.allowed)
            for (podset, _wish), state in zip(last.pairs, last.state.podsets, strict=True)
        ]
        for i, moment in enumerate(moments):
            for pod in by_moment[moment]:
                n = self.room.index[t.cast(str, pod.node)]
                for count in counts:
                    count.leave(n, pod)
            if all(count.enough() for count in counts):
                return i
        return len(moments)

    def _first_in_turn(
        self, gang: Gang, moments: t.Sequence[float], by_moment: t.Mapping[float, t.Sequence[Pod]]
    ) -> tuple[float, Case, Placed] | None:
        """The first moment at which the gang fits, tried one after the other; of very many only some."""
        then, budget = self.room, Budget()
        most = max(FEWEST_MOMENTS, MOST_NODES_IN_TURN // max(1, len(self.room.nodes)))
        step = max(1, math.ceil(len(moments) / most))
        for first in range(0, len(moments), step):
            passed = moments[first : first + step]
            then = then.without(pod for moment in passed for pod in by_moment[moment])
            moment = passed[-1]
            case = open_case(gang, then)
            placed = try_to_fit(case, budget)
            if placed is not None:
                return moment, case, placed
        return None

    def _freed_until(self, at: float) -> dict[int, float]:
        """The nodes that pods leave until then, and when the last of them does."""
        freed: dict[int, float] = {}
        for ending in self._endings:
            end = max(self.now, t.cast(float, ending.at))
            if end <= at:
                for pod in ending.pods:
                    n = self.room.index[t.cast(str, pod.node)]
                    freed[n] = max(end, freed.get(n, end))
        return freed

    def _nodes_to_hold(
        self, case: Case, placed: Placed, freed: t.Mapping[int, float], *, confined: bool = False
    ) -> frozenset[int]:
        """The nodes to hold of those that suffice then: rather such as are busy for long, which nobody misses.

        freed tells when nodes are left; a placement that is confined already stays as it is.
        """

        def least_missed(state: PlacementState, p: int, n: int) -> tuple[float, ...]:
            mine = any(placed.get(n, 0) for placed in state.placed)
            return (not mine, -freed.get(n, self.now), state.room_for(p, n), n)

        placement = (None if confined else _confined(case.state, least_missed)) or placed.placement
        return frozenset(n for here in placement for n in here)

    def _firm(self, nodes: frozenset[int], at: float) -> bool:
        """Whether everything that has to leave the nodes until then is made to."""
        return all(
            ending.enforced
            for ending in self._endings
            if t.cast(float, ending.at) <= at
            and any(self.room.index[t.cast(str, pod.node)] in nodes for pod in ending.pods)
        )


class _SlotCount:
    """Slots of one podset on the nodes it may use, kept up to date while pods leave."""

    def __init__(self, room: Room, podset: PodSet, allowed: t.Sequence[NodeIndex]) -> None:
        """Count what is free now."""
        self.needed = podset.count
        self.wants = [(name, amount) for name, amount in podset.requests.items() if amount]
        self.free = {n: [room.free[n].get(name, 0) for name, _amount in self.wants] for n in allowed}
        self.slots = {n: self._slots(n) for n in allowed}
        self.found = sum(self.slots.values())

    def _slots(self, n: int) -> int:
        """How many pods the free amounts of a node take."""
        pairs = zip(self.free[n], self.wants, strict=True)
        return max(0, min((have // amount for have, (_name, amount) in pairs), default=self.needed))

    def leave(self, n: int, pod: Pod) -> None:
        """A pod leaves a node."""
        if n not in self.free:
            return
        for i, (name, _amount) in enumerate(self.wants):
            self.free[n][i] += pod.requests.get(name, 0)
        now = self._slots(n)
        self.found += now - self.slots[n]
        self.slots[n] = now

    def enough(self) -> bool:
        """Whether all pods of the podset would find a slot."""
        return self.found >= self.needed


def place_outside(case: Case, closed: frozenset[int]) -> Placed | None:
    """A placement off the closed nodes with the steering that keeps kube-scheduler to it; None if none was found.

    Packed tightly: what is kept whole stays good for larger gangs.
    """
    state, budget = case.state, Budget()
    narrowed = state.narrow({p: frozenset(podset.allowed) - closed for p, podset in enumerate(state.podsets)})
    if narrowed.overdrawn():
        return None
    order = range(len(state.podsets))
    first = place_greedily(narrowed, order, tightest)
    ways = itertools.chain([] if first is None else [first], packings(narrowed, budget))
    for _turn, placement in zip(range(MOST_WAYS_AROUND), ways, strict=False):
        narrowing = _narrowing(placement)
        if steerable(state, narrowing) and order_free(state.narrow(narrowing), budget):
            return Placed(narrowing, placement)
    return None


def _confined(state: PlacementState, strategy: Strategy) -> Placement | None:
    """A placement, if possible one the strategy likes, that is sure to work out even if all other nodes are taken."""
    budget = Budget()
    placement = place_greedily(state, range(len(state.podsets)), strategy)
    if placement is not None and order_free(state.narrow(_narrowing(placement)), budget):
        return placement
    found = find_steering(state, budget)
    return found[1] if found else None


def _narrowing(placement: Placement) -> Narrowing:
    """Each podset confined to the nodes it is placed on."""
    return {p: frozenset(here) for p, here in enumerate(placement) if here}


def _told(reservation: Reservation, namespace: str) -> str:
    """A reservation in words, for a gang of a namespace that it stops."""
    until = "" if reservation.starts_at is None else f" until {time_text(reservation.starts_at)}"
    return f"{len(reservation.nodes)} node(s) are held for {gang_for_reader(reservation.gang, namespace)}{until}"
