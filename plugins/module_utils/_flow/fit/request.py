# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions: the objects of a gang as users give them, inline or in a file, turned into checked lists of objects."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.fit.runtimes import Runtimes
from ansible_collections.muster.kube.plugins.module_utils._host.yaml_text import load_yaml
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.definition import (
    GangRequest,
    checked_object,
    flat_objects,
    object_name,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

Object = dict[str, t.Any]
DEFAULT_NAMESPACE = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class GangSource:
    """What a user gives of one gang; None where nothing is said."""

    name: str | None = None
    namespace: str | None = None
    # The objects: a mapping, a list, or YAML text.
    definition: t.Any = None
    # A file with the objects, instead of a definition.
    src: str | None = None
    podsets: tuple[Object, ...] | None = None

    @property
    def has_objects(self) -> bool:
        """Whether there is a definition or a file."""
        return self.definition is not None or self.src is not None


@dataclasses.dataclass(frozen=True, slots=True)
class FitOptions:
    """What a task of fit_info asks."""

    gangs: tuple[GangSource, ...]
    # Whether a gang that fits takes its place before the next one is judged.
    cumulative: bool = True
    advice: bool = True
    # The queue that the gangs would name, and the Lease beside which the quota trees are.
    queue: str | None = None
    lease: LeaseOptions = dataclasses.field(default_factory=LeaseOptions)


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
            objects += [
                checked_object(entry, where) for entry in (document if isinstance(document, list) else [document])
            ]
    return tuple(objects)


def read_gang(source: GangSource, index: int, runtimes: Runtimes | None = None) -> GangRequest:
    """One gang of a list; the name defaults to that of its first object.

    With runtimes TrainJobs are filled in, unless their podsets are declared.
    """
    where = f"gang {source.name or index}"
    objects = read_objects(source.definition, source.src, where) if source.has_objects else ()
    if source.podsets is None and not objects:
        raise BadInput("judge", where, "it is empty: give definition, src or podsets")
    space = source.namespace or _namespace_of(objects) or DEFAULT_NAMESPACE
    for item in flat_objects(objects):
        own = (item.get("metadata") or {}).get("namespace")
        if own and own != space:
            who = f"{item.get('kind')} {(item.get('metadata') or {}).get('name')}"
            raise BadInput("judge", where, f"{who} lies in namespace {own}, the gang in {space}")
    if runtimes is not None and source.podsets is None:
        objects = runtimes.filled(objects, str(space))
    name = source.name or next((object_name(item) for item in objects), None) or f"gang-{index}"
    return GangRequest(name, str(space), objects, source.podsets)


def _namespace_of(objects: t.Iterable[Object]) -> str | None:
    """The namespace written in the first object that has one."""
    spaces = ((item.get("metadata") or {}).get("namespace") for item in flat_objects(objects))
    return next((space for space in spaces if space), None)
