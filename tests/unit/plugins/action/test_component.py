# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of component, in a real run of ansible-playbook without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.play import play_tasks

TASKS = {
    "empty": {"muster.kube.component": {"name": "widgets"}},
    "both": {"muster.kube.component": {"name": "widgets", "definition": {}, "src": __file__}},
    "misspelled": {"muster.kube.component": {"name": "widgets", "definitions": {}}},
    "missing": {"muster.kube.component": {"name": "widgets", "src": "nowhere.yaml"}},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    return play_tasks(tmp_path_factory.mktemp("play"), TASKS)


def test_the_work_is_done_in_place(results):
    assert results["empty"]["ran"] == "in_process"
    assert results["empty"]["msg"] == (
        "Cannot read component widgets: definition: it is empty: give objects in definition or src"
    )


def test_rules_between_options_hold_in_place_too(results):
    assert "mutually exclusive: definition|src" in results["both"]["msg"]


def test_what_does_not_exist_is_named(results):
    assert "definitions (did you mean definition?)" in results["misspelled"]["msg"]
    assert results["missing"]["msg"].startswith("Cannot find the file nowhere.yaml (src)")
