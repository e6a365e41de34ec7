# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes for real: a gang grows or shrinks by each method, whatever happens to the dispatcher at any write of it.

Whoever comes after it gives the gang its size, the newcomer starts, nothing is lost and no GPU is given twice.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import resize_step
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterOptions
from ansible_collections.muster.kube.tests.integration import test_dispatch_faults as faults
from ansible_collections.muster.kube.tests.integration.test_dispatch_faults import (
    Arena,
    Place,
    Point,
    arena,
    own_cluster,
)
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders, run_dispatcher
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.fault_points import ARENAS, Fault, FaultPoints, chosen
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.invariants import GPU, Recorder
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]
Method = t.Literal["scale", "suspend", "recreate"]
__all__ = ["arena", "own_cluster"]

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
    def is_over(self) -> bool:
        """Whether a user has ended what was going on: the gang is done, has failed, or waits to be tried again."""
        state = self.state
        waits = state["phase"] == "queued" and state.get("not_before") is not None
        return waits or state["phase"] in ("complete", "failed")

    @property
    def rests(self) -> bool:
        """Whether it runs, and no resize is under way."""
        state = record_from_api(self._raw(faults.GANG)).state
        return state is not None and state.phase == "running" and resize_step(state) not in ("planned", "starting")

    def serve_newcomer(self) -> None:
        """Run a dispatcher that nobody disturbs until the newcomer runs, if there is one."""
        orders = self.orders(duration=faults.PATIENCE, lease_wait=faults.PATIENCE)
        run_dispatcher(orders, until=lambda _phases: self.grows or self.phase_of("new") == "running")
        assert self.grows or self.phase_of("new") == "running"

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


def test_signals_during_a_resize(arena: Arena, points: Points, scale: float, seed: int) -> None:
    cases = [
        (name, kind, point)
        for name, found in points.items()
        for kind in faults.SIGNALS
        for point in chosen(faults.both_sides(found), scale, seed, f"{name} {kind}")
    ]
    # One of each kind of resize is enough to see that nothing broke.
    first = {name: (name, kind, point) for name, kind, point in chosen(cases, 1.0, seed, "resize signals")}
    scenes = [
        (arena.place("start", SORTS[name]), f"{name}: {kind} {point}", faults.signal_scene(kind, point))
        for name, kind, point in (cases if scale >= 1 else first.values())
    ]
    played = play(arena, scenes)
    if scale >= 1:
        assert played == len(faults.SIGNALS) * len(faults.SIDES) * sum(map(len, points.values())) >= 60


def play(arena: Arena, scenes: t.Sequence[faults.Scene], *, deleted: bool = False) -> int:
    """Play scenes; how many of them came to their end."""
    ended: list[str] = []

    def to_its_end(title: str, scene: t.Callable[[Place], None]) -> t.Callable[[Place], None]:
        def play_one(place: Place) -> None:
            scene(place)
            ended.append(title)

        return play_one

    arena.play([(place, title, to_its_end(title, scene)) for place, title, scene in scenes], deleted=deleted)
    assert sorted(ended) == sorted(title for _place, title, _scene in scenes)
    return len(ended)


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


# Who holds the Lease gets lost.


def cut_off(point: Point) -> t.Callable[[Place], None]:
    """A dispatcher reaches no server any more from a write on, and goes on living."""

    def scene(place: Place) -> None:
        with FaultPoints(place.cluster.kubeconfig, place.directory) as numbered:
            # The write itself may still get through; whether it did the dispatcher never learns.
            fault = Fault(cut=point.when, meanwhile=lambda: numbered.cut(times=None))
            numbered.at_label(point.label, point.occurrence, fault)
            orders = place.orders(numbered.kubeconfig, duration=faults.PATIENCE, lease_wait=1.0)
            with DispatchProcess(orders, place.directory / "log") as process:
                wait_until("the point", lambda: fault.was_reached or not process.alive, faults.PATIENCE, 0.01)
                if not fault.was_reached:
                    raise faults.Missed(str(point))
                place.heal()
        place.heal()

    return scene


def lease_deleted(point: Point) -> t.Callable[[Place], None]:
    """The Lease is deleted at a write, so that a second dispatcher is at work before the first one goes on."""

    def scene(place: Place) -> None:
        fault = Fault(hold=True, when=point.when)

        def go_on(process: DispatchProcess) -> None:
            with contextlib.suppress(NotFound):
                delete(place.cluster.client, place.lease_path)
            place.heal()
            fault.release()
            process.wait()

        faults.strike(place, fault, point, go_on)
        place.heal()

    return scene


LOSSES = {"cut off": cut_off, "Lease deleted": lease_deleted}


def test_a_holder_that_is_lost_during_a_resize(arena: Arena, points: Points, scale: float, seed: int) -> None:
    scenes = [
        (arena.place("start", SORTS[name]), f"{name}: {word} {point}", loss(point))
        for word, loss in LOSSES.items()
        for name, point in chosen(sided(points), scale, seed, f"resize {word}")[: None if scale >= 1 else 1]
    ]
    assert play(arena, scenes) >= len(LOSSES)


def sided(points: Points) -> list[tuple[str, Point]]:
    """Both sides of all points, each with the resize that it is one of."""
    return [(name, point) for name, found in points.items() for point in faults.both_sides(found)]


# Users do something to what is resized.


def delete_record(place: ResizePlace) -> None:
    """Nobody wants the gang any more."""
    delete(place.cluster.client, place.record_path)


def delete_job(place: ResizePlace) -> None:
    """Somebody deletes what the gang consists of, if it is there."""
    with contextlib.suppress(NotFound):
        delete(place.cluster.client, resource_path("batch/v1", "jobs", place.name, faults.GANG))


def edit_record(place: ResizePlace) -> None:
    """The trainer is to get another argument."""
    record = get_object(place.cluster.client, place.record_path)
    assert record is not None
    data = json.loads(record["data"]["gang.json"])
    data["objects"][0]["spec"]["template"]["spec"]["containers"][0]["args"] = ["edited"]
    patch(place.cluster.client, place.record_path, {"data": {"gang.json": json.dumps(data)}})


def finish_pods(place: ResizePlace) -> None:
    """All pods that run end well."""
    for pod in place.pods(faults.GANG):
        if pod["status"].get("phase") == "Running":
            path = f"{resource_path('v1', 'pods', place.name, pod['metadata']['name'])}/status"
            with contextlib.suppress(NotFound):
                patch(place.cluster.client, path, {"status": {"phase": "Succeeded"}})


DEEDS: dict[str, t.Callable[[ResizePlace], None]] = {
    "record deleted": delete_record,
    "job deleted": delete_job,
    "edited": edit_record,
    "finished": finish_pods,
}


def user_acts(what: str, point: Point) -> t.Callable[[Place], None]:
    """A user does something while a write is on its way; the dispatcher goes on and comes to an end with it."""

    def scene(place: Place) -> None:
        assert isinstance(place, ResizePlace)
        fault = Fault(hold=True, when=point.when)

        def is_at_rest() -> bool:
            if what == "record deleted":
                return get_object(place.cluster.client, place.record_path) is None
            # One that was edited is left alone from then on, with the size that it had or was on its way to.
            return place.is_resized or (place.rests if what == "edited" else place.is_over)

        def go_on(process: DispatchProcess) -> None:
            DEEDS[what](place)
            fault.release()
            wait_until(f"{place.name} to rest", lambda: is_at_rest() or not process.alive, faults.PATIENCE, 0.1)

        faults.strike(place, fault, point, go_on)
        orders = place.orders(duration=faults.PATIENCE, lease_wait=faults.PATIENCE)
        run_dispatcher(orders, until=lambda _phases: is_at_rest())
        place.cycle()
        assert is_at_rest(), f"{place.name}: {place.state}"
        if what != "edited" or place.state["allotment"] == SMALL:
            place.serve_newcomer()

    return scene


def test_users_who_delete_edit_or_finish_what_is_resized(arena: Arena, points: Points, scale: float, seed: int) -> None:
    scenes = [
        (arena.place("start", SORTS[name]), f"{name}: {what} {point}", user_acts(what, point))
        for what in DEEDS
        for name, point in chosen(sided(points), scale, seed, f"resize {what}")[: None if scale >= 1 else 1]
    ]
    assert play(arena, scenes, deleted=True) >= len(DEEDS)


@pytest.mark.full
def test_api_server_restarted_during_a_resize(
    own_cluster: tuple[LiveCluster, ClusterOptions], points: Points, tmp_path: pathlib.Path, scale: float, seed: int
) -> None:
    cluster, request = own_cluster
    for number, name in enumerate(SORTS):
        point = chosen(points[name], scale, seed, f"restart {name}")[number % 3]
        place = SORTS[name](cluster, f"resize-restart-{number}", tmp_path, "start")
        cluster.add_nodes(place.nodes())
        place.prepare()
        with Recorder(cluster, [place.name], expected=[place.key]) as recorder:
            restart = Fault(meanwhile=lambda: faults.restart_api_server(request))
            faults.strike(place, restart, point, lambda process: None)
            place.heal()
            findings = recorder.settled(seconds=60.0)
        assert findings.clean(), f"{name} {point}: {findings}"
