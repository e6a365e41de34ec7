# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions: the objects of a gang as users give them, inline or in a file, turned into checked lists of objects."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput

Object = dict[str, t.Any]
DEFAULT_NAMESPACE = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class GangRequest:
    """One gang a user asks about: its objects, or podsets declared instead."""

    name: str
    namespace: str
    objects: tuple[Object, ...]
    podsets: tuple[Object, ...] | None


def read_objects(definition: t.Any, src: str | None, where: str) -> tuple[Object, ...]:
    """The objects of a definition (mapping, list, or text) or of a file."""
    if src is not None:
        try:
            definition = pathlib.Path(src).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput("read", f"{where}: src {src}", str(error)) from error
        where = f"{where}: src {src}"
    else:
        where = f"{where}: definition"
    objects: list[Object] = []
    for item in definition if isinstance(definition, list) else [definition]:
        for document in load_yaml(item, where) if isinstance(item, str) else [item]:
            objects += [_checked(entry, where) for entry in (document if isinstance(document, list) else [document])]
    return tuple(objects)


def _checked(item: t.Any, where: str) -> Object:
    """One object as a plain dictionary; what cannot be an object is refused."""
    if not isinstance(item, t.Mapping):
        raise BadInput("read", where, f"an object is a mapping, this is a {type(item).__name__}")
    meta = item.get("metadata")
    if meta is not None and not isinstance(meta, t.Mapping):
        who = f"{where}: {item.get('kind', 'object')}: metadata"
        raise BadInput("read", who, f"a mapping is needed, this is a {type(meta).__name__}")
    return dict(item)


def read_gang(raw: t.Mapping[str, t.Any], index: int, namespace: str | None) -> GangRequest:
    """One entry of the gangs list; the name defaults to that of its first object."""
    podsets = raw.get("podsets")
    named = raw.get("name")
    where = f"gang {named or index}"
    given = raw.get("definition") is not None or raw.get("src") is not None
    objects = read_objects(raw.get("definition"), raw.get("src"), where) if given else ()
    if podsets is None and not objects:
        raise BadInput("judge", where, "it is empty: give definition, src or podsets")
    space = raw.get("namespace") or namespace or _namespace_of(objects) or DEFAULT_NAMESPACE
    for item in _flat(objects):
        own = (item.get("metadata") or {}).get("namespace")
        if own and own != space:
            who = f"{item.get('kind')} {(item.get('metadata') or {}).get('name')}"
            raise BadInput("judge", where, f"{who} lies in namespace {own}, the gang in {space}")
    name = named or next((_name(item) for item in objects), None) or f"gang-{index}"
    return GangRequest(str(name), str(space), objects, tuple(podsets) if podsets is not None else None)


def _name(item: Object) -> str:
    """The name of an object, or what its generated name begins with."""
    meta = item.get("metadata") or {}
    return str(meta.get("name") or (meta.get("generateName") or "").rstrip("-") or item.get("kind", "gang")).lower()


def _namespace_of(objects: t.Iterable[Object]) -> str | None:
    """The namespace written in the first object that has one."""
    spaces = ((item.get("metadata") or {}).get("namespace") for item in _flat(objects))
    return next((space for space in spaces if space), None)


def _flat(objects: t.Iterable[Object]) -> t.Iterator[Object]:
    """Objects with the items of lists in place of the lists."""
    for item in objects:
        if item.get("kind") == "List":
            yield from _flat(_checked(entry, "List") for entry in item.get("items") or ())
        else:
            yield item


def own_claims(objects: t.Iterable[Object]) -> frozenset[str]:
    """Names of the PersistentVolumeClaims among a gang's own objects."""
    return frozenset(_name(item) for item in _flat(objects) if item.get("kind") == "PersistentVolumeClaim")
