# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Short ways to write nodes, pods and gangs in tests, in the form the API serves them."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room


def node(name, *, labels=None, taints=None, unschedulable=False, **resources):
    """A Node object; cpu='2' memory='4Gi' and so on are its allocatable, 110 pods unless said otherwise."""
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {
            "allocatable": {"pods": "110", **{key.replace("__", "/"): value for key, value in resources.items()}}
        },
    }


def pod(name, *, on=None, namespace="default", labels=None, requests=None, phase="Running", **spec):
    """A Pod object with one container of these requests."""
    body = {"containers": [{"name": "main", "image": "none", "resources": {"requests": requests or {}}}], **spec}
    if on:
        body["nodeName"] = on
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels or {}},
        "spec": body,
        "status": {"phase": phase if on else "Pending"},
    }


def job(name, count, *, labels=None, requests=None, **spec):
    """A Job object that runs count pods at once."""
    template = {
        "metadata": {"labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests or {}}}],
            **spec,
        },
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


def gang(*objects, name="gang", namespace="default"):
    """A gang of these objects."""
    return Gang(name, namespace, tuple(infer_podsets(objects, namespace=namespace)))


def room(nodes, pods=(), **snapshot):
    """A room of these nodes and pods."""
    views = [pod_from_api(item) for item in pods]
    kept = tuple(view for view in views if view is not None)
    return Room(Snapshot(nodes=tuple(node_from_api(item) for item in nodes), pods=kept, **snapshot))
