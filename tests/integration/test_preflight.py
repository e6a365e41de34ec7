# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Preflight before a real API server: with the role that it tells an operator can be installed, with less it cannot."""

from __future__ import annotations

import contextlib
import itertools
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.component.options import ComponentOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.component.preflight import (
    PlannedComponent,
    Preflight,
    preflight,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.component.run import run_component
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import SeveralRefusals
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]
RBAC = "rbac.authorization.k8s.io"
USER = "provisioner"
NUMBERS = itertools.count()


def rbac(kind: str, name: str, namespace: str = "", **more: t.Any) -> Object:
    """An object of rights."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": f"{RBAC}/v1", "kind": kind, "metadata": metadata, **more}


def binding(kind: str, role_kind: str, role: str, subject: Object, namespace: str = "") -> Object:
    """The gift of a role."""
    reference = {"apiGroup": RBAC, "kind": role_kind, "name": role}
    return rbac(kind, f"preflight-{role}", namespace, roleRef=reference, subjects=[subject])


def crd(group: str) -> Object:
    """The definition of a kind."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"kind": "Gadget", "plural": "gadgets", "singular": "gadget"}
    versions = [{"name": "v1", "served": True, "storage": True, "schema": schema}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": versions},
    }


def operator(home: str) -> list[Object]:
    """All that an operator consists of, in a namespace; its kind is known by that too."""
    group = f"{home}.example"
    account = {"kind": "ServiceAccount", "name": "gadgets", "namespace": home}
    return [
        crd(group),
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gadgets", "namespace": home}},
        rbac(
            "ClusterRole",
            "preflight-gadgets",
            rules=[
                {"apiGroups": [group], "resources": ["gadgets", "gadgets/status"], "verbs": ["get", "list", "update"]},
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
            ],
        ),
        binding("ClusterRoleBinding", "ClusterRole", "preflight-gadgets", account),
        rbac(
            "Role",
            "leader",
            home,
            rules=[
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "resourceNames": ["x"],
                    "verbs": ["patch"],
                }
            ],
        ),
        binding("RoleBinding", "Role", "leader", account, home),
        # One that the server brings, with many rules.
        binding("RoleBinding", "ClusterRole", "view", account, home),
        {
            "apiVersion": f"{group}/v1",
            "kind": "Gadget",
            "metadata": {"name": "one", "namespace": home},
            "spec": {"size": 1},
        },
    ]


MINE = {"apiGroup": RBAC, "kind": "User", "name": USER}


class Provisioner:
    """Somebody who has the roles that they are given, and nothing else."""

    def __init__(self, cluster: LiveCluster) -> None:
        """Without any role, and a namespace for the operator."""
        self.home = cluster.namespace(f"preflight-{next(NUMBERS)}")
        self.group = f"{self.home}.example"
        self.objects = operator(self.home)
        self._admin = cluster.client
        self.client: KubeClient = cluster.client.acting_as(USER, ("system:authenticated",))
        self._given: list[str] = []

    def look(self) -> Preflight:
        """A preflight of the operator."""
        return preflight(self.client, [PlannedComponent("gadgets", self.objects, kubernetes=">=1.29")], self.home)

    def give(self, *roles: Object) -> None:
        """Have these roles from now on; those of the same name are replaced."""
        for role in roles:
            namespace = role["metadata"].get("namespace", "")
            given = binding(f"{role['kind']}Binding", role["kind"], role["metadata"]["name"], MINE, namespace)
            for obj in (role, given):
                self._put(obj)

    def _put(self, obj: Object) -> None:
        """Make an object, or give it the rules that it should have."""
        plural = f"{obj['kind'].lower()}s"
        place = resource_path(obj["apiVersion"], plural, obj["metadata"].get("namespace"))
        path = f"{place}/{obj['metadata']['name']}"
        if get_object(self._admin, path) is None:
            create(self._admin, place, obj)
            self._given.append(path)
        elif "rules" in obj:
            patch(self._admin, path, {"rules": obj["rules"]})

    def leave(self) -> None:
        """Give everything back."""
        for path in self._given:
            with contextlib.suppress(NotFound):
                delete(self._admin, path)


@pytest.fixture
def provisioner(cluster: LiveCluster) -> t.Iterator[Provisioner]:
    """Somebody without rights; all that they made is gone afterwards."""
    somebody = Provisioner(cluster)
    yield somebody
    somebody.leave()
    for group_version, plural, name in (
        ("apiextensions.k8s.io/v1", "customresourcedefinitions", f"gadgets.{somebody.group}"),
        (f"{RBAC}/v1", "clusterroles", "preflight-gadgets"),
        (f"{RBAC}/v1", "clusterrolebindings", "preflight-preflight-gadgets"),
    ):
        with contextlib.suppress(NotFound):
            delete(cluster.client, resource_path(group_version, plural, name=name))
    cluster.drop_namespace(somebody.home)


def install(somebody: Provisioner) -> dict[str, str]:
    """Install the operator as somebody; what became of each object.

    The server cannot pretend to bind a role that is not there yet, except for those who may bind any: roles come first.
    """
    roles = [obj for obj in somebody.objects if not obj["kind"].endswith("Binding")]
    first = _applied(somebody, roles)
    return {**_applied(somebody, somebody.objects), **first}


def _applied(somebody: Provisioner, objects: list[Object]) -> dict[str, str]:
    """What became of some objects."""
    options = ComponentOptions(name="gadgets", state="present", definition=objects, prune=False, wait=False)
    result = run_component(lambda: somebody.client, options, lambda _text: None).as_result(diff=False)
    return {f"{item['kind']} {item['name']}": item["action"] for item in result["objects"]}


def test_with_the_role_that_preflight_tells_an_operator_is_installed(cluster, provisioner):
    nothing = provisioner.look()
    assert nothing.missing
    with pytest.raises((SeveralRefusals, Forbidden)):
        install(provisioner)
    provisioner.give(*nothing.role)
    wait_until("the rights to be known", lambda: provisioner.look().problem is None)
    assert set(install(provisioner).values()) == {"created"}
    assert set(install(provisioner).values()) == {"unchanged"}
    assert (
        get_object(cluster.client, resource_path(f"{provisioner.group}/v1", "gadgets", provisioner.home, "one"))
        is not None
    )


def test_with_each_rule_of_it_left_out_preflight_names_what_is_missing(provisioner):
    role = provisioner.look().role
    provisioner.give(*role)
    wait_until("the rights to be known", lambda: provisioner.look().problem is None)
    looked = 0
    for part in role:
        for rule in part["rules"]:
            fewer = [other for other in part["rules"] if other is not rule]
            provisioner.give({**part, "rules": fewer})
            missing = wait_until("a right to be missing", lambda: provisioner.look().missing)
            assert {right.verb for right, _user in missing} <= set(rule["verbs"]), rule
            looked += 1
        provisioner.give(part)
        wait_until("the rights to be back", lambda: provisioner.look().problem is None)
    assert looked > 10


def test_leave_to_escalate_and_to_bind_is_enough_for_rights_that_one_lacks(provisioner):
    leave = {"apiGroups": [RBAC], "resources": ["clusterroles", "roles"], "verbs": ["escalate", "bind"]}
    direct = [
        {"apiGroups": [group], "resources": [plural], "verbs": ["create", "get", "patch", "list", "update", "delete"]}
        for group, plural in (
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("", "serviceaccounts"),
            ("", "configmaps"),
            ("", "namespaces"),
            ("coordination.k8s.io", "leases"),
            (RBAC, "*"),
            (provisioner.group, "gadgets"),
        )
    ]
    provisioner.give(rbac("ClusterRole", "preflight-leave", rules=[leave, *direct]))
    wait_until("the rights to be known", lambda: provisioner.look().problem is None)
    assert set(install(provisioner).values()) == {"created"}
