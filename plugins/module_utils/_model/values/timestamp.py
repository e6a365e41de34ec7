# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Points in time: RFC 3339 texts as the API server writes them, and seconds since 1970."""

from __future__ import annotations

import datetime
import functools
import re
import typing as t

_FORM = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[-+]\d\d:\d\d)")
# The longest text of this form; what others wrote is not remembered in any length.
_LONGEST = len("2026-01-01T00:00:00.000000000+00:00")
# The end of the year 9999, in seconds since 1970: later moments cannot be written.
LAST_MOMENT = 253_402_300_799.0
_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)


def read_micros(text: t.Any) -> int | None:
    """Microseconds since 1970 of an RFC 3339 text; None for anything else, since others may have written it."""
    return _micros_of(text) if isinstance(text, str) and len(text) <= _LONGEST else None


@functools.lru_cache(maxsize=4096)
def _micros_of(text: str) -> int | None:
    """The same of a text; servers write whole seconds, so that very many objects carry the same ones."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    offset = "+00:00" if zone in "Zz" else zone
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}.{(fraction or '')[:6]:0<6}{offset}")
        return (moment - _START) // _MICRO
    except (ValueError, OverflowError):
        return None


def read_time(text: t.Any) -> float | None:
    """Seconds since 1970 of an RFC 3339 text, None for anything else."""
    micros = read_micros(text)
    return None if micros is None else micros / 1_000_000


def time_text(seconds: float) -> str:
    """Whole seconds as Kubernetes writes a Time: 2026-01-01T00:00:00Z; a fraction is cut."""
    return f"{_START + datetime.timedelta(seconds=int(seconds // 1)):%Y-%m-%dT%H:%M:%SZ}"


def micro_time_text(micros: int) -> str:
    """Microseconds as Kubernetes writes a MicroTime: always six digits after the point."""
    return f"{_START + datetime.timedelta(microseconds=micros):%Y-%m-%dT%H:%M:%S.%fZ}"
