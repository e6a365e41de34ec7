# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a task says about a component, and the objects that its definitions are."""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import read_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.apply import DEFINITION, Object
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import flat_objects
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    describe_object,
    group_and_kind,
    value_at,
    versionless_key,
)

_API_VERSION = re.compile(r"([A-Za-z0-9][A-Za-z0-9.-]*/)?[A-Za-z0-9]+")
# What the server takes as a part of a path.
_PATH_PART = re.compile(r"(?!\.{1,2}$)[^/%]*")
# What the value of a label may be, and not empty.
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentOptions:
    """What a task asks for."""

    name: str
    state: t.Literal["present", "absent"]
    # The objects: a mapping, a list, or YAML text.
    definition: t.Any = None
    # A file with the objects, instead of a definition.
    src: str | None = None
    # Whether objects of the component that the definitions do not name go.
    prune: bool = True
    wait: bool = True
    wait_timeout: float = 120.0
    check_mode: bool = False


def read_definitions(options: ComponentOptions) -> list[Object]:
    """The objects of a task; what cannot be applied is refused before the cluster is asked for anything."""
    where = f"component {options.name}"
    if not _NAME.fullmatch(options.name):
        cause = "at most 63 letters, digits, dots, dashes and underscores are needed, a letter or digit first and last"
        raise BadInput("use", f"the name {options.name!r}", cause)
    return checked_definitions(
        options.definition, options.src, where, may_be_empty=options.state == "absent" and options.prune
    )


def checked_definitions(definition: t.Any, src: str | None, where: str, *, may_be_empty: bool = False) -> list[Object]:
    """The objects of a definition or a file, each with an address and none of them twice."""
    given = definition is not None or src is not None
    objects = list(flat_objects(read_objects(definition, src, where))) if given else []
    if not objects and not may_be_empty:
        raise BadInput("read", f"{where}: definition", "it is empty: give objects in definition or src")
    for obj in objects:
        _check_object(obj, f"{where}: {'definition' if src is None else f'src {src}'}")
    unique_keys(objects, where)
    return objects


def unique_keys(objects: collections.abc.Iterable[Object], where: str) -> set[tuple[str, str, str, str]]:
    """The keys of the objects; one that is there twice is refused, since each run would change it twice."""
    seen: set[tuple[str, str, str, str]] = set()
    for obj in objects:
        if versionless_key(obj) in seen:
            raise BadInput("read", f"{where}: definition", f"{describe_object(obj)} is there twice")
        seen.add(versionless_key(obj))
    return seen


def namespaces_of(objects: collections.abc.Iterable[Object]) -> frozenset[str]:
    """The namespaces that the objects lie in, or are."""
    homes = {obj["metadata"].get("namespace") for obj in objects}
    made = {obj["metadata"]["name"] for obj in objects if group_and_kind(obj) == ("", "Namespace")}
    return frozenset(str(name) for name in homes | made if name)


def _check_object(obj: Object, where: str) -> None:
    """Refuse an object that has no address, or whose parts that we read are none."""
    metadata = obj.get("metadata") or {}
    wrong = _not_texts(obj, ("apiVersion",), ("kind",), ("metadata", "name"))
    if "apiVersion" not in wrong and not _API_VERSION.fullmatch(obj["apiVersion"]):
        wrong.append("apiVersion")
    if "metadata.name" not in wrong and not _PATH_PART.fullmatch(metadata["name"]):
        wrong.append("metadata.name")
    maps: list[tuple[str, ...]] = [("metadata", "labels"), ("metadata", "annotations")]
    if group_and_kind(obj) in (("", "Secret"), ("", "ConfigMap")):
        # The server's refusal would show the value.
        maps += [("data",), ("stringData",)]
    wrong += [name for path in maps for name in _no_texts_in(obj, path)]
    namespace = metadata.get("namespace") or ""
    if not isinstance(namespace, str) or not _PATH_PART.fullmatch(namespace):
        wrong.append("metadata.namespace")
    if not wrong and group_and_kind(obj) == DEFINITION:
        wrong += _not_texts(obj, ("spec", "group"), ("spec", "names", "kind"))
        versions = value_at(obj, ("spec", "versions"))
        if not isinstance(versions, list) or any(_not_texts(item, ("name",)) for item in versions):
            wrong.append("spec.versions")
    if wrong:
        cause = f"{', '.join(wrong)}: this is missing or not what it has to be"
        raise BadInput("read", f"{where}: {obj.get('kind')} {value_at(metadata, ('name',))}", cause)


def _not_texts(obj: t.Any, *paths: tuple[str, ...]) -> list[str]:
    """Which of these fields hold no text."""
    values = {".".join(path): value_at(obj, path) for path in paths}
    return [name for name, value in values.items() if not isinstance(value, str) or not value]


def _no_texts_in(obj: Object, path: tuple[str, ...]) -> list[str]:
    """Which values of a mapping are no texts, or the mapping itself if it is none; nothing may be said."""
    found = value_at(obj, path)
    if found is None:
        return []
    if not isinstance(found, collections.abc.Mapping):
        return [".".join(path)]
    return [".".join((*path, str(key))) for key, value in found.items() if not isinstance(value, str | None)]
