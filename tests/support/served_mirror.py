# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mirrors that are served by connections, in virtual time, with trouble at exactly one event of one process.

The product's own code opens the connections, reads their lines and lists anew; the clock takes the place of its thread.
Each turn brings what there is. A connection that broke cannot be had again for a while.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.adapter import TransportFault
from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Owed
from ansible_collections.muster.kube.tests.support.memory_cluster import Change, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_mirror import MemoryMirror
from ansible_collections.muster.kube.tests.support.memory_watch import WatchedLine

Trouble = t.Literal["cut_before", "cut_after", "gone", "late", "unseen"]

# So long no connection can be had after one broke.
DOWN_SECONDS = 3.0
LATE_SECONDS = 10.0
# Long enough that a decision is due meanwhile, and shorter than a read waits for what its process wrote.
UNSEEN_SECONDS = 0.9


class Idle(Exception):
    """A connection has brought all that there is, and stays open."""


class Paused(Exception):
    """Whoever follows a collection waits before it goes on."""

    def __init__(self, seconds: float) -> None:
        """For so long."""
        super().__init__(seconds)
        self.seconds = seconds


def noun_of(change: Change) -> str:
    """What an object is to a dispatcher."""
    labels = change.object["metadata"].get("labels") or {}
    if change.plural == "configmaps":
        return "ticket" if "muster.kube/ticket" in labels else "record" if "muster.kube/record" in labels else "map"
    return change.plural.removesuffix("s")


class WatchTroubles:
    """What the mirrors of one process have heard of since it was armed, and what happens at one of these events."""

    def __init__(self) -> None:
        """Nothing happens before it is armed."""
        self.heard: list[str] = []
        self.trouble: Trouble | None = None
        self.number = 0
        self.strikes = lambda: None
        # Whether the event was met, and whether what was to come of it came.
        self.reached = False
        self.felt = False
        # How often a connection began where the server knew nothing any more.
        self.expired = 0
        self.mirrors: list[ServedMirror] = []
        self._armed = False
        self._version = 0

    def arm(self, trouble: Trouble | None, number: int, strikes: t.Callable[[], None]) -> None:
        """Count events from now on; strikes is called once at the chosen one."""
        self.trouble, self.number, self.strikes = trouble, number, strikes
        self.heard.clear()
        self._armed = True

    def silence(self, seconds: float) -> None:
        """Nothing more is told for a while."""
        for mirror in self.mirrors:
            mirror.served.silence = Silence(0, mirror.cluster.clock.now + seconds)
            mirror._again(seconds)

    def meet(self, mirror: ServedMirror, change: Change, kind: str) -> None:
        """A mirror is about to be told of a change; those that several mirrors are told of count once."""
        if not self._armed:
            return
        if change.version != self._version:
            self._version = change.version
            self.heard.append(f"{noun_of(change)} {kind}")
            if len(self.heard) == self.number:
                self.reached = True
                self.strikes()
        if self.trouble is not None and len(self.heard) == self.number:
            for concerned in list(self.mirrors) if self.trouble == "gone" else [mirror]:
                concerned.suffer(self.trouble, change.version)


@dataclasses.dataclass
class Silence:
    """From this version on nothing is told before a moment; where the connection broke, none can be had before it."""

    version: float = math.inf
    until: float = 0.0
    broken: bool = False
    # Whether the server knows nothing any more of what was not told.
    forgotten: bool = False


class ServedWatches(WatchedLine):
    """The way of one mirror's watch."""

    def __init__(self, cluster: MemoryCluster, troubles: WatchTroubles) -> None:
        """All is well; whoever waits gives the turn back."""
        super().__init__(cluster)
        self.troubles = troubles
        self.silence = Silence()
        self.wait = self._pause
        self.at_end = self._idle

    def _pause(self, seconds: float) -> None:
        raise Paused(seconds)

    def _idle(self) -> None:
        """The line goes quiet, or breaks."""
        if self.silence.broken and self.silenced():
            raise TransportFault("cut by the test", True)
        raise Idle

    def silenced(self) -> bool:
        """Whether some changes are not told now."""
        return self.cluster.clock.now < self.silence.until

    def seen(self) -> list[Change]:
        """What may be told by now."""
        history = super().seen()
        if not self.silenced():
            return history
        return [change for change in history if change.version < self.silence.version]

    def _stream(self, url: str, headers: t.Mapping[str, str], timeouts: tuple[float, float]) -> t.Any:
        """One connection; the first one after a gap begins where the server knows nothing any more."""
        silence = self.silence
        self.watches.oldest = 0
        if silence.forgotten and not self.silenced():
            silence.forgotten = False
            self.watches.oldest = self.cluster.version + 1
            self.troubles.expired += 1
        return super()._stream(url, headers, timeouts)


class ServedMirror(MemoryMirror):
    """A mirror whose watch is a connection to the cluster."""

    troubles: WatchTroubles

    def start(self) -> None:
        """Open the first connection; the thread's turns come with the changes."""
        self.served = ServedWatches(self.cluster, self.troubles)
        self._watcher = self.served.client()
        self.troubles.mirrors.append(self)
        super().start()
        self.turn()

    def close(self) -> None:
        """Hear no more."""
        super().close()
        if self in self.troubles.mirrors:
            self.troubles.mirrors.remove(self)

    def suffer(self, trouble: Trouble, version: int) -> None:
        """Have the trouble at the change of this version."""
        now = self.cluster.clock.now
        if trouble in ("late", "unseen"):
            seconds = LATE_SECONDS if trouble == "late" else UNSEEN_SECONDS
            self.served.silence = Silence(version, now + seconds)
            self._again(seconds)
            return
        first = version + 1 if trouble == "cut_after" else version
        self.served.silence = Silence(first, now + DOWN_SECONDS, broken=True, forgotten=trouble == "gone")
        # Without bookmarks a version grows old although nothing was missed.
        self.served.watches.bookmarks = trouble != "gone"
        self._again(self.pace.delay)

    def pause(self, owed: Owed, seconds: float) -> None:
        """Let time pass; what this process wrote is not shown yet."""
        if self.served.silenced() and owed.uids:
            self.troubles.felt = True
        super().pause(owed, seconds)

    def turn(self) -> None:
        """Go on as the thread would until there is nothing more or it waits."""
        if self._over.is_set():
            return
        if self._lists.locked():
            self._again(self.pace.delay)
            return
        reader, self._client = self._client, self._watcher
        try:
            self.follow()
        except Idle:
            pass
        except Paused as pause:
            self._again(pause.seconds)
        finally:
            self._client = reader

    def _again(self, seconds: float) -> None:
        """The next turn."""
        self.cluster.clock.after(seconds, self.turn)

    def _hear(self, change: Change) -> None:
        """Have the event of a change arrive in its time, unless something happens to it."""
        event = self._selection.event(change)
        if event is not None:
            self.troubles.meet(self, change, event[0])
            self._again(self.pace.due(self.cluster.clock.now) - self.cluster.clock.now)
