# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Another engine is one class and one entry: queue, Lease, batch and health are the dispatcher's own."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Collection, Iterable

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.dry_run import DryRun
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal
from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import (
    Capabilities,
    Engine,
    Progress,
    StartGrant,
)
from ansible_collections.muster.kube.plugins.module_utils._engine.registry import ENGINES
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import Changes, Phase
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import TICKET_LABEL, Plan
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease
from ansible_collections.muster.kube.plugins.module_utils._store.state_writer import StateWriter
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage

JOBS = ("batch/v1", "jobs", "a")


class JobsEngine:
    """Creates Jobs as they are planned, without tickets, and only in the cycle after the one that chose them."""

    capabilities: t.ClassVar = Capabilities()

    def __init__(
        self, client: KubeClient, lease: DispatchLease, act_as: Callable[[str], KubeClient], now: Callable[[], str]
    ) -> None:
        del act_as
        self._client = client
        self._writer = StateWriter(client, lease, now)

    def dry_run(self, record: Record, _plan: Plan, _grant: StartGrant) -> DryRun:
        return DryRun(Refusal("requeue", "Asleep", "ask later")) if record.name == "unwelcome" else DryRun()

    def submit(self, record: Record, _plan: Plan, grant: StartGrant) -> Record:
        return self._writer.advance(
            record, "dispatching", "Chosen", "", batch=grant.batch, reserved=grant.reserved, digest=None
        )

    def go_on(self, record: Record, plan: Plan) -> Record:
        for item in plan:
            create(self._client, resource_path(*JOBS), item.object)
        return self._writer.advance(record, "dispatched", "Started", "", started_at=self._writer._now())

    def state(self, record: Record, _objects: Iterable[t.Any] = ()) -> Progress:
        return "ready" if record.phase == "dispatching" else "started"

    def reason(self, _record: Record) -> str | None:
        return "the next cycle"

    def stop(
        self, record: Record, reason: str, message: str, phase: Phase = "undoing", **changes: t.Unpack[Changes]
    ) -> Record:
        return self._writer.advance(record, phase, reason, message, **changes)

    def finish_stop(self, record: Record, plan: Plan) -> Record | None:
        paths = [resource_path(*JOBS, item.key[3]) for item in plan]
        left = [path for path in paths if get_object(self._client, path) is not None]
        for path in left:
            delete(self._client, path, uid=get_object(self._client, path)["metadata"]["uid"])  # type: ignore[index]
        assert record.state is not None
        then = record.state.then or "queued"
        return None if left else self._writer.advance(record, then, "Stopped", "", reserved=(), then=None)

    def forget(self, _alive: Collection[str]) -> None:
        """Nothing is known of any."""


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[MemoryStage]:
    """A node, the namespace a, and one more engine."""
    engine: type[Engine] = JobsEngine
    monkeypatch.setitem(ENGINES, "jobs", engine)
    with MemoryStage(1) as made:
        made.add_namespace("a")
        made.add_nodes(*cases.node_pool("p", 1))
        yield made


def record_of(stage: MemoryStage, name: str = "train") -> Record:
    found = stage.cluster.get("configmaps", "a", name)
    assert found is not None
    return record_from_api(found)


def phases(stage: MemoryStage, dispatcher: MemoryDispatcher, cycles: int) -> list[str]:
    """The phase after each of some cycles."""
    seen = []
    for _cycle in range(cycles):
        dispatcher.cycle()
        dispatcher.pass_time(1.0)
        seen.append(record_of(stage).phase)
    return seen


def test_a_gang_is_started_and_stopped_by_an_engine_that_is_only_registered(stage: MemoryStage) -> None:
    stage.cluster.add("configmaps", cases.gang_record("train", "a", [cases.job("j", "p")]))
    dispatcher = stage.dispatcher("one", engine="jobs")
    assert phases(stage, dispatcher, 4) == ["dispatching", "dispatched", "running", "running"]
    assert dispatcher.session is not None
    decisions, _warnings = dispatcher.session.journal.take()
    assert [(item.action, item.message) for item in decisions if item.action == "wait"] == [("wait", "the next cycle")]
    assert len(stage.cluster.all("jobs", "a")) == 1
    foreseen = preview_dispatch(dispatcher.line.client("checker"), dispatcher.terms)
    assert (foreseen.decisions, foreseen.warnings) == ([], [])
    suspended = cases.gang_record("train", "a", [cases.job("j", "p")], suspended=True)
    stage.cluster.change("configmaps", "a", "train", lambda record: record.update(data=suspended["data"]))
    assert phases(stage, dispatcher, 4)[-1] == "suspended"
    assert not stage.cluster.all("jobs", "a")
    assert not [item for item in stage.cluster.all("configmaps", "a") if TICKET_LABEL in item["metadata"]["labels"]]


def test_a_gang_that_the_engine_would_refuse_waits(stage: MemoryStage) -> None:
    stage.cluster.add("configmaps", cases.gang_record("unwelcome", "a", [cases.job("j", "p")]))
    stage.dispatcher("one", engine="jobs").cycle()
    state = record_of(stage, "unwelcome").state
    assert state is not None
    assert (state.phase, (state.verdict or {})["reason"]) == ("queued", "Asleep")


def test_the_embedded_engine_is_the_usual_one(stage: MemoryStage) -> None:
    stage.cluster.add("configmaps", cases.gang_record("train", "a", [cases.job("j", "p")]))
    stage.dispatcher("one").cycle()
    assert record_of(stage).phase == "dispatched"
    assert any(TICKET_LABEL in item["metadata"]["labels"] for item in stage.cluster.all("configmaps", "a"))
