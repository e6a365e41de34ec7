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

With --elastic (else 40 on 200 nodes and 1,000 on 5,000, in rows of their own, and those with trees go without) so many
gangs besides have all GPUs, eight on each node, and may have other sizes; their trainers report.
Each cycle is decided by turns with them and with gangs of fixed sizes that have the same: printed is also how many
times longer it takes. What is decided about sizes is carried out at once. A cycle is one of four: nothing changed and
nobody waits for GPUs; one of these gangs ended, so that others grow; a gang came for which others have to shrink; or
all have as little as they may and a tenth of those that wait ask for GPUs.

Usage: decide.py [--waiting 3000 10000] [--nodes 200 5000] [--seed 1] [--cycles 5] [--namespaces 10]
                 [--policy reserve] [--args own equal] [--rows idle ended starts newcomer queued] [--queues 0]
                 [--evictable 0] [--elastic 0] [--listing] [--profile]
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
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import (
    Checkpoint,
    Progress,
    StepPace,
    StepSeen,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import (
    Record,
    record_from_api,
    record_of_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest, read_spec
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
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import Rescale
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
# How many times longer a cycle may take with elastic gangs than with fixed ones, and milliseconds with a thousand.
ELASTIC_BAR, ELASTIC_MS = 1.3, 1000.0
# How many elastic gangs there are on so many nodes if nobody says it.
USUAL_ELASTIC = {200: 40, 5000: 1000}
GPU, GPUS = "nvidia.com/gpu", 8
# Trainers report so often; of the gangs that wait every so many-th asks for GPUs, if any do.
REPORT_SECONDS, GPU_QUEUE = 30, 10
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
    # So many gangs have the GPUs; whether they may have other sizes, and whether others wait for GPUs.
    elastic: int = 0
    fixed: bool = False
    gpu_queue: bool = False

    @property
    def plain(self) -> Size | None:
        """The same without trees, or with fixed sizes; None where there is nothing to leave out."""
        if self.elastic:
            return dataclasses.replace(self, fixed=True)
        return dataclasses.replace(self, queues=0) if self.queues else None


def build_job(name: str, count: int, cpus: int, own: bool, gpus: int = 0) -> dict:
    """A Job whose pods ask for processors, or for GPUs instead; one with arguments of its own is like no other."""
    amounts = {GPU: str(gpus)} if gpus else {"cpu": str(cpus)}
    asked = {"requests": amounts, "limits": amounts} if gpus else {"requests": amounts}
    container = {"name": "main", "image": "registry.example.com/work", "resources": asked}
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
        "spec": {"parallelism": count, "completions": count, "template": template}
        | ({"completionMode": "Indexed"} if gpus else {}),
    }


def build_terms(number: int, count: int, gpus: int, *, least: bool) -> dict:
    """The terms of the gang of this number with so many pods of so many GPUs: every other one has more pods or fewer.

    What has whole nodes cannot have larger pods. least tells whether it has as little as it may.
    """
    axis, size = ("pods", count) if number % 2 else ("per_pod", gpus)
    largest = 2 * size if axis == "pods" else min(GPUS, 2 * size)
    sizes = {"min": size if least else max(1, size // 2), "max": largest, "axis": axis, "resource": GPU}
    return {"range": sizes, "timing": ("now", "at_checkpoint")[number // 2 % 2]}


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
        # The GPUs that nobody has by node, the gangs that had them from the beginning, and what trainers told.
        self.free: dict[str, int] = {}
        self.trainings: list[str] = []
        self.progress: dict[str, Progress] = {}
        self.made = self.reports = 0
        self.nodes = tuple(self.build_node(i) for i in range(size.nodes))
        if not empty:
            self.fill()
        if size.elastic:
            self.fill_gpus()
        self.submit(size.waiting, single=empty)

    def build_node(self, i: int) -> Node:
        """One of equal nodes."""
        labels = {"kubernetes.io/hostname": f"n{i:05d}", "zone": f"z{i % 10}"}
        allocatable = {"cpu": str(CPUS), "memory": "64Gi", "pods": "110"}
        if self.size.elastic:
            self.free[f"n{i:05d}"] = GPUS
            allocatable[GPU] = str(GPUS)
        return node_from_api(
            {"metadata": {"name": f"n{i:05d}", "labels": labels}, "status": {"allocatable": allocatable}}
        )

    def record(self, count: int, cpus: int, own: bool, gpus: int = 0, **terms: t.Any) -> Record:
        """A gang of one Job in some namespace, submitted now or a little later than the one before."""
        self.made += 1
        name, namespace = f"g{self.made:06d}", f"t{self.made % self.size.namespaces}"
        objects = [build_job(name, count, cpus, own, gpus)]
        raw = build_record(read_spec({"name": name, "namespace": namespace, "objects": objects, **terms}, "gang"))
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

    def fill_gpus(self) -> None:
        """Let so many gangs have all GPUs, pods with all of a node if there are enough for that."""
        share = max(1, self.size.nodes * GPUS // self.size.elastic)
        for number in range(self.size.elastic):
            count, gpus = (share // GPUS, GPUS) if share >= GPUS else (share, 1) if number % 2 else (1, share)
            terms = {} if self.size.fixed else {"elastic": build_terms(number, count, gpus, least=self.size.gpu_queue)}
            record = self.record(count, 0, self.size.own, gpus, **terms)
            size = count if number % 2 else gpus
            self.start(record, self.places(count, gpus), size=None if self.size.fixed else size)
            self.trainings.append(record.uid)
            if not self.size.fixed:
                self.progress[record.uid] = build_progress(size, number)

    def places(self, count: int, gpus: int, near: t.Iterable[str] = ()) -> list[str]:
        """Nodes for so many pods with so many GPUs each, these nodes first."""
        found: list[str] = []
        for node in dict.fromkeys((*near, *self.free)):
            found += [node] * min(count - len(found), self.free[node] // gpus)
        return found

    def start(self, record: Record, places: list[str], *, size: int | None = None, **changes: t.Any) -> None:
        """Let a gang run, its pods on these nodes; an elastic one with this size."""
        at = time_text(self.now - (EVICTABLE if self.size.evictable or self.size.elastic else PROTECTED))
        state = advance(
            new_state(at, "w/e.1/1"), "running", at, "PodsBound", "", "w/e.1/2", started_at=at, ticket_uid="t"
        )
        spec = record.spec.with_allotment(size)
        if size is not None:
            state = dataclasses.replace(state, allotment=size, digest=digest(spec), **changes)
        self.records[record.uid] = record_of_spec(record.store, record.raw, spec, None, state=state)
        job = copy.deepcopy(spec.planned[0])
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
            if node in self.free:
                self.free[node] -= pod.requests.get(GPU, 0)

    def submit(self, count: int, *, single: bool) -> None:
        """Queue gangs of all sizes, or such of one pod."""
        for turn in range(count):
            pods = 1 if single else self.chance.choice(SIZES)
            gpus = GPUS if self.size.gpu_queue and turn % GPU_QUEUE == 0 else 0
            self.queue(self.record(pods, self.chance.choice(AMOUNTS), self.size.own, gpus))

    def queue(self, record: Record) -> None:
        """Let a gang wait."""
        at = time_text(self.now)
        state = advance(new_state(at, "w/e.1/1"), "queued", at, "", "", "w/e.1/2", verdict={"answer": "waits"})
        self.records[record.uid] = record_of_spec(record.store, record.raw, record.spec, None, state=state)

    def come_one(self) -> None:
        """A gang comes that asks for as many GPUs as one pod of a training has."""
        share = max(1, self.size.nodes * GPUS // self.size.elastic)
        self.queue(self.record(1, 0, self.size.own, min(GPUS, max(1, share // 2))))

    def end_one(self) -> None:
        """One running gang ends, a training if there are any: its record is not read any more, its pods are gone."""
        uid = self.chance.choice(sorted(self.pods) if not self.trainings else self.trainings)
        if self.trainings:
            self.trainings.remove(uid)
        self.vacate(uid)
        self.records.pop(uid)
        self.progress.pop(uid, None)

    def vacate(self, uid: str) -> list[str]:
        """A gang's pods go; the nodes that they were on."""
        self.items.pop(uid)
        nodes = []
        for pod, _gang_pod in self.pods.pop(uid):
            nodes.append(t.cast(str, pod.node))
            if pod.node in self.free:
                self.free[pod.node] += pod.requests.get(GPU, 0)
        return nodes

    def follow(self, plan: CyclePlan) -> None:
        """Start what was chosen, where the verdict saw it, let as many come as went, and resize at once."""
        for item in plan.resized:
            resize = item.resize if isinstance(item, Rescale) else item.changes["resize"]
            self.resize(item.record, dataclasses.replace(resize, since=time_text(self.now)))
        for change in plan.planned:
            record = self.records[change.record.uid]
            state = dataclasses.replace(record.state, planned=change.plan)
            self.records[record.uid] = dataclasses.replace(record, state=state)
        for choice in plan.starts:
            nodes = (choice.verdict.placement or {}).get(choice.record.name, {})
            self.start(choice.record, [node for node, count in nodes.items() for _pod in range(count)])
        self.submit(len(plan.starts), single=False)

    def resize(self, record: Record, resize: Resize) -> None:
        """A gang has another size, on its own nodes first."""
        spec, near = record.spec.with_allotment(resize.to), self.vacate(record.uid)
        pods = spec.planned[0]["spec"]
        gpus = int(pods["template"]["spec"]["containers"][0]["resources"]["limits"][GPU])
        self.start(record, self.places(pods["parallelism"], gpus, near), size=resize.to, resize=resize)

    def report(self) -> None:
        """So many trainers as do so in a second tell a step; one that was asked to save has done so."""
        turns = sorted(self.progress)
        for _turn in range(-(-len(turns) // REPORT_SECONDS)):
            uid = turns[self.reports % len(turns)]
            self.reports += 1
            state, last = self.records[uid].state, self.progress[uid]
            if state.planned is not None:
                last = last.at_checkpoint(self.now, last.seen.step)
            self.progress[uid] = last.at_step(self.now, last.seen.step + REPORT_SECONDS, state.allotment)

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
            progress=dict(self.progress),
        )
        return Situation(world, dict(self.records), (), {}, self.now, self.now, history={})


def build_progress(size: int, number: int) -> Progress:
    """What a trainer has told: its steps at this size, every third one at another too, and a checkpoint."""
    pace = StepPace(REPORT_SECONDS, REPORT_SECONDS)
    paces = {size: (pace,) * 3} | ({2 * size: (pace._replace(seconds=20.0),) * 3} if number % 3 == 0 else {})
    step = 10_000 + number
    seen, saved = StepSeen(NOW - REPORT_SECONDS, step, size), Checkpoint(NOW - 2 * REPORT_SECONDS, step - 30)
    return Progress(seen=seen, total=100_000, paces=paces, checkpoints=(saved,))


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
        self.cluster.report()
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


def measure(row: str, size: Size, args: argparse.Namespace) -> tuple[float, float, int, float | None]:
    """First cycle, the middle of the following ones, how many gangs started in the last, and how it compares.

    That is how many times longer they take than without a tree or without ranges, cycle by cycle; None where there is
    neither.
    """
    sizes = [size] if size.plain is None else [size, size.plain]
    runs = [Measurement(Cluster(one, args.seed), args) for one in sizes]
    first, *_others = [run.first() for run in runs]
    times: list[list[float]] = []
    for _turn in range(args.cycles):
        for run in runs:
            if row in EVENTS:
                run.cluster.follow(run.plan)
                EVENTS[row](run.cluster)
        times.append([run.cycle() for run in runs])
    runs[0].show()
    ratio = statistics.median(took[0] / took[1] for took in times) if len(runs) > 1 else None
    return first, statistics.median(took[0] for took in times), runs[0].starts, ratio


# What happens before each cycle.
EVENTS: t.Mapping[str, t.Callable[[Cluster], None]] = {"ended": Cluster.end_one, "newcomer": Cluster.come_one}


def measure_starts(size: Size, args: argparse.Namespace) -> tuple[float, float, int]:
    """The same where nodes are empty: nothing is started really, so each cycle finds the same."""
    run = Measurement(Cluster(size, args.seed, empty=True), args)
    first = run.first()
    times = [run.cycle() for _turn in range(min(3, args.cycles))]
    run.show()
    return first, statistics.median(times), run.starts


ROWS = ("idle", "ended", "starts", "newcomer", "queued")
QUEUED, ELASTIC_ROWS = "queued", ("newcomer", "queued")


def rows(args: argparse.Namespace) -> list[tuple[str, Size]]:
    """What is measured."""
    kinds, besides = [kind == "own" for kind in args.args], (args.queues, args.evictable, args.elastic)
    every = [
        (row, Size(nodes, waiting, args.namespaces, own, *besides, gpu_queue=row == QUEUED))
        for nodes in args.nodes
        for waiting in args.waiting
        for own in kinds
        for row in args.rows
        if row != "starts" and (args.elastic or row not in ELASTIC_ROWS)
    ]
    starts = [
        ("starts", Size(nodes, STARTS, args.namespaces, own, args.queues)) for nodes in args.nodes for own in kinds
    ]
    return every + (starts if "starts" in args.rows else [])


def all_rows(args: argparse.Namespace) -> list[tuple[str, Size]]:
    """What is measured, with elastic gangs on clusters of the usual sizes if nobody said how many."""
    found = rows(args)
    if args.elastic or args.queues:
        return found
    for nodes in args.nodes:
        chosen = tuple(row for row in args.rows if row != "starts")
        asked = {"nodes": [nodes], "waiting": [min(args.waiting)], "args": ["own"], "rows": chosen}
        if nodes in USUAL_ELASTIC:
            found += rows(argparse.Namespace(**{**vars(args), **asked, "elastic": USUAL_ELASTIC[nodes]}))
    return found


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
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS)
    parser.add_argument("--queues", type=int, default=0)
    parser.add_argument("--evictable", type=int, default=0)
    parser.add_argument("--elastic", type=int, default=0)
    parser.add_argument("--listing", action="store_true")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, seed {args.seed}, policy {args.policy}")
    names = f"{'case':8} {'nodes':>6} {'waiting':>8} {'elastic':>8} {'args':>6}"
    print(f"{names} {'first ms':>9} {'then ms':>9} {'starts':>7}  bar")
    for row, size in all_rows(args):
        ratio: float | None = None
        if row == "starts":
            first, then, starts = measure_starts(size, args)
            bar = START_BAR_MS * max(1, starts)
        else:
            first, then, starts, ratio = measure(row, size, args)
            bar = next((most for count, most in BARS.items() if size.waiting <= count), BARS[10_000])
            bar = ELASTIC_MS if size.elastic else bar
        word = "" if then <= bar else " MISSED"
        if ratio is not None:
            most, what = (ELASTIC_BAR, "of fixed gangs") if size.elastic else (TREE_BAR, "without a tree")
            word += f"  {ratio:.2f} times that {what}, bar {most}{'' if ratio <= most else ' MISSED'}"
        kind = "own" if size.own else "equal"
        case = f"{row:8} {size.nodes:6} {size.waiting:8} {size.elastic:8} {kind:>6}"
        print(f"{case} {first:9.0f} {then:9.1f} {starts:7}  {bar:.0f}{word}", flush=True)


if __name__ == "__main__":
    main()
