# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What Kaiwo and AMD Resource Manager promise of projects and their quotas, by the names of their own tests, kept here.

A project is a queue with one namespace, its quota is nominal, the cluster's capacity is that of the root, worked out
from the nodes. Kueue's part of it on the real Kueue is in tests/integration/test_quota_kueue.py.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import QuotaResult, run_quota
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import read_stored_tree
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.kueue_kinds import serve_kueue, workload
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.reclaim_cases import (
    history,
    phases,
    running,
    state,
    submit,
    two_namespaces,
)

GPU = "nvidia.com/gpu"
# The priority classes that every cluster of theirs has.
LOW, MEDIUM, HIGH = -100, 0, 100
# What the two nodes have together.
ALL = {"cpu": "8", "memory": "32Gi", GPU: "16", "ephemeral-storage": "200Gi"}
ONE_MORE = {"cpu": "8001m", "memory": "33Gi", GPU: "17", "ephemeral-storage": "201Gi"}
Queue = dict[str, t.Any]


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Two nodes, and the namespaces of two projects."""
    with two_namespaces(*cases.node_pool("p", 2, **{GPU: "8", "ephemeral-storage": "100Gi"})) as made:
        yield made


def project(name: str, **nominal: t.Any) -> Queue:
    """A project whose quota this is."""
    return {"name": name, "parent": "all", "namespaces": [name], "nominal": nominal or {"cpu": 4}}


def task(stage: MemoryStage, *projects: Queue, **rest: t.Any) -> QuotaResult:
    """Run the module: these projects share what the nodes have."""
    whole = {"name": "all", "from_nodes": {"share": 1, "resources": list(ALL)}}
    if "backends" in rest:
        # Kueue has no place for a capacity.
        whole = {"name": "all"}
    declaration = {"queues": [whole, *projects], "settings": {"min_run_time": 0}, **rest}
    client = stage.admin()
    return run_quota(lambda: client, QuotaOptions("default", "muster-system", "present", declaration))


def stored(stage: MemoryStage) -> list[str] | None:
    """The projects of the stored tree."""
    found = read_stored_tree(stage.admin(), "muster-system", "default")
    return None if found is None or found.tree is None else [leaf.name for leaf in found.tree.leaves]


# Priorities within one project.


@pytest.mark.parametrize(
    ("first", "second", "goes"),
    [
        pytest.param(LOW, MEDIUM, True, id="medium over low"),
        pytest.param(MEDIUM, HIGH, True, id="high over medium"),
        pytest.param(LOW, HIGH, True, id="high over low"),
        pytest.param(LOW, LOW, False, id="low beside low"),
        pytest.param(HIGH, HIGH, False, id="high beside high"),
        pytest.param(HIGH, LOW, False, id="low after high"),
    ],
)
def test_only_a_higher_priority_takes_the_place_of_a_workload(
    stage: MemoryStage, first: int, second: int, goes: bool
) -> None:
    task(stage, {**project("a"), "hard": True})
    submit(stage, "first", 4, "a", priority=first)
    stage.start("d")
    assert stage.run_until(running(stage, "first"))
    submit(stage, "second", 4, "a", priority=second)
    stage.run_for(30)
    assert phases(stage, "first", "second") == (["queued", "running"] if goes else ["running", "queued"])
    assert ("evicting" in history(stage, "first")) is goes


# Borrowing and taking back.


def test_a_project_without_quota_borrows_what_is_idle_and_the_guaranteed_one_gets_it_back(stage: MemoryStage) -> None:
    task(stage, project("a", cpu=0), project("b", cpu=8))
    submit(stage, "guest", 8, "a", priority=HIGH)
    stage.start("d")
    assert stage.run_until(running(stage, "guest"))
    submit(stage, "owner", 8, "b", namespace="b", priority=LOW)
    assert stage.run_until(lambda: state(stage, "owner", "b")["phase"] == "running", 60)
    assert phases(stage, "guest") == ["queued"]
    assert state(stage, "guest")["transitions"][-2][2:] == ["Evicted", "queue all/b takes its own back"]


def test_nobody_is_preempted_for_what_would_not_fit_then(stage: MemoryStage) -> None:
    """Neither for more than its project could ever have, nor where no node could take the pods."""
    task(stage, {**project("a"), "hard": True})
    submit(stage, "runs", 4, "a", priority=LOW)
    stage.start("d")
    assert stage.run_until(running(stage, "runs"))
    submit(stage, "too-much", 5, "a", priority=HIGH)
    submit(stage, "too-wide", 1, "a", priority=HIGH, job=cases.job("wide", "p", 1, cpu="2", memory="17Gi"))
    submit(stage, "nowhere", 1, "a", priority=HIGH, job=cases.job("nowhere", "no-such-pool", 1))
    stage.run_for(60)
    assert phases(stage, "runs") == ["running"]
    assert history(stage, "runs").count("running") == 1


def test_who_is_active_within_its_own_quota_is_not_preempted(stage: MemoryStage) -> None:
    """Whatever the priority of another project, which has its own besides; nor is who began a moment ago."""
    task(stage, project("a"), project("b"))
    submit(stage, "active", 4, "a", priority=LOW)
    submit(stage, "other", 4, "b", namespace="b", priority=LOW)
    stage.start("d")
    assert stage.run_until(running(stage, "active"))
    submit(stage, "more", 4, "b", namespace="b", priority=HIGH)
    assert stage.run_until(lambda: state(stage, "more", "b")["phase"] == "running", 60)
    assert phases(stage, "active") == ["running"]
    assert state(stage, "other", "b")["phase"] == "queued"


def test_who_began_a_moment_ago_is_not_preempted(stage: MemoryStage) -> None:
    task(stage, project("a", cpu=0), project("b", cpu=8), settings={"min_run_time": "10m"})
    submit(stage, "guest", 8, "a")
    stage.start("d")
    assert stage.run_until(running(stage, "guest"))
    submit(stage, "owner", 8, "b", namespace="b", priority=HIGH)
    stage.run_for(300)
    assert phases(stage, "guest") == ["running"]


# Quotas that the cluster does not have.


@pytest.mark.parametrize("resource", list(ALL))
def test_a_quota_over_the_capacity_of_the_cluster_is_rejected(stage: MemoryStage, resource: str) -> None:
    with pytest.raises(BadTree) as told:
        task(stage, project("a", **{**ALL, resource: ONE_MORE[resource]}))
    assert [(item.where, item.field) for item in told.value.problems] == [("all", f"capacity.{resource}")]
    assert stored(stage) is None
    task(stage, project("a", **ALL))
    assert stored(stage) == ["a"]


def test_an_update_over_the_capacity_is_rejected_and_what_was_stays(stage: MemoryStage) -> None:
    task(stage, project("a", cpu=6), project("b", cpu=2))
    with pytest.raises(BadTree, match=r"all: capacity.cpu"):
        task(stage, project("a", cpu=7), project("b", cpu=2))
    again = task(stage, project("a", cpu=6), project("b", cpu=2))
    assert not again.changed


def test_quotas_that_are_together_over_the_capacity_are_rejected(stage: MemoryStage) -> None:
    with pytest.raises(BadTree, match="the leaves below have 9 nominal together, and capacity is 8"):
        task(stage, project("a", cpu=5), project("b", cpu=4))
    assert stored(stage) is None


# Projects and namespaces that go.


def test_a_project_is_deleted_with_its_workloads(stage: MemoryStage) -> None:
    """Not by a cascade: a queue in use is refused until its namespace is gone, and the next project has its quota."""
    task(stage, project("a", cpu=8), project("b", cpu=0))
    submit(stage, "work", 8, "a")
    stage.start("d")
    assert stage.run_until(running(stage, "work"))
    with pytest.raises(BadTree, match="all/a: 1 started gangs are charged to it"):
        task(stage, project("b", cpu=8))
    stage.cluster.remove("namespaces", "", "a")
    assert stage.run_until(lambda: stage.cluster.all("pods", "a") == [], 60)
    assert stage.cluster.all("configmaps", "a") == []
    task(stage, project("b", cpu=8))
    assert stored(stage) == ["b"]
    submit(stage, "next", 8, "b", namespace="b")
    assert stage.run_until(lambda: state(stage, "next", "b")["phase"] == "running", 60)


def test_a_project_can_be_drained_before_it_goes(stage: MemoryStage) -> None:
    task(stage, project("a"), project("b"))
    submit(stage, "work", 4, "a")
    stage.start("d")
    assert stage.run_until(running(stage, "work"))
    task(stage, {**project("a"), "stop": "drain"}, project("b"))
    assert stage.run_until(lambda: phases(stage, "work") == ["queued"], 60)
    assert stage.cluster.all("pods", "a") == []
    task(stage, project("b"))
    stage.run_for(10)
    assert state(stage, "work")["verdict"]["reason"] == "queue_unknown"


def doors(stage: MemoryStage) -> list[str]:
    """The namespaces with a LocalQueue."""
    return sorted(item["metadata"]["namespace"] for item in stage.cluster.all("localqueues"))


@pytest.mark.parametrize("backends", [["kueue"], ["kueue", "resourcequota"]])
def test_a_namespace_that_was_deleted_and_made_again_is_ready_again(stage: MemoryStage, backends: list[str]) -> None:
    serve_kueue(stage.cluster)
    projects = [{**project(name, cpu=4, memory="4Gi"), "hard": True} for name in ("a", "b")]
    task(stage, *projects, backends=backends)
    assert doors(stage) == ["a", "b"]
    stage.cluster.remove("namespaces", "", "a")
    stage.run_for(10)
    # While it is away the task works too, and leaves what is not there alone.
    task(stage, *projects, backends=backends)
    assert doors(stage) == ["b"]
    stage.add_namespace("a")
    assert task(stage, *projects, backends=backends).changed
    assert doors(stage) == ["a", "b"]
    assert not task(stage, *projects, backends=backends).changed


def test_a_namespace_that_was_deleted_and_made_again_starts_gangs_again(stage: MemoryStage) -> None:
    task(stage, project("a"), project("b"))
    stage.start("d")
    stage.cluster.remove("namespaces", "", "a")
    stage.run_for(10)
    stage.add_namespace("a")
    submit(stage, "work", 4, "a")
    assert stage.run_until(running(stage, "work"), 60)


def test_a_local_queue_goes_with_the_entry_of_its_namespace(stage: MemoryStage) -> None:
    serve_kueue(stage.cluster)
    both = {**project("a", cpu=4, memory="4Gi"), "namespaces": ["a", "b"]}
    task(stage, both, backends=["kueue"])
    assert doors(stage) == ["a", "b"]
    task(stage, {**both, "namespaces": ["b"]}, backends=["kueue"])
    assert doors(stage) == ["b"]


def test_a_flavor_moves_to_other_nodes(stage: MemoryStage) -> None:
    """Where Kueue counts, the flavor is changed in place, and a second run finds nothing to do."""
    serve_kueue(stage.cluster)
    only = project("a", cpu=4, memory="4Gi")
    for labels in ({"rack": "one"}, {"rack": "two", "block": "x"}):
        flavors = [{"name": "gpus", "node_labels": labels}]
        assert task(stage, only, flavors=flavors, backends=["kueue"]).changed
        (flavor,) = stage.cluster.all("resourceflavors")
        assert flavor["spec"]["nodeLabels"] == labels
        assert not task(stage, only, flavors=flavors, backends=["kueue"]).changed


def test_a_flavor_with_a_topology_is_replaced(stage: MemoryStage) -> None:
    """Kueue lets nobody change the nodes of such a flavor: it is made anew with the queues that have it, if unused."""
    serve_kueue(stage.cluster)
    only = project("a", cpu=4, memory="4Gi")

    def declared(rack: str) -> QuotaResult:
        flavors = [{"name": "gpus", "node_labels": {"rack": rack}}]
        return task(stage, only, flavors=flavors, backends=["kueue"])

    declared("one")
    stage.cluster.change("resourceflavors", "", "gpus", lambda raw: raw["spec"].update(topologyName="racks"))
    assert not declared("one").changed
    stage.cluster.add("workloads", workload("runs", "a", "a", admitted="a", flavor="gpus"))
    with pytest.raises(BadTree, match=r"flavors\.gpus: 1 Workloads are admitted by ResourceFlavor gpus"):
        declared("two")
    stage.cluster.remove("workloads", "a", "runs")
    theirs = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "gpus", "resources": []}]}]}
    stage.cluster.add("clusterqueues", {"metadata": {"name": "theirs"}, "spec": theirs})
    with pytest.raises(BadTree, match=r"flavors\.gpus: ClusterQueue theirs, which is not of this tree, has it"):
        declared("two")
    stage.cluster.remove("clusterqueues", "", "theirs")
    old = [item["metadata"]["uid"] for item in stage.cluster.all("localqueues")]
    moved = {item["kind"] for item in declared("two").as_result(diff=False)["objects"] if item["action"] == "pruned"}
    assert moved == {"ResourceFlavor", "ClusterQueue"}
    (flavor,) = stage.cluster.all("resourceflavors")
    assert flavor["spec"] == {"nodeLabels": {"rack": "two"}}
    # Whoever waits there keeps its place.
    assert [item["metadata"]["uid"] for item in stage.cluster.all("localqueues")] == old
    assert not declared("two").changed
