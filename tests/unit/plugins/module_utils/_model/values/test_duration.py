# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Durations: every way to write one, and what is refused."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.duration import parse_duration
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(0, 0), (90, 90), ("90", 90), ("1.5", 1.5), ("1h30m", 5400), ("2d", 172_800), ("1m1s", 61), (" 5m ", 300)],
)
def test_seconds_and_units(text, seconds):
    assert parse_duration(text, "wait_timeout") == seconds


@pytest.mark.parametrize("text", ["", "-5", "1x", "m", "1h 30m", "soon", "1h30"])
def test_anything_else_is_refused_by_the_name_of_the_option(text):
    with pytest.raises(BadInput, match="wait_timeout"):
        parse_duration(text, "wait_timeout")
