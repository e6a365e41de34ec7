# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many requests a gang costs: counted one by one, without lists, watches, Events and the Lease of each cycle."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told
from ansible_collections.muster.kube.tests.support.gang_costs import STORES, Store, costs_of_start, counted, queue_gang
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

SIZE = 3


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str, proxy: ApiProxy) -> t.Iterator[Stage]:
    """A dispatcher behind the proxy whose Lease is there already, so that nothing has to be claimed."""
    install_wrapper_crd(cluster.client)
    made = Stage(cluster, namespace, str(proxy.kubeconfig))
    made.run()
    yield made
    made.close()


@pytest.mark.parametrize("store", STORES)
def test_a_start_costs(stage: Stage, proxy: ApiProxy, store: Store) -> None:
    stage.add_nodes(1)
    queue_gang(stage, store, SIZE)
    proxy.forget()
    assert told(stage.run(), "gang").action == "start"
    found = counted(proxy, stage)
    assert found == costs_of_start(store, SIZE)
    assert found.total() == 2 * SIZE + (2 if store == "configmap" else 3)


@pytest.mark.parametrize("store", STORES)
def test_a_second_run_writes_nothing(stage: Stage, proxy: ApiProxy, store: Store) -> None:
    stage.add_nodes(1, cpu="4")
    queue_gang(stage, store, 3)
    stage.run_until({"gang": "running"})
    waiting = stage.job("waiting", 1, cpu="4")
    stage.submit("waiting", waiting) if store == "configmap" else stage.wrap("waiting", waiting)
    stage.submit("done", stage.job("done", 1, seconds=0, cpu="1"))
    stage.run_until({"done": "complete"})
    stage.run()
    proxy.forget()
    result = stage.run()
    assert result.changed is False
    assert {item.path for item in proxy.writes} <= {stage.lease_path}, [item.path for item in proxy.writes]
    assert proxy.dry_runs == []
    assert told(result, "waiting").action == "wait"
