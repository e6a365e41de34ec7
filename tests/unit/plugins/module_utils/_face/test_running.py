# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a module runs and ends."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face import running
from ansible_collections.muster.kube.plugins.module_utils._face.face import Face
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MissingLibrary, MusterError

KUBECONFIG = {"users": [{"name": "u", "user": {"token": "hidden"}}]}


class Ended(Exception):
    """The module ended: how, and with which keys."""


class Module:
    """As much of AnsibleModule as a run needs."""

    check_mode = False
    _diff = False

    def __init__(self, **options):
        self.params = options
        self.no_log_values = set()
        self.warned = []
        self.debugged = []

    def debug(self, text):
        self.debugged.append(text)

    def warn(self, text):
        self.warned.append(text)

    def exit_json(self, **keys):
        raise Ended("exit", keys)

    def fail_json(self, **keys):
        raise Ended("fail", keys)


@pytest.fixture
def ending(monkeypatch):
    """How a module with this work ends; the work gets its options and what else it may know."""

    def run(work, module=None, name="thing"):
        monkeypatch.setattr(running, "AnsibleModule", lambda **_given: module or Module())
        face = Face(name=name, spec={}, options=lambda params, check_mode: (params, check_mode), work=work)
        with pytest.raises(Ended) as ended:
            running.run_module(face)
        return ended.value.args

    return run


def raising(error):
    def work(_options, _call):
        raise error

    return work


def test_a_result_is_returned_with_what_is_always_there(ending):
    assert ending(lambda *_given: {"a": 1}) == ("exit", {"a": 1, "ran": "module"})
    assert ending(lambda *_given: {"a": 1}, name="thing_info") == ("exit", {"a": 1, "changed": False})


@pytest.mark.parametrize("failed", [False, True])
def test_warnings_are_given_as_ansible_wants_them(ending, failed):
    module = Module()
    how, keys = ending(lambda *_given: {"a": 1, "failed": failed, "warnings": ["beware"]}, module)
    assert (how, keys) == ("fail" if failed else "exit", {"a": 1, "ran": "module"})
    assert module.warned == ["beware"]


def test_a_result_that_is_a_failure_fails_with_all_its_keys(ending):
    told = {"msg": "no", "items": [], "ran": "module"}
    assert ending(lambda *_given: {"failed": True, "msg": "no", "items": []}) == ("fail", told)
    assert ending(lambda *_given: {"failed": False, "a": 1}) == ("exit", {"a": 1, "ran": "module"})


def test_an_error_of_the_family_names_object_action_and_cause(ending):
    how, keys = ending(raising(MusterError("read", "x", "gone")))
    assert (how, keys["msg"], keys["ran"]) == ("fail", "Cannot read x: gone", "module")
    assert keys["error"] == {"action": "read", "object": "x", "cause": "gone"}


def test_wrong_options_end_the_module_alike(monkeypatch):
    def options(_params, _check_mode):
        raise MusterError("read", "timeout", "soon is no time")

    monkeypatch.setattr(running, "AnsibleModule", lambda **_given: Module())
    with pytest.raises(Ended) as ended:
        running.run_module(Face(name="thing_info", spec={}, options=options, work=raising(ZeroDivisionError())))
    how, keys = ended.value.args
    assert (how, keys["msg"], keys["changed"]) == ("fail", "Cannot read timeout: soon is no time", False)


def test_a_missing_library_is_named(ending):
    how, keys = ending(raising(MissingLibrary("kubernetes", "the traceback")))
    assert (how, keys["exception"], keys["ran"]) == ("fail", "the traceback", "module")
    assert "kubernetes" in keys["msg"]


def test_other_errors_are_not_hidden(ending):
    with pytest.raises(ZeroDivisionError):
        ending(raising(ZeroDivisionError()))


def test_secrets_of_a_kubeconfig_are_masked_before_the_work(ending):
    module = Module(kubeconfig=KUBECONFIG)
    seen = []
    ending(lambda *_given: seen.append(set(module.no_log_values)) or {}, module)
    assert seen == [{"hidden"}]


def test_the_work_knows_of_its_call_what_the_module_knows(ending):
    module = Module(host="https://x", text="t", context=None)
    module.check_mode = module._diff = True
    seen = []

    def work(options, call):
        seen.append((options, call.auth, call.check_mode, call.diff))
        call.report("progress")
        return {}

    ending(work, module)
    assert seen == [((module.params, True), {"host": "https://x"}, True, True)]
    assert module.debugged == ["progress"]
