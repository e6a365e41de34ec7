# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Order: which waiting gang is asked first, how far down the queue one looks, and how long a requeued gang pauses."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.leaf import find_leaf, named_queue

Policy = t.Literal["strict", "best_effort", "reserve"]
Growth = t.Literal["exponential", "linear", "none"]

# Doubling beyond this is longer than anybody waits, and a float ends somewhere.
_MOST_DOUBLINGS = 62


@dataclasses.dataclass(frozen=True, slots=True)
class QueuedGang:
    """What the order needs to know of a waiting gang; times are seconds on the server's clock."""

    uid: str
    priority: int
    slope: float
    submitted: float
    queue: str | None = None
    eligible_at: float = 0.0


def queued_gang(
    uid: str, spec: GangSpec, submitted: float, eligible_at: float = 0.0, cap: int | None = None
) -> QueuedGang:
    """What the order needs to know of a gang with this specification; cap is the highest priority that counts."""
    priority = spec.priority if cap is None else min(spec.priority, cap)
    return QueuedGang(uid, priority, spec.priority_slope, submitted, spec.queue, eligible_at)


class Applicant(t.NamedTuple):
    """A gang that waits, or would: what tells its queue in each tree, and its place there."""

    uid: str
    namespace: str
    labels: Mapping[str, str]
    spec: GangSpec
    submitted: float
    eligible_at: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A gang that stays in the queue; blocked_by is the uid of the gang before it that it has to wait for, if any."""

    gang: QueuedGang
    blocked_by: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Decisions:
    """What one walk down the queue came to, both in the queue's order."""

    started: tuple[QueuedGang, ...]
    waiting: tuple[Waiting, ...]


def effective_priority(gang: QueuedGang, now: float) -> float:
    """Base priority plus what the gang gained by waiting; a submission in the future gained nothing yet."""
    return gang.priority + gang.slope * max(0.0, now - gang.submitted)


def ordered(gangs: Iterable[QueuedGang], now: float) -> list[QueuedGang]:
    """The gangs that may be asked now: highest effective priority first, then oldest, then by uid.

    Gangs that pause after a requeue are left out; they keep their submission time and with it their place.
    """
    eligible = [gang for gang in gangs if gang.eligible_at <= now]
    return sorted(eligible, key=lambda gang: (-effective_priority(gang, now), gang.submitted, gang.uid))


def line_up(
    applicants: Iterable[Applicant],
    trees: Sequence[QuotaTree],
    namespaces: Mapping[str, Mapping[str, str]],
    now: float,
) -> list[tuple[str | None, QueuedGang]]:
    """The gangs that may be asked, in the order of all, each with its queue in the first tree, as a dispatcher does.

    namespaces are the labels of namespaces. Without a tree all gangs are one queue.
    """
    lines: dict[str, str | None] = {}
    gangs = []
    for one in applicants:
        leaves = []
        for tree in trees:
            named = named_queue(tree, one.labels, one.spec.queue)
            leaf = find_leaf(tree, named, one.namespace, namespaces.get(one.namespace)).leaf
            leaves.append((tree, leaf.name if leaf is not None else None))
        lines[one.uid] = leaves[0][1] if leaves else None
        gangs.append(queued_gang(one.uid, one.spec, one.submitted, one.eligible_at, lowest_cap(leaves)))
    return [(lines[gang.uid], gang) for gang in ordered(gangs, now)]


def lowest_cap(leaves: Iterable[tuple[QuotaTree, str | None]]) -> int | None:
    """The highest priority that counts for a gang of these leaves of trees; None without a limit."""
    caps = [tree.by_name[queue].priority_cap for tree, leaf in leaves if leaf for queue in tree.ancestry(leaf)]
    return min((cap for cap in caps if cap is not None), default=None)


def walk(
    policy: Policy,
    gangs: Iterable[QueuedGang],
    judge: Callable[[QueuedGang], bool],
    blocked_by: Callable[[QueuedGang], str | None] | None = None,
    hopeless: Callable[[QueuedGang], bool] | None = None,
    lane: Callable[[QueuedGang], Hashable] | None = None,
) -> Decisions:
    """Ask for each gang in the order given whether it fits now.

    judge has to count what it has agreed to before. strict stops at the first gang that does not fit, and nobody behind
    it is asked; a hopeless one, which can never fit as it is, stops nobody. best_effort asks all. reserve asks all too:
    there judge keeps later gangs off the nodes held for an earlier one, and blocked_by tells for a gang that does not
    fit whose reservation stopped it, if any. lane tells which gangs are one queue; without it all are.
    """
    started: list[QueuedGang] = []
    waiting: list[Waiting] = []
    blockers: dict[Hashable, str] = {}
    for gang in gangs:
        place = lane(gang) if lane is not None else None
        if place in blockers:
            waiting.append(Waiting(gang, blockers[place]))
        elif judge(gang):
            started.append(gang)
        else:
            stopped = blocked_by(gang) if policy == "reserve" and blocked_by is not None else None
            waiting.append(Waiting(gang, stopped))
            if policy == "strict" and not (hopeless is not None and hopeless(gang)):
                blockers[place] = gang.uid
    return Decisions(tuple(started), tuple(waiting))


def back_off(time: float, growth: Growth, n: int, max_time: float | None = None) -> float:
    """Seconds to wait the nth time, counted from 1: T, 2T, 4T or T, 2T, 3T or always T; max_time 0 means no cap."""
    steps = max(0, n - 1)
    factor = 1.0
    if growth == "exponential":
        factor = 2.0 ** min(steps, _MOST_DOUBLINGS)
    elif growth == "linear":
        factor = 1.0 + steps
    wait = time * factor
    return min(wait, max_time) if max_time else wait
