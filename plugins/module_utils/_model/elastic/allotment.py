# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The objects of a gang at a size. The specification stays what it is: this is applied when objects are planned."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.deciders import kueue_obstacle
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import NGPU, Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import (
    GpuContainer,
    ResizeTarget,
    resize_targets,
    variables_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Method,
    Object,
    Path,
    ResizeTerms,
    path_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object


def allotted(
    objects: Sequence[Object], range_: Range, size: int, *, namespace: str = "default"
) -> list[dict[str, t.Any]]:
    """Copies of the objects in which the job has this size: resources or numbers of pods, and its variables."""
    if size not in range_.sizes:
        raise BadInput("give", f"size {size}", f"allowed are {', '.join(map(str, range_.sizes))}")
    sized: list[dict[str, t.Any]] = [copy.deepcopy(dict(item)) for item in objects]
    target = find_target(objects, range_, namespace)
    obj = sized[target.index]
    if range_.axis == "pods":
        for path in target.counts:
            _put(obj, path, size)
    for container in target.containers(range_.resource):
        if range_.axis == "per_pod":
            for field in ("requests", "limits"):
                _put(obj, (*container.resources, field, range_.resource), str(size))
        _set_variables(obj, container, range_, size)
    return sized


def resize_method(
    objects: Sequence[Object],
    range_: Range,
    *,
    suspended_jobs_change: bool,
    namespace: str = "default",
    shrinks: bool = False,
) -> Method:
    """How the size of a gang's job is changed on such a server; when it shrinks that may be another way.

    Whatever is beside the resized object goes on meanwhile, unless the object cannot be changed while it is there.
    """
    target = find_target(objects, range_, namespace)
    if target.at or kueue_obstacle(objects, range_, namespace) is not None:
        return "recreate"
    containers = target.containers(range_.resource)
    told = any(_told_size(target.obj, place) for place in containers) and range_.axis == "per_pod"
    terms = ResizeTerms(told or range_.batch is not None, suspended_jobs_change, shrinks)
    return target.resizing.method(target.obj, range_.axis, terms)


def find_target(objects: Sequence[Object], range_: Range, namespace: str) -> ResizeTarget:
    """The podset that the range is about."""
    for target in resize_targets(objects, namespace):
        if target.podset.name == range_.podset:
            return target
    raise BadInput("resize", f"podset {range_.podset}", "the objects have none of this name")


def _set_variables(obj: dict[str, t.Any], container: GpuContainer, range_: Range, size: int) -> None:
    """Tell a container its size, if it asks for that, and its part of the global batch."""
    told = {NGPU: str(size)} if range_.axis == "per_pod" and _told_size(obj, container) else {}
    if range_.batch is not None:
        told |= range_.batch.environment(range_.gpus(size))
    if not told:
        return
    there = variables_at(obj, container.environment)
    kept = [_valued(item, told.pop(item["name"])) if item["name"] in told else item for item in there]
    _put(obj, container.environment, [*kept, *({"name": name, "value": value} for name, value in told.items())])


def _valued(item: Mapping[str, t.Any], value: str) -> dict[str, t.Any]:
    """A variable with another value, wherever it came from before."""
    return {**{key: part for key, part in item.items() if key != "valueFrom"}, "value": value}


def _told_size(obj: Object, container: GpuContainer) -> bool:
    """Whether a container has the variable of the size."""
    return any(item["name"] == NGPU for item in variables_at(obj, container.environment))


def _put(obj: dict[str, t.Any], path: Path, value: t.Any) -> None:
    """Set a value at a path; mappings that are missing on the way are made."""
    here: t.Any = obj
    for place, part in enumerate(path[:-1], 1):
        if isinstance(part, str) and here.get(part) is None:
            here[part] = {}
        here = here[part]
        if isinstance(path[place], str) and not isinstance(here, dict):
            raise BadInput("resize", f"{describe_object(obj)}: {path_text(path[:place])}", "a mapping is needed")
    here[path[-1]] = value
