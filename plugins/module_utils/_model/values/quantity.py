# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kubernetes quantities as exact integers of nano-units, and the texts the API server gives back for them."""

from __future__ import annotations

import functools
import math
import re
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

Form = t.Literal["decimal", "binary", "exponent"]

NANO = 10**9
MILLI_IN_NANO = 10**6

_GRAMMAR = re.compile(r"([+-]?)([0-9]*)(\.?)([0-9]*)(.*)", re.DOTALL)
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]+)")
_DECIMAL_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES = {power: suffix for suffix, power in _DECIMAL_POWERS.items()}
_BINARY_POWERS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES = ("", *_BINARY_POWERS)

# Binary amounts stop at the largest signed 64 bit number, as in Kubernetes; decimal ones have no cap there.
_BINARY_CAP = (2**63 - 1) * NANO
# Larger numbers are mistakes, and 10**(10**9) would eat all memory.
_MAX_EXPONENT = 1000
# Kubernetes keeps a text as it was written when it decodes quickly: up to 18 decimal digits, or up to this many digits
# before a binary suffix.
_FAST_DECIMAL_DIGITS = 18
_FAST_BINARY_DIGITS = {10: 11, 20: 8, 30: 5, 40: 2, 50: -1, 60: -1}

_BYTE_RESOURCES = frozenset({"memory", "ephemeral-storage", "storage"})


class _Parsed(t.NamedTuple):
    """A decoded text: its exact amount, its form, and whether the API server would keep the text unchanged."""

    nanos: int
    form: Form
    kept: bool
    fraction_power: int


def parse_quantity(value: str | int | float) -> int:
    """The exact amount in nano-units; digits below nano round away from zero, as in Kubernetes."""
    return _decode(_as_text(value)).nanos


def stored_quantity(value: str | int | float) -> int:
    """The amount in nano-units that the API server stores in a resource list, where it rounds up to milli-units."""
    return _round_away(_decode(_as_text(value)).nanos, MILLI_IN_NANO)


def canonical(value: str | int | float, *, in_resource_list: bool = False) -> str:
    """The text the API server returns for this quantity, in the form (decimal, binary, exponent) it was written in.

    Kubernetes hands back a text that already has the right shape as it is, signs and leading zeros included. In
    resource lists (requests, limits, capacity, hard) the server also rounds up to milli-units: in_resource_list.
    """
    text = _as_text(value)
    parsed = _decode(text)
    nanos = _round_away(parsed.nanos, MILLI_IN_NANO) if in_resource_list else parsed.nanos
    if parsed.kept and (not in_resource_list or parsed.fraction_power >= -3):
        return text
    return format_quantity(nanos, parsed.form)


def format_quantity(nanos: int, form: Form = "decimal") -> str:
    """The canonical text: no fraction and the largest suffix that loses nothing."""
    if nanos == 0:
        return "0"
    if form == "binary" and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        return _binary_text(nanos // NANO)
    amount, power = nanos, -9
    # Decimal texts use the ten known suffixes only; exponents have no end.
    while amount % 1000 == 0 and (form == "exponent" or power < 18):
        amount, power = amount // 1000, power + 3
    if form == "exponent":
        return f"{amount}e{power}" if power else str(amount)
    return f"{amount}{_DECIMAL_SUFFIXES[power]}"


def scaled(resource: str, nanos: int) -> int:
    """What kube-scheduler counts: milli-units of cpu, whole units of everything else, rounded away from zero."""
    unit = MILLI_IN_NANO if resource == "cpu" else NANO
    return _round_away(nanos, unit) // unit


def unscaled(resource: str, amount: int) -> int:
    """The nano-units of a scaled amount, to write it as a quantity again."""
    return amount * (MILLI_IN_NANO if resource == "cpu" else NANO)


@functools.lru_cache(maxsize=65536)
def quantity_text(resource: str, amount: int) -> str:
    """The canonical quantity of a scaled amount; bytes get a binary suffix unless a decimal one is shorter (2G)."""
    nanos = unscaled(resource, amount)
    decimal = format_quantity(nanos)
    binary = format_quantity(nanos, "binary") if counts_bytes(resource) else decimal
    return binary if len(binary) <= len(decimal) else decimal


def amount_text(resource: str, nanos: int) -> str:
    """The same of nano-units, which may be a fraction of what is counted."""
    amount, fraction = divmod(nanos, unscaled(resource, 1))
    return format_quantity(nanos) if fraction else quantity_text(resource, amount)


def describe(resource: str, amount: int) -> str:
    """A scaled amount for people: '1050m', '2', or for bytes the exact number with a readable size beside it."""
    if resource == "cpu":
        return format_quantity(amount * MILLI_IN_NANO) if amount % 1000 else str(amount // 1000)
    if not counts_bytes(resource) or abs(amount) < 1024:
        return str(amount)
    return f"{amount} ({_readable_bytes(amount)})"


def counts_bytes(resource: str) -> bool:
    """Whether a resource is measured in bytes, also under ResourceQuota's prefixes requests. and limits."""
    name = resource.removeprefix("requests.").removeprefix("limits.")
    return name in _BYTE_RESOURCES or name.startswith("hugepages-")


def _readable_bytes(amount: int) -> str:
    """A size in the largest binary unit below it; exact when it divides, else one decimal."""
    power = min((abs(amount).bit_length() - 1) // 10, len(_BINARY_SUFFIXES) - 1)
    unit = 1024**power
    if amount % unit == 0:
        return f"{amount // unit}{_BINARY_SUFFIXES[power]}"
    tenths = (abs(amount) * 10 + unit // 2) // unit
    sign = "-" if amount < 0 else ""
    whole, tenth = divmod(tenths, 10)
    return f"{sign}{whole}.{tenth}{_BINARY_SUFFIXES[power]}" if tenth else f"{sign}{whole}{_BINARY_SUFFIXES[power]}"


def _as_text(value: object) -> str:
    """The text the API server would read: numbers arrive as their JSON form."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadInput("read", f"quantity {value!r}", f"a text or a number is needed, this is a {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput("read", f"quantity {value!r}", "it is not a finite number")
    return repr(float(value)) if isinstance(value, float) else str(int(value))


@functools.lru_cache(maxsize=65536)
def _decode(text: str) -> _Parsed:
    """Read one text by the documented grammar: sign, digits with an optional point, suffix."""
    found = _GRAMMAR.fullmatch(text)
    if found is None or not found[2] + found[4]:
        raise BadInput("read", f"quantity {text!r}", "it does not begin with a number, such as 2, 1.5 or 500m")
    sign, digits, fraction, suffix = found[1], found[2].lstrip("0") or "0", found[4], found[5]
    if len(digits) + len(fraction) > _MAX_EXPONENT:
        raise BadInput("read", f"quantity {text[:40]!r}...", f"it has more than {_MAX_EXPONENT} digits")
    if suffix in _BINARY_POWERS:
        parsed = _decode_binary(digits, fraction, _BINARY_POWERS[suffix])
    elif suffix in _DECIMAL_POWERS:
        parsed = _decode_decimal(digits, fraction, _DECIMAL_POWERS[suffix], "decimal")
    else:
        parsed = _decode_decimal(digits, fraction, _exponent(text, suffix), "exponent")
    return parsed._replace(nanos=-parsed.nanos) if sign == "-" else parsed


def _exponent(text: str, suffix: str) -> int:
    """The power of ten after e or E; anything else is no suffix of Kubernetes."""
    found = _EXPONENT.fullmatch(suffix)
    if found is None:
        known = ", ".join([*filter(None, _DECIMAL_POWERS), *_BINARY_POWERS])
        raise BadInput(
            "read", f"quantity {text!r}", f"unknown suffix {suffix!r}; known are {known} and exponents like e3"
        )
    if len(found[1]) > 6 or abs(int(found[1])) > _MAX_EXPONENT:
        raise BadInput("read", f"quantity {text!r}", f"the exponent {found[1]} is out of range")
    return int(found[1])


def _decode_decimal(digits: str, fraction: str, power: int, form: Form) -> _Parsed:
    """An amount with a decimal suffix or exponent; written canonically when it reads back from whole thousands."""
    shifted = digits + fraction
    scale = power - len(fraction)
    nanos = _shift(int(shifted), scale + 9)
    quick = len(shifted) <= _FAST_DECIMAL_DIGITS and scale >= -9
    kept = quick and scale % 3 == 0 and not shifted.endswith("000") and shifted[0] != "0"
    return _Parsed(nanos, form, kept, scale)


def _decode_binary(digits: str, fraction: str, power: int) -> _Parsed:
    nanos = min(_shift(int(digits + fraction) << power, 9 - len(fraction)), _BINARY_CAP)
    quick = not fraction and len(digits) <= _FAST_BINARY_DIGITS[power]
    return _Parsed(nanos, "binary", quick and int(digits) % 8 != 0, 0)


def _shift(amount: int, power: int) -> int:
    """Multiply an amount that is not negative by a power of ten, rounding up."""
    factor: int = 10 ** abs(power)
    return amount * factor if power >= 0 else -(-amount // factor)


def _round_away(nanos: int, unit: int) -> int:
    """The nearest multiple of unit that is not smaller in magnitude."""
    return -(-nanos // unit) * unit if nanos >= 0 else nanos // unit * unit


def _binary_text(amount: int) -> str:
    """Whole units with the largest binary suffix that divides them."""
    power = 0
    while amount % 1024 == 0 and power < len(_BINARY_SUFFIXES) - 1:
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY_SUFFIXES[power]}"
