# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of Events: what is written, and that trouble with them is nobody's trouble."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._store.events import (
    NEWS_AT_ONCE,
    NEWS_PER_SECOND,
    NewsBudget,
    event_of,
    post_event,
    why_not_created,
)
from ansible_collections.muster.kube.tests.support.small_api import SmallApi

EVENTS = "/api/v1/namespaces/team/events"
NOW = "2026-11-16T04:00:00Z"
RECORD = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "gang", "namespace": "team", "uid": "u1", "resourceVersion": "7"},
}


def test_event_names_the_record(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", EVENTS, reply({}, 201))
    assert post_event(client, RECORD, "Started", "all objects created", "Normal", NOW)
    body = stub.seen[0].body
    assert body["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "team",
        "name": "gang",
        "uid": "u1",
        "resourceVersion": "7",
    }
    assert (body["reason"], body["type"], body["message"]) == ("Started", "Normal", "all objects created")
    assert (body["source"], body["firstTimestamp"], body["lastTimestamp"]) == ({"component": "muster.kube"}, NOW, NOW)


def test_name_follows_from_record_reason_and_time() -> None:
    def name(record: t.Any, reason: str, now: str) -> str:
        return str(event_of(record, reason, "x", "Normal", now)["metadata"]["name"])

    other = {**RECORD, "metadata": {**RECORD["metadata"], "uid": "u2"}}
    names = [
        name(RECORD, "Started", NOW),
        name(RECORD, "Failed", NOW),
        name(RECORD, "Started", "2026-11-16T04:00:01Z"),
        name(other, "Started", NOW),
    ]
    assert len(set(names)) == 4
    assert name(RECORD, "Started", NOW) == names[0]
    long = {**RECORD, "metadata": {**RECORD["metadata"], "name": "n" * 253}}
    assert len(name(long, "Started", NOW)) <= 253


def test_message_is_cut_between_letters() -> None:
    message = event_of(RECORD, "Started", "é" * 600, "Normal", NOW)["message"]
    assert message == "é" * 512


def test_telling_twice_is_telling_once(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("POST", EVENTS, fault(409, "AlreadyExists"))
    assert post_event(client, RECORD, "Started", "x", "Normal", NOW)


@pytest.mark.parametrize("status", [403, 404, 409, 422, 429, 500])
def test_trouble_is_swallowed_and_not_repeated(stub: t.Any, client: KubeClient, fault: t.Any, status: int) -> None:
    stub.answer("POST", EVENTS, fault(status))
    assert not post_event(client, RECORD, "Started", "x", "Warning", NOW)
    assert len(stub.seen) == 1


def test_lost_connection_is_swallowed(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", EVENTS, reply(cut=True))
    assert not post_event(client, RECORD, "Started", "x", "Warning", NOW)


def refusal(uid: str, name: str, message: str, at: str) -> dict[str, t.Any]:
    about = {"uid": uid, "name": name}
    return {"metadata": {"name": f"{name}.{at}"}, "involvedObject": about, "message": message, "lastTimestamp": at}


def test_the_last_word_about_an_object_or_what_is_named_after_it() -> None:
    events = [
        refusal("j", "train", "first", "2026-11-16T04:00:00Z"),
        refusal("r", "web-5d8f", "of the ReplicaSet", "2026-11-16T04:00:02Z"),
        refusal("j", "train", "second", "2026-11-16T04:00:01Z"),
        refusal("x", "training", "of another", "2026-11-16T04:00:09Z"),
    ]
    with SmallApi({EVENTS: events}).client() as client:
        assert why_not_created(client, "team", {"j": "train"}) == "second"
        assert why_not_created(client, "team", {"d": "web"}) == "of the ReplicaSet"
        assert why_not_created(client, "team", {"d": "other"}) is None


def test_who_may_not_read_events_learns_nothing() -> None:
    with SmallApi({}, forbidden={EVENTS}).client() as client:
        assert why_not_created(client, "team", {"j": "train"}) is None


def test_news_are_told_so_many_at_once_and_then_slowly() -> None:
    now = [0.0]
    budget = NewsBudget(lambda: now[0])
    assert [budget.take() for _number in range(NEWS_AT_ONCE + 1)] == [True] * NEWS_AT_ONCE + [False]
    now[0] = 1.0
    assert [budget.take() for _number in range(6)] == [True] * int(NEWS_PER_SECOND) + [False]
    now[0] = 3600.0
    assert sum(budget.take() for _number in range(2 * NEWS_AT_ONCE)) == NEWS_AT_ONCE
