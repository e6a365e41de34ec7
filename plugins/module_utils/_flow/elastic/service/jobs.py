# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The jobs that the HTTP service knows: which one a caller means, and what is told of each."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.reported import (
    known_progress,
    progress_data,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.identity import (
    Caller,
    Gatekeeper,
    record_deed,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.refusals import Declined
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.service.turns import Turns
from ansible_collections.muster.kube.plugins.module_utils._flow.elastic.told_job import restarts_of
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.epochs import epochs_of
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.metadata import JobMetadata
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.service.requests import AskedJob
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import RECORD_LABEL
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, record_from_api
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import ACTIVE_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import (
    ProgressStore,
    StoredProgress,
    list_progress,
    progress_name,
)
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import (
    Records,
    read_record,
    record_path,
)

_SELECTOR = f"{RECORD_LABEL}=gang"
_STATUS = {"complete": "completed", "failed": "failed"}


class Jobs:
    """The elastic gangs of some namespaces, None for all; everything is read anew each time."""

    def __init__(self, client: KubeClient, gatekeeper: Gatekeeper, namespaces: Sequence[str] | None) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._gatekeeper = gatekeeper
        self.namespaces = None if namespaces is None else tuple(sorted(set(namespaces)))
        self.turns = Turns()

    @property
    def places(self) -> tuple[str | None, ...]:
        """The namespaces as lists are asked for."""
        return (None,) if self.namespaces is None else self.namespaces

    def find(self, caller: Caller, asked: AskedJob, verb: str) -> Record:
        """The record of the job that somebody means, and may do this to."""
        place = self.place(caller, asked, verb)
        self._gatekeeper.require_on_job(caller, verb, *place)
        record = read_record(self._client, "configmap", *place)
        if record is None:
            raise Declined(404, f"there is no job {'/'.join(place)}")
        self._gatekeeper.require_on_job(caller, verb, *place, uid=record.uid)
        if record.spec is None:
            raise Declined(409, f"job {record.key}: {record.newer or record.unreadable}")
        if record.spec.elastic is None:
            raise Declined(404, f"gang {record.key} is of fixed size, and no elastic job")
        return record

    def place(self, caller: Caller, asked: AskedJob, verb: str = "get") -> tuple[str, str]:
        """Namespace and name of a job; a name alone means the job of the caller's pod, or the only one of that name.

        Who may do this to none of that name is not told whether there is any, nor where.
        """
        gang = caller.gang
        if gang is not None and asked.namespace in (None, gang.namespace) and asked.name in gang.aliases:
            return gang.namespace, gang.name
        if asked.namespace is not None:
            self.require_served(asked.namespace)
            return asked.namespace, asked.name
        homes = self._homes(asked.name)
        seen = [home for home in homes if self._gatekeeper.may(caller, record_deed(verb, home, asked.name))]
        if not seen:
            raise self._unseen(caller, asked.name, bool(homes))
        if len(homes) > 1:
            others = " and others" if len(seen) < len(homes) else ""
            words = f"{', '.join(seen)}{others}; name it as NAMESPACE/{asked.name}"
            raise Declined(409, f"several namespaces have a job {asked.name}: {words}", namespaces=seen)
        return homes[0], asked.name

    def _unseen(self, caller: Caller, name: str, there: bool) -> Declined:
        """The answer where somebody sees no job of a name; that there is none is for those who may list all."""
        if not there and all(self._gatekeeper.may(caller, record_deed("list", place)) for place in self.places):
            return Declined(404, f"there is no job {name}")
        return Declined(403, f"{caller.user.name} sees no job {name}; name it as NAMESPACE/{name}")

    def require_served(self, namespace: str) -> None:
        """404 for a namespace that this service does not serve."""
        if self.namespaces is not None and namespace not in self.namespaces:
            raise Declined(404, f"this service does not serve namespace {namespace}")

    def _homes(self, name: str) -> list[str]:
        """The namespaces that have a job of this name."""
        asks = [functools.partial(self._homes_in, namespace, name) for namespace in self.places]
        return sorted(home for homes in parallel(asks) for home in homes)

    def _homes_in(self, namespace: str | None, name: str) -> list[str]:
        """The same in one of the lists that are served."""
        path = record_path("configmap", namespace)
        field = f"metadata.name={name}"
        found = list_objects(
            self._client, path, keep=record_from_api, label_selector=_SELECTOR, field_selector=field
        ).items
        return [item.namespace for item in found if item.spec is None or item.spec.elastic is not None]

    # What is told.

    def readable(self, caller: Caller) -> list[JobMetadata]:
        """All jobs that somebody may read, by namespace and name."""
        with self.turns.one():
            return self._readable(caller)

    def _readable(self, caller: Caller) -> list[JobMetadata]:
        """The same, by reading all of them."""
        records = [
            record
            for record in Records(self._client).list(self.namespaces, ["configmap"])
            if record.spec is not None and record.spec.elastic is not None
        ]
        homes = sorted({record.namespace for record in records})
        seen = {home for home in homes if self._gatekeeper.may(caller, record_deed("list", home))}
        mine = None if caller.gang is None else caller.gang.uid
        shown = [item for item in records if item.namespace in seen or item.uid == mine]
        if not shown and homes and mine is None and not seen:
            raise Declined(403, f"{caller.user.name} may not list configmaps in any namespace with jobs")
        spaces = sorted({record.namespace for record in shown})
        progress = list_progress(FreshLists(self._client), spaces)
        now = ServerClock(self._client).now()
        return [_metadata(item, progress.get((item.namespace, progress_name(item.name))), now) for item in shown]

    def told(self, record: Record) -> JobMetadata:
        """One job."""
        return _metadata(record, ProgressStore(self._client).read(record), ServerClock(self._client).now())


def as_told(jobs: Iterable[JobMetadata]) -> list[Data]:
    """Jobs in plain values."""
    return [job.as_data() for job in jobs]


def _metadata(record: Record, stored: StoredProgress | None, now: float) -> JobMetadata:
    """What the record and its progress say of a job."""
    terms, state = None if record.spec is None else record.spec.elastic, record.state
    if terms is None:
        raise AssertionError(f"{record.key} is no elastic job")
    known = _known(record, stored, now)
    range_, size = terms.range, None
    if state is not None and record.phase in ACTIVE_PHASES:
        size = state.allotment
    saved = known.checkpoints
    seen = None if known.seen is None else known.seen.step
    return JobMetadata(
        job_name=record.name,
        namespace=record.namespace,
        gpu_req=range_.gpus(range_.min),
        gpu_lim=range_.gpus(range_.max),
        gpu_assigned=0 if size is None else range_.gpus(size),
        replicas=_pods(record),
        total_epochs=epochs_of(known, known.total),
        job_arrival_time=record.submitted,
        last_checkpoint_time=saved[-1].time if saved else record.submitted,
        completed_epochs=epochs_of(known, seen),
        time_bw_checkpoints=round(saved[-1].time - saved[-2].time, 3) if len(saved) > 1 else None,
        status=_STATUS.get(record.phase, "completed" if known.remaining == 0 else "scheduled"),
        restarts=restarts_of(record.phase, record.attempt),
        phase=record.phase,
        allotment=size,
        progress=None if known == Progress() else progress_data(known),
    )


def _known(record: Record, stored: StoredProgress | None, now: float) -> Progress:
    """What is known of the training; nothing where that is of an earlier job of this name."""
    if stored is None or stored.owner != record.uid:
        return Progress()
    return stored.progress or Progress() if record.state is None else known_progress(stored, record.state, now)


def _pods(record: Record) -> int:
    """The pods of a job at its present size."""
    try:
        return 0 if record.spec is None else sum(podset.count for podset in record.spec.demand)
    except BadInput:
        return 0
