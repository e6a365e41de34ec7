# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is used of a tree: Kueue's arithmetic in tables, and properties of random trees and charges."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.entitlements import Entitlements
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import (
    GPU,
    gpus,
    mcad_tree,
    queue,
    random_charges,
    random_declaration,
    random_demand,
    random_tree,
    small_tree,
)
from ansible_collections.muster.kube.tests.support.random_size import examples

AMOUNT = GPU.resource


def used(tree, **charges):
    """A tree with GPUs used by leaves."""
    usage = TreeUsage(tree)
    for leaf, count in charges.items():
        usage.charge(leaf, gpus(count))
    return usage


def pair(first=None, second=None):
    """Two leaves of 10 GPUs below a root."""
    return small_tree(
        queue("a", nominal={AMOUNT: 10}, **(first or {})), queue("b", nominal={AMOUNT: 10}, **(second or {}))
    )


class SlowCount:
    """The rules word by word: every number is worked out anew from what was charged."""

    def __init__(self, tree, charges):
        self.tree, self.charges = tree, charges

    def subtree(self, name, key):
        own = self.tree.by_name[name]
        below = sum(self.subtree(child, key) - self.local(child, key) for child in self.tree.children[name])
        whole = own.nominal.get(key, 0) + own.extra.get(key, 0) + below
        return min(whole, own.capacity.get(key, whole))

    def local(self, name, key):
        lending = self.tree.by_name[name].lending_limit.get(key)
        return 0 if lending is None else max(0, self.subtree(name, key) - lending)

    def total(self, name, key):
        own = sum(amounts.get(key, 0) for leaf, amounts in self.charges if leaf == name)
        return own + sum(self.total(child, key) for child in self.tree.children[name])

    def usage(self, name, key):
        if not self.tree.children[name]:
            return self.total(name, key)
        return sum(max(0, self.usage(child, key) - self.local(child, key)) for child in self.tree.children[name])

    def available(self, name, key):
        own = self.tree.by_name[name]
        used = self.usage(name, key)
        if own.parent is None:
            return self.subtree(name, key) - used
        local, above = self.local(name, key), self.available(own.parent, key)
        most = own.most_borrowed(key)
        if most is not None:
            above = min(above, self.subtree(name, key) - local - max(0, used - local) + most)
        return max(0, local - used) + above

    def headroom(self, name, key):
        rooms = [self.available(name, key)]
        for above in self.tree.ancestry(name):
            own = self.tree.by_name[above]
            if key in own.capacity and (own.parent is None or own.hard):
                rooms.append(own.capacity[key] - self.total(above, key))
        return max(0, min(rooms))


def test_random_usage_is_that_of_the_slow_count():
    chance = random.Random(5)
    for _number in range(examples(40)):
        tree = random_tree(chance)
        usage = TreeUsage(tree)
        slow = SlowCount(tree, random_charges(chance, usage, chance.randint(0, 12)))
        for name in tree.by_name:
            for level in usage.standing(name):
                key = level.key
                assert level.used == slow.total(name, key)
                assert level.headroom == slow.headroom(name, key)
                assert level.borrowed == max(0, slow.usage(name, key) - slow.subtree(name, key))
                assert level.headroom == usage.headroom(name, key)


def test_answers_follow_the_slow_count():
    chance = random.Random(6)
    seen = set()
    for _number in range(examples(120)):
        tree = random_tree(chance)
        usage = TreeUsage(tree)
        slow = SlowCount(tree, random_charges(chance, usage, chance.randint(0, 8)))
        leaf, wanted = chance.choice(tree.leaves).name, random_demand(chance, tree)
        found = usage.answer(leaf, wanted)
        short = {
            key: amount - slow.headroom(leaf, key)
            for key, amount in wanted.items()
            if amount > slow.headroom(leaf, key)
        }
        seen.add((found.answer, found.borrows))
        assert found.short == short
        assert (found.answer == "fits") == (not short) == usage.fits(leaf, wanted)
        assert found.borrows == any(
            amount and slow.usage(leaf, key) + amount > slow.subtree(leaf, key) for key, amount in wanted.items()
        )
        empty = SlowCount(tree, [])
        assert (found.answer == "never") == any(amount > empty.headroom(leaf, key) for key, amount in wanted.items())
    assert len(seen) == 6


def test_what_was_tried_and_undone_leaves_no_trace():
    chance = random.Random(7)
    for _number in range(examples(40)):
        usage = TreeUsage(random_tree(chance))
        charged = random_charges(chance, usage, 6)
        before = [usage.standing(name) for name in usage.tree.by_name]
        tried = random_charges(chance, usage, 4)
        chance.shuffle(tried)
        for leaf, amounts in tried:
            usage.release(leaf, amounts)
        assert [usage.standing(name) for name in usage.tree.by_name] == before
        chance.shuffle(charged)
        for leaf, amounts in charged:
            usage.release(leaf, amounts)
        assert all(level.used == level.borrowed == 0 for name in usage.tree.by_name for level in usage.standing(name))


def test_order_of_siblings_and_of_charges_does_not_matter():
    chance = random.Random(8)
    for _number in range(examples(40)):
        declared = random_declaration(chance)
        shuffled = {**declared, "queues": chance.sample(declared["queues"], len(declared["queues"]))}
        one, other = (TreeUsage(read_tree("t", data)) for data in (declared, shuffled))
        charged = random_charges(chance, one, 8)
        for leaf, amounts in chance.sample(charged, len(charged)):
            other.charge(leaf, amounts)
        for name in one.tree.by_name:
            assert one.standing(name) == other.standing(name)
            assert one.share(name) == other.share(name)


def test_what_fits_passes_no_limit():
    chance = random.Random(9)
    for _number in range(examples(40)):
        tree = random_tree(chance)
        usage = TreeUsage(tree)
        charged = []
        for _step in range(20):
            leaf, wanted = chance.choice(tree.leaves).name, random_demand(chance, tree)
            if usage.fits(leaf, wanted):
                usage.charge(leaf, wanted)
                charged.append((leaf, wanted))
        slow = SlowCount(tree, charged)
        for name, own in tree.by_name.items():
            for key in tree.keys:
                most = own.most_borrowed(key)
                assert most is None or slow.usage(name, key) <= slow.subtree(name, key) + most
                if own.parent is None:
                    assert slow.usage(name, key) <= slow.subtree(name, key)
                if key in own.capacity and (own.hard or own.parent is None):
                    assert slow.total(name, key) <= own.capacity[key]


def test_nobody_walks_further_than_to_the_root_and_back():
    chance = random.Random(10)
    for _number in range(examples(20)):
        tree = random_tree(chance)
        usage = TreeUsage(tree)
        random_charges(chance, usage, 5)
        leaf = chance.choice(tree.leaves).name
        wanted = dict.fromkeys(tree.keys, 1)
        depth = len(tree.ancestry(leaf))
        for step in (usage.charge, usage.answer, usage.fits, usage.release):
            usage.visited = 0
            step(leaf, wanted)
            assert usage.visited <= 2 * depth * len(wanted)
        for name in tree.ancestry(leaf):
            usage.visited = 0
            usage.share_with(name, leaf, wanted)
            assert usage.visited <= 2 * depth * len(wanted)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_what_is_known_is_what_is_worked_out_anew(seed):
    """A usage that was asked between charges says the same as one that only has the charges."""
    chance = random.Random(seed)
    tree = random_tree(chance)
    asked, charges = TreeUsage(tree), []
    for _turn in range(6):
        charges += random_charges(chance, asked, 1)
        if chance.random() < 0.3:
            asked.release(*charges.pop(chance.randrange(len(charges))))
        fresh = TreeUsage(tree)
        for charge in charges:
            fresh.charge(*charge)
        with asked.trying():
            tried = random_charges(chance, asked, 1)
            asked.fits(tried[0][0], tried[0][1])
            asked.release(*tried[0])
        for leaf in tree.leaves:
            wanted = random_demand(chance, tree)
            borrows = fresh.exceeds_with(leaf.name, leaf.name, wanted)
            assert asked.word(leaf.name, wanted) == (fresh.answer(leaf.name, wanted).answer, borrows)
            assert asked.borrows_with(leaf.name, wanted) == borrows
            others = borrowers_above(fresh, leaf.name, wanted)
            assert asked.lends(leaf.name, wanted) == bool(others)
            assert set(asked.borrowers_from(leaf.name, wanted)) == others
            for key, amount in ((key, amount) for key, amount in wanted.items() if amount):
                above = tree.ancestry(leaf.name)[:-1]
                held = any(not fresh.exceeds_with(name, leaf.name, {key: amount}) for name in above)
                assert (amount <= asked.own_left(leaf.name, key)) == held
                own = held or amount <= leaf.nominal.get(key, 0)
                assert (amount <= asked.own_room(leaf.name, key)) == own


def borrowers_above(usage, leaf, wanted):
    """The other leaves that borrow, with all queues up to the lowest one that they share with the leaf."""
    above, found = usage.tree.ancestry(leaf), set()
    for other in usage.tree.leaves:
        line = usage.tree.ancestry(other.name)
        below = line[: next(place for place, name in enumerate(line) if name in above)]
        if other.name != leaf and all(usage.borrows_of(name, wanted) for name in below):
            found.add(other.name)
    return found


def test_copies_go_their_own_ways():
    usage = used(pair(), a=3)
    other = usage.copy()
    other.charge("a", gpus(4))
    assert (usage.used("a", GPU), other.used("root", GPU)) == (3, 7)
    assert TreeUsage(usage.tree, usage.entitlements).used("a", GPU) == 0


def test_more_than_was_charged_cannot_be_released():
    with pytest.raises(ValueError, match="uses 3"):
        used(pair(), a=3).release("a", gpus(4))


def test_resources_that_the_tree_does_not_count_are_passed_over():
    usage = used(pair())
    wanted = {FlavorResource("", "cpu"): 10**9, FlavorResource("other", AMOUNT): 10**9}
    assert usage.answer("a", wanted).answer == "fits"
    usage.charge("a", wanted)
    assert usage.headroom("a", FlavorResource("", "cpu")) is None
    assert usage.used("a", FlavorResource("", "cpu")) == 0


@pytest.mark.parametrize(
    ("first", "second", "charges", "wanted", "answer", "borrows", "short"),
    [
        # Within nominal, beyond it from the sibling, and more than there is.
        ({}, {}, {}, 10, "fits", False, 0),
        ({}, {}, {}, 11, "fits", True, 0),
        ({}, {}, {}, 20, "fits", True, 0),
        ({}, {}, {}, 21, "never", True, 1),
        ({}, {}, {"a": 4, "b": 10}, 7, "waits", True, 1),
        # An owner waits while a sibling has borrowed its own.
        ({}, {}, {"b": 15}, 10, "waits", False, 5),
        # Limits of the borrower and of the lender.
        ({"borrowing_limit": {AMOUNT: 3}}, {}, {}, 13, "fits", True, 0),
        ({"borrowing_limit": {AMOUNT: 3}}, {}, {}, 14, "never", True, 1),
        ({"borrowing_limit": {AMOUNT: 3}}, {}, {"a": 6}, 8, "waits", True, 1),
        ({"hard": True}, {}, {}, 11, "never", True, 1),
        ({}, {"lending_limit": {AMOUNT: 2}}, {}, 12, "fits", True, 0),
        ({}, {"lending_limit": {AMOUNT: 2}}, {}, 13, "never", True, 1),
        # What the lender keeps is free for itself whatever others borrowed.
        ({}, {"lending_limit": {AMOUNT: 2}}, {"b": 8}, 12, "fits", True, 0),
        ({}, {"lending_limit": {AMOUNT: 2}}, {"b": 9}, 12, "waits", True, 1),
        # In debt nothing is free, and no more is short than is asked for.
        ({}, {}, {"a": 15, "b": 15}, 3, "waits", True, 3),
    ],
)
def test_two_queues(first, second, charges, wanted, answer, borrows, short):
    found = used(pair(first, second), **charges).answer("a", gpus(wanted))
    assert (found.answer, found.borrows, found.short.get(GPU, 0)) == (answer, borrows, short)


def test_parent_in_debt_takes_of_what_a_queue_keeps():
    usage = used(pair({"lending_limit": {AMOUNT: 5}}), b=18)
    found = usage.answer("a", gpus(4))
    assert (found.answer, found.short) == ("waits", gpus(2))


def test_levels_tell_at_which_queue_how_much_is_short():
    tree = small_tree(
        queue("team", borrowing_limit={AMOUNT: 2}),
        queue("a", "team", nominal={AMOUNT: 4}),
        queue("b", "team", nominal={AMOUNT: 4}),
        queue("c", nominal={AMOUNT: 10}),
    )
    found = used(tree, b=6, c=9).answer("a", gpus(5))
    told = {
        level.path: (level.nominal, level.used, level.borrowed, level.lent, level.headroom, level.short)
        for level in found.levels
    }
    assert told == {
        "root/team/a": (4, 0, 0, 1, 3, 0),
        "root/team": (8, 6, 0, 0, 3, 1),
        "root": (18, 15, 0, 0, 3, 2),
    }
    assert found.short == gpus(2)


def test_ceiling_counts_what_queues_keep_for_themselves():
    tree = small_tree(
        queue("root", capacity={AMOUNT: 15}),
        queue("a", nominal={AMOUNT: 10}, lending_limit={AMOUNT: 0}),
        queue("b", nominal={AMOUNT: 10}, lending_limit={AMOUNT: 0}),
        over_capacity="warn",
    )
    found = used(tree, a=10).answer("b", gpus(6))
    assert (found.answer, found.short) == ("waits", gpus(1))
    assert [level.short for level in found.levels] == [0, 1]


def test_soft_capacity_may_be_passed_by_borrowing():
    tree = small_tree(
        queue("team", capacity={AMOUNT: 5}), queue("a", "team", nominal={AMOUNT: 5}), queue("b", nominal={AMOUNT: 5})
    )
    assert used(tree).answer("a", gpus(8)).answer == "fits"


def test_share_is_what_is_borrowed_of_what_can_be_lent_by_weight():
    tree = pair({"weight": "2"}, {"weight": "0"})
    usage = used(tree, a=14, b=2)
    assert usage.share("a").value == Fraction(4 * 1000, 20) / 2
    assert (usage.share("b").value, usage.share("root").value) == (0, 0)
    assert usage.share("a", gpus(2)).rounded == 150
    assert usage.share("b", gpus(9)) == (True, Fraction(1000, 20), AMOUNT)


def test_share_follows_the_scarcest_resource():
    tree = small_tree(queue("a", nominal={"cpu": 1, AMOUNT: 1}), queue("b", nominal={"cpu": 9, AMOUNT: 3}))
    usage = TreeUsage(tree)
    usage.charge("a", {GPU: 2, FlavorResource("", "cpu"): 3000})
    assert usage.share("a") == (False, Fraction(1000, 4), AMOUNT)


def test_nothing_to_lend_is_no_share():
    tree = small_tree(queue("a", nominal={AMOUNT: 0}), queue("b", nominal={"cpu": 1}))
    assert used(tree, a=3).share("a").value == 0


def test_demand_reaches_queues_above_less_what_those_below_keep():
    tree = small_tree(
        queue("team"),
        queue("a", "team", nominal={AMOUNT: 10}, lending_limit={AMOUNT: 4}),
        queue("c", nominal={AMOUNT: 10}),
    )
    usage = used(tree)
    assert usage.share_with("team", "a", gpus(12)) == usage.share("team", gpus(6))
    assert usage.share_with("a", "a", gpus(12)).value == Fraction(2000, 14)
    assert usage.exceeds_with("team", "a", gpus(11))
    assert not usage.exceeds_with("team", "a", gpus(10))


def test_entitlements_are_shared_not_made_again():
    tree = pair()
    fixed = Entitlements(tree)
    assert TreeUsage(tree, fixed).entitlements is fixed


def wrapper(milli, mebi=1, gpu=0):
    """What MCAD's test wrappers ask for."""
    amounts = {"cpu": milli, "memory": mebi * 2**20, AMOUNT: gpu}
    return {FlavorResource("", name): amount for name, amount in amounts.items()}


def test_mcad_forest_04_and_06_gold_takes_its_own_and_no_more():
    usage = TreeUsage(mcad_tree())
    assert usage.answer("gold", wrapper(600)).answer == "fits"
    usage.charge("gold", wrapper(600))
    found = usage.answer("gold", wrapper(600))
    assert (found.answer, found.short) == ("waits", {FlavorResource("", "cpu"): 125})


def test_mcad_forest_07_and_08_bronze_fits_beside_gold_once():
    usage = TreeUsage(mcad_tree())
    usage.charge("gold", wrapper(600))
    assert usage.answer("bronze", wrapper(400)).answer == "fits"
    usage.charge("bronze", wrapper(400))
    assert usage.answer("bronze", wrapper(400)).answer == "waits"


def test_mcad_forest_09_two_bronze_jobs_run_one_after_the_other():
    usage = TreeUsage(mcad_tree())
    usage.charge("bronze", wrapper(900))
    assert usage.answer("bronze", wrapper(900)).answer == "waits"
    usage.release("bronze", wrapper(900))
    assert usage.answer("bronze", wrapper(900)).answer == "fits"


def test_mcad_forest_10_default_leaf_of_nothing_borrows():
    found = TreeUsage(mcad_tree()).answer("default", wrapper(900))
    assert (found.answer, found.borrows) == ("fits", True)


def test_mcad_borrowing_silver_beyond_its_own():
    found = TreeUsage(mcad_tree()).answer("silver", wrapper(1000, 600, 16))
    assert (found.answer, found.borrows) == ("fits", True)
