# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The compare-and-swap store: adopted or new, written over what was read only, settled when an answer is lost."""

from __future__ import annotations

import base64

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Ownership, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import MAP_BYTES, NameTaken, ObjectStore
from ansible_collections.muster.kube.tests.support.faulty_api import FaultyApi

PATH = "/api/v1/namespaces/team/configmaps"


@pytest.fixture
def api():
    return FaultyApi()


@pytest.fixture
def store(api):
    return ObjectStore(api.client())


def body(name="m", **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}, "data": data}


def same_owner(ownership):
    return lambda _found: ownership


def text_of(raw):
    return (raw.get("data") or {}).get("text")


def change(store, found, text):
    return store.replace(found, {**found, "data": {"text": text}}, text, text_of)


def test_what_is_created_is_new_and_what_is_found_is_adopted_if_it_is_ours(api, store):
    made = store.create(body(text="1"), same_owner(Ownership.OURS))
    again = store.create(body(text="2"), same_owner(Ownership.OURS))
    assert (made.read_back, again.read_back, again.obj["metadata"]["uid"]) == (False, True, made.obj["metadata"]["uid"])
    assert text_of(store.read("team", "m")) == "1"
    assert store.read("team", "other") is None


def test_an_object_of_others_is_left_alone_and_told(api, store):
    theirs = store.create(body(text="theirs"), same_owner(Ownership.OURS)).obj
    with pytest.raises(NameTaken, match="it is not ours") as taken:
        store.create(body(text="1"), same_owner(Ownership.FOREIGN), taken="it is not ours")
    assert taken.value.found == theirs
    assert [method for method, _path in api.writes] == ["POST", "POST"]


def test_what_an_older_attempt_left_is_deleted_first(api, store):
    older = store.create(body(text="older"), same_owner(Ownership.OURS)).obj
    made = store.create(body(text="1"), same_owner(Ownership.OLDER_ATTEMPT)).obj
    assert (text_of(made), made["metadata"]["uid"] == older["metadata"]["uid"]) == ("1", False)


def test_what_does_not_go_away_ends_the_attempts(api, store):
    store.create(body(text="older"), same_owner(Ownership.OURS))
    api.fixed["DELETE", f"{PATH}/m"] = [(200, {"kind": "Status"})]
    with pytest.raises(MusterError, match="left behind does not go away"):
        store.create(body(text="1"), same_owner(Ownership.OLDER_ATTEMPT))


def test_a_write_goes_over_what_was_read_only(api, store):
    found = store.create(body(text="1"), same_owner(Ownership.OURS)).obj
    found["metadata"]["managedFields"] = [{"manager": "x"}]
    stored = change(store, found, "2")
    assert "managedFields" not in stored["metadata"]
    with pytest.raises(Superseded) as superseded:
        change(store, found, "3")
    assert text_of(superseded.value.found) == "2"
    assert text_of(change(store, stored, "3")) == "3"


def test_a_write_takes_identity_and_version_from_what_was_read(api, store):
    found = store.create(body(text="1"), same_owner(Ownership.OURS)).obj
    assert text_of(store.replace(found, body(text="2"), "2", text_of)) == "2"
    api.objects[f"{PATH}/m"]["metadata"]["uid"] = "another"
    with pytest.raises(ObjectGone):
        change(store, found, "3")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_a_write_whose_answer_is_lost_is_recognized(api, store, method):
    found = store.create(body("first", text="1"), same_owner(Ownership.OURS)).obj
    api.lose(method, PATH)
    if method == "POST":
        assert store.create(body(text="1"), same_owner(Ownership.OURS)).read_back
    elif method == "PUT":
        assert text_of(change(store, found, "2")) == "2"
    else:
        store.delete(found)
        assert store.read("team", "first") is None
    assert [made for made, _path in api.writes].count(method) == 1 + (method == "POST")


def test_only_the_object_that_was_read_is_deleted(api, store):
    found = store.create(body(text="1"), same_owner(Ownership.OURS)).obj
    api.objects[f"{PATH}/m"]["metadata"]["uid"] = "another"
    store.delete(found)
    assert store.read("team", "m") is not None


def test_more_than_the_server_takes_is_refused_with_the_number(api, store):
    packed = base64.b64encode(b"x" * (MAP_BYTES - 2)).decode()
    fits = {**body(text="12"), "binaryData": {"part": packed}}
    made = store.create(fits, same_owner(Ownership.OURS)).obj
    with pytest.raises(BadInput, match=f"ConfigMap team/m: it has {MAP_BYTES + 1} bytes of at most {MAP_BYTES}"):
        store.create({**fits, "data": {"text": "123"}}, same_owner(Ownership.OURS))
    with pytest.raises(BadInput, match=str(MAP_BYTES + 1)):
        store.replace(made, {**made, "data": {"text": "123"}}, "123", text_of)
    assert len(api.writes) == 1


def test_a_list_keeps_what_the_caller_makes_of_it(api, store):
    for name in ("a", "b"):
        store.create(body(name, text=name), same_owner(Ownership.OURS))
    assert list(store.list("team", None, lambda raw: text_of(raw) if text_of(raw) != "a" else None)) == ["b"]


def test_other_kinds_are_stored_alike(api):
    jobs = ObjectStore(api.client(), "batch/v1", "jobs")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "team"}}
    made = jobs.create(job, same_owner(Ownership.OURS), strict=True).obj
    jobs.delete(made)
    assert [path for _method, path in api.writes] == [
        "/apis/batch/v1/namespaces/team/jobs",
        "/apis/batch/v1/namespaces/team/jobs/j",
    ]
