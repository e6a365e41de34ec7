# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What decisions keep from one cycle to the next, so that a cycle costs what changed.

Invariant: everything here is a function of what it was worked out from, and is used again only for the very same: the
same objects, or, for what depends on time, before the next moment at which time could change it. A reading in which
everything is another object is slower, never wrong.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import typing as t
from collections.abc import Hashable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import HOSTNAME_LABEL, Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, Items
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Verdict
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules, Node, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import LabelSelector
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import PodIndex
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import QueuedGang
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quota_reserve import NO_END_OF_USE
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import (
    Classes,
    LatestQuotas,
    LeafCharge,
    Seats,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import Estimate
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.resizes import RunningGang
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.concurrent_starts import (
    LabelKeys,
    gang_selectors,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.fit import judge, priority_of
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.kept_room import KeptRoom
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.namespace_rules import QuotaUse
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.slot_tables import Board, NodeClass
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import SpentBudgets
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# So many kinds of gangs that wait no more are remembered for each that waits.
_MOST_FORGOTTEN = 4
# So many queues that gangs named are remembered: anybody can name any, and each only once.
_MOST_NAMED = 100_000

PodKey = tuple[str, str]
Name = tuple[str, str, str, str]


@dataclasses.dataclass(slots=True)
class Look:
    """What was seen of a gang, and what followed from it."""

    record: Record
    gang: Gang | None
    pods: Sequence[GangPod]
    owned: Sequence[Sequence[GangPod] | None]
    items: Items
    # A step that stays the same from the first of these moments until before the second, and what else it rests on.
    step: t.Any = None
    since: float = 0.0
    until: float = -math.inf
    hosts: Mapping[str, str] | None = None
    search: t.Any = None
    # That nothing was outstanding at this moment; the same pods will not be later either.
    settled_at: float | None = None
    # What it is charged with in quota trees.
    used: Mapping[str, Mapping[str, int]] | None = None
    # Its base priority with the quota trees that it was worked out with, and when it was started with its tickets.
    priority: tuple[QuotaTrees, int] | None = None
    began: tuple[Sequence[Mapping[str, t.Any]], float | None] | None = None
    # When the gang began and how long it runs, as its record and the usual time of gangs like it tell.
    end: tuple[float | None, Estimate] | None = None
    history: tuple[str | None, str] | None = None
    usual: float | None = None


@dataclasses.dataclass(slots=True, eq=False)
class WaitingNotes:
    """A waiting gang as the walk needs it; key is its place in the order."""

    record: Record
    declared: Gang
    gang: Gang
    item: QueuedGang
    key: tuple[float, float, str]
    # Why it waits whatever room there is, if its declaration is too small, and until when it pauses.
    small: str | None
    eligible: float | None
    alike: Hashable
    history: tuple[str | None, str]
    usual: float | None
    estimate: Estimate
    # Equal for gangs of which the same is said.
    kind: int
    cycle: int = 0
    choice: t.Any = None
    # Its queue in each tree.
    lane: Hashable = None
    # Why nothing of it starts whatever is used, and the budgets that this was worked out with.
    stop: QuotaStanding | None = None
    spent: t.Any = None


@dataclasses.dataclass(frozen=True)
class NotedRefusal:
    """What was said of gangs whose queue lacks quota, and whether anybody might be evicted for them."""

    quota: QuotaLayer
    said: Verdict
    about_room: bool

    @functools.cached_property
    def without_end(self) -> Verdict:
        """What is said of those that have waited so long that quota would be held, if the end of its use were known."""
        return dataclasses.replace(self.said, detail=NO_END_OF_USE)


class NotedRunning(t.NamedTuple):
    """A running elastic gang as it was seen, how many pods it has, and what that was worked out from."""

    record: Record
    gang: Gang | None
    progress: Progress | None
    trees: QuotaTrees
    running: RunningGang
    pods: int


class NotedCharge(t.NamedTuple):
    """What a started gang is charged with, and what that was worked out from."""

    record: Record
    look: Look | None
    charges: list[LeafCharge]


class Kept:
    """All that is kept; one cycle after the other uses it."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.room = KeptRoom()
        # Tables of the room to which starts are added, and of what they have to share.
        self.board, self.shared = Board(), Board()
        self.cycle = 0
        self.waiting: dict[str, WaitingNotes] = {}
        self.order: list[WaitingNotes] = []
        self.keys: LabelKeys = None
        # Refusals by class of demand, with all they depend on, and verdicts that depend on nodes only.
        self.verdicts: dict[Hashable, tuple[t.Any, Verdict]] = {}
        self._by_nodes: dict[NodeClass, tuple[t.Any, Verdict]] = {}
        # The history that estimates were last compared with.
        self.history: Mapping[tuple[str | None, str], float] = {}
        # The quota trees that places in the order were worked out with, and what follows from them alone.
        self.trees: QuotaTrees = NO_TREES
        self.entitlements: dict[str, Entitlements] = {}
        self.seats: Seats = {}
        self.classes = Classes()
        # What started gangs are charged with, one by one and in all.
        self.charged: dict[str, NotedCharge] = {}
        self.usages: dict[str, TreeUsage] = {}
        self.latest = LatestQuotas()
        # Refusals by the identity of what the trees said.
        self.refusals: dict[int, NotedRefusal] = {}
        self.spent: SpentBudgets = {}
        # Elastic gangs that run.
        self.sized: dict[str, NotedRunning] = {}
        # Waiting gangs that need no step whatever time it is.
        self.quiet: dict[str, Record] = {}
        # Numbers of classes of demand, and of kinds of gangs.
        self.kinds: dict[Hashable, int] = {}
        self._looks: dict[str, Look] = {}
        # Of all gangs: those with rules about other pods, and how many podsets name which priority.
        self._gangs: dict[str, Gang] = {}
        self._ruled: dict[str, frozenset[LabelSelector | None]] = {}
        self._priorities: collections.Counter[tuple[str | None, int | None]] = collections.Counter()
        self._pods: dict[PodKey, tuple[Sequence[GangPod], float]] = {}
        self._tickets: dict[int, tuple[Mapping[str, t.Any], tuple[Name, ...]]] = {}
        self._nodes: tuple[Node, ...] = ()
        self._hosts: dict[str, str] = {}

    def forget_trees(self, trees: QuotaTrees) -> None:
        """Begin anew with other quota trees."""
        self.trees, self.waiting, self.entitlements, self.seats, self.classes = trees, {}, {}, {}, Classes()
        self.charged, self.usages, self.refusals = {}, {}, {}

    def budgets(self, spent: SpentBudgets) -> SpentBudgets:
        """The budgets that are spent; the same object while they are the same."""
        if spent != self.spent:
            self.spent = spent
        return self.spent

    def release(self, uid: str) -> None:
        """A started gang is charged no more with what it was."""
        known = self.charged.pop(uid, None)
        for tree, leaf, amounts in known.charges if known is not None else ():
            self.usages[tree].release(leaf, amounts)

    def charge(self, uid: str, noted: NotedCharge) -> None:
        """A started gang is charged with something from now on."""
        self.charged[uid] = noted
        for tree, leaf, amounts in noted.charges:
            self.usages[tree].charge(leaf, amounts)

    def keep_only(self, uids: t.Collection[str]) -> None:
        """Forget gangs that are gone."""
        for known in (self._looks, self.waiting, self.quiet, self.seats, self.sized):
            for uid in [uid for uid in known if uid not in uids]:
                del t.cast("dict[str, t.Any]", known)[uid]
        if len(self.classes.leaves) > _MOST_NAMED:
            self.classes.leaves = {}
        if len(self.kinds) > _MOST_FORGOTTEN * (len(self.waiting) + 1000):
            self.kinds, self.verdicts, self._by_nodes, self.waiting = {}, {}, {}, {}
            self.seats, self.classes, self.refusals = {}, Classes(), {}

    def look(self, record: Record, gang: Gang | None, index: PodIndex, items: Items) -> Look:
        """What is known of a gang; nothing when anything of it is not what it was."""
        place = (record.namespace, record.uid)
        pods = index.by_gang.get(place, ())
        owned: Sequence[Sequence[GangPod] | None] = ()
        if index.by_owner:
            uids = [obj["metadata"]["uid"] for obj in items.values() if obj is not None]
            owned = [index.by_owner.get((record.namespace, uid)) for uid in uids]
        known = self._looks.get(record.uid)
        if (
            known is None
            or known.record is not record
            or known.gang is not gang
            or known.pods != pods
            or known.owned != owned
            or known.items != items
        ):
            known = self._looks[record.uid] = Look(record, gang, pods, owned, items)
        return known

    def hosts(self, snapshot: Snapshot) -> Mapping[str, str]:
        """The host name labels of all nodes; the same object while they are the same nodes."""
        if snapshot.nodes != self._nodes:
            self._hosts = {node.name: node.labels.get(HOSTNAME_LABEL, node.name) for node in snapshot.nodes}
        self._nodes = snapshot.nodes
        return self._hosts

    def selectors(self, gangs: Mapping[str, Gang]) -> set[LabelSelector | None]:
        """By which labels the pods of any gang choose their neighbours."""
        known = self._gangs
        for uid in known.keys() - gangs.keys():
            self._forget_gang(uid)
        for uid in [uid for uid, gang in gangs.items() if known.get(uid) is not gang]:
            if uid in known:
                self._forget_gang(uid)
            gang = known[uid] = gangs[uid]
            self._priorities.update(_priorities(gang))
            selectors = gang_selectors(gang)
            if selectors:
                self._ruled[uid] = frozenset(selectors)
        return {item for selectors in self._ruled.values() for item in selectors}

    def _forget_gang(self, uid: str) -> None:
        """Let go of what all gangs have in common with this one."""
        gang = self._gangs.pop(uid, None)
        self._ruled.pop(uid, None)
        if gang is not None:
            self._priorities.subtract(_priorities(gang))
            self._priorities = +self._priorities

    def least_priority(self, snapshot: Snapshot) -> int:
        """The lowest priority of any gang that selectors was called for."""
        classes, default = snapshot.priorities, snapshot.default_priority
        return min((priority_of(*item, classes, default) for item in self._priorities), default=0)

    def recent_pods(self, index: PodIndex, since: float) -> Iterator[GangPod]:
        """Pods of gangs of which at least one was created after a moment."""
        known, self._pods = self._pods, {}
        for found in (index.by_gang, index.by_owner):
            for place, pods in found.items():
                note = known.get(place)
                if note is None or note[0] != pods:
                    note = pods, max((pod.created for pod in pods), default=0.0)
                self._pods[place] = note
                if note[1] > since:
                    yield from pods

    def ticket_names(
        self, ticket: Mapping[str, t.Any], read: t.Callable[[Mapping[str, t.Any]], tuple[Name, ...]]
    ) -> tuple[Name, ...]:
        """The objects a ticket lists, read once."""
        known = self._tickets.get(id(ticket))
        if known is None or known[0] is not ticket:
            known = self._tickets[id(ticket)] = ticket, read(ticket)
        return known[1]

    def keep_tickets(self, tickets: t.Iterable[Mapping[str, t.Any]], most: int) -> None:
        """Forget tickets that are gone, when those that are known are many more than there are."""
        if len(self._tickets) > 2 * most + 100:
            alive = {id(ticket) for ticket in tickets}
            self._tickets = {key: item for key, item in self._tickets.items() if key in alive}

    def judge(self, alike: Hashable, room: Room, gang: Gang, taken: QuotaUse | None) -> Verdict:
        """The verdict on a gang; a refusal is told again to gangs that are alike while nothing of it changed."""
        rules = room.snapshot.rules.get(gang.namespace, NamespaceRules())
        used = sorted((key, amount) for key, amount in taken.items() if key[0] == gang.namespace) if taken else []
        nodes = self.board.changes(room), self.room.settings, room.lowest_priority
        basis = nodes, rules, used
        known = self.verdicts.get(alike)
        if known is not None and known[0] == basis:
            return known[1]
        # Where the namespace has nothing to say, gangs of all namespaces are judged by nodes alone.
        alone, snapshot = None, room.snapshot
        if snapshot.nodes_visible and not (rules.quotas or rules.limit_ranges or snapshot.unread):
            alone = self.board.node_class(gang, room)
        by_nodes = self._by_nodes.get(alone) if alone is not None else None
        if by_nodes is not None and by_nodes[0] == nodes:
            verdict = _told_of(by_nodes[1], gang)
        else:
            verdict = judge(room, gang, taken, self.board.assess)
            if alone is not None and not verdict.steering:
                self._by_nodes[alone] = nodes, verdict
        if verdict.answer != "fits" and not verdict.space.problems:
            self.verdicts[alike] = basis, verdict
        return verdict


def _priorities(gang: Gang) -> list[tuple[str | None, int | None]]:
    """Class and number of the priority of each podset."""
    return [(podset.constraints.priority_class, podset.constraints.priority) for podset in gang.podsets]


def _told_of(verdict: Verdict, gang: Gang) -> Verdict:
    """A verdict that nodes alone decided, told of another gang of the same podsets, whatever they are called."""
    names = [podset.name for podset in gang.podsets]
    podsets = tuple(dataclasses.replace(item, name=name) for item, name in zip(verdict.podsets, names, strict=True))
    placement = verdict.placement
    if placement is not None:
        placement = dict(zip(names, placement.values(), strict=True))
    return dataclasses.replace(verdict, gang=gang.name, namespace=gang.namespace, podsets=podsets, placement=placement)
