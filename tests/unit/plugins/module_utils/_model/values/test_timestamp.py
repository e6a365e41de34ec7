# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Points in time: what the API server writes is read, anything else is none."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values import timestamp
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import (
    micro_time_text,
    read_micros,
    read_time,
    time_text,
)
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(50))

FAR = 253_402_300_799  # the last second of the year 9999


@steady
@given(st.integers(0, FAR * 1_000_000))
def test_microseconds_come_back(micros):
    text = micro_time_text(micros)
    assert read_micros(text) == micros
    assert len(text) == len("2026-01-01T00:00:00.000000Z")


@steady
@given(st.integers(0, FAR))
def test_seconds_come_back(seconds):
    assert read_time(time_text(seconds)) == seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01T01:00:01.5+01:00", 1.5),
        ("1970-01-01T00:00:00.123456789z", 0.123456),
        ("1970-01-01t00:00:00Z", 0.0),
    ],
)
def test_forms_of_rfc_3339(text, seconds):
    assert read_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "soon",
        "2026-01-01",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "2026-01-01T25:00:00Z",
        "٢" * 20,
    ],
)
def test_anything_else_is_no_time(text):
    assert read_time(text) is None


def test_no_long_text_is_remembered():
    """Whoever writes records could fill the memory of a dispatcher."""
    before = timestamp._micros_of.cache_info().misses
    assert read_time("2026-01-01T00:00:00.123456789+01:00") is not None
    assert read_time("2" * 200_000) is None
    assert timestamp._micros_of.cache_info().misses <= before + 1


def test_fractions_of_a_second_are_cut():
    assert time_text(1.999) == "1970-01-01T00:00:01Z"
