# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clocks: an answer whose time is wrong ends no gang, whichever of a cycle's answers it is."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy

LIMIT = 300
AHEAD = 600.0
# A cycle has at least so many answers.
ANSWERS = range(1, 16)


@pytest.fixture
def stage(cluster: VirtualCluster, namespace: str) -> Stage:
    """A running gang that may run for five minutes, and a finished one that is kept for five minutes."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="4")
    made.submit("limited", made.job("limited"), max_run_time=LIMIT)
    made.submit("finished", made.job("finished", seconds=0), ttl=LIMIT)
    made.run_until({"limited": "running", "finished": "complete"})
    return made


@pytest.fixture
def cycle(stage: Stage, proxy: VirtualProxy) -> t.Callable[[], int]:
    """One cycle of a dispatcher that was just started, behind the proxy; the number of its requests."""

    def one_cycle() -> int:
        before = len(proxy.requests)
        Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig)).run()
        return len(proxy.requests) - before

    return one_cycle


def phases(stage: Stage) -> tuple[str, str]:
    """Where both gangs stand."""
    return stage.phase("limited"), stage.phase("finished")


def test_one_answer_of_another_time_ends_nothing(stage: Stage, proxy: VirtualProxy, cycle: t.Callable[[], int]) -> None:
    for number in ANSWERS:
        proxy.clear()
        proxy.misdate(ahead=AHEAD, first=number)
        assert cycle() >= len(ANSWERS)
        assert phases(stage) == ("running", "complete"), number


def test_errors_of_another_time_end_nothing(stage: Stage, proxy: VirtualProxy, cycle: t.Callable[[], int]) -> None:
    for number in ANSWERS:
        proxy.clear()
        proxy.fail(status=502, method="GET", first=number, ahead=AHEAD)
        cycle()
        assert phases(stage) == ("running", "complete"), number


@pytest.mark.parametrize("path", ["/(nodes|pods|configmaps)", "/(leases|jobs|namespaces)"], ids=["world", "rest"])
def test_the_slower_of_two_clocks_limits(
    stage: Stage, proxy: VirtualProxy, cycle: t.Callable[[], int], path: str
) -> None:
    rule = proxy.misdate(ahead=AHEAD, path=path, times=None)
    cycle()
    assert 0 < rule.matched < len(proxy.requests)
    assert phases(stage) == ("running", "complete")


def test_a_limit_that_is_over_by_all_clocks_ends_the_gang_in_one_cycle(
    stage: Stage, proxy: VirtualProxy, cycle: t.Callable[[], int]
) -> None:
    proxy.misdate(ahead=AHEAD, times=None)
    cycle()
    assert stage.phase("limited") in ("undoing", "failed")
    assert stage.raw("finished") is None
