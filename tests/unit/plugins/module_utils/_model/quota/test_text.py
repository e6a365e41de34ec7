# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of a tree: read back it is the same tree, and a later version's words survive."""

from __future__ import annotations

import json
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import (
    TREE_BYTES,
    configmap_name,
    tree_data,
    tree_digest,
    tree_from_text,
    tree_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.tests.support.quota_trees import queue, random_tree, small_tree
from ansible_collections.muster.kube.tests.support.random_size import examples

FULL = small_tree(
    queue(
        "a",
        nominal={"x": {"cpu": "1500m", "memory": "2Gi"}},
        weight="0.125",
        priority_cap=0,
        namespaces=["n"],
        selector={},
        default=True,
        reclaim="never",
        user_limits={"pending": 0, "resources": {"cpu": 3}},
        budget={"hours": {"cpu": "1.5"}},
        stop="drain",
    ),
    queue("b", hard=True, lending_limit={"x": {"cpu": 0}}),
    flavors=[{"name": "x", "node_labels": {"a": "b"}, "tolerations": [{"operator": "Exists"}]}],
    settings={"fair": "usage", "half_life": "1d", "max_evictions": 0, "prices": {"x": {"cpu": "0.000000001"}}},
    over_capacity="warn",
)


def test_full_tree_comes_back_from_its_text():
    assert tree_from_text("default", tree_text(FULL)) == FULL
    assert read_tree("default", tree_data(FULL)) == FULL


def test_random_trees_come_back_from_their_texts():
    chance = random.Random(14)
    for _number in range(examples(60)):
        tree = random_tree(chance)
        assert tree_from_text("default", tree_text(tree)) == tree


def test_keys_of_a_later_version_are_kept_everywhere():
    data = json.loads(tree_text(FULL))
    data["later"] = 1
    data["queues"][1]["later"] = {"a": 2}
    data["queues"][1]["user_limits"]["later"] = 3
    data["queues"][1]["budget"]["later"] = 4
    data["flavors"][0]["later"] = 5
    data["settings"]["later"] = 6
    tree = tree_from_text("default", json.dumps(data))
    assert json.loads(tree_text(tree)) == data


def test_newer_format_is_left_alone():
    data = {**json.loads(tree_text(FULL)), "format": 2}
    with pytest.raises(NewerVersion, match="format 2"):
        tree_from_text("default", json.dumps(data))


@pytest.mark.parametrize("text", [None, "{", "[]", "3"])
def test_damaged_texts_are_refused(text):
    with pytest.raises(BadInput):
        tree_from_text("default", text)


def test_text_of_another_tree_is_refused():
    with pytest.raises(BadTree, match="that of tree 'default'"):
        tree_from_text("other", tree_text(FULL))


def test_tree_that_no_configmap_holds_is_refused():
    names = [f"namespace-with-a-long-name-{number}" for number in range(TREE_BYTES // 30)]
    with pytest.raises(BadTree, match=f"at most {TREE_BYTES}"):
        tree_text(small_tree(queue("a", namespaces=names)))


def test_digest_follows_what_the_tree_says():
    one = small_tree(queue("a", nominal={"cpu": 1}))
    assert tree_digest(one) == tree_digest(small_tree(queue("a", nominal={"cpu": "1000m"})))
    assert tree_digest(one) != tree_digest(small_tree(queue("a", nominal={"cpu": 2})))
    assert tree_digest(one) != tree_digest(small_tree(queue("a", nominal={"cpu": 1}), name="other"))


def test_configmap_is_named_after_the_tree():
    assert configmap_name("default") == "muster-quota-default"
