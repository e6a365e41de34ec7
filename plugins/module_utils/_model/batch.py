# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Batches: what one cycle decided, written into the Lease in one piece before anything is carried out."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data, canonical_json, parse_json

Op = t.Literal["start", "stop", "evict", "resize"]
Demand = Sequence[Mapping[str, t.Any]]

OPS: tuple[Op, ...] = t.get_args(Op)
BATCH_ANNOTATION = "muster.kube/batch"
BATCH_BYTES = 128 * 1024

_WHERE = f"annotation {BATCH_ANNOTATION}"


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One decision about one gang; an abandoned entry is settled although its record could not be written."""

    op: Op
    namespace: str
    name: str
    uid: str
    attempt: int
    digest: str
    queue: str | None = None
    demand_digest: str = ""
    abandoned: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """The decisions of one cycle; demands holds the podsets of the entries, equal ones once, by their digest."""

    id: str
    epoch: str
    entries: tuple[Entry, ...]
    demands: Mapping[str, tuple[Data, ...]]

    def demand_of(self, entry: Entry) -> tuple[Data, ...]:
        """The podsets an entry reserves until it is settled."""
        return self.demands[entry.demand_digest]


def demand_digest(podsets: Demand) -> str:
    """A fingerprint of podsets; equal demands have equal ones."""
    return hashlib.sha256(_demand_text(podsets).encode()).hexdigest()[:32]


def pack(
    entries: Iterable[tuple[Entry, Demand]], epoch: str, batch_id: str
) -> tuple[Batch, list[tuple[Entry, Demand]]]:
    """As many entries as one annotation holds, in order, and the rest for later.

    One gang has one entry at most; a second one waits. An entry that could not even fit alone waits too, but does not
    hold up those behind it.
    """
    taken: list[Entry] = []
    demands: dict[str, tuple[Data, ...]] = {}
    surplus: list[tuple[Entry, Demand]] = []
    empty = len(batch_text(Batch(batch_id, epoch, (), {})))
    size, full = empty, False
    uids: set[str] = set()
    for entry, podsets in entries:
        named = dataclasses.replace(entry, demand_digest=demand_digest(podsets))
        alone = _entry_size(named) + _demand_size(named.demand_digest, podsets)
        needed = _entry_size(named) if named.demand_digest in demands else alone
        possible = empty + alone <= BATCH_BYTES
        if full or not possible or size + needed > BATCH_BYTES or named.uid in uids:
            full = full or (possible and named.uid not in uids)
            surplus.append((entry, podsets))
            continue
        size += needed
        uids.add(named.uid)
        taken.append(named)
        demands.setdefault(named.demand_digest, tuple(dict(item) for item in podsets))
    return Batch(batch_id, epoch, tuple(taken), demands), surplus


def batch_text(batch: Batch) -> str:
    """The annotation's text, compact."""
    data = {
        "id": batch.id,
        "epoch": batch.epoch,
        "entries": [_entry_data(entry) for entry in batch.entries],
        "demands": {name: list(podsets) for name, podsets in batch.demands.items()},
    }
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


def read_batch(annotations: Mapping[str, t.Any] | None) -> Batch | None:
    """The batch a Lease carries; None when it has none, or one that makes no sense."""
    return _parse(annotations)[0]


def batch_problem(annotations: Mapping[str, t.Any] | None) -> str | None:
    """What is wrong with the batch a Lease carries; None when it is fine or missing."""
    return _parse(annotations)[1]


def abandon(batch: Batch, uid: str) -> Batch:
    """The batch with the entry of one gang marked as abandoned; room for the mark was left when it was packed."""
    entries = tuple(
        dataclasses.replace(entry, abandoned=True) if entry.uid == uid else entry for entry in batch.entries
    )
    return dataclasses.replace(batch, entries=entries)


def unsettled(batch: Batch, batch_of: Mapping[str, str | None]) -> tuple[Entry, ...]:
    """The entries still open; batch_of maps the uid of each record that exists to the batch its state carries."""
    return tuple(
        entry
        for entry in batch.entries
        if not entry.abandoned and entry.uid in batch_of and batch_of[entry.uid] != batch.id
    )


def _entry_data(entry: Entry) -> Data:
    """Plain values of an entry; what is not set is left out to save room."""
    data: Data = {
        "op": entry.op,
        "namespace": entry.namespace,
        "name": entry.name,
        "uid": entry.uid,
        "attempt": entry.attempt,
        "digest": entry.digest,
        "demand": entry.demand_digest,
    }
    if entry.queue is not None:
        data["queue"] = entry.queue
    if entry.abandoned:
        data["abandoned"] = True
    return data


def _entry_size(entry: Entry) -> int:
    """What an entry takes in the text with its comma, marked as abandoned or not."""
    marked = dataclasses.replace(entry, abandoned=True)
    return len(json.dumps(_entry_data(marked), separators=(",", ":"))) + 1


def _demand_text(podsets: Demand) -> str:
    """Podsets as one text."""
    return canonical_json([dict(item) for item in podsets])


def _demand_size(name: str, podsets: Demand) -> int:
    """What a demand takes in the text with its quoted name, colon and comma."""
    return len(name) + len(_demand_text(podsets)) + 4


def _parse(annotations: Mapping[str, t.Any] | None) -> tuple[Batch | None, str | None]:
    """Batch and problem, at most one of them."""
    text = (annotations or {}).get(BATCH_ANNOTATION)
    if text is None:
        return None, None
    try:
        return _batch_from(parse_json(text, _WHERE)), None
    except BadInput as error:
        return None, str(error)


def _batch_from(data: t.Any) -> Batch:
    """A batch from decoded JSON; BadInput when any part has the wrong form."""
    batch_id, epoch = _text(data, "id"), _text(data, "epoch")
    demands = _demands(data.get("demands"))
    entries = data.get("entries")
    if not isinstance(entries, list):
        raise BadInput("read", f"{_WHERE}: entries", "a list is needed")
    read = tuple(_entry(item, f"entries[{index}]", demands) for index, item in enumerate(entries))
    return Batch(batch_id, epoch, read, demands)


def _demands(data: t.Any) -> dict[str, tuple[Data, ...]]:
    """The demands of a batch; each must be what its digest says."""
    if not isinstance(data, dict):
        raise BadInput("read", f"{_WHERE}: demands", "a mapping is needed")
    demands: dict[str, tuple[Data, ...]] = {}
    for name, podsets in data.items():
        if not isinstance(podsets, list) or not all(isinstance(item, dict) for item in podsets):
            raise BadInput("read", f"{_WHERE}: demands.{name}", "a list of podsets is needed")
        if demand_digest(podsets) != name:
            raise BadInput("read", f"{_WHERE}: demands.{name}", "the podsets are not those of this digest")
        demands[name] = tuple(podsets)
    return demands


def _entry(data: t.Any, place: str, demands: Mapping[str, t.Any]) -> Entry:
    """One entry from decoded JSON."""
    texts = {key: _text(data, key, place) for key in ("op", "namespace", "name", "uid", "digest", "demand")}
    op = next((known for known in OPS if known == texts["op"]), None)
    if op is None:
        raise BadInput("read", f"{_WHERE}: {place}.op", f"{texts['op']!r} is none of {', '.join(OPS)}")
    if texts["demand"] not in demands:
        raise BadInput("read", f"{_WHERE}: {place}.demand", "this demand is missing")
    attempt = data.get("attempt")
    if isinstance(attempt, bool) or not isinstance(attempt, int) or attempt < 0:
        raise BadInput("read", f"{_WHERE}: {place}.attempt", "a whole number is needed")
    queue = None if data.get("queue") is None else _text(data, "queue", place)
    return Entry(
        op=op,
        namespace=texts["namespace"],
        name=texts["name"],
        uid=texts["uid"],
        attempt=attempt,
        digest=texts["digest"],
        queue=queue,
        demand_digest=texts["demand"],
        abandoned=data.get("abandoned") is True,
    )


def _text(data: t.Any, key: str, place: str = "") -> str:
    """A text of a mapping."""
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, str) or not value:
        raise BadInput("read", f"{_WHERE}: {place}.{key}" if place else f"{_WHERE}: {key}", "a text is needed")
    return value
