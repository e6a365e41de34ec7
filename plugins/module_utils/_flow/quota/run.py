# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind quota: store a tree as declared, or remove it; refused before anything is written."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.account import queues_data
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import UseReading, read_use
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import (
    BadTree,
    TreeProblem,
    capacity_problems,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import (
    configmap_name,
    tree_data,
    tree_text,
    with_unknown,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import differing_parts
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import (
    StoredTree,
    create_tree,
    delete_tree,
    read_stored_tree,
    replace_tree,
)

Data = dict[str, t.Any]


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaResult:
    """What became of a tree, or in check mode would: before and after are None where there is none."""

    options: QuotaOptions
    before: QuotaTree | None
    after: QuotaTree | None
    changed: bool
    use: UseReading
    warnings: tuple[str, ...] = ()

    def as_result(self, *, diff: bool) -> Data:
        """The keys of the task's result."""
        result: Data = {
            "changed": self.changed,
            "tree": self.options.tree,
            "namespace": self.options.namespace,
            "before": self._queues(self.before),
            "queues": self._queues(self.after),
            "notes": list(self.use.notes),
            "warnings": list(self.warnings),
        }
        if diff:
            result["diff"] = self._difference()
        return result

    def _queues(self, tree: QuotaTree | None) -> list[Data]:
        """The queues of one version of the tree with what is used of them now."""
        return [] if tree is None else queues_data(tree, self.use.charged(tree))

    def _difference(self) -> Data:
        """Of both versions what differs, each queue under its path."""
        parts = [{} if tree is None else _by_path(tree) for tree in (self.before, self.after)]
        before, after = differing_parts(*parts) if self.changed else ({}, {})
        header = f"quota tree {self.options.tree}"
        return {"before_header": header, "after_header": header, "before": before, "after": after}


def run_quota(connect: Callable[[], KubeClient], options: QuotaOptions) -> QuotaResult:
    """Make a tree what the task says; one that is wrong is refused before anything is asked of a server."""
    if options.state == "absent":
        return _remove(connect(), options)
    wanted = read_tree(options.tree, options.declaration)
    tree_text(wanted)
    return _ensure(connect(), options, wanted)


def _ensure(client: KubeClient, options: QuotaOptions, wanted: QuotaTree) -> QuotaResult:
    """Store the declared tree unless it is there already."""
    stored = _find(client, options)
    before = stored.tree if stored is not None else None
    after = wanted if before is None else with_unknown(wanted, before)
    changed = stored is None or before != after
    use = read_use(client)
    if changed and before is not None:
        _refuse_removed(use, before, after)
    warnings = [f"quota tree {options.tree}: {problem}" for problem in capacity_problems(after)]
    if stored is not None and stored.unreadable is not None:
        warnings.append(f"the stored tree could not be read and is replaced: {stored.unreadable}")
    if changed and not options.check_mode:
        if stored is None:
            create_tree(client, options.namespace, after)
        else:
            replace_tree(client, stored, after)
    return QuotaResult(options, before, after, changed, use, tuple(warnings))


def _remove(client: KubeClient, options: QuotaOptions) -> QuotaResult:
    """Remove a tree that nobody uses any more."""
    stored = _find(client, options)
    use = read_use(client)
    if stored is None:
        return QuotaResult(options, None, None, False, use)
    if stored.tree is not None:
        _refuse_removed(use, stored.tree, None)
    if not options.check_mode:
        delete_tree(client, stored)
    return QuotaResult(options, stored.tree, None, True, use)


def _find(client: KubeClient, options: QuotaOptions) -> StoredTree | None:
    """The stored tree; what is not ours to write is refused."""
    stored = read_stored_tree(client, options.namespace, options.tree)
    if stored is None:
        return None
    where = f"ConfigMap {options.namespace}/{configmap_name(options.tree)}"
    if stored.newer:
        raise NewerVersion("change", where, str(stored.unreadable))
    if stored.foreign:
        raise BadInput("change", where, "it is not marked as a quota tree, so somebody else made it; remove it first")
    return stored


def _refuse_removed(use: UseReading, before: QuotaTree, after: QuotaTree | None) -> None:
    """Refuse to take away leaves that started gangs are charged to: what they use would be counted nowhere."""
    left = set() if after is None else {leaf.name for leaf in after.leaves}
    going = [leaf.name for leaf in before.leaves if leaf.name not in left]
    if not going:
        return
    charged = use.charged(before)
    if charged is None:
        cause = "nobody can tell whether gangs use it, since this account may not list the records of all gangs"
        raise BadTree(before.name, [TreeProblem(before.path(name), "", cause) for name in going])
    problems = [
        TreeProblem(
            before.path(name),
            "",
            f"{charged.counts[name].started} started gangs are charged to it; hold it (stop: hold) until they are over",
        )
        for name in going
        if charged.counts[name].started
    ]
    if problems:
        raise BadTree(before.name, problems)


def _by_path(tree: QuotaTree) -> Data:
    """A tree as the difference shows it."""
    data = tree_data(tree)
    queues = {tree.path(item["name"]): item for item in data.pop("queues")}
    return {**data, "queues": queues}
