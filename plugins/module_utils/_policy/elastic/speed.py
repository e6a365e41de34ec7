# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How fast a training runs at a size: as it was measured, else as what was measured at other sizes suggests."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence

# At most so many times the largest size that was measured is trusted.
GROWTH = 2

_Term = Callable[[int], float]
# Seconds of a step: what does not shrink with the size, what is shared, and what each further one adds.
_TERMS: tuple[_Term, ...] = (lambda _size: 1.0, lambda size: 1.0 / size, lambda size: size - 1.0)


@dataclasses.dataclass(frozen=True)
class SpeedCurve:
    """Steps a second by size.

    measured holds what was seen. profile holds speeds of which only the ratios count, as a user knows them of a model.
    """

    measured: Mapping[int, float] = dataclasses.field(default_factory=dict)
    profile: Mapping[int, float] = dataclasses.field(default_factory=dict)

    @property
    def known(self) -> bool:
        """Whether steps a second are known at all, and not only how sizes compare."""
        return bool(self.measured)

    def at(self, size: int) -> float:
        """Measured at this size, else fitted over two sizes or more, else by the profile, else in proportion."""
        if size in self.measured:
            return self.measured[size]
        if len(self.measured) > 1:
            return 1.0 / sum(weight * term(size) for weight, term in zip(self._weights, _TERMS, strict=True))
        shape = self._by_profile if self.profile else float
        if not self.measured:
            return shape(size)
        ((seen, speed),) = self.measured.items()
        return speed * shape(size) / shape(seen)

    def trusted(self, size: int) -> int:
        """The largest size that a job of this one may grow to, by what was measured; a profile is taken at its word."""
        if self.profile:
            return max(size, *self.profile, *(GROWTH * seen for seen in self.measured))
        return GROWTH * max(self.measured, default=size)

    @functools.cached_property
    def _weights(self) -> tuple[float, ...]:
        """What each term weighs; the third one counts from three sizes on."""
        sizes = sorted(self.measured)
        seconds = [1.0 / self.measured[size] for size in sizes]
        return _fit(sizes, seconds, (0, 1, 2) if len(sizes) > 2 else (0, 1))

    def _by_profile(self, size: int) -> float:
        """Between sizes of the profile in proportion to the distance; beyond the last one nothing is gained."""
        sizes = sorted(self.profile)
        place = bisect.bisect_left(sizes, size)
        if place == len(sizes):
            return self.profile[sizes[-1]]
        above = sizes[place]
        if place == 0:
            return self.profile[above] * size / above
        below = sizes[place - 1]
        share = (size - below) / (above - below)
        return self.profile[below] * (1 - share) + self.profile[above] * share


def _fit(sizes: Sequence[int], seconds: Sequence[float], terms: Sequence[int]) -> tuple[float, ...]:
    """The weights of least error relative to the seconds, none of them negative: all choices of terms are tried.

    Some part of a step is always there: further sizes alone would let a step at size 1 take no time.
    """
    best: tuple[float, tuple[float, ...]] | None = None
    for count in range(1, len(terms) + 1):
        for chosen in itertools.combinations(terms, count):
            rows = [
                [_TERMS[term](size) / second for term in chosen] for size, second in zip(sizes, seconds, strict=True)
            ]
            found = _least_squares(rows) if chosen != (2,) else None
            if found is None or min(found) < 0:
                continue
            error = sum((sum(map(operator.mul, row, found)) - 1) ** 2 for row in rows)
            if best is None or error < best[0]:
                weights = dict(zip(chosen, found, strict=True))
                best = error, tuple(weights.get(term, 0.0) for term in range(len(_TERMS)))
    return best[1] if best is not None else (seconds[0], 0.0, 0.0)


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float] | None:
    """The weights that bring each row nearest to 1; None when the rows say too little."""
    width = len(rows[0])
    table = [
        [sum(row[i] * row[j] for row in rows) for j in range(width)] + [sum(row[i] for row in rows)]
        for i in range(width)
    ]
    for i in range(width):
        pivot = max(range(i, width), key=lambda line: abs(table[line][i]))
        table[i], table[pivot] = table[pivot], table[i]
        if abs(table[i][i]) < 1e-12:
            return None
        for line in range(width):
            if line != i:
                times = table[line][i] / table[i][i]
                table[line] = [value - times * base for value, base in zip(table[line], table[i], strict=True)]
    return [table[i][width] / table[i][i] for i in range(width)]
