# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Shares of nodes as amounts: exact, rounded down, and never more than there is."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import node_from_api, pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.node_share import take_node_shares
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource, QuotaFlavor
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.node_shares import (
    fill_node_shares,
    node_supply,
    total_of,
)
from ansible_collections.muster.kube.tests.support.quota_trees import queue
from ansible_collections.muster.kube.tests.support.random_size import examples

GPU = "nvidia.com/gpu"


def node(name, labels=None, **allocatable):
    """A node; gpu stands for the resource of that name."""
    amounts = {GPU if key == "gpu" else key: str(value) for key, value in allocatable.items()}
    return node_from_api({"metadata": {"name": name, "labels": labels or {}}, "status": {"allocatable": amounts}})


def pod(where, owner="DaemonSet", *, phase="Running", going=False, static=False, **requests):
    """A pod on a node."""
    owners = [{"kind": owner, "name": "o", "uid": "u", "controller": True}] if owner else []
    metadata = {"namespace": "x", "name": f"p-{where}", "ownerReferences": owners}
    metadata |= {"deletionTimestamp": "2026-11-16T04:00:00Z"} if going else {}
    metadata |= {"annotations": {"kubernetes.io/config.mirror": "h"}} if static else {}
    spec = {"nodeName": where, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return pod_from_api({"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def filled(nodes, pods, *queues, flavors=()):
    """The tree whose shares were worked out."""
    taken = take_node_shares({"queues": list(queues), "flavors": [{"name": f.name} for f in flavors]})
    assert taken.problems == ()
    supply = node_supply(nodes, [item for item in pods if item is not None])
    return read_tree("default", fill_node_shares("default", taken, flavors, supply))


def shared(share="1/2", resources=(GPU,), **rest):
    return {"share": share, "resources": list(resources), **rest}


def amount(tree, name="a", resource=GPU, flavor="", field="nominal"):
    return getattr(tree.by_name[name], field)[FlavorResource(flavor, resource)]


def test_a_leaf_gets_its_part_of_all_nodes_in_whole_gpus():
    tree = filled([node("n0", gpu=4), node("n1", gpu=3)], [], queue("a", from_nodes=shared("1/3")))
    assert amount(tree) == 2
    assert tree.by_name["a"].note == "from_nodes: 1/3 of 7 nvidia.com/gpu on 2 nodes less DaemonSets and static pods"


def test_what_daemons_ask_for_is_not_there_for_gangs():
    nodes = [node("n0", cpu="4"), node("n1", cpu="4")]
    pods = [
        pod("n0", cpu="1"),
        pod("n1", None, static=True, cpu="500m"),
        pod("n0", "ReplicaSet", cpu="2"),
        pod("n0", phase="Succeeded", cpu="2"),
        pod("n0", going=True, cpu="2"),
        pod(None, cpu="2"),
        pod("gone", cpu="2"),
    ]
    assert amount(filled(nodes, pods, queue("a", from_nodes=shared("1", ["cpu"]))), resource="cpu") == 6500
    whole = shared("1", ["cpu"], less_daemons=False)
    assert amount(filled(nodes, pods, queue("a", from_nodes=whole)), resource="cpu") == 8000


def test_a_node_with_more_daemons_than_room_takes_nothing_from_others():
    nodes = [node("n0", cpu="1"), node("n1", cpu="4")]
    tree = filled(nodes, [pod("n0", cpu="3")], queue("a", from_nodes=shared("1", ["cpu"])))
    assert amount(tree, resource="cpu") == 4000


def test_only_selected_nodes_count():
    nodes = [node("n0", {"pool": "x"}, gpu=4), node("n1", {"pool": "y"}, gpu=8)]
    tree = filled(nodes, [], queue("a", from_nodes=shared("1", node_selector={"pool": "x"})))
    assert amount(tree) == 4
    assert " with pool=x " in tree.by_name["a"].note


def test_the_root_gets_its_capacity_and_keeps_what_it_has_besides():
    root = queue("root", capacity={"cpu": 8}, from_nodes=shared("1"), note="ours")
    tree = filled([node("n0", gpu=4)], [], root, queue("a", "root", from_nodes=shared("1/2")))
    assert amount(tree, "root", field="capacity") == 4
    assert amount(tree, "root", "cpu", field="capacity") == 8000
    assert amount(tree) == 2
    assert tree.by_name["root"].note.startswith("ours; from_nodes: 1 of 4 nvidia.com/gpu on 1 node")


def test_a_node_counts_for_the_first_flavor_that_it_is_of():
    flavors = [
        QuotaFlavor("spot", {"spot": "yes"}),
        QuotaFlavor("big", {"size": "big"}),
        QuotaFlavor("none", {"no": "1"}),
    ]
    nodes = [node("n0", {"spot": "yes", "size": "big"}, gpu=4), node("n1", {"size": "big"}, gpu=8), node("n2", gpu=16)]
    tree = filled(nodes, [], queue("a", from_nodes=shared("1/4")), flavors=flavors)
    assert tree.by_name["a"].nominal == {FlavorResource("spot", GPU): 1, FlavorResource("big", GPU): 2}


@pytest.mark.parametrize(
    ("nodes", "rest", "field", "cause"),
    [
        ([], {}, "from_nodes", "there are no nodes"),
        ([node("n", gpu=1)], {"node_selector": {"a": "b"}}, "from_nodes", "no node has the labels a=b"),
        ([node("n", cpu=1)], {}, "from_nodes.resources", "none of the nodes has nvidia.com/gpu"),
    ],
)
def test_a_share_of_nothing_is_refused_by_path(nodes, rest, field, cause):
    with pytest.raises(BadTree) as failed:
        filled(nodes, [], queue("root"), queue("a", "root", from_nodes=shared(**rest)))
    (problem,) = failed.value.problems
    assert (problem.where, problem.field, problem.cause) == ("root/a", field, cause)


def test_a_share_of_what_nodes_have_none_left_of_is_nothing():
    assert amount(filled([node("n", gpu=0)], [], queue("a", from_nodes=shared()))) == 0


def test_parts_that_make_one_never_come_to_more_than_there_is():
    """Whatever the parts, the nodes and their daemons; and never to less than one unit for each part short of it."""
    chance = random.Random(15)
    for _number in range(examples(200)):
        nodes = [node(f"n{index}", gpu=chance.randint(0, 9), memory=chance.randint(0, 999)) for index in range(5)]
        pods = [pod(f"n{chance.randrange(5)}", memory=str(chance.randint(0, 500))) for _ in range(4)]
        cuts = sorted(Fraction(chance.randint(0, 30), 30) for _ in range(chance.randint(1, 6)))
        parts = [high - low for low, high in zip([Fraction(0), *cuts], [*cuts, Fraction(1)], strict=True)]
        names = [f"q{number}" for number in range(len(parts))]
        asked = [
            queue(name, "root", from_nodes=shared(str(part), [GPU, "memory"]))
            for name, part in zip(names, parts, strict=True)
        ]
        tree = filled(nodes, pods, queue("root", from_nodes=shared("1", [GPU, "memory"])), *asked)
        wanted = take_node_shares({"queues": asked}).shared[0].wanted
        totals = total_of(node_supply(nodes, pods), wanted, ())[""].amounts
        for resource, total in totals.items():
            given = sum(amount(tree, name, resource) for name in names)
            assert total - len(parts) < given <= total == amount(tree, "root", resource, field="capacity")
