# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a gang as users give them: plain mappings, lists of them, and what they say of themselves."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.pods.admission import MadeObjects, made_objects
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import (
    PodSet,
    declared_podsets,
    infer_podsets,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

Object = dict[str, t.Any]


@dataclasses.dataclass(frozen=True)
class GangRequest:
    """One gang a user asks about: its objects, or podsets declared instead."""

    name: str
    namespace: str
    objects: tuple[Object, ...]
    podsets: tuple[Object, ...] | None = None

    @property
    def planned(self) -> tuple[Object, ...]:
        """The objects as a start creates them."""
        return self.objects

    @functools.cached_property
    def inferred(self) -> tuple[PodSet, ...]:
        """The podsets of the objects, before a cluster adds anything to their pods; BadInput where nobody can tell."""
        return tuple(infer_podsets(self.planned, namespace=self.namespace))

    @functools.cached_property
    def demand(self) -> tuple[PodSet, ...]:
        """The podsets that were declared, or else those of the objects."""
        if self.podsets is None:
            return self.inferred
        return tuple(declared_podsets(self.podsets, namespace=self.namespace))


def checked_object(item: t.Any, where: str) -> Object:
    """One object as a plain dictionary; what cannot be an object is refused."""
    if not isinstance(item, t.Mapping):
        raise BadInput("read", where, f"an object is a mapping, this is a {type(item).__name__}")
    meta = item.get("metadata")
    if meta is not None and not isinstance(meta, t.Mapping):
        who = f"{where}: {item.get('kind', 'object')}: metadata"
        raise BadInput("read", who, f"a mapping is needed, this is a {type(meta).__name__}")
    return dict(item)


def object_name(item: Object) -> str:
    """The name of an object, or what its generated name begins with."""
    meta = item.get("metadata") or {}
    return str(meta.get("name") or (meta.get("generateName") or "").rstrip("-") or item.get("kind", "gang")).lower()


def flat_objects(objects: t.Iterable[Object]) -> t.Iterator[Object]:
    """Objects with the items of lists in place of the lists."""
    for item in objects:
        if item.get("kind") == "List":
            entries = item.get("items") or ()
            if not isinstance(entries, list | tuple):
                raise BadInput("read", "List: items", f"a list is needed, this is a {type(entries).__name__}")
            yield from flat_objects(checked_object(entry, "List: items") for entry in entries)
        else:
            yield item


def made_of(objects: t.Iterable[Object], keep: str | None = None) -> MadeObjects:
    """What a start creates besides pods, as quotas count it; keep is the annotation of objects that survive an undo."""
    return made_objects(flat_objects(objects), object_name, keep)
