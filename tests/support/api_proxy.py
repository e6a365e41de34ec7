# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A reverse proxy before a real API server that records every request and makes faults on demand.

Clients talk plain HTTP to it with the kubeconfig it writes; it adds the credentials of the upstream kubeconfig. A
request that brings its own Authorization header is passed on with that instead.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import http.client
import json
import re
import select
import socket
import ssl
import threading
import time
import typing as t
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import yaml

Cut = t.Literal["before", "after", "inside"]

_REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}
_NOT_PASSED_ON = {"connection", "host", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade"}
_READ_ONLY = ("GET", "HEAD", "OPTIONS")
_HOLD_SECONDS = 120.0


@dataclass
class Recorded:
    """One request as it came; status is None until it was answered, 0 when its connection was cut."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: bytes
    status: int | None = None

    @property
    def dry_run(self) -> bool:
        """True when the server was asked only to pretend, by the query or by the options of a delete."""
        if "All" in self.query.get("dryRun", ()):
            return True
        if self.method != "DELETE" or not self.body.startswith(b"{"):
            return False
        return "All" in (json.loads(self.body).get("dryRun") or ())

    @property
    def write(self) -> bool:
        """True when it can change the cluster; reviews of access create nothing."""
        asks_only = self.path.startswith(("/apis/authorization.k8s.io/", "/apis/authentication.k8s.io/"))
        return self.method not in _READ_ONLY and not self.dry_run and not asks_only


@dataclass
class Rule:
    """What to do with some of the requests that match: number first to first + times - 1 (all when times is None)."""

    method: str | None
    path: re.Pattern[str]
    first: int
    times: int | None
    status: int | None = None
    message: str = ""
    reason: str = ""
    retry_after: int | None = None
    cut: Cut | None = None
    seconds: float = 0.0
    holding: bool = False
    ahead: float | None = None
    meanwhile: t.Callable[[], None] | None = None
    matched: int = 0
    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def takes(self, request: Recorded) -> bool:
        """Count a matching request and say whether the rule is for this one."""
        if self.method not in (None, request.method) or not self.path.search(request.path):
            return False
        self.matched += 1
        return self.matched >= self.first and (self.times is None or self.matched < self.first + self.times)

    def wait_for_arrival(self, seconds: float = 30.0) -> None:
        """Return when a request is being held; fail when none comes."""
        if not self.arrived.wait(seconds):
            raise TimeoutError(f"no request matching {self.path.pattern} arrived within {seconds} s")

    def release(self) -> None:
        """Let held requests go on to the server."""
        self.released.set()


class RequestBook:
    """The requests of a client so far, and the rules for those to come."""

    def __init__(self) -> None:
        """Nothing recorded, no rules."""
        self.requests: list[Recorded] = []
        self._rules: list[Rule] = []
        self._lock = threading.Lock()

    @property
    def writes(self) -> list[Recorded]:
        """The requests that can have changed the cluster."""
        return [request for request in self.requests if request.write]

    @property
    def dry_runs(self) -> list[Recorded]:
        """The requests that only pretended."""
        return [request for request in self.requests if request.method not in _READ_ONLY and request.dry_run]

    def forget(self) -> None:
        """Start the record anew."""
        with self._lock:
            self.requests = []

    def clear(self) -> None:
        """Drop all rules; held requests go on."""
        with self._lock:
            rules, self._rules = self._rules, []
        for rule in rules:
            rule.release()

    def fail(
        self,
        *,
        status: int,
        method: str | None = None,
        path: str = "",
        times: int | None = 1,
        first: int = 1,
        message: str = "made by the test",
        reason: str | None = None,
        retry_after: int | None = None,
        ahead: float | None = None,
    ) -> Rule:
        """Answer with an error and a proper Status body instead of asking the server; path is a regular expression.

        With ahead the answer has a Date, so many seconds ahead of the time.
        """
        words = reason if reason is not None else _REASONS.get(status, "")
        rule = Rule(method, re.compile(path), first, times, status=status, message=message, reason=words)
        rule.retry_after, rule.ahead = retry_after, ahead
        return self._add(rule)

    def misdate(
        self, *, ahead: float, method: str | None = None, path: str = "", times: int | None = 1, first: int = 1
    ) -> Rule:
        """Pass on, but let the clock of the answer be so many seconds ahead."""
        return self._add(Rule(method, re.compile(path), first, times, ahead=ahead))

    def cut(
        self, *, when: Cut = "before", method: str | None = None, path: str = "", times: int | None = 1, first: int = 1
    ) -> Rule:
        """Drop the connection before the server is asked, after it answered, or inside the answer's body."""
        return self._add(Rule(method, re.compile(path), first, times, cut=when))

    def delay(
        self, *, seconds: float, method: str | None = None, path: str = "", times: int | None = 1, first: int = 1
    ) -> Rule:
        """Ask the server only after so many seconds."""
        return self._add(Rule(method, re.compile(path), first, times, seconds=seconds))

    def hold(self, *, method: str | None = None, path: str = "", times: int | None = 1, first: int = 1) -> Rule:
        """Keep requests back until the returned rule's release(); its wait_for_arrival() tells that one is there."""
        return self._add(Rule(method, re.compile(path), first, times, holding=True))

    def record(self, request: Recorded) -> Rule | None:
        """Note a request; returns the first rule that is for it."""
        with self._lock:
            self.requests.append(request)
            wanting = [rule for rule in self._rules if rule.takes(request)]
        return wanting[0] if wanting else None

    def _add(self, rule: Rule) -> Rule:
        """Put a rule behind the others."""
        with self._lock:
            self._rules.append(rule)
        return rule


class ApiProxy(RequestBook):
    """The proxy, serving while its with block lasts: with ApiProxy(upstream_kubeconfig, directory) as proxy."""

    def __init__(self, upstream_kubeconfig: str | Path | t.Mapping[str, t.Any], directory: str | Path) -> None:
        """Read the upstream's address and credentials; its files and the new kubeconfig go to the directory."""
        super().__init__()
        self.directory = Path(directory)
        self._upstream = Upstream(_load(upstream_kubeconfig), self.directory)
        handler = type("Handler", (_Handler,), {"proxy": self, "upstream": self._upstream})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.kubeconfig = self._write_kubeconfig()

    def __enter__(self) -> ApiProxy:
        """Start to serve."""
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *ignored: object) -> None:
        """Release what is held, drop every connection and stop."""
        self.clear()
        self._server.shutdown()
        self._server.server_close()
        self._server.drop_connections()

    def _write_kubeconfig(self) -> Path:
        """A kubeconfig that leads to the proxy."""
        path = self.directory / "proxy.kubeconfig"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": self.url}}],
            "users": [{"name": "proxy", "user": {}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        }
        path.write_text(json.dumps(config), encoding="utf-8")
        return path


def assert_no_writes(proxy: RequestBook) -> None:
    """Fail with the list of requests that could have changed the cluster."""
    sent = [f"{request.method} {request.path}" for request in proxy.writes]
    if sent:
        raise AssertionError(f"{len(sent)} writes left the client: {', '.join(sent)}")


class Upstream:
    """Address and credentials of the real API server."""

    def __init__(self, config: t.Mapping[str, t.Any], directory: Path) -> None:
        """Take the current context of a kubeconfig."""
        context = _named(config, "contexts", config["current-context"])["context"]
        cluster = _named(config, "clusters", context["cluster"])["cluster"]
        user = _named(config, "users", context["user"])["user"]
        address = urlsplit(cluster["server"])
        self.host = address.hostname or "127.0.0.1"
        self.port = address.port
        self.token: str | None = user.get("token")
        self._directory = directory
        self._anonymous: ssl.SSLContext | None = None
        self._known: ssl.SSLContext | None = None
        if address.scheme == "https":
            self._anonymous = self._context(cluster, {})
            self._known = self._context(cluster, user)

    def open(self, *, own_credentials: bool) -> http.client.HTTPConnection:
        """A fresh connection, with the client certificate unless the request brings credentials itself."""
        context = self._anonymous if own_credentials else self._known
        if context is None:
            return http.client.HTTPConnection(self.host, self.port)
        return http.client.HTTPSConnection(self.host, self.port, context=context)

    def _context(self, cluster: t.Mapping[str, t.Any], user: t.Mapping[str, t.Any]) -> ssl.SSLContext:
        """TLS as the kubeconfig asks for it."""
        context = ssl.create_default_context(cafile=self._file(cluster, "certificate-authority"))
        if cluster.get("insecure-skip-tls-verify"):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        certificate = self._file(user, "client-certificate")
        if certificate:
            context.load_cert_chain(certificate, self._file(user, "client-key"))
        return context

    def _file(self, entry: t.Mapping[str, t.Any], name: str) -> str | None:
        """A file named in the entry, or written from the data in it."""
        if f"{name}-data" not in entry:
            return t.cast("str | None", entry.get(name))
        path = self._directory / f"upstream-{name}.pem"
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(entry[f"{name}-data"]))
        return str(path)


class _Server(ThreadingHTTPServer):
    """A server that can drop the connections its threads still serve."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: t.Any) -> None:
        """No connection yet."""
        self._open: set[socket.socket] = set()
        super().__init__(*arguments)

    def process_request(self, request: t.Any, client_address: t.Any) -> None:
        """Remember the connection."""
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: t.Any) -> None:
        """Forget the connection."""
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: t.Any, client_address: t.Any) -> None:
        """A client that went away is no news."""

    def drop_connections(self) -> None:
        """End what is still open, watches above all."""
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """One client connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    proxy: ApiProxy
    upstream: Upstream
    # The last connection to the server, with whose credentials; opening one costs both sides more than a request.
    _kept: tuple[bool, http.client.HTTPConnection] | None = None

    def _serve(self) -> None:
        """Record, apply the rule if there is one, pass on."""
        address = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Recorded(self.command, address.path, parse_qs(address.query), body)
        rule = self.proxy.record(request)
        if rule is not None:
            self._wait(rule)
            if rule.status is not None:
                self._refuse(request, rule)
                return
            if rule.cut == "before":
                self._drop(request)
                return
        self._pass_on(request, rule)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
        """Say nothing."""

    def _wait(self, rule: Rule) -> None:
        """Keep the request back as the rule says."""
        if rule.seconds:
            time.sleep(rule.seconds)
        if rule.holding:
            rule.arrived.set()
            rule.released.wait(_HOLD_SECONDS)

    def _drop(self, request: Recorded) -> None:
        """End the connection without an answer."""
        request.status = 0
        self.close_connection = True

    def _refuse(self, request: Recorded, rule: Rule) -> None:
        """Answer in the API server's manner."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": rule.message}
        body = json.dumps({**status, "reason": rule.reason, "code": rule.status}).encode()
        self._answer(request, t.cast(int, rule.status), [("Content-Type", "application/json")], len(body), rule)
        if self.command != "HEAD":
            self.wfile.write(body)

    def _answer(
        self,
        request: Recorded,
        status: int,
        headers: t.Iterable[tuple[str, str]],
        length: int | None,
        rule: Rule | None = None,
    ) -> None:
        """The head of an answer; without a length the body follows in chunks."""
        request.status = status
        self.send_response_only(status)
        ahead = rule.ahead if rule is not None else None
        for name, value in headers:
            if ahead is None or name.lower() != "date":
                self.send_header(name, value)
        if ahead is not None:
            self.send_header("Date", email.utils.formatdate(time.time() + ahead, usegmt=True))
        if rule is not None and rule.retry_after is not None:
            self.send_header("Retry-After", str(rule.retry_after))
        framing = ("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))
        self.send_header(*framing)
        self.end_headers()

    def _pass_on(self, request: Recorded, rule: Rule | None) -> None:
        """Ask the server and hand its answer on as it comes."""
        cut = rule.cut if rule is not None else None
        own_credentials = "Authorization" in self.headers
        connection = self._connection(own_credentials)
        try:
            connection.putrequest(self.command, self.path, skip_accept_encoding=True)
            # Line by line, since names may repeat (impersonated groups).
            for name, value in self.headers.items():
                if name.lower() not in _NOT_PASSED_ON:
                    connection.putheader(name, value)
            if self.upstream.token and not own_credentials:
                connection.putheader("Authorization", f"Bearer {self.upstream.token}")
            connection.putheader("Content-Length", str(len(request.body)))
            connection.endheaders(request.body or None)
            answer = connection.getresponse()
            if cut == "after":
                answer.read()
                self._drop(request)
                return
            self._copy(request, answer, rule)
            if _is_read(answer) and not answer.will_close:
                answer.close()
                self._kept = own_credentials, connection
        except (OSError, http.client.HTTPException):
            self._drop(request)
        finally:
            if self._kept is None:
                connection.close()

    def _connection(self, own_credentials: bool) -> http.client.HTTPConnection:
        """The connection of the last request, or a new one if the server has closed it or others' credentials count."""
        kept, self._kept = self._kept, None
        if kept is not None and kept[0] == own_credentials and not select.select([kept[1].sock], [], [], 0)[0]:
            return kept[1]
        if kept is not None:
            kept[1].close()
        return self.upstream.open(own_credentials=own_credentials)

    def finish(self) -> None:
        """The connection to the server goes with the client's."""
        if self._kept is not None:
            self._kept[1].close()
        super().finish()

    def _copy(self, request: Recorded, answer: http.client.HTTPResponse, rule: Rule | None) -> None:
        """Write the answer on while it is read; watches come line by line."""
        cut = rule.cut if rule is not None else None
        length = None if answer.length is None or answer.chunked else answer.length
        headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _NOT_PASSED_ON]
        self._answer(request, answer.status, headers, length, rule)
        if self.command == "HEAD":
            return
        while chunk := answer.read1(65536):
            if cut == "inside":
                chunk = chunk[: len(chunk) // 2]
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n" if length is None else chunk)
            if cut == "inside":
                self._drop(request)
                return
        if length is None:
            self.wfile.write(b"0\r\n\r\n")


def _is_read(answer: http.client.HTTPResponse) -> bool:
    """Whether nothing of an answer is left to be read."""
    return answer.isclosed() or answer.length == 0


def _load(kubeconfig: str | Path | t.Mapping[str, t.Any]) -> t.Mapping[str, t.Any]:
    """A kubeconfig from its file, or as it was given."""
    if isinstance(kubeconfig, t.Mapping):
        return kubeconfig
    return t.cast("t.Mapping[str, t.Any]", yaml.safe_load(Path(kubeconfig).read_text(encoding="utf-8")))


def _named(config: t.Mapping[str, t.Any], section: str, name: str) -> t.Mapping[str, t.Any]:
    """The entry of that name in a section of a kubeconfig."""
    return next(entry for entry in config[section] if entry["name"] == name)
