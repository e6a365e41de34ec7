# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Event sources run as ansible-rulebook runs them: from their files, in a loop, with a queue of one place."""

from __future__ import annotations

import asyncio
import importlib.util
import pathlib
import threading
import typing as t

from ansible_collections.muster.kube.tests.support.live_cluster import wait_for_end, wait_until

SOURCES = pathlib.Path(__file__).resolve().parents[2] / "extensions/eda/plugins/event_source"
Event = dict[str, t.Any]
Source = t.Literal["watch", "checkpoints"]


def main_of(source: Source) -> t.Any:
    """What ansible-rulebook calls."""
    spec = importlib.util.spec_from_file_location(f"event_source_{source}", SOURCES / f"{source}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def threads_of_sources() -> list[str]:
    """The threads of event sources that are there now."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("muster-kube-events")]


class RunningSource:
    """A source in a loop of its own while the block lasts; then it is cancelled, and none of its threads stays."""

    def __init__(self, source: Source, args: t.Mapping[str, t.Any]) -> None:
        """Nothing is asked yet."""
        self.events: list[Event] = []
        self.failure: BaseException | None = None
        # Cleared, it keeps the rulebook from taking more.
        self.takes = threading.Event()
        self.takes.set()
        self._main, self._args = main_of(source), dict(args)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="rulebook", daemon=True)
        self._over = threading.Event()

    def __enter__(self) -> t.Self:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Cancel it as the end of a rulebook does."""
        self.takes.set()
        self._over.set()
        wait_for_end(self._thread)
        assert threads_of_sources() == []

    async def _serve(self) -> None:
        """The source, whoever takes its events, and the wish that it ends."""
        queue: asyncio.Queue[Event] = asyncio.Queue(1)
        task = asyncio.create_task(self._main(queue, self._args))
        taker = asyncio.create_task(self._take(queue))
        while not self._over.is_set() and not task.done():
            await asyncio.sleep(0.01)
        taker.cancel()
        task.cancel()
        results = await asyncio.gather(task, taker, return_exceptions=True)
        error = results[0]
        if isinstance(error, BaseException) and not isinstance(error, asyncio.CancelledError):
            self.failure = error

    async def _take(self, queue: asyncio.Queue[Event]) -> None:
        """Take event after event."""
        while True:
            while not self.takes.is_set():
                await asyncio.sleep(0.01)
            self.events.append(await queue.get())

    def told(self, *fields: str) -> list[tuple[t.Any, ...]]:
        """Some fields of all events so far."""
        return [tuple(event[field] for field in fields) for event in list(self.events)]

    def wait_for(self, what: str, probe: t.Callable[[list[Event]], object]) -> None:
        """Wait until the events so far are as they should be; a source that failed never gets there."""

        def look() -> bool:
            if self.failure is not None:
                raise self.failure
            return bool(probe(list(self.events)))

        wait_until(what, look, pause=0.02)

    def wait_for_failure(self) -> BaseException:
        """What the source failed with."""
        return wait_until("the source to fail", lambda: self.failure, pause=0.02)
