# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a pod demands of its node besides resources, read once from its template."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import (
    LabelSelector,
    NodeTerm,
    Requirement,
    label_selector,
    node_terms,
)

Raw = t.Mapping[str, t.Any]
DEFAULT_SCHEDULER = "default-scheduler"
ANY_ADDRESS = "0.0.0.0"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclasses.dataclass(frozen=True, slots=True)
class Taint:
    """A mark on a node that keeps pods away unless they tolerate it."""

    key: str
    effect: str
    value: str = ""

    def as_object(self) -> dict[str, str]:
        """The taint in API form; an empty value is left out, as the API server does."""
        taint = {"key": self.key, "effect": self.effect}
        return {**taint, "value": self.value} if self.value else taint


@dataclasses.dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's permission to ignore certain taints; empty key with Exists tolerates all, empty effect any effect."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether this permission covers the taint."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in ("", "Equal") and bool(self.key) and self.value == taint.value


# The DefaultTolerationSeconds admission plugin gives these to every pod: they delay an eviction and do not admit to
# nodes that are not ready, because such nodes carry NoSchedule taints as well.
DEFAULT_TOLERATIONS = tuple(
    Toleration(f"node.kubernetes.io/{name}", "Exists", "", "NoExecute") for name in ("not-ready", "unreachable")
)


@dataclasses.dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node's own network that a pod occupies."""

    protocol: str
    address: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Two pods cannot share port and protocol on one address; the wildcard address overlaps all."""
        if (self.protocol, self.port) != (other.protocol, other.port):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


@dataclasses.dataclass(frozen=True, slots=True)
class PodTerm:
    """A required (anti-)affinity term: which pods it speaks of and over which topology."""

    selector: LabelSelector | None
    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    topology_key: str

    def matches(self, namespace: str, labels: t.Mapping[str, str], namespace_labels: t.Mapping[str, str]) -> bool:
        """Whether a pod with these labels in this namespace is one the term speaks of."""
        if self.selector is None or not self.selector.matches(labels):
            return False
        if namespace in self.namespaces:
            return True
        return self.namespace_selector is not None and self.namespace_selector.matches(namespace_labels)


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """A DoNotSchedule topology spread constraint."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: LabelSelector | None
    honor_affinity: bool
    honor_taints: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Constraints:
    """Everything kube-scheduler's filters read from a pod apart from its resource requests."""

    namespace: str
    labels: t.Mapping[str, str]
    node_name: str | None
    node_selector: t.Mapping[str, str]
    node_terms: tuple[NodeTerm, ...] | None
    tolerations: tuple[Toleration, ...]
    host_ports: tuple[HostPort, ...]
    affinity: tuple[PodTerm, ...]
    anti_affinity: tuple[PodTerm, ...]
    spreads: tuple[Spread, ...]
    claims: tuple[str, ...]
    new_claims: bool
    device_claims: bool
    scheduler: str
    gates: tuple[str, ...]
    runtime_class: str | None
    priority_class: str | None
    priority: int | None
    preempts: bool


def read_constraints(template: Raw, namespace: str) -> Constraints:
    """Read the constraints of a pod template (or of a pod: it has the same shape)."""
    spec: Raw = template.get("spec") or {}
    labels = {key: str(value) for key, value in ((template.get("metadata") or {}).get("labels") or {}).items()}
    affinity: Raw = spec.get("affinity") or {}
    required_nodes = (affinity.get("nodeAffinity") or {}).get(_REQUIRED)
    return Constraints(
        namespace=namespace,
        labels=labels,
        node_name=spec.get("nodeName") or None,
        node_selector={key: str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        node_terms=node_terms(required_nodes),
        tolerations=read_tolerations(spec.get("tolerations")) + DEFAULT_TOLERATIONS,
        host_ports=read_host_ports(spec),
        affinity=read_pod_terms(affinity.get("podAffinity"), namespace, labels),
        anti_affinity=read_pod_terms(affinity.get("podAntiAffinity"), namespace, labels),
        spreads=_spreads(spec, labels),
        claims=read_claims(spec),
        new_claims=_makes_claims(spec),
        device_claims=bool(spec.get("resourceClaims")),
        scheduler=spec.get("schedulerName") or DEFAULT_SCHEDULER,
        gates=tuple(str(gate.get("name")) for gate in spec.get("schedulingGates") or ()),
        runtime_class=spec.get("runtimeClassName") or None,
        priority_class=spec.get("priorityClassName") or None,
        priority=spec.get("priority"),
        preempts=spec.get("preemptionPolicy") != "Never",
    )


def placement_fields(template: Raw) -> dict[str, t.Any]:
    """A pod spec, as plain data, with only what read_constraints reads of a template's own.

    With the same labels and requests such pods go exactly where the original ones would, whatever they run.
    """
    spec: Raw = template.get("spec") or {}
    ports = [
        {"hostPort": port.port, "protocol": port.protocol, "hostIP": port.address} for port in read_host_ports(spec)
    ]
    scheduler = spec.get("schedulerName")
    fields: dict[str, t.Any] = {
        "nodeName": spec.get("nodeName"),
        "nodeSelector": {key: str(value) for key, value in (spec.get("nodeSelector") or {}).items()},
        "affinity": _required_affinity(spec.get("affinity") or {}),
        "tolerations": [_set_fields(item) for item in read_tolerations(spec.get("tolerations"))],
        "containers": [{"ports": ports}] if ports else [],
        "topologySpreadConstraints": [dict(item) for item in _forbidding_spreads(spec)],
        "volumes": _placed_volumes(spec),
        "resourceClaims": [{}] if spec.get("resourceClaims") else [],
        "schedulerName": None if scheduler == DEFAULT_SCHEDULER else scheduler,
        "schedulingGates": [{"name": str(gate.get("name"))} for gate in spec.get("schedulingGates") or ()],
        "runtimeClassName": spec.get("runtimeClassName"),
        "priorityClassName": spec.get("priorityClassName"),
        "priority": spec.get("priority"),
        "preemptionPolicy": "Never" if spec.get("preemptionPolicy") == "Never" else None,
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [], {})}


def _set_fields(toleration: Toleration) -> dict[str, str]:
    """A toleration as users write it."""
    return {name: value for name, value in dataclasses.asdict(toleration).items() if value}


def _required_affinity(affinity: Raw) -> dict[str, t.Any]:
    """The parts of an affinity that forbid; preferences only rank nodes."""
    parts = (
        (kind, (affinity.get(kind) or {}).get(_REQUIRED)) for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    )
    return {kind: {_REQUIRED: required} for kind, required in parts if required not in (None, [])}


def _placed_volumes(spec: Raw) -> list[dict[str, t.Any]]:
    """The volumes that decide where a pod may go: claims, and that claims are made for it."""
    volumes: list[dict[str, t.Any]] = [{"persistentVolumeClaim": {"claimName": name}} for name in read_claims(spec)]
    return [*volumes, {"ephemeral": {}}] if _makes_claims(spec) else volumes


def _makes_claims(spec: Raw) -> bool:
    """Whether claims are made for each pod."""
    return any(volume.get("ephemeral") is not None for volume in spec.get("volumes") or ())


def read_taints(raw: t.Iterable[Raw] | None) -> tuple[Taint, ...]:
    """Read the taints of a node."""
    return tuple(Taint(item["key"], item.get("effect") or "", item.get("value") or "") for item in raw or ())


def read_tolerations(raw: t.Iterable[Raw] | None) -> tuple[Toleration, ...]:
    """Read the tolerations of a pod or of a RuntimeClass."""
    return tuple(
        Toleration(item.get("key") or "", item.get("operator") or "", item.get("value") or "", item.get("effect") or "")
        for item in raw or ()
    )


def read_host_ports(spec: Raw) -> tuple[HostPort, ...]:
    """Host ports of containers and of restartable init containers; with hostNetwork every container port is one."""
    on_host = bool(spec.get("hostNetwork"))
    containers = spec.get("containers") or ()
    if spec.get("initContainers"):
        sidecars = (item for item in spec["initContainers"] if item.get("restartPolicy") == "Always")
        containers = [*containers, *sidecars]
    ports = []
    for container in containers:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if on_host else 0)
            if number:
                ports.append(HostPort(port.get("protocol") or "TCP", port.get("hostIP") or ANY_ADDRESS, int(number)))
    return tuple(ports)


def read_claims(spec: Raw) -> tuple[str, ...]:
    """Names of the PersistentVolumeClaims a pod mounts."""
    volumes = spec.get("volumes") or ()
    return tuple(
        volume["persistentVolumeClaim"]["claimName"] for volume in volumes if volume.get("persistentVolumeClaim")
    )


def read_pod_terms(raw: Raw | None, namespace: str, labels: t.Mapping[str, str]) -> tuple[PodTerm, ...]:
    """Read required pod (anti-)affinity terms; without namespaces a term speaks of the pod's own namespace."""
    terms = []
    for item in (raw or {}).get(_REQUIRED) or ():
        namespaces = frozenset(item.get("namespaces") or ())
        namespace_selector = label_selector(item.get("namespaceSelector"))
        if not namespaces and namespace_selector is None:
            namespaces = frozenset((namespace,))
        selector = _with_label_keys(label_selector(item.get("labelSelector")), item, labels)
        terms.append(PodTerm(selector, namespaces, namespace_selector, str(item.get("topologyKey", ""))))
    return tuple(terms)


def _with_label_keys(selector: LabelSelector | None, raw: Raw, labels: t.Mapping[str, str]) -> LabelSelector | None:
    """Add what matchLabelKeys and mismatchLabelKeys take from the pod's own labels; keys it lacks are ignored."""
    if selector is None:
        return None
    added = [
        Requirement(key, operator, (labels[key],))
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in raw.get(field) or ()
        if key in labels
    ]
    return LabelSelector(selector.requirements + tuple(added))


def _forbidding_spreads(spec: Raw) -> list[Raw]:
    """The spread constraints that forbid; ScheduleAnyway only ranks nodes."""
    spreads = spec.get("topologySpreadConstraints") or ()
    return [item for item in spreads if (item.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule"]


def _spreads(spec: Raw, labels: t.Mapping[str, str]) -> tuple[Spread, ...]:
    """Read the spread constraints that forbid."""
    return tuple(
        Spread(
            topology_key=str(item.get("topologyKey", "")),
            max_skew=int(item.get("maxSkew") or 1),
            min_domains=int(item.get("minDomains") or 1),
            selector=_with_label_keys(label_selector(item.get("labelSelector")), item, labels),
            honor_affinity=(item.get("nodeAffinityPolicy") or "Honor") == "Honor",
            honor_taints=item.get("nodeTaintsPolicy") == "Honor",
        )
        for item in _forbidding_spreads(spec)
    )
