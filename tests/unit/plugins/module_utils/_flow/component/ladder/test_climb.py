# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Each step of the ladder made to fail alone: the task fails in time, and names the step, the object and the cause."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.component_stage import config_map, deployment, namespace
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, StackStage, bundle, changed, hooks, service

CONDITION = {"api_version": "example.com/v1", "kind": "Widget", "name": "one", "namespace": "home", "type": "Ready"}
PATIENCE = 40.0


@pytest.fixture
def stage():
    return StackStage()


def failed(stage, component, **options):
    """A task that fails: its result, and the step that did."""
    began = stage.cluster.clock.now
    result = stage.task(component, wait_timeout=PATIENCE, single=True, **options).as_result(diff=False)
    assert result["failed"]
    assert stage.cluster.clock.now - began < 2 * PATIENCE
    (told,) = result["components"]
    (step,) = [step for step in told["ladder"] if step["outcome"] == "failed"]
    at = told["ladder"].index(step)
    assert {item["outcome"] for item in told["ladder"][:at]} <= {"passed", "skipped"}
    assert {item["outcome"] for item in told["ladder"][at + 1 :]} <= {"skipped"}
    return result, step


def with_objects(*objects):
    """The first component with other objects in place of those of the same kind."""
    kinds = {obj["kind"] for obj in objects}
    return changed(BASE, definition=[*(obj for obj in BASE["definition"] if obj["kind"] not in kinds), *objects])


def steps(result):
    """What became of each step of the only component."""
    return {step["step"]: step["outcome"] for step in result.as_result(diff=False)["components"][0]["ladder"]}


def test_all_steps_are_told_in_their_order(stage):
    component = changed(BASE, nodes={"labels": ["fast=yes"]}, smoke={"definition": [config_map("s")]})
    stage.cluster.add("nodes", {"metadata": {"name": "n", "labels": {"fast": "yes"}}})
    told = steps(stage.task(component))
    assert list(told.items()) == [
        *((name, "passed") for name in ("source", "definitions", "listable", "workloads", "webhooks")),
        ("condition", "skipped"),
        ("nodes", "passed"),
        ("smoke", "passed"),
    ]
    assert stage.cluster.get("configmaps", "home", "s") is None
    assert steps(stage.task(component, wait_for="listable")) == dict.fromkeys(
        ("source", "definitions", "listable"), "passed"
    )


def test_a_definition_that_is_not_established(stage):
    refused = [{"type": "NamesAccepted", "status": "False", "message": "Widget is taken"}]
    component = with_objects()
    component = changed(component, definition=[obj for obj in BASE["definition"] if obj["kind"] != "Widget"])
    stage.course(component)
    stage.cluster.change(
        "customresourcedefinitions", "", "widgets.example.com", lambda obj: obj.update(status={"conditions": refused})
    )
    result, step = failed(stage, component)
    assert (step["step"], step["object"]) == ("definitions", "CustomResourceDefinition widgets.example.com")
    assert step["reason"] == "its names are not accepted: Widget is taken"
    assert result["error"]["object"] == "component base: definitions: CustomResourceDefinition widgets.example.com"


def test_a_kind_that_cannot_be_listed(stage):
    stage.course(BASE)
    del stage.cluster.kinds["widgets"]
    stage.cluster._served.clear()
    result = stage.task(changed(BASE, definition=[*BASE["definition"][1:]]), wait_timeout=3.0).as_result(diff=False)
    (step,) = [step for step in result["components"][0]["ladder"] if step["outcome"] == "failed"]
    assert step["step"] == "listable"


def sick_pod(stage, **status):
    """A pod of the operator that does not run."""
    labels = {"app": "operator"}
    container = {"name": "main", **status}
    stage.cluster.add("pods", {"metadata": {"name": "operator-1", "namespace": "home", "labels": labels}, "spec": {}})
    stage.cluster.change("pods", "home", "operator-1", lambda obj: obj["status"].update(containerStatuses=[container]))


def selected(**spec):
    """The operator with a selector of its pods."""
    found = deployment()
    found["spec"] = {**found["spec"], "selector": {"matchLabels": {"app": "operator"}}, **spec}
    return found


def test_an_image_that_cannot_be_pulled(stage):
    stage.deploys = False
    stage.cluster.add("namespaces", {"metadata": {"name": "home"}})
    sick_pod(stage, state={"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}})
    event = {
        "metadata": {"name": "e", "namespace": "home"},
        "type": "Warning",
        "reason": "Failed",
        "message": "pull: 404",
    }
    stage.cluster.add("events", {**event, "involvedObject": {"kind": "Pod", "name": "operator-1"}})
    result, step = failed(stage, with_objects(selected()))
    assert (step["step"], step["object"]) == ("workloads", "Deployment home/operator")
    assert "pod operator-1: ImagePullBackOff: no such image" in step["reason"]
    assert "Event Failed: pull: 404" in step["reason"]
    assert result["changed"]


def test_a_workload_without_pods(stage):
    none = selected(replicas=0)
    _result, step = failed(stage, with_objects(none))
    assert (step["step"], step["reason"]) == ("workloads", "0 pods are desired")
    # What the operator acts on waits for it.
    assert stage.cluster.all("widgets") == []


@pytest.mark.parametrize(
    ("ca", "reason"),
    [
        ("", "its caBundle is empty"),
        ("bm90IG9uZQ==", "its caBundle holds no certificate"),
        (bundle(2020, 2022), "the certificates in its caBundle are expired"),
    ],
)
def test_certificates_that_nobody_can_be_verified_with(stage, ca, reason):
    _result, step = failed(stage, with_objects(hooks(ca=ca)))
    assert (step["step"], step["object"]) == ("webhooks", "ValidatingWebhookConfiguration widgets-hook")
    assert step["reason"] == f"w.example.com: {reason}"


def test_a_webhook_whose_service_has_no_endpoint(stage):
    objects = [obj for obj in BASE["definition"] if obj["kind"] != "Service"]
    _result, step = failed(stage, changed(BASE, definition=objects))
    assert step["reason"] == "w.example.com: Service home/hook has no endpoint that is ready"


def test_a_webhook_that_the_operator_made_by_itself_is_judged_too(stage):
    stage.cluster.add("validatingwebhookconfigurations", hooks("self-made", ca=""))
    _result, step = failed(stage, BASE)
    assert step["object"] == "ValidatingWebhookConfiguration self-made"


def test_a_condition_that_is_not_met(stage):
    component = changed(BASE, condition=CONDITION)
    _result, step = failed(stage, component)
    assert (step["step"], step["reason"]) == ("condition", "it has no condition Ready")
    conditions = [{"type": "Ready", "status": "False", "message": "no disk"}]
    stage.cluster.change("widgets", "home", "one", lambda obj: obj.update(status={"conditions": conditions}))
    _result, step = failed(stage, component)
    assert (step["object"], step["reason"]) == ("Widget home/one", "Ready is False: no disk")
    stage.cluster.change("widgets", "home", "one", lambda obj: obj["status"]["conditions"][0].update(status="True"))
    assert stage.course(component) == {"base": "unchanged"}


def test_nodes_that_show_nothing(stage):
    component = changed(BASE, nodes={"labels": ["gpu"], "resources": ["example.com/gpu"]})
    _result, step = failed(stage, component)
    assert step["reason"] == "there are no nodes"
    stage.cluster.add("nodes", {"metadata": {"name": "n", "labels": {"gpu": "a"}}})
    _result, step = failed(stage, component)
    assert (step["step"], step["reason"]) == ("nodes", "no node has the resource example.com/gpu")


def smoke_job():
    """A Job whose pods need room that no node has."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "i"}]}}
    metadata = {"name": "smoke", "namespace": "home"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"parallelism": 1, "completions": 1, "template": template},
    }


def test_a_smoke_test_that_does_not_pass_is_taken_away_and_tried_again(stage):
    component = changed(BASE, smoke={"definition": [smoke_job()]})
    _result, step = failed(stage, component)
    assert (step["step"], step["object"], step["reason"]) == ("smoke", "Job home/smoke", "it is not complete")
    assert stage.cluster.get("jobs", "home", "smoke") is None
    done = {"conditions": [{"type": "Complete", "status": "True"}]}

    def complete(change):
        """The Job is done as soon as it is there."""
        if change.plural == "jobs" and change.before is None:
            stage.cluster.clock.after(
                1.0, lambda: stage.cluster.change("jobs", "home", "smoke", lambda obj: obj.update(status=done))
            )

    stage.cluster.listeners.append(complete)
    assert stage.course(component) == {"base": "repaired"}
    assert stage.course(component) == {"base": "unchanged"}
    assert stage.cluster.get("jobs", "home", "smoke") is None
    assert "Job" not in {entry.key.kind for entry in stage.record("base").entries}


def test_an_operator_that_is_gone_does_not_hide_that_nothing_else_changed(stage):
    stage.course(BASE)
    stage.cluster.remove("deployments", "home", "operator")
    stage.cluster.clock.advance(2.0)
    foretold = stage.task(BASE, check_mode=True).as_result(diff=False)["components"][0]["plan"]
    assert foretold == {"created": 1, "changed": 0, "unchanged": 5, "pruned": 0}
    assert stage.course(BASE) == {"base": "repaired"}


def test_who_may_not_write_is_told_before_anything_is(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "home"}})
    stage.cluster.denials.append(Denial(".*", ("patch",), ("deployments",)))
    with pytest.raises(Exception, match="Cannot patch Deployment home/operator"):
        stage.task(changed(BASE, definition=[deployment(), namespace(), service()]), prune=False)
    assert stage.line.writes == []


def test_a_namespace_on_its_way_out_is_told_before_anything_is_written(stage):
    stage.cluster.add("namespaces", {"metadata": {"name": "home", "labels": {"muster.kube/component": "base"}}})
    stage.cluster.remove("namespaces", "", "home")
    with pytest.raises(Exception, match="it is being deleted; run again when it is gone"):
        stage.task(BASE)
    assert stage.line.writes == []


def test_components_that_need_one_that_failed_are_not_begun(stage):
    stage.deploys = False
    needy = {"name": "needy", "depends_on": ["base"], "definition": [config_map("n", "team")]}
    alone = {"name": "alone", "definition": [config_map("a", "team")]}
    result = stage.task(BASE, needy, alone, wait_timeout=PATIENCE).as_result(diff=False)
    told = {item["name"]: item for item in result["components"]}
    assert told["needy"]["msg"] == "Cannot install component needy: component base, which it needs, failed"
    assert stage.cluster.get("configmaps", "team", "n") is None
    assert stage.cluster.get("configmaps", "team", "a") is not None
    assert "msg" not in told["alone"]
