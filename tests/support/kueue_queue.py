# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A queue of Kueue: one flavor, one ClusterQueue and the LocalQueue of one namespace."""

from __future__ import annotations

import typing as t

Object = dict[str, t.Any]

KUEUE_API = "kueue.x-k8s.io/v1beta2"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def kueue_queue(name: str, namespace: str, cpu: int, **others: int) -> list[Object]:
    """The objects, in the order in which they must be created; the queue of the cluster is called as the namespace."""
    amounts = {"cpu": cpu, **others}
    resources = [{"name": resource, "nominalQuota": str(amount)} for resource, amount in amounts.items()]
    groups = [{"coveredResources": list(amounts), "flavors": [{"name": namespace, "resources": resources}]}]
    return [
        {"apiVersion": KUEUE_API, "kind": "ResourceFlavor", "metadata": {"name": namespace}, "spec": {}},
        {
            "apiVersion": KUEUE_API,
            "kind": "ClusterQueue",
            "metadata": {"name": namespace},
            "spec": {"namespaceSelector": {}, "resourceGroups": groups},
        },
        {
            "apiVersion": KUEUE_API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"clusterQueue": namespace},
        },
    ]
