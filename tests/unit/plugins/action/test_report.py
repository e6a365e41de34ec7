# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin of report, in a real run of ansible-playbook."""

from __future__ import annotations

import pathlib
import re
import types

import pytest
from ansible_collections.muster.kube.plugins.action.report import ActionModule
from ansible_collections.muster.kube.tests.support.play import play_tasks
from ansible_collections.muster.kube.tests.support.report_cases import two_gangs

SECTIONS = [{"type": "gang_timeline", "gangs": two_gangs()}]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The results of one playbook."""
    root = tmp_path_factory.mktemp("play")
    page = {"dest": str(root / "page.html"), "title": "Played", "sections": SECTIONS}
    (root / "mine.html.j2").write_text("<p>{{ title }}: {{ 7 * 7 }}</p>")
    own = {"gang_timeline.html.j2": "{{ lookup('ansible.builtin.file', 'mine.html.j2') }}"}
    tasks = {
        "predicted": {"muster.kube.report": page, "check_mode": True},
        "written": {"muster.kube.report": page, "diff": True},
        "again": {"muster.kube.report": page},
        "by_module": {"muster.kube.report": page, "async": 60, "poll": 1},
        "own": {"muster.kube.report": {**page, "dest": str(root / "own.html"), "template": "no page"}},
        "other_look": {"muster.kube.report": {**page, "dest": str(root / "look.html"), "section_templates": own}},
        "no_templates": {"muster.kube.report": {**page, "section_templates": "none"}},
        "wrong": {"muster.kube.report": {**page, "sections": [{"type": "gang_timeline", "gangs": [{}]}]}},
    }
    return play_tasks(root, tasks, variables={"ansible_async_dir": str(root / "async")})


def test_the_templates_lie_in_a_folder_of_their_own():
    filled = object.__new__(ActionModule).default_args({"template": "", "section_templates": {"mine.html.j2": "x"}})
    assert "%%title%%" in filled["template"]
    assert set(filled["section_templates"]) == {
        "allocation.html.j2",
        "elements.html.j2",
        "gang_timeline.html.j2",
        "inspections.html.j2",
        "mine.html.j2",
        "quota_tree.html.j2",
        "section.html.j2",
    }


def test_one_template_of_a_section_can_be_replaced(played):
    page = pathlib.Path(played["other_look"]["dest"]).read_text(encoding="utf-8")
    assert "<p>Gangs: 49</p></section>" in page


def test_the_result_does_not_repeat_the_collections_templates():
    action = object.__new__(ActionModule)
    action._task = types.SimpleNamespace(args={"title": "t"})
    shown = action._shown(action.default_args({"title": "t" * 2000}))
    assert shown["title"] == "t" * 2000
    for name in ("template", "section_templates"):
        assert re.fullmatch(r"\(\d{5} characters of the collection's own\)", shown[name])


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
    assert "'section_templates' is of type" in played["no_templates"]["msg"]
    assert "sections[0].gangs[0]: name: it is missing" in played["wrong"]["msg"]
