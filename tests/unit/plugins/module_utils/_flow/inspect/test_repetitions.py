# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Repetitions whose pods, nodes, logs or server fail them: what finished is never lost and never run again."""

from __future__ import annotations

import base64
import gzip
import hashlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
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
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job, _nodes: FITS)
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
    assert "node n did not end it" in answer["runs"][1]["message"]
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
    question = InspectionInfoOptions(namespace="team", logs=True)
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


def record_of(stage):
    return next(obj for path, obj in stage.objects.items() if path.startswith(MAPS) and "attempt" in obj["data"])


def part_of(stage, name, document, **changes):
    """A part with results as somebody with the right to write ConfigMaps may forge it."""
    record = record_of(stage)
    packed = gzip.compress(document)
    data = {"job": record["metadata"]["name"], "number": "0", "of": "1"}
    data |= {"sha256": hashlib.sha256(packed).hexdigest(), **changes}
    owner = {"kind": "ConfigMap", "name": record["metadata"]["name"], "uid": record["metadata"]["uid"]}
    labels = {"muster.kube/part": record["metadata"]["name"]}
    metadata = {"name": name, "namespace": "team", "labels": labels, "ownerReferences": [owner]}
    part = {"part": base64.b64encode(packed).decode()}
    stage.put(f"{MAPS}/{name}", {"kind": "ConfigMap", "metadata": metadata, "data": data, "binaryData": part})


def nested(depth):
    return b"[" * depth + b"]" * depth


ODD_PARTS = {
    "no item": (b'{"0": {}}', {}),
    "item of another sort": (b'{"0": {"item": [], "placement": {"found": []}}}', {}),
    "another index": (
        b'{"0": {"item": {"index": 1, "stdout": "", "stderr": "", "hwinfo": null}, "placement": {}}}',
        {},
    ),
    "wrong types": (
        b'{"0": {"item": {"index": 0, "stdout": "", "stderr": "", "hwinfo": 7}, "placement": {"found": []}}}',
        {},
    ),
    "a repetition that is none": (
        b'{"7": {"item": {"index": 7, "stdout": "", "stderr": "", "hwinfo": null}, "placement": {"found": []}}}',
        {},
    ),
    "an endless number": (b'{"' + b"9" * 5000 + b'": {}}', {}),
    "an endless position": (b"{}", {"number": "9" * 5000}),
    "nested": (b'{"0": ' + nested(20_000) + b"}", {}),
    "no text": (b"\xff\xfe", {}),
    "another digest": (b'{"0": {}}', {"sha256": "0"}),
    "another attempt": (b'{"0": {}}', {"job": "other"}),
}


@pytest.mark.parametrize("odd", sorted(ODD_PARTS))
def test_odd_parts_are_left_out_as_if_nothing_had_been_kept(stage, odd):
    document, changes = ODD_PARTS[odd]
    stage.inspect(repetitions=2, wait=False)
    part_of(stage, "forged", document, **changes)
    stage.steps = [
        lambda: (stage.end_index(0), stage.run_index(1)),
        lambda: (stage.end_index(1), stage.end_job()),
    ]
    answer = stage.inspect(repetitions=2)
    assert times(answer) == [1.0, 2.0]
    assert [text.rpartition(": ")[2] for text in stage.said if " of 2" in text] == ["1 of 2"]


@pytest.mark.parametrize("kept", ['{"results": {"0": 3, "x": {}}}', '{"results": []}', '{"chunks": ["gone"]}'])
def test_repetitions_are_not_mixed_up_when_what_was_kept_is_damaged(stage, kept):
    """The Job says itself for which repetitions it is."""

    def break_off():
        for number in (0, 2):
            stage.end_index(number)
        stage.objects.pop(f"{JOBS}/{stage.job()['metadata']['name']}")
        for number in (0, 2):
            stage.objects.pop(f"{PODS}/p-{number}")

    stage.steps = [lambda: (stage.end_index(0), stage.end_index(2), stage.run_index(1)), break_off]
    stage.inspect(repetitions=3, parallelism=3)
    stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
    stage.inspect(repetitions=3, parallelism=3, wait=False)
    assert stage.variables()["MUSTER_INDEXES"] == "1"
    record_of(stage)["data"]["kept"] = kept
    stage.steps = [lambda: (stage.end_index(0, repetition=1), stage.end_job())]
    answer = stage.inspect(repetitions=3, parallelism=3)
    assert times(answer) == [None, 2.0, None]
    stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
    stage.steps = [lambda: (stage.end_index(0), stage.end_index(1, repetition=2), stage.end_job())]
    assert times(stage.inspect(repetitions=3, parallelism=3)) == [1.0, 2.0, 3.0]
    assert stage.variables()["MUSTER_INDEXES"] == "0 2"


def test_a_node_that_does_not_know_its_pods_yet_is_asked_again(stage):
    stage.log_troubles["p-0"] = [404] * 6
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    assert reasons(stage.inspect()) == [None]


def test_results_that_cannot_be_stored_before_the_end_are_stored_at_the_end_or_as_soon_as_it_goes(stage):
    refused = [403]

    def answer(method, url, body, usual=stage.answer):
        if method == "POST" and url.startswith(MAPS) and "-i" in body["metadata"]["name"][-14:] and refused:
            return refused.pop(), {"kind": "Status", "message": "exceeded quota"}
        return usual(method, url, body)

    stage.answer = answer
    seen = []
    stage.steps = [
        lambda: stage.end_index(0),
        lambda: seen.append(len(stage.results())),
        lambda: (seen.append(len(stage.results())), stage.vanish(0)),
        lambda: (stage.end_index(1), stage.end_job()),
    ]
    assert times(stage.inspect(repetitions=2)) == [1.0, 2.0]
    assert seen == [0, 1]
    assert any("exceeded quota" in text for text in stage.said)


def test_a_pod_that_went_before_its_result_was_read_is_a_lost_result_and_run_again(stage):
    def finish():
        stage.end_index(1)
        stage.end_job()
        stage.job()["status"] |= {"completedIndexes": "0-1"}

    stage.steps = [finish]
    answer = stage.inspect(repetitions=2)
    assert reasons(answer) == ["lost_result", None]
    assert "before its result was read" in answer["runs"][0]["message"]
    stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    assert (times(stage.inspect(repetitions=2)), stage.jobs[1]["completions"]) == ([1.0, 2.0], 1)


def test_pods_of_others_are_no_results_when_the_job_was_deleted(stage):
    """A Job of the same name may have been there before, and its pods go later than it."""

    def delete():
        stage.objects.pop(f"{JOBS}/{stage.job()['metadata']['name']}")
        stage.objects[f"{PODS}/p-0"]["metadata"]["ownerReferences"][0]["uid"] = "older"

    stage.steps = [lambda: None, lambda: (stage.end_index(0), delete())]
    assert reasons(stage.inspect()) == ["cancelled"]


def test_a_node_whose_clock_is_late_loses_no_pod(stage):
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}
    stage.steps = [
        lambda: stage.run_index(0, "2026-11-16T02:00:00Z", conditions=[placed]),
        lambda: (stage.end_index(0), stage.end_job()),
    ]
    assert reasons(stage.inspect()) == [None]


def test_a_pod_the_cluster_ended_is_run_in_the_further_job_as_it_would_have_been_in_this_one(stage):
    stage.put(NODE, {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [down()]}})
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    ended = {"name": "run", "state": {"terminated": {"exitCode": 143, "finishedAt": LONG_AGO}}}

    def disrupt():
        stage.run_index(0, LONG_AGO)
        stage.run_pod("p-1", phase="Failed", conditions=[disruption], containerStatuses=[ended])

    def go_on():
        stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
        stage.end_index(0, repetition=1)
        stage.end_job()

    stage.steps = [disrupt, go_on]
    assert reasons(stage.inspect(repetitions=2, parallelism=2)) == ["evicted", None]


def test_a_long_script_leaves_no_room_in_the_record_so_results_lie_beside_it(stage):
    script = "#\n" * 300_000
    written = base64.b64encode(b"x" * 230_000).decode()
    stage.logs["p-0"] = framed({"exit_code": 0, "stdout": {"head": written, "tail": "", "bytes": 230_000}})
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": LONG_AGO}
    state = [{"name": "run", "state": {"terminated": ended}}]
    stage.steps = [lambda: (stage.run_pod("p-0", phase="Succeeded", containerStatuses=state), stage.end_job())]
    answer = stage.inspect(script=script, output_bytes=1024 * 1024)
    assert len(answer["runs"][0]["stdout"]) == 230_000
    assert sum(len(text) for text in record_of(stage)["data"].values()) < 1024 * 1024


def test_labels_that_two_tasks_set_at_once_are_both_set(stage):
    stage.steps = [lambda: (stage.end_index(0), stage.end_job())]
    stage.inspect()

    def answer(method, url, body, usual=stage.answer):
        if method == "PUT":
            stage.answer = usual
            stage.inspect(labels={"a": "1"})
        return usual(method, url, body)

    stage.answer = answer
    told = stage.inspect(labels={"b": "2"})
    assert (told["cached"], told["changed"]) == (True, True)
    assert {"a": "1", "b": "2"}.items() <= record_of(stage)["metadata"]["labels"].items()


def test_repetitions_go_on_when_the_job_failed_for_successes_that_its_node_noticed_late(stage):
    ended = {"exitCode": 0, "reason": "Completed", "finishedAt": LONG_AGO}

    def notice_late():
        stage.end_index(0)
        state = [{"name": "run", "state": {"terminated": ended}}]
        stage.run_pod("p-0", phase="Failed", reason="DeadlineExceeded", containerStatuses=state)
        stage.end_job("Failed", "MaxFailedIndexesExceeded")

    def go_on():
        stage.objects = {path: obj for path, obj in stage.objects.items() if not path.startswith(PODS)}
        stage.end_index(0, repetition=1)
        stage.end_job()

    stage.steps = [notice_late, go_on]
    answer = stage.inspect(repetitions=2)
    assert (reasons(answer), times(answer)) == ([None, None], [1.0, 2.0])
    assert stage.variables()["MUSTER_INDEXES"] == "1"
