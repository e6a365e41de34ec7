# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The clock of a server as its answers show it: many of them must agree, none decides alone.

One answer can be wrong: a cache, a gateway, one of several API servers. All here are differences between the server's
clock and a steady clock of ours, which never jumps.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import deque

# Answers carry whole seconds; a larger difference means that a clock was set, or that another clock was read.
TOLERANCE = 2.0

# So many answers that agree make the clock certain; a cycle of the dispatcher has more.
_ENOUGH = 5
# The clock moves only after so many answers in a row over so many seconds that agree on another time.
_JUMP_ANSWERS = 3
_JUMP_SECONDS = 5.0
# For so long after it was last read a slower clock holds back what must not happen too early.
_DOUBT_SECONDS = 600.0
# Among so many answers there are enough that agree even where six API servers have six clocks.
_MOST = 32


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """One answer: the server was ahead of the steady clock by ahead, or by up to the time it took more."""

    ahead: float
    took: float
    arrived: float

    def allows(self, offset: float) -> bool:
        """Whether the server can have been ahead by this."""
        return self.ahead - TOLERANCE < offset < self.ahead + self.took + TOLERANCE

    def agrees(self, other: _Reading) -> bool:
        """Whether one clock can have given both."""
        return self.ahead < other.ahead + other.took + TOLERANCE and other.ahead < self.ahead + self.took + TOLERANCE


class ClockReadings:
    """The readings of one server's clock, from all threads that talk to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recent: deque[_Reading] = deque(maxlen=_MOST)
        self._offset: float | None = None
        self._certain = False
        # The first of the answers in a row that agree on another time, and their number.
        self._other: _Reading | None = None
        self._others = 0
        # The slowest clock that was read, and when last.
        self._slowest: tuple[float, float] | None = None

    @property
    def offset(self) -> float | None:
        """By how much the server is ahead of the steady clock, as far as known; None before the first answer."""
        with self._lock:
            return self._offset

    @property
    def certain(self) -> bool:
        """Whether enough answers agreed on the offset."""
        with self._lock:
            return self._certain

    def slowest(self, at: float) -> float | None:
        """The least offset that was read lately; None while none is certain. at is the steady clock now.

        Where the clocks of several API servers differ, or one was set, it is unknown which of them is right; what is
        late by the slowest of them is late.
        """
        with self._lock:
            if self._offset is None or not self._certain:
                return None
            if self._slowest is None or at - self._slowest[1] >= _DOUBT_SECONDS:
                return self._offset
            return min(self._offset, self._slowest[0])

    def add(self, shown: float, sent: float, arrived: float) -> None:
        """Take in the time in a successful answer; sent and arrived are times of the steady clock."""
        reading = _Reading(shown - arrived, max(0.0, arrived - sent), arrived)
        with self._lock:
            if not self._certain or self._offset is None:
                self._vote(reading)
            elif reading.allows(self._offset):
                self._other = None
            else:
                self._doubt(reading, self._offset)

    def _vote(self, reading: _Reading) -> None:
        """Believe in the reading that most agree with, the earliest of those; enough of them make it certain."""
        self._recent.append(reading)
        spans = [(item.ahead, item.ahead + item.took + TOLERANCE) for item in self._recent]
        votes = [sum(first < until and since < last for since, until in spans) for first, last in spans]
        most = max(votes)
        self._offset = self._recent[votes.index(most)].ahead
        if most >= _ENOUGH:
            self._certain = True
            for item in self._recent:
                if not item.allows(self._offset):
                    self._hold_back(item.ahead + item.took, item.arrived)
            self._recent.clear()

    def _doubt(self, reading: _Reading, offset: float) -> None:
        """Stay with the offset although an answer denies it; several in a row that agree on another one move it."""
        self._hold_back(reading.ahead + reading.took, reading.arrived)
        if self._other is None or not reading.agrees(self._other):
            self._other, self._others = reading, 0
        self._others += 1
        if self._others >= _JUMP_ANSWERS and reading.arrived - self._other.arrived >= _JUMP_SECONDS:
            self._hold_back(offset, reading.arrived)
            self._offset, self._other = self._other.ahead, None

    def _hold_back(self, offset: float, at: float) -> None:
        """Note how slow a clock was read; of several only the slowest matters, as long as it is read."""
        known = self._slowest
        if known is None or at - known[1] >= _DOUBT_SECONDS:
            self._slowest = offset, at
        elif offset < known[0] + TOLERANCE:
            self._slowest = min(offset, known[0]), at
