# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The batch: what was decided and is not over yet, written into the Lease before anything is carried out.

Each commit adds what one cycle decided and leaves out what is over, so whoever holds the Lease next sees every promise,
also those made in namespaces it may not read. Earlier versions wrote one cycle's decisions only; both can be read by
both.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    INT32,
    Data,
    Fields,
    canonical_json,
    parse_json,
)

Op = t.Literal["start", "stop", "evict", "resize"]
Demand = Sequence[Mapping[str, t.Any]]

OPS: tuple[Op, ...] = t.get_args(Op)
BATCH_ANNOTATION = "muster.kube/batch"
BATCH_BYTES = 128 * 1024
# Starts leave some room: what is to be stopped must never wait for others to be bound first.
START_BYTES = BATCH_BYTES * 7 // 8
BATCH_FORMAT = 1

_WHERE = f"annotation {BATCH_ANNOTATION}"
_KEYS = ("format", "id", "epoch", "entries", "demands", "unlisted_since")
_ENTRY_KEYS = (
    *("op", "namespace", "name", "uid", "attempt", "digest"),
    *("demand", "queue", "abandoned", "batch", "at", "patience"),
)
_LATEST = 2**53


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One decision about one gang, open until its pods are bound or it is undone.

    batch is the id of the commit that added it, at the server's time of that commit in seconds (0: nobody knows),
    patience for how many seconds whoever made it lets a start take (0: nobody knows). An
    abandoned entry, which only earlier versions write, is over although its record could not be written. unknown holds
    keys of a later version.
    """

    op: Op
    namespace: str
    name: str
    uid: str
    attempt: int
    digest: str
    queue: str | None = None
    demand_digest: str = ""
    abandoned: bool = False
    batch: str = ""
    at: int = 0
    patience: int = 0
    unknown: Data = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """All open entries; demands holds the podsets of the entries, equal ones once, by their digest.

    unlisted_since is set where an earlier batch was damaged: promises of before that moment (seconds on the server's
    clock) may be missing. 0: none are.
    """

    id: str
    epoch: str
    entries: tuple[Entry, ...]
    demands: Mapping[str, tuple[Data, ...]]
    unknown: Data = dataclasses.field(default_factory=dict)
    unlisted_since: int = 0

    def demand_of(self, entry: Entry) -> tuple[Data, ...]:
        """The podsets an entry reserves while it is open."""
        return self.demands[entry.demand_digest]


def demand_digest(podsets: Demand) -> str:
    """A fingerprint of podsets; equal demands have equal ones."""
    return hashlib.sha256(_demand_text(podsets).encode()).hexdigest()[:32]


def keep_entries(batch: Batch, entries: Iterable[Entry]) -> Batch:
    """The batch with these of its entries only, and the demands they need."""
    kept = tuple(entries)
    return dataclasses.replace(batch, entries=kept, demands={e.demand_digest: batch.demand_of(e) for e in kept})


def pack(
    entries: Iterable[tuple[Entry, Demand]], epoch: str, batch_id: str, carried: Batch | None = None
) -> tuple[Batch, list[tuple[Entry, Demand]]]:
    """The open entries of before with as many new ones as one annotation holds, in order, and the rest for later.

    One gang has one entry at most: a new one takes the place of the open one, a second new one waits. An entry that
    could not even fit alone waits too, but does not hold up those behind it. The last part is for stops only. Whoever
    packs knows what was promised before, so unlisted_since is not carried on.
    """
    packing = _Packing(batch_id, epoch, carried)
    surplus = [(entry, podsets) for entry, podsets in entries if not packing.add(entry, podsets)]
    return packing.batch(), surplus


class _Packing:
    """A batch that grows as long as its text fits."""

    def __init__(self, batch_id: str, epoch: str, carried: Batch | None) -> None:
        """What is carried over was in the annotation before, so it fits."""
        unknown = carried.unknown if carried is not None else {}
        self._empty = Batch(batch_id, epoch, (), {}, unknown)
        self._alone = len(batch_text(self._empty))
        self._entries = {entry.uid: entry for entry in carried.entries} if carried is not None else {}
        self._demands = dict(carried.demands) if carried is not None else {}
        self._size = len(batch_text(self.batch()))
        self._added: set[str] = set()
        self._full = False

    def add(self, entry: Entry, podsets: Demand) -> bool:
        """Take one more entry; False when it has to wait. After one that waits for room no start is taken."""
        named = dataclasses.replace(entry, demand_digest=demand_digest(podsets), batch=self._empty.id)
        if named.uid in self._added:
            return False
        starts = named.op == "start"
        most = START_BYTES if starts else BATCH_BYTES
        demand = _demand_size(named.demand_digest, podsets)
        if self._alone + _entry_size(named) + demand > most:
            return False
        before = self._entries.get(named.uid)
        needed = _entry_size(named) + (0 if named.demand_digest in self._demands else demand)
        needed -= 0 if before is None else _entry_size(before)
        if self._size + needed > most or (starts and self._full):
            self._full = True
            return False
        self._entries.pop(named.uid, None)
        self._entries[named.uid] = named
        self._demands.setdefault(named.demand_digest, tuple(dict(item) for item in podsets))
        self._size += needed
        self._added.add(named.uid)
        return True

    def batch(self) -> Batch:
        """What was taken so far; demands that no entry needs any more are left out."""
        whole = dataclasses.replace(self._empty, demands=self._demands)
        return keep_entries(whole, self._entries.values())


def batch_text(batch: Batch) -> str:
    """The annotation's text, compact."""
    data = {
        **batch.unknown,
        "format": BATCH_FORMAT,
        "id": batch.id,
        "epoch": batch.epoch,
        "entries": [_entry_data(entry) for entry in batch.entries],
        "demands": {name: list(podsets) for name, podsets in batch.demands.items()},
        **({"unlisted_since": batch.unlisted_since} if batch.unlisted_since else {}),
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


class BatchRead(t.NamedTuple):
    """The batch of a Lease, what is wrong with it, or why it is for a newer version only; at most one of them."""

    batch: Batch | None = None
    problem: str | None = None
    newer: str | None = None


def read_batch(text: t.Any) -> BatchRead:
    """What the annotation of a Lease says, None for none; anybody may have damaged it, so this never fails."""
    if text is None:
        return BatchRead()
    try:
        return BatchRead(batch=_batch_from(Fields(parse_json(text, _WHERE), _WHERE)))
    except NewerVersion as error:
        return BatchRead(newer=str(error))
    except BadInput as error:
        return BatchRead(problem=str(error))


def _entry_data(entry: Entry) -> Data:
    """Plain values of an entry; what is not set is left out to save room."""
    data: Data = {
        **entry.unknown,
        "op": entry.op,
        "namespace": entry.namespace,
        "name": entry.name,
        "uid": entry.uid,
        "attempt": entry.attempt,
        "digest": entry.digest,
        "demand": entry.demand_digest,
    }
    told = {"queue": entry.queue, "batch": entry.batch, "at": entry.at, "patience": entry.patience}
    data.update({key: value for key, value in told.items() if value or (key == "queue" and value is not None)})
    if entry.abandoned:
        data["abandoned"] = True
    return data


def _entry_size(entry: Entry) -> int:
    """What an entry takes in the text with its comma."""
    return len(json.dumps(_entry_data(entry), separators=(",", ":"))) + 1


def _demand_text(podsets: Demand) -> str:
    """Podsets as one text."""
    return canonical_json([dict(item) for item in podsets])


def _demand_size(name: str, podsets: Demand) -> int:
    """What a demand takes in the text with its quoted name, colon and comma."""
    return len(name) + len(_demand_text(podsets)) + 4


def _batch_from(fields: Fields) -> Batch:
    """A batch from decoded JSON; BadInput when any part has the wrong form."""
    fields.require_format(BATCH_FORMAT)
    batch_id, epoch = fields.required_text("id"), fields.required_text("epoch")
    if not isinstance(fields.get("entries"), list):
        raise fields.fail("entries", "a list is needed")
    demands = _demands(fields)
    entries = tuple(
        _entry(Fields(item, f"{_WHERE}: entries[{index}]"), batch_id, demands)
        for index, item in enumerate(fields.sequence("entries"))
    )
    since = fields.whole("unlisted_since", 0, _LATEST)
    return Batch(batch_id, epoch, entries, demands, fields.unknown(_KEYS), since)


def _demands(fields: Fields) -> dict[str, tuple[Data, ...]]:
    """The demands of a batch; each must be what its digest says."""
    if not isinstance(fields.get("demands"), Mapping):
        raise fields.fail("demands", "a mapping is needed")
    demands: dict[str, tuple[Data, ...]] = {}
    for name, podsets in fields.mapping("demands").items():
        if not isinstance(podsets, list) or not all(isinstance(item, dict) for item in podsets):
            raise fields.fail(f"demands.{name}", "a list of podsets is needed")
        if demand_digest(podsets) != name:
            raise fields.fail(f"demands.{name}", "the podsets are not those of this digest")
        demands[name] = tuple(podsets)
    return demands


def _entry(fields: Fields, batch_id: str, demands: Mapping[str, t.Any]) -> Entry:
    """One entry from decoded JSON; earlier versions do not say which commit added it, since it was the last."""
    if fields.required_text("demand") not in demands:
        raise fields.fail("demand", "this demand is missing")
    return Entry(
        op=_op(fields),
        namespace=fields.required_text("namespace"),
        name=fields.required_text("name"),
        uid=fields.required_text("uid"),
        attempt=fields.whole("attempt", 0, INT32 - 1, required=True),
        digest=fields.required_text("digest"),
        queue=fields.text("queue"),
        demand_digest=fields.required_text("demand"),
        abandoned=fields.get("abandoned") is True,
        batch=fields.text("batch") or batch_id,
        at=fields.whole("at", 0, _LATEST),
        patience=fields.whole("patience", 0, _LATEST),
        unknown=fields.unknown(_ENTRY_KEYS),
    )


def _op(fields: Fields) -> Op:
    """What was decided; a word that is none of ours is one of a newer version."""
    word = fields.required_text("op")
    for known in OPS:
        if word == known:
            return known
    raise NewerVersion("read", f"{fields.where}: op", f"this version knows no {word!r}")


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseOptions:
    """Which Lease decides who dispatches, and for how long a silent holder keeps it."""

    namespace: str = "muster-system"
    name: str = "dispatch"
    seconds: float = 15.0

    @property
    def target(self) -> str:
        """The Lease in words for messages."""
        return f"Lease {self.namespace}/{self.name}"
