# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of dispatch: options to calls, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import dispatch as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import dispatch
from ansible_collections.muster.kube.tests.support.module_call import call_module


class Answer:
    """What the flow answers with."""

    def as_result(self):
        return {"changed": False, "decisions": []}


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer and the calls made."""

    def run(options, trouble=None):
        calls = []

        def work(client, renewal_client, terms, report):
            calls.append((client, renewal_client, terms))
            if trouble:
                raise trouble
            return Answer()

        monkeypatch.setattr(face, "connect", lambda auth: [auth])
        monkeypatch.setattr(face, "run_dispatch", work)
        monkeypatch.setattr(face, "preview_dispatch", lambda client, terms: work(client, "no Lease", terms, None))
        return call_module(monkeypatch, dispatch, options).result, calls

    return run


def test_options_reach_the_flow_and_renewals_have_a_client_of_their_own(call):
    answer, calls = call({"duration": "1m", "namespaces": ["team"], "host": "https://x"})
    assert answer == {"changed": False, "decisions": [], "ran": "module"}
    ((client, renewal, terms),) = calls
    assert client == renewal == [{"host": "https://x"}]
    assert client is not renewal
    assert (terms.duration, terms.namespaces) == (60.0, ("team",))


def test_a_failure_names_action_object_and_cause(call):
    answer, _calls = call({}, MusterError("list", "nodes", "refused"))
    assert (answer["failed"], answer["msg"]) == (True, "Cannot list nodes: refused")


def test_a_missing_library_is_asked_for(call):
    answer, _calls = call({}, MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]


def test_options_that_make_no_sense_are_told_before_anything_is_done(call):
    answer, calls = call({"namespaces": []})
    assert "the list is empty" in answer["msg"]
    assert calls == []


def test_check_mode_only_looks(call):
    answer, calls = call({"_ansible_check_mode": True, "max_starts": 3})
    assert answer["decisions"] == []
    ((_client, renewal, terms),) = calls
    assert (renewal, terms.max_starts) == ("no Lease", 3)
