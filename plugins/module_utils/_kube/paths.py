# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of the API: built from group, kind and name, and turned back into words for messages."""

from __future__ import annotations

import functools
import typing as t
from urllib.parse import quote

_VERBS = {"POST": "create", "PUT": "replace", "PATCH": "patch", "DELETE": "delete"}


def resource_path(
    api_version: str,
    plural: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """The path of a collection, or of one object (and its subresource) when a name is given."""
    parts = [group_path(api_version)]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(plural)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


@functools.lru_cache
def group_path(api_version: str) -> str:
    """The path under which a group version is served; the core group has its own place."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def describe_request(method: str, path: str, query: t.Mapping[str, t.Any] | None = None) -> tuple[str, str]:
    """What a request does and to what, as text for an error: ("list", "pods in namespace a")."""
    namespace, rest = _split(path)
    if not rest:
        return _VERBS.get(method, "read"), path
    plural = rest[0]
    if len(rest) == 1:
        verb = "watch" if query and query.get("watch") else _VERBS.get(method, "list")
        return verb, f"{plural} in namespace {namespace}" if namespace else plural
    name = f"{namespace}/{rest[1]}" if namespace else rest[1]
    kind = "/".join([plural, *rest[2:]])
    return _VERBS.get(method, "read"), f"{kind} {name}"


class Place(t.NamedTuple):
    """Where objects of a kind lie: the group's path, the plural, and the namespace (None for all, or for none)."""

    group: str
    plural: str
    namespace: str | None

    def holds(self, other: Place) -> bool:
        """Whether everything that lies in another place lies in this one too."""
        return self[:2] == other[:2] and self.namespace in (None, other.namespace)


def place_of(path: str) -> Place | None:
    """The place of the collection, object or subresource at a path; None for paths of nothing of the kind."""
    namespace, rest = _split(path)
    if not rest:
        return None
    parts = path.strip("/").split("/")
    return Place("/".join(parts[: 2 if parts[0] == "api" else 3]), rest[0], namespace)


def _split(path: str) -> tuple[str | None, list[str]]:
    """Namespace and the parts from the plural on; empty for paths that are not of a resource."""
    parts = path.strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return None, []
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    # /namespaces/x is the object itself, /namespaces/x/pods lies in it; its own subresources are the exception.
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize"):
        return rest[1], rest[2:]
    return None, rest
