# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time of the cluster, as the answers of a server tell it to a real client."""

from __future__ import annotations

import email.utils

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock

AHEAD = 600


class Wire:
    """A server whose clock shows 1000 at second 0 of ours; an answer can be told to be wrong."""

    base_url = "http://127.0.0.1:1"

    def __init__(self):
        self.seconds = 0.0
        self.wrong_by = 0.0
        self.status = 200
        self.dated = True

    def acting_as(self, user, groups):
        return self

    def send(self, method, url, headers, body, limits):
        date = email.utils.formatdate(int(1000 + self.seconds) + self.wrong_by, usegmt=True)
        return self.status, {"Date": date} if self.dated else {}, b"{}"


@pytest.fixture
def wire():
    return Wire()


@pytest.fixture
def client(wire):
    return KubeClient(wire, clock=lambda: wire.seconds)


@pytest.fixture
def clock(client):
    return ServerClock(client)


@pytest.fixture
def ask(wire, client):
    """Ask the server so often, each time so much later; wrong_by is how far its clock is off meanwhile."""

    def asking(times=1, *, every=0.0, wrong_by=0.0):
        wire.wrong_by = wrong_by
        for _time in range(times):
            wire.seconds += every
            client.request("GET", "/version")
        wire.wrong_by = 0.0

    return asking


def test_before_the_first_answer_there_is_no_time(clock, ask, wire):
    with pytest.raises(KubeError, match="has not answered yet"):
        clock.now()
    wire.dated = False
    ask()
    with pytest.raises(KubeError, match="has not answered yet"):
        clock.now()
    assert clock.sure() is None


def test_between_answers_it_goes_on(clock, ask, wire):
    ask()
    assert clock.now() == 1000
    wire.seconds += 900.25
    assert clock.now() == 1900.25


def test_headers_of_whole_seconds_do_not_make_it_jump(clock, ask):
    ask(20, every=0.75)
    assert clock.now() == 1000 + 20 * 0.75 - 0.75


def test_a_time_is_certain_when_five_answers_agree(clock, ask):
    ask(4)
    assert (clock.certain, clock.sure()) == (False, None)
    ask()
    assert (clock.certain, clock.sure()) == (True, 1000)


def test_one_wrong_answer_is_outvoted_wherever_it_comes(clock, ask):
    ask(wrong_by=AHEAD)
    ask(2)
    assert clock.now() == 1000
    ask(3)
    assert (clock.sure(), clock.now()) == (1000, 1000)
    ask(wrong_by=AHEAD)
    assert (clock.sure(), clock.now()) == (1000, 1000)


def test_a_server_whose_clock_was_set_is_followed_after_three_answers_over_five_seconds(clock, ask):
    ask(5)
    ask(50, every=0.09, wrong_by=AHEAD)
    assert clock.now() == pytest.approx(1004.5)
    ask(2, every=0.5, wrong_by=AHEAD)
    assert clock.now() == pytest.approx(1005.5 + AHEAD, abs=1.0)


def test_two_answers_are_no_agreement_however_far_apart(clock, ask):
    ask(5)
    ask(2, every=30.0, wrong_by=AHEAD)
    assert clock.now() == 1060


def test_a_jump_ahead_holds_for_limits_only_after_ten_minutes(clock, ask, wire):
    ask(5)
    ask(4, every=2.0, wrong_by=AHEAD)
    assert (clock.now(), clock.sure()) == (1008 + AHEAD, 1008)
    wire.seconds += 599
    assert clock.sure() == 1607
    wire.seconds += 1
    assert clock.sure() == 1608 + AHEAD


def test_a_jump_back_holds_at_once(clock, ask, wire):
    ask(5)
    ask(3, every=2.0, wrong_by=-AHEAD)
    assert clock.now() == 1006
    ask(1, every=2.0, wrong_by=-AHEAD)
    assert (clock.now(), clock.sure()) == (1008 - AHEAD, 1008 - AHEAD)


def test_after_a_clock_that_was_wrong_for_a_while_time_goes_on(clock, ask, wire):
    ask(5)
    ask(4, every=2.0, wrong_by=86_400)
    assert clock.now() == 1008 + 86_400
    ask(4, every=2.0)
    before = clock.now()
    wire.seconds += 30
    assert (before, clock.now(), clock.sure()) == (1016, 1046, 1046)


def test_of_servers_that_disagree_the_first_stays_believed(clock, ask):
    ask(5)
    for _turn in range(20):
        ask(2, every=3.0, wrong_by=AHEAD)
        ask(2, every=3.0)
    assert (clock.now(), clock.sure()) == (1240, 1240)


def test_of_servers_that_disagree_the_slower_one_limits_whichever_came_first(clock, ask, wire):
    for _turn in range(5):
        ask(wrong_by=AHEAD)
        ask()
    assert (clock.now(), clock.sure()) == (1000 + AHEAD, 1000)
    for _turn in range(200):
        ask(2, every=3.0, wrong_by=AHEAD)
        ask(2, every=3.0)
    assert clock.sure() == 3400
    ask(200, every=2.9, wrong_by=AHEAD)
    assert clock.sure() == pytest.approx(3980)
    wire.seconds += 21
    assert clock.sure() == pytest.approx(4001 + AHEAD)


def test_an_answer_of_an_earlier_time_only_delays_limits(clock, ask, wire):
    ask(5)
    ask(every=1.0, wrong_by=-AHEAD)
    assert (clock.now(), clock.sure()) == (1001, 1001 - AHEAD)
    wire.seconds += 600
    assert clock.sure() == 1601


def test_answers_that_agree_with_none_before_move_nothing(clock, ask):
    ask(5)
    for wrong_by in (100, 200, 300, 400, 500):
        ask(2, every=3.0, wrong_by=wrong_by)
    assert clock.now() == 1030


def test_errors_tell_no_time(clock, ask, wire):
    ask(5)
    wire.status = 502
    for _time in range(5):
        with pytest.raises(ServerFault):
            ask(every=3.0, wrong_by=AHEAD)
    wire.status = 200
    ask()
    assert clock.now() == pytest.approx(clock.sure())
    assert clock.now() < 1000 + AHEAD


def test_a_slow_answer_does_not_set_the_clock_back(clock, ask, wire):
    ask(5)
    plain = wire.send

    def slow(*request):
        answer = plain(*request)
        wire.seconds += 30.0
        return answer

    wire.send = slow
    ask(4)
    assert (clock.now(), clock.sure()) == (1120, 1120)


def test_who_acts_as_another_reads_the_same_clock(client, clock, ask):
    other = client.acting_as("anna")
    for _time in range(5):
        other.request("GET", "/version")
    assert clock.sure() == 1000


@pytest.mark.parametrize(("wall", "stamp"), [(1000.75, 1000.75), (999.5, 999.5), (1600.0, 1000), (400.0, 1000)])
def test_a_stamp_is_as_fine_as_this_machine_knows_unless_its_clock_is_off(client, ask, wall, stamp):
    ask()
    assert ServerClock(client, lambda: wall).stamp() == stamp
