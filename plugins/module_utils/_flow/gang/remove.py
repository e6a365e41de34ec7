# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing a gang: its record goes, the garbage collector takes the rest along, and where there is none we do."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOptions, Report
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import find_resource, get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import settle_delete
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import (
    GANG_LABEL,
    TICKET_LABEL,
    Key,
    owner_of,
    plan_objects,
    ticket_keys,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import delete_record, read_record

# The collector acts within a second; a definition installed moments ago may take it half a minute.
_COLLECTOR_SECONDS = 10.0


class StillThere(MusterError):
    """Time ran out before everything of a gang was gone."""


@dataclasses.dataclass(slots=True)
class _Remains:
    """What is left of a gang, as last seen."""

    record: bool = True
    tickets: tuple[Data, ...] = ()
    objects: tuple[tuple[Key, Data], ...] = ()
    pods: tuple[str, ...] = ()

    def words(self) -> str:
        """What is left, in words; empty when nothing is."""
        parts = ["its record"] if self.record else []
        parts += [f"its ticket {item['metadata']['name']}" for item in self.tickets]
        parts += [f"{key[1]} {key[3]}" for key, _obj in self.objects]
        parts += [f"pod {name}" for name in self.pods]
        more = f" and {len(parts) - 8} more" if len(parts) > 8 else ""
        return ", ".join(parts[:8]) + more


def remove_record(
    client: KubeClient, record: Record, terms: GangOptions, end: float, report: Report
) -> tuple[str, ...]:
    """Delete a record and, if the task waits, see that its ticket, objects and pods go too; returns warnings."""
    removal = _Removal(client, record)
    if terms.wait:
        removal.note_objects()
    delete_record(client, record)
    return removal.wait(end, terms.wait_sleep, report) if terms.wait else ()


class _Removal:
    """One gang on its way out."""

    def __init__(self, client: KubeClient, record: Record) -> None:
        """Nothing is known yet."""
        self._client = client
        self._record = record
        self._target = f"gang {record.namespace}/{record.name}"
        self._keys: dict[Key, None] = {}
        self._ticket_uids: set[str] = set()

    def note_objects(self) -> None:
        """Remember what the gang has made, while its tickets still tell."""
        for ticket in self._tickets():
            self._ticket_uids.add(ticket["metadata"]["uid"])
            self._keys.update(dict.fromkeys(ticket_keys(ticket)))
        for key in self._kept_keys():
            self._keys.setdefault(key)

    def _kept_keys(self) -> list[Key]:
        """Objects the record itself owns."""
        if self._record.spec is None:
            return []
        try:
            plan = plan_objects(self._record.spec, self._record.uid, self._record.attempt)
        except BadInput:
            return []
        return [item.key for item in plan if item.keep]

    def wait(self, end: float, pause: float, report: Report) -> tuple[str, ...]:
        """Look until nothing is left; a collector that does nothing is helped once."""
        helped_at = self._client.clock() + _COLLECTOR_SECONDS
        warnings: tuple[str, ...] = ()
        told = ""
        while True:
            remains = self._look()
            words = remains.words()
            if not words:
                return warnings
            if words != told:
                report(f"{self._target}: waiting for {words} to go")
                told = words
            now = self._client.clock()
            if now >= helped_at and not warnings and not remains.record:
                warnings = self._help(remains)
            if now >= end:
                raise StillThere("remove", self._target, f"still there: {words}")
            self._client.sleep(pause)

    def _look(self) -> _Remains:
        """What is left now."""
        record = self._record
        found = read_record(self._client, record.store, record.namespace, record.name, every_wrapper=True)
        objects = []
        for key in self._keys:
            obj = self._object(key)
            if obj is not None:
                objects.append((key, obj))
        return _Remains(
            record=found is not None and found.uid == record.uid,
            tickets=tuple(self._tickets()),
            objects=tuple(objects),
            pods=tuple(self._pods()),
        )

    def _help(self, remains: _Remains) -> tuple[str, ...]:
        """Delete what the collector should have deleted by now; only what says itself that it was this gang's."""
        stuck = [item for item in remains.tickets if not item["metadata"].get("deletionTimestamp")]
        objects = [(key, obj) for key, obj in remains.objects if not obj["metadata"].get("deletionTimestamp")]
        for ticket in stuck:
            meta = ticket["metadata"]
            path = resource_path("v1", "configmaps", meta["namespace"], meta["name"])
            settle_delete(self._client, path, meta["uid"])
        for key, obj in objects:
            place = self._path(key)
            if place is not None:
                settle_delete(self._client, place, obj["metadata"]["uid"])
        if not stuck and not objects:
            return ()
        return (
            f"{self._target}: the garbage collector did not act within {_COLLECTOR_SECONDS:g} s; the ticket and the "
            "objects were deleted one by one, and what they have made may remain",
        )

    def _tickets(self) -> list[Data]:
        """The gang's tickets that are left; only those its record owns, since anybody can set labels."""
        path = resource_path("v1", "configmaps", self._record.namespace)
        selector = f"{TICKET_LABEL}=true,{GANG_LABEL}={self._record.uid}"
        found = list_objects(self._client, path, keep=_whole, label_selector=selector).items
        return [item for item in found if owner_of(item, None, self._record.uid)[0] == "record"]

    def _object(self, key: Key) -> Data | None:
        """One object of the gang; None when it is gone or a later one has its name."""
        path = self._path(key)
        obj = get_object(self._client, path) if path is not None else None
        if obj is None:
            return None
        uids = [*sorted(self._ticket_uids), self._record.uid]
        return obj if any(owner_of(obj, uid, None)[0] == "ticket" for uid in uids) else None

    def _path(self, key: Key) -> str | None:
        """Where an object lies; None when its kind is not served any more."""
        info = find_resource(self._client, key[0], key[1])
        return None if info is None else info.path(key[2], key[3])

    def _pods(self) -> list[str]:
        """Names of the gang's pods; an account that may not list pods does not wait for them."""
        path = resource_path("v1", "pods", self._record.namespace)
        try:
            selector = f"{GANG_LABEL}={self._record.uid}"
            return list_objects(self._client, path, keep=_pod_name, label_selector=selector).items
        except Forbidden:
            return []


def _whole(raw: Data) -> Data:
    """Keep an object as it is."""
    return raw


def _pod_name(raw: Data) -> str:
    """Keep a pod's name."""
    return str(raw["metadata"]["name"])
