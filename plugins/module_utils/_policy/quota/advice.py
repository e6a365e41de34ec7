# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Advice on quota: fewer pods, or another queue, each tried out before it is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import Advice
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.quota.answer import QuotaAnswer
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import assign_flavors, podset_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# In a tree of very many queues only the first are tried: advice is not worth more.
_MOST_QUEUES = 50
_OF_QUEUES = ("quota", "queue_unknown", "queue_forbidden", "queue_held", "user_limit", "budget_spent")


def quota_advice(
    usage: TreeUsage,
    standing: QuotaStanding,
    podsets: Sequence[PodSet],
    namespace: str,
    namespace_labels: Mapping[str, str] | None = None,
    is_barred: Callable[[str], bool] = lambda _leaf: False,
) -> tuple[Advice, ...]:
    """What would help a gang that a tree keeps from starting; nothing when it fits there.

    In leaves that are barred something else than amounts keeps it waiting.
    """
    if standing.reason not in _OF_QUEUES:
        return ()
    tries = [another_queue(usage, standing.leaf, podsets, namespace, namespace_labels, is_barred)]
    if standing.reason == "quota" and standing.leaf is not None:
        tries.insert(0, fewer_pods(usage, standing.leaf, podsets))
    return tuple(advice for advice in tries if advice is not None)


def fewer_pods(usage: TreeUsage, leaf: str, podsets: Sequence[PodSet]) -> Advice | None:
    """The largest smaller gang that fits its queue, with one podset cut."""
    best: tuple[int, PodSet, int, str] | None = None
    for place, podset in enumerate(podsets):
        low, high = 1, podset.count - 1
        while low <= high:
            middle = (low + high) // 2
            smaller = [*podsets[:place], dataclasses.replace(podset, count=middle), *podsets[place + 1 :]]
            found = _answer(usage, leaf, smaller)
            if found.answer != "fits":
                high = middle - 1
                continue
            low = middle + 1
            spared = podset.count - middle
            if best is None or spared < best[0]:
                best = spared, podset, middle, "borrowing" if found.borrows else "now"
    if best is None:
        return None
    _spared, podset, count, then = best
    counts = {item.name: count if item is podset else item.count for item in podsets}
    text = f"run {count} instead of {podset.count} of {podset.name}"
    return Advice("fewer_replicas", text, {"counts": counts, "then": then})


def another_queue(
    usage: TreeUsage,
    leaf: str | None,
    podsets: Sequence[PodSet],
    namespace: str,
    namespace_labels: Mapping[str, str] | None = None,
    is_barred: Callable[[str], bool] = lambda _leaf: False,
) -> Advice | None:
    """A queue that the gang may name and fits in now: one where it borrows nothing, if there is any."""
    tree = usage.tree
    open_to_it = [
        other.name
        for other in tree.leaves
        if other.name != leaf and find_leaf(tree, other.name, namespace, namespace_labels).reason is None
    ]
    free = [name for name in open_to_it[:_MOST_QUEUES] if not is_barred(name)]
    found = [(name, _answer(usage, name, podsets)) for name in free]
    fitting = [(answer.borrows, tree.path(name), name) for name, answer in found if answer.answer == "fits"]
    if not fitting:
        return None
    borrows, path, name = min(fitting)
    details = {"tree": tree.name, "queue": name, "path": path, "then": "borrowing" if borrows else "now"}
    return Advice("another_queue", f"name queue {name} ({path}) of the tree {tree.name}", details)


def _answer(usage: TreeUsage, leaf: str, podsets: Sequence[PodSet]) -> QuotaAnswer:
    return assign_flavors(usage, leaf, podset_demands(podsets)).answer
