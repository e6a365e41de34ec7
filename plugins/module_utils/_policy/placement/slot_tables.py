# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Slot tables: how many pods of a shape each node of a room takes, and their sums, kept while the room changes.

Invariant: a table that has caught up tells of every node what PlacementState would tell of it now; a change of one node
costs each table one look at that node. Only shapes are kept for which nothing but requests and unchanging properties of
nodes decides: no rules about other pods, host ports or volumes, neither their own nor those of pods that are there.
Other gangs, and questions that sums cannot answer, are left to the plain way.
"""

from __future__ import annotations

import bisect
import dataclasses
import heapq
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import PodsetFit, Total
from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Constraints
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import RuntimeClass
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.filters import Filtered, filter_nodes
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import (
    Assessment,
    Case,
    Never,
    Placed,
    highest_priority,
    open_case,
    possible_victims,
    read_wishes,
    short_on,
    wanted_in_all,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import NodeIndex, Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.steer import SAMPLE

Pairs = tuple[tuple[PodSet, Constraints], ...]
# What gangs that are alike to the nodes have in common: shape and number of pods, podset by podset.
NodeClass = tuple[tuple[str, int], ...]
# A heap with more outdated entries than there are nodes, times this, is made anew.
_MOST_OUTDATED = 4
# Kinds of gangs of which is remembered whether they would fit on empty nodes.
_MOST_REMEMBERED = 5000


class _Pool:
    """A set of nodes: of each resource what is free on all of them, and the most on one."""

    def __init__(self, nodes: tuple[NodeIndex, ...], rows: t.Sequence[Resources]) -> None:
        """Count what is free now, of each resource when it is asked for; rows are those of all nodes by now."""
        self.nodes = nodes
        self.members = frozenset(nodes)
        self._all_rows = rows
        self._rows: dict[NodeIndex, Resources] = {node: rows[node] for node in nodes}
        self._sums: Resources = {}
        self._most: dict[str, list[tuple[int, NodeIndex]]] = {}

    def update(self, node: NodeIndex) -> None:
        """Count a node anew."""
        before, row = self._rows.get(node), self._all_rows[node]
        if before is None:
            return
        self._rows[node] = row
        for name, total in self._sums.items():
            have = row.get(name, 0)
            self._sums[name] = total - max(0, before.get(name, 0)) + max(0, have)
            if have > 0:
                heapq.heappush(self._most[name], (-have, node))

    def free(self, name: str) -> int:
        """What is free on all nodes together; one that is overdrawn does not lessen it."""
        if name not in self._sums:
            amounts = [(row.get(name, 0), node) for node, row in self._rows.items()]
            self._sums[name] = sum(have for have, _node in amounts if have > 0)
            self._most[name] = [(-have, node) for have, node in amounts if have > 0]
            heapq.heapify(self._most[name])
        return self._sums[name]

    def most(self, name: str) -> int:
        """The most that is free on one node, 0 if nothing is."""
        self.free(name)
        heap = self._most[name]
        if len(heap) > _MOST_OUTDATED * (len(self.nodes) + 1):
            heap[:] = {(-row.get(name, 0), node) for node, row in self._rows.items() if row.get(name, 0) > 0}
            heapq.heapify(heap)
        while heap and self._rows[heap[0][1]].get(name, 0) != -heap[0][0]:
            heapq.heappop(heap)
        return -heap[0][0] if heap else 0


class SlotTable:
    """Pods of one shape against the nodes of a room; rows are the free amounts of all nodes as they are by now."""

    def __init__(
        self, room: Room, podset: PodSet, filtered: Filtered, pool: _Pool, rows: t.Sequence[Resources]
    ) -> None:
        """Count what the nodes that the filters left, those of the pool, take now."""
        self.filtered = filtered
        self.pool = pool
        self._nodes = room.nodes
        self._names = sorted(podset.requests)
        self._scores: dict[NodeIndex, tuple[Resources, float]] = {}
        self._rows = rows
        # In the order in which placement states add up what is lacking.
        self._needs = sorted((name, amount) for name, amount in podset.requests.items() if amount)
        self._slots = {node: self._room_for(rows[node]) for node in self.filtered.allowed}
        self.found = sum(self._slots.values())
        # Nodes that take a pod, in their order.
        self.open = [node for node, here in self._slots.items() if here]
        self._full: list[tuple[float, NodeIndex]] | None = None

    def _room_for(self, row: Resources) -> int:
        """How many pods the free amounts of a node take."""
        least = -1
        for name, amount in self._needs:
            here = row.get(name, 0) // amount
            if here <= 0:
                return 0
            if least < 0 or here < least:
                least = here
        return least

    def update(self, node: NodeIndex) -> None:
        """Count a node anew."""
        before = self._slots.get(node)
        if before is None:
            return
        row = self._rows[node]
        here = self._slots[node] = self._room_for(row)
        self.found += here - before
        if bool(here) != bool(before):
            place = bisect.bisect_left(self.open, node)
            if here:
                self.open.insert(place, node)
            else:
                del self.open[place]
        if not here and self._full is not None:
            heapq.heappush(self._full, (self._lack(row), node))

    def _lack(self, row: Resources) -> float:
        """How far a node is from taking one more pod, over all resources as shares of what one pod takes."""
        lack = 0.0
        for name, amount in self._needs:
            have = row.get(name, 0)
            if have < amount:
                lack += (amount - max(0, have)) / amount
        return lack

    def nearest(self) -> NodeIndex | None:
        """The full node that lacks least; None when no node is full."""
        heap = self._full
        if heap is None or len(heap) > _MOST_OUTDATED * (len(self._slots) + 1):
            heap = [(self._lack(self._rows[node]), node) for node, here in self._slots.items() if not here]
            heapq.heapify(heap)
            self._full = heap
        while heap and self._lack(self._rows[heap[0][1]]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][1] if heap else None

    def spread(self, pods: int) -> dict[NodeIndex, int] | None:
        """So many pods one after the other on the emptiest node; None if not all find room.

        The same nodes as place_greedily finds: it looks at all with room if they are few, else at enough for twice as
        many pods.
        """
        slots, heap = 0, []
        for turn, node in enumerate(self.open, 1):
            heap.append((self._score(node), node))
            slots += self._slots[node]
            if turn >= SAMPLE and slots >= 2 * pods:
                break
        heapq.heapify(heap)
        placed: dict[NodeIndex, int] = {}
        rows: dict[NodeIndex, Resources] = {}
        for _pod in range(pods):
            if not heap:
                return None
            _score, node = heapq.heappop(heap)
            placed[node] = placed.get(node, 0) + 1
            row = rows[node] = dict(rows.get(node) or self._rows[node])
            for name, amount in self._needs:
                row[name] = row.get(name, 0) - amount
            if self._room_for(row):
                heapq.heappush(heap, (self._score_of(row, node), node))
        return placed

    def _score(self, node: NodeIndex) -> float:
        """How much is used of a node as it is by now; the least used is the first to get a pod."""
        row, known = self._rows[node], self._scores.get(node)
        if known is None or known[0] is not row:
            known = self._scores[node] = row, self._score_of(row, node)
        return known[1]

    def _score_of(self, row: Resources, node: NodeIndex) -> float:
        """The same of free amounts, as kube-scheduler's default scoring has it."""
        whole = self._nodes[node].allocatable
        return -sum([row.get(name, 0) / whole[name] for name in self._names if whole.get(name)])


class Board:
    """The tables of one room after the other, each room the one before with some nodes changed."""

    def __init__(self) -> None:
        """No table before the first gang asks."""
        self._room: Room | None = None
        self._rows: list[Resources] = []
        self._runtime_classes: t.Mapping[str, RuntimeClass] = {}
        # How much of what the room tells of its changes was read.
        self._read = 0
        # Changed nodes, one after the other, and how much of it tables and pools have read.
        self._log: list[NodeIndex] = []
        self._positions: dict[SlotTable | _Pool, int] = {}
        self._tables: dict[str, SlotTable] = {}
        self._pools: dict[tuple[NodeIndex, ...], _Pool] = {}
        self._asked: set[SlotTable | _Pool] = set()
        self._never: dict[NodeClass, tuple[Room, Never | None]] = {}
        self._victims: dict[tuple[int, _Pool], tuple[str, ...]] = {}
        self._changes = 0

    def follow(self, room: Room) -> None:
        """Go on with a room; its nodes that are as they were in the last one are not looked at again."""
        classes = room.snapshot.runtime_classes
        if self._room is None or self._room.nodes is not room.nodes or self._runtime_classes != classes:
            self._tables, self._pools, self._positions, self._never, self._log = {}, {}, {}, {}, []
            self._rows = list(room.free)
            self._changes += 1
        else:
            self._forget_unasked()
            changed = [node for node, row in enumerate(room.free) if row is not self._rows[node]]
            if changed:
                self._note(changed, room)
        self._room, self._read, self._runtime_classes = room, len(room.touched), classes
        self._victims = {}

    def assess(self, gang: Gang, room: Room) -> Assessment:
        """How a gang stands against the room: by tables where they can tell, else in the plain way."""
        pairs = read_wishes(gang, room)
        if room is not self._room or not pairs or not all(is_plain(room, *pair) for pair in pairs):
            return open_case(gang, room)
        return TableCase(self, gang, room, pairs, tuple(self.table(*pair) for pair in pairs))

    def node_class(self, gang: Gang, room: Room) -> NodeClass | None:
        """What gangs have in common that get the same answer from the nodes; None where tables cannot tell."""
        pairs = read_wishes(gang, room)
        if not pairs or not all(is_plain(room, *pair) for pair in pairs):
            return None
        return tuple((podset.shape, podset.count) for podset in gang.podsets)

    def reach(self, gang: Gang, room: Room) -> frozenset[NodeIndex] | None:
        """The nodes a gang may use, whatever runs there; None where tables cannot tell."""
        case = self.assess(gang, room)
        return case.reach() if isinstance(case, TableCase) else None

    def changes(self, room: Room) -> int:
        """A number that is another one after any change of the followed room."""
        if room is not self._room:
            raise ValueError("another room")
        if self._read < len(room.touched):
            self._catch_up()
        return self._changes

    def table(self, podset: PodSet, wish: Constraints) -> SlotTable:
        """The table of a podset's shape, up to date."""
        room = t.cast(Room, self._room)
        if self._read < len(room.touched):
            self._catch_up()
        table = self._tables.get(podset.shape)
        if table is None:
            filtered = filter_nodes(room, wish)
            table = SlotTable(room, podset, filtered, self._pool(filtered.allowed), self._rows)
            self._tables[podset.shape] = table
            self._positions[table] = len(self._log)
        self._update(table.pool)
        self._update(table)
        return table

    def union(self, tables: t.Iterable[SlotTable]) -> _Pool:
        """What is free on the nodes that any of these tables speaks of, up to date."""
        pools = list({id(table.pool): table.pool for table in tables}.values())
        if len(pools) == 1:
            return pools[0]
        union = self._pool(tuple(sorted(set().union(*(pool.nodes for pool in pools)))))
        self._update(union)
        return union

    def _pool(self, nodes: tuple[NodeIndex, ...]) -> _Pool:
        """The one pool of a set of nodes."""
        pool = self._pools.get(nodes)
        if pool is None:
            pool = self._pools[nodes] = _Pool(nodes, self._rows)
            self._positions[pool] = len(self._log)
        return pool

    def never(self, case: TableCase) -> Never | None:
        """Whether gangs like this one would not even fit on empty nodes, worked out once for these."""
        alike: NodeClass = tuple((podset.shape, podset.count) for podset in case.gang.podsets)
        known, empty = self._never.get(alike), case.room.emptied()
        if known is None or known[0] is not empty:
            known = self._never[alike] = empty, case.plain().never()
        return known[1]

    def victims(self, pairs: Pairs, pool: _Pool) -> tuple[str, ...]:
        """Pods that might be preempted on these nodes, worked out once while no node changes."""
        room = t.cast(Room, self._room)
        key = highest_priority(room, pairs), pool
        if key[0] <= room.lowest_priority:
            return ()
        if key not in self._victims:
            self._victims[key] = possible_victims(room, pairs, pool.nodes)
        return self._victims[key]

    def _update(self, item: SlotTable | _Pool) -> None:
        """Let a table or pool read all that changed since it was asked last."""
        self._asked.add(item)
        position = self._positions[item]
        if position < len(self._log):
            for node in set(self._log[position:]):
                item.update(node)
            self._positions[item] = len(self._log)

    def _catch_up(self) -> None:
        """Read what changed in the room since."""
        room = t.cast(Room, self._room)
        self._note(room.touched[self._read :], room)
        self._read = len(room.touched)
        self._victims = {}

    def _note(self, nodes: t.Iterable[NodeIndex], room: Room) -> None:
        """Note that nodes changed."""
        for node in nodes:
            self._rows[node] = room.free[node]
            self._log.append(node)
            self._changes += 1
        if len(self._log) > _MOST_OUTDATED * (len(self._rows) + 1):
            for item in list(self._positions):
                self._update(item)
            self._log, self._positions = [], dict.fromkeys(self._positions, 0)

    def _forget_unasked(self) -> None:
        """Drop what no gang asked for since the last room."""
        self._tables = {key: item for key, item in self._tables.items() if item in self._asked}
        self._pools = {key: item for key, item in self._pools.items() if item in self._asked}
        self._positions = {item: place for item, place in self._positions.items() if item in self._asked}
        self._asked = set()
        if len(self._never) > _MOST_REMEMBERED:
            self._never = {}


class TableCase:
    """A gang whose podsets have tables, set against a room; see Assessment."""

    def __init__(self, board: Board, gang: Gang, room: Room, pairs: Pairs, tables: tuple[SlotTable, ...]) -> None:
        """The tables are those of the podsets, in their order."""
        self.gang = gang
        self.room = room
        self._board = board
        self._pairs = pairs
        self._tables = tables
        self._pool = board.union(tables)
        self._totals: dict[str, Total] | None = None

    def reach(self) -> frozenset[NodeIndex]:
        """The nodes that any podset may use."""
        return self._pool.members

    def plain(self) -> Case:
        """The same gang in the plain way, for what tables do not tell."""
        return open_case(self.gang, self.room)

    def counted(self) -> tuple[PodsetFit, ...]:
        """See Assessment."""
        return tuple(
            PodsetFit(
                podset.name,
                podset.count,
                table.found,
                podset.requests,
                len(table.filtered.allowed),
                table.filtered.dropped,
            )
            for podset, table in zip(self.gang.podsets, self._tables, strict=True)
        )

    def measured(self) -> tuple[PodsetFit, ...]:
        """See Assessment."""
        return tuple(self._measure(*pair) for pair in zip(self.gang.podsets, self._tables, strict=True))

    def _measure(self, podset: PodSet, table: SlotTable) -> PodsetFit:
        """Slots found, total shortage, largest holes and, where slots are missing, the nearest node of one podset."""
        pool = table.pool
        short = {name: podset.count * amount - pool.free(name) for name, amount in podset.requests.items()}
        nearest = table.nearest() if table.found < podset.count else None
        return PodsetFit(
            name=podset.name,
            needed=podset.count,
            found=table.found,
            requests=podset.requests,
            usable_nodes=len(table.filtered.allowed),
            dropped=table.filtered.dropped,
            short={name: amount for name, amount in short.items() if amount > 0},
            largest_hole={name: pool.most(name) for name in sorted(podset.requests)},
            nearest_node=None if nearest is None else self.room.nodes[nearest].name,
            nearest_short={} if nearest is None else short_on(self.room, podset, nearest),
        )

    def totals(self) -> dict[str, Total]:
        """See Assessment."""
        if self._totals is None:
            wanted = wanted_in_all(self.gang)
            self._totals = {name: Total(amount, self._pool.free(name)) for name, amount in wanted.items()}
        return self._totals

    def _overdrawn(self) -> bool:
        """Whether the gang as a whole, or a podset by itself, asks for more than is free."""
        if any(table.found < podset.count for podset, table in zip(self.gang.podsets, self._tables, strict=True)):
            return True
        totals = self.totals() if self._totals is None else self._totals
        return any(total.requested > total.free for total in totals.values())

    def fit(self) -> Placed | None:
        """See Assessment. In whatever order the pods of a single podset come, each finds one of its slots."""
        if self._overdrawn():
            return None
        if len(self._tables) > 1:
            return self.plain().fit()
        placed = self._tables[0].spread(self.gang.podsets[0].count)
        return self.plain().fit() if placed is None else Placed({}, [placed])

    def never(self) -> Never | None:
        """See Assessment."""
        never = self._board.never(self)
        if never is None or [item.name for item in never.podsets] == [item.name for item in self.gang.podsets]:
            return never
        pairs = zip(never.podsets, self.gang.podsets, strict=True)
        return dataclasses.replace(
            never, podsets=tuple(dataclasses.replace(fit, name=podset.name) for fit, podset in pairs)
        )

    def reason(self, podsets: t.Iterable[PodsetFit], totals: t.Mapping[str, Total]) -> str:
        """See Assessment."""
        pairs = zip(self.gang.podsets, self._tables, strict=True)
        if any(podset.count and not table.filtered.allowed for podset, table in pairs):
            return "no_matching_node"
        if any(total.short for total in totals.values()) or any(item.short for item in podsets):
            return "insufficient"
        return "fragmentation" if self._overdrawn() else self.plain().reason(podsets, totals)

    def victims(self) -> tuple[str, ...]:
        """See Assessment."""
        return self._board.victims(self._pairs, self._pool)


def is_plain(room: Room, podset: PodSet, wish: Constraints) -> bool:
    """Whether nothing but requests and properties of nodes decides where the pods of a podset may go."""
    rules = wish.affinity or wish.anti_affinity or wish.spreads or wish.host_ports or wish.claims
    if rules or not any(podset.requests.values()):
        return False
    if not room.anti_terms:
        return True
    labels = room.namespace_labels(wish.namespace)
    return not any(term.matches(wish.namespace, wish.labels, labels) for term in room.anti_terms)
