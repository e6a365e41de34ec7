# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section that shows gangs: figures, a chart with one row for each gang, and the same data as tables."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import time_axis
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.bars import lay_bars, length_text
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.entries import read_timeline
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.usage import (
    HEIGHT,
    held_text,
    lay_usage,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Figure, Section
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    NOTHING,
    counted,
    day_text,
    duration_text,
    moment_text,
    stretch_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import GangTimeline, longest_wait, middle
from ansible_collections.muster.kube.plugins.module_utils._model.report.usage import queue_waits, usages


def draw_gang_timeline(section: GangTimeline) -> dict[str, t.Any]:
    """What the template shows."""
    gangs, bounds = section.gangs, section.bounds
    until = bounds[1] if bounds else 0.0
    axis = time_axis(*bounds) if bounds else None
    seen = {span.phase for gang in gangs for span in gang.spans}
    return {
        "lede": _lede(section),
        "figures": _figures(section, until),
        "rows": [(gang, lay_bars(gang, axis, until) if axis else []) for gang in gangs],
        "until": until,
        "axis": axis,
        "as_of": axis.place(section.as_of) if axis and section.as_of is not None else None,
        "phases": [phase for phase in PHASES if phase in seen],
        "several_namespaces": len({gang.namespace for gang in gangs}) > 1,
        "several_days": len({day_text(moment, year=True) for moment in bounds or ()}) > 1,
        "transitions": section.transitions,
        "length": length_text,
        "usages": [lay_usage(usage, axis) for usage in usages(gangs, section.capacity, until)] if axis else [],
        "usage_height": HEIGHT,
        "queues": [(queue, held_text(queue) or NOTHING) for queue in queue_waits(gangs, until)],
    }


def _lede(section: GangTimeline) -> str:
    """What the section is about, in one line."""
    parts = [counted(len(section.gangs), "gang")]
    if section.bounds:
        parts.append(f"{stretch_text(*section.bounds)} UTC")
    if section.as_of is not None:
        parts.append(f"as of {moment_text(section.as_of)} UTC")
    return " · ".join(parts)


def _figures(section: GangTimeline, until: float) -> list[Figure]:
    """The numbers a reader asks for first."""
    gangs = section.gangs
    count = {phase: sum(gang.phase == phase for gang in gangs) for phase in PHASES}
    hopeless = sum(gang.hopeless for gang in gangs)
    typical = middle(waited for gang in gangs if (waited := gang.seconds_in("queued", until)) is not None)
    longest = longest_wait(section, until)
    waiting = f"{hopeless} can never start" if hopeless else "in the queue at the end"
    return [
        Figure("Gangs", str(len(gangs)), f"{sum(gang.starts > 0 for gang in gangs)} started"),
        Figure("Waiting", str(count["queued"]), waiting, hopeless > 0),
        Figure("Running", str(count["running"]), "at the end"),
        Figure("Complete", str(count["complete"]), f"{count['failed']} failed", count["failed"] > 0),
        Figure("Median wait", NOTHING if typical is None else duration_text(typical), "all attempts together"),
        Figure("Longest wait", duration_text(longest[0]) if longest else NOTHING, longest[1].name if longest else ""),
    ]


GANG_TIMELINE = Section(
    read=read_timeline,
    draw=draw_gang_timeline,
    summary=lambda section: {"gangs": len(section.gangs), "transitions": section.transitions},
    options={
        "gangs": {"type": "list", "elements": "dict", "default": []},
        "as_of": {"type": "str"},
        "capacity": {"type": "dict"},
    },
)
