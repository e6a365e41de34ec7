# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Asked hardware against nodes: the affinity that selects them, who has it, who nearly has it, and what was found.

The terms of the affinity are all combinations of the ways to meet each want. The same requirements decide here and in
kube-scheduler.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import GpuAsk, HardwareAsk
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Node, node_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe, parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._model.values.selector import Labels, Requirement
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.hardware_wants import (
    Raw,
    Want,
    gpus_seen,
    wants_of,
)

MOST_NEAR_MISSES = 10


@dataclasses.dataclass(frozen=True, slots=True)
class NearMiss:
    """A node that lacks something, and what."""

    node: str
    missing: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """Nodes that have what was asked, and the nearest of the others; unproven says why nodes were not looked at."""

    matching: tuple[str, ...] = ()
    near_misses: tuple[NearMiss, ...] = ()
    considered: int = 0
    unproven: str | None = None

    @property
    def refused(self) -> bool:
        """Whether it is certain that no present node will do."""
        return self.unproven is None and not self.matching

    def words(self) -> str:
        """Why there is no node, for an error."""
        if not self.considered:
            return "the cluster has no nodes"
        nearest = "; ".join(f"{near.node} lacks {', '.join(near.missing)}" for near in self.near_misses[:3])
        return f"none of {self.considered} nodes has it; nearest: {nearest}"


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Whether a pod got the hardware it asked for: true, false, or None when nothing was asked or seen."""

    verified: bool | None
    asked_found: tuple[Data, ...] = ()


def affinity_terms(ask: HardwareAsk, nodes: Iterable[Raw] | None = None) -> Data | None:
    """The nodeAffinity of a pod that asks for this; None when labels need not say anything.

    Node affinity knows neither wildcards nor sizes like 64G: values for those are taken from the nodes' labels. Without
    nodes such an ask is refused, since it would otherwise be dropped silently.
    """
    wants = wants_of(ask, None if nodes is None else [_labels(node) for node in nodes])
    terms: dict[tuple[Requirement, ...], Data] = {}
    for ways in itertools.product(*(want.ways for want in wants if want.ways)):
        requirements = tuple(dict.fromkeys(item for way in ways for item in way.requirements))
        if requirements:
            terms[requirements] = {"matchExpressions": [_expression(item) for item in requirements]}
    if not terms:
        return None
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms.values())}}


def gpu_requests(ask: HardwareAsk) -> dict[str, str]:
    """The extended resources to add to a container's requests and limits."""
    if ask.gpu is None or ask.gpu.resource is None:
        return {}
    return {ask.gpu.resource: str(ask.gpu.count)}


def gpu_tolerations(ask: HardwareAsk) -> list[Data]:
    """Nodes with GPUs are often kept free by a taint named like the resource."""
    return [{"key": resource, "operator": "Exists", "effect": "NoSchedule"} for resource in gpu_requests(ask)]


def match_nodes(ask: HardwareAsk, nodes: Iterable[Raw] | None, requests: Mapping[str, t.Any] | None = None) -> Match:
    """Which nodes have the hardware, and are large enough for the requests when empty.

    None instead of nodes means that the caller may not list them: then nothing is refused.
    """
    if nodes is None:
        return Match(unproven="this account may not list nodes, so nobody looked whether one has the hardware")
    known = [node_from_api(node) for node in nodes]
    wants = wants_of(ask, [node.labels for node in known])
    amounts = {**(requests or {}), **gpu_requests(ask)}
    needed = {name: scaled(name, parse_quantity(amount)) for name, amount in amounts.items()}
    misses = [NearMiss(node.name, _missing(node, wants, needed)) for node in known]
    near = sorted((miss for miss in misses if miss.missing), key=lambda miss: (len(miss.missing), miss.node))
    matching = tuple(sorted(miss.node for miss in misses if not miss.missing))
    return Match(matching, tuple(near[:MOST_NEAR_MISSES]), len(known))


def verify_placement(ask: HardwareAsk, node: Raw | None, hwinfo: Raw | None) -> Placement:
    """Compare what was asked with the labels of the node a pod ran on, and with what its container saw.

    One contradiction by either side makes it false; it is true only when every fact was confirmed by one of them.
    """
    labels = None if node is None else _labels(node)
    rows: list[Data] = []
    verdicts: list[bool | None] = []
    for want in wants_of(ask, None if labels is None else [labels], lenient=True):
        answers = [_node_row(want, labels), _container_row(want, hwinfo)]
        rows += answers
        verdicts.append(_verdict(row["ok"] for row in answers))
    if ask.gpu is not None and ask.gpu.count:
        answers = [_resource_row(ask.gpu, node), _gpu_count_row(ask.gpu, hwinfo)]
        rows += answers
        verdicts.append(_verdict(row["ok"] for row in answers))
    if not verdicts or (None in verdicts and False not in verdicts):
        return Placement(None, tuple(rows))
    return Placement(all(verdicts), tuple(rows))


def _verdict(answers: Iterable[bool | None]) -> bool | None:
    """What several witnesses say together: one no is enough, silence says nothing."""
    known = [answer for answer in answers if answer is not None]
    return all(known) if known else None


def _labels(node: Raw) -> Labels:
    labels: Labels = (node.get("metadata") or {}).get("labels") or {}
    return labels


def _expression(requirement: Requirement) -> Data:
    """A requirement as the API writes it."""
    data: Data = {"key": requirement.key, "operator": requirement.operator}
    if requirement.values:
        data["values"] = list(requirement.values)
    return data


def _missing(node: Node, wants: Sequence[Want], needed: Mapping[str, int]) -> tuple[str, ...]:
    """Everything a node lacks, as text."""
    missing = [f"{want.what}: {_label_words(want, node.labels)}" for want in wants if not want.met(node.labels)]
    for name, amount in needed.items():
        offered = node.allocatable.get(name, 0)
        if amount > offered:
            missing.append(f"{name} {describe(name, amount)}: the node offers {describe(name, offered)}")
    return tuple(missing)


def _label_words(want: Want, labels: Labels) -> str:
    """What the labels say about a want: of the way that is met, or of the nearest one what is not met."""
    ways = [[item for item in way.requirements if not item.matches(labels)] for way in want.ways]
    best = min(range(len(ways)), key=lambda i: len(ways[i]))
    shown = ways[best] or want.ways[best].requirements
    words = "; ".join(dict.fromkeys(_label_found(item.key, labels) for item in shown))
    return f"{words} ({want.note})" if want.note and ways[best] else words


def _label_found(key: str, labels: Labels) -> str:
    """One label as text; AMD's older labels are shown when the newer one is absent."""
    if key in labels:
        return f"label {key} is {labels[key]!r}" if labels[key] != "true" else f"label {key} is true"
    if "amd.com/" in key:
        name = re.match(r"gpu\.[a-z-]+", key.partition("/")[2])
        old = sorted(other for other in labels if name and re.match(rf"(beta\.)?amd\.com/{re.escape(name[0])}", other))
        if old:
            return "; ".join(f"label {other} is {labels[other]!r}" for other in old)
    return f"label {key} is absent"


def _node_row(want: Want, labels: Labels | None) -> Data:
    """Asked and found by the labels of the node."""
    row: Data = {"what": want.what, "asked": want.asked, "source": "node", "found": None, "ok": None}
    if labels is None or not want.ways:
        return row
    met = want.met(labels)
    # A label that nothing would have written on this node may be absent.
    return {**row, "found": _label_words(want, labels), "ok": None if not met and not want.conclusive else met}


def _container_row(want: Want, hwinfo: Raw | None) -> Data:
    """Asked and found by the container."""
    found, ok = want.seen(hwinfo) if hwinfo is not None else (None, None)
    return {"what": want.what, "asked": want.asked, "source": "container", "found": found, "ok": ok}


def _resource_row(gpu: GpuAsk, node: Raw | None) -> Data:
    """How many GPUs the node offers in all."""
    name = gpu.resource or ""
    row: Data = {"what": f"{name} {gpu.count}", "asked": gpu.count, "source": "node", "found": None, "ok": None}
    if node is None:
        return row
    offered = node_from_api(node).allocatable.get(name, 0)
    return {**row, "found": offered, "ok": offered >= gpu.count}


def _gpu_count_row(gpu: GpuAsk, hwinfo: Raw | None) -> Data:
    """How many GPUs of the vendor the container saw."""
    seen = gpus_seen(gpu, hwinfo or {})
    row: Data = {"what": f"{gpu.resource} {gpu.count}", "asked": gpu.count, "source": "container"}
    if seen is None:
        return {**row, "found": None, "ok": None}
    return {**row, "found": len(seen), "ok": len(seen) >= gpu.count}
