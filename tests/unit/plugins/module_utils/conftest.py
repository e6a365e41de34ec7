# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stub of the wire: an HTTP server that answers by script, for faults a real API server does not make on demand."""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t
from collections import deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import pytest

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient

DATE = "Mon, 16 Nov 2026 04:00:00 GMT"


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: list[tuple[str, str]]
    body: t.Any


@dataclass
class Reply:
    """One scripted answer: a body, or chunks with an optional cut, or a cut connection instead of any answer."""

    body: t.Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    chunks: list[bytes] | None = None
    hold: threading.Event | None = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stub: Stub

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        address = urlsplit(self.path)
        seen = Seen(
            self.command,
            address.path,
            dict(parse_qsl(address.query)),
            list(self.headers.items()),
            json.loads(raw) if raw else None,
        )
        reply = self.stub.next_reply(seen)
        if reply.cut and reply.chunks is None:
            self.close_connection = True
            return
        with contextlib.suppress(OSError):
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body, separators=(",", ":")).encode()
        self.send_response_only(reply.status)
        self.send_header("Date", DATE)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header(
            *(("Content-Length", str(len(body))) if reply.chunks is None else ("Transfer-Encoding", "chunked"))
        )
        self.end_headers()
        if reply.chunks is None:
            self.wfile.write(body)
            return
        for chunk in reply.chunks:
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            self.wfile.flush()
        if reply.hold is not None:
            reply.hold.wait(30)
        if reply.cut:
            self.close_connection = True
        else:
            self.wfile.write(b"0\r\n\r\n")

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
        """Say nothing."""


class Stub:
    """The server, its script and what it saw. Answers of a path are used up in order; the last one stays."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._script: dict[tuple[str, str], deque[Reply]] = {}
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"stub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, method: str, path: str, *replies: Reply) -> None:
        self._script[(method, path)] = deque(replies)

    def next_reply(self, seen: Seen) -> Reply:
        with self._lock:
            self.seen.append(seen)
            replies = self._script.get((seen.method, seen.path))
            if not replies:
                return Reply(status_body(404, "NotFound", "not in the script"), 404)
            return replies.popleft() if len(replies) > 1 else replies[0]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def status_body(code: int, reason: str, message: str, **details: t.Any) -> dict[str, t.Any]:
    """A Status object as the API server writes it."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    return {**body, "details": details} if details else body


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@pytest.fixture
def stub() -> t.Iterator[Stub]:
    server = Stub()
    yield server
    server.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(stub: Stub, clock: Clock) -> t.Iterator[KubeClient]:
    # Not at the top: this file is loaded before the plugin that makes the collection importable.
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect

    made = connect({"host": stub.url, "api_key": "sesame"}, environ={}, sleep=clock.sleep, clock=clock)
    yield made
    made.close()


@pytest.fixture
def reply() -> type[Reply]:
    return Reply


@pytest.fixture
def fault() -> t.Callable[..., Reply]:
    """Makes an error answer with a Status body."""

    def make(
        code: int, reason: str = "", message: str = "no", headers: dict[str, str] | None = None, **details: t.Any
    ) -> Reply:
        return Reply(status_body(code, reason, message, **details), code, headers or {})

    return make
