# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a whole cycle decides, on a cluster in memory: check mode foresees it, the default policy reserves."""

from __future__ import annotations

import json
import os
import pathlib
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult, _Run
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import UNDOING
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Decision
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_dispatcher import (
    MemoryDispatcher,
    MemoryStage,
    inline_calls,
)

SEED = int(os.environ.get("MUSTER_SEED", "1"))
SITUATIONS = 200 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 8


def made_stage(seed: int) -> MemoryStage:
    """Two nodes of 4 cpu and the namespace a."""
    stage = MemoryStage(seed)
    stage.add_namespace("a")
    stage.add_nodes(*cases.node_pool("p", 2))
    return stage


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    with made_stage(1) as made:
        yield made


def submit(stage: MemoryStage, name: str, *objects: cases.Object, **options: t.Any) -> None:
    """Queue a gang."""
    stage.cluster.add("configmaps", cases.gang_record(name, "a", objects, **options))


def change(stage: MemoryStage, name: str, **options: t.Any) -> None:
    """Write other options into a record."""

    def edit(record: cases.Object) -> None:
        record["data"]["gang.json"] = json.dumps({**json.loads(record["data"]["gang.json"]), **options})

    stage.cluster.change("configmaps", "a", name, edit)


def foreseen(dispatcher: MemoryDispatcher) -> DispatchResult:
    """What check mode says, which must write nothing: all that it sends besides reads are dry runs."""
    client = dispatcher.line.client("checker")
    with inline_calls():
        result = preview_dispatch(client, dispatcher.terms)
    sent = {method: count for method, count in result.requests.items() if method != "GET"}
    assert sent == ({"POST": client.dry_runs} if client.dry_runs else {}), result.requests
    return result


def decided(dispatcher: MemoryDispatcher) -> list[Decision]:
    """What one cycle decides."""
    cycle = dispatcher.cycle()
    return cycle.session.journal.take()[0]


def steps(decisions: t.Iterable[Decision]) -> set[tuple[str, str, str]]:
    """The decisions that change something."""
    return {(item.gang, item.action, item.reason) for item in decisions if item.action != "wait"}


def waits(decisions: t.Iterable[Decision]) -> dict[str, str]:
    """Why gangs wait."""
    return {item.gang: item.reason for item in decisions if item.action == "wait"}


def agree(dispatcher: MemoryDispatcher) -> list[Decision]:
    """One cycle, which does what check mode foresaw."""
    before, stood = foreseen(dispatcher), phases(dispatcher.cluster)
    done = decided(dispatcher)
    told = steps(before.decisions)
    # When a gang that is being stopped has gone depends on what the cycle itself finds and deletes.
    sure = {item for item in steps(done) if stood.get(item[0]) not in UNDOING}
    assert told == sure, (told, sure, stood)
    assert before.changed == bool({item for item in told if item[1] != "refuse"})
    return done


def test_nothing_to_do_is_no_change(stage: MemoryStage) -> None:
    one = stage.dispatcher("one", ["a"])
    assert agree(one) == []
    submit(stage, "big", cases.job("big-j", "p", 9))
    assert steps(agree(one)) == set()
    assert not foreseen(one).changed


def test_life_of_a_gang_is_foreseen(stage: MemoryStage) -> None:
    one = stage.dispatcher("one", ["a"])
    submit(stage, "g", cases.job("g-j", "p", 2, seconds=5), ttl=30)
    assert [(item.gang, item.action) for item in agree(one)] == [("a/g", "start")]
    one.pass_time(2)
    assert {action for _gang, action, _why in steps(agree(one))} == {"running"}
    one.pass_time(8)
    assert {action for _gang, action, _why in steps(agree(one))} == {"complete"}
    one.pass_time(40)
    assert {action for _gang, action, _why in steps(agree(one))} == {"expire"}
    assert stage.cluster.get("configmaps", "a", "g") is None


@pytest.mark.parametrize(
    ("options", "edit", "seconds", "action"),
    [
        ({}, {"suspended": True}, 2, "stop"),
        ({"max_run_time": 5}, {}, 20, "stop"),
        ({"exit_code": 3}, {}, 8, "fail"),
    ],
)
def test_ends_of_gangs_are_foreseen(stage: MemoryStage, options, edit, seconds, action) -> None:
    one = stage.dispatcher("one", ["a"])
    code = options.pop("exit_code", None) if options else None
    submit(stage, "g", cases.job("g-j", "p", 2, seconds=5 if code else None, exit_code=code), **options)
    decided(one)
    one.pass_time(2)
    decided(one)
    if edit:
        change(stage, "g", **edit)
    one.pass_time(seconds)
    assert action in {told for _gang, told, _why in steps(agree(one))}


def test_drawn_situations_go_as_foreseen() -> None:
    for number in range(SITUATIONS):
        seed = 1000 * SEED + number
        chance = random.Random(seed)
        with made_stage(seed) as made:
            one = made.dispatcher("one", ["a"], policy=chance.choice(["reserve", "best_effort", "strict"]))
            live: list[str] = []
            for step in range(10):
                for _round in range(chance.randrange(3)):
                    live.append(f"g{step}x{len(live)}")
                    draw_gang(made, chance, live[-1])
                if live and chance.random() < 0.2:
                    name = chance.choice(live)
                    if made.cluster.get("configmaps", "a", name) is not None:
                        change(made, name, suspended=chance.random() < 0.7)
                one.pass_time(chance.choice((0, 1, 3, 10)))
                try:
                    agree(one)
                except AssertionError as error:
                    raise AssertionError(f"seed {seed}, step {step}: {error}") from error


def draw_gang(stage: MemoryStage, chance: random.Random, name: str) -> None:
    """Queue any gang."""
    options = {
        "priority": chance.choice((0, 0, 5)),
        "max_run_time": chance.choice((None, 8)),
        "ttl": chance.choice((None, 5)),
        "suspended": chance.random() < 0.1,
    }
    work = cases.job(
        f"{name}-j",
        "p",
        chance.choice((1, 2, 4, 8, 9)),
        seconds=chance.choice((None, 3, 6)),
        exit_code=chance.choice((None, None, 3)),
    )
    given = {key: value for key, value in options.items() if value is not None}
    submit(stage, name, *([cases.service(f"{name}-s")] if chance.random() < 0.3 else []), work, **given)


def reserving(stage: MemoryStage, **terms: t.Any) -> MemoryDispatcher:
    """A dispatcher whose nodes are full for 20 s, a large gang that waits, and one that is small and long."""
    one = stage.dispatcher("one", ["a"], **{"reserve_after": 5.0, **terms})
    submit(stage, "full", cases.job("full-j", "p", 6, seconds=20), max_run_time=30)
    decided(one)
    one.pass_time(2)
    decided(one)
    submit(stage, "large", cases.job("large-j", "p", 8), max_run_time=60)
    one.pass_time(1)
    decided(one)
    one.pass_time(10)
    submit(stage, "small", cases.job("small-j", "p", 1), max_run_time=3600)
    return one


def test_default_policy_holds_room_for_a_large_gang(stage: MemoryStage) -> None:
    one = reserving(stage)
    assert one.terms.policy == "reserve"
    told = agree(one)
    assert steps(told) == set()
    assert waits(told)["a/small"] == "reserved"
    for _round in range(6):
        one.pass_time(5)
        decided(one)
    assert phases(stage.cluster) == {"a/full": "complete", "a/large": "running", "a/small": "queued"}


@pytest.mark.parametrize("terms", [{"policy": "best_effort"}, {"reserve_after": 3600.0}])
def test_without_a_reservation_the_small_gang_starts(stage: MemoryStage, terms: dict[str, t.Any]) -> None:
    one = reserving(stage, **terms)
    assert ("a/small", "start") in {(gang, action) for gang, action, _why in steps(agree(one))}


def test_every_decision_is_appended_to_the_log(stage: MemoryStage, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "decisions"
    log.write_text("before\n")
    one = stage.dispatcher("one", ["a"], decision_log=str(log))
    assert one.acquire()
    client = one.line.client("one")
    run = _Run(client, client, one.terms, one.reports.append, until=None, on_cycle=None)
    submit(stage, "g", cases.job("g-j", "p", 2))
    submit(stage, "big", cases.job("big-j", "p", 9))
    with inline_calls():
        run._one_cycle(one.session)
    first, *lines = log.read_text().splitlines()
    assert first == "before"
    assert [json.loads(line) for line in lines] == [item.as_dict() for item in run.book]
    assert {(item["gang"], item["action"]) for item in map(json.loads, lines)} == {("a/g", "start"), ("a/big", "wait")}


@pytest.mark.parametrize("hold", ["soft", "hard"])
def test_room_is_held_without_a_known_end_only_when_told_so(stage: MemoryStage, hold: str) -> None:
    one = stage.dispatcher("one", ["a"], reserve_after=5.0, hold=hold)
    submit(stage, "full", cases.job("full-j", "p", 6))
    decided(one)
    one.pass_time(2)
    decided(one)
    submit(stage, "large", cases.job("large-j", "p", 8))
    decided(one)
    one.pass_time(10)
    submit(stage, "small", cases.job("small-j", "p", 1))
    started = {gang for gang, action, _why in steps(agree(one)) if action == "start"}
    assert started == ({"a/small"} if hold == "soft" else set())


def test_a_gang_that_ends_in_time_may_go_before_the_large_one(stage: MemoryStage) -> None:
    one = reserving(stage)
    submit(stage, "quick", cases.job("quick-j", "p", 1, seconds=1), max_run_time=2)
    assert {gang for gang, action, _why in steps(agree(one)) if action == "start"} == {"a/quick"}


def test_pods_that_lost_their_labels_are_known_by_their_owner(stage: MemoryStage) -> None:
    one = stage.dispatcher("one", ["a"])
    submit(stage, "g", cases.job("g-j", "p", 2))

    def strip(pod: cases.Object) -> None:
        """As a webhook for pods does that knows only its own labels."""
        labels = pod["metadata"]["labels"]
        pod["metadata"]["labels"] = {key: text for key, text in labels.items() if not key.startswith("muster.kube/")}

    for _turn in range(8):
        decided(one)
        one.pass_time(1)
        for pod in stage.cluster.all("pods", "a"):
            stage.cluster.change("pods", "a", pod["metadata"]["name"], strip)
    assert phases(stage.cluster) == {"a/g": "running"}


def phases(cluster: MemoryCluster) -> dict[str, str]:
    """Where the gangs stand."""
    found = {}
    for record in cluster.all("configmaps", "a"):
        if "gang.json" in (record.get("data") or {}):
            text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
            found[f"a/{record['metadata']['name']}"] = "queued" if text is None else str(json.loads(text)["phase"])
    return found
