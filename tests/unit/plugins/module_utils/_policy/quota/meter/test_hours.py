# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resource-seconds as hours and money."""

from __future__ import annotations

from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.hours import (
    cost_text,
    hours_data,
    hours_text,
    hours_words,
)

HOUR = 3600
CPU, MEMORY, FAST = FlavorResource("", "cpu"), FlavorResource("", "memory"), FlavorResource("fast", "gpu")


@pytest.mark.parametrize(
    ("resource", "used", "text"),
    [
        ("cpu", 1000 * HOUR, "1"),
        ("cpu", 1500 * 1800, "0.75"),
        ("cpu", 0, "0"),
        ("nvidia.com/gpu", 1, "0"),
        ("nvidia.com/gpu", 1234 * HOUR + 1800, "1234.5"),
        ("nvidia.com/gpu", 100 * HOUR, "100"),
        ("memory", 2**30 * HOUR * 3 // 2, "1.5"),
    ],
)
def test_hours_for_people(resource, used, text):
    assert hours_text(resource, used) == text


def test_what_hours_are_of():
    assert (hours_words("memory"), hours_words("cpu")) == ("GiB hours of memory", "hours of cpu")
    assert hours_data({CPU: 1000 * HOUR, FAST: 2 * HOUR}) == {"cpu": "1", "fast": {"gpu": "2"}}


def test_what_it_costs():
    used = {CPU: 1500 * HOUR, MEMORY: 2**31 * HOUR, FAST: 3 * HOUR}
    prices = {CPU: Fraction(1, 10), MEMORY: Fraction(1, 100), FAST: Fraction(2)}
    assert cost_text(prices, used) == "6.17"
    assert cost_text({FAST: Fraction(1, 3)}, used) == "1"
    assert cost_text({}, used) is None
    assert cost_text(prices, {}) == "0"
