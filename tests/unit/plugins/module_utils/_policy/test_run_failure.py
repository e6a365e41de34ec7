# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a run stands: one case for each sort of trouble, with objects as clusters show them."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.job_run import (
    EventFacts,
    RunFacts,
    job_facts,
    pod_facts,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.run_failure import judge_run, pod_failure

CREATED = "1970-01-01T00:00:00Z"


def job(*conditions, **status):
    """A Job created at 0 with these true conditions as (type, reason, message)."""
    told = [dict(zip(("type", "reason", "message"), item, strict=False), status="True") for item in conditions]
    return job_facts(
        {
            "metadata": {"name": "j", "uid": "uj", "creationTimestamp": CREATED},
            "status": {"conditions": told, **status},
        }
    )


def pod(name="p", phase="Pending", node="n1", states=(), conditions=(), **status):
    """A pod with one container for each state."""
    return pod_facts(
        {
            "metadata": {"name": name, "uid": f"u-{name}", "creationTimestamp": CREATED},
            "spec": {"nodeName": node},
            "status": {
                "phase": phase,
                "conditions": list(conditions),
                "containerStatuses": [{"name": f"c{index}", "state": state} for index, state in enumerate(states)],
                **status,
            },
        }
    )


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def ended(code, reason="Error", finished="1970-01-01T00:00:10Z"):
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": CREATED, "finishedAt": finished}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
}
DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}
BACKOFF = ("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
QUOTA = (
    'Error creating: pods "b-x" is forbidden: exceeded quota: small, requested: requests.cpu=2, '
    "used: requests.cpu=1, limited: requests.cpu=2"
)
NO_LIMITS = 'Error creating: pods "b-x" is forbidden: failed quota: small: must specify limits.cpu for: build'
INSECURE = 'Error creating: pods "b-x" is forbidden: violates PodSecurity "baseline:latest": privileged'


DENIED = 'Error creating: admission webhook "policy.example.com" denied the request: no owner label'
NO_ACCOUNT = 'Error creating: pods "b-x" is forbidden: error looking up service account: serviceaccount "x" not found'
NO_CLASS = 'Error creating: pods "b-x" is forbidden: no PriorityClass with name urgent was found'
NO_WEBHOOK = 'Error creating: Internal error occurred: failed calling webhook "policy.example.com": connection refused'
NO_SECRET = EventFacts(
    "FailedMount", 'MountVolume.SetUp failed for volume "secrets" : secret "idx" not found', "Pod", 1.0
)
NO_SHELL = 'failed to create containerd task: exec: "/bin/sh": stat /bin/sh: no such file or directory: unknown'


def created(message, at=1.0):
    return EventFacts("FailedCreate", message, "Job", at)


def judged(facts, now=5.0, start_timeout=60.0):
    state = judge_run(facts, now=now, start_timeout=start_timeout, failed_as="build_failed")
    return state.phase, state.waiting_for, state.reason


@pytest.mark.parametrize(
    ("pods", "events", "expected"),
    [
        ((), (), ("pending", "queued", None)),
        ((), (created(QUOTA),), ("pending", "quota", None)),
        ((), (created(NO_LIMITS),), ("failed", None, "quota")),
        ((), (created(INSECURE),), ("failed", None, "refused")),
        ((), (created(DENIED),), ("failed", None, "refused")),
        ((), (created(NO_ACCOUNT),), ("failed", None, "refused")),
        ((), (created(NO_CLASS),), ("failed", None, "refused")),
        ((), (created(NO_WEBHOOK),), ("pending", "queued", "refused")),
        ((), (created("Error creating: etcd has no leader"),), ("pending", "queued", None)),
        ((), (created(INSECURE, 1.0), created(QUOTA, 2.0)), ("pending", "quota", None)),
        ((pod(node=None),), (), ("pending", "queued", None)),
        ((pod(node=None, conditions=[UNSCHEDULABLE]),), (), ("pending", "unschedulable", None)),
        ((pod(states=[waiting("ContainerCreating")]),), (), ("pending", "pulling", None)),
        ((pod(states=[waiting("ErrImagePull")]),), (), ("pending", "pulling", None)),
        ((pod(states=[waiting("ImagePullBackOff", "not found")]),), (), ("failed", None, "image_pull")),
        ((pod(states=[waiting("InvalidImageName")]),), (), ("failed", None, "image_pull")),
        (
            (pod(states=[waiting("CreateContainerConfigError", "no secret")]),),
            (),
            ("pending", "config", "config"),
        ),
        ((pod(states=[waiting("ContainerCreating")]),), (NO_SECRET,), ("pending", "config", "config")),
        ((pod(phase="Running", states=[{"running": {"startedAt": CREATED}}]),), (), ("running", None, None)),
        (
            (pod("a", phase="Running"), pod("b", states=[waiting("ImagePullBackOff")])),
            (),
            ("failed", None, "image_pull"),
        ),
        ((pod("a", phase="Succeeded", states=[ended(0)]), pod("b", node=None)), (), ("pending", "queued", None)),
        ((pod(phase="Failed", states=[ended(1)]),), (), ("running", None, None)),
        ((pod(phase="Succeeded", states=[ended(0)]),), (created(QUOTA),), ("pending", "quota", None)),
    ],
)
def test_before_the_end(pods, events, expected):
    assert judged(RunFacts(job(), pods, events)) == expected


@pytest.mark.parametrize(
    ("pods", "events", "reason"),
    [
        ((), (created(QUOTA),), "quota"),
        ((pod(node=None, conditions=[UNSCHEDULABLE]),), (), "unschedulable"),
        ((pod(states=[waiting("ContainerCreating")]),), (), "timeout"),
        ((pod(states=[waiting("CreateContainerConfigError", "no secret")]),), (), "config"),
        ((pod(states=[waiting("ContainerCreating")]),), (NO_SECRET,), "config"),
        ((), (created(NO_WEBHOOK),), "refused"),
        ((), (), "timeout"),
    ],
)
def test_who_waits_too_long_fails_with_what_was_waited_for(pods, events, reason):
    facts = RunFacts(job(), pods, events)
    assert judged(facts, now=59.9)[0] == "pending"
    assert judged(facts, now=60.0) == ("failed", None, reason)
    assert judged(facts, now=1e9, start_timeout=None)[0] == "pending"


def test_the_message_of_a_late_failure_says_what_was_missing():
    facts = RunFacts(job(), (pod(node=None, conditions=[UNSCHEDULABLE]),))
    state = judge_run(facts, now=61, start_timeout=60, failed_as="x")
    assert state.message == f"it did not start within 60 s: {UNSCHEDULABLE['message']}"


def test_who_refused_and_why_is_kept():
    state = judge_run(RunFacts(job(), (), (created(DENIED),)), now=5, start_timeout=60, failed_as="x")
    assert (
        state.message
        == 'its pods are refused: admission webhook "policy.example.com" denied the request: no owner label'
    )


def test_a_secret_that_is_missing_is_not_waited_for_as_long_as_room():
    facts = RunFacts(job(), (pod(states=[waiting("CreateContainerConfigError", 'secret "x" not found')]),))
    assert judged(facts, now=59.9, start_timeout=1800.0)[0] == "pending"
    state = judge_run(facts, now=60.0, start_timeout=1800.0, failed_as="script_failed")
    assert (state.phase, state.reason) == ("failed", "config")
    assert state.message == 'it did not start within 60 s: CreateContainerConfigError: secret "x" not found'
    assert judged(facts, now=1e9, start_timeout=None)[0] == "pending"


@pytest.mark.parametrize("word", ["StartError", "ContainerCannotRun"])
def test_a_container_that_cannot_be_started_is_not_the_fault_of_what_it_runs(word):
    state = {"terminated": {"exitCode": 128, "reason": word, "message": NO_SHELL, "finishedAt": CREATED}}
    found = pod_failure(pod(phase="Failed", states=[state]), "script_failed")
    assert found == ("config", f"container c0 could not be started: {NO_SHELL}")


def test_a_volume_that_cannot_be_mounted_is_told():
    event = EventFacts("FailedMount", 'secret "push" not found', "Pod", 1.0)
    facts = RunFacts(job(), (pod(states=[waiting("ContainerCreating")]),), (event,))
    assert judge_run(facts, now=61, start_timeout=60, failed_as="x").message.endswith('secret "push" not found')


def test_the_wait_of_a_later_pod_counts_from_the_end_of_the_last():
    facts = RunFacts(job(), (pod("a", phase="Succeeded", states=[ended(0)]), pod("b", node=None)))
    assert judged(facts, now=69.9)[0] == "pending"
    assert judged(facts, now=70.0)[0] == "failed"


@pytest.mark.parametrize(
    ("conditions", "pods", "expected"),
    [
        ([("Complete",)], (pod(phase="Succeeded"),), ("succeeded", None, None)),
        ([BACKOFF], (pod(phase="Failed", states=[ended(1)]),), ("failed", None, "build_failed")),
        ([BACKOFF], (pod(phase="Failed", states=[ended(137, "OOMKilled")]),), ("failed", None, "oom")),
        ([BACKOFF], (pod(phase="Failed", states=[ended(1, "OOMKilled")]),), ("failed", None, "oom")),
        ([BACKOFF], (pod(phase="Failed", reason="DeadlineExceeded"),), ("failed", None, "timeout")),
        ([BACKOFF], (pod(phase="Failed", reason="Evicted", message="disk"),), ("failed", None, "evicted")),
        ([BACKOFF], (pod(phase="Failed", states=[ended(143)], conditions=[DISRUPTED]),), ("failed", None, "evicted")),
        ([BACKOFF], (pod(phase="Failed", reason="UnexpectedAdmissionError"),), ("failed", None, "unschedulable")),
        ([BACKOFF], (), ("failed", None, "build_failed")),
        ([("Failed", "DeadlineExceeded", "Job was active longer")], (), ("failed", None, "timeout")),
        (
            [BACKOFF],
            (pod("a", phase="Failed", states=[ended(1)]), pod("b", phase="Failed", states=[ended(137, "OOMKilled")])),
            ("failed", None, "oom"),
        ),
    ],
)
def test_at_the_end(conditions, pods, expected):
    assert judged(RunFacts(job(*conditions), pods)) == expected


def test_a_deleted_job_is_a_cancelled_run():
    assert judged(RunFacts(None, (pod(phase="Running"),))) == ("failed", None, "cancelled")


def test_the_failure_of_one_pod():
    assert pod_failure(pod(phase="Succeeded", states=[ended(0, "OOMKilled")]), "script_failed") == (None, "")
    assert pod_failure(pod(phase="Failed", states=[ended(3)]), "script_failed") == (
        "script_failed",
        "container c0 ended with exit code 3",
    )
    assert pod_failure(pod(phase="Failed", states=[ended(137)]), "script_failed")[1].endswith("137 (killed)")
    reason, message = pod_failure(pod(states=[waiting("ImagePullBackOff", "no such image")]), "script_failed")
    assert (reason, message) == ("image_pull", "ImagePullBackOff: no such image")


@pytest.mark.parametrize(
    ("seen", "changes", "reason"),
    [
        (pod(phase="Running"), {"vanished": True}, "evicted"),
        (pod(phase="Failed", states=[ended(143)]), {"deleted": 9.0}, "evicted"),
        (pod(phase="Failed", states=[ended(143)]), {"deleted": 10.0}, "evicted"),
        (pod(phase="Failed", states=[ended(1)]), {"deleted": 11.0}, "script_failed"),
        (pod(phase="Failed", states=[ended(1)]), {"vanished": True}, "script_failed"),
        (pod(phase="Succeeded", states=[ended(0)]), {"deleted": 9.0}, None),
    ],
)
def test_a_pod_that_was_deleted_before_it_had_ended_was_evicted(seen, changes, reason):
    assert pod_failure(dataclasses.replace(seen, **changes), "script_failed")[0] == reason


@pytest.mark.parametrize("reason", ["UnexpectedAdmissionError", "OutOfcpu", "NodeAffinity"])
def test_a_node_that_refuses_a_pod_is_quoted(reason):
    told = pod_failure(pod(phase="Failed", reason=reason, message="no device left"), "script_failed")
    assert told == ("unschedulable", "no device left")
    assert pod_failure(pod(phase="Failed", reason=reason), "script_failed") == ("unschedulable", reason)
