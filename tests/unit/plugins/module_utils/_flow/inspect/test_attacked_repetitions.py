# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Repetitions while somebody interferes at any request: a rival, a death, an outage, refusals, others who edit."""

from __future__ import annotations

import collections
import functools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect import run as run_flow
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.run import run_inspection
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NamespaceFit, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._store import run_records as record_store
from ansible_collections.muster.kube.tests.support.frames import framed
from ansible_collections.muster.kube.tests.support.inspector import terms_of
from ansible_collections.muster.kube.tests.support.job_api import JOBS, MAPS, NOW, PODS, Died, JobApi

FITS = Verdict("g", "team", "fits", "now", None, NamespaceFit(True), 0, (), {}).as_dict()
TASK = {"namespace": "team", "image": "registry.example.com/x:1", "script": "true", "timeout": "600", "repetitions": 3}
NODE = "/api/v1/nodes/n"
LONG_AGO = "2026-11-16T03:45:00Z"
DOWN = {"type": "Ready", "status": "Unknown"}
OUTAGE = 90.0


@functools.cache
def terms():
    return terms_of(TASK)


class World(JobApi):
    """An API server with a controller of Jobs: at each rest a running pod ends and the next one starts."""

    def __init__(self):
        super().__init__()
        self.said = []
        self.starts = collections.Counter()
        self.hanging = set()
        self.at = {}
        self.at_write = {}
        self.number = 0
        self.dark_until = 0.0

    def answer(self, method, url, body):
        """What is to happen at this request, then the usual."""
        self.number += 1
        happens = self.at.pop(self.number, None)
        if method != "GET" and happens is None:
            happens = self.at_write.pop(len(self.writes) + 1, None)
        if happens is not None:
            told = happens(method)
            if told is not None:
                self.asked.append((method, url.partition("?")[0], False))
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
                told = [{"name": "run", "state": {"terminated": ended}}]
                self._pod(job, index, phase="Succeeded", containerStatuses=told)
                self.logs[f"{name}-{index}"] = framed({"exit_code": 0, "wall_seconds": float(repetition + 1)})
        pods = [self.objects.get(f"{PODS}/{name}-{index}") for index in range(spec["completions"])]
        if all(pod is not None and pod["status"]["phase"] == "Succeeded" for pod in pods):
            job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}

    def _pod(self, job, index, **status):
        name = f"{job['metadata']['name']}-{index}"
        known = self.objects.get(f"{PODS}/{name}", {}).get("metadata", {})
        owner = {"kind": "Job", "name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
        labels = {
            "batch.kubernetes.io/job-name": job["metadata"]["name"],
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        metadata = {"name": name, "namespace": "team", "labels": labels, "ownerReferences": [owner]}
        metadata |= {"uid": known["uid"]} if known else {"creationTimestamp": NOW}
        told = {"phase": "Running", **status}
        self.put(f"{PODS}/{name}", {"kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, "status": told})

    def inspect(self):
        return run_inspection(self.client, terms(), self.said.append, listen=self.listen)

    def until_done(self):
        """The task, begun again when it was killed, refused or told that its record is gone."""
        for _try in range(4):
            try:
                answer = self.inspect()
            except (Died, MusterError) as error:
                self.said.append(repr(error))
                continue
            if answer["reason"] != "cancelled":
                return answer
        raise AssertionError(self.said)

    def record(self):
        """The record of the inspection, if there is one."""
        maps = (obj for path, obj in self.objects.items() if path.startswith(f"{MAPS}/"))
        return next((obj for obj in maps if "attempt" in obj.get("data", {})), None)

    def left(self):
        """What is there that should not be: Jobs, and results that the outcome has."""
        parts = [path for path in self.objects if path.startswith(MAPS) and "-i" in path[-16:]]
        return [path for path in self.objects if path.startswith(JOBS)] + parts


CASES = {"plain": [None] * 3, "lost": [None, "evicted", None], "large": [None, "evicted", None]}


@pytest.fixture(params=sorted(CASES))
def case(request, monkeypatch):
    """A name; makes worlds, some with a dead node, some with results that do not fit into a record."""
    monkeypatch.setattr(run_flow, "room_for", lambda _client, _namespace, _job, _nodes: FITS)
    if request.param == "large":
        monkeypatch.setattr(record_store, "INLINE_BYTES", 100)
        monkeypatch.setattr(record_store, "CHUNK_BYTES", 900)
    return request.param


def world_of(case):
    world = World()
    if case != "plain":
        world.put(NODE, {"kind": "Node", "metadata": {"name": "n"}, "status": {"conditions": [DOWN]}})
        world.hanging = {1}
    return world


def troubles_of(case, world, answer):
    """What is missing, was mixed up, ran twice or is left."""
    found = []
    if [item["reason"] for item in answer["runs"]] != CASES[case]:
        found.append(f"reasons {[item['reason'] for item in answer['runs']]}")
    if any(item["wall_seconds"] not in (None, float(index + 1)) for index, item in enumerate(answer["runs"])):
        found.append(f"times {[item['wall_seconds'] for item in answer['runs']]}")
    if any(world.starts[index] != 1 for index in set(range(3)) - world.hanging):
        found.append(f"starts {dict(world.starts)}")
    return found + world.left()


def everywhere(case, count, interfere, run):
    """Each place where something can happen, in a world of its own; what went wrong, with the place."""
    found = []
    for number in range(1, count + 1):
        world = world_of(case)
        interfere(world, number)
        try:
            troubles = troubles_of(case, world, run(world))
        except (MusterError, AssertionError) as error:
            troubles = [repr(error)[:300]]
        if troubles:
            found.append((number, troubles))
    return found


def undisturbed(case):
    world = world_of(case)
    assert troubles_of(case, world, world.inspect()) == []
    return world


def test_a_rival_at_any_request_runs_nothing_twice(case):
    def interfere(world, number):
        world.at[number] = lambda _method: world.inspect() and None

    assert everywhere(case, undisturbed(case).number, interfere, World.inspect) == []


@pytest.mark.parametrize("after", [False, True])
def test_killed_at_any_write(case, after):
    def interfere(world, number):
        world.die_at, world.die_after = number, after
        with pytest.raises(Died):
            world.inspect()
        world.die_at = None

    assert everywhere(case, len(undisturbed(case).writes), interfere, World.inspect) == []


@pytest.mark.parametrize("case", ["plain", "lost"], indirect=True)
def test_an_outage_from_any_request_on_once_the_job_runs(case):
    whole = undisturbed(case)
    first = [asked[:2] for asked in whole.asked].index(("POST", JOBS)) + 1

    def interfere(world, number):
        def fall_silent(_method):
            world.dark_until = world.now + OUTAGE

        world.at[first + number] = fall_silent

    assert everywhere(case, whole.number - first, interfere, World.inspect) == []


@pytest.mark.parametrize("status", [403, 404, 409, 422, 429, 500])
def test_a_refusal_of_any_write(case, status):
    def interfere(world, number):
        world.at_write[number] = lambda method: None if (method, status) == ("DELETE", 404) else status

    assert everywhere(case, len(undisturbed(case).writes), interfere, World.until_done) == []


def test_a_record_that_somebody_labels_before_any_write(case):
    def interfere(world, number):
        def label(_method):
            record = world.record()
            if record is not None:
                record["metadata"]["labels"]["team"] = "a"
                world.put(f"{MAPS}/{record['metadata']['name']}", record)

        world.at_write[number] = label

    assert everywhere(case, len(undisturbed(case).writes), interfere, World.inspect) == []


@pytest.mark.parametrize("case", ["plain", "lost"], indirect=True)
def test_a_job_that_somebody_deletes_at_any_request_is_made_again_for_what_is_missing_only(case):
    """What ran at that moment is tried again by the next task; what had ended is not."""

    def interfere(world, number):
        def delete(_method):
            for path in [path for path in world.objects if path.startswith(f"{JOBS}/")]:
                gone = world.objects.pop(path)
                world._collect(gone["metadata"]["uid"])

        world.at[number] = delete

    found = []
    for number in range(1, undisturbed(case).number + 1):
        world = world_of(case)
        interfere(world, number)
        answer = world.inspect()
        ended = [index for index, item in enumerate(answer["runs"]) if item["reason"] is None]
        before = {index: world.starts[index] for index in ended}
        world.hanging = set()
        again = world.inspect()
        if [item["wall_seconds"] for item in again["runs"]] != [1.0, 2.0, 3.0]:
            found.append((number, [item["reason"] for item in again["runs"]]))
        if before != {index: world.starts[index] for index in ended} or world.left():
            found.append((number, before, dict(world.starts), world.left()))
    assert found == []
