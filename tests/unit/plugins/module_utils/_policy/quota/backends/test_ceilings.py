# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceQuotas as ceilings of leaves."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.ceilings import build_ceilings
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

GPU = "nvidia.com/gpu"


def hard(*queues, **rest):
    """The limits by namespace."""
    return {obj["metadata"]["namespace"]: obj["spec"]["hard"] for obj in build_ceilings(small_tree(*queues, **rest))}


def problems(*queues, **rest):
    with pytest.raises(BadTree) as failed:
        build_ceilings(small_tree(*queues, **rest))
    return [(problem.where, problem.field) for problem in failed.value.problems]


def test_the_ceiling_is_what_is_its_own_and_what_it_may_borrow():
    amounts = {"cpu": "1500m", GPU: 2, "memory": "2Gi", "pods": 10}
    limit = {**dict.fromkeys(amounts, 0), "cpu": 1, GPU: 3}
    assert hard(queue("a", nominal=amounts, borrowing_limit=limit, namespaces=["red"])) == {
        "red": {"requests.cpu": "2500m", f"requests.{GPU}": "5", "requests.memory": "2Gi", "pods": "10"}
    }


def test_a_hard_leaf_and_a_tree_of_one_leaf_have_their_own():
    assert hard(queue("a", nominal={"cpu": 2}, hard=True, namespaces=["red"])) == {"red": {"requests.cpu": "2"}}
    assert hard(queue("root", nominal={"cpu": 2}, namespaces=["red"])) == {"red": {"requests.cpu": "2"}}


def test_flavors_are_added_up():
    flavors = [{"name": "x"}, {"name": "y"}]
    leaf = queue("a", nominal={"x": {"cpu": 1}, "y": {"cpu": 2}}, hard=True, namespaces=["red"])
    assert hard(leaf, flavors=flavors) == {"red": {"requests.cpu": "3"}}


def test_objects_carry_the_name_and_label_of_the_tree():
    (made,) = build_ceilings(small_tree(queue("a", hard=True, namespaces=["red"]), name="lab"))
    assert made["metadata"] == {
        "name": "muster-quota-lab",
        "namespace": "red",
        "labels": {"muster.kube/quota-tree": "lab"},
    }


def test_leaves_without_a_namespace_of_their_own_or_without_an_end_are_refused_by_path():
    assert problems(
        queue("none", nominal={"cpu": 1}, hard=True),
        queue("two", hard=True, namespaces=["a", "b"]),
        queue("selected", hard=True, namespaces=["c"], selector={"matchLabels": {"a": "b"}}),
        queue("endless", namespaces=["d"]),
    ) == [
        ("root/endless", "borrowing_limit.cpu"),
        ("root/none", "namespaces"),
        ("root/selected", "namespaces"),
        ("root/two", "namespaces"),
    ]
