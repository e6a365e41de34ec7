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
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts
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


# Says whether the asker would find nodes if these gangs were gone.
NodesAfter = Callable[[Sequence[Evictable]], bool]


def choose_victims(
    usage: TreeUsage, asker: Asker, started: Iterable[Evictable], nodes_after: NodesAfter | None = None
) -> tuple[Evictable, ...] | None:
    """The smallest set found whose end lets the asker start; None when no allowed set does, empty when it fits already.

    Victims are added one by one, lowest base priority first, then newest, then least work lost, until the asker fits
    quota and nodes; then each is put back, the last added first, that is not needed after all.
    """
    lacking = {key: amount for key, amount in asker.amounts.items() if not usage.fits(asker.leaf, {key: amount})}
    if not lacking and (nodes_after is None or nodes_after(())):
        return ()
    if not all(_may_evict(usage, asker.leaf, {key: amount}) for key, amount in lacking.items()):
        return None
    return _Search(usage, asker, lacking or asker.amounts, nodes_after).run(started)


def _may_evict(usage: TreeUsage, leaf: str, wanted: QuotaAmounts) -> bool:
    """Whether an amount is the leaf's own or that of a queue above it; what only the root holds is borrowed."""
    nominal = usage.tree.by_name[leaf].nominal
    if all(amount <= nominal.get(key, 0) for key, amount in wanted.items()):
        return True
    line = usage.tree.ancestry(leaf)
    return any(not usage.exceeds_with(name, leaf, wanted) for name in line[:-1])


class _Search:
    """One search for victims on a usage that it leaves as it was."""

    def __init__(self, usage: TreeUsage, asker: Asker, lacking: QuotaAmounts, nodes_after: NodesAfter | None) -> None:
        """Take what is asked for and which part of it is short."""
        self._usage = usage
        self._asker = asker
        self._lacking = lacking
        self._nodes_after = nodes_after
        # The queues below which the asker takes back what is its own, found out before anybody goes.
        self._owned = dict(self._sides())
        self._chosen: list[Evictable] = []

    def _sides(self) -> Iterator[tuple[str, bool]]:
        """Each queue above the asker, and whether one below it on the way would hold the demand by its own amounts."""
        line = self._usage.tree.ancestry(self._asker.leaf)
        owned = False
        for below, name in itertools.pairwise(line):
            owned = owned or not self._usage.exceeds_with(below, self._asker.leaf, self._asker.amounts)
            yield name, owned

    def run(self, started: Iterable[Evictable]) -> tuple[Evictable, ...] | None:
        """Look for victims, with and without letting the asker borrow."""
        order = sorted(started, key=lambda item: (item.priority, -item.started, item.work_lost, item.uid))
        candidates = [item for item in order if self._is_candidate(item)]
        own = [item for item in candidates if item.leaf == self._asker.leaf]
        reclaimed = [item for item in candidates if item.leaf != self._asker.leaf and self._owns_from(item)]
        others = [item for item in candidates if item.leaf != self._asker.leaf and not self._owns_from(item)]
        attempts = [(True, [*reclaimed, *own])]
        if others and self._is_below_nominal():
            # Without the right of an owner nobody is evicted for a start that borrows.
            attempts.insert(len(attempts) if reclaimed else 0, (False, [*reclaimed, *others, *own]))
        found = (self._attempt(borrowing, tried) for borrowing, tried in attempts)
        return next((victims for victims in found if victims is not None), None)

    def _is_below_nominal(self) -> bool:
        """Whether the asker's leaf has something left of its own of all that is short."""
        leaf = self._asker.leaf
        nominal = self._usage.tree.by_name[leaf].nominal
        return all(self._usage.used(leaf, key) < nominal.get(key, 0) for key in self._lacking)

    def _is_candidate(self, victim: Evictable) -> bool:
        """Whether priorities and the queue's word allow to take from a gang that has something of what is short."""
        if not any(victim.amounts.get(key, 0) for key in self._lacking):
            return False
        if victim.leaf == self._asker.leaf:
            return victim.priority < self._asker.priority
        policy = self._usage.tree.by_name[self._asker.leaf].reclaim
        if policy == "never" or (policy == "lower_priority" and victim.priority >= self._asker.priority):
            return False
        return self._borrows(victim)

    def _shared(self, victim: Evictable) -> str:
        """The lowest queue above both."""
        above = self._usage.tree.ancestry(victim.leaf)
        return next(name for name in self._owned if name in above)

    def _owns_from(self, victim: Evictable) -> bool:
        """Whether the asker takes back its own from a gang."""
        return self._owned[self._shared(victim)]

    def _borrows(self, victim: Evictable) -> bool:
        """Whether the victim's queues, up to the first one above both, use more than their own of what is short now."""
        above = self._usage.tree.ancestry(victim.leaf)
        below = above[: above.index(self._shared(victim))]
        return all(self._usage.borrows_of(name, self._lacking) for name in below)

    def _attempt(self, borrowing: bool, candidates: Sequence[Evictable]) -> tuple[Evictable, ...] | None:
        """Take one after the other until the asker fits."""
        try:
            for victim in candidates:
                # A queue is left alone once it is back within its own.
                if victim.leaf != self._asker.leaf and not self._borrows(victim):
                    continue
                self._usage.release(victim.leaf, victim.amounts)
                self._chosen.append(victim)
                if self._fits(borrowing):
                    self._put_back(borrowing)
                    return tuple(self._chosen)
            return None
        finally:
            for victim in self._chosen:
                self._usage.charge(victim.leaf, victim.amounts)
            self._chosen = []

    def _fits(self, borrowing: bool) -> bool:
        """Whether the asker could start now, and without borrowing if it may not."""
        leaf, amounts = self._asker.leaf, self._asker.amounts
        if not self._usage.fits(leaf, amounts) or (not borrowing and self._usage.borrows_with(leaf, amounts)):
            return False
        return self._nodes_after is None or self._nodes_after(tuple(self._chosen))

    def _put_back(self, borrowing: bool) -> None:
        """Leave out every victim without whom the asker fits too; without the last one it did not."""
        for victim in list(reversed(self._chosen[:-1])):
            self._usage.charge(victim.leaf, victim.amounts)
            place = self._chosen.index(victim)
            del self._chosen[place]
            if not self._fits(borrowing):
                self._usage.release(victim.leaf, victim.amounts)
                self._chosen.insert(place, victim)
