# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Selectors over labels: of pods, of namespaces and of nodes, as the API server and kube-scheduler evaluate them."""

from __future__ import annotations

import dataclasses
import re
import typing as t

Labels = t.Mapping[str, str]
_INTEGER = re.compile(r"[+-]?[0-9]+")


@dataclasses.dataclass(frozen=True, slots=True)
class Requirement:
    """One expression over one label (or, for nodes, one field)."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether the labels satisfy this expression; an unknown operator is never satisfied."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case "Gt" | "Lt":
                return _compares(value, self.operator, self.values)
        return False


def _compares(value: str | None, operator: str, bounds: tuple[str, ...]) -> bool:
    """Node selectors compare integers; anything that is not an integer matches nothing."""
    if value is None or len(bounds) != 1 or not (_INTEGER.fullmatch(value) and _INTEGER.fullmatch(bounds[0])):
        return False
    left, right = int(value), int(bounds[0])
    return left > right if operator == "Gt" else left < right


@dataclasses.dataclass(frozen=True, slots=True)
class LabelSelector:
    """A conjunction of requirements; without any it matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether all requirements hold."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def label_selector(raw: t.Mapping[str, t.Any] | None) -> LabelSelector | None:
    """Read a LabelSelector; None stays None, which by the API's rules matches nothing."""
    if raw is None:
        return None
    requirements = [Requirement(key, "In", (str(value),)) for key, value in (raw.get("matchLabels") or {}).items()]
    requirements.extend(_requirement(item) for item in raw.get("matchExpressions") or ())
    return LabelSelector(tuple(requirements))


def _requirement(raw: t.Mapping[str, t.Any]) -> Requirement:
    values = tuple(str(value) for value in raw.get("values") or ())
    return Requirement(str(raw.get("key", "")), str(raw.get("operator", "")), values)


_WRITTEN = re.compile(
    r"\s*(?:!\s*(?P<absent>[^\s,!=()]+)"
    r"|(?P<key>[^\s,!=()]+)(?:\s+(?P<set>in|notin)\s*\((?P<values>[^)]*)\)|\s*(?P<op>==|=|!=)\s*(?P<value>[^,\s]*))?)"
    r"\s*(?:,|$)"
)


def written_selector(text: str) -> LabelSelector:
    """Read a selector as requests carry it, such as `a,!b,c=d,e in (f,g)`; ValueError for what is none."""
    requirements: list[Requirement] = []
    position = 0
    while position < len(text):
        match = _WRITTEN.match(text, position)
        if match is None:
            raise ValueError(f"not a selector: {text!r}")
        requirements.append(_written_requirement(match))
        position = match.end()
    return LabelSelector(tuple(requirements))


def _written_requirement(match: re.Match[str]) -> Requirement:
    """One part of a selector as requests carry it."""
    if match["absent"]:
        return Requirement(match["absent"], "DoesNotExist")
    if match["set"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(match["key"], "In" if match["set"] == "in" else "NotIn", values)
    if match["op"]:
        return Requirement(match["key"], "NotIn" if match["op"] == "!=" else "In", (match["value"],))
    return Requirement(match["key"], "Exists")


@dataclasses.dataclass(frozen=True, slots=True)
class NodeTerm:
    """One alternative of a required node affinity; labels and fields must all match, an empty term matches nothing."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    def matches(self, name: str, labels: Labels) -> bool:
        """Whether a node of this name and these labels satisfies the term."""
        if not self.labels and not self.fields:
            return False
        if not all(requirement.matches(labels) for requirement in self.labels):
            return False
        return all(requirement.matches({"metadata.name": name}) for requirement in self.fields)


def node_terms(raw: t.Mapping[str, t.Any] | None) -> tuple[NodeTerm, ...] | None:
    """Read a NodeSelector; None when there is none, and then every node matches."""
    if raw is None:
        return None
    return tuple(
        NodeTerm(
            tuple(_requirement(item) for item in term.get("matchExpressions") or ()),
            tuple(_requirement(item) for item in term.get("matchFields") or ()),
        )
        for term in raw.get("nodeSelectorTerms") or ()
    )
