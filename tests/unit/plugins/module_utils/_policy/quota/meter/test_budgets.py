# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Budgets: what is used of them in the present period, in all queues below."""

from __future__ import annotations

import datetime

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, MeterRow, Owner
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import (
    budget_standings,
    has_budgets,
    spent_budgets,
)
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

NOW = datetime.datetime(2026, 5, 20, tzinfo=datetime.UTC).timestamp()
ANN, BOB = Owner("ann", "a"), Owner("bob", "b")
HOUR = 3600


def cpu(cores, flavor=""):
    return {FlavorResource(flavor, "cpu"): cores * 1000 * HOUR}


def meters(**rows):
    """Core hours by queue, month and user."""
    return {
        ("default", name): Meter(
            "default", name, sums={MeterRow(month, owner): cpu(hours) for month, owner, hours in given}
        )
        for name, given in rows.items()
    }


def tree(period="month", hours=10, above=None):
    below = queue("x", nominal={"cpu": 1}, budget={"hours": {"cpu": hours}, "period": period})
    root = queue("root", **({} if above is None else {"budget": {"hours": {"cpu": above}}}))
    return small_tree(root, below, queue("y", nominal={"cpu": 1}))


def test_a_budget_is_spent_when_all_of_it_is_used():
    given = tree()
    used = meters(x=[("2026-05", ANN, 4), ("2026-05", BOB, 5), ("2026-04", ANN, 100)], y=[("2026-05", ANN, 50)])
    assert not spent_budgets([given], used, NOW)
    used = meters(x=[("2026-05", ANN, 4), ("2026-05", BOB, 6)])
    ((place, limit),) = spent_budgets([given], used, NOW).items()
    assert place == ("default", "x")
    assert limit.words == "root/x has used 10 of 10 hours of cpu; the next period begins 2026-06-01T00:00:00Z"
    assert limit.as_dict() == {
        "kind": "budget",
        "queue": "root/x",
        "resource": "cpu",
        "used": "10",
        "limit": "10",
        "reset": "2026-06-01T00:00:00Z",
    }


@pytest.mark.parametrize(("period", "spent"), [("month", False), ("quarter", True), ("year", True)])
def test_periods(period, spent):
    used = meters(x=[("2026-05", ANN, 4), ("2026-04", BOB, 6)])
    assert bool(spent_budgets([tree(period)], used, NOW)) == spent


def test_a_queue_above_others_counts_all_below():
    used = meters(x=[("2026-05", ANN, 4)], y=[("2026-05", ANN, 8)])
    assert list(spent_budgets([tree(above=12)], used, NOW)) == [("default", "root")]
    assert not spent_budgets([tree(above=13)], used, NOW)


def test_a_budget_of_nothing_is_spent_at_once_and_flavors_count_together():
    assert spent_budgets([tree(hours=0)], {}, NOW)
    rows = {MeterRow("2026-05", ANN): {**cpu(6, "fast"), **cpu(4, "slow")}}
    assert spent_budgets([tree()], {("default", "x"): Meter("default", "x", sums=rows)}, NOW)


def test_where_it_stands():
    found = list(budget_standings(tree(), meters(x=[("2026-05", ANN, 4)]), NOW))
    (item,) = found
    assert (item.queue, item.resource, item.used, item.limit, item.spent) == (
        "x",
        "cpu",
        4000 * HOUR,
        10_000 * HOUR,
        False,
    )
    assert has_budgets([tree()])
    assert not has_budgets([small_tree(queue("x"))])
