# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nodes have for gangs, and the amounts that shares of it come to: exact, and rounded down to whole units."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Node, Pod
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.node_share import (
    FROM_NODES,
    NodeShare,
    SharedDeclaration,
    SharedQueue,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, QuotaFlavor
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text


@dataclasses.dataclass(frozen=True, slots=True)
class NodeSupply:
    """The nodes of a cluster, and what pods ask for of each that are on it whatever gangs do."""

    nodes: Sequence[Node]
    daemons: Mapping[str, Mapping[str, int]]


@dataclasses.dataclass(frozen=True, slots=True)
class NodeTotal:
    """What some nodes have for gangs, and how many nodes those are."""

    count: int
    amounts: Mapping[str, int]


def node_supply(nodes: Sequence[Node], pods: Iterable[Pod]) -> NodeSupply:
    """Nodes with what DaemonSets and static pods ask for of them; a pod that goes leaves its place to the next one."""
    daemons: dict[str, dict[str, int]] = {}
    for pod in pods:
        if pod.stays and pod.node is not None and not pod.terminating:
            asked = daemons.setdefault(pod.node, {})
            for name, amount in pod.requests.items():
                asked[name] = asked.get(name, 0) + amount
    return NodeSupply(nodes, daemons)


def total_of(supply: NodeSupply, wanted: NodeShare, flavors: Sequence[QuotaFlavor]) -> dict[str, NodeTotal]:
    """What the selected nodes have, by flavor; a node is of the first flavor whose labels it has, and counts once."""
    homes: dict[str, list[Node]] = {flavor.name: [] for flavor in flavors or (QuotaFlavor(NO_FLAVOR),)}
    for node in supply.nodes:
        home = _flavor_of(node, flavors)
        if home is not None and _has_labels(node, wanted.node_selector):
            homes[home].append(node)
    return {name: _sum(supply, wanted, nodes) for name, nodes in homes.items()}


def share_of(total: int, wanted: NodeShare) -> int:
    """A part of an amount, rounded down: parts that make one together never come to more than all."""
    return total * wanted.share.numerator // wanted.share.denominator


def fill_node_shares(tree: str, taken: SharedDeclaration, flavors: Sequence[QuotaFlavor], supply: NodeSupply) -> Data:
    """The declaration with amounts in place of shares, each queue with a note of what they were worked out from."""
    queues = list(taken.declaration["queues"])
    problems: list[Problem] = []
    for queue in taken.shared:
        totals = total_of(supply, queue.wanted, flavors)
        missing = list(_missing(queue, totals))
        problems += missing
        if not missing:
            queues[queue.index] = _filled(queues[queue.index], queue, totals)
    if problems:
        raise BadTree(tree, problems)
    return {**taken.declaration, "queues": queues}


def _flavor_of(node: Node, flavors: Sequence[QuotaFlavor]) -> str | None:
    """The first flavor that a node is of; None when it is of none."""
    if not flavors:
        return NO_FLAVOR
    return next((flavor.name for flavor in flavors if _has_labels(node, flavor.node_labels)), None)


def _has_labels(node: Node, labels: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in labels.items())


def _sum(supply: NodeSupply, wanted: NodeShare, nodes: Sequence[Node]) -> NodeTotal:
    """What nodes have of the resources in question; a node with more daemons than room has nothing."""
    amounts = {name: 0 for name in wanted.resources if any(name in node.allocatable for node in nodes)}
    for node in nodes:
        asked = supply.daemons.get(node.name, {}) if wanted.less_daemons else {}
        for name in amounts:
            amounts[name] += max(0, node.allocatable.get(name, 0) - asked.get(name, 0))
    return NodeTotal(len(nodes), amounts)


def _missing(queue: SharedQueue, totals: Mapping[str, NodeTotal]) -> Iterable[Problem]:
    """What there is nothing to share of: a share of it would be nothing without anybody having said so."""
    chosen = ", ".join(f"{key}={value}" for key, value in sorted(queue.wanted.node_selector.items()))
    if not any(total.count for total in totals.values()):
        yield Problem(queue.path, FROM_NODES, f"no node has the labels {chosen}" if chosen else "there are no nodes")
        return
    for name in queue.wanted.resources:
        if not any(name in total.amounts for total in totals.values()):
            cause = f"none of the nodes{f' with {chosen}' if chosen else ''} has {name}"
            yield Problem(queue.path, f"{FROM_NODES}.resources", cause)


def _filled(item: Data, queue: SharedQueue, totals: Mapping[str, NodeTotal]) -> Data:
    """One queue with its amounts."""
    amounts: Data = dict(item.get(queue.field) or {})
    for flavor, total in totals.items():
        made = {name: quantity_text(name, share_of(amount, queue.wanted)) for name, amount in total.amounts.items()}
        if flavor == NO_FLAVOR:
            amounts |= made
        elif made:
            own = amounts.get(flavor)
            amounts[flavor] = {**(own if isinstance(own, Mapping) else {}), **made}
    note = "; ".join(filter(None, (item.get("note"), _note(queue.wanted, totals))))
    return {**item, queue.field: amounts, "note": note}


def _note(wanted: NodeShare, totals: Mapping[str, NodeTotal]) -> str:
    """What amounts were worked out from, for people."""
    parts = []
    for flavor, total in totals.items():
        had = ", ".join(f"{quantity_text(name, amount)} {name}" for name, amount in total.amounts.items())
        nodes = f"{total.count} node{'' if total.count == 1 else 's'}"
        of = f"{nodes} of {flavor}" if flavor != NO_FLAVOR else nodes
        parts.append(f"{had or 'nothing'} on {of}")
    chosen = "".join(f" with {key}={value}" for key, value in sorted(wanted.node_selector.items()))
    less = " less DaemonSets and static pods" if wanted.less_daemons else ""
    return f"{FROM_NODES}: {wanted.share} of {' and '.join(parts)}{chosen}{less}"
