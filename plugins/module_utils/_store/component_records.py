# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of components: a ConfigMap for each, beside the Lease under which components are provisioned."""

from __future__ import annotations

import dataclasses
import typing as t
import uuid

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Ownership
from ansible_collections.muster.kube.plugins.module_utils._model.component.inventory import (
    ComponentRecord,
    record_to_text,
    text_to_record,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore

Object = dict[str, t.Any]

# What every record of a component carries, with the component's name.
COMPONENT_RECORD_LABEL = "muster.kube/component-record"
RECORDS_NAMESPACE = "muster-system"
_TEXT, _WRITE = "record", "write"


@dataclasses.dataclass(frozen=True, slots=True)
class StoredComponent:
    """A record and the ConfigMap it was read from."""

    raw: Object
    record: ComponentRecord


class ComponentRecords:
    """All records of a cluster, in one namespace."""

    def __init__(self, client: KubeClient, namespace: str = RECORDS_NAMESPACE) -> None:
        """Nothing is read yet."""
        self.namespace = namespace
        self._store = ObjectStore(client)

    def read(self, name: str) -> StoredComponent | None:
        """The record of a component; None when there is none."""
        raw = self._store.read(self.namespace, _map_name(name))
        return None if raw is None else self._decode(raw)

    def all(self) -> tuple[StoredComponent, ...]:
        """All records there are, by name; one that cannot be read is refused, since nobody knows what it keeps."""
        found = self._store.list(self.namespace, COMPONENT_RECORD_LABEL, self._decode)
        return tuple(sorted(found, key=lambda item: item.record.name))

    def survey(self) -> tuple[tuple[StoredComponent, ...], dict[str, BadInput]]:
        """All records that can be read, by name, and of each component whose record cannot why."""
        hurt: dict[str, BadInput] = {}

        def keep(raw: Object) -> StoredComponent | None:
            """A record, if it is one."""
            try:
                return self._decode(raw)
            except BadInput as error:
                hurt[raw["metadata"]["name"].removeprefix(_map_name(""))] = error
                return None

        found = self._store.list(self.namespace, COMPONENT_RECORD_LABEL, keep)
        return tuple(sorted(found, key=lambda item: item.record.name)), hurt

    def save(self, stored: StoredComponent | None, record: ComponentRecord) -> StoredComponent:
        """Write a record over the one that was read, or as a new one where there was none."""
        write = uuid.uuid4().hex
        data = {_TEXT: record_to_text(record), _WRITE: write}
        if stored is not None:
            return self._decode(
                self._store.replace(
                    stored.raw, {**stored.raw, "data": {**stored.raw["data"], **data}}, write, _write_of
                )
            )
        metadata = {
            "name": _map_name(record.name),
            "namespace": self.namespace,
            "labels": {COMPONENT_RECORD_LABEL: record.name},
        }
        raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}

        def is_ours(found: Object) -> Ownership:
            """Ours only if this very write made it."""
            return Ownership.OURS if _write_of(found) == write else Ownership.FOREIGN

        return self._decode(self._store.create(raw, is_ours, taken="a ConfigMap of that name exists already").obj)

    def remove(self, stored: StoredComponent) -> None:
        """Delete this very record."""
        self._store.delete(stored.raw)

    def _decode(self, raw: Object) -> StoredComponent:
        """The record in a ConfigMap; what others damaged is refused with the name of the field."""
        where = f"ConfigMap {raw['metadata']['namespace']}/{raw['metadata']['name']}: data.{_TEXT}"
        record = text_to_record((raw.get("data") or {}).get(_TEXT), where)
        if raw["metadata"]["name"] != _map_name(record.name):
            raise BadInput("read", where, f"it tells of component {record.name!r}, which has another record")
        return StoredComponent(raw, record)


def has_record(client: KubeClient, name: str, namespace: str = RECORDS_NAMESPACE) -> bool:
    """Whether a component has a record; who may not look made none."""
    try:
        return ComponentRecords(client, namespace).read(name) is not None
    except Forbidden:
        return False


def _map_name(name: str) -> str:
    """The name of a component's record."""
    return f"muster-component-{name}"


def _write_of(raw: Object) -> str | None:
    """Which write made a record what it is."""
    return (raw.get("data") or {}).get(_WRITE)
