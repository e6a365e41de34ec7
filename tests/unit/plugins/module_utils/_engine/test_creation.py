# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of creation: order, leftovers, conditions to wait for. Faults of every write: tests/integration."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import READY_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import CHANGED_MEANWHILE
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import OutcomeUnknown
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"


def leftover_of_attempt_1(bench: t.Any) -> tuple[t.Any, t.Any]:
    """A gang that is queued for attempt 2, and its job of attempt 1 that nobody collected."""
    record = bench.start(bench.queue())
    job = dict(bench.api.objects[f"{JOBS}/b"])
    bench.engine.stop(record, "LostRace", "")
    bench.engine.finish_stop(bench.again(record), bench.plan(record))
    return bench.again(record), bench.api.put(f"{JOBS}/b", job)


def test_objects_are_created_in_order_after_the_ticket_and_the_record_is_written_once(bench: t.Any) -> None:
    record = bench.queue()
    begun = bench.submit(record)
    assert (begun.phase, begun.unsaved, bench.again(record).phase) == ("dispatched", True, "queued")
    assert bench.api.writes == [("POST", CONFIGMAPS), ("POST", CONFIGMAPS), ("POST", JOBS)]
    saved = bench.engine.save(begun)
    assert bench.api.writes[3:] == [("PUT", path_of(record))]
    assert (saved.unsaved, bench.again(record).state) == (False, begun.state)
    assert [item.phase for item in saved.state.transitions] == ["queued", "dispatching", "dispatched"]


@pytest.mark.parametrize("part", ["ownerReferences", "labels"])
def test_object_that_lost_what_we_know_it_by_is_deleted_at_once_and_the_gang_fails(bench: t.Any, part: str) -> None:
    record = bench.queue()
    bench.api.admit(f"{JOBS}$", lambda obj: obj["metadata"].pop(part))
    undone = bench.start(record)
    last = undone.state.transitions[-1]
    assert (undone.phase, undone.state.then, last.reason) == ("undoing", "failed", "Refused")
    assert last.message.startswith("Job team/b: an admission webhook removed ")
    assert bench.names() == []


def test_kept_object_that_is_there_already_may_have_lost_its_labels(bench: t.Any) -> None:
    record = bench.start(bench.queue(bench.config("a", annotations={"muster.kube/keep": "true"}), bench.job("b")))
    bench.engine.stop(record, "LostRace", "")
    bench.engine.finish_stop(bench.again(record), bench.plan(record))
    del bench.api.objects[f"{CONFIGMAPS}/a"]["metadata"]["labels"]
    assert bench.start(bench.again(record)).phase == "dispatched"


def test_leftover_is_deleted_by_uid_and_replaced(bench: t.Any) -> None:
    record, old = leftover_of_attempt_1(bench)
    bench.api.asked.clear()
    started = bench.start(record)
    assert (started.phase, started.attempt) == ("dispatched", 2)
    assert ("DELETE", f"{JOBS}/b") in bench.api.writes
    assert bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"] != old["metadata"]["uid"]


def test_leftover_that_stays_is_waited_for_and_keeps_nobody(bench: t.Any) -> None:
    record, old = leftover_of_attempt_1(bench)
    bench.api.fail("DELETE", f"{JOBS}/b", 200, times=2)
    waiting = bench.start(record)
    assert (waiting.phase, bench.engine.state(waiting)) == ("dispatching", "waits")
    assert "does not go" in bench.engine.reason(waiting)
    assert bench.engine.go_on(waiting, bench.plan(waiting)).phase == "dispatching"
    assert bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"] == old["metadata"]["uid"]
    started = bench.engine.go_on(waiting, bench.plan(waiting))
    assert (started.phase, bench.engine.reason(started)) == ("dispatched", None)
    assert bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"] != old["metadata"]["uid"]


def test_condition_is_looked_for_without_waiting_and_each_object_is_sent_once(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    waiting = bench.start(record)
    assert (waiting.phase, bench.names(), bench.api.now) == ("dispatching", ["b"], 1000.0)
    assert bench.engine.reason(waiting) == "Job team/b is not Ready=True yet"
    bench.api.asked.clear()
    for _look in range(3):
        assert bench.engine.go_on(waiting, bench.plan(waiting)).phase == "dispatching"
    assert bench.api.asked == [("GET", f"{JOBS}/b", False)] * 3
    bench.api.objects[f"{JOBS}/b"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    bench.api.asked.clear()
    assert bench.engine.go_on(waiting, bench.plan(waiting)).phase == "dispatched"
    assert bench.api.writes == [("POST", CONFIGMAPS), ("PUT", path_of(record))]
    assert bench.names() == ["a", "b"]


def test_start_that_waits_is_taken_over_by_another_holder(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    waiting = bench.start(record)
    uid = bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"]
    other = bench.other_engine()
    assert other.state(waiting) == "left"
    taken = other.resume(waiting, bench.plan(waiting))
    assert (taken.phase, other.state(taken), bench.engine.state(taken)) == ("dispatching", "waits", "left")
    bench.api.objects[f"{JOBS}/b"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    assert other.go_on(taken, bench.plan(taken)).phase == "dispatched"
    assert bench.api.objects[f"{JOBS}/b"]["metadata"]["uid"] == uid


@pytest.mark.parametrize("holder", ["same", "other"])
def test_object_that_ends_by_itself_is_not_created_again(bench: t.Any, holder: str) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Complete=True"}), bench.config("a"))
    waiting = bench.start(record)
    assert waiting.state.made == 1
    del bench.api.objects[f"{JOBS}/b"]
    bench.api.asked.clear()
    engine = bench.engine if holder == "same" else bench.other_engine()
    go_on = engine.go_on if holder == "same" else engine.resume
    assert go_on(waiting, bench.plan(waiting)).phase == "dispatching"
    assert [write for write in bench.api.writes if write[0] == "POST"] == []
    # Somebody saw that it had done its work before it went.
    done = dataclasses.replace(waiting.state, outcomes={0: "succeeded"})
    waiting = dataclasses.replace(bench.again(waiting), state=done)
    assert bench.other_engine().resume(waiting, bench.plan(waiting)).phase == "dispatched"
    assert bench.names() == ["a"]


def test_object_that_was_created_before_a_later_one_is_not_created_again(bench: t.Any) -> None:
    record = bench.queue(bench.job("b"), bench.config("a"), bench.job("c"))

    def stop() -> None:
        """From the last object on nothing can be created."""
        bench.api.fail("POST", f"{JOBS}$", 500, times=9)

    bench.api.before("POST", f"{CONFIGMAPS}$", lambda: bench.api.before("POST", f"{CONFIGMAPS}$", stop))
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    bench.api.troubles.clear()
    del bench.api.objects[f"{JOBS}/b"]
    other = bench.other_engine()
    taken = other.resume(bench.again(record), bench.plan(record))
    assert (taken.phase, taken.state.made, bench.names()) == ("dispatching", 2, ["a"])
    assert other.reason(taken) == "Job team/b is gone, and nobody saw how it ended"


def test_start_of_a_gang_that_was_edited_while_it_waited_is_taken_back(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    waiting = bench.start(record)
    edited = dataclasses.replace(waiting, spec=dataclasses.replace(waiting.spec, objects=waiting.spec.objects[:1]))
    undone = bench.engine.go_on(edited, bench.plan(waiting))
    assert (undone.phase, undone.state.then, bench.names()) == ("undoing", "queued", [])
    assert undone.state.transitions[-1].message == CHANGED_MEANWHILE


def test_start_after_trouble_goes_on_where_it_stopped(bench: t.Any) -> None:
    record = bench.queue(bench.config("a"), bench.job("b"))
    bench.api.fail("POST", JOBS, 500, times=20)
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    left = bench.again(record)
    bench.api.troubles.clear()
    bench.api.asked.clear()
    assert bench.engine.state(left) == "waits"
    assert bench.engine.go_on(left, bench.plan(left)).phase == "dispatched"
    assert bench.api.writes == [("POST", JOBS), ("PUT", path_of(record))]


def test_lost_leadership_ends_a_start_that_waits(bench: t.Any) -> None:
    record = bench.queue(bench.job("b", annotations={READY_ANNOTATION: "Ready=True"}), bench.config("a"))
    waiting = bench.start(record)
    bench.api.objects[f"{JOBS}/b"]["status"] = {"conditions": [{"type": "Ready", "status": "True"}]}
    bench.lease.lost = True
    with pytest.raises(LostLeadership):
        bench.engine.go_on(waiting, bench.plan(waiting))
    assert (bench.again(record).phase, bench.names()) == ("dispatching", ["b"])


@pytest.mark.parametrize("keep", ["true", "false"])
def test_foreign_object_is_left_alone(bench: t.Any, keep: str) -> None:
    foreign = bench.api.put(f"{JOBS}/b", bench.job("b"))
    kept = bench.api.put(f"{CONFIGMAPS}/c", bench.config("c"))
    wanted = bench.config("c", annotations={"muster.kube/keep": keep}) if keep == "true" else bench.job("b")
    undone = bench.start(bench.queue(bench.config("a"), wanted))
    assert (undone.phase, undone.state.then, undone.state.transitions[-1].reason) == ("undoing", "queued", "NameTaken")
    assert bench.names() == ["c", "b"]
    assert (bench.api.objects[f"{JOBS}/b"], bench.api.objects[f"{CONFIGMAPS}/c"]) == (foreign, kept)
