# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What meters count against what the API server's own audit log says: random starts, kills, deletions and deaths.

A gang uses what it was given from the creation of its ticket until the last of its pods has ended or is gone. The log
knows both by the server's clock, and nothing of what dispatchers think.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    METER_KEY,
    METER_LABEL,
    meter_from_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, FlavorResource
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.gang_cases import gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster

Object = dict[str, t.Any]
pytestmark = pytest.mark.full

HOME, PLACES = "meter-home", ("meter-a", "meter-b")
QUEUES = ("w", "x", "y", "z")
ALL_GANGS, DEATHS = 1000, 3
# How many gangs are queued or started at any time.
WIDTH = 40
# How many come at once.
WAVE = 5
# How often what is used is written down, and so how much of a gang may be missing, in seconds.
EVERY = 30.0
# Never reached when things work.
PATIENCE = 1200.0
CPU = FlavorResource(NO_FLAVOR, "cpu")
ENDED = ("complete", "failed")


@pytest.fixture(scope="module")
def audited() -> t.Iterator[LiveCluster]:
    """A cluster whose API server writes down what it was asked for."""
    with running_cluster(f"meter-{os.getpid()}", audit_log=True) as running:
        for name in (HOME, *PLACES):
            running.namespace(name)
        running.add_nodes(node_pool("meter", 10, cpu="16"))
        yield running


# What the log says.


@dataclasses.dataclass
class Attempt:
    """One start: when its ticket was made, and the end of each of its pods, None while there is none."""

    began: float
    pods: dict[tuple[str, str], float | None] = dataclasses.field(default_factory=dict)

    def seconds(self) -> float:
        """How long it used what it was given."""
        assert None not in self.pods.values(), self
        return max([self.began, *(end for end in self.pods.values() if end is not None)]) - self.began


class AuditedUse:
    """Attempts by gang, read event by event."""

    def __init__(self) -> None:
        """Nothing was asked for yet."""
        self.attempts: dict[str, dict[str, Attempt]] = collections.defaultdict(dict)
        self._pods: dict[tuple[str, str], Attempt] = {}

    def read(self, log: pathlib.Path) -> AuditedUse:
        """All requests that were carried out."""
        with log.open(encoding="utf-8") as lines:
            for line in lines:
                event = json.loads(line)
                place = event.get("objectRef") or {}
                done = event["stage"] == "ResponseComplete" and event["responseStatus"]["code"] < 300
                if done and place.get("namespace") in PLACES and place["resource"] in ("configmaps", "pods"):
                    self.take(event)
        return self

    def take(self, event: Object) -> None:
        """One request."""
        place, at = event["objectRef"], datetime.datetime.fromisoformat(event["stageTimestamp"]).timestamp()
        if "dryRun=" in event["requestURI"]:
            return
        if event["verb"] == "create" and not place.get("subresource"):
            self._created(place["resource"], event["responseObject"], at)
            return
        pod = (place["namespace"], place.get("name", ""))
        attempt = self._pods.get(pod) if place["resource"] == "pods" else None
        if attempt is None or (attempt.pods[pod] is not None and event["verb"] != "delete"):
            return
        phase = ((event.get("requestObject") or {}).get("status") or {}).get("phase")
        # The last deletion of one that did not end by itself is that of its node, which lets go of it.
        if phase in ("Succeeded", "Failed"):
            attempt.pods[pod] = at
            del self._pods[pod]
        elif event["verb"] == "delete":
            attempt.pods[pod] = at

    def _created(self, resource: str, obj: Object, at: float) -> None:
        """A ticket, or a pod of a gang."""
        labels = obj["metadata"].get("labels") or {}
        gang, attempt = labels.get("muster.kube/gang", ""), labels.get("muster.kube/attempt", "")
        if resource == "configmaps" and labels.get("muster.kube/ticket") == "true":
            self.attempts[gang][attempt] = Attempt(at)
        elif resource == "pods" and gang:
            pod = (obj["metadata"]["namespace"], obj["metadata"]["name"])
            self._pods[pod] = list(self.attempts[gang].values())[-1]
            self._pods[pod].pods[pod] = None


# What happens.


@dataclasses.dataclass(frozen=True)
class Gang:
    """A gang that was queued."""

    name: str
    namespace: str
    queue: str
    pods: int
    uid: str

    @property
    def path(self) -> str:
        """Its record."""
        return resource_path("v1", "configmaps", self.namespace, self.name)


class Course:
    """Random events on one cluster; two dispatchers compete for the Lease, and those that die are replaced."""

    def __init__(self, cluster: LiveCluster, directory: pathlib.Path, seed: int, count: int) -> None:
        """Nothing has happened yet."""
        self.cluster = cluster
        self.directory = directory
        self.chance = random.Random(f"{seed}/meter")
        self.count = count
        self.gangs: list[Gang] = []
        self.open: list[Gang] = []
        self.deleted: list[Gang] = []
        self.killed = self.deaths = 0
        self.processes: list[DispatchProcess] = []
        self._started = 0

    def run(self, stack: contextlib.ExitStack) -> None:
        """Everything until all gangs have ended; the last dispatcher ends by itself and writes what is left."""
        due = [self.count * (turn + 1) // (DEATHS + 1) for turn in range(DEATHS)]
        while len(self.gangs) < self.count:
            while len(self.processes) < 2:
                self.dispatch(stack)
            self.submit(min(WAVE, WIDTH - len(self.open), self.count - len(self.gangs)))
            if self.deaths < DEATHS and len(self.gangs) >= due[self.deaths]:
                self.deaths += wait_until("somebody to dispatch", self.kill_holder, PATIENCE)
            self.meddle()
            wait_until("a gang to end", lambda: self.look() or len(self.open) < WIDTH, PATIENCE)
        wait_until("all gangs to end", lambda: self.look() or not self.open, PATIENCE, 0.5)
        for process in self.processes:
            process.kill()
        self.dispatch(stack, until=ENDED, or_gone=True)
        self.processes[-1].result(PATIENCE)

    def dispatch(self, stack: contextlib.ExitStack, **rest: t.Any) -> None:
        """One more process."""
        self._started += 1
        orders = Orders(
            self.cluster.kubeconfig, HOME, PLACES, duration=PATIENCE, lease_wait=PATIENCE, accrue_seconds=EVERY, **rest
        )
        made = DispatchProcess(orders, self.directory / f"log-{self._started}")
        self.processes.append(stack.enter_context(made))

    def submit(self, count: int) -> None:
        """Queue gangs, each of a user of its own."""
        chance, records = self.chance, []
        for number in range(len(self.gangs), len(self.gangs) + count):
            name, namespace, pods = f"g{number}", chance.choice(PLACES), chance.randint(1, 3)
            work = job(f"{name}-j", "meter", pods, seconds=chance.choice((0, 2, 5, 20)), cpu="1")
            record = gang_record(name, namespace, [work], queue=chance.choice(QUEUES))
            record["metadata"]["annotations"] = {"muster.kube/user": name}
            records.append(record)
        for made in self.cluster.create(*records):
            spec = json.loads(made["data"]["gang.json"])
            meta = made["metadata"]
            pods = spec["objects"][0]["spec"]["parallelism"]
            gang = Gang(meta["name"], meta["namespace"], spec["queue"], pods, meta["uid"])
            self.gangs.append(gang)
            self.open.append(gang)

    def meddle(self) -> None:
        """Somebody deletes a gang, and kills a pod of another."""
        for gang in self.chance.sample(self.open, min(2, len(self.open))):
            with contextlib.suppress(NotFound):
                if self.chance.random() < 0.5:
                    delete(self.cluster.client, gang.path)
                    self.deleted.append(gang)
                    self.open.remove(gang)
                    continue
                pods = self.cluster.pods(gang.namespace, f"muster.kube/gang={gang.uid}")
                if pods:
                    name = self.chance.choice(pods)["metadata"]["name"]
                    delete(self.cluster.client, resource_path("v1", "pods", gang.namespace, name), grace_seconds=0)
                    self.killed += 1

    def kill_holder(self) -> int:
        """End the process that has the Lease; 0 when none of them has."""
        path = resource_path("coordination.k8s.io/v1", "leases", HOME, "dispatch")
        identity = str(((get_object(self.cluster.client, path) or {}).get("spec") or {}).get("holderIdentity") or "")
        for process in self.processes:
            if f"_{process.running.pid}_" in f"{identity}_":
                process.kill()
                self.processes.remove(process)
                return 1
        return 0

    def look(self) -> None:
        """Forget gangs that have ended."""
        listed = [
            list_objects(
                self.cluster.client,
                resource_path("v1", "configmaps", place),
                keep=lambda raw: raw["metadata"]["uid"],
                label_selector=f"muster.kube/phase in ({','.join(ENDED)})",
            ).items
            for place in PLACES
        ]
        ended = {uid for items in listed for uid in items}
        self.open = [gang for gang in self.open if gang.uid not in ended]


def metered(cluster: LiveCluster) -> dict[str, dict[str, float]]:
    """CPU seconds by queue and user, as meters have them."""
    path = resource_path("v1", "configmaps", HOME)
    texts = list_objects(
        cluster.client, path, keep=lambda raw: raw["data"][METER_KEY], label_selector=METER_LABEL
    ).items
    found: dict[str, dict[str, float]] = {queue: {} for queue in QUEUES}
    for meter in (meter_from_text(text, "here") for text in texts):
        assert not meter.open, meter.open
        for row, amounts in meter.sums.items():
            found[meter.queue][row.owner.user] = found[meter.queue].get(row.owner.user, 0) + amounts.get(CPU, 0) / 1000
    return found


def test_hours_are_those_of_the_audit_log(
    audited: LiveCluster, tmp_path: pathlib.Path, scale: float, seed: int
) -> None:
    queues = [{"name": "all"}, *({"name": name, "parent": "all", "nominal": {"cpu": 40}} for name in QUEUES)]
    text = tree_text(read_tree("default", {"queues": queues}))
    metadata = {"name": "muster-quota-default", "namespace": HOME, "labels": {TREE_LABEL: "default"}}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {TREE_KEY: text}}
    audited.create(tree, free_lease(LeaseOptions(HOME, "dispatch")))
    course = Course(audited, tmp_path, seed, max(30, round(ALL_GANGS * scale)))
    with contextlib.ExitStack() as stack:
        course.run(stack)
    for place in PLACES:
        wait_until("the pods of deleted gangs to go", lambda place=place: not living(audited, place))
    used = AuditedUse().read(pathlib.Path(audited.result["audit_log"]))
    found = metered(audited)
    totals = {queue: [0.0, 0.0] for queue in QUEUES}
    wrong, worst = [], 0.0
    for gang in course.gangs:
        attempts = used.attempts.get(gang.uid, {}).values()
        truth = gang.pods * sum(attempt.seconds() for attempt in attempts)
        counted = found[gang.queue].get(gang.name, 0.0)
        totals[gang.queue][0] += truth
        totals[gang.queue][1] += counted
        apart = abs(truth - counted) / gang.pods / max(1, len(attempts))
        worst = max(worst, apart)
        if apart > EVERY:
            wrong.append(f"{gang}: {truth:.1f} s in the log, {counted:.1f} s in the meter: {list(attempts)}")
    starts = sum(map(len, used.attempts.values()))
    print(
        f"{len(course.gangs)} gangs, {starts} starts, {course.killed} pods killed, {len(course.deleted)} gangs deleted"
    )
    print(f"{course.deaths} deaths; furthest apart for one start: {worst:.1f} s of {EVERY:.0f} s")
    for queue, (truth, counted) in totals.items():
        print(f"queue {queue}: {truth / 3600:.3f} h in the log, {counted / 3600:.3f} h in the meter")
    assert wrong == []
    assert course.deaths == DEATHS
    assert starts > len(course.gangs) / 2
    names = [{gang.name for gang in course.gangs if gang.queue == queue} for queue in QUEUES]
    assert all(set(found[queue]) <= known for queue, known in zip(QUEUES, names, strict=True))


def living(cluster: LiveCluster, place: str) -> list[Object]:
    """The pods that have not ended."""
    return [pod for pod in cluster.pods(place) if pod["status"].get("phase") not in ("Succeeded", "Failed")]
