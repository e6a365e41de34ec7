# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight before an API server in memory."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.preflight import (
    PlannedComponent,
    Preflight,
    preflight,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.tests.support.component_stage import (
    config_map,
    deployment,
    namespace,
    widget,
    widget_crd,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Denial, Kind, MemoryCluster
from ansible_collections.muster.kube.tests.support.memory_reviews import holder_of
from ansible_collections.muster.kube.tests.support.memory_wire import Line

Object = dict[str, t.Any]
RBAC = "rbac.authorization.k8s.io"
RECORDS = "muster-system"
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def rbac(kind: str, name: str, home: str = "", **more: t.Any) -> Object:
    metadata = {"name": name, **({"namespace": home} if home else {})}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **more}


def bound(kind: str, role: str, home: str = "") -> Object:
    return rbac(kind, f"bind-{role}", home, roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": role})


def hooks(name: str, resource: str = "widgets", **more: t.Any) -> Object:
    rules = [{"apiGroups": ["example.com"], "resources": [resource], "operations": ["CREATE"]}]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{"name": f"m.{name}.example.com", "rules": rules, **more}],
    }


OPERATOR = (
    widget_crd(),
    namespace(),
    rbac("ClusterRole", "operator", rules=[PODS, {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]),
    bound("ClusterRoleBinding", "operator"),
    rbac("Role", "leader", "home", rules=[{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}]),
    bound("RoleBinding", "view", "team"),
    deployment(),
    config_map("settings"),
    widget(),
)


class Stage:
    """A cluster, and preflights in it."""

    def __init__(self) -> None:
        """A cluster with a role of its own, and its version."""
        self.cluster = MemoryCluster()
        self.cluster.server_version = (1, 33)
        self.cluster.serve(Kind(f"{RBAC}/v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False))
        self.cluster.serve(Kind(f"{RBAC}/v1", "RoleBinding", "rolebindings"))
        self.cluster.add("namespaces", {"metadata": {"name": "team"}})
        self.cluster.add("clusterroles", rbac("ClusterRole", "view", rules=[PODS]))
        self.line = Line(self.cluster)
        self.client: KubeClient = self.line.client()

    def look(self, *objects: Object, **more: t.Any) -> Preflight:
        """One preflight of one component."""
        return preflight(self.client, [PlannedComponent("widgets", objects, **more)], RECORDS)

    def give(self, *roles: Object) -> None:
        """Have the server answer as if somebody had only these roles."""
        self.cluster.reviewer = holder_of(roles)


@pytest.fixture
def stage() -> Stage:
    return Stage()


def rights(found: Preflight) -> list[str]:
    return [str(right) for right, _user in found.missing]


def test_who_may_do_everything_is_asked_two_questions(stage: Stage) -> None:
    found = stage.look(*OPERATOR)
    assert (found.missing, found.problem, found.outside, found.conflicts) == ((), None, (), ())
    assert len([path for _method, path, _dry in stage.line.sent if path.endswith("selfsubjectaccessreviews")]) == 2


def test_nothing_is_ever_written(stage: Stage) -> None:
    stage.give()
    before = stage.cluster.version
    stage.look(*OPERATOR)
    assert (stage.client.writes, stage.client.dry_runs, stage.cluster.version) == (0, 0, before)


def test_who_may_do_nothing_is_told_everything(stage: Stage) -> None:
    stage.give()
    found = stage.look(*OPERATOR)
    assert {
        "create customresourcedefinitions.apiextensions.k8s.io",
        "create widgets.example.com in home",
        "patch widgets.example.com one in home",
        "get pods",
        "get /metrics",
        "create events in home",
        "list pods in team",
        "create configmaps in muster-system",
        "update leases.coordination.k8s.io in muster-system",
    } <= set(rights(found))
    problem = found.problem
    assert problem is not None
    assert "rights are missing: " in str(problem)
    assert problem.as_result()["preflight"]["missing"] == [
        {"right": str(right), "object": user} for right, user in found.missing
    ]


def test_the_role_that_is_told_is_enough(stage: Stage) -> None:
    stage.give()
    role = stage.look(*OPERATOR).role
    assert [(item["kind"], item["metadata"].get("namespace")) for item in role] == [
        ("ClusterRole", None),
        ("Role", "team"),
    ]
    stage.give(*role)
    assert stage.look(*OPERATOR).problem is None


def test_with_each_rule_of_it_left_out_a_right_is_missing(stage: Stage) -> None:
    stage.give()
    role = stage.look(*OPERATOR).role
    tried = 0
    for part in role:
        for rule in part["rules"]:
            fewer = [{**item, "rules": [other for other in item["rules"] if other is not rule]} for item in role]
            stage.give(*fewer)
            found = stage.look(*OPERATOR)
            assert found.missing, rule
            assert {right.verb for right, _user in found.missing} <= set(rule["verbs"]), rule
            tried += 1
    assert tried > 10
    assert stage.client.writes == 0


def test_leave_to_escalate_and_to_bind_stands_for_the_rights_themselves(stage: Stage) -> None:
    stage.give()
    everything = stage.look(*OPERATOR)
    leave = {
        "apiGroups": [RBAC],
        "resources": ["clusterroles", "roles"],
        "verbs": ["escalate", "bind"],
    }
    stage.give(rbac("ClusterRole", "leave", rules=[leave]))
    found = stage.look(*OPERATOR)
    given = {"get pods", "list pods", "get /metrics", "create events in home", "get pods in team", "list pods in team"}
    assert set(rights(everything)) - set(rights(found)) == given


def test_a_role_that_may_not_be_read_takes_the_right_to_bind_it(stage: Stage) -> None:
    stage.give()
    stage.cluster.denials.append(Denial(".*", ("get",), ("clusterroles",)))
    found = stage.look(bound("RoleBinding", "view", "team"))
    assert f"bind clusterroles.{RBAC} view in team" in rights(found)
    assert found.unseen == ("ClusterRole view",)


def test_a_kind_of_a_definition_that_comes_from_elsewhere_is_guessed(stage: Stage) -> None:
    stage.give()
    strange = {"apiVersion": "other.example/v1", "kind": "Policy", "metadata": {"name": "p"}}
    assert "create policies.other.example" in rights(stage.look(strange))


def test_objects_without_a_namespace_lie_in_the_default_one(stage: Stage) -> None:
    stage.give()
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    assert "create configmaps in default" in rights(stage.look(plain))


@pytest.mark.parametrize(("bounds", "good"), [(">=1.29 <1.37", True), (">=1.34", False), ("<1.33", False), ("*", True)])
def test_a_server_outside_of_the_limits_is_refused(stage: Stage, bounds: str, good: bool) -> None:
    found = stage.look(config_map("a"), kubernetes=bounds, version="1.2.3")
    assert found.outside == (() if good else (f"widgets 1.2.3 needs Kubernetes {bounds}, the server has 1.33",))
    assert (found.problem is None) == good


def test_a_server_that_does_not_tell_its_version_is_not_judged_by_it(stage: Stage) -> None:
    stage.cluster.server_version = None
    assert stage.look(config_map("a"), kubernetes=">=1.99").problem is None


def test_webhooks_that_must_be_called_again_are_refused_if_they_are_not(stage: Stage) -> None:
    kaiwo = PlannedComponent("kaiwo", [config_map("a")])
    bad = PlannedComponent("kueue", [hooks("kueue")], reinvoke_beside=("kaiwo",))
    good = PlannedComponent("kueue", [hooks("kueue", reinvocationPolicy="IfNeeded")], reinvoke_beside=("kaiwo",))
    found = preflight(stage.client, [bad, kaiwo], RECORDS)
    assert "m.kueue.example.com of MutatingWebhookConfiguration kueue does not see what kaiwo changes" in str(
        found.problem
    )
    assert preflight(stage.client, [good, kaiwo], RECORDS).problem is None
    assert preflight(stage.client, [bad], RECORDS).problem is None


def test_webhooks_that_are_there_already_count_by_their_labels(stage: Stage) -> None:
    installed = hooks("kaiwo")
    installed["metadata"]["labels"] = {"muster.kube/component": "kaiwo"}
    stage.cluster.add("mutatingwebhookconfigurations", installed)
    bad = PlannedComponent("kueue", [hooks("kueue")], reinvoke_beside=("kaiwo",))
    assert preflight(stage.client, [bad], RECORDS).problem is not None


def test_webhooks_that_may_get_in_each_others_way_are_a_warning(stage: Stage) -> None:
    stage.cluster.add("mutatingwebhookconfigurations", hooks("zebra"))
    found = stage.look(hooks("widgets"))
    assert found.problem is None
    assert len(found.warnings) == 1
    assert "MutatingWebhookConfiguration zebra" in found.warnings[0]


def test_webhooks_that_may_not_be_listed_are_told(stage: Stage) -> None:
    stage.cluster.denials.append(Denial(".*", ("list",), ("mutatingwebhookconfigurations",)))
    assert stage.look(hooks("widgets")).unseen == ("mutatingwebhookconfigurations",)


def test_one_that_is_replaced_is_not_counted_twice(stage: Stage) -> None:
    stage.cluster.add("mutatingwebhookconfigurations", hooks("widgets"))
    assert stage.look(hooks("widgets")).warnings == ()
