# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan of one cycle, a pure function of what was read: a run carries it out, check mode shows it."""

from __future__ import annotations

import dataclasses
import math
import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.planned import (
    NO_CHECKPOINT,
    PLAN_DROPPED,
    PLANNED,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    EVICTED,
    OUTCOME_UNKNOWN,
    REFUSED,
    RESIZED,
    WAITING_PHASES,
    Changes,
    Phase,
    advance,
    new_state,
    resize_step,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.completion import Search
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import (
    Advance,
    HealthOptions,
    Stay,
    Step,
    Subject,
    Undo,
    depends_on_moments,
    judge_health,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.foresight import (
    Foresight,
    Smaller,
    Walk,
    foresee,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept_walk import KeptQueue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import back_off
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reclaim import (
    Eviction,
    EvictionTerms,
    taken_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.resizes import (
    NOT_ASKED,
    PlanChange,
    SizeChange,
    Sizing,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice, Queue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.refusals import why_never
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import Rescale
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, pods_of

# After an eviction: this long, then twice as long each time, up to the most.
EVICTION_PAUSE = 60.0
LONGEST_EVICTION_PAUSE = 3600.0
_NO_TICKET = "it has no ticket any more, so nothing that was started for it is left"


@dataclasses.dataclass(frozen=True, slots=True)
class Situation:
    """What one cycle decides on, besides its options and what it remembers of specifications."""

    world: World
    # The records this run is for, as they are counted: an edited one with what was started.
    records: Mapping[str, Record]
    # Those of other namespaces: they count, but nothing is decided about them.
    elsewhere: tuple[Record, ...]
    # What open entries of the batch promise to gangs whose records do not tell it.
    promises: Mapping[str, Outstanding]
    # The server's time: as it most probably is, and as late as it certainly is (None when nobody can tell).
    now: float
    certain: float | None
    # Evaluates a jmespath expression over a live object.
    search: Search | None = None
    # How long gangs of a queue and name prefix usually run; None when only the records given can tell.
    history: Mapping[tuple[str | None, str], float] | None = None
    # Why gangs cannot be written at the moment; they hold nothing.
    troubled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    # Records that this cycle must not act on, and those of them whose health may be judged all the same.
    resting: Collection[str] = frozenset()
    judged: Collection[str] = frozenset()
    # Records that could not be written time and again: nobody waits for what they hold.
    unwritable: Collection[str] = frozenset()
    # Objects of edited gangs that are gone, and gangs whose ticket does not exist, whatever their records say.
    lost: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ticketless: Collection[str] = frozenset()
    # Whether suspended Jobs take other resources on this server.
    suspended_jobs_change: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Stop:
    """A started gang to be undone, and what the undo leads to; an evicted one made room for others."""

    record: Record
    reason: str
    message: str
    then: Phase
    changes: Changes
    phase: Phase = "undoing"
    # The queue that it is evicted for.
    queue: str | None = None
    # The gang that it shrinks for.
    asker: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class EvictionGroup:
    """Gangs that are evicted for one that waits, or shrink for it, all or none."""

    asker: Record
    victims: tuple[Stop | Rescale, ...]
    # Until when what they free is held for the asker, as states carry it.
    until: str


@dataclasses.dataclass(frozen=True, slots=True)
class HealthStep:
    """A step of a gang that needs no room, and so no batch; Stay only notes how items ended."""

    record: Record
    step: Advance | Stay


@dataclasses.dataclass(frozen=True, slots=True)
class RefusedGang:
    """A waiting gang that can never be started as it is written, and why."""

    record: Record
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class CyclePlan:
    """All that one cycle decides; whatever follows from it is decided by later ones."""

    refusals: tuple[RefusedGang, ...]
    steps: tuple[HealthStep, ...]
    stops: tuple[Stop, ...]
    # Gangs of queues that are drained.
    drained: tuple[Stop, ...]
    choices: tuple[Choice, ...]
    # Who is evicted for whom, or shrinks.
    evictions: tuple[EvictionGroup, ...]
    # Running gangs that get another size: taken back for that, or while their objects are there.
    resized: tuple[Stop | Rescale, ...]
    # Running gangs whose trainers are asked to save for another size, or no longer.
    planned: tuple[PlanChange, ...]
    # Gangs whose health could not be judged, and why.
    unjudged: tuple[tuple[Record, BadInput], ...]
    # Errors of ours that gangs provoked in the queue, by record.
    unforeseen: Mapping[str, str]
    # When a rule about time may speak next, in seconds on the server's clock.
    next_check: float | None
    # The records as they are when steps and refusals are carried out; without those that provoked errors of ours.
    after: Mapping[str, Record]
    # What is behind the resizes, and gangs that a run which only resizes leaves to others to start.
    sizing: Sizing = NOT_ASKED
    left: tuple[Choice, ...] = ()

    def walked_again(self, walked: Walked) -> CyclePlan:
        """The plan with what another walk down the queue came to, but for its choices."""
        return dataclasses.replace(
            self,
            drained=walked.drained,
            evictions=walked.evictions,
            resized=walked.resized,
            planned=walked.planned,
            sizing=walked.sizing,
            left=walked.left,
        )

    @property
    def starts(self) -> tuple[Choice, ...]:
        """The gangs to start, in order."""
        return tuple(choice for choice in self.choices if choice.chosen)

    @property
    def waiting(self) -> tuple[Choice, ...]:
        """The gangs that wait, and what for."""
        return tuple(choice for choice in self.choices if not choice.chosen)


def plan_cycle(
    situation: Situation, options: DispatchOptions, memory: Memory, *, walker: type[Queue] = KeptQueue
) -> CyclePlan:
    """Decide: who is refused, what becomes of started gangs, and who of the waiting ones starts.

    The queue is walked as if the steps and refusals were carried out already, in this order: a gang that is resumed is
    refused like any other that waits. walker is how the queue is walked; all ways come to the same.
    """
    health = _Health(situation, options, memory)
    after = _after_steps(situation, health.steps)
    refusals, troubles = _refuse(situation, after, options, memory)
    for item in refusals:
        uid, step = item.record.uid, Advance("failed", REFUSED, item.message)
        after[uid] = _advanced(after[uid], situation.now, step)
    known = {uid: record for uid, record in after.items() if uid not in troubles} if troubles else after
    stopped = {item.record.uid for item in health.stops}
    walked = walk_queue(situation, options, memory, known, stopped, walker=walker)
    return CyclePlan(
        tuple(refusals),
        tuple(health.steps),
        tuple(health.stops),
        walked.drained,
        walked.choices,
        walked.evictions,
        walked.resized,
        walked.planned,
        tuple(health.unjudged),
        {**troubles, **walked.unforeseen},
        _earliest(health.next_check, walked.next_check),
        known,
        walked.sizing,
        walked.left,
    )


def without_failed(plan: CyclePlan, failed: Mapping[str, str], now: float) -> dict[str, Record]:
    """The records after the plan's steps when these gangs were refused by the server for good."""
    steps = {uid: Advance("failed", REFUSED, message) for uid, message in failed.items()}
    return {uid: _advanced(item, now, steps[uid]) if uid in steps else item for uid, item in plan.after.items()}


def walk_queue(
    situation: Situation,
    options: DispatchOptions,
    memory: Memory,
    records: Mapping[str, Record],
    stopped: Collection[str],
    *,
    walker: type[Queue] = KeptQueue,
) -> Walked:
    """What the walk down the queue comes to; stopped are gangs that are stopped in this cycle anyway."""
    # Threads of slow calls may change the records meanwhile.
    present = list(records.values())
    queue = walker(
        situation.world,
        [item for item in present if item.spec is None or not item.spec.suspended or not _is_to_rest(item, options)],
        elsewhere=situation.elsewhere,
        promises=situation.promises,
        troubled=situation.troubled,
        terms=options,
        memory=memory,
        now=situation.now,
        history=situation.history,
        evicting=EvictionTerms(stopped, situation.resting, situation.unwritable, situation.certain),
        suspended_jobs_change=situation.suspended_jobs_change,
    )
    choices, reclaim, now = tuple(queue.decide()), queue.reclaim, situation.now
    if reclaim is None:
        sizing = queue.resizes({*stopped, *situation.resting})
        walked = Walked(choices, queue.unforeseen, (), (), sizing.next_check, _resized(sizing, now), sizing)
        return _sizes_only(walked) if options.sizes_only else walked
    drained = tuple(_evicted(record, f"queue {name} is drained", None, now) for record, name in reclaim.drained)
    evicted = (record.uid for item in reclaim.evictions if not item.sizes for record in item.victims)
    sizing = queue.resizes({*stopped, *situation.resting, *(item.record.uid for item in drained), *evicted})
    resized = {item.record.uid: item for item in _resized(sizing, now)}
    groups = tuple(group for item in reclaim.evictions if (group := _group(item, resized, now)) is not None)
    left = tuple(item for uid, item in resized.items() if all(uid not in one.sizes for one in reclaim.evictions))
    again = _earliest(reclaim.next_check, sizing.next_check)
    walked = Walked(choices, queue.unforeseen, drained, groups, again, left, sizing)
    return _sizes_only(walked) if options.sizes_only else walked


def _sizes_only(walked: Walked) -> Walked:
    """The walk of a run that only resizes: others have the room that they would get, but somebody else starts them."""
    left = tuple(item for item in walked.choices if item.chosen and not _is_between_sizes(item.record))
    kept = tuple(item for item in walked.choices if not item.chosen or _is_between_sizes(item.record))
    return walked._replace(choices=kept, drained=(), evictions=(), left=left)


def _is_between_sizes(record: Record) -> bool:
    """Whether a gang was taken back to be started with another size."""
    return record.state is not None and resize_step(record.state) == "starting"


def _resized(sizing: Sizing, now: float) -> tuple[Stop | Rescale, ...]:
    """The gangs that get another size: those that are started again for that keep their place."""
    return tuple(
        _resizing(change, now)
        if change.larger is None
        else Rescale(change.record, change.resize, change.larger, asker=change.asker)
        for change in sizing.changes
    )


def _resizing(change: SizeChange, now: float) -> Stop:
    """The stop of a gang that is resized."""
    resize = change.resize
    message = f"from size {resize.size} to {resize.to}: {resize.why}"
    since = dataclasses.replace(resize, since=time_text(now))
    changes: Changes = {"holding": False, "resize": since, "planned": None}
    return Stop(change.record, RESIZED, message, "queued", changes, "resizing", asker=change.asker)


def plan_words(change: PlanChange) -> tuple[str, str]:
    """What becomes of a plan, in one word and in a sentence."""
    plan = change.plan
    if plan is None:
        return PLAN_DROPPED, "its size need not change any more"
    sizes = f"from size {plan.size} to {plan.to}"
    if not plan.waits:
        return NO_CHECKPOINT, f"{sizes}: no checkpoint came in time"
    return PLANNED, f"{sizes} after the next checkpoint: {plan.why}"


def _earliest(*moments: float | None) -> float | None:
    """The first of these moments; None when there is none."""
    return min((moment for moment in moments if moment is not None), default=None)


class Walked(t.NamedTuple):
    """What a walk down the queue came to, and the errors of ours that gangs provoked, by record."""

    choices: tuple[Choice, ...]
    unforeseen: dict[str, str]
    drained: tuple[Stop, ...] = ()
    evictions: tuple[EvictionGroup, ...] = ()
    next_check: float | None = None
    resized: tuple[Stop | Rescale, ...] = ()
    sizing: Sizing = NOT_ASKED
    left: tuple[Choice, ...] = ()

    @property
    def planned(self) -> tuple[PlanChange, ...]:
        """The plans that change: resizes for which a trainer is asked to save first."""
        return self.sizing.planned


def _group(eviction: Eviction, resized: Mapping[str, Stop | Rescale], now: float) -> EvictionGroup | None:
    """An eviction as the stops of its victims, or as their resizes; None if one of them is not resized after all."""
    message, victims = taken_by(eviction.queue), tuple[Stop | Rescale, ...]()
    if eviction.sizes:
        victims = tuple(resized[record.uid] for record in eviction.victims if record.uid in resized)
    else:
        victims = tuple(_evicted(record, message, eviction.queue, now) for record in eviction.victims)
    whole = len(victims) == len(eviction.victims)
    return EvictionGroup(eviction.asker, victims, time_text(eviction.until)) if whole else None


def _evicted(record: Record, message: str, queue: str | None, now: float) -> Stop:
    """The stop of an evicted gang: it keeps its place, and pauses longer each time it had to go for another."""
    changes: Changes = {"holding": False}
    if queue is not None:
        times = (record.state.evictions if record.state is not None else 0) + 1
        pause = back_off(EVICTION_PAUSE, "exponential", times, LONGEST_EVICTION_PAUSE)
        changes.update({"evictions": times, "not_before": time_text(math.ceil(now + pause))})
    return Stop(record, EVICTED, message, "queued", changes, "evicting", queue)


def foresee_queue(situation: Situation, options: DispatchOptions, memory: Memory) -> Foresight:
    """What the queue comes to if nothing else happens: one walk after the other, each carried out at once."""
    plan = plan_cycle(situation, options, memory)
    stopped = {item.record.uid for item in plan.stops}

    def walk(world: World, records: Mapping[str, Record]) -> Walk:
        """One walk in another world."""
        present = dataclasses.replace(situation, world=world)
        walked = walk_queue(present, options, memory, records, stopped, walker=Queue)
        groups = walked.evictions
        sizes = {change.record.uid: change.resize for change in walked.sizing.changes}
        victims = [item.record for group in groups for item in group.victims]
        evicted = (
            *walked.drained,
            *(item for group in groups for item in group.victims if item.record.uid not in sizes),
        )
        # Whoever saves first has done so one day.
        smaller = [(record, sizes[record.uid]) for record in victims if record.uid in sizes]
        smaller += [(change.record, change.resize) for change in walked.sizing.saving]
        shrunk = ((record, one, memory.at_size(record, one.to, world.snapshot)) for record, one in smaller)
        return Walk(
            walked.choices,
            tuple(item.record for item in evicted),
            tuple(Smaller(record, resize, gang) for record, resize, gang in shrunk if gang is not None),
            {group.asker.uid: group.until for group in groups},
        )

    return foresee(situation.world, plan.after, situation.now, walk)


class _Health:
    """What becomes of the gangs this run is for, one after the other."""

    def __init__(self, situation: Situation, options: DispatchOptions, memory: Memory) -> None:
        """Judge all of them; whatever has to end for its age waits until it is certain how late it is."""
        self._situation = situation
        self.steps: list[HealthStep] = []
        self.stops: list[Stop] = []
        self.unjudged: list[tuple[Record, BadInput]] = []
        self.next_check: float | None = None
        if situation.certain is None:
            self.next_check = situation.now + 1.0
            return
        # The time that is certain stays behind a little.
        self._late = max(0.0, situation.now - situation.certain)
        for record, step in judge_gangs(situation, options, situation.certain, memory):
            self._sort(record, step)

    def _sort(self, record: Record, step: Step | BadInput) -> None:
        """Put one gang's step where it belongs."""
        gone = self._situation.lost.get(record.uid)
        if isinstance(step, BadInput):
            self.unjudged.append((record, step))
        elif isinstance(step, Undo):
            self.stops.append(Stop(record, step.reason, step.message, step.then, step.changes()))
        elif gone is not None:
            message = f"{gone} is gone and was never seen to end, and the record was edited since"
            self._fail(record, message)
        elif not isinstance(step, Stay):
            self.steps.append(HealthStep(record, step))
        elif record.uid in self._situation.ticketless:
            self._fail(record, _NO_TICKET)
        else:
            self._stay(record, step)

    def _fail(self, record: Record, message: str) -> None:
        """Nobody can tell how a gang ended; its work is not done again unasked."""
        self.stops.append(Stop(record, OUTCOME_UNKNOWN, message, "failed", {"holding": False}))

    def _stay(self, record: Record, step: Stay) -> None:
        """Look at a gang again in time, and note how its items ended."""
        if step.next_check is not None:
            moment = step.next_check + self._late
            self.next_check = _earliest(self.next_check, moment)
        if record.state is not None and (step.holding != record.state.holding or step.outcomes is not None):
            self.steps.append(HealthStep(record, step))


def judge_gangs(
    situation: Situation, options: DispatchOptions, now: float, memory: Memory | None = None
) -> Iterator[tuple[Record, Step | BadInput]]:
    """What each gang this run is for needs next; an expression that cannot be evaluated is told as such.

    With a memory gangs are judged anew only when something of them changed, or time may have a word.
    """
    memory = memory or Memory()
    judging = _Judging(situation, HealthOptions(options.bind_timeout, options.start_timeout), now, memory)
    for record in situation.records.values():
        if record.state is None and record.spec is not None and not record.spec.suspended:
            continue
        if judging.is_quiet(record):
            continue
        if record.uid in situation.resting and record.uid not in situation.judged:
            continue
        step: Step | BadInput | None
        try:
            step = judging.step(record) if options.may_touch(record.uid) else None
        except BadInput as error:
            step = error
        except Exception as error:  # noqa: BLE001 - it harms no other gang
            step = BadInput("judge", f"gang {record.key}", unforeseen(error))
        if step is not None:
            yield record, step


class _Judging:
    """Judges the health of one gang after the other at one moment, with what is known of them."""

    def __init__(self, situation: Situation, rules: HealthOptions, now: float, memory: Memory) -> None:
        """Rules are those of the run; they do not change while something is kept."""
        self._situation, self._rules, self._now, self._memory = situation, rules, now, memory
        kept = self._kept = memory.kept
        snapshot = situation.world.snapshot
        self._hosts = kept.hosts(snapshot) if snapshot.nodes_visible else None

    def is_quiet(self, record: Record) -> bool:
        """Whether a waiting gang is known to need no step, now or later."""
        if self._kept.quiet.get(record.uid) is not record:
            return False
        return record.uid not in self._situation.lost and record.uid not in self._situation.ticketless

    def step(self, record: Record) -> Step | None:
        """The next step of a gang; None for one that there is nothing to be said about."""
        world, now = self._situation.world, self._now
        gang = world.gangs.get(record.uid)
        if record.spec is None or gang is None:
            return None
        look = self._kept.look(record, gang, world.pods, world.items.get(record.uid, {}))
        if look.since <= now < look.until and look.hosts is self._hosts and look.search is self._situation.search:
            return t.cast(Step, look.step)
        step = judge_health(self._subject(record, record.spec, gang), now, self._rules)
        if record.phase in WAITING_PHASES and step == Stay() and not (record.state and record.state.holding):
            self._kept.quiet[record.uid] = record
        look.step, look.since, look.hosts, look.search = step, now, self._hosts, self._situation.search
        look.until = -math.inf
        if isinstance(step, Stay) and depends_on_moments(record.state):
            look.until = math.inf if step.next_check is None else step.next_check
        return step

    def _subject(self, record: Record, spec: GangSpec, gang: Gang) -> Subject:
        """Everything the judgement needs."""
        world = self._situation.world
        items, pods = world.items.get(record.uid, {}), pods_of(record, world)
        search = self._situation.search
        gang_at = partial(self._memory.at_size, record, snapshot=world.snapshot)
        return Subject(spec, record.state, gang.podsets, pods, items, self._hosts, search, record.terminating, gang_at)


def _refuse(
    situation: Situation, records: Mapping[str, Record], options: DispatchOptions, memory: Memory
) -> tuple[list[RefusedGang], dict[str, str]]:
    """Waiting gangs that can never be started as they are written, and errors of ours by which nobody can tell that."""
    world = situation.world
    refused: list[RefusedGang] = []
    troubles: dict[str, str] = {}
    for uid, record in records.items():
        if record.phase != "queued" or not options.may_touch(uid) or uid in situation.resting:
            continue
        if uid not in world.problems and memory.is_permitted(record):
            continue
        try:
            planned = partial(memory.plan, record, {})
            ask = partial(why_never, record, world.scopes, planned)
            problem = world.problems.get(uid) or memory.permitted(record, ask)
        except Exception as error:  # noqa: BLE001 - it harms no other gang
            troubles[uid] = unforeseen(error)
            continue
        if problem is not None:
            refused.append(RefusedGang(situation.records[uid], problem))
    return refused, troubles


def _is_to_rest(record: Record, options: DispatchOptions) -> bool:
    """Whether a waiting gang is to be suspended, which has to wait itself while nobody can tell how late it is."""
    suspended = record.spec is not None and record.spec.suspended
    return suspended and record.phase == "queued" and options.may_touch(record.uid)


def _after_steps(situation: Situation, steps: Iterable[HealthStep]) -> dict[str, Record]:
    """The records as they are when the steps are carried out."""
    after = dict(situation.records)
    for item in steps:
        if isinstance(item.step, Advance):
            uid = item.record.uid
            after[uid] = _advanced(after[uid], situation.now, item.step)
    return after


def _advanced(record: Record, now: float, step: Advance) -> Record:
    """A record after a step; what anybody can write into it and the queue does not ask for is left out."""
    at = micro_time_text(int(now * 1_000_000))
    state = dataclasses.replace(record.state or new_state(at, ""), verdict=None)
    after = advance(state, step.phase, at, step.reason, step.message, state.write_id, **step.changes())
    return dataclasses.replace(record, state=after)
