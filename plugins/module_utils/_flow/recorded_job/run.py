# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Job that is run once for each specification and whose result is kept.

Record, contents, Job, wait, outcome, end of the Job: every name follows from the specification, so that a run that was
killed anywhere goes on where it was. Nothing is made twice, and a stored outcome is returned without a write.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import hashlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import (
    JobReader,
    JobSignal,
    Signal,
    follow_job,
    is_node_gone,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.logs import Log, NotNow, PodLogs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, is_passing
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import TAIL_LINES, may_read_logs
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
    Ownership,
    Superseded,
    settle_delete,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    TIMEOUT,
    PodFacts,
    PodLimits,
    RunFacts,
    RunState,
    outcome_state,
    pod_that_counts,
    with_numbers,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import (
    HANG_SECONDS,
    judge_run,
    next_loss,
    overdue_nodes,
    with_lost_pods,
)
from ansible_collections.muster.kube.plugins.module_utils._store.run_records import (
    EXPIRES_LABEL,
    MANAGED_LABEL,
    MANAGER,
    RunRecord,
    change_record,
    chunks_of,
    create_owned,
    create_owned_map,
    create_record,
    delete_record,
    drop_chunks,
    drop_results,
    job_name,
    labels_of,
    list_records,
    new_record,
    owner_of,
    owner_uids,
    pack_document,
    read_document,
    read_outcome,
    read_record,
    read_results,
    results_by_index,
    store_outcome,
    store_results,
)

Object = dict[str, t.Any]
Report = t.Callable[[str], None]
Listen = t.Callable[[KubeClient, str, str], Signal]
T = t.TypeVar("T")

# The repetitions that a Job is for; without it the Job is for all that its record does not keep.
SHARE_ANNOTATION = "muster.kube/repetitions"
_DEADLINE_GRACE = 120.0
_REST = 2.0
# How many Jobs one task makes at most when pods hang; each leaves out what hung before.
_MOST_JOBS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """Files for the Job's pods that go into one ConfigMap; key tells the contents of one Job apart."""

    key: str
    data: t.Mapping[str, str] = dataclasses.field(default_factory=dict)
    binary: t.Mapping[str, bytes] = dataclasses.field(default_factory=dict)

    def name(self, record_name: str) -> str:
        """The ConfigMap's name: other files get another name, since the object is immutable."""
        packed = {key: base64.b64encode(value).decode() for key, value in self.binary.items()}
        text = canonical_json({"data": dict(self.data), "binary": packed})
        return f"{record_name}-{self.key}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


@dataclasses.dataclass(frozen=True, slots=True)
class JobPlace:
    """What a Job's description needs to know about where it will stand.

    indexes are the repetitions that are left to be run, None for all; failed is how many of the others failed.
    """

    name: str
    attempt: int
    labels: t.Mapping[str, str]
    contents: t.Mapping[str, str]
    indexes: tuple[int, ...] | None = None
    failed: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over, to be harvested; log reads the end of a pod's container log, None when it is lost.

    results are those of repetitions that were made before.
    """

    state: RunState
    facts: RunFacts
    log: Log
    results: t.Mapping[int, Data] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Repetitions:
    """The indexes of a Job as repetitions: each is harvested when its pod ends, and what finished is never run again.

    result makes of a pod what is kept of it. finished takes out of a stored outcome the results that count for a later
    attempt. failed says of a result whether the repetition failed; more than allowed of these end the run. good says
    whether it succeeded, usable whether a stored result is one of that repetition: others may have changed it.
    """

    count: int
    allowed: int
    limits: PodLimits
    result: t.Callable[[int, PodFacts, Log], Data]
    finished: t.Callable[[Data], dict[int, Data]]
    failed: t.Callable[[Data], bool]
    good: t.Callable[[Data], bool]
    usable: t.Callable[[int, Data], bool]

    def own(self, results: t.Mapping[int, Data]) -> dict[int, Data]:
        """Those of stored results that can be used."""
        return {index: result for index, result in results.items() if index < self.count and self.usable(index, result)}


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedJob:
    """A specification and how it is run.

    spec is kept in the record and identity tells it apart from others of the same name; job gives the manifest
    (batch/v1) without owner; harvest makes the outcome, JSON values only. repeat says of a stored outcome that it does
    not count and the run is to be tried again; longest is the Job's own deadline, after which its controller must have
    ended it. log_lines is how many lines of a log are read from its end. patience is for how many seconds a server is
    waited for that does not answer while the Job runs.
    """

    namespace: str
    name: str
    labels: t.Mapping[str, str]
    spec: Data
    identity: str
    contents: tuple[Content, ...]
    job: t.Callable[[JobPlace], Object]
    harvest: t.Callable[[Ended], Data]
    failed_as: str
    repeat: t.Callable[[Data], bool]
    start_timeout: float | None = None
    longest: float | None = None
    ttl: float | None = None
    force: bool = False
    wait: bool = True
    log_lines: int = TAIL_LINES
    patience: float = HANG_SECONDS
    repetitions: Repetitions | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Recorded:
    """What became of it; outcome is None while it goes on (then state tells where it stands)."""

    name: str
    attempt: int
    outcome: Data | None
    state: RunState
    cached: bool
    changed: bool


class Cancelled(MusterError):
    """Somebody removed the record while it was worked on."""

    def __init__(self, namespace: str, name: str) -> None:
        """Name the record."""
        super().__init__("finish", f"ConfigMap {namespace}/{name}", "somebody removed it meanwhile")
        self.reason = CANCELLED


def find_recorded(client: KubeClient, terms: RecordedJob) -> Recorded | None:
    """The stored outcome that a run would return without doing anything; None when it would work. Reads only."""
    record = read_record(client, terms.namespace, terms.name)
    outcome = _good_outcome(client, terms, record)
    if record is None or outcome is None:
        return None
    changed = _outdated(record, terms)
    return Recorded(record.name, record.attempt, outcome, outcome_state(outcome), cached=True, changed=changed)


def run_recorded(client: KubeClient, terms: RecordedJob, report: Report, *, listen: Listen = JobSignal) -> Recorded:
    """Have the Job run once for the specification; returns its outcome, stored before or now."""
    record = read_record(client, terms.namespace, terms.name)
    changed = False
    outcome = _good_outcome(client, terms, record)
    if record is not None and record.stored is not None:
        changed = _end_job(client, record)
        if changed and terms.repetitions is not None:
            drop_results(client, record)
    if record is not None and outcome is not None:
        if _outdated(record, terms):
            _update(client, record, terms)
            changed = True
        return Recorded(record.name, record.attempt, outcome, outcome_state(outcome), cached=True, changed=changed)
    try:
        record = _begin(client, terms, record)
        return _Attempt(client, terms, record, report, listen).run()
    except ObjectGone as error:
        raise Cancelled(terms.namespace, terms.name) from error


def _update(client: KubeClient, record: RunRecord, terms: RecordedJob) -> None:
    """Note for how long and with which labels the task wants the record; who changed it meanwhile has his say, too."""
    ttl = {"ttl": None if terms.ttl is None else str(terms.ttl)}
    found: RunRecord | None = record
    while found is not None and found.uid == record.uid and _outdated(found, terms):
        with contextlib.suppress(Superseded):
            change_record(client, found, ttl, labels=terms.labels)
            return
        found = read_record(client, terms.namespace, terms.name)


def _outdated(record: RunRecord, terms: RecordedJob) -> bool:
    """Whether the task wants the record kept for another time or found by other labels; those of others stay."""
    return record.ttl != terms.ttl or not terms.labels.items() <= labels_of(record).items()


def remove_recorded(client: KubeClient, namespace: str, name: str, *, dry: bool = False) -> bool:
    """Delete the Job, the record and with it all that was stored; returns whether there was one."""
    record = read_record(client, namespace, name)
    if record is None:
        return False
    if not dry:
        _end_job(client, record)
        delete_record(client, record)
    return True


def sweep_records(client: KubeClient, namespace: str, selector: str, *, dry: bool = False) -> list[str]:
    """Delete the records whose time is over; returns their names. Records that are kept for ever are not even read."""
    found = list_records(client, namespace, f"{selector},{EXPIRES_LABEL}=true")
    now = ServerClock(client).now()
    old = [record for record in found if record.expired(now)]
    for record in old:
        if not dry:
            _end_job(client, record)
            delete_record(client, record)
    return [record.name for record in old]


def _good_outcome(client: KubeClient, terms: RecordedJob, record: RunRecord | None) -> Data | None:
    """A stored outcome that answers this task."""
    if record is None:
        return None
    if record.identity != terms.identity:
        cause = "it is the record of another specification with the same short name"
        raise MusterError("use", f"ConfigMap {terms.namespace}/{terms.name}", cause)
    if record.stored is None or terms.force:
        return None
    outcome = read_outcome(client, record)
    return None if outcome is None or terms.repeat(outcome) else outcome


def _begin(client: KubeClient, terms: RecordedJob, record: RunRecord | None) -> RunRecord:
    """The record of an attempt that is not over: the one that goes on, the first, or the next."""
    if record is None:
        raw = new_record(terms.namespace, terms.name, terms.labels, terms.spec, terms.identity, terms.ttl)
        return create_record(client, raw)
    if record.stored is None:
        return record
    kept = _kept(client, terms, record)
    changes = {
        "attempt": str(record.attempt + 1),
        "outcome": None,
        "finished": None,
        "ttl": None if terms.ttl is None else str(terms.ttl),
        "spec": canonical_json(terms.spec),
        "kept": pack_document(client, record, _kept_document(kept)) if kept else None,
    }
    try:
        begun = change_record(client, record, changes, labels=terms.labels)
        drop_chunks(client, record, set(record.chunks) - set(chunks_of(begun.kept)))
        return begun
    except Superseded:
        found = read_record(client, terms.namespace, terms.name)
        if found is None:
            raise Cancelled(terms.namespace, terms.name) from None
        if found.attempt == record.attempt and found.uid == record.uid:
            # Somebody only labeled it, for example.
            return _begin(client, terms, found)
        # Another run of the same task was first; go on with its attempt.
        return found


def _kept(client: KubeClient, terms: RecordedJob, record: RunRecord) -> dict[int, Data]:
    """The results of the last attempt that count for the next one."""
    if terms.repetitions is None or terms.force:
        return {}
    outcome = read_outcome(client, record)
    return {} if outcome is None else terms.repetitions.finished(outcome)


def _kept_document(results: t.Mapping[int, Data]) -> Data:
    """Results by their index, as they stand in a record."""
    return {"results": {str(index): results[index] for index in sorted(results)}}


def _end_job(client: KubeClient, record: RunRecord, attempt: int | None = None) -> bool:
    """Delete the Job of an attempt, the record's unless told otherwise, with its pods; whether there was one."""
    name = record.job_name if attempt is None else job_name(record.name, attempt)
    path = resource_path("batch/v1", "jobs", record.namespace, name)
    job = get_object(client, path)
    if job is None or job["metadata"].get("deletionTimestamp"):
        return False
    if record.uid not in owner_uids(job):
        return False
    settle_delete(client, path, job["metadata"]["uid"])
    return True


class _Attempt:
    """One attempt of a record, from wherever it stands to its stored outcome."""

    def __init__(
        self, client: KubeClient, terms: RecordedJob, record: RunRecord, report: Report, listen: Listen
    ) -> None:
        """Nothing is written yet."""
        self._client = client
        self._terms = terms
        self._record = record
        self._report = report
        self._listen = listen
        self._facts = RunFacts(None)
        self._due: float | None = None
        self._results: dict[int, Data] = {}
        self._unsaved: set[int] = set()
        self._planned: tuple[int, ...] = ()
        self._spare: set[str] = set()
        self._past: RunRecord | None = None
        self._said: set[str] = set()
        self._logs = PodLogs(client, record.namespace, terms.log_lines, self._say_once)

    def run(self) -> Recorded:
        """Create what is missing, wait, harvest, store, tidy up; what hangs is left out of a further Job."""
        jobs = 0
        while True:
            self._riding(self._prepare)
            if self._record.stored is not None:
                return self._riding(self._done)
            if not self._terms.wait and (standing := self._standing()) is not None:
                return standing
            state = RunState("succeeded") if self._is_whole() else self._follow()
            jobs += 1
            further = jobs < _MOST_JOBS and bool(self._left_over())
            self._riding(self._go_on if further else functools.partial(self._store, state))

    def _riding(self, call: t.Callable[[], T]) -> T:
        """Do something although the server may be out of reach for a while; the Job does not need us meanwhile."""
        end = self._client.clock() + self._terms.patience
        while True:
            try:
                return call()
            except KubeError as error:
                if not is_passing(error) or self._client.clock() >= end:
                    raise
                self._say_once(f"trying again: {error}")
                self._client.sleep(_REST)

    def _say_once(self, text: str) -> None:
        """Report something that would else be repeated."""
        if text not in self._said:
            self._said.add(text)
            self._report(text)

    def _prepare(self) -> None:
        """Find out what is left to be run, and have its Job; nothing to do for an attempt that is over."""
        while True:
            self._leave_past()
            if self._record.stored is not None:
                return
            job = self._find_job()
            parts = self._load(job)
            if job is not None or self._is_whole():
                return
            if parts:
                # The Job is gone, but what is kept of it counts: the next one is for the others only.
                self._renumber()
            elif self._create():
                return

    def _load(self, job: Object | None) -> bool:
        """Read what is kept of repetitions, and which the Job is for; whether some of this attempt's own are kept."""
        wanted = self._terms.repetitions
        if wanted is None:
            return False
        document = read_document(self._client, self._record, self._record.kept) or {}
        kept = wanted.own(results_by_index(document.get("results")))
        parts = wanted.own(read_results(self._client, self._record))
        share = share_of(job, wanted.count)
        missing = tuple(index for index in range(wanted.count) if index not in kept)
        self._planned = missing if share is None else share
        self._results = kept | parts | self._results
        return bool(parts)

    def _is_whole(self) -> bool:
        """Whether there is a result of each repetition, so that there is nothing to wait for."""
        wanted = self._terms.repetitions
        return wanted is not None and len(self._results) == wanted.count

    def _is_current(self) -> bool:
        """Whether the record, read afresh, still stands at this attempt; whatever it became is gone on with."""
        before = self._record
        found = read_record(self._client, before.namespace, before.name)
        if found is None or found.uid != before.uid:
            raise Cancelled(before.namespace, before.name)
        self._record = found
        if found.attempt == before.attempt and found.stored is None:
            return True
        self._forget()
        return False

    def _forget(self) -> None:
        """Results count for the attempt they were made in; what it hands on stands in the record."""
        self._results, self._unsaved = {}, set()

    def _changed(self, change: t.Callable[[RunRecord], RunRecord]) -> bool:
        """Change the record; False when another process ended or left this attempt first, and then nothing is changed.

        Who only labeled the record, for example, is no obstacle.
        """
        while True:
            try:
                self._record = change(self._record)
                return True
            except Superseded:
                if not self._is_current():
                    return False

    def _renumber(self) -> None:
        """Begin an attempt for the repetitions without a result; the record keeps the others."""
        before = self._record
        results = self._results

        def change(record: RunRecord) -> RunRecord:
            """The record of the next attempt."""
            kept = pack_document(self._client, record, _kept_document(results))
            return change_record(self._client, record, {"attempt": str(record.attempt + 1), "kept": kept})

        self._changed(change)
        self._forget()
        self._past = before

    def _leave_past(self) -> None:
        """Take away what an attempt needed that this one was begun after."""
        past = self._past
        if past is not None:
            _end_job(self._client, past)
            drop_results(self._client, past)
            drop_chunks(self._client, past, set(chunks_of(past.kept)) - self._named())
        self._past = None

    def _named(self) -> set[str]:
        """The chunks that the record names."""
        return {*self._record.chunks, *chunks_of(self._record.kept)}

    def _standing(self) -> Recorded | None:
        """Where it stands, for a task that does not wait; None when it is over."""
        if self._is_whole():
            return None
        facts = JobReader(self._client, self._record.namespace, self._record.job_name).read()
        state = self._judge(facts, ServerClock(self._client).now())
        if state.over:
            return None
        return Recorded(self._record.name, self._record.attempt, None, state, cached=False, changed=True)

    def _follow(self) -> RunState:
        """Wait until the Job is over."""
        return follow_job(
            self._client,
            self._record.namespace,
            self._record.job_name,
            self._judge,
            report=self._report,
            listen=self._listen,
            patience=self._terms.patience,
            due=lambda: self._due,
        ).state

    def _find_job(self) -> Object | None:
        """The Job of this attempt if it is there already, so that its contents are, too."""
        path = resource_path("batch/v1", "jobs", self._record.namespace, self._record.job_name)
        job = get_object(self._client, path)
        return job if job is not None and self._is_ours(job) is Ownership.OURS else None

    def _create(self) -> bool:
        """Create contents, then the Job; who may not read its results later is told before anything starts.

        False when the record turns out to stand elsewhere meanwhile, so that this Job is not wanted any more.
        """
        record, terms = self._record, self._terms
        if not may_read_logs(self._client, record.namespace):
            cause = "the right to get pods/log is missing, so its results could not be read"
            raise MusterError("start", f"Job {record.namespace}/{record.job_name}", cause)
        names = {item.key: item.name(record.name) for item in terms.contents}
        for item in terms.contents:
            create_owned_map(self._client, record, names[item.key], item.data, item.binary)
        if record.attempt > 1:
            # Its maker may have been killed before he could end it.
            _end_job(self._client, record, record.attempt - 1)
        job = self._described(record, names)
        if not self._is_current():
            return False
        path = resource_path("batch/v1", "jobs", record.namespace)
        create_owned(self._client, record, path, job, self._is_ours)
        if self._is_current():
            return True
        _end_job(self._client, record)
        return False

    def _described(self, record: RunRecord, contents: t.Mapping[str, str]) -> Object:
        """The Job of this attempt, owned by the record."""
        labels = {key: text for key, text in labels_of(record).items() if key != EXPIRES_LABEL}
        indexes, failed = self._share()
        job = self._terms.job(JobPlace(record.job_name, record.attempt, labels, contents, indexes, failed))
        own = job.get("metadata") or {}
        share = {} if indexes is None else {SHARE_ANNOTATION: " ".join(str(index) for index in indexes)}
        metadata = {
            **own,
            "name": record.job_name,
            "namespace": record.namespace,
            "labels": {**own.get("labels", {}), **labels, MANAGED_LABEL: MANAGER},
            "annotations": {**own.get("annotations", {}), **share},
            "ownerReferences": [owner_of(record)],
        }
        return {**job, "metadata": metadata}

    def _share(self) -> tuple[tuple[int, ...] | None, int]:
        """Which repetitions this Job is for, None for all, and how many others failed."""
        wanted = self._terms.repetitions
        if wanted is None or len(self._planned) == wanted.count:
            return None, 0
        failed = [index for index, result in self._results.items() if wanted.failed(result)]
        return self._planned, len(failed)

    def _is_ours(self, job: Object) -> Ownership:
        """Whether a Job of this name is of this record; one on its way out, or of a deleted record, is a leftover."""
        if (job["metadata"].get("labels") or {}).get(MANAGED_LABEL) != MANAGER:
            return Ownership.FOREIGN
        gone = bool(job["metadata"].get("deletionTimestamp"))
        return Ownership.OURS if self._record.uid in owner_uids(job) and not gone else Ownership.OLDER_ATTEMPT

    def _judge(self, facts: RunFacts, now: float) -> RunState:
        """The state of the run; results of pods that ended are kept at once, a Job nobody ends is given up."""
        terms = self._terms
        self._facts = facts = self._marked(facts, now)
        if terms.repetitions is not None:
            self._gather(terms.repetitions)
        state = self._counted(judge_run(facts, now=now, start_timeout=terms.start_timeout, failed_as=terms.failed_as))
        created = facts.job.created if facts.job is not None else None
        if state.over or terms.longest is None or created is None:
            return state
        if now - created < terms.longest + _DEADLINE_GRACE:
            return state
        return RunState("failed", TIMEOUT, f"nobody ended its Job after {terms.longest:g} s")

    def _counted(self, state: RunState) -> RunState:
        """The state of a run that goes on, with how many of its repetitions have ended."""
        wanted = self._terms.repetitions
        if wanted is None or wanted.count == 1 or state.phase != "running":
            return state
        return dataclasses.replace(state, message=f"{len(self._results)} of {wanted.count}")

    def _marked(self, facts: RunFacts, now: float) -> RunFacts:
        """The facts with the numbers of repetitions instead of those of the Job, and with pods that are given up."""
        wanted = self._terms.repetitions
        if wanted is None:
            return facts
        facts = with_numbers(facts, self._planned)
        late = overdue_nodes(facts, now=now, limits=wanted.limits)
        gone = frozenset(name for name in late if is_node_gone(self._client, name))
        facts = with_lost_pods(facts, now=now, limits=wanted.limits, gone=gone)
        self._due = next_loss(facts, now=now, limits=wanted.limits)
        return facts

    def _gather(self, wanted: Repetitions) -> None:
        """Keep the results of repetitions that ended, so that nothing that happens to their pods harms them."""
        found: dict[int, Data] = {}
        for index in self._planned:
            pod = pod_that_counts(self._facts.pods, index)
            if index in self._results or pod is None or not pod.decided:
                continue
            try:
                found[index] = wanted.result(index, pod, self._logs.now(pod))
            except NotNow as error:
                self._say_once(str(error))
        self._results |= found
        self._unsaved |= set(found)
        if self._unsaved and any(index not in self._results for index in self._planned):
            self._save()

    def _save(self) -> None:
        """Store what is not stored yet; a store that refuses it costs nothing as long as this process lives."""
        try:
            store_results(self._client, self._record, {index: self._results[index] for index in sorted(self._unsaved)})
        except MusterError as error:
            self._say_once(f"results are not stored before the end: {error}")
        else:
            self._unsaved.clear()

    def _left_over(self) -> list[int]:
        """The repetitions that were not tried because pods hang that are given up, or that succeeded unnoticed."""
        wanted, job = self._terms.repetitions, self._facts.job
        if wanted is None or job is None:
            return []
        if not any(pod.lost for pod in self._facts.pods):
            late = any(pod.noticed_late for pod in self._facts.pods)
            bad = sum(not wanted.good(result) for result in self._results.values())
            if job.failure is None or not late or bad > wanted.allowed:
                return []
        if sum(wanted.failed(result) for result in self._results.values()) > wanted.allowed:
            return []
        tried = {pod.index for pod in self._facts.pods if pod.lost is not None or pod.decided}
        return [index for index in self._planned if index not in self._results and index not in tried]

    def _go_on(self) -> None:
        """Begin an attempt for repetitions that were not tried; the others are kept, and what hung counts as ended."""
        wanted = self._terms.repetitions
        if wanted is None:
            raise ValueError("repetitions are needed")
        for index in self._planned:
            pod = pod_that_counts(self._facts.pods, index)
            if index not in self._results and pod is not None and (pod.lost is not None or pod.decided):
                self._results[index] = wanted.result(index, pod, self._logs.patiently)
        self._renumber()

    def _store(self, state: RunState) -> None:
        """Harvest and keep the outcome; when another run was first, its outcome counts."""
        before = self._record
        if self._facts.job is None and read_record(self._client, before.namespace, before.name) is None:
            raise Cancelled(before.namespace, before.name)
        outcome = self._terms.harvest(Ended(state, self._facts, self._logs.patiently, self._results))
        now = ServerClock(self._client).now()
        if self._changed(lambda record: store_outcome(self._client, record, outcome, now)):
            self._spare = set(chunks_of(before.kept)) - self._named()

    def _done(self) -> Recorded:
        """Tidy up, the Job last since a later task looks for it alone, and tell the outcome."""
        record = self._record
        if self._terms.repetitions is not None:
            drop_results(self._client, record)
            drop_chunks(self._client, record, self._spare)
        _end_job(self._client, record)
        outcome = read_outcome(self._client, record)
        if outcome is None:
            raise MusterError("read", f"the outcome in ConfigMap {record.namespace}/{record.name}", "a part is lost")
        return Recorded(record.name, record.attempt, outcome, outcome_state(outcome), cached=False, changed=True)


def share_of(job: Object | None, count: int) -> tuple[int, ...] | None:
    """The repetitions that a Job says it is for; None when it does not tell."""
    told = ((job or {}).get("metadata", {}).get("annotations") or {}).get(SHARE_ANNOTATION)
    numbers = str(told).split()
    if told is None or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        return None
    share = tuple(int(number) for number in numbers)
    return share if all(number < count for number in share) else None
