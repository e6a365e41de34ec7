# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runner of the test steps tells green from red and adds up what passed."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import sys
import threading
import time

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "steps.py"
SPEC = importlib.util.spec_from_file_location("steps", PATH)
steps = importlib.util.module_from_spec(SPEC)
sys.modules["steps"] = steps
SPEC.loader.exec_module(steps)


@pytest.fixture
def fake_make(tmp_path, monkeypatch):
    """A make with one step that fails, some for what tests need, and others that pass five tests.

    The step slow ends only by a signal, an orphan of works counts for a while, and meets-* wait for each other.
    """
    program = tmp_path / "make"
    program.write_text(
        "#!/bin/sh\nfor step; do :; done\n"
        f'echo "$step" >> {tmp_path}/order\n'
        "case $step in\n"
        "bad) echo broken; exit 2;;\n"
        "slow) sleep 600 & echo $!; wait;;\n"
        f"works) (sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done' & echo $! > {tmp_path}/orphan);\n"
        f"  while kill -0 $(cat {tmp_path}/orphan) 2> /dev/null; do sleep 0.01; done;;\n"
        f"meets-*) touch {tmp_path}/$step; until [ -e {tmp_path}/meets-1 ] && [ -e {tmp_path}/meets-2 ] && "
        f"[ -e {tmp_path}/meets-3 ]; do sleep 0.01; done; echo niceness $(ps -o ni= -p $$);;\n"
        '*) echo noise; echo "5 passed, 1 skipped in 0.1s";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("MAKE", str(program))
    return tmp_path / "log"


def test_green_run_is_short_and_counts_tests(fake_make, capfdbinary):
    assert steps.main(str(fake_make), "main", "integration", "beside", "lint", "unit") == 0
    printed = capfdbinary.readouterr().out.decode()
    assert printed.count("noise") == 1, "only the main step shows its output"
    assert "15 tests passed, 3 of 3 steps green" in printed.splitlines()[-1]


def test_tests_that_run_again_with_other_versions_are_counted_once(fake_make, capsys):
    assert steps.main(str(fake_make), "main", "integration", "beside", "unit", "smoke216") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "10 tests passed (5 of them again with the oldest versions), 3 of 3 steps green" in last


def test_red_step_shows_its_output_and_the_rest_still_runs(fake_make, capsys):
    assert steps.main(str(fake_make), "main", "integration", "beside", "bad", "unit", "alone", "bench") == 1
    printed = capsys.readouterr().out
    assert "broken" in printed
    assert "<== bad: FAILED" in printed
    assert "<== integration: ok" in printed
    assert "<== bench: ok" in printed
    assert "3 of 4 steps green" in printed
    assert printed.splitlines()[-1].startswith("FAILED: bad (log: ")


def test_two_steps_run_beside_the_main_one_with_low_priority(fake_make):
    assert steps.main(str(fake_make), "main", "meets-1", "beside", "meets-2", "meets-3") == 0
    own, *others = [int((fake_make / f"meets-{number}.log").read_text().split()[1]) for number in (1, 2, 3)]
    assert [niceness - own for niceness in others] == [min(steps.BESIDE_NICENESS, 19 - own)] * 2


def test_steps_with_clusters_of_their_own_follow_and_those_that_measure_come_last(fake_make, tmp_path):
    groups = ("alone", "bench", "after", "guide", "demo", "main", "one", "beside", "two", "three")
    assert steps.main(str(fake_make), *groups) == 0
    order = (tmp_path / "order").read_text().split()
    assert set(order[:3]) == {"one", "two", "three"}
    assert set(order[3:5]) == {"guide", "demo"}
    assert order[5:] == ["bench"]


def test_two_steps_that_follow_run_at_the_same_time_with_the_priority_of_the_run(fake_make, tmp_path, capfdbinary):
    (tmp_path / "meets-3").touch()
    assert steps.main(str(fake_make), "main", "one", "after", "meets-1", "meets-2") == 0
    seen = {(fake_make / f"meets-{number}.log").read_text().split()[1] for number in (1, 2)}
    assert seen == {str(os.getpriority(os.PRIO_PROCESS, 0))}
    assert b"niceness" not in capfdbinary.readouterr().out, "their output would be mixed"


def test_processor_time_includes_processes_that_lost_their_parent(fake_make, capsys):
    assert steps.main(str(fake_make), "main", "works", "beside", "unit") == 0
    works, unit = (float((fake_make / f"{step}.processor").read_text()) for step in ("works", "unit"))
    assert works > unit
    printed = capsys.readouterr().out
    assert f" s, {works:.0f} s of processors" in printed
    assert printed.splitlines()[-1].endswith(f"{works + unit:.0f} s of processors")


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended stays known until whoever adopted it notices."""
    try:
        return "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def wait_for(what: str, probe) -> None:
    """Wait for something that comes soon, on a busy machine too."""
    deadline = time.monotonic() + 120
    while not probe():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


@pytest.mark.parametrize("group", ["main", "beside"])
def test_a_step_that_takes_too_long_fails(fake_make, monkeypatch, capsys, group):
    monkeypatch.setenv("MUSTER_STEP_LIMIT", "0.5")
    assert steps.main(str(fake_make), group, "slow") == 1
    assert "took longer than 0 s and was ended" in (fake_make / "slow.log").read_text()
    assert "FAILED: slow" in capsys.readouterr().out


@pytest.mark.parametrize("live", [True, False])
def test_a_step_is_ended_with_all_it_started(fake_make, live):
    fake_make.mkdir()
    runner = steps.Runner(fake_make, 3600.0)
    outcomes = []
    thread = threading.Thread(target=lambda: outcomes.append(runner.run("slow", live)), daemon=True)
    thread.start()
    log = fake_make / "slow.log"
    wait_for("the step to start something", lambda: log.exists() and log.read_text().endswith("\n"))
    started = int(log.read_text())
    assert is_alive(started)
    runner.end_all()
    thread.join(120)
    assert [outcome.code for outcome in outcomes] != [0]
    wait_for("what it started to end", lambda: not is_alive(started))


def test_only_the_closing_line_of_pytest_is_counted(tmp_path):
    log = tmp_path / "log"
    log.write_text("the 3 passed values\n=== 7 passed, 2 failed in 3.21s ===\n")
    assert steps.Outcome("unit", 0, 1.0, 1.0, log).tests_passed() == 7
