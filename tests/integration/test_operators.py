# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operators of a local cluster do their work: pods of their objects run, and what they forbid is refused."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import build_node
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until


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
    job = {
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
    bad = json.loads(json.dumps(job))
    bad["metadata"]["name"] = "bad"
    bad["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["name"] = "wrong"
    with pytest.raises(ApiError, match=r"(?i)webhook .* denied the request"):
        cluster.create(bad)
    _with_nodes(cluster, namespace, job, spec)
    assert wait_until("master and workers to run", lambda: _running(cluster, namespace) == 3)


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


def _with_nodes(cluster: LiveCluster, namespace: str, obj: dict[str, t.Any], spec: dict[str, t.Any]) -> None:
    """Create an object whose pods go to a node of the test's own."""
    own = NodeGroup(namespace[:40].strip("-"), 1, "8", "8118372Ki", 110, labels=(("test", namespace),))
    cluster.add_nodes([build_node(own, 0)])
    spec["nodeSelector"] = {"test": namespace}
    cluster.create(json.loads(json.dumps(obj)))


def _running(cluster: LiveCluster, namespace: str) -> int:
    """How many pods run."""
    return sum(item["status"].get("phase") == "Running" for item in cluster.pods(namespace))
