# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Room: what the nodes of a snapshot can still take, kept up to date while gangs are placed on it."""

from __future__ import annotations

import collections
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.constraints import HostPort, PodTerm
from ansible_collections.muster.kube.plugins.module_utils._model.demand import Resources
from ansible_collections.muster.kube.plugins.module_utils._model.snapshot import Node, Pod, Snapshot

LabelGroup = tuple[str, tuple[tuple[str, str], ...], bool]


class Room:
    """Free resources and the pods that matter to constraints, by node index."""

    def __init__(self, snapshot: Snapshot, pods: t.Iterable[Pod] | None = None) -> None:
        """Start from the snapshot's nodes and the given pods (default: the snapshot's own)."""
        self.snapshot = snapshot
        self.nodes: tuple[Node, ...] = snapshot.nodes
        self.index = {node.name: i for i, node in enumerate(self.nodes)}
        self.free: list[Resources] = [dict(node.allocatable) for node in self.nodes]
        self.ports: dict[int, list[HostPort]] = {}
        self.pods_on: list[list[Pod]] = [[] for node in self.nodes]
        self.anti_terms: dict[PodTerm, collections.Counter[int]] = {}
        self.used_claims: collections.Counter[tuple[str, str]] = collections.Counter()
        self._groups: dict[LabelGroup, collections.Counter[int]] | None = None
        self._domains: dict[str, list[str | None]] = {}
        for pod in snapshot.pods if pods is None else pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """Let a pod occupy its node; pods without a known node occupy nothing."""
        i = self.index.get(pod.node) if pod.node else None
        if i is None:
            return
        free = self.free[i]
        for name, amount in pod.requests.items():
            free[name] = free.get(name, 0) - amount
        self.pods_on[i].append(pod)
        if pod.host_ports:
            self.ports.setdefault(i, []).extend(pod.host_ports)
        for term in pod.anti_affinity:
            self.anti_terms.setdefault(term, collections.Counter())[i] += 1
        for claim in pod.claims:
            self.used_claims[(pod.namespace, claim)] += 1
        if self._groups is not None:
            self._groups[_group_of(pod)][i] += 1

    def domains(self, key: str) -> list[str | None]:
        """The value of a topology label per node, None where the node lacks it."""
        if key not in self._domains:
            self._domains[key] = [node.labels.get(key) for node in self.nodes]
        return self._domains[key]

    @property
    def host_names(self) -> dict[int, str]:
        """Host name labels that name exactly one node, by node; only such nodes can be steered to."""
        values = self.domains("kubernetes.io/hostname")
        seen = collections.Counter(values)
        return {i: value for i, value in enumerate(values) if value is not None and seen[value] == 1}

    @property
    def groups(self) -> dict[LabelGroup, collections.Counter[int]]:
        """Pods per node by namespace and labels; built on first use, because only inter-pod constraints need it."""
        if self._groups is None:
            self._groups = collections.defaultdict(collections.Counter)
            for i, pods in enumerate(self.pods_on):
                for pod in pods:
                    self._groups[_group_of(pod)][i] += 1
        return self._groups

    def namespace_labels(self, namespace: str) -> t.Mapping[str, str]:
        """Labels of a namespace; the name label is always there, even when namespaces could not be read."""
        return self.snapshot.namespaces.get(namespace) or {"kubernetes.io/metadata.name": namespace}

    def count_matching(
        self, matches: t.Callable[[str, t.Mapping[str, str]], bool], terminating: bool
    ) -> dict[int, int]:
        """How many pods on each node match; terminating ones only if asked for."""
        found: collections.Counter[int] = collections.Counter()
        for (namespace, labels, going), counts in self.groups.items():
            if (terminating or not going) and matches(namespace, dict(labels)):
                found.update(counts)
        return found

    def without(self, gone: t.Collection[str]) -> Room:
        """A copy in which the pods of these keys have ended."""
        pods = [pod for here in self.pods_on for pod in here if pod.key not in gone]
        return Room(self.snapshot, pods)

    def emptied(self) -> Room:
        """A copy in which only pods that always come back (DaemonSets, static pods) are left."""
        return Room(self.snapshot, [pod for here in self.pods_on for pod in here if pod.stays])


def _group_of(pod: Pod) -> LabelGroup:
    """Key under which pods are alike for every selector."""
    return pod.namespace, tuple(sorted(pod.labels.items())), pod.terminating
