# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Box plots as places along a common axis: one row for each result, every run as a point."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import Axis, number_axis
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import Unit, change_text, unit_for
from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import Box, Plot, Sample

# How many colors the page has; further results begin anew.
COLORS = 6
_POINT_ROOM = 18
# Steps of the golden section spread points evenly without a pattern, and the same way each time.
_GOLDEN = 0.618033988749895
_THINNEST = 0.3


@dataclasses.dataclass(frozen=True, slots=True)
class PlottedPoint:
    """One run: its place, and how far from the middle of the row it is moved so that it hides no other."""

    place: float
    shift: float
    apart: bool
    hover: str


@dataclasses.dataclass(frozen=True, slots=True)
class PlottedBox:
    """The places of whiskers, middle half and median."""

    least: float
    left: float
    width: float
    median: float
    most: float
    hover: str


@dataclasses.dataclass(frozen=True, slots=True)
class PlottedRow:
    """One result; without values it has no box."""

    sample: Sample
    box: PlottedBox | None
    points: tuple[PlottedPoint, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class PlottedMetric:
    """The chart of one metric; the axis is None where no run has it, first is the place of the first median."""

    plot: Plot
    unit: Unit
    axis: Axis | None
    first: float | None
    rows: tuple[PlottedRow, ...]


def plot_unit(plot: Plot) -> Unit:
    """The unit all values of a plot are written in."""
    bounds = plot.bounds
    return unit_for(plot.metric, max(abs(bound) for bound in bounds) if bounds else 0.0, plot.unit or None)


def lay_plot(plot: Plot) -> PlottedMetric:
    """Where everything lies; the median of the first result is marked where there is another to compare."""
    unit = plot_unit(plot)
    if plot.bounds is None:
        return PlottedMetric(plot, unit, None, None, ())
    axis = number_axis(*plot.bounds, unit)
    box = plot.samples[0].box
    first = axis.place(box.median) if box is not None and len(plot.samples) > 1 else None
    return PlottedMetric(plot, unit, axis, first, tuple(_row(sample, axis, unit) for sample in plot.samples))


def color(number: int) -> str:
    """The class of the color of one result."""
    return f"series-{number % COLORS + 1}"


def _row(sample: Sample, axis: Axis, unit: Unit) -> PlottedRow:
    """The box and the points of one result."""
    box = sample.box
    if box is None:
        return PlottedRow(sample, None, ())
    return PlottedRow(sample, _box(sample, box, axis, unit), tuple(_points(sample, box, axis, unit)))


def _box(sample: Sample, box: Box, axis: Axis, unit: Unit) -> PlottedBox:
    """Whiskers, the middle half, which is never too thin to be seen, and the median."""
    low, median, high = (axis.place(value) for value in (box.low, box.median, box.high))
    left = low if high - low >= _THINNEST else max(0.0, median - _THINNEST / 2)
    width = max(high - low, _THINNEST)
    lines = [
        sample.name,
        f"median {unit.text(box.median)}",
        f"middle half {unit.text(box.low)} – {unit.text(box.high)}",
        f"whiskers {unit.text(box.least)} – {unit.text(box.most)}",
    ]
    if sample.change is not None and sample.change.percent is not None:
        lines.append(f"{change_text(sample.change.percent)}: {sample.change.verdict}")
    return PlottedBox(axis.place(box.least), left, width, median, axis.place(box.most), "\n".join(lines))


def _points(sample: Sample, box: Box, axis: Axis, unit: Unit) -> list[PlottedPoint]:
    """One point for each run, moved up and down a little so that equal values do not hide one another."""
    ordered = sorted(sample.points, key=lambda point: (point.value, point.index))
    points = []
    for number, point in enumerate(ordered):
        # A single point, or one that lies apart, stays in the middle.
        apart = not box.least <= point.value <= box.most
        shift = 0.0 if apart or len(ordered) == 1 else ((number * _GOLDEN) % 1 - 0.5) * _POINT_ROOM
        hover = f"{sample.name}, run {point.index}\n{unit.text(point.value)}" + ("\nlies apart" if apart else "")
        points.append(PlottedPoint(axis.place(point.value), shift, apart, hover))
    return points
