# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""elastic_balance for real: alone, and beside a dispatcher that follows the cluster."""

from __future__ import annotations

import contextlib
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.balance import BalanceResult, run_balance
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.live_cluster import DEADLINE, LiveCluster, wait_until

GPU = "nvidia.com/gpu"
AT_ONCE = {"timing": "now", "cooldown": 0, "restart_cost": 0}


@pytest.fixture(name="stage")
def one_node(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A node of ten GPUs."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="64", **{GPU: "10"})
    yield made
    made.close()


def balance(stage: Stage, **options: t.Any) -> tuple[BalanceResult, int]:
    """What the task comes to, and how many writes it sent."""
    clients: list[KubeClient] = []

    def connect() -> KubeClient:
        clients.append(stage.cluster.connect())
        return clients[-1]

    asked = {"lease": stage.lease, "namespaces": (stage.namespace,), "wait_timeout": DEADLINE, **options}
    result = run_balance(connect, BalanceOptions(**asked), stage.lines.append)
    return result, sum(count for client in clients for method, count in client.requests.items() if method != "GET")


def three_of_which_one_ends(stage: Stage) -> None:
    """Three trainings share the node, nobody may resize them yet, and the first ends."""
    stage.ensure_lease()
    assert balance(stage, settings={"most_resizes": 0})[0].changed
    for name, seconds in (("one", 5), ("two", None), ("three", None)):
        made = stage.job(name, 1, seconds=seconds, **{"cpu": "100m", GPU: "2"})
        stage.submit(name, made, elastic={**AT_ONCE, "range": {"sizes": [3, 5]}})
    stage.run_until({"one": "complete", "two": "running", "three": "running"})
    assert allotments(stage) == [3, 3]


def allotments(stage: Stage) -> list[int | None]:
    return [stage.state(name).allotment for name in ("two", "three")]


def holder(stage: Stage) -> str | None:
    """Who holds the Lease."""
    return ((get_object(stage.client, stage.lease_path) or {}).get("spec") or {}).get("holderIdentity")


@contextlib.contextmanager
def dispatcher(stage: Stage) -> t.Iterator[None]:
    """A dispatcher that follows the cluster until the block ends."""
    over = threading.Event()
    options = DispatchOptions(lease=stage.lease, namespaces=(stage.namespace,), duration=DEADLINE)
    clients = stage.cluster.connect(), stage.cluster.connect()
    arguments = (*clients, options, stage.lines.append)
    thread = threading.Thread(target=run_dispatch, args=arguments, kwargs={"until": lambda _phases: over.is_set()})
    thread.start()
    try:
        wait_until("the dispatcher has the Lease", lambda: holder(stage))
        yield
    finally:
        over.set()
        # A change wakes it.
        stage.annotate("two", wake="up")
        thread.join(DEADLINE)


def test_it_resizes_alone_and_then_writes_nothing(stage: Stage) -> None:
    three_of_which_one_ends(stage)
    kept = {"most_resizes": 4}
    shown, writes = balance(stage, check_mode=True, settings=kept)
    assert writes == 0
    done, _writes = balance(stage, settings=kept)
    assert (done.carried_out_by, done.changed) == ("self", True)
    assert done.resized == shown.resized == sorted(f"{stage.namespace}/{name}" for name in ("two", "three"))
    assert allotments(stage) == [5, 5]
    again, writes = balance(stage, settings=kept)
    assert (again.changed, writes) == (False, 0)
    assert {item["reason"] for item in again.as_result(diff=False)["jobs"]} == {"at_max"}


def test_a_dispatcher_that_follows_the_cluster_carries_it_out(stage: Stage) -> None:
    three_of_which_one_ends(stage)
    with dispatcher(stage):
        done, _writes = balance(stage, settings={"most_resizes": 4})
        assert done.carried_out_by == "dispatcher", done.warnings
        assert len(done.resized) == 2
        assert allotments(stage) == [5, 5]
