# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the ledger: who gets the Lease and when, who must stop and when, and what a commit means."""

from __future__ import annotations

import copy
import re
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, KubeError, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import OutcomeUnknown
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_ANNOTATION,
    BATCH_BYTES,
    LeaseOptions,
)
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import (
    DispatchLease,
    Epoch,
    LostLeadership,
    steady_seconds,
)

LEASES = "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases"
LEASE = f"{LEASES}/dispatch"


class LeaseServer:
    """Keeps one Lease as an API server does: uid, resourceVersion, refusal of stale writes; faults on demand.

    A fault is "before" (cut, nothing stored), "after" (stored, then cut) or a ready answer; "ok" is none.
    """

    def __init__(self, stub: t.Any, reply: t.Any, fault: t.Any) -> None:
        self.lease: dict[str, t.Any] | None = None
        self.namespace_exists = True
        self.writes: list[str] = []
        self.faults: dict[str, list[t.Any]] = {}
        self._reply = reply
        self._fault = fault
        self._version = 10
        self._uids = 0
        self._stub = stub
        stub.next_reply = self.answer
        self._lock = threading.RLock()

    def answer(self, seen: t.Any) -> t.Any:
        with self._lock:
            self._stub.seen.append(seen)
            planned = self.faults.get(seen.method) or []
            fault = planned.pop(0) if planned else "ok"
            if fault == "before":
                return self._reply(cut=True)
            if fault not in ("ok", "after"):
                return fault
            made = getattr(self, seen.method.lower())(seen)
            return self._reply(cut=True) if fault == "after" else made

    def get(self, seen: t.Any) -> t.Any:
        if seen.path == "/version":
            return self._reply({})
        return self._fault(404) if self.lease is None else self._reply(copy.deepcopy(self.lease))

    def post(self, seen: t.Any) -> t.Any:
        if not self.namespace_exists:
            return self._fault(404, "NotFound", 'namespaces "muster-system" not found')
        if self.lease is not None:
            return self._fault(409, "AlreadyExists")
        self._uids += 1
        return self._store(seen.body, f"uid-{self._uids}", 201)

    def put(self, seen: t.Any) -> t.Any:
        meta = seen.body["metadata"]
        current = (self.lease or {}).get("metadata") or {}
        if (meta["uid"], meta["resourceVersion"]) != (current.get("uid"), current.get("resourceVersion")):
            return self._fault(409, "Conflict")
        return self._store(seen.body, meta["uid"], 200)

    def touch(self, **spec: t.Any) -> None:
        """A write by somebody else."""
        assert self.lease is not None
        self.lease["spec"].update(spec)
        self._version += 1
        self.lease["metadata"]["resourceVersion"] = str(self._version)

    def recreate(self) -> None:
        """The Lease is deleted and an equal one is created."""
        assert self.lease is not None
        self._uids += 1
        self.lease["metadata"]["uid"] = f"uid-{self._uids}"
        self.touch()

    def _store(self, body: dict[str, t.Any], uid: str, status: int) -> t.Any:
        self.lease = copy.deepcopy(body)
        self._version += 1
        self.lease["metadata"].update(uid=uid, resourceVersion=str(self._version))
        self.writes.append(self.lease["spec"].get("holderIdentity", ""))
        return self._reply(copy.deepcopy(self.lease), status)

    @property
    def spec(self) -> dict[str, t.Any]:
        assert self.lease is not None
        return t.cast("dict[str, t.Any]", self.lease["spec"])

    @property
    def batch(self) -> str | None:
        assert self.lease is not None
        return t.cast("str | None", self.lease["metadata"]["annotations"].get(BATCH_ANNOTATION))


@pytest.fixture
def server(stub: t.Any, reply: t.Any, fault: t.Any) -> LeaseServer:
    return LeaseServer(stub, reply, fault)


@pytest.fixture
def ledger(server: LeaseServer, stub: t.Any, client: KubeClient, clock: t.Any) -> t.Callable[..., DispatchLease]:
    """Makes ledgers that renew only when told, on the test's own clock."""

    def make(name: str = "anna", **options: t.Any) -> DispatchLease:
        terms = options.pop("terms", LeaseOptions())
        settings = {"renewal_client": client, "renew_in_background": False, "clock": clock, "sleep": clock.sleep}
        return DispatchLease(client, terms, name, **{**settings, **options})

    return make


Make = t.Callable[..., DispatchLease]


def test_missing_lease_is_created_as_ours(server: LeaseServer, ledger: Make, client: KubeClient) -> None:
    client.request("GET", "/version")
    anna = ledger("anna")
    assert anna.acquire(0) == Epoch("uid-1", 0)
    assert anna.epoch == Epoch("uid-1", 0)
    assert server.spec == {
        "holderIdentity": anna.identity,
        "leaseDurationSeconds": 15,
        "leaseTransitions": 0,
        # The Date of the stub's successful answers.
        "acquireTime": "2026-11-16T04:00:00.000000Z",
        "renewTime": "2026-11-16T04:00:00.000000Z",
    }
    assert anna.identity.startswith("anna_")
    assert (anna.holder, anna.batch_text(), anna.must_stop()) == (anna.identity, None, False)


def test_missing_namespace_is_told(server: LeaseServer, ledger: Make) -> None:
    server.namespace_exists = False
    with pytest.raises(KubeError, match="Cannot create Lease muster-system/dispatch: the namespace muster-system does"):
        ledger().acquire(60)


def test_terms_choose_the_lease(stub: t.Any, ledger: Make) -> None:
    ledger(terms=LeaseOptions("team", "mine", 2.5)).acquire(0)
    assert [seen.path for seen in stub.seen] == [
        "/apis/coordination.k8s.io/v1/namespaces/team/leases/mine",
        "/apis/coordination.k8s.io/v1/namespaces/team/leases",
    ]
    assert stub.seen[1].body["spec"]["leaseDurationSeconds"] == 3


def test_two_processes_of_one_name_are_two(ledger: Make) -> None:
    assert ledger("anna").identity != ledger("anna").identity


def test_holder_that_renews_keeps_the_lease(server: LeaseServer, ledger: Make, clock: t.Any) -> None:
    anna, ben = ledger("anna"), ledger("ben")
    anna.acquire(0)
    for _round in range(10):
        clock.now += 5.0
        anna.renew()
        assert ben.acquire(0) is None
    assert ben.holder == anna.identity
    assert set(server.writes) == {anna.identity}


def test_silent_holder_loses_the_lease_after_its_time_by_the_challengers_clock(
    server: LeaseServer, ledger: Make, clock: t.Any
) -> None:
    anna, ben = ledger("anna"), ledger("ben")
    anna.acquire(0)
    # Ben sees it first when it is already 100 s old: only what he has seen himself counts.
    clock.now += 100.0
    assert ben.acquire(0) is None
    clock.now += 14.9
    assert ben.acquire(0) is None
    clock.now += 0.1
    assert ben.acquire(0) == Epoch("uid-1", 1)
    assert (server.spec["holderIdentity"], server.spec["leaseTransitions"]) == (ben.identity, 1)


def test_acquire_waits_for_expiry_and_tells_who_holds_it(ledger: Make, clock: t.Any) -> None:
    anna, ben = ledger("anna"), ledger("ben")
    anna.acquire(0)
    told: list[str] = []
    assert ben.acquire(10, on_wait=told.append) is None
    assert ben.acquire(10, on_wait=told.append) == Epoch("uid-1", 1)
    assert told == [anna.identity, anna.identity]
    assert sum(clock.sleeps) == pytest.approx(15.0)


def test_times_in_the_lease_decide_nothing(server: LeaseServer, ledger: Make, clock: t.Any) -> None:
    anna, ben, cora = ledger("anna"), ledger("ben"), ledger("cora")
    anna.acquire(0)
    server.touch(renewTime="1999-01-01T00:00:00.000000Z", acquireTime="1999-01-01T00:00:00.000000Z")
    assert ben.acquire(0) is None
    server.touch(renewTime="2999-01-01T00:00:00.000000Z")
    assert cora.acquire(0) is None
    clock.now += 15.0
    assert cora.acquire(0) == Epoch("uid-1", 1)


def test_holder_with_longer_terms_keeps_them(ledger: Make, clock: t.Any) -> None:
    anna, ben = ledger("anna"), ledger("ben", terms=LeaseOptions(seconds=2.0))
    anna.acquire(0)
    assert ben.acquire(14.5) is None
    assert ben.acquire(1.0) is not None


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": ""}, {"holderIdentity": "", "leaseTransitions": 6}])
def test_free_lease_is_taken_at_once(server: LeaseServer, ledger: Make, spec: t.Any) -> None:
    server.lease = {"metadata": {"name": "dispatch", "uid": "u", "resourceVersion": "3"}, "spec": spec}
    assert ledger().acquire(0) == Epoch("u", (spec or {}).get("leaseTransitions", 0) + 1)


def test_of_two_challengers_one_wins(server: LeaseServer, stub: t.Any, ledger: Make, clock: t.Any) -> None:
    anna, ben, cora = ledger("anna"), ledger("ben"), ledger("cora")
    anna.acquire(0)
    assert (ben.acquire(0), cora.acquire(0)) == (None, None)
    clock.now += 15.0
    # Cora gets in between Ben's look and his write.
    answer, raced = server.answer, []

    def race(seen: t.Any) -> t.Any:
        if seen.method == "PUT" and not raced:
            raced.append(seen)
            stub.next_reply = answer
            assert cora.acquire(0) == Epoch("uid-1", 1)
        return answer(seen)

    stub.next_reply = race
    assert ben.acquire(0) is None
    assert (ben.epoch, ben.holder, server.spec["holderIdentity"]) == (None, cora.identity, cora.identity)


def test_of_two_creators_one_wins(server: LeaseServer, stub: t.Any, ledger: Make) -> None:
    ben, cora = ledger("ben"), ledger("cora")
    answer = server.answer

    def race(seen: t.Any) -> t.Any:
        if seen.method == "POST":
            stub.next_reply = answer
            cora.acquire(0)
        return answer(seen)

    stub.next_reply = race
    assert ben.acquire(0) is None
    assert (cora.epoch, ben.holder) == (Epoch("uid-1", 0), cora.identity)
    assert server.writes == [cora.identity]


@pytest.mark.parametrize("when", ["before", "after"])
def test_lost_answer_to_the_acquisition(server: LeaseServer, ledger: Make, when: str) -> None:
    server.faults = {"POST": [when]}
    anna = ledger("anna")
    assert anna.acquire(0) == Epoch("uid-1", 0)
    anna.release()
    server.faults = {"PUT": [when]}
    ben = ledger("ben")
    assert ben.acquire(0) == Epoch("uid-1", 1)
    assert server.writes == [anna.identity, "", ben.identity]


def test_a_server_that_never_answered_is_not_waited_for(server: LeaseServer, ledger: Make, clock: t.Any) -> None:
    server.faults = {"GET": ["before"] * 1000}
    began = clock()
    with pytest.raises(Unreachable):
        ledger().acquire(3600)
    assert clock() - began < 60


def test_one_that_has_answered_is_waited_for_and_told(server: LeaseServer, client: KubeClient, ledger: Make) -> None:
    client.request("GET", "/version")
    server.faults = {"GET": ["before"] * 20}
    told: list[str] = []
    assert ledger().acquire(3600, on_trouble=told.append) == Epoch("uid-1", 0)
    assert len(told) == 1
    assert "no answer from" in told[0]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_acquisition_read_back_under_another_name_is_none(
    server: LeaseServer, stub: t.Any, ledger: Make, method: str
) -> None:
    # A foreign client keeps annotations it does not know, our write id among them.
    if method == "PUT":
        server.lease = {"metadata": {"name": "dispatch", "uid": "u", "resourceVersion": "3"}, "spec": {}}

    def overtaken(seen: t.Any) -> t.Any:
        made = server.answer(seen)
        if seen.method == method:
            taken_over(server)
        return made

    stub.next_reply = overtaken
    server.faults = {method: ["after"]}
    anna = ledger("anna")
    assert anna.acquire(0) is None
    assert (anna.epoch, anna.holder, anna.must_stop()) == (None, "ben", True)


def test_write_read_back_under_another_name_is_a_loss(server: LeaseServer, stub: t.Any, ledger: Make) -> None:
    anna = ledger("anna")
    anna.acquire(0)

    def overtaken(seen: t.Any) -> t.Any:
        made = server.answer(seen)
        if seen.method == "PUT":
            taken_over(server)
        return made

    stub.next_reply = overtaken
    server.faults = {"PUT": ["after"]}
    with pytest.raises(LostLeadership, match="ben holds it now"):
        anna.commit("b")
    assert anna.must_stop()


def test_unreachable_server_is_waited_for(server: LeaseServer, client: KubeClient, ledger: Make) -> None:
    client.request("GET", "/version")
    server.faults = {"GET": ["before"] * 12}
    assert ledger().acquire(120) == Epoch("uid-1", 0)
    server.faults = {"GET": ["before"] * 12}
    with pytest.raises(Unreachable):
        ledger().acquire(0)


def test_own_bid_that_arrived_late_is_no_foreign_holder(server: LeaseServer, ledger: Make) -> None:
    anna = ledger("anna")
    # Stored, but every try to learn of it fails; with the next round the server answers, long before an expiry.
    server.faults = {"POST": ["after"], "GET": ["ok", *["before"] * 5]}
    assert anna.acquire(10) == Epoch("uid-1", 1)
    assert server.writes == [anna.identity] * 2


def test_bid_that_took_too_long_is_made_anew(server: LeaseServer, stub: t.Any, ledger: Make, clock: t.Any) -> None:
    anna = ledger("anna")

    def slowly(seen: t.Any) -> t.Any:
        made = server.answer(seen)
        if seen.method == "POST":
            clock.now += 8.0
        elif len(stub.seen) == 3:
            clock.now += 3.0
        return made

    stub.next_reply = slowly
    server.faults = {"POST": ["after"], "GET": ["ok", "before"]}
    assert anna.acquire(14) == Epoch("uid-1", 1)
    assert anna.time_left() == 10.0


def test_holder_stops_at_two_thirds_of_the_lease(ledger: Make, clock: t.Any) -> None:
    anna = ledger()
    assert (anna.must_stop(), anna.time_left()) == (True, 0.0)
    anna.acquire(0)
    assert anna.time_left() == 10.0
    assert anna.write_timeout() == 7.5
    clock.now += 9.0
    assert anna.time_left() == 1.0
    assert anna.write_timeout() == 3.0
    clock.now += 1.0
    assert (anna.must_stop(), anna.time_left()) == (True, 0.0)
    with pytest.raises(LostLeadership, match="no renewal succeeded in time"):
        anna.write_timeout()


def test_unacquired_ledger_writes_nothing(stub: t.Any, ledger: Make) -> None:
    anna = ledger()
    for write in (anna.write_timeout, anna.renew, lambda: anna.commit("b")):
        with pytest.raises(LostLeadership, match="it was not acquired"):
            write()
    anna.release()
    assert stub.seen == []


def test_lease_runs_from_before_the_renewal_was_sent(
    server: LeaseServer, stub: t.Any, ledger: Make, clock: t.Any
) -> None:
    anna = ledger()
    anna.acquire(0)
    clock.now += 5.0

    def slow(seen: t.Any) -> t.Any:
        clock.now += 4.0
        return server.answer(seen)

    stub.next_reply = slow
    anna.renew()
    assert anna.time_left() == 6.0
    anna.commit("b")
    assert anna.time_left() == 6.0


def test_holder_stopped_past_the_lease_refuses_to_write(
    server: LeaseServer, stub: t.Any, ledger: Make, clock: t.Any
) -> None:
    anna = ledger()
    anna.acquire(0)
    clock.now += 3600.0
    count = len(stub.seen)
    for write in (lambda: anna.commit("b"), anna.renew, anna.write_timeout):
        with pytest.raises(LostLeadership, match="no renewal succeeded in time"):
            write()
    anna.release()
    assert len(stub.seen) == count
    assert anna.lost == "no renewal succeeded in time"
    # For good: even though nobody else has come.
    clock.now -= 3600.0
    assert anna.must_stop()


def test_ledger_is_one_bid(ledger: Make, clock: t.Any) -> None:
    anna = ledger()
    anna.acquire(0)
    with pytest.raises(LostLeadership, match="make a new one"):
        anna.acquire(0)


def test_renewal_extends_and_always_changes_the_lease(
    server: LeaseServer, ledger: Make, client: KubeClient, clock: t.Any
) -> None:
    client.request("GET", "/version")
    anna = ledger()
    anna.acquire(0)
    versions = set()
    for _round in range(3):
        before = copy.deepcopy(server.lease)
        anna.renew()
        # A server does not store an equal object, and others would see no sign of life.
        assert server.lease is not None
        assert before is not None
        assert {**before["metadata"], "resourceVersion": ""} != {**server.lease["metadata"], "resourceVersion": ""}
        versions.add(server.lease["metadata"]["resourceVersion"])
    assert len(versions) == 3
    clock.now += 4.25
    anna.renew()
    assert anna.time_left() == 10.0
    assert server.spec["renewTime"] == "2026-11-16T04:00:04.250000Z"
    assert server.spec["acquireTime"] == "2026-11-16T04:00:00.000000Z"
    assert server.spec["leaseTransitions"] == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_renewal_survives_a_lost_answer(server: LeaseServer, ledger: Make, when: str) -> None:
    anna = ledger()
    anna.acquire(0)
    server.faults = {"PUT": [when]}
    anna.renew()
    anna.renew()
    assert len(server.writes) == 3
    assert not anna.must_stop()


def test_renewal_is_tried_until_time_is_out(server: LeaseServer, stub: t.Any, ledger: Make, clock: t.Any) -> None:
    anna = ledger()
    anna.acquire(0)
    started = clock.now
    server.faults = {"PUT": ["before"] * 1000, "GET": ["before"] * 1000}
    with pytest.raises(LostLeadership, match="no renewal succeeded in time"):
        anna.renew()
    assert started + 10.0 <= clock.now < started + 15.0
    assert len(stub.seen) > 5
    assert anna.must_stop()


def test_renewal_that_is_refused_may_succeed_later(server: LeaseServer, ledger: Make, fault: t.Any) -> None:
    anna = ledger()
    anna.acquire(0)
    server.faults = {"PUT": [fault(403, "Forbidden")]}
    with pytest.raises(Forbidden):
        anna.renew()
    assert anna.lost is None
    anna.renew()


def taken_over(server: LeaseServer) -> None:
    server.touch(holderIdentity="ben", leaseTransitions=1)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (taken_over, "ben holds it now"),
        (lambda server: server.touch(), "somebody else changed it"),
        (lambda server: server.recreate(), "it was deleted"),
        (lambda server: setattr(server, "lease", None), "it was deleted"),
    ],
)
def test_foreign_change_ends_the_leadership_for_good(
    server: LeaseServer, stub: t.Any, ledger: Make, change: t.Any, cause: str
) -> None:
    anna, ben = ledger("anna"), ledger("ben")
    for holder in (anna, ben):
        server.lease = None
        holder.acquire(0)
        change(server)
        before = copy.deepcopy(server.lease)
        with pytest.raises(LostLeadership, match=cause):
            anna.renew() if holder is anna else ben.commit("b")
        assert server.lease == before
        assert (holder.lost, holder.must_stop()) == (cause, True)
    count = len(stub.seen)
    for write in (anna.renew, lambda: anna.commit("b"), anna.write_timeout):
        with pytest.raises(LostLeadership, match=cause):
            write()
    assert len(stub.seen) == count


def test_commit_is_one_write_on_top_of_our_own(server: LeaseServer, stub: t.Any, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    for number, step in enumerate((anna.renew, lambda: anna.commit("b1"), anna.renew, lambda: anna.commit("b2"))):
        assert server.lease is not None
        known = server.lease["metadata"]["resourceVersion"]
        step()
        assert (stub.seen[-1].method, stub.seen[-1].body["metadata"]["resourceVersion"]) == ("PUT", known), number
    assert len(stub.seen) == 6
    assert (server.batch, anna.batch_text()) == ("b2", "b2")


def test_what_is_over_leaves_the_batch_with_the_next_renewal(server: LeaseServer, stub: t.Any, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    anna.commit("a, b")
    count = len(stub.seen)
    anna.tidy("a, b", "b")
    assert (len(stub.seen), server.batch) == (count, "a, b")
    anna.renew()
    assert (server.batch, anna.batch_text()) == ("b", "b")
    anna.renew()
    assert server.batch == "b"


def test_what_is_over_leaves_the_batch_with_the_holder(server: LeaseServer, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    anna.commit("a, b")
    anna.tidy("a, b", "b")
    anna.release()
    assert (server.batch, server.spec.get("holderIdentity")) == ("b", None)


def test_a_batch_that_was_committed_since_is_not_tidied(server: LeaseServer, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    anna.commit("a, b")
    anna.tidy("a, b", "b")
    anna.commit("a, b, c")
    anna.renew()
    assert server.batch == "a, b, c"


def test_holder_with_requests_under_way_lets_the_lease_expire(server: LeaseServer, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    anna.release(idle=False)
    assert server.spec["holderIdentity"] == anna.identity


def test_commit_renews(ledger: Make, clock: t.Any) -> None:
    anna = ledger()
    anna.acquire(0)
    clock.now += 8.0
    anna.commit("b")
    assert anna.time_left() == 10.0


@pytest.mark.parametrize("when", ["before", "after"])
def test_commit_with_a_lost_answer_is_made_once(server: LeaseServer, stub: t.Any, ledger: Make, when: str) -> None:
    anna = ledger()
    anna.acquire(0)
    count, stored = len(stub.seen), len(server.writes)
    server.faults = {"PUT": [when]}
    anna.commit("b")
    methods = [seen.method for seen in stub.seen[count:]]
    assert methods == (["PUT", "GET", "PUT"] if when == "before" else ["PUT", "GET"])
    assert (server.batch, len(server.writes)) == ("b", stored + 1)
    anna.renew()


def test_commit_lost_on_the_way_while_another_took_over(server: LeaseServer, stub: t.Any, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)

    def meanwhile(seen: t.Any) -> t.Any:
        if seen.method == "GET":
            stub.next_reply = server.answer
            taken_over(server)
        return server.answer(seen)

    stub.next_reply = meanwhile
    server.faults = {"PUT": ["before"]}
    with pytest.raises(LostLeadership, match="ben holds it now"):
        anna.commit("b")
    assert (server.batch, server.spec["holderIdentity"]) == (None, "ben")
    assert anna.holder == "ben"


def test_refused_commit_is_not_written_and_not_the_end(server: LeaseServer, ledger: Make, fault: t.Any) -> None:
    anna = ledger()
    anna.acquire(0)
    server.faults = {"PUT": [fault(403, "Forbidden")]}
    with pytest.raises(Forbidden):
        anna.commit("b")
    assert (server.batch, anna.batch_text(), anna.must_stop()) == (None, None, False)
    anna.commit("c")
    assert server.batch == "c"


def test_oversized_batch_is_not_sent(server: LeaseServer, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    anna.commit("x" * BATCH_BYTES)
    with pytest.raises(KubeError, match=f"the batch has {BATCH_BYTES + 2} bytes"):
        anna.commit("x" * BATCH_BYTES + "é")
    assert server.batch == "x" * BATCH_BYTES


def test_next_holder_reads_the_last_batch_and_keeps_what_others_put_there(
    server: LeaseServer, ledger: Make, clock: t.Any
) -> None:
    anna, ben = ledger("anna"), ledger("ben")
    anna.acquire(0)
    anna.commit("b")
    assert server.lease is not None
    server.lease["metadata"]["labels"] = {"team": "a"}
    assert ben.acquire(30) is not None
    assert ben.batch_text() == "b"
    assert server.lease["metadata"]["labels"] == {"team": "a"}
    with pytest.raises(LostLeadership):
        anna.commit("late")
    assert server.batch == "b"


def test_release_frees_the_lease_at_once(server: LeaseServer, ledger: Make) -> None:
    anna, ben = ledger("anna"), ledger("ben")
    anna.acquire(0)
    anna.commit("b")
    anna.release()
    assert "holderIdentity" not in server.spec
    assert anna.must_stop()
    with pytest.raises(LostLeadership, match="it was released"):
        anna.commit("c")
    # Another epoch, although nobody was in between.
    assert ben.acquire(0) == Epoch("uid-1", 1)
    assert ben.batch_text() == "b"


def test_release_is_best_effort(server: LeaseServer, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    server.faults = {"PUT": ["before"], "GET": ["before"]}
    anna.release()
    assert (server.spec["holderIdentity"], anna.must_stop()) == (anna.identity, True)


def test_release_ends_a_renewal_that_gets_no_answer(server: LeaseServer, stub: t.Any, ledger: Make) -> None:
    anna = ledger()
    anna.acquire(0)
    leaving = threading.Thread(target=anna.release)

    def leave_meanwhile(seen: t.Any) -> t.Any:
        stub.next_reply = server.answer
        leaving.start()
        assert anna._stop.wait(30)
        return server.answer(seen)

    stub.next_reply = leave_meanwhile
    server.faults = {"PUT": ["before"]}
    with pytest.raises(LostLeadership, match="it is being released"):
        anna.renew()
    leaving.join(30)
    assert "holderIdentity" not in server.spec


def test_write_ids_tell_holder_epoch_and_number(ledger: Make) -> None:
    anna = ledger()
    epoch = anna.acquire(0)
    first, second = anna.next_write_id(), anna.next_write_id()
    assert first != second
    assert re.fullmatch(rf"{anna.identity}/{re.escape(str(epoch))}/\d+", first)


def test_epoch_as_text() -> None:
    assert Epoch.parse(str(Epoch("0b5c-11", 7))) == Epoch("0b5c-11", 7)
    for text in ("", "uid", "uid.", ".7", "uid.-1", "uid.x"):
        with pytest.raises(ValueError, match="not an epoch"):
            Epoch.parse(text)


def test_default_clock_goes_forward() -> None:
    first = steady_seconds()
    assert steady_seconds() >= first


def test_holders_of_an_earlier_lease_are_waited_for_one_lease_and_a_second(server: LeaseServer, ledger: Make) -> None:
    server.lease = {
        "metadata": {"uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {},
    }
    made = 1_767_225_600.0
    anna = ledger("anna")
    assert anna.created() == 0.0
    assert anna.acquire(0) is not None
    assert anna.created() == made
    waits = {later: anna.time_to_wait(made + later) for later in (-100, 0, 10, 16, 20)}
    assert waits == {-100: 16.0, 0: 16.0, 10: 6.0, 16: 0.0, 20: 0.0}
    anna.commit("{}")
    assert anna.time_to_wait(made) == 0.0


@pytest.mark.parametrize(
    ("seconds", "timeout", "sleeps"), [(15.0, 2.5, [1.0, 1.0, 0.5]), (2.0, 1.0, [0.4, 0.4, 0.2]), (15.0, 0.0, [])]
)
def test_the_lease_is_looked_at_again_every_second_or_more_often(
    ledger: Make, clock: t.Any, seconds: float, timeout: float, sleeps: list[float]
) -> None:
    ledger("anna").acquire(0)
    assert ledger("berta", terms=LeaseOptions(seconds=seconds)).acquire(timeout) is None
    assert clock.sleeps == pytest.approx(sleeps)


def test_each_request_has_a_limit_that_leaves_time_for_another(
    server: LeaseServer, client: KubeClient, ledger: Make, clock: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[str, float]] = []
    request = client.request

    def noted(method: str, *args: t.Any, **options: t.Any) -> t.Any:
        limits.append((method, options["timeout"]))
        return request(method, *args, **options)

    monkeypatch.setattr(client, "request", noted)
    anna = ledger("anna")
    anna.acquire(0)
    anna.renew()
    clock.now += 9.9
    anna.renew()
    # Looking, bidding and renewing have a whole lease, a third and a fifth of it.
    assert limits == [("GET", 15.0), ("POST", 5.0), ("PUT", 3.0), ("PUT", pytest.approx(5.1 / 2))]


def test_a_bid_is_limited_by_what_is_left_of_it(server: LeaseServer, ledger: Make, clock: t.Any) -> None:
    limit = ledger("anna")._bid_allowance(clock.now)
    seen = []
    for later in (0.0, 5.0, 6.0, 9.0):
        clock.now = 1000.0 + later
        seen.append(limit())
    assert seen == pytest.approx([5.0, 5.0, 4.0, 1.0])
    clock.now = 1010.0
    with pytest.raises(OutcomeUnknown, match="no answer in time"):
        limit()


class Threaded:
    """A ledger that renews in its own thread, on the real clock."""

    def __init__(self, stub: t.Any, seconds: float) -> None:
        address = {"host": stub.url, "api_key": "sesame"}
        self.client, self.renewals = (connect(address, environ={}) for _number in range(2))
        terms = LeaseOptions(seconds=seconds)
        self.ledger = DispatchLease(self.client, terms, "anna", renewal_client=self.renewals)


def test_thread_renews_over_its_own_connection_until_released(server: LeaseServer, stub: t.Any) -> None:
    enough = threading.Event()

    def counting(seen: t.Any) -> t.Any:
        made = server.answer(seen)
        if len(server.writes) >= 3:
            enough.set()
        return made

    stub.next_reply = counting
    anna = Threaded(stub, 2.0)
    anna.ledger.acquire(0)
    assert enough.wait(30)
    anna.ledger.release()
    assert (anna.client.requests["PUT"], anna.renewals.requests["PUT"] >= 2) == (1, True)
    assert not [thread for thread in threading.enumerate() if thread.name == "muster-kube-lease"]


class Waits:
    """Stands for the event that ends the thread: notes each wait, and in it lets something happen, as long as told."""

    def __init__(self, *happening: t.Callable[[], None]) -> None:
        self.asked: list[float] = []
        self._happening = list(happening)

    def wait(self, seconds: float) -> bool:
        self.asked.append(seconds)
        if not self._happening:
            return True
        self._happening.pop(0)()
        return False

    def is_set(self) -> bool:
        return False


def test_the_thread_renews_every_third_of_the_lease_and_sooner_after_a_refusal(
    server: LeaseServer, stub: t.Any, ledger: Make, clock: t.Any, fault: t.Any
) -> None:
    anna = ledger()
    anna.acquire(0)

    def slowly(seconds: float) -> None:
        def answer(seen: t.Any) -> t.Any:
            clock.now += seconds
            stub.next_reply = server.answer
            return server.answer(seen)

        stub.next_reply = answer

    waits = Waits(
        lambda: None,
        lambda: server.faults.update(PUT=[fault(403, "Forbidden")]),
        lambda: slowly(2.0),
        lambda: slowly(6.0),
        lambda: None,
        lambda: taken_over(server),
        lambda: pytest.fail("the lease was lost"),
    )
    anna._stop = waits  # type: ignore[assignment]
    anna._keep_renewing()
    # The third wait follows a refusal; of an answer that took long its time is taken off.
    assert waits.asked == pytest.approx([5.0, 5.0, 1.25, 3.0, 0.0, 5.0])
    assert anna.lost == "ben holds it now"


def test_thread_ends_when_the_lease_is_lost(server: LeaseServer, stub: t.Any) -> None:
    anna = Threaded(stub, 0.3)
    anna.ledger.acquire(0)
    taken_over(server)
    threads = [thread for thread in threading.enumerate() if thread.name == "muster-kube-lease"]
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert anna.ledger.lost in ("ben holds it now", "no renewal succeeded in time")
    assert server.spec["holderIdentity"] == "ben"


def test_commits_and_renewals_never_refuse_each_other(server: LeaseServer, stub: t.Any) -> None:
    anna = Threaded(stub, 60.0)
    anna.ledger.acquire(0)
    failures: list[Exception] = []

    def renew_often() -> None:
        try:
            for _turn in range(40):
                anna.ledger.renew()
        except KubeError as error:
            failures.append(error)

    other = threading.Thread(target=renew_often)
    other.start()
    for number in range(40):
        anna.ledger.commit(f"b{number}")
    other.join()
    anna.ledger.release()
    assert failures == []
    assert server.batch == "b39"
    # One create, 80 writes, one release; none was read back.
    assert len(server.writes) == 82
    assert [seen.method for seen in stub.seen].count("GET") == 1
