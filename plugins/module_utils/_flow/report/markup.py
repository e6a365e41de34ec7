# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only place where text becomes HTML: whatever is not markup made here is escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping

# Characters no page may hold, or that would turn the text around them: controls, halves of pairs, direction overrides.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class Html(str):
    """Markup that is safe to put into a page as it is."""

    __slots__ = ()


Attributes = Mapping[str, "str | int | float | None"]


def safe(text: str) -> Html:
    """Any text as markup that shows this text."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(_UNFIT.sub("\ufffd", str(text)), quote=True))


def element(name: str, attributes: Attributes | None = None, *children: str) -> Html:
    """One element; attributes that are None are left out, children that are no markup are escaped."""
    given = {key: value for key, value in (attributes or {}).items() if value is not None}
    written = "".join(f' {key}="{safe(_value(value))}"' for key, value in given.items())
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Html:
    """Parts one after the other."""
    return Html(between.join(safe(part) for part in parts))


def percent(value: float) -> str:
    """A place along the axis, to a thousandth of its length in hundredths."""
    return f"{value:.3f}".rstrip("0").rstrip(".") + "%"


def _value(value: str | int | float) -> str:
    """The text of an attribute."""
    return value if isinstance(value, str) else f"{value:g}"
