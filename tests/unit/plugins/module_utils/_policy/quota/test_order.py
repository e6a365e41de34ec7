# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Order between queues: nominal before borrowing, then shares, counted anew after each start."""

from __future__ import annotations

import collections
import random

from ansible_collections.muster.kube.plugins.module_utils._policy.quota.order import FairOrder, QueueHead
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import (
    GPU,
    gpus,
    queue,
    random_demand,
    random_tree,
    small_tree,
)
from ansible_collections.muster.kube.tests.support.random_size import examples

NAME = GPU.resource


def head(leaf, count, submitted=0, priority=0, uid=""):
    return QueueHead(leaf, uid or f"{leaf}-{submitted}", gpus(count), (-priority, submitted))


def flat(**nominal):
    return small_tree(*(queue(name, nominal={NAME: count}) for name, count in nominal.items()))


def drained(usage, gangs, most=10**6):
    """Start what fits in the order asked, until no queue has a gang left; says who started."""
    waiting = {leaf: collections.deque(items) for leaf, items in gangs.items()}
    order = FairOrder(usage, [items.popleft() for items in waiting.values() if items])
    started = []
    while (first := order.next()) is not None and len(started) < most:
        if usage.fits(first.leaf, first.amounts):
            usage.charge(first.leaf, first.amounts)
            started.append(first)
        rest = waiting[first.leaf]
        order.offer(first.leaf, rest.popleft() if rest else None)
    return started


def test_gang_within_nominal_goes_before_an_older_one_that_would_borrow():
    order = FairOrder(TreeUsage(flat(a=2, b=4)), [head("a", 3, submitted=1), head("b", 4, submitted=2)])
    assert order.next().leaf == "b"


def test_among_those_within_nominal_the_order_within_a_queue_decides():
    usage = TreeUsage(flat(a=4, b=4, c=4))
    order = FairOrder(usage, [head("a", 1, 2), head("b", 1, 1), head("c", 1, 3, priority=5)])
    assert order.next().leaf == "c"
    order.offer("c", None)
    assert order.next().leaf == "b"


def test_borrower_with_the_least_share_goes_first_with_its_gang_added():
    usage = TreeUsage(flat(a=0, b=0, lender=20))
    usage.charge("b", gpus(1))
    order = FairOrder(usage, [head("a", 4, 1), head("b", 2, 2)])
    assert order.next().leaf == "b"


def test_shares_are_counted_anew_after_each_start():
    tree = small_tree(queue("a", weight=1), queue("b", weight=3), queue("lender", nominal={NAME: 8}))
    gangs = {leaf: [head(leaf, 1, number) for number in range(8)] for leaf in ("a", "b")}
    started = drained(TreeUsage(tree), gangs)
    assert len(started) == 8
    assert collections.Counter(item.leaf for item in started) == {"a": 2, "b": 6}


def test_shares_of_queues_above_go_before_those_below():
    tree = small_tree(
        queue("x"),
        queue("y"),
        queue("x1", "x"),
        queue("x2", "x"),
        queue("y1", "y"),
        queue("lender", nominal={NAME: 12}),
    )
    gangs = {leaf: [head(leaf, 1, number) for number in range(12)] for leaf in ("x1", "x2", "y1")}
    started = drained(TreeUsage(tree), gangs)
    assert collections.Counter(item.leaf for item in started) == {"x1": 3, "x2": 3, "y1": 6}


def test_weight_zero_borrows_after_everybody_else():
    tree = small_tree(queue("a", weight=0), queue("b"), queue("lender", nominal={NAME: 3}))
    gangs = {leaf: [head(leaf, 1, number) for number in range(2)] for leaf in ("a", "b")}
    assert [item.leaf for item in drained(TreeUsage(tree), gangs)] == ["b", "b", "a"]


def test_tree_of_one_queue_has_its_own_order():
    usage = TreeUsage(small_tree(queue("root", nominal={NAME: 2})))
    order = FairOrder(usage, [head("root", 1, 1)])
    assert order.next().uid == "root-1"
    order.offer("root", head("root", 5, 2))
    assert order.next().uid == "root-2"
    order.offer("root", None)
    assert order.next() is None


def slow_next(usage, heads):
    """The whole comparison anew: class first, then from the root down the least share with the gang added."""

    def best(name, borrows):
        if not usage.tree.children[name]:
            found = heads.get(name)
            return found if found and usage.borrows_with(name, found.amounts) == borrows else None
        rivals = [(child, best(child, borrows)) for child in usage.tree.children[name]]
        ranked = [
            ((*usage.share_with(child, one.leaf, one.amounts).order, one.rank, one.uid), one)
            for child, one in rivals
            if one
        ]
        return min(ranked, key=lambda item: item[0])[1] if ranked else None

    root = usage.tree.root.name
    return best(root, False) or best(root, True)


def test_kept_order_is_that_of_a_whole_comparison_at_each_step():
    chance = random.Random(11)
    for _number in range(examples(30)):
        tree = random_tree(chance)
        usage = TreeUsage(tree)
        heads = {}
        order = FairOrder(usage)
        for step in range(40):
            leaf = chance.choice(tree.leaves).name
            offered = QueueHead(leaf, f"g{step}", random_demand(chance, tree), (chance.randint(0, 3), step))
            if chance.random() < 0.2:
                heads.pop(leaf, None)
                order.offer(leaf, None)
            elif chance.random() < 0.7:
                heads[leaf] = offered
                order.offer(leaf, offered)
            else:
                usage.charge(leaf, offered.amounts)
                order.recount(leaf)
            assert order.next() == slow_next(usage, heads)


def test_every_queue_enters_the_order_once_however_many_it_has_below():
    leaves = [queue(f"q{number}", f"e{number // 10}", nominal={NAME: 1}) for number in range(100)]
    tree = small_tree(*(queue(f"e{number}") for number in range(10)), *leaves)
    order = FairOrder(TreeUsage(tree), [head(leaf["name"], 1, number) for number, leaf in enumerate(leaves)])
    assert order.entries == len(tree.queues) - 1
    assert order.next().leaf == "q0"
