# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case of image_build: engines, check mode, failures, tiers, removal."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build import run as flow
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import (
    BuildFailed,
    BuildOptions,
    run_build,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import NoSuchHardware
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import hardware_from_data
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.build_frames import DONE, framed
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, JobApi

SPEC = BuildSpec(Stack("debian:12"), "r.example.com/x", "ab" * 32)
TERMS = BuildOptions(namespace="team", spec=SPEC, script="#!/bin/sh\n", settings=BuildSettings(tier="baseline"))


@pytest.fixture
def api():
    made = JobApi()
    made.steps = [lambda: made.succeed(framed(DONE))]
    return made


def run(api, terms=TERMS, **changes):
    replaced = dataclasses.replace(terms, **changes)
    return run_build(api.client, replaced, lambda _text: None, listen=api.listen)


def test_a_build_tells_image_digest_tier_and_dockerfile(api):
    result = run(api)
    assert (result["image"], result["digest"], result["base_digest"]) == (SPEC.reference, "sha256:1", "sha256:2")
    assert (result["engine_used"], result["tier"], result["cached"], result["changed"]) == (
        "job",
        "baseline",
        False,
        True,
    )
    assert result["dockerfile"].startswith("FROM debian:12")
    assert (result["name"], result["attempt"], result["phase"]) == (SPEC.name, 1, "succeeded")


def test_the_second_run_writes_nothing(api):
    first = run(api)
    before = len(api.writes)
    again = run(api)
    assert len(api.writes) == before
    assert again == {**first, "cached": True, "changed": False}


def test_check_mode_predicts_and_writes_nothing(api):
    preview = run(api, check_mode=True)
    assert (preview["changed"], preview["cached"], preview["image"], preview["digest"]) == (
        True,
        False,
        SPEC.reference,
        None,
    )
    assert api.writes == []
    run(api)
    before = len(api.writes)
    assert not run(api, check_mode=True)["changed"]
    assert run(api, check_mode=True)["digest"] == "sha256:1"
    assert run(api, check_mode=True, force=True)["changed"]
    assert len(api.writes) == before


def test_a_failure_carries_reason_and_log(api):
    api.steps = [lambda: api.fail(framed({"stage": "push", "exit_code": 1}, b"Error: unauthorized\n"))]
    with pytest.raises(BuildFailed) as caught:
        run(api)
    result = caught.value.as_result()
    assert (result["reason"], result["log"], result["digest"]) == ("push_failed", "Error: unauthorized\n", None)
    assert result["msg"] == f"Cannot build image {SPEC.reference}: push_failed: Error: unauthorized"


def build_and_push(api, build_log, push_log, code=0):
    """A pod that built the image in one container and pushed it in the other."""
    times = {"startedAt": "2026-11-16T03:59:00Z", "finishedAt": "2026-11-16T03:59:30Z"}
    builder = {"name": "build", "imageID": f"r/b@sha256:{'b' * 64}", "state": {"terminated": {"exitCode": 0, **times}}}
    ended = {"exitCode": code, "startedAt": "2026-11-16T03:59:31Z", "finishedAt": "2026-11-16T03:59:40Z"}
    pusher = {"name": "push", "state": {"terminated": ended}}
    phase = "Failed" if code else "Succeeded"
    api.run_pod(phase=phase, initContainerStatuses=[builder], containerStatuses=[pusher])
    api.logs |= {"p-0/build": build_log, "p-0/push": push_log}
    api.end_job("Failed" if code else "Complete", "BackoffLimitExceeded" if code else "")


CREATED = "2026-11-16T03:59:29Z"
BUILT = {
    "created": CREATED,
    "stage": "built",
    "exit_code": 0,
    "digest": "",
    "base_digest": "sha256:2",
    "image_id": "sha256:3",
}


def test_what_builder_and_pusher_say_is_one_outcome(api):
    api.steps = [lambda: build_and_push(api, framed(BUILT), framed({**DONE, "base_digest": ""}, b"Copying blob\n"))]
    result = run(api)
    assert (result["reason"], result["digest"], result["base_digest"]) == (None, "sha256:1", "sha256:2")
    assert (result["log"], result["duration"]) == ("STEP 1\nCopying blob\n", 40.0)
    times = ("2026-11-16T03:59:00Z", "2026-11-16T03:59:40Z")
    assert (result["created"], result["started_at"], result["finished_at"]) == (CREATED, *times)
    assert result["builder_digest"] == f"sha256:{'b' * 64}"


def test_a_push_that_fails_keeps_both_logs(api):
    pushed = framed({"stage": "push", "exit_code": 1}, b"Error: unauthorized\n")
    api.steps = [lambda: build_and_push(api, framed(BUILT), pushed, code=1)]
    with pytest.raises(BuildFailed) as caught:
        run(api)
    result = caught.value.as_result()
    assert (result["reason"], result["log"]) == ("push_failed", "STEP 1\nError: unauthorized\n")


def test_a_ready_image_needs_no_cluster():
    def connect():
        pytest.fail("it connected")

    result = run_build(connect, BuildOptions(image="r/x@sha256:12"), lambda _text: None)
    assert (result["image"], result["digest"], result["engine_used"]) == ("r/x@sha256:12", "sha256:12", "none")
    assert (result["changed"], result["cached"], result["reason"]) == (False, True, None)
    with pytest.raises(BadInput, match="ready image"):
        run_build(connect, BuildOptions(engine="none"), lambda _text: None)


def test_all_engines_have_the_same_keys_of_an_outcome(api):
    ready = run_build(api.client, BuildOptions(image="x"), lambda _text: None)
    assert set(ready) <= set(run(api))


def test_hardware_nobody_has_is_refused_and_nothing_written(api):
    node = {"metadata": {"name": "n", "labels": {}}, "status": {"allocatable": {"cpu": "1"}}}
    api.put("/api/v1/nodes/n", node)
    hardware = hardware_from_data({"arch": "arm64"}, "hardware")
    with pytest.raises(NoSuchHardware) as caught:
        run(api, settings=BuildSettings(tier="baseline", hardware=hardware))
    assert caught.value.as_result()["reason"] == "unschedulable"
    assert api.writes == []


def test_hardware_becomes_node_affinity(api):
    labels = {"kubernetes.io/arch": "arm64"}
    api.put("/api/v1/nodes/n", {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": {"cpu": "1"}}})
    seen = []

    def look():
        seen.append(api.job()["spec"]["template"]["spec"]["affinity"])
        api.succeed(framed(DONE))

    api.steps = [look]
    hardware = hardware_from_data({"arch": "arm64"}, "hardware")
    run(api, settings=BuildSettings(tier="baseline", hardware=hardware))
    assert "kubernetes.io/arch" in json.dumps(seen)


def test_removal_by_stack_or_name(api):
    run(api)
    assert run(api, state="absent", check_mode=True)["changed"]
    assert run(api, state="absent")["changed"]
    assert not run(api, state="absent", spec=None, name=SPEC.name)["changed"]
    assert [path for path in api.objects if path.startswith((MAPS, JOBS))] == []


def test_old_records_are_swept_by_the_next_run(api):
    run(api, ttl=0.0)
    api.steps = [lambda: api.succeed(framed(DONE), "p-1")]
    other = run(api, spec=dataclasses.replace(SPEC, tag="2"))
    assert other["swept"] == [SPEC.name]
    assert not any(path.startswith(f"{MAPS}/{SPEC.name}") for path in api.objects)


def test_without_waiting_nothing_is_known_yet(api):
    started = run(api, wait=False)
    assert (started["phase"], started["digest"], started["reason"], started["changed"]) == ("pending", None, None, True)


@pytest.mark.parametrize(("missing", "words"), [("spec", "stack"), ("script", "build_script")])
def test_what_is_missing_is_named(api, missing, words):
    with pytest.raises(BadInput, match=words):
        run(api, engine="job", **{missing: None})


def test_the_local_engine_gets_the_settings_and_its_failure_is_an_error(monkeypatch):
    seen = {}

    def build(spec, settings, script, report, **named):
        seen.update(spec=spec, script=script, **named)
        return {"image": spec.reference, "reason": "timeout", "message": "too long"}

    monkeypatch.setattr(flow, "build_locally", build)
    with pytest.raises(BuildFailed, match="timeout: too long"):
        run_build(lambda: pytest.fail("it connected"), dataclasses.replace(TERMS, engine="podman"), print)
    assert seen == {"spec": SPEC, "script": "#!/bin/sh\n", "force": False, "check_mode": False}


def test_check_mode_shows_a_build_whose_record_would_be_swept_as_one_that_would_be_made(api):
    run(api, ttl=0.0)
    shown = run(api, ttl=0.0, check_mode=True)
    assert (shown["swept"], shown["changed"], shown["cached"], shown["digest"]) == ([SPEC.name], True, False, None)
    api.steps = [lambda: api.succeed(framed(DONE), "p-1")]
    made = run(api, ttl=0.0)
    assert (made["swept"], made["changed"], made["cached"], made["attempt"]) == ([SPEC.name], True, False, 1)


@pytest.mark.parametrize("check_mode", [True, False])
def test_hardware_that_went_is_missed_when_the_record_of_the_build_is_over(api, check_mode):
    labels = {"kubernetes.io/arch": "arm64"}
    node = {"metadata": {"name": "n", "labels": labels}, "status": {"allocatable": {"cpu": "1"}}}
    api.put("/api/v1/nodes/n", node)
    settings = BuildSettings(tier="baseline", hardware=hardware_from_data({"arch": "arm64"}, "hardware"))
    run(api, ttl=0.0, settings=settings)
    api.put("/api/v1/nodes/n", {**node, "metadata": {"name": "n", "labels": {}}})
    with pytest.raises(NoSuchHardware):
        run(api, ttl=0.0, settings=settings, check_mode=check_mode)
