# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one user may have in a queue: gangs that are started, what they use, and gangs that wait.

A queue above others limits what a user has in all of them together. Gangs without a user count as those of one user in
each namespace.
"""

from __future__ import annotations

import collections
import typing as t
from collections.abc import Callable, Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import ReachedLimit
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree, UserLimits
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe, quantity_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import Demands

# Tree and queue.
_Place = tuple[str, str]


class UserKey(t.NamedTuple):
    """A user; the namespace is set where there is no name."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """The user in words."""
        return f"the user {self.name}" if self.name else f"who is unknown in namespace {self.namespace}"


def user_key(record: Record) -> UserKey:
    """Whose gang it is."""
    name = record.user
    return UserKey(name, "" if name else record.namespace)


class UserUse:
    """What users have in queues that limit them, while a queue is walked: it only grows."""

    def __init__(self, trees: Iterable[QuotaTree]) -> None:
        """Nobody has anything."""
        none = UserLimits()
        self._trees = {tree.name: tree for tree in trees}
        self._limits: dict[_Place, UserLimits] = {
            (tree.name, queue.name): queue.user_limits
            for tree in self._trees.values()
            for queue in tree.queues
            if queue.user_limits != none
        }
        self._lines: dict[_Place, tuple[_Place, ...]] = {}
        self._started: collections.Counter[tuple[_Place, UserKey]] = collections.Counter()
        self._used: collections.Counter[tuple[_Place, UserKey, str]] = collections.Counter()
        self._waiting: collections.Counter[tuple[_Place, UserKey]] = collections.Counter()
        self._surplus: dict[str, ReachedLimit] = {}
        self.in_force = bool(self._limits)

    def start(self, tree: str, leaf: str | None, user: UserKey, demands: Demands) -> None:
        """Count a gang that is started."""
        for place in self._limiting(tree, leaf):
            self._started[place, user] += 1
            for resource, amount in _totals(demands).items():
                self._used[place, user, resource] += amount

    def wait(self, tree: str, leaf: str | None, user: UserKey, uid: str) -> None:
        """Count a gang that waits; those of a queue come in their order."""
        surplus = self.surplus(tree, leaf, user)
        for place in self._limiting(tree, leaf):
            self._waiting[place, user] += 1
        if surplus is not None:
            self._surplus.setdefault(uid, surplus)

    def surplus(self, tree: str, leaf: str | None, user: UserKey) -> ReachedLimit | None:
        """Why a gang that comes last is not asked for what its user has waiting before it; None when it is."""
        for place in self._limiting(tree, leaf):
            most, count = self._limits[place].pending, self._waiting[place, user]
            if most is not None and count >= most:
                path = self._path(place)
                words = f"{count} waiting gangs of {user} are before it, and {most} of one user are asked"
                return _limit("pending", path, count, most, f"{words} in queue {path}")
        return None

    def refusal(
        self,
        tree: str,
        leaf: str | None,
        user: UserKey,
        uid: str,
        demands: Callable[[], Demands],
        held: Demands | None = None,
    ) -> ReachedLimit | None:
        """Why a gang does not start for what its user has already; None when that is not too much.

        What it asks for is worked out only where amounts are limited. held is what it has itself so far.
        """
        own = _totals(held) if held is not None else {}
        for place in self._limiting(tree, leaf):
            limits = self._limits[place]
            count = self._started[place, user] - (held is not None)
            path = self._path(place)
            if limits.running is not None and count >= limits.running:
                words = f"{user} has {count} of {limits.running} started gangs in queue {path}"
                return _limit("running", path, count, limits.running, words)
            asked = _totals(demands()) if limits.resources else {}
            for resource, most in sorted(limits.resources.items()):
                used, more = self._used[place, user, resource] - own.get(resource, 0), asked.get(resource, 0)
                if more and used + more > most:
                    have, may, wants = (describe(resource, amount) for amount in (used, most, more))
                    words = f"{user} has {have} of {may} {resource} in queue {path}, and it asks for {wants}"
                    return _limit(
                        "resources", path, quantity_text(resource, used), quantity_text(resource, most), words, resource
                    )
        return self._surplus.get(uid)

    def _limiting(self, tree: str, leaf: str | None) -> tuple[_Place, ...]:
        """The queues from a leaf upwards that limit users."""
        if leaf is None or not self._limits:
            return ()
        place = (tree, leaf)
        if place not in self._lines:
            names = self._trees[tree].ancestry(leaf)
            self._lines[place] = tuple((tree, name) for name in names if (tree, name) in self._limits)
        return self._lines[place]

    def _path(self, place: _Place) -> str:
        return self._trees[place[0]].path(place[1])


def _limit(
    kind: t.Literal["running", "pending", "resources"],
    queue: str,
    used: int | str,
    limit: int | str,
    words: str,
    resource: str | None = None,
) -> ReachedLimit:
    """What one user has as much of as one user may."""
    return ReachedLimit("user_limit", kind, queue, str(used), str(limit), words, resource)


def _totals(demands: Demands) -> Mapping[str, int]:
    """What all podsets ask for together."""
    total: dict[str, int] = {}
    for demand in demands.values():
        for resource, amount in demand.items():
            total[resource] = total.get(resource, 0) + amount
    return total
