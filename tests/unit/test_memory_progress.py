# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resizes that wait for a checkpoint, in a dispatcher with a cluster in memory: planned, asked for, carried out or not.

Trainers write their reports into the ConfigMap of their gang's progress, as the shipped file does.
"""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.checkpoint import (
    CheckpointOptions,
    run_checkpoint,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import PROGRESS_LABEL, progress_name
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import BEGINNING
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed, Line
from ansible_collections.muster.kube.tests.support.reclaim_cases import history, two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import GPU, gpus, running, submit
from ansible_collections.muster.kube.tests.unit.test_memory_quota import state


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        yield made


def now(stage: MemoryStage) -> float:
    """The server's time."""
    return BEGINNING.timestamp() + stage.clock.now


def stored(stage: MemoryStage, name: str) -> dict[str, t.Any]:
    """What is stored of a gang's progress, by key."""
    found = stage.cluster.get("configmaps", "a", progress_name(name))
    data = found["data"] if found is not None else {}
    return {key: json.loads(text) for key, text in data.items() if key.endswith(".json")}


def report(stage: MemoryStage, name: str, step: int, *, saved: bool = False, **more: t.Any) -> None:
    """What a trainer writes; saved if the step is safely stored."""
    kept = stored(stage, name).get("report.json", {}).get("checkpoint")
    told = {"format": 1, "time": now(stage), "step": step, "checkpoint": kept, **more}
    if saved:
        asked = stored(stage, name).get("asked.json")
        answers = {} if asked is None else {"asked": asked["save_after"]}
        told["checkpoint"] = {"time": told["time"], "step": step, **answers}
    edit = {"report.json": json.dumps(told)}
    assert stage.cluster.change("configmaps", "a", progress_name(name), lambda raw: raw["data"].update(edit))


def shrinks_for_a_newcomer(stage: MemoryStage, *, mirrored: bool = False, **terms: t.Any) -> None:
    """One gang that has all GPUs, and a newcomer that waits for two of them; the plan is written."""
    submit(stage, "one", 2, (2, 10), **terms)
    stage.start("d", mirrored=mirrored)
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: "planned" in state(stage, "one"))


def is_asked(stage: MemoryStage, name: str) -> bool:
    """Whether the answer to a trainer's report asks it to save."""
    told = stored(stage, name)
    last = (told.get("report.json") or {}).get("checkpoint") or {"time": 0.0}
    asked = told.get("asked.json", {}).get("save_after")
    return asked is not None and asked >= last["time"] and asked != last.get("asked")


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_shrink_waits_for_the_checkpoint_that_the_trainer_is_asked_for(stage: MemoryStage, mirrored: bool) -> None:
    shrinks_for_a_newcomer(stage, mirrored=mirrored)
    plan = state(stage, "one")["planned"]
    assert (plan["from"], plan["to"]) == (10, 8)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    stage.run_for(300)
    report(stage, "one", 100)
    stage.run_for(300)
    assert "resizing" not in history(stage, "one")
    report(stage, "one", 110, saved=True)
    assert stage.run_until(lambda: running(stage, "one", "new"), 60)
    assert gpus(stage) == {"one": 8, "new": 2}
    told = state(stage, "one")
    assert "planned" not in told
    assert "lost_seconds" not in told["resize"]
    assert not is_asked(stage, "one")
    assert stored(stage, "one")["progress.json"]["checkpoints"][-1][1] == 110


def test_a_gang_that_was_started_again_has_its_progress_and_nobody_is_warned(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 4), timing="now")
    submit(stage, "other", 2, (2, 6), timing="now")
    dispatcher = stage.start("d")
    assert stage.run_until(lambda: progress_exists(stage))
    assert dispatcher.session is not None
    warned: list[str] = []
    dispatcher.session.journal.warn = warned.append  # type: ignore[method-assign]
    stage.run_for(1000)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: running(stage, "one", "other", "new"), 120)
    stage.run_for(60)
    assert warned == []


def test_a_checkpoint_from_before_the_plan_is_none_for_it(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    stage.start("d")
    assert stage.run_until(lambda: progress_exists(stage))
    stage.run_for(1000)
    report(stage, "one", 50, saved=True)
    stage.run_for(10)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    stage.run_for(100)
    assert "resizing" not in history(stage, "one")
    report(stage, "one", 50)
    stage.run_for(100)
    assert "resizing" not in history(stage, "one")


def test_a_checkpoint_from_just_before_the_plan_is_none_for_it_either(stage: MemoryStage) -> None:
    """The training went on after it, and would do those steps again."""
    submit(stage, "one", 2, (2, 10))
    stage.start("d")
    assert stage.run_until(lambda: progress_exists(stage))
    stage.run_for(1000)
    report(stage, "one", 50, saved=True)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    stage.run_for(100)
    assert "resizing" not in history(stage, "one")
    report(stage, "one", 60, saved=True)
    assert stage.run_until(lambda: running(stage, "one", "new"), 60)


def test_a_growth_waits_for_a_checkpoint_too(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    submit(stage, "two", 6)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    stage.run_for(1000)
    stage.cluster.remove("configmaps", "a", "two")
    assert stage.run_until(lambda: is_asked(stage, "one"))
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: gpus(stage) == {"one": 8} and running(stage, "one"), 120)


def test_where_no_checkpoint_comes_the_next_one_shrinks(stage: MemoryStage) -> None:
    for name in ("one", "two"):
        submit(stage, name, 2, (2, 5), checkpoint_timeout=100)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    stage.run_for(1000)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: any("planned" in state(stage, name) for name in ("one", "two")))
    first = next(name for name in ("one", "two") if "planned" in state(stage, name))
    second = "two" if first == "one" else "one"
    began = stage.clock.now
    assert stage.run_until(lambda: "missed" in state(stage, first)["planned"], 200)
    assert 100 <= stage.clock.now - began <= 120
    assert stage.run_until(lambda: is_asked(stage, second) and not is_asked(stage, first), 60)
    report(stage, second, 10, saved=True)
    assert stage.run_until(lambda: running(stage, first, second, "new"), 120)
    assert gpus(stage) == {first: 5, second: 3, "new": 2}
    assert "resizing" not in history(stage, first)


def test_it_is_not_planned_again_before_it_has_saved(stage: MemoryStage) -> None:
    shrinks_for_a_newcomer(stage, checkpoint_timeout=60)
    assert stage.run_until(lambda: "missed" in state(stage, "one")["planned"], 200)
    before = state(stage, "one")
    stage.run_for(2000)
    assert state(stage, "one") == before
    # What comes too late for one plan counts for the next.
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: running(stage, "one", "new"), 120)
    assert gpus(stage) == {"one": 8, "new": 2}


def test_it_is_carried_out_without_one_where_the_terms_say_so(stage: MemoryStage) -> None:
    shrinks_for_a_newcomer(stage, checkpoint_timeout=60, on_timeout="now")
    report(stage, "one", 10)
    assert stage.run_until(lambda: running(stage, "one", "new"), 200)
    assert gpus(stage) == {"one": 8, "new": 2}
    assert state(stage, "one")["resize"]["lost_seconds"] >= 1000


@pytest.mark.parametrize("gone", ["leaves", "starts elsewhere"])
def test_a_plan_whose_reason_is_gone_is_dropped(stage: MemoryStage, gone: str) -> None:
    shrinks_for_a_newcomer(stage)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    if gone == "leaves":
        stage.cluster.remove("configmaps", "a", "new")
    else:
        stage.add_nodes(*cases.node_pool("p", 2, cpu="64", **{GPU: "2"})[1:])
    assert stage.run_until(lambda: "planned" not in state(stage, "one"), 60)
    assert stage.run_until(lambda: not is_asked(stage, "one"), 60)
    report(stage, "one", 10, saved=True)
    stage.run_for(200)
    assert "resizing" not in history(stage, "one")


def test_a_trainer_that_saved_for_a_plan_that_is_dropped_need_not_wait_for_it(stage: MemoryStage) -> None:
    shrinks_for_a_newcomer(stage)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    report(stage, "one", 10, saved=True)
    stage.cluster.remove("configmaps", "a", "new")
    assert stage.run_until(lambda: "asked.json" not in stored(stage, "one"), 60)
    assert history(stage, "one")[-1] == "running"
    assert "planned" not in state(stage, "one")


@pytest.mark.parametrize("stays", [True, False])
def test_a_trainer_whose_pod_stays_is_told_that_the_resize_is_done(stage: MemoryStage, stays: bool) -> None:
    counts = ["parallelism", "completions"]
    job = cases.job("one-j", "p", 4, **{"cpu": "1", GPU: "1"})
    job["spec"]["completionMode"] = "Indexed"
    range_ = {"min": 2, "max": 4, "axis": "pods"}
    if not stays:
        job, range_ = cases.job("one-j", "p", 1, **{"cpu": "1", GPU: "4"}), {"min": 2, "max": 4}
    stage.cluster.add("configmaps", cases.gang_record("one", "a", [job], elastic={"range": range_}))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    submit(stage, "new", 8)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: running(stage, "one", "new"), 60)
    stage.run_for(60)
    found = stage.cluster.get("jobs", "a", "one-j")
    assert found is not None
    assert [found["spec"][name] for name in counts] == ([2, 2] if stays else [1, 1])
    # Who takes its place finds that it was answered, and costs no write.
    assert ("asked.json" in stored(stage, "one")) is not stays


def test_a_plan_is_left_to_those_who_may_start_the_gang_that_it_is_for(stage: MemoryStage) -> None:
    """A dispatcher for one namespace knows of no reason to shrink; it dropped the plan, and the other made it again."""
    submit(stage, "one", 2, (2, 10))
    stage.start("narrow", ["a"], turn=1)
    stage.start("wide", turn=1)
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    job = cases.job("new-j", "p", 1, **{"cpu": "1", GPU: "2"})
    stage.cluster.add("configmaps", cases.gang_record("new", "b", [job]))
    assert stage.run_until(lambda: is_asked(stage, "one"))
    plan = state(stage, "one")["planned"]
    stage.run_for(120)
    assert state(stage, "one")["planned"] == plan
    stage.cluster.remove("configmaps", "b", "new")
    assert stage.run_until(lambda: "planned" not in state(stage, "one"), 120)


def test_a_planned_growth_reserves_nothing(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    submit(stage, "two", 6)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    stage.run_for(1000)
    stage.cluster.remove("configmaps", "a", "two")
    assert stage.run_until(lambda: is_asked(stage, "one"))
    submit(stage, "new", 6)
    assert stage.run_until(lambda: running(stage, "new") and "planned" not in state(stage, "one"), 60)
    assert gpus(stage) == {"one": 4, "new": 6}


def test_another_dispatcher_goes_on_with_a_plan(stage: MemoryStage) -> None:
    shrinks_for_a_newcomer(stage)
    plan = state(stage, "one")["planned"]
    stage.kill("d")
    if "asked.json" in stored(stage, "one"):
        stage.cluster.change(
            "configmaps", "a", progress_name("one"), lambda raw: raw["data"].pop("asked.json") and None
        )
    stage.start("e")
    assert stage.run_until(lambda: is_asked(stage, "one"))
    assert state(stage, "one")["planned"] == plan
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: running(stage, "one", "new"), 120)
    assert gpus(stage) == {"one": 8, "new": 2}


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "cut", "lose", "refuse"])
@pytest.mark.parametrize("write", ["the plan", "what is asked"])
def test_whatever_happens_to_one_write_of_a_plan_it_comes_to_the_same(
    stage: MemoryStage, trouble: t.Any, write: str
) -> None:
    submit(stage, "one", 2, (2, 10))
    dispatcher = stage.start("d")
    assert stage.run_until(lambda: running(stage, "one") and progress_exists(stage))
    stage.run_for(1000)
    path = "/one$" if write == "the plan" else "/muster-progress-one$"
    fault = Fault(trouble, "PUT", path)
    dispatcher.line.faults.append(fault)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: not fault.times, 100)
    stage.run_for(1)
    if stage.actors["d"].over:
        stage.kill("d")
        stage.start("d")
    assert stage.run_until(lambda: "planned" in state(stage, "one") and is_asked(stage, "one"))
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: running(stage, "one", "new"), 120)
    assert gpus(stage) == {"one": 8, "new": 2}
    assert history(stage, "one").count("resizing") == 1


TROUBLES = ("kill_before", "kill_after", "kill_late", "cut", "lose", "delay", "refuse", "call")


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("write", [0, 1])
def test_a_report_counts_once_whatever_happens_to_its_write(stage: MemoryStage, trouble: t.Any, write: int) -> None:
    """The trainer tells it again, as its next start would; "call" is a dispatcher that writes just then."""
    shrinks_for_a_newcomer(stage)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    place = "configmaps", "a", progress_name("one")

    def write_meanwhile() -> None:
        """Another writer."""
        assert stage.cluster.change(*place, lambda raw: raw["metadata"].setdefault("labels", {}).update(x="y"))

    line, told = Line(stage.cluster), CheckpointOptions("one", "a", step=10, saved=True)
    fault = Fault(trouble, "PUT|PATCH", place[2], skip=write, seconds=20.0, happens=write_meanwhile)
    line.faults.append(fault)
    for _turn in range(2):
        with contextlib.suppress(Killed, KubeError):
            run_checkpoint(line.client(), told)
    assert run_checkpoint(Line(stage.cluster).client(), told).as_result(diff=False)["save_now"] is False
    assert stage.run_until(lambda: running(stage, "one", "new"), 60)
    stage.run_for(100)
    assert running(stage, "one", "new")
    assert gpus(stage) == {"one": 8, "new": 2}
    assert history(stage, "one").count("resizing") == 1


def test_without_elastic_gangs_that_run_nobody_asks_for_progress(stage: MemoryStage) -> None:
    submit(stage, "one", 2)
    submit(stage, "two", 20, (20, 40))
    dispatcher = stage.start("d")
    asked: list[str] = []
    send = dispatcher.line.send

    def sent(method: str, url: str, *more: t.Any) -> t.Any:
        """Note each address."""
        asked.append(url)
        return send(method, url, *more)

    dispatcher.line.send = sent  # type: ignore[method-assign]
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(60)
    assert not [url for url in asked if "progress" in url]
    submit(stage, "three", 2, (2, 4))
    assert stage.run_until(lambda: running(stage, "three"))
    stage.run_for(1)
    assert [url for url in asked if "progress" in url]


def test_steps_are_learned_and_written_now_and_then(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 4))
    dispatcher = stage.start("d")
    assert stage.run_until(lambda: progress_exists(stage))
    place = f"/configmaps/{progress_name('one')}"
    for turn in range(1, 41):
        stage.run_for(30)
        report(stage, "one", 60 * turn, total=9000)
    stage.run_for(90)
    told = stored(stage, "one")["progress.json"]
    assert (told["total"], told["seen"]["size"]) == (9000, 4)
    (pace,) = {steps / seconds for steps, seconds in told["paces"]["4"]}
    assert pace == pytest.approx(2.0, rel=0.01)
    writes = [path for method, path in dispatcher.line.writes if path.endswith(place)]
    assert len(writes) <= 25
    # What came twice, or from before, is nothing new.
    before = stage.cluster.get("configmaps", "a", progress_name("one"))
    report(stage, "one", 60 * 40, total=9000)
    report(stage, "one", 60, total=9000, time=now(stage) - 500)
    stage.run_for(300)
    after = stage.cluster.get("configmaps", "a", progress_name("one"))
    assert after is not None
    assert before is not None
    assert after["data"]["progress.json"] == before["data"]["progress.json"]
    assert [path for method, path in dispatcher.line.writes if path.endswith(place)] == writes


def test_a_clock_that_is_ahead_does_not_count(stage: MemoryStage) -> None:
    shrinks_for_a_newcomer(stage)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    report(stage, "one", 10, saved=True, time=now(stage) + 100_000)
    assert stage.run_until(lambda: running(stage, "one", "new"), 60)
    assert stored(stage, "one")["progress.json"]["checkpoints"][-1][0] <= now(stage)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "null", '{"format": 9}', '{"step": -1}', '{"step": 1, "total": 0}', '{"step": 1e400}', "x" * 200_000],
)
@pytest.mark.parametrize("key", ["progress.json", "report.json", "asked.json"])
def test_a_damaged_one_harms_its_own_gang_only(stage: MemoryStage, key: str, text: str) -> None:
    for name in ("one", "two"):
        submit(stage, name, 2, (2, 5), checkpoint_timeout=200)
    dispatcher = stage.start("d", mirrored=True)
    assert stage.run_until(lambda: all(stage.cluster.get("configmaps", "a", progress_name(n)) for n in ("one", "two")))
    stage.cluster.change("configmaps", "a", progress_name("one"), lambda raw: raw["data"].update({key: text}))
    stage.run_for(1000)
    submit(stage, "new", 2)
    for turn in range(20):
        stage.run_for(60)
        report(stage, "two", 10 + turn, saved=True)
    assert running(stage, "one", "two", "new")
    assert gpus(stage) == {"one": 5, "two": 3, "new": 2}
    assert not stage.crashes
    assert not dispatcher.troubles


def test_one_that_only_has_the_name_is_left_alone(stage: MemoryStage) -> None:
    metadata = {"name": progress_name("one"), "namespace": "a", "labels": {PROGRESS_LABEL: "true"}}
    stage.cluster.add("configmaps", {"metadata": {**metadata, "labels": {}}, "data": {"mine": "1"}})
    submit(stage, "one", 2, (2, 10))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(100)
    found = stage.cluster.get("configmaps", "a", progress_name("one"))
    assert found is not None
    assert found["data"] == {"mine": "1"}


def test_progress_goes_with_its_gang(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    stage.start("d")
    assert stage.run_until(lambda: progress_exists(stage))
    stage.cluster.remove("configmaps", "a", "one")
    assert stage.run_until(lambda: not progress_exists(stage), 60)


def progress_exists(stage: MemoryStage) -> bool:
    """Whether there is a place for reports of the gang one."""
    return stage.cluster.get("configmaps", "a", progress_name("one")) is not None
