# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small cluster in memory and an engine at work in it."""

from __future__ import annotations

import itertools
import types
import typing as t

import pytest

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
    from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan

Object = dict[str, t.Any]
CONFIGMAPS = "/api/v1/namespaces/team/configmaps"
JOBS = "/apis/batch/v1/namespaces/team/jobs"
PODS = "/api/v1/namespaces/team/pods"


class HeldLease:
    """A Lease that is held for as long as the test likes."""

    def __init__(self) -> None:
        self.identity = "me_1"
        self.epoch = "lease.0"
        self.terms = types.SimpleNamespace(seconds=10.0)
        self.lost = False
        self._numbers = itertools.count(1)

    def write_timeout(self) -> float:
        from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

        if self.lost:
            raise LostLeadership("write under", "Lease x", "somebody else holds it")
        return 5.0

    def next_write_id(self) -> str:
        return f"{self.identity}/{self.epoch}/{next(self._numbers)}"


class Bench:
    """Records, an engine and the server they live in."""

    def __init__(self) -> None:
        from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
        from ansible_collections.muster.kube.tests.support.faulty_api import FaultyApi

        self.api = FaultyApi()
        self.client = self.api.client()
        self.lease = HeldLease()
        self.seconds = 1_800_000_000.0
        self.engine: Embedded = Embedded(self.client, t.cast(t.Any, self.lease), lambda _ns: self.client, self.now)

    def other_engine(self) -> Embedded:
        """The engine of another holder of the Lease, at work in the same cluster."""
        from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded

        lease = HeldLease()
        lease.identity, lease.epoch = "other_2", "lease.1"
        return Embedded(self.client, t.cast(t.Any, lease), lambda _ns: self.client, self.now)

    def now(self) -> str:
        from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text

        return time_text(self.seconds)

    def config(self, name: str, **metadata: t.Any) -> Object:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {}}

    def job(self, name: str, **metadata: t.Any) -> Object:
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, **metadata},
            "spec": {"template": {"spec": pod}},
        }

    def queue(self, *objects: Object, name: str = "gang", **settings: t.Any) -> Record:
        from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
        from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
        from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import create_record

        wanted = objects or (self.config("a"), self.job("b"))
        spec = read_spec({"name": name, "namespace": "team", "objects": list(wanted), **settings}, name)
        record = create_record(self.client, build_record(spec))
        self.api.asked.clear()
        return record

    def plan(self, record: Record) -> Plan:
        from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import plan_objects

        assert record.spec is not None
        return plan_objects(record.spec, record.uid, record.attempt)

    def dry_run(self, record: Record) -> t.Any:
        from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import StartGrant

        return self.engine.dry_run(record, self.plan(record), StartGrant("b1"))

    def submit(self, record: Record) -> Record:
        from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import StartGrant

        return self.engine.submit(record, self.plan(record), StartGrant("b1"))

    def start(self, record: Record) -> Record:
        started = self.submit(record)
        return self.engine.save(started) if started.unsaved else started

    def again(self, record: Record) -> Record:
        from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
        from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import path_of

        return record_from_api(self.api.objects[path_of(record)])

    def ticket_path(self, record: Record) -> str:
        from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import ticket_name

        return f"{CONFIGMAPS}/{ticket_name(record.uid, record.attempt)}"

    def names(self) -> list[str]:
        """The objects there are, without namespace, records and tickets."""
        found = [path.rpartition("/")[2] for path in sorted(self.api.objects)]
        return [name for name in found if name not in ("team", "gang") and not name.startswith("muster-ticket")]


@pytest.fixture
def bench() -> Bench:
    return Bench()
