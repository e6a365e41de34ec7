# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A namespace's own rules as data: all of its ResourceQuotas with scopes and every amount, and its LimitRanges."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import RULE_KINDS
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import CLASS_SUFFIX, base_resource
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import amount_text, parse_quantity
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import hard_limits

Data = dict[str, t.Any]
Raw = Mapping[str, t.Any]

_STORAGE = ("persistentvolumeclaims", "requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage")
_OBJECTS = (
    "configmaps",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)


def read_rules(client: KubeClient, namespace: str) -> tuple[NamespaceRules, tuple[str, ...]]:
    """The rules of one namespace, and notes on those that may not be read."""
    found: dict[str, tuple[Raw, ...]] = {}
    notes = []
    for kind in RULE_KINDS:
        try:
            found[kind] = tuple(list_objects(client, resource_path("v1", kind, namespace), keep=_whole).items)
        except Forbidden:
            notes.append(f"this account may not list {kind} in namespace {namespace}")
    return NamespaceRules(*(found.get(kind, ()) for kind in RULE_KINDS)), tuple(notes)


def rules_data(rules: NamespaceRules) -> Data:
    """The rules as results carry them, each kind by name."""
    quotas = sorted(rules.quotas, key=_name)
    ranges = sorted(rules.limit_ranges, key=_name)
    return {
        "resource_quotas": [_quota(raw) for raw in quotas],
        "limit_ranges": [
            {"name": _name(raw), "limits": list((raw.get("spec") or {}).get("limits") or ())} for raw in ranges
        ],
    }


def rules_lines(data: Data) -> list[str]:
    """The ResourceQuotas in words, a line for each amount."""
    lines = []
    for quota in data["resource_quotas"]:
        scopes = f" [{', '.join(quota['scopes'])}]" if quota["scopes"] else ""
        lines += [
            f"ResourceQuota {quota['name']}{scopes}: {item['used']} of {item['hard']} {item['resource']} used"
            for item in quota["resources"]
        ]
    return [*lines, *(f"LimitRange {item['name']}: {len(item['limits'])} rules" for item in data["limit_ranges"])]


def _quota(raw: Raw) -> Data:
    """One ResourceQuota; what it counts beside pods are objects and storage."""
    spec = raw.get("spec") or {}
    selected = (spec.get("scopeSelector") or {}).get("matchExpressions") or ()
    used = (raw.get("status") or {}).get("used") or {}
    return {
        "name": _name(raw),
        "scopes": [*(spec.get("scopes") or ()), *(str(item.get("scopeName")) for item in selected)],
        "scope_selector": [dict(item) for item in selected],
        "resources": [
            _amounts(resource, limit, used.get(resource, "0")) for resource, limit in sorted(hard_limits(raw).items())
        ],
    }


def _amounts(resource: str, hard: t.Any, used: t.Any) -> Data:
    """One resource of a quota: its limit, what is used, and what is left of it."""
    base = base_resource(resource)
    try:
        most, has = parse_quantity(hard), parse_quantity(used)
        texts = {"hard": amount_text(base, most), "used": amount_text(base, has)}
        left: str | None = amount_text(base, max(0, most - has))
    except BadInput:
        texts, left = {"hard": str(hard), "used": str(used)}, None
    return {"resource": resource, "counts": _counts(resource), **texts, "left": left}


def _counts(resource: str) -> str:
    """What an amount of a quota is about."""
    if resource in _STORAGE or CLASS_SUFFIX in resource:
        return "storage"
    if resource.startswith("count/") or resource in _OBJECTS:
        return "objects"
    return "limits" if resource.startswith("limits.") else "requests"


def _name(raw: Raw) -> str:
    return str(raw["metadata"]["name"])


def _whole(raw: Data) -> Data:
    """Keep an object as it is."""
    return raw
