# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of dispatch: the same decisions as the cycle that follows, and nothing written."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult, run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy


@pytest.fixture
def queue(cluster: VirtualCluster, namespace: str) -> DispatchOptions:
    """Three gangs and room for two: one of four cpu, one too large, one of two cpu."""
    cluster.add_nodes(node_pool(namespace, 2, cpu="4"))
    for name, pods, cpu in (("first", 1, "4"), ("large", 3, "3"), ("last", 1, "2")):
        cluster.create(gang_record(name, namespace, [job(name, namespace, pods, cpu=cpu)]))
    return DispatchOptions(namespaces=(namespace,), lease=LeaseOptions(namespace, "dispatch", 5.0))


@pytest.fixture
def connect(cluster: VirtualCluster, proxy: VirtualProxy) -> t.Callable[[], KubeClient]:
    """Makes clients behind the proxy."""
    return lambda: cluster.connect(str(proxy.kubeconfig))


def told(result: DispatchResult) -> dict[str, tuple[str, str]]:
    """Who was decided about how."""
    return {item.gang.partition("/")[2]: (item.action, item.reason) for item in result.decisions}


def test_what_a_cycle_would_do_is_what_it_does(
    queue: DispatchOptions, proxy: VirtualProxy, connect: t.Callable[[], KubeClient]
) -> None:
    foreseen = preview_dispatch(connect(), queue)
    assert_no_writes(proxy)
    assert foreseen.changed
    done = run_dispatch(connect(), connect(), queue, lambda text: None)
    assert told(foreseen) == told(done)
    assert {name: action for name, (action, _reason) in told(done).items()} == {
        "first": "start",
        "large": "wait",
        "last": "start",
    }


def test_nothing_to_do_is_no_change(queue: DispatchOptions, connect: t.Callable[[], KubeClient]) -> None:
    run_dispatch(connect(), connect(), queue, lambda text: None)
    again = preview_dispatch(connect(), queue)
    assert {name: action for name, (action, _reason) in told(again).items() if action == "start"} == {}
