# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The whole flow of gang: many gangs, waiting, and starting them ourselves."""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang import run
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import NotReached, run_gangs
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import job, node, pod
from ansible_collections.muster.kube.tests.support.gang_records import (
    RECORDS,
    add_record,
    gang,
    set_phase,
    start,
    terms,
)

NEVER = {
    **{"gang": "train", "namespace": "team", "answer": "never", "how": None, "reason": "insufficient"},
    **{"detail": None, "advice": [], "steering": {}, "not_modelled": [], "may_preempt": [], "placement": None},
    "layers": [{"layer": "namespace", "passed": True, "quotas": [], "problems": []}],
}


def perform(api, asked):
    """Run the flow; returns its answer and what was reported."""
    told: list[str] = []
    return run_gangs(api.client, asked, told.append), told


@dataclasses.dataclass
class Result:
    """What a run of the dispatcher answers."""

    decisions: tuple[t.Any, ...] = ()
    coordination: str = "cluster"
    holder: str | None = None
    unseen: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    phases: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Decision:
    """One decision."""

    uid: str
    action: str
    reason: str = ""
    message: str = ""


@pytest.fixture
def dispatcher(monkeypatch):
    """Replaces the dispatcher by a function; returns the terms it was called with."""
    calls = []

    def install(work):
        def dispatch(client, renewal, asked, report, *, until):
            calls.append((asked, until, client is renewal))
            return work()

        monkeypatch.setattr(run, "run_dispatch", dispatch)
        return calls

    return install


class TestRecords:
    def test_many_gangs_are_queued_in_order(self, api):
        gangs = [gang(definition=job(name, 1, requests={"cpu": "1"})) for name in ("c", "a", "b")]
        answer, _told = perform(api, terms(*gangs))
        assert [entry["name"] for entry in answer.as_result()["gangs"]] == ["c", "a", "b"]
        assert [entry["action"] for entry in answer.as_result()["gangs"]] == ["created"] * 3
        assert answer.changed
        api.asked.clear()
        again, _told = perform(api, terms(*gangs))
        assert (again.changed, len(api.asked), api.writes) == (False, 3, [])

    def test_nothing_is_queued_when_one_of_them_is_wrong(self, api):
        with pytest.raises(BadInput):
            perform(api, terms(gang(), gang(definition="just words", name="bad")))
        assert api.asked == []

    def test_the_difference_is_there_when_asked_for(self, api):
        answer, _told = perform(api, terms())
        assert "diff" not in answer.as_result()
        (shown,) = answer.as_result(diff=True)["diff"]
        assert (shown["before"], shown["after"]["name"]) == ({}, "train")


class TestAbsent:
    def test_a_gang_is_removed_once(self, api):
        add_record(api)
        answer, _told = perform(api, terms({"name": "train", "namespace": "team"}, state="absent"))
        assert [(entry["action"], entry["changed"]) for entry in answer.entries()] == [("deleted", True)]
        answer, _told = perform(api, terms({"name": "train", "namespace": "team"}, state="absent"))
        assert [(entry["action"], entry["changed"]) for entry in answer.entries()] == [("unchanged", False)]

    def test_check_mode_deletes_nothing(self, api):
        add_record(api)
        answer, _told = perform(api, terms(state="absent", check_mode=True))
        assert (answer.changed, api.writes) == (True, [])
        assert answer.as_result(diff=True)["diff"][0]["before"]["name"] == "train"

    def test_a_collector_that_does_nothing_is_warned_of(self, api):
        start(api, add_record(api, phase="running"))
        api.collects = False
        api.objects.pop("/api/v1/namespaces/team/pods/p")
        answer, _told = perform(api, terms(state="absent"))
        assert "the garbage collector did not act" in answer.as_result()["warnings"][0]

    def test_a_configmap_that_is_no_record_is_not_removed(self, api):
        api.put(f"{RECORDS}/train", {"kind": "ConfigMap", "metadata": {"name": "train", "namespace": "team"}})
        answer, _told = perform(api, terms(state="absent"))
        assert (answer.changed, api.writes) == (False, [])


class TestCheckMode:
    def test_nothing_is_written(self, api):
        answer, _told = perform(api, terms(check_mode=True, dispatch=True, wait_for="running"))
        assert (answer.changed, api.writes) == (True, [])
        assert answer.entries()[0]["position"] == 1


class TestWaiting:
    def test_for_another_dispatcher_to_start_it(self, api):
        phases = iter(["dispatching", "dispatched", "running"])
        api.on_sleep = lambda: set_phase(api, next(phases))
        answer, told = perform(api, terms(wait_for="running"))
        assert answer.entries()[0]["phase"] == "running"
        assert told == [f"gang team/train: {phase}" for phase in ("queued", "dispatching", "dispatched", "running")]

    @pytest.mark.parametrize(
        ("goal", "phase"), [("dispatched", "running"), ("dispatched", "complete"), ("running", "complete")]
    )
    def test_a_gang_that_went_further_has_been_there(self, api, goal, phase):
        add_record(api, phase=phase)
        answer, _told = perform(api, terms(wait_for=goal))
        assert (answer.changed, len(api.asked)) == (False, 1)

    def test_a_failed_gang_ends_the_wait(self, api):
        api.on_sleep = lambda: set_phase(api, "failed")
        with pytest.raises(NotReached, match="gang team/train: it failed: Because: of a test") as caught:
            perform(api, terms(wait_for="running"))
        assert caught.value.as_result()["gangs"][0]["phase"] == "failed"

    def test_a_deleted_gang_too(self, api):
        api.on_sleep = lambda: api.objects.pop(f"{RECORDS}/train", None)
        with pytest.raises(NotReached, match="its record was deleted meanwhile"):
            perform(api, terms(wait_for="running"))

    def test_time_runs_out_with_phase_and_place(self, api):
        with pytest.raises(NotReached, match="after 5 s it is queued, not running") as caught:
            perform(api, terms(wait_for="running", wait_timeout=5.0))
        assert caught.value.as_result()["gangs"][0]["position"] == 1

    def test_all_gangs_share_one_deadline(self, api):
        gangs = [gang(definition=job(name, 1, requests={"cpu": "1"})) for name in ("a", "b", "c")]
        began = api.now
        with pytest.raises(NotReached):
            perform(api, terms(*gangs, wait_for="running", wait_timeout=5.0))
        assert api.now - began < 7

    def test_without_wait_nobody_waits(self, api):
        answer, _told = perform(api, terms(wait_for="running", wait=False))
        assert answer.entries()[0]["phase"] == "queued"


class TestHints:
    """What somebody should know who has forgotten the dispatcher, or asks for more than there is."""

    def test_a_gang_that_no_dispatcher_looked_at_says_so(self, api):
        with pytest.raises(NotReached, match="no dispatcher has looked at it") as caught:
            perform(api, terms(wait_for="running", wait_timeout=5.0))
        assert "muster.kube.dispatch" in str(caught.value)
        assert "dispatch: true" in str(caught.value)

    def test_one_with_a_verdict_does_not(self, api):
        verdict = {**NEVER, "answer": "waits"}
        api.on_sleep = lambda: set_phase(api, "queued", verdict=verdict)
        with pytest.raises(NotReached) as caught:
            perform(api, terms(wait_for="running", wait_timeout=5.0))
        assert "no dispatcher" not in str(caught.value)

    def test_queueing_more_than_all_nodes_have_is_warned_of(self, api):
        api.put("/api/v1/nodes/a", node("a", cpu="1", memory="1Gi"))
        answer, _told = perform(api, terms())
        (warning,) = answer.as_result()["warnings"]
        assert warning.startswith("gang team/train stays in the queue: never fits, not even on empty nodes")
        assert "short in all" in warning

    def test_what_only_waits_is_not(self, api):
        api.put("/api/v1/nodes/a", node("a", cpu="64", memory="64Gi"))
        api.put("/api/v1/namespaces/team/pods/p", pod("p", on="a", namespace="team", requests={"cpu": "63"}))
        answer, _told = perform(api, terms())
        assert "warnings" not in answer.as_result()
        assert not [path for _method, path, _dry in api.asked if path.startswith("/api/v1/pods")]

    def test_pods_that_want_to_join_others_are_not_judged_without_them(self, api):
        api.put("/api/v1/nodes/a", node("a", cpu="64", memory="64Gi"))
        friend = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "other"}}}
        affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [friend]}}
        answer, _told = perform(api, terms(gang(definition=job("train", 1, requests={"cpu": "1"}, affinity=affinity))))
        assert "warnings" not in answer.as_result()

    @pytest.mark.parametrize("status", [403, 500])
    def test_who_may_not_see_the_nodes_queues_without_a_word(self, api, status):
        api.fixed[("GET", "/api/v1/nodes")] = [(status, {"message": "no", "code": status})]
        answer, _told = perform(api, terms())
        assert (answer.changed, "warnings" in answer.as_result()) == (True, False)

    def test_what_the_dispatcher_found_out_is_warned_of_too(self, api, dispatcher):
        def work():
            set_phase(api, "queued", verdict=NEVER)
            return Result()

        dispatcher(work)
        warnings = perform(api, terms(dispatch=True))[0].as_result()["warnings"]
        assert [text for text in warnings if "never fits" in text]


class TestDispatching:
    def test_cycles_are_run_for_these_gangs_alone(self, api, dispatcher):
        other = add_record(api, "other")

        def work():
            set_phase(api, "running")
            uid = api.objects[f"{RECORDS}/train"]["metadata"]["uid"]
            return Result((Decision(uid, "start"), Decision(other.uid, "wait")))

        calls = dispatcher(work)
        answer, _told = perform(api, terms(dispatch=True, wait_timeout=50.0))
        ((asked, until, same_client),) = calls
        uid = answer.entries()[0]["uid"]
        assert (asked.only, asked.namespaces, asked.duration, same_client) == ({uid}, ("team",), 50.0, False)
        assert asked.lease_wait == 50.0
        phases = ({uid: phase} for phase in ("queued", "dispatched", "running", "failed"))
        assert [until(seen) for seen in (*phases, {})] == [False, False, True, True, True]
        result = answer.as_result()
        assert (result["changed"], result["coordination"], result["holder"]) == (True, "cluster", None)
        assert (result["gangs"][0]["phase"], result["attended"]) == ("running", True)
        assert "warnings" not in result

    def test_a_gang_that_waited_and_was_started_is_a_change(self, api, dispatcher):
        record = add_record(api)

        def work():
            set_phase(api, "running")
            return Result((Decision(record.uid, "start"),))

        dispatcher(work)
        answer, _told = perform(api, terms(dispatch=True))
        entry = answer.entries()[0]
        assert (answer.changed, entry["changed"], entry["action"]) == (True, True, "unchanged")

    def test_a_started_gang_needs_no_dispatcher(self, api, dispatcher):
        add_record(api, phase="running")
        calls = dispatcher(Result)
        answer, _told = perform(api, terms(dispatch=True))
        assert (answer.changed, calls, len(api.asked)) == (False, [], 1)

    def test_one_that_does_not_fit_stays_in_the_queue(self, api, dispatcher):
        dispatcher(lambda: Result(warnings=("beware",)))
        answer, _told = perform(api, terms(dispatch=True))
        entry = answer.entries()[0]
        assert (entry["phase"], entry["position"], entry["position_scope"]) == ("queued", 1, "cluster")
        assert answer.as_result()["warnings"][0] == "beware"

    def test_unless_it_had_to_start(self, api, dispatcher):
        dispatcher(lambda: Result(holder="rival_1"))
        with pytest.raises(NotReached, match="not running; rival_1 holds the Lease muster-system/dispatch"):
            perform(api, terms(dispatch=True, wait_for="running"))

    def test_a_busy_holder_is_reported(self, api, dispatcher):
        dispatcher(lambda: Result(holder="rival_1", unseen=("records of others",)))
        answer, _told = perform(api, terms(dispatch=True))
        result = answer.as_result()
        assert (result["holder"], result["unseen"]) == ("rival_1", ("records of others",))

    def test_without_waiting_one_cycle_is_run(self, api, dispatcher):
        calls = dispatcher(Result)
        perform(api, terms(dispatch=True, wait=False))
        assert calls[0][0].duration is None

    @pytest.mark.parametrize(
        ("options", "phase"),
        [({"wait_for": "dispatched"}, "dispatched"), ({"wait": False}, "dispatched"), ({}, "queued")],
    )
    def test_a_gang_that_nobody_looks_after_is_told(self, api, dispatcher, options, phase):
        def work():
            set_phase(api, phase)
            return Result()

        dispatcher(work)
        result = perform(api, terms(dispatch=True, **options))[0].as_result()
        assert result["attended"] is False
        assert f"gang team/train is {phase}, and nobody looks after it until a dispatcher runs" in result["warnings"][0]

    def test_whoever_holds_the_lease_looks_after_it(self, api, dispatcher):
        dispatcher(lambda: Result(holder="rival_1"))
        result = perform(api, terms(dispatch=True))[0].as_result()
        assert (result["attended"], "warnings" in result) == (True, False)

    def test_a_gang_that_fails_fails_the_task(self, api, dispatcher):
        def work():
            set_phase(api, "failed")
            return Result()

        dispatcher(work)
        with pytest.raises(NotReached, match="it failed"):
            perform(api, terms(dispatch=True))

    def test_check_mode_names_the_first_gang_of_the_task_that_would_fail(self, api, monkeypatch):
        one, other = add_record(api), add_record(api, "other")
        decisions = (Decision(other.uid, "fail", "Refused", "b"), Decision(one.uid, "stop", "ItemFailed", "a"))
        foreseen = Result(decisions, phases={one.uid: "failed", other.uid: "failed"})
        monkeypatch.setattr(run, "preview_dispatch", lambda *_anything: foreseen)
        gangs = (gang(), gang(name="other"))
        with pytest.raises(NotReached, match="gang team/train: it fails: ItemFailed: a"):
            perform(api, terms(*gangs, dispatch=True, check_mode=True))

    def test_check_mode_looks_at_gangs_that_are_there_beside_new_ones(self, api, monkeypatch):
        one = add_record(api, phase="running")
        foreseen = Result((Decision(one.uid, "fail", "ItemFailed", "a"),), phases={one.uid: "failed"})
        monkeypatch.setattr(run, "preview_dispatch", lambda *_anything: foreseen)
        with pytest.raises(NotReached, match="gang team/train: it fails: ItemFailed: a"):
            perform(api, terms(gang(), gang(name="other"), dispatch=True, check_mode=True))

    @pytest.mark.parametrize(("state", "phase"), [("present", "queued"), ("suspended", "failed")])
    def test_check_mode_lets_gangs_be_that_are_undone_or_may_fail(self, api, monkeypatch, state, phase):
        one = add_record(api, phase="running")
        foreseen = Result((Decision(one.uid, "stop", "LostRace", "a"),), phases={one.uid: phase})
        monkeypatch.setattr(run, "preview_dispatch", lambda *_anything: foreseen)
        wanted = gang() if state == "present" else gang(definition=None, name="train")
        answer, _told = perform(api, terms(wanted, state=state, dispatch=True, wait_for="complete", check_mode=True))
        assert [item.name for item in answer.outcomes] == ["train"]

    def test_a_failed_gang_needs_not_to_be_suspended(self, api, dispatcher):
        add_record(api, phase="failed")
        add_record(api, "other", phase="running")
        dispatcher(lambda: set_phase(api, "suspended", "other") or Result())
        gangs = (gang(definition=None, name="train"), gang(definition=None, name="other"))
        answer, _told = perform(api, terms(*gangs, state="suspended", dispatch=True))
        assert [item["phase"] for item in answer.entries()] == ["failed", "suspended"]

    def test_a_suspended_gang_is_undone(self, api, dispatcher):
        record = add_record(api, phase="running")

        def work():
            set_phase(api, "suspended")
            return Result()

        calls = dispatcher(work)
        answer, _told = perform(api, terms(state="suspended", dispatch=True))
        until = calls[0][1]
        assert (until({record.uid: "undoing"}), until({record.uid: "suspended"})) == (False, True)
        assert answer.entries()[0]["phase"] == "suspended"
