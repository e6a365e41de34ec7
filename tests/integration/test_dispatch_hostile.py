# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs, webhooks, policies, rights and users that could hold a dispatcher up, deceive it, or make it give room twice.

Ordinary gangs are beside each of them: they must start, be looked after and be undone as if they were alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import pathlib
import threading
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.state import STATE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import GANG_LABEL
from ansible_collections.muster.kube.tests.support.accounts import tenant_kubeconfig
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told, wait_gone
from ansible_collections.muster.kube.tests.support.fault_points import Fault, FaultPoints, Write
from ansible_collections.muster.kube.tests.support.gang_cases import service
from ansible_collections.muster.kube.tests.support.invariants import Recorder
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, is_bound, wait_until
from ansible_collections.muster.kube.tests.support.webhook_server import (
    Behavior,
    Hook,
    WebhookServer,
    allow,
    down,
    slow,
    strip,
    update_denied,
)

Object = dict[str, t.Any]
OpenStage = t.Callable[..., Stage]

READY_BEFORE_NEXT = "muster.kube/ready-before-next"
FINALIZER = "example.com/stays"
HOSTILE = {"example.com/hostile": "true"}
# Never reached when things work.
PATIENCE = 120.0
# Long enough for a create that takes a few seconds.
LONG_LEASE = 15.0
# Time in which requests are counted, and how often a dispatcher that backs off may look more often than one at rest.
WINDOW = 12.0
MORE_CYCLES = 4
# From then on a dispatcher must have noticed that trying again does not help.
WINDOWS = 3
SIGHTS = ("all", "own")
NUMBERS = itertools.count()


@pytest.fixture
def open_stage(request: pytest.FixtureRequest) -> t.Iterator[OpenStage]:
    """Opens stages in clusters; all of one test share the first one's nodes and Lease."""
    opened: list[Stage] = []
    letters = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower().removeprefix("test_"))

    def open_one(cluster: LiveCluster, kubeconfig: t.Callable[[str, str], str] | None = None) -> Stage:
        name = cluster.namespace(f"h{next(NUMBERS)}-{letters[:35].strip('-')}")
        lease_namespace = opened[0].lease.namespace if opened else "default"
        made = Stage(cluster, name, kubeconfig(name, lease_namespace) if kubeconfig else None)
        if opened:
            made.pool, made.lease = opened[0].pool, opened[0].lease
        opened.append(made)
        return made

    yield open_one
    for stage in opened:
        stage.close()
        with contextlib.suppress(NotFound):
            stage.cluster.clear_namespace(stage.namespace)


@pytest.fixture
def stage(open_stage: OpenStage, cluster: LiveCluster) -> Stage:
    """A namespace with room for all gangs of a test."""
    made = open_stage(cluster)
    made.add_nodes(2, cpu="32")
    return made


@pytest.fixture
def webhooks(cluster: LiveCluster, tmp_path: pathlib.Path) -> t.Iterator[WebhookServer]:
    """A server of webhooks."""
    with WebhookServer(cluster.client, tmp_path) as running:
        yield running


def dispatcher(stage: Stage, directory: pathlib.Path, kubeconfig: t.Any = None, **settings: t.Any) -> DispatchProcess:
    """A dispatcher of the stage's namespace in a process of its own, so that one that hangs can be ended."""
    orders = Orders(
        str(kubeconfig or stage.cluster.kubeconfig),
        stage.lease.namespace,
        (stage.namespace,),
        lease_name=stage.lease.name,
        duration=10 * PATIENCE,
        tell_cycles=True,
        **settings,
    )
    return DispatchProcess(orders, directory / "dispatcher.log")


def submit_ordinary(stage: Stage, count: int, stem: str = "plain", **job: t.Any) -> dict[str, str]:
    """Queue gangs of one Job; their names with the phase they shall reach."""
    names = [f"{stem}-{number}" for number in range(count)]
    for name in names:
        stage.submit(name, stage.job(name, **job))
    return dict.fromkeys(names, "running")


def wait_for_phases(stage: Stage, wanted: t.Mapping[str, str], seconds: float = PATIENCE) -> None:
    """Wait until gangs are in these phases; a failure says in which they are."""
    end = time.monotonic() + seconds
    while (seen := {name: stage.phase(name) for name in wanted}) != dict(wanted):
        assert time.monotonic() < end, f"{seen} instead of {dict(wanted)}"
        time.sleep(0.1)


def waiting_service(name: str) -> Object:
    """An object that must be ready before the next one is created; only the test makes it ready."""
    made = service(name)
    made["metadata"]["annotations"] = {READY_BEFORE_NEXT: "Ready=True"}
    return made


def make_ready(stage: Stage, name: str) -> None:
    """Give a Service the condition that is waited for."""
    path = resource_path("v1", "services", stage.namespace, name, "status")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now}
    patch(stage.client, path, {"status": {"conditions": [condition]}}, patch_type="merge")


# One gang that does not come along.


def test_gang_that_waits_for_an_object_holds_nobody_up(stage: Stage, tmp_path: pathlib.Path) -> None:
    rest = stage.job("rest")
    stage.submit("waiter", waiting_service("first"), rest)
    with dispatcher(stage, tmp_path):
        wait_until("the first object", lambda: stage.find(service("first")), PATIENCE)
        ordinary = submit_ordinary(stage, 5)
        wait_for_phases(stage, ordinary)
        assert stage.phase("waiter") == "dispatching"
        assert stage.find(rest) is None
        # Others are looked after and undone meanwhile too.
        stage.edit("plain-0", suspended=True)
        wait_for_phases(stage, {"plain-0": "suspended"})
        assert stage.phase("waiter") == "dispatching"
        make_ready(stage, "first")
        wait_for_phases(stage, {"waiter": "running"})
    assert stage.state("waiter").attempt == 1


def test_gangs_that_wait_for_objects_do_not_use_up_all_hands(stage: Stage, tmp_path: pathlib.Path) -> None:
    waiters = [f"waiter-{number}" for number in range(12)]
    for name in waiters:
        stage.submit(name, waiting_service(name), stage.job(name))
    with dispatcher(stage, tmp_path):
        wait_until(
            "all first objects", lambda: all(stage.find(service(name)) is not None for name in waiters), PATIENCE
        )
        wait_for_phases(stage, submit_ordinary(stage, 5))
        parallel([lambda name=name: make_ready(stage, name) for name in waiters])
        wait_for_phases(stage, dict.fromkeys(waiters, "running"))


def test_slow_webhooks_of_two_gangs_hold_nobody_up(
    stage: Stage, webhooks: WebhookServer, tmp_path: pathlib.Path
) -> None:
    def submit_slow(name: str, *, dry_run: bool) -> Hook:
        """A gang of six objects; a webhook takes long for each of them, or, with dry_run, for its dry run too."""
        labels = {f"example.com/{name}": "true"}
        jobs = [stage.job(f"{name}-{number}") for number in range(6)]
        for obj in jobs:
            obj["metadata"]["labels"] = labels
        stage.submit(name, *jobs)
        return webhooks.register(
            "validating", stage.namespace, stage.job("probe"), slow(4.0, dry_run=dry_run), labels=labels
        )

    creates, both = submit_slow("creates", dry_run=False), submit_slow("both", dry_run=True)
    with dispatcher(stage, tmp_path, lease_seconds=LONG_LEASE):
        wait_until("the webhook of dry runs to be asked", both.asked, PATIENCE)
        wait_until("the other webhook to be asked", lambda: creates.asked(dry_run=False), PATIENCE)
        wait_for_phases(stage, submit_ordinary(stage, 5))
        asked = [len(hook.asked(dry_run=False)) for hook in (creates, both)]
        assert max(asked) < 6, "the others were started after the slow gangs"
        creates.behavior = both.behavior = allow
        wait_for_phases(stage, {"creates": "running", "both": "running"})


def test_webhooks_down_after_the_dry_run(stage: Stage, webhooks: WebhookServer, tmp_path: pathlib.Path) -> None:
    def submit_half(name: str, status: int | None) -> Hook:
        """A gang whose second object is refused after the first was created; without a status there is no answer."""
        labels = {f"example.com/{name}": "true"}
        second = service(name)
        second["metadata"]["labels"] = labels
        stage.submit(name, stage.job(name, 2), second)
        return webhooks.register("validating", stage.namespace, service("probe"), down(status), labels=labels)

    hooks = {"error": submit_half("error", 500), "silent": submit_half("silent", None)}
    ordinary = submit_ordinary(stage, 2)
    expected = [f"{stage.namespace}/{name}" for name in (*hooks, *ordinary)]
    with Recorder(stage.cluster, [stage.namespace], expected=expected) as recorder:
        with dispatcher(stage, tmp_path, start_timeout=5.0):
            wait_for_phases(stage, ordinary)
            for name, hook in hooks.items():
                wait_until("the gang to be undone", lambda name=name: stage.record(name).attempt >= 2, PATIENCE)
                assert hook.asked(dry_run=False)
                assert stage.state(name).lost_races == 0
                undone = [item for item in stage.state(name).transitions if item.phase == "queued"]
                assert undone, stage.state(name).transitions
                hook.behavior = allow
            wait_for_phases(stage, {**dict.fromkeys(hooks, "running"), **ordinary}, 2 * PATIENCE)
        findings = recorder.settled(seconds=30.0)
    # The recorder looks at the very moment at which they were called queued again: nothing of them was left.
    assert findings.clean(), str(findings)


# What must not become a hot loop.


@dataclasses.dataclass(frozen=True)
class Effort:
    """What a dispatcher did in a window of time."""

    cycles: int
    requests: int


def effort(process: DispatchProcess, proxy: ApiProxy) -> Effort:
    """Count what a dispatcher does in one window; nothing changes meanwhile but what it does itself."""
    before = process.cycles, len(proxy.requests)
    time.sleep(WINDOW)
    return Effort(process.cycles - before[0], len(proxy.requests) - before[1])


def require_calm(stuck: Effort, calm: Effort, gangs: int) -> None:
    """Each stuck gang may cost a few cycles more, and besides them one request a second."""
    more = max(0, stuck.cycles - calm.cycles)
    assert more <= gangs * MORE_CYCLES, (stuck, calm)
    each = calm.requests / max(1, calm.cycles)
    assert stuck.requests <= calm.requests + more * each + gangs * WINDOW, (stuck, calm)


def test_gangs_that_are_stuck_are_no_hot_loop(stage: Stage, proxy: ApiProxy, tmp_path: pathlib.Path) -> None:
    held = stage.job("held")
    held["metadata"]["finalizers"] = [FINALIZER]
    stage.submit("held", held)
    stage.submit("waits", waiting_service("waits"), stage.job("waits"))
    # This one comes first, and ordinary ones do not fit beside it, but its record may not be written.
    stage.submit("denied", stage.job("denied", 2, cpu="28"), priority=1)
    ordinary = submit_ordinary(stage, 2, cpu="28")
    with contextlib.ExitStack() as ends:
        ends.callback(release, stage, "held")
        policy = ends.enter_context(contextlib.ExitStack())
        policy.enter_context(update_denied(stage.client, stage.namespace, "denied"))
        process = ends.enter_context(dispatcher(stage, tmp_path, proxy.kubeconfig))
        wait_for_phases(stage, {"held": "running", "waits": "dispatching", "denied": "queued", **ordinary})
        assert stage.find(stage.job("denied")) is None
        stage.edit("held", suspended=True)
        wait_for_phases(stage, {"held": "undoing"})
        # Others are started and undone meanwhile.
        submit_ordinary(stage, 1, "later")
        stage.edit("plain-0", suspended=True)
        wait_for_phases(stage, {"plain-0": "suspended", "plain-1": "running", "later-0": "running"})
        seen = [effort(process, proxy) for _number in range(WINDOWS)]
        assert [stage.phase(name) for name in ("held", "waits", "denied")] == ["undoing", "dispatching", "queued"]
        # Nothing is lost: each goes on when it can.
        release(stage, "held")
        make_ready(stage, "waits")
        delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "plain-1"))
        wait_for_phases(stage, {"held": "suspended", "waits": "running"})
        policy.close()
        wait_for_phases(stage, {"denied": "running"})
        calm = effort(process, proxy)
    require_calm(seen[-1], calm, 3)


def release(stage: Stage, name: str) -> None:
    """Take the finalizers of a Job away."""
    path = resource_path("batch/v1", "jobs", stage.namespace, name)
    with contextlib.suppress(NotFound):
        patch(stage.client, path, {"metadata": {"finalizers": None}}, patch_type="merge")


# Room that is given once, whoever gives it.


def two_stages(
    open_stage: OpenStage, cluster: LiveCluster, directory: pathlib.Path, sight: str, **amounts: str
) -> tuple[Stage, Stage]:
    """Two namespaces over one node, under one Lease; the second's dispatcher may see all, or only its own records."""
    one = open_stage(cluster)
    one.add_nodes(1, **amounts)
    return one, open_stage(cluster, tenants(cluster, directory) if sight == "own" else None)


def tenants(cluster: LiveCluster, directory: pathlib.Path) -> t.Callable[[str, str], str]:
    """Gives the kubeconfig of somebody who sees records of one namespace only."""

    def kubeconfig(namespace: str, lease_namespace: str) -> str:
        """The namespace, and that of the Lease."""
        return tenant_kubeconfig(cluster, namespace, lease_namespace, directory)

    return kubeconfig


def test_room_of_pods_that_a_stock_controller_has_not_made_yet(
    open_stage: OpenStage, stock_cluster: LiveCluster, tmp_path: pathlib.Path
) -> None:
    one, sees_all = two_stages(open_stage, stock_cluster, tmp_path, "all", cpu="150", pods="500")
    sees_own = open_stage(stock_cluster, tenants(stock_cluster, tmp_path))
    # So many that the controller, which makes about 20 in a second, can be stopped before the last one is made.
    large = one.submit("large", one.job("large", 150))
    others = [sees_all, sees_own]
    for stage in others:
        stage.submit("small", stage.job("small", 50))
    namespaces = [stage.namespace for stage in (one, *others)]
    expected = [f"{one.namespace}/large", *(f"{stage.namespace}/small" for stage in others)]
    with Recorder(stock_cluster, namespaces, expected=expected) as recorder:
        one.run(lease_wait=PATIENCE)
        wait_until("the first pods", lambda: one.pods() or None)
        with stock_cluster.paused("kube-controller-manager"):
            results = [stage.run(lease_wait=PATIENCE) for stage in others]
            assert len(one.pods()) < 150, "too late: the pods are there"
        assert one.phase("large") == "dispatched"
        for stage, result in zip(others, results, strict=True):
            assert stage.phase("small") == "queued", [item.line() for item in result.decisions]
        one.run_until({"large": "running"})
        assert len([item for item in one.pods() if is_bound(item)]) == 150
        findings = recorder.settled(seconds=30.0)
        assert findings.clean(), str(findings)
    delete(one.client, one.cluster.path(large.raw))
    for stage in others:
        stage.run_until({"small": "running"}, lease_wait=PATIENCE)


@pytest.mark.parametrize("sight", SIGHTS)
def test_room_of_pods_that_nobody_has_made_yet(
    open_stage: OpenStage, cluster: LiveCluster, tmp_path: pathlib.Path, sight: str
) -> None:
    one, two = two_stages(open_stage, cluster, tmp_path, sight, cpu="8")
    first = one.submit("first", one.podless_job("first", 4))
    two.submit("fits", two.job("fits", 4))
    two.submit("waits", two.job("waits", 4), priority=-1)
    with Recorder(cluster, [one.namespace, two.namespace]) as recorder:
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
        findings = recorder.report()
        assert not findings.room_twice, str(findings)
    delete(one.client, one.cluster.path(first.raw))
    # No controller made these, so nobody takes them away.
    for item in one.pods():
        delete(one.client, one.cluster.path(item))
    wait_gone("the pods", one.pods)
    two.run_until({"waits": "running"})


def kill_after_commit(points: FaultPoints, record: Record, point: str) -> Fault:
    """Kill a dispatcher when it has committed the start of a gang, or when it is about to write its record."""
    fault = Fault(signal="kill", when="after" if point == "commit" else "before")
    committed: list[Write] = []

    def choose(write: Write) -> Fault | None:
        commits = write.label.startswith("PUT leases") and record.uid.encode() in write.body
        writes = bool(committed) and write.label == f"PUT configmaps/{record.name}"
        if commits:
            committed.append(write)
        return fault if (commits if point == "commit" else writes) and fault.write is None else None

    points.at_each(choose)
    return fault


@pytest.mark.parametrize("point", ["commit", "record"])
def test_entry_of_a_namespace_that_one_may_not_read(
    open_stage: OpenStage, cluster: LiveCluster, tmp_path: pathlib.Path, point: str
) -> None:
    one, two = two_stages(open_stage, cluster, tmp_path, "own", cpu="8")
    record = one.submit("first", one.job("first", 4))
    with FaultPoints(cluster.kubeconfig, tmp_path) as points:
        fault = kill_after_commit(points, record, point)
        with dispatcher(one, tmp_path, points.kubeconfig) as process:
            points.process = process
            fault.reached()
            assert not process.alive
    assert one.pods() == []
    two.submit("fits", two.job("fits", 4))
    two.submit("waits", two.job("waits", 4), priority=-1)
    # The room of the open entry is left alone, all other room is not.
    two.run_until({"fits": "running", "waits": "queued"}, lease_wait=PATIENCE)
    # A gang that runs there is looked after and undone too.
    two.edit("fits", suspended=True)
    two.run_until({"fits": "suspended"}, lease_wait=PATIENCE)
    one.run_until({"first": "running"}, lease_wait=PATIENCE)


def test_new_lease_of_somebody_who_may_not_read_other_namespaces(
    open_stage: OpenStage, cluster: LiveCluster, tmp_path: pathlib.Path
) -> None:
    one, two = two_stages(open_stage, cluster, tmp_path, "own", cpu="8")
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


def fail_pod(stage: Stage, pod: Object) -> None:
    """Have a pod end with an error, after which its Job waits before it makes another one."""
    path = resource_path("v1", "pods", stage.namespace, pod["metadata"]["name"])
    notes = {"muster.kube/run-seconds": "0", "muster.kube/exit-code": "1"}
    patch(stage.client, path, {"metadata": {"annotations": notes}}, patch_type="merge")


def living(stage: Stage) -> list[Object]:
    """Pods that have not ended."""
    return [item for item in stage.pods() if item["status"].get("phase") not in ("Succeeded", "Failed")]


def test_jobs_that_wait_between_two_tries_stop_nobody(stage: Stage) -> None:
    gangs = 30
    wanted = {}
    for number in range(gangs):
        name = f"tries-{number}"
        work = stage.job(name, backoff_limit=100)
        work["spec"]["template"]["spec"]["containers"][0]["args"] = [name]
        stage.submit(name, work)
        wanted[name] = "running"
    stage.run_until(wanted)
    # Each round doubles the time for which the Jobs wait, so a busy machine gets more of it.
    for number in range(4):
        wait_until("all pods", lambda: len(living(stage)) == gangs or None, 2 * PATIENCE)
        parallel([lambda pod=pod: fail_pod(stage, pod) for pod in living(stage)])
        wait_until("all pods to fail", lambda: not living(stage), PATIENCE)
        stage.submit(f"new-{number}", stage.job(f"new-{number}"))
        result = stage.run()
        others = [item for item in living(stage) if not item["metadata"]["name"].startswith("new-")]
        if not others:
            break
        delete(stage.client, resource_path("v1", "configmaps", stage.namespace, f"new-{number}"))
        wait_gone("the new gang", lambda number=number: stage.raw(f"new-{number}"))
    assert not others, "the Jobs never waited long enough"
    decision = told(result, f"new-{number}")
    assert decision.action == "start", decision.line()
    assert [stage.phase(name) for name in wanted] == ["running"] * gangs


# Who else changes things.


@pytest.mark.parametrize(
    ("behavior", "word"), [(strip(owners=True), "owner"), (strip(labels=True), "label")], ids=["owners", "labels"]
)
def test_webhook_that_strips_what_objects_are_known_by(
    stage: Stage, webhooks: WebhookServer, behavior: Behavior, word: str
) -> None:
    jobs = [stage.job(f"strange-{number}") for number in range(2)]
    jobs[1]["metadata"]["labels"] = HOSTILE
    hook = webhooks.register("mutating", stage.namespace, stage.job("probe"), behavior, labels=HOSTILE)
    record = stage.submit("strange", *jobs)
    ordinary = submit_ordinary(stage, 3)
    stage.run_until({"strange": "failed", **ordinary})
    assert hook.asked(dry_run=False)
    message = stage.state("strange").transitions[-1].message
    assert "strange-1" in message, message
    assert word in message.lower(), message
    wait_gone("all objects", lambda: [obj for obj in jobs if stage.find(obj) is not None])
    wait_gone("all pods", lambda: stage.pods(f"{GANG_LABEL}={record.uid}"))
    assert {name: stage.state(name).attempt for name in ordinary} == dict.fromkeys(ordinary, 1)


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


def test_gang_that_a_quota_refuses_leaves_its_room_to_others(open_stage: OpenStage, cluster: LiveCluster) -> None:
    one, two = open_stage(cluster), open_stage(cluster)
    one.add_nodes(1, cpu="8")
    quota = {"name": "no-jobs", "namespace": one.namespace}
    cluster.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": quota, "spec": {"hard": {"count/jobs.batch": "0"}}}
    )
    path = resource_path("v1", "resourcequotas", one.namespace, "no-jobs")
    wait_until("the quota", lambda: (get_object(one.client, path) or {}).get("status", {}).get("hard"), PATIENCE)
    one.submit("refused", one.job("refused", 8), priority=5)
    two.submit("fits", two.job("fits", 8))
    two.run_until({"fits": "running"}, namespaces=(one.namespace, two.namespace))
    assert one.phase("refused") == "queued"
    delete(one.client, path)
    delete(two.client, resource_path("v1", "configmaps", two.namespace, "fits"))
    one.run_until({"refused": "running"}, namespaces=(one.namespace, two.namespace))


@pytest.mark.parametrize("status", [429, 401])
def test_run_goes_on_after_a_server_that_answers_nobody(stage: Stage, proxy: ApiProxy, status: int) -> None:
    through = Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig))
    through.pool, through.lease = stage.pool, stage.lease
    ordinary = submit_ordinary(stage, 2)
    proxy.fail(status=status, method="GET", path="/api/v1/(pods|nodes)$", first=3, times=30)
    result = through.run_until(ordinary)
    assert any(str(status) in warning for warning in result.warnings), result.warnings


def test_edited_gang_with_objects_that_the_dispatcher_may_not_see(stage: Stage, proxy: ApiProxy) -> None:
    services = [service(f"part-{number}") for number in range(40)]
    stage.submit("edited", *services, stage.job("edited"))
    ordinary = submit_ordinary(stage, 2)
    stage.run_until({"edited": "running", "plain-0": "running"})
    stage.edit("edited", objects=[stage.job("edited")])
    through = Stage(stage.cluster, stage.namespace, str(proxy.kubeconfig))
    through.pool, through.lease = stage.pool, stage.lease
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


def test_record_that_is_changed_all_the_time_holds_nobody_up(stage: Stage) -> None:
    stage.submit("restless", stage.job("restless", 2, cpu="32"), priority=5)
    ordinary = submit_ordinary(stage, 2, cpu="32")
    over = threading.Event()

    def change() -> None:
        """Somebody writes notes into the record."""
        for number in itertools.count():
            if over.is_set():
                return
            stage.annotate("restless", **{"example.com/note": str(number)})

    writer = threading.Thread(target=change)
    writer.start()
    try:
        stage.run_until(ordinary)
    finally:
        over.set()
        writer.join()
