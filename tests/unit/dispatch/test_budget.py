# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many requests a gang costs: counted one by one, without lists, watches, Events and the Lease of each cycle."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import METER_PREFIX
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import create_record
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import create_tree
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told
from ansible_collections.muster.kube.tests.support.gang_cases import app_wrapper, config_map, gang_record
from ansible_collections.muster.kube.tests.support.gang_costs import (
    STORES,
    Store,
    costs_of_start,
    counted,
    queue_gang,
    quota_writes,
)
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy

Object = dict[str, t.Any]
SIZES = (1, 3)


@pytest.fixture
def stage(cluster: VirtualCluster, namespace: str, proxy: VirtualProxy) -> Stage:
    """A dispatcher behind the proxy whose Lease is there already, so that nothing has to be claimed."""
    made = Stage(cluster, namespace, str(proxy.kubeconfig))
    made.run()
    return made


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("size", SIZES)
def test_a_start_costs(stage: Stage, proxy: VirtualProxy, store: Store, size: int) -> None:
    stage.add_nodes(1)
    queue_gang(stage, store, size)
    proxy.forget()
    assert told(stage.run(), "gang").action == "start"
    found = counted(proxy, stage)
    assert found == costs_of_start(store, size)
    assert found.total() == 2 * size + (2 if store == "configmap" else 3)


@pytest.fixture(name="tree")
def stored_tree(stage: Stage) -> t.Iterator[None]:
    """A quota tree in the Lease's namespace whose only queue is everybody's."""
    tree = small_tree(queue("all-of-it", nominal={"cpu": 100}, default=True))
    create_tree(stage.cluster.client, stage.lease.namespace, tree)
    try:
        yield
    finally:
        client, home = stage.cluster.client, stage.lease.namespace
        maps = list_objects(client, resource_path("v1", "configmaps", home), keep=lambda raw: raw["metadata"]["name"])
        for name in maps.items:
            if name.startswith(("muster-quota-", METER_PREFIX)):
                delete(client, resource_path("v1", "configmaps", home, name))


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("size", SIZES)
def test_a_start_under_a_quota_tree_costs_no_more(stage: Stage, proxy: VirtualProxy, store: Store, size: int) -> None:
    """Beside it the amounts of the tree are published, which is not for each gang."""
    stage.add_nodes(1)
    queue_gang(stage, store, size)
    proxy.forget()
    assert told(stage.run(), "gang").action == "start"
    assert counted(proxy, stage) == costs_of_start(store, size)
    assert quota_writes(proxy, stage) == {"status": 1}


@pytest.mark.usefixtures("tree")
def test_many_starts_under_a_quota_tree_share_what_is_written_of_it(stage: Stage, proxy: VirtualProxy) -> None:
    stage.add_nodes(2)
    for number in range(5):
        stage.submit(f"gang-{number}", stage.job(f"gang-{number}", 1, cpu="1"))
    proxy.forget()
    stage.run()
    assert counted(proxy, stage).total() == 5 * 4
    assert quota_writes(proxy, stage) == {"status": 1}


@pytest.mark.parametrize("store", STORES)
def test_running_and_completion_cost(stage: Stage, proxy: VirtualProxy, store: Store) -> None:
    stage.add_nodes(1)
    queue_gang(stage, store, 1, seconds=2)
    stage.run()
    wait_until("the pods to be bound", lambda: len([item for item in stage.pods() if is_bound(item)]) == 2)
    proxy.forget()
    # Long enough to be seen running on any machine that is not asleep.
    stage.run_until({"gang": "running"})
    once = 1 if store == "configmap" else 2
    assert counted(proxy, stage).total() <= once
    if store == "appwrapper":
        # Without a word about completion MCAD's wrappers never end.
        return
    wait_until("the Job to end", lambda: _complete(stage))
    proxy.forget()
    stage.run_until({"gang": "complete"})
    # The state, perhaps that it holds before, and the mark on the ticket.
    assert 2 <= counted(proxy, stage).total() <= 3


@pytest.mark.parametrize("size", SIZES)
def test_the_whole_life_of_a_gang_costs_its_objects_and_three_more(
    stage: Stage, proxy: VirtualProxy, size: int
) -> None:
    """In a run of many cycles: the ticket, the objects, one write when its pods have nodes, and one at its end."""
    stage.add_nodes(1)
    queue_gang(stage, "configmap", size, seconds=2)
    proxy.forget()
    stage.run_until({"gang": "complete"})
    _assert_costs_of_life(stage, proxy, size)
    phases = [item.phase for item in stage.record("gang").state.transitions]
    assert phases == ["queued", "dispatching", "dispatched", "running", "complete"]


@pytest.mark.usefixtures("tree")
def test_the_whole_life_of_a_gang_under_a_quota_tree_costs_no_more(stage: Stage, proxy: VirtualProxy) -> None:
    """What it used is written down as well, for its queue and not for each gang."""
    stage.add_nodes(1)
    queue_gang(stage, "configmap", 1, seconds=2)
    proxy.forget()
    stage.run_until({"gang": "complete"})
    _assert_costs_of_life(stage, proxy, 1)
    assert quota_writes(proxy, stage)["meter"] <= 2
    assert {"meter", "status"} == quota_writes(proxy, stage).keys()


def _assert_costs_of_life(stage: Stage, proxy: VirtualProxy, size: int) -> None:
    """That a gang of so many objects cost them, its ticket with a mark at the end, and two writes of its record."""
    found = counted(proxy, stage)
    # One object is refused or made whole; of more the server is asked first.
    pretended = size if size > 1 else 0
    marks = [item for item in proxy.writes if "/configmaps/muster-ticket-" in item.path]
    assert len(marks) == 1
    assert found.total() - len(marks) - pretended == size + 3, found
    assert found["PUT configmaps"] - len(marks) == 2


def _complete(stage: Stage) -> bool:
    """Whether the Job says that it is complete."""
    job = stage.find(stage.job("gang")) or {}
    conditions = (job.get("status") or {}).get("conditions") or ()
    return any(item["type"] == "Complete" and item["status"] == "True" for item in conditions)


def test_completion_of_a_wrapper_costs(stage: Stage, proxy: VirtualProxy) -> None:
    stage.add_nodes(1)
    item = {"replicas": 1, "completionstatus": "Complete", "generictemplate": stage.job("gang", 2, seconds=0)}
    stage.wrap("gang", item)
    stage.run()
    wait_until("the Job to end", lambda: _complete(stage))
    proxy.forget()
    stage.run_until({"gang": "complete"})
    assert 2 <= counted(proxy, stage).total() <= 3
    assert stage.record("gang").raw["status"]["state"] == "Completed"


@pytest.mark.parametrize("store", STORES)
def test_submitting_costs_one_request(stage: Stage, proxy: VirtualProxy, store: Store) -> None:
    client = stage.cluster.connect(str(proxy.kubeconfig))
    objects = [config_map("gang-c"), stage.job("gang")]
    made = gang_record("gang", stage.namespace, objects) if store == "configmap" else None
    proxy.forget()
    create_record(client, made or app_wrapper("gang", stage.namespace, objects))
    assert counted(proxy, stage).total() == 1


@pytest.mark.parametrize("store", STORES)
def test_a_second_run_writes_nothing(stage: Stage, proxy: VirtualProxy, store: Store) -> None:
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


def test_each_decision_is_told_in_one_line(stage: Stage) -> None:
    stage.add_nodes(1, cpu="2")
    stage.submit("first", stage.job("first", 2, cpu="1"), priority=1)
    stage.submit("second", stage.job("second", 2, cpu="1"))
    stage.lines.clear()
    stage.run_until({"first": "running", "second": "queued"})
    about = [line.removeprefix(f"{stage.namespace}/") for line in stage.lines]
    assert [line.partition(";")[0] for line in about if line.startswith("first")] == [
        "first: start: Started",
        "first: running: PodsBound",
    ]
    [waiting] = [line for line in about if line.startswith("second")]
    assert waiting.startswith("second: wait: ")
    assert waiting.endswith("short in all: 2 cpu")
