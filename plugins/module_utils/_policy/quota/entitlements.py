# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tree alone says, whatever is used of it: computed once for a tree and shared by all who count on it.

The arithmetic is Kueue's, extended by capacity: the most that the queues below an inner one may have together.
"""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaQueue,
    QuotaTree,
)


@dataclasses.dataclass(slots=True)
class QuotaColumn:
    """One flavor and resource at every queue, by the queue's place in the tree.

    subtree is what the queue can give to itself and, as far as it lends, to others; local the part of it that is never
    lent. entitled also counts what queues below keep for themselves. borrowing is the limit, None without one; ceiling
    the most that may be used below a root or hard queue; potential the most that one demand could ever get.
    """

    subtree: list[int]
    local: list[int]
    entitled: list[int]
    borrowing: list[int | None]
    ceiling: list[int | None]
    potential: list[int]


class Entitlements:
    """A tree with its amounts worked out; queues are known by their place, parents before their children."""

    def __init__(self, tree: QuotaTree) -> None:
        """Work out all amounts of a tree."""
        self.tree = tree
        self.place = {queue.name: place for place, queue in enumerate(tree.queues)}
        self.parent = [None if queue.parent is None else self.place[queue.parent] for queue in tree.queues]
        self.lines: dict[str, tuple[int, ...]] = {}
        for place, queue in enumerate(tree.queues):
            above = () if queue.parent is None else self.lines[queue.parent]
            self.lines[queue.name] = (place, *above)
        self.paths = [tree.path(queue.name) for queue in tree.queues]
        # How many levels there are below each queue.
        self.heights = [0] * len(tree.queues)
        for place, parent in reversed(list(enumerate(self.parent))):
            if parent is not None:
                self.heights[parent] = max(self.heights[parent], self.heights[place] + 1)
        self.columns = {key: self._column(key) for key in tree.keys}
        self.lendable = [
            {
                resource: sum(
                    self.columns[FlavorResource(flavor, resource)].potential[place] for flavor in tree.flavor_names
                )
                for resource in tree.resources
            }
            for place in range(len(tree.queues))
        ]

    def _column(self, key: FlavorResource) -> QuotaColumn:
        """One flavor and resource: sums from the leaves up, then what can be had from the root down."""
        queues, size = self.tree.queues, len(self.tree.queues)
        column = QuotaColumn(
            subtree=[queue.nominal.get(key, 0) + queue.extra.get(key, 0) for queue in queues],
            local=[0] * size,
            entitled=[queue.nominal.get(key, 0) + queue.extra.get(key, 0) for queue in queues],
            borrowing=[queue.most_borrowed(key) for queue in queues],
            ceiling=[_ceiling(queue, key) for queue in queues],
            potential=[0] * size,
        )
        for place in range(size - 1, -1, -1):
            self._settle(column, place, key)
        for place in range(size):
            column.potential[place] = self._potential(column, place)
        return column

    def _settle(self, column: QuotaColumn, place: int, key: FlavorResource) -> None:
        """End the sums of a queue whose children were all added to it, and add it to its parent."""
        queue, parent = self.tree.queues[place], self.parent[place]
        capacity, lending = queue.capacity.get(key), queue.lending_limit.get(key)
        if capacity is not None:
            column.subtree[place] = min(capacity, column.subtree[place])
            column.entitled[place] = min(capacity, column.entitled[place])
        if lending is not None:
            column.local[place] = max(0, column.subtree[place] - lending)
        if parent is not None:
            column.subtree[parent] += column.subtree[place] - column.local[place]
            column.entitled[parent] += column.entitled[place]

    def _potential(self, column: QuotaColumn, place: int) -> int:
        """What a queue could have if nothing were used."""
        parent, most, ceiling = self.parent[place], column.borrowing[place], column.ceiling[place]
        if parent is None:
            found = column.subtree[place]
        else:
            found = column.local[place] + column.potential[parent]
            if most is not None:
                found = min(found, column.subtree[place] + most)
            # What a ceiling above allows is not widened by what a queue keeps for itself.
            above = [column.ceiling[up] for up in self.lines[self.tree.queues[parent].name]]
            found = min([found, *(limit for limit in above if limit is not None)])
        return found if ceiling is None else min(found, ceiling)


def _ceiling(queue: QuotaQueue, key: FlavorResource) -> int | None:
    """The most that may be used below a queue in all: the capacity of a root, or of one that may not borrow."""
    return queue.capacity.get(key) if queue.parent is None or queue.hard else None
