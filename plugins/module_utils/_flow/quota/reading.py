# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses what: records, promises and pods of all namespaces, counted as the dispatcher counts them."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._engine.removal import as_begun
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import (
    LIVING_PODS,
    PAGE,
    needs_of,
    read_snapshot,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import GANG_LABEL, ticket_keys
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    Outstanding,
    PodIndex,
    index_pods,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import (
    Evidence,
    promised_elsewhere,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import Holders, charged_trees
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Sight, Tickets, World
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree, reserved_demands
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records, list_tickets
from ansible_collections.muster.kube.plugins.module_utils._store.under_way import batch_of_lease, read_lease

Object = dict[str, t.Any]


# What is told where the records of others may not be listed.
UNSEEN_NOTE = "this account may not list the records of all gangs, so that nobody can tell what is used"
# Group, kind, namespace and name of an object.
Identity = tuple[str, str, str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class OutsidePod:
    """A pod that no gang is charged for: where it is, what it asks for, and the object that made it."""

    namespace: str
    requests: Mapping[str, int]
    owner: Identity | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class UseReading:
    """All that uses quota, None where the records of all namespaces may not be listed, and the labels of namespaces.

    outside are the pods that count nothing; None where pods may not be listed.
    """

    holders: Holders | None
    namespace_labels: Mapping[str, Mapping[str, str]]
    notes: tuple[str, ...] = ()
    outside: tuple[OutsidePod, ...] | None = None

    def charged(self, tree: QuotaTree) -> ChargedTree | None:
        """What gangs use of a tree; None where they may not be seen."""
        if self.holders is None:
            return None
        # Gangs are charged whoever counts for the tree: what dispatchers have started is told of in any case.
        counted = tree if tree.counted_by == "embedded" else dataclasses.replace(tree, backends=("embedded",))
        return charged_trees(QuotaTrees((counted,), namespaces=self.namespace_labels), self.holders)[tree.name]


NO_USE = UseReading(Holders({}, {}), {})


def read_use(client: KubeClient, lease: LeaseOptions) -> UseReading:
    """Read what is needed to say what is used of any tree; what may not be seen is told in the notes."""
    notes: list[str] = []
    holders: Holders | None = None
    outside: tuple[OutsidePod, ...] | None = None
    labels: dict[str, Mapping[str, str]] = {}
    try:
        holders, outside = _read_holders(client, lease, notes)
    except Forbidden:
        notes.append(UNSEEN_NOTE)
    try:
        found = list_objects(client, resource_path("v1", "namespaces"), keep=named_labels).items
        labels = dict(found)
    except Forbidden:
        notes.append("this account may not list namespaces, so that no selector of a queue holds any")
    return UseReading(holders, labels, tuple(notes), outside)


def _read_holders(
    client: KubeClient, lease: LeaseOptions, notes: list[str]
) -> tuple[Holders, tuple[OutsidePod, ...] | None]:
    """Records, tickets, pods and the batch of all namespaces, as a dispatcher that sees all of them counts them."""
    store = Records(client, every_wrapper=wrapper_problem(client) is None)
    found = store.list(None, finished=False)
    living = [record for record in found if record.newer is None and not record.finished]
    tickets = list_tickets(FreshLists(client), {record.uid: record.namespace for record in found}, (None,))
    records = {record.uid: as_begun(record, tickets.get(record.uid, ())) for record in living}
    gangs = _sizes(client, records)
    try:
        pods = _read_pods(client)
    except Forbidden:
        notes.append("this account may not list pods, so that only what gangs keep reserved is counted")
        pods = None
    index = index_pods(pod for pod in pods or () if isinstance(pod, GangPod))
    promises = _promises(client, lease, found, records, gangs, tickets, index)
    holders = Holders(records, gangs, promises, index.by_gang)
    return holders, None if pods is None else tuple(_outside(pods, holders, tickets))


def _read_pods(client: KubeClient) -> list[GangPod | OutsidePod]:
    """All pods that did not end: those with the label of a gang, and those without."""
    pods: list[GangPod | OutsidePod] = []

    def keep(raw: Object) -> None:
        pods.append(_kept_pod(raw))

    list_objects(client, resource_path("v1", "pods"), keep=keep, limit=PAGE, field_selector=LIVING_PODS)
    return pods


def _kept_pod(raw: Object) -> GangPod | OutsidePod:
    """Of a pod outside of gangs only what it asks for is kept."""
    metadata = raw["metadata"]
    found = gang_pod_from_api(raw) if GANG_LABEL in (metadata.get("labels") or ()) else None
    if found is not None:
        return found
    owner = next(iter(metadata.get("ownerReferences") or ()), None)
    made_by = None
    if owner is not None:
        key = ObjectKey(
            str(owner.get("apiVersion")), str(owner.get("kind")), metadata["namespace"], str(owner.get("name"))
        )
        made_by = key.identity
    return OutsidePod(metadata["namespace"], running_pod_requests(raw), made_by)


def _outside(pods: t.Iterable[GangPod | OutsidePod], holders: Holders, tickets: Tickets) -> t.Iterator[OutsidePod]:
    """The pods that nobody is charged for; a label that somebody wrote on a pod of his own makes it no gang's.

    Pods of started gangs whose templates take no label are those of their objects.
    """
    charged = holders.charged
    made = {key.identity for found in tickets.values() for ticket in found for key in ticket_keys(ticket)}
    for pod in pods:
        if isinstance(pod, OutsidePod):
            if pod.owner not in made:
                yield pod
        elif pod.gang not in charged and not pod.owner_uids and not pod.finished:
            yield OutsidePod(pod.namespace, pod.requests)


def _sizes(client: KubeClient, records: Mapping[str, Record]) -> dict[str, Gang]:
    """What gangs ask for by their records; of started ones that reserve nothing, with the rules of namespaces."""
    memory = Memory()
    rough = {uid: gang for uid, record in records.items() if (gang := memory.rough_size(record)[0]) is not None}
    bare = [uid for uid in rough if _tells_no_reservation(records[uid])]
    if bare:
        snapshot = read_snapshot(client, needs_of([rough[uid] for uid in bare]), pods=False).snapshot
        sized = {uid: memory.size(records[uid], snapshot)[0] for uid in bare}
        rough.update({uid: gang for uid, gang in sized.items() if gang is not None})
    return rough


def _tells_no_reservation(record: Record) -> bool:
    """Whether a gang was started and its state does not say what is reserved for it."""
    return record.phase in STARTED_PHASES and (record.state is None or not reserved_demands(record.state))


def _promises(
    client: KubeClient,
    lease: LeaseOptions,
    found: t.Sequence[Record],
    records: Mapping[str, Record],
    gangs: Mapping[str, Gang],
    tickets: Tickets,
    pods: PodIndex,
) -> dict[str, Outstanding]:
    """What open entries of the batch reserve for gangs whose records do not say so."""
    batch = batch_of_lease(read_lease(client, lease)).batch
    if batch is None:
        return {}
    world = World(Snapshot(), gangs, {}, tickets, pods, {}, None)
    newer = tuple(record for record in found if record.newer is not None)
    sight = Sight(None, tuple(records.values()), newer=newer)
    now = client.server_time.timestamp() if client.server_time else None
    evidence = Evidence(records, {}, {record.uid for record in newer}, sight, world, DispatchOptions(lease=lease), now)
    return promised_elsewhere(evidence.open_batch(batch), records, world)


def named_labels(raw: Object) -> tuple[str, Mapping[str, str]]:
    """Name and labels of a namespace."""
    return raw["metadata"]["name"], raw["metadata"].get("labels") or {}
