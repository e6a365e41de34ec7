# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When an object has become what it was made for."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.component.health import (
    ObjectHealth,
    has_health,
    health,
)

APPS, CRDS = "apps/v1", "apiextensions.k8s.io/v1"
FULL = {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 2}
NOT_SEEN = "its controller has not seen it yet"


def live(api_version, kind, spec, status):
    return {"apiVersion": api_version, "kind": kind, "metadata": {"generation": 1}, "spec": spec, "status": status}


def condition(name, status="True", **more):
    return {"conditions": [{"type": name, "status": status, **more}]}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "missing"),
    [
        ("Deployment", {"replicas": 2}, FULL, ""),
        ("Deployment", {"replicas": 2}, {**FULL, "updatedReplicas": 1}, "1 of 2 pods are up to date and available"),
        ("Deployment", {"replicas": 2}, {**FULL, "availableReplicas": 0}, "0 of 2 pods are up to date and available"),
        ("Deployment", {"replicas": 2}, {**FULL, "replicas": 3}, "pods of an older version are still there"),
        ("Deployment", {}, {"observedGeneration": 1}, "0 of 1 pods are up to date and available"),
        ("Deployment", {"replicas": 0}, {"observedGeneration": 1}, ""),
        ("Deployment", {"replicas": 0}, {}, NOT_SEEN),
        ("StatefulSet", {"replicas": 2}, FULL, ""),
        ("StatefulSet", {"replicas": 2}, {**FULL, "updatedReplicas": 0}, "0 of 2 pods are up to date and available"),
        (
            "StatefulSet",
            {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 2}}},
            {**FULL, "updatedReplicas": 0},
            "",
        ),
        ("StatefulSet", {"replicas": 2, "updateStrategy": {"type": "OnDelete"}}, {"availableReplicas": 2}, ""),
        (
            "DaemonSet",
            {},
            {
                "observedGeneration": 1,
                "desiredNumberScheduled": 3,
                "updatedNumberScheduled": 3,
                "numberAvailable": 1,
            },
            "1 of 3 pods are up to date and available",
        ),
        ("DaemonSet", {}, {"observedGeneration": 1}, ""),
        ("DaemonSet", {}, {}, NOT_SEEN),
    ],
)
def test_workloads_are_ready_when_their_pods_are(kind, spec, status, missing):
    assert health(live(APPS, kind, spec, status)) == ObjectHealth(not missing, missing)


def test_a_status_of_an_older_generation_counts_for_nothing():
    obj = {**live(APPS, "Deployment", {"replicas": 2}, FULL), "metadata": {"generation": 2}}
    assert health(obj) == ObjectHealth(False, "its controller has not seen the last change yet")


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "expected"),
    [
        ("batch/v1", "Job", condition("Complete"), ObjectHealth(True, "it is not complete")),
        ("batch/v1", "Job", {}, ObjectHealth(False, "it is not complete")),
        ("batch/v1", "Job", condition("Failed", message="m"), ObjectHealth(False, "it failed: m", True)),
        (CRDS, "CustomResourceDefinition", condition("Established"), ObjectHealth(True, "it is not established")),
        (CRDS, "CustomResourceDefinition", {}, ObjectHealth(False, "it is not established")),
        (
            CRDS,
            "CustomResourceDefinition",
            condition("NamesAccepted", "False", message="taken"),
            ObjectHealth(False, "its names are not accepted: taken", True),
        ),
        (
            APPS,
            "Deployment",
            condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="no progress"),
            ObjectHealth(False, "no progress", True),
        ),
    ],
)
def test_conditions_tell_the_end(api_version, kind, status, expected):
    assert health(live(api_version, kind, {}, status)) == expected


def test_other_kinds_are_what_they_are_at_once():
    assert has_health({"apiVersion": "apps/v1", "kind": "Deployment"})
    assert not has_health({"apiVersion": "example.com/v1", "kind": "Deployment"})
    assert not has_health({"apiVersion": "v1", "kind": "ConfigMap"})
