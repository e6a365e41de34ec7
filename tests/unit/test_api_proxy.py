# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of the fault-making proxy, before a small server that says what it was asked."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import typing as t
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import watch
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PODS = "/api/v1/namespaces/lab/pods"
POD = {"kind": "Pod", "metadata": {"name": "a", "namespace": "lab"}}


class Upstream:
    """A server that answers each request with its method, path and headers, and watches with two lines."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.seen: list[tuple[str, str]] = []
        self.peers: set[tuple[str, int]] = set()
        self.go_on = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _serve(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append((self.command, self.path))
                outer.peers.add(self.client_address)
                self.close_connection = self.close_connection or self.path.endswith("/last")
                if "watch=true" in self.path:
                    self._stream()
                    return
                peer = self.connection.getpeercert() if certificate else None
                told = {"method": self.command, "headers": self.headers.items(), "certificate": bool(peer)}
                body = json.dumps(told).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def _stream(self) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for version in ("6", "7"):
                    event = {"type": "ADDED", "object": {"metadata": {"name": "a", "resourceVersion": version}}}
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
                    outer.go_on.wait(10)
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

            def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            context.load_verify_locations(certificate)
            context.verify_mode = ssl.CERT_OPTIONAL
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if certificate else "http"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def kubeconfig(self, cluster: dict[str, t.Any] | None = None, **user: t.Any) -> dict[str, t.Any]:
        return {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.url, **(cluster or {})}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }

    def close(self) -> None:
        self.go_on.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def upstream() -> t.Iterator[Upstream]:
    server = Upstream()
    yield server
    server.close()


@pytest.fixture
def proxy(upstream: Upstream, tmp_path: Path) -> t.Iterator[ApiProxy]:
    with ApiProxy(upstream.kubeconfig(token="upstream-token"), tmp_path) as running:
        yield running


@pytest.fixture
def client(proxy: ApiProxy) -> KubeClient:
    return connect({"kubeconfig": str(proxy.kubeconfig)}, environ={}, sleep=lambda seconds: None)


def test_requests_pass_with_the_upstreams_token_and_are_recorded(proxy: ApiProxy, client: KubeClient) -> None:
    answer = client.request("GET", PODS, query={"limit": 5}).json()
    assert ["Authorization", "Bearer upstream-token"] in answer["headers"]
    [seen] = proxy.requests
    assert (seen.method, seen.path, seen.query, seen.status) == ("GET", PODS, {"limit": ["5"]}, 200)
    assert_no_writes(proxy)


def test_requests_of_one_connection_share_one_to_the_server(client: KubeClient, upstream: Upstream) -> None:
    for _number in range(3):
        client.request("GET", PODS)
        create(client, PODS, POD)
    assert len(upstream.peers) == 1
    # A server that has ended the connection is asked on another one.
    client.request("GET", f"{PODS}/last")
    client.request("GET", PODS)
    assert len(upstream.peers) == 2


def test_own_credentials_and_repeated_headers_pass(proxy: ApiProxy) -> None:
    auth = {"host": proxy.url, "api_key": "mine", "impersonate_user": "eve", "impersonate_groups": ["x", "y"]}
    told = connect(auth, environ={}).request("GET", PODS).json()["headers"]
    assert [value for name, value in told if name == "Impersonate-Group"] == ["x", "y"]
    assert [value for name, value in told if name == "Authorization"] == ["Bearer mine"]


def test_writes_are_told_from_dry_runs_and_reviews(proxy: ApiProxy, client: KubeClient) -> None:
    create(client, PODS, POD, dry_run=True)
    client.request("DELETE", f"{PODS}/a", body={"dryRun": ["All"]})
    client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body={})
    assert_no_writes(proxy)
    assert len(proxy.dry_runs) == 2
    create(client, PODS, POD)
    delete(client, f"{PODS}/a")
    assert [request.method for request in proxy.writes] == ["POST", "DELETE"]
    with pytest.raises(AssertionError, match=f"2 writes left the client: POST {PODS}"):
        assert_no_writes(proxy)
    proxy.forget()
    assert_no_writes(proxy)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, TooManyRequests),
        (500, ServerFault),
    ],
)
def test_failures_look_like_the_servers(
    proxy: ApiProxy, client: KubeClient, upstream: Upstream, status: int, error: type[Exception]
) -> None:
    proxy.fail(method="POST", path="/pods$", status=status, message="as told")
    with pytest.raises(error, match=f"as told .HTTP {status} [A-Z]"):
        create(client, PODS, POD)
    assert (upstream.seen, proxy.requests[0].status) == ([], status)
    assert create(client, PODS, POD)["method"] == "POST"


def test_rules_count_their_own_requests(proxy: ApiProxy, client: KubeClient) -> None:
    proxy.fail(method="GET", path="/pods", status=404, first=2, times=2)
    outcomes = []
    for path in (PODS, "/api/v1/nodes", PODS, PODS, PODS):
        try:
            outcomes.append(client.request("GET", path).status)
        except NotFound:
            outcomes.append(404)
    assert outcomes == [200, 200, 404, 404, 200]


def test_retry_after_reaches_the_client(proxy: ApiProxy, client: KubeClient) -> None:
    proxy.fail(path=PODS, status=429, retry_after=3)
    assert client.request("POST", PODS, body={}).status == 200
    assert [request.status for request in proxy.requests] == [429, 200]


def test_the_time_of_an_answer_can_be_wrong(proxy: ApiProxy, client: KubeClient) -> None:
    proxy.misdate(ahead=3600, first=2)
    told = [client.request("GET", PODS).headers["Date"] for _turn in range(3)]
    hours = [parsedate_to_datetime(date) - datetime.now(UTC) > timedelta(minutes=50) for date in told]
    assert hours == [False, True, False]
    proxy.fail(status=502, ahead=3600)
    with pytest.raises(ServerFault):
        client.request("GET", PODS, read_retries=False)
    assert client.server_time == parsedate_to_datetime(told[-1])


@pytest.mark.parametrize(("when", "asked"), [("before", 0), ("after", 1), ("inside", 1)])
def test_cut_connections(proxy: ApiProxy, client: KubeClient, upstream: Upstream, when: t.Any, asked: int) -> None:
    proxy.cut(when=when, method="POST")
    with pytest.raises(Unreachable):
        create(client, PODS, POD)
    assert (len(upstream.seen), proxy.requests[0].status) == (asked, 0)
    proxy.cut(when=when, method="GET")
    assert client.request("GET", PODS).status == 200


def test_held_request_waits_for_its_release(proxy: ApiProxy, client: KubeClient, upstream: Upstream) -> None:
    rule = proxy.hold(method="POST")
    thread = threading.Thread(target=create, args=(client, PODS, POD))
    thread.start()
    rule.wait_for_arrival()
    assert upstream.seen == []
    rule.release()
    thread.join(10)
    assert upstream.seen == [("POST", f"{PODS}?fieldManager=muster.kube")]


def test_waiting_for_a_request_that_does_not_come_fails(proxy: ApiProxy) -> None:
    with pytest.raises(TimeoutError, match="no request matching /x"):
        proxy.hold(path="/x").wait_for_arrival(0.01)


def test_delayed_request_still_arrives(proxy: ApiProxy, client: KubeClient) -> None:
    proxy.delay(path=PODS, seconds=0.3)
    with pytest.raises(Unreachable, match="timed out"):
        client.request("GET", PODS, timeout=0.05, read_retries=False)
    assert client.request("GET", PODS).status == 200


def test_watch_lines_come_through_while_the_server_still_writes(
    proxy: ApiProxy, client: KubeClient, upstream: Upstream
) -> None:
    events = watch(client, PODS, "5", timeout=30)
    assert next(events).object["metadata"]["resourceVersion"] == "6"
    upstream.go_on.set()
    assert next(events).object["metadata"]["resourceVersion"] == "7"
    events.close()  # type: ignore[attr-defined]


def test_cut_watch_goes_on(proxy: ApiProxy, client: KubeClient, upstream: Upstream) -> None:
    upstream.go_on.set()
    proxy.cut(when="inside", path=PODS)
    assert next(watch(client, PODS, "5", timeout=30)).object["metadata"]["resourceVersion"] == "6"
    assert [request.query["resourceVersion"] for request in proxy.requests] == [["5"], ["5"]]


def test_leaving_the_block_ends_a_waiting_watch(upstream: Upstream, tmp_path: Path) -> None:
    with ApiProxy(upstream.kubeconfig(), tmp_path) as proxy:
        connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=10)
        connection.request("GET", f"{PODS}?watch=true")
        answer = connection.getresponse()
        assert answer.readline().startswith(b'{"type"')
    with pytest.raises((OSError, http.client.HTTPException)):
        answer.read()


def certificate_file(directory: Path) -> Path:
    """A certificate for the loopback address that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "proxy-test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = directory / "upstream.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_client_certificate_of_the_kubeconfig_is_shown_upstream(tmp_path: Path) -> None:
    path = certificate_file(tmp_path)
    server = Upstream(path)
    config = server.kubeconfig(
        {"certificate-authority": str(path)}, **{"client-certificate": str(path), "client-key": str(path)}
    )
    with ApiProxy(config, tmp_path) as proxy:
        known = connect({"kubeconfig": str(proxy.kubeconfig)}, environ={}).request("GET", PODS).json()
        own = connect({"host": proxy.url, "api_key": "mine"}, environ={}).request("GET", PODS).json()
    server.close()
    assert (known["certificate"], own["certificate"]) == (True, False)
