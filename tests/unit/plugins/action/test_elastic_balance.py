# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of elastic_balance, in a real run of ansible-playbook without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.play import play_tasks

TASKS = {
    "looked": {"muster.kube.elastic_balance": {"host": "http://127.0.0.1:1"}, "check_mode": True},
    "refused": {"muster.kube.elastic_balance": {"near_end": 3, "host": "http://127.0.0.1:1"}},
    "unknown": {"muster.kube.elastic_balance": {"policy": "random"}},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    return play_tasks(tmp_path_factory.mktemp("play"), TASKS)


def test_check_mode_looks_at_the_cluster(results):
    assert "no answer from http://127.0.0.1:1" in results["looked"]["msg"]


def test_settings_are_checked_before_anything_is_asked(results):
    assert results["refused"]["ran"] == "in_process"
    assert "a part of the work from 0 to 1 is needed" in results["refused"]["msg"]


def test_options_are_checked_in_place(results):
    assert "value of policy must be one of" in results["unknown"]["msg"]
