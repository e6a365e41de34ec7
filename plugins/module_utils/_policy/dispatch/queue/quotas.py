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
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    charged_leaf,
    known_flavors,
    queue_named_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import (
    assign_flavors,
    charged_amounts,
    podset_demands,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import LeafChoice, find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import FairOrder, QueueHead
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

T = t.TypeVar("T")
Demands = Mapping[str, Mapping[str, int]]


class Quotas:
    """All trees and what is used of them while a queue is walked; a tree that is unreadable starts nothing."""

    def __init__(self, reading: QuotaTrees, entitlements: Mapping[str, Entitlements] | None = None) -> None:
        """Begin with nothing used; entitlements may be known from earlier cycles, by the names of trees."""
        known = entitlements or {}
        self._reading = reading
        self._usages = {tree.name: TreeUsage(tree, known.get(tree.name)) for tree in reading.trees}
        self._leaves: dict[tuple[str, str | None, str], LeafChoice] = {}
        self._refused: dict[Hashable, QuotaLayer] = {}

    @property
    def in_force(self) -> bool:
        """Whether there is any tree."""
        return self._reading.in_force

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

    def lane(self, record: Record) -> Hashable:
        """Equal for gangs of one queue: those behind each other in its order."""
        return tuple(self._leaf_name(usage.tree, record) for usage in self._usages.values())

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
        """What each tree says of a gang; what was said of one that does not fit is said of all that ask for the same.

        What is used only grows while a queue is walked, so nobody fits who did not before.
        """
        demands = podset_demands(gang.podsets)
        same = self.lane(record), _fingerprint(demands)
        known = self._refused.get(same)
        if known is not None:
            return known
        layer = QuotaLayer(tuple(self._ask(usage, record, demands) for usage in self._usages.values()))
        if not layer.passed:
            self._refused[same] = layer
        return layer

    def start(self, layer: QuotaLayer) -> None:
        """Count a gang that starts with what was asked for."""
        for item in layer.standings:
            if item.leaf is not None:
                self._usages[item.tree].charge(item.leaf, item.amounts)

    def in_turn(self, queue: Sequence[T], look: Callable[[T], tuple[Record, Gang]]) -> Iterator[T]:
        """The gangs of a queue that is in order, one queue's next gang after the other; look tells whose an item is.

        The first tree decides between queues. Whoever takes the items counts what starts before the next one is taken.
        """
        if not self._usages:
            yield from queue
            return
        usage = next(iter(self._usages.values()))
        lines: dict[str, collections.deque[tuple[int, T]]] = {}
        for place, item in enumerate(queue):
            lines.setdefault(self._leaf_name(usage.tree, look(item)[0]) or "", collections.deque()).append(
                (place, item)
            )

        def head(leaf: str) -> QueueHead | None:
            """What a queue offers next."""
            if not lines[leaf]:
                return None
            place, item = lines[leaf][0]
            record, gang = look(item)
            demands = podset_demands(gang.podsets)
            return QueueHead(leaf, record.uid, assign_flavors(usage, leaf, demands).amounts, (place,))

        heads = (head(leaf) for leaf in lines)
        order = FairOrder(usage, [item for item in heads if item is not None])
        while (best := order.next()) is not None:
            _place, item = lines[best.leaf].popleft()
            yield item
            order.offer(best.leaf, head(best.leaf))

    def _ask(self, usage: TreeUsage, record: Record, demands: Demands) -> QuotaStanding:
        """What one tree says."""
        labels = self._reading.namespaces.get(record.namespace)
        found = judge_quota(
            usage, queue_named_by(usage.tree, record), record.namespace, demands, namespace_labels=labels
        )
        # Without flavors nothing in it is about this gang's podsets.
        return found if usage.tree.flavors else dataclasses.replace(found, flavors={})

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


def charges_of(layer: QuotaLayer) -> tuple[Charge, ...]:
    """Whose quota a start is charged to."""
    found = ((item.tree, item.leaf, item.flavors) for item in layer.standings)
    return tuple(Charge(tree, leaf, dict(flavors)) for tree, leaf, flavors in found if leaf is not None)


def _fingerprint(demands: Demands) -> Hashable:
    """Equal for podsets that ask for the same, whatever they are called."""
    return tuple(tuple(sorted(demand.items())) for demand in demands.values())
