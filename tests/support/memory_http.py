# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster in memory over real HTTP, for programs that are no part of the collection."""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ansible_collections.muster.kube.tests.support.memory_cluster import MemoryCluster


class HttpCluster:
    """Serves a cluster to those whose token is known; asked are method, path and user of each request."""

    def __init__(self, cluster: MemoryCluster, users: t.Mapping[str, str]) -> None:
        """Users are the names behind tokens."""
        self.cluster, self.users = cluster, users
        self.asked: list[tuple[str, str, str]] = []
        # Answers that take the place of the cluster's, one after the other.
        self.instead: list[tuple[int, bytes]] = []
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, headers: t.Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to one request."""
        user = self.users.get(headers.get("Authorization", "").removeprefix("Bearer "))
        with self._lock:
            self.asked.append((method, path, user or ""))
            if self.instead:
                return self.instead.pop(0)
            if user is None:
                return 401, b'{"kind": "Status", "code": 401}'
            status, text = self.cluster.answer(
                method, path, json.loads(body) if body else None, user, headers.get("Content-Type", "")
            )
        return status, text.encode()

    @contextlib.contextmanager
    def served(self) -> t.Iterator[str]:
        """The address at which it is served as long as the block lasts."""
        handler = type("Handler", (_ClusterHandler,), {"served": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()


class _ClusterHandler(BaseHTTPRequestHandler):
    """Answers from the cluster, with its date."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    served: HttpCluster

    def _serve(self) -> None:
        """One request."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, raw = self.served.answer(self.command, self.path, self.headers, body)
        self.send_response_only(status)
        self.send_header("Date", self.served.cluster.date())
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
        """Say nothing."""
