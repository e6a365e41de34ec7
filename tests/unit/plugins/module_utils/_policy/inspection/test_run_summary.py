# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of an inspection in a few numbers."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_summary import (
    all_verified,
    failure_of,
    last_words,
    summarize,
    worth_repeating,
)


def item(index, reason=None, seconds=1.0, **more):
    return {"index": index, "reason": reason, "message": "why", "wall_seconds": seconds, **more}


def test_only_runs_that_succeeded_are_measured():
    items = [
        item(0, seconds=4.0),
        item(1, seconds=1.0),
        item(2, "oom", 99.0),
        item(3, seconds=2.0),
        item(4, seconds=3.0),
    ]
    assert summarize(items) == {
        "succeeded": 4,
        "failed": 1,
        "wall_seconds": {"median": 2.5, "q1": 1.75, "q3": 3.25, "min": 1.0, "max": 4.0},
    }


def test_one_time_is_its_own_spread_and_none_is_none():
    assert set(summarize([item(0, seconds=2.0)])["wall_seconds"].values()) == {2.0}
    assert summarize([item(0, "timeout")])["wall_seconds"] is None


@pytest.mark.parametrize(
    ("seen", "verdict"), [([], None), ([True, True], True), ([True, None], None), ([True, None, False], False)]
)
def test_one_contradiction_decides_and_silence_leaves_it_open(seen, verdict):
    assert all_verified([{"placement_verified": value} for value in seen]) is verdict


def test_allowed_failures_are_no_failure():
    assert failure_of([item(0, "script_failed"), item(1)], 1) == (None, "")


def test_a_special_cause_explains_more_than_an_exit_code():
    reason, message = failure_of([item(0, "script_failed"), item(1, "oom"), item(2)], 1)
    assert reason == "oom"
    assert message == "2 of 3 runs failed; run 1: why"


@pytest.mark.parametrize(
    ("stderr", "told"),
    [
        ("", ""),
        (None, ""),
        ("Traceback\n  line 1\nValueError: no\n\n", "Traceback\n  line 1\nValueError: no"),
        ("\n".join(f"line {number}" for number in range(9)), "\n".join(f"line {number}" for number in range(4, 9))),
        ("x" * 5000, "…" + "x" * 500),
    ],
)
def test_the_end_of_what_a_script_complained_of(stderr, told):
    assert last_words({"stderr": stderr}) == told


def test_a_run_that_was_left_out_explains_nothing():
    assert failure_of([item(0, "cancelled"), item(1, "script_failed")], 0)[0] == "script_failed"


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        ({"reason": None}, False),
        ({"reason": "script_failed"}, False),
        ({"reason": "oom"}, False),
        ({"reason": "quota"}, True),
        ({"reason": "refused"}, True),
        ({"reason": "config"}, True),
        ({"reason": "evicted"}, True),
        ({"reason": "lost_result"}, True),
        ({"reason": "timeout", "items": [{"start": None}]}, True),
        ({"reason": "timeout", "items": [{"start": "2026-01-01T00:00:00Z"}]}, False),
    ],
)
def test_only_circumstances_are_worth_a_second_try(outcome, again):
    assert worth_repeating(outcome) is again
