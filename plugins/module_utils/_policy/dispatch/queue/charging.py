# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who is charged for what of all trees: started gangs, promises of the batch, and pods that nothing else tells of.

The dispatcher decides by it, and whoever is asked what is used answers with it: both count the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import QUEUE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import Applicant, line_up
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import Quotas
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import PodsByGang, demands_of
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    ChargedTree,
    Demands,
    count_gangs,
    leaf_of_record,
    living_demand,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserUse, user_key


@dataclasses.dataclass(frozen=True, slots=True)
class Holders:
    """All that may use quota, as one reading of a cluster shows it.

    records are those of all namespaces that are not over, and that this version understands; gangs the sizes of those
    that can be read, promises what open entries of the batch reserve besides.
    """

    records: Mapping[str, Record]
    gangs: Mapping[str, Gang]
    promises: Mapping[str, Outstanding] = dataclasses.field(default_factory=dict)
    pods: PodsByGang = dataclasses.field(default_factory=dict)

    @property
    def charged(self) -> frozenset[str]:
        """The uids of gangs that are charged by their records, or by entries of the batch."""
        started = (uid for uid, record in self.records.items() if record.phase in STARTED_PHASES)
        return frozenset((*started, *self.promises))

    def living(self, record: Record) -> dict[str, int]:
        """What the pods of a gang ask for that did not end."""
        return living_demand(self.pods.get((record.namespace, record.uid), ()))

    def used_by(self, record: Record) -> Demands:
        """What a started gang is charged with."""
        return demands_of(record, self.gangs, self.pods)


def charge_all(
    quotas: Quotas,
    records: Mapping[str, Record],
    promises: Mapping[str, Outstanding],
    pods: PodsByGang,
    charge_started: Callable[[Record], object],
) -> None:
    """Charge everything that is started or promised; charge_started does it for one started gang."""
    charged = set(promises)
    for record in records.values():
        if record.phase in STARTED_PHASES and record.uid not in promises:
            charged.add(record.uid)
            charge_started(record)
    charge_others(quotas, records, promises, pods, charged)


def charge_others(
    quotas: Quotas,
    records: Mapping[str, Record],
    promises: Mapping[str, Outstanding],
    pods: PodsByGang,
    charged: Collection[str],
) -> None:
    """Charge what is promised, and pods that nothing else tells of; these gangs were charged already, or promised."""
    for uid, item in promises.items():
        seen = records.get(uid)
        named = seen.spec.queue if seen is not None and seen.spec is not None else None
        labels, user = ({}, None) if seen is None else (seen.labels, user_key(seen))
        quotas.charge_promised(item.gang, item.queue or named, labels, user, item.flavors)
    for uid, namespace, queue, demand in left_demands(pods, charged):
        quotas.charge_left(uid, namespace, queue, demand)


def left_demands(pods: PodsByGang, charged: Collection[str]) -> Iterator[tuple[str, str, str | None, dict[str, int]]]:
    """Uid, namespace, queue and demand of pods of gangs that nothing else tells of; these were charged already.

    Their records are gone, or for a newer version only.
    """
    for (namespace, uid), found in pods.items():
        if uid in charged:
            continue
        # Pods that nobody made but their user are outside of gangs, whatever their labels say.
        left = [pod for pod in found if pod.owner_uids]
        for queue in {pod.labels.get(QUEUE_LABEL) for pod in left}:
            yield uid, namespace, queue, living_demand(pod for pod in left if pod.labels.get(QUEUE_LABEL) == queue)


def used_by_users(trees: QuotaTrees, holders: Holders, now: float) -> UserUse | None:
    """What users have in queues that limit them, those that wait in their order; None where no queue does."""
    quotas = Quotas(trees)
    if not quotas.limits_users:
        return None
    charge_all(
        quotas,
        holders.records,
        holders.promises,
        holders.pods,
        lambda record: quotas.charge_started(record, holders.used_by(record)),
    )
    waiting = [one for record in holders.records.values() if (one := applicant(record)) is not None]
    for _line, gang in line_up(waiting, trees.trees, trees.namespaces, now):
        record = holders.records[gang.uid]
        for tree in quotas.usages.values():
            leaf = leaf_of_record(tree.tree, record, trees.namespaces).leaf
            quotas.users.wait(tree.tree.name, leaf.name if leaf is not None else None, user_key(record), record.uid)
    return quotas.users


def applicant(record: Record) -> Applicant | None:
    """What the order needs to know of a record; None when it does not wait to be started."""
    if record.phase != "queued" or record.terminating or record.spec is None or record.spec.suspended:
        return None
    not_before = read_time(record.state.not_before) if record.state else None
    return Applicant(record.uid, record.namespace, record.labels, record.spec, record.submitted, not_before or 0.0)


def charged_trees(trees: QuotaTrees, holders: Holders) -> dict[str, ChargedTree]:
    """Each tree with what is used of it, and how many gangs of its leaves are started and wait."""
    quotas = Quotas(trees)

    def charge(record: Record) -> None:
        quotas.charge_started(record, holders.used_by(record))

    charge_all(quotas, holders.records, holders.promises, holders.pods, charge)
    counted = [record for record in holders.records.values() if not record.finished]
    return {
        name: count_gangs(usage, counted, holders.promises, trees.namespaces) for name, usage in quotas.usages.items()
    }
