# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree of values: what can be asked of it."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, queue, small_tree


def test_tree_knows_paths_leaves_and_what_it_counts():
    tree = small_tree(
        queue("team"),
        queue("a", "team", nominal={"cpu": 1}, default=True),
        queue("b", "team", nominal={"memory": "1Gi"}),
    )
    assert tree.path("a") == "root/team/a"
    assert tree.ancestry("b") == ("b", "team", "root")
    assert [leaf.name for leaf in tree.leaves] == ["a", "b"]
    assert tree.root.name == "root"
    assert tree.default_leaf is not None
    assert tree.default_leaf.name == "a"
    assert tree.resources == ("cpu", "memory")
    assert tree.keys == (FlavorResource("", "cpu"), FlavorResource("", "memory"))


def test_each_resource_is_counted_in_each_flavor():
    tree = small_tree(
        queue("a", nominal={"big": {"cpu": 1}, "small": {"nvidia.com/gpu": 2}}),
        flavors=[{"name": "small"}, {"name": "big"}],
    )
    assert tree.flavor_names == ("small", "big")
    assert len(tree.keys) == 4


def test_hard_queue_borrows_nothing_whatever_resource_it_is():
    tree = small_tree(queue("a", hard=True, nominal={"cpu": 1}), queue("b", borrowing_limit={"cpu": 2}), queue("c"))
    assert [tree.by_name[name].most_borrowed(CPU) for name in "abc"] == [0, 2000, None]


def test_leaf_without_namespaces_and_selector_is_open_to_all():
    tree = small_tree(queue("a"), queue("b", namespaces=["x"]), queue("c", selector={}))
    assert [tree.by_name[name].open_to_all for name in "abc"] == [True, False, False]
