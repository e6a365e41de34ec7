# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recorded components made, repaired, upgraded and taken away in a cluster in memory, alone and several at once."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.stack_stage import (
    BASE,
    MIDDLE,
    STACK,
    TOP,
    StackStage,
    next_version,
)


@pytest.fixture
def stage():
    return StackStage()


def absent(*names):
    """Components as a removal names them."""
    return [{"name": name} for name in names or ("base", "middle", "top")]


def test_components_are_made_in_the_order_of_their_needs_and_once(stage):
    assert stage.course(TOP, MIDDLE, BASE) == {"top": "installed", "middle": "installed", "base": "installed"}
    stage.line.sent.clear()
    assert stage.course(*STACK) == dict.fromkeys(("base", "middle", "top"), "unchanged")
    assert stage.line.writes == []


def test_check_mode_writes_nothing_and_tells_what_the_real_run_does(stage):
    for components in (STACK, [next_version(item) for item in STACK]):
        stage.line.sent.clear()
        foretold = stage.task(*components, check_mode=True).as_result(diff=True)
        assert stage.line.writes == []
        done = stage.task(*components).as_result(diff=True)
        assert [
            (told["action"], [(item["name"], item["action"]) for item in told["objects"]])
            for told in foretold["components"]
        ] == [
            (told["action"], [(item["name"], item["action"]) for item in told["objects"]])
            for told in done["components"]
        ]


def test_the_record_is_written_before_the_first_object(stage):
    stage.course(BASE)
    paths = [path for _method, path in stage.line.writes]
    assert paths[0] == "/api/v1/namespaces"
    assert paths[1].endswith("/leases")
    assert paths[2] == "/api/v1/namespaces/muster-system/configmaps"
    assert paths[3].endswith("customresourcedefinitions/widgets.example.com")
    record = stage.record("base")
    assert (record.phase, record.version) == ("installed", "1.0.0")
    assert all(entry.uid for entry in record.entries)
    assert {entry.key.kind for entry in record.entries} == {obj["kind"] for obj in BASE["definition"]}


def test_removal_leaves_the_cluster_as_it_was(stage):
    before = stage.inventory()
    stage.course(*STACK)
    assert stage.course(*absent(), state="absent", remove_definitions=True) == dict.fromkeys(
        ("base", "middle", "top"), "removed"
    )
    assert stage.inventory() == before
    stage.line.sent.clear()
    assert stage.course(*absent(), state="absent") == dict.fromkeys(("base", "middle", "top"), "unchanged")
    assert stage.line.writes == []
