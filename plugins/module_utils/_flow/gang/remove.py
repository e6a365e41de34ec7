# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing a gang: its record goes, the garbage collector takes the rest along, and where there is none we do."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._engine.removal import Removal
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOptions, Report
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import plan_objects, ticket_keys
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import ObjectKey
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import delete_record, read_record

# The collector acts within a second; a definition installed moments ago may take it half a minute.
_COLLECTOR_SECONDS = 10.0
_MOST_NAMED = 8


class StillThere(MusterError):
    """Time ran out before everything of a gang was gone."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Remains:
    """What is left of a gang: whether its record is, its tickets, its objects with their paths, and its pods."""

    record: bool
    tickets: list[Data]
    objects: list[tuple[str, Data]]
    pods: list[Data]

    def text(self) -> str:
        """What is left; empty when nothing is."""
        parts = ["its record"] if self.record else []
        parts += [f"its ticket {item['metadata']['name']}" for item in self.tickets]
        parts += [f"{obj['kind']} {obj['metadata']['name']}" for _path, obj in self.objects]
        parts += [f"pod {pod['metadata']['name']}" for pod in self.pods]
        more = f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
        return ", ".join(parts[:_MOST_NAMED]) + more


def remove_record(
    client: KubeClient, record: Record, options: GangOptions, end: float, report: Report
) -> tuple[str, ...]:
    """Delete a record and, if the task waits, see that its tickets, objects and pods go too; returns warnings."""
    departure = _Departure(client, record)
    if options.wait:
        departure.note_objects()
    delete_record(client, record)
    return departure.wait(end, options.wait_sleep, report) if options.wait else ()


class _Departure:
    """One gang that goes with its record."""

    def __init__(self, client: KubeClient, record: Record) -> None:
        """Nothing is known yet."""
        self._client = client
        self._record = record
        self._removal = Removal(client, client, None, record.uid, record.namespace)
        self._target = f"gang {record.namespace}/{record.name}"
        # The objects of the gang, each with the uid of the ticket or record that owns it.
        self._owners: list[tuple[ObjectKey, str]] = []

    def note_objects(self) -> None:
        """Remember what the gang has made, while its tickets still list it."""
        for ticket in self._removal.tickets():
            self._owners += [(key, ticket["metadata"]["uid"]) for key in ticket_keys(ticket)]
        self._owners += [(key, self._record.uid) for key in _kept_keys(self._record)]

    def wait(self, end: float, pause: float, report: Report) -> tuple[str, ...]:
        """Look until nothing is left; a collector that does nothing is helped once."""
        helped_at = self._client.clock() + _COLLECTOR_SECONDS
        warnings: tuple[str, ...] = ()
        reported = ""
        while True:
            remains = self._look()
            text = remains.text()
            if not text:
                return warnings
            if text != reported:
                report(f"{self._target}: waiting for {text} to go")
                reported = text
            now = self._client.clock()
            if now >= helped_at and not warnings and not remains.record:
                warnings = self._help(remains)
            if now >= end:
                raise StillThere("remove", self._target, f"still there: {text}")
            self._client.sleep(pause)

    def _look(self) -> _Remains:
        """What is left now."""
        record, removal = self._record, self._removal
        found = read_record(self._client, record.store, record.namespace, record.name, every_wrapper=True)
        objects = [removal.owned(key, owner_uid) for key, owner_uid in self._owners]
        return _Remains(
            found is not None and found.uid == record.uid,
            removal.tickets(),
            [item for item in objects if item is not None],
            removal.labelled_pods(),
        )

    def _help(self, remains: _Remains) -> tuple[str, ...]:
        """Delete what the collector should have deleted by now."""
        stuck = [item for item in remains.tickets if not item["metadata"].get("deletionTimestamp")]
        objects = [item for item in remains.objects if not item[1]["metadata"].get("deletionTimestamp")]
        for ticket in stuck:
            self._removal.remove_ticket(ticket)
        for path, obj in objects:
            self._removal.remove(path, obj)
        if not stuck and not objects:
            return ()
        return (
            f"{self._target}: the garbage collector did not act within {_COLLECTOR_SECONDS:g} s; the ticket and the "
            "objects were deleted one by one, and what they have made may remain",
        )


def _kept_keys(record: Record) -> list[ObjectKey]:
    """Objects that the record itself owns."""
    if record.spec is None:
        return []
    try:
        return [item.key for item in plan_objects(record.spec, record.uid, record.attempt) if item.keep]
    except BadInput:
        return []
