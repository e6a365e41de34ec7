# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kueue's kinds on a server in memory, and Workloads in their states."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.tests.support.memory_cluster import Kind, MemoryCluster

Object = dict[str, t.Any]

LABEL = "muster.kube/quota-tree"
KUEUE = {
    "ResourceFlavor": ("resourceflavors", False),
    "WorkloadPriorityClass": ("workloadpriorityclasses", False),
    "Cohort": ("cohorts", False),
    "ClusterQueue": ("clusterqueues", False),
    "LocalQueue": ("localqueues", True),
    "Workload": ("workloads", True),
}


def serve_kueue(cluster: MemoryCluster, version: str = "v1beta2") -> None:
    """Have the server know Kueue's kinds in one version."""
    for name, (plural, namespaced) in KUEUE.items():
        cluster.serve(Kind(f"kueue.x-k8s.io/{version}", name, plural, namespaced))


def workload(
    name: str, namespace: str, queue: str, *, admitted: str | None = None, flavor: str = "x", finished: bool = False
) -> Object:
    """A Workload that waits in a LocalQueue, or was admitted in a ClusterQueue."""
    status: Object = {}
    if admitted is not None:
        assigned = [{"name": "main", "flavors": {"cpu": flavor}}]
        status["admission"] = {"clusterQueue": admitted, "podSetAssignments": assigned}
    if finished:
        status["conditions"] = [{"type": "Finished", "status": "True"}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"queueName": queue}, "status": status}
