# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes are created, changed and deleted to be as wanted, and nothing is written when they are."""

from __future__ import annotations

import time

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import nodes
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.nodes import (
    list_nodes,
    settle_real,
    summarize,
    wait_ready,
    write_nodes,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import NodeGroup
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import build_nodes
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.plan import (
    WriteNodes,
    describe_actions,
    plan_nodes,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Taint
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


def silent(_text):
    """Nobody listens."""


def converge(client, *groups, report=silent):
    wanted = build_nodes(groups)
    plan = plan_nodes(wanted, list_nodes(client))
    write_nodes(client, plan, wanted, report)
    return plan


def group(name="a", count=2, cpu="8", **more):
    return NodeGroup(name, count, cpu, "1Gi", 110, **more)


def test_missing_nodes_are_created_and_a_second_run_writes_nothing(api, client):
    plan = converge(client, group())
    assert describe_actions([plan]) == ["create 2 nodes (a-0, a-1)"]
    assert sorted(api.writes) == [("POST", "/api/v1/nodes")] * 2
    api.writes.clear()
    assert converge(client, group()) == WriteNodes()
    assert api.writes == []


def test_surplus_nodes_are_deleted_but_only_ours(api, client):
    converge(client, group(count=3))
    api.objects["/api/v1/nodes/real"] = {"metadata": {"name": "real", "resourceVersion": "1"}}
    api.objects["/api/v1/nodes/odd"] = {
        "metadata": {"name": "odd", "labels": {"muster.kube/node-group": "a"}, "resourceVersion": "1"}
    }
    assert describe_actions([converge(client, group(count=1))]) == ["delete 2 nodes (a-1, a-2)"]
    assert {name for name in api.objects if name.startswith("/api/v1/nodes/")} == {
        "/api/v1/nodes/a-0",
        "/api/v1/nodes/real",
        "/api/v1/nodes/odd",
    }


def test_changed_nodes_are_patched_through_the_right_resource(api, client):
    converge(client, group(count=1))
    api.writes.clear()
    assert describe_actions([converge(client, group(count=1, cpu="4"))]) == ["change node a-0"]
    assert api.writes == [("PATCH", "/api/v1/nodes/a-0/status")]
    api.writes.clear()
    converge(client, group(count=1, cpu="4", labels=(("x", "y"),), taints=(Taint("t", "NoSchedule"),)))
    assert api.writes == [("PATCH", "/api/v1/nodes/a-0")]
    node = api.objects["/api/v1/nodes/a-0"]
    assert node["status"]["allocatable"]["cpu"] == "4"
    assert node["metadata"]["labels"]["x"] == "y"
    assert node["spec"]["taints"] == [{"key": "t", "effect": "NoSchedule"}]


def test_a_conflict_is_met_by_looking_again(api, client):
    converge(client, group(count=1))
    api.conflicts.append("/api/v1/nodes/a-0")
    converge(client, group(count=1, taints=(Taint("t", "NoSchedule"),)))
    assert api.objects["/api/v1/nodes/a-0"]["spec"]["taints"] == [{"key": "t", "effect": "NoSchedule"}]
    assert converge(client, group(count=1, taints=(Taint("t", "NoSchedule"),))) == WriteNodes()


def test_nodes_that_came_or_went_meanwhile_are_fine(api, client):
    wanted = build_nodes([group(count=1)])
    plan = plan_nodes(wanted, {"gone-0": {"metadata": {"name": "gone-0"}}})
    converge(client, group(count=1))
    write_nodes(client, plan, wanted, silent)
    assert "/api/v1/nodes/a-0" in api.objects


def test_long_lists_tell_their_progress(client, monkeypatch):
    monkeypatch.setattr(nodes, "BATCH", 2)
    told = []
    converge(client, group(count=3), report=told.append)
    assert told == ["created 2 of 3 nodes", "created 3 of 3 nodes"]


def test_waiting_returns_the_live_nodes(client):
    converge(client, group())
    live = wait_ready(client, ["a-0", "a-1"], time.monotonic() + 5, silent)
    assert summarize(live.values()) == {"count": 2, "ready": 2, "groups": {"a": {"count": 2, "ready": 2}}}


def test_a_node_that_does_not_get_ready_is_named(api, client):
    converge(client, group())
    api.objects["/api/v1/nodes/a-1"]["status"]["conditions"] = []
    with pytest.raises(MusterError, match="Cannot wait for node a-1: not ready in time, nor are 0 others"):
        wait_ready(client, ["a-0", "a-1"], time.monotonic() - 1, silent)
    assert summarize(list_nodes(client).values())["ready"] == 1


REAL = NodeGroup("real", 1, "", "", 110, (("nvidia.com/gpu", "2"),), (("a", "b"),), (Taint("t", "NoSchedule"),), True)


def test_a_real_node_creates_itself_and_is_then_made_as_wanted(api, client):
    wanted = build_nodes([REAL])
    assert describe_actions([converge(client, REAL)]) == ["create node real-0"]
    assert api.writes == []
    api.objects["/api/v1/nodes/real-0"] = {
        "metadata": {
            "name": "real-0",
            "labels": {"muster.kube/node-group": "real", "muster.kube/real": "true", "kubernetes.io/os": "linux"},
            "resourceVersion": "1",
        },
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "2"}, "allocatable": {"cpu": "2"}},
    }
    settle_real(client, wanted["real-0"], time.monotonic() + 5)
    node = api.objects["/api/v1/nodes/real-0"]
    assert node["status"]["allocatable"] == {"cpu": "2", "nvidia.com/gpu": "2"}
    assert (node["metadata"]["labels"]["a"], node["metadata"]["labels"]["kubernetes.io/os"]) == ("b", "linux")
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["node.kubernetes.io/not-ready", "t"]
    api.writes.clear()
    settle_real(client, wanted["real-0"], time.monotonic() + 5)
    assert converge(client, REAL) == WriteNodes()
    assert api.writes == []
    assert describe_actions([converge(client)]) == ["delete node real-0"]


def test_a_kubelet_that_never_registers_is_given_up(client):
    with pytest.raises(MusterError, match="the kubelet did not register it in time"):
        settle_real(client, build_nodes([REAL])["real-0"], time.monotonic() - 1)
