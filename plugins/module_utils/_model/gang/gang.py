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
            request.objects,
            namespace=request.namespace,
            limit_ranges=[item.get("spec") or {} for item in limit_ranges],
            overheads={name: value.overhead for name, value in snapshot.runtime_classes.items()},
        )
    )


def steer_objects(
    objects: t.Sequence[t.Mapping[str, t.Any]], gang: Gang, steering: t.Mapping[str, t.Sequence[str]]
) -> list[dict[str, t.Any]]:
    """Copies of the gang's objects whose pod templates carry the node affinity the verdict's steering names."""
    steered: list[dict[str, t.Any]] = [copy.deepcopy(dict(item)) for item in objects]
    for podset in gang.podsets:
        hosts = steering.get(podset.name)
        if hosts and podset.path is not None and podset.source_index >= 0:
            template: t.Any = steered[podset.source_index]
            for step in podset.path:
                template = template[step]
            confine(template.setdefault("spec", {}), hosts)
    return steered


def confined(podset: PodSet, hosts: t.Sequence[str] | None) -> PodSet:
    """The podset as its objects are created when it is steered to these hosts; itself without any."""
    if not hosts:
        return podset
    template: dict[str, t.Any] = copy.deepcopy(dict(podset.template))
    confine(template.setdefault("spec", {}), hosts)
    return dataclasses.replace(podset, template=template)


def confine(spec: dict[str, t.Any], hosts: t.Sequence[str]) -> None:
    """Add a required node affinity on host names to a pod spec; alternatives already there each get it."""
    required: dict[str, t.Any] = spec
    for step in ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        required[step] = required.get(step) or {}
        required = required[step]
    wanted = {"key": HOSTNAME_LABEL, "operator": "In", "values": sorted(hosts)}
    # A term without expressions matches no node and must stay so.
    terms = [term for term in required.get("nodeSelectorTerms") or () if term] or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), wanted]} for term in terms
    ]
