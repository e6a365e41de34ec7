# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How soon elastic jobs take GPUs that became free, and what a resize costs, in a real cluster with simulated nodes.

Half of the jobs get other numbers of pods (scale), half get larger or smaller pods (suspend). They share nodes of eight
GPUs with jobs of fixed size and with pods of nobody in particular. One after the other such a pod is deleted, such a
job ends, or another one comes for which somebody has to shrink; nothing else happens until the sizes rest again.

The clock runs from the moment at which an observer, a process of its own, sees that the pod is gone or has ended, until
it sees the first patch of any job. Writes are those of the dispatcher, by what it wrote and by the method of the resize
that they belong to; a write of the Lease counts for the resize that it commits. Events are told apart: they are sent in
the background and limited.

Usage: elastic_live.py [--seeds 1] [--jobs 40] [--nodes 25] [--events 24]
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import random
import statistics
import time
import typing as t

from ansible_collections.muster.kube.bench.dispatching.accounts import Account, Meter, wait_for_rest
from ansible_collections.muster.kube.bench.dispatching.figures import Bar, percentile
from ansible_collections.muster.kube.bench.dispatching.resizes import ResizeWrites, count_writes, delays
from ansible_collections.muster.kube.bench.dispatching.systems import CLIENTS, MOST_SECONDS, Companion, create_all
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import RESIZE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import read_state
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, kwok_node, pod
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import build_programs, running_cluster

Object = dict[str, t.Any]
Event = t.Literal["deleted", "ended", "newcomer"]

NAMESPACE, POOL, GPU = "bench", "bench", "nvidia.com/gpu"
GPUS, LEAST, MOST = 8, 2, 8
# GPUs of a pod of nobody, and of a job of fixed size.
BLOCK = 4
# Sizes rest when nothing was patched for so long and no job is between two sizes.
REST_SECONDS = 1.5
# How GPUs become free: a pod is deleted, or ends.
WAYS = ("gone", "ended")
DELAY_BAR, WRITE_BARS = 1.0, {"scale": 4.0, "suspend": 6.0}


@dataclasses.dataclass(frozen=True)
class LiveLoad:
    """What is there in the beginning, and what happens then."""

    elastic: tuple[Object, ...]
    fixed: tuple[Object, ...]
    foreign: tuple[Object, ...]
    nodes: tuple[Object, ...]
    events: tuple[Event, ...]

    @property
    def names(self) -> set[str]:
        """The names of the elastic gangs, which are also those of their Jobs."""
        return {record["metadata"]["name"] for record in self.elastic}


def build_load(seed: int, jobs: int, nodes: int, events: int) -> LiveLoad:
    """As many events of each kind, in an order of chance."""
    each = -(-events // 3)
    kinds: list[Event] = [*(["deleted"] * each), *(["ended"] * each), *(["newcomer"] * each)]
    random.Random(seed).shuffle(kinds)
    places = [f"{POOL}-n{number % nodes}" for number in range(each)]
    return LiveLoad(
        tuple(elastic_record(number) for number in range(jobs)),
        tuple(fixed_record(f"f{number:03d}") for number in range(each)),
        tuple(
            pod(f"x{number:03d}", NAMESPACE, None, node=place, **{"cpu": "100m", GPU: str(BLOCK)})
            for number, place in enumerate(places)
        ),
        tuple(
            kwok_node(f"{POOL}-n{number}", POOL, cpu="64", memory="256Gi", **{GPU: str(GPUS)})
            for number in range(nodes)
        ),
        tuple(kinds[:events]),
    )


def elastic_record(number: int) -> Object:
    """A job that may have another size at any moment: every other one by its pods, the others by their GPUs."""
    axis, name = ("pods", "per_pod")[number % 2], f"e{number:03d}"
    pods, gpus = (LEAST, 1) if axis == "pods" else (1, LEAST)
    made = job(name, POOL, pods, **{"cpu": "100m", GPU: str(gpus)})
    made["metadata"]["namespace"] = NAMESPACE
    if axis == "pods":
        made["spec"]["completionMode"] = "Indexed"
    elastic = {"range": {"min": LEAST, "max": MOST, "axis": axis}, "timing": "now", "cooldown": 0, "restart_cost": 0}
    return gang_record(name, NAMESPACE, [made], elastic=elastic)


def fixed_record(name: str) -> Object:
    """A job of one pod that keeps its GPUs."""
    made = job(name, POOL, 1, **{"cpu": "100m", GPU: str(BLOCK)})
    made["metadata"]["namespace"] = NAMESPACE
    return gang_record(name, NAMESPACE, [made])


class Scene:
    """A cluster in which one thing happens after the other."""

    def __init__(self, cluster: LiveCluster, load: LiveLoad) -> None:
        """Nothing has happened yet."""
        self.cluster, self.load = cluster, load
        self.foreign = [item["metadata"]["name"] for item in load.foreign]
        self.fixed = [item["metadata"]["name"] for item in load.fixed]
        self.came = 0

    def submit(self, records: t.Sequence[Object]) -> None:
        """Queue gangs."""
        if records:
            create_all(self.cluster, self.cluster.path(records[0], named=False), records)

    def happen(self, event: Event) -> None:
        """One thing."""
        if event == "newcomer":
            name = f"n{self.came:03d}"
            self.came += 1
            self.submit([fixed_record(name)])
            self.fixed.append(name)
        elif event == "deleted":
            path = resource_path("v1", "pods", NAMESPACE, self.foreign.pop())
            delete(self.cluster.client, path, grace_seconds=0)
        else:
            name = self.fixed.pop(0)
            (found,) = self.cluster.pods(NAMESPACE, f"batch.kubernetes.io/job-name={name}")
            path = resource_path("v1", "pods", NAMESPACE, found["metadata"]["name"]) + "/status"
            ended = {"status": {"phase": "Succeeded"}}
            self.cluster.client.request("PATCH", path, body=ended, content_type="application/merge-patch+json")

    def rest(self) -> None:
        """Wait until all gangs run, and their sizes have not changed for a while."""
        seen: list[tuple[float, t.Any]] = []

        def calm() -> bool:
            now, marks = time.monotonic(), self._marks()
            if marks is None or not seen or seen[-1][1] != marks:
                seen.append((now, marks))
            return marks is not None and now - seen[-1][0] >= REST_SECONDS

        wait_until("the sizes to rest", calm, 300.0, 0.3)

    def _marks(self) -> list[tuple[str, str]] | None:
        """What the Jobs say of their last resizes; None while a gang waits or is between two sizes."""
        records = list_objects(
            self.cluster.client, resource_path("v1", "configmaps", NAMESPACE), keep=lambda found: found
        ).items
        states = [read_state(item["metadata"].get("annotations")) for item in records if "gang.json" in item["data"]]
        if any(state is None or state.phase not in ("running", "complete") for state in states):
            return None
        jobs = list_objects(
            self.cluster.client, resource_path("batch/v1", "jobs", NAMESPACE), keep=lambda found: found
        ).items
        notes = ((item["metadata"]["name"], item["metadata"].get("annotations") or {}) for item in jobs)
        return [(name, found.get(RESIZE_ANNOTATION, "")) for name, found in notes]


@dataclasses.dataclass(frozen=True)
class LiveRun:
    """What was seen of one load; moments are seconds of the steady clock."""

    load: LiveLoad
    began: float
    seen: t.Mapping[str, t.Sequence[tuple[float, str]]]
    cycles: t.Sequence[tuple[int, float]]
    writes: ResizeWrites
    spent: Account

    def delays(self, *kinds: str) -> list[float]:
        """From GPUs that became free in these ways to the first patch; pods of elastic jobs go because of resizes."""
        named = self.load.names
        seen = {"gone": lambda job_name: not job_name, "ended": lambda job_name: job_name not in named}
        freed = [at for kind in kinds for at, name in self.seen.get(kind, ()) if at >= self.began and seen[kind](name)]
        return delays(freed, [at for at, _name in self.seen.get("patched", ())])


def measure(load: LiveLoad) -> LiveRun:
    """One load in a cluster of its own."""
    build_programs()
    with running_cluster(f"bench-elastic-{os.getpid()}") as cluster, contextlib.ExitStack() as stack:
        cluster.add_nodes(load.nodes)
        cluster.namespace(NAMESPACE)
        cluster.create(*load.foreign)
        orders = {"kubeconfig": cluster.kubeconfig, "namespace": NAMESPACE}
        watching = {**orders, "watches": ["patched", "gone", "ended"], "wanted": None}
        observer = stack.enter_context(Companion("observer.py", watching))
        dispatching = {**orders, "most_seconds": MOST_SECONDS, "podless": False, "until_line": True}
        dispatcher = stack.enter_context(Companion("dispatcher.py", dispatching))
        dispatcher.wait_ready()
        observer.wait_ready()
        scene = Scene(cluster, load)
        scene.submit([*load.elastic, *load.fixed])
        scene.rest()
        processes = {name: part["pid"] for name, part in cluster.components.items()}
        processes |= {"dispatcher": dispatcher.pid, "observer": observer.pid, "creator": os.getpid()}
        wait_for_rest(processes)
        meter, began = Meter(cluster.client, processes), time.monotonic()
        for event in load.events:
            scene.happen(event)
            scene.rest()
        spent = meter.read()
        dispatcher.stop()
        observer.stop()
        told, seen = dispatcher.result(), observer.result()["seen"]
    writes = count_writes([tuple(item) for item in told["writes"]], load.names, began)
    return LiveRun(load, began, seen, told["cycles"], writes, spent)


def show(runs: t.Sequence[LiveRun]) -> None:
    """The figures of all runs together, and the bars."""
    for words, kinds in (("all", WAYS), ("pods deleted", ("gone",)), ("jobs ended", ("ended",))):
        found = [delay for run in runs for delay in run.delays(*kinds)]
        if found:
            shares = ", ".join(f"p{share:.0%}"[:-1] + f" {percentile(found, share):.2f} s" for share in (0.5, 0.99))
            print(f"  from GPUs free to the first patch, {words}, {len(found)} times: {shares}")
    for run in runs:
        _show_writes(run.writes)
        count = max(1, sum(run.writes.resizes.values()))
        spent = {name: 1000 * value / count for name, value in sorted(run.spent.seconds.items())}
        total = sum(value for name, value in spent.items() if name not in CLIENTS)
        told = ", ".join(f"{name} {value:.0f}" for name, value in spent.items())
        print(f"    core-ms a resize {total:.0f}: {told}; deciding {_deciding(run):.1f} ms a cycle")
    for bar in bars(runs):
        print(f"  {bar}", flush=True)


def _deciding(run: LiveRun) -> float:
    return 1000 * statistics.mean(took for _waiting, took in run.cycles)


def _show_writes(found: ResizeWrites) -> None:
    """How many writes of which kind."""
    for method, count in sorted(found.writes.items()):
        resizes = found.resizes.get(method, 0)
        told = ", ".join(f"{what} {number / max(1, resizes):.2f}" for what, number in sorted(count.items()))
        print(f"    {method}: {resizes} resizes, writes each {found.each(method):.2f}: {told}")
    print(f"    besides: {', '.join(f'{what} {count}' for what, count in sorted(found.others.items()))}")


def bars(runs: t.Sequence[LiveRun]) -> list[Bar]:
    """How the figures compare; a method that nobody used has none."""
    found = [delay for run in runs for delay in run.delays(*WAYS)]
    told = [Bar("seconds from GPUs free to the first patch, p50,", percentile(found, 0.5), DELAY_BAR)] if found else []
    for method, most in WRITE_BARS.items():
        resizes = sum(run.writes.resizes.get(method, 0) for run in runs)
        if resizes:
            each = sum(run.writes.each(method) * run.writes.resizes.get(method, 0) for run in runs) / resizes
            told.append(Bar(f"writes of a resize by {method}", each, most))
    return told


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=25)
    parser.add_argument("--events", type=int, default=24)
    args = parser.parse_args()
    print(f"{args.jobs} elastic jobs, {args.nodes} nodes, {args.events} events, load {os.getloadavg()[0]:.1f}")
    runs = []
    for seed in args.seeds:
        print(f"seed {seed}", flush=True)
        runs.append(measure(build_load(seed, args.jobs, args.nodes, args.events)))
    show(runs)


if __name__ == "__main__":
    main()
