# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report section that compares inspections, as typed data: box plots, verdicts, and what differs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.measurement import quartiles

# Whiskers end at the last value within this many times the distance of the quartiles.
REACH = 1.5


@dataclasses.dataclass(frozen=True, slots=True)
class Point:
    """The value of one run."""

    index: int
    value: float


@dataclasses.dataclass(frozen=True, slots=True)
class Box:
    """How values are spread: the middle half, and as far as they go without those that lie apart."""

    median: float
    low: float
    high: float
    least: float
    most: float


@dataclasses.dataclass(frozen=True, slots=True)
class ReportedChange:
    """What became of a metric against the first result; percent and the rest are None where they are unknown."""

    verdict: str
    percent: float | None = None
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    reason: str | None = None
    detectable: float | None = None

    @property
    def basis(self) -> str:
        """What the verdict rests on, as text."""
        parts = []
        if self.p_value is not None:
            parts.append("p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}")
        if self.detectable is not None:
            parts.append(f"finds changes from {self.detectable:.3g} %")
        return "; ".join([*parts, self.reason] if self.reason else parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One metric of one result; change is None for the first result, missing counts runs without the metric."""

    name: str
    points: tuple[Point, ...]
    missing: int = 0
    change: ReportedChange | None = None

    @property
    def box(self) -> Box | None:
        """The spread of its values; None without any."""
        return box_of([point.value for point in self.points])


@dataclasses.dataclass(frozen=True, slots=True)
class Plot:
    """One metric of all results; refusal says why nothing was compared."""

    metric: str
    title: str
    unit: str
    direction: str
    samples: tuple[Sample, ...]
    refusal: str | None = None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The smallest and the largest value; None without any."""
        values = [point.value for sample in self.samples for point in sample.points]
        return (min(values), max(values)) if values else None

    def best(self) -> Sample | None:
        """The sample with the best median of the first and of those that are better for certain."""
        known = [
            sample
            for place, sample in enumerate(self.samples)
            if sample.box is not None and (place == 0 or (sample.change and sample.change.verdict == "better"))
        ]
        sign = 1 if self.direction == "lower" else -1
        return min(known, key=lambda sample: sign * _median(sample), default=None)


@dataclasses.dataclass(frozen=True, slots=True)
class FailedRun:
    """A run that failed, or a whole inspection where index is None; words is the end of its stderr."""

    name: str
    index: int | None
    reason: str
    message: str
    words: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """One inspection in short."""

    name: str
    inspection_id: str
    image: str
    image_digest: str
    nodes: tuple[str, ...]
    runs: int
    failed: int
    throttled: int | None = None
    measured: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fact:
    """A fact with its value in each result, empty where it is not known; what decides makes results incomparable."""

    name: str
    values: tuple[str, ...]
    decides: bool = False

    @property
    def differs(self) -> bool:
        """Whether results that know it disagree."""
        return len({value for value in self.values if value}) > 1


@dataclasses.dataclass(frozen=True, slots=True)
class Packages:
    """Packages that are not the same in all results that have a list, how many are, and who has no list."""

    differing: tuple[Fact, ...]
    same: int
    unlisted: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Inspections:
    """The section that compares two or more inspections; packages is None when fewer than two have a list.

    asked are facts of the questions that differ, scripts for each result how its script differs from the first.
    """

    title: str
    results: tuple[Result, ...]
    plots: tuple[Plot, ...] = ()
    hardware: tuple[Fact, ...] = ()
    packages: Packages | None = None
    failures: tuple[FailedRun, ...] = ()
    asked: tuple[Fact, ...] = ()
    scripts: tuple[str, ...] = ()

    @property
    def runs(self) -> int:
        """How many runs all results have."""
        return sum(result.runs for result in self.results)

    @property
    def failed_runs(self) -> int:
        """How many of them failed."""
        return sum(result.failed for result in self.results)

    @property
    def different_hardware(self) -> tuple[Fact, ...]:
        """Facts that make the results incomparable."""
        return tuple(fact for fact in self.hardware if fact.decides and fact.differs)


def box_of(values: Sequence[float]) -> Box | None:
    """The five numbers of a box plot (quartiles with the ends included, whiskers after Tukey); None without values."""
    if not values:
        return None
    ordered = sorted(values)
    low, median, high = quartiles(ordered)
    reach = REACH * (high - low)
    least = min((value for value in ordered if value >= low - reach), default=low)
    most = max((value for value in ordered if value <= high + reach), default=high)
    return Box(median, low, high, min(least, low), max(most, high))


def _median(sample: Sample) -> float:
    return statistics.median(point.value for point in sample.points)
