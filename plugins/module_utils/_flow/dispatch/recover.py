# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recovering: settle what the last batch left open, and bring every half-done start or undo to an end.

Nothing here asks how it came to be: a dispatcher that was killed, one that lost its Lease and the last cycle of this
very process leave the same traces in the cluster, and those are all there is to go by.
"""

from __future__ import annotations

import typing as t
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.gangs import plan_of, reserved_of
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import FINISHED, World
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record, Records
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.batch import (
    BATCH_ANNOTATION,
    Batch,
    Entry,
    abandon,
    batch_problem,
    batch_text,
    read_batch,
    unsettled,
)
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.state import TAKEN_OVER, Phase
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import Plan

Object = dict[str, t.Any]

# Phases whose tickets are somebody's business already: the start is finished, or the undo goes on.
HALFWAY: tuple[Phase, ...] = ("dispatching", "undoing", "evicting")


def recover(cycle: Cycle, world: World) -> frozenset[str]:
    """Uids of records whose entry in the last batch could not be settled; while there are any, no new batch may be."""
    office = cycle.office
    annotations = {BATCH_ANNOTATION: text} if (text := office.ledger.batch_text()) is not None else {}
    epoch = office.ledger.epoch
    recreated = office.fresh and epoch is not None and epoch.transitions == 0
    if recreated or batch_problem(annotations) is not None:
        # Nobody knows what a holder of the lost ledger still has in hand: a write of ours ends its compare-and-swap.
        _claim_all(cycle)
    office.fresh = False
    batch = read_batch(annotations)
    settled = batch is None or batch.id == office.settled_batch
    left = frozenset() if batch is None or settled else _settle(cycle, world, batch)
    _mind_tickets(cycle, world)
    for record in list(cycle.records.values()):
        if record.uid in cycle.skipped:
            continue
        if record.phase == "dispatching":
            _resume(cycle, record)
        elif record.phase == "undoing":
            finish_undo(cycle, record)
    return left


def _claim_all(cycle: Cycle) -> None:
    """Write every record that is not finished once, unchanged but for our write id."""
    records = [record for record in cycle.records.values() if record.phase not in FINISHED]
    cycle.in_parallel([partial(cycle.carry_out, record, cycle.office.engine.reclaim) for record in records])


def _settle(cycle: Cycle, world: World, batch: Batch) -> frozenset[str]:
    """Write the batch's id into every record that was never touched; what cannot be written is abandoned."""
    elsewhere, unknown = _records_elsewhere(cycle, batch)
    known = {**cycle.refused, **cycle.records, **elsewhere}
    carried = {uid: record.state.batch if record.state is not None else None for uid, record in known.items()}
    left = set(unknown)
    for entry in unsettled(batch, carried):
        record = known[entry.uid]
        try:
            settled = cycle.advance(record, record.phase, "", "", batch=batch.id)
        except LostLeadership:
            raise
        except ObjectGone:
            cycle.records.pop(entry.uid, None)
            continue
        except Superseded:
            left.add(entry.uid)
            continue
        except (KubeError, BadInput) as error:
            batch = _abandon(cycle, world, batch, entry, error)
            continue
        if entry.uid in cycle.records:
            cycle.keep(record, settled)
        cycle.decide(settled, "recover", "Settled", f"the {entry.op} that was decided before was not begun")
    if not left:
        cycle.office.settled_batch = batch.id
    return frozenset(left)


def _records_elsewhere(cycle: Cycle, batch: Batch) -> tuple[dict[str, Record], set[str]]:
    """Records of entries outside the namespaces this run looks at, and entries of which nothing may be learned.

    The Lease is shared with dispatchers of other namespaces, and their entries must be settled before we decide.
    """
    namespaces = cycle.office.terms.namespaces
    strange = [item for item in batch.entries if namespaces is not None and item.namespace not in namespaces]
    found: dict[str, Record] = {}
    unknown: set[str] = set()
    for namespace in sorted({item.namespace for item in strange if not item.abandoned}):
        uids = {item.uid for item in strange if item.namespace == namespace and not item.abandoned}
        try:
            records = Records(cycle.office.client, every_wrapper=True).list([namespace])
        except Forbidden as error:
            cycle.warnings.append(f"nothing can be started before the last batch is settled: {error}")
            unknown |= uids
            continue
        found.update({record.uid: record for record in records if record.uid in uids})
    return found, unknown


def _abandon(cycle: Cycle, world: World, batch: Batch, entry: Entry, error: Exception) -> Batch:
    """Give an entry up whose record cannot be written: first nothing of it may be left, then the Lease says so."""
    for ticket in world.tickets.get(entry.uid, ()):
        if entry.op == "start":
            cycle.office.engine.remove_ticket(ticket)
    marked = abandon(batch, entry.uid)
    cycle.office.ledger.commit(batch_text(marked))
    cycle.warnings.append(f"{entry.namespace}/{entry.name}: its {entry.op} was abandoned: {error}")
    cycle.skipped.add(entry.uid)
    return marked


def _named(record: Record, ticket: Object) -> bool:
    """Whether the record's state says that this is its ticket."""
    return record.state is not None and record.state.ticket_uid == ticket["metadata"]["uid"]


def _mind_tickets(cycle: Cycle, world: World) -> None:
    """A record whose objects live under a ticket goes on with it, whatever its annotation says; other tickets go."""
    engine = cycle.office.engine
    for uid, tickets in world.tickets.items():
        record = cycle.records.get(uid)
        if record is None and uid not in cycle.refused and cycle.office.terms.only is None:
            _clear_after(cycle, tickets)
        if record is None or uid in cycle.skipped:
            continue
        alive = [item for item in tickets if not item["metadata"].get("deletionTimestamp")]
        strange = [item for item in alive if not _named(record, item)]
        settled = len(strange) < len(alive) or record.phase in HALFWAY
        newest = None if settled else max(strange, key=_attempt, default=None)
        for ticket in strange:
            if ticket is not newest:
                engine.remove_ticket(ticket)
        if newest is not None:
            _rebuild(cycle, record, newest, world)


def _clear_after(cycle: Cycle, tickets: t.Iterable[Object]) -> None:
    """Remove what a deleted record has left; the collector does so too, but may take its time."""
    for ticket in tickets:
        try:
            cycle.office.engine.remove_bereaved(ticket)
        except LostLeadership:
            raise
        except KubeError as error:
            cycle.warnings.append(f"{ticket['metadata']['namespace']}/{ticket['metadata']['name']}: {error}")


def _attempt(ticket: Object) -> int:
    """The number of a ticket's attempt, 0 when it has none that can be read."""
    text = str((ticket.get("data") or {}).get("attempt", ""))
    return int(text) if text.isdecimal() else 0


def _rebuild(cycle: Cycle, record: Record, ticket: Object, world: World) -> None:
    """Go on with an attempt whose record says nothing of it; a ticket that owns nothing is just removed."""
    gang = world.gangs.get(record.uid)
    reserved = reserved_of(gang) if gang is not None else ()
    rebuilt = cycle.carry_out(record, lambda old: cycle.office.engine.rebuild(old, ticket, reserved))
    if rebuilt is not None and rebuilt is not record:
        cycle.decide(rebuilt, "recover", TAKEN_OVER, "its state was lost while objects of it exist")


def _resume(cycle: Cycle, record: Record) -> None:
    """Finish or undo a start that somebody left half done."""
    engine, state = cycle.office.engine, record.state
    if state is None:
        return
    mine = cycle.office.terms.may_touch(record.uid)
    plan = plan_or_nothing(record)
    if mine and plan is not None:
        resumed = cycle.carry_out(record, lambda old: engine.resume(old, plan))
    else:
        message = "its start was left half done"
        resumed = cycle.carry_out(
            record, lambda old: engine.undo(old, TAKEN_OVER, message, batch=state.batch, then="queued")
        )
    if resumed is not None:
        cycle.decide(resumed, "recover", TAKEN_OVER, f"a start left half done is now {resumed.phase}")


def finish_undo(cycle: Cycle, record: Record) -> None:
    """Put an undone gang back into the queue, or where it belongs, once nothing of it is left."""
    plan = plan_or_nothing(record) or ()
    finished = cycle.carry_out(record, lambda old: cycle.office.engine.finish_undo(old, plan))
    if finished is not None and finished.phase != "undoing":
        last = finished.state.transitions[-1] if finished.state is not None and finished.state.transitions else None
        action = {"failed": "fail", "suspended": "suspend", "complete": "complete"}.get(finished.phase, "queue")
        cycle.decide(finished, t.cast(t.Any, action), last.reason if last else "", last.message if last else "")


def plan_or_nothing(record: Record) -> Plan | None:
    """The objects of the present attempt; None when the record can no longer be read."""
    steering = record.state.steering if record.state is not None else {}
    try:
        return plan_of(record, record.attempt, steering)
    except BadInput:
        return None
