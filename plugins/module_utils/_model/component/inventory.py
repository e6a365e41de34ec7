# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of a component: what it is, how far it is, and every object that it has or is about to have.

It is written before the first object and names what is to be made, so that a run that was killed can be finished, or
taken back, from the record and the cluster alone.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import (
    Data,
    Fields,
    canonical_json,
    parse_json,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, ObjectKey

Phase = t.Literal["installing", "installed", "upgrading", "removing"]

FORMAT = 1
PHASES: tuple[Phase, ...] = t.get_args(Phase)
_KEYS = ("format", "name", "version", "phase", "source", "release", "digest", "smoke", "depends_on", "entries")


@dataclasses.dataclass(frozen=True, slots=True)
class InventoryEntry:
    """An object of a component; without uid it is still to be made, and one that is not made is used only."""

    key: ObjectKey
    uid: str = ""
    made: bool = True

    def as_object(self) -> Object:
        """Kind and address, in the form in which objects are read and removed."""
        metadata = {"name": self.key.name, **({"namespace": self.key.namespace} if self.key.namespace else {})}
        return {"apiVersion": self.key.api_version, "kind": self.key.kind, "metadata": metadata}


@dataclasses.dataclass(frozen=True, slots=True)
class ComponentRecord:
    """A component as it is recorded; unknown keys are those of a later version and stay."""

    name: str
    phase: Phase
    version: str | None = None
    # Where the objects came from, and the digest of what was rendered.
    source: str = ""
    # Namespace and name of the helm release, with a slash between them; empty for other sources.
    release: str = ""
    digest: str = ""
    # The digest of the smoke test that was passed last.
    smoke: str = ""
    depends_on: tuple[str, ...] = ()
    entries: tuple[InventoryEntry, ...] = ()
    unknown: Data = dataclasses.field(default_factory=dict)

    @property
    def uids(self) -> frozenset[str]:
        """The objects that we made, as far as they are known."""
        return frozenset(entry.uid for entry in self.entries if entry.uid and entry.made)

    @property
    def identities(self) -> frozenset[tuple[str, str, str, str]]:
        """Which objects it names."""
        return frozenset(entry.key.identity for entry in self.entries)


def key_of_object(obj: Mapping[str, t.Any]) -> ObjectKey:
    """The address of an object as records keep it."""
    metadata = obj["metadata"]
    return ObjectKey(obj["apiVersion"], obj["kind"], metadata.get("namespace") or "", metadata["name"])


def merged_entries(*lists: Iterable[InventoryEntry]) -> tuple[InventoryEntry, ...]:
    """All entries in order, each object once; the last word about it counts, but a uid is not forgotten."""
    found: dict[tuple[str, str, str, str], InventoryEntry] = {}
    for entry in (entry for entries in lists for entry in entries):
        before = found.get(entry.key.identity)
        uid = entry.uid or (before.uid if before is not None else "")
        found[entry.key.identity] = dataclasses.replace(entry, uid=uid)
    return tuple(found.values())


def record_to_text(record: ComponentRecord) -> str:
    """The record as it is stored."""
    entries = [
        {
            "apiVersion": entry.key.api_version,
            "kind": entry.key.kind,
            "namespace": entry.key.namespace,
            "name": entry.key.name,
            "uid": entry.uid,
            "made": entry.made,
        }
        for entry in record.entries
    ]
    return canonical_json(
        {
            **record.unknown,
            "format": FORMAT,
            "name": record.name,
            "version": record.version,
            "phase": record.phase,
            "source": record.source,
            "release": record.release,
            "digest": record.digest,
            "smoke": record.smoke,
            "depends_on": list(record.depends_on),
            "entries": entries,
        }
    )


def text_to_record(text: t.Any, where: str) -> ComponentRecord:
    """The record in a text that others may have damaged; one of a newer format is refused and left as it is."""
    fields = Fields(parse_json(text, where), where)
    fields.require_format(FORMAT)
    return ComponentRecord(
        name=fields.required_text("name"),
        phase=fields.choice("phase", PHASES, None),
        version=fields.text("version"),
        source=str(fields.get("source") or ""),
        release=str(fields.get("release") or ""),
        digest=str(fields.get("digest") or ""),
        smoke=str(fields.get("smoke") or ""),
        depends_on=tuple(map(str, fields.sequence("depends_on"))),
        entries=tuple(
            _read_entry(Fields(entry, f"{where}: entries[{index}]"))
            for index, entry in enumerate(fields.sequence("entries"))
        ),
        unknown=fields.unknown(_KEYS),
    )


def _read_entry(fields: Fields) -> InventoryEntry:
    """One object of the inventory."""
    texts = {key: str(fields.get(key) or "") for key in ("namespace", "uid")}
    key = ObjectKey(
        fields.required_text("apiVersion"),
        fields.required_text("kind"),
        texts["namespace"],
        fields.required_text("name"),
    )
    return InventoryEntry(key, texts["uid"], fields.flag("made"))
