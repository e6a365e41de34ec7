# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known about inspections, beyond what the flow's own tests look at."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.info import (
    InspectionInfoOptions,
    answer_inspections,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import (
    create_owned_map,
    decode_record,
    new_record,
)
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, JobApi

LABEL = "muster.kube/inspection"


@pytest.fixture
def api():
    return JobApi()


def put_record(api, name, spec=None, **data):
    record = new_record("team", name, {LABEL: name}, spec or {"run": {}, "script": "x"}, "hash", None)
    record["data"] |= data
    return api.put(f"{MAPS}/{name}", record)


def ask(api, **question):
    return answer_inspections(api.client(), InspectionInfoOptions(**question))["inspections"]


def test_others_are_not_told(api):
    put_record(api, "inspection-a")
    put_record(api, "inspection-b")
    assert [entry["inspection_id"] for entry in ask(api)] == ["inspection-a", "inspection-b"]
    assert [entry["inspection_id"] for entry in ask(api, inspection_id="inspection-b")] == ["inspection-b"]


def test_one_without_a_job_waits_for_its_task(api):
    put_record(api, "inspection-a")
    (told,) = ask(api)
    assert (told["phase"], told["message"]) == ("Pending", "it has no Job; run the task again")


def test_a_pod_that_runs_shows_its_log(api):
    made = put_record(api, "inspection-a")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "inspection-a", "uid": made["metadata"]["uid"]}
    job = {"kind": "Job", "metadata": {"name": "inspection-a", "namespace": "team", "ownerReferences": [owner]}}
    api.put(f"{JOBS}/inspection-a", job)
    api.run_pod(containerStatuses=[{"name": "run", "state": {"running": {"startedAt": "2026-11-16T04:00:00Z"}}}])
    api.logs["p-0"] = b"so far"
    (told,) = ask(api, logs=True)
    assert told["phase"] == "Running"
    assert told["logs"]["runs"][0]["pod"] == "p-0"
    assert "so far" in told["logs"]["runs"][0]["stdout"]
    assert ask(api)[0]["logs"] is None


def test_stored_results_are_told_with_their_failure(api):
    outcome = {"items": [], "placements": [], "reason": "quota", "message": "exceeded quota"}
    put_record(api, "inspection-a", outcome=canonical_json(outcome), finished="1794801600")
    (told,) = ask(api)
    assert (told["phase"], told["reason"], told["message"]) == ("Failed", "quota", "exceeded quota")
    assert told["finished"].startswith("2026-")
    assert api.writes == []


def test_the_build_behind_the_image_is_told(api):
    build = {"spec_hash": "s" * 64, "image": "r/x:1", "image_digest": None, "dockerfile": "FROM b"}
    put_record(api, "inspection-a", {"run": {}, "script": "x", "build": build})
    spec = {"image": "r/x:1", "spec_hash": "s" * 64, "stack": {"base": "b"}}
    record = new_record("team", "build-a", {"muster.kube/build": "h"}, spec, "hash", None)
    record["data"]["outcome"] = canonical_json({"reason": None, "log": "STEP 1"})
    api.put(f"{MAPS}/build-a", record)
    (told,) = ask(api, logs=True)
    assert told["status"]["build"]["phase"] == "succeeded"
    assert told["specification"]["stack"] == {"base": "b"}
    assert told["logs"]["build"] == "STEP 1"
    assert ask(api)[0]["status"]["build"]["outcome"] == {"reason": None}


def put_stacks(api, count):
    """As many inspections that are over, each with a build of its own, made one after the other."""
    for number in range(count):
        build = {"spec_hash": f"{number:064}", "image": f"r/x:{number}", "image_digest": None, "dockerfile": "FROM b"}
        outcome = {"items": [], "placements": [], "reason": None if number % 2 else "oom", "message": ""}
        made = put_record(
            api, f"inspection-{number:03}", {"run": {}, "script": "x", "build": build}, outcome=canonical_json(outcome)
        )
        made["metadata"]["creationTimestamp"] = f"2026-11-16T{number // 60:02}:{number % 60:02}:00Z"
        spec = {"image": f"r/x:{number}", "spec_hash": f"{number:064}", "stack": {"base": f"b{number}"}}
        record = new_record("team", f"build-{number:03}", {"muster.kube/build": f"{number:020}"}, spec, "hash", None)
        record["data"]["outcome"] = canonical_json({"reason": None, "log": "STEP 1"})
        api.put(f"{MAPS}/build-{number:03}", record)


@pytest.mark.parametrize("count", [1, 50, 200])
def test_the_builds_of_all_inspections_are_listed_once(api, count):
    put_stacks(api, count)
    told = ask(api)
    assert [entry["specification"]["stack"] for entry in told] == [{"base": f"b{number}"} for number in range(count)]
    assert len(api.asked) == 2


def test_without_builds_none_are_listed(api):
    put_record(api, "inspection-a", outcome=canonical_json({"items": [], "reason": None, "message": ""}))
    ask(api)
    assert len(api.asked) == 1


def test_those_of_a_phase_are_told_and_the_latest_of_them(api):
    put_stacks(api, 10)
    assert {entry["phase"] for entry in ask(api, phases=frozenset({"Failed"}))} == {"Failed"}
    latest = ask(api, phases=frozenset({"Failed"}), limit=2)
    assert [entry["inspection_id"] for entry in latest] == ["inspection-006", "inspection-008"]
    assert [entry["created"] for entry in latest] == ["2026-11-16T00:06:00Z", "2026-11-16T00:08:00Z"]


def test_scripts_and_parts_of_results_are_not_read_to_list_inspections(api):
    record = decode_record(put_record(api, "inspection-a"))
    create_owned_map(api.client(), record, "inspection-a-c", {"script": "x" * 1000}, {})
    listed = []
    answer = api.answer
    api.answer = lambda *request: listed.append(answer(*request)) or listed[-1]
    ask(api)
    assert [item["metadata"]["name"] for item in listed[0][1]["items"]] == ["inspection-a"]


@pytest.mark.parametrize(
    "data",
    [
        {"attempt": "zero"},
        {"attempt": "9" * 400},
        {"spec": "[]"},
        {"spec": "{"},
        {"outcome": "[1]"},
        {"outcome": '{"chunks": 5}'},
        {"outcome": '{"items": 5, "reason": null}'},
        {"outcome": '{"items": [5], "reason": null}'},
        {"outcome": '{"items": [{"index": 0, "stdout": "", "stderr": "", "hwinfo": {}, "wall_seconds": "fast"}]}'},
        {"outcome": '{"items": [{"index": 0}]}'},
        {"outcome": '{"items": [], "reason": 7}'},
        {"finished": "nan"},
        {"ttl": "1e400"},
    ],
)
def test_a_damaged_record_hurts_only_itself(api, data):
    good = {"items": [], "placements": [], "reason": None, "message": ""}
    put_record(api, "inspection-a", outcome=canonical_json(good))
    put_record(api, "inspection-b", **data)
    put_record(api, "inspection-c", {"run": [], "script": 5, "build": 7}, outcome=canonical_json(good))
    told = {entry["inspection_id"]: entry for entry in ask(api)}
    assert list(told) == ["inspection-a", "inspection-b", "inspection-c"]
    assert (told["inspection-a"]["phase"], told["inspection-a"]["problem"]) == ("Succeeded", None)
    assert "inspection-b" in told["inspection-b"]["problem"]
    assert set(told["inspection-b"]) == set(told["inspection-a"])
