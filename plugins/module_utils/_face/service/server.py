# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP server: connections, deadlines and bounds; what is asked is worked on in threads by the desk.

A slow caller costs a connection until a deadline and nothing else. Nothing that a caller sent is logged: it may hold a
token.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import functools
import json
import logging
import signal
import socket
import ssl
import traceback
import typing as t
from collections.abc import Callable
from urllib.parse import parse_qs

from ansible_collections.muster.kube.plugins.module_utils._face.service.options import Bounds, ServiceOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.desk import (
    Answered,
    Asked,
    Desk,
    refused,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.routes import (
    Matched,
    Route,
    match_route,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

try:
    from aiohttp import web
except ImportError:
    AIOHTTP_IMPORT_ERROR: str | None = traceback.format_exc()
else:
    AIOHTTP_IMPORT_ERROR = None

Say = Callable[[str], None]
_BACKLOG = 128
_LINE_BYTES = 8190
# A token may be long; all else is short.
_FIELD_BYTES = 16 * 1024
_LINGER_SECONDS = 2.0
_HANDSHAKE_SECONDS = 10.0
# Requests under way have so long once the service is told to end.
_FAREWELL_SECONDS = 20.0
_CERTIFICATE_SECONDS = 60.0
_MOST_PARAMETERS = 200
# Bytes a second at which a caller has to read an answer.
_SLOWEST = 50_000
_LONGEST_CAUSE = 500
# The same failure in a row is logged so often.
_SAME_SECONDS = 10.0
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_BUSY = {"Retry-After": "1"}


class _Watched(asyncio.Protocol):
    """A connection with a deadline that is set anew at each stage; the server's own protocol does the rest."""

    def __init__(self, inner: t.Any, first_seconds: float, over: Callable[[], None]) -> None:
        self._inner = inner
        self._first_seconds = first_seconds
        self._over = over
        self._timer: asyncio.TimerHandle | None = None
        self._transport: t.Any = None

    def allow(self, seconds: float) -> None:
        """From now on the connection may take so long until the next stage."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._transport.abort)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The head of the first request has to come in time."""
        self._transport = transport
        self.allow(self._first_seconds)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Nothing more comes."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        try:
            self._inner.connection_lost(exc)
        finally:
            self._over()

    def data_received(self, data: bytes) -> None:
        """Pass it on."""
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass it on."""
        return t.cast("bool | None", self._inner.eof_received())

    def pause_writing(self) -> None:
        """Pass it on."""
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Pass it on."""
        self._inner.resume_writing()


class HttpServer:
    """Serves a desk until it is told to end."""

    def __init__(self, desk: Desk, options: ServiceOptions, say: Say) -> None:
        """Nothing listens yet; say takes what is logged."""
        if AIOHTTP_IMPORT_ERROR is not None:
            raise MissingLibrary("aiohttp", AIOHTTP_IMPORT_ERROR)
        self._desk = desk
        self._options = options
        self._say = say
        self._bounds: Bounds = options.bounds
        self._working = 0
        # What failed last, and when it may be said again.
        self._failure = ("", 0.0)
        self._watched: dict[t.Any, _Watched] = {}
        self._opening: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()
        self._tls = _tls(options)
        self._pool = concurrent.futures.ThreadPoolExecutor(self._bounds.threads, "muster-http")
        quiet = logging.getLogger("muster.kube.http")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        self._server = web.Server(
            self._handle,
            access_log=None,
            logger=quiet,
            auto_decompress=False,
            keepalive_timeout=self._bounds.header_seconds,
            lingering_time=_LINGER_SECONDS,
            max_line_size=_LINE_BYTES,
            max_field_size=_FIELD_BYTES,
        )

    async def serve(self) -> None:
        """Listen, and serve until end() is called or the process is asked to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(ValueError, RuntimeError):
                loop.add_signal_handler(number, self.end)
        listener = await loop.run_in_executor(None, _listen, self._options)
        self._say(f"listening at port {listener.getsockname()[1]}, {'TLS' if self._tls else 'plain HTTP'}")
        tasks = [loop.create_task(self._accept(listener)), loop.create_task(self._renew())]
        await self._ended.wait()
        for task in tasks:
            task.cancel()
        listener.close()
        await self._farewell()
        self._say("ended")

    def end(self) -> None:
        """Take no more connections, finish what is under way, and end."""
        self._ended.set()

    async def _farewell(self) -> None:
        """Let requests under way be answered."""
        self._server.pre_shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL_SECONDS):
                while self._working:
                    await asyncio.sleep(0.05)
        await self._server.shutdown(1.0)
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _renew(self) -> None:
        """Take the certificate anew now and then: it is replaced before it ends."""
        while self._tls is not None:
            await asyncio.sleep(_CERTIFICATE_SECONDS)
            try:
                # What is in use stays whole: a certificate whose key is another's would leave it without any.
                self._tls = _tls(self._options)
            except BadInput:
                self._say("the certificate cannot be read anew; the one before is used on")

    # Connections.

    async def _accept(self, listener: socket.socket) -> None:
        """Take connections, as many at a time as may be, those included whose handshake is not done."""
        loop = asyncio.get_running_loop()
        free = asyncio.Semaphore(self._bounds.connections)
        while True:
            await free.acquire()
            try:
                connection, _address = await loop.sock_accept(listener)
            except OSError as error:
                free.release()
                self._say(f"a connection cannot be taken: {type(error).__name__}")
                await asyncio.sleep(0.1)
                continue
            task = loop.create_task(self._open(connection, _once(free.release)))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket, over: Callable[[], None]) -> None:
        """Begin a connection; one whose handshake fails is over."""
        inner = self._server()
        watched = _Watched(inner, self._bounds.header_seconds, functools.partial(self._lost, inner, over))
        self._watched[inner] = watched
        timeout = _HANDSHAKE_SECONDS if self._tls is not None else None
        try:
            connection.setblocking(False)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: watched, connection, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except (OSError, TimeoutError):
            connection.close()
            self._lost(inner, over)

    def _lost(self, inner: t.Any, over: Callable[[], None]) -> None:
        self._watched.pop(inner, None)
        over()

    # Requests.

    async def _handle(self, request: t.Any) -> t.Any:
        """One request, from its head to its answer."""
        watched = self._watched.get(request.protocol)
        if watched is not None:
            watched.allow(self._bounds.work_seconds)
        try:
            answered = await self._answer(request)
        except Declined as refusal:
            answered = refused(refusal)
        except BadInput as error:
            answered = refused(error)
        text = "" if request.method == "HEAD" else json.dumps(answered.body)
        response = web.Response(
            status=answered.status,
            text=text,
            headers={"Cache-Control": "no-store", **answered.headers},
            content_type="application/json",
        )
        if answered.status in (408, 413):
            response.force_close()
        if answered.status >= 500:
            self._say_failure(answered)
        if watched is not None:
            watched.allow(self._bounds.header_seconds + len(text) / _SLOWEST)
        return response

    def _say_failure(self, answered: Answered) -> None:
        """Log why something failed that was none of the caller's faults; that says nothing of the caller.

        Anybody can have it fail often where the service is busy, so the same in a row is said now and then.
        """
        cause = str(answered.body.get("error"))[:_LONGEST_CAUSE]
        # Names that others chose may be in it: they begin no line and hold no codes for terminals.
        plain = "".join(letter if letter.isprintable() else " " for letter in cause)
        words, now = f"answered {answered.status}: {plain}", asyncio.get_running_loop().time()
        if words != self._failure[0] or now >= self._failure[1]:
            self._failure = words, now + _SAME_SECONDS
            self._say(words)

    async def _answer(self, request: t.Any) -> Answered:
        """Have the desk answer; what needs no body is refused before one is read."""
        matched = match_route("GET" if request.method == "HEAD" else request.method, request.rel_url.raw_path)
        if not isinstance(matched, Matched):
            if matched.allowed:
                raise Declined(405, "this path has other methods", headers={"Allow": ", ".join(matched.allowed)})
            raise Declined(404, "there is no such path")
        query = _query(request.rel_url.raw_query_string)
        authorization = request.headers.get("Authorization")
        if not matched.route.open and authorization is None:
            raise Declined(401, "a bearer token is needed", headers={"WWW-Authenticate": 'Bearer realm="muster.kube"'})
        body = await self._body(request, matched.route)
        asked = Asked(matched, authorization, query, body)
        return self._answer_at_once(asked) or await self._work(asked)

    def _answer_at_once(self, asked: Asked) -> Answered | None:
        """The answer to what asks nobody else: whoever is busy lives all the same."""
        return self._desk.answer(asked) if asked.matched.route.work in ("health", "document") else None

    async def _work(self, asked: Asked) -> Answered:
        """The desk's answer, by one of the threads; 503 where too many wait already."""
        if self._working >= self._bounds.requests:
            raise Declined(503, "the service is busy; ask again", headers=_BUSY)
        self._working += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, self._answer_in_thread, asked)
        finally:
            self._working -= 1

    def _answer_in_thread(self, asked: Asked) -> Answered:
        """The desk's answer; of a fault of ours only the place is logged, since its words may hold what was sent."""
        try:
            return self._desk.answer(asked)
        except Exception as error:  # noqa: BLE001 - one request must not end the service
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self._say(f"a fault: {type(error).__name__} in {frame.filename.rpartition('/')[2]}:{frame.lineno}")
            return Answered(500, {"error": "the service has a fault"})

    async def _body(self, request: t.Any, route: Route) -> bytes:
        """The body, if it comes in time, is not too long, and of a kind that is read."""
        if not request.body_exists:
            return b""
        most = route.most if route.body is not None else 0
        if (request.content_length or 0) > most:
            raise Declined(413, f"the body may have {most} bytes")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Declined(415, "a body has to be sent as it is")
        if "json" not in request.headers.get("Content-Type", "application/json").lower():
            raise Declined(415, "a body has to be JSON")
        if request.headers.get("Expect", "").lower() == "100-continue":
            request.transport.write(_CONTINUE)
        try:
            async with asyncio.timeout(self._bounds.body_seconds):
                return await _read(request.content, most)
        except TimeoutError as error:
            raise Declined(408, "the body did not come in time") from error


async def _read(content: t.Any, most: int) -> bytes:
    """A body of at most so many bytes."""
    parts, size = [], 0
    async for part in content.iter_any():
        size += len(part)
        if size > most:
            raise Declined(413, f"the body may have {most} bytes")
        parts.append(part)
    return b"".join(parts)


def _query(text: str) -> dict[str, list[str]]:
    """The parameters behind the question mark."""
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS, errors="strict")
    except ValueError as error:
        raise BadInput("read", "query", "it makes no sense") from error


def _once(call: Callable[[], None]) -> Callable[[], None]:
    """A function that does something the first time only."""
    left = [call]

    def do() -> None:
        """Do it if it was not done."""
        if left:
            left.pop()()

    return do


def _tls(options: ServiceOptions) -> ssl.SSLContext | None:
    """What certificate and key make; None for plain HTTP."""
    if options.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        raise BadInput("read", f"the certificate {options.certificate} and its key", str(error)) from error
    return context


def _listen(options: ServiceOptions) -> socket.socket:
    """A socket that listens."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        listener = socket.create_server((options.host, options.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise BadInput("listen at", f"{options.host} port {options.port}", str(error)) from error
    listener.setblocking(False)
    return listener


def run_service(desk: Desk, options: ServiceOptions, say: Say) -> None:
    """Serve until the process is asked to end."""

    async def serve() -> None:
        """The server belongs to the loop that it is made in."""
        await HttpServer(desk, options, say).serve()

    asyncio.run(serve())
