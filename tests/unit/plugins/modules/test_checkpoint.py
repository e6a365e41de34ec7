# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module checkpoint against an API server in memory: what it answers, writes and refuses."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import checkpoint as face
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.plugins.modules import checkpoint
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Line
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import one_that_runs, running, submit
from ansible_collections.muster.kube.tests.unit.test_memory_progress import now, report, stored
from ansible_collections.muster.kube.tests.unit.test_memory_quota import state

Call = t.Callable[..., dict[str, t.Any]]


@pytest.fixture(name="stage")
def one_gang() -> t.Iterator[MemoryStage]:
    """A gang of two to ten GPUs that runs with all of them, and one of fixed size that waits."""
    with one_that_runs(1000) as made:
        yield made


@pytest.fixture(name="line")
def a_line(stage: MemoryStage) -> Line:
    """The way of the module's client to the server."""
    return Line(stage.cluster)


@pytest.fixture(name="call")
def the_module(monkeypatch: pytest.MonkeyPatch, line: Line) -> Call:
    """Runs the module."""
    monkeypatch.setattr(face, "connect", lambda _auth: line.client())

    def run(check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        """One task about the gang one, if it names no other; the client's writes are counted anew."""
        line.sent.clear()
        asked = {"name": "one", "namespace": "a", **options, "_ansible_check_mode": check_mode}
        return call_module(monkeypatch, checkpoint, asked).result

    return run


def test_a_step_that_is_saved(stage: MemoryStage, call: Call, line: Line) -> None:
    told = call(step=100, total_steps=400, saved=True)
    assert told["changed"]
    assert told["allotment"] == 10
    assert {key: told["progress"][key] for key in ("step", "total", "share", "unsaved")} == {
        **{"step": 100, "total": 400},
        **{"share": 0.25, "unsaved": 0},
    }
    assert told["progress"]["checkpoint"]["step"] == 100
    assert (told["save_now"], told["resize"]) == (False, None)
    assert [path for _method, path in line.writes] == [f"/api/v1/namespaces/a/configmaps/{progress_name('one')}"]
    record = stage.cluster.get("configmaps", "a", "one")
    assert record is not None
    (owner,) = stage.cluster.get("configmaps", "a", progress_name("one"))["metadata"]["ownerReferences"]  # type: ignore[index]
    assert owner["uid"] == record["metadata"]["uid"]


def test_the_same_report_again_writes_nothing(stage: MemoryStage, call: Call, line: Line) -> None:
    for options in ({"step": 100, "saved": True}, {"step": 120, "total_steps": 400}, {"step": 400, "completed": True}):
        assert call(**options)["changed"]
        stage.run_for(30)
        again = call(**options)
        assert not again["changed"]
        assert not line.writes


def test_check_mode_foresees_it_and_writes_nothing(stage: MemoryStage, call: Call, line: Line) -> None:
    before = stored(stage, "one")
    told = call(check_mode=True, step=100, saved=True)
    assert not line.writes
    assert stored(stage, "one") == before
    assert told["changed"]
    real = call(step=100, saved=True)
    assert real["progress"]["checkpoint"]["step"] == told["progress"]["checkpoint"]["step"] == 100
    assert not call(check_mode=True, step=100, saved=True)["changed"]


def test_nothing_told_only_asks(call: Call, line: Line) -> None:
    told = call()
    assert not told["changed"]
    assert told["progress"] == {
        **dict.fromkeys(("step", "total", "share", "checkpoint")),
        **{"speeds": {}, "checkpoints": [], "unsaved": 0},
    }
    assert not line.writes


def test_speeds_and_unsaved_steps(stage: MemoryStage, call: Call) -> None:
    call(step=0, saved=True)
    for turn in range(1, 4):
        stage.run_for(30)
        told = call(step=60 * turn)
    assert told["progress"]["speeds"]["10"] == pytest.approx(2.0, rel=0.05)
    assert told["progress"]["unsaved"] == 180


def test_what_a_trainer_wrote_is_known(stage: MemoryStage, call: Call) -> None:
    report(stage, "one", 70, saved=True, total=100)
    told = call()
    assert (told["progress"]["step"], told["progress"]["checkpoint"]["step"], told["changed"]) == (70, 70, False)
    assert call(step=80)["progress"]["total"] == 100


def test_the_answer_asks_to_save_for_a_planned_resize(stage: MemoryStage, call: Call) -> None:
    submit(stage, "new", 2)
    assert stage.run_until(lambda: "planned" in state(stage, "one"))
    stage.run_for(20)
    told = call(step=10)
    assert told["save_now"]
    assert {key: told["resize"][key] for key in ("from", "to", "step")} == {"from": 10, "to": 8, "step": "planned"}
    stage.run_for(20)
    assert not call(step=20, saved=True)["save_now"]
    assert stage.run_until(lambda: running(stage, "one", "new"), 100)
    assert call()["resize"]["step"] == "verified"


def test_times_of_the_past_change_nothing_and_those_of_the_future_are_refused(stage: MemoryStage, call: Call) -> None:
    call(step=100, saved=True)
    stage.run_for(30)
    assert not call(step=50, saved=True, time="2026-01-01T00:00:00Z")["changed"]
    answer = call(step=200, time="2126-01-01T00:00:00Z")
    assert answer["failed"]
    assert "has not come yet" in answer["msg"]
    assert call(step=200, time=stage.cluster.time_text())["changed"]
    assert "is no time" in call(step=200, time="noon")["msg"]


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        ({"name": "onne"}, "Cannot report progress of gang a/onne: there is no such gang; did you mean one?"),
        ({"name": "one", "namespace": "b"}, "gang b/one: there is no such gang"),
        ({"name": "fixed"}, "it is not elastic"),
        ({"name": "waits"}, "it does not run, it is queued"),
        ({"step": 5, "total_steps": 4}, "5 is more than the total of 4"),
        ({"step": 5, "size": 11}, "11 is none of the allowed sizes"),
        ({"step": -1}, "-1 is no number of steps"),
        ({"saved": True}, "saved tells nothing without it"),
        ({"total_steps": 3}, "total_steps tells nothing without it"),
    ],
)
def test_what_makes_no_sense_is_refused(
    stage: MemoryStage, call: Call, line: Line, options: dict[str, t.Any], cause: str
) -> None:
    submit(stage, "fixed", 2)
    submit(stage, "waits", 2, (2, 4))
    answer = call(**options)
    assert answer["failed"]
    assert cause in answer["msg"]
    assert not line.writes


def test_a_step_beyond_the_known_total_is_refused(stage: MemoryStage, call: Call) -> None:
    call(step=5, total_steps=10)
    stage.run_for(30)
    assert "11 is more than the total of 10" in call(step=11)["msg"]
    assert call(step=11, total_steps=20)["progress"]["total"] == 20


def test_who_was_faster_is_taken_in(stage: MemoryStage, call: Call, line: Line) -> None:
    call(step=10)
    stage.run_for(30)

    def other() -> None:
        """A trainer writes at the same moment."""
        report(stage, "one", 30, saved=True)

    line.faults.append(Fault("call", "PUT", happens=other))
    stage.clock.advance(5)
    assert call(step=40, saved=True)["progress"]["checkpoint"]["step"] == 40
    told = stored(stage, "one")
    assert told["progress.json"]["seen"]["step"] == 40
    assert told["report.json"]["step"] == 30


def test_damaged_progress_begins_anew_with_a_warning(stage: MemoryStage, call: Call) -> None:
    stage.cluster.change(
        "configmaps", "a", progress_name("one"), lambda raw: raw["data"].update({"progress.json": "{"})
    )
    assert call(step=10)["progress"]["step"] == 10
    assert stored(stage, "one")["progress.json"]["seen"]["step"] == 10


def test_progress_of_a_newer_version_is_left_alone(stage: MemoryStage, call: Call, line: Line) -> None:
    text = json.dumps({"format": 99})
    stage.cluster.change(
        "configmaps", "a", progress_name("one"), lambda raw: raw["data"].update({"progress.json": text})
    )
    assert "format 99" in call(step=10)["msg"]
    assert not line.writes
    assert now(stage) > 0
