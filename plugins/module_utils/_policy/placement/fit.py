# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fit: can this gang start now? Pure: a room and a gang in, a verdict out."""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import (
    NamespaceFit,
    PodsetFit,
    Total,
    Verdict,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import (
    DEFAULT_SCHEDULER,
    Constraints,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.filters import (
    could_stand,
    filter_nodes,
    rival_volumes,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import (
    QuotaUse,
    judge_namespace,
    quota_use,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import (
    Candidate,
    Narrowing,
    Placement,
    PlacementState,
    PodsetIndex,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import Budget, find_full
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex, Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import (
    emptiest,
    find_packing,
    find_steering,
    greedy_placements,
    order_free,
    place_as_many,
    place_greedily,
)

MOST_VICTIMS_NAMED = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Placed:
    """How a gang fits: the steering it needs (none if empty) and one placement."""

    narrowing: Narrowing
    placement: Placement


class Assessment(t.Protocol):
    """How a gang stands against a room: everything a verdict about it tells."""

    @property
    def gang(self) -> Gang:
        """The gang."""

    @property
    def room(self) -> Room:
        """The room."""

    def counted(self) -> tuple[PodsetFit, ...]:
        """Slots and usable nodes, podset by podset: the numbers every answer has."""

    def measured(self) -> tuple[PodsetFit, ...]:
        """The same with what is short, the largest holes and the nearest nodes; only a refusal needs all that."""

    def totals(self) -> dict[str, Total]:
        """Demand of the whole gang against what is free on all nodes any of its podsets may use."""

    def fit(self) -> Placed | None:
        """How the gang fits for certain now; None if that could not be shown."""

    def never(self) -> Never | None:
        """That the gang would not even fit on empty nodes; None if it would."""

    def reason(self, podsets: t.Iterable[PodsetFit], totals: t.Mapping[str, Total]) -> str:
        """The main reason why a gang with these measured numbers that does not fit now waits."""

    def victims(self) -> tuple[str, ...]:
        """Pods that kube-scheduler might preempt for the gang."""


@dataclasses.dataclass(frozen=True, slots=True)
class Never:
    """Why a gang does not even fit on empty nodes, in numbers of those: what runs now makes no difference."""

    reason: str
    podsets: tuple[PodsetFit, ...]
    totals: dict[str, Total]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """A gang set against a room, ready to be judged."""

    gang: Gang
    room: Room
    pairs: tuple[tuple[PodSet, Constraints], ...]
    state: PlacementState
    dropped: tuple[t.Mapping[str, int], ...]

    def counted(self) -> tuple[PodsetFit, ...]:
        """See Assessment."""
        all_slots = [self.state.slots(index) for index in range(len(self.pairs))]
        return tuple(
            PodsetFit(podset.name, podset.count, sum(slots.values()), podset.requests, len(slots), dropped)
            for (podset, _wish), slots, dropped in zip(self.pairs, all_slots, self.dropped, strict=True)
        )

    def measured(self) -> tuple[PodsetFit, ...]:
        """See Assessment."""
        return tuple(_podset_fit(self, index) for index in range(len(self.pairs)))

    def totals(self) -> dict[str, Total]:
        """See Assessment."""
        columns = zip(self.state.resources, zip(*self.state.free.values(), strict=True), strict=False)
        free = {name: sum(have for have in column if have > 0) for name, column in columns}
        return {name: Total(amount, free.get(name, 0)) for name, amount in wanted_in_all(self.gang).items()}

    def fit(self) -> Placed | None:
        """See Assessment."""
        return try_to_fit(self)

    def never(self) -> Never | None:
        """See Assessment. Pods that others must join may stay while room is made beside them."""
        joined = [
            podset.name for podset, wish in self.pairs if wish.affinity and _affinity_targets_exist(self.room, wish)
        ]
        empty = open_case(self.gang, self.room.emptied(), without_affinity=joined)
        if not _hopeless(empty.state):
            return None
        podsets, totals = empty.measured(), empty.totals()
        return Never(empty.reason(podsets, totals), podsets, totals)

    def reason(self, podsets: t.Iterable[PodsetFit], totals: t.Mapping[str, Total]) -> str:
        """See Assessment."""
        return _reason(self, podsets, totals)

    def victims(self) -> tuple[str, ...]:
        """See Assessment."""
        return possible_victims(self.room, self.pairs, self.state.nodes)


def read_wishes(gang: Gang, room: Room) -> tuple[tuple[PodSet, Constraints], ...]:
    """The constraints of each podset, with what its RuntimeClass adds on admission."""
    pairs = []
    for podset in gang.podsets:
        wish = podset.constraints
        extra = room.snapshot.runtime_classes.get(wish.runtime_class or "")
        if extra:
            wish = dataclasses.replace(
                wish,
                node_selector={**wish.node_selector, **extra.node_selector},
                tolerations=wish.tolerations + extra.tolerations,
            )
        pairs.append((podset, wish))
    return tuple(pairs)


def has_nodes(room: Room, podset: PodSet) -> bool:
    """Whether there is a node that could take a pod of a podset; who sees no nodes leaves that to others."""
    if not room.snapshot.nodes_visible:
        return True
    ((_podset, wish),) = read_wishes(Gang("", podset.namespace, (podset,)), room)
    return could_stand(room, wish, podset.requests)


def open_case(
    gang: Gang, room: Room, *, without_affinity: t.Collection[str] = (), nodes: t.Collection[int] | None = None
) -> Case:
    """Filter nodes for each podset and set up the placement state, without the pod affinity of the named podsets.

    Given some nodes, no pod may go to any other.
    """
    pairs = tuple(
        (podset, dataclasses.replace(wish, affinity=()) if podset.name in without_affinity else wish)
        for podset, wish in read_wishes(gang, room)
    )
    candidates = [Candidate(podset, wish, filter_nodes(room, wish, nodes)) for podset, wish in pairs]
    state = PlacementState(room, candidates)
    dropped = tuple(
        {**item.filtered.dropped, **podset.closed} for item, podset in zip(candidates, state.podsets, strict=True)
    )
    return Case(gang, room, pairs, state, dropped)


def try_to_fit(case: Case, budget: Budget | None = None) -> Placed | None:
    """How the gang fits for certain now: in any order, or steered; None if neither could be shown.

    A budget bounds the search of a caller that tries many cases; without one each search has its own.
    """
    state = case.state
    if state.overdrawn():
        return None
    if order_free(state, budget or Budget()):
        placement = place_greedily(state, range(len(state.podsets)), emptiest) or find_packing(state)
        return None if placement is None else Placed({}, placement)
    found = find_steering(state, budget or Budget())
    return Placed(*found) if found else None


def judge(
    room: Room,
    gang: Gang,
    taken: QuotaUse | None = None,
    assess: t.Callable[[Gang, Room], Assessment] = open_case,
) -> Verdict:
    """The verdict for one gang; advice is added by the caller, which may afford to try variants.

    assess sets the gang against the room; a caller that asks often may have a faster way to tell the same.
    """
    pairs = read_wishes(gang, room)
    space, hopeful = judge_namespace(gang, pairs, room.snapshot, taken or {})
    open_points = _not_modelled(gang, pairs, room)
    if not room.snapshot.nodes_visible:
        return _namespace_only(gang, space, hopeful, open_points)
    case = assess(gang, room)
    base = _counted(case, space, open_points)
    blocked = _blocked_before_nodes(gang, pairs, room)
    if blocked:
        answer, reason, detail = blocked
        return dataclasses.replace(base, answer=answer, reason=reason, detail=detail, podsets=case.measured())
    if not space.passed:
        answer = "waits" if hopeful else "never"
        return dataclasses.replace(base, answer=answer, reason=_space_reason(space), podsets=case.measured())
    placed = case.fit()
    return _refusal(case, base) if placed is None else _acceptance(case, base, placed)


def _space_reason(space: NamespaceFit) -> str:
    """Which of the namespace's rules refuses; a quota that is used up comes first."""
    of_limits = any(text.startswith("LimitRange") for text in space.problems)
    return "limit_range" if of_limits and not any(line.short for line in space.quotas) else "namespace_quota"


def _namespace_only(gang: Gang, space: NamespaceFit, hopeful: bool, open_points: tuple[str, ...]) -> Verdict:
    """The answer for an account that may not see nodes: what the namespace says, and nothing more."""
    answer = "fits" if space.passed else ("waits" if hopeful else "never")
    return Verdict(
        gang.name,
        gang.namespace,
        answer,
        "unproven" if space.passed else None,
        None if space.passed else _space_reason(space),
        space,
        0,
        (),
        {},
        (*open_points, "nodes_not_visible"),
        nodes_visible=False,
    )


def _counted(case: Assessment, space: NamespaceFit, open_points: tuple[str, ...]) -> Verdict:
    """The numbers every answer has, before it is known."""
    return Verdict(
        case.gang.name,
        case.gang.namespace,
        "waits",
        None,
        None,
        space,
        len(case.room.nodes),
        case.counted(),
        case.totals(),
        open_points,
    )


def _podset_fit(case: Case, index: PodsetIndex) -> PodsetFit:
    """Slots found, total shortage, largest hole and, where slots are missing, the nearest node of one podset."""
    podset, state = case.pairs[index][0], case.state
    slots = state.slots(index)
    found = sum(slots.values())
    rows = [state.free[node] for node in slots]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(state.resources) if name in podset.requests}
    free = {name: sum(have for have in column if have > 0) for name, column in columns.items()}
    short = {name: podset.count * amount - free[name] for name, amount in podset.requests.items()}
    full = [node for node, here in slots.items() if not here] if found < podset.count else []
    nearest = min(full, key=lambda node: (_lack(state, index, node), node), default=None)
    return PodsetFit(
        name=podset.name,
        needed=podset.count,
        found=found,
        requests=podset.requests,
        usable_nodes=len(slots),
        dropped=case.dropped[index],
        short={name: amount for name, amount in short.items() if amount > 0},
        largest_hole={name: max(0, *column) if column else 0 for name, column in columns.items()},
        nearest_node=None if nearest is None else case.room.nodes[nearest].name,
        nearest_short={} if nearest is None else short_on(case.room, podset, nearest),
    )


def _lack(state: PlacementState, index: PodsetIndex, node: NodeIndex) -> float:
    """How far a node is from taking one more pod, over all resources as shares of what one pod takes."""
    free = state.free[node]
    lack = 0.0
    for resource, cost in state.podsets[index].needs:
        if free[resource] < cost:
            lack += (cost - max(0, free[resource])) / cost
    return lack


def short_on(room: Room, podset: PodSet, node: NodeIndex) -> Resources:
    """What one more pod of the podset lacks on a node."""
    free = room.free[node]
    lacks = {name: amount - max(0, free.get(name, 0)) for name, amount in podset.requests.items()}
    return {name: lack for name, lack in lacks.items() if lack > 0}


def wanted_in_all(gang: Gang) -> Resources:
    """Demand of the whole gang, resource by resource in the order of their names."""
    wanted: Resources = {}
    for podset in gang.podsets:
        for name, amount in podset.requests.items():
            wanted[name] = wanted.get(name, 0) + podset.count * amount
    return dict(sorted(wanted.items()))


def _blocked_before_nodes(
    gang: Gang, pairs: t.Sequence[tuple[PodSet, Constraints]], room: Room
) -> tuple[str, str, str] | None:
    """Things that stop pods before any node is looked at: (answer, reason, detail)."""
    snapshot = room.snapshot
    users: collections.Counter[str] = collections.Counter()
    for podset, wish in pairs:
        for name in set(wish.claims):
            users[name] += podset.count
    for podset, wish in pairs:
        if not podset.count:
            continue
        classes_known = "runtimeclasses" not in snapshot.unread
        if wish.runtime_class and classes_known and wish.runtime_class not in snapshot.runtime_classes:
            return "waits", "runtime_class_missing", wish.runtime_class
        if wish.priority_class and snapshot.priorities and wish.priority_class not in snapshot.priorities:
            return "waits", "priority_class_missing", wish.priority_class
        for name in wish.claims:
            stopped = _claim_problem(gang, room, name, users[name])
            if stopped:
                return *stopped, name
    return None


def _claim_problem(gang: Gang, room: Room, name: str, users: int) -> tuple[str, str] | None:
    """Why a claim that so many pods of the gang mount stops them: (answer, reason); what was not read stops no pod."""
    snapshot = room.snapshot
    claim = snapshot.storage.claims.get((gang.namespace, name))
    if claim is None:
        expected = name in gang.own_claims or "persistentvolumeclaims" in snapshot.unread
        return None if expected else ("waits", "claim_missing")
    if claim.once_per_pod and (users > 1 or room.used_claims[(gang.namespace, name)]):
        return "never" if users > 1 else "waits", "claim_in_use"
    late = claim.storage_class in snapshot.storage.late_binding or "storageclasses" in snapshot.unread
    return None if claim.volume is not None or late else ("waits", "claim_unbound")


def _not_modelled(gang: Gang, pairs: t.Sequence[tuple[PodSet, Constraints]], room: Room) -> tuple[str, ...]:
    """What the verdict does not take into account; any entry keeps a fit from being called proven."""
    points = set()
    storage, unread = room.snapshot.storage, room.snapshot.unread
    for podset, wish in pairs:
        if not podset.count:
            continue
        if wish.device_claims:
            points.add("dra_claims")
        if wish.scheduler != DEFAULT_SCHEDULER:
            points.add("scheduler_name")
        if wish.gates:
            points.add("scheduling_gates")
        claims = [storage.claims.get((gang.namespace, name)) for name in wish.claims]
        if wish.new_claims or any(claim is None or claim.volume is None for claim in claims):
            points.add("unbound_volumes")
        if wish.claims and not unread.isdisjoint(("persistentvolumeclaims", "persistentvolumes", "csinodes")):
            points.add("volumes_not_visible")
        if wish.runtime_class and "runtimeclasses" in unread:
            points.add("runtime_classes_not_visible")
    if room.snapshot.webhooks or not unread.isdisjoint(("webhooks", "policies")):
        points.add("mutating_webhooks")
    if not unread.isdisjoint((f"resourcequotas {gang.namespace}", f"limitranges {gang.namespace}")):
        points.add("namespace_rules_not_visible")
    if rival_volumes(room, [wish for podset, wish in pairs if podset.count]):
        points.add("attach_limits")
    return tuple(sorted(points))


def _acceptance(case: Assessment, base: Verdict, placed: Placed) -> Verdict:
    """The verdict for a gang that fits."""
    how = "steered" if placed.narrowing else "now"
    return dataclasses.replace(
        with_placement(base, case, placed), answer="fits", how="unproven" if base.not_modelled else how
    )


def with_placement(verdict: Verdict, case: Assessment, placed: Placed) -> Verdict:
    """The verdict with steering and placement by the names of podsets and nodes."""
    names, host_names = [podset.name for podset in case.gang.podsets], case.room.host_names
    return dataclasses.replace(
        verdict,
        steering={names[i]: tuple(sorted(host_names[node] for node in nodes)) for i, nodes in placed.narrowing.items()},
        placement={
            name: {case.room.nodes[node].name: count for node, count in sorted(here.items())}
            for name, here in zip(names, placed.placement, strict=True)
        },
    )


def _refusal(case: Assessment, base: Verdict) -> Verdict:
    """The verdict for a gang that does not fit now: for ever, or why it waits."""
    base = dataclasses.replace(base, podsets=case.measured(), may_preempt=case.victims())
    never = case.never()
    if never is not None:
        return dataclasses.replace(
            base, answer="never", reason=never.reason, podsets=never.podsets, totals=never.totals
        )
    return dataclasses.replace(base, answer="waits", reason=case.reason(base.podsets, base.totals))


def _affinity_targets_exist(room: Room, wish: Constraints) -> bool:
    """Whether pods that required affinity looks for are there now."""

    def matches(namespace: str, labels: t.Mapping[str, str]) -> bool:
        return all(term.matches(namespace, labels, room.namespace_labels(namespace)) for term in wish.affinity)

    return any(room.count_matching(matches, terminating=True).values())


def _hopeless(state: PlacementState) -> bool:
    """Whether the gang could not be placed even in this state, where every node is ready and empty."""
    if state.overdrawn():
        return True
    if next(greedy_placements(state), None) is not None:
        return False
    placement, exhaustive = find_full(state)
    return placement is None and exhaustive


def _reason(case: Case, podsets: t.Iterable[PodsetFit], totals: t.Mapping[str, Total]) -> str:
    """The main reason why a case does not fit."""
    state = case.state
    if any(podset.count and not podset.allowed for podset in state.podsets):
        return "no_matching_node"
    if any(total.short for total in totals.values()) or any(fit.short for fit in podsets):
        return "insufficient"
    if not state.overdrawn() and find_packing(state) is not None:
        return "order_dependent"
    rules = any(podset.coupled for podset in state.podsets)
    rules = rules or any(wish.host_ports or wish.anti_affinity for _podset, wish in case.pairs)
    return "constraints" if rules and not _crowded(case) else "fragmentation"


def _crowded(case: Case) -> bool:
    """Whether some podset lacks slots by its requests alone, host ports and rules of placement aside."""
    for (podset, _wish), allowed in zip(case.pairs, (podset.allowed for podset in case.state.podsets), strict=True):
        wanted = [(name, amount) for name, amount in podset.requests.items() if amount]
        frees = (case.room.free[node] for node in allowed)
        if sum(max(0, min(free.get(name, 0) // want for name, want in wanted)) for free in frees) < podset.count:
            return True
    return False


def possible_victims(
    room: Room, pairs: t.Iterable[tuple[PodSet, Constraints]], nodes: t.Iterable[NodeIndex]
) -> tuple[str, ...]:
    """Pods of lower priority on these nodes: kube-scheduler might preempt them for a gang; we never count on it."""
    highest = highest_priority(room, pairs)
    if highest <= room.lowest_priority:
        return ()
    victims = (pod.key for node in nodes for pod in room.pods_on[node] if pod.priority < highest)
    return tuple(sorted(victims)[:MOST_VICTIMS_NAMED])


def highest_priority(room: Room, pairs: t.Iterable[tuple[PodSet, Constraints]]) -> int:
    """The priority of those of a gang's pods that preempt most."""
    priorities = [_priority(room, wish) for _podset, wish in pairs if wish.preempts]
    return max(priorities, default=room.lowest_priority)


def least_priority(room: Room, gangs: t.Iterable[Gang]) -> int:
    """The lowest priority of any pod of these gangs."""
    wishes = [podset.constraints for gang in gangs for podset in gang.podsets]
    return min((_priority(room, wish) for wish in wishes), default=0)


def _priority(room: Room, wish: Constraints) -> int:
    """The priority a podset's pods will get."""
    return priority_of(wish.priority_class, wish.priority, room.snapshot.priorities, room.snapshot.default_priority)


def priority_of(name: str | None, priority: int | None, classes: t.Mapping[str, int], default: int) -> int:
    """The priority of pods that name a class and a number, or neither."""
    if name:
        return classes.get(name, default)
    return priority if priority is not None else default


def occupy(room: Room, gang: Gang, verdict: Verdict) -> None:
    """Put a gang that fits into the room as the verdict places it, so that the next one sees what is left."""
    wishes = {podset.name: (podset, wish) for podset, wish in read_wishes(gang, room)}
    for name, nodes in (verdict.placement or {}).items():
        podset, wish = wishes[name]
        for node, count in nodes.items():
            for turn in range(count):
                room.add(virtual_pod(f"{gang.name}/{name}/{node}/{turn}", podset, wish, node))


def virtual_pod(name: str, podset: PodSet, wish: Constraints, node: str) -> Pod:
    """A pod that does not exist yet but whose place is taken."""
    return Pod(
        namespace=wish.namespace,
        name=name,
        labels=wish.labels,
        node=node,
        requests=podset.requests,
        host_ports=wish.host_ports,
        anti_affinity=wish.anti_affinity,
        claims=wish.claims,
        priority=wish.priority or 0,
        terminating=False,
        owner=None,
        stays=False,
        waiting=podset.template,
    )


def place_waiting_pods(
    room: Room,
    gangs: t.Iterable[Gang],
    promised: t.Callable[[Pod], bool] | None = None,
    counted: t.Container[tuple[str, str]] = (),
    least: t.Callable[[], int] | None = None,
) -> int:
    """Give pods that await the scheduler a place before any gang is considered; those that fit nowhere take none.

    Pods of lower priority than every gang come after the gangs in the scheduler's own queue and are left out, except
    those that were promised their place. Those that were counted, by namespace and name, have one already. least
    tells the lowest priority of any gang where the caller knows it.
    """
    snapshot = room.snapshot
    waiting = [pod for pod in snapshot.pods if pod.waiting is not None and (pod.namespace, pod.name) not in counted]
    if not waiting:
        return 0
    lowest = least_priority(room, gangs) if least is None else least()
    waiting = [pod for pod in waiting if pod.priority >= lowest or (promised is not None and promised(pod))]
    placed = 0
    for alike in _alike_pods(sorted(waiting, key=lambda pod: (-pod.priority, pod.key))):
        first = alike[0]
        template = t.cast(t.Mapping[str, t.Any], first.waiting)
        podset = PodSet(first.key, len(alike), first.requests, {}, template, None, first.key, -1, first.namespace)
        case = open_case(Gang(first.key, first.namespace, (podset,)), room)
        places = [node for node, count in place_as_many(case.state, 0, emptiest).items() for _turn in range(count)]
        for pod, node in zip(alike, places, strict=False):
            room.add(dataclasses.replace(pod, node=room.nodes[node].name))
        placed += len(places)
    return placed


def _alike_pods(pods: t.Iterable[Pod]) -> list[list[Pod]]:
    """Pods that can be placed together: of one controller and one size; others each by itself."""
    groups: dict[t.Hashable, list[Pod]] = {}
    for pod in pods:
        same = (pod.namespace, pod.owner, frozenset(pod.requests.items())) if pod.owner else pod.key
        groups.setdefault(same, []).append(pod)
    return list(groups.values())


def judge_all(
    room: Room,
    gangs: t.Sequence[Gang],
    *,
    cumulative: bool,
    finish: t.Callable[[Room, Gang, Verdict], Verdict],
    confine: t.Callable[[int, QuotaUse], Gang] | None = None,
) -> list[Verdict]:
    """Verdicts for many gangs: each alone, or one after the other with those that fit taking their place.

    finish completes a verdict while the room is still as the gang found it (advice is worked out there). confine gives
    the gang of a place as it would be started.
    """
    verdicts = []
    taken: QuotaUse = {}
    for place, whole in enumerate(gangs):
        gang = whole if confine is None else confine(place, taken)
        verdict = finish(room, gang, judge(room, gang, taken))
        verdicts.append(verdict)
        if cumulative and verdict.answer == "fits":
            occupy(room, gang, verdict)
            for key, amount in quota_use(gang, verdict.space).items():
                taken[key] = taken.get(key, 0) + amount
    return verdicts
