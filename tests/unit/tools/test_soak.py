# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A soak counts what passed in a row, goes on where it stopped, and ends its builds."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest
from ansible_collections.muster.kube.tests.support.tool_program import load_tool

soak = load_tool("soak")
TESTS = """
import pathlib
here = pathlib.Path(__file__).parent

def test_steady(): pass

def test_odd():
    runs = here / "runs"
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) != BAD
"""


def line(test, when, outcome):
    return json.dumps({"test": test, "when": when, "outcome": outcome})


def phases(test, *outcomes):
    return [line(test, when, outcome) for when, outcome in zip(("setup", "call", "teardown"), outcomes, strict=False)]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (("passed", "passed", "passed"), {"a": "passed"}),
        (("passed", "failed", "passed"), {"a": "failed"}),
        (("passed", "passed", "failed"), {"a": "failed"}),
        (("failed", "passed"), {"a": "failed"}),
        (("passed", "skipped", "passed"), {"a": "skipped"}),
        (("passed", "passed"), {}),
    ],
)
def test_a_test_counts_when_it_ended_whole(outcomes, expected):
    assert soak.outcomes_of(phases("a", *outcomes)) == expected


def test_a_line_that_was_cut_is_left_out():
    assert soak.outcomes_of([*phases("a", "passed", "passed", "passed"), '{"test": "b", "wh']) == {"a": "passed"}


def test_who_fails_begins_anew_and_the_soak_is_not_done():
    ledger = soak.Ledger("s")
    ledger.note({"a": "passed", "b": "passed"}, 1, "one.log")
    assert ledger.is_done(1)
    ledger.note({"a": "passed", "b": "failed"}, 2, "two.log")
    assert ledger.passes == {"a": 2, "b": 0}
    assert ledger.failures == [{"test": "b", "round": 2, "log": "two.log"}]
    assert not ledger.is_done(0)
    assert not soak.Ledger("s").is_done(0)


def test_a_ledger_is_of_one_state_of_the_tree_only(tmp_path):
    path = tmp_path / "ledger.json"
    soak.write_ledger(path, soak.Ledger("s", {"a": 3}, [], [8.0]))
    assert soak.read_ledger(path, "s").passes == {"a": 3}
    assert soak.read_ledger(path, "other").passes == {}
    path.write_text("[", encoding="utf-8")
    assert soak.read_ledger(path, "s").passes == {}


def test_the_state_follows_names_and_contents_but_not_what_runs_write(tmp_path):
    (tmp_path / "a").write_text("1", encoding="utf-8")
    first = soak.state_of(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_text("2", encoding="utf-8")
    assert soak.state_of(tmp_path) == first
    (tmp_path / "a").write_text("2", encoding="utf-8")
    assert soak.state_of(tmp_path) != first


@pytest.mark.parametrize(("load", "processors", "jobs"), [(8, 2, [4, 4]), (9, 2, [5, 4]), (8, 32, [16, 16])])
def test_two_builds_share_the_load(load, processors, jobs):
    assert soak.jobs_of(load, processors) == jobs


def test_the_load_is_told():
    assert soak.load_words([8.0, 9.0, 12.5], 8) == "load 8.0 to 12.5, median 9.0"
    assert "less than the 8" in soak.load_words([1.0], 8)
    assert soak.load_words([], 8) == "no load was seen"


def test_options_may_stand_before_the_tests():
    asked = soak.arguments(["tree", "place", "--rounds", "2", "tests/integration/test_lease.py"])
    assert (asked.rounds, asked.tests) == (2, ["tests/integration/test_lease.py"])
    assert soak.arguments(["tree", "place"]).tests == ["tests/integration"]


def soaked(tree, place, rounds, monkeypatch):
    """One soak of a tree, with builds that take little."""
    monkeypatch.setattr(soak, "jobs_of", lambda _load, _processors: [1])
    command = f"{sys.executable} -m pytest -q -p no:cacheprovider -c {tree / 'none.ini'} --rootdir {tree}"
    words = [str(tree), str(place), "--rounds", str(rounds), "--pytest", command, "--select", "", str(tree)]
    made = soak.Soak(soak.arguments(words))
    return made.run(), made


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A tree with two tests; the second one fails in the run that the file says."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(soak, "state_of", lambda _tree: "state")
    place = tmp_path / "tree"
    place.mkdir()
    (place / "none.ini").write_text("[pytest]\n", encoding="utf-8")
    (place / "test_x.py").write_text(TESTS.replace("BAD", "2"), encoding="utf-8")
    return place


def test_a_soak_finds_what_fails_now_and_then_and_says_where(tree, tmp_path, monkeypatch, capsys):
    passed, made = soaked(tree, tmp_path / "place", 2, monkeypatch)
    made.tell()
    told = capsys.readouterr().out
    assert not passed
    assert "FAILED test_x.py::test_odd in round 2" in told
    assert "round-2.log" in told
    assert made.ledger.passes == {"test_x.py::test_steady": 2, "test_x.py::test_odd": 0}


def test_a_soak_that_was_interrupted_goes_on(tree, tmp_path, monkeypatch):
    assert soaked(tree, tmp_path / "place", 1, monkeypatch)[0]
    (tree / "test_x.py").write_text(TESTS.replace("BAD", "0"), encoding="utf-8")
    passed, made = soaked(tree, tmp_path / "place", 2, monkeypatch)
    assert passed
    assert made.ledger.passes == {"test_x.py::test_steady": 2, "test_x.py::test_odd": 2}
    assert (tree / "runs").read_text(encoding="utf-8") == "xx"
    words = [str(tree), str(tmp_path / "place"), "--fresh"]
    assert soak.Soak(soak.arguments(words)).ledger.passes == {}


def test_builds_end_with_the_soak(monkeypatch):
    monkeypatch.setattr(soak, "jobs_of", lambda _load, _processors: [1, 1])
    with soak.Builds(2, []) as builds:
        processes = list(builds._processes)
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.returncode is not None for process in processes)
    assert all(not pathlib.Path(f"/proc/{process.pid}").exists() for process in processes if os.name == "posix")
