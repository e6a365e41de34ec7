# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The runner of the test steps tells green from red and adds up what passed."""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

PATH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "steps.py"
SPEC = importlib.util.spec_from_file_location("steps", PATH)
steps = importlib.util.module_from_spec(SPEC)
sys.modules["steps"] = steps
SPEC.loader.exec_module(steps)


@pytest.fixture
def fake_make(tmp_path, monkeypatch):
    program = tmp_path / "make"
    program.write_text(
        "#!/bin/sh\nfor step; do :; done\n"
        'case $step in bad) echo broken; exit 2;; *) echo noise; echo "5 passed, 1 skipped in 0.1s";; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("MAKE", str(program))
    return tmp_path / "log"


def test_green_run_is_short_and_counts_tests(fake_make, capfdbinary):
    assert steps.main(str(fake_make), "together", "lint", "unit", "alone", "integration") == 0
    printed = capfdbinary.readouterr().out.decode()
    assert printed.count("noise") == 1, "only the step that ran alone shows its output"
    assert "15 tests passed, 3 of 3 steps green" in printed.splitlines()[-1]


def test_red_step_shows_its_output_and_the_rest_still_runs(fake_make, capsys):
    assert steps.main(str(fake_make), "together", "bad", "unit", "alone", "integration") == 1
    printed = capsys.readouterr().out
    assert "broken" in printed
    assert "<== bad: FAILED" in printed
    assert "<== integration: ok" in printed
    assert "2 of 3 steps green" in printed
    assert printed.splitlines()[-1].startswith("FAILED: bad (log: ")


def test_only_the_closing_line_of_pytest_is_counted(tmp_path):
    log = tmp_path / "log"
    log.write_text("the 3 passed values\n=== 7 passed, 2 failed in 3.21s ===\n")
    assert steps.Outcome("unit", 0, 1.0, log).tests_passed() == 7
