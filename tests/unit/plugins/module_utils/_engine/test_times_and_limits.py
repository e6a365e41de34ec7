# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the embedded engine: when it waits, how often it asks again, and what a new start forgets."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import OutcomeUnknown, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import state_in_ticket
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of, put_state

CONFIGMAPS = "/api/v1/namespaces/team/configmaps"


def test_late_requests_are_waited_for_half_a_lease_and_a_second(bench: t.Any) -> None:
    record = bench.start(bench.queue())
    undone = bench.engine.stop(record, "LostRace", "")
    bench.lease.epoch = "lease.1"
    wait = bench.lease.terms.seconds / 2 + 1
    bench.seconds += wait - 1
    assert bench.engine.finish_stop(undone, bench.plan(record)) is None
    bench.seconds += 1
    assert bench.engine.finish_stop(undone, bench.plan(record)).phase == "queued"


def test_a_gang_refused_in_passing_is_asked_again_after_half_a_minute(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", CONFIGMAPS, 403, 'configmaps "x" is forbidden: exceeded quota: q')
    assert read_time(bench.start(record).state.not_before) == bench.seconds + 30


def test_a_gang_refused_for_good_has_no_time_to_be_asked_again(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", CONFIGMAPS, 422, "no such thing")
    failed = bench.start(record)
    assert (failed.phase, failed.state.not_before) == ("failed", None)


def test_a_new_start_forgets_what_the_one_before_left(bench: t.Any) -> None:
    record = bench.queue()
    before = bench.engine.reclaim(record).state
    worn = dataclasses.replace(
        before,
        holding=True,
        made=7,
        then="failed",
        not_before="2026-01-01T00:00:00Z",
        started_at="2026-01-01T00:00:00Z",
    )
    raw = bench.again(record)
    record = put_state(bench.client, raw, worn, allowance=lambda: 5.0)
    bench.start(record)
    state = state_in_ticket(bench.api.objects[bench.ticket_path(record)])
    assert (state.phase, state.holding, state.then) == ("dispatching", False, None)
    assert (state.not_before, state.started_at) == (None, None)
    assert state.made < 7


def note(bench: t.Any, record: t.Any, name: str) -> None:
    """Somebody writes a label into the record."""
    raw = bench.api.objects[path_of(record)]
    labels = {**(raw["metadata"].get("labels") or {}), name: "x"}
    bench.api.put(path_of(record), {**raw, "metadata": {**raw["metadata"], "labels": labels}})


@pytest.mark.parametrize(("changes", "written"), [(5, True), (6, False)])
def test_others_who_change_the_record_stand_in_the_way_only_so_often(bench: t.Any, changes: int, written: bool) -> None:
    record = bench.start(bench.queue())
    for number in range(changes):
        bench.api.before("PUT", path_of(record), lambda name=f"note-{number}": note(bench, record, name))
    if not written:
        with pytest.raises(Superseded):
            bench.engine.reclaim(record, "b2")
        return
    claimed = bench.engine.reclaim(record, "b2")
    assert (claimed.state.batch, claimed.raw["metadata"]["labels"]["note-4"]) == ("b2", "x")


def test_the_start_is_written_over_what_others_noted_in_the_record(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.before("PUT", path_of(record), lambda: note(bench, record, "note"))
    started = bench.start(record)
    assert (started.phase, started.raw["metadata"]["labels"]["note"]) == ("dispatched", "x")


def test_starts_of_records_that_are_gone_are_let_go(bench: t.Any) -> None:
    record = bench.queue()
    bench.api.fail("POST", "/jobs", 500, times=99)
    with pytest.raises(OutcomeUnknown):
        bench.start(record)
    record = bench.again(record)
    assert bench.engine.state(record) == "waits"
    bench.engine.forget({record.uid})
    assert bench.engine.state(record) == "waits"
    bench.engine.forget({"other"})
    assert bench.engine.state(record) == "left"
