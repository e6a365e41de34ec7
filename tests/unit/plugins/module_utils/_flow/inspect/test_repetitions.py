# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Repetitions whose pods, nodes, logs or server fail them: what finished is never lost and never run again."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionQuestion,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, NOW, PODS, Died, JobApi

FITS = Verdict("g", "team", "fits", "now", None, NamespaceFit(True), 0, (), {}).as_dict()
TASK = {"namespace": "team", "image": "registry.example.com/x:1", "script": "true", "timeout": "600"}
NODE = "/api/v1/nodes/n"
LONG_AGO = "2026-11-16T03:45:00Z"


def result(number, code=0):
    return framed({"exit_code": code, "wall_seconds": float(number + 1)})


class Stage(JobApi):
    """A small API server on which the pods of an inspection end as the test says."""

    def __init__(self):
        super().__init__()
        self.indexed = True
        self.said = []
        self.jobs = []
        self.silent = 0

    def answer(self, method, url, body):
        """Remember Jobs, and give no answer when that is the test's wish."""
        if self.silent:
            self.silent -= 1
            raise Unreachable("read", "anything", "connection refused")
        if method == "POST" and url.partition("?")[0] == JOBS:
            self.jobs.append(body["spec"])
        return super().answer(method, url, body)

    def inspect(self, **options):
        terms = terms_of({**TASK, **options})
        return run_inspection(self.client, terms, self.said.append, listen=self.listen)

    def run_index(self, number, begun=NOW, **status):
        """The pod of an index runs."""
        running = {"name": "run", "state": {"running": {"startedAt": begun}}}
        return self.run_pod(f"p-{number}", **{"startTime": begun, "containerStatuses": [running], **status})

    def end_index(self, number, code=0, repetition=None):
        """The pod of an index ends."""
        self.logs[f"p-{number}"] = result(number if repetition is None else repetition, code)
        ended = {"exitCode": code, "reason": "Completed", "finishedAt": LONG_AGO}
        phase = "Failed" if code else "Succeeded"
        self.run_pod(f"p-{number}", phase=phase, containerStatuses=[{"name": "run", "state": {"terminated": ended}}])

    def vanish(self, number):
        """Pod and log are gone."""
        self.objects.pop(f"{PODS}/p-{number}")
        self.logs.pop(f"p-{number}", None)

    def results(self):
        """The ConfigMaps with results that no outcome has yet."""
        return [path for path in self.objects if path.startswith(MAPS) and "-i" in path.rpartition("inspection-")[2]]

    def variables(self, number=-1):
        """What the pods of a Job are told."""
        container = self.jobs[number]["template"]["spec"]["containers"][0]
        return {entry["name"]: entry.get("value") for entry in container["env"]}


@pytest.fixture
def stage(monkeypatch):
    made = Stage()
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job: FITS)
    return made


def reasons(answer):
    return [item["reason"] for item in answer["runs"]]


def times(answer):
    return [item["wall_seconds"] for item in answer["runs"]]


def test_a_result_is_kept_when_its_pod_ends_and_survives_its_pod_and_its_log(stage):
    seen = []

    def look():
        seen.extend(stage.results())
        stage.vanish(0)

    def finish():
        stage.end_index(1)
        stage.end_job()

    stage.steps = [lambda: stage.end_index(0), look, finish]
    answer = stage.inspect(repetitions=2)
    assert len(seen) == 1
    assert (reasons(answer), times(answer)) == ([None, None], [1.0, 2.0])
    assert stage.results() == []


def die():
    """The task is killed."""
    raise Died


def test_a_task_that_was_killed_finds_what_it_had_kept(stage):
    stage.steps = [lambda: stage.end_index(0), lambda: stage.vanish(0), die]
    with pytest.raises(Died):
        stage.inspect(repetitions=2)
    stage.end_index(1)
    stage.end_job()
    answer = stage.inspect(repetitions=2)
    assert (times(answer), len(stage.jobs)) == ([1.0, 2.0], 1)


def test_a_retry_runs_only_what_is_missing(stage):
    def break_off():
        for number in (0, 2):
            stage.end_index(number)
        stage.run_index(1)

    def delete():
        stage.objects.pop(f"{JOBS}/{stage.job()['metadata']['name']}")
        for number in (0, 1, 2):
            stage.vanish(number)

    stage.steps = [break_off, delete]
    first = stage.inspect(repetitions=3, parallelism=3)
    assert (first["failed"], reasons(first)) == (True, [None, "evicted", None])

    def again():
        stage.end_index(0, repetition=1)
        stage.end_job()

    stage.steps = [again]
    second = stage.inspect(repetitions=3, parallelism=3)
    assert (second["phase"], second["attempt"], times(second)) == ("Succeeded", 2, [1.0, 2.0, 3.0])
    assert (stage.jobs[1]["completions"], stage.variables()["MUSTER_INDEXES"]) == (1, "1")
    assert "MUSTER_INDEXES" not in stage.variables(0)
    assert second["runs"][0] == first["runs"][0]


def test_forced_runs_are_all_run_again(stage):
    stage.steps = [lambda: (stage.end_index(0), stage.end_index(1), stage.end_job())]
    stage.inspect(repetitions=2)
    stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
    stage.steps = [lambda: (stage.end_index(0), stage.end_index(1), stage.end_job())]
    assert stage.inspect(repetitions=2, force=True)["attempt"] == 2
    assert stage.jobs[1]["completions"] == 2


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_log_that_cannot_be_read_just_now_is_asked_for_again(stage, status):
    stage.log_troubles["p-0"] = [status] * 6
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    answer = stage.inspect()
    assert (reasons(answer), answer["attempt"]) == ([None], 1)
    assert any("the node does not answer" in text for text in stage.said)


def test_a_node_that_never_gives_the_log_costs_that_result_only_and_no_more_time_than_is_bounded(stage):
    stage.log_troubles["p-0"] = [500] * 10_000
    before = stage.now
    stage.steps = [lambda: (stage.end_index(0), stage.end_index(1), stage.end_job())]
    answer = stage.inspect(repetitions=2)
    assert reasons(answer) == ["lost_result", None]
    assert stage.now - before < 200
    stage.log_troubles.clear()
    stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    assert (reasons(stage.inspect(repetitions=2)), stage.jobs[1]["completions"]) == ([None, None], 1)


def test_who_loses_the_right_to_read_logs_is_told_and_the_job_stays(stage):
    stage.log_troubles["p-0"] = [403] * 10_000
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    with pytest.raises(Forbidden):
        stage.inspect()
    stage.log_troubles.clear()
    assert reasons(stage.inspect()) == [None]
    assert len(stage.jobs) == 1


def test_who_may_not_read_logs_is_told_before_anything_starts(stage):
    stage.may_read_logs = False
    with pytest.raises(MusterError, match="pods/log"):
        stage.inspect()
    assert stage.jobs == []


def test_one_repetition_that_cannot_be_pulled_throws_nothing_away_and_others_go_on(stage):
    waiting = {"name": "run", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no disk"}}}

    def go_on():
        stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
        stage.end_index(0, repetition=2)
        stage.end_job()

    stage.steps = [
        lambda: stage.end_index(0),
        lambda: stage.run_pod("p-1", phase="Pending", containerStatuses=[waiting]),
        go_on,
    ]
    answer = stage.inspect(repetitions=3)
    assert (reasons(answer), times(answer)) == ([None, "image_pull", None], [1.0, None, 3.0])
    assert stage.variables()["MUSTER_INDEXES"] == "2"


def test_a_dead_node_ends_its_runs_as_evicted_and_the_others_go_on(stage):
    stage.put(NODE, {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [down()]}})

    def go_on():
        stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
        stage.end_index(0, repetition=2)
        stage.end_job()

    stage.steps = [lambda: stage.end_index(0), lambda: stage.run_index(1, LONG_AGO), go_on]
    answer = stage.inspect(repetitions=3)
    assert (answer["reason"], reasons(answer)) == ("evicted", [None, "evicted", None])
    assert "node n does not answer" in answer["runs"][1]["message"]
    assert (times(answer), len(stage.jobs)) == ([1.0, None, 3.0], 2)
    assert [path for path in stage.objects if path.startswith(JOBS)] == []
    # It says nothing about the script, so it is tried again, and only that.
    stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
    stage.steps = [lambda: (stage.end_index(0, repetition=1), stage.end_job())]
    again = stage.inspect(repetitions=3)
    assert (again["cached"], reasons(again), times(again)) == (False, [None] * 3, [1.0, 2.0, 3.0])
    assert stage.variables()["MUSTER_INDEXES"] == "1"


def test_progress_tells_how_many_repetitions_have_ended(stage):
    stage.steps = [
        lambda: stage.run_index(0),
        lambda: (stage.end_index(0), stage.run_index(1)),
        lambda: (stage.end_index(1), stage.end_job()),
    ]
    stage.inspect(repetitions=2)
    assert [text.partition(": ")[2] for text in stage.said][1:3] == ["running: 0 of 2", "running: 1 of 2"]


def test_the_log_of_a_running_inspection_is_what_it_wrote_so_far_without_the_frame(stage):
    stage.inspect(wait=False)
    assert stage.variables()["MUSTER_LIVE"] == "1"
    stage.run_index(0)
    question = InspectionQuestion(namespace="team", logs=True)
    for log in (b"so far", b"so far\n" + result(0), b"so far\n" + result(0)[:-40]):
        stage.logs["p-0"] = log
        (told,) = answer_inspections(stage.client(), question)["inspections"]
        assert [run["stdout"] for run in told["logs"]["runs"]] == ["so far"]


def test_a_pod_that_went_away_while_it_ran_may_be_replaced(stage):
    """Why it went may have stood in a state that nobody read."""

    def replace():
        stage.vanish(0)
        stage.run_index(1)

    def finish():
        stage.end_index(0)
        stage.end_index(1)
        stage.end_job()

    stage.steps = [lambda: stage.run_index(0), replace, finish]
    assert reasons(stage.inspect(repetitions=2, parallelism=2)) == [None, None]


def down():
    return {"type": "Ready", "status": "Unknown"}


def test_a_node_that_is_back_in_time_gives_its_result(stage):
    stage.put(NODE, {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [down()]}})
    stage.steps = [lambda: stage.run_index(0), lambda: (stage.end_index(0), stage.end_job())]
    assert reasons(stage.inspect()) == [None]


def test_a_server_that_does_not_answer_is_waited_for(stage):
    def fall_silent():
        stage.silent = 60

    stage.steps = [fall_silent, lambda: (stage.end_index(0), stage.end_job())]
    assert reasons(stage.inspect()) == [None]
    assert any("trying again" in text for text in stage.said)


def test_a_server_that_stays_away_is_not_waited_for_longer_than_the_run_may_take(stage):
    def fall_silent():
        stage.silent = 10**9

    before = stage.now
    stage.steps = [fall_silent]
    with pytest.raises(Unreachable):
        stage.inspect()
    assert 600 <= stage.now - before < 800
