# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a started gang goes on with after its record was edited; the rest is shown on a real cluster."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.edits import started_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import new_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    build_ticket,
    owned_by_ticket,
    plan_objects,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.tests.support.dispatch_session import CountingApi, SmallSession
from ansible_collections.muster.kube.tests.support.gang_cases import claim, job, service
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, add_record, set_phase

RESERVED = ({"name": "a", "count": 2, "requests": {"cpu": "1", "pods": "1"}},)
STATE = dataclasses.replace(new_state("2026-01-01T00:00:00Z", "w/1/1", "running"), reserved=RESERVED)


def record(*objects, **options):
    data = {"name": "g", "namespace": "default", "objects": list(objects), **options}
    raw = build_record(read_spec(data, "gang"))
    raw["metadata"].update(uid="u", resourceVersion="1")
    return record_from_api(raw)


def started(edited, *objects):
    sized, _problem = Memory().rough_size(edited)
    return started_spec(edited, STATE, objects, sized)


def test_sizes_are_those_of_the_start_and_other_settings_those_of_now():
    edited = record(job("a", "pool", 9, cpu="7"), max_run_time=60)
    spec = started(edited, job("a", "pool", 2))
    podset = declared_podsets(spec.podsets, namespace="default")[0]
    assert (podset.name, podset.count, podset.requests) == ("a", 2, {"cpu": 1000, "pods": 1})
    assert podset.template["spec"]["nodeSelector"] == {"muster-test/pool": "pool"}
    assert spec.max_run_time == 60


def test_a_podset_that_is_gone_from_the_record_still_counts():
    spec = started(record(job("b", None, 1)), job("a", None, 2))
    assert [(item["name"], item["count"]) for item in spec.podsets] == [("a", 2)]
    assert [obj["metadata"]["name"] for obj in spec.objects] == ["a"]


def test_rules_of_completion_follow_their_object():
    rules = [{"item": 0, "type": "Ready"}, {"item": 1, "type": "Complete"}]
    edited = record(service("new"), job("a", None, 2), completion=rules)
    spec = started(edited, job("a", None, 2))
    assert [(entry["item"], entry["type"]) for entry in spec.completion] == [(0, "Complete")]


def test_without_a_rule_about_what_was_started_the_kinds_decide():
    edited = record(service("new"), completion=[{"item": 0, "type": "Ready"}])
    assert started(edited, job("a", None, 2)).completion is None


def test_never_complete_stays_never():
    assert started(record(job("a", None, 2), completion=[]), job("a", None, 2)).completion == ()


def test_a_record_that_cannot_be_read_goes_on_as_it_was_started():
    raw = record(job("a", None, 2)).raw
    broken = record_from_api({**raw, "data": {"gang.json": "{"}})
    spec = started_spec(broken, STATE, [job("a", None, 2)], None)
    assert (spec.name, spec.namespace, len(spec.objects), len(spec.podsets)) == ("g", "default", 1, 1)


JOBS = "/apis/batch/v1/namespaces/team/jobs"
DONE = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}


def edited_session(*objects, outcomes=None, live=(), now):
    """The session of a gang that was started with some objects, of which some live, and edited to others since."""
    api = CountingApi()
    before = add_record(api, "g", objects=list(objects))
    plan = plan_objects(before.spec, before.uid, 1)
    draft = build_ticket(before.raw, 1, "digest", plan)
    ticket = api.put(f"{RECORDS}/{draft['metadata']['name']}", draft)
    for item in plan:
        if item.key[3] in live:
            owned = owned_by_ticket(item.object, ticket["metadata"]["uid"])
            api.put(f"{JOBS}/{item.key[3]}", {**owned, "status": live[item.key[3]]})
    api.objects[f"{RECORDS}/g"]["data"] = add_record(CountingApi(), "g", objects=list(now)).raw["data"]
    changes = {"ticket_uid": ticket["metadata"]["uid"], "digest": "digest", "outcomes": outcomes or {}}
    set_phase(api, "running", "g", **changes)
    return api, SmallSession(api), before.uid


def phase(api):
    return record_from_api(api.objects[f"{RECORDS}/g"]).phase


@pytest.mark.parametrize(("over", "live", "place"), [("a", "b", 1), ("b", "a", 2)])
def test_outcomes_stay_those_of_their_objects_after_an_edit(over, live, place):
    """The claim is kept from attempt to attempt, so that the ticket does not list it."""
    objects = [claim("data"), job("a", None), job("b", None)]
    api, session, _uid = edited_session(
        *objects, outcomes={place: "succeeded"}, live={live: {}}, now=[job("new", None), job(live, None)]
    )
    for _number in range(2):
        cycle, _cost = session.cycle()
        assert cycle.lost == {}, over
        state = record_from_api(api.objects[f"{RECORDS}/g"]).state
        assert (state.phase, state.outcomes) == ("running", {place: "succeeded"})
    api.objects[f"{JOBS}/{live}"]["status"] = DONE
    session.cycle()
    assert phase(api) == "complete"


def test_a_gang_whose_object_went_before_it_was_seen_to_end_fails_after_an_edit_too():
    _api, session, uid = edited_session(
        claim("data"), job("a", None), job("b", None), outcomes={2: "succeeded"}, now=[job("new", None)]
    )
    cycle, _cost = session.cycle()
    assert cycle.lost == {uid: "Job a"}


def test_an_edited_record_that_nobody_changes_costs_no_request():
    api, session, uid = edited_session(job("a", None), live={"a": {}}, now=[job("new", None)])
    for _number in range(3):
        cycle, cost = session.cycle()
    assert [obj["metadata"]["name"] for obj in cycle.records[uid].spec.objects] == ["a"]
    single = [
        path for method, path in cost.requests if method == "GET" and path.startswith((f"{JOBS}/", f"{RECORDS}/"))
    ]
    assert single == []
    assert f"{RECORDS}/{ticket_name(uid, 1)}" in api.objects
