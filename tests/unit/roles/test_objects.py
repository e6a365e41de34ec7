# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of the roles dispatcher, inspection, quota_tree and elastic_training, without a cluster."""

from __future__ import annotations

import json
import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import (
    ComponentOptions,
    read_definitions,
)
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import progress_name
from ansible_collections.muster.kube.tests.support.play import play_tasks

ROLES = pathlib.Path(__file__).resolve().parents[3] / "roles"
# Names that YAML takes for something else.
PLACES = [{"name": name, "submitters": [], "inspectors": [{"kind": "User", "name": "1e3"}]} for name in ("123", "on")]
VARIABLES = {
    "dispatcher_namespace": "007",
    "dispatcher_account": "null",
    "dispatcher_namespaces": PLACES,
    "dispatcher_priority_level": "1",
    "dispatcher_concurrency_shares": 20,
    "dispatcher_all_subjects": [],
    "dispatcher_leases": {"resources": []},
    "inspection_namespaces": PLACES,
    "inspection_build_account": "1e3",
    "inspection_run_account": "true",
    "inspection_registry": True,
    "inspection_registry_namespace": "0x10",
    "inspection_registry_image": "5000",
    "inspection_registry_storage_class": "1.5",
    "elastic_training_namespace": "0x12",
    "elastic_training_text": "1e3",
    "elastic_training_configmap": "no",
    # An account without gangs may nothing: a rule without names would be one for all names.
    "elastic_training_accounts": [{"name": "off", "gangs": ["1e3", "g" * 250]}, {"name": "idle", "gangs": []}],
    "quota_tree_namespace": "0x11",
    "quota_tree_trees": [{"queues": []}],
    "quota_tree_admins": [{"kind": "User", "name": "1e3"}],
    "quota_tree_users": [{"name": "no", "queues": ["007"], "subjects": [{"kind": "Group", "name": "on"}]}],
}


SELECTOR = {
    "matchLabels": {"team": "on"},
    "matchExpressions": [
        {"key": "stage", "operator": "In", "values": ["1", "test"]},
        {"key": "stage", "operator": "NotIn", "values": ["off"]},
        {"key": "owner", "operator": "Exists"},
        {"key": "frozen", "operator": "DoesNotExist"},
    ],
}
TREES = {
    "listed": {"enforce": "deny", "queues": [{"name": "all"}, {"name": "007", "parent": "all", "namespaces": ["on"]}]},
    "imported": {
        "tree": "default",
        "enforce": "deny",
        "enforce_selector": {"matchLabels": {"team": "on"}},
        "from_quota_subtrees": {"tree": "quota_context"},
    },
    "labelled": {"enforce": "deny", "label": "example.com/queue", "queues": [{"name": "all", "namespaces": ["on"]}]},
    "selected": {
        "tree": "other",
        "enforce": "warn",
        "enforce_selector": {},
        "queues": [
            {"name": "all"},
            {"name": "a", "parent": "all", "selector": SELECTOR, "default": True},
            {"name": "b", "parent": "all", "namespaces": ["x", "y"]},
            {"name": "c", "parent": "all", "namespaces": [], "selector": None},
        ],
    },
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """The templates of the roles, filled in."""
    tasks = {}
    for role in ("dispatcher", "inspection", "quota_tree", "elastic_training"):
        tasks[f"{role}_defaults"] = {"ansible.builtin.include_vars": {"file": str(ROLES / role / "defaults/main.yml")}}
        tasks[f"{role}_settings"] = {"ansible.builtin.set_fact": VARIABLES}
        name = "rights" if role == "quota_tree" else "objects"
        tasks[role] = {"ansible.builtin.debug": {"msg": [filled_in(role, name)]}}
    tasks["quota_tree_vars"] = {"ansible.builtin.include_vars": {"file": str(ROLES / "quota_tree/vars/main.yml")}}
    for name, tree in TREES.items():
        tasks[name] = {"ansible.builtin.debug": {"msg": [filled_in("quota_tree", "policies")]}, "vars": {"item": tree}}
    return play_tasks(tmp_path_factory.mktemp("play"), tasks)


def filled_in(role, name):
    """A template of a role as a task gets it."""
    return f"{{{{ lookup('ansible.builtin.template', '{ROLES / role / 'templates' / name}.yml.j2') }}}}"


@pytest.mark.parametrize(
    ("role", "places"),
    [
        ("dispatcher", {"007", "123", "on"}),
        ("inspection", {"0x10", "123", "on"}),
        ("quota_tree", {"0x11"}),
        ("elastic_training", {"0x12"}),
    ],
)
def test_names_are_texts_whatever_they_look_like(texts, role, places):
    objects = read_definitions(ComponentOptions(role, "present", texts[role]["msg"]))
    assert {obj["metadata"]["namespace"] for obj in objects if "namespace" in obj["metadata"]} == places


def test_accounts_may_report_for_their_gangs_only(texts):
    objects = read_definitions(ComponentOptions("elastic-training", "present", texts["elastic_training"]["msg"]))
    assert [obj["kind"] for obj in objects] == ["ConfigMap", "Role", "RoleBinding"]
    assert objects[0]["data"] == {"muster_trainer.py": "1e3"}
    (rule,) = objects[1]["rules"]
    assert rule["resourceNames"] == [progress_name("1e3"), progress_name("g" * 250)]
    assert rule["verbs"] == ["get", "patch"]


def policies(texts, name):
    """The policies of a tree by their names, and its bindings."""
    objects = read_definitions(ComponentOptions("quota-tree", "present", texts[name]["msg"]))
    found = {obj["metadata"]["name"]: obj["spec"] for obj in objects}
    return {name: spec for name, spec in found.items() if "policyName" not in spec}, {
        name: spec for name, spec in found.items() if "policyName" in spec
    }


@pytest.mark.parametrize(("name", "tree"), [("listed", "default"), ("selected", "other")])
def test_every_policy_of_a_tree_is_bound_and_fails_closed(texts, name, tree):
    rules, bindings = policies(texts, name)
    assert set(rules) == {f"muster-quota-{kind}-{tree}" for kind in ("workloads", "records", "queues", "accounts")}
    assert {spec["policyName"] for spec in bindings.values()} == set(rules)
    assert {spec["failurePolicy"] for spec in rules.values()} == {"Fail"}
    for spec in rules.values():
        for validation in spec["validations"]:
            assert validation.get("message") or validation.get("messageExpression")
            assert "\n" not in validation["expression"]


def test_bindings_are_for_the_namespaces_of_the_queues(texts):
    _rules, listed = policies(texts, "listed")
    assert {tuple(spec["validationActions"]) for spec in listed.values()} == {("Deny",)}
    place = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["on"]}
    assert [spec["matchResources"]["namespaceSelector"]["matchExpressions"] for spec in listed.values()] == [
        [place]
    ] * 4
    _rules, selected = policies(texts, "selected")
    assert {tuple(spec["validationActions"]) for spec in selected.values()} == {("Warn", "Audit")}
    exempt = ["kube-node-lease", "kube-public", "kube-system", "0x11"]
    outside = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": exempt}
    found = [
        spec["matchResources"]["namespaceSelector"]
        for name, spec in sorted(selected.items())
        if spec["policyName"] == "muster-quota-records-other"
    ]
    assert found == [
        {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["x", "y"]}]},
        {**SELECTOR, "matchExpressions": [*SELECTOR["matchExpressions"], outside]},
        {"matchExpressions": [outside]},
    ]


def test_a_tree_of_another_name_reads_its_own_label_only(texts):
    for name, reads in (("listed", True), ("selected", False)):
        rules, _bindings = policies(texts, name)
        tree = "default" if reads else "other"
        found = {item["name"]: item["expression"] for item in rules[f"muster-quota-queues-{tree}"]["variables"]}
        assert json.dumps(tree) in found["named"]
        assert ("muster.kube/queue" in found["named"]) is reads


@pytest.mark.parametrize(("name", "label"), [("imported", "quota_context"), ("labelled", "example.com/queue")])
def test_records_name_their_queue_by_the_label_of_the_tree(texts, name, label):
    """That of MCAD's tree where the queues are taken from there, and the usual one of the tree default all the same."""
    rules, bindings = policies(texts, name)
    found = {item["name"]: item["expression"] for item in rules["muster-quota-queues-default"]["variables"]}
    assert json.dumps(label) in found["named"]
    assert json.dumps(label) in found["before"]
    assert "muster.kube/queue" in found["named"]
    assert {spec["policyName"] for spec in bindings.values()} == set(rules)
