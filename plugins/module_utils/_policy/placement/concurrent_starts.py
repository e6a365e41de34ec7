# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Concurrent starts: gangs of one cycle meet in the scheduler's queue, so they must fit in any order among them.

Each verdict looks at one gang alone. Where several are started before the first is bound, the scheduler may place an
earlier one other than expected and take what a later one counted on; then the later one has to wait for the next cycle.
Pods that can never meet on a node do not matter to each other.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang, confined
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import stated_text
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import LabelSelector
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.filters import filter_nodes
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import read_wishes
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.placement_state import (
    Candidate,
    PlacementState,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import Budget
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.slot_tables import Board, is_plain
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import order_free

Steering = t.Mapping[str, t.Sequence[str]]
PodClass = tuple["str | None", str]
# The keys of labels that rules about other pods ask for; None where no pod has such rules.
LabelKeys: t.TypeAlias = "frozenset[str] | None"
# More kinds of pods that could meet than this are not searched for an order that fails; room to spare must do.
MOST_CLASSES = 24
# And more than this are not even counted; the rest waits for the next cycle.
MOST_COUNTED = 400
# Looks at nodes that all searches of a cycle may spend together.
MOST_LOOKS = 15_000


def label_keys(snapshot: Snapshot, gangs: t.Iterable[Gang]) -> LabelKeys:
    """The labels by which pods differ to any pod that is there or is to start; other labels make no difference.

    Most labels name the object a pod comes from, and with them no two gangs would ever be alike.
    """
    terms = {term for pod in snapshot.pods for term in pod.anti_affinity}
    return keys_of({*(term.selector for term in terms), *(item for gang in gangs for item in gang_selectors(gang))})


def gang_selectors(gang: Gang) -> set[LabelSelector | None]:
    """By which labels a gang's pods choose their neighbours."""
    selectors: set[LabelSelector | None] = set()
    for podset in gang.podsets:
        if _has_interpod_rules(podset):
            wish = podset.constraints
            selectors.update(term.selector for term in (*wish.affinity, *wish.anti_affinity))
            selectors.update(spread.selector for spread in wish.spreads)
    return selectors


def keys_of(selectors: t.Collection[LabelSelector | None]) -> LabelKeys:
    """The keys that selectors ask for; None without any selector."""
    if not selectors:
        return None
    return frozenset(item.key for selector in selectors if selector is not None for item in selector.requirements)


def pod_class(namespace: str, podset: PodSet, keys: LabelKeys) -> PodClass:
    """What makes pods alike to the scheduler, but not how many, called what or running what.

    That is their size and constraints; where rules about other pods exist, also the labels these ask for and the
    namespace, which also says whose claims a pod mounts.
    """
    if keys is None:
        return namespace if podset.constraints.claims else None, podset.shape
    labels = (podset.template.get("metadata") or {}).get("labels") or {}
    compared = {key: str(value) for key, value in labels.items() if key in keys}
    return namespace, json.dumps(compared, sort_keys=True) + podset.shape


def demand_class(gang: Gang, keys: LabelKeys) -> t.Hashable:
    """What makes gangs alike to a verdict; gangs of one class get the same answer from the same room.

    Besides their pods' classes that is all that the rules of their namespace look at: also the objects they make.
    """
    return (
        gang.namespace,
        tuple(
            (pod_class(gang.namespace, item, keys), item.count, stated_text(item.template, item.limits))
            for item in gang.podsets
        ),
        gang.own_claims.intersection(name for item in gang.podsets for name in item.constraints.claims),
        gang.made,
    )


def steered(gang: Gang, steering: Steering) -> Gang:
    """The gang with the node affinity that its objects will carry."""
    if not steering:
        return gang
    podsets = tuple(confined(podset, steering.get(podset.name)) for podset in gang.podsets)
    return dataclasses.replace(gang, podsets=podsets)


@dataclasses.dataclass(frozen=True, slots=True)
class _View:
    """Pods of a class against the room: their slots on it, and the nodes on which they matter to other pods.

    plain says that nothing but requests decides how many of them a node takes.
    """

    candidate: Candidate
    slots: int
    nodes: frozenset[int]
    plain: bool

    def meets(self, other: _View) -> bool:
        """Whether pods of both could get into each other's way."""
        return not self.nodes.isdisjoint(other.nodes)

    def harm(self, other: _View) -> int:
        """The most slots of the other that one pod of this class can destroy."""
        mine = self.candidate.podset.requests
        pairs = other.candidate.podset.requests.items()
        return max((-(-mine.get(name, 0) // amount) for name, amount in pairs if amount), default=0)


class ConcurrentStarts:
    """What was agreed to start on one room, and whether one more gang may join."""

    def __init__(self, room: Room, keys: LabelKeys, board: Board | None = None) -> None:
        """room: free capacity before this cycle's starts; it must not be modified after the first call of admits.

        board holds tables that were kept for rooms like it, if any; it follows the room when it is needed.
        """
        self._room = room
        self._keys = keys
        self._board = board
        self._pods: dict[PodClass, tuple[str, PodSet]] = {}
        self._counts: dict[PodClass, int] = {}
        self._uncounted: dict[PodClass, int] = {}
        self._lost: dict[PodClass, int] = {}
        self._views: dict[PodClass, _View] = {}
        # Of two classes: whether they meet, and how many slots of the second a pod of the first destroys at most.
        self._meetings: dict[tuple[PodClass, PodClass], bool] = {}
        self._harms: dict[tuple[PodClass, PodClass], int] = {}
        self._budget = Budget(MOST_LOOKS)

    def add(self, gang: Gang, steering: Steering) -> None:
        """Count a gang as agreed."""
        for key, count in self._classes(steered(gang, steering)).items():
            self._uncounted[key] = self._uncounted.get(key, 0) + count

    def admits(self, gang: Gang, steering: Steering) -> bool:
        """Whether all pods agreed so far and this gang's fit in whatever order the scheduler takes them."""
        wanted = self._classes(steered(gang, steering))
        if not wanted or not (self._counts or self._uncounted):
            return True
        if not self._room.snapshot.nodes_visible:
            return False
        self._count_agreed()
        connected = self._connected_classes(wanted)
        if not connected:
            return True
        whole = {key: self._counts.get(key, 0) + wanted.get(key, 0) for key in (*connected, *wanted)}
        if len(whole) > MOST_COUNTED:
            return False
        if self._has_to_spare(whole, wanted):
            return True
        return len(whole) <= MOST_CLASSES and self._fits_in_any_order(whole)

    def nodes(self, gang: Gang, steering: Steering) -> frozenset[int]:
        """The nodes, by index, on which a gang's pods matter to others."""
        views = (self._view(key) for key in self._classes(steered(gang, steering)))
        return frozenset().union(*(view.nodes for view in views))

    def _classes(self, gang: Gang) -> dict[PodClass, int]:
        """How many pods of which class a gang has."""
        found: dict[PodClass, int] = {}
        for podset in gang.podsets:
            if podset.count:
                key = pod_class(gang.namespace, podset, self._keys)
                found[key] = found.get(key, 0) + podset.count
                self._pods.setdefault(key, (gang.namespace, podset))
        return found

    def _view(self, key: PodClass) -> _View:
        """A class against the room, worked out once."""
        if key not in self._views:
            namespace, podset = self._pods[key]
            if self._board is not None and not self._views:
                self._board.follow(self._room)
            self._views[key] = _view_of(self._room, namespace, podset, self._board)
        return self._views[key]

    def _meets(self, one: PodClass, other: PodClass) -> bool:
        """Whether pods of two classes could get into each other's way, worked out once."""
        pair = (one, other)
        if pair not in self._meetings:
            self._meetings[pair] = self._meetings[(other, one)] = self._view(one).meets(self._view(other))
        return self._meetings[pair]

    def _count_agreed(self) -> None:
        """Note for every agreed class how many of its slots the others may destroy at most."""
        for key, count in self._uncounted.items():
            if key not in self._lost:
                self._lost[key] = self._harm_to(key)
            self._counts[key] = self._counts.get(key, 0) + count
            for other in self._counts:
                if other != key:
                    self._lost[other] += self._harm_of(key, count, other)
        self._uncounted = {}

    def _harm_to(self, key: PodClass) -> int:
        """How many slots of a class the agreed pods of others may destroy."""
        return sum(self._harm_of(other, count, key) for other, count in self._counts.items() if other != key)

    def _harm_of(self, rival: PodClass, count: int, key: PodClass) -> int:
        """How many slots of a class so many pods of a rival may destroy."""
        pair = (rival, key)
        if pair not in self._harms:
            self._harms[pair] = self._view(rival).harm(self._view(key)) if self._meets(rival, key) else 0
        return count * self._harms[pair]

    def _connected_classes(self, wanted: t.Collection[PodClass]) -> list[PodClass]:
        """The agreed classes that could meet those wanted, or meet others that could, and so on."""
        left = [key for key in self._counts if key not in wanted]
        connected = [key for key in wanted if key in self._counts]
        members: t.Collection[PodClass] = wanted
        while True:
            met = [key for key in left if any(self._meets(key, member) for member in members)]
            if not met:
                return connected
            connected += met
            left = [key for key in left if key not in met]
            members = met

    def _has_to_spare(self, whole: t.Mapping[PodClass, int], wanted: t.Mapping[PodClass, int]) -> bool:
        """Whether each class keeps its slots even if all others destroy as many as they can, by counting alone."""
        if not all(self._view(key).plain for key in whole):
            return False
        for key, count in whole.items():
            lost = self._lost[key] if key in self._lost else self._harm_to(key)
            lost += sum(self._harm_of(other, more, key) for other, more in wanted.items() if other != key)
            if self._view(key).slots < count + lost:
                return False
        return True

    def _fits_in_any_order(self, whole: t.Mapping[PodClass, int]) -> bool:
        """The order-free proof for one gang made of all; each class keeps the rules of its own namespace.

        Nodes that take no pod now take none later; where nothing but requests decides they need not be looked at.
        """
        views = [self._view(key) for key in whole]
        plain = all(view.plain for view in views)
        candidates = []
        for index, (view, count) in enumerate(zip(views, whole.values(), strict=True)):
            candidate = view.candidate
            podset = dataclasses.replace(candidate.podset, name=str(index), count=count)
            open_nodes = tuple(sorted(view.nodes)) if plain else candidate.filtered.allowed
            filtered = dataclasses.replace(candidate.filtered, allowed=open_nodes)
            candidates.append(dataclasses.replace(candidate, podset=podset, filtered=filtered))
        return order_free(PlacementState(self._room, candidates), self._budget)


def _view_of(room: Room, namespace: str, podset: PodSet, board: Board | None) -> _View:
    """The pods of a class against the room, as if they were alone."""
    ((_podset, wish),) = read_wishes(Gang("", namespace, (podset,)), room)
    if board is not None and is_plain(room, podset, wish):
        table = board.table(podset, wish)
        return _View(Candidate(podset, wish, table.filtered), table.found, frozenset(table.open), plain=True)
    filtered = filter_nodes(room, wish)
    slots = {node: _slots(room.free[node], podset.requests) for node in filtered.allowed}
    reach = frozenset(node for node, here in slots.items() if here)
    rules = bool(wish.affinity or wish.anti_affinity or wish.spreads)
    nodes = _affected_nodes(room, wish, reach) if rules else reach
    return _View(Candidate(podset, wish, filtered), sum(slots.values()), nodes, plain=not rules and not wish.host_ports)


def _slots(free: Resources, requests: Resources) -> int:
    """How many pods of this size the free amounts of a node take."""
    return max(0, min((free.get(name, 0) // amount for name, amount in requests.items() if amount), default=0))


def _affected_nodes(room: Room, wish: Constraints, reach: frozenset[int]) -> frozenset[int]:
    """The nodes where other pods matter to one with rules about them: those of its domains, or all."""
    if wish.affinity or wish.spreads:
        return frozenset(range(len(room.nodes)))
    nodes = set(reach)
    for term in wish.anti_affinity:
        domains = room.domains(term.topology_key)
        mine = {domains[node] for node in reach} - {None}
        nodes.update(node for node, domain in enumerate(domains) if domain in mine)
    return frozenset(nodes)


def _has_interpod_rules(podset: PodSet) -> bool:
    spec = podset.template.get("spec") or {}
    affinity = spec.get("affinity") or {}
    return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity") or spec.get("topologySpreadConstraints"))
