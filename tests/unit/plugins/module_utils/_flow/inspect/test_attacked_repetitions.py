# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Repetitions while somebody interferes at any request: a rival, a death, an outage, refusals, others who edit."""

from __future__ import annotations

import collections

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job import record as record_store
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, NOW, PODS, Died, JobApi

FITS = Verdict("g", "team", "fits", "now", None, NamespaceFit(True), 0, (), {}).as_dict()
TASK = {"namespace": "team", "image": "registry.example.com/x:1", "script": "true", "timeout": "600", "repetitions": 4}
NODE = "/api/v1/nodes/n"
LONG_AGO = "2026-11-16T03:45:00Z"
DOWN = {"type": "Ready", "status": "Unknown"}
OUTAGE = 90.0


class World(JobApi):
    """An API server with a controller of Jobs: at each rest a running pod ends and the next one starts."""

    def __init__(self):
        super().__init__()
        self.said = []
        self.starts = collections.Counter()
        self.hanging = set()
        self.at = {}
        self.number = 0
        self.dark_until = 0.0

    def answer(self, method, url, body):
        """What is to happen at this request, then the usual."""
        self.number += 1
        happens = self.at.pop(self.number, None)
        if happens is not None:
            told = happens(method)
            if told is not None:
                self.asked.append((method, url, False))
                return told, {"kind": "Status", "code": told, "message": "made by the test"}
        if self.now < self.dark_until:
            raise TransportFault("connection refused", True)
        path = url.partition("?")[0]
        if path.endswith("/log") and path.removesuffix("/log") not in self.objects:
            return 404, {"kind": "Status", "code": 404}
        return super().answer(method, url, body)

    def wait(self, longest):
        """One step of the controller, and of the nodes."""
        self.rests += 1
        assert self.rests < 300, self.said
        for path in [path for path in self.objects if path.startswith(f"{JOBS}/")]:
            self._advance(self.objects[path])

    def _advance(self, job):
        name, spec = job["metadata"]["name"], job["spec"]
        shares = {item["name"]: item.get("value") for item in spec["template"]["spec"]["containers"][0]["env"]}
        indexes = [int(part) for part in shares["MUSTER_INDEXES"].split()] if "MUSTER_INDEXES" in shares else None
        active = 0
        for index in range(spec["completions"]):
            pod = self.objects.get(f"{PODS}/{name}-{index}")
            repetition = indexes[index] if indexes else index
            if pod is None and active < spec["parallelism"]:
                self.starts[repetition] += 1
                begun = LONG_AGO if repetition in self.hanging else NOW
                running = {"name": "run", "state": {"running": {"startedAt": begun}}}
                self._pod(job, index, startTime=begun, containerStatuses=[running])
                active += 1
            elif pod is not None and pod["status"]["phase"] == "Running" and repetition in self.hanging:
                active += 1
            elif pod is not None and pod["status"]["phase"] == "Running":
                ended = {"exitCode": 0, "reason": "Completed", "finishedAt": LONG_AGO}
                self._pod(job, index, phase="Succeeded", containerStatuses=[{"name": "run", "state": {"terminated": ended}}])
                self.logs[f"{name}-{index}"] = framed({"exit_code": 0, "wall_seconds": float(repetition + 1)})
        pods = [self.objects.get(f"{PODS}/{name}-{index}") for index in range(spec["completions"])]
        if all(pod is not None and pod["status"]["phase"] == "Succeeded" for pod in pods):
            job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    def _pod(self, job, index, **status):
        name = f"{job['metadata']['name']}-{index}"
        known = self.objects.get(f"{PODS}/{name}", {}).get("metadata", {})
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
        labels = {
            "batch.kubernetes.io/job-name": job["metadata"]["name"],
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        metadata = {"name": name, "namespace": "team", "labels": labels, "ownerReferences": [owner]}
        metadata |= {"uid": known["uid"]} if known else {"creationTimestamp": NOW}
        spec = {"nodeName": "n"}
        self.put(f"{PODS}/{name}", {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running", **status}})

    def inspect(self, **options):
        terms = terms_of({**TASK, **options})
        return run_inspection(self.client, terms, self.said.append, listen=self.listen)

    def until_done(self, **options):
        """The task, begun again when it was killed or failed."""
        for _try in range(3):
            try:
                return self.inspect(**options)
            except (Died, KubeError):
                continue
        raise AssertionError(self.said)

    def left(self):
        """What is there that should not be: Jobs, and parts that no outcome names."""
        record = next(obj for path, obj in self.objects.items() if path.startswith(MAPS) and "attempt" in obj.get("data", {}))
        named = record["data"].get("outcome", "")
        extra = [path for path in self.objects if path.startswith(JOBS)]
        for path in self.objects:
            name = path.rpartition("/")[2]
            if path.startswith(f"{MAPS}/") and name != record["metadata"]["name"] and "-c0-" not in name and name not in named:
                extra.append(path)
        return extra


@pytest.fixture(params=["small", "large"])
def make(request, monkeypatch):
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job: FITS)
    if request.param == "large":
        monkeypatch.setattr(record_store, "INLINE_BYTES", 100)
        monkeypatch.setattr(record_store, "CHUNK_BYTES", 200)

    def new(scenario):
        world = World()
        if scenario == "lost":
            world.put(NODE, {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [DOWN]}})
            world.hanging = {1}
        return world

    return new


WANTED = {"plain": [None] * 4, "lost": [None, "evicted", None, None]}


def whole(world, answer, scenario, *, least=1):
    """Nothing is missing, nothing was mixed up, nothing ran twice, nothing is left."""
    assert [item["reason"] for item in answer["runs"]] == WANTED[scenario]
    times = [item["wall_seconds"] for item in answer["runs"]]
    assert [time for time in times if time is not None] == [
        float(index + 1) for index, reason in enumerate(WANTED[scenario]) if reason is None
    ]
    assert world.starts == {index: 1 for index in range(4)}, world.starts
    assert world.left() == []


def requests(make, scenario):
    world = make(scenario)
    whole(world, world.inspect(), scenario)
    return world


@pytest.mark.parametrize("scenario", sorted(WANTED))
def test_a_rival_at_any_request_runs_nothing_twice(make, scenario):
    total = requests(make, scenario).number
    troubles = []
    for number in range(1, total + 1):
        world = make(scenario)
        world.at[number] = lambda _method, world=world: world.inspect() and None
        try:
            whole(world, world.until_done(), scenario)
        except (Exception, AssertionError) as error:
            troubles.append((number, world.asked[-1:], repr(error)[:300]))
    assert troubles == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("scenario", sorted(WANTED))
def test_killed_at_any_write(make, scenario, after):
    total = len(requests(make, scenario).writes)
    troubles = []
    for number in range(1, total + 1):
        world = make(scenario)
        world.die_at, world.die_after = number, after
        with pytest.raises(Died):
            world.inspect()
        world.die_at = None
        try:
            whole(world, world.until_done(), scenario)
        except (Exception, AssertionError) as error:
            troubles.append((number, world.written[:number], repr(error)[:300]))
    assert troubles == []


@pytest.mark.parametrize("scenario", sorted(WANTED))
def test_an_outage_from_any_request_on(make, scenario):
    base = requests(make, scenario)
    first = next(number for number, (method, path, _) in enumerate(base.asked, 1) if method == "POST" and path == JOBS)
    troubles = []
    for number in range(first, base.number + 1):
        world = make(scenario)

        def dark(_method, world=world):
            world.dark_until = world.now + OUTAGE

        world.at[number] = dark
        try:
            whole(world, world.inspect(), scenario)
        except (Exception, AssertionError) as error:
            troubles.append((number, base.asked[number - 1], repr(error)[:300]))
    assert troubles == []


@pytest.mark.parametrize("status", [403, 404, 409, 429, 500])
@pytest.mark.parametrize("scenario", sorted(WANTED))
def test_a_refusal_at_any_write(make, scenario, status):
    total = requests(make, scenario).number
    troubles = []
    for number in range(1, total + 1):
        world = make(scenario)
        world.at[number] = lambda method: status if method != "GET" else None
        try:
            whole(world, world.until_done(), scenario)
        except (Exception, AssertionError) as error:
            troubles.append((number, world.asked[number - 1], repr(error)[:300]))
    assert troubles == []


@pytest.mark.parametrize("scenario", sorted(WANTED))
def test_a_record_that_somebody_labels_at_any_request(make, scenario):
    total = requests(make, scenario).number
    troubles = []
    for number in range(1, total + 1):
        world = make(scenario)

        def label(_method, world=world):
            for path, obj in list(world.objects.items()):
                if path.startswith(MAPS) and "attempt" in obj.get("data", {}):
                    obj["metadata"]["labels"]["team"] = "a"
                    world.put(path, obj)

        world.at[number] = label
        try:
            whole(world, world.inspect(), scenario)
        except (Exception, AssertionError) as error:
            troubles.append((number, world.asked[-1:], repr(error)[:300]))
    assert troubles == []
