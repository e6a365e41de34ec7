# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes of a local cluster as objects: what the groups ask for, and how a live node differs from it."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import stored_quantity

FAKE_NODE_ANNOTATION = "kwok.x-k8s.io/node"
NODE_GROUP_LABEL = "muster.kube/node-group"
REAL_NODE_LABEL = "muster.kube/real"
MANAGED_ANNOTATION = "muster.kube/managed"
NODE_INFO = (
    *("bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion"),
    *("kubeletVersion", "machineID", "osImage", "systemUUID"),
)
Object = dict[str, t.Any]


def build_node(group: NodeGroup, index: int) -> Object:
    """One node of a group: a simulated one as a kubelet would register it, of a real one what is not the kubelet's."""
    name = group.node_name(index)
    capacity = group.capacity()
    managed = {
        "labels": sorted(key for key, _value in group.labels),
        "resources": sorted(capacity),
        "taints": sorted(f"{taint.key}:{taint.effect}" for taint in group.taints),
    }
    annotations = {MANAGED_ANNOTATION: json.dumps(managed)}
    labels = {**dict(group.labels), NODE_GROUP_LABEL: group.name}
    status: Object = {"capacity": capacity, "allocatable": capacity}
    if group.real:
        labels[REAL_NODE_LABEL] = "true"
    else:
        annotations[FAKE_NODE_ANNOTATION] = "fake"
        platform = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels = {"kubernetes.io/hostname": name, **platform, **labels}
        status["nodeInfo"] = {**dict.fromkeys(NODE_INFO, "muster"), "architecture": "amd64", "operatingSystem": "linux"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "spec": {"taints": [taint.as_object() for taint in group.taints]},
        "status": status,
    }


def is_real(node: Object) -> bool:
    """True for a node that a kubelet registers, not we."""
    return (node["metadata"].get("labels") or {}).get(REAL_NODE_LABEL) == "true"


def build_nodes(groups: collections.abc.Iterable[NodeGroup]) -> dict[str, Object]:
    """All nodes the groups ask for, by name; two groups may not produce the same name."""
    nodes: dict[str, Object] = {}
    for group in groups:
        for index in range(group.count):
            node = build_node(group, index)
            name = node["metadata"]["name"]
            if name in nodes:
                raise BadInput("use", f"nodes group {group.name!r}", f"it makes a second node called {name}")
            nodes[name] = node
    return nodes


@dataclasses.dataclass(frozen=True, slots=True)
class NodeChange:
    """What must be patched on one node, in merge patch form; an empty part needs no request."""

    name: str
    node: Object
    status: Object


def is_ready(node: Object) -> bool:
    """True when pods can be placed on the node: ready, and the taint of a node that is not is gone."""
    conditions = node.get("status", {}).get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    taints = node.get("spec", {}).get("taints") or ()
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def find_change(wanted: Object, live: Object) -> NodeChange | None:
    """The difference between a wanted and a live node.

    Only what we manage counts, which the node's annotation remembers: labels, taints and resources that others
    added stay.
    """
    name = wanted["metadata"]["name"]
    metadata = live["metadata"]
    before = _managed(metadata.get("annotations") or {})
    now = _managed(wanted["metadata"]["annotations"])
    change: Object = {}
    labels = _map_change(wanted["metadata"]["labels"], metadata.get("labels") or {}, before["labels"] - now["labels"])
    annotations = _map_change(wanted["metadata"]["annotations"], metadata.get("annotations") or {}, frozenset())
    if labels or annotations:
        change["metadata"] = {"labels": labels, "annotations": annotations}
    taints = live.get("spec", {}).get("taints") or []
    merged = _merge_taints(wanted["spec"]["taints"], taints, before["taints"])
    if merged is not None:
        # The list is replaced whole, so it must be the one we read.
        change.setdefault("metadata", {})["resourceVersion"] = metadata.get("resourceVersion")
        change["spec"] = {"taints": merged}
    gone = before["resources"] - now["resources"]
    status = {}
    for field in ("capacity", "allocatable"):
        # 8 and 8000m are equal.
        amounts = _map_change(wanted["status"][field], live.get("status", {}).get(field) or {}, gone, stored_quantity)
        if amounts:
            status[field] = amounts
    return NodeChange(name, change, {"status": status} if status else {}) if change or status else None


def _managed(annotations: dict[str, str]) -> dict[str, frozenset[str]]:
    """The names we wrote on a node, by kind; nothing when the annotation is missing or is not JSON."""
    try:
        data = json.loads(annotations.get(MANAGED_ANNOTATION, "{}"))
    except ValueError:
        data = {}
    return {kind: frozenset(data.get(kind, ())) for kind in ("labels", "resources", "taints")}


def _map_change(
    wanted: dict[str, str],
    live: dict[str, str],
    gone: frozenset[str],
    form: collections.abc.Callable[[str], object] = str,
) -> dict[str, str | None]:
    """A merge patch of a string map; values of equal form are equal."""
    change: dict[str, str | None] = {
        key: value for key, value in wanted.items() if key not in live or form(live[key]) != form(value)
    }
    return {**change, **{key: None for key in gone if key in live}}


def _merge_taints(
    wanted: list[dict[str, str]], live: list[dict[str, str]], before: frozenset[str]
) -> list[dict[str, str]] | None:
    """The new list of taints, None when the live one is right. Taints of others keep their order."""

    def identity(taint: dict[str, str]) -> str:
        """Key and effect: the API allows one taint of each."""
        return f"{taint['key']}:{taint['effect']}"

    ours = {identity(taint): taint for taint in wanted}
    kept = [taint for taint in live if identity(taint) not in before and identity(taint) not in ours]
    current = {
        identity(taint): {key: taint[key] for key in ("key", "effect", "value") if taint.get(key)} for taint in live
    }
    if all(current.get(key) == taint for key, taint in ours.items()) and not (before - set(ours)) & set(current):
        return None
    return kept + list(ours.values())
