# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of inspection: options to calls, failures with their results, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import inspection as face
from ansible_collections.muster.kube.plugins.module_utils._flow.inspect.options import ScriptSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import inspection
from ansible_collections.muster.kube.tests.support.module_call import call_module

OPTIONS = {"image": "i:1", "script": "true"}


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer, the calls made and the module."""

    def run(options, trouble=None, answer=None):
        calls = []

        def work(connect, terms, report):
            calls.append((connect(), terms))
            report("progress")
            if trouble:
                raise trouble
            return dict(answer or {"changed": True, "phase": "Succeeded"})

        monkeypatch.setattr(face, "connect", lambda auth: ("client", auth))
        monkeypatch.setattr(face, "run_inspection", work)
        answered = call_module(monkeypatch, inspection, options)
        return answered.result, calls, answered.module

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_options_reach_the_flow_and_its_result_is_returned(call, check_mode):
    answer, calls, _module = call({**OPTIONS, "host": "https://x", "_ansible_check_mode": check_mode})
    assert answer == {"changed": True, "phase": "Succeeded", "ran": "module"}
    ((client, terms),) = calls
    assert client == ("client", {"host": "https://x"})
    assert (terms.image, terms.source, terms.check_mode) == ("i:1", ScriptSource("true"), check_mode)


def test_a_failed_inspection_fails_with_its_results(call):
    told = {"failed": True, "msg": "Cannot finish it: oom", "runs": [{"index": 0}], "changed": True}
    answer, _calls, _module = call(OPTIONS, answer=told)
    assert answer["failed"]
    assert (answer["msg"], answer["runs"], answer["ran"]) == ("Cannot finish it: oom", [{"index": 0}], "module")


def test_a_failure_names_action_object_and_cause(call):
    answer, _calls, _module = call(OPTIONS, MusterError("find", "hardware for the run", "none"))
    assert answer["failed"]
    assert answer["error"] == {"action": "find", "object": "hardware for the run", "cause": "none"}


def test_a_missing_library_is_asked_for(call):
    answer, _calls, _module = call(OPTIONS, MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]


def test_bad_values_are_told_before_anything_is_done(call):
    answer, calls, _module = call({**OPTIONS, "timeout": "soon"})
    assert "timeout" in answer["msg"]
    assert calls == []


def test_secrets_of_a_kubeconfig_are_masked(call):
    config = {"users": [{"name": "default", "user": {"token": "very-secret-token"}}]}
    _answer, _calls, module = call({**OPTIONS, "kubeconfig": config})
    assert "very-secret-token" in module.no_log_values
