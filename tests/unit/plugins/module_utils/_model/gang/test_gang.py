# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs: resizing, and writing a verdict's steering into the objects."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import (
    confine,
    confine_to_kinds,
    gang_of_kinds,
    steer_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaFlavor
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import node_terms
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def terms(spec):
    """The node affinity of a pod spec."""
    return spec["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]


def test_resizing_changes_the_named_podsets_only():
    before = gang(job("a", 3), job("b", 2))
    after = before.resized({"a": 1, "unknown": 9})
    assert [item.count for item in after.podsets] == [1, 2]
    assert [item.count for item in before.podsets] == [3, 2]


def test_steering_is_written_into_copies_of_the_templates():
    objects = [job("a", 3), pod("b")]
    untouched = copy.deepcopy(objects)
    steered = steer_objects(objects, gang(*objects), {"a": ["n2", "n1"], "b": ("n3",)})
    wanted = {"key": "kubernetes.io/hostname", "operator": "In"}
    assert terms(steered[0]["spec"]["template"]["spec"]) == [{"matchExpressions": [{**wanted, "values": ["n1", "n2"]}]}]
    assert terms(steered[1]["spec"]) == [{"matchExpressions": [{**wanted, "values": ["n3"]}]}]
    assert objects == untouched


def test_podsets_without_steering_stay_as_they_are():
    objects = [job("a", 3), job("b", 1)]
    steered = steer_objects(objects, gang(*objects), {"b": ["n1"]})
    assert steered[0] == objects[0]
    assert steered[1] != objects[1]


@pytest.mark.parametrize(
    "before",
    [
        [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}],
        [
            {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]},
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
        ],
        [{}, {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}],
    ],
)
def test_each_alternative_is_confined(before):
    spec = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": before}}}}
    confine(spec, ["n1"])
    original, confined = (node_terms({"nodeSelectorTerms": item}) for item in (before, terms(spec)))
    for name in ("n1", "n2"):
        for disk in ({}, {"disk": "ssd"}):
            labels = {"kubernetes.io/hostname": name, **disk}
            expected = name == "n1" and any(term.matches(name, labels) for term in original)
            assert any(term.matches(name, labels) for term in confined) is expected


def test_null_affinity_is_replaced():
    spec = {"affinity": None}
    confine(spec, ["n1"])
    assert len(terms(spec)) == 1


TOLERATION = {"key": "gpu", "operator": "Exists"}
BIG = QuotaFlavor("big", {"pool": "big"}, (TOLERATION,))


@pytest.mark.parametrize(
    ("spec", "selector", "tolerations"),
    [
        ({}, {"pool": "big"}, [TOLERATION]),
        ({"nodeSelector": None, "tolerations": None}, {"pool": "big"}, [TOLERATION]),
        ({"nodeSelector": {"disk": "ssd"}}, {"disk": "ssd", "pool": "big"}, [TOLERATION]),
        ({"tolerations": [TOLERATION]}, {"pool": "big"}, [TOLERATION]),
        ({"tolerations": [{"operator": "Exists"}]}, {"pool": "big"}, [{"operator": "Exists"}, TOLERATION]),
    ],
)
def test_flavors_add_to_pods_and_are_added_once(spec, selector, tolerations):
    for _turn in range(2):
        confine_to_kinds(spec, [BIG])
        assert spec == {"nodeSelector": selector, "tolerations": tolerations}


def test_what_contradicts_a_flavor_is_not_replaced_and_matches_no_node():
    spec = {"nodeSelector": {"pool": "other"}}
    confine_to_kinds(spec, [BIG])
    assert spec["nodeSelector"] == {"pool": "other"}
    assert terms(spec) == [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["big"]}]}]


def test_flavors_are_written_into_copies_of_podsets_and_objects():
    objects = [job("a", 3), job("b", 1)]
    untouched, whole = copy.deepcopy(objects), gang(*objects)
    found = gang_of_kinds(whole, {"a": [BIG], "b": [QuotaFlavor("any")]})
    assert [dict(item.constraints.node_selector) for item in found.podsets] == [{"pool": "big"}, {}]
    assert [dict(item.constraints.node_selector) for item in whole.podsets] == [{}, {}]
    assert gang_of_kinds(whole, {"b": [QuotaFlavor("any")]}) is whole
    made = steer_objects(objects, whole, {"a": ["n1"]}, {"a": [BIG]})
    spec = made[0]["spec"]["template"]["spec"]
    assert (spec["nodeSelector"], spec["tolerations"], len(terms(spec))) == ({"pool": "big"}, [TOLERATION], 1)
    assert (objects, made[1]) == (untouched, objects[1])
