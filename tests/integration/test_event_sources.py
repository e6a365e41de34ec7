# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event sources before a real API server: cuts, gaps, a restart, and a rulebook that takes nothing for a while."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import ProgressStore
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.event_source import Event, RunningSource
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

LABEL = "muster-test/watched"


class Maps:
    """ConfigMaps of one namespace, which some sources watch."""

    def __init__(self, cluster: LiveCluster, namespace: str) -> None:
        self.client, self.namespace = cluster.client, namespace
        self.path = resource_path("v1", "configmaps", namespace)

    def add(self, name: str) -> None:
        metadata = {"name": name, "namespace": self.namespace, "labels": {LABEL: "yes"}}
        create(self.client, self.path, {"metadata": metadata, "data": {"turn": "0"}})

    def edit(self, name: str, turn: int) -> None:
        patch(self.client, f"{self.path}/{name}", {"data": {"turn": str(turn)}})

    def remove(self, name: str) -> None:
        delete(self.client, f"{self.path}/{name}")

    def there(self) -> dict[str, str]:
        """What the server has: version by uid."""
        found = list_objects(self.client, self.path, keep=lambda raw: raw["metadata"], label_selector=LABEL).items
        return {item["uid"]: item["resourceVersion"] for item in found}


@pytest.fixture
def maps(cluster: LiveCluster, namespace: str) -> Maps:
    return Maps(cluster, namespace)


def watched(kubeconfig: t.Any, namespace: str, **args: t.Any) -> RunningSource:
    """The source watch over these ConfigMaps."""
    kinds = [{"kind": "ConfigMap", "label_selectors": [LABEL]}]
    return RunningSource("watch", {"kubeconfig": str(kubeconfig), "namespaces": [namespace], "kinds": kinds, **args})


def picture(events: list[Event]) -> dict[str, str]:
    """What somebody knows who saw only these events, each of which has to be news."""
    known: dict[str, str] = {}
    for event in events:
        uid, version = event["uid"], event["resource_version"]
        assert (event["type"] == "ADDED") == (uid not in known), event
        if event["type"] == "DELETED":
            del known[uid]
        else:
            assert int(version) > int(known.get(uid, 0)), event
            known[uid] = version
    return known


def is_right(maps: Maps) -> t.Callable[[list[Event]], bool]:
    """Whether the picture is that of the server."""
    return lambda events: picture(events) == maps.there()


def test_each_change_is_told_once_whatever_cuts_the_watch(maps: Maps, proxy: ApiProxy) -> None:
    maps.add("before")
    proxy.cut(when="inside", method="GET", path="/configmaps$", first=2, times=6)
    with watched(proxy.kubeconfig, maps.namespace) as source:
        source.wait_for("the list", is_right(maps))
        for number in range(4):
            maps.add(f"map-{number}")
            maps.edit(f"map-{number}", 1)
        maps.remove("map-0")
        maps.edit("before", 2)
        source.wait_for("all changes", is_right(maps))
        told = source.told("type", "name", "existing", "missed")
    assert told[0] == ("ADDED", "before", True, False)
    # A watch that goes on tells every change, also those that happened while it was cut.
    assert sorted(told[1:]) == sorted(
        [(kind, f"map-{number}", False, False) for number in range(4) for kind in ("ADDED", "MODIFIED")]
        + [("DELETED", "map-0", False, False), ("MODIFIED", "before", False, False)]
    )


def test_after_410_what_changed_meanwhile_is_told(maps: Maps, proxy: ApiProxy) -> None:
    for name in ("stays", "goes", "changes"):
        maps.add(name)
    gap = proxy.fail(status=410, method="GET", path="/configmaps$", first=2)
    gap.holding = True
    with watched(proxy.kubeconfig, maps.namespace) as source:
        gap.wait_for_arrival()
        maps.remove("goes")
        maps.edit("changes", 1)
        maps.edit("changes", 2)
        maps.add("new")
        gap.release()
        source.wait_for("all changes", is_right(maps))
        maps.edit("stays", 1)
        source.wait_for("the last change", is_right(maps))
    assert source.told("type", "name", "missed")[3:] == [
        ("DELETED", "goes", True),
        ("MODIFIED", "changes", True),
        ("ADDED", "new", True),
        ("MODIFIED", "stays", False),
    ]
    assert source.events[3]["object"]["metadata"]["labels"] == {LABEL: "yes"}


def test_a_source_that_was_away_ends_with_the_same_picture(maps: Maps, proxy: ApiProxy) -> None:
    maps.add("one")
    maps.add("two")
    with watched(proxy.kubeconfig, maps.namespace) as source:
        source.wait_for("the list", is_right(maps))
    maps.remove("one")
    maps.edit("two", 1)
    maps.add("three")
    with watched(proxy.kubeconfig, maps.namespace) as source:
        source.wait_for("the list", is_right(maps))
        maps.edit("three", 1)
        source.wait_for("the change", is_right(maps))
    assert source.told("type", "name") == [("ADDED", "two"), ("ADDED", "three"), ("MODIFIED", "three")]


def test_a_rulebook_that_takes_nothing_keeps_the_source_waiting(maps: Maps, proxy: ApiProxy) -> None:
    with watched(proxy.kubeconfig, maps.namespace) as source:
        maps.add("one")
        source.wait_for("the first change", is_right(maps))
        source.takes.clear()
        for turn in range(1, 50):
            maps.edit("one", turn)
        source.takes.set()
        source.wait_for("all changes", is_right(maps))
    assert source.told("type") == [("ADDED",)] + [("MODIFIED",)] * 49


def test_nodes_and_objects_of_several_kinds_beside_each_other(cluster: LiveCluster, namespace: str) -> None:
    stage = Stage(cluster, namespace)
    kinds = [
        {"kind": "Node", "label_selectors": [f"muster-test/pool={namespace}"], "when_changed": ["spec.unschedulable"]},
        {"api_version": "batch/v1", "kind": "Job", "when_changed": ["outcome", "suspended"]},
    ]
    args = {"kubeconfig": cluster.kubeconfig, "namespaces": [namespace, "default"], "kinds": kinds, "fields": ["spec"]}
    with RunningSource("watch", args) as source:
        (node,) = stage.add_nodes(1)
        for made in (stage.podless_job("first"), stage.job("work", seconds=1)):
            cluster.create({**made, "metadata": {**made["metadata"], "namespace": namespace}})
            name = made["metadata"]["name"]
            source.wait_for("the Job", lambda events, name=name: name in [item["name"] for item in events])
        source.wait_for("the end of the Job", lambda events: any(item["outcome"] for item in events))
        patch(cluster.client, resource_path("v1", "nodes", name=node), {"spec": {"unschedulable": True}})
        source.wait_for("the node", lambda events: ("MODIFIED", node) in [(e["type"], e["name"]) for e in events])
        # Its conditions and lists of managers change all the time.
        patch(cluster.client, resource_path("v1", "nodes", name=node), {"metadata": {"labels": {"x": "y"}}})
        stage.close()
        source.wait_for("its end", lambda events: events[-1]["type"] == "DELETED")
    told = [(e["type"], e["kind"], e["outcome"], (e["before"] or {}).get("outcome")) for e in source.events]
    assert sorted(told, key=str) == sorted(
        [
            ("ADDED", "Node", None, None),
            ("ADDED", "Job", None, None),
            ("ADDED", "Job", None, None),
            ("MODIFIED", "Job", "succeeded", None),
            ("MODIFIED", "Node", None, None),
            ("DELETED", "Node", None, None),
        ],
        key=str,
    )


def test_what_the_server_refuses_ends_the_source_with_a_message(cluster: LiveCluster, maps: Maps) -> None:
    nobody = {"impersonate_user": "nobody"}
    with watched(cluster.kubeconfig, maps.namespace, **nobody) as source:
        error = source.wait_for_failure()
    assert "Cannot list configmaps" in str(error)
    assert "nobody" in str(error)


def test_checkpoints_are_told_with_the_resize_that_waits(cluster: LiveCluster, namespace: str, proxy: ApiProxy) -> None:
    stage = Stage(cluster, namespace)
    try:
        stage.add_nodes(1, cpu="64", **{"nvidia.com/gpu": "10"})
        gpu = {"cpu": "100m", "nvidia.com/gpu": "2"}
        elastic = {"range": {"min": 2, "max": 10}, "cooldown": 0, "restart_cost": 0}
        stage.submit("one", stage.job("one", 1, **gpu), elastic=elastic)
        stage.run_until({"one": "running"})
        store, record = ProgressStore(cluster.client), stage.record("one")
        stored = store.read(record)
        assert stored is not None

        def save(step: int, time: float) -> None:
            """What the trainer writes."""
            told = {"format": 1, "time": time, "step": step, "checkpoint": {"time": time, "step": step}}
            path = resource_path("v1", "configmaps", namespace, stored.place[1])
            patch(cluster.client, path, {"data": {"report.json": json.dumps(told)}})

        save(10, 1.0)
        proxy.cut(when="inside", method="GET", path="/configmaps$", first=2, times=2)
        args = {"kubeconfig": str(proxy.kubeconfig), "namespaces": [namespace]}
        with RunningSource("checkpoints", args) as source:
            source.wait_for("the last checkpoint", lambda events: len(events) == 1)
            stage.submit("new", stage.job("new", 1, **gpu))
            stage.run_for(lambda _phases: stage.state("one").planned is not None)
            planned = stage.state("one").planned
            assert planned is not None
            save(20, planned.asked + 2)
            source.wait_for("the next checkpoint", lambda events: len(events) == 2)
        assert source.told("gang", "namespace", "step", "resize_waits") == [
            ("one", namespace, 10, False),
            ("one", namespace, 20, True),
        ]
        resize = source.events[1]["resize"]
        assert (resize["from"], resize["to"], source.events[1]["asked"]) == (10, 8, True)
    finally:
        stage.close()
