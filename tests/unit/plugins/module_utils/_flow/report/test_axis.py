# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The axis of time: round ticks, places, words."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import (
    MOST_TICKS,
    build_axis,
    clock_text,
    day_text,
    duration_text,
    moment_text,
    round_step,
)
from ansible_collections.muster.kube.tests.support.report_cases import START

HOUR, DAY = 3_600, 86_400


@hypothesis.given(st.floats(0, 4e9), st.floats(0, 3e9))
def test_ticks_are_round_ordered_inside_and_not_too_many(first, span):
    axis = build_axis(first, first + span)
    places = [tick.place for tick in axis.ticks]
    assert 1 <= len(axis.ticks) <= MOST_TICKS + 1
    assert places == sorted(set(places))
    assert all(0 <= place <= 100 for place in places)
    steps = {after.at - before.at for before, after in zip(axis.ticks, axis.ticks[1:], strict=False)}
    assert len(steps) <= 1
    assert all(tick.at % step == 0 for step in sorted(steps) for tick in axis.ticks)


@hypothesis.given(st.floats(0, 4e9), st.floats(0, 1e8), st.floats(0, 1), st.floats(0, 1))
def test_places_keep_the_order_of_time_and_leave_room_at_the_ends(first, span, one, other):
    axis = build_axis(first, first + span)
    early, late = sorted((one, other))
    assert 0 < axis.place(first) <= axis.place(first + early * span) <= axis.place(first + late * span) < 100


def test_places_outside_are_moved_to_the_ends():
    axis = build_axis(START, START + 100)
    assert (axis.place(0), axis.place(START * 2)) == (0, 100)


@pytest.mark.parametrize(
    ("span", "step"),
    [(10, 1), (11, 2), (61, 10), (600, 60), (601, 120), (8 * HOUR, HOUR), (2 * DAY, 6 * HOUR), (30 * DAY, 7 * DAY)],
)
def test_steps_are_what_people_expect(span, step):
    assert round_step(span) == step


def test_very_long_spans_still_have_few_ticks():
    assert round_step(1000 * 365 * DAY) % (364 * DAY) == 0
    assert 1000 * 365 * DAY / round_step(1000 * 365 * DAY) <= MOST_TICKS


def test_labels_show_seconds_only_where_needed_and_the_day_where_it_changes():
    seconds = build_axis(START, START + 60).ticks
    assert (seconds[0].label, seconds[0].day, seconds[1].day) == ("10:00:00", "16 Nov", "")
    night = build_axis(START + 12 * HOUR, START + 16 * HOUR).ticks
    assert [(tick.label, tick.day) for tick in night if tick.day] == [("22:00", "16 Nov"), ("00:00", "17 Nov")]
    weeks = build_axis(START, START + 9 * DAY).ticks
    assert (weeks[0].label, {tick.day for tick in weeks}) == ("17 Nov", {""})


def test_moments_are_utc_and_cut_to_seconds():
    assert moment_text(START + 0.9) == "16 Nov 2026, 10:00:00"
    assert (clock_text(START, seconds=False), day_text(START), day_text(0, year=True)) == (
        "10:00",
        "16 Nov",
        "1 Jan 1970",
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.6, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (3_600, "1 h"),
        (4_350, "1 h 12 min"),
        (86_400, "1 d"),
        (190_000, "2 d 4 h"),
    ],
)
def test_durations(seconds, text):
    assert duration_text(seconds) == text
