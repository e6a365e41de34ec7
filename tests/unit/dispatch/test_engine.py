# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The embedded engine over a cluster in memory: whole or not at all, whatever happens to any of its writes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import OutcomeUnknown
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
    Superseded,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STATE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    build_ticket,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import (
    Records,
    create_record,
    delete_record,
    path_of,
    replace_record,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import NameTaken
from ansible_collections.muster.kube.tests.support.engine_stage import (
    FAULTS,
    GRANT,
    EngineStage,
    config,
    job,
    service,
    start_with_each_fault,
    undo_with_each_fault,
)
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.virtual_stage import VirtualCluster, VirtualProxy


@pytest.fixture
def stage(cluster: VirtualCluster, namespace: str, proxy: VirtualProxy) -> EngineStage:
    """An engine in office."""
    return EngineStage(cluster, namespace, proxy.kubeconfig)


def test_dry_run_asks_once_for_each_object_and_changes_nothing(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")
    outcome = stage.dry_run(record)
    assert (outcome.refusal, outcome.not_checked, outcome.taken) == (None, (), None)
    assert (len(proxy.dry_runs), proxy.writes) == (3, [])
    assert stage.there(record) == []


def test_foreign_object_in_the_way_is_named_and_left_alone(stage: EngineStage) -> None:
    foreign = stage.cluster.create({**service("gang-b"), "metadata": {"name": "gang-b", "namespace": stage.namespace}})
    record = stage.three("gang")
    undone = stage.start(record)
    assert undone.phase == "undoing"
    done = stage.finish(record)
    assert done.phase == "queued"
    assert done.state is not None
    assert (done.state.attempt, done.state.ticket_uid, done.state.reserved) == (2, None, ())
    assert done.state.not_before is not None
    undoing = done.state.transitions[-2]
    assert (undoing.reason, f"Service {stage.namespace}/gang-b" in undoing.message) == ("NameTaken", True)
    assert stage.there(record) == ["gang-b"]
    left = stage.get(service("gang-b"))
    assert left is not None
    assert left["metadata"]["uid"] == foreign[0]["metadata"]["uid"]


def test_unknown_kind_fails_without_a_ticket(stage: EngineStage, proxy: VirtualProxy) -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    record = stage.submit("gang", config("a"), thing, podsets=[{"name": "x", "count": 1, "requests": {"cpu": "1"}}])
    failed = stage.start(record)
    assert failed.state is not None
    assert (failed.phase, failed.state.batch) == ("failed", "batch-1")
    assert "example.com/v1 Thing" in failed.state.transitions[-1].message
    assert [request.method for request in proxy.writes] == ["PUT"]


def test_leftover_of_an_older_attempt_is_replaced(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")
    first = stage.start(record)
    old = stage.get(service("gang-b"))
    assert old is not None
    stage.engine.stop(first, "LostRace", "", then="queued")
    queued = stage.finish(record)
    # A late child of attempt 1; the finalizer keeps it until attempt 2 has met it.
    metadata = {key: old["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    stage.cluster.create({**service("gang-b"), "metadata": {**metadata, "finalizers": ["example.com/wait"]}})

    def let_go() -> None:
        """Whoever held it back has done its work."""
        patch(stage.client, stage.cluster.path(old), {"metadata": {"finalizers": None}})

    proxy.interrupt(let_go, method="DELETE", path="/services/gang-b$")
    started = stage.start(queued)
    assert (started.phase, started.attempt) == ("dispatched", 2)
    new = stage.get(service("gang-b"))
    assert new is not None
    assert new["metadata"]["labels"]["muster.kube/attempt"] == "2"
    stage.assert_whole(started)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_write_of_a_start(stage: EngineStage, proxy: VirtualProxy, fault: str) -> None:
    start_with_each_fault(stage, proxy, fault)


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_write_of_an_undo(stage: EngineStage, proxy: VirtualProxy, fault: str) -> None:
    undo_with_each_fault(stage, proxy, fault)


@pytest.mark.parametrize(
    ("status", "message", "phase", "reason"),
    [
        (403, 'pods "x" is forbidden: exceeded quota: small, requested: cpu=1', "queued", "QuotaRefused"),
        (403, 'jobs.batch "x" is forbidden: violates PodSecurity "restricted:latest"', "failed", "Refused"),
        (409, "Operation cannot be fulfilled on resourcequotas: changed", "queued", "QuotaRefused"),
        (
            403,
            "unable to create new content in namespace x because it is being terminated",
            "queued",
            "NamespaceTerminating",
        ),
        (422, "spec.template: Invalid value", "failed", "Refused"),
    ],
)
def test_a_refused_object_takes_the_others_along(
    stage: EngineStage, proxy: VirtualProxy, status: int, message: str, phase: str, reason: str
) -> None:
    record = stage.three("gang")
    proxy.fail(status=status, method="POST", path="/jobs$", message=message, times=None)
    assert stage.start(record).phase == "undoing"
    proxy.clear()
    rested = stage.bring_to_rest(record)
    stage.assert_whole(rested)
    assert rested.state is not None
    assert (rested.phase, rested.state.transitions[-2].reason) == (phase, reason)
    assert message in rested.state.transitions[-1].message


def test_unknown_outcome_leaves_the_record_dispatching(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")
    proxy.cut(when="before", path="/services", times=None)
    with pytest.raises(OutcomeUnknown):
        stage.start(record)
    assert stage.again(record).phase == "dispatching"
    proxy.clear()
    rested = stage.bring_to_rest(record)
    assert rested.phase == "dispatched"
    stage.assert_whole(rested)


# Others at work.


def test_lost_leadership_ends_everything_at_once(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")

    def lose() -> None:
        """Somebody else has the Lease now."""
        stage.ledger._lost = "taken by a test"
        proxy.forget()

    proxy.interrupt(lose, method="POST", path="/services$")
    with pytest.raises(LostLeadership):
        stage.start(record)
    assert proxy.writes == []
    assert (stage.again(record).phase, len(stage.tickets(record))) == ("queued", 1)


def test_stale_holder_cannot_write_a_record_that_was_taken_over(stage: EngineStage) -> None:
    record = stage.three("gang")
    old_engine = stage.engine
    begun = old_engine.submit(record, stage.plan(record), GRANT)
    stage.engine = stage.take_office(stage.proxied)
    claimed = stage.engine.reclaim(record)
    assert claimed.phase == "queued"
    with pytest.raises(Superseded):
        old_engine.save(begun)
    [ticket] = stage.tickets(record)
    rebuilt = stage.engine.rebuild(claimed, ticket)
    assert (rebuilt.phase, rebuilt.state and rebuilt.state.batch) == ("dispatching", GRANT.batch)
    resumed = stage.engine.resume(rebuilt, stage.plan(rebuilt))
    assert (resumed.phase, resumed.attempt) == ("dispatched", 1)
    stage.assert_whole(resumed)


def test_takeover_finishes_the_same_attempt(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")
    proxy.cut(when="before", path="/jobs", times=None)
    with pytest.raises(OutcomeUnknown):
        stage.start(record)
    proxy.clear()
    before = {name: stage.get(obj) for name, obj in (("a", config("gang-a")), ("b", service("gang-b")))}
    stage.engine = stage.take_office(stage.proxied)
    resumed = stage.engine.resume(stage.again(record), stage.plan(record))
    assert (resumed.phase, resumed.attempt) == ("dispatched", 1)
    stage.assert_whole(resumed)
    for name, obj in (("a", config("gang-a")), ("b", service("gang-b"))):
        now = stage.get(obj)
        assert now is not None
        assert now["metadata"]["uid"] == before[name]["metadata"]["uid"]  # type: ignore[index]


def test_takeover_undoes_an_attempt_whose_objects_were_changed(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")
    proxy.cut(when="before", path="/jobs", times=None)
    with pytest.raises(OutcomeUnknown):
        stage.start(record)
    proxy.clear()
    stuck = stage.again(record)
    other = read_spec(
        {"name": "gang", "namespace": stage.namespace, "objects": [config("gang-a"), service("gang-b"), job("gang-d")]},
        "gang",
    )
    raw = {**build_record(other)}
    raw["metadata"] = {**raw["metadata"], "annotations": stuck.raw["metadata"]["annotations"]}
    replace_record(stage.client, stuck, raw)
    undone = stage.engine.resume(stage.again(record), stage.plan(stage.again(record)))
    assert undone.phase == "undoing"
    rested = stage.bring_to_rest(record)
    assert (rested.phase, rested.attempt) == ("queued", 2)
    stage.assert_whole(rested)


def test_edit_of_the_record_during_the_start_is_kept(stage: EngineStage, proxy: VirtualProxy) -> None:
    record = stage.three("gang")

    def edit() -> None:
        """The user marks the record."""
        patch(stage.client, path_of(record), {"metadata": {"labels": {"team": "red"}}})

    proxy.interrupt(edit, method="POST", path="/services$")
    assert stage.start(record).phase == "dispatched"
    assert stage.again(record).labels["team"] == "red"


def test_undo_of_a_deleted_record_is_no_error(stage: EngineStage) -> None:
    record = stage.start(stage.three("gang"))
    delete_record(stage.client, record)
    assert stage.engine.stop(record, "Suspended", "", then="suspended").uid == record.uid
    wait_until("all objects to be gone", lambda: not stage.there(record) and not stage.tickets(record))


def test_ticket_is_adopted_or_deleted_when_its_record_never_named_it(stage: EngineStage) -> None:
    record = stage.three("gang")
    plan = stage.plan(record)
    path = resource_path("v1", "configmaps", stage.namespace)
    orphan = create(stage.client, path, build_ticket(record.raw, 1, "of other objects", plan))
    started = stage.start(record)
    assert started.phase == "dispatched"
    assert started.state is not None
    assert started.state.ticket_uid != orphan["metadata"]["uid"]
    stage.assert_whole(started)


def test_foreign_object_with_the_name_of_a_ticket_fails_the_gang(stage: EngineStage) -> None:
    record = stage.three("gang")
    squatter = stage.cluster.create(config(ticket_name(record.uid, 1), namespace=stage.namespace))[0]
    failed = stage.start(record)
    assert failed.phase == "failed"
    assert stage.there(record) == []
    left = get_object(stage.client, stage.cluster.path(squatter))
    assert left is not None
    stage.engine.remove_ticket(squatter)
    assert get_object(stage.client, stage.cluster.path(squatter)) is not None


def test_lost_state_is_rebuilt_from_the_ticket(stage: EngineStage) -> None:
    record = stage.start(stage.three("gang"))
    bare = {**record.raw, "metadata": {**record.raw["metadata"], "annotations": {}}}
    replaced = replace_record(stage.client, record, bare)
    assert (replaced.phase, replaced.state) == ("queued", None)
    rebuilt = stage.engine.rebuild(replaced, stage.tickets(record)[0])
    assert rebuilt.phase == "dispatching"
    resumed = stage.engine.resume(rebuilt, stage.plan(rebuilt))
    assert resumed.phase == "dispatched"
    stage.assert_whole(resumed)


def test_forged_state_deletes_nothing_of_others(stage: EngineStage) -> None:
    victim = stage.start(stage.three("victim"))
    bystander = stage.cluster.create(config("bystander", namespace=stage.namespace))[0]
    forger = stage.submit("forger", config("forger-a"))
    assert victim.state is not None
    assert victim.raw["metadata"]["annotations"]
    state = json.loads(victim.raw["metadata"]["annotations"][STATE_ANNOTATION])
    for uid in (victim.state.ticket_uid, bystander["metadata"]["uid"]):
        forged = {**state, "phase": "undoing", "ticket": uid, "then": "queued"}
        patch(stage.client, path_of(forger), {"metadata": {"annotations": {STATE_ANNOTATION: json.dumps(forged)}}})
        record = stage.again(forger)
        stage.engine.stop(record, "Suspended", "", then="queued")
        assert stage.finish(forger).phase == "queued"
    stage.assert_whole(stage.again(victim))
    assert get_object(stage.client, stage.cluster.path(bystander)) is not None


# Identity.


def test_records_are_listed_and_broken_ones_too(stage: EngineStage, proxy: VirtualProxy) -> None:
    good = stage.three("good")
    bad = config("bad", namespace=stage.namespace, labels={"muster.kube/record": "gang"})
    stage.cluster.create(bad, config("other", namespace=stage.namespace))
    records = Records(stage.proxied)
    found = records.list([stage.namespace])
    assert [(item.name, item.spec is not None) for item in found] == [("bad", False), ("good", True)]
    assert "gang.json" in str(found[0].spec_problem)
    again = records.list([stage.namespace])
    assert [one is two for one, two in zip(found, again, strict=True)] == [True, True]
    everywhere = [item for item in records.list(None) if item.namespace == stage.namespace]
    assert [item.uid for item in everywhere] == [item.uid for item in found]
    stage.start(good)
    assert [item.phase for item in records.list([stage.namespace])] == ["queued", "dispatched"]


def test_record_is_created_once_and_replaced_by_compare_and_swap(stage: EngineStage, proxy: VirtualProxy) -> None:
    spec = read_spec({"name": "gang", "namespace": stage.namespace, "objects": [config("a")]}, "gang")
    proxy.cut(when="after", method="POST", path="/configmaps$")
    record = create_record(stage.proxied, build_record(spec))
    other = read_spec({"name": "gang", "namespace": stage.namespace, "objects": [config("b")]}, "gang")
    with pytest.raises(NameTaken):
        create_record(stage.proxied, build_record(other))
    proxy.cut(when="after", method="PUT", path="/configmaps/gang$")
    replaced = replace_record(stage.proxied, record, build_record(other))
    assert (replaced.uid, replaced.spec) == (record.uid, other)
    with pytest.raises(Superseded):
        replace_record(stage.proxied, record, build_record(spec))
    delete_record(stage.proxied, replaced)
    with pytest.raises(ObjectGone):
        replace_record(stage.proxied, replaced, build_record(spec))
