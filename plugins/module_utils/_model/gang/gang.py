# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A gang as the policies see it: named podsets of one namespace that start whole or not at all."""

from __future__ import annotations

import copy
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import GangRequest
from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    PodSet,
    infer_podsets,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import NamespaceRules, Snapshot
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaFlavor

# The flavors that each podset is charged to, one of each tree that has flavors with labels or tolerations.
Kinds = t.Mapping[str, t.Sequence[QuotaFlavor]]

HOSTNAME_LABEL = "kubernetes.io/hostname"


@dataclasses.dataclass(frozen=True, slots=True)
class Gang:
    """What is to start together; own_claims are PersistentVolumeClaims that the gang itself creates.

    made is all that is created besides pods.
    """

    name: str
    namespace: str
    podsets: tuple[PodSet, ...]
    own_claims: frozenset[str] = frozenset()
    made: MadeObjects = dataclasses.field(default_factory=MadeObjects)

    def resized(self, counts: t.Mapping[str, int]) -> Gang:
        """The same gang with other numbers of pods."""
        podsets = tuple(dataclasses.replace(item, count=counts.get(item.name, item.count)) for item in self.podsets)
        return dataclasses.replace(self, podsets=podsets)


def sized_podsets(request: GangRequest, snapshot: Snapshot) -> tuple[PodSet, ...]:
    """The podsets of a gang: those declared, or inferred with what its namespace and RuntimeClasses add to the pods."""
    limit_ranges = snapshot.rules.get(request.namespace, NamespaceRules()).limit_ranges
    if request.podsets is not None or not (limit_ranges or snapshot.runtime_classes):
        return request.demand
    return tuple(
        infer_podsets(
            request.planned,
            namespace=request.namespace,
            limit_ranges=[item.get("spec") or {} for item in limit_ranges],
            overheads={name: value.overhead for name, value in snapshot.runtime_classes.items()},
        )
    )


def steer_objects(
    objects: t.Sequence[t.Mapping[str, t.Any]],
    gang: Gang,
    steering: t.Mapping[str, t.Sequence[str]],
    kinds: Kinds | None = None,
) -> list[dict[str, t.Any]]:
    """Copies of the gang's objects whose pod templates are confined to nodes of their kinds and to those of steering.

    The latter is the node affinity that the verdict's steering names.
    """
    steered: list[dict[str, t.Any]] = [copy.deepcopy(dict(item)) for item in objects]
    for podset in gang.podsets:
        hosts, flavors = steering.get(podset.name), (kinds or {}).get(podset.name, ())
        if (hosts or flavors) and podset.path is not None and podset.source_index >= 0:
            template: t.Any = steered[podset.source_index]
            for step in podset.path:
                template = template[step]
            spec = template.setdefault("spec", {})
            confine_to_kinds(spec, flavors)
            if hosts:
                confine(spec, hosts)
    return steered


def confined(podset: PodSet, hosts: t.Sequence[str] | None) -> PodSet:
    """The podset as its objects are created when it is steered to these hosts; itself without any."""
    return _with_spec(podset, lambda spec: confine(spec, hosts)) if hosts else podset


def confined_to_kinds(podset: PodSet, flavors: t.Sequence[QuotaFlavor]) -> PodSet:
    """The podset as its objects are created when it is charged to these flavors; itself if they ask for nothing."""
    if not any(flavor.confines for flavor in flavors):
        return podset
    return _with_spec(podset, lambda spec: confine_to_kinds(spec, flavors))


def gang_of_kinds(gang: Gang, kinds: Kinds) -> Gang:
    """The gang with its podsets confined to nodes of their kinds; itself where that asks for nothing."""
    podsets = tuple(confined_to_kinds(podset, kinds.get(podset.name, ())) for podset in gang.podsets)
    same = all(one is other for one, other in zip(podsets, gang.podsets, strict=True))
    return gang if same else dataclasses.replace(gang, podsets=podsets)


def _with_spec(podset: PodSet, change: t.Callable[[dict[str, t.Any]], None]) -> PodSet:
    """A podset whose pod spec was changed; change must put new values in place of those it changes."""
    spec = dict(podset.template.get("spec") or {})
    change(spec)
    return dataclasses.replace(podset, template={**podset.template, "spec": spec})


def confine(spec: dict[str, t.Any], hosts: t.Sequence[str]) -> None:
    """Add a required node affinity on host names to a pod spec; alternatives already there each get it."""
    _require(spec, HOSTNAME_LABEL, sorted(hosts))


def confine_to_kinds(spec: dict[str, t.Any], flavors: t.Iterable[QuotaFlavor]) -> None:
    """Add the node labels and tolerations of flavors to a pod spec; nothing that is there is replaced.

    Where another value of a label is asked for already, both are: no node has both.
    """
    for flavor in flavors:
        for key, value in flavor.node_labels.items():
            spec["nodeSelector"] = selector = dict(spec.get("nodeSelector") or {})
            if selector.setdefault(key, value) != value:
                _require(spec, key, [value])
        there = list(spec.get("tolerations") or ())
        more = [dict(item) for item in flavor.tolerations if item not in there]
        if more:
            spec["tolerations"] = [*there, *more]


def _require(spec: dict[str, t.Any], label: str, values: t.Sequence[str]) -> None:
    """Add a required node affinity to a pod spec; alternatives already there each get it."""
    required: dict[str, t.Any] = spec
    for step in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        required[step] = dict(required.get(step) or {})
        required = required[step]
    wanted = {"key": label, "operator": "In", "values": list(values)}
    # A term without expressions matches no node and must stay so.
    terms = [term for term in required.get("nodeSelectorTerms") or () if term] or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), wanted]} for term in terms
    ]
