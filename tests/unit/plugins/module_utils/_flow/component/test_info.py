# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is told of components: health as it is now, drift by field, what others have, and what points to nobody."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.info import (
    ComponentQuestion,
    answer_components,
)
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import read_component
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.component_stage import config_map, widget_crd
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, MIDDLE, StackStage, hooks


@pytest.fixture
def stage():
    found = StackStage()
    found.course(BASE, MIDDLE)
    found.line.sent.clear()
    return found


def ask(stage, *components, names=None):
    """A question; nothing may be written for its answer."""
    question = ComponentQuestion(names, tuple(read_component(item, needs_source=True) for item in components))
    answer = answer_components(stage.line.client, question, stage.programs)
    assert stage.line.writes == []
    return answer


def outcomes(told):
    """What the steps are like."""
    return {step["step"]: step["outcome"] for step in told["health"]}


def test_recorded_components_are_told_with_their_health(stage):
    base, middle = ask(stage)["components"]
    assert (base["name"], base["phase"], base["version"], base["owner"]) == (
        "base",
        "installed",
        "1.0.0",
        "component base",
    )
    assert outcomes(base)["webhooks"] == outcomes(base)["workloads"] == "passed"
    assert "smoke" not in outcomes(base)
    assert middle["depends_on"] == ["base"]
    assert [told["name"] for told in ask(stage, names=("middle",))["components"]] == ["middle"]
    with pytest.raises(BadInput, match="did you mean base"):
        ask(stage, names=("bas",))


def test_each_step_is_judged_for_itself_and_nothing_is_waited_for(stage):
    stage.cluster.remove("deployments", "home", "operator")
    began = stage.cluster.clock.now
    base, _middle = ask(stage)["components"]
    assert base["missing"] == ["Deployment home/operator"]
    assert outcomes(base)["definitions"] == "passed"
    assert stage.cluster.clock.now - began < 1


def test_drift_is_told_by_field(stage):
    stage.cluster.change("deployments", "home", "operator", lambda obj: obj["spec"].update(replicas=7))
    surplus = {"name": "s", "namespace": "team", "labels": {"muster.kube/component": "base"}}
    stage.cluster.add("configmaps", {"metadata": surplus})
    (base,) = ask(stage, BASE)["components"]
    (drift,) = base["drift"]
    assert (drift["kind"], drift["before"], drift["after"]) == (
        "Deployment",
        {"spec": {"replicas": 7}},
        {"spec": {"replicas": 2}},
    )
    assert base["surplus"] == ["ConfigMap team/s"]


def test_what_is_not_there_or_somebody_elses_is_told_so(stage):
    new = {"name": "new", "definition": [config_map("n", "team")]}
    crd = widget_crd()
    stage.cluster.add("customresourcedefinitions", {**crd, "metadata": {"name": "their.example.com"}})
    crd["metadata"] = {"name": "their.example.com"}
    theirs = {"name": "theirs", "definition": [crd]}
    told = {item["name"]: item for item in ask(stage, new, theirs)["components"]}
    assert (told["new"]["phase"], told["new"]["owner"]) == ("absent", None)
    assert told["theirs"]["phase"] == "found"
    broken = {"name": "b", "definition": [{"apiVersion": "no.org/v1", "kind": "K", "metadata": {"name": "k"}}]}
    assert "does not serve this kind" in ask(stage, broken)["components"][0]["problem"]


def test_what_points_to_nobody_is_told(stage):
    assert ask(stage)["orphans"] == []
    stage.cluster.add("validatingwebhookconfigurations", hooks("dead", "gone"))
    left = {**widget_crd()["metadata"], "name": "left.example.com", "labels": {"muster.kube/component": "lost"}}
    stage.cluster.add("customresourcedefinitions", {**widget_crd(), "metadata": left})
    told = {item["name"]: item["reason"] for item in ask(stage)["orphans"]}
    assert told == {
        "dead": "it calls Service gone/hook, which does not exist",
        "left.example.com": "component lost, which made it, has no record",
    }
