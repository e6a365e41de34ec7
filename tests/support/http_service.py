# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The HTTP service in a thread of the test, and what clients of all manners send it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import json
import queue
import socket
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._face.service.options import ServiceOptions
from ansible_collections.muster.kube.plugins.module_utils._face.service.server import HttpServer

# Only a hang takes so long.
PATIENCE = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer as a client sees it."""

    status: int
    body: t.Any
    headers: t.Mapping[str, str]


class HttpCaller:
    """A client of the service at an address."""

    def __init__(self, port: int, context: t.Any = None) -> None:
        """With a context the service is asked by TLS."""
        self.port = port
        self._context = context

    def connect(self) -> http.client.HTTPConnection:
        """A connection that may be used several times."""
        if self._context is not None:
            return http.client.HTTPSConnection("localhost", self.port, timeout=PATIENCE, context=self._context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self,
        method: str,
        path: str,
        token: str | None = None,
        body: t.Any = None,
        connection: http.client.HTTPConnection | None = None,
        **headers: str,
    ) -> HttpAnswer:
        """One request, on a connection of its own if none is given."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        if body is not None:
            given.setdefault("Content-Type", "application/json")
        text = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        used = connection or self.connect()
        try:
            used.request(method, path, body=text, headers=given)
            answer = used.getresponse()
            raw = answer.read()
        finally:
            if connection is None:
                used.close()
        told = json.loads(raw) if raw else None
        return HttpAnswer(answer.status, told, {key.lower(): value for key, value in answer.getheaders()})

    def raw(self, *parts: bytes) -> socket.socket:
        """A connection on which something was sent that need not be HTTP."""
        opened = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        for part in parts:
            opened.sendall(part)
        return opened


def read_all(opened: socket.socket) -> bytes:
    """What comes until the other side closes; an empty text where it just cuts."""
    parts = []
    with opened, contextlib.suppress(ConnectionError):
        while part := opened.recv(65536):
            parts.append(part)
    return b"".join(parts)


@contextlib.contextmanager
def served_desk(desk: t.Any, options: ServiceOptions, lines: list[str]) -> t.Iterator[int]:
    """A desk that is served as long as the block lasts; its port."""
    ports: queue.Queue[int] = queue.Queue()
    made: list[tuple[HttpServer, asyncio.AbstractEventLoop]] = []

    def say(words: str) -> None:
        """Keep what is logged, and hear at which port it listens."""
        lines.append(words)
        if words.startswith("listening at port "):
            ports.put(int(words.split()[3].rstrip(",")))

    async def serve() -> None:
        """The server belongs to the loop of its thread."""
        server = HttpServer(desk, options, say)
        made.append((server, asyncio.get_running_loop()))
        await server.serve()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield ports.get(timeout=PATIENCE)
    finally:
        for server, loop in made:
            loop.call_soon_threadsafe(server.end)
        thread.join(PATIENCE)
        assert not thread.is_alive()
