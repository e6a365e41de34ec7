# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection in the form that other programs understand: a kubeconfig that names no file and no program."""

from __future__ import annotations

import base64
import collections.abc
import pathlib
import typing as t

_NAME = "muster"
_BASIC, _BEARER = "Basic ", "Bearer "


def build_kubeconfig(configuration: t.Any, headers: collections.abc.Iterable[tuple[str, str]]) -> dict[str, t.Any]:
    """The kubeconfig of a library's configuration, with the credentials and the user of these headers.

    Tokens are those of now: who needs them for longer than they hold has to ask again.
    """
    context = {"cluster": _NAME, "user": _NAME}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": _cluster(configuration)}],
        "users": [{"name": _NAME, "user": {**_certificate(configuration), **_user(headers)}}],
        "contexts": [{"name": _NAME, "context": context}],
        "current-context": _NAME,
    }


def _cluster(configuration: t.Any) -> dict[str, t.Any]:
    """Where the server is and how it proves that."""
    cluster: dict[str, t.Any] = {"server": configuration.host}
    if not configuration.verify_ssl:
        cluster["insecure-skip-tls-verify"] = True
    elif configuration.ssl_ca_cert:
        cluster["certificate-authority-data"] = _coded(configuration.ssl_ca_cert)
    if configuration.proxy:
        cluster["proxy-url"] = configuration.proxy
    name = getattr(configuration, "tls_server_name", None)
    return {**cluster, **({"tls-server-name": name} if name else {})}


def _certificate(configuration: t.Any) -> dict[str, str]:
    """The certificate by which we are known, if we have one."""
    if not configuration.cert_file or not configuration.key_file:
        return {}
    return {
        "client-certificate-data": _coded(configuration.cert_file),
        "client-key-data": _coded(configuration.key_file),
    }


def _coded(path: str) -> str:
    return base64.b64encode(pathlib.Path(path).read_bytes()).decode()


def _user(headers: collections.abc.Iterable[tuple[str, str]]) -> dict[str, t.Any]:
    """What the headers of a request tell the server about who asks."""
    user: dict[str, t.Any] = {}
    groups: list[str] = []
    for name, value in headers:
        if name == "Impersonate-User":
            user["as"] = value
        elif name == "Impersonate-Group":
            groups.append(value)
        elif name.lower() == "authorization" and value.startswith(_BEARER):
            user["token"] = value.removeprefix(_BEARER)
        elif name.lower() == "authorization" and value.startswith(_BASIC):
            plain = base64.b64decode(value.removeprefix(_BASIC)).decode()
            user["username"], _colon, user["password"] = plain.partition(":")
    return {**user, **({"as-groups": groups} if groups else {})}
