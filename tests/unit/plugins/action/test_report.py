# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of report, in a real run of ansible-playbook."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.action.report import TEMPLATE
from ansible_collections.muster.kube.tests.support.play import play_tasks
from ansible_collections.muster.kube.tests.support.report_cases import two_gangs

SECTIONS = [{"type": "gang_timeline", "gangs": two_gangs()}]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The results of one playbook."""
    root = tmp_path_factory.mktemp("play")
    page = {"dest": str(root / "page.html"), "title": "Played", "sections": SECTIONS}
    tasks = {
        "predicted": {"muster.kube.report": page, "check_mode": True},
        "written": {"muster.kube.report": page, "diff": True},
        "again": {"muster.kube.report": page},
        "by_module": {"muster.kube.report": page, "async": 60, "poll": 1},
        "own": {"muster.kube.report": {**page, "dest": str(root / "own.html"), "template": "no page"}},
        "wrong": {"muster.kube.report": {**page, "sections": [{"type": "gang_timeline", "gangs": [{}]}]}},
    }
    return play_tasks(root, tasks, variables={"ansible_async_dir": str(root / "async")})


def test_the_template_lies_in_the_role():
    assert TEMPLATE.is_file()


def test_the_template_is_read_without_being_asked_for(played):
    assert (played["written"]["ran"], played["written"]["changed"]) == ("in_process", True)
    assert played["written"]["changed_sections"] == ["Gangs"]


def test_check_mode_predicts_and_the_second_run_changes_nothing(played):
    assert (played["predicted"]["changed"], played["again"]["changed"]) == (True, False)


def test_the_module_itself_gets_the_template_too(played):
    answer = played["by_module"]
    assert (answer["ran"], answer["changed"], answer["sections"][0]["transitions"]) == ("module", False, 9)


def test_the_difference_on_the_screen_holds_no_html(played):
    assert "+- Gangs (gang_timeline, " in played.output
    assert "<section" not in played.output


def test_failures_say_what_is_wrong(played):
    assert "the marker %%title%% is missing" in played["own"]["msg"]
    assert "sections[0].gangs[0]: name: it is missing" in played["wrong"]["msg"]
