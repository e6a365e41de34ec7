# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whole lives of gangs under dispatchers in memory."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed


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


def phase(stage: MemoryStage, name: str, namespace: str = "a") -> str:
    """What the record says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
    return "queued" if text is None else str(json.loads(text)["phase"])


def names(stage: MemoryStage, plural: str, namespace: str = "a") -> list[str]:
    """The names of the objects of a kind."""
    return [obj["metadata"]["name"] for obj in stage.cluster.all(plural, namespace)]


def test_gang_is_started_runs_and_completes(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.service("g-s"), cases.job("g-j", "p", 2, seconds=5))
    one = stage.dispatcher("one", ["a"])
    one.cycle()
    assert phase(stage, "g") == "dispatched"
    assert names(stage, "jobs") == ["g-j"]
    one.pass_time(2)
    one.cycle()
    assert phase(stage, "g") == "running"
    assert [pod["status"]["phase"] for pod in stage.cluster.all("pods", "a")] == ["Running", "Running"]
    one.pass_time(8)
    one.cycle()
    assert phase(stage, "g") == "complete"


def test_suspended_gang_is_undone_whole(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.service("g-s"), cases.job("g-j", "p", 2))
    stage.start("one", ["a"])
    assert stage.run_until(lambda: phase(stage, "g") == "running")

    def suspend(record: cases.Object) -> None:
        record["data"]["gang.json"] = json.dumps({**json.loads(record["data"]["gang.json"]), "suspended": True})

    stage.cluster.change("configmaps", "a", "g", suspend)
    assert stage.run_until(lambda: phase(stage, "g") == "suspended")
    assert names(stage, "jobs") == []
    assert names(stage, "pods") == []
    assert names(stage, "services") == []


def test_gang_without_room_waits_until_there_is_some(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 8, seconds=10))
    submit(stage, "h", "a", cases.job("h-j", "p", 1))
    stage.start("one")
    assert stage.run_until(lambda: phase(stage, "g") == "running")
    assert phase(stage, "h") == "queued"
    assert stage.run_until(lambda: phase(stage, "h") == "running")
    assert phase(stage, "g") == "complete"


def test_failed_gang_is_failed(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1, seconds=1, exit_code=3))
    stage.start("one", ["a"])
    assert stage.run_until(lambda: phase(stage, "g") == "failed")


def test_another_dispatcher_finishes_what_a_killed_one_began(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.service("g-s"), cases.job("g-j", "p", 2))
    one = stage.dispatcher("one", ["a"])
    one.line.faults.append(Fault("kill_after", "POST", "/services$", skip=1))
    with pytest.raises(Killed):
        one.cycle()
    assert names(stage, "services") == ["g-s"]
    assert names(stage, "jobs") == []
    stage.start("two", ["a"])
    assert stage.run_until(lambda: phase(stage, "g") == "running")
    assert names(stage, "jobs") == ["g-j"]


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "cut", "lose"])
def test_gang_runs_whatever_happens_to_one_write(stage: MemoryStage, trouble: t.Any) -> None:
    stage.add_namespace("c")
    for number in range(14):
        name = f"g{number}"
        submit(stage, name, "a", cases.service(f"{name}-s"), cases.job(f"{name}-j", "p", 2))
        first = stage.start("one", ["a"])
        first.line.faults.append(Fault(trouble, WRITES, skip=number))
        stage.run_for(3)
        if stage.actors["one"].over:
            stage.kill("one")
            stage.start("one", ["a"])
        assert stage.run_until(lambda name=name: phase(stage, name) == "running"), stage.crashes
        stage.kill("one")
        stage.cluster.remove("configmaps", "a", name)
        assert stage.run_until(lambda: not names(stage, "pods"))
    assert stage.crashes == []


def test_dispatchers_leave_the_lease_to_each_other(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    stage.start("one", ["a"], turn=1)
    stage.start("two", ["b"], turn=1)
    assert stage.run_until(lambda: phase(stage, "g") == phase(stage, "h", "b") == "running")


def test_stopped_dispatcher_goes_on_with_its_next_request(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.service("g-s"), cases.job("g-j", "p", 2))
    stage.start("one", ["a"])
    stage.quantum.least = stage.quantum.most = 1
    assert stage.run_until(lambda: bool(names(stage, "services")))
    stage.actors["one"].stopped = True
    stage.start("two", ["a"])
    assert stage.run_until(lambda: phase(stage, "g") == "running")
    stage.actors["one"].stopped = False
    stage.run_for(20)
    assert names(stage, "jobs") == ["g-j"]
    assert phase(stage, "g") == "running"


def test_a_seed_gives_the_same_history_again() -> None:
    def history() -> list[tuple[str, str]]:
        with MemoryStage(7) as stage:
            for name in ("a", "b"):
                stage.add_namespace(name)
                submit(stage, "g", name, cases.job("g-j", "p", 2, seconds=3))
            stage.add_nodes(*cases.node_pool("p", 1))
            stage.start("one", ["a"], turn=2)
            stage.start("two", ["b"], turn=1)
            stage.start("all", turn=1)
            stage.run_for(30)
            texts = [(change.plural, json.dumps(change.object)) for change in stage.cluster.history]
            # Before the first answer nobody knows the server's time, so a new Lease tells that of this machine.
            return [(plural, re.sub(r'"(acquire|renew)Time": "[^"]*"', "", text)) for plural, text in texts]

    assert history() == history()
