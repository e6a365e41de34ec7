# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the errors that API answers become."""

from __future__ import annotations

import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube import errors
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.ApiError),
        (409, errors.Conflict),
        (410, errors.Gone),
        (422, errors.Invalid),
        (429, errors.TooManyRequests),
        (500, errors.ServerFault),
        (503, errors.ServerFault),
        (599, errors.ServerFault),
    ],
)
def test_each_status_has_its_class(status: int, kind: type[errors.ApiError]) -> None:
    error = errors.error_from_response("list", "nodes", status, b"{}")
    assert error.__class__ is kind
    assert isinstance(error, MusterError)
    assert error.status == status


def test_message_names_action_object_and_the_servers_words() -> None:
    body = json.dumps(
        {"kind": "Status", "reason": "NotFound", "message": 'pods "a" not found', "details": {"name": "a"}}
    )
    error = errors.error_from_response("read", "Pod n/a", 404, body.encode())
    assert str(error) == 'Cannot read Pod n/a: pods "a" not found (HTTP 404 NotFound)'
    assert error.details == {"name": "a"}
    assert error.as_result()["error"] == {
        "action": "read",
        "object": "Pod n/a",
        "cause": 'pods "a" not found (HTTP 404 NotFound)',
        "status": 404,
        "reason": "NotFound",
    }


@pytest.mark.parametrize(
    ("message", "namespace", "resource"),
    [
        (
            'nodes is forbidden: User "eve" cannot list resource "nodes" in API group "" at the cluster scope',
            None,
            "nodes",
        ),
        (
            'jobs is forbidden: User "eve" cannot list resource "jobs" in API group "batch" in the namespace "lab"',
            "lab",
            "jobs",
        ),
    ],
)
def test_forbidden_tells_the_missing_right(message: str, namespace: str | None, resource: str) -> None:
    body = json.dumps({"kind": "Status", "reason": "Forbidden", "message": message, "details": {"kind": resource}})
    error = errors.error_from_response("list", resource, 403, body.encode())
    assert isinstance(error, errors.Forbidden)
    assert (error.user, error.verb, error.resource, error.namespace) == ("eve", "list", resource, namespace)
    assert message in str(error)
    assert error.as_result()["error"]["verb"] == "list"


def test_forbidden_by_an_admission_rule_keeps_the_kind() -> None:
    body = json.dumps({"kind": "Status", "message": "exceeded quota", "details": {"kind": "pods"}}).encode()
    error = errors.error_from_response("create", "Pod n/a", 403, body)
    assert isinstance(error, errors.Forbidden)
    assert (error.user, error.verb, error.resource) == (None, None, "pods")


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"<html>bad gateway</html>", "<html>bad gateway</html> (HTTP 502)"),
        (b"", "no message (HTTP 502)"),
        (b"[1]", "[1] (HTTP 502)"),
        (b"\xff\xfe", "\ufffd\ufffd (HTTP 502)"),
    ],
)
def test_bodies_that_are_no_status(body: bytes, cause: str) -> None:
    assert errors.error_from_response("list", "nodes", 502, body).cause == cause


def test_conflict_tells_an_existing_object_from_a_lost_race() -> None:
    existing = errors.error_from_status("create", "Pod n/a", 409, {"reason": "AlreadyExists"})
    changed = errors.error_from_status("replace", "Pod n/a", 409, {"reason": "Conflict"})
    assert isinstance(existing, errors.Conflict)
    assert isinstance(changed, errors.Conflict)
    assert (existing.already_exists, changed.already_exists) == (True, False)
