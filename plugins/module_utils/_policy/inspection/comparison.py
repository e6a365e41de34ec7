# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Decide whether one set of runs is better or worse than another, or whether that is noise.

Two questions have to be answered with yes: is the change of the median larger than the threshold, and would chance
alone seldom order the runs like this (Mann-Whitney test, which asks nothing of the shape of the noise)? Where the
answer is no, the runs are the same only if they rule a change beyond the threshold out; else they are unclear.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.measurement import (
    Measurement,
    hardware_differences,
    hardware_unknown,
    quartiles,
    read_measurement,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields, finite_number

Direction = t.Literal["lower", "higher"]
VerdictWord = t.Literal["better", "same", "worse", "unclear", "unknown"]

DIRECTIONS: tuple[Direction, ...] = t.get_args(Direction)
SIGNIFICANCE = 0.05

_RESAMPLES = 4000
_SEED = 20260101
# Up to this many runs the test counts every order there is; the counts fit into the bits below.
_EXACT_RUNS = 60
_COUNT_BITS = 64
# So many standard errors make a half of the 95 % interval, and so many more make a change seen in 4 of 5 cases.
_SIGNIFICANT_ERRORS, _POWER_ERRORS = 1.96, 0.84
_EXPECTATION_KEYS = ("metric", "target", "lower", "upper", "unit")


@dataclasses.dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How to compare: what is measured, which way is better, and from how many percent on a change counts."""

    metric: str = "wall_seconds"
    direction: Direction = "lower"
    threshold: float = 5.0
    allow_different_hardware: bool = False
    allow_unclear: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class MetricChange:
    """How one set of runs differs from another, in percent of the median; None where that is unknown.

    detectable is the smallest change that as many runs with this noise would show in four of five cases.
    """

    verdict: VerdictWord
    percent: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    conclusive: bool
    reason: str | None
    detectable: float | None = None


def compare_results(results: t.Any, terms: ComparisonOptions, expectations: Sequence[t.Any] = ()) -> Data:
    """Compare each result with the first one, and the medians with what was expected of them."""
    measured = _measurements(results, terms.metric)
    differences = hardware_differences(measured)
    if differences and not terms.allow_different_hardware:
        cause = f"they ran on different hardware: {'; '.join(differences)}"
        raise BadInput("compare", "the results", cause)
    first = measured[0]
    changes = [(other.name, compare(first.values, other.values, terms)) for other in measured[1:]]
    checked = [entry for data in expectations for entry in _expect(data, results, terms.metric)]
    unknown = hardware_unknown(measured)
    return {
        "metric": terms.metric,
        "direction": terms.direction,
        "threshold_percent": terms.threshold,
        "baseline": first.name,
        "hardware": {"same": False if differences else None if unknown else True, "differences": differences},
        "results": [_summary(one) for one in measured],
        "comparisons": [{"name": name, "baseline": first.name, **_change_data(change)} for name, change in changes],
        "assertions": checked,
        "passed": all(entry["ok"] for entry in checked)
        and all(change.verdict in _passing(terms) for _name, change in changes),
    }


def _passing(terms: ComparisonOptions) -> tuple[VerdictWord, ...]:
    """The verdicts that a check accepts."""
    return ("better", "same", "unclear") if terms.allow_unclear else ("better", "same")


def compare(baseline: Sequence[float], other: Sequence[float], terms: ComparisonOptions) -> MetricChange:
    """The change from one set of runs to another, and what to think of it."""
    obstacle = _obstacle(baseline, other)
    if obstacle is not None:
        return MetricChange("unknown", None, None, None, False, obstacle)
    if max(*baseline, *other) == 0:
        return MetricChange("same", 0.0, (0.0, 0.0), 1.0, True, None, terms.threshold)
    verdict, percent, p_value = judge(baseline, other, terms)
    interval = median_change_interval(baseline, other)
    limit = terms.threshold
    detectable = detectable_percent(interval, limit)
    if verdict != "same" or (-limit <= interval[0] and interval[1] <= limit):
        return MetricChange(verdict, percent, interval, p_value, True, None, detectable)
    reason = (
        f"a change beyond {limit:g} % is not ruled out (between {interval[0]:+.1f} % and {interval[1]:+.1f} %); "
        "more repetitions would tell"
    )
    return MetricChange("unclear", percent, interval, p_value, False, reason, detectable)


def detectable_percent(interval: tuple[float, float], threshold: float) -> float:
    """The smallest change, in percent, that would be called one in four of five cases, by the noise of the medians."""
    error = (interval[1] - interval[0]) / (2 * _SIGNIFICANT_ERRORS)
    return max(threshold, _SIGNIFICANT_ERRORS * error) + _POWER_ERRORS * error


def judge(
    baseline: Sequence[float], other: Sequence[float], terms: ComparisonOptions
) -> tuple[VerdictWord, float, float]:
    """The verdict on enough positive values, with the change of the median in percent and the p-value behind it."""
    percent = _percent(statistics.median(other), statistics.median(baseline))
    p_value = rank_test(baseline, other)
    if p_value >= SIGNIFICANCE or abs(percent) <= terms.threshold:
        return "same", percent, p_value
    return "worse" if (percent > 0) is (terms.direction == "lower") else "better", percent, p_value


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """How often chance alone would order the values at least as unevenly (Mann-Whitney, two-sided, ties averaged).

    Exact for up to 60 values, by the normal approximation beyond.
    """
    ranks = _double_ranks([*first, *second])
    observed = sum(ranks[: len(first)])
    total, count = len(ranks), len(first)
    if total <= _EXACT_RUNS:
        return _exact_tail(ranks, count, observed)
    center = count * (total + 1)
    ties = sum(repeats**3 - repeats for repeats in _repeats(ranks))
    variance = count * len(second) / 3 * (total + 1 - ties / (total * (total - 1)))
    if variance == 0:
        return 1.0
    # Ranks are doubled, so one step of the rank sum is 2 and half a step is 1.
    return math.erfc(max(0.0, abs(observed - center) - 1) / math.sqrt(2 * variance))


def median_change_interval(baseline: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The 95 % bootstrap interval of the relative change of the median, in percent; the same for the same values."""
    chance = random.Random(_SEED)
    below, above = _resampled_medians(baseline, chance), _resampled_medians(other, chance)
    changes = sorted(_percent(top, bottom) for top, bottom in zip(above, below, strict=True))
    cut = round(_RESAMPLES * 0.025)
    return changes[cut], changes[-1 - cut]


def _measurements(results: t.Any, metric: str) -> list[Measurement]:
    """The metric of each result; at least two results, and the metric in at least one run."""
    if not isinstance(results, Sequence) or isinstance(results, str) or len(results) < 2:
        raise BadInput("compare", "the results", "a list of at least two results is needed")
    measured = [read_measurement(result, metric, number) for number, result in enumerate(results, 1)]
    if all(not one.values for one in measured) and any(one.missing for one in measured):
        raise BadInput("compare", "the results", f"no run has a number called {metric}")
    return measured


def _obstacle(baseline: Sequence[float], other: Sequence[float]) -> str | None:
    """Why the runs cannot be compared, or None."""
    if not baseline or not other:
        return "one side has no run that succeeded and has the metric"
    if min(*baseline, *other) < 0:
        return "the metric is negative in some runs, so that a relative change says nothing"
    if min(baseline) == 0 and max(*baseline, *other) > 0:
        return "the metric is 0 in some runs of the baseline, so that a relative change says nothing"
    if 2 / math.comb(len(baseline) + len(other), len(baseline)) >= SIGNIFICANCE:
        return (
            f"{len(baseline)} and {len(other)} runs are too few to tell a change from noise; 4 on each side are enough"
        )
    return None


def _percent(value: float, base: float) -> float:
    return (value / base - 1) * 100


def _double_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value; equal values share the middle of their ranks, which doubling keeps whole."""
    places: dict[float, list[int]] = {}
    for place, value in enumerate(sorted(values), 1):
        places.setdefault(value, []).append(place)
    return [places[value][0] + places[value][-1] for value in values]


def _repeats(ranks: Iterable[int]) -> list[int]:
    """How often each rank is there."""
    counts: dict[int, int] = {}
    for rank in ranks:
        counts[rank] = counts.get(rank, 0) + 1
    return list(counts.values())


def _exact_tail(ranks: Sequence[int], count: int, observed: int) -> float:
    """The share of all choices of so many ranks whose sum is as far from the middle as the one observed.

    ways[n] holds, in fields of one large number, how many choices of n ranks have which sum.
    """
    ways = [1] + [0] * count
    for rank in ranks:
        for size in range(count, 0, -1):
            ways[size] += ways[size - 1] << (rank * _COUNT_BITS)
    middle = count * (len(ranks) + 1)
    distance = abs(observed - middle)
    mask = (1 << _COUNT_BITS) - 1
    far = 0
    counts = ways[count]
    for total in range(sum(ranks)):
        if abs(total - middle) >= distance:
            far += counts & mask
        counts >>= _COUNT_BITS
    return far / math.comb(len(ranks), count)


def _resampled_medians(values: Sequence[float], chance: random.Random) -> list[float]:
    """Medians of random resamples.

    The middle of a resample is drawn directly: the place of the k-th smallest of n draws follows a beta distribution,
    and the next one is the smallest of the rest. That is as good as drawing n values and does not grow with n.
    """
    ordered = sorted(values)
    size = len(ordered)
    lower = (size + 1) // 2
    found = []
    for _round in range(_RESAMPLES):
        place = chance.betavariate(lower, size + 1 - lower)
        median = ordered[min(int(place * size), size - 1)]
        if size % 2 == 0:
            upper = 1 - (1 - place) * chance.random() ** (1 / (size - lower))
            median = (median + ordered[min(int(upper * size), size - 1)]) / 2
        found.append(median)
    return found


def _summary(one: Measurement) -> Data:
    """Figures of one result."""
    data: Data = {
        "name": one.name,
        "used": len(one.values),
        "failed": list(one.failed),
        "missing": list(one.missing),
        "median": None,
        "quartiles": None,
        "minimum": None,
        "maximum": None,
        "spread_percent": None,
    }
    if one.values:
        low, median, high = quartiles(one.values)
        spread = (high - low) / abs(median) * 100 if median else None
        data.update(median=median, quartiles=[low, high], spread_percent=spread)
        data.update(minimum=min(one.values), maximum=max(one.values))
    return data


def _change_data(change: MetricChange) -> Data:
    """A change as plain values."""
    return {
        "verdict": change.verdict,
        "change_percent": change.percent,
        "interval_percent": None if change.interval is None else list(change.interval),
        "p_value": change.p_value,
        "detectable_percent": change.detectable,
        "conclusive": change.conclusive,
        "reason": change.reason,
    }


def _expect(data: t.Any, results: Sequence[t.Any], metric: str) -> list[Data]:
    """Whether the median of each result lies between bounds, which are fractions of a target."""
    fields = Fields(data, "assertion")
    fields.only(_EXPECTATION_KEYS)
    name = fields.text("metric") or metric
    target = _number(fields, "target")
    if target is None:
        raise fields.fail("target", "it is missing")
    bounds = [_bound(fields, "lower", target, -1), _bound(fields, "upper", target, 1)]
    found = []
    for number, result in enumerate(results, 1):
        one = read_measurement(result, name, number)
        value = statistics.median(one.values) if one.values else None
        below = value is not None and (bounds[0] is None or value >= bounds[0])
        ok = below and value is not None and (bounds[1] is None or value <= bounds[1])
        entry = {"metric": name, "name": one.name, "value": value, "target": target, "unit": fields.text("unit")}
        found.append({**entry, "low": bounds[0], "high": bounds[1], "ok": ok})
    return found


def _bound(fields: Fields, key: str, target: float, sign: int) -> float | None:
    """A bound from its distance to the target as a fraction: negative below, positive above; None is no bound."""
    share = _number(fields, key)
    if share is None:
        return None
    if share * sign < 0:
        raise fields.fail(
            key, f"{share:g} is on the wrong side of the target; {'-0.05' if sign < 0 else '0.05'} is 5 %"
        )
    return target + abs(target) * share


def _number(fields: Fields, key: str) -> float | None:
    """A number that may be negative, None when missing."""
    value = fields.get(key)
    number = finite_number(value)
    if value is not None and number is None:
        raise fields.fail(key, f"a number is needed, not {value!r}")
    return number


def read_terms(data: Mapping[str, t.Any]) -> ComparisonOptions:
    """How to compare, from what a user wrote."""
    fields = Fields(data, "the comparison")
    threshold = _number(fields, "threshold")
    if threshold is None or threshold < 0:
        raise fields.fail("threshold", f"a number of percent that is not negative is needed, not {data['threshold']!r}")
    return ComparisonOptions(
        metric=fields.required_text("metric"),
        direction=fields.choice("direction", DIRECTIONS, "lower"),
        threshold=threshold,
        allow_different_hardware=fields.flag("allow_different_hardware"),
        allow_unclear=fields.flag("allow_unclear"),
    )
