# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ResourceQuotas as ceilings beside a quota tree: no namespace gets more than its leaf could ever have."""

from __future__ import annotations

from collections.abc import Iterator

from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree, key_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL, configmap_name
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaQueue, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text

CEILING_API, CEILING_KIND = "v1", "ResourceQuota"
# Resources that a ResourceQuota counts as objects; of all others it counts what pods request.
_COUNTED = ("pods",)


def build_ceilings(tree: QuotaTree) -> list[Data]:
    """One ResourceQuota for each leaf, in its namespace; BadTree names every leaf that has none or several, or no end.

    A ResourceQuota knows no flavors, so it holds the sum over them.
    """
    problems = [problem for leaf in tree.leaves for problem in _problems(tree, leaf)]
    if problems:
        raise BadTree(tree.name, problems)
    return [_ceiling(tree, leaf) for leaf in tree.leaves]


def _problems(tree: QuotaTree, leaf: QuotaQueue) -> Iterator[Problem]:
    """Why there can be no ceiling for a leaf."""
    path = tree.path(leaf.name)
    if leaf.selector is not None or len(leaf.namespaces) != 1:
        cause = "a ceiling (backends: resourcequota) needs leaves with exactly one namespace, and no selector"
        yield Problem(path, "namespaces", cause)
    for key in tree.keys:
        if leaf.parent is not None and leaf.most_borrowed(key) is None:
            cause = (
                "it may borrow without end, so there is no ceiling (backends: resourcequota); limit it, or make it hard"
            )
            yield Problem(path, f"borrowing_limit.{key_text(key)}", cause)


def _ceiling(tree: QuotaTree, leaf: QuotaQueue) -> Data:
    """The ResourceQuota of a leaf."""
    hard = dict.fromkeys(tree.resources, 0)
    for key in tree.keys:
        hard[key.resource] += leaf.nominal.get(key, 0) + (leaf.most_borrowed(key) or 0)
    return {
        "apiVersion": CEILING_API,
        "kind": CEILING_KIND,
        "metadata": {
            "name": configmap_name(tree.name),
            "namespace": leaf.namespaces[0],
            "labels": {TREE_LABEL: tree.name},
        },
        "spec": {"hard": {_counted_as(name): quantity_text(name, amount) for name, amount in hard.items()}},
    }


def _counted_as(resource: str) -> str:
    """What a ResourceQuota calls a resource that pods request."""
    return resource if resource in _COUNTED else f"requests.{resource}"
