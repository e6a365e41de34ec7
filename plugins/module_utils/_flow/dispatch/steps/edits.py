# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Edits: objects and podsets that are changed after a gang was started count only when it is started the next time.

What was started is known from the cluster alone: the ticket lists the objects, the state what was reserved for them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle, StartedAs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import DISPATCHED_PHASES, GangState
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    plan_objects,
    ticket_name,
    ticket_places,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_named
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    ObjectKey,
    api_group,
    group_and_kind,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Tickets
from ansible_collections.muster.kube.plugins.module_utils._store.events import post_event

Object = dict[str, t.Any]

EDITED = "Edited"


def ignore_edits(cycle: Cycle, tickets: Tickets) -> None:
    """Go on with what was started wherever a record says something else by now; an Event tells its user."""
    session = cycle.session
    for uid, found in read_edited(session.client, session.memory, cycle.records, tickets, session.started).items():
        record = cycle.records[uid]
        cycle.records[uid] = dataclasses.replace(record, spec=found.spec)
        if found.lost is not None:
            cycle.lost[uid] = found.lost
        edited, started = session.memory.digest(record), record.state.digest if record.state is not None else None
        if session.edited.get(uid, started) != edited:
            session.edited[uid] = edited
            message = "the objects were edited after the start; that is ignored until the gang is started again"
            post_event(session.client, record.raw, EDITED, message, "Warning", session.now_text())


def read_edited(
    client: KubeClient,
    memory: Memory,
    records: t.Mapping[str, Record],
    tickets: Tickets,
    known: dict[str, StartedAs],
) -> dict[str, StartedAs]:
    """What edited gangs were started with, by record.

    What was found out is kept in known and holds until the record changes: that its objects live is seen with all
    others from then on.
    """
    found: dict[str, StartedAs] = {}
    for uid, record in records.items():
        state = record.state
        if state is None or record.phase not in DISPATCHED_PHASES or not is_edited(memory, record):
            continue
        if uid not in known or known[uid].resource_version != record.resource_version:
            name = ticket_name(uid, state.attempt)
            ticket = next((item for item in tickets.get(uid, ()) if item["metadata"]["name"] == name), None)
            if ticket is None:
                continue
            known[uid] = _started_as(client, memory, record, state, ticket)
        found[uid] = known[uid]
    return found


def _started_as(client: KubeClient, memory: Memory, record: Record, state: GangState, ticket: Object) -> StartedAs:
    """What a record was started with, as its ticket and the cluster tell."""
    sized, _problem = memory.rough_size(record)
    objects, gone = _objects(client, record, ticket)
    # Without an object that may make pods it is unknown how the gang's work ended.
    missed = [key for index, key in gone if index not in state.outcomes and _may_make_pods(key)]
    lost = f"{missed[0].kind} {missed[0].name}" if missed else None
    return StartedAs(record.resource_version, started_spec(record, state, objects, sized), lost)


def is_edited(memory: Memory, record: Record) -> bool:
    """Whether a record says something else by now than what was started from it."""
    state = record.state
    return state is not None and state.digest is not None and memory.digest(record) != state.digest


def started_spec(record: Record, state: GangState, objects: t.Sequence[Object], sized: Gang | None) -> GangSpec:
    """The specification with the objects and sizes of the start; all other settings are those of now."""
    now = record.spec or GangSpec(record.name, record.namespace, ())
    templates = {podset.name: podset.template for podset in sized.podsets} if sized is not None else {}
    podsets = tuple(_declared(size, templates.get(size["name"])) for size in state.reserved)
    return dataclasses.replace(
        now,
        objects=tuple(objects),
        podsets=podsets or None,
        completion=_completion(record, now, objects),
    )


def _declared(size: t.Mapping[str, t.Any], template: t.Mapping[str, t.Any] | None) -> Object:
    """A podset as it was reserved; its placement rules are those of the podset that has its name now."""
    declared = {
        "name": size["name"],
        "count": size["count"],
        "requests": {name: amount for name, amount in size["requests"].items() if name != "pods"},
    }
    if template is not None:
        labels = (template.get("metadata") or {}).get("labels") or {}
        declared.update({"spec": dict(template.get("spec") or {}), "labels": dict(labels)})
    return declared


def _completion(record: Record, now: GangSpec, objects: t.Sequence[Object]) -> tuple[Object, ...] | None:
    """The rules about objects that were started, under their places there; without any the kinds decide."""
    if not now.completion:
        return now.completion
    places = {_name(obj): index for index, obj in enumerate(objects)}
    asked = {item.index: places.get(_name(item.object)) for item in _plan(record)}
    kept = [
        {**entry, "item": asked[entry["item"]]} if "item" in entry else dict(entry)
        for entry in now.completion
        if "item" not in entry or asked.get(entry["item"]) is not None
    ]
    return tuple(kept) or None


def _objects(client: KubeClient, record: Record, ticket: Object) -> tuple[list[Object], list[tuple[int, ObjectKey]]]:
    """The objects that were started, as the record has them, else as they live; and the places of those gone.

    Each has the place it had then, since outcomes are noted by places: what is gone, or was kept from an earlier
    attempt and is not listed, leaves an object there that means nothing.
    """
    known = {_name(item.object): item.object for item in _plan(record)}
    places = ticket_places(ticket)
    keys = [key for _index, key in places]
    live = _live(
        client,
        record,
        {key.versioned_kind for key in keys if _key_name(key) not in known and _may_make_pods(key)},
    )
    objects = [_nothing(index) for index in range(max((index for index, _key in places), default=-1) + 1)]
    gone: list[tuple[int, ObjectKey]] = []
    for index, key in places:
        found = live.get(key.versioned_kind, {key.name: _unseen(key)})
        obj = known.get(_key_name(key)) or found.get(key.name)
        if obj is None:
            gone.append((index, key))
        else:
            objects[index] = obj
    return objects, gone


def _nothing(place: int) -> Object:
    """An object without pods, of a name that none can have."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"-{place}"}}


def _may_make_pods(key: ObjectKey) -> bool:
    """Whether objects of this kind make pods, or may."""
    return kind_named(*key.versioned_kind).may_make_pods


def _plan(record: Record) -> t.Iterable[t.Any]:
    """The objects as they would be started now; none when the record cannot be read."""
    if record.spec is None:
        return ()
    try:
        return plan_objects(record.spec, record.uid, record.attempt)
    except BadInput:
        return ()


def _live(
    client: KubeClient, record: Record, kinds: t.Collection[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, Object]]:
    """The gang's objects of these kinds by their names, one list for each kind; without those that may not be seen."""
    found: dict[tuple[str, str], dict[str, Object]] = {}
    for kind in sorted(kinds):
        with contextlib.suppress(Forbidden, NotFound, ServerFault):
            info = find_resource(client, *kind)
            if info is None:
                found[kind] = {}
                continue
            path, selector = info.path(record.namespace), f"{GANG_LABEL}={record.uid}"
            listed = list_objects(client, path, keep=lambda raw: raw, label_selector=selector).items
            found[kind] = {obj["metadata"]["name"]: obj for obj in listed}
    return found


def _unseen(key: ObjectKey) -> Object:
    """What stands for an object that is not read: without pods of its own nothing but its name matters."""
    return {"apiVersion": key.api_version, "kind": key.kind, "metadata": {"name": key.name}}


def _name(obj: t.Mapping[str, t.Any]) -> tuple[str, str, str]:
    """Group, kind and name of a planned or live object."""
    return (*group_and_kind(obj), str(obj["metadata"]["name"]))


def _key_name(key: ObjectKey) -> tuple[str, str, str]:
    """Group, kind and name in a ticket's list."""
    return api_group(key.api_version), key.kind, key.name
