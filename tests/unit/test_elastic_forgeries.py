# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic gangs whose users meddle with their objects, plans and progress while they are resized."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import PROGRESS_LABEL, progress_name
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import BEGINNING
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault
from ansible_collections.muster.kube.tests.support.reclaim_cases import history, two_namespaces
from ansible_collections.muster.kube.tests.unit.test_elastic_attacks import (
    FUTURE,
    PAST,
    edit_gang,
    forge,
    gpu_job,
)
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import (
    GPU,
    finish,
    gpus,
    job_of,
    pods_of,
    running,
    sizes,
    submit,
    submit_pods,
)
from ansible_collections.muster.kube.tests.unit.test_memory_progress import is_asked, shrinks_for_a_newcomer
from ansible_collections.muster.kube.tests.unit.test_memory_quota import state

MARK = "muster.kube/resize"


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b; suspended Jobs take other resources."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        made.cluster.server_version = (1, 36)
        yield made


def asked_for(stage: MemoryStage) -> int:
    """The GPUs of all pods that are not over."""
    pods = [pod for pod in stage.cluster.all("pods") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    bound = [pod for pod in pods if pod["spec"].get("nodeName")]
    return sum(int(pod["spec"]["containers"][0]["resources"]["limits"][GPU]) for pod in bound)


def mark(stage: MemoryStage, name: str, text: str, **spec: t.Any) -> None:
    """What somebody writes onto a Job."""

    def edit(raw: cases.Object) -> None:
        raw["metadata"].setdefault("annotations", {})[MARK] = text
        raw["spec"].update(spec)

    stage.cluster.change("jobs", "a", f"{name}-j", edit)


@pytest.mark.parametrize("pods", [True, False])
@pytest.mark.parametrize("forged", ["", "x.sized", "x.suspended", "{id}.sized", "{id}.suspended", "{id}.back.sized"])
@pytest.mark.parametrize("shrinks", [True, False])
def test_a_forged_mark_gives_nobody_more(stage: MemoryStage, pods: bool, forged: str, shrinks: bool) -> None:
    (submit_pods if pods else lambda *them, **more: submit(them[0], them[1], them[2], them[2:], **more))(
        stage, "one", 2, 8, timing="now"
    )
    submit(stage, "other", 2 if shrinks else 8)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    if shrinks:
        submit(stage, "new", 4)
    else:
        finish(stage, "other")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "rescaling")
    mark(stage, "one", forged.format(id=state(stage, "one")["resize"]["id"]))
    names = ["one", *(["new"] if shrinks else [])]
    assert stage.run_until(lambda: running(stage, *names), 2000)
    most = 0
    for _turn in range(40):
        stage.run_for(20)
        most = max(most, asked_for(stage))
    assert most <= 10
    assert running(stage, *names)
    assert len(pods_of(stage, "one")) <= (state(stage, "one")["allotment"] if pods else 1)
    assert stage.crashes == stage.actors["d"].dispatcher.troubles == []


OWNERS: dict[str, t.Any] = {
    "none": [],
    "another": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "nobody", "controller": True}],
}


@pytest.mark.parametrize("owner", OWNERS)
def test_an_object_that_its_ticket_does_not_own_is_not_patched(stage: MemoryStage, owner: str) -> None:
    submit(stage, "other", 8)
    submit_pods(stage, "one", 2, 8, timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    stage.cluster.change("jobs", "a", "one-j", lambda raw: raw["metadata"].update(ownerReferences=OWNERS[owner]))
    uid = job_of(stage, "one")["metadata"]["uid"]
    finish(stage, "other")
    stage.run_for(3000)
    found = stage.cluster.get("jobs", "a", "one-j")
    if found is not None and found["metadata"]["uid"] == uid:
        assert MARK not in (found["metadata"].get("annotations") or {})
        assert found["spec"]["parallelism"] == 2
    assert stage.crashes == stage.actors["d"].dispatcher.troubles == []


def test_an_object_of_another_under_its_name_is_not_patched(stage: MemoryStage) -> None:
    submit(stage, "other", 8)
    submit_pods(stage, "one", 2, 8, timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    before = job_of(stage, "one")
    forged = {**before, "metadata": {"name": "one-j", "namespace": "a", "labels": before["metadata"]["labels"]}}
    forged.pop("status", None)
    stage.cluster.erase(("jobs", "a", "one-j"))
    stage.cluster.add("jobs", forged)
    finish(stage, "other")
    stage.run_for(3000)
    found = job_of(stage, "one")
    assert MARK not in (found["metadata"].get("annotations") or {})
    assert found["spec"]["parallelism"] == 2


@pytest.mark.parametrize("priority", [0, 100])
def test_who_names_the_object_of_another_does_not_get_its_place_while_that_is_resized(
    stage: MemoryStage, priority: int
) -> None:
    stage.cluster.server_version = None
    submit(stage, "other", 6)
    submit(stage, "one", 2, (2, 10), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    stage.cluster.add("configmaps", cases.gang_record("thief", "a", [gpu_job("one-j")], priority=priority))
    stage.run_for(20)
    assert state(stage, "thief")["phase"] == "queued"
    finish(stage, "other")
    assert stage.run_until(lambda: sizes(stage, "one") != [4] and running(stage, "one"), 300)
    stage.run_for(300)
    assert state(stage, "thief")["phase"] == "queued"
    assert history(stage, "thief").count("dispatching") == 0


TERMS: dict[str, cases.Object] = {
    "cooldown": {"cooldown": -1},
    "restart_cost": {"restart_cost": -0.5},
    "checkpoint_timeout": {"checkpoint_timeout": -1},
    "no number": {"cooldown": "soon"},
    "beyond all": {"cooldown": 1e300},
    "not a number": {"restart_cost": float("nan")},
    "without end": {"cooldown": float("inf")},
    "sizes beyond all": {"range": {"min": 1, "max": 2**31}},
    "sizes below none": {"range": {"min": -4, "max": 4}},
    "none": {"range": {"min": 0, "max": 4}},
    "step": {"range": {"min": 1, "max": 4, "step": 0}},
    "large step": {"range": {"min": 1, "max": 4, "step": 2**40}},
    "upside down": {"range": {"min": 4, "max": 1}},
}


@pytest.mark.parametrize("what", TERMS)
def test_terms_that_make_no_sense_are_refused_and_stop_nobody_when_they_are_stored(
    stage: MemoryStage, what: str
) -> None:
    elastic = {"range": {"min": 1, "max": 4}, "timing": "now", **TERMS[what]}
    with pytest.raises(BadInput):
        read_spec({"name": "bad", "namespace": "a", "objects": [gpu_job()], "elastic": elastic}, "gang a/bad")
    submit(stage, "bad", 1, (1, 4), timing="now")
    dispatcher = stage.start("d")
    assert stage.run_until(lambda: running(stage, "bad"))
    edit_gang(stage, "bad", elastic=elastic)
    submit(stage, "good", 2, (2, 4), timing="now")
    assert stage.run_until(lambda: running(stage, "good"), 100)
    stage.run_for(1000)
    submit(stage, "more", 4)
    assert stage.run_until(lambda: running(stage, "good", "more"), 300)
    assert asked_for(stage) <= 10
    assert stage.crashes == dispatcher.troubles == []


def planned(**more: t.Any) -> cases.Object:
    return {"planned": {"from": 10, "to": 8, "why": "x", "since": PAST, **more}}


PLANS: dict[str, cases.Object] = {
    "long ago": planned(),
    "in the future": planned(since=FUTURE),
    "to a size beyond all": planned(to=2**31 - 2),
    "for nobody": planned(**{"for": "nobody"}),
    "missed long ago": planned(missed=PAST),
    "missed in the future": planned(missed=FUTURE),
    "of another size": planned(**{"from": 3, "to": 5}),
    "no plan": {"planned": []},
    "no sizes": {"planned": {"from": "x", "to": None}},
}


@pytest.mark.parametrize("what", PLANS)
def test_a_forged_plan_keeps_no_other_waiting(stage: MemoryStage, what: str) -> None:
    submit(stage, "one", 2, (2, 5), checkpoint_timeout=60)
    submit(stage, "two", 2, (2, 5), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    stage.run_for(1000)
    forge(stage, "one", **PLANS[what])
    submit(stage, "new", 2)
    assert stage.run_until(lambda: running(stage, "new", "two"), 2000)
    assert asked_for(stage) <= 10
    assert stage.crashes == stage.actors["d"].dispatcher.troubles == []


@pytest.mark.parametrize("owned", [True, False])
def test_progress_that_another_namespace_tells_is_none(stage: MemoryStage, owned: bool) -> None:
    shrinks_for_a_newcomer(stage)
    assert stage.run_until(lambda: is_asked(stage, "one"))
    record = stage.cluster.get("configmaps", "a", "one")
    assert record is not None
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": record["metadata"]["uid"]}
    moment = BEGINNING.timestamp() + stage.clock.now
    told = {"format": 1, "time": moment, "step": 9, "checkpoint": {"time": moment, "step": 9}}
    metadata: cases.Object = {"name": progress_name("one"), "namespace": "b", "labels": {PROGRESS_LABEL: "true"}}
    if owned:
        metadata["ownerReferences"] = [owner]
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {"report.json": json.dumps(told)}})
    stage.run_for(100)
    assert "resizing" not in history(stage, "one")
    assert "rescaling" not in history(stage, "one")
    assert is_asked(stage, "one")


@pytest.mark.parametrize("seconds", [-86_400.0, -600.0, 600.0, 86_400.0])
@pytest.mark.parametrize("pods", [True, False])
def test_a_clock_that_jumps_ends_no_resize(stage: MemoryStage, seconds: float, pods: bool) -> None:
    """An answer with a wrong date, now and then, while a gang gets another size."""
    submit(stage, "other", 8)
    (submit_pods if pods else lambda *them, **more: submit(them[0], them[1], them[2], them[2:], **more))(
        stage, "one", 2, 8, timing="now"
    )
    dispatcher = stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    for skip in range(0, 60, 7):
        dispatcher.line.faults.append(Fault("date", skip=skip, seconds=seconds))
    finish(stage, "other")
    assert stage.run_until(lambda: running(stage, "one") and sizes(stage, "one") != [2], 200)
    stage.run_for(1000)
    assert running(stage, "one")
    assert (history(stage, "one").count("resizing"), state(stage, "one")["attempt"]) == (0, 1)
    assert gpus(stage)
    assert asked_for(stage) <= 10
