# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recovering: whatever was left half done, replaced, forged or taken away, the next cycle brings it to an end."""

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang import batch as batches
from ansible_collections.muster.kube.plugins.module_utils._model.gang import start_size
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_KEY
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set import packing
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text, read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STATE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    build_ticket,
    plan_objects,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import promise_of, sized_gang
from ansible_collections.muster.kube.tests.support.api_proxy import assert_no_writes
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, actions, told, wait_gone
from ansible_collections.muster.kube.tests.support.gang_cases import config_map, service
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualProxy

Object = dict[str, t.Any]


def make_ticket(stage: Stage, record: Record) -> Object:
    """The ticket of a record's next attempt, as a dispatcher leaves it that was killed right after it."""
    assert record.spec is not None
    plan = plan_objects(record.spec, record.uid, record.attempt)
    return stage.cluster.create(build_ticket(record.raw, record.attempt, digest(record.spec), plan))[0]


def uid_of(stage: Stage, obj: Object) -> str | None:
    """The uid of a live object."""
    found = stage.find(obj)
    return None if found is None else str(found["metadata"]["uid"])


def promised(*records: Record, **more: t.Any) -> list[tuple[Entry, batches.Demand]]:
    """Starts of these gangs, to be committed."""
    return [
        (
            Entry("start", item.namespace, item.name, item.uid, item.attempt, **more),
            promise_of(sized_gang(item, Snapshot()), {}, None),
        )
        for item in records
        if item.spec is not None
    ]


def leave_batch(stage: Stage, *records: Record) -> str:
    """A Lease whose last holder committed starts of these gangs and did nothing more; the batch's id."""
    left, surplus = pack(promised(*records), "old.1", "old/1/1")
    assert not surplus
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": stage.lease.name,
            "namespace": stage.lease.namespace,
            "annotations": {batches.BATCH_ANNOTATION: batch_text(left)},
        },
        "spec": {"leaseTransitions": 1, "leaseDurationSeconds": 5},
    }
    stage.cluster.create(lease)
    return left.id


def last_batch(stage: Stage) -> batches.Batch:
    """The batch in the Lease."""
    lease = get_object(stage.client, stage.lease_path) or {}
    found = read_batch(lease["metadata"]["annotations"][batches.BATCH_ANNOTATION]).batch
    assert found is not None
    return found


def test_a_ticket_that_its_record_does_not_name_is_deleted(stage: Stage) -> None:
    stage.add_nodes(1, cpu="1")
    waiting = stage.submit("waiting", stage.job("waiting", 1, cpu="2"))
    orphan = make_ticket(stage, waiting)
    result = stage.run()
    assert actions(result, "waiting") == ["wait"]
    assert stage.tickets() == []
    # Once more for a record that has a state.
    make_ticket(stage, stage.record("waiting"))
    assert actions(stage.run(), "waiting") == ["wait"]
    assert stage.tickets() == []
    assert stage.record("waiting").attempt == 1
    assert orphan["metadata"]["name"] == ticket_name(waiting.uid, 1)


def test_a_record_replaced_by_another_gang_is_undone_and_starts_anew(stage: Stage) -> None:
    stage.add_nodes(1)
    raw = stage.submit("gang", stage.job("before")).raw
    stage.run_until({"gang": "running"})
    stage.edit("gang", objects=[stage.job("after")])
    stage.annotate("gang", **{STATE_ANNOTATION: None})
    stage.run_until({"gang": "running"})
    assert stage.state("gang").attempt == 2
    assert uid_of(stage, stage.job("before")) is None
    assert uid_of(stage, stage.job("after")) is not None
    assert stage.record("gang").uid == raw["metadata"]["uid"]


def test_of_two_gangs_with_the_same_objects_the_second_waits(stage: Stage) -> None:
    stage.add_nodes(2)
    first = stage.submit("first", stage.job("shared"))
    stage.run_until({"first": "running"})
    stage.submit("second", stage.job("shared"))
    decision = told(stage.run(), "second")
    assert (decision.action, decision.reason, decision.attempt) == ("wait", "name_taken", 1)
    assert f"{stage.namespace}/first" in decision.message
    delete(stage.client, stage.cluster.path(first.raw))
    wait_gone("the first gang's Job", lambda: stage.find(stage.job("shared")))
    stage.run_until({"second": "running"})
    assert stage.state("second").attempt == 1


def test_of_two_gangs_with_the_same_objects_only_one_starts_in_a_cycle(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.submit("first", stage.job("shared"))
    stage.submit("second", stage.job("shared"))
    result = stage.run()
    assert sorted(told(result, name).action for name in ("first", "second")) == ["start", "wait"]
    assert [item.reason for item in result.decisions if item.action == "wait"] == ["name_taken"]


@pytest.mark.parametrize("moment", ["objects", "record"])
def test_a_record_deleted_mid_start(proxied: Stage, proxy: VirtualProxy, moment: str) -> None:
    proxied.add_nodes(1)
    record = proxied.submit("gang", service("gang-s"), proxied.job("gang"))
    # Of a Job the first request only pretends; of the record the first is the one that says `dispatched`.
    objects = moment == "objects"
    path = "/jobs$" if objects else "/configmaps/gang$"
    proxied.run(max_starts=0)

    def delete_record() -> None:
        """The user deletes the gang, and the collector is quick."""
        delete(proxied.client, proxied.cluster.path(record.raw))
        wait_gone("the ticket", proxied.tickets)

    rule = proxy.interrupt(delete_record, method="POST" if objects else "PUT", path=path, first=1 + objects)
    proxied.run()
    assert rule.matched >= 1 + objects
    for obj in (service("gang-s"), proxied.job("gang")):
        wait_gone(f"{obj['kind']} of the gang", lambda obj=obj: proxied.find(obj))
    wait_gone("the pods", proxied.pods)
    assert [item.action for item in proxied.run().decisions] == []


def test_under_a_new_lease_nothing_is_written_before_earlier_holders_have_lost_theirs(
    proxied: Stage, proxy: VirtualProxy
) -> None:
    proxied.add_nodes(1, cpu="1")
    proxied.submit("gang", proxied.job("gang", 1, cpu="1"))
    with proxied.without_lease():
        proxied.run()
    assert proxied.phase("gang") == "dispatched"
    assert [line for line in proxied.lines if "is new: waiting" in line]
    writes = [request for request in proxy.requests if request.write]
    other = next(index for index, request in enumerate(writes) if "/leases" not in request.path)
    lease = writes[:other]
    # Created, renewed while it waited, and the commit: only then something else is written.
    assert [request.method for request in lease] == ["POST"] + ["PUT"] * (len(lease) - 1)
    assert len(lease) >= 3


def test_an_entry_that_was_never_begun_is_settled_before_anything_new(stage: Stage) -> None:
    stage.add_nodes(1, cpu="1")
    record = stage.submit("gang", stage.job("gang", 1, cpu="1"))
    left = leave_batch(stage, record)
    make_ticket(stage, record)
    result = stage.run(max_starts=0)
    assert (told(result, "gang").action, stage.state("gang").batch) == ("wait", left)
    assert [item.reason for item in result.decisions if item.action == "recover"] == ["Settled"]
    assert stage.tickets() == []
    stage.run()
    assert stage.phase("gang") == "dispatched"
    assert last_batch(stage).id == stage.state("gang").batch != left


def test_while_an_entry_is_not_settled_its_room_is_kept_and_no_batch_follows(
    proxied: Stage, proxy: VirtualProxy
) -> None:
    proxied.add_nodes(1, cpu="2")
    record = proxied.submit("first", proxied.job("first", 1, cpu="2"))
    left = leave_batch(proxied, record)
    proxied.submit("other", proxied.job("other", 1, cpu="1"), priority=5)
    path = proxied.cluster.path(record.raw)

    def write_record() -> None:
        """The user changes what is asked for at the same moment."""
        text = json.dumps({**json.loads(record.raw["data"][RECORD_KEY]), "priority": 1})
        patch(proxied.client, path, {"data": {RECORD_KEY: text}}, patch_type="merge")

    proxy.interrupt(write_record, method="PUT", path="/configmaps/first$")
    decision = told(proxied.run(), "other")
    assert decision.action == "wait"
    assert decision.verdict is not None
    assert decision.verdict["layers"][-1]["totals"]["cpu"]["free"] == "0"
    assert last_batch(proxied).id == left
    assert told(proxied.run(), "other").action == "start"


def test_an_entry_whose_record_cannot_be_written_is_given_up(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1, cpu="2")
    record = proxied.submit("stuck", proxied.job("stuck", 1, cpu="1"))
    leave_batch(proxied, record)
    make_ticket(proxied, record)
    proxied.submit("other", proxied.job("other", 1, cpu="1"))
    proxy.fail(status=403, method="PUT", path="/configmaps/stuck$", times=None, message="denied by the test")
    result = proxied.run(max_starts=0)
    assert any("cannot be written" in text and "denied by the test" in text for text in result.warnings)
    assert proxied.tickets() == []
    assert last_batch(proxied).entries == ()
    assert told(proxied.run(), "other").action == "start"
    assert proxied.find(proxied.job("stuck")) is None
    proxy.clear()
    assert told(proxied.run(), "stuck").action == "start"


def test_what_one_batch_cannot_hold_follows_in_the_next(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.add_nodes(2)
    stage.submit("first", stage.podless_job("first"), priority=3)
    stage.run()
    stage.submit("second", stage.job("second"), priority=2)
    stage.submit("third", stage.job("third"), priority=1)
    # Room for one entry with its demand, and not for two; there is no quota tree to be named.
    monkeypatch.setattr(start_size, "_QUOTA", "")
    first = last_batch(stage)
    terms = {"at": first.entries[0].at, "patience": first.entries[0].patience}
    lease, _dot, transitions = first.epoch.rpartition(".")
    epoch = f"{lease}.{int(transitions) + 1}"
    both, _surplus = pack(promised(stage.record("second"), **terms), epoch, f"{epoch}/3", first)
    size = len(batch_text(dataclasses.replace(both, unlisted_since=2**53)))
    monkeypatch.setattr(packing, "START_BYTES", size + 10)
    result = stage.run()
    assert told(result, "second").action == "start"
    assert [stage.phase(name) for name in ("first", "second", "third")] == ["dispatched", "dispatched", "queued"]
    # The first is open until its pods are bound; the second is over by the time the third finds room.
    assert [entry.name for entry in last_batch(stage).entries] == ["first", "second"]
    stage.run_until({"second": "running", "third": "running"})
    assert [entry.name for entry in last_batch(stage).entries] == ["first"]


def test_a_specification_edited_after_the_start_is_ignored(stage: Stage) -> None:
    stage.add_nodes(1, cpu="8")
    stage.submit("gang", stage.podless_job("gang", 2, cpu="1"))
    stage.run()
    stage.edit("gang", objects=[stage.podless_job("gang", 6, cpu="1")])
    stage.submit("other", stage.job("other", 1, cpu="6"))
    result = stage.run()
    assert told(result, "other").action == "start"
    record, node = stage.record("gang"), f"{stage.pool}-n0"
    for name in ("one", "two"):
        stage.gang_pod(record, name, "gang", node)
    stage.run_until({"gang": "running"})
    job = stage.find(stage.job("gang"))
    assert job is not None
    assert job["spec"]["parallelism"] == 2
    assert any("edited" in event.get("message", "") for event in stage.events("gang"))


def test_a_gang_whose_objects_were_renamed_after_the_start_still_ends(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("gang", stage.job("gang", 1, seconds=0))
    stage.run()
    stage.edit("gang", objects=[stage.job("other", 1, seconds=0)])
    stage.run_until({"gang": "complete"})
    assert uid_of(stage, stage.job("gang")) is not None
    assert uid_of(stage, stage.job("other")) is None


def test_a_suspended_gang_is_undone_and_starts_again_when_resumed(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("gang", stage.job("gang"))
    stage.run_until({"gang": "running"})
    first = uid_of(stage, stage.job("gang"))
    stage.edit("gang", suspended=True)
    stage.run_until({"gang": "suspended"})
    assert (stage.find(stage.job("gang")), stage.tickets(), stage.pods()) == (None, [], [])
    assert stage.run().changed is False
    stage.edit("gang", suspended=False)
    stage.run_until({"gang": "running"})
    state = stage.state("gang")
    assert (state.attempt, state.requeues) == (2, 0)
    assert uid_of(stage, stage.job("gang")) not in (None, first)


@pytest.mark.parametrize("phase", ["undoing", "queued", "dispatching", "complete", "running"])
def test_a_forged_state_deletes_nothing(stage: Stage, phase: str) -> None:
    stage.add_nodes(1)
    victim = stage.submit("victim", stage.job("victim"), config_map("victim-c"))
    stage.run_until({"victim": "running"})
    alive = {obj["metadata"]["name"]: uid_of(stage, obj) for obj in (stage.job("victim"), config_map("victim-c"))}
    ticket = stage.tickets()[0]
    forger = stage.submit("forger", stage.job("victim"))
    copied = json.loads(victim_state := stage.record("victim").raw["metadata"]["annotations"][STATE_ANNOTATION])
    forged = {**copied, "phase": phase, "then": "failed", "ticket": ticket["metadata"]["uid"]}
    stage.annotate("forger", **{STATE_ANNOTATION: json.dumps(forged)})
    # And a ticket of the forger's own making that lists what is not his.
    stage.cluster.create(_forged_ticket(forger, ticket))
    for _turn in range(2):
        stage.run(start_timeout=0.0)
    names = {obj["metadata"]["name"]: uid_of(stage, obj) for obj in (stage.job("victim"), config_map("victim-c"))}
    assert names == alive
    assert ticket["metadata"]["uid"] in [item["metadata"]["uid"] for item in stage.tickets()]
    assert stage.record("victim").raw["metadata"]["annotations"][STATE_ANNOTATION] == victim_state
    assert stage.record("victim").uid == victim.uid


def _forged_ticket(forger: Record, ticket: Object) -> Object:
    """A ticket of one record that lists the objects of another's."""
    made = build_ticket(forger.raw, 1, "none", ())
    return {**made, "data": {**made["data"], "objects": ticket["data"]["objects"]}}


def test_a_finished_gang_is_deleted_when_its_time_is_over(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.submit("brief", stage.job("brief", 1, seconds=0), ttl=1)
    stage.submit("kept", stage.job("kept", 1, seconds=0))
    stage.run_until({"kept": "complete"})
    gone = stage.run_for(lambda phases: len(phases) == 1)
    assert actions(gone, "brief")[-1] == "expire"
    assert stage.raw("brief") is None
    wait_gone("the Job of the gang", lambda: stage.find(stage.job("brief")))
    assert stage.phase("kept") == "complete"


def test_a_record_without_room_for_its_state_is_refused_once(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.add_nodes(1)
    proxied.submit("gang", proxied.job("gang"))
    # As kubectl apply leaves a copy of a large record.
    proxied.annotate("gang", **{"kubectl.kubernetes.io/last-applied-configuration": "x" * 240_000})
    decision = told(proxied.run(), "gang")
    assert decision.phase == "failed"
    assert "annotations leave" in decision.message
    assert [item for item in proxy.writes if item.method == "POST" and item.path.endswith("/configmaps")] == []
    proxy.forget()
    assert proxied.run().changed is False
    assert {item.path for item in proxy.writes} == {proxied.lease_path}


def test_an_unreadable_edit_after_the_start_frees_nothing(stage: Stage) -> None:
    stage.add_nodes(1, cpu="2")
    stage.submit("gang", stage.podless_job("gang", 1, cpu="2"))
    stage.run()
    path = resource_path("v1", "configmaps", stage.namespace, "gang")
    patch(stage.client, path, {"data": {"gang.json": "{"}}, patch_type="merge")
    stage.submit("other", stage.job("other", 1, cpu="2"))
    decision = told(stage.run(), "other")
    assert (decision.action, decision.reason) == ("wait", "insufficient")
    assert stage.phase("gang") == "dispatched"
    assert stage.find(stage.job("gang")) is not None


def test_a_run_for_some_gangs_leaves_the_others_alone_and_gives_them_no_room(
    proxied: Stage, proxy: VirtualProxy
) -> None:
    proxied.add_nodes(1, cpu="2")
    proxied.submit("first", proxied.job("first", 1, cpu="2"), priority=1)
    mine = proxied.submit("mine", proxied.job("mine", 1, cpu="2"))
    proxied.run(max_starts=0)
    proxy.forget()
    result = proxied.run(only=frozenset({mine.uid}))
    assert (told(result, "first").action, told(result, "first").reason) == ("wait", "not_asked")
    assert told(result, "mine").action == "start"
    assert [item.path for item in proxy.writes if item.path.endswith("/first")] == []
    assert proxied.find(proxied.job("first")) is None


def test_a_cycle_with_nothing_to_recover_writes_nothing(proxied: Stage, proxy: VirtualProxy) -> None:
    proxied.run()
    proxy.forget()
    assert proxied.run().changed is False
    proxy.requests = [item for item in proxy.requests if item.path != proxied.lease_path]
    assert_no_writes(proxy)
    assert resource_path("v1", "configmaps", proxied.namespace) in [item.path for item in proxy.requests]
