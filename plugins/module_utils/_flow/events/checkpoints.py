# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind the event source checkpoints: each checkpoint of an elastic gang that is safely stored."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence
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
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import ApiError, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.watch import WatchStep
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Checkpoint
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import Store
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import Object
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import LAST_MOMENT, micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import PROGRESS_LABEL, decode_progress
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import read_record


@dataclass(frozen=True, slots=True)
class CheckpointEventOptions:
    """Whose checkpoints are told; existing says whether the last one of each gang is told at the beginning."""

    namespaces: Sequence[str] = ()
    existing: bool = True


class SavedWork(t.NamedTuple):
    """What the progress of a gang says of its checkpoints; asked tells that the trainer was asked for one."""

    uid: str
    namespace: str
    gang: str
    owner: Mapping[str, t.Any]
    checkpoints: tuple[Checkpoint, ...]
    asked: bool


def saved_work(raw: Object) -> SavedWork | None:
    """What is kept of a ConfigMap with progress; None for one that no gang owns."""
    stored = decode_progress(raw)
    owners = raw["metadata"].get("ownerReferences") or ()
    if not owners:
        return None
    told = [*(stored.progress.checkpoints if stored.progress is not None else ())]
    if stored.report is not None and stored.report.checkpoint is not None:
        told.append(stored.report.checkpoint)
    name, asked = str(owners[0].get("name")), stored.asked is not None
    return SavedWork(str(raw["metadata"]["uid"]), stored.place[0], name, owners[0], tuple(told), asked)


class ToldCheckpoints:
    """Which checkpoint was told last of each gang; as everywhere, one counts only if its step is a later one."""

    def __init__(self, *, existing: bool = True) -> None:
        """Nothing is known before the first list."""
        self._existing = existing
        self._last: dict[str, int] | None = None

    def news(self, step: WatchStep[SavedWork]) -> Iterator[tuple[SavedWork, Checkpoint]]:
        """The checkpoints that a step tells of and nobody was told, in their order."""
        begins = self._last is None
        last = self._last = self._last or {}
        if step.type == "SYNC":
            there = {item.uid for item in step.items}
            for uid in [uid for uid in last if uid not in there]:
                del last[uid]
        items = step.items if step.item is None else (step.item,)
        for item in items:
            if step.type == "DELETED":
                last.pop(item.uid, None)
                continue
            fresh = self._fresh(last, item)
            if begins:
                fresh = fresh[-1:] if self._existing else []
            yield from ((item, saved) for saved in fresh)

    def _fresh(self, last: dict[str, int], item: SavedWork) -> list[Checkpoint]:
        """Those of one gang with a later step than the last one."""
        fresh: list[Checkpoint] = []
        for saved in sorted(item.checkpoints, key=lambda found: found.step):
            if saved.step > last.get(item.uid, -1):
                last[item.uid] = saved.step
                fresh.append(saved)
        return fresh


def checkpoints_work(client: KubeClient, end: SourceEnd, options: CheckpointEventOptions, report: Report) -> SourceWork:
    """One part for each namespace, or one for all of them."""
    places = places_of(options.namespaces)
    parts = [partial(_watch_checkpoints, client, place, options.existing, report) for place in places]
    return source_work(client, end, parts)


def _watch_checkpoints(client: KubeClient, namespace: str | None, existing: bool, report: Report, tell: Tell) -> None:
    """Tell the checkpoints of one namespace until the source ends."""
    told = ToldCheckpoints(existing=existing)
    maps = Collection("v1", "ConfigMap", namespace, label_selector=PROGRESS_LABEL)
    try:
        for step in follow(client, maps, saved_work, report):
            for item, saved in told.news(step):
                tell(_event_of(item, saved, _waiting(client, item) if item.asked else None))
    except SourceEnded:
        return


def _waiting(client: KubeClient, item: SavedWork) -> Object | None:
    """The resize of a gang that waits for a checkpoint; None where none does, or this account may not see it."""
    store: Store = "appwrapper" if item.owner.get("kind") == "AppWrapper" else "configmap"
    try:
        record = read_record(client, store, item.namespace, item.gang)
    except (ApiError, Unreachable):
        return None
    if record is None or record.uid != item.owner.get("uid") or record.state is None:
        return None
    plan = record.state.planned
    if plan is None or not plan.waits:
        return None
    return {"from": plan.size, "to": plan.to, "why": plan.why, "since": plan.since}


def _event_of(item: SavedWork, saved: Checkpoint, resize: Object | None) -> Object:
    """A checkpoint as an event."""
    return {
        "type": "CHECKPOINT",
        "gang": item.gang,
        "namespace": item.namespace,
        "step": saved.step,
        "time": micro_time_text(int(min(saved.time, LAST_MOMENT) * 1_000_000)),
        "asked": item.asked,
        "resize_waits": resize is not None,
        "resize": resize,
    }
