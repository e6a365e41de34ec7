# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the service remembers for a moment, when a token ends, and by which code each failure is told."""

from __future__ import annotations

import base64
import json
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.identity import Caller, expiry_of
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import (
    Declined,
    as_declined,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.short_memory import ShortMemory
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import Refused
from ansible_collections.muster.kube.plugins.module_utils._kube.access.reviews import TokenUser
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    BadConnection,
    OutcomeUnknown,
    Unreachable,
    error_from_status,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError


def test_it_forgets_after_some_seconds_and_keeps_no_more_than_so_many() -> None:
    now = [0.0]
    memory: ShortMemory[str] = ShortMemory(lambda: now[0], 10.0, 3)
    memory.keep("a", "1")
    memory.keep("b", "2", longest=2.0)
    assert memory.keep("c", "3", longest=-1.0) == "3"
    assert [memory.find(key) for key in "abc"] == ["1", "2", None]
    now[0] = 5.0
    assert [memory.find(key) for key in "ab"] == ["1", None]
    for number in range(100):
        memory.keep(number, "x")
    assert len(memory) == 3
    assert memory.find("a") is None
    now[0] = 15.0
    assert memory.find(99) is None


def token(claims: t.Any) -> str:
    """A token that says this."""
    return f"x.{base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b'=').decode()}.x"


def test_when_a_token_ends() -> None:
    assert expiry_of(token({"exp": 12})) == 12.0
    told: tuple[t.Any, ...] = ({}, [], {"exp": True}, {"exp": "x"}, "exp")
    for other in (*map(token, told), "opaque", "a.b.c", "a.{.c", "..", "é.é.é"):
        assert expiry_of(other) is None


def test_a_caller_does_not_show_its_token() -> None:
    caller = Caller(TokenUser("sue"), "secret")
    assert "secret" not in repr(caller) + str(caller) + caller.key


def answer(status: int) -> MusterError:
    return error_from_status("change", "it", status, {"message": "no", "reason": "x"})


@pytest.mark.parametrize(
    ("error", "status", "of_caller"),
    [
        (Declined(418, "tea"), 418, 418),
        (BadInput("read", "a", "b"), 400, 400),
        (Refused("change", "a", "b"), 409, 409),
        (Unreachable("read", "a", "b"), 503, 503),
        (OutcomeUnknown("write", "a", "b"), 504, 504),
        (BadConnection("read", "a", "b"), 503, 503),
        (MusterError("do", "a", "b"), 500, 500),
        (answer(401), 503, 401),
        (answer(403), 503, 403),
        (answer(404), 503, 404),
        (answer(409), 409, 409),
        (answer(422), 503, 400),
        (answer(429), 503, 503),
        (answer(500), 503, 503),
    ],
)
def test_codes(error: MusterError, status: int, of_caller: int) -> None:
    assert as_declined(error).status == status
    assert as_declined(error, of_caller=True).status == of_caller
