# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Live pods and objects: what is read of them, and how they say that they ended."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import (
    PodCounts,
    count_pods,
    gang_pod_from_api,
)
from ansible_collections.muster.kube.tests.support.gang_model import (
    T0,
    gang_pod,
    raw_pod,
)


def test_labels_and_owners_say_whose_pod_it_is():
    found = gang_pod("ray/head", owners=["job-1"], attempt=3, on=None, phase="Pending")
    assert (found.gang, found.podset, found.attempt, found.owner_uids) == ("record-1", "ray_head", 3, ("job-1",))
    assert (found.node, found.live, found.bound, found.requests) == (None, True, False, {"cpu": 1000, "pods": 1})


def test_a_pod_without_label_and_owner_is_nobodys():
    assert gang_pod_from_api(raw_pod(None, gang=None)) is None
    assert gang_pod_from_api(raw_pod(None, gang=None, owners=["x"])).gang is None


def test_an_attempt_that_is_no_number_is_none():
    raw = raw_pod(labels={"muster.kube/attempt": "first"})
    assert gang_pod_from_api(raw).attempt is None


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, None),
        ({"on": None, "phase": "Pending"}, T0),
        ({"phase": "Failed", "finished": T0 + 7, "code": 1}, T0 + 7),
        ({"phase": "Succeeded", "finished": T0 + 8}, T0 + 8),
        ({"phase": "Failed"}, None),
        ({"deleted": T0 + 9}, T0 + 9),
    ],
)
def test_since_when_a_pod_is_of_no_use(parts, expected):
    assert gang_pod(**parts).unavailable_since == expected


def test_terminating_and_finished_pods_do_not_live():
    going, over = gang_pod(deleted=T0), gang_pod(phase="Succeeded")
    assert (going.live, going.bound, going.finished) == (False, False, False)
    assert (over.live, over.running, over.finished) == (False, False, True)


def test_unschedulable_is_told_by_the_scheduler_only():
    waiting = gang_pod(on=None, phase="Pending", unschedulable=T0 + 5)
    assert (waiting.unschedulable_since, waiting.unschedulable_message) == (T0 + 5, "0/1 nodes fit")
    gated = raw_pod(on=None, phase="Pending", unschedulable=T0)
    gated["status"]["conditions"][0]["reason"] = "SchedulingGated"
    assert gang_pod_from_api(gated).unschedulable_since is None


def test_exit_codes_restarts_and_waiting_reasons_are_collected():
    raw = raw_pod()
    raw["status"]["initContainerStatuses"] = [{"state": {"terminated": {"exitCode": 0}}, "restartCount": 1}]
    raw["status"]["containerStatuses"] = [
        {
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 137}},
            "restartCount": 4,
        },
        {"state": {"terminated": {"exitCode": 2}}},
    ]
    found = gang_pod_from_api(raw)
    assert (found.exit_codes, found.restarts, found.waiting_reason) == ((2, 137), 5, "CrashLoopBackOff")


def test_pods_are_counted_by_phase():
    pods = [gang_pod(phase=phase) for phase in ("Pending", "Running", "Unknown", "Succeeded", "Failed", "Failed")]
    assert count_pods(pods) == PodCounts(1, 2, 1, 2)


@pytest.mark.parametrize(
    ("parts", "nominated", "bound", "unplaced", "running"),
    [
        ({"on": None, "phase": "Pending"}, None, False, True, False),
        ({"on": None, "phase": "Pending"}, "a", False, False, False),
        ({"on": None, "phase": "Pending", "deleted": 5}, None, False, False, False),
        ({"on": "a", "phase": "Pending"}, None, True, False, False),
        ({"on": "a", "phase": "Running"}, None, True, False, True),
        ({"on": "a", "phase": "Running", "deleted": 5}, None, False, False, False),
        ({"on": "a", "phase": "Succeeded"}, None, False, False, False),
        ({"on": None, "phase": "Failed"}, None, False, False, False),
    ],
)
def test_where_a_pod_is_on_its_way_to_a_node(parts, nominated, bound, unplaced, running):
    raw = raw_pod(**parts)
    raw["status"]["nominatedNodeName"] = nominated
    found = gang_pod_from_api(raw)
    assert (found.bound, found.unplaced, found.running) == (bound, unplaced, running)


def test_times_that_nobody_wrote_are_long_ago():
    raw = raw_pod(deleted=100)
    del raw["metadata"]["creationTimestamp"]
    del raw["metadata"]["deletionGracePeriodSeconds"]
    found = gang_pod_from_api(raw)
    assert (found.created, found.unavailable_since) == (0.0, 130.0)
    raw["metadata"]["deletionTimestamp"] = "damaged"
    assert gang_pod_from_api(raw).unavailable_since == 0.0


def test_no_pods_are_none_of_any_phase():
    assert count_pods([]) == PodCounts(0, 0, 0, 0) == PodCounts()
