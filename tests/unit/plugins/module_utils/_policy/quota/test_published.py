# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is published of a tree tells everything that was known of its amounts."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.status import status_from_text, status_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_digest
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree, LeafCounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.published import (
    charged_by_status,
    published_status,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import (
    GPU,
    gpus,
    queue,
    random_charges,
    random_tree,
    small_tree,
)
from ansible_collections.muster.kube.tests.support.random_size import examples


@pytest.mark.parametrize("seed", range(examples(40)))
def test_a_reader_of_the_text_gets_the_amounts_of_its_writer(seed):
    chance = random.Random(seed)
    usage = TreeUsage(random_tree(chance))
    random_charges(chance, usage, 8)
    counts = {leaf.name: LeafCounts(chance.randint(0, 9), chance.randint(0, 9)) for leaf in usage.tree.leaves}
    status = published_status(ChargedTree(usage, counts, ()), "2026-11-18T12:00:00Z")
    again = status_from_text("default", status_text(status))
    assert again == status
    found = charged_by_status(usage.tree, again)
    for item in usage.tree.queues:
        assert found.usage.standing(item.name) == usage.standing(item.name)
    assert found.counts == counts


def test_inner_queues_count_the_gangs_below_them():
    usage = TreeUsage(small_tree(queue("a", nominal={"cpu": 1}), queue("b", nominal={"cpu": 1})))
    status = published_status(ChargedTree(usage, {"a": LeafCounts(1, 2), "b": LeafCounts(3, 4)}, ()), "now")
    assert (status.queues["root"].started, status.queues["root"].waiting) == (4, 6)
    assert status.digest == tree_digest(usage.tree)


def test_leaves_that_came_or_went_since_use_nothing():
    old = TreeUsage(small_tree(queue("a", nominal={"nvidia.com/gpu": 4}), queue("gone", nominal={"nvidia.com/gpu": 4})))
    old.charge("a", gpus(1))
    old.charge("gone", gpus(2))
    counts = {name: LeafCounts(1, 0) for name in ("a", "gone")}
    status = published_status(ChargedTree(old, counts, ()), "now")
    found = charged_by_status(small_tree(queue("a", nominal={"nvidia.com/gpu": 4}), queue("new")), status)
    assert [found.usage.used(name, GPU) for name in ("root", "a", "new")] == [1, 1, 0]
    assert found.counts["new"] == LeafCounts(0, 0)
