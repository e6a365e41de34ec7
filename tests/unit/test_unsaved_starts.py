# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts whose records are not written yet: what a killed dispatcher leaves, and what users do meanwhile."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Two nodes of 4 cpu and the namespaces a and b."""
    with MemoryStage(1) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


def submit(stage: MemoryStage, name: str, namespace: str, *objects: cases.Object, **options: t.Any) -> None:
    """Queue a gang."""
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, objects, **options))


def state(stage: MemoryStage, name: str, namespace: str = "a") -> dict[str, t.Any]:
    """What the record says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
    return {"phase": "queued"} if text is None else dict(json.loads(text))


def phase(stage: MemoryStage, name: str, namespace: str = "a") -> str:
    """Its phase as the record says it."""
    return str(state(stage, name, namespace)["phase"])


def names(stage: MemoryStage, plural: str, namespace: str = "a") -> list[str]:
    """The names of the objects of a kind."""
    return [obj["metadata"]["name"] for obj in stage.cluster.all(plural, namespace)]


def deferring(stage: MemoryStage, name: str, namespaces: t.Iterable[str] | None, **terms: t.Any) -> MemoryDispatcher:
    """A dispatcher as in a run of many cycles, to be run by hand."""
    made = stage.dispatcher(name, namespaces, **terms)
    made.defers = True
    return made


def die(stage: MemoryStage, dispatcher: MemoryDispatcher, seconds: float) -> None:
    """End a process without a word, and let time pass."""
    dispatcher.forget()
    stage.clock.advance_to(stage.clock.now + seconds)


def test_a_gang_that_runs_is_not_taken_back_because_nobody_looked_after_it_for_long(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 2))
    one = deferring(stage, "one", ["a"])
    one.cycle()
    assert (phase(stage, "g"), names(stage, "jobs")) == ("queued", ["g-j"])
    uids = [job["metadata"]["uid"] for job in stage.cluster.all("jobs", "a")]
    die(stage, one, 100)
    stage.start("two", ["a"])
    assert stage.run_until(lambda: phase(stage, "g") == "running", 60)
    stage.run_for(60)
    assert [job["metadata"]["uid"] for job in stage.cluster.all("jobs", "a")] == uids
    assert state(stage, "g")["attempt"] == 1


def test_run_time_counts_from_when_the_gang_was_started(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 2), max_run_time="60s")
    one = deferring(stage, "one", ["a"])
    one.cycle()
    began = stage.clock.now
    die(stage, one, 15)
    stage.start("two", ["a"])
    assert stage.run_until(lambda: phase(stage, "g") not in ("queued", "dispatching", "dispatched", "running"), 200)
    assert stage.clock.now - began < 70


def test_a_job_that_came_and_went_is_not_run_again_unasked(stage: MemoryStage) -> None:
    job = cases.job("g-j", "p", 2, seconds=5)
    job["spec"]["ttlSecondsAfterFinished"] = 10
    submit(stage, "g", "a", job)
    one = deferring(stage, "one", ["a"])
    one.cycle()
    die(stage, one, 20)
    stage.cluster.remove("jobs", "a", "g-j")
    stage.clock.advance_to(stage.clock.now + 5)
    stage.start("two", ["a"])
    stage.run_for(10)
    assert phase(stage, "g") == "failed"
    assert names(stage, "jobs") == []


def test_a_start_that_only_dry_runs_allow_is_not_tried_without_pause(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 2))
    stage.cluster.barriers.append(Barrier("quota", "a", "jobs", 1000.0, dry=False))
    one = stage.start("one", ["a"])
    stage.run_for(60)
    tickets = [path for method, path in one.line.writes if method == "POST" and path.endswith("/configmaps")]
    assert len(tickets) <= 4
    assert state(stage, "g")["not_before"] is not None


def test_a_gang_that_was_taken_back_does_not_start_beside_its_own_pods(stage: MemoryStage) -> None:
    stage.controllers.pace.stop = 15.0
    submit(stage, "g", "a", cases.job("g-j", "p", 2))
    one = deferring(stage, "one", ["a"])
    one.cycle()
    one.pass_time(3)
    one.line.faults.append(Fault("refuse", "PUT", "/configmaps/g$", status=403, reason="Forbidden"))
    for _round in range(80):
        one.cycle()
        one.pass_time(0.5)
        assert len({pod["metadata"]["ownerReferences"][0]["uid"] for pod in stage.cluster.all("pods", "a")}) <= 1
    assert phase(stage, "g") == "running"


def test_a_gang_whose_job_was_deleted_does_not_start_beside_its_pods(stage: MemoryStage) -> None:
    stage.controllers.pace.stop = 15.0
    submit(stage, "g", "a", cases.job("g-j", "p", 2))
    one = deferring(stage, "one", ["a"])
    one.cycle()
    one.pass_time(1)
    stage.cluster.remove("jobs", "a", "g-j")
    die(stage, one, 0)
    two = deferring(stage, "two", ["a"])
    assert two.acquire(20.0)
    for _round in range(10):
        two.cycle()
        two.pass_time(0.5)
        assert len({pod["metadata"]["ownerReferences"][0]["uid"] for pod in stage.cluster.all("pods", "a")}) <= 1


@pytest.mark.parametrize("lease", ["kept", "deleted"])
def test_room_of_a_start_elsewhere_is_not_given_twice(stage: MemoryStage, lease: str) -> None:
    stage.controllers.pace.job = 100.0
    submit(stage, "g", "a", cases.job("g-j", "p", 8))
    one = deferring(stage, "one", ["a"])
    one.cycle()
    assert (phase(stage, "g"), names(stage, "jobs")) == ("queued", ["g-j"])
    die(stage, one, 0)
    if lease == "deleted":
        stage.cluster.remove("leases", "muster-system", "dispatch")
    submit(stage, "h", "b", cases.job("h-j", "p", 8), priority=10)
    two = stage.start("two", ["b"])
    stage.run_for(30)
    assert two.cycles
    assert [path for method, path in two.line.writes if method == "POST" and path.endswith("/jobs")] == []


@pytest.mark.parametrize(("status", "reason"), [(403, "Forbidden"), (409, "Conflict"), (500, "InternalError")])
def test_a_gang_whose_record_cannot_be_written_gives_its_room_back(
    stage: MemoryStage, status: int, reason: str
) -> None:
    one = stage.start("one")
    stage.run_for(8)
    one.line.faults.append(Fault("refuse", "PUT", "/configmaps/g$", times=10**6, status=status, reason=reason))
    submit(stage, "g", "a", cases.job("g-j", "p", 8))
    assert stage.run_until(lambda: names(stage, "jobs") == ["g-j"], 10)
    submit(stage, "h", "b", cases.job("h-j", "p", 8, seconds=10))
    assert stage.run_until(lambda: phase(stage, "h", "b") == "complete", 90)
    assert names(stage, "jobs") == []
