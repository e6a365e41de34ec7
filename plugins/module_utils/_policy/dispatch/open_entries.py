# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Entries of the batch: which of them still promise something, as far as one run can tell."""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, BatchRead, Entry, keep_entries
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    ACTIVE_PHASES,
    PROMISED_PHASES,
    STARTED_PHASES,
    STARTING_PHASES,
    GangState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import has_live_ticket, podset_label
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, declared_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import Outstanding
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import FLAVORS_KEY
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Sight, World

Standing = t.Literal["not_begun", "open", "over"]

# A promise to a gang that this run is not for is forgotten after so many times the start_timeout: whoever looks after
# that gang has started it or taken it back by then.
UNSEEN_PATIENCE = 2.0
# What gangs are told that wait because of it.
NEW_LEASE = ("new_lease", "a run that sees all namespaces ends the wait, or time does")
# And what those are told that wait for a resize elsewhere.
RESIZE_UNSEEN = ("after_others", "until a gang of another namespace has its new size, or time ends the wait")
START_TIMEOUT = DispatchOptions().start_timeout


def standing_of(entry: Entry, state: GangState | None, tickets: Iterable[Mapping[str, t.Any]] = ()) -> Standing:
    """How far an entry is whose record exists; tickets are those of the record.

    not_begun: nothing happened since the commit. open: the start goes on, or its pods are not bound yet. over: the pods
    are bound, or the gang ended, was undone or refused. A start begins with its ticket; the record may say so later.
    """
    if entry.abandoned:
        return "over"
    if (state is None or state.phase == "queued") and has_live_ticket(tickets, entry.uid, entry.attempt):
        return "open"
    if state is None or state.attempt < entry.attempt:
        return "not_begun"
    if state.attempt > entry.attempt:
        return "over"
    carried = state.batch == entry.batch
    if entry.op == "start":
        if state.phase == "queued":
            return "over" if carried else "not_begun"
        return "open" if state.phase in PROMISED_PHASES else "over"
    if carried and entry.op == "resize" and state.phase == "rescaling":
        return "open"
    return "over" if carried or state.phase not in ACTIVE_PHASES else "not_begun"


def usual_patience(options: DispatchOptions) -> float:
    """How long a start takes at most that somebody began of whom nothing is known."""
    return max(options.start_timeout, START_TIMEOUT)


def unlisted_since(read: BatchRead, created: float, seen: float) -> float | None:
    """Since when (on the server's clock) a Lease does not list what was promised; None when it does.

    One without a batch is new. What a damaged batch listed is not known from the moment on that this was seen, by this
    holder or by one before it that noted the moment. created is when the Lease was made.
    """
    noted = read.batch.unlisted_since if read.batch is not None else 0
    if read == BatchRead():
        return created
    if read.problem is None and not noted:
        return None
    return min(noted, seen) if noted else seen


def unknown_until(since: float | None, certain: float | None, options: DispatchOptions) -> float | None:
    """Until when a run that does not see all records cannot tell what was promised elsewhere; None when it can.

    since is when the Lease stopped to list it. Every start of before must have ended by then.
    """
    if since is None:
        return None
    end = since + UNSEEN_PATIENCE * usual_patience(options)
    return end if certain is None or certain < end else None


def resizes_unseen(batch: Batch | None, seen: Collection[str], certain: float | None, options: DispatchOptions) -> bool:
    """Whether an object of a gang that a run does not see gets another size while it is there.

    Nobody can tell then how much of that room its pods have already. seen are the uids of the records that were read.
    """
    for entry in batch.entries if batch is not None else ():
        unseen = entry.resizes_in_place and entry.uid not in seen and not entry.abandoned
        if unseen and (certain is None or certain <= _counts_until(entry.at, entry.patience, options)):
            return True
    return False


def _counts_until(since: float, patience: float, options: DispatchOptions) -> float:
    """Until when what somebody began counts; patience is theirs, the usual one where nobody knows it."""
    return since + UNSEEN_PATIENCE * (patience or usual_patience(options))


def unknown_words(lease: str, until: float) -> str:
    """What the user of such a run is told."""
    cause = f"{lease} is new, and what was promised in other namespaces cannot be seen"
    return f"nothing is started or stopped until {time_text(until)}: {cause}"


def began(record: Record) -> float:
    """When the phase of a record changed last; long ago when it does not tell."""
    transitions = record.state.transitions if record.state is not None else ()
    return (read_time(transitions[-1].at) or 0.0) if transitions else 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """What tells one run how far the starts are that were promised room."""

    # The records this run is for, those of other namespaces, and the uids of those that are left alone.
    mine: Mapping[str, Record]
    elsewhere: Mapping[str, Record]
    aside: Collection[str]
    sight: Sight
    world: World
    options: DispatchOptions
    # A moment that has certainly come by the server's clock; None when nobody can tell.
    certain: float | None
    # Records that calls are at work on, and entries that are over although their records do not say so.
    busy: Collection[Hashable] = frozenset()
    over: Collection[tuple[str, str]] = frozenset()

    def open_batch(self, batch: Batch | None) -> Batch | None:
        """The batch without entries that are over: what the next commit carries on, and what room is promised to."""
        if batch is None:
            return None
        return keep_entries(batch, [entry for entry in batch.entries if self._is_open(entry, batch)])

    def attended(self, batch: Batch | None) -> list[Record]:
        """The records of other namespaces without those whose start nobody seems to look after."""
        patience = {entry.uid: entry.patience for entry in batch.entries} if batch is not None else {}
        return [
            record
            for record in self.elsewhere.values()
            if record.phase not in STARTING_PHASES or not self._is_forgotten(began(record), patience.get(record.uid, 0))
        ]

    def next_look(self, batch: Batch | None) -> float | None:
        """When the first start that this run is not for will be too old to count on; None when there is none."""
        now = -1.0 if self.certain is None else self.certain
        return min((end + 1.0 for end in self._ends(batch) if end >= now), default=None)

    def _ends(self, batch: Batch | None) -> Iterator[float]:
        """When starts that this run is not for are too old to count on."""
        entries = batch.entries if batch is not None else ()
        patience = {entry.uid: entry.patience for entry in entries}
        yield from (self._end(entry.at, entry.patience) for entry in entries if entry.uid not in self.mine)
        for record in self.elsewhere.values():
            if record.phase in STARTING_PHASES:
                yield self._end(began(record), patience.get(record.uid, 0))

    def _is_open(self, entry: Entry, batch: Batch) -> bool:
        """Whether an entry still promises something."""
        uid = entry.uid
        if entry.abandoned or (uid, entry.batch) in self.over:
            return False
        if uid in self.busy:
            return True
        record = self.mine.get(uid) or self.elsewhere.get(uid)
        if record is None and uid not in self.aside and self.sight.sees(entry.namespace):
            return False
        if uid not in self.mine and self._is_forgotten(entry.at, entry.patience):
            return False
        if record is None:
            # The pods of a resize may be those of the old size.
            return entry.resizes_in_place or not self._is_bound(entry, batch)
        standing = standing_of(entry, record.state, self.world.tickets.get(uid, ()))
        # Whoever committed it for a namespace that is not ours has lost the Lease since: it cannot begin any more.
        return standing == "open" or (standing == "not_begun" and uid in self.mine)

    def _is_bound(self, entry: Entry, batch: Batch) -> bool:
        """Whether all pods promised to a gang that cannot be read have a node; pods are seen where records are not."""
        wanted = sum(int(podset["count"]) for podset in batch.demand_of(entry))
        pods = self.world.pods.by_gang.get((entry.namespace, entry.uid), ())
        return sum(pod.bound or pod.finished for pod in pods) >= wanted

    def _is_forgotten(self, since: float, patience: float) -> bool:
        """Whether a start that this run is not for, begun then, is too old to count on."""
        return self.certain is not None and self.certain > self._end(since, patience)

    def _end(self, since: float, patience: float) -> float:
        """Until when a start counts; patience is that of whoever began it, the usual one where nobody knows it."""
        return _counts_until(since, patience, self.options)


def promised_elsewhere(batch: Batch | None, records: Mapping[str, Record], world: World) -> dict[str, Outstanding]:
    """What each gang with an open entry still gets whose record is not seen, or does not say that it was started.

    Gangs whose records say so are counted by what their objects want.
    """
    promised: dict[str, Outstanding] = {}
    for entry in batch.entries if batch is not None else ():
        record = records.get(entry.uid)
        # What is stopped gets nothing more; of a resize it tells what the gang gets.
        promises = entry.op == "start" or entry.resizes_in_place
        told = record is not None and record.phase in STARTED_PHASES and entry.uid in world.gangs
        if not promises or told:
            continue
        podsets, flavors = (_podsets(batch, entry, world), _flavors(batch, entry)) if batch is not None else ((), {})
        promised[entry.uid] = _outstanding(entry, podsets, world, flavors)
    return promised


def _podsets(batch: Batch, entry: Entry, world: World) -> tuple[PodSet, ...]:
    """What an entry promises; where that cannot be understood, what its record asks for."""
    demand = [{key: value for key, value in item.items() if key != FLAVORS_KEY} for item in batch.demand_of(entry)]
    try:
        return tuple(declared_podsets(demand, namespace=entry.namespace)) if demand else ()
    except BadInput:
        known = world.gangs.get(entry.uid)
        return known.podsets if known is not None else ()


def _flavors(batch: Batch, entry: Entry) -> dict[str, dict[str, str]]:
    """The flavors that an entry names, by tree and podset."""
    found: dict[str, dict[str, str]] = {}
    for podset in batch.demand_of(entry):
        told = podset.get(FLAVORS_KEY)
        for tree, flavor in told.items() if isinstance(told, Mapping) else ():
            found.setdefault(str(tree), {})[str(podset.get("name"))] = str(flavor)
    return found


def _outstanding(
    entry: Entry, podsets: tuple[PodSet, ...], world: World, flavors: Mapping[str, Mapping[str, str]]
) -> Outstanding:
    """The pods an entry promises, less those that have a node, and the objects of its record, if that can be read."""
    pods, known = world.pods.by_gang.get((entry.namespace, entry.uid), ()), world.gangs.get(entry.uid)
    bound = collections.Counter(pod.podset for pod in pods if pod.bound or pod.finished)
    unbound = [pod for pod in pods if pod.live and not pod.bound]
    exist = collections.Counter(pod.podset for pod in unbound)
    counts = {item.name: max(0, item.count - bound[podset_label(item.name)]) for item in podsets}
    return Outstanding(
        Gang(entry.name, entry.namespace, podsets, made=known.made if known is not None else MadeObjects()),
        {name: count for name, count in counts.items() if count},
        existing={name: min(count, exist[podset_label(name)]) for name, count in counts.items()},
        waiting=frozenset((pod.namespace, pod.name) for pod in unbound),
        queue=entry.queue,
        flavors=flavors,
    )
