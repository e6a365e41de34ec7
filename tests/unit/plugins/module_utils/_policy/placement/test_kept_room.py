# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A room that is kept tells the same as one built anew, and what did not change is not counted again."""

from __future__ import annotations

import collections
import dataclasses
import os
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import (
    Snapshot,
    node_from_api,
    pod_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement import kept_room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.kept_room import KeptRoom
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.tests.support.changing_cluster import ChangingCluster
from ansible_collections.muster.kube.tests.support.cluster_model import node, pod

SEED = int(os.environ.get("MUSTER_SEED", "1"))
COURSES = int(1000 * float(os.environ.get("MUSTER_SCALE", "0.1")))


def told(room):
    """All that anybody can learn from a room."""
    return (
        room.nodes,
        room.index,
        room.free,
        {i: sorted(map(str, ports)) for i, ports in room.ports.items() if ports},
        [sorted(pod.key for pod in here) for here in room.pods_on],
        {term: +counts for term, counts in room.anti_terms.items()},
        +room.used_claims,
        room.lowest_priority,
        {group: +counts for group, counts in room.groups.items() if +counts},
        room.snapshot,
        [(item.name, item.taints, item.unschedulable) for item in room.emptied().nodes],
        room.emptied().free,
        room.emptied().snapshot.runtime_classes,
    )


@pytest.mark.parametrize("number", range(COURSES // 10))
def test_a_kept_room_equals_one_built_anew(number):
    for course in range(10):
        chance = random.Random(f"{SEED}/{number}/{course}")
        cluster, kept = ChangingCluster(chance, rules=0.3), KeptRoom()
        for _step in range(8):
            for _turn in range(chance.randrange(4)):
                cluster.happen()
            snapshot = cluster.snapshot()
            room = kept.follow(snapshot)
            assert told(room.twin()) == told(Room(snapshot))
            terms = collections.Counter(term for item in snapshot.pods for term in item.anti_affinity)
            assert set(kept.anti_terms) == set(terms)
            # Whoever places pods on a twin changes nothing.
            for item in snapshot.pods[:3]:
                room.twin().add(item)


def test_nodes_that_did_not_change_keep_their_rows():
    nodes = tuple(node_from_api(node(name, cpu="4")) for name in "abc")
    pods = [pod_from_api(pod(f"p-{name}", on=name, requests={"cpu": "1"})) for name in "abc"]
    kept = KeptRoom()
    before = list(kept.follow(Snapshot(nodes=nodes, pods=tuple(pods))).free)
    after = kept.follow(Snapshot(nodes=tuple(map(dataclasses.replace, nodes)), pods=(pods[0], pods[2])))
    assert [old is new for old, new in zip(before, after.free, strict=True)] == [True, False, True]
    assert after.nodes is nodes
    assert after.free[1]["cpu"] == 4000


def test_a_reading_in_which_everything_is_new_is_counted_anew(monkeypatch):
    monkeypatch.setattr(kept_room, "_ALWAYS_FOLLOWED", 0)
    nodes = (node_from_api(node("a", cpu="4")),)
    pods = tuple(pod_from_api(pod(f"p{i}", on="a", requests={"cpu": "1"})) for i in range(3))
    kept = KeptRoom()
    first = kept.follow(Snapshot(nodes=nodes, pods=pods))
    assert kept.follow(Snapshot(nodes=nodes, pods=tuple(map(dataclasses.replace, pods)))) is not first
    assert kept.follow(Snapshot(nodes=nodes, pods=pods)).free == first.free


def test_pods_are_found_by_the_gang_that_they_name_or_by_their_own_name():
    nodes = (node_from_api(node("a", cpu="4")),)
    first, second, alone, lost, other = (
        pod_from_api(pod(name, on=on, labels={GANG_LABEL: gang} if gang else None, namespace=namespace))
        for name, on, gang, namespace in (
            ("p1", "a", "g", "x"),
            ("p2", "a", "g", "x"),
            ("g", "a", "", "x"),
            ("p3", "gone", "g", "x"),
            ("p4", "a", "g", "y"),
        )
    )
    kept = KeptRoom()
    kept.follow(Snapshot(nodes=nodes, pods=(first, alone, lost)))
    assert kept.members == {("x", "g", ""): [first], ("x", "", "g"): [alone]}
    kept.follow(Snapshot(nodes=nodes, pods=(first, second, lost, other)))
    assert kept.members == {("x", "g", ""): [first, second], ("y", "g", ""): [other]}
    kept.follow(Snapshot(nodes=nodes, pods=(second, lost)))
    assert kept.members == {("x", "g", ""): [second]}


def test_a_pod_that_is_listed_twice_counts_twice():
    nodes = (node_from_api(node("a", cpu="4")),)
    twice = pod_from_api(pod("p", on="a", requests={"cpu": "1"}))
    kept = KeptRoom()
    for pods in ((twice,), (twice, twice), (twice,)):
        snapshot = Snapshot(nodes=nodes, pods=pods)
        assert kept.follow(snapshot).free == Room(snapshot).free
