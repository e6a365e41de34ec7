# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rooms: what is free, and the copies in which pods have ended or nodes were opened."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import pod_from_api
from ansible_collections.muster.kube.tests.support.cluster_model import node, pod, room

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
ANTI = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
        ]
    }
}


def crowd():
    """Two nodes, a daemon and a job's pod on the first."""
    daemon = pod("daemon", on="a", requests={"cpu": "1"})
    daemon["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": "d", "controller": True}]
    work = pod("work", on="a", labels={"app": "x"}, requests={"cpu": "2"}, affinity=ANTI)
    nodes = [node("a", cpu="4", taints=[CORDON], unschedulable=True), node("b", labels={"zone": "z"}, cpu="4")]
    return room(nodes, [daemon, work, pod("lost", on="gone", requests={"cpu": "1"}), pod("waiting")])


def test_pods_take_from_their_node_and_strangers_from_none():
    crowded = crowd()
    assert [free["cpu"] for free in crowded.free] == [1000, 4000]
    assert [free["pods"] for free in crowded.free] == [108, 110]


def test_a_resource_the_node_lacks_goes_below_zero():
    crowded = room([node("a", cpu="1")], [pod("p", on="a", requests={"nvidia.com/gpu": "2"})])
    assert crowded.free[0]["nvidia.com/gpu"] == -2


def test_added_pods_are_counted_in_groups_made_before():
    crowded = crowd()
    everyone = crowded.count_matching(lambda namespace, labels: True, terminating=True)
    assert everyone == {0: 2}
    going = pod("more", on="b", labels={"app": "x"})
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    crowded.add(pod_from_api(going))
    wanted = {"matches": lambda namespace, labels: labels.get("app") == "x"}
    assert crowded.count_matching(**wanted, terminating=True) == {0: 1, 1: 1}
    assert crowded.count_matching(**wanted, terminating=False) == {0: 1}


def test_ports_claims_and_anti_affinity_of_present_pods_are_kept():
    holder = pod(
        "p",
        on="a",
        affinity=ANTI,
        containers=[{"name": "c", "ports": [{"hostPort": 80}]}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    crowded = room([node("a")], [holder])
    assert crowded.ports[0][0].port == 80
    assert crowded.used_claims[("default", "data")] == 1
    assert [dict(counts) for counts in crowded.anti_terms.values()] == [{0: 1}]


def test_copies_leave_the_original_alone():
    crowded = crowd()
    work = next(item for item in crowded.pods_on[0] if item.name == "work")
    assert crowded.without([work]).free[0]["cpu"] == 3000
    assert crowded.emptied().free[0]["cpu"] == 3000
    assert [item.name for item in crowded.emptied().pods_on[0]] == ["daemon"]
    assert crowded.free[0]["cpu"] == 1000


def test_a_pod_that_ended_leaves_nothing_behind():
    holder = pod(
        "p",
        on="a",
        labels={"app": "x"},
        requests={"cpu": "1"},
        affinity=ANTI,
        containers=[{"name": "c", "ports": [{"hostPort": 80}]}],
        volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    for look_first in (False, True):
        crowded = room([node("a", labels={"zone": "z"}, cpu="2")], [holder, pod("other", on="a")])
        everyone = {"matches": lambda namespace, labels: labels.get("app") == "x", "terminating": True}
        if look_first:
            assert sum(crowded.count_matching(**everyone).values()) == 1
        after = crowded.without([crowded.pods_on[0][0]])
        assert after.free[0] == {"cpu": 2000, "pods": 109}
        assert (after.ports[0], after.used_claims[("default", "data")]) == ([], 0)
        assert not any(count for counts in after.anti_terms.values() for count in counts.values())
        assert not any(after.count_matching(**everyone).values())
        assert [item.name for item in after.pods_on[0]] == ["other"]
        assert len(crowded.pods_on[0]) == 2
        assert crowded.ports[0]
        assert sum(crowded.count_matching(**everyone).values()) == 1


def test_opened_nodes_lose_cordon_and_passing_taints_only():
    taints = [CORDON, {"key": "mine", "effect": "NoSchedule"}, {"key": "node.kubernetes.io/not-ready", "effect": "x"}]
    closed = room([node(name, taints=taints, unschedulable=True) for name in ("a", "b")], [pod("p", on="a")])
    first, second = closed.opened({"a"}).nodes
    assert (first.unschedulable, [taint.key for taint in first.taints]) == (False, ["mine"])
    assert second == closed.nodes[1]
    assert not any(item.unschedulable for item in closed.opened().nodes)
    assert not any(item.unschedulable for item in closed.emptied().nodes)
    assert closed.opened().opened().nodes == closed.opened().nodes
    assert len(closed.opened().pods_on[0]) == 1


def test_host_names_that_name_two_nodes_name_none():
    shared = {"kubernetes.io/hostname": "same"}
    nodes = [node("a"), node("b", labels=shared), node("c", labels=shared), node("d")]
    del nodes[3]["metadata"]["labels"]["kubernetes.io/hostname"]
    assert room(nodes).host_names == {0: "a"}
    assert room(nodes).domains("kubernetes.io/hostname") == ["a", "same", "same", None]


def test_a_namespace_always_has_its_name_label():
    known = room([], namespaces={"team": {"kind": "ai"}})
    assert known.namespace_labels("team") == {"kind": "ai"}
    assert known.namespace_labels("other") == {"kubernetes.io/metadata.name": "other"}
