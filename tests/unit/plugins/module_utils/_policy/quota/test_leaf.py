# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The leaf of a gang: who names it, who is let in, and what holds it back."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf, named_queue
from ansible_collections.muster.kube.tests.support.quota_trees import mcad_tree, queue, small_tree

TREE = small_tree(
    queue("team"),
    queue("mine", "team", namespaces=["me"]),
    queue("chosen", "team", selector={"matchLabels": {"class": "gpu"}}),
    queue("also", selector={"matchExpressions": [{"key": "class", "operator": "In", "values": ["gpu", "tpu"]}]}),
    queue("open"),
    queue("rest", default=True),
    queue("held", stop="hold"),
    queue("off", stop="drain"),
    queue("below", "off"),
)


def told(named, namespace, labels=None):
    found = find_leaf(TREE, named, namespace, labels)
    return found.leaf and found.leaf.name, found.reason


@pytest.mark.parametrize(
    ("named", "namespace", "labels", "leaf", "reason"),
    [
        (None, "me", {"class": "gpu"}, "mine", None),
        (None, "x", {"class": "tpu"}, "also", None),
        (None, "x", {"class": "gpu"}, None, "queue_unknown"),
        (None, "x", {}, "rest", None),
        (None, "x", None, "rest", None),
        ("open", "x", None, "open", None),
        ("mine", "me", None, "mine", None),
        ("chosen", "x", {"class": "gpu"}, "chosen", None),
        ("mine", "x", {}, "mine", "queue_forbidden"),
        ("chosen", "x", None, "chosen", "queue_forbidden"),
        ("gone", "x", {}, None, "queue_unknown"),
        ("team", "x", {}, None, "queue_unknown"),
        ("held", "x", {}, "held", "queue_held"),
        ("below", "x", {}, "below", "queue_held"),
    ],
)
def test_rules_in_their_order(named, namespace, labels, leaf, reason):
    assert told(named, namespace, labels) == (leaf, reason)


def test_refusals_name_paths_and_what_helps():
    assert find_leaf(TREE, "below", "x").detail == "root/off starts nothing (stop: drain)"
    assert find_leaf(TREE, "mine", "x").detail == "root/team/mine is not for gangs of namespace x"
    several = find_leaf(TREE, None, "x", {"class": "gpu"}).detail
    assert several == "several queues select namespace x (root/also, root/team/chosen); name one"


def test_mcad_forest_05_unknown_leaf_never_starts():
    assert find_leaf(mcad_tree(), "platinum", "x").reason == "queue_unknown"


def test_mcad_forest_11_other_labels_leave_the_default_leaf():
    tree = mcad_tree()
    assert named_queue(tree, {"other": "gold"}, "gold") is None
    found = find_leaf(tree, None, "x")
    assert found.leaf is not None
    assert (found.leaf.name, found.reason) == ("default", None)


def test_tree_without_a_default_leaf_takes_nobody_who_names_none():
    found = find_leaf(small_tree(queue("a", namespaces=["me"])), None, "x")
    assert (found.leaf, found.reason) == (None, "queue_unknown")


def test_queue_is_named_by_the_label_of_the_tree_then_by_the_queue_of_the_gang():
    other = small_tree(queue("a"), name="other")
    assert named_queue(other, {"other": "a"}, "b") == "a"
    assert named_queue(other, {}, "b") is None
    assert named_queue(TREE, {"default": "a"}, "b") == "a"
    assert named_queue(TREE, {}, "b") == "b"
