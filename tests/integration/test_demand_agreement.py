# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inferred demand against the pods that the real controllers and operators create."""

from __future__ import annotations

import collections
import decimal
import math
import os
import random

import kubernetes.utils.quantity
import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until
from ansible_collections.muster.kube.tests.support.pod_cases import RUNTIME_CLASSES, make_pod, runtime_classes

FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
NAMESPACE = "demand"
POOL = {"demand-pool": "yes"}
SUBMITTER_GROUP = "submitter"
RANDOM_PODS = 200
BATCH = 50


def container(name, **resources):
    """A container; requests= and limits= are its resources."""
    return {"name": name, "image": "none", "resources": resources}


def template(*containers, init=(), **spec):
    """A pod template that lands on this file's own nodes."""
    body = {"containers": list(containers), "nodeSelector": POOL, **spec}
    return {"spec": {**body, "initContainers": list(init)} if init else body}


SMALL = container("ray", requests={"cpu": "250m", "memory": "300Mi"})
LARGE = container("ray", requests={"cpu": "1", "memory": "2G"}, limits={"cpu": "2", "memory": "2G"})


def group(name, *containers, init=(), **fields):
    """A worker group of a Ray cluster."""
    body = {"groupName": name, "replicas": 1, "minReplicas": 0, "maxReplicas": 9, "rayStartParams": {}, **fields}
    return {**body, "template": template(*(containers or (LARGE,)), init=init)}


def ray_spec(*groups, head=(LARGE,), **fields):
    """What a RayCluster, RayJob and RayService say of their cluster."""
    top = {"rayStartParams": {}, "template": template(*head)}
    return {"rayVersion": "2.46.0", "headGroupSpec": top, "workerGroupSpecs": list(groups), **fields}


def thing(api_version, kind, name, spec):
    """An object in this file's namespace."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


LIMITS_ONLY = container("ray", limits={"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "1"})
TINY = container("ray", requests={"cpu": "10m", "memory": "10Mi"})
SIDECAR = {**container("proxy", requests={"cpu": "100m", "memory": "50Mi"}), "restartPolicy": "Always"}
FETCH = container("fetch", requests={"cpu": "3", "memory": "64Mi"})
AUTOSCALER = {"resources": {"requests": {"cpu": "300m"}, "limits": {"cpu": "700m", "memory": "300Mi"}}}

RAY_CLUSTERS = {
    "plain": ray_spec(group("workers", replicas=2)),
    "head-only": ray_spec(),
    "groups": ray_spec(group("small", SMALL, replicas=3), group("large", replicas=2), group("none", replicas=0)),
    "clamped": ray_spec(
        group("down", replicas=5, maxReplicas=2), group("up", replicas=1, minReplicas=3), group("free", replicas=4)
    ),
    "hosts": ray_spec(group("slices", replicas=2, numOfHosts=2)),
    "autoscaled": ray_spec(group("workers", minReplicas=1), enableInTreeAutoscaling=True),
    "autoscaled-sized": ray_spec(group("workers"), enableInTreeAutoscaling=True, autoscalerOptions=AUTOSCALER),
    "limits-only": ray_spec(group("workers", LIMITS_ONLY, replicas=2), head=(LIMITS_ONLY,)),
    "init": ray_spec(group("workers", SMALL, init=(SIDECAR, FETCH), replicas=2), head=(SMALL, SMALL | {"name": "log"})),
    "tiny": ray_spec(group("workers", TINY, replicas=2), head=(TINY,)),
}


def pytorch_job(name, field="pytorchReplicaSpecs", kind="PyTorchJob", main="pytorch", **replicas):
    """A Kubeflow job; each keyword is a replica type with its count and container."""
    specs = {
        kind_of_replica: {"replicas": count, "restartPolicy": "Never", "template": template({**size, "name": main})}
        for kind_of_replica, (count, size) in replicas.items()
    }
    return thing("kubeflow.org/v1", kind, name, {field: specs})


def batch_job(name, *containers, **spec):
    """A Job."""
    return thing("batch/v1", "Job", name, {**spec, "template": template(*containers, restartPolicy="Never")})


def ray_job(name, **fields):
    """A RayJob with a cluster of its own."""
    spec = {"entrypoint": "true", "rayClusterSpec": ray_spec(group("workers", SMALL, replicas=2)), **fields}
    return thing("ray.io/v1", "RayJob", name, spec)


def job_set(name):
    """A JobSet of a driver and two jobs of three workers."""
    driver = {"parallelism": 1, "completions": 1, "template": template(LARGE, restartPolicy="Never")}
    worker = {"parallelism": 3, "completions": 3, "template": template(SMALL, init=(FETCH,), restartPolicy="Never")}
    jobs = [
        {"name": "driver", "template": {"spec": driver}},
        {"name": "workers", "replicas": 2, "template": {"spec": worker}},
    ]
    return thing("jobset.x-k8s.io/v1alpha2", "JobSet", name, {"replicatedJobs": jobs})


SUBMITTER = template(container("submit", requests={"cpu": "150m"}, limits={"memory": "96Mi"}), restartPolicy="Never")
OBJECTS = {
    **{f"ray-{name}": thing("ray.io/v1", "RayCluster", f"ray-{name}", spec) for name, spec in RAY_CLUSTERS.items()},
    "rayjob": ray_job("rayjob"),
    "rayjob-template": ray_job("rayjob-template", submitterPodTemplate=SUBMITTER),
    "rayjob-http": ray_job("rayjob-http", submissionMode="HTTPMode"),
    "rayservice": thing(
        "ray.io/v1", "RayService", "rayservice", {"rayClusterConfig": ray_spec(group("workers", SMALL, replicas=2))}
    ),
    "job": batch_job("job", SMALL, SMALL | {"name": "second"}, parallelism=3, completions=5),
    "job-few-completions": batch_job("job-few-completions", LARGE, parallelism=4, completions=2),
    "job-no-completions": batch_job("job-no-completions", TINY, parallelism=2),
    "job-default": batch_job("job-default", LIMITS_ONLY),
    "job-indexed": batch_job("job-indexed", SMALL, parallelism=3, completions=3, completionMode="Indexed"),
    "pytorch": pytorch_job("pytorch", Master=(1, LARGE), Worker=(3, SMALL)),
    "pytorch-tiny": pytorch_job("pytorch-tiny", Master=(1, TINY), Worker=(2, container("x", requests={"cpu": "1m"}))),
    "pytorch-workers": pytorch_job("pytorch-workers", Worker=(2, LIMITS_ONLY)),
    "tf": pytorch_job("tf", "tfReplicaSpecs", "TFJob", "tensorflow", Chief=(1, LARGE), PS=(2, SMALL), Worker=(2, TINY)),
    "xgboost": pytorch_job("xgboost", "xgbReplicaSpecs", "XGBoostJob", "xgboost", Master=(1, SMALL), Worker=(2, TINY)),
    "mpi": pytorch_job("mpi", "mpiReplicaSpecs", "MPIJob", "mpi", Launcher=(1, TINY), Worker=(2, SMALL)),
    **({"jobset": job_set("jobset")} if FULL else {}),
}


def node(name, amounts, labels):
    """A kwok node of this size."""
    meta = {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}}
    status = {"allocatable": amounts, "capacity": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


@pytest.fixture(scope="module")
def cluster(operator_cluster):
    """The one with operators."""
    return operator_cluster


@pytest.fixture(scope="module")
def pods(cluster):
    """The pods of every object, by object and podset, once all controllers say that theirs are complete."""
    size = {"cpu": "500", "memory": "1Ti", "pods": "500", "nvidia.com/gpu": "50", "ephemeral-storage": "1Ti"}
    cluster.add_nodes([node("demand-node", size, POOL)])
    cluster.namespace(NAMESPACE)
    cluster.create(*OBJECTS.values())
    for name, obj in OBJECTS.items():
        wait_until(f"all pods of {name}", lambda obj=obj: settled(cluster, obj), seconds=300)
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    owners = ray_owners(cluster)
    for pod in cluster.pods(NAMESPACE):
        owner, part = place_of(pod, owners)
        found[owner][part].append(pod)
    yield found
    for obj in OBJECTS.values():
        cluster.client.request("DELETE", cluster.path(obj))
    cluster.drop_namespace(NAMESPACE)
    wait_until("the end of all pods", lambda: not cluster.pods(NAMESPACE))
    cluster.remove_nodes(["demand-node"])


def settled(cluster, obj):
    """Whether the controller of an object reports all its pods running."""
    status = get_object(cluster.client, cluster.path(obj)).get("status") or {}
    match obj["kind"]:
        case "RayCluster":
            return status.get("state") == "ready"
        case "RayJob":
            if obj["spec"].get("submissionMode") == "HTTPMode":
                return cluster_is_ready(cluster, status.get("rayClusterName"))
            return bool(cluster.pods(NAMESPACE, f"job-name={obj['metadata']['name']}"))
        case "RayService":
            return cluster_is_ready(cluster, (status.get("pendingServiceStatus") or {}).get("rayClusterName"))
        case "Job":
            return bool(status.get("active")) and status.get("ready") == status["active"]
        case "JobSet":
            wanted = {job["name"]: job.get("replicas", 1) for job in obj["spec"]["replicatedJobs"]}
            return wanted == {job["name"]: job.get("ready") for job in status.get("replicatedJobsStatus") or ()}
    replicas = (entry.get("active", 0) for entry in (status.get("replicaStatuses") or {}).values())
    running = any(item["type"] == "Running" and item["status"] == "True" for item in status.get("conditions") or ())
    return running and sum(replicas) == len(
        cluster.pods(NAMESPACE, f"training.kubeflow.org/job-name={obj['metadata']['name']}")
    )


def cluster_is_ready(cluster, name):
    """Whether a Ray cluster made by another object runs."""
    path = resource_path("ray.io/v1", "rayclusters", NAMESPACE, name) if name else None
    found = get_object(cluster.client, path) if path else None
    return bool(found) and (found.get("status") or {}).get("state") == "ready"


def ray_owners(cluster):
    """Which object each Ray cluster belongs to: itself, or the RayJob or RayService that made it."""
    path = resource_path("ray.io/v1", "rayclusters", NAMESPACE)
    owners = {}
    for item in list_objects(cluster.client, path, keep=lambda found: found).items:
        meta = item["metadata"]
        owners[meta["name"]] = (meta.get("ownerReferences") or [{"name": meta["name"]}])[0]["name"]
    return owners


def place_of(pod, owners):
    """The object and podset a live pod belongs to, by the labels its controller gave it."""
    labels = pod["metadata"]["labels"]
    if "ray.io/group" in labels:
        part = "head" if labels["ray.io/node-type"] == "head" else labels["ray.io/group"]
        return owners[labels["ray.io/cluster"]], part
    if "training.kubeflow.org/replica-type" in labels:
        return labels["training.kubeflow.org/job-name"], labels["training.kubeflow.org/replica-type"]
    if "jobset.sigs.k8s.io/jobset-name" in labels:
        return labels["jobset.sigs.k8s.io/jobset-name"], labels["jobset.sigs.k8s.io/replicatedjob-name"]
    name = labels["batch.kubernetes.io/job-name"]
    return name, SUBMITTER_GROUP if name.startswith("rayjob") else ""


def summed(pod):
    """The requests of a live pod added up by another library: containers and sidecars, or an init container's need."""
    spec = pod["spec"]

    def requests(item):
        values = (item.get("resources") or {}).get("requests") or {}
        return {key: kubernetes.utils.quantity.parse_quantity(value) for key, value in values.items()}

    total, sidecars, peak = collections.Counter(), collections.Counter(), collections.Counter()
    for item in spec["containers"]:
        total.update(requests(item))
    for item in spec.get("initContainers") or ():
        need = collections.Counter(requests(item))
        need.update(sidecars)
        peak |= need
        if item.get("restartPolicy") == "Always":
            total.update(requests(item))
            sidecars = need
    amounts = {key: max(total[key], peak[key]) * (1000 if key == "cpu" else 1) for key in {*total, *peak}}
    rounded = {key: math.ceil(decimal.Decimal(amount)) for key, amount in amounts.items() if amount}
    return {**rounded, "pods": 1}


@pytest.mark.parametrize(
    "name", [pytest.param(key, marks=pytest.mark.full) if key == "jobset" else key for key in OBJECTS]
)
def test_the_demand_is_that_of_the_pods_the_controller_makes(pods, name):
    inferred = infer_podsets([OBJECTS[name]], namespace=NAMESPACE)
    expected = {item.name.removeprefix(name).lstrip("/"): item for item in inferred if item.count}
    real = pods[name]
    assert {part: len(found) for part, found in real.items()} == {part: item.count for part, item in expected.items()}
    for part, item in expected.items():
        assert [running_pod_requests(pod) for pod in real[part]] == [item.requests] * item.count
        assert [summed(pod) for pod in real[part]] == [item.requests] * item.count


def test_a_suspended_worker_group_has_no_pods():
    # KubeRay as it is installed by default refuses such groups, so there is nothing live to compare with.
    spec = ray_spec(group("asleep", replicas=2, suspend=True), group("awake"))
    inferred = infer_podsets([thing("ray.io/v1", "RayCluster", "ray", spec)], namespace=NAMESPACE)
    assert {item.name: item.count for item in inferred} == {"ray/head": 1, "ray/asleep": 0, "ray/awake": 1}


def sized_nodes(rng, name, demand):
    """A node of exactly this demand, and one that lacks a single unit of one resource."""
    short = rng.choice(sorted(demand))
    exact = {key: amount_text(key, amount) for key, amount in demand.items()}
    lacking = {**exact, short: amount_text(short, demand[short] - 1)}
    return short, [
        node(f"{name}-{suffix}", amounts, {"demand-node": f"{name}-{suffix}"})
        for suffix, amounts in (("exact", exact), ("lacking", lacking))
    ]


def amount_text(resource, amount):
    """A scaled amount as the plainest quantity there is."""
    return f"{amount}m" if resource == "cpu" else str(amount)


def confined(pod, name):
    """A copy of the pod that may use only the node of this name."""
    meta = {**pod["metadata"], "name": name}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "nodeSelector": {"demand-node": name}}}


def refused(pod):
    """Whether the scheduler found no node for the pod."""
    return any(
        item["type"] == "PodScheduled" and item["status"] == "False" and item["reason"] == "Unschedulable"
        for item in pod["status"].get("conditions") or ()
    )


def test_a_node_of_exactly_the_demand_takes_the_pod_and_one_unit_less_does_not(cluster, scale, seed):
    total = max(1, round(RANDOM_PODS * scale))
    rng = random.Random(seed)
    cluster.create(*runtime_classes())
    outcomes, shorted = collections.Counter(), collections.Counter()
    wrong = []
    for start in range(0, total, BATCH):
        space = cluster.namespace(f"pod-demand-{seed}-{start}")
        pods, nodes, demands = [], [], {}
        for index in range(start, min(total, start + BATCH)):
            made = make_pod(seed, index, space)
            (podset,) = infer_podsets([made], namespace=space, overheads=RUNTIME_CLASSES)
            name = made["metadata"]["name"]
            short, pair = sized_nodes(rng, name, podset.requests)
            shorted[short] += 1
            nodes += pair
            pods += [confined(made, item["metadata"]["name"]) for item in pair]
            demands[name] = podset.requests
        cluster.add_nodes(nodes)
        cluster.create(*pods)
        live = wait_until(
            "the scheduler to decide on every pod",
            lambda space=space: all_decided(cluster.pods(space)),
        )
        for pod in live:
            name, suffix = pod["metadata"]["name"].rsplit("-", 1)
            outcomes[suffix, "placed" if is_bound(pod) else "refused"] += 1
            if is_bound(pod) != (suffix == "exact") or running_pod_requests(pod) != demands[name]:
                wrong.append((pod["metadata"]["name"], is_bound(pod), demands[name], running_pod_requests(pod)))
        cluster.drop_namespace(space)
        wait_until(f"the end of {space}", lambda space=space: not cluster.pods(space))
        cluster.remove_nodes(item["metadata"]["name"] for item in nodes)
    for item in runtime_classes():
        cluster.client.request("DELETE", cluster.path(item))
    print(f"\n{total} random pods, seed {seed}: {dict(outcomes)}; one unit less of {dict(shorted)}")
    assert wrong == []
    assert outcomes == {("exact", "placed"): total, ("lacking", "refused"): total}


def all_decided(pods):
    """The pods once each was bound or refused."""
    return pods if pods and all(is_bound(pod) or refused(pod) for pod in pods) else None
