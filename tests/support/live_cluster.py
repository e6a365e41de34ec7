# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Working with a live cluster in tests: create many objects, wait for a state, see what the scheduler did."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, RetryPolicy, connect, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL

T = t.TypeVar("T")
QUICK = RetryPolicy(first_pause=0.01, longest_pause=0.05)
# Never reached when things work: only keeps a broken run from hanging.
DEADLINE = 120.0
# What tests create in namespaces and controllers or nodes work for, owners before what they own.
WORKLOADS = (
    ("jobset.x-k8s.io/v1alpha2", "jobsets"),
    ("ray.io/v1", "rayjobs"),
    ("ray.io/v1", "rayservices"),
    ("ray.io/v1", "rayclusters"),
    ("kubeflow.org/v1", "pytorchjobs"),
    ("kubeflow.org/v1", "mpijobs"),
    ("kubeflow.org/v1", "tfjobs"),
    ("batch/v1", "jobs"),
    ("apps/v1", "deployments"),
    ("apps/v1", "statefulsets"),
    ("apps/v1", "daemonsets"),
    ("apps/v1", "replicasets"),
    ("v1", "replicationcontrollers"),
    ("v1", "services"),
    ("v1", "pods"),
)


def wait_until(what: str, probe: t.Callable[[], T | None], seconds: float = DEADLINE, pause: float = 0.1) -> T:
    """Ask until there is an answer; a failure says what was waited for."""
    end = time.monotonic() + seconds
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {seconds:.0f} s in vain for {what}")
        time.sleep(pause)


def wait_for_end(thread: threading.Thread, seconds: float = DEADLINE) -> None:
    """Join a thread; one that does not end fails the test instead of keeping it forever."""
    thread.join(seconds)
    if thread.is_alive():
        raise AssertionError(f"waited {seconds:.0f} s in vain for the end of {thread.name}")


class LiveCluster:
    """One cluster as tests use it."""

    def __init__(self, client: KubeClient, result: t.Mapping[str, t.Any]) -> None:
        """Keep the connection and what local_cluster told about the cluster."""
        self.client = client
        self.result = result
        self.kubeconfig: str = result["kubeconfig"]
        self.kubectl: str = result["kubectl"]
        self.components = result["components"]

    def connect(self, kubeconfig: str | None = None) -> KubeClient:
        """A client for a dispatcher, which may be sent through a proxy."""
        return connect({"kubeconfig": kubeconfig or self.kubeconfig}, retry=QUICK)

    def stop_components(self, *names: str) -> None:
        """End processes of the control plane, for measurements that nobody may disturb."""
        for name in names:
            os.kill(self.components[name]["pid"], signal.SIGTERM)

    @contextlib.contextmanager
    def paused(self, name: str) -> t.Iterator[None]:
        """Let a component stand still; what it was at stays half done until it goes on."""
        pid = self.components[name]["pid"]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def path(self, obj: dict, *, named: bool = True) -> str:
        """Where an object lies."""
        info = find_resource(self.client, obj["apiVersion"], obj["kind"])
        assert info is not None, f"the server does not serve {obj['apiVersion']} {obj['kind']}"
        meta = obj["metadata"]
        return info.path(meta.get("namespace"), meta["name"] if named else None)

    def create(self, *objects: dict) -> list[dict]:
        """Create objects side by side; a status given for a node is written too."""
        made = parallel([lambda obj=obj: create(self.client, self.path(obj, named=False), obj) for obj in objects])
        with_status = [obj for obj in objects if obj["kind"] == "Node" and obj.get("status")]
        parallel([lambda obj=obj: self._write_status(obj) for obj in with_status])
        return made

    def _write_status(self, obj: dict) -> None:
        """Write capacity and allocatable of a node."""
        patch(self.client, f"{self.path(obj)}/status", {"status": obj["status"]}, patch_type="merge")

    def namespace(self, name: str) -> str:
        """A new namespace, ready for pods."""
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        account = resource_path("v1", "serviceaccounts", name, "default")
        wait_until(f"the default account of {name}", lambda: get_object(self.client, account))
        return name

    def add_nodes(self, nodes: t.Sequence[dict]) -> None:
        """Create nodes and wait until the scheduler may use them."""
        self.create(*nodes)
        names = {node["metadata"]["name"] for node in nodes}
        wait_until("the nodes to be ready", lambda: names <= self._ready_nodes())

    def _ready_nodes(self) -> set[str]:
        """Nodes that are ready and have lost the taint every new node gets."""
        listing = list_objects(self.client, "/api/v1/nodes", keep=lambda node: node)
        return {
            node["metadata"]["name"]
            for node in listing.items
            if not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints") or ())
            and any(
                item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions") or ()
            )
        }

    def remove_nodes(self, names: t.Iterable[str]) -> None:
        """Delete nodes."""
        parallel([lambda name=name: delete(self.client, resource_path("v1", "nodes", name=name)) for name in names])

    def drop_namespace(self, name: str) -> None:
        """Delete a namespace and do not wait; its gangs go first, since dispatchers of later tests would count them."""
        self._drop_gangs(name)
        delete(self.client, resource_path("v1", "namespaces", name=name))

    def clear_namespace(self, name: str) -> None:
        """Delete all gangs, workloads and pods of a namespace that no other test uses, and do not wait.

        The empty namespace stays: its deletion would take the API server more than a hundred requests.
        """
        self._drop_gangs(name)
        for api, plural in WORKLOADS:
            self._delete_if_there(resource_path(api, plural, name))

    def _drop_gangs(self, name: str) -> None:
        """Delete the records of a namespace, and with them what they own."""
        maps = resource_path("v1", "configmaps", name)
        records = list_objects(self.client, maps, keep=lambda raw: raw["metadata"]["name"], label_selector=RECORD_LABEL)
        paths = [resource_path("v1", "configmaps", name, record) for record in records.items]
        paths.append(resource_path("workload.codeflare.dev/v1beta1", "appwrappers", name))
        parallel([lambda path=path: self._delete_if_there(path) for path in paths])

    def _delete_if_there(self, path: str) -> None:
        """Delete an object, or all of a kind."""
        with contextlib.suppress(NotFound):
            delete(self.client, path)

    def pods(self, namespace: str, selector: str | None = None) -> list[dict]:
        """The pods of a namespace."""
        path = resource_path("v1", "pods", namespace)
        return list_objects(self.client, path, keep=lambda pod: pod, label_selector=selector).items

    def wait_for_rest(self, name: str) -> None:
        """Return when no pod of a gang is left outside of a namespace; those of earlier tests take a while to go."""
        path = resource_path("v1", "pods")

        def is_at_rest() -> bool:
            """Whether all of them are gone."""
            homes = list_objects(
                self.client, path, keep=lambda pod: pod["metadata"]["namespace"], label_selector=GANG_LABEL
            )
            return set(homes.items) <= {name}

        wait_until("the pods of other tests to be gone", is_at_rest)


def is_bound(pod: dict) -> bool:
    """Whether the scheduler found a node."""
    return bool(pod["spec"].get("nodeName"))
