# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases of MCAD's own quota tests on the real MCAD with quota on, and by a dispatcher on its trees, taken over.

Both get the same wrappers one after the other. What each lets run, keeps waiting or takes back is compared after every
step, and printed; a difference must be one of the holes of MCAD that are known, and is named. What is to be expected is
told by the trees' arithmetic alone.
"""

from __future__ import annotations

import json
import os
import pathlib
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster import ensure_present
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions, SubtreeSource
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import (
    ClusterOptions,
    ClusterSpec,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.gang_cases import app_wrapper, gang_record, node_pool, pod
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.mcad_forest import (
    ACTINIDES,
    CONTEXT,
    GPU,
    NESTED,
    SERVICE,
    Forest,
    asks,
    imported_tree,
    mcad_subtrees,
)
from ansible_collections.muster.kube.tests.support.shared_cluster import (
    FILES,
    build_programs,
    cache_directory,
    running_cluster,
)
from ansible_collections.muster.kube.tests.support.wrapper_crd import WRAPPER_API

pytestmark = pytest.mark.full

SPACE = "default"
# Where our dispatcher has its Lease, its trees and its gangs.
OURS = "ours"
# MCAD sleeps so long for each wrapper that it cannot let in.
USUAL = (("preemption", "true"), ("backofftime", "1"))
FLAGS = (("mcad", (("quotaEnabled", "true"), *USUAL)),)
GOLD = {CONTEXT: "gold", SERVICE: "gold"}
BRONZE = {CONTEXT: "bronze", SERVICE: "gold"}
SILVER = {CONTEXT: "silver", SERVICE: "default"}
# What differs, and why.
HOLES = {
    "nested, the owner takes its own back": "MCAD's hard nodes keep those below from getting back what siblings borrow",
}
# MCAD asks again after each of its pauses; who waits for longer than some of them waits.
SETTLED_SECONDS = 4.0
# Never reached when things work.
PATIENCE = 1800.0


class Mcad:
    """The real MCAD."""

    def __init__(self, cluster: LiveCluster) -> None:
        """Nothing is asked yet."""
        self._cluster = cluster

    def submit(self, name: str, cpu: int, memory: int, gpu: int, priority: int, labels: t.Mapping[str, str]) -> None:
        """Create a wrapper of one pod."""
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({GPU: str(gpu)} if gpu else {})
        made = app_wrapper(name, SPACE, [pod(name, SPACE, "p", **requests)], managed=False, priority=priority)
        made["metadata"]["labels"] = dict(labels)
        self._cluster.create(made)

    def end(self, name: str) -> None:
        """Delete a wrapper, and wait until its pod is gone too."""
        path = resource_path(WRAPPER_API, "appwrappers", SPACE, name)
        delete(self._cluster.client, path, propagation="Background")
        wait_until(f"{name} to go", lambda: get_object(self._cluster.client, path) is None, 120)
        wait_until(f"pods of {name} to go", lambda: not self._pod(name), 120)

    def _pod(self, name: str) -> bool:
        return get_object(self._cluster.client, resource_path("v1", "pods", SPACE, name)) is not None

    def state(self, name: str) -> str | None:
        """Where a wrapper stands, as soon as MCAD has looked at it: with its pod there or not."""
        found = get_object(self._cluster.client, resource_path(WRAPPER_API, "appwrappers", SPACE, name)) or {}
        status = found.get("status") or {}
        kinds = {item["type"] for item in status.get("conditions") or ()}
        if status.get("canrun") and status.get("state") == "Running" and self._pod(name):
            return "running"
        return "pending" if kinds & {"Backoff", "Dispatched"} and not status.get("canrun") else None


class Dispatched:
    """The same gangs by our dispatcher, in a namespace of its own."""

    def __init__(self, cluster: LiveCluster, directory: pathlib.Path) -> None:
        """Nobody dispatches yet."""
        self._cluster = cluster
        self._directory = directory
        self._process: DispatchProcess | None = None
        cluster.namespace(OURS)
        cluster.create(free_lease(LeaseOptions(OURS, "dispatch")))

    def begin(self, *trees: str) -> None:
        """Have a new process dispatch by these trees; the one before is killed."""
        self.close()
        for tree in trees:
            declaration = {"over_capacity": "warn", "settings": {"min_run_time": 0}}
            source = SubtreeSource(tree, "kube-system")
            options = QuotaOptions(tree.replace("_", "-"), OURS, "present", declaration, False, source)
            run_quota(self._cluster.connect, options)
        orders = Orders(self._cluster.kubeconfig, OURS, (OURS,), lease_wait=PATIENCE, duration=PATIENCE)
        self._process = DispatchProcess(orders, self._directory / f"log-{time.monotonic_ns()}").start()

    def close(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.end()

    def forget(self, *trees: str) -> None:
        """Remove trees."""
        for tree in trees:
            run_quota(self._cluster.connect, QuotaOptions(tree.replace("_", "-"), OURS, "absent", {}))

    def submit(self, name: str, cpu: int, memory: int, gpu: int, priority: int, labels: t.Mapping[str, str]) -> None:
        """Queue a gang of one pod."""
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({GPU: str(gpu)} if gpu else {})
        work = pod(name, OURS, "p", **requests)
        self._cluster.create(gang_record(name, OURS, [work], priority=priority, labels=dict(labels)))

    def end(self, name: str) -> None:
        """Delete a gang, and wait until its pod is gone too."""
        delete(self._cluster.client, resource_path("v1", "configmaps", OURS, name))
        own = resource_path("v1", "pods", OURS, name)
        wait_until(f"pods of {name} to go", lambda: get_object(self._cluster.client, own) is None)

    def state(self, name: str) -> str | None:
        """Where a gang stands."""
        found = get_object(self._cluster.client, resource_path("v1", "configmaps", OURS, name)) or {"metadata": {}}
        text = (found["metadata"].get("annotations") or {}).get("muster.kube/state")
        phase = json.loads(text)["phase"] if text else None
        return {"running": "running", "queued": "pending"}.get(phase or "")


class Course:
    """Both sides, step by step, beside what is to be expected."""

    def __init__(self, cluster: LiveCluster, live: Dispatched, *trees: str) -> None:
        """Begin with nothing submitted."""
        self.theirs = Mcad(cluster)
        self.live = live
        self.ours = Forest(*trees)
        self.lines: list[str] = []
        self.differences: dict[str, str] = {}
        self._live: dict[str, tuple[t.Any, ...]] = {}

    def submit(
        self, step: str, name: str, cpu: int, memory: int = 1, gpu: int = 0, *, priority: int = 0, **labels: str
    ) -> None:
        """One wrapper on both sides; then what has become of all."""
        self._live[name] = (cpu, memory, gpu, priority, labels)
        self.theirs.submit(name, cpu, memory, gpu, priority, labels)
        self.live.submit(name, cpu, memory, gpu, priority, labels)
        self.ours.submit(name, asks(cpu, memory, gpu), priority, **labels)
        self._compare(step)

    def end(self, *names: str) -> None:
        """Wrappers are over."""
        for name in names:
            del self._live[name]
            self.theirs.end(name)
            self.live.end(name)
            if name in self.ours.running:
                self.ours.end(name)

    def end_all(self) -> None:
        """Everything is over."""
        self.end(*self._live)

    def retry(self, step: str) -> None:
        """What waits is asked again, as dispatchers do by themselves."""
        for name, (cpu, memory, gpu, priority, labels) in self._live.items():
            if name not in self.ours.running:
                self.ours.submit(name, asks(cpu, memory, gpu), priority, **labels)
        self._compare(step)

    def count_by(self, *trees: str) -> None:
        """Trees come while wrappers run: those that run are charged to them."""
        running, self.ours = self.ours.running, Forest(*trees)
        for name, (cpu, memory, gpu, priority, labels) in self._live.items():
            if name in running:
                self.ours.submit(name, asks(cpu, memory, gpu), priority, **labels)

    def add(self, other: Course) -> None:
        """Take over what another course has found."""
        self.lines += other.lines
        self.differences |= other.differences

    def _compare(self, step: str) -> None:
        """What runs on both sides; MCAD is given time to come to the same."""
        expected = {name: "running" if name in self.ours.running else "pending" for name in self._live}
        found: dict[str, str | None] = {}
        wait_until(f"ours at {step}", lambda: {name: self.live.state(name) for name in self._live} == expected, 60)

        since: list[float] = []

        def same() -> bool:
            """Whether it has been the same for a while: what is refused now may be let in a moment later."""
            found.update({name: self.theirs.state(name) for name in self._live})
            if found != expected:
                since.clear()
                return False
            since.append(time.monotonic())
            return since[-1] - since[0] >= SETTLED_SECONDS

        try:
            wait_until(f"MCAD at {step}", same, 40)
        except AssertionError:
            self.differences[step] = f"MCAD {found}, ours {expected}"
        word = f"differs: {HOLES.get(step, 'unknown')}" if step in self.differences else "same"
        self.lines.append(f"{step}: MCAD {found}, ours {expected}: {word}")


def plant(cluster: LiveCluster, *trees: str) -> None:
    """Create QuotaSubtrees."""
    for tree in trees:
        for obj in mcad_subtrees()[tree]:
            cluster.create(obj)


def taken_over(cluster: LiveCluster, tree: str) -> QuotaTree | None:
    """The tree that a task would store."""
    options = QuotaOptions(
        tree.replace("_", "-"), SPACE, "present", {"over_capacity": "warn"}, True, SubtreeSource(tree, "kube-system")
    )
    return run_quota(cluster.connect, options).after


def restart_mcad(cluster: LiveCluster) -> None:
    """End the controller and start it again."""
    cluster.stop_components("mcad")
    spec = ClusterSpec(cluster.result["name"], operators=("mcad",), component_flags=FLAGS)
    options = ClusterOptions(spec, cache_directory(), FILES, 300.0)
    cluster.components.update(ensure_present(options, lambda _text: None)["components"])


@pytest.fixture(scope="module")
def cluster() -> t.Iterator[LiveCluster]:
    """A cluster with MCAD, whose quota is off at first, and room that nobody runs out of."""
    build_programs("mcad")
    settings = {"operators": ("mcad",), "component_flags": (("mcad", USUAL),)}
    with running_cluster(f"mcad-quota-{os.getpid()}", **settings) as running:
        running.add_nodes(node_pool("p", 4, cpu="8", **{GPU: "16"}))
        yield running


@pytest.fixture(scope="module")
def live(cluster: LiveCluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Dispatched]:
    """Our dispatcher beside it."""
    made = Dispatched(cluster, tmp_path_factory.mktemp("ours"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def planted(cluster: LiveCluster, live: Dispatched) -> Course:
    """The first trees come while wrappers run (deployment 01)."""
    live.begin()
    course = Course(cluster, live)
    course.submit("deployment-01, no tree", "before", 600, **GOLD)
    plant(cluster, CONTEXT, SERVICE)
    restart_mcad(cluster)
    live.begin(CONTEXT, SERVICE)
    course.count_by(CONTEXT, SERVICE)
    course.submit("deployment-01, the trees count what runs", "after", 600, **GOLD)
    course.end("before")
    course.retry("deployment-01, it is over")
    course.submit("deployment-01, bronze beside it", "bronze", 400, **BRONZE)
    course.end_all()
    return course


def test_the_trees_of_a_cluster_are_taken_over(cluster: LiveCluster, planted: Course) -> None:
    assert [taken_over(cluster, tree) for tree in (CONTEXT, SERVICE)] == [
        imported_tree(tree) for tree in (CONTEXT, SERVICE)
    ]


def test_both_let_in_the_same(
    cluster: LiveCluster, live: Dispatched, planted: Course, capsys: pytest.CaptureFixture[str]
) -> None:
    course = Course(cluster, live, CONTEXT, SERVICE)
    course.add(planted)
    play(course)
    restart(course, cluster)
    nest(course, cluster)
    with capsys.disabled():
        print("\n" + "\n".join(course.lines))
    assert set(course.differences) == set(HOLES), course.differences


def play(course: Course) -> None:
    """Forest 04 to 11, errors and borrowing."""
    course.submit("04 gold", "gold", 600, **GOLD)
    course.submit("05 unknown leaf", "unknown", 100, quota_context="platinum", quota_service="gold")
    course.end("unknown")
    course.submit("06 gold of higher priority", "urgent", 600, priority=1000, **GOLD)
    course.submit("07 bronze beside it", "bronze", 400, priority=1000, **BRONZE)
    course.submit("08 one more bronze", "more", 400, priority=1000, **BRONZE)
    course.end_all()
    course.submit("09 bronze", "first", 900, **BRONZE)
    course.submit("09 second bronze", "second", 900, **BRONZE)
    course.end("first")
    course.retry("09 first is over")
    course.end_all()
    course.submit("10 no label", "unlabeled", 900)
    course.end_all()
    course.submit("11 another label", "other", 900, team="x")
    course.end_all()
    for number in range(2):
        course.submit(f"errors, same name, time {number + 1}", "again", 1000, **GOLD)
        course.end_all()
    course.submit("borrowing, silver beyond its own", "silver", 1000, 600, 16, **SILVER)
    course.submit("borrowing, gold takes its own back", "owner", 500, 300, 8, **GOLD)
    course.end_all()


def restart(course: Course, cluster: LiveCluster) -> None:
    """Deployment 02 and 03: the controller dies while a wrapper runs; a tree without a default leaf comes."""
    course.submit("deployment-02, gold", "gold", 600, **GOLD)
    restart_mcad(cluster)
    course.live.begin()
    course.submit("deployment-02, after the restart", "late", 600, **GOLD)
    course.end_all()
    plant(cluster, ACTINIDES)
    restart_mcad(cluster)
    course.live.begin(ACTINIDES)
    three = Course(cluster, course.live, CONTEXT, SERVICE, ACTINIDES)
    three.submit("deployment-03, no leaf of the third tree", "gold", 300, **GOLD)
    three.submit("deployment-03, plutonium", "plutonium", 300, quota_actinides="plutonium", **GOLD)
    three.end_all()
    course.add(three)


def nest(course: Course, cluster: LiveCluster) -> None:
    """Another tree instead of all these, with a hard node between its leaves and its root."""
    for obj in (obj for tree in (CONTEXT, SERVICE, ACTINIDES) for obj in mcad_subtrees()[tree]):
        delete(cluster.client, cluster.path(obj))
    plant(cluster, NESTED)
    restart_mcad(cluster)
    course.live.forget(CONTEXT, SERVICE, ACTINIDES)
    course.live.begin(NESTED)
    nested = Course(cluster, course.live, NESTED)
    nested.submit("nested, b borrows from a", "borrower", 900, quota_nested="b")
    nested.submit("nested, the owner takes its own back", "owner", 500, quota_nested="a")
    nested.end_all()
    nested.submit("nested, a node above others is named", "above", 100, quota_nested="team")
    nested.end_all()
    course.add(nested)
