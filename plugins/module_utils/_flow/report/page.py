# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page around the sections: a template with markers, and a policy that lets it load and run nothing else.

The policy names the template's own style and script by their digests, so that nothing smuggled into the data could run
even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Templates, safe
from ansible_collections.muster.kube.plugins.module_utils._flow.report.registry import SECTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Titled
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

GENERATOR = "muster.kube report"
MARKERS = ("title", "policy", "sections")
_NOTHING_TO_SHOW = '<p class="empty">Nothing to report.</p>'
_USUAL_TEMPLATE = "section.html.j2"
_MARKER = re.compile(r"%%([a-z]+)%%")
_BLOCK = {name: re.compile(rf"<{name}>(.*?)</{name}>", re.DOTALL) for name in ("style", "script")}
_SECTION = re.compile(r'<section class="section" data-type="([a-z_]+)" data-title="([^"]*)" data-digest="([0-9a-f]+)"')


def build_page(template: str, templates: Templates, title: str, sections: Sequence[tuple[str, Titled]]) -> str:
    """The whole page; each section comes with its type."""
    start = template.find("<!doctype html>")
    markers = _MARKER.findall(template)
    for name in MARKERS:
        if name not in markers:
            raise BadInput("use", "template", f"the marker %%{name}%% is missing")
    for name in markers:
        if name not in MARKERS:
            raise BadInput("use", "template", f"the marker %%{name}%% is unknown; known are {', '.join(MARKERS)}")
    if start < 0:
        raise BadInput("use", "template", "it has no line <!doctype html>")
    page = template[start:]
    drawn = "\n".join(draw_section(templates, index, *section) for index, section in enumerate(sections, 1))
    parts = {"title": safe(title), "policy": safe(_policy(page)), "sections": drawn or _NOTHING_TO_SHOW}
    # In one pass: markers that come with the data stay text.
    return _MARKER.sub(lambda found: parts[found.group(1)], page)


def draw_section(templates: Templates, index: int, kind: str, section: Titled) -> str:
    """One section, with a digest of what it shows by which the next run sees whether it changed."""
    heading = f"section-{index}-title"
    values = {"title": section.title, "heading": heading, **SECTIONS[kind].draw(section)}
    body = templates.render([f"{kind}.html.j2", _USUAL_TEMPLATE], values)
    digest = hashlib.sha256(body.encode()).hexdigest()[:16]
    marks = f'data-type="{kind}" data-title="{safe(section.title)}" data-digest="{digest}"'
    return f'<section class="section" {marks} aria-labelledby="{heading}">{body}</section>'


def sections_of_page(page: str) -> list[tuple[str, str, str]] | None:
    """Type, title and digest of each section of a page written earlier; None when it is another file."""
    if f'content="{GENERATOR}"' not in page:
        return None
    return [(kind, html.unescape(title), digest) for kind, title, digest in _SECTION.findall(page)]


def title_of_page(page: str) -> str:
    """The title of a page written earlier, empty when it has none."""
    found = re.search(r"<title>([^<]*)</title>", page)
    return html.unescape(found.group(1)) if found else ""


def _policy(page: str) -> str:
    """Content security policy: no requests at all, and only the style and script of the template itself."""
    allowed = [f"{name}-src {_digests(pattern.findall(page))}" for name, pattern in _BLOCK.items()]
    return "; ".join(["default-src 'none'", *allowed, "base-uri 'none'", "form-action 'none'"])


def _digests(texts: list[str]) -> str:
    """The digests of inline blocks as the policy writes them."""
    digests = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
