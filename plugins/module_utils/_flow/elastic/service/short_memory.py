# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A memory of what the server answered a moment ago, of bounded size: nothing in it is older than some seconds."""

from __future__ import annotations

import collections
import threading
import typing as t
from collections.abc import Callable, Hashable

T = t.TypeVar("T")


class ShortMemory(t.Generic[T]):
    """Values by their keys, each until a moment on a steady clock; the oldest goes where there are too many."""

    def __init__(self, clock: Callable[[], float], seconds: float, most: int) -> None:
        """Nothing is known yet."""
        self._clock = clock
        self._seconds = seconds
        self._most = most
        self._lock = threading.Lock()
        self._kept: collections.OrderedDict[Hashable, tuple[float, T]] = collections.OrderedDict()

    def find(self, key: Hashable) -> T | None:
        """What is known; None where nothing is, or not any more."""
        with self._lock:
            until, value = self._kept.get(key, (0.0, None))
            if value is not None and self._clock() < until:
                return value
            self._kept.pop(key, None)
            return None

    def keep(self, key: Hashable, value: T, longest: float | None = None) -> T:
        """Remember a value, for so many seconds at most; it is returned."""
        seconds = self._seconds if longest is None else min(self._seconds, longest)
        if seconds <= 0:
            return value
        with self._lock:
            self._kept.pop(key, None)
            self._kept[key] = self._clock() + seconds, value
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value

    def __len__(self) -> int:
        return len(self._kept)
