# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Comparing runs: right about noise, right about changes, and silent where nothing can be said."""

from __future__ import annotations

import itertools
import math
import os
import random
import statistics
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection import comparison
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.comparison import (
    ComparisonOptions,
    MetricChange,
    compare,
    compare_results,
    detectable_percent,
    judge,
    median_change_interval,
    rank_test,
    read_terms,
)
from hypothesis import given
from hypothesis import strategies as st

TRIALS = 2000 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 400
TERMS = ComparisonOptions()
Noise = t.Callable[[random.Random], float]


def normal(chance: random.Random) -> float:
    return chance.gauss(1.0, 0.05)


def lognormal(chance: random.Random) -> float:
    return chance.lognormvariate(0.0, 0.05)


def heavy(chance: random.Random) -> float:
    """Five percent noise, and one run in ten that was disturbed and took up to five times as long."""
    value = chance.gauss(1.0, 0.05)
    return value * chance.uniform(1.5, 5.0) if chance.random() < 0.1 else value


def wild(chance: random.Random) -> float:
    """Noise of a third: with few runs medians differ by far more than the threshold."""
    return chance.lognormvariate(0.0, 0.33)


def verdicts(noise: Noise, factor: float, runs: int, terms: ComparisonOptions = TERMS) -> dict[str, float]:
    """How often each verdict is given."""
    chance = random.Random(f"{noise.__name__} {factor} {runs}")
    found: dict[str, float] = {}
    for _trial in range(TRIALS):
        first = [noise(chance) for _run in range(runs)]
        second = [noise(chance) * factor for _run in range(runs)]
        verdict = judge(first, second, terms)[0]
        found[verdict] = found.get(verdict, 0) + 1 / TRIALS
    return found


@pytest.mark.parametrize("runs", [4, 10])
@pytest.mark.parametrize("noise", [normal, lognormal, heavy, wild])
def test_noise_is_seldom_called_worse_or_better(noise: Noise, runs: int) -> None:
    found = verdicts(noise, 1.0, runs)
    assert found.get("worse", 0) <= 0.05
    assert found.get("better", 0) <= 0.05
    assert found["same"] >= 0.9


@pytest.mark.parametrize("noise", [normal, lognormal])
def test_a_slowdown_of_a_tenth_is_found(noise: Noise) -> None:
    assert verdicts(noise, 1.1, 10)["worse"] >= 0.9


def test_disturbed_runs_hide_a_large_slowdown_seldom() -> None:
    assert verdicts(heavy, 1.2, 10)["worse"] >= 0.9


def test_a_speedup_is_better_and_the_direction_turns_it() -> None:
    assert verdicts(normal, 0.88, 10)["better"] >= 0.9
    assert verdicts(normal, 0.88, 10, ComparisonOptions(direction="higher"))["worse"] >= 0.9


def test_the_verdict_is_the_one_judged() -> None:
    chance = random.Random(3)
    for factor in (0.9, 1.0, 1.05, 1.1):
        first, second = ([normal(chance) * scale for _run in range(10)] for scale in (1.0, factor))
        change = compare(first, second, TERMS)
        verdict, percent, p_value = judge(first, second, TERMS)
        assert (change.percent, change.p_value) == (percent, p_value)
        assert change.verdict == ("unclear" if verdict == "same" and not change.conclusive else verdict)


def test_a_change_below_the_threshold_is_the_same_however_sure() -> None:
    chance = random.Random(1)
    first = [chance.gauss(1.0, 0.002) for _run in range(30)]
    second = [chance.gauss(1.03, 0.002) for _run in range(30)]
    change = compare(first, second, TERMS)
    assert (change.verdict, change.conclusive, change.reason) == ("same", True, None)
    assert change.p_value is not None
    assert change.p_value < 1e-9
    assert compare(first, second, ComparisonOptions(threshold=2.0)).verdict == "worse"


@pytest.mark.parametrize("second", [[1.1, 1.3, 0.9, 1.2], [1.0, 3.0, 0.9, 2.5]])
def test_what_cannot_be_told_is_unclear_and_not_the_same(second: list[float]) -> None:
    change = compare([1.0, 1.2, 0.9, 1.1], second, TERMS)
    assert (change.verdict, change.conclusive) == ("unclear", False)
    assert change.reason is not None
    assert change.reason.startswith("a change beyond 5 % is not ruled out (between ")
    assert change.reason.endswith("more repetitions would tell")


def test_quiet_runs_are_the_same_for_certain() -> None:
    change = compare([1.0, 1.01, 0.99, 1.0, 1.0], [1.0, 0.99, 1.01, 1.0, 1.0], TERMS)
    assert (change.verdict, change.conclusive, change.reason) == ("same", True, None)


@pytest.mark.parametrize(("noise", "runs"), [(0.02, 10), (0.05, 10), (0.05, 30), (0.15, 20)])
def test_a_change_called_detectable_is_detected_in_most_cases(noise: float, runs: int) -> None:
    chance = random.Random(f"{noise} {runs}")
    promised = statistics.median(
        compare(*([chance.gauss(1.0, noise) for _run in range(runs)] for _side in range(2)), TERMS).detectable or 0.0
        for _trial in range(25)
    )
    found = 0
    for _trial in range(200):
        first = [chance.gauss(1.0, noise) for _run in range(runs)]
        second = [chance.gauss(1.0, noise) * (1 + promised / 100) for _run in range(runs)]
        found += judge(first, second, TERMS)[0] == "worse"
    assert found / 200 >= 0.7
    assert promised >= TERMS.threshold


def test_an_unclear_comparison_does_not_pass_unless_allowed() -> None:
    noisy = [result("old", [1.0, 1.2, 0.9, 1.1]), result("new", [1.1, 1.3, 0.9, 1.2])]
    answer = compare_results(noisy, TERMS)
    (change,) = answer["comparisons"]
    assert (change["verdict"], answer["passed"]) == ("unclear", False)
    assert change["detectable_percent"] > 5
    assert compare_results(noisy, ComparisonOptions(allow_unclear=True))["passed"] is True


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ([1.0], [2.0], "1 and 1 runs are too few to tell a change from noise"),
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], "3 and 3 runs are too few"),
        ([], [1.0], "one side has no run that succeeded"),
        ([0.0, 1.0, 1.0, 1.0], [1.0] * 4, "the metric is 0 in some runs of the baseline"),
        ([1.0] * 4, [-1.0] * 4, "the metric is negative in some runs"),
    ],
)
def test_where_nothing_can_be_said_the_reason_is_told(first: list[float], second: list[float], reason: str) -> None:
    change = compare(first, second, TERMS)
    assert (change.verdict, change.conclusive, change.percent, change.p_value) == ("unknown", False, None, None)
    assert change.reason is not None
    assert change.reason.startswith(reason)


def test_zeros_on_both_sides_are_the_same() -> None:
    assert compare([0.0] * 4, [0.0] * 4, TERMS).verdict == "same"
    assert compare([1.0] * 4, [0.0] * 4, TERMS).verdict == "better"


def counted_by_hand(first: t.Sequence[float], second: t.Sequence[float]) -> float:
    """The test by trying every choice: the share of rank sums as far from the middle as the one observed."""
    values = [*first, *second]
    ranks = [sum(other < value for other in values) + (values.count(value) + 1) / 2 for value in values]
    middle = len(first) * (len(values) + 1) / 2
    distance = abs(sum(ranks[: len(first)]) - middle)
    sums = [sum(choice) for choice in itertools.combinations(ranks, len(first))]
    return sum(abs(one - middle) >= distance for one in sums) / len(sums)


SMALL = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=6)


@given(SMALL, SMALL)
def test_the_rank_test_counts_right(first: list[float], second: list[float]) -> None:
    assert rank_test(first, second) == pytest.approx(counted_by_hand(first, second))
    turned = {"first": second, "second": first}
    assert rank_test(first, second) == pytest.approx(rank_test(**turned))


def test_the_rank_test_of_many_runs_goes_on_where_counting_ends() -> None:
    chance = random.Random(2)
    for shift in (0.0, 0.3, 0.7):
        first = [round(chance.gauss(0, 1), 1) for _run in range(30)]
        second = [round(chance.gauss(shift, 1), 1) for _run in range(30)]
        counted, estimated = rank_test(first, second), rank_test([*first, first[0]], [*second, second[0]])
        assert estimated == pytest.approx(counted, rel=0.5, abs=0.02)
    assert rank_test([1.0] * 50, [1.0] * 50) == 1.0
    assert rank_test([1.0] * 50, [2.0] * 50) < 1e-9


@pytest.mark.parametrize("runs", [9, 10, 100])
def test_the_interval_is_that_of_plain_resampling(runs: int) -> None:
    chance = random.Random(runs)
    first = [chance.gauss(1.0, 0.1) for _run in range(runs)]
    second = [chance.gauss(1.2, 0.1) for _run in range(runs)]
    plain = sorted(
        statistics.median(chance.choices(second, k=runs)) / statistics.median(chance.choices(first, k=runs)) * 100 - 100
        for _round in range(3000)
    )
    low, high = median_change_interval(first, second)
    assert low == pytest.approx(plain[75], abs=1.5)
    assert high == pytest.approx(plain[-76], abs=1.5)
    assert (low, high) == median_change_interval(first, second)


CPU = {"vendor": "AuthenticAMD", "family": 25, "model": 1, "level": 3}


def result(name: str, seconds: t.Sequence[t.Any], **cpu: t.Any) -> dict[str, t.Any]:
    hwinfo = {"cpu": {**CPU, **cpu}}
    return {"name": name, "runs": [{"exit_code": 0, "wall_seconds": value, "hwinfo": hwinfo} for value in seconds]}


OLD = result("old", [10.0, 10.2, 10.1, 10.3, 9.9])
NEW = result("new", [12.0, 12.2, 12.1, 12.3, 11.9])


def test_the_whole_answer() -> None:
    new = {**NEW, "runs": [*NEW["runs"], {"exit_code": 1, "wall_seconds": 1}, {"exit_code": 0}]}
    answer = compare_results([OLD, new], TERMS)
    assert answer["baseline"] == "old"
    assert answer["hardware"] == {"same": True, "differences": []}
    assert answer["results"][1] == {
        "name": "new",
        "used": 5,
        "failed": [5],
        "missing": [6],
        "median": 12.1,
        "quartiles": [12.0, 12.2],
        "minimum": 11.9,
        "maximum": 12.3,
        "spread_percent": pytest.approx(0.2 / 12.1 * 100),
    }
    (comparison,) = answer["comparisons"]
    assert comparison["verdict"] == "worse"
    assert comparison["change_percent"] == pytest.approx(2 / 10.1 * 100)
    assert comparison["p_value"] == pytest.approx(2 / math.comb(10, 5))
    low, high = comparison["interval_percent"]
    assert 15 < low < comparison["change_percent"] < high < 25
    assert answer["passed"] is False
    assert compare_results([new, OLD], TERMS)["passed"] is True


def test_more_than_two_are_compared_with_the_first() -> None:
    answer = compare_results([OLD, NEW, {**OLD, "name": "again"}], TERMS)
    assert [(one["name"], one["baseline"], one["verdict"]) for one in answer["comparisons"]] == [
        ("new", "old", "worse"),
        ("again", "old", "same"),
    ]


def test_different_hardware_is_refused_unless_allowed() -> None:
    other = result("new", [10.0] * 5, model=17)
    with pytest.raises(BadInput, match=r"they ran on different hardware: cpu\.model is 1 in old, 17 in new"):
        compare_results([OLD, other], TERMS)
    answer = compare_results([OLD, other], ComparisonOptions(allow_different_hardware=True))
    assert answer["hardware"] == {"same": False, "differences": ["cpu.model is 1 in old, 17 in new"]}


def test_unknown_hardware_is_told() -> None:
    silent = {"name": "new", "runs": [{"exit_code": 0, "wall_seconds": 1.0}]}
    assert compare_results([OLD, silent], TERMS)["hardware"] == {"same": None, "differences": []}


def test_results_without_runs_are_unknown_and_do_not_pass() -> None:
    answer = compare_results([OLD, {"name": "new", "runs": []}], TERMS)
    assert answer["comparisons"][0]["verdict"] == "unknown"
    assert answer["results"][1]["median"] is None
    assert answer["passed"] is False
    one = compare_results([OLD, result("new", [10.0])], TERMS)
    assert one["results"][1]["quartiles"] == [10.0, 10.0]
    assert one["comparisons"][0]["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("results", "complaint"),
    [
        ([OLD], "a list of at least two results is needed"),
        ("x", "a list of at least two results is needed"),
        ([{"runs": [{"exit_code": 0}]}] * 2, "no run has a number called wall_seconds"),
    ],
)
def test_what_cannot_be_compared_is_refused(results: t.Any, complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        compare_results(results, TERMS)


@pytest.mark.parametrize(
    ("expectation", "low", "high", "oks"),
    [
        ({"target": 10.0, "lower": -0.1, "upper": 0.1}, 9.0, 11.0, [True, False]),
        ({"target": 12, "lower": -0.05}, 11.4, None, [False, True]),
        ({"target": 10, "upper": 0}, None, 10.0, [False, False]),
        ({"target": 1}, None, None, [True, True]),
        ({"target": -10, "lower": -0.1}, -11.0, None, [True, True]),
        ({"target": 1, "metric": "no.such"}, None, None, [False, False]),
    ],
)
def test_assertions(expectation: dict[str, t.Any], low: float | None, high: float | None, oks: list[bool]) -> None:
    entries = compare_results([NEW, OLD], TERMS, [{**expectation, "unit": "s"}])["assertions"]
    assert [entry["name"] for entry in entries] == ["new", "old"]
    assert [entry["ok"] for entry in reversed(entries)] == oks
    assert {(entry["low"], entry["high"], entry["unit"]) for entry in entries} == {(low, high, "s")}


def test_a_failed_assertion_does_not_pass() -> None:
    assert compare_results([NEW, OLD], TERMS, [{"target": 10, "upper": 0.5}])["passed"] is True
    assert compare_results([NEW, OLD], TERMS, [{"target": 10, "upper": 0.1}])["passed"] is False


@pytest.mark.parametrize(
    ("expectation", "complaint"),
    [
        ({}, "assertion: target: it is missing"),
        ({"target": "x"}, "a number is needed, not 'x'"),
        ({"target": 1, "lower": 0.1}, "0.1 is on the wrong side of the target; -0.05 is 5 %"),
        ({"target": 1, "upper": -0.1}, "-0.1 is on the wrong side of the target; 0.05 is 5 %"),
        ({"target": 1, "uper": 1}, r"unknown key; did you mean upper\?"),
    ],
)
def test_assertions_are_read_strictly(expectation: dict[str, t.Any], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        compare_results([OLD, NEW], TERMS, [expectation])


def test_terms_are_read_strictly() -> None:
    good = {"metric": "a", "threshold": 3, "direction": "higher", "allow_different_hardware": True}
    assert read_terms(good) == ComparisonOptions("a", "higher", 3.0, True)
    for key, bad in (("metric", ""), ("threshold", -1), ("threshold", None), ("direction", "up")):
        with pytest.raises(BadInput, match=f"Cannot read the comparison: {key}"):
            read_terms({**good, key: bad})


def by_the_book(first: list[float], second: list[float]) -> float:
    """The normal approximation of the Mann-Whitney test, from pairs, with ties and half a step of continuity."""
    wins = sum((one > two) + (one == two) / 2 for one in first for two in second)
    every = [*first, *second]
    size, pairs = len(every), len(first) * len(second)
    ties = sum(every.count(value) ** 3 - every.count(value) for value in set(every))
    spread = math.sqrt(pairs / 12 * (size + 1 - ties / (size * (size - 1))))
    return math.erfc(max(0.0, abs(wins - pairs / 2) - 0.5) / spread / math.sqrt(2))


@pytest.mark.parametrize(("runs", "others", "digits"), [(31, 30, 1), (50, 20, 0), (10, 90, 2), (61, 61, 0)])
def test_the_rank_test_of_many_runs_is_the_one_of_the_book(runs: int, others: int, digits: int) -> None:
    chance = random.Random(runs)
    first = [round(chance.gauss(0, 2), digits) for _run in range(runs)]
    second = [round(chance.gauss(0.7, 2), digits) for _run in range(others)]
    assert rank_test(first, second) == pytest.approx(by_the_book(first, second), rel=1e-9)
    turned = {"first": second, "second": first}
    assert rank_test(**turned) == pytest.approx(rank_test(first, second), rel=1e-9)


def test_the_interval_never_changes_for_the_same_values() -> None:
    """Its ends are ratios of values that were measured, so that they hold on every machine."""
    odd = [10.0, 10.7, 9.1, 10.3, 11.9, 9.6, 10.9, 8.8, 10.1]
    even = [11.0, 12.4, 10.2, 11.3, 12.9, 9.9, 11.7, 10.6, 13.1, 11.5]
    assert median_change_interval(odd, even) == pytest.approx((0.990099009900991, 26.37362637362637))
    assert median_change_interval(even, odd) == pytest.approx((-20.869565217391305, -0.9615384615384359))


@pytest.mark.parametrize(
    ("half", "detectable"),
    [(0.0, 5.0), (1.96, 5.84), (3.92, 6.68), (5.0, 5.0 + 0.84 * 5 / 1.96), (9.8, 14.0)],
)
def test_noise_and_threshold_decide_which_change_would_be_seen(half: float, detectable: float) -> None:
    """Half of an interval is 1.96 standard errors; 0.84 more make a change be seen in four of five cases."""
    assert detectable_percent((-half, half), 5.0) == pytest.approx(detectable)
    assert detectable_percent((20 - half, 20 + half), 5.0) == pytest.approx(detectable)


@pytest.mark.parametrize(
    ("threshold", "verdict"), [(24.9, "worse"), (25.0, "same"), (25.1, "same")], ids=["below", "at", "above"]
)
def test_a_change_of_exactly_the_threshold_is_none(threshold: float, verdict: str) -> None:
    change = compare([1.0] * 5, [1.25] * 5, ComparisonOptions(threshold=threshold))
    assert (change.verdict, change.percent, change.interval) == (verdict, 25.0, (25.0, 25.0))
    assert change.p_value == pytest.approx(2 / 252)


@pytest.mark.parametrize(
    ("runs", "others", "enough"),
    [(3, 4, False), (3, 5, True), (2, 7, False), (2, 8, True), (1, 39, False), (1, 40, True)],
)
def test_runs_are_enough_where_chance_would_seldom_part_them(runs: int, others: int, enough: bool) -> None:
    change = compare([1.0] * runs, [2.0] * others, TERMS)
    assert (change.verdict != "unknown") is enough


def test_nothing_but_zeros_is_the_same_for_certain() -> None:
    change = compare([0.0] * 4, [0.0] * 5, TERMS)
    assert change == MetricChange("same", 0.0, (0.0, 0.0), 1.0, True, None, 5.0)


def test_sixty_runs_are_still_counted() -> None:
    first, second = [float(value) for value in range(30)], [float(value) for value in range(30, 60)]
    assert rank_test(first, second) == pytest.approx(2 / math.comb(60, 30), rel=1e-9, abs=0.0)


def test_an_interval_within_the_threshold_on_both_sides_is_needed_to_be_the_same() -> None:
    """The medians are equal; one side of the interval goes beyond the threshold."""
    calm = [10.0] * 9
    for extreme in (11.0, 9.0):
        noisy = [10.0] * 5 + [extreme] * 4
        change = compare(calm, noisy, TERMS)
        assert (change.verdict, change.percent) == ("unclear", 0.0)
        wider = compare(calm, noisy, ComparisonOptions(threshold=10.5))
        assert (wider.verdict, wider.conclusive) == ("same", True)


def test_the_default_terms() -> None:
    assert read_terms({"metric": "m", "threshold": 0, "direction": "lower"}).threshold == 0.0
    assert ComparisonOptions() == ComparisonOptions("wall_seconds", "lower", 5.0, False, False)


def test_the_interval_leaves_out_one_in_forty_at_either_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four thousand resamples whose changes are 0 % to 3999 %, a hundred of them beyond either end."""
    drawn = iter([[1.0] * 4000, [1.0 + place / 100 for place in reversed(range(4000))]])
    monkeypatch.setattr(comparison, "_resampled_medians", lambda values, chance: next(drawn))
    assert median_change_interval([1.0], [1.0]) == pytest.approx((100.0, 3899.0))
