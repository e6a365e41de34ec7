# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Section types are entries of a registry: what each has to bring, and that one more is one file and one line."""

from __future__ import annotations

import pathlib
import re
import types

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.muster.kube.plugins.module_utils._face.modules.report import FACE, section_spec
from ansible_collections.muster.kube.plugins.module_utils._flow.report.registry import SECTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import write_report
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.modules import report
from ansible_collections.muster.kube.tests.support.report_cases import (
    SECTION_TEMPLATES,
    TEMPLATE,
    parse_page,
    two_gangs,
)

PAGE = pathlib.Path(__file__).resolve().parents[6] / "docs" / "report.md"
MOST_LINES = 30
IMAGES = [{"image": "train:1", "seconds": 90}, {"image": "<b>serve</b>", "seconds": 45.5}]


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_options_of_a_type_are_documented(kind):
    documented = yaml.safe_load(report.DOCUMENTATION)["options"]["sections"]["suboptions"]
    assert {"type", "title", *SECTIONS[kind].options} <= set(documented)
    assert kind in documented["type"]["choices"]


def test_an_option_means_the_same_in_all_types():
    pairs = [(name, option) for section in SECTIONS.values() for name, option in section.options.items()]
    assert all(one == other for name, one in pairs for same, other in pairs if name == same)


@pytest.mark.parametrize("kind", SECTIONS)
def test_what_the_result_tells_of_a_section_is_documented(kind):
    told = yaml.safe_load(report.RETURN)["sections"]["contains"]
    section = SECTIONS[kind]
    entry = {"type": kind, "title": None, section.shows: [{"name": "x", "runs": []}]}
    assert set(section.summary(section.read(entry, "s"))) <= set(told)


def example():
    """The section type that the page adds, as a module."""
    (code,) = re.findall(r"## Add a section type.*?```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(code.splitlines()) <= MOST_LINES
    module = types.ModuleType("images")
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


@pytest.fixture
def write(monkeypatch, tmp_path):
    """Writes a page with the options of a task, where the registry has one line more."""
    monkeypatch.setitem(SECTIONS, "images", example().IMAGES)

    def run(**section):
        texts = {"template": TEMPLATE.read_text(encoding="utf-8"), "section_templates": SECTION_TEMPLATES}
        given = {"dest": str(tmp_path / "page.html"), "sections": [{"type": "images", **section}], **texts}
        sections = {**FACE.spec["sections"], "options": section_spec()}
        checked = ArgumentSpecValidator({**FACE.spec, "sections": sections}).validate(given)
        assert checked.error_messages == []
        answer = write_report(FACE.options(checked.validated_parameters, False))
        return answer, parse_page((tmp_path / "page.html").read_text(encoding="utf-8")).find("section")[0]

    return run


def test_the_type_of_the_page_is_read_drawn_and_summed_up(write):
    answer, tree = write(images=IMAGES)
    assert answer["sections"] == [{"type": "images", "title": "Images", "images": 2}]
    assert tree.attributes["data-type"] == "images"
    assert [item.text for item in tree.find("dl", "figures")[0].children] == ["Built in2 min 16 s"]
    (table,) = tree.find("table")
    assert [[cell.text for cell in row.children] for row in table.find("tr")] == [
        ["Image", "Took"],
        ["train:1", "1 min 30 s"],
        ["<b>serve</b>", "46 s"],
    ]
    assert not tree.find("p")


def test_the_type_of_the_page_names_wrong_entries(write):
    with pytest.raises(BadInput, match=r"sections\[0\]\.images\[1\]: seconds: "):
        write(images=[IMAGES[0], {"image": "x", "seconds": "long"}])


def test_the_type_of_the_page_refuses_what_others_show(write):
    with pytest.raises(BadInput, match=r"sections\[0\]: gangs: a section of type images shows images"):
        write(images=IMAGES, gangs=two_gangs())
