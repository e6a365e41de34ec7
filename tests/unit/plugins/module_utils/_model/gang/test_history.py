# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run times as text: few, recent, and read without ever failing."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.history import (
    HISTORY_BYTES,
    HISTORY_KEY,
    MOST_RUNS,
    RunTimes,
    read_run_times,
)


def read(text):
    return {work: list(runs) for work, runs in read_run_times({HISTORY_KEY: text})}


def test_what_is_written_is_read_again():
    times = RunTimes()
    times.note(("research", "train"), 12.34)
    times.note((None, "train"), 5.0)
    times.note(("research", "train"), 7.0)
    assert read(times.text()) == {(None, "train"): [5.0], ("research", "train"): [12.3, 7.0]}


def test_only_the_last_runs_are_kept():
    times = RunTimes()
    for seconds in range(1, MOST_RUNS + 11):
        times.note((None, "train"), seconds)
    assert read(times.text()) == {(None, "train"): [float(seconds) for seconds in range(11, MOST_RUNS + 11)]}


def test_work_that_nobody_ran_for_longest_is_forgotten_first():
    times = RunTimes()
    for number in range(20_000):
        times.note((None, f"work-{number:05d}-{'x' * 40}"), 3600.0)
    kept = [prefix for _queue, prefix in read(times.text())]
    assert len(times.text()) <= HISTORY_BYTES + 2
    assert 1_000 < len(kept) < 20_000
    assert kept[-1].startswith("work-19999")


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "{}", "7", "[7]", '[["a"]]', '[["a", "b", 7]]', '[[7, "b", [1]]]', '[["a", 7, [1]]]'],
)
def test_nonsense_is_no_history(text):
    assert read(text) == {}


def test_runs_that_make_no_sense_are_left_out():
    assert read(json.dumps([["q", "a", [1, -1, "x", True, None, 2.5]]])) == {("q", "a"): [1.0, 2.5]}


def test_work_that_runs_again_is_the_last_to_be_forgotten():
    times = RunTimes()
    for prefix in ("a", "b", "a"):
        times.note((None, prefix), 5.0)
    assert [prefix for (_queue, prefix), _runs in times] == ["b", "a"]


def test_of_too_many_stored_runs_the_last_are_read():
    stored = json.dumps([["q", "a", list(range(1, MOST_RUNS + 11))]])
    assert read(stored)[("q", "a")] == [float(seconds) for seconds in range(11, MOST_RUNS + 11)]
