# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Durations as users write them: seconds, or 1h30m."""

from __future__ import annotations

import re

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def parse_duration(value: str | int | float, where: str) -> float:
    """Seconds; where names the option in a complaint."""
    text = str(value).strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", text):
        return float(text)
    if not _WHOLE.fullmatch(text):
        raise BadInput(
            "read", where, f"{text!r} is not a duration; give seconds, or hours, minutes, seconds as in 1h30m"
        )
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
