# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Text becomes HTML in one place, and stays text."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import (
    Html,
    element,
    joined,
    percent,
    safe,
)
from ansible_collections.muster.kube.tests.support.report_cases import parse_page


@hypothesis.given(st.text(), st.text())
def test_whatever_the_text_it_is_one_element_with_that_text(text, attribute):
    tree = parse_page(element("p", {"title": attribute}, text))
    (found,) = tree.children
    shown = safe(text), safe(attribute)
    assert (found.tag, list(found.attributes)) == ("p", ["title"])
    assert not found.find()
    assert (safe(found.text), safe(found.attributes["title"])) == shown


def test_markup_is_kept_and_text_beside_it_escaped():
    assert element("b", {}, Html("<i></i>"), "<i>") == "<b><i></i>&lt;i&gt;</b>"
    assert joined(["<", Html("<br>")], "<>") == "&lt;<><br>"


def test_missing_attributes_are_left_out_and_numbers_written_short():
    assert element("p", {"a": None, "b": 0, "c": 1.5, "d": ""}) == '<p b="0" c="1.5" d=""></p>'


@pytest.mark.parametrize("text", ["\x00", "\x1b[31m", "\r", "\u202eevil", "\ud800", "\u2066"])
def test_characters_a_page_must_not_hold_are_replaced(text):
    assert "\ufffd" in safe(text)
    assert safe(text).encode()


def test_line_ends_and_tabs_stay():
    assert safe("a\n\tb") == "a\n\tb"


@pytest.mark.parametrize(("value", "text"), [(0, "0%"), (100, "100%"), (12.5, "12.5%"), (1 / 3, "0.333%"), (10, "10%")])
def test_percent(value, text):
    assert percent(value) == text
