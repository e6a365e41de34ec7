# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Completion: whether the objects of a gang have done what they were started for, and which of them failed."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import (
    GangPod,
    Items,
    Raw,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import ItemOutcome
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import (
    expected_pods,
    is_finite,
    item_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import condition_contains, condition_met

# Evaluates a jmespath expression on an object; the library is not for this layer to import.
Search = Callable[[str, Raw], t.Any]
PodsOf = Mapping[str, Sequence[GangPod]]


class Endings:
    """How the objects of a gang ended: as they say it, else as it was noted before they went.

    An object with rules of completion has succeeded when one of them holds, whatever its kind would say.
    """

    def __init__(
        self,
        spec: GangSpec,
        podsets: Sequence[PodSet],
        pods: PodsOf,
        items: Items,
        kept: Mapping[int, ItemOutcome],
        search: Search | None,
    ) -> None:
        """Kept are the outcomes noted so far; what a live object says now counts more."""
        self._spec, self._podsets, self._pods, self._items = spec, podsets, pods, items
        self._outcomes: dict[int, ItemOutcome] = {}
        for index in range(len(spec.objects)):
            obj = items.get(index)
            outcome = kept.get(index) if obj is None else _ended(spec, obj, index, search)
            if outcome is None and self._is_gone(index) and self._pods_tell(index):
                outcome = "succeeded"
            if outcome is not None:
                self._outcomes[index] = outcome

    def seen(self) -> dict[int, ItemOutcome]:
        """Every outcome that is known, to be noted: the objects may be gone when somebody looks again."""
        return dict(self._outcomes)

    def done(self) -> bool:
        """Whether everything that has to be done is done; pods may be left.

        Without rules the kinds decide: all objects that end by themselves have succeeded, and there is at least one.
        """
        rules = self._spec.completion
        if rules is None:
            finite = [index for index, obj in enumerate(self._spec.objects) if is_finite(obj)]
            return bool(finite) and all(self._outcomes.get(index) == "succeeded" for index in finite)
        named = {entry["item"] for entry in rules if "item" in entry}
        pods_count = any(entry.get("pods") for entry in rules)
        if not named and not pods_count:
            return False
        if any(self._outcomes.get(index) != "succeeded" for index in named):
            return False
        return not pods_count or self._all_pods_succeeded()

    def failed(self) -> list[int]:
        """The objects that failed for certain, unless a rule of completion is content with that."""
        return [index for index, outcome in self._outcomes.items() if outcome == "failed"]

    def unknown(self) -> list[int]:
        """The objects that end by themselves and are gone before anybody saw how they ended."""
        return [index for index in self._missing() if is_finite(self._spec.objects[index])]

    def vanished(self) -> list[int]:
        """The objects that never end by themselves and are gone."""
        return [index for index in self._missing() if not is_finite(self._spec.objects[index])]

    def _missing(self) -> list[int]:
        """The objects that are gone, and nobody knows how they ended."""
        return [
            index for index in range(len(self._spec.objects)) if self._is_gone(index) and index not in self._outcomes
        ]

    def _is_gone(self, index: int) -> bool:
        """Whether an object was looked for and not found."""
        return index in self._items and self._items[index] is None

    def _pods_tell(self, index: int) -> bool:
        """Whether all the pods an object could ever want have succeeded; fewer, or failed ones, prove nothing."""
        mine = [podset for podset in self._podsets if podset.source_index == index]
        try:
            wants = expected_pods(self._spec.planned[index], namespace=self._spec.namespace)
        except BadInput:
            return False
        if not mine or len(mine) != len(wants) or not is_finite(self._spec.objects[index]):
            return False
        return all(
            sum(pod.phase == "Succeeded" for pod in self._pods[podset.name]) >= max(1, want.now + want.spare)
            for podset, want in zip(mine, wants, strict=True)
        )

    def _all_pods_succeeded(self) -> bool:
        """Whether all pods succeeded: as the object says where it counts them itself, else by looking at them."""
        for podset in self._podsets:
            index = podset.source_index
            if index >= 0 and is_finite(self._spec.objects[index]):
                obj = self._items.get(index)
                if (self._outcomes.get(index) if obj is None else item_outcome(obj)) != "succeeded":
                    return False
            elif sum(pod.phase == "Succeeded" for pod in self._pods[podset.name]) < podset.count:
                return False
        return any(podset.count for podset in self._podsets)


def is_accepted(spec: GangSpec, obj: Raw, index: int, search: Search | None) -> bool:
    """Whether one of the rules about this object holds; one is enough."""
    return any(_holds(entry, obj, search) for entry in _rules(spec, index))


def _rules(spec: GangSpec, index: int) -> list[Data]:
    """The rules of completion about one object."""
    return [entry for entry in spec.completion or () if entry.get("item") == index]


def _ended(spec: GangSpec, obj: Raw, index: int, search: Search | None) -> ItemOutcome | None:
    """How a live object ended; with rules about it none but these say that it succeeded."""
    if is_accepted(spec, obj, index, search):
        return "succeeded"
    outcome = item_outcome(obj)
    return None if outcome == "succeeded" and _rules(spec, index) else outcome


def _holds(entry: Data, obj: Raw, search: Search | None) -> bool:
    """Whether one rule about an object holds."""
    if "type" in entry:
        return condition_met(obj, entry["type"], entry.get("status") or "True")
    if "contains" in entry:
        return condition_contains(obj, entry["contains"])
    return bool(search(entry["jmespath"], obj)) if search is not None and "jmespath" in entry else False
