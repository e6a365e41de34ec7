# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What somebody may do who was given some roles, as the API server's own authorizer tells it."""

from __future__ import annotations

import collections.abc
import typing as t

Object = dict[str, t.Any]


def holder_of(roles: collections.abc.Sequence[Object]) -> t.Callable[[str, Object], bool]:
    """Somebody with these roles: a ClusterRole in the whole cluster, a Role in its namespace."""

    def allowed(_user: str, asked: Object) -> bool:
        """The answer to one review."""
        place = (asked.get("resourceAttributes") or {}).get("namespace", "")
        return any(
            _rule_allows(rule, asked)
            for role in roles
            if role["kind"] == "ClusterRole" or role["metadata"]["namespace"] == place
            for rule in role["rules"]
        )

    return allowed


def _rule_allows(rule: Object, asked: Object) -> bool:
    """Whether one rule allows what is asked."""
    address = asked.get("nonResourceAttributes")
    if address is not None:
        patterns = rule.get("nonResourceURLs") or ()
        return _has(rule["verbs"], address["verb"]) and any(_matches(item, address["path"]) for item in patterns)
    wanted = asked["resourceAttributes"]
    names = rule.get("resourceNames") or ()
    subresource = wanted.get("subresource", "")
    full = f"{wanted['resource']}/{subresource}" if subresource else wanted["resource"]
    resources = rule.get("resources") or ()
    return (
        _has(rule["verbs"], wanted["verb"])
        and _has(rule.get("apiGroups") or (), wanted.get("group", ""))
        and ("*" in resources or full in resources or bool(subresource and f"*/{subresource}" in resources))
        and (not names or wanted.get("name", "") in names)
    )


def _has(listed: collections.abc.Collection[str], wanted: str) -> bool:
    return "*" in listed or wanted in listed


def _matches(pattern: str, address: str) -> bool:
    return pattern in ("*", address) or (pattern.endswith("*") and address.startswith(pattern[:-1]))
