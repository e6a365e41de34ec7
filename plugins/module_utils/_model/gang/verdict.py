# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Verdict: the one structure that answers "can this gang start now", and the text made from it.

Results, check mode, records, Events and reports all carry the same dictionary; amounts in it are Kubernetes quantities.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import (
    QUOTA_REASONS,
    QuotaLayer,
    quota_lines,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import (
    amount_text,
    describe,
    parse_quantity,
    quantity_text,
    scaled,
)

Result = dict[str, t.Any]

# What each reason for waiting means to a reader, before the numbers.
REASONS = {
    **QUOTA_REASONS,
    "insufficient": "not enough free resources",
    "fragmentation": "enough is free in all, but not on single nodes",
    "no_matching_node": "no node passes the filters",
    "constraints": "the pods' own placement rules leave too few places",
    "order_dependent": "a placement exists, but the scheduler may miss it",
    "namespace_quota": "the namespace's ResourceQuota refuses its pods or objects",
    "limit_range": "the namespace's LimitRange refuses its pods or claims",
    "claim_missing": "a PersistentVolumeClaim does not exist",
    "claim_unbound": "a PersistentVolumeClaim is not bound yet",
    "claim_in_use": "a ReadWriteOncePod claim can serve one pod only",
    "runtime_class_missing": "a RuntimeClass does not exist",
    "priority_class_missing": "a PriorityClass does not exist",
    "reserved": "it would fit, but the nodes are held for a gang that has waited longer",
    "after_others": "it fits, but only after the pods of gangs started before it are bound",
    "behind": "a gang before it has to start first",
    "paused": "it pauses after its last attempt",
    "max_starts": "as many gangs as allowed were started in this cycle",
    "paced": "it fits, but controllers still have to create pods of gangs started before it",
    "new_lease": "the Lease is new, and what was promised in other namespaces cannot be seen",
    "write_failed": "its record could not be written a moment ago",
    "name_taken": "an object of that name exists already",
    "no_identity": "nobody may create its objects",
    "declared_too_small": "its pods turned out larger than declared",
    "QuotaRefused": "the namespace's quota refuses its objects",
}
# Quotas count claims by their StorageClass under its name with this behind it.
CLASS_SUFFIX = ".storageclass.storage.k8s.io/"
ANOTHER_GANG = "a gang of another namespace"
# Reasons that lie with the nodes; the others stop pods before any node is looked at.
NODE_REASONS = ("insufficient", "fragmentation", "no_matching_node", "constraints", "order_dependent")
NOT_MODELLED = {
    "dra_claims": "dynamic resource claims",
    "unbound_volumes": "volumes that are bound only when the pod is scheduled",
    "scheduler_name": "another scheduler than the default one",
    "scheduling_gates": "scheduling gates",
    "mutating_webhooks": "webhooks or policies that may change the pods",
    "attach_limits": "limits on attached volumes, where podsets bring different ones",
    "volumes_not_visible": "volumes, which this account may not list",
    "runtime_classes_not_visible": "RuntimeClasses, which this account may not list",
    "namespace_rules_not_visible": "ResourceQuotas or LimitRanges, which this account may not list",
    "nodes_not_visible": "nodes and pods, which this account may not list",
}


@dataclasses.dataclass(frozen=True, slots=True)
class PodsetFit:
    """One podset against the nodes: who was dropped, how many slots were found, what is short."""

    name: str
    needed: int
    found: int
    requests: Resources
    usable_nodes: int
    dropped: t.Mapping[str, int]
    short: Resources = dataclasses.field(default_factory=dict)
    largest_hole: Resources = dataclasses.field(default_factory=dict)
    nearest_node: str | None = None
    nearest_short: Resources = dataclasses.field(default_factory=dict)

    def as_dict(self) -> Result:
        """Plain values for results."""
        return {
            "podset": self.name,
            "needed": self.needed,
            "found": self.found,
            "requests": texts(self.requests),
            "usable_nodes": self.usable_nodes,
            "dropped": dict(self.dropped),
            "short": texts(self.short),
            "largest_hole": texts(self.largest_hole),
            "nearest": {"node": self.nearest_node, "short": texts(self.nearest_short)} if self.nearest_node else None,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Total:
    """The whole gang against all nodes it may use, resource by resource."""

    requested: int
    free: int

    @property
    def short(self) -> int:
        """What is missing in all."""
        return max(0, self.requested - self.free)


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaLine:
    """One resource of one ResourceQuota, in nano-units: quotas add up fractions of bytes before they compare."""

    quota: str
    resource: str
    hard: int
    used: int
    requested: int

    @property
    def short(self) -> int:
        """What is missing under this quota."""
        return max(0, self.requested + self.used - self.hard)

    def as_dict(self) -> Result:
        """Plain values for results."""
        base = base_resource(self.resource)
        amounts = {"hard": self.hard, "used": self.used, "requested": self.requested, "short": self.short}
        return {
            "quota": self.quota,
            "resource": self.resource,
            **{k: amount_text(base, v) for k, v in amounts.items()},
        }


@dataclasses.dataclass(frozen=True, slots=True)
class NamespaceFit:
    """What the namespace's own rules say."""

    passed: bool
    quotas: tuple[QuotaLine, ...] = ()
    problems: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Advice:
    """One change after which the gang would fit."""

    change: str
    text: str
    details: t.Mapping[str, t.Any]

    def as_dict(self) -> Result:
        """Plain values for results."""
        return {"change": self.change, "text": self.text, **self.details}


class Layer(t.Protocol):
    """One question of a verdict: whether its answer lets the gang start, and the numbers behind it.

    A layer's lines of text are made of its dictionary, by the function under its name in _LAYER_LINES.
    """

    @property
    def passed(self) -> bool:
        """Whether this layer lets the gang start."""

    def as_dict(self) -> Result:
        """The layer as results and records carry it."""


@dataclasses.dataclass(frozen=True, slots=True)
class NamespaceLayer:
    """The namespace's own rules: ResourceQuotas and LimitRanges."""

    fit: NamespaceFit

    @property
    def passed(self) -> bool:
        """Whether the rules allow the gang."""
        return self.fit.passed

    def as_dict(self) -> Result:
        """The quotas, and what LimitRanges refuse."""
        return {
            "layer": "namespace",
            "passed": self.passed,
            "quotas": [line.as_dict() for line in self.fit.quotas],
            "problems": list(self.fit.problems),
        }


@dataclasses.dataclass(frozen=True, slots=True)
class NodesLayer:
    """How many nodes each podset may use, and which rules drop the others."""

    total: int
    podsets: tuple[PodsetFit, ...]

    @property
    def passed(self) -> bool:
        """Whether every podset that has pods may use a node."""
        return all(item.usable_nodes or not item.needed for item in self.podsets)

    def as_dict(self) -> Result:
        """The number of nodes, and of each podset those that are left."""
        podsets = [
            {"podset": item.name, "usable": item.usable_nodes, "dropped": dict(item.dropped)} for item in self.podsets
        ]
        return {"layer": "nodes", "passed": self.passed, "total": self.total, "podsets": podsets}


@dataclasses.dataclass(frozen=True, slots=True)
class SlotsLayer:
    """How many pods of each podset find room, and what is short."""

    passed: bool
    podsets: tuple[PodsetFit, ...]
    totals: t.Mapping[str, Total]

    def as_dict(self) -> Result:
        """Slots of each podset, and what is asked for, free and short in all."""
        totals = {
            name: {
                "requested": quantity_text(name, total.requested),
                "free": quantity_text(name, total.free),
                "short": quantity_text(name, total.short),
            }
            for name, total in self.totals.items()
        }
        podsets = [item.as_dict() for item in self.podsets]
        return {"layer": "slots", "passed": self.passed, "podsets": podsets, "totals": totals}


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """The answer for one gang with everything it rests on."""

    gang: str
    namespace: str
    answer: str
    how: str | None
    reason: str | None
    space: NamespaceFit
    total_nodes: int
    podsets: tuple[PodsetFit, ...]
    totals: t.Mapping[str, Total]
    not_modelled: tuple[str, ...] = ()
    detail: str | None = None
    steering: t.Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    placement: t.Mapping[str, t.Mapping[str, int]] | None = None
    advice: tuple[Advice, ...] = ()
    may_preempt: tuple[str, ...] = ()
    nodes_visible: bool = True
    # None where no quota tree has a say.
    quota: QuotaLayer | None = None

    def as_dict(self) -> Result:
        """The dictionary that results, records and reports carry."""
        return {
            "gang": self.gang,
            "namespace": self.namespace,
            "answer": self.answer,
            "how": self.how,
            "reason": self.reason,
            "detail": self.detail,
            "layers": [layer.as_dict() for layer in self.layers],
            "not_modelled": list(self.not_modelled),
            "steering": {name: list(nodes) for name, nodes in self.steering.items()},
            "placement": {name: dict(nodes) for name, nodes in self.placement.items()} if self.placement else None,
            "advice": [item.as_dict() for item in self.advice],
            "may_preempt": list(self.may_preempt),
            "eta": None,
            "eta_reason": "no record of earlier gangs to estimate from",
        }

    def held_back(self, reason: str, detail: str) -> Verdict:
        """The verdict of a gang that would fit but has to wait all the same."""
        return dataclasses.replace(
            self, answer="waits", how=None, reason=reason, detail=detail, steering={}, placement=None
        )

    def with_quota(self, quota: QuotaLayer) -> Verdict:
        """The verdict with what the quota trees say: a tree that refuses comes before reasons to wait for nodes."""
        told = dataclasses.replace(self, quota=quota)
        refusal = quota.refusal
        if refusal is None:
            borrowing = self.answer == "fits" and self.how == "now" and quota.borrows
            return dataclasses.replace(told, how="borrowing") if borrowing else told
        if self.answer == "never" and refusal.answer != "never":
            return told
        return dataclasses.replace(
            told,
            answer=refusal.answer,
            how=None,
            reason=refusal.reason,
            detail=refusal.detail or None,
            steering={},
            placement=None,
        )

    def _has_slots(self) -> bool:
        """Whether a gang that is refused for other reasons would find its slots, as far as counting tells."""
        if self.reason in NODE_REASONS or any(total.short for total in self.totals.values()):
            return False
        return all(item.found >= item.needed for item in self.podsets)

    @property
    def layers(self) -> tuple[Layer, ...]:
        """What was asked, one after the other; without the right to see nodes only quota and namespace."""
        first: tuple[Layer, ...] = () if self.quota is None else (self.quota,)
        namespace = NamespaceLayer(self.space)
        if not self.nodes_visible:
            return (*first, namespace)
        fits = self.answer == "fits" or self._has_slots()
        nodes = NodesLayer(self.total_nodes, self.podsets)
        return *first, namespace, nodes, SlotsLayer(fits, self.podsets, self.totals)


def texts(amounts: Resources) -> dict[str, str]:
    """Scaled amounts as Kubernetes quantities."""
    return {name: quantity_text(name, amount) for name, amount in sorted(amounts.items())}


def base_resource(name: str) -> str:
    """The resource behind a quota's name: requests.cpu and limits.cpu count cpu, storage of a class is storage."""
    name = name.rpartition(CLASS_SUFFIX)[2]
    for prefix in ("requests.", "limits."):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def gang_for_reader(key: str, namespace: str) -> str:
    """What a reader of one namespace is told of a gang, named by namespace and name: of others only that it is one."""
    return key if key.partition("/")[0] == namespace else ANOTHER_GANG


def verdict_text(verdict: t.Mapping[str, t.Any]) -> str:
    """A few plain sentences: the answer, what is short by how much and where, and what would help."""
    lines = [f"{verdict['gang']}: {_headline(verdict)}"]
    if verdict["answer"] != "fits":
        lines += _shortage_lines(verdict["layers"])
        lines += [f"  advice: {item['text']}" for item in verdict["advice"]]
    else:
        lines += [f"  {_placed(podset, nodes)}" for podset, nodes in (verdict.get("placement") or {}).items() if nodes]
    if verdict["steering"]:
        for podset, nodes in verdict["steering"].items():
            lines.append(f"  steer {podset} to {_some(nodes)}")
    if verdict["not_modelled"]:
        names = ", ".join(NOT_MODELLED.get(name, name) for name in verdict["not_modelled"])
        lines.append(f"  not considered: {names}")
    if verdict["may_preempt"]:
        lines.append(f"  of lower priority, and at risk of preemption: {_some(verdict['may_preempt'])}")
    return "\n".join(lines)


def _placed(podset: str, nodes: t.Mapping[str, int]) -> str:
    """Where a podset's pods could go."""
    return f"{podset}: {_some([f'{count} on {node}' for node, count in nodes.items()])}"


def _headline(verdict: t.Mapping[str, t.Any]) -> str:
    """Answer and main reason in one sentence."""
    if verdict["answer"] == "fits":
        words = {
            "now": "fits now",
            "steered": "fits when steered to the named nodes",
            "borrowing": "fits by borrowing quota",
            "after_reclaim": "fits after quota is taken back from borrowers",
            "unproven": "seems to fit; not everything could be checked",
        }
        return words.get(str(verdict["how"]), f"fits ({verdict['how']})")
    reason = REASONS.get(str(verdict["reason"]), str(verdict["reason"]))
    if verdict["detail"]:
        reason = f"{reason} ({verdict['detail']})"
    if verdict["answer"] == "waits":
        return f"waits: {reason}"
    return f"never fits, {'not even on empty nodes' if verdict['reason'] in NODE_REASONS else 'as it is'}: {reason}"


_Layers = t.Mapping[str, t.Mapping[str, t.Any]]


def _shortage_lines(layers: t.Sequence[t.Mapping[str, t.Any]]) -> list[str]:
    """Numbers of the layers that failed, in their order; a layer of another version has no words here."""
    by_name = {str(layer["layer"]): layer for layer in layers}
    return [line for name in by_name if name in _LAYER_LINES for line in _LAYER_LINES[name](by_name)]


def _namespace_lines(layers: _Layers) -> list[str]:
    """What the namespace's rules refuse, and the quotas that are short."""
    lines = [f"  {problem}" for problem in layers["namespace"]["problems"]]
    for line in layers["namespace"]["quotas"]:
        base = base_resource(line["resource"])
        if _amount(base, line["short"]):
            lines.append(
                f"  ResourceQuota {line['quota']}: short {_said(base, line['short'])} of {line['resource']} "
                f"(hard {line['hard']}, used {line['used']}, requested {line['requested']})"
            )
    return lines


def _slots_lines(layers: _Layers) -> list[str]:
    """What is short in all, and for each podset that finds too little room."""
    layer, nodes = layers["slots"], layers["nodes"]["total"]
    if layer["passed"]:
        return []
    amounts = [(name, total["short"]) for name, total in layer["totals"].items()]
    short = [f"{_said(name, text)} {name}" for name, text in amounts if _amount(name, text)]
    lines = [f"  short in all: {' and '.join(short)}"] if short else []
    return lines + [_podset_line(podset, nodes) for podset in layer["podsets"] if podset["found"] < podset["needed"]]


_LAYER_LINES: dict[str, t.Callable[[_Layers], list[str]]] = {
    "quota": quota_lines,
    "namespace": _namespace_lines,
    "slots": _slots_lines,
}


def _podset_line(podset: t.Mapping[str, t.Any], total_nodes: int) -> str:
    """One podset: slots, filters, the nearest node and the largest hole."""
    size = ", ".join(f"{_said(name, text)} {name}" for name, text in podset["requests"].items() if name != "pods")
    parts = [f"  {podset['podset']}: {podset['needed']} x ({size}), room for {podset['found']}"]
    if podset["dropped"]:
        dropped = ", ".join(f"{count} by {reason}" for reason, count in sorted(podset["dropped"].items()))
        parts.append(f"{podset['usable_nodes']} of {total_nodes} nodes usable (dropped: {dropped})")
    nearest = podset["nearest"]
    told_by_nearest = bool(nearest) and nearest["short"] == podset["short"]
    if podset["short"] and podset["usable_nodes"] and not told_by_nearest:
        short = ", ".join(f"{_said(name, text)} {name}" for name, text in podset["short"].items())
        parts.append(f"its nodes together are short {short}")
    if nearest and nearest["short"]:
        short = ", ".join(f"{_said(name, text)} {name}" for name, text in nearest["short"].items())
        parts.append(f"nearest node {nearest['node']} is short {short}")
        hole = [
            f"{_said(name, podset['largest_hole'][name])} {name}"
            for name in nearest["short"]
            if name in podset["largest_hole"]
        ]
        if hole:
            parts.append(f"largest hole {', '.join(hole)}")
    return "; ".join(parts)


def _amount(resource: str, text: str) -> int:
    """A quantity of a verdict as the scaled number it came from."""
    return scaled(resource, parse_quantity(text))


def _said(resource: str, text: str) -> str:
    """A quantity of a verdict in readable form."""
    return describe(resource, _amount(resource, text))


def _some(names: t.Sequence[str], most: int = 8) -> str:
    """The first few names of a list."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def text_of_verdict(verdict: t.Mapping[str, t.Any] | None) -> str | None:
    """A verdict's text; None without one, or where somebody damaged the annotation that holds it."""
    if verdict is None:
        return None
    try:
        return verdict_text(verdict)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
