# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The patches by which an object gets another size while it is there, and what it tells of them.

A patch names the uid and the version of the object that it was made from, so that it changes that one and no other,
and nothing that somebody else wrote meanwhile; and it marks the object, so that whoever comes later sees it was made.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import allotted, find_target
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import RESIZE_ANNOTATION
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import resize_targets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Object, Path
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    conditions,
    describe_object,
    value_at,
)

Data = dict[str, t.Any]


def resized_place(objects: Sequence[Object], range_: Range, namespace: str) -> int:
    """The place of the object that a range is about."""
    return find_target(objects, range_, namespace).index


def resize_mark(live: Object | None) -> str:
    """Which patch of a resize an object has; empty for one without."""
    return str(value_at(live, ("metadata", "annotations", RESIZE_ANNOTATION)) or "")


def is_suspended(live: Object) -> bool:
    """Whether an object is not to have any pods now."""
    path = kind_of(live).resizing.suspend
    return path is not None and value_at(live, path) is True


def says_suspended(live: Object) -> bool:
    """Whether its controller tells that it has seen the suspension of an object, and knows of no pod that runs."""
    told = any((item.get("type"), item.get("status")) == ("Suspended", "True") for item in conditions(live))
    return told and not value_at(live, ("status", "active"))


def suspend_patch(live: Object, mark: str) -> Data:
    """What suspends an object."""
    return _addressed(live, mark, _nested(_suspend_path(live), True))


def size_patch(live: Object, objects: Sequence[Object], range_: Range, size: int, namespace: str, mark: str) -> Data:
    """What gives an object its size, and has it go on where it is suspended.

    The objects are those of the gang as its user wrote them; BadInput where the live one is none of them any more.
    """
    planned = find_target(objects, range_, namespace).podset
    known = (item.podset.name for item in resize_targets([live], namespace) if item.podset.path == planned.path)
    name = next(known, None)
    if name is None:
        raise BadInput("resize", describe_object(live), f"it has no pods of {range_.podset} any more")
    sized = allotted([live], dataclasses.replace(range_, podset=name), size, namespace=namespace)[0]
    change = merge_patch(live, sized)
    if is_suspended(live):
        change = _merged(change, _nested(_suspend_path(live), False))
    return _addressed(live, mark, change)


def merge_patch(before: Mapping[str, t.Any], after: Mapping[str, t.Any]) -> Data:
    """The JSON merge patch that makes the one of the other; lists are in it as a whole."""
    patch: Data = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            inner = merge_patch(old, value)
            if inner:
                patch[key] = inner
        elif old != value:
            patch[key] = value
    return patch


def _addressed(live: Object, mark: str, change: Data) -> Data:
    """A change of one version of one object, with its mark."""
    metadata = live["metadata"]
    address = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    return _merged(change, {"metadata": {**address, "annotations": {RESIZE_ANNOTATION: mark}}})


def _suspend_path(live: Object) -> Path:
    """Where an object is suspended."""
    path = kind_of(live).resizing.suspend
    if path is None:
        raise BadInput("suspend", describe_object(live), "its kind cannot be suspended")
    return path


def _nested(path: Path, value: t.Any) -> Data:
    """A value at a path of keys."""
    for part in reversed(path):
        value = {part: value}
    return t.cast(Data, value)


def _merged(one: Mapping[str, t.Any], other: Mapping[str, t.Any]) -> Data:
    """Two mappings as one; where both have a value that is no mapping, the second's."""
    found = dict(one)
    for key, value in other.items():
        old = found.get(key)
        found[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return found
