# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where the blocks of an allocation lie: one upon the other in the chart of all, and one row of steps for each job."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import Axis, fitting, round_step
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    clock_text,
    counted,
    duration_text,
    moment_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.allocation import (
    Allocation,
    AllocationStretch,
    Holding,
    JobRow,
    ResizeRow,
)

# Heights in pixels: of the chart of all with the room above it, and of a row with that of the largest size in it.
HEIGHT, _TOP = 190, 10
ROW, _LARGEST, _FLOOR = 46, 26, 37
# So many jobs have a color of their own; those that held less are drawn as one.
MOST_JOBS = 12
OTHERS, REST, IDLE, UNKNOWN = "others", "rest", "idle", "unknown"
_COLORS = 6
_MOST_NAMES = 6
# A text needs so much height.
_LEAST_HEIGHT = 13


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """A block of a chart: place and width in percent, top and height in pixels."""

    kind: str
    left: float
    width: float
    top: float
    height: float
    text: str
    hover: str


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened to a job at a moment: a resize, a checkpoint, or its end."""

    kind: str
    place: float
    hover: str


@dataclasses.dataclass(frozen=True, slots=True)
class StackChart:
    """All GPUs of one resource over time: blocks, amounts with their heights, and the line of what there is."""

    resource: str
    blocks: tuple[Block, ...]
    amounts: tuple[tuple[int, float], ...]
    line: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class JobTrack:
    """One job along the axis: what it held as steps, its waits and resizes, and its marks."""

    blocks: tuple[Block, ...]
    waits: tuple[tuple[float, float], ...]
    changes: tuple[tuple[float, float], ...]
    marks: tuple[Mark, ...]


def colors_of(section: Allocation) -> dict[int, str]:
    """The color of each job by its place; those that held least share one where there are too many."""
    order = sorted(range(len(section.jobs)), key=lambda place: (-section.jobs[place].gpu_seconds, place))
    own = sorted(order[: MOST_JOBS if len(order) <= MOST_JOBS else MOST_JOBS - 1])
    colors = dict.fromkeys(range(len(section.jobs)), REST)
    return colors | {place: f"series-{number % _COLORS + 1}" for number, place in enumerate(own)}


def lay_stack(section: Allocation, resource: str, axis: Axis, colors: Mapping[int, str]) -> StackChart:
    """The chart of one resource: jobs from the bottom up in their order, then other pods, then what nobody held."""
    layers, capacity = _layers(section, resource, colors), section.capacity.get(resource)
    most = max([item.floor + item.gpus for item in layers] + [capacity or 0, 1])
    scale = (HEIGHT - _TOP) / most
    of = f" {resource}" if capacity is None else f" of {capacity} {resource}"
    step = max(1, math.ceil(round_step(most, (10**power * times for power in range(19) for times in (1, 2, 5)), 6)))
    return StackChart(
        resource,
        tuple(_block(item, axis, scale, of) for item in layers),
        tuple((amount, HEIGHT - scale * amount) for amount in range(0, most + 1, step)),
        None if capacity is None else HEIGHT - scale * capacity,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Layer:
    """A block before it is laid out: from when to when, above how many GPUs, and how many it has."""

    kind: str
    name: str
    start: float
    end: float
    floor: int
    gpus: int


def _layers(section: Allocation, resource: str, colors: Mapping[int, str]) -> list[_Layer]:
    """Blocks from the bottom up, stretch by stretch; one that goes on at the same height is one."""
    capacity = section.capacity.get(resource)
    found: list[_Layer] = []
    open_ones: dict[tuple[str, str, int, int], int] = {}
    for stretch in section.stretches(resource):
        before, open_ones, floor = open_ones, {}, 0
        for kind, name, gpus in _piled(section, stretch, colors, capacity):
            place = before.get((kind, name, floor, gpus))
            if place is None:
                place = len(found)
                found.append(_Layer(kind, name, stretch.start, stretch.end, floor, gpus))
            else:
                found[place] = dataclasses.replace(found[place], end=stretch.end)
            open_ones[kind, name, floor, gpus] = place
            floor += gpus
    return found


def _piled(
    section: Allocation, stretch: AllocationStretch, colors: Mapping[int, str], capacity: int | None
) -> Iterable[tuple[str, str, int]]:
    """Color, name and GPUs of one stretch from the bottom up, with what is left of all there is at the top."""
    rest = [gpus for place, gpus in stretch.amounts if colors[place] == REST]
    for place, gpus in stretch.amounts:
        if colors[place] != REST:
            yield colors[place], section.jobs[place].full_name, gpus
    if rest:
        yield REST, counted(len(rest), "more job"), sum(rest)
    if stretch.others:
        yield OTHERS, "pods of others", stretch.others
    left = (capacity or 0) - stretch.total
    if stretch.unknown:
        names = ", ".join(section.jobs[place].full_name for place in stretch.unknown[:_MOST_NAMES])
        yield UNKNOWN, f"nobody noted how much {names} held", max(1, left)
    elif left > 0:
        yield IDLE, "held by nobody", left


def _block(layer: _Layer, axis: Axis, scale: float, of: str) -> Block:
    """One block, with what it says when pointed at."""
    left, width = _place(axis, layer.start, layer.end)
    height = scale * layer.gpus
    top = HEIGHT - scale * layer.floor - height
    amount = "" if layer.kind == UNKNOWN else f": {layer.gpus}{of}"
    hover = f"{layer.name}{amount}\n{stretch_words(layer.start, layer.end)}"
    words = {IDLE: [], UNKNOWN: ["?"]}.get(layer.kind, [layer.name.rpartition("/")[2]])
    return Block(layer.kind, left, width, top, height, fitting(words, width) if height >= _LEAST_HEIGHT else "", hover)


def lay_job(job: JobRow, axis: Axis, until: float) -> JobTrack:
    """The row of one job: its steps are as high as its size is of the largest that it may have."""
    most = max([*job.sizes, *(item.size or item.gpus or 0 for item in job.held), 1])
    marks = [Mark("grow" if row.grows else "shrink", axis.place(row.at), resize_words(job, row)) for row in job.resizes]
    if job.training is not None:
        first = axis.start
        marks += [
            Mark("saved", axis.place(at), f"{job.full_name}: checkpoint at step {step}\n{moment_text(at)} UTC")
            for at, step in job.training.saved
            if first <= at <= until
        ]
    if job.ended is not None:
        marks.append(
            Mark(job.phase, axis.place(job.ended), f"{job.full_name}: {job.phase}\n{moment_text(job.ended)} UTC")
        )
    return JobTrack(
        tuple(_step(job, item, axis, most) for item in job.held),
        tuple(_place(axis, start, end) for start, end in job.waits),
        tuple(_place(axis, row.at, until if row.end is None else row.end) for row in job.resizes if _is_seen(row)),
        tuple(marks),
    )


def _is_seen(row: ResizeRow) -> bool:
    """Whether it is known how long a resize went on, or that it still does."""
    return row.end is not None or row.outcome == "under way"


def _place(axis: Axis, start: float, end: float) -> tuple[float, float]:
    """Place and width of a stretch."""
    left = axis.place(start)
    return left, max(0.0, axis.place(end) - left)


def _step(job: JobRow, item: Holding, axis: Axis, most: int) -> Block:
    """One stretch of a job."""
    left, width = _place(axis, item.start, item.end)
    amount = item.size if item.size is not None else item.gpus
    height = float(_LARGEST) if amount is None else max(3.0, _LARGEST * amount / most)
    told = "?" if amount is None else str(amount)
    words = "nobody noted its size" if item.gpus is None else f"{item.gpus} {job.resource}"
    size = "" if item.size is None or item.size == item.gpus else f"size {item.size}, "
    hover = f"{job.full_name}: {size}{words}\n{stretch_words(item.start, item.end)}"
    kind = UNKNOWN if amount is None else "known"
    text = fitting([told], width) if height >= _LEAST_HEIGHT else ""
    return Block(kind, left, width, _FLOOR - height, height, text, hover)


def resize_words(job: JobRow, row: ResizeRow) -> str:
    """One resize as it is told when pointed at."""
    took = "" if row.seconds is None else f" after {duration_text(row.seconds)}"
    begun = row.begun
    return (
        f"{job.full_name}: from {begun.size} to {begun.to}, {begun.why}\n"
        f"{moment_text(row.at)} UTC, by {begun.method}: {row.outcome}{took}"
    )


def stretch_words(start: float, end: float) -> str:
    """From when to when, and how long that is."""
    return f"{clock_text(start)} – {clock_text(end)} UTC ({duration_text(end - start)})"
