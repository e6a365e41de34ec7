# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""elastic_balance in a cluster in memory: alone, beside dispatchers and beside another one."""

from __future__ import annotations

import json
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.balance import BalanceResult
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told import REASONS
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_balance import balance
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_controllers import finish as finish_pod
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault, Killed
from ansible_collections.muster.kube.tests.support.reclaim_cases import history, two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import gpus, running, sizes, submit
from ansible_collections.muster.kube.tests.unit.test_memory_quota import state

GPU = "nvidia.com/gpu"
SETTINGS = "dispatch-elastic"


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        yield made


def three(stage: MemoryStage, **options: t.Any) -> None:
    """Three jobs that share the node; then the dispatcher is gone, they have run for long, and the first has ended."""
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4), **{"timing": "now", **options})
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    stage.run_for(30)
    stop(stage)
    stage.run_for(1000)
    end(stage, "one")
    stage.run_for(10)


def stop(stage: MemoryStage, name: str = "d") -> None:
    """A dispatcher that is killed, and whose Lease somebody gives back."""
    stage.kill(name)
    heir = stage.dispatcher("heir")
    heir.line.wait = stage.run_for
    assert heir.acquire(3 * LEASE.seconds)
    heir.release()


def end(stage: MemoryStage, name: str) -> None:
    """Let the work of a gang be done."""
    for pod in stage.cluster.all("pods"):
        if pod["metadata"]["name"].startswith(f"{name}-j"):
            finish_pod(stage.cluster, "a", pod["metadata"]["name"])


def told(result: BalanceResult) -> dict[str, tuple[int, int, str]]:
    """What was decided, by name."""
    return {item["name"]: (item["size"], item["to"], item["reason"]) for item in result.as_result(diff=False)["jobs"]}


def settings(stage: MemoryStage) -> cases.Object | None:
    found = stage.cluster.get("configmaps", LEASE.namespace, SETTINGS)
    return None if found is None else json.loads(found["data"]["settings.json"])


def store(stage: MemoryStage, text: str) -> None:
    """Settings as somebody wrote them."""
    labels = {"muster.kube/size-settings": "true"}
    metadata = {"name": SETTINGS, "namespace": LEASE.namespace, "labels": labels}
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {"settings.json": text}})


def test_it_resizes_alone_and_a_second_run_writes_nothing(stage: MemoryStage) -> None:
    three(stage)
    done = balance(stage)
    assert done.result.carried_out_by == "self"
    assert done.result.resized == ["a/three", "a/two"]
    assert done.result.changed
    assert told(done.result) == {"two": (3, 4, "grows"), "three": (3, 4, "grows")}
    assert gpus(stage) == {"two": 4, "three": 4}
    entry = done.result.as_result(diff=False)["jobs"][0]
    assert (entry["phase"], entry["allotment"], entry["resize"]["step"]) == ("running", 4, "verified")
    again = balance(stage)
    assert (again.result.changed, again.writes) == (False, [])
    assert again.result.carried_out_by is None
    assert told(again.result) == {"two": (4, 4, "at_max"), "three": (4, 4, "at_max")}


def test_check_mode_tells_what_the_next_run_does_and_writes_nothing(stage: MemoryStage) -> None:
    three(stage)
    shown = balance(stage, check_mode=True, settings={"policy": "max_min", "patience": "1h"})
    assert (shown.writes, settings(stage)) == ([], None)
    assert (shown.result.changed, shown.result.carried_out_by) == (True, None)
    assert shown.result.resized == ["a/three", "a/two"]
    diff = shown.result.as_result(diff=True)["diff"]
    assert (diff["before"], diff["after"]["policy"]) == ({}, "max_min")
    done = balance(stage, settings={"policy": "max_min", "patience": "1h"})
    assert told(done.result) == told(shown.result)
    assert done.result.resized == shown.result.resized
    assert settings(stage) == {"format": 1, **done.result.as_result(diff=False)["settings"]}
    again = balance(stage, settings={"policy": "max_min", "patience": "1h"})
    assert (again.result.changed, again.writes) == (False, [])


def job_of(stage: MemoryStage, name: str, sizes_: list[int], **options: t.Any) -> None:
    """Queue a gang of one pod with these sizes."""
    job = cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: str(sizes_[0])})
    elastic = {"range": {"sizes": sizes_}, "timing": "now", **options}
    stage.cluster.add("configmaps", cases.gang_record(name, "a", [job], elastic=elastic))


def fill(stage: MemoryStage, name: str, gpus_: int, instead_of: str | None = None) -> None:
    """Let somebody else use so many GPUs."""
    if instead_of is not None:
        stage.cluster.remove("pods", "b", instead_of)
    stage.cluster.add("pods", cases.pod(name, "b", "p", node="p-n0", **{GPU: str(gpus_)}))


def old_and_young(stage: MemoryStage) -> None:
    """Two jobs at size 2, one of which has run four times as long, and two free GPUs, by which one can grow."""
    store(stage, '{"format": 1, "most_resizes": 0}')
    fill(stage, "first", 8)
    job_of(stage, "old", [1, 2, 4])
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "old"))
    stage.run_for(3000)
    fill(stage, "second", 6, "first")
    job_of(stage, "young", [2, 4], deadline=stage.cluster.time_text(1700))
    assert stage.run_until(lambda: running(stage, "young"))
    stage.run_for(1000)
    fill(stage, "third", 4, "second")
    stop(stage)
    assert sizes(stage, "old", "young") == [2, 2]


# By which policy the GPUs go to whom; of what no trainer told, both are equal, and the older one comes first.
POLICIES = {
    "afs": "young",
    "shortest_remaining": "young",
    "marginal_gain": "old",
    "relative_speedup": "old",
    "max_min": "young",
    "attained_service": "young",
    "deadline": "young",
    "latest_checkpoint": "old",
    "least_progress": "old",
}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_policy_says_who_grows(stage: MemoryStage, policy: str) -> None:
    old_and_young(stage)
    done = balance(stage, settings={"policy": policy, "most_resizes": 4})
    assert done.result.resized == [f"a/{POLICIES[policy]}"]
    assert gpus(stage)[POLICIES[policy]] == 4
    assert settings(stage)["policy"] == policy  # type: ignore[index]


def test_what_a_gang_had_is_counted_over_its_resizes(stage: MemoryStage) -> None:
    old_and_young(stage)
    balance(stage, settings={"policy": "marginal_gain", "most_resizes": 4})
    attained = state(stage, "old")["attained"]
    assert 2 * 4000 <= attained <= 2 * 4200
    assert "attained" not in state(stage, "young")


BROKEN = {
    "no JSON": "{",
    "a policy that is none": '{"policy": "luck"}',
    "a number that makes no sense": '{"near_end": 5}',
    "a newer version": '{"format": 2}',
}


@pytest.mark.parametrize("what", BROKEN)
def test_while_settings_cannot_be_read_nothing_is_resized_and_gangs_start(stage: MemoryStage, what: str) -> None:
    three(stage)
    store(stage, BROKEN[what])
    done = balance(stage)
    (warning,) = done.result.warnings
    assert f"ConfigMap {LEASE.namespace}/{SETTINGS}" in warning
    assert "no gang is resized" in warning
    assert (done.writes, done.result.changed) == ([], False)
    assert told(done.result) == {"two": (3, 3, "settings"), "three": (3, 3, "settings")}
    assert [(item["count"], item["reason"]) for item in done.result.idle] == [(4, "settings")]
    submit(stage, "new", 1)
    dispatcher = stage.start("e")
    assert stage.run_until(lambda: running(stage, "new"))
    stage.run_for(100)
    assert sizes(stage, "two", "three") == [3, 3]
    assert dispatcher.session is not None
    assert any("no gang is resized" in text for text in dispatcher.session.journal.take()[1])


def test_settings_of_a_newer_version_are_not_written_over_and_broken_ones_are(stage: MemoryStage) -> None:
    store(stage, '{"format": 2}')
    with pytest.raises(NewerVersion, match="format 2"):
        balance(stage, settings={"policy": "afs"})
    broken = {"settings.json": "{"}
    stage.cluster.change("configmaps", LEASE.namespace, SETTINGS, lambda raw: raw["data"].update(broken))
    done = balance(stage, settings={"policy": "max_min"})
    assert done.result.changed
    assert settings(stage)["policy"] == "max_min"  # type: ignore[index]
    assert "replaced" in done.result.as_result(diff=False)["warnings"][0]


def test_what_a_later_version_stored_beside_is_kept(stage: MemoryStage) -> None:
    store(stage, '{"format": 1, "policy": "max_min", "moon": "full"}')
    assert balance(stage, settings={"worth": 2}).result.changed
    told_ = settings(stage)
    assert told_ is not None
    assert (told_["moon"], told_["policy"], told_["worth"]) == ("full", "max_min", 2.0)


def test_settings_that_make_no_sense_and_a_foreign_configmap_are_refused(stage: MemoryStage) -> None:
    with pytest.raises(BadInput, match="from 0 to 1"):
        balance(stage, settings={"near_end": 3})
    stage.cluster.add("configmaps", {"metadata": {"name": SETTINGS, "namespace": LEASE.namespace}, "data": {"a": "b"}})
    with pytest.raises(BadInput, match="somebody else made it"):
        balance(stage, settings={"policy": "afs"})


def test_without_elastic_gangs_nobody_asks_for_settings(stage: MemoryStage) -> None:
    submit(stage, "fixed", 2)
    dispatcher = stage.dispatcher("d")
    dispatcher.cycle()
    assert not [path for _method, path, _dry in dispatcher.line.sent if "sizes" in path or "elastic" in path]
    before = len([item for item in dispatcher.line.sent if item[1].endswith("/muster-system/configmaps")])
    submit(stage, "elastic", 2, (2, 4))
    sent = len(dispatcher.line.sent)
    dispatcher.cycle()
    lists = [item for item in dispatcher.line.sent[sent:] if item[1].endswith("/muster-system/configmaps")]
    assert len(lists) == before + 1


# Beside others.


def test_a_dispatcher_that_holds_the_lease_carries_it_out(stage: MemoryStage) -> None:
    old_and_young(stage)
    stage.start("e", mirrored=True)
    stage.run_for(5)
    done = balance(stage, settings={"policy": "attained_service", "most_resizes": 4})
    assert done.result.carried_out_by == "dispatcher"
    assert done.result.resized == ["a/young"]
    assert {(method, path.rpartition("/")[2]) for method, path in done.writes} == {("PUT", SETTINGS)}
    entry = next(item for item in done.result.as_result(diff=False)["jobs"] if item["name"] == "young")
    assert (entry["size"], entry["to"], entry["allotment"], entry["resize"]["step"]) == (2, 4, 4, "verified")
    assert any("holds Lease" in text for text in done.reports)
    again = balance(stage, settings={"policy": "attained_service", "most_resizes": 4})
    assert (again.writes, again.result.changed, again.result.carried_out_by) == ([], False, None)


def test_a_holder_that_says_nothing_about_sizes_is_told_as_such(stage: MemoryStage) -> None:
    three(stage)
    earlier = stage.dispatcher("earlier")
    assert earlier.acquire()
    done = balance(stage, wait_timeout=30.0, rest=earlier.pass_time)
    assert done.result.carried_out_by is None
    assert (done.result.changed, done.writes) == (False, [])
    assert "does not tell that it decides about sizes" in done.result.warnings[0]
    assert done.result.holder == "earlier_1"


def test_a_holder_that_is_for_other_namespaces_is_told_as_such(stage: MemoryStage) -> None:
    three(stage)
    submit(stage, "other", 1, (1, 2))
    other = stage.dispatcher("other", ["b"])
    other.cycle()
    done = balance(stage, wait_timeout=30.0, rest=other.pass_time)
    assert "decides about the namespaces b only" in done.result.warnings[0]
    assert (done.result.changed, done.result.carried_out_by) == (False, None)


def test_a_dispatcher_that_is_dead_is_not_waited_for(stage: MemoryStage) -> None:
    three(stage)
    dead = stage.dispatcher("dead")
    assert dead.acquire()
    done = balance(stage)
    assert (done.result.carried_out_by, done.result.resized) == ("self", ["a/three", "a/two"])


def test_two_of_them_at_once_resize_once(stage: MemoryStage) -> None:
    three(stage)
    others = []

    def second(number: int, dispatcher: MemoryDispatcher) -> None:
        if number == 1:
            others.append(balance(stage, "other", wait_timeout=5.0, rest=dispatcher.pass_time))

    first = balance(stage, on_cycle=second)
    assert first.result.carried_out_by == "self"
    assert first.result.resized == ["a/three", "a/two"]
    (other,) = others
    assert other.writes == []
    assert [history(stage, name).count("resizing") for name in ("two", "three")] == [1, 1]


@pytest.mark.parametrize("write", range(0, 24, 3))
@pytest.mark.parametrize("by_whom", ["balance", "dispatcher"])
def test_what_a_killed_one_left_the_next_one_finishes(stage: MemoryStage, write: int, by_whom: str) -> None:
    three(stage)
    end_ = Fault(("kill_before", "kill_after")[write % 2], methods=WRITES, skip=write)
    with pytest.raises(Killed):
        balance(stage, faults=[end_])
    if by_whom == "balance":
        stage.run_for(LEASE.seconds)
        assert balance(stage, "next").result.carried_out_by in ("self", None)
    else:
        stage.start("next")
        assert stage.run_until(lambda: sizes(stage, "two", "three") == [4, 4] and running(stage, "two", "three"))
    assert running(stage, "two", "three")
    assert gpus(stage) == {"two": 4, "three": 4}
    assert [history(stage, name).count("resizing") for name in ("two", "three")] == [1, 1]


def test_it_makes_room_for_a_gang_and_leaves_its_start_to_a_dispatcher(stage: MemoryStage) -> None:
    for name in ("one", "two"):
        submit(stage, name, 2, (2, 5), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    stage.run_for(1000)
    stop(stage)
    submit(stage, "new", 2)
    submit(stage, "more", 2, (2, 4))
    shown = balance(stage, check_mode=True)
    done = balance(stage)
    shrunk = [item for item in done.result.as_result(diff=False)["jobs"] if item["reason"] == "shrinks"]
    assert {item["for"] for item in shrunk} == {"a/new", "a/more"}
    assert shown.result.resized == done.result.resized
    assert {item["name"] for item in shrunk} == {name.partition("/")[2] for name in done.result.resized}
    assert state(stage, "new")["phase"] == state(stage, "more")["phase"] == "queued"
    stage.start("e")
    assert stage.run_until(lambda: running(stage, "one", "two", "new", "more"))
    assert sum(gpus(stage).values()) <= 10


def test_without_waiting_the_next_dispatcher_goes_on(stage: MemoryStage) -> None:
    three(stage)
    done = balance(stage, wait=False)
    assert done.result.carried_out_by == "self"
    assert "not at the new size yet" in done.result.warnings[-1]
    stage.start("e")
    assert stage.run_until(lambda: sizes(stage, "two", "three") == [4, 4] and running(stage, "two", "three"))


def test_quota_keeps_one_from_growing_and_the_gpus_go_to_another(stage: MemoryStage) -> None:
    three(stage)
    quota = {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": {f"requests.{GPU}": "7"}}}
    used = {"hard": {f"requests.{GPU}": "7"}, "used": {f"requests.{GPU}": "6"}}
    stage.cluster.add("resourcequotas", {**quota, "status": used})
    shown = balance(stage, check_mode=True)
    reasons = told(shown.result)
    assert set(reasons.values()) <= {(3, 4, "grows"), (3, 3, "quota")}
    assert (3, 3, "quota") in reasons.values()


def test_gangs_of_other_namespaces_are_left_alone_and_not_named(stage: MemoryStage) -> None:
    three(stage)
    done = balance(stage, namespaces=("b",))
    assert done.result.as_result(diff=False)["jobs"] == []
    assert (done.writes, done.result.changed) == ([], False)


def test_it_removes_nothing_that_another_dispatcher_would_keep(stage: MemoryStage) -> None:
    three(stage)
    stage.run_for(30 * 86_400)
    balance(stage)
    assert stage.cluster.get("configmaps", "a", "one") is not None


def test_each_idle_gpu_has_a_reason(stage: MemoryStage) -> None:
    three(stage)
    submit(stage, "slow", 1, (1, 4))
    stage.start("e")
    assert stage.run_until(lambda: running(stage, "slow"))
    stop(stage, "e")
    done = balance(stage, check_mode=True)
    used = sum(gpus(stage).values()) + sum(
        item["to"] - item["size"] for item in done.result.as_result(diff=False)["jobs"]
    )
    assert sum(item["count"] for item in done.result.idle) == 10 - used
    assert all(item["reason"] for item in done.result.idle)


def test_somebody_who_may_not_store_settings_is_told_so(stage: MemoryStage) -> None:
    three(stage)
    stage.cluster.denials.append(Denial("nobody", ["create"], ["configmaps"], [LEASE.namespace]))
    with pytest.raises(Forbidden, match="dispatch-elastic"):
        balance(stage, user="nobody", settings={"policy": "max_min"})
    assert settings(stage) is None


def test_somebody_who_may_not_read_settings_resizes_nothing_and_says_so(stage: MemoryStage) -> None:
    three(stage)
    stage.cluster.denials.append(Denial("nobody", ["get", "list"], ["configmaps"], [LEASE.namespace]))
    done = balance(stage, user="nobody")
    assert (done.result.changed, done.writes) == (False, [])
    assert any("may not be read" in text for text in done.result.warnings)


# What holds for any gangs.


def some_gangs(stage: MemoryStage, chance: random.Random) -> None:
    """Elastic gangs and fixed ones, of which some run and some wait, and others that use GPUs, later fewer of them."""
    store(stage, '{"format": 1, "most_resizes": 0}')
    used = chance.randrange(0, 9)
    fill(stage, "first", used)
    stage.start("d")
    for number in range(chance.randrange(2, 7)):
        low = chance.randrange(1, 4)
        if chance.random() < 0.25:
            submit(stage, f"g{number}", low)
        else:
            timing = chance.choice(["now", "now", "on_sigterm", "at_checkpoint"])
            options = {"timing": timing, "cooldown": chance.choice(["0", "60", "2h"])}
            job_of(stage, f"g{number}", sorted({low, *chance.sample(range(low, 9), 2)}), **options)
        stage.run_for(chance.choice([5, 300, 2000]))
    fill(stage, "second", chance.randrange(0, used + 1), "first")
    stage.run_for(5)
    stop(stage)


@pytest.fixture(name="nodes")
def two_nodes() -> t.Iterator[MemoryStage]:
    """Two nodes of eight GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 2, cpu="64", **{GPU: "8"})) as made:
        yield made


@pytest.mark.parametrize("seed", range(8))
def test_the_order_of_gangs_is_irrelevant_and_each_idle_gpu_has_a_reason(
    nodes: MemoryStage, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    some_gangs(nodes, chance)
    asked = {"check_mode": True, "settings": {"policy": chance.choice(list(POLICIES)), "most_resizes": 4, "worth": 1}}
    shown = balance(nodes, **asked).result.as_result(diff=False)
    listed = Records.list

    def shuffled(*rest: t.Any, **more: t.Any) -> t.Any:
        found = listed(*rest, **more)
        chance.shuffle(found)
        return found

    monkeypatch.setattr(Records, "list", shuffled)
    for _turn in range(3):
        assert balance(nodes, **asked).result.as_result(diff=False) == shown
    monkeypatch.undo()
    elastic = {item["name"]: item["to"] for item in shown["jobs"]}
    idle = sum(item["count"] for item in shown["idle"])
    others = sum(
        int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
        for pod in nodes.cluster.all("pods")
        if pod["metadata"]["name"].partition("-j")[0] not in elastic
    )
    # Gangs of fixed size for which room is made have theirs in the decision, and no pods yet.
    coming = [state(nodes, item["for"].partition("/")[2]) for item in shown["jobs"] if item["for"]]
    assert idle + others + sum(elastic.values()) == 16 or coming
    assert idle + others + sum(elastic.values()) <= 16
    assert all(item["reason"] in {*REASONS, "no_jobs", "too_few"} and item["node"] for item in shown["idle"])
    assert all(item["jobs"] for item in shown["idle"] if item["reason"] != "no_jobs")


@pytest.mark.parametrize("seed", range(8, 14))
def test_the_next_run_does_what_check_mode_told_and_then_nothing_is_left(nodes: MemoryStage, seed: int) -> None:
    chance = random.Random(seed)
    some_gangs(nodes, chance)
    policy = {"policy": chance.choice(list(POLICIES)), "most_resizes": 4, "worth": 1}
    shown = balance(nodes, check_mode=True, settings=policy)
    done = balance(nodes, settings=policy)
    assert set(shown.result.resized) <= set(done.result.resized)
    again = balance(nodes, settings=policy)
    assert (again.result.changed, again.writes) == (False, [])
