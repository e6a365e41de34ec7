# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One cycle: recover what was left, look after what runs, walk the queue, commit, carry out, publish."""

from __future__ import annotations

import dataclasses
import math
import typing as t
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import NotBegun, Overtaken, StartGrant
from ansible_collections.muster.kube.plugins.module_utils._engine.removal import as_begun
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.world import read_tickets, read_world
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import (
    REHEARSAL_SECONDS,
    Cycle,
    Rehearsal,
    shape_of,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.edits import ignore_edits, is_edited
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.finished import note_ends, set_aside
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.health_steps import (
    apply_steps,
    message_of,
    save_due,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.meters import keep_meters
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.progress import (
    keep_progress,
    with_progress,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.publish import (
    project_status,
    publish_events,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.quota_amounts import tell_amounts
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.recover import (
    evidence_of,
    recover,
    unknown_until,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.rescaling import begin_rescaling
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.tickets import find_ticketless
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.waiting import publish_waiting
from ansible_collections.muster.kube.plugins.module_utils._host.jmespath_search import search
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import without_gc
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, Entry, Op
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.packing import pack
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, with_size
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    PROMISED_PHASES,
    REFUSED,
    STARTED_PHASES,
    Changes,
    Phase,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import has_live_ticket
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import verdict_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import kinds_of
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import DEFAULT_TREE
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import (
    demand_of,
    promise_of,
    reserved_of,
    started_gang,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import Advance
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import (
    NEW_LEASE,
    RESIZE_UNSEEN,
    Evidence,
    began,
    promised_elsewhere,
    resizes_unseen,
    unknown_words,
    usual_patience,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import (
    CyclePlan,
    EvictionGroup,
    HealthStep,
    Situation,
    Stop,
    plan_cycle,
    walk_queue,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.refusals import (
    FOREIGN_CONTROLLER,
    foreign_message,
    foreign_writers,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import Rescale
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import (
    Places,
    Tickets,
    World,
    scopes,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import not_resized
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import (
    LabelKeys,
    label_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._store.size_settings import (
    DECIDED_ANNOTATION,
    SizesDecided,
    decided_text,
)
from ansible_collections.muster.kube.plugins.module_utils._store.state_writer import Tolerance

Demand = tuple[dict[str, t.Any], ...]
# What a cycle decides about one gang.
Decided: t.TypeAlias = "Choice | Stop | Rescale"
# What taking a gang back is called, where it is not just stopped.
STOP_ACTIONS: Mapping[Phase, t.Literal["evict", "resize"]] = {"evicting": "evict", "resizing": "resize"}


def run_cycle(cycle: Cycle) -> None:
    """One whole cycle; LostLeadership means that nothing more may be written."""
    session = cycle.session
    began = session.clock.now()
    with cycle.timed("read"):
        world = _read(cycle)
    with cycle.timed("look_after"):
        _recover(cycle, world)
        _leave_foreign(cycle)
        world = _with_present_sizes(cycle, world)
        ticketless = find_ticketless(cycle, world)
    batch = session.batch().batch
    evidence = evidence_of(cycle, world)
    situation = _situation(cycle, world, evidence, ticketless)
    with cycle.timed("decide"), without_gc():
        plan = plan_cycle(situation, session.options, session.memory)
    if world.sizes.version is not None and session.options.only is None:
        decided = SizesDecided(began, world.sizes.version, session.options.namespaces)
        session.lease.note(DECIDED_ANNOTATION, decided_text(decided))
    for moment in (plan.next_check, evidence.next_look(batch)):
        if moment is not None:
            cycle.check_again(moment)
    with cycle.timed("look_after"):
        _follow_up(cycle, plan)
    choices, starts = _try_choices(cycle, list(plan.choices))
    if starts.postponed or _keeps_more(cycle, plan.steps):
        # A gang that the server would refuse now does not use the room it was given; others may. What one whose record
        # could not be written was to give up nobody else gets.
        with cycle.timed("decide"), without_gc():
            present = dataclasses.replace(situation, troubled=session.pauses.resting())
            stopped = {item.record.uid for item in plan.stops}
            again = walk_queue(present, session.options, session.memory, cycle.records, stopped)
        _report_unforeseen(cycle, again.unforeseen, plan.stops)
        choices, starts = _try_choices(cycle, list(again.choices))
        plan = plan.walked_again(again)
    cycle.plan, cycle.rules, evictions = plan, world.sizes, plan.evictions
    with cycle.timed("carry_out"):
        if evictions:
            choices, evictions = _try_askers(cycle, choices, evictions)
        stops = (*plan.stops, *plan.drained, *(_not_in_vain(cycle, choices, plan.resized) if plan.resized else ()))
        # Without entries that ended in this cycle.
        carried = evidence_of(cycle, world).open_batch(batch)
        _commit(cycle, world, carried, starts.ready, stops, evictions)
    with cycle.timed("tell"):
        _save_states(cycle, plan)
        if plan.planned or _has_elastic(cycle):
            keep_progress(cycle, plan.planned)
        publish_waiting(cycle, choices, {choice.record.uid for choice in starts.ready})
        project_status(cycle, world)
    with cycle.timed("tidy"):
        note_ends(cycle, world)
        publish_events(cycle)
        _tidy(cycle, world)
        if world.quota.trees:
            keep_meters(cycle, world)
            tell_amounts(cycle, world)


def _with_present_sizes(cycle: Cycle, world: World) -> World:
    """The world with the sizes that other holders chose for elastic gangs; their starts were gone on with since."""
    memory, changed = cycle.session.memory, {}
    for uid, record in cycle.records.items():
        if record.spec is not None and record.spec.elastic is not None and uid in world.gangs:
            gang, _problem = memory.size(record, world.snapshot)
            if gang is not None and gang is not world.gangs[uid]:
                changed[uid] = gang
    return dataclasses.replace(world, gangs={**world.gangs, **changed}) if changed else world


def _read(cycle: Cycle) -> World:
    """Read records and cluster; leave alone what others look after, and go on with what was started, not edited."""
    session = cycle.session
    cycle.read_records()
    places: Places = (None,) if cycle.sight.blind is None else scopes(session.options)
    seen = [*cycle.records.values(), *cycle.elsewhere.values(), *cycle.aside.values()]
    tickets = set_aside(cycle, read_tickets(session.client, seen, places, source=session.source))
    _refuse_foreign(cycle, tickets)
    ignore_edits(cycle, tickets)
    # Room was promised to them, and a new Lease does not list it.
    cycle.elsewhere = {uid: as_begun(record, tickets.get(uid, ())) for uid, record in cycle.elsewhere.items()}
    records = [*cycle.records.values(), *cycle.elsewhere.values()]
    world = read_world(
        session.client,
        records,
        session.options,
        session.memory,
        tickets,
        places=places,
        source=session.source,
        lease=session.lease.terms,
    )
    if world.sizes.problem is not None:
        session.journal.warn(not_resized(world.sizes.problem))
    _report_unforeseen(cycle, world.unforeseen)
    if _has_elastic(cycle):
        world = with_progress(cycle, world, places)
    if not world.quota.trees:
        return world
    return session.meters.told(world, session.clock.now())


def _has_elastic(cycle: Cycle) -> bool:
    """Whether an elastic gang runs; without one nobody asks for progress."""
    for record in cycle.records.values():
        if record.phase == "running" and record.spec is not None and record.spec.elastic is not None:
            return True
    return False


def _recover(cycle: Cycle, world: World) -> None:
    """Go on with what was left; a gang that its user changed meanwhile rests: the world was read for what it was."""
    before = {uid: record.spec for uid, record in cycle.records.items()}
    recover(cycle, world)
    for uid, record in list(cycle.records.items()):
        if record.spec is not before.get(uid) and record.spec != before.get(uid):
            cycle.skip(record)


def _situation(cycle: Cycle, world: World, evidence: Evidence, ticketless: set[str]) -> Situation:
    """What this cycle decides on."""
    session, records, batch = cycle.session, dict(cycle.records), cycle.session.batch().batch
    return Situation(
        world,
        records,
        tuple(evidence.attended(batch)),
        promised_elsewhere(evidence.open_batch(batch), _trusted(cycle), world),
        session.clock.now(),
        session.clock.sure(),
        search,
        session.history.usual(),
        session.pauses.resting(),
        resting={uid for uid, record in records.items() if not cycle.at_rest(record)},
        judged={uid for uid, record in records.items() if cycle.may_judge(record)},
        unwritable=session.pauses.unwritable() if world.quota.trees else (),
        lost=dict(cycle.lost),
        ticketless=ticketless,
        suspended_jobs_change=any(item.resizable for item in records.values() if item.phase == "running")
        and session.suspended_jobs_change,
    )


def _follow_up(cycle: Cycle, plan: CyclePlan) -> None:
    """Carry out what needs no room: refuse gangs, let started ones go on, and warn of those that cannot be judged."""
    for record, problem in plan.unjudged:
        cycle.session.journal.warn(f"{record.key}: {problem}")
    _report_unforeseen(cycle, plan.unforeseen, plan.stops)
    if plan.steps:
        apply_steps(cycle, [item for item in plan.steps if not _comes_to_run(item)])
    if not plan.refusals:
        return
    # A gang that was resumed first is another record by now.
    waiting = [(cycle.records.get(item.record.uid), item.message) for item in plan.refusals]
    cycle.side_by_side(
        [
            (record, partial(_fail, cycle, record, message))
            for record, message in waiting
            if record is not None and record.phase == "queued" and cycle.at_rest(record)
        ]
    )


def _comes_to_run(item: HealthStep) -> bool:
    """Whether all that a step tells is that a gang runs: it uses what it used, and nobody gets anything by it."""
    return isinstance(item.step, Advance) and item.step.phase == "running" and not item.step.more


def _save_states(cycle: Cycle, plan: CyclePlan) -> None:
    """Write which gangs run, and which were started, after the starts: pods wait for starts, and nobody for this.

    What gives others room or quota was written before: whoever counts later must not find both.
    """
    steps = [item for item in plan.steps if _comes_to_run(item)]
    if steps:
        apply_steps(cycle, [item for item in steps if cycle.records.get(item.record.uid) is item.record])
    save_due(cycle)


def _keeps_more(cycle: Cycle, steps: Iterable[HealthStep]) -> bool:
    """Whether a resize of which this cycle decided that it has ended still counts with the larger of its sizes."""
    ended = (item.record.uid for item in steps if isinstance(item.step, Advance) and item.step.more)
    return any(record.phase == "rescaling" for uid in ended if (record := cycle.records.get(uid)) is not None)


class _DryRuns(t.NamedTuple):
    """The chosen gangs whose objects the server would accept, and those that have to wait after all."""

    ready: list[Choice]
    postponed: list[Choice]


def _try_choices(cycle: Cycle, choices: list[Choice]) -> tuple[list[Choice], _DryRuns]:
    """The choices about records as they are by now, and what the server says when it pretends to create them."""
    there = [(item, cycle.records.get(item.record.uid)) for item in choices]
    able = [_about(item, now) for item, now in there if now is not None and _still_waits(now)]
    if unknown_until(cycle) is not None:
        return [item.postponed(*NEW_LEASE) if item.chosen else item for item in able], _DryRuns([], [])
    if cycle.sight.blind is not None and _resizes_unseen(cycle):
        return [item.postponed(*RESIZE_UNSEEN) if item.chosen else item for item in able], _DryRuns([], [])
    with cycle.timed("carry_out"):
        return able, _tried(cycle, [item for item in able if item.chosen])


def _about(choice: Choice, record: Record) -> Choice:
    """A choice about a record as it is by now; most often it is the same one. The size that was chosen stays."""
    if choice.record is record:
        return choice
    size = choice.record.chosen
    return dataclasses.replace(choice, record=record if size is None else with_size(record, size))


def _still_waits(record: Record) -> bool:
    """Whether a record as it is by now may be started: what this cycle wrote can have failed, or met a deletion."""
    return record.phase == "queued" and not record.terminating


def _report_unforeseen(cycle: Cycle, found: Mapping[str, str], stops: Iterable[Stop] = ()) -> None:
    """Leave gangs alone for a while that provoked an error of ours, and warn; what has to be stopped is."""
    stopped = {item.record.uid for item in stops}
    for uid, text in found.items():
        record = cycle.records.get(uid)
        if record is None or not cycle.at_rest(record):
            continue
        if uid in stopped:
            cycle.session.journal.warn(f"{record.key}: {text}")
        else:
            cycle.skip(record, text)


def _trusted(cycle: Cycle) -> dict[str, Record]:
    """The records that tell what their gangs still get: not edited ones of other namespaces."""
    memory = cycle.session.memory
    return {**{uid: item for uid, item in cycle.elsewhere.items() if not is_edited(memory, item)}, **cycle.records}


def _refuse_foreign(cycle: Cycle, tickets: Tickets) -> None:
    """Leave wrappers alone that another controller looks after; that is reported once, not in every cycle.

    What we have started we look after all the same: it holds room, and no other controller takes it back.
    """
    reported = cycle.session.foreign
    writers = foreign_writers(cycle.records.values(), cycle.session.clock.now(), adopt=cycle.session.options.adopt)
    for uid in [uid for uid in cycle.records if uid not in writers]:
        reported.pop(uid, None)
    for uid, writer in writers.items():
        record = cycle.records[uid]
        if reported.get(uid) != writer:
            reported[uid] = writer
            cycle.decide(record, "refuse", FOREIGN_CONTROLLER, foreign_message(writer))
        if record.phase in STARTED_PHASES:
            continue
        if has_live_ticket(tickets.get(uid, ()), uid, record.attempt):
            # Its start may have begun; that is found out before it is left alone.
            cycle.doubtful.add(uid)
        else:
            cycle.aside[uid] = cycle.records.pop(uid)


def _leave_foreign(cycle: Cycle) -> None:
    """Leave wrappers of other controllers alone whose start turned out not to have begun."""
    for uid in cycle.doubtful:
        record = cycle.records.get(uid)
        if record is not None and record.phase not in STARTED_PHASES:
            cycle.aside[uid] = cycle.records.pop(uid)


def _fail(cycle: Cycle, record: Record, message: str, tolerance: Tolerance = "metadata") -> None:
    """Give a gang up before it was started, unless its user changed what it is given up for."""
    writer = cycle.session.writer
    failed = cycle.carry_out(
        record, lambda old: writer.put(old, writer.next_state(old, "failed", REFUSED, message), tolerance)
    )
    if failed is not None:
        cycle.decide(failed, "fail", REFUSED, message)


def _tried(cycle: Cycle, choices: Sequence[Choice]) -> _DryRuns:
    """Those of the chosen gangs whose objects the server would accept; the others are refused or wait.

    A dry run that takes long is not waited for: what it showed counts when the gang is chosen again.
    """
    ready: list[Choice] = []
    tried = _DryRuns([], [])
    for choice in choices:
        if cycle.at_rest(choice.record):
            (ready if _needs_rehearsal(cycle, choice) else tried.ready).append(choice)
    first, others = _one_of_each_shape(cycle, ready) if len(ready) > 1 else (ready, [])
    shown = list(_rehearsed(cycle, first))
    asked: list[Choice] = []
    for choice in others:
        (asked if _needs_rehearsal(cycle, choice) else tried.ready).append(choice)
    for choice, rehearsal in (*shown, *(_rehearsed(cycle, asked) if asked else ())):
        if rehearsal.reason is None:
            tried.ready.append(choice)
        else:
            del cycle.session.rehearsals[choice.record.uid]
            tried.postponed.append(choice.postponed(rehearsal.reason, rehearsal.message))
    publish_waiting(cycle, tried.postponed)
    return tried


def _one_of_each_shape(cycle: Cycle, choices: Sequence[Choice]) -> tuple[list[Choice], list[Choice]]:
    """Those for which the server is asked first, and those that may then be known to be allowed."""
    first: dict[str, Choice] = {}
    others: list[Choice] = []
    for choice in choices:
        record = choice.record
        alone = not cycle.session.defers or record.spec is None or record.uid in cycle.session.given_back
        shape = record.uid if alone or record.spec is None else shape_of(record.spec, kinds_of(choice.charged))
        if first.setdefault(shape, choice) is not choice:
            others.append(choice)
    return list(first.values()), others


def _rehearsed(cycle: Cycle, choices: Sequence[Choice]) -> Iterator[tuple[Choice, Rehearsal]]:
    """What dry runs show of these gangs, those made just now or lately; of slow ones nothing is told yet."""
    shown, now = cycle.session.rehearsals, cycle.session.client.clock()
    fresh = [choice for choice in choices if not _holds(shown.get(choice.record.uid), choice, now)]
    cycle.side_by_side([(choice.record, partial(_rehearse, cycle, choice)) for choice in fresh])
    for choice in choices:
        rehearsal = shown.get(choice.record.uid)
        if rehearsal is not None and _holds(rehearsal, choice, now) and choice.record.uid not in cycle.skipped:
            yield choice, rehearsal


def _try_askers(
    cycle: Cycle, choices: list[Choice], evictions: Sequence[EvictionGroup]
) -> tuple[list[Choice], tuple[EvictionGroup, ...]]:
    """The evictions whose askers the server would accept: nobody is evicted in vain; the others wait as before.

    Not every dispatcher may evict anybody for a gang: each says the same of it.
    """
    askers = {item.asker.uid for item in evictions}
    asking = [item for item in choices if item.record.uid in askers and cycle.at_rest(item.record)]
    refused: dict[str, Choice] = {}
    able: set[str] = set()
    for item, rehearsal in _rehearsed(cycle, asking):
        if rehearsal.reason is None:
            able.add(item.record.uid)
        else:
            refused[item.record.uid] = item.not_claimed()
    told = [refused.get(item.record.uid, item) for item in choices]
    return told, tuple(item for item in evictions if item.asker.uid in able)


def _resizes_unseen(cycle: Cycle) -> bool:
    """Whether a gang that this run does not see is getting another size."""
    session, seen = cycle.session, {*cycle.records, *cycle.elsewhere}
    return resizes_unseen(session.batch().batch, seen, session.clock.sure(), session.options)


def _not_in_vain(cycle: Cycle, choices: Sequence[Choice], resized: Sequence[Stop | Rescale]) -> list[Stop | Rescale]:
    """The resizes without those for gangs that the server would not accept now: nobody shrinks in vain."""
    askers = {item.asker for item in resized if item.asker is not None}
    asking = [item for item in choices if item.record.uid in askers and cycle.at_rest(item.record)]
    able = {item.record.uid for item, rehearsal in _rehearsed(cycle, asking) if rehearsal.reason is None}
    return [item for item in resized if item.asker is None or item.asker in able]


def _needs_rehearsal(cycle: Cycle, choice: Choice) -> bool:
    """Whether the server is asked before a start: one object is made or refused whole, and then nothing is left of it.

    Of several objects it is asked once for all gangs that differ in names only. A refusal then costs a cycle, so that
    is only for runs in which another one follows, and for gangs that were not refused before.
    """
    session, spec = cycle.session, choice.record.spec
    if not session.defers or spec is None or choice.record.uid in session.given_back:
        return True
    return len(spec.objects) > 1 and not session.allowed_shapes.knows(spec, kinds_of(choice.charged))


def _holds(rehearsal: Rehearsal | None, choice: Choice, now: float) -> bool:
    """Whether what a dry run showed still tells something about this choice."""
    if rehearsal is None or now - rehearsal.at > REHEARSAL_SECONDS:
        return False
    same = rehearsal.resource_version == choice.record.resource_version
    kinds = kinds_of(choice.charged) if choice.charged else {}
    return same and (rehearsal.steering, rehearsal.kinds) == (_steering(choice), kinds)


def _rehearse(cycle: Cycle, choice: Choice) -> None:
    """One dry run; what it says decides what becomes of the gang."""
    session = cycle.session

    def rehearse(record: Record) -> None:
        """Nothing is written unless the gang can never be started as it is."""
        plan = session.memory.plan(record, choice.verdict.steering, choice.charged)
        grant = _grant(choice, session.lease.next_write_id())
        try:
            outcome = session.engine.dry_run(record, plan, grant)
        except BadInput as error:
            # Annotations that leave no room are part of what would be kept otherwise.
            _fail(cycle, record, str(error), "none")
            return
        if outcome.failure is not None:
            _fail(cycle, record, outcome.failure)
            return
        if outcome.delay is not None:
            session.memory.note_refused(record, session.clock.now(), *outcome.delay)
        elif session.defers and record.spec is not None:
            session.allowed_shapes.add(record.spec, kinds_of(choice.charged))
        at, delay = session.client.clock(), outcome.delay or (None, "")
        where = _steering(choice), kinds_of(choice.charged) if choice.charged else {}
        session.rehearsals[record.uid] = Rehearsal(record.resource_version, *where, at, *delay)

    cycle.carry_out(choice.record, rehearse)


def _commit(
    cycle: Cycle,
    world: World,
    carried: Batch | None,
    starts: Sequence[Choice],
    stops: Sequence[Stop | Rescale],
    evictions: Sequence[EvictionGroup],
) -> None:
    """Write starts, stops and evictions into the Lease in one piece, beside what is open, then carry them out."""
    newer = cycle.session.batch().newer
    if newer is not None:
        cycle.session.journal.warn(f"nothing is started or stopped: {newer}")
        return
    unknown = unknown_until(cycle)
    if unknown is not None:
        cycle.check_again(unknown)
        cycle.session.journal.warn(unknown_words(cycle.session.lease.terms.target, unknown))
        return
    groups = [group for group in evictions if all(cycle.may_judge(item.record) for item in group.victims)]
    stopped = [item for item in stops if cycle.may_judge(item.record)]
    packed = _pack_whole(cycle, world, carried, [*stopped, *starts], groups)
    if packed is None:
        return
    cycle.session.commit(packed.batch)
    batch, items = packed.batch, packed.items
    new = [items[entry.uid] for entry in batch.entries if entry.batch == batch.id and entry.uid in items]
    for item in new:
        cycle.session.rehearsals.pop(item.record.uid, None)
    left = _nominate_askers(cycle, packed.groups) if packed.groups else ()
    going = [item for item in new if item.record.uid not in left]
    cycle.side_by_side([(item.record, partial(_carry_out, cycle, world, batch.id, item)) for item in going])


class _Packed(t.NamedTuple):
    """A batch to be committed, what it decides by record, and the evictions in it."""

    batch: Batch
    items: Mapping[str, Decided]
    groups: Sequence[EvictionGroup]


def _pack_whole(
    cycle: Cycle,
    world: World,
    carried: Batch | None,
    items: Sequence[Decided],
    groups: Sequence[EvictionGroup],
) -> _Packed | None:
    """The batch with as much as it has room for, the victims of an asker all or none; None when nothing is new."""
    lease = cycle.session.lease
    while True:
        by_uid = {item.record.uid: item for item in (*(stop for group in groups for stop in group.victims), *items)}
        unlisted = _unlisted(cycle, world, carried, by_uid)
        keys = label_keys(world.snapshot, world.gangs.values()) if by_uid or unlisted else None
        entries = [_entry_and_demand(cycle, item, keys) for item in by_uid.values()]
        entries += [_old_entry_and_demand(cycle, record, gang, keys) for record, gang in unlisted]
        if not entries:
            return None
        quota = cycle.session.tree_digests.of(world.quota)
        batch, later = pack(entries, str(lease.epoch), lease.next_batch_id(), carried, quota)
        waiting = {entry.uid for entry, _demand in later}
        whole = [group for group in groups if waiting.isdisjoint(item.record.uid for item in group.victims)]
        if len(whole) == len(groups):
            break
        groups = whole
    if len(later) == len(entries):
        # Nothing was added, so there is nothing to promise; what is open may not even fit under a longer name.
        return None
    return _Packed(_complete_or_not(cycle, batch, unlisted) if unlisted else batch, by_uid, groups)


def _nominate_askers(cycle: Cycle, groups: Sequence[EvictionGroup]) -> set[str]:
    """Write into their records that room is freed for askers; the victims of those that could not be written."""
    cycle.side_by_side([(group.asker, partial(_nominate, cycle, group)) for group in groups])
    left: set[str] = set()
    for group in groups:
        asker = cycle.records.get(group.asker.uid)
        if asker is None or asker.state is None or asker.state.nominated != group.until:
            left |= {item.record.uid for item in group.victims}
    return left


def _nominate(cycle: Cycle, group: EvictionGroup) -> None:
    """Hold what is freed for one asker, before anybody goes for it."""
    asker = cycle.records.get(group.asker.uid)
    if asker is not None and _still_waits(asker):
        times = (asker.state.nominations if asker.state is not None else 0) + 1
        changes: Changes = {"nominated": group.until, "nominations": times}
        cycle.carry_out(asker, lambda old: cycle.advance(old, "queued", "", "", **changes))


def _tidy(cycle: Cycle, world: World) -> None:
    """Remove from the Lease what is over by now: runs that may not read those records count them by their entries."""
    lease = cycle.session.lease
    before, present = lease.batch_text(), cycle.session.batch().batch
    carried = evidence_of(cycle, world).open_batch(present)
    since = cycle.session.unlisted_since()
    if since is not None:
        batch, _later = pack([], str(lease.epoch), lease.next_batch_id(), carried)
        if unknown_until(cycle) is None:
            # All that is under way was looked for: runs that see less may rely on that, once it is listed.
            listed = _complete_or_not(cycle, batch, _unlisted(cycle, world, carried, {}))
            if present is None or listed.entries != present.entries or listed.unlisted_since != present.unlisted_since:
                lease.tidy(before, batch_text(listed))
        elif before is not None and (present is None or present.unlisted_since != int(since)):
            # The next holder, if it sees no more, need not wait from the beginning.
            lease.tidy(before, batch_text(dataclasses.replace(batch, unlisted_since=int(since))))
        return
    if carried is not None and present is not None and before is not None and carried.entries != present.entries:
        lease.tidy(before, batch_text(carried))


def _complete_or_not(cycle: Cycle, batch: Batch, unlisted: Iterable[tuple[Record, Gang]]) -> Batch:
    """A batch that says since when it does not list all starts under way, where it has no room for some of these."""
    listed = {entry.uid for entry in batch.entries}
    since = cycle.session.unlisted_since()
    if since is None or all(record.uid in listed for record, _gang in unlisted):
        return batch
    return dataclasses.replace(batch, unlisted_since=max(1, int(since)))


def _unlisted(
    cycle: Cycle, world: World, carried: Batch | None, chosen: Mapping[str, t.Any]
) -> list[tuple[Record, Gang]]:
    """Gangs under way that the batch does not list but should, so that every holder sees what they were promised.

    An earlier version started them, or the Lease was deleted or emptied. Those of other namespaces are listed only
    under a new Lease: under any other they are, unless they belong to another one.
    """
    batch = cycle.session.batch().batch
    others = evidence_of(cycle, world).attended(batch) if cycle.session.unlisted_since() is not None else []
    listed = {entry.uid for entry in carried.entries} if carried is not None else set()
    found = []
    for record in [*cycle.records.values(), *others]:
        gang = world.gangs.get(record.uid)
        known = record.uid in listed or record.uid in chosen
        if record.phase not in PROMISED_PHASES or known or gang is None:
            continue
        found.append((record, gang))
    return found


def _entry(cycle: Cycle, record: Record, op: Op) -> Entry:
    """The line of the batch about one record."""
    spec = record.spec
    return Entry(
        op,
        record.namespace,
        record.name,
        record.uid,
        record.attempt,
        spec.queue if spec is not None else None,
        at=int(cycle.session.clock.now()),
        patience=math.ceil(cycle.session.options.start_timeout),
    )


def _entry_and_demand(cycle: Cycle, item: Decided, keys: LabelKeys) -> tuple[Entry, Demand]:
    """The line for one gang and what it keeps reserved while it is open; what is stopped gets nothing more."""
    if isinstance(item, Rescale):
        charged = item.record.state.charged if item.record.state is not None else ()
        return _entry(cycle, item.record, "resize"), promise_of(item.gang, {}, keys, charged)
    if isinstance(item, Stop):
        entry = _entry(cycle, item.record, STOP_ACTIONS.get(item.phase, "stop"))
        return dataclasses.replace(entry, queue=item.queue or entry.queue), ()
    entry = _entry(cycle, item.record, "start")
    # What a start is charged to, whatever its record says when others read of it.
    queue = next((charge.queue for charge in item.charged if charge.tree == DEFAULT_TREE), entry.queue)
    return dataclasses.replace(entry, queue=queue), promise_of(item.gang, item.verdict.steering, keys, item.charged)


def _old_entry_and_demand(cycle: Cycle, record: Record, gang: Gang, keys: LabelKeys) -> tuple[Entry, Demand]:
    """The same for a gang that was started before, under this Lease or another."""
    patience = math.ceil(usual_patience(cycle.session.options))
    entry = dataclasses.replace(_entry(cycle, record, "start"), at=int(began(record)), patience=patience)
    steering, charged = (record.state.steering, record.state.charged) if record.state is not None else ({}, ())
    return entry, promise_of(started_gang(demand_of(record, gang), charged), steering, keys, charged)


def _steering(choice: Choice) -> dict[str, tuple[str, ...]]:
    """Where the podsets of a chosen gang are confined to."""
    return {name: tuple(hosts) for name, hosts in choice.verdict.steering.items()}


def _grant(choice: Choice, batch: str) -> StartGrant:
    """What a batch gives a gang that was chosen, with the verdict written out."""
    return StartGrant(batch, reserved_of(choice.gang), _steering(choice), choice.told, choice.charged)


def _carry_out(cycle: Cycle, world: World, batch: str, item: Decided) -> None:
    """Start, stop or resize one gang of the batch."""
    if isinstance(item, Rescale):
        begin_rescaling(cycle, world, batch, item)
    elif isinstance(item, Stop):
        _stop(cycle, world, batch, item)
    else:
        _start(cycle, batch, item)


def _stop(cycle: Cycle, world: World, batch: str, item: Stop) -> None:
    """Begin to take one gang back."""
    changes: Changes = {**item.changes, "batch": batch, "then": item.then}
    engine, message = cycle.session.engine, message_of(cycle, world, item)
    stopped = cycle.carry_out(item.record, lambda old: engine.stop(old, item.reason, message, item.phase, **changes))
    if stopped is not None:
        cycle.decide(stopped, STOP_ACTIONS.get(item.phase, "stop"), item.reason, message)


def _start(cycle: Cycle, batch: str, item: Choice) -> None:
    """Start one gang; one whose record cannot be written keeps no room meanwhile."""
    grant = _grant(item, batch)

    def start(record: Record) -> Record:
        """All of it, or as far as it can be done without waiting."""
        session = cycle.session
        try:
            started = session.engine.submit(record, session.memory.plan(record, grant.steering, grant.charged), grant)
            # The status of an AppWrapper is written after its state, and its users wait for it.
            wait = session.defers and record.store == "configmap"
            return cycle.save(started) if started.unsaved and not wait else started
        except Exception as error:
            if isinstance(error, NotBegun | Overtaken) or not isinstance(error, MusterError):
                # No holder goes on with it; what an error of ours left is found by its ticket, or listed anew.
                cycle.session.over.add((record.uid, batch))
            raise

    started = cycle.carry_out(item.record, start)
    if started is None:
        return
    if started.phase == "dispatching":
        cycle.session.pauses.look_later(started.uid)
        cycle.decide(started, "wait", "Dispatching", cycle.session.engine.reason(started) or "")
    elif started.phase == "dispatched":
        text = verdict_text(item.told).partition("\n")[0].partition(": ")[2]
        cycle.decide(started, "start", "Started", text, item.told)
    elif started.phase == "queued":
        # The next cycle asks for the reason by a dry run.
        session = cycle.session
        session.given_back.add(started.uid)
        session.over.add((started.uid, batch))
        cycle.check_again(session.clock.now())
    else:
        # What the server would allow of others of its kind has to be asked again.
        cycle.session.given_back.add(started.uid)
        cycle.session.allowed_shapes.clear()
        cycle.decide(started, "stop", *started.why)
