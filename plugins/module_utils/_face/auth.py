# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The connection options shared by every module that talks to an API server: those of kubernetes.core."""

from __future__ import annotations

import base64
import binascii
import copy
import typing as t

# Written out rather than taken from kubernetes.core, so that documentation and specification also hold where that
# collection is another release or missing; a unit test compares the two. no_log of kubeconfig is False on
# purpose: Ansible would mask every string in a kubeconfig given as dict, even "default" and "v1", in all
# results. secrets_of_kubeconfig names what must be masked instead.
_SPEC: dict[str, dict[str, t.Any]] = {
    "kubeconfig": {"type": "raw", "no_log": False},
    "context": {"type": "str"},
    "host": {"type": "str"},
    "api_key": {"type": "str", "no_log": True},
    "username": {"type": "str"},
    "password": {"type": "str", "no_log": True},
    "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
    "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
    "client_cert": {"type": "path", "aliases": ["cert_file"]},
    "client_key": {"type": "path", "aliases": ["key_file"], "no_log": False},
    "proxy": {"type": "str"},
    "no_proxy": {"type": "str"},
    "proxy_headers": {
        "type": "dict",
        "options": {
            "proxy_basic_auth": {"type": "str", "no_log": True},
            "basic_auth": {"type": "str", "no_log": True},
            "user_agent": {"type": "str"},
        },
    },
    "persist_config": {"type": "bool"},
    "impersonate_user": {"type": "str"},
    "impersonate_groups": {"type": "list", "elements": "str"},
}

_USER_SECRETS = ("token", "password", "client-key-data")
_PROVIDER_SECRETS = ("access-token", "id-token", "refresh-token", "client-secret")
# Masking a very short text would mask it inside ordinary words.
_SHORTEST_SECRET = 4


def auth_argument_spec() -> dict[str, dict[str, t.Any]]:
    """The options' specification; a copy, so that a module may add to it."""
    return copy.deepcopy(_SPEC)


def auth_from_params(params: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Only the connection options out of a module's parameters, unset ones left out."""
    return {name: params[name] for name in _SPEC if params.get(name) is not None}


def kubeconfig_secrets(params: t.Mapping[str, t.Any]) -> set[str]:
    """What must be masked in a module's parameters because it stands in a kubeconfig given as dict."""
    return secrets_of_kubeconfig(params.get("kubeconfig"))


def secrets_of_kubeconfig(value: t.Any) -> set[str]:
    """The texts in a kubeconfig given as dict that must be masked: keys, tokens, passwords, exec variables.

    A kubeconfig given as path holds none. Certificates are public. Malformed parts hold nothing that can be named.
    """
    found: set[str] = set()
    users = value.get("users") if isinstance(value, t.Mapping) else None
    for entry in users if isinstance(users, (list, tuple)) else ():
        user = entry.get("user") if isinstance(entry, t.Mapping) else None
        if isinstance(user, t.Mapping):
            found |= _secrets_of_user(user)
    return {text for text in found if len(text) >= _SHORTEST_SECRET}


def _secrets_of_user(user: t.Mapping[str, t.Any]) -> set[str]:
    """The secrets of one user entry."""
    found = {user[name] for name in _USER_SECRETS if isinstance(user.get(name), str)}
    found |= {plain for plain in (_decoded(user.get("client-key-data")),) if plain}
    program = user.get("exec")
    variables = program.get("env") if isinstance(program, t.Mapping) else None
    for variable in variables if isinstance(variables, (list, tuple)) else ():
        if isinstance(variable, t.Mapping) and isinstance(variable.get("value"), str):
            found.add(variable["value"])
    provider = user.get("auth-provider")
    settings = provider.get("config") if isinstance(provider, t.Mapping) else None
    if isinstance(settings, t.Mapping):
        found |= {settings[name] for name in _PROVIDER_SECRETS if isinstance(settings.get(name), str)}
    return found


def _decoded(text: t.Any) -> str | None:
    """The key behind its base64 form, None when it is not one."""
    try:
        return base64.b64decode(text, validate=True).decode() if isinstance(text, str) else None
    except (binascii.Error, UnicodeDecodeError):
        return None
