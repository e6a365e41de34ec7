# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every entry of the table of kinds, field by field, against objects as their operators write them."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import live_object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import wrap
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Kind,
    KindEnding,
    NeedsPodsets,
    Reader,
    Resizing,
    TemplateUse,
    by_conditions,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import (
    KINDS,
    UNKNOWN_KIND,
    expected_pods,
    is_finite,
    item_outcome,
    kind_named,
    kind_of,
    outcome_message,
    pod_templates,
    removes_itself,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import condition_contains
from ansible_collections.muster.kube.tests.support.gang_model import spec_of
from ansible_collections.muster.kube.tests.support.kind_cases import (
    KIND_CASES,
    KindCase,
    condition,
    template,
    thing,
    told,
)

Object = dict[str, t.Any]
FINITE = [case for case in KIND_CASES if case.succeeded is not None]
WITH_PODS = [case for case in KIND_CASES if case.pods is not None]


def each(cases: t.Iterable[KindCase]) -> t.Any:
    """A test for each case."""
    return pytest.mark.parametrize("case", cases, ids=lambda case: f"{case.object['kind']}-{case.key[0]}")


def wants(obj: Object) -> dict[str, int]:
    """The pods an object wants now."""
    return {want.name: want.now for want in expected_pods(obj)}


def essence(obj: Object) -> t.Any:
    """What a watch of the object's kind compares."""
    return live_object(copy.deepcopy(obj)).essence


def test_every_kind_that_makes_pods_has_a_case_and_every_field_a_test() -> None:
    assert {case.key for case in KIND_CASES} == {key for key, kind in KINDS.items() if kind.makes_pods}
    assert [field.name for field in dataclasses.fields(Kind)] == [
        "group",
        "name",
        "templates",
        "expected",
        "ending",
        "resizing",
        "deadline",
        "status_fields",
        "owners",
        "cluster_scoped",
    ]
    assert [field.name for field in dataclasses.fields(KindEnding)] == [
        "outcome",
        "message",
        "done_word",
        "by_pods",
        "applies",
        "ttl",
    ]
    assert [field.name for field in dataclasses.fields(Resizing)] == [
        "axis",
        "method",
        "counts",
        "bounds",
        "suspend",
        "autoscaled",
        "resources",
        "environment",
    ]


def test_entries_are_found_under_their_own_names() -> None:
    assert all((kind.group, kind.name) == key for key, kind in KINDS.items())


@each(KIND_CASES)
def test_templates(case: KindCase) -> None:
    if case.pods is None:
        with pytest.raises(NeedsPodsets):
            pod_templates(case.object, "it")
        return
    assert {use.name: use.count for use in pod_templates(case.object, "it")} == case.pods
    assert all(item.requests["cpu"] > 0 for item in infer_podsets([case.object], namespace="team"))


@each([case for case in WITH_PODS if case.pods is not None])
def test_numbers_of_pods_stand_where_the_entry_says_so(case: KindCase) -> None:
    for use in pod_templates(case.object, "it"):
        for path in kind_of(case.object).resizing.counts(case.object, use.path):
            assert isinstance(value_in(case.object, path), int)


def value_in(obj: t.Any, path: t.Iterable[t.Any]) -> t.Any:
    for part in path:
        obj = obj[part]
    return obj


def test_objects_that_are_resized_while_suspended_say_where() -> None:
    suspended = {key: kind.resizing.suspend for key, kind in KINDS.items() if kind.resizing.suspend is not None}
    assert suspended == {
        ("batch", "Job"): ("spec", "suspend"),
        ("kubeflow.org", "PyTorchJob"): ("spec", "runPolicy", "suspend"),
    }


@each(WITH_PODS)
def test_a_running_object_wants_all_its_pods(case: KindCase) -> None:
    assert wants(case.live(case.running)) == case.pods


@each([case for case in KIND_CASES if case.progress is not None])
def test_an_object_that_is_nearly_done_wants_fewer_and_a_watch_tells(case: KindCase) -> None:
    assert case.progress is not None
    assert wants(case.live(case.progress)) == case.left
    assert essence(case.live(case.progress)) != essence(case.live(case.running))


@each(FINITE)
def test_outcome(case: KindCase) -> None:
    assert case.succeeded is not None
    assert case.failed is not None
    statuses = (case.running, case.succeeded, case.failed)
    assert [item_outcome(case.live(status)) for status in statuses] == [None, "succeeded", "failed"]
    assert outcome_message(case.live(case.failed)) == case.message != ""
    assert is_finite(case.object)
    for status in (case.succeeded, case.failed):
        assert set(wants(case.live(status)).values()) == {0}


@each([case for case in KIND_CASES if case.succeeded is None])
def test_kinds_that_never_end_have_no_outcome(case: KindCase) -> None:
    assert kind_of(case.object).ending is None
    assert not is_finite(case.object)
    conditions = told(condition("Complete"), condition("Succeeded"), condition("Failed"))
    assert item_outcome(case.live({**conditions, "phase": "Succeeded"})) is None


@each(FINITE)
def test_a_watch_tells_how_an_object_ended(case: KindCase) -> None:
    assert case.succeeded is not None
    assert case.failed is not None
    seen = {essence(case.live(status)) for status in (case.running, case.succeeded, case.failed)}
    assert len(seen) == 3


def test_which_kinds_are_done_when_their_pods_have_ended_well() -> None:
    done = {key[1] for key, kind in KINDS.items() if kind.ending is not None and kind.ending.by_pods}
    assert {"Job", "JobSet", "Pod", "PyTorchJob", "TrainJob"} < done
    assert not {"AppWrapper", "RayCluster", "RayJob", "RayService", "LeaderWorkerSet"} & done


@each(KIND_CASES)
def test_deadline(case: KindCase) -> None:
    assert kind_of(case.object).deadline_seconds(case.object) == case.deadline


@each(KIND_CASES)
def test_the_word_for_done_is_part_of_a_condition_that_comes_at_the_end(case: KindCase) -> None:
    ending = kind_of(case.object).ending
    assert (ending.done_word if ending is not None else None) == case.done_word
    if case.done_word is not None and case.succeeded is not None and case.failed is not None:
        assert condition_contains(case.live(case.succeeded), case.done_word)
        assert not condition_contains(case.live(case.running), case.done_word)
        assert not condition_contains(case.live(case.failed), case.done_word)


@each(KIND_CASES)
def test_what_goes_by_itself_says_so_where_its_kind_does(case: KindCase) -> None:
    assert not removes_itself(case.object)
    if case.ttl is not None:
        short_lived = copy.deepcopy(case.object)
        place = short_lived
        for key in case.ttl[:-1]:
            place = place[key]
        place[case.ttl[-1]] = 0
        assert removes_itself(short_lived)


@each(KIND_CASES)
def test_owners_and_scope(case: KindCase) -> None:
    kind = kind_of(case.object)
    assert kind.owners == case.owners
    assert not kind.cluster_scoped


def test_podless_kinds_say_whether_they_lie_in_a_namespace() -> None:
    podless = [kind for kind in KINDS.values() if kind.makes_pods is False]
    for kind in podless:
        obj = {"apiVersion": f"{kind.group}/v1" if kind.group else "v1", "kind": kind.name}
        assert pod_templates(obj, "it") == []
        assert (kind.ending, kind.deadline, kind.owners) == (None, None, ())
    wide = {kind.name for kind in podless if kind.cluster_scoped}
    assert {"Namespace", "Node", "ClusterRole", "StorageClass", "ClusterQueue", "ClusterTrainingRuntime"} <= wide
    assert not wide & {"ConfigMap", "Secret", "Role", "LocalQueue", "TrainingRuntime", "PodGroup", "Lease"}


def test_unknown_kinds_have_defaults() -> None:
    obj = thing("example.com/v1", "Thing", {"activeDeadlineSeconds": 5, "ttlSecondsAfterFinished": 0})
    kind = kind_of(obj)
    assert kind is UNKNOWN_KIND
    assert (kind.makes_pods, kind.cluster_scoped, kind.owners, kind.deadline_seconds(obj)) == (None, False, (), None)
    live = {**obj, "metadata": {**obj["metadata"], "uid": "u"}, "status": told(condition("Complete"))}
    assert (item_outcome(live), is_finite(live), removes_itself(live)) == (None, False, False)
    for change in (told(condition("Failed")), told(condition("Complete"), state="Done")):
        assert essence({**live, "status": change}) != essence(live)


def simulation(reader: Reader) -> list[TemplateUse]:
    """The pods of a made-up kind."""
    path = ("spec", "template")
    return [TemplateUse(reader.name, reader.count(("spec", "ranks"), 1), reader.template(path), path)]


def test_one_entry_makes_a_kind_known_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = Kind(
        "lab.example.com",
        "Simulation",
        simulation,
        ending=by_conditions("Converged", "Diverged", "converged"),
        deadline=("spec", "patience"),
        status_fields=(("step",),),
        owners=(("batch/v1", "Job"),),
    )
    obj = thing("lab.example.com/v1", "Simulation", {"ranks": 4, "patience": 60, "template": template()})
    case = KindCase(obj, {"x": 4}, running=told(step=1))
    assert kind_of(obj).makes_pods is None
    monkeypatch.setitem(KINDS, kind.key, kind)
    assert [(item.name, item.count) for item in infer_podsets([obj], namespace="team")] == [("x", 4)]
    assert wants(case.live(case.running)) == {"x": 4}
    assert item_outcome(case.live(told(condition("Converged")))) == "succeeded"
    diverged = case.live(told(condition("Diverged", message="NaN")))
    assert (item_outcome(diverged), outcome_message(diverged), wants(diverged)) == ("failed", "NaN", {"x": 0})
    assert kind_of(obj).deadline_seconds(obj) == 60.0
    assert essence(case.live(told(step=2))) != essence(case.live(case.running))
    assert essence(case.live(told(step=1, note="x"))) == essence(case.live(case.running))
    plain = {**obj, "metadata": {"name": "x"}}
    (item,) = wrap(spec_of(plain))["spec"]["resources"]["GenericItems"]
    assert item["completionstatus"] == "converged"
    assert kind_named("lab.example.com/v1", "Simulation").owners == (("batch/v1", "Job"),)
