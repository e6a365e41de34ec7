# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Budgets: what queues have used in the present period, and which of them may start nothing more in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import ReachedLimit
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, add_amounts
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QueueBudget,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.accrual import period_of
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.hours import (
    HOUR,
    hours_text,
    hours_words,
)

# Meters by tree and queue.
Meters = Mapping[tuple[str, str], Meter]
# What is said to gangs of queues whose budget is spent, by tree and queue.
SpentBudgets = Mapping[tuple[str, str], ReachedLimit]


@dataclasses.dataclass(frozen=True, slots=True)
class BudgetStanding:
    """One resource of a budget: scaled amounts times seconds that were used, how many there are, and until when."""

    queue: str
    resource: str
    used: int
    limit: int
    reset: int

    @property
    def spent(self) -> bool:
        """Whether nothing of it is left."""
        return self.used >= self.limit


def budget_standings(tree: QuotaTree, meters: Meters, now: float) -> Iterator[BudgetStanding]:
    """Where the budgets of a tree stand in the period that is now."""
    for queue in tree.queues:
        if queue.budget is not None:
            yield from _standings(tree, queue.name, queue.budget, meters, now)


def spent_budgets(trees: Iterable[QuotaTree], meters: Meters, now: float) -> dict[tuple[str, str], ReachedLimit]:
    """The queues that may start nothing more in their period, and why."""
    found: dict[tuple[str, str], ReachedLimit] = {}
    for tree in trees:
        for item in budget_standings(tree, meters, now):
            if item.spent:
                found.setdefault((tree.name, item.queue), _spent(tree, item))
    return found


def spent_budget(spent: SpentBudgets, tree: QuotaTree, leaf: str | None) -> ReachedLimit | None:
    """The budget that keeps gangs of a leaf waiting: its own, or one of a queue above it."""
    names = tree.ancestry(leaf) if spent and leaf is not None else ()
    return next((spent[tree.name, name] for name in names if (tree.name, name) in spent), None)


def has_budgets(trees: Iterable[QuotaTree]) -> bool:
    """Whether any queue has a budget, so that somebody has to know the meters."""
    return any(queue.budget is not None for tree in trees for queue in tree.queues)


def leaves_below(tree: QuotaTree, queue: str) -> list[str]:
    """The leaves that a queue is above of; itself if it is one."""
    return [leaf.name for leaf in tree.leaves if queue in tree.ancestry(leaf.name)]


def used_in(tree: QuotaTree, queue: str, meters: Meters, months: Iterable[str]) -> QuotaAmounts:
    """What all leaves below a queue used in these months."""
    total: dict[FlavorResource, int] = {}
    wanted = tuple(months)
    for leaf in leaves_below(tree, queue):
        meter = meters.get((tree.name, leaf))
        by_month = meter.by_month if meter is not None else {}
        for month in wanted:
            add_amounts(total, by_month.get(month, {}))
    return total


def _standings(
    tree: QuotaTree, queue: str, budget: QueueBudget, meters: Meters, now: float
) -> Iterator[BudgetStanding]:
    """Each resource of one budget; flavors of it count together."""
    months, reset = period_of(now, budget.period)
    used = used_in(tree, queue, meters, months)
    for resource, hours in sorted(budget.hours.items()):
        amount = sum(item for key, item in used.items() if key.resource == resource)
        yield BudgetStanding(queue, resource, amount, hours * HOUR, reset)


def _spent(tree: QuotaTree, item: BudgetStanding) -> ReachedLimit:
    """That nothing is left, with the numbers."""
    used, limit = (hours_text(item.resource, amount) for amount in (item.used, item.limit))
    path, reset = tree.path(item.queue), time_text(item.reset)
    words = f"{path} has used {used} of {limit} {hours_words(item.resource)}; the next period begins {reset}"
    return ReachedLimit("budget_spent", "budget", path, used, limit, words, item.resource, reset)
