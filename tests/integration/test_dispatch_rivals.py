# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several dispatchers at once over gangs that compete for room, and pods of others that take it behind their backs."""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders, run_dispatcher
from ansible_collections.muster.kube.tests.support.fault_points import Fault, FaultPoints
from ansible_collections.muster.kube.tests.support.gang_cases import (
    gang_record,
    job,
    node_pool,
    service,
    thief,
    three_objects,
)
from ansible_collections.muster.kube.tests.support.invariants import Findings, Recorder
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, is_bound, wait_until

Object = dict[str, t.Any]

RIVALS, KILLED = 4, 2
# Robberies at once; more only makes two cores wait for each other.
WIDTH = 4
ALL_GANGS, ALL_SEEDS = 100, 50
# Never reached when things work.
PATIENCE = 600.0


@pytest.fixture
def pool(cluster: LiveCluster, request: pytest.FixtureRequest) -> t.Iterator[t.Callable[..., list[Object]]]:
    """Makes pools of nodes that last as long as the test."""
    made: list[str] = []

    def make(name: str, count: int, **amounts: str) -> list[Object]:
        nodes = node_pool(name, count, **amounts)
        made.extend(node["metadata"]["name"] for node in nodes)
        cluster.add_nodes(nodes)
        return nodes

    yield make
    cluster.remove_nodes(made)


def rival_gang(rng: random.Random, number: int, namespace: str, pool: str) -> Object:
    """A gang of one or two Jobs and perhaps a Service that takes a good part of the pool for a moment."""
    stem = f"r{number}"
    objects = [
        job(f"{stem}-{letter}", pool, rng.randint(1, 3), seconds=rng.choice((0, 1)), cpu=rng.choice(("1", "2")))
        for letter in "ab"[: rng.randint(1, 2)]
    ]
    if rng.random() < 0.5:
        objects.insert(0, service(f"{stem}-s"))
    return gang_record(f"gang-{number:03}", namespace, objects, priority=rng.randint(0, 3))


def test_four_dispatchers_over_gangs_that_compete(
    cluster: LiveCluster,
    namespace: str,
    pool: t.Callable[..., list[Object]],
    tmp_path: pathlib.Path,
    scale: float,
    seed: int,
) -> None:
    # At most 12 cpu for one gang, 16 for all of them: hardly ever two large ones together.
    pool(namespace, 4, cpu="4")
    rng = random.Random(f"{seed}/rivals")
    records = [rival_gang(rng, number, namespace, namespace) for number in range(max(4, round(ALL_GANGS * scale)))]
    expected = [f"{namespace}/{record['metadata']['name']}" for record in records]
    with Recorder(cluster, [namespace], expected=expected) as recorder, contextlib.ExitStack() as stack:
        cluster.create(*records)
        processes = []
        for number in range(RIVALS):
            directory = tmp_path / str(number)
            directory.mkdir()
            proxy = stack.enter_context(FaultPoints(cluster.kubeconfig, directory))
            orders = Orders(
                str(proxy.kubeconfig), namespace, (namespace,), duration=PATIENCE, until=("complete", "failed")
            )
            processes.append(stack.enter_context(DispatchProcess(orders, directory / "log")))
        # The holder is killed, and the next one too, so that others have their turn.
        lease = resource_path("coordination.k8s.io/v1", "leases", namespace, "dispatch")
        for _turn in range(KILLED):
            wait_until("work to be done", lambda: some_are_started(cluster, namespace) or None, PATIENCE)
            victim = holder_of(cluster, lease, processes) or next(process for process in processes if process.alive)
            victim.kill()
        left = [process for process in processes if process.alive]
        wait_until("all to end", lambda: all_ended(left) or is_hopeless(recorder.report()), PATIENCE, 1.0)
        assert all_ended(left), str(recorder.report())
        results = [process.result() for process in left]
        findings = recorder.settled(seconds=30.0)
    assert findings.clean(), str(findings)
    assert findings.phases == dict.fromkeys(expected, "complete")
    assert findings.gaps == 0
    assert len(left) == RIVALS - KILLED
    assert any(result["cycles"] for result in results)


def all_ended(processes: t.Iterable[DispatchProcess]) -> bool:
    """Whether none of them runs any more."""
    return not any(process.alive for process in processes)


def is_hopeless(findings: Findings) -> bool:
    """Whether something has happened that no waiting can mend."""
    return bool(findings.double_starts or findings.room_twice or findings.foreign)


def some_are_started(cluster: LiveCluster, namespace: str) -> bool:
    """Whether some gang was started at all."""
    return any(is_bound(pod) for pod in cluster.pods(namespace, "muster.kube/gang"))


def holder_of(cluster: LiveCluster, path: str, processes: t.Sequence[DispatchProcess]) -> DispatchProcess | None:
    """The process that holds the Lease now."""
    lease = get_object(cluster.client, path) or {}
    identity = str((lease.get("spec") or {}).get("holderIdentity") or "")
    return next((item for item in processes if item.alive and f"_{item.running.pid}_" in f"{identity}_"), None)


class Robbery:
    """One gang that fits, and a thief who takes part of its room while its first object is on its way."""

    def __init__(self, cluster: LiveCluster, name: str, directory: pathlib.Path, rng: random.Random) -> None:
        self.cluster = cluster
        self.name = name
        self.directory = directory
        self.nodes = rng.randint(1, 3)
        self.pods = rng.randint(1, 2) * self.nodes
        stolen = rng.sample(range(self.nodes), rng.randint(1, self.nodes))
        self.thieves = [thief(f"thief-{number}", name, f"{name}-n{number}", cpu="2") for number in stolen]

    def rob(self) -> None:
        """Take the room."""
        self.cluster.create(*self.thieves)

    def play(self) -> None:
        """Let the robbery happen; returns when the gang was undone."""
        self.directory.mkdir()
        record = gang_record("gang", self.name, three_objects("g", self.name, self.pods, cpu="1"))
        self.cluster.create(record)
        with FaultPoints(self.cluster.kubeconfig, self.directory, leases="none") as points:
            robbed: list[Fault] = []

            def choose(write: t.Any) -> Fault | None:
                if robbed or write.label != "POST services":
                    return None
                robbed.append(Fault(meanwhile=self.rob))
                return robbed[0]

            points.at_each(choose)
            orders = Orders(
                str(points.kubeconfig),
                self.name,
                (self.name,),
                duration=PATIENCE,
                until=("queued",),
                once_seen=("dispatching", "dispatched", "undoing"),
                bind_timeout=1.0,
            )
            with DispatchProcess(orders, self.directory / "log") as process:
                process.result(PATIENCE)
            assert robbed
            assert robbed[0].was_reached

    def give_back(self) -> None:
        """The thieves go, the gang starts whole."""
        for obj in self.thieves:
            delete(self.cluster.client, self.cluster.path(obj), grace_seconds=0)
        run_dispatcher(Orders(self.cluster.kubeconfig, self.name, (self.name,), duration=PATIENCE, until=("running",)))

    def state(self) -> dict[str, t.Any]:
        """The gang's state."""
        record = get_object(self.cluster.client, resource_path("v1", "configmaps", self.name, "gang"))
        assert record is not None
        return t.cast("dict[str, t.Any]", json.loads(record["metadata"]["annotations"]["muster.kube/state"]))


def test_stolen_room(
    cluster: LiveCluster, pool: t.Callable[..., list[Object]], tmp_path: pathlib.Path, scale: float, seed: int
) -> None:
    count = max(3, round(ALL_SEEDS * scale))
    robberies = [
        Robbery(cluster, f"robbed-{number}", tmp_path / str(number), random.Random(f"{seed}/{number}/robbery"))
        for number in range(count)
    ]
    for robbery in robberies:
        pool(robbery.name, robbery.nodes, cpu=str(2 * robbery.pods // robbery.nodes))
        cluster.namespace(robbery.name)
    names = [robbery.name for robbery in robberies]
    with Recorder(cluster, names, expected=[f"{name}/gang" for name in names]) as recorder:
        parallel([robbery.play for robbery in robberies], WIDTH)
        for robbery in robberies:
            state = robbery.state()
            assert (state["phase"], state["attempt"], state["lost_races"]) == ("queued", 2, 1), robbery.name
        findings = recorder.settled(seconds=30.0)
        assert findings.clean(), str(findings)
        assert findings.phases == {f"{name}/gang": "queued" for name in names}
        robberies[0].give_back()
        assert recorder.settled(seconds=30.0).clean()
    assert robberies[0].state()["phase"] == "running"
    for name in names:
        cluster.clear_namespace(name)
