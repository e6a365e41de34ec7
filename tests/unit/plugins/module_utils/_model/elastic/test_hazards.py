# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What in the objects of a job makes resizes lose work, one hazard at a time."""

from __future__ import annotations

import copy
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.hazards import LASTING_VOLUMES, hazards
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec

GPU = "nvidia.com/gpu"
Object = dict[str, t.Any]
CONTAINER = {
    "name": "pytorch",
    "image": "i",
    "command": ["torchrun", "--nproc_per_node=$(NGPU)", "train.py"],
    "resources": {"limits": {GPU: "2"}},
    "volumeMounts": [{"name": "work", "mountPath": "/work"}],
}
POD = {
    "restartPolicy": "OnFailure",
    "terminationGracePeriodSeconds": 60,
    "containers": [CONTAINER],
    "volumes": [{"name": "work", "persistentVolumeClaim": {"claimName": "work"}}],
}
JOB: Object = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j"},
    "spec": {"completionMode": "Indexed", "parallelism": 2, "completions": 2, "template": {"spec": POD}},
}
PYTORCH: Object = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "p"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": POD}},
        }
    },
}


def told(obj: Object, timing: str = "on_sigterm", *, ends: bool = False, **range_: t.Any) -> tuple[str, ...]:
    """The warnings about a job; the one about how its pods end only where that is asked for."""
    elastic = {"range": {"min": 2, "max": 4, **range_}, "timing": timing}
    spec = read_spec({"name": "g", "namespace": "a", "objects": [obj], "elastic": elastic}, "gang a/g")
    assert spec.elastic is not None
    texts = hazards(spec.objects, spec.elastic, "a")
    return texts if ends else tuple(text for text in texts if ENDS_WELL not in text)


ENDS_WELL = "that end with 0 count as done"
RAY: Object = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "r"},
    "spec": {
        "headGroupSpec": {"template": {"spec": POD}},
        "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "maxReplicas": 4, "template": {"spec": POD}}],
    },
}


def with_pod(base: Object = JOB, **fields: t.Any) -> Object:
    """A copy with other fields of its pod; None takes one out."""
    obj = copy.deepcopy(base)
    replicas = obj["spec"].get("pytorchReplicaSpecs", {}).get("Master")
    pod = (replicas or obj["spec"])["template"]["spec"]
    for name, value in fields.items():
        if value is None:
            del pod[name]
        else:
            pod[name] = value
    return obj


def with_command(*command: str, args: t.Sequence[str] = (), base: Object = JOB) -> Object:
    """A copy that runs something else."""
    return with_pod(base, containers=[{**CONTAINER, "command": list(command), "args": list(args)}])


@pytest.mark.parametrize("obj", [JOB, PYTORCH])
def test_nothing_is_said_of_a_job_that_is_right(obj: Object) -> None:
    assert told(obj) == ()


@pytest.mark.parametrize("obj", [JOB, PYTORCH])
def test_a_trainer_whose_pods_end_well_may_end_its_job(obj: Object) -> None:
    (text,) = told(obj, ends=True)
    assert text.startswith(f"{obj['kind']} {obj['metadata']['name']}: pods of a {obj['kind']} that end with 0 count")
    for timing in ("now", "at_checkpoint"):
        assert told(obj, timing, ends=True) == ()


def test_where_the_pods_end_nothing_nothing_is_said_of_their_codes() -> None:
    assert told(RAY, ends=True, podset="r/w") == ()


def test_pods_that_are_not_tried_again() -> None:
    (text,) = told(with_pod(restartPolicy="Never"))
    assert text.startswith("Job j: spec.template.spec.restartPolicy is Never")
    beside = copy.deepcopy(PYTORCH)
    beside["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = "Never"
    (text,) = told(beside)
    assert text.startswith("PyTorchJob p: spec.pytorchReplicaSpecs.Master.restartPolicy is Never")
    # The operator overrides what the template says.
    assert told(with_pod(PYTORCH, restartPolicy="Never")) == ()


@pytest.mark.parametrize(
    ("command", "args", "deaf"),
    [
        (["sh", "-c", "python train.py"], [], True),
        (["/bin/bash", "-c", "cd /x && python train.py"], [], True),
        (["bash", "-euxc", "python train.py"], [], True),
        (["/usr/bin/env", "bash", "-c", "python train.py"], [], True),
        (["bash"], ["-c", "python train.py"], True),
        (["sh", "-c", "find / -exec ls ;"], [], True),
        (["sh", "-c", "exec python train.py"], [], False),
        (["bash", "-c", "cd /x && exec python train.py"], [], False),
        (["bash", "-c", "set -e\nexec python train.py"], [], False),
        (["bash", "-c", "trap 'kill -TERM $pid' TERM; python train.py & wait"], [], False),
        (["bash", "train.sh"], [], False),
        (["python", "-c", "import train"], [], False),
        ([], [], False),
    ],
)
def test_a_shell_that_keeps_sigterm(command: list[str], args: list[str], deaf: bool) -> None:
    texts = told(with_command(*command, args=args))
    assert ["a shell without exec" in text for text in texts] == [True] * deaf


@pytest.mark.parametrize(
    ("seconds", "timing", "words"),
    [
        (None, "on_sigterm", "it is not set, which makes it 30 s"),
        (10, "on_sigterm", "it is 10 s"),
        (30, "on_sigterm", None),
        (None, "now", None),
        (5, "at_checkpoint", None),
    ],
)
def test_too_little_time_to_save(seconds: int | None, timing: str, words: str | None) -> None:
    texts = told(with_pod(terminationGracePeriodSeconds=seconds), timing)
    assert [words in text for text in texts] == ([True] if words else [])


@pytest.mark.parametrize("kind", sorted(LASTING_VOLUMES))
def test_volumes_that_outlive_a_pod(kind: str) -> None:
    assert told(with_pod(volumes=[{"name": "work", kind: {}}])) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"volumes": None, "containers": [{**CONTAINER, "volumeMounts": []}]},
        {"volumes": [{"name": "work", "emptyDir": {}}]},
        {"volumes": [{"name": "work", "ephemeral": {}}]},
        {"volumes": [{"name": "other", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "work", "emptyDir": {}}]},
    ],
)
def test_checkpoints_that_go_with_the_pod(fields: dict[str, t.Any]) -> None:
    (text,) = told(with_pod(**fields))
    assert text.startswith("Job j: spec.template.spec.volumes: its containers mount no volume that outlives the pod")


def test_one_podset_that_keeps_files_is_enough() -> None:
    both = copy.deepcopy(PYTORCH)
    worker = {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": copy.deepcopy(POD)}}
    worker["template"]["spec"]["volumes"] = [{"name": "work", "emptyDir": {}}]
    both["spec"]["pytorchReplicaSpecs"]["Worker"] = worker
    assert told(both, podset="worker", axis="pods") == ()


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (["torchrun", "--nproc_per_node=2", "t.py"], "--nproc_per_node=2"),
        (["torchrun", "--nproc-per-node", "8", "t.py"], "--nproc-per-node 8"),
        (["bash", "-c", "exec accelerate launch --num_processes 4 t.py"], "--num_processes 4"),
        (["accelerate", "launch", "--num_processes=${NGPU}", "t.py"], None),
        (["torchrun", "--nproc_per_node=auto", "t.py"], None),
        (["torchrun", "--nproc_per_node=gpu", "t.py", "--seed=1"], None),
    ],
)
def test_numbers_that_do_not_follow_the_size(command: list[str], found: str | None) -> None:
    texts = told(with_command(*command))
    assert [f"its command says {found}: it stays the same" in text for text in texts] == ([True] if found else [])
    assert told(with_command(*command), axis="pods") == ()


def test_a_number_of_the_operator_that_does_not_follow_the_size() -> None:
    fixed = copy.deepcopy(PYTORCH)
    fixed["spec"]["nprocPerNode"] = "2"
    (text,) = told(fixed)
    assert text.startswith("PyTorchJob p: spec.nprocPerNode is 2")
    fixed["spec"]["nprocPerNode"] = "auto"
    assert told(fixed) == ()


def test_a_time_limit_that_begins_anew() -> None:
    limited = copy.deepcopy(JOB)
    limited["spec"]["activeDeadlineSeconds"] = 600
    (text,) = told(limited)
    assert text.startswith("Job j: spec.activeDeadlineSeconds is 600 s: it begins anew")
    assert "max_run_time" in text
    # It never stops when pods come and go.
    assert told(limited, axis="pods") == ()
    training = copy.deepcopy(PYTORCH)
    training["spec"]["runPolicy"] = {"activeDeadlineSeconds": 600}
    (text,) = told(training)
    assert text.startswith("PyTorchJob p: spec.runPolicy.activeDeadlineSeconds is 600 s")


def test_each_hazard_is_told_once() -> None:
    both = copy.deepcopy(PYTORCH)
    bad = {"containers": [{**CONTAINER, "command": ["sh", "-c", "python t.py"]}], "volumes": POD["volumes"]}
    both["spec"]["pytorchReplicaSpecs"] = {
        role: {"replicas": 1, "restartPolicy": "Never", "template": {"spec": bad}} for role in ("Master", "Worker")
    }
    assert len(told(both, podset="worker", axis="pods")) == 3
