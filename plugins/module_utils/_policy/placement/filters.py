# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Node filters: which nodes one podset may use at all, and why the others are dropped.

The same questions kube-scheduler's filters ask, in its order, as far as they do not depend on where the rest of the
gang lands; those that do are left to the placement state.
"""

from __future__ import annotations

import collections
import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import Constraints, Taint, Toleration
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import ZONE_LABELS, Node, Volume
from ansible_collections.muster.kube.plugins.module_utils._policy.placement.room import PASSING_TAINT_PREFIX, Room

OLD_ZONE_PREFIX, NEW_ZONE_PREFIX = "failure-domain.beta.kubernetes.io/", "topology.kubernetes.io/"
UNSCHEDULABLE_TAINT = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


@dataclasses.dataclass(frozen=True, slots=True)
class Filtered:
    """Nodes (by index) a podset may use, and how many each filter dropped."""

    allowed: tuple[int, ...]
    dropped: t.Mapping[str, int]


def filter_nodes(room: Room, wish: Constraints, nodes: t.Collection[int] | None = None) -> Filtered:
    """Apply the filters in order, to all nodes or to some."""
    looked = range(len(room.nodes)) if nodes is None else sorted(nodes)
    taint_check = _TaintCheck(wish)
    volumes = _volumes(room, wish)
    blocked = _blocked_by_anti_affinity(room, wish)
    if not (
        wish.node_name or wish.node_selector or wish.node_terms is not None or volumes or blocked or wish.host_ports
    ):
        return _only_taints(room, taint_check, looked)
    allowed: list[int] = []
    dropped: collections.Counter[str] = collections.Counter()
    for i in looked:
        node = room.nodes[i]
        reason = taint_check.reason(node)
        reason = reason or _selection_reason(node, wish) or _volume_reason(room, i, node, volumes)
        if reason is None and blocked and _is_blocked(room, i, blocked):
            reason = "anti_affinity"
        if reason is None and wish.host_ports and _ports_taken(room, i, wish):
            reason = "host_ports"
        if reason is None:
            allowed.append(i)
        else:
            dropped[reason] += 1
    return Filtered(tuple(allowed), dict(dropped))


def could_stand(room: Room, wish: Constraints, requests: t.Mapping[str, int]) -> bool:
    """Whether any node that takes pods now would take one like this if nothing else were there."""
    taint_check = _TaintCheck(wish)
    return any(
        taint_check.reason(node) is None
        and _selection_reason(node, wish) is None
        and all(node.allocatable.get(name, 0) >= amount for name, amount in requests.items())
        for node in room.nodes
    )


def _only_taints(room: Room, check: _TaintCheck, nodes: t.Sequence[int]) -> Filtered:
    """The short way for podsets that ask nothing of a node but resources."""
    reasons = [check.reason(room.nodes[i]) for i in nodes]
    dropped = collections.Counter(reason for reason in reasons if reason)
    return Filtered(tuple(i for i, reason in zip(nodes, reasons, strict=True) if reason is None), dict(dropped))


class _TaintCheck:
    """Which taints stop a podset; nodes share few distinct sets of taints, so answers are remembered."""

    def __init__(self, wish: Constraints) -> None:
        self.tolerations = wish.tolerations
        self.known: dict[tuple[tuple[Taint, ...], bool], str | None] = {}

    def reason(self, node: Node) -> str | None:
        """Name of the filter that drops the node, or None."""
        key = (node.taints, node.unschedulable)
        if key not in self.known:
            self.known[key] = self._judge(node)
        return self.known[key]

    def _judge(self, node: Node) -> str | None:
        """A cordon first, then taints that forbid scheduling, those of a condition under another name than a user's."""
        if node.unschedulable and not tolerated(UNSCHEDULABLE_TAINT, self.tolerations):
            return "unschedulable"
        for taint in node.taints:
            if taint.effect not in ("NoSchedule", "NoExecute") or tolerated(taint, self.tolerations):
                continue
            if taint.key == UNSCHEDULABLE_TAINT.key:
                return "unschedulable"
            return "not_ready" if taint.key.startswith(PASSING_TAINT_PREFIX) else "taints"
        return None


def tolerated(taint: Taint, tolerations: t.Iterable[Toleration]) -> bool:
    """Whether any toleration covers the taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def matches_node(node: Node, wish: Constraints) -> bool:
    """Whether a node satisfies nodeSelector and required node affinity (used for spread constraints as well)."""
    if any(node.labels.get(key) != value for key, value in wish.node_selector.items()):
        return False
    return wish.node_terms is None or any(term.matches(node.name, node.labels) for term in wish.node_terms)


def _selection_reason(node: Node, wish: Constraints) -> str | None:
    """nodeName, nodeSelector and required node affinity."""
    if wish.node_name is not None and node.name != wish.node_name:
        return "node_name"
    if wish.node_selector and any(node.labels.get(key) != value for key, value in wish.node_selector.items()):
        return "node_selector"
    if wish.node_terms is not None and not any(term.matches(node.name, node.labels) for term in wish.node_terms):
        return "node_affinity"
    return None


def _volumes(room: Room, wish: Constraints) -> list[Volume]:
    """The bound volumes behind a podset's claims."""
    storage = room.snapshot.storage
    claims = (storage.claims.get((wish.namespace, name)) for name in wish.claims)
    names = [claim.volume for claim in claims if claim and claim.volume]
    return [storage.volumes[name] for name in names if name in storage.volumes]


def _volume_reason(room: Room, i: int, node: Node, volumes: list[Volume]) -> str | None:
    """Volumes that this node cannot reach, or cannot attach any more of."""
    wanted: dict[str, set[str]] = {}
    for volume in volumes:
        if volume.terms is not None and not any(term.matches(node.name, node.labels) for term in volume.terms):
            return "volume_affinity"
        if not _in_zone(node, volume):
            return "volume_zone"
        if volume.driver:
            wanted.setdefault(volume.driver, set()).add(volume.handle)
    limits = room.snapshot.storage.attach_limits.get(node.name) or {}
    for driver, handles in wanted.items():
        if driver in limits and len(handles | _attached(room, i, driver)) > limits[driver]:
            return "volume_limit"
    return None


def rival_volumes(room: Room, wishes: t.Sequence[Constraints]) -> bool:
    """Whether podsets bring different volumes of one driver to some node that cannot attach them all."""
    if sum(1 for wish in wishes if wish.claims) < 2:
        return False
    handles: dict[str, set[str]] = {}
    for wish in wishes:
        for volume in _volumes(room, wish):
            if volume.driver:
                handles.setdefault(volume.driver, set()).add(volume.handle)
    limits = room.snapshot.storage.attach_limits
    for driver, wanted in handles.items():
        for i, node in enumerate(room.nodes):
            most = limits.get(node.name, {}).get(driver)
            if most is not None and len(wanted) > 1 and len(wanted | _attached(room, i, driver)) > most:
                return True
    return False


def _in_zone(node: Node, volume: Volume) -> bool:
    """A volume labelled with zones is reachable from nodes of those zones, and from nodes without any such label."""
    if not any(key in node.labels for key in ZONE_LABELS):
        return True
    for key, value in volume.zone_labels.items():
        here = node.labels.get(key, node.labels.get(key.replace(OLD_ZONE_PREFIX, NEW_ZONE_PREFIX)))
        if here is None or here not in value.split("__"):
            return False
    return True


def _attached(room: Room, i: int, driver: str) -> set[str]:
    """Handles of the driver's volumes already in use on a node."""
    storage = room.snapshot.storage
    handles = set()
    for pod in room.pods_on[i]:
        for name in pod.claims:
            claim = storage.claims.get((pod.namespace, name))
            volume = storage.volumes.get(claim.volume) if claim and claim.volume else None
            if volume and volume.driver == driver:
                handles.add(volume.handle)
    return handles


def _blocked_by_anti_affinity(room: Room, wish: Constraints) -> dict[str, set[str]]:
    """Topology domains closed to the podset: by its own terms against present pods, and by present pods' terms."""
    blocked: dict[str, set[str]] = {}
    for term, counts in room.anti_terms.items():
        if term.matches(wish.namespace, wish.labels, room.namespace_labels(wish.namespace)):
            _close(room, blocked, term.topology_key, counts)
    for term in wish.anti_affinity:
        counts_of_present = room.count_matching(
            lambda namespace, labels, term=term: term.matches(namespace, labels, room.namespace_labels(namespace)),  # type: ignore[misc]
            terminating=True,
        )
        _close(room, blocked, term.topology_key, counts_of_present)
    return blocked


def _close(room: Room, blocked: dict[str, set[str]], key: str, counts: t.Mapping[int, int]) -> None:
    """Add the domains in which the counted pods run."""
    domains = room.domains(key)
    for i, count in counts.items():
        domain = domains[i]
        if count and domain is not None:
            blocked.setdefault(key, set()).add(domain)


def _is_blocked(room: Room, i: int, blocked: t.Mapping[str, t.Collection[str]]) -> bool:
    labels = room.nodes[i].labels
    return any(labels.get(key) in values for key, values in blocked.items())


def _ports_taken(room: Room, i: int, wish: Constraints) -> bool:
    return any(taken.conflicts(port) for taken in room.ports.get(i, ()) for port in wish.host_ports)
