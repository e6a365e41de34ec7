# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which running gangs get another size: smaller for one that waits for nodes, larger where nobody does."""

from __future__ import annotations

import bisect
import dataclasses
import types
import typing as t
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.planned import ResizePlan
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import Resize
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import ElasticTerms
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    STARTING_PHASES,
    GangState,
    carried_step,
    returned_at,
    size_seconds,
    work_began,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.start_sizes import (
    SizeRequest,
    waiting_job,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.checkpoint_wait import (
    Wait,
    Wanted,
    for_owners,
    go_on_waiting,
    lost_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.guards import SizeTerms
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import SizeDecision, SizePlan
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.plan import plan_sizes
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.room_capacity import RoomCapacity
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import DEFAULT_RULES, SizeSettings
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.shrinking import by_priority
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.speed import SpeedCurve
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.timing import CLOCKS_DIFFER, lost_seconds
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

# Times are kept in seconds: a rule about time surely speaks so much later.
_ROUNDED = 1.0
# A resize in vain makes the next one wait twice as long, so many times at most.
MOST_DOUBLINGS = 6


class RunningGang(t.NamedTuple):
    """An elastic gang that runs: its base priority, when it was started, and its pods as the room has them.

    target is the size that it gets once its pods have gone; None for one that keeps what it has. progress is what its
    trainer told; None where it told nothing. known is the gang as policies see it without what time changes, if noted.
    """

    record: Record
    state: GangState
    terms: ElasticTerms
    size: int
    priority: int
    began: float
    pods: tuple[Pod, ...] = ()
    target: int | None = None
    progress: Progress | None = None
    known: ElasticJob | None = None


class Taking(t.NamedTuple):
    """The size to which a running gang shrinks at once for one that takes back its own, and why."""

    to: int
    asker: str
    why: str


class SizeChange(t.NamedTuple):
    """A running gang that gets another size, and the gang that it shrinks for."""

    record: Record
    resize: Resize
    asker: str | None = None
    # The gang with the larger of both sizes, if its object gets the size while it is there.
    larger: Gang | None = None


class PlanChange(t.NamedTuple):
    """A running gang of which another plan is to be written; None for one whose plan is dropped."""

    record: Record
    plan: ResizePlan | None


class Sizing(t.NamedTuple):
    """Running gangs that get another size, and when to look again if others may later; both without anything else.

    planned are plans that change: resizes for which a trainer is asked to save first. saving are those for gangs that
    take back their own, as they will be. starting are the sizes, by uid, with which gangs start for which others become
    smaller. plans are what is behind it, by resource: sizes, reasons and what is idle, for those who ask.
    """

    changes: tuple[SizeChange, ...] = ()
    next_check: float | None = None
    planned: tuple[PlanChange, ...] = ()
    saving: tuple[SizeChange, ...] = ()
    starting: Mapping[str, int] = types.MappingProxyType({})
    plans: Mapping[str, SizePlan] = types.MappingProxyType({})


# Nobody asked about sizes.
NOT_ASKED = Sizing()


@dataclasses.dataclass(frozen=True)
class ResizeQuestion:
    """What a decision about sizes needs to know.

    waiting are gangs that lack nothing but nodes. under_way counts resizes that have not ended, those of running too.
    gang_at is a gang at a size, may_have whether namespace and queue let it grow to one, comes_back whether they let it
    start again with one once it is taken back, may_ask whether one gang may ask another to shrink, is_others whether a
    gang waits that only other runs may start. resources are looked at besides those of running gangs. taken are shrinks
    that are decided already, by uid; under_way counts them too. saves are those that are decided once a gang has saved.
    Only if it is explained the plans are told as well.
    """

    running: Sequence[RunningGang]
    waiting: Sequence[SizeRequest]
    room: Room
    now: float
    under_way: int
    gang_at: Callable[[str, int], Gang]
    may_have: Callable[[Record, int], bool]
    comes_back: Callable[[Record, int], bool]
    may_ask: Callable[[str, str], bool]
    is_others: Callable[[str], bool]
    settings: SizeSettings = DEFAULT_RULES.settings
    resources: Collection[str] = ()
    taken: Mapping[str, Taking] = dataclasses.field(default_factory=dict)
    saves: Mapping[str, Taking] = dataclasses.field(default_factory=dict)
    explained: bool = False
    _jobs: dict[str, ElasticJob] = dataclasses.field(default_factory=dict, init=False, compare=False, repr=False)

    def answer(self) -> Sizing:
        """The gangs to resize now."""
        resources = sorted({*self.resources, *(item.terms.range.resource for item in self.running)})
        found: list[Sizing] = []
        for resource in resources:
            begun = sum(change.record.uid not in self.taken for item in found for change in item.changes)
            found.append(self._of_resource(resource, begun))
        again = min((item.next_check for item in found if item.next_check is not None), default=None)
        changes = tuple(change for item in found for change in item.changes)
        planned = tuple(change for item in found for change in item.planned)
        saving = tuple(change for item in found for change in item.saving)
        starting = {uid: size for item in found for uid, size in item.starting.items()}
        plans = {resource: plan for item in found for resource, plan in item.plans.items()}
        return Sizing(changes, again, planned, saving, starting, plans)

    def _of_resource(self, resource: str, begun: int) -> Sizing:
        """Those that have such GPUs; so many others are resized as well."""
        found = {item.record.uid: item for item in self.running if item.terms.range.resource == resource}
        taken = [(item, self.taken[uid]) for uid, item in found.items() if uid in self.taken]
        going = {item.record.uid: item._replace(target=taking.to, known=None) for item, taking in taken}
        asked = {uid: item._replace(known=_asked_to_save(item)) for uid, item in found.items() if uid in self.saves}
        mine = {**found, **asked, **going}
        kept = [item for uid, item in mine.items() if item.target is None and uid not in asked]
        terms = self._terms(len(mine) - len(kept) - len(asked) - begun)
        plan = self._plan(mine, resource, terms, {})
        changed = [mine[uid] for uid in plan.changed if uid in mine]
        if any(not self._is_allowed(item, plan.decisions[item.record.uid]) for item in changed):
            # What one may not have is for others.
            plan = self._plan(mine, resource, terms, {item.record.uid: self._most(item) for item in kept})
        sizing, saves = self._carried_out(kept, plan, terms, begun), [self._save_first(item) for item in asked.values()]
        later = [sizing.next_check, *(wait.look for _change, wait in saves)]
        return sizing._replace(
            changes=(*(self._taken(item, taking) for item, taking in taken), *sizing.changes),
            next_check=min((moment for moment in later if moment is not None and moment > self.now), default=None),
            planned=(*sizing.planned, *(change for change, _wait in saves if change is not None)),
            saving=tuple(self._taken(item, self.saves[uid]) for uid, item in asked.items()),
            starting={uid: plan.sizes[uid] for uid in plan.changed if uid not in mine},
            plans={resource: plan} if self.explained else {},
        )

    def _carried_out(self, kept: Sequence[RunningGang], plan: SizePlan, terms: SizeTerms, begun: int) -> Sizing:
        """What of a decision is done now, and what waits for a checkpoint first."""
        changed = {*plan.changed}
        # Of all others nothing is to be done, now or later.
        concerned = (item for item in kept if item.record.uid in changed or item.state.planned is not None)
        decided = [(item, plan.decisions[item.record.uid]) for item in concerned]
        changes = [change for item, decision in decided if (change := self._change(item, decision))]
        waits = [(item, decision, self._wait(item, decision)) for item, decision in decided]
        ready = [(item, decision) for item, decision, wait in waits if wait.goes]
        # Only now they are counted; whoever shrinks makes room for others.
        ready.sort(key=lambda pair: (pair[1].size > pair[1].before, pair[0].record.uid))
        most = self.settings.terms.most_resizes
        left = None if most is None else max(0, most - self.under_way - begun - len(changes))
        going = [self._size_change(item, decision) for item, decision in ready[:left]]
        gone = {change.record.uid for change in going}
        planned = [
            PlanChange(item.record, wait.plan)
            for item, _decision, wait in waits
            if item.record.uid not in gone and wait.plan != item.state.planned
        ]
        later = [*self._moments(kept, plan, terms)]
        later += [wait.look for _item, _decision, wait in waits if wait.look is not None]
        again = min((moment for moment in later if moment > self.now), default=None)
        return Sizing((*changes, *going), again, tuple(planned))

    def _terms(self, uncounted: int) -> SizeTerms:
        """The terms of one resource; uncounted are resizes that are under way and that its plan counts itself."""
        terms = self.settings.terms
        if terms.most_resizes is None:
            return terms
        return dataclasses.replace(terms, most_resizes=max(0, terms.most_resizes - self.under_way + uncounted))

    def _plan(
        self, mine: Mapping[str, RunningGang], resource: str, terms: SizeTerms, limits: Mapping[str, int]
    ) -> SizePlan:
        """The sizes of these gangs, none of which grows beyond its limit, and of those that wait."""
        jobs = [self._job(item) for item in mine.values()]
        if limits:
            jobs = [dataclasses.replace(job, most=limits.get(job.uid)) for job in jobs]
        asking = (waiting_job(request, resource, self.now) for request in self.waiting)
        draining = [item for item in mine.values() if item.target is not None]
        return plan_sizes(
            [*jobs, *(job for job in asking if job is not None)],
            self._capacity(mine, draining, resource),
            now=self.now,
            policy=self.settings.policy,
            terms=terms,
            may_take=lambda asker, victim: by_priority(asker, victim) and self.may_ask(asker.uid, victim.uid),
        )

    def _most(self, item: RunningGang) -> int:
        """The largest size that more than nodes lets a gang grow to."""
        larger = [size for size in item.terms.wanted.sizes if size > item.size]
        able = bisect.bisect_left(larger, True, key=lambda size: not self.may_have(item.record, size))
        return larger[able - 1] if able else item.size

    def _change(self, item: RunningGang, decision: SizeDecision) -> SizeChange | None:
        """What becomes of a gang now; None if it stays as it is."""
        if decision.size == decision.before or decision.when != "now" or not self._is_allowed(item, decision):
            return None
        return self._size_change(item, decision)

    def _size_change(self, item: RunningGang, decision: SizeDecision) -> SizeChange:
        """A gang with its new size, and whom it shrinks for."""
        return SizeChange(item.record, self._resize(item, decision), self._asker(decision))

    def _taken(self, item: RunningGang, taking: Taking) -> SizeChange:
        """A gang that shrinks for one that takes back its own."""
        decision = SizeDecision(item.record.uid, item.size, taking.to, "shrinks", "now", for_uid=taking.asker)
        resize = dataclasses.replace(self._resize(item, decision), why=taking.why)
        return SizeChange(item.record, resize, taking.asker)

    def _save_first(self, item: RunningGang) -> tuple[PlanChange | None, Wait]:
        """How the plan of a gang changes that shrinks for one that takes back its own, once it has saved."""
        taking, told = self.saves[item.record.uid], item.progress or Progress()
        wanted = Wanted(item.size, taking.to, taking.why, taking.asker)
        wait = go_on_waiting(item.state.planned, wanted, for_owners(item.terms), told, self.now)
        return PlanChange(item.record, wait.plan) if wait.plan != item.state.planned else None, wait

    def _wait(self, item: RunningGang, decision: SizeDecision) -> Wait:
        """What becomes of a plan that waits for a checkpoint, and whether there is to be one."""
        wanted, plan, told = None, item.state.planned, item.progress or Progress()
        if decision.changes and decision.when == "at_checkpoint" and self._is_allowed(item, decision):
            wanted = Wanted(decision.before, decision.size, _why(decision), self._asker(decision))
        of_others = plan is not None and plan.asker is not None and self.is_others(plan.asker)
        return go_on_waiting(plan, wanted, item.terms, told, self.now, of_others=of_others)

    def _asker(self, decision: SizeDecision) -> str | None:
        """The gang that one shrinks for."""
        return decision.for_uid if decision.size < decision.before else None

    def _moments(self, kept: Iterable[RunningGang], plan: SizePlan, terms: SizeTerms) -> Iterator[float]:
        """When time alone may lead to another size of gangs of which nobody knows how long they run.

        Time alone lets nobody grow where all GPUs are in use: that they are free is an event.
        """
        waiting, unused = bool(self.waiting), plan.capacity.unused > 0
        for item in kept if waiting or unused else ():
            wanted = item.terms.wanted
            asked = waiting and item.size > wanted.min
            larger = wanted.larger(plan.sizes[item.record.uid]) if unused else None
            if not asked and larger is None:
                continue
            job = self._job(item)
            if job.resized is not None:
                yield job.resized + job.cooldown + _ROUNDED
            cost = terms.worth * job.restart
            if asked:
                yield item.began + cost + _ROUNDED
            if larger is not None and plan.decisions[item.record.uid].reason == "not_worth":
                gain = 1 - job.curve.at(item.size) / job.curve.at(larger)
                yield item.began + cost / gain + _ROUNDED

    def _capacity(
        self, mine: Mapping[str, RunningGang], draining: Iterable[RunningGang], resource: str
    ) -> RoomCapacity:
        """The room with what gangs have; of one between two sizes the larger."""
        held = {uid: item.pods for uid, item in mine.items()}
        capacity = RoomCapacity(self.room, held, lambda job, size: self.gang_at(job.uid, size), resource)
        for item in draining:
            job = self._job(item)
            if job.heading > job.size:
                capacity = capacity.resized(job, job.heading) or capacity
        return capacity

    def _job(self, item: RunningGang) -> ElasticJob:
        """A gang as the policies see it, worked out once."""
        uid = item.record.uid
        if uid not in self._jobs:
            self._jobs[uid] = seen_by_policies(item, self.now)
        return self._jobs[uid]

    def _is_allowed(self, item: RunningGang, decision: SizeDecision) -> bool:
        """Whether more than nodes lets a gang have its new size."""
        if decision.size == decision.before:
            return True
        may = self.comes_back if decision.size < decision.before else self.may_have
        return may(item.record, decision.size)

    def _resize(self, item: RunningGang, decision: SizeDecision) -> Resize:
        """What is written of a resize."""
        return Resize(
            decision.before,
            decision.size,
            "recreate",
            _why(decision),
            time_text(self.now),
            self._counted(item, decision),
            work_began(item.state),
            round(self._lost(item), 1),
        )

    def _counted(self, item: RunningGang, decision: SizeDecision) -> int:
        """How many resizes of a gang in a row were in vain, with the one that a new one takes back.

        A growth that gives back what was taken as soon as it may tells that nobody needed it; then it shrinks less
        often, until it keeps a size for a while.
        """
        last, job = item.state.resize, self._job(item)
        since = None if last is None else read_time(last.since)
        if last is None or since is None:
            return 0
        low, high = sorted((decision.before, decision.size))
        gain = 1 - job.curve.at(low) / job.curve.at(high)
        pays = self.settings.terms.worth * job.restart / gain if gain > 0 else 0.0
        if carried_step(item.state) == "verified" and self.now - since > 2 * (job.cooldown + pays):
            return 0
        taken_back = last.to < last.size and decision.size > decision.before
        return min(_in_vain(item.state) + taken_back, INT32 - 1)

    def _lost(self, item: RunningGang) -> float:
        """The seconds of work that a resize throws away, as far as the trainer told anything."""
        if item.progress is None:
            return 0.0
        ran = max(0.0, self.now - item.began)
        return lost_by(item.terms.timing, item.state.planned, item.progress, ran=ran, now=self.now)


def seen_by_policies(item: RunningGang, now: float) -> ElasticJob:
    """What is known of a gang now."""
    ran, timing = max(0.0, now - item.began), item.terms.timing
    known = item.known or without_time(item)
    lost = 0.0 if item.progress is None else lost_seconds(timing, known.checkpointed, ran, now)
    attained = item.terms.range.unit * size_seconds(item.state, now)
    return known.at(ran, attained, item.terms.restart_cost + lost)


def without_time(item: RunningGang) -> ElasticJob:
    """What is known of a gang whatever time it is; a resize that was rolled back makes the next one wait longer."""
    terms, last, plan = item.terms, item.state.resize, item.state.planned
    told = item.progress or Progress()
    return ElasticJob(
        item.record.uid,
        terms.wanted,
        size=item.size,
        curve=SpeedCurve(told.speeds, dict(terms.profile)),
        remaining=told.remaining,
        total=told.total,
        target=item.target,
        priority=item.priority,
        submitted=item.record.submitted,
        resized=None if last is None else read_time(last.since),
        checkpointed=None if told.checkpoint is None else told.checkpoint.time,
        deadline=terms.due,
        timing=terms.timing,
        restart=terms.restart_cost,
        cooldown=terms.cooldown * 2 ** min(_in_vain(item.state), MOST_DOUBLINGS),
        missed=None if plan is None else plan.missed_at,
        planned=plan.to if plan is not None and plan.waits else None,
    )


def _asked_to_save(item: RunningGang) -> ElasticJob:
    """A gang that is left alone until it has saved its work for one that takes back its own."""
    return dataclasses.replace(item.known or without_time(item), busy="reclaim")


def _why(decision: SizeDecision) -> str:
    """For what a size is changed."""
    return "there is room for it" if decision.size > decision.before else "another gang waits for its GPUs"


def resizes_under_way(records: Iterable[Record], now: float, patience: float) -> int:
    """How many gangs are between two sizes; those that do not come to an end in time keep nobody else waiting."""
    states = ((record, record.state) for record in records if record.state is not None)
    # Most records of a cluster know of no resize at all.
    known = ((record, state) for record, state in states if state.resize is not None or state.phase == "rescaling")
    return sum(_is_under_way(record, state, now, patience) for record, state in known)


def _is_under_way(record: Record, state: GangState, now: float, patience: float) -> bool:
    """Whether a gang is between two sizes; a start has rules of its own by which it ends."""
    if state.phase == "rescaling":
        return True
    if state.phase in STARTING_PHASES:
        return carried_step(state) == "starting"
    return (kept_size(state, now, patience) or returns_with(record, now, patience)) is not None


def returns_with(record: Record, now: float, patience: float) -> int | None:
    """The size with which a gang comes back from its resize, before all others; None when it does not, or too late."""
    state = record.state
    if state is None or state.resize is None or record.spec is None or record.spec.elastic is None:
        return None
    return state.resize.to if _is_recent(returned_at(state), now, patience) else None


def kept_size(state: GangState, now: float, patience: float) -> int | None:
    """The size for which room is kept while the pods of a resized gang go; None when they do not go in time."""
    if state.phase != "resizing" or state.resize is None:
        return None
    return state.resize.to if _is_recent(state.resize.since, now, patience) else None


def _is_recent(at: str | None, now: float, patience: float) -> bool:
    """Whether something happened lately; what is told of a moment ahead was not written by us."""
    since = None if at is None else read_time(at)
    return since is not None and -CLOCKS_DIFFER <= now - since <= patience


def _in_vain(state: GangState) -> int:
    """How many resizes of a gang in a row led to nothing."""
    if state.resize is None:
        return 0
    if carried_step(state) != "verified":
        return state.resize.in_vain + 1
    # One that gives back what was just taken is carried out, and was in vain all the same.
    return state.resize.in_vain


def pods_by_gang(
    room: Room, gangs: Mapping[str, RunningGang], gang_of: Callable[[Pod], str | None]
) -> dict[str, list[Pod]]:
    """The pods in a room of each of these gangs; those of other namespaces are none, whatever their labels say."""
    found: dict[str, list[Pod]] = {uid: [] for uid in gangs}
    for here in room.pods_on:
        for pod in here:
            uid = gang_of(pod)
            if uid in found and gangs[uid].record.namespace == pod.namespace:
                found[uid].append(pod)
    return found
