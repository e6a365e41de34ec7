# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evictions for real: two borrowers go for one owner, whatever happens to the dispatcher at any write of it.

Their queue keeps its own, nobody else gets what they free, a claim of theirs stays, and no gang is lost.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import (
    TREE_KEY,
    TREE_LABEL,
    configmap_name,
    tree_text,
)
from ansible_collections.muster.kube.tests.integration import test_dispatch_faults as faults
from ansible_collections.muster.kube.tests.integration.test_dispatch_faults import Arena, Place, arena
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders, run_dispatcher
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.fault_points import ARENAS, Fault, FaultPoints, chosen
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool, three_objects

Object = dict[str, t.Any]
__all__ = ["arena"]

BORROWERS = ("b1", "b2")
CLAIM = "work"
# What the garbage collector may make needless, so that it is not written in every run.
NOT_ALWAYS = ("DELETE jobs/b1", "DELETE jobs/b2", "DELETE persistentvolumeclaims")
# What is written when there is time, under names that are those of one place: published amounts and meters.
ASIDE = ("PUT configmaps/muster-quota-status-", "PUT configmaps/muster-usage-")


def claim(name: str) -> Object:
    """A claim for a volume."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


class EvictionPlace(Place):
    """Room for eight pods. Queue x has four of its own, uses them and has lent itself four more; y wants its own."""

    @property
    def tree(self) -> str:
        """The name of the tree: gangs of other places are none of its business."""
        return self.name

    def nodes(self) -> list[Object]:
        return node_pool(self.name, 2, cpu="4")

    def queued(self, name: str, queue: str, objects: list[Object], priority: int = 0) -> Object:
        """The record of a gang in a queue."""
        return gang_record(name, self.name, objects, labels={self.tree: queue}, priority=priority)

    def record(self, objects: list[Object]) -> Object:
        return self.queued(faults.GANG, "y", objects)

    def stored_tree(self) -> Object:
        """The tree, beside the Lease."""
        queues: list[Object] = [{"name": "all"}]
        queues += [
            {"name": name, "parent": "all", "nominal": {"cpu": cpu}} for name, cpu in (("x", 4), ("y", 4), ("z", 0))
        ]
        text = tree_text(read_tree(self.tree, {"queues": queues, "settings": {"min_run_time": 0}}))
        metadata = {"name": configmap_name(self.tree), "namespace": self.name, "labels": {TREE_LABEL: self.tree}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {TREE_KEY: text}}

    def prepare(self) -> None:
        """The borrowers run, then the owner comes, and somebody who would like to have what they free."""
        self.directory.mkdir()
        self.cluster.namespace(self.name)
        self.cluster.create(free_lease(LeaseOptions(self.name, "dispatch")), self.stored_tree())
        # Within one second nobody can tell who was started first, so that priorities say who goes.
        self.cluster.create(self.queued("own", "x", [job("own", self.name, 4, cpu="1")], priority=5))
        self.let_start()
        for name in BORROWERS:
            kept = [claim(CLAIM)] if name == "b1" else []
            self.cluster.create(self.queued(name, "x", [*kept, job(name, self.name, 2, cpu="1")]))
        self.let_start()
        self.cluster.create(self.record(three_objects("g", self.name, 2, cpu="1")))
        self.cluster.create(self.queued("greedy", "z", [job("greedy", self.name, 2, cpu="1")]))

    def let_start(self) -> None:
        """Have all gangs run that wait."""
        run_dispatcher(self.orders(duration=faults.PATIENCE, until=("running",), lease_wait=faults.PATIENCE))

    def orders(self, kubeconfig: t.Any = None, **settings: t.Any) -> Orders:
        record = get_object(self.cluster.client, self.record_path)
        if record is not None:
            settings["until_of"] = record["metadata"]["uid"]
        return super().orders(kubeconfig, **settings)

    def gang(self, name: str) -> t.Any:
        """The state of another gang."""
        raw = get_object(self.cluster.client, resource_path("v1", "configmaps", self.name, name))
        assert raw is not None, name
        return record_from_api(raw).state

    def check(self) -> None:
        """What must be true in the end, whatever happened."""
        assert self.phase == "running", self.state
        own, greedy, *borrowers = (self.gang(name) for name in ("own", "greedy", *BORROWERS))
        assert (own.phase, own.attempt, own.evictions) == ("running", 1, 0)
        assert greedy is None or (greedy.phase, greedy.attempt) == ("queued", 1)
        assert [item.phase for item in borrowers] in (
            ["queued", "queued"],
            ["evicting", "queued"],
            ["queued", "evicting"],
        )
        assert [item.evictions for item in borrowers] == [1, 1]
        assert (
            get_object(self.cluster.client, resource_path("v1", "persistentvolumeclaims", self.name, CLAIM)) is not None
        )


@pytest.fixture(scope="module")
def points(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> list[faults.Point]:
    """Both sides of every write of an eviction in which nothing goes wrong, and proof that nothing does."""
    made = Arena(cluster, tmp_path_factory.mktemp("clean"), f"ev-clean-{next(ARENAS)}")
    labels: list[str] = []

    def scene(place: Place) -> None:
        with FaultPoints(cluster.kubeconfig, place.directory) as numbered:
            orders = place.orders(numbered.kubeconfig, duration=faults.PATIENCE, until=("running",))
            with DispatchProcess(orders, place.directory / "log") as process:
                process.result()
            labels.extend(numbered.settled_labels)
        t.cast(EvictionPlace, place).check()

    try:
        made.play([(made.place("start", EvictionPlace), "clean", scene)])
    finally:
        made.leave()
    wanted = [label for label in labels if label not in NOT_ALWAYS and not label.startswith(ASIDE)]
    assert [label for label in wanted if label.startswith("PUT configmaps/")][:3] == [
        f"PUT configmaps/{faults.GANG}",
        *sorted((f"PUT configmaps/{name}" for name in BORROWERS), key=wanted.index),
    ]
    # The last write of the owner follows what controllers do with its pods.
    counted = [
        faults.Point("start", label, labels[: i + 1].count(label)) for i, label in enumerate(labels) if label in wanted
    ]
    return faults.both_sides(counted[:-1])


def test_signals_during_an_eviction(arena: Arena, points: list[faults.Point], scale: float, seed: int) -> None:
    played: list[str] = []

    def checked(scene: t.Callable[[Place], None]) -> t.Callable[[Place], None]:
        def play(place: Place) -> None:
            scene(place)
            t.cast(EvictionPlace, place).check()
            played.append(place.name)

        return play

    # Three signals at both sides of each write; in smaller runs at one of them.
    scenes = [
        (arena.place("start", EvictionPlace), f"{kind} {point}", checked(faults.signal_scene(kind, point)))
        for kind in faults.SIGNALS
        for point in chosen(points, scale, seed, f"evict {kind}")[: None if scale >= 1 else 1]
    ]
    arena.play(scenes)
    assert len(played) == len(faults.SIGNALS) * (len(points) if scale >= 1 else 1)
    assert len(played) >= (40 if scale >= 1 else len(faults.SIGNALS))


def test_bad_answers_during_an_eviction(arena: Arena, points: list[faults.Point], scale: float, seed: int) -> None:
    def scene_of(point: faults.Point, settings: Object) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            faults.strike(place, Fault(**settings), point, lambda process: place.come_to_rest())
            if settings.get("status") in (None, *faults.PASSING):
                place.heal("running")
                t.cast(EvictionPlace, place).check()

        return scene

    before = [point for point in points if point.when == "before"]
    cases = [(point, name, settings) for point in before for name, settings in faults.errors()]
    scenes = [
        (arena.place("start", EvictionPlace), f"{name} {point}", scene_of(point, settings))
        for point, name, settings in chosen(cases, scale, seed, "evict errors")[: None if scale >= 1 else 4]
    ]
    arena.play(scenes)
