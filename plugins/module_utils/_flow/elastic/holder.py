# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for the dispatcher that holds the Lease to decide about sizes, and for what it begins to end.

A dispatcher decides about sizes in each cycle, and looks again at the latest after some seconds or when the settings
change. So nobody has to ask it: that it has looked is told by its Lease (_store/size_settings.py).
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.options import BalanceOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told import under_way
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records
from ansible_collections.muster.kube.plugins.module_utils._store.size_settings import SizesDecided, read_decided
from ansible_collections.muster.kube.plugins.module_utils._store.under_way import batch_of_lease, read_lease

Object = dict[str, t.Any]

# free: nobody holds the Lease. silent: its holder is dead. decided: it has looked, and nothing is under way.
HolderEnd = t.Literal["free", "silent", "decided", "late"]
_POLL = 1.0
_RECORDS_POLL = 3.0
# Clocks that are read from answers are right to a second.
_CLOCK_ERROR = 1.0


class HolderWatch:
    """Looks at the Lease and the records until one of the ends is reached."""

    def __init__(
        self,
        client: KubeClient,
        options: BalanceOptions,
        *,
        since: float | None,
        version: str,
        patience: float,
        report: Callable[[str], None],
    ) -> None:
        """Version is that of the settings to decide by.

        since is when the task began, on the server's clock; None where nobody can have known these settings before.
        """
        self._client = client
        self._options = options
        self._since = since
        self._version = version
        self._patience = patience
        self._report = report
        self._clock = ServerClock(client)
        self._records = Records(client, every_wrapper=wrapper_problem(client) is None)
        self._seen: tuple[object, float] = (None, 0.0)
        self._told = ""
        self.holder: str | None = None
        # How long a holder that is not seen any more keeps the Lease, and a little more.
        self.longest = options.lease.seconds
        self.decided: SizesDecided | None = None

    def wait(self, end: float) -> HolderEnd:
        """Wait until a moment on the client's clock."""
        while True:
            lease = read_lease(self._client, self._options.lease)
            spec = (lease or {}).get("spec") or {}
            self.holder = spec.get("holderIdentity") or None
            if lease is not None and self.holder is None:
                return "free"
            if lease is not None and self._is_silent(lease):
                return "silent"
            self.decided = _told_by_holder(lease)
            if self.has_looked and not self._busy(lease):
                return "decided"
            if self._client.clock() >= end:
                return "late"
            # Looking at all records costs more than looking at the Lease.
            pause = _RECORDS_POLL if self.has_looked else _POLL
            self._client.sleep(min(pause, self._options.lease.seconds / 5))

    @property
    def has_looked(self) -> bool:
        """Whether the holder has decided about these gangs by these settings since the task began."""
        decided = self.decided
        if decided is None or decided.version != self._version:
            return False
        if self._since is not None and decided.at < self._since + _CLOCK_ERROR:
            return False
        mine = self._options.namespaces
        return decided.namespaces is None or (mine is not None and set(mine) <= set(decided.namespaces))

    def why_late(self) -> str:
        """Why the holder has not done what was waited for."""
        who = f"{self.holder} holds {self._options.lease.target}"
        decided = self.decided
        if decided is None:
            return f"{who} and does not tell that it decides about sizes; an earlier version does not"
        if self.has_looked:
            return f"{who}; what it began has not ended within {self._options.wait_timeout:g} s"
        if decided.namespaces is not None:
            return f"{who} and decides about the namespaces {', '.join(decided.namespaces)} only"
        return f"{who} and has not decided about sizes within {self._options.wait_timeout:g} s"

    def records(self) -> Sequence[Record]:
        """The records that the task is for, those that are over left out."""
        return self._records.list(self._options.namespaces, finished=False)

    def _is_silent(self, lease: Object) -> bool:
        """Whether the holder has not renewed the Lease for as long as it may."""
        now, version = self._client.clock(), lease["metadata"]["resourceVersion"]
        if self._seen[0] != version:
            self._seen = version, now
        longest = max(self._options.lease.seconds, float(lease["spec"].get("leaseDurationSeconds") or 0))
        self.longest = 1.2 * longest + 1.0
        return now - self._seen[1] > longest

    def _busy(self, lease: Object | None) -> bool:
        """Whether a resize is under way, or was committed and not begun."""
        records = self.records()
        begun = {record.uid: record.state.batch for record in records if record.state is not None}
        batch = batch_of_lease(lease).batch
        entries = batch.entries if batch is not None else ()
        planned = [item for item in entries if item.op == "resize" and begun.get(item.uid) not in (None, item.batch)]
        found = under_way(records, self._clock.now(), self._patience)
        words = ", ".join(sorted(record.key for record in found))
        if words and words != self._told:
            self._report(f"waiting for {self.holder} to resize {words}")
        self._told = words
        return bool(found or planned)


def _told_by_holder(lease: Object | None) -> SizesDecided | None:
    """What the present holder tells; what an earlier one told stays in the Lease, and is no word of this one."""
    decided = read_decided(lease)
    taken = read_time(((lease or {}).get("spec") or {}).get("acquireTime"))
    return None if decided is not None and taken is not None and decided.at < taken - _CLOCK_ERROR else decided
