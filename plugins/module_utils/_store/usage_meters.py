# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Meters in a cluster: one ConfigMap for each leaf beside the dispatcher's Lease, written by compare-and-swap."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    Allowance,
    ObjectGone,
    Ownership,
    Superseded,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    METER_KEY,
    METER_LABEL,
    Meter,
    meter_from_text,
    meter_name,
    meter_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, NewerVersion
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import NameTaken, ObjectStore

Object = dict[str, t.Any]
# Tree and queue.
Leaf = tuple[str, str]

_WRITE_KEY = "write"
# Others change a meter once in minutes at most.
_TRIES = 5


@dataclasses.dataclass(frozen=True, slots=True)
class StoredMeter:
    """A meter as it was read; problem says why there is none, newer that a later version wrote it."""

    raw: Object
    meter: Meter | None
    problem: str | None = None
    newer: bool = False


def decode_meter(raw: Object) -> StoredMeter:
    """The meter in a ConfigMap; one under the name of another leaf is none."""
    name = str(raw["metadata"]["name"])
    try:
        meter = meter_from_text((raw.get("data") or {}).get(METER_KEY), f"ConfigMap {name}")
    except NewerVersion as error:
        return StoredMeter(raw, None, str(error), newer=True)
    except BadInput as error:
        return StoredMeter(raw, None, str(error))
    if name != meter_name(meter.tree, meter.queue):
        return StoredMeter(raw, None, f"ConfigMap {name}: it holds the usage of {meter.tree}/{meter.queue}")
    return StoredMeter(raw, meter)


def list_meters(client: KubeClient, namespace: str) -> list[StoredMeter]:
    """All meters beside a Lease."""
    return list(ObjectStore(client).list(namespace, METER_LABEL, decode_meter))


@dataclasses.dataclass(frozen=True, slots=True)
class MeterStore:
    """Where meters are written; allowance is asked before each request, as for all writes under a Lease."""

    client: KubeClient
    namespace: str
    allowance: Allowance | None = None

    def change(self, leaf: Leaf, known: StoredMeter | None, change: Callable[[Meter], Meter]) -> StoredMeter:
        """Write what change makes of the meter of a leaf; it is asked again when somebody else wrote meanwhile.

        Nothing is written where nothing changes. A meter that cannot be read is begun anew, one of a later version
        refused.
        """
        stored = known
        for _turn in range(_TRIES):
            if stored is not None and stored.newer:
                raise NewerVersion("write", f"the usage of {'/'.join(leaf)}", str(stored.problem))
            before = stored.meter if stored is not None and stored.meter is not None else Meter(*leaf)
            after = change(before)
            if stored is not None and stored.meter == after:
                return stored
            try:
                return decode_meter(self._write(stored, after))
            except NameTaken as error:
                stored = decode_meter(error.found)
            except ObjectGone:
                stored = None
            except Superseded:
                found = self._store.read(self.namespace, meter_name(*leaf))
                stored = None if found is None else decode_meter(found)
        raise BadInput("write", f"the usage of {'/'.join(leaf)}", "somebody else keeps changing it")

    @property
    def _store(self) -> ObjectStore:
        """A write that does not succeed soon is left to the next time."""
        return ObjectStore(self.client, allowance=self.allowance, tries=2)

    def _write(self, stored: StoredMeter | None, meter: Meter) -> Object:
        """One compare-and-swap."""
        write = uuid.uuid4().hex
        data = {METER_KEY: meter_text(meter), _WRITE_KEY: write}
        if stored is not None:
            metadata = {**stored.raw["metadata"]}
            metadata["labels"] = {**(metadata.get("labels") or {}), METER_LABEL: "true"}
            kept = stored.raw.get("data") or {}
            body = {**stored.raw, "metadata": metadata, "data": {**kept, **data}}
            return self._store.replace(stored.raw, body, write, _write_of)
        metadata = {
            "name": meter_name(meter.tree, meter.queue),
            "namespace": self.namespace,
            "labels": {METER_LABEL: "true"},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        made = self._store.create(body, lambda found: _whose(found, write))
        return made.obj


def _whose(found: Object, write: str) -> Ownership:
    return Ownership.OURS if _write_of(found) == write else Ownership.FOREIGN


def _write_of(raw: Object) -> str | None:
    return (raw.get("data") or {}).get(_WRITE_KEY)
