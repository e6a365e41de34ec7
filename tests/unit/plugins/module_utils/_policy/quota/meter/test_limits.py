# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Limits besides amounts, and what only the records of waiting gangs tell."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import new_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import ReachedLimit
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.limits import (
    NOBODY,
    Claimant,
    Limits,
    as_recorded,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserKey, UserUse
from ansible_collections.muster.kube.tests.support.gang_cases import config_map, gang_record
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

TREE = small_tree(queue("x", user_limits={"running": 0}), queue("y"))
SPENT = ReachedLimit("budget_spent", "budget", "root/y", "1", "1", "all is used", "cpu", "2026-06-01T00:00:00Z")
AT, UNTIL = "2026-05-01T00:00:00Z", "2026-05-01T00:05:00Z"
NOW = read_time(AT)


def waiting(**changes):
    raw = gang_record("g", "a", [config_map("m")])
    raw["metadata"].update(uid="g", resourceVersion="1", annotations={"muster.kube/user": "ann"})
    state = dataclasses.replace(new_state(AT, ""), **changes)
    return dataclasses.replace(record_from_api(raw), state=state)


def verdict(answer="fits", reason=None):
    return Verdict("g", "a", answer, "now" if answer == "fits" else None, reason, NamespaceFit(True), 0, (), {})


def test_a_budget_comes_before_what_a_user_has():
    limits = Limits({("default", "y"): SPENT}, UserUse([TREE]))
    ann = Claimant(UserKey("ann"))
    assert limits.reached(TREE, "y", ann, {}) is SPENT
    assert limits.reached(TREE, "x", ann, {}).reason == "user_limit"
    assert limits.reached(TREE, "x", NOBODY, {}) is None
    assert limits.reached(TREE, "x", Claimant.of(waiting()), {}).reason == "user_limit"
    assert Limits().reached(TREE, "x", ann, {}) is None


@pytest.mark.parametrize(
    ("answer", "told", "reason"),
    [("waits", None, "nominated"), ("fits", None, None), ("fits", "nominated", "nominated"), ("never", None, None)],
)
def test_what_others_go_for_is_nominated_until_its_time_is_over(answer, told, reason):
    record = waiting(nominated=UNTIL, verdict={"reason": told})
    found = as_recorded(verdict(answer), record, NOW)
    assert (found.reason, found.how == "after_reclaim") == (reason, reason == "nominated")
    assert as_recorded(verdict(answer), record, read_time(UNTIL)).reason is None


def test_quota_that_is_held_for_others_is_as_the_dispatcher_said():
    record = waiting(verdict={"reason": "quota_reserved", "detail": "it is held for a gang of queue root/x"})
    found = as_recorded(verdict(), record, NOW)
    assert (found.answer, found.reason, found.detail) == ("waits", "quota_reserved", record.state.verdict["detail"])
    assert as_recorded(verdict("waits", "quota"), record, NOW).reason == "quota"
    assert as_recorded(verdict(), None, NOW).answer == "fits"
