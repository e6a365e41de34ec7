# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing a report: only when something changed, in one step, and never half."""

from __future__ import annotations

import os

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report import write
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import ReportOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.tests.support import inspection_cases
from ansible_collections.muster.kube.tests.support.report_cases import (
    SECTION_TEMPLATES,
    TEMPLATE,
    section,
    two_gangs,
)

TEXT = TEMPLATE.read_text(encoding="utf-8")


@pytest.fixture
def report(tmp_path):
    """Writes a report into the test's directory."""

    def run(*sections, dest="page.html", title="Title", template=TEXT, templates=SECTION_TEMPLATES, check_mode=False):
        return write.write_report(ReportOptions(tmp_path / dest, title, sections, template, templates, check_mode))

    return run


def test_a_new_file(report, tmp_path):
    result = report(section(two_gangs(), title="One"))
    content = (tmp_path / "page.html").read_bytes()
    assert (result["changed"], result["size"], result["dest"]) == (True, len(content), str(tmp_path / "page.html"))
    assert result["sections"] == [{"type": "gang_timeline", "title": "One", "gangs": 2, "transitions": 9}]
    assert result["changed_sections"] == ["One"]
    assert os.stat(tmp_path / "page.html").st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_section_of_inspections(report):
    (summary,) = report(inspection_cases.section(inspection_cases.two_stacks(), title="Stacks"))["sections"]
    assert summary == {"type": "inspections", "title": "Stacks", "inspections": 2, "runs": 17, "failed_runs": 1}


def test_a_section_refuses_data_it_would_not_show(report):
    with pytest.raises(BadInput, match=r"sections\[0\]: gangs: a section of type inspections shows inspections"):
        report(inspection_cases.section(inspection_cases.two_stacks(), gangs=two_gangs()))
    with pytest.raises(BadInput, match=r"sections\[0\]: inspections: a section of type gang_timeline shows gangs"):
        report(section(two_gangs(), inspections=inspection_cases.two_stacks()))


def test_the_second_time_nothing_is_written(report, monkeypatch):
    report(section(two_gangs()))
    monkeypatch.setattr(write, "_replace", lambda *_args: pytest.fail("it was written"))
    again = report(section(two_gangs()))
    assert (again["changed"], again["changed_sections"]) == (False, [])
    assert again["diff"]["before"] == again["diff"]["after"]


def test_check_mode_predicts_and_writes_nothing(report, tmp_path):
    predicted = report(section(two_gangs()), check_mode=True)
    assert os.listdir(tmp_path) == []
    assert predicted == report(section(two_gangs()))
    assert not report(section(two_gangs()), check_mode=True)["changed"]


def test_the_difference_names_sections_and_no_html(report):
    report(section(two_gangs(), title="Same"), section(two_gangs(), title="Other"), section([], title="Gone"))
    result = report(section(two_gangs(), title="Same"), section(two_gangs()[:1], title="Other"))
    assert result["changed_sections"] == ["Other", "Gone"]
    before, after = (result["diff"][side].splitlines() for side in ("before", "after"))
    assert (before[0], before[1]) == (after[0], after[1])
    assert before[2] != after[2]
    assert after[2].startswith("- Other (gang_timeline, ")
    assert "<" not in result["diff"]["before"] + result["diff"]["after"]


def test_another_title_is_a_change_of_no_section(report):
    report(section([]), title="Old")
    result = report(section([]), title="New")
    assert (result["changed"], result["changed_sections"]) == (True, [])
    assert (result["diff"]["before"].splitlines()[0], result["diff"]["after"].splitlines()[0]) == ("Old", "New")


def test_a_foreign_file_is_replaced_and_said_to_be_one(report, tmp_path):
    (tmp_path / "page.html").write_bytes(b"\xff\xfe something else")
    result = report(section([]))
    assert (result["changed"], result["diff"]["before"]) == (True, "another file\n")


def test_an_existing_file_keeps_its_mode_and_a_link_its_place(report, tmp_path):
    (tmp_path / "real.html").write_text("old")
    os.chmod(tmp_path / "real.html", 0o600)
    (tmp_path / "page.html").symlink_to("real.html")
    report(section([]))
    assert (tmp_path / "page.html").is_symlink()
    assert os.stat(tmp_path / "real.html").st_mode & 0o777 == 0o600
    assert (tmp_path / "real.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_missing_directory_is_named(report, tmp_path):
    with pytest.raises(MusterError, match=r"Cannot write .*nowhere/page.html: No such file or directory"):
        report(section([]), dest="nowhere/page.html")


def test_a_directory_is_no_file(report, tmp_path):
    (tmp_path / "page.html").mkdir()
    with pytest.raises(MusterError, match=r"Cannot read .*page.html: Is a directory"):
        report(section([]))


def test_a_failed_move_leaves_the_old_file_and_nothing_else(report, tmp_path, monkeypatch):
    (tmp_path / "page.html").write_text("old")

    def refuse(_source, _target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(write.os, "replace", refuse)
    with pytest.raises(MusterError, match=r"Cannot write .*: Operation not permitted"):
        report(section([]))
    assert os.listdir(tmp_path) == ["page.html"]
    assert (tmp_path / "page.html").read_text() == "old"


@pytest.mark.parametrize("template", [None, ""])
def test_without_a_template_there_is_no_page(report, template):
    with pytest.raises(BadInput, match="Cannot use template: it is empty"):
        report(section([]), template=template)


@pytest.mark.parametrize("templates", [None, {}])
def test_without_templates_of_sections_there_is_no_page(report, templates):
    with pytest.raises(BadInput, match="Cannot use section_templates: it is empty"):
        report(section([]), templates=templates)


def test_a_template_of_ones_own_draws_its_type(report, tmp_path):
    own = {**SECTION_TEMPLATES, "gang_timeline.html.j2": "<p>{{ title }}: {{ rows|length }} gangs</p>"}
    report(section(two_gangs(), title="<Mine>"), templates=own)
    assert "<p>&lt;Mine&gt;: 2 gangs</p></section>" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_wrong_data_write_nothing(report, tmp_path):
    with pytest.raises(BadInput, match=r"sections\[1\]: as_of: a time such as"):
        report(section([]), section([], as_of="soon"))
    assert os.listdir(tmp_path) == []
