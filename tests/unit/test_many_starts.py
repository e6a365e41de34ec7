# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Many starts in a run of many cycles: what comes first, what is written once, and what is not asked twice."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage

EVENTS = "ansible_collections.muster.kube.plugins.module_utils._store.events"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Eight nodes of 4 cpu and the namespace a."""
    with MemoryStage(1) as made:
        made.add_namespace("a")
        made.add_nodes(*cases.node_pool("p", 8))
        yield made


@pytest.fixture
def one(stage: MemoryStage) -> MemoryDispatcher:
    """A dispatcher as in a run of many cycles, to be run by hand."""
    made = stage.dispatcher("one", ["a"])
    made.defers = True
    made.cycle()
    made.line.sent.clear()
    return made


def submit(stage: MemoryStage, name: str, *objects: cases.Object) -> None:
    """Queue a gang; a Job of two pods if nothing else is given."""
    wanted = objects or (cases.job(f"{name}-j", "p", 2, cpu="1"),)
    stage.cluster.add("configmaps", cases.gang_record(name, "a", wanted))


def phase(stage: MemoryStage, name: str) -> str:
    """Its phase as the record says it."""
    record = stage.cluster.get("configmaps", "a", name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
    return "queued" if text is None else str(json.loads(text)["phase"])


def dry_runs(dispatcher: MemoryDispatcher) -> int:
    """How many objects the server was asked to pretend."""
    return sum(dry for _method, _path, dry in dispatcher.line.sent)


def test_starts_come_before_the_states_of_gangs_that_run(stage: MemoryStage, one: MemoryDispatcher) -> None:
    submit(stage, "first")
    one.cycle()
    one.pass_time(1)
    submit(stage, "second")
    one.line.sent.clear()
    one.cycle()
    paths = [path for _method, path in one.line.writes]
    assert phase(stage, "first") == "running"
    assert paths.index("/apis/batch/v1/namespaces/a/jobs") < paths.index("/api/v1/namespaces/a/configmaps/first")


def test_a_gang_without_pods_is_written_after_two_seconds(stage: MemoryStage, one: MemoryDispatcher) -> None:
    stage.controllers.pace.job = 60.0
    submit(stage, "g")
    one.cycle()
    one.pass_time(1.5)
    one.cycle()
    assert phase(stage, "g") == "queued"
    one.pass_time(1)
    one.cycle()
    assert phase(stage, "g") == "dispatched"


def test_of_equal_gangs_one_is_tried_before(stage: MemoryStage, one: MemoryDispatcher) -> None:
    for number in range(3):
        submit(stage, f"g{number}", *cases.three_objects(f"g{number}", "p", 1, cpu="1"))
    one.cycle()
    assert len(stage.cluster.all("jobs", "a")) == 6
    assert dry_runs(one) == 3
    submit(stage, "late", *cases.three_objects("late", "p", 1, cpu="1"))
    one.cycle()
    assert dry_runs(one) == 3
    one.pass_time(61)
    submit(stage, "later", *cases.three_objects("later", "p", 1, cpu="1"))
    one.cycle()
    assert dry_runs(one) == 6


def test_a_gang_that_differs_in_more_than_names_is_tried_itself(stage: MemoryStage, one: MemoryDispatcher) -> None:
    plain = cases.three_objects("plain", "p", 1, cpu="1")
    other = copy.deepcopy(cases.three_objects("other", "p", 1, cpu="1"))
    other[1]["spec"]["template"]["spec"]["containers"][0]["image"] = "elsewhere/image"
    submit(stage, "plain", *plain)
    submit(stage, "other", *other)
    one.cycle()
    assert dry_runs(one) == 6


def test_names_that_look_like_values_hide_no_difference(stage: MemoryStage, one: MemoryDispatcher) -> None:
    """A Job called 2 that has two pods is not of the same shape as one called 3 that has three."""
    for number in (2, 3):
        submit(stage, f"g-{number}", cases.service(f"g-{number}-s"), cases.job(str(number), "p", number))
    one.cycle()
    assert dry_runs(one) == 4


def test_after_a_refusal_the_server_is_asked_again(stage: MemoryStage, one: MemoryDispatcher) -> None:
    submit(stage, "g0", *cases.three_objects("g0", "p", 1, cpu="1"))
    one.cycle()
    stage.cluster.add("jobs", {**cases.job("g1-b", "p", 1), "metadata": {"name": "g1-b", "namespace": "a"}})
    submit(stage, "g1", *cases.three_objects("g1", "p", 1, cpu="1"))
    one.cycle()
    assert dry_runs(one) == 3
    submit(stage, "g2", *cases.three_objects("g2", "p", 1, cpu="1"))
    for _round in range(20):
        one.cycle()
        one.pass_time(2)
    assert dry_runs(one) > 6
    # Of the one whose name is taken nothing is left, and the other one runs.
    names = {job["metadata"]["name"] for job in stage.cluster.all("jobs", "a")}
    assert names == {"g0-a", "g0-b", "g1-b", "g2-a", "g2-b"}


def test_of_very_many_starts_not_each_has_an_event(
    stage: MemoryStage, one: MemoryDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{EVENTS}.NEWS_PER_SECOND", 0.0)
    assert one.session is not None
    one.session.news._left = 3.0
    for number in range(5):
        submit(stage, f"g{number}")
    submit(stage, "wrong", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    one.cycle()
    found = [event["type"] for event in stage.cluster.all("events", "a")]
    assert (found.count("Normal"), found.count("Warning")) == (3, 1)


def test_what_gives_others_room_is_written_before_they_start(stage: MemoryStage, one: MemoryDispatcher) -> None:
    submit(stage, "first", cases.job("first-j", "p", 2, seconds=2, cpu="1"))
    one.cycle()
    one.pass_time(1)
    one.cycle()
    one.pass_time(5)
    submit(stage, "second")
    one.line.sent.clear()
    one.cycle()
    paths = [path for _method, path in one.line.writes]
    assert phase(stage, "first") == "complete"
    assert paths.index("/api/v1/namespaces/a/configmaps/first") < paths.index("/apis/batch/v1/namespaces/a/jobs")
