# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ranges that objects carry themselves, in the forms that people use.

- requests and limits of a GPU resource that differ: from the one to the other, GPUs of each pod
- annotations muster.kube/min, max, step, sizes, and the bare ones of the GenAI workload manager: request and limit
- bounds of the kind itself: elasticPolicy, worker groups, Kueue's partial admission
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import BadRange, read_range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import (
    ResizeTarget,
    field_text,
    find_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Axis, Object, read_number
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import kind_of
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem

PREFIX = "muster.kube/"
_KEYS = ("min", "max", "step", "sizes")
_NO_DATA: Mapping[str, t.Any] = {}
# So much of a text that is no number is told.
_SHOWN = 40


@dataclasses.dataclass(frozen=True, slots=True)
class CarriedRange:
    """A range found in an object; index is the object's place, podset and axis are None when the form says neither."""

    where: str
    index: int
    min: int
    max: int
    step: int | None = None
    sizes: tuple[int, ...] | None = None
    podset: str | None = None
    axis: Axis | None = None


def carried_ranges(
    objects: Sequence[Object], targets: Sequence[ResizeTarget]
) -> tuple[list[CarriedRange], list[Problem]]:
    """All ranges in the objects, and what is wrong with those that cannot be read."""
    found: list[CarriedRange] = []
    problems: list[Problem] = []
    for read in (_annotated, _bare, _by_resources, _by_bounds):
        try:
            found.extend(read(objects, targets))
        except BadRange as error:
            problems.extend(error.problems)
    return found, problems


def _owners(objects: Sequence[Object], targets: Sequence[ResizeTarget]) -> Iterator[tuple[int, Object]]:
    """The gang's objects, and those inside of them that make pods, each once."""
    yield from enumerate(objects)
    yield from {(target.index, target.at): (target.index, target.obj) for target in targets if target.at}.values()


def _annotations(obj: Object) -> Mapping[str, t.Any]:
    found = find_at(obj, ("metadata", "annotations"))
    return found if isinstance(found, Mapping) else _NO_DATA


def _annotated(objects: Sequence[Object], targets: Sequence[ResizeTarget]) -> Iterator[CarriedRange]:
    """Our own annotations."""
    for index, obj in _owners(objects, targets):
        notes = _annotations(obj)
        given = {key: notes[PREFIX + key] for key in _KEYS if PREFIX + key in notes}
        if not given:
            continue
        where = f"{describe_object(obj)}: metadata.annotations"
        if not kind_of(obj).may_make_pods:
            first, *_others = given
            raise BadRange([Problem(where, PREFIX + first, f"a {obj['kind']} makes no pods")])
        written = _read_texts(where, given, PREFIX)
        yield CarriedRange(where, index, written["min"], written["max"], written.get("step"), written.get("sizes"))


def _read_texts(where: str, given: Mapping[str, t.Any], prefix: str) -> dict[str, t.Any]:
    """A range whose numbers are texts, since annotations are."""
    try:
        numbers: dict[str, t.Any] = {key: _number(where, prefix + key, text) for key, text in given.items()}
        found = read_range(numbers)
    except BadRange as error:
        problems = [Problem(where, prefix + item.field if item.field else "", item.cause) for item in error.problems]
        raise BadRange(problems) from error
    return {"min": found.min, "max": found.max, "step": found.step, "sizes": found.sizes}


def _number(where: str, key: str, text: t.Any) -> t.Any:
    """A whole number, or a list of them with commas between."""
    parts = str(text).split(",")
    numbers = [number for part in parts if (number := read_number(part)) is not None]
    if len(numbers) < len(parts):
        raise BadRange([Problem(where, "", f"{key}: a whole number is needed, not {str(text)[:_SHOWN]!r}")])
    return numbers if key.endswith("sizes") else numbers[0] if len(numbers) == 1 else text


def _bare(objects: Sequence[Object], targets: Sequence[ResizeTarget]) -> Iterator[CarriedRange]:
    """The annotations request and limit; replicas beside them says how many pods there are, and has to be true."""
    for index, obj in _owners(objects, targets):
        notes = _annotations(obj)
        if "request" not in notes or "limit" not in notes or not kind_of(obj).may_make_pods:
            continue
        where = f"{describe_object(obj)}: metadata.annotations"
        written = _read_texts(where, {"min": notes["request"], "max": notes["limit"]}, "")
        pods = sum(target.podset.count for target in targets if target.index == index)
        if "replicas" in notes and str(notes["replicas"]) != str(pods):
            raise BadRange([Problem(where, "replicas", f"it says {notes['replicas']}, and the object has {pods} pods")])
        if written["min"] != written["max"]:
            yield CarriedRange(where, index, written["min"], written["max"], axis="per_pod")


def _by_resources(_objects: Sequence[Object], targets: Sequence[ResizeTarget]) -> Iterator[CarriedRange]:
    """Requests below the limits of a GPU resource, which Kubernetes itself would refuse."""
    for target in targets:
        for resource in sorted(target.gpu_resources()):
            for container in target.containers(resource):
                path = container.resources[len(target.at) :]
                low, high = (find_at(target.obj, (*path, field, resource)) for field in ("requests", "limits"))
                if low is None or high is None or str(low) == str(high):
                    continue
                where = field_text(target, path)
                written = _read_texts(where, {"min": low, "max": high}, "")
                yield CarriedRange(
                    where, target.index, written["min"], written["max"], podset=target.podset.name, axis="per_pod"
                )


def _by_bounds(_objects: Sequence[Object], targets: Sequence[ResizeTarget]) -> Iterator[CarriedRange]:
    """What a kind says about its own number of pods."""
    for target in targets:
        bounds = target.bounds
        if bounds is None or not target.gpu_resources():
            continue
        where = field_text(target, bounds.where)
        if not 1 <= bounds.low <= bounds.high:
            raise BadRange([Problem(where, "", f"{bounds.low}..{bounds.high} is no range")])
        yield CarriedRange(where, target.index, bounds.low, bounds.high, podset=target.podset.name, axis="pods")
