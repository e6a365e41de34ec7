# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Resource-seconds as people read them: hours of one unit, which is a GiB of what is counted in bytes, and money."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    FlavorResource,
    QuotaAmounts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import NANO, counts_bytes, unscaled

HOUR = 3600
_GIB = 2**30
_DIGITS = 1000


def unit_hours(resource: str, used: int) -> Fraction:
    """A scaled amount times seconds as hours of one unit, exactly."""
    return Fraction(unscaled(resource, used), HOUR * NANO * (_GIB if counts_bytes(resource) else 1))


def hours_text(resource: str, used: int) -> str:
    """The same for people, with at most three digits after the point, rounded down."""
    return decimal_text(unit_hours(resource, used))


def hours_words(resource: str) -> str:
    """What the hours are of."""
    return f"GiB hours of {resource}" if counts_bytes(resource) else f"hours of {resource}"


def hours_data(amounts: QuotaAmounts) -> Data:
    """Hours by resource without flavors, else by flavor and resource."""
    data: Data = {}
    for key, used in sorted(amounts.items()):
        home = data if key.flavor == NO_FLAVOR else data.setdefault(key.flavor, {})
        home[key.resource] = hours_text(key.resource, used)
    return data


def cost_text(prices: Mapping[FlavorResource, Fraction], amounts: QuotaAmounts) -> str | None:
    """What amounts cost together; None where nothing has a price."""
    if not prices:
        return None
    return decimal_text(
        sum(
            (prices[key] * unit_hours(key.resource, used) for key, used in amounts.items() if key in prices), Fraction()
        )
    )


def decimal_text(number: Fraction) -> str:
    """A number that is not negative, with at most three digits after the point, rounded down."""
    whole, rest = divmod(number.numerator * _DIGITS // number.denominator, _DIGITS)
    return f"{whole}.{rest:03d}".rstrip("0").rstrip(".")
