# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Quota held for starved gangs, so that smaller ones and borrowers do not take it time and again.

The first gang of a queue that is no larger than its nominal amounts, lacks nothing but room and has waited long holds
quota. Started gangs are left out one after the other as they end, until there is enough for it: that is the moment t*.
A later gang starts if its enforced end comes in the first part of the time until then, or if there is enough for the
starved one all the same: gangs end before their limits, so that the moment comes sooner than can be told. A gang
that nodes are held for holds its quota until it is to stand on them. Nothing is remembered between cycles.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import typing as t
from collections.abc import Callable, Hashable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.layer import QuotaLayer, QuotaStanding
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaAmounts
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import (
    NO_QUOTAS,
    LeafCharge,
    Quotas,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.reserve import (
    Estimate,
    ReserveOptions,
    has_end,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# A cycle must not take long: so many ends of gangs are looked at in all; who finds none left asks again in the next.
MOST_ENDS = 20_000

# Of the time until what is held will be enough later gangs may use so much.
USABLE = 1 / 3

NO_END_OF_USE = "no quota is held for it: no end is known for enough of what uses it"
TOO_MANY_ENDS = "no quota is held for it: so many gangs end before that one cycle cannot look at all of them"

# When a started gang ends, None if nobody knows, and whether it is made to.
End = tuple["float | None", bool]


class GangEnd(t.NamedTuple):
    """A gang that ends at a moment, and what it is charged with in each tree."""

    at: float
    uid: str | None
    charges: Sequence[LeafCharge]


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaClaim:
    """What a starved gang asks of one tree, and what will be used of the tree when it is to have it.

    borrowing says that its queue borrows already, so that it waits for what can be borrowed; any other waits for what
    is its own.
    """

    then: TreeUsage
    leaf: str
    amounts: QuotaAmounts
    borrowing: bool

    @property
    def is_met(self) -> bool:
        """Whether there is enough for it then."""
        fits = self.then.fits(self.leaf, self.amounts)
        return fits and (self.borrowing or not self.then.borrows_with(self.leaf, self.amounts))

    def leaves_enough(self, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether there still is when a leaf uses more; borrowers do not keep another queue from its own."""
        if self.borrowing and leaf != self.leaf and not self.then.borrows_with(leaf, amounts):
            return True
        self.then.charge(leaf, amounts)
        enough = self.is_met
        self.then.release(leaf, amounts)
        return enough


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaHold:
    """Quota held for a gang of a queue until a moment; None there means without end, which only a hard hold does."""

    queue: str
    at: float | None
    claims: Mapping[str, QuotaClaim]

    def allows(self, charges: Sequence[LeafCharge], estimate: Estimate, now: float) -> bool:
        """Whether a later gang may start all the same."""
        if self._is_over(estimate, now):
            return True
        found = ((self.claims.get(tree), leaf, amounts) for tree, leaf, amounts in charges)
        return all(claim is None or self._spares(claim, leaf, amounts) for claim, leaf, amounts in found)

    def start(self, charges: Sequence[LeafCharge], estimate: Estimate, now: float) -> None:
        """Count a later gang that starts, unless it has ended by then."""
        if not self._is_over(estimate, now):
            for tree, leaf, amounts in charges:
                if tree in self.claims:
                    self.claims[tree].then.charge(leaf, amounts)

    def _is_over(self, estimate: Estimate, now: float) -> bool:
        """Whether a gang that starts now is sure to have ended long before the quota is needed."""
        if self.at is None or estimate.seconds is None or not estimate.enforced:
            return False
        return estimate.seconds <= USABLE * (self.at - now)

    def _spares(self, claim: QuotaClaim, leaf: str, amounts: QuotaAmounts) -> bool:
        """Whether a gang leaves enough in one tree; where no end is known nobody but other owners takes any of it."""
        if self.at is not None:
            return claim.leaves_enough(leaf, amounts)
        shared = any(amount and claim.amounts.get(key) for key, amount in amounts.items())
        return not shared or (leaf != claim.leaf and not claim.then.borrows_with(leaf, amounts))

    @property
    def words(self) -> str:
        """What is told to those who wait for it: gangs of others are never named."""
        until = "" if self.at is None else f" until {time_text(self.at)}"
        return f"it is held for a gang of queue {self.queue}{until}"


@dataclasses.dataclass(slots=True)
class _Expectation:
    """What will be used of all trees when those have gone that are about to, with what is held for starved gangs.

    It holds while nothing changes in what is used without the holds, of which so many are counted.
    """

    later: Mapping[str, TreeUsage]
    changes: list[int]
    usages: Mapping[str, TreeUsage]
    holds: int = 0


class QuotaReserve:
    """What is held in one cycle, decided while the queue is walked."""

    def __init__(
        self,
        quotas: Quotas,
        now: float,
        terms: ReserveOptions,
        ends: Callable[[], Mapping[str, End]],
    ) -> None:
        """Take what the walk counts with; ends tells when started gangs end, and is not asked before it is needed."""
        self._quotas, self._now, self._terms, self._given = quotas, now, terms, ends
        # What is held so far, by the queues of those it is held for.
        self.held: dict[Hashable, QuotaHold] = {}
        # Kinds of gangs for which nothing can be held, whatever starts.
        self._without_moment: set[Hashable] = set()
        self._expectation: _Expectation | None = None
        self._left = MOST_ENDS
        self._starts: list[GangEnd] = []

    def stopping(self, quota: QuotaLayer, estimate: Estimate) -> str | None:
        """Why a gang that has quota must not take it, in words; None when it may."""
        if not self.held:
            return None
        charges = _charges(quota)
        found = (hold for hold in self.held.values() if not hold.allows(charges, estimate, self._now))
        return next((hold.words for hold in found), None)

    def start(self, quota: QuotaLayer, estimate: Estimate) -> None:
        """Count a gang that starts, and remember when it ends."""
        charges = _charges(quota)
        for hold in self.held.values():
            hold.start(charges, estimate, self._now)
        if estimate.seconds is not None and has_end(self._now + estimate.seconds, estimate.enforced, self._now):
            self._starts.append(GangEnd(self._now + estimate.seconds, None, charges))

    def may_hold(self, submitted: float, quota: QuotaLayer) -> bool:
        """Whether quota may be held for a gang: it waited long, asks for no more than is nominal, and is the first."""
        if self._now - submitted <= self._terms.reserve_after or _lane(quota) in self.held:
            return False
        return all(map(self._is_nominal, quota.standings))

    def hold(self, quota: QuotaLayer, kind: Hashable) -> str:
        """Hold quota for a gang that lacks it; what its verdict says of that. The same is said of all of a kind."""
        if self.has_no_moment(quota, kind):
            return NO_END_OF_USE
        claims = self._claims(quota)
        at = self._first_moment(tuple(claims.values()))
        if at is None and self._left <= 0:
            # There may be a moment: nothing is held without end as if there were none.
            return TOO_MANY_ENDS
        if at is None:
            self._without_moment.add(kind)
            if self._terms.hold == "hard":
                self.held[_lane(quota)] = QuotaHold(_path(quota), None, self._claims(quota))
            return NO_END_OF_USE
        self.held[_lane(quota)] = QuotaHold(_path(quota), at, claims)
        return f"quota is held for it; expected to be enough by {time_text(at)}"

    def has_no_moment(self, quota: QuotaLayer, kind: Hashable) -> bool:
        """Whether it is plain that nothing can be held for a gang of a kind: it lacks quota, and no end is known.

        Most gangs that wait long are told so in every cycle, so nothing is copied to find it out.
        """
        if kind in self._without_moment:
            return True
        if self._terms.hold == "hard" or self._timeline():
            return False
        expected = self._expected()
        if all(self._claim(expected, charge).is_met for charge in _charges(quota)):
            return False
        self._without_moment.add(kind)
        return True

    def hold_until(self, quota: QuotaLayer, at: float | None) -> None:
        """Hold the quota of a gang that has enough of it and waits for nodes that are held for it until then."""
        claims = self._claims(quota)
        for end in self._timeline():
            if at is None or end.at > at or self._left <= 0:
                break
            self._leave(claims, end)
        # One that fits by borrowing holds what it borrows.
        claims = {
            tree: claim if claim.is_met else dataclasses.replace(claim, borrowing=True)
            for tree, claim in claims.items()
        }
        if all(item.is_met for item in claims.values()):
            self.held[_lane(quota)] = QuotaHold(_path(quota), at, claims)

    def _is_nominal(self, standing: QuotaStanding) -> bool:
        """Whether a gang has a queue in a tree and asks for no more than its nominal amounts."""
        if standing.leaf is None:
            return False
        nominal = self._quotas.usages[standing.tree].tree.by_name[standing.leaf].nominal
        return all(amount <= nominal.get(key, 0) for key, amount in standing.amounts.items())

    def _claims(self, quota: QuotaLayer) -> dict[str, QuotaClaim]:
        """What a gang asks of each tree, with a copy of what is expected to be used of it."""
        expected = self._expected()
        copies = {tree: expected[tree].copy() for tree, _leaf, _amounts in _charges(quota)}
        return {charge[0]: self._claim(copies, charge) for charge in _charges(quota)}

    def _claim(self, then: Mapping[str, TreeUsage], charge: LeafCharge) -> QuotaClaim:
        """What a gang asks of one tree."""
        tree, leaf, amounts = charge
        return QuotaClaim(then[tree], leaf, amounts, self._quotas.usages[tree].borrows_of(leaf, amounts))

    def _expected(self) -> Mapping[str, TreeUsage]:
        """What is used when those have gone that are about to; it must not be modified.

        Others that quota is held for have it already: who comes later finds what they leave.
        """
        with self._quotas.after():
            later = self._quotas.usages
        changes = [usage.changes for usage in later.values()]
        known = self._expectation
        if known is None or known.later is not later or known.changes != changes:
            known = self._expectation = _Expectation(later, changes, later)
        if known.holds < len(self.held):
            if known.usages is later:
                known.usages = {tree: usage.copy() for tree, usage in later.items()}
            for hold in itertools.islice(self.held.values(), known.holds, None):
                for tree, claim in hold.claims.items():
                    known.usages[tree].charge(claim.leaf, claim.amounts)
            known.holds = len(self.held)
        return known.usages

    def _first_moment(self, claims: Sequence[QuotaClaim]) -> float | None:
        """When so many gangs have ended that each tree has enough; they are left out of the claims on the way."""
        by_tree = {claim.then.tree.name: claim for claim in claims}
        if all(claim.is_met for claim in claims):
            return self._now
        for at, ends in itertools.groupby(self._timeline(), _moment):
            for end in ends:
                self._leave(by_tree, end)
            if self._left <= 0:
                return None
            if all(claim.is_met for claim in claims):
                return at
        return None

    def _leave(self, claims: Mapping[str, QuotaClaim], end: GangEnd) -> None:
        """Let a gang have ended; those that are about to go count as gone anyway."""
        self._left -= 1
        if end.uid not in self._quotas.going:
            for tree, leaf, amounts in end.charges:
                if tree in claims:
                    claims[tree].then.release(leaf, amounts)

    def _timeline(self) -> Sequence[GangEnd]:
        """The ends that can be counted on, in order, those of this cycle's starts among them."""
        for item in self._starts:
            bisect.insort(self._ends, item, key=_moment)
        self._starts.clear()
        return self._ends

    @functools.cached_property
    def _ends(self) -> list[GangEnd]:
        """The ends of gangs that were started in earlier cycles."""
        charged, now = self._quotas.charged, self._now
        known = ((uid, at) for uid, (at, enforced) in self._given().items() if has_end(at, enforced, now))
        found = [GangEnd(max(now, at), uid, charged[uid]) for uid, at in known if at is not None and uid in charged]
        return sorted(found, key=_moment)


# Where there is no tree.
NO_RESERVE = QuotaReserve(NO_QUOTAS, 0.0, ReserveOptions(), dict)


def _charges(quota: QuotaLayer) -> list[LeafCharge]:
    """What a gang is charged with in each tree."""
    return [(item.tree, item.leaf, item.amounts) for item in quota.standings if item.leaf is not None]


def _lane(quota: QuotaLayer) -> Hashable:
    """Equal for gangs of one queue."""
    return tuple(item.leaf for item in quota.standings)


def _path(quota: QuotaLayer) -> str:
    """The queue that is named to others."""
    return quota.standings[0].path or quota.standings[0].leaf or ""


def _moment(end: GangEnd) -> float:
    return end.at
