# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the embedded engine: moments that a real server does not show on demand. The rest: tests/integration."""

from __future__ import annotations

import dataclasses
import json
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import CHANGED_MEANWHILE
from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import NotBegun, StartGrant
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, OutcomeUnknown
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
    Superseded,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_KEY
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import build_ticket
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"


def test_state_of_a_start(bench: t.Any) -> None:
    record = bench.queue()
    claim = StartGrant("b1", ({"name": "b", "count": 1, "requests": {"cpu": 1}},), {"b": ("n1",)}, {"answer": "fits"})
    state = bench.engine.submit(record, bench.plan(record), claim).state
    assert (state.phase, state.batch, state.attempt, state.reserved) == ("dispatched", "b1", 1, claim.reserved)
    assert (state.steering, state.verdict, state.started_at) == ({"b": ("n1",)}, {"answer": "fits"}, bench.now())
    assert state.ticket_uid == bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"]
    assert [(item.phase, item.reason) for item in state.transitions] == [
        ("queued", "Submitted"),
        ("dispatching", "Chosen"),
        ("dispatched", "Started"),
    ]
    assert state.transitions[0].at == "2026-11-16T03:00:00.000000Z"


def test_state_that_does_not_fit_is_refused_before_anything_is_created(bench: t.Any) -> None:
    record = bench.queue()
    letters = random.Random(1)
    reserved = tuple({"name": f"{letters.getrandbits(300):x}", "count": 1, "requests": {}} for _n in range(1000))
    with pytest.raises(BadInput, match="fewer podsets"):
        bench.engine.submit(record, bench.plan(record), StartGrant("b1", reserved))
    crowded = dataclasses.replace(
        record, raw={**record.raw, "metadata": {**record.raw["metadata"], "annotations": {"x": "y" * 250_000}}}
    )
    with pytest.raises(BadInput, match="large annotations"):
        bench.start(crowded)
    broken = dataclasses.replace(record, spec=None, spec_problem="it is broken")
    with pytest.raises(BadInput, match="it is broken"):
        bench.engine.submit(broken, (), StartGrant("b1"))
    assert bench.api.writes == []


def rename_object(bench: t.Any, record: t.Any) -> None:
    """Its user changes what the gang consists of."""
    raw = bench.api.objects[path_of(record)]
    asked = json.loads(raw["data"][RECORD_KEY])
    asked["objects"][1]["metadata"]["name"] = "other"
    data, metadata = {**raw["data"], RECORD_KEY: json.dumps(asked)}, dict(raw["metadata"])
    bench.api.put(path_of(record), {**raw, "metadata": metadata, "data": data})


def test_gang_edited_before_its_start_was_written_down_is_taken_back(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.before("PUT", path_of(record), lambda: rename_object(bench, record))
    undone = bench.start(record)
    assert (undone.phase, undone.state.then, undone.why) == ("undoing", "queued", ("TakenOver", CHANGED_MEANWHILE))
    assert (bench.names(), bench.ticket_path(record) in bench.api.objects) == ([], False)
    again = bench.engine.finish_stop(bench.again(record), bench.plan(bench.again(record)))
    assert (again.phase, again.attempt) == ("queued", 2)


def test_start_written_down_after_another_holder_wrote_is_dropped(bench: t.Any) -> None:
    record = bench.queue()
    begun = bench.submit(record)
    bench.other_engine().reclaim(record)
    with pytest.raises(Superseded):
        bench.engine.save(begun)
    assert bench.ticket_path(record) in bench.api.objects


def test_record_deleted_before_the_start_drops_the_ticket(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.before("PUT", path_of(record), lambda: bench.api.objects.pop(path_of(record)))
    with pytest.raises(ObjectGone):
        bench.start(record)
    assert (bench.names(), bench.ticket_path(record) in bench.api.objects) == ([], False)


def test_record_that_cannot_be_written_keeps_no_children_and_gets_none_again(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("PUT", path_of(record), 403, "you may not")
    with pytest.raises(NotBegun, match="you may not"):
        bench.start(record)
    assert (bench.names(), bench.ticket_path(record) in bench.api.objects) == ([], False)
    bench.api.asked.clear()
    bench.api.fail("PUT", path_of(record), 403, "you may not")
    with pytest.raises(NotBegun, match="you may not"):
        bench.start(record)
    assert ("POST", JOBS) not in bench.api.writes
    assert bench.start(record).phase == "dispatched"


def test_record_deleted_at_the_end_takes_all_along_even_without_a_collector(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.before("POST", JOBS, lambda: bench.api.objects.pop(path_of(record)))
    with pytest.raises(ObjectGone):
        bench.start(record)
    assert (bench.names(), bench.ticket_path(record) in bench.api.objects) == ([], False)


def test_ticket_refused_settles_the_entry_without_an_undo(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", CONFIGMAPS, 403, 'configmaps "x" is forbidden: exceeded quota: q')
    queued = bench.start(record)
    assert (queued.phase, queued.attempt, queued.state.batch, queued.state.ticket_uid) == ("queued", 1, "b1", None)
    assert queued.state.not_before > bench.now()


def test_ticket_whose_name_somebody_has_settles_the_entry_and_is_left_alone(bench: t.Any) -> None:
    record = bench.queue()
    foreign = bench.config(bench.ticket_path(record).rpartition("/")[2], namespace=record.namespace, uid="foreign")
    bench.api.objects[bench.ticket_path(record)] = foreign
    settled = bench.start(record)
    assert settled.phase in ("queued", "failed")
    assert settled.state.ticket_uid is None
    assert bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"] == "foreign"


def test_ticket_whose_answer_was_lost_is_adopted_by_its_maker(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.lose("POST", CONFIGMAPS, times=1)
    started = bench.start(record)
    ticket = bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"]
    assert (started.phase, started.state.ticket_uid) == ("dispatched", ticket)
    assert [method for method, path in bench.api.writes if path == CONFIGMAPS] == ["POST", "POST"]


def test_ticket_of_a_dead_holder_is_replaced_after_a_write_to_the_record(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.lose("POST", CONFIGMAPS, times=1)
    bench.api.before("GET", bench.ticket_path(record), lambda: setattr(bench.lease, "lost", True))
    with pytest.raises(LostLeadership):
        bench.start(record)
    orphan = bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"]
    bench.api.asked.clear()
    started = bench.other_engine().submit(record, bench.plan(record), StartGrant("b1"))
    assert started.phase == "dispatched"
    assert started.state.ticket_uid == bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"] != orphan
    assert bench.api.writes[:4] == [
        ("POST", CONFIGMAPS),
        ("PUT", path_of(record)),
        ("DELETE", bench.ticket_path(record)),
        ("POST", CONFIGMAPS),
    ]


def test_stale_holder_leaves_the_ticket_of_the_new_one_alone(bench: t.Any) -> None:
    """The request for its ticket is under way while another holder, after the Lease was lost, starts the gang."""
    record = bench.queue()
    started: list[t.Any] = []

    def other_holder_starts() -> None:
        bench.lease.lost = True
        started.append(bench.other_engine().submit(record, bench.plan(record), StartGrant("b2")))

    bench.api.before("POST", CONFIGMAPS, other_holder_starts)
    with pytest.raises(LostLeadership):
        bench.start(record)
    state = started[0].state
    assert state.phase == "dispatched"
    assert bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"] == state.ticket_uid
    assert bench.names() == ["a", "b"]


def test_ticket_that_the_record_names_after_all_is_not_deleted(bench: t.Any) -> None:
    record = bench.queue()

    def named_by_somebody() -> None:
        ticket = bench.api.objects[bench.ticket_path(record)]["metadata"]["uid"]
        state = advance(new_state(bench.now(), "x/y/1"), "dispatching", bench.now(), "", "", "x/y/2", ticket_uid=ticket)
        raw = {
            **record.raw,
            "metadata": {**record.raw["metadata"], "annotations": {STATE_ANNOTATION: state_text(state)}},
        }
        bench.api.put(path_of(record), raw)

    bench.api.before("PUT", path_of(record), named_by_somebody)
    with pytest.raises(Superseded):
        bench.start(record)
    assert bench.ticket_path(record) in bench.api.objects


def test_lost_leadership_stops_even_the_undo(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 422, happens=lambda: setattr(bench.lease, "lost", True))
    with pytest.raises(LostLeadership):
        bench.start(record)
    assert (bench.again(record).phase, bench.names()) == ("queued", ["a"])
    assert bench.ticket_path(record) in bench.api.objects


def test_undo_writes_first_and_keeps_what_it_is_told(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    bench.api.asked.clear()
    undone = bench.engine.stop(
        record, "BelowMinimum", "too few", batch=None, then="failed", requeues=3, not_before="2030-01-01T00:00:00Z"
    )
    assert bench.api.writes[0] == ("PUT", path_of(record))
    state = undone.state
    assert (state.phase, state.then, state.batch, state.requeues) == ("undoing", "failed", "b1", 3)
    assert bench.names() == []
    done = bench.engine.finish_stop(undone, bench.plan(record))
    assert (done.phase, done.attempt, done.state.ticket_uid, done.state.reserved) == ("failed", 1, None, ())
    last = done.state.transitions[-1]
    assert (last.phase, last.reason, last.message) == ("failed", "BelowMinimum", "too few")
    assert done.state.started_at is not None


def edit(bench: t.Any, record: t.Any, *objects: t.Any) -> t.Any:
    """The record after its user has replaced the objects."""
    raw = bench.api.objects[path_of(record)]
    raw["data"][RECORD_KEY] = json.dumps({**json.loads(raw["data"][RECORD_KEY]), "objects": list(objects)})
    return bench.again(record)


@pytest.mark.parametrize("edited", ["before", "meanwhile", "never"])
def test_undo_removes_what_was_started_whatever_the_record_says(bench: t.Any, edited: str) -> None:
    record = bench.start(bench.queue())
    late = dict(bench.api.objects[f"{JOBS}/b"])
    other = bench.config("c")
    if edited == "before":
        record = edit(bench, record, other)
    bench.api.asked.clear()
    undone = bench.engine.stop(record, "LostRace", "")
    assert sorted(key[1] for key in undone.state.left) == ["ConfigMap", "Job"]
    looked = [path for method, path, _dry in bench.api.asked if method == "GET"]
    assert len(looked) == (4 if edited == "before" else 3)
    if edited == "meanwhile":
        undone = edit(bench, record, other)
    bench.api.put(f"{JOBS}/b", late)
    assert bench.engine.finish_stop(bench.again(record), bench.plan(undone)) is None
    assert bench.names() == []
    ended = bench.engine.finish_stop(bench.again(record), bench.plan(undone))
    assert (ended.phase, ended.state.left) == ("queued", ())


def test_undo_notes_not_too_many_objects(bench: t.Any) -> None:
    record = bench.start(bench.queue(*(bench.config(f"c{number}") for number in range(250))))
    assert len(bench.engine.stop(record, "LostRace", "").state.left) == 200


def test_end_of_an_undo_that_makes_no_sense_is_the_queue(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    undone = bench.engine.stop(record, "x", "", then="running")
    assert bench.engine.finish_stop(undone, bench.plan(record)).phase == "queued"


def test_undo_that_is_refused_is_repeated(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    bench.api.fail("DELETE", "muster-ticket", 403, times=2)
    undone = bench.engine.stop(record, "LostRace", "")
    assert (undone.phase, bench.names()) == ("undoing", ["a", "b"])
    with pytest.raises(Forbidden):
        bench.engine.finish_stop(undone, bench.plan(record))
    assert bench.engine.finish_stop(undone, bench.plan(record)) is None
    # An answer was missing once: one write timeout has to pass.
    assert bench.engine.finish_stop(undone, bench.plan(record)) is None
    bench.seconds += 7
    assert bench.engine.finish_stop(undone, bench.plan(record)).phase == "queued"


def test_undo_of_another_epoch_waits_for_late_requests(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    undone = bench.engine.stop(record, "LostRace", "")
    bench.lease.epoch = "lease.1"
    assert bench.engine.finish_stop(undone, bench.plan(record)) is None
    bench.seconds += 7
    assert bench.engine.finish_stop(undone, bench.plan(record)).attempt == 2


def test_undo_of_ours_does_not_wait(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    undone = bench.engine.stop(record, "LostRace", "")
    assert bench.engine.finish_stop(undone, bench.plan(record)).attempt == 2


def test_record_deleted_while_undone_is_no_error(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    undone = bench.engine.stop(record, "LostRace", "")
    del bench.api.objects[path_of(record)]
    assert bench.engine.finish_stop(undone, bench.plan(record)) is undone
    assert bench.engine.stop(record, "LostRace", "") is record


def test_unknown_outcome_then_resume(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 500, times=99)
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    assert bench.again(record).phase == "dispatching"
    bench.api.troubles.clear()
    bench.api.asked.clear()
    resumed = bench.engine.resume(bench.again(record), bench.plan(record))
    assert (resumed.phase, resumed.attempt, bench.names()) == ("dispatched", 1, ["a", "b"])
    assert bench.api.writes[0] == ("PUT", path_of(record))


def test_resume_without_the_ticket_undoes(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 500, times=99)
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    bench.api.troubles.clear()
    del bench.api.objects[bench.ticket_path(record)]
    undone = bench.engine.resume(bench.again(record), bench.plan(record))
    assert (undone.phase, undone.state.transitions[-1].reason) == ("undoing", "TakenOver")
    assert bench.engine.finish_stop(undone, bench.plan(record)) is None
    assert bench.names() == []
    bench.seconds += 7
    assert bench.engine.finish_stop(undone, bench.plan(record)).phase == "queued"


def test_refusal_after_a_takeover_waits_for_late_requests(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 500, times=99)
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    bench.api.troubles.clear()
    bench.api.fail("POST", JOBS, 422)
    undone = bench.engine.resume(bench.again(record), bench.plan(record))
    assert (undone.phase, undone.state.then) == ("undoing", "failed")
    assert bench.engine.finish_stop(undone, bench.plan(record)) is None
    bench.seconds += 7
    assert bench.engine.finish_stop(undone, bench.plan(record)).phase == "failed"


def test_resume_that_somebody_else_was_faster_with_is_given_up(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", JOBS, 500, times=99)
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    bench.api.troubles.clear()
    stuck = bench.again(record)
    bench.engine.reclaim(stuck)
    bench.api.asked.clear()
    with pytest.raises(Superseded):
        bench.engine.resume(stuck, bench.plan(record))
    assert bench.api.writes == [("PUT", path_of(record))]


def test_what_a_deleted_record_left_is_removed_without_a_collector(bench: t.Any) -> None:
    record = bench.queue()
    started = bench.start(record)
    ticket = bench.api.objects[bench.ticket_path(started)]
    assert not bench.engine.remove_orphaned_ticket(ticket)
    assert len(bench.names()) == 2
    bench.api.objects.pop(path_of(record))
    assert bench.engine.remove_orphaned_ticket(ticket)
    assert (bench.names(), bench.ticket_path(record) in bench.api.objects) == ([], False)
    assert not bench.engine.remove_orphaned_ticket(ticket)


def test_another_record_of_the_same_name_does_not_keep_them(bench: t.Any) -> None:
    started = bench.start(bench.queue())
    ticket = bench.api.objects[bench.ticket_path(started)]
    bench.api.objects[path_of(started)]["metadata"]["uid"] = "another"
    assert bench.engine.remove_orphaned_ticket(ticket)
    assert bench.names() == []


def test_a_ticket_that_only_looks_like_one_is_left_alone(bench: t.Any) -> None:
    started = bench.start(bench.queue())
    ticket = bench.api.objects[bench.ticket_path(started)]
    bench.api.objects.pop(path_of(started))
    forged = {**ticket, "metadata": {**ticket["metadata"], "name": "forged"}}
    assert not bench.engine.remove_orphaned_ticket(forged)
    assert len(bench.names()) == 2


def test_orphan_ticket_is_deleted_rather_than_rebuilt_from(bench: t.Any) -> None:
    record = bench.queue()
    ticket = bench.api.put(bench.ticket_path(record), build_ticket(record.raw, 1, "d", bench.plan(record)))
    assert bench.engine.rebuild(record, ticket) is record
    assert bench.api.writes == [("DELETE", bench.ticket_path(record))]


def test_rebuild_of_a_changed_gang_undoes_the_attempt(bench: t.Any) -> None:
    started = bench.start(bench.queue())
    ticket = bench.api.objects[bench.ticket_path(started)]
    del bench.api.objects[path_of(started)]
    raw = dict(bench.queue(bench.config("other")).raw)
    raw["metadata"]["uid"] = started.uid
    bench.api.put(path_of(started), raw)
    undone = bench.engine.rebuild(bench.again(started), ticket)
    assert (undone.phase, undone.attempt, undone.state.ticket_uid) == ("undoing", 1, ticket["metadata"]["uid"])
    assert "changed" in undone.state.transitions[-1].message
    assert bench.names() == []


def test_rebuild_from_somebody_elses_ticket_changes_nothing(bench: t.Any) -> None:
    started = bench.start(bench.queue())
    other = bench.queue(bench.config("other"), name="gang2")
    assert bench.engine.rebuild(other, bench.api.objects[bench.ticket_path(started)]) is other
    assert bench.api.writes == []


def test_reclaim_changes_nothing_but_the_write_id_and_the_batch(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    bench.lease.epoch = "lease2.0"
    claimed = bench.engine.reclaim(record, "b2")
    assert claimed.state.write_id.startswith("me_1/lease2.0/")
    assert dataclasses.replace(claimed.state, write_id=record.state.write_id, batch="b1") == record.state
    fresh = bench.engine.reclaim(bench.queue(bench.config("x"), name="gang2"))
    assert (fresh.phase, fresh.attempt, fresh.state.batch) == ("queued", 1, None)


def test_damaged_state_is_no_obstacle_to_an_undo(bench: t.Any) -> None:
    record = bench.queue()
    record.raw["metadata"]["annotations"] = {STATE_ANNOTATION: "{"}
    bench.api.put(path_of(record), record.raw)
    damaged = bench.again(record)
    assert (damaged.state, damaged.phase) == (None, "queued")
    undone = bench.engine.stop(damaged, "Suspended", "", then="suspended")
    assert (undone.phase, undone.state.then) == ("undoing", "suspended")
    with pytest.raises(BadInput, match="state of gang team/gang"):
        bench.engine.finish_stop(damaged, ())
