# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How live objects say that they ended, kind by kind."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import (
    is_finite,
    item_outcome,
    outcome_message,
)
from ansible_collections.muster.kube.tests.support.cluster_model import job, pod
from ansible_collections.muster.kube.tests.support.gang_model import (
    condition,
    deployment,
    ended,
    job_set,
    live,
    pytorch_job,
    ray_cluster,
    ray_job,
)


def bare(phase, policy="Never"):
    """A live pod that is an item by itself."""
    found = pod("p", on="a", restartPolicy=policy)
    found["status"]["phase"] = phase
    return found


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
