# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which kind of nodes each podset of a gang is charged to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QuotaAnswer
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# Says of a flavor's name and a podset's name whether there are nodes for it.
NodesOf = Callable[[str, str], bool]


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorAssignment:
    """The flavor of each podset, what a start charges in all, and what the tree says to that."""

    flavors: Mapping[str, str]
    amounts: QuotaAmounts
    answer: QuotaAnswer


def podset_demands(podsets: Iterable[PodSet]) -> dict[str, dict[str, int]]:
    """What all pods of each podset ask for together, by the podset's name."""
    return {
        podset.name: {name: podset.count * amount for name, amount in podset.requests.items()} for podset in podsets
    }


def flavored(
    tree: QuotaTree, flavor: str, demand: Mapping[str, int], counted: Collection[str] | None = None
) -> dict[FlavorResource, int]:
    """A demand as amounts of one flavor; resources that are not counted, by the tree if not told, are left out."""
    known = tree.resources if counted is None else counted
    return {FlavorResource(flavor, name): amount for name, amount in demand.items() if amount and name in known}


def charged_amounts(
    tree: QuotaTree,
    demands: Mapping[str, Mapping[str, int]],
    flavors: Mapping[str, str],
    counted: Collection[str] | None = None,
) -> dict[FlavorResource, int]:
    """What podsets use that were started with these flavors; one without a flavor has the tree's first."""
    amounts: dict[FlavorResource, int] = {}
    for name, demand in demands.items():
        _add(amounts, flavored(tree, flavors.get(name, tree.flavor_names[0]), demand, counted))
    return amounts


def most_amounts(
    tree: QuotaTree, demands: Mapping[str, Mapping[str, int]], flavors: Mapping[str, str]
) -> dict[FlavorResource, int]:
    """The most that podsets can use of which not all flavors are known: without one each flavor may be used."""
    amounts = charged_amounts(tree, {name: demands[name] for name in demands if name in flavors}, flavors)
    for name, demand in demands.items():
        for flavor in () if name in flavors else tree.flavor_names:
            _add(amounts, flavored(tree, flavor, demand))
    return amounts


def assign_flavors(
    usage: TreeUsage, leaf: str, demands: Mapping[str, Mapping[str, int]], has_nodes: NodesOf | None = None
) -> FlavorAssignment:
    """Give each podset the first flavor that fits within nominal and has nodes, else the one that is borrowed nearest.

    Podsets are taken in their order, each with what those before it take. Where none fits, the flavor that is waited
    for is the first that could fit one day and has nodes.
    """
    flavors, amounts = choose_flavors(usage, leaf, demands, has_nodes)
    return FlavorAssignment(flavors, amounts, usage.answer(leaf, amounts))


def choose_flavors(
    usage: TreeUsage, leaf: str, demands: Mapping[str, Mapping[str, int]], has_nodes: NodesOf | None = None
) -> tuple[dict[str, str], dict[FlavorResource, int]]:
    """The flavor of each podset and what they charge together, without the numbers of an answer."""
    amounts: dict[FlavorResource, int] = {}
    flavors: dict[str, str] = {}
    if len(usage.tree.flavor_names) == 1:
        flavors = dict.fromkeys(demands, usage.tree.flavor_names[0])
        return flavors, charged_amounts(usage.tree, demands, flavors)
    for name, demand in demands.items():
        choices = [
            (_rank(usage, leaf, amounts, flavored(usage.tree, flavor, demand), has_nodes, flavor, name), order, flavor)
            for order, flavor in enumerate(usage.tree.flavor_names)
        ]
        flavors[name] = min(choices)[2]
        _add(amounts, flavored(usage.tree, flavors[name], demand))
    return flavors, amounts


def _rank(
    usage: TreeUsage,
    leaf: str,
    taken: QuotaAmounts,
    wanted: QuotaAmounts,
    has_nodes: NodesOf | None,
    flavor: str,
    podset: str,
) -> tuple[bool, bool, bool, int]:
    """How bad a flavor is for a podset: never, without nodes, full, how far away it is borrowed."""
    together = {key: amount + taken.get(key, 0) for key, amount in wanted.items()}
    fits = usage.fits(leaf, together)
    nodes = has_nodes is None or has_nodes(flavor, podset)
    return usage.never_fits(leaf, together), not nodes, not fits, usage.reach(leaf, together) if fits else 0


def _add(amounts: dict[FlavorResource, int], more: QuotaAmounts) -> None:
    for key, amount in more.items():
        amounts[key] = amounts.get(key, 0) + amount
