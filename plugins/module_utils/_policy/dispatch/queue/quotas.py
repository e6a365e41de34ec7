# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota trees say in one cycle: whose gang it is, what is used, whether it fits, and which queue is asked next."""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    Demands,
    charged_leaf,
    known_flavors,
    queue_named_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import charged_amounts, podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import LeafChoice, find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import FairOrder, QueueHead
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

T = t.TypeVar("T")


class Seat(t.NamedTuple):
    """Where a gang belongs and what it asks for: its leaf in each tree, amounts in the first one, and all as a key."""

    leaves: tuple[str | None, ...]
    amounts: QuotaAmounts
    key: Hashable


# Seats by the uids of gangs, with the record and the gang that they were worked out for.
Seats = dict[str, tuple[Record, Gang, Seat]]


class Quotas:
    """All trees and what is used of them while a queue is walked; a tree that is unreadable starts nothing."""

    def __init__(
        self,
        reading: QuotaTrees,
        entitlements: Mapping[str, Entitlements] | None = None,
        seats: Seats | None = None,
    ) -> None:
        """Begin with nothing used; what follows from trees and gangs alone may be known from earlier cycles."""
        known = entitlements or {}
        self._seats: Seats = {} if seats is None else seats
        self.in_force = reading.in_force
        self._reading = reading
        self._usages = {tree.name: TreeUsage(tree, known.get(tree.name)) for tree in reading.trees}
        self._leaves: dict[tuple[str, str | None, str], LeafChoice] = {}
        # What was said of gangs, by their seats: refusals stay, what fits does so until the next gang starts.
        self._refused: dict[Hashable, QuotaLayer] = {}
        self._fitting: dict[Hashable, QuotaLayer] = {}

    @property
    def entitlements(self) -> dict[str, Entitlements]:
        """What trees say whatever is used, for later cycles with the same trees."""
        return {name: usage.entitlements for name, usage in self._usages.items()}

    def stop(self, record: Record) -> tuple[str, str] | None:
        """Reason and detail of why nothing of a gang starts, whatever is used; None when nothing stands against it."""
        for name, problem in self._reading.unreadable.items():
            return "quota_unreadable", f"nothing starts while the quota tree {name} cannot be read: {problem}"
        if self._usages and self._reading.hidden is not None:
            return "quota_not_visible", f"what is used of quota cannot be counted: {self._reading.hidden}"
        for usage in self._usages.values():
            choice = self._leaf(usage.tree, record)
            if choice.reason is not None:
                return choice.reason, choice.detail
            if usage.tree.flavors:
                return "quota_unreadable", f"this version does not know flavors, which tree {usage.tree.name} has"
        return None

    def priority_cap(self, record: Record) -> int | None:
        """The highest priority that counts for a gang in its queues; None without a limit."""
        names = [(usage.tree, self._leaf_name(usage.tree, record)) for usage in self._usages.values()]
        lines = [tree.by_name[queue].priority_cap for tree, leaf in names if leaf for queue in tree.ancestry(leaf)]
        return min((cap for cap in lines if cap is not None), default=None)

    def lane(self, record: Record, gang: Gang) -> Hashable:
        """Equal for gangs of one queue: those behind each other in its order."""
        return self._seat(record, gang).leaves

    def charge_started(self, record: Record, demands: Demands) -> None:
        """Count a gang that was started: where its state says, else where it would belong now."""
        for usage in self._usages.values():
            leaf, flavors = charged_leaf(usage, record, self._reading.namespaces)
            self._charge(usage, leaf, demands, flavors)

    def charge_promised(self, gang: Gang, queue: str | None, labels: Mapping[str, str]) -> None:
        """Count a gang of which only an open entry of the batch tells; labels are those of its record, if it is seen.

        The entry names the queue of the tree that is meant where none is named; labels may have changed since.
        """
        for usage in self._usages.values():
            named = named_queue(usage.tree, {}, queue) or labels.get(usage.tree.name)
            leaf = self._find(usage.tree, named, gang.namespace).leaf
            self._charge(usage, leaf.name if leaf is not None else None, podset_demands(gang.podsets), {})

    def charge_left(self, namespace: str, queue: str | None, demand: Mapping[str, int]) -> None:
        """Count pods whose record is gone to the queue that they name, if that is for their namespace.

        Anybody who may change pods can name a queue: pods of others use nothing of it.
        """
        for usage in self._usages.values():
            named = self._find(usage.tree, named_queue(usage.tree, {}, queue), namespace)
            if named.leaf is None or named.reason == "queue_forbidden":
                named = self._find(usage.tree, None, namespace)
            self._charge(usage, named.leaf.name if named.leaf is not None else None, {"": demand}, {})

    def ask(self, record: Record, gang: Gang) -> QuotaLayer:
        """What each tree says of a gang, without numbers; the same is said of all that ask for the same.

        What is used only grows while a queue is walked, so nobody fits who did not before.
        """
        key = self._seat(record, gang).key
        known = self._refused.get(key) or self._fitting.get(key)
        if known is None:
            known = self._layer(record, gang, numbers=False)
            (self._fitting if known.passed else self._refused)[key] = known
        return known

    def numbered(self, layer: QuotaLayer, record: Record, gang: Gang) -> QuotaLayer:
        """What was said of a gang, with the numbers of its queues as they are by now."""
        by_tree = {item.tree: item for item in self._layer(record, gang, numbers=True).standings}

        def with_numbers(said: QuotaStanding) -> QuotaStanding:
            found = by_tree[said.tree]
            return dataclasses.replace(said, short=found.short, levels=found.levels, borrowers=found.borrowers)

        return QuotaLayer(tuple(map(with_numbers, layer.standings)))

    def start(self, layer: QuotaLayer) -> None:
        """Count a gang that starts with what was asked for."""
        for item in layer.standings:
            if item.leaf is not None:
                self._usages[item.tree].charge(item.leaf, item.amounts)
        self._fitting.clear()

    def in_turn(self, queue: Sequence[T], look: Callable[[T], tuple[Record, Gang]]) -> Iterator[T]:
        """The gangs of a queue that is in order, one queue's next gang after the other; look tells whose an item is.

        The first tree decides between queues. Whoever takes the items counts what starts before the next one is taken.
        """
        if not self._usages:
            yield from queue
            return
        lines: dict[str, collections.deque[tuple[int, T]]] = {}
        for place, item in enumerate(queue):
            leaf = self._seat(*look(item)).leaves[0] or ""
            lines.setdefault(leaf, collections.deque()).append((place, item))

        def hopeless(leaf: str) -> Iterator[T]:
            """The next gangs of a queue that its quota has no room for: their turn would not help them."""
            line = lines[leaf]
            while line and not self.ask(*look(line[0][1])).passed:
                yield line.popleft()[1]

        def head(leaf: str) -> QueueHead | None:
            """What a queue offers next."""
            if not lines[leaf]:
                return None
            place, item = lines[leaf][0]
            record, gang = look(item)
            return QueueHead(leaf, record.uid, self._seat(record, gang).amounts, (place,))

        for leaf in lines:
            yield from hopeless(leaf)
        heads = (head(leaf) for leaf in lines)
        first = self._usages[self._reading.trees[0].name]
        order = FairOrder(first, [item for item in heads if item is not None])
        while (best := order.next()) is not None:
            yield lines[best.leaf].popleft()[1]
            yield from hopeless(best.leaf)
            order.offer(best.leaf, head(best.leaf))

    def _seat(self, record: Record, gang: Gang) -> Seat:
        """Where a gang belongs and what it asks for, found once."""
        known = self._seats.get(record.uid)
        if known is not None and known[0] is record and known[1] is gang:
            return known[2]
        demands = podset_demands(gang.podsets)
        leaves = tuple(self._leaf_name(usage.tree, record) for usage in self._usages.values())
        # Trees with flavors start nothing, so each podset has the only one.
        amounts = [charged_amounts(usage.tree, demands, {}) for usage in self._usages.values()]
        key = leaves, tuple(tuple(sorted(item.items())) for item in amounts)
        seat = Seat(leaves, amounts[0] if amounts else {}, key)
        self._seats[record.uid] = record, gang, seat
        return seat

    def _layer(self, record: Record, gang: Gang, *, numbers: bool) -> QuotaLayer:
        """What each tree says of a gang as things are now."""
        demands, labels = podset_demands(gang.podsets), self._reading.namespaces.get(record.namespace)
        standings = []
        for usage in self._usages.values():
            named = queue_named_by(usage.tree, record)
            found = judge_quota(usage, named, record.namespace, demands, namespace_labels=labels, numbers=numbers)
            # Without flavors nothing in it is about this gang's podsets.
            standings.append(found if usage.tree.flavors else dataclasses.replace(found, flavors={}))
        return QuotaLayer(tuple(standings))

    def _charge(self, usage: TreeUsage, leaf: str | None, demands: Demands, flavors: Mapping[str, str]) -> None:
        """Count what podsets ask for; without a queue there is nobody to be charged."""
        if leaf is not None:
            usage.charge(leaf, charged_amounts(usage.tree, demands, known_flavors(usage.tree, flavors)))

    def _leaf_name(self, tree: QuotaTree, record: Record) -> str | None:
        """The name of a gang's leaf; None when it has none."""
        leaf = self._leaf(tree, record).leaf
        return leaf.name if leaf is not None else None

    def _leaf(self, tree: QuotaTree, record: Record) -> LeafChoice:
        """The leaf of a gang in a tree, found once for all gangs that name the same from the same namespace."""
        return self._find(tree, queue_named_by(tree, record), record.namespace)

    def _find(self, tree: QuotaTree, named: str | None, namespace: str) -> LeafChoice:
        """The leaf of whoever names this queue, or none, from a namespace."""
        asked = tree.name, named, namespace
        if asked not in self._leaves:
            self._leaves[asked] = find_leaf(tree, named, namespace, self._reading.namespaces.get(namespace))
        return self._leaves[asked]


# Where there is no tree.
NO_QUOTAS = Quotas(NO_TREES)


def charges_of(layer: QuotaLayer) -> tuple[Charge, ...]:
    """Whose quota a start is charged to."""
    found = ((item.tree, item.leaf, item.flavors) for item in layer.standings)
    return tuple(Charge(tree, leaf, dict(flavors)) for tree, leaf, flavors in found if leaf is not None)
