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
SPEC = importlib.util.spec_from_file_location("page_playbook", REPOSITORY / "tests/tools/page_playbook.py")
page_playbook = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(page_playbook)

PLAY = "- name: x\n  hosts: all\n"


def test_plays_are_joined_and_other_blocks_left_out():
    text = f"```yaml\ncollections: []\n```\n\n```yaml\n{PLAY}```\n\ntext\n\n```yaml\n{PLAY}```\n"
    assert yaml.safe_load(page_playbook.plays_of(text)) == [{"name": "x", "hosts": "all"}] * 2


def test_a_page_without_a_play_is_an_error():
    with pytest.raises(SystemExit, match="no play"):
        page_playbook.plays_of("```yaml\ncollections: []\n```\n")


def test_plays_that_bring_a_cluster_can_be_left_out():
    own = "- name: y\n  hosts: all\n  tasks:\n    - muster.kube.local_cluster:\n        name: guide\n"
    text = f"```yaml\n{own}```\n\n```yaml\n{PLAY}```\n"
    assert yaml.safe_load(page_playbook.plays_of(text, own_cluster=True)) == [{"name": "x", "hosts": "all"}]


@pytest.mark.parametrize("page", ["docs/first_gang.md", "docs/share.md", "docs/elastic.md", "docs/inspect.md"])
def test_the_guides_work_without_their_own_cluster_too(page):
    """Who leaves the first play out has no variable cluster; the connection then comes from the environment."""
    plays = yaml.safe_load(page_playbook.plays_of((REPOSITORY / page).read_text(), own_cluster=True))
    assert {play["module_defaults"]["group/muster.kube.kube"]["kubeconfig"] for play in plays} == {
        "{{ cluster.kubeconfig | default(omit) }}"
    }


@pytest.mark.parametrize(
    ("page", "plays"), [("README.md", 1), ("docs/first_gang.md", 5), ("docs/share.md", 5), ("docs/elastic.md", 5)]
)
def test_the_pages_hold_what_they_should(page, plays):
    found = yaml.safe_load(page_playbook.plays_of((REPOSITORY / page).read_text()))
    assert len(found) == plays
    assert all(play["hosts"] == "localhost" and play["tasks"] for play in found)
