# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a component is to be: its source, what it needs, and how it is judged."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import DNS_NAME, Fields

# A record is called after its component, and labels carry its name.
_NAME_LENGTH = 63
SOURCES = ("manifest", "kustomize")


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestSource:
    """Objects given inline or in a file."""

    definition: t.Any = None
    src: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class KustomizeSource:
    """A directory with a kustomization."""

    src: str


@dataclasses.dataclass(frozen=True, slots=True)
class OwnCondition:
    """A condition of an object that the component keeps itself."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    type: str
    status: str


@dataclasses.dataclass(frozen=True, slots=True)
class NodeTrace:
    """What at least one node has when the component works: labels, and resources to give."""

    labels: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class SmokeTest:
    """Objects that are made, have to become what they are for, and are taken away again."""

    definition: t.Any
    # What objects are waited for whose kind tells nothing by itself.
    condition: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """One component of a task; without a source it can only be removed."""

    name: str
    version: str | None = None
    source: ManifestSource | KustomizeSource | None = None
    # Where objects lie that name no namespace; it is made when it is missing.
    namespace: str | None = None
    # Objects that are made once the component is ready for them.
    resources: t.Any = None
    depends_on: tuple[str, ...] = ()
    condition: OwnCondition | None = None
    nodes: NodeTrace | None = None
    smoke: SmokeTest | None = None

    @property
    def source_name(self) -> str:
        """What kind of source it has, as results and records tell it."""
        return "kustomize" if isinstance(self.source, KustomizeSource) else "manifest"

    @property
    def where(self) -> str:
        """The component in messages."""
        return f"component {self.name}"


def read_component(data: Mapping[str, t.Any], *, needs_source: bool) -> Component:
    """A component from the options of a task."""
    fields = Fields(data, f"component {data.get('name')}")
    name = fields.required_text("name")
    if len(name) > _NAME_LENGTH or not DNS_NAME.fullmatch(name):
        cause = (
            f"at most {_NAME_LENGTH} small letters, digits, dots and dashes are needed, a letter or digit at the ends"
        )
        raise BadInput("use", f"the name {name!r}", cause)
    return Component(
        name=name,
        version=fields.text("version"),
        source=_read_source(fields, needed=needs_source),
        namespace=fields.text("namespace"),
        resources=fields.get("resources"),
        depends_on=tuple(dict.fromkeys(fields.sequence("depends_on"))),
        condition=_read_condition(fields),
        nodes=_read_nodes(fields),
        smoke=_read_smoke(fields),
    )


def _read_source(fields: Fields, *, needed: bool) -> ManifestSource | KustomizeSource | None:
    """Where the objects come from."""
    definition, src = fields.get("definition"), fields.text("src")
    if definition is None and src is None:
        if needed:
            raise fields.fail("source", "it is missing: give objects in definition or src")
        return None
    if definition is not None and src is not None:
        raise fields.fail("src", "definition is given too; one of both is needed")
    if fields.choice("source", SOURCES, "manifest") == "manifest":
        return ManifestSource(definition, src)
    if src is None:
        raise fields.fail("src", "a kustomization is a directory; name it here")
    return KustomizeSource(src)


def _read_condition(fields: Fields) -> OwnCondition | None:
    """The condition that the component's own step waits for."""
    if fields.get("condition") is None:
        return None
    given = Fields(fields.get("condition"), f"{fields.where}: condition")
    return OwnCondition(
        given.required_text("api_version"),
        given.required_text("kind"),
        given.required_text("name"),
        given.text("namespace") or fields.text("namespace"),
        given.required_text("type"),
        given.text("status") or "True",
    )


def _read_nodes(fields: Fields) -> NodeTrace | None:
    """What has to be seen on a node."""
    if fields.get("nodes") is None:
        return None
    given = Fields(fields.get("nodes"), f"{fields.where}: nodes")
    trace = NodeTrace(tuple(map(str, given.sequence("labels"))), tuple(map(str, given.sequence("resources"))))
    if not trace.labels and not trace.resources:
        raise fields.fail("nodes", "it is empty: give labels or resources")
    return trace


def _read_smoke(fields: Fields) -> SmokeTest | None:
    """The smoke test."""
    if fields.get("smoke") is None:
        return None
    given = Fields(fields.get("smoke"), f"{fields.where}: smoke")
    if given.get("definition") is None:
        raise given.fail("definition", "it is missing")
    return SmokeTest(given.get("definition"), given.text("condition"))
