# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places in the queue: the order a dispatcher would ask the waiting gangs in."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import (
    QueuedGang,
    ordered,
    queued_gang,
)
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

Scope = t.Literal["cluster", "namespace"]


@dataclasses.dataclass(frozen=True, slots=True)
class QueueReading:
    """The records of the cluster, or of the namespaces that may be seen (scope), and the server's time."""

    records: list[Record]
    scope: Scope
    now: float

    def positions(self, gangs: t.Iterable[QueuedGang | None] | None = None) -> dict[str, int]:
        """Places by uid, counted from 1, of these gangs or of the records; gangs that pause have none."""
        asked = map(waiting_gang, self.records) if gangs is None else gangs
        waiting = ordered([gang for gang in asked if gang is not None], self.now)
        return {gang.uid: place for place, gang in enumerate(waiting, 1)}


def read_queue(client: KubeClient, namespaces: t.Sequence[str], *, finished: bool = False) -> QueueReading:
    """All records of the cluster, finished ones if asked for; only of these namespaces where no more may be seen."""
    store = Records(client, every_wrapper=wrapper_problem(client) is None)
    scope: Scope = "cluster"
    try:
        records = store.list(None, finished=finished)
    except Forbidden:
        if not namespaces:
            raise
        records, scope = store.list(namespaces, finished=finished), "namespace"
    return QueueReading(records, scope, client.server_time.timestamp() if client.server_time else 0.0)


def waiting_gang(record: Record) -> QueuedGang | None:
    """What the order needs to know of a record; None when it does not wait to be started."""
    if record.phase != "queued" or record.terminating or record.spec is None or record.spec.suspended:
        return None
    not_before = read_time(record.state.not_before) if record.state else None
    return queued_gang(record.uid, record.spec, record.submitted, not_before or 0.0)
