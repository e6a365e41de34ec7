# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree's fixed amounts, against a slow count that follows the words of the rules queue by queue."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, queue, random_tree, small_tree
from ansible_collections.muster.kube.tests.support.random_size import examples


def slow_subtree(tree, name, key):
    """min(capacity, own + what the queues below lend)."""
    own = tree.by_name[name]
    lent = sum(slow_subtree(tree, child, key) - slow_local(tree, child, key) for child in tree.children[name])
    whole = own.nominal.get(key, 0) + own.extra.get(key, 0) + lent
    return min(whole, own.capacity.get(key, whole))


def slow_local(tree, name, key):
    """What a queue lends to nobody."""
    lending = tree.by_name[name].lending_limit.get(key)
    return 0 if lending is None else max(0, slow_subtree(tree, name, key) - lending)


def slow_potential(tree, name, key):
    """What a queue could have if nothing were used, and no ceiling on the way were passed."""
    found = _slow_potential(tree, name, key)
    for above in tree.ancestry(name):
        other = tree.by_name[above]
        if (other.hard or other.parent is None) and key in other.capacity:
            found = min(found, other.capacity[key])
    return found


def _slow_potential(tree, name, key):
    own = tree.by_name[name]
    if own.parent is None:
        return slow_subtree(tree, name, key)
    found = slow_local(tree, name, key) + slow_potential(tree, own.parent, key)
    most = own.most_borrowed(key)
    return found if most is None else min(found, slow_subtree(tree, name, key) + most)


def test_random_trees_have_the_amounts_of_the_slow_count():
    chance = random.Random(3)
    for _number in range(examples(60)):
        tree = random_tree(chance)
        fixed = Entitlements(tree)
        for key, column in fixed.columns.items():
            for name, place in fixed.place.items():
                assert column.subtree[place] == slow_subtree(tree, name, key)
                assert column.local[place] == slow_local(tree, name, key)
                assert column.potential[place] == slow_potential(tree, name, key)


@pytest.mark.parametrize(
    ("fields", "subtree", "local"),
    [
        # What is lent flows up; what is kept does not.
        ({}, 10, 0),
        ({"lending_limit": {GPU.resource: 4}}, 4, 6),
        ({"lending_limit": {GPU.resource: 0}}, 0, 10),
    ],
)
def test_lending_limit_keeps_the_rest_below(fields, subtree, local):
    fixed = Entitlements(small_tree(queue("a", nominal={GPU.resource: 10}, **fields)))
    column = fixed.columns[GPU]
    assert column.subtree[fixed.place["root"]] == subtree
    assert column.local[fixed.place["a"]] == local
    assert column.entitled[fixed.place["root"]] == 10


def test_extra_adds_to_what_is_below_and_capacity_ends_it():
    tree = small_tree(
        queue("root", capacity={GPU.resource: 12}),
        queue("team", extra={GPU.resource: 5}),
        queue("a", "team", nominal={GPU.resource: 8}),
        queue("b", nominal={GPU.resource: 2}),
    )
    fixed = Entitlements(tree)
    column = fixed.columns[GPU]
    assert [column.subtree[fixed.place[name]] for name in ("team", "root")] == [13, 12]


def test_only_roots_and_hard_queues_have_a_ceiling():
    tree = small_tree(
        queue("root", capacity={GPU.resource: 30}),
        queue("soft", capacity={GPU.resource: 5}),
        queue("hard", hard=True, capacity={GPU.resource: 6}),
        queue("a", "soft", nominal={GPU.resource: 5}),
        queue("b", "hard", nominal={GPU.resource: 6}),
    )
    fixed = Entitlements(tree)
    ceilings = {name: fixed.columns[GPU].ceiling[fixed.place[name]] for name in tree.by_name}
    assert ceilings == {"root": 30, "soft": None, "hard": 6, "a": None, "b": None}
    assert fixed.columns[GPU].potential[fixed.place["a"]] == 11
    assert fixed.columns[GPU].potential[fixed.place["b"]] == 6


def test_what_queues_keep_for_themselves_passes_no_ceiling_above():
    tree = small_tree(
        queue("root", capacity={GPU.resource: 15}),
        queue("a", nominal={GPU.resource: 20}, lending_limit={GPU.resource: 0}),
        over_capacity="warn",
    )
    fixed = Entitlements(tree)
    assert fixed.columns[GPU].potential[fixed.place["a"]] == 15
