# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only place where text becomes HTML: Jinja2 escapes whatever a template shows, safe() what frames the sections."""

from __future__ import annotations

import html
import re
import traceback
import typing as t
from collections.abc import Callable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    NOTHING,
    change_text,
    clock_text,
    day_text,
    duration_text,
    moment_text,
    percent,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MissingLibrary

JINJA_IMPORT_ERROR: str | None = None
try:
    import jinja2
    import jinja2.sandbox
except ImportError:
    JINJA_IMPORT_ERROR = traceback.format_exc()

# Characters no page may hold, or that would turn the text around them: controls, halves of pairs, direction overrides.
_UNFIT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# Line breaks and indentation between tags are there for those who read a template; a page goes without.
_BREAK = re.compile(r"(?<=[>}])\n\s*(?=[<{])")
_WORDS: Mapping[str, Callable[[t.Any], str]] = {
    "change": change_text,
    "clock": clock_text,
    "day": day_text,
    "duration": duration_text,
    "moment": moment_text,
    "percent": percent,
}
# What a template that makes no sense may lead to.
_FAULTS = (ArithmeticError, LookupError, TypeError, ValueError)


def check_libraries() -> None:
    """Raise MissingLibrary where no template can be used."""
    if JINJA_IMPORT_ERROR:
        raise MissingLibrary("Jinja2", JINJA_IMPORT_ERROR)


def safe(text: str) -> str:
    """Any text as markup that shows this text."""
    return html.escape(_fit(text), quote=True)


class Templates:
    """The templates of sections by file name; data never become templates, and templates see nothing but values."""

    def __init__(self, texts: Mapping[str, t.Any]) -> None:
        check_libraries()
        self._jinja = jinja2.sandbox.ImmutableSandboxedEnvironment(
            loader=jinja2.DictLoader({str(name): _BREAK.sub("", str(text)) for name, text in texts.items()}),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
        )
        self._jinja.filters |= {name: _or_nothing(function) for name, function in _WORDS.items()}

    def render(self, names: list[str], values: Mapping[str, t.Any]) -> str:
        """The first template that there is, filled with values."""
        try:
            return _fit(self._jinja.select_template(names).render(values))
        except (jinja2.TemplateError, *_FAULTS) as error:
            raise BadInput("use", f"section_templates: {names[0]}", f"{type(error).__name__}: {error}") from error


def _or_nothing(function: Callable[[t.Any], str]) -> Callable[[t.Any], str]:
    """The function, with a dash for what is not known."""
    return lambda value: NOTHING if value is None else function(value)


def _fit(text: str) -> str:
    """A text, with a sign of replacement for each character that no page may hold."""
    return _UNFIT.sub("\ufffd", text)
