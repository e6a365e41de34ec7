# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes of a local cluster: created, changed and removed to be as the groups say; a real one is only changed."""

from __future__ import annotations

import collections.abc
import functools
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._host.files import Report
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import (
    FAKE_NODE_ANNOTATION,
    NODE_GROUP_LABEL,
    Object,
    find_change,
    is_ready,
    is_real,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.plan import WriteNodes
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

NODES = "/api/v1/nodes"
BATCH = 500
CONFLICT_TRIES = 5


def list_nodes(client: KubeClient) -> dict[str, Object]:
    """Our live nodes by name: those with our group label that kwok simulates, and the real one."""
    listing = list_objects(client, NODES, keep=_keep, label_selector=NODE_GROUP_LABEL)
    return {node["metadata"]["name"]: node for node in listing.items}


def _keep(node: Object) -> Object | None:
    """The parts of a node that matter here."""
    metadata = node["metadata"]
    if (metadata.get("annotations") or {}).get(FAKE_NODE_ANNOTATION) != "fake" and not is_real(node):
        return None
    status = node.get("status") or {}
    return {
        "metadata": {key: metadata.get(key) for key in ("name", "uid", "labels", "annotations", "resourceVersion")},
        "spec": {"taints": (node.get("spec") or {}).get("taints")},
        "status": {key: status.get(key) for key in ("capacity", "allocatable", "conditions")},
    }


def write_nodes(
    client: KubeClient, action: WriteNodes, wanted: collections.abc.Mapping[str, Object], report: Report
) -> None:
    """Create, change and delete nodes, many requests at a time. A real node creates itself."""
    simulated = [wanted[name] for name in action.create if not is_real(wanted[name])]
    _in_batches(simulated, lambda node: _create(client, node), "created", report)
    live = list_nodes(client) if action.change else {}
    _in_batches(action.change, lambda name: _change(client, wanted[name], live.get(name)), "changed", report)
    _in_batches(action.delete, lambda name: _delete(client, name), "deleted", report)


def _in_batches(
    items: collections.abc.Sequence[t.Any], call: collections.abc.Callable[[t.Any], None], done: str, report: Report
) -> None:
    """Call for every item in parallel; long lists report their progress."""
    for start in range(0, len(items), BATCH):
        batch = items[start : start + BATCH]
        parallel([functools.partial(call, item) for item in batch], width=16)
        if len(items) > BATCH:
            report(f"{done} {start + len(batch)} of {len(items)} nodes")


def _create(client: KubeClient, node: Object) -> None:
    """Create a node unless an interrupted run did."""
    try:
        create(client, NODES, node)
    except Conflict as error:
        if not error.already_exists:
            raise


def _change(client: KubeClient, wanted: Object, live: Object | None) -> None:
    """Patch a node and its status; after a conflict it is read and compared again."""
    path = f"{NODES}/{wanted['metadata']['name']}"
    for tries_left in reversed(range(CONFLICT_TRIES)):
        change = find_change(wanted, live) if live is not None else None
        if change is None:
            return
        try:
            if change.status:
                patch(client, f"{path}/status", change.status)
            if change.node:
                patch(client, path, change.node)
            return
        except Conflict:
            if not tries_left:
                raise
            live = get_object(client, path)


def settle_real(client: KubeClient, wanted: Object, deadline: float) -> None:
    """Wait until the kubelet has registered its node, and make it as wanted; a restarted one may reset resources."""
    name = wanted["metadata"]["name"]
    while (live := get_object(client, f"{NODES}/{name}")) is None:
        if time.monotonic() > deadline:
            raise MusterError("wait for", f"node {name}", "the kubelet did not register it in time; see its log")
        time.sleep(0.1)
    _change(client, wanted, live)


def _delete(client: KubeClient, name: str) -> None:
    """Delete a node unless it is gone already."""
    try:
        delete(client, f"{NODES}/{name}")
    except NotFound:
        return


def wait_ready(
    client: KubeClient, names: collections.abc.Collection[str], deadline: float, report: Report
) -> dict[str, Object]:
    """Poll until all named nodes take pods; returns the live nodes. Lists get rarer as they get longer."""
    next_report = time.monotonic() + 5
    while True:
        begin = time.monotonic()
        live = list_nodes(client)
        waiting = [name for name in names if name not in live or not is_ready(live[name])]
        now = time.monotonic()
        if not waiting:
            return live
        if now > deadline:
            raise MusterError("wait for", f"node {waiting[0]}", f"not ready in time, nor are {len(waiting) - 1} others")
        if now > next_report:
            report(f"{len(names) - len(waiting)} of {len(names)} nodes ready")
            next_report = now + 10
        time.sleep(max(0.1, 2 * (now - begin)))


def summarize(live: collections.abc.Iterable[Object]) -> dict[str, t.Any]:
    """Node numbers for the result, in all and by group."""
    groups: dict[str, dict[str, int]] = {}
    for node in live:
        name = (node["metadata"].get("labels") or {}).get(NODE_GROUP_LABEL, "")
        numbers = groups.setdefault(name, {"count": 0, "ready": 0})
        numbers["count"] += 1
        numbers["ready"] += is_ready(node)
    return {
        "count": sum(numbers["count"] for numbers in groups.values()),
        "ready": sum(numbers["ready"] for numbers in groups.values()),
        "groups": groups,
    }
