# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory that share a cluster by a quota tree."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault

TREE = "muster-quota-default"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Room for eight pods, and the namespaces a and b."""
    with MemoryStage(1) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


def leaf(name: str, cpu: int, **more: t.Any) -> cases.Object:
    """A queue below the root."""
    return {"name": name, "parent": "all", "nominal": {"cpu": cpu}, **more}


def declare(stage: MemoryStage, *queues: cases.Object) -> None:
    """Store a tree of these queues, as the module does."""
    text = tree_text(read_tree("default", {"queues": [{"name": "all"}, *queues]}))
    if stage.cluster.get("configmaps", "muster-system", TREE) is None:
        metadata = {"name": TREE, "namespace": "muster-system", "labels": {TREE_LABEL: "default"}}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {TREE_KEY: text}})
        return
    stage.cluster.change("configmaps", "muster-system", TREE, lambda raw: raw["data"].update({TREE_KEY: text}))


def submit(stage: MemoryStage, name: str, pods: int, namespace: str = "a", **options: t.Any) -> None:
    """Queue a gang of pods of one CPU."""
    seconds = options.pop("seconds", None)
    job = cases.job(f"{name}-j", "p", pods, **({"seconds": seconds} if seconds else {}))
    stage.cluster.add("configmaps", cases.gang_record(name, namespace, [job], **options))


def state(stage: MemoryStage, name: str, namespace: str = "a") -> cases.Object:
    """What the record of a gang says."""
    record = stage.cluster.get("configmaps", namespace, name)
    assert record is not None
    text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
    return {"phase": "queued"} if text is None else t.cast("cases.Object", json.loads(text))


def phases(stage: MemoryStage, **gangs: str) -> dict[str, str]:
    """The phases of gangs, given with their namespaces."""
    return {name: state(stage, name, namespace)["phase"] for name, namespace in gangs.items()}


def test_one_quota_holds_in_all_namespaces_of_a_queue(stage: MemoryStage) -> None:
    declare(stage, leaf("team", 3, hard=True, namespaces=["a", "b"]))
    submit(stage, "one", 2, "a", seconds=20)
    submit(stage, "two", 2, "b")
    submit(stage, "three", 1, "b")
    stage.start("d")
    assert stage.run_until(lambda: phases(stage, one="a", three="b") == {"one": "running", "three": "running"})
    told = state(stage, "two", "b")
    assert (told["phase"], told["verdict"]["reason"]) == ("queued", "quota")
    assert told["verdict"]["layers"][0]["trees"][0]["levels"][0]["short"] == "1"
    assert state(stage, "one")["charged"] == [{"tree": "default", "queue": "team"}]
    assert stage.run_until(lambda: phases(stage, one="a", two="b") == {"one": "complete", "two": "running"})


def test_a_tree_that_is_cut_takes_nothing_back_and_starts_nothing_more(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4, hard=True), leaf("y", 4, hard=True))
    submit(stage, "one", 3, queue="x")
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")
    declare(stage, leaf("x", 2, hard=True), leaf("y", 4, hard=True))
    submit(stage, "small", 1, queue="x")
    submit(stage, "other", 4, queue="y")
    assert stage.run_until(lambda: state(stage, "other")["phase"] == "running")
    stage.run_for(30)
    assert phases(stage, one="a", small="a") == {"one": "running", "small": "queued"}


def test_a_larger_tree_is_used_at_once(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 1, hard=True))
    submit(stage, "one", 3, queue="x")
    stage.start("d")
    stage.run_for(10)
    assert state(stage, "one")["verdict"]["answer"] == "never"
    declare(stage, leaf("x", 3, hard=True))
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running", 10)


@pytest.mark.parametrize("text", ["{", '{"format": 1, "queues": []}', '{"format": 99}'])
def test_nothing_starts_under_a_tree_that_cannot_be_read(stage: MemoryStage, text: str) -> None:
    declare(stage, leaf("x", 4))
    stage.cluster.change("configmaps", "muster-system", TREE, lambda raw: raw["data"].update({TREE_KEY: text}))
    submit(stage, "one", 1, queue="x")
    stage.start("d")
    stage.run_for(20)
    told = state(stage, "one")
    assert (told["phase"], told["verdict"]["reason"]) == ("queued", "quota_unreadable")
    declare(stage, leaf("x", 4))
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")


def test_a_run_for_one_namespace_counts_what_others_use(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 3, hard=True, default=True))
    submit(stage, "theirs", 2, "b")
    stage.start("all", turn=1)
    assert stage.run_until(lambda: state(stage, "theirs", "b")["phase"] == "running")
    stage.kill("all")
    submit(stage, "large", 2)
    submit(stage, "small", 1)
    stage.start("mine", ["a"])
    assert stage.run_until(lambda: state(stage, "small")["phase"] == "running")
    assert state(stage, "large")["verdict"]["reason"] == "quota"


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "cut", "lose"])
def test_whatever_happens_to_one_write_no_quota_is_given_twice(stage: MemoryStage, trouble: t.Any) -> None:
    """Of two gangs only one may run; whoever comes next finds what was begun, and counts it."""
    declare(stage, leaf("x", 2, hard=True))
    for number in range(10):
        names = {f"a{number}": "a", f"b{number}": "b"}
        for name, namespace in names.items():
            submit(stage, name, 2, namespace, queue="x")
        first = stage.start("one")
        first.line.faults.append(Fault(trouble, WRITES, skip=number))
        stage.run_for(3)
        if stage.actors["one"].over:
            stage.kill("one")
            stage.start("one")
        assert stage.run_until(lambda names=names: "running" in phases(stage, **names).values()), stage.crashes
        stage.run_for(30)
        assert sorted(phases(stage, **names).values()) == ["queued", "running"]
        stage.kill("one")
        for name, namespace in names.items():
            stage.cluster.remove("configmaps", namespace, name)
        assert stage.run_until(lambda: not any(stage.cluster.all("pods", place) for place in "ab"))
    assert stage.crashes == []
