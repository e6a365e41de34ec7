# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reviews: who somebody is and what they may do, and that asking is no write."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.access.reviews import (
    BoundPod,
    Deed,
    TokenUser,
    may_do,
    review_token,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient


class Reviewer:
    """A transport that answers with one status."""

    base_url = "http://127.0.0.1:1"

    def __init__(self, status: t.Any) -> None:
        self.status = status
        self.sent: list[t.Any] = []

    def send(
        self, _method: str, _url: str, _headers: t.Any, body: bytes, _timeout: t.Any
    ) -> tuple[int, dict[str, str], bytes]:
        """Keep what was asked."""
        self.sent.append(json.loads(body))
        return 201, {}, json.dumps({"status": self.status}).encode()


def asking(status: t.Any) -> tuple[KubeClient, Reviewer]:
    """A client whose reviews are answered so."""
    wire = Reviewer(status)
    return KubeClient(t.cast(t.Any, wire)), wire


POD = {"authentication.kubernetes.io/pod-name": ["p"], "authentication.kubernetes.io/pod-uid": ["u"]}
SUE = {"username": "system:serviceaccount:red:sue", "uid": "1", "groups": ["g"], "extra": POD}


def test_a_token_and_its_pod() -> None:
    client, wire = asking({"authenticated": True, "user": SUE})
    user = review_token(client, "secret")
    assert user == TokenUser("system:serviceaccount:red:sue", "1", ("g",), POD)
    assert user.pod == BoundPod("red", "p", "u")
    assert wire.sent[0]["spec"] == {"token": "secret"}
    assert (client.writes, client.requests["POST"]) == (0, 1)


@pytest.mark.parametrize(
    "status",
    [
        {},
        None,
        {"authenticated": False, "user": SUE},
        {"authenticated": "yes", "user": SUE},
        {"authenticated": True},
        {"authenticated": True, "user": {"username": ""}},
        {"authenticated": True, "error": "no", "user": {}},
    ],
)
def test_a_token_of_nobody(status: t.Any) -> None:
    assert review_token(asking(status)[0], "x") is None


def test_a_token_for_somebody_else() -> None:
    for audiences, known in (([], False), (["api"], False), (["muster", "api"], True)):
        client, wire = asking({"authenticated": True, "user": SUE, "audiences": audiences})
        assert (review_token(client, "x", ("muster",)) is not None) == known
        assert wire.sent[0]["spec"]["audiences"] == ["muster"]


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("sue", POD),
        ("system:serviceaccount:red", POD),
        ("system:serviceaccount:red:sue", {}),
        ("system:serviceaccount:red:sue", {**POD, "authentication.kubernetes.io/pod-name": ["a", "b"]}),
        ("system:serviceaccount:red:sue", {"authentication.kubernetes.io/pod-name": ["a"]}),
    ],
)
def test_users_without_a_pod(name: str, extra: t.Any) -> None:
    assert TokenUser(name, extra=extra).pod is None


@pytest.mark.parametrize(
    ("status", "allowed"),
    [({"allowed": True}, True), ({"allowed": False}, False), ({"allowed": "yes"}, False), ({}, False)],
)
def test_rights(status: t.Any, allowed: bool) -> None:
    client, wire = asking(status)
    user = TokenUser("sue", "1", ("g",), {"k": ("v",)})
    assert may_do(client, user, Deed("update", "configmaps", "red", "one")) == allowed
    assert wire.sent[0]["spec"] == {
        "user": "sue",
        "uid": "1",
        "groups": ["g"],
        "extra": {"k": ["v"]},
        "resourceAttributes": {
            "verb": "update",
            "resource": "configmaps",
            "namespace": "red",
            "name": "one",
            "group": "",
        },
    }
    assert client.writes == 0
