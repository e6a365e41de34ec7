# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tree says to a gang, from its leaf and its podsets to the numbers of each queue."""

from __future__ import annotations

import dataclasses
import random

from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import assign_flavors
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import borrowers, judge_quota
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import (
    GPU,
    gpus,
    queue,
    random_charges,
    random_tree,
    small_tree,
)
from ansible_collections.muster.kube.tests.support.random_size import examples

NAME = GPU.resource


def usage(**charges):
    tree = small_tree(
        queue("a", nominal={NAME: 4}, namespaces=["mine"]),
        queue("b", nominal={NAME: 4}),
        queue("c", nominal={NAME: 4}),
        queue("held", stop="hold"),
    )
    found = TreeUsage(tree)
    for leaf, count in charges.items():
        found.charge(leaf, gpus(count))
    return found


def test_gang_that_fits_is_told_what_it_would_be_charged():
    found = judge_quota(usage(), None, "mine", {"w": {NAME: 5, "cpu": 9}})
    assert (found.answer, found.reason, found.borrows) == ("fits", None, True)
    assert (found.leaf, found.path, found.amounts, found.flavors) == ("a", "root/a", gpus(5), {"w": ""})
    assert found.borrowers == ()


def test_gang_that_waits_is_told_who_borrows_what_is_short():
    found = judge_quota(usage(b=7, c=5), None, "mine", {"w": {NAME: 1}, "v": {NAME: 1}})
    assert (found.answer, found.reason, found.short) == ("waits", "quota", gpus(2))
    assert [(level.path, level.borrowed) for level in found.borrowers] == [("root/b", 3), ("root/c", 1)]


def test_own_queue_is_not_among_its_borrowers():
    assert borrowers(usage(b=12), "b", gpus(1)) == ()
    assert borrowers(usage(b=12), "a", {}) == ()


def test_gang_without_a_queue_waits_for_one():
    found = judge_quota(usage(), "gone", "mine", {"w": {NAME: 1}})
    assert (found.answer, found.reason, found.leaf) == ("waits", "queue_unknown", None)


def test_held_queue_keeps_back_what_would_fit_and_tells_what_never_does():
    assert judge_quota(usage(), "held", "x", {"w": {NAME: 1}}).reason == "queue_held"
    assert judge_quota(usage(), "held", "x", {"w": {NAME: 1}}).answer == "waits"
    assert judge_quota(usage(), "held", "x", {"w": {NAME: 13}}).answer == "never"
    assert judge_quota(usage(), "a", "x", {"w": {NAME: 1}}).reason == "queue_forbidden"


def test_of_many_borrowers_those_that_hold_most_are_named():
    leaves = [queue(f"q{number}") for number in range(9)]
    found = TreeUsage(small_tree(queue("lender", nominal={NAME: 100}), *leaves))
    for number in range(9):
        found.charge(f"q{number}", gpus(number))
    assert [level.queue for level in borrowers(found, "lender", gpus(1))] == ["q8", "q7", "q6", "q5", "q4"]


def test_answer_without_numbers_is_the_same_answer():
    chance = random.Random(16)
    seen = set()
    for _number in range(examples(60)):
        where = TreeUsage(random_tree(chance))
        random_charges(chance, where, 6)
        leaf = chance.choice(where.tree.leaves).name
        demands = {name: {"cpu": 1000 * chance.randint(0, 5), NAME: chance.randint(0, 5)} for name in "ab"}
        whole = judge_quota(where, leaf, "x", demands)
        assert whole.amounts == assign_flavors(where, leaf, demands).amounts
        bare = judge_quota(where, leaf, "x", demands, numbers=False)
        assert bare == dataclasses.replace(whole, short={}, levels=(), borrowers=())
        seen.add(whole.answer)
    assert seen == {"fits", "waits", "never"}


def test_a_verdict_on_a_thousand_queues_looks_at_one_line_of_them():
    """The answer is worked out from the leaf to the root and back; each borrower that is named costs its own way up."""
    queues = [{"name": "all"}, *({"name": f"d{number}", "parent": "all"} for number in range(10))]
    queues += [{"name": f"e{number}", "parent": f"d{number // 10}"} for number in range(100)]
    queues += [
        {"name": f"q{number}", "parent": f"e{number // 10}", "nominal": {NAME: 10, "cpu": 10}} for number in range(1000)
    ]
    tree = read_tree("default", {"queues": queues})
    where, depth = TreeUsage(tree), 4
    for number in range(10_000):
        where.charge(f"q{number % 1000 // 2}", dict.fromkeys(tree.keys, 1))
    for leaf in ("q0", "q499", "q500", "q999"):
        for numbers in (False, True):
            where.visited = 0
            found = judge_quota(where, leaf, "x", {"w": {NAME: 8, "cpu": 8}}, numbers=numbers)
            named = len(found.borrowers) * (depth + 1)
            assert where.visited <= 2 * depth * len(tree.keys) + named
