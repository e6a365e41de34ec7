# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory that take quota back from elastic gangs: who shrinks before anybody is evicted."""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.would import foresee_change
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_controllers import finish as finish_pod
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault
from ansible_collections.muster.kube.tests.support.reclaim_cases import (
    AT_ONCE,
    history,
    phases,
    running,
    state,
    two_namespaces,
)
from ansible_collections.muster.kube.tests.unit.test_memory_balance import store as store_settings
from ansible_collections.muster.kube.tests.unit.test_memory_decisions import foreseen
from ansible_collections.muster.kube.tests.unit.test_memory_progress import is_asked, report
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare

GPU = "nvidia.com/gpu"
FREE = {"timing": "now", "cooldown": 0, "restart_cost": 0}
ON_TIMEOUT = ("give_up", "now")
TERM_KEYS = ("timing", "cooldown", "checkpoint_timeout", "on_timeout")


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of eight GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "8"})) as made:
        yield made


def leaf(name: str, gpus: int, **more: t.Any) -> cases.Object:
    """A queue below the root."""
    return {"name": name, "parent": "all", "nominal": {GPU: gpus}, **more}


def trees(stage: MemoryStage, *queues: cases.Object, **settings: t.Any) -> None:
    """Store a tree of these queues in which nobody is protected, unless the settings say so."""
    declare(stage, *queues, settings={**AT_ONCE, **settings})


def submit(stage: MemoryStage, name: str, queue: str, gpus: int, **options: t.Any) -> None:
    """Queue a gang of one pod with so many GPUs."""
    job = cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: str(gpus)})
    stage.cluster.add("configmaps", cases.gang_record(name, "a", [job], queue=queue, **options))


def submit_elastic(
    stage: MemoryStage, name: str, queue: str, sizes: tuple[int, int], *, pods: bool = False, **options: t.Any
) -> None:
    """Queue an elastic gang of one pod with so many GPUs, or of so many pods with one each."""
    terms = {**FREE, **{key: options.pop(key) for key in TERM_KEYS if key in options}}
    least, most = sizes
    job = cases.job(f"{name}-j", "p", least if pods else 1, **{"cpu": "1", GPU: "1" if pods else str(least)})
    if pods:
        job["spec"]["completionMode"] = "Indexed"
    range_ = {"min": least, "max": most, **({"axis": "pods"} if pods else {})}
    record = cases.gang_record(name, "a", [job], queue=queue, elastic={"range": range_, **terms}, **options)
    stage.cluster.add("configmaps", record)


def sizes(stage: MemoryStage, *names: str) -> list[int | None]:
    """The sizes of gangs."""
    return [state(stage, name).get("allotment") for name in names]


def gpus_of_pods(stage: MemoryStage) -> int:
    """What all pods that are not over ask for."""
    alive = [pod for pod in stage.cluster.all("pods", "a") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    return sum(int(pod["spec"]["containers"][0]["resources"]["limits"][GPU]) for pod in alive)


def nobody_went(stage: MemoryStage, *names: str) -> bool:
    """Whether none of these gangs was evicted."""
    return all("evicting" not in history(stage, name) for name in names)


def two_flavors(stage: MemoryStage, settings: cases.Object | None = None, **queues: tuple[int, int]) -> None:
    """Store a tree with two flavors of the same nodes, and what each queue has of them."""
    found = [
        {"name": name, "parent": "all", "nominal": {"first": {GPU: first}, "second": {GPU: second}}}
        for name, (first, second) in queues.items()
    ]
    flavors = [{"name": name, "node_labels": {}} for name in ("first", "second")]
    declare(stage, *found, settings={**AT_ONCE, **(settings or {})}, flavors=flavors)


def gpus_by_flavor(stage: MemoryStage, names: t.Sequence[str]) -> dict[str, int]:
    """What pods that are not over ask for, by the flavor that their gang is charged to, as far as its record tells."""
    told = {name for name in names if phases(stage, name) != ["queued"]}
    used: dict[str, int] = {}
    for pod in stage.cluster.all("pods", "a"):
        name = pod["metadata"]["name"].partition("-j")[0]
        if name in told and pod["status"].get("phase") not in ("Succeeded", "Failed"):
            (flavor,) = flavors_of(stage, name)
            gpus = int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])
            used[flavor] = used.get(flavor, 0) + gpus
    return used


def trainers_answer(stage: MemoryStage, names: t.Iterable[str], chance: random.Random, share: float) -> None:
    """Some of the trainers that are asked to save have done so."""
    for name in names:
        if "planned" in state(stage, name) and is_asked(stage, name) and chance.random() < share:
            report(stage, name, int(stage.clock.now), saved=True)


def flavors_of(stage: MemoryStage, name: str) -> list[str]:
    """The flavors that a gang is charged to."""
    return [flavor for charge in state(stage, name)["charged"] for flavor in charge["flavors"].values()]


def finish_pods(stage: MemoryStage, name: str) -> None:
    """Let a gang end."""
    for pod in stage.cluster.all("pods", "a"):
        if pod["metadata"]["name"].startswith(f"{name}-j"):
            finish_pod(stage.cluster, "a", pod["metadata"]["name"])


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("pods", [False, True])
@pytest.mark.parametrize("timing", ["now", "on_sigterm"])
def test_a_borrower_shrinks_to_what_is_needed(stage: MemoryStage, pods: bool, timing: str, mirrored: bool) -> None:
    trees(stage, leaf("x", 1), leaf("y", 7))
    submit(stage, "fixed", "y", 2)
    submit_elastic(stage, "one", "x", (2, 6), pods=pods, timing=timing)
    stage.start("d", mirrored=mirrored)
    assert stage.run_until(running(stage, "fixed", "one"))
    assert sizes(stage, "one") == [6]
    stage.run_for(60)
    submit(stage, "owner", "y", 3)
    assert stage.run_until(running(stage, "owner", "one"), 300)
    assert sizes(stage, "one") == [3]
    assert nobody_went(stage, "one", "fixed")
    told = state(stage, "one")
    assert (told["resize"]["from"], told["resize"]["to"]) == (6, 3)
    assert told["resize"]["why"] == "queue all/y takes its own back"
    assert told.get("evictions") is None
    assert "nominated" not in state(stage, "owner")
    stage.run_for(300)
    assert sizes(stage, "one") == [3]
    assert stage.crashes == []


@pytest.mark.parametrize("pods", [False, True])
def test_two_shrink_together(stage: MemoryStage, pods: bool) -> None:
    trees(stage, leaf("x", 0), leaf("y", 8))
    for name in ("one", "two"):
        submit_elastic(stage, name, "x", (2, 4), pods=pods)
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two"))
    assert sizes(stage, "one", "two") == [4, 4]
    stage.run_for(60)
    submit(stage, "owner", "y", 3)
    assert stage.run_until(running(stage, "owner", "one", "two"), 300)
    # The last one keeps what is not needed of it.
    assert sorted(t.cast("list[int]", sizes(stage, "one", "two"))) == [2, 3]
    assert nobody_went(stage, "one", "two")


def test_the_least_size_forces_an_eviction(stage: MemoryStage) -> None:
    trees(stage, leaf("x", 0), leaf("y", 8))
    submit_elastic(stage, "one", "x", (6, 8))
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "owner", "y", 3)
    assert stage.run_until(running(stage, "owner"), 120)
    assert history(stage, "one").count("evicting") == 1
    assert "resizing" not in history(stage, "one")


def one_waits_for_its_checkpoint(stage: MemoryStage, **terms: t.Any) -> None:
    """A borrower that shrinks after checkpoints alone has all GPUs, and an owner wants three of them."""
    trees(stage, leaf("x", 0), leaf("y", 8))
    submit_elastic(stage, "one", "x", (2, 8), timing="at_checkpoint", **terms)
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "owner", "y", 3)
    assert stage.run_until(lambda: "planned" in state(stage, "one"), 60)


def test_one_that_waits_for_checkpoints_is_asked_to_save_and_shrinks_then(stage: MemoryStage) -> None:
    one_waits_for_its_checkpoint(stage)
    plan = state(stage, "one")["planned"]
    assert (plan["from"], plan["to"], plan["why"]) == (8, 5, "queue all/y takes its own back")
    assert stage.run_until(lambda: is_asked(stage, "one"), 60)
    report(stage, "one", 100)
    stage.run_for(600)
    assert (phases(stage, "one", "owner"), state(stage, "one")["planned"]) == (["running", "queued"], plan)
    assert state(stage, "owner")["verdict"]["detail"] == "until others have saved their work"
    report(stage, "one", 110, saved=True)
    assert stage.run_until(running(stage, "owner", "one"), 120)
    assert (sizes(stage, "one"), nobody_went(stage, "one")) == ([5], True)
    told = state(stage, "one")
    assert "planned" not in told
    assert "lost_seconds" not in told["resize"]
    assert "nominated" not in state(stage, "owner")


def test_what_one_gives_once_it_has_saved_is_held_for_its_owner(stage: MemoryStage) -> None:
    stage.controllers.pace.stop = 20.0
    one_waits_for_its_checkpoint(stage)
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: "nominated" in state(stage, "owner"), 60)
    for number in range(3):
        submit(stage, f"small{number}", "x", 1, priority=100)
    assert stage.run_until(running(stage, "owner", "one"), 300)
    assert sizes(stage, "one") == [5]
    assert all(len(history(stage, f"small{number}")) <= 1 for number in range(3))


def test_one_that_does_not_save_in_time_is_evicted(stage: MemoryStage) -> None:
    one_waits_for_its_checkpoint(stage, checkpoint_timeout=200)
    stage.run_for(180)
    assert phases(stage, "one") == ["running"]
    assert stage.run_until(running(stage, "owner"), 120)
    assert history(stage, "one").count("evicting") == 1
    assert "resizing" not in history(stage, "one")


def test_one_that_does_not_save_in_time_shrinks_all_the_same_if_its_terms_say_so(stage: MemoryStage) -> None:
    one_waits_for_its_checkpoint(stage, checkpoint_timeout=200, on_timeout="now")
    stage.run_for(180)
    assert sizes(stage, "one") == [8]
    assert stage.run_until(running(stage, "owner", "one"), 120)
    assert (sizes(stage, "one"), nobody_went(stage, "one")) == ([5], True)


@pytest.mark.parametrize("on_timeout", ON_TIMEOUT)
def test_no_borrower_lets_its_owner_wait_for_longer_than_an_hour(stage: MemoryStage, on_timeout: str) -> None:
    one_waits_for_its_checkpoint(stage, checkpoint_timeout="1000h", on_timeout=on_timeout)
    stage.run_for(3500)
    assert (phases(stage, "owner"), sizes(stage, "one")) == (["queued"], [8])
    assert stage.run_until(running(stage, "owner"), 300)
    assert nobody_went(stage, "one") == (on_timeout == "now")


def test_one_is_not_asked_to_save_any_more_when_its_owner_has_gone(stage: MemoryStage) -> None:
    one_waits_for_its_checkpoint(stage)
    stage.cluster.remove("configmaps", "a", "owner")
    assert stage.run_until(lambda: "planned" not in state(stage, "one"), 60)
    report(stage, "one", 110, saved=True)
    stage.run_for(200)
    assert history(stage, "one").count("running") == 1


def test_those_that_shrink_at_once_come_before_those_that_save_first(stage: MemoryStage) -> None:
    trees(stage, leaf("x", 0), leaf("y", 8))
    submit_elastic(stage, "early", "x", (2, 4), timing="now")
    submit_elastic(stage, "late", "x", (2, 4), timing="at_checkpoint", priority=-1)
    stage.start("d")
    assert stage.run_until(running(stage, "early", "late"))
    stage.run_for(60)
    submit(stage, "owner", "y", 2)
    assert stage.run_until(running(stage, "owner", "early", "late"), 120)
    assert sizes(stage, "early", "late") == [2, 4]
    assert "planned" not in state(stage, "late")


def test_each_goes_when_it_has_saved_and_those_at_once_go_last(stage: MemoryStage) -> None:
    """Whoever waited for others after its checkpoint would do steps again."""
    trees(stage, leaf("x", 0), leaf("y", 8))
    for name, most, timing in (("one", 3, "at_checkpoint"), ("two", 3, "at_checkpoint"), ("quick", 2, "now")):
        submit_elastic(stage, name, "x", (1, most), timing=timing)
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two", "quick"))
    assert sizes(stage, "one", "two", "quick") == [3, 3, 2]
    stage.run_for(60)
    submit(stage, "owner", "y", 5)
    assert stage.run_until(lambda: all("planned" in state(stage, name) for name in ("one", "two")), 60)
    report(stage, "one", 10, saved=True)
    assert stage.run_until(lambda: sizes(stage, "one") == [1] and running(stage, "one")(), 120)
    assert (sizes(stage, "two", "quick"), phases(stage, "owner")) == ([3, 2], ["queued"])
    stage.run_for(400)
    assert sizes(stage, "one", "two", "quick") == [1, 3, 2]
    report(stage, "two", 20, saved=True)
    assert stage.run_until(running(stage, "one", "two", "quick", "owner"), 120)
    assert sizes(stage, "one", "two", "quick") == [1, 1, 1]
    assert nobody_went(stage, "one", "two", "quick")
    assert all("lost_seconds" not in state(stage, name)["resize"] for name in ("one", "two"))


@pytest.mark.parametrize(
    ("most", "names", "shrink"),
    [
        (0, ("one", "two"), False),
        (0, ("one", "quick"), False),
        (1, ("one", "quick"), False),
        (1, ("one", "two"), True),
        (2, ("one", "quick"), True),
        (2, ("one", "two", "quick"), True),
    ],
)
def test_where_few_are_resized_at_a_time_an_owner_gets_its_own_all_the_same(
    stage: MemoryStage, most: int, names: tuple[str, ...], shrink: bool
) -> None:
    """Those of which all have saved at once go one after the other; if so many never may, somebody is evicted."""
    store_settings(stage, json.dumps({"format": 1, "most_resizes": most}))
    trees(stage, leaf("x", 0), leaf("y", 8))
    for name in names:
        timing = "now" if name == "quick" else "at_checkpoint"
        submit_elastic(stage, name, "x", (1, 4 if len(names) == 2 or name == "quick" else 2), timing=timing)
    stage.start("d")
    assert stage.run_until(running(stage, *names))
    assert sum(t.cast("list[int]", sizes(stage, *names))) == 8
    stage.run_for(60)
    submit(stage, "owner", "y", 8 - len(names))
    stage.run_until(lambda: "planned" in state(stage, "one"), 30)
    stage.run_for(10)
    for name in names:
        if "planned" in state(stage, name):
            report(stage, name, 10, saved=True)
    assert stage.run_until(running(stage, "owner"), 600)
    assert nobody_went(stage, *names) == shrink


@pytest.mark.parametrize("timing", ["now", "at_checkpoint"])
@pytest.mark.parametrize("pods", [False, True])
def test_where_trees_have_flavors_it_gives_of_the_one_that_its_owner_lacks(
    stage: MemoryStage, pods: bool, timing: str
) -> None:
    two_flavors(stage, x=(2, 0), y=(0, 6), z=(0, 0))
    submit(stage, "other", "x", 2)
    submit_elastic(stage, "one", "z", (2, 6), pods=pods, timing=timing)
    stage.start("d")
    assert stage.run_until(running(stage, "other", "one"))
    assert (sizes(stage, "one"), flavors_of(stage, "one")) == ([6], ["second"])
    stage.run_for(60)
    submit(stage, "owner", "y", 3)
    if timing == "at_checkpoint":
        assert stage.run_until(lambda: is_asked(stage, "one"), 60)
        report(stage, "one", 10, saved=True)
    assert stage.run_until(running(stage, "owner", "one"), 120)
    assert (sizes(stage, "one"), nobody_went(stage, "one", "other")) == ([3], True)
    assert (flavors_of(stage, "one"), flavors_of(stage, "owner")) == (["second"], ["second"])


def test_one_that_was_resized_not_long_ago_is_evicted(stage: MemoryStage) -> None:
    trees(stage, leaf("x", 0), leaf("y", 8))
    submit_elastic(stage, "one", "x", (2, 8), cooldown=1000)
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "first", "y", 3)
    assert stage.run_until(running(stage, "first", "one"), 120)
    assert (sizes(stage, "one"), nobody_went(stage, "one")) == ([5], True)
    submit(stage, "second", "y", 3)
    assert stage.run_until(running(stage, "second"), 120)
    assert history(stage, "one").count("evicting") == 1


@pytest.mark.parametrize(
    ("reclaim", "priority", "gets"), [("never", 9, False), ("lower_priority", 0, False), ("any", 0, True)]
)
def test_a_queue_says_from_whom_it_takes(stage: MemoryStage, reclaim: str, priority: int, gets: bool) -> None:
    trees(stage, leaf("x", 4), leaf("y", 4, reclaim=reclaim))
    submit_elastic(stage, "borrower", "x", (2, 8), priority=3)
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    stage.run_for(60)
    submit(stage, "owner", "y", 4, priority=priority)
    stage.run_for(120)
    assert (state(stage, "owner")["phase"] == "running") is gets
    assert sizes(stage, "borrower") == [4 if gets else 8]
    assert nobody_went(stage, "borrower")


@pytest.mark.parametrize(("priority", "gets"), [(5, True), (1, False)])
def test_lower_priorities_of_the_own_queue_shrink_and_equal_ones_do_not(
    stage: MemoryStage, priority: int, gets: bool
) -> None:
    """Room on nodes is left: all that is short is quota, for which those of one queue do not shrink otherwise."""
    trees(stage, leaf("x", 4, hard=True), leaf("y", 4))
    submit_elastic(stage, "low", "x", (2, 4), priority=1)
    stage.start("d")
    assert stage.run_until(running(stage, "low"))
    stage.run_for(60)
    submit(stage, "asker", "x", 2, priority=priority)
    stage.run_for(120)
    assert (state(stage, "asker")["phase"] == "running") is gets
    assert sizes(stage, "low") == [2 if gets else 4]
    assert nobody_went(stage, "low")


def test_nobody_shrinks_before_its_time(stage: MemoryStage) -> None:
    trees(stage, leaf("x", 4), leaf("y", 4), min_run_time="5m")
    submit_elastic(stage, "borrower", "x", (2, 8))
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", "y", 4)
    stage.run_for(200)
    assert (sizes(stage, "borrower"), phases(stage, "owner")) == ([8], ["queued"])
    assert stage.run_until(running(stage, "owner", "borrower"), 300)
    assert (sizes(stage, "borrower"), nobody_went(stage, "borrower")) == ([4], True)


def test_what_is_given_is_held_for_the_one_it_is_given_for(stage: MemoryStage) -> None:
    """Small gangs that come meanwhile would fit into it, and the one that gave it would grow again."""
    stage.controllers.pace.stop = 20.0
    trees(stage, leaf("x", 4), leaf("y", 4), leaf("z", 0))
    submit_elastic(stage, "one", "x", (2, 8))
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "owner", "y", 4)
    assert stage.run_until(lambda: "nominated" in state(stage, "owner"), 60)
    assert phases(stage, "one") != ["running"]
    for number in range(4):
        submit(stage, f"small{number}", "z", 1, priority=100)
    assert stage.run_until(running(stage, "owner", "one"), 300)
    assert sizes(stage, "one") == [4]
    stage.run_for(60)
    assert all(len(history(stage, f"small{number}")) <= 1 for number in range(4))
    assert nobody_went(stage, "one")


def test_it_grows_again_when_the_owner_is_done(stage: MemoryStage) -> None:
    trees(stage, leaf("x", 4), leaf("y", 4))
    submit_elastic(stage, "one", "x", (2, 8))
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "owner", "y", 4)
    assert stage.run_until(running(stage, "owner", "one"), 300)
    stage.run_for(100)
    finish_pods(stage, "owner")
    assert stage.run_until(lambda: sizes(stage, "one") == [8] and running(stage, "one")(), 1000)
    assert nobody_went(stage, "one")


def test_check_mode_tells_the_same(stage: MemoryStage) -> None:
    trees(stage, leaf("x", 4), leaf("y", 4))
    submit_elastic(stage, "one", "x", (2, 8))
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "owner", "y", 4)
    told = {item.gang: item for item in foreseen(stage.dispatcher("check")).decisions}
    assert (told["a/one"].action, told["a/owner"].reason) == ("resize", "nominated")
    assert told["a/one"].message == "from size 8 to 4: queue all/y takes its own back"


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "cut", "lose", "refuse"])
@pytest.mark.parametrize("number", range(12))
@pytest.mark.parametrize("pods", [False, True])
def test_whatever_happens_to_one_write_it_comes_to_the_same(
    stage: MemoryStage, trouble: t.Any, number: int, pods: bool
) -> None:
    """Two shrink for one owner: no more is used than there is at any moment, and nobody is lost."""
    trees(stage, leaf("x", 0), leaf("y", 8), leaf("z", 0))
    for name in ("one", "two"):
        submit_elastic(stage, name, "x", (2, 4), pods=pods)
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two"))
    stage.run_for(60)
    submit(stage, "owner", "y", 4)
    submit(stage, "greedy", "z", 2, priority=50)
    stage.actors["d"].dispatcher.line.faults.append(Fault(trouble, WRITES, path="configmaps|jobs", skip=number))
    for _second in range(15):
        stage.run_for(1)
        assert gpus_of_pods(stage) <= 8
        if stage.actors["d"].over:
            stage.kill("d")
            stage.start("d")
    assert stage.run_until(running(stage, "owner", "one", "two"), 600), stage.crashes
    stage.run_for(20)
    assert (sizes(stage, "one", "two"), phases(stage, "greedy")) == ([2, 2], ["queued"])
    assert nobody_went(stage, "one", "two")
    assert stage.crashes == []


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "lose"])
@pytest.mark.parametrize("number", range(10))
@pytest.mark.parametrize("flavored", [False, True])
def test_whatever_happens_to_one_write_each_shrinks_once_it_has_saved(
    stage: MemoryStage, trouble: t.Any, number: int, flavored: bool
) -> None:
    """The same for two that save first: nobody is evicted, and none loses what it has done."""
    if flavored:
        two_flavors(stage, x=(0, 0), y=(4, 4), z=(0, 0))
    else:
        trees(stage, leaf("x", 0), leaf("y", 8), leaf("z", 0))
    for name in ("one", "two"):
        submit_elastic(stage, name, "x", (2, 4), timing="at_checkpoint")
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two"))
    stage.run_for(60)
    submit(stage, "owner", "y", 2 if flavored else 4)
    submit(stage, "greedy", "z", 2, priority=50)
    stage.actors["d"].dispatcher.line.faults.append(Fault(trouble, WRITES, path="configmaps|jobs", skip=number))
    for _second in range(60):
        stage.run_for(1)
        assert gpus_of_pods(stage) <= 8
        trainers_answer(stage, ("one", "two"), random.Random(number), 1.0)
        if stage.actors["d"].over:
            stage.kill("d")
            stage.start("d")
    assert stage.run_until(running(stage, "owner", "one", "two"), 600), stage.crashes
    stage.run_for(20)
    assert sorted(sizes(stage, "one", "two")) == ([2, 4] if flavored else [2, 2])
    assert phases(stage, "greedy") == ["queued"]
    assert nobody_went(stage, "one", "two")
    assert stage.crashes == []


@pytest.mark.parametrize("timing", ["now", "at_checkpoint"])
@pytest.mark.parametrize("pods", [False, True])
def test_it_is_foreseen_what_a_change_of_the_tree_comes_to(stage: MemoryStage, pods: bool, timing: str) -> None:
    trees(stage, leaf("x", 8, lending_limit={GPU: 0}), leaf("y", 0))
    submit_elastic(stage, "one", "x", (2, 8), pods=pods, timing=timing)
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(60)
    submit(stage, "owner", "y", 4)
    stage.run_for(20)
    after = read_tree("default", {"queues": [{"name": "all"}, leaf("x", 4), leaf("y", 4)], "settings": AT_ONCE})
    options = QuotaOptions("default", "muster-system", "present", {}, check_mode=True)
    would, notes = foresee_change(stage.admin(), options, after)
    assert notes == []
    shrink = [{"gang": "a/one", "from": 8, "to": 4}]
    assert would == {"start": ["a/owner"], "wait": [], "reclaim": [], "shrink": shrink}
    trees(stage, leaf("x", 4), leaf("y", 4))
    if timing == "at_checkpoint":
        assert stage.run_until(lambda: is_asked(stage, "one"), 60)
        report(stage, "one", 10, saved=True)
    assert stage.run_until(running(stage, "owner", "one"), 300)
    assert (sizes(stage, "one"), nobody_went(stage, "one")) == ([4], True)


SEED = int(os.environ.get("MUSTER_SEED", "1"))
COURSES = 100 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 10


@pytest.mark.parametrize("number", range(COURSES))
@pytest.mark.parametrize("flavored", [False, True])
def test_sizes_and_evictions_come_to_an_end(stage: MemoryStage, number: int, flavored: bool) -> None:
    """Gangs of all kinds come one after the other; no more is used than there is, and then nothing happens any more."""
    seed = f"{SEED}/{number}/{flavored}" if flavored else f"{SEED}/{number}"
    chance = random.Random(seed)
    least = chance.randint(0, 4)
    whom = [chance.choice(("any", "any", "lower_priority")) for _queue in "xy"]
    queues = [leaf("x", least, reclaim=whom[0]), leaf("y", 8 - least, reclaim=whom[1]), leaf("z", 0)]
    most, first = chance.choice((1, 10)), chance.randint(1, 4)
    if flavored:
        two_flavors(stage, {"max_evictions": most}, x=(first, 0), y=(4 - first, 4), z=(0, 0))
    else:
        trees(stage, *queues, max_evictions=most)
    stage.start("d", mirrored=chance.random() < 0.5)
    names, trainers = [f"g{turn}" for turn in range(6)], random.Random(f"{seed}/trainers")
    share = trainers.choice((0.0, 0.1, 1.0))

    def pass_seconds(seconds: int, step: int) -> None:
        """Let time pass, in which trainers answer; what is used is looked at after each step."""
        for _turn in range(0, seconds, step):
            stage.run_for(step)
            assert gpus_of_pods(stage) <= 8, seed
            there = [name for name in names if stage.cluster.get("configmaps", "a", name) is not None]
            assert not flavored or max(gpus_by_flavor(stage, there).values(), default=0) <= 4, seed
            trainers_answer(stage, there, trainers, share)

    for name in names:
        queue, priority = chance.choice("xyz"), chance.choice((0, 0, 5))
        if chance.random() < 0.7:
            low = chance.randint(1, 3)
            pods, timing = chance.random() < 0.5, chance.choice(("now", "now", "on_sigterm", "at_checkpoint"))
            range_ = (low, low + chance.randint(1, 4))
            terms: cases.Object = {"timing": timing}
            if timing == "at_checkpoint":
                terms |= {"checkpoint_timeout": trainers.choice((20, 300)), "on_timeout": trainers.choice(ON_TIMEOUT)}
            submit_elastic(stage, name, queue, range_, pods=pods, priority=priority, **terms)
        else:
            submit(stage, name, queue, chance.randint(1, 4), priority=priority)
        pass_seconds(chance.randint(5, 60), 1)
    # Evicted ones pause for an hour at most, and come back when they may.
    pass_seconds(8000, 40)
    before = {name: history(stage, name) for name in names}
    stage.run_for(2000)
    assert {name: history(stage, name) for name in names} == before, seed
    assert all("nominated" not in state(stage, name) for name in names), seed
    assert stage.crashes == []
