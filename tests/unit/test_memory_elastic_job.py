# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""elastic_job and elastic_job_info against a cluster in memory: what they write, foresee, refuse and warn of."""

from __future__ import annotations

import copy
import os
import random
import typing as t

import pytest
from ansible.module_utils import basic
from ansible_collections.muster.kube.plugins.module_utils._face.modules import gang as gang_face
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import elastic_job as job_face
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import elastic_job_info as info_face
from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.entries import read_allocation
from ansible_collections.muster.kube.plugins.modules import elastic_job, elastic_job_info, gang
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.memory_controllers import finish
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import ADMIN, Line
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.support.random_size import examples
from ansible_collections.muster.kube.tests.support.reclaim_cases import history, phases, state, two_namespaces

SEED = int(os.environ.get("MUSTER_SEED", "1"))
GPU = "nvidia.com/gpu"
TWO_TO_FOUR = {"min": 2, "max": 4}
Result = dict[str, t.Any]


class Desk:
    """Somebody who runs the modules, and what was sent for it."""

    def __init__(self, stage: MemoryStage, patch: pytest.MonkeyPatch) -> None:
        """All modules talk to the cluster of the stage."""
        self.stage, self._patch = stage, patch
        self.line = Line(stage.cluster)
        self.user = ADMIN
        self.warnings: list[str] = []
        patch.setattr(basic.AnsibleModule, "warn", lambda _module, text: self.warnings.append(text))
        for face in (job_face, info_face, gang_face):
            patch.setattr(face, "connect", lambda _auth: self.line.client(self.user))

    def _run(self, module: t.Any, check: bool, options: Result) -> Result:
        lease = {"lease": {"namespace": LEASE.namespace, "name": LEASE.name}}
        given = {"namespace": "a", **lease, **options, "_ansible_check_mode": check}
        self.warnings.clear()
        return call_module(self._patch, module, given).result

    def job(self, name: str, *, check: bool = False, **options: t.Any) -> Result:
        """Run elastic_job for one job; the result of the task."""
        return self._run(elastic_job, check, {"name": name, **options})

    def done(self, name: str, **options: t.Any) -> Result:
        """The same, of the job alone, where nothing goes wrong."""
        result = self.job(name, **options)
        assert not result.get("failed"), result
        (entry,) = result["jobs"]
        return t.cast(Result, entry)

    def refused(self, name: str, **options: t.Any) -> str:
        """What the module says when it refuses: it has written nothing, in check mode or not."""
        texts = set()
        for check in (True, False):
            before = len(self.line.sent)
            result = self.job(name, check=check, **options)
            assert result["failed"]
            assert result["error"].keys() == {"action", "object", "cause"}
            assert not [sent for sent in self.line.sent[before:] if sent[0] not in ("GET",)]
            texts.add(result["msg"])
        (text,) = texts
        return text

    def gang(self, name: str, **options: t.Any) -> Result:
        """Run gang."""
        return self._run(gang, False, {"name": name, **options})

    def info(self, **options: t.Any) -> list[Result]:
        """Run elastic_job_info."""
        result = self._run(elastic_job_info, False, options)
        assert not result.get("failed"), result
        return t.cast("list[Result]", result["jobs"])


@pytest.fixture(name="stage")
def one_node() -> t.Iterator[MemoryStage]:
    """One node of ten GPUs, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 1, cpu="64", **{GPU: "10"})) as made:
        yield made


@pytest.fixture(name="desk")
def somebody(stage: MemoryStage, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Somebody at work."""
    return Desk(stage, monkeypatch)


def trainer(name: str, gpus: int = 2, **job: t.Any) -> cases.Object:
    """A Job of one pod that nothing is to be said against."""
    made = cases.job(f"{name}-j", "p", 1, **{"cpu": "1", GPU: str(gpus)}, **job)
    pod = made["spec"]["template"]["spec"]
    pod["restartPolicy"] = "OnFailure"
    pod["volumes"] = [{"name": "work", "nfs": {"server": "files.example.com", "path": "/work"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "work", "mountPath": "/work"}]
    return made


def changed(obj: cases.Object, edit: t.Callable[[cases.Object], object]) -> cases.Object:
    """A copy with something else in it."""
    made = copy.deepcopy(obj)
    edit(made)
    return made


def queue(desk: Desk, name: str, low: int = 2, high: int = 4, **options: t.Any) -> Result:
    """Queue a job of one pod with so many GPUs."""
    usual = {"definition": trainer(name), "range": {"min": low, "max": high}, "timing": "now"}
    return desk.done(name, **{**usual, **options})


def running(stage: MemoryStage, *names: str) -> t.Callable[[], bool]:
    return lambda: phases(stage, *names) == ["running"] * len(names)


def sizes(stage: MemoryStage, *names: str) -> list[int | None]:
    return [state(stage, name).get("allotment") for name in names]


# What is done, and written.


def test_a_job_is_queued_once_and_told_with_its_range(desk: Desk) -> None:
    found = queue(desk, "one")
    writes = len(desk.line.writes)
    assert (found["action"], found["phase"], writes) == ("created", "queued", 1 + 1)
    assert found["range"] == {"sizes": [2, 3, 4], "resource": GPU, "podset": "one-j", "axis": "per_pod"}
    expected = {"method": "recreate", "allotment": None, "resize": None, "progress": None, "restarts": 0}
    assert {key: found[key] for key in expected} == expected
    assert found["lost_seconds"] is None
    again = queue(desk, "one")
    assert (again["action"], again["changed"]) == ("unchanged", False)
    assert len(desk.line.writes) == writes


def test_a_whole_course_needs_no_second_write_of_its_user(desk: Desk, stage: MemoryStage) -> None:
    for name in ("one", "two", "three"):
        queue(desk, name)
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two", "three"))
    assert sizes(stage, "one", "two", "three") == [4, 3, 3]
    stage.run_for(1000)
    for pod in stage.cluster.all("pods"):
        if pod["metadata"]["name"].startswith("one-j"):
            finish(stage.cluster, "a", pod["metadata"]["name"])
    assert stage.run_until(lambda: running(stage, "two", "three")() and sizes(stage, "two", "three") == [4, 4])
    writes = len(desk.line.writes)
    found = queue(desk, "two")
    assert (found["changed"], found["allotment"], found["restarts"]) == (False, 4, 1)
    told = {"from": 3, "to": 4, "step": "verified", "method": "recreate", "why": "there is room for it"}
    assert {key: found["resize"][key] for key in told} == told
    assert len(desk.line.writes) == writes


def test_several_jobs_share_what_stands_beside_them(desk: Desk) -> None:
    jobs = [{"definition": trainer("one")}, {"definition": trainer("two"), "range": {"sizes": [2, 8]}, "size": "8"}]
    result = desk._run(elastic_job, False, {"jobs": jobs, "range": TWO_TO_FOUR, "size": "auto", "timing": "on_sigterm"})
    assert [job["range"]["sizes"] for job in result["jobs"]] == [[2, 3, 4], [2, 8]]
    told = [job["spec"]["elastic"]["size"] for job in desk.info(namespace="a")]
    assert told == [None, 8]


def test_the_range_may_be_that_of_the_object(desk: Desk) -> None:
    def widen(obj: cases.Object) -> None:
        obj["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] = "6"

    found = desk.done("one", definition=changed(trainer("one"), widen))
    assert found["range"]["sizes"] == [2, 3, 4, 5, 6]
    batch = {"value": 24, "per_device_env": "BATCH"}
    shared = desk.done("two", definition=changed(trainer("two"), widen), global_batch=batch)
    assert shared["range"]["sizes"] == [2, 3, 4, 6]


def test_a_job_is_suspended_resumed_and_removed_by_its_name(desk: Desk, stage: MemoryStage) -> None:
    queue(desk, "one")
    assert desk.done("one", state="suspended")["action"] == "changed"
    resumed = desk.done("one")
    assert (resumed["action"], resumed["range"]["sizes"]) == ("changed", [2, 3, 4])
    assert desk.done("one", state="absent", check=True)["action"] == "deleted"
    assert stage.cluster.get("configmaps", "a", "one") is not None
    assert desk.done("one", state="absent")["action"] == "deleted"
    gone = desk.done("one", state="absent")
    assert (gone["action"], gone["range"], gone["method"]) == ("unchanged", None, None)


def test_a_job_that_does_not_get_there_is_told_as_a_job(desk: Desk) -> None:
    queue(desk, "one")
    result = desk.job("one", wait_for="running", wait_timeout="3")
    assert result["failed"]
    assert "gangs" not in result
    assert result["jobs"][0]["range"]["sizes"] == [2, 3, 4]


# What check mode foresees.


def foreseen(desk: Desk, name: str, **options: t.Any) -> Result:
    """What check mode tells of a job; nothing was written for it."""
    before, version = len(desk.line.writes), desk.stage.cluster.version
    found = queue(desk, name, check=True, **options)
    assert len(desk.line.writes) == before
    assert desk.stage.cluster.version == version
    return found


def test_check_mode_tells_the_size_of_a_start_that_then_comes(desk: Desk, stage: MemoryStage) -> None:
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", **{GPU: "7"}))
    told = foreseen(desk, "one")
    assert (told["allotment"], told["would_shrink"], told["verdict"]["answer"]) == (3, [], "fits")
    queue(desk, "one")
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    assert sizes(stage, "one") == [told["allotment"]]


def test_check_mode_tells_the_sizes_of_jobs_that_are_queued_together(desk: Desk) -> None:
    jobs = [{"definition": trainer(name)} for name in ("one", "two", "three")]
    result = desk._run(elastic_job, True, {"jobs": jobs, "range": TWO_TO_FOUR})
    assert [job["allotment"] for job in result["jobs"]] == [4, 3, 3]


@pytest.mark.parametrize(("low", "high"), [(2, 2), (2, 5), (1, 3), (4, 8)])
def test_check_mode_tells_who_becomes_smaller_and_so_it_happens(
    desk: Desk, stage: MemoryStage, low: int, high: int
) -> None:
    for name in ("one", "two"):
        queue(desk, name, 2, 5, queue="research")
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two"))
    assert sizes(stage, "one", "two") == [5, 5]
    stage.run_for(1000)
    told = foreseen(desk, "new", low=low, high=high)
    assert told["verdict"]["answer"] == "waits"
    queue(desk, "new", low, high)
    assert stage.run_until(running(stage, "one", "two", "new"))
    happened = [
        {"name": name, "namespace": "a", "queue": "research", "from": 5, "to": state(stage, name)["allotment"]}
        for name in ("one", "two")
        if "resizing" in history(stage, name)
    ]
    assert told["would_shrink"] == happened
    assert happened
    assert [told["allotment"]] == sizes(stage, "new")


def test_nobody_is_told_to_become_smaller_who_would_do_so_without_the_job(desk: Desk, stage: MemoryStage) -> None:
    queue(desk, "one", 2, 10)
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(1000)
    stage.kill("d")
    told = foreseen(desk, "second", low=2, high=2)["would_shrink"]
    assert [(item["name"], item["from"], item["to"]) for item in told] == [("one", 10, 8)]
    assert foreseen(desk, "second", low=2, high=2, priority=-5)["would_shrink"] == []
    queue(desk, "first", 2, 2)
    assert foreseen(desk, "second", low=2, high=2)["would_shrink"] == []


def test_a_job_that_waits_for_more_has_no_size_yet(desk: Desk, stage: MemoryStage) -> None:
    stage.cluster.add("pods", cases.pod("other", "b", "p", node="p-n0", **{GPU: "9"}))
    told = foreseen(desk, "one")
    assert (told["allotment"], told["would_shrink"], told["verdict"]["reason"]) == (None, [], "insufficient")


def test_a_job_that_waits_is_foreseen_with_its_change(desk: Desk) -> None:
    queue(desk, "one")
    told = foreseen(desk, "one", high=8)
    assert (told["action"], told["allotment"]) == ("changed", 8)
    assert foreseen(desk, "one")["allotment"] == 4


def test_who_may_not_read_all_namespaces_is_told_what_that_means(desk: Desk, stage: MemoryStage) -> None:
    desk.user = "user"
    stage.cluster.denials.append(Denial("user", ("list",), ("configmaps",), ("",)))
    told = foreseen(desk, "one")
    assert told["allotment"] == 4
    assert any("what a dispatcher of all namespaces would do" in text for text in told["not_checked"])


def test_where_only_dispatchers_of_listed_namespaces_start_anything_such_a_one_is_foreseen(
    desk: Desk, stage: MemoryStage
) -> None:
    stage.cluster.remove("serviceaccounts", "a", "muster")
    told = foreseen(desk, "one")
    assert told["allotment"] == 4
    assert any("the namespace a: it has no ServiceAccount muster" in text for text in told["not_checked"])


def test_with_dispatch_no_other_job_becomes_smaller(desk: Desk, stage: MemoryStage) -> None:
    queue(desk, "one", 2, 10)
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    stage.run_for(1000)
    assert foreseen(desk, "new", dispatch=True)["would_shrink"] == []
    assert foreseen(desk, "new")["would_shrink"] != []


def test_a_replaced_job_has_to_go_before_anything_can_be_foreseen(desk: Desk, stage: MemoryStage) -> None:
    queue(desk, "one")
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    told = foreseen(desk, "one", high=8, replace=True)
    assert (told["action"], told["allotment"]) == ("recreated", None)
    assert any("removed first" in text for text in told["not_checked"])


# What is refused.


def two_gpus(obj: cases.Object) -> None:
    """A second kind of GPUs."""
    container = obj["spec"]["template"]["spec"]["containers"][0]["resources"]
    container["limits"]["amd.com/gpu"] = container["requests"]["amd.com/gpu"] = "1"


def annotated(**notes: str) -> t.Callable[[cases.Object], None]:
    def edit(obj: cases.Object) -> None:
        obj["metadata"]["annotations"] = {f"muster.kube/{key}": text for key, text in notes.items()}

    return edit


def kueue(obj: cases.Object) -> None:
    obj["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}


def indexed(obj: cases.Object) -> None:
    obj["spec"]["completionMode"] = "Indexed"


def elastic_in_kueue(obj: cases.Object) -> None:
    kueue(obj)
    obj["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}


BATCH = {"value": 7, "per_device_env": "BATCH"}
REFUSED: dict[str, tuple[dict[str, t.Any], str]] = {
    "min above max": ({"range": {"min": 4, "max": 2}}, "range: min: 4 is more than max, 2"),
    "no allowed size": ({"range": {"min": 2, "max": 3, "sizes": [4, 8]}}, "none of 4, 8 is from 2 to 3"),
    "two ranges": ({"definition": changed(trainer("one"), annotated(min="2", max="3"))}, "two ranges disagree"),
    "no pods": ({"definition": cases.service("s")}, "none of them makes pods"),
    "annotated, no pods": (
        {"definition": changed(cases.service("s"), annotated(min="1", max="2")), "range": None},
        "a Service makes no pods",
    ),
    "no GPUs": ({"definition": cases.job("one-j", "p", 1)}, "no container asks for GPUs"),
    "mixed GPUs": ({"definition": changed(trainer("one"), two_gpus)}, "different GPUs: amd.com/gpu, nvidia.com/gpu"),
    "global batch": ({"global_batch": BATCH}, "7 cannot be shared evenly by 2 GPUs (size 2)"),
    "no range": ({"range": None}, "names the sizes that it may have"),
    "batch alone": ({"range": None, "global_batch": BATCH}, "names the sizes it may have"),
    "size outside": ({"size": "5"}, "5 is none of the allowed sizes 2, 3, 4"),
    "size in words": ({"size": "all"}, "a whole number or auto is needed, not 'all'"),
    "GPUs per pod under Kueue": (
        {"definition": changed(trainer("one"), elastic_in_kueue)},
        "Kueue lets its number of pods change, not the GPUs of a pod",
    ),
    "no elastic job of Kueue's": (
        {"definition": changed(changed(trainer("one", 1), indexed), kueue), "range": {**TWO_TO_FOUR, "axis": "pods"}},
        "only with the annotation kueue.x-k8s.io/elastic-job",
    ),
    "no such job": ({"definition": None}, "there is none of this name"),
    "podsets": ({"podsets": [{"count": 1}]}, "Unsupported parameters"),
}


@pytest.mark.parametrize("case", [name for name in REFUSED if name != "podsets"])
def test_what_cannot_be_is_refused_before_anything_is_written(desk: Desk, case: str) -> None:
    options, words = REFUSED[case]
    given = {"definition": trainer("one"), "range": TWO_TO_FOUR, **options}
    if case == "no such job":
        given = {}
    text = desk.refused("one", **{key: value for key, value in given.items() if value is not None})
    assert words in text
    assert text.startswith("Cannot ")


def test_one_bad_job_keeps_all_from_being_written(desk: Desk) -> None:
    jobs = [{"definition": trainer("one")}, {"definition": changed(trainer("two"), kueue)}]
    result = desk._run(elastic_job, False, {"jobs": jobs, "range": TWO_TO_FOUR})
    assert "Kueue" in result["msg"]
    assert desk.line.writes == []


def test_kueue_may_change_the_number_of_pods(desk: Desk) -> None:
    job = changed(changed(trainer("one", 1), indexed), elastic_in_kueue)
    told = queue(desk, "one", 1, 3, definition=job, range={"min": 1, "max": 3, "axis": "pods"})
    assert (told["action"], told["method"]) == ("created", "scale")


@pytest.mark.parametrize("edit", [kueue, elastic_in_kueue])
def test_gang_refuses_what_kueue_would_take_back_as_elastic_job_does(desk: Desk, edit: t.Any) -> None:
    job = changed(trainer("one"), edit)
    refused = desk.gang("one", definition=job, elastic={"range": TWO_TO_FOUR})
    assert refused["failed"]
    assert refused["msg"] == desk.refused("one", definition=job, range=TWO_TO_FOUR)
    assert desk.line.writes == []
    desk.gang("one", definition=trainer("one"), elastic={"range": TWO_TO_FOUR})
    gone = desk.gang("one", definition=job, elastic={"range": TWO_TO_FOUR}, state="absent")
    assert gone["gangs"][0]["action"] == "deleted"


@pytest.mark.parametrize("options", [{}, {"state": "absent"}, {"state": "suspended"}, {"definition": trainer("one")}])
def test_a_gang_of_fixed_size_is_not_taken_for_a_job(desk: Desk, options: dict[str, t.Any]) -> None:
    assert not desk.gang("one", definition=trainer("one")).get("failed")
    more = {"range": TWO_TO_FOUR} if "definition" in options else {}
    text = desk.refused("one", **options, **more)
    assert "a gang of fixed size has this name (it is queued); use muster.kube.gang" in text


def test_a_job_may_replace_a_gang_of_fixed_size(desk: Desk, stage: MemoryStage) -> None:
    desk.gang("one", definition=trainer("one"))
    assert queue(desk, "one", replace=True)["action"] == "changed"
    desk.gang("two", definition=trainer("two"))
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two"))
    assert queue(desk, "two", replace=True)["action"] == "recreated"


def test_gang_knows_a_job_as_a_gang(desk: Desk, stage: MemoryStage) -> None:
    queue(desk, "one")
    assert desk.gang("one", state="suspended")["gangs"][0]["action"] == "changed"
    desk.gang("one")
    stage.start("d")
    assert stage.run_until(running(stage, "one"))
    fixed = desk.gang("one", definition=trainer("one"))
    assert "its definition changed; use replace: true" in fixed["msg"]
    assert desk.gang("one", state="absent")["gangs"][0]["action"] == "deleted"


# What is warned of.


def test_each_hazard_is_told_once_and_only_when_the_job_is_written(desk: Desk) -> None:
    bad = cases.job("one-j", "p", 1, **{"cpu": "1", GPU: "2"})
    container = bad["spec"]["template"]["spec"]["containers"][0]
    container["command"] = ["bash", "-c", "torchrun --nproc_per_node=2 train.py"]
    options = {"definition": bad, "range": TWO_TO_FOUR, "timing": "on_sigterm"}
    desk.job("one", check=True, **options)
    told = list(desk.warnings)
    words = (
        "is Never",
        "shell without exec",
        "terminationGrace",
        "--nproc_per_node=2",
        "no volume that outlives",
        "end with 0",
    )
    assert [[word in text for text in told].count(True) for word in words] == [1] * 6
    assert [text.partition(": ")[0] for text in told] == ["elastic job a/one"] * 6
    desk.job("one", **options)
    assert desk.warnings == told
    desk.job("one", **options)
    assert desk.warnings == []
    queue(desk, "two")
    assert desk.warnings == []


# elastic_job_info.


def test_info_tells_elastic_jobs_only_and_the_sizes_beside_theirs(desk: Desk, stage: MemoryStage) -> None:
    desk.gang("fixed", definition=trainer("fixed", 4))
    queue(desk, "one", 2, 6)
    stage.start("d")
    assert stage.run_until(running(stage, "fixed", "one"))
    queue(desk, "two", 2, 8, size="8", labels={"team": "red"})
    before = len(desk.line.writes)
    one, two = desk.info(namespace="a")
    assert (one["name"], one["allotment"], one["sizes_next"]) == ("one", 6, {"smaller": 5, "larger": None})
    assert (two["name"], two["phase"], two["sizes_next"]) == ("two", "queued", None)
    assert one["range"] == {"sizes": [2, 3, 4, 5, 6], "resource": GPU, "podset": "one-j", "axis": "per_pod"}
    assert (one["method"], one["progress"], one["restarts"], one["lost_seconds"]) == ("recreate", None, 0, None)
    assert [job["name"] for job in desk.info(label_selectors=["team=red"])] == ["two"]
    assert [job["name"] for job in desk.info(namespace="a", name="one")] == ["one"]
    assert desk.info(namespace="a", name="fixed") == []
    assert len(desk.line.writes) == before


def by_pods(name: str) -> cases.Object:
    """The same of two pods with a GPU each."""
    job = trainer(name, 1)
    job["spec"].update(parallelism=2, completions=2, completionMode="Indexed")
    return job


@pytest.mark.parametrize(("axis", "method"), [("per_pod", "recreate"), ("pods", "scale")])
def test_what_jobs_held_is_told_and_never_more_than_there_is(
    desk: Desk, stage: MemoryStage, axis: str, method: str
) -> None:
    for name in ("one", "two", "three"):
        definition = trainer(name) if axis == "per_pod" else by_pods(name)
        queue(desk, name, definition=definition, range={"min": 2, "max": 4, "axis": axis})
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two", "three"))
    stage.run_for(1000)
    desk.done("one", state="absent", wait=False)
    assert stage.run_until(lambda: sizes(stage, "two", "three") == [4, 4] and running(stage, "two", "three")(), 300)
    stage.run_for(1000)
    queue(desk, "new", 4, 4)
    assert stage.run_until(running(stage, "two", "three", "new"), 300)
    jobs = desk.info(namespace="a")
    for job in jobs:
        assert (job["sizes"][-1]["size"], job["sizes"][-1]["running"]) == (job["allotment"], True)
    begun = [entry["resize"] for job in jobs for entry in job["sizes"] if entry["resize"]]
    assert {resize["method"] for resize in begun} == {method}
    told = read_allocation({"jobs": jobs, "capacity": {GPU: "10"}}, "s")
    assert [row.outcome for job in told.jobs for row in job.resizes] == ["verified"] * len(begun)
    assert {row.begun.to > row.begun.size for job in told.jobs for row in job.resizes} == {True, False}
    stretches = told.stretches(GPU)
    assert max(item.total for item in stretches) <= 10
    assert not [item for item in stretches if item.unknown]


# Check mode and the next cycle, in many situations.


class Crowd:
    """Jobs that run on a few nodes, drawn by a seed, and one that comes."""

    def __init__(self, desk: Desk, seed: int) -> None:
        """Let them run for a while; nobody dispatches after that."""
        self.desk, self.stage, chance = desk, desk.stage, random.Random(seed)
        self.stage.add_nodes(*cases.node_pool("p", chance.choice((1, 1, 2)), cpu="64", **{GPU: "8"}))
        self.names = [f"g{number}" for number in range(chance.randint(1, 4))]
        for name in self.names:
            queue(desk, name, **self.terms(chance))
        self.stage.start("d")
        self.stage.run_for(chance.choice((5, 1000, 1000)))
        self.stage.kill("d")
        self.coming = self.terms(chance)

    def terms(self, chance: random.Random) -> dict[str, t.Any]:
        """The options of a job."""
        low = chance.choice((1, 1, 2, 2, 4))
        high = low + chance.choice((0, 2, 4, 8))
        timing = chance.choice(("now", "now", "now", "on_sigterm", "at_checkpoint"))
        return {"low": low, "high": high, "priority": chance.choice((0, 0, 0, 5)), "timing": timing}

    def next_cycle(self) -> tuple[dict[str, tuple[int, int]], int | None]:
        """Who becomes smaller by one cycle, now or after a checkpoint, and the size with which the new job starts."""
        before = {name: state(self.stage, name).get("planned") for name in self.names}
        dispatcher = self.stage.dispatcher("next")
        assert dispatcher.acquire(30.0)
        dispatcher.cycle()
        found = {name: state(self.stage, name) for name in self.names}
        changes = {name: (it["resize"]["from"], it["resize"]["to"]) for name, it in found.items() if is_resizing(it)}
        for name, it in found.items():
            plan = it.get("planned")
            if plan is not None and plan != before[name] and "missed" not in plan:
                changes[name] = plan["from"], plan["to"]
        smaller = {name: change for name, change in changes.items() if change[1] < change[0]}
        return smaller, state(self.stage, "new").get("allotment")


def is_resizing(found: Result) -> bool:
    return found["phase"] == "resizing"


@pytest.mark.parametrize("seed", range(examples(40)))
def test_check_mode_and_the_next_cycle_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with two_namespaces() as stage:
        crowd = Crowd(Desk(stage, monkeypatch), 1000 * SEED + seed)
        busy = [name for name in crowd.names if is_resizing(state(stage, name))]
        told = foreseen(crowd.desk, "new", **crowd.coming)
        queue(crowd.desk, "new", **crowd.coming)
        smaller, size = crowd.next_cycle()
        if busy:
            return
        assert {item["name"]: (item["from"], item["to"]) for item in told["would_shrink"]} == smaller
        if size is not None:
            assert told["allotment"] == size
        elif told["allotment"] is not None:
            assert smaller
