# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The bench of elastic jobs works: its simulator does what can be worked out by hand, and bars can be missed."""

from __future__ import annotations

import statistics
import sys

import pytest
from ansible_collections.muster.kube.bench import elastic as bench

ROWS = {row.name: row for row in bench.ROWS}
LINEAR = {size: float(size) for size in range(1, 9)}


def training(uid: str, arrival: float, low: int, high: int, steps: float, epochs: int = 1) -> bench.Training:
    return bench.Training(uid, arrival, bench.sizes_of(low, high), LINEAR, steps, epochs)


def run(name: str, workload: list[bench.Training], gpus: int, restart: float = 0.0) -> bench.Outcome:
    return bench.Simulation(ROWS[name], workload, gpus, restart).run()


@pytest.mark.parametrize("work", sorted(bench.WORKS))
def test_the_workload_is_the_seeds_and_carries_the_wanted_load(work):
    works = bench.build_workload(3, 2000, 64, 0.9, work)
    assert works == bench.build_workload(3, 2000, 64, 0.9, work)
    assert works != bench.build_workload(4, 2000, 64, 0.9, work)
    work = sum(item.steps / item.speeds[item.range.min] * item.range.min for item in works)
    assert work / (64 * works[-1].arrival) == pytest.approx(0.9, rel=0.1)


@pytest.mark.parametrize("load", [0.5, 0.9])
def test_rigid_jobs_wait_exactly_as_in_a_queue(load):
    workload = list(bench.memoryless_workload(1, 400, 3, load))
    found, wanted = bench.simulated_waits(workload, 3), list(bench.queued_waits(workload, 3))
    assert found == pytest.approx(wanted, abs=1e-9)
    assert max(wanted) > 0


def test_the_queue_follows_erlangs_formula():
    # One server: load / (1 - load).
    assert bench.erlang_wait(1, 0.5) == pytest.approx(1.0)
    assert bench.erlang_wait(2, 0.5) == pytest.approx(1 / 3)
    waits = bench.queued_waits(bench.memoryless_workload(1, 200_000, 2, 0.5), 2)
    assert statistics.fmean(waits) == pytest.approx(1 / 3, rel=0.03)


@pytest.mark.parametrize(
    ("name", "times"),
    [
        # Two GPUs each, then nothing.
        ("rigid at min", [1000.0, 2000.0]),
        # One after the other.
        ("rigid at max", [500.0, 1500.0]),
        # Two each; the second takes the GPUs of the first once that has ended, or does not.
        ("fit at start", [1000.0, 2000.0]),
        ("original", [1000.0, 1500.0]),
        ("afs, sigterm", [1000.0, 1500.0]),
    ],
)
def test_two_jobs_by_hand(name, times):
    workload = [training("a", 10.0, 2, 4, 2000.0), training("b", 10.0, 2, 4, 4000.0, epochs=8)]
    assert run(name, workload, 4).times == pytest.approx(times)


def test_a_kill_loses_what_was_not_saved_and_others_lose_nothing():
    # The first has all four GPUs for 500 s, of which 400 s are saved, until the second comes.
    workload = [training("a", 0.0, 2, 4, 8000.0, epochs=5), training("b", 500.0, 2, 2, 4000.0)]
    killed, told = run("afs, killed", workload, 4), run("afs, sigterm", workload, 4)
    assert killed.lost == pytest.approx(100 * 4)
    assert told.lost == 0
    # Asked at 510 s, in the answer to a report, it saves until 515 s.
    asked = run("afs, asked", workload, 4)
    assert asked.lost == pytest.approx(0)
    assert asked.waits == pytest.approx((0.0, 15.0))
    natural = run("afs, natural", workload, 4)
    assert natural.waits == pytest.approx((0.0, 300.0))
    assert natural.lost == pytest.approx(0)


def test_a_start_costs_its_seconds():
    assert run("rigid at min", [training("a", 5.0, 2, 2, 200.0)], 2, 60.0).times == pytest.approx((160.0,))


@pytest.mark.parametrize("name", ROWS)
def test_every_training_ends_and_gpus_are_not_given_twice(name, monkeypatch):
    workload = bench.build_workload(5, 25, 12, 1.5, "tail")
    simulation = bench.Simulation(ROWS[name], workload, 12, 60.0)
    decide = simulation.decide

    def checked(now, *, ended):
        decide(now, ended=ended)
        assert simulation.pool().free >= 0
        assert all(item.size in item.range.sizes for item in simulation.running.values())

    monkeypatch.setattr(simulation, "decide", checked)
    outcome = simulation.run()
    assert len(outcome.times) == len(outcome.waits) == 25
    assert 0 < outcome.utilization <= 1
    assert bench.simulate(ROWS[name], 5, 25, 12, 1.5, 60.0, "tail") == outcome
    if "rigid" in name or name == "fit at start":
        assert outcome.resizes == 0
    if ROWS[name].timing != "now":
        assert outcome.lost == pytest.approx(0, abs=1e-3)


def outcome(hours: float, lost: float = 0.0, resizes: int = 0) -> bench.Outcome:
    return bench.Outcome((hours * 3600,), (0.0,), 0.5, resizes, lost * 3600)


def test_bars_are_missed_when_figures_are_bad():
    good = {"original": [outcome(1.0)], "afs, asked": [outcome(0.85)], "afs, natural": [outcome(0.97)]}
    assert [line.rsplit(": ", 1)[1] for line in bench.bars(good, 1.5)] == ["kept"] * 6
    bad = {"original": [outcome(1.0)], "afs, asked": [outcome(1.1, 1.0, 3)], "afs, natural": [outcome(0.98)]}
    assert [line.rsplit(": ", 1)[1] for line in bench.bars(bad, 1.5)] == ["MISSED"] * 6
    assert [line.rsplit(": ", 1)[1] for line in bench.bars(good, 0.6)] == ["kept"] * 3
    assert bench.bars({"afs, asked": [outcome(1.0)]}, 0.9) == []


def test_a_tiny_run_prints_a_table(monkeypatch, capsys):
    options = ["--trainings", "12", "--gpus", "8", "--loads", "0.9", "--erlang", "200", "--jobs", "1", "--seeds", "2"]
    monkeypatch.setattr(sys, "argv", ["elastic.py", *options, "--rows", "original", "afs, asked"])
    bench.main()
    printed = capsys.readouterr().out
    assert "| afs, asked | " in printed
    assert "by Erlang's C formula" in printed
    assert "below the original's" in printed
