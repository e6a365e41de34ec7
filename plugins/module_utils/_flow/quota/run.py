# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind quota: store a tree as declared, or remove it; refused before anything is written.

Of a tree that Kueue counts the ConfigMap says so before Kueue is told of it, and until Kueue knows nothing of it any
more: at no moment it is handed out twice.
"""

from __future__ import annotations

import dataclasses
import functools
import typing as t
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.account import queues_data
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.backends import (
    NO_PLAN,
    BackendPlan,
    check_backends,
    clear_backends,
    plan_backends,
    write_backends,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.declared import DeclaredTree, declare_tree
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import UseReading, read_use
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.would import foresee_change
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import (
    BadTree,
    capacity_problems,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import (
    configmap_name,
    tree_data,
    with_unknown,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.object_changes import differing_parts
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._store.quota_status import delete_status
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
    notes: tuple[str, ...] = ()
    plan: BackendPlan = NO_PLAN
    # What dispatchers would do under the tree; told in check mode only.
    would: Data | None = None

    def as_result(self, *, diff: bool) -> Data:
        """The keys of the task's result."""
        result: Data = {
            "changed": self.changed,
            "tree": self.options.tree,
            "namespace": self.options.namespace,
            "before": self._queues(self.before),
            "queues": self._queues(self.after),
            "objects": [change.as_result() for change in self.plan.told],
            "notes": [*self.notes, *self.use.notes],
            "warnings": list(self.warnings),
        }
        if self.options.check_mode:
            result["would"] = self.would
        if diff:
            result["diff"] = self._difference()
        return result

    def _queues(self, tree: QuotaTree | None) -> list[Data]:
        """The queues of one version of the tree with what is used of them now; of Kueue's only Kueue can tell."""
        if tree is None:
            return []
        return queues_data(tree, self.use.charged(tree) if tree.counted_by == "embedded" else None)

    def _difference(self) -> Data:
        """Of both versions what differs, each queue under its path."""
        parts = [{} if tree is None else _by_path(tree) for tree in (self.before, self.after)]
        before, after = differing_parts(*parts) if self.changed else ({}, {})
        shown = [change.difference() for change in self.plan.told if change.action != "unchanged"]
        if shown:
            before |= {"objects": {item["before_header"]: item["before"] for item in shown}}
            after |= {"objects": {item["after_header"]: item["after"] for item in shown}}
        header = f"quota tree {self.options.tree}"
        return {"before_header": header, "after_header": header, "before": before, "after": after}


def run_quota(connect: Callable[[], KubeClient], options: QuotaOptions) -> QuotaResult:
    """Make a tree what the task says; one that is wrong is refused before anything is written, or asked in vain.

    In check mode nothing is written, and what dispatchers would do is told.
    """
    connected = functools.cache(connect)
    if options.state == "absent":
        result = _remove(connected(), options)
    else:
        declared = declare_tree(connected, options)
        check_backends(declared.tree)
        result = _ensure(connected(), options, declared)
    if not options.check_mode:
        return result
    would, notes = foresee_change(connected(), options, result.after)
    return dataclasses.replace(result, would=would, notes=(*result.notes, *notes))


def _ensure(client: KubeClient, options: QuotaOptions, declared: DeclaredTree) -> QuotaResult:
    """Store the declared tree unless it is there already, and tell its backends."""
    stored = _find(client, options)
    before = stored.tree if stored is not None else None
    after = declared.tree if before is None else with_unknown(declared.tree, before)
    changed = stored is None or before != after
    use = read_use(client, options.lease)
    if changed and before is not None:
        _refuse_removed(use, before, after)
    plan = plan_backends(client, options.tree, before, after, lost=stored is not None and before is None)
    if not options.check_mode:
        leaving = before is not None and before.counted_by != "embedded" and after.counted_by == "embedded"
        if leaving:
            clear_backends(client, plan, wait=True)
        if stored is None:
            create_tree(client, options.namespace, after)
        elif changed:
            replace_tree(client, stored, after)
        write_backends(client, plan)
        if not leaving:
            clear_backends(client, plan, wait=False)
    warnings = (*_warnings(options.tree, stored, after, use), *plan.warnings)
    return QuotaResult(options, before, after, changed or plan.changed, use, warnings, declared.notes, plan)


def _warnings(name: str, stored: StoredTree | None, after: QuotaTree, use: UseReading) -> list[str]:
    """What is to be known of a tree that is stored nevertheless."""
    found = [f"quota tree {name}: {problem}" for problem in capacity_problems(after)]
    if stored is not None and stored.unreadable is not None:
        found.append(f"the stored tree could not be read and is replaced: {stored.unreadable}")
    charged = use.charged(after) if after.counted_by != "embedded" else None
    started = sum(item.started for item in charged.counts.values()) if charged is not None else 0
    if started:
        found.append(f"quota tree {name}: {started} gangs that dispatchers have started are not counted by Kueue")
    return found


def _remove(client: KubeClient, options: QuotaOptions) -> QuotaResult:
    """Remove a tree that nobody uses any more; what its backends have of it goes first."""
    stored = _find(client, options)
    use = read_use(client, options.lease)
    if stored is None:
        return QuotaResult(options, None, None, False, use)
    if stored.tree is not None:
        _refuse_removed(use, stored.tree, None)
    plan = plan_backends(client, options.tree, stored.tree, None, lost=stored.tree is None)
    if not options.check_mode:
        clear_backends(client, plan, wait=True)
        delete_tree(client, stored)
        delete_status(client, options.namespace, options.tree)
    return QuotaResult(options, stored.tree, None, True, use, plan.warnings, (), plan)


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
    """Refuse to take away leaves that started gangs are charged to: what they use would be counted nowhere.

    Of a tree that Kueue is to count all leaves go as far as gangs are concerned. What it counts already is not theirs.
    """
    if before.counted_by != "embedded":
        return
    stays = after is not None and after.counted_by == "embedded"
    left = {leaf.name for leaf in after.leaves} if after is not None and stays else set()
    going = [leaf.name for leaf in before.leaves if leaf.name not in left]
    if not going:
        return
    charged = use.charged(before)
    if charged is None:
        cause = "nobody can tell whether gangs use it, since this account may not list the records of all gangs"
        raise BadTree(before.name, [Problem(before.path(name), "", cause) for name in going])
    problems = [
        Problem(
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
