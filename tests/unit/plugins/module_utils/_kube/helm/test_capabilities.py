# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a chart may ask about the server is what helm itself would find there."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.helm.capabilities import (
    ServerCapabilities,
    read_capabilities,
)

CORE = {"resources": [{"kind": "Pod", "name": "pods"}, {"kind": "Binding", "name": "pods/binding"}]}
EXPECTED = {"v1", "v1/Pod", "v1/Binding", "apps/v1", "apps/v1/Deployment", "apps/v1/Scale"}


@pytest.fixture
def server(stub, reply):
    """A server of some version that serves pods."""
    stub.answer("GET", "/version", reply({"gitVersion": "v1.36.3"}))
    stub.answer("GET", "/api/v1", reply(CORE))
    return stub


def test_all_kinds_are_asked_for_at_once(server, client, reply):
    resource = {
        "responseKind": {"kind": "Deployment"},
        "subresources": [{"subresource": "scale", "responseKind": {"kind": "Scale"}}, {"subresource": "x"}],
    }
    group = {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [resource]}]}
    server.answer("GET", "/apis", reply({"kind": "APIGroupDiscoveryList", "items": [group]}))
    found = read_capabilities(client)
    assert (found.version, found.api_versions) == ("v1.36.3", EXPECTED)
    assert len(server.seen) == 3


def test_an_older_server_is_asked_group_by_group(server, client, reply, fault):
    groups = [{"versions": [{"groupVersion": "apps/v1"}]}, {"versions": [{"groupVersion": "away/v1"}]}]
    server.answer("GET", "/apis", reply({"kind": "APIGroupList", "groups": groups}))
    kinds = [{"kind": "Deployment", "name": "deployments"}, {"kind": "Scale", "name": "deployments/scale"}]
    server.answer("GET", "/apis/apps/v1", reply({"resources": kinds}))
    server.answer("GET", "/apis/away/v1", fault(403, "Forbidden", "away"))
    assert read_capabilities(client).api_versions == {*EXPECTED, "away/v1"}


def test_who_may_not_ask_is_told(client, stub, fault):
    stub.answer("GET", "/version", fault(403, "Forbidden", "no"))
    with pytest.raises(Forbidden):
        read_capabilities(client)


def test_definitions_of_the_chart_count_as_served():
    versions = [{"name": "v1", "served": True}, {"name": "v0", "served": False}]
    crd = {"spec": {"group": "example.com", "names": {"kind": "Widget"}, "versions": versions}}
    found = ServerCapabilities("v1", frozenset({"v1"})).with_definitions([crd, {"kind": "ConfigMap"}])
    assert found.api_versions == {"v1", "example.com/v1", "example.com/v1/Widget"}
