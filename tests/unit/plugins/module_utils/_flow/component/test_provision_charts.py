# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Components whose objects helm makes: under the same record, Lease, ladder and rules as all others."""

from __future__ import annotations

import contextlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import read_component
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.component_stage import (
    config_map,
    deployment,
    widget,
    widget_crd,
)
from ansible_collections.muster.kube.tests.support.helm_cases import COMPONENT, HOME, RELEASE
from ansible_collections.muster.kube.tests.support.memory_helm import MemoryHelm
from ansible_collections.muster.kube.tests.support.memory_wire import Killed
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, StackStage, StagePrograms


def chart(values, _upgrade):
    """A definition, an operator, and an object that is not always there."""
    yield "widget/crds/widgets.yaml", widget_crd()
    yield "widget/templates/operator.yaml", bare(deployment(image=values.get("image", "i:1")))
    yield "widget/templates/settings.yaml", bare(config_map("settings", size=str(values.get("size", 1))))
    if values.get("extra"):
        yield "widget/templates/extra.yaml", bare(config_map("extra"))


def bare(obj):
    """An object as charts have it, without the namespace of its release."""
    return {**obj, "metadata": {"name": obj["metadata"]["name"]}}


@pytest.fixture
def stage(tmp_path):
    found = StackStage()
    found.cluster.server_version = (1, 36)
    found.helm = MemoryHelm(found.cluster, chart)
    found.programs = StagePrograms(found.helm)
    (tmp_path / "Chart.yaml").write_text("name: widget\nversion: 1.2.3\nappVersion: '9'\n")
    found.chart = str(tmp_path)
    return found


def widgets(stage, **more):
    """The component of the chart."""
    return {
        "name": COMPONENT,
        "version": "1.2.3",
        "source": "helm",
        "chart": stage.chart,
        "release": RELEASE,
        "namespace": HOME,
        **more,
    }


def test_a_chart_is_installed_once_under_a_record(stage):
    foretold = stage.task(widgets(stage), check_mode=True).as_result(diff=True)
    assert (stage.line.writes, stage.helm.runs) == ([], 0)
    done = stage.task(widgets(stage)).as_result(diff=True)
    assert not done.get("failed"), done["msg"]
    for told in (foretold, done):
        [component] = told["components"]
        assert component["action"] == "installed"
        assert {item["name"]: item["action"] for item in component["objects"]} == dict.fromkeys(
            ("widgets.example.com", HOME, "operator", "settings"), "created"
        )
    [component] = done["components"]
    assert [step["outcome"] for step in component["ladder"]] == ["passed"] * 4 + ["skipped"] * 4
    record = stage.record(COMPONENT)
    assert (record.phase, record.source, record.release) == ("installed", "helm", f"{HOME}/{RELEASE}")
    assert all(entry.uid and entry.made for entry in record.entries)
    assert len(record.entries) == 4
    stage.line.sent.clear()
    assert stage.course(widgets(stage)) == {COMPONENT: "unchanged"}
    assert (stage.line.writes, stage.helm.runs) == ([], 1)


def test_the_record_and_definitions_come_before_helm_runs(stage):
    stage.course(widgets(stage))
    paths = [path for _method, path in stage.line.writes]
    assert paths[2].endswith("/configmaps")
    assert paths[3].endswith("customresourcedefinitions/widgets.example.com")
    assert stage.cluster.get("customresourcedefinitions", "", "widgets.example.com")["metadata"]["labels"] == {
        "muster.kube/component": COMPONENT
    }


def test_other_values_upgrade_and_what_was_changed_by_hand_is_repaired(stage):
    stage.course(widgets(stage, values={"extra": True}))
    assert stage.course(widgets(stage, values={"size": 2})) == {COMPONENT: "upgraded"}
    assert stage.cluster.get("configmaps", HOME, "extra") is None
    assert {entry.key.name for entry in stage.record(COMPONENT).entries} == {
        "widgets.example.com",
        HOME,
        "operator",
        "settings",
    }
    stage.cluster.change("configmaps", HOME, "settings", lambda obj: obj.update(data={"size": "7"}))
    assert stage.course(widgets(stage, values={"size": 2})) == {COMPONENT: "repaired"}
    assert stage.cluster.get("configmaps", HOME, "settings")["data"] == {"size": "2"}
    assert stage.course(widgets(stage, values={"size": 2})) == {COMPONENT: "unchanged"}
    assert stage.course(widgets(stage, values={"size": 2}, version="1.2.4")) == {COMPONENT: "upgraded"}
    assert stage.helm.runs == 3


def test_secret_values_are_used_and_no_record_has_them(stage):
    stage.course(widgets(stage, values={"size": 2}, secret_values={"image": "hunter22"}))
    [container] = stage.cluster.get("deployments", HOME, "operator")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "hunter22"
    record = stage.cluster.get("configmaps", "muster-system", f"muster-component-{COMPONENT}")
    assert "hunter22" not in str(record)
    assert stage.course(widgets(stage, values={"size": 2}, secret_values={"image": "other"})) == {COMPONENT: "upgraded"}


def test_taken_away_by_name_it_leaves_nothing(stage):
    before = stage.inventory()
    stage.course(widgets(stage))
    assert stage.course({"name": COMPONENT}, state="absent", remove_definitions=True) == {COMPONENT: "removed"}
    assert stage.inventory() == before
    runs = stage.helm.runs
    assert stage.course({"name": COMPONENT}, state="absent") == {COMPONENT: "unchanged"}
    assert stage.helm.runs == runs


def test_objects_of_users_refuse_the_removal_before_helm_runs(stage):
    stage.course(widgets(stage))
    stage.cluster.add("widgets", widget("theirs"))
    runs = stage.helm.runs
    with pytest.raises(MusterError, match="users have 1 objects of its kinds: Widget home/theirs"):
        stage.course({"name": COMPONENT}, state="absent")
    assert stage.helm.runs == runs
    assert stage.cluster.get("deployments", HOME, "operator") is not None


def test_what_somebody_else_released_is_found_and_left_alone(stage):
    stage.course(widgets(stage, name="somebody"))
    told = stage.task(widgets(stage)).as_result(diff=True)["components"][0]
    assert (told["action"], told["version"]) == ("found", "9")
    assert "component somebody" in told["owner"]
    assert stage.record(COMPONENT) is None


def test_an_operator_of_somebody_else_is_found_and_nothing_is_released(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": HOME}})
    theirs = deployment()
    theirs["metadata"]["labels"] = {"app.kubernetes.io/version": "0.7"}
    stage.cluster.add("deployments", theirs)
    told = stage.task(widgets(stage)).as_result(diff=True)["components"][0]
    assert (told["action"], told["version"]) == ("found", "0.7")
    assert "Deployment home/operator" in told["owner"]
    assert stage.helm.runs == 0


def test_an_object_of_somebody_else_that_is_no_operator_refuses_the_release(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": HOME}})
    stage.cluster.add("configmaps", config_map("settings"))
    with pytest.raises(MusterError, match="ConfigMap home/settings is of nobody"):
        stage.task(widgets(stage))
    assert stage.helm.runs == 0


def test_a_component_does_not_change_between_helm_and_manifests(stage):
    stage.course(widgets(stage))
    with pytest.raises(MusterError, match="installed from the source helm; remove it before"):
        stage.course({**BASE, "name": COMPONENT, "version": "2", "definition": [config_map("other")]})


@pytest.mark.parametrize("with_us", [False, True])
@pytest.mark.parametrize("values", [{"size": 1}, {"size": 2, "extra": True}])
def test_killed_before_any_write_of_helm_the_next_run_finishes(stage, values, with_us):
    """Also when the run that called helm is killed together with it."""
    stage.course(widgets(stage, values={"size": 5}))
    wanted = {**values}
    for write in range(12):
        stage.helm.killed_at, stage.helm.killed_with_us = stage.helm.writes + write, with_us
        size = {"size": wanted["size"] + 10 * write}
        with contextlib.suppress(Killed):
            stage.task(widgets(stage, values={**wanted, **size}))
        stage.helm.killed_at = None
        stage.course(widgets(stage, values={**wanted, **size}))
        assert stage.cluster.get("configmaps", HOME, "settings")["data"] == {"size": str(size["size"])}
        assert stage.record(COMPONENT).phase == "installed"
        assert stage.course(widgets(stage, values={**wanted, **size})) == {COMPONENT: "unchanged"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"source": "helm"}, "chart: it is missing"),
        ({"source": "helm", "chart": "c"}, "namespace: it is missing"),
        ({"source": "helm", "chart": "c", "namespace": "n", "src": "s"}, "src: a chart takes none"),
        ({"source": "manifest", "src": "s", "values": {"a": 1}}, "values: only the source helm takes it"),
        ({"source": "helm", "chart": "c", "namespace": "n", "release": "No"}, "no name of a release"),
    ],
)
def test_keys_that_do_not_go_with_the_source_are_refused(more, told):
    with pytest.raises(BadInput, match=told):
        read_component({"name": "c", **more}, needs_source=True)
