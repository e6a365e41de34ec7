# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a quota tree costs: one verdict, one cycle's decisions, and sharing and reclaiming beside Kueue.

verdict  a tree of four levels with 1,000 leaves that 10,000 started gangs are charged to: milliseconds of this process
         for what the tree says to one more gang, with all numbers, after everything was charged; and how many queues
         are looked at for each resource (a unit test asserts that, too)
decide   a cycle in which one gang ended, 3,000 gangs wait: how many times longer it takes than without a tree
         (bench/decide.py measures more of it)
share    30 queues that share a cluster, 50 gangs each at once, half of them on borrowed quota: the same tree and Jobs
         in Kueue and in ours, from the first request until the last pod is bound
reclaim  20 borrowers use all there is; then the owner of most of it asks for its own with 20 gangs: from its first
         request until its last pod is bound, in Kueue and in ours

The last two run in clusters of their own, one after the other, as bench/dispatch.py does. Bars are printed whatever the
size; the word MISSED says that one was not kept.

Usage: quota.py [--parts verdict decide share reclaim] [--systems kueue ours] [--seed 1] [--queues 1000]
                [--started 10000] [--verdicts 1000] [--nodes 200] [--waiting 3000]
                [--tree-sizes 10 100 1000] [--share 30 50] [--borrowers 20]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import time
import typing as t

from ansible_collections.muster.kube.bench.decide import TREE_BAR, Size
from ansible_collections.muster.kube.bench.decide import measure as measure_deciding
from ansible_collections.muster.kube.bench.dispatching.accounts import wait_for_rest
from ansible_collections.muster.kube.bench.dispatching.loads import NAMESPACE, BenchGang, Load
from ansible_collections.muster.kube.bench.dispatching.systems import (
    Companion,
    Name,
    create_all,
    dispatcher_orders,
    measure,
    prepare,
    queued,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.shared_cluster import build_programs, running_cluster

PARTS = ("verdict", "decide", "share", "reclaim")
SYSTEMS: tuple[Name, ...] = ("kueue", "ours")
VERDICT_BAR_MS = 10.0
RECLAIM_BAR = 2.0
DEPTH = 4
GPU = "example.com/gpu"
NODES = 20


def word(kept: bool) -> str:
    """What is printed behind a bar."""
    return "" if kept else " MISSED"


def build_deep_tree(leaves: int) -> QuotaTree:
    """A tree of four levels."""
    queues: list[dict] = [{"name": "all"}]
    queues += [{"name": f"d{number}", "parent": "all"} for number in range(max(1, leaves // 100))]
    queues += [{"name": f"e{number}", "parent": f"d{number // 10}"} for number in range(max(1, leaves // 10))]
    nominal = {"cpu": 100, GPU: 10}
    queues += [{"name": f"q{number}", "parent": f"e{number // 10}", "nominal": nominal} for number in range(leaves)]
    return read_tree("default", {"queues": queues})


def bench_verdicts(args: argparse.Namespace) -> None:
    """What one verdict takes, and how many queues it looks at."""
    chance, tree = random.Random(args.seed), build_deep_tree(args.queues)
    leaves = [leaf.name for leaf in tree.leaves]
    # Half of the leaves have nearly everything, so that many borrow and many are short.
    busy = leaves[: max(1, len(leaves) // 2)]
    usage = TreeUsage(tree)
    began = time.process_time()
    for _turn in range(args.started):
        sizes = {"cpu": 1000 * chance.randint(1, 19), GPU: chance.randint(0, 2)}
        usage.charge(chance.choice(busy), {key: sizes[key.resource] for key in tree.keys})
    charged = 1000 * (time.process_time() - began)
    times, visits, answers = [], [], {"fits": 0, "waits": 0, "never": 0}
    for _turn in range(args.verdicts):
        leaf = chance.choice(leaves)
        demands = {"main": {"cpu": 1000 * chance.randint(1, 200), GPU: chance.randint(1, 16)}}
        began = time.process_time()
        found = judge_quota(usage, leaf, "x", demands)
        QuotaLayer((found,)).as_dict()
        times.append(1000 * (time.process_time() - began))
        answers[found.answer] += 1
        usage.visited = 0
        usage.answer(leaf, found.amounts)
        visits.append(usage.visited / len(found.amounts))
    print(f"verdict: {args.queues} queues, depth {DEPTH}, {args.started} started gangs, charged in {charged:.0f} ms")
    said = ", ".join(f"{count} {name}" for name, count in answers.items())
    print(f"  {said}: middle {statistics.median(times):.2f} ms, longest {max(times):.2f} ms,", end="")
    print(f" bar {VERDICT_BAR_MS:g}{word(max(times) <= VERDICT_BAR_MS)};", end="")
    most = max(visits)
    print(f" queues looked at per resource {most:g}, bar {2 * DEPTH}{word(most <= 2 * DEPTH)}", flush=True)


def bench_deciding(args: argparse.Namespace) -> None:
    """How many times longer a cycle takes with a tree."""
    terms = argparse.Namespace(seed=args.seed, cycles=7, policy="reserve", profile=False, listing=False)
    for queues in args.tree_sizes:
        size = Size(args.nodes, args.waiting, queues, True, queues)
        _first, then, _starts, ratio = measure_deciding("ended", size, terms)
        kept = word(ratio is not None and ratio <= TREE_BAR)
        print(f"decide: {queues} queues, {args.waiting} waiting: {then:.1f} ms a cycle, {ratio:.2f} times that without")
        print(f"  a tree, bar {TREE_BAR}{kept}", flush=True)


def build_share(args: argparse.Namespace) -> Load:
    """Gangs of one pod in queues that have half of what they ask for, and may borrow the rest from a common pool."""
    queues, each = args.share
    own, pods = each // 2, queues * each
    leaves = [{"name": f"q{number}", "parent": "all", "nominal": {"cpu": own}} for number in range(queues)]
    tree = read_tree("default", {"queues": [{"name": "all", "extra": {"cpu": pods - own * queues}}, *leaves]})
    gangs = [BenchGang(f"g{number:05d}", 1, queue=f"q{number % queues}") for number in range(pods)]
    words = f"{queues} queues of {each} gangs, half of them on borrowed quota"
    return Load("share", words, tuple(gangs), NODES, pods * 3 // 2, tree=tree)


def bench_sharing(args: argparse.Namespace) -> None:
    """The same queues and gangs in both systems."""
    load = build_share(args)
    runs = {}
    for system in args.systems:
        run = runs[system] = measure(system, load)
        print(f"share: {load.words}, {system}: last pod bound after {run.finished:.1f} s,", end="")
        print(f" {run.core_ms:.0f} core-ms a gang, load {run.machine_load:.1f}", flush=True)
    if len(runs) == len(SYSTEMS):
        ratio = runs["ours"].finished / runs["kueue"].finished
        print(f"share: ours takes {ratio:.2f} times as long as Kueue", flush=True)


def build_reclaim(args: argparse.Namespace) -> Load:
    """Borrowers of six pods with one of their own each, and an owner of the five that each borrows."""
    count, settings = args.borrowers, {"min_run_time": 0, "max_evictions": args.borrowers}
    leaves = [{"name": f"b{number}", "parent": "all", "nominal": {"cpu": 1}} for number in range(count)]
    owner = {"name": "owner", "parent": "all", "nominal": {"cpu": 5 * count}}
    tree = read_tree("default", {"queues": [{"name": "all"}, *leaves, owner], "settings": settings})
    borrowers = [BenchGang(f"b{number:03d}", 6, queue=f"b{number}") for number in range(count)]
    owners = [BenchGang(f"o{number:03d}", 5, queue="owner") for number in range(count)]
    return Load("reclaim", f"{count} borrowers", (*borrowers, *owners), NODES, 6 * count, tree=tree)


def bench_reclaim(args: argparse.Namespace) -> None:
    """How long an owner waits for its own."""
    load, times = build_reclaim(args), {}
    for system in args.systems:
        operators = ("kueue",) if system == "kueue" else ()
        build_programs(*operators)
        with running_cluster(f"bench-{system}-{os.getpid()}", operators=operators) as cluster:
            prepare(cluster, system, load)
            times[system] = measure_reclaim(cluster, system, load)
        print(f"reclaim from {load.words}, {system}: the owner's last pod bound after {times[system]:.1f} s,", end="")
        print(f" load {os.getloadavg()[0]:.1f}", flush=True)
    if len(times) == len(SYSTEMS):
        ratio = times["ours"] / times["kueue"]
        kept = word(ratio <= RECLAIM_BAR)
        print(f"reclaim: ours takes {ratio:.2f} times as long as Kueue, bar {RECLAIM_BAR:g}{kept}", flush=True)


def measure_reclaim(cluster: LiveCluster, system: Name, load: Load) -> float:
    """Let borrowers take everything, then seconds from the owner's first request until its last pod is bound."""
    with contextlib.ExitStack() as stack:
        if system == "ours":
            dispatcher = stack.enter_context(Companion("dispatcher.py", dispatcher_orders(cluster, load)))
            dispatcher.wait_ready()
        create_and_wait(cluster, system, load, "b")
        wait_for_rest({name: part["pid"] for name, part in cluster.components.items()})
        return create_and_wait(cluster, system, load, "o")


def create_and_wait(cluster: LiveCluster, system: Name, load: Load, prefix: str) -> float:
    """Queue the gangs whose names begin so; seconds until their last pod is bound."""
    gangs = [gang for gang in load.gangs if gang.name.startswith(prefix)]
    objects = [queued(system, load, gang) for gang in gangs]
    wanted = {"bound": sum(gang.pods for gang in gangs)}
    orders: dict[str, t.Any] = {"kubeconfig": cluster.kubeconfig, "namespace": NAMESPACE, "watches": ["bound"]}
    with Companion("observer.py", {**orders, "wanted": wanted, "prefix": prefix}) as observer:
        observer.wait_ready()
        start = time.monotonic()
        create_all(cluster, cluster.path(objects[0], named=False), objects)
        return float(observer.result()["seen"]["bound"][-1][0]) - start


def read_arguments(given: t.Sequence[str] | None = None) -> argparse.Namespace:
    """What is measured; those of this program if none are given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=SYSTEMS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--started", type=int, default=10_000)
    parser.add_argument("--verdicts", type=int, default=1000)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--waiting", type=int, default=3000)
    parser.add_argument("--tree-sizes", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--share", type=int, nargs=2, default=(30, 50))
    parser.add_argument("--borrowers", type=int, default=20)
    return parser.parse_args(given)


def main() -> None:
    """Read the arguments and run."""
    args = read_arguments()
    print(f"load {os.getloadavg()[0]:.1f}, seed {args.seed}, {os.cpu_count()} cores")
    benches = {"verdict": bench_verdicts, "decide": bench_deciding, "share": bench_sharing, "reclaim": bench_reclaim}
    for part in args.parts:
        benches[part](args)


if __name__ == "__main__":
    main()
