# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The range of a job: what the user declares and what its objects carry, brought together and checked against them."""

from __future__ import annotations

import dataclasses
import itertools
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.allotment import allotted
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.carried import CarriedRange, carried_ranges
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import (
    DeclaredRange,
    GlobalBatch,
    Range,
    dividing,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.reading import MOST, BadRange
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import (
    ResizeTarget,
    resize_targets,
    variables_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Axis, Object, read_number
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import infer_podsets, total_demand
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import without_none
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object
from ansible_collections.muster.kube.plugins.module_utils._model.values.problems import Problem

_DECLARED = "range"
# So many objects are named in a message about all of them.
_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class _Aim:
    """A range together with the podset and the axis it is about."""

    where: str
    target: ResizeTarget
    axis: Axis
    range: DeclaredRange | CarriedRange

    @property
    def about(self) -> tuple[str, Axis]:
        """What it counts."""
        return self.target.podset.name, self.axis

    def __str__(self) -> str:
        return f"{self.where} says {self.range.min}..{self.range.max} ({self.axis} of {self.target.podset.name})"


def range_of(
    objects: Sequence[Object], declared: DeclaredRange | None = None, *, namespace: str = "default"
) -> Range | None:
    """The range of a gang's objects; None when neither the user nor an object names one.

    BadRange tells everything that is wrong: two ranges that disagree, kinds without pods, mixed GPU resources, sizes
    that do not share the global batch.
    """
    targets = resize_targets(objects, namespace) if objects else []
    carried, problems = carried_ranges(objects, targets)
    if problems:
        raise BadRange(problems)
    if declared is None and not carried:
        return None
    resource = _resource(objects, targets, declared)
    aims = [_carried_aim(item, targets, resource) for item in carried if _meant(item, targets, declared)]
    own = None if declared is None else _declared_aim(declared, targets, resource, aims)
    _agree(own, aims)
    return _bound(objects, own or aims[0], resource, declared.batch if declared is not None else None, namespace)


def with_carried_sizes(elastic: Mapping[str, t.Any], objects: Sequence[Object], namespace: str) -> Mapping[str, t.Any]:
    """The terms as a user wrote them, where a range without sizes of its own has those that the objects carry.

    So a podset or a global batch can be named beside sizes that are read from the objects.
    """
    written = elastic.get("range")
    if not isinstance(written, Mapping) or any(written.get(key) is not None for key in ("min", "max", "sizes")):
        return elastic
    targets = resize_targets(objects, namespace)
    carried, problems = carried_ranges(objects, targets)
    named = DeclaredRange(1, 1, podset=written.get("podset"))
    meant = [item for item in carried if _meant(item, targets, named)]
    if not meant and not problems:
        problems = [Problem(_DECLARED, "min", "neither this nor an object of the gang names the sizes it may have")]
    if problems:
        raise BadRange(problems)
    first = meant[0]
    sizes: dict[str, t.Any] = {"min": first.min, "max": first.max}
    if written.get("step") is None:
        sizes |= {"step": first.step, "sizes": first.sizes and list(first.sizes)}
    return {**elastic, "range": {**written, **without_none(sizes)}}


def _resource(objects: Sequence[Object], targets: Sequence[ResizeTarget], declared: DeclaredRange | None) -> str:
    """The one GPU resource of the gang."""
    them = _some(objects)
    if not targets:
        raise BadRange([Problem("objects", "", f"none of them makes pods ({them})")])
    found = sorted(set().union(*(target.gpu_resources() for target in targets)))
    if len(found) > 1:
        raise BadRange([Problem("objects", "", f"their pods ask for different GPUs: {', '.join(found)} ({them})")])
    named = declared.resource if declared is not None else None
    if named is not None and any(target.containers(named) for target in targets):
        return named
    if not found or named is not None:
        cause = f"no container asks for {named or 'GPUs, such as nvidia.com/gpu'} ({them})"
        raise BadRange([Problem("objects", "", cause)])
    return found[0]


def _some(objects: Sequence[Object]) -> str:
    """The objects for messages, of many the first."""
    names = [describe_object(obj) for obj in objects[:_NAMED]]
    left = len(objects) - len(names)
    return ", ".join(names) + (f" and {left} more" if left > 0 else "")


def _meant(item: CarriedRange, targets: Sequence[ResizeTarget], declared: DeclaredRange | None) -> bool:
    """Whether a range of an object counts: bounds of other podsets than the one that is named are none of the job's."""
    if declared is None or declared.podset is None or item.podset is None or item.axis != "pods":
        return True
    return any(target.podset.name == item.podset for target in _named(targets, declared.podset))


def _named(targets: Sequence[ResizeTarget], name: str) -> list[ResizeTarget]:
    """The podsets of a name, which may be its last part alone."""
    exact = [target for target in targets if target.podset.name == name]
    return exact or [target for target in targets if target.podset.name.rpartition("/")[2] == name]


def _carried_aim(item: CarriedRange, targets: Sequence[ResizeTarget], resource: str) -> _Aim:
    """What a range in an object is about."""
    near = [target for target in targets if target.index == item.index]
    if item.podset is not None:
        near = [target for target in near if target.podset.name == item.podset]
    target, axis = _only(near, item.axis, resource, item.where)
    return _Aim(item.where, target, axis, item)


def _declared_aim(
    declared: DeclaredRange, targets: Sequence[ResizeTarget], resource: str, aims: Sequence[_Aim]
) -> _Aim:
    """What the user's range is about; where it does not say so, what the objects' own range is about."""
    if declared.podset is not None:
        targets = _named(targets, declared.podset)
        if not targets:
            raise BadRange([Problem(_DECLARED, "podset", f"the objects have no podset {declared.podset}")])
    elif aims:
        targets = [aims[0].target]
    axis = declared.axis or (aims[0].axis if aims else None)
    target, axis = _only(targets, axis, resource, _DECLARED)
    return _Aim(_DECLARED, target, axis, declared)


def _only(targets: Sequence[ResizeTarget], axis: Axis | None, resource: str, where: str) -> tuple[ResizeTarget, Axis]:
    """The one podset that can be meant, and the axis."""
    able = [target for target in targets if target.containers(resource)]
    if not able:
        raise BadRange([Problem(where, "", f"no container of these pods asks for {resource}")])
    axis = axis or able[0].resizing.axis
    able = [target for target in able if axis in target.method_axes()]
    if not able:
        raise BadRange([Problem(where, "axis", "the number of these pods cannot be changed; resize GPUs per pod")])
    if axis == "pods" and len({(target.index, target.counts) for target in able}) == 1:
        return able[0], axis
    if len(able) > 1:
        names = ", ".join(target.podset.name for target in able)
        raise BadRange([Problem(where, "podset", f"name the podset that is resized: {names}")])
    if axis == "per_pod" and len(able[0].containers(resource)) > 1:
        cause = f"several containers of {able[0].podset.name} ask for {resource}; only one may"
        raise BadRange([Problem(where, "podset", cause)])
    return able[0], axis


def _agree(own: _Aim | None, aims: Sequence[_Aim]) -> None:
    """Refuse ranges that disagree; the user's may be narrower than an object's."""
    for one, other in itertools.pairwise(aims):
        if (one.about, one.range.min, one.range.max) != (other.about, other.range.min, other.range.max):
            raise BadRange([Problem("objects", "", f"two ranges disagree: {one}; {other}")])
    if own is None or not aims:
        return
    bounds = aims[0].range
    if own.about != aims[0].about or not bounds.min <= own.range.min <= own.range.max <= bounds.max:
        raise BadRange([Problem(_DECLARED, "", f"two ranges disagree: {own}; {aims[0]}")])


def _bound(objects: Sequence[Object], aim: _Aim, resource: str, batch: GlobalBatch | None, namespace: str) -> Range:
    """The range with what a size brings in GPUs, which is tried out on the objects."""
    found = aim.range
    if found.max > MOST:
        raise BadRange([Problem(aim.where, "max", f"{found.max} is more than any range may have, {MOST}")])
    written = DeclaredRange(found.min, found.max, found.step, found.sizes).written_sizes
    plain = Range(written, resource, aim.target.podset.name, aim.axis)
    low, high = (_gpus(objects, plain, size, namespace) for size in (plain.min, plain.max))
    unit, rest = divmod(high - low, plain.max - plain.min) if plain.max > plain.min else (0, 0)
    sized = dataclasses.replace(plain, unit=unit, fixed=low - unit * plain.min)
    middle = written[len(written) // 2]
    if rest or _gpus(objects, plain, middle, namespace) != sized.gpus(middle) or (unit < 1 and len(written) > 1):
        raise BadRange([Problem(aim.where, "max", f"the pods of {plain.podset} do not follow the size")])
    return _shared(sized, batch, found.sizes is not None, aim)


def _shared(range_: Range, batch: GlobalBatch | None, listed: bool, aim: _Aim) -> Range:
    """The range with the sizes that share the global batch evenly; sizes that were listed all have to."""
    if batch is None:
        return range_
    sizes = dividing(range_.sizes, [range_.gpus(size) for size in range_.sizes], batch)
    wrong = [size for size in range_.sizes if size not in sizes]
    if wrong and (listed or not sizes):
        gpus = ", ".join(f"{range_.gpus(size)} GPUs (size {size})" for size in wrong[:8])
        raise BadRange([Problem(_DECLARED, "global_batch.value", f"{batch.value} cannot be shared evenly by {gpus}")])
    most = next(_written_batches(range_, batch, aim), None)
    return dataclasses.replace(range_, sizes=sizes, batch=dataclasses.replace(batch, most_per_device=most))


def _written_batches(range_: Range, batch: GlobalBatch, aim: _Aim) -> Iterator[int]:
    """What the containers' variable says in the specification: a GPU takes so many samples at once."""
    for container in aim.target.containers(range_.resource):
        for item in variables_at(aim.target.obj, container.environment[len(aim.target.at) :]):
            number = read_number(item.get("value")) if item["name"] == batch.per_device_env else None
            if number:
                yield number


def _gpus(objects: Sequence[Object], range_: Range, size: int, namespace: str) -> int:
    sized = allotted(objects, range_, size, namespace=namespace)
    return total_demand(infer_podsets(sized, namespace=namespace)).get(range_.resource, 0)
