# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The axis of a metric: round numbers, places in percent of the width, and one unit that suits all values."""

from __future__ import annotations

import dataclasses
import math

MOST_TICKS = 8
# Room before the smallest and after the largest value, so that points at the ends are not cut.
_MARGIN = 0.04
# An axis that could begin at 0 does so when little room is lost.
_ZERO_SHARE = 0.35
_TIMES = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_THOUSANDS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
# Seconds stay seconds up to ten minutes: 90 s is easier to compare than 1.5 min.
_ENOUGH = {"min": 10.0, "h": 3.0, "d": 3.0}
# From here on numbers of other units are told in thousands, millions and so on.
_PREFIXED = 100_000.0
_SECONDS, _BYTES = ("s", "seconds"), ("B", "bytes")
_DIGITS = 4
# An axis spans at least this share of its values.
_NARROWEST = 0.02
# Beyond this there is nothing left to reckon with: a span of two such numbers would have no end.
_LARGEST = 1e300


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


@dataclasses.dataclass(frozen=True, slots=True)
class Tick:
    """A round number and where it is."""

    place: float
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Scale:
    """A stretch of numbers laid out from 0 to 100 percent."""

    start: float
    end: float
    unit: Unit
    ticks: tuple[Tick, ...]

    def place(self, value: float) -> float:
        """Where a value lies, in percent; what is outside is moved to the nearer end."""
        return 100 * min(1.0, max(0.0, (value - self.start) / (self.end - self.start)))


def build_scale(least: float, most: float, unit: Unit) -> Scale:
    """The axis for everything between two values."""
    low, high = (max(-_LARGEST, min(value / unit.factor, _LARGEST)) for value in (least, most))
    if low >= 0 and low <= _ZERO_SHARE * high:
        low = 0.0
    # Differences that do not matter shall not look large.
    room = (_NARROWEST * max(abs(low), abs(high)) - (high - low)) / 2 or (0.0 if high > low else 1.0)
    if room > 0:
        low, high = low - room, high + room
    span = high - low
    start = low if low == 0 else low - _MARGIN * span
    end = high + _MARGIN * span
    bare = Scale(start * unit.factor, end * unit.factor, unit, ())
    step = round_step(end - start)
    places = _decimals(step)
    ticks = []
    for count in range(math.ceil(start / step - 1e-9), math.floor(end / step + 1e-9) + 1):
        ticks.append(Tick(bare.place(count * step * unit.factor), f"{count * step:.{places}f}"))
    return dataclasses.replace(bare, ticks=tuple(ticks))


def round_step(span: float) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten that does not give too many ticks."""
    power = 10.0 ** math.floor(math.log10(span / MOST_TICKS))
    return next(power * times for times in (1, 2, 2.5, 5, 10) if span <= power * times * MOST_TICKS)


def _decimals(step: float) -> int:
    """How many digits behind the point tell ticks of this distance apart."""
    return next(count for count in range(16) if math.isclose(step * 10**count, round(step * 10**count)))


def unit_for(metric: str, largest: float, given: str | None = None) -> Unit:
    """The unit of a metric: seconds and bytes, given or told by its name, in a size that suits; others as given."""
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


def change_text(percent: float) -> str:
    """A change in percent with its sign, as a typographer writes it."""
    text = f"{percent:+.1f}"
    return f"{'0.0' if text in ('-0.0', '+0.0') else text.replace('-', '−')} %"


def _largest(units: tuple[tuple[float, str], ...], value: float) -> Unit:
    """The largest unit of which a value has enough; the smallest one for what is smaller still."""
    size = abs(value)
    for factor, name in units:
        if size >= factor * _ENOUGH.get(name, 1.0):
            return Unit(factor, name)
    return Unit(*units[-1]) if size else Unit(1.0, next(name for factor, name in units if factor == 1.0))
