# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What image_build_info tells: finished, failed and running builds."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.info import BuildInfoOptions, answer_builds
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildFailed, BuildOptions, run_build
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack
from ansible_collections.muster.kube.tests.support.build_frames import DONE, framed
from ansible_collections.muster.kube.tests.support.job_api import JOBS, JobApi

SPEC = BuildSpec(Stack("debian:12"), "r.example.com/x", "ab" * 32)


@pytest.fixture
def api():
    """One finished build, one that failed, one that runs, in this order of tags."""
    made = JobApi()
    terms = BuildOptions(namespace="team", script="s", settings=BuildSettings(tier="baseline"))

    def run(tag, **changes):
        spec = dataclasses.replace(SPEC, tag=tag)
        run_build(made.client, dataclasses.replace(terms, spec=spec, **changes), lambda _text: None, listen=made.listen)

    made.steps = [lambda: made.succeed(framed(DONE))]
    run("done")
    made.steps = [lambda: made.fail(framed({"stage": "build"}, b"Error: bad\n"), "p-1")]
    with pytest.raises(BuildFailed):
        run("failed")
    run("running", wait=False)
    made.run_pod("p-2")
    return made


def asked(api, **question):
    client = api.client()
    before = len(api.writes)
    found = answer_builds(client, BuildInfoOptions(**question))["builds"]
    assert len(api.writes) == before
    return {entry["image"].rpartition(":")[2]: entry for entry in found}


def test_all_builds_with_phase_and_outcome(api):
    found = asked(api, namespace="team")
    assert {tag: entry["phase"] for tag, entry in found.items()} == {
        "done": "succeeded",
        "failed": "failed",
        "running": "running",
    }
    assert found["done"]["outcome"]["digest"] == "sha256:1"
    assert found["done"]["specification"] == {"base": "debian:12"}
    assert found["done"]["finished"] == "2026-11-16T04:00:00Z"
    assert (found["failed"]["reason"], found["failed"]["message"]) == ("build_failed", "Error: bad")
    assert (found["running"]["outcome"], found["running"]["finished"]) == (None, None)


def test_a_build_without_a_job_waits_for_its_task(api):
    for path in [path for path in api.objects if path.startswith(JOBS)]:
        del api.objects[path]
    assert asked(api, namespace="team")["running"]["message"] == "it has no Job; run the task again"


@pytest.mark.parametrize(
    ("question", "tags"),
    [
        ({"image": "r.example.com/x:done"}, {"done"}),
        ({"image": "r.example.com/x"}, {"done", "failed", "running"}),
        ({"image": "r.example.com/y"}, set()),
        ({"spec_hash": "abab"}, {"done", "failed", "running"}),
        ({"spec_hash": "cd"}, set()),
        ({"name": dataclasses.replace(SPEC, tag="failed").name}, {"failed"}),
    ],
)
def test_questions(api, question, tags):
    assert set(asked(api, **question)) == tags


def test_logs_on_request_only(api):
    assert asked(api)["done"]["outcome"]["log"] == "STEP 1\n"
    assert "log" not in asked(api, log=False)["done"]["outcome"]


def test_a_damaged_record_is_told_and_hurts_no_other(api):
    name = next(path for path in api.objects if "/configmaps/build-" in path and "-c0-" not in path)
    api.objects[name]["data"]["attempt"] = "many"
    found = answer_builds(api.client(), BuildInfoOptions())["builds"]
    assert len(found) == 3
    (damaged,) = [entry for entry in found if entry["problem"] is not None]
    assert "data.attempt" in damaged["problem"]
    assert all(set(entry) == set(damaged) for entry in found)
