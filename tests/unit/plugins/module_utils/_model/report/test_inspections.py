# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Boxes and figures of a comparison of inspections."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import (
    Box,
    Fact,
    Inspections,
    Plot,
    Point,
    ReportedChange,
    Result,
    Sample,
    box_of,
)


def sample(name, *values, verdict=None):
    """A sample of these values."""
    change = None if verdict is None else ReportedChange(verdict)
    return Sample(name, tuple(Point(index, value) for index, value in enumerate(values)), change=change)


def test_a_box_has_the_quartiles_and_whiskers_end_at_values():
    assert box_of([1, 2, 3, 4, 5]) == Box(3, 2, 4, 1, 5)
    assert box_of([1, 2, 3, 4, 100]) == Box(3, 2, 4, 1, 4)
    assert box_of([-100, 2, 3, 4, 5]) == Box(3, 2, 4, 2, 5)


def test_boxes_of_few_values():
    assert box_of([]) is None
    assert box_of([7.0]) == Box(7, 7, 7, 7, 7)
    assert box_of([1, 3]) == Box(2, 1.5, 2.5, 1, 3)


@hypothesis.given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_five_numbers_are_in_order(values):
    box = box_of(values)
    assert box is not None
    assert box.least <= box.low <= box.median <= box.high <= box.most
    assert min(values) <= box.least
    assert box.most <= max(values)


def test_the_best_follows_the_direction():
    samples = (sample("a", 2, 3), sample("none"), sample("b", 1, verdict="better"), sample("c", 1, verdict="better"))
    assert Plot("m", "M", "", "lower", samples).best() is samples[2]
    assert Plot("m", "M", "", "lower", (samples[0], sample("b", 1, verdict="unclear"))).best() is samples[0]
    assert Plot("m", "M", "", "higher", samples).best() is samples[0]
    assert Plot("m", "M", "", "lower", (sample("none"),)).best() is None
    assert Plot("m", "M", "", "lower", samples).bounds == (1, 3)
    assert Plot("m", "M", "", "lower", (sample("none"),)).bounds is None


def test_a_fact_differs_among_those_that_know_it():
    assert Fact("f", ("1", "2", "")).differs
    assert not Fact("f", ("1", "", "1")).differs
    assert not Fact("f", ("", "")).differs


def test_a_section_counts_runs_and_names_what_makes_results_incomparable():
    results = (Result("a", "", "", "", (), 3, 1), Result("b", "", "", "", (), 2, 0))
    facts = (Fact("model", ("1", "2"), True), Fact("kernel", ("1", "2")), Fact("arch", ("x", "x"), True))
    section = Inspections("t", results, hardware=facts)
    assert (section.runs, section.failed_runs) == (5, 1)
    assert [fact.name for fact in section.different_hardware] == ["model"]
