# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packing and steering."""

from __future__ import annotations

import itertools
import types

import hypothesis
import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.placement import steer
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import open_case
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.proof import MOST_PODS, Budget
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import (
    STRATEGIES,
    emptiest,
    find_packing,
    find_steering,
    gathered,
    order_free,
    packings,
    place_as_many,
    place_greedily,
    steerable,
    tightest,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import HOST, REQUIRED, ZONE, cases, selector


def state_of(nodes, *jobs, pods=()):
    """The placement state of raw objects."""
    return open_case(gang(*jobs), room(nodes, pods)).state


def one_by_one(case, placement):
    """Whether a simple scheduler, taking pods in some order, can arrive at the placement."""
    scheduler = case.scheduler()
    names = [item["metadata"]["name"] for item in case.nodes]
    waiting = [(p, names[n]) for p, here in enumerate(placement) for n, count in here.items() for _turn in range(count)]

    def finish(left):
        if not left:
            return True
        for entry in dict.fromkeys(left):
            template = scheduler.wanted[entry[0]][0]
            if scheduler.feasible(template, entry[1]):
                scheduler.standing.append((template, entry[1]))
                rest = list(left)
                rest.remove(entry)
                if finish(rest):
                    return True
                scheduler.standing.pop()
        return False

    return finish(waiting)


@hypothesis.settings(max_examples=100)
@hypothesis.given(cases(most_pods=5))
def test_every_packing_places_all_pods_where_they_may_go(case):
    state = state_of(case.nodes, *case.jobs, pods=case.pods)
    for number, placement in enumerate(packings(state)):
        assert [sum(here.values()) for here in placement] == [podset.count for podset in state.podsets]
        assert one_by_one(case, placement)
        assert state.left == [podset.count for podset in state.podsets]
        if number >= 3:
            break


@pytest.mark.parametrize(
    ("strategy", "expected"), [(emptiest, {0: 2, 1: 1}), (tightest, {1: 2, 0: 1}), (gathered, {0: 3})]
)
def test_strategies_prefer_different_nodes(strategy, expected):
    state = state_of([node("large", cpu="4"), node("small", cpu="2")], job("j", 3, requests={"cpu": "1"}))
    assert place_greedily(state, (0,), strategy) == [expected]
    assert state.placed == [{}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_game_that_gets_stuck_places_nothing(strategy):
    state = state_of([node("a", cpu="2")], job("j", 3, requests={"cpu": "1"}))
    assert place_greedily(state, (0,), strategy) is None
    assert state.left == [3]


def test_pods_that_wait_for_others_get_their_turn_again():
    follower = {"podAffinity": {REQUIRED: [{**selector("leader"), "topologyKey": ZONE}]}}
    nodes = [node("a", labels={ZONE: "1"}, cpu="2")]
    state = state_of(nodes, job("f", 1, affinity=follower), job("l", 1, labels={"app": "leader"}))
    assert place_greedily(state, (0, 1), emptiest) == [{0: 1}, {0: 1}]


def test_on_many_nodes_only_some_are_looked_at():
    nodes = [node(f"n{i}", cpu="1") for i in range(3 * steer.SAMPLE)]
    (placement,) = place_greedily(state_of(nodes, job("j", steer.SAMPLE, requests={"cpu": "1"})), (0,), tightest)
    assert sum(placement.values()) == steer.SAMPLE
    assert max(placement) < 2 * steer.SAMPLE


def test_a_packing_that_only_a_full_search_finds():
    # First-fit by any strategy wastes the room; 3+3+2 and 4+2+2 fill the nodes exactly.
    nodes = [node("a", cpu="8"), node("b", cpu="8")]
    sizes = {"two": ("2", 3), "three": ("3", 2), "four": ("4", 1)}
    jobs = [job(name, count, requests={"cpu": cpu}) for name, (cpu, count) in sizes.items()]
    placement = find_packing(state_of(nodes, *jobs))
    assert [sum(here.values()) for here in placement] == [3, 2, 1]
    assert find_packing(state_of([node("a", cpu="7"), node("b", cpu="7")], *jobs)) is None


def test_order_free_sees_room_dead_ends_and_safety():
    two = [node("a", cpu="4"), node("b", cpu="3")]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    assert not order_free(state_of(two, pair, three), Budget())
    assert order_free(state_of(two, pair), Budget())
    assert not order_free(state_of(two, job("four", 2, requests={"cpu": "4"})), Budget())


def test_too_many_pods_are_only_counted():
    half = MOST_PODS // 2 + 1
    jobs = [job(name, half, requests={"cpu": "1"}) for name in ("i", "j")]
    budget = Budget()
    assert order_free(state_of([node("a", cpu=str(2 * half), pods="999")], *jobs), budget)
    tight = state_of([node("a", cpu=str(half), pods="999"), node("b", cpu=str(half), pods="999")], *jobs)
    tight.podsets[1].conflicts.append((0, HOST))
    assert not order_free(tight, budget)
    assert budget.left == Budget().left


def test_steering_names_nodes_per_podset():
    two = [node("a", cpu="4"), node("b", cpu="3")]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    narrowing, placement = find_steering(state_of(two, pair, three), Budget())
    assert narrowing == {0: frozenset((0,)), 1: frozenset((1,))}
    assert placement == [{0: 2}, {1: 1}]


def test_nodes_that_share_a_host_name_cannot_be_steered_to():
    twins = [node("a", cpu="4", labels={HOST: "same"}), node("b", cpu="3", labels={HOST: "same"})]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    state = state_of(twins, pair, three)
    assert find_steering(state, Budget()) is None
    assert not steerable(state, {0: frozenset((0,))})
    assert steerable(state, {})


def test_pods_that_must_be_together_are_confined_to_a_zone_that_takes_them():
    together = {"podAffinity": {REQUIRED: [{**selector("x"), "topologyKey": ZONE}]}}
    nodes = [node(f"n{i}", labels={ZONE: "small" if i == 0 else "large"}, cpu="1") for i in range(4)]
    state = state_of(nodes, job("x", 3, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together))
    narrowing, _placement = find_steering(state, Budget())
    assert narrowing == {0: frozenset((1, 2, 3))}


def test_many_podsets_are_tried_in_a_few_orders():
    nodes = [node("a", cpu="20")]
    state = state_of(nodes, *(job(f"j{i}", 1, requests={"cpu": str(i + 1)}) for i in range(5)))
    assert find_packing(state) == [{0: 1}] * 5
    assert len(steer._orders(state)) == 3


def test_a_nearly_full_node_with_pods_on_it_is_passed_over():
    busy = pod("busy", on="a", requests={"cpu": "2"})
    state = state_of([node("a", cpu="2"), node("b", cpu="2")], job("j", 2, requests={"cpu": "1"}), pods=[busy])
    assert find_packing(state) == [{1: 2}]


def test_a_podset_gathers_where_it_has_begun_then_off_others_then_where_most_of_it_fits():
    sizes = {"begun": "8", "shared": "8", "free": "9", "large-but-shared": "12"}
    nodes = [node(name, cpu=cpu) for name, cpu in sizes.items()]
    state = state_of(nodes, *(job(name, 4, requests={"cpu": "1"}) for name in ("mine", "other", "third")))
    state.place(0, 0)
    state.place(1, 1)
    state.place(1, 3)
    assert sorted(range(4), key=lambda n: gathered(state, 0, n)) == [0, 2, 3, 1]


def test_the_emptiest_node_is_the_one_that_is_least_used_in_proportion():
    present = [pod("half", on="a", requests={"cpu": "4"}), pod("quarter", on="b", requests={"cpu": "1"})]
    state = state_of([node("a", cpu="8"), node("b", cpu="4")], job("j", 1, requests={"cpu": "1"}), pods=present)
    assert sorted((0, 1), key=lambda n: emptiest(state, 0, n)) == [1, 0]


def test_the_emptiest_node_is_sought_anew_for_each_pod():
    state = state_of([node("large", cpu="10"), node("small", cpu="2")], job("j", 4, requests={"cpu": "1"}))
    assert place_greedily(state, (0,), emptiest) == [{0: 3, 1: 1}]


@pytest.mark.parametrize(("strategy", "expected"), [(emptiest, {0: 1, 1: 1}), (tightest, {1: 2}), (gathered, {0: 2})])
def test_strategies_also_choose_for_pods_with_rules(strategy, expected):
    together = {"podAffinity": {REQUIRED: [{**selector("x"), "topologyKey": ZONE}]}}
    nodes = [node(name, cpu=cpu, labels={ZONE: "1"}) for name, cpu in (("large", "4"), ("small", "2"))]
    state = state_of(nodes, job("j", 2, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together))
    assert place_greedily(state, (0,), strategy) == [expected]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pods_that_repel_each_other_are_never_placed_in_bulk(strategy):
    apart = {"podAntiAffinity": {REQUIRED: [{**selector("x"), "topologyKey": ZONE}]}}
    nodes = [node(name, cpu="4", labels={ZONE: name}) for name in ("a", "b")]
    state = state_of(nodes, job("j", 2, labels={"app": "x"}, affinity=apart))
    assert place_greedily(state, (0,), strategy) == [{0: 1, 1: 1}]


def test_what_finds_no_place_is_left_out_and_the_board_is_as_before():
    state = state_of([node("a", cpu="2")], job("j", 3, requests={"cpu": "1"}))
    assert place_as_many(state, 0, emptiest) == {0: 2}
    assert (state.left, state.placed) == ([3], [{}])


@pytest.mark.parametrize(("pods", "looked_at"), [(10, 100), (50, 100), (51, 102), (100, 200)])
def test_without_rules_a_hundred_nodes_are_looked_at_and_twice_the_slots(pods, looked_at):
    state = state_of([node(f"n{i}", cpu="1") for i in range(210)], job("j", pods, requests={"cpu": "1"}))
    assert steer._some_with_room(state, 0) == list(range(looked_at))


@pytest.mark.parametrize(("place_of_the_best", "chosen"), [(15, 15), (16, 0)])
def test_with_rules_the_first_sixteen_open_nodes_are_looked_at(place_of_the_best, chosen):
    together = {"podAffinity": {REQUIRED: [{**selector("x"), "topologyKey": ZONE}]}}
    nodes = [node(f"n{i}", cpu="1" if i == place_of_the_best else "4", labels={ZONE: "1"}) for i in range(17)]
    state = state_of(nodes, job("j", 1, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together))
    assert place_greedily(state, (0,), tightest) == [{chosen: 1}]


def test_the_first_order_is_scarce_ones_then_those_that_take_most_in_all():
    nodes = [node("a", cpu="90"), node("b", cpu="90", labels={"pool": "own"})]
    sizes = {"many": ("1", 6), "four": ("4", 1), "five": ("5", 1)}
    jobs = [job(name, count, requests={"cpu": cpu}) for name, (cpu, count) in sizes.items()]
    scarce = job("scarce", 1, requests={"cpu": "1"}, nodeSelector={"pool": "own"})
    assert steer._orders(state_of(nodes, *jobs))[0] == (0, 2, 1)
    assert steer._orders(state_of(nodes, *jobs, scarce))[0] == (3, 0, 2, 1)


@pytest.mark.parametrize(("podsets", "orders"), [(1, 1), (2, 2), (3, 6), (4, 6), (5, 3)])
def test_at_most_six_different_orders_are_tried(podsets, orders):
    jobs = [job(f"j{i}", 1, requests={"cpu": cpu}) for i, cpu in zip(range(podsets), "13524", strict=False)]
    found = steer._orders(state_of([node("a", cpu="15")], *jobs))
    assert len(found) == len(set(found)) == orders


def test_pods_sought_by_others_are_confined_with_them_to_the_largest_domains_first():
    joining = {"podAffinity": {REQUIRED: [{**selector("leader"), "topologyKey": ZONE}]}}
    zones = ["small", "large", "large", "large", None]
    nodes = [node(f"n{i}", cpu="1", labels={ZONE: zone} if zone else {}) for i, zone in enumerate(zones)]
    jobs = [job("f", 2, affinity=joining), job("l", 1, labels={"app": "leader"}), job("other", 1)]
    state = state_of(nodes, *jobs)
    first, *others = steer._bases(state)
    large, small = frozenset((1, 2, 3)), frozenset((0,))
    assert first is state
    assert [base.narrowed for base in others] == [{0: large, 1: large}, {0: small, 1: small}]


def test_at_most_eight_domains_are_tried():
    together = {"podAffinity": {REQUIRED: [{**selector("x"), "topologyKey": ZONE}]}}
    nodes = [node(f"n{i}", cpu=str(i + 1), labels={ZONE: f"z{i}"}) for i in range(9)]
    state = state_of(nodes, job("j", 1, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together))
    assert steer._largest_domains(state, ZONE, [0]) == [f"z{i}" for i in range(8, 0, -1)]


def test_a_full_search_is_made_only_where_playing_finds_nothing(monkeypatch):
    state = state_of([node("a", cpu="2")], job("j", 2, requests={"cpu": "1"}))
    monkeypatch.setattr(steer, "find_full", lambda state, budget: pytest.fail("a greedy placement was found before"))
    assert list(packings(state)) == [[{0: 2}]] * 3
    monkeypatch.undo()
    monkeypatch.setattr(steer, "greedy_placements", lambda state: iter(()))
    assert list(packings(state)) == [[{0: 2}]]
    assert list(packings(state_of([node("a", cpu="1")], job("j", 2, requests={"cpu": "1"})))) == []


def over_two_keys(count, nodes):
    """A state that counting cannot judge, though no order fails."""
    terms = [{**selector("x"), "topologyKey": key} for key in (ZONE, HOST)]
    return state_of(nodes, job("j", count, labels={"app": "x"}, affinity={"podAffinity": {REQUIRED: terms}}))


def test_what_counting_cannot_show_is_explored_up_to_three_hundred_pods():
    two = [node(name, labels={ZONE: "1"}, pods="999") for name in ("a", "b")]
    assert order_free(over_two_keys(3, two), Budget())
    tried, refused = Budget(10), Budget(10)
    order_free(over_two_keys(300, two), tried)
    order_free(over_two_keys(301, two), refused)
    assert tried.left < 10
    assert refused.left == 10


def test_one_game_that_gets_stuck_saves_the_exploration():
    two = [node("a", cpu="4"), node("b", cpu="3")]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    budget = Budget()
    assert not order_free(state_of(two, pair, three), budget)
    assert budget.left == Budget().left


@pytest.mark.parametrize(
    ("nodes", "pods", "tried"),
    [(2, 3, 24), (400, 100, 24), (400, 101, 23), (1000, 91, 10), (1400, 100, 8), (4000, 1000, 3), (9000, 3000, 3)],
)
def test_the_more_nodes_and_pods_the_fewer_packings_are_tried_for_steering(nodes, pods, tried, monkeypatch):
    taken = itertools.count()
    monkeypatch.setattr(steer, "packings", lambda state, budget: ([{next(taken): 1}] for _turn in itertools.count()))
    podset = types.SimpleNamespace(count=pods, allowed=())
    nowhere = types.SimpleNamespace(host_names={})
    assert find_steering(types.SimpleNamespace(nodes=range(nodes), podsets=[podset], room=nowhere), Budget()) is None
    assert next(taken) == tried


def test_podsets_without_pods_or_on_all_their_nodes_need_no_steering():
    two = [node("a", cpu="4"), node("b", cpu="3", labels={"pool": "own"})]
    pair = job("pair", 2, requests={"cpu": "2"})
    three = job("three", 1, requests={"cpu": "3"}, nodeSelector={"pool": "own"})
    narrowing, _placement = find_steering(state_of(two, pair, three, job("none", 0)), Budget())
    assert narrowing == {0: frozenset((0,))}
