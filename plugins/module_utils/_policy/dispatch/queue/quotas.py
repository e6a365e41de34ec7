# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota trees say in one cycle: whose gang it is, what is used, whether it fits, and which queue is asked next."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    QuotaAmounts,
    QuotaSettings,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    Demands,
    charged_leaf,
    known_flavors,
    queue_named_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import charged_amounts, podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import LeafChoice, find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import SpentBudgets
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.decay import Averages, UsageShares
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import FairOrder, QueueHead, ShareKey
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserKey, UserUse, user_key
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.victims import (
    Asker,
    Evictable,
    Known,
    by_leaf,
    choose_victims,
)

T = t.TypeVar("T")


class Seat(t.NamedTuple):
    """Where a gang belongs and what it asks for: its leaf and the amounts in each tree, and all as a key."""

    leaves: tuple[str | None, ...]
    amounts: tuple[QuotaAmounts, ...]
    key: Hashable


class StartedGang(t.NamedTuple):
    """A gang that may be evicted: its base priority, and when it was started."""

    uid: str
    priority: int
    started: float


# What a gang asks of one tree.
Claim = tuple[TreeUsage, Asker]
# A tree, one of its leaves, and what is charged to it.
LeafCharge = tuple[str, str, QuotaAmounts]
# Seats by the uids of gangs, with the record and the gang that they were worked out for.
Seats = dict[str, tuple[Record, Gang, Seat]]


class Quotas:
    """All trees and what is used of them while a queue is walked; a tree that is unreadable starts nothing."""

    def __init__(
        self,
        reading: QuotaTrees,
        entitlements: Mapping[str, Entitlements] | None = None,
        seats: Seats | None = None,
    ) -> None:
        """Begin with nothing used; what follows from trees and gangs alone may be known from earlier cycles."""
        known = entitlements or {}
        self._seats: Seats = {} if seats is None else seats
        self.in_force = reading.in_force
        # What Kueue hands out nobody else may hand out too.
        self._elsewhere = [tree.name for tree in reading.trees if tree.counted_by != "embedded"]
        reading = dataclasses.replace(
            reading, trees=tuple(tree for tree in reading.trees if tree.counted_by == "embedded")
        )
        self._reading = reading
        self._usages = {tree.name: TreeUsage(tree, known.get(tree.name)) for tree in reading.trees}
        self._leaves: dict[tuple[str, str | None, str], LeafChoice] = {}
        self._users = UserUse(reading.trees)
        # What is said to gangs of queues whose budget is spent.
        self.spent: SpentBudgets = {}
        # What leaves used on average, by tree, where that is known.
        self.averages: Mapping[str, Averages] = {}
        # What gangs are charged with that were started, and those that room is held for: tree, leaf and amounts.
        self._charged: dict[str, list[LeafCharge]] = {}
        self._held: dict[str, list[LeafCharge]] = {}
        # Gangs that are about to go.
        self.going: Collection[str] = frozenset()
        # The gangs that may be evicted, by tree and leaf.
        self._evictable: dict[str, dict[str, list[Evictable]]] = {}
        # Of earlier askers, by tree, until something is used or about to go that was not.
        self._candidates: dict[str, Known] = {}
        # What was said of gangs, by their seats: refusals stay, what fits does so until the next gang starts.
        self._refused: dict[Hashable, QuotaLayer] = {}
        self._fitting: dict[Hashable, QuotaLayer] = {}

    @property
    def entitlements(self) -> dict[str, Entitlements]:
        """What trees say whatever is used, for later cycles with the same trees."""
        return {name: usage.entitlements for name, usage in self._usages.items()}

    @property
    def usages(self) -> Mapping[str, TreeUsage]:
        """What is used of each tree, by its name."""
        return self._usages

    @property
    def charged(self) -> Mapping[str, Sequence[LeafCharge]]:
        """What started gangs are charged with, by their uids."""
        return self._charged

    def stop(self, record: Record) -> tuple[str, str] | None:
        """Reason and detail of why nothing of a gang starts, whatever is used; None when nothing stands against it."""
        for name, problem in self._reading.unreadable.items():
            return "quota_unreadable", f"nothing starts while the quota tree {name} cannot be read: {problem}"
        for name in self._elsewhere:
            return "queue_held", f"Kueue counts the quota tree {name}, and this version starts nothing through Kueue"
        if self._usages and self._reading.hidden is not None:
            return "quota_not_visible", f"what is used of quota cannot be counted: {self._reading.hidden}"
        for usage in self._usages.values():
            choice = self._leaf(usage.tree, record)
            if choice.reason is not None:
                return choice.reason, choice.detail
            if usage.tree.flavors:
                return "quota_unreadable", f"this version does not know flavors, which tree {usage.tree.name} has"
        return self._spent_budget(record) if self.spent else None

    def _spent_budget(self, record: Record) -> tuple[str, str] | None:
        """Reason and detail of why nothing of a gang starts in this period; None when its queues have budget left."""
        for usage in self._usages.values():
            leaf = self._leaf_name(usage.tree, record)
            for queue in usage.tree.ancestry(leaf) if leaf is not None else ():
                words = self.spent.get((usage.tree.name, queue))
                if words is not None:
                    return "budget_spent", words
        return None

    @property
    def limits_users(self) -> bool:
        """Whether any queue limits what one user may have."""
        return self._users.in_force

    def user_limit(self, record: Record, gang: Gang) -> tuple[str, str] | None:
        """Reason and detail of why a gang does not start for what its user has by now; None when it may."""
        if not self._users.in_force:
            return None
        user, demands = user_key(record), partial(podset_demands, gang.podsets)
        for tree, leaf in zip(self._usages, self._seat(record, gang).leaves, strict=True):
            words = self._users.refusal(tree, leaf, user, record.uid, demands)
            if words is not None:
                return "user_limit", words
        return None

    def start_for_user(self, record: Record, gang: Gang) -> None:
        """Count a gang that starts for its user."""
        if self._users.in_force:
            for tree, leaf in zip(self._usages, self._seat(record, gang).leaves, strict=True):
                self._users.start(tree, leaf, user_key(record), podset_demands(gang.podsets))

    def priority_cap(self, record: Record) -> int | None:
        """The highest priority that counts for a gang in its queues; None without a limit."""
        names = [(usage.tree, self._leaf_name(usage.tree, record)) for usage in self._usages.values()]
        lines = [tree.by_name[queue].priority_cap for tree, leaf in names if leaf for queue in tree.ancestry(leaf)]
        return min((cap for cap in lines if cap is not None), default=None)

    def lane(self, record: Record, gang: Gang) -> Hashable:
        """Equal for gangs of one queue: those behind each other in its order."""
        return self._seat(record, gang).leaves

    def charge_started(self, record: Record, demands: Demands) -> None:
        """Count a gang that was started: where its state says, else where it would belong now."""
        for usage in self._usages.values():
            leaf, flavors = charged_leaf(usage, record, self._reading.namespaces)
            self._charge_gang(record.uid, usage, leaf, demands, flavors)
            if self._users.in_force:
                self._users.start(usage.tree.name, leaf, user_key(record), demands)

    def charge_promised(
        self, gang: Gang, queue: str | None, labels: Mapping[str, str], user: UserKey | None = None
    ) -> None:
        """Count a gang of which only an open entry of the batch tells; labels and user are those of its record.

        The entry names the queue of the tree that is meant where none is named; labels may have changed since.
        """
        for usage in self._usages.values():
            named = named_queue(usage.tree, {}, queue) or named_queue(usage.tree, labels, None)
            leaf = self._find(usage.tree, named, gang.namespace).leaf
            if leaf is not None:
                demands = podset_demands(gang.podsets)
                usage.charge(leaf.name, charged_amounts(usage.tree, demands, {}))
                self._users.start(usage.tree.name, leaf.name, user or UserKey("", gang.namespace), demands)

    def charge_left(self, uid: str, namespace: str, queue: str | None, demand: Mapping[str, int]) -> None:
        """Count pods whose record is gone to the queue that they name, if that is for their namespace.

        Anybody who may change pods can name a queue: pods of others use nothing of it.
        """
        for usage in self._usages.values():
            named = self._find(usage.tree, named_queue(usage.tree, {}, queue), namespace)
            if named.leaf is None or named.reason == "queue_forbidden":
                named = self._find(usage.tree, None, namespace)
            leaf = named.leaf.name if named.leaf is not None else None
            self._charge_gang(uid, usage, leaf, {"": demand}, {})

    def ask(self, record: Record, gang: Gang) -> QuotaLayer:
        """What each tree says of a gang, without numbers; the same is said of all that ask for the same.

        What is used only grows while a queue is walked, so nobody fits who did not before.
        """
        key = self._seat(record, gang).key
        known = self._refused.get(key) or self._fitting.get(key)
        if known is None:
            known = self._layer(record, gang, numbers=False)
            if known.passed and self._held:
                # Both as things are and when those have gone that are about to, and others have what they freed.
                with self.after():
                    known = _held_for_others(known, self._layer(record, gang, numbers=False))
            (self._fitting if known.passed else self._refused)[key] = known
        return known

    def numbered(self, layer: QuotaLayer, record: Record, gang: Gang) -> QuotaLayer:
        """What was said of a gang, with the numbers of its queues as they are by now."""
        by_tree = {item.tree: item for item in self._layer(record, gang, numbers=True).standings}

        def with_numbers(said: QuotaStanding) -> QuotaStanding:
            found = by_tree[said.tree]
            return dataclasses.replace(said, short=found.short, levels=found.levels, borrowers=found.borrowers)

        return QuotaLayer(tuple(map(with_numbers, layer.standings)))

    def start(self, layer: QuotaLayer) -> None:
        """Count a gang that starts with what was asked for."""
        for item in layer.standings:
            if item.leaf is not None:
                self._usages[item.tree].charge(item.leaf, item.amounts)
        self._forget()

    def hold(self, uid: str, layer: QuotaLayer) -> None:
        """Let a gang that cannot start yet have what is being freed for it, so that nobody else takes that."""
        self._held[uid] = [(item.tree, item.leaf, item.amounts) for item in layer.standings if item.leaf is not None]
        self._forget()

    def _forget(self) -> None:
        """Something is used or held that was not before."""
        self._fitting.clear()
        self._candidates.clear()

    @contextlib.contextmanager
    def after(self) -> Iterator[None]:
        """For a while, as if those had gone that are about to, and those had started that room is held for."""
        held = [charge for charges in self._held.values() for charge in charges]
        with self.without(self.going):
            for tree, leaf, amounts in held:
                self._usages[tree].charge(leaf, amounts)
            try:
                yield
            finally:
                for tree, leaf, amounts in held:
                    self._usages[tree].release(leaf, amounts)

    @contextlib.contextmanager
    def without(self, uids: Iterable[str]) -> Iterator[None]:
        """For a while, as if these gangs had gone; nothing must be asked for meanwhile that is remembered."""
        gone = [charge for uid in uids for charge in self._charged.get(uid, ())]
        for tree, leaf, amounts in gone:
            self._usages[tree].release(leaf, amounts)
        try:
            yield
        finally:
            for tree, leaf, amounts in gone:
                self._usages[tree].charge(leaf, amounts)

    def fits(self, record: Record, gang: Gang) -> bool:
        """Whether every tree has enough for a gang, as things are at this very moment."""
        return self._layer(record, gang, numbers=False).passed

    def borrows(self, record: Record, gang: Gang) -> bool:
        """Whether a gang would use more than is its queue's own in any tree, at this very moment."""
        return self._layer(record, gang, numbers=False).borrows

    def choose_victims(
        self,
        record: Record,
        gang: Gang,
        priority: int,
        nodes_after: Callable[[Sequence[str]], bool],
        gone: Collection[str],
    ) -> tuple[str, ...] | None:
        """Whom of those that may be evicted a waiting gang takes quota from, so that it fits all trees and nodes.

        gone are counted as gone already. None when no allowed set does; empty when it fits as things are. Each tree is
        asked in turn, as if those had gone that were chosen for the sake of trees before it; the last one also has to
        free the nodes, and each tree may be the one that can.
        """
        seat = self._seat(record, gang)
        claims = [
            (usage, Asker(leaf, amounts, priority))
            for usage, leaf, amounts in zip(self._usages.values(), seat.leaves, seat.amounts, strict=True)
            if leaf is not None
        ]
        if len(claims) < len(self._usages):
            return None
        for last in range(len(claims) - 1, -1, -1):
            chosen = self._choose_in_turn([*claims[:last], *claims[last + 1 :], claims[last]], nodes_after, gone)
            if chosen is not None:
                return tuple(chosen if len(claims) == 1 else self._needed(claims, chosen, nodes_after))
        return None

    def _choose_in_turn(
        self, claims: Sequence[Claim], nodes_after: Callable[[Sequence[str]], bool], gone: Collection[str]
    ) -> list[str] | None:
        """Whom to take from for the sake of each tree, of the last one also for the sake of nodes."""
        chosen: list[str] = []
        with contextlib.ExitStack() as left:
            for place, (usage, asker) in enumerate(claims, 1):

                def suffices(victims: Sequence[Evictable], before: Sequence[str] = tuple(chosen)) -> bool:
                    return nodes_after([*before, *(item.uid for item in victims)])

                able, check = self._evictable.get(usage.tree.name, {}), suffices if place == len(claims) else None
                # After the first tree others count as gone than those that are known of.
                known = self._candidates.setdefault(usage.tree.name, {}) if not chosen else None
                found = choose_victims(usage, asker, able, check, {*gone, *chosen}, known)
                if found is None:
                    return None
                left.enter_context(self.without([item.uid for item in found]))
                chosen += [item.uid for item in found]
        return chosen

    def _needed(
        self, claims: Sequence[Claim], chosen: Sequence[str], nodes_after: Callable[[Sequence[str]], bool]
    ) -> list[str]:
        """The victims without those that were chosen for one tree and whom nobody needs after those for another."""

        def borrowed(uids: Sequence[str]) -> set[str] | None:
            """The trees in which the asker borrows when these have gone; None when it does not fit all of them."""
            with self.without(uids):
                if not all(usage.fits(asker.leaf, asker.amounts) for usage, asker in claims):
                    return None
                return {usage.tree.name for usage, asker in claims if usage.borrows_with(asker.leaf, asker.amounts)}

        needed, allowed = list(chosen), borrowed(chosen) or set()
        for uid in chosen:
            rest = [item for item in needed if item != uid]
            borrows = borrowed(rest)
            if borrows is not None and borrows <= allowed and nodes_after(rest):
                needed = rest
        return needed

    def offer(self, started: Sequence[StartedGang]) -> None:
        """Take note of the gangs that may be evicted, in each tree by the leaf that they are charged to."""
        by_tree: dict[str, list[Evictable]] = {}
        for item in started:
            for tree, leaf, amounts in self._charged.get(item.uid, ()):
                evictable = Evictable(item.uid, leaf, amounts, item.priority, item.started)
                by_tree.setdefault(tree, []).append(evictable)
        self._evictable = {tree: by_leaf(found) for tree, found in by_tree.items()}

    def drained(self, uid: str) -> str | None:
        """The queue of a started gang that is drained, or one above it, as a path; None when none is."""
        for tree_name, leaf, _amounts in self._charged.get(uid, ()):
            tree = self._usages[tree_name].tree
            for name in tree.ancestry(leaf):
                if tree.by_name[name].stop == "drain":
                    return tree.path(name)
        return None

    @property
    def settings(self) -> list[QuotaSettings]:
        """The settings of all trees."""
        return [usage.tree.settings for usage in self._usages.values()]

    def in_turn(self, queue: Sequence[T], look: Callable[[T], tuple[Record, Gang]]) -> Iterator[T]:
        """The gangs of a queue that is in order, one queue's next gang after the other; look tells whose an item is.

        The first tree decides between queues. Whoever takes the items counts what starts before the next one is taken.
        """
        if not self._usages:
            yield from queue
            return
        lines: dict[str, collections.deque[tuple[int, T]]] = {}
        for place, item in enumerate(queue):
            record, gang = look(item)
            leaves = self._seat(record, gang).leaves
            if self._users.in_force:
                for tree, name in zip(self._usages, leaves, strict=True):
                    self._users.wait(tree, name, user_key(record), record.uid)
            leaf = leaves[0] or ""
            lines.setdefault(leaf, collections.deque()).append((place, item))

        def hopeless(leaf: str) -> Iterator[T]:
            """The next gangs of a queue that its quota or their user's has no room for: their turn would not help."""
            line = lines[leaf]
            while line and self._is_hopeless(*look(line[0][1])):
                yield line.popleft()[1]

        def head(leaf: str) -> QueueHead | None:
            """What a queue offers next."""
            if not lines[leaf]:
                return None
            place, item = lines[leaf][0]
            record, gang = look(item)
            return QueueHead(leaf, record.uid, self._seat(record, gang).amounts[0], (place,))

        for leaf in lines:
            yield from hopeless(leaf)
        heads = (head(leaf) for leaf in lines)
        first = self._usages[self._reading.trees[0].name]
        order = FairOrder(first, [item for item in heads if item is not None], self._compared(first))
        while (best := order.next()) is not None:
            yield lines[best.leaf].popleft()[1]
            yield from hopeless(best.leaf)
            order.offer(best.leaf, head(best.leaf))

    def _compared(self, usage: TreeUsage) -> Callable[[str, QueueHead], ShareKey] | None:
        """What queues are compared by if it is what they used over time; None where they are by what they borrow."""
        before = self.averages.get(usage.tree.name) if usage.tree.settings.fair == "usage" else None
        return UsageShares(usage, before).order if before is not None else None

    def _is_hopeless(self, record: Record, gang: Gang) -> bool:
        """Whether a gang does not start whatever room there is on nodes."""
        return self.user_limit(record, gang) is not None or not self.ask(record, gang).passed

    def _seat(self, record: Record, gang: Gang) -> Seat:
        """Where a gang belongs and what it asks for, found once."""
        known = self._seats.get(record.uid)
        if known is not None and known[0] is record and known[1] is gang:
            return known[2]
        demands = podset_demands(gang.podsets)
        leaves = tuple(self._leaf_name(usage.tree, record) for usage in self._usages.values())
        # Trees with flavors start nothing, so each podset has the only one.
        amounts = tuple(charged_amounts(usage.tree, demands, {}) for usage in self._usages.values())
        key = leaves, tuple(tuple(sorted(item.items())) for item in amounts)
        seat = Seat(leaves, amounts, key)
        self._seats[record.uid] = record, gang, seat
        return seat

    def _layer(self, record: Record, gang: Gang, *, numbers: bool) -> QuotaLayer:
        """What each tree says of a gang as things are now."""
        demands, labels = podset_demands(gang.podsets), self._reading.namespaces.get(record.namespace)
        standings = []
        for usage in self._usages.values():
            named = queue_named_by(usage.tree, record)
            found = judge_quota(usage, named, record.namespace, demands, namespace_labels=labels, numbers=numbers)
            # Without flavors nothing in it is about this gang's podsets.
            standings.append(found if usage.tree.flavors else dataclasses.replace(found, flavors={}))
        return QuotaLayer(tuple(standings))

    def _charge_gang(
        self, uid: str, usage: TreeUsage, leaf: str | None, demands: Demands, flavors: Mapping[str, str]
    ) -> None:
        """Count what a gang uses; without a queue there is nobody to be charged."""
        if leaf is not None:
            amounts = charged_amounts(usage.tree, demands, known_flavors(usage.tree, flavors))
            usage.charge(leaf, amounts)
            self._charged.setdefault(uid, []).append((usage.tree.name, leaf, amounts))

    def _leaf_name(self, tree: QuotaTree, record: Record) -> str | None:
        """The name of a gang's leaf; None when it has none."""
        leaf = self._leaf(tree, record).leaf
        return leaf.name if leaf is not None else None

    def _leaf(self, tree: QuotaTree, record: Record) -> LeafChoice:
        """The leaf of a gang in a tree, found once for all gangs that name the same from the same namespace."""
        return self._find(tree, queue_named_by(tree, record), record.namespace)

    def _find(self, tree: QuotaTree, named: str | None, namespace: str) -> LeafChoice:
        """The leaf of whoever names this queue, or none, from a namespace."""
        asked = tree.name, named, namespace
        if asked not in self._leaves:
            self._leaves[asked] = find_leaf(tree, named, namespace, self._reading.namespaces.get(namespace))
        return self._leaves[asked]


def _held_for_others(now: QuotaLayer, later: QuotaLayer) -> QuotaLayer:
    """What is said of a gang that fits as things are: it waits if it would take what is held for others."""
    fits = {item.tree: item.answer == "fits" for item in later.standings}
    detail = "what is about to be freed is held for others"
    return QuotaLayer(
        tuple(
            item if fits[item.tree] else dataclasses.replace(item, answer="waits", reason="quota", detail=detail)
            for item in now.standings
        )
    )


# Where there is no tree.
NO_QUOTAS = Quotas(NO_TREES)


def charges_of(layer: QuotaLayer) -> tuple[Charge, ...]:
    """Whose quota a start is charged to."""
    found = ((item.tree, item.leaf, item.flavors) for item in layer.standings)
    return tuple(Charge(tree, leaf, dict(flavors)) for tree, leaf, flavors in found if leaf is not None)
