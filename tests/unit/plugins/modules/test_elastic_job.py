# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of elastic_job: options to calls, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import elastic_job as face
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import elastic_job
from ansible_collections.muster.kube.tests.support.module_call import call_module


class Answer:
    """What the flow answers with."""

    def as_result(self, *, diff):
        return {"changed": True, "jobs": [], **({"diff": []} if diff else {})}


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer, the calls made and the module."""

    def run(options, trouble=None):
        calls = []

        def work(connect_again, terms, report):
            calls.append((connect_again(), terms))
            report("progress")
            if trouble:
                raise trouble
            return Answer()

        monkeypatch.setattr(face, "connect", lambda auth: ("client", auth))
        monkeypatch.setattr(face, "run_elastic_jobs", work)
        answered = call_module(monkeypatch, elastic_job, options)
        return answered.result, calls, answered.module

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_options_reach_the_flow_and_its_result_is_returned(call, check_mode):
    options = {"name": "g", "state": "absent", "host": "https://x", "_ansible_check_mode": check_mode}
    answer, calls, _module = call(options)
    assert answer == {"changed": True, "jobs": [], "ran": "module"}
    ((client, terms),) = calls
    assert client == ("client", {"host": "https://x"})
    assert (terms.state, terms.gangs, terms.check_mode) == (
        "absent",
        (GangAsk(GangSource("g"), GangSettings(elastic={})),),
        check_mode,
    )


def test_the_difference_is_asked_for_in_diff_mode(call):
    assert call({"name": "g", "_ansible_diff": True})[0]["diff"] == []


def test_a_failure_names_action_object_and_cause(call):
    answer, _calls, _module = call({"name": "g"}, MusterError("change", "gang team/g", "it is running"))
    assert answer["failed"]
    assert answer["msg"] == "Cannot change gang team/g: it is running"
    assert answer["error"] == {"action": "change", "object": "gang team/g", "cause": "it is running"}


def test_a_missing_library_is_asked_for(call):
    answer, _calls, _module = call({"name": "g"}, MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]


def test_a_bad_duration_is_told_before_anything_is_done(call):
    answer, calls, _module = call({"name": "g", "wait_timeout": "soon"})
    assert "wait_timeout" in answer["msg"]
    assert calls == []


def test_secrets_of_a_kubeconfig_are_masked(call):
    config = {"users": [{"name": "default", "user": {"token": "very-secret-token"}}]}
    _answer, _calls, module = call({"name": "g", "kubeconfig": config})
    assert "very-secret-token" in module.no_log_values
    assert "default" not in module.no_log_values
