# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whom a gang may take quota back from: borrowers of what is its own, or lower priorities of its own queue.

Who gets in is what Kueue decides with classic preemption (reclaim within the cohort, lower priorities within the queue,
no eviction in order to borrow). Pure: what it would free is tried on the given usage and undone again.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource, QuotaAmounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage


@dataclasses.dataclass(frozen=True, slots=True)
class Evictable:
    """A started gang that may be evicted: its base priority, when it started, and the work that would be lost.

    Whoever may not be a victim now, within min_run_time for example, is not among those that are given.
    """

    uid: str
    leaf: str
    amounts: QuotaAmounts
    priority: int
    started: float
    work_lost: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Asker:
    """A waiting gang that something is to be freed for; its priority is the base one, since ageing evicts nobody."""

    leaf: str
    amounts: QuotaAmounts
    priority: int


@dataclasses.dataclass(frozen=True, slots=True)
class Candidates:
    """Gangs that may be taken from, in the order in which they go, and what the asker's leaf could get without them."""

    gangs: tuple[Evictable, ...]
    room: QuotaAmounts


# Candidates by the asker's leaf and priority, and what is short.
Known = dict[tuple[str, int, tuple[FlavorResource, ...]], Candidates]
# Says whether the asker would find nodes if these gangs were gone.
NodesAfter = Callable[[Sequence[Evictable]], bool]


def by_leaf(started: Iterable[Evictable]) -> dict[str, list[Evictable]]:
    """Started gangs sorted for those who ask often: what a queue uses tells of all its gangs at once."""
    found: dict[str, list[Evictable]] = {}
    for item in started:
        found.setdefault(item.leaf, []).append(item)
    return found


def choose_victims(
    usage: TreeUsage,
    asker: Asker,
    started: Mapping[str, Sequence[Evictable]],
    nodes_after: NodesAfter | None = None,
    gone: Collection[str] = frozenset(),
    known: Known | None = None,
) -> tuple[Evictable, ...] | None:
    """The smallest set found whose end lets the asker start; None when no allowed set does, empty when it fits already.

    Victims are added one by one, lowest base priority first, then newest, then least work lost, until the asker fits
    quota and nodes; then each is put back, the last added first, that is not needed after all. started are those that
    may be evicted, by leaf, but for those that are gone. known is for those who ask often: what was found out for
    earlier askers, as long as nothing else is used or gone.
    """
    lacking = _lacking(usage, asker)
    if not lacking and (nodes_after is None or nodes_after(())):
        return ()
    search = _Search(usage, asker, lacking or asker.amounts, nodes_after)
    found = _candidates(search, lacking, started, gone, {} if known is None else known)
    return search.run(found.gangs) if found is not None else None


def may_find_victims(
    usage: TreeUsage, asker: Asker, started: Mapping[str, Sequence[Evictable]], gone: Collection[str], known: Known
) -> bool:
    """Whether quota lets the asker take from anybody, and all of those together would be enough; nodes are not asked.

    See choose_victims, which finds nobody otherwise.
    """
    lacking = _lacking(usage, asker)
    return _candidates(_Search(usage, asker, lacking or asker.amounts, None), lacking, started, gone, known) is not None


def may_take(usage: TreeUsage, asker: Asker, *, higher: bool) -> bool:
    """Whether quota might let the asker take from anybody, told without looking at any gang.

    It has to lack nothing but its own. Besides it has to be higher than gangs that run, or others have to borrow while
    its leaf, or a queue above it, does not use all of its own.
    """
    leaf, lacking = asker.leaf, _lacking(usage, asker)
    if any(amount > usage.own_room(leaf, key) for key, amount in lacking.items()):
        return False
    if higher:
        return True
    wanted = lacking or asker.amounts
    counted = [(key, amount) for key, amount in asker.amounts.items() if amount and key in usage.tree.keys]
    owns = all(amount <= usage.own_left(leaf, key) for key, amount in counted)
    return (owns or _is_below_nominal(usage, leaf, wanted)) and usage.lends(leaf, wanted)


def _is_below_nominal(usage: TreeUsage, leaf: str, wanted: QuotaAmounts) -> bool:
    """Whether a leaf has something left of its own of all that is asked for."""
    nominal = usage.tree.by_name[leaf].nominal
    return all(usage.used(leaf, key) < nominal.get(key, 0) for key in wanted)


def _lacking(usage: TreeUsage, asker: Asker) -> QuotaAmounts:
    """What is short of what is asked for."""
    return {key: amount for key, amount in asker.amounts.items() if not usage.fits(asker.leaf, {key: amount})}


def _candidates(
    search: _Search,
    lacking: QuotaAmounts,
    started: Mapping[str, Sequence[Evictable]],
    gone: Collection[str],
    known: Known,
) -> Candidates | None:
    """Those that the asker may take from; None when there are none, or it would not fit if all were gone.

    What is short has to be the leaf's own or that of a queue above it.
    """
    usage, asker = search.usage, search.asker
    if any(amount > usage.own_room(asker.leaf, key) for key, amount in lacking.items()):
        return None
    wanted = asker.leaf, asker.priority, tuple(sorted(search.lacking))
    found = known.get(wanted)
    if found is None:
        found = known[wanted] = search.candidates(started, gone)
    enough = all(amount <= found.room.get(key, amount) for key, amount in asker.amounts.items())
    return found if found.gangs and enough else None


class _Search:
    """One search for victims on a usage that it leaves as it was."""

    def __init__(self, usage: TreeUsage, asker: Asker, lacking: QuotaAmounts, nodes_after: NodesAfter | None) -> None:
        """Take what is asked for and which part of it is short."""
        self.usage = usage
        self.asker = asker
        self.lacking = lacking
        self._nodes_after = nodes_after
        # The same by the leaf of a victim.
        self._owns: dict[str, bool] = {}
        self._chosen: list[Evictable] = []

    @functools.cached_property
    def _owned(self) -> dict[str, bool]:
        """The queues below which the asker takes back what is its own, found out before anybody goes."""
        return dict(self._sides())

    def _sides(self) -> Iterator[tuple[str, bool]]:
        """Each queue above the asker, and whether one below it on the way would hold the demand by its own amounts."""
        line = self.usage.tree.ancestry(self.asker.leaf)
        owned = False
        for below, name in itertools.pairwise(line):
            owned = owned or not self.usage.exceeds_with(below, self.asker.leaf, self.asker.amounts)
            yield name, owned

    def run(self, candidates: Sequence[Evictable]) -> tuple[Evictable, ...] | None:
        """Look for victims among those that may be taken from, with and without letting the asker borrow."""
        own = [item for item in candidates if item.leaf == self.asker.leaf]
        reclaimed = [item for item in candidates if item.leaf != self.asker.leaf and self._owns_from(item)]
        others = [item for item in candidates if item.leaf != self.asker.leaf and not self._owns_from(item)]
        attempts = [(True, [*reclaimed, *own])]
        if others and _is_below_nominal(self.usage, self.asker.leaf, self.lacking):
            # Without the right of an owner nobody is evicted for a start that borrows.
            attempts.insert(len(attempts) if reclaimed else 0, (False, [*reclaimed, *others, *own]))
        with self.usage.trying():
            tries = (self._attempt(borrowing, tried) for borrowing, tried in attempts)
            return next((victims for victims in tries if victims is not None), None)

    def candidates(self, started: Mapping[str, Sequence[Evictable]], gone: Collection[str]) -> Candidates:
        """Those that the asker may take from, and what its leaf could get if all of them were gone."""
        policy = self.usage.tree.by_name[self.asker.leaf].reclaim
        others = () if policy == "never" else self.usage.borrowers_from(self.asker.leaf, self.lacking)
        leaves = [leaf for leaf in others if leaf in started]
        leaves += [self.asker.leaf] if self.asker.leaf in started else []
        able = [item for leaf in leaves for item in started[leaf] if item.uid not in gone and self._is_candidate(item)]
        able.sort(key=lambda item: (item.priority, -item.started, item.work_lost, item.uid))
        return Candidates(tuple(able), self._room_without(able))

    def _room_without(self, gangs: Iterable[Evictable]) -> QuotaAmounts:
        """What the asker's leaf could get of each resource if these were gone."""
        freed: dict[str, dict[FlavorResource, int]] = {}
        for item in gangs:
            amounts = freed.setdefault(item.leaf, {})
            for key, amount in item.amounts.items():
                amounts[key] = amounts.get(key, 0) + amount
        then = self.usage.copy()
        for leaf, amounts in freed.items():
            then.release(leaf, amounts)
        return {key: then.headroom(self.asker.leaf, key) or 0 for key in then.tree.keys}

    def _is_candidate(self, victim: Evictable) -> bool:
        """Whether priorities allow to take from a gang that has something of what is short."""
        if not any(victim.amounts.get(key, 0) for key in self.lacking):
            return False
        own = victim.leaf == self.asker.leaf
        policy = self.usage.tree.by_name[self.asker.leaf].reclaim
        return victim.priority < self.asker.priority or not (own or policy == "lower_priority")

    def _shared(self, leaf: str) -> str:
        """The lowest queue above the asker's and another one."""
        above = self.usage.tree.ancestry(leaf)
        return next(name for name in self._owned if name in above)

    def _owns_from(self, victim: Evictable) -> bool:
        """Whether the asker takes back its own from a gang."""
        known = self._owns.get(victim.leaf)
        if known is None:
            known = self._owns[victim.leaf] = self._owned[self._shared(victim.leaf)]
        return known

    def _borrows(self, leaf: str) -> bool:
        """Whether a queue, and those above it that are not above the asker's, borrow what is short."""
        above = self.usage.tree.ancestry(leaf)
        below = above[: above.index(self._shared(leaf))]
        return all(self.usage.borrows_of(name, self.lacking) for name in below)

    def _attempt(self, borrowing: bool, candidates: Sequence[Evictable]) -> tuple[Evictable, ...] | None:
        """Take one after the other until the asker fits.

        Nodes cost much more to ask about than quota, and gangs that go only free more of them: they are asked after
        one, two, four and so on gangs more, and then for the first number that is enough.
        """
        failed, step = 0, 1
        try:
            for victim in candidates:
                # A queue is left alone once it is back within its own.
                if victim.leaf != self.asker.leaf and not self._borrows(victim.leaf):
                    continue
                self.usage.release(victim.leaf, victim.amounts)
                self._chosen.append(victim)
                if not self._fits_quota(borrowing):
                    failed = len(self._chosen)
                elif len(self._chosen) - failed >= step:
                    if self._fits_nodes(self._chosen):
                        return self._shortest(failed, borrowing)
                    failed, step = len(self._chosen), 2 * step
            enough = len(self._chosen) > failed and self._fits_nodes(self._chosen)
            return self._shortest(failed, borrowing) if enough else None
        finally:
            for victim in self._chosen:
                self.usage.charge(victim.leaf, victim.amounts)
            self._chosen = []

    def _fits_quota(self, borrowing: bool) -> bool:
        """Whether the asker has quota now, and without borrowing if it may not."""
        leaf, amounts = self.asker.leaf, self.asker.amounts
        return self.usage.fits(leaf, amounts) and (borrowing or not self.usage.borrows_with(leaf, amounts))

    def _fits_nodes(self, victims: Sequence[Evictable]) -> bool:
        """Whether the asker would find nodes without these."""
        return self._nodes_after is None or self._nodes_after(tuple(victims))

    def _shortest(self, failed: int, borrowing: bool) -> tuple[Evictable, ...]:
        """The first of the chosen that are enough, without those that are not needed; so many are known not to be."""
        enough = len(self._chosen)
        while failed + 1 < enough:
            tried = (failed + enough) // 2
            if self._fits_nodes(self._chosen[:tried]):
                enough = tried
            else:
                failed = tried
        for victim in self._chosen[enough:]:
            self.usage.charge(victim.leaf, victim.amounts)
        del self._chosen[enough:]
        self._put_back(list(reversed(self._chosen[:-1])), borrowing)
        return tuple(self._chosen)

    def _put_back(self, victims: Sequence[Evictable], borrowing: bool) -> None:
        """Leave out every victim without whom the asker fits too, in this order; without the last one it did not.

        Many at once where none of them is needed, since that is the same as one after the other.
        """
        if not victims:
            return
        before, left = self._chosen, {victim.uid for victim in victims}
        for victim in victims:
            self.usage.charge(victim.leaf, victim.amounts)
        self._chosen = [victim for victim in before if victim.uid not in left]
        if self._fits_quota(borrowing) and self._fits_nodes(self._chosen):
            return
        for victim in victims:
            self.usage.release(victim.leaf, victim.amounts)
        self._chosen = before
        if len(victims) > 1:
            half = len(victims) // 2
            self._put_back(victims[:half], borrowing)
            self._put_back(victims[half:], borrowing)
