# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else decides about the size of an object: Kueue, and autoscalers.

Of what Kueue manages only what it lets change may be resized, or it takes the whole job back. It lets the number of
pods change of objects that carry its annotation for elastic jobs, and of no others. Kinds that it calls elastic but
whose objects would have to be made anew for another size are none of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import ResizeTarget, resize_targets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Object, path_text
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.batch import MIN_PARALLELISM
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import (
    describe_object,
    group_and_kind,
    value_at,
)

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
ELASTIC_ANNOTATION = "kueue.x-k8s.io/elastic-job"
ELASTIC_KINDS = {("batch", "Job"), ("ray.io", "RayCluster")}
_GROUP = "kueue.x-k8s.io/"


def is_managed(obj: Object) -> bool:
    """Whether Kueue admits an object: the label says it, in old versions an annotation, or the name of its manager."""
    texts = (value_at(obj, ("metadata", part)) for part in ("labels", "annotations"))
    queued = any(isinstance(found, Mapping) and found.get(QUEUE_LABEL) for found in texts)
    return queued or _is_elsewhere(obj)


def scale_obstacle(obj: Object) -> str | None:
    """Why Kueue lets the number of pods of an object that it manages not change; None where it does."""
    group, kind = group_and_kind(obj)
    if (group, kind) not in ELASTIC_KINDS:
        names = " and ".join(f"{name}s" for _group, name in sorted(ELASTIC_KINDS))
        return f"of a {kind} Kueue lets no size change in place, only the number of pods of {names}"
    if _is_elsewhere(obj):
        return "Kueue runs it in another cluster, where its size cannot be changed; leave managedBy out"
    if value_at(obj, ("metadata", "annotations", ELASTIC_ANNOTATION)) != "true":
        return f'Kueue lets its size change only with the annotation {ELASTIC_ANNOTATION}: "true"; add it'
    if value_at(obj, ("metadata", "annotations", MIN_PARALLELISM)) is not None:
        return f"Kueue takes no elastic job that it may start with fewer pods; leave {MIN_PARALLELISM} out"
    return None


def kueue_obstacle(objects: Sequence[Object], range_: Range, namespace: str) -> tuple[Object, str] | None:
    """The object for which Kueue would not let a range be carried out, and why; None where it would."""
    found = (item for item in resize_targets(objects, namespace) if item.podset.name == range_.podset)
    target: ResizeTarget | None = next(found, None)
    if target is None:
        return None
    for obj in (objects[target.index], target.obj):
        cause = _cause(obj, range_) if is_managed(obj) else None
        if cause is not None:
            return obj, cause
    return None


def refuse_other_deciders(objects: Sequence[Object], range_: Range, namespace: str) -> None:
    """Refuse a range of which somebody else decides; BadInput names the object and the cause."""
    found = kueue_obstacle(objects, range_, namespace)
    if found is not None:
        obj, cause = found
        raise BadInput("resize", f"{describe_object(obj)} that Kueue manages (label {QUEUE_LABEL})", cause)
    for target in resize_targets(objects, namespace):
        scaled = target.resizing.autoscaled
        if target.podset.name == range_.podset and scaled is not None and value_at(target.obj, scaled):
            cause = (
                "its operator makes an autoscaler of it, which changes the number of pods too and takes back what a "
                "resize did; leave it out"
            )
            raise BadInput("resize", f"{target.where}: {path_text(scaled)}", cause)


def _cause(obj: Object, range_: Range) -> str | None:
    """Why a range of an object that Kueue manages cannot be carried out."""
    found = scale_obstacle(obj)
    if found is not None:
        return found
    if range_.axis != "pods":
        return "Kueue lets its number of pods change, not the GPUs of a pod; use the axis pods, or take the label off"
    if range_.batch is not None:
        return "Kueue lets its number of pods change, not the variables of a global batch; leave global_batch out"
    return None


def _is_elsewhere(obj: Object) -> bool:
    """Whether a part of Kueue is named as what runs it."""
    managers = (value_at(obj, path) for path in (("spec", "managedBy"), ("spec", "runPolicy", "managedBy")))
    return any(str(name).startswith(_GROUP) for name in managers if name)
