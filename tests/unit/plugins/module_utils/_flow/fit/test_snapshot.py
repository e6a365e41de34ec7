# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a snapshot from a small API server."""

from __future__ import annotations

import dataclasses

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.snapshot import (
    MANY_NAMESPACES,
    needs_of,
    read_snapshot,
    require_namespace,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import NotFound
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import made_of
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.cluster_model import gang, job, node, pod
from ansible_collections.muster.kube.tests.support.small_api import SmallApi

HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POLICIES = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def cluster(**more):
    """A cluster with two nodes, two pods and the default namespace."""
    lists = {
        "/api/v1/nodes": [node("b", cpu="2"), node("a", cpu="1")],
        "/api/v1/pods": [pod("runs", on="a"), pod("done", on="a", phase="Succeeded")],
        "/api/v1/namespaces": [{"metadata": {"name": "default", "labels": {"kind": "ai"}}}],
        "/apis/scheduling.k8s.io/v1/priorityclasses": [
            {"metadata": {"name": "high"}, "value": 1000},
            {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True},
        ],
        HOOKS: [],
        "/api/v1/namespaces/default/resourcequotas": [{"metadata": {"name": "q"}}],
        "/api/v1/namespaces/default/limitranges": [{"metadata": {"name": "l"}}],
    }
    return {**lists, **more}


def read(lists, *wanted, forbidden=()):
    """The snapshot for these gangs, and the paths asked for."""
    api = SmallApi(lists, forbidden)
    with api.client() as client:
        reading = read_snapshot(client, needs_of(wanted or [gang(job("j", 1))]))
    assert {method for method, path in api.asked} == {"GET"}
    return reading, [path for method, path in api.asked]


def test_only_what_is_needed_is_read():
    reading, paths = read(cluster())
    snapshot = reading.snapshot
    assert [item.name for item in snapshot.nodes] == ["a", "b"]
    assert [item.name for item in snapshot.pods] == ["runs"]
    assert snapshot.namespaces == {"default": {"kind": "ai"}}
    assert (snapshot.priorities, snapshot.default_priority) == ({"high": 1000, "usual": 7}, 7)
    assert snapshot.default_priority_class == "usual"
    rules = snapshot.rules["default"]
    assert [item["metadata"]["name"] for item in (*rules.quotas, *rules.limit_ranges)] == ["q", "l"]
    assert (snapshot.nodes_visible, snapshot.notes, snapshot.unread, snapshot.webhooks) == (True, (), frozenset(), ())
    assert min(reading.seconds_listing, reading.seconds_decoding) >= 0
    assert not [path for path in paths if "volume" in path or "storage" in path or "runtimeclass" in path]


def test_claims_bring_volumes_classes_and_limits():
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    claim = {
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"volumeName": "pv", "storageClassName": "late"},
        "status": {"phase": "Bound"},
    }
    lists = cluster(
        **{
            "/api/v1/persistentvolumeclaims": [claim],
            "/api/v1/persistentvolumes": [{"metadata": {"name": "pv"}, "spec": {}}],
            "/apis/storage.k8s.io/v1/storageclasses": [
                {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"},
                {"metadata": {"name": "now"}, "volumeBindingMode": "Immediate"},
            ],
            "/apis/storage.k8s.io/v1/csinodes": [
                {"metadata": {"name": "a"}, "spec": {"drivers": [{"name": "d", "allocatable": {"count": 2}}]}}
            ],
        }
    )
    storage = read(lists, gang(job("j", 1, volumes=volumes)))[0].snapshot.storage
    assert storage.claims[("default", "data")].volume == "pv"
    assert (set(storage.volumes), storage.late_binding) == ({"pv"}, {"late"})
    assert storage.attach_limits == {"a": {"d": 2}}


def storage_class(name, created, **annotations):
    """A StorageClass."""
    meta = {"name": name, "creationTimestamp": f"2026-01-0{created}T00:00:00Z", "annotations": annotations or None}
    return {"metadata": meta, "volumeBindingMode": "Immediate"}


NEW, OLD = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"


@pytest.mark.parametrize(
    ("classes", "default"),
    [
        ([storage_class("a", 1), storage_class("b", 1, **{NEW: "false"})], None),
        ([storage_class("a", 1), storage_class("b", 1, **{OLD: "true"})], "b"),
        ([storage_class("a", 1, **{NEW: "true"}), storage_class("b", 2, **{NEW: "true"})], "b"),
        ([storage_class("b", 1, **{NEW: "true"}), storage_class("a", 1, **{NEW: "true"})], "a"),
    ],
)
def test_the_default_class_is_read_for_claims_that_are_made(classes, default):
    lists = cluster(**{"/apis/storage.k8s.io/v1/storageclasses": classes})
    for path in ("/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes", "/apis/storage.k8s.io/v1/csinodes"):
        lists[path] = []
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]
    reading, paths = read(lists, gang(job("j", 1, volumes=volumes)))
    assert reading.snapshot.storage.default_class == default
    assert not [path for path in paths if "volume" in path or "csinodes" in path]
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    reading, paths = read(lists, dataclasses.replace(gang(job("j", 1)), made=made_of([claim])))
    assert reading.snapshot.storage.default_class == default
    assert [path for path in paths if path.startswith("/api/v1/persistentvolumeclaims")]


def test_runtime_classes_are_read_when_one_is_named():
    lists = cluster(**{"/apis/node.k8s.io/v1/runtimeclasses": [{"metadata": {"name": "kata"}}]})
    snapshot = read(lists, gang(job("j", 1, runtimeClassName="kata")))[0].snapshot
    assert set(snapshot.runtime_classes) == {"kata"}


def test_kinds_the_server_does_not_serve_are_empty():
    lists = cluster()
    del lists[HOOKS]
    snapshot = read(lists)[0].snapshot
    assert (snapshot.webhooks, snapshot.unread) == ((), frozenset())


def test_a_server_without_the_core_kinds_is_no_cluster():
    lists = cluster()
    del lists["/api/v1/nodes"]
    with pytest.raises(NotFound):
        read(lists)


def test_forbidden_lists_are_noted():
    snapshot = read(cluster(), forbidden={HOOKS, "/api/v1/namespaces/default/limitranges"})[0].snapshot
    assert snapshot.unread == {"webhooks", "limitranges default"}
    assert snapshot.notes == ("this account may not list limitranges default", "this account may not list webhooks")
    assert snapshot.nodes_visible


@pytest.mark.parametrize("hidden", ["/api/v1/nodes", "/api/v1/pods"])
def test_without_nodes_or_pods_neither_is_used(hidden):
    snapshot = read(cluster(), forbidden={hidden})[0].snapshot
    assert (snapshot.nodes_visible, snapshot.nodes, snapshot.pods) == (False, (), ())
    assert snapshot.rules["default"].quotas


def test_a_namespace_that_does_not_exist_is_named():
    with SmallApi(cluster()).client() as client:
        require_namespace(client, "default")
        with pytest.raises(BadInput, match="namespace nowhere"):
            require_namespace(client, "nowhere")


def test_rules_of_many_namespaces_are_read_in_two_lists():
    spaces = [f"n{number}" for number in range(MANY_NAMESPACES)]
    quotas = [{"metadata": {"name": "q", "namespace": name}} for name in (*spaces, "other")]
    lists = cluster(**{"/api/v1/resourcequotas": quotas, "/api/v1/limitranges": []})
    reading, paths = read(lists, *(gang(job("j", 1), namespace=name) for name in spaces))
    found = {name: reading.snapshot.rules[name].quotas for name in spaces}
    assert {name: [item["metadata"]["namespace"] for item in items] for name, items in found.items()} == {
        name: [name] for name in spaces
    }
    assert not [path for path in paths if "/n0/" in path]
    hidden = read(lists, *(gang(job("j", 1), namespace=name) for name in spaces), forbidden={"/api/v1/resourcequotas"})
    assert {f"resourcequotas {name}" for name in spaces} <= hidden[0].snapshot.unread


def test_an_observer_sees_finished_pods_too():
    seen = []
    with SmallApi(cluster()).client() as client:
        snapshot = read_snapshot(client, needs_of([gang(job("j", 1))]), lambda raw, _pod: seen.append(raw)).snapshot
    assert [item["metadata"]["name"] for item in seen] == ["runs", "done"]
    assert [item.name for item in snapshot.pods] == ["runs"]


def test_not_being_allowed_to_look_at_a_namespace_is_no_proof_against_it():
    lists = cluster()
    hidden = {"/api/v1/namespaces", "/api/v1/namespaces/default"}
    snapshot = read(lists, forbidden=hidden)[0].snapshot
    assert snapshot.namespaces == {}
    assert snapshot.notes == ("this account may not list namespaces",)


RULE = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}


@pytest.mark.parametrize(
    ("hook", "concerned"),
    [
        ({"rules": [RULE]}, True),
        ({"rules": [{"apiGroups": ["*"], "resources": ["*/*"], "operations": ["*"]}]}, True),
        ({"rules": [{**RULE, "apiGroups": ["apps"]}]}, False),
        ({"rules": [{**RULE, "resources": ["pods/exec"]}]}, False),
        ({"rules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"rules": None}, False),
        ({"rules": [RULE], "namespaceSelector": {"matchLabels": {"kind": "ai"}}}, True),
        ({"rules": [RULE], "namespaceSelector": {"matchLabels": {"kind": "web"}}}, False),
        ({"rules": [RULE], "objectSelector": {"matchLabels": {"app": "x"}}}, True),
        ({"rules": [RULE], "objectSelector": {"matchLabels": {"app": "y"}}}, False),
        ({"rules": [RULE], "objectSelector": {}}, True),
    ],
)
def test_webhooks_and_policies_that_may_change_the_pods(hook, concerned):
    hooks = [{"metadata": {"name": "conf"}, "webhooks": [{"name": "hook", **hook}]}, {"metadata": {"name": "empty"}}]
    match = {"resourceRules": hook["rules"], **{key: value for key, value in hook.items() if key != "rules"}}
    policies = [{"metadata": {"name": "policy"}, "spec": {"matchConstraints": match}}]
    wanted = gang(job("j", 1, labels={"app": "x"}))
    snapshot = read(cluster(**{HOOKS: hooks, POLICIES: policies}), wanted)[0].snapshot
    assert snapshot.webhooks == (("conf/hook", "policy") if concerned else ())
