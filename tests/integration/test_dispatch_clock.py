# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Clocks: an answer whose time is wrong ends no gang, whichever of a cycle's answers it is."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

LIMIT = 300
AHEAD = 600.0


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A running gang that may run for five minutes, and a finished one that is kept for five minutes."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="4")
    made.submit("limited", made.job("limited"), max_run_time=LIMIT)
    made.submit("finished", made.job("finished", seconds=0), ttl=LIMIT)
    made.run_until({"limited": "running", "finished": "complete"})
    yield made
    made.close()


@pytest.fixture
def cycle(stage: Stage, proxy: ApiProxy) -> t.Callable[[], int]:
    """One cycle of a dispatcher that was just started, behind the proxy; the number of its requests."""

    def one_cycle() -> int:
        before = len(proxy.requests)
        Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig)).run()
        return len(proxy.requests) - before

    return one_cycle


def test_a_limit_ends_the_gang_in_one_cycle_when_it_is_over_by_all_clocks(
    stage: Stage, proxy: ApiProxy, cycle: t.Callable[[], int]
) -> None:
    rule = proxy.misdate(ahead=AHEAD, path="/(nodes|pods|configmaps)", times=None)
    cycle()
    assert 0 < rule.matched < len(proxy.requests)
    assert (stage.phase("limited"), stage.phase("finished")) == ("running", "complete")
    proxy.clear()
    proxy.misdate(ahead=AHEAD, times=None)
    cycle()
    assert stage.phase("limited") in ("undoing", "failed")
    assert stage.raw("finished") is None
