# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls about many gangs side by side, where one that takes long keeps no other waiting."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import threading
import time
from collections.abc import Callable, Hashable, Iterable

# So many at once while they are quick; more only makes the API server queue them itself.
WIDTH = 8
# A call that has run for so many seconds is slow: it goes on, but is not waited for any more.
PATIENCE = 1.0
# Slow calls at once, in all and of one group, so that one namespace cannot take all threads.
MOST_SLOW = 128
MOST_SLOW_OF_GROUP = 8
# Calls in the background are begun only while fewer than so many are under way: the next start finds a free place.
BACKGROUND_WIDTH = 4
# So many calls wait in the background; what comes beyond them is dropped.
MOST_BACKGROUND = 2_000
# Slow ones hold up each other and no start; no namespace is called so.
_BACKGROUND_GROUP = "in the background"


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """One call; of one key only one runs at a time, and a group is whose calls may be held up by slow ones of it."""

    key: Hashable
    group: str
    call: Callable[[], object]
    # Whether nobody has to know that it is under way.
    background: bool = False


@dataclasses.dataclass(slots=True)
class _Running:
    """A call under way since a moment; late is one that is not waited for any more."""

    task: Task
    since: float
    late: bool = False


class Workers:
    """Threads for the calls of one holder of the Lease; they end with their calls."""

    def __init__(
        self,
        patience: float = PATIENCE,
        on_late: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """on_late is called when a call ends that was not waited for: there is news."""
        self.on_late = on_late
        self._patience = patience
        self._clock = clock
        self._changed = threading.Condition()
        self._pending: collections.deque[Task] = collections.deque()
        self._background: collections.deque[Task] = collections.deque()
        self._running: dict[Hashable, _Running] = {}
        # Of calls that somebody waits for: which of those that are waited for together have not ended.
        self._awaited: dict[Hashable, set[Hashable]] = {}
        self._error: BaseException | None = None

    @property
    def busy(self) -> frozenset[Hashable]:
        """Keys of calls that have not ended, without those in the background."""
        with self._changed:
            running = (key for key, item in self._running.items() if not item.task.background)
            return frozenset((*running, *(task.key for task in self._pending)))

    def run(self, tasks: Iterable[Task]) -> None:
        """Begin these calls and wait for the quick ones; what is slow, or held up by slow ones of its group, goes on.

        A call whose key is busy is left out. An error that a call did not look after itself is raised.
        """
        with self._changed:
            keys = self._take(tasks)
            left = set(keys)
            self._awaited.update((key, left) for key in keys)
            while True:
                # One moment for both: a call that turns slow in between would make room that is not used.
                now = self._clock()
                self._fill(now)
                self._raise_error()
                seconds = self._seconds_to_wait(keys, now)
                if seconds is None:
                    break
                self._changed.wait(seconds)
            for key in keys & self._running.keys():
                self._running[key].late = True

    def begin(self, tasks: Iterable[Task]) -> None:
        """Have these called while there is nothing better to do; nobody waits for them, and the surplus is dropped.

        They must look after all of their errors themselves.
        """
        with self._changed:
            taken = itertools.islice(tasks, max(0, MOST_BACKGROUND - len(self._background)))
            behind = (dataclasses.replace(task, background=True, group=_BACKGROUND_GROUP) for task in taken)
            self._background.extend(behind)
            self._fill(self._clock())

    def drain(self, seconds: float) -> bool:
        """Wait for everything, slow calls and the background too; False when some have not ended by then."""
        end = self._clock() + seconds
        with self._changed:
            while self._unfinished() and (left := end - self._clock()) > 0:
                self._fill(self._clock())
                self._changed.wait(min(left, self._patience))
            return not self._unfinished()

    def _unfinished(self) -> bool:
        """Whether anything is under way or waits."""
        return bool(self._running or self._pending or self._background)

    def _take(self, tasks: Iterable[Task]) -> set[Hashable]:
        """Queue those whose key is free; their keys."""
        taken = {*self._running, *(task.key for task in self._pending)}
        keys: set[Hashable] = set()
        for task in tasks:
            if task.key not in taken:
                taken.add(task.key)
                keys.add(task.key)
                self._pending.append(task)
        return keys

    def _fill(self, now: float) -> None:
        """Start what may be started now, each in a thread of its own."""
        while (task := self._next(now)) is not None:
            threading.Thread(target=self._work, args=(task,), name="muster-kube", daemon=True).start()

    def _next(self, now: float) -> Task | None:
        """Take the next call that may be made now; one in the background only when nothing else waits for its turn."""
        if not self._pending and not self._background:
            return None
        slow = collections.Counter(item.task.group for item in self._running.values() if self._slow(item, now))
        quick = len(self._running) - slow.total()
        if quick >= WIDTH or slow.total() >= MOST_SLOW:
            return None
        task = self._take_first(self._pending, slow)
        if task is None and not self._pending and quick < BACKGROUND_WIDTH:
            task = self._take_first(self._background, slow)
        if task is not None:
            self._running[task.key] = _Running(task, now)
        return task

    def _take_first(self, waiting: collections.deque[Task], slow: collections.Counter[str]) -> Task | None:
        """Take the first call that slow ones of its group do not hold up; the others keep their order."""
        held: list[Task] = []
        found: Task | None = None
        while waiting and found is None:
            task = waiting.popleft()
            if slow[task.group] >= MOST_SLOW_OF_GROUP:
                held.append(task)
            elif task.key not in self._running:
                # Of one key only one runs at a time; in the background nobody repeats it.
                found = task
        waiting.extendleft(reversed(held))
        return found

    def _slow(self, item: _Running, now: float) -> bool:
        """Whether a call has run longer than is waited for."""
        return now - item.since >= self._patience

    def _seconds_to_wait(self, keys: set[Hashable], now: float) -> float | None:
        """How long to wait for these calls at most; None when all have ended or only slow ones are under way."""
        unfinished = any(key in self._running for key in keys) or any(task.key in keys for task in self._pending)
        ages = [now - item.since for item in self._running.values() if not self._slow(item, now)]
        return max(0.0, self._patience - max(ages)) if unfinished and ages else None

    def _work(self, task: Task | None) -> None:
        """One thread: a call, then those that wait for its place, so that there are no more threads than places."""
        while task is not None:
            error: BaseException | None = None
            try:
                task.call()
            except BaseException as caught:  # noqa: BLE001 - raised again where it is waited for
                error = caught
            with self._changed:
                self._error = self._error or error
                late = self._running.pop(task.key).late
                last = self._was_last(task.key)
                now = self._clock()
                task = self._next(now)
                self._fill(now)
                if error is not None or last or all(self._slow(item, now) for item in self._running.values()):
                    # Before that whoever waits for a call has nothing to do.
                    self._changed.notify_all()
            if late:
                self.on_late()

    def _was_last(self, key: Hashable) -> bool:
        """Note the end of a call; whether it was the last of those that somebody waits for together."""
        left = self._awaited.pop(key, None)
        if left is None:
            return False
        left.discard(key)
        return not left

    def _raise_error(self) -> None:
        """Raise what a call could not handle, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error
