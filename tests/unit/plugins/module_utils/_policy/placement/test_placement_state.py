# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Placement states: the next pod may go where a simple scheduler lets it, and pods can be taken back."""

from __future__ import annotations

import copy

import hypothesis
import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import open_case
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import HOST, REQUIRED, ZONE, cases, selector
from hypothesis import strategies as st


def state_of(nodes, pods, *jobs):
    """The placement state of raw objects."""
    return open_case(gang(*jobs), room(nodes, pods)).state


def changing_parts(state):
    """Everything that placing changes."""
    rules = [(podset.affinity, podset.spreads) for podset in state.podsets]
    standing = {(key, domain): counts for key, found in state.in_domain.items() for domain, counts in found.items()}
    here = {place: counts for place, counts in standing.items() if any(counts)}
    placed = [dict(counts) for counts in state.placed]
    return copy.deepcopy((state.free, placed, state.left, here, rules))


@hypothesis.settings(max_examples=150)
@hypothesis.given(cases(), st.randoms(use_true_random=False))
def test_every_step_of_play_is_one_the_simple_scheduler_would_make_too(case, rng):
    state = state_of(case.nodes, case.pods, *case.jobs)
    simple = case.scheduler()
    names = [item.name for item in state.room.nodes]
    before = changing_parts(state)
    made = []
    while any(state.left):
        possible = []
        for p, podset in enumerate(state.podsets):
            if state.left[p]:
                here = [n for n in podset.allowed if state.feasible(p, n)]
                assert [names[n] for n in here] == simple.choices(simple.wanted[p][0])
                possible += [(p, n) for n in here]
        if not possible:
            break
        p, n = rng.choice(possible)
        state.place(p, n)
        simple.standing.append((simple.wanted[p][0], names[n]))
        made.append((p, n))
    if rng.random() < 0.5:
        state.reset()
    else:
        for p, n in reversed(made):
            state.place(p, n, -1)
    assert changing_parts(state) == before


def test_room_is_counted_by_the_scarcest_resource():
    state = state_of([node("a", cpu="4", pods="3"), node("b", cpu="1")], [], job("j", 2, requests={"cpu": "2"}))
    assert [state.room_for(0, n) for n in (0, 1)] == [2, 0]
    assert state.slots(0) == {0: 2, 1: 0}
    assert state_of([node("a", cpu="4", pods="1")], [], job("j", 2)).room_for(0, 0) == 1


def test_overdrawn_by_one_piece_or_by_all():
    nodes = [node("a", cpu="2"), node("b", cpu="2")]
    assert state_of(nodes, [], job("j", 3, requests={"cpu": "2"})).overdrawn()
    assert state_of(nodes, [], job("i", 1, requests={"cpu": "2"}), job("j", 3, requests={"cpu": "1"})).overdrawn()
    assert not state_of(nodes, [], job("i", 1, requests={"cpu": "2"}), job("j", 2, requests={"cpu": "1"})).overdrawn()


def test_host_ports_are_counted_by_address():
    def port(name, address):
        entry = {"hostPort": 80, **({"hostIP": address} if address else {})}
        return job(name, 1, containers=[{"name": "c", "ports": [entry], "resources": {}}])

    state = state_of([node("a")], [], port("any", None), port("one", "10.0.0.1"), port("two", "10.0.0.2"))
    state.place(1, 0)
    assert [state.feasible(p, 0) for p in range(3)] == [False, False, True]
    state.reset()
    state.place(0, 0)
    assert [state.feasible(p, 0) for p in range(3)] == [False, False, False]


def test_one_per_host_is_a_count_only_where_host_names_are_unique():
    apart = {"podAntiAffinity": {REQUIRED: [{**selector("x"), "topologyKey": HOST}]}}
    wanted = job("j", 2, labels={"app": "x"}, affinity=apart)
    unique = state_of([node("a"), node("b")], [], wanted)
    assert not unique.podsets[0].coupled
    assert unique.room_for(0, 0) == 1
    shared = state_of([node("a"), node("b", labels={HOST: "a"})], [], wanted)
    assert shared.podsets[0].coupled
    shared.place(0, 0)
    assert not shared.feasible(0, 1)
    nameless = node("b")
    del nameless["metadata"]["labels"][HOST]
    open_ended = state_of([nameless], [], wanted)
    open_ended.place(0, 0)
    assert open_ended.feasible(0, 0)


def test_affinity_to_pods_that_stand_already_is_a_plain_restriction():
    joined = {"podAffinity": {REQUIRED: [{**selector("cache"), "topologyKey": ZONE}]}}
    nodes = [node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"}), node("c")]
    state = state_of(nodes, [pod("p", on="a", labels={"app": "cache"})], job("j", 1, affinity=joined))
    assert state.podsets[0].allowed == (0,)
    assert state.podsets[0].closed == {"pod_affinity": 2}
    assert state.podsets[0].affinity is None


def test_a_spread_that_nobody_moves_is_a_plain_restriction():
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    nodes = [node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"}), node("c")]
    present = [pod(f"p{i}", on="a", labels={"app": "x"}) for i in range(2)]
    state = state_of(nodes, present, job("j", 1, topologySpreadConstraints=[rule]))
    assert state.podsets[0].allowed == (1,)
    assert state.podsets[0].closed == {"topology_spread": 2}
    assert not state.podsets[0].coupled


def test_steering_is_node_affinity_and_so_changes_who_takes_part_in_a_spread():
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    nodes = [node("a", labels={ZONE: "1"}), node("b", labels={ZONE: "2"})]
    wide = state_of(nodes, [], job("j", 3, labels={"app": "x"}, topologySpreadConstraints=[rule]))
    wide.place(0, 0)
    assert not wide.feasible(0, 0)
    narrow = wide.narrow({0: frozenset((0,))})
    narrow.place(0, 0)
    assert narrow.feasible(0, 0)
    assert narrow.podsets[0].allowed == (0,)
    lenient = {**rule, "nodeAffinityPolicy": "Ignore"}
    ignoring = state_of(nodes, [], job("j", 3, labels={"app": "x"}, topologySpreadConstraints=[lenient]))
    narrow = ignoring.narrow({0: frozenset((0,))})
    narrow.place(0, 0)
    assert not narrow.feasible(0, 0)


def test_a_last_slot_on_each_node_is_enough():
    nodes = [node(name, cpu="2", pods="1") for name in ("a", "b")]
    assert not state_of(nodes, [], job("j", 2)).overdrawn()
    assert state_of(nodes, [], job("j", 3)).overdrawn()
    assert not state_of(nodes, [], job("i", 1), job("j", 1)).overdrawn()


def test_what_is_overdrawn_on_one_node_takes_nothing_from_another():
    busy = pod("busy", on="b", requests={"cpu": "9"})
    state = state_of([node("a", cpu="4"), node("b", cpu="4")], [busy], job("i", 1, requests={"cpu": "2"}))
    assert state.slots(0) == {0: 2, 1: 0}
    both = [job(name, 1, requests={"cpu": "2"}) for name in ("i", "j")]
    assert not state_of([node("a", cpu="4"), node("b", cpu="4")], [busy], *both).overdrawn()


def test_nodes_closed_by_several_spreads_are_all_counted():
    rules = [
        {**selector("x"), "topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
        for key in (ZONE, "rack")
    ]
    nodes = [node("a", labels={ZONE: "1", "rack": "1"}), node("b", labels={ZONE: "1"}), node("c")]
    state = state_of(nodes, [], job("j", 1, topologySpreadConstraints=rules))
    assert state.podsets[0].allowed == (0,)
    assert state.podsets[0].closed == {"topology_spread": 2}


def test_one_piece_without_slots_is_enough_to_be_overdrawn():
    nodes = [node("a", cpu="2"), node("b", cpu="2")]
    assert state_of(nodes, [], job("i", 1, requests={"cpu": "1"}), job("j", 1, requests={"cpu": "3"})).overdrawn()


@pytest.mark.parametrize(
    ("effect", "tolerated", "takes_part"),
    [
        ("NoSchedule", False, False),
        ("NoExecute", False, False),
        ("PreferNoSchedule", False, True),
        ("NoSchedule", True, True),
    ],
)
@pytest.mark.parametrize("policy", ["Honor", "Ignore"])
def test_a_node_whose_taint_stops_the_pods_takes_part_only_where_taints_are_ignored(
    effect, tolerated, takes_part, policy
):
    """The empty zone of the tainted node keeps the first from getting a second pod, as long as it counts."""
    rule = {**selector("x"), "topologyKey": ZONE, "maxSkew": 1, "nodeTaintsPolicy": policy}
    tainted = node("b", labels={ZONE: "2"}, taints=[{"key": "t", "effect": effect}])
    spec = {"tolerations": [{"key": "t", "operator": "Exists"}]} if tolerated else {}
    wanted = job("j", 2, labels={"app": "x"}, topologySpreadConstraints=[rule], **spec)
    state = state_of([node("a", labels={ZONE: "1"}), tainted], [], wanted)
    state.place(0, 0)
    assert state.feasible(0, 0) is not (takes_part or policy == "Ignore")


def test_a_node_without_a_label_that_any_spread_needs_takes_part_in_none():
    keys = (ZONE, "rack")
    rules = [{**selector("x"), "topologyKey": key, "maxSkew": 1} for key in keys]
    nodes = [node("both", labels=dict.fromkeys(keys, "1")), node("half", labels={ZONE: "2"})]
    state = state_of(nodes, [], job("j", 2, labels={"app": "x"}, topologySpreadConstraints=rules))
    assert [sorted(spread.takes_part) for spread in state.podsets[0].spreads] == [[0], [0]]
