# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The flow of an inspection on a small API server: what is written when, what is returned, what is refused."""

from __future__ import annotations

import base64
import json
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build import run as build_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import ClusterBuild, LocalBuild
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import NoSuchHardware
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import MAPS, JobApi

FITS = Verdict("g", "team", "fits", "now", None, NamespaceFit(True), 0, (), {}).as_dict()
WAITS = Verdict("g", "team", "waits", None, "insufficient", NamespaceFit(True), 0, (), {}).as_dict()
RESULT = framed({"exit_code": 0, "wall_seconds": 1.0, "start": 1.0, "end": 2.0})
WRITES = ["POST configmaps", "POST configmaps", "POST jobs", "PUT configmaps/inspection-#", "DELETE jobs/inspection-#"]
TASK = {"namespace": "team", "image": "registry.example.com/x:1", "script": "true"}


class Stage(JobApi):
    """A small API server and inspections on it; the verdict on room is the test's."""

    def __init__(self):
        super().__init__()
        self.verdict = FITS
        self.said = []

    def inspect(self, *, check_mode=False, **options):
        terms = terms_of({**TASK, **options}, check_mode=check_mode)
        return run_inspection(self.client, terms, self.said.append, listen=self.listen)

    def succeed(self, log=RESULT, name="p-0"):
        """The pod ends well; its container has the name that inspections use."""
        super().succeed(log, name)
        self.rename(name)

    def fail(self, log=b"", name="p-0", code=1, **ended):
        """The pod ends badly."""
        super().fail(log, name, code, **ended)
        self.rename(name)

    def rename(self, name):
        pod = next(obj for path, obj in self.objects.items() if path.endswith(f"/pods/{name}"))
        pod["status"]["containerStatuses"][0]["name"] = "run"


@pytest.fixture
def stage(monkeypatch):
    made = Stage()
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job, _nodes: made.verdict)
    return made


def test_a_run_writes_in_order_and_a_second_task_reads_only(stage):
    stage.steps = [stage.succeed]
    first = stage.inspect(identifier="mine")
    assert stage.written == [text.replace("inspection-", "inspection-mine-") for text in WRITES]
    assert (first["phase"], first["changed"], first["cached"]) == ("Succeeded", True, False)
    assert first["inspection_id"] == f"inspection-mine-{first['run_hash'][:10]}"
    assert first["summary"]["succeeded"] == 1
    count = len(stage.writes)
    second = stage.inspect(identifier="mine")
    assert (len(stage.writes), second["changed"], second["cached"]) == (count, False, True)
    assert second["runs"] == first["runs"]


def test_check_mode_writes_nothing_before_and_after(stage):
    before = stage.inspect(check_mode=True)
    assert (before["would_run"], before["changed"], before["phase"]) == (True, True, "Pending")
    assert stage.writes == []
    stage.steps = [stage.succeed]
    stage.inspect()
    after = stage.inspect(check_mode=True)
    assert (after["would_run"], after["changed"], after["phase"]) == (False, False, "Succeeded")


def test_force_runs_again_under_the_same_name(stage):
    stage.steps = [stage.succeed]
    first = stage.inspect()
    stage.steps = [stage.succeed]
    second = stage.inspect(force=True)
    assert (second["attempt"], second["inspection_id"]) == (2, first["inspection_id"])


def test_lack_of_room_is_said_and_waited_for(stage):
    stage.verdict = WAITS
    stage.steps = [stage.succeed]
    answer = stage.inspect()
    assert answer["verdict"]["answer"] == "waits"
    assert "there is no room yet: g: waits" in stage.said[0]
    assert answer["phase"] == "Succeeded"


def test_a_failed_script_fails_the_task_with_its_results_and_is_stored(stage):
    stage.steps = [lambda: stage.fail(framed({"exit_code": 3}), code=3)]
    answer = stage.inspect()
    assert (answer["failed"], answer["reason"]) == (True, "script_failed")
    assert answer["msg"].startswith(f"Cannot finish inspection team/{answer['inspection_id']}: script_failed: ")
    assert answer["runs"][0]["exit_code"] == 3
    count = len(stage.writes)
    again = stage.inspect(fail_when_failed=False)
    assert ("failed" in again, again["reason"], len(stage.writes)) == (False, "script_failed", count)


def test_what_the_cluster_failed_is_tried_again(stage):
    stage.steps = [stage.succeed]
    lost = stage.inspect()
    assert lost["reason"] is None
    stage.steps = [lambda: stage.succeed(b"nothing")]
    assert stage.inspect(script="false")["reason"] == "lost_result"
    stage.steps = [stage.succeed]
    assert stage.inspect(script="false")["attempt"] == 2


def test_a_missing_secret_is_not_the_script_s_fault_and_tried_again(stage):
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}}
    status = {"phase": "Pending", "containerStatuses": [{"name": "run", "state": waiting}]}

    def wait_in_vain():
        stage.run_pod(**status)
        stage.job()["metadata"]["creationTimestamp"] = "2026-11-16T03:50:00Z"

    stage.steps = [wait_in_vain]
    first = stage.inspect(env={"A": {"secret": "x", "key": "k"}})
    assert (first["failed"], first["reason"]) == (True, "config")
    assert 'secret "x" not found' in first["msg"]
    stage.steps = [stage.succeed]
    second = stage.inspect(env={"A": {"secret": "x", "key": "k"}})
    assert (second["phase"], second["attempt"]) == ("Succeeded", 2)


def test_refused_pods_fail_the_task_with_the_words_of_who_refused_them(stage):
    told = 'Error creating: admission webhook "policy.example.com" denied the request: no owner'
    stage.steps = [lambda: stage.say("FailedCreate", told, stage.job())]
    answer = stage.inspect()
    assert (answer["phase"], answer["reason"]) == ("Failed", "refused")
    assert 'webhook "policy.example.com" denied the request: no owner' in answer["msg"]
    stage.objects = {path: obj for path, obj in stage.objects.items() if "/events/" not in path}
    stage.steps = [stage.succeed]
    assert stage.inspect()["attempt"] == 2


@pytest.mark.parametrize("warmup", [0, 1000])
def test_results_of_the_greatest_size_arrive(stage, warmup):
    most = 1024 * 1024
    data = random.Random(7).randbytes(most)
    half = {"head": base64.b64encode(data[: most // 2]).decode(), "tail": base64.b64encode(data[most // 2 :]).decode()}
    ends = base64.b64encode(b"e" * 1000).decode()
    failures = [{"run": number, "exit_code": 1, "stderr": ends} for number in range(1, warmup + 1)]
    payload = {"exit_code": 0, "stdout": {"bytes": most, **half}, "stderr": {"bytes": most, **half}}
    log = framed({**payload, "warmup": {"runs": warmup, "failures": failures}})
    stage.steps = [lambda: stage.succeed(log)]
    answer = stage.inspect(output_bytes=most, warmup=warmup)
    assert (answer["phase"], answer["reason"]) == ("Succeeded", None), answer["message"]
    (item,) = answer["runs"]
    assert item["stdout"] == item["stderr"] == data.decode(errors="replace")


def test_a_stored_result_that_somebody_damaged_is_made_again(stage):
    stage.steps = [stage.succeed]
    first = stage.inspect()
    record = stage.objects[f"{MAPS}/{first['inspection_id']}"]
    record["data"]["outcome"] = json.dumps({"items": [{"index": 0, "wall_seconds": "fast"}], "reason": None})
    stage.steps = [lambda: stage.succeed(name="p-1")]
    again = stage.inspect()
    assert (again["phase"], again["attempt"]) == ("Succeeded", 2)


def test_hardware_that_no_node_has_is_refused_before_anything_is_written(stage):
    stage.put(
        "/api/v1/nodes/n1", {"kind": "Node", "metadata": {"name": "n1", "labels": {"kubernetes.io/arch": "amd64"}}}
    )
    with pytest.raises(NoSuchHardware) as refused:
        stage.inspect(run={"hardware": {"arch": "arm64"}})
    assert refused.value.as_result()["near_misses"] == [
        {"node": "n1", "missing": ["arch arm64: label kubernetes.io/arch is 'amd64'"]}
    ]
    assert stage.writes == []


def test_nodes_that_are_to_come_are_waited_for(stage):
    """An autoscaler makes them when a pod waits; it knows their labels, and nobody else does."""
    stage.put("/api/v1/nodes/n", {"kind": "Node", "metadata": {"name": "n", "labels": {"kubernetes.io/arch": "amd64"}}})
    hardware = {"arch": "arm64", "gpu": {"product": ["Tesla-T4"]}}
    answer = stage.inspect(run={"hardware": hardware, "wait_for_nodes": True}, wait=False)
    assert answer["phase"] == "Pending"
    spec = stage.job()["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    asked = {item["key"]: item.get("values") for item in affinity["nodeSelectorTerms"][0]["matchExpressions"]}
    assert asked["kubernetes.io/arch"] == ["arm64"]
    assert asked["nvidia.com/gpu.product"] == ["Tesla-T4"]
    assert any("nodes are waited for" in text for text in stage.said)


def test_values_that_only_nodes_have_cannot_be_asked_of_nodes_that_are_to_come(stage):
    with pytest.raises(MusterError, match="which are missing"):
        stage.inspect(run={"hardware": {"gpu": {"product": ["Tesla-*"]}}, "wait_for_nodes": True})
    assert stage.writes == []


def test_waiting_for_nodes_makes_no_other_inspection(stage):
    plain = stage.inspect(check_mode=True)
    waiting = stage.inspect(run={"wait_for_nodes": True}, check_mode=True)
    assert plain["inspection_id"] == waiting["inspection_id"]


def test_a_task_that_does_not_wait_comes_back_and_the_next_one_goes_on(stage):
    first = stage.inspect(wait=False)
    assert (first["phase"], first["runs"], first["changed"]) == ("Pending", [], True)
    told = answer_inspections(stage.client(), InspectionInfoOptions(namespace="team"))["inspections"]
    assert [entry["phase"] for entry in told] == ["Pending"]
    stage.steps = [stage.succeed]
    assert stage.inspect()["phase"] == "Succeeded"


def test_inspections_are_told_and_removed_by_identifier(stage):
    stage.steps = [lambda: stage.succeed(framed({"exit_code": 0, "stdout": {"bytes": 2, "half": 9, "head": "aGk="}}))]
    made = stage.inspect(identifier="mine", labels={"team": "a"})
    (told,) = answer_inspections(stage.client(), InspectionInfoOptions(identifier="mine", logs=True))["inspections"]
    assert (told["inspection_id"], told["labels"]["team"]) == (made["inspection_id"], "a")
    assert told["specification"]["script"] == "true"
    assert told["logs"] == {"build": None, "runs": [{"index": 0, "stdout": "hi", "stderr": "", "pod": None}]}
    gone = {"state": "absent", "image": None, "script": None, "identifier": "mine"}
    assert stage.inspect(check_mode=True, **gone)["removed"] == [made["inspection_id"]]
    assert stage.inspect(**gone)["removed"] == [made["inspection_id"]]
    assert stage.inspect(**gone) == {"changed": False, "removed": [], "namespace": "team"}


def test_an_inspection_that_somebody_removed_is_cancelled(stage):
    def remove():
        for path in [path for path in stage.objects if "/configmaps/" in path or "/jobs/" in path]:
            del stage.objects[path]

    stage.steps = [remove]
    answer = stage.inspect()
    assert (answer["phase"], answer["reason"], answer["failed"]) == ("Cancelled", "cancelled", True)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"script": None}, "a ready image needs a script"),
        ({"inspection_id": "inspection-1"}, "it follows from the specification"),
        ({"identifier": "No"}, "identifier"),
        ({"collector": ""}, "collector"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(stage, options, complaint):
    with pytest.raises(BadInput, match=complaint):
        stage.inspect(**options)
    assert stage.asked == []


DIGEST = "sha256:" + "d" * 64
BUILT = {"image": "r.example.com/x:sha-1", "digest": DIGEST, "dockerfile": "FROM b", "spec_hash": "h", "cached": True}
STACKED = {"image": None, "stack": {"base": "b:1"}, "build": {"repository": "r.example.com/x"}}


@pytest.fixture
def build(monkeypatch):
    """Builds end as the test says; returns what was done of them."""
    done = []

    class Build:
        """A build that was looked for."""

        def __init__(self, result, force=False):
            self.result = result
            self.force = force
            self.is_made = result.get("digest") is not None
            self.spec = BuildSpec(Stack("b:1"), "r.example.com/x", "ab" * 32)

        def run(self, _report, _listen):
            done.append(("run", self.force))
            return self.result

        def preview(self):
            done.append(("preview", self.force))
            return self.result

        def again(self, _nodes):
            return Build(self.result, force=True)

    def answer(result):
        monkeypatch.setattr(run_flow, "find_build", lambda _client, _terms, _nodes, _report: Build(result))
        return done

    assert {"is_made", "spec", "run", "preview", "again"} <= set(dir(ClusterBuild)) & set(dir(LocalBuild))
    return answer


def test_a_built_stack_is_run_by_its_digest(stage, build):
    build(BUILT)
    images = []

    def look_and_succeed():
        images.extend(item["image"] for item in stage.job()["spec"]["template"]["spec"]["containers"])
        stage.succeed()

    stage.steps = [look_and_succeed]
    answer = stage.inspect(**STACKED)
    assert (answer["phase"], answer["spec_hash"], answer["image_digest"]) == ("Succeeded", "h", DIGEST)
    assert images == [f"r.example.com/x@{DIGEST}"]


def test_an_image_that_its_registry_lost_is_built_again_once(stage, build):
    done = build(BUILT)
    waiting = {"reason": "ImagePullBackOff", "message": f"r.example.com/x@{DIGEST}: not found"}
    status = {"phase": "Pending", "containerStatuses": [{"name": "run", "state": {"waiting": waiting}}]}
    stage.steps = [lambda: stage.run_pod(**status), stage.succeed]
    answer = stage.inspect(**STACKED)
    assert (answer["phase"], answer["attempt"]) == ("Succeeded", 2)
    assert done == [("run", False), ("run", True)]
    assert any("the registry lost it" in text for text in stage.said)


def test_an_image_that_cannot_be_pulled_for_another_cause_is_not_built_again(stage, build):
    done = build(BUILT)
    waiting = {"reason": "ImagePullBackOff", "message": "unauthorized"}
    status = {"phase": "Pending", "containerStatuses": [{"name": "run", "state": {"waiting": waiting}}]}
    stage.steps = [lambda: stage.run_pod(**status)]
    assert stage.inspect(**STACKED)["reason"] == "image_pull"
    assert done == [("run", False)]


def test_labels_of_a_repeated_task_are_applied_and_those_of_others_stay(stage):
    stage.steps = [stage.succeed]
    first = stage.inspect(labels={"team": "a"})
    record = stage.objects[f"{MAPS}/{first['inspection_id']}"]["metadata"]["labels"]
    record["theirs"] = "x"
    preview = stage.inspect(labels={"team": "b"}, check_mode=True)
    again = stage.inspect(labels={"team": "b"})
    assert (preview["changed"], again["changed"], again["cached"]) == (True, True, True)
    found = stage.objects[f"{MAPS}/{first['inspection_id']}"]["metadata"]["labels"]
    assert (found["team"], found["theirs"]) == ("b", "x")
    count = len(stage.writes)
    assert not stage.inspect(labels={"team": "b"})["changed"]
    assert len(stage.writes) == count


def test_without_a_script_the_stack_is_only_built(stage, build):
    build({**BUILT, "cached": False, "changed": True})
    answer = stage.inspect(**STACKED, script=None)
    assert (answer["phase"], answer["changed"], answer["runs"]) == ("Succeeded", True, [])
    assert stage.writes == []


def test_a_failed_build_fails_the_inspection(stage, build):
    outcome = {"image": "r.example.com/x:sha-1", "reason": "build_failed", "message": "no such package", "log": "STEP"}
    build(outcome)
    answer = stage.inspect(**STACKED)
    assert (answer["phase"], answer["reason"], answer["failed"]) == ("Failed", "build_failed", True)
    assert answer["status"]["build"]["log"] == "STEP"
    assert "build_failed: no such package" in answer["msg"]


def test_a_build_that_goes_on_is_told_as_such(stage, build):
    build({"image": "r.example.com/x:sha-1", "digest": None, "phase": "running", "changed": True})
    answer = stage.inspect(**STACKED, wait=False)
    assert (answer["phase"], answer["inspection_id"], answer["changed"]) == ("Building", None, True)


def test_check_mode_shows_the_dockerfile_of_what_would_be_built(stage, build):
    done = build({**BUILT, "digest": None, "cached": False, "changed": True, "phase": "pending"})
    answer = stage.inspect(check_mode=True, **STACKED)
    assert (answer["would_run"], answer["dockerfile"], answer["run_hash"]) == (True, "FROM b", None)
    assert done == [("preview", False)]


@pytest.mark.parametrize("step", ["build", "run"])
def test_hardware_of_either_step_is_refused_before_the_build(stage, step):
    stage.put("/api/v1/nodes/n1", {"kind": "Node", "metadata": {"name": "n1", "labels": {}}})
    options = {**STACKED, "run": {}}
    options[step] = {**options[step], "hardware": {"arch": "arm64"}}
    with pytest.raises(NoSuchHardware, match=f"hardware for the {step}"):
        stage.inspect(**options)
    assert stage.writes == []


def test_an_image_can_be_built_on_this_machine_and_run_in_the_cluster(stage, monkeypatch):
    made, asked = [], []

    def build_locally(spec, _settings, _script, _report, *, force, check_mode):
        asked.append((force, check_mode))
        if not check_mode:
            made.append(spec.reference)
        digest = DIGEST if made else None
        told = {"image": spec.reference, "digest": digest, "reason": None, "dockerfile": "FROM b:1", "spec_hash": "h"}
        return {**told, "engine_used": "podman", "cached": check_mode and bool(made), "changed": not check_mode}

    monkeypatch.setattr(build_flow, "build_locally", build_locally)
    task = {**STACKED, "build": {"repository": "r.example.com/x", "engine": "podman", "push": True}}
    assert stage.inspect(**task, check_mode=True)["would_run"] is True
    stage.steps = [stage.succeed]
    answer = stage.inspect(**task)
    assert (answer["phase"], answer["image_digest"], made) == ("Succeeded", DIGEST, [answer["image"]])
    assert asked == [(False, True), (False, True), (False, False)]
    assert not any("/build-" in path for _method, path in stage.writes)
    assert stage.inspect(**task)["cached"] is True
    assert len(made) == 1
