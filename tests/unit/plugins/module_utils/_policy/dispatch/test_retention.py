# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which finished gangs are removed."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.retention import Over, to_remove

GANGS = [Over("new", 90.0), Over("old", 10.0), Over("middle", 50.0)]


@pytest.mark.parametrize(
    ("most", "longest", "removed"),
    [
        (None, None, []),
        (3, 100.0, []),
        (2, None, ["old"]),
        (1, None, ["old", "middle"]),
        (0, None, ["old", "middle", "new"]),
        (None, 60.0, ["old"]),
        (None, 50.0, ["old", "middle"]),
        (None, 0.0, ["old", "middle", "new"]),
        (2, 50.0, ["old", "middle"]),
    ],
)
def test_the_oldest_go_first(most, longest, removed):
    assert to_remove(GANGS, 100.0, most, longest) == removed


def test_a_ttl_of_its_own_comes_before_number_and_age():
    due, later = Over("due", 10.0, expires=100.0), Over("later", 1.0, expires=100.1)
    assert to_remove([due, later, *GANGS], 100.0, None, None) == ["due"]
    assert to_remove([later, *GANGS], 100.0, 0, 0.0) == ["old", "middle", "new"]
    assert to_remove([later, *GANGS], 100.0, 3, None) == []


def test_what_is_to_stay_stays_and_counts_nothing():
    stays = [Over("a", 0.0, keep=True), Over("b", 0.0, expires=1.0, keep=True)]
    assert to_remove([*stays, *GANGS], 100.0, 3, 95.0) == []
    assert to_remove(stays, 100.0, 0, 0.0) == []


def test_whoever_has_most_loses_first():
    mine = [Over(f"mine-{number}", 10.0 + number, namespace="mine") for number in range(2)]
    many = [Over(f"many-{number}", 1e9 + number, namespace="many") for number in range(50)]
    gone = to_remove([*mine, *many], 100.0, 10, None)
    assert gone == [f"many-{number}" for number in range(42)]
    assert to_remove([*mine, *many], 100.0, 2, None) == ["mine-0", *(f"many-{number}" for number in range(49))]
