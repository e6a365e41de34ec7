# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes for real: a gang grows or shrinks by each method, whatever happens to the dispatcher at any write of it.

Whoever comes after it gives the gang its size, the newcomer starts, nothing is lost and no GPU is given twice.
"""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import resize_step
from ansible_collections.muster.kube.tests.integration import test_dispatch_faults as faults
from ansible_collections.muster.kube.tests.integration.test_dispatch_faults import Arena, Place, Point, arena
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders, run_dispatcher
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.fault_points import ARENAS, Fault, FaultPoints, chosen
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.invariants import GPU
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until

Object = dict[str, t.Any]
Method = t.Literal["scale", "suspend", "recreate"]
__all__ = ["arena"]

SMALL, LARGE = 2, 4
# Growing and shrinking is worth it at any moment.
AT_ONCE = {"timing": "now", "cooldown": 0, "restart_cost": 0}
# What the garbage collector may make needless, and what is written when there is time.
NOT_ALWAYS = ("DELETE jobs/gang", "DELETE jobs/other", "muster-progress-", "PUT configmaps/muster-ticket")
PATCH = "PATCH jobs/gang"


class ResizePlace(Place):
    """A node of four GPUs. To grow, the gang has two of them and somebody else has just gone; to shrink, it has all."""

    method: Method = "scale"
    grows = True

    @property
    def goal(self) -> str:
        return "running"

    def nodes(self) -> list[Object]:
        return node_pool(self.name, 1, cpu="16", **{GPU: str(LARGE)})

    def record(self, objects: list[Object]) -> Object:
        range_ = {"min": SMALL, "max": LARGE, "axis": "pods" if self.method == "scale" else "per_pod"}
        return gang_record(faults.GANG, self.name, objects, elastic={"range": range_, **AT_ONCE})

    def elastic_job(self) -> Object:
        """The object that gets another size."""
        pods, gpus = (SMALL, 1) if self.method == "scale" else (1, SMALL)
        made = job(faults.GANG, self.name, pods, **{"cpu": "100m", GPU: str(gpus)})
        if self.method == "scale":
            made["spec"]["completionMode"] = "Indexed"
        if self.method == "recreate":
            # Variables of a Job cannot be changed.
            made["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NGPU", "value": str(SMALL)}]
        return made

    def fixed(self, name: str) -> Object:
        """The record of a gang with two GPUs."""
        return gang_record(name, self.name, [job(name, self.name, 1, **{"cpu": "100m", GPU: str(SMALL)})])

    def prepare(self) -> None:
        """The gang runs, and then it is time for another size."""
        self.directory.mkdir()
        self.cluster.namespace(self.name)
        self.cluster.create(free_lease(LeaseOptions(self.name, "dispatch")), self.record([self.elastic_job()]))
        if self.grows:
            self.cluster.create(self.fixed("other"))
        orders = self.orders(duration=faults.PATIENCE, lease_wait=faults.PATIENCE)
        # Gangs of other places may keep it small for a moment.
        run_dispatcher(orders, until=lambda _phases: self.is_prepared)
        assert self.is_prepared, self.state
        if self.grows:
            delete(self.cluster.client, resource_path("v1", "configmaps", self.name, "other"))
            wait_until("the other's pods to go", lambda: len(self.pods()) == len(self.pods("gang")))
        else:
            self.cluster.create(self.fixed("new"))

    @property
    def is_prepared(self) -> bool:
        """Whether it has the size that is to be changed, and the other one, if there is one, runs."""
        running = self.phase == "running" and (not self.grows or self.phase_of("other") == "running")
        return running and self.state["allotment"] == (SMALL if self.grows else LARGE)

    def pods(self, name: str = "") -> list[Object]:
        """The pods of a gang, or all."""
        found = self.cluster.pods(self.name)
        return [pod for pod in found if pod["metadata"]["name"].startswith(name)]

    def orders(self, kubeconfig: t.Any = None, **settings: t.Any) -> Orders:
        """A disturbed dispatcher ends when the gang has its size."""
        if kubeconfig is not None:
            settings["until_sized"] = self.name, faults.GANG, self.size
        return super().orders(kubeconfig, **settings)

    def heal(self, *phases: str) -> dict[str, t.Any]:
        """Run a dispatcher that nobody disturbs until the gang has its size, and the newcomer runs."""
        orders = self.orders(duration=faults.PATIENCE, lease_wait=faults.PATIENCE)
        result = run_dispatcher(orders, until=lambda _phases: self.is_resized)
        assert self.is_resized, f"{self.name}: {self.state}: {result}"
        return result

    @property
    def size(self) -> int:
        """The one that the gang is to have in the end."""
        return LARGE if self.grows else SMALL

    @property
    def is_resized(self) -> bool:
        """Whether everybody has what it is to have."""
        return (
            self.has_ended
            and self.state["allotment"] == self.size
            and (self.grows or self.phase_of("new") == "running")
        )

    @property
    def has_ended(self) -> bool:
        """Whether the gang runs and its last resize came to an end."""
        state = record_from_api(self._raw(faults.GANG)).state
        ends = ("verified", "rolled_back", "parked")
        return state is not None and state.phase == "running" and resize_step(state) in ends

    @property
    def resting(self) -> bool:
        return self.is_resized or self.phase == "failed"

    def phase_of(self, name: str) -> str:
        """The phase of another gang."""
        return record_from_api(self._raw(name)).phase

    def _raw(self, name: str) -> Object:
        found = get_object(self.cluster.client, resource_path("v1", "configmaps", self.name, name))
        assert found is not None, name
        return found


def place_of(how: Method, larger: bool) -> type[ResizePlace]:
    """Places where a gang gets larger, or smaller, by a method."""

    class Sort(ResizePlace):
        """Such a place."""

        method = how
        grows = larger

    return Sort


METHODS: tuple[Method, ...] = t.get_args(Method)
SORTS = {f"{word}-{how}": place_of(how, word == "grow") for word in ("grow", "shrink") for how in METHODS}
Points = dict[str, list[Point]]


@pytest.fixture(scope="module")
def points(cluster: t.Any, tmp_path_factory: pytest.TempPathFactory) -> Points:
    """Every write of each resize in which nothing goes wrong, and proof that nothing does."""
    made = Arena(cluster, tmp_path_factory.mktemp("clean"), f"rs-clean-{next(ARENAS)}")
    labels: dict[str, list[str]] = {}

    def scene(name: str) -> t.Callable[[Place], None]:
        def play(place: Place) -> None:
            with FaultPoints(cluster.kubeconfig, place.directory) as numbered:
                orders = place.orders(numbered.kubeconfig, duration=faults.PATIENCE, until=("running",))
                with DispatchProcess(orders, place.directory / "log") as process:
                    process.result()
                labels[name] = numbered.settled_labels
            place.heal()

        return play

    try:
        made.play([(made.place("start", sort), name, scene(name)) for name, sort in SORTS.items()])
    finally:
        made.leave()
    return {name: list(counted(written)) for name, written in labels.items()}


def counted(labels: t.Sequence[str]) -> t.Iterator[Point]:
    """The writes up to the last one of the gang's record, which follows what controllers do, and without it."""
    last = len(labels) - 1 - labels[::-1].index(f"PUT configmaps/{faults.GANG}")
    for index, label in enumerate(labels[:last]):
        if not any(word in label for word in NOT_ALWAYS):
            yield Point("start", label, labels[: index + 1].count(label))


def test_resizes_have_all_their_writes(points: Points) -> None:
    for name, found in points.items():
        patches = [point for point in found if point.label == PATCH]
        assert len(patches) == {"scale": 1, "suspend": 2, "recreate": 0}[name.partition("-")[2]]
        assert any(point.label == "DELETE configmaps/muster-ticket" for point in found) is name.endswith("recreate")
    # Three signals at both sides of each.
    assert sum(map(len, points.values())) * 2 * 3 >= 60


def test_signals_during_a_resize(arena: Arena, points: Points, scale: float, seed: int) -> None:
    cases = [
        (name, kind, point)
        for name, found in points.items()
        for kind in faults.SIGNALS
        for point in chosen(faults.both_sides(found), scale / 2, seed, f"{name} {kind}")
    ]
    # One of each kind of resize is enough to see that nothing broke.
    first = {name: (name, kind, point) for name, kind, point in chosen(cases, 1.0, seed, "resize signals")}
    scenes = [
        (arena.place("start", SORTS[name]), f"{name}: {kind} {point}", faults.signal_scene(kind, point))
        for name, kind, point in (cases if scale >= 1 else first.values())
    ]
    arena.play(scenes)


def test_bad_answers_during_a_resize(arena: Arena, points: Points, scale: float, seed: int) -> None:
    def scene_of(point: Point, settings: Object) -> t.Callable[[Place], None]:
        return lambda place: faults.strike(place, Fault(**settings), point, lambda _process: place.come_to_rest())

    errors = [*faults.errors(), ("404", {"status": 404}), ("410", {"status": 410})]
    cases = [
        (name, point, word, settings)
        for name, found in points.items()
        for point in found
        for word, settings in errors
        # Of a record that is there no server says that it is not.
        if word != "404" or "jobs" in point.label
    ]
    scenes = [
        (arena.place("start", SORTS[name]), f"{name}: {word} {point}", scene_of(point, settings))
        for name, point, word, settings in chosen(cases, scale, seed, "resize errors")[: None if scale >= 1 else 4]
    ]
    arena.play(scenes)


def test_patch_held_until_after_the_takeover(arena: Arena, points: Points, scale: float, seed: int) -> None:
    def scene_of(point: Point) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            fault = Fault(hold=True)

            def go_on(process: DispatchProcess) -> None:
                process.kill()
                place.heal()
                fault.release()
                fault.done()

            faults.strike(place, fault, point, go_on)
            place.cycle()
            place.heal()

        return scene

    cases = [(name, point) for name, found in points.items() for point in found if point.label == PATCH]
    assert len(cases) == 6
    scenes = [
        (arena.place("start", SORTS[name]), f"{name}: {point} late", scene_of(point))
        for name, point in chosen(cases, scale, seed, "held")[: None if scale >= 1 else 2]
    ]
    arena.play(scenes)
