# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Together: gangs that start in one cycle meet in the scheduler's queue, so they must fit in any order among them.

Each verdict looks at one gang alone. Where several are started before the first is bound, the scheduler may place an
earlier one other than expected and take what a later one counted on; then the later one has to wait for the next cycle.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.gang import Gang, confined
from ansible_collections.muster.kube.plugins.module_utils._model.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._policy.fit import open_case
from ansible_collections.muster.kube.plugins.module_utils._policy.proof import Budget
from ansible_collections.muster.kube.plugins.module_utils._policy.room import Room
from ansible_collections.muster.kube.plugins.module_utils._policy.steer import order_free

Steering = t.Mapping[str, t.Sequence[str]]
PodClass = tuple[str, str]
# More kinds of pods than this in one cycle are not worth proving; the rest waits for the next.
MOST_CLASSES = 24


def labels_matter(room: Room, gangs: t.Iterable[Gang]) -> bool:
    """Whether any pod that runs or is to start has rules about other pods; only then do labels tell pods apart.

    Most labels name the object a pod comes from, and with them no two gangs would ever be alike.
    """
    return bool(room.anti_terms) or any(_minds_neighbors(podset) for gang in gangs for podset in gang.podsets)


def pod_class(namespace: str, podset: PodSet, *, with_labels: bool) -> PodClass:
    """What makes pods alike to the scheduler: namespace, spec, size and labels, but not how many or called what."""
    template = podset.template
    labels = (template.get("metadata") or {}).get("labels") if with_labels else None
    text = json.dumps([labels, template.get("spec"), podset.requests], sort_keys=True, default=str)
    return namespace, text


def demand_class(gang: Gang, *, with_labels: bool) -> tuple[tuple[PodClass, int], ...]:
    """What makes gangs alike to a verdict; gangs of one class get the same answer from the same room."""
    return tuple((pod_class(gang.namespace, item, with_labels=with_labels), item.count) for item in gang.podsets)


def steered(gang: Gang, steering: Steering) -> Gang:
    """The gang with the node affinity that its objects will carry."""
    if not steering:
        return gang
    podsets = tuple(confined(podset, steering.get(podset.name)) for podset in gang.podsets)
    return dataclasses.replace(gang, podsets=podsets)


class Together:
    """What was agreed to start on one room, and whether one more gang may join."""

    def __init__(self, room: Room, *, with_labels: bool) -> None:
        """The room as it is before anything of this company is placed; it must not change meanwhile."""
        self._room = room
        self._with_labels = with_labels
        self._classes: dict[PodClass, tuple[str, PodSet]] = {}

    def admits(self, gang: Gang, steering: Steering) -> bool:
        """Whether all pods agreed so far and this gang's fit in whatever order the scheduler takes them."""
        if not self._classes:
            return True
        classes = dict(self._classes)
        self._merge(classes, steered(gang, steering))
        if len(classes) > MOST_CLASSES:
            return False
        return self._fits_in_any_order(classes.values())

    def add(self, gang: Gang, steering: Steering) -> None:
        """Count a gang as agreed."""
        self._merge(self._classes, steered(gang, steering))

    def _merge(self, classes: dict[PodClass, tuple[str, PodSet]], gang: Gang) -> None:
        """Add a gang's pods to those of their class."""
        for podset in gang.podsets:
            if podset.count:
                key = pod_class(gang.namespace, podset, with_labels=self._with_labels)
                before = classes[key][1].count if key in classes else 0
                classes[key] = (gang.namespace, dataclasses.replace(podset, count=before + podset.count))

    def _fits_in_any_order(self, classes: t.Collection[tuple[str, PodSet]]) -> bool:
        """The order-free proof for one gang made of all; pods of several namespaces cannot be put on one board."""
        namespaces = {namespace for namespace, _podset in classes}
        if len(namespaces) > 1 and any(_minds_neighbors(podset) for _namespace, podset in classes):
            return False
        podsets = [dataclasses.replace(podset, name=str(index)) for index, (_namespace, podset) in enumerate(classes)]
        whole = Gang("together", min(namespaces), tuple(podsets))
        board = open_case(whole, self._room).board
        return not board.overdrawn() and order_free(board, Budget())


def _minds_neighbors(podset: PodSet) -> bool:
    """Whether the pods have rules about other pods, which depend on the namespace they are read in."""
    spec = podset.template.get("spec") or {}
    affinity = spec.get("affinity") or {}
    claims = any((volume or {}).get("persistentVolumeClaim") for volume in spec.get("volumes") or ())
    return bool(
        affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
        or spec.get("topologySpreadConstraints")
        or claims
    )
