# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the connection options: the same as those of kubernetes.core, with secrets masked and nothing else."""

from __future__ import annotations

import base64
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.auth import (
    auth_argument_spec,
    auth_from_params,
    secrets_of_kubeconfig,
)


def comparable(spec: dict[str, t.Any]) -> dict[str, t.Any]:
    """Types, aliases and elements of each option, defaults filled in; what is masked is our own decision."""
    return {
        name: (
            option.get("type", "str"),
            sorted(option.get("aliases", ())),
            option.get("elements"),
            comparable(option.get("options", {})),
        )
        for name, option in spec.items()
    }


def test_options_are_those_of_kubernetes_core() -> None:
    theirs = pytest.importorskip(
        "ansible_collections.kubernetes.core.plugins.module_utils.args_common",
        reason="kubernetes.core is not installed",
    )
    assert comparable(auth_argument_spec()) == comparable(theirs.AUTH_ARG_SPEC)


def test_secrets_are_masked_and_the_kubeconfig_is_not() -> None:
    spec = auth_argument_spec()
    assert spec["kubeconfig"]["no_log"] is False
    assert {name for name, option in spec.items() if option.get("no_log")} == {"api_key", "password"}
    assert spec["proxy_headers"]["options"]["proxy_basic_auth"]["no_log"] is True


def test_spec_is_a_copy() -> None:
    auth_argument_spec()["proxy_headers"]["options"].clear()
    assert auth_argument_spec()["proxy_headers"]["options"]


def test_only_given_connection_options_are_taken() -> None:
    params = {"host": "h", "api_key": None, "namespace": "lab", "validate_certs": False}
    assert auth_from_params(params) == {"host": "h", "validate_certs": False}


def test_secrets_of_a_kubeconfig() -> None:
    key = base64.b64encode(b"-----BEGIN KEY-----").decode()
    config = {
        "apiVersion": "v1",
        "current-context": "default",
        "clusters": [{"name": "default", "cluster": {"server": "https://h", "certificate-authority-data": "Q0E="}}],
        "contexts": [{"name": "default", "context": {"cluster": "default", "user": "default"}}],
        "users": [
            {"name": "default", "user": {"token": "tok-1", "username": "eve", "password": "pass-1"}},
            {"name": "cert", "user": {"client-certificate-data": "Q0VSVA==", "client-key-data": key}},
            {
                "name": "run",
                "user": {"exec": {"command": "aws", "args": ["x"], "env": [{"name": "A", "value": "env-1"}]}},
            },
            {
                "name": "oidc",
                "user": {"auth-provider": {"config": {"refresh-token": "ref-1", "idp-issuer-url": "https://i"}}},
            },
        ],
    }
    assert secrets_of_kubeconfig(config) == {"tok-1", "pass-1", key, "-----BEGIN KEY-----", "env-1", "ref-1"}


@pytest.mark.parametrize(
    "value",
    [
        None,
        "/home/eve/.kube/config",
        {},
        {"users": None},
        {"users": "x"},
        {"users": [None, "x", {}, {"user": None}, {"user": {"token": None, "exec": "x", "auth-provider": []}}]},
        {"users": [{"user": {"token": "v1"}}]},
        {"users": [{"user": {"exec": {"env": [None, {"name": "A"}, {"value": 3}]}}}]},
    ],
)
def test_nothing_to_mask(value: t.Any) -> None:
    assert secrets_of_kubeconfig(value) == set()


def test_key_that_is_not_base64_is_masked_as_written() -> None:
    assert secrets_of_kubeconfig({"users": [{"user": {"client-key-data": "not base64!"}}]}) == {"not base64!"}
