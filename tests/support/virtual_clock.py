# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A clock that goes on only when it is told to, and what is to happen at which of its times."""

from __future__ import annotations

import heapq
import itertools
import typing as t

Happening = t.Callable[[], None]


class VirtualClock:
    """Seconds since the beginning; happenings of one time come in the order in which they were planned."""

    def __init__(self) -> None:
        """Time zero, and nothing planned."""
        self.now = 0.0
        self._numbers = itertools.count()
        self._planned: list[tuple[float, int, Happening]] = []

    def __call__(self) -> float:
        """The time, for those who want a clock to ask."""
        return self.now

    def after(self, seconds: float, happening: Happening) -> None:
        """Have something happen so much later; not even without delay before time goes on."""
        heapq.heappush(self._planned, (self.now + max(0.0, seconds), next(self._numbers), happening))

    def next_time(self) -> float | None:
        """When the next thing happens; None when nothing is planned."""
        return self._planned[0][0] if self._planned else None

    def advance(self, seconds: float) -> None:
        """Let time pass, and everything happen that is planned for it."""
        self.advance_to(self.now + max(0.0, seconds))

    def advance_to(self, moment: float) -> None:
        """Let time pass up to a moment."""
        while self._planned and self._planned[0][0] <= moment:
            when, _number, happening = heapq.heappop(self._planned)
            self.now = max(self.now, when)
            happening()
        self.now = max(self.now, moment)
