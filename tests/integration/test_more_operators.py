# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The operators and programs that few tests need do their work, all of them in one cluster."""

from __future__ import annotations

import base64
import functools
import json
import os
import subprocess

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import ensure_present
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
    NodeGroup,
)
from ansible_collections.muster.kube.tests.support.gang_cases import job
from ansible_collections.muster.kube.tests.support.kueue_queue import QUEUE_LABEL
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import (
    FILES,
    build_programs,
    cache_directory,
    running_cluster,
)

pytestmark = pytest.mark.full
OPERATORS = ("appwrapper", "lws", "external-secrets", "nfd", "kuberay", "kueue-v0.12", "kaiwo")
PROGRAMS = ("helm",)
NODES = (NodeGroup("node", 2, "32", "64Gi", 110),)


@pytest.fixture(scope="module")
def cluster():
    """One with all of them, and nodes for their pods."""
    build_programs(*OPERATORS, programs=PROGRAMS)
    settings = {"operators": OPERATORS, "programs": PROGRAMS, "nodes": NODES}
    with running_cluster(f"more-operators-{os.getpid()}", **settings) as running:
        yield running


def running_pods(cluster: LiveCluster, namespace: str) -> int:
    """How many pods of a namespace run."""
    return sum(item["status"].get("phase") == "Running" for item in cluster.pods(namespace))


def nodes_with(cluster: LiveCluster, label: str) -> list[str]:
    """The names of the nodes with a label."""
    listing = list_objects(
        cluster.client, "/api/v1/nodes", keep=lambda node: node["metadata"]["name"], label_selector=label
    )
    return listing.items


def test_helm_installs_a_chart(cluster, namespace, tmp_path):
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 1.2.3\n")
    made = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "made"},
        "data": {"by": "{{ .Release.Name }}"},
    }
    (tmp_path / "templates" / "made.yaml").write_text(json.dumps(made))
    program = f"{cluster.result['programs']['helm']['path']}/helm"
    command = [program, "--kubeconfig", cluster.kubeconfig, "--namespace", namespace]
    run_helm = functools.partial(subprocess.run, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    run_helm([*command, "install", "first", str(tmp_path)])
    assert get_object(cluster.client, resource_path("v1", "configmaps", namespace, "made"))["data"] == {"by": "first"}
    listed = run_helm([*command, "list", "--output=json"])
    assert [item["chart"] for item in json.loads(listed.stdout)] == ["tiny-1.2.3"]


def test_the_job_of_an_appwrapper_gets_pods(cluster, namespace):
    wrapped = job("wrapped", None, 2)
    wrapped["metadata"]["namespace"] = namespace
    wrapper = {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "wrapper", "namespace": namespace},
        "spec": {"components": [{"template": wrapped}]},
    }
    cluster.create(wrapper)
    assert wait_until("the pods of its Job to run", lambda: running_pods(cluster, namespace) == 2)
    path = resource_path("workload.codeflare.dev/v1beta2", "appwrappers", namespace, "wrapper")
    assert wait_until("it to say so", lambda: get_object(cluster.client, path)["status"].get("phase") == "Running")


def test_the_groups_of_a_leaderworkerset_get_pods_and_bad_ones_are_refused(cluster, namespace):
    spec = {"containers": [{"name": "main", "image": "none"}]}
    groups = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "groups", "namespace": namespace},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": {"spec": spec}}},
    }
    bad = {**groups, "metadata": {"name": "bad", "namespace": namespace}, "spec": {**groups["spec"], "replicas": -1}}
    with pytest.raises(ApiError, match="should be a non-negative integer"):
        cluster.create(bad)
    cluster.create(groups)
    assert wait_until("leaders and workers to run", lambda: running_pods(cluster, namespace) == 6)
    # What the webhook of pods adds.
    variables = {item["name"] for item in cluster.pods(namespace)[0]["spec"]["containers"][0]["env"]}
    assert {"LWS_LEADER_ADDRESS", "LWS_GROUP_SIZE"} <= variables


def test_an_external_secret_becomes_a_secret(cluster, namespace):
    store = {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ClusterSecretStore",
        "metadata": {"name": namespace},
        "spec": {"provider": {"fake": {"data": [{"key": "/team/password", "value": "open sesame"}]}}},
    }
    external = {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {"name": "external", "namespace": namespace},
        "spec": {
            "secretStoreRef": {"name": namespace, "kind": "ClusterSecretStore"},
            "target": {"name": "made"},
            "data": [{"secretKey": "password", "remoteRef": {"key": "/team/password"}}],
        },
    }
    cluster.create(store, external)
    path = resource_path("v1", "secrets", namespace, "made")
    made = wait_until("the Secret to be made", lambda: get_object(cluster.client, path))
    assert base64.b64decode(made["data"]["password"]) == b"open sesame"


def test_a_rule_labels_the_node_that_has_the_feature(cluster, namespace):
    labels = {"nfd.node.kubernetes.io/node-name": "node-0"}
    features = {"flags": {}, "instances": {}, "attributes": {"board.id": {"elements": {"vendor": "acme"}}}}
    found = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeature",
        "metadata": {"name": "node-0", "namespace": namespace, "labels": labels},
        "spec": {"features": features, "labels": {}},
    }
    terms = [{"feature": "board.id", "matchExpressions": {"vendor": {"op": "In", "value": ["acme"]}}}]
    rule = {
        "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
        "kind": "NodeFeatureRule",
        "metadata": {"name": namespace},
        "spec": {"rules": [{"name": "acme", "labels": {"example.com/acme": "yes"}, "matchFeatures": terms}]},
    }

    cluster.create(rule, found)
    assert wait_until("the label", lambda: nodes_with(cluster, "example.com/acme=yes")) == ["node-0"]


def test_kaiwo_makes_its_queues_and_kueue_admits_to_them(cluster, namespace):
    quotas = [{"name": "cpu", "nominalQuota": "8"}, {"name": "memory", "nominalQuota": "8Gi"}]
    queue = {
        "name": "team",
        "namespaces": [namespace],
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "all", "resources": quotas}]}
            ],
        },
    }
    wanted = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoQueueConfig",
        "metadata": {"name": "kaiwo"},
        "spec": {"clusterQueues": [queue], "resourceFlavors": [{"name": "all"}], "workloadPriorityClasses": []},
    }
    path = resource_path("kaiwo.silogen.ai/v1alpha1", "kaiwoqueueconfigs", None, "kaiwo")
    patch(cluster.client, path, wanted, patch_type="apply", force=True)

    def state() -> str | None:
        """What Kaiwo says of its queues."""
        return (get_object(cluster.client, path).get("status") or {}).get("status")

    assert wait_until("the queues to be ready", lambda: state() == "READY")
    kueue = "kueue.x-k8s.io/v1beta1"
    cluster_queue, local_queue = resource_path(kueue, "clusterqueues"), resource_path(kueue, "localqueues", namespace)
    for collection in (cluster_queue, local_queue):
        assert wait_until("Kueue's queue", lambda path=f"{collection}/team": get_object(cluster.client, path))
    queued = job("queued", None, cpu="1", memory="1Gi")
    queued["metadata"].update(namespace=namespace, labels={QUEUE_LABEL: "team"})
    template = {"spec": {"containers": [{"name": "main", "image": "none"}], "restartPolicy": "Never"}}
    own = {
        "apiVersion": "kaiwo.silogen.ai/v1alpha1",
        "kind": "KaiwoJob",
        "metadata": {"name": "own", "namespace": namespace},
        "spec": {"user": "somebody@example.com", "clusterQueue": "team", "job": {"spec": {"template": template}}},
    }
    cluster.create(queued, own)
    assert wait_until("the pod of the Job to run", lambda: running_pods(cluster, namespace) == 1)
    made = resource_path("batch/v1", "jobs", namespace, "own")
    assert wait_until("the Job of the KaiwoJob", lambda: get_object(cluster.client, made))
    assert get_object(cluster.client, made)["metadata"]["labels"][QUEUE_LABEL] == "team"


def reconciled(cluster: LiveCluster, *operators: str, check_mode: bool = False) -> list[str]:
    """What a run does that wants these operators."""
    spec = ClusterSpec(cluster.result["name"], NODES, operators, programs=PROGRAMS)
    request = ClusterOptions(spec, cache_directory(), FILES, 120.0, check_mode=check_mode)
    return ensure_present(request, lambda _text: None)["actions"]


def test_a_second_run_has_nothing_to_do(cluster):
    assert reconciled(cluster, *OPERATORS, check_mode=True) == []
    assert reconciled(cluster, *OPERATORS) == []
