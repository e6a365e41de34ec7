# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs, policies, rights and users that could hold a dispatcher up, deceive it, or make it give room twice.

Ordinary gangs are beside each of them: they must start, be looked after and be undone as if they were alone.
"""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STATE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import service, waiting_service
from ansible_collections.muster.kube.tests.support.invariants import KINDS, Seen, judge
from ansible_collections.muster.kube.tests.support.live_cluster import is_bound, wait_until
from ansible_collections.muster.kube.tests.support.memory_controllers import Pace
from ansible_collections.muster.kube.tests.support.memory_wire import Killed
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy

Object = dict[str, t.Any]

FINALIZER = "example.com/stays"
# Never reached when things work.
PATIENCE = 120.0
# Time in which requests are counted, and how often a dispatcher that backs off may look more often than one at rest.
WINDOW = 12.0
MORE_CYCLES = 4
# From then on a dispatcher must have noticed that trying again does not help.
WINDOWS = 3
SIGHTS = ("all", "own")


@pytest.fixture
def stage(cluster: VirtualCluster, namespace: str) -> Stage:
    """A namespace with room for all gangs of a test."""
    made = Stage(cluster, namespace)
    made.add_nodes(2, cpu="32")
    return made


def submit_ordinary(stage: Stage, count: int, stem: str = "plain", **job: t.Any) -> dict[str, str]:
    """Queue gangs of one Job; their names with the phase they shall reach."""
    names = [f"{stem}-{number}" for number in range(count)]
    for name in names:
        stage.submit(name, stage.job(name, **job))
    return dict.fromkeys(names, "running")


def make_ready(stage: Stage, name: str) -> None:
    """Give a Service the condition that is waited for."""
    path = resource_path("v1", "services", stage.namespace, name, "status")
    condition = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    patch(stage.client, path, {"status": {"conditions": [condition]}}, patch_type="merge")


# One gang that does not come along.


def test_gang_that_waits_for_an_object_holds_nobody_up(stage: Stage) -> None:
    rest = stage.job("rest")
    stage.submit("waiter", waiting_service("first"), rest)
    stage.run_for(lambda _phases: stage.find(service("first")) is not None)
    ordinary = submit_ordinary(stage, 5)
    stage.run_until(ordinary)
    assert stage.phase("waiter") == "dispatching"
    assert stage.find(rest) is None
    # Others are looked after and undone meanwhile too.
    stage.edit("plain-0", suspended=True)
    stage.run_until({"plain-0": "suspended"})
    assert stage.phase("waiter") == "dispatching"
    make_ready(stage, "first")
    stage.run_until({"waiter": "running"})
    assert stage.state("waiter").attempt == 1


# What must not become a hot loop.


class Effort(t.NamedTuple):
    """What a dispatcher did in a window of time."""

    cycles: int
    requests: int


class Spectator:
    """Counts what a dispatcher does; nothing changes meanwhile but what it does itself."""

    def __init__(self, cluster: VirtualCluster, proxy: VirtualProxy) -> None:
        """Nothing counted yet."""
        self._clock = cluster.memory.clock
        self._proxy = proxy
        self.seen: list[Effort] = []

    def count(self, windows: int) -> None:
        """Count in so many windows, one after the other, from now on."""
        before = self._sums()

        def look() -> None:
            """A window is over."""
            now = self._sums()
            self.seen.append(Effort(now.cycles - before.cycles, now.requests - before.requests))
            if windows > 1:
                self.count(windows - 1)

        self._clock.after(WINDOW, look)

    def _sums(self) -> Effort:
        """All cycles, each of which lists the nodes once, and all requests so far."""
        requests = self._proxy.requests
        return Effort(sum(item.path == "/api/v1/nodes" for item in requests), len(requests))


def require_calm(stuck: Effort, calm: Effort, gangs: int) -> None:
    """Each stuck gang may cost a few cycles more, and besides them one request a second."""
    more = max(0, stuck.cycles - calm.cycles)
    assert more <= gangs * MORE_CYCLES, (stuck, calm)
    each = calm.requests / max(1, calm.cycles)
    assert stuck.requests <= calm.requests + more * each + gangs * WINDOW, (stuck, calm)


def test_gangs_that_are_stuck_are_no_hot_loop(cluster: VirtualCluster, stage: Stage, proxy: VirtualProxy) -> None:
    through = Stage(cluster, stage.namespace, str(proxy.kubeconfig))
    held = stage.job("held")
    held["metadata"]["finalizers"] = [FINALIZER]
    stage.submit("held", held)
    stage.submit("waits", waiting_service("waits"), stage.job("waits"))
    # This one comes first, and ordinary ones do not fit beside it, but its record may not be written.
    stage.submit("denied", stage.job("denied", 2, cpu="28"), priority=1)
    ordinary = submit_ordinary(stage, 2, cpu="28")
    denial = "ValidatingAdmissionPolicy 'stays' denied request: denied stays as it is"
    proxy.fail(status=422, method="PUT", path="/configmaps/denied$", times=None, message=denial)
    spectator = Spectator(cluster, proxy)

    def reached(**phases: str) -> bool:
        """Whether gangs are in these phases."""
        return all(stage.phase(name.replace("_", "-")) == phase for name, phase in phases.items())

    def course() -> t.Iterator[None]:
        """What happens during one run."""
        while not reached(held="running", waits="dispatching", denied="queued", plain_0="running", plain_1="running"):
            yield
        assert stage.find(stage.job("denied")) is None
        stage.edit("held", suspended=True)
        # Others are started and undone meanwhile.
        submit_ordinary(stage, 1, "later")
        stage.edit("plain-0", suspended=True)
        while not reached(held="undoing", plain_0="suspended", plain_1="running", later_0="running"):
            yield
        spectator.count(WINDOWS)
        while len(spectator.seen) < WINDOWS:
            yield
        assert reached(held="undoing", waits="dispatching", denied="queued")
        # Nothing is lost: each goes on when it can.
        path = resource_path("batch/v1", "jobs", stage.namespace, "held")
        patch(stage.client, path, {"metadata": {"finalizers": None}}, patch_type="merge")
        make_ready(stage, "waits")
        delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "plain-1"))
        while not reached(held="suspended", waits="running"):
            yield
        proxy.clear()
        while not reached(denied="running"):
            yield
        spectator.count(1)
        while len(spectator.seen) <= WINDOWS:
            yield

    steps = course()
    over = object()
    through.run_for(lambda _phases: next(steps, over) is over)
    assert list(steps) == [], "the run was over before the course"
    assert list(ordinary) == ["plain-0", "plain-1"]
    *_earlier, stuck, calm = spectator.seen
    require_calm(stuck, calm, 3)


# Room that is given once, whoever gives it.


def two_stages(cluster: VirtualCluster, sight: str, **amounts: str) -> tuple[Stage, Stage]:
    """Two namespaces over one node, under one Lease; the second's dispatcher may see all, or only its own records."""
    one = Stage(cluster, cluster.namespace("one"))
    one.add_nodes(1, **amounts)
    return one, beside(cluster, one, "two", sight)


def given_twice(cluster: VirtualCluster) -> list[str]:
    """Room that was given away more than once at any moment so far, by the whole history of the cluster."""
    kinds = {plural for _version, plural in KINDS}
    history = [
        Seen(change.version, change.plural, change.gone, change.object)
        for change in cluster.memory.history
        if change.plural in kinds
    ]
    return judge(history, cluster.memory.all("nodes"), {}, ()).room_twice


def beside(cluster: VirtualCluster, one: Stage, name: str, sight: str) -> Stage:
    """Another namespace that shares a stage's nodes and Lease."""
    cluster.namespace(name)
    made = Stage(cluster, name, cluster.confine(name, one.lease.namespace) if sight == "own" else None)
    made.pool, made.lease = one.pool, one.lease
    return made


@pytest.mark.parametrize("sight", SIGHTS)
def test_room_of_pods_that_a_slow_controller_has_not_made_yet(sight: str) -> None:
    # As Kubernetes sets it where nobody sets anything: about 20 pods in a second.
    cluster = VirtualCluster(Pace(pod=0.05))
    with cluster.runs():
        one, other = two_stages(cluster, sight, cpu="150", pods="500")
        large = one.submit("large", one.job("large", 150))
        other.submit("small", other.job("small", 50))
        one.run(lease_wait=PATIENCE)
        wait_until("the first pods", lambda: one.pods() or None)
        result = other.run(lease_wait=PATIENCE)
        assert len(one.pods()) < 150, "too late: the pods are there"
        assert one.phase("large") == "dispatched"
        assert other.phase("small") == "queued", [item.line() for item in result.decisions]
        one.run_until({"large": "running"})
        assert len([item for item in one.pods() if is_bound(item)]) == 150
        other.run(lease_wait=PATIENCE)
        assert other.phase("small") == "queued"
        assert given_twice(cluster) == []
        delete(one.client, one.cluster.path(large.raw))
        other.run_until({"small": "running"}, lease_wait=PATIENCE)


@pytest.mark.parametrize("sight", SIGHTS)
def test_room_of_pods_that_nobody_has_made_yet(cluster: VirtualCluster, sight: str) -> None:
    one, two = two_stages(cluster, sight, cpu="8")
    first = one.submit("first", one.podless_job("first", 4))
    two.submit("fits", two.job("fits", 4))
    two.submit("waits", two.job("waits", 4), priority=-1)
    one.run(lease_wait=PATIENCE)
    assert one.phase("first") == "dispatched"
    two.run_until({"fits": "running", "waits": "queued"})
    # Another start of the second namespace, and other holders, must not make the first one's room forgotten.
    for _number in range(2):
        one.run(lease_wait=PATIENCE)
        result = two.run(lease_wait=PATIENCE)
        assert told(result, "waits").action == "wait"
    for number in range(4):
        one.gang_pod(first, f"first-{number}", "first", f"{one.pool}-n0")
    one.run_until({"first": "running"})
    two.run(lease_wait=PATIENCE)
    assert two.phase("waits") == "queued"
    assert given_twice(cluster) == []
    delete(one.client, one.cluster.path(first.raw))
    # No controller made these, so nobody takes them away.
    for item in one.pods():
        delete(one.client, one.cluster.path(item))
    wait_gone("the pods", one.pods)
    two.run_until({"waits": "running"})


def lists(body: bytes, record: Record) -> bool:
    """Whether a Lease has an entry about a gang."""
    annotations = json.loads(body)["metadata"].get("annotations") or {}
    batch = read_batch(annotations.get(BATCH_ANNOTATION)).batch
    return batch is not None and any(entry.uid == record.uid for entry in batch.entries)


def kill_after_commit(proxy: VirtualProxy, record: Record, point: str) -> None:
    """Kill a dispatcher when it has committed the start of a gang, or when it is about to write its record."""
    committed: list[str] = []

    def look() -> None:
        """At the request that is under way."""
        request = proxy.requests[-1]
        if request.path.endswith(f"/leases/dispatch-{record.namespace}") and lists(request.body, record):
            committed.append(request.path)
            if point == "commit":
                proxy.kill(when="after")
        elif committed and request.path.endswith(f"/configmaps/{record.name}"):
            proxy.kill(when="before")

    proxy.interrupt(look, method="PUT", times=None)


@pytest.mark.parametrize("point", ["commit", "record"])
def test_entry_of_a_namespace_that_one_may_not_read(cluster: VirtualCluster, proxy: VirtualProxy, point: str) -> None:
    one, two = two_stages(cluster, "own", cpu="8")
    record = one.submit("first", one.job("first", 4))
    one.ensure_lease()
    kill_after_commit(proxy, record, point)
    victim = Stage(cluster, one.namespace, str(proxy.kubeconfig))
    with pytest.raises(Killed):
        victim.run()
    assert one.pods() == []
    two.submit("fits", two.job("fits", 4))
    two.submit("waits", two.job("waits", 4), priority=-1)
    # The room of the open entry is left alone, all other room is not.
    two.run_until({"fits": "running", "waits": "queued"}, lease_wait=PATIENCE)
    # A gang that runs there is looked after and undone too.
    two.edit("fits", suspended=True)
    two.run_until({"fits": "suspended"}, lease_wait=PATIENCE)
    one.run_until({"first": "running"}, lease_wait=PATIENCE)


def test_new_lease_of_somebody_who_may_not_read_other_namespaces(cluster: VirtualCluster) -> None:
    one, two = two_stages(cluster, "own", cpu="8")
    two.submit("mine", two.job("mine", 1))
    with two.without_lease():
        result = two.run(lease_wait=PATIENCE)
        assert told(result, "mine").reason == "new_lease"
        assert any(
            "is new, and what was promised in other namespaces cannot be seen" in item for item in result.warnings
        )
        assert two.pods() == []
        # Somebody who sees everything has looked, and found nothing that is under way.
        one.run(lease_wait=PATIENCE)
        two.run_until({"mine": "running"}, lease_wait=PATIENCE)


def fail_pod(cluster: VirtualCluster, pod: Object) -> None:
    """Have a pod end with an error, after which its Job waits before it makes another one."""
    cluster.controllers.finish(pod["metadata"]["namespace"], pod["metadata"]["name"], exit_code=1)


def living(stage: Stage) -> list[Object]:
    """Pods that have not ended."""
    return [item for item in stage.pods() if item["status"].get("phase") not in ("Succeeded", "Failed")]


def test_jobs_that_wait_between_two_tries_stop_nobody(cluster: VirtualCluster, stage: Stage) -> None:
    gangs = 30
    wanted = {}
    for number in range(gangs):
        name = f"tries-{number}"
        work = stage.job(name, backoff_limit=100)
        work["spec"]["template"]["spec"]["containers"][0]["args"] = [name]
        stage.submit(name, work)
        wanted[name] = "running"
    stage.run_until(wanted)
    wait_until(
        "all pods to run",
        lambda: [item["status"]["phase"] for item in living(stage)] == ["Running"] * gangs,
    )
    for pod in living(stage):
        fail_pod(cluster, pod)
    assert not living(stage)
    stage.submit("new", stage.job("new"))
    result = stage.run()
    others = [item for item in living(stage) if not item["metadata"]["name"].startswith("new")]
    assert not others, "the Jobs did not wait long enough"
    decision = told(result, "new")
    assert decision.action == "start", decision.line()
    assert [stage.phase(name) for name in wanted] == ["running"] * gangs


# Who else changes things.


@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_record_that_is_deleted_and_stays_for_a_finalizer(stage: Stage, phase: str) -> None:
    work = stage.podless_job("work") if phase == "dispatched" else stage.job("work")
    record = stage.submit("held", work)
    path = stage.cluster.path(record.raw)
    patch(stage.client, path, {"metadata": {"finalizers": [FINALIZER]}}, patch_type="merge")
    ordinary = submit_ordinary(stage, 2)
    stage.run_until({"held": phase, **ordinary})
    try:
        delete(stage.client, path)
        stage.run_for(lambda _phases: stage.find(work) is None and not stage.pods(f"{GANG_LABEL}={record.uid}"))
        assert stage.find(work) is None
        assert not stage.pods(f"{GANG_LABEL}={record.uid}")
        # It is not started again, and it stays as long as whoever set the finalizer wants it.
        stage.run()
        assert stage.find(work) is None
        assert stage.raw("held") is not None
    finally:
        patch(stage.client, path, {"metadata": {"finalizers": None}}, patch_type="merge")
    wait_gone("the record", lambda: stage.raw("held"))
    stage.run()
    assert {name: stage.phase(name) for name in ordinary} == ordinary


# States, tickets and objects that somebody forged or broke.


# States, tickets and objects that somebody forged or broke.


def forge(stage: Stage, name: str, **changes: t.Any) -> None:
    """Write a state into a record, as everybody can who may edit it."""
    transitions = [["queued", "2026-01-01T00:00:00Z", "Submitted", ""]]
    state = {"format": 1, "phase": "queued", "attempt": 1, "write_id": "x/y.1/1", "transitions": transitions, **changes}
    stage.annotate(name, **{STATE_ANNOTATION: json.dumps(state)})


def test_forged_states_hold_nobody_up(stage: Stage) -> None:
    far_away = "9999-12-31T23:59:59Z"
    forged: list[dict[str, t.Any]] = [
        {"verdict": {"layers": [1]}},
        {"verdict": {"layers": [{"layer": [], "totals": {"cpu": 1}}]}},
        {"phase": "undoing", "transitions": [["undoing", far_away, "\ud800", "\ud800"]]},
        {"phase": "dispatched", "started_at": far_away},
        {"phase": "running", "transitions": [["running", far_away, "", ""]]},
    ]
    for number, changes in enumerate(forged):
        stage.submit(f"forged-{number}", stage.job(f"forged-{number}", 1000), priority=5)
        forge(stage, f"forged-{number}", **changes)
    stage.run_until(submit_ordinary(stage, 3))


@pytest.mark.parametrize("status", [429, 401])
def test_run_goes_on_after_a_server_that_answers_nobody(stage: Stage, proxy: VirtualProxy, status: int) -> None:
    through = Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig))
    ordinary = submit_ordinary(stage, 2)
    proxy.fail(status=status, method="GET", path="/api/v1/(pods|nodes)$", times=30)
    result = through.run_until(ordinary)
    assert any(str(status) in warning for warning in result.warnings), result.warnings


def test_edited_gang_with_objects_that_the_dispatcher_may_not_see(stage: Stage, proxy: VirtualProxy) -> None:
    services = [service(f"part-{number}") for number in range(40)]
    stage.submit("edited", *services, stage.job("edited"))
    ordinary = submit_ordinary(stage, 2)
    stage.run_until({"edited": "running", "plain-0": "running"})
    stage.edit("edited", objects=[stage.job("edited")])
    through = Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig))
    proxy.fail(status=403, method="GET", path="/services", times=None)
    proxy.forget()
    stage.submit("later", stage.job("later"))
    through.run_until({"later": "running", "edited": "running", **ordinary})
    asked = [item for item in proxy.requests if "/services/" in item.path]
    assert not asked


def test_member_that_ended_is_not_started_again_when_the_state_is_lost(stage: Stage) -> None:
    done = stage.job("done", seconds=1)
    done["spec"]["ttlSecondsAfterFinished"] = 10
    stage.submit("lost", done, stage.job("long"))
    ordinary = submit_ordinary(stage, 1)
    stage.run_until({"lost": "running", **ordinary})
    stage.run_for(lambda _phases: bool(stage.state("lost").outcomes))
    first = stage.find(done)
    assert first is not None
    wait_gone("the Job that has ended", lambda: stage.find(done))
    stage.annotate("lost", **{STATE_ANNOTATION: None})
    stage.run_until({"lost": "failed", **ordinary})
    assert [item.reason for item in stage.state("lost").transitions if item.phase == "undoing"] == ["OutcomeUnknown"]
    assert stage.find(done) is None


def test_record_that_is_changed_all_the_time_holds_nobody_up(stage: Stage, proxy: VirtualProxy) -> None:
    through = Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig))
    stage.submit("restless", stage.job("restless", 2, cpu="8"), priority=5)
    ordinary = submit_ordinary(stage, 2, cpu="8")
    numbers = itertools.count()

    def change() -> None:
        """Somebody writes notes into the record, always a moment earlier."""
        stage.annotate("restless", **{"example.com/note": str(next(numbers))})

    proxy.interrupt(change, method="PUT", path="/configmaps/restless$", times=None)
    through.run_until(ordinary)
    assert next(numbers) > 1
