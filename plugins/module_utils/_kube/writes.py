# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Changing objects: one request each, counted by the client, never sent twice behind the caller's back."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, describe_object

PatchType = t.Literal["merge", "strategic", "json", "apply"]

FIELD_MANAGER = "muster.kube"

MERGE_PATCH = "application/merge-patch+json"

_PATCH_CONTENT: dict[str, str] = {
    "merge": MERGE_PATCH,
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


def create(
    client: KubeClient, path: str, obj: Object, *, dry_run: bool = False, field_manager: str = FIELD_MANAGER
) -> Object:
    """Create an object in the collection at path; returns it as the server stored it."""
    query = _query(dry_run, field_manager)
    return _answer(client.request("POST", path, query=query, body=obj, target=describe_object(obj)).json())


def replace(
    client: KubeClient, path: str, obj: Object, *, dry_run: bool = False, field_manager: str = FIELD_MANAGER
) -> Object:
    """Replace the object at path; a resourceVersion in it makes the server refuse if it changed meanwhile."""
    query = _query(dry_run, field_manager)
    return _answer(client.request("PUT", path, query=query, body=obj, target=describe_object(obj)).json())


def patch(
    client: KubeClient,
    path: str,
    change: Object | list[Object],
    *,
    patch_type: PatchType = "merge",
    field_manager: str = FIELD_MANAGER,
    force: bool = False,
    dry_run: bool = False,
    target: str | None = None,
) -> Object:
    """Change parts of the object at path; type apply is server-side apply, with force taking fields from others.

    Errors name the target, or without one what stands in the path.
    """
    query = _query(dry_run, field_manager)
    if patch_type == "apply":
        query["force"] = force
    content_type = _PATCH_CONTENT[patch_type]
    return _answer(
        client.request("PATCH", path, query=query, body=change, content_type=content_type, target=target).json()
    )


def delete(
    client: KubeClient,
    path: str,
    *,
    uid: str | None = None,
    propagation: t.Literal["Background", "Foreground", "Orphan"] = "Background",
    grace_seconds: int | None = None,
    dry_run: bool = False,
) -> Object:
    """Delete the object at path; with a uid only that very object, not a later one of the same name."""
    options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    if uid:
        options["preconditions"] = {"uid": uid}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    if dry_run:
        # Where a deletion has a body, the server looks at nothing else.
        options["dryRun"] = ["All"]
    return _answer(client.request("DELETE", path, query=_query(dry_run, None), body=options).json())


def _query(dry_run: bool, field_manager: str | None) -> Object:
    return {"dryRun": "All" if dry_run else None, "fieldManager": field_manager}


def _answer(value: t.Any) -> Object:
    """The object a write was answered with; a server that says nothing gives an empty one."""
    return value if isinstance(value, dict) else {}
