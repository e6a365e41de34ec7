# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers that die, freeze, lose their answers or their clock at any write of a gang's start and undo.

Whatever happens to the first dispatcher, the next one must bring the gang of three objects where it belongs, and what
a recorder has seen meanwhile must be clean.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import random
import signal
import subprocess
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import (
    ensure_absent,
    ensure_present,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import TICKET_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.tests.support.accounts import tenant_kubeconfig
from ansible_collections.muster.kube.tests.support.dispatch_process import (
    DispatchProcess,
    Orders,
    lease_seconds,
    run_dispatcher,
)
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, free_lease
from ansible_collections.muster.kube.tests.support.fault_points import ARENAS, Fault, FaultPoints, Signal, chosen
from ansible_collections.muster.kube.tests.support.gang_cases import (
    WRAPPER_API,
    app_wrapper,
    config_map,
    gang_record,
    node_pool,
    service,
    three_objects,
)
from ansible_collections.muster.kube.tests.support.invariants import KINDS, LEASES, WRAPPERS, Findings, Recorder
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, is_bound, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import FILES, STOCK_FLAGS, cache_directory
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

Scenario = t.Literal["start", "undo"]
Object = dict[str, t.Any]

GOALS: dict[Scenario, str] = {"start": "running", "undo": "suspended"}
SCENARIOS: tuple[Scenario, ...] = ("start", "undo")
GANG = "gang"
OBJECTS = 3
# At once: most of them wait for leases to run out most of the time.
WIDTH = 8
# Never reached when things work.
PATIENCE = 120.0
# How often a scene is set up whose write was not made: a busy machine may lose its lease and go another way.
ROUNDS = 4
STATUSES = (403, 409, 422, 429, 500)
# Those of a server that only has to be asked again, like a connection that was cut: no gang may be given up for one.
PASSING = (429, 500)
SIDES: tuple[t.Literal["before", "after"], ...] = ("before", "after")
# Sent only for objects which the garbage collector has not taken by then, so not in every run.
CHILD_DELETES = ("DELETE jobs/g-b", "DELETE jobs/g-a", "DELETE services/g-s")
CUTS: tuple[t.Literal["before", "after", "inside"], ...] = ("before", "after", "inside")


class Missed(AssertionError):
    """The write at which something was to happen was not made: a busy machine lost its lease and went another way."""


class Place:
    """A namespace with a pool of nodes on which its only gang just fits, a Lease of its own, and foreign objects."""

    def __init__(self, cluster: LiveCluster, name: str, directory: pathlib.Path, scenario: Scenario) -> None:
        self.cluster = cluster
        self.name = name
        self.scenario = scenario
        self.directory = directory / name
        self.record_path = resource_path("v1", "configmaps", name, GANG)
        self.lease_path = resource_path("coordination.k8s.io/v1", "leases", name, "dispatch")
        self.foreign: list[Object] = []
        self.lease_seconds: float | None = None
        # Set when the place is played: who has seen everything already needs no requests to tell of it.
        self.recorder: Recorder | None = None

    @property
    def namespaces(self) -> tuple[str, ...]:
        """All namespaces of the place; the gang lies in the first."""
        return (self.name,)

    @property
    def goal(self) -> str:
        """Where the gang belongs in the end."""
        return GOALS[self.scenario]

    @property
    def key(self) -> str:
        """The gang's name in findings."""
        return f"{self.name}/{GANG}"

    def nodes(self) -> list[Object]:
        """Room for exactly this gang."""
        return node_pool(self.name, 2, cpu="2")

    def prepare(self) -> None:
        """Queue the gang; for an undo have it started, then ask for its end."""
        self.directory.mkdir()
        for namespace in self.namespaces:
            self.cluster.namespace(namespace)
        # As the role provides it: nobody has to wait for holders of an earlier one.
        self.cluster.create(free_lease(LeaseOptions(self.name, "dispatch")))
        [record] = self.cluster.create(self.record(three_objects("g", self.name, 2, cpu="1")))
        self.foreign = self.cluster.create(*_look_alikes(self.name, record["metadata"]["uid"]))
        if self.scenario == "undo":
            self.heal("running")
            self.suspend()

    def record(self, objects: list[Object]) -> Object:
        """The record of the gang."""
        return gang_record(GANG, self.name, objects)

    def point_label(self, label: str) -> str:
        """What a write of an ordinary place is called here."""
        return label

    def suspend(self, wanted: bool = True) -> None:
        """Ask for the gang's end, or for its next start."""
        record = get_object(self.cluster.client, self.record_path)
        assert record is not None
        text = json.dumps({**json.loads(record["data"]["gang.json"]), "suspended": wanted})
        patch(self.cluster.client, self.record_path, {"data": {"gang.json": text}})

    def orders(self, kubeconfig: t.Any = None, **settings: t.Any) -> Orders:
        """Orders for a dispatcher of this place."""
        namespaces = self.victims if kubeconfig is not None else self.healers
        if self.lease_seconds is not None:
            settings["lease_seconds"] = self.lease_seconds
        return Orders(str(kubeconfig or self.cluster.kubeconfig), self.name, namespaces, **settings)

    @property
    def victims(self) -> tuple[str, ...]:
        """The namespaces of the dispatcher to which something happens."""
        return (self.name,)

    @property
    def healers(self) -> tuple[str, ...]:
        """The namespaces of those that come after it."""
        return (self.name,)

    def heal(self, *phases: str) -> dict[str, t.Any]:
        """Run a dispatcher that nobody disturbs until the gang is in one of these phases."""
        result = run_dispatcher(self.orders(duration=PATIENCE, until=phases, lease_wait=PATIENCE))
        assert self.phase in phases, f"{self.name}: {self.phase} instead of {phases}: {result}"
        return result

    def cycle(self) -> dict[str, t.Any]:
        """Run one cycle that nobody disturbs."""
        return run_dispatcher(self.orders(lease_wait=PATIENCE))

    def come_to_rest(self) -> None:
        """Run a dispatcher that nobody disturbs until nothing is under way; a gang that was refused may wait."""
        run_dispatcher(self.orders(duration=PATIENCE, lease_wait=PATIENCE), until=lambda _phases: self.resting)
        assert self.resting, f"{self.name} does not come to rest: {self.state}"

    @property
    def resting(self) -> bool:
        """Whether the gang is where it belongs, or waits for its time, or has been given up."""
        state = self.state
        waiting = state.get("phase") == "queued" and state.get("not_before") is not None
        return waiting or state.get("phase") in (self.goal, "failed")

    @property
    def state(self) -> dict[str, t.Any]:
        """The gang's state as it is written."""
        record = get_object(self.cluster.client, self.record_path)
        assert record is not None
        text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
        return t.cast("dict[str, t.Any]", json.loads(text)) if text else {"phase": "queued"}

    @property
    def tickets(self) -> set[str]:
        """The uids of all tickets of the gang's namespace."""
        found = [obj["metadata"] for obj in self._seen("configmaps")]
        return {metadata["uid"] for metadata in found if TICKET_LABEL in (metadata.get("labels") or {})}

    @property
    def holder(self) -> str | None:
        """Who holds the Lease."""
        holders = [(lease.get("spec") or {}).get("holderIdentity") for lease in self._seen("leases")]
        return holders[0] if holders else None

    def look(self) -> None:
        """Have the recorder see who holds the Lease and which tickets there are now."""
        assert self.recorder is not None
        self.recorder.catch_up("leases", "configmaps")

    def _seen(self, plural: str) -> list[Object]:
        """The objects of a kind in the gang's namespace, as the recorder has seen them last."""
        assert self.recorder is not None
        return self.recorder.present(plural, self.name)

    @property
    def phase(self) -> str:
        """The gang's phase."""
        return str(self.state["phase"])


def with_own_arguments(objects: list[Object], name: str) -> list[Object]:
    """The same objects with pods unlike those of any other gang."""
    for obj in objects:
        if obj["kind"] == "Job":
            obj["spec"]["template"]["spec"]["containers"][0]["args"] = [name, obj["metadata"]["name"]]
    return objects


class WrappedPlace(Place):
    """The gang is in an AppWrapper."""

    def __init__(self, cluster: LiveCluster, name: str, directory: pathlib.Path, scenario: Scenario) -> None:
        super().__init__(cluster, name, directory, scenario)
        self.record_path = resource_path(WRAPPER_API, "appwrappers", name, GANG)

    def record(self, objects: list[Object]) -> Object:
        return app_wrapper(GANG, self.name, objects)

    def point_label(self, label: str) -> str:
        return label.replace(f"configmaps/{GANG}", f"appwrappers/{GANG}")

    def suspend(self, wanted: bool = True) -> None:
        notes = {"muster.kube/suspended": "true" if wanted else None}
        patch(self.cluster.client, self.record_path, {"metadata": {"annotations": notes}})


class SharedPlace(Place):
    """Two dispatchers know the gang's namespace, each one more besides; gangs have arguments of their own."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}-v", f"{self.name}-h")

    def record(self, objects: list[Object]) -> Object:
        return super().record(with_own_arguments(objects, self.name))

    @property
    def victims(self) -> tuple[str, ...]:
        return self.namespaces[1], self.name

    @property
    def healers(self) -> tuple[str, ...]:
        return self.name, self.namespaces[2]


class NeighborPlace(Place):
    """A second dispatcher under the same Lease knows only another namespace, whose gang wants the same room."""

    @property
    def namespaces(self) -> tuple[str, ...]:
        return (self.name, f"{self.name}-n")

    def prepare(self) -> None:
        super().prepare()
        rivals = with_own_arguments(three_objects("r", self.name, 2, cpu="1"), self.namespaces[1])
        self.cluster.create(gang_record("rival", self.namespaces[1], rivals))

    def let_neighbor_work(self) -> None:
        """Cycles of the other namespace's dispatcher: it may settle what was left open, then start its gang."""
        for _number in range(3):
            run_dispatcher(self._neighbor())

    def send_neighbor_away(self) -> None:
        """Have the other gang give the room back that it may have got."""
        path = resource_path("v1", "configmaps", self.namespaces[1], "rival")
        record = get_object(self.cluster.client, path)
        assert record is not None
        text = json.dumps({**json.loads(record["data"]["gang.json"]), "suspended": True})
        patch(self.cluster.client, path, {"data": {"gang.json": text}})
        run_dispatcher(self._neighbor(duration=PATIENCE, until=("suspended",)))

    def take_room_back(self) -> None:
        """Have the neighbor's gang go, and then the first one come where it belongs."""
        self.send_neighbor_away()
        self.heal(self.goal)

    def _neighbor(self, **settings: t.Any) -> Orders:
        """Orders for the neighbor's dispatcher."""
        return Orders(str(self.cluster.kubeconfig), self.name, self.namespaces[1:], lease_wait=PATIENCE, **settings)


def _look_alikes(namespace: str, uid: str) -> list[Object]:
    """Objects of others that look like the gang's: labels can be set by anybody, ownership cannot."""
    ticket = config_map(
        "foreign-ticket", attempt="1", digest="x", objects=f'[["v1","Service","{namespace}","foreign-s"]]'
    )
    ticket["metadata"]["labels"] = {"muster.kube/ticket": "true", "muster.kube/gang": uid}
    other = service("foreign-s")
    other["metadata"]["labels"] = {
        "muster.kube/gang": "no-such-gang",
        "muster.kube/attempt": "1",
    }
    copied = service("foreign-copy")
    copied["metadata"]["labels"] = {"muster.kube/gang": uid, "muster.kube/attempt": "1"}
    plain = config_map("g-s")
    for obj in (ticket, other, copied, plain):
        obj["metadata"]["namespace"] = namespace
    return [ticket, other, copied, plain]


Scene = tuple[Place, str, t.Callable[[Place], None]]


class Arena:
    """Many places at once, each with its own fault, under one recorder."""

    def __init__(self, cluster: LiveCluster, directory: pathlib.Path, prefix: str) -> None:
        self.cluster = cluster
        self.directory = directory
        self.prefix = prefix
        self.places: list[Place] = []

    def place(self, scenario: Scenario, sort: type[Place] = Place) -> Place:
        """One more place."""
        made = sort(self.cluster, f"{self.prefix}-{len(self.places)}", self.directory, scenario)
        self.places.append(made)
        return made

    def play(self, scenes: t.Sequence[Scene], *, deleted: bool = False) -> Findings:
        """Play all scenes; one whose write was not made is played again elsewhere, until each has had its fault.

        Unless the scenes delete their gangs themselves, none may get lost.
        """
        findings, missed = self._round(scenes, deleted=deleted)
        for _number in range(ROUNDS - 1):
            if missed:
                again = [(self.place(place.scenario, type(place)), title, scene) for place, title, scene in missed]
                more, missed = self._round(again, deleted=deleted)
                findings.phases.update(more.phases)
        assert not missed, f"never came to their fault: {[title for _place, title, _scene in missed]}"
        return findings

    def _round(self, scenes: t.Sequence[Scene], *, deleted: bool) -> tuple[Findings, list[Scene]]:
        """Play scenes, a few at a time; what each says failed is raised together at the end. Those missed come back."""
        places = [place for place, _title, _scene in scenes]
        self.cluster.add_nodes([node for place in places for node in place.nodes()])
        troubles: list[str] = []
        missed: list[Scene] = []

        def play_one(place: Place, title: str, scene: t.Callable[[Place], None]) -> None:
            place.recorder = recorder
            place.prepare()
            recorder.watch_over(*place.foreign)
            try:
                scene(place)
            except Missed:
                missed.append((place, title, scene))
                if get_object(self.cluster.client, place.record_path) is not None:
                    place.come_to_rest()
            except (AssertionError, MusterError, OSError, RuntimeError, subprocess.SubprocessError) as error:
                troubles.append(f"{place.name} ({title}): {error}")

        expected = [] if deleted else [place.key for place in places]
        wrapped = any(isinstance(place, WrappedPlace) for place in places)
        kinds = (*KINDS, LEASES, *((WRAPPERS,) if wrapped else ()))
        namespaces = [name for place in places for name in place.namespaces]
        with Recorder(self.cluster, namespaces, kinds=kinds, expected=expected) as recorder:
            with concurrent.futures.ThreadPoolExecutor(WIDTH) as pool:
                for future in [pool.submit(play_one, *scene) for scene in scenes]:
                    future.result()
            findings = recorder.settled(seconds=30.0)
        titles = {place.name: title for place, title, _scene in scenes}
        assert not troubles, "\n".join([*troubles, str(findings)])
        assert findings.clean(), f"{findings}\n{titles}"
        assert findings.gaps == 0
        return findings, missed

    def leave(self) -> None:
        """Take everything away."""
        for namespace in [name for place in self.places for name in place.namespaces]:
            with contextlib.suppress(NotFound):
                self.cluster.clear_namespace(namespace)
        with contextlib.suppress(NotFound):
            self.cluster.remove_nodes(node["metadata"]["name"] for place in self.places for node in place.nodes())


@pytest.fixture
def arena(cluster, tmp_path, request):
    """Places of one test."""
    words = request.node.name.lower().removeprefix("test_").replace("[", "-").split("_")
    word = "".join(letter for letter in words[0] if letter.isalnum())
    made = Arena(cluster, tmp_path, f"f-{word}-{next(ARENAS)}")
    yield made
    made.leave()


@dataclasses.dataclass(frozen=True)
class Point:
    """A write of a scenario, by its words and how often it was written before, and one side of it."""

    scenario: Scenario
    label: str
    occurrence: int
    when: t.Literal["before", "after"] = "before"

    def __str__(self) -> str:
        """In words."""
        return f"{self.when} {self.label} no. {self.occurrence} of the {self.scenario}"


@pytest.fixture(scope="module")
def writes(cluster, tmp_path_factory) -> dict[Scenario, list[str]]:
    """The writes of each scenario when nothing goes wrong, and proof that nothing did."""
    directory = tmp_path_factory.mktemp("clean")
    arena = Arena(cluster, directory, f"f-clean-{next(ARENAS)}")
    labels: dict[Scenario, list[str]] = {}

    def scene(place: Place) -> None:
        with FaultPoints(cluster.kubeconfig, place.directory) as points:
            orders = place.orders(points.kubeconfig, duration=PATIENCE, until=(place.goal,))
            with DispatchProcess(orders, place.directory / "log") as process:
                process.result()
            labels[place.scenario] = points.settled_labels

    try:
        findings = arena.play([(arena.place(scenario), "clean", scene) for scenario in SCENARIOS])
    finally:
        arena.leave()
    assert sorted(findings.phases.values()) == sorted(GOALS.values())
    return labels


def each_write(writes: dict[Scenario, list[str]]) -> list[Point]:
    """Every write of both scenarios, less those which the garbage collector may make needless."""
    return [
        Point(scenario, label, writes[scenario][: index + 1].count(label))
        for scenario in SCENARIOS
        for index, label in enumerate(writes[scenario])
        if label not in CHILD_DELETES
    ]


def before_controllers(writes: dict[Scenario, list[str]]) -> dict[Scenario, list[str]]:
    """The writes that need nobody else: the last one of a record follows what controllers do with pods."""
    last = f"PUT configmaps/{GANG}"
    return {scenario: labels[: len(labels) - 1 - labels[::-1].index(last)] for scenario, labels in writes.items()}


def both_sides(points: t.Iterable[Point]) -> list[Point]:
    """Before and after each of them."""
    return [dataclasses.replace(point, when=when) for point in points for when in SIDES]


def test_scenarios_have_all_their_writes(writes: dict[Scenario, list[str]]) -> None:
    start, undo = writes["start"], writes["undo"]
    # The ticket, each object once, and the record when all pods have nodes; where that takes long, twice.
    assert [label for label in start if "leases" not in label][:5] == [
        "POST configmaps",
        "POST services",
        "POST jobs",
        "POST jobs",
        f"PUT configmaps/{GANG}",
    ]
    assert [label for label in undo if "leases" not in label and label not in CHILD_DELETES] == [
        f"PUT configmaps/{GANG}",
        "DELETE configmaps/muster-ticket",
        f"PUT configmaps/{GANG}",
    ]
    # Three signals at both sides of each.
    assert len(both_sides(each_write(writes))) * 3 >= 30


def strike(place: Place, fault: Fault, point: Point, after: t.Callable[[DispatchProcess], None]) -> None:
    """Start a dispatcher, let the fault happen at that write, and go on from there."""
    with FaultPoints(place.cluster.kubeconfig, place.directory) as points:
        points.at_label(place.point_label(point.label), point.occurrence, fault)
        orders = place.orders(points.kubeconfig, duration=PATIENCE, until=(place.goal, "failed"), or_gone=True)
        with DispatchProcess(orders, place.directory / "log") as process:
            points.process = process
            wait_until("the point", lambda: fault.was_reached or not process.alive, PATIENCE, 0.01)
            # The process may have ended by the very signal whose effect is just being noted.
            begun = fault.write is not None
            ended = process.running.returncode == 0 and not begun
            # What happens meanwhile may take longer than a client that asks again and is served; a signal does not: the
            # process has ended before it was sent.
            patience = PATIENCE if begun and fault.signal is None else 5.0
            if not fault.was_reached and (ended or not fault.reached_within(patience)):
                raise Missed(f"{point}: {points.labels}")
            after(process)


def wake_after(place: Place, fault: Fault, process: DispatchProcess) -> None:
    """The lease runs out, somebody else does the work, and only then the first one wakes up."""
    place.heal(place.goal)
    process.resume()
    fault.release()
    process.wait()


def wake_amid(place: Place, fault: Fault, process: DispatchProcess) -> None:
    """The lease runs out, and the first one wakes up as soon as somebody else has it."""
    place.look()
    before = place.holder
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        healing = pool.submit(place.heal, place.goal)
        wait_until("a new holder", lambda: place.holder != before or healing.done(), PATIENCE, 0.005)
        process.resume()
        fault.release()
        healing.result()
    process.wait()


def stay_dead(place: Place, fault: Fault, process: DispatchProcess) -> None:
    """It is over for the first one."""
    process.wait()


SIGNALS: dict[str, tuple[Signal, t.Callable[[Place, Fault, DispatchProcess], None]]] = {
    "kill": ("kill", stay_dead),
    "interrupt": ("interrupt", stay_dead),
    "stop": ("stop", wake_after),
    "stop, then both at once": ("stop", wake_amid),
}


def signal_scene(kind: str, point: Point) -> t.Callable[[Place], None]:
    """A dispatcher gets a signal at a write, and somebody else has to bring its gang where it belongs."""
    sent, go_on = SIGNALS[kind]

    def scene(place: Place) -> None:
        fault = Fault(signal=sent, when=point.when)
        strike(place, fault, point, lambda process: go_on(place, fault, process))
        place.heal(place.goal)

    return scene


def test_signals(arena: Arena, writes: dict[Scenario, list[str]], scale: float, seed: int) -> None:
    scenes = [
        (arena.place(point.scenario), f"{kind} {point}", signal_scene(kind, point))
        for kind in SIGNALS
        for point in chosen(both_sides(each_write(writes)), scale, seed, kind)
    ]
    findings = arena.play(scenes)
    assert findings.phases == {place.key: place.goal for place in arena.places}


def errors() -> list[tuple[str, dict[str, t.Any]]]:
    """Every way in which an answer can be bad, with its name."""
    return [
        *((str(status), {"status": status}) for status in STATUSES),
        *((f"cut {cut}", {"cut": cut}) for cut in CUTS),
    ]


def test_bad_answers(arena: Arena, writes: dict[Scenario, list[str]], scale: float, seed: int) -> None:
    def scene_of(point: Point, settings: dict[str, t.Any]) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            strike(place, Fault(**settings), point, lambda process: place.come_to_rest())
            if settings.get("status") in (None, *PASSING):
                assert place.phase != "failed", f"given up over one answer: {place.state}"
                place.heal(place.goal)

        return scene

    cases = [(point, name, settings) for point in each_write(writes) for name, settings in errors()]
    scenes = [
        (arena.place(point.scenario), f"{name} {point}", scene_of(point, settings))
        for point, name, settings in chosen(cases, scale, seed, "errors")
    ]
    arena.play(scenes)


def test_cut_off_for_good(arena: Arena, writes: dict[Scenario, list[str]], scale: float, seed: int) -> None:
    def scene_of(point: Point) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            with FaultPoints(place.cluster.kubeconfig, place.directory) as points:
                # The write itself may still get through; whether it did the dispatcher never learns.
                fault = Fault(cut=point.when, meanwhile=lambda: points.cut(times=None))
                points.at_label(point.label, point.occurrence, fault)
                orders = place.orders(points.kubeconfig, duration=PATIENCE, until=(place.goal,), lease_wait=1.0)
                with DispatchProcess(orders, place.directory / "log"):
                    fault.reached()
                    place.heal(place.goal)
            place.heal(place.goal)

        return scene

    points = chosen(both_sides(each_write(writes)), scale, seed, "cut off")
    findings = arena.play([(arena.place(point.scenario), str(point), scene_of(point)) for point in points])
    assert findings.phases == {place.key: place.goal for place in arena.places}


def test_post_held_until_after_the_takeover(
    arena: Arena, writes: dict[Scenario, list[str]], scale: float, seed: int
) -> None:
    def scene_of(point: Point, undone: bool) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            fault = Fault(hold=True)

            def go_on(process: DispatchProcess) -> None:
                process.kill()
                place.heal("running")
                if undone:
                    place.suspend()
                    place.heal("suspended")
                fault.release()
                fault.done()

            strike(place, fault, point, go_on)
            place.cycle()

        return scene

    posts = [item for item in each_write(writes) if item.label.startswith("POST ") and "lease" not in item.label]
    assert len(posts) == OBJECTS + 1
    cases = chosen([(point, undone) for point in posts for undone in (False, True)], scale, seed, "held")
    scenes = [
        (arena.place("start"), f"{point} late{' after an undo' if undone else ''}", scene_of(point, undone))
        for point, undone in cases
    ]
    findings = arena.play(scenes)
    goals = ["suspended" if undone else "running" for _point, undone in cases]
    assert findings.phases == dict(zip([place.key for place in arena.places], goals, strict=True))


def wrong_clocks(minutes: int, point: Point) -> t.Callable[[Place], None]:
    """A dispatcher whose clock is wrong dies at a write, and those that come after it are wrong the other way."""

    def scene(place: Place) -> None:
        with FaultPoints(place.cluster.kubeconfig, place.directory) as points:
            fault = points.at_label(point.label, point.occurrence, Fault(signal="kill", when="after"))
            orders = place.orders(points.kubeconfig, duration=PATIENCE, clock_offset=minutes * 60.0)
            with DispatchProcess(orders, place.directory / "log") as process:
                points.process = process
                fault.reached()
        for offset, goal in ((-minutes, "running"), (minutes, "suspended")):
            if goal == "suspended":
                place.suspend()
            orders = place.orders(duration=PATIENCE, until=(goal,), clock_offset=offset * 60.0)
            with DispatchProcess(orders, place.directory / "log") as process:
                process.result()
        now = time.time()
        moments = [read_time(at) for _phase, at, _reason, _message in place.state["transitions"]]
        assert all(moment is not None and abs(now - moment) < 300 for moment in moments), place.state["transitions"]
        assert moments == sorted(t.cast("list[float]", moments))

    return scene


def test_wrong_clocks(arena: Arena, writes: dict[Scenario, list[str]], seed: int) -> None:
    points = [item for item in each_write(writes) if item.scenario == "start"]
    scenes = []
    for minutes in (-10, 10):
        point = random.Random(f"{seed}/clock/{minutes}").choice(points)
        scenes.append((arena.place("start"), f"clocks off by {minutes} min, {point}", wrong_clocks(minutes, point)))
    findings = arena.play(scenes)
    assert set(findings.phases.values()) == {"suspended"}
    assert set(findings.attempts.values()) == {2}


def test_record_deleted_at_every_write(
    arena: Arena, cluster: LiveCluster, writes: dict[Scenario, list[str]], scale: float, seed: int
) -> None:
    def scene_of(point: Point) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            fault = Fault(hold=True, when=point.when)

            def go_on(process: DispatchProcess) -> None:
                delete(cluster.client, place.record_path)
                fault.release()
                process.result()

            strike(place, fault, point, go_on)
            place.cycle()

        return scene

    points = chosen(both_sides(each_write(writes)), scale, seed, "deleted")
    scenes = [(arena.place(point.scenario), str(point), scene_of(point)) for point in points]
    assert arena.play(scenes, deleted=True).phases == {}


def test_lease_deleted_at_every_write(
    arena: Arena, cluster: LiveCluster, writes: dict[Scenario, list[str]], scale: float, seed: int
) -> None:
    def scene_of(point: Point) -> t.Callable[[Place], None]:
        def scene(place: Place) -> None:
            fault = Fault(hold=True, when=point.when)

            def go_on(process: DispatchProcess) -> None:
                # Nobody has to wait for a lease that does not exist, so two are at work at once.
                with contextlib.suppress(NotFound):
                    delete(cluster.client, place.lease_path)
                place.heal(place.goal)
                fault.release()
                process.wait()

            strike(place, fault, point, go_on)
            place.heal(place.goal)

        return scene

    points = chosen(both_sides(each_write(writes)), scale, seed, "lease")
    findings = arena.play([(arena.place(point.scenario), str(point), scene_of(point)) for point in points])
    assert findings.phases == {place.key: place.goal for place in arena.places}


MOMENTS = ("held", "begun")


def rivalry(moment: str, point: Point) -> t.Callable[[Place], None]:
    """The Lease is deleted at a write, and its old holder goes on as soon as somebody else is at work."""

    def scene(place: Place) -> None:
        # Long enough that the old holder does not learn of its loss before it goes on.
        place.lease_seconds = 15.0
        fault = Fault(hold=True, when=point.when)

        def go_on(process: DispatchProcess) -> None:
            place.look()
            holder, tickets = place.holder, place.tickets
            with contextlib.suppress(NotFound):
                delete(place.cluster.client, place.lease_path)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                healing = pool.submit(place.heal, place.goal)
                wait_until(
                    "a new holder", lambda: place.holder not in (None, holder) or healing.done(), PATIENCE, 0.005
                )
                if moment == "begun":
                    wait_until("its work", lambda: place.tickets != tickets or healing.done(), PATIENCE, 0.005)
                fault.release()
                healing.result()
            process.wait()

        strike(place, fault, point, go_on)
        place.heal(place.goal)

    return scene


def test_lease_deleted_and_the_old_holder_goes_on_at_once(
    arena: Arena, writes: dict[Scenario, list[str]], scale: float, seed: int
) -> None:
    # The one write whose loser could take the winner's ticket away is always played, and apart, so that both are quick.
    ticket = Point("start", "POST configmaps", 1)
    apart = [(arena.place("start"), f"{moment} {ticket}", rivalry(moment, ticket)) for moment in MOMENTS]
    phases = arena.play(apart).phases
    scenes = [
        (arena.place(point.scenario), f"{moment} {point}", rivalry(moment, point))
        for moment in MOMENTS
        for point in chosen(both_sides(each_write(writes)), scale, seed, f"lease {moment}")
    ]
    phases |= arena.play(scenes).phases
    assert phases == {place.key: place.goal for place in arena.places}


SORTS: dict[str, type[Place]] = {"wrapped": WrappedPlace, "shared": SharedPlace}


def test_signals_elsewhere(arena: Arena, writes: dict[Scenario, list[str]], scale: float, seed: int) -> None:
    install_wrapper_crd(arena.cluster.client)
    scenes = [
        (arena.place(point.scenario, place_sort), f"{kind} {point}, {sort}", signal_scene(kind, point))
        for kind in ("kill", "stop, then both at once")
        for sort, place_sort in SORTS.items()
        for point in chosen(both_sides(each_write(writes)), scale, seed, f"{sort} {kind}")
    ]
    assert arena.play(scenes).phases == {place.key: place.goal for place in arena.places}


@pytest.fixture(scope="module")
def own_cluster() -> t.Iterator[tuple[LiveCluster, ClusterOptions]]:
    """A cluster whose control plane may be disturbed, and whose controllers are as slow as Kubernetes makes them."""
    spec = ClusterSpec(f"faults-{os.getpid()}", component_flags=STOCK_FLAGS)
    request = ClusterOptions(spec, cache_directory(), FILES, 120.0)
    result = ensure_present(request, lambda text: None)
    yield LiveCluster(connect({"kubeconfig": result["kubeconfig"]}), result), request
    ensure_absent(request, lambda text: None)


def restart_api_server(request: ClusterOptions) -> None:
    """Kill the API server and wait until it is back."""
    shown = ensure_present(request, lambda text: None)
    os.kill(shown["components"]["kube-apiserver"]["pid"], signal.SIGKILL)
    ensure_present(request, lambda text: None)


def test_api_server_restarted_in_the_middle(
    own_cluster: tuple[LiveCluster, ClusterOptions],
    writes: dict[Scenario, list[str]],
    tmp_path: pathlib.Path,
    scale: float,
    seed: int,
) -> None:
    cluster, request = own_cluster
    points = [item for item in each_write(writes) if item.scenario == "start"]
    for number, point in enumerate(chosen(points, scale, seed, "restart")[: max(1, round(3 * scale))]):
        place = Place(cluster, f"restart-{number}", tmp_path, point.scenario)
        cluster.add_nodes(place.nodes())
        place.prepare()
        with Recorder(cluster, [place.name], expected=[place.key]) as recorder:
            recorder.watch_over(*place.foreign)
            strike(place, Fault(meanwhile=lambda: restart_api_server(request)), point, lambda process: None)
            place.heal("running")
            findings = recorder.settled(seconds=30.0)
        assert findings.clean(), f"{point}: {findings}"


def test_killed_while_it_deletes_objects_without_the_collector(
    own_cluster: tuple[LiveCluster, ClusterOptions], tmp_path: pathlib.Path, scale: float, seed: int
) -> None:
    cluster, _request = own_cluster
    points = both_sides(Point("undo", label, 1) for label in CHILD_DELETES)
    for number, point in enumerate(chosen(points, scale, seed, "collector")[: max(1, round(6 * scale))]):
        place = Place(cluster, f"collector-{number}", tmp_path, point.scenario)
        cluster.add_nodes(place.nodes())
        place.prepare()
        with Recorder(cluster, [place.name], expected=[place.key]) as recorder:
            recorder.watch_over(*place.foreign)
            with cluster.paused("kube-controller-manager"):
                strike(place, Fault(signal="kill", when=point.when), point, lambda process: None)
            place.heal(place.goal)
            findings = recorder.settled(seconds=60.0)
        assert findings.clean(), f"{point}: {findings}"
        assert findings.gaps == 0


def kill_beside(place: NeighborPlace, point: Point) -> None:
    """Kill a dispatcher at a write while no pods are made; its neighbor works on."""
    fault = Fault(signal="kill", when=point.when)
    strike(place, fault, point, functools.partial(stay_dead, place, fault))
    place.let_neighbor_work()


def test_killed_beside_a_dispatcher_of_another_namespace(
    own_cluster: tuple[LiveCluster, ClusterOptions],
    writes: dict[Scenario, list[str]],
    tmp_path: pathlib.Path,
    scale: float,
    seed: int,
) -> None:
    cluster, _request = own_cluster
    # Always one with its gang whole and no pod yet: nothing but its promise holds the room.
    last = Point("start", "POST jobs", 2, "after")
    points = chosen(both_sides(each_write(before_controllers(writes))), scale, seed, "neighbor")
    beside = [
        (NeighborPlace(cluster, f"neighbor-{number}", tmp_path, point.scenario), point)
        for number, point in enumerate(points if last in points else [last, *points])
    ]
    places = [place for place, _point in beside]
    for place in places:
        # Nobody plays again what went another way because a lease was lost.
        place.lease_seconds = 2 * lease_seconds()
    cluster.add_nodes([node for place in places for node in place.nodes()])
    parallel([place.prepare for place in places])
    namespaces = [name for place in places for name in place.namespaces]
    with Recorder(cluster, namespaces, expected=[place.key for place in places]) as recorder:
        recorder.watch_over(*(obj for place in places for obj in place.foreign))
        with cluster.paused("kube-controller-manager"):
            parallel([functools.partial(kill_beside, place, point) for place, point in beside])
        parallel([place.take_room_back for place in places])
        findings = recorder.settled(seconds=60.0)
    assert findings.clean(), f"{[str(point) for _place, point in beside]}: {findings}"
    assert {place.key: findings.phases[place.key] for place in places} == {place.key: place.goal for place in places}


def test_undo_waits_for_pods_that_nobody_collects(
    own_cluster: tuple[LiveCluster, ClusterOptions], tmp_path: pathlib.Path
) -> None:
    cluster, _request = own_cluster
    place = Place(cluster, "lingering", tmp_path, "undo")
    cluster.add_nodes(place.nodes())
    place.prepare()
    with Recorder(cluster, [place.name], expected=[place.key]) as recorder:
        recorder.watch_over(*place.foreign)
        with cluster.paused("kube-controller-manager"):
            place.cycle()
            assert place.phase == "undoing"
            assert cluster.pods(place.name, "muster.kube/gang")
        place.heal("suspended")
        findings = recorder.settled(seconds=60.0)
    assert findings.clean(), str(findings)


def test_late_object_in_the_way_of_the_next_attempt(
    own_cluster: tuple[LiveCluster, ClusterOptions], tmp_path: pathlib.Path
) -> None:
    cluster, _request = own_cluster
    place = Place(cluster, "late", tmp_path, "start")
    cluster.add_nodes(place.nodes())
    place.prepare()
    fault = Fault(hold=True)

    def go_on(process: DispatchProcess) -> None:
        process.kill()
        place.heal("running")
        place.suspend()
        place.heal("suspended")
        # Nobody collects what has lost its owner: the next attempt must do it.
        with cluster.paused("kube-controller-manager"):
            fault.release()
            fault.done()
            late = get_object(cluster.client, resource_path("v1", "services", place.name, "g-s"))
            assert late is not None
            assert late["metadata"]["labels"]["muster.kube/attempt"] == "1"
            place.suspend(False)
            place.heal("dispatched")

    with Recorder(cluster, [place.name], expected=[place.key]) as recorder:
        recorder.watch_over(*place.foreign)
        strike(place, fault, Point("start", "POST services", 1), go_on)
        place.heal("running")
        findings = recorder.settled(seconds=60.0)
    assert findings.clean(), str(findings)
    assert findings.attempts == {place.key: 2}


def test_room_of_pods_that_a_stock_controller_has_not_made_yet(
    own_cluster: tuple[LiveCluster, ClusterOptions], tmp_path: pathlib.Path
) -> None:
    cluster, _request = own_cluster
    one = Stage(cluster, cluster.namespace("stock-one"))
    one.add_nodes(1, cpu="100", pods="500")
    # One dispatcher beside it sees all, another one only its own records.
    sees_all = Stage(cluster, cluster.namespace("stock-all"))
    tenant = cluster.namespace("stock-own")
    sees_own = Stage(cluster, tenant, tenant_kubeconfig(cluster, tenant, one.lease.namespace, tmp_path))
    others = [sees_all, sees_own]
    # So many that the controller, which makes about 20 in a second, can be stopped before the last one is made.
    large = one.submit("large", one.job("large", 100))
    for stage in others:
        stage.pool, stage.lease = one.pool, one.lease
        stage.submit("small", stage.job("small", 20))
    namespaces = [stage.namespace for stage in (one, *others)]
    expected = [f"{one.namespace}/large", *(f"{stage.namespace}/small" for stage in others)]
    with Recorder(cluster, namespaces, expected=expected) as recorder:
        one.run(lease_wait=PATIENCE)
        wait_until("the first pods", lambda: one.pods() or None)
        with cluster.paused("kube-controller-manager"):
            results = [stage.run(lease_wait=PATIENCE) for stage in others]
            assert len(one.pods()) < 100, "too late: the pods are there"
        assert one.phase("large") == "dispatched"
        for stage, result in zip(others, results, strict=True):
            assert stage.phase("small") == "queued", [item.line() for item in result.decisions]
        one.run_until({"large": "running"})
        assert len([item for item in one.pods() if is_bound(item)]) == 100
        findings = recorder.settled(seconds=30.0)
        assert findings.clean(), str(findings)
    delete(one.client, one.cluster.path(large.raw))
    for stage in others:
        stage.run_until({"small": "running"}, lease_wait=PATIENCE)
