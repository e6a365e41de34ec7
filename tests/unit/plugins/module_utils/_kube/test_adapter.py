# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of turning connection options into a connection, compared with what kubernetes.core makes of them."""

from __future__ import annotations

import json
import os
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube import adapter
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import BadConnection, Unauthorized
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary

kubernetes = pytest.importorskip("kubernetes", reason="the kubernetes package is what is adapted here")

NODES = "/api/v1/nodes"
COMPARED = ("host", "api_key", "username", "password", "verify_ssl", "proxy", "no_proxy", "cert_file", "key_file")


def kubeconfig(server: str, **user: t.Any) -> dict[str, t.Any]:
    """A kubeconfig with two contexts; the second has another server."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "first",
        "clusters": [
            {"name": "default", "cluster": {"server": server}},
            {"name": "other", "cluster": {"server": "http://other.invalid:1"}},
        ],
        "users": [{"name": "default", "user": user or {"token": "sesame"}}],
        "contexts": [
            {"name": "first", "context": {"cluster": "default", "user": "default"}},
            {"name": "second", "context": {"cluster": "other", "user": "default"}},
        ],
    }


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory without a kubeconfig, and an environment that says nothing."""
    for name in tuple(os.environ):
        if name.startswith("K8S_AUTH_") or name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


CASES: list[tuple[dict[str, t.Any], dict[str, str]]] = [
    ({"host": "https://h:1/", "api_key": "k"}, {}),
    ({"host": "https://h:1", "username": "u", "password": "p", "validate_certs": False}, {}),
    ({"kubeconfig": kubeconfig("http://h:2")}, {}),
    ({"kubeconfig": kubeconfig("http://h:2"), "context": "second"}, {}),
    ({"kubeconfig": kubeconfig("http://h:2"), "host": "http://h:3"}, {}),
    ({"kubeconfig": "FILE"}, {}),
    ({"kubeconfig": "FILE", "context": "second", "proxy": "http://p:8", "no_proxy": "a,b"}, {}),
    ({}, {"K8S_AUTH_HOST": "http://h:4", "K8S_AUTH_API_KEY": "e"}),
    ({}, {"K8S_AUTH_KUBECONFIG": "FILE", "K8S_AUTH_CONTEXT": "second"}),
    ({"host": "http://given"}, {"K8S_AUTH_HOST": "http://h:4", "K8S_AUTH_API_KEY": "e", "K8S_AUTH_VERIFY_SSL": "no"}),
    ({"kubeconfig": "FILE"}, {"K8S_AUTH_VALIDATE_CERTS": "false", "K8S_AUTH_USERNAME": "u"}),
    ({"host": "http://h", "api_key": "k", "proxy_headers": {"basic_auth": "a:b"}}, {}),
    ({"host": "http://h", "api_key": "k"}, {"K8S_AUTH_PROXY_HEADERS_USER_AGENT": "me"}),
]


@pytest.mark.parametrize(("auth", "variables"), CASES)
def test_same_configuration_as_kubernetes_core(
    home: Path, monkeypatch: pytest.MonkeyPatch, auth: dict[str, t.Any], variables: dict[str, str]
) -> None:
    theirs = pytest.importorskip(
        "ansible_collections.kubernetes.core.plugins.module_utils.k8s.client", reason="kubernetes.core is not installed"
    )
    (home / "config").write_text(json.dumps(kubeconfig("http://h:9")))
    auth = {name: str(home / "config") if value == "FILE" else value for name, value in auth.items()}
    for name, value in variables.items():
        monkeypatch.setenv(name, str(home / "config") if value == "FILE" else value)
    kubernetes.client.Configuration.set_default(None)
    monkeypatch.setattr(theirs, "create_api_client", lambda configuration, **headers: None)
    expected = theirs.get_api_client(**auth).configuration
    kubernetes.client.Configuration.set_default(None)

    ours = adapter.build_configuration(auth, os.environ)

    for name in COMPARED:
        assert getattr(ours, name) == getattr(expected, name), name
    assert ours.auth_settings() == expected.auth_settings()
    assert (ours.proxy_headers or {}) == (expected.proxy_headers or {})
    assert kubernetes.client.Configuration.get_default_copy().host != ours.host


def test_environment_of_the_task_decides_where_the_kubeconfig_is(home: Path) -> None:
    (home / "a").write_text(json.dumps(kubeconfig("http://a:1")))
    assert adapter.build_configuration({}, {"KUBECONFIG": str(home / "a")}).host == "http://a:1"
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text(json.dumps(kubeconfig("http://usual:1")))
    assert adapter.build_configuration({}, {}).host == "http://usual:1"


@pytest.fixture
def proxied(home: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment whose HTTP and HTTPS go through proxies."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3129")
    return monkeypatch


def proxy_of_environment(scheme: str) -> str | None:
    """The proxy that the kubernetes package takes from the environment; old releases of it take none."""
    configuration = kubernetes.client.Configuration()
    configuration.host = f"{scheme}://far.test"
    return t.cast("str | None", configuration.proxy)


def proxy_in_use(auth: dict[str, t.Any]) -> str | None:
    """The proxy that requests are sent to."""
    proxy = adapter.open_transport(auth)._pool.proxy
    return None if proxy is None else str(proxy)


@pytest.mark.parametrize("name", ["127.0.0.1", "127.8.9.10", "[::1]", "localhost", "LOCALHOST"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_of_the_environment_is_not_for_this_machine(
    proxied: pytest.MonkeyPatch, name: str, scheme: str
) -> None:
    assert proxy_in_use({"host": f"{scheme}://{name}:6443/"}) is None
    assert proxy_in_use({"kubeconfig": kubeconfig(f"{scheme}://{name}:6443")}) is None


@pytest.mark.parametrize("name", ["far.test", "localhost.far.test", "128.0.0.1", "[::2]", "127.0.0.1.far.test"])
def test_a_proxy_of_the_environment_is_for_other_machines(proxied: pytest.MonkeyPatch, name: str) -> None:
    for scheme in ("http", "https"):
        assert proxy_in_use({"host": f"{scheme}://{name}:6443"}) == proxy_of_environment(scheme)


def test_machines_that_no_proxy_names_have_none(proxied: pytest.MonkeyPatch) -> None:
    proxied.setenv("NO_PROXY", "far.test,10.0.0.0/8")
    assert proxy_in_use({"host": "https://api.far.test"}) is None
    assert proxy_in_use({"host": "https://10.1.2.3"}) is None
    assert proxy_in_use({"host": "https://other.test"}) == proxy_of_environment("https")


def test_a_proxy_that_somebody_asked_for_is_used_for_this_machine_too(proxied: pytest.MonkeyPatch) -> None:
    asked = "http://tunnel.test:1"
    assert proxy_in_use({"host": "https://127.0.0.1:1", "proxy": asked}) == asked
    assert proxy_in_use({"host": "https://127.0.0.1:1", "proxy": "http://proxy.test:3128"}) == "http://proxy.test:3128"
    config = kubeconfig("https://127.0.0.1:1")
    config["clusters"][0]["cluster"]["proxy-url"] = asked
    # Old releases of the kubernetes package know no proxy-url.
    assert proxy_in_use({"kubeconfig": config}) in (asked, None)
    assert proxy_in_use({"kubeconfig": config, "no_proxy": "127.0.0.0/8"}) is None


def test_host_alone_is_enough(home: Path) -> None:
    assert adapter.build_configuration({"host": "http://h:1"}, {}).host == "http://h:1"


@pytest.mark.parametrize(
    ("auth", "cause"),
    [
        (
            {},
            "the kubeconfig ~/.kube/config: there is no such file, and neither kubeconfig nor KUBECONFIG names another",
        ),
        ({"kubeconfig": "/nowhere/config"}, "the kubeconfig /nowhere/config: there is no such file"),
        ({"kubeconfig": "/nowhere/a:/nowhere/b"}, "the kubeconfig /nowhere/a:/nowhere/b: there is no such file"),
        ({"kubeconfig": "TEXT"}, "the kubeconfig .*/text: it is not a kubeconfig"),
        ({"kubeconfig": kubeconfig("http://h:1"), "context": "third"}, "third"),
        ({"kubeconfig": {"kind": "Config"}}, "current-context"),
        ({"kubeconfig": "BROKEN"}, "while parsing"),
    ],
)
def test_unusable_options_are_told(home: Path, auth: dict[str, t.Any], cause: str) -> None:
    (home / "broken").write_text("a: [")
    (home / "text").write_text("just words")
    if auth.get("kubeconfig") in ("BROKEN", "TEXT"):
        auth = {"kubeconfig": str(home / auth["kubeconfig"].lower())}
    with pytest.raises(BadConnection, match=cause):
        adapter.open_transport(auth, {})


def test_a_missing_kubeconfig_of_the_environment_is_named(home: Path) -> None:
    with pytest.raises(BadConnection, match="the kubeconfig /nowhere/c of KUBECONFIG: there is no such file"):
        adapter.open_transport({}, {"KUBECONFIG": "/nowhere/c"})


@pytest.mark.parametrize(
    ("auth", "environ", "words"),
    [
        ({"host": "URL", "api_key": "k"}, {}, "the token of the option api_key"),
        ({"host": "URL"}, {"K8S_AUTH_API_KEY": "k"}, "the token of K8S_AUTH_API_KEY"),
        ({"host": "URL", "username": "u", "password": "p"}, {}, "the user name and password"),
        ({"host": "URL"}, {}, "a request without credentials"),
        ({"kubeconfig": "CONFIG"}, {}, "the token of the kubeconfig .*/config"),
    ],
)
def test_refused_credentials_are_named(
    stub: t.Any, reply: t.Any, home: Path, auth: dict[str, t.Any], environ: dict[str, str], words: str
) -> None:
    status = {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}
    stub.answer("GET", NODES, reply(status, 401))
    (home / "config").write_text(json.dumps(kubeconfig(stub.url)))
    places = {"URL": stub.url, "CONFIG": str(home / "config")}
    with pytest.raises(Unauthorized, match=f"{stub.url} does not accept {words}"):
        connect({key: places.get(value, value) for key, value in auth.items()}, environ=environ).request("GET", NODES)


@pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
def test_missing_certificate_file_is_told(home: Path, option: str) -> None:
    with pytest.raises(BadConnection, match="Cannot read the file /nowhere/x: there is no such file"):
        connect({"host": "https://127.0.0.1:1", "api_key": "k", option: "/nowhere/x"}, environ={})


def test_dict_kubeconfig_is_used_and_left_alone(stub: t.Any, reply: t.Any, home: Path) -> None:
    stub.answer("GET", NODES, reply({}))
    given = kubeconfig(stub.url)
    before = json.dumps(given)
    connect({"kubeconfig": given}, environ={}).request("GET", NODES)
    assert dict(stub.seen[0].headers)["Authorization"] == "Bearer sesame"
    assert json.dumps(given) == before


def test_connecting_sends_nothing(stub: t.Any, home: Path) -> None:
    connect({"kubeconfig": kubeconfig(stub.url)}, environ={})
    assert stub.seen == []


def test_impersonation_sends_one_header_per_group(stub: t.Any, reply: t.Any, home: Path) -> None:
    stub.answer("GET", NODES, reply({}))
    auth = {"host": stub.url, "api_key": "k", "impersonate_user": "eve", "impersonate_groups": ["a", "b"]}
    connect(auth, environ={}).request("GET", NODES)
    connect({"host": stub.url, "api_key": "k"}, environ={"K8S_AUTH_IMPERSONATE_GROUPS": "c,d"}).request("GET", NODES)
    groups = [[value for name, value in seen.headers if name == "Impersonate-Group"] for seen in stub.seen]
    assert groups == [["a", "b"], ["c", "d"]]
    assert dict(stub.seen[0].headers)["Impersonate-User"] == "eve"


def test_expired_exec_credentials_are_renewed(stub: t.Any, reply: t.Any, home: Path) -> None:
    count = home / "count"
    program = (
        "import json, pathlib\n"
        f"path = pathlib.Path({str(count)!r})\n"
        "number = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(number))\n"
        "status = {'token': f'token-{number}', 'expirationTimestamp': '2020-01-01T00:00:00Z'}\n"
        "kind = {'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential'}\n"
        "print(json.dumps({**kind, 'status': status}))\n"
    )
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", program],
            "interactiveMode": "Never",
        }
    }
    stub.answer("GET", NODES, reply({}))
    client = connect({"kubeconfig": kubeconfig(stub.url, **user)}, environ=os.environ)
    client.request("GET", NODES)
    client.request("GET", NODES)
    tokens = [dict(seen.headers)["Authorization"] for seen in stub.seen]
    assert len(set(tokens)) == 2
    assert all(token.startswith("Bearer token-") for token in tokens)


def test_basic_authentication(stub: t.Any, reply: t.Any, home: Path) -> None:
    stub.answer("GET", NODES, reply({}))
    connect({"host": stub.url, "username": "u", "password": "p"}, environ={}).request("GET", NODES)
    assert dict(stub.seen[0].headers)["Authorization"] == "Basic dTpw"


def test_redirects_are_not_followed(stub: t.Any, reply: t.Any, home: Path) -> None:
    stub.answer("GET", NODES, reply({}, 302, {"Location": "/elsewhere"}))
    with pytest.raises(Exception, match="HTTP 302"):
        connect({"host": stub.url, "api_key": "k"}, environ={}).request("GET", NODES)
    assert [seen.path for seen in stub.seen] == [NODES]


def test_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "IMPORT_TRACEBACK", "Traceback: no module named kubernetes")
    with pytest.raises(MissingLibrary) as caught:
        connect({"host": "http://h"}, environ={})
    assert (caught.value.library, "no module" in caught.value.traceback) == ("kubernetes", True)
