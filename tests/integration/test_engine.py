# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The embedded engine against a real API server: whole or not at all, whatever happens to any of its writes."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import READY_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.events import post_event
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import (
    delete_record,
)
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy
from ansible_collections.muster.kube.tests.support.engine_stage import (
    FAULTS,
    GRANT,
    EngineStage,
    claim_of_volume,
    config,
    job,
    service,
    start_with_each_fault,
    undo_with_each_fault,
)
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until


@pytest.fixture
def stage(cluster: LiveCluster, namespace: str, proxy: ApiProxy) -> EngineStage:
    """An engine in office."""
    return EngineStage(cluster, namespace, proxy.kubeconfig)


def test_start_takes_k_plus_2_requests(stage: EngineStage, proxy: ApiProxy) -> None:
    warm = stage.start(stage.three("warm"))
    assert warm.phase == "dispatched"
    record = stage.three("gang")
    proxy.forget()
    started = stage.start(record)
    assert started.phase == "dispatched"
    assert [request.method for request in proxy.requests] == ["POST", "POST", "POST", "POST", "PUT"]
    state = stage.again(record).state
    assert state is not None
    assert [item.phase for item in state.transitions] == ["queued", "dispatching", "dispatched"]
    assert (state.batch, state.attempt, state.reserved) == ("batch-1", 1, GRANT.reserved)
    stage.assert_whole(started)
    for name in ("gang-a", "gang-b", "gang-c"):
        found = next(item for item in map(stage.get, record.spec.objects) if item["metadata"]["name"] == name)  # type: ignore[union-attr,index]
        owner = found["metadata"]["ownerReferences"]
        assert [(item["kind"], item["uid"], item["controller"], item["blockOwnerDeletion"]) for item in owner] == [
            ("ConfigMap", state.ticket_uid, False, False)
        ]
    pods = wait_until("the pod", lambda: stage.cluster.pods(stage.namespace, f"muster.kube/gang={record.uid}"))
    assert pods[0]["metadata"]["labels"]["muster.kube/podset"]


def test_dry_run_tells_refusals_and_names_taken(stage: EngineStage) -> None:
    bad = job("bad")
    bad["spec"]["template"]["spec"]["restartPolicy"] = "Perhaps"
    invalid = stage.submit("invalid", bad)
    refusal = stage.dry_run(invalid).refusal
    assert refusal is not None
    assert (refusal.kind, "Job" in refusal.message, "Perhaps" in refusal.message) == ("failed", True, True)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    unknown = stage.submit("unknown", thing, podsets=[{"name": "x", "count": 1, "requests": {"cpu": "1"}}])
    refusal = stage.dry_run(unknown).refusal
    assert refusal is not None
    assert (refusal.kind, "example.com/v1 Thing" in refusal.message) == ("failed", True)
    stage.cluster.create(config("taken", namespace=stage.namespace))
    blocked = stage.submit("blocked", config("free"), config("taken"))
    outcome = stage.dry_run(blocked)
    assert outcome.refusal is None
    assert outcome.taken == (f"ConfigMap {stage.namespace}/taken", "nobody (no owner reference)")


def test_dry_run_does_not_blame_references_to_earlier_items(stage: EngineStage) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lone"},
        "spec": {"serviceAccountName": "worker", "containers": [{"name": "main", "image": "x"}]},
    }
    record = stage.submit("gang", account, pod)
    outcome = stage.dry_run(record)
    assert (outcome.refusal, outcome.taken) == (None, None)
    assert [text.split(":")[0] for text in outcome.not_checked] == [f"Pod {stage.namespace}/lone"]


def test_kept_claim_survives_and_is_found_again(stage: EngineStage) -> None:
    record = stage.submit("gang", claim_of_volume("data"), job("work"))
    first = stage.start(record)
    volume = stage.get(claim_of_volume("data"))
    assert volume is not None
    assert [item["uid"] for item in volume["metadata"]["ownerReferences"]] == [record.uid]
    stage.engine.stop(first, "BelowMinimum", "too few pods", then="queued", requeues=1)
    queued = stage.finish(record)
    assert (queued.phase, queued.attempt, stage.there(record)) == ("queued", 2, ["data"])
    assert queued.state is not None
    assert [(item.phase, item.reason) for item in queued.state.transitions[-2:]] == [
        ("undoing", "BelowMinimum"),
        ("queued", "Requeued"),
    ]
    second = stage.start(queued)
    assert (second.phase, stage.there(record)) == ("dispatched", ["data", "work"])
    kept = stage.get(claim_of_volume("data"))
    assert kept is not None
    assert kept["metadata"]["uid"] == volume["metadata"]["uid"]


def test_undo_waits_for_the_last_object(stage: EngineStage) -> None:
    record = stage.three("gang")
    first = stage.start(record)
    path = stage.cluster.path(stage.get(service("gang-b")))
    patch(stage.client, path, {"metadata": {"finalizers": ["example.com/wait"]}})
    stage.engine.stop(first, "LostRace", "", then="queued")
    wait_until("nothing to be left that nobody holds back", lambda: stage.there(record) == [])
    assert stage.engine.finish_stop(stage.again(record), stage.plan(record)) is None
    patch(stage.client, path, {"metadata": {"finalizers": None}})
    assert stage.finish(record).phase == "queued"


def test_ready_before_next_waits_for_the_condition(stage: EngineStage, proxy: ApiProxy) -> None:
    first = job("first")
    first["metadata"]["annotations"] = {READY_ANNOTATION: "Suspended=True"}
    first["spec"]["suspend"] = True
    record = stage.submit("gang", first, config("second"))
    waiting = stage.start(record)
    while waiting.phase == "dispatching":
        assert stage.engine.state(waiting) == "waits"
        assert "Job" in (stage.engine.reason(waiting) or "")
        waiting = stage.engine.go_on(waiting, stage.plan(waiting))
    assert waiting.phase == "dispatched"
    looks = [request for request in proxy.requests if request.method == "GET" and request.path.endswith("/jobs/first")]
    assert looks
    order = [request.path for request in proxy.requests if request.method == "POST"]
    assert order[-1].endswith("/configmaps")


# Faults at every write.


@pytest.mark.parametrize("fault", FAULTS[-2:])
def test_fault_at_any_write_of_a_start(stage: EngineStage, proxy: ApiProxy, fault: str) -> None:
    start_with_each_fault(stage, proxy, fault)


@pytest.mark.parametrize("fault", FAULTS[-2:])
def test_fault_at_any_write_of_an_undo(stage: EngineStage, proxy: ApiProxy, fault: str) -> None:
    undo_with_each_fault(stage, proxy, fault)


def test_real_quota_sends_the_gang_back(stage: EngineStage) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none", "namespace": stage.namespace},
        "spec": {"hard": {"count/jobs.batch": "0"}},
    }
    stage.cluster.create(quota)
    path = resource_path("v1", "resourcequotas", stage.namespace, "none")
    wait_until("the quota to be counted", lambda: (get_object(stage.client, path) or {}).get("status", {}).get("hard"))
    record = stage.three("gang")
    assert stage.start(record).phase == "undoing"
    rested = stage.bring_to_rest(record)
    assert (rested.phase, rested.state.transitions[-2].reason) == ("queued", "QuotaRefused")  # type: ignore[union-attr]
    stage.assert_whole(rested)


def test_pod_security_fails_the_gang_with_verb_and_resource(stage: EngineStage) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch(stage.client, resource_path("v1", "namespaces", name=stage.namespace), {"metadata": {"labels": labels}})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "main", "image": "x", "securityContext": {"privileged": True}}]},
    }
    record = stage.submit("gang", config("before"), pod)
    refusal = wait_until("the label to count", lambda: stage.dry_run(record).refusal)
    assert refusal.kind == "failed"
    assert stage.start(record).phase == "undoing"
    rested = stage.bring_to_rest(record)
    stage.assert_whole(rested)
    assert rested.phase == "failed"
    message = rested.state.transitions[-1].message  # type: ignore[union-attr]
    assert "cannot create pods" in message
    assert "violates PodSecurity" in message


def test_namespace_on_its_way_out_drops_the_gang(stage: EngineStage) -> None:
    record = stage.three("gang")
    held = config("held", namespace=stage.namespace, finalizers=["example.com/wait"])
    stage.cluster.create(held)
    stage.cluster.drop_namespace(stage.namespace)
    engine = stage.engine
    outcome = wait_until("the namespace to refuse", lambda: stage.dry_run(record, engine).refusal)
    assert (outcome.kind, outcome.reason) == ("drop", "NamespaceTerminating")
    patch(stage.client, stage.cluster.path(held), {"metadata": {"finalizers": None}})


def test_held_post_that_arrives_after_the_takeover(stage: EngineStage, proxy: ApiProxy) -> None:
    record = stage.three("gang")
    hold = proxy.hold(method="POST", path="/services$")
    old_engine = stage.engine
    raised: list[BaseException] = []

    def start() -> None:
        try:
            stage.start(record, old_engine)
        except KubeError as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    hold.wait_for_arrival()
    old_ledger = stage.ledger
    stage.engine = stage.take_office(stage.client)
    [ticket] = stage.tickets(record)
    taken_over = stage.engine.rebuild(stage.again(record), ticket)
    assert taken_over.phase == "dispatching"
    stage.engine.stop(taken_over, "TakenOver", "for the test", then="queued")
    queued = stage.finish(record)
    assert (queued.phase, queued.attempt) == ("queued", 2)
    old_ledger._lost = "taken over"
    hold.release()
    thread.join(60)
    assert [type(error) for error in raised] == [LostLeadership]
    wait_until("the late service to be collected", lambda: stage.there(record) == [])
    started = stage.start(queued)
    assert started.phase == "dispatched"
    stage.assert_whole(started)


def test_record_deleted_in_the_middle_takes_everything_along(stage: EngineStage, proxy: ApiProxy) -> None:
    record = stage.three("gang")
    hold = proxy.hold(method="POST", path="/services$")
    raised: list[BaseException] = []

    def start() -> None:
        try:
            stage.start(record)
        except ObjectGone as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    hold.wait_for_arrival()
    delete_record(stage.client, record)
    hold.release()
    thread.join(60)
    assert len(raised) == 1
    wait_until("all objects to be gone", lambda: not stage.there(record) and not stage.tickets(record))


def test_account_without_rights_fails_the_gang_with_verb_and_resource(stage: EngineStage) -> None:
    user = f"system:serviceaccount:{stage.namespace}:muster"
    engine = stage.take_office(stage.proxied, lambda _namespace: stage.proxied.acting_as(user))
    record = stage.three("gang")
    failed = stage.start(record, engine)
    assert (failed.phase, stage.tickets(record)) == ("failed", [])
    message = failed.state.transitions[-1].message  # type: ignore[union-attr]
    assert "cannot create configmaps" in message
    assert user in message
    assert stage.there(record) == []


def test_objects_are_made_and_deleted_in_the_name_of_the_account(stage: EngineStage) -> None:
    user = f"system:serviceaccount:{stage.namespace}:muster"
    rules = [
        {
            "apiGroups": ["", "batch"],
            "resources": ["configmaps", "services", "jobs"],
            "verbs": ["create", "get", "delete"],
        }
    ]
    group = "rbac.authorization.k8s.io"
    stage.cluster.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "Role",
            "metadata": {"name": "r", "namespace": stage.namespace},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "r", "namespace": stage.namespace},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "muster", "namespace": stage.namespace}],
        },
    )
    engine = stage.take_office(stage.proxied, lambda _namespace: stage.proxied.acting_as(user))
    record = stage.three("gang")
    wait_until("the rights to be known", lambda: stage.dry_run(record, engine).refusal is None)
    started = stage.start(record, engine)
    assert started.phase == "dispatched"
    engine.stop(started, "Suspended", "", then="suspended")
    done = stage.finish(record, engine)
    assert (done.phase, done.attempt, stage.there(record)) == ("suspended", 2, [])


# Records and Events.


def test_event_is_written_once(stage: EngineStage, proxy: ApiProxy) -> None:
    record = stage.three("gang")
    now = "2026-11-16T04:00:00.123456Z"
    for _time in range(2):
        assert post_event(stage.proxied, record.raw, "Started", "all objects created", "Normal", now)
    path = resource_path("v1", "events", stage.namespace)
    field = f"involvedObject.uid={record.uid}"
    events = list_objects(stage.client, path, keep=lambda raw: raw, field_selector=field).items
    assert [(item["reason"], item["type"], item["source"]["component"]) for item in events] == [
        ("Started", "Normal", "muster.kube")
    ]
    proxy.fail(status=500, method="POST", path="/events$")
    assert not post_event(stage.proxied, record.raw, "Failed", "x", "Warning", now)
    delete(stage.client, f"{path}/{events[0]['metadata']['name']}")
