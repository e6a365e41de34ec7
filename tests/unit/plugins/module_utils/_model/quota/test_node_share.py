# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shares of nodes in a declaration: what they say, and what is wrong with them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.node_share import NodeShare, take_node_shares
from ansible_collections.muster.kube.tests.support.quota_trees import queue


def taken(*queues):
    return take_node_shares({"queues": list(queues)})


def share(**fields):
    return {"share": "0.5", "resources": ["cpu"], **fields}


def complaint(**fields):
    """Where a share is wrong."""
    found = taken(queue("root"), queue("a", "root", from_nodes=share(**fields)))
    assert found.shared == ()
    (problem,) = found.problems
    assert problem.where == "root/a"
    return problem.field


def test_leaves_get_nominal_and_the_others_capacity():
    found = taken(queue("root", from_nodes=share()), queue("a", "root", from_nodes=share()), queue("b", "root"))
    assert [(item.index, item.path, item.field) for item in found.shared] == [
        (0, "root", "capacity"),
        (1, "root/a", "nominal"),
    ]
    assert all("from_nodes" not in item for item in found.declaration["queues"])
    assert found.problems == ()


@pytest.mark.parametrize(
    ("text", "value"), [("0.5", Fraction(1, 2)), ("1/3", Fraction(1, 3)), ("0", 0), ("1", 1), (1, 1)]
)
def test_a_share_is_a_decimal_or_a_fraction(text, value):
    (found,) = taken(queue("a", from_nodes=share(share=text))).shared
    assert found.wanted == NodeShare(Fraction(value), ("cpu",), {}, True)


@pytest.mark.parametrize("text", ["", "half", "1.1", "-1", "3/2", "1/0", "1e-1", "50%", "0.1/2", None, [1], "١/٣"])
def test_what_is_no_part_of_one_is_refused(text):
    assert complaint(share=text) == "from_nodes.share"


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"resources": []}, "from_nodes.resources"),
        ({"resources": [1]}, "from_nodes.resources"),
        ({"resources": "cpu"}, "from_nodes.resources"),
        ({"node_selector": {"a": 1}}, "from_nodes.node_selector.a"),
        ({"less_daemons": "no"}, "from_nodes.less_daemons"),
        ({"shares": 1}, "from_nodes.shares"),
    ],
)
def test_what_is_wrong_is_told_by_path_and_field(fields, where):
    assert complaint(**fields) == where


def test_a_share_that_is_no_mapping_is_told():
    (problem,) = taken(queue("a", from_nodes=3)).problems
    assert (problem.where, problem.field) == ("a", "from_nodes")


@pytest.mark.parametrize("nominal", [{"cpu": 1}, {"big": {"cpu": 1}}])
def test_amount_and_share_of_one_resource_contradict_each_other(nominal):
    (problem,) = taken(queue("a", nominal=nominal, from_nodes=share())).problems
    assert (problem.where, problem.field) == ("a", "from_nodes.resources")
    assert "cpu" in problem.cause


@pytest.mark.parametrize("queues", [None, 3, [3], [{"name": 3, "from_nodes": {}}], [{"parent": 1}], [{"name": "a"}]])
def test_what_is_no_queue_is_left_for_others_to_tell(queues):
    given = {"queues": queues}
    found = take_node_shares(given)
    assert (found.declaration, found.shared, found.problems) == (given, (), ())


def test_no_share_is_none():
    assert taken(queue("a", from_nodes=None)).declaration == {"queues": [queue("a")]}
