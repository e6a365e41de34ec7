# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section that shows who held which GPUs over time: figures, a chart of all, a row for each job, and tables."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.entries import read_allocation
from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.layout import (
    HEIGHT,
    ROW,
    colors_of,
    lay_job,
    lay_stack,
    stretch_words,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import time_axis
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Figure, Section
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    NOTHING,
    counted,
    duration_text,
    moment_text,
    number_text,
    stretch_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.allocation import (
    Allocation,
    AllocationStretch,
    JobRow,
    used_share,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import middle


@dataclasses.dataclass(frozen=True, slots=True)
class StretchLine:
    """One line of the table that tells the chart of all: when, what is held and what is not, and by whom."""

    when: str
    held: str
    idle: str
    holders: str


def draw_allocation(section: Allocation) -> dict[str, t.Any]:
    """What the template shows."""
    dated = section.first is not None and section.until is not None
    axis = time_axis(section.first or 0.0, section.until or 0.0) if dated else None
    colors = colors_of(section)
    resources = section.resources
    stretches = {name: section.stretches(name) for name in resources}
    return {
        "lede": _lede(section),
        "figures": _figures(section, stretches),
        "axis": axis,
        "as_of": axis.place(section.as_of) if axis and section.as_of is not None else None,
        "stacks": [
            (lay_stack(section, name, axis, colors), _held_words(section, name, stretches[name]))
            for name in resources
            if axis
        ],
        "stack_height": HEIGHT,
        "row_height": ROW,
        "rows": [
            (job, colors[place], lay_job(job, axis, section.until or 0.0) if axis else None, _range_words(job))
            for place, job in enumerate(section.jobs)
        ],
        "kinds": _kinds(section, stretches),
        "several_namespaces": len({job.namespace for job in section.jobs}) > 1,
        "resizes": section.resizes,
        "lines": [(name, [_line(section, name, item) for item in stretches[name]]) for name in resources],
        "speeds": _speed_words,
        "progress": _progress_words,
    }


def _lede(section: Allocation) -> str:
    """What the section is about, in one line."""
    parts = [counted(len(section.jobs), "job")]
    if section.first is not None and section.until is not None:
        parts.append(f"{stretch_text(section.first, section.until)} UTC")
    if section.as_of is not None:
        parts.append(f"as of {moment_text(section.as_of)} UTC")
    return " · ".join(parts)


def _figures(section: Allocation, stretches: t.Mapping[str, Sequence[AllocationStretch]]) -> list[Figure]:
    """The numbers a reader asks for first; GPUs are those that were held most."""
    jobs, rows = section.jobs, [row for job in section.jobs for row in job.resizes]
    running = sum(job.phase == "running" for job in jobs)
    larger = sum(row.grows for row in rows)
    resource = next(iter(stretches), "")
    capacity, last = section.capacity.get(resource), [*stretches.get(resource, ())][-1:]
    share = used_share(stretches.get(resource, ()), capacity)
    took = [row.seconds for row in rows if row.seconds is not None]
    typical = middle(took)
    lost = [job.lost_seconds for job in jobs if job.resizes]
    known = [seconds for seconds in lost if seconds is not None]
    untold = len(lost) - len(known)
    of = resource if capacity is None else f"of {capacity} {resource}"
    return [
        Figure("Jobs", str(len(jobs)), f"{running} running"),
        Figure("Resizes", str(len(rows)), f"{larger} larger, {len(rows) - larger} smaller"),
        Figure("Held at the end", _total_words(last[0]) if last else NOTHING, of),
        Figure("Held over time", NOTHING if share is None else f"{100 * share:.0f} %", "of what there is"),
        Figure(
            "A resize took",
            NOTHING if typical is None else duration_text(typical),
            f"at most {duration_text(max(took))}" if took else "from its decision until its pods had nodes",
        ),
        Figure(
            "Work lost",
            duration_text(sum(known)) if known else NOTHING,
            f"unknown of {counted(untold, 'job')}" if untold else "by resizes",
            any(known),
        ),
    ]


def _total_words(stretch: AllocationStretch) -> str:
    """All that is held, as far as that is known."""
    return f"at least {stretch.total}" if stretch.unknown else str(stretch.total)


def _held_words(section: Allocation, resource: str, stretches: Sequence[AllocationStretch]) -> str:
    """What stands beside the chart of a resource."""
    capacity = section.capacity.get(resource)
    most = max((item.total for item in stretches), default=0)
    return f"at most {most}" if capacity is None else f"at most {most} of {capacity}"


def _range_words(job: JobRow) -> str:
    """The sizes that a job may have: from and to, or all of them where some between are missing."""
    if not job.sizes:
        return "fixed"
    low, high = job.sizes[0], job.sizes[-1]
    if low == high:
        return str(low)
    return f"{low}–{high}" if len(job.sizes) == high - low + 1 else ", ".join(map(str, job.sizes))


def _kinds(section: Allocation, stretches: t.Mapping[str, Sequence[AllocationStretch]]) -> list[tuple[str, str]]:
    """What the legend explains: only what the charts show."""
    every = [item for items in stretches.values() for item in items]
    checkpoints = any(job.training is not None and job.training.saved for job in section.jobs)
    rows = [row for job in section.jobs for row in job.resizes]
    found = [
        ("idle", "held by nobody", bool(section.capacity) and bool(every)),
        ("others", "pods of others", any(item.others for item in every)),
        ("unknown", "nobody noted the size", any(item.unknown for item in every)),
        ("waits", "waits", any(job.waits for job in section.jobs)),
        ("resizing", "a resize", bool(rows)),
        ("grow", "grows", any(row.grows for row in rows)),
        ("shrink", "shrinks", any(not row.grows for row in rows)),
        ("saved", "checkpoint", checkpoints),
    ]
    return [(kind, words) for kind, words, shown in found if shown]


def _line(section: Allocation, resource: str, stretch: AllocationStretch) -> StretchLine:
    """One stretch of the chart of all in words."""
    capacity = section.capacity.get(resource)
    holders = [f"{section.jobs[place].full_name} {gpus}" for place, gpus in stretch.amounts]
    holders += [f"pods of others {stretch.others}"] if stretch.others else []
    holders += [f"{section.jobs[place].full_name} unknown" for place in stretch.unknown]
    idle = "unknown" if capacity is None or stretch.unknown else str(max(0, capacity - stretch.total))
    when = stretch_words(stretch.start, stretch.end)
    return StretchLine(when, _total_words(stretch), idle, ", ".join(holders) or NOTHING)


def _progress_words(job: JobRow) -> str:
    """How far a training is."""
    training = job.training
    if training is None or training.step is None:
        return "unknown"
    of = "" if training.total is None else f" of {training.total}"
    share = "" if training.share is None else f", {100 * training.share:.0f} %"
    return f"step {training.step}{of}{share}"


def _speed_words(job: JobRow) -> list[tuple[int, str]]:
    """The measured speeds by size."""
    speeds = job.training.speeds if job.training is not None else {}
    return [(size, f"{number_text(speed)} steps/s") for size, speed in speeds.items()]


ALLOCATION = Section(
    read=read_allocation,
    draw=draw_allocation,
    summary=lambda section: {"jobs": len(section.jobs), "resizes": section.resizes},
    options={
        "jobs": {"type": "list", "elements": "dict", "default": []},
        "as_of": {"type": "str"},
        "capacity": {"type": "dict"},
        "pods": {"type": "list", "elements": "dict", "default": []},
    },
)
