# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trees whose queues are shares of nodes, or those of MCAD, as tasks declare them on a server in memory."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions, SubtreeSource
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import read_stored_tree
from ansible_collections.muster.kube.tests.support.mcad_forest import CONTEXT, SERVICE, imported_tree, mcad_subtrees
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial, Kind, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_wire import Line
from ansible_collections.muster.kube.tests.support.quota_trees import queue

SUBTREES = Kind("quota.codeflare.dev/v1alpha1", "QuotaSubtree", "quotasubtrees")
HALF = {"share": "1/2", "resources": ["cpu", "nvidia.com/gpu"]}
HALVES = [queue("root"), queue("a", "root", from_nodes=HALF), queue("b", "root", from_nodes=HALF)]


@pytest.fixture
def cluster():
    """Two nodes, a daemon on one of them."""
    made = MemoryCluster()
    made.add("namespaces", {"metadata": {"name": "team"}})
    for number in range(2):
        add_node(made, f"n{number}")
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}]
    metadata = {"name": "d-1", "namespace": "team", "ownerReferences": [owner]}
    made.add("pods", {"metadata": metadata, "spec": {"nodeName": "n0", "containers": containers}})
    return made


def add_node(cluster, name):
    cluster.add(
        "nodes",
        {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "nvidia.com/gpu": "3"}}},
    )


def run(line, declaration, *, tree="default", subtrees=None, check=False):
    return run_quota(line.client, QuotaOptions(tree, "team", "present", declaration, check, subtrees))


def test_shares_are_stored_as_numbers_and_change_with_the_nodes_only(cluster):
    line = Line(cluster)
    foretold = run(line, {"queues": HALVES}, check=True).as_result(diff=True)
    assert line.writes == []
    assert foretold.pop("would") == {"start": [], "wait": [], "reclaim": [], "shrink": []}
    assert run(line, {"queues": HALVES}).as_result(diff=True) == foretold
    stored = read_stored_tree(line.client(), "team", "default").tree
    assert {key.resource: amount for key, amount in stored.by_name["a"].nominal.items()} == {
        "cpu": 3750,
        "nvidia.com/gpu": 3,
    }
    assert "7500m cpu, 6 nvidia.com/gpu on 2 nodes" in stored.by_name["a"].note
    line.sent.clear()
    assert not run(line, {"queues": HALVES}).changed
    assert line.writes == []
    add_node(cluster, "n2")
    shown = run(line, {"queues": HALVES}).as_result(diff=True)["diff"]
    assert shown["after"]["queues"]["root/a"]["nominal"] == {"cpu": "5750m", "nvidia.com/gpu": "4"}


def test_all_mistakes_are_told_before_a_server_is_asked():
    def nobody():
        raise AssertionError("no server is needed")

    queues = [queue("root"), queue("a", "root", from_nodes={**HALF, "share": "2"}), queue("b", "gone")]
    with pytest.raises(BadTree) as failed:
        run_quota(nobody, QuotaOptions("default", "team", "present", {"queues": queues}))
    assert [(item.where, item.field) for item in failed.value.problems] == [
        ("gone/b", "parent"),
        ("root/a", "from_nodes.share"),
    ]


def test_more_shares_than_there_is_are_over_capacity(cluster):
    whole = {**HALF, "share": "1"}
    queues = [queue("root", from_nodes=whole), *HALVES[1:], queue("c", "root", from_nodes=HALF)]
    with pytest.raises(BadTree, match=r"root: capacity\.cpu"):
        run(Line(cluster), {"queues": queues})


def test_pods_are_read_only_if_daemons_matter(cluster):
    cluster.denials.append(Denial("admin", ["list"], ["pods"]))
    whole = {**HALF, "less_daemons": False}
    assert run(Line(cluster), {"queues": [queue("a", from_nodes=whole)]}).changed
    with pytest.raises(Forbidden):
        run(Line(cluster), {"queues": [queue("a", from_nodes=HALF)]})


def serve_mcad(cluster):
    """MCAD's kind and the trees of its tests."""
    cluster.serve(SUBTREES)
    cluster.add("namespaces", {"metadata": {"name": "kube-system"}})
    for subtrees in mcad_subtrees().values():
        for obj in subtrees:
            cluster.add("quotasubtrees", obj)


def test_a_tree_of_mcad_is_taken_over_and_found_again(cluster):
    serve_mcad(cluster)
    line = Line(cluster)
    source = SubtreeSource(CONTEXT)
    result = run(line, {"over_capacity": "warn"}, tree="quota-context", subtrees=source)
    assert read_stored_tree(line.client(), "team", "quota-context").tree == imported_tree(CONTEXT)
    assert len(result.warnings) == 3
    assert result.as_result(diff=False)["notes"][0].startswith("quota_context: this is a copy")
    line.sent.clear()
    assert not run(line, {"over_capacity": "warn"}, tree="quota-context", subtrees=source).changed
    assert line.writes == []


def test_options_of_the_task_stand_beside_what_mcad_has(cluster):
    serve_mcad(cluster)
    declaration = {"settings": {"fair": "usage"}, "over_capacity": "warn", "label": "service", "queues": None}
    run(Line(cluster), declaration, tree="service", subtrees=SubtreeSource(SERVICE, "kube-system"))
    tree = read_stored_tree(Line(cluster).client(), "team", "service").tree
    assert (tree.settings.fair, tree.label, len(tree.leaves)) == ("usage", "service", 2)


def test_mcad_that_is_not_there_and_trees_that_it_does_not_have_are_told(cluster):
    with pytest.raises(MusterError, match="serves no QuotaSubtree"):
        run(Line(cluster), {}, subtrees=SubtreeSource())
    serve_mcad(cluster)
    for source in (SubtreeSource(), SubtreeSource(CONTEXT, "elsewhere")):
        with pytest.raises(BadTree, match="no QuotaSubtree has the label tree="):
            run(Line(cluster), {}, subtrees=source)
    with pytest.raises(BadTree, match=r"root: capacity\.cpu"):
        run(Line(cluster), {}, subtrees=SubtreeSource(CONTEXT))
