# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cluster over time as blocks: what gangs held of it, as high as the amount, below what there is."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import Axis
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    amount_text,
    clock_text,
    duration_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.usage import QueueWaits, Stretch, Usage

HEIGHT, _TOP = 54, 6
_MOST_NAMES = 12
# Milli-units of cpu are counted; people count CPUs.
_UNITS = {"cpu": 1000}


@dataclasses.dataclass(frozen=True, slots=True)
class UsageBlock:
    """A stretch in which the same gangs held something: place and width in percent, height in pixels."""

    left: float
    width: float
    height: float
    hover: str


@dataclasses.dataclass(frozen=True, slots=True)
class UsageRow:
    """One resource over time; line is how far from the top the capacity lies, None where that is not known."""

    resource: str
    context: str
    blocks: tuple[UsageBlock, ...]
    line: float | None


def lay_usage(usage: Usage, axis: Axis) -> UsageRow:
    """The row of one resource along the axis of the gangs."""
    scale = (HEIGHT - _TOP) / (max(usage.peak, usage.capacity or 0) or 1)
    of = "" if usage.capacity is None else f" of {amount_text(usage.resource, usage.capacity)}"
    return UsageRow(
        usage.resource,
        f"at most {amount_text(usage.resource, usage.peak)}{of}",
        tuple(_block(usage.resource, stretch, axis, scale, of) for stretch in usage.stretches),
        None if usage.capacity is None else HEIGHT - scale * usage.capacity,
    )


def _block(resource: str, stretch: Stretch, axis: Axis, scale: float, of: str) -> UsageBlock:
    """One stretch, with who held what when pointed at."""
    names = ", ".join(stretch.gangs[:_MOST_NAMES])
    more = f" and {len(stretch.gangs) - _MOST_NAMES} more" if len(stretch.gangs) > _MOST_NAMES else ""
    when = f"{clock_text(stretch.start)} – {clock_text(stretch.end)}"
    hover = f"{when}: {amount_text(resource, stretch.amount)}{of} {resource}\n{names}{more}"
    left = axis.place(stretch.start)
    return UsageBlock(left, axis.place(stretch.end) - left, scale * stretch.amount, hover)


def held_text(queue: QueueWaits) -> str:
    """What the gangs of a queue held, as amount times time."""
    return ", ".join(
        f"{duration_text(used / _UNITS.get(resource, 1))} {resource}"
        for resource, used in queue.used.items()
        if used and resource != "memory"
    )
