# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health: every rule for a started gang at its boundary, and that steps lead somewhere."""

from __future__ import annotations

import dataclasses

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import declared_podsets, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import (
    Advance,
    HealthOptions,
    Stay,
    Subject,
    Undo,
    declared_too_small,
    judge_health,
    start_is_overdue,
)
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_model import (
    T0,
    deployment,
    ended,
    gang_pod,
    live,
    ray_cluster,
    ray_job,
    spec_of,
    started,
)

JOB = job("work", 2, requests={"cpu": "1"})
WEB = deployment("web", 2)
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
FAILED = live(JOB, status=ended("Failed", "back-off limit"))
COMPLETE = live(JOB, status=ended("Complete"))
PENDING = {"on": None, "phase": "Pending"}


def subject(spec, state, pods=(), items=None, **more):
    """A gang as it was read; without items its objects are as they were created."""
    if spec.podsets is not None:
        podsets = declared_podsets(spec.podsets, namespace="default")
    else:
        podsets = infer_podsets(spec.objects, namespace="default")
    if items is None:
        items = {index: live(obj) for index, obj in enumerate(spec.objects)}
    return Subject(spec, state, tuple(podsets), tuple(pods), items, **more)


def judged(spec, state, pods=(), items=None, *, now=T0 + 10, **more):
    """The step for a gang."""
    return judge_health(subject(spec, state, pods, items, **more), now)


def taken(state, step, now):
    """The state after a step was carried out to its end."""
    at = time_text(now)
    if isinstance(step, Advance):
        return advance(state, step.phase, at, step.reason, step.message, "w", **step.changes())
    state = advance(state, "undoing", at, step.reason, step.message, "w", **step.changes())
    return advance(state, step.then, at, step.reason, step.message, "w", then=None, started_at=None)


# Starting.


def test_a_gang_runs_when_all_its_pods_are_bound():
    spec = spec_of(JOB)
    assert judged(spec, started(), [gang_pod()]) == Stay(next_check=T0 + 300)
    step = judged(spec, started(lost_races=2), [gang_pod(), gang_pod(on="b", phase="Pending")])
    changes = {"holding": False, "lost_races": 0, "nominations": 0}
    assert (step.phase, step.reason, step.changes()) == ("running", "PodsBound", changes)


def test_terminating_and_failed_pods_are_not_bound():
    pods = [gang_pod(), gang_pod(deleted=T0), gang_pod(phase="Failed")]
    assert isinstance(judged(spec_of(JOB), started(), pods), Stay)


def test_a_job_in_back_off_has_lost_no_race():
    ran = gang_pod(phase="Failed", finished=T0 + 5, code=1)
    assert judged(spec_of(JOB), started(), [ran, gang_pod()]).phase == "running"
    waiting = gang_pod(**PENDING)
    assert isinstance(judged(spec_of(JOB), started(), [ran, waiting, gang_pod()]), Stay)
    assert isinstance(judged(spec_of(JOB), started(), [ran, ran]), Advance)


def test_pods_that_succeeded_count_as_bound():
    step = judged(spec_of(JOB), started(), [gang_pod(phase="Succeeded"), gang_pod()])
    assert step.phase == "running"


def test_pods_a_job_counts_as_succeeded_need_not_be_there_any_more():
    items = {0: live(JOB, status={"succeeded": 1})}
    assert judged(spec_of(JOB), started(), [gang_pod()], items).phase == "running"


def test_every_podset_needs_its_pods():
    spec = spec_of(ray_cluster(replicas=1))
    assert isinstance(judged(spec, started(), [gang_pod("ray/small"), gang_pod("ray/small")]), Stay)
    assert judged(spec, started(), [gang_pod("ray/small"), gang_pod("ray/head")]).phase == "running"


def test_a_total_minimum_counts_over_the_whole_gang():
    spec = spec_of(JOB, WEB, min_available=2)
    assert isinstance(judged(spec, started(), [gang_pod()]), Stay)
    assert judged(spec, started(), [gang_pod(), gang_pod("web")]).phase == "running"


def test_podsets_without_a_minimum_must_be_there_whole():
    spec = spec_of(JOB, WEB, min_available={"work": 1})
    assert isinstance(judged(spec, started(), [gang_pod(), gang_pod("web")]), Stay)
    assert judged(spec, started(), [gang_pod(), gang_pod("web"), gang_pod("web")]).phase == "running"


def test_a_minimum_above_the_size_is_the_size():
    spec = spec_of(JOB, min_available=9)
    assert judged(spec, started(), [gang_pod(), gang_pod()]).phase == "running"
    assert judged(spec, started("running"), [gang_pod(), gang_pod()], now=T0 + 10**6) == Stay()


def test_a_gang_without_pods_runs_at_once_and_stays():
    spec = spec_of(SERVICE)
    assert judged(spec, started()).phase == "running"
    assert judged(spec, started("running"), now=T0 + 10**9) == Stay()


def test_the_submitter_is_not_waited_for():
    spec = spec_of(ray_job(replicas=1))
    assert judged(spec, started(), [gang_pod("ray/head"), gang_pod("ray/small")]).phase == "running"


def test_fewer_pods_than_declared_are_enough_when_no_more_are_wanted():
    spec = spec_of(JOB, podsets=[{"name": "work", "count": 4, "requests": {"cpu": "1"}}])
    assert isinstance(judged(spec, started(), [gang_pod()]), Stay)
    assert judged(spec, started(), [gang_pod(), gang_pod()]).phase == "running"


# Lost races.


def test_a_pod_without_node_for_too_long_undoes_the_gang():
    spec = spec_of(JOB)
    pods = [gang_pod(), gang_pod(**PENDING, unschedulable=T0 + 5)]
    assert judged(spec, started(), pods, now=T0 + 64.9) == Stay(next_check=T0 + 65)
    step = judged(spec, started(), pods, now=T0 + 65)
    assert (step.reason, step.then, step.counts_as) == ("LostRace", "queued", "lost_race")
    assert (step.lost_races, step.requeues, read_time(step.not_before)) == (1, 0, T0 + 70)
    assert "0/1 nodes fit" in step.message


def test_surplus_pods_without_node_do_not_matter():
    spec = spec_of(JOB, min_available=1)
    pods = [gang_pod(), gang_pod(**PENDING, unschedulable=T0)]
    assert judged(spec, started(), pods, now=T0 + 100).phase == "running"


def test_pods_that_do_not_come_undo_the_gang():
    step = judged(spec_of(JOB), started(), [gang_pod()], now=T0 + 300)
    assert (step.reason, step.counts_as) == ("LostRace", "lost_race")
    assert "1 of 2 pods of work are bound after 300 seconds" in step.message


def test_an_object_taken_away_is_missing():
    assert isinstance(judged(spec_of(WEB), started(), [], {0: None}), Stay)
    assert judged(spec_of(WEB), started(), [], {0: None}, now=T0 + 300).reason == "LostRace"


def test_a_state_without_times_counts_from_its_last_change():
    state = dataclasses.replace(started(), started_at=None)
    state = dataclasses.replace(state, transitions=(dataclasses.replace(state.transitions[-1], phase="unknown"),))
    assert isinstance(judged(spec_of(JOB), state, now=T0 + 299), Stay)
    assert judged(spec_of(JOB), state, now=T0 + 300).reason == "LostRace"


def test_terms_are_used():
    spec = spec_of(JOB)
    pods = [gang_pod(**PENDING, unschedulable=T0)]
    assert judge_health(subject(spec, started(), pods), T0 + 5, HealthOptions(bind_timeout=5)).reason == "LostRace"
    assert judge_health(subject(spec, started()), T0 + 7, HealthOptions(start_timeout=7)).reason == "LostRace"


@pytest.mark.parametrize(("lost", "pause"), [(0, 5), (1, 10), (2, 20), (3, 40), (30, 600)])
def test_the_pause_after_lost_races_doubles_up_to_ten_minutes(lost, pause):
    step = judged(spec_of(JOB), started(lost_races=lost), now=T0 + 300)
    assert (read_time(step.not_before), step.lost_races) == (T0 + 300 + pause, lost + 1)


def test_a_gang_that_pauses_is_looked_at_when_its_pause_is_over():
    state = taken(started(), judged(spec_of(JOB), started(), now=T0 + 300), T0 + 300)
    assert judged(spec_of(JOB), state, now=T0 + 301) == Stay(next_check=T0 + 305)
    assert judged(spec_of(JOB), state, now=T0 + 305) == Stay()


def test_a_fraction_of_a_second_never_shortens_a_pause():
    step = judged(spec_of(JOB), started(), now=T0 + 300.4)
    assert read_time(step.not_before) == T0 + 306


def test_pods_larger_than_declared_are_remembered():
    spec = spec_of(JOB, podsets=[{"name": "work", "count": 2, "requests": {"cpu": "425m"}}])
    pods = [gang_pod(cpu="426m"), gang_pod(cpu="426m", **PENDING, unschedulable=T0)]
    step = judged(spec, started(), pods, now=T0 + 100)
    assert step.observed == ({"name": "work", "count": 2, "requests": {"cpu": "426m", "pods": "1"}},)
    again = judged(spec, started(observed=step.observed), now=T0 + 300)
    assert again.observed == step.observed


def test_more_pods_than_declared_are_remembered():
    spec = spec_of(JOB, podsets=[{"name": "work", "count": 1, "requests": {"cpu": "1"}}])
    step = judged(spec, started(), [gang_pod(**PENDING, unschedulable=T0)], now=T0 + 100)
    assert [item["count"] for item in step.observed] == [2]


def test_pods_as_large_as_declared_leave_no_trace():
    step = judged(spec_of(JOB), started(), [gang_pod(**PENDING, unschedulable=T0)], now=T0 + 100)
    assert step.observed == ()


def test_a_declaration_that_is_too_small_is_named_after_three_lost_races():
    podsets = declared_podsets([{"name": "x", "count": 1, "requests": {"cpu": "425m"}}], namespace="default")
    seen = ({"name": "x", "count": 1, "requests": {"cpu": "426m", "pods": "1"}},)
    assert declared_too_small(started(lost_races=2, observed=seen), podsets) is None
    assert declared_too_small(started(lost_races=3), podsets) is None
    told = declared_too_small(started(lost_races=3, observed=seen), podsets)
    assert told == "podset x is declared with 425m of cpu, its pods ask for 426m"
    more = ({"name": "x", "count": 2, "requests": {}},)
    assert "with 1 pods, its objects make 2" in declared_too_small(started(lost_races=3, observed=more), podsets)
    inferred = infer_podsets([JOB], namespace="default")
    larger = ({"name": "work", "count": 2, "requests": {"cpu": "2"}},)
    assert declared_too_small(started(lost_races=3, observed=larger), inferred) is None


# Time limit.


@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_the_time_limit_needs_no_minimum_and_ends_in_failed(phase):
    spec = spec_of(WEB, max_run_time=100)
    state = started(phase)
    pods = [gang_pod("web")]
    assert judged(spec, state, pods, now=T0 + 99.9).next_check == T0 + 100
    step = judged(spec, state, pods, now=T0 + 100)
    assert (step.reason, step.then, step.counts_as) == ("TimeLimit", "failed", None)
    after = taken(state, step, T0 + 100)
    assert judged(spec, after, now=T0 + 10**6) == Stay()


def test_work_done_in_time_is_not_undone():
    assert judged(spec_of(JOB, max_run_time=5), started("running"), [], {0: COMPLETE}, now=T0 + 9).phase == "complete"


# Completion.


@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_a_gang_whose_items_are_done_is_complete(phase):
    pods = [gang_pod(phase="Succeeded"), gang_pod(deleted=T0)]
    step = judged(spec_of(JOB), started(phase, holding=True), pods, {0: COMPLETE})
    assert (step.phase, step.reason, step.changes()["holding"]) == ("complete", "Completed", False)


def test_pods_that_are_left_hold_the_completion():
    spec = spec_of(JOB, WEB)
    items = {0: COMPLETE, 1: live(WEB)}
    assert judged(spec, started("running"), [gang_pod("web")], items) == Stay(True, outcomes={0: "succeeded"})
    known = started("running", holding=True, outcomes={0: "succeeded"})
    assert judged(spec, known, [gang_pod("web")], items) == Stay(holding=True)


@pytest.mark.parametrize(("option", "reason"), [({"max_run_time": 5}, "TimeLimit"), ({"suspended": True}, "Suspended")])
def test_a_held_completion_ends_complete_by_limit_or_wish(option, reason):
    spec = spec_of(JOB, WEB, **option)
    step = judged(spec, started("running"), [gang_pod("web")], {0: COMPLETE, 1: live(WEB)})
    assert (step.reason, step.then) == (reason, "complete")


def test_progress_of_a_deployment_may_be_completion():
    spec = spec_of(WEB, completion=[{"item": 0, "contains": "progressing"}])
    items = {0: live(WEB, status=ended("Progressing"))}
    assert judged(spec, started("running"), [gang_pod("web")], items) == Stay(True, outcomes={0: "succeeded"})


def test_a_service_stays_running():
    assert judged(spec_of(WEB, SERVICE), started("running"), [gang_pod("web")] * 2, now=T0 + 10**7) == Stay()


def test_finished_pods_are_not_requeued():
    spec = spec_of(JOB, min_available=2, completion=[], requeue={"time": 1})
    pods = [gang_pod(phase="Succeeded", finished=T0 + 1)] * 2
    state = started("running", outcomes={0: "succeeded"})
    assert judged(spec, state, pods, {0: COMPLETE}, now=T0 + 10**6) == Stay()
    assert judged(spec, state, [], {0: None}, now=T0 + 10**6) == Stay()


# Failed items.


def failure(pods=(), *, requeues=0, **options):
    """The step for a gang whose Job failed."""
    return judged(spec_of(JOB, **options), started("running", requeues=requeues), pods, {0: FAILED})


def died(code):
    """A pod that failed with a code."""
    return gang_pod(phase="Failed", finished=T0 + 5, code=code)


def test_a_failed_item_fails_the_gang_and_its_objects_stay():
    step = failure([died(1)])
    message = "Job default/work failed: back-off limit"
    assert step == Advance("failed", "ItemFailed", message, outcomes={0: "failed"})


def test_a_terminal_exit_code_is_never_retried():
    step = failure([died(1), died(3)], exit_codes={"terminal": [3], "retryable": [1]}, requeue={"limit": 9})
    assert (step.phase, step.reason) == ("failed", "ItemFailed")
    assert "exit code 3" in step.message


def test_with_retryable_codes_only_those_are_retried():
    options = {"exit_codes": {"retryable": [75]}}
    step = failure([died(75)], **options, requeue={"pause": 90})
    assert (step.reason, step.then, step.counts_as, step.requeues) == ("ItemFailed", "queued", "requeue", 1)
    assert read_time(step.not_before) == T0 + 100
    assert failure([died(1)], **options, requeue={"limit": 9}).phase == "failed"
    assert failure([], **options, requeue={"limit": 9}).phase == "failed"


@pytest.mark.parametrize(("limit", "requeues", "again"), [(0, 0, False), (2, 0, True), (2, 1, True), (2, 2, False)])
def test_a_failing_job_is_retried_as_often_as_the_limit_says(limit, requeues, again):
    step = failure([died(1)], requeues=requeues, requeue={"limit": limit})
    if again:
        assert (step.then, step.requeues, step.not_before) == ("queued", requeues + 1, None)
    else:
        assert (step.phase, step.reason) == ("failed", "RequeueLimit")


def test_a_failure_that_completion_accepts_is_none():
    spec = spec_of(JOB, completion=[{"item": 0, "contains": "complete"}, {"item": 0, "contains": "failed"}])
    assert judged(spec, started("running"), [died(1)], {0: FAILED}).phase == "complete"


def test_a_failure_counts_before_the_gang_runs_too():
    assert judged(spec_of(JOB), started(), [died(1)], {0: FAILED}).phase == "failed"


@pytest.mark.parametrize("phase", ["dispatched", "running"])
@pytest.mark.parametrize(
    ("other", "pods"),
    [
        (live(job("other", 1)), [gang_pod("other")]),
        # Between two tries of its pod.
        (live(job("other", 1)), [gang_pod("other", phase="Failed", finished=T0, code=1)]),
    ],
)
def test_a_gang_fails_whole_while_others_of_it_go_on(phase, other, pods):
    items = {0: FAILED, 1: other}
    step = judged(spec_of(JOB, job("other", 1)), started(phase), [died(1), *pods], items)
    assert isinstance(step, Undo)
    assert (step.reason, step.then, step.counts_as, step.requeues) == ("ItemFailed", "failed", None, 0)
    assert step.changes()["outcomes"] == {0: "failed"}


def test_objects_stay_for_their_logs_when_all_of_the_gang_has_ended():
    spec = spec_of(JOB, job("other", 1), SERVICE)
    items = {0: FAILED, 1: live(job("other", 1), status=ended("Complete"))}
    pods = [died(1), gang_pod("other", phase="Succeeded", finished=T0), gang_pod(deleted=T0)]
    step = judged(spec, started("running"), pods, items)
    assert isinstance(step, Advance)
    assert (step.phase, step.changes()["outcomes"]) == ("failed", {0: "failed", 1: "succeeded"})


def test_the_requeue_limit_fails_the_gang_whole_too():
    spec = spec_of(JOB, WEB, requeue={"limit": 0})
    step = judged(spec, started("running"), [died(1), gang_pod("web")], {0: FAILED, 1: live(WEB)})
    assert isinstance(step, Undo)
    assert (step.reason, step.then, step.counts_as) == ("RequeueLimit", "failed", None)


# What is gone.

SHORT = job("work", 2, requests={"cpu": "1"})
SHORT["spec"]["ttlSecondsAfterFinished"] = 1


@pytest.mark.parametrize("obj", [JOB, SHORT])
@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_a_job_that_went_counts_by_its_last_outcome(obj, phase):
    spec = spec_of(obj)
    assert judged(spec, started(phase, outcomes={0: "succeeded"}), [], {0: None}).phase == "complete"
    step = judged(spec, started(phase, outcomes={0: "failed"}), [], {0: None})
    assert (step.phase, step.reason, step.message) == ("failed", "ItemFailed", "Job default/work failed")


@pytest.mark.parametrize("obj", [JOB, SHORT])
@pytest.mark.parametrize("phase", ["dispatched", "running"])
def test_a_job_that_went_without_an_outcome_fails_the_gang(obj, phase):
    spec = spec_of(obj, requeue={"limit": 9}, min_available=0)
    step = judged(spec, started(phase), [], {0: None})
    assert isinstance(step, Advance)
    assert (step.phase, step.reason) == ("failed", "OutcomeUnknown")
    assert "Job default/work is gone" in step.message
    assert isinstance(judged(spec, started(phase), [], {}), Stay | Advance)
    assert getattr(judged(spec, started(phase), [], {}), "phase", None) != "failed"


def test_what_is_left_of_a_gang_with_an_unknown_outcome_is_taken_back():
    spec = spec_of(JOB, WEB)
    step = judged(spec, started("running"), [gang_pod("web")], {0: None, 1: live(WEB)})
    assert isinstance(step, Undo)
    assert (step.reason, step.then, step.counts_as) == ("OutcomeUnknown", "failed", None)


def test_an_unknown_outcome_is_not_restarted_with_a_failed_one():
    spec = spec_of(JOB, job("other", 1), requeue={"limit": 9})
    step = judged(spec, started("running"), [died(1)], {0: FAILED, 1: None})
    assert (step.phase, step.reason) == ("failed", "OutcomeUnknown")
    assert "Job default/work failed" in step.message
    assert "Job default/other is gone" in step.message


def test_pods_tell_the_outcome_only_when_all_have_succeeded():
    over = gang_pod(phase="Succeeded", finished=T0)
    assert judged(spec_of(JOB), started("running"), [over, over], {0: None}).phase == "complete"
    step = judged(spec_of(JOB), started("running"), [over], {0: None})
    assert step.reason == "OutcomeUnknown"
    large = job("work", 2)
    large["spec"]["completions"] = 3
    assert judged(spec_of(large), started("running"), [over] * 2, {0: None}).reason == "OutcomeUnknown"
    assert judged(spec_of(large), started("running"), [over] * 3, {0: None}).phase == "complete"


def test_what_a_rule_accepted_stays_accepted_when_it_goes():
    spec = spec_of(JOB, WEB, completion=[{"item": 0, "contains": "failed"}, {"item": 1, "contains": "progress"}])
    items = {0: FAILED, 1: live(WEB, status=ended("Progressing"))}
    seen = judged(spec, started("running"), [gang_pod("web")], items).outcomes
    assert seen == {0: "succeeded", 1: "succeeded"}
    assert judged(spec, started("running", outcomes=seen), [], {0: None, 1: None}).phase == "complete"


def test_a_finished_job_that_went_is_not_waited_for():
    spec = spec_of(JOB, WEB)
    state = started(outcomes={0: "succeeded"})
    step = judged(spec_of(JOB, WEB, completion=[]), state, [gang_pod("web")] * 2, {0: None, 1: live(WEB)})
    assert step.phase == "running"
    assert judged(spec, state, [gang_pod("web")], {0: None, 1: live(WEB)}) == Stay(holding=True)


def test_an_outcome_is_noted_once():
    spec, items = spec_of(JOB, job("other", 1)), {0: COMPLETE, 1: live(job("other", 1))}
    pods = [gang_pod("other")]
    assert judged(spec, started("running"), pods, items).outcomes == {0: "succeeded"}
    assert judged(spec, started("running", outcomes={0: "succeeded"}), pods, items) == Stay()
    running = judged(spec, started(), pods, items)
    assert (running.phase, running.changes()["outcomes"]) == ("running", {0: "succeeded"})


def test_what_lives_says_more_than_what_was_noted():
    step = judged(spec_of(JOB), started("running", outcomes={0: "failed"}), [gang_pod()] * 2)
    assert step == Stay(outcomes={})


# Below the minimum.


def test_without_a_minimum_what_controllers_refill_is_not_missing():
    assert judged(spec_of(WEB), started("running"), now=T0 + 10**7) == Stay()
    failed = [gang_pod(phase="Failed", finished=T0, code=1)]
    assert judged(spec_of(JOB), started("running"), failed, now=T0 + 10**7) == Stay()


def bare(name, policy):
    """A pod that is an object of its own."""
    spec = {"restartPolicy": policy, "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def test_without_a_minimum_all_pods_that_nobody_refills_must_be_there():
    three = [bare(name, "Always") for name in "abc"]
    spec = spec_of(*three, requeue={"time": 60, "pause": 30})
    pods = [gang_pod("b"), gang_pod("c", created=T0 + 400)]
    items = {0: None, 1: live(three[1], status={"phase": "Running"}), 2: live(three[2], status={"phase": "Running"})}
    assert judged(spec, started("running"), pods, items, now=T0 + 59) == Stay(next_check=T0 + 60)
    step = judged(spec, started("running"), pods, items, now=T0 + 60)
    assert (step.reason, step.then, step.counts_as, step.requeues) == ("BelowMinimum", "queued", "requeue", 1)
    assert "Pod default/a is gone" in step.message
    once = spec_of(*three, requeue={"time": 60, "limit": 0})
    step = judged(once, started("running"), pods, items, now=T0 + 60)
    assert (step.reason, step.then) == ("RequeueLimit", "failed")


def test_a_pod_of_its_own_that_is_about_to_go_is_missing_from_then_on():
    both = [bare(name, "Never") for name in "ab"]
    spec = spec_of(*both, requeue={"time": 60})
    items = {0: live(both[0], deleted=True, status={"phase": "Running"}), 1: live(both[1])}
    pods = [gang_pod("a", deleted=T0 + 1000), gang_pod("b")]
    assert judged(spec, started("running"), pods, items, now=T0 + 1059) == Stay(next_check=T0 + 1060)
    step = judged(spec, started("running"), pods, items, now=T0 + 1060)
    assert (step.reason, "Pod default/a is being deleted" in step.message) == ("BelowMinimum", True)


def test_a_slow_pod_of_its_own_is_not_missing():
    slow = bare("a", "Always")
    items = {0: live(slow, status={"phase": "Pending"})}
    pods = [gang_pod("a", phase="Pending")]
    assert judged(spec_of(slow), started("running"), pods, items, now=T0 + 10**6) == Stay()


def test_a_controller_that_was_taken_away_leaves_too_few():
    cluster = ray_cluster(replicas=1)
    spec = spec_of(cluster, requeue={"time": 60})
    assert isinstance(judged(spec, started("running"), [], {0: None}, now=T0 + 59), Stay)
    step = judged(spec, started("running"), [], {0: None}, now=T0 + 60)
    assert (step.reason, step.then, step.message) == ("BelowMinimum", "queued", "RayCluster default/ray is gone")
    assert judged(spec, started("running"), [], {}, now=T0 + 10**6) == Stay()


def test_a_gang_below_its_minimum_is_requeued_after_its_time():
    spec = spec_of(WEB, min_available=2, requeue={"time": 60, "pause": 30})
    pods = [gang_pod("web"), gang_pod("web", phase="Failed", finished=T0 + 1000, code=1)]
    assert judged(spec, started("running"), pods, now=T0 + 1059) == Stay(next_check=T0 + 1060)
    step = judged(spec, started("running"), pods, now=T0 + 1060)
    assert (step.reason, step.then, step.counts_as, step.requeues) == ("BelowMinimum", "queued", "requeue", 1)
    assert read_time(step.not_before) == T0 + 1090
    assert "1 of at least 2 pods run or have succeeded" in step.message


def test_a_pod_that_just_came_back_gets_the_time_too():
    spec = spec_of(WEB, min_available=2, requeue={"time": 60})
    pods = [gang_pod("web"), gang_pod("web", created=T0 + 500, phase="Pending")]
    assert isinstance(judged(spec, started("running"), pods, now=T0 + 550), Stay)
    assert isinstance(judged(spec, started("running"), pods, now=T0 + 560), Undo)


def test_minimums_of_single_podsets_are_watched_alone():
    spec = spec_of(JOB, WEB, min_available={"web": 1}, requeue={"time": 60})
    state = started("running")
    assert judged(spec, state, [gang_pod("web")], now=T0 + 999) == Stay()
    step = judged(spec, state, [gang_pod(), gang_pod()], now=T0 + 999)
    assert step.message == "0 of at least 1 pods of web run or have succeeded"


def test_surplus_workers_do_not_replace_missing_ones_of_another_podset():
    spec = spec_of(ray_cluster(replicas=3), min_available={"ray/head": 1}, requeue={"time": 60})
    assert isinstance(judged(spec, started("running"), [gang_pod("ray/small")] * 3, now=T0 + 99), Undo)


def test_a_job_with_work_left_must_run():
    big = job("work", 2)
    big["spec"]["completions"] = 10
    spec = spec_of(big, min_available=2, requeue={"time": 60})
    done = [gang_pod(phase="Succeeded", finished=T0 + 5)] * 5
    items = {0: live(big, status={"succeeded": 5})}
    assert isinstance(judged(spec, started("running"), done, items, now=T0 + 64), Stay)
    assert isinstance(judged(spec, started("running"), done, items, now=T0 + 65), Undo)
    nearly = {0: live(big, status={"succeeded": 9})}
    assert judged(spec, started("running"), [gang_pod()], nearly, now=T0 + 999) == Stay()


@pytest.mark.parametrize(
    ("growth", "waits"), [("exponential", [60, 120, 240, 400]), ("linear", [60, 120, 180, 240]), ("none", [60] * 4)]
)
def test_the_time_grows_with_each_requeue(growth, waits):
    spec = spec_of(WEB, min_available=1, requeue={"time": 60, "growth": growth, "max_time": 400})
    for requeues, wait in enumerate(waits):
        state = started("running", requeues=requeues)
        assert judged(spec, state, now=T0 + wait - 1) == Stay(next_check=T0 + wait)
        assert judged(spec, state, now=T0 + wait).requeues == requeues + 1


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_limit_holds_and_the_gang_is_then_undone_for_good(limit):
    spec = spec_of(WEB, min_available=1, requeue={"time": 1, "growth": "none", "limit": limit})
    seen = 0
    state = started("running")
    for _turn in range(10):
        step = judged(spec, state, now=T0 + 60)
        if step.then == "failed":
            break
        seen += 1
        state = started("running", requeues=taken(state, step, T0 + 60).requeues)
    assert (seen, step.reason, step.then, step.requeues) == (limit, "RequeueLimit", "failed", limit)


# Nodes.


def test_a_steered_podset_that_lost_its_node_is_undone():
    spec = spec_of(JOB)
    state = started("running", steering={"work": ("a", "b")})
    pods = [gang_pod(on="a"), gang_pod(on="b")]
    assert judged(spec, state, pods, nodes={"a": "a", "b": "b"}) == Stay()
    assert judged(spec, state, pods[:1], nodes={"a": "a", "b": "b"}) == Stay()
    step = judged(spec, state, pods, nodes={"a": "a", "c": "c"})
    assert (step.reason, step.then, step.counts_as) == ("NodeLost", "queued", None)
    assert judged(spec, state, pods) == Stay()


def test_a_node_that_went_without_a_pod_does_no_harm():
    state = started("running", steering={"work": ("a", "b")})
    assert judged(spec_of(JOB), state, [gang_pod(on="a")] * 2, nodes={"a": "a"}) == Stay()


def test_podsets_that_were_not_steered_may_go_elsewhere():
    assert judged(spec_of(JOB), started("running"), [gang_pod(on="b")], nodes={"a": "a"}) == Stay()


# Wishes and age.


def test_wishes_of_the_user_are_followed():
    assert judged(spec_of(JOB, suspended=True), started("running"), [gang_pod()]).then == "suspended"
    assert judged(spec_of(JOB, suspended=True), new_state("2026-01-01T00:00:00Z", "w")).phase == "suspended"
    assert judged(spec_of(JOB, suspended=True), None).phase == "suspended"
    assert judged(spec_of(JOB), None) == Stay()
    resting = new_state("2026-01-01T00:00:00Z", "w", "suspended")
    assert judged(spec_of(JOB), resting).phase == "queued"
    assert judged(spec_of(JOB, suspended=True), resting) == Stay()


@pytest.mark.parametrize("phase", ["complete", "failed"])
def test_what_ended_is_left_to_retention_whatever_its_ttl(phase):
    assert judged(spec_of(JOB, ttl=60), started(phase), now=T0 + 60) == Stay()
    assert judged(spec_of(JOB), started(phase), now=T0 + 10**9) == Stay()


def test_a_start_that_does_not_end_is_undone_without_being_counted():
    state = started("dispatching", at=T0, requeues=1, lost_races=2)
    assert judged(spec_of(JOB), state, now=T0 + 299.9) == Stay(next_check=T0 + 300)
    step = judged(spec_of(JOB), state, now=T0 + 300)
    assert (step.reason, step.then, step.counts_as) == ("StartTimeout", "queued", None)
    assert (step.lost_races, step.requeues, read_time(step.not_before)) == (2, 1, T0 + 330)
    short = HealthOptions(start_timeout=7)
    assert isinstance(judge_health(subject(spec_of(JOB), state), T0 + 6.9, short), Stay)
    assert judge_health(subject(spec_of(JOB), state), T0 + 7, short).reason == "StartTimeout"


def test_what_ends_during_the_start_is_noted():
    items = {0: COMPLETE}
    state = started("dispatching")
    assert judged(spec_of(JOB, WEB), state, [], items) == Stay(next_check=T0 + 300, outcomes={0: "succeeded"})


def test_an_object_that_fails_during_the_start_is_not_waited_for():
    step = judged(spec_of(JOB, WEB), started("dispatching"), [gang_pod()], {0: FAILED})
    assert (step.reason, step.then) == ("ItemFailed", "failed")


def test_an_object_that_goes_unseen_during_the_start_fails_the_gang():
    step = judged(spec_of(JOB, WEB), started("dispatching", made=1), [], {0: None})
    assert (step.reason, step.then) == ("OutcomeUnknown", "failed")


def test_a_start_that_waits_is_taken_back_when_the_gang_is_suspended():
    step = judged(spec_of(JOB, WEB, suspended=True), started("dispatching"), [gang_pod()], {})
    assert (step.reason, step.then, step.counts_as) == ("Suspended", "suspended", None)


@pytest.mark.parametrize("phase", ["dispatching", "dispatched", "running"])
def test_a_started_gang_whose_record_is_being_deleted_is_undone(phase):
    step = judged(spec_of(JOB), started(phase), [gang_pod()] * 2, terminating=True)
    assert (step.reason, step.then, step.counts_as, step.not_before) == ("Deleted", "queued", None, None)


@pytest.mark.parametrize("phase", ["queued", "undoing", "suspended", "complete", "failed"])
def test_a_record_that_is_being_deleted_and_holds_nothing_is_left_alone(phase):
    spec = spec_of(JOB, ttl=0)
    assert judged(spec, started(phase), terminating=True, now=T0 + 10**6) == Stay()
    assert judged(spec_of(JOB, suspended=True), None, terminating=True) == Stay()


@pytest.mark.parametrize("phase", ["undoing", "evicting", "unknown"])
def test_phases_in_which_others_are_at_work_are_left_alone(phase):
    spec = spec_of(JOB, suspended=True, max_run_time=1, ttl=1)
    assert judged(spec, started(phase), [], {0: FAILED}, now=T0 + 10**6) == Stay()


# Properties.

STATUSES = st.sampled_from([{}, {"succeeded": 1}, ended("Complete"), ended("Failed")])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "min_available": st.integers(0, 4),
        "max_run_time": st.integers(0, 400),
        "suspended": st.booleans(),
        "completion": st.sampled_from([[], [{"item": 0, "type": "Complete"}], [{"pods": True}]]),
        "requeue": st.fixed_dictionaries({"time": st.integers(0, 300)}, optional={"limit": st.integers(0, 3)}),
        "ttl": st.integers(0, 100),
        "exit_codes": st.sampled_from([{"terminal": [1]}, {"retryable": [1]}]),
    },
)
PODS = st.lists(
    st.sampled_from(
        [
            {},
            {"on": None, "phase": "Pending", "unschedulable": T0},
            {"phase": "Succeeded", "finished": T0 + 5},
            {"phase": "Failed", "finished": T0 + 5, "code": 1},
            {"deleted": T0 + 5},
        ]
    ),
    max_size=4,
)


@hypothesis.given(
    options=OPTIONS,
    pods=PODS,
    status=STATUSES,
    phase=st.sampled_from(["queued", "dispatched", "running", "suspended", "complete", "failed"]),
    requeues=st.integers(0, 4),
    later=st.floats(0, 1000),
)
def test_the_same_reading_never_gives_the_same_step_twice(options, pods, status, phase, requeues, later):
    """Steps come to an end: soon the gang stays, is undone, or expires; and a limit is never passed."""
    spec = spec_of(JOB, **options)
    state = started(phase, requeues=requeues)
    made = [gang_pod(**parts) for parts in pods]
    items = {0: live(JOB, status=status)}
    now = T0 + later
    for _turn in range(4):
        step = judged(spec, state, made, items, now=now)
        if not isinstance(step, Advance):
            break
        after = taken(state, step, now)
        assert after.phase != state.phase
        state = after
    assert isinstance(step, Stay | Undo)
    if isinstance(step, Stay):
        assert step.next_check is None or step.next_check > now
    if isinstance(step, Undo):
        limit = spec.requeue.limit
        assert step.requeues <= max(requeues, limit if limit is not None else requeues + 1)
        assert state.phase in ("dispatched", "running")


@hypothesis.given(options=OPTIONS, pods=PODS, status=STATUSES, later=st.floats(0, 1000))
def test_looking_again_at_the_time_named_is_never_too_late(options, pods, status, later):
    """Nothing would have happened between now and the next check, had one looked."""
    spec = spec_of(JOB, **options)
    reading = subject(spec, started("running"), [gang_pod(**parts) for parts in pods], {0: live(JOB, status=status)})
    step = judge_health(reading, T0 + later)
    if isinstance(step, Stay):
        until = T0 + 10**9 if step.next_check is None else step.next_check
        between = T0 + later + (until - T0 - later) * 0.999
        again = judge_health(reading, between)
        assert dataclasses.replace(again, next_check=None) == dataclasses.replace(step, next_check=None)


def test_only_pods_of_their_own_that_have_not_ended_are_missed_when_deleted():
    one, two = bare("a", "Never"), bare("b", "Never")
    spec = spec_of(one, two, SERVICE, requeue={"time": 60})
    ended_pod = live(one, deleted=True, status={"phase": "Succeeded"})
    items = {0: ended_pod, 1: live(two, status={"phase": "Running"}), 2: live(SERVICE, deleted=True)}
    pods = [gang_pod("b")]
    state = dataclasses.replace(started("running"), outcomes={0: "succeeded"})
    assert isinstance(judged(spec, state, pods, items, now=T0 + 10**5), Stay)


@pytest.mark.parametrize(("after", "overdue"), [(299, False), (300, True), (301, True)])
def test_a_start_is_overdue_from_the_end_of_its_time_on(after, overdue):
    state = started("dispatching", at=T0)
    assert start_is_overdue(state, T0 + after, 300.0) is overdue
    unknown = dataclasses.replace(state, transitions=(), started_at=None)
    assert start_is_overdue(unknown, T0 + 10**6, 300.0) is False
