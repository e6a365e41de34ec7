# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs, webhooks, policies, rights and users that could hold a dispatcher up, deceive it, or make it give room twice.

Ordinary gangs are beside each of them: they must start, be looked after and be undone as if they were alone.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.tests.support.accounts import tenant_kubeconfig
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import service, waiting_service
from ansible_collections.muster.kube.tests.support.invariants import Recorder
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
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
FINALIZER = "example.com/stays"
# Never reached when things work.
PATIENCE = 120.0
# Long enough for a create that takes a few seconds.
LONG_LEASE = 15.0
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


def dispatcher(stage: Stage, directory: pathlib.Path, **settings: t.Any) -> DispatchProcess:
    """A dispatcher of the stage's namespace in a process of its own, so that one that hangs can be ended."""
    orders = Orders(
        stage.cluster.kubeconfig,
        stage.lease.namespace,
        (stage.namespace,),
        lease_name=stage.lease.name,
        duration=10 * PATIENCE,
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
    while (seen := {name: phase for name, phase in stage.phases().items() if name in wanted}) != dict(wanted):
        assert time.monotonic() < end, f"{seen} instead of {dict(wanted)}"
        time.sleep(0.2)


def make_ready(stage: Stage, name: str) -> None:
    """Give a Service the condition that is waited for."""
    path = resource_path("v1", "services", stage.namespace, name, "status")
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    condition = {"type": "Ready", "status": "True", "reason": "Test", "message": "", "lastTransitionTime": now}
    patch(stage.client, path, {"status": {"conditions": [condition]}}, patch_type="merge")


# Gangs that do not come along.


def test_slow_gangs_hold_nobody_up(stage: Stage, webhooks: WebhookServer, tmp_path: pathlib.Path) -> None:
    """Two gangs have slow webhooks; more than there are hands wait for an object of theirs to be ready."""

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
    waiters = [f"waiter-{number}" for number in range(12)]
    for name in waiters:
        stage.submit(name, waiting_service(name), stage.job(name))
    with dispatcher(stage, tmp_path, lease_seconds=LONG_LEASE):
        wait_until("the webhook of dry runs to be asked", both.asked, PATIENCE)
        wait_until("the other webhook to be asked", lambda: creates.asked(dry_run=False), PATIENCE)
        wait_until("all first objects", lambda: set(waiters) <= names(stage, "services"), PATIENCE)
        wait_for_phases(stage, submit_ordinary(stage, 5))
        asked = [len(hook.asked(dry_run=False)) for hook in (creates, both)]
        assert max(asked) < 6, "the others were started after the slow gangs"
        phases = stage.phases()
        assert {phases[name] for name in waiters} == {"dispatching"}
        creates.behavior = both.behavior = allow
        parallel([lambda name=name: make_ready(stage, name) for name in waiters])
        wait_for_phases(stage, dict.fromkeys(["creates", "both", *waiters], "running"))


def names(stage: Stage, plural: str) -> set[str]:
    """The names of all objects of a kind of the core group."""
    path = resource_path("v1", plural, stage.namespace)
    return set(list_objects(stage.client, path, keep=lambda raw: raw["metadata"]["name"]).items)


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
            wait_for_phases(stage, {**dict.fromkeys(hooks, "queued"), **ordinary})
        findings = recorder.settled(seconds=30.0)
    # The recorder looks at the very moment at which they were called queued again: nothing of them was left.
    assert findings.clean(), str(findings)


def test_gangs_that_are_stuck_hold_nobody_up(stage: Stage, tmp_path: pathlib.Path) -> None:
    held = stage.job("held")
    held["metadata"]["finalizers"] = [FINALIZER]
    stage.submit("held", held)
    # This one comes first, and ordinary ones do not fit beside it, but its record may not be written.
    stage.submit("denied", stage.job("denied", 2, cpu="28"), priority=1)
    ordinary = submit_ordinary(stage, 2, cpu="28")
    with contextlib.ExitStack() as ends:
        ends.callback(release, stage, "held")
        policy = ends.enter_context(contextlib.ExitStack())
        policy.enter_context(update_denied(stage.client, stage.namespace, "denied"))
        ends.enter_context(dispatcher(stage, tmp_path))
        wait_for_phases(stage, {"held": "running", "denied": "queued", **ordinary})
        assert stage.find(stage.job("denied")) is None
        stage.edit("held", suspended=True)
        wait_for_phases(stage, {"held": "undoing"})
        # Others are started and undone meanwhile.
        submit_ordinary(stage, 1, "later")
        stage.edit("plain-0", suspended=True)
        wait_for_phases(stage, {"plain-0": "suspended", "plain-1": "running", "later-0": "running"})
        assert [stage.phase(name) for name in ("held", "denied")] == ["undoing", "queued"]
        # Nothing is lost: each goes on when it can.
        release(stage, "held")
        delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "plain-1"))
        policy.close()
        wait_for_phases(stage, {"held": "suspended", "denied": "running"})


def release(stage: Stage, name: str) -> None:
    """Take the finalizers of a Job away."""
    path = resource_path("batch/v1", "jobs", stage.namespace, name)
    with contextlib.suppress(NotFound):
        patch(stage.client, path, {"metadata": {"finalizers": None}}, patch_type="merge")


# Room that is given once, whoever gives it.


def tenants(cluster: LiveCluster, directory: pathlib.Path) -> t.Callable[[str, str], str]:
    """Gives the kubeconfig of somebody who sees records of one namespace only."""

    def kubeconfig(namespace: str, lease_namespace: str) -> str:
        """The namespace, and that of the Lease."""
        return tenant_kubeconfig(cluster, namespace, lease_namespace, directory)

    return kubeconfig


def test_room_of_pods_that_nobody_has_made_yet(
    open_stage: OpenStage, cluster: LiveCluster, tmp_path: pathlib.Path
) -> None:
    one = open_stage(cluster)
    one.add_nodes(1, cpu="8")
    # Its dispatcher sees its own records only.
    two = open_stage(cluster, tenants(cluster, tmp_path))
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


# Who else changes things.


def test_webhook_that_strips_what_objects_are_known_by(stage: Stage, webhooks: WebhookServer) -> None:
    def submit_strange(name: str, behavior: Behavior) -> tuple[Record, list[Object], Hook]:
        """A gang whose second Job loses what it is known by when it is created."""
        labels = {"example.com/strange": name}
        jobs = [stage.job(f"{name}-{number}") for number in range(2)]
        jobs[1]["metadata"]["labels"] = labels
        hook = webhooks.register("mutating", stage.namespace, stage.job("probe"), behavior, labels=labels)
        return stage.submit(name, *jobs), jobs, hook

    strange = {"owner": submit_strange("odd", strip(owners=True)), "label": submit_strange("bare", strip(labels=True))}
    ordinary = submit_ordinary(stage, 3)
    stage.run_until({"odd": "failed", "bare": "failed", **ordinary})
    for word, (record, jobs, hook) in strange.items():
        assert hook.asked(dry_run=False)
        message = stage.state(record.name).transitions[-1].message
        assert f"{record.name}-1" in message, message
        assert word in message.lower(), message
        wait_gone("all objects", lambda jobs=jobs: [obj for obj in jobs if stage.find(obj) is not None])
        wait_gone("all pods", lambda record=record: stage.pods(f"{GANG_LABEL}={record.uid}"))
    assert {name: stage.state(name).attempt for name in ordinary} == dict.fromkeys(ordinary, 1)


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
