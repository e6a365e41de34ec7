# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one writer of gangs' states: a write id of this holder, the server's time, and a compare-and-swap."""

from __future__ import annotations

import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import (
    Record,
    as_stored,
    record_from_api,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    Changes,
    GangState,
    Phase,
    advance,
    new_state,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import put_state

# Which changes of others a write keeps: none, those outside of the specification, or any but those of the state.
Tolerance = t.Literal["none", "metadata", "any"]

# So often in a row a record that others keep changing is written anew.
_REBASES = 5


class StateWriter:
    """Writes states under one Lease; may be used by several threads for different gangs."""

    def __init__(self, client: KubeClient, lease: DispatchLease, now: Callable[[], str]) -> None:
        """Now gives the server's time as RFC 3339 text with microseconds."""
        self._client = client
        self._lease = lease
        self._now = now

    def next_state(
        self, record: Record, phase: Phase, reason: str, message: str, **changes: t.Unpack[Changes]
    ) -> GangState:
        """The record's next state under a new write id; a record without one gets its first."""
        write_id, now = self._lease.next_write_id(), self._now()
        state = record.state or new_state(micro_time_text(int(record.submitted * 1_000_000)), write_id)
        return advance(state, phase, now, reason, message, write_id, **changes)

    def put(self, record: Record, state: GangState, tolerance: Tolerance) -> Record:
        """Write a state, over changes of others as far as they are tolerated; other changes raise Superseded.

        The state itself belongs to whoever wrote it last: one that is not the one we read is never overwritten.
        """
        rebases_left = 0 if tolerance == "none" else _REBASES
        while True:
            try:
                return put_state(self._client, record, state, allowance=self._lease.write_timeout)
            except Superseded as error:
                found = record_from_api(error.found)
                if not rebases_left or not _stands(record, found, tolerance):
                    raise
                record, rebases_left = found, rebases_left - 1

    def advance(self, record: Record, phase: Phase, reason: str, message: str, **changes: t.Unpack[Changes]) -> Record:
        """Write the next phase of a record whose specification nobody changed meanwhile."""
        return self.put(record, self.next_state(record, phase, reason, message, **changes), "metadata")


def follows(record: Record, found: Record) -> bool:
    """Whether a record that was found still has the state that it had when it was read."""
    if found.newer is not None:
        return False
    # Most often nobody wrote at all, and what was written need not be read again.
    return found.resource_version == record.resource_version or _write_id(found) == _write_id(record)


def _stands(record: Record, found: Record, tolerance: Tolerance) -> bool:
    """Whether a write decided on a record may be made over what was found in its place."""
    return follows(record, found) and (tolerance == "any" or found.spec == record.spec)


def _write_id(record: Record) -> str | None:
    """Which write made the state that a record held when it was read; None when it had none that can be read."""
    state = as_stored(record).state
    return state.write_id if state is not None else None
