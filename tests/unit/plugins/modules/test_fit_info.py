# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of fit_info: options to calls, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import fit_info as face
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.verdicts import QuotaCompletion
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import fit_info
from ansible_collections.muster.kube.tests.support.module_call import call_module

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
}


class Result:
    """What the flow answers with."""

    def as_result(self):
        return {"fits": True, "verdicts": []}


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer, the calls made and the module."""

    def run(options, work=None, check_mode=False):
        calls = []

        def answer(client, requests, *, complete, **settings):
            assert isinstance(complete, QuotaCompletion)
            calls.append((client, requests, settings))
            if work:
                raise work
            return Result()

        monkeypatch.setattr(face, "connect", lambda auth: ("client", auth))
        monkeypatch.setattr(face, "answer_fit", answer)
        answered = call_module(monkeypatch, fit_info, {"_ansible_check_mode": check_mode, **options})
        return answered.result, calls, answered.module

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_one_gang_at_the_top_level(call, check_mode):
    options = {"definition": POD, "namespace": "team", "name": "g", "host": "https://x", "context": "c"}
    answer, calls, _module = call(options, check_mode=check_mode)
    assert answer == {"changed": False, "fits": True, "verdicts": [], "quota_as_of": None}
    ((client, requests, settings),) = calls
    assert client == ("client", {"host": "https://x", "context": "c"})
    assert [(item.name, item.namespace, item.objects, item.podsets) for item in requests] == [
        ("g", "team", (POD,), None)
    ]
    assert settings == {"cumulative": True, "advice": True}


def test_many_gangs_share_a_namespace_and_keep_their_order(call):
    gangs = [{"definition": POD}, {"podsets": [{"requests": {"cpu": "1"}}], "namespace": "own", "name": "second"}]
    _answer, calls, _module = call({"gangs": gangs, "namespace": "team", "cumulative": False, "advice": False})
    ((_client, requests, settings),) = calls
    assert [(item.name, item.namespace) for item in requests] == [("p", "team"), ("second", "own")]
    assert requests[1].podsets[0]["count"] == 1
    assert settings == {"cumulative": False, "advice": False}


def test_bad_input_is_told_before_any_connection_is_tried(call):
    answer, calls, _module = call({"podsets": [{"requests": {"cpu": "lots"}}], "kubeconfig": "/missing"})
    assert answer["error"]["object"] == "podsets[0].requests.cpu"
    assert calls == []


def test_errors_name_action_object_and_cause(call):
    answer, _calls, _module = call({"definition": POD}, work=MusterError("list", "nodes", "refused"))
    assert answer["failed"]
    assert answer["msg"] == "Cannot list nodes: refused"
    assert answer["error"] == {"action": "list", "object": "nodes", "cause": "refused"}


def test_a_missing_library_is_asked_for(call):
    answer, _calls, _module = call({"definition": POD}, work=MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]
    assert answer["exception"] == "Traceback"


def test_bad_input_fails_before_any_connection(call):
    answer, calls, _module = call({"definition": "just words"})
    assert answer["failed"]
    assert "gang 0" in answer["msg"]
    assert calls == []


def test_secrets_of_a_kubeconfig_are_masked_and_its_ordinary_words_are_not(call):
    user = {"name": "default", "user": {"token": "very-secret-token", "client-certificate-data": "public"}}
    config = {"apiVersion": "v1", "users": [user]}
    _answer, _calls, module = call({"definition": POD, "kubeconfig": config, "api_key": "another-secret"})
    assert {"very-secret-token", "another-secret"} <= module.no_log_values
    assert module.no_log_values.isdisjoint(("default", "v1", "public"))


def test_options_that_exclude_each_other_are_refused(call):
    answer, calls, _module = call({"definition": POD, "gangs": []})
    assert answer["failed"]
    assert "mutually exclusive" in answer["msg"]
    assert calls == []
