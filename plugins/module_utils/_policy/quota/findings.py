# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an administrator looks for in a tree: who starves while others borrow, and where records and pods disagree."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import Demands, reserved_demands
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import choose_flavors
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.judgement import borrowers
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage


@dataclasses.dataclass(frozen=True, slots=True)
class BorrowerPair:
    """A queue that uses more than its own of a resource, and one whose waiting gangs lack exactly that.

    short is what the gang lacks that needs least; waiting is how many gangs lack it.
    """

    key: FlavorResource
    borrower: str
    borrowed: int
    starved: str
    short: int
    waiting: int


def borrower_pairs(usage: TreeUsage, waiting: Iterable[tuple[str, Demands]]) -> tuple[BorrowerPair, ...]:
    """Borrowers beside those that lack what is borrowed; waiting are the leaves and demands of gangs that wait.

    Gangs that can never fit starve for other reasons. Of many borrowers of one resource those count that took most.
    """
    lacking: dict[tuple[str, FlavorResource], list[int]] = {}
    known: dict[object, QuotaAmounts] = {}
    for leaf, demands in waiting:
        _flavors, amounts = choose_flavors(usage, leaf, demands)
        asked = leaf, tuple(sorted(amounts.items()))
        if asked not in known:
            answer = usage.answer(leaf, amounts)
            known[asked] = answer.short if answer.answer == "waits" else {}
        for key, short in known[asked].items():
            lacking.setdefault((leaf, key), []).append(short)
    return tuple(
        BorrowerPair(key, level.queue, level.borrowed, leaf, min(shorts), len(shorts))
        for (leaf, key), shorts in sorted(lacking.items())
        for level in borrowers(usage, leaf, {key: min(shorts)})
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Drift:
    """A started gang that is not what its state says: of a resource more or less, or charged to a queue that is gone.

    resource is None where it is about the queue.
    """

    gang: str
    queue: str
    resource: str | None = None
    charged: int = 0
    used: int = 0


def find_drift(tree: QuotaTree, started: Iterable[tuple[Record, Mapping[str, int]]]) -> tuple[Drift, ...]:
    """Where charges of started gangs and what their living pods ask for differ, and charges to queues that are gone.

    A gang that is still being started, or taken back, may have fewer pods than are charged, and never more.
    """
    found = []
    for record, living in started:
        state = record.state
        charge = next((item for item in (state.charged if state else ()) if item.tree == tree.name), None)
        queue = charge.queue if charge is not None else ""
        if charge is not None and tree.children.get(charge.queue) != ():
            found.append(Drift(record.key, queue))
        reserved = _sum(reserved_demands(state)) if state is not None else {}
        for name in tree.resources:
            charged, used = reserved.get(name, 0), living.get(name, 0)
            if used > charged or (used < charged and record.phase == "running"):
                found.append(Drift(record.key, queue, name, charged, used))
    return tuple(sorted(found, key=lambda item: (item.gang, item.resource or "")))


def _sum(demands: Demands) -> dict[str, int]:
    """What all podsets ask for together."""
    total: dict[str, int] = {}
    for demand in demands.values():
        for name, amount in demand.items():
            total[name] = total.get(name, 0) + amount
    return total
