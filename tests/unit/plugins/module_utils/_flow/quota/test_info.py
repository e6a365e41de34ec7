# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota_info tells of trees: amounts, use, fairness and words."""

from __future__ import annotations

import email.utils
from dataclasses import replace

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.info import answer_quota
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import MeterRow, Owner, meter_name
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import tree_digest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._store.quota_trees import create_tree
from ansible_collections.muster.kube.plugins.module_utils._store.usage_meters import MeterStore
from ansible_collections.muster.kube.tests.support.gang_records import add_record
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree
from ansible_collections.muster.kube.tests.support.writable_api import DATE, WritableApi, refused

TREE = small_tree(
    queue("a", nominal={"cpu": 2}), queue("b", nominal={"cpu": 6, "memory": "1Gi"}, stop="hold", default=True)
)
MAPS = "/api/v1/namespaces/team/configmaps"
DATE_SECONDS = email.utils.parsedate_to_datetime(DATE).timestamp()
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
    answer = answer_quota(api.client, QuotaInfoOptions("team", **question))
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
    answer = ask(api, tree="gone")
    assert (answer["trees"], answer["notes"]) == ([], ["there is no quota tree gone; known are default, other"])
    assert ask(api, tree="defalt")["notes"] == ["there is no quota tree defalt; did you mean default?"]


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


# What was used.

PRICED = small_tree(
    queue("root", budget={"hours": {"cpu": 10}}),
    queue("a", nominal={"cpu": 2}),
    queue("b", nominal={"cpu": 6}, budget={"hours": {"cpu": "1500m"}, "period": "year"}),
    settings={"prices": {"cpu": "0.5"}},
)
CPU = FlavorResource("", "cpu")
HOUR = 1000 * 3600


@pytest.fixture
def metered():
    """A tree with prices and budgets, and what was used of it in two months."""
    server = WritableApi()
    client = server.client()
    create_tree(client, "team", PRICED)
    month, before = time_text(DATE_SECONDS)[:7], "2020-01"
    rows = {
        "a": {MeterRow(month, Owner("ann", "x")): {CPU: 3 * HOUR}, MeterRow(before, Owner("", "y")): {CPU: HOUR}},
        "b": {MeterRow(month, Owner("bob", "x")): {CPU: 2 * HOUR}},
        "gone": {MeterRow(before, Owner("ann", "x")): {CPU: HOUR // 2}},
    }
    for name, sums in rows.items():
        MeterStore(client, "team").change(
            ("default", name), None, lambda meter, sums=sums: replace(meter, as_of=int(DATE_SECONDS), sums=sums)
        )
    server.asked.clear()
    return server


def test_hours_and_costs_by_queue_user_namespace_and_month(metered):
    (tree,) = ask(metered)["trees"]
    month = time_text(DATE_SECONDS)[:7]
    assert (tree["usage"]["as_of"], tree["usage"]["users"]) == (time_text(DATE_SECONDS), "claimed")
    rows = [tuple(row.values()) for row in tree["usage"]["rows"]]
    assert rows == [
        ("a", "root/a", "2020-01", "", "y", {"cpu": "1"}, "0.5"),
        ("a", "root/a", month, "ann", "x", {"cpu": "3"}, "1.5"),
        ("b", "root/b", month, "bob", "x", {"cpu": "2"}, "1"),
        ("gone", None, "2020-01", "ann", "x", {"cpu": "0.5"}, "0.25"),
    ]
    months = {
        item["name"]: [(part["month"], part["hours"], part["cost"]) for part in item["months"]]
        for item in tree["queues"]
    }
    assert months == {
        "root": [("2020-01", {"cpu": "1"}, "0.5"), (month, {"cpu": "5"}, "2.5")],
        "a": [("2020-01", {"cpu": "1"}, "0.5"), (month, {"cpu": "3"}, "1.5")],
        "b": [(month, {"cpu": "2"}, "1")],
    }


def test_where_budgets_stand(metered):
    (tree,) = ask(metered)["trees"]
    found = {item["name"]: item["budget"] for item in tree["queues"]}
    assert found["a"] == []
    assert [found["root"][0][key] for key in ("resource", "used", "limit", "spent")] == ["cpu", "5", "10", False]
    (spent,) = found["b"]
    year = int(time_text(DATE_SECONDS)[:4])
    assert spent == {
        "resource": "cpu",
        "used": "2",
        "limit": "1.5",
        "spent": True,
        "reset": f"{year + 1}-01-01T00:00:00Z",
    }


BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"


@pytest.mark.parametrize(
    ("actions", "policy", "places", "word"),
    [
        (["Deny"], "muster-quota-records-default", ["x", "y"], "enforced"),
        (["Deny"], "muster-quota-records-default", ["x"], "claimed"),
        (["Warn", "Audit"], "muster-quota-records-default", ["x", "y"], "claimed"),
        (["Deny"], "muster-quota-records-other", ["x", "y"], "claimed"),
    ],
)
def test_names_of_users_are_trusted_where_the_server_looks_at_all_records(metered, actions, policy, places, word):
    for name in ("x", "y"):
        metered.put(f"/api/v1/namespaces/{name}", {"metadata": {"name": name, "labels": {"name": name}}})
    held = {"matchExpressions": [{"key": "name", "operator": "In", "values": places}]}
    spec = {"policyName": policy, "validationActions": actions, "matchResources": {"namespaceSelector": held}}
    metadata = {"name": "one", "labels": {"app.kubernetes.io/component": "quota-tree"}}
    metered.put(f"{BINDINGS}/one", {"metadata": metadata, "spec": spec})
    assert ask(metered)["trees"][0]["usage"]["users"] == word


def test_without_prices_nothing_costs_anything(api):
    (tree,) = ask(api)["trees"]
    assert tree["usage"] == {"as_of": None, "users": "claimed", "rows": []}
    assert {str(item["months"]) for item in tree["queues"]} == {"[]"}


def test_what_may_not_be_read_is_told(metered):
    metered.fixed[("GET", MAPS)] = [refused(403, "Forbidden", "no")]
    answer = ask(metered, tree="default")
    (tree,) = answer["trees"]
    assert (tree["usage"], tree["queues"][0]["months"], tree["queues"][0]["budget"]) == (None, None, None)
    assert any("ConfigMaps in team" in note for note in answer["notes"])


def test_a_meter_that_cannot_be_read_is_told(metered):
    path = f"{MAPS}/{meter_name('default', 'a')}"
    metered.objects[path]["data"]["usage.json"] = "{"
    answer = ask(metered)
    assert any("the usage of a queue cannot be read" in note for note in answer["notes"])
    assert {row["queue"] for row in answer["trees"][0]["usage"]["rows"]} == {"b", "gone"}
