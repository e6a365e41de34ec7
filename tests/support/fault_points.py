# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults at exactly one write of one dispatcher.

A proxy before the API server numbers the writes of the only client it has. At the chosen one it acts while the client
waits: before the server is asked, or after the server has answered and before the client learns of it. A signal is
delivered, and its effect is certain, before the proxy goes on; so a point is the same point in every run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import math
import os
import pathlib
import random
import re
import threading
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import BATCH_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import read_batch
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, Cut, Recorded, Rule, _Handler
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess

T = t.TypeVar("T")
When = t.Literal["before", "after"]
Signal = t.Literal["kill", "interrupt", "stop"]
Leases = t.Literal["none", "decisions", "all"]

# Numbers for the names of places on one cluster. pytest imports a file of tests a second time when another one imports
# it, and two counts would give the same names.
ARENAS = itertools.count(os.getpid())
# Never reached when things work.
PATIENCE = 120.0
# A process that got Ctrl-C may first have to wait for the very request that is held.
INTERRUPT_SECONDS = 0.4
_REASONS = {403: "Forbidden", 409: "Conflict", 422: "Invalid", 429: "TooManyRequests", 500: "InternalError"}


def chosen(items: t.Sequence[T], scale: float, seed: int, what: str) -> list[T]:
    """All of them in full runs, else a share that is the same in every run; never fewer than three."""
    count = min(len(items), max(3, math.ceil(len(items) * scale)))
    picked = random.Random(f"{seed}/{what}").sample(range(len(items)), count)
    return [items[index] for index in sorted(picked)]


@dataclasses.dataclass(frozen=True)
class Write:
    """A write as it was numbered, in words: "POST configmaps", "PUT leases/dispatch"."""

    number: int
    method: str
    path: str
    body: bytes = dataclasses.field(repr=False, default=b"")
    request: Recorded | None = dataclasses.field(repr=False, compare=False, default=None)

    @property
    def conflicted(self) -> bool:
        """Whether the server refused it since somebody else had written the object meanwhile."""
        return self.request is not None and self.request.status == 409

    @property
    def label(self) -> str:
        """Method and resource, without what differs from run to run."""
        rest = self.path.partition("/namespaces/")[2].split("/")[1:] or [self.path]
        return re.sub(r"muster-ticket-[0-9a-f]+", "muster-ticket", f"{self.method} {'/'.join(rest)}")


class Fault:
    """What happens at a point; the test waits for it with reached() and ends a stop or a hold with release()."""

    def __init__(
        self,
        *,
        when: When = "before",
        signal: Signal | None = None,
        status: int | None = None,
        message: str = "made by the test",
        cut: Cut | None = None,
        hold: bool = False,
        forward: bool | None = None,
        meanwhile: t.Callable[[], object] | None = None,
    ) -> None:
        """One of signal, status, cut and hold; meanwhile is called at the point too, while the client waits.

        A request that is held before the server is asked goes on to the server after the release, as one would that
        was stopped on its way; forward False drops it instead. With a deadly signal before the server is asked the
        request is dropped unless forward says otherwise.
        """
        self.when = when
        self.signal = signal
        self.status = status
        self.message = message
        self.cut = cut
        self.holds = hold or signal == "stop"
        self.forward = forward if forward is not None else signal not in ("kill", "interrupt")
        self.meanwhile = meanwhile
        self.write: Write | None = None
        self._reached = threading.Event()
        self._released = threading.Event()
        self._done = threading.Event()

    def reached(self, seconds: float = PATIENCE) -> Write:
        """Wait until the point was reached and the signal has had its effect; returns the write."""
        if not self.reached_within(seconds) or self.write is None:
            raise AssertionError("the point was never reached")
        return self.write

    def reached_within(self, seconds: float) -> bool:
        """Whether the point is reached in that time."""
        return self._reached.wait(seconds)

    @property
    def was_reached(self) -> bool:
        """Whether the point was reached so far."""
        return self._reached.is_set()

    def release(self) -> None:
        """Let the held request go on; a stopped process must be resumed by the test."""
        self._released.set()

    def done(self, seconds: float = PATIENCE) -> None:
        """Wait until the write at the point is over: the server has answered it, or it was dropped."""
        if not self._done.wait(seconds):
            raise AssertionError("the write at the point did not end")

    def finish(self) -> None:
        """Note that the write at the point is over."""
        self._done.set()

    def act(self, write: Write, process: DispatchProcess | None) -> None:
        """Do it; called by the thread that serves the request, which waits as long as this takes."""
        self.write = write
        if self.signal is not None:
            if process is None:
                raise AssertionError("a signal needs a process")
            self._send(process)
        if self.meanwhile is not None:
            self.meanwhile()
        self._reached.set()
        if self.holds:
            self._released.wait(PATIENCE)

    def _send(self, process: DispatchProcess) -> None:
        """Deliver the signal and see its effect."""
        if self.signal == "kill":
            process.kill()
        elif self.signal == "interrupt":
            process.interrupt(INTERRUPT_SECONDS)
        else:
            process.stop()


class FaultPoints(ApiProxy):
    """The proxy of one dispatcher, its writes numbered from 1, with at most one fault for each number."""

    def __init__(
        self,
        upstream_kubeconfig: str | pathlib.Path | t.Mapping[str, t.Any],
        directory: str | pathlib.Path,
        *,
        leases: Leases = "decisions",
        events: bool = False,
        only: str = "",
    ) -> None:
        """Choose what is numbered.

        Of the Lease: nothing, what decides something (a new holder, a new batch), or renewals too, whose number
        depends on time. Events only if asked for. only is a regular expression that paths must match.
        """
        super().__init__(upstream_kubeconfig, directory)
        self.process: DispatchProcess | None = None
        self.numbered: list[Write] = []
        self._leases = leases
        self._events = events
        self._only = re.compile(only)
        self._faults: dict[int, Fault] = {}
        self._labeled: dict[tuple[str, int], Fault] = {}
        self._everywhere: t.Callable[[Write], Fault | None] | None = None
        self._last_decision: tuple[t.Any, ...] = ()
        self._numbering = threading.Lock()
        handler = type("FaultHandler", (_FaultHandler,), {"proxy": self, "points": self, "upstream": self._upstream})
        self._server.RequestHandlerClass = handler

    def __exit__(self, *ignored: object) -> None:
        """Let go what is held, then stop."""
        for fault in [*self._faults.values(), *self._labeled.values()]:
            fault.release()
        super().__exit__(*ignored)

    def at(self, number: int, fault: Fault) -> Fault:
        """Make a fault at the write of this number; before the dispatcher starts."""
        self._faults[number] = fault
        return fault

    def at_label(self, label: str, occurrence: int, fault: Fault) -> Fault:
        """Make a fault at the nth write with this label, whatever else is written before it."""
        self._labeled[label, occurrence] = fault
        return fault

    def at_each(self, choose: t.Callable[[Write], Fault | None]) -> None:
        """Ask this function at every numbered write for which no fault was chosen by number."""
        self._everywhere = choose

    @property
    def labels(self) -> list[str]:
        """What was written so far, in words."""
        return [write.label for write in self.numbered]

    @property
    def settled_labels(self) -> list[str]:
        """The same without conflicts: how often controllers come in between differs from run to run."""
        return [write.label for write in self.numbered if not write.conflicted]

    def point(self, request: Recorded) -> tuple[Fault, Write] | None:
        """Number a request; returns the fault that is meant for it."""
        with self._numbering:
            if not self._counts(request):
                return None
            write = Write(len(self.numbered) + 1, request.method, request.path, request.body, request)
            self.numbered.append(write)
            label = write.label
            occurrence = sum(item.label == label for item in self.numbered)
            fault = self._faults.get(write.number) or self._labeled.get((label, occurrence))
        if fault is None and self._everywhere is not None:
            fault = self._everywhere(write)
            if fault is not None:
                self._faults[write.number] = fault
        return None if fault is None else (fault, write)

    def _counts(self, request: Recorded) -> bool:
        """Whether a request is a write that gets a number."""
        if not request.write or not self._only.search(request.path):
            return False
        if not self._events and re.search(r"/events(/|$)", request.path):
            return False
        if "/leases" not in request.path or self._leases == "all":
            return True
        return self._leases == "decisions" and self._decides(request)

    def _decides(self, request: Recorded) -> bool:
        """Whether a write of the Lease changes its holder or commits a batch, seen from this client's own last write.

        Renewals may leave out of the batch what is over; that decides nothing.
        """
        lease = json.loads(request.body or b"{}")
        text = (lease.get("metadata", {}).get("annotations") or {}).get(BATCH_ANNOTATION)
        batch = read_batch(text).batch
        decision = (lease.get("spec", {}).get("holderIdentity"), text if batch is None else batch.id)
        changed = decision != self._last_decision
        self._last_decision = decision
        return changed


class _FaultHandler(_Handler):
    """One client connection, with faults."""

    points: FaultPoints
    _after: tuple[Fault, Write] | None = None

    def _pass_on(self, request: Recorded, rule: Rule | None) -> None:
        """Act before the server is asked, or remember to act when it has answered."""
        found = self.points.point(request)
        self._after = None
        if found is None:
            super()._pass_on(request, rule)
            return
        try:
            self._pass_point(request, rule, *found)
        finally:
            found[0].finish()

    def _pass_point(self, request: Recorded, rule: Rule | None, fault: Fault, write: Write) -> None:
        """A write at which something happens."""
        if fault.when == "after":
            self._after = (fault, write)
        else:
            fault.act(write, self.points.process)
            if fault.status is not None:
                told = _REASONS.get(fault.status, "")
                self._refuse(request, Rule(None, re.compile(""), 1, 1, fault.status, fault.message, told))
                return
            if fault.cut == "before" or not fault.forward:
                self._drop(request)
                return
        if fault.cut is not None:
            rule = Rule(None, re.compile(""), 1, 1, cut=fault.cut)
        super()._pass_on(request, rule)

    def _answer(self, request: Recorded, *arguments: t.Any) -> None:
        """Act when the server has answered; a client that is gone by then cannot be told."""
        found, self._after = self._after, None
        if found is not None:
            fault, write = found
            fault.act(write, self.points.process)
            if fault.signal in ("kill", "interrupt"):
                # A process that caught its signal must not learn more than one that did not.
                self._drop(request)
                raise BrokenPipeError("the client is gone")
        super()._answer(request, *arguments)

    def finish(self) -> None:
        """A client that went away is no news."""
        with contextlib.suppress(OSError):
            super().finish()
