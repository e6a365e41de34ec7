# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of component_info: options to calls, answers and errors to results."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import component_info as face
from ansible_collections.muster.kube.plugins.modules import component_info
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, MIDDLE, StackStage


@pytest.fixture
def stage():
    found = StackStage()
    found.course(BASE)
    found.line.sent.clear()
    return found


@pytest.fixture
def call(monkeypatch, stage):
    """Runs the module on a cluster in memory."""
    monkeypatch.setattr(face, "connect", lambda _auth: stage.line.client())
    return lambda **options: call_module(monkeypatch, component_info, options).result


def test_components_are_told_and_nothing_is_written(call, stage):
    result = call()
    assert [(told["name"], told["phase"]) for told in result["components"]] == [("base", "installed")]
    assert result["orphans"] == []
    compared = call(components=[BASE, MIDDLE])["components"]
    assert [(told["name"], told["phase"], bool(told["drift"])) for told in compared] == [
        ("base", "installed", False),
        ("middle", "absent", True),
    ]
    assert not result["changed"]
    assert stage.line.writes == []


def test_names_that_do_not_exist_are_told_with_the_nearest(call):
    result = call(names=["bse"])
    assert result["failed"]
    assert result["error"]["cause"] == "it does not exist; did you mean base?"
