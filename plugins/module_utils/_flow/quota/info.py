# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind quota_info: the trees of a cluster, and what is used of each queue."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.account import (
    fairness_data,
    queues_data,
    tree_lines,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import UseReading, read_use
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import capacity_problems
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_data, tree_digest
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import (
    StoredTree,
    list_stored_trees,
    read_stored_tree,
)

Data = dict[str, t.Any]


def answer_quota(client: KubeClient, question: QuotaInfoOptions) -> Data:
    """Everything there is to know about the trees in question; reads only."""
    if question.tree is None:
        stored = list_stored_trees(client, question.namespace)
    else:
        found = read_stored_tree(client, question.namespace, question.tree)
        stored = [] if found is None or found.foreign else [found]
    use = read_use(client) if stored else UseReading((), {})
    return {"trees": [_tree(item, use) for item in stored], "notes": list(use.notes)}


def _tree(stored: StoredTree, use: UseReading) -> Data:
    """One tree; of one that cannot be read only why."""
    tree = stored.tree
    if tree is None:
        return {
            "name": stored.name,
            "problem": "quota_unreadable",
            "detail": stored.unreadable,
            "digest": None,
            "definition": None,
            "queues": [],
            "fairness": {},
            "unplaced": None,
            "warnings": [],
            "text": f"{stored.name}: {stored.unreadable}",
        }
    charged = use.charged(tree)
    return {
        "name": tree.name,
        "problem": "quota_not_visible" if charged is None else None,
        "detail": None,
        "digest": tree_digest(tree),
        "definition": tree_data(tree),
        "queues": queues_data(tree, charged),
        "fairness": fairness_data(charged),
        "unplaced": None if charged is None else len(charged.unplaced),
        "warnings": [str(problem) for problem in capacity_problems(tree)],
        "text": "\n".join(tree_lines(tree, charged)),
    }
