# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which finished gangs are removed: those whose own ttl is over, and of the others the oldest beyond number and age."""

from __future__ import annotations

import collections
import dataclasses
import heapq
import typing as t


@dataclasses.dataclass(frozen=True, slots=True)
class Over:
    """A gang that is over: when it ended, when its own ttl is over (None: it has none), whether it is to stay."""

    uid: str
    ended: float
    expires: float | None = None
    keep: bool = False
    namespace: str = ""


def to_remove(over: t.Iterable[Over], now: float, most: int | None, longest: float | None) -> list[str]:
    """Uids of gangs to remove, those that ended first at the head; None is no limit.

    A gang with a ttl of its own follows that alone, and neither it nor one that is to stay counts against the number.
    """
    by_age = sorted((item for item in over if not item.keep), key=lambda item: (item.ended, item.uid))
    others = [item for item in by_age if item.expires is None]
    too_many = set() if most is None else _surplus(others, most)
    return [item.uid for item in by_age if item.uid in too_many or _is_due(item, now, longest)]


def _surplus(by_age: t.Sequence[Over], most: int) -> set[str]:
    """Uids of those that are too many: always the oldest of a namespace that has most.

    So nobody's gangs go because somebody else has many, or says that they ended later.
    """
    queues: dict[str, collections.deque[str]] = collections.defaultdict(collections.deque)
    for item in by_age:
        queues[item.namespace].append(item.uid)
    largest = [(-len(uids), name) for name, uids in queues.items()]
    heapq.heapify(largest)
    gone: set[str] = set()
    while len(gone) < len(by_age) - most:
        count, name = heapq.heappop(largest)
        gone.add(queues[name].popleft())
        heapq.heappush(largest, (count + 1, name))
    return gone


def _is_due(item: Over, now: float, longest: float | None) -> bool:
    """Whether a gang has been over for as long as it may, by its own ttl if it has one."""
    if item.expires is not None:
        return now >= item.expires
    return longest is not None and now >= item.ended + longest
