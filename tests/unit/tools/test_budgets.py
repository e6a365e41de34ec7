# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the tests of a capability took is compared with its budget; only a strict run fails by it."""

from __future__ import annotations

import collections
import importlib.util
import json
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("budgets", TESTS / "tools" / "budgets.py")
budgets = importlib.util.module_from_spec(SPEC)
sys.modules["budgets"] = budgets
SPEC.loader.exec_module(budgets)


@pytest.fixture
def report(tmp_path):
    """The report of a run in which two capabilities with a budget of ten seconds took so long."""
    capabilities = {name: {"seconds": 10, "files": [f"test_{name}.py", f"test_{name}_2.py"]} for name in ("a", "b")}
    (tmp_path / "capabilities.json").write_text(json.dumps(capabilities))

    def report(**seconds: float) -> bool:
        durations = {f"test_{name}.py": spent for name, spent in seconds.items()}
        (tmp_path / "durations.json").write_text(json.dumps(durations))
        return budgets.report(tmp_path / "durations.json", tmp_path / "capabilities.json")

    return report


def test_the_most_expensive_capability_comes_first(report, capsys):
    assert report(a=3, b=8, b_2=6.4)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["capability", "seconds", "budget"],
        ["b", "14", "10"],
        ["a", "3", "10"],
    ]


@pytest.mark.parametrize(("strict", "passes"), [("1", False), ("0", True)])
def test_half_above_the_budget_fails_a_strict_run(report, monkeypatch, capsys, strict, passes):
    monkeypatch.setenv("MUSTER_STRICT_TIME", strict)
    assert report(a=15.0) is True
    assert report(a=15.1) is passes
    assert capsys.readouterr().out.count("OVER") == 1


def test_a_run_without_integration_tests_says_nothing(report, tmp_path, capsys):
    assert budgets.report(tmp_path / "nothing.json")
    assert report()
    assert capsys.readouterr().out == ""


def test_every_file_belongs_to_one_capability():
    listed = json.loads(budgets.CAPABILITIES.read_text())
    counted = collections.Counter(file for entry in listed.values() for file in entry["files"])
    assert counted == collections.Counter(path.name for path in (TESTS / "integration").glob("test_*.py"))
