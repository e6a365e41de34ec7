# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook of the README is found and complete."""

from __future__ import annotations

import importlib.util
import pathlib

import pytest
import yaml

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
SPEC = importlib.util.spec_from_file_location("readme_playbook", REPOSITORY / "tests/tools/readme_playbook.py")
readme_playbook = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(readme_playbook)


def test_other_blocks_are_passed_over():
    text = "```shell\nls\n```\n```yaml\ncollections: []\n```\n```yaml\n- name: x\n  hosts: all\n```\n"
    assert readme_playbook.first_playbook(text) == "- name: x\n  hosts: all\n"


def test_a_readme_without_playbook_is_an_error():
    with pytest.raises(SystemExit, match="no playbook"):
        readme_playbook.first_playbook("```yaml\ncollections: []\n```\n")


def test_the_readme_shows_a_cluster_a_question_and_an_answer():
    (play,) = yaml.safe_load(readme_playbook.first_playbook((REPOSITORY / "README.md").read_text()))
    actions = [key for task in play["tasks"] for key in task if "." in key]
    assert actions == ["muster.kube.local_cluster", "muster.kube.fit_info", "ansible.builtin.debug"]
