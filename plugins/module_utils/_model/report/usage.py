# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What gangs used of the cluster over time, and how long each queue made them wait; arithmetic only."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import ACTIVE_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import GangRow, middle

# So many resources are drawn; those that only some nodes have come first.
MOST_RESOURCES = 4
_EVERYWHERE = ("cpu", "memory")


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of time in which the same gangs held an amount of a resource, in scaled units."""

    start: float
    end: float
    amount: int
    gangs: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """One resource over time; capacity is None where it is not known."""

    resource: str
    stretches: tuple[Stretch, ...]
    capacity: int | None = None

    @property
    def peak(self) -> int:
        """The largest amount that was held at once."""
        return max((stretch.amount for stretch in self.stretches), default=0)


@dataclasses.dataclass(frozen=True, slots=True)
class QueueWaits:
    """How the gangs of one queue fared; used maps resources to amount times seconds."""

    queue: str
    gangs: int
    waiting: int
    median: float | None
    longest: float | None
    used: Mapping[str, float]


def usages(gangs: Sequence[GangRow], capacity: Mapping[str, int], until: float) -> tuple[Usage, ...]:
    """What the gangs held over time, resource by resource."""
    return tuple(Usage(name, _stretches(gangs, name, until), capacity.get(name)) for name in _resources(gangs))


def _resources(gangs: Sequence[GangRow]) -> list[str]:
    """The resources worth a picture: GPUs and their like, else what every pod asks for."""
    asked = {name for gang in gangs for name, amount in gang.demand.items() if amount}
    special = sorted(name for name in asked if "/" in name)
    return (special or [name for name in _EVERYWHERE if name in asked])[:MOST_RESOURCES]


def _held(gang: GangRow, until: float) -> list[tuple[float, float]]:
    """When a gang held its pods' resources: from each start until it left the started phases."""
    return [(span.start, until if span.end is None else span.end) for span in gang.spans if span.phase in ACTIVE_PHASES]


def _stretches(gangs: Sequence[GangRow], resource: str, until: float) -> tuple[Stretch, ...]:
    """The stretches in which something was held; neighbors with the same holders are one."""
    holders = [(gang, start, end) for gang in gangs if gang.demand.get(resource) for start, end in _held(gang, until)]
    moments = sorted({moment for _gang, start, end in holders for moment in (start, end)})
    found: list[Stretch] = []
    for start, end in itertools.pairwise(moments):
        here = [gang for gang, first, last in holders if first <= start and end <= last]
        if not here:
            continue
        names = tuple(gang.full_name for gang in here)
        if found and found[-1].end == start and found[-1].gangs == names:
            found[-1] = dataclasses.replace(found[-1], end=end)
        else:
            found.append(Stretch(start, end, sum(gang.demand[resource] for gang in here), names))
    return tuple(found)


def queue_waits(gangs: Sequence[GangRow], until: float) -> tuple[QueueWaits, ...]:
    """Waits and use by queue; none when no gang names one."""
    names = sorted({gang.queue for gang in gangs})
    if names in ([], [""]):
        return ()
    return tuple(_queue(name, [gang for gang in gangs if gang.queue == name], until) for name in names)


def _queue(name: str, gangs: Sequence[GangRow], until: float) -> QueueWaits:
    """One queue."""
    waits = [waited for gang in gangs if (waited := gang.seconds_in("queued", until)) is not None]
    used = {
        resource: sum(
            gang.demand.get(resource, 0) * (end - start) for gang in gangs for start, end in _held(gang, until)
        )
        for resource in _resources(gangs)
    }
    waiting = sum(gang.phase == "queued" for gang in gangs)
    return QueueWaits(name, len(gangs), waiting, middle(waits), max(waits, default=None), used)
