# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a quota tree: JSON in a ConfigMap, from which the same tree is read again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
from collections.abc import Mapping
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import TREE_FORMAT, read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    QuotaAmounts,
    QuotaFlavor,
    QuotaQueue,
    QuotaSettings,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json, parse_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO, quantity_text

TREE_PREFIX = "muster-quota-"
TREE_LABEL = "muster.kube/quota-tree"
TREE_KEY = "tree.json"
# A ConfigMap holds 1 MiB; the rest is for its metadata.
TREE_BYTES = 900 * 1024


def configmap_name(tree: str) -> str:
    """The ConfigMap that holds a tree."""
    return f"{TREE_PREFIX}{tree}"


def tree_data(tree: QuotaTree) -> Data:
    """Plain values from which read_tree makes the same tree again; what has its default is left out."""
    usual: Data = {"backends": ["embedded"], "label": None, "priorities": {}}
    given = {"backends": list(tree.backends), "label": tree.label, "priorities": dict(sorted(tree.priorities.items()))}
    return {
        **tree.unknown,
        **{key: value for key, value in given.items() if value != usual[key]},
        "over_capacity": tree.over_capacity,
        "queues": [_queue_data(queue) for queue in tree.queues],
        "flavors": [_flavor_data(flavor) for flavor in tree.flavors],
        "settings": _settings_data(tree.settings),
    }


def tree_text(tree: QuotaTree) -> str:
    """The text that is stored; what a ConfigMap cannot hold is refused."""
    data = {"format": TREE_FORMAT, "tree": tree.name, **tree_data(tree)}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False, ensure_ascii=False)
    size = len(text.encode())
    if size > TREE_BYTES:
        cause = f"its text has {size} bytes of at most {TREE_BYTES}; split it into several trees"
        raise BadTree(tree.name, [Problem("tree", "", cause)])
    return text


def tree_from_text(name: str, text: t.Any) -> QuotaTree:
    """The tree that a stored text holds; it must be the one it was stored as, whoever wrote it."""
    data = parse_json(text, f"quota tree {name}")
    if isinstance(data, Mapping):
        told = data.get("tree")
        if told is not None and told != name:
            raise BadTree(name, [Problem("tree", "", f"the text is that of tree {told!r}")])
        data = {key: value for key, value in data.items() if key != "tree"}
    return read_tree(name, data, stored=True)


def tree_digest(tree: QuotaTree) -> str:
    """A fingerprint of a tree: decisions name the one they were made on."""
    return hashlib.sha256(canonical_json({"tree": tree.name, **tree_data(tree)}).encode()).hexdigest()


def with_unknown(tree: QuotaTree, stored: QuotaTree) -> QuotaTree:
    """A declared tree with what a later version of the collection has stored in it, part by part."""
    flavors = {flavor.name: flavor.unknown for flavor in stored.flavors}
    return dataclasses.replace(
        tree,
        queues=tuple(
            dataclasses.replace(queue, unknown=stored.by_name[queue.name].unknown)
            if queue.name in stored.by_name
            else queue
            for queue in tree.queues
        ),
        flavors=tuple(dataclasses.replace(item, unknown=flavors.get(item.name, {})) for item in tree.flavors),
        settings=dataclasses.replace(tree.settings, unknown=stored.settings.unknown),
        unknown=stored.unknown,
    )


def amounts_data(amounts: QuotaAmounts) -> Data:
    """Amounts as quantities: by resource without flavors, else by flavor and resource."""
    data: Data = {}
    for key, amount in sorted(amounts.items()):
        home = data if key.flavor == NO_FLAVOR else data.setdefault(key.flavor, {})
        home[key.resource] = quantity_text(key.resource, amount)
    return data


def _queue_data(queue: QuotaQueue) -> Data:
    """One queue without what has its default."""
    nested = queue.unknown
    data: Data = {
        "parent": queue.parent,
        **{
            field: amounts_data(getattr(queue, field))
            for field in ("nominal", "extra", "capacity", "borrowing_limit", "lending_limit")
        },
        "hard": queue.hard,
        "weight": None if queue.weight == 1 else _decimal_text(queue.weight),
        "namespaces": list(queue.namespaces),
        "default": queue.default,
        "reclaim": None if queue.reclaim == "any" else queue.reclaim,
        "user_limits": {**nested.get("user_limits", {}), **_user_limits_data(queue)},
        "budget": _budget_data(queue),
        "stop": None if queue.stop == "none" else queue.stop,
        "note": queue.note or None,
    }
    kept = {key: value for key, value in nested.items() if key not in data}
    given = {key: value for key, value in data.items() if value not in (None, False, {}, [])}
    # Zero and an empty selector say something, unlike other empty values.
    cap = {} if queue.priority_cap is None else {"priority_cap": queue.priority_cap}
    selector = {} if queue.selector is None else {"selector": queue.selector}
    return {**kept, "name": queue.name, **given, **cap, **selector}


def _user_limits_data(queue: QuotaQueue) -> Data:
    """The limits of one user that are set."""
    limits = queue.user_limits
    counts = {"running": limits.running, "pending": limits.pending}
    resources = _resources_data(limits.resources)
    return {
        **{key: count for key, count in counts.items() if count is not None},
        **({"resources": resources} if resources else {}),
    }


def _budget_data(queue: QuotaQueue) -> Data | None:
    """The budget of a queue, None without one."""
    if queue.budget is None:
        return None
    hours = _resources_data(queue.budget.hours)
    return {**queue.unknown.get("budget", {}), "hours": hours, "period": queue.budget.period}


def _resources_data(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: quantity_text(name, amount) for name, amount in sorted(amounts.items())}


def _flavor_data(flavor: QuotaFlavor) -> Data:
    """One flavor without what is empty."""
    data = {"node_labels": dict(flavor.node_labels), "tolerations": [dict(item) for item in flavor.tolerations]}
    return {**flavor.unknown, "name": flavor.name, **{key: value for key, value in data.items() if value}}


def _settings_data(settings: QuotaSettings) -> Data:
    """The settings that differ from the usual ones."""
    usual = QuotaSettings()
    names = [field.name for field in dataclasses.fields(settings) if field.name not in ("prices", "unknown")]
    data = {name: getattr(settings, name) for name in names if getattr(settings, name) != getattr(usual, name)}
    prices: Data = {}
    for key, price in sorted(settings.prices.items()):
        home = prices if key.flavor == NO_FLAVOR else prices.setdefault(key.flavor, {})
        home[key.resource] = _decimal_text(price)
    return {**settings.unknown, **data, **({"prices": prices} if prices else {})}


def _decimal_text(number: Fraction) -> str:
    """A number with its decimal digits, of which there are at most nine; parse_quantity gives it back exactly."""
    whole, nanos = divmod(int(number * NANO), NANO)
    return f"{whole}.{nanos:09d}".rstrip("0").rstrip(".")
