# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What started gangs are charged with."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    at_least,
    reserved_demands,
)
from ansible_collections.muster.kube.tests.support.gang_records import state_in

RESERVED = ({"name": "w", "count": 2, "requests": {"cpu": "1500m", "pods": "1"}},)


def test_damaged_reservations_count_nothing():
    state = state_in("running", reserved=(*RESERVED, {"name": "v", "count": 1, "requests": {"cpu": "many"}}))
    assert reserved_demands(state) == {"w": {"cpu": 3000, "pods": 2}}


def test_gang_is_charged_no_less_than_its_pods_ask_for():
    reserved = {"w": {"cpu": 2000}, "v": {"cpu": 1000, "memory": 5}}
    assert at_least(reserved, {"cpu": 3000, "memory": 1}) is reserved
    assert at_least(reserved, {"cpu": 3500, "pods": 2}) == {**reserved, "": {"cpu": 500, "pods": 2}}
    assert at_least({}, {}) == {}
