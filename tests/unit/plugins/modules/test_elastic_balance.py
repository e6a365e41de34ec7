# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of elastic_balance: options to calls, errors to failures."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules.elastic import elastic_balance as face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError
from ansible_collections.muster.kube.plugins.modules import elastic_balance
from ansible_collections.muster.kube.tests.support.module_call import call_module


class Answer:
    """What the flow answers with."""

    def as_result(self, *, diff):
        return {"changed": False, "jobs": [], "diffed": diff}


@pytest.fixture
def call(monkeypatch):
    """Runs the module with connection and flow replaced; returns its answer and the options of each call."""

    def run(options, trouble=None):
        calls = []

        def work(connect, terms, report):
            calls.append((connect(), terms))
            if trouble:
                raise trouble
            return Answer()

        monkeypatch.setattr(face, "connect", lambda auth: [auth])
        monkeypatch.setattr(face, "run_balance", work)
        return call_module(monkeypatch, elastic_balance, options).result, calls

    return run


def test_only_settings_that_are_given_reach_the_flow(call):
    answer, calls = call({"policy": "max_min", "most_resizes": 0, "wait_timeout": "1h", "host": "https://x"})
    assert answer == {"changed": False, "jobs": [], "diffed": False, "ran": "module"}
    ((client, terms),) = calls
    assert client == [{"host": "https://x"}]
    assert terms.settings == {"policy": "max_min", "most_resizes": 0}
    assert (terms.namespaces, terms.wait, terms.wait_timeout, terms.check_mode) == (None, True, 3600.0, False)
    assert terms.lease.target == "Lease muster-system/dispatch"


def test_check_mode_and_diff_are_told(call):
    answer, calls = call({"_ansible_check_mode": True, "_ansible_diff": True, "namespaces": ["a", "a"], "wait": False})
    assert answer["diffed"]
    ((_client, terms),) = calls
    assert (terms.check_mode, terms.namespaces, terms.wait, terms.settings) == (True, ("a",), False, {})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"namespaces": []}, "the list is empty"),
        ({"policy": "luck"}, "value of policy must be one of"),
        ({"wait_timeout": "soon"}, "wait_timeout"),
    ],
)
def test_options_that_make_no_sense_are_told_before_anything_is_done(call, options, words):
    answer, calls = call(options)
    assert words in answer["msg"]
    assert calls == []


def test_a_failure_names_action_object_and_cause(call):
    answer, _calls = call({}, MusterError("list", "nodes", "refused"))
    assert (answer["failed"], answer["msg"]) == (True, "Cannot list nodes: refused")


def test_a_missing_library_is_asked_for(call):
    answer, _calls = call({}, MissingLibrary("kubernetes", "Traceback"))
    assert "required Python library (kubernetes)" in answer["msg"]
