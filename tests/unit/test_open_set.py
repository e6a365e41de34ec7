# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The batch on the Lease in memory: read whoever wrote it, emptied when all is over, with room for many."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_ANNOTATION,
    Batch,
    demand_digest,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_controllers import Pace
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage

Object = dict[str, t.Any]
STATE = "muster.kube/state"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Two nodes of 4 cpu and the namespaces a and b; pods are bound late."""
    with MemoryStage(1, Pace(schedule=30.0)) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


def submit(stage: MemoryStage, name: str, namespace: str, pods: int) -> None:
    """Queue a gang of one Job."""
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, [cases.job(f"{name}-j", "p", pods)]))


def phase(stage: MemoryStage, name: str, namespace: str) -> str:
    """What the record says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get(STATE)
    return "queued" if text is None else str(json.loads(text)["phase"])


def kept_text(stage: MemoryStage) -> str:
    """What the Lease says."""
    lease = stage.cluster.get("leases", "muster-system", "dispatch")
    assert lease is not None
    return str(lease["metadata"]["annotations"][BATCH_ANNOTATION])


def kept(stage: MemoryStage) -> Batch:
    """The batch on the Lease."""
    found = read_batch(kept_text(stage)).batch
    assert found is not None
    return found


def as_before(batch: Batch) -> str:
    """A batch as earlier versions write it."""
    demands = {entry.uid: [dict(item) for item in batch.demand_of(entry)] for entry in batch.entries}
    entries = [
        {
            "op": entry.op,
            "namespace": entry.namespace,
            "name": entry.name,
            "uid": entry.uid,
            "attempt": entry.attempt,
            "digest": "d" * 16,
            "demand": demand_digest(demands[entry.uid]),
            "batch": entry.batch,
            "at": entry.at,
            "patience": entry.patience,
        }
        for entry in batch.entries
    ]
    by_digest = {demand_digest(demand): demand for demand in demands.values()}
    return json.dumps({"format": 1, "id": batch.id, "epoch": batch.epoch, "entries": entries, "demands": by_digest})


def test_promises_of_an_earlier_version_are_taken_over(stage: MemoryStage) -> None:
    submit(stage, "g", "a", 8)
    first = stage.dispatcher("first")
    first.cycle()
    assert phase(stage, "g", "a") == "dispatched"
    first.release()
    found = kept(stage)

    def rewrite(lease: Object) -> None:
        """As if an earlier version had been the holder."""
        lease["metadata"]["annotations"][BATCH_ANNOTATION] = as_before(found)

    stage.cluster.change("leases", "muster-system", "dispatch", rewrite)
    assert kept(stage) == found
    submit(stage, "h", "b", 8)
    second = stage.dispatcher("second", ["b"])
    second.cycle()
    assert phase(stage, "h", "b") == "queued"
    assert kept(stage).entries == found.entries
    second.release()
    third = stage.dispatcher("third")
    third.cycle()
    third.pass_time(40)
    third.cycle()
    assert phase(stage, "g", "a") == "running"


def test_a_batch_of_which_all_is_over_is_emptied(stage: MemoryStage) -> None:
    for number in range(8):
        submit(stage, f"g{number}", "a", 1)
    one = stage.dispatcher("one")
    one.cycle()
    assert len(kept(stage).entries) == 8
    one.pass_time(40)
    one.cycle()
    assert phase(stage, "g0", "a") == "running"
    one.pass_time(10)
    assert kept(stage).entries == ()
    assert len(kept_text(stage)) < 200
    # Earlier versions can have the Lease then.
    assert json.loads(kept_text(stage))["format"] == 1


def test_of_many_gangs_all_are_started_at_once() -> None:
    """Several times as many as an earlier format had room for."""
    with MemoryStage(1, Pace(schedule=30.0)) as stage:
        stage.add_namespace("a")
        stage.add_nodes(*cases.node_pool("p", 150))
        for number in range(600):
            submit(stage, f"g{number}", "a", 1)
        one = stage.dispatcher("one")
        one.cycle()
        assert len(kept(stage).entries) == 600
        assert len(kept_text(stage)) / 600 < 60
