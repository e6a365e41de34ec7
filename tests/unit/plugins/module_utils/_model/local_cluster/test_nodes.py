# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as the groups ask for them, and what differs on live ones."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterSpec,
    NodeGroup,
    check_spec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import (
    MANAGED_ANNOTATION,
    build_node,
    build_nodes,
    find_change,
    is_ready,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

GROUP = NodeGroup(
    "gpu", 2, "8", "8118372Ki", 110, (("nvidia.com/gpu", "8"),), (("zone", "a"),), (Taint("gpu", "NoSchedule"),)
)


def live(group=GROUP, index=0, **changes):
    """A node as the API server returns it."""
    node = json.loads(json.dumps(build_node(group, index)))
    node["metadata"]["resourceVersion"] = "5"
    node["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return {**node, **changes}


def test_a_node_offers_what_its_group_says():
    node = build_node(GROUP, 1)
    assert node["metadata"]["name"] == "gpu-1"
    assert node["metadata"]["labels"] == {
        "kubernetes.io/hostname": "gpu-1",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "zone": "a",
        "muster.kube/node-group": "gpu",
    }
    assert node["status"]["allocatable"] == {"cpu": "8", "memory": "8118372Ki", "pods": "110", "nvidia.com/gpu": "8"}
    assert node["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]


def test_groups_whose_nodes_would_have_the_same_name_are_refused():
    groups = (NodeGroup("a", 11, "1", "1", 1), NodeGroup("a-1", 1, "1", "1", 1))
    assert len(build_nodes(groups)) == 12
    with pytest.raises(BadInput, match="second node called a-1-0"):
        build_nodes((*groups, NodeGroup("a-1", 1, "1", "1", 1)))


def test_an_equal_node_needs_no_change_even_if_written_differently():
    wanted = build_node(NodeGroup("gpu", 2, "8000m", "8313212928", 110, GROUP.extended, GROUP.labels, GROUP.taints), 0)
    assert find_change(wanted, live()) is None


def test_what_others_added_stays():
    node = live()
    node["metadata"]["labels"]["theirs"] = "x"
    node["spec"]["taints"].append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    node["status"]["capacity"]["theirs/thing"] = "1"
    assert find_change(build_node(GROUP, 0), node) is None


def test_changed_capacity_is_patched_and_dropped_resources_are_removed():
    wanted = build_node(NodeGroup("gpu", 2, "4", "8118372Ki", 110, (), GROUP.labels, GROUP.taints), 0)
    change = find_change(wanted, live())
    amounts = {"cpu": "4", "nvidia.com/gpu": None}
    assert change.status == {"status": {"capacity": amounts, "allocatable": amounts}}


def test_changed_labels_are_patched_and_dropped_ones_are_removed():
    wanted = build_node(NodeGroup("gpu", 2, "8", "8118372Ki", 110, GROUP.extended, (("row", "1"),), GROUP.taints), 0)
    change = find_change(wanted, live())
    assert change.node["metadata"]["labels"] == {"row": "1", "zone": None}
    assert change.status == {}


def test_changed_taints_replace_only_ours_and_insist_on_what_was_read():
    node = live()
    theirs = {"key": "theirs", "effect": "NoExecute", "value": "x"}
    node["spec"]["taints"].insert(0, theirs)
    group = NodeGroup("gpu", 2, "8", "8118372Ki", 110, GROUP.extended, GROUP.labels, (Taint("new", "NoSchedule", "v"),))
    change = find_change(build_node(group, 0), node)
    assert change.node["spec"]["taints"] == [theirs, {"key": "new", "effect": "NoSchedule", "value": "v"}]
    assert change.node["metadata"]["resourceVersion"] == "5"


def test_a_spoilt_record_of_what_is_ours_is_written_anew():
    node = live()
    node["metadata"]["annotations"][MANAGED_ANNOTATION] = "{"
    change = find_change(build_node(GROUP, 0), node)
    assert list(change.node["metadata"]["annotations"]) == [MANAGED_ANNOTATION]


@pytest.mark.parametrize(
    ("status", "taints", "expected"),
    [
        ("True", None, True),
        ("False", None, False),
        ("True", [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}], False),
        ("True", [{"key": "other", "effect": "NoSchedule"}], True),
    ],
)
def test_a_node_is_ready_when_it_takes_pods(status, taints, expected):
    node = {"spec": {"taints": taints}, "status": {"conditions": [{"type": "Ready", "status": status}]}}
    assert is_ready(node) is expected


def test_a_node_without_status_is_not_ready():
    assert is_ready({"spec": {}, "status": {}}) is False


def test_of_a_real_node_only_what_the_user_wrote_is_wanted():
    extended, labels = (("nvidia.com/gpu", "2"),), (("a", "b"),)
    node = build_node(NodeGroup("real", 1, "", "", 110, extended, labels, real=True), 0)
    assert node["metadata"]["name"] == "real-0"
    assert node["metadata"]["labels"] == {"a": "b", "muster.kube/node-group": "real", "muster.kube/real": "true"}
    assert node["status"] == {"capacity": {"nvidia.com/gpu": "2"}, "allocatable": {"nvidia.com/gpu": "2"}}
    live = {
        "metadata": {**node["metadata"], "labels": {**node["metadata"]["labels"], "kubernetes.io/os": "linux"}},
        "spec": {},
        "status": {"capacity": {"cpu": "2", "nvidia.com/gpu": "2"}, "allocatable": {"cpu": "2", "nvidia.com/gpu": "2"}},
    }
    assert find_change(node, live) is None


def test_a_group_may_have_no_node_yet():
    assert check_spec(ClusterSpec("c", (NodeGroup("a", 0, "1", "1", 1),)), ()) is None
    assert check_spec(ClusterSpec("a" * 42), ()) is None
    assert build_nodes((NodeGroup("a", 0, "1", "1", 1),)) == {}


@pytest.mark.parametrize(
    ("conditions", "taints", "expected"),
    [
        ([("DiskPressure", "False"), ("Ready", "True")], [], True),
        ([("DiskPressure", "True"), ("Ready", "False")], [], False),
        ([("DiskPressure", "True")], [], False),
        ([("Ready", "True")], ["mine", "node.kubernetes.io/not-ready"], False),
    ],
)
def test_one_condition_and_one_taint_decide_whether_a_node_is_ready(conditions, taints, expected):
    told = [{"type": kind, "status": status} for kind, status in conditions]
    assert is_ready({"spec": {"taints": [{"key": key} for key in taints]}, "status": {"conditions": told}}) is expected


def test_what_was_dropped_and_is_gone_already_needs_no_change():
    node = live()
    del node["metadata"]["labels"]["zone"]
    for field in ("capacity", "allocatable"):
        del node["status"][field]["nvidia.com/gpu"]
    node["spec"]["taints"] = []
    change = find_change(build_node(NodeGroup("gpu", 2, "8", "8118372Ki", 110), 0), node)
    assert change.node["metadata"]["labels"] == {}
    assert list(change.node["metadata"]["annotations"]) == [MANAGED_ANNOTATION]
    assert ("spec" in change.node, change.status) == (False, {})


def test_one_taint_that_differs_is_enough_to_write_all():
    two = (Taint("gpu", "NoSchedule"), Taint("team", "NoExecute", "ai"))
    group = NodeGroup("gpu", 2, "8", "8118372Ki", 110, GROUP.extended, GROUP.labels, two)
    node = live(group)
    assert find_change(build_node(group, 0), node) is None
    node["spec"]["taints"][1]["value"] = "other"
    change = find_change(build_node(group, 0), node)
    assert change.node["spec"]["taints"] == [
        {"key": "gpu", "effect": "NoSchedule"},
        {"key": "team", "effect": "NoExecute", "value": "ai"},
    ]
    fewer = NodeGroup("gpu", 2, "8", "8118372Ki", 110, GROUP.extended, GROUP.labels, two[:1])
    assert find_change(build_node(fewer, 0), live(group)).node["spec"]["taints"] == [
        {"key": "gpu", "effect": "NoSchedule"}
    ]
