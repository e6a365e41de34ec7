# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of inspection, in a real run of ansible-playbook without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.action.inspection import ActionModule
from ansible_collections.muster.kube.tests.support.play import play_tasks

TASKS = {
    "refused": {"muster.kube.inspection": {"image": "i:1", "script": "x", "identifier": "No!"}},
    "both": {"muster.kube.inspection": {"image": "i:1", "script": "x", "src": __file__}},
    "unread": {"muster.kube.inspection": {"image": "i:1", "src": "/nowhere/script"}},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    return play_tasks(tmp_path_factory.mktemp("play"), TASKS)


def test_the_work_is_done_in_place(results):
    assert results["refused"]["ran"] == "in_process"
    assert "identifier" in results["refused"]["msg"]


def test_the_programs_of_the_collection_come_along():
    action = object.__new__(ActionModule)
    options = action.default_args({"image": "i", "collector": "own"})
    assert options["collector"] == "own"
    assert "buildah" in options["build_script"]
    assert "MUSTER RESULT" in action.default_args({})["collector"]
    assert action.default_args({"state": "absent"}) == {"state": "absent"}


def test_rules_between_options_hold_in_place_too(results):
    assert "mutually exclusive: script|src|url" in results["both"]["msg"]


def test_files_are_read_on_the_controller(results):
    assert "Cannot find the file /nowhere/script (src)" in results["unread"]["msg"]
