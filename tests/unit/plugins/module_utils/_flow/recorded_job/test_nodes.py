# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nodes that a Job needs: listed once, found by name, and refused when none has the hardware."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import (
    Nodes,
    NoSuchHardware,
    require_hardware,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.hardware import HardwareAsk
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/arch": "amd64"}},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}


@pytest.fixture
def api():
    made = WritableApi()
    made.put("/api/v1/nodes/n1", NODE)
    return made


def test_who_asks_for_nothing_reads_nothing(api):
    require_hardware(Nodes(api.client()), HardwareAsk(), {}, "run")
    assert api.asked == []


def test_nodes_are_listed_once(api):
    nodes = Nodes(api.client())
    require_hardware(nodes, HardwareAsk(arch="amd64"), {"cpu": "4"}, "run")
    require_hardware(nodes, HardwareAsk(arch="amd64"), {"cpu": "1"}, "run")
    assert len(api.asked) == 1


def test_what_no_node_has_is_refused_with_near_misses(api):
    with pytest.raises(NoSuchHardware, match="Cannot find hardware for the run: none of 1 nodes has it") as refused:
        require_hardware(Nodes(api.client()), HardwareAsk(arch="amd64"), {"cpu": "5"}, "run")
    assert refused.value.as_result()["near_misses"] == [{"node": "n1", "missing": ["cpu 5: the node offers 4"]}]


def test_nodes_are_found_by_name_and_remembered(api):
    nodes = Nodes(api.client())
    assert nodes.find("n1")["metadata"]["name"] == "n1"
    assert nodes.find("n1") is nodes.find("n1")
    assert (nodes.find("gone"), nodes.find(None)) == (None, None)
    assert len(api.asked) == 2


def test_a_noted_node_is_kept_without_its_long_lists(api):
    nodes = Nodes(api.client())
    metadata = {**NODE["metadata"], "managedFields": [{"manager": "kubelet"}]}
    nodes.note({**NODE, "metadata": metadata, "status": {**NODE["status"], "images": [{"names": ["x"]}]}})
    assert nodes.find("n1") == NODE
    assert api.asked == []
