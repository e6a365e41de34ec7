# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compare-and-swap store under all that we keep in a cluster: ConfigMaps, or objects of another kind.

An object is read with its uid and resourceVersion and replaced only while it has both; a write whose answer was lost is
settled by reading the object back, so that every call either did what it says or raises.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    Created,
    Ownership,
    Propagation,
    settle_create,
    settle_delete,
    settle_replace,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

Object = dict[str, t.Any]
T = t.TypeVar("T")

# What the API server allows for all data of a ConfigMap together.
MAP_BYTES = 1024 * 1024
_LEFTOVER_TRIES = 6


class NameTaken(Conflict):
    """Another object has the name; found is that object."""

    def __init__(self, found: Object, cause: str) -> None:
        super().__init__("create", describe_object(found), status=409, reason="AlreadyExists", message=cause)
        self.found = found


@dataclasses.dataclass(frozen=True, slots=True)
class ObjectStore:
    """The objects of one kind, in any namespace."""

    client: KubeClient
    api: str = "v1"
    plural: str = "configmaps"
    # Called before each request of a write: how long it may take; raises when no write may be begun any more.
    allowance: Allowance | None = None
    # How many requests of one write may fail; None leaves that to the allowance.
    tries: int | None = 5

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """The address of an object, or of all objects of a namespace or of the cluster."""
        return resource_path(self.api, self.plural, namespace, name, subresource)

    def read(self, namespace: str, name: str) -> Object | None:
        """One object as it is now; one on its way out too."""
        return get_object(self.client, self.path(namespace, name))

    def list(self, namespace: str | None, selector: str | None, keep: t.Callable[[Object], T | None]) -> t.Sequence[T]:
        """What keep makes of the objects that a label selector matches; None leaves one out."""
        return list_objects(self.client, self.path(namespace), keep=keep, label_selector=selector).items

    def create(
        self,
        body: Object,
        is_ours: t.Callable[[Object], Ownership],
        *,
        taken: str = "another object has this name",
        strict: bool = False,
    ) -> Created:
        """Create an object, or adopt the one that is ours; what an older attempt left there is deleted first.

        NameTaken, with that cause, for any other object. With strict the server refuses fields it does not know.
        """
        _check_size(body)
        path = self.path(body["metadata"]["namespace"])
        for attempt in range(1, _LEFTOVER_TRIES + 1):
            made = settle_create(
                self.client, path, body, is_ours=is_ours, allowance=self.allowance, tries=self.tries, strict=strict
            )
            if isinstance(made, Created):
                return made
            if made.ownership is Ownership.FOREIGN:
                raise NameTaken(made.obj, taken)
            self.delete(made.obj)
            self.client.sleep(self.client.retry.pause(attempt))
        raise MusterError("create", describe_object(body), "what an older attempt left behind does not go away")

    def replace(
        self,
        found: Object,
        body: Object,
        write_id: str,
        write_id_of: t.Callable[[Object], str | None],
        *,
        subresource: str | None = None,
    ) -> Object:
        """Write an object over the one that was read; returns it as stored.

        write_id_of tells of an object which write made it, so that one whose answer was lost is recognized. Superseded
        when anybody changed it meanwhile, ObjectGone when it was deleted.
        """
        if body.get("data") is not found.get("data"):
            _check_size(body)
        # managedFields left out mean unchanged to the server.
        metadata = {key: value for key, value in body["metadata"].items() if key != "managedFields"}
        metadata |= {key: found["metadata"][key] for key in ("namespace", "name", "uid", "resourceVersion")}
        return settle_replace(
            self.client,
            self.path(metadata["namespace"], metadata["name"], subresource),
            {**body, "metadata": metadata},
            write_id,
            write_id_of,
            allowance=self.allowance,
            tries=self.tries,
        )

    def delete(self, found: Object, *, propagation: Propagation = "Background") -> None:
        """Delete this very object, whatever became of it since it was read; never another one of the same name."""
        metadata = found["metadata"]
        path = self.path(metadata["namespace"], metadata["name"])
        settle_delete(
            self.client, path, metadata["uid"], propagation=propagation, allowance=self.allowance, tries=self.tries
        )


def _check_size(body: Object) -> None:
    """Refuse a ConfigMap that the server would refuse, with the number."""
    if body["kind"] != "ConfigMap":
        return
    packed = (body.get("binaryData") or {}).values()
    size = sum(len(text.encode()) for text in (body.get("data") or {}).values())
    size += sum(len(text) // 4 * 3 - text.count("=", -2) for text in packed)
    if size > MAP_BYTES:
        raise BadInput("store", describe_object(body), f"it has {size} bytes of at most {MAP_BYTES}")
