# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The answer of an inspection: the same keys whatever became of it."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import (
    empty_answer,
    finished_answer,
    with_build,
    with_outcome,
    with_verdict,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import RunState

EMPTY = empty_answer("team", ("send_messages",))
ITEM = {
    "reason": None,
    "wall_seconds": 2.0,
    "hwinfo": {"cpu": {}},
    "placement_verified": True,
    "image_digest": "sha256:a",
}


def test_no_step_changes_the_keys():
    steps = [
        with_outcome(EMPTY, RunState("running"), None),
        with_build(EMPTY, {"image": "i", "reason": None}),
        with_verdict(EMPTY, None),
    ]
    assert all(set(step) == set(EMPTY) for step in steps)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (RunState("pending", waiting_for="quota"), "Pending"),
        (RunState("running"), "Running"),
        (RunState("succeeded"), "Succeeded"),
        (RunState("failed", "oom"), "Failed"),
        (RunState("failed", "cancelled"), "Cancelled"),
    ],
)
def test_phases_of_the_run(state, phase):
    answer = with_outcome(EMPTY, state, None)
    assert answer["phase"] == phase
    assert answer["status"]["run"]["waiting_for"] == state.waiting_for


def test_results_are_summed_up():
    answer = with_outcome(EMPTY, RunState("succeeded"), {"items": [ITEM]})
    # Jinja takes the name items for the method of a dictionary.
    assert (answer["runs"], "items" in answer) == ([ITEM], False)
    assert (answer["hwinfo"], answer["placement_verified"], answer["image_digest"]) == ({"cpu": {}}, True, "sha256:a")
    assert answer["summary"]["wall_seconds"]["median"] == 2.0


@pytest.mark.parametrize(
    ("build", "phase"),
    [
        ({"phase": "pending", "waiting_for": "quota"}, "Building"),
        ({"phase": "running"}, "Building"),
        ({"phase": "succeeded", "digest": "sha256:b"}, "Succeeded"),
        ({"digest": "sha256:b", "reason": None}, "Succeeded"),
        ({"reason": "build_failed", "message": "no"}, "Failed"),
    ],
)
def test_phases_of_the_build(build, phase):
    answer = with_build(EMPTY, build)
    assert answer["phase"] == phase
    assert answer["status"]["build"]["waiting_for"] == build.get("waiting_for")
    assert answer["image_digest"] == build.get("digest")


def test_a_failed_inspection_fails_the_task_unless_it_shall_not():
    answer = with_outcome({**EMPTY, "inspection_id": "inspection-1"}, RunState("failed", "oom", "too much"), None)
    failed = finished_answer(answer, fail_when_failed=True)
    assert failed["msg"] == "Cannot finish inspection team/inspection-1: oom: too much"
    assert failed["error"] == {"action": "finish", "object": "inspection team/inspection-1", "cause": "oom: too much"}
    assert finished_answer(answer, fail_when_failed=False) == answer


def test_a_failed_script_is_told_with_its_last_words():
    item = {**ITEM, "index": 0, "reason": "script_failed", "stderr": "Traceback\nValueError: no\n"}
    answer = with_outcome(EMPTY, RunState("failed", "script_failed", "run 0: exit code 1"), {"items": [item]})
    assert answer["message"] == "run 0: exit code 1\nTraceback\nValueError: no"
    assert finished_answer(answer, fail_when_failed=True)["msg"].endswith("ValueError: no")
    allowed = with_outcome(EMPTY, RunState("succeeded"), {"items": [item]})
    assert allowed["message"] is None


def test_an_inspection_that_goes_on_does_not_fail():
    answer = with_outcome(EMPTY, RunState("running"), None)
    assert "failed" not in finished_answer(answer, fail_when_failed=True)
