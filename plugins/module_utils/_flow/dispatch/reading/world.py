# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One reading of the cluster for one cycle: records, tickets, nodes, pods and the live objects of started gangs."""

from __future__ import annotations

import contextlib
import math
import typing as t
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.quota_trees import read_trees
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.size_rules import read_size_rules
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import ListedSource, Source
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import needs_of
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import Lists, find_resource
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import ACTIVE_PHASES, UNDOING
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import is_kept, owner_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory, VersionedKind
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT, DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Places, Sight, Tickets, World
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import DEFAULT_RULES
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records, list_tickets

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
    source: Source | None = None,
    lease: LeaseOptions | None = None,
) -> World:
    """Read everything the records make it necessary to read, all after the epoch began; by lists if not told otherwise.

    places are the namespaces that the records were read in, lease is the one that is held, if not that of the terms.
    """
    source = source or ListedSource(client)
    memory.keep_only({record.uid for record in records})
    rough = [gang for gang, _problem in map(memory.rough_size, records) if gang is not None]
    started = [record for record in records if record.phase in ACTIVE_PHASES]
    mine = terms.namespaces or sorted({record.namespace for record in records})
    snapshot = source.snapshot(needs_of(rough), started, mine)
    if terms.namespaces is None and not snapshot.nodes_visible:
        cause = f"{', '.join(snapshot.notes)}; without that nobody can tell what fits"
        raise BadInput("dispatch to", "all namespaces", cause)
    items = _read_items(source, records, places, memory)
    elastic = [item for item in records if item.spec is not None and item.spec.elastic is not None]
    sizes = {record.uid: memory.size(record, snapshot) for record in records}
    return World(
        snapshot=snapshot,
        gangs={uid: gang for uid, (gang, _problem) in sizes.items() if gang is not None},
        problems={uid: problem for uid, (_gang, problem) in sizes.items() if problem is not None},
        tickets=tickets,
        pods=source.index(_read_parents(client, source, started, places)),
        items=items,
        accounts=_read_accounts(source.lists) if terms.namespaces is None else None,
        unforeseen={record.uid: text for record in records if (text := memory.unforeseen(record)) is not None},
        scopes=_read_scopes(client, [record for record in records if _is_asked(record, terms, memory)]),
        quota=read_trees(source.lists, terms.lease.namespace, snapshot.namespaces, sees_all=places == (None,)),
        sizes=read_size_rules(source.lists, lease or terms.lease) if elastic else DEFAULT_RULES,
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


def read_tickets(
    client: KubeClient,
    records: t.Sequence[Record],
    places: Places,
    *,
    finished: bool = False,
    source: Source | None = None,
) -> dict[str, tuple[Object, ...]]:
    """All tickets by the uid of the record that owns them; see list_tickets."""
    homes = {record.uid: record.namespace for record in records}
    return list_tickets((source or ListedSource(client)).lists, homes, places, finished=finished)


def _read_accounts(lists: Lists) -> frozenset[str]:
    """Namespaces that have the account objects are created with."""
    path = resource_path("v1", "serviceaccounts")
    return frozenset(lists.list(path, keep=_home, field_selector=f"metadata.name={ACCOUNT}").items)


def _read_items(
    source: Source, records: t.Sequence[Record], places: Places, memory: Memory
) -> dict[str, dict[int, Object | None]]:
    """The live objects of started gangs by their place, None where one was not found.

    Only kinds that make pods or that completion asks about are read, each in one list. Of a gang that is still being
    started nobody can tell which objects are gone and which come yet, so only those that exist are told, and those that
    existed when the start last had to wait.
    """
    started = [record for record in records if record.phase in ACTIVE_PHASES]
    watched = {record.uid: memory.watched_items(record) for record in started}
    kinds_of = {uid: {kind for kind, _name in items.values()} for uid, items in watched.items()}
    kinds = sorted(set().union(*kinds_of.values()))
    uids = {kind: [uid for uid, mine in kinds_of.items() if kind in mine] for kind in kinds}
    readers = [partial(source.objects, kind, places, uids[kind]) for kind in kinds]
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
    return found


def _own_object(record: Record, index: int, obj: Object | None) -> Object | None:
    """An object if it is the gang's own: its ticket made it, or, where it is kept, its record; labels prove nothing."""
    if obj is None or record.state is None or record.spec is None:
        return None
    kept = is_kept(record.spec.objects[index])
    owner, _uid = owner_of(obj, record.state.ticket_uid, record.uid if kept else None)
    return obj if owner in ("ticket", "record") else None


def _read_parents(
    client: KubeClient, source: Source, started: t.Iterable[Record], places: Places
) -> dict[str, tuple[str, ...]]:
    """Owners of the objects between items and their pods, which carry no label of ours; pods were read already."""
    specs = [record.spec for record in started if record.spec is not None]
    between = {owner for spec in specs for obj in spec.objects for owner in kind_of(obj).owners}
    parents: dict[str, tuple[str, ...]] = {}
    for owner in sorted(between):
        if owner == _POD:
            parents.update((pod.uid, pod.owner_uids) for pod in source.gang_pods())
            continue
        info = find_resource(client, *owner)
        for path in [] if info is None else map(info.path, places):
            parents.update(source.lists.list(path, keep=_uid_and_owners).items)
    return parents


def _uid_and_owners(raw: Object) -> tuple[str, tuple[str, ...]]:
    """An object's uid and those of its owners."""
    metadata = raw["metadata"]
    return metadata["uid"], tuple(str(owner.get("uid")) for owner in metadata.get("ownerReferences") or ())


def _home(raw: Object) -> str:
    """Where an object lies."""
    return str(raw["metadata"]["namespace"])
