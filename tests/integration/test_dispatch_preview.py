# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of dispatch: the same decisions as the cycle that follows, and nothing written."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool


@pytest.fixture
def queue(cluster, namespace):
    """Three gangs and room for two: one of four cpu, one too large, one of two cpu."""
    nodes = node_pool(namespace, 2, cpu="4")
    cluster.add_nodes(nodes)
    for name, pods, cpu in (("first", 1, "4"), ("large", 3, "3"), ("last", 1, "2")):
        cluster.create(gang_record(name, namespace, [job(name, namespace, pods, cpu=cpu)]))
    lease = LeaseOptions(namespace, "dispatch", 5.0)
    cluster.create(free_lease(lease))
    yield DispatchOptions(namespaces=(namespace,), lease=lease)
    cluster.remove_nodes([node["metadata"]["name"] for node in nodes])


def told(result):
    """Who was decided about how."""
    return {item.gang.partition("/")[2]: (item.action, item.reason) for item in result.decisions}


def test_what_a_cycle_would_do_is_what_it_does(queue, proxy):
    auth = {"kubeconfig": str(proxy.kubeconfig)}
    foreseen = preview_dispatch(connect(auth), queue)
    assert_no_writes(proxy)
    assert foreseen.changed
    done = run_dispatch(connect(auth), connect(auth), queue, lambda text: None)
    assert told(foreseen) == told(done)
    assert {name: action for name, (action, _reason) in told(done).items()} == {
        "first": "start",
        "large": "wait",
        "last": "start",
    }
    again = preview_dispatch(connect(auth), queue)
    assert {name: action for name, (action, _reason) in told(again).items() if action == "start"} == {}
