# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told about each gang."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOutcome, started_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict
from ansible_collections.muster.kube.tests.support.gang_records import TRAIN, add_record, terms


@pytest.mark.parametrize(
    ("options", "goal"),
    [
        ({}, None),
        ({"wait_for": "queued"}, None),
        ({"wait_for": "running"}, "running"),
        ({"wait_for": "running", "wait": False}, None),
        ({"dispatch": True}, "running"),
        ({"dispatch": True, "wait": False}, "running"),
        ({"dispatch": True, "wait_for": "dispatched"}, "dispatched"),
        ({"dispatch": True, "wait_for": "complete"}, "complete"),
        ({"dispatch": True, "wait_for": "queued"}, None),
    ],
)
def test_the_goal(options, goal):
    assert terms(**options).goal == goal


def test_an_entry_of_the_result(api):
    record = add_record(api, phase="running")
    told = GangOutcome("train", "team", "unchanged", record, "configmap").as_result()
    assert (told["uid"], told["phase"], told["attempt"], told["changed"]) == (record.uid, "running", 1, False)
    assert told["objects"] == [{"apiVersion": "batch/v1", "kind": "Job", "namespace": "team", "name": "train"}]
    assert (told["verdict"], told["verdict_text"], told["position"]) == (None, None, None)


def test_a_gang_that_is_gone():
    told = GangOutcome("train", "team", "deleted", None, "configmap").as_result()
    assert (told["uid"], told["phase"], told["objects"], told["changed"]) == (None, None, [], True)


def test_a_waiting_gang_has_no_objects(api):
    assert started_objects(add_record(api, phase="queued")) == []


def test_objects_of_a_record_that_was_edited_into_nonsense_are_not_told(api):
    assert started_objects(add_record(api, phase="running", objects=[TRAIN, TRAIN])) == []


def test_a_damaged_verdict_has_no_text():
    assert text_of_verdict({"gang": "x", "answer": "waits"}) is None
    assert text_of_verdict({"layers": 7, "gang": "x"}) is None


def test_the_difference_shows_the_specification(api):
    before, after = add_record(api, "a").spec, add_record(api, "b", priority=4).spec
    shown = GangOutcome("a", "team", "changed", None, "configmap", before=before, after=after).difference()
    assert shown["before_header"] == "gang team/a"
    assert (shown["before"]["priority"], shown["after"]["priority"]) == (0, 4)
    assert GangOutcome("a", "team", "deleted", None, "configmap", before=before).difference()["after"] == {}
