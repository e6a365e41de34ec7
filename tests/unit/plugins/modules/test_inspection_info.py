# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of inspection_info."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import inspection_info as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import inspection_info
from ansible_collections.muster.kube.tests.support.module_call import call_module


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced."""

    def run(options, trouble=None):
        asked = []

        def answer(client, question):
            asked.append((client, question))
            if trouble:
                raise trouble
            return {"inspections": []}

        monkeypatch.setattr(face, "connect", lambda auth: ("client", auth))
        monkeypatch.setattr(face, "answer_inspections", answer)
        return call_module(monkeypatch, inspection_info, options).result, asked

    return run


def test_the_question_reaches_the_flow(call):
    answer, asked = call({"namespace": "team", "name": "inspection-1", "label_selectors": ["a=b"], "host": "https://x"})
    assert answer == {"changed": False, "inspections": []}
    ((client, question),) = asked
    assert client == ("client", {"host": "https://x"})
    assert (question.namespace, question.inspection_id, question.labels) == ("team", "inspection-1", "a=b")


def test_failures_name_what_was_done(call):
    answer, _asked = call({}, MusterError("list", "configmaps", "no right"))
    assert (answer["failed"], answer["error"]["object"]) == (True, "configmaps")


def test_a_missing_library_is_asked_for(call):
    answer, _asked = call({}, MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]
