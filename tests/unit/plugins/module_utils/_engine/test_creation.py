# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of creation: order, leftovers, conditions to wait for. Faults of every write: tests/integration."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.placing import READY_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LostLeadership

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"


def leftover_of_attempt_1(bench: t.Any) -> tuple[t.Any, t.Any]:
    """A gang that is queued for attempt 2, and its job of attempt 1 that nobody collected."""
    record = bench.start(bench.queue())
    job = dict(bench.api.objects[f"{JOBS}/b"])
    bench.engine.undo(record, "LostRace", "")
    bench.engine.finish_undo(bench.again(record), bench.plan(record))
    return bench.again(record), bench.api.put(f"{JOBS}/b", job)


def test_objects_are_created_in_order_after_the_record_was_written(bench: t.Any) -> None:
    record = bench.queue()
    assert bench.start(record).phase == "dispatched"
    assert bench.api.writes == [
        ("POST", CONFIGMAPS),
        ("PUT", record.path),
        ("POST", CONFIGMAPS),
        ("POST", JOBS),
        ("PUT", record.path),
    ]


def test_leftover_is_deleted_by_uid_and_replaced(bench: t.Any) -> None:
    record, old = leftover_of_attempt_1(bench)
    bench.api.asked.clear()
    started = bench.start(record)
    assert (started.phase, started.attempt) == ("dispatched", 2)
    assert ("DELETE", f"{JOBS}/b") in bench.api.writes
    assert bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"] != old["metadata"]["uid"]


def test_leftover_that_stays_sends_the_gang_back(bench: t.Any) -> None:
    record, old = leftover_of_attempt_1(bench)
    bench.api.fail("DELETE", f"{JOBS}/b", 200, times=99)
    undone = bench.start(record)
    assert (undone.phase, undone.state.transitions[-1].reason) == ("undoing", "Leftover")
    assert bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"] == old["metadata"]["uid"]


def test_condition_is_waited_for(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    looks = []

    def becomes_ready() -> None:
        looks.append(f"{CONFIGMAPS}/a" in bench.api.objects)
        if len(looks) == 3:
            bench.api.objects[f"{JOBS}/b"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}

    bench.api.on_sleep = becomes_ready
    assert bench.start(record).phase == "dispatched"
    assert looks == [False, False, False]
    assert bench.names() == ["a", "b"]


def test_condition_that_never_comes_sends_the_gang_back(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    undone = bench.start(record)
    assert (undone.phase, undone.state.then, undone.state.transitions[-1].reason) == ("undoing", "queued", "NotReady")
    assert bench.names() == []


def test_lost_leadership_ends_the_wait(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    sleeps = []

    def lose() -> None:
        sleeps.append(bench.api.now)
        bench.office.lost = True

    bench.api.on_sleep = lose
    with pytest.raises(LostLeadership):
        bench.start(record)
    assert len(sleeps) == 1
    assert bench.again(record).phase == "dispatching"


@pytest.mark.parametrize("keep", ["true", "false"])
def test_foreign_object_is_left_alone(bench: t.Any, keep: str) -> None:
    foreign = bench.api.put(f"{JOBS}/b", bench.job("b"))
    kept = bench.api.put(f"{CONFIGMAPS}/c", bench.config("c"))
    wanted = bench.config("c", annotations={"muster.kube/keep": keep}) if keep == "true" else bench.job("b")
    undone = bench.start(bench.queue(bench.config("a"), wanted))
    assert (undone.phase, undone.state.then, undone.state.transitions[-1].reason) == ("undoing", "queued", "NameTaken")
    assert bench.names() == ["c", "b"]
    assert (bench.api.objects[f"{JOBS}/b"], bench.api.objects[f"{CONFIGMAPS}/c"]) == (foreign, kept)
