# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of a local cluster: everything that is left to do, in order, and nothing when it is done."""

from __future__ import annotations

import dataclasses
import os
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster import plan
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    Catalogue,
    ClusterSpec,
    NodeGroup,
    ProcessSpec,
    Program,
)
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.nodes import build_nodes

SEED = int(os.environ.get("MUSTER_SEED", "1"))


def process(name):
    return ProcessSpec(name, "p", name, (), (), "")


PROGRAM = Program("p", "m", "v1", ())
CATALOGUE = Catalogue(
    {"p": PROGRAM},
    (process("etcd"), process("kube-apiserver")),
    {"ray": process("ray"), "kueue": process("kueue")},
    process("registry"),
    process("service-forwarder"),
    (process("containerd"), process("kubelet")),
)
NODE = NodeGroup("node", 2, "8", "1Gi", 110)
REAL = NodeGroup("real", 1, "", "", 110, real=True)
NAMES = ("etcd", "kube-apiserver", "ray", "kueue", "registry", "service-forwarder", "containerd", "kubelet")
RUNNING = dict.fromkeys(NAMES, "running")


def found(spec, **changes):
    """A cluster that is as wanted, but for some changes."""
    group = spec.real_group
    values = {
        "answers": True,
        "conditions": RUNNING,
        "recorded": tuple(item.name for item in CATALOGUE.processes(spec)),
        "real_node": group.node_name(0) if group else "",
        "has_bridge": group is not None,
        "has_service_address": spec.services,
        "nodes": build_nodes(spec.nodes),
    }
    return plan.FoundCluster(**{**values, **changes})


def lines(spec, state):
    return plan.describe_actions(plan.plan_cluster(CATALOGUE, spec, state))


@pytest.mark.parametrize("services", [False, True])
def test_nothing_is_planned_for_a_cluster_that_is_as_wanted(services):
    spec = ClusterSpec("c", (NODE, REAL), ("ray",), registry=True, services=services)
    assert plan.plan_cluster(CATALOGUE, spec, found(spec)) == []


def test_a_new_cluster_is_planned_in_the_order_in_which_it_must_be_made():
    spec = ClusterSpec("c", (NODE, REAL), ("ray",), registry=True, services=True)
    nothing = plan.FoundCluster(
        unbuilt=(PROGRAM,), conditions=dict.fromkeys(RUNNING, "absent"), differing=("the objects of ray",)
    )
    assert lines(spec, nothing) == [
        "build p v1",
        "start etcd",
        "start kube-apiserver",
        "write the objects of ray",
        "start ray",
        "start registry",
        "create the network bridge of the pods",
        "put the address of services on the bridge",
        "start service-forwarder",
        "start containerd",
        "start kubelet",
        "create 3 nodes (node-0, node-1, real-0)",
    ]


def test_what_is_not_wanted_any_more_is_stopped_operators_after_the_api_server_runs():
    before = ClusterSpec("c", (REAL,), ("ray", "kueue"), registry=True)
    conditions = {**RUNNING, "kube-apiserver": "stopped"}
    spec = ClusterSpec("c", operators=("kueue",))
    assert lines(spec, found(before, conditions=conditions, recorded=(*found(before).recorded, "unknown"))) == [
        "stop registry",
        "stop unknown",
        "stop kubelet",
        "stop containerd",
        "restart kube-apiserver, which had ended",
        "stop ray",
        "delete node real-0",
    ]


def test_a_real_node_of_another_name_is_another_node():
    spec = ClusterSpec("c", (dataclasses.replace(REAL, name="other"),))
    assert lines(spec, found(ClusterSpec("c", (REAL,)))) == [
        "stop kubelet",
        "stop containerd",
        "create the network bridge of the pods",
        "start containerd",
        "start kubelet",
        "create node other-0",
        "delete node real-0",
    ]


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ("running", "restart kubelet, whose node was deleted"),
        ("outdated", "restart kubelet with changed settings"),
        ("stopped", "restart kubelet, which had ended"),
    ],
)
def test_a_kubelet_whose_node_was_deleted_is_started_anew(condition, line):
    spec = ClusterSpec("c", (REAL,))
    state = found(spec, nodes={}, conditions={**RUNNING, "kubelet": condition})
    assert lines(spec, state) == [line, "create node real-0"]


def test_services_come_and_go_with_their_address():
    without, with_services = ClusterSpec("c", (REAL,)), ClusterSpec("c", (REAL,), services=True)
    outdated = {**RUNNING, "kube-apiserver": "outdated"}
    assert lines(with_services, found(without, conditions={**outdated, "service-forwarder": "absent"})) == [
        "restart kube-apiserver with changed settings",
        "put the address of services on the bridge",
        "start service-forwarder",
    ]
    assert lines(without, found(with_services, conditions=outdated)) == [
        "stop service-forwarder",
        "restart kube-apiserver with changed settings",
        "take the address of services from the bridge",
    ]
    assert lines(ClusterSpec("c"), found(with_services)) == [
        "stop service-forwarder",
        "stop kubelet",
        "stop containerd",
        "delete node real-0",
    ]


def test_a_forwarder_is_started_anew_on_another_bridge():
    spec = ClusterSpec("c", (REAL,), services=True)
    new_bridge = ["create the network bridge of the pods", "put the address of services on the bridge"]
    assert lines(spec, found(spec, has_bridge=False, has_service_address=False)) == [
        *new_bridge,
        "restart service-forwarder, whose network bridge is gone",
    ]
    other = ClusterSpec("c", (dataclasses.replace(REAL, name="other"),), services=True)
    assert lines(other, found(spec)) == [
        "stop service-forwarder",
        "stop kubelet",
        "stop containerd",
        *new_bridge,
        "start service-forwarder",
        "start containerd",
        "start kubelet",
        "create node other-0",
        "delete node real-0",
    ]


def test_an_address_that_somebody_took_is_put_back():
    spec = ClusterSpec("c", (REAL,), services=True)
    assert lines(spec, found(spec, has_service_address=False)) == ["put the address of services on the bridge"]


def draw_spec(chance):
    groups = [NodeGroup("node", chance.choice((0, 1, 5)), chance.choice(("4", "8")), "1Gi", 110)]
    if chance.random() < 0.5:
        groups.append(dataclasses.replace(REAL, name=chance.choice(("real", "other"))))
    operators = tuple(name for name in CATALOGUE.operators if chance.random() < 0.5)
    services = len(groups) > 1 and chance.random() < 0.5
    return ClusterSpec("c", tuple(groups), operators, registry=chance.random() < 0.5, services=services)


def draw_found(chance):
    """Any state, whether a run could have left it or not."""
    before = draw_spec(chance)
    conditions = {name: chance.choice(("running", "running", "outdated", "stopped", "absent")) for name in RUNNING}
    live = {name: node for name, node in build_nodes(before.nodes).items() if chance.random() < 0.8}
    has_bridge = chance.random() < 0.5
    return found(
        before,
        unbuilt=(PROGRAM,) if chance.random() < 0.2 else (),
        conditions=conditions,
        recorded=tuple(name for name in RUNNING if chance.random() < 0.5),
        has_bridge=has_bridge,
        has_service_address=has_bridge and chance.random() < 0.5,
        differing=("Namespace ray",) if chance.random() < 0.2 else (),
        nodes=live,
    )


def carry_out(spec, state, actions):
    """The state after all actions."""
    group = spec.real_group
    wanted, nodes, conditions = build_nodes(spec.nodes), dict(state.nodes), dict(state.conditions)
    recorded, unbuilt, differing, bridge = set(state.recorded), state.unbuilt, state.differing, state.has_bridge
    address = state.has_service_address
    for action in actions:
        match action:
            case plan.Build():
                unbuilt = ()
            case plan.StopProcess(name) | plan.DropOperator(name):
                recorded.remove(name)
            case plan.RemoveRealNode():
                recorded -= {"kubelet", "containerd"}
                bridge = address = False
            case plan.StartProcess(name, reason):
                assert reason != "running"
                recorded.add(name)
                conditions[name] = "running"
            case plan.WriteObjects():
                differing = ()
            case plan.CreateBridge():
                assert not bridge
                bridge = True
            case plan.SetServiceAddress(present):
                assert bridge
                assert address != present
                address = present
            case plan.WriteNodes(create, change, delete):
                assert not set(create) & set(nodes)
                nodes |= {name: wanted[name] for name in (*create, *change)}
                for name in delete:
                    del nodes[name]
    values = {"conditions": conditions, "recorded": tuple(recorded), "nodes": nodes}
    values |= {"has_bridge": bridge, "has_service_address": address}
    real_node = group.node_name(0) if group else ""
    return dataclasses.replace(state, unbuilt=unbuilt, differing=differing, real_node=real_node, **values)


@pytest.mark.parametrize("seed", range(SEED * 1000, SEED * 1000 + 200))
def test_whatever_was_found_nothing_is_left_to_do_after_the_plan(seed):
    chance = random.Random(seed)
    spec, state = draw_spec(chance), draw_found(chance)
    after = carry_out(spec, state, plan.plan_cluster(CATALOGUE, spec, state))
    assert plan.plan_cluster(CATALOGUE, spec, after) == []
    assert set(after.nodes) == set(build_nodes(spec.nodes))
    assert set(after.recorded) <= {item.name for item in CATALOGUE.processes(spec)}
