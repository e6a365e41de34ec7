# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Room: what the nodes of a snapshot can still take, kept up to date while gangs are placed on it."""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.constraints import HostPort, PodTerm
from ansible_collections.muster.kube.plugins.module_utils._model.pods.demand import Resources
from ansible_collections.muster.kube.plugins.module_utils._model.pods.snapshot import Node, Pod, Snapshot

# Taints the cluster sets for a condition that passes: nodes that carry them are out now, not for ever.
PASSING_TAINT_PREFIX = "node.kubernetes.io/"
# A node's position in the snapshot.
NodeIndex = int
LabelGroup = tuple[str, frozenset[tuple[str, str]], bool]


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
        self.lowest_priority = min((pod.priority for pod in snapshot.pods), default=0)
        self._groups: dict[LabelGroup, collections.Counter[int]] | None = None
        self._domains: dict[str, list[str | None]] = {}
        # At most one, shared with all copies: what is on the nodes makes no difference to it.
        self._emptied: list[Room] = []
        # Nodes whose free amounts changed, one after the other; a row of free is replaced then, never modified.
        self.touched: list[NodeIndex] = []
        for pod in snapshot.pods if pods is None else pods:
            self.add(pod)

    def add(self, pod: Pod) -> None:
        """Let a pod occupy its node; pods without a known node occupy nothing."""
        i = self.index.get(pod.node) if pod.node else None
        if i is None:
            return
        free = dict(self.free[i])
        for name, amount in pod.requests.items():
            free[name] = free.get(name, 0) - amount
        self.free[i] = free
        self.touched.append(i)
        self.pods_on[i] = [*self.pods_on[i], pod]
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

    @functools.cached_property
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

    def without(self, gone: t.Iterable[Pod]) -> Room:
        """A copy in which these pods have ended; only their nodes are counted anew."""
        twin = self.twin()
        for pod in gone:
            twin._remove(pod)
        return twin

    def twin(self) -> Room:
        """A copy that can be changed; nodes are shared until a pod comes or goes."""
        twin = copy.copy(self)
        twin.free, twin.pods_on, twin.touched = list(self.free), list(self.pods_on), []
        twin.ports = {i: list(ports) for i, ports in self.ports.items()}
        twin.anti_terms = {term: collections.Counter(counts) for term, counts in self.anti_terms.items()}
        twin.used_claims = collections.Counter(self.used_claims)
        if self._groups is not None:
            twin._groups = collections.defaultdict(collections.Counter)
            twin._groups.update({group: collections.Counter(counts) for group, counts in self._groups.items()})
        return twin

    def _remove(self, pod: Pod) -> None:
        """Take a pod off its node."""
        i = self.index[t.cast(str, pod.node)]
        free = dict(self.free[i])
        for name, amount in pod.requests.items():
            free[name] += amount
        self.free[i] = free
        self.touched.append(i)
        here = self.pods_on[i]
        place = next(place for place, other in enumerate(here) if other is pod)
        self.pods_on[i] = [*here[:place], *here[place + 1 :]]
        if pod.host_ports:
            self.ports[i] = [port for other in self.pods_on[i] for port in other.host_ports]
        for term in pod.anti_affinity:
            self.anti_terms[term][i] -= 1
        for claim in pod.claims:
            self.used_claims[(pod.namespace, claim)] -= 1
        if self._groups is not None:
            self._groups[_group_of(pod)][i] -= 1

    def replace_pods(self, gone: t.Sequence[Pod], come: t.Sequence[Pod]) -> None:
        """Take pods of the snapshot off and add others; pods that occupy nothing do not matter."""
        for pod in gone:
            if pod.node in self.index:
                self._remove(pod)
        for pod in come:
            self.add(pod)
        for i in {self.index[pod.node] for pod in gone if pod.node in self.index}:
            # Counted anew, so that nothing is left of pods that are gone.
            free = dict(self.nodes[i].allocatable)
            for pod in self.pods_on[i]:
                for name, amount in pod.requests.items():
                    free[name] = free.get(name, 0) - amount
            self.free[i] = free
        for term in {term for pod in gone for term in pod.anti_affinity}:
            if term in self.anti_terms and not any(self.anti_terms[term].values()):
                del self.anti_terms[term]
        self.used_claims = +self.used_claims
        self.touched = []

    def forget_emptied(self) -> None:
        """Pods that always come back, or what decides about nodes besides, changed."""
        self._emptied = []

    def emptied(self) -> Room:
        """The nodes at their best: all open, and only pods that always come back (DaemonSets, static pods) on them."""
        if not self._emptied:
            nodes = tuple(_opened(node) for node in self.nodes)
            stays = tuple(pod for pod in self.snapshot.pods if pod.stays)
            self._emptied.append(Room(dataclasses.replace(self.snapshot, nodes=nodes, pods=stays)))
        return self._emptied[0]

    def opened(self, names: t.Collection[str] | None = None) -> Room:
        """A copy in which these nodes (default: all) are neither cordoned nor tainted for a passing condition."""
        nodes = tuple(_opened(node) if names is None or node.name in names else node for node in self.snapshot.nodes)
        if nodes == self.snapshot.nodes:
            return self
        pods = [pod for here in self.pods_on for pod in here]
        return Room(dataclasses.replace(self.snapshot, nodes=nodes), pods)


def _opened(node: Node) -> Node:
    """The node once its cordon or condition has passed."""
    if not node.taints and not node.unschedulable:
        return node
    taints = tuple(taint for taint in node.taints if not taint.key.startswith(PASSING_TAINT_PREFIX))
    return dataclasses.replace(node, taints=taints, unschedulable=False)


def _group_of(pod: Pod) -> LabelGroup:
    """Key under which pods are alike for every selector."""
    return pod.namespace, frozenset(pod.labels.items()), pod.terminating
