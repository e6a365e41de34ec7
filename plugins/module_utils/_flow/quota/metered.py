# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the meters of a tree say: hours and costs by queue, user, namespace and month, and where budgets stand."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import LabelSelector, label_selector
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import (
    budget_standings,
    used_in,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.hours import (
    cost_text,
    hours_data,
    hours_text,
)
from ansible_collections.muster.kube.plugins.module_utils._store.usage_meters import Leaf, list_meters

Data = dict[str, t.Any]

# Whether the API server vouches for the names of users in records, by policies of the role quota_tree, or nobody does.
_ENFORCED, _CLAIMED = "enforced", "claimed"
_BINDINGS = resource_path("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings")
_OF_RECORDS, _LABEL = "muster-quota-records-{}", "app.kubernetes.io/component=quota-tree"


@dataclasses.dataclass(frozen=True, slots=True)
class MeterReading:
    """The meters beside a Lease, None where they may not be read, and the server's time.

    enforced holds pairs of an admission policy and the namespaces in which it denies what is against it.
    """

    meters: Mapping[Leaf, Meter] | None
    now: float
    notes: tuple[str, ...] = ()
    enforced: tuple[tuple[str, LabelSelector | None], ...] = ()


def read_meters(client: KubeClient, namespace: str) -> MeterReading:
    """Read all meters; what cannot be read is told in the notes."""
    try:
        found = list_meters(client, namespace)
    except Forbidden:
        note = f"this account may not list ConfigMaps in {namespace}, so that nobody can tell what was used"
        return MeterReading(None, ServerClock(client).now(), (note,))
    notes = tuple(f"the usage of a queue cannot be read: {item.problem}" for item in found if item.problem is not None)
    meters = [item.meter for item in found if item.meter is not None]
    now, enforced = ServerClock(client).now(), tuple(_read_enforced(client)) if meters else ()
    return MeterReading({(item.tree, item.queue): item for item in meters}, now, notes, enforced)


def _read_enforced(client: KubeClient) -> t.Iterator[tuple[str, LabelSelector | None]]:
    """The policies of quota trees that deny, with their namespaces; none where the server has none, or tells nobody."""
    try:
        found = list_objects(client, _BINDINGS, keep=lambda raw: raw.get("spec") or {}, label_selector=_LABEL).items
    except (Forbidden, NotFound):
        return
    for spec in found:
        if "Deny" in (spec.get("validationActions") or ()):
            selector = (spec.get("matchResources") or {}).get("namespaceSelector")
            yield str(spec.get("policyName")), label_selector(selector)


def users_word(tree: QuotaTree, reading: MeterReading, namespaces: Mapping[str, Mapping[str, str]]) -> str:
    """How far names of users can be trusted: as far as records of all namespaces that used the tree are looked at.

    namespaces are the labels of those that may be seen.
    """
    policy, meters = _OF_RECORDS.format(tree.name), reading.meters or {}
    selectors = [selector for name, selector in reading.enforced if name == policy]
    used = {row.owner.namespace for leaf, meter in meters.items() if leaf[0] == tree.name for row in meter.sums}
    held = [
        name in namespaces and any(item is not None and item.matches(namespaces[name]) for item in selectors)
        for name in used
        if name
    ]
    return _ENFORCED if selectors and all(held) else _CLAIMED


def metered_data(tree: QuotaTree, reading: MeterReading, namespaces: Mapping[str, Mapping[str, str]]) -> Data | None:
    """What was used of a tree, row by row; None where it may not be seen. namespaces are the labels of namespaces."""
    if reading.meters is None:
        return None
    mine = [meter for leaf, meter in sorted(reading.meters.items()) if leaf[0] == tree.name]
    latest = max((meter.as_of for meter in mine), default=0)
    return {
        "as_of": time_text(latest) if latest else None,
        "users": users_word(tree, reading, namespaces),
        "rows": [row for meter in mine for row in _rows(tree, meter)],
    }


def _rows(tree: QuotaTree, meter: Meter) -> t.Iterator[Data]:
    """One meter by month, user and namespace; a queue that the tree has no more has no path."""
    path = tree.path(meter.queue) if meter.queue in tree.by_name else None
    for row, amounts in sorted(meter.sums.items()):
        yield {
            "queue": meter.queue,
            "path": path,
            "month": row.month,
            "user": row.owner.user,
            "namespace": row.owner.namespace,
            "hours": hours_data(amounts),
            "cost": cost_text(tree.settings.prices, amounts),
        }


def with_meters(tree: QuotaTree, queues: list[Data], reading: MeterReading) -> list[Data]:
    """The queues of a tree with what each and all below it used by month, and where its budget stands."""
    meters = reading.meters
    if meters is None:
        return [{**queue, "months": None, "budget": None} for queue in queues]
    months = sorted({month for leaf, meter in meters.items() if leaf[0] == tree.name for month in meter.by_month})
    budgets: dict[str, list[Data]] = {}
    for item in budget_standings(tree, meters, reading.now):
        budgets.setdefault(item.queue, []).append(
            {
                "resource": item.resource,
                "used": hours_text(item.resource, item.used),
                "limit": hours_text(item.resource, item.limit),
                "spent": item.spent,
                "reset": time_text(item.reset),
            }
        )

    def by_month(name: str) -> list[Data]:
        """The months in which anything was used."""
        used = {month: used_in(tree, name, meters, (month,)) for month in months}
        return [
            {"month": month, "hours": hours_data(amounts), "cost": cost_text(tree.settings.prices, amounts)}
            for month, amounts in used.items()
            if amounts
        ]

    return [{**queue, "months": by_month(queue["name"]), "budget": budgets.get(queue["name"], [])} for queue in queues]
