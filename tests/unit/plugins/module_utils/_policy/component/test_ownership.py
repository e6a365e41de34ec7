# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whom objects call, who holds Leases, and which images workloads run."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.component.ownership import (
    ServiceName,
    calls_only,
    images_of,
    is_held_by,
    version_of_object,
)
from ansible_collections.muster.kube.tests.support.stack_stage import hooks

HOOK = ServiceName("home", "hook")


def test_who_calls_others_too_does_not_call_only_ours():
    ours = hooks()
    both = {**ours, "webhooks": [*ours["webhooks"], {"clientConfig": {"service": {"name": "a", "namespace": "b"}}}]}
    assert calls_only(ours, {HOOK}, ())
    assert calls_only(ours, (), {"home"})
    assert not calls_only(ours, (), ())
    assert not calls_only(both, {HOOK}, ())
    assert not calls_only({**ours, "webhooks": [{"clientConfig": {"url": "https://x"}}]}, {HOOK}, {"home"})


@pytest.mark.parametrize(
    ("holder", "held"),
    [
        ("operator-7d4c9f5b8-x2bzk_uid", True),
        ("operator-x2bzk", True),
        ("operator-0", True),
        ("operator", False),
        ("operators-1", False),
        ("operator-extra-7d4c9f5b8-x2bzk_uid", False),
        ("operator-extra-x2bzk", False),
        (None, False),
    ],
)
def test_leases_are_held_by_pods_of_a_workload(holder, held):
    assert is_held_by({"spec": {"holderIdentity": holder}}, ["operator"]) is held


def test_versions_are_told_by_labels_or_by_the_image():
    pod = {"spec": {"containers": [{"image": "registry:5000/a/b:v1.2@sha256:0"}], "initContainers": [{"image": "i"}]}}
    workload = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}, "spec": {"template": pod}}
    assert list(images_of(workload)) == ["i", "registry:5000/a/b:v1.2@sha256:0"]
    assert version_of_object({**workload, "metadata": {"labels": {"helm.sh/chart": "a-1"}}}) == "a-1"
    del pod["spec"]["initContainers"]
    assert version_of_object(workload) == "v1.2"
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {},
        "spec": {"jobTemplate": {"spec": {"template": pod}}},
    }
    assert list(images_of(cron)) == ["registry:5000/a/b:v1.2@sha256:0"]
    assert version_of_object({"metadata": {}}) is None
