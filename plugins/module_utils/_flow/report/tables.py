# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures and tables that all kinds of sections share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Html, element, joined

NOTHING = "–"
# Longer figures are written smaller.
_LONG_FIGURE = 10


def figures(entries: Iterable[tuple[str, str, str]]) -> Html:
    """The numbers a reader asks for first: each with a name above and a note below."""
    boxes = [
        element(
            "div",
            {},
            element("dt", {}, name),
            element("dd", {"class": "long" if len(figure) > _LONG_FIGURE else None}, figure),
            element("dd", {"class": "note"}, note),
        )
        for name, figure, note in entries
    ]
    return element("dl", {"class": "figures"}, *boxes)


def table(caption: str, names: Iterable[str], rows: Sequence[Html], kind: str) -> Html:
    """A table that scrolls by itself where the page is too narrow."""
    heads = element("thead", {}, element("tr", {}, *(element("th", {"scope": "col"}, name) for name in names)))
    title = element("caption", {}, caption) if caption else ""
    inner = element("table", {"class": kind}, title, heads, element("tbody", {}, joined(rows, "\n")))
    return element("div", {"class": "scroll", "tabindex": 0}, inner)


def cell(*content: str, kind: str | None = None, name: str | None = None) -> Html:
    """One cell; its column's name is shown in it where the table becomes a list."""
    return element("td", {"class": kind, "data-name": name}, *content)


def note(text: str) -> Html | str:
    """A remark in small print; nothing when there is none."""
    return element("div", {"class": "note"}, text) if text else ""


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
