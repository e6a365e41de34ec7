# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of records: read without ever failing, listed with a memory, written by compare-and-swap."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.specification import wrap
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import build_record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import read_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STATE_ANNOTATION,
    advance,
    new_state,
    state_text,
)
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import (
    UNSERVED_SECONDS,
    Records,
    create_record,
    put_state,
    put_status,
    read_record,
    replace_record,
)
from ansible_collections.muster.kube.tests.support.faulty_api import FaultyApi
from ansible_collections.muster.kube.tests.support.writable_api import discovery

GANG = "/api/v1/namespaces/team/configmaps/gang"
WRAPPERS = "/apis/workload.codeflare.dev/v1beta1"
WRAPPER = f"{WRAPPERS}/namespaces/team/appwrappers/gang"
NOW = "2026-11-16T04:00:00Z"


def spec(name: str = "gang", **settings: t.Any) -> t.Any:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    return read_spec({"name": name, "namespace": "team", "objects": [obj], **settings}, name)


@pytest.fixture
def api() -> FaultyApi:
    return FaultyApi()


def served(api: FaultyApi) -> None:
    api.fixed[("GET", WRAPPERS)] = [(200, discovery(AppWrapper=("appwrappers", True)))]


def test_properties(api: FaultyApi) -> None:
    record = create_record(api.client(), build_record(spec(labels={"team": "red"})))
    assert (record.store, record.key, record.phase, record.attempt) == ("configmap", "team/gang", "queued", 1)
    assert (record.spec, record.spec_problem, record.state, record.state_problem) == (
        spec(labels={"team": "red"}),
        None,
        None,
        None,
    )
    assert (record.submitted, record.terminating, record.labels["team"]) == (1794798000.0, False, "red")
    assert str(record) == "ConfigMap team/gang"
    leaving = record_from_api({**record.raw, "metadata": {**record.raw["metadata"], "deletionTimestamp": NOW}})
    assert leaving.terminating


@pytest.mark.parametrize("data", [None, {}, {"gang.json": "{"}, {"gang.json": "[]"}, {"gang.json": '{"name": "x"}'}])
def test_broken_record_is_a_record_too(data: t.Any) -> None:
    metadata = {"name": "gang", "namespace": "team", "uid": "u", "annotations": {STATE_ANNOTATION: "no"}}
    record = record_from_api({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    assert (record.spec, record.state, record.phase) == (None, None, "queued")
    assert "ConfigMap team/gang" in str(record.spec_problem)
    assert STATE_ANNOTATION in str(record.state_problem)


def test_list_keeps_what_did_not_change(api: FaultyApi) -> None:
    client = api.client()
    first = create_record(client, build_record(spec("one")))
    create_record(client, build_record(spec("two")))
    api.put("/api/v1/namespaces/team/configmaps/other", {"kind": "ConfigMap", "metadata": {"name": "other"}})
    records = Records(client)
    before = records.list(None, ("configmap",))
    put_state(client, first, new_state(NOW, "w1"))
    after = records.list(["team"], ("configmap",))
    assert [record.name for record in after] == ["one", "two"]
    assert [old is new for old, new in zip(before, after, strict=True)] == [False, True]
    assert records.list([], ("configmap",)) == []


def test_wrappers_are_listed_only_where_they_are_served_and_ours(api: FaultyApi) -> None:
    client = api.client()
    records = Records(client)
    assert records.list(None) == []
    served(api)
    assert not records.served("appwrapper")
    api.now += UNSERVED_SECONDS
    wrapper = wrap(spec())
    api.put(WRAPPER, wrapper)
    foreign = {**wrapper, "metadata": {"name": "foreign", "namespace": "team"}}
    api.put(f"{WRAPPERS}/namespaces/team/appwrappers/foreign", foreign)
    found = records.list(None)
    assert [(record.store, record.name) for record in found] == [("appwrapper", "gang")]
    assert found[0].spec is not None
    assert [record.name for record in Records(client, every_wrapper=True).list(None)] == ["foreign", "gang"]
    assert read_record(client, "appwrapper", "team", "foreign") is None
    assert read_record(client, "appwrapper", "team", "foreign", every_wrapper=True) is not None


def test_definition_that_is_deleted_takes_its_records_with_it_and_nothing_else(api: FaultyApi) -> None:
    client = api.client()
    records = Records(client)
    create_record(client, build_record(spec("other")))
    served(api)
    api.put(WRAPPER, wrap(spec()))
    assert [record.name for record in records.list(None)] == ["gang", "other"]
    status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "not found", "code": 404}
    api.fixed[("GET", WRAPPERS)] = [(404, status)] * 3
    api.fixed[("GET", f"{WRAPPERS}/appwrappers")] = [(404, status)]
    assert [record.name for record in records.list(None)] == ["other"]
    assert not records.served("appwrapper")


def test_a_new_state_leaves_what_is_specified_and_an_edit_does_not(api: FaultyApi) -> None:
    client = api.client()
    made = create_record(client, build_record(spec()))
    records = Records(client)
    before = records.list(None, ("configmap",))[0]
    put_state(client, made, new_state("2026-01-01T00:00:00Z", "me/1/1"))
    after = records.list(None, ("configmap",))[0]
    assert after.spec is before.spec
    assert after.state is not None
    raw = after.raw
    edited = {**raw, "data": {name: text.replace("gang", "other") for name, text in raw["data"].items()}}
    replace_record(client, after, edited)
    assert records.list(None, ("configmap",))[0].spec is not before.spec


def test_forbidden_list_is_raised(api: FaultyApi) -> None:
    api.fail("GET", "/api/v1/configmaps", 403)
    with pytest.raises(Forbidden):
        Records(api.client()).list(None, ("configmap",))


def test_read_record_wants_the_label(api: FaultyApi) -> None:
    client = api.client()
    assert read_record(client, "configmap", "team", "gang") is None
    api.put(GANG, {**build_record(spec()), "metadata": {"name": "gang", "namespace": "team"}})
    assert read_record(client, "configmap", "team", "gang") is None
    api.put(GANG, build_record(spec()))
    found = read_record(client, "configmap", "team", "gang")
    assert found is not None
    assert found.spec == spec()


def test_state_is_written_over_what_was_read_only(api: FaultyApi) -> None:
    client = api.client()
    record = create_record(client, build_record(spec()))
    state = new_state(NOW, "w1")
    written = put_state(client, record, state)
    assert (written.state, written.spec) == (state, record.spec)
    assert written.spec is record.spec
    with pytest.raises(Superseded):
        put_state(client, record, advance(state, "running", NOW, "x", "", "w2"))
    del api.objects[GANG]
    with pytest.raises(ObjectGone):
        put_state(client, written, advance(state, "running", NOW, "x", "", "w2"))


def test_state_whose_answer_was_lost_is_recognized(api: FaultyApi) -> None:
    client = api.client()
    record = create_record(client, build_record(spec()))
    api.lose("PUT", GANG)
    written = put_state(client, record, new_state(NOW, "w1"))
    assert (written.state is not None, client.requests["PUT"]) == (True, 1)


def test_other_annotations_and_an_edited_spec_survive(api: FaultyApi) -> None:
    client = api.client()
    raw = build_record(spec())
    raw["metadata"]["annotations"] = {"mine": "yes"}
    record = create_record(client, raw)
    put_state(client, record, new_state(NOW, "w1"))
    assert api.objects[GANG]["metadata"]["annotations"]["mine"] == "yes"
    api.lose("PUT", GANG)

    def edit() -> None:
        changed = build_record(spec(priority=7))
        changed["metadata"] = {**api.objects[GANG]["metadata"], "labels": changed["metadata"]["labels"]}
        api.put(GANG, changed)

    api.before("GET", GANG, edit)
    current = record_from_api(api.objects[GANG])
    written = put_state(client, current, new_state(NOW, "w2"))
    assert written.spec is not None
    assert written.spec.priority == 7


def test_label_that_is_part_of_a_wrapper_is_read_again(api: FaultyApi) -> None:
    client = api.client()
    current = record_from_api(api.put(WRAPPER, wrap(spec(queue="slow"))))
    api.lose("PUT", WRAPPER)

    def edit() -> None:
        api.objects[WRAPPER]["metadata"]["labels"]["muster.kube/queue"] = "fast"

    api.before("GET", WRAPPER, edit)
    written = put_state(client, current, new_state(NOW, "w1"))
    assert current.spec is not None
    assert written.spec is not None
    assert (current.spec.queue, written.spec.queue) == ("slow", "fast")


def test_create_takes_the_same_for_its_own(api: FaultyApi) -> None:
    client = api.client()
    one = create_record(client, build_record(spec()))
    assert create_record(client, build_record(spec())).uid == one.uid
    replaced = replace_record(client, one, build_record(spec(priority=3)))
    assert (replaced.uid, replaced.spec) == (one.uid, spec(priority=3))


def test_status_is_put_and_recognized_by_what_it_says(stub: t.Any, client: t.Any, reply: t.Any, fault: t.Any) -> None:
    metadata = {"uid": "u", "resourceVersion": "1"}
    raw = wrap(spec())
    raw["metadata"].update(metadata)
    status = {"state": "Running"}
    stub.answer("PUT", f"{WRAPPER}/status", fault(500), reply({**raw, "status": status}))
    stub.answer("GET", f"{WRAPPER}/status", reply({**raw, "status": status}))
    record = record_from_api(raw)
    written = put_status(client, record, status)
    assert (written.raw["status"], written.spec) == (status, record.spec)
    assert [seen.method for seen in stub.seen] == ["PUT", "GET"]
    assert stub.seen[0].body["metadata"]["resourceVersion"] == "1"


def test_the_phase_is_a_label_too_and_finished_records_can_be_left_out(api: FaultyApi) -> None:
    client = api.client()
    state = new_state(NOW, "w1")
    for name, phase in {"over": "complete", "broken": "failed", "busy": "running"}.items():
        record = create_record(client, build_record(spec(name)))
        written = put_state(client, record, advance(state, t.cast(t.Any, phase), NOW, "x", "", "w2"))
        assert (written.labels["muster.kube/phase"], written.labelled) == (phase, True)
        assert written.spec is record.spec
    create_record(client, build_record(spec("by-hand")))
    records = Records(client)
    assert [item.name for item in records.list(["team"], ("configmap",), finished=False)] == ["busy", "by-hand"]
    assert [item.name for item in records.list(None, ("configmap",))] == ["broken", "busy", "by-hand", "over"]
    found = records.read("configmap", "team", "over")
    assert found is not None
    assert found.finished


@pytest.mark.parametrize(
    ("phase", "label", "right"),
    [
        ("complete", None, False),
        ("complete", "running", False),
        ("complete", "complete", True),
        ("running", "failed", False),
        ("running", "queued", True),
        ("running", None, True),
    ],
)
def test_the_state_is_the_truth_and_the_label_repeats_it(
    api: FaultyApi, phase: t.Any, label: t.Any, right: bool
) -> None:
    raw = build_record(spec())
    raw["metadata"]["annotations"] = {
        STATE_ANNOTATION: state_text(advance(new_state(NOW, "w1"), phase, NOW, "x", "", "w2"))
    }
    raw["metadata"]["labels"].update({"muster.kube/phase": label} if label else {})
    assert record_from_api(api.put(GANG, raw)).labelled is right


def test_a_finished_gang_with_a_ttl_says_when_it_goes(api: FaultyApi) -> None:
    client = api.client()
    record = create_record(client, build_record(spec(ttl="1h")))
    running = put_state(client, record, advance(new_state(NOW, "w1"), "running", NOW, "x", "", "w2"))
    assert running.state is not None
    assert "muster.kube/expires" not in running.raw["metadata"]["annotations"]
    over = put_state(client, running, advance(running.state, "complete", NOW, "x", "", "w3"))
    assert over.raw["metadata"]["annotations"]["muster.kube/expires"] == "2026-11-16T05:00:00.000000Z"


def test_a_ttl_longer_than_calendars_can_be_kept(api: FaultyApi) -> None:
    record = create_record(api.client(), build_record(spec(ttl=1e12)))
    over = put_state(api.client(), record, advance(new_state(NOW, "w1"), "failed", NOW, "x", "", "w2"))
    assert over.raw["metadata"]["annotations"]["muster.kube/expires"].startswith("9999-12-31")


def test_a_record_of_a_newer_version_is_told_apart_from_a_broken_one() -> None:
    newer_spec = build_record(spec())
    newer_spec["data"]["gang.json"] = newer_spec["data"]["gang.json"].replace("{", '{"format": 99, ', 1)
    newer_state = build_record(spec())
    newer_state["metadata"]["annotations"] = {STATE_ANNOTATION: '{"format": 99}'}
    for raw in (newer_spec, newer_state):
        record = record_from_api(raw)
        assert (record.phase, record.spec_problem, record.state_problem) == ("unknown", None, None)
        assert "format 99" in str(record.newer)
