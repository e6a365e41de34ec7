# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From a tree with what is used of it to what is published, and back."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QueueLevel
from ansible_collections.muster.kube.plugins.module_utils._model.quota.status import AMOUNTS, QueueStatus, TreeStatus
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_digest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree, LeafCounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage


def published_status(charged: ChargedTree, as_of: str) -> TreeStatus:
    """The amounts of every queue; gangs of inner queues are those of the leaves below."""
    tree = charged.usage.tree
    sums = {queue.name: LeafCounts() for queue in tree.queues}
    for leaf, counts in charged.counts.items():
        for name in tree.ancestry(leaf):
            sums[name].started += counts.started
            sums[name].waiting += counts.waiting
    queues = {
        name: QueueStatus(counts.started, counts.waiting, _amounts(charged.usage.standing(name)))
        for name, counts in sums.items()
    }
    return TreeStatus(tree.name, tree_digest(tree), as_of, queues)


def charged_by_status(tree: QuotaTree, status: TreeStatus) -> ChargedTree:
    """A tree with what is used of its leaves as it was published; everything else follows from that.

    Leaves that are new since have no use yet; what was used of leaves that are gone is nobody's any more.
    """
    usage = TreeUsage(tree)
    counts = {leaf.name: LeafCounts() for leaf in tree.leaves}
    for leaf in tree.leaves:
        told = status.queues.get(leaf.name)
        if told is not None:
            usage.charge(leaf.name, told.used)
            counts[leaf.name] = LeafCounts(told.started, told.waiting)
    return ChargedTree(usage, counts, ())


def _amounts(levels: tuple[QueueLevel, ...]) -> dict[str, QuotaAmounts]:
    return {word: {level.key: getattr(level, word) for level in levels} for word in AMOUNTS}
