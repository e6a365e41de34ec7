# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a size stands in the objects of a gang: for each podset its object, its template and its containers."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    Axis,
    Object,
    Path,
    PodBounds,
    Resizing,
    path_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet, infer_podsets
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object

_GPU_GROUPS = ("gpu.intel.com/", "habana.ai/", "nvidia.com/mig-")


@dataclasses.dataclass(frozen=True, slots=True)
class GpuContainer:
    """Where a container that asks for GPUs has its resources and its environment, from the gang's object on."""

    resources: Path
    environment: Path


@dataclasses.dataclass(frozen=True, slots=True)
class ResizeTarget:
    """One podset of a gang with the object that makes its pods; at leads from the gang's object to that one."""

    podset: PodSet
    obj: Object
    at: Path

    @property
    def index(self) -> int:
        """The place of the gang's object."""
        return self.podset.source_index

    @property
    def resizing(self) -> Resizing:
        """What is known of the object's kind."""
        return kind_of(self.obj).resizing

    @property
    def where(self) -> str:
        """The object for messages."""
        return describe_object(self.obj)

    @property
    def counts(self) -> tuple[Path, ...]:
        """Where the number of pods stands; nowhere in wrapped objects, whose wrapper declares it a second time."""
        return () if self.at else self.resizing.counts(self.obj, self.podset.path)

    @property
    def bounds(self) -> PodBounds | None:
        """The range of pods that the object itself carries; none if there is only one number in it."""
        found = None if self.at else self.resizing.bounds(self.obj, self.podset.path)
        return found if found is not None and found.low != found.high else None

    def containers(self, resource: str) -> tuple[GpuContainer, ...]:
        """The containers that ask for a resource."""
        return tuple(place for place in self._places() if resource in _asked(self.obj, place.resources[len(self.at) :]))

    def gpu_resources(self) -> set[str]:
        """The GPU resources that its containers ask for."""
        places = (place.resources[len(self.at) :] for place in self._places())
        return {name for place in places for name in _asked(self.obj, place) if is_gpu(name)}

    def method_axes(self) -> tuple[Axis, ...]:
        """What can be changed."""
        return ("per_pod", "pods") if self.counts else ("per_pod",)

    def _places(self) -> Iterator[GpuContainer]:
        """All containers of a pod; in objects without a template, the fields that stand for one."""
        if self.podset.path is None:
            resizing = self.resizing
            if resizing.resources is not None and resizing.environment is not None and not self.at:
                yield GpuContainer(resizing.resources, resizing.environment)
            return
        containers = (*self.podset.path, "spec", "containers")
        inside = containers[len(self.at) :]
        for index in range(len(find_at(self.obj, inside) or ())):
            yield GpuContainer((*containers, index, "resources"), (*containers, index, "env"))


def resize_targets(objects: Sequence[Object], namespace: str) -> list[ResizeTarget]:
    """The podsets of a gang with their objects."""
    targets = []
    for podset in infer_podsets(objects, namespace=namespace):
        outer = objects[podset.source_index]
        at = _innermost(outer, podset.path or ())
        targets.append(ResizeTarget(podset, find_at(outer, at), at))
    return targets


def is_gpu(resource: str) -> bool:
    """Whether a resource is some vendor's GPUs, whole or in slices."""
    return "/" in resource and (resource.partition("/")[2].startswith("gpu") or resource.startswith(_GPU_GROUPS))


def find_at(obj: t.Any, path: Path) -> t.Any:
    """The value at a path through mappings and lists; None when a part of it is missing."""
    for part in path:
        if isinstance(part, int):
            obj = obj[part] if isinstance(obj, Sequence) and part < len(obj) else None
        else:
            obj = obj.get(part) if isinstance(obj, Mapping) else None
    return obj


def variables_at(obj: Object, path: Path) -> list[Mapping[str, t.Any]]:
    """The environment of a container; what nobody can read as one is refused."""
    found = find_at(obj, path)
    entries: list[t.Any] = list(found) if isinstance(found, Sequence) and not isinstance(found, str) else [found]
    if found is None:
        return []
    if not all(isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in entries):
        raise BadInput("read", f"{describe_object(obj)}: {path_text(path)}", "a list of variables with names is needed")
    return entries


def field_text(target: ResizeTarget, path: Path) -> str:
    """A field of an object for messages."""
    return f"{target.where}: {path_text(path)}"


def _innermost(outer: Object, path: Path) -> Path:
    """Where the object that a template belongs to begins: the last one on the way that has a kind."""
    ways = (path[:length] for length in range(len(path), -1, -1))
    return next(way for way in ways if not way or _is_object(find_at(outer, way)))


def _is_object(value: t.Any) -> bool:
    return isinstance(value, Mapping) and "kind" in value and "apiVersion" in value


def _asked(obj: Object, resources: Path) -> set[str]:
    """The names of resources in requests and limits."""
    lists = (find_at(obj, (*resources, field)) for field in ("requests", "limits"))
    return {str(name) for amounts in lists if isinstance(amounts, Mapping) for name in amounts}
