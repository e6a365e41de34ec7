# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a gang creates, as the admission plugins for ResourceQuota and LimitRange see it: pods, claims and the rest."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import (
    Amounts,
    Resources,
    container_amounts,
    exact_limits,
    exact_requests,
    pod_requests,
    read_amounts,
    sized_as_a_whole,
    summed_amounts,
    whole_amounts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    group_and_kind,
    resource_of,
    value_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import unscaled

Raw = Mapping[str, t.Any]
# Amounts by the name a quota has for them.
Counts = tuple[tuple[str, int], ...]

POD = ("", "Pod")
CLAIM = ("", "PersistentVolumeClaim")
_SERVICE = ("", "Service")
# Kinds that had a name in quotas before all kinds had one; a Service also counts its ports.
_OLD_NAMES = ("ConfigMap", "ReplicationController", "ResourceQuota", "Secret", "Service")
# What the ticket, the ConfigMap that owns the objects of a start, is counted as.
_TICKET = ("configmaps", "count/configmaps")
# What decides whether a pod is of the class BestEffort.
_QOS_RESOURCES = ("cpu", "memory")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_TERMS = "DuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, slots=True)
class ClaimSize:
    """A PersistentVolumeClaim that is to be created; a class of None becomes the cluster's default one."""

    name: str
    # In nano-units.
    requests: tuple[tuple[str, int], ...]
    storage_class: str | None
    attributes_class: str


@dataclasses.dataclass(frozen=True, slots=True)
class AdmittedPod:
    """One pod of a podset; amounts are in nano-units.

    Where the containers do not tell the size (it was declared), bounds for the pod as a whole are held against what
    was declared, and a limit that nobody stated is taken for the request.
    """

    containers: tuple[tuple[str, Amounts, Amounts], ...]
    # What quotas count of it, and what LimitRanges bound.
    requests: Amounts
    limits: Amounts
    bounded_requests: Amounts
    bounded_limits: Amounts
    # Whether the pod itself states amounts, so that its containers need not.
    whole: bool
    best_effort: bool
    terminating: bool
    crosses_namespaces: bool
    # Amounts that contradict each other, once defaults are filled in: the server calls such a pod invalid.
    contradictions: tuple[str, ...]
    # Of its ephemeral volumes.
    claims: tuple[ClaimSize, ...]


def admitted_pod(template: Raw, requests: Resources, limits: Resources) -> AdmittedPod:
    """The pod of a template with all defaults; requests and limits are what it counts as."""
    spec: Raw = template.get("spec") or {}
    containers = tuple(container_amounts(spec))
    if containers and pod_requests(spec) == requests:
        counted = exact_requests(spec), exact_limits(spec)
        bounded = _bounded_amounts(spec, "requests"), _bounded_amounts(spec, "limits")
        asks = _asks_for_compute(spec, containers)
    else:
        both = {**requests, **limits}
        counted = _in_nanos(requests), _in_nanos(limits)
        bounded = counted[0], counted[1] if containers else _in_nanos(both)
        asks = any(both.get(name) for name in _QOS_RESOURCES)
    return AdmittedPod(
        containers=containers,
        requests=counted[0],
        limits=counted[1],
        bounded_requests=bounded[0],
        bounded_limits=bounded[1],
        whole=sized_as_a_whole(spec),
        best_effort=not asks,
        terminating=spec.get("activeDeadlineSeconds") is not None,
        crosses_namespaces=_crosses_namespaces(spec),
        contradictions=tuple(_contradictions(spec, containers)),
        claims=tuple(_ephemeral_claims(spec)),
    )


def stated_text(template: Raw, limits: Resources) -> str:
    """All that admitted_pod reads of a template and its limits as one text, without the names of containers."""
    spec: Raw = template.get("spec") or {}
    containers = [
        [[item.get("resources"), item.get("restartPolicy")] for item in spec.get(field) or ()]
        for field in ("containers", "initContainers")
    ]
    ends = spec.get("activeDeadlineSeconds") is not None
    claims = [dataclasses.astuple(item) for item in _ephemeral_claims(spec)] if spec.get("volumes") else []
    crosses = bool(spec.get("affinity")) and _crosses_namespaces(spec)
    stated = [limits, containers, spec.get("resources"), spec.get("overhead"), ends, crosses, claims]
    return json.dumps(stated, sort_keys=True, default=str)


def claim_size(name: str, claim: Raw) -> ClaimSize:
    """A claim, or the template of one, of which the server has to say itself what makes no sense."""
    requests: Amounts = {}
    with contextlib.suppress(BadInput):
        requests = read_amounts(value_at(claim, ("spec", "resources", "requests")), "requests")
    stated = value_at(claim, ("metadata", "annotations", _CLASS_ANNOTATION))
    if stated is None:
        stated = value_at(claim, ("spec", "storageClassName"))
    return ClaimSize(
        name=name,
        requests=tuple(sorted(requests.items())),
        storage_class=None if stated is None else str(stated),
        attributes_class=str(value_at(claim, ("spec", "volumeAttributesClassName")) or ""),
    )


def _in_nanos(amounts: Resources) -> Amounts:
    """Scaled amounts in nano-units; a pod is no amount that it states."""
    return {name: unscaled(name, amount) for name, amount in amounts.items() if name != "pods"}


def _bounded_amounts(spec: Raw, field: str) -> Amounts:
    """Requests or limits of one pod as LimitRanges bound them: without overhead, and no huge pages of the whole."""
    whole = whole_amounts(spec, field)
    return {**summed_amounts(spec, field), **{name: whole[name] for name in _QOS_RESOURCES if name in whole}}


def _contradictions(spec: Raw, containers: tuple[tuple[str, Amounts, Amounts], ...]) -> Iterator[str]:
    """What a default of one side makes of an amount that was stated on the other."""
    asked, most = whole_amounts(spec, "requests"), whole_amounts(spec, "limits")
    for name, requests, limits in containers:
        for resource, limit in limits.items():
            if requests.get(resource, 0) > limit:
                yield f"container {name} requests more {resource} than its limit"
            if resource in most and limit > most[resource]:
                yield f"container {name} has a higher limit for {resource} than the pod"
    for resource, amount in summed_amounts(spec, "requests").items():
        if resource in asked and amount > asked[resource]:
            yield f"the containers request more {resource} than the pod"


def _asks_for_compute(spec: Raw, containers: tuple[tuple[str, Amounts, Amounts], ...]) -> bool:
    """Whether anybody asks for cpu or memory: the pod, where it has amounts of its own, else a container."""
    own = spec.get("resources")
    if own is not None:
        stated = [whole_amounts(spec, field) for field in ("requests", "limits")]
    else:
        stated = [amounts for _name, *both in containers for amounts in both]
    return any(amounts.get(name) for amounts in stated for name in _QOS_RESOURCES)


def _crosses_namespaces(spec: Raw) -> bool:
    """Whether an affinity to other pods, required or preferred, names namespaces; even its own counts."""
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        preferred = [item.get("podAffinityTerm") or {} for item in rules.get(f"preferred{_TERMS}") or ()]
        for term in (*(rules.get(f"required{_TERMS}") or ()), *preferred):
            if term.get("namespaces") or term.get("namespaceSelector") is not None:
                return True
    return False


def _ephemeral_claims(spec: Raw) -> Iterator[ClaimSize]:
    """The claims that are made for each pod, one for each ephemeral volume."""
    for volume in spec.get("volumes") or ():
        template = value_at(volume, ("ephemeral", "volumeClaimTemplate"))
        if isinstance(template, Mapping):
            yield claim_size(str(volume.get("name")), template)


@dataclasses.dataclass(frozen=True, slots=True)
class MadeObjects:
    """What a start creates besides pods; kept objects and claims survive it, so that the next start finds them."""

    counts: Counts = ()
    kept: Counts = ()
    claims: tuple[ClaimSize, ...] = ()
    # Whether the gang was started before.
    tried: bool = False

    @property
    def claim_names(self) -> frozenset[str]:
        """The names of the claims."""
        return frozenset([claim.name for claim in self.claims])

    def once_more(self) -> MadeObjects:
        """What another start creates: what was kept is there already, claims too unless somebody deleted them."""
        return dataclasses.replace(self, kept=(), tried=True)

    def amounts(self) -> dict[str, int]:
        """All that is counted by number."""
        return dict(collections.Counter(dict(self.counts)) + collections.Counter(dict(self.kept)))


def made_objects(objects: Iterable[Raw], name_of: Callable[[t.Any], str], keep: str | None = None) -> MadeObjects:
    """What is created for these objects, and for the ticket; nothing for no objects.

    Pods are counted by podset. keep is the annotation of those that the user wants to keep.
    """
    counted: dict[bool, collections.Counter[str]] = {True: collections.Counter(), False: collections.Counter()}
    claims = []
    items = list(objects)
    for item in items:
        kind = group_and_kind(item)
        if kind == CLAIM:
            claims.append(claim_size(name_of(item), item))
        elif kind != POD and kind[1]:
            kept = keep is not None and value_at(item, ("metadata", "annotations", keep)) == "true"
            counted[kept].update(dict(_counted_as(item, *kind)))
    if items:
        counted[False].update(_TICKET)
    return MadeObjects(tuple(sorted(counted[False].items())), tuple(sorted(counted[True].items())), tuple(claims))


def _counted_as(item: Raw, group: str, kind: str) -> Iterator[tuple[str, int]]:
    """The names under which quotas count an object, and how much of each it is."""
    plural = resource_of(kind)
    yield f"count/{plural}.{group}" if group else f"count/{plural}", 1
    if not group and kind in _OLD_NAMES:
        yield plural, 1
    if (group, kind) == _SERVICE:
        type_ = value_at(item, ("spec", "type"))
        if type_ == "LoadBalancer":
            yield "services.loadbalancers", 1
        ports = _node_ports(item) if type_ in ("NodePort", "LoadBalancer") else 0
        if ports:
            yield "services.nodeports", ports


def _node_ports(item: Raw) -> int:
    """How many ports of the nodes a Service takes; one that need not have any takes those it names."""
    found = value_at(item, ("spec", "ports"))
    ports = [port for port in found if isinstance(port, Mapping)] if isinstance(found, list | tuple) else []
    spared = value_at(item, ("spec", "type")) == "LoadBalancer"
    if spared and value_at(item, ("spec", "allocateLoadBalancerNodePorts")) is False:
        return sum(1 for port in ports if port.get("nodePort"))
    return len(ports)
