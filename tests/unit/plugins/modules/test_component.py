# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of component: options to calls, results and errors to answers."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import component as face
from ansible_collections.muster.kube.plugins.modules import component
from ansible_collections.muster.kube.tests.support.component_stage import ComponentStage, config_map
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.support.stack_stage import BASE, STACK, StackStage


@pytest.fixture
def stage():
    return ComponentStage()


@pytest.fixture
def call(monkeypatch, stage):
    """Runs the module on a cluster in memory."""
    monkeypatch.setattr(face, "connect", lambda _auth: stage.line.client())
    return lambda **options: call_module(monkeypatch, component, {"name": "widgets", **options}).result


@pytest.fixture
def stack(monkeypatch):
    """Runs the module on several components in a cluster in memory."""
    stage = StackStage()
    monkeypatch.setattr(face, "connect", lambda _auth: stage.line.client())
    return lambda **options: call_module(monkeypatch, component, options).result


def test_a_component_is_made_found_and_removed(call):
    objects = [config_map("a", "team")]
    results = [
        call(definition=objects, _ansible_check_mode=True, _ansible_diff=True),
        call(definition=objects, _ansible_diff=True),
        call(definition=objects, _ansible_diff=True),
        call(state="absent", _ansible_diff=True),
        call(state="absent", _ansible_diff=True),
    ]
    assert [result["changed"] for result in results] == [True, True, False, True, False]
    assert [len(result["diff"]) for result in results] == [1, 1, 0, 1, 0]
    (told,) = results[1]["objects"]
    assert told == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "namespace": "team",
        "name": "a",
        "action": "created",
        "untried": False,
    }
    assert all(result["ran"] == "module" for result in results)


def test_a_missing_right_is_named_with_object_verb_and_cause(call, stage):
    stage.forbid("configmaps", verbs=("patch",))
    result = call(definition=[config_map("a", "team")])
    assert result["failed"]
    assert result["msg"].startswith("Cannot patch ConfigMap team/a: configmaps")
    assert (result["error"]["verb"], result["error"]["resource"]) == ("patch", "configmaps")


def test_several_refusals_are_told_each(call, stage):
    stage.forbid("configmaps", verbs=("patch",))
    result = call(definition=[config_map("a", "team"), config_map("b", "team")])
    assert [error["object"] for error in result["error"]["refusals"]] == ["ConfigMap team/a", "ConfigMap team/b"]


def test_waiting_in_vain_fails_with_what_was_done(call, stage):
    held = config_map("a", "team")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    call(definition=[held])
    result = call(state="absent", wait_timeout="3")
    assert (result["failed"], result["changed"]) == (True, True)
    assert result["error"]["object"] == "ConfigMap team/a"


def test_several_components_are_made_and_removed(stack):
    results = [
        stack(components=STACK, _ansible_check_mode=True),
        stack(components=STACK, _ansible_diff=True),
        stack(components=STACK),
        stack(components=[{"name": item["name"]} for item in STACK], state="absent", remove_definitions=True),
        stack(components=[{"name": item["name"]} for item in STACK], state="absent"),
    ]
    assert [result["changed"] for result in results] == [True, True, False, True, False]
    actions = [[told["action"] for told in result["components"]] for result in results]
    assert actions == [["installed"] * 3, ["installed"] * 3, ["unchanged"] * 3, ["removed"] * 3, ["unchanged"] * 3]
    assert results[1]["diff"]
    assert "objects" not in results[1]


def test_one_component_with_a_source_has_the_keys_of_one(stack):
    result = stack(**BASE, source="manifest")
    assert [told["action"] for told in result["objects"]] == ["created"] * 6
    assert result["kept"] == result["unseen"] == []
    assert result["components"][0]["versions"] == {"before": None, "after": "1.0.0"}
    assert stack(name="base", state="absent")["components"][0]["action"] == "removed"


def test_a_step_that_fails_fails_the_task_with_the_object(stack):
    objects = [obj for obj in BASE["definition"] if obj["kind"] != "Service"]
    result = stack(name="base", source="manifest", definition=objects, wait_timeout="5")
    assert result["failed"]
    assert result["msg"].startswith("Cannot wait for component base: webhooks: ValidatingWebhookConfiguration")
    assert result["components"][0]["ladder"][4]["outcome"] == "failed"
