# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of any kind: group and kind, values by path, and conditions."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    ObjectKey,
    condition_contains,
    condition_met,
    group_and_kind,
    resource_of,
    value_at,
)
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_model import condition, live


@pytest.mark.parametrize(
    ("api_version", "group"), [("v1", ""), ("batch/v1", "batch"), ("ray.io/v1alpha1", "ray.io"), (None, "")]
)
def test_the_version_of_an_api_is_no_part_of_a_kind(api_version, group):
    assert group_and_kind({"apiVersion": api_version, "kind": "Thing"}) == (group, "Thing")


def test_what_is_not_there_has_no_value():
    obj = {"spec": {"run": {"seconds": 5}, "word": "text"}}
    assert value_at(obj, ("spec", "run", "seconds")) == 5
    assert [value_at(obj, path) for path in (("status",), ("spec", "word", "run"), ("status", "run"))] == [None] * 3


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


def test_a_key_names_an_object_in_all_versions_of_its_api() -> None:
    key = ObjectKey("batch/v1", "Job", "a", "j")
    assert key.versioned_kind == ("batch/v1", "Job")
    assert key.identity == key._replace(api_version="batch/v1beta1").identity == ("batch", "Job", "a", "j")
    assert ObjectKey("v1", "Pod", "a", "p").identity == ("", "Pod", "a", "p")


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("Pod", "pods"),
        ("NetworkPolicy", "networkpolicies"),
        ("Ingress", "ingresses"),
        ("Endpoints", "endpoints"),
        ("LeaderWorkerSet", "leaderworkersets"),
    ],
)
def test_the_name_of_a_kind_in_paths(kind, name):
    assert resource_of(kind) == name
