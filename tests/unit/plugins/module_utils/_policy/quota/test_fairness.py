# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jain's index, and of what it is counted."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.fairness import jain_index, tree_fairness
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, gpus, queue, small_tree


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1, 1, 1], 1), ([1, 0, 0, 0], Fraction(1, 4)), ([3, 1], Fraction(4, 5)), ([0, 0], None), ([], None)],
)
def test_index_is_one_for_equals_and_the_inverse_of_their_number_for_one_alone(shares, index):
    assert jain_index(map(Fraction, shares)) == index


def test_leaves_count_by_what_they_use_of_their_own():
    tree = small_tree(
        queue("a", nominal={GPU.resource: 2}), queue("b", nominal={GPU.resource: 8, "cpu": 1}), queue("c")
    )
    usage = TreeUsage(tree)
    usage.charge("a", gpus(1))
    usage.charge("b", gpus(4))
    assert tree_fairness(usage) == {"cpu": None, GPU.resource: 1}
