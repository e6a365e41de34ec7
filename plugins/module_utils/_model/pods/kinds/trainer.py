# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pods of a TrainJob (Kubeflow Trainer 2): so many nodes of one size, made by a JobSet of its runtime.

The runtime is an object of its own, which may say all that the TrainJob leaves out. Demand is known where the TrainJob
says it, or where the runtime was read and what it says was filled in before (with_runtime).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    ACTION,
    ExpectedPods,
    Kind,
    NeedsPodsets,
    Object,
    Path,
    Reader,
    Resizing,
    TemplateUse,
    by_conditions,
    replicas_at,
    with_labels,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.jobset import succeeded_jobs
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import value_at

TRAIN_JOB = ("trainer.kubeflow.org", "TrainJob")
# The job of a runtime whose pods are the nodes, and its label.
_NODE = "node"
_STEP_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
# What a patch of the runtime may say about placing pods.
_PATCHED = ("affinity", "nodeSelector", "tolerations", "volumes")


def _train_job(reader: Reader) -> list[TemplateUse]:
    """The nodes; jobs that prepare data and model end before they begin."""
    trainer: Path = ("spec", "trainer")
    runtime = reader.text(("spec", "runtimeRef", "name"))
    size = reader.mapping((*trainer, "resourcesPerNode"), required=False)
    if reader.get((*trainer, "numNodes")) is None or not size:
        cause = (
            f"its runtime {runtime} decides about its nodes; set spec.trainer.numNodes and "
            "spec.trainer.resourcesPerNode, or declare podsets for it"
        )
        raise NeedsPodsets(ACTION, reader.where, cause)
    spec: dict[str, t.Any] = {"containers": [{"name": _NODE, "resources": dict(size)}]}
    for patch in _patches(reader):
        spec.update({field: patch[field] for field in _PATCHED if patch.get(field) is not None})
    labels = {"jobset.sigs.k8s.io/jobset-name": reader.name, "jobset.sigs.k8s.io/replicatedjob-name": _NODE}
    template = with_labels({"spec": spec}, {}, labels)
    return [TemplateUse(f"{reader.name}/{_NODE}", reader.count((*trainer, "numNodes"), 1), template, None)]


def _patches(reader: Reader) -> Iterator[Object]:
    """What the TrainJob changes in the pods of its nodes: overrides up to version 2.1, patches since."""
    for entry in reader.items(("spec", "podTemplateOverrides"), required=False):
        targets = [reader.get((*target, "name")) for target in reader.items((*entry, "targetJobs"), required=False)]
        if _NODE in targets:
            yield reader.mapping((*entry, "spec"), required=False)
    for entry in reader.items(("spec", "runtimePatches"), required=False):
        jobs = (*entry, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for job in reader.items(jobs, required=False):
            if reader.get((*job, "name")) == _NODE:
                yield reader.mapping((*job, "template", "spec", "template", "spec"), required=False)


def _expected(obj: Object, uses: Sequence[TemplateUse]) -> list[ExpectedPods]:
    """The nodes are one job, which waits for those that prepare data and model."""
    done = succeeded_jobs(value_at(obj, ("status", "jobsStatus"))).get(_NODE)
    waits = bool(value_at(obj, ("spec", "initializer")))
    counts = [(use.name, 0 if done else use.count) for use in uses]
    return [ExpectedPods(name, now, 0 if waits else now) for name, now in counts]


def runtime_of(obj: Object) -> tuple[str, str] | None:
    """Kind and name of the runtime that must be read to know an object's demand; None when nothing is missing."""
    trainer, runtime = value_at(obj, ("spec", "trainer")), value_at(obj, ("spec", "runtimeRef"))
    given = {} if trainer is None else trainer
    if not isinstance(given, Mapping) or not isinstance(runtime, Mapping) or not runtime.get("name"):
        return None
    if given.get("numNodes") is not None and given.get("resourcesPerNode"):
        return None
    return str(runtime.get("kind") or "ClusterTrainingRuntime"), str(runtime["name"])


def with_runtime(obj: Object, runtime: Object) -> dict[str, t.Any]:
    """A copy of a TrainJob that says itself how many nodes of which size its runtime would give it."""
    trainer = dict(value_at(obj, ("spec", "trainer")) or {})
    if trainer.get("numNodes") is None:
        nodes = value_at(runtime, ("spec", "mlPolicy", "numNodes"))
        trainer["numNodes"] = 1 if nodes is None else nodes
    size = _node_resources(runtime)
    if not trainer.get("resourcesPerNode") and size:
        trainer["resourcesPerNode"] = size
    return {**obj, "spec": {**obj["spec"], "trainer": trainer}}


def _node_resources(runtime: Object) -> t.Any:
    """What the runtime's container of a node asks for; None when it says nothing."""
    for job in value_at(runtime, ("spec", "template", "spec", "replicatedJobs")) or ():
        is_trainer = value_at(job, ("template", "metadata", "labels", _STEP_LABEL)) == "trainer"
        for container in value_at(job, ("template", "spec", "template", "spec", "containers")) or ():
            if is_trainer and value_at(container, ("name",)) == _NODE:
                return container.get("resources")
    return None


TRAINER_KINDS = (
    Kind(
        *TRAIN_JOB,
        _train_job,
        _expected,
        ending=by_conditions("Complete", "Failed", "complete", ttl=None),
        resizing=Resizing(
            counts=replicas_at("spec", "trainer", "numNodes"),
            resources=("spec", "trainer", "resourcesPerNode"),
            environment=("spec", "trainer", "env"),
        ),
        deadline=("spec", "activeDeadlineSeconds"),
        status_fields=(("jobsStatus",),),
        owners=(("jobset.x-k8s.io/v1alpha2", "JobSet"), ("batch/v1", "Job")),
    ),
)
