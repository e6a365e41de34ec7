# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Matching nodes against the real API server and kube-scheduler: pods with the affinity of random asks."""

from __future__ import annotations

import collections
import random

from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware import (
    affinity_terms,
    gpu_requests,
    match_nodes,
)
from ansible_collections.muster.kube.tests.support.hardware_cases import make_ask, make_node
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until

ASKS = 600
NODES = 16
ROUND = 60
# Keeps the pods of this test on its nodes, whatever else the cluster has.
POOL = "muster.kube/hardware-agreement"


def pod(name, namespace, ask, nodes):
    """A pod that asks for the hardware."""
    requests = {"cpu": "1m", **gpu_requests(ask)}
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": gpu_requests(ask)}}
    spec = {"containers": [container], "affinity": {"nodeAffinity": affinity_terms(ask, nodes)}}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def is_judged(one):
    """Whether the scheduler has said where the pod goes, or that it goes nowhere."""
    conditions = one.get("status", {}).get("conditions") or ()
    refused = any(item["type"] == "PodScheduled" and item["status"] == "False" for item in conditions)
    return is_bound(one) or refused


def roomy(node):
    """The node with more GPUs than all pods of a round can take, so that only hardware decides and never room."""
    for name in node["status"]["allocatable"]:
        if "/" in name:
            node["status"]["allocatable"][name] = str(ROUND * 4)
    return node


def run_round(cluster, rng, namespace, number):
    """New nodes, a pod for each ask; what was expected and where each pod went."""
    names = [f"{namespace}-{i}" for i in range(NODES)]
    made = [roomy(make_node(rng, name)) for name in names]
    for node in made:
        node["metadata"]["labels"][POOL] = namespace
    cluster.add_nodes(made)
    nodes = list_objects(cluster.client, "/api/v1/nodes", keep=lambda node: node).items
    asks = []
    for _number in range(number):
        data = make_ask(rng)
        data["node_selector"] = {**data.get("node_selector", {}), POOL: namespace}
        asks.append((data, hardware_from_data(data, "hardware")))
    expected = {f"ask-{i}": (data, match_nodes(ask, nodes)) for i, (data, ask) in enumerate(asks)}
    cluster.create(*(pod(f"ask-{i}", namespace, ask, nodes) for i, (_data, ask) in enumerate(asks)))

    def judged():
        pods = cluster.pods(namespace)
        return pods if len(pods) == number and all(is_judged(one) for one in pods) else None

    placed = {one["metadata"]["name"]: one["spec"].get("nodeName") for one in wait_until("the scheduler", judged)}
    cluster.clear_namespace(namespace)
    wait_until(f"the end of {namespace}", lambda: not cluster.pods(namespace))
    cluster.remove_nodes(names)
    return expected, placed


def test_the_scheduler_finds_the_nodes_that_match(cluster, scale, seed):
    left = max(20, round(ASKS * scale))
    outcomes = collections.Counter()
    wrong = []
    for number in range(-(-left // ROUND)):
        rng = random.Random(f"hardware/{seed}/{number}")
        namespace = cluster.namespace(f"hardware-{seed}-{number}")
        expected, placed = run_round(cluster, rng, namespace, min(ROUND, left - number * ROUND))
        for name, (data, match) in expected.items():
            where = placed[name]
            outcomes["placed" if where else "pending"] += 1
            if (where in match.matching) if match.matching else (where is None):
                continue
            wrong.append((data, where, match.matching))
    print(f"\nhardware agreement, seed {seed}: {dict(outcomes)}; differing: {wrong}")
    assert wrong == []
    assert outcomes["placed"] >= 0.2 * left
    assert outcomes["pending"] >= 0.2 * left
