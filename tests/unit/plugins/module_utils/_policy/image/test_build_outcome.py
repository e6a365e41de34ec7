# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The outcome of a build: the end of its run, its frame and its log agree on one reason."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.frame import Frame
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import RunState
from ansible_collections.muster.kube.plugins.module_utils._policy.image.build_outcome import (
    LOG_BYTES,
    build_outcome,
    joined_frames,
    last_error,
    log_text,
)

SPEC = BuildSpec(Stack("debian:12"), "r/x", "ab" * 32)
DONE = {"stage": "done", "exit_code": 0, "digest": "sha256:1", "base_digest": "sha256:2", "image_id": "sha256:3"}
FAILED = RunState("failed", "build_failed", "container build ended with exit code 1")


def outcome(state, payload, log=b"", problem=None):
    return build_outcome(SPEC, state, Frame(payload, problem), log)


def test_a_finished_build():
    packages = base64.b64encode(b"@pip\nx 1\n").decode()
    found = outcome(RunState("succeeded"), {**DONE, "packages": packages}, b"STEP 1\n")
    assert (found["reason"], found["digest"], found["base_digest"]) == (None, "sha256:1", "sha256:2")
    assert (found["image"], found["spec_hash"], found["image_id"]) == (SPEC.reference, SPEC.spec_hash, "sha256:3")
    assert found["packages"]["pip"] == [{"name": "x", "version": "1"}]
    assert (found["log"], found["log_truncated"]) == ("STEP 1\n", 0)


@pytest.mark.parametrize(
    ("state", "payload", "log", "reason"),
    [
        (FAILED, {"stage": "build"}, b"Error: exit status 3", "build_failed"),
        (FAILED, {"stage": "prepare"}, b"mkdir: no space", "build_failed"),
        (FAILED, {"stage": "pull"}, b"Error: manifest unknown", "image_pull"),
        (FAILED, {"stage": "push"}, b"Error: unauthorized", "push_failed"),
        (FAILED, {"stage": "build", "oom_kill": 2}, b"Killed", "oom"),
        (FAILED, {"stage": "build"}, b"Error: creating build container: docker://r/x: 404", "image_pull"),
        (FAILED, {"stage": "build"}, b"Error: creating build container: no space left", "build_failed"),
        (FAILED, None, b"", "build_failed"),
        (FAILED, DONE, b"", None),
        (RunState("failed", "timeout", "too long"), {"stage": "push", "terminated": True}, b"Error: x", "timeout"),
        (RunState("failed", "evicted", "disk"), None, None, "evicted"),
        (RunState("succeeded"), None, b"", "lost_result"),
        (RunState("succeeded"), {"stage": "push"}, b"", "lost_result"),
    ],
)
def test_reasons(state, payload, log, reason):
    assert outcome(state, payload, log)["reason"] == reason


BUILT = {"stage": "built", "exit_code": 0, "image_id": "sha256:3", "packages": "", "oom_kill": 0, "digest": ""}


@pytest.mark.parametrize(
    ("build", "push", "state", "reason", "digest"),
    [
        (BUILT, {**DONE, "image_id": ""}, RunState("succeeded"), None, "sha256:1"),
        (BUILT, {"stage": "push", "exit_code": 1}, FAILED, "push_failed", None),
        (BUILT, None, FAILED, "push_failed", None),
        (BUILT, None, RunState("succeeded"), "lost_result", None),
        (BUILT, None, RunState("failed", "evicted", "disk"), "evicted", None),
        (BUILT, {"stage": "push", "exit_code": 137, "oom_kill": 1}, FAILED, "oom", None),
        ({"stage": "build", "exit_code": 1}, None, FAILED, "build_failed", None),
        ({"stage": "build", "exit_code": 1}, DONE, FAILED, "build_failed", None),
        (DONE, None, RunState("succeeded"), None, "sha256:1"),
    ],
)
def test_what_the_two_containers_say_becomes_one_answer(build, push, state, reason, digest):
    joined = joined_frames(Frame(build), None if push is None else Frame(push))
    found = build_outcome(SPEC, state, joined, b"")
    assert (found["reason"], found["digest"]) == (reason, digest)
    if build == BUILT:
        assert found["image_id"] == "sha256:3"


def test_the_message_is_the_error_of_the_log_or_what_the_run_says():
    log = b"STEP 1\nError: building at STEP: exit status 3\nsome cleanup\n"
    assert outcome(FAILED, {"stage": "build"}, log)["message"] == "Error: building at STEP: exit status 3"
    assert outcome(FAILED, None)["message"] == FAILED.message
    assert outcome(RunState("succeeded"), None, b"", "its end is missing")["message"] == "its end is missing"


def test_a_long_log_keeps_its_end_and_says_how_much_was_dropped():
    text, dropped = log_text(b"x" * LOG_BYTES + b"end")
    assert (len(text), dropped, text[-3:]) == (LOG_BYTES, 3, "end")
    assert log_text(None) == ("", 0)
    assert log_text(b"\xff") == ("\N{REPLACEMENT CHARACTER}", 0)


def test_the_frame_is_no_part_of_the_log():
    frame = b"-----BEGIN MUSTER RESULT v1 2 aa-----\ne30=\n-----END MUSTER RESULT-----\n"
    assert log_text(b"STEP\n" + frame) == ("STEP\n", 0)


def test_the_last_error_of_a_log():
    assert last_error("a\nerror: one\nERROR two\nb\n") == "ERROR two"
    assert last_error("a\nb\n\n") == "b"
    assert last_error("mirrored terrors") == "mirrored terrors"
    assert last_error("") == ""


def test_damaged_package_lists_are_no_packages():
    assert outcome(RunState("succeeded"), {**DONE, "packages": "!"})["packages"]["pip"] is None


@pytest.mark.parametrize(
    ("told", "found"), [("2026-11-16T03:59:29Z", "2026-11-16T03:59:29Z"), ("now", None), (7, None)]
)
def test_only_a_time_is_when_the_image_was_made(told, found):
    assert outcome(RunState("succeeded"), {**DONE, "created": told})["created"] == found


def test_a_log_is_kept_up_to_a_quarter_of_a_mebibyte():
    assert log_text(b"x" * 262_144)[1] == 0
    assert log_text(b"x" * 262_145)[1] == 1
