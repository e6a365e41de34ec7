# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a component is to be: its source, what it needs, and how it is judged."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.component.helm_source import HelmSource
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import DNS_NAME, Fields

# A record is called after its component, and labels carry its name.
_NAME_LENGTH = 63
SOURCES = ("manifest", "kustomize", "helm")
_CHART_KEYS = ("chart", "repository", "chart_version", "digest", "release", "values", "secret_values")


@dataclasses.dataclass(frozen=True, slots=True)
class ManifestSource:
    """Objects given inline, in a file, or at an address."""

    definition: t.Any = None
    src: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class KustomizeSource:
    """A directory with a kustomization, or the address of one."""

    src: str


@dataclasses.dataclass(frozen=True, slots=True)
class OwnCondition:
    """What an object that the component keeps itself says of it: a condition, or a value somewhere."""

    api_version: str
    kind: str
    name: str
    namespace: str | None
    type: str
    status: str
    # Names of fields with dots between them; without it the condition counts.
    path: str = ""
    value: str = ""


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
class ExpectedObjects:
    """Objects that have to be there whoever makes them: names of definitions, kinds with names, namespaces before."""

    definitions: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    webhooks: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class RemovalHints:
    """Kinds whose objects go first, in this order, and objects that the component makes by itself."""

    first: tuple[str, ...] = ()
    leaves: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogueFacts:
    """What a catalogue knows of the component: told in results, and looked at before anything is written."""

    told: Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    # Range of server versions.
    kubernetes: str = "*"
    # Components beside which its mutating webhooks have to be called again.
    reinvoke_beside: tuple[str, ...] = ()


NO_EXPECTATIONS, NO_HINTS, NO_FACTS = ExpectedObjects(), RemovalHints(), CatalogueFacts()


@dataclasses.dataclass(frozen=True, slots=True)
class Component:
    """One component of a task; without a source it can only be removed."""

    name: str
    version: str | None = None
    source: ManifestSource | KustomizeSource | HelmSource | None = None
    # Where objects lie that name no namespace; it is made when it is missing.
    namespace: str | None = None
    # Objects that are made once the component is ready for them.
    resources: t.Any = None
    depends_on: tuple[str, ...] = ()
    condition: OwnCondition | None = None
    nodes: NodeTrace | None = None
    smoke: SmokeTest | None = None
    expects: ExpectedObjects = NO_EXPECTATIONS
    removal: RemovalHints = NO_HINTS
    facts: CatalogueFacts = NO_FACTS

    @property
    def source_name(self) -> str:
        """What kind of source it has, as results and records tell it."""
        if isinstance(self.source, HelmSource):
            return "helm"
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
    row = Fields(fields.get("row") or {}, f"{fields.where}: row")
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
        expects=_read_expected(row),
        removal=_read_removal(row),
        facts=_read_facts(row),
    )


def _read_source(fields: Fields, *, needed: bool) -> ManifestSource | KustomizeSource | HelmSource | None:
    """Where the objects come from."""
    definition, src = fields.get("definition"), fields.text("src")
    is_helm = fields.choice("source", SOURCES, "manifest") == "helm"
    for key in ("definition", "src") if is_helm else _CHART_KEYS:
        if fields.get(key):
            raise fields.fail(key, "a chart takes none" if is_helm else "only the source helm takes it")
    if is_helm:
        return _read_chart(fields) if needed or fields.text("chart") else None
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


def _read_chart(fields: Fields) -> HelmSource:
    """The chart and its release, by default of the component's name."""
    name = fields.required_text("name")
    source = HelmSource(
        component=name,
        chart=fields.required_text("chart"),
        release=fields.text("release") or name,
        namespace=fields.required_text("namespace"),
        version=fields.text("chart_version"),
        repository=fields.text("repository"),
        digest=fields.text("digest"),
        values=fields.get("values") or {},
        secret_values=fields.get("secret_values") or {},
    )
    source.check()
    return source


def _read_condition(fields: Fields) -> OwnCondition | None:
    """The condition that the component's own step waits for."""
    if fields.get("condition") is None:
        return None
    given = Fields(fields.get("condition"), f"{fields.where}: condition")
    if (given.text("path") is None) == (given.text("type") is None):
        raise fields.fail("condition", "give type, or path with value")
    return OwnCondition(
        given.required_text("api_version"),
        given.required_text("kind"),
        given.required_text("name"),
        given.text("namespace") or fields.text("namespace"),
        given.text("type") or "",
        given.text("status") or "True",
        given.text("path") or "",
        "" if given.get("value") is None else str(given.get("value")),
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


def _read_expected(fields: Fields) -> ExpectedObjects:
    """What has to be there besides what the source names."""
    given = Fields(fields.get("expects") or {}, f"{fields.where}: expects")
    names = {key: tuple(map(str, given.sequence(key))) for key in ("definitions", "workloads", "webhooks")}
    for key in ("workloads", "webhooks"):
        for text in names[key]:
            kind, _space, name = text.partition(" ")
            if not kind or not name or " " in name:
                raise given.fail(key, f"{text!r} is no kind with a name, as in Deployment home/operator")
    return ExpectedObjects(**names)


def _read_removal(fields: Fields) -> RemovalHints:
    """What is to be known when it goes."""
    given = Fields(fields.get("removal") or {}, f"{fields.where}: removal")
    first, leaves = (tuple(map(str, given.sequence(key))) for key in ("first", "leaves"))
    for text in leaves:
        if len(text.split(" ")) != 2:
            raise given.fail("leaves", f"{text!r} is no kind with a name, as in Lease home/operator")
    return RemovalHints(first, leaves)


def _read_facts(given: Fields) -> CatalogueFacts:
    """What a catalogue knows of it."""
    return CatalogueFacts(
        told={key: given.get(key) for key in ("title", "proof", "features", "api_versions") if given.get(key)},
        kubernetes=given.text("kubernetes") or "*",
        reinvoke_beside=tuple(map(str, given.sequence("reinvoke_beside"))),
    )
