# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of local_cluster: options in, one call, one answer."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import local_cluster as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import local_cluster
from ansible_collections.muster.kube.tests.support.module_call import call_module


@pytest.fixture
def call(monkeypatch):
    """Runs the module with the flow replaced by a function."""

    def run(options: dict[str, t.Any], work: t.Callable[..., t.Any]) -> dict[str, t.Any]:
        monkeypatch.setattr(face, "run", work)
        return call_module(monkeypatch, local_cluster, options).result

    return run


def test_options_reach_the_flow_and_its_result_is_returned(call):
    seen = []

    def work(request, _report):
        seen.append(request)
        return {"changed": True, "name": request.spec.name}

    options = {"name": "x", "state": "absent", "wait_timeout": 7, "_ansible_check_mode": True, "cache": "/c"}
    assert call(options, work) == {"changed": True, "name": "x", "ran": "module"}
    (request,) = seen
    assert (request.state, request.wait_timeout, request.check_mode) == ("absent", 7.0, True)


def test_a_failure_names_action_object_and_cause(call):
    def work(_request, _report):
        raise MusterError("start", "etcd", "no room")

    answer = call({}, work)
    assert answer["failed"]
    assert answer["msg"] == "Cannot start etcd: no room"
    assert answer["error"] == {"action": "start", "object": "etcd", "cause": "no room"}


def test_a_missing_package_is_told_the_usual_way(call):
    def work(_request, _report):
        raise MissingLibrary("cryptography", "Traceback: x")

    answer = call({}, work)
    assert "Failed to import the required Python library (cryptography)" in answer["msg"]
    assert answer["exception"] == "Traceback: x"


def test_a_bad_choice_never_reaches_the_flow(call):
    assert "value of state must be one of" in call({"state": "paused"}, lambda *_args: pytest.fail("it ran"))["msg"]
