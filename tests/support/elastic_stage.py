# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Elastic gangs on a stage: what they are made of, which sizes they have, and trainers that save when asked to."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.checkpoint import (
    CheckpointOptions,
    run_checkpoint,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.gang_cases import pod_template

Object = dict[str, t.Any]

GPU = "nvidia.com/gpu"
# Growing and shrinking is worth it at any moment.
AT_ONCE = {"cooldown": 0, "restart_cost": 0}


def job_of_one_pod(stage: Stage, name: str, seconds: float | None) -> Object:
    """A Job whose pod has two GPUs."""
    return stage.job(name, 1, seconds=seconds, **{"cpu": "100m", GPU: "2"})


def job_of_pods(stage: Stage, name: str, seconds: float | None) -> Object:
    """A Job of two pods with a GPU each, of which it may have more."""
    made = stage.job(name, 2, seconds=seconds, **{"cpu": "100m", GPU: "1"})
    made["spec"]["completionMode"] = "Indexed"
    return made


def pytorch_job(stage: Stage, name: str, seconds: float | None) -> Object:
    """A PyTorchJob that is its master alone, with two GPUs."""
    notes = None if seconds is None else {"muster.kube/run-seconds": f"{seconds:g}"}
    template = pod_template(stage.pool, {"cpu": "100m", GPU: "2"}, notes)
    del template["spec"]["restartPolicy"]
    template["spec"]["containers"][0]["name"] = "pytorch"
    master = {"replicas": 1, "restartPolicy": "Never", "template": template}
    spec = {"pytorchReplicaSpecs": {"Master": master}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": name}, "spec": spec}


def sizes(stage: Stage) -> dict[str, int]:
    """The GPUs of the pods that run, by their gangs."""
    found: dict[str, int] = {}
    for pod in stage.pods():
        asked = pod["spec"]["containers"][0]["resources"].get("limits", {}).get(GPU, 0)
        if pod["status"].get("phase") == "Running" and GANG_LABEL in (pod["metadata"].get("labels") or {}):
            name = pod["metadata"]["name"].partition("-")[0]
            found[name] = found.get(name, 0) + int(asked)
    return found


def save(stage: Stage) -> None:
    """Store a checkpoint of each gang that is asked for one, and tell of it."""
    for name in [name for name, phase in stage.phases().items() if phase == "running"]:
        if stage.state(name).planned is None:
            continue
        told = report(stage, name)
        if told["save_now"]:
            told = report(stage, name, step=(told["progress"]["step"] or 0) + 10, saved=True)
            assert not told["save_now"]


def report(stage: Stage, name: str, **told: t.Any) -> Object:
    """What a play tells of a training, and what it is answered."""
    return run_checkpoint(stage.client, CheckpointOptions(name, stage.namespace, **told)).as_result(diff=False)


def settle(stage: Stage, count: int, wanted: t.Callable[[dict[str, int]], bool]) -> None:
    """Dispatch until so many gangs run, and their sizes are as they should be; who is asked to save does."""

    def is_done(phases: t.Mapping[str, str]) -> bool:
        save(stage)
        return list(phases.values()).count("running") == count and wanted(sizes(stage))

    stage.run_for(is_done)
    assert wanted(sizes(stage)), sizes(stage)
