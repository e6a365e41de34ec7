# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Box plots as HTML: one row for each result along a common axis, every run as a point."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Attributes, Html, element, percent
from ansible_collections.muster.kube.plugins.module_utils._flow.report.scale import (
    Scale,
    Unit,
    build_scale,
    change_text,
    unit_for,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report_inspections import Box, Plot, Point, Sample

# How many colors the template has; further results begin anew.
COLORS = 6
_ROW_HEIGHT, _BOX_TOP, _BOX_HEIGHT = 52, 12, 28
_POINT_ROOM = 18
# Steps of the golden section spread points evenly without a pattern, and the same way each time.
_GOLDEN = 0.618033988749895
_THINNEST = 0.3


def plot_unit(plot: Plot) -> Unit:
    """The unit all values of a plot are written in."""
    bounds = plot.bounds
    return unit_for(plot.metric, max(abs(bound) for bound in bounds) if bounds else 0.0, plot.unit or None)


def draw_plot(plot: Plot) -> Html:
    """The chart of one metric; the table below it says the same to those who cannot see it."""
    bounds = plot.bounds
    if bounds is None:
        return element("p", {"class": "empty"}, f"No run has a number called {plot.metric}.")
    scale = build_scale(*bounds, plot_unit(plot))
    lines = [_line("tick", tick.place) for tick in scale.ticks]
    first = plot.samples[0].box
    if first is not None and len(plot.samples) > 1:
        lines.append(_line("as-of", scale.place(first.median)))
    grid = element("svg", {"class": "grid", "preserveAspectRatio": "none"}, *lines)
    rows = [_row(sample, number, scale) for number, sample in enumerate(plot.samples)]
    words = ", ".join(part for part in (scale.unit.name, f"{plot.direction} is better") if part)
    return element(
        "div",
        {"class": "chart", "role": "img", "aria-label": f"{plot.title}: box plots; see the table below"},
        element("div", {"class": "axis"}, element("div", {"class": "unit"}, words), _axis_labels(scale)),
        element("div", {"class": "rows"}, grid, *rows),
    )


def color(number: int) -> str:
    """The class of the color of one result."""
    return f"series-{number % COLORS + 1}"


def _line(kind: str, place: float) -> Html:
    """A vertical line through all rows."""
    where = percent(place)
    return element("line", {"class": kind, "x1": where, "x2": where, "y1": 0, "y2": "100%"})


def _axis_labels(scale: Scale) -> Html:
    """Round numbers; every second one is left out where there is little room."""
    labels = []
    for index, tick in enumerate(scale.ticks):
        anchor = "start" if tick.place < 3 else "end" if tick.place > 97 else "middle"
        label = element("text", {"x": percent(tick.place), "y": 14, "text-anchor": anchor}, tick.label)
        labels.append(element("g", {"class": "odd" if index % 2 else "even"}, label))
    return element("svg", {"class": "labels", "height": 20}, *labels)


def _row(sample: Sample, number: int, scale: Scale) -> Html:
    """The name and the box of one result."""
    box = sample.box
    label = element(
        "div",
        {"class": "label", "title": sample.name},
        element("span", {"class": "name"}, sample.name),
        element("span", {"class": "context"}, "no values" if box is None else scale.unit.text(box.median)),
    )
    drawn = [] if box is None else [_draw_box(sample, box, scale), *_draw_points(sample, box, scale)]
    track = element("svg", {"class": f"track {color(number)}", "height": _ROW_HEIGHT}, *drawn)
    return element("div", {"class": "row plotted"}, label, track)


def _draw_box(sample: Sample, box: Box, scale: Scale) -> Html:
    """Whiskers, the middle half and the median."""
    least, low, median, high, most = (
        scale.place(value) for value in (box.least, box.low, box.median, box.high, box.most)
    )
    width = max(high - low, _THINNEST)
    left = low if high - low >= _THINNEST else max(0.0, median - _THINNEST / 2)
    middle = _ROW_HEIGHT / 2
    parts = [
        element("title", {}, _box_text(sample, box, scale.unit)),
        _stroke("whisker", least, most, middle, middle),
        _stroke("whisker", least, least, middle - 7, middle + 7),
        _stroke("whisker", most, most, middle - 7, middle + 7),
        element(
            "rect",
            {
                "class": "half",
                "x": percent(left),
                "y": _BOX_TOP,
                "width": percent(width),
                "height": _BOX_HEIGHT,
                "rx": 2,
            },
        ),
        _stroke("median", median, median, _BOX_TOP, _BOX_TOP + _BOX_HEIGHT),
    ]
    return element("g", {"class": "bar box"}, *parts)


def _stroke(kind: str, left: float, right: float, top: float, bottom: float) -> Html:
    """A line of a box."""
    return element("line", {"class": kind, "x1": percent(left), "x2": percent(right), "y1": top, "y2": bottom})


def _draw_points(sample: Sample, box: Box, scale: Scale) -> list[Html]:
    """One point for each run, moved up and down a little so that equal values do not hide one another."""
    ordered = sorted(sample.points, key=lambda point: (point.value, point.index))
    drawn = []
    for number, point in enumerate(ordered):
        # A single point, or one that lies apart, stays in the middle.
        apart = not box.least <= point.value <= box.most
        shift = 0.0 if apart or len(ordered) == 1 else ((number * _GOLDEN) % 1 - 0.5) * _POINT_ROOM
        place: Attributes = {"cx": percent(scale.place(point.value)), "cy": f"{_ROW_HEIGHT / 2 + shift:.1f}", "r": 3.5}
        title = element("title", {}, _point_text(sample, point, scale.unit, apart))
        drawn.append(element("circle", {"class": f"bar point{' apart' if apart else ''}", **place}, title))
    return drawn


def _box_text(sample: Sample, box: Box, unit: Unit) -> str:
    """What there is to say about a box."""
    lines = [
        sample.name,
        f"median {unit.text(box.median)}",
        f"middle half {unit.text(box.low)} – {unit.text(box.high)}",
        f"whiskers {unit.text(box.least)} – {unit.text(box.most)}",
    ]
    if sample.change is not None and sample.change.percent is not None:
        lines.append(f"{change_text(sample.change.percent)}: {sample.change.verdict}")
    return "\n".join(lines)


def _point_text(sample: Sample, point: Point, unit: Unit, apart: bool) -> str:
    """What there is to say about a run."""
    return f"{sample.name}, run {point.index}\n{unit.text(point.value)}" + ("\nlies apart" if apart else "")
