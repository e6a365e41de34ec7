# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tickets: states that were lost are restored from them, and those that no record names are removed.

Only of use to engines that keep tickets: what another engine holds its gangs by, it looks after itself.
"""

from __future__ import annotations

import math
import typing as t
from collections.abc import Callable, Iterator
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import TicketKeeper
from ansible_collections.muster.kube.plugins.module_utils._engine.removal import attempt_of_ticket
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Forbidden,
    KubeError,
    ServerFault,
    is_final,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import HALFWAY_PHASES, TAKEN_OVER
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import reserved_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, misses_its_ticket
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

Object = dict[str, t.Any]
Call = tuple[Record, Callable[[], object]]


def recover_by_tickets(cycle: Cycle, world: World, keeper: TicketKeeper) -> None:
    """Go on with gangs whose records do not name their tickets, and remove tickets that are of no use."""
    cycle.side_by_side(list(_stray_tickets(cycle, world, keeper)))
    cycle.session.workers.run(list(_orphaned_tickets(cycle, world, keeper)))


def find_ticketless(cycle: Cycle, world: World) -> set[str]:
    """Gangs whose states say that they were started although no ticket, and so no object, of them exists.

    The ticket was deleted, or the state forged: a gang without objects would hold room for ever.
    """
    if not cycle.session.engine.capabilities.tickets:
        return set()
    may_touch = cycle.session.options.may_touch
    return {
        record.uid
        for record in list(cycle.records.values())
        if may_touch(record.uid) and _lost_its_ticket(cycle, world, record)
    }


def _lost_its_ticket(cycle: Cycle, world: World, record: Record) -> bool:
    """Whether the ticket of a started gang was not among those that were read, and the server knows none either."""
    if not misses_its_ticket(record, world) or not cycle.may_judge(record):
        return False
    doubts, key = cycle.session.doubts, f"ticket of {record.uid}"
    if doubts.pausing(key):
        return False
    doubts.look_later(key)
    try:
        return cycle.session.engine.state(record) == "gone"
    except (Forbidden, ServerFault) as error:
        cycle.skip(record, str(error))
        return False


def _named_by(record: Record, ticket: Object) -> bool:
    """Whether the record's state says that this is the ticket of its attempt."""
    state, attempt = record.state, attempt_of_ticket(ticket, record.uid)
    return state is not None and (state.ticket_uid, state.attempt) == (ticket["metadata"]["uid"], attempt)


def _stray_tickets(cycle: Cycle, world: World, keeper: TicketKeeper) -> Iterator[Call]:
    """Calls for records with tickets that they do not name."""
    for uid, tickets in world.tickets.items():
        record = cycle.records.get(uid)
        if record is None or not cycle.at_rest(record):
            continue
        alive = [item for item in tickets if not item["metadata"].get("deletionTimestamp")]
        if all(_named_by(record, item) for item in alive):
            continue
        if cycle.session.doubts.pausing(f"rebuilt {uid}"):
            # Somebody takes its state away again and again; nothing is started or stopped without one.
            cycle.skip(record)
            continue
        yield record, partial(_reconcile, cycle, world, keeper, record, alive)


def _orphaned_tickets(cycle: Cycle, world: World, keeper: TicketKeeper) -> Iterator[Task]:
    """Calls for tickets whose record is gone; a run for single gangs leaves those of others alone."""
    session, namespaces = cycle.session, cycle.session.options.namespaces
    if session.options.only is not None:
        return
    seen = {*cycle.records, *cycle.elsewhere, *cycle.aside}
    for uid, tickets in world.tickets.items():
        ours = [item for item in tickets if namespaces is None or item["metadata"]["namespace"] in namespaces]
        key = f"orphaned {uid}"
        if ours and uid not in seen and not session.doubts.pausing(key):
            session.doubts.look_later(key)
            call = partial(_remove_orphaned, cycle, keeper, ours)
            yield Task(("orphaned", uid), ours[0]["metadata"]["namespace"], call)


def _reconcile(cycle: Cycle, world: World, keeper: TicketKeeper, record: Record, alive: list[Object]) -> None:
    """A record whose objects live under a ticket goes on with it, whatever its annotation says; other tickets go."""
    strange = [item for item in alive if not _named_by(record, item)]
    settled = len(strange) < len(alive) or record.phase in HALFWAY_PHASES
    newest = None if settled else max(strange, key=lambda item: attempt_of_ticket(item, record.uid) or 0, default=None)

    def reconcile(old: Record) -> Record | None:
        """All about one record."""
        for ticket in strange:
            if ticket is not newest:
                keeper.remove_ticket(ticket)
                cycle.gone_tickets.add(ticket["metadata"]["uid"])
        if newest is None:
            return None
        try:
            return _rebuild(cycle, world, keeper, old, newest)
        except (LostLeadership, ObjectGone, Superseded):
            raise
        except (KubeError, BadInput) as error:
            _take_back_unwritable(cycle, keeper, old, newest, error)
            raise

    cycle.carry_out(record, reconcile)


def _take_back_unwritable(
    cycle: Cycle, keeper: TicketKeeper, record: Record, ticket: Object, error: MusterError
) -> None:
    """Take a start back whose record cannot say that it goes on: at once if that is final, else after a while."""
    batch = cycle.session.batch().batch
    entries = [entry for entry in batch.entries if entry.uid == record.uid] if batch is not None else []
    final = isinstance(error, BadInput) or (isinstance(error, KubeError) and is_final(error))
    if final or any(is_overdue(cycle, entry) for entry in entries):
        keeper.take_back(ticket)
        cycle.gone_tickets.add(ticket["metadata"]["uid"])
        cycle.session.over.update((entry.uid, entry.batch) for entry in entries)


def is_overdue(cycle: Cycle, entry: Entry) -> bool:
    """Whether an entry whose record cannot be written is so old that its room is for others.

    No request about it is under way any more.
    """
    session, sure = cycle.session, cycle.session.clock.sure()
    # Longer than any request of the holder that committed it can have been on its way.
    least = 2.0 * session.lease.terms.seconds
    end = entry.at + max(session.options.start_timeout, entry.patience, least)
    return bool(entry.at) and sure is not None and sure > end


def _remove_orphaned(cycle: Cycle, keeper: TicketKeeper, tickets: t.Iterable[Object]) -> None:
    """Remove what a deleted record has left; the collector does so too, but may take its time."""
    for ticket in tickets:
        with cycle.warning_of(f"{ticket['metadata']['namespace']}/{ticket['metadata']['name']}"):
            keeper.remove_orphaned_ticket(ticket)


def _rebuild(cycle: Cycle, world: World, keeper: TicketKeeper, record: Record, ticket: Object) -> Record | None:
    """Go on with an attempt whose record says nothing of it; a ticket that owns nothing is just removed."""
    clock, end = cycle.session.clock, _end_of_start(cycle, record, ticket)
    sure = clock.sure()
    if clock.now() > end and (sure is None or sure <= end):
        # Whether it was started whole decides if it goes on or has failed, so the time must be certain.
        cycle.skip(record)
        return None
    gang = world.gangs.get(record.uid)
    reserved = reserved_of(gang) if gang is not None else ()
    rebuilt = keeper.rebuild(record, ticket, reserved, whole=clock.now() > end)
    if rebuilt is record:
        cycle.gone_tickets.add(ticket["metadata"]["uid"])
        return None
    cycle.session.doubts.trouble(f"rebuilt {record.uid}", "its state was lost")
    cycle.decide(rebuilt, "recover", TAKEN_OVER, "its state was lost while objects of it exist")
    return rebuilt


def _end_of_start(cycle: Cycle, record: Record, ticket: Object) -> float:
    """Until when the start of a ticket took at the most; the run that began it may have more patience than this one."""
    batch = cycle.session.batch().batch
    noted = [entry.patience for entry in batch.entries if entry.uid == record.uid] if batch is not None else []
    made = read_time(ticket["metadata"].get("creationTimestamp"))
    return math.inf if made is None else made + max(cycle.session.options.start_timeout, *noted, 0)
