# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of local_cluster_info."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import local_cluster_info as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import local_cluster_info
from ansible_collections.muster.kube.tests.support.module_call import call_module


@pytest.fixture
def call(monkeypatch):
    """Runs the module with the flow replaced by a function."""

    def run(options, work):
        monkeypatch.setattr(face, "describe_clusters", work)
        return call_module(monkeypatch, local_cluster_info, options).result

    return run


def test_clusters_are_listed_and_nothing_is_changed(call):
    seen = []

    def work(cache, name):
        seen.append((cache, name))
        return [{"name": "a"}]

    assert call({"cache": "/c", "name": "a"}, work) == {"changed": False, "clusters": [{"name": "a"}]}
    assert seen == [(pathlib.Path("/c"), "a")]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MusterError("read", "/c/cluster.json", "spoilt"), "Cannot read /c/cluster.json: spoilt"),
        (MissingLibrary("kubernetes", "Traceback"), "required Python library (kubernetes)"),
    ],
)
def test_failures_are_told(call, error, message):
    def work(_cache, _name):
        raise error

    answer = call({}, work)
    assert answer["failed"]
    assert message in answer["msg"]
