# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Accounts with few rights, how to act as one, and what the server would let somebody do."""

from __future__ import annotations

import json
import pathlib
import typing as t

import yaml
from ansible_collections.muster.kube.plugins.module_utils._kube.client import connect
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]

RBAC = "rbac.authorization.k8s.io/v1"
READ = ["get", "list", "watch"]
ACCOUNT = "tenant"
# What a dispatcher of one namespace reads of the whole cluster: where there is room, and nothing of other records.
SIGHT = [
    {"apiGroups": [""], "resources": ["nodes", "pods", "namespaces"], "verbs": READ},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": READ},
    {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": READ},
    {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": READ},
]
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
LEASES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]


def tenant_kubeconfig(cluster: LiveCluster, namespace: str, lease_namespace: str, directory: pathlib.Path) -> str:
    """A kubeconfig of an account that may do everything in one namespace, and elsewhere only see nodes and pods."""
    meta = {"name": ACCOUNT, "namespace": namespace}
    cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta})
    subject = {"kind": "ServiceAccount", **meta}
    _bind(cluster, "Role", namespace, f"{namespace}-own", EVERYTHING, subject)
    _bind(cluster, "Role", lease_namespace, f"{namespace}-lease", LEASES, subject)
    _bind(cluster, "ClusterRole", None, f"{namespace}-sight", SIGHT, subject)
    place = account_kubeconfig(cluster, namespace, ACCOUNT, directory)
    client = connect({"kubeconfig": place})

    def known() -> bool:
        """Rights take a moment to be known."""
        try:
            list_objects(client, resource_path("v1", "nodes"), keep=lambda node: node)
            list_objects(client, resource_path("v1", "configmaps", namespace), keep=lambda obj: obj)
            list_objects(
                client, resource_path("coordination.k8s.io/v1", "leases", lease_namespace), keep=lambda obj: obj
            )
        except KubeError:
            return False
        return True

    wait_until(f"the rights of {namespace}/{ACCOUNT}", known)
    return place


def account_kubeconfig(cluster: LiveCluster, namespace: str, account: str, directory: pathlib.Path) -> str:
    """A kubeconfig of an account that exists."""
    path = resource_path("v1", "serviceaccounts", namespace, account, "token")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {}, "spec": {}}
    token = create(cluster.client, path, request)["status"]["token"]
    config = yaml.safe_load(pathlib.Path(cluster.kubeconfig).read_text(encoding="utf-8"))
    config["users"] = [{"name": entry["name"], "user": {"token": token}} for entry in config["users"]]
    place = directory / f"{namespace}.kubeconfig"
    place.write_text(json.dumps(config), encoding="utf-8")
    return str(place)


def may(cluster: LiveCluster, user: str, verb: str, resource: str, group: str = "", **more: str) -> bool:
    """Whether the API server lets a user, or somebody of a group (group:name), do it; more says where, and to what."""
    spec: Object = {"user": user, "resourceAttributes": {"verb": verb, "resource": resource, "group": group, **more}}
    if user.startswith("system:serviceaccount:"):
        namespace = user.split(":")[2]
        spec["groups"] = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    elif user.startswith("group:"):
        spec = {**spec, "user": "somebody", "groups": [user.removeprefix("group:")]}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = create(cluster.client, "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _bind(
    cluster: LiveCluster, kind: str, namespace: str | None, name: str, rules: list[Object], subject: Object
) -> None:
    """A role and who has it."""
    meta = {"name": name} if namespace is None else {"name": name, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    cluster.create({"apiVersion": RBAC, "kind": kind, "metadata": meta, "rules": rules})
    cluster.create(
        {
            "apiVersion": RBAC,
            "kind": f"{kind}Binding",
            "metadata": meta,
            "roleRef": reference,
            "subjects": [subject],
        }
    )
