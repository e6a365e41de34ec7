# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pods that nobody ends: when they are given up, why, and what that means for the run."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    ContainerFacts,
    JobFacts,
    PodFacts,
    PodLimits,
    RunFacts,
    pod_facts,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import (
    judge_run,
    next_loss,
    overdue_nodes,
    pod_failure,
    with_lost_pods,
)

LIMITS = PodLimits(timeout=100.0, grace=20.0)
GONE = frozenset({"n1"})


def pod(index=0, phase="Running", begun=0.0, **more):
    name = more.pop("name", f"p{index}")
    return PodFacts(name, f"u-{name}", phase, index, "n1", begun=begun, **more)


def ended(index, finished=50.0, phase="Succeeded", **more):
    container = ContainerFacts("run", exit_code=0, started=0.0, finished=finished)
    return pod(index, phase, containers=(container,), **more)


def facts(*pods):
    return RunFacts(JobFacts("j", "uj", created=0.0), pods)


def lost(pods, now, gone=GONE):
    found = with_lost_pods(facts(*pods), now=now, limits=LIMITS, gone=gone)
    return [pod.index for pod in found.pods if pod.lost is not None]


def state_of(found, now, start_timeout=60.0):
    return judge_run(found, now=now, start_timeout=start_timeout, failed_as="script_failed")


def test_a_pod_of_a_node_that_is_gone_is_given_up_when_its_time_and_grace_are_over():
    assert lost([pod()], 119.9) == []
    assert lost([pod()], 120.0) == [0]
    assert lost([pod()], 120.0, gone=frozenset()) == []


def test_a_pod_that_no_node_ends_is_given_up_two_minutes_after_its_time():
    assert lost([pod()], 219.9, gone=frozenset()) == []
    assert lost([pod()], 220.0, gone=frozenset()) == [0]


def test_a_pod_that_hangs_in_deletion_is_given_up_though_its_time_is_not_over():
    going = pod(deleted=10.0, ends_by=30.0)
    assert lost([going], 89.9, gone=frozenset()) == []
    assert lost([going], 90.0, gone=frozenset()) == [0]


def test_it_is_known_beforehand_when_a_pod_may_be_given_up_next():
    found = facts(pod(0), pod(1, begun=30.0), pod(2, deleted=10.0, ends_by=90.0), ended(3), pod(4, begun=None))
    moments = [120.0, 150.0, 220.0, 250.0]
    assert next_loss(found, now=0.0, limits=LIMITS) == moments[0]
    for number, moment in enumerate(moments):
        assert next_loss(found, now=moment, limits=LIMITS) == (moments[number + 1] if number < 3 else None)
    going = facts(pod(2, deleted=10.0, ends_by=30.0))
    assert next_loss(going, now=0.0, limits=LIMITS) == 90.0


def test_a_pod_that_never_began_on_a_node_that_is_gone_is_given_up_as_well():
    assert lost([pod(phase="Pending")], 120.0) == [0]


def test_pods_that_are_over_or_wait_for_a_node_are_never_given_up():
    waiting = PodFacts("w", "uw", "Pending", 1)
    assert lost([ended(0), waiting, pod(2, vanished=True)], 1e9) == []


def test_only_the_nodes_of_pods_whose_time_is_over_are_looked_at():
    found = facts(pod(0), pod(1, begun=110.0), ended(2))
    assert overdue_nodes(found, now=119.0, limits=LIMITS) == frozenset()
    assert overdue_nodes(found, now=120.0, limits=LIMITS) == {"n1"}


def test_what_is_given_up_was_evicted_and_never_the_fault_of_the_script():
    (found,) = with_lost_pods(facts(pod()), now=120.0, limits=LIMITS, gone=GONE).pods
    assert pod_failure(found, "script_failed") == ("evicted", "node n1 is gone, and the pod had not ended before")


def test_a_pod_that_succeeded_while_its_node_was_cut_off_did_not_take_too_long():
    """The kubelet looks at the time first."""
    assert pod_failure(ended(0, phase="Failed", reason="DeadlineExceeded"), "script_failed") == (None, "")
    late = ContainerFacts("run", exit_code=143, started=0.0, finished=101.0)
    stopped = pod(0, "Failed", reason="DeadlineExceeded", containers=(late,))
    assert pod_failure(stopped, "script_failed")[0] == "timeout"


@pytest.mark.parametrize(("code", "told"), [(137, "ContainerStatusUnknown"), (255, "Unknown")])
def test_a_container_whose_node_was_started_again_is_not_the_fault_of_the_script(code, told):
    container = ContainerFacts("run", exit_code=code, ended_as=told, started=0.0, finished=9.0)
    found = pod(0, "Failed", containers=(container,))
    assert pod_failure(found, "script_failed")[0] == "evicted"


def test_while_other_pods_run_the_run_goes_on():
    found = with_lost_pods(facts(pod(0), pod(1, begun=110.0)), now=120.0, limits=LIMITS, gone=GONE)
    assert state_of(found, 120.0).phase == "running"


def test_when_nothing_but_lost_pods_is_left_the_job_is_over():
    found = with_lost_pods(facts(ended(0), pod(1)), now=125.0, limits=LIMITS, gone=GONE)
    state = state_of(found, 125.0)
    assert (state.phase, state.reason) == ("failed", "evicted")


def test_right_after_a_pod_ended_the_controller_may_make_another():
    found = with_lost_pods(facts(ended(0, finished=120.0), pod(1)), now=125.0, limits=LIMITS, gone=GONE)
    assert state_of(found, 125.0).phase == "running"
    assert state_of(found, 140.0).phase == "failed"


def test_a_controller_that_makes_no_further_pod_is_not_waited_for_for_ever():
    found = facts(ended(0, finished=10.0))
    assert state_of(found, 69.0).phase == "running"
    state = state_of(found, 70.0)
    assert (state.phase, state.reason) == ("failed", "timeout")
    assert state_of(found, 1e9, start_timeout=None).phase == "running"


def test_a_repetition_that_the_cluster_ends_again_and_again_is_given_up():
    ended_by_others = [ended(0, phase="Failed", disrupted="Eviction", name=f"d{number}") for number in range(5)]
    assert lost([*ended_by_others[:4], pod(0, begun=None)], 60.0) == []
    found = with_lost_pods(facts(*ended_by_others, pod(0, begun=None)), now=60.0, limits=LIMITS, gone=frozenset())
    (given_up,) = [item for item in found.pods if item.lost is not None]
    assert pod_failure(given_up, "script_failed") == ("evicted", "the cluster ended it 5 times: Eviction")


def test_an_image_that_one_node_cannot_pull_harms_only_the_repetition_there():
    stuck = pod(1, "Pending", containers=(ContainerFacts("run", waiting="ImagePullBackOff", message="no disk"),))
    alone = with_lost_pods(facts(stuck), now=5.0, limits=LIMITS, gone=frozenset())
    assert state_of(alone, 5.0).reason == "image_pull"
    running = pod(0)
    found = with_lost_pods(facts(running, stuck), now=5.0, limits=LIMITS, gone=frozenset())
    assert state_of(found, 5.0).phase == "running"
    (given_up,) = [item for item in found.pods if item.lost is not None]
    assert pod_failure(given_up, "script_failed") == ("image_pull", "ImagePullBackOff: no disk")


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        ({"startTime": "1970-01-01T00:00:07Z"}, 7.0),
        (
            {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "1970-01-01T00:00:05Z"}]},
            5.0,
        ),
        ({}, None),
    ],
)
def test_when_a_pod_began_is_what_its_node_or_the_scheduler_says(status, begun):
    assert pod_facts({"metadata": {"name": "p", "uid": "u"}, "status": status}).begun == begun


def test_the_end_of_a_deletion_is_read():
    metadata = {"name": "p", "uid": "u", "deletionTimestamp": "1970-01-01T00:00:30Z", "deletionGracePeriodSeconds": 20}
    found = pod_facts({"metadata": metadata})
    assert (found.deleted, found.ends_by) == (10.0, 30.0)
    assert dataclasses.replace(found, phase="Failed").over


@pytest.mark.parametrize(
    ("hanging", "now", "gone", "message", "at"),
    [
        (pod(begun=5.0), 130.0, GONE, "node n1 is gone, and the pod had not ended before", 125.0),
        (pod(begun=5.0), 300.0, frozenset(), "node n1 did not end it 220 s after its begin", 225.0),
        (pod(deleted=10.0, ends_by=30.0), 95.0, frozenset(), "its pod was deleted, and node n1 did not end it", 90.0),
    ],
)
def test_a_pod_counts_as_lost_from_the_moment_when_it_had_to_be_over(hanging, now, gone, message, at):
    """From then on the run counts as idle, however late somebody looks."""
    (found,) = with_lost_pods(facts(hanging), now=now, limits=LIMITS, gone=gone).pods
    assert (found.lost.message, found.lost.at) == (message, at)


def test_the_run_idles_from_the_moment_when_its_last_pod_was_given_up():
    found = with_lost_pods(facts(ended(0), pod(1)), now=300.0, limits=LIMITS, gone=GONE)
    waiting = dataclasses.replace(found, pods=(*found.pods, PodFacts("w", "uw", "Pending", 2)))
    # Given up at 120, and 60 seconds may be waited for the next one.
    assert state_of(waiting, 179.9).phase == "pending"
    assert state_of(waiting, 180.0).phase == "failed"


@pytest.mark.parametrize(("now", "phase"), [(134.9, "running"), (135.0, "failed")])
def test_the_controller_has_fifteen_seconds_for_the_next_pod(now, phase):
    found = with_lost_pods(facts(ended(0, finished=120.0), pod(1)), now=120.0, limits=LIMITS, gone=GONE)
    assert state_of(found, now).phase == phase


def test_a_pod_of_no_node_or_without_a_begin_is_looked_for_nowhere():
    nowhere = dataclasses.replace(pod(0), node=None)
    assert overdue_nodes(facts(nowhere, pod(1, begun=None)), now=1e9, limits=LIMITS) == frozenset()


def test_only_ends_of_the_same_repetition_by_the_cluster_count():
    by_others = [ended(0, phase="Failed", disrupted="Eviction", name=f"d{number}") for number in range(4)]
    elsewhere = ended(1, phase="Failed", disrupted="Eviction")
    by_itself = ended(0, phase="Failed", name="own")
    assert lost([*by_others, elsewhere, by_itself, pod(0, begun=None)], 60.0) == []


def test_only_nodes_of_pods_that_are_late_and_not_over_are_looked_at():
    nodes = {"late": pod(0), "over": ended(1), "early": pod(2, begun=110.0)}
    found = facts(*(dataclasses.replace(item, node=name) for name, item in nodes.items()))
    assert overdue_nodes(found, now=120.0, limits=LIMITS) == {"late"}


def test_the_controller_is_given_time_after_the_last_pod_that_ended():
    pods = (ended(0, finished=20.0), ended(1, finished=120.0), pod(2))
    found = with_lost_pods(facts(*pods), now=125.0, limits=LIMITS, gone=GONE)
    assert state_of(found, 125.0).phase == "running"
