# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Finished gangs: set aside, so that what is over costs no cycle anything, and noted where something is left to do.

The label that leaves finished records out of lists only repeats what the state says. All who may edit a record can
set it, so a gang that is merely labelled as finished is found by its ticket, or by the next look at finished records.
"""

from __future__ import annotations

import contextlib
import typing as t
from collections.abc import Iterable, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.removal import attempt_of_ticket
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.publish import project_ends
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._kube.client import parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import settle_replace
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import Store
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import FINISHED_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

Object = dict[str, t.Any]
Tickets = Mapping[str, tuple[Object, ...]]

# So many labels are put right in one cycle; a version without them leaves thousands.
MOST_LABELS = 50


def set_aside(cycle: Cycle, tickets: Tickets) -> dict[str, tuple[Object, ...]]:
    """Take what is over out of the cycle, and what only looks so into it; returns the tickets that are left."""
    cycle.session.unmarked &= tickets.keys()
    seen = {*cycle.records, *cycle.elsewhere, *cycle.aside}
    cycle.records.update(_owners(cycle, {uid: items for uid, items in tickets.items() if uid not in seen}))
    over = [record for record in cycle.records.values() if record.finished]
    hidden = [record for record in cycle.records.values() if not record.finished and not record.labelled]
    ours = [record for record in over if cycle.session.options.may_touch(record.uid)][:MOST_LABELS]
    behind = project_ends(cycle, ours)
    put_labels_right(cycle, [*hidden, *(record for record in ours if record.uid not in behind)])
    mark_tickets(cycle, [ticket for record in ours for ticket in tickets.get(record.uid, ())])
    cycle.finished.update({record.uid: cycle.records.pop(record.uid).phase for record in over})
    gone = {*cycle.finished, *cycle.session.unmarked}
    return {uid: items for uid, items in tickets.items() if uid not in gone}


def note_ends(cycle: Cycle, world: World) -> None:
    """What is left to do for gangs that ended in this cycle: their tickets are marked, their run times noted."""
    changes = cycle.session.journal.peek_changes()
    ended = [after for before, after in changes if after.finished and not before.finished]
    for record in ended:
        _note_end(cycle, record)
    mark_tickets(cycle, [ticket for record in ended for ticket in world.tickets.get(record.uid, ())])
    put_labels_right(cycle, cycle.session.retention.apply(cycle))
    cycle.session.history.save()


def put_labels_right(cycle: Cycle, records: Iterable[Record]) -> None:
    """Write records whose label says something else than their state once more.

    One that cannot be written costs a little in each cycle and is no trouble otherwise.
    """
    written: list[Record] = []

    def write(record: Record) -> None:
        """One record, in a thread."""
        try:
            written.append(cycle.advance(record, record.phase, "", ""))
        except LostLeadership:
            raise
        except (KubeError, BadInput):
            return

    ours = [item for item in records if not item.terminating and cycle.session.options.may_touch(item.uid)]
    cycle.side_by_side([(record, partial(write, record)) for record in ours if not record.labelled])
    for record in written:
        if record.uid in cycle.records:
            cycle.records[record.uid] = record
        if record.finished:
            _note_end(cycle, record)


def _note_end(cycle: Cycle, record: Record) -> None:
    """Remember what estimates and the gang's own ttl need of it."""
    cycle.session.history.note(record)
    cycle.session.retention.note(record)


def _owners(cycle: Cycle, unlisted: Tickets) -> dict[str, Record]:
    """The records of tickets that were not listed: over since the ticket was read, or hidden by a label."""
    namespaces = cycle.session.options.namespaces
    asked = [
        partial(_owner, cycle, uid, items[0])
        for uid, items in unlisted.items()
        if uid not in cycle.session.unmarked
        and not cycle.session.doubts.pausing(f"owner {uid}")
        and attempt_of_ticket(items[0], uid) is not None
        and (namespaces is None or items[0]["metadata"]["namespace"] in namespaces)
    ]
    return {record.uid: record for record in parallel(asked) if record is not None}


def _owner(cycle: Cycle, uid: str, ticket: Object) -> Record | None:
    """The record that owns a ticket; None when it is gone, or may not be read."""
    owner = next(item for item in ticket["metadata"]["ownerReferences"] if item.get("uid") == uid)
    store: Store = "appwrapper" if owner.get("kind") == "AppWrapper" else "configmap"
    try:
        found = cycle.session.records.read(store, ticket["metadata"]["namespace"], str(owner.get("name")))
    except Forbidden:
        return None
    if found is not None and found.uid == uid:
        return found
    cycle.session.doubts.look_later(f"owner {uid}")
    return None


def mark_tickets(cycle: Cycle, tickets: Iterable[Object]) -> None:
    """Have tickets of gangs that are over left out of lists from now on, when there is time for it.

    Until one is marked, and where that cannot be, its record is known to be over for as long as this session lasts.
    """
    marks = []
    for ticket in tickets:
        metadata = ticket["metadata"]
        cycle.session.unmarked.update(str(owner.get("uid")) for owner in metadata.get("ownerReferences") or ())
        marks.append(Task(("ticket", metadata["uid"]), metadata["namespace"], partial(_mark_ticket, cycle, ticket)))
    cycle.session.workers.begin(marks)


def _mark_ticket(cycle: Cycle, ticket: Object) -> None:
    """Mark one ticket; nobody is told where that cannot be."""
    metadata = ticket["metadata"]
    labels = {**(metadata.get("labels") or {}), FINISHED_LABEL: "true"}
    body = {**ticket, "metadata": {**metadata, "labels": labels}}
    path = resource_path("v1", "configmaps", metadata["namespace"], metadata["name"])
    session = cycle.session
    with contextlib.suppress(KubeError):
        settle_replace(session.client, path, body, "true", _mark_of, allowance=session.lease.write_timeout, tries=1)


def _mark_of(ticket: Object) -> str | None:
    """Whether a ticket is marked, as the text of its label."""
    return (ticket["metadata"].get("labels") or {}).get(FINISHED_LABEL)
