# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The embedded engine in office over one namespace, and what it makes of gangs there."""

from __future__ import annotations

import itertools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._engine.dry_run import DryRun
from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import StartGrant
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    TICKET_LABEL,
    Plan,
    plan_objects,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease, LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import create_record, read_record
from ansible_collections.muster.kube.tests.support.api_proxy import RequestBook
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

GRANT = StartGrant("batch-1", ({"name": "job", "count": 1, "requests": {"cpu": "1"}},))
FAULTS = ("403", "409", "422", "429", "500", "cut before", "cut after")
Object = dict[str, t.Any]
START_WRITES = {
    "ticket": ("POST", "/configmaps$", 1),
    "first object": ("POST", "/configmaps$", 2),
    "second object": ("POST", "/services$", 1),
    "third object": ("POST", "/jobs$", 1),
    "dispatched": ("PUT", "/configmaps/", 1),
}
UNDO_WRITES = {
    "undoing": ("PUT", "/configmaps/gang", 1),
    "delete ticket": ("DELETE", "/configmaps/muster-ticket", 1),
    "delete third": ("DELETE", "/jobs/", 1),
    "delete second": ("DELETE", "/services/", 1),
    "delete first": ("DELETE", "/configmaps/gang", 1),
    "queued": ("PUT", "/configmaps/gang", 2),
}


def config(name: str, **metadata: t.Any) -> Object:
    """An object without pods."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "b"}}


def service(name: str) -> Object:
    """Another object without pods."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": [{"port": 80}], "selector": {"app": name}},
    }


def job(name: str) -> Object:
    """A Job of one pod."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


def claim_of_volume(name: str) -> Object:
    """A claim, which is kept from attempt to attempt."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


class EngineStage:
    """One namespace, a dispatcher in office and what it does to gangs there."""

    def __init__(self, cluster: LiveCluster, namespace: str, kubeconfig: t.Any) -> None:
        """In office with the rights of the kubeconfig, which may lead through a proxy; the test goes straight."""
        self.cluster = cluster
        self.namespace = namespace
        self.client: KubeClient = cluster.client
        self.proxied = cluster.connect(str(kubeconfig))
        self.time = itertools.count(1_800_000_000, 10)
        self.engine = self.take_office(self.proxied)

    def now(self) -> str:
        """Time flies: no test has to wait for a late request."""
        return time_text(next(self.time))

    def take_office(self, client: KubeClient, act_as: t.Any = None) -> Embedded:
        """The engine of a new holder of the Lease."""
        terms = LeaseOptions(self.namespace, "dispatch", 10.0)
        ledger = DispatchLease(
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
        """Queue a gang."""
        spec = read_spec({"name": name, "namespace": self.namespace, "objects": list(objects), **settings}, name)
        return create_record(self.client, build_record(spec))

    def three(self, name: str) -> Record:
        """A gang of three objects."""
        return self.submit(name, config(f"{name}-a"), service(f"{name}-b"), job(f"{name}-c"))

    def plan(self, record: Record) -> Plan:
        """What the next attempt of a gang makes."""
        assert record.spec is not None
        return plan_objects(record.spec, record.uid, record.attempt)

    def dry_run(self, record: Record, engine: Embedded | None = None) -> DryRun:
        """What would keep a gang from being started."""
        return (engine or self.engine).dry_run(record, self.plan(record), GRANT)

    def start(self, record: Record, engine: Embedded | None = None) -> Record:
        """Start a gang and write it down."""
        used = engine or self.engine
        started = used.submit(record, self.plan(record), GRANT)
        return used.save(started) if started.unsaved else started

    def again(self, record: Record) -> Record:
        """The record as it is now."""
        found = read_record(self.client, "configmap", self.namespace, record.name)
        assert found is not None
        return found

    def get(self, obj: Object) -> Object | None:
        """The live object of this kind and name."""
        placed = {**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}}
        return get_object(self.client, self.cluster.path(placed))

    def there(self, record: Record) -> list[str]:
        """The gang's objects that exist and are not on their way out."""
        assert record.spec is not None
        found = [self.get(obj) for obj in record.spec.objects]
        return [obj["metadata"]["name"] for obj in found if obj and not obj["metadata"].get("deletionTimestamp")]

    def tickets(self, record: Record) -> list[Object]:
        """The tickets that belong to a record."""
        path = resource_path("v1", "configmaps", self.namespace)
        found = list_objects(self.client, path, keep=lambda raw: raw, label_selector=f"{TICKET_LABEL}=true").items
        return [item for item in found if item["metadata"]["ownerReferences"][0]["uid"] == record.uid]

    def finish(self, record: Record, engine: Embedded | None = None) -> Record:
        """Wait until an undo is over."""
        plan = self.plan(record)
        return wait_until("the undo to end", lambda: (engine or self.engine).finish_stop(self.again(record), plan))

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
        """Whether a record says that a ticket is its own."""
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


def make_fault(proxy: RequestBook, fault: str, method: str, path: str, first: int) -> None:
    """Have one write that matches fail in this way."""
    where = {"method": method, "path": path, "first": first}
    if fault.startswith("cut"):
        proxy.cut(when=fault.split()[1], **where)
    else:
        proxy.fail(status=int(fault), **where)


# Starting.


def start_with_each_fault(stage: EngineStage, proxy: RequestBook, fault: str) -> None:
    """Start gangs, each with this fault at another write: every one ends whole or not at all."""
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
        # What passes does not cost the start.
        assert reached == ["dispatched"] * len(START_WRITES)
        assert unsure == []
    if fault == "422":
        assert reached[1:4] == ["failed"] * 3


def undo_with_each_fault(stage: EngineStage, proxy: RequestBook, fault: str) -> None:
    """Undo gangs, each with this fault at another write: nothing is left of any."""
    for number, where in enumerate(UNDO_WRITES.values()):
        record = stage.start(stage.three(f"gang{number}"))
        assert record.phase == "dispatched"
        make_fault(proxy, fault, *where)
        try:
            stage.engine.stop(record, "LostRace", "", then="queued", lost_races=1)
        except LostLeadership:
            raise
        except KubeError:
            proxy.clear()
            stage.engine.stop(stage.again(record), "LostRace", "", then="queued", lost_races=1)
        rested = stage.bring_to_rest(record)
        proxy.clear()
        stage.assert_whole(rested)
        assert rested.state is not None
        assert (rested.phase, rested.attempt, rested.state.lost_races) == ("queued", 2, 1)
