# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Room promised by open entries of the batch to gangs whose records do not tell it."""

from __future__ import annotations

import collections.abc
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import podset_label
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World


def promised_elsewhere(batch: Batch | None, records: Mapping[str, Record], world: World) -> dict[str, Outstanding]:
    """What each gang with an open entry still gets whose record is not seen, or does not say that it was started.

    Gangs whose records say so are counted by what their objects want.
    """
    promised: dict[str, Outstanding] = {}
    for entry in batch.entries if batch is not None else ():
        record = records.get(entry.uid)
        if entry.op != "start" or (record is not None and record.phase in STARTED_PHASES and entry.uid in world.gangs):
            continue
        podsets = _podsets(batch, entry, world) if batch is not None else ()
        promised[entry.uid] = _outstanding(entry, podsets, world)
    return promised


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
