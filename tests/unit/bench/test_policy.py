# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bench of the policies works: its workload is what it says, its figures add up, a tiny run prints a table."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
import types

import pytest

GANGS, NODES, SEED = 60, 4, 3


def load(name: str) -> types.ModuleType:
    path = pathlib.Path(__file__).resolve().parents[3] / "bench" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"bench_{name}", path)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


bench = load("policy")
ROWS = {row.name: row for row in bench.ROWS}


@pytest.fixture(scope="module")
def outcomes():
    return {name: [bench.simulate(row, SEED, GANGS, NODES)] for name, row in ROWS.items()}


def test_the_workload_is_the_seeds_and_carries_the_wanted_load():
    works = bench.build_workload(SEED, 2000, 64)
    assert works == bench.build_workload(SEED, 2000, 64)
    assert works != bench.build_workload(SEED + 1, 2000, 64)
    offered = sum(work.size * work.runs for work in works) / (works[-1].item.submitted * 64 * bench.GPUS_PER_NODE)
    assert offered == pytest.approx(bench.LOAD, rel=0.1)
    assert {work.size for work in works} == set(bench.SIZES)
    assert all(1 <= work.too_long <= bench.MOST_TOO_LONG for work in works)


@pytest.mark.parametrize(("size", "count", "each"), [(1, 1, 1), (8, 1, 8), (256, 32, 8)])
def test_pods_have_at_most_a_node_of_gpus(size, count, each):
    (podset,) = bench.podsets_of(size)
    assert (podset.count, podset.requests[bench.GPU]) == (count, each)


def test_every_gang_starts_once_and_no_node_is_overfull(monkeypatch):
    simulation = bench.Simulation(ROWS["reserve, estimates for all"], bench.build_workload(SEED, GANGS, NODES), NODES)
    cycle = bench.Simulation.cycle

    def checked(self, now):
        cycle(self, now)
        assert all(free[bench.GPU] >= 0 for free in self.room.free)
        used = sum(self.work[uid].size for uid in self.running)
        assert used == self.capacity - sum(free[bench.GPU] for free in self.room.free)

    monkeypatch.setattr(bench.Simulation, "cycle", checked)
    outcome = simulation.run()
    assert sorted(simulation.started_at) == sorted(simulation.work)
    assert all(wait >= 0 for wait in outcome.waits)
    assert 0 < outcome.utilization <= 1


def test_policies_differ_only_where_they_should(outcomes):
    waits = {name: of_row[0].waits for name, of_row in outcomes.items()}
    assert waits["reserve, for none"] == waits["best_effort"]
    assert waits["strict"] != waits["best_effort"]
    assert waits["reserve, estimates for all"] != waits["best_effort"]


def test_the_table_has_a_line_for_each_row_and_each_bar(outcomes, capsys):
    bench.show(argparse.Namespace(gangs=GANGS, nodes=NODES, seeds=[SEED], scheduler="spread"), outcomes)
    text = capsys.readouterr().out
    assert all(f"| {name} | " in text for name in ROWS)
    assert text.count(": kept") + text.count(": MISSED") == 4


def test_a_scheduler_that_packs_uses_fewer_nodes():
    used = {}
    for scheduler in ("spread", "packed"):
        small = [work for work in bench.build_workload(SEED, 200, NODES) if work.size == 1][:4]
        simulation = bench.Simulation(ROWS["best_effort"], small, NODES, scheduler)
        simulation.queue = {work.item.uid: work.item for work in small}
        simulation.cycle(small[-1].item.submitted)
        used[scheduler] = sum(1 for free in simulation.room.free if free[bench.GPU] < bench.GPUS_PER_NODE)
    assert used == {"spread": 4, "packed": 1}


def test_bars_are_missed_when_figures_are_bad():
    base = {"utilization": 80.0, "large p99": 100.0}
    good = {"utilization": 79.0, "large p99": 45.0}
    bad = {"utilization": 78.9, "large p99": 45.1}
    lines = {
        name: bench.bars({"best_effort": base, "reserve, estimates for all": line})
        for name, line in (("good", good), ("bad", bad))
    }
    assert [line.rsplit(": ", 1)[1] for line in lines["good"]] == ["kept", "kept"]
    assert [line.rsplit(": ", 1)[1] for line in lines["bad"]] == ["MISSED", "MISSED"]
