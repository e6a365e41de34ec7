# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Box plots: every run is a point, places follow the values."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.box_plot import (
    COLORS,
    color,
    lay_plot,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.page import draw_section
from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import (
    Inspections,
    Plot,
    Point,
    Result,
    Sample,
)
from ansible_collections.muster.kube.tests.support.report_cases import TEMPLATES, parse_page


def wall_times(*samples, direction="lower"):
    """A plot of wall times."""
    made = tuple(
        Sample(f"s{number}", tuple(Point(index, value) for index, value in enumerate(values)))
        for number, values in enumerate(samples)
    )
    return Plot("wall_seconds", "Wall time", "", direction, made)


def plot(*samples, direction="lower"):
    """The same as a page draws it."""
    made = wall_times(*samples, direction=direction)
    results = tuple(Result(sample.name, "", "", "", (), len(sample.points), 0) for sample in made.samples)
    return parse_page(draw_section(TEMPLATES, 1, "inspections", Inspections("t", results, (made,))))


def places(elements, name):
    """Where elements lie, in percent."""
    return [float((item.attributes[name] or "").rstrip("%")) for item in elements]


def test_every_run_is_a_point_at_its_value():
    tree = plot([1.0, 2.0, 3.0], [3.0])
    first, second = tree.find("svg", "track")
    found = places(first.find("circle"), "cx")
    assert found == sorted(found)
    assert places(second.find("circle"), "cx") == [found[-1]]
    assert [item.find("title")[0].text for item in second.find("circle")] == ["s1, run 0\n3 s"]


def test_equal_values_do_not_hide_one_another():
    (track,) = plot([1.0, 1.0, 1.0]).find("svg", "track")
    assert len(set(places(track.find("circle"), "cy"))) == 3


def test_values_that_lie_apart_are_marked():
    (track,) = plot([1.0, 1.1, 1.2, 1.3, 9.0]).find("svg", "track")
    (apart,) = track.find("circle", "apart")
    assert apart.find("title")[0].text == "s0, run 4\n9 s\nlies apart"


def test_the_box_goes_from_quartile_to_quartile_around_the_median():
    (track,) = plot([1.0, 2.0, 3.0, 4.0, 5.0]).find("svg", "track")
    (half,), (median,) = track.find("rect", "half"), track.find("line", "median")
    circles = places(track.find("circle"), "cx")
    (left,), (width,), (middle,) = places([half], "x"), places([half], "width"), places([median], "x1")
    assert (left, middle) == (circles[1], circles[2])
    assert abs(left + width - circles[3]) < 0.01
    assert "median 3 s" in track.find("g", "box")[0].find("title")[0].text


def test_the_median_of_the_first_result_goes_through_all_rows():
    assert len(plot([1.0], [2.0]).find("line", "as-of")) == 1
    assert plot([1.0]).find("line", "as-of") == []
    assert plot([], [2.0]).find("line", "as-of") == []


def test_the_axis_names_unit_and_direction():
    assert plot([0.001], direction="higher").find("div", "unit")[0].text == "ms, higher is better"


def test_results_without_values_have_an_empty_row():
    tree = plot([1.0], [])
    assert [item.text for item in tree.find("span", "context")] == ["1 s", "no values"]
    assert tree.find("svg", "track")[1].find() == []


def test_without_any_value_there_is_no_chart():
    tree = plot([], [])
    assert tree.find("svg") == []
    assert [item.text for item in tree.find("p", "empty")] == ["No run has a number called wall_seconds."]


def test_colors_begin_anew():
    assert color(0) == color(COLORS) == "series-1"


def test_boxes_too_thin_to_be_seen_are_widened_around_their_median():
    (row,) = lay_plot(wall_times([5.0, 5.0, 5.0])).rows
    assert row.box.width == pytest.approx(0.3)
    assert row.box.left + row.box.width / 2 == pytest.approx(row.box.median)


def test_points_are_moved_within_their_row_and_single_ones_are_not():
    (row,) = lay_plot(wall_times([1.0, 1.0, 2.0, 3.0])).rows
    assert all(abs(point.shift) <= 9 for point in row.points)
    assert [point.shift for point in lay_plot(wall_times([1.0])).rows[0].points] == [0.0]
