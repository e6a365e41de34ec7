# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The office of a dispatcher: what the holder of the Lease works with, and the records while a cycle changes them."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
import typing as t
from collections.abc import Callable, Iterable

from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Embedded
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.decisions import Action, Decision
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import Ledger, LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record, Records, put_state
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.state import (
    Changes,
    GangState,
    Phase,
    advance,
    new_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import micro_time_text

Identity = Callable[[str], KubeClient]

WIDTH = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What was last said of a waiting gang, and when it was last compared with what its record says."""

    gist: tuple[t.Any, ...]
    compared: float


class Office:
    """What one holder of the Lease works with, for as long as it holds it."""

    def __init__(
        self, client: KubeClient, ledger: Ledger, terms: DispatchTerms, *, every_wrapper: bool, identity_of: Identity
    ) -> None:
        """identity_of gives the client that creates a namespace's objects."""
        self.client = client
        self.ledger = ledger
        self.terms = terms
        self.clock = ServerClock(client)
        self.records = Records(client, every_wrapper=every_wrapper)
        self.engine = Embedded(client, ledger, identity_of, self.now_text)
        self.memory = Memory()
        self.told: dict[str, float] = {}
        self.waiting: dict[str, Told] = {}
        # Who else writes the status of which wrapper, as it was last said.
        self.foreign: dict[str, str] = {}
        # Fingerprints of edited specifications that were told of; None is one that cannot be read.
        self.edited: dict[str, str | None] = {}
        self.fresh = True
        self.settled_batch: str | None = None

    def forget(self, queued: t.Collection[str]) -> None:
        """Whatever was said of gangs that wait no more must be said again when they do."""
        self.waiting = {uid: told for uid, told in self.waiting.items() if uid in queued}

    def now_text(self) -> str:
        """The server's time as records carry it."""
        return micro_time_text(int(self.clock.now() * 1_000_000))


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """A started gang to be undone, and what the undo leads to."""

    record: Record
    reason: str
    message: str
    then: Phase
    changes: Changes


class Cycle:
    """The records as they are while a cycle changes them, and what was decided about each."""

    def __init__(self, office: Office, report: Callable[[str], None]) -> None:
        """Nothing is read or changed yet."""
        self.office = office
        self.report = report
        self.decisions: list[Decision] = []
        self.warnings: list[str] = []
        self.skipped: set[str] = set()
        self.refused: dict[str, Record] = {}
        self.next_check: float | None = None
        self.kinds: tuple[tuple[str, str], ...] = ()
        self.seconds: dict[str, float] = {}
        self._before: dict[str, Record] = {}
        self._lock = threading.Lock()
        self.records: dict[str, Record] = {}

    def read_records(self) -> None:
        """Begin with the records as they are now."""
        found = self.office.records.list(self.office.terms.namespaces)
        self.records = {record.uid: record for record in found}
        self.office.forget({record.uid for record in found if record.phase == "queued"})

    @contextlib.contextmanager
    def timed(self, what: str) -> t.Iterator[None]:
        """Note how long a part of the cycle takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started

    # Carrying out.

    def carry_out(self, record: Record, write: Callable[[Record], Record | None]) -> Record | None:
        """One write about one record; None when it came to nothing, then the next cycle looks again.

        A record that was deleted or changed by its user meanwhile is no trouble. Losing the Lease ends the cycle.
        """
        try:
            written = write(record)
        except LostLeadership:
            raise
        except ObjectGone:
            with self._lock:
                self.records.pop(record.uid, None)
            return None
        except Superseded:
            self._skip(record, None)
            return None
        except (KubeError, BadInput) as error:
            self._skip(record, str(error))
            return None
        if written is not None:
            self.keep(record, written)
        return written

    def _skip(self, record: Record, warning: str | None) -> None:
        """Leave a record alone for the rest of the cycle."""
        with self._lock:
            self.skipped.add(record.uid)
            if warning is not None:
                self.warnings.append(f"{record.key}: {warning}")

    def keep(self, before: Record, after: Record) -> None:
        """Go on with a record as it is now."""
        with self._lock:
            self._before.setdefault(before.uid, before)
            self.records[after.uid] = after

    def check_again(self, moment: float) -> None:
        """Look again at this time at the latest, in seconds on the server's clock."""
        with self._lock:
            self.next_check = moment if self.next_check is None else min(self.next_check, moment)

    def in_parallel(self, calls: Iterable[Callable[[], t.Any]]) -> None:
        """Several writes at once; each looks after its own trouble."""
        parallel(list(calls), WIDTH)

    def advance(self, record: Record, phase: Phase, reason: str, message: str, **changes: t.Unpack[Changes]) -> Record:
        """Write the next phase of a record."""
        write_id, now = self.office.ledger.next_write_id(), self.office.now_text()
        state = record.state or new_state(_submitted(record), write_id)
        return self.put(record, advance(state, phase, now, reason, message, write_id, **changes))

    def put(self, record: Record, state: GangState) -> Record:
        """Write a state."""
        return put_state(self.office.client, record, state, allowance=self.office.ledger.write_timeout)

    def decide(
        self, record: Record, action: Action, reason: str, message: str = "", verdict: dict[str, t.Any] | None = None
    ) -> None:
        """Note a decision and tell whoever watches; of waiting only what is told in full, as most of a queue waits."""
        now = self.records.get(record.uid, record)
        decision = Decision(
            record.key, record.uid, action, reason, message, now.attempt, now.phase, self.office.now_text(), verdict
        )
        with self._lock:
            self.decisions.append(decision)
        if action != "wait" or verdict is not None:
            self.report(decision.line())

    def changed(self) -> list[tuple[Record, Record]]:
        """Records this cycle has written: as they were and as they are."""
        return [(before, self.records[uid]) for uid, before in self._before.items() if uid in self.records]


def _submitted(record: Record) -> str:
    """When the gang was queued, as its first transition says."""
    return micro_time_text(int(record.submitted * 1_000_000))
