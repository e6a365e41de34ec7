# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is wrong with a quota tree as a whole: its shape, and amounts that contradict each other.

Everything found is reported, not the first only; each complaint names the queue by its path.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    FlavorResource,
    QuotaAmounts,
    QuotaQueue,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem, SeveralProblems
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe

_LEAF_ONLY = ("nominal", "namespaces", "selector", "default")
_INNER_ONLY = ("extra", "capacity")
_LIMITS = ("borrowing_limit", "lending_limit", "hard")


class BadTree(SeveralProblems):
    """A quota tree that is refused, with everything that is wrong with it."""

    def __init__(self, tree: str, problems: Sequence[Problem]) -> None:
        """Name the tree."""
        super().__init__(f"quota tree {tree}", problems)


def key_text(key: FlavorResource) -> str:
    """A resource for messages, with its flavor where there are flavors."""
    return key.resource if key.flavor == NO_FLAVOR else f"{key.flavor} {key.resource}"


def shape_problems(parents: Sequence[tuple[str, str | None]]) -> Iterator[Problem]:
    """What is wrong with names and parents alone: duplicates, unknown parents, several roots or none, cycles."""
    known = dict(parents)
    for name, count in collections.Counter(name for name, _parent in parents).items():
        if count > 1:
            yield Problem(written_path(name, known), "name", f"{count} queues have this name; a name stands for one")
    for name, parent in known.items():
        if parent is not None and parent not in known:
            yield Problem(written_path(name, known), "parent", f"there is no queue {parent!r}")
    yield from _root_problems(known)
    for cycle in _cycles(known):
        yield Problem("/".join((*cycle, cycle[0])), "parent", "these queues are below each other in a circle")


def _root_problems(known: Mapping[str, str | None]) -> Iterator[Problem]:
    """A tree has one root; in a circle of all queues there is none, and the circle is told already."""
    roots = [name for name, parent in known.items() if parent is None]
    for name in roots[1:]:
        yield Problem(name, "parent", f"the tree has a root already, {roots[0]}; name the queue that this one is below")
    if not known:
        yield Problem("queues", "", "the tree has no queues; give at least one")


def _cycles(known: Mapping[str, str | None]) -> Iterator[tuple[str, ...]]:
    """Each circle once, from the name that comes first in it."""
    seen: set[str] = set()
    for start in sorted(known):
        walked: list[str] = []
        name: str | None = start
        while name is not None and name in known and name not in seen:
            seen.add(name)
            walked.append(name)
            name = known[name]
        if name in walked:
            circle = walked[walked.index(name) :]
            # Parents were followed upwards, and paths are read downwards.
            yield tuple(reversed([*circle[1:], circle[0]]))


def written_path(name: str, known: Mapping[str, str | None]) -> str:
    """A queue's path as far as parents lead, whether they are sound or not."""
    names = [name]
    while (parent := known.get(names[-1])) is not None and parent not in names:
        names.append(parent)
    return "/".join(reversed(names))


def queue_problems(queue: QuotaQueue, path: str, children: bool, flavors: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with one queue of a tree whose shape is sound."""
    for field in _LEAF_ONLY if children else _INNER_ONLY:
        if getattr(queue, field):
            kind = "a queue above others" if children else "a queue without others below it"
            other = "; give extra or capacity" if field == "nominal" else "; give nominal" if not children else ""
            yield Problem(path, field, f"this is nothing for {kind}{other}")
    if queue.parent is None:
        for field in _LIMITS:
            if getattr(queue, field):
                yield Problem(path, field, "nobody is beside a root to borrow from or to lend to; leave it out")
    if queue.hard and any(queue.borrowing_limit.values()):
        yield Problem(path, "hard", "it says that nothing is borrowed, and borrowing_limit allows some")
    for key, lent in queue.lending_limit.items():
        if not children and lent > queue.nominal.get(key, 0):
            amounts = [describe(key.resource, amount) for amount in (lent, queue.nominal.get(key, 0))]
            yield Problem(path, f"lending_limit.{key_text(key)}", f"{amounts[0]} is more than nominal, {amounts[1]}")
    for field in ("nominal", *_INNER_ONLY, *_LIMITS[:2]):
        amounts_of: QuotaAmounts = getattr(queue, field)
        for flavor in dict.fromkeys(key.flavor for key in amounts_of if key.flavor not in flavors):
            yield Problem(path, field, _flavor_cause(flavor, flavors))


def _flavor_cause(flavor: str, flavors: Sequence[str]) -> str:
    """Why amounts of a flavor cannot be counted."""
    if flavor == NO_FLAVOR:
        return f"the tree has several flavors; say of which an amount is: {', '.join(flavors)}"
    return f"flavor {flavor!r} is not declared" + (f"; declared are {', '.join(flavors)}" if flavors != ("",) else "")


def membership_problems(tree: QuotaTree) -> Iterator[Problem]:
    """Namespaces that two leaves name, and more than one leaf for all others."""
    homes: dict[str, str] = {}
    for queue in tree.leaves:
        for namespace in queue.namespaces:
            if namespace in homes:
                other = tree.path(homes[namespace])
                yield Problem(tree.path(queue.name), "namespaces", f"{namespace} is named by {other} too")
            homes.setdefault(namespace, queue.name)
    defaults = [queue.name for queue in tree.leaves if queue.default]
    for name in defaults[1:]:
        yield Problem(tree.path(name), "default", f"the tree has a default leaf already, {tree.path(defaults[0])}")


def capacity_problems(tree: QuotaTree) -> Iterator[Problem]:
    """Queues whose leaves are promised more than there may be together: nominal is no guarantee there."""
    promised: dict[str, collections.Counter[FlavorResource]] = {
        queue.name: collections.Counter() for queue in tree.queues
    }
    for leaf in tree.leaves:
        for name in tree.ancestry(leaf.name):
            promised[name].update(leaf.nominal)
    for queue in tree.queues:
        for key, capacity in sorted(queue.capacity.items()):
            if promised[queue.name][key] > capacity:
                amounts = describe(key.resource, promised[queue.name][key]), describe(key.resource, capacity)
                cause = f"the leaves below have {amounts[0]} nominal together, and capacity is {amounts[1]}"
                yield Problem(tree.path(queue.name), f"capacity.{key_text(key)}", cause)
