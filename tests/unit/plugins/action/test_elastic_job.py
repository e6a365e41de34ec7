# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of elastic_job, in a real run of ansible-playbook without a cluster."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.tests.support.play import play_tasks

ROLE = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r"}}
TASKS = {
    "refused": {"muster.kube.elastic_job": {"definition": ROLE}},
    "both": {"muster.kube.elastic_job": {"definition": ROLE, "src": __file__}},
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results of one playbook."""
    return play_tasks(tmp_path_factory.mktemp("play"), TASKS)


def test_the_work_is_done_in_place(results):
    assert results["refused"]["ran"] == "in_process"
    assert "names the sizes that it may have" in results["refused"]["msg"]


def test_rules_between_options_hold_in_place_too(results):
    assert "mutually exclusive: definition|src" in results["both"]["msg"]
