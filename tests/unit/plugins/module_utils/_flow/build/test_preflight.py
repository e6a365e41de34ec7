# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tier works: tried from the strictest on, remembered, and each failure named."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.build.preflight import NoTier
from ansible_collections.muster.kube.plugins.module_utils._flow.build.run import BuildOptions, run_build
from ansible_collections.muster.kube.plugins.module_utils._model.image.build import BuildSettings, BuildSpec
from ansible_collections.muster.kube.plugins.module_utils._model.image.stack import Stack
from ansible_collections.muster.kube.tests.support.build_frames import DONE, framed
from ansible_collections.muster.kube.tests.support.job_api import JOBS, JobApi
from ansible_collections.muster.kube.tests.support.writable_api import refused

SPEC = BuildSpec(Stack("debian:12"), "r.example.com/x", "ab" * 32)
TERMS = BuildOptions(namespace="team", spec=SPEC, script="#!/bin/sh\n")


@pytest.fixture
def api():
    return JobApi()


def run(api, **changes):
    replaced = dataclasses.replace(TERMS, **changes)
    return run_build(api.client, replaced, lambda _text: None, listen=api.listen)


def test_the_strictest_tier_that_works_is_chosen_and_remembered(api):
    def refuse():
        api.fail(framed({"stage": "build", "exit_code": 1}, b"Error: operation not permitted\n"))

    api.steps = [refuse, lambda: api.succeed(framed(DONE), "p-1"), lambda: api.succeed(framed(DONE), "p-2")]
    settings = BuildSettings()
    result = run(api, settings=settings)
    assert (result["tier"], result["tiers_refused"]) == ("baseline", {"userns": "Error: operation not permitted"})
    other = dataclasses.replace(SPEC, tag="2")
    api.steps = [lambda: api.succeed(framed(DONE), "p-3")]
    again = run(api, settings=settings, spec=other)
    assert (again["tier"], again["tiers_refused"]) == ("baseline", result["tiers_refused"])


def test_when_no_tier_works_each_is_named_with_its_cause(api):
    def refuse(number):
        return lambda: api.fail(framed({"stage": "build"}, f"Error: no {number}\n".encode()), f"p-{number}")

    api.steps = [refuse(number) for number in range(3)]
    with pytest.raises(NoTier) as caught:
        run(api, settings=BuildSettings())
    result = caught.value.as_result()
    assert (result["reason"], list(result["tiers_refused"])) == (
        "build_failed",
        ["userns", "baseline", "unconfined", "privileged"],
    )
    assert "unconfined: Error: no 2" in result["msg"]
    assert "privileged: it is not tried unless the option tier asks for it" in result["msg"]
    assert not any("build-probe-privileged" in path for path in api.objects)


def test_what_one_node_refused_is_tried_again_by_force(api):
    api.steps = [lambda: api.fail(framed({"stage": "build"}, b"Error: odd node\n"))]
    api.steps += [lambda: api.succeed(framed(DONE), "p-1"), lambda: api.succeed(framed(DONE), "p-2")]
    assert run(api, settings=BuildSettings())["tier"] == "baseline"
    api.steps = [lambda: api.succeed(framed(DONE), "p-3"), lambda: api.succeed(framed(DONE), "p-4")]
    assert run(api, settings=BuildSettings(), force=True)["tier"] == "userns"


def test_a_privileged_pod_can_be_asked_for(api):
    api.steps = [lambda: api.succeed(framed(DONE))]
    assert run(api, settings=BuildSettings(tier="privileged"))["tier"] == "privileged"


def test_a_probe_that_finds_no_room_says_nothing_about_the_tier(api):
    api.steps = [lambda: api.fail(code=137, reason="OOMKilled")]
    with pytest.raises(NoTier) as caught:
        run(api, settings=BuildSettings())
    assert caught.value.as_result()["reason"] == "oom"
    api.steps = [lambda: api.succeed(framed(DONE), "p-1"), lambda: api.succeed(framed(DONE), "p-2")]
    assert run(api, settings=BuildSettings())["tier"] == "userns"


def test_in_the_network_of_the_node_there_is_no_user_namespace(api):
    api.steps = [lambda: api.succeed(framed(DONE)), lambda: api.succeed(framed(DONE), "p-1")]
    result = run(api, settings=BuildSettings(host_network=True))
    assert result["tier"] == "baseline"
    assert "user namespace" in result["tiers_refused"]["userns"]


def test_a_server_that_does_not_know_user_namespaces_refuses_that_tier(api):
    answers = [refused(422, "Invalid", "unknown field hostUsers")]
    original = api.answer

    def answer(method, url, body):
        if method == "POST" and url.startswith(JOBS) and "hostUsers" in str(body):
            return answers[0]
        return original(method, url, body)

    api.answer = answer
    api.steps = [lambda: api.succeed(framed(DONE)), lambda: api.succeed(framed(DONE), "p-1")]
    result = run(api)
    assert result["tier"] == "baseline"
    assert "unknown field hostUsers" in result["tiers_refused"]["userns"]
    assert not any("build-probe-userns" in path for path in api.objects)


def test_what_admission_refused_is_tried_again(api):
    message = 'pods "x" is forbidden: violates PodSecurity "baseline:latest"'
    api.steps = [lambda: api.say("FailedCreate", message, api.job())] * 3
    with pytest.raises(NoTier, match="PodSecurity") as caught:
        run(api)
    assert caught.value.as_result()["reason"] == "refused"
    for path in [path for path in api.objects if "/events/" in path]:
        del api.objects[path]
    api.steps = [lambda: api.succeed(framed(DONE)), lambda: api.succeed(framed(DONE), "p-1")]
    assert run(api)["tier"] == "userns"
