# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Amounts that a dispatcher publishes, and people who may not see more than their own namespace."""

from __future__ import annotations

import itertools
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import (
    QuotaInfoOptions,
    QuotaOptions,
    QuotaQuestion,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.run import run_quota
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import Change, Denial
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Line
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, leaf, phases, submit

HOME, NAME = "muster-system", "muster-quota-status-default"
VISITOR = "visitor"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Two teams with two namespaces, and somebody who sees nothing of the cluster as a whole."""
    with MemoryStage(1) as made:
        for name in ("space-a", "space-b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        declare(made, leaf("red", 4, namespaces=["space-a"]), leaf("blue", 4, namespaces=["space-b"]))
        made.cluster.denials.append(Denial(VISITOR, verbs=("list",), namespaces=("",)))
        yield made


def published(stage: MemoryStage) -> dict[str, t.Any] | None:
    """The status of the tree."""
    found = stage.cluster.get("configmaps", HOME, NAME)
    return None if found is None else json.loads(found["data"]["status.json"])


def used(stage: MemoryStage) -> dict[str, str]:
    """What is used of each queue as it was published."""
    told = published(stage)
    return {} if told is None else {name: item["resources"][0]["used"] for name, item in told["queues"].items()}


def ask(stage: MemoryStage, user: str, **question: t.Any) -> dict[str, t.Any]:
    line = Line(stage.cluster)
    asked = QuotaInfoOptions(HOME, question=QuotaQuestion(**question))
    answer = answer_quota(lambda: line.client(user), asked)
    assert not line.writes
    return answer


def busy(stage: MemoryStage, **terms: t.Any) -> None:
    """Red borrows, and blue waits."""
    submit(stage, "secret-name", 6, "space-a", seconds=600)
    stage.start("d", **terms)
    assert stage.run_until(lambda: phases(stage, **{"secret-name": "space-a"}) == {"secret-name": "running"})
    submit(stage, "hidden", 4, "space-b")
    stage.run_for(30)


@pytest.mark.parametrize("mirrored", [False, True])
def test_amounts_are_published_without_any_name_but_those_of_queues(stage: MemoryStage, mirrored: bool) -> None:
    busy(stage, mirrored=mirrored)
    told = published(stage)
    assert told is not None
    assert (told["format"], told["tree"]) == (1, "default")
    assert told["queues"]["red"] == {
        "started": 1,
        "waiting": 0,
        "resources": [{"resource": "cpu", "nominal": "4", "used": "6", "borrowed": "2", "lent": "0", "headroom": "2"}],
    }
    assert (told["queues"]["all"]["started"], told["queues"]["all"]["waiting"]) == (1, 1)
    text = json.dumps(told)
    for name in ("secret-name", "hidden", "space-a", "space-b"):
        assert name not in text
    stage.cluster.remove("configmaps", "space-a", "secret-name")
    assert stage.run_until(lambda: used(stage) == {"all": "4", "red": "0", "blue": "4"}, 60)


def test_who_sees_only_his_namespace_gets_the_answer_of_who_sees_all(stage: MemoryStage) -> None:
    busy(stage)
    question = {"source": GangSource(namespace="space-b", definition=cases.job("new", "p", 3))}
    seen, blind = (ask(stage, user, **question) for user in ("admin", VISITOR))
    told = published(stage)
    assert told is not None
    (all_of_it,), (part,) = seen["trees"], blind["trees"]
    assert part["queues"] == all_of_it["queues"]
    assert (part["problem"], part["published"], part["as_of"]) == (None, True, told["as_of"])
    assert (all_of_it["published"], part["pairs"], part["unqueued"], part["drift"]) == (False, None, None, None)
    assert blind["gang"]["verdict"]["layers"][0] == seen["gang"]["verdict"]["layers"][0]
    assert blind["gang"]["verdict"]["reason"] == "quota"
    assert (seen["gang"]["as_of"], blind["gang"]["as_of"]) == (None, told["as_of"])
    assert f"as of {told['as_of']}, as a dispatcher published it" in blind["text"]
    assert blind["notes"][0].endswith("amounts are those that a dispatcher published")


def test_without_published_amounts_nobody_pretends_to_know(stage: MemoryStage) -> None:
    submit(stage, "one", 1, "space-b")
    (tree,) = ask(stage, VISITOR)["trees"]
    assert (tree["problem"], tree["as_of"]) == ("quota_not_visible", None)
    verdict = ask(stage, VISITOR, gang=("space-b", "one"))["gang"]["verdict"]
    assert (verdict["answer"], verdict["reason"]) == ("waits", "quota_not_visible")


@pytest.mark.parametrize("text", ["{", '{"format": 1}', '{"format": 1, "tree": "other"}', '{"format": 9}'])
def test_damaged_amounts_are_told_and_never_used(stage: MemoryStage, text: str) -> None:
    busy(stage)
    stage.kill("d")
    stage.cluster.change("configmaps", HOME, NAME, lambda raw: raw["data"].update({"status.json": text}))
    answer = ask(stage, VISITOR)
    assert answer["trees"][0]["problem"] == "quota_not_visible"
    assert any("published amounts of the tree default" in note for note in answer["notes"])
    stage.start("e")
    stage.run_for(40)
    found = stage.cluster.get("configmaps", HOME, NAME)
    assert found is not None
    # What a newer version wrote is left alone.
    assert (found["data"]["status.json"] == text) == ("9" in text)


def test_an_idle_dispatcher_writes_nothing(stage: MemoryStage) -> None:
    busy(stage)
    changes: list[Change] = []
    stage.cluster.listeners.append(changes.append)
    stage.run_for(180)
    assert [(change.plural, change.version) for change in changes if change.plural not in ("leases", "events")] == []


def test_amounts_are_written_no_more_often_than_every_ten_seconds(stage: MemoryStage) -> None:
    stage.start("d")
    moments: list[float] = []

    def note(change: Change) -> None:
        if change.object["metadata"]["name"] == NAME:
            moments.append(stage.clock.now)

    stage.cluster.listeners.append(note)
    for number in range(30):
        submit(stage, f"g{number}", 1, "space-a", seconds=3)
        stage.run_for(2)
    stage.run_for(30)
    assert 3 <= len(moments) <= 12
    assert all(later - earlier >= 9.9 for earlier, later in itertools.pairwise(moments))
    assert used(stage) == {"all": "0", "red": "0", "blue": "0"}


def test_a_run_that_does_not_see_all_namespaces_publishes_nothing(stage: MemoryStage) -> None:
    stage.cluster.denials.append(Denial("mine", verbs=("list",), plurals=("configmaps",), namespaces=("",)))
    submit(stage, "one", 1, "space-a")
    stage.start("mine", ["space-a"])
    stage.run_for(60)
    assert published(stage) is None


def test_trouble_with_publishing_stops_nobody(stage: MemoryStage) -> None:
    dispatcher = stage.start("d")
    dispatcher.line.faults.append(Fault("refuse", "POST", "configmaps$", status=503, times=1000))
    dispatcher.line.faults[-1].path = "muster-system/configmaps$"
    submit(stage, "one", 2, "space-a")
    assert stage.run_until(lambda: phases(stage, one="space-a") == {"one": "running"})
    assert published(stage) is None
    dispatcher.line.faults.clear()
    submit(stage, "two", 1, "space-a")
    assert stage.run_until(lambda: used(stage).get("red") == "3", 60)
    assert stage.crashes == []


def test_amounts_go_with_their_tree(stage: MemoryStage) -> None:
    stage.start("d")
    assert stage.run_until(lambda: published(stage) is not None)
    found = stage.cluster.get("configmaps", HOME, NAME)
    tree = stage.cluster.get("configmaps", HOME, "muster-quota-default")
    assert found is not None
    assert tree is not None
    assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [tree["metadata"]["uid"]]
    stage.kill("d")
    line = Line(stage.cluster)
    options = QuotaOptions("default", HOME, "absent", {})
    assert run_quota(line.client, options).changed
    assert stage.cluster.get("configmaps", HOME, NAME) is None
    line.sent.clear()
    assert not run_quota(line.client, options).changed
    assert not line.writes


def test_a_configmap_of_somebody_else_is_left_alone(stage: MemoryStage) -> None:
    """A tree may be called like the status of another one."""
    metadata = {"name": NAME, "namespace": HOME, "labels": {"muster.kube/quota-tree": "status-default"}}
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {"tree.json": "x"}})
    stage.start("d")
    stage.run_for(30)
    found = stage.cluster.get("configmaps", HOME, NAME)
    assert found is not None
    assert found["data"] == {"tree.json": "x"}


@pytest.mark.parametrize("trouble", ["lose", "cut", "kill_before", "kill_after"])
def test_whatever_happens_to_a_write_the_amounts_are_right_in_the_end(stage: MemoryStage, trouble: t.Any) -> None:
    for number in range(4):
        submit(stage, f"g{number}", 1, "space-a")
        dispatcher = stage.start("d")
        dispatcher.line.faults.append(Fault(trouble, WRITES, "muster-quota-status|muster-system/configmaps"))
        stage.run_for(15)
        if stage.actors["d"].over:
            stage.kill("d")
            stage.start("d")
        stage.run_for(40)
        assert used(stage)["red"] == str(number + 1)
        stage.kill("d")


def test_a_run_that_does_not_see_all_pods_publishes_nothing(stage: MemoryStage) -> None:
    """Pods of others may use more than their records tell."""
    stage.cluster.denials.append(Denial("mine", verbs=("list",), plurals=("pods",), namespaces=("",)))
    submit(stage, "one", 1, "space-a")
    stage.start("mine", ["space-a"])
    assert stage.run_until(lambda: phases(stage, one="space-a") == {"one": "running"}, 60)
    assert published(stage) is None
