# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota trees in a cluster: one ConfigMap each beside the dispatcher's Lease, written by compare-and-swap."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Ownership
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import (
    TREE_KEY,
    TREE_LABEL,
    TREE_PREFIX,
    configmap_name,
    tree_from_text,
    tree_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]

_WRITE_KEY = "write"


@dataclasses.dataclass(frozen=True, slots=True)
class StoredTree:
    """A tree as it was read: unreadable says why there is none, newer that a later version wrote it."""

    raw: Object
    name: str
    tree: QuotaTree | None
    unreadable: str | None = None
    newer: bool = False

    @property
    def foreign(self) -> bool:
        """Whether the ConfigMap has the name of a tree and does not say that it holds one, or says so under another."""
        told = (self.raw["metadata"].get("labels") or {}).get(TREE_LABEL)
        return told != self.name or self.raw["metadata"]["name"] != configmap_name(self.name)


def decode_tree(raw: Object) -> StoredTree:
    """The tree in a ConfigMap; one that others broke is a tree that nothing starts in, not an error."""
    name = str(raw["metadata"]["name"]).removeprefix(TREE_PREFIX)
    try:
        return StoredTree(raw, name, tree_from_text(name, (raw.get("data") or {}).get(TREE_KEY)))
    except NewerVersion as error:
        return StoredTree(raw, name, None, str(error), newer=True)
    except BadInput as error:
        return StoredTree(raw, name, None, str(error))


def read_stored_tree(client: KubeClient, namespace: str, name: str) -> StoredTree | None:
    """The tree of that name; None when there is none."""
    raw = ObjectStore(client).read(namespace, configmap_name(name))
    return None if raw is None else decode_tree(raw)


def list_stored_trees(client: KubeClient, namespace: str) -> list[StoredTree]:
    """All trees beside a Lease, by name; a ConfigMap that only pretends to be another one's is left out."""
    found = ObjectStore(client).list(namespace, TREE_LABEL, decode_tree)
    return sorted((item for item in found if not item.foreign), key=lambda item: item.name)


def create_tree(client: KubeClient, namespace: str, tree: QuotaTree) -> StoredTree:
    """Store a tree that is not there yet; NameTaken when somebody else was first."""
    write = uuid.uuid4().hex
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": configmap_name(tree.name), "namespace": namespace, "labels": {TREE_LABEL: tree.name}},
        "data": {TREE_KEY: tree_text(tree), _WRITE_KEY: write},
    }

    def is_ours(found: Object) -> Ownership:
        return Ownership.OURS if _write_of(found) == write else Ownership.FOREIGN

    try:
        made = ObjectStore(client).create(body, is_ours, taken="somebody else has just stored a tree of this name")
    except NotFound as error:
        cause = f"the namespace {namespace} does not exist; create it, or choose another one for the lease"
        raise KubeError("create", f"quota tree {tree.name}", cause) from error
    return decode_tree(made.obj)


def replace_tree(client: KubeClient, stored: StoredTree, tree: QuotaTree) -> StoredTree:
    """Write a tree over the one that was read; Superseded when anybody changed it meanwhile."""
    write = uuid.uuid4().hex
    metadata = {**stored.raw["metadata"]}
    metadata["labels"] = {**(metadata.get("labels") or {}), TREE_LABEL: tree.name}
    data = {**(stored.raw.get("data") or {}), TREE_KEY: tree_text(tree), _WRITE_KEY: write}
    body = {**stored.raw, "metadata": metadata, "data": data}
    return decode_tree(ObjectStore(client).replace(stored.raw, body, write, _write_of))


def delete_tree(client: KubeClient, stored: StoredTree) -> None:
    """Delete this very tree."""
    ObjectStore(client).delete(stored.raw)


def _write_of(raw: Object) -> str | None:
    return (raw.get("data") or {}).get(_WRITE_KEY)
