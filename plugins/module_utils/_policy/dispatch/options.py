# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The terms of a dispatcher: everything a user can set, as values."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record

Policy = t.Literal["strict", "best_effort", "reserve"]
Hold = t.Literal["soft", "hard"]

ACCOUNT = "muster"


@dataclasses.dataclass(frozen=True, slots=True)
class DispatchOptions:
    """How one run of the dispatcher behaves.

    namespaces None means all of them; then objects are created as the ServiceAccount `muster` of their namespace, else
    with the caller's own rights. only names the records that may be started or stopped; others keep what is reserved
    for them, and no more. Of finished gangs without a ttl so many are kept for so long; None is no limit. engine names
    the one that starts the gangs (_engine/registry.py). What gangs use of quota trees is counted every accrue_seconds.
    A run for sizes_only resizes running gangs and starts those again that are between two sizes; it starts, evicts and
    drains nobody else, tells why each GPU is idle, and waits for the Lease no longer than lease_wait.
    """

    policy: Policy = "reserve"
    reserve_after: float = 3600.0
    hold: Hold = "soft"
    lease: LeaseOptions = dataclasses.field(default_factory=LeaseOptions)
    lease_wait: float = 0.0
    namespaces: tuple[str, ...] | None = None
    only: frozenset[str] | None = None
    max_starts: int | None = None
    bind_timeout: float = 60.0
    start_timeout: float = 300.0
    duration: float | None = None
    decision_log: str | None = None
    adopt: bool = False
    keep_finished: int | None = 1000
    keep_finished_for: float | None = 7 * 86_400.0
    engine: str = "embedded"
    accrue_seconds: float = 300.0
    sizes_only: bool = False

    def is_for(self, record: Record) -> bool:
        """Whether a record is one that this run may start or stop."""
        mine = self.namespaces is None or record.namespace in self.namespaces
        return mine and self.may_touch(record.uid)

    def may_touch(self, uid: str) -> bool:
        """Whether a record is one of those this run is for."""
        return self.only is None or uid in self.only
