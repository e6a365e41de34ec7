# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pace: how many pods may be asked of controllers that make them one after the other."""

from __future__ import annotations

import collections

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.pace import (
    LEAST_PODS,
    Pace,
    made_per_second,
    pods_to_make,
)
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, pod

START_TIMEOUT = 300.0
# What a controller manager with its default settings makes in a second.
STOCK = 20


def seen(uid, second, *owners):
    """A pod made at some second of the first minute of 1970."""
    raw = pod(uid, labels={"x": "y"})
    owned = [{"uid": owner} for owner in owners]
    raw["metadata"].update(uid=uid, creationTimestamp=f"1970-01-01T00:00:{second:02d}Z", ownerReferences=owned)
    return gang_pod_from_api(raw)


def test_only_pods_that_controllers_made_lately_count_and_each_once():
    pods = [seen("old", 10, "job"), seen("a", 21, "job"), seen("b", 45, "job"), seen("b", 45, "set")]
    assert made_per_second(pods, frozenset(), 50.0) == pytest.approx(2 / 30)
    bare = [seen("bare", 45, "ticket"), seen("a", 45, "job", "ticket")]
    assert made_per_second(bare, frozenset({"ticket"}), 50.0) == pytest.approx(1 / 30)


def test_bare_pods_wait_for_no_controller():
    bare = {**pod("bare"), "metadata": {"name": "bare"}}
    assert pods_to_make(gang(job("a", 3), job("b", 4), bare)) == 7


def test_nothing_missing_lets_the_largest_gang_start():
    pace = Pace(0.0, START_TIMEOUT)
    assert pace.allows(10**6)
    pace.expect(1)
    assert not pace.allows(10**6)


def test_some_pods_may_be_missing_however_slow_controllers_seem():
    pace = Pace(0.0, START_TIMEOUT)
    pace.expect(1)
    assert pace.allows(LEAST_PODS - 1)
    assert not pace.allows(LEAST_PODS)
    assert Pace(50.0, START_TIMEOUT).allows(5000)


def test_gangs_without_pods_are_never_held_back():
    pace = Pace(0.0, START_TIMEOUT)
    pace.expect(10**6)
    assert pace.allows(0)


@pytest.mark.parametrize("size", [1, 40, 100, 900])
def test_no_pod_is_asked_of_a_stock_controller_manager_that_it_cannot_make_in_time(size):
    """8,000 pods are wanted at once; one cycle in a second, pods are made in the order they were asked for."""
    queue = collections.deque([size] * (8000 // size))
    missing: collections.deque[float] = collections.deque()
    made: list[float] = []
    now = 0.0
    while queue or missing:
        lately = sum(1 for moment in made if moment > now - 30)
        pace = Pace(lately / 30, START_TIMEOUT)
        pace.expect(len(missing))
        while queue and pace.allows(queue[0]):
            pace.expect(queue[0])
            missing.extend([now] * queue.popleft())
        assert len(missing) <= STOCK * START_TIMEOUT
        now += 1
        for asked in [missing.popleft() for _turn in range(min(STOCK, len(missing)))]:
            assert now - asked <= START_TIMEOUT / 2
            made.append(now)
    assert len(made) == 8000 // size * size
    assert now <= 8000 / STOCK + 60
