# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of refusals: what each answer of the server means for a gang."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import (
    Refusal,
    owner_text,
    refusal_of,
    taken,
    unserved,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import error_from_status

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "team"}}


def refusal(status: int, message: str = "no", **details: t.Any) -> Refusal | None:
    told = {"reason": "", "message": message, "details": details}
    return refusal_of(error_from_status("create", "Pod team/a", status, told), POD)


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_answers_that_tell_nothing_about_the_object(status: int) -> None:
    assert refusal(status) is None


@pytest.mark.parametrize(
    ("status", "message", "details", "kind", "reason"),
    [
        (403, 'pods "a" is forbidden: exceeded quota: q, requested: pods=1', {}, "requeue", "QuotaRefused"),
        (403, "status unknown for quota: q, resources: pods", {}, "requeue", "QuotaRefused"),
        (409, "Operation cannot be fulfilled on resourcequotas q", {}, "requeue", "QuotaRefused"),
        (409, "something else", {}, "requeue", "Conflict"),
        (403, "x", {"causes": [{"reason": "NamespaceTerminating"}]}, "drop", "NamespaceTerminating"),
        (409, "x because it is being terminated", {}, "drop", "NamespaceTerminating"),
        (404, 'namespaces "team" not found', {"kind": "namespaces"}, "drop", "NamespaceTerminating"),
        (403, "failed quota: q: must specify cpu", {"kind": "pods"}, "failed", "Refused"),
        (403, 'violates PodSecurity "restricted:latest"', {"kind": "pods"}, "failed", "Refused"),
        (400, "cannot be decoded", {}, "failed", "Refused"),
        (405, "not allowed", {}, "failed", "Refused"),
        (413, "too large", {}, "failed", "Refused"),
        (422, "spec: Invalid value", {}, "failed", "Refused"),
        (404, "the server could not find the requested resource", {}, "failed", "Refused"),
    ],
)
def test_answers_that_decide(status: int, message: str, details: t.Any, kind: str, reason: str) -> None:
    found = refusal(status, message, **details)
    assert found is not None
    assert (found.kind, found.reason) == (kind, reason)
    assert found.message.startswith("Pod team/a")
    assert found.then == ("failed" if kind == "failed" else "queued")


def test_missing_rights_are_named() -> None:
    message = 'pods is forbidden: User "eve" cannot create resource "pods" in API group "" in the namespace "team"'
    found = refusal(403, message)
    assert found == Refusal("failed", "Refused", f"Pod team/a: cannot create pods: {message}")


def test_pod_security_names_verb_and_resource_too() -> None:
    found = refusal(403, 'pods "a" is forbidden: violates PodSecurity "restricted:latest"', kind="pods")
    assert found is not None
    assert "cannot create pods" in found.message


def test_a_dispatcher_that_may_not_impersonate_does_not_fail_the_gang() -> None:
    text = (
        'serviceaccounts "muster" is forbidden: User "d" cannot impersonate resource "serviceaccounts" in API group ""'
    )
    found = refusal(403, text)
    assert found is not None
    assert (found.kind, found.reason) == ("requeue", "NoIdentity")


def test_unserved_kind_says_what_to_do() -> None:
    found = unserved({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}})
    assert "does not serve ray.io/v1 RayCluster; install its CRD" in found.message


def test_taken_names_object_and_owner() -> None:
    owned = {"metadata": {"ownerReferences": [{"kind": "Deployment", "name": "web"}]}}
    assert taken(POD, owned).message == "Pod team/a exists already and belongs to Deployment web"
    assert owner_text({"metadata": {}}) == "nobody (no owner reference)"
