# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inspections that somebody cancels: results stay, whoever waits is told, and the next task runs the rest."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, NOW, JobApi

FITS = Verdict("g", "team", "fits", "now", None, NamespaceFit(True), 0, (), {}).as_dict()
TASK = {"namespace": "team", "image": "registry.example.com/x:1", "script": "true", "identifier": "mine"}


class Stage(JobApi):
    """A small API server on which the pods of an inspection end as the test says."""

    def __init__(self):
        super().__init__()
        self.indexed = True
        self.jobs = []

    def answer(self, method, url, body):
        """Remember Jobs."""
        if method == "POST" and url.partition("?")[0] == JOBS:
            self.jobs.append(body["spec"])
        return super().answer(method, url, body)

    def inspect(self, **options):
        terms = terms_of({**TASK, "fail_when_failed": False, **options})
        return run_inspection(self.client, terms, lambda _text: None, listen=self.listen)

    def cancel(self, check_mode=False, **options):
        terms = terms_of(
            {"namespace": "team", "state": "cancelled", "identifier": "mine", **options}, check_mode=check_mode
        )
        return run_inspection(self.client, terms, lambda _text: None)

    def end_index(self, number, code=0, seconds=1.0):
        """The pod of an index ends."""
        self.logs[f"p-{number}"] = framed({"exit_code": code, "wall_seconds": seconds})
        ended = {"exitCode": code, "reason": "Completed", "finishedAt": NOW}
        phase = "Failed" if code else "Succeeded"
        self.run_pod(f"p-{number}", phase=phase, containerStatuses=[{"name": "run", "state": {"terminated": ended}}])

    def run_index(self, number):
        """The pod of an index runs."""
        running = {"name": "run", "state": {"running": {"startedAt": NOW}}}
        self.run_pod(f"p-{number}", startTime=NOW, containerStatuses=[running])

    def drop_pods(self):
        """What the collector of garbage does to the pods of a Job that is gone."""
        for path in [path for path in self.objects if "/pods/" in path]:
            del self.objects[path]


@pytest.fixture
def stage(monkeypatch):
    made = Stage()
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job, _nodes: FITS)
    return made


def reasons(answer):
    return [item["reason"] for item in answer["runs"]]


def test_who_waits_for_a_cancelled_inspection_gets_the_results_there_are(stage):
    said = []
    stage.steps = [
        lambda: stage.end_index(1),
        lambda: (stage.run_index(0), said.append(stage.cancel()), stage.drop_pods()),
    ]
    answer = stage.inspect(repetitions=3)
    assert said == [{"changed": True, "cancelled": [answer["inspection_id"]], "namespace": "team"}]
    assert (answer["phase"], answer["reason"]) == ("Cancelled", "cancelled")
    assert reasons(answer) == ["cancelled", None, "cancelled"]
    assert answer["message"].endswith("1 of 3 repetitions have a result")
    assert not [path for path in stage.objects if path.startswith(JOBS)]
    [told] = answer_inspections(stage.client(), InspectionInfoOptions(namespace="team"))["inspections"]
    assert (told["phase"], told["runs"]) == ("Cancelled", answer["runs"])


def test_results_that_nobody_waited_for_are_kept_and_the_next_task_runs_the_rest(stage):
    stage.inspect(repetitions=3, wait=False)
    stage.end_index(0, seconds=7.0)
    stage.run_index(1)
    before = len(stage.writes)
    assert stage.cancel(check_mode=True)["cancelled"] == stage.cancel(check_mode=True)["cancelled"] != []
    assert len(stage.writes) == before
    assert stage.cancel()["changed"] is True
    assert stage.cancel() == {"changed": False, "cancelled": [], "namespace": "team"}
    stage.drop_pods()

    def finish():
        stage.end_index(0, seconds=8.0)
        stage.end_index(1, seconds=9.0)
        stage.end_job()

    stage.steps = [finish]
    answer = stage.inspect(repetitions=3)
    assert (answer["phase"], answer["attempt"]) == ("Succeeded", 2)
    assert [item["wall_seconds"] for item in answer["runs"]] == [7.0, 8.0, 9.0]
    assert stage.jobs[-1]["completions"] == 2


def test_a_second_attempt_that_is_cancelled_keeps_what_the_first_had(stage):
    stage.inspect(repetitions=3, wait=False)
    stage.end_index(1, seconds=5.0)
    stage.cancel()
    stage.drop_pods()
    stage.inspect(repetitions=3, wait=False)
    # The first pod of this Job is that of repetition 0, the second that of repetition 2.
    stage.end_index(1, seconds=6.0)
    stage.cancel()
    [told] = answer_inspections(stage.client(), InspectionInfoOptions(namespace="team"))["inspections"]
    assert [item["wall_seconds"] for item in told["runs"]] == [None, 5.0, 6.0]
    assert reasons(told) == ["cancelled", None, None]


def test_to_be_cancelled_is_no_failure_that_a_task_allows(stage):
    stage.inspect(repetitions=2, allowed_failures=2, wait=False)
    stage.end_index(0)
    stage.cancel()
    [told] = answer_inspections(stage.client(), InspectionInfoOptions(namespace="team"))["inspections"]
    assert told["phase"] == "Cancelled"


def test_what_is_over_is_left_alone_and_what_nobody_knows_is_no_error(stage):
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    assert stage.inspect()["phase"] == "Succeeded"
    before = {path: dict(item) for path, item in stage.objects.items() if path.startswith(MAPS)}
    assert stage.cancel()["cancelled"] == []
    assert stage.cancel(identifier=None, inspection_id="inspection-none")["cancelled"] == []
    assert {path: dict(item) for path, item in stage.objects.items() if path.startswith(MAPS)} == before


def test_nothing_is_cancelled_without_a_cluster_or_a_name(stage):
    with pytest.raises(BadInput, match="ends with its task"):
        stage.cancel(engine="local")
    with pytest.raises(AssertionError, match="inspection_id, identifier"):
        stage.cancel(identifier=None)
