# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota trees for tests: small ones written down, MCAD's, and random ones."""

from __future__ import annotations

import random
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.mcad_forest import CONTEXT, imported_tree

Declaration = dict[str, t.Any]

CPU = FlavorResource(NO_FLAVOR, "cpu")
GPU = FlavorResource(NO_FLAVOR, "nvidia.com/gpu")
WEIGHTS = ("0", "0.25", "0.5", "1", "2", "4")


def queue(name: str, parent: str | None = None, **fields: t.Any) -> Declaration:
    """One queue as a user writes it."""
    return {"name": name, **({} if parent is None else {"parent": parent}), **fields}


def small_tree(*queues: Declaration, name: str = "default", **rest: t.Any) -> QuotaTree:
    """A tree of these queues; those without a parent are below a root, which may be among them."""
    given = any(item["name"] == "root" for item in queues)
    below = [item if item["name"] == "root" else {"parent": "root", **item} for item in queues]
    return read_tree(name, {"queues": [*([] if given else [queue("root")]), *below], **rest})


def gpus(count: int) -> QuotaAmounts:
    """A demand of GPUs in a tree without flavors."""
    return {GPU: count}


def mcad_tree(*, reclaim: str = "any") -> QuotaTree:
    """MCAD's quota_context: quotas of leaves are nominal, that of the root is its capacity."""
    return imported_tree(CONTEXT, reclaim)


def random_declaration(
    chance: random.Random, *, capacity: bool = True, flavors: int = 2, depth: int = 4
) -> Declaration:
    """A tree of at most this depth, with limits, weights and, if asked for, capacities, that is accepted."""
    names = [f"f{number}" for number in range(chance.randint(0, flavors))]
    queues = [queue("q0")]
    levels = {"q0": 1}
    for number in range(1, chance.randint(3, 12)):
        parent = chance.choice([name for name, level in levels.items() if level < depth])
        queues.append(queue(f"q{number}", parent))
        levels[f"q{number}"] = levels[parent] + 1
    parents = {item.get("parent") for item in queues}
    for item in queues:
        _fill(chance, item, item["name"] in parents, names, capacity)
    chance.shuffle(queues)
    return {"queues": queues, "flavors": [{"name": name} for name in names], "over_capacity": "warn"}


def random_tree(chance: random.Random, **kinds: t.Any) -> QuotaTree:
    """A random tree that was read."""
    return read_tree("default", random_declaration(chance, **kinds))


def _fill(chance: random.Random, item: Declaration, inner: bool, flavors: list[str], capacity: bool) -> None:
    """Amounts and limits of one queue."""
    own = _amounts(chance, flavors, 0 if inner else 12)
    if not inner:
        item["nominal"] = own
    elif chance.random() < 0.4:
        item["extra"] = _amounts(chance, flavors, 6)
    if inner and capacity and chance.random() < 0.5:
        item["capacity"] = _amounts(chance, flavors, 25)
    item["weight"] = chance.choice(WEIGHTS)
    if "parent" not in item:
        return
    if chance.random() < 0.2:
        item["hard"] = True
    elif chance.random() < 0.4:
        item["borrowing_limit"] = _amounts(chance, flavors, 8)
    if chance.random() < 0.4:
        item["lending_limit"] = _amounts(chance, flavors, 8) if inner else _at_most(chance, own)


def _amounts(chance: random.Random, flavors: list[str], most: int) -> Declaration:
    """Amounts of two resources, in each flavor."""
    one = {
        name: {"cpu": chance.randint(0, most), "nvidia.com/gpu": chance.randint(0, most)} for name in flavors or [""]
    }
    return one if flavors else one[""]


def _at_most(chance: random.Random, amounts: Declaration) -> Declaration:
    """Some part of each amount."""
    return {
        name: _at_most(chance, value) if isinstance(value, dict) else chance.randint(0, value)
        for name, value in amounts.items()
    }


def random_demand(chance: random.Random, tree: QuotaTree, most: int = 5) -> QuotaAmounts:
    """What a gang could ask for: some amounts in one flavor."""
    flavor = chance.choice(tree.flavor_names)
    scale = {"cpu": 1000, "nvidia.com/gpu": 1}
    return {
        FlavorResource(flavor, name): chance.randint(0, most) * scale[name]
        for name in ("cpu", "nvidia.com/gpu")
        if chance.random() < 0.8
    }


def random_charges(chance: random.Random, usage: TreeUsage, count: int) -> list[tuple[str, QuotaAmounts]]:
    """Charge leaves at random, fitting or not, and say what was charged."""
    charged = []
    for _number in range(count):
        leaf = chance.choice(usage.tree.leaves).name
        amounts = random_demand(chance, usage.tree)
        usage.charge(leaf, amounts)
        charged.append((leaf, amounts))
    return charged
