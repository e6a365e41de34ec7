# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects that a tree has beside its ConfigMap, where Kueue counts it or ResourceQuotas are its ceilings.

Each carries the label of its tree. They are compared by the server's dry run, written where they differ, and removed
when the tree has no use for them. Objects of others are never touched: one whose name is needed is refused.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.quota.kueue_use import (
    foreign_users,
    read_workloads,
    removal_problems,
    stranded,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import (
    Label,
    ObjectChange,
    compare,
    write_changes,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import (
    find_of_kinds,
    is_going,
    pruned,
    remove_objects,
    try_removals,
    wait_until_gone,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import Backend, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import versionless_key
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.ceilings import (
    CEILING_API,
    CEILING_KIND,
    build_ceilings,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.kueue_objects import (
    CLUSTER_QUEUE,
    FLAVOR,
    KUEUE_APIS,
    KUEUE_KINDS,
    LOCAL_QUEUE,
    build_kueue_objects,
    in_version,
)

Object = dict[str, t.Any]

# Namespaces of Kubernetes itself, where nobody queues work; a leaf may still name them.
_SYSTEM_NAMESPACES = frozenset({"kube-node-lease", "kube-public", "kube-system"})
# How long objects that were deleted may take to go.
_GONE_SECONDS = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class BackendPlan:
    """What happens to the objects of a tree; moved are those that are deleted and made anew."""

    changes: tuple[ObjectChange, ...] = ()
    moved: tuple[Object, ...] = ()
    removals: tuple[Object, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[ObjectChange, ...]:
        """All objects with what happens to them."""
        return (*self.changes, *map(pruned, (*self.moved, *self.removals)))

    @property
    def changed(self) -> bool:
        """Whether anything happens."""
        return any(change.action != "unchanged" for change in self.told)


NO_PLAN = BackendPlan()


def check_backends(tree: QuotaTree) -> None:
    """Refuse a tree that its backends cannot hold, with all that is wrong, before a server is asked for anything."""
    builders: dict[Backend, Callable[[], object]] = {
        "kueue": lambda: build_kueue_objects(tree, {}),
        "resourcequota": lambda: build_ceilings(tree),
    }
    problems: list[Problem] = []
    for build in (builders[backend] for backend in tree.backends if backend in builders):
        try:
            build()
        except BadTree as error:
            problems += error.problems
    if problems:
        raise BadTree(tree.name, problems)


def plan_backends(
    client: KubeClient, name: str, before: QuotaTree | None, after: QuotaTree | None, *, lost: bool
) -> BackendPlan:
    """What has to happen to the objects of a tree that was one thing and becomes another; None is no tree.

    lost says that nobody knows what the tree was, so that objects of all kinds are looked for. Nothing is written;
    what cannot be done is refused, and Workloads that are admitted keep their queues.
    """
    wanted_of = _backends_of(after)
    known = wanted_of | _backends_of(before) | (frozenset({"kueue", "resourcequota"}) if lost else frozenset())
    api_version = _kueue_api(client, name, needed="kueue" in wanted_of) if "kueue" in known else None
    wanted, warnings = _wanted(client, after, api_version)
    label = Label(TREE_LABEL, name)
    kinds = [(CEILING_API, CEILING_KIND)] if "resourcequota" in known else []
    kinds += [(api_version, kind) for kind in KUEUE_KINDS] if api_version is not None else []
    found = [obj for obj in find_of_kinds(client, label, kinds) if not is_going(obj)] if kinds else []
    keys = {versionless_key(obj) for obj in wanted}
    removals = [obj for obj in found if versionless_key(obj) not in keys]
    moved = _moved(client, label, wanted, found) if api_version is not None else []
    if api_version is not None and (removals or moved):
        workloads = read_workloads(client, api_version)
        problems = list(removal_problems([*moved, *removals], workloads, (after, before)))
        problems += foreign_users(client, moved)
        if problems:
            raise BadTree(name, problems)
        warnings += stranded(removals, workloads)
    changes = compare(client, _without(wanted, moved), label)
    anew = {versionless_key(obj) for obj in moved}
    changes += [ObjectChange(obj, "created", after=obj) for obj in wanted if versionless_key(obj) in anew]
    try_removals(client, [*moved, *removals])
    return BackendPlan(tuple(changes), tuple(moved), tuple(removals), tuple(warnings))


def write_backends(client: KubeClient, plan: BackendPlan) -> None:
    """Make the objects what the plan says; what is made anew has to be gone first."""
    deadline = client.clock() + _GONE_SECONDS
    if plan.moved:
        remove_objects(client, plan.moved)
        wait_until_gone(client, plan.moved, deadline)
    write_changes(client, plan.changes, deadline)


def clear_backends(client: KubeClient, plan: BackendPlan, *, wait: bool) -> None:
    """Remove the objects that the tree has no use for; wait returns when none of them is there any more."""
    remove_objects(client, plan.removals)
    if wait:
        wait_until_gone(client, reversed(plan.removals), client.clock() + _GONE_SECONDS)


def _backends_of(tree: QuotaTree | None) -> frozenset[Backend]:
    return frozenset() if tree is None else frozenset(tree.backends)


def _kueue_api(client: KubeClient, name: str, *, needed: bool) -> str | None:
    """The version of Kueue's API that is served; None when there is none and none is needed."""
    for api_version in KUEUE_APIS:
        if find_resource(client, api_version, CLUSTER_QUEUE) is not None:
            return api_version
    if needed:
        cause = (
            f"the API server serves no {CLUSTER_QUEUE} ({' or '.join(KUEUE_APIS)}); install Kueue, or let dispatchers "
            "count the tree (backends: embedded)"
        )
        raise MusterError("tell Kueue of", f"quota tree {name}", cause)
    return None


def _wanted(client: KubeClient, tree: QuotaTree | None, api_version: str | None) -> tuple[list[Object], list[str]]:
    """The objects that a tree has, and what Kueue will do otherwise than the tree says."""
    wanted: list[Object] = []
    warnings: list[str] = []
    if tree is not None and "resourcequota" in tree.backends:
        ceilings, missing = _ceilings(client, tree)
        wanted += ceilings
        warnings += missing
    if tree is not None and "kueue" in tree.backends and api_version is not None:
        built = build_kueue_objects(tree, _namespaces(client, tree))
        wanted += [in_version(obj, api_version) for obj in built.objects]
        warnings += [f"quota tree {tree.name}: {text}" for text in built.warnings]
    return wanted, warnings


def _ceilings(client: KubeClient, tree: QuotaTree) -> tuple[list[Object], list[str]]:
    """The ceilings in the namespaces that exist, and which do not; who may not see namespaces tries them all."""
    built = build_ceilings(tree)
    try:
        there = _namespaces(client, tree)
    except Forbidden:
        return built, []
    places = [obj["metadata"]["namespace"] for obj in built]
    missing = [
        f"quota tree {tree.name}: there is no namespace {place}, so it has no ceiling until the task runs again"
        for place in places
        if place not in there
    ]
    return [obj for obj, place in zip(built, places, strict=True) if place in there], missing


def _namespaces(client: KubeClient, tree: QuotaTree) -> Mapping[str, Mapping[str, str]]:
    """The labels of the namespaces that can have a LocalQueue."""
    named = {name for leaf in tree.leaves for name in leaf.namespaces}
    found = dict(list_objects(client, resource_path("v1", "namespaces"), keep=_living).items)
    return {name: labels for name, labels in found.items() if name not in _SYSTEM_NAMESPACES or name in named}


def _living(raw: Object) -> tuple[str, Mapping[str, str]] | None:
    """Name and labels of a namespace; None of one that goes, where nothing can be made."""
    metadata = raw["metadata"]
    return None if metadata.get("deletionTimestamp") else (metadata["name"], metadata.get("labels") or {})


def _moved(client: KubeClient, label: Label, wanted: Sequence[Object], found: Sequence[Object]) -> list[Object]:
    """What of ours cannot be changed to what it has to be, so that it is made anew."""
    return [*_frozen_flavors(client, label, wanted, found), *_moved_doors(client, label, wanted, found)]


def _frozen_flavors(
    client: KubeClient, label: Label, wanted: Sequence[Object], found: Sequence[Object]
) -> list[Object]:
    """The flavors that are to have other nodes though somebody gave them a topology: Kueue keeps those as they are.

    Kueue lets go of a flavor when no ClusterQueue has it, and all of the tree have all flavors: they are made anew too.
    """
    specs = {versionless_key(obj): obj["spec"] for obj in wanted if obj["kind"] == FLAVOR}
    mine = [obj for obj in found if versionless_key(obj) in specs]
    live = _specs(client, label, mine)
    frozen = [obj for obj in mine if _is_frozen(live.get(obj["metadata"]["uid"], {}), specs[versionless_key(obj)])]
    keys = {versionless_key(obj) for obj in wanted}
    queues = [obj for obj in found if obj["kind"] == CLUSTER_QUEUE and versionless_key(obj) in keys]
    return [*frozen, *queues] if frozen else []


def _is_frozen(live: Object, wanted: Object) -> bool:
    """Whether a flavor would have to change in what a topology forbids."""
    fields = ("nodeLabels", "tolerations")
    return bool(live.get("topologyName")) and any((live.get(key) or None) != wanted.get(key) for key in fields)


def _moved_doors(client: KubeClient, label: Label, wanted: Sequence[Object], found: Sequence[Object]) -> list[Object]:
    """The LocalQueues that lead to another ClusterQueue."""
    doors = {versionless_key(obj): obj["spec"]["clusterQueue"] for obj in wanted if obj["kind"] == LOCAL_QUEUE}
    mine = [obj for obj in found if versionless_key(obj) in doors]
    leads = {uid: str(spec.get("clusterQueue") or "") for uid, spec in _specs(client, label, mine).items()}
    return [obj for obj in mine if leads.get(obj["metadata"]["uid"], "") not in ("", doors[versionless_key(obj)])]


def _specs(client: KubeClient, label: Label, objects: Sequence[Object]) -> dict[str, Object]:
    """What objects of one kind are to be, by their uids."""
    info = find_resource(client, objects[0]["apiVersion"], objects[0]["kind"]) if objects else None
    if info is None:
        return {}
    return dict(list_objects(client, info.path(), keep=_uid_and_spec, label_selector=label.selector).items)


def _uid_and_spec(raw: Object) -> tuple[str, Object]:
    return raw["metadata"]["uid"], raw.get("spec") or {}


def _without(objects: Iterable[Object], others: Iterable[Object]) -> list[Object]:
    keys = {versionless_key(obj) for obj in others}
    return [obj for obj in objects if versionless_key(obj) not in keys]
