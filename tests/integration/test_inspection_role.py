# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role inspection for real: who is bound to it can inspect and do nothing else, and what it made goes again."""

from __future__ import annotations

import platform
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster

Object = dict[str, t.Any]
HOME, FOREIGN = "role-lab", "role-foreign"
RBAC = "rbac.authorization.k8s.io"
SETTINGS: Object = {
    "inspection_namespaces": [
        {
            "name": HOME,
            "inspectors": [{"kind": "User", "name": "ina"}],
            "viewers": [{"kind": "Group", "name": "onlookers"}],
        },
        {"name": FOREIGN},
    ],
    "inspection_cluster_rights": "room",
}


def run_role(directory: t.Any, kubeconfig: t.Any, *runs: Object, after: t.Mapping[str, Object] | None = None) -> Played:
    """Apply the role as often as settings are given, then some tasks, in one play."""
    tasks: dict[str, Object] = {}
    for number, settings in enumerate(runs):
        variables = {"inspection_kubeconfig": str(kubeconfig), **SETTINGS, **settings}
        role = {"name": "muster.kube.inspection", "apply": {"check_mode": variables.pop("check", False)}}
        tasks[f"role_{number}"] = {"ansible.builtin.include_role": role, "vars": variables, "ignore_errors": False}
    return play_tasks(directory, {**tasks, **(after or {})})


def changes(played: Played) -> int:
    """How many tasks of the role said that they changed something; one more is that which keeps the answers."""
    return int(played.output.rpartition("changed=")[2].split()[0]) - 1


@pytest.fixture(scope="module")
def installed(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[RealCluster]:
    """The cluster after the role: first in check mode, then really; both namespaces go in the end."""
    real_cluster.live.namespace(FOREIGN)
    directory = tmp_path_factory.mktemp("installed")
    with ApiProxy(real_cluster.kubeconfig, directory) as proxy:
        run_role(directory, proxy.kubeconfig, {"check": True})
        assert_no_writes(proxy)
    assert get_object(real_cluster.client, resource_path("v1", "namespaces", name=HOME)) is None
    run_role(directory, real_cluster.kubeconfig, {})
    yield real_cluster
    for name in (HOME, FOREIGN):
        real_cluster.live.drop_namespace(name)


def allowed(cluster: RealCluster, user: str, verb: str, resource: str, group: str = "", **more: str) -> bool:
    """Whether the API server lets a user do it, in the role's namespace unless told otherwise."""
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": HOME, **more}
    spec: Object = {"user": user, "resourceAttributes": attributes}
    if user.startswith("system:serviceaccount:"):
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{HOME}", "system:authenticated"]
    elif user.startswith("group:"):
        spec = {**spec, "user": "somebody", "groups": [user.removeprefix("group:")]}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = create(cluster.client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_an_inspector_can_inspect_with_these_rights_alone(installed, tmp_path):
    auth = {"impersonate_user": "ina", "namespace": HOME}
    options = {
        **auth,
        "image": installed.busybox_image(),
        "identifier": "rights",
        "script": "echo fine",
        "service_account": "muster-run",
        "run": {
            "requests": {"cpu": "100m", "memory": "64Mi"},
            "hardware": {"arch": platform.machine(), "node_selector": ON_REAL_NODE},
        },
    }
    with ApiProxy(installed.kubeconfig, tmp_path) as proxy:
        connection = {"kubeconfig": str(proxy.kubeconfig)}
        played = play_tasks(
            tmp_path,
            {
                "first": {"muster.kube.inspection": {**options, **connection}},
                "again": {"muster.kube.inspection": {**options, **connection}},
                "told": {"muster.kube.inspection_info": {**auth, **connection, "identifier": "rights"}},
                "removed": {
                    "muster.kube.inspection": {**auth, **connection, "identifier": "rights", "state": "absent"}
                },
            },
        )
        refused = {
            (request.method, request.path.partition("?")[0]) for request in proxy.requests if request.status == 403
        }
    assert [item["stdout"] for item in played["first"]["runs"]] == ["fine\n"]
    assert played["first"]["placement_verified"] is True
    assert (played["first"]["changed"], played["again"]["changed"]) == (True, False)
    assert len(played["told"]["inspections"]) == 1
    assert len(played["removed"]["removed"]) == 1
    assert refused == set()


def test_an_inspector_may_do_nothing_else(installed):
    for verb in ("create", "get", "list", "update", "delete"):
        assert allowed(installed, "ina", verb, "configmaps"), verb
        assert not allowed(installed, "ina", verb, "configmaps", namespace=FOREIGN), verb
        assert not allowed(installed, "ina", verb, "secrets"), verb
        assert not allowed(installed, "ina", verb, "rolebindings", RBAC), verb
    for resource in ("pods", "serviceaccounts", "deployments"):
        assert not allowed(installed, "ina", "create", resource, "apps" if resource == "deployments" else ""), resource
    assert not allowed(installed, "ina", "create", "pods", subresource="exec")
    assert not allowed(installed, "ina", "update", "jobs", "batch")
    assert allowed(installed, "ina", "get", "pods", subresource="log")
    assert allowed(installed, "ina", "list", "nodes", namespace="")
    assert not allowed(installed, "ina", "patch", "nodes", namespace="")
    assert not allowed(installed, "ina", "get", "pods", namespace=FOREIGN)
    assert not allowed(installed, "ina", "get", "pods", namespace=FOREIGN, subresource="log")


def test_a_viewer_may_only_look(installed):
    for group, resource in (("", "configmaps"), ("", "pods"), ("batch", "jobs")):
        assert allowed(installed, "group:onlookers", "get", resource, group)
        assert not allowed(installed, "group:onlookers", "create", resource, group)
    assert allowed(installed, "group:onlookers", "get", "pods", subresource="log")
    assert not allowed(installed, "group:onlookers", "get", "secrets")


@pytest.mark.parametrize("account", ["muster-build", "muster-run"])
def test_pods_have_no_rights_and_no_token(installed, account):
    user = f"system:serviceaccount:{HOME}:{account}"
    for verb, resource in (("get", "configmaps"), ("list", "pods"), ("get", "secrets"), ("list", "nodes")):
        assert not allowed(installed, user, verb, resource), resource
    found = get_object(installed.client, resource_path("v1", "serviceaccounts", HOME, account))
    assert found is not None
    assert found["automountServiceAccountToken"] is False


def test_namespaces_are_made_with_a_level_and_those_of_others_left_alone(installed):
    home, foreign = (
        get_object(installed.client, resource_path("v1", "namespaces", name=name))["metadata"]["labels"]
        for name in (HOME, FOREIGN)
    )
    assert home["pod-security.kubernetes.io/enforce"] == "baseline"
    assert not any(label.startswith(("muster.kube/", "pod-security")) for label in foreign)


def test_a_second_run_writes_nothing(installed, tmp_path):
    with ApiProxy(installed.kubeconfig, tmp_path) as proxy:
        played = run_role(tmp_path, proxy.kubeconfig, {})
        assert proxy.requests
        assert_no_writes(proxy)
    assert changes(played) == 0


def test_everything_goes_but_a_namespace_with_records(installed, tmp_path):
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kept", "labels": {"app.kubernetes.io/managed-by": "muster.kube"}},
    }
    create(installed.client, resource_path("v1", "configmaps", HOME), record)
    registry = {"inspection_registry": True, "inspection_registry_wait": 0, "inspection_cluster_rights": "none"}
    run_role(tmp_path, installed.kubeconfig, registry)
    assert not allowed(installed, "ina", "list", "nodes", namespace="")
    assert get_object(installed.client, resource_path("apps/v1", "deployments", "muster-registry", "registry"))
    played = run_role(tmp_path, installed.kubeconfig, {"inspection_state": "absent"})
    assert f"Namespace {HOME} stays" in played.output
    left = [
        (api, plural)
        for api, plural in (
            ("apps/v1", "deployments"),
            ("v1", "services"),
            ("v1", "persistentvolumeclaims"),
            ("v1", "serviceaccounts"),
            (f"{RBAC}/v1", "roles"),
            (f"{RBAC}/v1", "rolebindings"),
            (f"{RBAC}/v1", "clusterroles"),
            (f"{RBAC}/v1", "clusterrolebindings"),
        )
        if list_objects(
            installed.client,
            resource_path(api, plural),
            keep=lambda raw: raw["metadata"]["name"],
            label_selector="app.kubernetes.io/component=inspection",
        ).items
    ]
    assert left == []
    names = list_objects(installed.client, resource_path("v1", "namespaces"), keep=lambda raw: raw["metadata"]["name"])
    assert {HOME, FOREIGN} <= set(names.items)
    assert "muster-registry" not in names.items
