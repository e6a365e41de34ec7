# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Going on with what was left: entries of the batch that were not begun, starts and undos half done, stray tickets.

Nothing here asks how it came to be: a dispatcher that was killed, one that lost its Lease and the last cycle of this
very process leave the same traces in the cluster, and those are all there is to go by. Each record is looked after on
its own, and one that gives trouble pauses alone.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Callable, Iterator
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.removal import attempt_of_ticket
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, is_final
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import TAKEN_OVER, Phase
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import open_entries
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import reserved_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import start_is_overdue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import Evidence, standing_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

Object = dict[str, t.Any]
Call = tuple[Record, Callable[[], object]]

# Phases whose tickets are somebody's business already: the start is finished, or the undo goes on.
HALFWAY: tuple[Phase, ...] = ("dispatching", "undoing", "evicting")


def recover(cycle: Cycle, world: World) -> None:
    """Go on with what was left, several gangs at once."""
    batch = cycle.office.batch().batch
    if batch is not None:
        cycle.side_by_side(list(_settlements(cycle, world, batch)))
    cycle.side_by_side(list(_stray_tickets(cycle, world)))
    cycle.office.workers.run(list(_bereaved_tickets(cycle, world)))
    cycle.side_by_side(list(_half_done(cycle, world)))


# Entries of the batch.


def evidence_of(cycle: Cycle, world: World) -> Evidence:
    """What tells this cycle how far the starts are that were promised room."""
    office = cycle.office
    batch = office.batch().batch
    if batch is not None:
        office.over &= {(entry.uid, entry.batch) for entry in batch.entries}
    return Evidence(
        cycle.records,
        cycle.elsewhere,
        cycle.aside,
        cycle.sight,
        world,
        office.terms,
        office.clock.sure(),
        busy={*cycle.busy, *office.workers.busy},
        over=office.over,
    )


def _settlements(cycle: Cycle, world: World, batch: Batch) -> Iterator[Call]:
    """One call for each entry whose record was not touched since the commit."""
    for entry in batch.entries:
        record = cycle.records.get(entry.uid)
        known = (entry.uid, entry.batch) in cycle.office.over
        if record is None or known or not cycle.at_rest(record):
            continue
        if standing_of(entry, record.state) == "not_begun":
            yield record, partial(_settle, cycle, world, entry, record)


def _settle(cycle: Cycle, world: World, entry: Entry, record: Record) -> None:
    """Write the entry's batch into its record: whoever committed it can then not begin any more."""
    try:
        settled = cycle.advance(record, record.phase, "", "", batch=entry.batch)
    except LostLeadership:
        raise
    except ObjectGone:
        cycle.records.pop(entry.uid, None)
    except Superseded:
        cycle.skip(record)
    except (KubeError, BadInput) as error:
        if isinstance(error, BadInput) or is_final(error) or _is_overdue(cycle, entry):
            cycle.carry_out(record, lambda _old: _give_up(cycle, world, entry))
        cycle.skip(record, f"its {entry.op} was not begun, and its record cannot be written: {error}")
    else:
        cycle.keep(record, settled)
        cycle.decide(settled, "recover", "Settled", f"the {entry.op} that was decided before was not begun")


def _is_overdue(cycle: Cycle, entry: Entry) -> bool:
    """Whether an entry that was never begun is so old that its room is for others: no request about it is under way."""
    office, sure = cycle.office, cycle.office.clock.sure()
    # Longer than any request of whoever committed it can have been on its way.
    least = 2.0 * office.ledger.terms.seconds
    end = entry.at + max(office.terms.start_timeout, entry.patience, least)
    return bool(entry.at) and sure is not None and sure > end


def _give_up(cycle: Cycle, world: World, entry: Entry) -> None:
    """End an entry whose record cannot be written: first nothing of it may be left."""
    for ticket in world.tickets.get(entry.uid, ()):
        if entry.op == "start":
            cycle.office.engine.remove_ticket(ticket)
    cycle.office.over.add((entry.uid, entry.batch))


# Tickets.


def _named(record: Record, ticket: Object) -> bool:
    """Whether the record's state says that this is the ticket of its attempt; anybody can write something else."""
    state, attempt = record.state, attempt_of_ticket(ticket, record.uid)
    return state is not None and (state.ticket_uid, state.attempt) == (ticket["metadata"]["uid"], attempt)


def _stray_tickets(cycle: Cycle, world: World) -> Iterator[Call]:
    """Calls for records with tickets that they do not name."""
    for uid, tickets in world.tickets.items():
        record = cycle.records.get(uid)
        if record is None or not cycle.at_rest(record):
            continue
        alive = [item for item in tickets if not item["metadata"].get("deletionTimestamp")]
        if not all(_named(record, item) for item in alive):
            yield record, partial(_mind_tickets, cycle, world, record, alive)


def _bereaved_tickets(cycle: Cycle, world: World) -> Iterator[Task]:
    """Calls for tickets whose record is gone; a run for single gangs leaves those of others alone."""
    namespaces = cycle.office.terms.namespaces
    seen = {*cycle.records, *cycle.elsewhere, *cycle.aside}
    for uid, tickets in world.tickets.items():
        mine = [item for item in tickets if namespaces is None or item["metadata"]["namespace"] in namespaces]
        key = f"bereaved {uid}"
        if mine and uid not in seen and cycle.office.terms.only is None and not cycle.office.doubts.pausing(key):
            cycle.office.doubts.look_later(key)
            yield Task(("bereaved", uid), mine[0]["metadata"]["namespace"], partial(_clear_after, cycle, mine))


def _mind_tickets(cycle: Cycle, world: World, record: Record, alive: list[Object]) -> None:
    """A record whose objects live under a ticket goes on with it, whatever its annotation says; other tickets go."""
    strange = [item for item in alive if not _named(record, item)]
    settled = len(strange) < len(alive) or record.phase in HALFWAY
    newest = None if settled else max(strange, key=lambda item: attempt_of_ticket(item, record.uid) or 0, default=None)

    def mind(old: Record) -> Record | None:
        """All about one record."""
        for ticket in strange:
            if ticket is not newest:
                cycle.office.engine.remove_ticket(ticket)
        return None if newest is None else _rebuild(cycle, old, newest, world)

    cycle.carry_out(record, mind)


def _clear_after(cycle: Cycle, tickets: t.Iterable[Object]) -> None:
    """Remove what a deleted record has left; the collector does so too, but may take its time."""
    for ticket in tickets:
        try:
            cycle.office.engine.remove_bereaved(ticket)
        except LostLeadership:
            raise
        except KubeError as error:
            cycle.office.journal.warn(f"{ticket['metadata']['namespace']}/{ticket['metadata']['name']}: {error}")


def _rebuild(cycle: Cycle, record: Record, ticket: Object, world: World) -> Record | None:
    """Go on with an attempt whose record says nothing of it; a ticket that owns nothing is just removed."""
    clock, end = cycle.office.clock, _end_of_start(cycle, record, ticket)
    sure = clock.sure()
    if clock.now() > end and (sure is None or sure <= end):
        # Whether it was started whole decides if it goes on or has failed, so the time must be certain.
        cycle.skip(record)
        return None
    gang = world.gangs.get(record.uid)
    reserved = reserved_of(gang) if gang is not None else ()
    rebuilt = cycle.office.engine.rebuild(record, ticket, reserved, whole=clock.now() > end)
    if rebuilt is record:
        return None
    cycle.decide(rebuilt, "recover", TAKEN_OVER, "its state was lost while objects of it exist")
    return rebuilt


def _end_of_start(cycle: Cycle, record: Record, ticket: Object) -> float:
    """Until when the start of a ticket took at the most; whoever began it may have more patience than this run."""
    batch = cycle.office.batch().batch
    told = [entry.patience for entry in batch.entries if entry.uid == record.uid] if batch is not None else []
    made = read_time(ticket["metadata"].get("creationTimestamp"))
    return math.inf if made is None else made + max(cycle.office.terms.start_timeout, *told, 0)


# Starts and undos that are half done.


def _half_done(cycle: Cycle, world: World) -> Iterator[Call]:
    """Calls for gangs that are being started or taken back."""
    for record in list(cycle.records.values()):
        items = world.items.get(record.uid, {}).values() if record.phase == "dispatching" else ()
        if cycle.office.engine.may_go_on(record, items):
            # It was to be looked at later, but there is news; its object may go soon.
            cycle.office.pauses.over(record.uid)
        if not cycle.at_rest(record):
            continue
        if record.phase == "dispatching":
            yield record, partial(_resume, cycle, record)
        elif record.phase in ("undoing", "evicting"):
            pods = world.pods.by_gang.get((record.namespace, record.uid), ())
            if (record.uid, record.attempt) in cycle.office.removed and any(pod.owner_uids for pod in pods):
                # We have ordered its removal, and its pods were seen in this cycle: no need to ask again.
                cycle.office.pauses.look_later(record.uid)
            else:
                yield record, partial(finish_undo, cycle, record)


def _resume(cycle: Cycle, record: Record) -> None:
    """Go on with a start of ours that had to wait; finish or undo one that somebody left half done."""
    engine, state = cycle.office.engine, record.state
    if state is None:
        return
    plan = plan_or_nothing(cycle.office.memory, record)
    overdue = start_is_overdue(state, cycle.office.clock.now(), cycle.office.terms.start_timeout)
    if not cycle.office.terms.may_touch(record.uid) or (plan is not None and (overdue or record.terminating)):
        # It is left to a dispatcher that is for it, or looking after the gangs takes it back.
        return
    ours = engine.goes_on(record)
    if plan is None:
        message = "its start was left half done, and its record cannot be read any more"
        resumed = cycle.carry_out(
            record, lambda old: engine.undo(old, TAKEN_OVER, message, batch=state.batch, then="queued")
        )
    else:
        resumed = cycle.carry_out(record, lambda old: engine.go_on(old, plan) if ours else engine.resume(old, plan))
    if resumed is None:
        return
    if resumed.phase == "dispatching":
        cycle.office.pauses.look_later(record.uid)
    elif ours and resumed.phase == "dispatched":
        cycle.decide(resumed, "start", "Started", "after it had to wait")
    else:
        cycle.decide(resumed, "recover", TAKEN_OVER, f"a start left half done is now {resumed.phase}")


def finish_undo(cycle: Cycle, record: Record) -> None:
    """Put an undone gang back into the queue, or where it belongs, once nothing of it is left."""
    plan = plan_or_nothing(cycle.office.memory, record) or ()
    left = False

    def finish(old: Record) -> Record | None:
        """None while something is left, or when the record is gone."""
        nonlocal left
        finished = cycle.office.engine.finish_undo(old, plan)
        left = finished is None
        if left:
            cycle.office.removed.add((old.uid, old.attempt))
        return finished

    finished = cycle.carry_out(record, finish)
    if left:
        cycle.office.pauses.look_later(record.uid)
    if finished is not None and finished.phase not in HALFWAY:
        last = finished.state.transitions[-1] if finished.state is not None and finished.state.transitions else None
        action = {"failed": "fail", "suspended": "suspend", "complete": "complete"}.get(finished.phase, "queue")
        cycle.decide(finished, t.cast(t.Any, action), last.reason if last else "", last.message if last else "")


def plan_or_nothing(memory: Memory, record: Record) -> Plan | None:
    """The objects of the present attempt; None when the record can no longer be read.

    An error of ours counts as that: what was started can be found and taken back by its ticket.
    """
    steering = record.state.steering if record.state is not None else {}
    try:
        return memory.plan(record, steering)
    except Exception:  # noqa: BLE001 - the queue tells of it when the gang's turn comes again
        return None


def unknown_until(cycle: Cycle) -> float | None:
    """Until when (on the server's clock) nobody can tell what was promised elsewhere; None when that is known.

    A Lease without a batch is new, and another one may have been deleted with its promises. Who sees all records lists
    what is under way; who does not waits until every start of before must have ended. Under a Lease of its own
    namespace a run depends on no promises of others.
    """
    office = cycle.office
    if cycle.sight.blind is None or office.ledger.terms != office.terms.lease:
        return None
    return open_entries.unknown_until(office.unlisted_since(), office.clock.sure(), office.terms)
