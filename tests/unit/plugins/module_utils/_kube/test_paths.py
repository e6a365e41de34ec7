# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of API addresses and their words."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import describe_request, resource_path


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("v1", "nodes"), "/api/v1/nodes"),
        (("v1", "pods", "lab"), "/api/v1/namespaces/lab/pods"),
        (("v1", "pods", "lab", "a"), "/api/v1/namespaces/lab/pods/a"),
        (("v1", "pods", "lab", "a", "eviction"), "/api/v1/namespaces/lab/pods/a/eviction"),
        (("batch/v1", "jobs", "lab", "a"), "/apis/batch/v1/namespaces/lab/jobs/a"),
        (
            ("rbac.authorization.k8s.io/v1", "clusterroles", None, "a:b"),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab",
        ),
        (("v1", "pods", "lab", "../x"), "/api/v1/namespaces/lab/pods/..%2Fx"),
    ],
)
def test_resource_path(arguments: tuple[str, ...], path: str) -> None:
    assert resource_path(*arguments) == path


@pytest.mark.parametrize(
    ("method", "path", "query", "words"),
    [
        ("GET", "/api/v1/nodes", None, ("list", "nodes")),
        ("GET", "/api/v1/nodes", {"watch": True}, ("watch", "nodes")),
        ("GET", "/api/v1/nodes/a", None, ("read", "nodes a")),
        ("GET", "/api/v1/namespaces/lab", None, ("read", "namespaces lab")),
        ("PATCH", "/api/v1/namespaces/lab/status", None, ("patch", "namespaces/status lab")),
        ("GET", "/api/v1/namespaces/lab/pods", None, ("list", "pods in namespace lab")),
        ("DELETE", "/apis/batch/v1/namespaces/lab/jobs/a", None, ("delete", "jobs lab/a")),
        ("PUT", "/apis/batch/v1/namespaces/lab/jobs/a/status", None, ("replace", "jobs/status lab/a")),
        ("POST", "/api/v1/namespaces/lab/pods", None, ("create", "pods in namespace lab")),
        ("GET", "/apis/batch/v1", None, ("read", "/apis/batch/v1")),
        ("GET", "/version", None, ("read", "/version")),
    ],
)
def test_words_of_a_request(method: str, path: str, query: dict[str, bool] | None, words: tuple[str, str]) -> None:
    assert describe_request(method, path, query) == words
