# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota trees make of a cluster: shares of queues by their weights, and how long large gangs wait for their own.

The time, the nodes and the gangs of bench/policy.py, with the whole walk that a dispatcher does, on four queues of the
weights 1, 1, 2 and 4. Nobody is evicted. Two questions:

shares: every queue always has gangs waiting. Each has an eighth of the cluster as its own, and half of the cluster is
        there to be borrowed. No gang is larger than a quarter of what is a queue's own. What is borrowed is counted by
        time, but for the first quarter of it, until some queue has no gang left.
waits:  the load of bench/policy.py, spread over the queues by chance. Each has a quarter of the cluster as its own, and
        no gang is larger than that. What gangs of 64 GPUs and more wait under reserve is set against best_effort.

Usage: shares.py [--seeds 1 2 3] [--gangs 3000] [--nodes 64] [--only shares|waits] [--schedulers spread packed]
                 [--jobs 2]
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import heapq
import itertools
import os
import random
import statistics

from ansible_collections.muster.kube.bench.policy import (
    GPU,
    GPUS_PER_NODE,
    LARGE,
    LOAD,
    Outcome,
    Row,
    Simulation,
    Work,
    build_room,
    build_workload,
    figures,
    packed_placement,
    podsets_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import PodIndex
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.foresight import Walk, carried_out
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept_walk import KeptQueue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import open_case

WEIGHTS = {"a": 1, "b": 1, "c": 2, "d": 4}
# How much each queue gets of its own and by borrowing, so that all have gangs waiting about as long.
NEEDS = {"a": 3, "b": 3, "c": 4, "d": 6}
# The simulated time begins at some moment of the calendar.
BEGIN = 1_800_000_000.0
ROWS = (Row("best_effort", "best_effort", 1.0), Row("reserve", "reserve", 1.0))
# So many gangs of each queue wait where the question is who gets how much.
MOST_WAITING = 10
SHARES_BAR = 5.0
WAIT_BARS = {"spread": 0.45, "packed": 0.60}


def build_tree(nominal: int, extra: int) -> QuotaTrees:
    """Four queues with the same of their own, and a pool that is nobody's."""
    queues = [{"name": "all", "extra": {GPU: extra}}]
    queues += [
        {"name": name, "parent": "all", "weight": weight, "nominal": {GPU: nominal}, "reclaim": "never"}
        for name, weight in WEIGHTS.items()
    ]
    return QuotaTrees((read_tree("default", {"queues": queues, "settings": {"max_evictions": 0}}),))


class PackedQueue(KeptQueue):
    """The walk, where gangs that are not steered go to the fullest nodes that have room for them."""

    def _ask(self, item, gang, estimate, alike, *, hold=True):
        """The same verdict with another placement."""
        verdict = super()._ask(item, gang, estimate, alike, hold=hold)
        if verdict.answer != "fits" or verdict.steering:
            return verdict
        return dataclasses.replace(verdict, placement=packed_placement(open_case(gang, self._reserver.room)))


class TreeSimulation(Simulation):
    """The same time with the whole walk of a dispatcher; queues tells whose each gang is."""

    def __init__(self, row: Row, workload: list[Work], nodes: int, scheduler: str, trees: QuotaTrees, queues) -> None:
        """Start with empty nodes and an empty queue."""
        super().__init__(row, workload, nodes, scheduler)
        self.queues = queues
        self.records: dict[str, Record] = {}
        self.memory = Memory()
        self.options = DispatchOptions(policy=row.policy)
        self.walker = PackedQueue if self.packed else KeptQueue
        snapshot = build_room(nodes).snapshot
        self.world = World(snapshot, {}, {}, {}, PodIndex({}, {}), {}, None, quota=trees)
        # When each queue used how much, for whoever asks.
        self.use = dict.fromkeys(WEIGHTS, 0)
        self.log: list[tuple[float, dict[str, int]]] = []

    def record(self, work: Work) -> Record:
        """The record of a gang as its user submits it."""
        uid, (podset,) = work.item.uid, podsets_of(work.size)
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": uid},
            "spec": {"parallelism": podset.count, "template": podset.template},
        }
        estimate = self.estimate(work)
        given = {"name": uid, "namespace": "default", "objects": [job], "queue": self.queues[uid]}
        if estimate.seconds is not None:
            given["max_run_time"] = estimate.seconds
        raw = build_record(read_spec(given, "gang"))
        submitted = time_text(BEGIN + work.item.submitted)
        raw["metadata"].update(uid=uid, resourceVersion="1", creationTimestamp=submitted)
        return record_from_api(raw)

    def end(self, uid: str) -> None:
        """A gang is done: nothing of it is left."""
        del self.records[uid]
        self.use[self.queues[uid]] -= self.work[uid].size
        world = self.world
        pods = tuple(pod for pod in world.snapshot.pods if pod.labels.get(GANG_LABEL) != uid)
        gangs = {other: gang for other, gang in world.gangs.items() if other != uid}
        by_gang = {place: found for place, found in world.pods.by_gang.items() if place[1] != uid}
        self.world = dataclasses.replace(
            world,
            snapshot=dataclasses.replace(world.snapshot, pods=pods),
            gangs=gangs,
            pods=PodIndex(by_gang, world.pods.by_owner),
        )
        self.memory.keep_only(set(self.records))

    def cycle(self, now: float) -> None:
        """What a dispatcher does until nothing starts any more."""
        new = [uid for uid in self.queue if uid not in self.records]
        if new:
            self.records |= {uid: self.record(self.work[uid]) for uid in new}
            made = {uid: Gang(uid, "default", podsets_of(self.work[uid].size)) for uid in new}
            self.world = dataclasses.replace(self.world, gangs={**self.world.gangs, **made})
        while self.walk(now):
            pass
        self.log.append((now, dict(self.use)))

    def run_while_all_wait(self) -> None:
        """Until some queue of the tree has no gang left; as long as it has some, so many of it wait."""
        left = {name: collections.deque() for name in WEIGHTS}
        for work in self.arrivals:
            left[self.queues[work.item.uid]].append(work)
        now = 0.0
        while all(left.values()):
            waiting = collections.Counter(self.queues[uid] for uid in self.queue)
            for name, works in left.items():
                for _turn in range(min(len(works), MOST_WAITING - waiting[name])):
                    work = works.popleft()
                    item = dataclasses.replace(work.item, submitted=now)
                    self.work[item.uid] = dataclasses.replace(work, item=item)
                    self.queue[item.uid] = item
            self.cycle(now)
            now, uid = heapq.heappop(self.ends)
            self.end(uid)

    def borrowed(self, nominal: int) -> dict[str, float]:
        """The part of all that is borrowed that each queue has, by time, in percent; the first quarter is left out."""
        begin = self.log[-1][0] / 4
        sums = dict.fromkeys(WEIGHTS, 0.0)
        for (at, use), (until, _use) in itertools.pairwise(self.log):
            for name, amount in use.items():
                sums[name] += max(0, amount - nominal) * (until - max(at, begin)) * (until > begin)
        return {name: 100 * amount / sum(sums.values()) for name, amount in sums.items()}

    def walk(self, now: float) -> bool:
        """One walk down the queue; whether a gang started."""
        at = BEGIN + now
        queue = self.walker(
            self.world, list(self.records.values()), terms=self.options, memory=self.memory, now=at, history={}
        )
        choices = tuple(queue.decide())
        assert not queue.unforeseen, queue.unforeseen
        self.cycles += 1
        chosen = [choice for choice in choices if choice.chosen]
        self.world, self.records = carried_out(self.world, self.records, at, Walk(tuple(chosen), (), (), {}))
        for choice in chosen:
            uid = choice.record.uid
            self.note_start(self.work[uid], now)
            self.use[self.queues[uid]] += self.work[uid].size
            del self.queue[uid]
        return bool(chosen)


def draw_queues(seed: int, workload: list[Work]) -> dict[str, str]:
    """Whose each gang is."""
    rng = random.Random(f"queues {seed}")
    return {work.item.uid: rng.choice(list(WEIGHTS)) for work in workload}


def simulate_waits(row: Row, seed: int, gangs: int, nodes: int, scheduler: str) -> Outcome:
    """The load of the policies, with a quarter of the cluster for each queue."""
    nominal = nodes * GPUS_PER_NODE // len(WEIGHTS)
    workload = build_workload(seed, gangs, nodes, most=nominal)
    queues = draw_queues(seed, workload)
    return TreeSimulation(row, workload, nodes, scheduler, build_tree(nominal, 0), queues).run()


def simulate_shares(row: Row, seed: int, gangs: int, nodes: int, scheduler: str) -> dict[str, float]:
    """The part of what is borrowed that each queue has, in percent, while all queues have gangs waiting."""
    whole = nodes * GPUS_PER_NODE
    nominal = whole // (2 * len(WEIGHTS))
    # One gang as large as what is a queue's own would be twice what the least weight may borrow.
    workload = build_workload(seed, gangs, nodes, most=nominal // 4)
    names = [name for name, need in NEEDS.items() for _turn in range(need)]
    queues = {work.item.uid: names[place % len(names)] for place, work in enumerate(workload)}
    simulation = TreeSimulation(row, workload, nodes, scheduler, build_tree(nominal, whole // 2), queues)
    simulation.run_while_all_wait()
    return simulation.borrowed(nominal)


def borrowed_bars(row: str, found: list[dict[str, float]]) -> list[str]:
    """How far each queue is from what its weight says, means over the seeds."""
    lines = []
    for name, weight in WEIGHTS.items():
        share, wanted = statistics.fmean(item[name] for item in found), 100 * weight / sum(WEIGHTS.values())
        kept = "kept" if abs(share - wanted) <= SHARES_BAR else "MISSED"
        lines.append(
            f"{row}: queue {name} of weight {weight} has {share:.1f} % of what is borrowed, by weight {wanted:.1f} %"
            f" (bar {SHARES_BAR:.0f} points): {kept}"
        )
    return lines


def wait_bar(base: dict[str, float], ours: dict[str, float], scheduler: str) -> str:
    """What large gangs wait under reserve, against best_effort."""
    share = ours["large p99"] / base["large p99"] if base["large p99"] else 1.0
    limit = WAIT_BARS[scheduler]
    kept = "kept" if share <= limit else "MISSED"
    return (
        f"{scheduler}: p99 wait of gangs of {LARGE} GPUs and more, all within nominal: {ours['large p99']:.0f} min, "
        f"{100 * share:.0f} % of best_effort's {base['large p99']:.0f} (bar {100 * limit:.0f} %): {kept}"
    )


def show_waits(outcomes: dict[tuple[str, str], list[Outcome]], schedulers: list[str]) -> None:
    """Table and bars."""
    table = {key: figures(found) for key, found in outcomes.items()}
    print(f"\n| scheduler | policy | util % | mean | p50 | p99 | p99, >= {LARGE} GPUs | max | CPU ms per cycle |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (scheduler, name), line in table.items():
        numbers = [f"{line['utilization']:.1f}", *(f"{line[key]:.1f}" for key in ("mean", "p50"))]
        numbers += [f"{line[key]:.0f}" for key in ("p99", "large p99", "max")] + [f"{line['CPU ms per cycle']:.1f}"]
        print(f"| {scheduler} | {name} | {' | '.join(numbers)} |")
    print()
    for scheduler in schedulers:
        print(wait_bar(table[scheduler, "best_effort"], table[scheduler, "reserve"], scheduler))


def main() -> None:
    """Read the arguments and run the rows, several at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--gangs", type=int, default=3000)
    parser.add_argument("--nodes", type=int, default=64)
    parser.add_argument("--only", choices=("shares", "waits"))
    parser.add_argument("--schedulers", nargs="+", choices=("spread", "packed"), default=["spread", "packed"])
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    print(
        f"{given.gangs} gangs, {given.nodes} nodes x {GPUS_PER_NODE} GPUs, queues of weight "
        f"{':'.join(map(str, WEIGHTS.values()))}, seeds {' '.join(map(str, given.seeds))}; load {LOAD}; waits: min"
    )
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        shares, waits = {}, {}
        for row, seed in itertools.product(ROWS, given.seeds):
            if given.only != "waits":
                shares[row.name, seed] = pool.submit(simulate_shares, row, seed, given.gangs, given.nodes, "spread")
            for scheduler in given.schedulers if given.only != "shares" else ():
                key = scheduler, row.name, seed
                waits[key] = pool.submit(simulate_waits, row, seed, given.gangs, given.nodes, scheduler)
        for key, run in waits.items():
            line = figures([run.result()])
            print(", ".join(map(str, key)) + ": " + ", ".join(f"{name} {value:.1f}" for name, value in line.items()))
        for row in ROWS if shares else ():
            print("\n".join(borrowed_bars(row.name, [shares[row.name, seed].result() for seed in given.seeds])))
        if waits:
            pairs = itertools.product(given.schedulers, [row.name for row in ROWS])
            found = {
                (place, name): [waits[place, name, seed].result() for seed in given.seeds] for place, name in pairs
            }
            show_waits(found, given.schedulers)


if __name__ == "__main__":
    main()
