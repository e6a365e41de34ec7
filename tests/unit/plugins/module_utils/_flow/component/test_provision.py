# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded components made, repaired, upgraded and taken away in a cluster in memory, alone and several at once."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import ComponentOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.provision import ProvisionOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.task import ComponentTask, run_task
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import Component
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.component_stage import config_map, deployment, widget, widget_crd
from ansible_collections.muster.kube.tests.support.stack_stage import (
    BASE,
    MIDDLE,
    STACK,
    TOP,
    StackStage,
    changed,
    gadget_crd,
    next_version,
    placed,
)


@pytest.fixture
def stage():
    return StackStage()


def absent(*names):
    """Components as a removal names them."""
    return [{"name": name} for name in names or ("base", "middle", "top")]


def test_components_are_made_in_the_order_of_their_needs_and_once(stage):
    assert stage.course(TOP, MIDDLE, BASE) == {"top": "installed", "middle": "installed", "base": "installed"}
    stage.line.sent.clear()
    assert stage.course(*STACK) == dict.fromkeys(("base", "middle", "top"), "unchanged")
    assert stage.line.writes == []


def test_check_mode_writes_nothing_and_tells_what_the_real_run_does(stage):
    for components in (STACK, [next_version(item) for item in STACK]):
        stage.line.sent.clear()
        foretold = stage.task(*components, check_mode=True).as_result(diff=True)
        assert stage.line.writes == []
        done = stage.task(*components).as_result(diff=True)
        assert [
            (told["action"], [(item["name"], item["action"]) for item in told["objects"]])
            for told in foretold["components"]
        ] == [
            (told["action"], [(item["name"], item["action"]) for item in told["objects"]])
            for told in done["components"]
        ]


def test_the_record_is_written_before_the_first_object(stage):
    stage.course(BASE)
    paths = [path for _method, path in stage.line.writes]
    assert paths[0] == "/api/v1/namespaces"
    assert paths[1].endswith("/leases")
    assert paths[2] == "/api/v1/namespaces/muster-system/configmaps"
    assert paths[3].endswith("customresourcedefinitions/widgets.example.com")
    record = stage.record("base")
    assert (record.phase, record.version) == ("installed", "1.0.0")
    assert all(entry.uid for entry in record.entries)
    assert {entry.key.kind for entry in record.entries} == {obj["kind"] for obj in BASE["definition"]}


def test_removal_leaves_the_cluster_as_it_was(stage):
    before = stage.inventory()
    stage.course(*STACK)
    assert stage.course(*absent(), state="absent", remove_definitions=True) == dict.fromkeys(
        ("base", "middle", "top"), "removed"
    )
    assert stage.inventory() == before
    stage.line.sent.clear()
    assert stage.course(*absent(), state="absent") == dict.fromkeys(("base", "middle", "top"), "unchanged")
    assert stage.line.writes == []


def refused(stage, *components, **options):
    """A task that is refused before any write: why."""
    stage.line.sent.clear()
    with pytest.raises(MusterError) as caught:
        stage.task(*components, **options)
    assert stage.line.writes == []
    return str(caught.value)


def test_what_makes_no_sense_is_refused_before_any_write(stage):
    assert "did you mean base?" in refused(stage, BASE, changed(MIDDLE, depends_on=["bas"]))
    cycle = [changed(BASE, depends_on=["top"]), MIDDLE, TOP]
    assert "it is a cycle: base → top → middle → base" in refused(stage, *cycle)
    assert "it is there twice" in refused(stage, BASE, BASE)
    broken = {
        "name": "broken",
        "definition": [{"apiVersion": "nowhere.org/v1", "kind": "K", "metadata": {"name": "k"}}],
    }
    assert "the API server does not serve this kind" in refused(stage, BASE, broken)
    again = {**broken["definition"][0], "metadata": {"name": "l"}}
    several = changed(broken, name="another", definition=[again])
    assert refused(stage, BASE, broken, several).startswith("Cannot apply 2 objects")


def test_a_component_may_need_one_that_is_there_already(stage):
    stage.course(BASE)
    assert stage.course(MIDDLE) == {"middle": "installed"}
    assert refused(stage, *absent("base"), state="absent").endswith("component middle depends on it")
    assert stage.course(*absent("base", "middle"), state="absent") == {"base": "removed", "middle": "removed"}


def widget_versions(**served):
    """The definition of widgets with these versions."""
    crd = widget_crd()
    crd["spec"]["versions"] = [{"name": name, "served": is_served} for name, is_served in served.items()]
    return changed(BASE, version="1.1.0", definition=[*BASE["definition"][:-1], crd])


def test_a_version_that_is_stored_must_not_vanish(stage):
    stage.course(BASE)
    place = ("customresourcedefinitions", "", "widgets.example.com")
    stage.cluster.change(*place, lambda obj: obj["status"].update(storedVersions=["v0", "v1"]))
    assert "objects may be stored in v0" in refused(stage, widget_versions(v1=True))
    stage.cluster.change(*place, lambda obj: obj["status"].update(storedVersions=["v1"]))
    assert stage.course(widget_versions(v1=True)) == {"base": "upgraded"}


def test_a_version_that_somebody_uses_must_not_vanish(stage):
    stage.course(BASE)
    writes = [{"manager": "kubectl", "apiVersion": "example.com/v1"}]
    stage.cluster.add("widgets", {"metadata": {"name": "u", "namespace": "team", "managedFields": writes}})
    told = refused(stage, widget_versions(v2=True))
    assert "v1 would not be served any more, in which " in told
    assert "Widget team/u (by kubectl)" in told


@pytest.mark.parametrize(
    ("before", "after", "older"),
    [("1.10.0", "1.9.9", True), ("1.2.0", "1.2.0-rc1", True), ("1.2", "1.2.0", False), ("main", "1.0", False)],
)
def test_no_version_goes_back(stage, before, after, older):
    stage.course(changed(BASE, version=before))
    component = changed(BASE, version=after)
    if older:
        assert "is older; remove the component first" in refused(stage, component)
    else:
        assert stage.course(component) == {"base": "upgraded"}
        assert stage.record("base").version == after


FOUND = {
    "helm": (
        {"annotations": {"meta.helm.sh/release-name": "w", "meta.helm.sh/release-namespace": "ops"}},
        "helm release ops/w",
    ),
    "olm": (
        {"labels": {"olm.owner": "widgets.v1.0", "olm.owner.kind": "ClusterServiceVersion"}},
        "ClusterServiceVersion widgets.v1.0",
    ),
    "subscription": ({"labels": {"operators.coreos.com/widgets.ops": ""}}, "Subscription of widgets.ops"),
    "manifest": (
        {"managedFields": [{"manager": "kubectl-client-side-apply"}]},
        "a manifest applied with kubectl-client-side-apply",
    ),
    "another component": ({"labels": {"muster.kube/component": "other"}}, "component other"),
    "platform": ({}, "somebody who left no mark"),
}


@pytest.mark.parametrize("kind", FOUND)
def test_what_others_installed_is_named_and_not_touched(stage, kind):
    marks, owner = FOUND[kind]
    crd = widget_crd()
    labels = {**marks.get("labels", {}), "app.kubernetes.io/version": "0.9"}
    stage.cluster.add("customresourcedefinitions", {**crd, "metadata": {**crd["metadata"], **marks, "labels": labels}})
    stage.cluster.clock.advance(1.0)
    needy = changed(MIDDLE, definition=[config_map("n", "team")], resources=None)
    stage.line.sent.clear()
    (told,) = stage.task(BASE).as_result(diff=True)["components"]
    assert stage.line.writes == []
    assert (told["action"], told["version"]) == ("found", "0.9")
    assert told["owner"] == f"{owner} (CustomResourceDefinition widgets.example.com)"
    assert stage.course(BASE, needy) == {"base": "found", "middle": "installed"}
    assert stage.record("base") is None
    assert stage.course(*absent("base", "middle"), state="absent") == {"base": "unchanged", "middle": "removed"}


def test_single_objects_of_others_are_refused_as_ever(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "home"}})
    stage.cluster.add("services", {"metadata": {"name": "hook", "namespace": "home"}})
    assert "Service home/hook: it exists and is not ours" in refused(stage, BASE)


def test_objects_with_the_label_and_without_a_record_are_taken_into_one(stage):
    objects = [obj for obj in BASE["definition"] if obj["kind"] != "Widget"]
    stage.run(*objects, name="base")
    assert stage.course(changed(BASE, definition=objects)) == {"base": "repaired"}
    assert stage.course(changed(BASE, definition=objects)) == {"base": "unchanged"}
    stage.cluster.remove("configmaps", "muster-system", "muster-component-base")
    assert stage.course(*absent("base"), state="absent", remove_definitions=True) == {"base": "removed"}
    assert stage.cluster.get("namespaces", "", "home") is None


def test_an_object_whose_label_somebody_took_away_is_still_ours(stage):
    stage.course(BASE)
    stage.cluster.change("services", "home", "hook", lambda obj: obj["metadata"].update(labels={}))
    assert stage.course(BASE) == {"base": "repaired"}
    stage.cluster.change("services", "home", "hook", lambda obj: obj["metadata"].update(labels={}))
    assert stage.course(*absent("base"), state="absent") == {"base": "removed"}
    assert stage.cluster.all("services") == []


@pytest.mark.parametrize(
    "drift",
    [
        lambda cluster: cluster.remove("services", "home", "hook"),
        lambda cluster: cluster.change("deployments", "home", "operator", lambda obj: obj["spec"].update(replicas=5)),
        lambda cluster: cluster.change("widgets", "home", "one", lambda obj: obj["spec"].update(size=9)),
        lambda cluster: cluster.remove("validatingwebhookconfigurations", "", "widgets-hook"),
        lambda cluster: cluster.add(
            "configmaps",
            {"metadata": {"name": "surplus", "namespace": "team", "labels": {"muster.kube/component": "base"}}},
        ),
    ],
)
def test_drift_is_repaired(stage, drift):
    stage.course(BASE)
    expected = stage.left()
    drift(stage.cluster)
    stage.cluster.clock.advance(3.0)
    assert stage.course(BASE) == {"base": "repaired"}
    stage.cluster.clock.advance(3.0)
    assert stage.left() == expected
    assert stage.course(BASE) == {"base": "unchanged"}


def test_an_upgrade_prunes_what_is_not_described_any_more(stage):
    stage.course(next_version(BASE))
    assert stage.course(changed(BASE, version="10")) == {"base": "upgraded"}
    assert stage.cluster.get("configmaps", "home", "news-base") is None
    assert "news-base" not in {entry.key.name for entry in stage.record("base").entries}


def test_records_of_a_newer_version_are_left_alone(stage):
    stage.course(BASE)

    def renew(obj):
        """As a later version would write it."""
        obj["data"]["record"] = obj["data"]["record"].replace('"format":1', '"format":2')

    stage.cluster.change("configmaps", "muster-system", "muster-component-base", renew)
    assert "it has format 2, this version knows up to 1" in refused(stage, BASE)
    assert "it has format 2" in refused(stage, *absent("base"), state="absent")


def test_unknown_keys_of_records_stay(stage):
    stage.course(BASE)

    def extend(obj):
        """A key of a later version."""
        obj["data"]["record"] = obj["data"]["record"].replace("{", '{"later":7,', 1)

    stage.cluster.change("configmaps", "muster-system", "muster-component-base", extend)
    stage.course(next_version(BASE))
    assert stage.record("base").unknown == {"later": 7}


def test_the_namespace_of_a_component_is_made_and_goes_with_it(stage):
    component = {"name": "c", "namespace": "own", "definition": [config_map("a")]}
    del component["definition"][0]["metadata"]["namespace"]
    assert stage.course(component) == {"c": "installed"}
    assert stage.cluster.get("configmaps", "own", "a") is not None
    assert stage.course(*absent("c"), state="absent") == {"c": "removed"}
    assert stage.cluster.get("namespaces", "", "own") is None


def test_a_namespace_of_somebody_else_is_used_and_stays(stage):
    component = {"name": "c", "namespace": "team", "definition": [config_map("a", "team")]}
    stage.course(component)
    assert {entry.key.kind: entry.made for entry in stage.record("c").entries} == {
        "Namespace": False,
        "ConfigMap": True,
    }
    stage.course(*absent("c"), state="absent")
    assert stage.cluster.get("namespaces", "", "team") is not None
    assert stage.cluster.all("configmaps", "team") == []


def test_the_plain_form_minds_records(stage):

    def plain(state, *objects):
        """A task without a source."""
        recorded = ProvisionOptions((Component("base"),), "absent", single=True)
        task = ComponentTask(recorded, ComponentOptions("base", state, list(objects) or None))
        return run_task(stage.line.client, task, stage.told.append, stage.programs, diff=True, around=stage.around)

    stage.course(BASE)
    with pytest.raises(BadInput, match="it has a record"):
        plain("present", config_map("a", "team"))
    assert plain("absent")["components"][0]["action"] == "removed"
    assert plain("absent")["changed"]
    assert not plain("absent")["changed"]
    assert plain("present", config_map("a", "team"))["objects"][0]["action"] == "created"
    assert stage.record("base") is None


def neighbors():
    """Two operators in one namespace that both name; the second one acts on objects that hold it up."""
    home = {"namespace": "shared", "version": "1"}
    first = {**home, "name": "first", "definition": [gadget_crd(), placed(deployment("one"), "shared")]}
    second = {**home, "name": "second", "definition": [widget_crd(), placed(deployment("two"), "shared")]}
    return first, {**second, "resources": [placed(widget(), "shared")]}


@pytest.mark.parametrize("turn", [1, -1])
def test_several_components_share_a_namespace_that_the_first_one_makes(stage, turn):
    before = stage.inventory()
    components = neighbors()[::turn]
    foretold = stage.task(*components, check_mode=True).as_result(diff=False)["components"]
    done = stage.task(*components).as_result(diff=False)["components"]
    assert [item["plan"] for item in done] == [item["plan"] for item in foretold]
    stage.line.sent.clear()
    assert stage.course(*components) == {"first": "unchanged", "second": "unchanged"}
    assert stage.line.writes == []

    def let_go(change):
        """The operator of the second one lets its object go as long as it runs."""
        if change.plural == "deployments" and change.gone and change.object["metadata"]["name"] == "two":
            assert stage.cluster.all("widgets") == []

    stage.cluster.listeners.append(let_go)
    assert stage.course(*absent("first", "second")[::turn], state="absent", remove_definitions=True) == {
        "first": "removed",
        "second": "removed",
    }
    assert stage.inventory() == before


def test_a_namespace_goes_with_the_last_component_in_it(stage):
    stage.course(*neighbors())
    assert stage.task({"name": "first"}, state="absent").as_result(diff=False)["components"][0]["kept"] == [
        "gadgets.example.org",
        "shared",
    ]
    stage.course(*absent("second"), state="absent")
    assert stage.cluster.get("namespaces", "", "shared") is not None
    assert stage.course(*absent("first"), state="absent") == {"first": "removed"}
    assert stage.cluster.get("namespaces", "", "shared") is None


def test_an_object_belongs_to_one_component(stage):
    other = {"name": "other", "definition": [widget_crd()]}
    assert "CustomResourceDefinition widgets.example.com: component base has it too" in refused(stage, BASE, other)
