# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked before anything is created: room."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.room import room_for
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.nodes import Nodes
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi

NODE = {
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/arch": "amd64"}},
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "run"},
    "spec": {"template": {"spec": {"containers": [{"name": "run", "resources": {"requests": {"cpu": "9"}}}]}}},
}


@pytest.fixture
def api():
    made = WritableApi()
    made.put("/api/v1/nodes/n1", NODE)
    made.put("/api/v1/namespaces/team", {"kind": "Namespace", "metadata": {"name": "team"}})
    return made


def test_the_verdict_is_that_of_fit_info(api):
    verdict = room_for(api.client(), "team", JOB, Nodes(api.client()))
    assert (verdict["gang"], verdict["answer"], verdict["reason"]) == ("run", "never", "insufficient")
    assert api.writes == []


def test_nodes_read_for_the_verdict_are_not_read_again(api):
    client = api.client()
    nodes = Nodes(client)
    room_for(client, "team", JOB, nodes)
    before = len(api.asked)
    assert nodes.find("n1")["metadata"]["labels"] == NODE["metadata"]["labels"]
    assert len(api.asked) == before


def test_a_namespace_that_can_be_listed_is_not_read(api):
    room_for(api.client(), "team", JOB, Nodes(api.client()))
    assert ("GET", "/api/v1/namespaces/team", False) not in api.asked
    with pytest.raises(BadInput, match="namespace nowhere: it does not exist"):
        room_for(api.client(), "nowhere", JOB, Nodes(api.client()))
