# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of watches: resuming, bookmarks, gaps, ends."""

from __future__ import annotations

import json
import threading
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, Gone, ServerFault, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import Event, WatchStep, list_and_watch, watch

PODS = "/api/v1/pods"


def line(kind: str, name: str, version: int) -> bytes:
    return (
        json.dumps({"type": kind, "object": {"metadata": {"name": name, "resourceVersion": str(version)}}}).encode()
        + b"\n"
    )


def expired_line() -> bytes:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 5 (9)"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


def told(events: t.Iterable[Event], count: int) -> list[tuple[str, str]]:
    """The first events as (type, name)."""
    taken = []
    for event in events:
        taken.append((event.type, event.object["metadata"]["name"]))
        if len(taken) == count:
            break
    return taken


def versions(stub: t.Any) -> list[str | None]:
    """From where each connection started."""
    return [seen.query.get("resourceVersion") for seen in stub.seen if seen.query.get("watch")]


def test_changes_come_in_order_and_may_be_split_anywhere(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    text = line("ADDED", "a", 6) + line("MODIFIED", "a", 7) + line("DELETED", "a", 8)
    stub.answer("GET", PODS, reply(chunks=[text[:10], text[10:90], text[90:]], hold=threading.Event()))
    events = watch(client, PODS, "5", timeout=60, label_selector="x=y")
    assert told(events, 3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    query = stub.seen[0].query
    assert (query["watch"], query["allowWatchBookmarks"], query["labelSelector"]) == ("true", "true", "x=y")
    assert (query["resourceVersion"], query["timeoutSeconds"]) == ("5", "60")


def test_who_set_fields_of_a_pod_is_not_decoded(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    fields = [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}]
    pod = {"metadata": {"name": "a", "resourceVersion": "6", "managedFields": fields}, "spec": {"nodeName": "n"}}
    text = json.dumps({"type": "ADDED", "object": pod}, separators=(",", ":")).encode() + b"\n"
    stub.answer("GET", PODS, reply(chunks=[text], hold=threading.Event()))
    event = next(iter(watch(client, PODS, "5", timeout=60)))
    assert event.object == {**pod, "metadata": {**pod["metadata"], "managedFields": []}}


def test_cut_connection_goes_on_where_it_was(stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any) -> None:
    half = line("MODIFIED", "a", 7)[:20]
    stub.answer(
        "GET",
        PODS,
        reply(chunks=[line("ADDED", "a", 6), half], cut=True),
        reply(cut=True),
        reply(chunks=[line("MODIFIED", "a", 7)]),
    )
    assert told(watch(client, PODS, "5", timeout=60), 2) == [("ADDED", "a"), ("MODIFIED", "a")]
    assert versions(stub) == ["5", "6", "6"]
    assert clock.sleeps == [0.2, 0.4]


def test_server_timeout_goes_on_from_the_bookmark(stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(chunks=[line("BOOKMARK", "", 42)]), reply(chunks=[line("ADDED", "b", 43)]))
    assert told(watch(client, PODS, "5", timeout=60), 1) == [("ADDED", "b")]
    assert versions(stub) == ["5", "42"]
    assert clock.sleeps == []


def test_server_that_ends_every_watch_at_once_is_not_hammered(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any
) -> None:
    stub.answer("GET", PODS, reply(chunks=[]))
    assert list(watch(client, PODS, "5", timeout=20)) == []
    assert clock.sleeps[:6] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0]
    assert clock.now == 1020.0


@pytest.mark.parametrize("as_event", [True, False])
def test_gone_is_the_callers(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, as_event: bool) -> None:
    stub.answer("GET", PODS, reply(chunks=[expired_line()]) if as_event else fault(410, "Expired", "too old"))
    with pytest.raises(Gone, match="Cannot watch pods: too old"):
        list(watch(client, PODS, "5", timeout=20))
    assert len(stub.seen) == 1


def test_refusal_is_raised_at_once(stub: t.Any, client: KubeClient, fault: t.Any) -> None:
    stub.answer("GET", PODS, fault(403, "Forbidden"))
    with pytest.raises(Forbidden, match="Cannot watch pods"):
        list(watch(client, PODS, "5", timeout=20))


def test_busy_server_is_given_the_time_it_asks_for(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any, fault: t.Any
) -> None:
    stub.answer("GET", PODS, fault(429, headers={"Retry-After": "9"}), reply(chunks=[line("ADDED", "a", 6)]))
    assert told(watch(client, PODS, "5", timeout=60), 1) == [("ADDED", "a")]
    assert clock.sleeps == [9.0]


@pytest.mark.parametrize("cut", [True, False])
def test_failures_in_a_row_have_an_end(stub: t.Any, client: KubeClient, reply: t.Any, fault: t.Any, cut: bool) -> None:
    stub.answer("GET", PODS, reply(cut=True) if cut else fault(500))
    with pytest.raises(Unreachable if cut else ServerFault):
        list(watch(client, PODS, "5"))
    assert len(stub.seen) == 10


def test_stop_ends_it_after_the_line(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    seen: list[str] = []
    held = threading.Event()
    stub.answer("GET", PODS, reply(chunks=[line("ADDED", "a", 6), line("ADDED", "b", 7)], hold=held))
    for event in watch(client, PODS, "5", stop=lambda: bool(seen)):
        seen.append(event.object["metadata"]["name"])
    held.set()
    assert seen == ["a"]


def test_closing_the_client_ends_a_watch_that_waits(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    held, got = threading.Event(), threading.Event()
    stub.answer("GET", PODS, reply(chunks=[line("ADDED", "a", 6)], hold=held))
    names: list[str] = []

    def follow() -> None:
        for event in watch(client, PODS, "5"):
            names.append(event.object["metadata"]["name"])
            got.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert got.wait(10)
    client.close()
    thread.join(10)
    held.set()
    assert not thread.is_alive()
    assert names == ["a"]


def listed(names: str, version: int) -> dict[str, t.Any]:
    items = [{"metadata": {"name": name}} for name in names]
    return {"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": items}


def test_list_then_changes_then_list_again_after_a_gap(
    stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any
) -> None:
    stub.answer(
        "GET",
        PODS,
        reply(listed("ab", 5)),
        reply(chunks=[line("ADDED", "c", 6), line("DELETED", "a", 7), expired_line()]),
        reply(listed("bcd", 9)),
        reply(chunks=[line("ADDED", "x", 10)]),
    )

    def keep(obj: dict[str, t.Any]) -> str | None:
        name = str(obj["metadata"]["name"])
        return None if name == "x" else name.upper()

    changes = list_and_watch(client, PODS, keep, timeout=60)
    assert [next(changes) for turn in range(5)] == [
        WatchStep("SYNC", items=("A", "B")),
        WatchStep("ADDED", item="C", name="c"),
        WatchStep("DELETED", item="A", name="a"),
        WatchStep("SYNC", items=("B", "C", "D")),
        WatchStep("ADDED", item=None, name="x"),
    ]
    assert versions(stub) == ["5", "9"]
    assert clock.sleeps == [0.2]


def test_list_and_watch_ends_with_its_time(stub: t.Any, client: KubeClient, clock: t.Any, reply: t.Any) -> None:
    stub.answer("GET", PODS, reply(listed("a", 5)), reply(chunks=[]))
    assert [change.type for change in list_and_watch(client, PODS, lambda obj: "a", timeout=3)] == ["SYNC"]
    assert clock.now == 1003.0
