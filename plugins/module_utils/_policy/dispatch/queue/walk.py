# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The walk down the queue: room with everything promised taken off, then one verdict after the other in order.

This is the plain algorithm: it works everything out anew. A run keeps what did not change (queue/kept_walk.py) and has
to come to the same.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import math
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import is_gpu
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import HOSTNAME_LABEL, Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, with_size
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    RESIZING_PHASES,
    STARTED_PHASES,
    WAITING_PHASES,
    GangState,
    returned_at,
    size_seconds,
    work_began,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    PODSET_LABEL,
    podset_label,
    ticket_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import (
    NODE_REASONS,
    NamespaceFit,
    Verdict,
    gang_for_reader,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    Outstanding,
    outstanding_of,
    place_outstanding,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import (
    demand_of,
    spec_of,
    started_gang,
    steerable,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import declared_too_small
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT, DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import charge_all
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import (
    QueuedGang,
    ordered,
    queued_gang,
    walk,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.pace import (
    Pace,
    made_per_second,
    pods_to_make,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quota_reserve import (
    NO_RESERVE,
    End,
    QuotaReserve,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import (
    NO_QUOTAS,
    LatestQuotas,
    Quotas,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reclaim import (
    NO_TERMS,
    Elastic,
    EvictionTerms,
    Question,
    Reclaim,
    Saving,
    is_recent,
    last_change,
    patience_of,
    taken_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    Endings,
    Estimate,
    ReserveOptions,
    Reserver,
    estimate_run_time,
    gather_endings,
    name_prefix,
    run_time_history,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.resizes import (
    PlanChange,
    ResizeQuestion,
    RunningGang,
    SizeChange,
    Sizing,
    Taking,
    kept_size,
    pods_by_gang,
    resizes_under_way,
    returns_with,
    seen_by_policies,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.start_sizes import (
    SizeRequest,
    best_sizes,
    largest_of,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.ways import (
    MOST_RECLAIMED,
    Way,
    Ways,
    settle,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import (
    RoomToGrow,
    find_growth,
    kept_while_rescaling,
    method_in_place,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, pods_of, used_by
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.checkpoint_wait import (
    Wanted,
    for_owners,
    go_on_waiting,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.shrinking import may_shrink
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import (
    ConcurrentStarts,
    LabelKeys,
    label_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    has_nodes,
    place_waiting_pods,
    read_wishes,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import (
    QuotaUse,
    judge_namespace,
    quota_use,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import Demands

_T = t.TypeVar("_T")

# An object's group, kind, namespace and name: two versions of one API show the same object.
Name = tuple[str, str, str, str]
# Reasons that keep all gangs of one class waiting for the rest of a cycle.
_HELD_BACK = ("max_starts", "paced", "after_others")
# Gangs that wait for such a reason start as soon as others are out of the way, and nobody grows meanwhile.
_STARTS_SOON = (*_HELD_BACK, "nominated")
# For so long the server may count pods that are gone as used of a namespace's quota.
COUNTED_WITHIN = 15.0


@dataclasses.dataclass(frozen=True)
class Choice:
    """One waiting gang and what is said of it or of one that is alike; chosen ones are to be started."""

    record: Record
    gang: Gang
    said: Verdict
    chosen: bool
    # Whose quota a start is charged to, one queue for each tree, and who knows what is used of it.
    charged: tuple[Charge, ...] = ()
    quotas: Quotas | LatestQuotas = NO_QUOTAS
    # What is said of a gang that others are to go for, if they do not.
    unclaimed: Verdict | None = None

    @functools.cached_property
    def verdict(self) -> Verdict:
        """The verdict with the names of this gang and its podsets."""
        return _renamed(self.said, self.gang)

    @functools.cached_property
    def told(self) -> dict[str, t.Any]:
        """The verdict as results and records carry it, with the numbers of queues. Must not be modified."""
        verdict = self.verdict
        if verdict.quota is not None:
            verdict = dataclasses.replace(verdict, quota=self.quotas.numbered(verdict.quota))
        return verdict.as_dict()

    def in_later_cycle(self) -> Choice:
        """The same choice, of which another cycle may tell other numbers."""
        self.__dict__.pop("told", None)
        return self

    def not_claimed(self) -> Choice:
        """A gang for which nobody goes after all: it is told what it was told before, and is told in later cycles."""
        return self if self.unclaimed is None else dataclasses.replace(self, said=self.unclaimed, unclaimed=None)

    def postponed(self, reason: str, detail: str) -> Choice:
        """A chosen gang that has to wait after all."""
        return dataclasses.replace(self, said=self.verdict.held_back(reason, detail), chosen=False)


class _Asked(t.NamedTuple):
    """What was said of one way to start a gang, and the gang as that starts it; able if there are nodes for it."""

    gang: Gang
    quota: QuotaLayer | None
    verdict: Verdict
    alike: Hashable
    able: bool = True


class Queue:
    """One cycle's walk; everything it needs to know is given at the start."""

    def __init__(
        self,
        world: World,
        records: Sequence[Record],
        *,
        elsewhere: Sequence[Record] = (),
        promises: Mapping[str, Outstanding] | None = None,
        troubled: Mapping[str, str] | None = None,
        terms: DispatchOptions,
        memory: Memory,
        now: float,
        history: Mapping[tuple[str | None, str], float] | None = None,
        evicting: EvictionTerms = NO_TERMS,
        suspended_jobs_change: bool = False,
    ) -> None:
        """Elsewhere are records of namespaces that this run is not for: they count, but nothing is decided about them.

        Promises are what open entries of the batch reserve for gangs whose records do not say so; those are not asked
        again. Troubled ones cannot be written at the moment; they are not asked either and hold nothing. history tells
        how long gangs of a queue and name prefix usually run; without it the records given do. Whether
        suspended_jobs_change is up to the server.
        """
        self._world, self._terms, self._memory = world, terms, memory
        self._now, self._suspended_jobs_change = now, suspended_jobs_change
        self._mine = {record.uid for record in records}
        self._records = {record.uid: record for record in (*records, *elsewhere)}
        self._promises, self._troubled = promises or {}, troubled or {}
        self._history = history if history is not None else run_time_history(_finished(self._records.values()))
        # Between two tries of a Job a running gang lacks pods for a while; nobody waits for controllers then.
        self._running = {(item.namespace, item.name) for item in self._records.values() if item.phase == "running"}
        self._taken: QuotaUse = {}
        self._barriers: list[tuple[str, frozenset[int]]] = []
        self._paced: str | None = None
        self._held_back: dict[Hashable, Verdict] = {}
        self._hopeless: set[str] = set()
        self._choices: list[Choice] = []
        self._line: Sequence[QueuedGang] = ()
        self._starts = 0
        # When time alone may change what is said of a gang that comes back from a resize.
        self._again: float | None = None
        # Errors of ours that gangs provoked, by record; those gangs hold up nobody.
        self.unforeseen: dict[str, str] = {}
        self._room, base = self._open_rooms()
        self._label_keys = self._keys_that_matter()
        self._together = self._open_together(base)
        self._pace = Pace(self._made_per_second(), terms.start_timeout)
        counted: set[tuple[str, str]] = set()
        for item in self._promised():
            self._promise(item)
            counted |= item.waiting
        least = self._least_priority()
        for room in (self._room, base):
            place_waiting_pods(room, world.gangs.values(), self._is_promised, counted, least)
        self._reserver = self._open_reserver()
        self._quotas = self._open_quotas()
        self.reclaim = self._open_reclaim(evicting) if self._quotas.in_force else None
        self._kept_quota = NO_RESERVE
        if self._quotas.in_force:
            self._kept_quota = QuotaReserve(self._quotas, now, self._reserver.terms, lambda: self._ends)

    # What a cycle begins with.

    def _open_quotas(self) -> Quotas:
        """The quota trees with everything taken off that is charged to their queues."""
        quotas = self._new_quotas() if self._world.quota.in_force else NO_QUOTAS
        if quotas.in_force:
            quotas.spent, quotas.averages = self._world.spent, self._world.averages
            quotas.node_check = partial(has_nodes, self._room)
            self._charge_all(quotas)
        return quotas

    def _charge_all(self, quotas: Quotas) -> None:
        """Charge everything that is started or promised."""
        pods = self._world.pods.by_gang
        charge_all(quotas, self._records, self._promises, pods, partial(self._charge_alone, quotas))

    def _open_reclaim(self, terms: EvictionTerms) -> Reclaim:
        """Who may be evicted, and what is held for whom; without trees nobody and nothing is."""
        return Reclaim(
            self._quotas,
            self._reserver,
            self._records,
            self._started_records,
            self._now,
            terms._replace(stopped={*terms.stopped, *self._leaving()}),
            may_evict=lambda record: self._may_start(record) and record.uid not in self._promises,
            began=self._began,
            priority_of=self._base_priority,
            gang_of=lambda pod: gang_of(self._uids, pod),
            elastic=Elastic(
                self._smaller_sizes,
                self._saving,
                self._gang_at,
                self._comes_back,
                self._resizes_left,
                self._resizes_at_a_time,
            ),
        )

    def _leaving(self) -> Iterator[str]:
        """Gangs whose pods are about to go: taken back a moment ago, or their records were deleted.

        Pods that somebody else labelled, or that do not go in time, are no reason to wait for them.
        """
        patience = patience_of(self._quotas)
        for (namespace, uid), pods in self._world.pods.by_gang.items():
            record = self._records.get(uid)
            if record is not None and (record.phase not in WAITING_PHASES or record.namespace != namespace):
                continue
            there = [pod for pod in pods if not pod.finished]
            undone = last_change(record)
            if there and all(self._is_leaving(pod, undone, patience) for pod in there):
                yield uid

    def _is_leaving(self, pod: GangPod, undone: float | None, patience: float) -> bool:
        """Whether a pod is about to go; undone is when its gang came back to the queue, after which none was left."""
        if pod.leaving_since is not None:
            return is_recent(pod.leaving_since, self._now, patience)
        return undone is not None and pod.created <= undone and is_recent(undone, self._now, patience)

    def _began(self, record: Record) -> float | None:
        """When a gang was started, as far as anybody can tell; anybody can write anything into its state.

        Only the server writes when its ticket was made, and a start does not take longer than it may.
        """
        told = read_time(record.state.started_at) if record.state is not None else None
        tickets = self._world.tickets.get(record.uid, ())
        made = [read_time(ticket["metadata"].get("creationTimestamp")) for ticket in tickets]
        latest = [moment + self._terms.start_timeout for moment in made if moment is not None]
        return min((moment for moment in (told, *latest) if moment is not None), default=None)

    @functools.cached_property
    def _started_records(self) -> list[Record]:
        """The records of all gangs that are started."""
        return [record for record in self._records.values() if record.phase in STARTED_PHASES]

    @functools.cached_property
    def _uids(self) -> dict[tuple[str, str], str]:
        """The uids of all records by namespace and name."""
        return {(item.namespace, item.name): uid for uid, item in self._records.items()}

    def _base_priority(self, record: Record) -> int:
        """The priority of a gang as its queue lets it count, without what it gains by waiting."""
        cap, priority = self._priority_cap(record), spec_of(record).priority
        return priority if cap is None else min(priority, cap)

    def _new_quotas(self) -> Quotas:
        """The quota trees with nothing used."""
        return Quotas(self._world.quota)

    def _charge_alone(self, quotas: Quotas, record: Record) -> None:
        """Count what a started gang takes of its queue's quota."""
        self._alone(record, lambda: quotas.charge_started(record, self._used_by(record)))

    def _used_by(self, record: Record) -> Demands:
        """What a started gang is charged with."""
        return used_by(record, self._world)

    def _open_rooms(self) -> tuple[Room, Room]:
        """The room of the snapshot, for this cycle's starts and for what they have to share."""
        return Room(self._world.snapshot), Room(self._world.snapshot)

    def _keys_that_matter(self) -> LabelKeys:
        """The labels by which pods differ to others."""
        promised = (item.gang for item in self._promises.values())
        return label_keys(self._world.snapshot, itertools.chain(self._world.gangs.values(), promised))

    def _least_priority(self) -> Callable[[], int] | None:
        """How to tell the lowest priority of any gang, if not by looking at all."""
        return None

    def _open_together(self, base: Room) -> ConcurrentStarts:
        """What watches over gangs that start at once."""
        return ConcurrentStarts(base, self._label_keys)

    def decide(self) -> list[Choice]:
        """Verdicts on all waiting gangs that may be asked now, in the order of the queue."""
        waiting = [
            record
            for record in self._records.values()
            if record.phase == "queued"
            and not record.terminating
            and record.uid in self._world.gangs
            and record.uid not in self._promises
        ]
        able = (self._alone(record, partial(self._enter, record)) for record in waiting)
        queue = self._line = ordered([item for item in able if item is not None], self._now)
        back, others = self._returning(queue, lambda item: self._records[item.uid])
        line, lane = itertools.chain(back, others), None
        if self.reclaim is not None:
            first, others = self.reclaim.first(others, lambda item: self._records[item.uid])
            in_turn = self._quotas.in_turn(others, lambda item: self._subject(self._records[item.uid]))
            line, lane = itertools.chain(back, first, in_turn), self._lane
        decisions = walk(self._terms.policy, line, self._judge, self._reserver.blocked_by, self._is_hopeless, lane)
        judged = {*self.unforeseen, *(choice.record.uid for choice in self._choices)}
        for item in decisions.waiting:
            if item.gang.uid not in judged:
                self._choices.append(self._behind(item.gang.uid, item.blocked_by))
        return [choice for choice in self._choices if choice.record.uid in self._mine]

    def _returning(self, queue: Sequence[_T], record_of: Callable[[_T], Record]) -> tuple[list[_T], Sequence[_T]]:
        """Those that come back from a resize, whose room nobody else may take, and all others."""
        back = [item for item in queue if self._returns_with(record_of(item)) is not None]
        if not back:
            return [], queue
        return back, [item for item in queue if self._returns_with(record_of(item)) is None]

    def _returns_with(self, record: Record) -> int | None:
        """The size with which a gang comes back from a resize; None for others."""
        if record.state is None or record.state.resize is None:
            return None
        return returns_with(record, self._now, self._terms.start_timeout)

    def _waiting_items(self) -> Iterable[QueuedGang]:
        """All that are asked in this cycle, in the order of the queue."""
        return self._line

    def _subject(self, record: Record) -> tuple[Record, Gang]:
        """A record and the gang that is asked for."""
        return record, self._demand(record)

    def _lane(self, item: QueuedGang) -> Hashable:
        """The queue of a gang: only those of one queue wait behind each other."""
        return self._lane_of(self._records[item.uid])

    def _may_start(self, record: Record) -> bool:
        """Whether this run is for a gang."""
        return record.uid in self._mine and self._terms.may_touch(record.uid)

    def _alone(self, record: Record, call: Callable[[], _T]) -> _T | None:
        """What one gang comes to; None for an error of ours about it, which is told and harms no other."""
        try:
            return call()
        except Exception as error:  # noqa: BLE001
            self.unforeseen[record.uid] = unforeseen(error)
            return None

    # What is promised already.

    def _demand(self, record: Record) -> Gang:
        """The gang as large as it has to be counted."""
        return demand_of(record, self._world.gangs[record.uid])

    def _promised(self) -> Iterator[Outstanding]:
        """What started gangs still have to get, and what open entries of the batch promise to others."""
        for uid, record in self._records.items():
            known = uid in self._world.gangs and record.spec is not None and uid not in self._promises
            if known and record.phase == "rescaling":
                yield from self._kept_for(record)
            elif known and record.state is not None and record.phase in STARTED_PHASES:
                left = self._alone(record, partial(self._outstanding, record, record.state))
                yield left or all_of(self._world.gangs[uid])
        yield from self._promises.values()

    def _kept_for(self, record: Record) -> Sequence[Outstanding]:
        """What is kept for a gang whose object gets another size; all of it where nobody can tell."""
        gang, uid = self._world.gangs[record.uid], record.uid

        def kept() -> list[Outstanding]:
            pods, items = pods_of(record, self._world), self._world.items.get(uid, {})
            return list(kept_while_rescaling(gang, record, pods, items, self._host_names))

        return self._alone(record, kept) or [all_of(gang)]

    @functools.cached_property
    def _host_names(self) -> Mapping[str, str]:
        """The host names of nodes."""
        return {node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in self._world.snapshot.nodes}

    def _outstanding(self, record: Record, state: GangState) -> Outstanding:
        """Pods of one started gang that have no node yet; its objects exist, and the server counts them since.

        While it is resized they are those that it has next.
        """
        size = kept_size(state, self._now, self._terms.start_timeout)
        if size is not None:
            return all_of(self._gang_at(record.uid, size))
        pods, items = pods_of(record, self._world), self._world.items.get(record.uid, {})
        return outstanding_of(
            dataclasses.replace(started_gang(self._demand(record), state.charged), made=MadeObjects()),
            spec_of(record),
            state,
            pods,
            items,
            now=self._now,
            start_timeout=self._terms.start_timeout,
        )

    def _is_promised(self, pod: Pod) -> bool:
        """Whether a pod is one of a gang that was started; its room is its own, whatever its priority."""
        uid = pod.labels.get(GANG_LABEL, "")
        if uid in self._promises:
            return self._promises[uid].gang.namespace == pod.namespace
        record = self._records.get(uid)
        return record is not None and record.namespace == pod.namespace and record.phase in STARTED_PHASES

    def _promise(self, item: Outstanding) -> None:
        """Take what a started gang still gets off the room and off its namespace's quotas."""
        gang = item.gang.resized({podset.name: item.counts.get(podset.name, 0) for podset in item.gang.podsets})
        if not any(podset.count for podset in gang.podsets):
            return
        if not place_outstanding(self._room, [item]):
            # One that found no place loses its race; it must not keep all others waiting besides.
            self._together.add(gang, item.steering)
        # The server counts pods that exist among what is used, and controllers need not make them.
        to_come = gang.resized({part.name: part.count - item.existing.get(part.name, 0) for part in gang.podsets})
        if (gang.namespace, gang.name) not in self._running:
            self._pace.expect(pods_to_make(to_come))
        space, _hopeful = judge_namespace(to_come, read_wishes(to_come, self._room), self._world.snapshot, {})
        self._count_quota(to_come, space)

    def _count_quota(self, gang: Gang, space: NamespaceFit) -> None:
        """Remember what a gang will use of its namespace's quotas."""
        for key, amount in quota_use(gang, space).items() if space.quotas else ():
            self._taken[key] = self._taken.get(key, 0) + amount

    def _made_per_second(self) -> float:
        """How fast controllers made pods of gangs lately."""
        index = self._world.pods
        pods = itertools.chain.from_iterable([*index.by_gang.values(), *index.by_owner.values()])
        tickets = (str(ticket["metadata"].get("uid")) for found in self._world.tickets.values() for ticket in found)
        return made_per_second(pods, frozenset(tickets), self._now)

    @functools.cached_property
    def _names(self) -> dict[Name, str]:
        """Objects of started gangs and whose they are; gangs that are taken back for another size keep theirs."""
        names: dict[Name, str] = {}
        for item in self._records.values():
            if item.spec is not None and self._keeps_names(item):
                plan = self._alone(item, partial(self._memory.plan, item, {}))
                names.update((planned.key.identity, item.key) for planned in plan or ())
        for uid, tickets in self._world.tickets.items():
            record = self._records.get(uid)
            owner = record.key if record is not None else uid
            names.update((name, owner) for ticket in tickets for name in self._ticket_names(ticket))
        return names

    def _keeps_names(self, record: Record) -> bool:
        """Whether a gang is taken back for another size, or comes back with it."""
        state = record.state
        if state is None or state.resize is None:
            return False
        kept = kept_size(state, self._now, self._terms.start_timeout)
        return kept is not None or (record.phase == "queued" and self._returns_with(record) is not None)

    def _ticket_names(self, ticket: Mapping[str, t.Any]) -> tuple[Name, ...]:
        """The objects a ticket lists."""
        return tuple(key.identity for key in ticket_keys(ticket))

    # Run times.

    def _open_reserver(self) -> Reserver:
        """The judge of this cycle, with what is known about when started gangs end."""
        return Reserver(self._room, self._endings(), self._now, self._reserve_options())

    def _reserve_options(self) -> ReserveOptions:
        """What policy asks for."""
        after = self._terms.reserve_after if self._terms.policy == "reserve" else math.inf
        return ReserveOptions(after, self._terms.hold)

    @functools.cached_property
    def _ends(self) -> Mapping[str, End]:
        """When started gangs end."""
        ends: dict[str, End] = {}
        for uid, record in self._records.items():
            if record.state is None or record.phase not in STARTED_PHASES or record.spec is None:
                continue
            estimate = self._alone(record, partial(self._estimate, record)) or Estimate()
            began = read_time(work_began(record.state)) or self._now
            ends[uid] = (None if estimate.seconds is None else began + estimate.seconds, estimate.enforced)
        return ends

    def _endings(self) -> Endings:
        """The pods of started gangs and when they end."""
        names = {(self._records[uid].namespace, self._records[uid].name): uid for uid in self._ends}
        return gather_endings(self._room.pods_on, self._ends, partial(gang_of, names))

    def _estimate(self, record: Record) -> Estimate:
        """How long a gang will run, as far as anybody can tell."""
        spec = spec_of(record)
        history = self._history.get((spec.queue, name_prefix(spec.name)))
        return estimate_run_time(spec.max_run_time, self._memory.deadlines(record), history)

    # One gang after the other.

    def _enter(self, record: Record) -> QueuedGang | None:
        """A gang's place in the queue; None for one that room has nothing to do with."""
        stopped = self._stopped_beforehand(record)
        if stopped is None:
            if self._quotas.flavored:
                # An error of ours about its templates harms no other gang here.
                self._quotas.reach(record, self._demand(record))
            return self._queued_gang(record)
        self._choices.append(Choice(record, self._demand(record), stopped, False))
        return None

    def _priority_cap(self, record: Record) -> int | None:
        """The highest priority that counts for a gang; None without a limit."""
        return self._quotas.priority_cap(record) if self._quotas.in_force else None

    def _stopped_beforehand(self, record: Record) -> Verdict | None:
        """A verdict for a gang that room has nothing to do with; it keeps nobody else waiting."""
        if record.uid in self._troubled:
            return self._waits(record, "write_failed", self._troubled[record.uid] or "somebody else changed it first")
        if self._world.accounts is not None and record.namespace not in self._world.accounts:
            detail = f"the namespace {record.namespace} has no ServiceAccount {ACCOUNT}"
            return self._waits(record, "no_identity", detail)
        small = declared_too_small(record.state, self._world.gangs[record.uid].podsets) if record.state else None
        if small is not None:
            return self._waits(record, "declared_too_small", small)
        eligible = self._eligible(record)
        if eligible is not None and eligible > self._now:
            return self._waits(record, "paused", f"until {record.state.not_before}" if record.state else "")
        stopped = self._quotas.stop(record) if self._quotas.in_force else None
        return self._refused_by(record, stopped) if stopped is not None else None

    def _eligible(self, record: Record) -> float | None:
        """Until when a gang pauses; None when it does not."""
        return read_time(record.state.not_before) if record.state is not None else None

    def _judge(self, item: QueuedGang) -> bool:
        """Judge one gang in its turn; True when it starts and takes its place, or would if this run were for it."""
        record = self._records[item.uid]
        return self._alone(record, partial(self._judge_record, item, record)) or False

    def _judge_record(self, item: QueuedGang, record: Record) -> bool:
        """The same, where an error of ours ends in nothing."""
        gang, estimate = self._demand(record), self._estimate(record)
        if self._quotas.in_force and self._is_limited(record, gang):
            return False
        mine = self._may_start(record)
        elastic = record.spec is not None and record.spec.elastic is not None
        sized = self._at_best_size(item, record, gang, estimate) if elastic else (record, gang)
        if sized is None:
            return False
        record, gang = sized
        asked = self._ask_all(item, record, gang, estimate, mine=mine)
        quota, alike = asked.quota, asked.alike
        verdict, unclaimed = discreet(_renamed(asked.verdict, gang)), None
        if quota is not None and self.reclaim is not None and verdict.answer == "waits":
            unclaimed = verdict if verdict.quota is not None else verdict.with_quota(quota)
            questions = self._questions(item, record, gang, estimate, asked._replace(verdict=verdict))
            waits_for = Question(item, record, asked.gang, estimate, quota, verdict, alike)
            verdict = self._claim(self.reclaim, record, questions, mine=mine) or self._reserve_quota(waits_for)
        elif quota is not None and quota.borrows and self._quotas.flavored and self._is_nominated(record):
            questions = self._questions(item, record, gang, estimate, asked)
            verdict = t.cast(Reclaim, self.reclaim).awaited(questions, self._taken) or verdict
        found = verdict
        if verdict.answer == "fits" and mine:
            verdict = self._second_thoughts(record, asked.gang, verdict)
            if verdict.reason in _HELD_BACK:
                self._held_back[alike] = verdict
        fits = verdict.answer == "fits"
        if quota is not None and verdict.quota is None:
            verdict = verdict.with_quota(quota)
        charged = self._quotas.charges_of(quota) if quota is not None and fits and mine else ()
        whole = asked.gang if fits and mine else gang
        self._choices.append(Choice(record, whole, verdict, fits and mine, charged, self._quotas, unclaimed))
        if verdict.answer == "never":
            self._hopeless.add(record.uid)
        if fits and mine:
            self._start(asked.gang, verdict, estimate)
            if quota is not None:
                self._quotas.start(quota)
                self._quotas.start_for_user(record, gang)
                self._kept_quota.start(quota, estimate)
        elif found.answer == "fits":
            self._keep_room(item, record, estimate, asked._replace(verdict=found))
        return fits

    def _keep_room(self, item: QueuedGang, record: Record, estimate: Estimate, asked: _Asked) -> None:
        """Hold the room of a gang that fits but is not started now, if it was freed for it or given back by it."""
        gang, quota = asked.gang, asked.quota
        back = returned_at(record.state) if self._returns_with(record) is not None and record.state else None
        if back is not None:
            self._occupy(gang, asked.verdict, estimate)
            self._look_again((read_time(back) or self._now) + self._terms.start_timeout + 1.0)
        elif quota is not None and self.reclaim is not None:
            self.reclaim.keep(Question(item, record, gang, estimate, quota, asked.verdict, asked.alike), self._taken)

    def _look_again(self, moment: float) -> None:
        """Note when time alone may change what is said of gangs."""
        self._again = moment if self._again is None else min(self._again, moment)

    def _occupy(self, gang: Gang, verdict: Verdict, estimate: Estimate) -> None:
        """Let a gang take its place that starts later; it is not counted among the starts."""
        self._start(gang, verdict, estimate)
        self._starts -= 1

    def _at_best_size(
        self, item: QueuedGang, record: Record, gang: Gang, estimate: Estimate
    ) -> tuple[Record, Gang] | None:
        """An elastic gang at the largest size it may have that fits now; at the least one if none does.

        None for one that waits a moment for the size that it was resized to.
        """
        if self._is_counted_late(item, record, estimate):
            return None
        terms, back = spec_of(record).elastic, self._returns_with(record)
        target = self._best_sizes.get(record.uid, 0) if back is None else back
        sizes = terms.wanted.sizes if terms is not None else ()
        fitting = partial(self._fitting_size, item, record, estimate)
        return largest_of([size for size in sizes[1:] if size <= target], fitting) or (record, gang)

    def _fitting_size(
        self, item: QueuedGang, record: Record, estimate: Estimate, size: int
    ) -> tuple[Record, Gang] | None:
        """A gang at a size that fits now; None if it does not."""
        sized = with_size(record, size)
        larger, problem = self._memory.size(sized, self._world.snapshot)
        if larger is None or problem is not None:
            return None
        larger = demand_of(sized, larger)
        fits = self._ask_all(item, sized, larger, estimate, mine=False, hold=False).verdict.answer == "fits"
        return (sized, larger) if fits else None

    def _is_counted_late(self, item: QueuedGang, record: Record, estimate: Estimate) -> bool:
        """Whether a gang comes back from a resize, and only quotas that still count its old pods are in the way.

        Then it waits a moment for its size, and keeps the room for it.
        """
        size, state = self._returns_with(record), record.state
        since = read_time(returned_at(state) or "") if state is not None else None
        if size is None or state is None or state.resize is None or since is None or self._now - since > COUNTED_WITHIN:
            return False
        sized = with_size(record, size)
        gang, old = self._gang_at(record.uid, size), self._gang_at(record.uid, state.resize.size)
        if self._namespace_has(gang, self._taken):
            return False
        space, _hopeful = judge_namespace(old, read_wishes(old, self._room), self._world.snapshot, {})
        given_back = collections.Counter(quota_use(old, space))
        present = self._taken
        self._taken = {key: present.get(key, 0) - given_back[key] for key in {*present, *given_back}}
        verdict = self._ask_all(item, sized, gang, estimate, mine=False, hold=False).verdict
        self._taken = present
        self._note_own_obstacle()
        if verdict.answer != "fits":
            return False
        self._occupy(gang, verdict, estimate)
        self._look_again(since + COUNTED_WITHIN + 1.0)
        waits = self._waits(record, "namespace_quota", "until what it gave back is no longer counted as used")
        self._choices.append(Choice(record, self._demand(record), waits, False))
        return True

    def _namespace_has(self, gang: Gang, taken: QuotaUse) -> bool:
        """Whether the rules of its namespace let a gang have what it asks for."""
        return judge_namespace(gang, read_wishes(gang, self._room), self._world.snapshot, taken)[0].passed

    @functools.cached_property
    def _best_sizes(self) -> dict[str, int]:
        """The sizes that elastic gangs would have if all that wait were started as the policy says."""
        # Those that start before them in this cycle have taken their room already.
        started = {choice.record.uid for choice in self._choices if choice.chosen}
        waiting = (item for item in self._waiting_items() if item.uid not in started)
        return best_sizes(map(self._size_request, waiting), self._room, self._now, self._world.sizes.settings)

    # Sizes of those that run.

    def resizes(self, leaving: Collection[str]) -> Sizing:
        """The running gangs that get another size, once it is decided who starts; those that leave anyway do not."""
        explained = self._gpu_resources() if self._terms.sizes_only else ()
        known = self._known_elastic()
        able = self._able(known, leaving)
        dropped = tuple(PlanChange(item, None) for item in known if self._is_planned_in_vain(item))
        if not able and not explained:
            return Sizing(next_check=self._again, planned=dropped)
        whole, taken = self._with_pods(able), self._taken_back()
        wanted = {*explained, *(item.terms.range.resource for item in whole)}
        asking = self._asking(wanted)
        question = ResizeQuestion(
            whole,
            [self._size_request(self._queued_gang(record)) for record in asking],
            self._room,
            self._now,
            resizes_under_way(self._records.values(), self._now, self._terms.start_timeout) + len(taken),
            gang_at=self._gang_at,
            may_have=lambda record, size: not self._nobody_grows and self._may_have(record, size),
            comes_back=self._comes_back,
            may_ask=self._may_ask,
            is_others=self._is_others,
            settings=self._world.sizes.settings,
            resources=explained,
            taken=taken,
            saves=self._saves_first(),
            explained=self._terms.sizes_only,
        )
        sizing = question.answer()
        again = [moment for moment in (sizing.next_check, self._again) if moment is not None]
        changes = tuple(self._with_methods(sizing.changes, {item.record.uid: item for item in whole}))
        planned = (*sizing.planned, *dropped)
        return sizing._replace(changes=changes, next_check=min(again, default=None), planned=planned)

    def _asking(self, resources: AbstractSet[str]) -> list[Record]:
        """The gangs that lack nothing but nodes, and ask for any of these resources."""
        return [item.record for item in self._choices if lacks_nodes(item) and asks_for(item, resources)]

    def _known_elastic(self) -> list[Record]:
        """The elastic gangs that are started, if anybody can tell by what their sizes are decided."""
        elastic = [item for item in self._started_records if item.spec is not None and item.spec.elastic is not None]
        return [item for item in elastic if item.uid in self._world.gangs and self._world.sizes.problem is None]

    def _able(self, known: Iterable[Record], leaving: Collection[str]) -> dict[str, RunningGang]:
        """Those whose size may be changed, or is being changed, by uid."""
        looked = ((item.uid, self._alone(item, partial(self._resizable, item, leaving))) for item in known)
        return {uid: item for uid, item in looked if item is not None}

    def _with_pods(self, able: Mapping[str, RunningGang]) -> list[RunningGang]:
        """The same with their pods; one that has not all of them now is left alone."""
        pods = pods_by_gang(self._room, able, partial(gang_of, self._uids))
        found = [item._replace(pods=tuple(pods[uid])) for uid, item in able.items()]
        return [
            item for item in found if item.target is not None or self._alone(item.record, partial(self._is_whole, item))
        ]

    def _smaller_sizes(self) -> dict[str, tuple[int, ...]]:
        """The smaller sizes that running gangs may be given, from the least on, by uid."""
        terms = self._world.sizes.settings.terms
        running = [item for item in self._whole_now.values() if item.target is None]
        able = [item for item in running if may_shrink(seen_by_policies(item, self._now), self._now, terms)]
        return {item.record.uid: tuple(size for size in item.terms.wanted.sizes if size < item.size) for item in able}

    @functools.cached_property
    def _whole_now(self) -> dict[str, RunningGang]:
        """The elastic gangs that run, or are being resized, by uid, as they are while the queue is walked."""
        known = self._known_elastic()
        return {item.record.uid: item for item in self._with_pods(self._able(known, ()))} if known else {}

    def _saving(self, uid: str) -> Saving:
        """Whether a running gang has to save its work before it shrinks, or has."""
        item = self._whole_now[uid]
        if item.terms.timing != "at_checkpoint":
            return "at_once"
        plan = item.state.planned
        wanted = None if plan is None else Wanted(plan.size, plan.to, plan.why, plan.asker)
        goes = go_on_waiting(plan, wanted, for_owners(item.terms), item.progress or Progress(), self._now).goes
        return "saved" if goes else "unsaved"

    def _resizes_at_a_time(self) -> float:
        """How many resizes may be under way."""
        most = self._world.sizes.settings.terms.most_resizes
        return math.inf if most is None else most

    def _resizes_left(self) -> float:
        """How many more resizes may begin."""
        under_way = resizes_under_way(self._records.values(), self._now, self._terms.start_timeout)
        return self._resizes_at_a_time() - under_way - len(self._taken_back())

    def _taken_back(self) -> dict[str, Taking]:
        """The gangs that shrink for those that take back their own, by uid."""
        return {
            uid: Taking(size, item.asker.uid, taken_by(item.queue))
            for item in (self.reclaim.evictions if self.reclaim is not None else ())
            for uid, size in item.sizes.items()
        }

    def _saves_first(self) -> dict[str, Taking]:
        """The gangs that do so once they have saved their work, by uid."""
        saves = self.reclaim.saves if self.reclaim is not None else {}
        return {uid: Taking(item.to, item.asker, taken_by(item.queue)) for uid, item in saves.items()}

    @functools.cached_property
    def _sized(self) -> dict[tuple[str, int], Gang]:
        """Elastic gangs at sizes that were asked about in this cycle."""
        return {}

    @functools.cached_property
    def _nobody_grows(self) -> bool:
        """Whether somebody starts as soon as others are out of the way; asked once it is decided who starts."""
        return any(not item.chosen and item.said.reason in _STARTS_SOON for item in self._choices)

    def _gpu_resources(self) -> frozenset[str]:
        """What nodes have of GPUs, and what elastic gangs ask for."""
        on_nodes = {name for node in self._room.nodes for name in node.allocatable if is_gpu(name)}
        specs = (record.spec for record in self._records.values() if not record.finished)
        elastic = (spec.elastic for spec in specs if spec is not None and spec.elastic is not None)
        return frozenset({*on_nodes, *(terms.range.resource for terms in elastic)})

    def _with_methods(self, changes: Iterable[SizeChange], running: Mapping[str, RunningGang]) -> Iterator[SizeChange]:
        """The changes by the gentlest method of each gang; what grows where it is takes its room and quota at once."""
        room = self._room.twin()
        for change in changes:
            record, resize = change.record, change.resize
            items = self._world.items.get(record.uid, {})
            method = method_in_place(
                record,
                items,
                suspended_jobs_change=self._suspended_jobs_change,
                shrinks=resize.to < resize.size,
            )
            if method == "recreate" or self._memory.digest(record) != (record.state and record.state.digest):
                yield change
                continue
            smaller, larger = (self._gang_at(record.uid, size) for size in sorted((resize.size, resize.to)))
            if resize.to > resize.size:
                if not self._may_have(record, resize.to):
                    # Another one that grows has taken what was left.
                    continue
                growth = find_growth(room, smaller, larger, self._homes(running[record.uid], smaller))
                if growth is None or not self._take_growth(room, record, growth, larger):
                    yield change
                    continue
            yield change._replace(resize=dataclasses.replace(resize, method=method), larger=larger)

    def _take_growth(self, room: Room, record: Record, growth: RoomToGrow, larger: Gang) -> bool:
        """Count what a gang gets besides what it has; False where pods that start just now could be in its way."""
        more = growth.gang
        counts = {podset.name: podset.count for podset in more.podsets}
        hosts = {name: [self._host_names[node] for node in nodes] for name, nodes in growth.nodes.items()}
        if not self._together.admits(more, hosts):
            return False
        place_outstanding(room, [Outstanding(more, counts, hosts)])
        space, _hopeful = judge_namespace(more, read_wishes(more, room), self._world.snapshot, self._taken)
        self._count_quota(more, space)
        if self._quotas.in_force:
            # Charged besides what it has: more than it will be, until the next cycle.
            self._quotas.start(self._quotas.ask(record, larger))
        self._together.add(more, hosts)
        return True

    def _homes(self, item: RunningGang, gang: Gang) -> dict[str, list[str]]:
        """The nodes of a gang's pods, by podset; of those alone that get larger where they are."""
        labels = {podset_label(podset.name): podset.name for podset in gang.podsets}
        homes: dict[str, list[str]] = {}
        for pod in item.pods:
            name = labels.get(pod.labels.get(PODSET_LABEL, ""))
            if name is not None and pod.node is not None:
                homes.setdefault(name, []).append(pod.node)
        return homes

    def _resizable(self, record: Record, leaving: Collection[str]) -> RunningGang | None:
        """A gang whose size may be changed at any moment, or is being changed; None for others."""
        state, terms = record.state, record.spec.elastic if record.spec is not None else None
        if terms is None or state is None or state.allotment is None:
            return None
        if _has_other_sizes(record):
            return None
        priority = self._base_priority(record)
        change = state.resize
        if state.phase == "resizing" and kept_size(state, self._now, self._terms.start_timeout) is None:
            # Nobody knows when its pods go.
            return None
        if state.phase in RESIZING_PHASES:
            if change is None:
                return None
            return RunningGang(record, state, terms, change.size, priority, self._now, target=change.goal)
        began = self._began(record)
        left = state.phase != "running" or state.holding or record.terminating or record.uid in leaving
        if left or began is None or not self._may_start(record) or record.uid in self._promises:
            return None
        if self._stopped_beforehand(record) is not None:
            # It would not be started again.
            return None
        told = self._world.progress.get(record.uid)
        return RunningGang(record, state, terms, state.allotment, priority, began, progress=told)

    def _is_planned_in_vain(self, record: Record) -> bool:
        """Whether a trainer is to save for a resize that will not be: its gang was edited meanwhile."""
        planned = record.phase == "running" and record.state is not None and record.state.planned is not None
        return planned and self._may_start(record) and _has_other_sizes(record)

    def _is_whole(self, item: RunningGang) -> bool:
        """Whether a running gang has all its pods."""
        return len(item.pods) == sum(podset.count for podset in self._gang_at(item.record.uid, item.size).podsets)

    def _gang_at(self, uid: str, size: int) -> Gang:
        """A gang with a size; one of fixed size as it is."""
        known = self._sized.get((uid, size))
        if known is not None:
            return known
        record = self._records[uid]
        if record.spec is None or record.spec.elastic is None:
            return self._demand(record)
        sized = dataclasses.replace(record, state=None, chosen=size)
        gang, problem = self._memory.size(sized, self._world.snapshot)
        if gang is None:
            raise BadInput("size", f"gang {record.key}", problem or "it cannot be read")
        self._sized[uid, size] = gang
        return gang

    def _may_have(self, record: Record, size: int) -> bool:
        """Whether namespace and queue let a gang grow to a size.

        In its namespace it counts with what it has besides: the server may count its old pods for a while.
        """
        passed = self._namespace_has(self._gang_at(record.uid, size), self._taken)
        return passed and not self._quotas.flavored and self._comes_back(record, size)

    def _comes_back(self, record: Record, size: int) -> bool:
        """Whether namespace, queue and the limits of its user let a running gang start again once it is stopped."""
        gang = self._gang_at(record.uid, size)
        _space, hopeful = judge_namespace(gang, read_wishes(gang, self._room), self._world.snapshot, {})
        if not hopeful or not self._quotas.in_force:
            return hopeful
        if self._quotas.user_limit(record, gang, self._used_by(record)) is not None:
            return False
        return self._quotas.flavored or self._quotas.fits_instead(self._quotas.ask(record, gang), record.uid)

    def _may_ask(self, asker: str, victim: str) -> bool:
        """Whether a gang may have another shrink for it: it starts then, and those of one queue share what it has."""
        may = self._askers.get(asker)
        if may is None:
            one = self._records[asker]
            may = self._askers[asker] = self._may_start(one) and not self._has_obstacle(one)
        if not may or not self._quotas.in_force:
            return may
        one, other = (self._records[uid] for uid in (asker, victim))
        return self._lane_of(one) == self._lane_of(other)

    @functools.cached_property
    def _askers(self) -> dict[str, bool]:
        """Whether gangs would start if others shrank for them, as far as that was asked; who starts is decided."""
        return {}

    def _is_others(self, uid: str) -> bool:
        """Whether a gang waits, as far as this run sees, that only other runs may start."""
        record = self._records.get(uid)
        if record is None:
            return bool(self._terms.namespaces)
        return record.phase in WAITING_PHASES and not self._may_start(record)

    def _lane_of(self, record: Record) -> Hashable:
        """The queue of a gang."""
        return self._quotas.lane(*self._subject(record))

    def _queued_gang(self, record: Record) -> QueuedGang:
        """A waiting gang's place in the queue."""
        return queued_gang(record.uid, spec_of(record), record.submitted, cap=self._priority_cap(record))

    def _size_request(self, item: QueuedGang) -> SizeRequest:
        """A waiting gang as one that asks for a size."""
        record = self._records[item.uid]
        terms, state = spec_of(record).elastic, record.state
        attained = 0.0 if terms is None or state is None else terms.range.unit * size_seconds(state, self._now)
        return SizeRequest(item, self._demand(record), terms, self._returns_with(record), attained)

    def _ask_all(
        self, item: QueuedGang, record: Record, gang: Gang, estimate: Estimate, *, mine: bool, hold: bool = True
    ) -> _Asked:
        """What quota says of a gang, and rooms, rules and reservations if quota is left."""
        alike = self._alike(record, gang)
        if self._quotas.flavored:
            return self._ask_ways(item, record, gang, estimate, alike, mine=mine, may_hold=hold)
        quota = self._quotas.ask(record, gang) if self._quotas.in_force else None
        short = self._held_by_quota(record, quota, estimate) if quota is not None else None
        if short is not None:
            return _Asked(gang, quota, short, alike)
        known = self._held_back.get(alike) if mine else None
        return _Asked(gang, quota, known or self._ask(item, gang, estimate, alike, hold=hold), alike)

    def _ask_ways(
        self,
        item: QueuedGang,
        record: Record,
        gang: Gang,
        estimate: Estimate,
        alike: Hashable,
        *,
        mine: bool,
        may_hold: bool,
    ) -> _Asked:
        """The same where trees have flavors: of the first way that finds nodes, else of the one that is waited for."""

        def ask(way: Way, hold: bool) -> Verdict:
            known = self._held_back.get((alike, way.mark)) if mine else None
            return known or self._ask(item, way.gang, estimate, (alike, way.mark), hold=hold and may_hold)

        ways = self._quotas.ways(record, gang)
        fitting, words = self._spared(ways, estimate)
        if words is not None:
            first = ways.first
            short = self._short_of_quota(record, first.layer, "quota_reserved", words)
            return _Asked(first.gang, first.layer, short, (alike, first.mark), first.able)
        way, verdict, unreached = settle(ways, fitting, ask)
        if unreached:
            self._note_own_obstacle()
            verdict = self._waits(record, "flavor_unreachable", unreached)
        verdict = verdict or self._short_of_quota(record, way.layer, "quota", "")
        return _Asked(way.gang, way.layer, verdict, (alike, way.mark), way.able)

    def _spared(self, ways: Ways, estimate: Estimate) -> tuple[Iterator[Way], str | None]:
        """The ways that have quota which is not held for starved gangs; if all of it is, why the gang waits."""
        fitting = self._quotas.fitting_ways(ways)
        if not self._kept_quota.held or not ways.first.layer.passed:
            return fitting, None
        free = (way for way in fitting if self._kept_quota.stopping(way.layer, estimate) is None)
        best = next(free, None)
        if best is None:
            return iter(()), self._kept_quota.stopping(ways.first.layer, estimate)
        return itertools.chain([best], free), None

    def _questions(
        self, item: QueuedGang, record: Record, gang: Gang, estimate: Estimate, asked: _Asked
    ) -> Iterator[Question]:
        """What others may be evicted for: what the gang waits for, then the other ways to start it."""
        if asked.quota is None:
            return
        if asked.able:
            yield Question(item, record, asked.gang, estimate, asked.quota, asked.verdict, asked.alike)
        if not self._quotas.flavored:
            return
        base = self._alike(record, gang)
        ways = (way for way in self._quotas.ways(record, gang).hopeful() if way.layer != asked.quota)
        # Nobody has to go for a start that would take what is held for starved gangs.
        others = (way for way in ways if not way.layer.passed or self._kept_quota.stopping(way.layer, estimate) is None)
        for way in itertools.islice(others, MOST_RECLAIMED):
            alike = base, way.mark
            if way.layer.passed:
                verdict = self._ask(item, way.gang, estimate, alike, hold=False)
            else:
                verdict = self._waits(record, "quota", "").with_quota(way.layer)
            yield Question(item, record, way.gang, estimate, way.layer, verdict, alike)

    def _is_nominated(self, record: Record) -> bool:
        """Whether others go for a gang, and what they free is held for it."""
        return self.reclaim is not None and self.reclaim.nominated_until(record) is not None

    def _is_limited(self, record: Record, gang: Gang) -> bool:
        """Whether a gang waits for what its user has by now, which is told; nobody waits behind it."""
        limit = self._quotas.user_limit(record, gang)
        if limit is None:
            return False
        self._hopeless.add(record.uid)
        self._choices.append(Choice(record, gang, self._refused_by(record, limit), False))
        return True

    def _claim(self, reclaim: Reclaim, record: Record, questions: Iterable[Question], *, mine: bool) -> Verdict | None:
        """What is said of a gang that lacks room if others are evicted for it, or were; None when they are not."""

        def obstacle() -> bool:
            """Whether nobody has to go for it: another run starts it, others went in vain, or it would not start."""
            if mine and reclaim.asked_in_vain(record):
                self._note_own_obstacle()
                return True
            return not mine or self._has_obstacle(record)

        return reclaim.answer(questions, self._taken, obstacle)

    def _has_obstacle(self, record: Record) -> bool:
        """Whether a gang would not be started even if there were room."""
        refused = self._memory.refused(record, self._now) is not None or self._has_pods(record)
        if refused or isinstance(self._taken_names(record), str):
            self._note_own_obstacle()
            return True
        return False

    def _reserve_quota(self, question: Question) -> Verdict:
        """The verdict on a gang that lacks room; quota is held for it if it has waited long and lacks nothing else."""
        record, quota, verdict = question.record, question.quota, question.verdict
        if not self._kept_quota.may_hold(question.item.submitted, quota):
            return verdict
        if quota.passed:
            reservation = self._reserver.reservation_of(question.item)
            if reservation is not None:
                self._kept_quota.hold_until(quota, reservation.starts_at)
            return verdict
        lacking = question.is_about_room and self._may_find_nodes(question.gang, question.alike)
        if not lacking or self._has_obstacle(record):
            return verdict
        return dataclasses.replace(
            verdict, detail=self._kept_quota.hold(quota, (question.alike, self._lane(question.item)))
        )

    def _may_find_nodes(self, gang: Gang, alike: Hashable) -> bool:
        """Whether nodes and rules of the namespace let a gang start, now or when others have left."""
        verdict = self._reserver.judging(self._room, gang, self._taken)
        return verdict.answer == "fits" or (verdict.answer == "waits" and verdict.reason in NODE_REASONS)

    def _note_own_obstacle(self) -> None:
        """What is said of the gang that is judged need not hold for others that ask for the same."""

    def _held_by_quota(self, record: Record, quota: QuotaLayer, estimate: Estimate) -> Verdict | None:
        """The verdict of a gang that its queue has no quota for, or that others are to have it; None when it may."""
        if not quota.passed:
            return self._short_of_quota(record, quota, "quota", "")
        words = self._kept_quota.stopping(quota, estimate)
        return self._short_of_quota(record, quota, "quota_reserved", words) if words is not None else None

    def _refused_by(self, record: Record, standing: QuotaStanding) -> Verdict:
        """The verdict of a gang that a tree keeps waiting, whatever room there is."""
        return self._waits(record, standing.reason or "quota", standing.detail).with_quota(QuotaLayer((standing,)))

    def _short_of_quota(self, record: Record, quota: QuotaLayer, reason: str, detail: str) -> Verdict:
        """The verdict of a gang that waits for quota."""
        return self._waits(record, reason, detail).with_quota(quota)

    def _alike(self, record: Record, gang: Gang) -> Hashable:
        """Equal for gangs that get the same answer from the same room."""
        return self._class_of(record, gang)

    def _class_of(self, record: Record, gang: Gang) -> Hashable:
        """The same, worked out."""
        found = self._memory.demand_class(record, gang, self._label_keys)
        return (found, self._quotas.reach(record, gang)) if self._quotas.flavored else found

    def _ask(self, item: QueuedGang, gang: Gang, estimate: Estimate, alike: Hashable, *, hold: bool = True) -> Verdict:
        """What rooms, rules and reservations say of a gang; without hold no nodes are held for it yet."""
        return self._reserver.judge(item, gang, estimate, self._taken, demand=alike, hold=hold)

    def _start(self, gang: Gang, verdict: Verdict, estimate: Estimate) -> None:
        """Let a chosen gang take its place."""
        self._reserver.start(gang, verdict, estimate)
        self._together.add(gang, verdict.steering)
        self._pace.expect(pods_to_make(gang))
        self._count_quota(gang, verdict.space)
        self._starts += 1

    def _is_hopeless(self, item: QueuedGang) -> bool:
        """Whether nobody has to wait behind a gang: it can never fit as it is, or an error of ours stops it."""
        return item.uid in self._hopeless or item.uid in self.unforeseen

    def _second_thoughts(self, record: Record, gang: Gang, verdict: Verdict) -> Verdict:
        """What may keep a gang that fits from starting in this cycle."""
        if not steerable(record, verdict.steering):
            return verdict.held_back("order_dependent", "its pods cannot be steered: no template of theirs is known")
        refused = self._memory.refused(record, self._now)
        if refused is not None:
            return verdict.held_back(*refused)
        if self._has_pods(record):
            # Two starts of a gang at once would do its work twice.
            return verdict.held_back("name_taken", "pods of an earlier start of it are still there")
        taken = self._taken_names(record)
        if isinstance(taken, str):
            return verdict.held_back("name_taken", taken)
        if self._terms.max_starts is not None and self._starts >= self._terms.max_starts:
            return verdict.held_back("max_starts", f"{self._starts} started in this cycle")
        if self._paced is not None:
            return verdict.held_back("paced", behind(self._paced, record))
        barrier = self._barrier(gang, verdict)
        if barrier is not None:
            return verdict.held_back("after_others", behind(barrier, record))
        if not self._pace.allows(pods_to_make(gang)):
            # Smaller ones behind it would make it wait for ever.
            self._paced = record.key
            return verdict.held_back("paced", "until fewer are missing")
        if not self._together.admits(gang, verdict.steering):
            # Whoever is behind would only take what this one waits for, where both can go.
            self._barriers.append((record.key, self._together.nodes(gang, {})))
            return verdict.held_back("after_others", "until the pods started before it are bound")
        self._names.update(taken)
        return verdict

    def _barrier(self, gang: Gang, verdict: Verdict) -> str | None:
        """The gang before this one that waits for others and could lose its nodes to it."""
        if not self._barriers:
            return None
        nodes = self._together.nodes(gang, verdict.steering)
        return next((key for key, theirs in self._barriers if not nodes.isdisjoint(theirs)), None)

    def _has_pods(self, record: Record) -> bool:
        """Whether pods live of a start that the record does not tell.

        Those of attempts that were undone had gone before the gang came back to the queue, even if they are shown late.
        """
        pods = self._world.pods.by_gang.get((record.namespace, record.uid), ())
        transitions = record.state.transitions if record.state is not None else ()
        since = math.floor(read_time(transitions[-1].at) or 0.0) if pods and transitions else 0
        return any(pod.owner_uids and not pod.finished and pod.created >= since for pod in pods)

    def _taken_names(self, record: Record) -> dict[Name, str] | str:
        """The names of the gang's objects, or the first that is somebody else's, in words."""
        names: dict[Name, str] = {}
        for planned in self._memory.plan(record, {}):
            key = planned.key
            owner = self._names.get(key.identity)
            if owner is not None and owner != record.key:
                return f"{key.kind} {key.name} belongs to the gang {owner}"
            names[key.identity] = record.key
        return names

    def _behind(self, uid: str, blocker: str | None) -> Choice:
        """A gang that was not asked because of one before it."""
        record = self._records[uid]
        first = self._records.get(blocker or "")
        detail = behind(first.key, record) if first is not None else ""
        return Choice(record, self._demand(record), self._waits(record, "behind", detail), False)

    def _waits(self, record: Record, reason: str, detail: str) -> Verdict:
        """A verdict without numbers."""
        nodes = len(self._world.snapshot.nodes)
        return Verdict(
            record.name,
            record.namespace,
            "waits",
            None,
            reason,
            NamespaceFit(True),
            nodes,
            (),
            {},
            detail=detail or None,
        )


def gang_of(names: Mapping[tuple[str, str], str], pod: Pod) -> str | None:
    """The gang a pod belongs to: real pods carry the label; promised ones are named after their gang."""
    return pod.labels.get(GANG_LABEL) or names.get((pod.namespace, pod.name.partition("/")[0]))


def _has_other_sizes(record: Record) -> bool:
    """Whether a running gang was edited since its start, so that it has nothing to do with its terms of now."""
    spec, state = record.spec, record.state
    if spec is None or spec.elastic is None or state is None or state.allotment is None:
        return False
    return spec.podsets is not None or state.allotment not in spec.elastic.range.sizes


def lacks_nodes(choice: Choice) -> bool:
    """Whether nodes are all that a gang waits for."""
    said = choice.said
    return not choice.chosen and said.answer == "waits" and said.reason in NODE_REASONS


def asks_for(choice: Choice, resources: AbstractSet[str]) -> bool:
    """Whether a gang asks for any of these resources."""
    spec = choice.record.spec
    if spec is not None and spec.elastic is not None:
        return True
    return any(not resources.isdisjoint(podset.requests) for podset in choice.gang.podsets)


def all_of(gang: Gang) -> Outstanding:
    """A started gang of which nobody can tell what it still gets: all of it, which is never too little."""
    return Outstanding(gang, {podset.name: podset.count for podset in gang.podsets})


def behind(key: str, reader: Record) -> str:
    """That a gang waits for the one of this key, as far as those who read its record may know of that one."""
    return f"behind {gang_for_reader(key, reader.namespace)}"


def discreet(verdict: Verdict) -> Verdict:
    """A verdict as those who read the gang's record may see it: pods of other namespaces have no names."""
    own = tuple(key for key in verdict.may_preempt if key.partition("/")[0] == verdict.namespace)
    if len(own) == len(verdict.may_preempt):
        return verdict
    return dataclasses.replace(verdict, may_preempt=(*own, "pods of other namespaces"))


def _renamed(verdict: Verdict, gang: Gang) -> Verdict:
    """A verdict worked out for a gang that asks for the same, with the names of this one and its podsets."""
    if (verdict.gang, verdict.namespace) != (gang.name, gang.namespace):
        verdict = dataclasses.replace(verdict, gang=gang.name, namespace=gang.namespace)
    names = [podset.name for podset in gang.podsets]
    quota = verdict.quota.with_podsets(names) if verdict.quota is not None else None
    if quota is not verdict.quota:
        verdict = dataclasses.replace(verdict, quota=quota)
    if [item.name for item in verdict.podsets] == names or len(verdict.podsets) != len(names):
        return verdict
    podsets = tuple(dataclasses.replace(item, name=name) for item, name in zip(verdict.podsets, names, strict=True))
    return dataclasses.replace(verdict, podsets=podsets)


def _finished(records: Iterable[Record]) -> Iterator[tuple[str | None, str, float]]:
    """Queue, name and run time of gangs that completed."""
    for record in records:
        if record.phase != "complete" or record.state is None or record.spec is None:
            continue
        began = read_time(work_began(record.state))
        ended = read_time(record.state.transitions[-1].at) if record.state.transitions else None
        if began is not None and ended is not None and ended > began:
            yield record.spec.queue, record.name, ended - began
