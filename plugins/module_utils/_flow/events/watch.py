# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind the event source watch: each change of some objects is an event."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.events.collection import (
    Collection,
    Report,
    SourceEnd,
    SourceEnded,
    SourceWork,
    Tell,
    follow,
    places_of,
    source_work,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.events.observed import (
    CHANGE_TYPES,
    ChangeType,
    ObservedChange,
    ObservedObject,
    ObservedObjects,
    ToldFields,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object

_ALL_FIELDS = ToldFields()


@dataclass(frozen=True, slots=True)
class WatchedKind:
    """The objects of one kind that are watched, and what of them is told; of all namespaces if none is named."""

    api_version: str
    kind: str
    namespaces: Sequence[str] = ()
    label_selector: str | None = None
    field_selector: str | None = None
    types: Sequence[ChangeType] = CHANGE_TYPES
    fields: ToldFields = _ALL_FIELDS

    def collections(self) -> list[Collection]:
        """What is listed and watched."""
        places = places_of(self.namespaces)
        selectors = self.label_selector, self.field_selector
        return [
            Collection(self.api_version, self.kind, place, number == 0, *selectors)
            for number, place in enumerate(places)
        ]


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """What is watched; existing says whether the objects that are there at the beginning are told."""

    kinds: Sequence[WatchedKind]
    existing: bool = True


def watch_work(client: KubeClient, end: SourceEnd, options: WatchOptions, report: Report) -> SourceWork:
    """One part for each kind and namespace."""
    parts = [
        partial(_watch, client, kind, collection, options.existing, report)
        for kind in options.kinds
        for collection in kind.collections()
    ]
    return source_work(client, end, parts)


def _watch(
    client: KubeClient, kind: WatchedKind, collection: Collection, existing: bool, report: Report, tell: Tell
) -> None:
    """Tell every change of one collection until the source ends."""
    known = ObservedObjects(kind.fields, existing=existing)
    try:
        for step in follow(client, collection, known.keep, report):
            for change in known.changes(step):
                if change.type in kind.types:
                    tell(event_of(kind, change))
    except SourceEnded:
        return


def event_of(kind: WatchedKind, change: ObservedChange) -> Object:
    """A change as an event."""
    item = change.after
    return {
        "type": change.type,
        "api_version": kind.api_version,
        "kind": kind.kind,
        "namespace": item.namespace,
        "name": item.name,
        "uid": item.uid,
        "resource_version": item.version,
        "existing": change.existing,
        "missed": change.missed,
        **item.standing.as_data(),
        "before": None if change.before is None else change.before.as_data(),
        "object": item.shown if item.shown is not None else _remembered(kind, item),
    }


def _remembered(kind: WatchedKind, item: ObservedObject) -> Object:
    """What is left of an object that went while nobody looked."""
    metadata = {"name": item.name, "uid": item.uid, "resourceVersion": item.version, "labels": dict(item.labels)}
    home = {} if item.namespace is None else {"namespace": item.namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**metadata, **home}}
