# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic gangs in a dispatcher with a cluster in memory: the size they start with, and what is counted for them."""

from __future__ import annotations

import contextlib
import json
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_controllers import finish as finish_pod
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault
from ansible_collections.muster.kube.tests.support.reclaim_cases import history, two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, state

GPU = "nvidia.com/gpu"


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        yield made


def submit(stage: MemoryStage, name: str, gpus: int, sizes: tuple[int, int] | None = None, **options: t.Any) -> None:
    """Queue a gang of one pod with so many GPUs, or a range of them."""
    job = cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: str(gpus)})
    elastic = {} if sizes is None else {"elastic": {"range": {"min": sizes[0], "max": sizes[1]}, **options}}
    stage.cluster.add("configmaps", cases.gang_record(name, "a", [job], **elastic))


@contextlib.contextmanager
def one_that_runs(seconds: float) -> t.Iterator[MemoryStage]:
    """A stage on which a gang of two to ten GPUs has run for so long, with all of them."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        submit(made, "one", 2, (2, 10))
        made.start("d")
        assert made.run_until(lambda: running(made, "one"))
        made.run_for(seconds)
        yield made


def gpus(stage: MemoryStage) -> dict[str, int]:
    """The GPUs of each pod's gang, by the gang's name; of pods that are not over."""
    found = {}
    for pod in stage.cluster.all("pods"):
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        asked = pod["spec"]["containers"][0]["resources"]
        assert asked["requests"][GPU] == asked["limits"][GPU]
        found[pod["metadata"]["name"].partition("-j")[0]] = int(asked["limits"][GPU])
    return found


def running(stage: MemoryStage, *names: str) -> bool:
    return all(state(stage, name)["phase"] == "running" for name in names)


def test_gangs_that_start_together_share_what_is_free(stage: MemoryStage) -> None:
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    assert gpus(stage) == {"one": 4, "two": 3, "three": 3}
    assert [state(stage, name)["allotment"] for name in ("one", "two", "three")] == [4, 3, 3]


def test_a_gang_of_fixed_size_behind_it_starts_before_it_gets_more(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    submit(stage, "two", 6)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    assert gpus(stage) == {"one": 4, "two": 6}


def test_a_gang_of_fixed_size_before_it_takes_its_gpus_once(stage: MemoryStage) -> None:
    submit(stage, "one", 6)
    submit(stage, "two", 2, (2, 10))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    assert gpus(stage) == {"one": 6, "two": 4}


def test_it_starts_with_the_least_where_no_more_is_free_and_waits_for_that(stage: MemoryStage) -> None:
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", **{GPU: "8"}))
    submit(stage, "one", 2, (2, 4))
    submit(stage, "two", 2, (2, 4))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    assert state(stage, "one")["allotment"] == 2
    assert state(stage, "two")["verdict"]["reason"] == "insufficient"


def test_a_size_that_the_user_wants_is_the_only_one(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 8), size=5)
    submit(stage, "two", 2, (2, 8), size=6)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    assert gpus(stage) == {"one": 5}
    assert state(stage, "two")["phase"] == "queued"


def test_quota_limits_the_size(stage: MemoryStage) -> None:
    declare(stage, {"name": "x", "parent": "all", "nominal": {GPU: 3}, "namespaces": ["a"], "hard": True})
    submit(stage, "one", 2, (2, 8))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    assert gpus(stage) == {"one": 3}


# Sizes of those that run.


def finish(stage: MemoryStage, name: str) -> None:
    """Let the work of a gang be done."""
    for pod in stage.cluster.all("pods"):
        if pod["metadata"]["name"].startswith(f"{name}-j"):
            finish_pod(stage.cluster, "a", pod["metadata"]["name"])


def sizes(stage: MemoryStage, *names: str) -> list[int | None]:
    return [state(stage, name).get("allotment") for name in names]


def test_gangs_grow_when_another_ends(stage: MemoryStage) -> None:
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    stage.run_for(1000)
    finish(stage, "one")
    assert stage.run_until(lambda: running(stage, "two", "three") and sizes(stage, "two", "three") == [4, 4])
    assert gpus(stage) == {"two": 4, "three": 4}
    assert "resizing" in history(stage, "two")
    told = state(stage, "two")["resize"]
    assert (told["from"], told["to"], told["method"]) == (3, 4, "recreate")


def test_one_shrinks_for_a_gang_that_waits(stage: MemoryStage) -> None:
    for name in ("one", "two"):
        submit(stage, name, 2, (2, 5), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    assert gpus(stage) == {"one": 5, "two": 5}
    stage.run_for(1000)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: running(stage, "one", "two", "new"))
    assert gpus(stage)["new"] == 2
    assert sorted(gpus(stage).values()) == [2, 3, 5]
    assert sum("resizing" in history(stage, name) for name in ("one", "two")) == 1


def test_nobody_shrinks_for_a_gang_of_lower_priority_or_before_a_checkpoint(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 10))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: state(stage, "new").get("verdict") is not None)
    stage.run_for(30)
    assert history(stage, "one").count("resizing") == 0
    assert gpus(stage) == {"one": 10}


def test_nobody_gets_gpus_by_which_it_is_not_faster_as_its_profile_tells(stage: MemoryStage) -> None:
    submit(stage, "one", 2, (2, 8), timing="now", profile={"2": 1.0, "4": 1.0})
    submit(stage, "two", 2, (2, 8), timing="now", profile={"2": 10, "8": 30})
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two"))
    assert sizes(stage, "one", "two") == [2, 8]
    stage.run_for(1000)
    finish(stage, "two")
    stage.run_for(100)
    assert (sizes(stage, "one"), history(stage, "one").count("resizing")) == ([2], 0)


# Sizes that objects get while they are there.


def submit_pods(stage: MemoryStage, name: str, least: int, most: int, **options: t.Any) -> None:
    """Queue a gang of so many pods with a GPU each."""
    job = cases.job(f"{name}-j", "p", least, **{"cpu": "1", GPU: "1"})
    job["spec"]["completionMode"] = "Indexed"
    range_ = {"min": least, "max": most, "axis": "pods"}
    stage.cluster.add("configmaps", cases.gang_record(name, "a", [job], elastic={"range": range_, **options}))


def pods_of(stage: MemoryStage, name: str) -> list[dict[str, t.Any]]:
    return [pod for pod in stage.cluster.all("pods", "a") if pod["metadata"]["name"].startswith(f"{name}-j")]


def job_of(stage: MemoryStage, name: str) -> dict[str, t.Any]:
    found = stage.cluster.get("jobs", "a", f"{name}-j")
    assert found is not None
    return found


def test_a_job_of_more_pods_grows_and_shrinks_in_place(stage: MemoryStage) -> None:
    submit(stage, "other", 7)
    submit_pods(stage, "one", 2, 8, timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    assert len(pods_of(stage, "one")) == 3
    before = {pod["metadata"]["uid"] for pod in pods_of(stage, "one")}
    stage.run_for(1000)
    finish(stage, "other")
    assert stage.run_until(lambda: running(stage, "one") and sizes(stage, "one") == [8])
    assert before < {pod["metadata"]["uid"] for pod in pods_of(stage, "one")}
    assert len(pods_of(stage, "one")) == 8
    told = state(stage, "one")
    assert (told["attempt"], told["started_size"], told["resize"]["method"]) == (1, 3, "scale")
    assert [item["count"] for item in told["reserved"]] == [8]
    stage.run_for(1000)
    submit(stage, "new", 4)
    assert stage.run_until(lambda: running(stage, "one", "new"))
    assert (sizes(stage, "one"), len(pods_of(stage, "one")), state(stage, "one")["attempt"]) == ([6], 6, 1)
    # Growth at most doubles: to six, to eight, and back to six.
    assert history(stage, "one").count("rescaling") == 3
    assert "resizing" not in history(stage, "one")


@pytest.mark.parametrize("pods", [True, False])
def test_a_gang_that_is_edited_while_it_shrinks_runs_with_its_new_size(stage: MemoryStage, pods: bool) -> None:
    stage.cluster.server_version = (1, 36)
    if pods:
        submit_pods(stage, "one", 2, 10, timing="now")
    else:
        submit(stage, "one", 2, (2, 10), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one") and sizes(stage, "one") == [10])
    stage.run_for(1000)
    submit(stage, "new", 4)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "rescaling")

    def edit(record: dict[str, t.Any]) -> None:
        data = json.loads(record["data"]["gang.json"])
        data["objects"][0]["spec"]["template"]["spec"]["containers"][0]["args"] = ["edited"]
        record["data"]["gang.json"] = json.dumps(data)

    stage.cluster.change("configmaps", "a", "one", edit)
    assert stage.run_until(lambda: running(stage, "one", "new"), 60.0)
    told = state(stage, "one")
    assert (told["allotment"], told["attempt"], told["resize"].get("back")) == (6, 1, None)
    assert [item["requests"][GPU] for item in told["reserved"]] == ["1" if pods else "6"]


KUEUES = {"labels": {"kueue.x-k8s.io/queue-name": "team"}}
ELASTIC = {**KUEUES, "annotations": {"kueue.x-k8s.io/elastic-job": "true"}}


def grown_job_of_kueue(stage: MemoryStage, size: int, **metadata: t.Any) -> dict[str, t.Any]:
    """What the state of a gang says when its Job, that Kueue manages since it began, had room to grow."""
    submit(stage, "other", 7)
    submit_pods(stage, "one", 2, 8, timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))

    def give(job: dict[str, t.Any]) -> None:
        for field, values in metadata.items():
            job["metadata"].setdefault(field, {}).update(values)

    stage.cluster.change("jobs", "a", "one-j", give)
    stage.run_for(1000)
    finish(stage, "other")
    assert stage.run_until(lambda: running(stage, "one") and sizes(stage, "one") == [size])
    return t.cast("dict[str, t.Any]", state(stage, "one"))


def test_an_elastic_job_of_kueue_grows_in_place(stage: MemoryStage) -> None:
    told = grown_job_of_kueue(stage, 8, **ELASTIC)
    assert (told["attempt"], told["resize"]["method"], job_of(stage, "one")["spec"]["parallelism"]) == (1, "scale", 8)


def test_any_other_job_of_kueue_is_never_patched(stage: MemoryStage) -> None:
    told = grown_job_of_kueue(stage, 6, **KUEUES)
    assert (told["attempt"], told["resize"]["method"]) == (2, "recreate")
    assert "rescaling" not in history(stage, "one")


def test_a_job_of_larger_pods_is_suspended_while_it_gets_its_size(stage: MemoryStage) -> None:
    stage.cluster.server_version = (1, 36)
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    stage.run_for(1000)
    finish(stage, "one")
    assert stage.run_until(lambda: running(stage, "two", "three") and sizes(stage, "two", "three") == [4, 4])
    assert gpus(stage) == {"two": 4, "three": 4}
    told = state(stage, "two")
    assert (told["attempt"], told["started_size"], told["resize"]["method"]) == (1, 3, "suspend")
    assert job_of(stage, "two")["spec"]["suspend"] is False
    stage.run_for(1000)
    submit(stage, "new", 4)
    assert stage.run_until(lambda: running(stage, "two", "three", "new"))
    assert sorted(gpus(stage).values()) == [2, 4, 4]


def test_a_suspended_job_goes_on_when_pods_that_have_ended_are_gone_too(stage: MemoryStage) -> None:
    """The controller of a PyTorchJob that is resumed sooner takes an ended pod for the end of the job."""
    stage.cluster.server_version = (1, 36)
    job = cases.job("one-j", "p", 1, backoff_limit=6, **{"cpu": "1", GPU: "2"})
    elastic = {"range": {"min": 2, "max": 10}, "timing": "now"}
    stage.cluster.add("configmaps", cases.gang_record("one", "a", [job], elastic=elastic))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    name = pods_of(stage, "one")[0]["metadata"]["name"]
    slow = {"finalizers": ["example.com/slow"]}
    assert stage.cluster.change("pods", "a", name, lambda raw: raw["metadata"].update(slow))
    submit(stage, "new", 2)
    assert stage.run_until(lambda: "deletionTimestamp" in pods_of(stage, "one")[0]["metadata"])
    assert stage.cluster.change("pods", "a", name, lambda raw: raw["status"].update(phase="Failed"))
    stage.run_for(100)
    assert (state(stage, "one")["phase"], job_of(stage, "one")["spec"]["suspend"]) == ("rescaling", True)
    stage.cluster.erase(("pods", "a", name))
    assert stage.run_until(lambda: running(stage, "one", "new"), 600)
    assert gpus(stage) == {"one": 8, "new": 2}


def grow_with_a_thief(stage: MemoryStage, pods: bool, stolen: int) -> None:
    """Gang one is about to grow, and somebody else takes GPUs as soon as it has begun."""
    submit(stage, "other", 8)
    if pods:
        submit_pods(stage, "one", 2, 4, timing="now")
    else:
        submit(stage, "one", 2, (2, 4), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    # Nobody waits while there is room for it alone.
    finish(stage, "other")
    done = "scale" if pods else "suspend"
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "rescaling")
    assert state(stage, "one")["resize"]["method"] == done
    stage.cluster.add("pods", cases.pod("thief", "b", "p", node="p-n0", **{GPU: str(stolen)}))


@pytest.mark.parametrize("pods", [True, False])
def test_a_gang_that_grows_in_vain_gets_its_old_size_back(stage: MemoryStage, pods: bool) -> None:
    stage.cluster.server_version = (1, 36)
    grow_with_a_thief(stage, pods, 7)
    assert stage.run_until(lambda: running(stage, "one"))
    told = state(stage, "one")
    assert (told["attempt"], told["allotment"]) == (1, 2)
    assert told["resize"]["back"].startswith("no node for pod one-j")
    assert sum(gpus(stage)[name] for name in ("one",)) == (1 if pods else 2)
    assert len([pod for pod in pods_of(stage, "one") if pod["status"]["phase"] == "Running"]) == (2 if pods else 1)


def test_a_gang_whose_old_room_is_gone_too_is_queued_in_its_place(stage: MemoryStage) -> None:
    stage.cluster.server_version = (1, 36)
    grow_with_a_thief(stage, pods=False, stolen=9)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "queued")
    told = state(stage, "one")
    assert told["attempt"] == 2
    assert "started_size" not in told
    stage.cluster.remove("pods", "b", "thief")
    assert stage.run_until(lambda: running(stage, "one"))


def test_a_gang_whose_state_is_lost_while_its_job_is_suspended_is_started_again(stage: MemoryStage) -> None:
    stage.cluster.server_version = (1, 36)
    stage.controllers.pace.stop = 8.0
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    stage.run_for(1000)
    finish(stage, "one")
    assert stage.run_until(lambda: job_of(stage, "two")["spec"].get("suspend") is True)
    stage.cluster.change(
        "configmaps", "a", "two", lambda copy: copy["metadata"]["annotations"].pop("muster.kube/state")
    )
    assert stage.run_until(lambda: running(stage, "two", "three") and gpus(stage).get("two", 0) >= 2)
    assert state(stage, "two")["attempt"] == 2


def test_a_server_that_refuses_a_size_is_asked_once(stage: MemoryStage) -> None:
    submit(stage, "other", 8)
    submit_pods(stage, "one", 2, 4, timing="now")
    dispatcher = stage.start("d")
    refusal = Fault("refuse", "PATCH", "/jobs/", status=403, reason="Forbidden", times=1000)
    dispatcher.line.faults.append(refusal)
    assert stage.run_until(lambda: running(stage, "one", "other"))
    stage.run_for(1000)
    finish(stage, "other")
    assert stage.run_until(lambda: sizes(stage, "one") == [4] and running(stage, "one"), 2000.0)
    # The next time it is started again.
    assert (state(stage, "one")["attempt"], state(stage, "one")["resize"]["method"]) == (2, "recreate")
    assert refusal.times == 999


def test_a_gang_that_was_evicted_after_its_resize_grows_in_place_again(stage: MemoryStage) -> None:
    """It starts again with what is left, which is not the size that it had been given."""
    queues = [{"name": "x", "parent": "all", "nominal": {GPU: 2}}, {"name": "y", "parent": "all", "nominal": {GPU: 8}}]
    declare(stage, *queues, settings={"min_run_time": 0})
    job = cases.job("one-j", "p", 2, **{"cpu": "1", GPU: "1"})
    job["spec"]["completionMode"] = "Indexed"
    elastic = {"range": {"min": 2, "max": 4, "axis": "pods"}, "timing": "now", "cooldown": 0, "restart_cost": 0}
    owner = cases.job("owner-j", "p", 1, **{"cpu": "1", GPU: "8"})
    stage.cluster.add("configmaps", cases.gang_record("owner", "a", [owner], queue="y"))
    stage.cluster.add("configmaps", cases.gang_record("one", "a", [job], elastic=elastic, queue="x"))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "owner"))
    stage.run_for(100)
    finish(stage, "owner")
    assert stage.run_until(lambda: running(stage, "one") and sizes(stage, "one") == [4])
    declare(stage, {**queues[0], "stop": "drain"}, queues[1], settings={"min_run_time": 0})
    again = cases.job("again-j", "p", 1, **{"cpu": "1", GPU: "8"})
    stage.cluster.add("configmaps", cases.gang_record("again", "a", [again], queue="y"))
    assert stage.run_until(lambda: running(stage, "again"), 300)
    declare(stage, *queues, settings={"min_run_time": 0})
    assert stage.run_until(lambda: running(stage, "one", "again") and sizes(stage, "one") == [2], 300)
    stage.run_for(100)
    finish(stage, "again")
    assert stage.run_until(lambda: running(stage, "one") and sizes(stage, "one") == [4], 300)
    assert (state(stage, "one")["attempt"], state(stage, "one")["resize"]["method"]) == (2, "scale")
