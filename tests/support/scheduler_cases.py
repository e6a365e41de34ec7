# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random scheduling cases: a few nodes with what runs on them, and a gang. The same seed gives the same case.

Each case keeps to nodes of its own by a label, so that many can be tried on one cluster at once.
"""

from __future__ import annotations

import dataclasses
import random

CASE_LABEL = "muster.kube/case"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"


@dataclasses.dataclass(frozen=True)
class Case:
    """Objects of one case, ready for the API server."""

    name: str
    nodes: list[dict]
    pods: list[dict]
    jobs: list[dict]


def make_case(seed: int, index: int, namespace: str, *, crowded: bool = False) -> Case:
    """The case of this seed and index; crowded ones have less room, so that most gangs must wait."""
    rng = random.Random(f"{seed}/{index}")
    name = f"case-{seed}-{index}"
    nodes = [_node(rng, name, i) for i in range(rng.randint(2, 6))]
    pods = [pod for node in nodes for pod in _tenants(rng, node, namespace, crowded)]
    jobs = [_job(rng, name, i, namespace) for i in range(rng.choices((1, 2, 3), (4, 4, 2))[0])]
    return Case(name, nodes, pods, jobs)


def _node(rng: random.Random, case: str, i: int) -> dict:
    """A node of random size, place and state."""
    name = f"{case}-n{i}"
    labels = {
        CASE_LABEL: case,
        HOSTNAME: name,
        ZONE: f"{case}-{rng.choice('abc')}",
        "disk": rng.choice(("ssd", "hdd")),
        "rank": str(rng.randint(1, 5)),
    }
    if rng.random() < 0.1:
        del labels[ZONE]
    amounts = {
        "cpu": str(rng.choice((1, 2, 4, 6, 8))),
        "memory": f"{rng.choice((2, 4, 8))}Gi",
        "pods": str(rng.choice((4, 110, 110))),
    }
    if rng.random() < 0.6:
        amounts[GPU] = str(rng.choice((1, 2, 4)))
    taints = []
    if rng.random() < 0.15:
        taints.append({"key": "team", "value": rng.choice(("a", "b")), "effect": "NoSchedule"})
    if rng.random() < 0.1:
        taints.append({"key": "soft", "value": "x", "effect": "PreferNoSchedule"})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": taints, "unschedulable": rng.random() < 0.08},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _tenants(rng: random.Random, node: dict, namespace: str, crowded: bool) -> list[dict]:
    """Pods that already run on a node, bound by name."""
    pods = []
    left = int(node["status"]["allocatable"]["cpu"]) * 1000
    share = rng.uniform(0.6, 1.0) if crowded else rng.uniform(0.0, 0.6)
    budget = int(left * share)
    while budget >= 100 and len(pods) < 3:
        cpu = rng.randint(100, budget)
        budget -= cpu
        pods.append(_tenant(rng, node, namespace, len(pods), cpu))
    return pods


def _tenant(rng: random.Random, node: dict, namespace: str, i: int, cpu: int) -> dict:
    """One running pod; some hold a host port or repel others."""
    name = f"{node['metadata']['name']}-t{i}"
    case = node["metadata"]["labels"][CASE_LABEL]
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": f"{cpu}m", "memory": "64Mi"}}}
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    spec = {"nodeName": node["metadata"]["name"], "containers": [container], "tolerations": [{"operator": "Exists"}]}
    if rng.random() < 0.08:
        spec["affinity"] = {"podAntiAffinity": _required({"case": case, "app": "p0"}, HOSTNAME)}
    labels = {"case": case, "app": rng.choice(("tenant", "p0", "p1"))}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": spec,
    }


def _required(labels: dict, key: str) -> dict:
    """A required pod (anti-)affinity with one term."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _job(rng: random.Random, case: str, i: int, namespace: str) -> dict:
    """One podset of the gang as a Job."""
    count = rng.randint(1, 4)
    labels = {"case": case, "app": f"p{i}"}
    requests = {
        "cpu": f"{rng.choice((100, 250, 500, 750, 1000, 1500, 2000))}m",
        "memory": f"{rng.choice((64, 256, 1024))}Mi",
    }
    if rng.random() < 0.15:
        requests[GPU] = str(rng.choice((1, 1, 2)))
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": _limits(requests)}}
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {CASE_LABEL: case},
        "containers": [container],
        "affinity": _affinity(rng, case, i),
    }
    if rng.random() < 0.12:
        spec["nodeSelector"]["disk"] = rng.choice(("ssd", "hdd"))
    if rng.random() < 0.4:
        spec["tolerations"] = [{"key": "team", "operator": "Exists", "effect": "NoSchedule"}]
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": 8080}]
    if rng.random() < 0.15:
        spec["topologySpreadConstraints"] = _spread(rng, labels)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{case}-p{i}", "namespace": namespace},
        "spec": {
            "parallelism": count,
            "completions": count,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def _limits(requests: dict) -> dict:
    """Extended resources must have equal limits."""
    return {name: amount for name, amount in requests.items() if "/" in name}


def _affinity(rng: random.Random, case: str, i: int) -> dict:
    """Node affinity by any operator, and affinity or anti-affinity to pods of the gang or to tenants."""
    affinity: dict = {}
    if rng.random() < 0.12:
        expression = rng.choice(
            (
                {"key": "rank", "operator": "Gt", "values": ["2"]},
                {"key": "rank", "operator": "Lt", "values": ["4"]},
                {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
                {"key": ZONE, "operator": "Exists"},
            )
        )
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [expression]}]
            }
        }
    whom = {"case": case, "app": rng.choice((f"p{i}", f"p{i}", "p0", "p1", "tenant"))}
    key = rng.choice((HOSTNAME, ZONE))
    draw = rng.random()
    if draw < 0.12:
        affinity["podAffinity"] = _required(whom, key)
    elif draw < 0.25:
        affinity["podAntiAffinity"] = _required(whom, key)
    return affinity


def _spread(rng: random.Random, labels: dict) -> list[dict]:
    """A DoNotSchedule spread over hosts or zones."""
    return [
        {
            "maxSkew": rng.choice((1, 1, 2)),
            "topologyKey": rng.choice((HOSTNAME, ZONE)),
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
        }
    ]
