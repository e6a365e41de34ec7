# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The axis of a chart: round ticks and places in percent of the width, for moments and for numbers."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import Unit, clock_text, day_text

MOST_MOMENTS, MOST_NUMBERS = 10, 8
SHORTEST = 10.0
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 364 * 86_400
_TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14, 28, 91, 182)),
)
# Room before the first and after the last moment, so that marks at the ends are not cut; the same for numbers.
_BEFORE, _AFTER, _MARGIN = 0.01, 0.025, 0.04
# An axis that could begin at 0 does so when little room is lost.
_ZERO_SHARE = 0.35
# An axis spans at least this share of its numbers.
_NARROWEST = 0.02
# Beyond this there is nothing left to reckon with: a span of two such numbers would have no end.
_LARGEST = 1e300
# The width of the axis from which on texts are shown in bars, and of a letter and the space around a text, in pixels.
_AXIS_WIDTH, _LETTER_WIDTH, _TEXT_MARGIN = 760, 6.6, 12
# A tick that only the last digits of a division put outside is inside.
_SLACK = 1e-9


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """A round moment or number: where it is, what to write below, and the day where it changes."""

    at: float
    place: float
    label: str
    day: str = ""

    @property
    def anchor(self) -> str:
        """Which part of the label stands at the place; at an end of the axis it would be cut if it were centered."""
        return "start" if self.place < 3 else "end" if self.place > 97 else "middle"


@dataclasses.dataclass(frozen=True, slots=True)
class Axis:
    """A stretch of time or of numbers laid out from 0 to 100 percent."""

    start: float
    end: float
    ticks: tuple[Tick, ...] = ()

    def place(self, value: float) -> float:
        """Where a value lies, in percent; what is outside is moved to the nearer end."""
        return 100 * min(1.0, max(0.0, (value - self.start) / (self.end - self.start)))


def time_axis(first: float, last: float) -> Axis:
    """The axis for everything between two moments; a very short stretch gets some room to the right."""
    last = max(last, first + SHORTEST)
    start, end = first - _BEFORE * (last - first), last + _AFTER * (last - first)
    step = time_step(end - start)
    if step >= _DAY:
        return _lay(start, end, step, day_text)
    axis = _lay(start, end, step, lambda moment: clock_text(moment, seconds=step < _MINUTE))
    days = [day_text(tick.at) for tick in axis.ticks]
    ticks = zip(axis.ticks, days, ["", *days], strict=False)
    return dataclasses.replace(
        axis, ticks=tuple(dataclasses.replace(tick, day="" if day == before else day) for tick, day, before in ticks)
    )


def number_axis(least: float, most: float, unit: Unit) -> Axis:
    """The axis for everything between two values, with ticks that are round in their unit."""
    low, high = (max(-_LARGEST, min(value / unit.factor, _LARGEST)) for value in (least, most))
    if low >= 0 and low <= _ZERO_SHARE * high:
        low = 0.0
    # Differences that do not matter shall not look large.
    room = (_NARROWEST * max(abs(low), abs(high)) - (high - low)) / 2 or (0.0 if high > low else 1.0)
    if room > 0:
        low, high = low - room, high + room
    margin = _MARGIN * (high - low)
    start, end = low if low == 0 else low - margin, high + margin
    power = 10.0 ** math.floor(math.log10((end - start) / MOST_NUMBERS))
    step = round_step(end - start, (power * times for times in (1, 2, 2.5, 5, 10)), MOST_NUMBERS)
    places = _decimals(step)
    return _lay(start, end, step, lambda number: f"{number:.{places}f}", unit.factor)


def fitting(texts: Sequence[str], width: float) -> str:
    """The first text for which a bar of so many percent of the axis has room, empty if none."""
    room = width / 100 * _AXIS_WIDTH - _TEXT_MARGIN
    return next((text for text in texts if len(text) * _LETTER_WIDTH <= room), "")


def time_step(span: float) -> float:
    """The distance between moments that people expect; a span of many years has steps of many years."""
    return round_step(span, itertools.chain(_TIME_STEPS, itertools.count(_YEAR, _YEAR)), MOST_MOMENTS)


def round_step(span: float, steps: Iterable[float], most: int) -> float:
    """The first of the round distances, given in their order, that does not give too many ticks."""
    return next(step for step in steps if span <= step * most)


def _lay(start: float, end: float, step: float, label: Callable[[float], str], factor: float = 1) -> Axis:
    """The axis with its ticks; start, end, step and labels are in units of the factor."""
    bare = Axis(start * factor, end * factor)
    counts = range(math.ceil(start / step - _SLACK), math.floor(end / step + _SLACK) + 1)
    numbers = [count * step for count in counts]
    ticks = tuple(Tick(number * factor, bare.place(number * factor), label(number)) for number in numbers)
    return dataclasses.replace(bare, ticks=ticks)


def _decimals(step: float) -> int:
    """How many digits behind the point make ticks of this distance differ."""
    return next(count for count in range(16) if math.isclose(step * 10**count, round(step * 10**count)))
