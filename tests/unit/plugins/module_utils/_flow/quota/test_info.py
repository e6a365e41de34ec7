# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota_info tells of trees: amounts, use, fairness and words."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_digest
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import create_tree
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

TREE = small_tree(
    queue("a", nominal={"cpu": 2}), queue("b", nominal={"cpu": 6, "memory": "1Gi"}, stop="hold", default=True)
)
RESERVED = ({"name": "w", "count": 3, "requests": {"cpu": "1"}},)


@pytest.fixture
def api():
    """A tree, and a gang that borrows one cpu."""
    server = WritableApi()
    create_tree(server.client(), "team", TREE)
    add_record(server, "one", phase="running", queue="a", changes={"reserved": RESERVED})
    add_record(server, "two")
    server.asked.clear()
    return server


def ask(api, **question):
    answer = answer_quota(api.client(), QuotaInfoOptions("team", **question))
    assert api.writes == []
    return answer


def test_amounts_of_each_queue(api):
    (tree,) = ask(api)["trees"]
    leaf, other = (next(item for item in tree["queues"] if item["name"] == name) for name in "ab")
    assert (leaf["path"], leaf["parent"], leaf["leaf"], leaf["started"], leaf["waiting"]) == (
        "root/a",
        "root",
        True,
        1,
        0,
    )
    assert leaf["resources"][0] == {
        "flavor": None,
        "resource": "cpu",
        "entitled": "2",
        "used": "3",
        "borrowed": "1",
        "lent": "0",
        "headroom": "5",
        "idle": "0",
    }
    assert leaf["weighted_share"] == 125
    amounts = other["resources"][0]
    assert (amounts["lent"], amounts["idle"], amounts["headroom"], other["stop"]) == ("1", "5", "5", "hold")
    assert tree["queues"][0]["started"] is None


def test_text_has_a_line_for_each_queue(api):
    assert ask(api)["trees"][0]["text"].splitlines() == [
        "root: 3 of 8 cpu used, 0 of 1073741824 (1Gi) memory used",
        "  a: 3 of 2 cpu used (borrowed 1) (1 started, 0 waiting)",
        "  b [stop: hold]: 0 of 6 cpu used (lent 1), 0 of 1073741824 (1Gi) memory used (0 started, 1 waiting)",
    ]


def test_fairness_digest_and_definition(api):
    (tree,) = ask(api)["trees"]
    assert tree["fairness"] == {"cpu": 0.5, "memory": None}
    assert tree["digest"] == tree_digest(TREE)
    assert read_tree("default", tree["definition"]) == TREE
    assert (tree["problem"], tree["unplaced"], tree["warnings"]) == (None, 0, [])


def test_tree_is_asked_for_by_name(api):
    create_tree(api.client(), "team", small_tree(queue("x"), name="other"))
    api.asked.clear()
    assert [tree["name"] for tree in ask(api)["trees"]] == ["default", "other"]
    assert [tree["name"] for tree in ask(api, tree="other")["trees"]] == ["other"]
    assert ask(api, tree="gone") == {"trees": [], "notes": []}


def test_flavors_are_told_apart(api):
    amounts = {"x": {"cpu": 1}, "y": {"cpu": 2}}
    tree = small_tree(queue("q", nominal=amounts), name="kinds", flavors=[{"name": "x"}, {"name": "y"}])
    create_tree(api.client(), "team", tree)
    api.asked.clear()
    (told,) = ask(api, tree="kinds")["trees"]
    assert [item["flavor"] for item in told["queues"][1]["resources"]] == ["x", "y"]
    assert told["text"].splitlines()[1] == "  q: 0 of 1 cpu of x used, 0 of 2 cpu of y used (0 started, 0 waiting)"


def test_broken_tree_is_told_as_unreadable(api):
    api.objects["/api/v1/namespaces/team/configmaps/muster-quota-default"]["data"]["tree.json"] = "{"
    (tree,) = ask(api)["trees"]
    assert (tree["problem"], tree["definition"], tree["queues"]) == ("quota_unreadable", None, [])
    assert "no JSON" in tree["detail"]


def test_use_that_may_not_be_seen_is_not_told_as_nothing(api):
    api.fixed["GET", "/api/v1/configmaps"] = [refused(403, "Forbidden", "no")]
    answer = ask(api)
    (tree,) = answer["trees"]
    assert (tree["problem"], tree["fairness"], tree["unplaced"]) == ("quota_not_visible", {}, None)
    assert tree["queues"][1]["resources"][0]["used"] is None
    assert tree["text"].splitlines()[1] == "  a: 2 cpu"
    assert len(answer["notes"]) == 1
