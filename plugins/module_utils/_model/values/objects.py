# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubernetes objects of any kind as plain mappings: group and kind, conditions, and how messages name them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

# An object as the API server sends and takes it.
Object = dict[str, t.Any]


class ObjectKey(t.NamedTuple):
    """Which object: the apiVersion it is written for, its kind, namespace and name."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def versioned_kind(self) -> tuple[str, str]:
        """What discovery and lists ask for."""
        return self.api_version, self.kind

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What is the same in all versions of its API: group, kind, namespace and name."""
        return api_group(self.api_version), self.kind, self.namespace, self.name


def describe_object(obj: t.Mapping[str, t.Any]) -> str:
    """Kind and name of an object for messages: "Pod ns/name"."""
    metadata = obj.get("metadata") or {}
    name = metadata.get("name") or f"{metadata.get('generateName', '')}*"
    namespace = metadata.get("namespace")
    return f"{obj.get('kind', 'object')} {namespace}/{name}" if namespace else f"{obj.get('kind', 'object')} {name}"


def api_group(api_version: str) -> str:
    """The group of an apiVersion; empty for the core one."""
    return api_version.rpartition("/")[0]


def group_and_kind(obj: Mapping[str, t.Any]) -> tuple[str, str]:
    """API group and kind of an object, whatever version of the API it is written for."""
    return api_group(str(obj.get("apiVersion") or "")), str(obj.get("kind") or "")


def versionless_key(obj: Mapping[str, t.Any]) -> tuple[str, str, str, str]:
    """What tells an object from all others, whatever version of the API it is written for."""
    return (*group_and_kind(obj), obj["metadata"].get("namespace") or "", obj["metadata"]["name"])


def resource_of(kind: str) -> str:
    """The name of a kind in paths and quotas, as Kubernetes itself guesses it; all kinds of its own are called so."""
    name = kind.lower()
    if name == "endpoints":
        return name
    if name.endswith("s"):
        return f"{name}es"
    return f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"


def value_at(obj: t.Any, path: tuple[str | int, ...]) -> t.Any:
    """The value that keys lead to; None when any part of the way is missing or no mapping."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, Mapping) else None
    return obj


def conditions(obj: Mapping[str, t.Any]) -> Iterator[Mapping[str, t.Any]]:
    """The conditions of an object; kinds that keep something else under that name have none."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    if isinstance(found, list):
        yield from (item for item in found if isinstance(item, Mapping))


def condition_met(obj: Mapping[str, t.Any], type_: str, status: str = "True") -> bool:
    """Whether the object has a condition of this type, in any case of letters, with this status."""
    wanted = type_.lower()
    return any(str(item.get("type")).lower() == wanted and item.get("status") == status for item in conditions(obj))


def condition_contains(obj: Mapping[str, t.Any], word: str) -> bool:
    """Whether the type of any true condition contains a word, in any case of letters."""
    wanted = word.lower()
    return any(wanted in str(item.get("type")).lower() and item.get("status") == "True" for item in conditions(obj))
