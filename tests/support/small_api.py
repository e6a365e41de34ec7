# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A very small API server: lists and single objects from a dictionary, over real HTTP, read only."""

from __future__ import annotations

import contextlib
import json
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient


class SmallApi:
    """Objects by path of their collection; paths in forbidden answer 403, unknown ones 404."""

    def __init__(self, lists: dict[str, list[dict[str, t.Any]]], forbidden: t.Collection[str] = ()) -> None:
        """What to serve."""
        self.lists = lists
        self.forbidden = set(forbidden)
        self.asked: list[tuple[str, str]] = []

    def answer(self, method: str, path: str) -> tuple[int, dict[str, t.Any]]:
        """Status and body for one request."""
        self.asked.append((method, path))
        if path in self.forbidden:
            return 403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": f"no {path}"}
        if path in self.lists:
            return 200, {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": self.lists[path]}
        collection, _slash, name = path.rpartition("/")
        for item in self.lists.get(collection, ()):
            if item["metadata"]["name"] == name:
                return 200, item
        return 404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": f"no {path}"}

    @contextlib.contextmanager
    def client(self) -> t.Iterator[KubeClient]:
        """A client of this server, which serves as long as the block lasts."""
        from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect

        handler = type("Handler", (_Handler,), {"api": self})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        made = connect({"host": f"http://127.0.0.1:{server.server_address[1]}", "api_key": "sesame"}, environ={})
        try:
            yield made
        finally:
            made.close()
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    """Answers from the dictionary."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    api: SmallApi

    def _serve(self) -> None:
        """One request."""
        status, body = self.api.answer(self.command, urlsplit(self.path).path)
        raw = json.dumps(body, separators=(",", ":")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
        """Say nothing."""
