# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The embedded engine against a real API server: whole or not at all, whatever happens to any of its writes."""

from __future__ import annotations

import itertools
import json
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Claim, Embedded
from ansible_collections.muster.kube.plugins.module_utils._engine.placing import READY_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, RetryPolicy, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, OutcomeUnknown
from ansible_collections.muster.kube.plugins.module_utils._kube.events import post_event
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LeaseTerms, Ledger, LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.records import (
    Record,
    RecordExists,
    Records,
    create_record,
    delete_record,
    read_record,
    replace_record,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
    Superseded,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.state import STATE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import (
    TICKET_LABEL,
    Plan,
    build_ticket,
    plan_objects,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import time_text
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until

QUICK = RetryPolicy(first_pause=0.01, longest_pause=0.05)
CLAIM = Claim("batch-1", ({"name": "job", "count": 1, "requests": {"cpu": "1"}},))
FAULTS = ("403", "409", "422", "429", "500", "cut before", "cut after")
Object = dict[str, t.Any]


def config(name: str, **metadata: t.Any) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def service(name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], "selector": {"app": name}},
    }


def job(name: str) -> Object:
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def claim_of_volume(name: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


class Stage:
    """One namespace, a dispatcher in office and what it does to gangs there."""

    def __init__(self, cluster: t.Any, namespace: str, kubeconfig: t.Any) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.client: KubeClient = cluster.client
        self.proxied = connect({"kubeconfig": str(kubeconfig)}, retry=QUICK)
        self.time = itertools.count(1_800_000_000, 10)
        self.engine = self.take_office(self.proxied)

    def now(self) -> str:
        """Time flies: no test has to wait for a late request."""
        return time_text(next(self.time))

    def take_office(self, client: KubeClient, act_as: t.Any = None) -> Embedded:
        """The engine of a new holder of the Lease."""
        terms = LeaseTerms(self.namespace, "dispatch", 10.0)
        ledger = Ledger(
            self.client, terms, "tester", renewal_client=self.client, renew_in_background=False, clock=lambda: 0.0
        )
        path = resource_path("coordination.k8s.io/v1", "leases", self.namespace, "dispatch")
        lease = get_object(self.client, path)
        if lease is not None:
            patch(self.client, path, {"spec": {"holderIdentity": None}})
        assert ledger.acquire(0) is not None
        self.ledger = ledger
        return Embedded(client, ledger, act_as or (lambda _namespace: client), self.now)

    def submit(self, name: str, *objects: Object, **settings: t.Any) -> Record:
        spec = read_spec({"name": name, "namespace": self.namespace, "objects": list(objects), **settings}, name)
        return create_record(self.client, build_record(spec))

    def three(self, name: str) -> Record:
        """A gang of three objects."""
        return self.submit(name, config(f"{name}-a"), service(f"{name}-b"), job(f"{name}-c"))

    def plan(self, record: Record) -> Plan:
        assert record.spec is not None
        return plan_objects(record.spec, record.uid, record.attempt)

    def start(self, record: Record, engine: Embedded | None = None) -> Record:
        return (engine or self.engine).start(record, self.plan(record), CLAIM)

    def again(self, record: Record) -> Record:
        """The record as it is now."""
        found = read_record(self.client, "configmap", self.namespace, record.name)
        assert found is not None
        return found

    def get(self, obj: Object) -> Object | None:
        placed = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        return get_object(self.client, self.cluster.path(placed))

    def there(self, record: Record) -> list[str]:
        """The gang's objects that exist and are not on their way out."""
        assert record.spec is not None
        found = [self.get(obj) for obj in record.spec.objects]
        return [obj["metadata"]["name"] for obj in found if obj and not obj["metadata"].get("deletionTimestamp")]

    def tickets(self, record: Record) -> list[Object]:
        path = resource_path("v1", "configmaps", self.namespace)
        found = list_objects(self.client, path, keep=lambda raw: raw, label_selector=f"{TICKET_LABEL}=true").items
        return [item for item in found if item["metadata"]["ownerReferences"][0]["uid"] == record.uid]

    def finish(self, record: Record, engine: Embedded | None = None) -> Record:
        """Wait until an undo is over."""
        plan = self.plan(record)
        return wait_until("the undo to end", lambda: (engine or self.engine).finish_undo(self.again(record), plan))

    def bring_to_rest(self, record: Record) -> Record:
        """What the cycles of a dispatcher do about a gang until nothing is half done."""
        for _cycle in range(100):
            record = self.again(record)
            try:
                if record.phase == "dispatching":
                    self.engine.resume(record, self.plan(record))
                elif record.phase == "undoing":
                    self.finish(record)
                else:
                    unnamed = [item for item in self.tickets(record) if not self._names(record, item)]
                    for ticket in unnamed:
                        self.engine.remove_ticket(ticket)
                    if not unnamed:
                        return record
            except LostLeadership:
                raise
            except KubeError:
                continue
        raise AssertionError(f"{record.key} does not come to rest: {record.state}")

    def _names(self, record: Record, ticket: Object) -> bool:
        return record.state is not None and record.state.ticket_uid == ticket["metadata"]["uid"]

    def assert_whole(self, record: Record) -> None:
        """All objects and a phase that says so, or nothing at all and a phase that says so."""
        if record.phase == "dispatched":
            assert record.spec is not None
            assert len(self.there(record)) == len(record.spec.objects)
            assert [item["metadata"]["uid"] for item in self.tickets(record)] == [record.state.ticket_uid]  # type: ignore[union-attr]
        else:
            assert record.phase in ("queued", "failed")
            assert self.there(record) == []
            assert self.tickets(record) == []
            assert self.cluster.pods(self.namespace, f"muster.kube/gang={record.uid}") == []


@pytest.fixture
def stage(cluster, namespace, proxy):
    return Stage(cluster, namespace, proxy.kubeconfig)


def make_fault(proxy: t.Any, fault: str, method: str, path: str, first: int) -> None:
    where = {"method": method, "path": path, "first": first}
    if fault.startswith("cut"):
        proxy.cut(when=fault.split()[1], **where)
    else:
        proxy.fail(status=int(fault), **where)


# Starting.


def test_start_takes_k_plus_3_requests(stage: Stage, proxy: t.Any) -> None:
    warm = stage.start(stage.three("warm"))
    assert warm.phase == "dispatched"
    record = stage.three("gang")
    proxy.forget()
    started = stage.start(record)
    assert started.phase == "dispatched"
    assert [request.method for request in proxy.requests] == ["POST", "PUT", "POST", "POST", "POST", "PUT"]
    state = stage.again(record).state
    assert state is not None
    assert [item.phase for item in state.transitions] == ["queued", "dispatching", "dispatched"]
    assert (state.batch, state.attempt, state.reserved) == ("batch-1", 1, CLAIM.reserved)
    stage.assert_whole(started)
    for name in ("gang-a", "gang-b", "gang-c"):
        found = next(item for item in map(stage.get, record.spec.objects) if item["metadata"]["name"] == name)  # type: ignore[union-attr,index]
        owner = found["metadata"]["ownerReferences"]
        assert [(item["kind"], item["uid"], item["controller"], item["blockOwnerDeletion"]) for item in owner] == [
            ("ConfigMap", state.ticket_uid, False, False)
        ]
    pods = wait_until("the pod", lambda: stage.cluster.pods(stage.namespace, f"muster.kube/gang={record.uid}"))
    assert pods[0]["metadata"]["labels"]["muster.kube/podset"]


def test_dry_run_asks_once_for_each_object_and_changes_nothing(stage: Stage, proxy: t.Any) -> None:
    record = stage.three("gang")
    outcome = stage.engine.dry_run(record, stage.plan(record))
    assert (outcome.refusal, outcome.not_checked, outcome.taken) == (None, (), None)
    assert (len(proxy.dry_runs), proxy.writes) == (3, [])
    assert stage.there(record) == []


def test_dry_run_tells_refusals_and_names_taken(stage: Stage) -> None:
    bad = job("bad")
    bad["spec"]["template"]["spec"]["restartPolicy"] = "Perhaps"
    invalid = stage.submit("invalid", bad)
    refusal = stage.engine.dry_run(invalid, stage.plan(invalid)).refusal
    assert refusal is not None
    assert (refusal.kind, "Job" in refusal.message, "Perhaps" in refusal.message) == ("failed", True, True)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    unknown = stage.submit("unknown", thing, podsets=[{"name": "x", "count": 1, "requests": {"cpu": "1"}}])
    refusal = stage.engine.dry_run(unknown, stage.plan(unknown)).refusal
    assert refusal is not None
    assert (refusal.kind, "example.com/v1 Thing" in refusal.message) == ("failed", True)
    stage.cluster.create(config("taken", namespace=stage.namespace))
    blocked = stage.submit("blocked", config("free"), config("taken"))
    outcome = stage.engine.dry_run(blocked, stage.plan(blocked))
    assert outcome.refusal is None
    assert outcome.taken == (f"ConfigMap {stage.namespace}/taken", "nobody (no owner reference)")


def test_dry_run_does_not_blame_references_to_earlier_items(stage: Stage) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "worker"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "lone"},
        "spec": {"serviceAccountName": "worker", "containers": [{"name": "main", "image": "x"}]},
    }
    record = stage.submit("gang", account, pod)
    outcome = stage.engine.dry_run(record, stage.plan(record))
    assert (outcome.refusal, outcome.taken) == (None, None)
    assert [text.split(":")[0] for text in outcome.not_checked] == [f"Pod {stage.namespace}/lone"]


def test_foreign_object_in_the_way_is_named_and_left_alone(stage: Stage) -> None:
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


def test_unknown_kind_fails_without_a_ticket(stage: Stage, proxy: t.Any) -> None:
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "x"}}
    record = stage.submit("gang", config("a"), thing, podsets=[{"name": "x", "count": 1, "requests": {"cpu": "1"}}])
    failed = stage.start(record)
    assert failed.state is not None
    assert (failed.phase, failed.state.batch) == ("failed", "batch-1")
    assert "example.com/v1 Thing" in failed.state.transitions[-1].message
    assert [request.method for request in proxy.writes] == ["PUT"]


def test_kept_claim_survives_and_is_found_again(stage: Stage) -> None:
    record = stage.submit("gang", claim_of_volume("data"), job("work"))
    first = stage.start(record)
    volume = stage.get(claim_of_volume("data"))
    assert volume is not None
    assert [item["uid"] for item in volume["metadata"]["ownerReferences"]] == [record.uid]
    stage.engine.undo(first, "BelowMinimum", "too few pods", then="queued", requeues=1)
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


def test_undo_waits_for_the_last_object(stage: Stage) -> None:
    record = stage.three("gang")
    first = stage.start(record)
    path = stage.cluster.path(stage.get(service("gang-b")))
    patch(stage.client, path, {"metadata": {"finalizers": ["example.com/wait"]}})
    stage.engine.undo(first, "LostRace", "", then="queued")
    wait_until("nothing to be left that nobody holds back", lambda: stage.there(record) == [])
    assert stage.engine.finish_undo(stage.again(record), stage.plan(record)) is None
    patch(stage.client, path, {"metadata": {"finalizers": None}})
    assert stage.finish(record).phase == "queued"


def test_leftover_of_an_older_attempt_is_replaced(stage: Stage, proxy: t.Any) -> None:
    record = stage.three("gang")
    first = stage.start(record)
    old = stage.get(service("gang-b"))
    assert old is not None
    stage.engine.undo(first, "LostRace", "", then="queued")
    queued = stage.finish(record)
    # A late child of attempt 1; the finalizer keeps it until attempt 2 has met it.
    metadata = {key: old["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    stage.cluster.create({**service("gang-b"), "metadata": {**metadata, "finalizers": ["example.com/wait"]}})
    hold = proxy.hold(method="DELETE", path="/services/gang-b$")
    results: list[Record] = []
    thread = threading.Thread(target=lambda: results.append(stage.start(queued)))
    thread.start()
    hold.wait_for_arrival()
    patch(stage.client, stage.cluster.path(old), {"metadata": {"finalizers": None}})
    hold.release()
    thread.join(60)
    assert [(item.phase, item.attempt) for item in results] == [("dispatched", 2)]
    new = stage.get(service("gang-b"))
    assert new is not None
    assert new["metadata"]["labels"]["muster.kube/attempt"] == "2"
    stage.assert_whole(results[0])


def test_ready_before_next_waits_for_the_condition(stage: Stage, proxy: t.Any) -> None:
    first = job("first")
    first["metadata"]["annotations"] = {READY_ANNOTATION: "Suspended=True"}
    first["spec"]["suspend"] = True
    record = stage.submit("gang", first, config("second"))
    waiting = stage.start(record)
    while waiting.phase == "dispatching":
        assert stage.engine.goes_on(waiting)
        assert "Job" in (stage.engine.waits_for(waiting) or "")
        waiting = stage.engine.go_on(waiting, stage.plan(waiting))
    assert waiting.phase == "dispatched"
    looks = [request for request in proxy.requests if request.method == "GET" and request.path.endswith("/jobs/first")]
    assert looks
    order = [request.path for request in proxy.requests if request.method == "POST"]
    assert order[-1].endswith("/configmaps")


# Faults at every write.

START_WRITES = {
    "ticket": ("POST", "/configmaps$", 1),
    "dispatching": ("PUT", "/configmaps/", 1),
    "first object": ("POST", "/configmaps$", 2),
    "second object": ("POST", "/services$", 1),
    "third object": ("POST", "/jobs$", 1),
    "dispatched": ("PUT", "/configmaps/", 2),
}
UNDO_WRITES = {
    "undoing": ("PUT", "/configmaps/gang", 1),
    "delete ticket": ("DELETE", "/configmaps/muster-ticket", 1),
    "delete third": ("DELETE", "/jobs/", 1),
    "delete second": ("DELETE", "/services/", 1),
    "delete first": ("DELETE", "/configmaps/gang", 1),
    "queued": ("PUT", "/configmaps/gang", 2),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_write_of_a_start(stage: Stage, proxy: t.Any, fault: str) -> None:
    reached, unsure = [], []
    for number, (place, where) in enumerate(START_WRITES.items()):
        record = stage.three(f"gang{number}")
        make_fault(proxy, fault, *where)
        try:
            stage.start(record)
        except LostLeadership:
            raise
        except KubeError:
            unsure.append(place)
        proxy.clear()
        rested = stage.bring_to_rest(record)
        stage.assert_whole(rested)
        reached.append(rested.phase)
    if fault in ("429", "500", "cut before", "cut after", "409"):
        # What passes does not cost the start; a record that was refused once is not started in this cycle.
        assert reached.count("dispatched") >= 5
        assert unsure in ([], ["dispatching"])
    if fault == "422":
        assert reached[2:5] == ["failed"] * 3


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_at_any_write_of_an_undo(stage: Stage, proxy: t.Any, fault: str) -> None:
    for number, where in enumerate(UNDO_WRITES.values()):
        record = stage.start(stage.three(f"gang{number}"))
        assert record.phase == "dispatched"
        make_fault(proxy, fault, *where)
        try:
            stage.engine.undo(record, "LostRace", "", then="queued", lost_races=1)
        except LostLeadership:
            raise
        except KubeError:
            proxy.clear()
            stage.engine.undo(stage.again(record), "LostRace", "", then="queued", lost_races=1)
        rested = stage.bring_to_rest(record)
        proxy.clear()
        stage.assert_whole(rested)
        assert rested.state is not None
        assert (rested.phase, rested.attempt, rested.state.lost_races) == ("queued", 2, 1)


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
    stage: Stage, proxy: t.Any, status: int, message: str, phase: str, reason: str
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


def test_real_quota_sends_the_gang_back(stage: Stage) -> None:
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


def test_pod_security_fails_the_gang_with_verb_and_resource(stage: Stage) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    patch(stage.client, resource_path("v1", "namespaces", name=stage.namespace), {"metadata": {"labels": labels}})
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "main", "image": "x", "securityContext": {"privileged": True}}]},
    }
    record = stage.submit("gang", config("before"), pod)
    refusal = wait_until("the label to count", lambda: stage.engine.dry_run(record, stage.plan(record)).refusal)
    assert refusal.kind == "failed"
    assert stage.start(record).phase == "undoing"
    rested = stage.bring_to_rest(record)
    stage.assert_whole(rested)
    assert rested.phase == "failed"
    message = rested.state.transitions[-1].message  # type: ignore[union-attr]
    assert "cannot create pods" in message
    assert "violates PodSecurity" in message


def test_namespace_on_its_way_out_drops_the_gang(stage: Stage) -> None:
    record = stage.three("gang")
    held = config("held", namespace=stage.namespace, finalizers=["example.com/wait"])
    stage.cluster.create(held)
    stage.cluster.drop_namespace(stage.namespace)
    engine = stage.engine
    outcome = wait_until("the namespace to refuse", lambda: engine.dry_run(record, stage.plan(record)).refusal)
    assert (outcome.kind, outcome.reason) == ("drop", "NamespaceTerminating")
    patch(stage.client, stage.cluster.path(held), {"metadata": {"finalizers": None}})


def test_unknown_outcome_leaves_the_record_dispatching(stage: Stage, proxy: t.Any) -> None:
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


def test_lost_leadership_ends_everything_at_once(stage: Stage, proxy: t.Any) -> None:
    record = stage.three("gang")
    hold = proxy.hold(method="POST", path="/services$")
    raised: list[BaseException] = []

    def start() -> None:
        try:
            stage.start(record)
        except LostLeadership as error:
            raised.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    hold.wait_for_arrival()
    stage.ledger._lost = "taken by a test"
    proxy.forget()
    hold.release()
    thread.join(60)
    assert len(raised) == 1
    assert proxy.writes == []
    assert stage.again(record).phase == "dispatching"


def test_held_post_that_arrives_after_the_takeover(stage: Stage, proxy: t.Any) -> None:
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
    taken_over = stage.again(record)
    assert taken_over.phase == "dispatching"
    stage.engine.undo(taken_over, "TakenOver", "for the test", then="queued")
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


def test_stale_holder_cannot_write_a_record_that_was_taken_over(stage: Stage) -> None:
    record = stage.three("gang")
    old_engine = stage.engine
    stage.engine = stage.take_office(stage.proxied)
    claimed = stage.engine.reclaim(record)
    assert claimed.phase == "queued"
    with pytest.raises(Superseded):
        stage.start(record, old_engine)
    assert (stage.tickets(record), stage.there(record)) == ([], [])
    assert stage.start(claimed).phase == "dispatched"


def test_takeover_finishes_the_same_attempt(stage: Stage, proxy: t.Any) -> None:
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


def test_takeover_undoes_an_attempt_whose_objects_were_changed(stage: Stage, proxy: t.Any) -> None:
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


def test_edit_of_the_record_during_the_start_is_kept(stage: Stage, proxy: t.Any) -> None:
    record = stage.three("gang")
    hold = proxy.hold(method="POST", path="/services$")
    results: list[Record] = []
    thread = threading.Thread(target=lambda: results.append(stage.start(record)))
    thread.start()
    hold.wait_for_arrival()
    patch(stage.client, record.path, {"metadata": {"labels": {"team": "red"}}})
    hold.release()
    thread.join(60)
    assert [item.phase for item in results] == ["dispatched"]
    assert stage.again(record).labels["team"] == "red"


def test_record_deleted_in_the_middle_takes_everything_along(stage: Stage, proxy: t.Any) -> None:
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


def test_undo_of_a_deleted_record_is_no_error(stage: Stage) -> None:
    record = stage.start(stage.three("gang"))
    delete_record(stage.client, record)
    assert stage.engine.undo(record, "Suspended", "", then="suspended").uid == record.uid
    wait_until("all objects to be gone", lambda: not stage.there(record) and not stage.tickets(record))


def test_ticket_is_adopted_or_deleted_when_its_record_never_named_it(stage: Stage) -> None:
    record = stage.three("gang")
    plan = stage.plan(record)
    path = resource_path("v1", "configmaps", stage.namespace)
    orphan = create(stage.client, path, build_ticket(record.raw, 1, "of other objects", plan))
    started = stage.start(record)
    assert started.phase == "dispatched"
    assert started.state is not None
    assert started.state.ticket_uid != orphan["metadata"]["uid"]
    stage.assert_whole(started)


def test_foreign_object_with_the_name_of_a_ticket_fails_the_gang(stage: Stage) -> None:
    record = stage.three("gang")
    squatter = stage.cluster.create(config(ticket_name(record.uid, 1), namespace=stage.namespace))[0]
    failed = stage.start(record)
    assert failed.phase == "failed"
    assert stage.there(record) == []
    left = get_object(stage.client, stage.cluster.path(squatter))
    assert left is not None
    stage.engine.remove_ticket(squatter)
    assert get_object(stage.client, stage.cluster.path(squatter)) is not None


def test_lost_state_is_rebuilt_from_the_ticket(stage: Stage) -> None:
    record = stage.start(stage.three("gang"))
    bare = {**record.raw, "metadata": {**record.raw["metadata"], "annotations": {}}}
    replaced = replace_record(stage.client, record, bare)
    assert (replaced.phase, replaced.state) == ("queued", None)
    rebuilt = stage.engine.rebuild(replaced, stage.tickets(record)[0])
    assert rebuilt.phase == "dispatching"
    resumed = stage.engine.resume(rebuilt, stage.plan(rebuilt))
    assert resumed.phase == "dispatched"
    stage.assert_whole(resumed)


def test_forged_state_deletes_nothing_of_others(stage: Stage) -> None:
    victim = stage.start(stage.three("victim"))
    bystander = stage.cluster.create(config("bystander", namespace=stage.namespace))[0]
    forger = stage.submit("forger", config("forger-a"))
    assert victim.state is not None
    assert victim.raw["metadata"]["annotations"]
    state = json.loads(victim.raw["metadata"]["annotations"][STATE_ANNOTATION])
    for uid in (victim.state.ticket_uid, bystander["metadata"]["uid"]):
        forged = {**state, "phase": "undoing", "ticket": uid, "then": "queued"}
        patch(stage.client, forger.path, {"metadata": {"annotations": {STATE_ANNOTATION: json.dumps(forged)}}})
        record = stage.again(forger)
        stage.engine.undo(record, "Suspended", "", then="queued")
        assert stage.finish(forger).phase == "queued"
    stage.assert_whole(stage.again(victim))
    assert get_object(stage.client, stage.cluster.path(bystander)) is not None


# Identity.


def test_account_without_rights_fails_the_gang_with_verb_and_resource(stage: Stage) -> None:
    user = f"system:serviceaccount:{stage.namespace}:muster"
    engine = stage.take_office(stage.proxied, lambda _namespace: stage.proxied.acting_as(user))
    record = stage.three("gang")
    undone = stage.start(record, engine)
    assert undone.phase == "undoing"
    failed = stage.finish(record, engine)
    assert failed.phase == "failed"
    message = failed.state.transitions[-1].message  # type: ignore[union-attr]
    assert "cannot create configmaps" in message
    assert user in message
    assert stage.there(record) == []


def test_objects_are_made_and_deleted_in_the_name_of_the_account(stage: Stage) -> None:
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
    wait_until("the rights to be known", lambda: engine.dry_run(record, stage.plan(record)).refusal is None)
    started = stage.start(record, engine)
    assert started.phase == "dispatched"
    engine.undo(started, "Suspended", "", then="suspended")
    done = stage.finish(record, engine)
    assert (done.phase, done.attempt, stage.there(record)) == ("suspended", 2, [])


# Records and Events.


def test_records_are_listed_and_broken_ones_too(stage: Stage, proxy: t.Any) -> None:
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


def test_record_is_created_once_and_replaced_by_compare_and_swap(stage: Stage, proxy: t.Any) -> None:
    spec = read_spec({"name": "gang", "namespace": stage.namespace, "objects": [config("a")]}, "gang")
    proxy.cut(when="after", method="POST", path="/configmaps$")
    record = create_record(stage.proxied, build_record(spec))
    other = read_spec({"name": "gang", "namespace": stage.namespace, "objects": [config("b")]}, "gang")
    with pytest.raises(RecordExists):
        create_record(stage.proxied, build_record(other))
    proxy.cut(when="after", method="PUT", path="/configmaps/gang$")
    replaced = replace_record(stage.proxied, record, build_record(other))
    assert (replaced.uid, replaced.spec) == (record.uid, other)
    with pytest.raises(Superseded):
        replace_record(stage.proxied, record, build_record(spec))
    delete_record(stage.proxied, replaced)
    with pytest.raises(ObjectGone):
        replace_record(stage.proxied, replaced, build_record(spec))


def test_event_is_written_once(stage: Stage, proxy: t.Any) -> None:
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
