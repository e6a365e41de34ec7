# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of writes: what is sent, what is counted, what is not repeated."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube import writes
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, Invalid, NotFound, ServerFault

PODS = "/api/v1/namespaces/lab/pods"
POD = f"{PODS}/a"
OBJECT = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "lab"}}


def content_type(seen: t.Any) -> str | None:
    return dict(seen.headers).get("Content-Type")


def test_create(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", PODS, reply({**OBJECT, "status": {}}, 201))
    assert writes.create(client, PODS, OBJECT)["status"] == {}
    assert (stub.seen[0].body, stub.seen[0].query) == (OBJECT, {"fieldManager": "muster.kube"})
    assert content_type(stub.seen[0]) == "application/json"
    assert (client.writes, client.dry_runs) == (1, 0)


def test_every_write_can_be_a_dry_run(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("POST", PODS, reply(OBJECT))
    for method in ("PUT", "PATCH", "DELETE"):
        stub.answer(method, POD, reply(OBJECT))
    writes.create(client, PODS, OBJECT, dry_run=True)
    writes.replace(client, POD, OBJECT, dry_run=True)
    writes.patch(client, POD, {}, dry_run=True)
    writes.delete(client, POD, dry_run=True)
    assert [seen.query["dryRun"] for seen in stub.seen] == ["All"] * 4
    # The server ignores the address of a deletion that has options in its body.
    assert stub.seen[-1].body["dryRun"] == ["All"]
    assert (client.writes, client.dry_runs) == (0, 4)


@pytest.mark.parametrize(
    ("patch_type", "content"),
    [
        ("merge", "application/merge-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
def test_patch_types(stub: t.Any, client: KubeClient, reply: t.Any, patch_type: t.Any, content: str) -> None:
    stub.answer("PATCH", POD, reply(OBJECT))
    change: t.Any = [{"op": "remove", "path": "/x"}] if patch_type == "json" else {"x": None}
    assert writes.patch(client, POD, change, patch_type=patch_type, field_manager="me") == OBJECT
    assert (content_type(stub.seen[0]), stub.seen[0].body) == (content, change)
    assert stub.seen[0].query == {"fieldManager": "me", **({"force": "false"} if patch_type == "apply" else {})}


def test_delete_of_one_very_object(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("DELETE", POD, reply({"kind": "Status", "status": "Success"}))
    writes.delete(client, POD, uid="u1", propagation="Foreground", grace_seconds=0)
    assert stub.seen[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
    }
    assert client.writes == 1


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [(409, "AlreadyExists", Conflict), (422, "Invalid", Invalid), (404, "NotFound", NotFound), (500, "", ServerFault)],
)
def test_refused_create_names_the_object_and_is_sent_once(
    stub: t.Any, client: KubeClient, fault: t.Any, status: int, reason: str, error: type[Exception]
) -> None:
    stub.answer("POST", PODS, fault(status, reason, "because"))
    with pytest.raises(error, match="Cannot create Pod lab/a: because"):
        writes.create(client, PODS, OBJECT)
    assert len(stub.seen) == 1


def test_empty_answer_is_an_empty_object(stub: t.Any, client: KubeClient, reply: t.Any) -> None:
    stub.answer("PUT", POD, reply(b""))
    assert writes.replace(client, POD, OBJECT) == {}


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (OBJECT, "Pod lab/a"),
        ({"kind": "Node", "metadata": {"name": "n"}}, "Node n"),
        ({"kind": "Pod", "metadata": {"generateName": "x-"}}, "Pod x-*"),
        ({}, "object *"),
    ],
)
def test_words_for_an_object(obj: dict[str, t.Any], words: str) -> None:
    assert writes.describe_object(obj) == words
