# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The batch: what was decided and is not over yet, written into the Lease before anything is carried out.

Each commit adds what one cycle decided and leaves out what is over, so whoever holds the Lease next sees every promise,
also those made in namespaces it may not read. How it is written is told in open_set.
"""

from __future__ import annotations

import dataclasses
import hashlib
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json

Op = t.Literal["start", "stop", "evict", "resize"]
Demand = Sequence[Mapping[str, t.Any]]

OPS: tuple[Op, ...] = t.get_args(Op)
BATCH_ANNOTATION = "muster.kube/batch"
BATCH_BYTES = 128 * 1024
# Starts leave some room: what is to be stopped must never wait for others to be bound first.
START_BYTES = BATCH_BYTES * 7 // 8


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One decision about one gang, open until its pods are bound or it is undone.

    podsets are the names of those it reserves; what they ask for is kept apart, since many gangs ask for the same.
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
    queue: str | None = None
    podsets: tuple[str, ...] = ()
    demand_digest: str = ""
    abandoned: bool = False
    batch: str = ""
    at: int = 0
    patience: int = 0
    unknown: Data = dataclasses.field(default_factory=dict)

    @property
    def resizes_in_place(self) -> bool:
        """Whether an object gets another size while it is there, for which room is promised."""
        return self.op == "resize" and bool(self.podsets)


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """All open entries; demands holds what their podsets ask for, without names, equal ones once, by their digest.

    unlisted_since is set where an earlier batch was damaged: promises of before that moment (seconds on the server's
    clock) may be missing. 0: none are. quota is the digest of the quota trees that the commit with this id was decided
    on; empty without any, and where an earlier version committed it.
    """

    id: str
    epoch: str
    entries: tuple[Entry, ...]
    demands: Mapping[str, tuple[Data, ...]]
    unknown: Data = dataclasses.field(default_factory=dict)
    unlisted_since: int = 0
    quota: str = ""

    def demand_of(self, entry: Entry) -> tuple[Data, ...]:
        """The podsets an entry reserves while it is open."""
        demand = self.demands[entry.demand_digest]
        if not entry.podsets:
            return demand
        return tuple({"name": name, **item} for name, item in zip(entry.podsets, demand, strict=True))


class BatchRead(t.NamedTuple):
    """The batch of a Lease, what is wrong with it, or why it is for a newer version only; at most one of them."""

    batch: Batch | None = None
    problem: str | None = None
    newer: str | None = None


def split_demand(podsets: Demand) -> tuple[tuple[str, ...], tuple[Data, ...]]:
    """The names of podsets, and the podsets without them; where not all have one, no names and all as it is."""
    names = [item.get("name") for item in podsets]
    if not all(isinstance(name, str) for name in names):
        return (), tuple(dict(item) for item in podsets)
    bare = tuple({key: value for key, value in item.items() if key != "name"} for item in podsets)
    return tuple(str(name) for name in names), bare


def demand_digest(podsets: Demand) -> str:
    """A fingerprint of podsets; equal demands have equal ones."""
    return hashlib.sha256(demand_text(podsets).encode()).hexdigest()[:32]


def demand_text(podsets: Demand) -> str:
    """Podsets as one text."""
    return canonical_json([dict(item) for item in podsets])


def keep_entries(batch: Batch, entries: Iterable[Entry]) -> Batch:
    """The batch with these of its entries only, and the demands they need."""
    kept = tuple(entries)
    demands = {entry.demand_digest: batch.demands[entry.demand_digest] for entry in kept}
    return dataclasses.replace(batch, entries=kept, demands=demands)


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
