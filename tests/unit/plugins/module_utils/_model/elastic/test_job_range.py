# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ranges that objects carry, in every form, alone and together with what the user declares."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.job_range import range_of, with_carried_sizes
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import DeclaredRange, GlobalBatch, Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import BadRange
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES, GPU, at, with_gpus

CASES = {case.name: case for case in ELASTIC_CASES}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {}}
MASTER = ("spec", "pytorchReplicaSpecs", "Master", "template")


def annotated(name: str, **notes: str):
    """An object of a case with annotations."""
    obj = copy.deepcopy(CASES[name].object)
    obj["metadata"]["annotations"] = {key.replace("our_", "muster.kube/"): value for key, value in notes.items()}
    return obj


def pytorch(low: int = 1, high: int = 4):
    """A PyTorchJob with an elastic policy."""
    obj = copy.deepcopy(CASES["PyTorchJob"].object)
    obj["spec"]["elasticPolicy"] = {"minReplicas": low, "maxReplicas": high}
    return obj


def by_resources(name: str, low="2", high="4"):
    """An object whose requests are the minimum and whose limits are the maximum."""
    return with_gpus(CASES[name].object, CASES[name].template, low, high)


def of_kueue():
    """A Job for Kueue's partial admission."""
    obj = annotated("Job", **{"kueue.x-k8s.io/job-min-parallelism": "2"})
    obj["spec"].update(parallelism=6, completions=6)
    return obj


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (by_resources("Pod"), Range((2, 3, 4), GPU, "x", "per_pod")),
        (by_resources("PyTorchJob"), Range((2, 3, 4), GPU, "x/worker", "per_pod", unit=2)),
        (annotated("Job", our_min="2", our_max="8", our_step="3"), Range((2, 5, 8), GPU, "x", "per_pod", unit=2)),
        (annotated("Job", our_sizes="1, 2,8"), Range((1, 2, 8), GPU, "x", "per_pod", unit=2)),
        (annotated("LeaderWorkerSet", our_min="1", our_max="2"), Range((1, 2), GPU, "x/worker", "pods", unit=4 // 2)),
        (annotated("Pod", request="2", limit="4", replicas="1"), Range((2, 3, 4), GPU, "x", "per_pod")),
        (annotated("Pod", request="2", limit="4"), Range((2, 3, 4), GPU, "x", "per_pod")),
        (pytorch(), Range((1, 2, 3, 4), GPU, "x/worker", "pods")),
        (CASES["RayCluster"].object, Range((1, 2, 3, 4, 5), GPU, "x/small", "pods")),
        (of_kueue(), Range((2, 3, 4, 5, 6), GPU, "x", "pods")),
        (annotated("Pod", our_min="2", our_max="2"), Range((2,), GPU, "x", "per_pod", unit=0, fixed=2)),
        (annotated("Pod", request="2", limit="2"), None),
        (CASES["Job"].object, None),
        (CONFIG_MAP, None),
    ],
)
def test_a_range_is_read_from_the_object(obj, expected):
    assert range_of([obj]) == expected


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ({"podset": "worker"}, {"podset": "worker", "min": 1, "max": 4}),
        ({"step": 2}, {"step": 2, "min": 1, "max": 4}),
        ({"global_batch": {"value": 4}}, {"global_batch": {"value": 4}, "min": 1, "max": 4}),
        ({"min": 2}, {"min": 2}),
        ({"sizes": [1]}, {"sizes": [1]}),
        (None, None),
    ],
)
def test_a_range_without_sizes_has_those_of_the_object(written, found):
    elastic = {"timing": "now", "range": written}
    assert with_carried_sizes(elastic, [pytorch()], "default") == {"timing": "now", "range": found}


def test_sizes_and_steps_are_carried_too():
    stepped = [annotated("Job", our_min="2", our_max="8", our_step="3")]
    assert with_carried_sizes({"range": {"axis": None}}, stepped, "default")["range"]["step"] == 3
    listed = [annotated("Job", our_sizes="1,2,8")]
    assert with_carried_sizes({"range": {"axis": None}}, listed, "default")["range"]["sizes"] == [1, 2, 8]


@pytest.mark.parametrize("obj", [CASES["Job"].object, annotated("Job", our_min="3", our_max="2")])
def test_a_range_without_sizes_needs_an_object_that_has_them(obj):
    with pytest.raises(BadRange):
        with_carried_sizes({"range": {"podset": "x"}}, [obj], "default")


def test_gpus_beside_the_resized_pods_are_counted():
    both = with_gpus(pytorch(), MASTER, 2)
    assert range_of([both]) == Range((1, 2, 3, 4), GPU, "x/worker", "pods", unit=1, fixed=2)
    groups = with_gpus(CASES["LeaderWorkerSet"].object, ("spec", "leaderWorkerTemplate", "leaderTemplate"), 1)
    assert range_of([groups], DeclaredRange(1, 2)) == Range((1, 2), GPU, "x/leader", "pods", unit=3)


def test_the_users_range_may_be_narrower_than_the_objects():
    assert range_of([pytorch()], DeclaredRange(2, 4, 2)).sizes == (2, 4)
    assert range_of([pytorch()], DeclaredRange(1, 4, podset="worker")).podset == "x/worker"
    assert range_of([by_resources("Pod")], DeclaredRange(2, 4)).sizes == (2, 3, 4)


def test_bounds_of_other_groups_than_the_named_one_are_none_of_the_jobs():
    obj = copy.deepcopy(CASES["RayCluster"].object)
    other = copy.deepcopy(obj["spec"]["workerGroupSpecs"][0])
    obj["spec"]["workerGroupSpecs"].append({**other, "groupName": "large", "maxReplicas": 9})
    # The second group stands fast beside the first.
    assert range_of([obj], DeclaredRange(1, 5, podset="small")) == Range(
        (1, 2, 3, 4, 5), GPU, "x/small", "pods", fixed=3
    )
    with pytest.raises(BadRange, match=r"two ranges disagree: .*workerGroupSpecs\[0\] says 1\.\.5 \(pods of x/small\)"):
        range_of([obj])


def test_a_group_that_has_one_size_only_has_no_range():
    obj = copy.deepcopy(CASES["RayCluster"].object)
    obj["spec"]["workerGroupSpecs"][0].update(minReplicas=3, maxReplicas=3)
    assert range_of([obj]) is None
    assert range_of([obj], DeclaredRange(1, 4, axis="per_pod")).unit == 3


def mixed():
    """Pods with GPUs of two makers."""
    other = with_gpus(CASES["Job"].object, CASES["Job"].template)
    amounts = at(other, CASES["Job"].template)["spec"]["containers"][0]["resources"]
    amounts["requests"] = amounts["limits"] = {"amd.com/gpu": "1"}
    return [CASES["Pod"].object, other]


def twice():
    """A pod with two containers that ask for GPUs."""
    obj = copy.deepcopy(CASES["Pod"].object)
    obj["spec"]["containers"].append({**obj["spec"]["containers"][0], "name": "other"})
    return obj


def limited():
    """A Job that never runs more than three pods at once, whatever its parallelism."""
    obj = copy.deepcopy(CASES["Job"].object)
    obj["spec"].update(completionMode="NonIndexed", completions=3)
    return obj


def idle_gpus():
    """A job without GPUs."""
    obj = copy.deepcopy(CASES["Job"].object)
    del obj["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    del obj["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"][GPU]
    return obj


WISH = DeclaredRange(1, 4)


@pytest.mark.parametrize(
    ("objects", "declared", "cause"),
    [
        (
            [pytorch()],
            DeclaredRange(1, 5),
            r"range: two ranges disagree: range says 1\.\.5 .*elasticPolicy says 1\.\.4",
        ),
        ([pytorch()], DeclaredRange(1, 4, axis="per_pod"), "two ranges disagree"),
        ([by_resources("Pod")], DeclaredRange(1, 3), "two ranges disagree"),
        ([{**by_resources("Pod"), "metadata": annotated("Pod", request="2", limit="8")["metadata"]}], None, "disagree"),
        ([annotated("RayCluster", our_min="2", our_max="5")], None, "two ranges disagree"),
        ([CONFIG_MAP], WISH, "objects: none of them makes pods"),
        ([{**CONFIG_MAP, "metadata": annotated("Pod", our_min="1")["metadata"]}], None, "a ConfigMap makes no pods"),
        (mixed(), WISH, "their pods ask for different GPUs: amd.com/gpu, nvidia.com/gpu"),
        ([idle_gpus()], WISH, "no container asks for GPUs"),
        ([CASES["Pod"].object], DeclaredRange(1, 4, resource="amd.com/gpu"), "no container asks for amd.com/gpu"),
        ([CASES["Pod"].object], DeclaredRange(1, 4, podset="z"), "podset: the objects have no podset z"),
        ([CASES["Pod"].object], DeclaredRange(1, 4, axis="pods"), "axis: the number of these pods cannot be changed"),
        ([CASES["Pod"].object, CASES["Job"].object], WISH, "name the podset that is resized: x, x-2"),
        ([twice()], WISH, "several containers of x ask for nvidia.com/gpu"),
        ([limited()], DeclaredRange(1, 4, axis="pods"), "max: the pods of x do not follow the size"),
        ([annotated("Pod", our_min="a", our_max="4")], None, "muster.kube/min: a whole number is needed, not 'a'"),
        ([annotated("Pod", our_min="5", our_max="4")], None, "muster.kube/min: 5 is more than max, 4"),
        ([annotated("Pod", our_min="2")], None, "muster.kube/max: it is missing"),
        ([annotated("Pod", our_min="2,3", our_max="4")], None, "muster.kube/min: a whole number from 1 to 4096"),
        (
            [annotated("Pod", request="2", limit="4", replicas="3")],
            None,
            "replicas: it says 3, and the object has 1 pod",
        ),
        ([by_resources("Pod", "4", "2")], None, "min: 4 is more than max, 2"),
        ([pytorch(5, 4)], None, r"elasticPolicy: 5\.\.4 is no range"),
        ([pytorch(0, 4)], None, r"elasticPolicy: 0\.\.4 is no range"),
        (
            [CASES["Pod"].object],
            DeclaredRange(2, 4, sizes=(2, 3, 4), batch=GlobalBatch(64, "B")),
            r"64 cannot be shared evenly by 3 GPUs \(size 3\)",
        ),
        (
            [CASES["Pod"].object],
            DeclaredRange(3, 3, batch=GlobalBatch(64, "B")),
            r"64 cannot be shared evenly by 3 GPUs \(size 3\)",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(objects, declared, cause):
    with pytest.raises(BadRange, match=cause):
        range_of(objects, declared)


def test_mistakes_of_several_objects_are_told_together():
    wrong = [annotated("Pod", our_min="a", our_max="4"), by_resources("Job", "4", "2")]
    with pytest.raises(BadRange, match="2 things are wrong"):
        range_of(wrong)
