# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flavors for real: kube-scheduler puts the pods of one gang on two kinds of nodes, as their quota says."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import PODSET_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import (
    TREE_KEY,
    TREE_LABEL,
    configmap_name,
    tree_text,
)
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told
from ansible_collections.muster.kube.tests.support.gang_cases import POOL_LABEL, job, kwok_node
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster

Object = dict[str, t.Any]


def stored_tree(namespace: str, big: str, small: str) -> Object:
    """A tree with two kinds of nodes, and a queue with two cpu of each."""
    flavors = [
        {"name": "big", "node_labels": {POOL_LABEL: big}, "tolerations": [{"key": big, "operator": "Exists"}]},
        {"name": "small", "node_labels": {POOL_LABEL: small}},
    ]
    nominal = {"big": {"cpu": 2}, "small": {"cpu": 2}}
    queues = [{"name": "all"}, {"name": "x", "parent": "all", "nominal": nominal}]
    text = tree_text(read_tree("default", {"queues": queues, "flavors": flavors}))
    metadata = {"name": configmap_name("default"), "namespace": namespace, "labels": {TREE_LABEL: "default"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {TREE_KEY: text}}


def test_podsets_stand_on_the_nodes_of_their_flavors(cluster: LiveCluster, namespace: str) -> None:
    stage = Stage(cluster, namespace)
    stage.lease = dataclasses.replace(stage.lease, namespace=namespace)
    big, small = f"{namespace}-big", f"{namespace}-small"
    tainted = {**kwok_node(big, big, cpu="4"), "spec": {"taints": [{"key": big, "effect": "NoSchedule"}]}}
    try:
        stage.add_node(tainted, kwok_node(small, small, cpu="4"))
        cluster.create(stored_tree(namespace, big, small))
        stage.submit("g", job("one", None, 2, cpu="1"), job("two", None, 2, cpu="1"), queue="x")
        stage.run_until({"g": "running"})
        assert dict(stage.state("g").charged[0].flavors) == {"one": "big", "two": "small"}
        found = {(pod["metadata"]["labels"][PODSET_LABEL], pod["spec"]["nodeName"]) for pod in stage.pods()}
        assert found == {("one", big), ("two", small)}
        # One that came before could start while the server is slow to answer what it would make of the other.
        stage.submit("late", job("late", None, 1, cpu="1"), queue="x")
        assert told(stage.run(), "late").reason == "quota"
    finally:
        stage.close()
