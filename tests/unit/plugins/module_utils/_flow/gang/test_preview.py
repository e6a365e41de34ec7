# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode: everything is told, nothing is written."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.preview import preview
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import Stores, read_wanted
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import Refused, find_gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import ticket_name
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import job, node
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, TRAIN, add_record, gang, terms
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

JOBS = "/apis/batch/v1/namespaces/team/jobs"


@pytest.fixture
def api():
    """A server with one node of four cpus."""
    server = WritableApi()
    server.put("/api/v1/nodes/n1", node("n1", cpu="4", memory="8Gi"))
    return server


def look(api, *gangs, **options):
    """What check mode says about these gangs, one entry each."""
    asked = terms(*gangs, check_mode=True, **options)
    client = api.client()
    stores = Stores(client, asked.store)
    wanted = read_wanted(asked)
    outcomes = preview(client, asked, wanted, [find_gang(client, stores, item) for item in wanted])
    assert api.writes == []
    return [outcome.as_result() for outcome in outcomes]


def test_a_new_gang(api):
    (told,) = look(api)
    assert (told["action"], told["changed"], told["phase"], told["position"]) == ("created", True, "queued", 1)
    assert told["verdict"]["answer"] == "fits"
    assert "fits now" in told["verdict_text"]
    (entry,) = told["would_create"]
    assert (entry["kind"], entry["name"], entry["error"]) == ("Job", "train", None)
    assert entry["object"]["metadata"]["labels"]["muster.kube/attempt"] == "1"
    assert told["not_checked"] == []


def test_gangs_take_room_from_each_other_in_order(api):
    three = job("three", 3, requests={"cpu": "1"})
    first, second = look(api, gang(), gang(definition=three))
    assert (first["verdict"]["answer"], second["verdict"]["answer"]) == ("fits", "waits")
    assert (first["position"], second["position"]) == (1, 2)
    assert "short" in second["verdict_text"]


def test_the_place_counts_who_waits_already(api):
    add_record(api, "before")
    add_record(api, "running", phase="running")
    assert look(api)[0]["position"] == 2
    assert look(api, gang(priority=1))[0]["position"] == 1


def test_a_changed_gang_keeps_its_place(api):
    add_record(api, created="2026-11-16T01:00:00Z")
    add_record(api, "later", created="2026-11-16T02:00:00Z")
    (told,) = look(api, gang(ttl="1h"))
    assert (told["action"], told["position"]) == ("changed", 1)


def test_unless_it_grew(api):
    add_record(api, created="2026-11-16T01:00:00Z")
    add_record(api, "later", created="2026-11-16T02:00:00Z")
    (told,) = look(api, gang(definition=job("train", 3, requests={"cpu": "1"})))
    assert (told["action"], told["position"]) == ("changed", 2)


def test_a_running_gang_as_wanted(api):
    add_record(api, phase="running")
    (told,) = look(api)
    assert (told["action"], told["changed"], told["phase"]) == ("unchanged", False, "running")
    assert "would_create" not in told


def test_what_a_real_run_refuses_is_refused(api):
    add_record(api, phase="running")
    with pytest.raises(Refused, match="use replace: true"):
        look(api, gang(priority=1))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    with pytest.raises(BadInput, match="create the Secret beforehand"):
        look(api, gang(definition=[TRAIN, secret], name="other"))


def test_what_runs_and_would_be_replaced_is_judged_anew(api):
    add_record(api, phase="running")
    (told,) = look(api, gang(priority=1), replace=True)
    assert (told["action"], told["phase"], told["position"]) == ("recreated", "queued", 1)


def test_what_would_be_removed_first_is_in_nobodys_way(api):
    record = add_record(api, phase="running")
    ticket = {"apiVersion": "v1", "kind": "ConfigMap", "name": ticket_name(record.uid, 1), "uid": "of-the-ticket"}
    labels = {"muster.kube/gang": record.uid, "muster.kube/attempt": "1"}
    api.put(f"{JOBS}/train", {**TRAIN, "metadata": {"name": "train", "labels": labels, "ownerReferences": [ticket]}})
    (told,) = look(api, gang(priority=1), replace=True)
    assert [(entry["name"], entry["object"], entry["error"]) for entry in told["would_create"]] == [
        ("train", None, None)
    ]


def test_one_that_is_being_started_would_be_waited_for(api):
    add_record(api, phase="dispatching")
    (told,) = look(api, gang(priority=1))
    assert "a real run waits" in told["message"]


def test_what_the_server_refuses_is_shown_with_the_object(api):
    api.fixed[("POST", JOBS)] = [refused(403, "Forbidden", "no right to create jobs")]
    (entry,) = look(api)[0]["would_create"]
    assert entry["object"] is None
    assert "no right to create jobs" in entry["error"]


def test_what_cannot_be_pretended_is_said(api):
    api.fixed[("POST", JOBS)] = [refused(400, "BadRequest", "admission webhook does not support dry run")]
    (told,) = look(api)
    assert told["not_checked"] == ["Job team/train: admission webhook does not support dry run"]
    assert told["would_create"][0]["error"] is None


def test_a_kind_the_server_does_not_know(api):
    ray = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    podsets = [{"count": 1, "requests": {"cpu": "1"}}]
    (told,) = look(api, gang(definition=ray, podsets=podsets))
    expected = "Widget team/w: the server does not serve example.com/v1 Widget; install its CRD and try again"
    assert told["would_create"][0]["error"] == expected


def test_a_gang_without_pods_has_no_verdict(api):
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    (told,) = look(api, gang(definition=settings, name="podless"))
    assert (told["verdict"], told["position"]) == (None, 1)


def test_a_namespace_that_is_not_there_yet(api):
    (told,) = look(api, gang(namespace="new"))
    assert (told["action"], told["verdict"], told["would_create"]) == ("created", None, [])
    assert "namespace new does not exist" in told["message"]


def test_a_suspended_gang_needs_no_room(api):
    (told,) = look(api, state="suspended")
    assert (told["action"], told["verdict"], told["position"]) == ("created", None, None)


def test_a_suspended_gang_that_is_to_go_on_is_judged_like_any_other(api):
    add_record(api, phase="suspended", suspended=True)
    (told,) = look(api)
    assert (told["action"], told["verdict"]["answer"], told["position"]) == ("changed", "fits", 1)
    assert [(entry["name"], entry["error"]) for entry in told["would_create"]] == [("train", None)]


CLAIM = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "c", "annotations": {"muster.kube/keep": "true"}},
}


def test_a_kept_object_of_the_gang_is_no_trouble(api):
    record = add_record(api, objects=[TRAIN, CLAIM])
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "train", "uid": record.uid}
    api.put(f"{RECORDS}/c", {**CLAIM, "metadata": {**CLAIM["metadata"], "ownerReferences": [owner]}})
    (told,) = look(api, gang(definition=[TRAIN, CLAIM]))
    assert [(entry["name"], entry["error"]) for entry in told["would_create"]] == [("train", None), ("c", None)]


def test_an_object_that_somebody_else_has_is_named_with_its_owner(api):
    api.put(f"{RECORDS}/c", CLAIM)
    (told,) = look(api, gang(definition=[TRAIN, CLAIM]))
    (entry,) = [item for item in told["would_create"] if item["name"] == "c"]
    assert entry["object"] is None
    assert entry["error"].startswith("ConfigMap team/c belongs to ")


def test_a_reference_to_an_earlier_object_of_the_gang_is_not_checked(api):
    api.fixed[("POST", JOBS)] = [refused(403, "Forbidden", 'configmap "settings" not found')]
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
    (told,) = look(api, gang(definition=[settings, TRAIN], name="g"))
    assert [entry["error"] for entry in told["would_create"]] == [None, None]
    assert [text.partition(":")[0] for text in told["not_checked"]] == ["Job team/train"]
