# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A tree that the real Kueue counts: foretold, written, used, changed, kept from harm and taken away again."""

from __future__ import annotations

import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota import backends
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import QuotaResult, run_quota
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.kueue_objects import KUEUE_APIS
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.kueue_oracle import PLURALS, PodSetAsk, build_workload
from ansible_collections.muster.kube.tests.support.kueue_queue import KUEUE_API, kueue_queue
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]
Declaration = t.Sequence[Object]
HOME, RED, BLUE, GREEN = "kueue-home", "kueue-red", "kueue-blue", "kueue-green"
TREE = "counted"
KINDS = ("ResourceFlavor", "WorkloadPriorityClass", "Cohort", "ClusterQueue", "LocalQueue")
AMOUNTS = {"cpu": 4, "memory": "4Gi"}
FLAVORS = [
    {
        "name": "nodes",
        "node_labels": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "busy", "operator": "Exists", "effect": "NoSchedule"}],
    }
]
RED_QUEUE = {"name": "red", "parent": "team", "namespaces": [RED], "nominal": AMOUNTS, "borrowing_limit": AMOUNTS}
BLUE_QUEUE = {"name": "blue", "parent": "team", "namespaces": [BLUE], "nominal": AMOUNTS, "hard": True, "weight": "1.5"}
BOTH = [{"name": "all"}, {"name": "team", "parent": "all", "extra": {"cpu": 2}}, RED_QUEUE, BLUE_QUEUE]
WITHOUT_RED = [*BOTH[:2], BLUE_QUEUE]


class Stage:
    """Tasks on one tree, and what Kueue makes of them."""

    def __init__(self, cluster: LiveCluster, proxy: ApiProxy) -> None:
        """Requests of tasks go through the proxy, which knows all of them."""
        self.client = cluster.client
        self.cluster = cluster
        self.proxy = proxy

    def run(self, queues: Declaration = BOTH, *, state: t.Any = "present", **rest: t.Any) -> QuotaResult:
        """One task; the requests of earlier ones are forgotten."""
        check = rest.pop("check", False)
        declaration = {
            "queues": queues,
            "flavors": FLAVORS,
            "backends": ["kueue", "resourcequota"],
            "priorities": {"urgent": 1000},
            **rest,
        }
        self.proxy.forget()
        client = connect({"kubeconfig": str(self.proxy.kubeconfig)})
        return run_quota(lambda: client, QuotaOptions(TREE, HOME, state, declaration, check))

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        return get_object(self.client, resource_path(KUEUE_API, PLURALS[kind], namespace, name))

    def ours(self) -> list[tuple[str, str]]:
        """Everything that has the label of the tree, without the tree itself."""
        paths = {kind: resource_path(KUEUE_API, PLURALS[kind]) for kind in KINDS}
        paths["ResourceQuota"] = resource_path("v1", "resourcequotas")
        selector = f"muster.kube/quota-tree={TREE}"
        return [
            (kind, name)
            for kind, path in paths.items()
            for name in list_objects(
                self.client, path, keep=lambda raw: raw["metadata"]["name"], label_selector=selector
            ).items
        ]

    def works(self, kind: str, name: str, namespace: str | None = None) -> bool:
        return condition(self.get(kind, name, namespace), "Active") == "True"


def condition(obj: Object | None, name: str) -> str | None:
    """The status of a condition, None where there is none."""
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((item["status"] for item in found if item["type"] == name), None)


def told(result: QuotaResult) -> dict[tuple[str, str | None, str], str]:
    """What happens to objects, without those that stay as they are."""
    objects = result.as_result(diff=True)["objects"]
    return {
        (item["kind"], item["namespace"], item["name"]): item["action"]
        for item in objects
        if item["action"] != "unchanged"
    }


@pytest.fixture(scope="module")
def stage(operator_cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Stage]:
    """A cluster with Kueue, and objects of somebody else's in it."""
    for name in (HOME, RED, BLUE):
        operator_cluster.namespace(name)
    operator_cluster.create(*kueue_queue("theirs", HOME, cpu=1))
    directory: pathlib.Path = tmp_path_factory.mktemp("kueue")
    with ApiProxy(operator_cluster.kubeconfig, directory) as proxy:
        yield Stage(operator_cluster, proxy)
    for name in (HOME, RED, BLUE, GREEN):
        operator_cluster.drop_namespace(name)


def test_a_tree_in_kueue_from_its_first_declaration_to_its_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """One course, since Kueue takes its time: each step begins where the one before has ended."""
    write_as_foretold(stage)
    assert not stage.run().changed
    assert_no_writes(stage.proxy)
    # What was written in one version is the same in the other, of which Kueue itself makes this one.
    monkeypatch.setattr(backends, "KUEUE_APIS", KUEUE_APIS[::-1])
    assert not stage.run().changed
    monkeypatch.undo()
    admit(stage)
    keep_what_is_used(stage)
    change(stage)
    assert set(told(stage.run(state="absent")).values()) == {"pruned"}
    assert stage.ours() == []
    assert not stage.run(state="absent").changed
    assert_no_writes(stage.proxy)
    assert all(stage.get(kind, HOME) is not None for kind in ("ResourceFlavor", "ClusterQueue"))
    assert stage.get("LocalQueue", "theirs", HOME) is not None


def write_as_foretold(stage: Stage) -> None:
    """Check mode tells what the real run does, and Kueue works with it."""
    foretold = stage.run(check=True).as_result(diff=True)
    assert_no_writes(stage.proxy)
    assert stage.ours() == []
    made = stage.run()
    would = foretold.pop("would")
    assert {*would} == {"start", "wait", "reclaim", "shrink"}
    assert made.as_result(diff=True) == foretold
    assert len(stage.ours()) == len(told(made)) == 10
    for name in ("red", "blue"):
        wait_until(f"{name} to work", lambda name=name: stage.works("ClusterQueue", f"{TREE}.{name}"))
    wait_until("the door to work", lambda: stage.works("LocalQueue", f"{TREE}.red", RED))


def admit(stage: Stage) -> None:
    """Kueue admits six cores: the nominal four, and the two of the pool above."""
    asked = build_workload("train", RED, f"{TREE}.red", [PodSetAsk(2, {"cpu": 3000, "memory": 2**20})])
    stage.cluster.create(asked)
    workload = wait_until(
        "Kueue to admit it",
        lambda: obj if condition(obj := stage.get("Workload", "train", RED), "Admitted") == "True" else None,
    )
    assert workload["status"]["admission"]["clusterQueue"] == f"{TREE}.red"


def keep_what_is_used(stage: Stage) -> None:
    """The queue of an admitted Workload is not taken away, whichever way."""
    for attempt in (
        lambda: stage.run(WITHOUT_RED),
        lambda: stage.run(backends=["embedded"]),
        lambda: stage.run(state="absent"),
    ):
        with pytest.raises(BadTree, match=r"all/team/red: 1 Workloads are admitted .*; drain it"):
            attempt()
        assert_no_writes(stage.proxy)


def change(stage: Stage) -> None:
    """Only what differs is written, and a queue goes when nobody uses it any more."""
    more = {**BLUE_QUEUE, "nominal": {"cpu": 5, "memory": "4Gi"}}
    assert told(stage.run([*BOTH[:3], more])) == {
        ("ClusterQueue", None, f"{TREE}.blue"): "changed",
        ("ResourceQuota", BLUE, f"muster-quota-{TREE}"): "changed",
    }
    assert [request.method for request in stage.proxy.writes] == ["PUT", "PATCH", "PATCH"]
    delete(stage.client, resource_path(KUEUE_API, "workloads", RED, "train"))
    wait_until("the workload to go", lambda: stage.get("Workload", "train", RED) is None)
    smaller = told(stage.run(WITHOUT_RED))
    assert {key for key, action in smaller.items() if action == "pruned"} == {
        ("ClusterQueue", None, f"{TREE}.red"),
        ("LocalQueue", RED, f"{TREE}.red"),
        ("ResourceQuota", RED, f"muster-quota-{TREE}"),
    }
    wait_until("the queue to go", lambda: stage.get("ClusterQueue", f"{TREE}.red") is None)


def test_what_is_not_ours_is_named_and_stays(stage: Stage) -> None:
    theirs = {"apiVersion": KUEUE_API, "kind": "Cohort", "metadata": {"name": f"{TREE}.all"}, "spec": {}}
    stage.cluster.create(theirs)
    with pytest.raises(MusterError, match=rf"Cohort {TREE}\.all: it exists and is not ours"):
        stage.run()
    assert_no_writes(stage.proxy)
    assert stage.ours() == []
    delete(stage.client, resource_path(KUEUE_API, "cohorts", None, f"{TREE}.all"))


def test_what_kueue_itself_refuses_is_told_before_anything_is_written(stage: Stage) -> None:
    wrong = [{"name": "nodes", "node_labels": {"not a label": "x"}}]
    with pytest.raises(MusterError, match="ResourceFlavor"):
        stage.run(flavors=wrong)
    assert_no_writes(stage.proxy)


# Acceptance cases of Kaiwo; the others are in tests/unit/test_kaiwo_acceptance.py.
GREEN_QUEUE = {"name": "green", "parent": "all", "namespaces": [GREEN], "nominal": AMOUNTS, "hard": True}
GREEN_TREE = [{"name": "all"}, GREEN_QUEUE]
DOOR = ("LocalQueue", f"{TREE}.green", GREEN)


def test_a_namespace_that_was_deleted_and_made_again_is_ready_again(stage: Stage) -> None:
    stage.cluster.namespace(GREEN)
    stage.run(GREEN_TREE)
    wait_until("the door to work", lambda: stage.works(*DOOR))
    place = resource_path("v1", "namespaces", None, GREEN)
    delete(stage.client, place)
    wait_until("the namespace to go", lambda: get_object(stage.client, place) is None)
    away = stage.run(GREEN_TREE)
    assert (told(away), len(away.warnings)) == ({}, 1)
    stage.cluster.namespace(GREEN)
    assert told(stage.run(GREEN_TREE)) == {
        ("LocalQueue", GREEN, f"{TREE}.green"): "created",
        ("ResourceQuota", GREEN, f"muster-quota-{TREE}"): "created",
    }
    wait_until("the door to work again", lambda: stage.works(*DOOR))
    # Its entry goes, and with it the door and the ceiling.
    elsewhere = [{"name": "all"}, {**GREEN_QUEUE, "namespaces": [BLUE]}]
    assert ("LocalQueue", GREEN, f"{TREE}.green") in told(stage.run(elsewhere))
    wait_until("the door to go", lambda: stage.get(*DOOR) is None)
    stage.run(state="absent")


def test_a_flavor_moves_to_other_nodes_with_and_without_a_topology(stage: Stage) -> None:
    """Without one it is changed in place. With one Kueue refuses that, and everything that has it is made anew."""

    def declared(rack: str) -> dict[tuple[str, str | None, str], str]:
        queue = {**GREEN_QUEUE, "namespaces": [BLUE]}
        flavors = [{**FLAVORS[0], "node_labels": {"rack": rack}}]
        return told(stage.run([{"name": "all"}, queue], flavors=flavors))

    declared("one")
    wait_until("the queue to work", lambda: stage.works("ClusterQueue", f"{TREE}.green"))
    assert declared("two") == {("ResourceFlavor", None, f"{TREE}.nodes"): "changed"}
    path = resource_path(KUEUE_API, "resourceflavors", None, f"{TREE}.nodes")
    patch(stage.client, path, {"spec": {"topologyName": "racks"}})
    assert declared("two") == {}
    moved = declared("three")
    assert {kind for (kind, _place, _name), action in moved.items() if action == "pruned"} == {
        "ResourceFlavor",
        "ClusterQueue",
    }
    flavor = wait_until("the flavor", lambda: get_object(stage.client, path))
    assert (flavor["spec"]["nodeLabels"], flavor["spec"].get("topologyName")) == ({"rack": "three"}, None)
    wait_until("the queue to work again", lambda: stage.works("ClusterQueue", f"{TREE}.green"))
    wait_until("the door to work again", lambda: stage.works("LocalQueue", f"{TREE}.green", BLUE))
    assert declared("three") == {}
    stage.run(state="absent")
