# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Axes of metrics: round ticks that can be told apart, and units that suit."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.scale import (
    MOST_TICKS,
    Unit,
    build_scale,
    change_text,
    number_text,
    unit_for,
)

PLAIN = Unit(1.0, "")


@pytest.mark.parametrize(
    ("metric", "largest", "text"),
    [
        ("wall_seconds", 10.07, "10.07 s"),
        ("wall_seconds", 90.0, "90 s"),
        ("wall_seconds", 5400.0, "90 min"),
        ("usage.user_seconds", 0.0123, "12.3 ms"),
        ("wall_seconds", 0.0, "0 s"),
        ("stdout.@result.elapsed", 2e-6, "2 µs"),
        ("usage.max_rss_bytes", 50_000_000, "47.68 MiB"),
        ("usage.max_rss_bytes", 512, "512 B"),
        ("stdout.rate", 12_345, "12.35 k"),
        ("stdout.rate", 8.5, "8.5"),
        ("stdout.rate", 0.0004, "0.0004"),
    ],
)
def test_units_follow_the_name_of_the_metric_and_the_size_of_its_values(metric, largest, text):
    assert unit_for(metric, largest).text(largest) == text


def test_a_given_unit_is_taken_as_it_is():
    assert unit_for("wall_seconds", 12_345.0, "frames").text(12_345.0) == "12345 frames"
    assert unit_for("stdout", 2_097_152.0, "bytes").text(2_097_152.0) == "2 MiB"
    assert unit_for("stdout", 0.25, "s").text(0.25) == "250 ms"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (1234567.0, "1234567"),
        (1.23456, "1.235"),
        (5e-8, "5e-08"),
        (3e12, "3e+12"),
    ],
)
def test_numbers_have_a_few_digits(number, text):
    assert number_text(number) == text


@pytest.mark.parametrize(("percent", "text"), [(13.94, "+13.9 %"), (-0.01, "0.0 %"), (-12.25, "−12.2 %")])
def test_changes_have_a_sign(percent, text):
    assert change_text(percent) == text


def test_an_axis_begins_at_zero_where_little_room_is_lost():
    scale = build_scale(1, 10, PLAIN)
    assert scale.start == 0
    assert [tick.label for tick in scale.ticks] == ["0", "2", "4", "6", "8", "10"]
    assert build_scale(9, 10, PLAIN).start > 8


def test_the_ticks_are_in_the_unit():
    scale = build_scale(0.095, 0.105, Unit(1e-3, "ms"))
    assert [tick.label for tick in scale.ticks] == ["96", "98", "100", "102", "104"]
    assert scale.place(0.1) == pytest.approx(scale.ticks[2].place)


def test_differences_that_do_not_matter_do_not_look_large():
    scale = build_scale(100.0, 100.001, PLAIN)
    assert scale.place(100.001) - scale.place(100.0) < 1


VALUES = st.floats(-1e15, 1e15).filter(lambda value: value == 0 or abs(value) > 1e-6)


@hypothesis.given(VALUES, VALUES)
def test_any_two_values_have_an_axis_with_different_labels(one, other):
    least, most = sorted((one, other))
    scale = build_scale(least, most, unit_for("m", max(abs(least), abs(most))))
    labels = [tick.label for tick in scale.ticks]
    assert 1 <= len(labels) <= MOST_TICKS + 2
    assert len(set(labels)) == len(labels)
    assert 0 <= scale.place(least) <= scale.place(most) <= 100


@pytest.mark.parametrize(
    ("largest", "text"), [(20675793.0, "20.68 M rounds/s"), (123456.0, "123.5 k rounds/s"), (9700.0, "9700 rounds/s")]
)
def test_large_numbers_of_any_unit_are_scaled(largest, text):
    assert unit_for("stdout.rate", largest, "rounds/s").text(largest) == text


@pytest.mark.parametrize(("least", "most"), [(-1.7e308, 1.7e308), (0.0, 1.7e308), (1.7e308, 1.7e308), (-1.7e308, 0.0)])
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e12])
def test_numbers_out_of_all_bounds_have_an_axis(least, most, factor):
    scale = build_scale(least, most, Unit(factor, "x"))
    assert all(0 <= scale.place(value) <= 100 for value in (least, most))
    assert len({tick.label for tick in scale.ticks}) == len(scale.ticks) > 1


def test_numbers_that_grew_out_of_all_bounds_have_a_text():
    assert Unit(1e-9, "ns").text(1.7e308) == "∞ ns"
    assert Unit(1e-9, "ns").text(-1.7e308) == "−∞ ns"
