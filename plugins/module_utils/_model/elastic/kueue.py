# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs that Kueue manages: of these only what it lets change may be resized, or it takes the whole job back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.range import Range
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.target import find_at, resize_targets
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import Object
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import describe_object, group_and_kind

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# The kinds whose number of pods may change while they are admitted (its annotation kueue.x-k8s.io/elastic-job).
ELASTIC_KINDS = {("batch", "Job"), ("ray.io", "RayCluster"), ("ray.io", "RayJob"), ("ray.io", "RayService")}


def refuse_beyond_kueue(objects: Sequence[Object], range_: Range, namespace: str) -> None:
    """Refuse a range that Kueue would not let be carried out; BadInput names the object and the cause."""
    target = next(item for item in resize_targets(objects, namespace) if item.podset.name == range_.podset)
    for obj in (objects[target.index], target.obj):
        if not is_managed(obj):
            continue
        group, kind = group_and_kind(obj)
        where = f"{describe_object(obj)} that Kueue manages (label {QUEUE_LABEL})"
        if (group, kind) not in ELASTIC_KINDS:
            names = ", ".join(sorted(name for _group, name in ELASTIC_KINDS))
            raise BadInput("resize", where, f"of a {kind} Kueue lets no size change, only of these: {names}")
        if range_.axis != "pods":
            cause = (
                "Kueue lets its number of pods change, not the GPUs of a pod; use the axis pods, or take the label off"
            )
            raise BadInput("resize", where, cause)


def is_managed(obj: Object) -> bool:
    """Whether Kueue admits an object: the label says it, in old versions an annotation."""
    metadata = (find_at(obj, ("metadata", part)) for part in ("labels", "annotations"))
    return any(isinstance(texts, Mapping) and texts.get(QUEUE_LABEL) for texts in metadata)
