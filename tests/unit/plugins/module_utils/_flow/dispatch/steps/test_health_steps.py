# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why gangs are stopped: Events are read for those that are, and for no others."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage

EVENTS = ("GET", "/api/v1/namespaces/a/events", False)
QUOTA = "pods are forbidden: exceeded quota"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """A gang that was started on a node which is gone before its pods come."""
    with MemoryStage(1) as made:
        made.add_namespace("a")
        made.add_nodes(*cases.node_pool("p", 1))
        made.cluster.add("configmaps", cases.gang_record("g", "a", [cases.job("j", "p")]))
        one = made.dispatcher("one")
        one.cycle()
        for node in made.cluster.all("nodes"):
            made.cluster.remove("nodes", "", node["metadata"]["name"])
        one.release()
        yield made


def wait_for_pods(stage: MemoryStage) -> MemoryDispatcher:
    """Cycles of the next dispatcher until the pods should have had a node."""
    two = stage.dispatcher("two")
    for _cycle in range(4):
        two.cycle()
        two.pass_time(4.0)
    return two


def test_a_lost_race_tells_what_the_controller_reported(stage: MemoryStage) -> None:
    about = {"kind": "Job", "name": "j", "namespace": "a"}
    metadata = {"name": "e", "namespace": "a"}
    event = {"metadata": metadata, "involvedObject": about, "reason": "FailedCreate", "message": QUOTA}
    live = stage.cluster.get("jobs", "a", "j")
    assert live is not None
    event["involvedObject"] = {**about, "uid": live["metadata"]["uid"]}
    stage.cluster.add("events", event)
    two = wait_for_pods(stage)
    assert two.line.sent.count(EVENTS) == 1
    record = record_from_api(t.cast(t.Any, stage.cluster.get("configmaps", "a", "g")))
    assert record.state is not None
    undone = next(item for item in record.state.transitions if item.phase == "undoing")
    assert (undone.reason, undone.message.endswith(QUOTA)) == ("LostRace", True)


def test_events_are_not_read_for_stops_that_are_not_carried_out(stage: MemoryStage) -> None:
    newer = {"muster.kube/batch": json.dumps({"format": 99})}
    stage.cluster.change(
        "leases", "muster-system", "dispatch", lambda lease: lease["metadata"].update(annotations=newer)
    )
    two = wait_for_pods(stage)
    assert EVENTS not in two.line.sent
    assert record_from_api(t.cast(t.Any, stage.cluster.get("configmaps", "a", "g"))).phase == "dispatched"
