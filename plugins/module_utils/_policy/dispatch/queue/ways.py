# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ways to start a gang in trees with flavors: each confines its pods to nodes, and charges other amounts.

A flavor whose nodes could never take a pod is passed over. One whose nodes are only full now is passed over as well
when another has quota and room: nobody waits for a full pool beside an empty one that he may use. Ways are tried in
the trees' order, and not more than a few for each gang.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang, confined_to_kinds, gang_of_kinds
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NODE_REASONS, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, QuotaFlavor, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.assignments import (
    Assignment,
    Combination,
    FlavorSearch,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# So many ways are set against the nodes for one gang, and so many against those who may be evicted.
MOST_TRIES = 8
MOST_RECLAIMED = 4
# Reasons that another kind of nodes may not have.
_OF_NODES = (*NODE_REASONS, "reserved")

# Says whether there is a node that could take a pod of a podset if it were empty.
HasNodes = Callable[[PodSet], bool]


class Way(t.NamedTuple):
    """One way to start a gang: what the trees say to it, and the gang confined to the nodes of its flavors.

    mark is equal for gangs of one class that are confined alike. able says that there are nodes for all of it.
    """

    layer: QuotaLayer
    gang: Gang
    mark: Hashable
    flavors: tuple[Combination, ...]
    able: bool


class FlavoredGang:
    """A gang and what becomes of it in any flavors; what was worked out once is kept."""

    def __init__(self, gang: Gang, trees: Sequence[QuotaTree], reachable: Collection[str]) -> None:
        """Take the podsets whose templates can be changed: no others are confined to anything."""
        self.gang = gang
        self.demands = list(podset_demands(gang.podsets).values())
        self.reach = tuple(podset.name in reachable for podset in gang.podsets)
        # Equal for gangs of which the same is said in the same queues.
        self.key = tuple((item.shape, item.count, able) for item, able in zip(gang.podsets, self.reach, strict=True))
        self._trees = [{flavor.name: flavor for flavor in tree.flavors} for tree in trees]
        self._podsets: dict[tuple[int, Combination], PodSet] = {}
        self._gangs: dict[tuple[Combination, ...], tuple[Gang, Hashable]] = {}

    @property
    def names(self) -> list[str]:
        """The names of the podsets."""
        return [podset.name for podset in self.gang.podsets]

    def podset(self, place: int, flavors: Combination) -> PodSet:
        """A podset confined to the nodes of flavors."""
        found = self._podsets.get((place, flavors))
        if found is None:
            found = confined_to_kinds(self.gang.podsets[place], self._kinds(flavors))
            self._podsets[place, flavors] = found
        return found

    def confined(self, flavors: tuple[Combination, ...]) -> tuple[Gang, Hashable]:
        """The gang confined to the nodes of the flavors of its podsets, and what tells gangs apart by that."""
        found = self._gangs.get(flavors)
        if found is None:
            kinds = dict(zip(self.names, map(self._kinds, flavors), strict=True))
            gang = gang_of_kinds(self.gang, kinds)
            mark = None if gang is self.gang else tuple(podset.shape for podset in gang.podsets)
            found = self._gangs[flavors] = gang, mark
        return found

    def out_of_reach(self, flavors: tuple[Combination, ...]) -> list[str]:
        """The podsets that these flavors would confine and that cannot be."""
        return [name for place, name in enumerate(self.names) if not self.is_reached(place, flavors[place])]

    def is_reached(self, place: int, flavors: Combination) -> bool:
        """Whether a podset can be charged to flavors: it is confined to their nodes, or need not be."""
        return self.reach[place] or not any(kind.confines for kind in self._kinds(flavors))

    def _kinds(self, flavors: Combination) -> list[QuotaFlavor]:
        return [kinds[name] for kinds, name in zip(self._trees, flavors, strict=True) if name in kinds]


class Ways:
    """The ways of one gang as things are now; whoever tries them notes what nodes are full."""

    def __init__(
        self,
        subject: FlavoredGang,
        leaves: Sequence[tuple[TreeUsage, str]],
        has_nodes: HasNodes,
        first: QuotaLayer | None = None,
    ) -> None:
        """Take the gang with its leaf in each tree, and what was said of it before, if that is known."""
        self._subject = subject
        self._leaves = leaves
        self._has_nodes = has_nodes
        self._said = first
        self.search = FlavorSearch(leaves, subject.demands, self._is_possible)

    @property
    def first(self) -> Way:
        """The way that was told of first: one that fits the trees, or that is waited for."""
        layer = self._said or self.layer_of(next(self.search.fitting(), None) or self.waited_for())
        columns = [list(item.flavors.values()) or [NO_FLAVOR] * len(self._subject.names) for item in layer.standings]
        return self._way(layer, tuple(zip(*columns, strict=True)))

    def waited_for(self) -> Assignment:
        """What is told to a gang that fits in no flavors: those that it could have one day."""
        return next(self.search.hopeful(), None) or self.search.fallback()

    def fitting(self, allowed: Callable[[QuotaLayer], bool]) -> Iterator[Way]:
        """The ways that fit all trees; allowed tells whether others leave enough for one."""
        for found in self.search.fitting():
            layer = self.layer_of(found)
            if allowed(layer):
                yield self._way(layer, found.flavors)

    def hopeful(self) -> Iterator[Way]:
        """The ways that could fit all trees one day."""
        return (self._way(self.layer_of(found), found.flavors) for found in self.search.hopeful())

    def out_of_reach(self, way: Way) -> list[str]:
        """The podsets that a way would confine and that cannot be."""
        return self._subject.out_of_reach(way.flavors)

    def note_full(self, way: Way, verdict: Verdict) -> None:
        """Learn from what nodes say of a way which podsets found too little room even alone."""
        if len(verdict.podsets) == len(way.flavors):
            for place, (podset, flavors) in enumerate(zip(verdict.podsets, way.flavors, strict=True)):
                if podset.found < podset.needed:
                    self.search.note_full(place, flavors)

    def layer_of(self, found: Assignment) -> QuotaLayer:
        """What the trees say to an assignment, without numbers."""
        names = self._subject.names
        columns = list(zip(*found.flavors, strict=True)) or [()] * len(self._leaves)
        return QuotaLayer(
            tuple(
                _standing(usage, leaf, amounts, dict(zip(names, column, strict=True)))
                for (usage, leaf), amounts, column in zip(self._leaves, found.amounts, columns, strict=True)
            )
        )

    def _way(self, layer: QuotaLayer, flavors: tuple[Combination, ...]) -> Way:
        """A way with the gang as it would be started."""
        able = all(itertools.starmap(self._is_possible, enumerate(flavors)))
        return Way(layer, *self._subject.confined(flavors), flavors, able)

    def _is_possible(self, place: int, flavors: Combination) -> bool:
        """Whether a podset can be charged to flavors, and there are nodes for it."""
        subject = self._subject
        return subject.is_reached(place, flavors) and self._has_nodes(subject.podset(place, flavors))


def _standing(usage: TreeUsage, leaf: str, amounts: t.Any, flavors: dict[str, str]) -> QuotaStanding:
    """What one tree says to amounts."""
    found, tree = usage.bare_answer(leaf, amounts), usage.tree
    return QuotaStanding(
        tree=tree.name,
        answer=found.answer,
        leaf=leaf,
        path=tree.path(leaf),
        borrows=found.borrows,
        reason=None if found.answer == "fits" else "quota",
        flavors=flavors if tree.flavors else {},
        amounts=amounts,
    )


class Settled(t.NamedTuple):
    """The way that a gang starts or waits for, and what nodes say of it; None where they were not asked.

    unreached says why it cannot be gone whatever nodes say: templates that nobody can change.
    """

    way: Way
    verdict: Verdict | None = None
    unreached: str = ""


def settle(ways: Ways, fitting: Iterator[Way], ask: Callable[[Way, bool], Verdict]) -> Settled:
    """The first way that finds nodes, else the one that the gang waits for; nodes are not asked where quota lacks.

    fitting are the ways that have quota. ask tells what nodes say of a way; True lets the gang hold nodes if it may,
    which it does for one way only.
    """
    first = ways.first
    if not first.layer.passed:
        return Settled(first)
    unreached = ways.out_of_reach(first)
    if unreached:
        return Settled(first, unreached=f"no template is known of {', '.join(unreached)}")
    return _try_in_turn(ways, fitting, ask)


def _try_in_turn(ways: Ways, fitting: Iterator[Way], ask: Callable[[Way, bool], Verdict]) -> Settled:
    """The same for a gang that has quota.

    One whose fitting ways find no nodes whatever ends waits for quota of another way that would.
    """
    tried: list[tuple[Way, Verdict]] = []
    for way in itertools.islice(fitting, MOST_TRIES):
        verdict = ask(way, False)
        another = verdict.space.passed and (verdict.answer == "never" or verdict.reason in _OF_NODES)
        if verdict.answer == "fits" or not another:
            return Settled(way, verdict)
        tried.append((way, verdict))
        ways.note_full(way, verdict)
    best = next((way for way, verdict in tried if verdict.answer == "waits"), None)
    for way in itertools.islice(ways.hopeful(), MOST_TRIES) if tried and best is None else ():
        if not way.layer.passed and ask(way, False).answer != "never":
            return Settled(way)
    best = best or (tried[0][0] if tried else ways.first)
    return Settled(best, ask(best, True))
