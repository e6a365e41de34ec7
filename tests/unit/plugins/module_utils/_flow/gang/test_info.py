# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gang_info tells: filters, timeline, pods, places."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.info import GangInfoOptions, answer_gangs, timeline
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.tests.support.cluster_model import node
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, add_record, serve_wrappers, wrapper
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

NOW = read_time("2026-11-16T04:00:00Z")


@pytest.fixture
def api():
    """A server with gangs in several phases."""
    server = WritableApi()
    add_record(server, "first", queue="research", labels={"team": "a"})
    add_record(server, "second", phase="queued", priority=5)
    add_record(server, "third", phase="running", queue="research")
    return server


def ask(api, **question):
    """Names of the gangs that match."""
    answer = answer_gangs(api.client(), GangInfoOptions(**question))
    assert api.writes == []
    return answer["gangs"]


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ({}, ["first", "second", "third"]),
        ({"name": "first"}, ["first"]),
        ({"namespace": "elsewhere"}, []),
        ({"queue": "research"}, ["first", "third"]),
        ({"phases": frozenset({"queued"})}, ["first", "second"]),
        ({"labels": "team=a"}, ["first"]),
        ({"labels": "team=a", "phases": frozenset({"running"})}, []),
    ],
)
def test_filters(api, question, names):
    assert [gang["name"] for gang in ask(api, **question)] == names


def test_places_count_all_gangs_whatever_was_asked_for(api):
    assert [(gang["name"], gang["position"]) for gang in ask(api)] == [("first", 2), ("second", 1), ("third", None)]
    assert ask(api, name="first")[0]["position"] == 2


def test_what_is_told_of_a_gang(api):
    (gang,) = ask(api, name="third")
    assert (gang["phase"], gang["store"], gang["queue"], gang["attempt"]) == ("running", "configmap", "research", 1)
    assert gang["spec"]["objects"] == [{"apiVersion": "batch/v1", "kind": "Job", "name": "train"}]
    assert gang["spec"]["podsets"] == [{"name": "train", "count": 2, "requests": {"cpu": "1", "pods": "1"}}]
    assert gang["objects"][0]["name"] == "train"
    assert (gang["pods"], gang["restarts"], gang["failure"], gang["problem"]) == ([], 0, None, None)


def test_the_timeline_has_seconds_in_each_phase(api):
    (gang,) = ask(api, name="third")
    assert [(item["phase"], item["seconds"]) for item in gang["timeline"]] == [("queued", 1800.0), ("running", 1800.0)]
    assert gang["timeline"][1]["reason"] == "Because"


def test_the_timeline_tells_what_a_finished_gang_had_waited_for(api):
    wait = {"until": "2026-11-16T03:30:00Z", "answer": "waits", "reason": "insufficient"}
    ended = add_record(api, "ended", phase="complete")
    ended = dataclasses.replace(ended, state=dataclasses.replace(ended.state, waits=(wait,)))
    told = timeline(ended, NOW)
    assert [item["waited_for"] for item in told] == [{"answer": "waits", "reason": "insufficient"}, None]


def test_a_finished_gang_ends_its_timeline(api):
    ended = add_record(api, "ended", phase="complete")
    assert [item["seconds"] for item in timeline(ended, NOW)] == [1800.0, None]


def test_a_broken_record_is_shown_with_its_problem(api):
    api.objects[f"{RECORDS}/first"]["data"]["gang.json"] = "{"
    (gang,) = ask(api, name="first")
    assert (gang["spec"], gang["position"]) == (None, None)
    assert "no JSON" in gang["problem"]


def test_a_forged_verdict_breaks_nothing(api):
    add_record(api, "forged", phase="queued", changes={"verdict": {"gang": 7}})
    (gang,) = ask(api, name="forged")
    assert (gang["verdict"], gang["verdict_text"]) == ({"gang": 7}, None)


def test_wrappers_are_gangs_too(api):
    serve_wrappers(api)
    api.put("/apis/workload.codeflare.dev/v1beta1/namespaces/team/appwrappers/w", wrapper("w", labels={"x": "y"}))
    assert [gang["store"] for gang in ask(api, labels="x=y")] == ["appwrapper"]


def test_an_account_of_one_namespace(api):
    api.fixed[("GET", "/api/v1/configmaps")] = [refused(403, "Forbidden", "no")]
    answer = answer_gangs(api.client(), GangInfoOptions(namespace="team"))
    assert (len(answer["gangs"]), answer["position_scope"]) == (3, "namespace")


def test_what_could_not_be_read_is_noted(api):
    api.fixed[("GET", "/api/v1/namespaces/team/pods")] = [refused(403, "Forbidden", "no")]
    answer = answer_gangs(api.client(), GangInfoOptions())
    assert answer["notes"] == ["this account may not list pods in namespace team"]


def test_the_capacity_of_all_nodes_is_told_when_asked_for(api):
    assert answer_gangs(api.client(), GangInfoOptions())["capacity"] is None
    for name, closed in (("a", False), ("b", False), ("c", True)):
        api.put(f"/api/v1/nodes/{name}", node(name, unschedulable=closed, cpu="8", memory="1Gi"))
    told = answer_gangs(api.client(), GangInfoOptions(capacity=True))
    assert told["capacity"] == {"cpu": "16", "memory": "2Gi", "pods": "220"}
    api.fixed[("GET", "/api/v1/nodes")] = [refused(403, "Forbidden", "no")]
    told = answer_gangs(api.client(), GangInfoOptions(capacity=True))
    assert (told["capacity"], told["notes"]) == (None, ["this account may not list nodes"])
