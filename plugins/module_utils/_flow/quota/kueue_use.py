# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who uses the objects of Kueue that a tree has: Workloads that wait in its queues, or were admitted there."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Iterable, Iterator, Sequence

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, list_objects
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    condition_met,
    describe_object,
    value_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.kueue_objects import (
    CLUSTER_QUEUE,
    FLAVOR,
    LOCAL_QUEUE,
    kueue_name,
)

Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True, slots=True)
class WorkloadUse:
    """A Workload that is not over: the LocalQueue it came by, and where it was admitted, with which flavors."""

    namespace: str
    local_queue: str | None
    cluster_queue: str | None
    flavors: frozenset[str]


def read_workloads(client: KubeClient, api_version: str) -> list[WorkloadUse]:
    """All Workloads that are not over."""
    info = find_resource(client, api_version, "Workload")
    return [] if info is None else list_objects(client, info.path(), keep=_use_of).items


def _use_of(raw: Object) -> WorkloadUse | None:
    """What a Workload uses; None when it is over. What others damaged uses nothing."""
    if condition_met(raw, "Finished"):
        return None
    assigned = value_at(raw, ("status", "admission", "podSetAssignments"))
    flavors = [value_at(item, ("flavors",)) for item in assigned] if isinstance(assigned, list) else []
    return WorkloadUse(
        namespace=raw["metadata"]["namespace"],
        local_queue=value_at(raw, ("spec", "queueName")),
        cluster_queue=value_at(raw, ("status", "admission", "clusterQueue")),
        flavors=frozenset(str(name) for item in flavors if isinstance(item, dict) for name in item.values()),
    )


def removal_problems(
    removals: Sequence[Object], workloads: Sequence[WorkloadUse], trees: Iterable[QuotaTree | None]
) -> Iterator[Problem]:
    """Objects that cannot go since admitted Workloads count there, told by the paths of their queues."""
    paths = {
        kueue_name(tree.name, queue.name): tree.path(queue.name) for tree in trees if tree for queue in tree.queues
    }
    going = {obj["metadata"]["name"] for obj in removals if obj["kind"] == CLUSTER_QUEUE}
    for obj in removals:
        uses = _uses(obj)
        if uses is None:
            continue
        count = sum(uses(item) for item in workloads if item.cluster_queue is not None)
        # Of a LocalQueue whose ClusterQueue goes too it is told there.
        if not count or (obj["kind"] == LOCAL_QUEUE and obj["metadata"]["name"] in going):
            continue
        name = obj["metadata"]["name"]
        where = f"flavors.{name}" if obj["kind"] == FLAVOR else paths.get(name, name)
        cause = f"{count} Workloads are admitted by {describe_object(obj)}; drain it (stop: drain) until they are over"
        yield Problem(where, "", cause)


def foreign_users(client: KubeClient, removals: Sequence[Object]) -> Iterator[Problem]:
    """Flavors that cannot go since ClusterQueues that stay have them: Kueue would let them go with those only."""
    flavors = {obj["metadata"]["name"]: obj for obj in removals if obj["kind"] == FLAVOR}
    versions = [obj["apiVersion"] for obj in flavors.values()]
    if not versions:
        return
    info = find_resource(client, versions[0], CLUSTER_QUEUE)
    going = {obj["metadata"]["uid"] for obj in removals}
    for uid, name, used in [] if info is None else list_objects(client, info.path(), keep=_flavors_of).items:
        for flavor in sorted(used & flavors.keys()) if uid not in going else ():
            cause = f"ClusterQueue {name}, which is not of this tree, has it, so that it cannot be made anew"
            yield Problem(f"flavors.{flavor}", "", cause)


def _flavors_of(raw: Object) -> tuple[str, str, frozenset[str]]:
    """A ClusterQueue by uid and name, with the flavors that it has."""
    groups = value_at(raw, ("spec", "resourceGroups"))
    listed = [value_at(group, ("flavors",)) for group in groups] if isinstance(groups, list) else []
    names = {value_at(item, ("name",)) for items in listed if isinstance(items, list) for item in items}
    return raw["metadata"]["uid"], raw["metadata"]["name"], frozenset(str(name) for name in names)


def stranded(removals: Sequence[Object], workloads: Sequence[WorkloadUse]) -> Iterator[str]:
    """A warning of each LocalQueue that goes while Workloads wait in it: they stay, and wait on."""
    for obj in removals:
        if obj["kind"] == LOCAL_QUEUE:
            uses = _uses(obj)
            count = sum(uses(item) for item in workloads if item.cluster_queue is None) if uses is not None else 0
            if count:
                yield f"{count} Workloads wait in {describe_object(obj)}, which goes; they wait on until they are moved"


def _uses(obj: Object) -> Callable[[WorkloadUse], bool] | None:
    """Whether a Workload uses an object; None of kinds that Workloads do not use by themselves."""
    name, namespace = obj["metadata"]["name"], obj["metadata"].get("namespace")
    rules: dict[str, Callable[[WorkloadUse], bool]] = {
        CLUSTER_QUEUE: lambda item: item.cluster_queue == name,
        LOCAL_QUEUE: lambda item: (item.namespace, item.local_queue) == (namespace, name),
        FLAVOR: lambda item: name in item.flavors,
    }
    return rules.get(obj["kind"])
