# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which decisions the next batch holds: those that are open, and as many new ones as its text has room for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable

from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import (
    BATCH_BYTES,
    START_BYTES,
    Batch,
    Demand,
    Entry,
    demand_digest,
    demand_text,
    keep_entries,
    split_demand,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.compact import LATEST, CompactSize


def pack(
    entries: Iterable[tuple[Entry, Demand]],
    epoch: str,
    batch_id: str,
    carried: Batch | None = None,
    quota: str = "",
) -> tuple[Batch, list[tuple[Entry, Demand]]]:
    """The open entries of before with as many new ones as one annotation holds, in order, and the rest for later.

    One gang has one entry at most: a new one takes the place of the open one, a second new one waits. An entry that
    could not even fit alone waits too, but does not hold up those behind it. The last part is for stops only. Whoever
    packs knows what was promised before, so unlisted_since is not carried on; there is room to say it again. quota is
    the digest of the quota trees that the new ones were decided on.
    """
    packing = _Packing(batch_id, epoch, carried, quota)
    surplus = [(entry, podsets) for entry, podsets in entries if not packing.add(entry, podsets)]
    return packing.batch(), surplus


class _Packing:
    """A batch that grows as long as its text fits."""

    def __init__(self, batch_id: str, epoch: str, carried: Batch | None, quota: str) -> None:
        """What is carried over was in the annotation before, so it fits."""
        unknown = carried.unknown if carried is not None else {}
        self._empty = Batch(batch_id, epoch, (), {}, unknown, LATEST, quota)
        self._entries = {entry.uid: entry for entry in carried.entries} if carried is not None else {}
        self._demands = dict(carried.demands) if carried is not None else {}
        self._text_of = functools.cache(lambda digest: demand_text(self._demands[digest]))
        self._size = CompactSize(self._empty)
        for entry in self._entries.values():
            self._size.add(entry, self._text_of(entry.demand_digest))
        self._added: set[str] = set()
        self._full = False

    def add(self, entry: Entry, podsets: Demand) -> bool:
        """Take one more entry; False when it has to wait. After one that waits for room no start is taken."""
        names, bare = split_demand(podsets)
        named = dataclasses.replace(entry, podsets=names, demand_digest=demand_digest(bare), batch=self._empty.id)
        if named.uid in self._added:
            return False
        self._demands.setdefault(named.demand_digest, bare)
        starts = named.op == "start"
        most = START_BYTES if starts else BATCH_BYTES
        if (starts and self._full) or not self._finds_room(named, most):
            # Behind one that could not even fit alone nobody has to wait.
            self._full = self._full or self._size.alone(named, self._text_of(named.demand_digest)) <= most
            return False
        self._entries.pop(named.uid, None)
        self._entries[named.uid] = named
        self._added.add(named.uid)
        return True

    def _finds_room(self, entry: Entry, most: int) -> bool:
        """Count an entry instead of the gang's open one; False when it does not fit, and nothing is changed."""
        before = self._entries.get(entry.uid)
        if before is not None:
            self._size.remove(before, self._text_of(before.demand_digest))
        self._size.add(entry, self._text_of(entry.demand_digest))
        if self._size.total <= most and self._size.fits_tables:
            return True
        self._size.remove(entry, self._text_of(entry.demand_digest))
        if before is not None:
            self._size.add(before, self._text_of(before.demand_digest))
        return False

    def batch(self) -> Batch:
        """What was taken so far; demands that no entry needs any more are left out."""
        whole = dataclasses.replace(self._empty, demands=self._demands, unlisted_since=0)
        return keep_entries(whole, self._entries.values())
