# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors of the cluster in memory: those of the product, told of changes in virtual time instead of by threads."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Mirror, Mirrors, Owed
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import Event
from ansible_collections.muster.kube.tests.support.memory_cluster import Change, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_watch import Selection


class WatchPace:
    """How long events of one process's watches take, in their order; while they are cut nothing comes."""

    def __init__(self, delay: float = 0.01) -> None:
        """So many seconds each, and no cut."""
        self.delay = delay
        self.cut_until = 0.0
        self._last = 0.0

    def due(self, now: float) -> float:
        """When an event of now arrives."""
        self._last = max(self._last, now + self.delay, self.cut_until)
        return self._last


class MemoryMirror(Mirror[t.Any]):
    """A mirror whose watch is the cluster itself."""

    cluster: MemoryCluster
    pace: WatchPace

    def start(self) -> None:
        """Hear of changes from now on; those that the list shows are no news."""
        selectors = self._query["labelSelector"] or "", self._query["fieldSelector"] or ""
        self._selection = Selection(self.cluster, self._path, *selectors)
        self.cluster.listeners.append(self._hear)

    def close(self) -> None:
        """Hear no more."""
        super().close()
        if self._followed:
            self.cluster.listeners.remove(self._hear)

    def pause(self, owed: Owed, seconds: float) -> None:
        """Let time pass."""
        self._client.sleep(min(seconds, 0.05))

    def _hear(self, change: Change) -> None:
        """Have the event of a change arrive in its time."""
        event = self._selection.event(change)
        if event is not None:
            clock = self.cluster.clock
            clock.after(self.pace.due(clock.now) - clock.now, lambda: self._arrive(change.version, Event(*event)))

    def _arrive(self, version: int, event: Event) -> None:
        """What an event comes to."""
        if self._over.is_set() or version <= int(self.table.version):
            return
        if self.table.apply(self.table.generation, event):
            self._ring()


def memory_mirrors(
    cluster: MemoryCluster,
    client: KubeClient,
    ring: t.Callable[[], None],
    pace: WatchPace | None = None,
    *,
    kind: type[MemoryMirror] = MemoryMirror,
    **more: t.Any,
) -> Mirrors:
    """Mirrors of this cluster, of another kind if need be, which may want to know more."""
    mirrors = Mirrors(client, ring)
    settings = {"cluster": cluster, "pace": pace or WatchPace(), **more}
    mirrors.mirror_type = type("PacedMirror", (kind,), settings)
    return mirrors
