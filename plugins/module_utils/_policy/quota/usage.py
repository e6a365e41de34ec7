# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is used of a quota tree: charged and released in as many steps as a queue is deep, and what still fits.

Nothing here knows gangs: amounts are charged to leaves. What was tried is undone by releasing the same amounts again,
which leaves exactly what was there before.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterator
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import (
    NO_SHARE,
    QueueLevel,
    QuotaAnswer,
    QuotaWord,
    WeightedShare,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements, QuotaColumn


class TreeUsage:
    """A tree and what is used of it now.

    Resources that the tree does not count are passed over everywhere. visited counts the queues that were looked at,
    once for each resource: it shows that nothing walks further than from a leaf to the root and back.
    """

    def __init__(self, tree: QuotaTree, entitlements: Entitlements | None = None) -> None:
        """Begin with nothing used; entitlements of the same tree may be shared."""
        self.tree = tree
        self.visited = 0
        # How often something was charged or released.
        self.changes = 0
        self._fixed = entitlements or Entitlements(tree)
        size = len(tree.queues)
        # Usage as Kueue counts it (beyond what queues below keep for themselves), and all that is used below a queue.
        self._usage = {key: [0] * size for key in self._fixed.columns}
        self._total = {key: [0] * size for key in self._fixed.columns}
        # What was worked out since the last change: what leaves can still get and take back, and which leaves borrow.
        self._known_rooms: dict[tuple[str, FlavorResource], int] = {}
        self._known_own: dict[tuple[str, FlavorResource], int] = {}
        self._known_borrowing: dict[tuple[str, tuple[FlavorResource, ...]], tuple[str, ...]] = {}
        self._known_borrowers: dict[tuple[str, tuple[FlavorResource, ...]], tuple[str, ...]] = {}

    @property
    def entitlements(self) -> Entitlements:
        """What the tree says whatever is used, to be shared with another count on the same tree."""
        return self._fixed

    def copy(self) -> TreeUsage:
        """The same usage, to go on with independently."""
        other = TreeUsage(self.tree, self._fixed)
        other._usage = {key: list(values) for key, values in self._usage.items()}
        other._total = {key: list(values) for key, values in self._total.items()}
        return other

    def charge(self, leaf: str, amounts: QuotaAmounts) -> None:
        """Count amounts as used by a leaf."""
        self._forget()
        line = self._fixed.lines[leaf]
        for key, amount in self._counted(amounts):
            column, usage, total = self._fixed.columns[key], self._usage[key], self._total[key]
            rising = amount
            for place in line:
                self.visited += 1
                total[place] += amount
                kept = max(0, column.local[place] - usage[place])
                usage[place] += rising
                rising = max(0, rising - kept)

    def release(self, leaf: str, amounts: QuotaAmounts) -> None:
        """Count amounts as used no more; they must have been charged to this leaf before."""
        self._forget()
        line = self._fixed.lines[leaf]
        for key, amount in self._counted(amounts):
            column, usage, total = self._fixed.columns[key], self._usage[key], self._total[key]
            if amount > total[line[0]]:
                raise ValueError(f"{leaf} uses {total[line[0]]} of {key}, {amount} cannot be released")
            rising = amount
            for place in line:
                self.visited += 1
                total[place] -= amount
                stored = max(0, usage[place] - column.local[place])
                usage[place] -= rising
                rising = min(rising, stored)

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """For a while, amounts are charged and released that the caller takes back: what is known stays known."""
        known = self._known_rooms, self._known_own, self._known_borrowing, self._known_borrowers
        self._known_rooms, self._known_own, self._known_borrowing, self._known_borrowers = {}, {}, {}, {}
        try:
            yield
        finally:
            self._known_rooms, self._known_own, self._known_borrowing, self._known_borrowers = known

    def _forget(self) -> None:
        """What is used is about to change."""
        self.changes += 1
        if self._known_rooms or self._known_own or self._known_borrowing:
            self._known_rooms, self._known_own, self._known_borrowing, self._known_borrowers = {}, {}, {}, {}

    def used(self, queue: str, key: FlavorResource) -> int:
        """What is used of one resource by a queue and all below it."""
        return self._total[key][self._fixed.place[queue]] if key in self._total else 0

    def borrowed(self, queue: str, key: FlavorResource) -> int:
        """What a queue and all below it use of one resource beyond their own."""
        return max(0, self._borrowed(self._fixed.place[queue], key, 0)) if key in self._usage else 0

    def headroom(self, queue: str, key: FlavorResource) -> int | None:
        """What a queue can still start of one resource; None when the tree does not count it."""
        if key not in self._usage:
            return None
        return max(0, self._rooms(self._fixed.lines[queue], key)[0])

    def fits(self, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether a demand could start now, borrowing or not."""
        return all(amount <= self._room(leaf, key) for key, amount in self._counted(amounts))

    def _room(self, leaf: str, key: FlavorResource) -> int:
        """What a leaf can still start of one resource that the tree counts, worked out once until something changes."""
        place = leaf, key
        room = self._known_rooms.get(place)
        if room is None:
            room = self._known_rooms[place] = max(0, self._rooms(self._fixed.lines[leaf], key)[0])
        return room

    def borrows_with(self, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether a leaf would use more than its nominal amount of any resource that is asked for."""
        place, columns = self._fixed.place[leaf], self._fixed.columns
        counted = self._counted(amounts)
        return any(self._usage[key][place] + amount > columns[key].subtree[place] for key, amount in counted)

    def borrowing(self, queue: str, amounts: QuotaAmounts) -> tuple[str, ...]:
        """The leaves below a queue, or itself, that borrow what is asked for, as all queues between them and it do."""
        wanted = queue, tuple(key for key, _amount in self._counted(amounts))
        known = self._known_borrowing.get(wanted)
        if known is None:
            below = self.tree.children[queue]
            if not self.borrows_of(queue, amounts):
                known = ()
            else:
                known = tuple(leaf for child in below for leaf in self.borrowing(child, amounts)) if below else (queue,)
            self._known_borrowing[wanted] = known
        return known

    def borrowers_from(self, leaf: str, amounts: QuotaAmounts) -> tuple[str, ...]:
        """The other leaves that borrow what is asked for, up to the lowest queue that they share with this leaf."""
        wanted = leaf, tuple(key for key, _amount in self._counted(amounts))
        known = self._known_borrowers.get(wanted)
        if known is None:
            found: list[str] = []
            for below, name in itertools.pairwise(self.tree.ancestry(leaf)):
                for child in self.tree.children[name]:
                    found += self.borrowing(child, amounts) if child != below else ()
            known = self._known_borrowers[wanted] = tuple(found)
        return known

    def lends(self, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether any other leaf borrows what is asked for, see borrowers_from."""
        line = itertools.pairwise(self.tree.ancestry(leaf))
        others = (child for below, name in line for child in self.tree.children[name] if child != below)
        return any(self.borrowing(child, amounts) for child in others)

    def own_room(self, leaf: str, key: FlavorResource) -> int:
        """The most of a counted resource that a leaf could start as its own, or that of a queue above it.

        What only the root holds is borrowed. What is the leaf's own by its nominal amount stays so if it is used.
        """
        return max(self.tree.by_name[leaf].nominal.get(key, 0), self.own_left(leaf, key))

    def own_left(self, leaf: str, key: FlavorResource) -> int:
        """The same of what is not used; less than nothing where the leaf and all above it borrow."""
        place = leaf, key
        known = self._known_own.get(place)
        if known is None:
            known = self._known_own[place] = self._own_left(leaf, key)
        return known

    def _own_left(self, leaf: str, key: FlavorResource) -> int:
        """The same, worked out on the way from the leaf up."""
        column, usage = self._fixed.columns[key], self._usage[key]
        most, kept = -1, 0
        for place in self._fixed.lines[leaf][:-1]:
            self.visited += 1
            left = column.subtree[place] - usage[place]
            if left >= 0:
                most = max(most, left + kept)
            kept += max(0, column.local[place] - usage[place])
        return most

    def never_fits(self, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether a demand is more than the leaf could get if nothing were used."""
        place = self._fixed.place[leaf]
        return any(amount > self._fixed.columns[key].potential[place] for key, amount in self._counted(amounts))

    def answer(self, leaf: str, amounts: QuotaAmounts) -> QuotaAnswer:
        """The whole answer for a demand, with the numbers of every queue from its leaf to the root."""
        levels: list[QueueLevel] = []
        short: dict[FlavorResource, int] = {}
        for key, amount in self._counted(amounts):
            found = list(self._levels(leaf, key, amount))
            levels += found
            worst = max(level.short for level in found)
            if worst:
                short[key] = worst
        word = self._word(leaf, amounts, not short)
        return QuotaAnswer(word, self.borrows_with(leaf, amounts), short, tuple(levels))

    def bare_answer(self, leaf: str, amounts: QuotaAmounts) -> QuotaAnswer:
        """The answer for a demand without any numbers."""
        return QuotaAnswer(*self.word(leaf, amounts), {}, ())

    def word(self, leaf: str, amounts: QuotaAmounts) -> tuple[QuotaWord, bool]:
        """The answer for a demand in a word, and whether it would borrow."""
        place, columns, fits, borrows = self._fixed.place[leaf], self._fixed.columns, True, False
        for key, amount in self._counted(amounts):
            fits = fits and amount <= self._room(leaf, key)
            borrows = borrows or self._usage[key][place] + amount > columns[key].subtree[place]
        return self._word(leaf, amounts, fits), borrows

    def _word(self, leaf: str, amounts: QuotaAmounts, fits: bool) -> QuotaWord:
        """The answer in a word for a demand that fits now or not."""
        if fits:
            return "fits"
        return "never" if self.never_fits(leaf, amounts) else "waits"

    def standing(self, queue: str) -> tuple[QueueLevel, ...]:
        """The numbers of one queue, resource by resource, without any demand."""
        return tuple(self.level(queue, key) for key in self._usage)

    def level(self, queue: str, key: FlavorResource) -> QueueLevel:
        """The numbers of one queue and resource, without any demand."""
        return next(self._levels(queue, key, 0))

    def share(self, queue: str, added: QuotaAmounts | None = None) -> WeightedShare:
        """How much a queue borrows by its weight, with amounts added that reach it; a root borrows from nobody."""
        place = self._fixed.place[queue]
        parent = self._fixed.parent[place]
        if parent is None:
            return NO_SHARE
        more = added or {}
        borrowed: dict[str, int] = {}
        for key in self._usage:
            self.visited += 1
            over = self._borrowed(place, key, more.get(key, 0))
            if over > 0:
                borrowed[key.resource] = borrowed.get(key.resource, 0) + over
        lendable, weight = self._fixed.lendable[parent], self.tree.queues[place].weight
        whole, part = weight.numerator or 1, weight.denominator
        ratios = [
            (_thousandths(over * part, lendable[resource] * whole), resource)
            for resource, over in borrowed.items()
            if lendable[resource] > 0
        ]
        if not ratios:
            return NO_SHARE
        ratio = max(value for value, _resource in ratios) if len(ratios) > 1 else ratios[0][0]
        dominant = min(resource for value, resource in ratios if value == ratio)
        return WeightedShare(not weight, ratio, dominant)

    def share_with(self, queue: str, leaf: str, amounts: QuotaAmounts) -> WeightedShare:
        """The share of a queue with a demand of a leaf below it (or of itself) added."""
        return self.share(queue, self._reaching(queue, leaf, amounts))

    def reach(self, leaf: str, amounts: QuotaAmounts) -> int:
        """How far from a leaf a demand would be borrowed: 0 within its own, else the height of the lender.

        That is the lowest queue above whose own amounts would hold the demand, or the root if none would.
        """
        line = self._fixed.lines[leaf]
        return max((self._lender_height(line, *wanted) for wanted in self._counted(amounts)), default=0)

    def _lender_height(self, line: tuple[int, ...], key: FlavorResource, amount: int) -> int:
        """The height of the lowest queue of a line that holds an amount on top of what is used."""
        column, usage = self._fixed.columns[key], self._usage[key]
        rising = amount
        for place in line:
            self.visited += 1
            if usage[place] + rising <= column.subtree[place]:
                return self._fixed.heights[place]
            rising = max(0, rising - max(0, column.local[place] - usage[place]))
        return self._fixed.heights[line[-1]]

    def exceeds_with(self, queue: str, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether a queue would use more than its own of what a leaf below it (or itself) asks for."""
        place = self._fixed.place[queue]
        reaching = self._reaching(queue, leaf, amounts)
        return any(self._borrowed(place, key, amount) > 0 for key, amount in reaching.items())

    def borrows_of(self, queue: str, amounts: QuotaAmounts) -> bool:
        """Whether a queue uses more than its own now of any resource that is asked for."""
        place = self._fixed.place[queue]
        return any(self._borrowed(place, key, 0) > 0 for key, _amount in self._counted(amounts))

    def _reaching(self, queue: str, leaf: str, amounts: QuotaAmounts) -> dict[FlavorResource, int]:
        """What of a leaf's demand reaches a queue above it; the rest is what queues below keep for themselves."""
        place = self._fixed.place[queue]
        reaching = dict(self._counted(amounts))
        for below in self._fixed.lines[leaf]:
            if below == place:
                break
            for key, amount in reaching.items():
                self.visited += 1
                kept = max(0, self._fixed.columns[key].local[below] - self._usage[key][below])
                reaching[key] = max(0, amount - kept)
        return reaching

    def _counted(self, amounts: QuotaAmounts) -> list[tuple[FlavorResource, int]]:
        """The amounts of resources that the tree counts."""
        return [item for item in amounts.items() if item[1] and item[0] in self._usage]

    def _borrowed(self, place: int, key: FlavorResource, added: int) -> int:
        """What a queue would use beyond its own; negative when something of its own is left."""
        return self._usage[key][place] + added - self._fixed.columns[key].subtree[place]

    def _rooms(self, line: tuple[int, ...], key: FlavorResource) -> list[int]:
        """What each queue of a line can still get, the leaf first; less than nothing after a cut."""
        column, usage, total = self._fixed.columns[key], self._usage[key], self._total[key]
        rooms = [0] * len(line)
        ceiling: int | None = None
        room = 0
        for step in range(len(line) - 1, -1, -1):
            self.visited += 1
            place = line[step]
            if step == len(line) - 1:
                room = column.subtree[place] - usage[place]
            else:
                limit = _own_limit(column, usage, place)
                room = max(0, column.local[place] - usage[place]) + (room if limit is None else min(limit, room))
            top = column.ceiling[place]
            if top is not None:
                ceiling = top - total[place] if ceiling is None else min(ceiling, top - total[place])
            rooms[step] = room if ceiling is None else min(room, ceiling)
        return rooms

    def _levels(self, leaf: str, key: FlavorResource, amount: int) -> Iterator[QueueLevel]:
        """One resource at each queue from a leaf to the root, and what each one's own limit lacks."""
        line = self._fixed.lines[leaf]
        column, usage, total = self._fixed.columns[key], self._usage[key], self._total[key]
        rising = amount
        for place, room in zip(line, self._rooms(line, key), strict=True):
            self.visited += 1
            queue = self.tree.queues[place]
            limit = column.subtree[place] - usage[place] if queue.parent is None else _own_limit(column, usage, place)
            if queue.parent is not None:
                # Below zero, too: a parent in debt takes of what a queue keeps for itself.
                rising -= max(0, column.local[place] - usage[place])
            lacks = 0 if limit is None else rising - limit
            ceiling = column.ceiling[place]
            if ceiling is not None:
                lacks = max(lacks, total[place] + amount - ceiling)
            idle = max(0, column.subtree[place] - usage[place])
            yield QueueLevel(
                queue=queue.name,
                path=self._fixed.paths[place],
                key=key,
                nominal=column.entitled[place],
                used=total[place],
                borrowed=max(0, usage[place] - column.subtree[place]),
                lent=max(0, idle - max(0, room)),
                headroom=max(0, room),
                short=max(0, min(lacks, amount)),
            )


def _own_limit(column: QuotaColumn, usage: list[int], place: int) -> int | None:
    """What a queue's own limit still lets it take from its parent; None without a limit."""
    most = column.borrowing[place]
    if most is None:
        return None
    stored = column.subtree[place] - column.local[place]
    return stored - max(0, usage[place] - column.local[place]) + most


@functools.lru_cache(maxsize=10_000)
def _thousandths(amount: int, whole: int) -> Fraction:
    """A part of a whole; the same object for the same numbers, since these are often compared with each other."""
    return Fraction(amount * 1000, whole)
