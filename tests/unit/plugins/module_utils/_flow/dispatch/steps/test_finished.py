# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finished gangs cost no cycle anything, and no gang is lost because a label says that it is finished."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import ticket_name
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.dispatch_session import (
    CountingApi,
    SmallSession,
    add_ticket,
    finish,
)
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, add_record, set_phase
from ansible_collections.muster.kube.tests.support.writable_api import refused


@pytest.fixture
def api():
    made = CountingApi()
    made.put("/api/v1/nodes/n1", {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {}}})
    return made


def labels(api, name):
    return api.objects[f"{RECORDS}/{name}"]["metadata"]["labels"]


def warm_cycle(count):
    """What a cycle costs with one waiting gang and so many finished ones."""
    api = CountingApi()
    if count:
        finish(api, "over", labelled=True)
        made = [(place, json.dumps(obj)) for place, obj in api.objects.items() if place.startswith(RECORDS)]
        for number in range(1, count):
            for place, text in made:
                copied = json.loads(text)
                copied["metadata"].update(name=f"{copied['metadata']['name']}-{number}", uid=f"{number} {place}")
                api.objects[f"{place}-{number}"] = copied
    add_record(api, "waiting")
    session = SmallSession(api, keep_finished=None, keep_finished_for=None)
    session.cycle()
    return session.cycle()[1]


def test_a_warm_cycle_costs_the_same_however_many_gangs_are_over():
    costs = [warm_cycle(count) for count in (0, 1_000, 5_000)]
    # Some are sent side by side.
    assert [sorted(cost.requests) for cost in costs] == [sorted(costs[0].requests)] * 3
    assert [cost.objects for cost in costs] == [costs[0].objects] * 3


def test_a_gang_that_is_over_gets_its_label_once(api):
    finish(api, "over")
    finish(api, "broken", "failed")
    session = SmallSession(api)
    first, cost = session.cycle()
    assert (first.records, sorted(first.finished.values())) == ({}, ["complete", "failed"])
    assert sum(method == "PUT" for method, _path in cost.requests if "lease" not in _path) == 4
    assert (labels(api, "over")["muster.kube/phase"], labels(api, "broken")["muster.kube/phase"]) == (
        "complete",
        "failed",
    )
    _second, cost = session.cycle()
    assert [item for item in cost.requests if item[0] != "GET"] == []
    assert not any("muster-ticket" in path for _method, path in cost.requests)


def test_a_running_gang_that_is_labelled_as_finished_is_found_by_its_ticket(api):
    """Its room would be given to others, and nobody would look after it."""
    record = add_record(api, "hidden", phase="dispatched")
    add_ticket(api, record)
    raw = api.objects[f"{RECORDS}/hidden"]
    raw["metadata"]["labels"]["muster.kube/phase"] = "complete"
    api.put(f"{RECORDS}/hidden", raw)
    session = SmallSession(api)
    cycle, _cost = session.cycle()
    assert (cycle.records[record.uid].name, cycle.finished) == ("hidden", {})
    assert labels(api, "hidden")["muster.kube/phase"] == cycle.records[record.uid].phase != "complete"


def test_one_without_a_ticket_is_found_when_finished_records_are_looked_for(api):
    add_record(api, "hidden", phase="queued")
    labels(api, "hidden")["muster.kube/phase"] = "failed"
    session = SmallSession(api)
    assert session.cycle()[0].records == {}
    assert labels(api, "hidden")["muster.kube/phase"] == "queued"
    assert [record.name for record in session.cycle()[0].records.values()] == ["hidden"]


def test_a_hidden_record_that_cannot_be_written_is_looked_after_all_the_same(api):
    record = add_record(api, "hidden", phase="dispatched")
    add_ticket(api, record)
    labels(api, "hidden")["muster.kube/phase"] = "complete"
    api.fixed[("PUT", f"{RECORDS}/hidden")] = [refused(403, "Forbidden", "no")]
    cycle, _cost = SmallSession(api).cycle()
    assert record.uid in cycle.records


def test_a_ticket_that_cannot_be_marked_is_asked_about_once(api):
    record = finish(api, "over")
    ticket = f"{RECORDS}/{ticket_name(record.uid, 1)}"
    api.fixed[("PUT", ticket)] = [refused(403, "Forbidden", "no")]
    session = SmallSession(api)
    session.cycle()
    _cycle, cost = session.cycle()
    assert ("GET", f"{RECORDS}/over") not in cost.requests
    assert ("PUT", ticket) not in cost.requests
    assert ticket in api.objects


def test_the_ticket_of_a_gang_that_ends_is_marked(api):
    record = add_record(api, "train", phase="running")
    add_ticket(api, record)
    done = job("train", 2, requests={"cpu": "1"})
    done["metadata"].update(
        namespace="team",
        labels={"muster.kube/gang": record.uid, "muster.kube/attempt": "1"},
        ownerReferences=[{"uid": api.objects[f"{RECORDS}/{ticket_name(record.uid, 1)}"]["metadata"]["uid"]}],
    )
    done["status"] = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
    api.put("/apis/batch/v1/namespaces/team/jobs/train", done)
    set_phase(api, "running", ticket_uid=api.objects[f"{RECORDS}/{ticket_name(record.uid, 1)}"]["metadata"]["uid"])
    SmallSession(api).cycle()
    assert record_from_api(api.objects[f"{RECORDS}/train"]).phase == "complete"
    assert labels(api, "train")["muster.kube/phase"] == "complete"
    assert labels(api, ticket_name(record.uid, 1))["muster.kube/finished"] == "true"


def test_a_run_for_single_gangs_leaves_those_of_others_as_they_are(api):
    finish(api, "theirs")
    _cycle, cost = SmallSession(api, only=frozenset({"mine"})).cycle()
    assert [item for item in cost.requests if item[0] != "GET"] == []
    assert "muster.kube/phase" not in labels(api, "theirs")


def test_a_gang_whose_object_belongs_to_a_finished_one_takes_no_room(api):
    """Its ticket is not read any more, so that the name is found taken only by trying."""
    record = add_record(api, "again")
    session = SmallSession(api)
    why = "name_taken", "Job train belongs to another"
    session.session.memory.note_refused(record, session.session.clock.now(), *why)
    assert session.session.memory.refused(record, session.session.clock.now() + 1) == why
    assert session.session.memory.refused(record, session.session.clock.now() + 11) is None
