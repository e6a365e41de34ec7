# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a module ends."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._args.answering import answer
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import MissingLibrary
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError

KUBECONFIG = {"users": [{"name": "u", "user": {"token": "hidden"}}]}


class Ended(Exception):
    """The module ended: how, and with which keys."""


class Module:
    """As much of AnsibleModule as an ending needs."""

    def __init__(self):
        self.no_log_values = set()
        self.warned = []

    def warn(self, text):
        self.warned.append(text)

    def exit_json(self, **keys):
        raise Ended("exit", keys)

    def fail_json(self, **keys):
        raise Ended("fail", keys)


def ending(work, module=None, **always):
    with pytest.raises(Ended) as ended:
        answer(module or Module(), work, **always)
    return ended.value.args


def raising(error):
    def work():
        raise error

    return work


def test_a_result_is_returned_with_what_is_always_there():
    assert ending(lambda: {"a": 1}, ran="module") == ("exit", {"a": 1, "ran": "module"})


@pytest.mark.parametrize("failed", [False, True])
def test_warnings_are_given_as_ansible_wants_them(failed):
    module = Module()
    how, keys = ending(lambda: {"a": 1, "failed": failed, "warnings": ["beware"]}, module)
    assert (how, keys, module.warned) == ("fail" if failed else "exit", {"a": 1}, ["beware"])


def test_a_result_that_is_a_failure_fails_with_all_its_keys():
    assert ending(lambda: {"failed": True, "msg": "no", "items": []}) == ("fail", {"msg": "no", "items": []})
    assert ending(lambda: {"failed": False, "a": 1}) == ("exit", {"a": 1})


def test_an_error_of_the_family_names_object_action_and_cause():
    how, keys = ending(raising(MusterError("read", "x", "gone")), ran="module")
    assert (how, keys["msg"], keys["ran"]) == ("fail", "Cannot read x: gone", "module")
    assert keys["error"] == {"action": "read", "object": "x", "cause": "gone"}


def test_a_missing_library_is_named():
    how, keys = ending(raising(MissingLibrary("kubernetes", "the traceback")))
    assert (how, keys["exception"]) == ("fail", "the traceback")
    assert "kubernetes" in keys["msg"]


def test_other_errors_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        answer(Module(), raising(ZeroDivisionError()))


def test_secrets_of_a_kubeconfig_are_masked_before_the_work():
    module = Module()
    seen = []
    ending(lambda: seen.append(set(module.no_log_values)) or {}, module, kubeconfig=KUBECONFIG)
    assert seen == [{"hidden"}]
