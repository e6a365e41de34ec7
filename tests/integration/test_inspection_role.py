# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role inspection for real: who is bound to it can inspect and do nothing else, and what it made goes again."""

from __future__ import annotations

import dataclasses
import platform
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.tests.support.api_proxy import ApiProxy, assert_no_writes
from ansible_collections.muster.kube.tests.support.play import Played, play_tasks
from ansible_collections.muster.kube.tests.support.real_cluster import ON_REAL_NODE, RealCluster
from ansible_collections.muster.kube.tests.support.role_course import Role, RoleCourse, changes, part_of, proxies_for

Object = dict[str, t.Any]
HOME, FOREIGN, MISSING = "role-lab", "role-foreign", "role-missing"
# Administers FOREIGN, and has no other rights.
ADMINISTRATOR = "anna"
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


ROLE = Role("muster.kube.inspection", SETTINGS)


@dataclasses.dataclass(frozen=True)
class Installation:
    """What the play that installs everything gave."""

    played: Played
    proxies: dict[str, ApiProxy]


@pytest.fixture(scope="module")
def installation(real_cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[Installation]:
    """The role in check mode, for real, and again; both namespaces go in the end."""
    real_cluster.live.namespace(FOREIGN)
    directory = tmp_path_factory.mktemp("installation")
    course = RoleCourse(ROLE, real_cluster, directory)
    with proxies_for(real_cluster, directory, "check", "again") as proxies:
        course.apply("check", proxies["check"].kubeconfig, check=True)
        course.kubectl("namespaces_after_check", "get", "namespaces", "-o", "name")
        course.apply("install")
        course.apply("again", proxies["again"].kubeconfig)
        yield Installation(course.play(), proxies)
    for name in (HOME, FOREIGN):
        real_cluster.live.drop_namespace(name)


@pytest.fixture(scope="module")
def installed(real_cluster: RealCluster, installation: Installation) -> RealCluster:
    """The cluster after the role."""
    assert f"namespace/{FOREIGN}" in installation.played["namespaces_after_check"]["stdout_lines"]
    return real_cluster


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


def test_check_mode_writes_nothing(installation):
    assert installation.proxies["check"].requests
    assert_no_writes(installation.proxies["check"])
    assert f"namespace/{HOME}" not in installation.played["namespaces_after_check"]["stdout_lines"]


def test_a_second_run_writes_nothing(installation):
    assert installation.proxies["again"].requests
    assert_no_writes(installation.proxies["again"])
    assert changes(installation.played, "again") == 0


def make_administrator(cluster: RealCluster, user: str, namespace: str) -> None:
    """Let a user administer a namespace, as clusters do for their teams."""
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"}
    metadata = {"name": "administrators", "namespace": namespace}
    body = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": metadata}
    cluster.live.create({**body, "roleRef": role, "subjects": [subject]})


def one_team(name: str, *inspectors: str, **more: t.Any) -> Object:
    """Settings for one namespace."""
    people = [{"kind": "User", "name": person} for person in inspectors]
    return {"inspection_namespaces": [{"name": name, "inspectors": people}], **more}


@pytest.fixture(scope="module")
def divided(installed: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """The role run for another team by a cluster administrator, then by the administrator of that team's namespace."""
    make_administrator(installed, ADMINISTRATOR, FOREIGN)
    course = RoleCourse(ROLE, installed, tmp_path_factory.mktemp("divided"))
    course.apply("ben", **one_team(FOREIGN, "ben"))
    course.apply("nodes", **one_team(FOREIGN, "ben", inspection_cluster_rights="nodes"))
    nodes, nothing = {"inspection_cluster_rights": "nodes"}, {"inspection_cluster_rights": "none"}
    course.apply_in_vain("refused", user=ADMINISTRATOR, **one_team(FOREIGN, "eve", **nodes))
    course.apply_in_vain("missing", user=ADMINISTRATOR, **one_team(MISSING, "eve", **nothing))
    course.apply("eve", user=ADMINISTRATOR, **one_team(FOREIGN, "eve", **nothing))
    return course.play()


@pytest.mark.usefixtures("divided")
def test_a_run_for_one_team_leaves_the_rights_of_others_alone(installed):
    assert allowed(installed, "ina", "list", "pods", namespace="")
    assert allowed(installed, "ina", "create", "jobs", "batch")
    assert allowed(installed, "ben", "list", "nodes", namespace="")
    assert not allowed(installed, "ben", "list", "pods", namespace="")
    assert not allowed(installed, "ben", "create", "jobs", "batch")


@pytest.mark.usefixtures("divided")
def test_an_administrator_of_a_namespace_can_prepare_it(installed):
    assert allowed(installed, "eve", "create", "jobs", "batch", namespace=FOREIGN)
    assert not allowed(installed, "ben", "create", "jobs", "batch", namespace=FOREIGN)
    assert not allowed(installed, "eve", "list", "nodes", namespace="")


def test_what_a_cluster_administrator_has_to_do_is_told(divided):
    assert divided["refused"] == (
        "Only a cluster administrator can let inspectors read what is outside of their namespace "
        "(inspection_cluster_rights is nodes). Ask one to run this role, or set inspection_cluster_rights to none."
    )
    told = divided["missing"]
    assert told.startswith(f"The namespace {MISSING} cannot be read with these rights. Ask a cluster administrator to")
    assert told.endswith(
        f"kubectl create rolebinding administrators --clusterrole=admin --user=YOU --namespace={MISSING}"
    )


@pytest.mark.usefixtures("divided")
def test_everything_goes_but_a_namespace_with_records(installed, tmp_path):
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "kept", "labels": {"app.kubernetes.io/managed-by": "muster.kube"}},
    }
    create(installed.client, resource_path("v1", "configmaps", HOME), record)
    registry = {"inspection_registry": True, "inspection_registry_wait": 0, "inspection_cluster_rights": "none"}
    course = RoleCourse(ROLE, installed, tmp_path)
    course.apply("registry", **registry)
    course.kubectl("registries", "get", "deployments", "-n", "muster-registry", "-o", "name")
    course.kubectl("rights", "auth", "can-i", "list", "nodes", "--as", "ina", may_fail=True)
    course.apply("team", user=ADMINISTRATOR, **one_team(FOREIGN, inspection_state="absent"))
    marked = ("-l", "app.kubernetes.io/component=inspection", "-o", "name")
    course.kubectl("theirs", "get", "roles", "-n", FOREIGN, *marked)
    course.kubectl("ours", "get", "roles", "-n", HOME, *marked)
    course.apply("removal", inspection_state="absent")
    played = course.play()
    assert played["rights"]["stdout"] == "no"
    assert played["registries"]["stdout_lines"] == ["deployment.apps/registry"]
    assert f"Only what lies in {FOREIGN} was removed" in part_of(played, "team")
    assert (played["theirs"]["stdout_lines"], len(played["ours"]["stdout_lines"])) == ([], 2)
    assert f"Namespace {HOME} stays" in part_of(played, "removal")
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
