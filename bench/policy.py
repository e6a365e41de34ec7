# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the order of the queue costs and gains: the shipped policies against simulated time.

Gangs of 1 to 256 GPUs arrive at random on nodes of 8 GPUs, in pods of at most 8. Each arrival and each end of a gang
is a cycle: the code that a dispatcher runs orders the queue, judges, reserves and places; only the clock is simulated.
Gangs that are not steered go where kube-scheduler's scoring sends them: spread (its default) or packed (MostAllocated).
Estimates are 1 to 5 times too long and enforced. Wait is from arrival to start; utilization is counted until the last
arrival.

Usage: policy.py [--seeds 1 2 3 4 5] [--gangs 6000] [--nodes 64] [--rows strict best_effort ...] [--jobs 2]
                 [--scheduler spread|packed]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import heapq
import itertools
import math
import os
import random
import statistics
import time

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Node, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import (
    Policy,
    QueuedGang,
    ordered,
    walk,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    Ending,
    Estimate,
    ReserveOptions,
    Reserver,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    Case,
    judge,
    open_case,
    try_to_fit,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import place_greedily, tightest

GPU = "nvidia.com/gpu"
GPUS_PER_NODE = 8
LOAD = 0.92
# Sizes in GPUs and how many of 100 gangs have them; half of the work is in gangs of 64 and more.
SIZES = {1: 30, 2: 15, 4: 15, 8: 20, 16: 8, 32: 5, 64: 4, 128: 2, 256: 1}
LARGE = 64
MEDIAN_SECONDS, SIGMA, LONGEST_SECONDS = 1800.0, 1.2, 2 * 86400.0
MOST_TOO_LONG = 5.0

UTILIZATION_BAR = 1.0
LARGE_WAIT_BAR = 0.45


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a policy, and the share of gangs whose run time is estimated."""

    name: str
    policy: Policy
    estimated: float = 0.0


ROWS = (
    Row("strict", "strict"),
    Row("best_effort", "best_effort"),
    Row("reserve, estimates for all", "reserve", 1.0),
    Row("reserve, for half", "reserve", 0.5),
    Row("reserve, for none", "reserve", 0.0),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """One gang of the workload; estimate_draw decides whether a row that estimates for some does it for this one."""

    item: QueuedGang
    size: int
    runs: float
    too_long: float
    estimate_draw: float


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What one simulation came to; times in seconds, took in seconds of CPU."""

    utilization: float
    waits: tuple[float, ...]
    large_waits: tuple[float, ...]
    cycles: int
    took: float


def build_workload(seed: int, gangs: int, nodes: int, most: int | None = None) -> list[Work]:
    """Poisson arrivals at the wanted load; sizes above most, or above half of a smaller cluster, are left out."""
    rng = random.Random(seed)
    largest = nodes * GPUS_PER_NODE // 2 if most is None else most
    sizes = {size: weight for size, weight in SIZES.items() if size <= largest}
    drawn = rng.choices(list(sizes), list(sizes.values()), k=gangs)
    runs = [min(LONGEST_SECONDS, rng.lognormvariate(math.log(MEDIAN_SECONDS), SIGMA)) for _gang in drawn]
    work = sum(size * seconds for size, seconds in zip(drawn, runs, strict=True))
    rate = gangs * LOAD * nodes * GPUS_PER_NODE / work
    now = 0.0
    workload = []
    for i, (size, seconds) in enumerate(zip(drawn, runs, strict=True)):
        now += rng.expovariate(rate)
        item = QueuedGang(f"g{i:06d}", 0, 0.0, now)
        workload.append(Work(item, size, seconds, rng.uniform(1.0, MOST_TOO_LONG), rng.random()))
    return workload


@functools.cache
def podsets_of(size: int) -> tuple:
    """The podsets of a gang: whole nodes from 8 GPUs on, else one pod."""
    each = min(size, GPUS_PER_NODE)
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: str(each)}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "w"},
        "spec": {
            "parallelism": size // each,
            "template": {"spec": {"containers": [container], "restartPolicy": "Never"}},
        },
    }
    return tuple(infer_podsets([job], namespace="default"))


def build_room(nodes: int) -> Room:
    """Equal, empty nodes."""
    names = [f"n{i:04d}" for i in range(nodes)]
    allocatable = {GPU: GPUS_PER_NODE, "pods": 110}
    views = [Node(name, {"kubernetes.io/hostname": name}, (), allocatable, False) for name in names]
    return Room(Snapshot(nodes=tuple(views)))


REFUSAL = Verdict("", "", "waits", None, "insufficient", NamespaceFit(True), 0, (), {})


def packed_placement(case: Case) -> dict[str, dict[str, int]]:
    """Where a scheduler that packs puts the pods of a gang that fits."""
    (podset,), (here,) = case.gang.podsets, place_greedily(case.state, [0], tightest)
    return {podset.name: {case.room.nodes[n].name: count for n, count in here.items()}}


class Simulation:
    """The queue, the room and the clock."""

    def __init__(self, row: Row, workload: list[Work], nodes: int, scheduler: str = "spread") -> None:
        """Start with empty nodes and an empty queue."""
        self.row = row
        self.packed = scheduler == "packed"
        self.work = {work.item.uid: work for work in workload}
        self.arrivals = workload
        self.room = build_room(nodes)
        self.capacity = nodes * GPUS_PER_NODE
        self.terms = ReserveOptions() if row.policy == "reserve" else ReserveOptions(reserve_after=math.inf)
        self.queue: dict[str, QueuedGang] = {}
        self.running: dict[str, Ending] = {}
        self.ends: list[tuple[float, str]] = []
        self.started_at: dict[str, float] = {}
        self.refused: set[int] = set()
        self.cycles = 0

    def estimate(self, work: Work) -> Estimate:
        """What the policy is told of a gang's run time."""
        if work.estimate_draw >= self.row.estimated:
            return Estimate()
        return Estimate(work.runs * work.too_long, True)

    def run(self) -> Outcome:
        """Until every gang has started."""
        began = time.process_time()
        arrivals = iter([*self.arrivals, None])
        coming = next(arrivals)
        while coming is not None or self.queue:
            times = [self.ends[0][0]] if self.ends else []
            now = min([*times, coming.item.submitted] if coming is not None else times)
            while self.ends and self.ends[0][0] <= now:
                self.end(heapq.heappop(self.ends)[1])
            while coming is not None and coming.item.submitted <= now:
                self.queue[coming.item.uid] = coming.item
                coming = next(arrivals)
            self.cycle(now)
        return self.outcome(time.process_time() - began)

    def end(self, uid: str) -> None:
        """A gang is done: its pods leave, and what did not fit may fit now."""
        self.refused.clear()
        self.room = self.room.without(self.running.pop(uid).pods)

    def judge(self, room: Room, gang: Gang, taken: QuotaUse | None) -> Verdict:
        """The shipped decision, without the explanation of a refusal, which nobody reads here.

        Until some gang ends the room only shrinks, so what was refused since then is refused again.
        """
        size = self.work[gang.name].size
        case = None if size in self.refused else open_case(gang, room)
        if case is None or try_to_fit(case) is None:
            self.refused.add(size)
            return REFUSAL
        verdict = judge(room, gang, taken)
        return dataclasses.replace(verdict, placement=packed_placement(case)) if self.packed else verdict

    def cycle(self, now: float) -> None:
        """What a dispatcher does with one reading of the cluster."""
        reserver = Reserver(self.room, self.running.values(), now, self.terms, self.judge)

        def start_if_it_fits(item: QueuedGang) -> bool:
            work = self.work[item.uid]
            gang, estimate = Gang(item.uid, "default", podsets_of(work.size)), self.estimate(work)
            verdict = reserver.judge(item, gang, estimate, demand=work.size)
            if verdict.answer != "fits":
                return False
            at = None if estimate.seconds is None else now + estimate.seconds
            self.running[item.uid] = Ending(reserver.start(gang, verdict, estimate), at, estimate.enforced)
            self.note_start(work, now)
            return True

        decisions = walk(self.row.policy, ordered(self.queue.values(), now), start_if_it_fits, reserver.blocked_by)
        for item in decisions.started:
            del self.queue[item.uid]
        self.cycles += 1

    def note_start(self, work: Work, now: float) -> None:
        """A gang runs from now on."""
        self.started_at[work.item.uid] = now
        heapq.heappush(self.ends, (now + work.runs, work.item.uid))

    def outcome(self, took: float) -> Outcome:
        """Figures of a finished run."""
        last = self.arrivals[-1].item.submitted
        used = sum(
            work.size * max(0.0, min(last, start + work.runs) - start)
            for uid, start in self.started_at.items()
            for work in (self.work[uid],)
        )
        waits = {uid: start - self.work[uid].item.submitted for uid, start in self.started_at.items()}
        large = tuple(wait for uid, wait in waits.items() if self.work[uid].size >= LARGE)
        return Outcome(used / (self.capacity * last), tuple(waits.values()), large, self.cycles, took)


def percentile(values: tuple[float, ...], share: float) -> float:
    """The value that this share of all stay within."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else 0.0


def simulate(row: Row, seed: int, gangs: int, nodes: int, scheduler: str = "spread") -> Outcome:
    """One row with one seed."""
    return Simulation(row, build_workload(seed, gangs, nodes), nodes, scheduler).run()


def figures(outcomes: list[Outcome]) -> dict[str, float]:
    """Means over the seeds; waits in minutes."""

    def mean(value) -> float:
        return statistics.fmean(value(outcome) for outcome in outcomes)

    return {
        "utilization": mean(lambda outcome: 100 * outcome.utilization),
        "mean": mean(lambda outcome: statistics.fmean(outcome.waits) / 60),
        "p50": mean(lambda outcome: percentile(outcome.waits, 0.5) / 60),
        "p99": mean(lambda outcome: percentile(outcome.waits, 0.99) / 60),
        "large p99": mean(lambda outcome: percentile(outcome.large_waits, 0.99) / 60),
        "max": mean(lambda outcome: max(outcome.waits) / 60),
        "CPU ms per cycle": mean(lambda outcome: 1000 * outcome.took / outcome.cycles),
    }


def bars(table: dict[str, dict[str, float]]) -> list[str]:
    """The promises and whether they were kept, as far as the rows are there."""
    base = table.get("best_effort")
    lines = []
    for row in ROWS:
        if row.policy != "reserve" or row.name not in table or base is None:
            continue
        share = table[row.name]["large p99"] / base["large p99"] if base["large p99"] else 1.0
        limit = LARGE_WAIT_BAR if row.estimated == 1 else 1.0
        kept = "kept" if share <= limit else "MISSED"
        lines.append(
            f"{row.name}: p99 wait of large gangs {100 * share:.0f} % of best_effort (bar {100 * limit:.0f} %): {kept}"
        )
        if row.estimated == 1:
            lost = base["utilization"] - table[row.name]["utilization"]
            kept = "kept" if lost <= UTILIZATION_BAR else "MISSED"
            lines.append(
                f"{row.name}: utilization {lost:+.2f} points below best_effort (bar {UTILIZATION_BAR}): {kept}"
            )
    return lines


def show(arguments: argparse.Namespace, outcomes: dict[str, list[Outcome]]) -> None:
    """Table and bars."""
    table = {name: figures(of_row) for name, of_row in outcomes.items()}
    print(
        f"{arguments.gangs} gangs, {arguments.nodes} nodes x {GPUS_PER_NODE} GPUs, load {LOAD}, "
        f"scheduler {arguments.scheduler}, means over seeds {' '.join(map(str, arguments.seeds))}; waits in minutes\n"
    )
    print(f"| policy | util % | mean | p50 | p99 | p99, >= {LARGE} GPUs | max | CPU ms per cycle |")
    print("|---|---|---|---|---|---|---|---|")
    for name, line in table.items():
        numbers = [f"{line['utilization']:.1f}", *(f"{line[key]:.1f}" for key in ("mean", "p50"))]
        numbers += [f"{line[key]:.0f}" for key in ("p99", "large p99", "max")] + [f"{line['CPU ms per cycle']:.1f}"]
        print(f"| {name} | {' | '.join(numbers)} |")
    print()
    for line in bars(table):
        print(line)


def main() -> None:
    """Read the arguments and run the rows, several at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument("--gangs", type=int, default=6000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--rows", nargs="+", default=[row.name for row in ROWS], choices=[row.name for row in ROWS])
    parser.add_argument("--scheduler", choices=("spread", "packed"), default="spread")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    by_name = {row.name: row for row in ROWS}
    rows = [by_name[name] for name in arguments.rows]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        runs = {
            (row.name, seed): pool.submit(simulate, row, seed, arguments.gangs, arguments.nodes, arguments.scheduler)
            for row, seed in itertools.product(rows, arguments.seeds)
        }
        for (name, seed), run in runs.items():
            line = figures([run.result()])
            print(f"{name}, seed {seed}: " + ", ".join(f"{key} {value:.1f}" for key, value in line.items()), flush=True)
        outcomes = {row.name: [runs[row.name, seed].result() for seed in arguments.seeds] for row in rows}
    show(arguments, outcomes)


if __name__ == "__main__":
    main()
