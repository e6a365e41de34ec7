# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota trees say in one cycle: whose gang it is, what is used, whether it fits, and which queue is asked next."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import operator
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QuotaWord
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    QuotaAmounts,
    QuotaSettings,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import reachable_podsets, spec_of
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import lowest_cap
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.ways import (
    FlavoredGang,
    HasNodes,
    Way,
    Ways,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import (
    Demands,
    charged_leaf,
    known_flavors,
    queue_named_by,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import (
    charged_amounts,
    most_amounts,
    podset_demands,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota, with_numbers
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import LeafChoice, find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import SpentBudgets, spent_budget
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.decay import Averages, UsageShares
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import FairOrder, QueueHead
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.user_limits import UserKey, UserUse, user_key
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.victims import (
    Asker,
    Evictable,
    Known,
    by_leaf,
    choose_victims,
    may_find_victims,
    may_take,
)

T = t.TypeVar("T")


class Seat(t.NamedTuple):
    """Where a gang belongs and what it asks for: its leaf and the amounts in each tree, and the number of all that.

    Where a tree has flavors, amounts are those of the first ones; what is charged depends on what is used.
    """

    leaves: tuple[str | None, ...]
    amounts: tuple[QuotaAmounts, ...]
    key: int
    flavored: FlavoredGang | None = None


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


@dataclasses.dataclass(slots=True)
class Classes:
    """What is known of gangs that ask for the same in the same queues: their numbers, and what was said to them.

    leaves are those of gangs by tree, the queue that they name, and their namespace.
    """

    leaves: dict[tuple[str, str | None, str], LeafChoice] = dataclasses.field(default_factory=dict)
    numbers: dict[Hashable, int] = dataclasses.field(default_factory=dict)
    layers: dict[Hashable, QuotaLayer] = dataclasses.field(default_factory=dict)


class Quotas:
    """All trees and what is used of them while a queue is walked; a tree that is unreadable starts nothing."""

    def __init__(
        self,
        reading: QuotaTrees,
        entitlements: Mapping[str, Entitlements] | None = None,
        seats: Seats | None = None,
        classes: Classes | None = None,
    ) -> None:
        """Begin with nothing used; what follows from trees and gangs alone may be known from earlier cycles."""
        known = entitlements or {}
        self._seats: Seats = {} if seats is None else seats
        self._classes = Classes() if classes is None else classes
        self.in_force = reading.in_force
        # What Kueue hands out nobody else may hand out too.
        self._elsewhere = [tree.name for tree in reading.trees if tree.counted_by != "embedded"]
        reading = dataclasses.replace(
            reading, trees=tuple(tree for tree in reading.trees if tree.counted_by == "embedded")
        )
        self._reading = reading
        self._usages = {tree.name: TreeUsage(tree, known.get(tree.name)) for tree in reading.trees}
        self._users = UserUse(reading.trees)
        # What is said to gangs of queues whose budget is spent.
        self.spent: SpentBudgets = {}
        # What leaves used on average, by tree, where that is known.
        self.averages: Mapping[str, Averages] = {}
        # What gangs are charged with that were started, and those that room is held for: tree, leaf and amounts.
        self._charged: dict[str, list[LeafCharge]] = {}
        self._held: dict[str, list[LeafCharge]] = {}
        # What is used when those have gone that are about to, and how many were about to and held something then.
        self._after: tuple[tuple[int, int, int], dict[str, TreeUsage]] | None = None
        # Gangs that are about to go, and what those give that are about to be smaller.
        self.going: Collection[str] = frozenset()
        self.giving: dict[str, list[LeafCharge]] = {}
        # The gangs that may be evicted, by tree and leaf.
        self._evictable: dict[str, dict[str, list[Evictable]]] = {}
        # Of earlier askers, by tree, until something is used or about to go that was not.
        self._candidates: dict[str, Known] = {}
        # What was said of gangs, by their seats: refusals stay, what fits does so until the next gang starts.
        self._refused: dict[Hashable, QuotaLayer] = {}
        self._fitting: dict[Hashable, QuotaLayer] = {}
        # Whether any tree has flavors, and for pods of which size and rules there are nodes.
        self.flavored = any(tree.flavors for tree in reading.trees)
        self.node_check: HasNodes | None = None
        self._nodes: dict[str, bool] = {}

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

    def stop(self, record: Record) -> QuotaStanding | None:
        """Why nothing of a gang starts, whatever is used, as its tree says it; None when nothing stands against it.

        It follows from the trees, the budgets that are spent, and the record.
        """
        for name, problem in self._reading.unreadable.items():
            words = f"nothing starts while the quota tree {name} cannot be read: {problem}"
            return QuotaStanding(name, "waits", reason="quota_unreadable", detail=words)
        for name in self._elsewhere:
            words = f"Kueue counts the quota tree {name}, and this version starts nothing through Kueue"
            return QuotaStanding(name, "waits", reason="queue_held", detail=words)
        if self._usages and self._reading.hidden is not None:
            words = f"what is used of quota cannot be counted: {self._reading.hidden}"
            return QuotaStanding(next(iter(self._usages)), "waits", reason="quota_not_visible", detail=words)
        for usage in self._usages.values():
            choice = self._leaf(usage.tree, record)
            if choice.reason is not None:
                leaf = choice.leaf.name if choice.leaf is not None else None
                return _refused(usage.tree, leaf, choice.reason, choice.detail)
        return self._spent_budget(record) if self.spent else None

    def _spent_budget(self, record: Record) -> QuotaStanding | None:
        """Why nothing of a gang starts in this period; None when its queues have budget left."""
        for usage in self._usages.values():
            leaf = self._leaf_name(usage.tree, record)
            limit = spent_budget(self.spent, usage.tree, leaf)
            if limit is not None:
                return _refused(usage.tree, leaf, limit.reason, limit.words).limited(limit)
        return None

    @property
    def limits_users(self) -> bool:
        """Whether any queue limits what one user may have."""
        return self._users.in_force

    @property
    def users(self) -> UserUse:
        """What users have in queues that limit them."""
        return self._users

    def user_limit(self, record: Record, gang: Gang, held: Demands | None = None) -> QuotaStanding | None:
        """Why a gang does not start for what its user has by now, as its tree says it; None when it may.

        held is what a gang that was started gives back first.
        """
        if not self._users.in_force:
            return None
        user, demands = user_key(record), partial(podset_demands, gang.podsets)
        for name, leaf in zip(self._usages, self._seat(record, gang).leaves, strict=True):
            limit = self._users.refusal(name, leaf, user, record.uid, demands, held)
            if limit is not None:
                return _refused(self._usages[name].tree, leaf, limit.reason, limit.words).limited(limit)
        return None

    def start_for_user(self, record: Record, gang: Gang) -> None:
        """Count a gang that starts for its user."""
        if self._users.in_force:
            for tree, leaf in zip(self._usages, self._seat(record, gang).leaves, strict=True):
                self._users.start(tree, leaf, user_key(record), podset_demands(gang.podsets))

    def priority_cap(self, record: Record) -> int | None:
        """The highest priority that counts for a gang in its queues; None without a limit."""
        return lowest_cap((usage.tree, self._leaf_name(usage.tree, record)) for usage in self._usages.values())

    def lane(self, record: Record, gang: Gang) -> Hashable:
        """Equal for gangs of one queue: those behind each other in its order."""
        return self._seat(record, gang).leaves

    def charge_started(self, record: Record, demands: Demands) -> None:
        """Count a gang that was started: where its state says, else where it would belong now."""
        charges = self.charges_for(record, demands)
        for tree, leaf, amounts in charges:
            self._usages[tree].charge(leaf, amounts)
        if charges:
            self._charged[record.uid] = charges
        self.count_for_user(record, demands, charges)

    def charges_for(self, record: Record, demands: Demands) -> list[LeafCharge]:
        """What a started gang is charged with in each tree; without a queue there is nobody to be charged."""
        found: list[LeafCharge] = []
        for usage in self._usages.values():
            leaf, flavors = charged_leaf(usage, record, self._reading.namespaces)
            if leaf is not None:
                amounts = charged_amounts(usage.tree, demands, known_flavors(usage.tree, flavors))
                found.append((usage.tree.name, leaf, amounts))
        return found

    def count_for_user(self, record: Record, demands: Demands, charges: Iterable[LeafCharge]) -> None:
        """Count a started gang for its user."""
        if self._users.in_force:
            for tree, leaf, _amounts in charges:
                self._users.start(tree, leaf, user_key(record), demands)

    def begin_with(self, usages: Mapping[str, TreeUsage], charged: Mapping[str, list[LeafCharge]]) -> None:
        """Count what started gangs use, as it is known; neither is modified."""
        self._usages = {name: usages[name].copy() for name in self._usages}
        self._charged = dict(charged)

    def charge_promised(
        self,
        gang: Gang,
        queue: str | None,
        labels: Mapping[str, str],
        user: UserKey | None = None,
        flavors: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """Count a gang of which only an open entry of the batch tells; labels and user are those of its record.

        The entry names the queue of the tree that is meant where none is named; labels may have changed since. It also
        tells the flavors by tree and podset. Where it does not, each one may be used, and so each is charged.
        """
        for usage in self._usages.values():
            named = named_queue(usage.tree, {}, queue) or named_queue(usage.tree, labels, None)
            leaf = self._find(usage.tree, named, gang.namespace).leaf
            if leaf is not None:
                demands = podset_demands(gang.podsets)
                told = known_flavors(usage.tree, (flavors or {}).get(usage.tree.name, {}))
                usage.charge(leaf.name, most_amounts(usage.tree, demands, told))
                self._users.start(usage.tree.name, leaf.name, user or UserKey("", gang.namespace), demands)

    def charge_left(self, uid: str, namespace: str, queue: str | None, demand: Mapping[str, int]) -> None:
        """Count pods whose record is gone to the queue that they name, if that is for their namespace.

        Anybody who may change pods can name a queue: pods of others use nothing of it.
        """
        for usage in self._usages.values():
            named = self._find(usage.tree, named_queue(usage.tree, {}, queue), namespace)
            if named.leaf is None or named.reason == "queue_forbidden":
                named = self._find(usage.tree, None, namespace)
            if named.leaf is not None:
                # Nobody tells any more which flavor they were charged to.
                amounts = most_amounts(usage.tree, {"": demand}, {})
                usage.charge(named.leaf.name, amounts)
                self._charged.setdefault(uid, []).append((usage.tree.name, named.leaf.name, amounts))

    def ask(self, record: Record, gang: Gang) -> QuotaLayer:
        """What each tree says of a gang, without numbers; the same is said of all that ask for the same.

        What is used only grows while a queue is walked, so nobody fits who did not before.
        """
        seat = self._seat(record, gang)
        known = self._refused.get(seat.key) or self._fitting.get(seat.key)
        if known is None:
            if seat.flavored is not None:
                known = self._judge_flavors(seat)
            else:
                known = self._layer(record, gang)
                if known.passed and self._held:
                    known = self._held_for_others(known)
            (self._fitting if known.passed else self._refused)[seat.key] = known
        return known if seat.flavored is None else known.with_podsets(seat.flavored.names)

    def numbered(self, layer: QuotaLayer) -> QuotaLayer:
        """What was said of a gang, with the numbers of its queues as they are by now."""
        known = self._usages
        return QuotaLayer(
            tuple(with_numbers(known[item.tree], item) if item.tree in known else item for item in layer.standings)
        )

    # Trees with flavors.

    def reach(self, record: Record, gang: Gang) -> Hashable:
        """What tells gangs of one class apart where trees have flavors: which of their podsets can be confined."""
        flavored = self._seat(record, gang).flavored
        return None if flavored is None else flavored.reach

    def ways(self, record: Record, gang: Gang) -> Ways:
        """The ways to start a gang, beginning with what ask says of it."""
        seat = self._seat(record, gang)
        if seat.flavored is None:
            raise ValueError(f"{record.key} has no queue in each tree")
        return self._ways(seat, seat.flavored, self.ask(record, gang))

    def fitting_ways(self, ways: Ways) -> Iterator[Way]:
        """Those that fit all trees, and take nothing that is held for others."""
        return ways.fitting(lambda layer: not self._held or self._held_for_others(layer).passed)

    def _ways(self, seat: Seat, subject: FlavoredGang, first: QuotaLayer | None = None) -> Ways:
        """The ways of a gang as things are now."""
        leaves = [(usage, leaf) for usage, leaf in zip(self._usages.values(), seat.leaves, strict=True) if leaf]
        return Ways(subject, leaves, self._has_nodes, first)

    def _judge_flavors(self, seat: Seat) -> QuotaLayer:
        """What the trees say to the first flavors that a gang can have, or that it waits for."""
        ways = self._ways(seat, t.cast(FlavoredGang, seat.flavored))
        refused: QuotaLayer | None = None
        for found in ways.search.fitting():
            layer = ways.layer_of(found)
            if self._held:
                layer = self._held_for_others(layer)
            if layer.passed:
                return layer
            refused = refused or layer
        return refused or ways.layer_of(ways.waited_for())

    def _has_nodes(self, podset: PodSet) -> bool:
        """Whether there are nodes for a podset, found out once for all of the same size and rules."""
        if self.node_check is None:
            return True
        known = self._nodes.get(podset.shape)
        if known is None:
            known = self._nodes[podset.shape] = self.node_check(podset)
        return known

    def charges_of(self, layer: QuotaLayer) -> tuple[Charge, ...]:
        """Whose quota a start is charged to, with what flavors add to its pods."""
        found = []
        for item in layer.standings:
            if item.leaf is not None:
                chosen = {podset: flavor for podset, flavor in item.flavors.items() if flavor != NO_FLAVOR}
                known = [one for one in self._usages[item.tree].tree.flavors if one.name in set(chosen.values())]
                kinds = tuple(dataclasses.replace(one, unknown={}) for one in known if one.confines)
                found.append(Charge(item.tree, item.leaf, chosen, kinds))
        return tuple(found)

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
        self._fitting = {}
        self._candidates.clear()
        self._after = None

    @contextlib.contextmanager
    def after(self) -> Iterator[None]:
        """For a while, as if those had gone or shrunk that are about to, and those ran that room is held for."""
        present, self._usages = self._usages, self._later()
        try:
            yield
        finally:
            self._usages = present

    def _later(self) -> dict[str, TreeUsage]:
        """What is used then, worked out once until something else is used, held or about to go."""
        seen = len(self.going), len(self.giving), len(self._held)
        if self._after is None or self._after[0] != seen:
            usages = {tree: usage.copy() for tree, usage in self._usages.items()} if any(seen) else self._usages
            for uid in self.going:
                for tree, leaf, amounts in self._charged.get(uid, ()):
                    usages[tree].release(leaf, amounts)
            for tree, leaf, amounts in itertools.chain.from_iterable(self.giving.values()):
                usages[tree].release(leaf, amounts)
            for tree, leaf, amounts in itertools.chain.from_iterable(self._held.values()):
                usages[tree].charge(leaf, amounts)
            self._after = seen, usages
        return self._after[1]

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

    def given_by(self, record: Record, smaller: Gang) -> list[LeafCharge]:
        """What a started gang is charged with now, and not any more when it is as small as this."""
        kept = {
            (tree, leaf): amounts for tree, leaf, amounts in self.charges_for(record, podset_demands(smaller.podsets))
        }
        found: list[LeafCharge] = []
        for tree, leaf, amounts in self._charged.get(record.uid, ()):
            then = kept.get((tree, leaf), amounts)
            given = {key: amount - then.get(key, 0) for key, amount in amounts.items() if amount > then.get(key, 0)}
            if given:
                found.append((tree, leaf, given))
        return found

    @contextlib.contextmanager
    def only(self, given: Mapping[str, list[LeafCharge]], givers: Sequence[StartedGang] = ()) -> Iterator[None]:
        """For a while, as if these amounts were all that may be taken, and gone with those who give them."""
        present = self._charged, self._evictable, self._candidates
        self._charged, self._candidates = dict(given), {}
        self.offer(givers)
        try:
            yield
        finally:
            self._charged, self._evictable, self._candidates = present

    def fits(self, layer: QuotaLayer) -> bool:
        """Whether every tree has enough for what was asked for, as things are at this very moment."""
        return all(
            item.leaf is not None and self._usages[item.tree].fits(item.leaf, item.amounts) for item in layer.standings
        )

    def fits_instead(self, layer: QuotaLayer, uid: str) -> bool:
        """Whether every tree has enough for a gang in place of what it is charged with, now and for others held."""
        with self.without((uid,)):
            if not self.fits(layer):
                return False
        with self.after(), self.without((uid,)):
            return self.fits(layer)

    def borrows(self, layer: QuotaLayer) -> bool:
        """Whether what was asked for would be more than is a queue's own in any tree, at this very moment."""
        asked = [(self._usages[item.tree], item.leaf, item.amounts) for item in layer.standings]
        return any(leaf is not None and usage.borrows_with(leaf, amounts) for usage, leaf, amounts in asked)

    def choose_victims(
        self,
        layer: QuotaLayer,
        priority: int,
        nodes_after: Callable[[Sequence[str]], bool],
        gone: Collection[str],
    ) -> tuple[str, ...] | None:
        """Whom of those that may be evicted a waiting gang takes quota from, so that it fits all trees and nodes.

        layer is what was said of it, with the amounts that it asks for. gone are counted as gone already. None when no
        allowed set does; empty when it fits as things are. Each tree is asked in turn, as if those had gone that were
        chosen for the sake of trees before it; the last one also has to free the nodes, and each tree may be the one
        that can.
        """
        claims = self._claims(layer, priority)
        for last in range(len(claims) - 1, -1, -1):
            chosen = self._choose_in_turn([*claims[:last], *claims[last + 1 :], claims[last]], nodes_after, gone)
            if chosen is not None:
                return tuple(chosen if len(claims) == 1 else self._needed(claims, chosen, nodes_after))
        return None

    def _claims(self, layer: QuotaLayer, priority: int) -> list[Claim]:
        """What a gang asks of each tree; nothing at all without a queue in one of them."""
        claims = [
            (self._usages[item.tree], Asker(item.leaf, item.amounts, priority))
            for item in layer.standings
            if item.leaf is not None
        ]
        return claims if len(claims) == len(self._usages) else []

    def may_take(self, layer: QuotaLayer, priority: int, least: int | None) -> bool:
        """Whether a gang might take quota from anybody, as far as trees tell; least is the lowest started priority."""
        higher = least is not None and priority > least
        return any(may_take(usage, asker, higher=higher) for usage, asker in self._claims(layer, priority))

    def may_find_victims(self, layer: QuotaLayer, priority: int, gone: Collection[str]) -> bool:
        """Whether a waiting gang might take quota from anybody, in any tree; otherwise no victims are found for it."""
        return any(
            may_find_victims(
                usage,
                asker,
                self._evictable.get(usage.tree.name, {}),
                gone,
                self._candidates.setdefault(usage.tree.name, {}),
            )
            for usage, asker in self._claims(layer, priority)
        )

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

    @property
    def drains(self) -> bool:
        """Whether any queue is drained."""
        return any(queue.stop == "drain" for usage in self._usages.values() for queue in usage.tree.queues)

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
        lines = self._lines(queue, look)

        def hopeless(leaf: str) -> Iterator[T]:
            """The next gangs of a queue that its quota or their user's has no room for: their turn would not help."""
            line = lines[leaf]
            while line:
                _place, item, record, gang, seat = line[0]
                if seat.key not in self._refused and not self._is_hopeless(record, gang):
                    return
                line.popleft()
                yield item

        def head(leaf: str) -> QueueHead | None:
            """What a queue offers next."""
            if not lines[leaf]:
                return None
            place, _item, record, gang, _seat = lines[leaf][0]
            return QueueHead(leaf, record.uid, self._amounts_asked(record, gang), (place,))

        for leaf in lines:
            yield from hopeless(leaf)
        offered = {leaf: head(leaf) for leaf in lines}
        first = self._usages[self._reading.trees[0].name]
        order = FairOrder(first, [item for item in offered.values() if item is not None], self._compared(first))
        while (best := order.next()) is not None:
            known = self._fitting
            yield lines[best.leaf].popleft()[1]
            yield from hopeless(best.leaf)
            changed = self.flavored and known is not self._fitting
            others = _outdated(first, offered.values(), best.leaf) if changed else []
            for leaf in [best.leaf, *others]:
                offered[leaf] = head(leaf)
                order.offer(leaf, offered[leaf])

    def _amounts_asked(self, record: Record, gang: Gang) -> QuotaAmounts:
        """What a gang asks of the first tree, in the flavors that it can have now."""
        seat = self._seat(record, gang)
        return seat.amounts[0] if seat.flavored is None else self.ask(record, gang).standings[0].amounts

    def _lines(
        self, queue: Iterable[T], look: Callable[[T], tuple[Record, Gang]]
    ) -> dict[str, collections.deque[tuple[int, T, Record, Gang, Seat]]]:
        """The gangs of each leaf in their order, with their places in the order of all."""
        lines: dict[str, collections.deque[tuple[int, T, Record, Gang, Seat]]] = {}
        for place, item in enumerate(queue):
            record, gang = look(item)
            seat = self._seat(record, gang)
            if self._users.in_force:
                for tree, name in zip(self._usages, seat.leaves, strict=True):
                    self._users.wait(tree, name, user_key(record), record.uid)
            leaf = seat.leaves[0] or ""
            line = lines.get(leaf)
            if line is None:
                line = lines[leaf] = collections.deque()
            line.append((place, item, record, gang, seat))
        return lines

    def _compared(self, usage: TreeUsage) -> Callable[[str, QueueHead], tuple[bool, float]] | None:
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
        amounts = tuple(charged_amounts(usage.tree, demands, {}) for usage in self._usages.values())
        key: Hashable = leaves, tuple(tuple(sorted(item.items())) for item in amounts)
        flavored = None
        if self.flavored and None not in leaves:
            trees = [usage.tree for usage in self._usages.values()]
            flavored = FlavoredGang(gang, trees, reachable_podsets(spec_of(record)))
            key = leaves, flavored.key
        seat = Seat(leaves, amounts, self._classes.numbers.setdefault(key, len(self._classes.numbers)), flavored)
        self._seats[record.uid] = record, gang, seat
        return seat

    def _layer(self, record: Record, gang: Gang) -> QuotaLayer:
        """What each tree says of a gang as things are now, without numbers; the same object while it says the same.

        Where trees have one flavor, all of it follows from the gang's seat, and from whether it fits and borrows.
        """
        seat = self._seat(record, gang)
        words: list[QuotaWord | bool] = []
        for usage, leaf, amounts in zip(self._usages.values(), seat.leaves, seat.amounts, strict=True):
            if leaf is None or usage.tree.flavors:
                return self._layer_anew(record, gang)
            words += usage.word(leaf, amounts)
        case = seat.key, tuple(words)
        known = self._classes.layers.get(case)
        if known is None:
            known = self._classes.layers[case] = self._layer_anew(record, gang)
        return known

    def _layer_anew(self, record: Record, gang: Gang) -> QuotaLayer:
        """The same, worked out."""
        demands, labels = podset_demands(gang.podsets), self._reading.namespaces.get(record.namespace)
        standings = []
        for usage in self._usages.values():
            named = queue_named_by(usage.tree, record)
            found = judge_quota(usage, named, record.namespace, demands, namespace_labels=labels, numbers=False)
            # Without flavors nothing in it is about this gang's podsets.
            standings.append(found if usage.tree.flavors else dataclasses.replace(found, flavors={}))
        return QuotaLayer(tuple(standings))

    def _held_for_others(self, now: QuotaLayer) -> QuotaLayer:
        """What is said of a gang that fits as things are: it waits if it would take what is held for others.

        It has to fit when those have gone as well that are about to, and others have what they freed.
        """
        detail = "what is about to be freed is held for others"
        with self.after():
            standings = [
                item
                if item.leaf is not None and self._usages[item.tree].fits(item.leaf, item.amounts)
                else dataclasses.replace(item, answer="waits", reason="quota", detail=detail)
                for item in now.standings
            ]
        return now if all(map(operator.is_, standings, now.standings)) else QuotaLayer(tuple(standings))

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
        known = self._classes.leaves.get(asked)
        if known is None:
            known = find_leaf(tree, named, namespace, self._reading.namespaces.get(namespace))
            self._classes.leaves[asked] = known
        return known


def _refused(tree: QuotaTree, leaf: str | None, reason: str, detail: str) -> QuotaStanding:
    """What a tree says to a gang that waits whatever is used."""
    path = tree.path(leaf) if leaf is not None else None
    return QuotaStanding(tree.name, "waits", leaf, path, reason=reason, detail=detail)


def _outdated(usage: TreeUsage, heads: Iterable[QueueHead | None], but: str) -> list[str]:
    """The queues whose next gang does not fit any more in the flavors that it had: it may have others now."""
    there = [item for item in heads if item is not None and item.leaf != but]
    return [item.leaf for item in there if not usage.fits(item.leaf, item.amounts)]


class LatestQuotas:
    """The trees as the latest cycle counts with them, for those that tell numbers of choices that are kept."""

    def __init__(self) -> None:
        """No cycle yet."""
        self.quotas = NO_QUOTAS

    def numbered(self, layer: QuotaLayer) -> QuotaLayer:
        """See Quotas."""
        return self.quotas.numbered(layer)


# Where there is no tree.
NO_QUOTAS = Quotas(NO_TREES)
