# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Victims: only borrowers or lower priorities of the own queue, as few as needed, and an owner gets its own back."""

from __future__ import annotations

import itertools
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.victims import (
    Asker,
    Evictable,
    by_leaf,
    choose_victims,
)
from ansible_collections.muster.kube.tests.support.quota_trees import (
    GPU,
    gpus,
    mcad_tree,
    queue,
    random_demand,
    random_tree,
    small_tree,
)
from ansible_collections.muster.kube.tests.support.random_size import examples

NAME = GPU.resource


def gang(uid, leaf, count, priority=0, started=0.0, lost=0.0):
    return Evictable(uid, leaf, gpus(count), priority, started, lost)


def charged(tree, *gangs):
    usage = TreeUsage(tree)
    for item in gangs:
        usage.charge(item.leaf, item.amounts)
    return usage


def taken(tree, asker, *gangs, nodes=None):
    """The uids of the victims, None when the asker cannot get in."""
    usage = charged(tree, *gangs)
    before = [usage.standing(name) for name in tree.by_name]
    found = choose_victims(usage, asker, by_leaf(gangs), nodes)
    assert [usage.standing(name) for name in tree.by_name] == before
    return None if found is None else {item.uid for item in found}


def pair(**fields):
    return small_tree(queue("a", nominal={NAME: 10}, **fields), queue("b", nominal={NAME: 10}))


def test_owner_takes_from_borrowers_of_any_priority():
    borrower = gang("x", "b", 6, priority=100), gang("y", "b", 6, priority=100)
    assert taken(pair(), Asker("a", gpus(10), 0), *borrower) == {"x"}


@pytest.mark.parametrize(
    ("reclaim", "priority", "victims"),
    [
        ("any", 0, {"y"}),
        ("lower_priority", 5, None),
        ("lower_priority", 6, {"y"}),
        ("never", 100, None),
    ],
)
def test_queue_says_whom_it_takes_from(reclaim, priority, victims):
    gangs = gang("x", "b", 6, priority=5), gang("y", "b", 6, priority=5, started=1.0)
    assert taken(pair(reclaim=reclaim), Asker("a", gpus(10), priority), *gangs) == victims


def test_who_would_borrow_takes_from_nobody():
    gangs = gang("x", "b", 6), gang("y", "b", 6)
    assert taken(pair(), Asker("a", gpus(11), 100), *gangs) is None


def test_who_borrows_nothing_is_no_victim():
    tree = small_tree(*(queue(name, nominal={NAME: 5}) for name in "abc"))
    gangs = gang("x", "b", 5, priority=-9), gang("y", "c", 8)
    assert taken(tree, Asker("a", gpus(5), 0), *gangs) == {"y"}


def test_borrower_is_left_alone_once_it_is_back_within_its_own():
    gangs = gang("x", "b", 4, started=3), gang("y", "b", 7, started=2), gang("z", "a", 9, priority=1)
    assert taken(pair(), Asker("a", gpus(5), 0), *gangs) is None
    assert taken(pair(), Asker("a", gpus(1), 0), *gangs) == {"x"}


def test_own_queue_gives_to_strictly_higher_base_priority_only():
    tree = pair(hard=True)
    gangs = gang("x", "a", 5, priority=1), gang("y", "a", 5, priority=2)
    assert taken(tree, Asker("a", gpus(5), 1), *gangs) is None
    assert taken(tree, Asker("a", gpus(5), 2), *gangs) == {"x"}


def test_lowest_priority_goes_first_then_newest_then_least_work_lost():
    tree = pair(hard=True)
    gangs = [
        gang("old", "a", 2, 0, started=1, lost=1),
        gang("new", "a", 2, 0, started=2, lost=9),
        gang("cheap", "a", 2, 0, started=2, lost=3),
        gang("high", "a", 2, 1, started=9),
        gang("last", "a", 2, 0, started=0),
    ]
    for wanted, victims in ((2, {"cheap"}), (4, {"cheap", "new"}), (6, {"cheap", "new", "old"})):
        assert taken(tree, Asker("a", gpus(wanted), 5), *gangs) == victims


def test_victims_that_turn_out_not_to_be_needed_are_spared():
    tree = pair(hard=True)
    gangs = gang("small", "a", 1, 0, started=9), gang("large", "a", 9, 1)
    assert taken(tree, Asker("a", gpus(9), 5), *gangs) == {"large"}


def test_gang_of_other_resources_is_no_victim():
    tree = small_tree(queue("a", nominal={NAME: 4, "cpu": 4}, hard=True))
    usage = TreeUsage(tree)
    other = Evictable("cpu", "a", {FlavorResource("", "cpu"): 4000}, -5, 0.0)
    own = gang("gpu", "a", 4)
    for item in (other, own):
        usage.charge(item.leaf, item.amounts)
    assert choose_victims(usage, Asker("a", gpus(4), 1), by_leaf([other, own])) == (own,)


def test_nodes_have_a_say():
    gangs = gang("x", "b", 6, started=1), gang("y", "b", 6)
    assert taken(pair(), Asker("a", gpus(8), 0), *gangs, nodes=lambda _victims: False) is None
    assert taken(pair(), Asker("a", gpus(8), 0), *gangs, nodes=lambda victims: len(victims) > 0) == {"x"}


def test_nodes_are_not_asked_about_for_every_gang():
    """A simulation costs milliseconds, and thousands of gangs may borrow: only one of them is in the way, or none."""
    gangs = [gang(f"g{number:04}", "b", 1, started=number) for number in range(1000)]
    tree, asked = small_tree(queue("a", nominal={NAME: 2000}), queue("b", nominal={NAME: 10})), []
    for needed in ("g0050", "nobody"):
        asked.clear()

        def frees(victims, needed=needed):
            asked.append(len(victims))
            return needed in {item.uid for item in victims}

        usage = charged(tree, *gangs)
        found = choose_victims(usage, Asker("a", gpus(1), 0), by_leaf(gangs), frees)
        assert (None if found is None else [item.uid for item in found]) == (None if needed == "nobody" else [needed])
        assert len(asked) < 60, needed


def test_who_fits_takes_nothing():
    assert taken(pair(), Asker("a", gpus(8), 0), gang("x", "b", 9)) == set()


def test_what_only_the_root_could_hold_is_borrowed_and_evicts_nobody_as_with_kueue():
    tree = small_tree(queue("team"), queue("a", "team", nominal={NAME: 2}), queue("b", nominal={NAME: 2}))
    own = gang("x", "a", 3, priority=0)
    assert taken(tree, Asker("a", gpus(2), 1), own) == {"x"}
    assert taken(tree, Asker("a", gpus(3), 1), own) is None
    pooled = small_tree(
        queue("team", extra={NAME: 1}), queue("a", "team", nominal={NAME: 2}), queue("b", nominal={NAME: 2})
    )
    full = gang("y", "b", 5, priority=0)
    assert taken(pooled, Asker("a", gpus(3), 1), full) == {"y"}


def test_nobody_borrows_at_a_borrowers_cost_because_its_own_queue_could_have_given():
    cpu = FlavorResource("", "cpu")
    tree = small_tree(queue("a", nominal={NAME: 6, "cpu": "6m"}), queue("b", nominal={NAME: 8}))
    own, other = gang("own", "a", 8, 1, 1.0), Evictable("other", "b", {GPU: 3, cpu: 6}, 1, 0.0)
    # With the first gone it would be an owner, but the second is enough, and then it would borrow.
    assert choose_victims(charged(tree, own, other), Asker("a", {GPU: 6, cpu: 4}, 2), by_leaf([own, other])) is None


def test_inner_queue_takes_back_its_own_for_a_leaf_that_borrows_within_it():
    tree = small_tree(
        queue("team"), queue("a", "team"), queue("spare", "team", nominal={NAME: 8}), queue("c", nominal={NAME: 4})
    )
    gangs = gang("x", "c", 4, started=0), gang("y", "c", 8, started=1)
    assert taken(tree, Asker("a", gpus(8), 0), *gangs) == {"y"}
    assert taken(tree, Asker("a", gpus(9), 0), *gangs) is None


def test_mcad_borrowing_gold_takes_its_own_back_from_silver():
    def wrapper(milli, mebi, gpu):
        amounts = {"cpu": milli, "memory": mebi * 2**20, NAME: gpu}
        return {FlavorResource("", name): amount for name, amount in amounts.items()}

    silver = Evictable("silver", "silver", wrapper(1000, 600, 16), 0, 0.0)
    usage = charged(mcad_tree(), silver)
    assert not usage.fits("gold", wrapper(500, 300, 8))
    assert choose_victims(usage, Asker("gold", wrapper(500, 300, 8), 0), by_leaf([silver])) == (silver,)


def test_mcad_forest_06_gold_of_higher_priority_takes_from_gold():
    milli = {FlavorResource("", "cpu"): 600}
    first = Evictable("first", "gold", milli, 0, 0.0)
    usage = charged(mcad_tree(), first)
    assert choose_victims(usage, Asker("gold", milli, 0), by_leaf([first])) is None
    assert choose_victims(usage, Asker("gold", milli, 1000), by_leaf([first])) == (first,)


def random_stage(chance, **kinds):
    """A tree with gangs that were started because they fitted."""
    tree = random_tree(chance, **kinds)
    usage = TreeUsage(tree)
    gangs = []
    for number in range(25):
        leaf, wanted = chance.choice(tree.leaves).name, random_demand(chance, tree)
        if usage.fits(leaf, wanted):
            usage.charge(leaf, wanted)
            gangs.append(Evictable(f"g{number}", leaf, wanted, chance.randint(0, 3), float(number)))
    return usage, gangs


def test_owner_within_capacity_gets_its_nominal_back():
    chance = random.Random(12)
    reclaimed = 0
    for _number in range(examples(60)):
        usage, gangs = random_stage(chance, capacity=False)
        leaf = chance.choice(usage.tree.leaves)
        wanted = {key: amount - usage.used(leaf.name, key) for key, amount in leaf.nominal.items()}
        wanted = {key: amount for key, amount in wanted.items() if amount > 0}
        victims = choose_victims(usage, Asker(leaf.name, wanted, 0), by_leaf(gangs))
        assert victims is not None
        assert all(item.leaf != leaf.name for item in victims)
        reclaimed += bool(victims)
    assert reclaimed > 5


def test_victims_are_minimal_and_allowed():
    chance = random.Random(13)
    for _number in range(examples(60)):
        usage, gangs = random_stage(chance)
        leaf = chance.choice(usage.tree.leaves).name
        asker = Asker(leaf, random_demand(chance, usage.tree, most=10), chance.randint(0, 4))
        victims = choose_victims(usage, asker, by_leaf(gangs)) or ()
        for fewer in itertools.combinations(victims, max(0, len(victims) - 1)):
            if not victims:
                break
            for item in fewer:
                usage.release(item.leaf, item.amounts)
            assert not usage.fits(asker.leaf, asker.amounts)
            for item in fewer:
                usage.charge(item.leaf, item.amounts)
        for item in victims:
            assert item.leaf != leaf or item.priority < asker.priority
