# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Room promised by open entries of the batch to gangs whose records do not tell it."""

from __future__ import annotations

import collections
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.recover import UNSEEN_PATIENCE, usual_patience
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import STARTED, World
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._model.batch import Batch, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.podset import PodSet, declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import podset_label
from ansible_collections.muster.kube.plugins.module_utils._policy.accounting import Outstanding


def promised_elsewhere(batch: Batch | None, records: Mapping[str, Record], world: World) -> dict[str, Outstanding]:
    """What each gang with an open entry still gets whose record is not seen, or does not say that it was started.

    Gangs whose records say so are counted by what their objects want.
    """
    promised: dict[str, Outstanding] = {}
    for entry in batch.entries if batch is not None else ():
        record = records.get(entry.uid)
        if entry.op != "start" or (record is not None and record.phase in STARTED and entry.uid in world.gangs):
            continue
        podsets = _podsets(batch, entry, world) if batch is not None else ()
        promised[entry.uid] = _outstanding(entry, podsets, world)
    return promised


def unknown_until(cycle: Cycle) -> float | None:
    """Until when (on the server's clock) nobody can tell what was promised elsewhere; None when that is known.

    A Lease without a batch is new, and another one may have been deleted with its promises. Who sees all records lists
    what is under way; who does not waits until every start of before must have ended. Under a Lease of its own
    namespace a run depends on no promises of others.
    """
    office = cycle.office
    since = office.unlisted_since()
    if cycle.sight.blind is None or since is None or office.ledger.terms != office.terms.lease:
        return None
    end = since + UNSEEN_PATIENCE * usual_patience(office.terms)
    now = office.clock.sure()
    return end if now is None or now < end else None


def _podsets(batch: Batch, entry: Entry, world: World) -> tuple[PodSet, ...]:
    """What an entry promises; where that cannot be understood, what its record asks for."""
    demand = batch.demand_of(entry)
    try:
        return tuple(declared_podsets(demand, namespace=entry.namespace)) if demand else ()
    except BadInput:
        known = world.gangs.get(entry.uid)
        return known.podsets if known is not None else ()


def _outstanding(entry: Entry, podsets: tuple[PodSet, ...], world: World) -> Outstanding:
    """The pods an entry promises, less those that have a node."""
    pods = world.pods.by_gang.get((entry.namespace, entry.uid), ())
    bound = collections.Counter(pod.podset for pod in pods if pod.bound or pod.finished)
    unbound = [pod for pod in pods if pod.live and not pod.bound]
    exist = collections.Counter(pod.podset for pod in unbound)
    counts = {item.name: max(0, item.count - bound[podset_label(item.name)]) for item in podsets}
    return Outstanding(
        Gang(entry.name, entry.namespace, podsets),
        {name: count for name, count in counts.items() if count},
        existing={name: min(count, exist[podset_label(name)]) for name, count in counts.items()},
        waiting=frozenset((pod.namespace, pod.name) for pod in unbound),
    )
