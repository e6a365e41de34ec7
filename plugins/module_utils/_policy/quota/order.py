# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Order between queues: whose first gang is asked next.

Every queue offers one gang, its head. Heads that fit within nominal go before those that would borrow; then, from the
root down, the queue with the least weighted share with its head added, of what it borrows or as the caller has it; then
the order within a queue. A start changes shares on the way from its leaf to the root only, so each step looks at those
queues and no others.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import typing as t
from collections.abc import Callable, Iterable
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage


@dataclasses.dataclass(frozen=True, slots=True)
class QueueHead:
    """The gang that a leaf offers: its demand, and its place in an order over all gangs (smaller is earlier)."""

    leaf: str
    uid: str
    amounts: QuotaAmounts
    rank: tuple[t.Any, ...]


class _Winner(t.NamedTuple):
    """The head that a queue sends into the comparison with its siblings, and what it is compared by."""

    key: tuple[t.Any, ...]
    version: int
    child: str
    head: QueueHead


class FairOrder:
    """The heads of all queues. After a gang was asked its queue offers the next one; after a start shares are new."""

    def __init__(
        self,
        usage: TreeUsage,
        heads: Iterable[QueueHead] = (),
        share: Callable[[str, QueueHead], tuple[bool, Fraction | float]] | None = None,
    ) -> None:
        """Take what is used, which the caller goes on charging, and the first gang of each queue.

        share tells what queues are compared by if it is not what they borrow, of a queue with a head below it: whether
        it comes after everybody else, and its share.
        """
        self._usage = usage
        self._share = share or self._borrowed_share
        self._heads: dict[str, QueueHead] = {}
        # Of each queue, for heads within nominal and for borrowers: the winners of the queues below, best first.
        self._heaps: dict[tuple[str, bool], list[_Winner]] = {}
        self._versions: dict[tuple[str, bool], int] = {}
        # Queues that have somebody in the comparison, and how often something had been charged at the last count.
        self._entered: set[tuple[str, bool]] = set()
        self._counted = usage.changes
        # How often the winner of a queue was put among its siblings'.
        self.entries = 0
        self._fill(heads)

    def _fill(self, heads: Iterable[QueueHead]) -> None:
        """Take the first gang of each queue; every queue enters once, after all below it."""
        tree = self._usage.tree
        levels: list[dict[str, str]] = []
        for head in heads:
            self._heads[head.leaf] = head
            line = tree.ancestry(head.leaf)
            levels += [{} for _level in range(len(line) - 1 - len(levels))]
            for level, (name, parent) in zip(range(len(line) - 2, -1, -1), itertools.pairwise(line), strict=True):
                levels[level][name] = parent
        for names in reversed(levels):
            for name, parent in names.items():
                for borrows in (False, True):
                    self._enter(parent, name, borrows)

    def next(self) -> QueueHead | None:
        """The head that is asked next; None when no queue has any left."""
        root = self._usage.tree.root.name
        for borrows in (False, True):
            head = self._best(root, borrows)
            if head is not None:
                return head
        return None

    def offer(self, leaf: str, head: QueueHead | None) -> None:
        """A queue's next head, after the last one was asked; None when it has no more, or is stopped."""
        if head is None:
            self._heads.pop(leaf, None)
        else:
            self._heads[leaf] = head
        self.recount(leaf)

    def recount(self, leaf: str) -> None:
        """Count anew what changed with a start or a release in a leaf: the shares from it to the root."""
        tree, same = self._usage.tree, self._counted == self._usage.changes
        line = tree.ancestry(leaf)
        for borrows in (False, True):
            for name, parent in itertools.pairwise(line):
                # Where nothing was charged, and nobody came or went, nothing above is another.
                if not self._enter(parent, name, borrows) and same:
                    break
        self._counted = self._usage.changes

    def _enter(self, parent: str, child: str, borrows: bool) -> bool:
        """Put a queue's winner among those of its siblings; what it had there before is void. Whether any was or is."""
        place = (child, borrows)
        head, before = self._best(child, borrows), place in self._entered
        if head is None and not before:
            return False
        self.entries += 1
        self._versions[place] = version = self._versions.get(place, 0) + 1
        if head is None:
            self._entered.discard(place)
            return True
        self._entered.add(place)
        heap = self._heaps.setdefault((parent, borrows), [])
        # Most shares differ as floats already, which are compared much faster than fractions.
        boundless, value = self._share(child, head)
        key = (boundless, float(value), value, head.rank, head.uid)
        heapq.heappush(heap, _Winner(key, version, child, head))
        return True

    def _borrowed_share(self, queue: str, head: QueueHead) -> tuple[bool, Fraction]:
        """What a queue borrows by its weight, with a head added."""
        return self._usage.share_with(queue, head.leaf, head.amounts).order

    def _best(self, queue: str, borrows: bool) -> QueueHead | None:
        """The winner of a queue: a leaf's own head, or the best of those below."""
        if not self._usage.tree.children[queue]:
            head = self._heads.get(queue)
            if head is None or self._usage.borrows_with(queue, head.amounts) != borrows:
                return None
            return head
        heap = self._heaps.get((queue, borrows), [])
        while heap and heap[0].version != self._versions[heap[0].child, borrows]:
            heapq.heappop(heap)
        return heap[0].head if heap else None
