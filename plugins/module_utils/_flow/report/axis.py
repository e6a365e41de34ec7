# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The axis of time: round ticks in UTC, places in percent of the width, and moments and durations in words."""

from __future__ import annotations

import dataclasses
import datetime
import math

MOST_TICKS = 10
SHORTEST = 10.0
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 28, 91, 182, 364)),
)
# Room before the first and after the last moment, so that marks at the ends are not cut.
_BEFORE, _AFTER = 0.01, 0.025
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """A round moment: where it is, what to write below, and the day where it changes."""

    at: int
    place: float
    label: str
    day: str


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time laid out from 0 to 100 percent."""

    start: float
    end: float
    ticks: tuple[Tick, ...]

    def place(self, moment: float) -> float:
        """Where a moment lies, in percent; what is outside is moved to the nearer end."""
        return 100 * min(1.0, max(0.0, (moment - self.start) / (self.end - self.start)))


def build_axis(first: float, last: float) -> Axis:
    """The axis for everything between two moments; a very short stretch gets some room to the right."""
    last = max(last, first + SHORTEST)
    span = last - first
    start, end = first - _BEFORE * span, last + _AFTER * span
    bare = Axis(start, end, ())
    step = round_step(end - start)
    moments = range(math.ceil(start / step) * step, math.floor(end) + 1, step)
    days = [day_text(moment) for moment in moments]
    ticks = tuple(
        Tick(
            at=moment,
            place=bare.place(moment),
            label=days[index] if step >= _DAY else clock_text(moment, seconds=step < _MINUTE),
            day=days[index] if step < _DAY and (index == 0 or days[index] != days[index - 1]) else "",
        )
        for index, moment in enumerate(moments)
    )
    return dataclasses.replace(bare, ticks=ticks)


def round_step(span: float) -> int:
    """The smallest round distance between ticks that does not give too many."""
    for step in _STEPS:
        if span <= step * MOST_TICKS:
            return step
    return _STEPS[-1] * math.ceil(span / (_STEPS[-1] * MOST_TICKS))


def clock_text(moment: float, *, seconds: bool = True) -> str:
    """The time of day in UTC."""
    return f"{_moment(moment):{'%H:%M:%S' if seconds else '%H:%M'}}"


def day_text(moment: float, *, year: bool = False) -> str:
    """The day in UTC, in English whatever the machine speaks."""
    day = _moment(moment)
    return f"{day.day} {_MONTHS[day.month - 1]}{f' {day.year}' if year else ''}"


def moment_text(moment: float) -> str:
    """Day and time in UTC."""
    return f"{day_text(moment, year=True)}, {clock_text(moment)}"


def duration_text(seconds: float) -> str:
    """A duration for people: its largest unit and the next smaller one."""
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    for unit, name, smaller, smaller_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


def _moment(moment: float) -> datetime.datetime:
    """A moment cut to whole seconds, in UTC."""
    return _START + datetime.timedelta(seconds=math.floor(moment))
