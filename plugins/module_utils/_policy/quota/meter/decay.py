# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Usage over time: what was used long ago counts less, half after each half-life.

A second that lies t seconds back has the weight 2^(-t / half_life). All seconds there ever were have half_life / ln 2
together, so that the weighted seconds of an amount, divided by that, are the amount that was used on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, add_amounts
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import QueueHead
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# Averages of scaled amounts by leaf and resource.
Averages = Mapping[str, Mapping[str, float]]
# The part of what is used now in the average that queues are compared by: that of a hundredth of a half-life from now.
PRESENT = 1 - 2**-0.01


def remaining(seconds: float, half_life: float) -> float:
    """The weight of what was used so many seconds ago; what is told of a moment ahead counts whole."""
    return math.exp2(-max(0.0, seconds) / half_life)


def weighted_seconds(begin: float, end: float, now: float, half_life: float) -> float:
    """The seconds from one moment to another, each by its weight as of now."""
    whole = remaining(now - end, half_life) - remaining(now - begin, half_life)
    return max(0.0, whole) * half_life / math.log(2)


def decayed(amounts: QuotaAmounts, seconds: float, half_life: float) -> dict[FlavorResource, int]:
    """Weighted seconds of amounts, so many seconds later."""
    weight = remaining(seconds, half_life)
    found = {key: math.floor(amount * weight) for key, amount in amounts.items()}
    return {key: amount for key, amount in found.items() if amount}


def averages(tree: QuotaTree, meters: Iterable[Meter], now: float) -> dict[str, dict[str, float]]:
    """What each leaf of a tree used on average until now; flavors of a resource count together.

    Gangs that meters have as open are counted as if they had gone on until now.
    """
    half_life = tree.settings.half_life
    found: dict[str, dict[str, float]] = {}
    for meter in meters:
        if meter.tree != tree.name:
            continue
        mine = found.setdefault(meter.queue, {})
        total = decayed(meter.recent, now - meter.as_of, half_life)
        for _uid, gang in sorted(meter.open.items()):
            seconds = weighted_seconds(min(gang.until, now), now, now, half_life)
            add_amounts(total, {key: math.floor(amount * seconds) for key, amount in gang.amounts.items()})
        for key, amount in sorted(total.items()):
            mine[key.resource] = mine.get(key.resource, 0.0) + amount * math.log(2) / half_life
    return found


class UsageShares:
    """What queues are compared by: their average use of the tree's scarcest resource, by their weight."""

    def __init__(self, usage: TreeUsage, before: Averages) -> None:
        """Take what is used now, which the caller goes on charging, and what each leaf used on average until now."""
        tree = usage.tree
        self._usage = usage
        self._keys = {name: [key for key in tree.keys if key.resource == name] for name in tree.resources}
        self._before: dict[str, dict[str, float]] = {}
        for leaf in tree.leaves:
            for name in tree.ancestry(leaf.name):
                total = self._before.setdefault(name, {})
                for resource, amount in before.get(leaf.name, {}).items():
                    total[resource] = total.get(resource, 0.0) + amount
        root = tree.root.name
        self._whole = {name: sum(usage.level(root, key).nominal for key in keys) for name, keys in self._keys.items()}

    def order(self, queue: str, head: QueueHead) -> tuple[bool, float]:
        """The share of a queue with a gang of a leaf below it added; with weight 0 it comes after everybody else."""
        before = self._before.get(queue, {})
        share = 0.0
        for resource, keys in self._keys.items():
            if self._whole[resource]:
                present = sum(self._usage.used(queue, key) + head.amounts.get(key, 0) for key in keys)
                average = (1 - PRESENT) * before.get(resource, 0.0) + PRESENT * present
                share = max(share, average / self._whole[resource])
        weight = self._usage.tree.by_name[queue].weight
        return not weight, share / float(weight) if weight else share
