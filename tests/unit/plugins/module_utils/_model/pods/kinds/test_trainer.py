# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TrainJobs: what they say about their nodes themselves, and what their runtime says for them."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import NeedsPodsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import expected_pods, pod_templates
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.trainer import runtime_of, with_runtime
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.tests.support.kind_cases import template, thing

Object = dict[str, t.Any]
SIZE = {"requests": {"cpu": "4", "memory": "8Gi"}, "limits": {"nvidia.com/gpu": "2"}}
LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"


def train_job(trainer: Object | None = None, **spec: t.Any) -> Object:
    """A TrainJob of the runtime torch."""
    given = {"runtimeRef": {"name": "torch"}, **({"trainer": trainer} if trainer is not None else {}), **spec}
    return thing("trainer.kubeflow.org/v1alpha1", "TrainJob", given)


def runtime(nodes: int | None = None, resources: Object | None = None) -> Object:
    """A runtime whose nodes come after a job that fetches data."""
    jobs = []
    for name, step in (("dataset-initializer", "dataset-initializer"), ("node", "trainer")):
        pods = template()
        pods["spec"]["containers"] = [{"name": "helper", "resources": {"requests": {"cpu": "9"}}}, {"name": name}]
        if resources is not None:
            pods["spec"]["containers"][1]["resources"] = resources
        jobs.append({"name": name, "template": {"metadata": {"labels": {LABEL: step}}, "spec": {"template": pods}}})
    policy = {"torch": {"numProcPerNode": "auto"}, **({"numNodes": nodes} if nodes is not None else {})}
    spec = {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": jobs}}}
    return thing("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime", spec)


def test_nodes_are_counted_and_sized_as_the_job_says() -> None:
    (found,) = infer_podsets([train_job({"numNodes": 3, "resourcesPerNode": SIZE})], namespace="team")
    assert (found.name, found.count, found.path) == ("x/node", 3, None)
    assert (found.requests["cpu"], found.requests["nvidia.com/gpu"]) == (4000, 2)
    assert found.template["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == "x"


@pytest.mark.parametrize("trainer", [None, {}, {"numNodes": 3}, {"resourcesPerNode": SIZE}])
def test_what_the_runtime_decides_has_to_be_said_or_declared(trainer: Object | None) -> None:
    with pytest.raises(NeedsPodsets) as caught:
        pod_templates(train_job(trainer), "TrainJob team/x")
    cause = "its runtime torch decides about its nodes; set spec.trainer.numNodes and spec.trainer.resourcesPerNode, "
    assert caught.value.cause == f"{cause}or declare podsets for it"


def patch(name: str, **spec: t.Any) -> Object:
    """A patch of one job of the runtime."""
    job = {"name": name, "template": {"spec": {"template": {"spec": spec}}}}
    return {"manager": "me", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}}}


@pytest.mark.parametrize(
    "changes",
    [
        {
            "podTemplateOverrides": [
                {"targetJobs": [{"name": "node"}], "spec": {"nodeSelector": {"pool": "a"}, "serviceAccountName": "s"}},
                {"targetJobs": [{"name": "dataset-initializer"}], "spec": {"nodeSelector": {"pool": "b"}}},
            ]
        },
        {"runtimePatches": [patch("node", nodeSelector={"pool": "a"}), patch("launcher", nodeSelector={"pool": "b"})]},
    ],
)
def test_patches_of_the_nodes_count(changes: Object) -> None:
    (use,) = pod_templates(train_job({"numNodes": 1, "resourcesPerNode": SIZE}, **changes), "it")
    assert use.template["spec"]["nodeSelector"] == {"pool": "a"}


def test_nodes_wait_for_what_is_fetched_before() -> None:
    trainer = {"numNodes": 2, "resourcesPerNode": SIZE}
    fetching = train_job(trainer, initializer={"dataset": {"storageUri": "s3://data"}})
    assert [want.prompt for want in expected_pods(train_job(trainer))] == [2]
    assert [(want.now, want.prompt) for want in expected_pods(fetching)] == [(2, 0)]


def test_only_what_is_missing_is_asked_of_the_runtime() -> None:
    assert runtime_of(train_job()) == ("ClusterTrainingRuntime", "torch")
    own = {"kind": "TrainingRuntime", "name": "mine"}
    assert runtime_of(train_job({"numNodes": 2}, runtimeRef=own)) == ("TrainingRuntime", "mine")
    assert runtime_of(train_job({"numNodes": 2, "resourcesPerNode": SIZE})) is None
    assert runtime_of(thing("batch/v1", "Job", {})) is None
    assert runtime_of({**train_job(), "spec": {"runtimeRef": {"name": "torch"}, "trainer": "mine"}}) is None


@pytest.mark.parametrize(
    ("trainer", "found", "expected"),
    [
        (None, runtime(4, SIZE), (4, SIZE)),
        (None, runtime(None, SIZE), (1, SIZE)),
        ({"numNodes": 2}, runtime(4, SIZE), (2, SIZE)),
        ({"resourcesPerNode": {"requests": {"cpu": "1"}}}, runtime(4, SIZE), (4, {"requests": {"cpu": "1"}})),
        (None, runtime(4), (4, None)),
    ],
)
def test_a_runtime_fills_in_what_the_job_leaves_out(
    trainer: Object | None, found: Object, expected: tuple[int, Object | None]
) -> None:
    obj = train_job(trainer)
    before = copy.deepcopy(obj)
    filled = with_runtime(obj, found)["spec"]["trainer"]
    assert (filled["numNodes"], filled.get("resourcesPerNode")) == expected
    assert obj == before
