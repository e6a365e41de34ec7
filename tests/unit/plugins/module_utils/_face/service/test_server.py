# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP server before a desk that answers at once: what callers of bad manners can do, and what they cannot."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import socket
import ssl
import threading
import typing as t

import pytest

pytest.importorskip("aiohttp")

from ansible_collections.muster.kube.plugins.module_utils._face.service import server
from ansible_collections.muster.kube.plugins.module_utils._face.service.options import (
    Bounds,
    ServiceOptions,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.desk import (
    Answered,
    Asked,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import (
    JOB_BODY,
    SMALL_BODY,
)
from ansible_collections.muster.kube.tests.support.http_service import (
    HttpCaller,
    read_all,
    served_desk,
)
from ansible_collections.muster.kube.tests.support.service_world import write_certificate

LONG = 3600.0
PUT = b"PUT /update_last_checkpoint HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-token\r\n"


class EchoDesk:
    """Tells what it was asked; what it is told to wait for it waits for."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False
        self.refuses: str | None = None

    def answer(self, asked: Asked) -> Answered:
        """Tell the route and the length of the body."""
        self.asked.append(asked)
        if asked.matched.route.work == "health":
            return Answered(200, {"status": "ok"})
        if self.fails:
            raise RuntimeError(f"with {asked.authorization}")
        if self.refuses is not None:
            return Answered(503, {"error": self.refuses})
        assert self.gate.wait(60)
        return Answered(200, {"work": asked.matched.route.work, "length": len(asked.body)})


@dataclasses.dataclass
class Served:
    desk: EchoDesk
    caller: HttpCaller
    lines: list[str]


@pytest.fixture(name="bounds")
def usual_bounds() -> Bounds:
    """Nobody is cut off."""
    return Bounds(header_seconds=LONG, body_seconds=LONG, work_seconds=LONG)


@pytest.fixture(name="served")
def a_server(bounds: Bounds) -> t.Iterator[Served]:
    """A server before a desk."""
    desk, lines = EchoDesk(), list[str]()
    with served_desk(desk, ServiceOptions("127.0.0.1", 0, bounds=bounds), lines) as port:
        yield Served(desk, HttpCaller(port), lines)
        desk.gate.set()
    assert not [line for line in lines if "secret-token" in line]


def test_a_request_reaches_the_desk_and_connections_are_kept(served: Served) -> None:
    kept = served.caller.connect()
    for _turn in range(3):
        answer = served.caller.ask("PUT", "/update_last_checkpoint", "x", {"a": 1}, kept)
        assert (answer.status, answer.body) == (200, {"work": "update_last_checkpoint", "length": 8})
    kept.close()
    assert served.desk.asked[0].authorization == "Bearer x"
    asked = served.caller.ask("DELETE", "/jobs?name=a&name=b%2Fc&namespace=", "x")
    assert asked.status == 200
    assert served.desk.asked[-1].query == {"name": ["a", "b/c"], "namespace": [""]}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/none", 404),
        ("GET", "/get_job", 404),
        ("GET", "/get_job/a/b", 404),
        ("GET", "/..%2fget_all_jobs", 404),
        ("POST", "/get_all_jobs", 405),
        ("PATCH", "/jobs", 405),
        ("GET", "/get_all_jobs?a=%ff", 400),
    ],
)
def test_what_is_not_served(served: Served, method: str, path: str, status: int) -> None:
    answer = served.caller.ask(method, path, "x")
    assert (answer.status, served.desk.asked) == (status, [])
    assert "error" in answer.body
    if status == 405:
        assert answer.headers["allow"] in ("GET", "POST, DELETE")


def test_nobody_without_a_token_sends_a_body(served: Served) -> None:
    answer = served.caller.ask("POST", "/jobs", None, b"{}")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="muster.kube"')
    assert served.desk.asked == []


@pytest.mark.parametrize(("path", "most"), [("/update_job", SMALL_BODY), ("/jobs", JOB_BODY)])
def test_a_body_that_is_too_long(served: Served, path: str, most: int) -> None:
    method = "POST" if path == "/jobs" else "PUT"
    assert served.caller.ask(method, path, "x", b" " * most).body["length"] == most
    assert served.caller.ask(method, path, "x", b" " * (most + 1)).status == 413
    # Nobody has to say how long it is.
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    )
    part = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
    opened = served.caller.raw(head)
    try:
        for _turn in range(most // 0x8000 + 2):
            opened.sendall(part)
    except OSError:
        # It was cut off already.
        pass
    assert b" 413 " in read_all(opened)[:40] or len(served.desk.asked) == 1
    assert len(served.desk.asked) == 1


@pytest.mark.parametrize(
    "headers", [{"Content_Type": "text/plain"}, {"Content_Encoding": "gzip"}, {"Content_Encoding": "deflate"}]
)
def test_a_body_of_another_kind(served: Served, headers: dict[str, str]) -> None:
    assert served.caller.ask("PUT", "/update_job", "x", b"{}", **headers).status == 415
    assert served.desk.asked == []


def test_a_client_that_waits_to_be_asked_for_its_body(served: Served) -> None:
    opened = served.caller.raw(PUT + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
    assert opened.recv(100).startswith(b"HTTP/1.1 100 ")
    opened.sendall(b"{}")
    assert opened.recv(100).startswith(b"HTTP/1.1 200 ")
    opened.close()


@pytest.mark.parametrize(
    "text",
    [
        b"\x16\x03\x01 no http\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nBad Header\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-token\r\nA: " + b"a" * 40_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        PUT + b"Content-Length: -1\r\n\r\n",
        PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        PUT + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_http(served: Served, text: bytes) -> None:
    answer = read_all(served.caller.raw(text))
    assert answer == b"" or (answer.startswith(b"HTTP/1.") and b" 400 " in answer[:20])
    assert served.desk.asked == []
    assert served.caller.ask("GET", "/healthz").status == 200


def test_a_fault_of_ours_is_told_without_what_was_sent(served: Served) -> None:
    served.desk.fails = True
    answer = served.caller.ask("GET", "/get_all_jobs", "secret-token")
    assert (answer.status, answer.body) == (500, {"error": "the service has a fault"})
    assert any("RuntimeError" in line for line in served.lines)


def test_what_others_named_writes_no_lines_of_its_own_into_the_log(served: Served) -> None:
    served.desk.refuses = "of \r\n2026 all is well\x1b[2J \x85\u2028\u202eé"
    assert served.caller.ask("GET", "/get_all_jobs", "x").body == {"error": served.desk.refuses}
    assert served.lines[-1] == "answered 503: of   2026 all is well [2J    é"


def test_the_same_failure_again_and_again_fills_no_log(served: Served) -> None:
    for cause in ("slow", "slow", "slow", "gone", "gone"):
        served.desk.refuses = cause
        assert served.caller.ask("GET", "/get_all_jobs", "x").status == 503
    assert served.lines[1:] == ["answered 503: slow", "answered 503: gone"]


def test_a_certificate_that_is_renewed_badly_leaves_the_one_before(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_CERTIFICATE_SECONDS", 0.02)
    files = tmp_path / "tls.crt", tmp_path / "tls.key"
    write_certificate(tmp_path)
    key, before, lines = files[1].read_bytes(), ssl.create_default_context(cafile=str(files[0])), list[str]()
    options = ServiceOptions("127.0.0.1", 0, certificate=str(files[0]), key=str(files[1]))
    with served_desk(EchoDesk(), options, lines) as port:
        write_certificate(tmp_path)
        # The key is that of the certificate before.
        files[1].write_bytes(key)
        count = len(lines)
        while not any("anew" in line for line in lines[count:]):
            threading.Event().wait(0.01)
        assert HttpCaller(port, before).ask("GET", "/healthz").status == 200
        write_certificate(tmp_path)
        after = ssl.create_default_context(cafile=str(files[0]))
        while not _is_served(HttpCaller(port, after)):
            pass


def _is_served(caller: HttpCaller) -> bool:
    """Whether the service has the certificate that a client trusts."""
    try:
        return caller.ask("GET", "/healthz").status == 200
    except ssl.SSLError:
        return False


class TestDeadlines:
    @pytest.fixture(name="bounds")
    def short(self) -> Bounds:
        """Whoever is slow is cut off soon."""
        return Bounds(header_seconds=0.5, body_seconds=0.5, work_seconds=LONG)

    def test_a_slow_head_is_cut_off_and_keeps_nobody_waiting(self, served: Served) -> None:
        slow = [served.caller.raw(b"GET /get_all_jobs HTTP/1.1\r\nHost: x\r\nA: ") for _turn in range(100)]
        assert served.caller.ask("GET", "/get_all_jobs", "x").status == 200
        for opened in slow:
            assert b" 200 " not in read_all(opened)

    def test_a_slow_head_after_a_first_request_too(self, served: Served) -> None:
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = read_all(served.caller.raw(request + b"GET /healthz HTTP/1.1\r\nA: "))
        assert answer.count(b"HTTP/1.1 200 ") == 1

    def test_a_slow_body_is_told_and_keeps_nobody_waiting(self, served: Served) -> None:
        slow = [served.caller.raw(PUT + b"Content-Length: 100\r\n\r\n{") for _turn in range(100)]
        assert served.caller.ask("PUT", "/update_last_checkpoint", "x", {}).status == 200
        for opened in slow:
            assert read_all(opened).startswith(b"HTTP/1.1 408 ")
        assert len(served.desk.asked) == 1

    def test_a_body_that_comes_drop_by_drop(self, served: Served) -> None:
        opened = served.caller.raw(PUT + b"Content-Length: 10000000\r\n\r\n")
        assert read_all(opened).startswith(b"HTTP/1.1 413 ")
        opened = served.caller.raw(PUT + b"Content-Length: 60000\r\n\r\n")
        try:
            while not _can_read(opened):
                opened.sendall(b" ")
        except OSError:
            pass
        assert read_all(opened)[:13] in (b"HTTP/1.1 408 ", b"")


def _can_read(opened: socket.socket) -> bool:
    """Whether something has come, waiting a moment for it."""
    opened.settimeout(0.02)
    try:
        opened.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return False
    finally:
        opened.settimeout(60)
    return True


class TestBounds:
    @pytest.fixture(name="bounds")
    def few(self) -> Bounds:
        """Two requests at a time, by one thread, on eight connections."""
        return Bounds(8, 2, 1, LONG, LONG, LONG)

    def test_too_many_requests_are_told_to_come_again_and_health_is_answered(self, served: Served) -> None:
        served.desk.gate.clear()
        waiting = [served.caller.raw(PUT + b"Content-Length: 2\r\n\r\n{}") for _turn in range(2)]
        while True:
            answer = served.caller.ask("GET", "/readyz")
            if answer.status == 503:
                break
        assert answer.headers["retry-after"] == "1"
        assert served.caller.ask("GET", "/healthz").status == 200
        served.desk.gate.set()
        for opened in waiting:
            assert opened.recv(100).startswith(b"HTTP/1.1 200 ")
            opened.close()

    def test_too_many_connections_wait_for_others_to_end(self, served: Served) -> None:
        held = [served.caller.raw() for _turn in range(8)]
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        last = served.caller.raw(request)
        for opened in held:
            opened.sendall(request)
            assert read_all(opened).startswith(b"HTTP/1.1 200 ")
        assert read_all(last).startswith(b"HTTP/1.1 200 ")


def test_what_is_under_way_is_answered_before_the_end() -> None:
    desk, lines, answers = EchoDesk(), list[str](), list[int]()
    desk.gate.clear()
    with served_desk(desk, ServiceOptions("127.0.0.1", 0), lines) as port:
        caller = HttpCaller(port)
        thread = threading.Thread(target=lambda: answers.append(caller.ask("GET", "/get_all_jobs", "x").status))
        thread.start()
        while not desk.asked:
            thread.join(0.01)
        threading.Timer(0.2, desk.gate.set).start()
    thread.join(60)
    assert answers == [200]
    assert lines[-1] == "ended"


def test_the_document_and_answers_are_json(served: Served) -> None:
    answer = served.caller.ask("GET", "/get_all_jobs", "x")
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["cache-control"] == "no-store"
    assert json.loads(json.dumps(answer.body)) == answer.body
