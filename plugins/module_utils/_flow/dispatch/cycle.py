# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One cycle: recover what was left, look after what runs, walk the queue, commit, carry out, tell."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.embedded import Claim
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.care import look_after
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.edits import ignore_edits
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.gangs import plan_of, reserved_of, spec_of
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle, Stop
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.queue import Choice, Queue
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.recover import recover
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.tell import (
    project_status,
    tell_events,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.waiting import note_waiting
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import World, read_world
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, without_gc
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._model.batch import Batch, Entry, batch_text, pack
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.managers import foreign_status_writer
from ansible_collections.muster.kube.plugins.module_utils._model.refusal import refuse_objects
from ansible_collections.muster.kube.plugins.module_utils._model.spec import digest
from ansible_collections.muster.kube.plugins.module_utils._model.state import REFUSED, Changes
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import verdict_text


def run_cycle(cycle: Cycle) -> None:
    """One whole cycle; LostLeadership means that nothing more may be written."""
    office = cycle.office
    with cycle.timed("read"):
        cycle.read_records()
        _refuse_foreign(cycle)
        ignore_edits(cycle)
        world = read_world(office.client, list(cycle.records.values()), office.terms, office.memory)
        cycle.kinds = world.kinds
    with cycle.timed("look_after"):
        unsettled = recover(cycle, world)
        stops = look_after(cycle, world)
        _refuse_broken(cycle, world)
    with cycle.timed("decide"), without_gc():
        queue = Queue(
            world,
            list(cycle.records.values()),
            unsettled,
            terms=office.terms,
            memory=office.memory,
            now=office.clock.now(),
        )
        choices = queue.decide()
    starts: list[Choice] = []
    with cycle.timed("carry_out"):
        if not unsettled:
            starts = _tried(cycle, [item for item in choices if item.chosen and item.record.uid not in cycle.skipped])
            _commit(cycle, starts, stops)
    with cycle.timed("tell"):
        note_waiting(cycle, choices, {choice.record.uid for choice in starts})
        project_status(cycle, world)
        tell_events(cycle)


def _refuse_foreign(cycle: Cycle) -> None:
    """Leave wrappers alone that another controller looks after; that is said once, not in every cycle."""
    if cycle.office.terms.adopt:
        return
    now, said = cycle.office.clock.now(), cycle.office.foreign
    for record in list(cycle.records.values()):
        writer = foreign_status_writer(record.raw, now) if record.store == "appwrapper" else None
        if writer is None:
            said.pop(record.uid, None)
            continue
        if said.get(record.uid) != writer:
            said[record.uid] = writer
            message = f"{writer} writes its status; stop it or use adopt: true"
            cycle.decide(record, "refuse", "ForeignController", message)
        cycle.refused[record.uid] = cycle.records.pop(record.uid)


def _refuse_broken(cycle: Cycle, world: World) -> None:
    """Fail waiting gangs that can never be started as they are written."""
    for record in list(cycle.records.values()):
        if record.phase != "queued" or not cycle.office.terms.may_touch(record.uid):
            continue
        problem = world.problems.get(record.uid) or cycle.office.memory.permitted(
            record, partial(_forbidden, cycle, record)
        )
        if problem is not None:
            _fail(cycle, record, problem)


def _forbidden(cycle: Cycle, record: Record) -> str | None:
    """Why a gang may not be started whoever asks; records can be written without passing our modules."""

    def namespaced(api_version: str, kind: str) -> bool | None:
        """As far as the server tells."""
        info = find_resource(cycle.office.client, api_version, kind)
        return None if info is None else info.namespaced

    try:
        refuse_objects(spec_of(record), store=record.store, namespaced=namespaced)
        plan_of(record, record.attempt, {})
    except BadInput as error:
        return str(error)
    return None


def _fail(cycle: Cycle, record: Record, message: str) -> None:
    """Give a gang up before it was started."""
    failed = cycle.carry_out(record, lambda old: cycle.advance(old, "failed", REFUSED, message))
    if failed is not None:
        cycle.decide(failed, "fail", REFUSED, message)


def _tried(cycle: Cycle, choices: Sequence[Choice]) -> list[Choice]:
    """Those of the chosen gangs whose objects the server would accept; the others are refused or wait."""
    kept: dict[str, Choice] = {}

    def rehearse(choice: Choice, record: Record) -> Record | None:
        """One dry run; what it says decides what becomes of the gang."""
        engine = cycle.office.engine
        try:
            engine.require_room(record, _claim(choice, cycle.office.ledger.next_write_id(), choice.verdict.as_dict()))
        except BadInput as error:
            _fail(cycle, record, str(error))
            return None
        outcome = engine.dry_run(record, plan_of(record, record.attempt, choice.verdict.steering))
        if outcome.refusal is not None and outcome.refusal.kind == "failed":
            _fail(cycle, record, outcome.refusal.message)
        elif outcome.refusal is not None:
            kept[record.uid] = _postponed(choice, outcome.refusal.reason, outcome.refusal.message)
        elif outcome.taken is not None:
            kept[record.uid] = _postponed(choice, "name_taken", f"{outcome.taken[0]} belongs to {outcome.taken[1]}")
        else:
            kept[record.uid] = choice
        return None

    cycle.in_parallel([partial(cycle.carry_out, choice.record, partial(rehearse, choice)) for choice in choices])
    rehearsed = [kept[choice.record.uid] for choice in choices if choice.record.uid in kept]
    note_waiting(cycle, rehearsed)
    return [choice for choice in rehearsed if choice.chosen]


def _postponed(choice: Choice, reason: str, detail: str) -> Choice:
    """A chosen gang that has to wait after all."""
    return dataclasses.replace(choice, verdict=choice.verdict.held_back(reason, detail), chosen=False)


def _commit(cycle: Cycle, starts: Sequence[Choice], stops: Sequence[Stop]) -> None:
    """Write starts and stops into the Lease in one piece, then carry them out."""
    items: list[Choice | Stop] = [*stops, *starts]
    by_uid = {item.record.uid: item for item in items}
    entries = [(_entry(item), _demand(item)) for item in by_uid.values()]
    if not entries:
        return
    ledger = cycle.office.ledger
    batch, _later = pack(entries, str(ledger.epoch), ledger.next_write_id())
    ledger.commit(batch_text(batch))
    cycle.in_parallel([partial(_carry_out, cycle, batch, by_uid[entry.uid]) for entry in batch.entries])


def _entry(item: Choice | Stop) -> Entry:
    """The line of the batch for one gang."""
    record = item.record
    spec = record.spec
    return Entry(
        "start" if isinstance(item, Choice) else "stop",
        record.namespace,
        record.name,
        record.uid,
        record.attempt,
        digest(spec) if spec is not None else "unreadable",
        spec.queue if spec is not None else None,
    )


def _demand(item: Choice | Stop) -> tuple[dict[str, t.Any], ...]:
    """What the entry keeps reserved until it is settled."""
    if isinstance(item, Choice):
        return reserved_of(item.gang)
    return item.record.state.reserved if item.record.state is not None else ()


def _claim(choice: Choice, batch: str, verdict: dict[str, t.Any]) -> Claim:
    """What a batch gives a gang that was chosen, with the verdict written out."""
    steering = {name: tuple(hosts) for name, hosts in choice.verdict.steering.items()}
    return Claim(batch, reserved_of(choice.gang), steering, verdict)


def _carry_out(cycle: Cycle, batch: Batch, item: Choice | Stop) -> None:
    """Start or undo one gang of the batch."""
    engine = cycle.office.engine
    if isinstance(item, Stop):
        changes: Changes = {**item.changes, "batch": batch.id, "then": item.then}
        undone = cycle.carry_out(item.record, lambda old: engine.undo(old, item.reason, item.message, **changes))
        if undone is not None:
            cycle.decide(undone, "stop", item.reason, item.message)
        return
    verdict = item.verdict.as_dict()
    claim = _claim(item, batch.id, verdict)
    started = cycle.carry_out(
        item.record, lambda record: engine.start(record, plan_of(record, record.attempt, claim.steering), claim)
    )
    if started is None:
        return
    if started.phase == "dispatched":
        cycle.decide(started, "start", "Started", verdict_text(verdict).partition("\n")[0].partition(": ")[2], verdict)
    else:
        last = started.state.transitions[-1] if started.state is not None and started.state.transitions else None
        cycle.decide(started, "stop", last.reason if last else "", last.message if last else "")
