# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Completion: whether the objects of a gang have done what they were started for, and which of them failed."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.live import (
    GangPod,
    Items,
    Raw,
    condition_contains,
    condition_met,
    is_finite,
    item_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._model.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.spec import GangSpec

# Evaluates a jmespath expression on an object; the library is not for this layer to import.
Search = Callable[[str, Raw], t.Any]
PodsOf = Mapping[str, Sequence[GangPod]]


def is_done(spec: GangSpec, podsets: Sequence[PodSet], pods: PodsOf, items: Items, search: Search | None) -> bool:
    """Whether everything that has to be done is done; pods may be left.

    Without rules the kinds decide: all objects that end by themselves have succeeded, and there is at least one. A Job
    that is gone because its time to live after finishing is over counts as done.
    """
    if spec.completion is None:
        finite = [index for index, obj in enumerate(spec.objects) if is_finite(obj)]
        return bool(finite) and all(_succeeded(spec, items, index) for index in finite)
    named = sorted({entry["item"] for entry in spec.completion if "item" in entry})
    pods_count = any(entry.get("pods") for entry in spec.completion)
    if not named and not pods_count:
        return False
    if not all(_has_vanished(spec, items, index) or is_accepted(spec, items, index, search) for index in named):
        return False
    return not pods_count or _all_pods_succeeded(spec, podsets, pods, items)


def is_accepted(spec: GangSpec, items: Items, index: int, search: Search | None) -> bool:
    """Whether one of the rules about this object holds; one is enough."""
    obj = items.get(index)
    if obj is None:
        return False
    return any(_holds(entry, obj, search) for entry in spec.completion or () if entry.get("item") == index)


def failed_items(spec: GangSpec, items: Items, search: Search | None) -> list[int]:
    """The objects that failed for certain, unless a rule of completion is content with that."""
    return [
        index
        for index, obj in sorted(items.items())
        if obj is not None and item_outcome(obj) == "failed" and not is_accepted(spec, items, index, search)
    ]


def _holds(entry: Data, obj: Raw, search: Search | None) -> bool:
    """Whether one rule about an object holds."""
    if "type" in entry:
        return condition_met(obj, entry["type"], entry.get("status") or "True")
    if "contains" in entry:
        return condition_contains(obj, entry["contains"])
    return bool(search(entry["jmespath"], obj)) if search is not None and "jmespath" in entry else False


def _succeeded(spec: GangSpec, items: Items, index: int) -> bool:
    """Whether an object that ends by itself has succeeded."""
    obj = items.get(index)
    return _has_vanished(spec, items, index) if obj is None else item_outcome(obj) == "succeeded"


def _has_vanished(spec: GangSpec, items: Items, index: int) -> bool:
    """Whether an object is gone and was asked to go after it finishes."""
    own = spec.objects[index].get("spec")
    leaves = isinstance(own, Mapping) and (_ttl(own) or _ttl(own.get("runPolicy")))
    return index in items and items[index] is None and bool(leaves)


def _ttl(spec: t.Any) -> bool:
    """Whether a time to live after finishing is set."""
    return isinstance(spec, Mapping) and spec.get("ttlSecondsAfterFinished") is not None


def _all_pods_succeeded(spec: GangSpec, podsets: Sequence[PodSet], pods: PodsOf, items: Items) -> bool:
    """Whether all pods succeeded: as the object says where it counts them itself, else by looking at them."""
    for podset in podsets:
        index = podset.source_index
        if index >= 0 and is_finite(spec.objects[index]):
            if not _succeeded(spec, items, index):
                return False
        elif sum(pod.phase == "Succeeded" for pod in pods[podset.name]) < podset.count:
            return False
    return any(podset.count for podset in podsets)
