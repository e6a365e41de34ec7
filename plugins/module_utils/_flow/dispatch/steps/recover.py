# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Going on with what was left: entries of the batch that were not begun, starts and undos half done.

A dispatcher that was killed, one that lost its Lease and the last cycle of this very process leave the same traces in
the cluster, and those are all there is to go by. Each record is handled on its own, and one that gives trouble pauses
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import ticket_keeper
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.health_steps import ACTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.rescaling import steps_of_rescaling
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.tickets import (
    is_overdue,
    recover_by_tickets,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, is_final
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import HALFWAY_PHASES, TAKEN_OVER, UNDOING
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import Plan
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch import open_entries
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import start_is_overdue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import Evidence, standing_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, without_tickets
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership

Call = tuple[Record, Callable[[], object]]


def recover(cycle: Cycle, world: World) -> None:
    """Go on with what was left, several gangs at once."""
    batch = cycle.session.batch().batch
    keeper = ticket_keeper(cycle.session.engine)
    if keeper is not None:
        # First: a start that left a ticket was begun, and only its objects tell how far it came.
        recover_by_tickets(cycle, world, keeper)
    if batch is not None:
        cycle.side_by_side(list(_settlements(cycle, world, batch)))
    cycle.side_by_side(list(_half_done(cycle, world, _outdated(cycle, world, batch))))
    if any(record.phase == "rescaling" or record.resizable for record in list(cycle.records.values())):
        cycle.side_by_side(list(steps_of_rescaling(cycle, world)))


# Entries of the batch.


def evidence_of(cycle: Cycle, world: World) -> Evidence:
    """What tells this cycle how far the starts are that were promised room."""
    session = cycle.session
    batch = session.batch().batch
    if batch is not None:
        session.over &= {(entry.uid, entry.batch) for entry in batch.entries}
    return Evidence(
        cycle.records,
        cycle.elsewhere,
        cycle.aside,
        cycle.sight,
        without_tickets(world, cycle.gone_tickets),
        session.options,
        session.clock.sure(),
        busy={*cycle.busy, *session.workers.busy},
        over=session.over,
    )


def _settlements(cycle: Cycle, world: World, batch: Batch) -> Iterator[Call]:
    """One call for each entry whose record was not touched since the commit."""
    tickets = without_tickets(world, cycle.gone_tickets).tickets
    for entry in batch.entries:
        record = cycle.records.get(entry.uid)
        known = (entry.uid, entry.batch) in cycle.session.over
        if record is None or known or not cycle.at_rest(record):
            continue
        if standing_of(entry, record.state, tickets.get(entry.uid, ())) == "not_begun":
            yield record, partial(_settle, cycle, world, entry, record)


def _settle(cycle: Cycle, world: World, entry: Entry, record: Record) -> None:
    """Write the entry's batch into its record: the holder that committed it cannot begin any more then."""
    try:
        settled = cycle.advance(record, record.phase, "", "", batch=entry.batch)
    except LostLeadership:
        raise
    except ObjectGone:
        cycle.records.pop(entry.uid, None)
    except Superseded:
        cycle.skip(record)
    except (KubeError, BadInput) as error:
        if isinstance(error, BadInput) or is_final(error) or is_overdue(cycle, entry):
            cycle.carry_out(record, lambda _old: _give_up(cycle, world, entry))
        cycle.skip(record, f"its {entry.op} was not begun, and its record cannot be written: {error}")
    else:
        cycle.keep(record, settled)
        cycle.decide(settled, "recover", "Settled", f"the {entry.op} that was decided before was not begun")


def _give_up(cycle: Cycle, world: World, entry: Entry) -> None:
    """End an entry whose record cannot be written: first nothing of it may be left."""
    keeper = ticket_keeper(cycle.session.engine)
    if keeper is not None and entry.op == "start":
        for ticket in world.tickets.get(entry.uid, ()):
            keeper.remove_ticket(ticket)
    cycle.session.over.add((entry.uid, entry.batch))


# Starts and undos that are half done.


def _outdated(cycle: Cycle, world: World, batch: Batch | None) -> str | None:
    """The id of the last commit if it was decided on other quota trees than there are now; None if it was not.

    It is carried out as it was decided: no start exceeds a limit of the trees of its commit, and what stands above a
    limit that is new ends or is taken back like everything else.
    """
    told = batch.quota if batch is not None else ""
    return batch.id if batch is not None and told not in ("", cycle.session.tree_digests.of(world.quota)) else None


def _half_done(cycle: Cycle, world: World, outdated: str | None) -> Iterator[Call]:
    """Calls for gangs that are being started or taken back."""
    engine = cycle.session.engine
    for record in list(cycle.records.values()):
        starting = record.phase == "dispatching"
        if starting and engine.state(record, world.items.get(record.uid, {}).values()) == "ready":
            # It was to be looked at later, but there is news; its object may go soon.
            cycle.session.pauses.over(record.uid)
        if not cycle.at_rest(record):
            continue
        if starting:
            yield record, partial(_resume, cycle, record, outdated)
        elif record.phase in UNDOING:
            pods = world.pods.by_gang.get((record.namespace, record.uid), ())
            if (record.uid, record.attempt) in cycle.session.removed and any(pod.owner_uids for pod in pods):
                # We have ordered its removal, and its pods were seen in this cycle: no need to ask again.
                cycle.session.pauses.look_later(record.uid)
            else:
                yield record, partial(finish_undo, cycle, record)


def _resume(cycle: Cycle, record: Record, outdated: str | None) -> None:
    """Go on with a start of ours that had to wait; finish or undo one that another holder left half done.

    outdated is the commit that was decided on other quota trees than there are now, if it was.
    """
    engine, state = cycle.session.engine, record.state
    if state is None:
        return
    plan = plan_or_nothing(cycle.session.memory, record)
    overdue = start_is_overdue(state, cycle.session.clock.now(), cycle.session.options.start_timeout)
    # One that was whole all the time without anybody who looked is no start that takes too long.
    overdue = overdue and (record.spec is None or state.made < len(record.spec.objects))
    if not cycle.session.options.may_touch(record.uid) or (plan is not None and (overdue or record.terminating)):
        # It is left to a dispatcher that is for it, or looking after the gangs takes it back.
        return
    ours = engine.state(record) != "left"
    if plan is None:
        message = "its start was left half done, and its record cannot be read any more"
        resumed = cycle.carry_out(
            record, lambda old: engine.stop(old, TAKEN_OVER, message, batch=state.batch, then="queued")
        )
    else:
        resumed = cycle.carry_out(record, lambda old: engine.go_on(old, plan))
    if resumed is None:
        return
    if resumed.phase == "dispatching":
        cycle.session.pauses.look_later(record.uid)
    elif ours and resumed.phase == "dispatched":
        cycle.decide(resumed, "start", "Started", "after it had to wait")
    else:
        before = ", decided before the quota trees were changed" if state.batch == outdated else ""
        cycle.decide(resumed, "recover", TAKEN_OVER, f"a start left half done is now {resumed.phase}{before}")


def finish_undo(cycle: Cycle, record: Record) -> None:
    """Put an undone gang back into the queue, or where it belongs, once nothing of it is left."""
    plan = plan_or_nothing(cycle.session.memory, record) or ()
    left = False

    def finish(old: Record) -> Record | None:
        """None while something is left, or when the record is gone."""
        nonlocal left
        finished = cycle.session.engine.finish_stop(old, plan)
        left = finished is None
        if left:
            cycle.session.removed.add((old.uid, old.attempt))
        return finished

    finished = cycle.carry_out(record, finish)
    if left:
        cycle.session.pauses.look_later(record.uid)
    if finished is not None and finished.phase not in HALFWAY_PHASES:
        cycle.decide(finished, ACTIONS.get(finished.phase, "queue"), *finished.why)


def plan_or_nothing(memory: Memory, record: Record) -> Plan | None:
    """The objects of the present attempt; None when the record can no longer be read.

    An error of ours counts as that: what was started can be found and taken back by its ticket.
    """
    steering, charged = (record.state.steering, record.state.charged) if record.state is not None else ({}, ())
    try:
        return memory.plan(record, steering, charged)
    except Exception:  # noqa: BLE001 - the queue tells of it when the gang's turn comes again
        return None


def unknown_until(cycle: Cycle) -> float | None:
    """Until when (on the server's clock) it is not known what was promised elsewhere; None when it is.

    A Lease without a batch is new, and another one may have been deleted with its promises. Who sees all records lists
    what is under way; who does not waits until every start of before must have ended. Under a Lease of its own
    namespace a run depends on no promises of others.
    """
    session = cycle.session
    if cycle.sight.blind is None or session.lease.terms != session.options.lease:
        return None
    return open_entries.unknown_until(session.unlisted_since(), session.clock.sure(), session.options)
