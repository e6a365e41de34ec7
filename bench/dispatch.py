# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast gangs are dispatched, what that costs, and how a cycle grows with its queue.

a  many gangs of four pods that all fit
b  one-pod AppWrappers, here and by the real MCAD in a cluster of its own, one after the other; both are at work
   before the first wrapper is created, and both are timed by the same clock from that moment until all pods run
c  gangs of 1, 5 and 20 units that run for 0.2, 0.5 and 1 s and compete for 600 units, in one queue

All clusters are real: API server, scheduler, controllers; only nodes and what runs there are simulated. In a and c time
runs from the moment everything is queued to the moment the last gang is running (a) or complete (c).

Usage: dispatch.py [--parts abc] [--seed 1] [--gangs 1000] [--nodes 200] [--wrappers 150] [--queues 1000 3000]
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import itertools
import os
import random
import resource
import sys
import time
from concurrent import futures

from ansible.plugins.loader import init_plugin_loader

PODS_RUN_SECONDS = 1200
MOST_SECONDS = 1800
SPEED_UP = 10
SIZES = ((0.70, 1, 0.2), (0.20, 5, 0.5), (0.10, 20, 1.0))
UNITS, UNITS_PER_NODE = 600, 20
NAMESPACE = "bench"


class Watcher:
    """What the cycles of one run cost."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self.cycles: list[dict] = []

    def see(self, cycle) -> None:
        """Note one cycle: how many waited, and the time of each part."""
        phases = collections.Counter(record.phase for record in cycle.records.values())
        self.cycles.append({"waiting": phases["queued"], "phases": phases, **cycle.seconds})

    def decide(self, low: float, high: float) -> str:
        """Milliseconds for deciding in cycles whose queue had between low and high gangs."""
        times = [1000 * item["decide"] for item in self.cycles if low <= item["waiting"] < high]
        return f"{sum(times) / len(times):.0f}" if times else "-"


def run(cluster, until, watcher: Watcher, policy: str = "reserve"):
    """Dispatch with a watch until the phases are as wanted."""
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
    from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions

    auth = {"kubeconfig": cluster.kubeconfig}
    terms = DispatchOptions(namespaces=(NAMESPACE,), duration=MOST_SECONDS, policy=policy)
    started = time.monotonic()
    result = run_dispatch(connect(auth), connect(auth), terms, lambda text: None, until=until, on_cycle=watcher.see)
    seconds = time.monotonic() - started
    if not until(result.phases):
        sys.exit(f"not done after {seconds:.0f} s: {collections.Counter(result.phases.values())} {result.warnings}")
    return seconds, result


def all_in(*phases: str):
    """Whether every gang is in one of these phases."""
    return lambda found: all(phase in phases for phase in found.values())


def fill(cluster, objects: list[dict]) -> float:
    """Create objects side by side; how long it took."""
    started = time.monotonic()
    cluster.create(*objects)
    return time.monotonic() - started


def opened(name: str, nodes: int, operators=(), **amounts: str):
    """A cluster with nodes of this size and a namespace; a context."""
    from ansible_collections.muster.kube.tests.support.gang_cases import node_pool
    from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

    @contextlib.contextmanager
    def context():
        with running_cluster(f"bench-{name}-{os.getpid()}", operators=operators) as cluster:
            cluster.add_nodes(node_pool("bench", nodes, **amounts))
            cluster.namespace(NAMESPACE)
            yield cluster

    return context()


def bench_gangs(arguments: argparse.Namespace) -> None:
    """Part a."""
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job

    records = [
        gang_record(f"g{i:05d}", NAMESPACE, [job(f"g{i:05d}", "bench", 4, seconds=PODS_RUN_SECONDS, cpu="1")])
        for i in range(arguments.gangs)
    ]
    per_node = -(-4 * arguments.gangs // arguments.nodes)
    with opened("a", arguments.nodes, cpu=str(per_node + 2), memory="256Gi") as cluster:
        queued = fill(cluster, records)
        watcher = Watcher()
        seconds, result = run(cluster, all_in("running"), watcher)
    show(
        "a", f"{arguments.gangs} gangs of 4 pods on {arguments.nodes} nodes", arguments.gangs, seconds, result, watcher
    )
    print(f"  queued in {queued:.1f} s; {4 * arguments.gangs / seconds:.0f} pods/s bound")


def bench_wrappers(arguments: argparse.Namespace) -> None:
    """Part b, ours and MCAD's."""
    ours = _wrappers_by_us(arguments)
    theirs = _wrappers_by_mcad(arguments)
    print(
        f"  MCAD v1.40.0: {theirs:.1f} s, {arguments.wrappers / theirs:.2f} wrappers/s; "
        f"{theirs / ours:.1f} times as fast (bar {SPEED_UP}): {'kept' if theirs / ours >= SPEED_UP else 'MISSED'}"
    )


def _wrappers(arguments: argparse.Namespace, *, managed: bool) -> list[dict]:
    """One-pod wrappers that all fit."""
    from ansible_collections.muster.kube.tests.support.gang_cases import app_wrapper, generic_item, job

    needs = [{"replicas": 1, "requests": {"cpu": "5m", "memory": "5Mi"}, "limits": {"cpu": "5m", "memory": "5Mi"}}]
    return [
        app_wrapper(
            f"w{i:04d}",
            NAMESPACE,
            [
                generic_item(
                    job(f"w{i:04d}", "bench", 1, seconds=PODS_RUN_SECONDS, cpu="5m", memory="5Mi"), podsets=needs
                )
            ],
            managed=managed,
        )
        for i in range(arguments.wrappers)
    ]


def _wrappers_by_us(arguments: argparse.Namespace) -> float:
    """Seconds until the pods of all wrappers run; the dispatcher goes on until it has told so of each."""
    from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

    with opened("b", 2, cpu="8", memory="16Gi", pods="250") as cluster, futures.ThreadPoolExecutor(1) as pool:
        install_wrapper_crd(cluster.client)
        watcher, all_running = Watcher(), all_in("running")
        dispatcher = pool.submit(
            run, cluster, lambda found: len(found) == arguments.wrappers and all_running(found), watcher
        )
        while not watcher.cycles:
            time.sleep(0.01)
        seconds = _until_running(cluster, arguments, managed=True)
        _own_seconds, result = dispatcher.result()
    show("b", f"{arguments.wrappers} one-pod AppWrappers", arguments.wrappers, seconds, result, watcher)
    return seconds


def _wrappers_by_mcad(arguments: argparse.Namespace) -> float:
    """The same by the real MCAD."""
    with opened("mcad", 2, operators=("mcad",), cpu="8", memory="16Gi", pods="250") as cluster:
        return _until_running(cluster, arguments, managed=False)


def _until_running(cluster, arguments: argparse.Namespace, *, managed: bool) -> float:
    """Seconds from the first wrapper created until the pods of all run."""
    started = time.monotonic()
    fill(cluster, _wrappers(arguments, managed=managed))
    while True:
        running = [pod for pod in cluster.pods(NAMESPACE) if pod["status"].get("phase") == "Running"]
        if len(running) >= arguments.wrappers:
            return time.monotonic() - started
        if time.monotonic() - started > MOST_SECONDS:
            sys.exit(f"only {len(running)} of {arguments.wrappers} pods were started")
        time.sleep(0.25)


def bench_queue(arguments: argparse.Namespace, gangs: int) -> None:
    """Part c."""
    from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job

    rng = random.Random(arguments.seed)
    records = []
    for i in range(gangs):
        _share, units, seconds = rng.choices(SIZES, [share for share, _units, _seconds in SIZES])[0]
        work = job(f"q{i:05d}", "bench", 1, seconds=seconds, cpu=str(units))
        records.append(gang_record(f"q{i:05d}", NAMESPACE, [work]))
    with opened("c", UNITS // UNITS_PER_NODE, cpu=str(UNITS_PER_NODE), memory="256Gi") as cluster:
        fill(cluster, records)
        watcher = Watcher()
        seconds, result = run(cluster, all_in("complete"), watcher)
    show("c", f"{gangs} gangs of 1, 5 and 20 units in one queue", gangs, seconds, result, watcher)
    marks = (0.1, 0.25, 0.5, 0.75, 1.01)
    bands = [
        f"{low:.0%} to {min(1.0, high):.0%} waiting {watcher.decide(low * gangs, high * gangs)} ms"
        for low, high in itertools.pairwise(marks)
    ]
    print(f"  deciding, by length of the queue: {'; '.join(bands)}")


def show(part: str, what: str, gangs: int, seconds: float, result, watcher: Watcher) -> None:
    """One paragraph of figures."""
    sent = sum(result.requests.values())
    writes = sent - result.requests.get("GET", 0)
    parts = ", ".join(f"{name} {value:.1f} s" for name, value in sorted(result.seconds.items()) if name != "all")
    print(f"\n{part}: {what}: {seconds:.1f} s, {gangs / seconds:.1f} gangs/s; load {os.getloadavg()[0]:.1f}")
    print(f"  {result.cycles} cycles; {sent} requests ({sent / gangs:.1f} a gang), {writes} of them writes; {parts}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"  peak memory {peak:.0f} MiB; longest cycle decided {max(c.get('decide', 0) for c in watcher.cycles):.2f} s",
        flush=True,
    )


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default="abc")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gangs", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--wrappers", type=int, default=150)
    parser.add_argument("--queues", type=int, nargs="+", default=[1000, 3000])
    arguments = parser.parse_args()
    init_plugin_loader()
    print(f"seed {arguments.seed}, {os.cpu_count()} cores")
    if "a" in arguments.parts:
        bench_gangs(arguments)
    if "b" in arguments.parts:
        bench_wrappers(arguments)
    if "c" in arguments.parts:
        for gangs in arguments.queues:
            bench_queue(arguments, gangs)


if __name__ == "__main__":
    main()
