# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of elastic_job_info: options to calls, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import elastic_job_info as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import elastic_job_info
from ansible_collections.muster.kube.tests.support.module_call import call_module


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer and the calls made."""

    def run(options, trouble=None):
        calls = []

        def work(client, question):
            calls.append((client, question))
            if trouble:
                raise trouble
            return {"jobs": []}

        monkeypatch.setattr(face, "connect", lambda auth: ("client", auth))
        monkeypatch.setattr(face, "answer_jobs", work)
        return call_module(monkeypatch, elastic_job_info, options).result, calls

    return run


@pytest.mark.parametrize("check_mode", [False, True])
def test_options_reach_the_flow_and_nothing_is_ever_changed(call, check_mode):
    options = {"namespace": "team", "state": ["queued"], "context": "c", "_ansible_check_mode": check_mode}
    answer, calls = call(options)
    assert answer == {"changed": False, "jobs": []}
    ((client, question),) = calls
    assert client == ("client", {"context": "c"})
    assert (question.namespace, question.phases, question.log_lines) == ("team", {"queued"}, 20)


def test_a_failure_names_action_object_and_cause(call):
    answer, _calls = call({}, MusterError("list", "configmaps", "refused"))
    assert answer["msg"] == "Cannot list configmaps: refused"


def test_a_missing_library_is_asked_for(call):
    answer, _calls = call({}, MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]


def test_an_unknown_phase_is_refused(call):
    answer, calls = call({"state": ["asleep"]})
    assert "value of state must be one or more of" in answer["msg"]
    assert calls == []
