# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One reading of the cluster for one cycle: records, tickets, nodes, pods and the live objects of started gangs."""

from __future__ import annotations

import collections
import contextlib
import math
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.ended_pods import (
    MOST_UIDS,
    read_ended_pods,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import (
    LIVING_PODS,
    needs_of,
    read_snapshot,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, gang_pod_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import ACTIVE_PHASES, UNDOING
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    FINISHED_LABEL,
    GANG_LABEL,
    TICKET_LABEL,
    is_kept,
    of_gangs,
    owner_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    index_pods,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory, VersionedKind
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT, DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Places, Sight, Tickets, World
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records

Object = dict[str, t.Any]

_POD = ("v1", "Pod")


def read_records(records: Records, terms: DispatchOptions, blind: str | None = None, *, finished: bool) -> Sight:
    """Read the records of all namespaces, or, where this account may not, of those the run is for.

    Finished ones are left out by the server unless they are asked for.

    blind is what an earlier reading found out; an account does not get more rights during a run.
    """
    namespaces = terms.namespaces
    found: list[Record] | None = None
    if blind is None:
        try:
            found = records.list(None, finished=finished)
        except Forbidden as error:
            if namespaces is None:
                raise
            blind = str(error)
    if found is None:
        found = records.list(namespaces, finished=finished)
    ours = [item for item in found if item.newer is None]
    return Sight(
        namespaces=namespaces,
        mine=tuple(item for item in ours if namespaces is None or item.namespace in namespaces),
        elsewhere=tuple(item for item in ours if namespaces is not None and item.namespace not in namespaces),
        newer=tuple(item for item in found if item.newer is not None),
        blind=blind,
    )


def read_world(
    client: KubeClient,
    records: t.Sequence[Record],
    terms: DispatchOptions,
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
    started = [record for record in records if record.phase in ACTIVE_PHASES]
    # A webhook, or a user, may have taken the label off pods; their owners tell all the same.
    homes = {record.namespace for record in started}
    gang_pods: list[GangPod] = []

    def observe(raw: Object, pod: Pod | None = None) -> None:
        """Keep more of pods that may belong to a gang."""
        metadata = raw["metadata"]
        owned = metadata["namespace"] in homes and bool(metadata.get("ownerReferences"))
        ours = owned or GANG_LABEL in (metadata.get("labels") or ())
        found = gang_pod_from_api(raw, pod) if ours else None
        if found is not None:
            gang_pods.append(found)

    snapshot = read_snapshot(client, needs_of(rough), observe).snapshot
    if terms.namespaces is None and not snapshot.nodes_visible:
        cause = f"{', '.join(snapshot.notes)}; without that nobody can tell what fits"
        raise BadInput("dispatch to", "all namespaces", cause)
    blind = "pods" in snapshot.unread
    if blind:
        mine = terms.namespaces or sorted({record.namespace for record in records})
        _observe_namespaces(client, mine, observe)
    ended = read_ended_pods(client, started, everywhere=not blind)
    # A pod that ended while pods were read is in both lists, and its end is the later word.
    pods = list({pod.uid: pod for pod in (*gang_pods, *ended)}.values())
    items, kinds = _read_items(client, records, places, memory)
    sizes = {record.uid: memory.size(record, snapshot) for record in records}
    return World(
        snapshot=snapshot,
        gangs={uid: gang for uid, (gang, _problem) in sizes.items() if gang is not None},
        problems={uid: problem for uid, (_gang, problem) in sizes.items() if problem is not None},
        tickets=tickets,
        pods=index_pods(pods, _read_parents(client, records, places, pods)),
        items=items,
        accounts=_read_accounts(client) if terms.namespaces is None else None,
        kinds=kinds,
        unforeseen={record.uid: text for record in records if (text := memory.unforeseen(record)) is not None},
        scopes=_read_scopes(client, [record for record in records if _is_asked(record, terms, memory)]),
    )


def _is_asked(record: Record, terms: DispatchOptions, memory: Memory) -> bool:
    """Whether this cycle may have to say if a gang may be started; once it said yes nobody asks again."""
    if record.spec is None or not terms.is_for(record) or memory.is_permitted(record):
        return False
    resumed = record.phase == "suspended" and not record.spec.suspended
    return resumed or record.phase in ("queued", *UNDOING)


def _read_scopes(client: KubeClient, records: t.Iterable[Record]) -> dict[tuple[str, str], bool]:
    """Whether the kinds of these gangs lie in namespaces, as far as the server tells."""
    specs = [record.spec for record in records if record.spec is not None]
    kinds = {(str(obj["apiVersion"]), str(obj["kind"])) for spec in specs for obj in spec.objects}
    found: dict[tuple[str, str], bool] = {}
    for kind in sorted(kinds):
        # A group whose server is down must not keep all others waiting; its gangs are asked again before they start.
        with contextlib.suppress(Forbidden, NotFound, ServerFault):
            info = find_resource(client, *kind)
            if info is not None:
                found[kind] = info.namespaced
    return found


def _observe_namespaces(client: KubeClient, namespaces: t.Sequence[str], observe: t.Callable[[Object], None]) -> None:
    """Without the right to list all pods, those of the gangs' own namespaces must do."""
    for namespace in namespaces:
        list_objects(client, resource_path("v1", "pods", namespace), keep=observe, field_selector=LIVING_PODS)


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
) -> tuple[dict[str, dict[int, Object | None]], tuple[VersionedKind, ...]]:
    """The live objects of started gangs by their place, None where one was not found; and the kinds that were read.

    Only kinds that make pods or that completion asks about are read, each in one list. Of a gang that is still being
    started nobody can tell which objects are gone and which come yet, so only those that exist are told, and those that
    existed when the start last had to wait.
    """
    started = [record for record in records if record.phase in ACTIVE_PHASES]
    watched = {record.uid: memory.watched_items(record) for record in started}
    kinds_of = {uid: {kind for kind, _name in items.values()} for uid, items in watched.items()}
    kinds = sorted(set().union(*kinds_of.values()))
    uids = {kind: [uid for uid, mine in kinds_of.items() if kind in mine] for kind in kinds}
    readers = [_kind_reader(client, kind, places, uids[kind]) for kind in kinds]
    live: dict[VersionedKind, dict[tuple[str, str], Object]] = {}
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


def _gang_label(obj: Object) -> str:
    """The gang an object says it belongs to."""
    return str((obj["metadata"].get("labels") or {}).get(GANG_LABEL))


def _read_parents(
    client: KubeClient, records: t.Sequence[Record], places: Places, pods: t.Iterable[GangPod]
) -> dict[str, tuple[str, ...]]:
    """Owners of the objects between items and their pods, which carry no label of ours; pods were read already."""
    started = [record.spec for record in records if record.spec is not None and record.phase in ACTIVE_PHASES]
    between = {owner for spec in started for obj in spec.objects for owner in kind_of(obj).owners}
    parents: dict[str, tuple[str, ...]] = {}
    for owner in sorted(between):
        if owner == _POD:
            parents.update((pod.uid, pod.owner_uids) for pod in pods)
            continue
        info = find_resource(client, *owner)
        for path in [] if info is None else map(info.path, places):
            parents.update(list_objects(client, path, keep=_uid_and_owners).items)
    return parents


def _uid_and_owners(raw: Object) -> tuple[str, tuple[str, ...]]:
    """An object's uid and those of its owners."""
    metadata = raw["metadata"]
    return metadata["uid"], tuple(str(owner.get("uid")) for owner in metadata.get("ownerReferences") or ())


def _kind_reader(
    client: KubeClient, kind: VersionedKind, places: Places, uids: t.Collection[str]
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
        found: list[Object] = []
        try:
            info = find_resource(client, *kind)
            if info is None:
                return None
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
