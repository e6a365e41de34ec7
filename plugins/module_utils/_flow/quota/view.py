# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The quota trees of a cluster with what is used of them, as far as this account may see it.

Where the records of all namespaces may not be listed, the amounts count that the dispatcher published.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.metered import MeterReading, read_meters
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import (
    NO_USE,
    UNSEEN_NOTE,
    UseReading,
    read_use,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Advice
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import used_by_users
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.ways import (
    FlavoredGang,
    HasNodes,
    Ways,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.advice import quota_advice
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import judge_quota, with_numbers
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import has_budgets, spent_budgets
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.limits import (
    NO_LIMITS,
    NOBODY,
    Claimant,
    Limits,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.published import charged_by_status
from ansible_collections.muster.kube.plugins.module_utils._store.quota_status import read_status
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import (
    StoredTree,
    list_stored_trees,
    read_stored_tree,
)

# Says which queue of a tree is named by whoever asks; None where none is.
Naming = Callable[[QuotaTree], "str | None"]
_PUBLISHED_NOTE = "this account may not list the records of all gangs; amounts are those that a dispatcher published"
_HIDDEN = "this account may not list the records of all gangs, and no dispatcher has published amounts"


@dataclasses.dataclass(frozen=True, slots=True)
class SeenTree:
    """One tree and what is used of it; as_of tells when that was so, published that a dispatcher told it.

    charged is None where nobody can tell what is used; problem says why.
    """

    stored: StoredTree
    charged: ChargedTree | None = None
    as_of: str | None = None
    published: bool = False
    problem: str | None = None

    @property
    def word(self) -> str | None:
        """The reason why nothing can be told of the tree; None when it can."""
        if self.stored.tree is None:
            return "quota_unreadable"
        return "quota_not_visible" if self.charged is None else None


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaView:
    """All trees in question, by name, and what was read to tell what is used of them.

    limits are those besides amounts, meters what was read for them; None where no queue has a budget.
    """

    trees: tuple[SeenTree, ...]
    use: UseReading
    notes: tuple[str, ...] = ()
    limits: Limits = NO_LIMITS
    meters: MeterReading | None = None
    now: float = 0.0

    @property
    def as_of(self) -> str | None:
        """When the oldest of the published amounts was told; None when all were counted just now."""
        return min((item.as_of for item in self.trees if item.published and item.as_of is not None), default=None)

    def layer(
        self, naming: Naming, namespace: str, podsets: Sequence[PodSet], claimant: Claimant = NOBODY
    ) -> tuple[QuotaLayer | None, tuple[Advice, ...]]:
        """What all trees say to a gang, and what would help it; no layer where there is no tree."""
        if not self.trees:
            return None, ()
        labels = self.use.namespace_labels.get(namespace)
        standings: list[QuotaStanding] = []
        advice: list[Advice] = []
        for item in self.trees:
            standing = _standing(item, naming, namespace, podsets, labels)
            if item.charged is not None and item.stored.tree is not None and item.stored.tree.counted_by == "embedded":
                standing, found = self._limited(item.charged, standing, podsets, namespace, claimant)
                advice += found
            standings.append(standing)
        return QuotaLayer(tuple(standings)), tuple(advice)

    def _limited(
        self,
        charged: ChargedTree,
        standing: QuotaStanding,
        podsets: Sequence[PodSet],
        namespace: str,
        claimant: Claimant,
    ) -> tuple[QuotaStanding, tuple[Advice, ...]]:
        """What a tree says to a gang with the limit that keeps it waiting, if one does, and what would help it."""
        usage, demands = charged.usage, podset_demands(podsets)

        def is_barred(leaf: str) -> bool:
            """Whether a limit would keep the gang waiting in another leaf as well."""
            return self.limits.reached(usage.tree, leaf, claimant._replace(record=None), demands) is not None

        said = standing.limited(self.limits.reached(usage.tree, standing.leaf, claimant, demands))
        labels = self.use.namespace_labels.get(namespace)
        return said, quota_advice(usage, said, podsets, namespace, labels, is_barred=is_barred)

    def ways(self, naming: Naming, gang: Gang, reachable: Collection[str], has_nodes: HasNodes) -> Ways | None:
        """The ways to start a gang where trees have flavors; None where none has, or a tree has no queue for it."""
        labels = self.use.namespace_labels.get(gang.namespace)
        leaves = []
        for item in self.trees:
            tree = item.stored.tree
            if tree is None or tree.counted_by != "embedded" or item.charged is None:
                return None
            choice = find_leaf(tree, naming(tree), gang.namespace, labels)
            if choice.leaf is None or choice.reason is not None:
                return None
            leaves.append((item.charged.usage, choice.leaf.name))
        if not any(usage.tree.flavors for usage, _leaf in leaves):
            return None
        return Ways(FlavoredGang(gang, [usage.tree for usage, _leaf in leaves], reachable), leaves, has_nodes)

    def told(self, layer: QuotaLayer, gang: Gang, claimant: Claimant = NOBODY) -> tuple[QuotaLayer, tuple[Advice, ...]]:
        """A way to start a gang with the numbers of its queues, and what would help it."""
        charged = {item.stored.name: item.charged for item in self.trees if item.charged is not None}
        found = [
            self._limited(
                charged[item.tree], with_numbers(charged[item.tree].usage, item), gang.podsets, gang.namespace, claimant
            )
            for item in layer.standings
        ]
        standings, advice = [standing for standing, _advice in found], [advice for _standing, advice in found]
        return QuotaLayer(tuple(standings)), tuple(itertools.chain(*advice))


NO_VIEW = QuotaView((), NO_USE)


def read_view(client: KubeClient, lease: LeaseOptions, tree: str | None = None) -> QuotaView:
    """The trees beside a Lease, or the one of this name, with what is used of them."""
    if tree is None:
        stored = list_stored_trees(client, lease.namespace)
    else:
        found = read_stored_tree(client, lease.namespace, tree)
        stored = [] if found is None or found.foreign else [found]
    if not stored:
        return NO_VIEW
    use = read_use(client, lease)
    moment = client.server_time.timestamp() if client.server_time else 0.0
    trees = tuple(_seen(client, lease, item, use, time_text(moment) if moment else None) for item in stored)
    counted = [item.stored.tree for item in trees if item.stored.tree is not None]
    counted = [item for item in counted if item.counted_by == "embedded"]
    meters = read_meters(client, lease.namespace) if has_budgets(counted) else None
    told = [f"published amounts of the tree {item.stored.name}: {item.problem}" for item in trees if item.problem]
    published = any(item.published for item in trees)
    notes = [_PUBLISHED_NOTE if published and note == UNSEEN_NOTE else note for note in use.notes]
    return QuotaView(trees, use, (*notes, *told), _limits(counted, use, meters, moment), meters, moment)


def _limits(trees: Sequence[QuotaTree], use: UseReading, meters: MeterReading | None, now: float) -> Limits:
    """What is known of limits besides amounts."""
    spent = {} if meters is None or meters.meters is None else spent_budgets(trees, meters.meters, meters.now)
    if use.holders is None:
        return Limits(spent)
    return Limits(spent, used_by_users(QuotaTrees(tuple(trees), namespaces=use.namespace_labels), use.holders, now))


def _seen(client: KubeClient, lease: LeaseOptions, stored: StoredTree, use: UseReading, now: str | None) -> SeenTree:
    """One tree: counted, or as it was published."""
    if stored.tree is None:
        return SeenTree(stored)
    charged = use.charged(stored.tree)
    if charged is not None:
        return SeenTree(stored, charged, now)
    status, problem = read_status(client, lease.namespace, stored.name)
    if status is None:
        return SeenTree(stored, problem=problem)
    return SeenTree(stored, charged_by_status(stored.tree, status), status.as_of, published=True)


def _standing(
    seen: SeenTree, naming: Naming, namespace: str, podsets: Sequence[PodSet], labels: Mapping[str, str] | None
) -> QuotaStanding:
    """What one tree says to a gang."""
    tree = seen.stored.tree
    if tree is None:
        return QuotaStanding(seen.stored.name, "waits", reason="quota_unreadable", detail=seen.stored.unreadable or "")
    if tree.counted_by != "embedded":
        return QuotaStanding(tree.name, "waits", reason="queue_held", detail=f"{tree.counted_by} hands out the tree")
    if seen.charged is None:
        return QuotaStanding(tree.name, "waits", reason="quota_not_visible", detail=_HIDDEN)
    return judge_quota(seen.charged.usage, naming(tree), namespace, podset_demands(podsets), namespace_labels=labels)
