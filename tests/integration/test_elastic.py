# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizes for real: trainings share ten GPUs, grow when one of them ends, and shrink for one that comes."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.deciders import ELASTIC_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import SUBMITTED_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import conditions
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.modules import elastic_job, elastic_job_info
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.elastic_stage import (
    AT_ONCE,
    GPU,
    job_of_one_pod,
    job_of_pods,
    pytorch_job,
    report,
    settle,
    sizes,
)
from ansible_collections.muster.kube.tests.support.kueue_queue import QUEUE_LABEL, kueue_queue
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster
from ansible_collections.muster.kube.tests.support.module_call import call_module

Object = dict[str, t.Any]
Maker = t.Callable[[Stage, str, float | None], Object]


@pytest.fixture(name="cluster", scope="module")
def with_operators(operator_cluster: LiveCluster) -> LiveCluster:
    """The cluster with operators."""
    return operator_cluster


@pytest.fixture(name="stage")
def one_node(cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A node of ten GPUs."""
    made = Stage(cluster, namespace)
    made.add_nodes(1, cpu="64", **{GPU: "10"})
    yield made
    made.close()


def ray_cluster(stage: Stage, name: str, _seconds: float | None) -> Object:
    """A RayCluster of two workers with a GPU each; it ends when it is deleted."""
    made = stage.ray_cluster(name, 2, cpu="100m", minReplicas=2, maxReplicas=4)
    worker = made["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]
    worker["resources"]["requests"][GPU] = worker["resources"]["limits"][GPU] = "1"
    return made


def job_set(stage: Stage, name: str, seconds: float | None) -> Object:
    """A JobSet of one job whose pod has two GPUs."""
    job = job_of_one_pod(stage, name, seconds)["spec"]
    jobs = [{"name": "workers", "replicas": 1, "template": {"spec": job}}]
    made = {"metadata": {"name": name}, "spec": {"replicatedJobs": jobs}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **made}


# How the size of each is changed on this server.
METHODS = {
    job_of_one_pod: "suspend",
    job_of_pods: "scale",
    pytorch_job: "suspend",
    ray_cluster: "scale",
    job_set: "recreate",
}
KINDS = [job_of_one_pod, job_of_pods, pytorch_job, ray_cluster, pytest.param(job_set, marks=pytest.mark.full)]


@pytest.mark.parametrize("timing", ["now", "at_checkpoint", "on_sigterm"])
@pytest.mark.parametrize("made", KINDS)
def test_three_share_two_grow_and_one_shrinks(stage: Stage, made: Maker, timing: str) -> None:
    range_ = {"min": 2, "max": 4, **({"axis": "pods"} if made is job_of_pods else {})}
    # The bounds of its workers are the range of a RayCluster.
    elastic = {"timing": timing, **AT_ONCE, **({} if made is ray_cluster else {"range": range_})}
    for turn, (name, seconds) in enumerate((("one", 5), ("two", None), ("three", None))):
        record = stage.submit(name, made(stage, name, seconds), elastic=elastic)
        # The server's own stamp is too coarse to keep an order.
        stage.annotate(name, **{SUBMITTED_ANNOTATION: micro_time_text(int((record.submitted + turn) * 1_000_000))})
    stage.run_until({"one": "running", "two": "running", "three": "running"})
    assert [stage.state(name).allotment for name in ("one", "two", "three")] == [4, 3, 3]
    if made is ray_cluster:
        delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "one"))
    settle(stage, 2, lambda found: found == {"two": 4, "three": 4})
    # Unless they had to be created anew they are still those that were started.
    attempt = 2 if METHODS[made] == "recreate" else 1
    assert [stage.state(name).allotment for name in ("two", "three")] == [4, 4]
    assert [stage.state(name).attempt for name in ("two", "three")] == [attempt, attempt]
    stage.occupy("other", stage.nodes()[0]["metadata"]["name"], **{GPU: "2"})
    # A range of one size is one of fixed size.
    fixed = {"timing": timing, **AT_ONCE, "range": {"min": 2, "max": 2}} if made is job_of_one_pod else None
    stage.submit("new", made(stage, "new", None), elastic=fixed)
    settle(stage, 3, lambda found: sorted(found.values()) == [2, 2, 4] and found.get("new") == 2)
    shrunk = next(name for name in ("two", "three") if stage.state(name).allotment == 2)
    resize = stage.state(shrunk).resize
    assert resize is not None
    assert (resize.size, resize.to, resize.method) == (4, 2, METHODS[made])
    if timing == "at_checkpoint":
        # One for each of its two changes.
        assert (report(stage, shrunk)["progress"]["step"], resize.lost_seconds) == (20, 0)


def test_an_elastic_job_of_kueue_grows_and_shrinks_in_place(stage: Stage) -> None:
    stage.cluster.create(*kueue_queue("queue", stage.namespace, cpu=64, **{GPU: 10}))
    stage.submit("other", stage.job("other", 1, **{"cpu": "100m", GPU: "8"}))
    stage.run_until({"other": "running"})
    made = job_of_pods(stage, "one", None)
    made["metadata"].update(labels={QUEUE_LABEL: "queue"}, annotations={ELASTIC_ANNOTATION: "true"})
    elastic = {"timing": "now", **AT_ONCE, "range": {"min": 2, "max": 4, "axis": "pods"}}
    stage.submit("one", made, elastic=elastic)
    stage.run_until({"one": "running"})
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "other"))
    settle(stage, 1, lambda found: found == {"one": 4})
    stage.submit("new", stage.job("new", 1, **{"cpu": "100m", GPU: "8"}))
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    resize, job = stage.state("one").resize, stage.find(made)
    assert resize is not None
    assert (resize.method, stage.state("one").attempt) == ("scale", 1)
    assert job is not None
    # Kueue has never taken it back.
    assert (job["spec"]["suspend"], job["spec"]["parallelism"]) == (False, 2)
    assert not [item for item in conditions(job) if item["type"] == "Suspended" and item["status"] == "True"]


def test_a_job_is_queued_by_its_module_and_told_by_its_twin(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    made = pytorch_job(stage, "one", None)
    container = made["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"][GPU] = "4"
    connection = {"kubeconfig": stage.cluster.kubeconfig, "namespace": stage.namespace}
    options = {**connection, "name": "one", "definition": made, "timing": "now"}

    def job(**more: t.Any) -> Object:
        answer = call_module(monkeypatch, elastic_job, {**options, **more}).result
        assert not answer.get("failed"), answer
        return t.cast(Object, answer["jobs"][0])

    told = job(_ansible_check_mode=True)
    assert (told["allotment"], told["would_shrink"], told["would_create"][0]["error"]) == (4, [], None)
    assert [job()["action"], job()["action"]] == ["created", "unchanged"]
    stage.run_until({"one": "running"})
    assert sizes(stage) == {"one": 4}
    (found,) = call_module(monkeypatch, elastic_job_info, connection).result["jobs"]
    assert (found["allotment"], found["sizes_next"]) == (4, {"smaller": 3, "larger": None})
    assert (found["range"]["sizes"], found["method"], found["restarts"]) == ([2, 3, 4], METHODS[pytorch_job], 0)


def test_at_a_checkpoint_that_is_asked_for(stage: Stage) -> None:
    elastic = {"range": {"min": 2, "max": 10}, **AT_ONCE}
    stage.submit("one", job_of_one_pod(stage, "one", None), elastic=elastic)
    stage.run_until({"one": "running"})
    stage.submit("new", job_of_one_pod(stage, "new", None))
    stage.run_for(lambda _phases: stage.state("one").planned is not None)
    assert report(stage, "one", step=10, total=1000)["save_now"]
    assert not report(stage, "one", step=20, saved=True)["save_now"]
    settle(stage, 2, lambda found: found == {"one": 8, "new": 2})
    assert stage.state("one").planned is None
    told = report(stage, "one")
    assert (told["allotment"], told["progress"]["checkpoint"]["step"], told["resize"]["step"]) == (8, 20, "verified")
