# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Made objects: what is created for a gang besides its pods, by the names under which ResourceQuotas count it."""

from __future__ import annotations

import collections
import dataclasses
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import ClaimSize, claim_size
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    group_and_kind,
    resource_of,
    value_at,
)

Raw = Mapping[str, t.Any]
# Amounts by the name a quota has for them.
Counts = tuple[tuple[str, int], ...]

POD = ("", "Pod")
CLAIM = ("", "PersistentVolumeClaim")
_SERVICE = ("", "Service")
# Kinds that had a name in quotas before all kinds had one; a Service also counts its ports.
_OLD_NAMES = ("ConfigMap", "ReplicationController", "ResourceQuota", "Secret", "Service")
# The ConfigMap that owns the objects of a start.
_TICKET = {"apiVersion": "v1", "kind": "ConfigMap"}


@dataclasses.dataclass(frozen=True, slots=True)
class MadeObjects:
    """What a start creates besides pods; kept objects and claims survive it, so that the next start finds them."""

    counts: Counts = ()
    kept: Counts = ()
    claims: tuple[ClaimSize, ...] = ()
    # Whether the gang was started before.
    tried: bool = False

    def once_more(self) -> MadeObjects:
        """What another start creates: what was kept is there already, claims too unless somebody deleted them."""
        return dataclasses.replace(self, kept=(), tried=True)

    def amounts(self) -> dict[str, int]:
        """All that is counted by number."""
        return dict(collections.Counter(dict(self.counts)) + collections.Counter(dict(self.kept)))


def made_objects(objects: Iterable[tuple[str, Raw]], survives: Callable[[Raw], bool] | None = None) -> MadeObjects:
    """What is created for these objects, given with their names, and for the ticket; nothing for no objects.

    Pods are counted by podset. survives tells which objects the user wants to keep.
    """
    counted: dict[bool, collections.Counter[str]] = {True: collections.Counter(), False: collections.Counter()}
    claims = []
    items = list(objects)
    for name, item in items:
        kind = group_and_kind(item)
        if kind == CLAIM:
            claims.append(claim_size(name, item))
        elif kind != POD and kind[1]:
            counted[survives is not None and survives(item)].update(dict(_counted_as(item)))
    if items:
        counted[False].update(dict(_counted_as(_TICKET)))
    return MadeObjects(tuple(sorted(counted[False].items())), tuple(sorted(counted[True].items())), tuple(claims))


def _counted_as(item: Raw) -> Iterator[tuple[str, int]]:
    """The names under which quotas count an object, and how much of each it is."""
    group, kind = group_and_kind(item)
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
