# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting what gangs use: each second of each gang once, whoever counts it and how often.

A gang that is open in the meter is counted from where it was left; any other from its start, but never from before the
moment up to which the meter has counted everything. So whatever was written once is not counted again, and what was
not written is counted by whoever comes next.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
from collections.abc import Collection, Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES, GangState
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    Meter,
    MeterRow,
    OpenGang,
    Owner,
    add_amounts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    FlavorResource,
    Period,
    QuotaAmounts,
    QuotaTree,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.flavors import charged_amounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.decay import decayed, weighted_seconds

_MONTHS: dict[Period, int] = {"month": 1, "quarter": 3, "year": 12}


@dataclasses.dataclass(frozen=True, slots=True)
class Sighting:
    """An attempt of a gang in a leaf, seen from one moment to another (whole seconds since 1970).

    An open one was started when it was last seen; any other had ended, or was gone.
    """

    uid: str
    attempt: int
    owner: Owner
    amounts: QuotaAmounts
    since: int
    until: int
    open: bool = True


def accrue(
    meter: Meter,
    sightings: Iterable[Sighting],
    now: int,
    left_alone: Collection[str] = (),
    half_life: float | None = None,
) -> Meter:
    """The meter with all that these sightings tell, as of now; what it has counted before is not counted again.

    Sightings must be all there are of this leaf. An open gang without any is gone, and closed where it was left; those
    left alone stay as they are. With a half-life it is also counted what was used lately.
    """
    held = {uid: meter.open[uid] for uid in left_alone if uid in meter.open}
    sums: dict[MeterRow, dict[FlavorResource, int]] = {}
    latest = 0
    used: list[tuple[int, int, QuotaAmounts]] = []
    for seen in sightings:
        if seen.uid in left_alone:
            continue
        latest = max(latest, seen.until)
        known = meter.open.get(seen.uid)
        known = known if known is not None and known.attempt == seen.attempt else None
        # Whose it is was decided when it was first counted, whatever its record says by now.
        owner = seen.owner if known is None else known.owner
        begin = max(seen.since, meter.as_of if known is None else known.until)
        for month, seconds in seconds_by_month(begin, seen.until):
            add_amounts(sums.setdefault(MeterRow(month, owner), {}), seen.amounts, seconds)
        used.append((begin, seen.until, seen.amounts))
        if seen.open:
            more = () if known is None else known.more
            held[seen.uid] = OpenGang(seen.attempt, max(begin, seen.until), owner, seen.amounts, more)
    totals = dict(meter.sums)
    for row, amounts in sums.items():
        if amounts:
            total = dict(totals.get(row, {}))
            add_amounts(total, amounts)
            totals[row] = total
    as_of = max(meter.as_of, now, latest)
    recent = {} if half_life is None else used_lately(meter, used, as_of, half_life)
    return dataclasses.replace(meter, as_of=as_of, open=held, sums=totals, recent=recent)


def used_lately(
    meter: Meter, used: Iterable[tuple[int, int, QuotaAmounts]], now: int, half_life: float
) -> dict[FlavorResource, int]:
    """What a meter has counted by the weight of its seconds as of now, with what was used besides."""
    total = decayed(meter.recent, now - meter.as_of, half_life)
    for begin, end, amounts in used:
        seconds = weighted_seconds(begin, end, now, half_life)
        add_amounts(total, {key: math.floor(amount * seconds) for key, amount in amounts.items()})
    return total


def seconds_by_month(begin: int, end: int) -> Iterator[tuple[str, int]]:
    """How much of an interval lies in which month (UTC)."""
    while begin < end:
        first = _month(begin)
        after = min(end, _seconds(_later(first, 1)))
        yield f"{first:%Y-%m}", after - begin
        begin = after


def period_of(now: float, period: Period) -> tuple[tuple[str, ...], int]:
    """The months of the period that is now, and when it ends, in seconds since 1970."""
    length, month = _MONTHS[period], _month(int(now))
    first = month.replace(month=(month.month - 1) // length * length + 1)
    return tuple(f"{_later(first, turn):%Y-%m}" for turn in range(length)), _seconds(_later(first, length))


def metered_amounts(
    tree: QuotaTree, demands: Mapping[str, Mapping[str, int]], flavors: Mapping[str, str]
) -> dict[FlavorResource, int]:
    """What is counted of a gang: all that the tree counts, and what has a budget or a price besides."""
    budgets = {name for queue in tree.queues if queue.budget is not None for name in queue.budget.hours}
    prices = {key.resource for key in tree.settings.prices}
    return charged_amounts(tree, demands, flavors, {*tree.resources, *budgets, *prices})


def began_at(state: GangState) -> float | None:
    """When the start that a state tells of began; None where it does not tell."""
    first = None
    for item in reversed(state.transitions):
        if item.phase not in STARTED_PHASES:
            break
        first = item
    return (read_time(first.at) if first is not None else None) or read_time(state.started_at)


def left_at(state: GangState) -> float | None:
    """When nothing was left of the last start that is over; None where nobody can tell."""
    items = list(state.transitions)
    while state.phase in STARTED_PHASES and items and items[-1].phase in STARTED_PHASES:
        items.pop()
    first = None
    while items and items[-1].phase not in STARTED_PHASES:
        first = items.pop()
    # Without a start before it, it was never started as far as is known.
    return read_time(first.at) if first is not None and items else None


def _month(seconds: int) -> datetime.datetime:
    """The first moment of the month that a second is in."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _later(month: datetime.datetime, months: int) -> datetime.datetime:
    """The first moment of a month, so many months later."""
    years, place = divmod(month.month - 1 + months, 12)
    return month.replace(year=month.year + years, month=place + 1)


def _seconds(moment: datetime.datetime) -> int:
    return int(moment.timestamp())
