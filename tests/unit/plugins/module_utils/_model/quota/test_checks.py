# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is refused of a tree as a whole, by the path of the queue."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree, capacity_problems
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.tests.support.quota_trees import mcad_tree, queue, small_tree

FLAVORS = [{"name": "a100"}, {"name": "h100"}]


def problems(*queues, **rest):
    with pytest.raises(BadTree) as caught:
        read_tree("default", {"queues": list(queues), **rest})
    return {str(problem) for problem in caught.value.problems}


def only(*queues, **rest):
    found = problems(*queues, **rest)
    assert len(found) == 1, found
    return found.pop()


ROOT = queue("root")


@pytest.mark.parametrize(
    ("queues", "told"),
    [
        ([ROOT, queue("a", "b"), queue("b", "a")], "a/b/a: parent: these queues are below each other in a circle"),
        ([ROOT, queue("a", "a")], "a/a: parent: these queues are below each other in a circle"),
        ([ROOT, queue("a", "gone")], "gone/a: parent: there is no queue 'gone'"),
        (
            [ROOT, queue("a", "root"), queue("other")],
            "other: parent: the tree has a root already, root; name the queue that this one is below",
        ),
        (
            [ROOT, queue("a", "root"), queue("a", "root")],
            "root/a: name: 2 queues have this name; a name stands for one",
        ),
        ([], "queues: the tree has no queues; give at least one"),
        (
            [ROOT, queue("a", "root", nominal={"cpu": 2}, lending_limit={"cpu": 3})],
            "root/a: lending_limit.cpu: 3 is more than nominal, 2",
        ),
        (
            [ROOT, queue("t", "root"), queue("a", "t", lending_limit={"cpu": "500m"})],
            "root/t/a: lending_limit.cpu: 500m is more than nominal, 0",
        ),
        (
            [queue("root", hard=True), queue("a", "root")],
            "root: hard: nobody is beside a root to borrow from or to lend to; leave it out",
        ),
        (
            [queue("root", nominal={"cpu": 1}, borrowing_limit={"cpu": 1})],
            "root: borrowing_limit: nobody is beside a root to borrow from or to lend to; leave it out",
        ),
        (
            [queue("root", nominal={"cpu": 1}, lending_limit={"cpu": 0})],
            "root: lending_limit: nobody is beside a root to borrow from or to lend to; leave it out",
        ),
        (
            [ROOT, queue("a", "root", hard=True, borrowing_limit={"cpu": 1})],
            "root/a: hard: it says that nothing is borrowed, and borrowing_limit allows some",
        ),
        (
            [ROOT, queue("a", "root", nominal={"a100": {"cpu": 1}})],
            "root/a: nominal: flavor 'a100' is not declared",
        ),
        (
            [queue("root", nominal={"cpu": 1}), queue("a", "root")],
            "root: nominal: this is nothing for a queue above others; give extra or capacity",
        ),
        (
            [ROOT, queue("a", "root", capacity={"cpu": 1})],
            "root/a: capacity: this is nothing for a queue without others below it; give nominal",
        ),
        (
            [queue("root", default=True), queue("a", "root")],
            "root: default: this is nothing for a queue above others",
        ),
        (
            [ROOT, queue("a", "root", namespaces=["x", "y"]), queue("b", "root", namespaces=["y"])],
            "root/b: namespaces: y is named by root/a too",
        ),
        (
            [ROOT, queue("a", "root", default=True), queue("b", "root", default=True)],
            "root/b: default: the tree has a default leaf already, root/a",
        ),
        (
            [
                queue("root", capacity={"cpu": 3}),
                queue("a", "root", nominal={"cpu": 2}),
                queue("b", "root", nominal={"cpu": 2}),
            ],
            "root: capacity.cpu: the leaves below have 4 nominal together, and capacity is 3",
        ),
    ],
)
def test_refusals_name_the_path_and_the_field(queues, told):
    assert only(*queues) == told


def test_undeclared_flavor_is_told_with_those_that_are_declared():
    told = only(ROOT, queue("a", "root", nominal={"v100": {"cpu": 1}}), flavors=FLAVORS)
    assert told == "root/a: nominal: flavor 'v100' is not declared; declared are a100, h100"


def test_amount_without_flavor_is_refused_where_several_are():
    told = only(ROOT, queue("a", "root", nominal={"cpu": 1}), flavors=FLAVORS)
    assert told == "root/a: nominal: the tree has several flavors; say of which an amount is: a100, h100"


def test_everything_that_is_wrong_is_told_at_once():
    found = problems(
        ROOT,
        queue("a", "gone", nominal={"cpu": "many"}),
        queue("b", "root", hard="maybe", namespaces=["Big"]),
        settings={"fair": "very"},
    )
    assert {text.split(":")[0] for text in found} == {"gone/a", "root/b", "settings"}
    assert len(found) == 5


def test_problems_are_a_key_of_the_failure():
    with pytest.raises(BadTree) as caught:
        read_tree("default", {"queues": [ROOT, queue("a", "gone")]})
    assert caught.value.as_result()["problems"] == [
        {"where": "gone/a", "field": "parent", "cause": "there is no queue 'gone'"}
    ]


def test_over_capacity_may_be_a_warning():
    tree = small_tree(queue("root", capacity={"cpu": 3}), queue("a", "root", nominal={"cpu": 4}), over_capacity="warn")
    assert [problem.where for problem in capacity_problems(tree)] == ["root"]
    assert {problem.field for problem in capacity_problems(mcad_tree())} == {
        "capacity.cpu",
        "capacity.memory",
        "capacity.nvidia.com/gpu",
    }
