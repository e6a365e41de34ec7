# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One client per cluster: raw requests with retries for reads, and a count of everything that was sent."""

from __future__ import annotations

import contextlib
import copy
import datetime
import email.utils
import json
import threading
import time
import typing as t
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import (
    Stream,
    Transport,
    TransportFault,
    open_transport,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.clock_readings import ClockReadings
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    ApiError,
    KubeError,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    error_from_response,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import describe_request
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

T = t.TypeVar("T")
Query = t.Mapping[str, t.Any]
# Hears of a write once it is over: its method, its path, and the answer, None when nobody knows what became of it.
WriteListener = t.Callable[[str, str, "Response | None"], None]

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 60.0
_RETRIED_FAULTS = (500, 502, 503, 504)
# Questions about rights and users are sent as POST and change nothing.
_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a request is tried: the number of tries, the first pause (doubled each time), and an end."""

    tries: int = 5
    first_pause: float = 0.2
    longest_pause: float = 5.0
    total_seconds: float = 30.0

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in a row."""
        return min(self.first_pause * 2.0 ** min(failures - 1, 60), self.longest_pause)


@dataclass(slots=True)
class Response:
    """A whole answer; the body is decoded only when asked for, and once."""

    status: int
    headers: t.Mapping[str, str]
    body: bytes
    # What the body says, once somebody has read it.
    decoded: t.Any = None

    def json(self) -> t.Any:
        """The decoded body, None when there is none."""
        if self.decoded is None and self.body:
            self.decoded = json.loads(self.body)
        return self.decoded


class _Shared:
    """What a client and those that act as others through it have in common."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.writes = 0
        self.dry_runs = 0
        self.closed = False
        self.discovered: dict[str, t.Any] = {}
        self.streams: set[Stream] = set()
        self.server_time: datetime.datetime | None = None
        self.readings = ClockReadings()
        self.listeners: tuple[WriteListener, ...] = ()


class KubeClient:
    """The connection to one cluster; may be used by many threads at once."""

    def __init__(
        self,
        transport: Transport,
        *,
        retry: RetryPolicy | None = None,
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with all counts at zero; sleep and clock can be replaced so that tests need not wait."""
        self.retry = retry or RetryPolicy()
        self.sleep = sleep
        self.clock = clock
        self._transport = transport
        self._shared = _Shared()
        self._guard: t.Callable[[], None] | None = None
        # On a loopback connection compressing costs both sides more than it saves.
        local = urlsplit(transport.base_url).hostname in _LOOPBACK
        self._encoding = {} if local else {"Accept-Encoding": "gzip"}

    @property
    def host(self) -> str:
        """The address of the API server."""
        return self._transport.base_url

    @property
    def requests(self) -> Counter[str]:
        """Requests sent so far, by method."""
        return self._shared.requests

    @property
    def writes(self) -> int:
        """Requests sent that can have changed the cluster."""
        return self._shared.writes

    @property
    def dry_runs(self) -> int:
        """Writes sent that the server was asked only to pretend."""
        return self._shared.dry_runs

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._shared.closed

    @property
    def discovered(self) -> dict[str, t.Any]:
        """What is known about the kinds the server serves, by group version."""
        return self._shared.discovered

    def acting_as(self, user: str, groups: t.Sequence[str] = ()) -> KubeClient:
        """A client that does everything in this user's name; connections, counts and discovery stay shared."""
        other = copy.copy(self)
        other._transport = self._transport.acting_as(user, groups)
        return other

    def bearing(self, token: str) -> KubeClient:
        """A client that does everything with somebody's token and no credential of ours; counts stay shared."""
        other = copy.copy(self)
        other._transport = self._transport.bearing(token)
        return other

    def guarded(self, check: t.Callable[[], None]) -> KubeClient:
        """A client that calls this before each write and after each pause; what it raises ends the work.

        Dry runs and reviews change nothing and are not checked. Connections, counts and discovery stay shared.
        """
        other = copy.copy(self)

        def pause(seconds: float) -> None:
            """Wait, then look whether there is anything left to do."""
            self.sleep(seconds)
            check()

        other.sleep = pause
        other._guard = check
        return other

    @property
    def guard(self) -> t.Callable[[], None] | None:
        """What is called before each write, for a program that writes for us."""
        return self._guard

    def kubeconfig(self) -> dict[str, t.Any]:
        """A kubeconfig for a program that is to act for us; it holds credentials, so it belongs into a private file."""
        try:
            return self._transport.kubeconfig()
        except TransportFault as fault:
            raise self._unreachable("write", "a kubeconfig", fault) from fault
        except OSError as error:
            raise MusterError("write", "a kubeconfig", str(error)) from error

    @property
    def server_time(self) -> datetime.datetime | None:
        """The server's clock at its last successful answer; None before the first. It may be wrong, see readings."""
        return self._shared.server_time

    @property
    def readings(self) -> ClockReadings:
        """The server's clock as all successful answers so far showed it."""
        return self._shared.readings

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: t.Any = None,
        content_type: str | None = None,
        timeout: float | None = None,
        read_retries: bool = True,
        target: str | None = None,
        accept: str = "application/json",
    ) -> Response:
        """Send until there is an answer worth returning; errors name the action and the target.

        A GET, a review or a dry run is tried again after 429, server faults and lost connections. A write may have
        happened although its answer was lost, so it is tried again only after 429 with Retry-After, by which the server
        refused it unseen.
        """
        url = f"{path}?{urlencode(_present(query))}" if query else path
        payload = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = {"Accept": accept, "User-Agent": "muster.kube", **self._encoding}
        if payload is not None:
            headers["Content-Type"] = content_type or "application/json"
        limits = (min(timeout or _CONNECT_SECONDS, _CONNECT_SECONDS), timeout or _READ_SECONDS)
        pretended = query is not None and query.get("dryRun") == "All"
        review = path.startswith(_REVIEWS)
        reading = pretended or review or method == "GET"

        def words() -> tuple[str, str]:
            """The action and the target."""
            action, described = describe_request(method, path, query)
            return action, target or described

        def once() -> Response:
            """One try."""
            if self._guard is not None and not reading:
                self._guard()
            self._count(method, pretended=pretended, review=review)
            sent = self.clock()
            try:
                answer = Response(*self._transport.send(method, url, headers, payload, limits))
            except TransportFault as fault:
                raise self._unreachable(*words(), fault) from fault
            if answer.status >= 300:
                raise self._error(*words(), answer)
            self._note_date(answer.headers, sent)
            return answer

        if reading or not self._shared.listeners:
            return self._retrying(once, reading=reading, enabled=read_retries)
        return self._telling(method, path, lambda: self._retrying(once, reading=False, enabled=read_retries))

    def listen(self, listener: WriteListener) -> t.Callable[[], None]:
        """Have a listener hear of every write from now on, whoever it is made as; returns what ends that."""
        with self._shared.lock:
            self._shared.listeners = (*self._shared.listeners, listener)

        def stop() -> None:
            with self._shared.lock:
                self._shared.listeners = tuple(item for item in self._shared.listeners if item != listener)

        return stop

    def _telling(self, method: str, path: str, send: t.Callable[[], Response]) -> Response:
        """Send a write and tell the listeners what became of it; one that was refused changed nothing."""
        try:
            answer = send()
        except (Unreachable, ServerFault):
            self._tell(method, path, None)
            raise
        self._tell(method, path, answer)
        return answer

    def _tell(self, method: str, path: str, answer: Response | None) -> None:
        for listener in self._shared.listeners:
            listener(method, path, answer)

    def open_stream(self, path: str, query: Query, read_timeout: float) -> Stream:
        """One GET whose body comes line by line (a watch); an error answer is raised; nothing is retried."""
        action, target = describe_request("GET", path, query)
        self._count("GET")
        headers = {"Accept": "application/json", "User-Agent": "muster.kube"}
        sent = self.clock()
        try:
            stream = self._transport.stream(
                f"{path}?{urlencode(_present(query))}", headers, (_CONNECT_SECONDS, read_timeout)
            )
            if stream.status >= 300:
                raise self._error(action, target, Response(stream.status, stream.headers, stream.read()))
        except TransportFault as fault:
            raise self._unreachable(action, target, fault) from fault
        self._note_date(stream.headers, sent)
        return stream

    @contextlib.contextmanager
    def streaming(self, path: str, query: Query, read_timeout: float) -> t.Iterator[Stream]:
        """A stream that close() of the client can end, given up when the block is left."""
        stream = self.open_stream(path, query, read_timeout)
        with self._shared.lock:
            self._shared.streams.add(stream)
        try:
            if self.closed:
                stream.abort()
            yield stream
        finally:
            with self._shared.lock:
                self._shared.streams.discard(stream)
            stream.close()

    def close(self) -> None:
        """End every running stream, so that threads blocked in a watch return, and drop idle connections."""
        with self._shared.lock:
            self._shared.closed = True
            streams = list(self._shared.streams)
        for stream in streams:
            stream.abort()
        self._transport.close()

    def _retrying(self, once: t.Callable[[], Response], *, reading: bool, enabled: bool) -> Response:
        """Call until it succeeds, the error is final, or tries or time are used up."""
        end = self.clock() + self.retry.total_seconds
        failures = 0
        while True:
            try:
                return once()
            except (ApiError, Unreachable) as error:
                failures += 1
                pause = self._pause_after(error, failures, reading=reading)
                if not enabled or pause is None or failures >= self.retry.tries or self.clock() + pause > end:
                    raise
                self.sleep(pause)

    def _pause_after(self, error: KubeError, failures: int, *, reading: bool) -> float | None:
        """Seconds to wait before the same request may be sent again; None when it must not."""
        if isinstance(error, TooManyRequests):
            if error.retry_after is not None:
                return max(error.retry_after, self.retry.pause(failures))
            return self.retry.pause(failures) if reading else None
        if not reading:
            return None
        if isinstance(error, ServerFault):
            if error.status not in _RETRIED_FAULTS:
                return None
            return max(error.retry_after or 0.0, self.retry.pause(failures))
        return self.retry.pause(failures) if isinstance(error, Unreachable) and error.retryable else None

    def _count(self, method: str, *, pretended: bool = False, review: bool = False) -> None:
        """Note one request before it leaves; each further try counts again."""
        with self._shared.lock:
            self._shared.requests[method] += 1
            if method not in ("GET", "HEAD") and not review:
                if pretended:
                    self._shared.dry_runs += 1
                else:
                    self._shared.writes += 1

    def _note_date(self, headers: t.Mapping[str, str], sent: float) -> None:
        """Keep the clock reading of a success; an error may come from a gateway with another clock."""
        try:
            shown = email.utils.parsedate_to_datetime(headers.get("Date") or "")
        except ValueError:
            return
        self._shared.server_time = shown
        self._shared.readings.add(shown.timestamp(), sent, self.clock())

    def _error(self, action: str, target: str, answer: Response) -> ApiError:
        """The family's error for an answer that is not a success; refused credentials are named."""
        text = (answer.headers.get("Retry-After") or "").strip()
        seconds = float(text) if text.isdecimal() else None
        error = error_from_response(action, target, answer.status, answer.body, seconds)
        if not isinstance(error, Unauthorized):
            return error
        message = f"{self.host} does not accept {self._transport.credentials_in_words()}"
        return Unauthorized(action, target, status=error.status, reason=error.reason, message=message)

    def _unreachable(self, action: str, target: str, fault: TransportFault) -> Unreachable:
        return Unreachable(action, target, f"no answer from {self.host}: {fault.cause}", fault.retryable)


# Opens a client when it is needed.
Connect = t.Callable[[], KubeClient]


def _present(query: Query | None) -> list[tuple[str, str]]:
    """The query parameters that have a value, in the words of the API."""
    words = {True: "true", False: "false"}
    pairs = (query or {}).items()
    return [
        (name, words[value] if isinstance(value, bool) else str(value)) for name, value in pairs if value is not None
    ]


def connect(
    auth: t.Mapping[str, t.Any],
    *,
    environ: t.Mapping[str, str] | None = None,
    retry: RetryPolicy | None = None,
    sleep: t.Callable[[float], None] = time.sleep,
    clock: t.Callable[[], float] = time.monotonic,
) -> KubeClient:
    """A client for the connection options of kubernetes.core; nothing is sent before the first request."""
    return KubeClient(open_transport(auth, environ), retry=retry, sleep=sleep, clock=clock)


def parallel(calls: t.Iterable[t.Callable[[], T]], width: int = 8) -> list[T]:
    """Run the calls in at most so many threads; results in order, the first error raised after all finished."""
    work = list(calls)
    if len(work) <= 1:
        return [call() for call in work]
    with ThreadPoolExecutor(max_workers=min(width, len(work)), thread_name_prefix="muster-kube") as pool:
        futures = [pool.submit(call) for call in work]
    return [future.result() for future in futures]
