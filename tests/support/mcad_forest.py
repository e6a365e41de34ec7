# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The trees of MCAD's own tests as QuotaSubtrees, and a forest of them in which wrappers come and go.

The amounts are those of MCAD's tests: two trees of one root each, and a third without a default leaf.
"""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.subtrees import SUBTREE_APIS, import_subtrees
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.victims import (
    Asker,
    Evictable,
    by_leaf,
    choose_victims,
)

Object = dict[str, t.Any]

CONTEXT, SERVICE, ACTINIDES = "quota_context", "quota_service", "quota_actinides"
# Not among MCAD's: a tree with a hard node between its leaves and its root.
NESTED = "quota_nested"
GPU = "nvidia.com/gpu"


def child(name: str, cpu: str, memory: str, gpu: int, *, hard: bool = False, **more: t.Any) -> Object:
    """A queue as a QuotaSubtree describes it."""
    requests = {"cpu": cpu, "memory": memory, GPU: gpu}
    return {"name": name, "quotas": {"requests": requests, "hardLimit": hard}, **more}


def subtree(
    tree: str, name: str, *children: Object, parent: str | None = None, namespace: str = "kube-system"
) -> Object:
    """A QuotaSubtree of a tree."""
    spec: Object = {"children": list(children)}
    if parent is not None:
        spec |= {"parent": parent, "parentNamespace": namespace}
    metadata = {"name": name, "namespace": namespace, "labels": {"tree": tree}}
    return {"apiVersion": SUBTREE_APIS[0], "kind": "QuotaSubtree", "metadata": metadata, "spec": spec}


def mcad_subtrees() -> dict[str, list[Object]]:
    """The QuotaSubtrees of MCAD's tests, by tree."""
    gold = child("gold", "1075m", "450Mi", 8)
    default = child("default", "0", "0Mi", 0)
    return {
        CONTEXT: [
            subtree(CONTEXT, "context-root", child("root", "1075m", "1045Mi", 16)),
            subtree(
                CONTEXT,
                "context-root-children",
                gold,
                child("silver", "1075m", "400Mi", 8),
                child("bronze", "900m", "300Mi", 8, hard=True),
                default,
                parent="root",
            ),
        ],
        SERVICE: [
            subtree(SERVICE, "service-root", child("root", "1075m", "1045Mi", 16)),
            subtree(SERVICE, "service-root-children", gold, default, parent="root"),
        ],
        ACTINIDES: [
            subtree(ACTINIDES, "actinides-root", child("root", "1075m", "1045Mi", 16)),
            subtree(
                ACTINIDES,
                "actinides-root-children",
                child("plutonium", "1075m", "450Mi", 8),
                child("lawrencium", "1075m", "400Mi", 8, hard=True),
                parent="root",
            ),
        ],
        NESTED: [
            subtree(NESTED, "nested-root", child("root", "2", "1000Mi", 0)),
            subtree(NESTED, "nested-team", child("team", "1", "500Mi", 0, hard=True), default, parent="root"),
            subtree(
                NESTED,
                "nested-leaves",
                child("a", "500m", "250Mi", 0),
                child("b", "500m", "250Mi", 0),
                parent="team",
            ),
        ],
    }


def imported_tree(mcad_tree: str, reclaim: str = "any") -> QuotaTree:
    """One of the trees, translated and read as a task does."""
    name = mcad_tree.replace("_", "-")
    declaration = import_subtrees(name, mcad_tree, mcad_subtrees()[mcad_tree]).declaration
    inner = {item["parent"] for item in declaration["queues"]}
    queues = [item if item["name"] in inner else {**item, "reclaim": reclaim} for item in declaration["queues"]]
    return read_tree(name, {**declaration, "queues": queues, "over_capacity": "warn"})


def asks(milli: int, mebi: int = 1, gpu: int = 0) -> QuotaAmounts:
    """What a wrapper of MCAD's tests asks for."""
    amounts = {"cpu": milli, "memory": mebi * 2**20, GPU: gpu}
    return {FlavorResource("", name): amount for name, amount in amounts.items()}


class Forest:
    """Some of the trees, and the wrappers that run in all of them."""

    def __init__(self, *trees: str) -> None:
        """Nothing runs yet."""
        self._usages = [TreeUsage(imported_tree(name)) for name in trees]
        self._running: dict[str, tuple[tuple[str, ...], QuotaAmounts, int]] = {}

    @property
    def running(self) -> set[str]:
        """The names of the wrappers that run."""
        return set(self._running)

    def submit(self, name: str, amounts: QuotaAmounts, priority: int = 0, **labels: str) -> str:
        """Let a wrapper in if every tree has room, or has after others are evicted: what becomes of it."""
        leaves = [find_leaf(usage.tree, named_queue(usage.tree, labels, None), "any").leaf for usage in self._usages]
        if None in leaves:
            return "pending"
        names = tuple(leaf.name for leaf in leaves if leaf is not None)
        victims: set[str] = set()
        for number, (usage, leaf) in enumerate(zip(self._usages, names, strict=True)):
            gangs = [
                Evictable(uid, places[number], used, rank, float(place))
                for place, (uid, (places, used, rank)) in enumerate(self._running.items())
            ]
            chosen = choose_victims(usage, Asker(leaf, amounts, priority), by_leaf(gangs))
            if chosen is None:
                return "pending"
            victims |= {victim.uid for victim in chosen}
        for uid in victims:
            self.end(uid)
        for usage, leaf in zip(self._usages, names, strict=True):
            assert usage.fits(leaf, amounts)
            usage.charge(leaf, amounts)
        self._running[name] = names, amounts, priority
        return "running"

    def end(self, name: str) -> None:
        """A wrapper is over, deleted or evicted."""
        leaves, amounts, _priority = self._running.pop(name)
        for usage, leaf in zip(self._usages, leaves, strict=True):
            usage.release(leaf, amounts)
