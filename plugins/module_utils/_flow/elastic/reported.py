# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked of a cluster to tell of jobs: what trainers told of those that run, and what the server can do."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import JOBS_CHANGE_SINCE
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict, Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, server_version
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Checkpoint, Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.trainer_report import with_report
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    DISPATCHED_PHASES,
    FINISHED_PHASES,
    GangState,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text, read_time
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import (
    ProgressStore,
    StoredProgress,
    list_progress,
    progress_name,
)

# Trainers and dispatchers write there too; each time somebody was faster the report is taken in anew.
_TRIES = 6


@dataclasses.dataclass(frozen=True, slots=True)
class ToldProgress:
    """What was known of a training before somebody told of it, and what is known now."""

    before: Progress
    after: Progress
    warnings: tuple[str, ...] = ()


class Reported:
    """Progress of jobs, read once for each namespace in which one of them runs, or ran to its end."""

    def __init__(self, client: KubeClient) -> None:
        """Nothing is asked before somebody looks at a job that runs."""
        self._client = client
        self._found: dict[str, dict[tuple[str, str], StoredProgress]] = {}

    def of(self, record: Record) -> Data | None:
        """The progress of one job as results tell it; None where nobody told anything, or this account may not read."""
        state = record.state
        if state is None or record.phase not in (*DISPATCHED_PHASES, *FINISHED_PHASES):
            return None
        if record.namespace not in self._found:
            self._found[record.namespace] = self._read(record.namespace)
        stored = self._found[record.namespace].get((record.namespace, progress_name(record.name)))
        if stored is None or stored.owner != record.uid:
            return None
        known = known_progress(stored, state, ServerClock(self._client).now())
        return None if known == Progress() else progress_data(known)

    @functools.cached_property
    def suspended_jobs_change(self) -> bool:
        """Whether suspended Jobs take other resources on this server; it is asked once for its version."""
        return server_version(self._client) >= JOBS_CHANGE_SINCE

    def _read(self, namespace: str) -> dict[tuple[str, str], StoredProgress]:
        """All of one namespace; nothing where this account may not read."""
        try:
            return list_progress(FreshLists(self._client), [namespace])
        except (Forbidden, NotFound):
            return {}


def known_progress(stored: StoredProgress, state: GangState, now: float) -> Progress:
    """What is stored of a gang, with what its trainer told that no dispatcher has taken in yet."""
    known, report = stored.progress or Progress(), stored.report
    if report is None or state.allotment is None:
        return known
    began = read_time(state.started_at) or now
    return with_report(known, report, size=state.allotment, began=began, now=now, asked=stored.asked)


def tell_progress(
    client: KubeClient,
    record: Record,
    time: float,
    change: Callable[[Progress], Progress],
    *,
    check_mode: bool = False,
) -> ToldProgress:
    """Take something in that was told of a training; what changes nothing is not written.

    change makes of what is known what is known then, as often as somebody else writes meanwhile.
    """
    store = ProgressStore(client)
    for turn in range(1, _TRIES + 1):
        stored = store.read(record)
        before, warnings = _known(record, stored, time)
        after = change(before)
        if after != before and not check_mode:
            try:
                _write(store, record, stored, after)
            except NotFound as error:
                raise BadInput("report progress of", f"gang {record.key}", "it was deleted meanwhile") from error
            except Conflict:
                if turn == _TRIES:
                    raise
                continue
        return ToldProgress(before, after, warnings)
    raise AssertionError("the last try returns or raises")


def _write(store: ProgressStore, record: Record, stored: StoredProgress | None, after: Progress) -> None:
    """Store it, unless somebody was faster."""
    if stored is None:
        store.create(record, after)
    else:
        store.write(stored, after, stored.asked)


def _known(record: Record, stored: StoredProgress | None, now: float) -> tuple[Progress, tuple[str, ...]]:
    """What is known already, with what a trainer told that no dispatcher has taken in yet."""
    if stored is None:
        return Progress(), ()
    if stored.newer:
        raise BadInput("report progress of", f"gang {record.key}", "; ".join(stored.problems))
    known = stored.progress or Progress() if record.state is None else known_progress(stored, record.state, now)
    return known, stored.problems


def progress_data(progress: Progress) -> Data:
    """Progress as results tell it."""
    saved, seen = progress.checkpoint, progress.seen
    return {
        "step": None if seen is None else seen.step,
        "total": progress.total,
        "share": None if progress.share is None else round(progress.share, 4),
        "speeds": {str(size): round(speed, 6) for size, speed in progress.speeds.items()},
        "checkpoint": None if saved is None else _told_checkpoint(saved),
        "checkpoints": [_told_checkpoint(item) for item in progress.checkpoints],
        "unsaved": progress.unsaved(),
    }


def _told_checkpoint(saved: Checkpoint) -> Data:
    return {"step": saved.step, "time": told_time(saved.time)}


def told_time(seconds: float) -> str:
    """A moment as results tell it."""
    return micro_time_text(int(seconds * 1_000_000))
