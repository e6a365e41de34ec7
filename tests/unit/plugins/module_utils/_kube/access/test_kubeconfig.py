# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A connection told to another program is the same connection."""

from __future__ import annotations

import base64
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.access.kubeconfig import build_kubeconfig
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError


def told(auth, environ=None):
    """Cluster and user of the kubeconfig that a connection makes."""
    found = connect(auth, environ=environ or {}).kubeconfig()
    assert json.loads(json.dumps(found)) == found
    assert found["current-context"] == found["contexts"][0]["name"]
    return found["clusters"][0]["cluster"], found["users"][0]["user"]


def test_a_token_and_a_user_to_act_as_are_told():
    auth = {"host": "https://one:1", "api_key": "sesame", "validate_certs": False, "impersonate_user": "ann"}
    cluster, user = told({**auth, "impersonate_groups": ["team"]})
    assert cluster == {"server": "https://one:1", "insecure-skip-tls-verify": True}
    assert user == {"token": "sesame", "as": "ann", "as-groups": ["team"]}


def test_a_password_with_a_colon_is_told_whole():
    _cluster, user = told({"host": "https://one:1", "username": "ann", "password": "a:b"})
    assert user == {"username": "ann", "password": "a:b"}


def test_certificates_are_told_by_their_content(tmp_path):
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"the {name}", encoding="utf-8")
    auth = {"ca_cert": str(tmp_path / "ca"), "client_cert": str(tmp_path / "cert"), "client_key": str(tmp_path / "key")}

    class Configuration:
        host, verify_ssl, proxy = "https://one:1", True, "http://proxy:8"
        ssl_ca_cert, cert_file, key_file = auth["ca_cert"], auth["client_cert"], auth["client_key"]
        tls_server_name = "other"

    found = build_kubeconfig(Configuration, ())
    cluster, user = found["clusters"][0]["cluster"], found["users"][0]["user"]
    assert base64.b64decode(cluster["certificate-authority-data"]) == b"the ca"
    assert base64.b64decode(user["client-certificate-data"]) == b"the cert"
    assert base64.b64decode(user["client-key-data"]) == b"the key"
    assert (cluster["proxy-url"], cluster["tls-server-name"]) == ("http://proxy:8", "other")


def test_a_bearer_of_somebody_elses_token_is_told_as_such():
    client = connect({"host": "http://127.0.0.1:1", "api_key": "sesame"}, environ={}).bearing("other")
    assert client.kubeconfig()["users"][0]["user"] == {"token": "other"}


def test_a_file_that_went_meanwhile_is_told(tmp_path):
    authority = tmp_path / "ca"
    authority.write_text("", encoding="utf-8")
    client = connect({"host": "http://127.0.0.1:1", "api_key": "sesame", "ca_cert": str(authority)}, environ={})
    authority.unlink()
    with pytest.raises(MusterError, match=r"Cannot write a kubeconfig: .*No such file"):
        client.kubeconfig()
