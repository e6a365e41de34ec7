# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts of Jobs, pods and Events, read from objects as an API server gives them."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    ContainerFacts,
    JobFacts,
    Lost,
    PodFacts,
    RunFacts,
    RunState,
    event_facts,
    job_facts,
    outcome_state,
    pod_facts,
    pod_that_counts,
    with_deletion_seen,
    with_numbers,
)

POD = {
    "metadata": {
        "name": "b-x7k2p",
        "uid": "u-1",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"batch.kubernetes.io/job-completion-index": "3"},
    },
    "spec": {"nodeName": "n1"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "main",
                "image": "r/i:1",
                "imageID": "r/i@sha256:12",
                "state": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "startedAt": "2026-01-01T00:00:02Z",
                        "finishedAt": "2026-01-01T00:00:05Z",
                    }
                },
            }
        ],
        "initContainerStatuses": [{"name": "prepare", "state": {"terminated": {"exitCode": 0}}}],
    },
}


def test_a_pod_tells_its_index_node_and_containers():
    pod = pod_facts(POD)
    assert (pod.name, pod.index, pod.node, pod.phase, pod.over, pod.started) == (
        "b-x7k2p",
        3,
        "n1",
        "Failed",
        True,
        True,
    )
    main = pod.container("main")
    assert (main.exit_code, main.ended_as, main.finished - main.started) == (137, "OOMKilled", 3.0)
    assert (main.image, main.image_id) == ("r/i:1", "r/i@sha256:12")
    assert pod.container("prepare") is not None
    assert pod.container("other") is None
    assert pod.finished == main.finished


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        ({}, RunState("succeeded")),
        ({"reason": None, "message": "fine"}, RunState("succeeded")),
        ({"reason": "oom", "message": None}, RunState("failed", "oom", "")),
        ({"reason": "oom", "message": "too much"}, RunState("failed", "oom", "too much")),
    ],
)
def test_a_stored_outcome_tells_its_state(outcome, state):
    assert outcome_state(outcome) == state


def test_a_pod_tells_when_its_end_was_asked_for():
    metadata = {
        "name": "p",
        "uid": "u",
        "deletionTimestamp": "1970-01-01T00:01:00Z",
        "deletionGracePeriodSeconds": 30,
    }
    pod = pod_facts({"metadata": metadata})
    assert (pod.deleted, pod.deleted_by) == (30.0, None)
    assert pod_facts({"metadata": {"name": "p", "uid": "u"}}).deleted is None


def test_a_moment_without_grace_tells_only_the_latest_it_can_have_been():
    metadata = {"name": "p", "uid": "u", "deletionTimestamp": "1970-01-01T00:01:00Z", "deletionGracePeriodSeconds": 0}
    pod = pod_facts({"metadata": metadata})
    assert (pod.deleted, pod.deleted_by) == (None, 60.0)


@pytest.mark.parametrize(
    ("code", "finished", "deletion", "cut_short"),
    [
        (143, 10.0, {"deleted": 9.0}, True),
        (1, 10.0, {"deleted": 10.0}, True),
        (1, 10.0, {"deleted": 11.0}, False),
        (143, 10.0, {"deleted": 11.0}, False),
        # The last request of the node overwrote the moment: a signal tells that the end was asked for before.
        (143, 10.0, {"deleted_by": 12.0}, True),
        (137, 10.0, {"deleted_by": 12.0}, True),
        (1, 10.0, {"deleted_by": 12.0}, False),
        (1, 10.0, {"deleted_by": 9.0}, True),
        # What was seen before it was overwritten is the better witness.
        (1, 10.0, {"deleted": 9.0, "deleted_by": 12.0}, True),
        (143, 10.0, {"deleted": 11.0, "deleted_by": 12.0}, False),
        (143, 10.0, {}, False),
        (None, None, {"deleted_by": 12.0}, True),
        (None, None, {"deleted": 12.0}, True),
        (None, None, {}, False),
    ],
)
def test_a_pod_was_cut_short_when_its_end_was_asked_for_before_it_ended(code, finished, deletion, cut_short):
    main = ContainerFacts("main", exit_code=code, finished=finished)
    pod = PodFacts("p", "u", phase="Failed", containers=(main,), **deletion)
    assert pod.cut_short is cut_short


def test_a_pod_nobody_has_touched_yet_is_pending():
    pod = pod_facts({"metadata": {"name": "p", "uid": "u"}})
    assert (pod.phase, pod.started, pod.over, pod.index, pod.finished) == ("Pending", False, False, None, None)


@pytest.mark.parametrize(
    ("condition", "unschedulable", "disrupted"),
    [
        ({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3"}, "0/3", None),
        ({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}, "no node takes it", None),
        ({"type": "PodScheduled", "status": "True"}, None, None),
        (
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "for x"},
            None,
            "PreemptionByScheduler: for x",
        ),
        ({"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}, None, None),
    ],
)
def test_conditions_of_a_pod(condition, unschedulable, disrupted):
    pod = pod_facts({"metadata": {"name": "p", "uid": "u"}, "status": {"conditions": [condition]}})
    assert (pod.unschedulable, pod.disrupted) == (unschedulable, disrupted)


def test_a_job_tells_its_end_and_indexes():
    raw = {
        "metadata": {"name": "j", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z"},
        "spec": {"suspend": True},
        "status": {
            "active": 1,
            "failed": 2,
            "failedIndexes": "0,2-4",
            "completedIndexes": "",
            "conditions": [
                {"type": "FailureTarget", "status": "True", "reason": "MaxFailedIndexesExceeded"},
                {"type": "Failed", "status": "True", "reason": "MaxFailedIndexesExceeded", "message": "too many"},
            ],
        },
    }
    job = job_facts(raw)
    assert (job.failure, job.message, job.complete, job.over) == ("MaxFailedIndexesExceeded", "too many", False, True)
    assert (job.failed_indexes, job.completed_indexes) == ((0, 2, 3, 4), ())
    assert (job.failed, job.suspended, job.created) == (2, True, 60.0)


def test_a_job_that_is_about_to_end_is_not_over():
    told = [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "False"}]
    job = job_facts({"metadata": {"name": "j", "uid": "u"}, "status": {"conditions": told}})
    assert (job.over, job.complete, job.failure) == (False, False, None)


def test_an_event_tells_reason_message_kind_and_time():
    raw = {
        "reason": "FailedCreate",
        "message": "m",
        "involvedObject": {"kind": "Job"},
        "lastTimestamp": None,
        "eventTime": "1970-01-01T00:00:09.000000Z",
    }
    event = event_facts(raw)
    assert (event.reason, event.message, event.about, event.at) == ("FailedCreate", "m", "Job", 9.0)


def test_a_state_in_words():
    assert RunState("running").words() == "running"
    assert RunState("pending", None, "0/3 nodes", "unschedulable").words() == "pending (unschedulable): 0/3 nodes"
    assert RunState("failed", "oom").words() == "failed (oom)"
    assert RunState("failed", "oom").as_dict() == {
        "phase": "failed",
        "reason": "oom",
        "message": "",
        "waiting_for": None,
    }


def test_a_job_without_a_status_has_no_pods_of_any_kind():
    job = job_facts({"metadata": {"name": "j", "uid": "u"}})
    assert (job.succeeded, job.failed, job.complete, job.failure) == (0, 0, False, None)


def test_the_earliest_deletion_that_was_seen_counts():
    pod = pod_facts({"metadata": {"name": "p", "uid": "u"}})
    early, late = (dataclasses.replace(pod, deleted=at, deleted_by=at + 30) for at in (10.0, 20.0))
    for seen, before in ((late, early), (early, late)):
        found = with_deletion_seen(seen, before)
        assert (found.deleted, found.deleted_by) == (10.0, 40.0)
    assert with_deletion_seen(late, None) == late
    assert with_deletion_seen(pod, late).deleted == 20.0


def numbered_pod(index, phase="Running", **more):
    return PodFacts(f"p{index}", f"u{index}", phase, index, **more)


def test_a_jobs_own_indexes_stand_for_the_numbers_of_repetitions():
    facts = RunFacts(
        JobFacts("j", "u", failed_indexes=(0, 2, 3), completed_indexes=(1, 9)),
        (numbered_pod(0), numbered_pod(2), numbered_pod(3), numbered_pod(None)),
    )
    found = with_numbers(facts, (5, 7, 11))
    assert (found.job.failed_indexes, found.job.completed_indexes) == ((5, 11), (7,))
    assert [(pod.name, pod.index) for pod in found.pods] == [("p0", 5), ("p2", 11), ("pNone", 5)]
    assert with_numbers(RunFacts(None), (5,)).job is None


def test_the_pod_that_counts_is_one_that_succeeded_else_the_last():
    first, good, last = numbered_pod(1, "Failed"), numbered_pod(1, "Succeeded"), numbered_pod(1, "Failed", node="n")
    assert pod_that_counts([first, good, last], 1) is good
    assert pod_that_counts([first, last], 1) is last
    assert pod_that_counts([first, last], 0) is None
    lone = numbered_pod(None)
    assert pod_that_counts([lone], 0) is lone


@pytest.mark.parametrize(
    ("text", "indexes"),
    [
        ("0", (0,)),
        ("1,3-5,7", (1, 3, 4, 5, 7)),
        (" 2 , 4-4 ", (2, 4)),
        ("5-", ()),
        ("-5", ()),
        ("a,1", (1,)),
        ("1-b", ()),
        (None, ()),
    ],
)
def test_indexes_as_a_job_writes_them(text, indexes):
    job = job_facts({"metadata": {"name": "j", "uid": "u"}, "status": {"completedIndexes": text}})
    assert job.completed_indexes == indexes


@pytest.mark.parametrize(
    ("pod", "started", "over", "decided"),
    [
        (PodFacts("p", "u", "Pending"), False, False, False),
        (PodFacts("p", "u", "Running"), True, False, False),
        (PodFacts("p", "u", "Succeeded"), True, True, True),
        (PodFacts("p", "u", "Succeeded", disrupted="x"), True, True, True),
        (PodFacts("p", "u", "Failed"), True, True, True),
        (PodFacts("p", "u", "Failed", disrupted="x"), True, True, False),
        (PodFacts("p", "u", "Pending", vanished=True), False, True, False),
        (PodFacts("p", "u", "Running", lost=Lost("gone", 1.0)), True, True, False),
        (PodFacts("p", "u", "Pending", containers=(ContainerFacts("c", started=1.0),)), True, False, False),
        (PodFacts("p", "u", "Pending", containers=(ContainerFacts("c", exit_code=0),)), True, False, False),
        (
            PodFacts("p", "u", "Pending", containers=(ContainerFacts("c"), ContainerFacts("d", started=1.0))),
            True,
            False,
            False,
        ),
    ],
)
def test_where_a_pod_stands(pod, started, over, decided):
    assert (pod.started, pod.over, pod.decided) == (started, over, decided)


@pytest.mark.parametrize(
    ("phase", "reason", "codes", "late"),
    [
        ("Failed", "DeadlineExceeded", (0,), True),
        ("Failed", "DeadlineExceeded", (0, 0), True),
        ("Failed", "DeadlineExceeded", (0, 143), False),
        ("Failed", "DeadlineExceeded", (None,), False),
        ("Failed", "DeadlineExceeded", (), False),
        ("Failed", "Evicted", (0,), False),
        ("Running", "DeadlineExceeded", (0,), False),
    ],
)
def test_a_pod_that_succeeded_may_be_noticed_late(phase, reason, codes, late):
    containers = tuple(ContainerFacts(f"c{place}", exit_code=code) for place, code in enumerate(codes))
    assert PodFacts("p", "u", phase, reason=reason, containers=containers).noticed_late is late


def test_the_last_container_says_when_a_pod_finished():
    times = (5.0, None, 9.0, 7.0)
    pod = PodFacts("p", "u", containers=tuple(ContainerFacts(str(time), finished=time) for time in times))
    assert pod.finished == 9.0


def test_the_newest_moment_of_an_event_counts():
    moments = {
        "lastTimestamp": "1970-01-01T00:00:03Z",
        "eventTime": "1970-01-01T00:00:02Z",
        "firstTimestamp": "1970-01-01T00:00:01Z",
    }
    found = []
    for name in list(moments):
        found.append(event_facts(moments).at)
        del moments[name]
    assert [*found, event_facts({}).at] == [3.0, 2.0, 1.0, 0.0]
    assert (event_facts({}).reason, event_facts({}).message, event_facts({}).about) == ("", "", "")


@pytest.mark.parametrize(
    ("placed", "begun"), [("1970-01-01T00:00:09Z", 9.0), ("1970-01-01T00:00:05Z", 7.0), (None, 7.0)]
)
def test_a_pod_does_not_begin_before_it_was_placed(placed, begun):
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": placed}
    status = {"startTime": "1970-01-01T00:00:07Z", "conditions": [scheduled]}
    assert pod_facts({"metadata": {"name": "p", "uid": "u"}, "status": status}).begun == begun


@pytest.mark.parametrize(
    ("phase", "over"), [("pending", False), ("running", False), ("succeeded", True), ("failed", True)]
)
def test_a_run_is_over_in_its_last_phases(phase, over):
    assert RunState(phase).over is over
