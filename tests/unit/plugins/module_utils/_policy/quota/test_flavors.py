# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flavors of podsets: nominal before borrowing, nodes before none, the tree's order among equals."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import (
    assign_flavors,
    charged_amounts,
    podset_demands,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, queue, small_tree

NAME = GPU.resource


def two_flavors(spot=4, reserved=4, other=8):
    """A leaf with both flavors, and a sibling to borrow from."""
    amounts = {"spot": {NAME: spot}, "reserved": {NAME: reserved}}
    lent = {"spot": {NAME: other}, "reserved": {NAME: other}}
    return TreeUsage(
        small_tree(
            queue("a", nominal=amounts), queue("b", nominal=lent), flavors=[{"name": "spot"}, {"name": "reserved"}]
        )
    )


def chosen(usage, *counts, nodes=None):
    found = assign_flavors(usage, "a", {f"p{index}": {NAME: count} for index, count in enumerate(counts)}, nodes)
    return list(found.flavors.values()), found.answer.answer, found.answer.borrows


def test_first_flavor_within_nominal_is_taken():
    assert chosen(two_flavors(), 4) == (["spot"], "fits", False)


def test_flavor_within_nominal_beats_an_earlier_one_that_would_borrow():
    assert chosen(two_flavors(spot=2), 4) == (["reserved"], "fits", False)


def test_first_flavor_that_borrows_is_taken_when_all_do():
    assert chosen(two_flavors(), 6) == (["spot"], "fits", True)


def test_flavor_that_is_borrowed_nearest_is_taken_as_by_kueue():
    flavors = [{"name": "spot"}, {"name": "reserved"}]
    near, far = {"reserved": {NAME: 4}}, {"spot": {NAME: 8}, "reserved": {NAME: 8}}
    usage = TreeUsage(
        small_tree(
            queue("team"),
            queue("a", parent="team"),
            queue("b", parent="team", nominal=near),
            queue("c", nominal=far),
            flavors=flavors,
        )
    )
    assert chosen(usage, 4) == (["reserved"], "fits", True)
    # Both come from the root now.
    assert chosen(usage, 5) == (["spot"], "fits", True)
    assert chosen(usage, 4, 4)[0] == ["reserved", "spot"]


def test_podsets_count_what_those_before_them_take():
    assert chosen(two_flavors(), 3, 3) == (["spot", "reserved"], "fits", False)
    assert chosen(two_flavors(), 3, 3, 3) == (["spot", "reserved", "spot"], "fits", True)


def test_flavor_without_nodes_is_passed_over():
    assert chosen(two_flavors(), 4, nodes=lambda flavor, _podset: flavor == "reserved") == (["reserved"], "fits", False)
    only_borrowing = two_flavors(reserved=1)
    assert chosen(only_borrowing, 4, nodes=lambda flavor, _podset: flavor == "reserved")[0] == ["reserved"]


def test_full_gang_waits_for_the_first_flavor_that_could_hold_it():
    usage = two_flavors(spot=0, other=0)
    usage.charge("a", {FlavorResource("reserved", NAME): 4})
    assert chosen(usage, 3) == (["reserved"], "waits", True)
    assert chosen(two_flavors(other=0), 9) == (["spot"], "never", True)


def test_tree_without_flavors_has_one_without_a_name():
    usage = TreeUsage(small_tree(queue("a", nominal={NAME: 4})))
    found = assign_flavors(usage, "a", {"p": {NAME: 3, "memory": 5}})
    assert (found.flavors, found.amounts) == ({"p": ""}, {GPU: 3})


def test_podsets_become_demands():
    podsets = declared_podsets([{"name": "w", "count": 3, "requests": {"cpu": "500m", NAME: 2}}], namespace="n")
    assert podset_demands(podsets) == {"w": {"cpu": 1500, NAME: 6, "pods": 3}}


@pytest.mark.parametrize("flavors", [{"w": "spot"}, {"w": "spot", "other": "x"}])
def test_started_gang_is_charged_to_the_flavors_it_started_with(flavors):
    tree = two_flavors().tree
    demands = {"w": {NAME: 2, "cpu": 1}, "v": {NAME: 1}}
    assert charged_amounts(tree, demands, flavors) == {FlavorResource("spot", NAME): 3}
    assert charged_amounts(tree, demands, {"w": "reserved"}) == {
        FlavorResource("reserved", NAME): 2,
        FlavorResource("spot", NAME): 1,
    }
