# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota_info finds: pods outside of gangs, borrowers beside the starved, drift; and its table."""

from __future__ import annotations

import csv
import io
import json

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.account import COLUMNS, harmless, trees_csv
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Line
from ansible_collections.muster.kube.tests.unit.test_memory_quota import declare, leaf, phases, submit


@pytest.fixture
def stage():
    """Red has borrowed two cpu, and blue waits for four, of which it has two."""
    with MemoryStage(1) as made:
        for name in ("red", "blue", "other"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 3))
        declare(made, leaf("red", 4, namespaces=["red"]), leaf("blue", 4, namespaces=["blue"]))
        submit(made, "large", 6, "red", seconds=600)
        made.start("d")
        assert made.run_until(lambda: phases(made, large="red") == {"large": "running"})
        for name in ("one", "two"):
            submit(made, name, 4, "blue")
        submit(made, "never", 20, "blue")
        made.run_for(5)
        yield made


def tell(stage, *faults):
    line = Line(stage.cluster)
    line.faults += faults
    return answer_quota(line.client, QuotaInfoOptions("muster-system"))


def pod(name, namespace, cpu="1", **metadata):
    """A pod that somebody made."""
    spec = {"nodeName": "p-n0", "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    return {
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": spec,
        "status": {"phase": "Running"},
    }


def test_borrowers_stand_beside_the_queues_that_lack_what_they_borrowed(stage):
    answer = tell(stage)
    assert answer["trees"][0]["pairs"] == [
        {
            "flavor": None,
            "resource": "cpu",
            "borrower": "all/red",
            "borrowed": "2",
            "starved": "all/blue",
            "short": "2",
            "waiting": 2,
        }
    ]
    assert "all/blue lacks 2 cpu for 2 waiting gangs, and all/red has borrowed 2" in answer["text"]


def test_pods_outside_of_gangs_are_told_by_namespace_and_queue_and_count_nothing(stage):
    before = tell(stage)["trees"][0]
    assert before["unqueued"] == []
    stage.cluster.add("pods", pod("own", "red"))
    stage.cluster.add("pods", pod("claims", "red", "500m", labels={"muster.kube/gang": "nobody"}))
    stage.cluster.add("pods", pod("loose", "other", "250m"))
    stage.cluster.add("pods", pod("nothing", "other", "0"))
    answer = tell(stage)
    after = answer["trees"][0]
    assert after["unqueued"] == [
        {"namespace": "other", "queue": None, "pods": 1, "resources": {"cpu": "250m"}},
        {"namespace": "red", "queue": "all/red", "pods": 2, "resources": {"cpu": "1500m"}},
    ]
    assert after["queues"] == before["queues"]
    assert "outside of gangs: 2 pods of namespace red (all/red) ask for 1500m cpu" in answer["text"]


def test_drift_tells_amounts_that_differ_and_queues_that_are_gone(stage):
    assert tell(stage)["trees"][0]["drift"] == []

    def edit(raw):
        state = json.loads(raw["metadata"]["annotations"]["muster.kube/state"])
        state["charged"] = [{"tree": "default", "queue": "gone"}]
        state["reserved"][0]["count"] = 7
        raw["metadata"]["annotations"]["muster.kube/state"] = json.dumps(state)

    stage.cluster.change("configmaps", "red", "large", edit)
    answer = tell(stage)
    assert [(item["gang"], item["what"], item["charged"], item["used"]) for item in answer["trees"][0]["drift"]] == [
        ("red/large", "queue_gone", None, None),
        ("red/large", "amount", "7", "6"),
    ]
    assert "drift: red/large is charged to queue gone, which is gone" in answer["text"]


def test_without_the_right_to_list_pods_nothing_is_told_of_them(stage):
    answer = tell(stage, Fault("refuse", "GET", "/pods", status=403, reason="Forbidden"))
    (tree,) = answer["trees"]
    assert (tree["problem"], tree["unqueued"], tree["drift"]) == (None, None, None)
    assert answer["notes"] == ["this account may not list pods, so that only what gangs keep reserved is counted"]


def test_the_table_has_a_row_for_each_queue_and_resource(stage):
    rows = list(csv.DictReader(io.StringIO(tell(stage)["csv"], newline="")))
    assert [row["path"] for row in rows] == ["all", "all/blue", "all/red"]
    assert {key: rows[2][key] for key in ("tree", "used", "borrowed", "entitled", "started", "leaf")} == {
        "tree": "default",
        "used": "6",
        "borrowed": "2",
        "entitled": "4",
        "started": "1",
        "leaf": "true",
    }


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", "\t=1", "\r=1"])
def test_no_cell_is_a_formula(text):
    assert harmless(text) == f"'{text}"


def test_cells_are_quoted_as_rfc_4180_says():
    queue = dict.fromkeys(("path", "name", "parent", "stop", "started", "waiting", "weighted_share"))
    tree = {"name": 'a,"b"', "as_of": None, "queues": [{**queue, "leaf": False, "path": "x\ny", "resources": []}]}
    assert trees_csv([tree]) == f'{",".join(COLUMNS)}\r\n"a,""b""","x\ny",,,false{"," * (len(COLUMNS) - 5)}\r\n'
    assert harmless(-1) == "-1"
