# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Submitting: what is created, replaced or left alone, and what is refused."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import Stores, read_wanted
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import (
    Refused,
    Submission,
    decide,
    demand_grew,
    find_gang,
    merged_body,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import SUBMITTED_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import digest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    PHASES,
    STATE_ANNOTATION,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import build_ticket, plan_objects
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import job
from ansible_collections.muster.kube.tests.support.gang_records import (
    RECORDS,
    TRAIN,
    WRAPPERS,
    add_record,
    gang,
    serve_wrappers,
    set_phase,
    start,
    terms,
    wrapper,
)
from ansible_collections.muster.kube.tests.support.writable_api import REVIEWS

LARGER = job("train", 3, requests={"cpu": "1"})
SMALLER = job("train", 1, requests={"cpu": "1"})


def submit(api, asked):
    """Submit the one gang of these terms."""
    client = api.client()
    stores = Stores(client, asked.store)
    (wanted,) = read_wanted(asked)
    submission = Submission(client, asked, stores, lambda text: None, client.clock() + asked.wait_timeout)
    return submission.submit(wanted, find_gang(client, stores, wanted))


def stored(api, path=f"{RECORDS}/train"):
    """The specification kept in a record."""
    return json.loads(api.objects[path]["data"]["gang.json"])


def known(api, name):
    """Let the server know us under this name."""
    api.fixed[("POST", REVIEWS)] = [(201, {"status": {"userInfo": {"username": name}}})]


def user(api, path=f"{RECORDS}/train"):
    """Who queued a gang, as its record says."""
    return (api.objects[path]["metadata"].get("annotations") or {}).get("muster.kube/user")


def add_begun(api):
    """A gang whose record does not say yet that it was started."""
    record = add_record(api)
    known = digest(record.spec)
    state = advance(new_state("2026-11-16T04:00:00Z", "w"), "dispatching", "", "", "", "w", digest=known, batch="b")
    plan = plan_objects(record.spec, record.uid, record.attempt)
    ticket = build_ticket(record.raw, record.attempt, known, plan, "w", state_text(state))
    ticket["metadata"] |= {"uid": "t", "resourceVersion": "1"}
    api.objects[f"{RECORDS}/{ticket['metadata']['name']}"] = ticket


class TestDecide:
    """The table of DISPATCH, Updates."""

    def step(self, api, phase, *, same=False, replace=False, rerun=False, **spec):
        record = add_record(api, phase=phase, **spec)
        (wanted,) = read_wanted(terms(gang() if same else gang(priority=5)))
        return decide(record, wanted.spec, replace=replace, rerun=rerun)

    @pytest.mark.parametrize("phase", PHASES)
    def test_nothing_is_done_to_a_gang_that_is_as_wanted(self, api, phase):
        assert self.step(api, phase, same=True) == "leave"

    @pytest.mark.parametrize(
        ("phase", "step"),
        [
            ("queued", "change"),
            ("suspended", "change"),
            ("dispatching", "later"),
            ("undoing", "later"),
            ("evicting", "later"),
            ("dispatched", "refuse"),
            ("running", "refuse"),
            ("unknown", "refuse"),
            ("complete", "leave"),
            ("failed", "leave"),
        ],
    )
    def test_a_changed_definition(self, api, phase, step):
        assert self.step(api, phase) == step

    @pytest.mark.parametrize("phase", ["dispatched", "running", "unknown"])
    def test_replace_stops_what_runs(self, api, phase):
        assert self.step(api, phase, replace=True) == "recreate"

    @pytest.mark.parametrize("same", [True, False])
    @pytest.mark.parametrize("phase", ["complete", "failed"])
    def test_rerun_starts_what_ended_changed_or_not(self, api, phase, same):
        assert self.step(api, phase, same=same, rerun=True) == "recreate"

    def test_rerun_does_not_disturb_what_runs(self, api):
        assert self.step(api, "running", same=True, rerun=True, replace=True) == "leave"

    @pytest.mark.parametrize("phase", ["queued", "dispatching", "dispatched", "running", "undoing"])
    def test_a_gang_is_resumed_in_any_phase(self, api, phase):
        assert self.step(api, phase, same=True, suspended=True) == "change"

    def test_a_record_that_is_being_deleted_is_waited_for(self, api):
        record = add_record(api)
        record.raw["metadata"]["deletionTimestamp"] = "2026-11-16T03:00:00Z"
        (wanted,) = read_wanted(terms())
        assert decide(record, wanted.spec, replace=False, rerun=False) == "later"


class TestNewGang:
    def test_one_read_and_one_write(self, api):
        outcome = submit(api, terms())
        assert (outcome.action, outcome.changed, outcome.store) == ("created", True, "configmap")
        assert api.writes == [("POST", RECORDS)]
        assert stored(api)["objects"] == [TRAIN]

    def test_the_record_says_who_queued_it(self, api):
        known(api, "ann@example.com")
        submit(api, terms())
        assert user(api) == "ann@example.com"
        assert api.asked.count(("POST", REVIEWS, False)) == 1

    def test_where_the_server_does_not_tell_nobody_queued_it(self, api):
        submit(api, terms())
        assert user(api) is None

    def test_who_queued_it_stays_when_others_change_it(self, api):
        known(api, "ann")
        submit(api, terms())
        known(api, "bob")
        assert submit(api, terms(gang(priority=5))).action == "changed"
        assert user(api) == "ann"

    def test_a_change_tells_who_made_it_where_nobody_is_known(self, api):
        submit(api, terms())
        known(api, "bob")
        submit(api, terms(gang(priority=5)))
        assert user(api) == "bob"

    def test_a_second_run_reads_once_and_writes_nothing(self, api):
        submit(api, terms())
        api.asked.clear()
        outcome = submit(api, terms())
        assert (outcome.action, outcome.changed) == ("unchanged", False)
        assert api.asked == [("GET", f"{RECORDS}/train", False)]

    def test_a_configmap_that_is_no_record_keeps_its_name(self, api):
        api.put(f"{RECORDS}/train", {"kind": "ConfigMap", "metadata": {"name": "train", "namespace": "team"}})
        with pytest.raises(BadInput, match="give the gang another name"):
            submit(api, terms())

    def test_somebody_who_was_first_with_the_same_gang_is_as_good(self, api):
        record = add_record(api)
        del api.objects[f"{RECORDS}/train"]
        client, asked = api.client(), terms()
        stores = Stores(client, "auto")
        (wanted,) = read_wanted(asked)
        found = find_gang(client, stores, wanted)
        api.put(f"{RECORDS}/train", {**record.raw, "metadata": {**record.raw["metadata"], "annotations": {"x": "y"}}})
        outcome = Submission(client, asked, stores, lambda text: None, client.clock() + 9).submit(wanted, found)
        assert (outcome.action, outcome.record.uid) == ("unchanged", record.uid)

    def test_an_unknown_name_cannot_be_resumed(self, api):
        with pytest.raises(BadInput, match="there is none of this name; give definition or src"):
            submit(api, terms({"name": "ghost", "namespace": "team"}))


class TestChangedGang:
    def test_a_waiting_gang_keeps_uid_state_and_place(self, api):
        before = add_record(api, phase="queued")
        outcome = submit(api, terms(gang(definition=SMALLER, priority=4)))
        assert (outcome.action, outcome.record.uid) == ("changed", before.uid)
        assert api.writes == [("PUT", f"{RECORDS}/train")]
        annotations = api.objects[f"{RECORDS}/train"]["metadata"]["annotations"]
        assert set(annotations) == {STATE_ANNOTATION}
        assert (stored(api)["priority"], outcome.before.priority, outcome.after.priority) == (4, 0, 4)

    def test_one_that_grew_queues_anew_from_now(self, api):
        add_record(api)
        submit(api, terms(gang(definition=LARGER)))
        annotations = api.objects[f"{RECORDS}/train"]["metadata"]["annotations"]
        assert annotations == {SUBMITTED_ANNOTATION: "2026-11-16T04:00:00.000000Z"}

    def test_one_whose_start_only_its_ticket_tells_is_not_disturbed(self, api):
        add_begun(api)
        with pytest.raises(Refused, match="it is still dispatching; is a dispatcher running"):
            submit(api, terms(gang(definition=SMALLER), wait_timeout=5.0))
        assert api.writes == []

    def test_one_whose_start_only_its_ticket_tells_is_suspended(self, api):
        add_begun(api)
        assert submit(api, terms(gang(), state="suspended")).action == "changed"

    def test_labels_of_others_stay_and_ours_follow_the_specification(self, api):
        record = add_record(api, queue="old", labels={"mine": "1"})
        record.raw["metadata"]["labels"]["others"] = "x"
        body = {"metadata": {"labels": {"mine2": "2"}}, "data": {}}
        assert merged_body(record, body)["metadata"]["labels"] == {
            "others": "x",
            "mine2": "2",
            "muster.kube/record": "gang",
        }

    def test_a_write_of_somebody_else_makes_us_look_again(self, api):
        add_record(api)
        conflict = (409, {"kind": "Status", "code": 409, "reason": "Conflict", "message": "changed"})
        answer = api.answer
        hits = []

        def once(method, url, body):
            if method == "PUT" and not hits:
                hits.append(1)
                set_phase(api, "queued")
                return conflict
            return answer(method, url, body)

        api.answer = once
        outcome = submit(api, terms(gang(priority=4)))
        assert (outcome.action, outcome.record.phase, stored(api)["priority"]) == ("changed", "queued", 4)

    def test_while_it_is_being_started_the_task_waits(self, api):
        add_record(api, phase="dispatching")
        api.on_sleep = lambda: set_phase(api, "queued")
        assert submit(api, terms(gang(priority=4))).action == "changed"

    def test_but_not_for_ever(self, api):
        add_record(api, phase="dispatching")
        with pytest.raises(Refused, match="after 5 s it is still dispatching; is a dispatcher running"):
            submit(api, terms(gang(priority=4), wait_timeout=5.0))
        assert api.writes == []

    def test_a_running_gang_is_not_touched(self, api):
        add_record(api, phase="running")
        with pytest.raises(Refused, match="it is running and its definition changed; use replace: true"):
            submit(api, terms(gang(priority=4)))
        assert api.writes == []

    def test_replace_removes_everything_first(self, api):
        before = add_record(api, phase="running")
        start(api, before)
        outcome = submit(api, terms(gang(priority=4), replace=True))
        assert (outcome.action, outcome.record.phase, outcome.record.uid != before.uid) == ("recreated", "queued", True)
        assert not [path for path in api.objects if "/jobs/" in path or "/pods/" in path]

    def test_a_finished_gang_stays_and_the_user_is_told(self, api):
        add_record(api, phase="complete")
        outcome = submit(api, terms(gang(priority=4)))
        assert (outcome.action, api.writes) == ("unchanged", [])
        assert "use rerun: true to run it again" in outcome.message

    def test_a_broken_record_is_replaced(self, api):
        record = add_record(api)
        record.raw["data"]["gang.json"] = "{"
        api.put(f"{RECORDS}/train", record.raw)
        assert submit(api, terms()).action == "changed"


class TestSuspension:
    def test_a_running_gang_is_suspended_by_name(self, api):
        add_record(api, phase="running", priority=3)
        outcome = submit(api, terms({"name": "train", "namespace": "team"}, state="suspended"))
        assert (outcome.action, stored(api)["suspended"], stored(api)["priority"]) == ("changed", True, 3)
        assert submit(api, terms({"name": "train", "namespace": "team"}, state="suspended")).action == "unchanged"

    def test_and_resumed(self, api):
        add_record(api, phase="suspended", suspended=True)
        assert submit(api, terms({"name": "train", "namespace": "team"})).action == "changed"
        assert stored(api)["suspended"] is False

    def test_a_new_gang_may_begin_suspended(self, api):
        assert submit(api, terms(state="suspended")).action == "created"
        assert stored(api)["suspended"] is True

    def test_a_wrapper_is_suspended_and_resumed_without_losing_what_its_user_wrote(self, api):
        serve_wrappers(api)
        path = f"{WRAPPERS}/train"
        mine = wrapper()
        mine["spec"]["selector"] = {"matchLabels": {"a": "b"}}
        api.put(path, mine)
        assert submit(api, terms({"name": "train", "namespace": "team"}, state="suspended")).action == "changed"
        assert api.objects[path]["metadata"]["annotations"]["muster.kube/suspended"] == "true"
        assert api.objects[path]["spec"] == mine["spec"]
        assert submit(api, terms({"name": "train", "namespace": "team"})).action == "changed"
        assert "muster.kube/suspended" not in api.objects[path]["metadata"]["annotations"]


class TestWrappers:
    def test_a_wrapper_is_stored_as_one_and_a_second_run_writes_nothing(self, api):
        serve_wrappers(api)
        assert submit(api, terms(gang(definition=wrapper()))).store == "appwrapper"
        assert api.writes == [("POST", WRAPPERS)]
        api.objects[f"{WRAPPERS}/train"]["spec"]["priority"] = 0
        api.asked.clear()
        assert submit(api, terms(gang(definition=wrapper()))).action == "unchanged"
        assert api.writes == []

    def test_one_queued_in_a_configmap_before_stays_there(self, api):
        api_terms = terms(gang(definition=wrapper()))
        assert submit(api, api_terms).store == "configmap"
        serve_wrappers(api)
        outcome = submit(api, api_terms)
        assert (outcome.action, outcome.store) == ("unchanged", "configmap")
        assert outcome.store_reason == "the gang is queued in a ConfigMap already"


@pytest.mark.parametrize(("after", "grew"), [(LARGER, True), (SMALLER, False), (TRAIN, False)])
def test_growth_is_about_demand(after, grew):
    old, new = (read_wanted(terms(gang(definition=item)))[0].spec for item in (TRAIN, after))
    assert demand_grew(old, new) is grew
    assert demand_grew(None, new)
