# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cycle reads: which objects and tickets are a gang's own, and which are taken for gone."""

from __future__ import annotations

import copy
import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.world import read_tickets, read_world
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    is_kept,
    owned_by_record,
    plan_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, add_record, set_phase, start
from ansible_collections.muster.kube.tests.support.kind_cases import KIND_CASES
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, discovery

JOBS = "/apis/batch/v1/namespaces/team/jobs"
BOTH = (job("one", 2), job("two", 1))


@pytest.fixture
def api():
    return WritableApi()


def begin(api, phase="dispatched", objects=BOTH):
    """A gang that was started and is in this phase; its record and its ticket, which owns what is not kept."""
    record = add_record(api, "gang", "queued", objects=list(objects))
    owned = tuple(obj for obj in record.spec.objects if not is_kept(obj))
    ticket = start(api, dataclasses.replace(record, spec=dataclasses.replace(record.spec, objects=owned)))
    del api.objects["/api/v1/namespaces/team/pods/p"]
    set_phase(api, phase, "gang", ticket_uid=ticket["metadata"]["uid"])
    return record_from_api(api.objects[f"{RECORDS}/gang"]), ticket


def read(api, record, *namespaces):
    """The world as one cycle reads it."""
    client, places = api.client(), ("team", *namespaces)
    tickets = read_tickets(client, [record], places)
    return read_world(client, [record], DispatchOptions(namespaces=places), Memory(), tickets, places=places)


def names(found):
    """Names by place, None for what is gone."""
    return {index: obj and obj["metadata"]["name"] for index, obj in found.items()}


@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_objects_of_started_gangs_are_found_or_gone(api, phase):
    record, _ticket = begin(api, phase)
    assert names(read(api, record).items[record.uid]) == {0: "one", 1: "two"}
    del api.objects[f"{JOBS}/one"]
    assert names(read(api, record).items[record.uid]) == {0: None, 1: "two"}


def test_before_all_objects_exist_none_of_them_is_gone(api):
    record, _ticket = begin(api, "dispatching")
    del api.objects[f"{JOBS}/two"]
    assert names(read(api, record).items[record.uid]) == {0: "one"}


def test_what_existed_when_the_start_had_to_wait_can_be_gone(api):
    record, _ticket = begin(api, "dispatching")
    record = dataclasses.replace(record, state=dataclasses.replace(record.state, made=1))
    del api.objects[f"{JOBS}/one"], api.objects[f"{JOBS}/two"]
    assert names(read(api, record).items[record.uid]) == {0: None}


def test_an_equal_object_of_another_namespace_is_somebody_elses(api):
    record, _ticket = begin(api)
    twin = copy.deepcopy(api.objects.pop(f"{JOBS}/one"))
    twin["metadata"]["namespace"] = "other"
    api.put("/apis/batch/v1/namespaces/other/jobs/one", twin)
    assert names(read(api, record, "other").items[record.uid]) == {0: None, 1: "two"}


@pytest.mark.parametrize("owner", [None, "uid-of-another-ticket", "record"])
def test_an_object_that_the_ticket_does_not_own_is_somebody_elses(api, owner):
    record, _ticket = begin(api)
    owners = [] if owner is None else [{"kind": "ConfigMap", "uid": record.uid if owner == "record" else owner}]
    api.objects[f"{JOBS}/one"]["metadata"]["ownerReferences"] = owners
    assert names(read(api, record).items[record.uid]) == {0: None, 1: "two"}


def test_kept_objects_belong_to_the_record(api):
    kept = job("one", 2)
    kept["metadata"]["annotations"] = {"muster.kube/keep": "true"}
    record, _ticket = begin(api, objects=(kept, BOTH[1]))
    api.put(f"{JOBS}/one", owned_by_record(plan_objects(record.spec, record.uid, 1)[0].object, record.raw))
    assert names(read(api, record).items[record.uid]) == {0: "one", 1: "two"}


def test_a_state_that_names_no_ticket_tells_of_no_object(api):
    record, _ticket = begin(api)
    set_phase(api, "running", "gang")
    record = record_from_api(api.objects[f"{RECORDS}/gang"])
    assert read(api, record).items[record.uid] == {}


def test_a_ticket_of_another_namespace_is_not_the_records(api):
    record, ticket = begin(api)
    forged = copy.deepcopy(ticket)
    forged["metadata"].update(namespace="other", uid="forged")
    api.put("/api/v1/namespaces/other/configmaps/forged", forged)
    found = read(api, record, "other").tickets[record.uid]
    assert [item["metadata"]["uid"] for item in found] == [ticket["metadata"]["uid"]]


def owned(kind, name, owner):
    """An object that another one owns, without any label of ours; its uid is its name."""
    metadata = {"name": name, "namespace": "team", "uid": name, "ownerReferences": [{"uid": owner}]}
    return {"kind": kind, "metadata": metadata, "spec": {"containers": [{"name": "main"}]}}


@pytest.mark.parametrize(
    ("kind", "between", "pods"),
    [
        # A RayJob owns the Job that submits it.
        ("RayJob", [owned("Job", "submitter", "item")], [owned("Pod", "submits", "submitter")]),
        # The driver of a SparkApplication owns its executors.
        ("SparkApplication", [], [owned("Pod", "driver", "item"), owned("Pod", "executor", "driver")]),
        # A TrainJob owns a JobSet, which owns the Job of its nodes.
        (
            "TrainJob",
            [owned("JobSet", "set", "item"), owned("Job", "nodes", "set")],
            [owned("Pod", "node", "nodes")],
        ),
    ],
)
def test_pods_without_our_label_are_found_through_the_objects_between(api, kind, between, pods):
    (item,) = [case.object for case in KIND_CASES if case.object["kind"] == kind]
    plain = {**item, "metadata": {"name": "x"}}
    add_record(api, "gang", "dispatched", objects=[plain])
    api.fixed[("GET", "/apis/jobset.x-k8s.io/v1alpha2")] = [(200, discovery(JobSet=("jobsets", True)))]
    folders = {"Job": JOBS, "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets"}
    for obj in (*between, *pods):
        folder = folders.get(obj["kind"], "/api/v1/namespaces/team/pods")
        api.put(f"{folder}/{obj['metadata']['name']}", copy.deepcopy(obj))
    world = read(api, record_from_api(api.objects[f"{RECORDS}/gang"]))
    found = {pod.name for pod in world.pods.by_owner[("team", "item")]}
    assert found == {pod["metadata"]["name"] for pod in pods}


def test_owners_of_a_kind_that_the_server_does_not_serve_are_none(api):
    (item,) = [case.object for case in KIND_CASES if case.object["kind"] == "TrainJob"]
    add_record(api, "gang", "dispatched", objects=[{**item, "metadata": {"name": "x"}}])
    api.put("/api/v1/namespaces/team/pods/node", owned("Pod", "node", "nodes"))
    world = read(api, record_from_api(api.objects[f"{RECORDS}/gang"]))
    assert set(world.pods.by_owner) == {("team", "nodes")}
