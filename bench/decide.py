# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long one cycle of a dispatcher decides, without any cluster: sizes of gangs, health, refusals and the queue.

Nodes of 20 processors hold ten pods each, those of running gangs; gangs of 1 to 16 pods of many namespaces wait. A
cycle is one of three: nothing changed and nothing fits; one running gang ended since the last cycle; or nodes are empty
and a thousand gangs of one pod start at once. Gangs have equal pods, or arguments, images and names of their own. What
did not change is the same object in the next cycle, as a mirror fed by watches gives it; with --listing everything is
a new object in each cycle. Printed is the middle of some cycles after the first, in milliseconds of this process.

With --queues a quota tree shares the cluster between namespaces, and each cycle is decided by turns with the tree and
without it: printed is also how many times longer it takes with the tree. With --evictable so many gangs run for longer
than each may for certain, so that they may be evicted; otherwise nobody may.

Usage: decide.py [--waiting 3000 10000] [--nodes 200 5000] [--seed 1] [--cycles 5] [--namespaces 10]
                 [--policy reserve] [--args own equal] [--rows idle ended starts] [--queues 0] [--evictable 0]
                 [--listing] [--profile]
"""

from __future__ import annotations

import argparse
import copy
import cProfile
import dataclasses
import gc
import os
import pstats
import random
import statistics
import time

from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import (
    Record,
    record_from_api,
    record_of_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    PODSET_LABEL,
    podset_label,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    Node,
    Pod,
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import index_pods
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import (
    CyclePlan,
    Situation,
    plan_cycle,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World

NOW = 1_800_000_000.0
CPUS, PODS_PER_NODE, POD_CPUS = 20, 10, 2
STARTS = 1000
SIZES, AMOUNTS = (1, 2, 4, 8, 16), (1, 2, 4)
# Milliseconds; by how many gangs wait at most.
BARS = {3000: 50.0, 10_000: 100.0}
# What one of a thousand starts may take.
START_BAR_MS = 0.5
# How many times longer a cycle may take with a quota tree than without.
TREE_BAR = 1.3
# For how long gangs have run that may not be evicted, and those that may.
PROTECTED, EVICTABLE = 60.0, 7200.0


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How large a cluster and a queue are, and how alike the gangs are."""

    nodes: int
    waiting: int
    namespaces: int
    own: bool
    queues: int = 0
    evictable: int = 0


def build_job(name: str, count: int, cpus: int, own: bool) -> dict:
    """A Job; one with arguments of its own is like no other."""
    container = {"name": "main", "image": "registry.example.com/work", "resources": {"requests": {"cpu": str(cpus)}}}
    if own:
        container |= {"args": ["--run", name], "env": [{"name": "RUN", "value": name}], "image": f"example.com/{name}"}
    template = {
        "metadata": {"labels": {"app": name if own else "work"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": count, "template": template},
    }


def build_trees(size: Size) -> QuotaTrees:
    """No tree, or one of four levels that shares all processors equally between so many leaves, one for a namespace."""
    if not size.queues:
        return NO_TREES
    queues: list[dict] = [{"name": "all"}]
    queues += [{"name": f"d{number}", "parent": "all"} for number in range(max(1, size.queues // 100))]
    queues += [{"name": f"e{number}", "parent": f"d{number // 10}"} for number in range(max(1, size.queues // 10))]
    cpus = size.nodes * CPUS // size.queues
    for number in range(size.queues):
        leaf = {"name": f"q{number}", "parent": f"e{number // 10}", "namespaces": [f"t{number}"]}
        queues.append({**leaf, "nominal": {"cpu": cpus}, "default": number == 0})
    return QuotaTrees((read_tree("default", {"queues": queues}),))


class Cluster:
    """Nodes, running gangs with their pods, and waiting ones; each object is made once and kept while it is true."""

    def __init__(self, size: Size, seed: int, *, empty: bool = False) -> None:
        """Full nodes, unless they are to be empty."""
        self.size, self.chance = size, random.Random(seed)
        self.quota = build_trees(size)
        self.now = NOW
        self.records: dict[str, Record] = {}
        self.pods: dict[str, list[tuple[Pod, GangPod]]] = {}
        self.items: dict[str, dict[int, dict]] = {}
        self.made = 0
        self.nodes = tuple(self.build_node(i) for i in range(size.nodes))
        if not empty:
            self.fill()
        self.submit(size.waiting, single=empty)

    @staticmethod
    def build_node(i: int) -> Node:
        """One of equal nodes."""
        labels = {"kubernetes.io/hostname": f"n{i:05d}", "zone": f"z{i % 10}"}
        allocatable = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
        return node_from_api(
            {"metadata": {"name": f"n{i:05d}", "labels": labels}, "status": {"allocatable": allocatable}}
        )

    def record(self, count: int, cpus: int, own: bool) -> Record:
        """A gang of one Job in some namespace, submitted now or a little later than the one before."""
        self.made += 1
        name, namespace = f"g{self.made:06d}", f"t{self.made % self.size.namespaces}"
        objects = [build_job(name, count, cpus, own)]
        raw = build_record(read_spec({"name": name, "namespace": namespace, "objects": objects}, "gang"))
        created = time_text(NOW - 7200 + self.made // 10)
        raw["metadata"].update(uid=name, resourceVersion=str(self.made), creationTimestamp=created)
        return record_from_api(raw)

    def fill(self) -> None:
        """Let running gangs take all there is, in pods spread over neighbouring nodes."""
        places = [node.name for node in self.nodes for _pod in range(PODS_PER_NODE)]
        count = 4 if self.size.nodes <= 1000 else 20
        if self.size.evictable:
            count = max(1, len(places) // self.size.evictable)
        for first in range(0, len(places), count):
            self.start(self.record(count, POD_CPUS, self.size.own), places[first : first + count])

    def start(self, record: Record, places: list[str]) -> None:
        """Let a gang run, its pods on these nodes."""
        at = time_text(self.now - (EVICTABLE if self.size.evictable else PROTECTED))
        state = advance(
            new_state(at, "w/e.1/1"), "running", at, "PodsBound", "", "w/e.1/2", started_at=at, ticket_uid="t"
        )
        self.records[record.uid] = record_of_spec(record.store, record.raw, record.spec, None, state=state)
        job = copy.deepcopy(record.spec.objects[0])
        job["metadata"] |= {"uid": f"{record.uid}-j", "namespace": record.namespace}
        self.items[record.uid] = {0: job}
        template = job["spec"]["template"]
        labels = {**template["metadata"]["labels"], GANG_LABEL: record.uid, PODSET_LABEL: podset_label(record.name)}
        self.pods[record.uid] = []
        for turn, node in enumerate(places):
            name = f"{record.name}-{turn}"
            raw = {
                "metadata": {
                    "name": name,
                    "namespace": record.namespace,
                    "uid": name,
                    "labels": labels,
                    "creationTimestamp": at,
                    "ownerReferences": [{"kind": "Job", "name": record.name, "uid": f"{record.uid}-j"}],
                },
                "spec": {**template["spec"], "nodeName": node},
                "status": {"phase": "Running"},
            }
            pod = pod_from_api(raw)
            self.pods[record.uid].append((pod, gang_pod_from_api(raw, pod)))

    def submit(self, count: int, *, single: bool) -> None:
        """Queue gangs of all sizes, or such of one pod."""
        for _turn in range(count):
            pods = 1 if single else self.chance.choice(SIZES)
            record = self.record(pods, self.chance.choice(AMOUNTS), self.size.own)
            at = time_text(self.now)
            state = advance(new_state(at, "w/e.1/1"), "queued", at, "", "", "w/e.1/2", verdict={"answer": "waits"})
            self.records[record.uid] = record_of_spec(record.store, record.raw, record.spec, None, state=state)

    def end_one(self) -> None:
        """One running gang ends: its record is not read any more, its pods are gone."""
        uid = self.chance.choice(sorted(self.pods))
        for found in (self.records, self.pods, self.items):
            found.pop(uid)

    def follow(self, plan: CyclePlan) -> None:
        """Start what was chosen, where the verdict saw it, and let as many come as went."""
        for choice in plan.starts:
            nodes = (choice.verdict.placement or {}).get(choice.record.name, {})
            self.start(choice.record, [node for node, count in nodes.items() for _pod in range(count)])
        self.submit(len(plan.starts), single=False)

    def situation(self, memory: Memory, *, listing: bool) -> Situation:
        """One reading of the cluster; sizes are worked out by the caller."""
        pods = [pair for pairs in self.pods.values() for pair in pairs]
        nodes, views = self.nodes, tuple(pod for pod, _gang_pod in pods)
        if listing:
            nodes, views = tuple(map(dataclasses.replace, nodes)), tuple(map(dataclasses.replace, views))
        world = World(
            snapshot=Snapshot(nodes=nodes, pods=views),
            gangs={},
            problems={},
            tickets={},
            pods=index_pods([gang_pod for _pod, gang_pod in pods]),
            items=dict(self.items),
            accounts=None,
            scopes={("batch/v1", "Job"): True},
            quota=self.quota,
        )
        return Situation(world, dict(self.records), (), {}, self.now, self.now, history={})


def decide(situation: Situation, options: DispatchOptions, memory: Memory) -> CyclePlan:
    """What a cycle does between reading and writing."""
    sizes = {uid: memory.size(record, situation.world.snapshot)[0] for uid, record in situation.records.items()}
    world = dataclasses.replace(situation.world, gangs=sizes)
    return plan_cycle(dataclasses.replace(situation, world=world), options, memory)


class Measurement:
    """Cycles over one cluster, each timed."""

    def __init__(self, cluster: Cluster, args: argparse.Namespace) -> None:
        """Nothing is remembered at first."""
        self.cluster, self.args = cluster, args
        self.memory, self.options = Memory(), DispatchOptions(policy=args.policy)
        self.profile = cProfile.Profile() if args.profile else None
        self.starts = 0

    def cycle(self) -> float:
        """Milliseconds of one cycle."""
        self.cluster.now += 1.0
        situation = self.cluster.situation(self.memory, listing=self.args.listing)
        gc.collect()
        gc.disable()
        if self.profile and self.memory_is_warm:
            self.profile.enable()
        began = time.process_time()
        plan = decide(situation, self.options, self.memory)
        took = 1000 * (time.process_time() - began)
        if self.profile:
            self.profile.disable()
        gc.enable()
        self.plan, self.starts = plan, len(plan.starts)
        return took

    memory_is_warm = False

    def first(self) -> float:
        """The cycle in which everything is worked out."""
        took = self.cycle()
        self.memory_is_warm = True
        return took

    def show(self) -> None:
        """Where the time went."""
        if self.profile:
            pstats.Stats(self.profile).sort_stats("cumulative").print_stats(45)


def measure_idle(size: Size, args: argparse.Namespace, *, ended: bool) -> tuple[float, float, int, float | None]:
    """First cycle, the middle of the following ones, how many gangs started in the last, and how it compares.

    That is how many times longer they take than without a tree, cycle by cycle; None where there is no tree.
    """
    runs = [Measurement(Cluster(size, args.seed), args)]
    if size.queues:
        runs.append(Measurement(Cluster(dataclasses.replace(size, queues=0), args.seed), args))
    first, *_others = [run.first() for run in runs]
    times: list[list[float]] = []
    for _turn in range(args.cycles):
        if ended:
            for run in runs:
                run.cluster.follow(run.plan)
                run.cluster.end_one()
        times.append([run.cycle() for run in runs])
    runs[0].show()
    ratio = statistics.median(took[0] / took[1] for took in times) if size.queues else None
    return first, statistics.median(took[0] for took in times), runs[0].starts, ratio


def measure_starts(size: Size, args: argparse.Namespace) -> tuple[float, float, int]:
    """The same where nodes are empty: nothing is started really, so each cycle finds the same."""
    run = Measurement(Cluster(size, args.seed, empty=True), args)
    first = run.first()
    times = [run.cycle() for _turn in range(min(3, args.cycles))]
    run.show()
    return first, statistics.median(times), run.starts


def rows(args: argparse.Namespace) -> list[tuple[str, Size]]:
    """What is measured."""
    kinds = [kind == "own" for kind in args.args]
    every = [
        (row, Size(nodes, waiting, args.namespaces, own, args.queues, args.evictable))
        for nodes in args.nodes
        for waiting in args.waiting
        for own in kinds
        for row in args.rows
        if row != "starts"
    ]
    starts = [
        ("starts", Size(nodes, STARTS, args.namespaces, own, args.queues)) for nodes in args.nodes for own in kinds
    ]
    return every + (starts if "starts" in args.rows else [])


def main() -> None:
    """Print one line per case with its bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--waiting", type=int, nargs="+", default=[3000, 10_000])
    parser.add_argument("--nodes", type=int, nargs="+", default=[200, 5000])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cycles", type=int, default=5)
    parser.add_argument("--namespaces", type=int, default=10)
    parser.add_argument("--policy", default="reserve", choices=["strict", "best_effort", "reserve"])
    parser.add_argument("--args", nargs="+", default=["own", "equal"], choices=["own", "equal"])
    parser.add_argument("--rows", nargs="+", default=["idle", "ended", "starts"], choices=["idle", "ended", "starts"])
    parser.add_argument("--queues", type=int, default=0)
    parser.add_argument("--evictable", type=int, default=0)
    parser.add_argument("--listing", action="store_true")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, seed {args.seed}, policy {args.policy}")
    print(f"{'case':7} {'nodes':>6} {'waiting':>8} {'args':>6} {'first ms':>9} {'then ms':>9} {'starts':>7}  bar")
    for row, size in rows(args):
        ratio: float | None = None
        if row == "starts":
            first, then, starts = measure_starts(size, args)
            bar = START_BAR_MS * max(1, starts)
        else:
            first, then, starts, ratio = measure_idle(size, args, ended=row == "ended")
            bar = next((most for count, most in BARS.items() if size.waiting <= count), BARS[10_000])
        word = "" if then <= bar else " MISSED"
        if ratio is not None:
            word += f"  {ratio:.2f} times that without a tree, bar {TREE_BAR}{'' if ratio <= TREE_BAR else ' MISSED'}"
        kind = "own" if size.own else "equal"
        print(
            f"{row:7} {size.nodes:6} {size.waiting:8} {kind:>6} {first:9.0f} {then:9.1f} {starts:7}  {bar:.0f}{word}",
            flush=True,
        )


if __name__ == "__main__":
    main()
