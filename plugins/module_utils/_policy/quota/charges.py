# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What started gangs are charged with: what their records keep reserved, in the leaf each belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES, GangState
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import LeafChoice, find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# Labels of namespaces by their names; empty where they may not be read.
NamespaceLabels = Mapping[str, Mapping[str, str]]
# Amounts of resources by podset.
Demands = Mapping[str, Mapping[str, int]]
# Nobody uses more of anything; what states tell beyond that was not written by us, and floats end somewhere.
_MOST = 2**128


@dataclasses.dataclass(slots=True)
class LeafCounts:
    """How many gangs of a leaf are started, and how many wait."""

    started: int = 0
    waiting: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ChargedTree:
    """A tree with what is used of it, the gangs of each leaf, and the keys of started gangs that no leaf is for."""

    usage: TreeUsage
    counts: Mapping[str, LeafCounts]
    unplaced: tuple[str, ...]


def leaf_of_record(tree: QuotaTree, record: Record, labels: NamespaceLabels) -> LeafChoice:
    """The leaf that a gang has in a tree."""
    return find_leaf(tree, queue_named_by(tree, record), record.namespace, labels.get(record.namespace))


def queue_named_by(tree: QuotaTree, record: Record) -> str | None:
    """The queue of a tree that a record names."""
    return named_queue(tree, record.labels, record.spec.queue if record.spec is not None else None)


def reserved_demands(state: GangState) -> dict[str, dict[str, int]]:
    """What a started gang keeps reserved, by podset; what others damaged counts nothing."""
    demands: dict[str, dict[str, int]] = {}
    for podset in state.reserved:
        try:
            amounts = {
                name: podset["count"] * scaled(name, parse_quantity(text)) for name, text in podset["requests"].items()
            }
        except BadInput:
            continue
        if all(0 <= amount < _MOST for amount in amounts.values()):
            demands[podset["name"]] = amounts
    return demands


def living_demand(pods: Iterable[GangPod]) -> dict[str, int]:
    """What pods ask for that did not end; those that are about to go still use it."""
    demand: dict[str, int] = {}
    for pod in pods:
        if not pod.finished:
            for name, amount in pod.requests.items():
                demand[name] = demand.get(name, 0) + amount
    return demand


def at_least(demands: Demands, living: Mapping[str, int]) -> Demands:
    """What a started gang is charged with: what is reserved for its podsets, and no less than what its pods ask for.

    What is more than reserved is not that of any podset.
    """
    more = {name: amount - sum(item.get(name, 0) for item in demands.values()) for name, amount in living.items()}
    over = {name: amount for name, amount in more.items() if amount > 0}
    return {**demands, "": over} if over else demands


def known_flavors(tree: QuotaTree, flavors: Mapping[str, str]) -> dict[str, str]:
    """The flavors of podsets that a tree still has; what is more than reserved counts for the first of them."""
    known = {podset: flavor for podset, flavor in flavors.items() if flavor in tree.flavor_names}
    return {"": next(iter(known.values())), **known} if known else known


def charged_leaf(usage: TreeUsage, record: Record, labels: NamespaceLabels) -> tuple[str | None, Mapping[str, str]]:
    """The leaf of a tree that a started gang is charged to, see leaf_charged."""
    return leaf_charged(usage.tree, record, labels)


def leaf_charged(tree: QuotaTree, record: Record, labels: NamespaceLabels) -> tuple[str | None, Mapping[str, str]]:
    """The leaf that a started gang is charged to, with its flavors: the one of its start, else the one it has now.

    A leaf that is gone is nobody's any more.
    """
    charged = record.state.charged if record.state is not None else ()
    known = next((item for item in charged if item.tree == tree.name), None)
    if known is not None and tree.children.get(known.queue) == ():
        return known.queue, known.flavors
    leaf = leaf_of_record(tree, record, labels).leaf
    return (leaf.name if leaf is not None else None), {}


def started_demands(record: Record, asked: Callable[[], Iterable[PodSet]], pods: Iterable[GangPod]) -> Demands:
    """What a started gang is charged with: what it keeps reserved, whatever its record asks for by now.

    Where its state tells nothing of that, it is what its podsets ask for. It is no less than what its pods ask for.
    """
    demands: Demands = reserved_demands(record.state) if record.state is not None else {}
    return at_least(demands or podset_demands(asked()), living_demand(pods))


def count_gangs(
    usage: TreeUsage, records: Iterable[Record], promised: Collection[str], labels: NamespaceLabels
) -> ChargedTree:
    """A tree that is charged, with how many gangs of each leaf are started and wait; the records are not over.

    promised are the uids of gangs that are about to start.
    """
    counts = {leaf.name: LeafCounts() for leaf in usage.tree.leaves}
    unplaced = []
    for record in records:
        started = record.phase in STARTED_PHASES or record.uid in promised
        leaf, _flavors = charged_leaf(usage, record, labels)
        if leaf is None:
            unplaced += [record.key] if started else []
        elif started:
            counts[leaf].started += 1
        else:
            counts[leaf].waiting += 1
    return ChargedTree(usage, counts, tuple(unplaced))
