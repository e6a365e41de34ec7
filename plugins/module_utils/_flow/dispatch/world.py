# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One reading of the cluster for one cycle: records, tickets, nodes, pods and the live objects of started gangs."""

from __future__ import annotations

import collections
import dataclasses
import math
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.ended_pods import MOST_UIDS, read_ended_pods
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.memory import Kind, Memory
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import ACCOUNT, DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.snapshot import (
    LIVING_PODS,
    Reading,
    needs_of,
    read_snapshot,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.snapshot import Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.state import Phase
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import (
    FINISHED_LABEL,
    GANG_LABEL,
    TICKET_LABEL,
    is_kept,
    of_gangs,
    owner_of,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.accounting import (
    PodIndex,
    index_pods,
    pods_of_gang,
    started_moment,
)

Object = dict[str, t.Any]
# Namespaces to list in; None stands for the whole cluster.
Places = tuple["str | None", ...]
Tickets = t.Mapping[str, tuple[Object, ...]]

# Phases in which objects of a gang may exist.
STARTED: tuple[Phase, ...] = ("dispatching", "dispatched", "running", "undoing", "evicting", "unknown")


@dataclasses.dataclass(frozen=True, slots=True)
class World:
    """What one cycle decides on; gangs holds the demand of every readable record, problems why others have none.

    unforeseen holds errors of ours that sizes came to.
    """

    reading: Reading
    gangs: t.Mapping[str, Gang]
    problems: t.Mapping[str, str]
    tickets: t.Mapping[str, tuple[Object, ...]]
    pods: PodIndex
    items: t.Mapping[str, t.Mapping[int, Object | None]]
    accounts: frozenset[str] | None
    kinds: tuple[Kind, ...]
    unforeseen: t.Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def snapshot(self) -> Snapshot:
        """Nodes, pods and rules."""
        return self.reading.snapshot


def read_world(
    client: KubeClient,
    records: t.Sequence[Record],
    terms: DispatchTerms,
    memory: Memory,
    tickets: Tickets,
    *,
    places: Places,
) -> World:
    """Read everything the records make it necessary to read; lists only, all after the epoch began.

    places are the namespaces that the records were read in.
    """
    memory.keep_only({record.uid for record in records})
    rough = [gang for gang, _problem in map(memory.rough_size, records) if gang is not None]
    gang_pods: list[GangPod] = []

    def observe(raw: Object) -> None:
        """Keep more of pods that may belong to a gang."""
        pod = gang_pod_from_api(raw)
        if pod is not None:
            gang_pods.append(pod)

    reading = read_snapshot(client, needs_of(rough), observe)
    if terms.namespaces is None and not reading.snapshot.nodes_visible:
        cause = f"{', '.join(reading.snapshot.notes)}; without that nobody can tell what fits"
        raise BadInput("dispatch to", "all namespaces", cause)
    blind = "pods" in reading.snapshot.unread
    if blind:
        mine = terms.namespaces or sorted({record.namespace for record in records})
        _observe_namespaces(client, mine, observe)
    started = [record for record in records if record.phase in ("dispatching", "dispatched", "running")]
    ended = read_ended_pods(client, started, everywhere=not blind)
    items, kinds = _read_items(client, records, places, memory)
    sizes = {record.uid: memory.size(record, reading.snapshot) for record in records}
    return World(
        reading=reading,
        gangs={uid: gang for uid, (gang, _problem) in sizes.items() if gang is not None},
        problems={uid: problem for uid, (_gang, problem) in sizes.items() if problem is not None},
        tickets=tickets,
        pods=index_pods(_latest(gang_pods, ended), _read_parents(client, records, places)),
        items=items,
        accounts=_read_accounts(client) if terms.namespaces is None else None,
        kinds=kinds,
        unforeseen={record.uid: text for record in records if (text := memory.unforeseen(record)) is not None},
    )


def _latest(living: t.Iterable[GangPod], ended: t.Iterable[GangPod]) -> list[GangPod]:
    """Each pod once; one that ended while pods were read is in both lists, and its end is the later word."""
    return list({pod.uid: pod for pod in (*living, *ended)}.values())


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


def _observe_namespaces(client: KubeClient, namespaces: t.Sequence[str], observe: t.Callable[[Object], None]) -> None:
    """Without the right to list all pods, those of the gangs' own namespaces must do."""
    for namespace in namespaces:
        list_objects(client, resource_path("v1", "pods", namespace), keep=observe, field_selector=LIVING_PODS)


def scopes(terms: DispatchTerms) -> Places:
    """The namespaces to list in; None stands for the whole cluster."""
    return (None,) if terms.namespaces is None else terms.namespaces


def read_tickets(
    client: KubeClient, records: t.Sequence[Record], places: Places, *, finished: bool = False
) -> dict[str, tuple[Object, ...]]:
    """All tickets by the uid of the record that owns them; those without an owner are nobody's business any more.

    Nothing in another namespace than its record's can be its ticket, whatever it says. Tickets of gangs that are over
    are left out by the server where they are marked, unless they are asked for.
    """
    homes = {record.uid: record.namespace for record in records}
    selector = TICKET_LABEL if finished else f"{TICKET_LABEL},!{FINISHED_LABEL}"
    found: dict[str, list[Object]] = collections.defaultdict(list)
    for namespace in places:
        path = resource_path("v1", "configmaps", namespace)
        for ticket in list_objects(client, path, keep=_whole, label_selector=selector).items:
            home = ticket["metadata"]["namespace"]
            for owner in ticket["metadata"].get("ownerReferences") or ():
                if homes.get(str(owner.get("uid")), home) == home:
                    found[str(owner.get("uid"))].append(ticket)
    return {uid: tuple(tickets) for uid, tickets in found.items()}


def _read_accounts(client: KubeClient) -> frozenset[str]:
    """Namespaces that have the account objects are created with."""
    path = resource_path("v1", "serviceaccounts")
    listing = list_objects(client, path, keep=_whole, field_selector=f"metadata.name={ACCOUNT}")
    return frozenset(item["metadata"]["namespace"] for item in listing.items)


def _read_items(
    client: KubeClient, records: t.Sequence[Record], places: Places, memory: Memory
) -> tuple[dict[str, dict[int, Object | None]], tuple[Kind, ...]]:
    """The live objects of started gangs by their place, None where one was not found; and the kinds that were read.

    Only kinds that make pods or that completion asks about are read, each in one list. Of a gang that is still being
    started nobody can tell which objects are gone and which come yet, so only those that exist are told, and those that
    existed when the start last had to wait.
    """
    started = [record for record in records if record.phase in ("dispatching", "dispatched", "running")]
    watched = {record.uid: memory.watched_items(record) for record in started}
    kinds = sorted({kind for items in watched.values() for kind, _name in items.values()})
    uids = {kind: [uid for uid, items in watched.items() if kind in _kinds(items)] for kind in kinds}
    readers = [_kind_reader(client, kind, places, uids[kind]) for kind in kinds]
    live: dict[Kind, dict[tuple[str, str], Object]] = {}
    for kind, objects in zip(kinds, parallel(readers), strict=True):
        if objects is not None:
            live[kind] = {(obj["metadata"]["namespace"], obj["metadata"]["name"]): obj for obj in objects}
    found: dict[str, dict[int, Object | None]] = {}
    for record in started:
        items = {
            index: _own_object(record, index, live[kind].get((record.namespace, name)))
            for index, (kind, name) in watched[record.uid].items()
            if kind in live and record.state is not None and record.state.ticket_uid is not None
        }
        made = record.state.made if record.phase == "dispatching" and record.state is not None else math.inf
        found[record.uid] = {index: obj for index, obj in items.items() if index < made or obj is not None}
    return found, tuple(kinds)


def _own_object(record: Record, index: int, obj: Object | None) -> Object | None:
    """An object if it is the gang's own: its ticket made it, or, where it is kept, its record; labels prove nothing."""
    if obj is None or record.state is None or record.spec is None:
        return None
    kept = is_kept(record.spec.objects[index])
    owner, _uid = owner_of(obj, record.state.ticket_uid, record.uid if kept else None)
    return obj if owner in ("ticket", "record") else None


def _kinds(items: t.Mapping[int, tuple[Kind, str]]) -> set[Kind]:
    """The kinds of a gang's watched items."""
    return {kind for kind, _name in items.values()}


def _gang_label(obj: Object) -> str:
    """The gang an object says it belongs to."""
    return str((obj["metadata"].get("labels") or {}).get(GANG_LABEL))


def _read_parents(client: KubeClient, records: t.Sequence[Record], places: Places) -> dict[str, tuple[str, ...]]:
    """Owners of Jobs that are no items themselves: the submitter of a RayJob carries no label of ours."""
    ray = any(
        record.phase in ("dispatching", "dispatched", "running")
        and any(obj.get("kind") == "RayJob" for obj in record.spec.objects)
        for record in records
        if record.spec is not None
    )
    if not ray:
        return {}
    return {
        job["metadata"]["uid"]: tuple(str(owner.get("uid")) for owner in job["metadata"].get("ownerReferences") or ())
        for namespace in places
        for job in list_objects(client, resource_path("batch/v1", "jobs", namespace), keep=_whole).items
    }


def _kind_reader(
    client: KubeClient, kind: Kind, places: Places, uids: t.Collection[str]
) -> t.Callable[[], list[Object] | None]:
    """The objects of a kind that belong to these gangs; None when they may not be read.

    The objects of gangs that are over stay for their logs, so those of these are asked for by name where an address can
    hold so many.
    """
    selector = of_gangs(uids) if len(uids) <= MOST_UIDS else GANG_LABEL
    wanted = frozenset(uids)

    def keep(raw: Object) -> Object | None:
        """Let go of what belongs to other gangs, so that only decoding it costs anything."""
        return raw if _gang_label(raw) in wanted else None

    def read() -> list[Object] | None:
        """Called in a thread."""
        info = find_resource(client, *kind)
        if info is None:
            return None
        found: list[Object] = []
        try:
            for namespace in places:
                found += list_objects(client, info.path(namespace), keep=keep, label_selector=selector).items
        except (Forbidden, NotFound, ServerFault):
            # A kind whose operator is down must not keep all others waiting.
            return None
        return found

    return read


def _whole(raw: Object) -> Object:
    """Keep an object as it is."""
    return raw
