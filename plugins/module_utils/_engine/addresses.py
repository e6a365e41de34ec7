# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the objects of a plan lie on this server, and which of them the next ones have to wait for."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal, unserved
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import REFUSED
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import PlannedObject
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey, describe_object

Object = dict[str, t.Any]

# On an item: "Type=Status" of the condition it must have before the next item is created.
READY_ANNOTATION = "muster.kube/ready-before-next"


@dataclasses.dataclass(frozen=True, slots=True)
class AddressedObject:
    """One planned object with its addresses; ready is the condition (type, status) to wait for after it."""

    object: Object
    key: ObjectKey
    keep: bool
    collection: str
    path: str
    ready: tuple[str, str] | None = None


def address_objects(client: KubeClient, plan: Iterable[PlannedObject]) -> tuple[AddressedObject, ...] | Refusal:
    """Find the address of every object; what cannot have one in a namespace of this server is refused."""
    placed: list[AddressedObject] = []
    for item in plan:
        obj = item.object
        info = find_resource(client, obj["apiVersion"], obj["kind"])
        if info is None:
            return unserved(obj)
        if not info.namespaced:
            message = f"{describe_object(obj)}: the kind is cluster-scoped and a gang lives in one namespace"
            return Refusal("failed", REFUSED, message)
        annotation = (obj["metadata"].get("annotations") or {}).get(READY_ANNOTATION)
        ready = None if annotation is None else _condition(annotation)
        if annotation is not None and ready is None:
            message = f"{describe_object(obj)}: {READY_ANNOTATION} must say Type=Status as in Ready=True"
            return Refusal("failed", REFUSED, f"{message}, not {annotation!r}")
        namespace, name = item.key[2], item.key[3]
        placed.append(
            AddressedObject(obj, item.key, item.keep, info.path(namespace), info.path(namespace, name), ready)
        )
    return tuple(placed)


def _condition(text: str) -> tuple[str, str] | None:
    """Type and status of a condition, None when the text names none."""
    kind, equals, status = text.strip().partition("=")
    return (kind, status) if kind and equals and status else None
