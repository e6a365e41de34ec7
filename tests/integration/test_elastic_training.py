# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A training in a pod that really runs: whatever sizes it gets, and killed now and then, it comes to the same."""

from __future__ import annotations

import copy
import pathlib
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.hazards import hazards
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import conditions
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.elastic_stage import AT_ONCE, GPU
from ansible_collections.muster.kube.tests.support.live_cluster import wait_until
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster
from ansible_collections.muster.kube.tests.support.real_training import NAME, Run, Training, give_gpus, undisturbed

Object = dict[str, t.Any]

# So many steps of the training lie between two checkpoints unless one is asked for.
OFTEN, NEVER = 10, 1_000_000


@pytest.fixture(name="training")
def on_four_gpus(real_cluster: RealCluster, real_namespace: str, tmp_path: pathlib.Path) -> t.Iterator[Training]:
    """A namespace of the cluster with the real node, which has four simulated GPUs."""
    stage = Stage(real_cluster.live, real_namespace)
    give_gpus(real_cluster, 4)
    made = Training(real_cluster, stage, tmp_path)
    made.install()
    yield made
    # Its pods are gone before the GPUs are.
    real_cluster.live.clear_namespace(real_namespace)
    wait_until("the pods to go", lambda: not real_cluster.live.pods(real_namespace))
    give_gpus(real_cluster, None)
    stage.close()


def pytorch_job(template: Object, restart: str = "OnFailure") -> Object:
    """A PyTorchJob that is its master alone."""
    master = {"replicas": 1, "restartPolicy": restart, "template": template}
    spec = {"pytorchReplicaSpecs": {"Master": master}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": NAME}, "spec": spec}


def job(template: Object) -> Object:
    """A Job of one pod, which has to be created anew since it is told its size by a variable."""
    made = copy.deepcopy(template)
    made["spec"]["restartPolicy"] = "OnFailure"
    spec = {"backoffLimit": 6, "template": made}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": NAME}, "spec": spec}


def start(training: Training, made: Object, timing: str) -> None:
    """Have it train with all GPUs."""
    elastic = {"timing": timing, "range": {"min": 2, "max": 4}, **AT_ONCE}
    training.stage.submit(NAME, made, elastic=elastic)
    training.stage.run_until({NAME: "running"})
    training.wait_for_steps(4, 1)


class Others:
    """Gangs that come and go, for which the training makes room."""

    def __init__(self, training: Training) -> None:
        """Nobody is there."""
        self.training = training
        self.stage = training.stage
        self._count = 0

    def come(self, gpus: int) -> None:
        """One comes, and the training goes on with what is left."""
        self._count += 1
        limits = {GPU: str(gpus)}
        image = self.training.cluster.busybox_image()
        box = {"name": "main", "image": image, "command": ["sleep", "1000000"], "resources": {"limits": limits}}
        spec = {"restartPolicy": "Never", "nodeSelector": ON_REAL_NODE, "terminationGracePeriodSeconds": 0}
        template = {"spec": {**spec, "containers": [box]}}
        body = {"backoffLimit": 0, "template": template}
        made = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": self._name}, "spec": body}
        self.stage.submit(self._name, made)
        self._settle({NAME: "running", self._name: "running"}, 4 - gpus)

    def go(self) -> None:
        """It goes, and the training takes its GPUs."""
        delete(self.stage.client, resource_path("v1", "configmaps", self.stage.namespace, self._name))
        self._settle({NAME: "running"}, 4)

    def _settle(self, phases: dict[str, str], size: int) -> None:
        starts = len(self.training.runs())
        self.stage.run_for(lambda _seen: self.stage.phases() == phases and self.stage.state(NAME).allotment == size)
        assert (self.stage.phases(), self.stage.state(NAME).allotment) == (phases, size)
        self.training.wait_for_steps(size, starts + 1)

    @property
    def _name(self) -> str:
        return f"other{self._count}"


def finish(training: Training) -> int:
    """Let it come to its end; after which step."""
    last = training.end()
    training.stage.run_until({NAME: "complete"})
    return last


def again(runs: list[Run], number: int) -> int:
    """How many steps of one start of the training the next one did again; it goes on with what was kept last."""
    kept = [step for run in runs[: number + 1] for step in run.saved]
    assert runs[number + 1].began == (kept[-1] if kept else 0)
    return runs[number].steps[-1] - runs[number + 1].began if runs[number].steps else 0


def check(training: Training, killed: list[int], folder: pathlib.Path, *, loses: bool) -> None:
    """It came to what it comes to undisturbed; only killed ones, and where loses is set others, did steps twice."""
    last = finish(training)
    assert training.result() == undisturbed(last, folder / "undisturbed")
    runs = training.runs()
    for run in runs:
        assert run.steps == list(range(run.began + 1, run.began + 1 + len(run.steps)))
    twice = [again(runs, number) for number in range(len(runs) - 1)]
    done = [step for run in runs for step in run.steps]
    assert (len(done) - len(set(done)), max(done)) == (sum(twice), last)
    if not loses:
        assert [count for number, count in enumerate(twice) if number not in killed] == [0] * (len(twice) - len(killed))


def test_a_training_that_saves_when_it_is_asked_to_loses_nothing(training: Training, tmp_path: pathlib.Path) -> None:
    others = Others(training)
    start(training, pytorch_job(training.template(sigterm="end", saves=NEVER)), "at_checkpoint")
    others.come(2)
    killed = [training.kill()]
    others.go()
    check(training, killed, tmp_path, loses=False)


@pytest.mark.full
@pytest.mark.parametrize(
    ("make", "timing", "sigterm"),
    [
        (pytorch_job, "now", "end"),
        (pytorch_job, "at_checkpoint", "end"),
        # It ends with 0 then, which an operator could take for its success.
        (pytorch_job, "on_sigterm", "save"),
        (job, "at_checkpoint", "end"),
        (job, "on_sigterm", "save"),
    ],
)
def test_after_five_sizes_and_two_kills_it_comes_to_the_same(
    training: Training, tmp_path: pathlib.Path, make: t.Callable[[Object], Object], timing: str, sigterm: str
) -> None:
    others = Others(training)
    start(training, make(training.template(sigterm=sigterm, saves=OFTEN)), timing)
    others.come(2)
    killed = [training.kill()]
    others.go()
    others.come(1)
    killed.append(training.kill())
    others.go()
    others.come(2)
    check(training, killed, tmp_path, loses=timing == "now")
    runs = training.runs()
    assert [run.processes for run in runs] == [4, 2, 2, 4, 3, 3, 4, 2]
    assert (killed, training.stage.state(NAME).attempt) == ([1, 4], 6 if make is job else 1)


# Traps that only a pod shows which really runs.


def create(training: Training, made: Object) -> Object:
    """The training as an object of nobody's gang."""
    made["metadata"]["namespace"] = training.stage.namespace
    (created,) = training.stage.cluster.create(made)
    training.wait_for_steps(1, 1)
    return created


def delete_its_pod(training: Training) -> None:
    """End its pod as somebody does who wants another one with another size."""
    (pod,) = training.pods()
    delete(training.stage.client, resource_path("v1", "pods", training.stage.namespace, pod["metadata"]["name"]))


def says(training: Training, made: Object, kind: str) -> bool:
    """Whether a condition is true of an object."""
    found = training.stage.find(made) or {}
    return any((item["type"], item["status"]) == (kind, "True") for item in conditions(found))


@pytest.mark.full
@pytest.mark.parametrize(
    ("restart", "sigterm", "ends"), [("Never", "end", "Failed"), ("OnFailure", "save", "Succeeded")]
)
def test_a_training_whose_pod_is_deleted_is_over_and_one_that_is_resized_is_not(
    training: Training, tmp_path: pathlib.Path, restart: str, sigterm: str, ends: str
) -> None:
    made = pytorch_job(training.template(sigterm=sigterm, saves=OFTEN), restart)
    create(training, copy.deepcopy(made))
    delete_its_pod(training)
    wait_until(f"the job to be {ends}", lambda: says(training, made, ends))
    assert not (training.folder / "result.json").exists()
    delete(training.stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", training.stage.namespace, NAME))
    # A pod that is ending still writes.
    wait_until("its pods to go", lambda: not training.stage.cluster.pods(training.stage.namespace))
    for name in ("log", "checkpoint.json"):
        (training.folder / name).unlink(missing_ok=True)

    others = Others(training)
    start(training, made, "on_sigterm")
    others.come(2)
    others.go()
    check(training, [], tmp_path, loses=sigterm == "end")


@pytest.mark.full
def test_a_shell_keeps_sigterm_to_itself_and_a_training_that_is_asked_needs_none(
    training: Training, tmp_path: pathlib.Path
) -> None:
    made = pytorch_job(training.template(sigterm="save", saves=NEVER, shell=True, grace=1))
    others = Others(training)
    start(training, made, "on_sigterm")
    spec = training.stage.record(NAME).spec
    assert spec is not None
    assert spec.elastic is not None
    assert any("SIGTERM does not arrive" in text for text in hazards(spec.objects, spec.elastic, spec.namespace))
    others.come(2)
    assert again(training.runs(), 0) > 0
    others.go()
    training.stage.edit(NAME, elastic={**spec.elastic.as_data(), "timing": "at_checkpoint"})
    others.come(2)
    others.go()
    finish(training)
    runs = training.runs()
    assert [again(runs, number) for number in range(2, 4)] == [0, 0]
