# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting: what started gangs still get, what others hold, and what is left for the next gang, rule by rule.

Most gangs here have objects that no controller looks after, so that a test decides itself which pods exist.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.tests.support.dispatch_stage import NOBODYS_RAY, Stage, short_of, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import kwok_node, pod
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, is_bound, wait_until

Object = dict[str, t.Any]


@pytest.fixture(scope="module")
def cluster(operator_cluster: LiveCluster) -> LiveCluster:
    """The one with operators, for some gangs here are Ray clusters."""
    return operator_cluster


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A dispatcher over the test's namespace."""
    made = Stage(cluster, namespace)
    yield made
    made.close()


def left_for_others(stage: Stage, cpu: str | None = None, **terms: t.Any) -> str:
    """The cpu that a gang which needs a whole node, or so much, finds free; the gang is taken back again."""
    cpu = cpu or max((node["status"]["allocatable"]["cpu"] for node in stage.nodes()), key=int)
    stage.submit("probe", stage.podless_job("probe", 1, cpu=cpu))
    needed, free = short_of(told(stage.run(**terms), "probe"))
    assert needed == cpu
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "probe"))
    return free


def test_a_ray_cluster_counts_its_clamped_replicas_on_all_hosts(stage: Stage) -> None:
    stage.add_nodes(1, cpu="8")
    cluster = stage.ray_cluster("ray", 5, managed=False, maxReplicas=2, numOfHosts=2)
    stage.submit("ray", cluster)
    assert told(stage.run(), "ray").action == "start"
    assert left_for_others(stage) == "3"


def test_the_submitter_of_a_ray_job_counts_before_and_after_it_exists(stage: Stage) -> None:
    node = stage.add_nodes(1, cpu="4")[0]
    cluster = stage.ray_cluster("unused")["spec"]
    submitter = stage.job("submitter", cpu="500m")
    template = submitter["spec"]["template"]
    spec = {
        "entrypoint": "true",
        "rayClusterSpec": cluster,
        "submitterPodTemplate": template,
        "managedBy": NOBODYS_RAY,
    }
    ray_job: Object = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "ray"}, "spec": spec}
    stage.submit("ray", ray_job)
    assert told(stage.run(), "ray").action == "start"
    # A head and a worker of one cpu each, and the submitter of half a cpu.
    assert left_for_others(stage) == "1500m"
    found = stage.find(ray_job)
    assert found is not None
    # The operator makes a Job of the RayJob's own, whose pods no label of ours may reach.
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "ray", "uid": found["metadata"]["uid"]}
    submitter["metadata"].update({"namespace": stage.namespace, "ownerReferences": [owner]})
    stage.cluster.create(submitter)
    wait_until("the submitter's pod", lambda: [item for item in stage.pods() if is_bound(item)])
    assert stage.pods()[0]["spec"]["nodeName"] == node
    assert left_for_others(stage) == "1500m"


def test_a_job_between_two_tries_keeps_its_room_for_a_while(stage: Stage) -> None:
    stage.add_nodes(1, cpu="2")
    stage.submit("flaky", stage.job("flaky", 1, exit_code=1, backoff_limit=6, cpu="1"))
    stage.run_until({"flaky": "running"})
    wait_until("the pod to fail", lambda: [item for item in stage.pods() if item["status"]["phase"] == "Failed"])
    assert [item["status"]["phase"] for item in stage.pods()] == ["Failed"]
    assert left_for_others(stage) == "1"
    # The server's clock is told in whole seconds.
    wait_until("the room to be given up", lambda: left_for_others(stage, start_timeout=0.0) == "2")


def test_a_terminating_pod_holds_its_node_and_satisfies_nobody(stage: Stage) -> None:
    # A node without a kubelet, not even a simulated one: a deleted pod stays until its grace period is over.
    silent = kwok_node(f"{stage.pool}-silent", stage.pool, cpu="4")
    silent["metadata"].pop("annotations")
    silent["status"]["conditions"] = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    node = stage.add_node(silent)[0]
    record = stage.submit("gang", stage.podless_job("gang", 1, cpu="1"))
    stage.run()
    stage.gang_pod(record, "old", "gang", node)
    assert left_for_others(stage) == "3"
    path = resource_path("v1", "pods", stage.namespace, "old")
    delete(stage.client, path, grace_seconds=600)
    assert (stage.raw("old", "pods") or {})["metadata"]["deletionTimestamp"]
    assert left_for_others(stage) == "2"
    delete(stage.client, path, grace_seconds=0)
    wait_gone("the pod", lambda: stage.raw("old", "pods"))
    assert left_for_others(stage) == "3"


def test_a_ray_cluster_that_scaled_itself_down_gives_room_back(stage: Stage) -> None:
    stage.add_nodes(1, cpu="6")
    cluster = stage.ray_cluster("ray", 3, managed=False)
    stage.submit("ray", cluster)
    stage.run()
    assert left_for_others(stage) == "2"
    found = stage.find(cluster)
    assert found is not None
    change = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1}]
    patch(stage.client, stage.cluster.path(found), change, patch_type="json")
    assert left_for_others(stage) == "4"


@pytest.mark.parametrize("trouble", ["not ready", "cordoned", "tainted"])
def test_a_node_that_takes_no_pods_is_no_room(stage: Stage, trouble: str) -> None:
    stage.add_nodes(1, cpu="2")
    name = f"{stage.pool}-bad"
    node = kwok_node(name, stage.pool, cpu="8")
    stage.remember_nodes(name)
    if trouble == "not ready":
        # Without its annotation kwok never makes it ready, and by its condition the node controller keeps it tainted.
        node["metadata"].pop("annotations")
        node["status"]["conditions"] = [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]
        stage.cluster.create(node)
    else:
        stage.cluster.add_nodes([node])
        spec = (
            {"unschedulable": True} if trouble == "cordoned" else {"taints": [{"key": "own", "effect": "NoSchedule"}]}
        )
        patch(stage.client, resource_path("v1", "nodes", name=name), {"spec": spec}, patch_type="merge")
    # A node that stays silent is unreachable after a while, instead of not ready.
    keys = {
        "not ready": ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"),
        "cordoned": ("node.kubernetes.io/unschedulable",),
        "tainted": ("own",),
    }[trouble]
    wait_until(
        "the node's taint",
        lambda: any(
            taint["key"] in keys
            for taint in (_node(stage, name)["spec"].get("taints") or ())
            if taint["effect"] == "NoSchedule"
        ),
    )
    stage.submit("gang", stage.job("gang", 1, cpu="4"))
    decision = told(stage.run(), "gang")
    assert decision.action == "wait"
    assert short_of(decision) == ("4", "2")


def _node(stage: Stage, name: str) -> Object:
    """A node as it is."""
    return t.cast(Object, stage.client.request("GET", resource_path("v1", "nodes", name=name)).json())


def test_foreign_pods_that_wait_for_the_scheduler_are_placed_first(stage: Stage) -> None:
    stage.add_nodes(1, cpu="4")
    # A claim that nobody makes holds the scheduler up for as long as the test likes; room is not what it lacks.
    waiting = pod("waiting", stage.namespace, stage.pool, cpu="3")
    waiting["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": "missing"}]
    stage.cluster.create(waiting)
    assert left_for_others(stage) == "1"
    gated = pod("gated", stage.namespace, stage.pool, cpu="1")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    stage.cluster.create(gated)
    assert left_for_others(stage) == "1"
    assert [item["spec"].get("nodeName") for item in stage.pods()] == [None, None]
    delete(stage.client, resource_path("v1", "pods", stage.namespace, "waiting"))
    wait_gone("the pod", lambda: stage.raw("waiting", "pods"))
    assert left_for_others(stage) == "4"
