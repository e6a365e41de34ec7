# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A size in the objects of a gang: every kind, both axes, variables, and nothing else changed."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import allotted, resize_method
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.job_range import range_of
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import DeclaredRange, GlobalBatch, Range
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets, total_demand
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.elastic_cases import ELASTIC_CASES, GPU, TRAIN_JOB, ElasticCase, at
from ansible_collections.muster.kube.tests.support.kind_cases import WRAPPER
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
WITH_COUNTS = [case for case in ELASTIC_CASES if case.counts]


def each(cases: t.Iterable[ElasticCase]) -> t.Any:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def range_for(case: ElasticCase, axis: str, batch: GlobalBatch | None = None) -> Range:
    """Sizes 1 to 4 of a case; without bounds of its own that could forbid them."""
    found = range_of([case.object], DeclaredRange(1, 4, podset=case.podset, axis=axis, batch=batch))
    assert found is not None
    return found


def gpus(objects: t.Sequence[t.Any]) -> int:
    return total_demand(infer_podsets(objects, namespace="team")).get(GPU, 0)


def without_pods_bounds(case: ElasticCase) -> ElasticCase:
    """A Ray group has bounds of its own, which are a range of pods."""
    changed = copy.deepcopy(case)
    for group in changed.object["spec"].get("workerGroupSpecs", ()):
        del group["maxReplicas"], group["minReplicas"]
    return changed


@each([without_pods_bounds(case) for case in ELASTIC_CASES])
def test_gpus_of_each_pod_and_the_variable_follow_the_size(case):
    range_ = range_for(case, "per_pod")
    before = copy.deepcopy(case.object)
    (sized,) = allotted([case.object], range_, 3)
    container = at(sized, case.template)["spec"]["containers"][0]
    assert container["resources"]["requests"][GPU] == container["resources"]["limits"][GPU] == "3"
    assert container["env"] == [{"name": "NGPU", "value": "3"}, {"name": "HOME", "value": "/root"}]
    assert gpus([sized]) == range_.gpus(3)
    assert case.object == before
    container["resources"]["requests"][GPU] = container["resources"]["limits"][GPU] = "1"
    container["env"][0]["value"] = "1"
    assert sized == case.object


@each(WITH_COUNTS)
def test_numbers_of_pods_follow_the_size_and_nothing_else_does(case):
    range_ = range_for(case, "pods")
    assert range_.unit == case.pods
    (sized,) = allotted([case.object], range_, 3)
    assert [at(sized, path) for path in case.counts] == [3] * len(case.counts)
    assert gpus([sized]) == range_.gpus(3) == 3 * case.pods
    for path in case.counts:
        at(sized, path[:-1])[path[-1]] = at(case.object, path)
    assert sized == case.object


@settings(max_examples=examples(40))
@given(st.sampled_from(WITH_COUNTS), st.sampled_from(("per_pod", "pods")), st.integers(1, 4), st.integers(1, 4))
def test_a_size_is_the_same_whatever_the_size_was_before(case, axis, first, second):
    case = without_pods_bounds(case) if axis == "per_pod" else case
    range_ = range_for(case, axis, GlobalBatch(48, "BATCH", "STEPS"))
    objects = [SERVICE, case.object]
    once = allotted(objects, range_, first)
    assert allotted(once, range_, first) == once
    assert allotted(allotted(objects, range_, second), range_, first) == once
    assert allotted(allotted(once, range_, range_.max), range_, range_.min) == allotted(objects, range_, range_.min)
    assert once[0] == SERVICE


@each(ELASTIC_CASES)
def test_the_method_is_the_kinds(case):
    plain = without_pods_bounds(case)
    untold = copy.deepcopy(plain.object)
    del at(untold, case.template)["spec"]["containers"][0]["env"]
    per_pod = range_for(plain, "per_pod")
    quiet, told, pods = case.methods
    assert resize_method([untold], per_pod, suspended_jobs_change=True) == quiet
    assert resize_method([plain.object], per_pod, suspended_jobs_change=True) == told
    if case.counts:
        assert resize_method([case.object], range_for(case, "pods"), suspended_jobs_change=False) == pods
        batch = range_for(case, "pods", GlobalBatch(48, "B"))
        assert resize_method([case.object], batch, suspended_jobs_change=True) != "scale"


def test_a_job_is_recreated_where_suspended_jobs_do_not_change():
    (case,) = (case for case in ELASTIC_CASES if case.name == "Job")
    del at(untold := copy.deepcopy(case.object), case.template)["spec"]["containers"][0]["env"]
    assert resize_method([untold], range_for(case, "per_pod"), suspended_jobs_change=False) == "recreate"


def test_workers_of_an_elastic_policy_are_scaled_in_place():
    (case,) = (copy.deepcopy(case) for case in ELASTIC_CASES if case.name == "PyTorchJob")
    case.object["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 4}
    pods = range_for(case, "pods")
    assert resize_method([case.object], pods, suspended_jobs_change=False) == "scale"
    # A worker that is to leave and ends with 0 would end the job.
    assert resize_method([case.object], pods, suspended_jobs_change=False, shrinks=True) == "suspend"
    assert kind_of(case.object).resizing.suspend == ("spec", "runPolicy", "suspend")


def test_a_train_job_is_resized_where_it_declares_its_nodes():
    (size,) = allotted([TRAIN_JOB], range_of([TRAIN_JOB], DeclaredRange(1, 4)), 4)
    assert size["spec"]["trainer"]["resourcesPerNode"]["requests"][GPU] == "4"
    assert size["spec"]["trainer"]["resourcesPerNode"]["limits"] == {GPU: "4"}
    nodes = range_of([TRAIN_JOB], DeclaredRange(1, 4, axis="pods"))
    assert allotted([TRAIN_JOB], nodes, 2)[0]["spec"]["trainer"]["numNodes"] == 2
    assert resize_method([TRAIN_JOB], nodes, suspended_jobs_change=True) == "recreate"


def test_wrapped_objects_get_other_gpus_inside_but_no_other_number_of_pods():
    (job,) = (case.object for case in ELASTIC_CASES if case.name == "Job")
    wrapper = copy.deepcopy(WRAPPER[1].object)
    wrapper["spec"]["components"][0]["template"] = job
    range_ = range_of([wrapper], DeclaredRange(1, 4))
    (sized,) = allotted([wrapper], range_, 4)
    assert gpus([sized]) == range_.gpus(4) == 8
    assert resize_method([wrapper], range_, suspended_jobs_change=True) == "recreate"
    with pytest.raises(BadInput, match="the number of these pods cannot be changed"):
        range_of([wrapper], DeclaredRange(1, 4, axis="pods"))


def test_the_global_batch_reaches_the_trainer_at_every_size():
    (case,) = (copy.deepcopy(case) for case in ELASTIC_CASES if case.name == "Job")
    env = at(case.object, case.template)["spec"]["containers"][0]["env"]
    env.append({"name": "BATCH", "value": "8"})
    env.append({"name": "STEPS", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}})
    range_ = range_for(case, "per_pod", GlobalBatch(64, "BATCH", "STEPS"))
    # Two pods: 2, 4 and 8 GPUs share 64 evenly, 6 do not.
    assert range_.sizes == (1, 2, 4)
    told = {}
    for size in range_.sizes:
        (sized,) = allotted([case.object], range_, size)
        env = at(sized, case.template)["spec"]["containers"][0]["env"]
        told[size] = {item["name"]: item["value"] for item in env if item["name"] in ("BATCH", "STEPS", "NGPU")}
    assert told == {
        1: {"NGPU": "1", "BATCH": "8", "STEPS": "4"},
        2: {"NGPU": "2", "BATCH": "8", "STEPS": "2"},
        4: {"NGPU": "4", "BATCH": "8", "STEPS": "1"},
    }


def test_sizes_outside_the_range_and_unknown_podsets_are_refused():
    case = ELASTIC_CASES[0]
    range_ = range_for(case, "per_pod")
    with pytest.raises(BadInput, match="Cannot give size 5: allowed are 1, 2, 3, 4"):
        allotted([case.object], range_, 5)
    with pytest.raises(BadInput, match="Cannot resize podset y: the objects have none of this name"):
        allotted([case.object], Range((1,), GPU, "y", "per_pod"), 1)
