# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Published amounts of quota trees in a cluster: one ConfigMap each beside the tree, which owns it."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance, Ownership
from ansible_collections.muster.kube.plugins.module_utils._model.quota.status import (
    STATUS_KEY,
    STATUS_LABEL,
    TreeStatus,
    status_from_text,
    status_name,
    status_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL, configmap_name
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]


def read_status(client: KubeClient, namespace: str, tree: str) -> tuple[TreeStatus | None, str | None]:
    """The published amounts of a tree, or why there are none; none without a reason where nobody published any."""
    try:
        raw = ObjectStore(client).read(namespace, status_name(tree))
    except Forbidden as error:
        return None, str(error)
    if raw is None or not _is_status(raw, tree):
        return None, None
    try:
        return status_from_text(tree, _text_of(raw)), None
    except BadInput as error:
        return None, str(error)


def write_status(client: KubeClient, namespace: str, status: TreeStatus, allowance: Allowance | None = None) -> bool:
    """Publish amounts unless the ConfigMap tells them already; True when something was written.

    What a newer version published, and a ConfigMap that is none of ours, is left alone. Errors are the caller's
    business: one that lost a race writes the next time.
    """
    store = ObjectStore(client, allowance=allowance, tries=2)
    name = status_name(status.tree)
    found = store.read(namespace, name)
    if found is None:
        return _create(store, namespace, status)
    if not _is_status(found, status.tree):
        return False
    try:
        known: TreeStatus | None = status_from_text(status.tree, _text_of(found))
    except NewerVersion:
        return False
    except BadInput:
        # Somebody damaged it; it is written anew.
        known = None
    if known is not None and known.same_amounts(status):
        return False
    text = status_text(_with_unknown(status, known))
    store.replace(found, {**found, "data": {**(found.get("data") or {}), STATUS_KEY: text}}, text, _text_of)
    return True


def delete_status(client: KubeClient, namespace: str, tree: str) -> bool:
    """Remove the published amounts of a tree; True when there were any."""
    store = ObjectStore(client)
    found = store.read(namespace, status_name(tree))
    if found is None or not _is_status(found, tree):
        return False
    store.delete(found)
    return True


def _create(store: ObjectStore, namespace: str, status: TreeStatus) -> bool:
    """The first status of a tree; the tree owns it, so that it goes with it, whoever deletes the tree."""
    tree = store.read(namespace, configmap_name(status.tree))
    if tree is None or (tree["metadata"].get("labels") or {}).get(TREE_LABEL) != status.tree:
        return False
    text = status_text(status)
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": tree["metadata"]["name"],
        "uid": tree["metadata"]["uid"],
        "controller": False,
        "blockOwnerDeletion": False,
    }
    metadata = {
        "name": status_name(status.tree),
        "namespace": namespace,
        "labels": {STATUS_LABEL: status.tree},
        "ownerReferences": [owner],
    }
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {STATUS_KEY: text}}
    store.create(body, lambda other: Ownership.OURS if _text_of(other) == text else Ownership.FOREIGN)
    return True


def _with_unknown(status: TreeStatus, known: TreeStatus | None) -> TreeStatus:
    """The status with what a later version of the same format stored beside."""
    if known is None:
        return status
    return dataclasses.replace(status, unknown=known.unknown)


def _is_status(raw: Object, tree: str) -> bool:
    """Whether a ConfigMap says that it holds the status of this tree."""
    return (raw["metadata"].get("labels") or {}).get(STATUS_LABEL) == tree


def _text_of(raw: Object) -> str | None:
    return (raw.get("data") or {}).get(STATUS_KEY)
