# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A cycle decides on records as they will be after its own steps: what comes between, and what the steps leave out."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Journal
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import TICKET_LABEL
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import plan as plan_module
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import walk as walk_module
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier, Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import (
    MemoryDispatcher,
    MemoryStage,
    inline_calls,
)
from ansible_collections.muster.kube.tests.support.memory_wire import Fault

Object = cases.Object

STATE = "muster.kube/state"
SUBMITTED = "muster.kube/submitted"
LONG_AGO = "2026-01-01T00:00:00Z"
SECRET: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "g-k"}}
# Its server is down, or there is none.
THING: Object = {"apiVersion": "broken.example.com/v1", "kind": "Thing", "metadata": {"name": "g-t"}}
THINGS = "/apis/broken.example.com/v1"
PODS = [{"name": "w", "count": 1, "requests": {"cpu": "1"}}]
ALWAYS = 10**6


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Two nodes of 4 cpu and the namespaces a and b."""
    with MemoryStage(1) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


def submit(stage: MemoryStage, name: str, namespace: str, *objects: Object, **options: t.Any) -> None:
    """Queue a gang."""
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, objects, **options))


def rewrite(stage: MemoryStage, name: str, **options: t.Any) -> None:
    """Write other options into a record of the namespace a."""

    def edit(record: Object) -> None:
        record["data"]["gang.json"] = json.dumps({**json.loads(record["data"]["gang.json"]), **options})

    stage.cluster.change("configmaps", "a", name, edit)


def annotate(stage: MemoryStage, key: str, text: str) -> None:
    """Write an annotation into the record g."""

    def edit(record: Object) -> None:
        record["metadata"].setdefault("annotations", {})[key] = text

    stage.cluster.change("configmaps", "a", "g", edit)


def phase(stage: MemoryStage, name: str, namespace: str = "a") -> str:
    """What the record says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get(STATE)
    return "queued" if text is None else str(json.loads(text)["phase"])


def tickets(stage: MemoryStage) -> list[Object]:
    """The tickets in the namespace a."""
    return [
        item for item in stage.cluster.all("configmaps", "a") if TICKET_LABEL in (item["metadata"].get("labels") or {})
    ]


def lenient(one: MemoryDispatcher) -> Journal:
    """A dispatcher that goes on after an error of ours, as in a run; where it tells of it."""
    assert one.session is not None or one.acquire()
    assert one.session is not None
    one.session.journal = Journal()
    return one.session.journal


def cycles(one: MemoryDispatcher, count: int) -> None:
    """Some cycles with some time between."""
    for _cycle in range(count):
        one.cycle()
        one.pass_time(2)


def test_resumed_gang_that_may_not_be_started_is_refused(stage: MemoryStage) -> None:
    submit(stage, "g", "a", SECRET, cases.job("g-j", "p", 1), suspended=True)
    one = stage.dispatcher("one")
    cycles(one, 1)
    assert phase(stage, "g") == "suspended"
    rewrite(stage, "g", suspended=False)
    done = one.cycle().session.journal.take()[0]
    assert phase(stage, "g") == "failed"
    assert [item.action for item in done if item.gang == "a/g"] == ["suspend", "queue", "fail"]
    assert not stage.cluster.all("secrets", "a")
    assert not stage.cluster.all("jobs", "a")


FORGED = {
    "a year that ends all": (SUBMITTED, "9999-12-31T23:59:59.999999Z"),
    "layers that are none": (
        STATE,
        json.dumps(
            {
                "format": 1,
                "phase": "queued",
                "attempt": 1,
                "write_id": "x/y.1/1",
                "transitions": [["queued", LONG_AGO, "Submitted", ""]],
                "verdict": {"answer": "waits", "layers": 5},
            }
        ),
    ),
}


@pytest.mark.parametrize("refused", [False, True], ids=["suspended", "refused"])
@pytest.mark.parametrize("what", FORGED)
def test_forged_record_that_takes_a_step_holds_nobody_up(stage: MemoryStage, what: str, refused: bool) -> None:
    submit(stage, "g", "a", *([SECRET] if refused else []), cases.job("g-j", "p", 1), suspended=not refused)
    annotate(stage, *FORGED[what])
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one")
    lenient(one)
    cycles(one, 3)
    assert phase(stage, "h", "b") == "running"
    assert not stage.cluster.all("jobs", "a")


def test_error_of_ours_about_what_may_be_started_holds_nobody_up(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    real = plan_module.why_never

    def why_never(record: Record, *more: t.Any) -> str | None:
        """What nobody thought of."""
        if record.name == "g":
            raise KeyError("nobody thought of this")
        return real(record, *more)

    monkeypatch.setattr(plan_module, "why_never", why_never)
    one = stage.dispatcher("one")
    journal = lenient(one)
    cycles(one, 3)
    assert phase(stage, "h", "b") == "running"
    assert not stage.cluster.all("jobs", "a")
    assert any("nobody thought of this" in text for text in journal.take()[1])


def test_gang_edited_while_its_undo_ends_gets_the_room_it_asks_for_now(stage: MemoryStage) -> None:
    submit(stage, "h", "b", cases.job("h-j", "p", 4))
    submit(stage, "g", "a", cases.waiting_service("g-s"), cases.job("g-j", "p", 1))
    one = stage.dispatcher("one")
    cycles(one, 2)
    assert (phase(stage, "g"), phase(stage, "h", "b")) == ("dispatching", "running")
    rewrite(stage, "g", objects=[cases.job("g-k", "p", 1)])
    one.cycle()
    assert phase(stage, "g") == "undoing"
    one.pass_time(5)
    large = [cases.job("g-l", "p", 8)]
    one.line.faults.append(Fault("call", "PUT", "/configmaps/g$", happens=lambda: rewrite(stage, "g", objects=large)))
    cycles(one, 3)
    assert phase(stage, "g") == "queued"
    assert not stage.cluster.all("jobs", "a")


def test_gang_deleted_while_it_is_resumed_is_not_started(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), suspended=True)
    one = stage.dispatcher("one")
    cycles(one, 1)
    rewrite(stage, "g", suspended=False)

    def delete() -> None:
        """It goes when somebody else lets it go."""
        stage.cluster.change("configmaps", "a", "g", lambda raw: raw["metadata"].update(finalizers=["example.com/x"]))
        stage.cluster.remove("configmaps", "a", "g")

    one.line.faults.append(Fault("call", "PUT", "/configmaps/g$", happens=delete))
    one.cycle()
    assert not tickets(stage)
    assert not any(change.plural == "jobs" for change in stage.cluster.history)


def test_suspended_gang_does_not_start_while_nobody_can_tell_the_time(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), suspended=True)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    monkeypatch.setattr(ServerClock, "sure", lambda _self: None)
    one = stage.dispatcher("one")
    cycles(one, 2)
    assert not stage.cluster.all("jobs", "a")
    assert stage.cluster.all("jobs", "b")


def test_kind_whose_server_is_down_holds_nobody_up(stage: MemoryStage) -> None:
    submit(stage, "g", "a", THING, podsets=PODS)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one")
    one.line.faults.append(Fault("refuse", "GET", f"^{THINGS}$", times=ALWAYS, status=503))
    cycles(one, 3)
    assert phase(stage, "h", "b") == "running"


def test_unknown_kinds_of_other_namespaces_cost_no_requests(stage: MemoryStage) -> None:
    submit(stage, "g", "a", THING, podsets=PODS)
    one = stage.dispatcher("one", ["b"])
    cycles(one, 3)
    assert not [path for _method, path, _dry in one.line.sent if path.startswith(THINGS)]


def test_gang_whose_dry_run_gave_trouble_keeps_no_room_from_others(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.cluster.add("configmaps", {**cases.config_map("taken"), "metadata": {"name": "taken", "namespace": "a"}})
    submit(stage, "troubled", "a", cases.job("t-j", "p", 4), priority=2)
    submit(stage, "postponed", "a", cases.config_map("taken"), cases.job("p-j", "p", 1), priority=1)
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    real = Embedded.dry_run

    def dry_run(self: Embedded, record: Record, *more: t.Any) -> t.Any:
        """One gang cannot be asked about."""
        if record.name == "troubled":
            raise ServerFault("create", "a Job", status=503, reason="", message="made by the test")
        return real(self, record, *more)

    monkeypatch.setattr(Embedded, "dry_run", dry_run)
    stage.dispatcher("one").cycle()
    assert stage.cluster.all("jobs", "b")


def test_gang_that_got_room_for_its_state_meanwhile_is_not_given_up(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    annotate(stage, "example.com/last-applied", "x" * 240_000)

    def make_room() -> None:
        """As the message of the refusal advises."""
        stage.cluster.change("configmaps", "a", "g", lambda raw: raw["metadata"]["annotations"].clear())

    one = stage.dispatcher("one")
    one.line.faults.append(Fault("call", "PUT", "/configmaps/g$", happens=make_room))
    cycles(one, 3)
    assert phase(stage, "g") == "running"


def test_check_mode_starts_and_stops_nothing_beside_a_batch_of_a_newer_version(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    one = stage.dispatcher("one", max_starts=0)
    one.cycle()
    newer = json.dumps({"format": 99})

    def write(lease: Object) -> None:
        """As its dispatcher did before it left."""
        lease["metadata"].setdefault("annotations", {})["muster.kube/batch"] = newer

    one.release()
    stage.cluster.change("leases", "muster-system", "dispatch", write)
    two = stage.dispatcher("two")
    with inline_calls():
        result = preview_dispatch(two.line.client("checker"), two.terms)
    two.cycle()
    assert not tickets(stage)
    assert [item.action for item in result.decisions] == []
    assert any("nothing is started or stopped" in text for text in result.warnings)


def test_check_mode_leaves_finished_wrappers_alone(stage: MemoryStage) -> None:
    stage.cluster.serve_wrappers()
    item = cases.generic_item(cases.job("w-j", "p", 1, seconds=1), completion="Complete")
    stage.cluster.add("appwrappers", cases.app_wrapper("w", "a", [item]))
    one = stage.dispatcher("one")
    cycles(one, 5)
    one.release()
    entry = {"manager": "mcad-controller", "operation": "Update", "subresource": "status", "fieldsV1": {"f:status": {}}}
    stage.cluster.change(
        "appwrappers",
        "a",
        "w",
        lambda raw: raw["metadata"].update(managedFields=[{**entry, "time": stage.cluster.time_text()}]),
    )
    with inline_calls():
        result = preview_dispatch(one.line.client("checker"), one.terms)
    wrapper = stage.cluster.get("appwrappers", "a", "w")
    assert wrapper is not None
    assert json.loads(wrapper["metadata"]["annotations"][STATE])["phase"] == "complete"
    assert [item for item in one.cycle().session.journal.take()[0] if item.action == "refuse"] == []
    assert [item for item in result.decisions if item.action == "refuse"] == []


def test_state_of_a_newer_version_is_never_overwritten(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), suspended=True)
    newer = json.dumps({"format": 99})
    one = stage.dispatcher("one")
    one.line.faults.append(Fault("call", "PUT", "/configmaps/g$", happens=lambda: annotate(stage, STATE, newer)))
    cycles(one, 2)
    record = stage.cluster.get("configmaps", "a", "g")
    assert record is not None
    assert record["metadata"]["annotations"][STATE] == newer


def test_gang_that_nobody_can_count_is_stopped_all_the_same(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), max_run_time=10)
    one = stage.dispatcher("one")
    cycles(one, 2)
    lenient(one)
    real = walk_module.outstanding_of

    def outstanding_of(gang: Gang, *more: t.Any, **terms: t.Any) -> t.Any:
        """What nobody thought of."""
        if gang.name == "g":
            raise KeyError("nobody thought of this")
        return real(gang, *more, **terms)

    monkeypatch.setattr(walk_module, "outstanding_of", outstanding_of)
    for _cycle in range(40):
        one.cycle()
        one.pass_time(3)
    assert phase(stage, "g") == "failed"
    assert not stage.cluster.all("jobs", "a")


def foreseen(one: MemoryDispatcher) -> dict[str, tuple[str, str]]:
    """Action and reason of each gang in check mode."""
    with inline_calls():
        result = preview_dispatch(one.line.client(one.name), one.terms)
    return {item.gang: (item.action, item.reason) for item in result.decisions}


def test_a_blind_run_under_a_new_lease_waits_and_check_mode_says_so(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    stage.cluster.denials.append(Denial("one", {"list"}, {"configmaps"}, {""}))
    one = stage.dispatcher("one", ["a"])
    assert foreseen(one)["a/g"] == ("wait", "new_lease")
    one.cycle()
    assert foreseen(one)["a/g"] == ("wait", "new_lease")
    assert phase(stage, "g") == "queued"
    one.pass_time(700)
    assert foreseen(one)["a/g"] == ("start", "Started")
    one.cycle()
    assert phase(stage, "g") == "dispatched"


def test_check_mode_asks_the_server_and_gives_refused_room_to_others(stage: MemoryStage) -> None:
    for number, answer in enumerate(("quota", "denied", None)):
        submit(stage, f"g{number}", "a", cases.job(f"j{number}", "p", 8))
        if answer is not None:
            stage.cluster.barriers.append(Barrier(t.cast(t.Any, answer), "a", "jobs", 1000.0, name=f"j{number}"))
    one = stage.dispatcher("one", ["a"])
    told = foreseen(one)
    assert told == {"a/g0": ("wait", "QuotaRefused"), "a/g1": ("fail", "Refused"), "a/g2": ("wait", "insufficient")}
    done = {item.gang: (item.action, item.reason) for item in one.cycle().session.journal.take()[0]}
    assert done == told


def test_a_server_fault_about_one_ticket_harms_its_gang_only(stage: MemoryStage) -> None:
    one = stage.dispatcher("one", ["a"])
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    cycles(one, 2)
    (ticket,) = tickets(stage)
    stage.cluster.erase(("configmaps", "a", ticket["metadata"]["name"]))
    submit(stage, "h", "a", cases.job("h-j", "p", 1))
    path = f"/configmaps/{ticket['metadata']['name']}$"
    one.line.faults.append(Fault("refuse", "GET", path, times=ALWAYS, status=500, reason="InternalError"))
    assert foreseen(one) == {"a/h": ("start", "Started")}
    one.cycle()
    assert phase(stage, "h") == "dispatched"
    assert phase(stage, "g") == "running"


def test_a_server_fault_of_discovery_harms_no_other_gang_than_the_edited_one(stage: MemoryStage) -> None:
    first = stage.dispatcher("one", ["a"])
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    cycles(first, 2)
    first.release()
    rewrite(stage, "g", objects=[cases.service("other")], podsets=PODS)
    submit(stage, "h", "a", cases.service("h-s"), podsets=PODS)
    second = stage.dispatcher("two", ["a"])
    second.line.faults.append(
        Fault("refuse", "GET", "/apis/batch/v1$", times=ALWAYS, status=500, reason="InternalError")
    )
    second.cycle()
    assert phase(stage, "h") == "dispatched"
    assert phase(stage, "g") == "running"


@pytest.mark.parametrize("status", [403, 500])
def test_in_check_mode_trouble_with_discovery_makes_one_gang_wait(stage: MemoryStage, status: int) -> None:
    one = stage.dispatcher("one", ["a"])
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    submit(stage, "h", "a", cases.service("h-s"), podsets=PODS)
    one.line.faults.append(Fault("refuse", "GET", "/apis/batch/v1$", times=ALWAYS, status=status, reason="Trouble"))
    told = foreseen(one)
    assert (told["a/g"][0], told["a/h"][0]) == ("wait", "start")
