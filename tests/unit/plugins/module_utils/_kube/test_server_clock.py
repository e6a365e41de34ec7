# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time of the cluster."""

from __future__ import annotations

import datetime
import types

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock


def moment(seconds):
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


@pytest.fixture
def client():
    return types.SimpleNamespace(server_time=moment(1000))


@pytest.fixture
def steady():
    return types.SimpleNamespace(seconds=50.0, wall=0.0)


@pytest.fixture
def clock(client, steady):
    return ServerClock(client, lambda: steady.seconds, lambda: steady.wall)


def test_before_the_first_answer_there_is_no_time(client, clock):
    client.server_time = None
    with pytest.raises(KubeError, match="has not answered yet"):
        clock.now()


def test_between_answers_it_goes_on(clock, steady):
    assert clock.now() == 1000
    steady.seconds += 0.25
    assert clock.now() == 1000.25


def test_headers_of_whole_seconds_do_not_make_it_jump(client, clock, steady):
    clock.now()
    steady.seconds += 1.5
    client.server_time = moment(1001)
    assert clock.now() == 1001.5


def test_a_server_whose_clock_was_set_is_followed_but_never_backwards(client, clock, steady):
    clock.now()
    client.server_time = moment(2000)
    assert clock.now() == 2000
    client.server_time = moment(500)
    assert clock.now() == 2000
    steady.seconds += 3000
    client.server_time = moment(3500)
    assert clock.now() == 3500


@pytest.mark.parametrize(("wall", "stamp"), [(1000.75, 1000.75), (999.5, 999.5), (1600.0, 1000), (400.0, 1000)])
def test_a_stamp_is_as_fine_as_this_machine_knows_unless_its_clock_is_off(clock, steady, wall, stamp):
    steady.wall = wall
    assert clock.stamp() == stamp
