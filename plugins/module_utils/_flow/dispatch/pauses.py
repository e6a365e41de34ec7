# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records that give trouble, or have to be waited for: when each may be tried again, so that none makes a hot loop."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

# After trouble: this long, then twice as long each time, up to the most.
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
# What is merely waited for is looked at again after a share of the time it has taken so far, at least after so long.
SHORTEST_LOOK = 0.2
_LOOK_SHARE = 0.25
# So many failed writes in a row are no passing trouble.
MANY_TROUBLES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """One record's pause: until when, since when it is waited for, how often there was trouble, and why."""

    until: float
    since: float
    troubles: int = 0
    why: str = ""


class Pauses:
    """Pauses by record, on a clock that only goes forward; may be used by several threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """No record pauses yet."""
        self._clock = clock
        self._pauses: dict[str, Pause] = {}
        # Records that were left alone since next_end was asked: what changed meanwhile was not looked at.
        self._passed: set[str] = set()
        self._lock = threading.Lock()

    def trouble(self, uid: str, why: str) -> None:
        """A write about this record failed: leave it alone for longer each time."""
        with self._lock:
            now, known = self._clock(), self._recent(uid)
            troubles = known.troubles + 1 if known is not None else 1
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(troubles - 1, 10))
            self._pauses[uid] = Pause(now + pause, known.since if known is not None else now, troubles, why)

    def look_later(self, uid: str) -> None:
        """Nothing is wrong, but it takes time: look again after a while."""
        with self._lock:
            now, known = self._clock(), self._recent(uid)
            since = known.since if known is not None else now
            pause = min(LONGEST_PAUSE, max(SHORTEST_LOOK, (now - since) * _LOOK_SHARE))
            self._pauses[uid] = Pause(now + pause, since, known.troubles if known is not None else 0)

    def _recent(self, uid: str) -> Pause | None:
        """The last pause of a record, unless it is so long ago that it tells nothing about now."""
        known = self._pauses.get(uid)
        return known if known is not None and self._clock() - known.until <= LONGEST_PAUSE else None

    def over(self, uid: str) -> None:
        """All is well with this record."""
        with self._lock:
            self._pauses.pop(uid, None)

    def keep_only(self, uids: set[str]) -> None:
        """Forget records that are gone."""
        with self._lock:
            self._pauses = {uid: pause for uid, pause in self._pauses.items() if uid in uids}

    def drop_old(self) -> None:
        """Forget whatever is so long ago that it tells nothing about now."""
        with self._lock:
            self._pauses = {uid: pause for uid, pause in self._pauses.items() if self._recent(uid) is not None}

    def pausing(self, uid: str) -> bool:
        """Whether a record is to be left alone for now."""
        with self._lock:
            pause = self._pauses.get(uid)
            if pause is None or pause.until <= self._clock():
                self._passed.discard(uid)
                return False
            self._passed.add(uid)
            return True

    def in_trouble(self, uid: str) -> bool:
        """Whether a record is left alone for now because a write about it failed."""
        pause = self._pauses.get(uid)
        return pause is not None and bool(pause.why) and pause.until > self._clock()

    def troubled(self) -> dict[str, str]:
        """Records that are left alone for now because a write about them failed, and why."""
        with self._lock:
            now = self._clock()
            return {uid: item.why for uid, item in self._pauses.items() if item.why and item.until > now}

    def unwritable(self) -> set[str]:
        """Records that could not be written several times in a row."""
        with self._lock:
            recent = {uid: self._recent(uid) for uid in self._pauses}
            return {uid for uid, item in recent.items() if item is not None and item.troubles >= MANY_TROUBLES}

    def resting(self) -> dict[str, str]:
        """Records that are left alone for now, and why; empty where another writer only changed them."""
        with self._lock:
            now = self._clock()
            found = {uid: item.why for uid, item in self._pauses.items() if item.until > now}
            self._passed.update(found)
            return found

    def next_end(self) -> float | None:
        """Seconds until the next pause ends, 0 if one ended after its record was passed over; None when none pauses.

        Such a record is told of once: whatever its change rang for was over before it could be looked at.
        """
        with self._lock:
            now, passed = self._clock(), self._passed
            self._passed = set()
            if any(uid in self._pauses and self._pauses[uid].until <= now for uid in passed):
                return 0.0
            return min((pause.until - now for pause in self._pauses.values() if pause.until > now), default=None)
