# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads the quota trees that a cycle keeps to; they lie beside the Lease."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import Lists
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import NO_TREES, QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import NamespaceLabels
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import StoredTree, decode_tree

_HIDDEN = "the records of other namespaces may not be read"


def read_trees(lists: Lists, namespace: str, labels: NamespaceLabels, *, sees_all: bool) -> QuotaTrees:
    """The trees in the Lease's namespace; who may not read them knows of none, and starts objects by its own rights.

    labels are those of all namespaces, as the snapshot has them. sees_all says whether the records of all namespaces
    are read: else nobody can tell what is used.
    """
    path = resource_path("v1", "configmaps", namespace)
    try:
        found = lists.list(path, keep=decode_tree, essence=_text_of, label_selector=TREE_LABEL).items
    except (Forbidden, NotFound):
        return NO_TREES
    stored = [item for item in found if not item.foreign]
    if not stored:
        return NO_TREES
    trees = sorted((item.tree for item in stored if item.tree is not None), key=lambda tree: tree.name)
    unreadable = {item.name: item.unreadable or "" for item in stored if item.tree is None}
    return trees_in_force(trees, unreadable, labels, sees_all=sees_all)


def trees_in_force(
    trees: Sequence[QuotaTree], unreadable: Mapping[str, str], labels: NamespaceLabels, *, sees_all: bool
) -> QuotaTrees:
    """Trees, in the order of their names, with what else decides by them."""
    if not trees and not unreadable:
        return NO_TREES
    return QuotaTrees(
        trees=tuple(trees),
        unreadable=unreadable,
        # Where no queue asks for labels, other ones make no other trees.
        namespaces=labels if any(_has_selectors(tree) for tree in trees) else {},
        hidden=None if sees_all else _HIDDEN,
    )


def _text_of(stored: StoredTree) -> object:
    return (stored.raw.get("data") or {}).get(TREE_KEY)


def _has_selectors(tree: QuotaTree) -> bool:
    return any(queue.selector is not None for queue in tree.queues)
