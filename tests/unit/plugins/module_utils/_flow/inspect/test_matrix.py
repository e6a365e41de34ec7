# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A matrix of inspections in one task: each cell with its own options, and what a failure means for the others."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.answer import empty_answer
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.matrix import run_cells
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import RunOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Unreachable
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.inspector import terms_of

TASK = {"namespace": "team", "script": "true", "env": {"A": "b", "NONE": None}, "repetitions": 2}
AXES = {
    "image": {"one": {"image": "r/one:1"}, "two": {"image": "r/two:1"}},
    "threads": {"1": {"env": {"T": "1"}, "run": {"requests": {"cpu": 1}}}, "2": {"env": {"T": "2"}}},
}


class Lab:
    """Inspections whose outcomes the test decides, by image and variable T."""

    def __init__(self, **outcomes):
        self.outcomes = outcomes
        self.seen = []
        self.said = []

    def inspect(self, terms):
        name = f"{terms.image[2:5]}{terms.run.env['T']}"
        self.seen.append((name, terms))
        outcome = self.outcomes.get(name, {})
        if isinstance(outcome, Exception):
            raise outcome
        return empty_answer(terms.namespace) | {"phase": "Succeeded", "changed": True, "cached": False} | outcome

    def run(self, check_mode=False, **options):
        task = {**TASK, **options}
        return run_cells(terms_of(task, check_mode=check_mode), self.inspect, self.said.append)


FAILED = {"phase": "Failed", "reason": "script_failed", "message": "exit code 3"}


def test_each_cell_has_the_options_of_the_task_and_its_own():
    lab = Lab()
    answer = lab.run(matrix={"axes": AXES, "include": [{"image": "two", "options": {"repetitions": 5}}]})
    assert [name for name, _terms in lab.seen] == ["one1", "one2", "two1", "two2"]
    runs = [terms.run for _name, terms in lab.seen]
    assert runs[0] == RunOptions(env={"A": "b", "T": "1"}, requests={"cpu": 1}, repetitions=2)
    assert runs[3] == RunOptions(env={"A": "b", "T": "2"}, repetitions=5)
    assert (answer["phase"], answer["changed"], answer["cached"]) == ("Succeeded", True, False)
    assert [(cell["name"], cell["axes"]) for cell in answer["matrix"]][1] == (
        "image=one threads=2",
        {"image": "one", "threads": "2"},
    )
    assert lab.said[0] == "image=one threads=1: 1 of 4"


def test_a_cell_that_fails_does_not_keep_others_from_being_inspected():
    lab = Lab(one2=FAILED, two1=BadInput("find", "hardware", "no node has it"))
    answer = lab.run(matrix={"axes": AXES})
    assert [cell["reason"] for cell in answer["matrix"]] == [None, "script_failed", "refused", None]
    assert "no node has it" in answer["matrix"][2]["message"]
    assert (answer["failed"], answer["phase"], answer["reason"]) == (True, "Failed", "script_failed")
    assert answer["msg"] == (
        "Cannot finish inspection team/the matrix: script_failed: 2 of 4 cells failed; image=one threads=2: exit code 3"
    )
    assert "failed" not in Lab(one2=FAILED).run(matrix={"axes": AXES}, fail_when_failed=False)


def test_with_fail_fast_what_follows_a_failure_is_left_out():
    lab = Lab(one2=FAILED)
    answer = lab.run(matrix={"axes": AXES, "fail_fast": True})
    assert [name for name, _terms in lab.seen] == ["one1", "one2"]
    assert [(cell["phase"], cell["reason"]) for cell in answer["matrix"]][2:] == [("Cancelled", "cancelled")] * 2
    assert answer["reason"] == "script_failed"


def test_a_cluster_out_of_reach_ends_the_task():
    with pytest.raises(Unreachable):
        Lab(one1=Unreachable("reach", "it", "gone")).run(matrix={"axes": AXES})


def test_check_mode_and_tasks_that_do_not_wait_tell_where_all_of_it_stands():
    preview = Lab(two1={"would_run": True, "phase": "Pending"}).run(check_mode=True, matrix={"axes": AXES})
    assert (preview["would_run"], preview["phase"]) == (True, "Pending")
    assert Lab(two1={"phase": "Running"}).run(matrix={"axes": AXES})["phase"] == "Running"


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"matrix": {"axes": {"a": {"x": {"image": "i", "namespace": "other"}}}}}, "matrix: a=x: namespace cannot be"),
        ({"matrix": {"axes": {"a": {"x": {"image": "i", "src": "x"}}}}}, "src cannot be an option of a cell"),
        ({"matrix": {"axes": {"a": {"x": {"env": {}}}}}}, "any of the following are missing: image"),
        ({"matrix": {"axes": {"a": {"x": {"image": "i", "stack": {"base": "b"}}}}}}, "mutually exclusive"),
        ({"matrix": {"axes": {"a": {"x": {"image": "i", "repetitions": "many"}}}}}, "matrix: a=x: .*repetitions"),
        ({"matrix": {"axes": {"a": {"x": {"image": "i", "run": {"hardwar": 1}}}}}}, "matrix: a=x: .*hardwar"),
        ({"matrix": {"axes": AXES}, "state": "absent"}, "matrix: it cannot be removed or cancelled as one"),
    ],
)
def test_wrong_cells_are_named_before_anything_is_done(options, cause):
    with pytest.raises(BadInput, match=cause):
        terms_of({**TASK, **options})
