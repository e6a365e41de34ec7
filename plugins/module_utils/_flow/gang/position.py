# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Places in the queue: the order a dispatcher would ask the waiting gangs in."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import Stores
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import QueuedGang, ordered
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

Scope = t.Literal["cluster", "namespace"]


def list_records(
    client: KubeClient, namespaces: t.Sequence[str], *, finished: bool = False
) -> tuple[list[Record], Scope]:
    """All records of the cluster, finished ones if asked for; only of these namespaces where no more may be seen."""
    records = Records(client, every_wrapper=Stores(client, "auto").wrapper_problem() is None)
    try:
        return records.list(None, finished=finished), "cluster"
    except Forbidden:
        if not namespaces:
            raise
        return records.list(namespaces, finished=finished), "namespace"


def queued_gang(record: Record) -> QueuedGang | None:
    """What the order needs to know of a record; None when it does not wait to be started."""
    if record.phase != "queued" or record.terminating or record.spec is None or record.spec.suspended:
        return None
    not_before = read_time(record.state.not_before) if record.state else None
    return QueuedGang(
        uid=record.uid,
        priority=record.spec.priority,
        slope=record.spec.priority_slope,
        submitted=record.submitted,
        queue=record.spec.queue,
        eligible_at=not_before or 0.0,
    )


def positions(gangs: t.Iterable[QueuedGang | None], now: float) -> dict[str, int]:
    """Places by uid, counted from 1; gangs that pause after a requeue have none."""
    waiting = ordered([gang for gang in gangs if gang is not None], now)
    return {gang.uid: place for place, gang in enumerate(waiting, 1)}
