# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text becomes HTML in one place, and stays text."""

from __future__ import annotations

import importlib.util
import re
import sys

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report import markup
from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Templates, safe
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Figure
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary
from ansible_collections.muster.kube.tests.support.report_cases import (
    SECTION_TEMPLATES,
    draw_parsed,
    gang,
    parse_page,
    section,
    step,
)

PARAGRAPH = Templates({"p": '<p title="{{ attribute }}">{{ text }}</p>'})


def rendered(template, **values):
    """What a template makes of values."""
    return Templates({**SECTION_TEMPLATES, "t": template}).render(["t"], values)


@hypothesis.given(st.text(), st.text())
def test_whatever_the_text_it_is_one_element_with_that_text(text, attribute):
    tree = parse_page(PARAGRAPH.render(["p"], {"text": text, "attribute": attribute}))
    (found,) = tree.children
    shown = safe(text), safe(attribute)
    assert (found.tag, list(found.attributes)) == ("p", ["title"])
    assert not found.find()
    assert (safe(found.text), safe(found.attributes["title"])) == shown


def test_markup_is_kept_and_text_beside_it_escaped():
    bold = "{% macro bold(text) %}<b>{{ text }}</b>{% endmacro %}{{ bold(text) }}{{ text }}"
    assert rendered(bold, text="<i>") == "<b>&lt;i&gt;</b>&lt;i&gt;"


def test_texts_put_together_are_escaped_once():
    assert rendered('{{ text ~ "&" }}|{{ [text, "<"]|join("&") }}', text=">") == "&gt;&amp;|&gt;&amp;&lt;"


def test_line_breaks_between_tags_are_left_out_and_those_of_texts_stay():
    assert rendered("<ul>\n  {% if text %}\n  <li>{{ text }}</li>\n  {% endif %}\n</ul>\n", text="a\n<b") == (
        "<ul><li>a\n&lt;b</li></ul>"
    )


def test_only_long_figures_and_bad_news_are_marked():
    drawn = rendered(
        '{% import "elements.html.j2" as page %}{{ page.figures(entries) }}',
        entries=[Figure("a", "short"), Figure("b", "a long figure", "bad news", True)],
    )
    one, other = parse_page(drawn).find("div")
    assert [item.classes for item in one.find("dd")] == [[], ["note"]]
    assert [item.classes for item in other.find("dd")] == [["long"], ["note"]]
    assert [item.text for item in parse_page(drawn).find("span", "bad")] == ["bad news"]


def test_missing_attributes_are_left_out_and_numbers_written_short():
    asking = {"podsets": [{"count": 3, "requests": {"example.com/gpu": "1"}}]}
    running = gang("g", step("queued", 0), step("running", 9), step("complete", 60), spec=asking)
    tree = draw_parsed(section([running], capacity={"example.com/gpu": "8"}))
    (line,) = tree.find("line", "capacity")
    assert (line.attributes["y1"], line.attributes["y2"]) == ("6", "6")
    (block,) = tree.find("rect", "used")
    assert (block.attributes["y"], block.attributes["height"]) == ("36.0", "18.0")
    figure, _note = tree.find("dl", "figures")[0].find("dd")[:2]
    assert figure.attributes == {}


def test_what_is_not_known_is_a_dash():
    assert rendered("{{ none|clock }} {{ none|duration }} {{ 90|duration }} {{ none|change }}") == "– – 1 min 30 s –"


@pytest.mark.parametrize("text", ["\x00", "\x1b[31m", "\r", "\u202eevil", "\ud800", "\u2066"])
def test_characters_a_page_must_not_hold_are_replaced(text):
    for shown in (safe(text), rendered("{{ text }}", text=text)):
        assert "\ufffd" in shown
        assert shown.encode()


def test_line_ends_and_tabs_stay():
    assert safe("a\n\tb") == rendered("{{ text }}", text="a\n\tb") == "a\n\tb"


@pytest.mark.parametrize(
    ("template", "cause"),
    [
        ("{{ nonsuch }}", "UndefinedError: 'nonsuch' is undefined"),
        ("{{ text.nonsuch }}", "UndefinedError: 'str object' has no attribute 'nonsuch'"),
        ("{% if %}", "TemplateSyntaxError: Expected an expression, got 'end of statement block'"),
        ("{{ 1 / 0 }}", "ZeroDivisionError: division by zero"),
        ("{{ text + 1 }}", "TypeError: can only concatenate str"),
        ('{% include "nonsuch.html" %}', "TemplateNotFound: nonsuch.html"),
        ("{{ text.__class__.__mro__ }}", "SecurityError: access to attribute '__class__' of 'str' object is unsafe."),
    ],
)
def test_templates_that_make_no_sense_are_refused(template, cause):
    with pytest.raises(BadInput, match=re.escape(f"Cannot use section_templates: t: {cause}")):
        rendered(template, text="x")


def test_a_template_that_is_not_there_is_named():
    with pytest.raises(BadInput, match=r"section_templates: pie\.html\.j2: TemplatesNotFound"):
        Templates({"other": ""}).render(["pie.html.j2", "section.html.j2"], {})


def test_without_jinja2_its_name_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    specification = importlib.util.find_spec(markup.__name__)
    assert specification is not None
    imported = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(imported)
    with pytest.raises(MissingLibrary) as raised:
        imported.Templates({})
    assert raised.value.library == "Jinja2"
    assert "import of jinja2 halted" in raised.value.traceback
