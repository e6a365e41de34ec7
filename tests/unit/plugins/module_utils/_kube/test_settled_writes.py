# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of settled writes: after every sort of lost answer, what is read, what is sent again, what is told."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Created,
    Existing,
    ObjectGone,
    Ownership,
    Superseded,
    settle_create,
    settle_delete,
    settle_replace,
)

MAPS = "/api/v1/namespaces/lab/configmaps"
MAP = f"{MAPS}/a"


def config_map(owner: str = "me", version: str = "5", uid: str = "u1", **metadata: t.Any) -> dict[str, t.Any]:
    meta = {"name": "a", "namespace": "lab", "uid": uid, "resourceVersion": version, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"owner": owner}}


NEW = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "lab"}, "data": {"owner": "me"}}


def owner_of(obj: dict[str, t.Any]) -> str | None:
    return obj["data"].get("owner")


def whose(obj: dict[str, t.Any]) -> Ownership:
    owners = {"me": Ownership.OURS, "me, earlier": Ownership.OLDER_ATTEMPT}
    return owners.get(obj["data"]["owner"], Ownership.FOREIGN)


def sent(stub: t.Any) -> list[str]:
    return [seen.method for seen in stub.seen]


@pytest.fixture
def lost(reply: t.Any, fault: t.Any, request: pytest.FixtureRequest) -> t.Any:
    """One way of not learning the outcome."""
    makers = {
        "cut": lambda: reply(cut=True),
        "500": lambda: fault(500),
        "503": lambda: fault(503),
        "504": lambda: fault(504),
    }
    return makers[getattr(request, "param", "cut")]()


ALL_LOSSES = pytest.mark.parametrize("lost", ["cut", "500", "503", "504"], indirect=True)


def test_create_that_is_answered(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", MAPS, reply(config_map(), 201))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map())
    assert sent(stub) == ["POST"]
    assert (stub.seen[0].body, stub.seen[0].query) == (NEW, {"fieldManager": "muster.kube"})


@ALL_LOSSES
def test_create_whose_lost_answer_was_a_success(stub: t.Any, client: KubeClient, reply: t.Any, lost: t.Any) -> None:
    stub.answer("POST", MAPS, lost)
    stub.answer("GET", MAP, reply(config_map()))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map(), read_back=True)
    assert sent(stub) == ["POST", "GET"]


@ALL_LOSSES
def test_create_that_never_arrived_is_sent_again(stub: t.Any, client: KubeClient, reply: t.Any, lost: t.Any) -> None:
    stub.answer("POST", MAPS, lost, reply(config_map(), 201))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map())
    assert sent(stub) == ["POST", "GET", "POST"]
    assert stub.seen[0].body == stub.seen[2].body


@pytest.mark.parametrize("first", ["lost", "taken"])
@pytest.mark.parametrize(
    ("owner", "outcome"),
    [
        ("me", Created(config_map("me"), read_back=True)),
        ("me, earlier", Existing(config_map("me, earlier"), Ownership.OLDER_ATTEMPT)),
        ("you", Existing(config_map("you"), Ownership.FOREIGN)),
    ],
)
def test_what_is_found_under_the_name_is_judged(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, first: str, owner: str, outcome: t.Any
) -> None:
    stub.answer("POST", MAPS, reply(cut=True) if first == "lost" else fault(409, "AlreadyExists"))
    stub.answer("GET", MAP, reply(config_map(owner)))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == outcome
    assert sent(stub) == ["POST", "GET"]


def test_name_that_was_taken_and_is_free_again(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    stub.answer("POST", MAPS, fault(409, "AlreadyExists"), reply(config_map(), 201))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map())
    assert sent(stub) == ["POST", "GET", "POST"]


@pytest.mark.parametrize(("status", "error"), [(403, Forbidden), (422, Invalid), (404, NotFound)])
def test_plain_refusal_is_final(
    stub: t.Any, client: KubeClient, fault: t.Any, status: int, error: type[Exception]
) -> None:
    stub.answer("POST", MAPS, fault(status, message="because"))
    with pytest.raises(error, match="Cannot create ConfigMap lab/a: because"):
        settle_create(client, MAPS, NEW, is_ours=whose)
    assert sent(stub) == ["POST"]


def test_refusal_after_a_lost_answer_needs_a_look(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    # The first create was stored late and filled the quota, which now refuses the second.
    stub.answer("POST", MAPS, reply(cut=True), fault(403, "Forbidden", "exceeded quota"))
    stub.answer("GET", MAP, fault(404), reply(config_map()))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map(), read_back=True)
    assert sent(stub) == ["POST", "GET", "POST", "GET"]


def test_refusal_after_a_lost_answer_stays_a_refusal(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any
) -> None:
    stub.answer("POST", MAPS, reply(cut=True), fault(403, "Forbidden", "exceeded quota"))
    with pytest.raises(Forbidden, match="exceeded quota"):
        settle_create(client, MAPS, NEW, is_ours=whose)
    assert sent(stub) == ["POST", "GET", "POST", "GET"]


def test_create_gives_up_without_knowing(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", MAPS, reply(cut=True))
    with pytest.raises(OutcomeUnknown, match="Cannot create ConfigMap lab/a: 3 tries and no certain outcome"):
        settle_create(client, MAPS, NEW, is_ours=whose, tries=3)
    assert sent(stub) == ["POST", "GET"] * 3


def test_read_back_is_repeated_and_the_write_is_not(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any
) -> None:
    stub.answer("POST", MAPS, reply(cut=True))
    stub.answer("GET", MAP, reply(cut=True), fault(503), fault(429), reply(config_map()))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map(), read_back=True)
    assert sent(stub) == ["POST", "GET", "GET", "GET", "GET"]


def test_refused_read_back_leaves_the_outcome_open(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    stub.answer("POST", MAPS, reply(cut=True))
    stub.answer("GET", MAP, fault(429))
    with pytest.raises(OutcomeUnknown, match="no certain outcome"):
        settle_create(client, MAPS, NEW, is_ours=whose, tries=2)
    assert sent(stub) == ["POST", "GET", "GET"]


def test_answer_that_is_no_json_is_a_lost_one(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", MAPS, reply(b"<html>"))
    stub.answer("GET", MAP, reply(config_map()))
    assert settle_create(client, MAPS, NEW, is_ours=whose) == Created(config_map(), read_back=True)


def test_unusable_connection_is_told_as_it_is(clock: t.Any) -> None:
    hopeless = connect({"host": "nonsense://x", "api_key": "sesame"}, environ={}, sleep=clock.sleep, clock=clock)
    with pytest.raises(Unreachable) as told:
        settle_create(hopeless, MAPS, NEW, is_ours=whose)
    assert not told.value.retryable
    assert clock.sleeps == []


def test_too_many_requests_is_repeated_as_asked(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any, fault: t.Any
) -> None:
    busy = fault(429, "TooManyRequests", headers={"Retry-After": "7"})
    stub.answer("PUT", MAP, busy, fault(429), reply(config_map(version="6")))
    assert settle_replace(client, MAP, config_map(), "me", owner_of) == config_map(version="6")
    assert sent(stub) == ["PUT", "PUT", "PUT"]
    assert clock.sleeps == [7.0, client.retry.pause(2)]


def test_too_many_requests_is_not_repeated_for_ever(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("PUT", MAP, fault(429))
    with pytest.raises(TooManyRequests):
        settle_replace(client, MAP, config_map(), "me", owner_of, tries=4)
    assert sent(stub) == ["PUT"] * 4


def test_asked_to_wait_longer_than_allowed(stub: t.Any, client: KubeClient, clock: t.Any, fault: t.Any) -> None:
    stub.answer("PUT", MAP, fault(429, headers={"Retry-After": "7"}))
    with pytest.raises(TooManyRequests):
        settle_replace(client, MAP, config_map(), "me", owner_of, allowance=lambda: 6.0)
    assert (sent(stub), clock.sleeps) == (["PUT"], [])


@ALL_LOSSES
def test_replace_whose_lost_answer_was_a_success(stub: t.Any, client: KubeClient, reply: t.Any, lost: t.Any) -> None:
    stub.answer("PUT", MAP, lost)
    stub.answer("GET", MAP, reply(config_map("me", "6")))
    assert settle_replace(client, MAP, config_map("me", "5"), "me", owner_of) == config_map("me", "6")
    assert sent(stub) == ["PUT", "GET"]


@ALL_LOSSES
def test_replace_that_never_arrived_is_sent_again(stub: t.Any, client: KubeClient, reply: t.Any, lost: t.Any) -> None:
    stub.answer("PUT", MAP, lost, reply(config_map("me", "6")))
    stub.answer("GET", MAP, reply(config_map("old", "5")))
    assert settle_replace(client, MAP, config_map("me", "5"), "me", owner_of) == config_map("me", "6")
    assert sent(stub) == ["PUT", "GET", "PUT"]
    assert stub.seen[0].body == stub.seen[2].body == config_map("me", "5")


def test_replace_held_up_on_its_way(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    # The first try arrives after the read-back; the second meets what the first has written.
    stub.answer("PUT", MAP, reply(cut=True), fault(409, "Conflict"))
    stub.answer("GET", MAP, reply(config_map("old", "5")), reply(config_map("me", "6")))
    assert settle_replace(client, MAP, config_map("me", "5"), "me", owner_of) == config_map("me", "6")
    assert sent(stub) == ["PUT", "GET", "PUT", "GET"]


@pytest.mark.parametrize("first", ["lost", "conflict"])
def test_replace_that_came_second(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, first: str) -> None:
    stub.answer("PUT", MAP, reply(cut=True) if first == "lost" else fault(409, "Conflict"))
    stub.answer("GET", MAP, reply(config_map("you", "6")))
    with pytest.raises(Superseded, match="Cannot replace ConfigMap lab/a: somebody else changed it") as told:
        settle_replace(client, MAP, config_map("me", "5"), "me", owner_of)
    assert told.value.found == config_map("you", "6")
    assert sent(stub) == ["PUT", "GET"]


def test_conflict_over_something_else_is_tried_again(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any
) -> None:
    stub.answer("PUT", MAP, fault(409, "Conflict", "the quota changed"), reply(config_map("me", "6")))
    stub.answer("GET", MAP, reply(config_map("old", "5")))
    assert settle_replace(client, MAP, config_map("me", "5"), "me", owner_of) == config_map("me", "6")
    stub.answer("PUT", MAP, fault(409, "Conflict", "the quota changed"))
    with pytest.raises(Conflict, match="the quota changed"):
        settle_replace(client, MAP, config_map("me", "5"), "me", owner_of, tries=2)


@pytest.mark.parametrize(
    ("put", "get"),
    [("404", None), ("409", "404"), ("cut", "404"), ("cut", "another"), ("409", "another")],
)
def test_replace_of_an_object_that_is_gone(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, put: str, get: str | None
) -> None:
    stub.answer("PUT", MAP, reply(cut=True) if put == "cut" else fault(int(put)))
    # Another object of that name is another object, even if it carries our write id.
    stub.answer("GET", MAP, reply(config_map("me", "9", "u2")) if get == "another" else fault(404))
    with pytest.raises(ObjectGone, match="the object with uid u1 was deleted"):
        settle_replace(client, MAP, config_map(), "me", owner_of)
    assert sent(stub) == (["PUT"] if get is None else ["PUT", "GET"])


def test_delete_names_the_very_object(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("DELETE", MAP, reply({"kind": "Status", "status": "Success"}))
    settle_delete(client, MAP, "u1", propagation="Foreground")
    assert sent(stub) == ["DELETE"]
    assert stub.seen[0].body["preconditions"] == {"uid": "u1"}
    assert stub.seen[0].body["propagationPolicy"] == "Foreground"


@pytest.mark.parametrize("first", ["404", "409", "cut", "500"])
@pytest.mark.parametrize("found", ["nothing", "another", "leaving"])
def test_delete_of_what_is_gone_is_done(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, first: str, found: str
) -> None:
    objects = {
        "nothing": fault(404),
        "another": reply(config_map(uid="u2")),
        "leaving": reply(config_map(deletionTimestamp="2026-11-16T04:00:00Z")),
    }
    stub.answer("DELETE", MAP, reply(cut=True) if first == "cut" else fault(int(first)))
    stub.answer("GET", MAP, objects[found])
    settle_delete(client, MAP, "u1")
    assert sent(stub) == (["DELETE"] if first == "404" else ["DELETE", "GET"])


def test_delete_that_never_arrived_is_sent_again(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("DELETE", MAP, reply(cut=True), reply({"kind": "Status", "status": "Success"}))
    stub.answer("GET", MAP, reply(config_map()))
    settle_delete(client, MAP, "u1")
    assert sent(stub) == ["DELETE", "GET", "DELETE"]
    assert stub.seen[2].body["preconditions"] == {"uid": "u1"}


def test_delete_without_uid_is_refused(stub: t.Any, client: KubeClient) -> None:
    with pytest.raises(ValueError, match="without a uid"):
        settle_delete(client, MAP, "")
    assert stub.seen == []


class Allowed:
    """An allowance for so many requests."""

    def __init__(self, requests: int) -> None:
        self.requests = requests

    def __call__(self) -> float:
        if self.requests == 0:
            raise KubeError("write under", "the lease", "time is up")
        self.requests -= 1
        return 3.0


def test_nothing_is_sent_when_time_is_up(stub: t.Any, client: KubeClient) -> None:
    for write in (
        lambda: settle_create(client, MAPS, NEW, is_ours=whose, allowance=Allowed(0)),
        lambda: settle_replace(client, MAP, config_map(), "me", owner_of, allowance=Allowed(0)),
        lambda: settle_delete(client, MAP, "u1", allowance=Allowed(0)),
    ):
        with pytest.raises(KubeError, match="time is up"):
            write()
    assert stub.seen == []


def test_time_that_is_up_between_two_tries_ends_the_write(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("PUT", MAP, reply(cut=True))
    stub.answer("GET", MAP, reply(config_map("old", "5")))
    # The write, the read-back, and the pause before the next write.
    with pytest.raises(KubeError, match="time is up"):
        settle_replace(client, MAP, config_map("me", "5"), "me", owner_of, allowance=Allowed(3), tries=None)
    assert sent(stub) == ["PUT", "GET"]


def test_pauses_are_no_longer_than_what_is_left(stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any) -> None:
    stub.answer("POST", MAPS, reply(cut=True), reply(cut=True), reply(config_map(), 201))
    settle_create(client, MAPS, NEW, is_ours=whose, allowance=lambda: 0.25)
    assert clock.sleeps == [0.2, 0.25]


def test_each_request_is_limited_by_what_is_left(
    stub: t.Any, client: KubeClient, reply: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter([3.0, 2.0, 1.0, 0.5])
    limits = []
    request = client.request

    def noting(*arguments: t.Any, **options: t.Any) -> t.Any:
        limits.append(options["timeout"])
        return request(*arguments, **options)

    monkeypatch.setattr(client, "request", noting)
    stub.answer("PUT", MAP, reply(cut=True), reply(config_map("me", "6")))
    stub.answer("GET", MAP, reply(config_map("old", "5")))
    settle_replace(client, MAP, config_map("me", "5"), "me", owner_of, allowance=lambda: next(left))
    assert limits == [3.0, 2.0, 0.5]


def test_a_strict_create_has_unknown_fields_refused(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", MAPS, reply(config_map(), status=201))
    settle_create(client, MAPS, NEW, is_ours=whose, strict=True)
    settle_create(client, MAPS, NEW, is_ours=whose)
    assert [seen.query.get("fieldValidation") for seen in stub.seen] == ["Strict", None]
