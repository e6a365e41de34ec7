# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The batch as a text in which an entry takes few bytes, so that many gangs can be under way at once.

What entries have in common is written once, in tables: namespaces, terms (what was decided, by which commit, when),
demands (podsets without names) and podsets (names, with ~g where the gang's own name stands). An entry is one text: the
uid in 22 characters, the rows of the four tables in two characters each, the gang's name. References are of one
length, so that the size of the whole is a sum, whatever stands where. An entry with a uid of another kind, or with keys
that are not known here, is a list: the text without uid, the uid, the keys. A later version adds to an entry by such
keys only.
"""

from __future__ import annotations

import base64
import collections
import functools
import json
import re
import typing as t
import zlib
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    OPS,
    Batch,
    Entry,
    Op,
    demand_digest,
    demand_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    INT32,
    Data,
    Fields,
    canonical_json,
)

COMPACT_FORMAT = 2
LATEST = 2**53
# As many as two characters can tell apart.
MOST_ROWS = 64**2

_TABLES = ("namespaces", "terms", "demands", "podsets")
_KEYS = ("format", "id", "epoch", *_TABLES, "entries", "sum", "unlisted_since", "quota")
_TERMS = ("op", "attempt", "shared", "batch", "at", "patience", "queue")
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UID_LENGTH = 22
_REFERENCE = 2
_NOWHERE = (0,) * len(_TABLES)


def compact_text(batch: Batch) -> str:
    """The annotation's text."""
    tables: list[dict[str, int]] = [{} for _name in _TABLES]
    demands = functools.cache(lambda digest: demand_text(batch.demands[digest]))
    entries = []
    for entry in batch.entries:
        rows = _rows(batch.id, entry, demands(entry.demand_digest))
        places = [table.setdefault(row, len(table)) for table, row in zip(tables, rows, strict=True)]
        entries.append(_entry_text(entry, places))
    return _joined(batch, [*tables, entries])


def _joined(batch: Batch, parts: Iterable[Iterable[str]]) -> str:
    """One text of the tables and the entries.

    It has a checksum, since a change in a table would give another sense to entries elsewhere.
    """
    # Keys that were unknown in an earlier format may have got a meaning.
    unknown = {key: value for key, value in batch.unknown.items() if key not in _KEYS}
    data = {**unknown, "format": COMPACT_FORMAT, "id": batch.id, "epoch": batch.epoch}
    data |= notes_data(batch)
    lists = [f"[{','.join(part)}]" for part in parts]
    named = ",".join(f'"{name}":{text}' for name, text in zip((*_TABLES, "entries"), lists, strict=True))
    first = json.dumps(data, separators=(",", ":"), allow_nan=False)[:-1]
    checksum = _checksum(f"[{canonical_json(batch.id)},{','.join(lists)}]")
    return f'{first},{named},"sum":"{checksum}"}}'


def notes_data(batch: Batch) -> Data:
    """What a batch says besides its entries, in either format.

    The digest of the quota trees stands beside the id of its commit: an earlier version, which does not know it,
    carries it on under other ids, and then it means nothing.
    """
    since = {"unlisted_since": batch.unlisted_since} if batch.unlisted_since else {}
    return {**since, **({"quota": [batch.id, batch.quota]} if batch.quota else {})}


def read_quota(fields: Fields, batch_id: str) -> str:
    """The digest of the quota trees that this commit was decided on; empty where it does not tell."""
    told = fields.get("quota")
    known = isinstance(told, list) and len(told) == 2 and told[0] == batch_id and isinstance(told[1], str)
    return told[1] if known else ""


class CompactSize:
    """How long the text of a batch is to which entries are added and from which they are taken."""

    def __init__(self, empty: Batch) -> None:
        """Start with a batch without entries, of which the rest stays as it is."""
        self._id = empty.id
        self._bare = len(_joined(empty, [()] * (len(_TABLES) + 1)))
        self._uses: list[collections.Counter[str]] = [collections.Counter() for _name in _TABLES]
        # The bytes of each table, then of the entries, with a comma after each.
        self._bytes = [0] * (len(_TABLES) + 1)

    @property
    def total(self) -> int:
        """The length of the text; no comma follows the last of a list."""
        return self._bare + sum(size - 1 for size in self._bytes if size)

    @property
    def fits_tables(self) -> bool:
        """Whether every row can be referred to."""
        return all(len(uses) <= MOST_ROWS for uses in self._uses)

    def alone(self, entry: Entry, demand: str) -> int:
        """The length of the text if it held this entry only."""
        return self._bare + sum(map(len, _rows(self._id, entry, demand))) + len(_entry_text(entry, _NOWHERE))

    def add(self, entry: Entry, demand: str) -> None:
        """Count an entry; demand is the text of what it asks for."""
        for table, row in enumerate(_rows(self._id, entry, demand)):
            if not self._uses[table][row]:
                self._bytes[table] += len(row) + 1
            self._uses[table][row] += 1
        self._bytes[-1] += len(_entry_text(entry, _NOWHERE)) + 1

    def remove(self, entry: Entry, demand: str) -> None:
        """Do not count an entry any more that was added, nor what only it refers to."""
        for table, row in enumerate(_rows(self._id, entry, demand)):
            self._uses[table][row] -= 1
            if not self._uses[table][row]:
                del self._uses[table][row]
                self._bytes[table] -= len(row) + 1
        self._bytes[-1] -= len(_entry_text(entry, _NOWHERE)) + 1


def _rows(batch_id: str, entry: Entry, demand: str) -> tuple[str, ...]:
    """What an entry needs in each table, as texts."""
    terms = _terms_text(batch_id, entry.batch, (entry.op, entry.attempt), (entry.at, entry.patience), entry.queue)
    return canonical_json(entry.namespace), terms, demand, _names_text(entry.podsets, entry.name)


@functools.lru_cache(maxsize=4096)
def _names_text(podsets: tuple[str, ...], gang: str) -> str:
    """The names of podsets; kept, since an entry that stays open is written in every commit."""
    return canonical_json([_without_gang(name, gang) for name in podsets])


@functools.lru_cache(maxsize=256)
def _terms_text(batch_id: str, commit: str, what: tuple[Op, int], when: tuple[int, int], queue: str | None) -> str:
    """What was decided, by which commit and when; many entries of a batch have the same.

    Of the commit's id only that is written in which it differs from the batch's.
    """
    shared = _shared_length(batch_id, commit)
    return canonical_json([*what, shared, commit[shared:], *when, *([] if queue is None else [queue])])


def _entry_text(entry: Entry, places: Iterable[int]) -> str:
    """One entry with the places of its rows."""
    references = "".join(_DIGITS[place // 64] + _DIGITS[place % 64] for place in places)
    more = {**entry.unknown, **({"abandoned": True} if entry.abandoned else {})}
    if more or not _UUID.fullmatch(entry.uid):
        return canonical_json([references + entry.name, entry.uid, *([more] if more else [])])
    uid = base64.b64encode(bytes.fromhex(entry.uid.replace("-", "")), b"-_")[:_UID_LENGTH].decode()
    return canonical_json(uid + references + entry.name)


def _shared_length(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _without_gang(name: str, gang: str) -> str:
    """A podset's name with ~g for the gang's, so that gangs of one kind have the same; a plain ~ is doubled."""
    begin = name.find(gang)
    while begin >= 0:
        end = begin + len(gang)
        if not name[begin - 1 : begin].isalnum() and not name[end : end + 1].isalnum():
            return f"{_escaped(name[:begin])}~g{_escaped(name[end:])}"
        begin = name.find(gang, begin + 1)
    return _escaped(name)


def _escaped(text: str) -> str:
    return text.replace("~", "~~")


def _with_gang(text: str, gang: str) -> str:
    """The name of which this was made."""
    return re.sub("~([~g])", lambda found: gang if found[1] == "g" else "~", text)


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


class _Tables(t.NamedTuple):
    """What was read of the tables."""

    namespaces: list[str]
    terms: list[Data]
    demands: list[tuple[str, tuple[Data, ...]]]
    podsets: list[list[str]]


def compact_batch(fields: Fields) -> Batch:
    """A batch from decoded JSON; BadInput when any part has the wrong form."""
    batch_id, epoch = fields.required_text("id"), fields.required_text("epoch")
    lists = [_needed_list(fields, name) for name in (*_TABLES, "entries")]
    if _checksum_of([batch_id, *lists]) != fields.get("sum"):
        raise fields.fail("sum", "it is not that of the entries")
    tables = _Tables(
        [_namespace(fields, index, item) for index, item in enumerate(lists[0])],
        [_terms(fields, batch_id, index, item) for index, item in enumerate(lists[1])],
        [_demand(fields, index, item) for index, item in enumerate(lists[2])],
        [_names(fields, index, item) for index, item in enumerate(lists[3])],
    )
    entries = tuple(_entry(fields, f"entries[{index}]", item, tables) for index, item in enumerate(lists[4]))
    since = fields.whole("unlisted_since", 0, LATEST)
    quota = read_quota(fields, batch_id)
    return Batch(batch_id, epoch, entries, dict(tables.demands), fields.unknown(_KEYS), since, quota)


def _checksum_of(value: t.Any) -> str | None:
    """The checksum of decoded JSON; None for what we could not have written."""
    try:
        return _checksum(canonical_json(value))
    except (ValueError, RecursionError):
        return None


def _needed_list(fields: Fields, name: str) -> list[t.Any]:
    """A list that must be there."""
    if not isinstance(fields.get(name), list):
        raise fields.fail(name, "a list is needed")
    return fields.sequence(name)


def _namespace(fields: Fields, index: int, item: t.Any) -> str:
    """One row of the namespaces."""
    if not isinstance(item, str) or not item:
        raise fields.fail(f"namespaces[{index}]", f"a text is needed, not {item!r}")
    return item


def _terms(fields: Fields, batch_id: str, index: int, item: t.Any) -> Data:
    """One row of the terms, as what an entry is made of; an op that is none of ours is one of a newer version."""
    where = f"terms[{index}]"
    if not isinstance(item, list) or not len(_TERMS) - 1 <= len(item) <= len(_TERMS):
        raise fields.fail(where, f"a list of {', '.join(_TERMS)} is needed")
    row = Fields(dict(zip(_TERMS, item, strict=False)), f"{fields.where}: {where}")
    rest = row.get("batch")
    if not isinstance(rest, str):
        raise row.fail("batch", f"a text is needed, not {rest!r}")
    return {
        "op": read_op(row),
        "attempt": row.whole("attempt", 0, INT32 - 1, required=True),
        "batch": batch_id[: row.whole("shared", 0, len(batch_id), required=True)] + rest or batch_id,
        "at": row.whole("at", 0, LATEST, required=True),
        "patience": row.whole("patience", 0, LATEST, required=True),
        "queue": row.text("queue"),
    }


def _demand(fields: Fields, index: int, item: t.Any) -> tuple[str, tuple[Data, ...]]:
    """One row of the demands with its digest."""
    if not isinstance(item, list) or not all(isinstance(podset, dict) for podset in item):
        raise fields.fail(f"demands[{index}]", "a list of podsets is needed")
    return demand_digest(item), tuple(item)


def _names(fields: Fields, index: int, item: t.Any) -> list[str]:
    """One row of the podsets."""
    if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
        raise fields.fail(f"podsets[{index}]", "a list of names is needed")
    return item


def _entry(fields: Fields, where: str, item: t.Any, tables: _Tables) -> Entry:
    """One entry from its text, or from the list that it is where more is to be said."""
    text, uid, more = _parts(fields, where, item)
    references, name = text[: len(_TABLES) * _REFERENCE], text[len(_TABLES) * _REFERENCE :]
    if not name:
        raise fields.fail(where, "the name is missing")
    try:
        first, second, third, last = (
            _VALUES[high] * 64 + _VALUES[low] for high, low in zip(references[::2], references[1::2], strict=True)
        )
        namespace, terms, names = tables.namespaces[first], tables.terms[second], tables.podsets[last]
        digest, podsets = tables.demands[third]
    except (KeyError, IndexError) as error:
        raise fields.fail(where, f"{references!r} are no rows of the tables") from error
    if names and len(names) != len(podsets):
        raise fields.fail(where, "it has not as many names as podsets")
    return Entry(
        namespace=namespace,
        name=name,
        uid=uid,
        podsets=tuple(_with_gang(text, name) for text in names),
        demand_digest=digest,
        abandoned=more.get("abandoned") is True,
        unknown={key: value for key, value in more.items() if key != "abandoned"},
        **terms,
    )


def _parts(fields: Fields, where: str, item: t.Any) -> tuple[str, str, Mapping[str, t.Any]]:
    """The text of an entry without its uid, the uid, and what else is said of it."""
    if isinstance(item, str):
        return item[_UID_LENGTH:], _long_uid(fields, where, item[:_UID_LENGTH]), {}
    if not isinstance(item, list) or not 2 <= len(item) <= 3:
        raise fields.fail(where, "a text, or a list of a text, a uid and a mapping is needed")
    text, uid, more = item[0], item[1], item[2] if len(item) == 3 else {}
    if not isinstance(text, str) or not isinstance(uid, str) or not uid or not isinstance(more, Mapping):
        raise fields.fail(where, "a text, or a list of a text, a uid and a mapping is needed")
    return text, uid, more


def _long_uid(fields: Fields, where: str, short: str) -> str:
    """The uid that 22 characters stand for."""
    try:
        digits = base64.b64decode(f"{short}==", altchars=b"-_", validate=True).hex()
    except ValueError as error:
        raise fields.fail(where, f"{short!r} is no uid") from error
    if len(digits) != 32:
        raise fields.fail(where, f"{short!r} is no uid")
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def read_op(fields: Fields) -> Op:
    """What was decided; a word that is none of ours is one of a newer version."""
    word = fields.required_text("op")
    for known in OPS:
        if word == known:
            return known
    raise NewerVersion("read", f"{fields.where}: op", f"this version knows no {word!r}")
