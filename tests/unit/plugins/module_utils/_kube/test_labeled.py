# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Objects with our label: found as far as rights reach, and removed by their very uid."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube import labeled
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import Label
from ansible_collections.muster.kube.plugins.module_utils._kube.labeled import (
    MANAGED_KINDS,
    find_labeled,
    read_labeled,
    remove_objects,
    try_removals,
    wait_until_gone,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.tests.support.component_stage import (
    LABELS,
    WHOLE,
    ComponentStage,
    config_map,
    widget,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Kind
from ansible_collections.muster.kube.tests.support.memory_wire import Fault

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LABEL = Label(*next(iter(LABELS.items())))


@pytest.fixture
def stage():
    """A cluster with a whole component in it."""
    stage = ComponentStage()
    stage.run(*WHOLE)
    stage.line.sent.clear()
    return stage


@pytest.fixture
def client(stage):
    return stage.line.client()


def kinds(found):
    return [obj["kind"] for obj in found.objects]


def test_objects_come_in_the_order_of_making_them_and_kinds_of_the_task_last(client):
    usual = ["CustomResourceDefinition", "Namespace", "ConfigMap", "Deployment"]
    assert kinds(find_labeled(client, LABEL, (), frozenset())) == usual
    found = find_labeled(client, LABEL, [widget(), config_map("settings")], frozenset())
    assert kinds(found) == [*usual, "Widget"]
    assert found.unseen == ()
    assert all(set(obj) == {"apiVersion", "kind", "metadata"} for obj in found.objects)


def test_each_kind_that_is_served_is_listed_once(stage, client):
    find_labeled(client, LABEL, [config_map("settings")], frozenset())
    served = {(kind.api_version, kind.name): kind.plural for kind in stage.cluster.kinds.values()}
    asked = [path.rpartition("/")[2] for _method, path, _dry in stage.line.sent]
    plurals = [served[kind] for kind in MANAGED_KINDS if kind in served]
    assert 5 < len(plurals) < len(MANAGED_KINDS)
    assert sorted(name for name in asked if name in served.values()) == sorted(plurals)


def test_where_the_cluster_may_not_be_listed_namespaces_are(stage, client):
    stage.forbid("configmaps", "deployments", verbs=("list",), namespaces=("",))
    stage.forbid("deployments", verbs=("list",), namespaces=("home",))
    stage.forbid("customresourcedefinitions", verbs=("list",))
    found = find_labeled(client, LABEL, (), frozenset({"home", "team"}))
    assert kinds(found) == ["Namespace", "ConfigMap"]
    assert found.unseen == (
        "customresourcedefinitions",
        "configmaps outside of home, team",
        "deployments outside of home, team",
        "deployments in home",
    )


def test_of_given_objects_those_are_ours_that_carry_the_label(stage, client):
    stage.cluster.add("configmaps", {"metadata": {"name": "theirs", "namespace": "home"}})
    given = [config_map("settings"), config_map("theirs"), config_map("missing"), {**widget(), "kind": "Unknown"}]
    assert [obj["metadata"]["name"] for obj in read_labeled(client, LABEL, given)] == ["settings"]


def test_only_the_very_object_that_was_found_goes(stage, client):
    found = read_labeled(client, LABEL, [config_map("settings")])
    stage.cluster.remove("configmaps", "home", "settings")
    try_removals(client, found)
    stage.cluster.add("configmaps", {"metadata": {"name": "settings", "namespace": "home", "labels": LABELS}})
    remove_objects(client, found)
    wait_until_gone(client, found, client.clock())
    assert stage.cluster.get("configmaps", "home", "settings") is not None


def test_pretending_is_not_stopped_by_another_object_of_the_same_name(stage, client):
    found = read_labeled(client, LABEL, [config_map("settings")])
    stage.cluster.remove("configmaps", "home", "settings")
    stage.cluster.add("configmaps", {"metadata": {"name": "settings", "namespace": "home"}})
    try_removals(client, found)


def test_a_kind_is_listed_in_the_version_that_the_task_names(stage, client):
    stage.cluster.serve(Kind("flowcontrol.apiserver.k8s.io/v1beta3", "FlowSchema", "flowschemas", namespaced=False))
    stage.cluster.add("flowschemas", {"metadata": {"name": "f", "labels": LABELS}})
    schema = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1beta3", "kind": "FlowSchema", "metadata": {"name": "f"}}
    assert "FlowSchema" in kinds(find_labeled(client, LABEL, [schema], frozenset()))
    newer = {**schema, "apiVersion": "apps/v2", "kind": "Deployment"}
    assert "Deployment" in kinds(find_labeled(client, LABEL, [newer], frozenset()))


@pytest.mark.parametrize(
    ("api_version", "kind", "plural"),
    [
        ("v1", "Pod", "pods"),
        ("storage.k8s.io/v1", "StorageClass", "storageclasses"),
        ("networking.k8s.io/v1", "Ingress", "ingresses"),
        ("autoscaling/v2", "HorizontalPodAutoscaler", "autoscalers"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "policies"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", "bindings"),
    ],
)
def test_what_manifests_usually_hold_is_found_without_definitions(stage, client, api_version, kind, plural):
    stage.cluster.serve(Kind(api_version, kind, plural))
    stage.cluster.add(plural, {"metadata": {"name": "a", "namespace": "home", "labels": LABELS}, "spec": {}})
    assert kind in kinds(find_labeled(client, LABEL, (), frozenset()))


def test_pretending_deletes_nothing(stage, client):
    before = stage.inventory()
    try_removals(client, find_labeled(client, LABEL, [widget()], frozenset()).objects)
    assert stage.inventory() == before
    assert stage.line.writes == []


@pytest.mark.parametrize("trouble", ["lose", "cut"])
def test_a_deletion_whose_answer_is_lost_is_settled(stage, client, trouble):
    found = read_labeled(client, LABEL, [config_map("settings")])
    stage.trouble(Fault(trouble, "DELETE"))
    remove_objects(client, found)
    assert stage.cluster.get("configmaps", "home", "settings") is None


def test_what_does_not_go_is_named(stage, client):
    found = read_labeled(client, LABEL, [config_map("settings")])
    with pytest.raises(MusterError, match="Cannot wait for the removal of ConfigMap home/settings: it is still there"):
        wait_until_gone(client, found, client.clock() + 3)


@pytest.mark.parametrize("stored", ["v1", "v2"])
def test_objects_of_a_kind_are_listed_as_they_are_stored(stage, client, monkeypatch, stored):
    served = find_resource(client, "example.com/v1", "Widget")
    versions = [{"name": name, "served": True, "storage": name == stored} for name in ("v1", "v2")]
    place = ("customresourcedefinitions", "", "widgets.example.com")
    stage.cluster.change(*place, lambda obj: obj["spec"].update(versions=versions))
    asked = []

    def find(_client, api_version, _kind):
        """Every version is served."""
        asked.append(api_version)
        return served

    monkeypatch.setattr(labeled, "_served_path", lambda _client, _obj: f"{CRDS}/widgets.example.com")
    monkeypatch.setattr(labeled, "find_resource", find)
    assert [obj["metadata"]["name"] for obj in labeled.list_defined(client, stage.cluster.get(*place))] == ["one"]
    assert asked[0] == f"example.com/{stored}"
