# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""AppWrappers whose status somebody else writes: left alone before the start, looked after when started by us."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import PHASE_LABEL
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """One node of 4 cpu and an AppWrapper of as many pods."""
    with MemoryStage(1) as made:
        made.cluster.serve_wrappers()
        made.add_namespace("a")
        made.add_nodes(*cases.node_pool("p", 1))
        work = cases.generic_item(cases.job("w-j", "p", 4, seconds=9), completion="Complete")
        made.cluster.add("appwrappers", cases.app_wrapper("w", "a", [work]))
        yield made


def entries(dispatcher: MemoryDispatcher) -> list[str]:
    """The gangs that the Lease lists."""
    assert dispatcher.session is not None
    batch = dispatcher.session.batch().batch
    return [] if batch is None else [entry.name for entry in batch.entries]


def phase(stage: MemoryStage) -> str | None:
    """What the wrapper's state says; None before it has one."""
    wrapper = stage.cluster.get("appwrappers", "a", "w")
    assert wrapper is not None
    text = (wrapper["metadata"].get("annotations") or {}).get("muster.kube/state")
    return None if text is None else str(json.loads(text)["phase"])


def write_status(stage: MemoryStage) -> None:
    """Let another controller have written the wrapper's status last."""
    written = {"manager": "other", "subresource": "status", "time": stage.cluster.time_text(3600)}
    stage.cluster.change("appwrappers", "a", "w", lambda obj: obj["metadata"].update(managedFields=[written]))


def refusals(dispatcher: MemoryDispatcher) -> int:
    """How often it was said that somebody else writes the status."""
    return sum("ForeignController" in line for line in dispatcher.reports)


def test_a_started_wrapper_is_looked_after_whoever_else_writes_its_status(stage: MemoryStage) -> None:
    one = stage.dispatcher("one", ["a"])
    one.cycle()
    assert phase(stage) == "dispatched"
    write_status(stage)
    one.pass_time(2)
    one.cycle()
    assert phase(stage) == "running"
    one.pass_time(12)
    one.cycle()
    assert phase(stage) == "complete"
    assert refusals(one) == 1


def test_a_started_wrapper_keeps_its_room_whoever_else_writes_its_status(stage: MemoryStage) -> None:
    """Also between two tries of a Job, when no pod shows that the room is taken, and no entry of the batch does."""
    one = stage.dispatcher("one", ["a"])
    one.cycle()
    one.pass_time(2)
    one.cycle()
    one.pass_time(5)
    assert (phase(stage), entries(one)) == ("running", [])
    write_status(stage)
    for pod in stage.cluster.all("pods", "a"):
        stage.cluster.erase(("pods", "a", pod["metadata"]["name"]))
    stage.cluster.add("configmaps", cases.gang_record("g", "a", [cases.job("g-j", "p", 1)]))
    one.cycle()
    assert stage.cluster.get("jobs", "a", "g-j") is None


def test_a_waiting_wrapper_is_left_to_whoever_writes_its_status(stage: MemoryStage) -> None:
    write_status(stage)
    one = stage.dispatcher("one", ["a"])
    one.cycle()
    one.cycle()
    assert (phase(stage), refusals(one)) == (None, 1)
    assert stage.cluster.all("jobs", "a") == []


def test_a_promise_to_a_wrapper_that_is_left_alone_stays(stage: MemoryStage) -> None:
    """Whoever made it may have begun."""
    dead = stage.dispatcher("dead", ["a"])
    dead.line.faults.append(Fault("kill_before", "POST", "/configmaps$"))
    with pytest.raises(Killed):
        dead.cycle()
    write_status(stage)
    stage.cluster.add("configmaps", cases.gang_record("g", "a", [cases.job("g-j", "p", 1)]))
    heir = stage.dispatcher("heir", ["a"])
    assert heir.acquire(patience=60.0)
    heir.cycle()
    assert entries(heir) == ["w"]
    assert stage.cluster.all("jobs", "a") == []


@pytest.mark.parametrize("begun", [True, False])
def test_a_start_that_left_its_ticket_is_looked_after_if_it_has_objects(stage: MemoryStage, begun: bool) -> None:
    dead = stage.dispatcher("dead", ["a"])
    dead.line.faults.append(
        Fault("kill_before", "PUT", "/appwrappers/w$") if begun else Fault("kill_after", "POST", "/configmaps$")
    )
    with pytest.raises(Killed):
        dead.cycle()
    write_status(stage)
    heir = stage.dispatcher("heir", ["a"])
    assert heir.acquire(patience=60.0)
    heir.cycle()
    assert phase(stage) == ("running" if begun else "queued")
    assert len(stage.cluster.all("jobs", "a")) == begun
    assert refusals(heir) == 1


def test_a_waiting_wrapper_can_be_adopted(stage: MemoryStage) -> None:
    write_status(stage)
    one = stage.dispatcher("one", ["a"], adopt=True)
    one.cycle()
    assert (phase(stage), refusals(one)) == ("dispatched", 0)


@pytest.mark.parametrize("trouble", ["kill_before", "refuse"])
def test_the_status_of_a_wrapper_that_failed_is_written_by_whoever_comes_next(
    stage: MemoryStage, trouble: t.Any
) -> None:
    """Records that are over are not read in every cycle, and its users wait for its status."""
    broken = cases.app_wrapper("broken", "a", [])
    stage.cluster.add("appwrappers", broken)
    dead = stage.dispatcher("dead", ["a"])
    dead.line.faults.append(Fault(trouble, "PUT", "/appwrappers/broken/status$", times=9))
    with pytest.raises(Killed) if trouble == "kill_before" else contextlib.nullcontext():
        dead.cycle()
        dead.release()
    heir = stage.dispatcher("heir", ["a"])
    assert heir.acquire(patience=60.0)
    heir.cycle()
    found = stage.cluster.get("appwrappers", "a", "broken")
    assert found["status"]["state"] == "Failed"
    assert found["metadata"]["labels"].get(PHASE_LABEL) != "failed"
    heir.cycle()
    found = stage.cluster.get("appwrappers", "a", "broken")
    assert (found["status"]["state"], found["metadata"]["labels"][PHASE_LABEL]) == ("Failed", "failed")
