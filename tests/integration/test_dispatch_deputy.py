# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The deputy: whoever may only queue gangs gets nothing created that the namespace's own account may not create.

The dispatcher looks at all namespaces here, so these tests have a cluster of their own.
"""

from __future__ import annotations

import contextlib
import os
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create, delete, patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.tests.support.dispatch_stage import Stage, told
from ansible_collections.muster.kube.tests.support.gang_cases import app_wrapper, config_map, gang_record
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until
from ansible_collections.muster.kube.tests.support.shared_cluster import running_cluster
from ansible_collections.muster.kube.tests.support.wrapper_crd import CRD_PATH, install_wrapper_crd

Object = dict[str, t.Any]
Store = t.Literal["configmap", "appwrapper"]

STORES: tuple[Store, ...] = ("configmap", "appwrapper")
RBAC = "rbac.authorization.k8s.io/v1"
USER = "alice"
EVERY = ["create", "get", "list", "delete"]
SMALL_ROLE = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": EVERY},
    {"apiGroups": [""], "resources": ["pods", "configmaps", "services"], "verbs": EVERY},
]
SUBMIT_ROLE = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": ["workload.codeflare.dev"], "resources": ["appwrappers"], "verbs": ["create"]},
]


@pytest.fixture(scope="module")
def own_cluster() -> t.Iterator[LiveCluster]:
    """A small cluster with our AppWrappers."""
    with running_cluster(f"deputy-{os.getpid()}") as running:
        install_wrapper_crd(running.client)
        yield running


@pytest.fixture
def namespace(own_cluster: LiveCluster, request: pytest.FixtureRequest) -> t.Iterator[str]:
    """A namespace in that cluster."""
    letters = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())
    name = f"t{abs(hash(letters)) % 10**8}-{letters[5:40]}".strip("-")
    yield own_cluster.namespace(name)
    own_cluster.drop_namespace(name)


@pytest.fixture
def stage(own_cluster: LiveCluster, namespace: str) -> t.Iterator[Stage]:
    """A dispatcher over everything, a namespace with its account, and a user who may queue gangs there."""
    made = Stage(own_cluster, namespace)
    grant(own_cluster.client, namespace, "submit", SUBMIT_ROLE, {"kind": "User", "name": USER})
    made.add_nodes(1, cpu="8")
    yield made
    made.close()


@pytest.fixture
def account(own_cluster: LiveCluster, namespace: str) -> None:
    """The account of the namespace, which may do little."""
    metadata = {"name": "muster", "namespace": namespace}
    own_cluster.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
    subject = {"kind": "ServiceAccount", **metadata}
    grant(own_cluster.client, namespace, "muster", SMALL_ROLE, subject)


def grant(client: KubeClient, namespace: str, name: str, rules: list[Object], subject: Object) -> None:
    """A Role and who has it."""
    metadata = {"name": name, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    role = {"apiVersion": RBAC, "kind": "Role", "metadata": metadata, "rules": rules}
    if subject["kind"] == "User":
        subject = {**subject, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": metadata,
        "roleRef": reference,
        "subjects": [subject],
    }
    create(client, resource_path(RBAC, "roles", namespace), role)
    create(client, resource_path(RBAC, "rolebindings", namespace), binding)


def submit(stage: Stage, store: Store, *objects: Object) -> Record:
    """Queue a gang as the user, who may do nothing else."""
    user = stage.client.acting_as(USER, ("system:authenticated",))
    if store == "configmap":
        raw = gang_record("gang", stage.namespace, objects)
        path = resource_path("v1", "configmaps", stage.namespace)
    else:
        raw = app_wrapper("gang", stage.namespace, objects, managed=False)
        path = resource_path("workload.codeflare.dev/v1beta1", "appwrappers", stage.namespace)
    # Rights take a moment to be known.
    made = wait_until("the user's rights", lambda: _try_to_create(user, path, raw))
    return record_from_api(made)


def _try_to_create(user: KubeClient, path: str, raw: Object) -> Object | None:
    """The created object, None while the server refuses."""
    with contextlib.suppress(Forbidden):
        return create(user, path, raw)
    return None


def run(stage: Stage, **terms: t.Any) -> t.Any:
    """One cycle over all namespaces."""
    return stage.run(namespaces=None, **terms)


def key(stage: Stage) -> str:
    """The gang in decisions; those of other tests may not be gone yet."""
    return f"{stage.namespace}/gang"


def nothing_was_made(stage: Stage, obj: Object) -> bool:
    """Whether neither the object nor any pod nor any ticket is there."""
    placed = {**obj, "metadata": {"namespace": stage.namespace, **obj["metadata"]}}
    found = get_object(stage.client, stage.cluster.path(placed))
    return found is None and not stage.pods() and not stage.tickets()


def refused_object(case: str, stage: Stage) -> Object:
    """An object that must not come to be."""
    if case == "role binding":
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}
        subject = {"kind": "User", "name": USER, "apiGroup": "rbac.authorization.k8s.io"}
        metadata = {"name": "gift"}
        return {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        }
    if case == "other namespace":
        made = config_map("stray")
        made["metadata"]["namespace"] = "kube-system"
        return made
    template = stage.job("unused")["spec"]["template"]
    template["metadata"]["labels"] = {"app": "web"}
    template["spec"].pop("restartPolicy")
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def of_that_name(stage: Stage, obj: Object) -> list[str]:
    """The namespaces that hold an object of the same kind and name."""
    path = resource_path(obj["apiVersion"], f"{obj['kind'].lower()}s")
    found = [item["metadata"] for item in list_objects(stage.client, path, keep=lambda raw: raw).items]
    return [item["namespace"] for item in found if item["name"] == obj["metadata"]["name"]]


WORDS = {
    "role binding": ("RoleBinding", "grant rights"),
    "other namespace": ("ConfigMap", "kube-system"),
    "other kind": ("cannot create", "deployments", "muster"),
}


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("case", sorted(WORDS))
def test_refused(stage: Stage, case: str, store: Store) -> None:
    obj = refused_object(case, stage)
    submit(stage, store, config_map("innocent"), obj)
    decision = told(run(stage), key(stage))
    assert (decision.action, decision.phase) == ("fail", "failed")
    assert [word for word in WORDS[case] if word not in decision.message] == [], decision.message
    assert nothing_was_made(stage, obj)
    assert of_that_name(stage, obj) == []
    assert nothing_was_made(stage, config_map("innocent"))
    assert key(stage) not in [item.gang for item in run(stage).decisions]


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("store", STORES)
def test_allowed_as_the_account_of_the_namespace(stage: Stage, store: Store) -> None:
    submit(stage, store, stage.job("work"))
    assert told(run(stage), key(stage)).action == "start"
    wait_until("the pod", stage.pods)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("store", STORES)
def test_a_pod_that_pod_security_refuses(stage: Stage, store: Store) -> None:
    enforce_pod_security(stage)
    template = stage.job("unused")["spec"]["template"]
    bare = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bare"}, "spec": template["spec"]}
    submit(stage, store, bare)
    decision = told(run(stage), key(stage))
    assert decision.phase == "failed"
    assert [word for word in ("create", "pods", "PodSecurity") if word not in decision.message] == []
    assert nothing_was_made(stage, bare)


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize("store", STORES)
def test_a_job_whose_pods_pod_security_refuses(stage: Stage, store: Store) -> None:
    enforce_pod_security(stage)
    submit(stage, store, stage.job("work"))
    assert told(run(stage), key(stage)).action == "start"
    stage.run_until({"gang": "queued"}, namespaces=None, start_timeout=0.0)
    wait_until("the Job to go", lambda: nothing_was_made(stage, stage.job("work")))
    undone = next(item for item in stage.state("gang").transitions if item.phase == "undoing")
    assert undone.reason == "LostRace"
    assert "0 of 1 pods" in undone.message
    assert 'Error creating: pods "' in undone.message
    assert "violates PodSecurity" in undone.message


def enforce_pod_security(stage: Stage) -> None:
    """Have the namespace refuse all but the most harmless pods."""
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    path = resource_path("v1", "namespaces", name=stage.namespace)
    patch(stage.client, path, {"metadata": {"labels": label}}, patch_type="merge")


@pytest.mark.parametrize("store", STORES)
def test_without_the_account_a_gang_waits(stage: Stage, store: Store) -> None:
    submit(stage, store, stage.job("work"))
    decision = told(run(stage), key(stage))
    assert (decision.action, decision.reason) == ("wait", "no_identity")
    assert f"{stage.namespace} has no ServiceAccount muster" in decision.message
    assert nothing_was_made(stage, stage.job("work"))


@pytest.mark.usefixtures("account")
def test_an_account_that_lost_its_rights_cannot_keep_a_gang_alive(stage: Stage) -> None:
    submit(stage, "configmap", stage.job("work"))
    run(stage)
    delete(stage.client, resource_path(RBAC, "rolebindings", stage.namespace, "muster"))
    raw = stage.record("gang").raw
    stage.edit("gang", suspended=True)
    stage.run_until({"gang": "suspended"}, namespaces=None)
    assert stage.find(stage.job("work")) is None
    assert stage.record("gang").uid == raw["metadata"]["uid"]


@pytest.mark.usefixtures("account")
def test_a_live_mcad_keeps_its_wrappers(stage: Stage) -> None:
    record = submit(stage, "appwrapper", stage.job("work"))
    status = {"status": {"state": "Pending", "queuejobstate": "Queueing"}}
    path = f"{stage.cluster.path(record.raw)}/status"
    patch(stage.client, path, status, patch_type="merge", field_manager="mcad-controller")
    before = stage.record("gang").raw
    result = run(stage)
    decision = told(result, key(stage))
    assert (decision.action, decision.reason) == ("refuse", "ForeignController")
    assert "mcad-controller" in decision.message
    assert stage.record("gang").raw == before
    assert nothing_was_made(stage, stage.job("work"))
    # A run that goes on does not say it again and again.
    cycles: list[int] = []
    again = stage.run_for(lambda _phases: len(cycles) >= 2 or cycles.append(1), namespaces=None)
    assert again.cycles >= 3
    assert [item.action for item in again.decisions if item.gang == key(stage)] == ["refuse"]
    # Whoever knows better may say so.
    assert told(run(stage, adopt=True), key(stage)).action == "start"


@pytest.mark.usefixtures("account")
def test_a_foreign_definition_keeps_its_wrappers(stage: Stage) -> None:
    record = submit(stage, "appwrapper", stage.job("work"))
    mark = "muster.kube/managed"
    patch(stage.client, CRD_PATH, {"metadata": {"labels": {mark: None}}}, patch_type="merge")
    try:
        definition = get_object(stage.client, CRD_PATH)
        result = run(stage)
        assert key(stage) not in [item.gang for item in result.decisions]
        assert any("AppWrapper" in text and mark in text for text in result.warnings), result.warnings
        assert stage.record("gang").raw == record.raw
        assert get_object(stage.client, CRD_PATH) == definition
    finally:
        patch(stage.client, CRD_PATH, {"metadata": {"labels": {mark: "true"}}}, patch_type="merge")
    assert told(run(stage), key(stage)).action == "start"
