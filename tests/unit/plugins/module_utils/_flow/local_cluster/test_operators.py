# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What operators need in the API server is there before they start, and only written when it differs."""

from __future__ import annotations

import dataclasses
import time

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster import operators
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.catalogue import build_catalogue
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.certificates import ensure_certificates
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.cluster_processes import Processes
from ansible_collections.muster.kube.plugins.module_utils._flow.local_cluster.state import ClusterState, Layout
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import write_changes
from ansible_collections.muster.kube.plugins.module_utils._model.local_cluster.cluster import ClusterSpec, Conversion
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayclusters.ray.io"


@pytest.fixture
def operator(catalogue_data):
    """The operator of the small catalogue."""
    return build_catalogue(catalogue_data).operators["ray"]


@pytest.fixture
def values(operator, tmp_path):
    """What its placeholders stand for in a cluster."""
    layout = Layout(tmp_path, "c")
    state = ClusterState.new("c")
    state.ports = {"ray": {"health": 1, "webhook": 2}}
    ensure_certificates(layout, [operator])
    return Processes(layout, state, ClusterSpec("c"), tmp_path, print).placeholders(operator)


@pytest.fixture
def objects(operator, program_directory, values):
    """Its objects in that cluster."""
    return operators.wanted_objects(operator, program_directory, values)


@pytest.fixture
def converter(operator):
    """The same, converting its kind."""
    conversion = Conversion("webhook", "/convert", ("rayclusters.ray.io", "others.ray.io"))
    return dataclasses.replace(operator, conversion=conversion)


def crds(operator, program_directory, values=None):
    return operators.wanted_crds([operator], lambda _operator: program_directory, lambda _operator: values)


def ensure(client, crds=(), objects=(), seconds=10.0):
    """Write what differs; returns what was written."""
    changes = operators.find_changes(client, crds, objects)
    write_changes(client, changes, time.monotonic() + seconds)
    return [describe_object(change.obj) for change in changes if change.action != "unchanged"]


def test_crds_are_created_once(api, client, operator, program_directory):
    wanted = crds(operator, program_directory)
    assert ensure(client, wanted) == ["CustomResourceDefinition rayclusters.ray.io"]
    assert ensure(client, wanted) == []
    assert api.writes == [("PATCH", CRD)]


def test_a_crd_of_another_version_is_replaced(api, client, operator, program_directory):
    ensure(client, crds(operator, program_directory))
    changed = crds(operator, program_directory)
    changed[0]["metadata"]["annotations"][operators.DIGEST_ANNOTATION] = "new"
    assert ensure(client, changed) == ["CustomResourceDefinition rayclusters.ray.io"]
    assert api.writes == [("PATCH", CRD)] * 2
    assert api.objects[CRD]["metadata"]["annotations"][operators.DIGEST_ANNOTATION] == "new"


def test_a_crd_of_the_role_dispatcher_is_never_replaced(api, client, operator, program_directory):
    theirs = crds(operator, program_directory)[0]
    theirs["metadata"] = {"name": "rayclusters.ray.io", "labels": {operators.MANAGED_LABEL: "true"}}
    api.objects[CRD] = theirs
    with pytest.raises(MusterError, match=r"Cannot install CustomResourceDefinition rayclusters\.ray\.io: the role"):
        ensure(client, crds(operator, program_directory))
    assert api.writes == []


def test_a_crd_that_is_not_served_in_time_is_named(client, operator, program_directory):
    wanted = crds(operator, program_directory)
    wanted[0]["spec"]["group"] = "other.io"
    with pytest.raises(MusterError, match=r"Cannot wait for CustomResourceDefinition rayclusters\.ray\.io"):
        ensure(client, wanted, seconds=-1)


def test_objects_come_in_order_with_webhooks_by_url_last(objects):
    assert [obj["kind"] for obj in objects] == ["Namespace", "Secret", "ValidatingWebhookConfiguration"]
    hooks = objects[-1]["webhooks"]
    assert [hook["clientConfig"]["url"] for hook in hooks] == ["https://127.0.0.1:2/pods", "https://127.0.0.1:2/"]
    assert hooks[0]["objectSelector"] == {"matchLabels": {"ray": "yes"}}
    assert "objectSelector" not in hooks[1]


def test_objects_are_written_once(api, client, objects):
    assert ensure(client, objects=objects) == [
        "Namespace ray",
        "Secret ray/ray",
        "ValidatingWebhookConfiguration ray-hooks",
    ]
    api.writes.clear()
    assert ensure(client, objects=objects) == []
    assert api.writes == []


def test_an_object_that_was_changed_is_put_right(api, client, objects):
    ensure(client, objects=objects)
    secret = api.objects["/api/v1/namespaces/ray/secrets/ray"]
    secret["data"] = {}
    assert ensure(client, objects=objects) == ["Secret ray/ray"]
    assert api.objects["/api/v1/namespaces/ray/secrets/ray"]["data"]["tls.crt"]


def test_webhooks_of_a_dropped_operator_go_and_its_crds_stay(api, client, operator, objects, program_directory):
    ensure(client, crds(operator, program_directory))
    ensure(client, objects=objects)
    operators.delete_webhooks(client, operator)
    operators.delete_webhooks(client, operator)
    assert not [name for name in api.objects if "webhook" in name]
    assert CRD in api.objects


def test_a_definition_names_the_operator_that_converts(converter, program_directory, values):
    [plain] = crds(dataclasses.replace(converter, conversion=None), program_directory, values)
    [crd] = crds(converter, program_directory, values)
    webhook = crd["spec"]["conversion"]["webhook"]
    assert crd["spec"]["conversion"]["strategy"] == "Webhook"
    assert webhook["clientConfig"]["url"] == "https://127.0.0.1:2/convert"
    assert webhook["clientConfig"]["caBundle"] == values.value("base64:ray/ca.crt") != ""
    assert "conversion" not in plain["spec"]
    digests = [item["metadata"]["annotations"][operators.DIGEST_ANNOTATION] for item in (plain, crd)]
    assert len(set(digests)) == 2


def test_nobody_converts_for_a_dropped_operator_until_it_returns(api, client, converter, program_directory, values):
    wanted = crds(converter, program_directory, values)
    ensure(client, wanted)
    api.objects[f"{operators.CRDS}/others.ray.io"] = {"metadata": {"name": "others.ray.io"}, "spec": {}}
    operators.delete_webhooks(client, converter)
    assert api.objects[CRD]["spec"]["conversion"] == {"strategy": "None"}
    assert ensure(client, crds(converter, program_directory, values)) == ["CustomResourceDefinition rayclusters.ray.io"]
    assert api.objects[CRD]["spec"]["conversion"]["strategy"] == "Webhook"


def test_a_kind_that_is_not_served_is_named(client):
    obj = {"apiVersion": "other.io/v1", "kind": "Other", "metadata": {"name": "x"}}
    with pytest.raises(MusterError, match="Cannot create Other x: the API server does not serve this kind"):
        ensure(client, objects=[obj])
