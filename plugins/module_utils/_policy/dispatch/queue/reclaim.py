# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reclaim: who shrinks or is evicted for a gang that is short of its own, and what is held for it until it starts.

A gang goes only if the simulation shows that the asker then fits quota and nodes. Elastic gangs that may be evicted
shrink instead where that alone is enough, one or several. Those that have to save first are asked to, and shrink once
they have. What is being freed is held for the asker: its amounts count as used, and its nodes are closed to others,
until it starts or its nomination ends.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    DISPATCHED_PHASES,
    RESIZING_PHASES,
    UNDOING,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NODE_REASONS, Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Pod
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import spec_of, started_gang
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import QueuedGang
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import (
    LeafCharge,
    Quotas,
    StartedGang,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    Estimate,
    FreedPlaces,
    Reserver,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.start_sizes import largest_of
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.job import ElasticJob
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.room_capacity import RoomCapacity
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room

T = t.TypeVar("T")
# So many times others go for a gang that does not start all the same.
MOST_NOMINATIONS = 3

# What is taken back counts as about to go for at least so many seconds.
SHORTEST_PATIENCE = 60.0
# In one cycle it is looked so often where gangs would stand if others had gone.
MOST_LOOKS = 100
NOBODY_SHRINKS: Mapping[str, int] = types.MappingProxyType({})
# So many that have to save first shrink together at most: each goes when it has, and the asker is nominated anew.
MOST_SAVING = MOST_NOMINATIONS - 1

# Whether a gang shrinks at once, has saved for that, or has to.
Saving = t.Literal["at_once", "saved", "unsaved"]


@dataclasses.dataclass(frozen=True, slots=True)
class Eviction:
    """Started gangs that are evicted for one that waits, all or none, and until when what they free is held for it.

    With sizes, by uid, they are not: each of them shrinks to its own.
    """

    asker: Record
    # The asker's queue, as a path: gangs of others are never named.
    queue: str
    victims: tuple[Record, ...]
    until: float
    sizes: Mapping[str, int] = dataclasses.field(default_factory=dict)


class _Found(t.NamedTuple):
    """Who goes for a gang, or shrinks to which size, and where it stands then."""

    victims: tuple[Record, ...]
    places: FreedPlaces
    sizes: Mapping[str, int] = NOBODY_SHRINKS


class SaveFirst(t.NamedTuple):
    """The size to which a gang shrinks once it has saved its work, for whom, and that one's queue as a path."""

    to: int
    asker: str
    queue: str


class Elastic(t.NamedTuple):
    """What is known of elastic gangs that may shrink.

    smaller are the sizes that running gangs may be given, by uid, from the least on, saving whether one has to save
    first. gang_at is a gang at a size, comes_back whether namespace and queue let it start again with one, most how
    many resizes may begin, in_all how many may be under way at a time.
    """

    smaller: Callable[[], Mapping[str, Sequence[int]]]
    saving: Callable[[str], Saving]
    gang_at: Callable[[str, int], Gang]
    comes_back: Callable[[Record, int], bool]
    most: Callable[[], float]
    in_all: Callable[[], float]


class EvictionTerms(t.NamedTuple):
    """What keeps gangs from being evicted: stopped ones go anyway, resting ones cannot be written at the moment.

    Unwritable ones could not be written time and again, so that nobody waits until they can be.
    """

    stopped: Collection[str] = frozenset()
    resting: Collection[str] = frozenset()
    unwritable: Collection[str] = frozenset()
    # A moment that has certainly come by the server's clock; None when nobody can tell, and nobody's time is over.
    certain: float | None = None


NO_TERMS = EvictionTerms()


class Question(t.NamedTuple):
    """A waiting gang that does not fit, and what was said of it."""

    item: QueuedGang
    record: Record
    gang: Gang
    estimate: Estimate
    quota: QuotaLayer
    verdict: Verdict
    # Equal for gangs that get the same answer from the same room.
    alike: Hashable

    @property
    def is_about_room(self) -> bool:
        """Whether quota or nodes are all that is missing; of nodes a gang only takes its own back."""
        if not self.quota.passed:
            return is_about_quota(self.quota)
        return self.verdict.answer == "waits" and self.verdict.reason in NODE_REASONS and not self.quota.borrows


class Reclaim:
    """One cycle's evictions and nominations, decided while the queue is walked."""

    def __init__(
        self,
        quotas: Quotas,
        reserver: Reserver,
        records: Mapping[str, Record],
        started: Sequence[Record],
        now: float,
        terms: EvictionTerms,
        *,
        may_evict: Callable[[Record], bool],
        began: Callable[[Record], float | None],
        priority_of: Callable[[Record], int],
        gang_of: Callable[[Pod], str | None],
        elastic: Elastic,
    ) -> None:
        """Take what the walk counts with; started are those of the records that are.

        may_evict tells whether this run may stop a gang, began when it was started, priority_of its base priority,
        gang_of whose a pod is, elastic who may shrink.
        """
        self._quotas, self._reserver, self._records, self._now = quotas, reserver, records, now
        self._may_evict, self._began, self._priority_of, self._gang_of = may_evict, began, priority_of, gang_of
        self._started, self._elastic = started, elastic
        # When somebody may be evicted who may not be now, or a nomination ends.
        self.next_check: float | None = None
        # Gangs that are about to be smaller, with their sizes, and those about to go: what they use is free soon.
        self._shrinking: dict[str, int] = {}
        self._going = {*terms.stopped, *self._undone(patience_of(quotas))}
        self._shrinking = {uid: size for uid, size in self._shrinking.items() if uid not in self._going}
        quotas.going = self._going
        quotas.giving = {uid: self._given_by(uid, size) for uid, size in self._shrinking.items()}
        self._resting, self._unwritable, self._certain = terms.resting, terms.unwritable, terms.certain
        settings = quotas.settings
        # How often one may still look where gangs would stand, and those that find no nodes whoever goes.
        self._looks_left = MOST_LOOKS
        self._nowhere: set[tuple[Hashable, Estimate]] = set()
        self._without_all: tuple[int, Room] | None = None
        self._left = min((item.max_evictions for item in settings), default=0)
        self._timeout = max((item.nominate_timeout for item in settings), default=0.0)
        self._protected = max((item.min_run_time for item in settings), default=0.0)
        self.evictions: list[Eviction] = []
        # Who shrinks once it has saved its work, by uid.
        self.saves: dict[str, SaveFirst] = {}
        # Gangs of drained queues, and those queues: they go first.
        self.drained = list(self._drain())
        # Whether any of those that go were drained, now or lately.
        self._drains = quotas.drains and any(quotas.drained(uid) is not None for uid in self._going)

    def _undone(self, patience: float) -> Iterator[str]:
        """Gangs that are taken back; of those that do not go in time nobody knows when they do.

        Those that come back smaller, or get so while they are there, are noted instead.
        """
        for record in self._started:
            phase = record.phase
            since = last_change(record) if phase in UNDOING or phase == "rescaling" else None
            if since is not None and is_recent(since, self._now, patience):
                size = self._smaller_soon(record)
                if size is not None:
                    self._shrinking[record.uid] = size
                elif phase == "rescaling":
                    continue
                else:
                    yield record.uid
                self._look_again(since + patience + 1.0)

    def _smaller_soon(self, record: Record) -> int | None:
        """The size that a gang between two sizes is to have, if it is charged with more until then; None for others."""
        resize = record.state.resize if record.state is not None and record.phase in RESIZING_PHASES else None
        if resize is None or record.spec is None or record.spec.elastic is None or resize.goal >= resize.larger:
            return None
        try:
            self._elastic.gang_at(record.uid, resize.goal)
        except BadInput:
            return None
        return resize.goal

    def _given_by(self, uid: str, size: int) -> list[LeafCharge]:
        """What a gang gives of each tree with a size."""
        return self._quotas.given_by(self._records[uid], self._elastic.gang_at(uid, size))

    # Who is evicted without anybody who asks.

    def _drain(self) -> Iterator[tuple[Record, str]]:
        """Started gangs of queues that are drained, as many as may be evicted at once, and the drained queue."""
        for record in self._started if self._quotas.drains else ():
            uid = record.uid
            able = self._left > 0 and uid not in self._resting and self._may_go(record)
            queue = self._quotas.drained(uid) if able else None
            if queue is not None:
                self._left -= 1
                self._going.add(uid)
                yield record, queue

    # Who asks.

    def asked_in_vain(self, record: Record) -> bool:
        """Whether others went for a gang several times and it was refused each time: nobody goes for it any more."""
        return record.state is not None and record.state.nominations >= MOST_NOMINATIONS

    def nominated_until(self, record: Record) -> float | None:
        """Until when room is held for a gang; what lies further ahead than anybody nominates was not written by us."""
        until = read_time(record.state.nominated) if record.state is not None and record.state.nominated else None
        return until if until is not None and self._now < until <= self._now + self._timeout + 1.0 else None

    def first(self, queue: Sequence[T], record_of: Callable[[T], Record]) -> tuple[list[T], list[T]]:
        """Those of a queue that room is held for, the oldest nomination first, and all others as they are."""
        found = [(self.nominated_until(record_of(item)), item) for item in queue]
        held = sorted(((until, item) for until, item in found if until is not None), key=lambda pair: pair[0])
        return [item for _until, item in held], [item for until, item in found if until is None]

    def answer(self, questions: Iterable[Question], taken: QuotaUse, obstacle: Callable[[], bool]) -> Verdict | None:
        """The verdict on a gang that room is being freed for, or shall be; None when it stays as it is.

        questions are about the same gang in other flavors: the first that leads to something counts. obstacle tells
        whether something else than room keeps it from starting; it is asked last.
        """
        able = [question for question in questions if question.is_about_room]
        if not able:
            return None
        record = able[0].record
        until = self.nominated_until(record)
        question, places = (self._first_freed(able, taken) if until is not None else None) or (able[0], None)
        if places is None:
            hopeful = [item for item in able if self.is_hopeful(item.quota, item.item.priority)]
            tries = ((item, self._choose(item, taken)) for item in hopeful) if hopeful and not obstacle() else ()
            question, chosen = next(((item, found) for item, found in tries if found is not None), (able[0], None))
            if chosen is None:
                return None
            places, until = chosen.places, self._let_go(question, chosen) or until
        return self._held(question, places, until)

    def _let_go(self, question: Question, chosen: _Found) -> float | None:
        """Evict or shrink those that were chosen; until when room is held for the asker, None if nobody goes yet.

        Of those that shrink some may have to save first. Each of them goes once it has, and loses nothing by waiting
        for others; those that need not save go last.
        """
        sizes, queue = chosen.sizes, _path_of(question.quota)
        self._shrinking.update(sizes)
        self._quotas.giving.update({uid: self._given_by(uid, size) for uid, size in sizes.items()})
        self._going.update(record.uid for record in chosen.victims if record.uid not in sizes)
        go = self._go_now(sizes)
        for uid in sizes:
            if uid not in go and self._elastic.saving(uid) != "at_once":
                self.saves[uid] = SaveFirst(sizes[uid], question.record.uid, queue)
        victims = tuple(record for record in chosen.victims if record.uid in go or not sizes)
        if not victims:
            return None
        until, shrunk = self._now + self._timeout, {uid: size for uid, size in sizes.items() if uid in go}
        self.evictions.append(Eviction(question.record, queue, victims, until, shrunk))
        self._left -= len(victims)
        return until

    def _go_now(self, uids: Collection[str]) -> list[str]:
        """Who of those that shrink together does so now: nobody yet, where not as many may be resized at the moment.

        Where so many never may, one of those that have saved goes before the others.
        """
        saving = {uid: self._elastic.saving(uid) for uid in uids}
        waits = "unsaved" in saving.values()
        go = [uid for uid, word in saving.items() if word == "saved" or (word == "at_once" and not waits)]
        if all(word == "at_once" for word in saving.values()):
            return go
        if len(go) > self._elastic.in_all():
            go = [uid for uid in go if saving[uid] == "saved"][:1]
        return [] if len(go) > self._elastic.most() else go

    def awaited(self, questions: Iterable[Question], taken: QuotaUse) -> Verdict | None:
        """The verdict on a gang that could start in borrowed flavors while its own are being freed for it.

        It waits for them: others went for that, and what is borrowed would be taken back from it. None when that is
        not so.
        """
        freed = self._first_freed([item for item in questions if item.is_about_room], taken, own=True)
        return None if freed is None else self._held(*freed, self.nominated_until(freed[0].record))

    def _held(self, question: Question, places: FreedPlaces, until: float | None) -> Verdict:
        """Hold what is being freed for a gang, and what is said of it meanwhile."""
        self._look_again(until)
        self._quotas.hold(question.record.uid, question.quota)
        self._reserver.hold_freed(question.item, question.gang, places)
        saves = any(item.asker == question.record.uid for item in self.saves.values())
        words = "until others have saved their work" if saves else "until others have gone"
        words = words if until is None else f"until {time_text(until)}"
        held = question.verdict.held_back("nominated", words)
        return dataclasses.replace(held, how="after_reclaim", quota=question.quota)

    def _first_freed(
        self, questions: Sequence[Question], taken: QuotaUse, *, own: bool = False
    ) -> tuple[Question, FreedPlaces] | None:
        """The first way in which a gang fits once those have gone that are about to: in its own before borrowed."""
        for borrowing in (False,) if own else (False, True):
            for question in questions:
                places = self._freed_soon(question, taken, borrowing=borrowing)
                if places is not None:
                    return question, places
        return None

    def keep(self, question: Question, taken: QuotaUse) -> None:
        """Hold what is free by now for a gang that it was freed for, if another run has to start it, or a later cycle.

        Otherwise others would take it, and somebody would have to be evicted again.
        """
        until = self.nominated_until(question.record)
        places = self._reserver.fit_without(question.gang, question.estimate, (), taken) if until is not None else None
        if places is not None:
            self._look_again(until)
            self._quotas.hold(question.record.uid, question.quota)
            self._reserver.hold_freed(question.item, question.gang, places)

    def is_hopeful(self, quota: QuotaLayer, priority: int) -> bool:
        """Whether anybody could be evicted for a gang as far as quota is concerned, or it needs nobody to be.

        Most gangs that wait have no right to anything that others use, which is quickly told.
        """
        if self._looks_left > 0 and (self._may_take(quota, priority) or self._gets_its_own(quota)):
            return True
        self._look_again(self._next_unprotected)
        return False

    def _may_take(self, quota: QuotaLayer, priority: int) -> bool:
        """Whether quota lets a gang take from any of those that may be evicted."""
        if self._left <= 0 or not self._old:
            return False
        with self._quotas.after():
            if not self._quotas.may_take(quota, priority, self._least_priority) or not self._offered:
                return False
            return self._quotas.may_find_victims(quota, priority, self._gone)

    def _gets_its_own(self, quota: QuotaLayer) -> bool:
        """Whether a gang fits quota within its own once this cycle's victims have gone.

        Nobody asks for what gangs of drained queues leave: it is for the first that fits when all of them have gone, in
        its own or borrowed.
        """
        if not self.evictions and not self._drains:
            return False
        with self._quotas.after():
            return self._quotas.fits(quota) and (self._drains or not self._quotas.borrows(quota))

    def _choose(self, question: Question, taken: QuotaUse) -> _Found | None:
        """Who shrinks for a gang, or else is evicted, and where it stands then; None when nobody may, or in vain.

        Nobody has to be for a gang that gets its own from what this cycle's victims free: that is held for it as well,
        since others would have to be evicted for it later.
        """
        quota, priority = question.quota, question.item.priority
        if self._may_take(quota, priority):
            if not self._finds_nodes(question, taken):
                self._look_again(self._next_unprotected)
                return None
            shrunk = self._shrink(question, taken)
            if shrunk is not None:
                return shrunk
            with self._quotas.after():
                found = self._quotas.choose_victims(
                    quota, priority, lambda uids: self._suffices(question, uids, taken), self._gone
                )
        else:
            found = () if self._suffices(question, (), taken) else None
        own = found == () and self._gets_its_own(quota)
        if found is None or not self._may_all_go(found) or not (found or own):
            self._look_again(self._next_unprotected)
            return None
        if any(uid in self._resting for uid in found):
            # Another one in its place would be evicted for nothing but a moment's trouble.
            return None
        places = self._places(question, found, taken)
        return None if places is None else _Found(tuple(self._records[uid] for uid in found), places)

    def _shrink(self, question: Question, taken: QuotaUse) -> _Found | None:
        """Who shrinks for a gang so that nobody is evicted for it; None when shrinks alone are not enough.

        Those that can do so at once come before those that have to save first.
        """
        able = {uid: sizes for uid, sizes in self._givers.items() if uid not in self._gone}
        at_once = {uid: sizes for uid, sizes in able.items() if self._elastic.saving(uid) == "at_once"}
        found = self._shrink_some(question, taken, at_once)
        return found if found is not None or len(able) == len(at_once) else self._shrink_some(question, taken, able)

    def _shrink_some(self, question: Question, taken: QuotaUse, able: Mapping[str, Sequence[int]]) -> _Found | None:
        """Who of these shrinks for a gang.

        Chosen as victims are, by what each gives at its least size; then each keeps as much as it may, the last first.
        """
        least = {uid: sizes[0] for uid, sizes in able.items() if self._elastic.comes_back(self._records[uid], sizes[0])}
        if not least:
            return None
        quota, given = question.quota, {uid: self._given_by(uid, size) for uid, size in least.items()}
        givers = [self._offer_of(record, began) for record, began in self._old if given.get(record.uid)]
        with self._quotas.after(), self._quotas.only(given, givers):
            found = self._quotas.choose_victims(
                quota,
                question.item.priority,
                lambda uids: self._suffices(question, (), taken, sizes={uid: least[uid] for uid in uids}),
                self._gone,
            )
            if not found:
                return None
            with self._quotas.without(found):
                borrows = self._quotas.borrows(quota)
        if not self._may_all_shrink(found):
            return None
        sizes = {uid: least[uid] for uid in found}
        for uid in reversed(found):
            enough = partial(self._enough_at, question, taken, dict(sizes), uid, borrows)
            sizes[uid] = largest_of(able[uid][1:], enough) or sizes[uid]
        places = self._places(question, (), taken, sizes=sizes)
        return None if places is None else _Found(tuple(self._records[uid] for uid in sizes), places, sizes)

    def _may_all_shrink(self, found: Collection[str]) -> bool:
        """Whether as many gangs may shrink now, and all of them can be written; those that have to save do so later.

        The last of these and all others go together, so that as many have to be allowed at a time.
        """
        saving = sum(self._elastic.saving(uid) != "at_once" for uid in found)
        go, last = self._go_now(found), len(found) - max(0, saving - 1)
        few = saving <= MOST_SAVING and (not saving or last <= self._elastic.in_all())
        able = few and self._may_all_go(go) and len(go) <= self._elastic.most()
        return able and all(uid not in self._resting for uid in found)

    def _enough_at(
        self, question: Question, taken: QuotaUse, others: Mapping[str, int], uid: str, borrows: bool, size: int
    ) -> int | None:
        """The size of one gang if another fits beside it, and beside the sizes of others; None if it does not.

        It must not borrow where it need not.
        """
        if not self._elastic.comes_back(self._records[uid], size):
            return None
        sizes = {**others, uid: size}
        given = {other: self._given_by(other, its) for other, its in sizes.items()}
        with self._quotas.after(), self._quotas.only(given), self._quotas.without(sizes):
            if not self._quotas.fits(question.quota) or (not borrows and self._quotas.borrows(question.quota)):
                return None
        return size if self._suffices(question, (), taken, sizes=sizes) else None

    @functools.cached_property
    def _givers(self) -> Mapping[str, Sequence[int]]:
        """The smaller sizes that gangs may be given."""
        return self._elastic.smaller()

    @property
    def _gone(self) -> Collection[str]:
        """Gangs of which nobody may be evicted, or shrink, any more: they do already."""
        return self._going | self._shrinking.keys()

    def _may_all_go(self, victims: Collection[str]) -> bool:
        """Whether a cycle may evict all of these: no more than are left of it, or all that its first asker needs.

        An owner that needs more than one cycle may evict would never get its own otherwise.
        """
        first = self._left > 0 and not self.evictions and not self.drained
        return first or len(victims) <= self._left

    def _finds_nodes(self, question: Question, taken: QuotaUse) -> bool:
        """Whether a gang would find nodes if all had gone that may be evicted, found out once for all that are alike.

        Without that whoever waits for a node that does not exist would be tried against every one of them.
        """
        kind = question.alike, question.estimate
        if kind not in self._nowhere and not self._suffices(question, self._offered, taken, self._emptied()):
            self._nowhere.add(kind)
        return kind not in self._nowhere

    def _emptied(self) -> Room:
        """The room without all that may be evicted, copied once until another gang starts."""
        room, started = self._reserver.room, len(self._reserver.room.touched)
        if self._without_all is None or self._without_all[0] != started:
            emptied = room.without(self._pods_of(self._offered))
            left = {uid: size for uid, size in self._shrinking.items() if uid not in self._offered}
            self._without_all = started, self._with_sizes(emptied, left)
        return self._without_all[1]

    def _suffices(
        self,
        question: Question,
        victims: Iterable[str],
        taken: QuotaUse,
        then: Room | None = None,
        sizes: Mapping[str, int] = NOBODY_SHRINKS,
    ) -> bool:
        """Whether a gang would find nodes if these had gone; a cycle must not take long, so it is not asked for ever.

        Who is not asked any more asks again in the next cycle.
        """
        if self._looks_left <= 0:
            return False
        self._looks_left -= 1
        return self._places(question, victims, taken, then, sizes) is not None

    def _freed_soon(self, question: Question, taken: QuotaUse, *, borrowing: bool) -> FreedPlaces | None:
        """Where a gang stands once those have gone that are about to; None if that is not enough for it.

        It borrows then, or not.
        """
        with self._quotas.after():
            if not self._quotas.fits(question.quota) or self._quotas.borrows(question.quota) is not borrowing:
                return None
        return self._places(question, (), taken)

    def _places(
        self,
        question: Question,
        victims: Iterable[str],
        taken: QuotaUse,
        then: Room | None = None,
        sizes: Mapping[str, int] = NOBODY_SHRINKS,
    ) -> FreedPlaces | None:
        """Where a gang would stand if these had gone, besides those that are about to; None without enough nodes.

        then is the room in which they have, where it is known. Others have these sizes by then.
        """
        gone = {*victims}
        leaving = self._pods_of(gone)
        smaller = {uid: size for uid, size in {**self._shrinking, **sizes}.items() if uid not in gone}
        if smaller:
            then = then or self._with_sizes(self._reserver.room.without(leaving), smaller)
            leaving += [pod for uid in sorted(smaller) for pod in self._pods.get(uid, ())]
        return self._reserver.fit_without(question.gang, question.estimate, leaving, taken, then)

    def _with_sizes(self, room: Room, sizes: Mapping[str, int]) -> Room:
        """A room in which gangs have these sizes; one that would find no place keeps what it has."""

        def gang_at(job: ElasticJob, size: int) -> Gang:
            state = self._records[job.uid].state
            return started_gang(self._elastic.gang_at(job.uid, size), state.charged if state is not None else ())

        for uid, size in sorted(sizes.items()):
            terms = spec_of(self._records[uid]).elastic
            if terms is not None:
                held = {uid: tuple(self._pods.get(uid, ()))}
                capacity = RoomCapacity(room, held, gang_at, terms.range.resource)
                smaller = capacity.resized(ElasticJob(uid, terms.range), size)
                room = room if smaller is None else smaller.room
        return room

    def _pods_of(self, victims: Iterable[str]) -> list[Pod]:
        """The pods that go with these gangs and with those that are about to go."""
        return [pod for uid in sorted(self._going | set(victims)) for pod in self._pods.get(uid, ())]

    def _look_again(self, moment: float | None) -> None:
        """Note when something of this may change by time alone."""
        if moment is not None:
            self.next_check = moment if self.next_check is None else min(self.next_check, moment)

    @functools.cached_property
    def _running(self) -> list[tuple[Record, float]]:
        """The gangs that this run may stop, and when each was started.

        Of one that cannot be read nobody knows what it would give way to.
        """
        readable = [record for record in self._started if record.spec is not None and self._may_go(record)]
        able = [(record, self._began(record)) for record in readable]
        return [(record, began) for record, began in able if began is not None]

    @functools.cached_property
    def _offered(self) -> list[str]:
        """The gangs that may be evicted, of which the trees take note."""
        self._quotas.offer([self._offer_of(record, began) for record, began in self._old])
        return [record.uid for record, _began in self._old]

    def _offer_of(self, record: Record, began: float) -> StartedGang:
        """A gang as the trees take note of it."""
        return StartedGang(record.uid, self._priority_of(record), began)

    @functools.cached_property
    def _old(self) -> list[tuple[Record, float]]:
        """The same with when each was started: long enough ago, and not about to end."""
        return [(record, began) for record, began in self._running if self._has_run(began)]

    @functools.cached_property
    def _least_priority(self) -> int | None:
        """The lowest priority of any started gang that can be read."""
        readable = (record for record in self._started if record.spec is not None)
        return min(map(self._priority_of, readable), default=None)

    def _has_run(self, began: float) -> bool:
        """Whether a gang has certainly run for as long as each may."""
        return not self._protected or (self._certain is not None and self._certain - began >= self._protected)

    @functools.cached_property
    def _next_unprotected(self) -> float | None:
        """When the next gang has run for long enough to be evicted; the time that is certain stays behind a little."""
        late = 1.0 if self._certain is None else max(0.0, self._now - self._certain)
        ends = [began + self._protected + late for _record, began in self._running if not self._has_run(began)]
        return None if not ends else max(min(ends), self._now + 0.2)

    def _may_go(self, record: Record) -> bool:
        """Whether a gang is started, not about to end, and this run may stop it."""
        state = record.state
        started = state is not None and record.phase in DISPATCHED_PHASES and not state.holding
        kept = record.terminating or record.uid in self._unwritable or record.uid in self._going
        return started and not kept and self._may_evict(record)

    @functools.cached_property
    def _pods(self) -> dict[str, list[Pod]]:
        """The pods of gangs that stand on nodes, or are promised to."""
        found: dict[str, list[Pod]] = collections.defaultdict(list)
        for here in self._reserver.room.pods_on:
            for pod in here:
                uid = self._gang_of(pod)
                record = self._records.get(uid) if uid is not None else None
                # Pods of other namespaces do not go with a gang, whatever their labels say.
                if uid is not None and (record is None or record.namespace == pod.namespace):
                    found[uid].append(pod)
        return found


def is_about_quota(quota: QuotaLayer) -> bool:
    """Whether quota that others use now is all that a gang lacks that was refused."""
    refusal = quota.refusal
    return refusal is not None and refusal.answer == "waits" and refusal.reason == "quota"


def patience_of(quotas: Quotas) -> float:
    """For how long gangs count as about to go; longer than pods usually take, whatever is set."""
    return max((SHORTEST_PATIENCE, *(item.nominate_timeout for item in quotas.settings)))


def taken_by(queue: str) -> str:
    """Why a gang shrinks or is evicted for one of a queue, given as a path."""
    return f"queue {queue} takes its own back"


def is_recent(since: float, now: float, patience: float) -> bool:
    """Whether something happened lately; what is told of a moment ahead was not written by us."""
    return -SHORTEST_PATIENCE <= now - since <= patience


def last_change(record: Record | None) -> float | None:
    """When the phase of a record changed last; None when it does not tell."""
    transitions = record.state.transitions if record is not None and record.state is not None else ()
    return read_time(transitions[-1].at) if transitions else None


def _path_of(quota: QuotaLayer) -> str:
    """The queue of a gang in the first tree that refuses it, else in the first one."""
    standing = quota.refusal or quota.standings[0]
    return standing.path or standing.leaf or standing.tree
