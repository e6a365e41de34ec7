# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bench of shares works: its gangs start once and within the tree, and its bars are missed when figures are bad."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.bench import shares as bench
from ansible_collections.muster.kube.bench.policy import GPU, GPUS_PER_NODE, build_workload

GANGS, NODES, SEED = 40, 4, 3
BEST_EFFORT, RESERVE = bench.ROWS


@pytest.mark.parametrize("scheduler", ["spread", "packed"])
def test_every_gang_starts_once_within_tree_and_nodes(scheduler):
    nominal = NODES * GPUS_PER_NODE // 4
    workload = build_workload(SEED, GANGS, NODES, most=nominal)
    queues = bench.draw_queues(SEED, workload)
    simulation = bench.TreeSimulation(RESERVE, workload, NODES, scheduler, bench.build_tree(nominal, 0), queues)
    outcome = simulation.run()
    assert sorted(simulation.started_at) == sorted(simulation.work)
    assert all(wait >= 0 for wait in outcome.waits)
    assert 0 < outcome.utilization <= 1
    assert all(sum(use.values()) <= NODES * GPUS_PER_NODE for _now, use in simulation.log)
    assert not simulation.world.gangs.keys() - simulation.records.keys()


def test_a_scheduler_that_packs_uses_fewer_nodes():
    used = {}
    for scheduler in ("spread", "packed"):
        small = build_workload(SEED, 200, NODES, most=1)[:4]
        queues = dict.fromkeys((work.item.uid for work in small), "a")
        simulation = bench.TreeSimulation(BEST_EFFORT, small, NODES, scheduler, bench.build_tree(8, 0), queues)
        simulation.queue = {work.item.uid: work.item for work in small}
        simulation.cycle(small[-1].item.submitted)
        pods = [pod for pod in simulation.world.snapshot.pods if pod.requests.get(GPU)]
        used[scheduler] = len({pod.node for pod in pods})
        assert len(pods) == 4
    assert used == {"spread": 4, "packed": 1}


def test_what_is_borrowed_is_counted_by_time_after_the_first_quarter():
    queues = {"g000000": "a"}
    simulation = bench.TreeSimulation(BEST_EFFORT, [], NODES, "spread", bench.build_tree(4, 16), queues)
    use = {"a": 8, "b": 4, "c": 2, "d": 16}
    simulation.log = [(0.0, dict.fromkeys(use, 99)), (10.0, use), (30.0, {**use, "b": 8}), (40.0, use)]
    # Half of the time that counts before 30 and a third of it after.
    assert simulation.borrowed(4) == pytest.approx(
        {"a": 100 * 120 / 520, "b": 100 * 40 / 520, "c": 0.0, "d": 100 * 360 / 520}
    )


def test_shares_are_found_while_all_queues_wait():
    shares = bench.simulate_shares(BEST_EFFORT, SEED, 120, NODES, "spread")
    assert sum(shares.values()) == pytest.approx(100)
    assert shares["d"] > shares["a"]


def test_bars_are_missed_when_figures_are_bad():
    good, bad = {"a": 12.5, "b": 12.5, "c": 25.0, "d": 50.0}, {"a": 20.0, "b": 5.0, "c": 25.0, "d": 50.0}
    assert [line.endswith(": kept") for line in bench.borrowed_bars("reserve", [good])] == [True] * 4
    assert [line.endswith(": MISSED") for line in bench.borrowed_bars("reserve", [bad])] == [True, True, False, False]
    base = {"large p99": 100.0}
    assert bench.wait_bar(base, {"large p99": 45.0}, "spread").endswith(": kept")
    assert bench.wait_bar(base, {"large p99": 46.0}, "spread").endswith(": MISSED")
    assert bench.wait_bar(base, {"large p99": 60.0}, "packed").endswith(": kept")
