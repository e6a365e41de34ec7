# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which flavors the podsets of a gang may have in all trees at once, one assignment after the other, the best first.

The first one gives each podset what choose_flavors gives it in a single tree. The others follow because the nodes of a
flavor may be full, or what is left of it too little for two podsets: then the next one is tried, in the trees' order.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import NO_FLAVOR, QuotaAmounts, QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import flavored
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

# So many flavors of podsets are looked at for one gang besides the first of each: a cycle must not take long.
MOST_STEPS = 200

# A flavor of each tree.
Combination = tuple[str, ...]
# Says of a podset's place and a flavor of each tree whether its pods could stand anywhere.
Possible = Callable[[int, Combination], bool]


class Assignment(t.NamedTuple):
    """The flavors of each podset, one of each tree, and what they charge together in each tree."""

    flavors: tuple[Combination, ...]
    amounts: tuple[QuotaAmounts, ...]


class _Option(t.NamedTuple):
    """What one podset may have: how bad that is, and what all podsets up to it charge then."""

    # Never, without nodes, full; then how far away it is borrowed, and its places in the trees' order.
    rank: tuple[bool, bool, bool, int, tuple[int, ...], tuple[int, ...]]
    flavors: Combination
    taken: tuple[QuotaAmounts, ...]


class FlavorSearch:
    """One search for the flavors of a gang, on what is used of its queues at the time."""

    def __init__(
        self, leaves: Sequence[tuple[TreeUsage, str]], demands: Sequence[Mapping[str, int]], possible: Possible
    ) -> None:
        """Take the gang's leaf in each tree, what each podset asks for in all, and where its pods could stand."""
        self._leaves = leaves
        self._demands = demands
        self._possible = possible
        self._steps = 0
        # Flavors of podsets of which is known by now that their nodes are full.
        self._full: set[tuple[int, Combination]] = set()

    def fitting(self) -> Iterator[Assignment]:
        """Those that fit all trees as things are: within nominal before borrowed, then in the trees' order."""
        return self._walk(3)

    def hopeful(self) -> Iterator[Assignment]:
        """Those that could fit all trees one day, in the same order."""
        return self._walk(2)

    def fallback(self) -> Assignment:
        """What is told to a gang without any hope: the first flavor for each podset that is the least bad."""
        chosen: list[Combination] = []
        taken = self._nothing()
        for place in range(len(self._demands)):
            option = self._options(place, taken)[0]
            chosen.append(option.flavors)
            taken = option.taken
        return Assignment(tuple(chosen), taken)

    def note_full(self, place: int, flavors: Combination) -> None:
        """The nodes of a podset's flavors have too little room for it: no assignment with them need be tried."""
        self._full.add((place, flavors))

    def _nothing(self) -> tuple[QuotaAmounts, ...]:
        return tuple({} for _leaf in self._leaves)

    def _walk(self, strict: int) -> Iterator[Assignment]:
        """All assignments in which every podset has an option whose first so many marks are not set."""
        self._steps = 0
        if not self._demands:
            yield Assignment((), self._nothing())
            return
        open_options = [self._good(0, self._nothing(), strict)]
        chosen: list[_Option] = []
        while open_options:
            option = next(open_options[-1], None)
            self._steps += 1
            if option is None or self._steps > MOST_STEPS + len(self._demands):
                open_options.pop()
                del chosen[-1:]
                continue
            chosen.append(option)
            if len(chosen) < len(self._demands):
                open_options.append(self._good(len(chosen), option.taken, strict))
                continue
            yield Assignment(tuple(item.flavors for item in chosen), option.taken)
            # Back to the first podset that needs another flavor, else to the last one.
            back = next((at for at, item in enumerate(chosen) if (at, item.flavors) in self._full), len(chosen) - 1)
            del chosen[back:], open_options[back + 1 :]

    def _good(self, place: int, taken: tuple[QuotaAmounts, ...], strict: int) -> Iterator[_Option]:
        """The options of a podset without those that are too bad."""
        for option in self._options(place, taken):
            if any(option.rank[:strict]):
                return
            if (place, option.flavors) not in self._full:
                yield option

    def _options(self, place: int, taken: tuple[QuotaAmounts, ...]) -> list[_Option]:
        """All that a podset may have, the best first, on top of what those before it take."""
        names = [self._flavors_of(usage.tree, place) for usage, _leaf in self._leaves]
        orders = itertools.product(*(range(len(found)) for found in names))
        return sorted(
            (
                self._option(place, taken, order, [found[at] for found, at in zip(names, order, strict=True)])
                for order in orders
            ),
            key=_rank,
        )

    def _flavors_of(self, tree: QuotaTree, place: int) -> tuple[str, ...]:
        """The flavors of a tree that are tried for a podset; one that uses nothing of the tree needs none."""
        counted = any(amount and name in tree.resources for name, amount in self._demands[place].items())
        return tree.flavor_names if counted else (NO_FLAVOR,)

    def _option(
        self, place: int, taken: tuple[QuotaAmounts, ...], order: tuple[int, ...], names: Sequence[str]
    ) -> _Option:
        """One of them: a flavor of each tree, and their places in the trees' order."""
        never, fits = False, True
        amounts, reaches = [], []
        for (usage, leaf), before, flavor in zip(self._leaves, taken, names, strict=True):
            wanted = flavored(usage.tree, flavor, self._demands[place])
            together = {key: amount + before.get(key, 0) for key, amount in wanted.items()}
            never = never or usage.never_fits(leaf, together)
            enough = usage.fits(leaf, together)
            fits = fits and enough
            reaches.append(usage.reach(leaf, together) if enough else 0)
            amounts.append({**before, **together})
        found = tuple(names)
        rank = never, not self._possible(place, found), not fits, max(reaches, default=0), tuple(reaches), order
        return _Option(rank, found, tuple(amounts))


def _rank(option: _Option) -> tuple[t.Any, ...]:
    return option.rank
