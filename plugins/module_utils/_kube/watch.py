# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following a collection: watches that go on after a lost connection, and lists kept up to date by them."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import Stream, TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Gone,
    KubeError,
    ServerFault,
    TooManyRequests,
    Unreachable,
    error_from_status,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import describe_request
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import decode_text, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object

T = t.TypeVar("T")

# One connection is asked to last so long, shorter when the caller's time ends before.
_CONNECTION_SECONDS = 240.0
# A connection that brought nothing and ended sooner than this is followed by a pause.
_QUICK_END_SECONDS = 1.0
# The server ends a watch in time; when it does not, the connection is dead.
_GRACE_SECONDS = 15.0
# Servers send a bookmark every minute; a connection that was silent for two of them and a little is dead.
BOOKMARK_SECONDS = 60.0
_SILENCE_SECONDS = 2 * BOOKMARK_SECONDS + 10.0
_MAX_FAILURES = 10


@dataclass(frozen=True, slots=True)
class Event:
    """One change: ADDED, MODIFIED or DELETED, and the object as it is after it (before it, when deleted).

    Whoever asks for all that happens also gets BOOKMARK, with nothing but a version, OPENED when a connection stands
    and LOST when one could not be had or was cut; these two have no object.
    """

    type: str
    object: Object


@dataclass(frozen=True, slots=True)
class WatchStep(t.Generic[T]):
    """One step of list_and_watch: SYNC brings all items, any other type one object.

    item is what keep made of the object; None when the object is not (or no longer) wanted.
    """

    type: str
    items: tuple[T, ...] = ()
    item: T | None = None
    namespace: str = ""
    name: str = ""


class Watch:
    """The state that outlives connections: where to go on, and how often it failed in a row."""

    def __init__(
        self,
        client: KubeClient,
        path: str,
        resource_version: str,
        query: Object,
        timeout: float | None = None,
        stop: t.Callable[[], bool] | None = None,
        *,
        everything: bool = False,
    ) -> None:
        """Nothing is asked yet; with everything the events tell of bookmarks and connections too."""
        self.client = client
        self.path = path
        self.resource_version = resource_version
        self.query = query
        self.end = None if timeout is None else client.clock() + timeout
        self.stop = stop
        self.everything = everything
        self.failures = 0
        self.opened: float | None = None
        self._stream: Stream | None = None

    def abort(self) -> None:
        """End the present connection, from another thread; whether another one follows is for stop to say."""
        stream = self._stream
        if stream is not None:
            stream.abort()

    def finished(self) -> bool:
        """True when the caller wants no more or the time is over."""
        if self.client.closed or (self.stop is not None and self.stop()):
            return True
        return self.end is not None and self.client.clock() >= self.end

    def events(self) -> t.Iterator[Event]:
        """All changes over as many connections as it takes."""
        while not self.finished():
            self.opened = None
            error: KubeError | None = None
            try:
                yield from self._connection()
            except (Unreachable, ServerFault, TooManyRequests) as caught:
                error = caught
            if self._lasted():
                self.failures = 0
            if error is not None or not self._lasted():
                if self.everything and not self.finished():
                    yield Event("LOST", {})
                self._failed(error)

    def _lasted(self) -> bool:
        """True when the last connection was of use: it brought a line or stayed open for a while."""
        return self.opened is not None and self.client.clock() - self.opened >= _QUICK_END_SECONDS

    def _connection(self) -> t.Iterator[Event]:
        """The changes one connection brings until either side ends it."""
        seconds = _CONNECTION_SECONDS
        if self.end is not None:
            seconds = max(1.0, min(seconds, self.end - self.client.clock()))
        query = {
            **self.query,
            "watch": True,
            "allowWatchBookmarks": True,
            "resourceVersion": self.resource_version,
            "timeoutSeconds": int(seconds),
        }
        with self.client.streaming(self.path, query, min(seconds + _GRACE_SECONDS, _SILENCE_SECONDS)) as stream:
            self.opened = self.client.clock()
            self._stream = stream
            if self.everything:
                yield Event("OPENED", {})
            try:
                for line in stream.lines():
                    event = self._read(line)
                    if event is not None:
                        yield event
                    if self.finished():
                        return
            except TransportFault as fault:
                action, target = describe_request("GET", self.path, query)
                raise Unreachable(action, target, f"the connection was lost: {fault.cause}") from fault
            finally:
                self._stream = None

    def _read(self, line: bytes) -> Event | None:
        """One line of the stream; bookmarks and cut lines bring no event, an error event is raised."""
        try:
            event = decode_text(self.path, line)
        except ValueError:
            # The last line before a lost connection may be half a line; the change comes again.
            return None
        changed: Object = event["object"]
        if event["type"] == "ERROR":
            action, target = describe_request("GET", self.path, {"watch": True})
            raise error_from_status(action, target, int(changed.get("code") or 500), changed)
        self.resource_version = changed["metadata"]["resourceVersion"]
        self.failures = 0
        self.opened = -math.inf
        if event["type"] == "BOOKMARK" and not self.everything:
            return None
        return Event(event["type"], changed)

    def _failed(self, error: KubeError | None) -> None:
        """Pause before the next connection, longer each time; too many failures in a row are the caller's."""
        if self.finished():
            return
        self.failures += 1
        hopeless = isinstance(error, Unreachable) and not error.retryable
        if error is not None and (hopeless or self.failures >= _MAX_FAILURES):
            raise error
        asked = getattr(error, "retry_after", None) or 0.0
        pause = max(asked, self.client.retry.pause(self.failures))
        if self.end is not None:
            pause = min(pause, max(0.0, self.end - self.client.clock()))
        self.client.sleep(pause)


def watch(
    client: KubeClient,
    path: str,
    resource_version: str,
    *,
    timeout: float | None = None,
    stop: t.Callable[[], bool] | None = None,
    label_selector: str | None = None,
    field_selector: str | None = None,
) -> t.Iterator[Event]:
    """Changes after a resource version, until the time is over, stop says so, or the client is closed.

    A lost connection or a server time-out is followed by a new connection from the last resource version seen. Gone is
    raised when the server no longer knows that version: list again. stop is asked after every line and
    before every connection; closing the client ends a watch that waits for a line.
    """
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return Watch(client, path, resource_version, query, timeout, stop).events()


def list_and_watch(
    client: KubeClient,
    path: str,
    keep: t.Callable[[Object], T | None],
    *,
    timeout: float | None = None,
    stop: t.Callable[[], bool] | None = None,
    limit: int = 500,
    label_selector: str | None = None,
    field_selector: str | None = None,
) -> t.Iterator[WatchStep[T]]:
    """A SYNC with all items, then every change; after a gap that cannot be closed, SYNC again."""
    end = None if timeout is None else client.clock() + timeout
    selectors = {"label_selector": label_selector, "field_selector": field_selector}
    gaps = 0
    while True:
        listing = list_objects(client, path, keep=keep, limit=limit, **selectors)
        yield WatchStep("SYNC", items=tuple(listing.items))
        left = None if end is None else end - client.clock()
        try:
            for event in watch(client, path, listing.resource_version, timeout=left, stop=stop, **selectors):
                gaps = 0
                metadata = event.object["metadata"]
                yield WatchStep(
                    event.type,
                    item=keep(event.object),
                    namespace=metadata.get("namespace", ""),
                    name=metadata["name"],
                )
            return
        except Gone:
            gaps += 1
            client.sleep(client.retry.pause(gaps))
