# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What live objects want now: kind by kind, with what they finished, scaled or put off."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import NeedsPodsets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import expected_pods
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets
from ansible_collections.muster.kube.tests.support.cluster_model import job, pod
from ansible_collections.muster.kube.tests.support.gang_model import (
    deployment,
    ended,
    job_set,
    live,
    pytorch_job,
    ray_cluster,
    ray_job,
    template,
)


def now(obj):
    """Pods wanted at this moment."""
    return [want.now for want in expected_pods(obj)]


def prompt(obj):
    """Pods that wait for nobody."""
    return [want.prompt for want in expected_pods(obj)]


OBJECTS = [
    job("j", 3),
    job_set(),
    pytorch_job(),
    ray_cluster(),
    ray_job(),
    deployment(),
    deployment(kind="StatefulSet"),
    pod("p"),
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: obj["kind"])
def test_a_fresh_object_wants_what_was_inferred(obj):
    inferred = infer_podsets([obj], namespace="default")
    found = expected_pods(live(obj))
    assert [(want.name, want.now) for want in found] == [(item.name, item.count) for item in inferred]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: obj["kind"])
def test_an_object_about_to_go_wants_nothing(obj):
    assert set(now(live(obj, deleted=True))) == {0}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, 3),
        ({"succeeded": 1}, 3),
        ({"succeeded": 3}, 2),
        ({"succeeded": 4, "active": 3}, 1),
        ({"succeeded": 5}, 0),
        ({"failed": 2}, 3),
        (ended("Complete"), 0),
        (ended("Failed"), 0),
    ],
)
@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_job_wants_no_more_than_are_left_to_succeed(status, expected, mode):
    obj = live(job("j", 3), status=status, completions=5, completionMode=mode)
    assert now(obj) == [expected]


def test_a_job_with_more_work_than_pods_has_spare_successes():
    assert [want.spare for want in expected_pods(live(job("j", 3), completions=5))] == [2]
    assert [want.spare for want in expected_pods(live(job("j", 3)))] == [0]


def test_a_work_queue_makes_no_pods_after_the_first_success():
    obj = live(job("j", 3), completions=None)
    assert now(obj) == [3]
    obj["status"] = {"succeeded": 1, "active": 2}
    assert now(obj) == [2]


@pytest.mark.parametrize(
    "obj",
    [
        live(job("j", 3), suspend=True),
        live(job_set(), suspend=True),
        live(job_set(), status=ended("Completed")),
        live(pytorch_job(), runPolicy={"suspend": True}),
        live(pytorch_job(), status=ended("Succeeded")),
        live(ray_cluster(), suspend=True),
        live(ray_job(), suspend=True),
        live(ray_job(), status={"jobDeploymentStatus": "Failed"}),
        live(ray_job(), status={"jobDeploymentStatus": "Complete"}),
    ],
)
def test_suspended_and_finished_objects_want_nothing(obj):
    assert set(now(obj)) == {0}


def test_a_finished_pod_is_not_wanted_again():
    obj = live(pod("p", restartPolicy="Never"), status={"phase": "Succeeded"})
    assert now(obj) == [0]


def test_a_cluster_that_scaled_itself_wants_its_present_size():
    assert now(live(ray_cluster(replicas=4, minReplicas=1, maxReplicas=6, numOfHosts=2))) == [1, 8]
    assert now(live(ray_cluster(replicas=0, minReplicas=1))) == [1, 1]
    assert now(live(ray_cluster(replicas=9, maxReplicas=3))) == [1, 3]


def test_the_cluster_of_a_ray_job_may_have_scaled_itself_down():
    obj = live(ray_job(replicas=4), status={"rayClusterStatus": {"desiredWorkerReplicas": 1}})
    assert now(obj) == [1, 4, 1]
    obj["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True
    assert now(obj) == [1, 1, 1]
    obj["status"] = {}
    assert now(obj) == [1, 4, 1]


def test_training_replicas_that_succeeded_are_not_wanted_again():
    obj = live(
        pytorch_job(workers=3), status={"replicaStatuses": {"Worker": {"succeeded": 2}, "Master": {"active": 1}}}
    )
    assert now(obj) == [1, 1]


def test_jobs_of_a_set_that_succeeded_are_not_wanted_again():
    status = {"replicatedJobsStatus": [{"name": "b", "succeeded": 1, "failed": 0}]}
    assert now(live(job_set(), status=status)) == [2, 2]


def test_pods_that_wait_for_others_are_not_prompt():
    assert prompt(live(ray_job())) == [1, 2, 0]
    assert prompt(live(ray_job(submissionMode="HTTPMode"))) == [1, 2]
    assert prompt(live(deployment(kind="StatefulSet", replicas=3))) == [1]
    assert prompt(live(deployment(kind="StatefulSet", replicas=3, podManagementPolicy="Parallel"))) == [3]
    assert prompt(live(deployment(replicas=3))) == [3]
    assert prompt(live(job_set(startupPolicy={"startupPolicyOrder": "InOrder"}))) == [2, 0]
    follows = live(job_set())
    follows["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "a", "status": "Complete"}]
    assert prompt(follows) == [2, 0]


def test_workers_may_wait_for_their_leader():
    obj = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "lws"},
        "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()}},
    }
    assert (now(live(obj)), prompt(live(obj))) == ([6], [6])
    assert prompt(live(obj, startupPolicy="LeaderReady")) == [2]
    obj["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = template()
    assert prompt(live(obj, startupPolicy="LeaderReady")) == [2, 0]


def test_a_launcher_may_wait_for_its_workers():
    replicas = {"Launcher": {"template": template()}, "Worker": {"replicas": 2, "template": template()}}
    obj = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "m"},
        "spec": {"mpiReplicaSpecs": replicas},
    }
    assert prompt(live(obj)) == [1, 2]
    assert prompt(live(obj, launcherCreationPolicy="WaitForWorkersReady")) == [0, 2]


def test_an_unknown_kind_cannot_be_counted():
    with pytest.raises(NeedsPodsets):
        expected_pods({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}})


def test_what_is_over_makes_no_pods_promptly_either():
    assert prompt(live(job("j", 3), status=ended("Complete"))) == [0]
    assert [want.spare for want in expected_pods(live(job("j", 3), suspend=True))] == [0]


@pytest.mark.parametrize(("completions", "spare"), [(None, [0, 0]), (1, [0, 0]), (3, [4, 0]), (4, [6, 0])])
def test_jobs_of_a_set_with_more_work_than_pods_have_spare_successes(completions, spare):
    """Two jobs of one pod each at a time: each may see so many successes less one before fewer are wanted."""
    obj = live(job_set())
    entry = obj["spec"]["replicatedJobs"][0]
    entry["replicas"] = 2
    entry["template"]["spec"].update(parallelism=1)
    entry["template"]["spec"].pop("completions", None)
    obj["spec"]["replicatedJobs"][1]["template"]["spec"].pop("completions", None)
    if completions is not None:
        entry["template"]["spec"]["completions"] = completions
    assert [want.spare for want in expected_pods(obj)] == spare


def test_a_set_of_no_jobs_wants_no_pods():
    obj = live(job_set())
    obj["spec"]["replicatedJobs"][0]["replicas"] = 0
    first = expected_pods(obj)[0]
    assert (first.now, first.prompt, first.spare) == (0, 0, 0)


def test_more_successes_than_replicas_leave_none_to_want():
    status = {"replicaStatuses": {"Worker": {"succeeded": 9}, "Master": {"succeeded": 1}, "Odd": None}}
    assert now(live(pytorch_job(workers=3), status=status)) == [0, 0]
    gone = {"replicatedJobsStatus": [{"name": "a", "succeeded": 9}, {"name": "b", "succeeded": 9}]}
    assert now(live(job_set(), status=gone)) == [0, 0]


def test_one_group_of_workers_unless_told_otherwise():
    obj = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "lws"},
        "spec": {
            "leaderWorkerTemplate": {"size": 3, "workerTemplate": template()},
            "startupPolicy": "LeaderReady",
        },
    }
    assert (now(live(obj)), prompt(live(obj))) == ([3], [1])


def test_a_stateful_set_without_pods_makes_none():
    assert prompt(live(deployment(kind="StatefulSet", replicas=0))) == [0]


def test_several_groups_of_a_ray_job_share_what_its_cluster_wants():
    obj = live(ray_job(replicas=2), status={"rayClusterStatus": {"desiredWorkerReplicas": 3}})
    cluster = obj["spec"]["rayClusterSpec"]
    cluster["enableInTreeAutoscaling"] = True
    cluster["workerGroupSpecs"].append({**cluster["workerGroupSpecs"][0], "groupName": "second"})
    assert now(obj) == [1, 2, 1, 1]
