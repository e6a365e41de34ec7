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
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.gangs import plan_of, reserved_of
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, is_final
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.batch import Batch, Entry, keep_entries
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.state import TAKEN_OVER, Phase
from ansible_collections.muster.kube.plugins.module_utils._model.ticket import Plan
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.health import start_is_overdue
from ansible_collections.muster.kube.plugins.module_utils._policy.open_entries import standing_of

Object = dict[str, t.Any]
Call = tuple[Record, Callable[[], object]]

# Phases whose tickets are somebody's business already: the start is finished, or the undo goes on.
HALFWAY: tuple[Phase, ...] = ("dispatching", "undoing", "evicting")
# A promise to a gang that this run is not for is forgotten after so many times the start_timeout: whoever looks after
# that gang has started it or taken it back by then.
UNSEEN_PATIENCE = 2.0
START_TIMEOUT = DispatchTerms().start_timeout


def recover(cycle: Cycle, world: World) -> None:
    """Go on with what was left, several gangs at once."""
    batch = cycle.office.batch().batch
    if batch is not None:
        cycle.side_by_side(list(_settlements(cycle, world, batch)))
    cycle.side_by_side(list(_stray_tickets(cycle, world)))
    cycle.office.workers.run(list(_bereaved_tickets(cycle, world)))
    cycle.side_by_side(list(_half_done(cycle, world)))


# Entries of the batch.


def open_batch(cycle: Cycle, world: World) -> Batch | None:
    """The batch without the entries that are over: what the next commit carries on, and what room is promised to."""
    batch = cycle.office.batch().batch
    if batch is None:
        return None
    cycle.office.over &= {(entry.uid, entry.batch) for entry in batch.entries}
    return keep_entries(batch, [entry for entry in batch.entries if _is_open(cycle, world, entry, batch)])


def _is_open(cycle: Cycle, world: World, entry: Entry, batch: Batch) -> bool:
    """Whether an entry still promises something."""
    office, uid = cycle.office, entry.uid
    if entry.abandoned or (uid, entry.batch) in office.over:
        return False
    if uid in cycle.busy or uid in office.workers.busy:
        return True
    record = cycle.records.get(uid) or cycle.elsewhere.get(uid)
    if record is None and uid not in cycle.aside and cycle.sight.sees(entry.namespace):
        return False
    if uid not in cycle.records and is_forgotten(cycle, entry.at, entry.patience):
        return False
    if record is None:
        return not _is_bound(world, entry, batch)
    standing = standing_of(entry, record.state)
    # Whoever committed it for a namespace that is not ours has lost the Lease since: it cannot begin any more.
    return standing == "open" or (standing == "not_begun" and uid in cycle.records)


def _is_bound(world: World, entry: Entry, batch: Batch) -> bool:
    """Whether all pods promised to a gang that cannot be read have a node; pods can be seen where records cannot."""
    wanted = sum(int(podset["count"]) for podset in batch.demand_of(entry))
    pods = world.pods.by_gang.get((entry.namespace, entry.uid), ())
    return sum(pod.bound or pod.finished for pod in pods) >= wanted


def is_forgotten(cycle: Cycle, since: float, patience: float = 0.0) -> bool:
    """Whether a start that this run is not for, begun then, is too old to count on; if not, it will be looked at.

    patience is how long whoever began it lets a start take; where nobody knows, it is not less than usual.
    """
    office = cycle.office
    end = since + UNSEEN_PATIENCE * (patience or usual_patience(office.terms))
    now = office.clock.sure()
    if now is not None and now > end:
        return True
    cycle.check_again(end + 1.0)
    return False


def usual_patience(terms: DispatchTerms) -> float:
    """How long a start takes at most that somebody began of whom nothing is known."""
    return max(terms.start_timeout, START_TIMEOUT)


def attended(cycle: Cycle) -> list[Record]:
    """The records of other namespaces without those whose start nobody seems to look after."""
    batch = cycle.office.batch().batch
    patience = {entry.uid: entry.patience for entry in batch.entries} if batch is not None else {}
    return [
        record
        for record in cycle.elsewhere.values()
        if record.phase not in ("dispatching", "dispatched")
        or not is_forgotten(cycle, began(record), patience.get(record.uid, 0))
    ]


def began(record: Record) -> float:
    """When the phase of a record changed last; long ago when it does not tell."""
    transitions = record.state.transitions if record.state is not None else ()
    return (read_time(transitions[-1].at) or 0.0) if transitions else 0.0


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
    plan = plan_or_nothing(record)
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
    plan = plan_or_nothing(record) or ()
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


def plan_or_nothing(record: Record) -> Plan | None:
    """The objects of the present attempt; None when the record can no longer be read.

    An error of ours counts as that: what was started can be found and taken back by its ticket.
    """
    steering = record.state.steering if record.state is not None else {}
    try:
        return plan_of(record, record.attempt, steering)
    except Exception:  # noqa: BLE001 - the queue tells of it when the gang's turn comes again
        return None
