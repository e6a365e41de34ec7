# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long "will it fit?" takes on a large cluster, next to what kubectl needs to read the same objects.

A real API server is filled with nodes and with pods bound to them by name; nobody plays them. Each question is asked by
a fresh process, so that time and memory are those of a cold answer.

Usage: fit.py [--nodes 5000] [--pods 50000] [--seed 1] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time

from ansible.plugins.loader import init_plugin_loader

DECIDE_LIMIT_MS = 50
GPU = "nvidia.com/gpu"
WIDTH = 16


def build_node(i: int) -> dict:
    """Every fifth node has eight GPUs; ten zones."""
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", **({GPU: "8"} if i % 5 == 0 else {})}
    labels = {"kubernetes.io/hostname": f"n{i:05d}", "zone": f"z{i % 10}", "pool": "gpu" if i % 5 == 0 else "cpu"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{i:05d}", "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def build_pod(rng: random.Random, i: int, nodes: int) -> dict:
    """A pod of random size on a node of its own choice."""
    on = i % nodes
    requests = {"cpu": f"{rng.randint(1, 60) * 100}m", "memory": f"{rng.randint(1, 20)}Gi"}
    limits = {}
    if on % 5 == 0 and rng.random() < 0.3:
        requests[GPU] = limits[GPU] = "1"
    container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"p{i:06d}", "namespace": "default", "labels": {"app": f"a{i % 50}"}},
        "spec": {"nodeName": f"n{on:05d}", "containers": [container]},
    }


def build_job(name: str, count: int, requests: dict, **spec) -> dict:
    """A Job as one podset of a gang."""
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


def build_gangs() -> dict[str, list[dict]]:
    """The questions asked: what fits, what waits, and what rules make harder."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return {
        "head and 8 workers": [
            build_job("head", 1, {"cpu": "4", "memory": "16Gi"}),
            build_job("worker", 8, {"cpu": "8", "memory": "32Gi", GPU: "2"}),
        ],
        "64 + 64 + 4 pods": [
            build_job("a", 64, {"cpu": "8", "memory": "32Gi", GPU: "4"}),
            build_job("b", 64, {"cpu": "16"}),
            build_job("c", 4, {"cpu": "2"}),
        ],
        "2,000 + 1,000 pods": [build_job("a", 2000, {"cpu": "8", GPU: "4"}), build_job("b", 1000, {"cpu": "16"})],
        "4,000 pods, too many": [build_job("w", 4000, {"cpu": "8", GPU: "4"}), build_job("h", 10, {"cpu": "4"})],
        "100 pods spread over zones": [build_job("spread", 100, {"cpu": "8"}, topologySpreadConstraints=[spread])],
    }


def fill(client, nodes: int, pods: int, seed: int) -> None:
    """Create everything; new nodes are tainted as not ready on creation, so the taint is taken off again."""
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
    from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, patch

    rng = random.Random(seed)

    def add_node(i: int) -> None:
        create(client, "/api/v1/nodes", build_node(i))
        patch(client, f"/api/v1/nodes/n{i:05d}", {"spec": {"taints": None}}, patch_type="merge")

    started = time.monotonic()
    parallel([lambda i=i: add_node(i) for i in range(nodes)], WIDTH)
    bodies = [build_pod(rng, i, nodes) for i in range(pods)]
    parallel([lambda body=body: create(client, "/api/v1/namespaces/default/pods", body) for body in bodies], WIDTH)
    print(f"filled {nodes} nodes and {pods} pods in {time.monotonic() - started:.0f} s", flush=True)


def ask(kubeconfig: str) -> None:
    """One cold process: read once, then decide each gang alone; print figures as JSON."""
    from ansible_collections.muster.kube.plugins.module_utils._flow.fit.answer import gang_of
    from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import needs_of, read_snapshot
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
    from ansible_collections.muster.kube.plugins.module_utils._kube.reads import without_gc
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
    from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
    from ansible_collections.muster.kube.plugins.module_utils._policy.placement.advice import with_advice
    from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge
    from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

    requests = [GangRequest(name, "default", tuple(objects), None) for name, objects in build_gangs().items()]
    client = connect({"kubeconfig": kubeconfig})
    reading = read_snapshot(client, needs_of([gang_of(request, Snapshot()) for request in requests]))
    started = time.perf_counter()
    room = Room(reading.snapshot)
    # Built once for all gangs that have rules about other pods.
    indexed = len(room.groups)
    prepared = time.perf_counter() - started
    figures = {
        "list": reading.seconds_listing,
        "decode": reading.seconds_decoding,
        "prepare": prepared,
        "label_groups": indexed,
        "gangs": {},
    }
    with without_gc():
        for request in requests:
            gang = gang_of(request, reading.snapshot)
            started = time.perf_counter()
            verdict = judge(room, gang)
            decided = time.perf_counter()
            advised = with_advice(room, gang, verdict)
            figures["gangs"][request.name] = {
                "answer": f"{verdict.answer} ({verdict.how or verdict.reason})",
                "decide_ms": (decided - started) * 1000,
                "advice_ms": (time.perf_counter() - decided) * 1000,
                "advice": [item.change for item in advised.advice],
            }
    figures["peak_mib"] = peak_memory_mib()
    print(json.dumps(figures))


def peak_memory_mib() -> float:
    """Most memory this program has held; getrusage would count what came before it in the same process."""
    with open("/proc/self/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def measure(arguments: argparse.Namespace) -> None:
    """Fill a cluster, ask several times, print a table."""
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    with running_cluster(f"bench-{os.getpid()}") as cluster:
        cluster.stop_components("kube-controller-manager", "kube-scheduler", "kwok")
        fill(cluster.client, arguments.nodes, arguments.pods, arguments.seed)
        runs = []
        kubectl_seconds = []
        for _round in range(arguments.rounds):
            started = time.monotonic()
            for kind in ("nodes", "pods"):
                command = [cluster.kubectl, "--kubeconfig", cluster.kubeconfig, "get", kind, "-A", "-o", "json"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            kubectl_seconds.append(time.monotonic() - started)
            answer = subprocess.run(
                [sys.executable, __file__, "--ask", cluster.kubeconfig],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            runs.append(json.loads(answer.stdout))
        show(arguments, runs, kubectl_seconds)


def show(arguments: argparse.Namespace, runs: list[dict], kubectl_seconds: list[float]) -> None:
    """The table, best of the rounds; load is printed because it explains the rest."""
    best = {key: min(run[key] for run in runs) for key in ("list", "decode", "prepare", "peak_mib")}
    print(
        f"\n{arguments.nodes} nodes, {arguments.pods} pods, seed {arguments.seed}, best of {arguments.rounds} rounds; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    print(
        f"list {best['list']:.2f} s, decode {best['decode']:.2f} s, prepare {best['prepare']:.2f} s, "
        f"peak memory {best['peak_mib']:.0f} MiB; kubectl get nodes,pods -A -o json {min(kubectl_seconds):.2f} s"
    )
    print(f"\n| gang | answer | decide, ms (limit {DECIDE_LIMIT_MS}) | limit | advice, ms |\n|---|---|---|---|---|")
    for name, figures in runs[0]["gangs"].items():
        decide = min(run["gangs"][name]["decide_ms"] for run in runs)
        advice = min(run["gangs"][name]["advice_ms"] for run in runs)
        kept = "kept" if decide <= DECIDE_LIMIT_MS else "MISSED"
        print(f"| {name} | {figures['answer']} | {decide:.0f} | {kept} | {advice:.0f} |")


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ask", metavar="KUBECONFIG", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    init_plugin_loader()
    if arguments.ask:
        ask(arguments.ask)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
