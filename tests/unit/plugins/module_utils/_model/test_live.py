# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Live pods and objects: what is read of them, and how they say that they ended."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.live import (
    PodCounts,
    condition_contains,
    condition_met,
    count_pods,
    gang_pod_from_api,
    is_finite,
    item_outcome,
    outcome_message,
)
from ansible_collections.muster.kube.tests.support.cluster_model import job, pod
from ansible_collections.muster.kube.tests.support.gang_model import (
    T0,
    condition,
    deployment,
    ended,
    gang_pod,
    job_set,
    live,
    pytorch_job,
    raw_pod,
    ray_cluster,
    ray_job,
)


def bare(phase, policy="Never"):
    """A live pod that is an item by itself."""
    found = pod("p", on="a", restartPolicy=policy)
    found["status"]["phase"] = phase
    return found


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
    ("obj", "outcome"),
    [
        (live(job("j", 1)), None),
        (live(job("j", 1), status=ended("Complete")), "succeeded"),
        (live(job("j", 1), status=ended("Failed")), "failed"),
        (live(job("j", 1), status={"conditions": [condition("Failed", "False")]}), None),
        (live(job("j", 1), status={"conditions": [condition("FailureTarget"), condition("Suspended")]}), None),
        (live(job_set(), status=ended("Completed")), "succeeded"),
        (live(job_set(), status=ended("Failed")), "failed"),
        (live(pytorch_job(), status=ended("Succeeded")), "succeeded"),
        (live(pytorch_job(), status={"conditions": [condition("Failed"), condition("Succeeded", "False")]}), "failed"),
        (live(pytorch_job(), status=ended("Restarting")), None),
        (live(ray_job(), status={"jobDeploymentStatus": "Running", "jobStatus": "FAILED"}), None),
        (live(ray_job(), status={"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}), "succeeded"),
        (live(ray_job(), status={"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}), "failed"),
        (live(ray_job(), status={"jobDeploymentStatus": "Failed"}), "failed"),
        (live(ray_cluster(), status={"state": "failed", **ended("ReplicaFailure")}), None),
        (live(deployment(), status=ended("Complete")), None),
        (bare("Running"), None),
        (bare("Succeeded"), "succeeded"),
        (bare("Succeeded", "OnFailure"), "succeeded"),
        (bare("Succeeded", "Always"), None),
        (bare("Failed"), "failed"),
    ],
)
def test_each_kind_says_in_its_own_way_that_it_ended(obj, outcome):
    assert item_outcome(obj) == outcome


def test_jobs_end_and_services_do_not():
    ends = [job("j", 1), job_set(), pytorch_job(), ray_job(), bare("Running")]
    stay = [deployment(), ray_cluster(), bare("Running", "Always"), {"apiVersion": "v1", "kind": "Service"}]
    assert all(is_finite(obj) for obj in ends)
    assert not any(is_finite(obj) for obj in stay)


def test_a_failed_object_is_quoted():
    assert outcome_message(live(job("j", 1), status=ended("Failed", "back-off limit"))) == "back-off limit"
    assert outcome_message(live(ray_job(), status={"message": "no luck"})) == "no luck"
    assert outcome_message(live(job("j", 1))) == ""


def test_conditions_are_met_by_type_and_status():
    obj = live(job("j", 1), status={"conditions": [condition("Complete"), condition("Progressing", "False")]})
    assert condition_met(obj, "complete")
    assert condition_met(obj, "Progressing", "False")
    assert not condition_met(obj, "Progressing")
    assert not condition_met(obj, "Comp")
    assert condition_contains(obj, "COMP")
    assert not condition_contains(obj, "progress")


def test_conditions_of_another_form_are_none():
    assert not condition_met(live(job("j", 1), status={"conditions": {"type": "Complete"}}), "Complete")
