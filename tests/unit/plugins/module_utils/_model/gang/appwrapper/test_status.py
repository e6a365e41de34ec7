# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of an AppWrapper: MCAD's words for every path, stable order and times, nothing that overflows."""

from __future__ import annotations

import dataclasses
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang import state as states
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.status import (
    MOST_PENDING_PODS,
    _minimum,
    _totals,
    wrapper_status,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import PodCounts
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.tests.support.random_size import examples
from hypothesis import given, settings
from hypothesis import strategies as st

steady = settings(max_examples=examples(40))

NO_PODS = PodCounts()
WAITS = {"answer": "waits", "reason": "insufficient"}
ROOM = {"name": "train", "count": 2, "requests": {"cpu": "1500m", "memory": "3Gi", "nvidia.com/gpu": 4}}


def spec(**changes):
    obj = {"apiVersion": "example.com/v1", "kind": "Gizmo", "metadata": {"name": "g"}}
    return read_spec({"name": "aw", "namespace": "team", "objects": [obj], **changes}, "gang")


def at(second):
    return time_text(second)


class Story:
    """A gang whose status is projected after every change, one minute apart."""

    def __init__(self, **changes):
        self.spec = spec(**changes)
        self.time = 60
        self.state = states.new_state(at(self.time), "h/e/1")
        self.status = wrapper_status({}, self.spec, self.state, NO_PODS, at(self.time))

    def go(self, phase, reason="", message="", counts=NO_PODS, pending=(), **changes):
        self.time += 60
        self.state = states.advance(self.state, phase, at(self.time), reason, message, "h/e/2", **changes)
        self.status = wrapper_status(self.status, self.spec, self.state, counts, at(self.time), pending)
        return self

    def start(self, counts=NO_PODS):
        self.go("dispatching", states.CHOSEN, verdict=None)
        return self.go("dispatched", states.STARTED, counts=counts, reserved=(ROOM,), started_at=at(self.time))

    def undo(self, reason, then="queued", counts=NO_PODS, message="why", **changes):
        return self.go("undoing", reason, message, counts, then=then, **changes)

    @property
    def shown(self):
        return (self.status["state"], self.status["queuejobstate"], self.status.get("canrun", False))

    @property
    def conditions(self):
        return [(c["type"], c.get("reason"), c.get("message")) for c in self.status["conditions"]]

    @property
    def types(self):
        return [c["type"] for c in self.status["conditions"]]


BEGIN = [("Init", None, None), ("Queueing", "AwaitingHeadOfLine", None), ("HeadOfLine", "FrontOfQueue.", None)]
NO_ROOM = ("Backoff", "AppWrapperNotRunnable.", "Insufficient resources to dispatch AppWrapper.")
DISPATCHED = ("Dispatched", "AppWrapperRunnable", None)


def test_seen():
    story = Story()
    assert story.shown == ("Pending", "Queueing", False)
    assert story.conditions == BEGIN[:2]
    moment = "1970-01-01T00:01:00.000000Z"
    assert story.status == {
        "state": "Pending",
        "queuejobstate": "Queueing",
        "controllerfirsttimestamp": moment,
        "conditions": [
            {"type": "Init", "status": "True", "lastUpdateMicroTime": moment, "lastTransitionMicroTime": moment},
            {
                "type": "Queueing",
                "status": "True",
                "reason": "AwaitingHeadOfLine",
                "lastUpdateMicroTime": moment,
                "lastTransitionMicroTime": moment,
            },
        ],
    }


def test_success():
    story = Story().start()
    assert story.shown == ("Running", "Dispatched", True)
    assert story.conditions == [*BEGIN, DISPATCHED]
    story.go("running", states.PODS_BOUND, counts=PodCounts(running=2))
    assert story.shown == ("Running", "Dispatched", True)
    assert story.conditions == [*BEGIN, DISPATCHED]
    story.go("running", holding=True)
    assert story.shown == ("RunningHoldCompletion", "RunningHoldCompletion", True)
    story.go("complete", states.COMPLETED, holding=False, reserved=())
    assert story.shown == ("Completed", "Completed", False)
    hold = ("RunningHoldCompletion", "SomeItemsCompleted", None)
    assert story.conditions == [*BEGIN, DISPATCHED, hold, ("Completed", "PodsCompleted", None)]


def test_insufficient_then_dispatched():
    story = Story().go("queued", verdict=WAITS)
    assert story.shown == ("Pending", "Backoff", False)
    assert story.conditions == [*BEGIN, NO_ROOM]
    before = story.status
    assert story.go("queued", verdict={**WAITS, "answer": "never"}).status == before
    story.start()
    assert story.shown == ("Running", "Dispatched", True)
    assert story.conditions == [*BEGIN, NO_ROOM, DISPATCHED]
    assert story.status["conditions"][2] == before["conditions"][2]


def test_below_minimum_is_requeued_in_place():
    story = Story(min_available=3, requeue={"time": 10}).start()
    first = story.status["conditions"]
    story.undo(states.BELOW_MINIMUM, counts=PodCounts(running=1, succeeded=1), requeues=1)
    message = "Insufficient number of Running and Completed pods, minimum=3, running=1, completed=1."
    undone = [*BEGIN, DISPATCHED, ("PreemptCandidate", "MinPodsNotRunning", message)]
    undone.append(("Backoff", "PreemptionTriggered", message))
    assert story.conditions == undone
    assert story.shown == ("Pending", "Backoff", False)
    story.go("queued", states.REQUEUED)
    assert story.conditions == undone
    assert story.shown == ("Pending", "Backoff", False)
    story.start()
    assert story.conditions == undone
    assert story.shown == ("Running", "Dispatched", True)
    again = story.status["conditions"]
    renewed = [a["type"] for a, b in zip(again, first, strict=False) if a != b]
    assert renewed == ["Queueing", "HeadOfLine", "Dispatched"]
    assert (story.status["numberOfRequeueings"], story.status["requeueingTimeInSeconds"]) == (1, 10)


def test_a_second_shortage_after_a_requeue_is_dated_anew():
    story = Story().go("queued", verdict=WAITS).start().undo(states.LOST_RACE, counts=PodCounts(pending=2))
    short = "Pods failed scheduling failed=2, running=0."
    assert story.conditions[-2:] == [
        ("PreemptCandidate", "PodsFailedScheduling", short),
        ("Backoff", "PreemptionTriggered", short),
    ]
    story.go("queued", states.REQUEUED)
    old = story.status["conditions"][3]["lastUpdateMicroTime"]
    story.go("queued", verdict=WAITS)
    assert (story.conditions[3], story.types.count("Backoff")) == (NO_ROOM, 2)
    assert story.status["conditions"][3]["lastUpdateMicroTime"] > old


def test_deadline():
    story = Story(max_run_time=90).start().undo(states.TIME_LIMIT, then="failed")
    told = ("PreemptCandidate", "DispatchDeadlineExceeded", "Dispatch deadline exceeded. allowed to run for 90 seconds")
    for _step in range(2):
        assert story.shown == ("Failed", "Failed", False)
        assert story.conditions == [*BEGIN, DISPATCHED, told]
        story.go("failed", states.TIME_LIMIT, "why", then=None)


def test_creation_failure():
    story = Story().go("dispatching", states.CHOSEN).undo(states.REFUSED, then="failed", message="pods are forbidden")
    told = ("Failed", "ItemCreationFailure.", "team/aw creation failure: pods are forbidden")
    for _step in range(2):
        assert story.shown == ("Failed", "Failed", False)
        assert story.conditions == [*BEGIN, told]
        story.go("failed", states.REFUSED, "pods are forbidden", then=None)


def test_the_limit_of_requeues_shows_deleted():
    story = Story(min_available=1).start().undo(states.REQUEUE_LIMIT, then="failed")
    for _step in range(2):
        assert story.shown == ("Deleted", "Failed", False)
        assert story.types == ["Init", "Queueing", "HeadOfLine", "Dispatched", "PreemptCandidate"]
        story.go("failed", states.REQUEUE_LIMIT, "why", then=None)


@pytest.mark.parametrize(
    ("reason", "then", "told"),
    [
        ("ItemFailed", "failed", [("Failed", "ItemFailed", "why")]),
        (
            "ItemFailed",
            "queued",
            [("PreemptCandidate", "ItemFailed", "why"), ("Backoff", "PreemptionTriggered", "why")],
        ),
        (
            "Suspended",
            "suspended",
            [("PreemptCandidate", "Suspended", "why"), ("Backoff", "PreemptionTriggered", "why")],
        ),
        ("NameTaken", "queued", [("Backoff", "AppWrapperNotRunnable.", "why")]),
        (
            "QuotaRefused",
            "queued",
            [("Backoff", "quota limit exceeded", "Insufficient quota and/or resources to dispatch AppWrapper.")],
        ),
        ("Completed", "complete", []),
    ],
)
def test_what_mcad_does_not_know_is_told_in_its_form(reason, then, told):
    story = Story().start().undo(reason, then=then)
    assert story.conditions[4:] == told


def test_a_suspended_gang_is_pending():
    story = Story().start().undo(states.SUSPENDED, then="suspended").go("suspended", states.SUSPENDED, then=None)
    assert story.shown == ("Pending", "Queueing", False)
    assert story.go("queued", states.RESUMED).shown == ("Pending", "Queueing", False)


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        ({"answer": "never", "reason": "fragmentation"}, NO_ROOM),
        ({"answer": "waits"}, NO_ROOM),
        (
            {"answer": "waits", "reason": "namespace_quota"},
            ("Backoff", "quota limit exceeded", "Insufficient quota and/or resources to dispatch AppWrapper."),
        ),
        (
            {"answer": "waits", "reason": "claim_missing", "detail": "data"},
            ("Backoff", "AppWrapperNotRunnable.", "A PersistentVolumeClaim does not exist (data)."),
        ),
        ({"answer": "waits", "reason": "moon_phase"}, ("Backoff", "AppWrapperNotRunnable.", "Moon phase.")),
    ],
)
def test_why_a_gang_waits(verdict, told):
    assert Story().go("queued", verdict=verdict).conditions == [*BEGIN, told]


@pytest.mark.parametrize("reason", ["behind", "paused", "max_starts"])
def test_a_gang_whose_turn_has_not_come_is_not_at_the_head(reason):
    story = Story().go("queued", verdict={"answer": "waits", "reason": reason})
    assert story.shown == ("Pending", "Queueing", False)
    assert story.conditions == BEGIN[:2]


def test_the_message_of_a_waiting_gang_follows_its_verdict():
    story = Story().go("queued", verdict=WAITS).go("queued", verdict={"answer": "waits", "reason": "moon_phase"})
    assert story.conditions == [*BEGIN, ("Backoff", "AppWrapperNotRunnable.", "Moon phase.")]
    assert story.go("queued", verdict={"answer": "fits"}).shown == ("Pending", "Queueing", False)


def test_counts_totals_and_pending_pods():
    pending = [{"podname": f"pod-{number}", "conditions": [{"type": "PodScheduled"}]} for number in (2, 1)]
    story = Story(min_available=2, priority=7).start()
    story.go("dispatched", counts=PodCounts(1, 2, 3, 4), pending=pending)
    status = story.status
    assert [status[key] for key in ("pending", "running", "Succeeded", "failed")] == [1, 2, 3, 4]
    assert (status["template"], status["systempriority"]) == (2, 7)
    assert (status["totalcpu"], status["totalmemory"], status["totalgpu"]) == (3000, 6 * 2**30, 8)
    assert status["pendingpodconditions"] == pending[::-1]
    assert status["controllerfirstdispatchtimestamp"] == "1970-01-01T00:03:00.000000Z"
    story.go("complete", states.COMPLETED)
    assert not {"totalcpu", "totalmemory", "pending", "running", "pendingpodconditions"} & set(story.status)


def test_only_some_pending_pods_are_shown():
    pending = [{"podname": f"pod-{number:04}", "conditions": []} for number in range(MOST_PENDING_PODS + 5)]
    story = Story().start().go("dispatched", pending=pending)
    assert story.status["pendingpodconditions"] == pending[:MOST_PENDING_PODS]


@pytest.mark.parametrize(
    ("rule", "grown"),
    [
        ({"time": 10}, [0, 10, 20, 40, 80]),
        ({"time": 10, "growth": "linear"}, [0, 10, 20, 30, 40]),
        ({"time": 10, "growth": "none"}, [0, 0, 0, 0, 0]),
        ({"time": 10, "max_time": 25}, [0, 10, 20, 25, 25]),
    ],
)
def test_the_wait_before_a_requeue_grows_as_in_mcad(rule, grown):
    state = states.new_state(at(0), "h/e/1")
    told = [
        wrapper_status({}, spec(requeue=rule), dataclasses.replace(state, requeues=number), NO_PODS, at(0)).get(
            "requeueingTimeInSeconds", 0
        )
        for number in range(5)
    ]
    assert told == grown


def test_conditions_of_others_and_what_is_no_condition():
    foreign = {"type": "Running", "status": "True", "reason": "PodsRunning"}
    broken = {"type": "Queueing", "reason": "AwaitingHeadOfLine", "lastUpdateMicroTime": "soon"}
    previous = {"conditions": [foreign, 7, broken], "controllerfirsttimestamp": None, "sender": "before"}
    status = wrapper_status(previous, spec(), states.new_state(at(9), "h/e/1"), NO_PODS, at(9))
    assert [c["type"] for c in status["conditions"]] == ["Running", "Queueing", "Init"]
    assert status["conditions"][1]["lastUpdateMicroTime"] == "1970-01-01T00:00:09.000000Z"
    assert "sender" not in status


def test_now_must_be_a_time():
    with pytest.raises(BadInput, match="no time"):
        wrapper_status({}, spec(), states.new_state(at(9), "h/e/1"), NO_PODS, "now")


REASONS = sorted(
    value for name, value in vars(states).items() if name.isupper() and isinstance(value, str) and "/" not in value
)
amounts = st.sampled_from(["0", "1", "250m", "8Gi", "9E", 3, "nonsense", "-1"])
rooms = st.builds(
    lambda count, cpu, memory: {
        "name": "w",
        "count": count,
        "requests": {"cpu": cpu, "memory": memory, "nvidia.com/gpu": cpu},
    },
    st.integers(0, 2**31 - 1),
    amounts,
    amounts,
)
moments = st.integers(0, 10**6).map(at) | st.just("no time")
steps = st.lists(
    st.tuples(
        st.sampled_from(states.PHASES),
        moments,
        st.sampled_from(REASONS),
        st.fixed_dictionaries(
            {},
            optional={
                "verdict": st.none()
                | st.builds(
                    lambda answer, reason: {"answer": answer, "reason": reason},
                    st.sampled_from(["fits", "waits", "never"]),
                    st.sampled_from(["insufficient", "namespace_quota", "name_taken"]),
                ),
                "holding": st.booleans(),
                "then": st.none() | st.sampled_from(["queued", "failed", "suspended", "complete"]),
                "requeues": st.integers(0, 2**31 - 1),
                "reserved": st.lists(rooms, max_size=2).map(tuple),
            },
        ),
        st.builds(PodCounts, *[st.integers(0, 99)] * 4),
        st.integers(0, 10**6).map(at),
    ),
    max_size=12,
)


@steady
@given(steps, st.integers(0, 10**6).map(at))
def test_whatever_happens_the_projection_is_idempotent_ordered_and_within_bounds(moves, later):
    wanted = spec(min_available=2, requeue={"time": 3600})
    state = states.new_state(at(5), "h/e/1")
    status = wrapper_status(None, wanted, state, NO_PODS, at(5))
    for phase, moment, reason, changes, counts, now in moves:
        state = states.advance(state, phase, moment, reason, f"message at {moment}", "h/e/2", **changes)
        keys = [(c["type"], c.get("reason")) for c in status["conditions"]]
        status = wrapper_status(status, wanted, state, counts, now)
        for again in (now, later):
            assert wrapper_status(status, wanted, state, counts, again) == status
        assert [(c["type"], c.get("reason")) for c in status["conditions"]][: len(keys)] == keys
        assert len({(c["type"], c.get("reason")) for c in status["conditions"]}) == len(status["conditions"])
        assert status.get("canrun", False) == (phase in ("dispatched", "running", "rescaling"))
        numbers = [value for value in status.values() if isinstance(value, int)]
        assert all(0 <= value < 2**63 for value in numbers)
        rebuilt = wrapper_status({}, wanted, state, counts, now)
        assert [rebuilt.get(key) for key in ("state", "queuejobstate", "canrun")] == [
            status.get(key) for key in ("state", "queuejobstate", "canrun")
        ]
        assert json.loads(json.dumps(status)) == status


@pytest.mark.parametrize(("amount", "total"), [("0", 0), ("-5", 0), ("lots", 0), ("1", 3000), ("500m", 1500)])
def test_amounts_that_make_no_sense_count_nothing_in_the_totals(amount, total):
    state = dataclasses.replace(
        states.new_state("2026-01-01T00:00:00Z", "w"),
        reserved=({"name": "a", "count": 3, "requests": {"cpu": amount}},),
    )
    assert _totals(state) == {"totalcpu": total, "totalmemory": 0, "totalgpu": 0}


@pytest.mark.parametrize(("least", "shown"), [(None, 5), (0, 0), (2, 2), ({"a": 1, "b": 2}, 3)])
def test_the_least_pods_are_all_of_them_unless_something_else_is_said(least, shown):
    podsets = [{"name": name, "count": count, "requests": {"cpu": "1"}} for name, count in (("a", 2), ("b", 3))]
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
    values = {"name": "g", "namespace": "team", "objects": [thing], "podsets": podsets, "min_available": least}
    state = dataclasses.replace(states.new_state("2026-01-01T00:00:00Z", "w"), reserved=tuple(podsets))
    assert _minimum(read_spec(values, "gang"), state) == shown
