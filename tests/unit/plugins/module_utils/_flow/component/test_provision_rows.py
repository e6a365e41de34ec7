# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a catalogue knows of a component: looked at before anything is written, on the ladder, and when it goes."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.preflight import PreflightRefusal
from ansible_collections.muster.kube.plugins.module_utils._model.component.component import read_component
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support.component_stage import config_map, deployment, widget
from ansible_collections.muster.kube.tests.support.memory_reviews import holder_of
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, StackStage, changed

LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader", "namespace": "team"}}


@pytest.fixture
def stage():
    found = StackStage()
    found.cluster.server_version = (1, 30)
    return found


def base(**row):
    """An operator with what a catalogue knows of it."""
    return changed(BASE, row=row)


def told_of(stage, *components, **options):
    return stage.task(*components, **options).as_result(diff=True)["components"][0]


def test_what_is_told_of_a_row_is_in_the_result(stage):
    told = told_of(stage, base(title="Widgets", proof="none", features=[], kubernetes=">=1.29"))
    assert told["row"] == {"title": "Widgets", "proof": "none"}
    assert "row" not in told_of(stage, BASE)


def test_a_server_out_of_range_is_refused_before_any_write_and_in_check_mode(stage):
    for check in (True, False):
        with pytest.raises(PreflightRefusal, match=r"base 1.0.0 needs Kubernetes >=1.31, the server has 1.30"):
            stage.task(base(kubernetes=">=1.31"), check_mode=check)
    assert stage.line.writes == []


def test_rights_that_are_missing_are_told_with_the_role_that_has_them(stage):
    groups = ["", "apps", "example.com", "apiextensions.k8s.io", "admissionregistration.k8s.io"]
    verbs = ["get", "list", "create", "patch", "update", "delete"]
    rule = {"apiGroups": groups, "resources": ["*"], "verbs": verbs}
    stage.cluster.reviewer = holder_of([{"kind": "ClusterRole", "rules": [rule]}])
    with pytest.raises(PreflightRefusal, match=r"rights are missing: create leases.coordination.k8s.io") as caught:
        stage.task(BASE)
    assert caught.value.as_result()["preflight"]["role"]
    assert stage.line.writes == []


def test_where_the_server_refuses_a_part_all_missing_rights_are_told(stage):
    stage.forbid("customresourcedefinitions", verbs=("patch",))
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create", "update", "delete"]}
    stage.cluster.reviewer = holder_of([{"kind": "ClusterRole", "rules": [rule]}])
    with pytest.raises(PreflightRefusal, match=r"rights are missing: patch .*deployments") as caught:
        stage.task(BASE)
    assert "patch deployments.apps operator in home" in str(caught.value.as_result()["preflight"]["missing"])
    stage.cluster.reviewer = lambda _user, _asked: True
    with pytest.raises(MusterError, match="is forbidden"):
        stage.task(BASE)


def test_where_nothing_is_to_be_written_nothing_is_looked_at(stage):
    stage.course(BASE)
    stage.line.sent.clear()
    stage.course(base(kubernetes=">=1.31"))
    assert [path for _method, path, _dry in stage.line.sent if "reviews" in path] == []


def test_what_is_expected_is_waited_for_whoever_makes_it(stage):
    expects = {
        "definitions": ["widgets.example.com"],
        "workloads": ["Deployment team/made-by-itself"],
        "webhooks": ["ValidatingWebhookConfiguration widgets-hook"],
    }
    made = deployment("made-by-itself")
    made["metadata"]["namespace"] = "team"
    stage.cluster.clock.after(4.0, lambda: stage.cluster.add("deployments", made))
    told = told_of(stage, base(expects=expects))
    assert {step["step"]: step["outcome"] for step in told["ladder"]}["workloads"] == "passed"
    assert stage.cluster.get("deployments", "team", "made-by-itself") is not None


def test_what_is_expected_and_does_not_come_is_named(stage):
    task = stage.task(base(expects={"workloads": ["Deployment team/nobody"]}), wait_timeout=5)
    told = task.as_result(diff=True)
    assert told["failed"]
    failed = next(step for step in told["components"][0]["ladder"] if step["outcome"] == "failed")
    assert (failed["step"], failed["object"]) == ("workloads", "Deployment team/nobody")


def test_a_value_of_a_field_tells_that_it_works(stage):
    wanted = {"api_version": "example.com/v1", "kind": "Widget", "name": "one", "namespace": "home"}
    condition = {**wanted, "path": "status.phase", "value": "Ready"}

    def work(change):
        """The operator says how far it is."""
        if change.plural == "widgets" and change.before is None and not change.gone:
            status = {"phase": "Ready"}
            stage.cluster.clock.after(3.0, lambda: stage.cluster.change("widgets", "home", "one", _with(status)))

    stage.cluster.listeners.append(work)
    told = told_of(stage, changed(BASE, condition=condition))
    assert {step["step"]: step["outcome"] for step in told["ladder"]}["condition"] == "passed"
    late = stage.task(changed(BASE, condition={**condition, "value": "Gone"}), wait_timeout=1).as_result(diff=True)
    assert "status.phase is Ready and not Gone" in late["msg"]


def _with(status):
    return lambda obj: obj.update(status=status)


def test_kinds_go_in_the_order_of_the_row_and_what_is_left_goes_last(stage):
    gone = []
    row = {"removal": {"first": ["Widget.example.com"], "leaves": ["Lease team/leader", "Secret team/never"]}}
    stage.course(base(**row))
    stage.cluster.add("leases", LEASE)
    stage.cluster.listeners.append(lambda change: gone.append(change.plural) if change.gone else None)
    stage.course({"name": "base", "row": row}, state="absent")
    assert stage.cluster.get("leases", "team", "leader") is None
    assert gone.index("widgets") < gone.index("deployments") < gone.index("leases")


def test_what_others_have_is_not_taken_away_by_its_name(stage):
    stage.cluster.add("leases", LEASE)
    row = {"removal": {"leaves": ["Lease team/leader"]}}
    assert stage.course({"name": "base", "row": row}, state="absent") == {"base": "unchanged"}
    assert stage.cluster.get("leases", "team", "leader") is not None


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"row": {"expects": {"workloads": ["Deployment"]}}}, "no kind with a name"),
        ({"row": {"removal": {"leaves": ["Lease a b"]}}}, "no kind with a name"),
        ({"condition": {"api_version": "v1", "kind": "K", "name": "k"}}, "give type, or path with value"),
    ],
)
def test_what_cannot_be_meant_is_refused(more, told):
    with pytest.raises(BadInput, match=told):
        read_component({"name": "c", "definition": [config_map("a"), widget()], **more}, needs_source=True)
