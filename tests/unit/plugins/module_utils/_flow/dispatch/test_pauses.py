# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pauses of records: longer after each trouble, in proportion while something is merely waited for."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.pauses import LONGEST_PAUSE, Pauses


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_each_trouble_makes_the_pause_longer_up_to_a_limit():
    clock = Clock()
    pauses = Pauses(clock)
    lengths = []
    for _time in range(8):
        pauses.trouble("a", "denied")
        lengths.append(pauses.next_end())
        clock.now += lengths[-1]
        assert not pauses.pausing("a")
    assert lengths == [1, 2, 4, 8, 16, LONGEST_PAUSE, LONGEST_PAUSE, LONGEST_PAUSE]


def test_a_stuck_record_is_tried_less_than_once_in_a_second():
    clock = Clock()
    pauses, tries = Pauses(clock), 0
    while clock.now < 700:
        if not pauses.pausing("a"):
            tries += 1
            pauses.look_later("a")
        clock.now += 0.05
    assert tries < 60


def test_what_is_waited_for_is_looked_at_in_proportion():
    clock = Clock()
    pauses = Pauses(clock)
    pauses.look_later("a")
    assert pauses.next_end() == pytest.approx(0.2)
    clock.now += 10
    pauses.look_later("a")
    assert pauses.next_end() == pytest.approx(2.5)


def test_a_pause_that_is_over_is_no_reason_to_look_again_and_one_long_ago_is_forgotten():
    clock = Clock()
    pauses = Pauses(clock)
    for _time in range(4):
        pauses.trouble("a", "denied")
        clock.now += pauses.next_end()
    assert pauses.next_end() is None
    clock.now += LONGEST_PAUSE + 1
    pauses.trouble("a", "denied")
    pauses.look_later("b")
    clock.now += 1000
    pauses.look_later("b")
    assert pauses.next_end() == pytest.approx(0.2)


def test_what_is_waited_for_is_looked_at_now_and_then_however_long_it_takes():
    clock = Clock()
    pauses = Pauses(clock)
    pauses.look_later("a")
    for _look in range(60):
        clock.now += pauses.next_end()
        pauses.look_later("a")
    assert pauses.next_end() == LONGEST_PAUSE


def test_trouble_and_waiting_know_of_each_other():
    clock = Clock()
    pauses = Pauses(clock)
    pauses.look_later("a")
    clock.now += 9
    pauses.trouble("a", "denied")
    assert pauses.next_end() == 1.0
    clock.now += 1
    pauses.look_later("a")
    assert pauses.next_end() == pytest.approx(2.5)
    pauses.trouble("a", "denied")
    assert pauses.next_end() == 2.0


def test_the_first_of_several_pauses_to_end_is_told():
    pauses = Pauses(Clock())
    for uid in "aabbb":
        pauses.trouble(uid, "denied")
    assert pauses.next_end() == 2.0


def test_only_trouble_is_told_and_only_while_it_pauses():
    clock = Clock()
    pauses = Pauses(clock)
    pauses.trouble("a", "denied")
    pauses.look_later("b")
    assert pauses.troubled() == {"a": "denied"}
    assert (pauses.pausing("a"), pauses.pausing("b"), pauses.pausing("c")) == (True, True, False)
    clock.now += 1
    assert pauses.troubled() == {}


def test_a_record_that_is_well_or_gone_is_forgotten():
    pauses = Pauses(Clock())
    for uid in "abc":
        pauses.trouble(uid, "denied")
    pauses.over("a")
    pauses.keep_only({"a", "b"})
    assert set(pauses.troubled()) == {"b"}
    pauses.over("b")
    assert pauses.next_end() is None


def test_a_pause_ends_at_its_very_end():
    clock = Clock()
    pauses = Pauses(clock)
    pauses.trouble("a", "denied")
    assert (pauses.pausing("a"), pauses.in_trouble("a"), pauses.troubled()) == (True, True, {"a": "denied"})
    clock.now += pauses.next_end()
    assert (pauses.pausing("a"), pauses.in_trouble("a"), pauses.troubled()) == (False, False, {})
    assert (pauses.resting(), pauses.next_end()) == ({}, None)


def test_a_pause_tells_something_for_as_long_as_the_longest_takes():
    clock = Clock()
    pauses = Pauses(clock)
    for later, length in ((LONGEST_PAUSE, 2), (LONGEST_PAUSE + 0.5, 1)):
        pauses.trouble("a", "denied")
        clock.now += 1 + later
        pauses.trouble("a", "denied")
        assert pauses.next_end() == pytest.approx(length)
        pauses.over("a")


@pytest.mark.parametrize("ask", [lambda pauses: pauses.pausing("a"), lambda pauses: pauses.resting()])
def test_a_record_that_was_passed_over_is_looked_at_soon_although_its_pause_is_over(ask):
    clock = Clock()
    pauses = Pauses(clock)
    pauses.look_later("a")
    pauses.look_later("b")
    assert ask(pauses)
    clock.now += 0.3
    # Once: then it was looked at.
    assert (pauses.next_end(), pauses.next_end()) == (0.0, None)


def test_a_record_that_is_looked_at_again_was_not_passed_over():
    clock = Clock()
    pauses = Pauses(clock)
    pauses.look_later("a")
    assert pauses.pausing("a")
    clock.now += 0.3
    assert not pauses.pausing("a")
    assert pauses.next_end() is None
