# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Label and field selectors as requests carry them."""

from __future__ import annotations

import functools
import re
import typing as t

Labels = t.Mapping[str, str]

_REQUIREMENT = re.compile(
    r"\s*(?:(?P<not>!)\s*(?P<absent>[^\s,!=()]+)"
    r"|(?P<key>[^\s,!=()]+)(?:\s+(?P<set>in|notin)\s*\((?P<values>[^)]*)\)|\s*(?P<op>==|=|!=)\s*(?P<value>[^,\s]*))?)"
    r"\s*(?:,|$)"
)
_ANYWHERE = ("metadata.name", "metadata.namespace")


@functools.lru_cache(maxsize=1000)
def label_selector(text: str) -> t.Callable[[Labels], bool]:
    """Whether labels match; ValueError for what is no selector."""
    tests: list[t.Callable[[Labels], bool]] = []
    position = 0
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None or match.end() == position:
            raise ValueError(f"unable to parse requirement: {text!r}")
        tests.append(_requirement(match))
        position = match.end()
    return lambda labels: all(test(labels) for test in tests)


def _requirement(match: re.Match[str]) -> t.Callable[[Labels], bool]:
    """One part of a label selector; labels that are missing are unequal to everything."""
    if match["absent"]:
        absent = match["absent"]
        return lambda labels: absent not in labels
    key = match["key"]
    if match["set"]:
        values = {value.strip() for value in match["values"].split(",")}
        if match["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match["op"] == "!=":
        return lambda labels: labels.get(key) != match["value"]
    if match["op"]:
        return lambda labels: labels.get(key) == match["value"]
    return lambda labels: key in labels


def field_selector(text: str, known: t.Sequence[str]) -> t.Callable[[t.Mapping[str, t.Any]], bool]:
    """Whether an object's fields match; ValueError for fields that cannot be selected by."""
    wanted: list[tuple[list[str], str, bool]] = []
    for part in filter(None, text.split(",")):
        path, value = re.split(r"!=|==|=", part, maxsplit=1)
        if path not in (*_ANYWHERE, *known):
            raise ValueError(f"field label not supported: {path}")
        wanted.append((path.split("."), value, "!=" not in part))

    def matches(obj: t.Mapping[str, t.Any]) -> bool:
        return all((_field(obj, steps) == value) is equal for steps, value, equal in wanted)

    return matches


def _field(obj: t.Mapping[str, t.Any], steps: t.Sequence[str]) -> str:
    """A field as text; one that is missing is empty."""
    value: t.Any = obj
    for step in steps:
        value = value.get(step) if isinstance(value, dict) else None
    return "" if value is None else str(value)
