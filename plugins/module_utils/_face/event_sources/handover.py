# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How event sources run under asyncio: threads do the work, and hand each event over once there is room for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import SourceEnded, SourceWork
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object

# A request that is under way may take so long when the source ends; its thread does nothing after it.
_LAST_SECONDS = 10.0


class EventQueue(t.Protocol):
    """Where events go."""

    async def put(self, event: Object) -> None:
        """Wait for room and leave an event there."""


class Handover:
    """The way of events from threads into a queue of the loop."""

    def __init__(self, queue: EventQueue) -> None:
        """Made inside the loop."""
        self._queue = queue
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._waiting: set[concurrent.futures.Future[None]] = set()

    def tell(self, event: Object) -> None:
        """Hand an event over, from a thread; it goes on when the queue has taken it. SourceEnded after the end."""
        with self._lock:
            if self._closed:
                raise SourceEnded
            waiting = asyncio.run_coroutine_threadsafe(self._queue.put(event), self._loop)
            self._waiting.add(waiting)
        try:
            waiting.result()
        except concurrent.futures.CancelledError as error:
            raise SourceEnded from error
        finally:
            with self._lock:
                self._waiting.discard(waiting)

    def close(self) -> None:
        """Nobody takes events any more: whoever waits for room need not."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
        for item in waiting:
            item.cancel()


async def serve(work: SourceWork, queue: EventQueue) -> None:
    """Run all parts until the task is cancelled or one of them fails; none of their threads stays."""
    handover = Handover(queue)
    pool = concurrent.futures.ThreadPoolExecutor(len(work.parts), thread_name_prefix="muster-kube-events")
    loop = asyncio.get_running_loop()
    ends = [loop.run_in_executor(pool, part, handover.tell) for part in work.parts]
    try:
        done, _others = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in done:
            end.result()
    finally:
        handover.close()
        work.end()
        done, late = await asyncio.wait(ends, timeout=_LAST_SECONDS)
        for end in done:
            # What went wrong in others at the same time is of no interest any more.
            end.exception()
        pool.shutdown(wait=not late)
