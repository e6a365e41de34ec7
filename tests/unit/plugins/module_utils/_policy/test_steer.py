# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Packing and steering."""

from __future__ import annotations

import hypothesis
import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy import steer
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import open_case
from ansible_collections.muster.kube.plugins.module_utils._policy.proof import MOST_PODS, Budget
from ansible_collections.muster.kube.plugins.module_utils._policy.steer import (
    STRATEGIES,
    emptiest,
    find_packing,
    find_steering,
    gathered,
    order_free,
    packings,
    play,
    steerable,
    tightest,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod, room
from ansible_collections.muster.kube.tests.support.simple_scheduler import HOST, REQUIRED, ZONE, cases, selector


def board_of(nodes, *jobs, pods=()):
    """A board of raw objects."""
    return open_case(gang(*jobs), room(nodes, pods)).board


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
    board = board_of(case.nodes, *case.jobs, pods=case.pods)
    for number, placement in enumerate(packings(board)):
        assert [sum(here.values()) for here in placement] == [piece.count for piece in board.pieces]
        assert one_by_one(case, placement)
        assert board.left == [piece.count for piece in board.pieces]
        if number >= 3:
            break


@pytest.mark.parametrize(
    ("strategy", "expected"), [(emptiest, {0: 2, 1: 1}), (tightest, {1: 2, 0: 1}), (gathered, {0: 3})]
)
def test_strategies_prefer_different_nodes(strategy, expected):
    board = board_of([node("large", cpu="4"), node("small", cpu="2")], job("j", 3, requests={"cpu": "1"}))
    assert play(board, (0,), strategy) == [expected]
    assert board.placed == [{}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_game_that_gets_stuck_places_nothing(strategy):
    board = board_of([node("a", cpu="2")], job("j", 3, requests={"cpu": "1"}))
    assert play(board, (0,), strategy) is None
    assert board.left == [3]


def test_pods_that_wait_for_others_get_their_turn_again():
    follower = {"podAffinity": {REQUIRED: [{**selector("leader"), "topologyKey": ZONE}]}}
    nodes = [node("a", labels={ZONE: "1"}, cpu="2")]
    board = board_of(nodes, job("f", 1, affinity=follower), job("l", 1, labels={"app": "leader"}))
    assert play(board, (0, 1), emptiest) == [{0: 1}, {0: 1}]


def test_on_many_nodes_only_some_are_looked_at():
    nodes = [node(f"n{i}", cpu="1") for i in range(3 * steer.SAMPLE)]
    (placement,) = play(board_of(nodes, job("j", steer.SAMPLE, requests={"cpu": "1"})), (0,), tightest)
    assert sum(placement.values()) == steer.SAMPLE
    assert max(placement) < 2 * steer.SAMPLE


def test_a_packing_that_only_a_full_search_finds():
    # First-fit by any strategy wastes the room; 3+3+2 and 4+2+2 fill the nodes exactly.
    nodes = [node("a", cpu="8"), node("b", cpu="8")]
    sizes = {"two": ("2", 3), "three": ("3", 2), "four": ("4", 1)}
    jobs = [job(name, count, requests={"cpu": cpu}) for name, (cpu, count) in sizes.items()]
    placement = find_packing(board_of(nodes, *jobs))
    assert [sum(here.values()) for here in placement] == [3, 2, 1]
    assert find_packing(board_of([node("a", cpu="7"), node("b", cpu="7")], *jobs)) is None


def test_order_free_sees_room_dead_ends_and_safety():
    two = [node("a", cpu="4"), node("b", cpu="3")]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    assert not order_free(board_of(two, pair, three), Budget())
    assert order_free(board_of(two, pair), Budget())
    assert not order_free(board_of(two, job("four", 2, requests={"cpu": "4"})), Budget())


def test_too_many_pods_are_only_counted():
    half = MOST_PODS // 2 + 1
    jobs = [job(name, half, requests={"cpu": "1"}) for name in ("i", "j")]
    budget = Budget()
    assert order_free(board_of([node("a", cpu=str(2 * half), pods="999")], *jobs), budget)
    tight = board_of([node("a", cpu=str(half), pods="999"), node("b", cpu=str(half), pods="999")], *jobs)
    tight.pieces[1].conflicts.append((0, HOST))
    assert not order_free(tight, budget)
    assert budget.left == Budget().left


def test_steering_names_nodes_per_podset():
    two = [node("a", cpu="4"), node("b", cpu="3")]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    narrowing, placement = find_steering(board_of(two, pair, three), Budget())
    assert narrowing == {0: frozenset((0,)), 1: frozenset((1,))}
    assert placement == [{0: 2}, {1: 1}]


def test_nodes_that_share_a_host_name_cannot_be_steered_to():
    twins = [node("a", cpu="4", labels={HOST: "same"}), node("b", cpu="3", labels={HOST: "same"})]
    pair, three = job("pair", 2, requests={"cpu": "2"}), job("three", 1, requests={"cpu": "3"})
    board = board_of(twins, pair, three)
    assert find_steering(board, Budget()) is None
    assert not steerable(board, {0: frozenset((0,))})
    assert steerable(board, {})


def test_pods_that_must_be_together_are_confined_to_a_zone_that_takes_them():
    together = {"podAffinity": {REQUIRED: [{**selector("x"), "topologyKey": ZONE}]}}
    nodes = [node(f"n{i}", labels={ZONE: "small" if i == 0 else "large"}, cpu="1") for i in range(4)]
    board = board_of(nodes, job("x", 3, labels={"app": "x"}, requests={"cpu": "1"}, affinity=together))
    narrowing, _placement = find_steering(board, Budget())
    assert narrowing == {0: frozenset((1, 2, 3))}


def test_many_podsets_are_tried_in_a_few_orders():
    nodes = [node("a", cpu="20")]
    board = board_of(nodes, *(job(f"j{i}", 1, requests={"cpu": str(i + 1)}) for i in range(5)))
    assert find_packing(board) == [{0: 1}] * 5
    assert len(steer._orders(board)) == 3


def test_a_nearly_full_node_with_pods_on_it_is_passed_over():
    busy = pod("busy", on="a", requests={"cpu": "2"})
    board = board_of([node("a", cpu="2"), node("b", cpu="2")], job("j", 2, requests={"cpu": "1"}), pods=[busy])
    assert find_packing(board) == [{1: 2}]
