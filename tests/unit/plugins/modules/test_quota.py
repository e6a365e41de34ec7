# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The face of quota: options to calls, results and refusals to answers."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._face.modules import quota as face
from ansible_collections.muster.kube.plugins.modules import quota
from ansible_collections.muster.kube.tests.support.module_call import call_module
from ansible_collections.muster.kube.tests.support.writable_api import WritableApi, refused

QUEUES = [{"name": "a", "nominal": {"cpu": 2}}]


@pytest.fixture
def api():
    return WritableApi()


@pytest.fixture
def call(monkeypatch, api):
    """Runs the module on a small server."""
    monkeypatch.setattr(face, "connect", lambda _auth: api.client())
    lease = {"namespace": "team"}
    return lambda **options: call_module(monkeypatch, quota, {"lease": lease, **options}).result


def test_a_tree_is_foretold_made_found_and_removed(call):
    results = [
        call(queues=QUEUES, _ansible_check_mode=True, _ansible_diff=True),
        call(queues=QUEUES, _ansible_diff=True),
        call(queues=QUEUES, _ansible_diff=True),
        call(state="absent"),
        call(state="absent"),
    ]
    assert [result["changed"] for result in results] == [True, True, False, True, False]
    assert results[0]["diff"] == results[1]["diff"]
    assert results[1]["queues"][0]["resources"][0]["entitled"] == "2"
    assert (results[1]["tree"], results[1]["namespace"], results[1]["ran"]) == ("default", "team", "module")
    assert results[3]["queues"] == []


def test_everything_that_is_wrong_is_told_at_once(call, api):
    result = call(queues=[*QUEUES, {"name": "b", "parent": "gone", "nominal": {"cpu": "many"}}])
    assert result["failed"]
    assert [problem["field"] for problem in result["problems"]] == ["parent", "nominal.cpu"]
    assert api.asked == []


def test_queues_are_needed_for_a_tree(call):
    assert "state is present but any of the following are missing: queues, from_quota_subtrees" in call()["msg"]


def test_a_missing_right_is_named(call, api):
    api.fixed["POST", "/api/v1/namespaces/team/configmaps"] = [refused(403, "Forbidden", "no")]
    result = call(queues=QUEUES)
    assert result["failed"]
    assert "muster-quota-default" in result["msg"]
