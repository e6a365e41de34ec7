# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A quota tree as objects of Kueue, for clusters where Kueue counts: leaves are ClusterQueues, the others Cohorts.

What Kueue has no place for is refused where gangs could otherwise have more than the tree gives them, and else told as
a warning; both name the queue by its path. Every object carries the label of the tree, by which it is found again.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    DEFAULT_TREE,
    NO_FLAVOR,
    FlavorResource,
    QuotaFlavor,
    QuotaQueue,
    QuotaSettings,
    QuotaTree,
    Reclaim,
    Stop,
    UserLimits,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import DNS_NAME, LABEL_LENGTH, Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    NANO,
    format_quantity,
    quantity_text,
)

KUEUE_API = "kueue.x-k8s.io/v1beta2"
# The versions that objects can be written in, the best first.
KUEUE_APIS = (KUEUE_API, "kueue.x-k8s.io/v1beta1")
FLAVOR, PRIORITY, COHORT, CLUSTER_QUEUE, LOCAL_QUEUE = KUEUE_KINDS = (
    "ResourceFlavor",
    "WorkloadPriorityClass",
    "Cohort",
    "ClusterQueue",
    "LocalQueue",
)

# What a ClusterQueue and a ResourceFlavor hold at most.
_MOST_FLAVORS = 64
_MOST_RESOURCES = 64
_MOST_PAIRS = 512
_MOST_OF_FLAVOR = 8
# Kueue counts in 64 bits, and takes this amount for no limit.
_TOO_MUCH = 2**63 - 1
_STOP_POLICIES: Mapping[Stop, str] = {"none": "None", "hold": "Hold", "drain": "HoldAndDrain"}
_STOP_ORDER: tuple[Stop, ...] = ("none", "hold", "drain")
_RECLAIM_WORDS: Mapping[Reclaim, str] = {"any": "Any", "lower_priority": "LowerPriority", "never": "Never"}
# The name of the only flavor of a tree that declares none.
_UNNAMED_FLAVOR = "default"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_OWN_SETTINGS = ("fair", "half_life", "min_run_time", "nominate_timeout", "max_evictions")
# What nearly every pod requests: Kueue starts nothing that requests a resource its queue does not know.
_USUAL_RESOURCES = ("cpu", "memory")


@dataclasses.dataclass(frozen=True, slots=True)
class KueueObjects:
    """The objects in the order in which they are created, and what Kueue will do otherwise than the tree says."""

    objects: tuple[Data, ...]
    warnings: tuple[str, ...] = ()


def build_kueue_objects(tree: QuotaTree, namespaces: Mapping[str, Mapping[str, str]]) -> KueueObjects:
    """The tree for Kueue, with a LocalQueue in each of these namespaces (labels by name) that a leaf is open to.

    BadTree tells everything that Kueue cannot hold.
    """
    problems = [
        *_flavor_problems(tree),
        *(problem for queue in tree.queues for problem in _queue_problems(tree, queue)),
    ]
    if problems:
        raise BadTree(tree.name, problems)
    flavors = [_build_flavor(tree, flavor) for flavor in tree.flavors or (QuotaFlavor(NO_FLAVOR),)]
    priorities = [_build_priority(tree, name) for name in sorted(tree.priorities)]
    cohorts = [_build_cohort(tree, queue) for queue in tree.queues if tree.children[queue.name]]
    queues = [_build_queue(tree, leaf, namespaces) for leaf in tree.leaves]
    doors = [
        _build_door(tree, leaf, namespace)
        for leaf in tree.leaves
        for namespace in sorted(namespaces)
        if _admits(leaf, namespace, namespaces[namespace])
    ]
    return KueueObjects((*flavors, *priorities, *cohorts, *queues, *doors), tuple(_warnings(tree)))


def in_version(obj: Data, api_version: str) -> Data:
    """An object as a version of Kueue's API has it; before v1beta2 a ClusterQueue named its cohort by another field."""
    spec = obj.get("spec", {})
    if api_version != KUEUE_API and "cohortName" in spec:
        renamed = {"cohort" if key == "cohortName" else key: value for key, value in spec.items()}
        return {**obj, "apiVersion": api_version, "spec": renamed}
    return {**obj, "apiVersion": api_version}


def kueue_name(tree: str, name: str) -> str:
    """What a queue or flavor is called in Kueue; the tree that is meant when none is named puts nothing before it."""
    name = name or _UNNAMED_FLAVOR
    return name if tree == DEFAULT_TREE else f"{tree}.{name}"


def _flavor_problems(tree: QuotaTree) -> Iterator[Problem]:
    """What of the tree's flavors and resources is too much for Kueue."""
    counts = (("flavors", len(tree.flavor_names), _MOST_FLAVORS), ("resources", len(tree.resources), _MOST_RESOURCES))
    for what, count, most in (*counts, ("pairs of flavor and resource", len(tree.keys), _MOST_PAIRS)):
        if count > most:
            yield Problem("tree", "", f"it has {count} {what}, and a ClusterQueue of Kueue has at most {most}")
    for flavor in tree.flavors:
        for field, count in (("node_labels", len(flavor.node_labels)), ("tolerations", len(flavor.tolerations))):
            if count > _MOST_OF_FLAVOR:
                cause = f"there are {count}, and a ResourceFlavor of Kueue has at most {_MOST_OF_FLAVOR}"
                yield Problem(f"flavors.{flavor.name}", field, cause)


def _queue_problems(tree: QuotaTree, queue: QuotaQueue) -> Iterator[Problem]:
    """What of one queue Kueue cannot hold."""
    path = tree.path(queue.name)
    name = kueue_name(tree.name, queue.name)
    if not DNS_NAME.fullmatch(queue.name):
        cause = f"{queue.name!r} cannot be the name of an object of Kueue: lower case letters, digits, '-' and '.'"
        yield Problem(path, "name", cause)
    elif len(name) > LABEL_LENGTH:
        yield Problem(path, "name", f"{name!r} is longer than a label may be, {LABEL_LENGTH} characters")
    unknown = "Kueue cannot hold it, and gangs could have more than the tree gives; use the embedded backend"
    given = {
        "capacity": bool(queue.capacity),
        "user_limits": queue.user_limits != UserLimits(),
        "budget": queue.budget is not None,
        "priority_cap": queue.priority_cap is not None,
    }
    for field in (field for field, is_given in given.items() if is_given):
        yield Problem(path, field, unknown)
    if 0 < queue.weight * NANO <= 1:
        yield Problem(path, "weight", "a weight of Kueue is zero or more than 0.000000001")
    for field in ("nominal", "extra", "borrowing_limit", "lending_limit"):
        if any(amount >= _TOO_MUCH for amount in getattr(queue, field).values()):
            yield Problem(path, field, f"Kueue takes {_TOO_MUCH} and more for no limit")


def _warnings(tree: QuotaTree) -> Iterator[str]:
    """What Kueue leaves out or does otherwise, though no gang gets more than the tree gives."""
    for queue in tree.queues:
        if tree.children[queue.name] and queue.reclaim != "any":
            yield f"{tree.path(queue.name)}: reclaim: Kueue knows it of leaves only; set it there"
    usual = QuotaSettings()
    for field in _OWN_SETTINGS:
        if getattr(tree.settings, field) != getattr(usual, field):
            yield f"settings.{field}: Kueue has its own configuration for such things and does not see it"
    missing = [name for name in _USUAL_RESOURCES if name not in tree.resources]
    if missing:
        yield (
            f"the tree has no amounts of {' and '.join(missing)}: Kueue starts nothing that requests a resource "
            "which its queue does not count, unless it is configured with quotaCheckStrategy: IgnoreUndeclared"
        )


def _object(tree: QuotaTree, kind: str, name: str, spec: Data, namespace: str | None = None) -> Data:
    """An object of Kueue with the label of the tree."""
    place = {} if namespace is None else {"namespace": namespace}
    meta = {"name": kueue_name(tree.name, name), **place, "labels": {TREE_LABEL: tree.name}}
    return {"apiVersion": KUEUE_API, "kind": kind, "metadata": meta, "spec": spec}


def _build_priority(tree: QuotaTree, name: str) -> Data:
    """A priority by its name; the kind has no spec."""
    made = _object(tree, PRIORITY, name, {})
    del made["spec"]
    return {**made, "value": tree.priorities[name]}


def _build_flavor(tree: QuotaTree, flavor: QuotaFlavor) -> Data:
    """A kind of nodes."""
    spec: Data = {}
    if flavor.node_labels:
        spec["nodeLabels"] = dict(flavor.node_labels)
    if flavor.tolerations:
        spec["tolerations"] = [dict(item) for item in flavor.tolerations]
    return _object(tree, FLAVOR, flavor.name, spec)


def _build_cohort(tree: QuotaTree, queue: QuotaQueue) -> Data:
    """A queue above others; its own amounts are a pool beside what they bring."""
    parent = {} if queue.parent is None else {"parentName": kueue_name(tree.name, queue.parent)}
    return _object(tree, COHORT, queue.name, {**parent, **_shared_spec(tree, queue)})


def _build_queue(tree: QuotaTree, leaf: QuotaQueue, namespaces: Mapping[str, Mapping[str, str]]) -> Data:
    """A leaf; flavors are tried in the tree's order, and one within nominal goes before one that is borrowed."""
    parent = {} if leaf.parent is None else {"cohortName": kueue_name(tree.name, leaf.parent)}
    stops = (tree.by_name[name].stop for name in tree.ancestry(leaf.name))
    spec: Data = {
        **parent,
        **_shared_spec(tree, leaf),
        "namespaceSelector": _namespace_selector(leaf, namespaces),
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": _RECLAIM_WORDS[leaf.reclaim],
            "withinClusterQueue": "LowerPriority",
            "borrowWithinCohort": {"policy": "Never"},
        },
        "stopPolicy": _STOP_POLICIES[max(stops, key=_STOP_ORDER.index)],
    }
    return _object(tree, CLUSTER_QUEUE, leaf.name, spec)


def _build_door(tree: QuotaTree, leaf: QuotaQueue, namespace: str) -> Data:
    """The LocalQueue by which a namespace gets at a leaf."""
    spec = {"clusterQueue": kueue_name(tree.name, leaf.name)}
    return _object(tree, LOCAL_QUEUE, leaf.name, spec, namespace)


def _admits(leaf: QuotaQueue, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether gangs of a namespace may be in a leaf."""
    selector = leaf.namespace_selector
    return leaf.open_to_all or namespace in leaf.namespaces or (selector is not None and selector.matches(labels))


def _namespace_selector(leaf: QuotaQueue, namespaces: Mapping[str, Mapping[str, str]]) -> Data:
    """The namespaces of a leaf as a selector; names and a selector together can only be told as names."""
    if leaf.open_to_all:
        return {}
    if leaf.selector is not None and not leaf.namespaces:
        return dict(leaf.selector)
    found = {name for name, labels in namespaces.items() if _admits(leaf, name, labels)}
    values = sorted(found | set(leaf.namespaces))
    return {"matchExpressions": [{"key": _NAMESPACE_LABEL, "operator": "In", "values": values}]}


def _shared_spec(tree: QuotaTree, queue: QuotaQueue) -> Data:
    """What leaves and the queues above them have alike: amounts and weight."""
    flavors = [
        {
            "name": kueue_name(tree.name, flavor),
            "resources": [_amounts(queue, FlavorResource(flavor, name)) for name in tree.resources],
        }
        for flavor in tree.flavor_names
    ]
    groups = [{"coveredResources": list(tree.resources), "flavors": flavors}] if tree.resources else []
    return {"resourceGroups": groups, "fairSharing": {"weight": format_quantity(int(queue.weight * NANO))}}


def _amounts(queue: QuotaQueue, key: FlavorResource) -> dict[str, t.Any]:
    """What a queue has of one resource of one flavor; nominal and extra are one word for Kueue."""
    limits = {"borrowingLimit": queue.most_borrowed(key), "lendingLimit": queue.lending_limit.get(key)}
    return {
        "name": key.resource,
        "nominalQuota": quantity_text(key.resource, queue.nominal.get(key, 0) + queue.extra.get(key, 0)),
        **{name: quantity_text(key.resource, amount) for name, amount in limits.items() if amount is not None},
    }
