# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects of every resizable kind with GPUs in them, and what a size means to each."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ansible_collections.muster.kube.tests.support.kind_cases import BATCH, JOBSET, KUBEFLOW, POD, RAY, TRAINER

GPU = "nvidia.com/gpu"
Object = dict[str, t.Any]
Path = tuple[str | int, ...]


@dataclasses.dataclass(frozen=True)
class ElasticCase:
    """An object, the template of the resized podset, where its number of pods stands, and how its size is changed.

    pods is the number of pods that one unit of the number stands for. methods are for GPUs per pod, for GPUs per pod
    with variables, and for pods.
    """

    name: str
    object: Object
    podset: str
    template: Path
    counts: tuple[Path, ...]
    methods: tuple[str, str, str | None]
    pods: int = 1


def at(obj: t.Any, path: Path) -> t.Any:
    """The value at a path."""
    for part in path:
        obj = obj[part]
    return obj


def with_gpus(obj: Object, template: Path, low: int | str = 1, high: int | str | None = None) -> Object:
    """A copy whose container of a template asks for GPUs and is told their number."""
    changed = copy.deepcopy(obj)
    container = at(changed, template)["spec"]["containers"][0]
    container["resources"]["requests"][GPU] = str(low)
    container["resources"]["limits"] = {GPU: str(low if high is None else high)}
    container["env"] = [{"name": "NGPU", "value": "1"}, {"name": "HOME", "value": "/root"}]
    return changed


def indexed(obj: Object, spec: Path) -> Object:
    """A copy whose job specification is as trainers write it: one index for each pod."""
    changed = copy.deepcopy(obj)
    at(changed, spec).update(completionMode="Indexed", parallelism=2, completions=2)
    return changed


_JOB = indexed(BATCH[0].object, ("spec",))
_JOBS: Path = ("spec", "replicatedJobs", 1, "template", "spec")
_WORKERS: Path = ("spec", "pytorchReplicaSpecs", "Worker")
_GROUP: Path = ("spec", "workerGroupSpecs", 0)
_LEADERS: Path = ("spec", "leaderWorkerTemplate")
_TEMPLATE: Path = ("template",)


def _case(
    name: str, obj: Object, podset: str, template: Path, counts: tuple[Path, ...], *methods: t.Any
) -> ElasticCase:
    return ElasticCase(name, with_gpus(obj, template), podset, template, counts, methods[:3], *methods[3:])


ELASTIC_CASES = (
    _case("Pod", POD.object, "x", (), (), "recreate", "recreate", None),
    _case(
        "Job",
        _JOB,
        "x",
        ("spec", "template"),
        (("spec", "parallelism"), ("spec", "completions")),
        "suspend",
        "recreate",
        "scale",
    ),
    _case(
        "JobSet",
        indexed(JOBSET[0].object, _JOBS),
        "x/worker",
        (*_JOBS, "template"),
        ((*_JOBS, "parallelism"), (*_JOBS, "completions")),
        "recreate",
        "recreate",
        "recreate",
        2,
    ),
    _case(
        "LeaderWorkerSet",
        JOBSET[1].object,
        "x/worker",
        (*_LEADERS, "workerTemplate"),
        (("spec", "replicas"),),
        "recreate",
        "recreate",
        "scale",
        2,
    ),
    _case(
        "PyTorchJob",
        KUBEFLOW[0].object,
        "x/worker",
        (*_WORKERS, "template"),
        ((*_WORKERS, "replicas"),),
        "suspend",
        "suspend",
        "suspend",
    ),
    _case(
        "RayCluster",
        RAY[0].object,
        "x/small",
        (*_GROUP, "template"),
        ((*_GROUP, "replicas"), (*_GROUP, "maxReplicas")),
        "recreate",
        "recreate",
        "scale",
    ),
)
TRAIN_JOB = TRAINER[0].object
