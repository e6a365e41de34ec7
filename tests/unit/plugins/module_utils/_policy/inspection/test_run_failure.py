# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a run stands: one case for each sort of trouble, with objects as clusters show them."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    EventFacts,
    RunFacts,
    job_facts,
    pod_facts,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import judge_run, pod_failure

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


@pytest.mark.parametrize("reason", ["NodeLost", "NodeShutdown", "Terminated", "Preempting", "Shutdown"])
def test_a_pod_that_its_node_gave_up_was_evicted(reason):
    told = pod_failure(pod(phase="Failed", reason=reason, states=[ended(143)]), "script_failed")
    assert told == ("evicted", reason)
    quoted = pod_failure(pod(phase="Failed", reason=reason, message="node is shutting down"), "script_failed")
    assert quoted == ("evicted", "node is shutting down")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (pod(phase="Failed", reason="DeadlineExceeded"), ("timeout", "it ran longer than its timeout")),
        (pod(phase="Failed", reason="DeadlineExceeded", message="9 s"), ("timeout", "9 s")),
        (pod(phase="Failed", reason="Evicted"), ("evicted", "the node had to make room")),
        (pod(phase="Failed", reason="Evicted", message="low on disk"), ("evicted", "low on disk")),
        (
            pod(phase="Failed", states=[ended(0), ended(137, "OOMKilled")]),
            ("oom", "container c1 used more memory than its limit"),
        ),
        # A runtime says so of a container that succeeded, too; then the other one is to blame.
        (
            pod(phase="Failed", states=[ended(0, "OOMKilled"), ended(2)]),
            ("script_failed", "container c1 ended with exit code 2"),
        ),
        (
            pod(phase="Failed", states=[ended(143)], conditions=[DISRUPTED]),
            ("evicted", "EvictionByEvictionAPI: Eviction API: evicting"),
        ),
        (
            pod(phase="Failed", states=[ended(0), ended(137, "ContainerStatusUnknown")]),
            ("evicted", "its node stopped, and does not know how container c1 ended"),
        ),
        (
            pod(phase="Failed", states=[ended(128, "StartError")]),
            ("config", "container c0 could not be started: StartError"),
        ),
        (
            pod(phase="Failed", states=[ended(137)]),
            ("script_failed", "container c0 ended with exit code 137 (killed)"),
        ),
        (
            pod(phase="Failed", states=[ended(1, "Odd")]),
            ("script_failed", "container c0 ended with exit code 1, Odd"),
        ),
        (pod(phase="Failed", states=[ended(0)]), ("script_failed", "its pod is Failed")),
        (pod(phase="Failed", message="odd"), ("script_failed", "odd")),
    ],
)
def test_why_a_pod_failed_is_told_in_words(seen, expected):
    assert pod_failure(seen, "script_failed") == expected


@pytest.mark.parametrize(
    ("conditions", "pods", "reason", "message"),
    [
        ([("Failed", "DeadlineExceeded")], (), "timeout", "it ran longer than its timeout"),
        ([("Failed", "DeadlineExceeded", "too slow")], (), "timeout", "too slow"),
        ([BACKOFF], (), "x", BACKOFF[2]),
        ([BACKOFF], (pod(phase="Succeeded", states=[ended(0)]),), "x", BACKOFF[2]),
        (
            [BACKOFF],
            (pod("a", phase="Failed", states=[ended(3)]), pod("b", phase="Failed", states=[ended(4)])),
            "x",
            "container c0 ended with exit code 3",
        ),
        (
            [BACKOFF],
            (
                pod("a", phase="Failed", states=[ended(3)]),
                pod("b", phase="Failed", reason="Evicted", message="disk"),
                pod("c", phase="Failed", states=[ended(137, "OOMKilled")]),
            ),
            "evicted",
            "disk",
        ),
        # It succeeded, but its node told so too late: nothing better is known than that the run failed.
        ([BACKOFF], (pod(phase="Failed", reason="DeadlineExceeded", states=[ended(0)]),), "x", ""),
    ],
)
def test_the_first_special_cause_among_the_pods_explains_a_failed_job(conditions, pods, reason, message):
    state = judge_run(RunFacts(job(*conditions), pods), now=5, start_timeout=60, failed_as="x")
    assert (state.phase, state.reason, state.message) == ("failed", reason, message)


@pytest.mark.parametrize(
    ("message", "phase", "reason"),
    [
        ("RunPodSandbox: the handler does not support user namespaces", "failed", "x"),
        ('configmap "settings" not found', "pending", "config"),
        ('Secret "push" not found', "pending", "config"),
        ("disk is slow", "pending", None),
    ],
)
def test_what_a_node_says_of_a_pod_that_it_cannot_set_up(message, phase, reason):
    event = EventFacts("FailedCreatePodSandBox", message, "Pod", 1.0)
    facts = RunFacts(job(), (pod(states=[waiting("ContainerCreating")]),), (event,))
    state = judge_run(facts, now=5, start_timeout=60, failed_as="x")
    assert (state.phase, state.reason, state.message) == (phase, reason, message)


def test_the_newest_event_about_the_right_object_counts():
    events = (
        EventFacts("FailedMount", "older", "Pod", 1.0),
        EventFacts("FailedMount", "newest", "Pod", 3.0),
        EventFacts("FailedMount", "between", "Pod", 2.0),
        EventFacts("FailedMount", "of another kind", "Job", 9.0),
        EventFacts("Pulling", "of another sort", "Pod", 9.0),
    )
    facts = RunFacts(job(), (pod(states=[waiting("ContainerCreating")]),), events)
    assert judge_run(facts, now=5, start_timeout=60, failed_as="x").message == "newest"


def test_a_shorter_start_timeout_holds_for_a_missing_secret_too():
    facts = RunFacts(job(), (pod(states=[waiting("CreateContainerConfigError", "no secret")]),))
    assert judged(facts, now=29.9, start_timeout=30.0)[0] == "pending"
    assert judged(facts, now=30.0, start_timeout=30.0) == ("failed", None, "config")


def test_who_waits_for_nothing_that_is_known_says_only_how_long():
    state = judge_run(RunFacts(job()), now=60, start_timeout=60, failed_as="x")
    assert (state.reason, state.message) == ("timeout", "it did not start within 60 s")


def test_a_job_of_an_unknown_age_has_only_begun_to_wait():
    unborn = dataclasses.replace(job(), created=None)
    assert judged(RunFacts(unborn), now=1e9)[0] == "pending"


@pytest.mark.parametrize(
    ("pods", "events", "reason", "words"),
    [
        ((), (created(NO_LIMITS),), "quota", "must specify limits.cpu"),
        ((), (created(DENIED),), "refused", "no owner label"),
        (
            (pod(states=[waiting("ContainerCreating")]),),
            (EventFacts("FailedCreatePodSandBox", "it does not support user namespaces", "Pod", 1.0),),
            "x",
            "user namespaces",
        ),
    ],
)
def test_what_is_waited_for_in_vain_is_no_matter_of_time(pods, events, reason, words):
    states = [judge_run(RunFacts(job(), pods, events), now=now, start_timeout=60, failed_as="x") for now in (5, 1e9)]
    assert states[0] == states[1]
    assert (states[0].phase, states[0].reason) == ("failed", reason)
    assert words in states[0].message


def test_a_server_that_could_not_make_a_pod_may_make_it_later_but_not_too_late():
    facts = RunFacts(job(), (), (created("Error creating: etcd has no leader"),))
    assert judged(facts, now=59.9)[0] == "pending"
    assert judged(facts, now=60.0) == ("failed", None, "timeout")


def test_one_pod_with_a_node_is_enough_to_be_pulling():
    pods = (pod("a", node=None), pod("b", states=[waiting("ContainerCreating")]))
    assert judged(RunFacts(job(), pods)) == ("pending", "pulling", None)
