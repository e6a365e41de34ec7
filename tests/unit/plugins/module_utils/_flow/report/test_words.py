# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moments, durations and numbers in words, and units that suit."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    Unit,
    change_text,
    clock_text,
    counted,
    day_text,
    duration_text,
    moment_text,
    number_text,
    percent,
    stretch_text,
    unit_for,
)
from ansible_collections.muster.kube.tests.support.report_cases import START


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


@pytest.mark.parametrize(
    ("largest", "text"), [(20675793.0, "20.68 M rounds/s"), (123456.0, "123.5 k rounds/s"), (9700.0, "9700 rounds/s")]
)
def test_large_numbers_of_any_unit_are_scaled(largest, text):
    assert unit_for("stdout.rate", largest, "rounds/s").text(largest) == text


def test_numbers_that_grew_out_of_all_bounds_have_a_text():
    assert Unit(1e-9, "ns").text(1.7e308) == "∞ ns"
    assert Unit(1e-9, "ns").text(-1.7e308) == "−∞ ns"


def test_a_stretch_of_one_day_names_it_once():
    assert stretch_text(START, START + 60) == "16 Nov 2026, 10:00:00 – 10:01:00"
    assert stretch_text(START, START + 86_400) == "16 Nov 2026, 10:00:00 – 17 Nov 2026, 10:00:00"


def test_nouns_follow_their_number():
    assert [counted(count, "gang") for count in (0, 1, 2)] == ["0 gangs", "1 gang", "2 gangs"]


@pytest.mark.parametrize(("value", "text"), [(0, "0%"), (100, "100%"), (12.5, "12.5%"), (1 / 3, "0.333%"), (10, "10%")])
def test_percent(value, text):
    assert percent(value) == text
