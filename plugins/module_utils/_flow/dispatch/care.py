# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Looking after gangs: running, complete, failed, too few pods, out of time; those that have to end are returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.decisions import Action
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle, Stop
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import World, pods_of
from ansible_collections.muster.kube.plugins.module_utils._flow.jmespath_search import search
from ansible_collections.muster.kube.plugins.module_utils._kube.events import why_not_created
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record, delete_record
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.module_utils._model.gang import HOSTNAME_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.state import LOST_RACE, OUTCOME_UNKNOWN, Phase
from ansible_collections.muster.kube.plugins.module_utils._policy.health import (
    Advance,
    Expire,
    HealthTerms,
    Stay,
    Step,
    Subject,
    Undo,
    judge_health,
)

_NO_TICKET = "it has no ticket any more, so nothing that was started for it is left"

ACTIONS: dict[Phase, Action] = {
    "running": "running",
    "complete": "complete",
    "failed": "fail",
    "queued": "queue",
    "suspended": "suspend",
}


def look_after(cycle: Cycle, world: World) -> list[Stop]:
    """Judge the health of every gang this run is for; small steps are taken at once, undos are left for the batch."""
    clock = cycle.office.clock
    sure = clock.sure()
    if sure is None:
        # Whatever has to end for its age can wait until it is certain how late it is.
        cycle.check_again(clock.now() + 1.0)
        return []
    late = max(0.0, clock.now() - sure)
    records = [record for record in list(cycle.records.values()) if cycle.may_judge(record)]
    stops: list[Stop] = []
    steps: list[tuple[Record, Callable[[], None]]] = []
    for record, step in judge_gangs(records, world, cycle.office.terms, sure):
        if isinstance(step, BadInput):
            cycle.office.journal.warn(f"{record.key}: {step}")
        elif record.uid in cycle.lost and not isinstance(step, Undo):
            message = f"{cycle.lost[record.uid]} is gone and was never seen to end, and the record was edited since"
            stops.append(Stop(record, OUTCOME_UNKNOWN, message, "failed", {"holding": False}))
        elif isinstance(step, Undo):
            message = step.message if step.reason != LOST_RACE else _with_cause(cycle, world, record, step.message)
            stops.append(Stop(record, step.reason, message, step.then, step.changes()))
        elif isinstance(step, Stay):
            if step.next_check is not None:
                # The time that is certain stays behind a little.
                cycle.check_again(step.next_check + late)
            if _lost_its_ticket(cycle, world, record):
                stops.append(Stop(record, OUTCOME_UNKNOWN, _NO_TICKET, "failed", {"holding": False}))
            elif record.state is not None and (step.holding != record.state.holding or step.outcomes is not None):
                steps.append((record, partial(_note, cycle, record, step)))
        else:
            steps.append((record, partial(_take, cycle, record, step)))
    cycle.side_by_side(steps)
    return stops


def _lost_its_ticket(cycle: Cycle, world: World, record: Record) -> bool:
    """Whether a gang is said to be started although no ticket of it exists, and so nothing that it could have made.

    Its user deleted the ticket, or wrote the state, with which a gang of nothing would hold room for ever.
    """
    state = record.state
    if state is None or record.phase not in ("dispatched", "running"):
        return False
    known = world.tickets.get(record.uid, ())
    if any(ticket["metadata"]["uid"] == state.ticket_uid for ticket in known):
        return False
    doubts, key = cycle.office.doubts, f"ticket of {record.uid}"
    if doubts.pausing(key):
        return False
    doubts.look_later(key)
    return not cycle.office.engine.holds_ticket(record)


def judge_gangs(
    records: Iterable[Record], world: World, terms: DispatchTerms, now: float
) -> Iterator[tuple[Record, Step | BadInput]]:
    """What each gang this run is for needs next; an expression that cannot be evaluated is told as such."""
    rules = HealthTerms(terms.bind_timeout, terms.start_timeout)
    nodes = (
        {node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in world.snapshot.nodes}
        if world.snapshot.nodes_visible
        else None
    )
    for record in records:
        step: Step | BadInput
        try:
            subject = _subject(record, world, nodes) if terms.may_touch(record.uid) else None
            if subject is None:
                continue
            step = judge_health(subject, now, rules)
        except BadInput as error:
            step = error
        except Exception as error:  # noqa: BLE001 - it harms no other gang
            step = BadInput("judge", f"gang {record.key}", unforeseen(error))
        yield record, step


def _with_cause(cycle: Cycle, world: World, record: Record, message: str) -> str:
    """Why pods of a gang did not come, with what the controller that should have made them said about it."""
    items = {
        str(obj["metadata"]["uid"]): str(obj["metadata"]["name"])
        for obj in world.items.get(record.uid, {}).values()
        if obj is not None
    }
    said = why_not_created(cycle.office.client, record.namespace, items) if items else None
    return f"{message}; {said}" if said else message


def _subject(record: Record, world: World, nodes: dict[str, str] | None) -> Subject | None:
    """Everything the judgement needs; None for records that have no state or cannot be read."""
    gang = world.gangs.get(record.uid)
    if record.spec is None or gang is None:
        return None
    if record.state is None and not record.spec.suspended:
        return None
    items = world.items.get(record.uid, {})
    pods = pods_of(record, world)
    return Subject(record.spec, record.state, gang.podsets, pods, items, nodes, search, record.terminating)


def _take(cycle: Cycle, record: Record, step: Advance | Expire) -> None:
    """Take a step that needs no room and so no batch."""
    if isinstance(step, Expire):
        _expire(cycle, record)
        return
    written = cycle.carry_out(
        record, lambda old: cycle.advance(old, step.phase, step.reason, step.message, **step.changes())
    )
    if written is not None:
        cycle.decide(written, ACTIONS[step.phase], step.reason, step.message)


def _note(cycle: Cycle, record: Record, step: Stay) -> None:
    """Write how the items of a gang that stays as it is ended, while others, or pods, are left."""
    cycle.carry_out(record, lambda old: cycle.advance(old, old.phase, "", "", **step.changes()))


def _expire(cycle: Cycle, record: Record) -> None:
    """Delete a finished gang whose time to live is over; the collector takes what it owns."""

    def remove(old: Record) -> None:
        """Through the ledger's own limits, as every write."""
        delete_record(cycle.office.client, old, allowance=cycle.office.ledger.write_timeout)

    cycle.carry_out(record, remove)
    if record.uid not in cycle.skipped:
        cycle.records.pop(record.uid, None)
        cycle.decide(record, "expire", "Expired", "its time to live is over")
