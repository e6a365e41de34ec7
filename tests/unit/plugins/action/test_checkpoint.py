# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of checkpoint, in a real run of ansible-playbook without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.play import play_tasks

TASKS = {
    "wrong": {"muster.kube.checkpoint": {"name": "g", "saved": True}},
    "misspelled": {"muster.kube.checkpoint": {"name": "g", "stepp": 3}},
    "empty": {"muster.kube.checkpoint": {}},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    return play_tasks(tmp_path_factory.mktemp("play"), TASKS)


def test_the_work_is_done_in_place(results):
    assert results["wrong"]["ran"] == "in_process"
    assert results["wrong"]["msg"] == "Cannot read step: it is missing; saved tells nothing without it"


def test_an_option_that_does_not_exist_is_answered_with_the_nearest(results):
    assert "stepp (did you mean step?)" in results["misspelled"]["msg"]
    assert "name" in results["empty"]["msg"]
