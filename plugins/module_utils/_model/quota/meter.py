# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The meter of a leaf: resource-seconds of its gangs by month, user and namespace, and how far each gang is counted.

Sums hold everything that was counted, of gangs that still run too. What is open says until when; so a text of this is
whole by itself, and one write moves both together.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import typing as t
from collections.abc import Collection, Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import (
    NO_FLAVOR,
    FlavorResource,
    QuotaAmounts,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    Data,
    Fields,
    parse_json,
)

METER_PREFIX = "muster-usage-"
METER_LABEL = "muster.kube/usage"
METER_KEY = "usage.json"
METER_FORMAT = 1
# A ConfigMap holds 1 MiB; the rest is for its metadata.
METER_BYTES = 900 * 1024

_HASH_LENGTH = 16
_KEYS = ("format", "tree", "queue", "as_of", "owners", "amounts", "open", "sums", "recent")
_ENTRY_LENGTH = 4
_MONTH_LENGTH = len("2026-01")
# No meter has counted more of anything; what is larger was not written by us, and floats end somewhere.
_MOST = 2**128


class Owner(t.NamedTuple):
    """Whose usage it is; the user is empty where nobody is known."""

    user: str
    namespace: str


# Whose rows were put together because the text became too long.
FOLDED = Owner("", "")


class MeterRow(t.NamedTuple):
    """What sums are kept by."""

    month: str
    owner: Owner


@dataclasses.dataclass(frozen=True, slots=True)
class OpenGang:
    """A started gang that is counted until a moment (whole seconds since 1970), with what it had then.

    more holds what a later version wrote behind that, to be written back.
    """

    attempt: int
    until: int
    owner: Owner
    amounts: QuotaAmounts
    more: tuple[t.Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Meter:
    """What was counted for one leaf; no gang that is not open has anything before as_of that is still to be counted."""

    tree: str
    queue: str
    as_of: int = 0
    open: Mapping[str, OpenGang] = dataclasses.field(default_factory=dict)
    # Scaled amounts times seconds.
    sums: Mapping[MeterRow, QuotaAmounts] = dataclasses.field(default_factory=dict)
    # The same where what was used long ago counts less, as of as_of; only where queues are compared by that.
    recent: QuotaAmounts = dataclasses.field(default_factory=dict)
    unknown: Data = dataclasses.field(default_factory=dict, compare=False)

    @functools.cached_property
    def by_month(self) -> Mapping[str, QuotaAmounts]:
        """The sums of each month, whoever used them."""
        found: dict[str, dict[FlavorResource, int]] = {}
        for row, amounts in self.sums.items():
            add_amounts(found.setdefault(row.month, {}), amounts)
        return found


def add_amounts(total: dict[FlavorResource, int], more: QuotaAmounts, times: int = 1) -> None:
    """Add amounts, so many times, to a total in place."""
    for key, amount in more.items():
        if amount and times:
            total[key] = total.get(key, 0) + amount * times


def meter_name(tree: str, queue: str) -> str:
    """The ConfigMap that holds the meter of a leaf: names of queues may be longer than a name has room for."""
    return METER_PREFIX + hashlib.sha256(f"{tree}/{queue}".encode()).hexdigest()[:_HASH_LENGTH]


def meter_text(meter: Meter) -> str:
    """The text that is stored; where it is too long, users of the oldest months become one row each."""
    text = _text(meter)
    months = iter(sorted(meter.by_month))
    while len(text.encode()) > METER_BYTES:
        month = next(months, None)
        if month is None:
            size, what = len(text.encode()), f"the usage of {meter.tree}/{meter.queue}"
            raise BadInput("store", what, f"its text has {size} bytes of at most {METER_BYTES}; divide the queue")
        meter = _folded(meter, month)
        text = _text(meter)
    return text


def meter_from_text(text: t.Any, where: str) -> Meter:
    """The meter that a stored text holds; parts that others damaged count nothing.

    NewerVersion for a format that only a later version understands, BadInput when nothing can be read of it.
    """
    data = parse_json(text, where)
    try:
        _json(data).encode()
    except (ValueError, RecursionError) as error:
        raise BadInput("read", where, f"it could not be written again: {error}") from error
    fields = Fields(data, where)
    fields.require_format(METER_FORMAT)
    owners = [_owner(item) for item in _items(fields.get("owners"))]
    amounts = [_amounts(item) for item in _items(fields.get("amounts"))]
    held = fields.get("open")
    found = {uid: _entry(item, owners, amounts) for uid, item in (held if isinstance(held, Mapping) else {}).items()}
    as_of = fields.get("as_of")
    return Meter(
        tree=fields.required_text("tree"),
        queue=fields.required_text("queue"),
        as_of=as_of if _is_count(as_of) else 0,
        open={uid: entry for uid, entry in found.items() if entry is not None},
        sums=dict(_rows(fields.get("sums"), owners)),
        recent=_amounts(fields.get("recent")),
        unknown=fields.unknown(_KEYS),
    )


def _text(meter: Meter) -> str:
    """The text as it is; owners and amounts, which most gangs share, stand once."""
    owners = sorted({*(gang.owner for gang in meter.open.values()), *(row.owner for row in meter.sums)})
    places = {owner: place for place, owner in enumerate(owners)}
    kinds: dict[str, int] = {}
    held = {}
    for uid, gang in sorted(meter.open.items()):
        kind = kinds.setdefault(_json(_amounts_data(gang.amounts)), len(kinds))
        held[uid] = [gang.attempt, gang.until, places[gang.owner], kind, *gang.more]
    sums: dict[str, list[t.Any]] = {}
    for row, amounts in sorted(meter.sums.items()):
        sums.setdefault(row.month, []).append([places[row.owner], _amounts_data(amounts)])
    recent = {"recent": _amounts_data(meter.recent)} if meter.recent else {}
    return _json(
        {
            **meter.unknown,
            **recent,
            "format": METER_FORMAT,
            "tree": meter.tree,
            "queue": meter.queue,
            "as_of": meter.as_of,
            "owners": owners,
            "amounts": [json.loads(text) for text in kinds],
            "open": held,
            "sums": sums,
        }
    )


def _folded(meter: Meter, month: str) -> Meter:
    """The meter with all rows of a month in one."""
    sums = {row: amounts for row, amounts in meter.sums.items() if row.month != month}
    return dataclasses.replace(meter, sums={**sums, MeterRow(month, FOLDED): meter.by_month[month]})


def _json(data: t.Any) -> str:
    return json.dumps(data, separators=(",", ":"), sort_keys=True, allow_nan=False, ensure_ascii=False)


def _amounts_data(amounts: QuotaAmounts) -> Data:
    """Amounts by resource without flavors, else by flavor and resource."""
    data: Data = {}
    for key, amount in sorted(amounts.items()):
        home = data if key.flavor == NO_FLAVOR else data.setdefault(key.flavor, {})
        home[key.resource] = amount
    return data


def _amounts(value: t.Any) -> dict[FlavorResource, int]:
    """The same read back; whatever is no amount is left out."""
    found: dict[FlavorResource, int] = {}
    for name, amount in (value if isinstance(value, Mapping) else {}).items():
        if isinstance(amount, Mapping):
            found |= {FlavorResource(name, key): item for key, item in amount.items() if _is_count(item)}
        elif _is_count(amount):
            found[FlavorResource(NO_FLAVOR, name)] = amount
    return found


def _owner(value: t.Any) -> Owner | None:
    """Whose usage it is; None where nobody can tell."""
    if not isinstance(value, list) or len(value) != len(Owner._fields):
        return None
    return Owner(*value) if all(isinstance(item, str) for item in value) else None


def _entry(value: t.Any, owners: list[Owner | None], amounts: list[dict[FlavorResource, int]]) -> OpenGang | None:
    """One open gang; None where it makes no sense."""
    if not isinstance(value, list) or len(value) < _ENTRY_LENGTH or not all(map(_is_count, value[:_ENTRY_LENGTH])):
        return None
    attempt, until, owner, kind = value[:_ENTRY_LENGTH]
    whose = _at(owners, owner)
    return OpenGang(attempt, until, whose or FOLDED, _at(amounts, kind) or {}, tuple(value[_ENTRY_LENGTH:]))


def _rows(value: t.Any, owners: list[Owner | None]) -> Iterator[tuple[MeterRow, QuotaAmounts]]:
    """The sums; those of somebody who cannot be told are kept as nobody's."""
    found: dict[MeterRow, dict[FlavorResource, int]] = {}
    for month, rows in (value if isinstance(value, Mapping) else {}).items():
        for row in _items(rows) if len(month) == _MONTH_LENGTH else ():
            if isinstance(row, list) and len(row) == 2 and _is_count(row[0]):
                key = MeterRow(month, _at(owners, row[0]) or FOLDED)
                add_amounts(found.setdefault(key, {}), _amounts(row[1]))
    yield from found.items()


_T = t.TypeVar("_T")


def _at(items: Sequence[_T | None], place: int) -> _T | None:
    return items[place] if place < len(items) else None


def _items(value: t.Any) -> Collection[t.Any]:
    return value if isinstance(value, list) else ()


def _is_count(value: t.Any) -> t.TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST
