# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The figures of runs: computed from what was seen, and printed with the bars they have to keep."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import statistics
import typing as t

from ansible_collections.muster.kube.bench.dispatching.loads import Load
from ansible_collections.muster.kube.bench.dispatching.systems import CLIENTS, Name, Run

# Ours divided by the floor, by load, for time and for core-ms.
FLOOR_BARS = {"ones": 1.4, "fours": 1.2, "sixteens": 1.2}
MCAD_BAR = 20.0
ADMISSION_RATE_BAR = 100.0
ADMISSION_CORE_MS_BAR = 20.0
LATENCY_BAR = 2.0
FORMER_BAR = 5.0
DECIDE_BAR = 0.050
# Requests that are rarer than this for a gang are not shown.
LEAST_SHOWN = 0.05
BANDS = (0.1, 0.25, 0.5, 0.75, 1.01)

Times = t.Sequence[tuple[float, str]]


@dataclasses.dataclass(frozen=True)
class Bar:
    """One figure and what it may be at most, or has to be at least."""

    words: str
    figure: float
    bar: float
    at_least: bool = False

    def __str__(self) -> str:
        """As it is printed."""
        kept = self.figure >= self.bar if self.at_least else self.figure <= self.bar
        limit = "at least" if self.at_least else "at most"
        return f"{self.words} {self.figure:.3g} (bar: {limit} {self.bar:g}): {'kept' if kept else 'MISSED'}"


def room_latencies(load: Load, bound: Times, ended: Times) -> list[float]:
    """Seconds from "room free" to "pods bound", of each gang that had to wait for room.

    Places are taken in the order in which they became free: first those that were free from the beginning, then that of
    each pod that ended, in the order of the ends. Gangs take as many as they have pods, in the order in which their
    last pods were bound. Room is free for a gang when the last place it takes is; gangs that take places free from the
    beginning only are left out.
    """
    whole: dict[str, float] = {}
    for moment, gang in bound:
        whole[gang] = max(moment, whole.get(gang, 0.0))
    pods = {gang.name: gang.pods for gang in load.gangs}
    ends = sorted(moment for moment, _gang in ended)
    taken, found = 0, []
    for gang, moment in sorted(whole.items(), key=lambda item: item[1]):
        taken += pods[gang]
        last = taken - load.room - 1
        if 0 <= last < len(ends):
            found.append(max(0.0, moment - ends[last]))
    return found


def percentile(values: t.Sequence[float], share: float) -> float:
    """The value that so large a share does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def show_run(run: Run, floor: Run | None) -> None:
    """The paragraph of one system."""
    gangs = len(run.load.gangs)
    moments = {"decided": run.decided, "created": run.created, "bound": run.last("bound"), "ended": run.last("ended")}
    told = ", ".join(f"{name} {moment:.1f} s" for name, moment in moments.items() if moment is not None)
    print(f"  {run.system}: queued {run.queued:.1f} s; last {told}; {gangs / run.finished:.1f} gangs/s", end="")
    print(f"; load {run.machine_load:.1f}")
    if run.load.ends:
        found = room_latencies(run.load, run.seen["bound"], run.seen["ended"])
        values = ", ".join(f"p{share:.0%}"[:-1] + f" {percentile(found, share):.2f} s" for share in (0.5, 0.99))
        print(f"    from room free to pods bound, {len(found)} gangs: {values}")
    by_process = run.core_ms_by_process
    shares = ", ".join(f"{name} {by_process[name]:.1f}" for name in sorted(by_process) if name not in CLIENTS)
    clients = ", ".join(f"{name} {by_process[name]:.1f}" for name in CLIENTS)
    print(f"    core-ms a gang {run.core_ms:.1f}: {shares}; beside them {clients}")
    _show_requests(run, floor)
    memory = ", ".join(f"{name} {size:.0f}" for name, size in sorted(run.spent.memory.items()) if name not in CLIENTS)
    print(f"    peak memory in MiB: {memory}", flush=True)
    if run.dispatcher is not None:
        _show_cycles(run, run.dispatcher)
    if run.reopened:
        print(f"    the observer had to open a watch again {run.reopened} times: its times may be late", flush=True)


def _show_requests(run: Run, floor: Run | None) -> None:
    """Requests a gang, in all and where they are more than on the floor."""
    gangs = len(run.load.gangs)
    print(f"    requests a gang {sum(run.spent.requests.values()) / gangs:.1f}", end="")
    base: t.Mapping[str, int] = {} if floor is None or floor is run else floor.spent.requests
    more = {name: (count - base.get(name, 0)) / gangs for name, count in run.spent.requests.items()}
    shown = sorted((name for name in more if abs(more[name]) >= LEAST_SHOWN), key=lambda name: -more[name])
    words = "; beside those of the floor: " if base else ": "
    print(words + ", ".join(f"{name} {more[name]:.2f}" for name in shown))


def _show_cycles(run: Run, told: t.Mapping[str, t.Any]) -> None:
    """What the dispatcher tells of its cycles."""
    gangs, sent = len(run.load.gangs), collections.Counter(told["requests"])
    parts = ", ".join(f"{name} {value:.1f} s" for name, value in sorted(told["seconds"].items()) if name != "all")
    own = ", ".join(f"{method} {count / gangs:.2f}" for method, count in sorted(sent.items()))
    print(
        f"    {len(told['cycles'])} cycles; {parts}; requests a gang by its own count {sent.total() / gangs:.1f}: {own}"
    )
    bands = [
        f"{low:.0%} to {min(1.0, high):.0%} waiting {1000 * statistics.mean(times):.0f} ms"
        for low, high in itertools.pairwise(BANDS)
        if (times := [spent for waiting, spent in told["cycles"] if low * gangs <= waiting < high * gangs])
    ]
    if bands:
        print(f"    deciding in a cycle with {'; '.join(bands)}", flush=True)


def show_bars(load: Load, runs: t.Mapping[Name, Run], former_rate: float | None = None) -> None:
    """How ours compares with the others."""
    ours = runs.get("ours")
    if ours is None:
        return
    bars = [*_floor_bars(load, ours, runs.get("floor")), *_rival_bars(ours, runs)]
    rate = len(load.gangs) / ours.finished
    if load.podless:
        bars.append(Bar("gangs/s", rate, ADMISSION_RATE_BAR, at_least=True))
        bars.append(Bar("core-ms a gang", ours.core_ms, ADMISSION_CORE_MS_BAR))
    if load.ends:
        bars.extend(_competing_bars(load, ours))
    if load.ends and former_rate is not None:
        bars.append(Bar("ours ÷ ours of before, gangs/s,", rate / former_rate, FORMER_BAR, at_least=True))
    for bar in bars:
        print(f"  {bar}", flush=True)


def _floor_bars(load: Load, ours: Run, floor: Run | None) -> list[Bar]:
    """Ours divided by the floor."""
    if floor is None or load.name not in FLOOR_BARS:
        return []
    bar = FLOOR_BARS[load.name]
    return [
        Bar("ours ÷ floor, time to the last pod bound,", ours.finished / floor.finished, bar),
        Bar("ours ÷ floor, core-ms,", ours.core_ms / floor.core_ms, bar),
    ]


def _competing_bars(load: Load, ours: Run) -> list[Bar]:
    """How long room stays free, and how long a full queue is thought about."""
    found = room_latencies(load, ours.seen["bound"], ours.seen["ended"])
    bars = [Bar("seconds from room free to pods bound, p99,", percentile(found, 0.99), LATENCY_BAR)]
    full = [spent for waiting, spent in ours.dispatcher["cycles"] if waiting >= BANDS[-2] * len(load.gangs)]
    if full:
        bars.append(Bar("seconds of deciding in a cycle with a full queue, mean,", statistics.mean(full), DECIDE_BAR))
    return bars


def _rival_bars(ours: Run, runs: t.Mapping[Name, Run]) -> list[Bar]:
    """Ours beside Kueue and MCAD."""
    bars = []
    if "kueue" in runs:
        bars.append(Bar("ours ÷ Kueue, time,", ours.finished / runs["kueue"].finished, 1.0))
    if "mcad" in runs:
        bars.append(Bar("MCAD ÷ ours, time,", runs["mcad"].finished / ours.finished, MCAD_BAR, at_least=True))
    return bars
