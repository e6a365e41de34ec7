# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tree says to one gang: its leaf, the flavors of its podsets, and whether they fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QueueLevel
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import NodesOf, choose_flavors
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

Demands = Mapping[str, Mapping[str, int]]

# A verdict names no more queues than anybody reads, of each resource.
_MOST_BORROWERS = 5


def judge_quota(
    usage: TreeUsage,
    named: str | None,
    namespace: str,
    demands: Demands,
    *,
    namespace_labels: Mapping[str, str] | None = None,
    has_nodes: NodesOf | None = None,
    numbers: bool = True,
) -> QuotaStanding:
    """Whether a gang of a namespace, which may name a queue, could start now as far as this tree is concerned.

    Without the numbers nothing but the answer is worked out: most gangs are asked far more often than told.
    """
    tree = usage.tree
    choice = find_leaf(tree, named, namespace, namespace_labels)
    if choice.leaf is None:
        return QuotaStanding(tree.name, "waits", reason=choice.reason, detail=choice.detail)
    leaf, path = choice.leaf.name, tree.path(choice.leaf.name)
    flavors, amounts = choose_flavors(usage, leaf, demands, has_nodes)
    found = usage.answer(leaf, amounts) if numbers else usage.bare_answer(leaf, amounts)
    reason = choice.reason or (None if found.answer == "fits" else "quota")
    return QuotaStanding(
        tree=tree.name,
        # Who may not start here waits even if there is room: another queue or another time may do.
        answer="waits" if choice.reason and found.answer == "fits" else found.answer,
        leaf=leaf,
        path=path,
        borrows=found.borrows,
        reason=reason,
        detail=choice.detail,
        flavors=flavors,
        amounts=amounts,
        short=found.short,
        levels=found.levels,
        borrowers=borrowers(usage, leaf, found.short),
    )


def with_numbers(usage: TreeUsage, said: QuotaStanding) -> QuotaStanding:
    """What was said of a gang, with the numbers of its queues as they are by now."""
    if said.leaf is None:
        return said
    found = usage.answer(said.leaf, said.amounts)
    lending = borrowers(usage, said.leaf, found.short)
    return dataclasses.replace(said, short=found.short, levels=found.levels, borrowers=lending)


def borrowers(usage: TreeUsage, leaf: str, short: QuotaAmounts) -> tuple[QueueLevel, ...]:
    """The other leaves that use more than their own of what is short, those that do most of it."""
    found: list[QueueLevel] = []
    for key in sorted(short):
        holding = [(usage.borrowed(other.name, key), other.name) for other in usage.tree.leaves if other.name != leaf]
        most = sorted((item for item in holding if item[0]), key=lambda item: (-item[0], item[1]))[:_MOST_BORROWERS]
        found += [usage.level(name, key) for _borrowed, name in most]
    return tuple(found)
