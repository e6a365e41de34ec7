# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of the objects of a collection, and what each step of a watch says that is new.

Of each object little is remembered: its version, how it stands, and a fingerprint of the fields whose changes matter.
So a list after a gap tells what changed meanwhile, also what was deleted, and nothing twice.
"""

from __future__ import annotations

import hashlib
import typing as t
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansible_collections.muster.kube.plugins.module_utils._kube.watch import WatchStep
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import PHASE_LABEL, RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import ItemOutcome
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import item_outcome
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object, conditions, value_at

Path = tuple[str, ...]
ChangeType = t.Literal["ADDED", "MODIFIED", "DELETED"]
CHANGE_TYPES: tuple[ChangeType, ...] = ("ADDED", "MODIFIED", "DELETED")

# kubectl keeps whole objects there, those of Secrets too.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_SECRET_FIELDS = ("data", "stringData")
# Other programs that apply objects do so by names like objectset.rio.cattle.io/applied and kapp.k14s.io/original.
_COPIES = ("applied", "original")


class ObjectStanding(t.NamedTuple):
    """How an object stands, as far as its kind tells; for a gang's record the phase is that of the gang."""

    phase: str | None
    outcome: ItemOutcome | None
    suspended: bool
    conditions: tuple[tuple[str, str], ...]

    def as_data(self) -> Object:
        """Plain values."""
        return {**self._asdict(), "conditions": dict(self.conditions)}


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """An object as it was seen; shown are the fields that are told, None once they have been."""

    uid: str
    version: str
    namespace: str | None
    name: str
    labels: tuple[tuple[str, str], ...]
    standing: ObjectStanding
    mark: bytes
    shown: Object | None


@dataclass(frozen=True, slots=True)
class ObservedChange:
    """A change of an object, and how it stood before.

    existing is true of what was there when the source began, missed of what a list told after a gap.
    """

    type: ChangeType
    after: ObservedObject
    before: ObjectStanding | None = None
    existing: bool = False
    missed: bool = False


@dataclass(frozen=True, slots=True)
class ToldFields:
    """Which fields are told, all if None, and which matter; without any of these every change does."""

    fields: Sequence[Path] | None = None
    matter: Sequence[Path] = ()

    def see(self, raw: Object) -> ObservedObject:
        """What is kept of an object."""
        metadata = raw["metadata"]
        standing = standing_of(raw)
        return ObservedObject(
            str(metadata["uid"]),
            str(metadata["resourceVersion"]),
            metadata.get("namespace"),
            str(metadata["name"]),
            tuple((metadata.get("labels") or {}).items()),
            standing,
            self._mark(raw, standing) if self.matter else b"",
            self._shown(raw),
        )

    def _mark(self, raw: Object, standing: ObjectStanding) -> bytes:
        """A fingerprint of what matters; how the object stands goes by its own names."""
        told = standing.as_data()
        values = [told[path[0]] if len(path) == 1 and path[0] in told else value_at(raw, path) for path in self.matter]
        return hashlib.sha256(canonical_json(values).encode()).digest()

    def _shown(self, raw: Object) -> Object:
        """The fields that are told."""
        metadata = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
        secret = (raw.get("apiVersion"), raw.get("kind")) == ("v1", "Secret")
        if metadata.get("annotations"):
            notes = metadata["annotations"].items()
            metadata["annotations"] = {key: value for key, value in notes if not _is_copy(key, secret)}
        hidden = _SECRET_FIELDS if secret else ()
        whole = {**{key: value for key, value in raw.items() if key not in hidden}, "metadata": metadata}
        if self.fields is None:
            return whole
        chosen: Object = {}
        for path in self.fields:
            _copy_field(whole, chosen, path)
        return chosen


def _is_copy(annotation: str, secret: bool) -> bool:
    """Whether an annotation may hold the object over again."""
    return annotation == _LAST_APPLIED or (secret and any(word in annotation for word in _COPIES))


def standing_of(raw: Object) -> ObjectStanding:
    """How an object stands."""
    labels, spec = raw["metadata"].get("labels") or {}, raw.get("spec")
    phase = labels.get(PHASE_LABEL) if RECORD_LABEL in labels else value_at(raw, ("status", "phase"))
    suspended = value_at(spec, ("suspend",)) is True or value_at(spec, ("runPolicy", "suspend")) is True
    met = tuple((str(item.get("type")), str(item.get("status"))) for item in conditions(raw))
    return ObjectStanding(phase if isinstance(phase, str) else None, item_outcome(raw), suspended, met)


def _copy_field(source: Object, target: Object, path: Path) -> None:
    """Copy what a path leads to, if it leads anywhere."""
    value = value_at(source, path)
    if value is None:
        return
    for key in path[:-1]:
        target = target.setdefault(key, {})
    target[path[-1]] = value


class ObservedObjects:
    """The objects of one collection as the events so far have told them."""

    def __init__(self, fields: ToldFields, *, existing: bool = True) -> None:
        """Nothing is known before the first list; existing says whether that one is told."""
        self._fields = fields
        self._existing = existing
        self._known: dict[str, ObservedObject] = {}
        self._begun = False

    def keep(self, raw: Object) -> ObservedObject:
        """What is kept of an object; the very same as before for one that did not change."""
        known = self._known.get(str(raw["metadata"]["uid"]))
        if known is not None and known.version == raw["metadata"]["resourceVersion"]:
            return known
        return self._fields.see(raw)

    def changes(self, step: WatchStep[ObservedObject]) -> Iterator[ObservedChange]:
        """What a step says that nobody was told."""
        if step.type == "SYNC":
            yield from self._listed(step.items)
        elif step.item is not None:
            yield from self._deleted(step.item) if step.type == "DELETED" else self._seen(step.item)

    def _listed(self, items: Sequence[ObservedObject]) -> Iterator[ObservedChange]:
        """What a list says: first what is gone, then what changed, in the order of the changes."""
        begins, self._begun = not self._begun, True
        there = {item.uid for item in items}
        for gone in [item for uid, item in self._known.items() if uid not in there]:
            yield from self._deleted(gone, missed=True)
        for item in sorted(items, key=_order):
            told = self._seen(item, existing=begins, missed=not begins)
            if begins and not self._existing:
                for _change in told:
                    pass
            else:
                yield from told

    def _seen(self, item: ObservedObject, *, existing: bool = False, missed: bool = False) -> Iterator[ObservedChange]:
        """An object that is there."""
        before = self._known.get(item.uid)
        if before is not None and (before is item or not _is_newer(item, before)):
            return
        self._known[item.uid] = replace(item, shown=None)
        if before is None:
            yield ObservedChange("ADDED", item, None, existing, missed)
        elif before.mark != item.mark or not item.mark:
            yield ObservedChange("MODIFIED", item, before.standing, missed=missed)

    def _deleted(self, item: ObservedObject, *, missed: bool = False) -> Iterator[ObservedChange]:
        """An object that is gone."""
        before = self._known.pop(item.uid, None)
        if before is not None:
            yield ObservedChange("DELETED", item, before.standing, missed=missed)


def _order(item: ObservedObject) -> tuple[int, str, str]:
    """By version where versions are numbers, as all servers make them."""
    return int(item.version) if item.version.isdecimal() else 0, item.namespace or "", item.name


def _is_newer(item: ObservedObject, before: ObservedObject) -> bool:
    """Whether it is another version, and no older one."""
    if item.version.isdecimal() and before.version.isdecimal():
        return int(item.version) > int(before.version)
    return item.version != before.version
