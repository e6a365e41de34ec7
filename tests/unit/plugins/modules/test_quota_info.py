# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of quota_info: options to calls, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import quota_info as face
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaInfoOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.modules import quota_info
from ansible_collections.muster.kube.tests.support.module_call import call_module


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer and the questions asked."""

    def run(options, trouble=None):
        asked = []

        def work(_client, question):
            asked.append(question)
            if trouble:
                raise trouble
            return {"trees": [], "notes": []}

        monkeypatch.setattr(face, "connect", lambda auth: ("client", auth))
        monkeypatch.setattr(face, "answer_quota", work)
        return call_module(monkeypatch, quota_info, options).result, asked

    return run


def test_options_reach_the_flow_and_nothing_is_ever_changed(call):
    answer, asked = call({"tree": "t", "lease": {"namespace": "n"}})
    assert answer == {"changed": False, "trees": [], "notes": []}
    assert asked == [QuotaInfoOptions("n", "t")]


def test_a_failure_names_action_object_and_cause(call):
    answer, _asked = call({}, MusterError("list", "configmaps", "refused"))
    assert answer["msg"] == "Cannot list configmaps: refused"
