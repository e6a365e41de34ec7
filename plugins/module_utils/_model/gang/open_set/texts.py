# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The text of the batch, in either of its formats.

The first format is that of earlier versions: a mapping for each entry. It is read, and written while nothing is open,
so that an earlier version can have the Lease then; under any other batch of ours it starts and stops nothing.
"""

from __future__ import annotations

import json
import typing as t
from collections.abc import Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_ANNOTATION,
    Batch,
    BatchRead,
    Entry,
    demand_digest,
    split_demand,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.compact import (
    COMPACT_FORMAT,
    LATEST,
    compact_batch,
    compact_text,
    notes_data,
    read_op,
    read_quota,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Data, Fields, parse_json

_WHERE = f"annotation {BATCH_ANNOTATION}"
_KEYS = ("format", "id", "epoch", "entries", "demands", "unlisted_since", "quota")
_ENTRY_KEYS = (
    *("op", "namespace", "name", "uid", "attempt", "digest"),
    *("demand", "queue", "abandoned", "batch", "at", "patience"),
)


def batch_text(batch: Batch) -> str:
    """The annotation's text."""
    if batch.entries:
        return compact_text(batch)
    data = {**batch.unknown, "format": 1, "id": batch.id, "epoch": batch.epoch, "entries": [], "demands": {}}
    return json.dumps({**data, **notes_data(batch)}, separators=(",", ":"), allow_nan=False)


def read_batch(text: t.Any) -> BatchRead:
    """What the annotation of a Lease says, None for none; anybody may have damaged it, so this never fails."""
    if text is None:
        return BatchRead()
    try:
        fields = Fields(parse_json(text, _WHERE), _WHERE)
        fields.require_format(COMPACT_FORMAT)
        compact = fields.get("format") == COMPACT_FORMAT
        return BatchRead(batch=compact_batch(fields) if compact else _plain_batch(fields))
    except NewerVersion as error:
        return BatchRead(newer=str(error))
    except BadInput as error:
        return BatchRead(problem=str(error))


def _plain_batch(fields: Fields) -> Batch:
    """A batch of the first format from decoded JSON; BadInput when any part has the wrong form."""
    batch_id, epoch = fields.required_text("id"), fields.required_text("epoch")
    if not isinstance(fields.get("entries"), list):
        raise fields.fail("entries", "a list is needed")
    named = _named_demands(fields)
    demands: dict[str, tuple[Data, ...]] = {}
    entries = []
    for index, item in enumerate(fields.sequence("entries")):
        entry_fields = Fields(item, f"{_WHERE}: entries[{index}]")
        wanted = entry_fields.required_text("demand")
        if wanted not in named:
            raise entry_fields.fail("demand", "this demand is missing")
        names, podsets = split_demand(named[wanted])
        digest = demand_digest(podsets)
        demands[digest] = podsets
        entries.append(_entry(entry_fields, batch_id, names, digest))
    since = fields.whole("unlisted_since", 0, LATEST)
    quota = read_quota(fields, batch_id)
    return Batch(batch_id, epoch, tuple(entries), demands, fields.unknown(_KEYS), since, quota)


def _named_demands(fields: Fields) -> dict[str, tuple[Data, ...]]:
    """The demands of a batch with the names of podsets; each must be what its digest says."""
    if not isinstance(fields.get("demands"), Mapping):
        raise fields.fail("demands", "a mapping is needed")
    demands: dict[str, tuple[Data, ...]] = {}
    for name, podsets in fields.mapping("demands").items():
        if not isinstance(podsets, list) or not all(isinstance(item, dict) for item in podsets):
            raise fields.fail(f"demands.{name}", "a list of podsets is needed")
        if not _is_digest(name, podsets):
            raise fields.fail(f"demands.{name}", "the podsets are not those of this digest")
        demands[name] = tuple(podsets)
    return demands


def _is_digest(name: str, podsets: list[Data]) -> bool:
    """Whether a demand has this digest; what we could not have written has none."""
    try:
        return demand_digest(podsets) == name
    except (ValueError, RecursionError):
        return False


def _entry(fields: Fields, batch_id: str, podsets: tuple[str, ...], digest: str) -> Entry:
    """One entry from decoded JSON; the earliest versions do not say which commit added it, since it was the last."""
    return Entry(
        op=read_op(fields),
        namespace=fields.required_text("namespace"),
        name=fields.required_text("name"),
        uid=fields.required_text("uid"),
        attempt=fields.whole("attempt", 0, INT32 - 1, required=True),
        queue=fields.text("queue"),
        podsets=podsets,
        demand_digest=digest,
        abandoned=fields.get("abandoned") is True,
        batch=fields.text("batch") or batch_id,
        at=fields.whole("at", 0, LATEST),
        patience=fields.whole("patience", 0, LATEST),
        unknown=fields.unknown(_ENTRY_KEYS),
    )
