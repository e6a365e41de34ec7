# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota_info tells of a tree beside its amounts: pods outside of gangs, pairs, and drift, as data and lines."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import UseReading
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, FlavorResource, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import demand_of
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    ChargedTree,
    Demands,
    leaf_of_record,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.findings import borrower_pairs, find_drift
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf

Data = dict[str, t.Any]


def unqueued_data(tree: QuotaTree, use: UseReading) -> list[Data] | None:
    """What pods outside of gangs ask for of what a tree counts, by namespace; None where nobody can tell."""
    if use.outside is None:
        return None
    sums: dict[str, dict[str, int]] = {}
    counts: dict[str, int] = {}
    for pod in use.outside:
        asked = {name: amount for name, amount in pod.requests.items() if amount and name in tree.resources}
        if asked:
            counts[pod.namespace] = counts.get(pod.namespace, 0) + 1
            held = sums.setdefault(pod.namespace, {})
            for name, amount in asked.items():
                held[name] = held.get(name, 0) + amount
    return [
        {
            "namespace": namespace,
            "queue": _queue_of(tree, namespace, use),
            "pods": counts[namespace],
            "resources": {name: quantity_text(name, amount) for name, amount in sorted(held.items())},
        }
        for namespace, held in sorted(sums.items())
    ]


def pairs_data(charged: ChargedTree, use: UseReading) -> list[Data] | None:
    """Queues that borrow beside queues whose waiting gangs lack exactly that; None where nobody can tell."""
    if use.holders is None:
        return None
    tree = charged.usage.tree
    return [
        {
            "flavor": _flavor(pair.key),
            "resource": pair.key.resource,
            "borrower": tree.path(pair.borrower),
            "borrowed": quantity_text(pair.key.resource, pair.borrowed),
            "starved": tree.path(pair.starved),
            "short": quantity_text(pair.key.resource, pair.short),
            "waiting": pair.waiting,
        }
        for pair in borrower_pairs(charged.usage, _waiting(tree, use))
    ]


def drift_data(tree: QuotaTree, use: UseReading) -> list[Data] | None:
    """Started gangs that are not what their states say; None where nobody can tell."""
    holders = use.holders
    if holders is None or use.outside is None:
        return None
    started = [record for record in holders.records.values() if record.phase in STARTED_PHASES]
    return [
        {
            "gang": item.gang,
            "queue": item.queue or None,
            "what": "queue_gone" if item.resource is None else "amount",
            "resource": item.resource,
            "charged": None if item.resource is None else quantity_text(item.resource, item.charged),
            "used": None if item.resource is None else quantity_text(item.resource, item.used),
        }
        for item in find_drift(tree, ((record, holders.living(record)) for record in started))
    ]


def report_lines(unqueued: list[Data] | None, pairs: list[Data] | None, drift: list[Data] | None) -> list[str]:
    """The same in words, a line for each finding."""
    lines = [
        f"{item['starved']} lacks {item['short']} {item['resource']} for {item['waiting']} waiting gangs, "
        f"and {item['borrower']} has borrowed {item['borrowed']}"
        for item in pairs or ()
    ]
    for item in unqueued or ():
        amounts = ", ".join(f"{amount} {name}" for name, amount in item["resources"].items())
        lines.append(
            f"outside of gangs: {item['pods']} pods of namespace {item['namespace']} "
            f"({item['queue'] or 'no queue'}) ask for {amounts}"
        )
    for item in drift or ():
        if item["what"] == "queue_gone":
            lines.append(f"drift: {item['gang']} is charged to queue {item['queue']}, which is gone")
        else:
            lines.append(
                f"drift: {item['gang']} is charged with {item['charged']} {item['resource']}, "
                f"and its pods ask for {item['used']}"
            )
    return lines


def _waiting(tree: QuotaTree, use: UseReading) -> Iterable[tuple[str, Demands]]:
    """Leaf and demand of each gang that may start as far as its queue is concerned, and waits."""
    holders = use.holders
    for record in holders.records.values() if holders is not None else ():
        gang = holders.gangs.get(record.uid) if holders is not None else None
        if record.phase != "queued" or record.terminating or gang is None:
            continue
        choice = leaf_of_record(tree, record, use.namespace_labels)
        if choice.leaf is not None and choice.reason is None:
            yield choice.leaf.name, podset_demands(demand_of(record, gang).podsets)


def _queue_of(tree: QuotaTree, namespace: str, use: UseReading) -> str | None:
    leaf = find_leaf(tree, None, namespace, use.namespace_labels.get(namespace)).leaf
    return None if leaf is None else tree.path(leaf.name)


def _flavor(key: FlavorResource) -> str | None:
    return None if key.flavor == NO_FLAVOR else key.flavor
