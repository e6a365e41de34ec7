# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rows of the catalogue of components, read strictly: what is not known is refused with the nearest known name."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    LABEL_LENGTH,
    Data,
    Fields,
    plain_value,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.nearest import nearest_hint, unknown_name
from ansible_collections.muster.kube.plugins.module_utils._policy.component.versions import (
    SemanticVersion,
    VersionRange,
    read_range,
    read_version,
)

# How sure it is that a row works: in pods, its objects only, with a status that somebody played, or not tried.
Proof = t.Literal["run", "installed", "played", "none"]
PROOFS: tuple[Proof, ...] = ("run", "installed", "played", "none")
# The keys that only one or some of the sources take.
SOURCE_KEYS: dict[str, tuple[str, ...]] = {
    "helm": ("chart", "repository", "chart_version", "digest", "values", "secret_values"),
    "manifest": ("src", "definition"),
    "kustomize": ("src",),
    "olm": ("olm",),
}
# What a component is told by, whatever its source.
_COMMON_KEYS = ("namespace", "depends_on", "resources", "condition", "nodes", "smoke", "expects")
BODY_KEYS = (
    *("source", "chart", "repository", "chart_version", "digest", "values", "src", "definition", "olm"),
    *_COMMON_KEYS,
)
_ROW_KEYS = (
    *("name", "title", "proof", "notes", "excludes", "reinvoke_beside", "removal", "features"),
    *BODY_KEYS,
)
_FEATURE_KEYS = ("title", "excludes", "parameters", *BODY_KEYS)
_VERSION_KEYS = ("version", "chart_version", "kubernetes", "needs", "excludes", "api_versions", "with")
_PROFILE_KEYS = ("title", "components")
CHOICE_KEYS = ("version", "features", "skip", "secret_values", *BODY_KEYS)
_OLM_KEYS = ("package", "channel", "catalog", "catalog_namespace", "starting_csv", "approval", "target_namespaces")
_CONDITION_KEYS = ("api_version", "kind", "name", "namespace", "type", "status", "path", "value")
_EXPECTED_KEYS = ("definitions", "workloads", "webhooks")
_REMOVAL_KEYS = ("first", "leaves")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PARAMETER = re.compile(r"[a-z][a-z0-9_]*")


@dataclasses.dataclass(frozen=True, slots=True)
class RowVersion:
    """One version of a row, and within which limits it is known to work."""

    version: SemanticVersion
    # As it was written: the parts of addresses are.
    text: str
    chart_version: str
    kubernetes: VersionRange
    # Which versions of other rows it needs, and which it does not go with.
    needs: Mapping[str, VersionRange]
    excludes: Mapping[str, VersionRange]
    # What it serves.
    api_versions: tuple[str, ...]
    # What of the row is different in this version.
    body: Data


@dataclasses.dataclass(frozen=True, slots=True)
class RowFeature:
    """Something that a user may turn on: what it adds to the row, and what may be set of it."""

    title: str
    excludes: tuple[str, ...]
    parameters: Data
    body: Data


@dataclasses.dataclass(frozen=True, slots=True)
class CatalogueRow:
    """One component as the catalogue knows it."""

    name: str
    title: str
    proof: Proof
    notes: tuple[str, ...]
    excludes: tuple[str, ...]
    # Beside these its mutating webhooks have to be called again when others have changed the object.
    reinvoke_beside: tuple[str, ...]
    removal: Data
    features: Mapping[str, RowFeature]
    # The most wanted version comes first.
    versions: tuple[RowVersion, ...]
    # What is handed on to the module.
    body: Data


@dataclasses.dataclass(frozen=True, slots=True)
class RowChoice:
    """What a profile or a user wants of one row."""

    version: str | None = None
    features: Mapping[str, Data] = dataclasses.field(default_factory=dict)
    # Whether the component is left out, because somebody else takes care of it.
    skip: bool | None = None
    body: Data = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class StackProfile:
    """A set of components for one purpose."""

    name: str
    title: str
    choices: Mapping[str, RowChoice]


@dataclasses.dataclass(frozen=True, slots=True)
class StackCatalogue:
    """All rows and profiles."""

    rows: Mapping[str, CatalogueRow]
    profiles: Mapping[str, StackProfile]


def read_catalogue(data: t.Any) -> StackCatalogue:
    """The catalogue that lists of rows, a table of versions and profiles are; every name in it must be one of a row."""
    fields = Fields(plain_value(data, "the catalogue"), "the catalogue")
    fields.only(("components", "versions", "profiles"))
    versions = fields.mapping("versions")
    rows: dict[str, CatalogueRow] = {}
    for index, item in enumerate(fields.sequence("components")):
        row = _read_row(item, f"component {index} of the catalogue", versions)
        if row.name in rows:
            raise BadInput("read", f"component {row.name}", "the catalogue has it twice")
        rows[row.name] = row
    for name in versions:
        _require_row(rows, name, "the table of versions")
    for row in rows.values():
        _check_names(row, rows)
    profiles = {name: _read_profile(name, item, rows) for name, item in fields.mapping("profiles").items()}
    return StackCatalogue(rows, profiles)


def read_choices(data: t.Any, rows: Mapping[str, CatalogueRow], where: str) -> dict[str, RowChoice]:
    """What somebody wants of rows, by their names."""
    given = Fields(plain_value({} if data is None else data, where), where)
    return {name: _read_choice(given, name, rows) for name in given.data}


def _read_choice(given: Fields, name: str, rows: Mapping[str, CatalogueRow]) -> RowChoice:
    """What somebody wants of one row; nothing written means the row as it is."""
    row = _require_row(rows, name, given.where)
    wanted = given.get(name)
    fields = Fields({} if wanted is None else wanted, f"{given.where}: {name}")
    fields.only(CHOICE_KEYS)
    return RowChoice(
        version=fields.text("version"),
        features=_read_wanted_features(fields, row),
        skip=None if fields.get("skip") is None else fields.flag("skip"),
        body=_read_body(fields, (*BODY_KEYS, "secret_values")),
    )


def _read_wanted_features(fields: Fields, row: CatalogueRow) -> dict[str, Data]:
    """The features that are turned on, each with its parameters; a list of names sets none."""
    given = fields.get("features")
    if isinstance(given, list):
        given = dict.fromkeys(_texts(fields, "features"))
    wanted = Fields({} if given is None else given, f"{fields.where}: features")
    wanted.only(tuple(row.features))
    found: dict[str, Data] = {}
    for name in wanted.data:
        parameters = Fields(wanted.get(name) or {}, f"{wanted.where}: {name}")
        parameters.only(tuple(row.features[name].parameters))
        found[name] = dict(parameters.data)
    return found


def _read_row(data: t.Any, place: str, versions: Mapping[str, t.Any]) -> CatalogueRow:
    """One file of the catalogue."""
    name = Fields(data, place).dns("name", "the name of a component", LABEL_LENGTH)
    fields = Fields(data, f"component {name}")
    fields.only(_ROW_KEYS)
    body = _read_body(fields, BODY_KEYS)
    check_source(body, fields.where)
    row = CatalogueRow(
        name=name,
        title=fields.required_text("title"),
        proof=fields.choice("proof", PROOFS, None),
        notes=_texts(fields, "notes"),
        excludes=_texts(fields, "excludes"),
        reinvoke_beside=_texts(fields, "reinvoke_beside"),
        removal=_read_parts(fields, "removal", _REMOVAL_KEYS),
        features=_read_features(fields),
        versions=_read_versions(versions, name),
        body=body,
    )
    for feature in row.features.values():
        for other in feature.excludes:
            if other not in row.features:
                raise unknown_name("read", f"{fields.where}: feature", other, row.features)
    return row


def _read_features(fields: Fields) -> dict[str, RowFeature]:
    """The features of a row."""
    found: dict[str, RowFeature] = {}
    for name, item in fields.mapping("features").items():
        given = Fields(item, f"{fields.where}: feature {name}")
        given.only(_FEATURE_KEYS)
        parameters = dict(given.mapping("parameters"))
        for parameter in parameters:
            if not _PARAMETER.fullmatch(parameter):
                raise given.fail("parameters", f"{parameter!r} is no name; small letters, digits and _ are needed")
        found[name] = RowFeature(
            given.required_text("title"), _texts(given, "excludes"), parameters, _read_body(given, BODY_KEYS)
        )
    return found


def _read_versions(table: Mapping[str, t.Any], name: str) -> tuple[RowVersion, ...]:
    """The versions of a row, in the order of the table."""
    where = f"the versions of {name}"
    entries = Fields({"": table.get(name)}, where).sequence("")
    if not entries:
        raise BadInput("read", where, "the table of versions has none")
    found = tuple(_read_version(item, where) for item in entries)
    for index, item in enumerate(found):
        if item.version in [other.version for other in found[:index]]:
            raise BadInput("read", where, f"{item.text} is there twice")
    return found


def _read_version(data: t.Any, where: str) -> RowVersion:
    """One line of the table of versions."""
    text = Fields(data, where).required_text("version")
    fields = Fields(data, f"{where}: {text}")
    fields.only(_VERSION_KEYS)
    # The parts of the row that this version has otherwise; what it depends on is known before its version is.
    other = Fields(fields.mapping("with"), f"{fields.where}: with")
    other.only([key for key in BODY_KEYS if key != "depends_on"])
    return RowVersion(
        version=read_version(text, fields.where),
        text=text,
        chart_version=fields.text("chart_version") or text,
        kubernetes=read_range(fields.required_text("kubernetes"), f"{fields.where}: kubernetes"),
        needs=_read_ranges(fields, "needs"),
        excludes=_read_ranges(fields, "excludes"),
        api_versions=_texts(fields, "api_versions"),
        body=_read_body(other, BODY_KEYS),
    )


def _read_ranges(fields: Fields, key: str) -> dict[str, VersionRange]:
    """Ranges of versions by rows."""
    return {name: read_range(text, f"{fields.where}: {key}: {name}") for name, text in fields.mapping(key).items()}


def _read_profile(name: str, data: t.Any, rows: Mapping[str, CatalogueRow]) -> StackProfile:
    """One profile."""
    fields = Fields(data, f"profile {name}")
    fields.only(_PROFILE_KEYS)
    choices = read_choices(fields.mapping("components"), rows, fields.where)
    if not choices:
        raise fields.fail("components", "it is empty")
    return StackProfile(name, fields.required_text("title"), choices)


def _read_body(fields: Fields, keys: Sequence[str]) -> Data:
    """What is handed on to the module, each key of its type; what is missing or null is not in it."""
    body: Data = {}
    for key in keys:
        if fields.get(key) is not None:
            body[key] = _READERS[key](fields, key)
    return body


def _texts(fields: Fields, key: str) -> tuple[str, ...]:
    """A list of texts."""
    values = fields.sequence(key)
    for index, value in enumerate(values):
        if not isinstance(value, str) or not value:
            raise fields.fail(f"{key}[{index}]", f"a text is needed, not {value!r}")
    return tuple(values)


def _read_texts(fields: Fields, key: str) -> list[str]:
    return list(dict.fromkeys(_texts(fields, key)))


def _read_mapping(fields: Fields, key: str) -> Data:
    return dict(fields.mapping(key))


def _read_parts(fields: Fields, key: str, keys: Sequence[str]) -> Data:
    """A mapping of lists of texts."""
    given = Fields(fields.mapping(key), f"{fields.where}: {key}")
    given.only(keys)
    return {part: _read_texts(given, part) for part in keys if given.get(part) is not None}


def _read_source(fields: Fields, key: str) -> str:
    return fields.choice(key, tuple(SOURCE_KEYS), None)


def _read_digest(fields: Fields, key: str) -> str:
    """The digest of a chart."""
    text = fields.required_text(key)
    if not _DIGEST.fullmatch(text):
        raise fields.fail(key, f"{text!r} is no digest; sha256: and 64 digits from 0 to f are needed")
    return text


def _read_objects(fields: Fields, key: str) -> list[Data]:
    """Objects that are made once the component is ready for them."""
    for index, item in enumerate(fields.sequence(key)):
        obj = Fields(item, f"{fields.where}: {key}[{index}]")
        for name in ("apiVersion", "kind"):
            obj.required_text(name)
        Fields(obj.get("metadata"), f"{obj.where}: metadata").required_text("name")
    return fields.sequence(key)


def _read_olm(fields: Fields, key: str) -> Data:
    """What OLM is asked for."""
    given = Fields(fields.mapping(key), f"{fields.where}: {key}")
    given.only(_OLM_KEYS)
    given.choice("approval", ("Automatic", "Manual"), "Automatic")
    return dict(given.data)


def _read_condition(fields: Fields, key: str) -> Data:
    """The condition of the component's own: one of the usual form, or a value at a path."""
    given = Fields(fields.mapping(key), f"{fields.where}: {key}")
    given.only(_CONDITION_KEYS)
    for name in ("api_version", "kind", "name"):
        given.required_text(name)
    if (given.get("type") is None) == (given.get("path") is None):
        raise fields.fail(key, "type (and status) or path and value are needed, and not both")
    if (given.get("path") is None) != (given.get("value") is None):
        raise fields.fail(key, "path and value belong together")
    return dict(given.data)


def _read_smoke(fields: Fields, key: str) -> Data:
    """The smoke test: objects, and the condition that they are waited for."""
    given = Fields(fields.mapping(key), f"{fields.where}: {key}")
    given.only(("definition", "condition"))
    if not given.get("definition"):
        raise given.fail("definition", "it is missing")
    return dict(given.data)


_READERS: dict[str, t.Callable[[Fields, str], t.Any]] = {
    "source": _read_source,
    "chart": Fields.required_text,
    "repository": Fields.required_text,
    "chart_version": Fields.required_text,
    "digest": _read_digest,
    "src": Fields.required_text,
    "definition": Fields.get,
    "olm": _read_olm,
    "namespace": lambda fields, key: fields.dns(key, "a namespace", LABEL_LENGTH),
    "values": _read_mapping,
    "secret_values": _read_mapping,
    "resources": _read_objects,
    "depends_on": _read_texts,
    "condition": _read_condition,
    "nodes": lambda fields, key: _read_parts(fields, key, ("labels", "resources")),
    "smoke": _read_smoke,
    "expects": lambda fields, key: _read_parts(fields, key, _EXPECTED_KEYS),
}


def check_source(body: Mapping[str, t.Any], where: str) -> None:
    """Refuse a component whose source has no address."""
    source = body.get("source")
    if source is None:
        raise BadInput("read", f"{where}: source", f"it is missing; known are {', '.join(SOURCE_KEYS)}")
    address = SOURCE_KEYS[source][:2] if source == "manifest" else SOURCE_KEYS[source][:1]
    if not any(body.get(key) for key in address):
        raise BadInput("read", f"{where}: {' or '.join(address)}", f"it is missing, and a {source} needs it")


def _require_row(rows: Mapping[str, CatalogueRow], name: str, where: str) -> CatalogueRow:
    """The row of a name."""
    if name not in rows:
        raise BadInput("read", f"{where}: {name}", f"there is no such component; {nearest_hint(name, rows)}")
    return rows[name]


def _check_names(row: CatalogueRow, rows: Mapping[str, CatalogueRow]) -> None:
    """Refuse a row that speaks of one that is not there."""
    for key, names in _names_in(row):
        for name in names:
            _require_row(rows, name, f"component {row.name}: {key}")
            if name == row.name:
                raise BadInput("read", f"component {row.name}: {key}", "it names itself")


def _names_in(row: CatalogueRow) -> Iterable[tuple[str, Iterable[str]]]:
    """The other rows of which a row speaks, by the keys under which it does."""
    yield "excludes", row.excludes
    yield "reinvoke_beside", row.reinvoke_beside
    yield "depends_on", row.body.get("depends_on", ())
    for feature in row.features.values():
        yield "depends_on", feature.body.get("depends_on", ())
    for version in row.versions:
        yield "needs", version.needs
        yield "excludes", version.excludes
