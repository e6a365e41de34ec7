# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of one cycle, on situations written by hand: who is refused, goes on, is stopped, starts or waits."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    NODE_LOST,
    OUTCOME_UNKNOWN,
    STATE_ANNOTATION,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot, node_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import plan as plan_module
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import index_pods
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import Advance, Stay
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import (
    Situation,
    plan_cycle,
    without_failed,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.tests.support.cluster_model import job, node
from ansible_collections.muster.kube.tests.support.gang_model import T0, ended, gang_pod, live, started

NOW = T0 + 30.0
ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}


def record(name="g", *, state=None, objects=None, pods=1, **options):
    """A record as the server would send it."""
    wanted = objects or [job("work", pods, requests={"cpu": "1"})]
    raw = build_record(read_spec({"name": name, "namespace": "default", "objects": wanted, **options}, "gang"))
    raw["metadata"].update(uid=name, resourceVersion="1", creationTimestamp=time_text(T0))
    if state is not None:
        raw["metadata"]["annotations"] = {STATE_ANNOTATION: state_text(state)}
    return record_from_api(raw)


def make_plan(*records, pods=(), items=None, options=None, memory=None, problems=None, visible=True, nodes=1, **more):
    """The plan of a cluster with one node of four processors."""
    memory = memory or Memory()
    snapshot = Snapshot(
        nodes=tuple(node_from_api(node(f"n{number}", cpu="4")) for number in range(nodes)), nodes_visible=visible
    )
    sizes = {item.uid: memory.size(item, snapshot)[0] for item in records}
    world = World(
        snapshot=snapshot,
        gangs={uid: gang for uid, gang in sizes.items() if gang is not None},
        problems=problems or {},
        tickets={},
        pods=index_pods(pods),
        items=items or {},
        accounts=None,
    )
    known = {item.uid: item for item in records}
    situation = Situation(world, known, (), {}, NOW, **{"certain": NOW, **more})
    return plan_cycle(situation, options or DispatchOptions(namespaces=("default",)), memory)


def running(name="g", *, on="n0", **options):
    """A gang that runs, with its pod and its live object."""
    made = record(name, state=started("running", reserved=({"name": "work", "count": 1, "requests": {}},)), **options)
    return made, gang_pod("work", gang=name, on=on), {name: {0: live(made.spec.objects[0])}}


def test_gangs_that_fit_start_in_their_order_and_others_wait():
    sizes = {"a": 3, "b": 3, "c": 1}
    plan = make_plan(*(record(name, objects=[job(name, n, requests={"cpu": "1"})]) for name, n in sizes.items()))
    assert [item.record.name for item in plan.starts] == ["a", "c"]
    assert [(item.record.name, item.verdict.reason) for item in plan.waiting] == [("b", "insufficient")]
    assert (plan.refusals, plan.steps, plan.stops, plan.unjudged, dict(plan.unforeseen)) == ((), (), (), (), {})


def test_nothing_is_taken_away_while_nobody_can_tell_how_late_it_is():
    gang, pod, items = running(max_run_time=5)
    assert [item.reason for item in make_plan(gang, pods=[pod], items=items).stops] == ["TimeLimit"]
    plan = make_plan(gang, pods=[pod], items=items, certain=None)
    assert (plan.stops, plan.steps, plan.next_check) == ((), (), NOW + 1.0)


def test_what_is_due_is_looked_at_when_it_is_certainly_due():
    gang, pod, items = running(max_run_time=600)
    assert make_plan(gang, pods=[pod], items=items).next_check == T0 + 600
    assert make_plan(gang, pods=[pod], items=items, certain=NOW - 7).next_check == T0 + 607
    assert make_plan(gang, pods=[pod], items=items, certain=NOW + 7).next_check == T0 + 600


def test_the_first_moment_counts_of_several():
    first, pod, items = running("a", max_run_time=600)
    second, other, more = running("b", max_run_time=60)
    third, last, rest = running("c", max_run_time=6_000)
    plan = make_plan(first, second, third, pods=[pod, other, last], items={**items, **more, **rest})
    assert plan.next_check == T0 + 60


def test_an_end_that_is_seen_is_a_step():
    gang, pod, items = running()
    items["g"][0] = {**items["g"][0], "status": ended("Complete")}
    (step,) = make_plan(gang, pods=[], items=items).steps
    assert isinstance(step.step, Advance)
    assert step.step.phase == "complete"
    (noted,) = make_plan(gang, pods=[pod], items=items).steps
    assert isinstance(noted.step, Stay)
    assert noted.step.holding is True


def test_a_gang_about_which_nothing_is_new_is_left_as_it_is():
    gang, pod, items = running()
    assert make_plan(gang, pods=[pod], items=items).steps == ()


def test_gangs_that_rest_are_judged_only_where_that_is_said():
    gang, pod, items = running(max_run_time=5)
    assert make_plan(gang, pods=[pod], items=items, resting={"g"}).stops == ()
    assert len(make_plan(gang, pods=[pod], items=items, resting={"g"}, judged={"g"}).stops) == 1


def test_gangs_of_others_are_not_judged():
    gang, pod, items = running(max_run_time=5)
    options = DispatchOptions(namespaces=("default",), only=frozenset({"other"}))
    assert make_plan(gang, pods=[pod], items=items, options=options).stops == ()


@pytest.mark.parametrize(
    ("known", "words"),
    [({"lost": {"g": "Job work"}}, "Job work is gone"), ({"ticketless": {"g"}}, "no ticket")],
)
def test_a_gang_whose_end_nobody_saw_fails(known, words):
    gang, pod, items = running()
    (stop,) = make_plan(gang, pods=[pod], items=items, **known).stops
    assert (stop.record, stop.reason, stop.then, stop.changes) == (gang, OUTCOME_UNKNOWN, "failed", {"holding": False})
    assert words in stop.message


def test_what_is_known_of_an_end_counts_more_than_a_lost_ticket():
    gang, pod, items = running()
    items["g"][0] = {**items["g"][0], "status": ended("Complete")}
    plan = make_plan(gang, pods=[], items=items, ticketless={"g"})
    assert (len(plan.steps), plan.stops) == (1, ())
    gang, pod, items = running(max_run_time=5)
    (stop,) = make_plan(gang, pods=[pod], items=items, lost={"g": "Job work"}).stops
    assert stop.reason == "TimeLimit"


def test_steered_pods_are_missed_only_where_nodes_are_seen():
    state = started("running", steering={"work": ("gone",)}, reserved=({"name": "work", "count": 1, "requests": {}},))
    gang = record(state=state)
    items = {"g": {0: live(gang.spec.objects[0])}}
    pod = gang_pod("work", gang="g", on="gone")
    assert [item.reason for item in make_plan(gang, pods=[pod], items=items).stops] == [NODE_LOST]
    assert make_plan(gang, pods=[pod], items=items, visible=False).stops == ()


def test_an_expression_that_cannot_be_evaluated_is_told():
    rule = [{"item": 0, "jmespath": "status.active"}]
    gang, pod, items = running(completion=rule)

    def search(_expression, _object):
        raise BadInput("evaluate", "status.active", "it is no expression")

    plan = make_plan(gang, pods=[pod], items=items, search=search)
    ((found, problem),) = plan.unjudged
    assert (found, plan.steps, plan.stops) == (gang, (), ())
    assert "no expression" in str(problem)


def test_an_error_of_ours_harms_its_gang_only():
    bad, pod, items = running("bad", completion=[{"item": 0, "jmespath": "x"}])
    late, other, more = running("late", max_run_time=5)

    def search(_expression, _object):
        raise ZeroDivisionError("boom")

    plan = make_plan(bad, late, pods=[pod, other], items={**items, **more}, search=search)
    assert [item.record.name for item in plan.stops] == ["late"]
    ((found, problem),) = plan.unjudged
    assert found is bad
    assert "ZeroDivisionError" in str(problem)


def test_what_can_never_start_is_refused():
    plan = make_plan(record("a", objects=[ROLE, job("work", 1)]), record("b"))
    assert [item.record.name for item in plan.refusals] == ["a"]
    assert "rights" in plan.refusals[0].message
    assert [item.record.name for item in plan.starts] == ["b"]
    assert {uid: item.phase for uid, item in plan.after.items()} == {"a": "failed", "b": "queued"}


@pytest.mark.parametrize("label", ["theirs", None])
def test_a_gang_whose_label_names_another_queue_is_refused(label):
    """Rights to use a queue are asked for the one in the label, which is all that a server can read."""
    raw = record("a", queue="mine").raw
    raw["metadata"]["labels"].update({"muster.kube/queue": label} if label else {})
    if label is None:
        del raw["metadata"]["labels"]["muster.kube/queue"]
    plan = make_plan(record_from_api(raw), record("b", queue="mine"))
    assert [item.record.name for item in plan.refusals] == ["a"]
    assert "and the gang itself queue mine" in plan.refusals[0].message
    assert [item.record.name for item in plan.starts] == ["b"]


def test_what_the_size_of_a_gang_came_to_is_a_reason_to_refuse_it():
    plan = make_plan(record("a"), problems={"a": "nobody knows its pods"})
    assert [(item.record.name, item.message) for item in plan.refusals] == [("a", "nobody knows its pods")]


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"resting": {"a"}}, None),
        ({"options": DispatchOptions(namespaces=("default",), only=frozenset({"b"}))}, None),
        ({}, started("running")),
    ],
)
def test_only_gangs_that_wait_for_this_run_are_refused(more, state):
    assert make_plan(record("a", objects=[ROLE, job("work", 1)], state=state), **more).refusals == ()


def test_an_error_of_ours_while_it_is_asked_keeps_the_gang_waiting(monkeypatch):
    def fail(item, *_more):
        if item.name == "bad":
            raise ZeroDivisionError("boom")

    monkeypatch.setattr(plan_module, "why_never", fail)
    plan = make_plan(record("bad"), record("good"))
    assert set(plan.unforeseen) == {"bad"}
    assert [item.record.name for item in plan.choices] == ["good"]
    assert set(plan.after) == {"good"}


def test_a_gang_that_is_resumed_starts_and_one_that_is_to_rest_does_not():
    resumed = record("a", state=started("suspended"))
    resting = record("b", suspended=True)
    plan = make_plan(resumed, resting)
    assert {item.record.name: item.step.phase for item in plan.steps} == {"a": "queued", "b": "suspended"}
    assert [item.record.name for item in plan.starts] == ["a"]
    unsure = make_plan(resting, certain=None)
    assert (unsure.steps, unsure.choices) == ((), ())


def test_a_suspended_gang_of_others_takes_its_turn():
    """Whether it rests is for its own run to say."""
    options = DispatchOptions(namespaces=("default",), only=frozenset({"mine"}))
    plan = make_plan(record("theirs", pods=4, suspended=True), record("mine", pods=1), options=options)
    assert [item.record.name for item in plan.choices] == ["mine", "theirs"]
    assert [item.record.name for item in make_plan(record("mine", suspended=True)).choices] == []


def test_a_resumed_gang_that_can_never_start_is_refused_as_it_was_read():
    stopped = record("a", objects=[ROLE, job("work", 1)], state=started("suspended"))
    plan = make_plan(stopped)
    assert [item.record for item in plan.refusals] == [stopped]
    assert plan.choices == ()
    assert plan.after["a"].phase == "failed"


def test_gangs_that_the_server_refuses_for_good_are_failed_when_others_are_asked_again():
    plan = make_plan(record("a"), record("b"))
    after = without_failed(plan, {"a": "not here"}, NOW)
    assert {uid: item.phase for uid, item in after.items()} == {"a": "failed", "b": "queued"}
    assert after["a"].state.transitions[-1].message == "not here"
    assert dataclasses.replace(plan, after=after).after["b"] is plan.after["b"]
