# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing: the record goes, and everything of the gang with it."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.remove import StillThere, remove_record
from ansible_collections.muster.kube.tests.support.gang_records import RECORDS, TRAIN, add_record, start, terms

PODS = "/api/v1/namespaces/team/pods"
JOB = "/apis/batch/v1/namespaces/team/jobs/train"
# An owner that the collector does not know to be gone.
UNCOLLECTED = {"kind": "ReplicaSet", "name": "train", "uid": "r"}


def remove(api, record, **options):
    """Remove a record; returns warnings and what was reported."""
    client, told = api.client(), []
    asked = terms(state="absent", **options)
    warnings = remove_record(client, record, asked, client.clock() + asked.wait_timeout, told.append)
    return warnings, told


def test_one_write_where_the_collector_works(api):
    record = add_record(api, phase="running")
    start(api, record)
    assert remove(api, record) == ((), [])
    assert api.writes == [("DELETE", f"{RECORDS}/train")]
    assert not [path for path in api.objects if "/team/" in path]


def test_without_waiting_nothing_is_read(api):
    record = add_record(api, phase="running")
    remove(api, record, wait=False)
    assert api.asked == [("DELETE", f"{RECORDS}/train", False)]


def test_pods_are_waited_for_and_told_of(api):
    record = add_record(api, phase="running")
    start(api, record)
    api.objects[f"{PODS}/p"]["metadata"]["ownerReferences"] = [UNCOLLECTED]
    api.on_sleep = lambda: api.objects.pop(f"{PODS}/p", None)
    warnings, told = remove(api, record)
    assert (warnings, told) == ((), ["gang team/train: waiting for pod p to go"])


def test_a_later_object_of_the_same_name_is_nobody_s_business(api):
    record = add_record(api, phase="running")
    start(api, record)
    api.put(JOB, {**TRAIN, "metadata": {"name": "train", "namespace": "team"}})
    api.objects.pop(f"{PODS}/p")
    assert remove(api, record) == ((), [])
    assert JOB in api.objects


def test_a_missing_collector_is_helped_and_told_of(api):
    api.collects = False
    record = add_record(api, phase="running")
    ticket = start(api, record)
    api.objects.pop(f"{PODS}/p")
    warnings, _told = remove(api, record)
    assert "the garbage collector did not act" in warnings[0]
    deleted = [path for method, path in api.writes if method == "DELETE"]
    assert deleted == [f"{RECORDS}/train", f"{RECORDS}/{ticket['metadata']['name']}", JOB]


def test_a_ticket_of_somebody_else_is_left_alone(api):
    api.collects = False
    record = add_record(api, phase="running")
    ticket = start(api, record)
    api.objects.pop(f"{PODS}/p")
    ticket["metadata"]["ownerReferences"] = [{"kind": "ConfigMap", "name": "x", "uid": "foreign"}]
    assert remove(api, record) == ((), [])
    assert f"{RECORDS}/{ticket['metadata']['name']}" in api.objects
    assert JOB in api.objects


def test_a_ticket_under_another_name_is_left_alone(api):
    api.collects = False
    record = add_record(api, phase="running")
    ticket = start(api, record)
    api.objects.pop(f"{PODS}/p")
    del api.objects[f"{RECORDS}/{ticket['metadata']['name']}"]
    ticket["metadata"]["name"] = "forged"
    api.put(f"{RECORDS}/forged", ticket)
    assert remove(api, record) == ((), [])
    assert {f"{RECORDS}/forged", JOB} <= api.objects.keys()


def test_a_pod_that_only_copied_the_label_is_not_waited_for(api):
    record = add_record(api, phase="running")
    start(api, record)
    api.objects[f"{PODS}/p"]["metadata"]["ownerReferences"] = []
    assert remove(api, record) == ((), [])
    assert f"{PODS}/p" in api.objects


def test_what_does_not_go_is_named(api):
    record = add_record(api, phase="running")
    start(api, record)
    api.objects[f"{PODS}/p"]["metadata"]["ownerReferences"] = [UNCOLLECTED]
    with pytest.raises(StillThere, match="Cannot remove gang team/train: still there: pod p"):
        remove(api, record, wait_timeout=30.0)


def test_an_account_that_may_not_list_pods_does_not_wait_for_them(api):
    record = add_record(api, phase="running")
    api.fixed[("GET", PODS)] = [(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})]
    assert remove(api, record) == ((), [])
