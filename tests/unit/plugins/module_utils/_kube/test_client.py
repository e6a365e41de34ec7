# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the client: retries, counts, the server's clock, threads."""

from __future__ import annotations

import contextlib
import datetime
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    BadConnection,
    Conflict,
    Forbidden,
    ServerFault,
    TooManyRequests,
    Unreachable,
)

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/lab/pods"


def test_answer_is_returned_decoded_counted_and_dated(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", NODES, reply({"items": []}))
    assert client.server_time is None
    answer = client.request("GET", NODES, query={"limit": 5, "watch": False, "continue": None})
    assert (answer.status, answer.json()) == (200, {"items": []})
    assert stub.seen[0].query == {"limit": "5", "watch": "false"}
    assert dict(stub.seen[0].headers)["Authorization"] == "Bearer sesame"
    assert client.server_time == datetime.datetime(2026, 11, 16, 4, tzinfo=datetime.UTC)
    assert (dict(client.requests), client.writes, client.dry_runs) == ({"GET": 1}, 0, 0)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_read_is_repeated_after_a_server_fault(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any, fault: t.Any, status: int
) -> None:
    stub.answer("GET", NODES, fault(status), fault(status), reply({"ok": 1}))
    assert client.request("GET", NODES).json() == {"ok": 1}
    assert clock.sleeps == [0.2, 0.4]
    assert client.requests["GET"] == 3


def test_read_waits_as_long_as_the_server_asks(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any, fault: t.Any
) -> None:
    stub.answer("GET", NODES, fault(429, "TooManyRequests", headers={"Retry-After": "7"}), reply({}))
    client.request("GET", NODES)
    assert clock.sleeps == [7.0]


def test_read_gives_up_when_the_server_asks_for_too_much(
    stub: t.Any, client: KubeClient, clock: t.Any, fault: t.Any
) -> None:
    stub.answer("GET", NODES, fault(429, "TooManyRequests", headers={"Retry-After": "3600"}))
    with pytest.raises(TooManyRequests) as caught:
        client.request("GET", NODES)
    assert caught.value.retry_after == 3600
    assert (clock.sleeps, len(stub.seen)) == ([], 1)


def test_read_gives_up_after_five_tries(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("GET", NODES, fault(500, "InternalError", "etcd is gone"))
    with pytest.raises(ServerFault, match="Cannot list nodes: etcd is gone"):
        client.request("GET", NODES)
    assert len(stub.seen) == 5


def test_read_is_repeated_after_a_cut_connection(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", NODES, reply(cut=True), reply(chunks=[b'{"ok"'], cut=True), reply({"ok": 1}))
    assert client.request("GET", NODES).json() == {"ok": 1}
    assert client.requests["GET"] == 3


def test_read_can_ask_for_a_single_try(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("GET", NODES, fault(500))
    with pytest.raises(ServerFault):
        client.request("GET", NODES, read_retries=False)
    assert len(stub.seen) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 422, 501])
def test_final_answers_are_not_repeated(stub: t.Any, client: KubeClient, fault: t.Any, status: int) -> None:
    stub.answer("GET", NODES, fault(status))
    with pytest.raises(Exception, match=f"HTTP {status}"):
        client.request("GET", NODES)
    assert len(stub.seen) == 1


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_write_is_never_repeated_when_it_may_have_happened(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, method: str
) -> None:
    for answer, error in ((fault(500), ServerFault), (reply(cut=True), Unreachable), (fault(429), TooManyRequests)):
        stub.seen.clear()
        stub.answer(method, PODS, answer)
        with pytest.raises(error):
            client.request(method, PODS, body={})
        assert len(stub.seen) == 1
    assert client.writes == 3


def test_write_refused_unseen_is_sent_again_as_it_was(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any, fault: t.Any
) -> None:
    stub.answer("POST", PODS, fault(429, headers={"Retry-After": "1"}), reply({"kind": "Pod"}, 201))
    assert client.request("POST", PODS, body={"a": 1}).status == 201
    assert clock.sleeps == [1.0]
    assert [seen.body for seen in stub.seen] == [{"a": 1}, {"a": 1}]
    assert client.writes == 2


def test_dry_run_is_repeated_as_a_read_is(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any) -> None:
    stub.answer("POST", PODS, fault(503), reply(cut=True), reply({"kind": "Pod"}, 201))
    assert client.request("POST", PODS, query={"dryRun": "All"}, body={}).status == 201
    assert (client.writes, client.dry_runs) == (0, 3)


def test_a_review_is_no_write_and_repeated_as_a_read_is(
    stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any
) -> None:
    heard: list[str] = []
    client.listen(lambda method, _path, _answer: heard.append(method))
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    stub.answer("POST", path, fault(503), reply({"kind": "SelfSubjectReview"}, 201))
    assert client.request("POST", path, body={}).status == 201
    assert (client.writes, client.dry_runs, client.requests["POST"], heard) == (0, 0, 2, [])


def test_dry_runs_are_counted_apart(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", PODS, reply({}))
    client.request("POST", PODS, query={"dryRun": "All"}, body={})
    client.request("POST", PODS, body={})
    assert (client.writes, client.dry_runs, client.requests["POST"]) == (1, 1, 2)


def test_error_names_what_the_caller_calls_the_object(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("POST", PODS, fault(409, "AlreadyExists", "exists"))
    with pytest.raises(Conflict, match="Cannot create Pod lab/a: exists"):
        client.request("POST", PODS, body={}, target="Pod lab/a")


def test_forbidden_carries_the_servers_words(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    words = 'nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" at the cluster scope'
    stub.answer("GET", NODES, fault(403, "Forbidden", words))
    with pytest.raises(Forbidden, match='User "eve" cannot list') as caught:
        client.request("GET", NODES)
    assert (caught.value.user, caught.value.target) == ("eve", "nodes")


def test_nobody_listening_is_unreachable(stub: t.Any, clock: t.Any) -> None:
    stub.close()
    client = connect({"host": stub.url, "api_key": "x"}, environ={}, sleep=clock.sleep, clock=clock)
    with pytest.raises(Unreachable, match="Connection refused") as caught:
        client.request("GET", NODES)
    assert stub.url in str(caught.value)
    assert "0x" not in str(caught.value)
    assert client.requests["GET"] == 5


def test_slow_answer_is_unreachable(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    held = threading.Event()
    stub.answer("GET", NODES, reply(chunks=[b"{"], hold=held))
    with pytest.raises(Unreachable, match="timed out"):
        client.request("GET", NODES, timeout=0.05, read_retries=False)
    held.set()


def test_closing_ends_a_stream_that_waits(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    held = threading.Event()
    stub.answer("GET", NODES, reply(chunks=[b"one\n"], hold=held))
    with client.streaming(NODES, {"watch": True}, 60) as stream:
        lines = stream.lines()
        assert next(lines) == b"one"
        threading.Timer(0.05, client.close).start()
        rest: list[bytes] = []
        with contextlib.suppress(TransportFault):
            rest = list(lines)
        assert not held.is_set()
        assert rest == []
    held.set()


def test_parallel_keeps_order_and_finishes_before_it_raises() -> None:
    finished: list[int] = []

    def call(number: int) -> int:
        finished.append(number)
        if number in (2, 3):
            raise KeyError(number)
        return number * 10

    def bind(number: int) -> t.Callable[[], int]:
        return lambda: call(number)

    assert parallel([bind(0), bind(1)]) == [0, 10]
    finished.clear()
    with pytest.raises(KeyError, match="2"):
        parallel(bind(number) for number in range(20))
    assert sorted(finished) == list(range(20))
    assert parallel([]) == []


def test_parallel_is_bounded() -> None:
    width, lock, running, peak = 3, threading.Lock(), [0], [0]
    full = threading.Barrier(width)

    def call() -> None:
        with lock:
            running[0] += 1
            peak[0] = max(peak[0], running[0])
        full.wait(10)
        with lock:
            running[0] -= 1

    parallel([call] * (3 * width), width=width)
    assert peak[0] == width


def test_counts_hold_under_threads(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", PODS, reply({}))
    parallel([lambda: client.request("POST", PODS, body={})] * 40)
    assert (client.writes, client.requests["POST"], len(stub.seen)) == (40, 40, 40)


def test_acting_as_somebody_else(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("GET", "/api/v1/nodes", reply({}))
    stub.answer("POST", "/api/v1/namespaces/lab/pods", reply({}, 201))
    other = client.acting_as("system:serviceaccount:lab:muster", ["a", "b"])
    client.discovered["v1"] = ["known"]
    client.request("GET", "/api/v1/nodes")
    other.request("POST", "/api/v1/namespaces/lab/pods", body={})
    plain, named = ([pair for pair in seen.headers if pair[0].startswith("Impersonate")] for seen in stub.seen)
    assert plain == []
    assert named == [
        ("Impersonate-User", "system:serviceaccount:lab:muster"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
    ]
    assert dict(stub.seen[1].headers)["Authorization"] == "Bearer sesame"
    assert (client.requests, client.writes) == ({"GET": 1, "POST": 1}, 1)
    assert other.discovered is client.discovered
    client.close()
    assert other.closed


def test_who_acts_as_somebody_already_cannot_act_as_a_third(stub: t.Any) -> None:
    auth = {"host": stub.url, "api_key": "sesame", "impersonate_user": "eve"}
    with pytest.raises(BadConnection, match="impersonate somebody already"):
        connect(auth, environ={}).acting_as("adam")
    once = connect({"host": stub.url, "api_key": "sesame"}, environ={}).acting_as("eve")
    with pytest.raises(BadConnection, match="act as adam"):
        once.acting_as("adam")
