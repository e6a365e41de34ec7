# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes, objects, records and AppWrappers from which tests make gangs.

Every gang keeps to a pool of nodes of its own by a label, so that many tests share one cluster without sharing room.
"""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec

Object = dict[str, t.Any]

POOL_LABEL = "muster-test/pool"
HOSTNAME = "kubernetes.io/hostname"
# Pods that take room on purpose behind a dispatcher's back carry it, so that nobody is blamed for them.
THIEF_LABEL = "muster-test/thief"
READY_BEFORE_NEXT = "muster.kube/ready-before-next"
WRAPPER_API = "workload.codeflare.dev/v1beta1"


def kwok_node(name: str, pool: str, **amounts: str) -> Object:
    """A simulated node of a pool; amounts are resources, 4 cpu, 16Gi and 110 pods unless said otherwise."""
    size = {"cpu": "4", "memory": "16Gi", "pods": "110", **amounts}
    labels = {POOL_LABEL: pool, HOSTNAME: name}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "status": {"allocatable": size, "capacity": size},
    }


def node_pool(pool: str, count: int, **amounts: str) -> list[Object]:
    """Equal nodes of one pool."""
    return [kwok_node(f"{pool}-n{number}", pool, **amounts) for number in range(count)]


def pod_template(pool: str | None, requests: t.Mapping[str, str], annotations: t.Mapping[str, str] | None) -> Object:
    """A pod as objects hold it, confined to a pool; extended resources get the limits they must have."""
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    container = {"name": "main", "image": "none", "resources": {"requests": dict(requests), "limits": limits}}
    spec: Object = {"restartPolicy": "Never", "containers": [container]}
    if pool is not None:
        spec["nodeSelector"] = {POOL_LABEL: pool}
    return {"metadata": {"annotations": dict(annotations)} if annotations else {}, "spec": spec}


def job(
    name: str,
    pool: str | None,
    pods: int = 1,
    *,
    seconds: float | None = None,
    exit_code: int | None = None,
    backoff_limit: int = 0,
    **requests: str,
) -> Object:
    """A Job; its simulated pods run so many seconds (for ever when None) and end with the exit code."""
    notes = {}
    if seconds is not None:
        notes["muster.kube/run-seconds"] = f"{seconds:g}"
    if exit_code is not None:
        notes["muster.kube/exit-code"] = str(exit_code)
    spec = {
        "parallelism": pods,
        "completions": pods,
        "backoffLimit": backoff_limit,
        "template": pod_template(pool, requests or {"cpu": "1"}, notes),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def config_map(name: str, **data: str) -> Object:
    """An object without pods."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data or {"key": "value"}}


def service(name: str) -> Object:
    """Another object without pods, in a kind that nothing else in these tests uses."""
    spec = {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def waiting_service(name: str) -> Object:
    """An object that must be ready before the next one is created; only the test makes it ready."""
    made = service(name)
    made["metadata"]["annotations"] = {READY_BEFORE_NEXT: "Ready=True"}
    return made


def claim(name: str, size: str = "1Gi") -> Object:
    """A claim, which is kept from attempt to attempt."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, "storageClassName": ""}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


def pod(name: str, namespace: str, pool: str | None, *, node: str | None = None, **requests: str) -> Object:
    """A pod of nobody in particular; with a node it is bound at once, past the scheduler."""
    made = pod_template(pool, requests or {"cpu": "1"}, None)
    if node is not None:
        made["spec"]["nodeName"] = node
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**made["metadata"], "name": name, "namespace": namespace},
        "spec": made["spec"],
    }


def thief(name: str, namespace: str, node: str, **requests: str) -> Object:
    """A pod that takes room on a node at once."""
    made = pod(name, namespace, None, node=node, **requests)
    made["metadata"]["labels"] = {THIEF_LABEL: "true"}
    return made


def three_objects(stem: str, pool: str | None, pods: int = 2, **requests: str) -> list[Object]:
    """The objects of a gang of three: a Service and two Jobs of so many pods each."""
    return [service(f"{stem}-s"), job(f"{stem}-a", pool, pods, **requests), job(f"{stem}-b", pool, pods, **requests)]


def gang_record(name: str, namespace: str, objects: t.Sequence[Object], **options: t.Any) -> Object:
    """The ConfigMap of a queued gang; options are those of a specification (priority, requeue, suspended…)."""
    data = {"name": name, "namespace": namespace, "objects": list(objects), **options}
    return build_record(read_spec(data, f"gang {namespace}/{name}"))


def generic_item(obj: Object, *, completion: str | None = None, podsets: t.Sequence[Object] | None = None) -> Object:
    """One item of an AppWrapper; podsets are its custompodresources (replicas, requests, limits)."""
    item: Object = {"replicas": 1, "generictemplate": obj}
    if completion is not None:
        item["completionstatus"] = completion
    if podsets is not None:
        item["custompodresources"] = list(podsets)
    return item


def app_wrapper(
    name: str,
    namespace: str,
    items: t.Sequence[Object],
    *,
    managed: bool = True,
    scheduling: t.Mapping[str, t.Any] | None = None,
    **spec: t.Any,
) -> Object:
    """An AppWrapper v1beta1; plain objects among the items are wrapped, scheduling is its schedulingSpec."""
    wrapped = [item if "generictemplate" in item else generic_item(item) for item in items]
    body: Object = {**spec, "resources": {"GenericItems": wrapped}}
    if scheduling is not None:
        body["schedulingSpec"] = dict(scheduling)
    metadata: Object = {"name": name, "namespace": namespace}
    if managed:
        metadata["labels"] = {"muster.kube/managed": "true"}
    return {"apiVersion": WRAPPER_API, "kind": "AppWrapper", "metadata": metadata, "spec": body}
