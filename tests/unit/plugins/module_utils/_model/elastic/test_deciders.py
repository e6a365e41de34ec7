# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which ranges are refused since somebody else decides about the size: what Kueue manages, and autoscalers."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import resize_method
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.deciders import (
    QUEUE_LABEL,
    refuse_other_deciders,
    scale_obstacle,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.job_range import range_of
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import DeclaredRange, GlobalBatch
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES, GPU

CASES = {case.name: case for case in ELASTIC_CASES}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def managed(name, annotations=None, place="labels", value="team"):
    """An object that Kueue manages."""
    obj = copy.deepcopy(CASES[name].object)
    obj["metadata"].setdefault("annotations", {}).update(ELASTIC if annotations is None else annotations)
    obj["metadata"].setdefault(place, {})[QUEUE_LABEL] = value
    return obj


def range_of_two(obj, name, axis="pods", batch=None):
    """A range of two sizes of an object."""
    return range_of([obj], DeclaredRange(1, 2, resource=GPU, podset=CASES[name].podset, axis=axis, batch=batch))


def judge(name, axis="pods", batch=None, **options):
    """Look at an object with a range."""
    obj = managed(name, **options)
    refuse_other_deciders([obj], range_of_two(obj, name, axis, batch), "default")


@pytest.mark.parametrize(
    ("name", "axis", "words"),
    [
        ("Job", "per_pod", "not the GPUs of a pod"),
        ("PyTorchJob", "pods", "of a PyTorchJob Kueue lets no size change"),
        ("LeaderWorkerSet", "pods", "of a LeaderWorkerSet Kueue lets no size change"),
        ("Pod", "per_pod", "of a Pod Kueue lets no size change"),
    ],
)
def test_what_kueue_would_take_back_is_refused(name, axis, words):
    with pytest.raises(BadInput, match=words) as refused:
        judge(name, axis)
    assert (refused.value.action, name in refused.value.target) == ("resize", True)


@pytest.mark.parametrize("name", ["Job", "RayCluster"])
def test_the_pods_of_elastic_kinds_may_change_with_the_annotation(name):
    judge(name)
    obj = managed(name)
    for shrinks in (False, True):
        method = resize_method([obj], range_of_two(obj, name), suspended_jobs_change=True, shrinks=shrinks)
        assert method == "scale"
    for without in ({}, {"kueue.x-k8s.io/elastic-job": "false"}):
        with pytest.raises(BadInput, match="only with the annotation"):
            judge(name, annotations=without)


def test_variables_and_partial_admission_go_with_no_elastic_job_of_kueue():
    with pytest.raises(BadInput, match="leave global_batch out"):
        judge("Job", batch=GlobalBatch(8, "BATCH"))
    with pytest.raises(BadInput, match="job-min-parallelism out"):
        judge("Job", annotations={**ELASTIC, "kueue.x-k8s.io/job-min-parallelism": "1"})


def test_a_job_that_kueue_runs_elsewhere_is_refused():
    obj = managed("Job", value="")
    obj["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    with pytest.raises(BadInput, match="in another cluster"):
        refuse_other_deciders([obj], range_of_two(obj, "Job"), "default")


def test_kinds_that_kueue_calls_elastic_but_that_would_be_made_anew_are_none():
    obj = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "x", "annotations": ELASTIC}}
    assert scale_obstacle(obj).startswith("of a RayJob Kueue lets no size change in place")


def test_the_method_of_what_is_refused_is_none_in_place():
    obj = managed("Job", annotations={})
    assert resize_method([obj], range_of_two(obj, "Job"), suspended_jobs_change=True) == "recreate"


def test_an_annotation_of_old_versions_counts_and_an_empty_label_does_not():
    with pytest.raises(BadInput, match="Kueue"):
        judge("Pod", "per_pod", place="annotations")
    judge("Pod", "per_pod", value="")


def elastic_workers(metrics):
    """A PyTorchJob of workers that find each other, with metrics of an autoscaler."""
    obj = copy.deepcopy(CASES["PyTorchJob"].object)
    obj["spec"]["elasticPolicy"] = {
        "minReplicas": 1,
        "maxReplicas": 2,
        **({} if metrics is None else {"metrics": metrics}),
    }
    return obj


@pytest.mark.parametrize("axis", ["pods", "per_pod"])
def test_an_autoscaler_that_the_operator_would_make_is_refused(axis):
    obj = elastic_workers([{"type": "Resource", "resource": {"name": "cpu"}}])
    if axis == "per_pod":
        obj["spec"]["elasticPolicy"].update(minReplicas=2)
    with pytest.raises(BadInput, match="makes an autoscaler of it") as refused:
        refuse_other_deciders([obj], range_of_two(obj, "PyTorchJob", axis), "default")
    assert refused.value.target.endswith("spec.elasticPolicy.metrics")


@pytest.mark.parametrize("metrics", [None, []])
def test_without_metrics_there_is_no_autoscaler(metrics):
    obj = elastic_workers(metrics)
    refuse_other_deciders([obj], range_of_two(obj, "PyTorchJob"), "default")
