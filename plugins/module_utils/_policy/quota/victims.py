# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whom a gang may take quota back from: borrowers of what is its own, or lower priorities of its own queue.

Pure: what it would free is tried on the given usage and undone again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage


@dataclasses.dataclass(frozen=True, slots=True)
class Evictable:
    """A started gang that may be evicted: its base priority, when it started, and the work that would be lost.

    Whoever may not be a victim now, within min_run_time for example, is not among those that are given.
    """

    uid: str
    leaf: str
    amounts: QuotaAmounts
    priority: int
    started: float
    work_lost: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Asker:
    """A waiting gang that something is to be freed for; its priority is the base one, since ageing evicts nobody."""

    leaf: str
    amounts: QuotaAmounts
    priority: int


# Says whether the asker would find nodes if these gangs were gone.
NodesAfter = Callable[[Sequence[Evictable]], bool]


def choose_victims(
    usage: TreeUsage, asker: Asker, started: Iterable[Evictable], nodes_after: NodesAfter | None = None
) -> tuple[Evictable, ...] | None:
    """The smallest set found whose end lets the asker start; None when no allowed set does, empty when it fits already.

    Victims are added one by one, lowest base priority first, then newest, then least work lost, until the asker fits
    quota and nodes; then each is put back, the last added first, that is not needed after all.
    """
    order = sorted(started, key=lambda item: (item.priority, -item.started, item.work_lost, item.uid))
    chosen: list[Evictable] = []

    def fits() -> bool:
        return usage.fits(asker.leaf, asker.amounts) and (nodes_after is None or nodes_after(tuple(chosen)))

    try:
        while not fits():
            # From the start again: with each that goes, the asker's side may come back within its own.
            victim = next((item for item in order if _allowed(usage, asker, item)), None)
            if victim is None:
                return None
            order.remove(victim)
            usage.release(victim.leaf, victim.amounts)
            chosen.append(victim)
        _put_back(usage, chosen, fits)
        return tuple(chosen)
    finally:
        for victim in chosen:
            usage.charge(victim.leaf, victim.amounts)


def _put_back(usage: TreeUsage, chosen: list[Evictable], fits: Callable[[], bool]) -> None:
    """Leave out every victim without whom the asker fits too; without the last one it did not."""
    for victim in list(reversed(chosen[:-1])):
        usage.charge(victim.leaf, victim.amounts)
        place = chosen.index(victim)
        del chosen[place]
        if not fits():
            usage.release(victim.leaf, victim.amounts)
            chosen.insert(place, victim)


def _allowed(usage: TreeUsage, asker: Asker, victim: Evictable) -> bool:
    """Whether an asker may take from a gang as things stand: it frees something that is asked for, and is no equal."""
    if not any(victim.amounts.get(key, 0) for key, amount in asker.amounts.items() if amount):
        return False
    if victim.leaf == asker.leaf:
        return victim.priority < asker.priority
    policy = usage.tree.by_name[asker.leaf].reclaim
    if policy == "never" or (policy == "lower_priority" and victim.priority >= asker.priority):
        return False
    return _reclaims(usage, asker, victim)


def _reclaims(usage: TreeUsage, asker: Asker, victim: Evictable) -> bool:
    """Whether the victim's queues borrow, up to the first one above both, and the asker's side keeps to its own."""
    tree = usage.tree
    own, other = tree.ancestry(asker.leaf), tree.ancestry(victim.leaf)
    shared = next(name for name in own if name in other)
    if any(not usage.borrows_of(name, asker.amounts) for name in other[: other.index(shared)]):
        return False
    side = own[own.index(shared) - 1]
    return not usage.exceeds_with(side, asker.leaf, asker.amounts)
