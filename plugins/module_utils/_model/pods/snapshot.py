# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One consistent read of the cluster as plain values: nodes, the pods on them, and what fitting needs besides."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import (
    DEFAULT_SCHEDULER,
    HostPort,
    PodTerm,
    Taint,
    Toleration,
    read_claims,
    read_host_ports,
    read_pod_terms,
    read_taints,
    read_tolerations,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources, running_pod_requests
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import NodeTerm, node_terms

Raw = t.Mapping[str, t.Any]
FINISHED_PHASES = ("Succeeded", "Failed")
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A node as the scheduler's filters see it."""

    name: str
    labels: t.Mapping[str, str]
    taints: tuple[Taint, ...]
    allocatable: Resources
    unschedulable: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Pod:
    """A pod that is not finished: it occupies its node, or waits for one."""

    namespace: str
    name: str
    labels: t.Mapping[str, str]
    node: str | None
    requests: Resources
    host_ports: tuple[HostPort, ...]
    anti_affinity: tuple[PodTerm, ...]
    claims: tuple[str, ...]
    priority: int
    terminating: bool
    owner: str | None
    stays: bool
    waiting: Raw | None

    @property
    def key(self) -> str:
        """Namespace and name, as users write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def virtual(self) -> bool:
        """Whether the pod only has a place in our reckoning: it awaits the scheduler, or does not exist yet."""
        return self.waiting is not None


@dataclasses.dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A PersistentVolumeClaim: bound to a volume, or how it will be."""

    volume: str | None
    storage_class: str | None
    once_per_pod: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume: which nodes reach it, and what attaching it counts against."""

    terms: tuple[NodeTerm, ...] | None
    zone_labels: t.Mapping[str, str]
    driver: str | None
    handle: str


@dataclasses.dataclass(frozen=True, slots=True)
class RuntimeClass:
    """What a RuntimeClass adds to its pods."""

    overhead: t.Mapping[str, str]
    node_selector: t.Mapping[str, str]
    tolerations: tuple[Toleration, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Storage:
    """Volumes and claims; read only when a gang mounts claims or makes some."""

    claims: t.Mapping[tuple[str, str], VolumeClaim] = dataclasses.field(default_factory=dict)
    volumes: t.Mapping[str, Volume] = dataclasses.field(default_factory=dict)
    late_binding: frozenset[str] = frozenset()
    attach_limits: t.Mapping[str, t.Mapping[str, int]] = dataclasses.field(default_factory=dict)
    # The StorageClass of claims that name none.
    default_class: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class NamespaceRules:
    """The ResourceQuotas and LimitRanges of one namespace, raw as the API gives them."""

    quotas: tuple[Raw, ...] = ()
    limit_ranges: tuple[Raw, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a verdict is computed from."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: t.Mapping[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)
    rules: t.Mapping[str, NamespaceRules] = dataclasses.field(default_factory=dict)
    storage: Storage = dataclasses.field(default_factory=Storage)
    runtime_classes: t.Mapping[str, RuntimeClass] = dataclasses.field(default_factory=dict)
    priorities: t.Mapping[str, int] = dataclasses.field(default_factory=dict)
    default_priority: int = 0
    # The PriorityClass of pods that name none.
    default_priority_class: str | None = None
    webhooks: tuple[str, ...] = ()
    nodes_visible: bool = True
    # Names of the lists this account may not read.
    unread: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def node_from_api(raw: Raw) -> Node:
    """Keep of a Node what fitting reads."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    allocatable = (raw.get("status") or {}).get("allocatable") or {}
    return Node(
        name=meta["name"],
        labels=meta.get("labels") or {},
        taints=read_taints(spec.get("taints")),
        allocatable={name: scaled(name, parse_quantity(value)) for name, value in allocatable.items()},
        unschedulable=bool(spec.get("unschedulable")),
    )


def pod_from_api(raw: Raw) -> Pod | None:
    """Keep of a Pod what fitting reads; None for finished pods, which occupy nothing."""
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    if status.get("phase") in FINISHED_PHASES:
        return None
    labels = meta.get("labels") or {}
    namespace = meta["namespace"]
    affinity = spec.get("affinity")
    anti = read_pod_terms(affinity.get("podAntiAffinity"), namespace, labels) if affinity else ()
    owner = next((ref for ref in meta.get("ownerReferences") or () if ref.get("controller")), None)
    node = spec.get("nodeName") or status.get("nominatedNodeName") or None
    return Pod(
        namespace=namespace,
        name=meta["name"],
        labels=labels,
        node=node,
        requests=running_pod_requests(raw),
        host_ports=read_host_ports(spec),
        anti_affinity=anti,
        claims=read_claims(spec) if spec.get("volumes") else (),
        priority=spec.get("priority") or 0,
        terminating="deletionTimestamp" in meta,
        owner=f"{owner['kind']}/{owner['name']}" if owner else None,
        stays=(owner is not None and owner["kind"] == "DaemonSet")
        or MIRROR_ANNOTATION in (meta.get("annotations") or {}),
        waiting=None if node or not _awaits_scheduler(raw) else {"metadata": {"labels": labels}, "spec": spec},
    )


def _awaits_scheduler(raw: Raw) -> bool:
    """Whether the default scheduler may bind this pod any moment: not gated, not somebody else's, not going away."""
    spec = raw["spec"]
    if spec.get("schedulingGates") or "deletionTimestamp" in raw["metadata"]:
        return False
    return (spec.get("schedulerName") or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER


def claim_from_api(raw: Raw) -> tuple[tuple[str, str], VolumeClaim]:
    """Keep of a PersistentVolumeClaim its binding, by namespace and name."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    bound = (raw.get("status") or {}).get("phase") == "Bound"
    once = "ReadWriteOncePod" in (spec.get("accessModes") or ())
    claim = VolumeClaim(spec.get("volumeName") if bound else None, spec.get("storageClassName"), once)
    return (meta["namespace"], meta["name"]), claim


ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)


def volume_from_api(raw: Raw) -> tuple[str, Volume]:
    """Keep of a PersistentVolume where it can be reached from, by name."""
    meta, spec = raw["metadata"], raw.get("spec") or {}
    csi = spec.get("csi") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key in ZONE_LABELS}
    terms = node_terms((spec.get("nodeAffinity") or {}).get("required"))
    return meta["name"], Volume(terms, labels, csi.get("driver"), csi.get("volumeHandle") or meta["name"])


def attach_limits_from_api(raw: Raw) -> tuple[str, dict[str, int]]:
    """Keep of a CSINode how many volumes each driver may attach there."""
    drivers = (raw.get("spec") or {}).get("drivers") or ()
    limits = {item["name"]: (item.get("allocatable") or {}).get("count") for item in drivers}
    return raw["metadata"]["name"], {name: count for name, count in limits.items() if count is not None}


def runtime_class_from_api(raw: Raw) -> tuple[str, RuntimeClass]:
    """Keep of a RuntimeClass what admission adds to pods, by name."""
    scheduling = raw.get("scheduling") or {}
    value = RuntimeClass(
        overhead=(raw.get("overhead") or {}).get("podFixed") or {},
        node_selector=scheduling.get("nodeSelector") or {},
        tolerations=read_tolerations(scheduling.get("tolerations")),
    )
    return raw["metadata"]["name"], value
