# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Axes of time and of numbers: round ticks that can be told apart, and places in order."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import (
    MOST_MOMENTS,
    MOST_NUMBERS,
    Tick,
    number_axis,
    time_axis,
    time_step,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import Unit, unit_for
from ansible_collections.muster.kube.tests.support.report_cases import START

HOUR, DAY = 3_600, 86_400
LAST_MOMENT = 253_402_300_799
PLAIN = Unit(1.0, "")


@hypothesis.given(st.floats(0, 4e9), st.floats(0, 3e9))
def test_ticks_are_round_ordered_inside_and_not_too_many(first, span):
    axis = time_axis(first, first + span)
    places = [tick.place for tick in axis.ticks]
    assert 1 <= len(axis.ticks) <= MOST_MOMENTS + 1
    assert places == sorted(set(places))
    assert all(0 <= place <= 100 for place in places)
    steps = {after.at - before.at for before, after in zip(axis.ticks, axis.ticks[1:], strict=False)}
    assert len(steps) <= 1
    assert all(tick.at % step == 0 for step in sorted(steps) for tick in axis.ticks)


@hypothesis.given(st.floats(0, 4e9), st.floats(0, 1e8), st.floats(0, 1), st.floats(0, 1))
def test_places_keep_the_order_of_time_and_leave_room_at_the_ends(first, span, one, other):
    axis = time_axis(first, first + span)
    early, late = sorted((one, other))
    assert 0 < axis.place(first) <= axis.place(first + early * span) <= axis.place(first + late * span) < 100


def test_places_outside_are_moved_to_the_ends():
    axis = time_axis(START, START + 100)
    assert (axis.place(0), axis.place(START * 2)) == (0, 100)


@pytest.mark.parametrize(
    ("span", "step"),
    [(10, 1), (11, 2), (61, 10), (600, 60), (601, 120), (8 * HOUR, HOUR), (2 * DAY, 6 * HOUR), (30 * DAY, 7 * DAY)],
)
def test_steps_are_what_people_expect(span, step):
    assert time_step(span) == step


def test_very_long_spans_still_have_few_ticks():
    assert time_step(1000 * 365 * DAY) % (364 * DAY) == 0
    assert 1000 * 365 * DAY / time_step(1000 * 365 * DAY) <= MOST_MOMENTS


def test_labels_show_seconds_only_where_needed_and_the_day_where_it_changes():
    seconds = time_axis(START, START + 60).ticks
    assert (seconds[0].label, seconds[0].day, seconds[1].day) == ("10:00:00", "16 Nov", "")
    night = time_axis(START + 12 * HOUR, START + 16 * HOUR).ticks
    assert [(tick.label, tick.day) for tick in night if tick.day] == [("22:00", "16 Nov"), ("00:00", "17 Nov")]
    weeks = time_axis(START, START + 9 * DAY).ticks
    assert (weeks[0].label, {tick.day for tick in weeks}) == ("17 Nov", {""})


@pytest.mark.parametrize(
    ("place", "anchor"), [(0, "start"), (2.9, "start"), (3, "middle"), (97, "middle"), (98, "end")]
)
def test_labels_at_the_ends_are_not_cut(place, anchor):
    assert Tick(0, place, "x").anchor == anchor


def test_the_last_seconds_of_all_dates_have_an_axis():
    ticks = time_axis(LAST_MOMENT - 5, LAST_MOMENT).ticks
    assert ticks[0].label == "23:59:54"
    assert all(tick.day in ("31 Dec", "") for tick in ticks)


def test_an_axis_begins_at_zero_where_little_room_is_lost():
    axis = number_axis(1, 10, PLAIN)
    assert axis.start == 0
    assert [tick.label for tick in axis.ticks] == ["0", "2", "4", "6", "8", "10"]
    assert number_axis(9, 10, PLAIN).start > 8


def test_the_ticks_are_in_the_unit():
    axis = number_axis(0.095, 0.105, Unit(1e-3, "ms"))
    assert [tick.label for tick in axis.ticks] == ["96", "98", "100", "102", "104"]
    assert axis.place(0.1) == pytest.approx(axis.ticks[2].place)


def test_differences_that_do_not_matter_do_not_look_large():
    axis = number_axis(100.0, 100.001, PLAIN)
    assert axis.place(100.001) - axis.place(100.0) < 1


VALUES = st.floats(-1e15, 1e15).filter(lambda value: value == 0 or abs(value) > 1e-6)


@hypothesis.given(VALUES, VALUES)
def test_any_two_values_have_an_axis_with_different_labels(one, other):
    least, most = sorted((one, other))
    axis = number_axis(least, most, unit_for("m", max(abs(least), abs(most))))
    labels = [tick.label for tick in axis.ticks]
    assert 1 <= len(labels) <= MOST_NUMBERS + 2
    assert len(set(labels)) == len(labels)
    assert 0 <= axis.place(least) <= axis.place(most) <= 100


@pytest.mark.parametrize(("least", "most"), [(-1.7e308, 1.7e308), (0.0, 1.7e308), (1.7e308, 1.7e308), (-1.7e308, 0.0)])
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e12])
def test_numbers_out_of_all_bounds_have_an_axis(least, most, factor):
    axis = number_axis(least, most, Unit(factor, "x"))
    assert all(0 <= axis.place(value) <= 100 for value in (least, most))
    assert len({tick.label for tick in axis.ticks}) == len(axis.ticks) > 1
