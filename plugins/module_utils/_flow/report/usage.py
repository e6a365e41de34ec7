# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster over time as HTML: what gangs held of it below what there is, and waits by queue."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import Axis, clock_text, duration_text
from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Html, element, joined, percent
from ansible_collections.muster.kube.plugins.module_utils._flow.report.tables import NOTHING, cell, table
from ansible_collections.muster.kube.plugins.module_utils._model.quantity import describe
from ansible_collections.muster.kube.plugins.module_utils._model.report_usage import QueueWaits, Stretch, Usage

_HEIGHT, _TOP = 54, 6
_MOST_NAMES = 12
# Milli-units of cpu are counted; people count CPUs.
_UNITS = {"cpu": 1000}


def draw_usage(usages: Sequence[Usage], axis: Axis, labels: Html) -> Html:
    """One row for each resource along the axis of the gangs; nothing when nothing is known."""
    if not usages:
        return joined([])
    lines = [_line("tick", tick.place) for tick in axis.ticks]
    grid = element("svg", {"class": "grid", "preserveAspectRatio": "none"}, *lines)
    rows = [_row(usage, axis) for usage in usages]
    return joined(
        [
            element("h3", {}, "Held by gangs over time"),
            element(
                "div",
                {"class": "chart", "role": "img", "aria-label": "What gangs held over time; see the table of queues"},
                element("div", {"class": "axis"}, element("div", {"class": "unit"}, "UTC"), labels),
                element("div", {"class": "rows"}, grid, *rows),
            ),
        ]
    )


def _line(kind: str, place: float) -> Html:
    """A vertical line through all rows."""
    where = percent(place)
    return element("line", {"class": kind, "x1": where, "x2": where, "y1": 0, "y2": "100%"})


def _row(usage: Usage, axis: Axis) -> Html:
    """One resource: blocks as high as the amount held, and the capacity as a line."""
    most = max(usage.peak, usage.capacity or 0) or 1
    room = _HEIGHT - _TOP
    of = "" if usage.capacity is None else f" of {_said(usage.resource, usage.capacity)}"
    label = element(
        "div",
        {"class": "label", "title": usage.resource},
        element("span", {"class": "name"}, usage.resource),
        element("span", {"class": "context"}, f"at most {_said(usage.resource, usage.peak)}{of}"),
    )
    drawn = [_block(usage, stretch, axis, room * stretch.amount / most, of) for stretch in usage.stretches]
    if usage.capacity is not None:
        height = _HEIGHT - room * usage.capacity / most
        drawn.append(element("line", {"class": "capacity", "x1": "0", "x2": "100%", "y1": height, "y2": height}))
    track = element("svg", {"class": "track", "height": _HEIGHT}, *drawn)
    return element("div", {"class": "usage"}, label, track)


def _block(usage: Usage, stretch: Stretch, axis: Axis, height: float, of: str) -> Html:
    """One stretch, with who held what when pointed at."""
    names = ", ".join(stretch.gangs[:_MOST_NAMES])
    more = f" and {len(stretch.gangs) - _MOST_NAMES} more" if len(stretch.gangs) > _MOST_NAMES else ""
    when = f"{clock_text(stretch.start)} – {clock_text(stretch.end)}"
    title = f"{when}: {_said(usage.resource, stretch.amount)}{of} {usage.resource}\n{names}{more}"
    left, right = axis.place(stretch.start), axis.place(stretch.end)
    return element(
        "rect",
        {
            "class": "used",
            "x": percent(left),
            "y": f"{_HEIGHT - height:.1f}",
            "width": percent(right - left),
            "height": f"{height:.1f}",
        },
        element("title", {}, title),
    )


def _said(resource: str, amount: int) -> str:
    """An amount in readable form; of bytes the size is enough."""
    said = describe(resource, amount)
    return said.partition("(")[2].rstrip(")") or said


def draw_queues(queues: Sequence[QueueWaits]) -> Html:
    """Waits by queue; nothing without queues."""
    if not queues:
        return joined([])
    rows = [_queue_row(queue) for queue in queues]
    names = ["Queue", "Gangs", "Waiting", "Median wait", "Longest wait", "Held, amount times time"]
    return table("Waits by queue", names, rows, "queues")


def _queue_row(queue: QueueWaits) -> Html:
    """One queue."""
    held = [
        f"{duration_text(used / _UNITS.get(resource, 1))} {resource}"
        for resource, used in queue.used.items()
        if used and resource != "memory"
    ]
    return element(
        "tr",
        {},
        element("th", {"scope": "row"}, queue.queue or NOTHING),
        cell(str(queue.gangs), kind="number"),
        cell(str(queue.waiting), kind="number"),
        cell(NOTHING if queue.median is None else duration_text(queue.median), kind="number"),
        cell(NOTHING if queue.longest is None else duration_text(queue.longest), kind="number"),
        cell(", ".join(held) or NOTHING, kind="cause"),
    )
