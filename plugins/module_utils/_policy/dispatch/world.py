# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one cycle decides on: one reading of the cluster, as values."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import DISPATCHED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    PodIndex,
    pods_of_gang,
    started_moment,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import demand_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import DEFAULT_RULES, SizeRules
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import Demands, started_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import SpentBudgets
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.decay import Averages

Object = dict[str, t.Any]

# Namespaces to list in; None stands for the whole cluster.
Places = tuple["str | None", ...]


# Pods by namespace and gang.
PodsByGang = t.Mapping[tuple[str, str], t.Sequence[GangPod]]
Tickets = t.Mapping[str, tuple[Object, ...]]


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """What one cycle decides on; gangs holds the demand of every readable record, problems why others have none.

    unforeseen holds errors of ours that sizes came to.
    """

    snapshot: Snapshot
    gangs: t.Mapping[str, Gang]
    problems: t.Mapping[str, str]
    tickets: t.Mapping[str, tuple[Object, ...]]
    pods: PodIndex
    items: t.Mapping[str, t.Mapping[int, Object | None]]
    accounts: frozenset[str] | None
    unforeseen: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Whether kinds of waiting gangs lie in namespaces, by apiVersion and kind, as far as the server tells.
    scopes: t.Mapping[tuple[str, str], bool] = dataclasses.field(default_factory=dict)
    quota: QuotaTrees = NO_TREES
    # What is said to gangs of queues whose budget is spent, by tree and queue.
    spent: SpentBudgets = dataclasses.field(default_factory=dict)
    # What leaves used on average, by tree, where queues are compared by that and it is known.
    averages: t.Mapping[str, Averages] = dataclasses.field(default_factory=dict)
    # By what sizes of elastic gangs are decided; where there are none the settings are not read.
    sizes: SizeRules = DEFAULT_RULES
    # What the trainers of elastic gangs told, by the uid of their records.
    progress: t.Mapping[str, Progress] = dataclasses.field(default_factory=dict)


def without_tickets(world: World, gone: t.Collection[str]) -> World:
    """The world without tickets that were removed since it was read, given by their uids."""
    if not gone:
        return world
    left = {
        uid: tuple(item for item in tickets if item["metadata"]["uid"] not in gone)
        for uid, tickets in world.tickets.items()
    }
    return dataclasses.replace(world, tickets=left)


def pods_of(record: Record, world: World) -> tuple[GangPod, ...]:
    """The pods of a record's present attempt."""
    items = world.items.get(record.uid, {})
    uids = [obj["metadata"]["uid"] for obj in items.values() if obj is not None]
    return tuple(
        pods_of_gang(
            record.uid,
            record.namespace,
            uids,
            world.pods,
            attempt=record.attempt,
            since=started_moment(record.state) if record.state is not None else None,
        )
    )


def used_by(record: Record, world: World) -> Demands:
    """What a started gang keeps reserved, whatever its record asks for by now, and no less than its pods use."""
    return demands_of(record, world.gangs, world.pods.by_gang)


def demands_of(record: Record, gangs: t.Mapping[str, Gang], pods: PodsByGang) -> Demands:
    """The same from the sizes of all gangs and their pods."""

    def asked() -> tuple[PodSet, ...]:
        gang = gangs.get(record.uid)
        return () if gang is None else demand_of(record, gang).podsets

    return started_demands(record, asked, pods.get((record.namespace, record.uid), ()))


def scopes(terms: DispatchOptions) -> Places:
    """The namespaces to list in; None stands for the whole cluster."""
    return (None,) if terms.namespaces is None else terms.namespaces


@dataclasses.dataclass(frozen=True, slots=True)
class Sight:
    """The records a run is for, those of other namespaces, and those that only a newer version understands.

    blind says why the records of other namespaces are not seen; None while they are.
    """

    namespaces: tuple[str, ...] | None
    mine: tuple[Record, ...]
    elsewhere: tuple[Record, ...] = ()
    newer: tuple[Record, ...] = ()
    blind: str | None = None

    def sees(self, namespace: str) -> bool:
        """Whether the records of a namespace were read."""
        return self.namespaces is None or self.blind is None or namespace in self.namespaces

    def unseen(self) -> list[str]:
        """What could not be seen, for the result."""
        return [] if self.blind is None else [f"records and tickets of other namespaces: {self.blind}"]


def misses_its_ticket(record: Record, world: World) -> bool:
    """Whether a gang is said to be started under a ticket that was not among those that were read."""
    state = record.state
    if state is None or record.phase not in DISPATCHED_PHASES:
        return False
    return all(ticket["metadata"]["uid"] != state.ticket_uid for ticket in world.tickets.get(record.uid, ()))
