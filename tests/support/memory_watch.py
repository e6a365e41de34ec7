# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Watches of the cluster in memory: what a connection brings, and everything that may go wrong with it."""

from __future__ import annotations

import dataclasses
import json
import typing as t
from urllib.parse import parse_qs, urlsplit

from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import place_of
from ansible_collections.muster.kube.tests.support.memory_cluster import ADMIN, Change, MemoryCluster, Object
from ansible_collections.muster.kube.tests.support.memory_selectors import field_selector, label_selector
from ansible_collections.muster.kube.tests.support.memory_wire import Line


class Selection:
    """Which changes a watch of a path with these selectors tells of, and as what."""

    def __init__(self, cluster: MemoryCluster, path: str, labels: str = "", fields: str = "") -> None:
        """Selectors as requests carry them."""
        place = place_of(path)
        assert place is not None
        self._plural, self._namespace = place.plural, place.namespace
        self._by_label = label_selector(labels)
        self._by_field = field_selector(fields, cluster.kinds[place.plural].fields)

    def event(self, change: Change) -> tuple[str, Object] | None:
        """Type and object of the event that a change makes; an object that leaves the selection is deleted from it."""
        home = change.object["metadata"].get("namespace")
        if change.plural != self._plural or self._namespace not in (None, home):
            return None
        before = change.before is not None and self._has(change.before)
        after = not change.gone and self._has(change.object)
        if not before and not after:
            return None
        kind = ("MODIFIED" if before else "ADDED") if after else "DELETED"
        shown = change.object if after or change.before is None else change.before
        # Also of what is deleted an event carries the version of the deletion.
        metadata = {**shown["metadata"], "resourceVersion": str(change.version)}
        return kind, {**shown, "metadata": metadata}

    def _has(self, obj: Object) -> bool:
        return self._by_label(obj["metadata"].get("labels") or {}) and self._by_field(obj)


@dataclasses.dataclass
class WatchFaults:
    """How watches go: late holds back so many of the newest changes; cuts say after how many lines connections break.

    oldest is the version that the server still knows; bookmarks come at the end of each connection unless they are
    lost. refusals are the statuses with which the next connections are answered.
    """

    late: int = 0
    cuts: list[int] = dataclasses.field(default_factory=list)
    oldest: int = 0
    bookmarks: bool = True
    refusals: list[int] = dataclasses.field(default_factory=list)


class WatchedLine(Line):
    """A line that serves watches: each brings what there is and calls at_end, so that nobody waits for more."""

    def __init__(self, cluster: MemoryCluster) -> None:
        """Nothing goes wrong."""
        super().__init__(cluster)
        self.watches = WatchFaults()
        self.at_end: t.Callable[[], None] = lambda: None
        self.opened: list[str] = []

    def client(self, user: str = ADMIN) -> KubeClient:
        """A client whose watches are served."""
        made = super().client(user)
        made._transport.stream = self._stream  # type: ignore[method-assign, assignment]
        return made

    def _stream(self, url: str, _headers: t.Mapping[str, str], _timeouts: tuple[float, float]) -> t.Any:
        """One connection."""
        self.opened.append(url)
        status = self.watches.refusals.pop(0) if self.watches.refusals else 200
        return _Connection(self, url, status)

    def seen(self) -> list[Change]:
        """The changes that watches may tell of by now."""
        history = self.cluster.history
        return history[: max(0, len(history) - self.watches.late)]


class _Connection:
    """The answer to one watch."""

    headers: t.Mapping[str, str] = {}

    def __init__(self, line: WatchedLine, url: str, status: int) -> None:
        self._line = line
        self.status = status
        address = urlsplit(url)
        self._query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        selectors = self._query.get("labelSelector", ""), self._query.get("fieldSelector", "")
        self._selection = Selection(line.cluster, address.path, *selectors)

    def read(self) -> bytes:
        """The body of a refusal."""
        return json.dumps({"kind": "Status", "code": self.status, "reason": "", "message": "by the test"}).encode()

    def lines(self) -> t.Iterator[bytes]:
        """Everything since the version asked for, until the connection breaks or nothing is left."""
        faults, version = self._line.watches, int(self._query["resourceVersion"])
        if version < faults.oldest:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            yield json.dumps({"type": "ERROR", "object": status}).encode()
            return
        cut = faults.cuts.pop(0) if faults.cuts else None
        for number, text in enumerate(self._texts(version)):
            if number == cut:
                yield text[: len(text) // 2]
                raise TransportFault("cut by the test", True)
            yield text
        if cut is not None:
            raise TransportFault("cut by the test", True)
        self._line.at_end()
        yield b""

    def _texts(self, version: int) -> t.Iterator[bytes]:
        """The lines of all events, and of the bookmark behind them."""
        changes = [change for change in self._line.seen() if change.version > version]
        for change in changes:
            event = self._selection.event(change)
            if event is not None:
                yield json.dumps({"type": event[0], "object": event[1]}).encode()
        if self._line.watches.bookmarks and changes:
            marked = {"metadata": {"resourceVersion": str(changes[-1].version)}}
            yield json.dumps({"type": "BOOKMARK", "object": marked}).encode()

    def abort(self) -> None:
        """Nobody waits in it."""

    def close(self) -> None:
        """Nothing is open."""
