# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Speeds at sizes that were measured, and at those that were not."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.tests.support.elastic_jobs import MODELS, speeds_of
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

SPEEDS = st.dictionaries(st.integers(1, 16), st.floats(0.01, 100), max_size=5)


@settings(max_examples=examples(100))
@given(SPEEDS, SPEEDS, st.integers(1, 64))
def test_what_was_measured_is_believed_and_every_speed_is_positive(measured, profile, size):
    curve = SpeedCurve(measured, profile)
    assert curve.at(size) > 0
    assert all(curve.at(seen) == speed for seen, speed in measured.items())
    assert curve.known is bool(measured)


@settings(max_examples=examples(50))
@given(st.floats(0.01, 10), st.floats(0.01, 10), st.floats(0, 0.1))
def test_a_curve_of_that_form_is_found_again(fixed, shared, further):
    def speed(size: int, more: float = further) -> float:
        return 1 / (fixed + shared / size + more * (size - 1))

    curve = SpeedCurve({size: speed(size) for size in (1, 3, 8)})
    assert curve.at(5) == pytest.approx(speed(5), rel=1e-3)
    two = SpeedCurve({size: speed(size, 0.0) for size in (1, 4)})
    assert two.at(2) == pytest.approx(speed(2, 0.0), rel=1e-3)


@pytest.mark.parametrize("model", MODELS)
def test_real_models_are_foreseen_from_two_sizes(model):
    real = speeds_of(model, 8)
    curve = SpeedCurve({size: real[size] for size in (2, 4)})
    assert curve.at(8) == pytest.approx(real[8], rel=0.16)


def test_where_more_was_slower_nothing_is_expected_of_more():
    curve = SpeedCurve({4: 3.0, 8: 1.5})
    assert curve.at(16) <= curve.at(4)
    assert curve.at(12) <= curve.at(4)


def test_one_size_alone_goes_in_proportion_or_along_the_profile():
    assert SpeedCurve({2: 3.0}).at(4) == 6.0
    assert SpeedCurve().at(4) / SpeedCurve().at(2) == 2.0
    profile = {2: 10.0, 4: 16.0, 8: 20.0}
    curve = SpeedCurve({2: 1.0}, profile)
    assert [curve.at(size) for size in (1, 2, 3, 4, 8, 16)] == [0.5, 1.0, 1.3, 1.6, 2.0, 2.0]
    assert SpeedCurve({}, profile).at(3) == 13.0


def test_growth_is_trusted_up_to_twice_what_was_measured_or_as_far_as_a_profile_goes():
    assert SpeedCurve().trusted(3) == 6
    assert SpeedCurve({2: 1.0, 4: 1.5}).trusted(2) == 8
    assert SpeedCurve({2: 1.0}, {1: 1.0, 16: 9.0}).trusted(2) == 16
