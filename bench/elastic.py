# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ranges of sizes gain over fixed ones: the shipped decisions about sizes against simulated time.

Trainings arrive at random on GPUs that are one pool. Each has a range of 1 to 2 up to 4 to 8 GPUs, the measured speeds
of a real model, three to ten epochs with a checkpoint each, and most have much less work than a few large ones. How
large those are is the argument --work: nobody has more than 30 GPU-hours (bounded), so that GPUs are scarce until the
last arrival; or up to 100 (tail), so that much of all work is done by few trainings after it, alone on idle GPUs. Load
is the work at smallest sizes over what the GPUs can do until the last arrival. Each start costs some seconds. A trainer
tells its steps every half minute; nothing else is known of it, but for the row that knows everything.

Rows: rigid jobs of the smallest or the largest size; sizes that are chosen at the start and kept; the original's main
branch, which kills one job for a newcomer and one after each end; then a policy with the moment of its resizes: killed
at once, at the natural checkpoints, at checkpoints that are asked for (asked), on SIGTERM (sigterm).

First the simulator is set against Erlang's C formula: rigid jobs of one GPU, exponential times.

Usage: elastic.py [--seeds 1 2 3] [--trainings 200] [--gpus 64] [--loads 0.6 0.9 1.5] [--restarts 60 240]
                  [--work bounded tail] [--rows original "afs, asked" ...] [--erlang 1000000] [--jobs 2]
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import heapq
import itertools
import math
import os
import random
import statistics
import typing as t

from ansible_collections.muster.kube.bench.policy import percentile
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.capacity import GpuPool
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob, informed
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.plan import plan_sizes
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.policies import PolicyName
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.timing import (
    LATE,
    LONGEST_WAIT,
    Timing,
    resize_moment,
)

GPU = "nvidia.com/gpu"
HOUR = 3600.0
# Speed at 1, 2, 4, 8 GPUs over that at one, at a fixed global batch (ElasticFlow's profiles of A100s).
MODELS = (
    (1, 1.43, 1.72, 1.83),
    (1, 1.59, 2.36, 2.80),
    (1, 1.63, 2.28, 2.56),
    (1, 1.70, 2.79, 3.82),
    (1, 1.87, 3.36, 5.63),
    (1, 1.92, 3.53, 6.09),
    (1, 1.82, 3.05, 4.24),
    (1, 1.85, 3.28, 4.63),
)
RANGES = ((1, 2), (1, 4), (2, 4), (2, 8), (4, 8))
# GPU-hours from, to, and how many of 100 trainings have them; the mean of both is about 3.4. The second has Philly's
# parts, but that those of 100 and more are less long.
WORKS = {
    "bounded": ((0.1, 1.0, 62), (1.0, 10.0, 26), (10.0, 30.0, 12)),
    "tail": ((0.1, 1.0, 75), (1.0, 10.0, 19), (10.0, 100.0, 6)),
}
REPORT_SECONDS = 30.0
# How long a trainer takes to save when it is asked to.
SAVE_SECONDS = 5.0
# Lower mean completion time than the original's, in percent, by load.
MEAN_BARS = {0.9: 13.0, 1.5: 15.0}
NATURAL_BAR, P95_BAR, RESTARTS_BAR, ERLANG_BAR = 3.0, 13.0, 2.5, 2.0


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: who decides, what it knows, and how a resize is done.

    sizes are those of the range that count. asked is whether trainers save when they are asked to.
    """

    name: str
    policy: PolicyName | None = "afs"
    timing: Timing = "at_checkpoint"
    asked: bool = False
    sizes: t.Literal["all", "min", "max"] = "all"
    kept: bool = False
    knows_all: bool = False


ROWS = (
    Row("rigid at min", sizes="min"),
    Row("rigid at max", sizes="max"),
    Row("fit at start", kept=True),
    Row("original", policy=None, timing="now"),
    Row("afs, killed", timing="now"),
    Row("afs, natural"),
    Row("afs, asked", asked=True),
    Row("afs, sigterm", timing="on_sigterm"),
    Row("afs, asked, knows all", asked=True, knows_all=True),
    Row("relative_speedup, asked", "relative_speedup", asked=True),
    Row("marginal_gain, asked", "marginal_gain", asked=True),
    Row("max_min, asked", "max_min", asked=True),
    Row("least_progress, asked", "least_progress", asked=True),
    Row("shortest_remaining, asked", "shortest_remaining", asked=True),
    Row("attained_service, asked", "attained_service", asked=True),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Training:
    """What arrives: steps to do, steps a second by size, and as many checkpoints as epochs."""

    uid: str
    arrival: float
    range: Range
    speeds: dict[int, float]
    steps: float
    epochs: int = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What one simulation came to: completion times and waits in seconds, GPU-seconds that were lost."""

    times: tuple[float, ...]
    waits: tuple[float, ...]
    utilization: float
    resizes: int
    lost: float


def sizes_of(low: int, high: int) -> Range:
    """All sizes between two, in GPUs of one pod."""
    return Range(tuple(range(low, high + 1)), GPU, "x", "per_pod")


def build_workload(seed: int, count: int, gpus: int, load: float, work: str) -> list[Training]:
    """Poisson arrivals at the wanted load."""
    parts = WORKS[work]
    rng = random.Random(seed)
    drawn = []
    for _training in range(count):
        low, high = rng.choice(RANGES)
        least, most, _weight = rng.choices(parts, [weight for *_bounds, weight in parts])[0]
        hours = math.exp(rng.uniform(math.log(least), math.log(most)))
        shape = SpeedCurve(profile=dict(zip((1, 2, 4, 8), rng.choice(MODELS), strict=True)))
        speeds = {size: shape.at(size) for size in range(low, high + 1)}
        drawn.append((sizes_of(low, high), speeds, hours * HOUR, rng.randint(3, 10)))
    rate = count * load * gpus / sum(seconds for _range, _speeds, seconds, _epochs in drawn)
    now, workload = 0.0, []
    for number, (range_, speeds, seconds, epochs) in enumerate(drawn):
        now += rng.expovariate(rate)
        steps = seconds / range_.min * speeds[range_.min]
        workload.append(Training(f"t{number:06d}", now, range_, speeds, steps, epochs))
    return workload


def memoryless_workload(seed: int, count: int, gpus: int, load: float) -> t.Iterator[Training]:
    """Rigid jobs of one GPU whose times, and those between arrivals, are exponential with mean 1 and less."""
    rng = random.Random(seed)
    now, one = 0.0, sizes_of(1, 1)
    for number in range(count):
        now += rng.expovariate(gpus * load)
        yield Training(f"t{number:07d}", now, one, {1: 1.0}, rng.expovariate(1.0))


def erlang_wait(gpus: int, load: float) -> float:
    """The mean wait, in mean run times, by Erlang's C formula."""
    offered = gpus * load
    blocked = 1.0
    for servers in range(1, gpus + 1):
        blocked = offered * blocked / (servers + offered * blocked)
    delayed = blocked / (1 - load * (1 - blocked))
    return delayed / (gpus - offered)


class Running:
    """A training in simulated time: what it has done since it was last started or resized."""

    def __init__(self, training: Training, range_: Range, now: float, size: int, restart: float) -> None:
        """Start it."""
        self.training = training
        self.range = range_
        self.size = size
        self.began = now
        self.since = now + restart
        self.done = self.saved = 0.0
        self.progress = Progress()
        # Since when a resize waits for a checkpoint, and whether that is there now.
        self.planned: float | None = None
        self.ready = False
        self.resized = now
        self.missed: float | None = None
        self.attained = 0.0
        self.version = 0

    def steps(self, now: float) -> float:
        """Steps that are done."""
        return min(self.training.steps, self.done + max(0.0, now - self.since) * self.training.speeds[self.size])

    def reaches(self, steps: float) -> float:
        """When so many steps are done."""
        return self.since + (steps - self.done) / self.training.speeds[self.size]

    def next_checkpoint(self, now: float) -> float:
        """When the next epoch ends."""
        each = self.training.steps / self.training.epochs
        return self.reaches(each * (math.floor(self.steps(now) / each + 1e-9) + 1))

    def next_save(self, now: float) -> float:
        """When it has saved its work if it is asked to in the answer to its next report."""
        reports = max(1, math.ceil((now - self.since) / REPORT_SECONDS))
        return self.since + reports * REPORT_SECONDS + SAVE_SECONDS

    def note(self, now: float) -> None:
        """Take the reports of a trainer up to now: the last two, and the end of the last epoch."""
        last = math.floor((now - self.since) / REPORT_SECONDS)
        for report in (last - 1, last):
            if report >= 0:
                time = self.since + report * REPORT_SECONDS
                told = int(1000 * self.steps(time)), self.size, int(1000 * self.training.steps)
                self.progress = self.progress.at_step(time, *told)
        each = self.training.steps / self.training.epochs
        ended = each * math.floor(self.steps(now) / each + 1e-9)
        if ended > max(self.saved, self.done):
            self.save(self.reaches(ended), ended)

    def save(self, now: float, steps: float) -> None:
        """A checkpoint is stored."""
        self.saved = max(self.saved, steps)
        self.progress = self.progress.at_checkpoint(now, int(1000 * steps))

    def resize(self, now: float, size: int, restart: float, *, saves: bool) -> float:
        """Stop and start it at another size; the GPU-seconds that have to be computed again."""
        self.note(now)
        done = self.steps(now)
        if saves:
            self.save(now, done)
        lost = max(0.0, done - self.saved) / self.training.speeds[self.size] * self.size
        self.attained += self.size * (now - self.resized)
        self.done, self.size, self.since, self.resized = self.saved, size, now + restart, now
        self.planned, self.version = None, self.version + 1
        return lost

    def as_job(self, now: float, row: Row, restart: float) -> ElasticJob:
        """What a decision knows of it."""
        self.note(now)
        job = ElasticJob(
            self.training.uid,
            self.range,
            self.size,
            submitted=self.training.arrival,
            resized=self.resized,
            ran=max(0.0, now - self.began),
            missed=self.missed,
            timing=row.timing,
            attained=self.attained + self.size * (now - self.resized),
            restart=restart,
            busy="its size is kept" if row.kept else None,
        )
        job = informed(job, self.progress, now)
        if not row.knows_all:
            return job
        left = self.training.steps - self.steps(now)
        return dataclasses.replace(
            job, curve=SpeedCurve(self.training.speeds), remaining=left, total=self.training.steps
        )


class Simulation:
    """The queue, the GPUs and the clock."""

    def __init__(self, row: Row, workload: list[Training], gpus: int, restart: float) -> None:
        """Start with idle GPUs and an empty queue."""
        self.row = row
        self.gpus = gpus
        self.restart = restart
        self.workload = workload
        self.waiting: dict[str, Training] = {}
        self.running: dict[str, Running] = {}
        self.nominated: set[str] = set()
        self.times: list[float] = []
        self.waits: list[float] = []
        self.resizes = 0
        self.lost = 0.0
        self.used = 0.0
        # What happens: when, in which order, what, to whom, and whether it still does.
        self.events: list[tuple[float, int, str, str, int]] = []
        self.numbers = itertools.count()

    def run(self) -> Outcome:
        """Until every training has ended."""
        arrivals = iter([*self.workload, None])
        coming = next(arrivals)
        clock = 0.0
        last = self.workload[-1].arrival
        while coming is not None or self.events:
            now = min([event[0] for event in self.events[:1]] + ([coming.arrival] if coming else []))
            busy = sum(item.size for item in self.running.values())
            self.used += busy * max(0.0, min(now, last) - clock)
            clock = now
            ended = False
            while self.events and self.events[0][0] <= now:
                ended = self.happen(*heapq.heappop(self.events)) or ended
            while coming is not None and coming.arrival <= now:
                self.waiting[coming.uid] = coming
                coming = next(arrivals)
            self.decide(now, ended=ended)
        return Outcome(tuple(self.times), tuple(self.waits), self.used / (self.gpus * last), self.resizes, self.lost)

    def decide(self, now: float, *, ended: bool) -> None:
        """Plan until nothing more can be done at this moment."""
        if self.row.policy is None:
            Original(self, now).decide(grow=ended)
            return
        while self.cycle(now):
            pass

    def happen(self, now: float, _number: int, what: str, uid: str, version: int) -> bool:
        """Something happens; whether it is the end of a training."""
        item = self.running.get(uid)
        if item is None or item.version != version:
            return False
        if what == "end":
            del self.running[uid]
            self.times.append(now - item.training.arrival)
            return True
        if what == "moment" and item.planned is not None:
            self.at_moment(item, item.planned, now)
        return False

    def at_moment(self, item: Running, planned: float, now: float) -> None:
        """A resize that was planned has its checkpoint, or waits for it no longer."""
        item.note(now)
        natural = math.isclose(item.next_checkpoint(now - 1e-3), now, abs_tol=1e-2)
        if natural or self.row.asked:
            item.save(now, item.steps(now))
        moment = resize_moment(self.row.timing, item.progress, planned, now)
        item.ready = moment == "go"
        if moment == "give_up":
            item.planned, item.missed = None, now

    def cycle(self, now: float) -> bool:
        """One decision; whether something changed at once. What waits for a checkpoint is decided anew until then."""
        jobs = [item.as_job(now, self.row, self.restart) for item in self.running.values()]
        jobs += [self.waiting_job(training) for training in self.waiting.values()]
        plan = plan_sizes(jobs, self.pool(), now=now, policy=self.row.policy or "afs")
        changed = False
        for decision in plan.changes:
            if decision.reason == "starts":
                if decision.when == "now":
                    self.start(self.waiting[decision.uid], now, decision.size)
                    changed = True
                continue
            item = self.running[decision.uid]
            if decision.when == "now" or (decision.when == "at_checkpoint" and item.ready):
                if decision.for_uid is not None:
                    self.nominated.add(decision.for_uid)
                self.resize(item, now, decision.size)
                changed = True
            elif decision.when == "at_checkpoint" and item.planned is None:
                self.plan_resize(item, now)
        if not changed:
            for item in self.running.values():
                item.ready = False
                if not plan.decisions[item.training.uid].changes:
                    item.planned = None
        return changed

    def pool(self) -> GpuPool:
        """The GPUs."""
        held = {uid: item.size for uid, item in self.running.items()}
        return GpuPool(self.gpus - sum(held.values()), held)

    def waiting_job(self, training: Training) -> ElasticJob:
        """What a decision knows of a training that waits."""
        uid, known = training.uid, self.row.knows_all
        return ElasticJob(
            uid,
            self.range_of(training),
            curve=SpeedCurve(training.speeds if known else {}),
            remaining=training.steps if known else None,
            total=training.steps if known else None,
            submitted=training.arrival,
            nominated=uid in self.nominated,
        )

    def range_of(self, training: Training) -> Range:
        """The sizes that count in this row."""
        range_ = training.range
        if self.row.sizes == "all":
            return range_
        size = range_.min if self.row.sizes == "min" else range_.max
        return sizes_of(size, size)

    def start(self, training: Training, now: float, size: int) -> None:
        """A training runs from now on."""
        del self.waiting[training.uid]
        self.nominated.discard(training.uid)
        self.waits.append(now - training.arrival)
        item = Running(training, self.range_of(training), now, size, self.restart)
        self.running[training.uid] = item
        self.expect_end(item)

    def plan_resize(self, item: Running, now: float) -> None:
        """Wait for a checkpoint of a training."""
        item.planned = now
        interval = item.progress.checkpoint_interval
        longest = LONGEST_WAIT if interval is None else LATE * interval
        times = [item.next_save(now)] if self.row.asked else [item.next_checkpoint(now), now + longest + 1.0]
        for time in times:
            self.expect(time, "moment", item)

    def resize(self, item: Running, now: float, size: int) -> None:
        """A training is stopped and started with another size."""
        self.lost += item.resize(now, size, self.restart, saves=self.row.timing == "on_sigterm")
        self.resizes += 1
        self.expect_end(item)

    def expect_end(self, item: Running) -> None:
        """The end of a training as things are; a decision is worth while once its speed is known."""
        self.expect(item.reaches(item.training.steps), "end", item)
        if self.row.policy is not None and item.range.max > item.range.min:
            self.expect(item.since + 2 * REPORT_SECONDS + 1.0, "measured", item)

    def expect(self, time: float, what: str, item: Running) -> None:
        """Note what will happen."""
        heapq.heappush(self.events, (time, next(self.numbers), what, item.training.uid, item.version))


class Original:
    """The rules of the original's main branch, but that a job which does not fit waits."""

    def __init__(self, simulation: Simulation, now: float) -> None:
        """At one moment."""
        self.simulation = simulation
        self.now = now

    def decide(self, *, grow: bool) -> None:
        """Start what fits, shrink one job for each that does not, and let one job grow after an end."""
        simulation = self.simulation
        for training in list(simulation.waiting.values()):
            least = training.range.min
            if simulation.pool().free < least:
                self.shrink(least)
            if simulation.pool().free < least:
                return
            simulation.start(training, self.now, min(training.range.max, simulation.pool().free))
        able = self.latest_first(lambda item: item.size < item.range.max)
        if grow and able and simulation.pool().free:
            size = min(able[0].range.max, able[0].size + simulation.pool().free)
            simulation.resize(able[0], self.now, size)

    def shrink(self, need: int) -> None:
        """Take what a newcomer needs from one job, if one has so much to spare."""
        able = self.latest_first(lambda item: item.size - item.range.min >= need)
        if able:
            self.simulation.resize(able[0], self.now, able[0].size - need)

    def latest_first(self, able: t.Callable[[Running], bool]) -> list[Running]:
        """Jobs whose last checkpoint, or arrival, is latest."""
        found = [item for item in self.simulation.running.values() if able(item)]
        for item in found:
            item.note(self.now)

        def saved(item: Running) -> float:
            checkpoint = item.progress.checkpoint
            return item.training.arrival if checkpoint is None else checkpoint.time

        return sorted(found, key=saved, reverse=True)


def simulate(row: Row, seed: int, trainings: int, gpus: int, load: float, restart: float, work: str) -> Outcome:
    """One row with one seed."""
    return Simulation(row, build_workload(seed, trainings, gpus, load, work), gpus, restart).run()


def simulated_waits(workload: list[Training], gpus: int) -> list[float]:
    """The waits of rigid jobs, in mean run times."""
    return list(Simulation(ROWS[0], workload, gpus, 0.0).run().waits)


def queued_waits(workload: t.Iterable[Training], gpus: int) -> t.Iterator[float]:
    """The same without a simulator: each takes the GPU that is free first."""
    free = [0.0] * gpus
    for training in workload:
        begin = max(training.arrival, free[0])
        heapq.heapreplace(free, begin + training.steps)
        yield begin - training.arrival


def figures(outcomes: list[Outcome]) -> dict[str, float]:
    """Means over the seeds; times in hours."""

    def mean(value: t.Callable[[Outcome], float]) -> float:
        return statistics.fmean(value(outcome) for outcome in outcomes)

    return {
        "mean": mean(lambda outcome: statistics.fmean(outcome.times) / HOUR),
        "p95": mean(lambda outcome: percentile(outcome.times, 0.95) / HOUR),
        "wait": mean(lambda outcome: statistics.fmean(outcome.waits) / HOUR),
        "utilization": mean(lambda outcome: 100 * outcome.utilization),
        "resizes": mean(lambda outcome: outcome.resizes / len(outcome.times)),
        "lost": mean(lambda outcome: outcome.lost / HOUR),
    }


Table = dict[str, list[Outcome]]


def lower(table: Table, name: str, key: str) -> float:
    """By how many percent a figure is lower than the original's."""
    return 100 * (1 - figures(table[name])[key] / figures(table["original"])[key])


def better_seeds(table: Table, name: str) -> int:
    """In how many seeds the mean completion time is lower than the original's."""
    pairs = zip(table[name], table["original"], strict=True)
    return sum(statistics.fmean(ours.times) < statistics.fmean(theirs.times) for ours, theirs in pairs)


def bars(table: Table, load: float) -> list[str]:
    """The promises and whether they were kept, as far as the rows are there."""
    lines = []

    def judge(text: str, kept: bool) -> None:
        lines.append(f"load {load}, {text}: {'kept' if kept else 'MISSED'}")

    for name in ("afs, asked", "afs, sigterm"):
        if name not in table or "original" not in table:
            continue
        mean, p95, line = lower(table, name, "mean"), lower(table, name, "p95"), figures(table[name])
        wanted = MEAN_BARS.get(load, 0.0)
        judge(f"{name}: mean completion time {mean:.1f} % below the original's (bar {wanted:.0f} %)", mean >= wanted)
        if load in MEAN_BARS:
            seeds, all_seeds = better_seeds(table, name), len(table[name])
            judge(f"{name}: better in {seeds} of {all_seeds} seeds (bar: all)", seeds == all_seeds)
            judge(f"{name}: p95 {p95:.1f} % below the original's (bar {P95_BAR:.0f} %)", p95 >= P95_BAR)
        judge(f"{name}: {line['lost']:.1f} GPU-hours lost (bar 0)", line["lost"] < 0.05)
        judge(f"{name}: {line['resizes']:.2f} resizes for each (bar {RESTARTS_BAR})", line["resizes"] <= RESTARTS_BAR)
    if load in MEAN_BARS and "afs, natural" in table and "original" in table:
        mean = lower(table, "afs, natural", "mean")
        judge(f"afs, natural: mean {mean:.1f} % below the original's (bar {NATURAL_BAR:.0f} %)", mean >= NATURAL_BAR)
    return lines


def show(table: Table, load: float, restart: float, work: str) -> None:
    """Table and bars of one load."""
    print(f"\nload {load}, restart {restart:.0f} s, work {work}; hours, means over the seeds\n")
    print("| row | mean | against the original | p95 | wait | util % | resizes for each | GPU-hours lost |")
    print("|---|---|---|---|---|---|---|---|")
    for name, outcomes in table.items():
        line = figures(outcomes)
        change = f"{-lower(table, name, 'mean'):+.1f} %" if "original" in table else ""
        numbers = [f"{line['mean']:.2f}", change, f"{line['p95']:.2f}", f"{line['wait']:.2f}"]
        numbers += [f"{line['utilization']:.1f}", f"{line['resizes']:.2f}", f"{line['lost']:.1f}"]
        print(f"| {name} | {' | '.join(numbers)} |")
    print()
    for text in bars(table, load):
        print(text, flush=True)


def show_erlang(count: int, seed: int) -> None:
    """Print how far the simulator is from what is known of rigid jobs.

    Few jobs say little about a mean, so a part is simulated and all are queued by a rule that gives the same waits.
    """
    gpus, load = 8, 0.8
    workload = list(memoryless_workload(seed, count // 100, gpus, load))
    pairs = zip(simulated_waits(workload, gpus), queued_waits(workload, gpus), strict=True)
    apart = max(abs(found - wanted) for found, wanted in pairs)
    wanted, found = erlang_wait(gpus, load), statistics.fmean(queued_waits(memoryless_workload(seed, count, 8, 0.8), 8))
    off = 100 * abs(found / wanted - 1)
    kept = "kept" if off <= ERLANG_BAR and apart < 1e-6 else "MISSED"
    print(
        f"{count} rigid jobs on {gpus} GPUs at load {load}: mean wait {found:.4f} run times, by Erlang's C formula "
        f"{wanted:.4f}, {off:.1f} % off (bar {ERLANG_BAR:.0f} %); waits of {len(workload)} of them that were simulated "
        f"differ by {apart:.0e} at most: {kept}",
        flush=True,
    )


def main() -> None:
    """Read the arguments and run the rows, several at once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--trainings", type=int, default=200)
    parser.add_argument("--gpus", type=int, default=64)
    parser.add_argument("--loads", type=float, nargs="+", default=[0.6, 0.9, 1.5])
    parser.add_argument("--restarts", type=float, nargs="+", default=[60.0])
    parser.add_argument("--work", nargs="+", default=["bounded"], choices=sorted(WORKS))
    parser.add_argument("--rows", nargs="+", default=[row.name for row in ROWS], choices=[row.name for row in ROWS])
    parser.add_argument("--erlang", type=int, default=1_000_000, help="rigid jobs of the first check; 0 leaves it out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    if given.erlang:
        show_erlang(given.erlang, given.seeds[0])
    print(f"{given.trainings} trainings, {given.gpus} GPUs, seeds {' '.join(map(str, given.seeds))}")
    rows = [row for row in ROWS if row.name in given.rows]
    with concurrent.futures.ProcessPoolExecutor(given.jobs) as pool:
        for work, load, restart in itertools.product(given.work, given.loads, given.restarts):
            size = given.trainings, given.gpus, load, restart, work
            runs = {row.name: [pool.submit(simulate, row, seed, *size) for seed in given.seeds] for row in rows}
            show({name: [run.result() for run in of_row] for name, of_row in runs.items()}, load, restart, work)


if __name__ == "__main__":
    main()
