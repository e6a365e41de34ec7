# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readings of a clock: what any number of answers may do to it."""

from __future__ import annotations

import math
import threading

from ansible_collections.muster.kube.plugins.module_utils._kube.clock_readings import TOLERANCE, ClockReadings
from hypothesis import given
from hypothesis import strategies as st

# How long after the last answer each one comes, and how long it took.
ANSWERS = st.lists(st.tuples(st.floats(0.001, 60.0), st.floats(0.0, 30.0)), min_size=7, max_size=60)
TRUTH = 5000.0


def told(at: float) -> float:
    """What an exact server tells at a time of the steady clock."""
    return float(math.floor(at + TRUTH))


@given(ANSWERS, st.integers(0, 59), st.floats(-1e6, 1e6))
def test_a_single_wrong_answer_never_moves_a_certain_clock(answers, place, wrong_by):
    readings, at = ClockReadings(), 0.0
    for number, (pause, took) in enumerate(answers):
        sent = at + pause
        at = sent + took
        readings.add(told(sent + took / 2) + (wrong_by if number == place % len(answers) else 0.0), sent, at)
        if readings.certain:
            # An answer may be late by as long as it took and has lost its fraction; it is never early.
            assert -31.0 - TOLERANCE < readings.offset - TRUTH <= TOLERANCE + 0.001
            assert readings.slowest(at) <= TRUTH + TOLERANCE + 0.001
    assert readings.certain


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4))
def test_few_answers_are_never_certain(offsets):
    readings = ClockReadings()
    for number, offset in enumerate(offsets):
        readings.add(offset + number, number, number)
    assert (readings.certain, readings.slowest(9.0)) == (False, None)


@given(st.lists(st.sampled_from([0.0, 40.0, 80.0, 120.0, 160.0, 200.0]), min_size=32, max_size=50))
def test_six_servers_with_six_clocks_still_give_one_of_their_times(offsets):
    readings = ClockReadings()
    for number, offset in enumerate(offsets):
        readings.add(number * 0.01 + offset, number * 0.01, number * 0.01)
    assert readings.certain
    assert min(abs(readings.offset - offset) for offset in set(offsets)) < 0.001


def test_threads_may_add_at_once():
    readings = ClockReadings()

    def add() -> None:
        for number in range(500):
            readings.add(TRUTH + number, number, number)

    threads = [threading.Thread(target=add) for _thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (readings.certain, readings.offset) == (True, TRUTH)


def certain_clock(ahead: float, *before: float) -> ClockReadings:
    """A clock that is certain at second 1, after answers that told other times."""
    readings = ClockReadings()
    for offset in (*before, *[ahead] * 5):
        readings.add(offset + 1.0, 1.0, 1.0)
    assert (readings.certain, readings.offset) == (True, ahead)
    return readings


def test_three_answers_over_some_seconds_move_the_clock_and_two_do_not():
    readings = certain_clock(100.0)
    for at, offset in ((10.0, 100.0), (16.0, 100.0), (17.0, 900.0)):
        readings.add(900.0 + at, at, at)
        assert readings.offset == offset


def test_a_slower_clock_that_was_read_before_the_time_was_certain_holds_back():
    assert certain_clock(100.0, 0.0).slowest(2.0) == 0.0


def test_a_slow_clock_holds_back_for_as_long_as_it_is_read_itself():
    """Another one that is wrong too, but faster, does not make the slow one any younger."""
    readings = certain_clock(100.0)
    readings.add(0.0 + 10.0, 10.0, 10.0)
    readings.add(50.0 + 500.0, 500.0, 500.0)
    assert (readings.slowest(600.0), readings.slowest(620.0)) == (0.0, 100.0)
    readings.add(50.0 + 700.0, 700.0, 700.0)
    assert readings.slowest(701.0) == 50.0
