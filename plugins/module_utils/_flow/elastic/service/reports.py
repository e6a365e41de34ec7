# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What trainings and the programs around them report over HTTP; everything is stored before it is answered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.reported import ToldProgress, tell_progress
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.identity import Caller
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.jobs import Jobs
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Conflict
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Checkpoint, Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.epochs import steps_of, with_epochs
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.metadata import differences
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.requests import (
    AskedJob,
    CheckpointReport,
    JobStatus,
    ToldMetadata,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.trainer_report import (
    TrainerReport,
    is_older,
    read_report,
    with_report,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import DISPATCHED_PHASES, GangState
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, Fields
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.checkpoint_wait import asked_after
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import (
    ASKED_KEY,
    REPORT_KEY,
    ProgressStore,
    StoredProgress,
    progress_name,
)

# Dispatchers write there too; each time somebody was faster the report is looked at anew.
_TRIES = 6

_Change = Callable[[Progress], Progress]


class Reports:
    """Takes reports in."""

    def __init__(self, client: KubeClient, jobs: Jobs) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._jobs = jobs

    def checkpoint(self, caller: Caller, report: CheckpointReport) -> Data:
        """A checkpoint is durably stored, says who reports; the answer tells whether another one is asked for."""
        record = self._running(caller, report.job)
        state = _state_of(record)
        now = ServerClock(self._client).stamp()
        size, began = state.allotment or 1, read_time(state.started_at) or now

        def change(known: Progress) -> Progress:
            """What is known with this report; one that tells nothing new leaves all as it is."""
            epochs = _comparable(known, report.total_epochs)
            step = steps_of(epochs, report.completed_epochs)
            told = TrainerReport(report.time, step, epochs.total, Checkpoint(report.time, step))
            before = dataclasses.replace(epochs, total=known.total)
            after = with_report(before, told, size=size, began=began, now=now)
            return known if after == before else after

        done = tell_progress(self._client, record, now, change)
        asked = asked_after(state.planned, done.after) is not None
        return {**self._jobs.told(record).as_data(), "save_now": asked}

    def status(self, caller: Caller, job: AskedJob, status: JobStatus) -> Data:
        """The training is done, says who reports; that it is not is nothing new."""
        record = self._jobs.find(caller, job, "update")
        told = self._jobs.told(record)
        if status == "completed" and told.status == "scheduled":
            self._require_running(record)
            done = self._tell(record, lambda known: known.at_end())
            if done.after.seen is None:
                raise Declined(409, f"job {record.key} has told no progress that could be complete")
            told = self._jobs.told(record)
        return told.as_data()

    def metadata(self, caller: Caller, told: ToldMetadata) -> tuple[Data, bool]:
        """Somebody tells what the cluster knows, and how many epochs there are; whether anything was stored."""
        record = self._jobs.find(caller, told.job, "update")
        other = differences(self._jobs.told(record), told.told)
        if other:
            raise Declined(409, f"job {record.key}: {'; '.join(other)}", differences=other)
        stored = False
        if told.total_epochs is not None:
            total = told.total_epochs
            done = self._tell(record, lambda known: _comparable(known, total))
            stored = done.after != done.before
        if told.status is not None:
            return self.status(caller, AskedJob(record.name, record.namespace), told.status), stored
        return self._jobs.told(record).as_data(), stored

    def restarts(self, caller: Caller, job: AskedJob) -> Data:
        """How often a job was restarted; dispatchers count that, so there is nothing to store."""
        return self._jobs.told(self._jobs.find(caller, job, "update")).as_data()

    # What the file for trainings reads and writes, as it would from the API server.

    def read(self, caller: Caller, namespace: str, name: str) -> Data:
        """The progress of the gang of the caller's pod."""
        return self._as_configmap(self._stored(self._own(caller, namespace, name)))

    def write(self, caller: Caller, namespace: str, name: str, data: Fields) -> Data:
        """The report of a trainer; an older one than is stored changes nothing."""
        record = self._own(caller, namespace, name)
        data.only([REPORT_KEY])
        text = data.required_text(REPORT_KEY)
        report = read_report(text, REPORT_KEY)
        for turn in range(1, _TRIES + 1):
            stored = self._stored(record)
            if stored.report is not None and is_older(report, stored.report, ServerClock(self._client).now()):
                return self._as_configmap(stored)
            try:
                return self._as_configmap(ProgressStore(self._client).write_report(stored, text))
            except Conflict:
                if turn == _TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    def _own(self, caller: Caller, namespace: str, name: str) -> Record:
        """The record of the caller's gang, if that is what its ConfigMap is named after."""
        gang = caller.gang
        if gang is None or (namespace, name) != (gang.namespace, progress_name(gang.name)):
            raise Declined(403, f"{caller.user.name} has no pod of the gang of ConfigMap {namespace}/{name}")
        return self._jobs.find(caller, AskedJob(gang.name, gang.namespace), "update")

    def _stored(self, record: Record) -> StoredProgress:
        """What is stored of a gang; a dispatcher makes the first."""
        stored = ProgressStore(self._client).read(record)
        if stored is None:
            raise Declined(404, f"no dispatcher has asked for the progress of job {record.key} yet")
        return stored

    def _as_configmap(self, stored: StoredProgress) -> Data:
        """What a trainer may see of it."""
        namespace, name = stored.place
        data = stored.raw.get("data") or {}
        shown = {key: data[key] for key in (REPORT_KEY, ASKED_KEY) if key in data}
        meta = {"namespace": namespace, "name": name}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": shown}

    # What all of them share.

    def _tell(self, record: Record, change: _Change) -> ToldProgress:
        """Take something in that does not depend on when it was told."""
        return tell_progress(self._client, record, ServerClock(self._client).stamp(), change)

    def _running(self, caller: Caller, job: AskedJob) -> Record:
        """The record of a job that runs."""
        record = self._jobs.find(caller, job, "update")
        self._require_running(record)
        return record

    def _require_running(self, record: Record) -> None:
        """409 for a job that does not run: nobody trains."""
        if record.state is None or record.phase not in DISPATCHED_PHASES or record.state.allotment is None:
            raise Declined(409, f"job {record.key} does not run, it is {record.phase}")


def _state_of(record: Record) -> GangState:
    """The state of a job that runs."""
    if record.state is None:
        raise AssertionError(f"{record.key} runs and has no state")
    return record.state


def _comparable(known: Progress, total: float | None) -> Progress:
    """Progress that can be told in epochs; 409 where it is told in steps that nobody can compare."""
    try:
        return with_epochs(known, total)
    except BadInput as error:
        raise Declined(409, str(error)) from error
