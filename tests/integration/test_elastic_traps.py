# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What operators and controllers do to work whose size somebody changes by hand, and that a resize does not meet it.

Each test first has the harm done to an object of its own, so that it tells when an operator does it no more.
"""

from __future__ import annotations

import contextlib
import copy
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.hazards import hazards
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import conditions
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage
from ansible_collections.muster.kube.tests.support.elastic_stage import (
    AT_ONCE,
    GPU,
    job_of_one_pod,
    job_of_pods,
    pytorch_job,
    settle,
    sizes,
)
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]
INDEX = "batch.kubernetes.io/job-completion-index"


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


# By hand.


def create(stage: Stage, made: Object, pods: int) -> None:
    """An object of nobody's gang, with all of its pods at work."""
    placed = {**made, "metadata": {**made["metadata"], "namespace": stage.namespace}}
    stage.cluster.create(placed)
    name = made["metadata"]["name"]
    wait_until("the pods to run", lambda: sum(map(is_at_work, pods_of(stage, name))) == pods)


def change(stage: Stage, made: Object, **fields: t.Any) -> None:
    """Change the specification of an object as it is by now."""
    placed = {**made, "metadata": {**made["metadata"], "namespace": stage.namespace}}
    patch(stage.client, stage.cluster.path(placed), {"spec": fields})


def delete_pod(stage: Stage, pod: Object) -> None:
    """Delete a pod with the time that it has to end."""
    delete(stage.client, resource_path("v1", "pods", stage.namespace, pod["metadata"]["name"]))


def end_well(stage: Stage, pod: Object) -> None:
    """Tell of a pod what a kubelet tells whose containers ended with 0."""
    name = pod["metadata"]["name"]
    ended = {"exitCode": 0, "reason": "Completed"}
    container = {"name": pod["spec"]["containers"][0]["name"], "image": "none", "imageID": "", "ready": False}
    statuses = [{**container, "restartCount": 0, "state": {"terminated": ended}}]
    path = f"{resource_path('v1', 'pods', stage.namespace, name)}/status"
    patch(stage.client, path, {"status": {"phase": "Succeeded", "containerStatuses": statuses}})


# What is there.


def pods_of(stage: Stage, name: str) -> list[Object]:
    """The pods of an object, those that are to end too, in the order of their names."""
    found = [pod for pod in stage.cluster.pods(stage.namespace) if pod["metadata"]["name"].startswith(f"{name}-")]
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


def is_at_work(pod: Object) -> bool:
    """Whether a pod runs and is to go on."""
    return pod["status"].get("phase") == "Running" and not is_ending(pod)


def is_ending(pod: Object) -> bool:
    """Whether a pod was told to end."""
    return "deletionTimestamp" in pod["metadata"]


def says(stage: Stage, made: Object, *kinds: str) -> bool:
    """Whether one of these conditions is true of an object."""
    found = stage.find(made)
    return any(item["type"] in kinds and item["status"] == "True" for item in conditions(found or {}))


def is_over(stage: Stage, made: Object) -> bool:
    """Whether its controller takes an object for done or failed."""
    return says(stage, made, "Succeeded", "Failed", "Complete", "SuccessCriteriaMet", "FailureTarget")


def variables(pod: Object, name: str) -> list[str]:
    """The values of an environment variable in the containers of a pod."""
    return [item["value"] for box in pod["spec"]["containers"] for item in box.get("env") or () if item["name"] == name]


def gpus(pod: Object) -> str:
    """The GPUs of a pod."""
    return t.cast(str, pod["spec"]["containers"][0]["resources"]["limits"][GPU])


def indices(pods: t.Iterable[Object]) -> list[str]:
    """The places of a Job's pods."""
    return sorted(pod["metadata"]["annotations"][INDEX] for pod in pods)


# By a resize.


def start(stage: Stage, made: Object, most: int = 4, **range_: t.Any) -> None:
    """Have the gang called one run with its largest size."""
    elastic = {"timing": "now", "range": {"min": 2, "max": most, **range_}, **AT_ONCE}
    stage.submit("one", made, elastic=elastic)
    stage.run_until({"one": "running"})
    assert sizes(stage) == {"one": most}


def shrink(stage: Stage, to: int = 2) -> None:
    """Have it make room for another gang, which runs then."""
    ask_for_room(stage, to)
    settle(stage, 2, lambda found: found == {"one": to, "new": 10 - to})
    assert stage.state("one").allotment == to


def ask_for_room(stage: Stage, to: int) -> None:
    """Another gang comes for which it has to have no more than this."""
    stage.submit("new", stage.job("new", 1, **{"cpu": "100m", GPU: str(10 - to)}))


@contextlib.contextmanager
def slow_to_end(stage: Stage, to: int = 2) -> t.Iterator[list[Object]]:
    """Have it make room, and stop where its pods were told to end and are still at it; they end with the block."""
    ask_for_room(stage, to)
    with stage.cluster.paused("kwok"):
        stage.run_for(lambda _phases: any(map(is_ending, pods_of(stage, "one"))))
        ending = [pod for pod in pods_of(stage, "one") if is_ending(pod)]
        assert ending
        yield ending


# PyTorchJobs.


def training(stage: Stage, name: str, restart: str = "Never") -> Object:
    """A PyTorchJob of one pod."""
    made = pytorch_job(stage, name, None)
    made["spec"]["pytorchReplicaSpecs"]["Master"]["restartPolicy"] = restart
    return made


def workers(stage: Stage, name: str, count: int, *, elastic: bool) -> Object:
    """A PyTorchJob of workers with a GPU each; one that is not elastic has a master besides."""
    made = pytorch_job(stage, name, None)
    roles = made["spec"]["pytorchReplicaSpecs"]
    worker = copy.deepcopy(roles["Master"])
    worker["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] = "1"
    worker["template"]["spec"]["containers"][0]["resources"]["requests"][GPU] = "1"
    roles["Worker"] = {**worker, "replicas": count}
    if elastic:
        del roles["Master"]
        made["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 4, "rdzvBackend": "c10d"}
    else:
        for part in roles["Master"]["template"]["spec"]["containers"][0]["resources"].values():
            part.pop(GPU, None)
    return made


def test_a_pod_that_is_deleted_counts_as_one_that_failed(stage: Stage) -> None:
    harmed = training(stage, "harmed")
    create(stage, harmed, 1)
    with stage.cluster.paused("kwok"):
        delete_pod(stage, pods_of(stage, "harmed")[0])
        wait_until("the job to fail", lambda: says(stage, harmed, "Failed"))
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))

    made = training(stage, "one")
    start(stage, made)
    with slow_to_end(stage):
        wait_until("the operator to have seen it", lambda: says(stage, made, "Suspended"))
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    assert not is_over(stage, made)


def test_another_template_changes_no_pod_and_more_workers_leave_the_others_a_wrong_number(stage: Stage) -> None:
    harmed = workers(stage, "harmed", 2, elastic=False)
    create(stage, harmed, 3)
    role = copy.deepcopy(harmed["spec"]["pytorchReplicaSpecs"]["Worker"])
    role["template"]["spec"]["containers"][0]["resources"]["limits"][GPU] = "2"
    role["template"]["spec"]["containers"][0]["resources"]["requests"][GPU] = "2"
    change(stage, harmed, pytorchReplicaSpecs={"Worker": {**role, "replicas": 3}})
    wait_until("the third worker", lambda: sum(map(is_at_work, pods_of(stage, "harmed"))) == 4)
    _master, *found = pods_of(stage, "harmed")
    assert [gpus(pod) for pod in found] == ["1", "1", "2"]
    assert [variables(pod, "WORLD_SIZE") for pod in found] == [["3"], ["3"], ["4"]]
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))
    wait_until("its pods to go", lambda: not pods_of(stage, "harmed"))

    made = workers(stage, "one", 2, elastic=False)
    start(stage, made, axis="pods", podset="one/worker")
    before = {pod["metadata"]["uid"] for pod in pods_of(stage, "one")}
    shrink(stage)
    found = pods_of(stage, "one")
    assert [variables(pod, "WORLD_SIZE") for pod in found] == [["3"]] * 3
    assert not before & {pod["metadata"]["uid"] for pod in found}


def test_what_resumes_before_its_pods_have_gone_fails(stage: Stage) -> None:
    harmed = training(stage, "harmed")
    create(stage, harmed, 1)
    role = copy.deepcopy(harmed["spec"]["pytorchReplicaSpecs"]["Master"])
    role["template"]["spec"]["containers"][0]["resources"] = {"limits": {GPU: "4"}, "requests": {GPU: "4"}}
    with stage.cluster.paused("kwok"):
        change(stage, harmed, runPolicy={"suspend": True})
        wait_until("its pod to be told", lambda: is_ending(pods_of(stage, "harmed")[0]))
        change(stage, harmed, runPolicy={"suspend": False}, pytorchReplicaSpecs={"Master": role})
        wait_until("the job to fail", lambda: says(stage, harmed, "Failed"))
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))

    made = training(stage, "one")
    start(stage, made)
    with slow_to_end(stage):
        for _turn in range(3):
            stage.run()
        assert suspended(stage, made)
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    assert not is_over(stage, made)


def suspended(stage: Stage, made: Object) -> bool:
    """Whether a PyTorchJob is to have no pods."""
    found = stage.find(made)
    return found is not None and found["spec"].get("runPolicy", {}).get("suspend") is True


def test_workers_of_an_elastic_policy_stay_when_others_come(stage: Stage) -> None:
    harmed = workers(stage, "harmed", 2, elastic=True)
    create(stage, harmed, 2)
    stopped = {pod["metadata"]["uid"] for pod in pods_of(stage, "harmed")}
    change(stage, harmed, runPolicy={"suspend": True})
    wait_until("the pods to go", lambda: not pods_of(stage, "harmed"))
    change(stage, harmed, runPolicy={"suspend": False}, pytorchReplicaSpecs={"Worker": {"replicas": 3}})
    wait_until("three workers", lambda: sum(map(is_at_work, pods_of(stage, "harmed"))) == 3)
    assert not stopped & {pod["metadata"]["uid"] for pod in pods_of(stage, "harmed")}
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))
    wait_until("its pods to go", lambda: not pods_of(stage, "harmed"))

    stage.submit("other", stage.job("other", 1, **{"cpu": "100m", GPU: "7"}))
    stage.run_until({"other": "running"})
    made = workers(stage, "one", 2, elastic=True)
    stage.submit("one", made, elastic={"timing": "now", "range": {"min": 2, "max": 4, "axis": "pods"}, **AT_ONCE})
    stage.run_until({"one": "running"})
    before = [pod["metadata"]["uid"] for pod in pods_of(stage, "one")]
    assert len(before) == 3
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "other"))
    settle(stage, 1, lambda found: found == {"one": 4})
    found = pods_of(stage, "one")
    assert [pod["metadata"]["uid"] for pod in found][:3] == before
    assert [variables(pod, "PET_NNODES") for pod in found] == [["2:4"]] * 4
    resize = stage.state("one").resize
    assert resize is not None
    assert resize.method == "scale"


def test_the_worker_that_others_meet_at_is_there_after_a_scale_down(stage: Stage) -> None:
    harmed = workers(stage, "harmed", 4, elastic=True)
    create(stage, harmed, 4)
    assert meeting_points(stage, "harmed") == {"harmed-worker-0"}
    with stage.cluster.paused("kwok"):
        # As if any of them could be spared.
        delete_pod(stage, pods_of(stage, "harmed")[0])
        wait_until("the job to fail", lambda: says(stage, harmed, "Failed"))
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))

    made = workers(stage, "one", 2, elastic=True)
    start(stage, made, axis="pods")
    shrink(stage)
    assert [pod["metadata"]["name"] for pod in pods_of(stage, "one")] == ["one-worker-0", "one-worker-1"]
    assert meeting_points(stage, "one") == {"one-worker-0"}
    assert not is_over(stage, made)


def meeting_points(stage: Stage, name: str) -> set[str]:
    """Where the workers of a job find each other."""
    told = (text for pod in pods_of(stage, name) for text in variables(pod, "PET_RDZV_ENDPOINT"))
    return {text.partition(":")[0].partition(".")[0] for text in told}


def limited(made: Object, seconds: int) -> Object:
    """A PyTorchJob that is ended by force after so long."""
    made["spec"]["runPolicy"] = {"activeDeadlineSeconds": seconds}
    return made


def started_at(stage: Stage, made: Object) -> float:
    """Since when its operator counts the time that an object may run, in whole seconds."""
    found = stage.find(made)
    return 0.0 if found is None else read_time(found.get("status", {}).get("startTime")) or 0.0


def a_second_after(moment: float) -> None:
    """Wait until the time in whole seconds is another one."""
    wait_until("the next second", lambda: time.time() >= moment + 1)


def test_the_time_that_an_object_may_run_begins_anew_when_it_is_resumed(stage: Stage) -> None:
    harmed = limited(training(stage, "harmed"), 3600)
    create(stage, harmed, 1)
    before = started_at(stage, harmed)
    change(stage, harmed, runPolicy={"suspend": True})
    wait_until("it to be suspended", lambda: says(stage, harmed, "Suspended"))
    a_second_after(before)
    change(stage, harmed, runPolicy={"suspend": False})
    wait_until("the time to begin anew", lambda: started_at(stage, harmed) > before)
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))

    # A resize is no better, which is why it is warned of; the limit of the gang counts all sizes together.
    made = limited(training(stage, "one"), 3600)
    start(stage, made)
    spec, began = stage.record("one").spec, stage.state("one").started_at
    assert spec is not None
    assert spec.elastic is not None
    assert any("begins anew" in text for text in hazards(spec.objects, spec.elastic, spec.namespace))
    before = started_at(stage, made)
    a_second_after(before)
    shrink(stage)
    assert started_at(stage, made) > before
    assert stage.state("one").started_at == began


# Pods that save when they are told to end, and end well.


def end_all(stage: Stage, pods: t.Iterable[Object]) -> None:
    """Tell of all these pods that they ended well."""
    for pod in pods:
        end_well(stage, pod)


@pytest.mark.parametrize("restart", ["OnFailure", "Never"])
def test_a_trainer_that_ends_well_on_sigterm_ends_its_pytorch_job(stage: Stage, restart: str) -> None:
    harmed = training(stage, "harmed", restart)
    create(stage, harmed, 1)
    with stage.cluster.paused("kwok"):
        delete_pod(stage, pods_of(stage, "harmed")[0])
        end_all(stage, pods_of(stage, "harmed")[:1])
        wait_until("the job to be over", lambda: is_over(stage, harmed))
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))

    made = training(stage, "one", restart)
    start(stage, made)
    with slow_to_end(stage) as ending:
        end_all(stage, ending)
        for _turn in range(3):
            stage.run()
        # Once it goes on the operator counts whatever pod there is.
        assert suspended(stage, made)
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    assert not is_over(stage, made)


def test_a_worker_that_ends_well_on_sigterm_ends_an_elastic_pytorch_job(stage: Stage) -> None:
    harmed = workers(stage, "harmed", 4, elastic=True)
    create(stage, harmed, 4)
    with stage.cluster.paused("kwok"):
        change(stage, harmed, pytorchReplicaSpecs={"Worker": {"replicas": 2}})
        wait_until("workers to end", lambda: sum(map(is_ending, pods_of(stage, "harmed"))) == 2)
        end_all(stage, filter(is_ending, pods_of(stage, "harmed")))
        wait_until("the job to be over", lambda: says(stage, harmed, "Succeeded"))
    delete(stage.client, resource_path("kubeflow.org/v1", "pytorchjobs", stage.namespace, "harmed"))

    made = workers(stage, "one", 2, elastic=True)
    start(stage, made, axis="pods")
    with slow_to_end(stage) as ending:
        end_all(stage, ending)
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    assert not is_over(stage, made)


def test_a_pod_that_ends_well_on_sigterm_ends_its_job(stage: Stage) -> None:
    harmed = job_of_one_pod(stage, "harmed", None)
    # As those write it who do not want two pods in one place.
    harmed["spec"]["podReplacementPolicy"] = "Failed"
    create(stage, harmed, 1)
    with stage.cluster.paused("kwok"):
        delete_pod(stage, pods_of(stage, "harmed")[0])
        end_all(stage, pods_of(stage, "harmed"))
        wait_until("the job to be over", lambda: is_over(stage, harmed))
    delete(stage.client, resource_path("batch/v1", "jobs", stage.namespace, "harmed"))

    made = job_of_one_pod(stage, "one", None)
    made["spec"]["podReplacementPolicy"] = "Failed"
    start(stage, made)
    with slow_to_end(stage) as ending:
        end_all(stage, ending)
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    assert not is_over(stage, made)


def test_pods_that_end_well_on_sigterm_are_none_of_a_smaller_indexed_job(stage: Stage) -> None:
    harmed = job_of_pods(stage, "harmed", None)
    harmed["spec"].update(parallelism=4, completions=4)
    create(stage, harmed, 4)
    with stage.cluster.paused("kwok"):
        # Sent away before the Job knows that it is to be smaller, they count as done.
        for pod in pods_of(stage, "harmed")[2:]:
            delete_pod(stage, pod)
            end_well(stage, pod)
        wait_until("them to be counted", lambda: completed(stage, harmed) == "2,3")
    delete(stage.client, resource_path("batch/v1", "jobs", stage.namespace, "harmed"))
    wait_until("the pods to go", lambda: not pods_of(stage, "harmed"))

    made = job_of_pods(stage, "one", None)
    start(stage, made, axis="pods")
    with slow_to_end(stage) as ending:
        assert indices(ending) == ["2", "3"]
        end_all(stage, ending)
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})
    assert not is_over(stage, made)
    assert indices(pods_of(stage, "one")) == ["0", "1"]


# Jobs.


def test_a_deleted_pod_uses_up_the_retries_of_its_job(stage: Stage) -> None:
    harmed = job_of_one_pod(stage, "harmed", None)
    create(stage, harmed, 1)
    delete_pod(stage, pods_of(stage, "harmed")[0])
    wait_until("the job to fail", lambda: says(stage, harmed, "Failed"))

    made = job_of_one_pod(stage, "one", None)
    start(stage, made)
    shrink(stage)
    assert not is_over(stage, made)
    found = stage.find(made)
    assert found is not None
    assert not found["status"].get("failed")


def test_parallelism_and_completions_go_together(stage: Stage) -> None:
    harmed = job_of_pods(stage, "harmed", None)
    create(stage, harmed, 2)
    with pytest.raises(ApiError, match="completions"):
        change(stage, harmed, completions=4)
    change(stage, harmed, parallelism=4)
    # What was created later has its pods, and this one has no more.
    other = job_of_pods(stage, "other", None)
    create(stage, other, 2)
    assert indices(pods_of(stage, "harmed")) == ["0", "1"]
    for name in ("harmed", "other"):
        delete(stage.client, resource_path("batch/v1", "jobs", stage.namespace, name))
    wait_until("the pods to go", lambda: not pods_of(stage, "harmed") and not pods_of(stage, "other"))

    made = job_of_pods(stage, "one", None)
    start(stage, made, axis="pods")
    assert indices(pods_of(stage, "one")) == ["0", "1", "2", "3"]
    shrink(stage)
    assert indices(pods_of(stage, "one")) == ["0", "1"]
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "new"))
    settle(stage, 1, lambda found: found == {"one": 4})
    assert indices(pods_of(stage, "one")) == ["0", "1", "2", "3"]


def test_resources_of_a_job_change_while_it_is_suspended_and_variables_never(stage: Stage) -> None:
    harmed = job_of_one_pod(stage, "harmed", None)
    create(stage, harmed, 1)
    template = copy.deepcopy(harmed["spec"]["template"])
    container = template["spec"]["containers"][0]
    container["resources"] = {"limits": {GPU: "4"}, "requests": {GPU: "4"}}
    with pytest.raises(ApiError, match="template"):
        change(stage, harmed, template=template)
    with stage.cluster.paused("kwok"):
        # Its pod is still there, which the Job knows.
        with pytest.raises(ApiError, match="template"):
            change(stage, harmed, suspend=True, template=template)
        change(stage, harmed, suspend=True)
    wait_until("it to be suspended", lambda: says(stage, harmed, "Suspended"))
    container["env"] = [{"name": "NGPU", "value": "4"}]
    with pytest.raises(ApiError, match="template"):
        change(stage, harmed, template=template)

    made = job_of_one_pod(stage, "one", None)
    made["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "NGPU", "value": "2"}]
    start(stage, made)
    shrink(stage)
    resize = stage.state("one").resize
    assert resize is not None
    assert resize.method == "recreate"
    assert [variables(pod, "NGPU") for pod in pods_of(stage, "one")] == [["2"]]


# The controller waits ten seconds before it replaces a pod that failed.
@pytest.mark.full
def test_a_deleted_pod_of_a_job_is_replaced_before_it_has_gone(stage: Stage) -> None:
    harmed = job_of_pods(stage, "harmed", None)
    harmed["spec"]["backoffLimit"] = 6
    create(stage, harmed, 2)
    with stage.cluster.paused("kwok"):
        delete_pod(stage, pods_of(stage, "harmed")[0])
        wait_until("another pod of the place", lambda: indices(pods_of(stage, "harmed")) == ["0", "0", "1"])
    delete(stage.client, resource_path("batch/v1", "jobs", stage.namespace, "harmed"))
    wait_until("the pods to go", lambda: not pods_of(stage, "harmed"))

    made = job_of_one_pod(stage, "one", None)
    start(stage, made)
    with slow_to_end(stage) as ending:
        for _turn in range(3):
            stage.run()
        assert len(pods_of(stage, "one")) == len(ending) == 1
    settle(stage, 2, lambda found: found == {"one": 2, "new": 8})


def test_what_was_done_is_done_again_in_a_job_that_grows(stage: Stage) -> None:
    harmed = job_of_pods(stage, "harmed", None)
    harmed["spec"].update(parallelism=4, completions=4)
    create(stage, harmed, 4)
    end_well(stage, pods_of(stage, "harmed")[3])
    wait_until("it to be counted", lambda: completed(stage, harmed) == "3")
    change(stage, harmed, parallelism=2, completions=2)
    wait_until("two pods", lambda: sum(map(is_at_work, pods_of(stage, "harmed"))) == 2)
    change(stage, harmed, parallelism=4, completions=4)
    wait_until("four pods", lambda: sum(map(is_at_work, pods_of(stage, "harmed"))) == 4)
    delete(stage.client, resource_path("batch/v1", "jobs", stage.namespace, "harmed"))
    wait_until("the pods to go", lambda: not pods_of(stage, "harmed"))

    made = job_of_pods(stage, "one", None)
    start(stage, made, axis="pods")
    end_well(stage, pods_of(stage, "one")[3])
    wait_until("it to be counted", lambda: completed(stage, made) == "3")
    ask_for_room(stage, 2)
    for _turn in range(3):
        stage.run()
    assert completed(stage, made) == "3"
    assert sum(map(is_at_work, pods_of(stage, "one"))) == 3
    assert stage.phase("new") == "queued"
    delete(stage.client, resource_path("v1", "configmaps", stage.namespace, "new"))
    for _turn in range(3):
        stage.run()
    assert indices(filter(is_at_work, pods_of(stage, "one"))) == ["0", "1", "2"]
    assert stage.state("one").allotment == 4


def completed(stage: Stage, made: Object) -> str:
    """The places of a Job whose pods have ended well."""
    found = stage.find(made)
    return "" if found is None else str(found.get("status", {}).get("completedIndexes") or "")
