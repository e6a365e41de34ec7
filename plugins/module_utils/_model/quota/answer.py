# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a quota tree says to a gang: whether its demand fits, at which queue something is short, and by how much."""

from __future__ import annotations

import dataclasses
import typing as t
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource, QuotaAmounts

QuotaWord = t.Literal["fits", "waits", "never"]

# What Kueue publishes for a queue that borrows with weight 0.
_BOUNDLESS = 2**63 - 1


@dataclasses.dataclass(frozen=True, slots=True)
class QueueLevel:
    """One resource at one queue on the way from a gang's leaf to the root.

    nominal is what the queue and those below it are entitled to, used what they use. borrowed is what they use beyond
    their own; lent is what they could not have back now of their own, because others use it. headroom is what they can
    still start; short is what this queue's own limit lacks for the gang.
    """

    queue: str
    path: str
    key: FlavorResource
    nominal: int
    used: int
    borrowed: int
    lent: int
    headroom: int
    short: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class QuotaAnswer:
    """Whether a demand fits the tree.

    borrows says that the leaf would use more than its nominal amount. short is how much more would be needed; levels
    are the resources asked for at each queue, from the leaf to the root.
    """

    answer: QuotaWord
    borrows: bool
    short: QuotaAmounts
    levels: tuple[QueueLevel, ...]


class WeightedShare(t.NamedTuple):
    """How much a queue borrows of what its parent can lend, in thousandths of the scarcest resource, by its weight.

    Shares compare by their order: who borrows with weight 0 comes after everybody else.
    """

    boundless: bool
    value: Fraction
    resource: str = ""

    @property
    def order(self) -> tuple[bool, Fraction]:
        """What shares are compared by; the smaller one is asked first."""
        return self.boundless, self.value

    @property
    def rounded(self) -> int:
        """The whole number that Kueue publishes: rounded up."""
        return _BOUNDLESS if self.boundless else -(-self.value.numerator // self.value.denominator)


NO_SHARE = WeightedShare(False, Fraction(0))
