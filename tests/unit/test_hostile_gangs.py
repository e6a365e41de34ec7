# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records, states and tickets that somebody wrote to stop a dispatcher, to keep others waiting, or to cost requests."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Journal
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ServerFault
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set import packing
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    TICKET_LABEL,
    ticket_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import UNFORESEEN
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import plan as plan_module
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import walk as queue
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import BATCH_ANNOTATION
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_controllers import Pace
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault

Object = cases.Object

READY = "muster.kube/ready-before-next"
STATE = "muster.kube/state"
LONG_AGO = "2026-01-01T00:00:00Z"
FAR_AWAY = "9999-12-31T23:59:59Z"
# What a cycle with nothing to do asks for at the most.
USUAL_REQUESTS = 30


@contextlib.contextmanager
def two_nodes(pace: Pace | None = None) -> t.Iterator[MemoryStage]:
    """Two nodes of 4 cpu and the namespaces a, of somebody with bad manners, and b."""
    with MemoryStage(1, pace) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """A cluster whose controllers are quick."""
    with two_nodes() as made:
        yield made


def submit(stage: MemoryStage, name: str, namespace: str, *objects: Object, **options: t.Any) -> None:
    """Queue a gang."""
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, objects, **options))


def phase(stage: MemoryStage, name: str, namespace: str) -> str:
    """What the record says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get(STATE)
    return "queued" if text is None else str(json.loads(text)["phase"])


def forge(stage: MemoryStage, name: str, namespace: str, **changes: t.Any) -> None:
    """Write a state into a record, as everybody can who may edit it."""
    state = {
        "format": 1,
        "phase": "queued",
        "attempt": 1,
        "write_id": "x/y.1/1",
        "transitions": [["queued", LONG_AGO, "Submitted", ""]],
        **changes,
    }

    def edit(record: Object) -> None:
        """Into the annotation."""
        record["metadata"].setdefault("annotations", {})[STATE] = json.dumps(state)

    stage.cluster.change("configmaps", namespace, name, edit)


def nested(depth: int) -> list[t.Any]:
    """A list in a list in a list."""
    value: list[t.Any] = []
    for _level in range(depth):
        value = [value]
    return value


def waiting_service(name: str) -> Object:
    """An object that must be ready before the next one is created, and never is."""
    made = cases.service(name)
    made["metadata"]["annotations"] = {READY: "Ready=True"}
    return made


SENTENCES = [["undoing", LONG_AGO, "\ud800", "\ud800"]]
FORGED: dict[str, dict[str, t.Any]] = {
    "a number as a layer": {"verdict": {"layers": [1]}},
    "a layer without a name": {"verdict": {"layers": [{}]}},
    "numbers as totals": {"verdict": {"layers": [{"layer": "x", "totals": {"cpu": 1}}]}},
    "a text as layers": {"verdict": {"layers": "abc"}},
    "lists as words": {"verdict": {"answer": [], "reason": {}, "decided_at": 7}},
    "half a character": {"phase": "undoing", "transitions": SENTENCES},
    "half a character as a name": {"phase": "running", "write_id": "\ud800", "ticket": "\udfff"},
    "a deep verdict": {"verdict": {"x": nested(400)}},
    "a deep rest": {"later": nested(900)},
    "amounts that are none": {"observed": [{"name": "g-j", "count": 3, "requests": {"cpu": "x", "": -1}}]},
    "amounts without end": {"observed": [{"name": "g-j", "count": 2**31 - 2, "requests": {"cpu": "1e30"}}]},
    "outcomes of nothing": {"phase": "running", "ticket": "x", "outcomes": {"99": "failed"}},
    "outcomes while starting": {"phase": "dispatching", "outcomes": {"99": "failed"}},
    "sizes that are none": {"phase": "dispatched", "reserved": [{"name": "q", "count": 1, "requests": {"cpu": "x"}}]},
    "objects of others": {"phase": "undoing", "then": "running", "left": [["v1", "../..", "kube-system", "a/b"]]},
    "no transitions": {"phase": "undoing", "transitions": []},
    "the last attempt": {"phase": "running", "attempt": 2**31 - 2},
    "no end": {"phase": "complete", "transitions": [["complete", "never", "", ""]]},
    "hosts that are none": {"phase": "dispatched", "steering": {"g-j": ["nowhere"], "x": ["p-n0"]}},
    "started in the far future": {"phase": "dispatched", "started_at": FAR_AWAY},
    "running in the far future": {"phase": "running", "transitions": [["running", FAR_AWAY, "", ""]]},
}


@pytest.mark.parametrize("pods", [2, 50], ids=["fits", "does not fit"])
@pytest.mark.parametrize("what", FORGED)
def test_forged_state_holds_nobody_up(stage: MemoryStage, what: str, pods: int) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", pods))
    forge(stage, "g", "a", **FORGED[what])
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one")
    for _cycle in range(4):
        one.cycle()
        one.pass_time(2)
    assert phase(stage, "h", "b") == "running"


def test_gang_whose_ticket_was_deleted_does_not_run_for_ever(stage: MemoryStage) -> None:
    declared = {"name": "w", "count": 8, "requests": {"cpu": "1"}}
    submit(stage, "g", "a", cases.config_map("g-c"), podsets=[declared])
    one = stage.dispatcher("one")
    one.cycle()
    (ticket,) = [
        item for item in stage.cluster.all("configmaps", "a") if TICKET_LABEL in (item["metadata"].get("labels") or {})
    ]
    stage.cluster.remove("configmaps", "a", ticket["metadata"]["name"])
    for _cycle in range(4):
        one.pass_time(2)
        one.cycle()
    assert phase(stage, "g", "a") == "failed"


def test_gang_that_waits_is_looked_at_less_and_less_often(stage: MemoryStage) -> None:
    submit(stage, "g", "a", waiting_service("s"), cases.job("g-j", "p", 1))
    one = stage.start("one", start_timeout=300.0)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "dispatching")
    stage.run_for(30)
    before = one.cycles
    stage.run_for(60)
    assert one.cycles - before < 20


def effort(stage: MemoryStage, one: MemoryDispatcher, seconds: float = 60.0) -> tuple[int, int]:
    """Cycles and requests of a dispatcher in the next minute."""
    cycles, sent = one.cycles, len(one.line.sent)
    stage.run_for(seconds)
    return one.cycles - cycles, len(one.line.sent) - sent


def test_undo_that_does_not_end_is_looked_at_less_and_less_often(stage: MemoryStage) -> None:
    held = cases.job("g-j", "p", 1)
    held["metadata"]["finalizers"] = ["example.com/stays"]
    submit(stage, "g", "a", held)
    one = stage.start("one")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running")
    calm = effort(stage, one)

    def suspend(record: Object) -> None:
        """By its user."""
        data = json.loads(record["data"]["gang.json"])
        record["data"]["gang.json"] = json.dumps({**data, "suspended": True})

    stage.cluster.change("configmaps", "a", "g", suspend)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "undoing")
    stage.run_for(30)
    cycles, requests = effort(stage, one)
    assert cycles < calm[0] + 20
    assert requests < calm[1] * (cycles + 1) / max(1, calm[0]) + 60
    stage.cluster.change("jobs", "a", "g-j", lambda job: job["metadata"].pop("finalizers"))
    assert stage.run_until(lambda: phase(stage, "g", "a") == "suspended")


def test_record_that_may_not_be_written_is_tried_less_and_less_often(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 8), priority=1)
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    one = stage.start("one")
    denied = Fault(
        "refuse", "PUT", "/namespaces/a/configmaps/g", status=403, reason="Forbidden", message="no", times=10_000
    )
    one.line.faults.append(denied)
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 60)
    stage.run_for(30)
    before = len([item for item in one.line.sent if item[0] == "PUT" and item[1].endswith("/configmaps/g")])
    cycles, _requests = effort(stage, one)
    tries = len([item for item in one.line.sent if item[0] == "PUT" and item[1].endswith("/configmaps/g")]) - before
    assert cycles < 30
    assert tries < 10
    assert phase(stage, "g", "a") == "queued"
    one.line.faults.clear()
    stage.cluster.remove("configmaps", "b", "h")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running", 120)


@pytest.mark.parametrize(
    ("status", "message"), [(500, "the webhook is down"), (403, "exceeded quota: q")], ids=["webhook", "quota"]
)
def test_gang_that_the_server_refuses_for_now_keeps_no_room(stage: MemoryStage, status: int, message: str) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 8), priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.start("one")
    reason = "Forbidden" if status == 403 else "InternalError"
    path = "/namespaces/a/jobs"
    one.line.faults.append(Fault("refuse", "POST", path, status=status, reason=reason, message=message, times=10_000))
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 60)
    asked = len(one.line.sent)
    stage.run_for(60)
    tries = [item for item in one.line.sent[asked:] if item[0] == "POST" and path in item[1]]
    assert phase(stage, "g", "a") == "queued"
    assert len(tries) < 60
    one.line.faults.clear()
    stage.cluster.remove("configmaps", "b", "h")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running", 60)


def test_long_rules_of_placement_take_no_room_in_the_batch(stage: MemoryStage) -> None:
    job = cases.job("g-j", "p", 7)
    values = [f"value-{number:050}" for number in range(3_000)]
    terms = [{"matchExpressions": [{"key": "muster-test/pool", "operator": "NotIn", "values": values}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    job["spec"]["template"]["spec"].update({"nodeSelector": {}, "affinity": {"nodeAffinity": required}})
    submit(stage, "g", "a", job, priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    stage.start("one")
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 60)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "dispatched", 60)


def test_edited_gang_of_many_objects_costs_few_requests(stage: MemoryStage) -> None:
    objects = [cases.config_map(f"c-{number}") for number in range(100)]
    submit(stage, "g", "a", *objects, cases.job("g-j", "p", 1), cases.job("g-k", "p", 1))
    one = stage.dispatcher("one")
    for _cycle in range(3):
        one.cycle()
        one.pass_time(2)
    assert phase(stage, "g", "a") == "running"

    def edit(record: Object) -> None:
        """Only one of the objects is left."""
        data = json.loads(record["data"]["gang.json"])
        record["data"]["gang.json"] = json.dumps({**data, "objects": data["objects"][-1:]})

    stage.cluster.change("configmaps", "a", "g", edit)
    one.cycle()
    before = len(one.line.sent)
    one.cycle()
    assert len(one.line.sent) - before < USUAL_REQUESTS
    assert phase(stage, "g", "a") == "running"
    stage.cluster.remove("jobs", "a", "g-j")
    for _cycle in range(4):
        one.cycle()
        one.pass_time(2)
    assert phase(stage, "g", "a") == "failed"


def test_run_with_a_short_start_timeout_does_not_forget_what_others_promised() -> None:
    with two_nodes(Pace(pod=100.0)) as stage:
        submit(stage, "g", "b", cases.job("g-j", "p", 8))
        one = stage.dispatcher("one", ["b"], start_timeout=300.0)
        one.cycle()
        assert phase(stage, "g", "b") == "dispatched"
        one.release()
        submit(stage, "h", "a", cases.job("h-j", "p", 2))
        two = stage.dispatcher("two", ["a"], start_timeout=1.0)
        two.pass_time(5)
        two.cycle()
        assert (phase(stage, "g", "b"), phase(stage, "h", "a")) == ("dispatched", "queued")


def test_starts_are_forgotten_with_their_records(stage: MemoryStage) -> None:
    one = stage.dispatcher("one")
    for number in range(3):
        submit(stage, f"g{number}", "a", waiting_service(f"s{number}"), cases.job(f"j{number}", "p", 1))
        one.cycle()
        assert phase(stage, f"g{number}", "a") == "dispatching"
        stage.cluster.remove("configmaps", "a", f"g{number}")
        one.pass_time(1)
        one.cycle()
    assert one.session is not None
    assert not one.session.engine._creations
    assert not one.session.engine._doubtful


def test_tickets_of_objects_that_are_no_records_cost_few_requests(stage: MemoryStage) -> None:
    others = [stage.cluster.add("configmaps", {"metadata": {"name": f"x{n}", "namespace": "a"}}) for n in range(50)]
    for number, made in enumerate(others):
        uid = made["metadata"]["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": f"x{number}", "uid": uid}
        labels = {TICKET_LABEL: "true", GANG_LABEL: uid}
        metadata = {"name": ticket_name(uid, 1), "namespace": "a", "labels": labels, "ownerReferences": [reference]}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {"attempt": "1", "objects": "[]"}})
    one = stage.dispatcher("one")
    one.cycle()
    before = len(one.line.sent)
    one.cycle()
    assert len(one.line.sent) - before < USUAL_REQUESTS


def test_records_do_not_name_gangs_of_other_namespaces(stage: MemoryStage) -> None:
    submit(stage, "secret", "a", cases.job("g-j", "p", 6), priority=5)
    submit(stage, "next", "a", cases.job("n-j", "p", 6), priority=4)
    submit(stage, "last", "b", cases.job("l-j", "p", 1))
    one = stage.dispatcher("one", policy="strict")
    one.cycle()
    one.pass_time(2)
    cycle = one.cycle()
    told = {item.gang: item.message for item in cycle.session.journal.take()[0]}
    assert "behind a gang of another namespace" in told["b/last"]
    record = stage.cluster.get("configmaps", "b", "last")
    assert record is not None
    assert "a gang of another namespace" in record["metadata"]["annotations"][STATE]
    assert "a/next" not in json.dumps(record)


def jobs_made(dispatcher: MemoryDispatcher) -> int:
    """How often the creation of a Job was asked for in earnest."""
    return sum(method == "POST" and path.endswith("/jobs") and not dry for method, path, dry in dispatcher.line.sent)


def with_ttl(job: Object, seconds: int = 0) -> Object:
    """A Job that goes when it has ended."""
    job["spec"]["ttlSecondsAfterFinished"] = seconds
    return job


def test_member_that_ended_is_not_started_again_when_the_state_is_lost(stage: MemoryStage) -> None:
    submit(stage, "g", "a", with_ttl(cases.job("done", "p", 1, seconds=2)), cases.job("long", "p", 1))
    one = stage.start("one")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running", 60)
    assert stage.run_until(lambda: stage.cluster.get("jobs", "a", "done") is None, 60)
    stage.run_for(5)
    stage.cluster.change("configmaps", "a", "g", lambda record: record["metadata"]["annotations"].pop(STATE))
    assert stage.run_until(lambda: phase(stage, "g", "a") == "failed", 60)
    assert jobs_made(one) == 2
    assert stage.cluster.all("jobs", "a") == []


@pytest.mark.parametrize("ttl", [0, None])
def test_object_that_goes_when_it_is_ready(stage: MemoryStage, ttl: int | None) -> None:
    first = cases.job("first", "p", 1, seconds=20)
    if ttl is not None:
        with_ttl(first, ttl)
    first["metadata"]["annotations"] = {READY: "Complete=True"}
    submit(stage, "g", "a", first, cases.job("long", "p", 1))
    one = stage.start("one", start_timeout=60.0)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running", 60)
    assert jobs_made(one) == 2


def test_start_that_fails_after_what_it_waited_for_is_no_hot_loop(stage: MemoryStage) -> None:
    first = cases.job("first", "p", 1, seconds=2)
    first["metadata"]["annotations"] = {READY: "Complete=True"}
    submit(stage, "g", "a", first, cases.service("s"))
    one = stage.start("one", start_timeout=300.0)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "dispatching", 60)
    one.line.faults.append(Fault("refuse", "POST", "/services", status=500, times=10_000))
    stage.run_for(60)
    before = one.cycles
    stage.run_for(60)
    assert one.cycles - before < 20


def test_object_that_went_before_it_was_seen_to_be_ready(stage: MemoryStage) -> None:
    first = cases.job("first", "p", 1)
    first["metadata"]["annotations"] = {READY: "Complete=True"}
    submit(stage, "g", "a", first, cases.job("long", "p", 1))
    one = stage.start("one", start_timeout=300.0)
    assert stage.run_until(lambda: stage.cluster.get("jobs", "a", "first") is not None, 60)
    stage.cluster.remove("jobs", "a", "first")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "failed", 100)
    assert jobs_made(one) == 1


def test_record_that_is_changed_all_the_time_holds_nobody_up(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 2), priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    changes = iter(range(10_000))

    def change() -> None:
        """Somebody writes a note into the record, and again soon."""
        note = {"example.com/note": str(next(changes))}
        stage.cluster.change("configmaps", "a", "g", lambda record: record["metadata"].update(annotations=note))
        stage.clock.after(0.05, change)

    change()
    one = stage.start("one")
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 60)
    before = len(one.line.sent)
    stage.run_for(60)
    assert sum(item[0] != "GET" for item in one.line.sent[before:]) < 120


def test_attempts_of_ten_digits_can_be_taken_back(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 2))
    forge(stage, "g", "a", attempt=2_000_000_000)
    stage.start("one")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running", 60)

    def suspend(record: Object) -> None:
        """As its user does."""
        record["data"]["gang.json"] = json.dumps({**json.loads(record["data"]["gang.json"]), "suspended": True})

    stage.cluster.change("configmaps", "a", "g", suspend)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "suspended", 60)
    assert stage.cluster.all("jobs", "a") == []


@pytest.mark.parametrize("suspended", [True, False], ids=["suspended", "running"])
def test_attempt_that_its_user_lowered(stage: MemoryStage, suspended: bool) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    one = stage.start("one")
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running")

    def edit(record: Object) -> None:
        """Another attempt than the one that was started."""
        annotations = record["metadata"]["annotations"]
        annotations[STATE] = json.dumps({**json.loads(annotations[STATE]), "attempt": 0})
        data = json.loads(record["data"]["gang.json"])
        record["data"]["gang.json"] = json.dumps({**data, "suspended": suspended})

    stage.cluster.change("configmaps", "a", "g", edit)
    if suspended:
        assert stage.run_until(lambda: phase(stage, "g", "a") == "suspended")
        assert not stage.cluster.all("jobs", "a")
        assert not stage.cluster.all("pods", "a")
    else:
        stage.run_for(30)
        assert phase(stage, "g", "a") == "running"
        assert jobs_made(one) == 1


def break_start(one: MemoryDispatcher, monkeypatch: pytest.MonkeyPatch) -> Journal:
    """Let each start of the gang g end in an error that nobody thought of; where the dispatcher tells of it."""
    one.acquire()
    assert one.session is not None
    journal = one.session.journal = Journal()
    real = Embedded.submit

    def start(self: Embedded, record: Record, *more: t.Any) -> Record:
        """What nobody thought of."""
        if record.name == "g":
            raise KeyError("nobody thought of this")
        return real(self, record, *more)

    monkeypatch.setattr(Embedded, "submit", start)
    return journal


def test_error_of_ours_about_one_gang_harms_no_other(stage: MemoryStage, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), priority=1)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one")
    journal = break_start(one, monkeypatch)
    one.cycle()
    one.pass_time(2)
    one.cycle()
    assert phase(stage, "h", "b") == "running"
    assert phase(stage, "g", "a") == "queued"
    _decisions, warnings = journal.take()
    assert any("a/g" in text and UNFORESEEN in text and "KeyError" in text for text in warnings)


def test_error_of_ours_while_one_gang_is_judged_harms_no_other(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one")
    one.cycle()
    assert one.session is not None
    one.session.journal = Journal()
    real = plan_module.judge_health

    def judge(subject: t.Any, *more: t.Any) -> t.Any:
        """What nobody thought of."""
        if subject.spec.name == "g":
            raise KeyError("nobody thought of this")
        return real(subject, *more)

    monkeypatch.setattr(plan_module, "judge_health", judge)
    one.pass_time(2)
    one.cycle()
    assert phase(stage, "h", "b") == "running"
    assert any("a/g" in text and UNFORESEEN in text for text in one.session.journal.take()[1])


@pytest.mark.parametrize("namespaces", [None, ("b",)], ids=["sees all", "sees one namespace"])
def test_damaged_batch_is_told_and_gives_no_room_twice(namespaces: tuple[str, ...] | None) -> None:
    with two_nodes(Pace(pod=100.0)) as stage:
        _damage_the_batch(stage, namespaces)


def _damage_the_batch(stage: MemoryStage, namespaces: tuple[str, ...] | None) -> None:
    """Another dispatcher finds half of what was promised."""
    submit(stage, "g", "a", cases.job("g-j", "p", 8))
    first = stage.dispatcher("first")
    first.cycle()
    assert phase(stage, "g", "a") == "dispatched"
    first.release()

    def damage(lease: Object) -> None:
        """Half of the text is lost."""
        text = lease["metadata"]["annotations"][BATCH_ANNOTATION]
        lease["metadata"]["annotations"][BATCH_ANNOTATION] = text[: len(text) // 2]

    stage.cluster.change("leases", "muster-system", "dispatch", damage)
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    second = stage.dispatcher("second", namespaces)
    cycle = second.cycle()
    assert phase(stage, "h", "b") == "queued"
    assert any("does not tell any more" in text for text in cycle.session.journal.take()[1])
    second.pass_time(5)
    second.cycle()
    assert phase(stage, "h", "b") == "queued"


def test_last_member_that_ended_is_not_started_again_when_the_state_is_lost(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("long", "p", 1), with_ttl(cases.job("done", "p", 1, seconds=40)))
    one = stage.start("one", start_timeout=20.0)
    assert stage.run_until(lambda: phase(stage, "g", "a") == "running")
    assert stage.run_until(lambda: stage.cluster.get("jobs", "a", "done") is None, 90)
    stage.run_for(5)
    stage.cluster.change("configmaps", "a", "g", lambda record: record["metadata"]["annotations"].pop(STATE))
    assert stage.run_until(lambda: phase(stage, "g", "a") == "failed", 60)
    assert jobs_made(one) == 2


def test_what_is_known_of_records_goes_with_them(stage: MemoryStage) -> None:
    one = stage.dispatcher("one")
    for number in range(3):
        submit(stage, f"g{number}", "a", cases.job(f"g{number}-j", "p", 1))
    one.cycle()
    session = one.session
    assert session is not None
    for known in (session.status_written, session.foreign, session.edited):
        known.update({uid: t.cast("t.Any", "x") for uid in (*one.last.records, "gone")} if one.last else {})
    for number in range(3):
        stage.cluster.remove("configmaps", "a", f"g{number}")
    one.cycle()
    assert not session.status_written
    assert not session.foreign
    assert not session.edited


def test_attempt_of_more_digits_than_a_number_may_have(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    record = stage.cluster.get("configmaps", "a", "g")
    assert record is not None
    uid = record["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "g", "uid": uid}
    labels = {TICKET_LABEL: "true", GANG_LABEL: uid}
    metadata = {"name": "forged", "namespace": "a", "labels": labels, "ownerReferences": [owner]}
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {"attempt": "9" * 5_000, "objects": "[]"}})
    forge(stage, "g", "a", phase="running", ticket="x")
    one = stage.dispatcher("one")
    for _cycle in range(3):
        one.cycle()
        one.pass_time(2)
    assert phase(stage, "h", "b") == "running"


def test_slow_calls_may_write_while_others_are_forgotten(stage: MemoryStage) -> None:
    one = stage.dispatcher("one")
    one.cycle()
    session = one.session
    assert session is not None
    known: list[dict[str, t.Any]] = [
        session.status_written,
        session.rehearsals,
        session.waiting,
        session.engine._creations,
    ]

    def learn(name: str) -> None:
        """What threads add."""
        for item in known:
            item[name] = None
        session.removed.add((name, 1))

    class Alive(set[str]):
        """Whoever asks is interrupted by a thread."""

        def __contains__(self, uid: object) -> bool:
            learn(f"late {len(known[0])}")
            return super().__contains__(uid)

    learn("here")
    learn("gone")
    session.forget(Alive({"here"}), Alive({"here"}))
    for item in known:
        assert "here" in item
        assert "gone" not in item


def confined(stage: MemoryStage, name: str, namespace: str) -> MemoryDispatcher:
    """A dispatcher that may not list the records of other namespaces."""
    made = stage.dispatcher(name, [namespace])
    denied = Fault("refuse", "GET", "^/api/v1/configmaps", status=403, reason="Forbidden", message="no", times=10_000)
    made.line.faults.append(denied)
    return made


@pytest.mark.parametrize("noted", [None, 2**53], ids=["damaged", "noted in the far future"])
def test_runs_of_one_cycle_that_see_little_do_not_wait_for_ever(stage: MemoryStage, noted: int | None) -> None:
    first = stage.dispatcher("first")
    first.cycle()
    first.release()
    batch = {"format": 1, "id": "x", "epoch": "y", "entries": [], "demands": {}, "unlisted_since": noted}
    text = "{" if noted is None else json.dumps(batch)

    def damage(lease: Object) -> None:
        """By whoever may write it."""
        lease["metadata"]["annotations"][BATCH_ANNOTATION] = text

    stage.cluster.change("leases", "muster-system", "dispatch", damage)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    phases = []
    for _run in range(14):
        two = confined(stage, "two", "b")
        two.cycle()
        two.release()
        phases.append(phase(stage, "h", "b"))
        two.pass_time(60)
    # Twice the usual start_timeout.
    assert phases[:10] == ["queued"] * 10
    assert phases[-1] == "running"


def test_error_of_ours_in_a_start_keeps_no_room(stage: MemoryStage, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 8), priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    one = stage.dispatcher("one")
    break_start(one, monkeypatch)
    for _cycle in range(5):
        one.cycle()
        one.pass_time(2)
    assert phase(stage, "h", "b") == "running"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_gang_whose_ticket_cannot_be_written_keeps_no_room(stage: MemoryStage, status: int) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 8), priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    one = stage.start("one")
    one.line.faults.append(Fault("refuse", "PUT|POST", "/namespaces/a/configmaps", status=status, times=100_000))
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 120)


def test_error_of_ours_about_what_a_gang_has_harms_no_other(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1))
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one")
    one.cycle()
    assert one.session is not None
    one.session.journal = Journal()
    real = plan_module.pods_of

    def pods_of(record: Record, *more: t.Any) -> t.Any:
        """What nobody thought of."""
        if record.name == "g":
            raise KeyError("nobody thought of this")
        return real(record, *more)

    monkeypatch.setattr(plan_module, "pods_of", pods_of)
    one.pass_time(2)
    one.cycle()
    assert phase(stage, "h", "b") == "running"


def test_wrappers_that_a_server_does_not_find_for_a_moment_are_not_gone(stage: MemoryStage) -> None:
    stage.cluster.serve_wrappers()
    stage.cluster.add("appwrappers", cases.app_wrapper("g", "a", [cases.job("g-j", "p", 1)]))
    one = stage.dispatcher("one")
    one.cycle()
    (job,) = stage.cluster.all("jobs", "a")
    missing = Fault("refuse", "GET", "/appwrappers", status=404, reason="NotFound", message="no page", times=10_000)
    one.line.faults.append(missing)
    for _cycle in range(2):
        one.pass_time(2)
        with pytest.raises(ServerFault):
            one.cycle()
    one.line.faults.clear()
    one.pass_time(2)
    one.cycle()
    (still,) = stage.cluster.all("jobs", "a")
    assert still["metadata"]["uid"] == job["metadata"]["uid"]


def half_started(stage: MemoryStage) -> MemoryDispatcher:
    """A gang whose last object waits for another one, begun with much patience."""
    submit(stage, "g", "a", cases.job("first", "p", 1), waiting_service("s"), cases.job("last", "p", 1))
    one = stage.dispatcher("one", start_timeout=300.0)
    one.cycle()
    one.pass_time(10)
    one.cycle()
    assert phase(stage, "g", "a") == "dispatching"
    return one


def lose_state(stage: MemoryStage) -> None:
    """As a user does who replaces the record."""
    stage.cluster.change("configmaps", "a", "g", lambda record: record["metadata"]["annotations"].pop(STATE))


def test_start_of_somebody_with_more_patience_does_not_fail_when_its_state_is_lost(stage: MemoryStage) -> None:
    half_started(stage).release()
    lose_state(stage)
    stage.dispatcher("two", start_timeout=5.0).cycle()
    record = stage.cluster.get("configmaps", "a", "g")
    assert record is not None
    assert "OutcomeUnknown" not in record["metadata"]["annotations"][STATE]


def test_clock_that_jumps_fails_no_start_whose_state_is_lost(stage: MemoryStage) -> None:
    one = half_started(stage)
    one.line.faults.append(Fault("date", seconds=3600.0, times=100_000))
    for _cycle in range(4):
        one.pass_time(3)
        one.cycle()
    lose_state(stage)
    for _cycle in range(2):
        one.cycle()
        one.pass_time(1)
    assert phase(stage, "g", "a") == "queued"
    assert [job["metadata"]["name"] for job in stage.cluster.all("jobs", "a")] == ["first"]
    one.line.faults.clear()
    for _cycle in range(8):
        one.pass_time(3)
        one.cycle()
    assert phase(stage, "g", "a") == "dispatching"


def test_ticket_that_may_not_be_deleted_holds_nobody_up(stage: MemoryStage) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), priority=5)
    one = stage.start("one")
    one.line.faults.append(Fault("kill_after", "POST", "/namespaces/a/configmaps"))
    stage.run_for(5)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    two = stage.start("two")
    path = "/namespaces/a/configmaps"
    two.line.faults.append(Fault("refuse", "PUT|DELETE", path, status=403, reason="Forbidden", times=10_000))
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 60)
    assert not two.troubles


@pytest.mark.parametrize("status", [500, 503])
def test_gang_whose_record_cannot_be_written_after_its_ticket_keeps_no_room(stage: MemoryStage, status: int) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 8), priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    one = stage.start("one", start_timeout=60.0)
    one.line.faults.append(Fault("refuse", "PUT|PATCH", "/namespaces/a/configmaps/g$", status=status, times=100_000))
    assert stage.run_until(lambda: phase(stage, "h", "b") == "running", 600)
    assert phase(stage, "g", "a") == "queued"
    assert not stage.cluster.all("jobs", "a")


def unless_named(real: t.Callable[..., t.Any], name_of: t.Callable[..., str]) -> t.Callable[..., t.Any]:
    """A function as it is, except that the gang g provokes an error that nobody thought of."""

    def call(*arguments: t.Any, **more: t.Any) -> t.Any:
        """What nobody thought of."""
        if name_of(*arguments, **more) == "g":
            raise KeyError("nobody thought of this")
        return real(*arguments, **more)

    return call


def told(one: MemoryDispatcher) -> bool:
    """Whether the dispatcher warns of an error of ours about g, and of which."""
    assert one.session is not None
    return any("a/g" in text and UNFORESEEN in text and "KeyError" in text for text in one.session.journal.take()[1])


def record_name(record: Record, *_more: t.Any, **_others: t.Any) -> str:
    """The name of the record a function is called with first."""
    return record.name


@pytest.mark.parametrize("policy", ["reserve", "strict", "best_effort"])
@pytest.mark.parametrize(
    ("module", "function", "name_of"),
    [
        (memory, "sized_gang", record_name),
        (memory, "demand_class", lambda gang, _keys: gang.name),
        (memory, "steered_plan", record_name),
        (queue, "read_time", None),
        (queue, "steerable", record_name),
    ],
)
def test_error_of_ours_while_the_queue_is_walked_harms_no_other(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch, policy: str, module: t.Any, function: str, name_of: t.Any
) -> None:
    submit(stage, "g", "a", cases.job("g-j", "p", 1), priority=5)
    submit(stage, "h", "b", cases.job("h-j", "p", 1))
    one = stage.dispatcher("one", policy=policy)
    one.acquire()
    assert one.session is not None
    one.session.journal = Journal()
    if name_of is None:
        forge(stage, "g", "a", not_before="2026-01-01T00:00:01Z")
        name_of = {"2026-01-01T00:00:01Z": "g"}.get
    monkeypatch.setattr(module, function, unless_named(getattr(module, function), name_of))
    for _cycle in range(3):
        one.cycle()
        one.pass_time(2)
    assert phase(stage, "h", "b") == "running"
    assert phase(stage, "g", "a") == "queued"
    assert told(one)


def test_error_of_ours_about_the_plan_of_a_start_that_waits_keeps_no_room(
    stage: MemoryStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(stage, "g", "a", cases.job("first", "p", 1), waiting_service("s"), cases.job("last", "p", 7))
    one = stage.dispatcher("one")
    one.cycle()
    one.cycle()
    assert phase(stage, "g", "a") == "dispatching"
    assert one.session is not None
    one.session.journal = Journal()
    monkeypatch.setattr(memory, "steered_plan", unless_named(memory.steered_plan, record_name))
    submit(stage, "h", "b", cases.job("h-j", "p", 8))
    for _cycle in range(12):
        one.pass_time(5)
        one.cycle()
    assert phase(stage, "h", "b") == "running"
    assert phase(stage, "g", "a") == "queued"
    assert not stage.cluster.all("jobs", "a")


def kept_batch(stage: MemoryStage) -> Batch:
    """What the Lease says."""
    lease = stage.cluster.get("leases", "muster-system", "dispatch")
    assert lease is not None
    found = read_batch(lease["metadata"]["annotations"][BATCH_ANNOTATION]).batch
    assert found is not None
    return found


def test_lease_says_while_it_cannot_list_all_that_was_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    with two_nodes(Pace(schedule=30.0)) as stage:
        for index in range(8):
            submit(stage, f"g{index}", "a", cases.job(f"g{index}-j", "p", 1))
        first = stage.dispatcher("first")
        first.cycle()
        first.release()
        stage.cluster.remove("leases", "muster-system", "dispatch")
        monkeypatch.setattr(packing, "START_BYTES", 600)
        second = stage.dispatcher("second")
        second.cycle()
        second.cycle()
        assert 0 < len(kept_batch(stage).entries) < 8
        assert kept_batch(stage).unlisted_since
        submit(stage, "h", "b", cases.job("h-j", "p", 8))
        blind = confined(stage, "third", "b")
        second.release()
        blind.cycle()
        assert phase(stage, "h", "b") == "queued"
        blind.release()
        monkeypatch.undo()
        second.cycle()
        assert len(kept_batch(stage).entries) == 8
        assert not kept_batch(stage).unlisted_since
