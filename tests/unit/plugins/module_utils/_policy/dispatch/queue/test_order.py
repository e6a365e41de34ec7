# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Order of the queue: total, independent of the input's order, ageing within its bound; walks and back-off."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import (
    QueuedGang,
    Waiting,
    back_off,
    effective_priority,
    ordered,
    walk,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(100))

NOW = 1_000_000.0
gangs = st.lists(
    st.builds(
        QueuedGang,
        uid=st.uuids().map(str),
        priority=st.integers(-3, 3),
        slope=st.sampled_from([0.0, 0.001, 0.5]),
        submitted=st.integers(0, 5).map(lambda n: NOW - n * 100.0),
        queue=st.sampled_from([None, "a"]),
        eligible_at=st.sampled_from([0.0, NOW, NOW + 1]),
    ),
    max_size=12,
    unique_by=lambda gang: gang.uid,
)


def gang(uid, priority=0, slope=0.0, submitted=0.0, **more):
    return QueuedGang(uid, priority, slope, submitted, **more)


def uids(items):
    return [item.uid for item in items]


def test_priority_then_age_then_uid():
    late, early, high, twin = gang("b", submitted=5), gang("z"), gang("y", priority=1, submitted=9), gang("c")
    assert uids(ordered([late, early, high, twin], 10)) == ["y", "c", "z", "b"]


def test_waiting_adds_slope_times_seconds_and_never_takes_away():
    assert effective_priority(gang("a", 3, 0.5, submitted=100), 110) == 8
    assert effective_priority(gang("a", 3, 0.5, submitted=100), 50) == 3


def test_a_pausing_gang_is_left_out_until_its_time_and_keeps_its_place():
    pausing, other = gang("a", eligible_at=20), gang("b", submitted=5)
    assert uids(ordered([pausing, other], 19.9)) == ["b"]
    assert uids(ordered([pausing, other], 20)) == ["a", "b"]


@steady
@given(gangs, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_input(items, random):
    shuffled = list(items)
    random.shuffle(shuffled)
    result = ordered(items, NOW)
    assert ordered(shuffled, NOW) == result
    assert sorted(uids(result)) == sorted(item.uid for item in items if item.eligible_at <= NOW)


@steady
@given(gangs)
def test_pairs_are_ordered_as_the_whole_is(items):
    """Antisymmetric and transitive: any two gangs alone come in the order they have among all."""
    for first, second in itertools.combinations(ordered(items, NOW), 2):
        assert ordered([second, first], NOW) == [first, second]


@steady
@given(
    st.integers(1, 1000), st.integers(1, 1000).map(lambda n: n / 64), st.integers(-1000, 1000), st.integers(0, 10**6)
)
def test_ageing_overtakes_after_the_difference_by_the_slope(ahead, slope, base, submitted):
    """A rival ahead by some priority and without ageing is passed after that difference / slope, and not before."""
    ageing = gang("z", base, slope, submitted)
    rival = gang("a", base + ahead, 0.0, submitted)
    bound = ahead / slope
    assert uids(ordered([ageing, rival], submitted + bound * 0.99)) == ["a", "z"]
    assert uids(ordered([ageing, rival], submitted + bound * 1.01)) == ["z", "a"]


def judge_by_room(room, sizes, asked):
    """A judge that gives away room and notes whom it was asked about."""
    left = [room]

    def judge(item):
        asked.append(item.uid)
        if sizes[item.uid] > left[0]:
            return False
        left[0] -= sizes[item.uid]
        return True

    return judge


def test_strict_stops_at_the_first_that_does_not_fit():
    items, asked = [gang("a"), gang("b"), gang("c"), gang("d")], []
    result = walk("strict", items, judge_by_room(3, {"a": 1, "b": 5, "c": 1, "d": 1}, asked))
    assert uids(result.started) == ["a"]
    assert result.waiting == (Waiting(items[1], None), Waiting(items[2], "b"), Waiting(items[3], "b"))
    assert asked == ["a", "b"]


def test_strict_passes_over_those_that_can_never_fit():
    items, asked = [gang("a"), gang("b"), gang("c"), gang("d"), gang("e")], []
    judge = judge_by_room(3, {"a": 9, "b": 1, "c": 5, "d": 1, "e": 1}, asked)
    result = walk("strict", items, judge, hopeless=lambda item: item.uid == "a")
    assert uids(result.started) == ["b"]
    assert [(item.gang.uid, item.blocked_by) for item in result.waiting] == [
        ("a", None),
        ("c", None),
        ("d", "c"),
        ("e", "c"),
    ]
    assert asked == ["a", "b", "c"]


def test_best_effort_asks_everybody():
    items, asked = [gang("a"), gang("b"), gang("c"), gang("d")], []
    result = walk("best_effort", items, judge_by_room(3, {"a": 1, "b": 5, "c": 1, "d": 2}, asked))
    assert uids(result.started) == ["a", "c"]
    assert result.waiting == (Waiting(items[1], None), Waiting(items[3], None))
    assert asked == ["a", "b", "c", "d"]


def test_reserve_asks_everybody_and_tells_whose_reservation_stopped_a_gang():
    items, asked = [gang("a"), gang("b"), gang("c"), gang("d")], []
    judge = judge_by_room(3, {"a": 1, "b": 5, "c": 3, "d": 2}, asked)
    result = walk("reserve", items, judge, lambda item: {"c": "b"}.get(item.uid))
    assert uids(result.started) == ["a", "d"]
    assert result.waiting == (Waiting(items[1], None), Waiting(items[2], "b"))
    assert asked == ["a", "b", "c", "d"]


@steady
@given(gangs, st.sets(st.integers(0, 11)), st.sampled_from(["strict", "best_effort", "reserve"]))
def test_every_gang_is_started_or_waits_in_order(items, fitting, policy):
    fits = {item.uid: index in fitting for index, item in enumerate(items)}
    result = walk(policy, items, lambda item: fits[item.uid])
    started, waiting = set(uids(result.started)), {item.gang.uid for item in result.waiting}
    assert not started & waiting
    assert [item.uid for item in items if item.uid in started] == uids(result.started)
    assert [item.uid for item in items if item.uid in waiting] == [item.gang.uid for item in result.waiting]
    assert started | waiting == set(uids(items))
    if policy == "strict" and started:
        assert uids(items[: len(started)]) == uids(result.started)


@pytest.mark.parametrize(
    ("growth", "waits"), [("exponential", [5, 10, 20, 40]), ("linear", [5, 10, 15, 20]), ("none", [5, 5, 5, 5])]
)
def test_back_off_grows_as_told(growth, waits):
    assert [back_off(5, growth, n) for n in (1, 2, 3, 4)] == waits


def test_back_off_is_capped():
    assert [back_off(5, "exponential", n, 12) for n in (1, 2, 3, 1_000_000)] == [5, 10, 12, 12]
    assert back_off(5, "linear", 4, 0) == 20
    assert back_off(5, "linear", 4, None) == 20


def test_back_off_without_a_cap_stays_finite():
    assert back_off(5, "exponential", 10**9) < float("inf")
    assert back_off(5, "exponential", 0) == 5
