# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What started gangs are charged with: what their records keep reserved, in the leaf each belongs to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES, GangState
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import charged_amounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import LeafChoice, find_leaf, named_queue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# Labels of namespaces by their names; empty where they may not be read.
NamespaceLabels = Mapping[str, Mapping[str, str]]


@dataclasses.dataclass(slots=True)
class LeafCounts:
    """How many gangs of a leaf are started, and how many wait."""

    started: int = 0
    waiting: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class ChargedTree:
    """A tree with what is used of it, the gangs of each leaf, and the keys of started gangs that no leaf is for."""

    usage: TreeUsage
    counts: Mapping[str, LeafCounts]
    unplaced: tuple[str, ...]


def leaf_of_record(usage: TreeUsage, record: Record, labels: NamespaceLabels) -> LeafChoice:
    """The leaf that a gang has in a tree."""
    named = named_queue(usage.tree, record.labels, record.spec.queue if record.spec is not None else None)
    return find_leaf(usage.tree, named, record.namespace, labels.get(record.namespace))


def reserved_demands(state: GangState) -> dict[str, dict[str, int]]:
    """What a started gang keeps reserved, by podset; what others damaged counts nothing."""
    demands: dict[str, dict[str, int]] = {}
    for podset in state.reserved:
        try:
            demands[podset["name"]] = {
                name: podset["count"] * scaled(name, parse_quantity(text)) for name, text in podset["requests"].items()
            }
        except BadInput:
            continue
    return demands


def charge_records(usage: TreeUsage, records: Iterable[Record], labels: NamespaceLabels) -> ChargedTree:
    """Charge every started gang to its leaf, whether it may start there today or not, and count those that wait."""
    counts = {leaf.name: LeafCounts() for leaf in usage.tree.leaves}
    unplaced = []
    for record in records:
        if record.finished:
            continue
        started = record.phase in STARTED_PHASES
        leaf = leaf_of_record(usage, record, labels).leaf
        if leaf is None:
            unplaced += [record.key] if started else []
        elif started:
            counts[leaf.name].started += 1
            demands = reserved_demands(record.state) if record.state is not None else {}
            usage.charge(leaf.name, charged_amounts(usage.tree, demands, {}))
        else:
            counts[leaf.name].waiting += 1
    return ChargedTree(usage, counts, tuple(unplaced))
