# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operators of a local cluster do their work: pods of their objects run, and what they forbid is refused."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import ensure_present
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import build_node
from ansible_collections.muster.kube.tests.support.gang_cases import job
from ansible_collections.muster.kube.tests.support.kueue_queue import QUEUE_LABEL, kueue_queue
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, cache_directory

RESERVED = "QuotaReserved"


@pytest.fixture(scope="module")
def cluster(operator_cluster: LiveCluster) -> LiveCluster:
    """The one with operators."""
    return operator_cluster


def test_ray_pods_run(cluster: LiveCluster, namespace):
    template = {
        "spec": {
            "containers": [{"name": "ray", "image": "none", "resources": {"limits": {"cpu": "1", "memory": "2G"}}}]
        }
    }
    ray = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray", "namespace": namespace},
        "spec": {
            "rayVersion": "2.46.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template},
            "workerGroupSpecs": [
                {
                    "groupName": "w",
                    "replicas": 2,
                    "minReplicas": 2,
                    "maxReplicas": 2,
                    "rayStartParams": {},
                    "template": template,
                }
            ],
        },
    }
    _with_nodes(cluster, namespace, ray, template["spec"])
    assert wait_until("head and workers to run", lambda: _running(cluster, namespace) == 3)


def test_training_pods_run_and_bad_jobs_are_refused(cluster: LiveCluster, namespace):
    spec = {"containers": [{"name": "pytorch", "image": "none"}]}
    train = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": {"spec": spec}},
                "Worker": {"replicas": 2, "template": {"spec": spec}},
            }
        },
    }
    bad = json.loads(json.dumps(train))
    bad["metadata"]["name"] = "bad"
    bad["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] = "wrong"
    with pytest.raises(ApiError, match=r"(?i)webhook .* denied the request"):
        cluster.create(bad)
    _with_nodes(cluster, namespace, train, spec)
    assert wait_until("master and workers to run", lambda: _running(cluster, namespace) == 3)


def queued_job(name: str, namespace: str, pods: int) -> dict[str, t.Any]:
    """A Job of pods with one cpu each, for the queue of its namespace."""
    made = job(name, None, pods)
    made["metadata"].update(namespace=namespace, labels={QUEUE_LABEL: "queue"})
    return made


def workload_of(cluster: LiveCluster, made: dict[str, t.Any], version: str = "v1beta2") -> dict[str, t.Any] | None:
    """What Kueue made of a Job, if it has."""
    path = resource_path(f"kueue.x-k8s.io/{version}", "workloads", made["metadata"]["namespace"])
    selector = f"kueue.x-k8s.io/job-uid={made['metadata']['uid']}"
    items = list_objects(cluster.client, path, keep=lambda item: item, label_selector=selector).items
    return items[0] if items else None


def condition(obj: dict[str, t.Any] | None, name: str) -> str | None:
    """The status of a condition, None where there is none."""
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((item["status"] for item in found if item["type"] == name), None)


def test_kueue_admits_what_its_quota_has_room_for(cluster: LiveCluster, namespace):
    cluster.create(*kueue_queue("queue", namespace, cpu=4))
    fits, too_large = queued_job("fits", namespace, 2), queued_job("too-large", namespace, 5)
    _with_nodes(cluster, namespace, fits, fits["spec"]["template"]["spec"])
    _with_nodes(cluster, namespace, too_large, too_large["spec"]["template"]["spec"], nodes=0)
    assert wait_until("the pods of the one that fits to run", lambda: _running(cluster, namespace) == 2)
    jobs = {
        name: get_object(cluster.client, resource_path("batch/v1", "jobs", namespace, name))
        for name in ("fits", "too-large")
    }
    assert condition(workload_of(cluster, jobs["fits"]), "Admitted") == "True"
    assert wait_until("Kueue to judge the other", lambda: condition(workload_of(cluster, jobs["too-large"]), RESERVED))
    assert condition(workload_of(cluster, jobs["too-large"]), RESERVED) == "False"
    assert [made["spec"]["suspend"] for made in jobs.values()] == [False, True]
    assert len(cluster.pods(namespace)) == 2
    # Kueue itself converts this older version.
    assert workload_of(cluster, jobs["fits"], "v1beta1")["spec"]["queueName"] == "queue"


@pytest.mark.full
def test_jobset_pods_run(cluster: LiveCluster, namespace):
    spec = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    jobset = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": namespace},
        "spec": {
            "replicatedJobs": [
                {
                    "name": "workers",
                    "replicas": 2,
                    "template": {"spec": {"parallelism": 2, "completions": 2, "template": {"spec": spec}}},
                }
            ]
        },
    }
    _with_nodes(cluster, namespace, jobset, spec)
    assert wait_until("the pods of both jobs to run", lambda: _running(cluster, namespace) == 4)


def reconciled(cluster: LiveCluster, *operators: str, check_mode: bool = False) -> list[str]:
    """What a run does that wants these operators."""
    spec = ClusterSpec(cluster.result["name"], operators=operators)
    request = ClusterOptions(spec, cache_directory(), FILES, 120.0, check_mode=check_mode)
    return ensure_present(request, lambda _text: None)["actions"]


def test_kueue_stands_in_nobodys_way_once_it_is_dropped(cluster: LiveCluster, namespace):
    wanted = cluster.result["operators"]
    # The nodes of tests are none that were asked for here.
    predicted = [line for line in reconciled(cluster, *wanted, check_mode=True) if "node" not in line]
    assert predicted == []
    others = [name for name in wanted if name != "kueue"]
    assert "stop kueue" in reconciled(cluster, *others)
    try:
        assert not reconciled(cluster, *others)
        made = job("job", None)
        made["metadata"]["namespace"] = namespace
        _with_nodes(cluster, namespace, made, made["spec"]["template"]["spec"])
        assert wait_until("the pod to run", lambda: _running(cluster, namespace) == 1)
        older = resource_path("kueue.x-k8s.io/v1beta1", "clusterqueues")
        assert list_objects(cluster.client, older, keep=lambda item: item).items is not None
    finally:
        assert "start kueue" in reconciled(cluster, *wanted)
    assert not reconciled(cluster, *wanted)


def _with_nodes(
    cluster: LiveCluster, namespace: str, obj: dict[str, t.Any], spec: dict[str, t.Any], nodes: int = 1
) -> None:
    """Create an object whose pods go to nodes of the test's own."""
    own = NodeGroup(namespace[:40].strip("-"), nodes, "8", "8118372Ki", 110, labels=(("test", namespace),))
    cluster.add_nodes([build_node(own, number) for number in range(nodes)])
    spec["nodeSelector"] = {"test": namespace}
    cluster.create(json.loads(json.dumps(obj)))


def _running(cluster: LiveCluster, namespace: str) -> int:
    """How many pods run."""
    return sum(item["status"].get("phase") == "Running" for item in cluster.pods(namespace))
