# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ledger and settled writes against a real API server: takeovers, stale holders, lost answers."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Created,
    Existing,
    ObjectGone,
    Ownership,
    Superseded,
    settle_create,
    settle_delete,
    settle_replace,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION, LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import (
    DispatchLease,
    Epoch,
    LostLeadership,
)

# Never reached when things work.
PATIENCE = 60.0
WRITE_ID = "muster.kube/write"
FAULTS = ["cut before", "cut after", "cut inside", "429", "500", "503"]


class Office:
    """One namespace with its Lease, and those who want it."""

    def __init__(self, cluster: t.Any, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.path = resource_path("coordination.k8s.io/v1", "leases", namespace, "dispatch")
        self.made: list[DispatchLease] = []

    def ledger(self, name: str, *, seconds: float = 60.0, kubeconfig: t.Any = None, **options: t.Any) -> DispatchLease:
        """A candidate with two connections of its own."""
        address = {"kubeconfig": str(kubeconfig or self.cluster.kubeconfig)}
        terms = LeaseOptions(self.namespace, "dispatch", seconds)
        made = DispatchLease(connect(address), terms, name, renewal_client=connect(address), **options)
        self.made.append(made)
        return made

    @property
    def lease(self) -> t.Any:
        """The Lease as it is now."""
        return get_object(self.cluster.client, self.path)

    @property
    def batch(self) -> str | None:
        """The committed batch."""
        return self.lease["metadata"]["annotations"].get(BATCH_ANNOTATION)


@pytest.fixture
def office(cluster, namespace):
    """A place to hold office; everybody leaves at the end."""
    place = Office(cluster, namespace)
    yield place
    for ledger in place.made:
        ledger.release()


def test_of_four_candidates_one_wins_each_time(office: Office) -> None:
    for transitions in range(3):
        candidates = [office.ledger(f"c{number}") for number in range(4)]
        epochs = parallel([lambda candidate=candidate: candidate.acquire(0) for candidate in candidates], width=4)
        winners = [candidate for candidate, epoch in zip(candidates, epochs, strict=True) if epoch is not None]
        assert [str(epoch) for epoch in epochs if epoch] == [f"{office.lease['metadata']['uid']}.{transitions}"]
        assert office.lease["spec"]["holderIdentity"] == winners[0].identity
        winners[0].release()
        assert "holderIdentity" not in office.lease["spec"]


def test_lease_is_well_formed(office: Office) -> None:
    anna = office.ledger("anna", seconds=2.5, renew_in_background=False)
    anna.acquire(PATIENCE)
    spec = office.lease["spec"]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (3, 0)
    for name in ("acquireTime", "renewTime"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", spec[name])


def test_missing_namespace_is_told(office: Office) -> None:
    office.namespace = "no-such-namespace"
    with pytest.raises(KubeError, match="the namespace no-such-namespace does not exist"):
        office.ledger("anna").acquire(PATIENCE)


def test_holder_cut_off_is_replaced_and_refused(office: Office, proxy: t.Any) -> None:
    anna = office.ledger("anna", seconds=1.0, kubeconfig=proxy.kubeconfig)
    ben = office.ledger("ben", seconds=1.0)
    first = anna.acquire(PATIENCE)
    assert first is not None
    assert ben.acquire(0) is None
    assert ben.holder == anna.identity
    proxy.cut(path="/leases", times=None)
    assert ben.acquire(PATIENCE) == Epoch(first.lease_uid, 1)
    # Long before: two thirds of the lease are over for her when all of it is over for him.
    assert anna.must_stop()
    proxy.clear()
    proxy.forget()
    with pytest.raises(LostLeadership):
        anna.commit("late")
    assert proxy.writes == []
    assert (office.lease["spec"]["holderIdentity"], office.batch) == (ben.identity, None)


def test_living_holder_is_not_replaced(office: Office, proxy: t.Any) -> None:
    anna = office.ledger("anna", seconds=4.0, kubeconfig=proxy.kubeconfig)
    ben = office.ledger("ben", seconds=1.0)
    assert anna.acquire(PATIENCE) is not None
    assert ben.acquire(5.0) is None
    assert [request for request in proxy.writes if request.method == "PUT"]
    assert not anna.must_stop()


def test_stopped_clock_does_not_help_a_replaced_holder(office: Office) -> None:
    # Stopped between looking at the clock and writing: only the server can refuse now.
    anna = office.ledger("anna", seconds=1.0, renew_in_background=False, clock=lambda: 0.0)
    ben = office.ledger("ben", seconds=1.0)
    anna.acquire(PATIENCE)
    anna.commit("first")
    assert ben.acquire(PATIENCE) is not None
    assert ben.batch_text() == "first"
    assert not anna.must_stop()
    with pytest.raises(LostLeadership, match=f"{ben.identity} holds it now"):
        anna.commit("late")
    with pytest.raises(LostLeadership):
        anna.renew()
    assert (office.lease["spec"]["holderIdentity"], office.batch) == (ben.identity, "first")


def test_lease_deleted_under_its_holder_is_not_created_by_a_renewal(office: Office) -> None:
    anna = office.ledger("anna", renew_in_background=False)
    anna.acquire(PATIENCE)
    delete(office.cluster.client, office.path)
    with pytest.raises(LostLeadership, match="it was deleted"):
        anna.renew()
    assert office.lease is None


def test_lease_created_anew_has_another_epoch(office: Office) -> None:
    anna, ben = office.ledger("anna", renew_in_background=False), office.ledger("ben")
    first = anna.acquire(PATIENCE)
    delete(office.cluster.client, office.path)
    second = ben.acquire(0)
    assert first is not None
    assert second is not None
    assert (first.transitions, second.transitions) == (0, 0)
    assert str(first) != str(second)
    with pytest.raises(LostLeadership, match="it was deleted"):
        anna.commit("late")
    assert (office.lease["spec"]["holderIdentity"], office.batch) == (ben.identity, None)


def make_fault(proxy: t.Any, fault: str, method: str, path: str) -> None:
    """Let the next such request go wrong."""
    if fault.startswith("cut"):
        proxy.cut(when=fault.split()[1], method=method, path=path)
    else:
        proxy.fail(status=int(fault), method=method, path=path, retry_after=1 if fault == "429" else None)


def stored_in_spite(fault: str) -> bool:
    """Whether the server has done what it was asked although the client was not told."""
    return fault in ("cut after", "cut inside")


@pytest.mark.parametrize("fault", FAULTS)
def test_commit_in_spite_of(office: Office, proxy: t.Any, fault: str) -> None:
    anna = office.ledger("anna", kubeconfig=proxy.kubeconfig, renew_in_background=False)
    anna.acquire(PATIENCE)
    proxy.forget()
    make_fault(proxy, fault, "PUT", "/leases/dispatch")
    anna.commit("b1")
    assert len(proxy.writes) == (1 if stored_in_spite(fault) else 2)
    anna.renew()
    assert office.batch == "b1"
    anna.release()
    ben = office.ledger("ben")
    assert ben.acquire(0) is not None
    assert ben.batch_text() == "b1"


class Shelf:
    """ConfigMaps of one namespace, seen directly and through the proxy."""

    def __init__(self, cluster: t.Any, namespace: str, proxy: t.Any) -> None:
        self.direct = cluster.client
        self.client = connect({"kubeconfig": str(proxy.kubeconfig)})
        self.namespace = namespace
        self.collection = resource_path("v1", "configmaps", namespace)
        self.path = f"{self.collection}/thing"

    def thing(self, owner: str = "me") -> dict[str, t.Any]:
        """What is created."""
        meta = {"name": "thing", "namespace": self.namespace, "annotations": {WRITE_ID: owner}}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"owner": owner}}

    def put(self, owner: str = "me") -> dict[str, t.Any]:
        """Create it directly."""
        return create(self.direct, self.collection, self.thing(owner))

    def things(self) -> list[dict[str, t.Any]]:
        """All there is, without what the cluster itself puts into a namespace."""
        found = list_objects(self.direct, self.collection, keep=lambda obj: obj).items
        return [obj for obj in found if obj["metadata"]["name"] != "kube-root-ca.crt"]


def write_id_of(obj: dict[str, t.Any]) -> str | None:
    """The id of the last write."""
    return (obj["metadata"].get("annotations") or {}).get(WRITE_ID)


def whose(obj: dict[str, t.Any]) -> Ownership:
    """Ours if made by us."""
    return Ownership.OURS if write_id_of(obj) == "me" else Ownership.FOREIGN


def changed(obj: dict[str, t.Any]) -> dict[str, t.Any]:
    """The object as the second write makes it."""
    annotations = {**obj["metadata"]["annotations"], WRITE_ID: "second"}
    return {**obj, "metadata": {**obj["metadata"], "annotations": annotations}, "data": {"step": "2"}}


@pytest.fixture
def shelf(cluster, namespace, proxy):
    """An empty shelf."""
    return Shelf(cluster, namespace, proxy)


@pytest.mark.parametrize("fault", FAULTS)
def test_create_in_spite_of(shelf: Shelf, proxy: t.Any, fault: str) -> None:
    make_fault(proxy, fault, "POST", "/configmaps")
    outcome = settle_create(shelf.client, shelf.collection, shelf.thing(), is_ours=whose)
    assert isinstance(outcome, Created)
    assert outcome.read_back == stored_in_spite(fault)
    assert [obj["metadata"]["uid"] for obj in shelf.things()] == [outcome.obj["metadata"]["uid"]]


@pytest.mark.parametrize("owner", ["me", "you"])
def test_create_where_the_name_is_taken(shelf: Shelf, proxy: t.Any, owner: str) -> None:
    there = shelf.put(owner)
    outcome = settle_create(shelf.client, shelf.collection, shelf.thing(), is_ours=whose)
    expected = Created(there, read_back=True) if owner == "me" else Existing(there, Ownership.FOREIGN)
    assert outcome == expected
    assert shelf.things() == [there]


def test_create_held_up_until_after_its_repetition(shelf: Shelf, proxy: t.Any) -> None:
    held = proxy.hold(method="POST", path="/configmaps")
    outcome = settle_create(shelf.client, shelf.collection, shelf.thing(), is_ours=whose, allowance=lambda: 2.0)
    held.release()
    assert isinstance(outcome, Created)
    assert [obj["metadata"]["uid"] for obj in shelf.things()] == [outcome.obj["metadata"]["uid"]]


@pytest.mark.parametrize("fault", FAULTS)
def test_replace_in_spite_of(shelf: Shelf, proxy: t.Any, fault: str) -> None:
    there = shelf.put()
    make_fault(proxy, fault, "PUT", "/configmaps/thing")
    stored = settle_replace(shelf.client, shelf.path, changed(there), "second", write_id_of)
    assert [stored] == shelf.things()
    assert (stored["metadata"]["uid"], stored["data"]) == (there["metadata"]["uid"], {"step": "2"})
    assert len(proxy.writes) == (1 if stored_in_spite(fault) else 2)


@pytest.mark.parametrize("fault", [None, *FAULTS[:1]])
def test_replace_that_came_second(shelf: Shelf, proxy: t.Any, fault: str | None) -> None:
    there = shelf.put()
    newer = patch(shelf.direct, shelf.path, {"data": {"foreign": "yes"}})
    if fault:
        make_fault(proxy, fault, "PUT", "/configmaps/thing")
    with pytest.raises(Superseded) as told:
        settle_replace(shelf.client, shelf.path, changed(there), "second", write_id_of)
    assert [told.value.found] == [newer] == shelf.things()


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("fault", [None, *FAULTS[:1]])
def test_replace_of_what_was_deleted(shelf: Shelf, proxy: t.Any, anew: bool, fault: str | None) -> None:
    there = shelf.put()
    delete(shelf.direct, shelf.path)
    left = [shelf.put()] if anew else []
    if fault:
        make_fault(proxy, fault, "PUT", "/configmaps/thing")
    with pytest.raises(ObjectGone, match=there["metadata"]["uid"]):
        settle_replace(shelf.client, shelf.path, changed(there), "second", write_id_of)
    assert shelf.things() == left


@pytest.mark.parametrize("fault", FAULTS)
def test_delete_in_spite_of(shelf: Shelf, proxy: t.Any, fault: str) -> None:
    there = shelf.put()
    make_fault(proxy, fault, "DELETE", "/configmaps/thing")
    settle_delete(shelf.client, shelf.path, there["metadata"]["uid"])
    assert shelf.things() == []


@pytest.mark.parametrize("fault", [None, "cut before", "cut after"])
def test_delete_spares_another_object(shelf: Shelf, proxy: t.Any, fault: str | None) -> None:
    there = shelf.put()
    delete(shelf.direct, shelf.path)
    settle_delete(shelf.client, shelf.path, there["metadata"]["uid"])
    another = shelf.put()
    if fault:
        make_fault(proxy, fault, "DELETE", "/configmaps/thing")
    settle_delete(shelf.client, shelf.path, there["metadata"]["uid"])
    assert shelf.things() == [another]


def test_delete_of_what_is_leaving_already(shelf: Shelf, proxy: t.Any) -> None:
    obj = shelf.thing()
    obj["metadata"]["finalizers"] = ["muster.kube/test"]
    uid = create(shelf.direct, shelf.collection, obj)["metadata"]["uid"]
    make_fault(proxy, "cut after", "DELETE", "/configmaps/thing")
    settle_delete(shelf.client, shelf.path, uid)
    assert len([request for request in proxy.writes if request.method == "DELETE"]) == 1
    patch(shelf.direct, shelf.path, {"metadata": {"finalizers": None}})
    assert shelf.things() == []
