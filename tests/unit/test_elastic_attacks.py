# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic gangs against hostile and careless users: what one of them writes harms nobody but its own gang."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import largest_divisor
from ansible_collections.muster.kube.plugins.module_utils._model.gang import record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec, spec_data
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    new_state,
    read_state,
    state_text,
    told_resize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import UNFORESEEN, BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import demand_of, sized_gang
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.start_sizes import largest_of
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES, ElasticCase
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage, inline_calls
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.random_values import damage
from ansible_collections.muster.kube.tests.support.reclaim_cases import history, two_namespaces
from ansible_collections.muster.kube.tests.unit.test_memory_elastic import GPU, finish, gpus, running, sizes, submit
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, state

SEED = int(os.environ.get("MUSTER_SEED", "1"))
EACH = examples(400)
RANGE = {"range": {"min": 1, "max": 4}}


def gpu_job(name: str = "bad") -> cases.Object:
    """A Job of one pod with a GPU."""
    return cases.job(name, "p", 1, **{"cpu": "1", GPU: "1"})


def container(job: cases.Object) -> cases.Object:
    return t.cast("cases.Object", job["spec"]["template"]["spec"]["containers"][0])


def with_container(**fields: t.Any) -> t.Callable[[cases.Object], None]:
    return lambda job: container(job).update(fields)


DIGITS = "9" * 5000
MALFORMED: dict[str, t.Callable[[cases.Object], t.Any]] = {
    "env of texts": with_container(env=["text"]),
    "env a text": with_container(env="text"),
    "env a mapping": with_container(env={"a": "b"}),
    "env a number": with_container(env=5),
    "env names": with_container(env=[{"name": ["a"], "value": "1"}, {"name": "NGPU"}]),
    "resources a list": with_container(resources=["a"]),
    "limits a list": with_container(resources={"limits": [GPU], "requests": {GPU: "1"}}),
    "digits": with_container(resources={"limits": {GPU: DIGITS}, "requests": {GPU: "1"}}),
    "limits null": with_container(resources={"limits": {GPU: None}, "requests": {GPU: "1"}}),
    "limits nested": with_container(resources={"limits": {GPU: {"a": 1}}, "requests": {GPU: ["a"]}}),
    "annotation": lambda job: job["metadata"].update(annotations={"muster.kube/min": DIGITS}),
    "annotation sizes": lambda job: job["metadata"].update(annotations={"muster.kube/sizes": "1,²,٣"}),
    "bare": lambda job: job["metadata"].update(annotations={"request": DIGITS, "limit": "4"}),
    "containers a mapping": lambda job: job["spec"]["template"]["spec"].update(containers={"0": {}}),
    "containers of texts": lambda job: job["spec"]["template"]["spec"].update(containers=["a"]),
    "parallelism": lambda job: job["spec"].update(parallelism=DIGITS),
    "template": lambda job: job["spec"].update(template=["a"]),
    "spec": lambda job: job.update(spec="text"),
    "metadata of template": lambda job: job["spec"]["template"].update(metadata=[]),
    "job-min-parallelism": lambda job: job["metadata"].update(
        annotations={"kueue.x-k8s.io/job-min-parallelism": DIGITS}
    ),
}
BATCH_KEY = "muster.kube/batch"
BATCH = {"value": 2**31 - 1, "per_device_env": "B", "accumulation_env": "A"}


@pytest.mark.parametrize("kind", ["range", "batch", "carried"])
@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_objects_of_an_elastic_gang_are_bad_input(what: str, kind: str) -> None:
    """Anything else would end the cycle of a dispatcher that reads the record."""
    job = gpu_job()
    MALFORMED[what](job)
    elastic = {"range": {**RANGE["range"], **({"global_batch": BATCH} if kind == "batch" else {})}}
    if kind == "carried":
        elastic = {}
        job.setdefault("metadata", {}).setdefault("annotations", {}).setdefault("muster.kube/max", "4")
    with contextlib.suppress(BadInput):
        cases.gang_record("bad", "a", [job], elastic=elastic)


@pytest.mark.parametrize("case", ELASTIC_CASES, ids=lambda case: case.name)
def test_whatever_an_elastic_gang_is_made_of_it_is_read_or_refused_in_words(case: ElasticCase) -> None:
    chance = random.Random(f"{SEED} {case.name}")
    terms = {"range": {"min": 1, "max": 3, "podset": case.podset, "axis": "per_pod", "global_batch": BATCH}}
    data = {"name": "g", "namespace": "a", "objects": [case.object], "elastic": terms}
    bare = {"name": "g", "namespace": "a", "objects": [case.object], "elastic": {}}
    for turn in range(EACH):
        damaged, _path = damage(chance, chance.choice((data, bare)))
        try:
            spec = read_spec(damaged, "gang a/g", stored=bool(turn % 2))
            if spec.elastic is not None:
                for size in spec.elastic.wanted.sizes[:3]:
                    plan_objects(spec.with_allotment(size), "u", 1)
                read_spec(spec_data(spec), "again", stored=True)
        except BadInput:
            continue


def test_bounds_that_a_kind_allows_are_no_range_of_billions() -> None:
    """The sizes of a range are all looked at; a kind's own bounds may be any number."""
    job = copy.deepcopy(next(case for case in ELASTIC_CASES if case.name == "RayCluster").object)
    job["spec"]["workerGroupSpecs"][0].update(minReplicas=1, maxReplicas=2**31 - 2, replicas=1)
    with pytest.raises(BadInput, match="more than any range may have"):
        cases.gang_record("bad", "a", [job], elastic={})


@pytest.mark.parametrize("name", ["maxReplicas", "minReplicas"])
def test_bounds_without_a_value_are_as_if_left_out(name: str) -> None:
    job = copy.deepcopy(next(case for case in ELASTIC_CASES if case.name == "RayCluster").object)
    job["spec"]["workerGroupSpecs"][0].update({"minReplicas": 1, "maxReplicas": 4, "replicas": 1, name: None})
    declared = {"range": {"min": 1, "max": 4, "axis": "pods", "podset": "x/small"}}
    cases.gang_record("bare", "a", [job], elastic=declared)


def test_a_job_with_the_least_parallelism_and_no_other_has_one_pod() -> None:
    job = gpu_job()
    job["metadata"]["annotations"] = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    job["spec"]["parallelism"] = None
    cases.gang_record("bare", "a", [job], elastic={"range": {"min": 1, "max": 4, "axis": "per_pod"}})


@pytest.mark.parametrize("most", [1, 7, 46_340, 46_341, 2**31 - 2])
def test_the_share_of_a_batch_of_billions_is_found_at_once(most: int) -> None:
    """The largest prime of four bytes has no divisor but one, which is no reason to try two billion of them."""
    assert largest_divisor(2**31 - 1, most) == 1
    assert largest_divisor(6 * 97, most) == max(each for each in range(1, 583) if 582 % each == 0 and each <= most)


def test_a_record_that_nobody_can_read_is_one_with_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours about it must not keep a dispatcher from reading all others."""
    raw = cases.gang_record("bad", "a", [gpu_job()], elastic=RANGE)
    raw["metadata"].update(uid="u", resourceVersion="1")
    monkeypatch.setattr(record, "spec_of_record", lambda _raw: {}["nothing"])
    found = record.record_from_api(raw)
    assert found.spec is None
    assert UNFORESEEN in str(found.spec_problem)


@pytest.mark.parametrize("most", range(0, 40, 3))
def test_of_thousands_of_sizes_few_are_tried(most: int) -> None:
    tried: list[int] = []

    def fitting(size: int) -> int | None:
        tried.append(size)
        return size if size <= most else None

    assert largest_of(range(1, 4097), fitting) == (most or None)
    assert len(tried) <= 30
    few = range(1, 12)
    assert largest_of(few, lambda size: size if size in (3, 7) else None) == 7


# Forged states, edits and pods, with a whole dispatcher.

FUTURE, PAST = "2096-01-01T00:00:00Z", "1996-01-01T00:00:00Z"
BEYOND = 2**31 - 2


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        yield made


def start(stage: MemoryStage, *names: str, most: int = 10, **options: t.Any) -> None:
    """Let elastic gangs run for a while under a dispatcher."""
    for name in names:
        submit(stage, name, 2, (2, most), timing="now", **options)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, *names))
    stage.run_for(1000)


def forge(stage: MemoryStage, name: str, **changed: t.Any) -> None:
    """What somebody writes into the state of a gang."""

    def edit(raw: cases.Object) -> None:
        annotations = raw["metadata"]["annotations"]
        annotations["muster.kube/state"] = json.dumps({**json.loads(annotations["muster.kube/state"]), **changed})

    stage.cluster.change("configmaps", "a", name, edit)


def edit_gang(stage: MemoryStage, name: str, **changed: t.Any) -> None:
    """What a user changes in the record of a gang."""

    def edit(raw: cases.Object) -> None:
        raw["data"]["gang.json"] = json.dumps({**json.loads(raw["data"]["gang.json"]), **changed})

    stage.cluster.change("configmaps", "a", name, edit)


def resize(size: int = 2, to: int = 4, since: str = PAST, **more: t.Any) -> cases.Object:
    return {"resize": {"from": size, "to": to, "method": "recreate", "why": "x", "since": since, **more}}


def returned(at: str) -> cases.Object:
    """A gang that came back from a resize at a time."""
    return {"phase": "queued", "transitions": [["resizing", at, "Resized", "x"], ["queued", at, "Requeued", "x"]]}


FORGED: dict[str, cases.Object] = {
    "allotment out of the range": {"allotment": 7},
    "allotment beyond all": {"allotment": BEYOND},
    "no allotment": {"allotment": None},
    "to a size beyond all": resize(to=BEYOND),
    "in the future": resize(since=FUTURE),
    "in the year 1": resize(since="0001-01-01T00:00:00Z"),
    "in the year 9999": resize(since="9999-12-31T23:59:59Z"),
    "resizing": {"phase": "resizing", "then": "queued", **resize(since=FUTURE)},
    "resizing beyond all": {"phase": "resizing", "then": "queued", **resize(BEYOND, BEYOND, FUTURE)},
    "resizing without a resize": {"phase": "resizing", "then": "queued"},
    "resizing to nothing": {"phase": "resizing", **resize()},
    "in vain": resize(in_vain=BEYOND),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_state_of_a_running_gang_keeps_no_other_waiting(stage: MemoryStage, what: str) -> None:
    start(stage, "one", "two", most=4)
    forge(stage, "one", **FORGED[what])
    submit(stage, "new", 2)
    assert stage.run_until(lambda: running(stage, "new"), 100)
    assert sum(gpus(stage).values()) <= 10
    submit(stage, "more", 2)
    assert stage.run_until(lambda: running(stage, "more"), 1000)
    assert sum(gpus(stage).values()) <= 10
    assert stage.crashes == stage.actors["d"].dispatcher.troubles == []


@pytest.mark.parametrize("bounds", [(5, 8), (2, 3)])
def test_a_range_that_is_edited_does_not_end_what_runs(stage: MemoryStage, bounds: tuple[int, int]) -> None:
    """The size of a running gang may be none of the new ones; that is ignored until it starts again."""
    start(stage, "one", most=4)
    edit_gang(stage, "one", elastic={"range": {"min": bounds[0], "max": bounds[1]}, "timing": "now"})
    submit(stage, "new", 6)
    assert stage.run_until(lambda: running(stage, "new"), 100)
    submit(stage, "more", 2)
    stage.run_for(1000)
    assert gpus(stage) == {"one": 4, "new": 6}
    assert running(stage, "one")
    assert history(stage, "one").count("resizing") == 0
    assert stage.crashes == stage.actors["d"].dispatcher.troubles == []


def test_who_forges_that_it_comes_back_passes_nobody(stage: MemoryStage) -> None:
    """A gang that comes back from a resize starts before all others, in the time that this takes."""
    submit(stage, "holder", 10)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "holder"))
    submit(stage, "old", 10)
    stage.run_for(20)
    submit(stage, "forger", 1, (1, 10), timing="now")
    stage.run_for(20)
    forge(stage, "forger", **returned(FUTURE), **resize(1, 10, FUTURE))
    stage.run_for(1)
    finish(stage, "holder")
    assert stage.run_until(lambda: running(stage, "old"), 20)


def test_who_is_suspended_while_it_is_resized_does_not_come_back_later(stage: MemoryStage) -> None:
    start(stage, "one")
    submit(stage, "new", 2)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "resizing")
    edit_gang(stage, "one", suspended=True)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "suspended" and running(stage, "new"))
    stage.run_for(1000)
    submit(stage, "all", 8)
    assert stage.run_until(lambda: running(stage, "all"))
    edit_gang(stage, "one", suspended=False)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "queued")
    assert step(stage, "one") == "parked"


def step(stage: MemoryStage, name: str) -> str | None:
    """How far the last resize of a gang has come."""
    found = stage.cluster.get("configmaps", "a", name)
    assert found is not None
    told = told_resize(read_state(found["metadata"]["annotations"]))
    return None if told is None else told["step"]


def test_a_resize_of_a_gang_that_ended_is_over(stage: MemoryStage) -> None:
    start(stage, "one")
    submit(stage, "new", 2)
    assert stage.run_until(lambda: running(stage, "one", "new"))
    assert step(stage, "one") == "verified"
    finish(stage, "one")
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "complete")
    assert step(stage, "one") == "verified"


def test_resizes_that_do_not_end_keep_no_others_from_theirs(stage: MemoryStage) -> None:
    """Only so many are resized at a time; those here never start again."""
    start(stage, "one")
    for number in range(4):
        submit(stage, f"never{number}", 11, (11, 12), timing="now")
    stage.run_for(20)
    for number in range(4):
        forge(stage, f"never{number}", **returned(PAST), **resize(11, 12))
    submit(stage, "new", 6)
    assert stage.run_until(lambda: running(stage, "new", "one"), 1000)
    assert sizes(stage, "one") == [4]


def test_a_gang_whose_pods_never_go_is_not_waited_for(stage: MemoryStage) -> None:
    """A dead node: others shrink for the one that waits, once nobody knows when the first is done with it."""
    stage.add_nodes(*cases.node_pool("q", 1, cpu="64", **{GPU: "10"}))
    start(stage, "one")
    kept = {"finalizers": ["example.com/stay"]}
    for pod in stage.cluster.all("pods", "a"):
        stage.cluster.change("pods", "a", pod["metadata"]["name"], lambda raw: raw["metadata"].update(kept))
    stage.cluster.change("nodes", "", "q-n0", lambda raw: raw["metadata"]["labels"].update({cases.POOL_LABEL: "p"}))
    submit(stage, "two", 2, (2, 10), timing="now")
    assert stage.run_until(lambda: running(stage, "two"))
    stage.run_for(1000)
    submit(stage, "new", 2)
    assert stage.run_until(lambda: running(stage, "new", "two"), 1000)


def test_labels_on_pods_of_others_keep_no_gang_from_shrinking(stage: MemoryStage) -> None:
    start(stage, "one", most=8)
    found = stage.cluster.get("configmaps", "a", "one")
    assert found is not None
    pod = cases.pod("bait", "b", "p", node="p-n0", cpu="1")
    pod["metadata"]["labels"] = {"muster.kube/gang": found["metadata"]["uid"]}
    stage.cluster.add("pods", pod)
    submit(stage, "new", 4)
    assert stage.run_until(lambda: running(stage, "one", "new"), 100)


# Limits: whoever is taken back has to be able to start again, and nobody shrinks for one that cannot.


LIMITS: dict[str, cases.Object] = {
    "hold": {"stop": "hold"},
    "user": {"user_limits": {"resources": {GPU: 3}}},
    "users": {"user_limits": {"running": 0}},
    "quota": {"nominal": {GPU: 1}, "hard": True},
}


@pytest.mark.parametrize("limit", LIMITS)
def test_nobody_is_taken_back_who_would_not_start_again(stage: MemoryStage, limit: str) -> None:
    queue = {"name": "x", "parent": "all", "nominal": {GPU: 20}, "namespaces": ["a", "b"]}
    declare(stage, queue)
    start(stage, "one", "two", most=7)
    declare(stage, {**queue, **LIMITS[limit]})
    stage.run_for(20)
    finish(stage, "one")
    stage.run_for(1000)
    assert running(stage, "two")
    assert sizes(stage, "two") == [5]


def test_nobody_is_taken_back_without_the_account_that_starts_it(stage: MemoryStage) -> None:
    start(stage, "one", "two", most=7)
    stage.cluster.remove("serviceaccounts", "a", "muster")
    finish(stage, "one")
    stage.run_for(1000)
    assert running(stage, "two")


@pytest.mark.parametrize("rule", ["range", "quota"])
def test_nobody_shrinks_who_breaks_new_rules_of_its_namespace(stage: MemoryStage, rule: str) -> None:
    start(stage, "one", most=8)
    if rule == "range":
        limits = [{"type": "Container", "max": {GPU: "1"}}]
        stage.cluster.add("limitranges", {"metadata": {"name": "l", "namespace": "a"}, "spec": {"limits": limits}})
    else:
        hard = {f"requests.{GPU}": "1"}
        stage.cluster.add("resourcequotas", {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": hard}})
        status = {"hard": hard, "used": {f"requests.{GPU}": "8"}}
        stage.cluster.change("resourcequotas", "a", "q", lambda raw: raw.update(status=status))
    job = cases.job("new-j", "p", 1, **{"cpu": "1", GPU: "4"})
    stage.cluster.add("configmaps", cases.gang_record("new", "b", [job]))
    stage.run_for(1000)
    assert running(stage, "one")


def test_a_gang_grows_to_what_its_queue_and_its_user_may_have(stage: MemoryStage) -> None:
    """What it has is given back first, so it may have more than half; of two limits the smaller one counts."""
    queue = {"name": "x", "parent": "all", "nominal": {GPU: 7}, "namespaces": ["a"], "hard": True}
    declare(stage, {**queue, "user_limits": {"resources": {GPU: 8}, "running": 2}})
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", cpu="1", **{GPU: "6"}))
    submit(stage, "one", 2, (2, 9), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    stage.cluster.remove("pods", "b", "other")
    assert stage.run_until(lambda: sizes(stage, "one") == [7], 100)


@pytest.mark.parametrize("cause", ["quota", "webhook", "denied"])
def test_nobody_shrinks_for_a_gang_that_the_server_refuses(stage: MemoryStage, cause: t.Any) -> None:
    start(stage, "one")
    stage.cluster.barriers.append(Barrier(cause, "a", "jobs", 1e9, name="new-.*"))
    submit(stage, "new", 2)
    stage.run_for(3000)
    assert history(stage, "one").count("resizing") == 0
    assert gpus(stage) == {"one": 10}


def test_who_shrinks_in_vain_time_and_again_does_so_less_and_less(stage: MemoryStage) -> None:
    """The server refuses the newcomer only when it means it: what was taken for it is given back soon."""
    start(stage, "one")
    stage.cluster.barriers.append(Barrier("quota", "a", "jobs", 1e9, dry=False, name="new-.*"))
    submit(stage, "new", 2)
    assert stage.run_until(lambda: (state(stage, "one").get("resize") or {}).get("in_vain", 0) > 1, 10_000)


@pytest.mark.parametrize("late", [False, True])
def test_quota_that_still_counts_old_pods_makes_no_gang_smaller(stage: MemoryStage, late: bool) -> None:
    """Servers count late what is gone; a gang that waits for that keeps its room, but not for long."""
    hard = {f"requests.{GPU}": "12"}

    def count(used: str) -> None:
        status = {"hard": hard, "used": {f"requests.{GPU}": used}}
        stage.cluster.change("resourcequotas", "a", "q", lambda raw: raw.update(status=status))

    stage.cluster.add("resourcequotas", {"metadata": {"name": "q", "namespace": "a"}, "spec": {"hard": hard}})
    count("0")
    start(stage, "one")
    count("10")
    submit(stage, "new", 2)
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "queued")
    job = cases.job("other-j", "p", 1, **{"cpu": "1", GPU: "8"})
    stage.cluster.add("configmaps", cases.gang_record("other", "b", [job]))
    stage.run_for(5)
    assert gpus(stage) == {}
    if not late:
        count("2")
    assert stage.run_until(lambda: running(stage, "one"), 60)
    assert sizes(stage, "one") == [2 if late else 8]


def test_nobody_grows_into_room_that_is_being_freed_for_another(stage: MemoryStage) -> None:
    """The owner needs what is free and what the borrower has, which takes its time to go."""
    amounts = {"x": 6, "y": 8, "z": 0}
    places = {"x": {"namespaces": ["a"]}, "y": {"namespaces": ["b"]}, "z": {}}
    queues = [{"name": name, "parent": "all", "nominal": {GPU: most}, **places[name]} for name, most in amounts.items()]
    declare(stage, *queues, settings={"min_run_time": 0})
    stage.controllers.pace.stop = 60.0
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", cpu="1", **{GPU: "4"}))
    four, eight = (cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: most}) for name, most in (("f", "4"), ("o", "8")))
    stage.cluster.add("configmaps", cases.gang_record("f", "a", [four], queue="z"))
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "f"))
    submit(stage, "one", 2, (2, 8), timing="now")
    assert stage.run_until(lambda: running(stage, "one"))
    stage.run_for(1000)
    stage.cluster.erase(("pods", "b", "other"))
    stage.cluster.add("configmaps", cases.gang_record("o", "b", [eight]))
    assert stage.run_until(lambda: state(stage, "o", "b")["phase"] == "running", 200)
    assert history(stage, "one").count("resizing") == 0


def test_a_limit_of_time_is_one_for_all_sizes(stage: MemoryStage) -> None:
    """Otherwise a gang would run on for ever that is resized now and then, and nobody could reckon with its end."""
    for name in ("one", "two", "three"):
        submit(stage, name, 2, (2, 4), timing="now")
    edit_gang(stage, "two", max_run_time=2000)
    stage.start("d")
    assert stage.run_until(lambda: running(stage, "one", "two", "three"))
    stage.run_for(1500)
    finish(stage, "one")
    assert stage.run_until(lambda: running(stage, "two") and sizes(stage, "two") == [4])
    assert stage.run_until(lambda: state(stage, "two")["phase"] == "failed", 600)
    assert state(stage, "two")["requeues"] == 0


# What check mode tells.


NEWS = ("room", "newcomer", "refused", "denied", "newer batch")


@pytest.mark.parametrize("news", NEWS)
def test_check_mode_tells_the_resizes_of_the_next_run(stage: MemoryStage, news: str) -> None:
    start(stage, "one", "two", most=7)
    stage.kill("d")
    stage.cluster.change("leases", "muster-system", "dispatch", lambda raw: raw["spec"].update(holderIdentity=""))
    if news in ("room", "newer batch"):
        finish(stage, "one")
    else:
        submit(stage, "new", 3)
    if news in ("refused", "denied"):
        cause: t.Any = "quota" if news == "refused" else "denied"
        stage.cluster.barriers.append(Barrier(cause, "a", "jobs", 1e9, name="new-.*"))
    if news == "newer batch":
        text = json.dumps({"format": 99})
        stage.cluster.change(
            "leases", "muster-system", "dispatch", lambda raw: raw["metadata"]["annotations"].update({BATCH_KEY: text})
        )
    stage.run_for(30)
    two = stage.dispatcher("two")
    with inline_calls():
        told = preview_dispatch(two.line.client("checker"), two.terms)
    carried_out = two.cycle().session.journal.take()[0]
    assert acts(told.decisions) == acts(carried_out)
    resized = [uid for uid, action in acts(carried_out) if action == "resize"]
    assert len(resized) == (news in ("room", "newcomer"))


def acts(decisions: t.Iterable[t.Any]) -> set[tuple[str, str]]:
    """What is done to which gang; that somebody waits is no act."""
    return {(item.uid, item.action) for item in decisions if item.action != "wait"}


def test_who_takes_over_leaves_the_room_to_a_gang_that_comes_back(stage: MemoryStage) -> None:
    """A dispatcher of another namespace cannot start it, and has a gang that would take what it gave back."""
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", cpu="1", **{GPU: "10"}))
    submit(stage, "one", 2, (2, 10), timing="now")
    stage.start("d")
    assert stage.run_until(lambda: state(stage, "one").get("verdict") is not None)
    stage.kill("d")
    stage.cluster.erase(("pods", "b", "other"))
    forge(stage, "one", **returned(stage.cluster.time_text()), **resize(10, 8))
    job = cases.job("late-j", "p", 1, **{"cpu": "1", GPU: "6"})
    stage.cluster.add("configmaps", cases.gang_record("late", "b", [job]))
    stage.start("b", ["b"])
    stage.run_for(15)
    assert state(stage, "late", "b")["verdict"]["reason"] == "insufficient"
    assert stage.run_until(lambda: state(stage, "late", "b")["phase"] == "running", 60)


@pytest.mark.parametrize("axis", ["per_pod", "pods"])
def test_what_was_seen_of_one_size_is_not_asked_for_at_another(axis: str) -> None:
    """Pods that turn out larger, by a sidecar, are counted as they are; their GPUs are those of the size they had."""
    job = cases.job("g", "p", 1, **{"cpu": "1", GPU: "1"})
    job["spec"]["completionMode"] = "Indexed"
    raw = cases.gang_record("g", "a", [job], elastic={"range": {"min": 1, "max": 8, "axis": axis}})
    seen = {"name": "g", "count": 8 if axis == "pods" else 1, "requests": {"cpu": "1500m", GPU: "8", "pods": "1"}}
    told = dataclasses.replace(new_state("2026-01-01T00:00:00Z", "w/1/1"), observed=(seen,), attempt=2)
    raw["metadata"].update(uid="u", resourceVersion="1", annotations={"muster.kube/state": state_text(told)})
    found = record.record_from_api(raw)
    podset = demand_of(found, sized_gang(found, Snapshot())).podsets[0]
    gpus_each = 1 if axis == "per_pod" else 8
    assert (podset.count, podset.requests["cpu"], podset.requests[GPU]) == (1, 1500, gpus_each)
