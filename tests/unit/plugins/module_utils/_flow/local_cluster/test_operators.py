# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What operators need in the API server is there before they start, and only written when it differs."""

from __future__ import annotations

import time

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import operators
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import build_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import ensure_certificates
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster_processes import Processes
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import ClusterState, Layout
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterSpec
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayclusters.ray.io"


@pytest.fixture
def operator(catalogue_data):
    """The operator of the small catalogue."""
    return build_catalogue(catalogue_data).operators["ray"]


@pytest.fixture
def objects(operator, program_directory, tmp_path):
    """Its objects in a cluster."""
    layout = Layout(tmp_path, "c")
    state = ClusterState.new("c")
    state.ports = {"ray": {"health": 1, "webhook": 2}}
    ensure_certificates(layout, [operator])
    values = Processes(layout, state, ClusterSpec("c"), tmp_path, print).placeholders(operator)
    return operators.wanted_objects(operator, program_directory, values)


def crds(operator, program_directory):
    return operators.wanted_crds([operator], {"kubernetes": program_directory})


def test_crds_are_created_once(api, client, operator, program_directory):
    deadline = time.monotonic() + 10
    wanted = crds(operator, program_directory)
    assert operators.ensure_crds(client, wanted, deadline) == ["rayclusters.ray.io"]
    assert operators.ensure_crds(client, wanted, deadline) == []
    assert api.writes == [("PATCH", CRD)]


def test_a_crd_of_another_version_is_replaced(api, client, operator, program_directory):
    operators.ensure_crds(client, crds(operator, program_directory), time.monotonic() + 10)
    changed = crds(operator, program_directory)
    changed["rayclusters.ray.io"]["metadata"]["annotations"][operators.DIGEST_ANNOTATION] = "new"
    assert operators.ensure_crds(client, changed, time.monotonic() + 10) == ["rayclusters.ray.io"]
    assert api.writes == [("PATCH", CRD)] * 2
    assert api.objects[CRD]["metadata"]["annotations"][operators.DIGEST_ANNOTATION] == "new"


def test_a_crd_of_the_role_dispatcher_is_never_replaced(api, client, operator, program_directory):
    theirs = crds(operator, program_directory)["rayclusters.ray.io"]
    theirs["metadata"] = {"name": "rayclusters.ray.io", "labels": {operators.MANAGED_LABEL: "true"}}
    api.objects[CRD] = theirs
    with pytest.raises(MusterError, match=r"Cannot install CustomResourceDefinition rayclusters\.ray\.io: the role"):
        operators.ensure_crds(client, crds(operator, program_directory), time.monotonic() + 10)
    assert api.writes == []


def test_a_crd_that_is_not_served_in_time_is_named(client, operator, program_directory):
    wanted = crds(operator, program_directory)
    wanted["rayclusters.ray.io"]["spec"]["group"] = "other.io"
    with pytest.raises(MusterError, match=r"Cannot wait for CustomResourceDefinition rayclusters\.ray\.io"):
        operators.ensure_crds(client, wanted, time.monotonic() - 1)


def test_objects_come_in_order_with_webhooks_by_url_last(objects):
    assert [obj["kind"] for obj in objects] == ["Namespace", "Secret", "ValidatingWebhookConfiguration"]
    hooks = objects[-1]["webhooks"]
    assert [hook["clientConfig"]["url"] for hook in hooks] == ["https://127.0.0.1:2/pods", "https://127.0.0.1:2/"]
    assert hooks[0]["objectSelector"] == {"matchLabels": {"ray": "yes"}}
    assert "objectSelector" not in hooks[1]


def test_objects_are_written_once(api, client, objects):
    assert operators.ensure_objects(client, objects) == [
        "Namespace ray",
        "Secret ray/ray",
        "ValidatingWebhookConfiguration ray-hooks",
    ]
    api.writes.clear()
    assert operators.ensure_objects(client, objects) == []
    assert api.writes == []


def test_an_object_that_was_changed_is_put_right(api, client, objects):
    operators.ensure_objects(client, objects)
    secret = api.objects["/api/v1/namespaces/ray/secrets/ray"]
    secret["data"] = {}
    assert operators.ensure_objects(client, objects) == ["Secret ray/ray"]
    assert api.objects["/api/v1/namespaces/ray/secrets/ray"]["data"]["tls.crt"]


def test_webhooks_of_a_dropped_operator_go_and_its_crds_stay(api, client, operator, objects, program_directory):
    operators.ensure_crds(client, crds(operator, program_directory), time.monotonic() + 10)
    operators.ensure_objects(client, objects)
    operators.delete_webhooks(client, operator)
    operators.delete_webhooks(client, operator)
    assert not [name for name in api.objects if "webhook" in name]
    assert CRD in api.objects


def test_a_kind_that_is_not_served_is_named(client):
    obj = {"apiVersion": "other.io/v1", "kind": "Other", "metadata": {"name": "x"}}
    with pytest.raises(MusterError, match="Cannot create Other x: the API server does not serve this kind"):
        operators.ensure_objects(client, [obj])
