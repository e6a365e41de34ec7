# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which leaf of a tree a gang belongs to, and why it may not start there."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import DEFAULT_TREE, QuotaQueue, QuotaTree

QueueReason = t.Literal["queue_unknown", "queue_forbidden", "queue_held"]


@dataclasses.dataclass(frozen=True, slots=True)
class LeafChoice:
    """The leaf of a gang, None when no rule gives one; reason and detail say why nothing starts there.

    A gang that was started before has a leaf to be charged to whatever the reason says.
    """

    leaf: QuotaQueue | None
    reason: QueueReason | None = None
    detail: str = ""


def named_queue(tree: QuotaTree, labels: Mapping[str, str], queue: str | None) -> str | None:
    """The queue that a record names in this tree: by the label for that, else by its queue."""
    return labels.get(tree.queue_label) or (queue if tree.name == DEFAULT_TREE else None)


def find_leaf(
    tree: QuotaTree, named: str | None, namespace: str, namespace_labels: Mapping[str, str] | None = None
) -> LeafChoice:
    """The leaf that a gang names, else the one of its namespace, else the tree's default leaf.

    Without the labels of the namespace no selector holds it.
    """
    if named is not None:
        queue = tree.by_name.get(named)
        if queue is None:
            return LeafChoice(None, "queue_unknown", f"the tree {tree.name} has no queue {named}")
        if tree.children[named]:
            cause = f"{tree.path(named)} has queues below it, and gangs belong to one of those"
            return LeafChoice(None, "queue_unknown", cause)
        return _checked(tree, queue, namespace, namespace_labels)
    found = _by_namespace(tree, namespace, namespace_labels)
    if len(found) > 1:
        paths = ", ".join(tree.path(queue.name) for queue in found)
        return LeafChoice(None, "queue_unknown", f"several queues select namespace {namespace} ({paths}); name one")
    leaf = found[0] if found else tree.default_leaf
    if leaf is None:
        cause = f"no queue of the tree {tree.name} is for namespace {namespace}, and none is the default; name one"
        return LeafChoice(None, "queue_unknown", cause)
    return _checked(tree, leaf, namespace, namespace_labels)


def _by_namespace(tree: QuotaTree, namespace: str, labels: Mapping[str, str] | None) -> list[QuotaQueue]:
    """The leaf that names a namespace, else all whose selectors hold it."""
    naming = tree.naming.get(namespace)
    return list(naming) if naming else [queue for queue in tree.leaves if _selected(queue, labels)]


def _selected(queue: QuotaQueue, labels: Mapping[str, str] | None) -> bool:
    selector = queue.namespace_selector
    return selector is not None and labels is not None and selector.matches(labels)


def _checked(tree: QuotaTree, leaf: QuotaQueue, namespace: str, labels: Mapping[str, str] | None) -> LeafChoice:
    """A leaf with the reason why nothing of this namespace starts in it, if there is one."""
    if not leaf.open_to_all and namespace not in leaf.namespaces and not _selected(leaf, labels):
        cause = f"{tree.path(leaf.name)} is not for gangs of namespace {namespace}"
        return LeafChoice(leaf, "queue_forbidden", cause)
    for name in tree.ancestry(leaf.name):
        stop = tree.by_name[name].stop
        if stop != "none":
            return LeafChoice(leaf, "queue_held", f"{tree.path(name)} starts nothing (stop: {stop})")
    return LeafChoice(leaf)
