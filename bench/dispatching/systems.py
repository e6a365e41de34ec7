# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The systems that are compared: nobody (the floor), Kueue, this collection's dispatcher, and MCAD.

Each gets a fresh cluster of the same configuration, is at work before the first object is created, and sees objects
that the same number of connections creates.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import time
import typing as t
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.muster.kube.bench.dispatching.accounts import Account, Meter, wait_for_rest
from ansible_collections.muster.kube.bench.dispatching.loads import NAMESPACE, BenchGang, Load, Object
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.kueue_objects import (
    build_kueue_objects,
)
from ansible_collections.muster.kube.tests.support.kueue_queue import KUEUE_API, QUEUE_LABEL, kueue_queue
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import build_programs, running_cluster
from ansible_collections.muster.kube.tests.support.wrapper_crd import install_wrapper_crd

HERE = pathlib.Path(__file__).resolve().parent
CONNECTIONS = 16
# Where quota trees are stored.
HOME = "muster-system"
MOST_SECONDS = 3600.0
# What is left to do when all is bound is part of the bill, up to this long after it.
AFTERMATH_SECONDS = 2.0
# Processes that only the bench has.
CLIENTS = ("observer", "creator")

Name = t.Literal["floor", "kueue", "ours", "mcad"]


@dataclasses.dataclass(frozen=True)
class Run:
    """One system under one load: what was seen when, seconds from the first request on, and what it took."""

    system: Name
    load: Load
    seen: t.Mapping[str, t.Sequence[tuple[float, str]]]
    queued: float
    spent: Account
    machine_load: float
    reopened: int
    dispatcher: t.Mapping[str, t.Any] | None = None

    def last(self, kind: str) -> float | None:
        """When the last one of a kind was seen."""
        times = self.seen.get(kind)
        return times[-1][0] if times else None

    @property
    def decided(self) -> float | None:
        """When the last start was decided: our Lease says so, or Kueue's Workload is admitted."""
        return self.last({"ours": "committed", "kueue": "admitted"}.get(self.system, ""))

    @property
    def created(self) -> float | None:
        """When the last object was there; Kueue's are, but must be released to be of use."""
        return self.last("released" if self.system == "kueue" else "created")

    @property
    def finished(self) -> float:
        """When the last of what the load asks for had happened: pods bound, or where there are none, objects made."""
        return t.cast("float", self.created if self.load.podless else self.last("bound"))

    @property
    def core_ms(self) -> float:
        """Milliseconds of a processor for each gang, of all processes of the cluster and the system together."""
        return sum(value for name, value in self.core_ms_by_process.items() if name not in CLIENTS)

    @property
    def core_ms_by_process(self) -> dict[str, float]:
        """The same of each process, those of the bench included."""
        return {name: 1000 * spent / len(self.load.gangs) for name, spent in self.spent.seconds.items()}


class Companion:
    """A program beside the bench: says `ready`, then one line of JSON, and stays until it is let go."""

    def __init__(self, script: str, orders: dict[str, t.Any]) -> None:
        """Remember what to start."""
        self._command = [sys.executable, "-u", str(HERE / script), json.dumps(orders)]

    def __enter__(self) -> Companion:
        """Start it."""
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_ignored: object) -> None:
        """Let it go."""
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until it is at work."""
        self._line()

    def stop(self) -> None:
        """Tell it that this was all."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.poll() is not None

    def result(self, other: Companion | None = None) -> dict[str, t.Any]:
        """What it tells in the end; without the other one, if one is given, it would never come to that."""
        return t.cast("dict[str, t.Any]", json.loads(self._line(other)))

    def _line(self, other: Companion | None = None) -> str:
        """Its next line; nothing is waited for longer than a run may last."""
        end = time.monotonic() + MOST_SECONDS
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(self._process.stdout.readline)
            while not futures.wait([reading], 1.0).done:
                if time.monotonic() > end or (other is not None and other.ended):
                    self._process.kill()
        if not reading.result():
            sys.exit(f"{self._command[2]}: it ended without a word, or was not done after {MOST_SECONDS:.0f} s")
        return reading.result()


def measure(system: Name, load: Load) -> Run:
    """Let one system carry one load in a cluster of its own."""
    operators = () if system in ("floor", "ours") else (system,)
    # The time of a build is nobody's.
    build_programs(*operators)
    with running_cluster(f"bench-{system}-{os.getpid()}", operators=operators) as cluster:
        prepare(cluster, system, load)
        return _measure_in(cluster, system, load)


def prepare(cluster: LiveCluster, system: Name, load: Load) -> None:
    """Give a cluster its nodes, and what the system needs besides."""
    cluster.add_nodes(load.node_objects())
    cluster.namespace(NAMESPACE)
    if system == "kueue":
        _open_queues(cluster, load)
    if system == "ours" and load.wrapped:
        install_wrapper_crd(cluster.client)
    if system == "ours" and load.tree is not None:
        _declare(cluster, load.tree)


def _declare(cluster: LiveCluster, tree: QuotaTree) -> None:
    """Store a tree, as the module does."""
    cluster.namespace(HOME)
    metadata = {"name": f"muster-quota-{tree.name}", "namespace": HOME, "labels": {TREE_LABEL: tree.name}}
    stored = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {TREE_KEY: tree_text(tree)}}
    create(cluster.client, resource_path("v1", "configmaps", HOME), stored)


def _open_queues(cluster: LiveCluster, load: Load) -> None:
    """The queues of a tree, or one queue for all with a quota of all the room."""
    if load.tree is None:
        objects = kueue_queue("queue", NAMESPACE, cpu=load.room)
    else:
        objects = list(build_kueue_objects(load.tree, {NAMESPACE: {}}).objects)
    cluster.create(*objects)
    names = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "LocalQueue"]

    def active(name: str) -> bool:
        path = resource_path(KUEUE_API, "localqueues", NAMESPACE, name)
        conditions = (get_object(cluster.client, path).get("status") or {}).get("conditions") or ()
        return any(item["type"] == "Active" and item["status"] == "True" for item in conditions)

    wait_until("the queues to be active", lambda: all(map(active, names)))


def _measure_in(cluster: LiveCluster, system: Name, load: Load) -> Run:
    """The run itself: everybody is at work, then one clock from the first request on."""
    objects = [queued(system, load, gang) for gang in load.gangs]
    path = cluster.path(objects[0], named=False)
    with contextlib.ExitStack() as stack:
        observer = stack.enter_context(Companion("observer.py", _observer_orders(cluster, system, load)))
        dispatcher = None
        if system == "ours":
            dispatcher = stack.enter_context(Companion("dispatcher.py", dispatcher_orders(cluster, load)))
            dispatcher.wait_ready()
        observer.wait_ready()
        processes = {name: part["pid"] for name, part in cluster.components.items()}
        processes.update(zip(CLIENTS, (observer.pid, os.getpid()), strict=True))
        if dispatcher is not None:
            processes["dispatcher"] = dispatcher.pid
        wait_for_rest(processes)
        meter = Meter(cluster.client, processes)
        start = time.monotonic()
        create_all(cluster, path, objects)
        sent = time.monotonic() - start
        observed = observer.result(dispatcher)
        if not load.podless:
            _wait_running(cluster)
        told = dispatcher.result() if dispatcher is not None else None
        machine_load = os.getloadavg()[0]
        time.sleep(AFTERMATH_SECONDS)
        spent = meter.read()
    if told is not None and not told["done"]:
        sys.exit(f"the dispatcher ended too early: {told['warnings']}")
    seen = {kind: [(moment - start, gang) for moment, gang in times] for kind, times in observed["seen"].items()}
    return Run(system, load, seen, sent, spent, machine_load, observed["reopened"], told)


def queued(system: Name, load: Load, gang: BenchGang) -> Object:
    """What is created for one gang."""
    if load.wrapped:
        return gang.wrapper(load, managed=system == "ours")
    if system == "ours":
        return gang.record(load)
    made = gang.job(load)
    if system == "kueue":
        made["metadata"]["labels"] = {QUEUE_LABEL: gang.queue}
    return made


def create_all(cluster: LiveCluster, path: str, objects: t.Sequence[Object]) -> None:
    """Create all, in their order, with so many connections."""
    client = connect({"kubeconfig": cluster.kubeconfig})
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for _made in pool.map(lambda obj: create(client, path, obj), objects):
            pass


def _wait_running(cluster: LiveCluster) -> None:
    """Until no pod has still to be started by its node; the kwok of the cluster does that."""
    path, query = resource_path("v1", "pods", NAMESPACE), {"fieldSelector": "status.phase=Pending", "limit": 1}
    wait_until(
        "the pods to run",
        lambda: not cluster.client.request("GET", path, query=query).json()["items"],
        MOST_SECONDS,
        0.5,
    )


def _observer_orders(cluster: LiveCluster, system: Name, load: Load) -> dict[str, t.Any]:
    """What is to be watched, and how much of it is all."""
    gangs = len(load.gangs)
    wanted = {"created": gangs}
    watches = ["jobs"]
    if not load.podless:
        watches.append("bound")
        wanted["bound"] = load.pods
    if load.ends:
        watches.append("ended")
        wanted["ended"] = load.pods
    if system == "kueue":
        wanted["released"] = gangs
    if system == "kueue" and load.tree is None:
        watches.append("workloads")
        wanted["admitted"] = gangs
    if system == "ours":
        watches.append("lease")
    return {"kubeconfig": cluster.kubeconfig, "namespace": NAMESPACE, "watches": watches, "wanted": wanted}


def dispatcher_orders(cluster: LiveCluster, load: Load) -> dict[str, t.Any]:
    """What the dispatcher is to do, and where gangs are when it has done so."""
    phases = ("complete",) if load.ends else ("dispatched", "running") if load.podless else ("running",)
    return {
        "kubeconfig": cluster.kubeconfig,
        "namespace": NAMESPACE,
        "gangs": len(load.gangs),
        "phases": phases,
        "podless": load.podless,
        "most_seconds": MOST_SECONDS,
    }
