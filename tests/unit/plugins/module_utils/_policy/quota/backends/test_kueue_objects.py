# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A quota tree as objects of Kueue: what they hold, and what is refused or warned of."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.checks import BadTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.backends.kueue_objects import (
    build_kueue_objects,
    in_version,
    kueue_name,
)
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree

GPU = "nvidia.com/gpu"
NAMESPACES = {"ml": {"team": "ml"}, "ops": {}, "vision": {"team": "ml"}}


def built(*queues, namespaces=NAMESPACES, **rest):
    """The objects of a tree by kind and name, those of namespaces with their namespace."""
    objects = build_kueue_objects(small_tree(*queues, **rest), namespaces).objects
    return {
        (obj["kind"], *filter(None, (obj["metadata"].get("namespace"), obj["metadata"]["name"]))): obj
        for obj in objects
    }


def problems(*queues, **rest):
    """Where Kueue cannot follow, and in which field."""
    with pytest.raises(BadTree) as failed:
        build_kueue_objects(small_tree(*queues, **rest), {})
    return [(problem.where, problem.field) for problem in failed.value.problems]


def warnings(*queues, **rest):
    return build_kueue_objects(small_tree(*queues, **rest), {}).warnings


def test_leaves_are_cluster_queues_and_the_others_cohorts():
    found = built(
        queue("team", extra={GPU: 2}),
        queue("a", parent="team", nominal={GPU: 4, "cpu": "2500m"}, lending_limit={GPU: 1}, borrowing_limit={GPU: 3}),
        queue("b", weight="1.5"),
    )
    kinds = [kind for kind, *_ in found]
    assert kinds == ["ResourceFlavor", "Cohort", "Cohort", "ClusterQueue", "ClusterQueue", *["LocalQueue"] * 6]
    assert found["Cohort", "root"]["spec"].get("parentName") is None
    assert found["Cohort", "team"]["spec"]["parentName"] == "root"
    assert found["ClusterQueue", "a"]["spec"]["cohortName"] == "team"
    assert found["ClusterQueue", "b"]["spec"]["fairSharing"] == {"weight": "1500m"}
    assert found["Cohort", "team"]["spec"]["resourceGroups"][0]["flavors"][0]["resources"] == [
        {"name": "cpu", "nominalQuota": "0"},
        {"name": GPU, "nominalQuota": "2"},
    ]
    assert found["ClusterQueue", "a"]["spec"]["resourceGroups"] == [
        {
            "coveredResources": ["cpu", GPU],
            "flavors": [
                {
                    "name": "default",
                    "resources": [
                        {"name": "cpu", "nominalQuota": "2500m"},
                        {"name": GPU, "nominalQuota": "4", "borrowingLimit": "3", "lendingLimit": "1"},
                    ],
                }
            ],
        }
    ]
    assert found["LocalQueue", "ops", "a"]["spec"] == {"clusterQueue": "a"}


def test_every_object_has_the_label_of_its_tree():
    found = built(queue("a", nominal={GPU: 1}), name="lab")
    assert {obj["metadata"]["labels"]["muster.kube/quota-tree"] for obj in found.values()} == {"lab"}
    assert {("ClusterQueue", "lab.a"), ("ResourceFlavor", "lab.default")} <= set(found)
    assert found["ClusterQueue", "lab.a"]["spec"]["cohortName"] == "lab.root" == kueue_name("lab", "root")


def test_flavors_are_in_the_order_of_the_tree_and_keep_their_nodes():
    flavors = [
        {"name": "spot", "node_labels": {"pool": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"name": "big"},
    ]
    found = built(queue("a", nominal={"big": {GPU: 1}}), flavors=flavors)
    assert found["ResourceFlavor", "spot"]["spec"] == {
        "nodeLabels": {"pool": "spot"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
    }
    assert found["ResourceFlavor", "big"]["spec"] == {}
    shown = found["ClusterQueue", "a"]["spec"]["resourceGroups"][0]["flavors"]
    assert [(item["name"], item["resources"][0]["nominalQuota"]) for item in shown] == [("spot", "0"), ("big", "1")]
    assert found["ClusterQueue", "a"]["spec"]["flavorFungibility"]["whenCanBorrow"] == "TryNextFlavor"


def test_a_single_leaf_is_a_queue_without_a_cohort():
    found = built(queue("root", nominal={GPU: 1}))
    assert "cohortName" not in found["ClusterQueue", "root"]["spec"]
    assert not [kind for kind, *_ in found if kind == "Cohort"]


def test_hard_queue_borrows_nothing():
    amounts = built(queue("a", nominal={GPU: 1}, hard=True))["ClusterQueue", "a"]["spec"]["resourceGroups"][0]
    assert amounts["flavors"][0]["resources"][0]["borrowingLimit"] == "0"


@pytest.mark.parametrize(("reclaim", "word"), [("any", "Any"), ("lower_priority", "LowerPriority"), ("never", "Never")])
def test_reclaim_is_preemption(reclaim, word):
    assert built(queue("a", reclaim=reclaim))["ClusterQueue", "a"]["spec"]["preemption"] == {
        "reclaimWithinCohort": word,
        "withinClusterQueue": "LowerPriority",
        "borrowWithinCohort": {"policy": "Never"},
    }


def test_what_stops_a_queue_stops_all_below():
    found = built(
        queue("team", stop="hold"),
        queue("a", parent="team"),
        queue("b", parent="team", stop="drain"),
        queue("c"),
    )
    policies = {name: found["ClusterQueue", name]["spec"]["stopPolicy"] for name in "abc"}
    assert policies == {"a": "Hold", "b": "HoldAndDrain", "c": "None"}


def test_namespaces_get_doors_to_the_leaves_that_are_open_to_them():
    found = built(
        queue("listed", namespaces=["ops", "later"]),
        queue("selected", selector={"matchLabels": {"team": "ml"}}),
        queue("both", namespaces=["third"], selector={"matchLabels": {"team": "ml"}}),
        queue("open"),
    )
    homes = {"listed": [], "selected": [], "both": [], "open": []}
    for kind, *place in found:
        if kind == "LocalQueue":
            homes[place[1]].append(place[0])
    assert homes == {
        "listed": ["ops"],
        "selected": ["ml", "vision"],
        "both": ["ml", "vision"],
        "open": ["ml", "ops", "vision"],
    }
    selectors = {
        name: found["ClusterQueue", name]["spec"]["namespaceSelector"] for name in ("listed", "selected", "open")
    }
    by_name = {"key": "kubernetes.io/metadata.name", "operator": "In"}
    assert selectors == {
        "listed": {"matchExpressions": [{**by_name, "values": ["later", "ops"]}]},
        "selected": {"matchLabels": {"team": "ml"}},
        "open": {},
    }
    both = found["ClusterQueue", "both"]["spec"]["namespaceSelector"]
    assert both == {"matchExpressions": [{**by_name, "values": ["ml", "third", "vision"]}]}


def test_what_kueue_cannot_hold_is_refused_by_the_path_of_the_queue():
    found = problems(
        queue("root", capacity={GPU: 9}),
        queue("a", nominal={GPU: 1}, user_limits={"running": 1}, budget={"hours": {GPU: 5}}, priority_cap=3),
        queue("Upper", weight="0.000000001"),
        queue("much", nominal={GPU: str(2**63 - 1)}),
        queue("n" * 63),
        name="lab",
        over_capacity="warn",
    )
    assert sorted(found) == sorted(
        [
            ("root", "capacity"),
            ("root/a", "user_limits"),
            ("root/a", "budget"),
            ("root/a", "priority_cap"),
            ("root/Upper", "name"),
            ("root/Upper", "weight"),
            ("root/much", "nominal"),
            (f"root/{'n' * 63}", "name"),
        ]
    )


def test_too_many_flavors_and_labels_are_refused():
    labels = {f"l{number}": "x" for number in range(9)}
    flavors = [{"name": f"f{number}", "node_labels": labels if number == 0 else {}} for number in range(65)]
    found = problems(queue("a", nominal={"f0": {GPU: 1}}), flavors=flavors)
    assert found == [("tree", ""), ("flavors.f0", "node_labels")]


def test_what_kueue_does_otherwise_is_warned_of():
    amounts = {"cpu": 1, "memory": 1}
    assert warnings(queue("a", nominal=amounts)) == ()
    shown = warnings(
        queue("team", reclaim="never"),
        queue("a", parent="team", nominal={"cpu": 1}),
        settings={"min_run_time": "1h"},
    )
    assert [text.partition(":")[0] for text in shown] == [
        "root/team",
        "settings.min_run_time",
        "the tree has no amounts of memory",
    ]


def test_priorities_are_classes():
    found = built(queue("a"), priorities={"urgent": 1000, "idle": -5}, name="lab")
    classes = {key: obj for key, obj in found.items() if key[0] == "WorkloadPriorityClass"}
    assert [(key[1], obj["value"], "spec" in obj) for key, obj in classes.items()] == [
        ("lab.idle", -5, False),
        ("lab.urgent", 1000, False),
    ]


def test_before_v1beta2_a_cohort_was_named_otherwise():
    found = built(queue("a", nominal={GPU: 1}))
    old = {key: in_version(obj, "kueue.x-k8s.io/v1beta1") for key, obj in found.items()}
    assert {obj["apiVersion"] for obj in old.values()} == {"kueue.x-k8s.io/v1beta1"}
    assert old["ClusterQueue", "a"]["spec"]["cohort"] == "root"
    assert "cohortName" not in old["ClusterQueue", "a"]["spec"]
    assert {key: in_version(obj, "kueue.x-k8s.io/v1beta2") for key, obj in found.items()} == found
