# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moments, durations and numbers as a reader would write them: times in UTC, values in a unit that suits them all."""

from __future__ import annotations

import dataclasses
import datetime
import math

from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import describe
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import LAST_MOMENT

# What is shown where nothing is known.
NOTHING = "–"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TIMES = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
# Seconds stay seconds up to ten minutes: 90 s is easier to compare than 1.5 min.
_ENOUGH = {"min": 10.0, "h": 3.0, "d": 3.0}
# From here on numbers of other units are shown in thousands, millions and so on.
_PREFIXED = 100_000.0
_SECONDS, _BYTES = ("s", "seconds"), ("B", "bytes")
_DIGITS = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """What values are divided by, and what is written behind them."""

    factor: float
    name: str

    def number(self, value: float) -> str:
        """A value without its unit, for where that stands already."""
        return number_text(value / self.factor)

    def text(self, value: float) -> str:
        """A value with its unit."""
        number = self.number(value)
        return f"{number} {self.name}" if self.name else number


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


def stretch_text(first: float, last: float) -> str:
    """From one moment to another, the day only once where it is the same."""
    same_day = day_text(first, year=True) == day_text(last, year=True)
    return f"{moment_text(first)} – {clock_text(last) if same_day else moment_text(last)}"


def duration_text(seconds: float) -> str:
    """A duration for people: its largest unit and the next smaller one."""
    whole = round(seconds)
    for unit, name, smaller, smaller_name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // smaller
            return f"{whole // unit} {name}" + (f" {rest} {smaller_name}" if rest else "")
    return f"{whole} s"


def unit_for(metric: str, largest: float, given: str | None = None) -> Unit:
    """The unit of a metric: seconds and bytes, given or taken from its name, in a size that suits; others as given."""
    name = metric.rpartition(".")[2]
    if given in _SECONDS or (not given and (name.endswith("_seconds") or name in ("seconds", "elapsed"))):
        return _largest(_TIMES, largest)
    if given in _BYTES or (not given and (name.endswith("_bytes") or name == "bytes")):
        return _largest(_SIZES, largest)
    if given:
        factor, prefix = next((entry for entry in _THOUSANDS if abs(largest) >= max(entry[0], _PREFIXED)), (1.0, ""))
        return Unit(factor, f"{prefix} {given}".strip())
    return _largest(_THOUSANDS, largest)


def number_text(number: float) -> str:
    """A number in a few digits that matter, never with an exponent unless it is out of all bounds."""
    if number == 0:
        return "0"
    if not math.isfinite(number):
        return "∞" if number > 0 else "−∞"
    size = math.floor(math.log10(abs(number)))
    if size >= 9 or size < -6:
        return f"{number:.{_DIGITS}g}"
    text = f"{number:.{max(0, _DIGITS - 1 - size)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def change_text(change: float) -> str:
    """A change in percent with its sign, as a typographer writes it."""
    text = f"{change:+.1f}"
    return f"{'0.0' if text in ('-0.0', '+0.0') else text.replace('-', '−')} %"


def counted(count: int, noun: str) -> str:
    """A number with its noun."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def percent(place: float) -> str:
    """A place along an axis, to a thousandth of its length in hundredths."""
    return f"{place:.3f}".rstrip("0").rstrip(".") + "%"


def _largest(units: tuple[tuple[float, str], ...], value: float) -> Unit:
    """The largest unit of which a value has enough; the smallest one for what is smaller still."""
    size = abs(value)
    for factor, name in units:
        if size >= factor * _ENOUGH.get(name, 1.0):
            return Unit(factor, name)
    return Unit(*units[-1]) if size else Unit(1.0, next(name for factor, name in units if factor == 1.0))


def amount_text(resource: str, amount: int) -> str:
    """A scaled amount as text; of "2924544 (2.8Mi)" the size is enough."""
    text = describe(resource, amount)
    return text.partition("(")[2].rstrip(")") or text


def _moment(moment: float) -> datetime.datetime:
    """A moment cut to whole seconds, in UTC."""
    return _START + datetime.timedelta(seconds=min(math.floor(moment), int(LAST_MOMENT)))
