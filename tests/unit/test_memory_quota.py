# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory that share a cluster by a quota tree."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION, Batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import DIGEST_LENGTH
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_controllers import Pace
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed
from ansible_collections.muster.kube.tests.support.reclaim_cases import two_namespaces

TREE = "muster-quota-default"


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Room for eight pods, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 2)) as made:
        yield made


def leaf(name: str, cpu: int, **more: t.Any) -> cases.Object:
    """A queue below the root."""
    return {"name": name, "parent": "all", "nominal": {"cpu": cpu}, **more}


def declare(stage: MemoryStage, *queues: cases.Object, name: str = "default", **rest: t.Any) -> None:
    """Store a tree of these queues, as the module does."""
    text = tree_text(read_tree(name, {"queues": [{"name": "all"}, *queues], **rest}))
    home = f"muster-quota-{name}"
    if stage.cluster.get("configmaps", "muster-system", home) is None:
        metadata = {"name": home, "namespace": "muster-system", "labels": {TREE_LABEL: name}}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {TREE_KEY: text}})
        return
    stage.cluster.change("configmaps", "muster-system", home, lambda raw: raw["data"].update({TREE_KEY: text}))


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
    assert told["verdict"]["layers"][0]["trees"][0]["levels"][0]["short"] == "2"
    assert state(stage, "one")["charged"] == [{"tree": "default", "queue": "team"}]
    assert stage.run_until(lambda: phases(stage, one="a", two="b") == {"one": "complete", "two": "running"})


def test_a_tree_that_is_cut_takes_nothing_back_and_starts_nothing_more(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4, hard=True), leaf("y", 4, hard=True))
    submit(stage, "one", 3, queue="x")
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")
    declare(stage, leaf("x", 2, hard=True), leaf("y", 4, hard=True))
    submit(stage, "small", 1, queue="x")
    submit(stage, "other", 3, queue="y")
    assert stage.run_until(lambda: state(stage, "other")["phase"] == "running")
    stage.run_for(30)
    assert phases(stage, one="a", small="a") == {"one": "running", "small": "queued"}


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_queue_finds_its_namespaces_by_their_labels(stage: MemoryStage, mirrored: bool) -> None:
    stage.cluster.change("namespaces", "", "a", lambda raw: raw["metadata"].update(labels={"team": "red"}))
    declare(stage, leaf("red", 2, selector={"matchLabels": {"team": "red"}}))
    submit(stage, "one", 1, "a")
    submit(stage, "two", 1, "b")
    stage.start("d", mirrored=mirrored)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")
    assert state(stage, "one")["charged"] == [{"tree": "default", "queue": "red"}]
    assert state(stage, "two", "b")["verdict"]["reason"] == "queue_unknown"


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


def batch_of(stage: MemoryStage) -> Batch:
    """What the Lease says was decided last."""
    lease = stage.cluster.get("leases", "muster-system", "dispatch")
    assert lease is not None
    found = read_batch(lease["metadata"]["annotations"][BATCH_ANNOTATION]).batch
    assert found is not None
    return found


def test_what_was_begun_under_a_larger_tree_is_carried_out_as_it_was_decided(stage: MemoryStage) -> None:
    """The batch names the tree that it was decided on; by the one of now neither of these would fit."""
    declare(stage, leaf("x", 4, hard=True))
    objects = [cases.service("begun-s"), cases.job("begun-j", "p", 2)]
    stage.cluster.add("configmaps", cases.gang_record("begun", "a", objects, queue="x"))
    one = stage.dispatcher("one")
    one.line.faults.append(Fault("kill_after", "POST", "/services$", skip=1))
    with pytest.raises(Killed):
        one.cycle()
    before = batch_of(stage)
    assert len(before.quota) == DIGEST_LENGTH
    declare(stage, leaf("x", 1, hard=True))
    submit(stage, "later", 2, queue="x")
    two = stage.start("two")
    assert stage.run_until(lambda: state(stage, "begun")["phase"] == "running"), two.reports
    assert any("decided before the quota trees were changed" in line for line in two.reports), two.reports
    stage.run_for(5)
    assert state(stage, "later")["verdict"]["answer"] == "never"
    submit(stage, "small", 1, queue="x")
    stage.cluster.remove("configmaps", "a", "begun")
    assert stage.run_until(lambda: state(stage, "small")["phase"] == "running")
    assert batch_of(stage).quota not in ("", before.quota)


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


def test_nothing_starts_under_a_tree_that_kueue_counts(stage: MemoryStage) -> None:
    """It would be handed out twice; a tree of the dispatchers' own beside it changes nothing of that."""
    declare(stage, leaf("x", 4, default=True))
    declare(stage, leaf("x", 4, default=True), name="other", backends=["kueue"])
    submit(stage, "one", 1)
    stage.start("d")
    stage.run_for(20)
    told = state(stage, "one")
    assert (told["phase"], told["verdict"]["reason"]) == ("queued", "queue_held")
    assert "Kueue counts the quota tree other" in told["verdict"]["detail"]
    stage.cluster.remove("configmaps", "muster-system", "muster-quota-other")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")


def test_a_label_of_another_name_may_name_the_queue(stage: MemoryStage) -> None:
    declare(stage, leaf("gold", 2, hard=True), leaf("iron", 1, hard=True, default=True), label="quota_context")
    submit(stage, "one", 2, labels={"quota_context": "gold"})
    submit(stage, "two", 2, labels={"default": "gold"})
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")
    assert state(stage, "one")["charged"] == [{"tree": "default", "queue": "gold"}]
    assert state(stage, "two")["verdict"]["answer"] == "never"


# What was started counts until nothing of it is left, whatever becomes of its record.


@pytest.fixture
def slow() -> t.Iterator[MemoryStage]:
    """The same with pods that take 30 seconds to go."""
    with MemoryStage(1, Pace(stop=30.0)) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 2))
        yield made


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("queue", ["x", None])
def test_pods_count_until_they_are_gone_after_their_record(
    slow: MemoryStage, queue: str | None, mirrored: bool
) -> None:
    """They name their queue; those of gangs that named none count for the queue of their namespace."""
    declare(slow, leaf("x", 3, hard=True, **({} if queue else {"namespaces": ["a", "b"]})), leaf("y", 3))
    named = {"queue": queue} if queue else {}
    submit(slow, "one", 2, **named)
    slow.start("d", mirrored=mirrored)
    assert slow.run_until(lambda: state(slow, "one")["phase"] == "running")
    slow.cluster.remove("configmaps", "a", "one")
    submit(slow, "two", 2, "b", **named)
    submit(slow, "small", 1, "b", **named)
    assert slow.run_until(lambda: state(slow, "small", "b")["phase"] == "running", 20)
    assert state(slow, "two", "b")["verdict"]["reason"] == "quota"
    assert slow.run_until(lambda: state(slow, "two", "b")["phase"] == "running", 60)
    assert not slow.cluster.all("pods", "a")


def test_pods_use_nothing_of_a_queue_that_is_not_for_them(stage: MemoryStage) -> None:
    """Neither those that a user made by hand nor those that pretend to be of a gang of another team."""
    declare(stage, leaf("x", 2, hard=True, namespaces=["a"]), leaf("y", 2, hard=True, namespaces=["b"]))
    labels = {"muster.kube/gang": "nobody", "muster.kube/queue": "x"}
    owner = cases.config_map("owner")
    owner["metadata"]["namespace"] = "b"
    uid = stage.cluster.add("configmaps", owner)["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
    for name, owners in (("bare", []), ("owned", [reference])):
        pod = cases.pod(name, "b", "p", node="p-n0", cpu="1")
        pod["metadata"].update(labels=labels, ownerReferences=owners)
        stage.cluster.add("pods", pod)
    submit(stage, "one", 2, "a")
    submit(stage, "two", 2, "b")
    submit(stage, "three", 1, "b")
    stage.start("d")
    names = {"one": "a", "two": "b", "three": "b"}
    stage.run_for(30)
    assert phases(stage, **names) == {"one": "running", "two": "queued", "three": "running"}


def test_a_gang_is_charged_for_pods_that_it_made_besides(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4, hard=True))
    submit(stage, "one", 1, queue="x")
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")
    larger = {"parallelism": 3, "completions": 3}
    stage.cluster.change("jobs", "a", "one-j", lambda raw: raw["spec"].update(larger))
    assert stage.run_until(lambda: len(stage.cluster.all("pods", "a")) == 3, 30)
    stage.run_for(10)
    submit(stage, "two", 2, queue="x")
    submit(stage, "small", 1, queue="x")
    assert stage.run_until(lambda: state(stage, "small")["phase"] == "running", 30)
    assert state(stage, "two")["verdict"]["reason"] == "quota"


@pytest.mark.parametrize("who", [["a"], ["b"], None])
@pytest.mark.parametrize("edit", ["objects", "queue", "label", "text"])
def test_whatever_is_edited_after_a_start_moves_none_of_its_quota(
    stage: MemoryStage, edit: str, who: list[str] | None
) -> None:
    """Not even for runs that it is none of the gangs of."""
    declare(stage, leaf("x", 3, hard=True), leaf("y", 3, hard=True))
    submit(stage, "one", 2, queue="x")
    stage.start("d", turn=1)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running")
    stage.kill("d")

    def change(raw: cases.Object) -> None:
        data = json.loads(raw["data"]["gang.json"])
        if edit == "objects":
            data["objects"] = [cases.job("one-k", "p", 1, cpu="500m")]
        elif edit == "queue":
            data["queue"] = "y"
        elif edit == "label":
            raw["metadata"]["labels"]["default"] = "y"
        raw["data"]["gang.json"] = "{" if edit == "text" else json.dumps(data)

    stage.cluster.change("configmaps", "a", "one", change)
    for place in ("a", "b"):
        submit(stage, f"two-{place}", 2, place, queue="x")
        submit(stage, f"small-{place}", 1, place, queue="x")
    stage.start("e", who)
    place = "a" if who is None else who[0]
    assert stage.run_until(lambda: state(stage, f"small-{place}", place)["phase"] == "running", 60)
    stage.run_for(10)
    started = [
        name
        for name in ("two-a", "two-b", "small-a", "small-b")
        if state(stage, name, name[-1])["phase"] not in ("queued", "failed")
    ]
    assert started == [f"small-{place}"]
    assert state(stage, "one")["charged"] == [{"tree": "default", "queue": "x"}]


# What others may write.


def test_only_the_tree_beside_the_lease_under_its_own_name_counts(stage: MemoryStage) -> None:
    small = tree_text(read_tree("default", {"queues": [{"name": "all"}, leaf("x", 1, hard=True, default=True)]}))
    for namespace, name in (("a", TREE), ("muster-system", "muster-quota-other"), ("muster-system", "default")):
        metadata = {"name": name, "namespace": namespace, "labels": {TREE_LABEL: "default"}}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {TREE_KEY: small}})
    submit(stage, "one", 4)
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "running", 30)
    assert "charged" not in state(stage, "one")


def test_what_a_gang_says_of_its_queue_gives_it_no_quota_of_others(stage: MemoryStage) -> None:
    """The label wins over the text, and neither gives a right to a queue of other namespaces."""
    declare(
        stage,
        leaf("x", 2, hard=True, namespaces=["a"]),
        leaf("y", 4, hard=True, namespaces=["b"]),
        leaf("open", 1, hard=True, default=True),
    )
    submit(stage, "theirs", 1, "a", queue="y")
    submit(stage, "label", 1, "a", queue="x", labels={"default": "y"})
    submit(stage, "text", 2, "a", queue="y", labels={"default": "x"})
    submit(stage, "above", 1, "a", queue="all")
    submit(stage, "unknown", 1, "a", queue="none-such")
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "text")["phase"] == "running", 30)
    stage.run_for(10)
    told = {name: state(stage, name)["verdict"]["reason"] for name in ("theirs", "label", "above", "unknown")}
    assert told == {
        "theirs": "queue_forbidden",
        "label": "queue_forbidden",
        "above": "queue_unknown",
        "unknown": "queue_unknown",
    }
    assert state(stage, "text")["charged"] == [{"tree": "default", "queue": "x"}]


def test_gangs_that_use_nothing_that_is_counted_start_and_huge_ones_wait(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 0, hard=True, default=True))
    huge = cases.job("huge-j", "p", 2**31 - 1, cpu="1e9")
    objects = {
        "none": [cases.config_map("c")],
        "other": [cases.job("other-j", "p", 2, memory="1Gi")],
        "huge": [huge],
        "small": [cases.job("small-j", "p", 1, cpu="1m")],
    }
    for name, made in objects.items():
        stage.cluster.add("configmaps", cases.gang_record(name, "a", made))
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "other")["phase"] == "running", 60)
    stage.run_for(10)
    assert phases(stage, huge="a", small="a") == {"huge": "queued", "small": "queued"}
    assert state(stage, "none")["phase"] not in ("queued", "failed")
    assert {state(stage, name)["verdict"]["answer"] for name in ("huge", "small")} == {"never"}
