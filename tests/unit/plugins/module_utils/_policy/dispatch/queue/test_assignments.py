# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""In which order flavors are tried for the podsets of a gang."""

from __future__ import annotations

import itertools
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import assignments
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.assignments import (
    Combination,
    FlavorSearch,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import choose_flavors
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import random_declaration, random_demand

CPU = 1000


def usage(*leaves: t.Mapping[str, int], hard: bool = True, flavors: str = "ab", name: str = "t") -> TreeUsage:
    """A tree whose leaves q0, q1… have so many cpu of each flavor."""
    queues: list[t.Any] = [{"name": "all"}]
    for number, amounts in enumerate(leaves):
        nominal = {flavor: {"cpu": cpu} for flavor, cpu in amounts.items()}
        queues.append({"name": f"q{number}", "parent": "all", "hard": hard, "nominal": nominal})
    return TreeUsage(read_tree(name, {"queues": queues, "flavors": [{"name": flavor} for flavor in flavors]}))


def anywhere(_place: int, _flavors: Combination) -> bool:
    """There are nodes for everything."""
    return True


def search(*trees: TreeUsage, cpus: t.Sequence[int], possible: t.Any = anywhere) -> FlavorSearch:
    """The search for a gang of q0 whose podsets ask for so many cpu."""
    return FlavorSearch([(tree, "q0") for tree in trees], [{"cpu": cpu * CPU} for cpu in cpus], possible)


def words(found: t.Iterable[t.Any]) -> list[str]:
    """Assignments to one tree or more, each as one word per podset."""
    return [" ".join("".join(flavors) for flavors in item.flavors) for item in found]


@pytest.mark.parametrize(
    ("amounts", "cpus", "fitting", "hopeful"),
    [
        ({"a": 4, "b": 4}, (2,), ["a", "b"], ["a", "b"]),
        ({"a": 1, "b": 4}, (2,), ["b"], ["b"]),
        ({"a": 4, "b": 4}, (5,), [], []),
        ({"a": 4, "b": 4}, (3, 3), ["a b", "b a"], ["a b", "b a"]),
        ({"a": 4, "b": 4}, (2, 2), ["a a", "a b", "b a", "b b"], ["a a", "a b", "b a", "b b"]),
        ({"a": 4, "b": 1}, (2, 3), [], []),
        # A podset that asks for nothing needs no flavor.
        ({"a": 4, "b": 4}, (0, 3), [" a", " b"], [" a", " b"]),
        ({"a": 4}, (), [""], [""]),
    ],
)
def test_flavors_are_tried_in_the_order_of_the_tree(
    amounts: t.Mapping[str, int], cpus: tuple[int, ...], fitting: list[str], hopeful: list[str]
) -> None:
    found = search(usage(amounts), cpus=cpus)
    assert (words(found.fitting()), words(found.hopeful())) == (fitting, hopeful)


def test_what_is_used_is_waited_for_and_not_given_out() -> None:
    tree = usage({"a": 4, "b": 4})
    tree.charge("q0", {key: 3 * CPU for key in tree.tree.keys if key.flavor == "a"})
    found = search(tree, cpus=(2,))
    assert (words(found.fitting()), words(found.hopeful())) == (["b"], ["b", "a"])


def test_own_before_borrowed() -> None:
    assert words(search(usage({"b": 4}, {"a": 4}, hard=False), cpus=(2,)).fitting()) == ["b", "a"]


def test_flavors_without_nodes_are_left_out() -> None:
    found = search(usage({"a": 4, "b": 4}), cpus=(2, 2), possible=lambda place, flavors: flavors != ("a",) or place)
    assert words(found.fitting()) == ["b a", "b b"]


def test_without_any_hope_the_least_bad_is_told() -> None:
    tree = usage({"a": 1, "b": 4})
    assert words([search(tree, cpus=(2,), possible=lambda *_any: False).fallback()]) == ["b"]
    assert words([search(tree, cpus=(9,)).fallback()]) == ["a"]


def test_trees_are_asked_together() -> None:
    both = usage({"a": 4, "b": 4}), usage({"c": 4, "d": 1}, flavors="cd", name="other")
    assert words(search(*both, cpus=(1,)).fitting()) == ["ac", "ad", "bc", "bd"]
    assert words(search(*both, cpus=(2,)).fitting()) == ["ac", "bc"]


def test_full_nodes_lead_to_the_next_flavor_of_that_podset() -> None:
    found = search(usage({"a": 9, "b": 9, "c": 9}, flavors="abc"), cpus=(1, 1, 1))
    tried = found.fitting()
    assert words([next(tried)]) == ["a a a"]
    found.note_full(0, ("a",))
    assert words([next(tried)]) == ["b a a"]
    found.note_full(2, ("a",))
    found.note_full(0, ("b",))
    assert words([next(tried)]) == ["c a b"]
    found.note_full(0, ("c",))
    assert list(tried) == []


def test_a_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assignments, "MOST_STEPS", 50)
    found = search(usage({"a": 99, "b": 99}), cpus=[1] * 20)
    assert 0 < len(list(found.fitting())) < 50
    assert 0 < len(list(search(usage({"a": 99, "b": 99}), cpus=[1] * 60).fitting())) < 50


@pytest.mark.parametrize("seed", range(40))
def test_the_first_is_what_a_single_tree_chooses(seed: int) -> None:
    """Where that does not fit, it is another one that does, if there is any."""
    chance = random.Random(seed)
    tree = read_tree("t", random_declaration(chance, flavors=3))
    used = TreeUsage(tree)
    for _turn in range(12):
        leaf = chance.choice(tree.leaves).name
        demand = random_demand(chance, tree)
        if used.fits(leaf, demand):
            used.charge(leaf, demand)
    for _turn in range(10):
        compare(chance, used)


def test_a_gang_of_very_many_podsets_has_ways_too() -> None:
    """Without any it would be told that it fits, whatever is held for others."""
    many = assignments.MOST_STEPS + 50
    found = search(usage({"a": many, "b": many}), cpus=[1] * many)
    assert words(itertools.islice(found.fitting(), 1)) == [" ".join("a" * many)]
    assert words(itertools.islice(found.hopeful(), 1)) == [" ".join("a" * many)]


def compare(chance: random.Random, used: TreeUsage) -> None:
    """One gang."""
    tree = used.tree
    leaf = chance.choice(tree.leaves).name
    demands = [
        {"cpu": chance.randint(1, 6) * CPU, "nvidia.com/gpu": chance.randint(0, 3)}
        for _podset in range(chance.randint(1, 3))
    ]
    closed = {(place, flavor) for place in range(3) for flavor in tree.flavor_names if chance.random() < 0.2}
    named = {f"p{place}": demand for place, demand in enumerate(demands)}
    nodes = {(f"p{place}", flavor) for place, flavor in closed}
    flavors, amounts = choose_flavors(used, leaf, named, lambda flavor, name: (name, flavor) not in nodes)
    found = FlavorSearch([(used, leaf)], demands, lambda place, own: (place, own[0]) not in closed)
    first = next(found.fitting(), None)
    possible = not any((name, flavor) in nodes for name, flavor in flavors.items())
    if used.fits(leaf, amounts) and possible:
        assert first is not None
        assert [name for (name,) in first.flavors] == list(flavors.values())
        assert first.amounts == (amounts,)
    elif first is not None:
        assert used.fits(leaf, first.amounts[0])
    else:
        every = itertools.product(tree.flavor_names, repeat=len(demands))
        assert not any(fits(used, leaf, demands, tried, closed) for tried in every)


def fits(
    used: TreeUsage, leaf: str, demands: t.Sequence[t.Mapping[str, int]], tried: t.Sequence[str], closed: t.Any
) -> bool:
    """Whether podsets fit in these flavors."""
    amounts: dict[t.Any, int] = {}
    for flavor, demand in zip(tried, demands, strict=True):
        for key in used.tree.keys:
            if key.flavor == flavor:
                amounts[key] = amounts.get(key, 0) + demand.get(key.resource, 0)
    return used.fits(leaf, amounts) and not any((place, flavor) in closed for place, flavor in enumerate(tried))
