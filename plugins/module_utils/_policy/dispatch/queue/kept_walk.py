# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The walk down the queue that costs what changed.

Invariant: it comes to the very same choices, in the same order and words, as the plain walk (queue/walk.py) on the same
world, whatever the cycles before were. It is the same walk; only these parts are replaced:

- rooms and slot tables are kept and brought up to date instead of built anew;
- what follows from a record and its specification is noted once;
- what was said of one gang that does not fit is said of all gangs of its kind that follow: room only shrinks while a
  queue is walked, and a refusal is not worked out twice. That ends when nodes are held for somebody, and for gangs that
  may hold nodes themselves when a gang starts. A kind is everything the walk asks a gang for: the class of its demand
  and what is known of its run time.
"""

from __future__ import annotations

import functools
import itertools
import operator
import typing as t
from collections.abc import Callable, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import RESIZING_PHASES, work_began
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import unforeseen
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import spec_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import declared_too_small
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import charge_others
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept import (
    Kept,
    Look,
    NotedCharge,
    NotedRefusal,
    NotedRunning,
    WaitingNotes,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import (
    QueuedGang,
    effective_priority,
    queued_gang,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.pace import (
    RECENT_SECONDS,
    made_per_second,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quota_reserve import End
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import Quotas
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reclaim import Reclaim, is_about_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    Ending,
    Endings,
    Estimate,
    Reserver,
    gather_endings,
    has_end,
    name_prefix,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.resizes import (
    RunningGang,
    Sizing,
    without_time,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import (
    Choice,
    Name,
    Queue,
    all_of,
    asks_for,
    behind,
    discreet,
    gang_of,
    lacks_nodes,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import (
    ConcurrentStarts,
    LabelKeys,
    gang_selectors,
    keys_of,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import Demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import SpentBudgets

_BY_KEY = operator.attrgetter("key")
# What is asked for, the queue, the priority, and whether this run is for the gang.
_Kind = tuple[int, Hashable, int, bool]


class KeptQueue(Queue):
    """One cycle's walk, with what the cycles before have worked out."""

    # What a cycle begins with.

    def _open_rooms(self) -> tuple[Room, Room]:
        """Twins of the room that is kept."""
        self._kept: Kept = self._memory.kept
        self._refusal: Verdict | None = None
        self._asked_for: Hashable = None
        # Gangs that room is said to be held for.
        self._nominated: t.Sequence[WaitingNotes] = ()
        # What was said of kinds: of gangs that may not reserve, and of those that have waited long enough.
        self._settled: dict[_Kind, Verdict] = {}
        self._settled_long: dict[_Kind, Verdict] = {}
        # Refusals by the identity of what the trees said, of this cycle only.
        self._passing_refusals: dict[int, NotedRefusal] = {}
        self._kept.cycle += 1
        room = self._kept.room.follow(self._world.snapshot)
        return room.twin(), room.twin()

    def _keys_that_matter(self) -> LabelKeys:
        """The same keys from what is known of pods and gangs; with others no gang is of the class it was."""
        kept = self._kept
        selectors = {term.selector for term in kept.room.anti_terms} | kept.selectors(self._world.gangs)
        keys = keys_of(selectors.union(*(gang_selectors(item.gang) for item in self._promises.values())))
        if keys != kept.keys:
            kept.keys, kept.waiting = keys, {}
        return keys

    def _open_together(self, base: Room) -> ConcurrentStarts:
        """The same with the tables of what is shared."""
        return ConcurrentStarts(base, self._label_keys, self._kept.shared)

    def _open_reserver(self) -> Reserver:
        """The same with tables that follow the room as it is now; ends are looked for when somebody asks."""
        self._kept.board.follow(self._room)
        options, board = self._reserve_options(), self._kept.board
        return Reserver(
            self._room, self._endings(), self._now, options, self._judge_demand, board.reach, board.node_class
        )

    def _judge_demand(self, room: Room, gang: Gang, taken: QuotaUse | None) -> Verdict:
        return self._kept.judge(self._asked_for, room, gang, taken)

    @functools.cached_property
    def _started(self) -> dict[str, Look]:
        """What is known of all started gangs as they are now."""
        world, kept = self._world, self._kept
        return {
            record.uid: kept.look(record, world.gangs.get(record.uid), world.pods, world.items.get(record.uid, {}))
            for record in self._started_records
            if record.state is not None and record.spec is not None
        }

    def _promised(self) -> Iterator[Outstanding]:
        """The same without gangs of which is known that nothing is outstanding."""
        for uid, look in self._started.items():
            record, gang = look.record, look.gang
            if gang is None or record.state is None or uid in self._promises:
                continue
            if look.settled_at is not None and look.settled_at <= self._now:
                continue
            if record.phase == "rescaling":
                yield from self._kept_for(record)
                continue
            left = self._alone(record, partial(self._outstanding, record, record.state))
            if left is not None and not left.counts and not left.waiting:
                look.settled_at = self._now
            yield left or all_of(gang)
        yield from self._promises.values()

    def _least_priority(self) -> Callable[[], int] | None:
        """The same from what is known of all gangs."""
        return partial(self._kept.least_priority, self._world.snapshot)

    def _made_per_second(self) -> float:
        """The same, looking only at gangs with young pods."""
        young = list(self._kept.recent_pods(self._world.pods, self._now - RECENT_SECONDS))
        if not young:
            return 0.0
        found = self._world.tickets.values()
        tickets = frozenset(str(ticket["metadata"].get("uid")) for tickets in found for ticket in tickets)
        return made_per_second(young, tickets, self._now)

    def _ticket_names(self, ticket: Mapping[str, t.Any]) -> tuple[Name, ...]:
        """The same, read once."""
        return self._kept.ticket_names(ticket, super()._ticket_names)

    @functools.cached_property
    def _ends(self) -> Mapping[str, End]:
        """The same, of those gangs only whose end can be counted on."""
        ends: dict[str, End] = {}
        for uid, look in self._started.items():
            began, estimate = self._end_of(look)
            at = None if estimate.seconds is None else (began or self._now) + estimate.seconds
            if has_end(at, estimate.enforced, self._now):
                ends[uid] = (at, estimate.enforced)
        return ends

    def _endings(self) -> Endings:
        """The same; pods are looked for when somebody asks."""
        # Starts add pods to the room, which are none of started gangs.
        return partial(self._pods_with_ends, list(self._room.pods_on), self._ends) if self._ends else ()

    def _pods_with_ends(self, pods_on: t.Sequence[t.Sequence[Pod]], ends: Mapping[str, End]) -> list[Ending]:
        """The endings on these nodes."""
        names = {(look.record.namespace, look.record.name): uid for uid, look in self._started.items()}
        return gather_endings(pods_on, ends, partial(gang_of, names))

    def _end_of(self, look: Look) -> tuple[float | None, Estimate]:
        """When a started gang began, and how long it runs."""
        record, spec = look.record, spec_of(look.record)
        if look.history is None:
            look.history = (spec.queue, name_prefix(spec.name))
        usual = self._history.get(look.history)
        if look.end is None or look.usual != usual:
            estimate = self._alone(record, partial(self._estimate, record))
            began = read_time(work_began(record.state)) if record.state is not None else None
            if estimate is None:
                return began, Estimate()
            look.end, look.usual = (began, estimate), usual
        return look.end

    # Who waits, in order.

    def decide(self) -> list[Choice]:
        """See Queue."""
        kept, now = self._kept, self._now
        entered = self._entered()
        for notes in entered:
            notes.cycle = kept.cycle
            item = notes.item
            if item.slope:
                notes.key = (-effective_priority(item, now), item.submitted, item.uid)
        # Nearly in order already, so that sorting is one pass.
        queue = [notes for notes in kept.order if notes.cycle == kept.cycle]
        if len(queue) < len(entered):
            there = set(map(id, queue))
            queue += [notes for notes in entered if id(notes) not in there]
        queue.sort(key=_BY_KEY)
        kept.order = queue
        self._walk(queue)
        if len(self._mine) == len(self._records):
            return self._choices
        return [choice for choice in self._choices if choice.record.uid in self._mine]

    def _entered(self) -> list[WaitingNotes]:
        """The notes of all gangs that wait and may be asked."""
        gangs, accounts, known, now = self._world.gangs, self._world.accounts, self._kept.waiting, self._now
        spent = self._kept.budgets(self._world.spent) if self._quotas.in_force else None
        learned = self._history != self._kept.history
        self._kept.history = self._history
        entered: list[WaitingNotes] = []
        for uid, record in self._records.items():
            notes = known.get(uid)
            if (
                notes is None
                or notes.record is not record
                or notes.declared is not gangs.get(uid)
                or (learned and self._history.get(notes.history) != notes.usual)
            ):
                notes = self._enter_anew(record)
                if notes is None:
                    continue
            if uid in self._promises:
                continue
            stopped = (
                notes.small is not None
                or (notes.eligible is not None and notes.eligible > now)
                or (accounts is not None and record.namespace not in accounts)
                or uid in self._troubled
                or (spent is not None and (notes.stop or notes.spent is not spent) and self._stop(notes, spent))
            )
            if stopped:
                self._alone(record, partial(self._enter, record))
            else:
                entered.append(notes)
        return entered

    def _stop(self, notes: WaitingNotes, spent: SpentBudgets) -> QuotaStanding | None:
        """Why nothing of a gang starts whatever is used; noted for as long as the same budgets are spent."""
        notes.stop, notes.spent = self._quotas.stop(notes.record), spent
        return notes.stop

    def _enter_anew(self, record: Record) -> WaitingNotes | None:
        """The notes of a gang of which nothing is known; None when it does not wait or an error of ours stops it."""
        uid, gang = record.uid, self._world.gangs.get(record.uid)
        self._kept.waiting.pop(uid, None)
        if record.phase != "queued" or record.terminating or gang is None or uid in self._promises:
            return None
        try:
            return self._notes(record, gang)
        except Exception as error:  # noqa: BLE001 - it harms no other gang
            if self._alone(record, partial(self._enter, record)) is not None:
                self.unforeseen[uid] = unforeseen(error)
            return None

    def _notes(self, record: Record, gang: Gang) -> WaitingNotes:
        """What follows from a record, from the size of its gang and from how long such gangs usually run."""
        kept, uid = self._kept, record.uid
        spec, state = spec_of(record), record.state
        demand = self._demand(record)
        item = queued_gang(uid, spec, record.submitted, cap=self._priority_cap(record))
        alike = kept.kinds.setdefault(self._class_of(record, demand), len(kept.kinds))
        history = (spec.queue, name_prefix(spec.name))
        estimate = super()._estimate(record)
        notes = kept.waiting[uid] = WaitingNotes(
            record=record,
            declared=gang,
            gang=demand,
            item=item,
            key=(-effective_priority(item, self._now), item.submitted, uid),
            small=declared_too_small(state, gang.podsets) if state is not None else None,
            eligible=self._eligible(record),
            alike=alike,
            history=history,
            usual=self._history.get(history),
            estimate=estimate,
            kind=kept.kinds.setdefault((alike, estimate), len(kept.kinds)),
        )
        return notes

    # One gang after the other.

    def _walk(self, queue: t.Sequence[WaitingNotes]) -> None:
        """Judge all in their turn; under the policy strict nobody of a queue behind the first that does not fit."""
        strict = self._terms.policy == "strict"
        now, after = self._now, self._reserver.terms.reserve_after
        trees = self._quotas.in_force
        limits = trees and self._quotas.limits_users
        first: dict[Hashable, Record] = {}
        left: list[tuple[WaitingNotes, Record]] = []
        back, others = self._returning(queue, lambda notes: notes.record)
        line = others if self.reclaim is None else self._in_turn(others, self.reclaim)
        for notes in itertools.chain(back, line):
            lane = notes.lane
            if lane is None and trees:
                lane = notes.lane = self._quotas.lane(notes.record, notes.gang)
            if lane in first:
                left.append((notes, first[lane]))
                continue
            if limits and self._alone(notes.record, partial(self._is_limited, notes.record, notes.gang)) is not False:
                continue
            long = now - notes.item.submitted > after
            said = self._known(notes, lane, long=long)
            if said is None:
                fits = self._judge_first(notes, lane, long=long)
            else:
                # As it was said of another gang of the kind; a choice that says the same as before is the same.
                fits, choice = False, notes.choice
                if choice is None or choice.said is not said:
                    choice = notes.choice = Choice(notes.record, notes.gang, said, False, (), self._kept.latest)
                self._choices.append(choice.in_later_cycle())
            if strict and not fits and (said is None or said.answer != "never") and not self._is_hopeless(notes.item):
                first[lane] = notes.record
        self._leave_behind(left)

    def _in_turn(self, queue: t.Sequence[WaitingNotes], reclaim: Reclaim) -> t.Iterable[WaitingNotes]:
        """Those that room is held for first, then queue by queue."""
        self._nominated = [notes for notes in queue if notes.record.state and notes.record.state.nominated]
        first, others = reclaim.first(queue, lambda notes: notes.record) if self._nominated else ([], queue)
        return itertools.chain(first, self._quotas.in_turn(others, _record_and_gang))

    def _known(self, notes: WaitingNotes, lane: Hashable, *, long: bool) -> Verdict | None:
        """What was said of a gang like this one in this walk; None when nothing was."""
        # A queue that lacks quota is told so, whoever else is held back.
        if lane is None and self._held_back and self._may_start(notes.record):
            said = self._held_back.get(notes.alike)
            if said is not None:
                return said
        if self._nominated and self.reclaim is not None and self.reclaim.nominated_until(notes.record) is not None:
            return None
        settled, kind = self._settled_long if long else self._settled, self._kind(notes, lane)
        said = settled.get(kind)
        # In other flavors there may be quota, or somebody who borrows.
        if said is None and self.reclaim is not None and not self._quotas.flavored:
            said = self._still_refused(notes, self.reclaim)
            if said is not None:
                settled[kind] = said
        return said

    def _still_refused(self, notes: WaitingNotes, reclaim: Reclaim) -> Verdict | None:
        """What was said of gangs whose queue lacks quota in the same way, if there is nothing else to be said."""
        quota = self._quotas.ask(notes.record, notes.gang)
        if quota.refusal is None:
            return None
        # What is refused because of others that go or come is so in this cycle only.
        known = self._passing_refusals if quota.refusal.detail else self._kept.refusals
        noted = known.get(id(quota))
        if noted is None or noted.quota is not quota or noted.said.total_nodes != len(self._world.snapshot.nodes):
            said = self._short_of_quota(notes.record, quota, "quota", "")
            noted = known[id(quota)] = NotedRefusal(quota, said, is_about_quota(quota))
        if not noted.about_room:
            return noted.said
        if reclaim.is_hopeful(quota, notes.item.priority):
            return None
        if not self._kept_quota.may_hold(notes.item.submitted, quota):
            return noted.said
        return self._alone(notes.record, partial(self._still_without_end, notes, noted))

    def _still_without_end(self, notes: WaitingNotes, noted: NotedRefusal) -> Verdict | None:
        """What is said of gangs that have waited long and for which no quota can be held; None when some may be."""
        if not self._may_find_nodes(notes.gang, notes.alike):
            return noted.said
        kind = notes.alike, self._quotas.lane(notes.record, notes.gang)
        if self._has_obstacle(notes.record) or not self._kept_quota.has_no_moment(noted.quota, kind):
            return None
        return noted.without_end

    def _kind(self, notes: WaitingNotes, lane: Hashable) -> _Kind:
        """What gangs have in common of which the same is said: others are evicted only for one that this run is for."""
        return notes.kind, lane, notes.item.priority, lane is not None and self._may_start(notes.record)

    def _judge_first(self, notes: WaitingNotes, lane: Hashable, *, long: bool) -> bool:
        """Judge a gang of which nothing is known, and note what is said of its kind in its queue."""
        self._refusal, holds = None, (self._reserver.holds, len(self._kept_quota.held))
        fits = self._judge(notes.item)
        if (self._reserver.holds, len(self._kept_quota.held)) != holds:
            self._settled, self._settled_long = {}, {}
        elif self._refusal is not None and notes.item.uid not in self.unforeseen:
            # With trees in force a verdict also tells what they say, which is the same until a gang starts.
            said = self._choices[-1].said if self._quotas.in_force else discreet(self._refusal)
            (self._settled_long if long else self._settled)[self._kind(notes, lane)] = said
        return fits

    def _leave_behind(self, left: t.Iterable[tuple[WaitingNotes, Record]]) -> None:
        """Gangs that are not asked because of one before them; in each namespace they are told the same."""
        told: dict[tuple[str, str], Verdict] = {}
        for notes, first in left:
            record = notes.record
            words = (first.uid, record.namespace)
            if words not in told:
                told[words] = self._waits(record, "behind", behind(first.key, record))
            self._choices.append(Choice(record, notes.gang, told[words], False))

    def _open_quotas(self) -> Quotas:
        """The same; with other trees no gang has the place that it had."""
        kept, trees = self._kept, self._world.quota
        if kept.trees is not trees and kept.trees != trees:
            kept.forget_trees(trees)
        quotas = super()._open_quotas()
        if quotas.in_force:
            kept.entitlements = quotas.entitlements
        kept.latest.quotas = quotas
        return quotas

    def _charge_all(self, quotas: Quotas) -> None:
        """The same; only gangs of which anything changed are charged anew."""
        kept, limits = self._kept, quotas.limits_users
        if not kept.usages:
            kept.usages = {name: usage.copy() for name, usage in quotas.usages.items()}
        started: set[str] = set()
        for record in self._started_records:
            uid = record.uid
            if uid in self._promises:
                continue
            started.add(uid)
            noted, look = kept.charged.get(uid), self._started.get(uid)
            # Of a record that cannot be read nothing is noted that would tell whether its pods are the same.
            if noted is None or look is None or noted.record is not record or noted.look is not look:
                kept.release(uid)
                self._alone(record, partial(self._note_charge, quotas, record, look))
            if limits and uid in kept.charged:
                quotas.count_for_user(record, self._used_by(record), kept.charged[uid].charges)
        for uid in kept.charged.keys() - started:
            kept.release(uid)
        quotas.begin_with(kept.usages, {uid: noted.charges for uid, noted in kept.charged.items() if noted.charges})
        charge_others(quotas, self._records, self._promises, self._world.pods.by_gang, {*started, *self._promises})

    def _note_charge(self, quotas: Quotas, record: Record, look: Look | None) -> None:
        """Charge a started gang, and note what it was worked out from."""
        charges = quotas.charges_for(record, self._used_by(record))
        self._kept.charge(record.uid, NotedCharge(record, look, charges))

    def _began(self, record: Record) -> float | None:
        """The same, worked out once from the same tickets."""
        look, tickets = self._started.get(record.uid), self._world.tickets.get(record.uid, ())
        if look is None:
            return super()._began(record)
        known = look.began
        if known is None or len(known[0]) != len(tickets) or not all(map(operator.is_, known[0], tickets)):
            known = look.began = tickets, super()._began(record)
        return known[1]

    def _base_priority(self, record: Record) -> int:
        """The same, worked out once with the same trees."""
        look = self._started.get(record.uid)
        if look is None:
            return super()._base_priority(record)
        if look.priority is None or look.priority[0] is not self._kept.trees:
            look.priority = self._kept.trees, super()._base_priority(record)
        return look.priority[1]

    def _new_quotas(self) -> Quotas:
        """The same, with what follows from the trees alone."""
        return Quotas(self._world.quota, self._kept.entitlements, self._kept.seats, self._kept.classes)

    def _used_by(self, record: Record) -> Demands:
        """The same, as it was noted."""
        look = self._started.get(record.uid)
        if look is None:
            return super()._used_by(record)
        if look.used is None:
            look.used = super()._used_by(record)
        return look.used

    def _short_of_quota(self, record: Record, quota: QuotaLayer, reason: str, detail: str) -> Verdict:
        """The same; it is noted."""
        self._refusal = super()._short_of_quota(record, quota, reason, detail)
        return self._refusal

    def _may_find_nodes(self, gang: Gang, alike: Hashable) -> bool:
        """The same, as it was noted of gangs that are alike."""
        self._asked_for = alike
        return super()._may_find_nodes(gang, alike)

    # Sizes of those that run.

    def resizes(self, leaving: t.Collection[str]) -> Sizing:
        """The same; where nobody waits for GPUs and none are left, nothing is decided about sizes."""
        taken = self._taken_back() or self._saves_first()
        if not self._terms.sizes_only and not taken and self._keep_their_sizes():
            return Sizing(next_check=self._again)
        return super().resizes(leaving)

    def _keep_their_sizes(self) -> bool:
        """Whether no gang can get another size, whatever is known of it."""
        known = self._known_elastic()
        for record in known:
            state = record.state
            if state is None or state.planned is not None or state.phase in RESIZING_PHASES:
                return False
        resources = {record.spec.elastic.range.resource for record in known if record.spec and record.spec.elastic}
        unused = any(free.get(resource, 0) > 0 for resource in resources for free in self._room.free)
        return not unused and not self._asking(resources)

    def _asking(self, resources: AbstractSet[str]) -> list[Record]:
        """The same; of those that are told the same is asked once, since they ask for the same."""
        found, known = list[Record](), dict[tuple[int, bool], bool]()
        for choice in self._choices:
            spec = choice.record.spec
            kind = id(choice.said), spec is not None and spec.elastic is not None
            asks = known.get(kind)
            if asks is None:
                asks = known[kind] = lacks_nodes(choice) and asks_for(choice, resources)
            if asks and not choice.chosen:
                found.append(choice.record)
        return found

    def _resizable(self, record: Record, leaving: t.Collection[str]) -> RunningGang | None:
        """The same, as it was noted of a gang that runs while nothing of it changed."""
        uid, world = record.uid, self._world
        noted, told = self._kept.sized.get(uid), world.progress.get(uid)
        if (
            noted is not None
            and noted.record is record
            and noted.gang is world.gangs.get(uid)
            and noted.progress is told
            and noted.trees is self._kept.trees
            and noted.running.began == self._began(record)
        ):
            held = uid in leaving or uid in self._promises or not self._may_start(record)
            return None if held or self._stopped_beforehand(record) is not None else noted.running
        found = super()._resizable(record, leaving)
        if found is None or found.target is not None:
            return found
        found = found._replace(known=without_time(found))
        pods = sum(podset.count for podset in self._gang_at(uid, found.size).podsets)
        self._kept.sized[uid] = NotedRunning(record, world.gangs.get(uid), told, self._kept.trees, found, pods)
        return found

    def _with_pods(self, able: Mapping[str, RunningGang]) -> list[RunningGang]:
        """The same from the pods that are known of the snapshot, and those that came to its nodes since."""
        come, members, sized = self._pods_that_came(able), self._kept.room.members, self._kept.sized
        found = []
        for uid, item in able.items():
            record = item.record
            pods = members.get((record.namespace, uid, ""), ())
            if self._uids.get((record.namespace, record.name)) == uid:
                pods = [*pods, *members.get((record.namespace, "", record.name), ())]
            pods = (*pods, *come.get(uid, ()))
            noted = sized.get(uid)
            if item.target is not None or (noted is not None and noted.record is record and noted.pods == len(pods)):
                found.append(item._replace(pods=pods))
        return found

    def _pods_that_came(self, able: Mapping[str, RunningGang]) -> dict[str, list[Pod]]:
        """The pods of gangs that this walk has put on nodes."""
        found: dict[str, list[Pod]] = {}
        before = self._kept.room.follow(self._world.snapshot).pods_on
        for node in {*self._room.touched}:
            for pod in self._room.pods_on[node][len(before[node]) :]:
                uid = gang_of(self._uids, pod)
                if uid is not None and uid in able and able[uid].record.namespace == pod.namespace:
                    found.setdefault(uid, []).append(pod)
        return found

    def _demand(self, record: Record) -> Gang:
        """The same, as it was noted."""
        notes = self._kept.waiting.get(record.uid)
        known = notes is not None and notes.record is record and notes.declared is self._world.gangs[record.uid]
        return notes.gang if notes is not None and known else super()._demand(record)

    def _estimate(self, record: Record) -> Estimate:
        """The same, as it was noted."""
        notes = self._kept.waiting.get(record.uid)
        if notes is not None and notes.record is record and notes.cycle == self._kept.cycle:
            return notes.estimate
        return super()._estimate(record)

    def _alike(self, record: Record, gang: Gang) -> Hashable:
        """The number of the class."""
        notes = self._kept.waiting[record.uid]
        if notes.gang is gang:
            return notes.alike
        return self._kept.kinds.setdefault(self._class_of(record, gang), len(self._kept.kinds))

    def _waiting_items(self) -> t.Iterable[QueuedGang]:
        """See Queue."""
        return (notes.item for notes in self._kept.order)

    def _note_own_obstacle(self) -> None:
        """Nothing is noted of the kind."""
        self._refusal = None

    def _ask(self, item: QueuedGang, gang: Gang, estimate: Estimate, alike: Hashable, *, hold: bool = True) -> Verdict:
        """The same; a refusal that names nothing of this gang's own is noted."""
        self._asked_for = alike
        verdict = self._reserver.judge(item, gang, estimate, self._taken, demand=alike, hold=hold)
        refused = verdict.answer != "fits" and not verdict.space.problems
        self._refusal = verdict if refused else None
        return verdict

    def _start(self, gang: Gang, verdict: Verdict, estimate: Estimate) -> None:
        """The same; who was refused before stays so, but nodes may be held that could not be held before."""
        super()._start(gang, verdict, estimate)
        self._settled_long = {}
        if self._quotas.in_force:
            # Its queue may lack quota now, and that is told before anything about nodes.
            self._settled = {}


def _record_and_gang(notes: WaitingNotes) -> tuple[Record, Gang]:
    return notes.record, notes.gang
