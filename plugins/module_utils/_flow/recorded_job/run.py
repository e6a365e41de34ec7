# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Job that is run once for each specification and whose result is kept.

Record, contents, Job, wait, outcome, end of the Job: every name follows from the specification, so that a run that was
killed anywhere goes on where it was. Nothing is made twice, and a stored outcome is returned without a write.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.follow import (
    JobReader,
    JobSignal,
    Signal,
    follow_job,
    is_node_gone,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.job import (
    FinishedRun,
    FoundRun,
    JobContext,
    RecordedJob,
    Repetitions,
    RunResult,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.logs import NotNow, PodLogs
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, is_passing
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import may_read_logs
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
    Ownership,
    Superseded,
)
from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    TIMEOUT,
    RunFacts,
    RunState,
    job_facts,
    outcome_state,
    pod_that_counts,
    with_numbers,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data, canonical_json
from ansible_collections.muster.kube.plugins.module_utils._policy.inspection.run_failure import (
    judge_run,
    next_loss,
    overdue_nodes,
    with_lost_pods,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import ObjectStore
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


class Cancelled(MusterError):
    """Somebody removed the record while it was worked on."""

    def __init__(self, namespace: str, name: str) -> None:
        """Name the record."""
        super().__init__("finish", f"ConfigMap {namespace}/{name}", "somebody removed it meanwhile")
        self.reason = CANCELLED


def find_recorded(client: KubeClient, terms: RecordedJob) -> FoundRun:
    """What is recorded of the specification. Reads only."""
    record = read_record(client, terms.namespace, terms.name)
    if record is None:
        return FoundRun()
    if record.identity != terms.identity:
        cause = "it is the record of another specification with the same short name"
        raise MusterError("use", f"ConfigMap {terms.namespace}/{terms.name}", cause)
    outcome = None if record.stored is None or terms.force else read_outcome(client, record)
    if outcome is None or terms.is_stale(outcome):
        return FoundRun(record, outcome)
    changed = _is_outdated(record, terms)
    result = RunResult(record.name, record.attempt, outcome, outcome_state(outcome), cached=True, changed=changed)
    return FoundRun(record, outcome, result)


def run_recorded(
    client: KubeClient, terms: RecordedJob, report: Report, *, listen: Listen = JobSignal, found: FoundRun | None = None
) -> RunResult:
    """Have the Job run once for the specification; returns its outcome, stored before or now.

    Who has looked for the record already gives what was found.
    """
    found = find_recorded(client, terms) if found is None else found
    record, result = found.record, found.result
    changed = False
    if record is not None and record.stored is not None:
        changed = end_job(client, record)
        if changed and terms.repetitions is not None:
            drop_results(client, record)
    if record is not None and result is not None:
        if result.changed:
            _update(client, record, terms)
        return dataclasses.replace(result, changed=result.changed or changed)
    try:
        return _Attempt(client, terms, _begin(client, terms, found), report, listen).run()
    except ObjectGone as error:
        raise Cancelled(terms.namespace, terms.name) from error


def _update(client: KubeClient, record: RunRecord, terms: RecordedJob) -> None:
    """Write the time and labels that the task wants for the record; changes that others make meanwhile are kept."""
    ttl = {"ttl": None if terms.ttl is None else str(terms.ttl)}
    found: RunRecord | None = record
    while found is not None and found.uid == record.uid and _is_outdated(found, terms):
        with contextlib.suppress(Superseded):
            change_record(client, found, ttl, labels=terms.labels)
            return
        found = read_record(client, terms.namespace, terms.name)


def _is_outdated(record: RunRecord, terms: RecordedJob) -> bool:
    """Whether the task wants the record kept for another time or found by other labels; those of others stay."""
    return record.ttl != terms.ttl or not terms.labels.items() <= labels_of(record).items()


def remove_recorded(client: KubeClient, namespace: str, name: str, *, dry: bool = False) -> bool:
    """Delete the Job, the record and with it all that was stored; returns whether there was one."""
    record = read_record(client, namespace, name)
    if record is None:
        return False
    if not dry:
        end_job(client, record)
        delete_record(client, record)
    return True


def sweep_records(client: KubeClient, namespace: str, *labels: str, dry: bool = False) -> list[str]:
    """Delete the records with one of the labels whose time is over; returns their names.

    Records that are kept for ever are not even read.
    """
    found = list_records(client, namespace, f"{EXPIRES_LABEL}=true")
    now = ServerClock(client).now()
    old = [record for record in found if record.expired(now) and not labels_of(record).keys().isdisjoint(labels)]
    for record in old if not dry else ():
        end_job(client, record)
        delete_record(client, record)
    return [record.name for record in old]


class _Begun(t.NamedTuple):
    """The record of an attempt to work on; made is true if this process has just created it, so that it has no Job."""

    record: RunRecord
    made: bool = False


def _begin(client: KubeClient, terms: RecordedJob, found: FoundRun) -> _Begun:
    """The attempt to work on: the one that is not over, else the first or the next."""
    record = found.record
    if record is None:
        raw = new_record(terms.namespace, terms.name, terms.labels, terms.spec, terms.identity, terms.ttl)
        return _Begun(*create_record(client, raw))
    if record.stored is None:
        return _Begun(record)
    kept = {} if terms.repetitions is None or found.outcome is None else terms.repetitions.finished(found.outcome)
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
        return _Begun(begun)
    except Superseded:
        now = read_record(client, terms.namespace, terms.name)
        if now is None:
            raise Cancelled(terms.namespace, terms.name) from None
        if now.attempt == record.attempt and now.uid == record.uid:
            # Somebody only labeled it, for example.
            return _begin(client, terms, dataclasses.replace(found, record=now))
        # Another run of the same task was first; go on with its attempt.
        return _Begun(now)


def _kept_document(results: t.Mapping[int, Data]) -> Data:
    """Results by their index, as they stand in a record."""
    return {"results": {str(index): results[index] for index in sorted(results)}}


def _jobs(client: KubeClient) -> ObjectStore:
    """The Jobs that records own."""
    return ObjectStore(client, "batch/v1", "jobs")


def find_job(client: KubeClient, record: RunRecord, name: str | None = None) -> Object | None:
    """The Job of the record's attempt, or its Job of that name; None when there is none, or another's."""
    job = _jobs(client).read(record.namespace, name or record.job_name)
    return job if job is not None and record.uid in owner_uids(job) else None


def end_job(client: KubeClient, record: RunRecord, attempt: int | None = None) -> bool:
    """Delete the Job of an attempt, the record's unless told otherwise; whether there was one to delete."""
    job = find_job(client, record, None if attempt is None else job_name(record.name, attempt))
    if job is None or job["metadata"].get("deletionTimestamp"):
        return False
    _jobs(client).delete(job)
    return True


class _Attempt:
    """Works on the attempts of one record until an outcome is stored."""

    def __init__(self, client: KubeClient, terms: RecordedJob, begun: _Begun, report: Report, listen: Listen) -> None:
        self._client = client
        self._terms = terms
        self._record = begun.record
        self._is_new = begun.made
        # The Job that this process has just created, and that nobody has looked at since.
        self._new_job: Object | None = None
        # The Job of the attempt, once it was seen.
        self._job: Object | None = None
        self._report = report
        self._listen = listen
        self._facts = RunFacts(None)
        self._due: float | None = None
        self._results: dict[int, Data] = {}
        self._unsaved: set[int] = set()
        self._planned: tuple[int, ...] = ()
        self._unneeded_chunks: set[str] = set()
        self._previous: RunRecord | None = None
        self._said: set[str] = set()
        self._logs = PodLogs(client, terms.namespace, terms.log_lines, self._say_once, terms.is_whole)

    def run(self) -> RunResult:
        """Create what is missing, wait, harvest, store, tidy up; a further Job leaves out what hung."""
        jobs = 0
        while True:
            self._through_outages(self._prepare)
            if self._record.stored is not None:
                return self._through_outages(self._done)
            if not self._terms.wait and (result := self._state_now()) is not None:
                return result
            state = RunState("succeeded") if self._is_complete() else self._follow()
            jobs += 1
            further = jobs < _MOST_JOBS and bool(self._untried())
            self._through_outages(self._begin_next if further else functools.partial(self._store, state))

    def _through_outages(self, call: t.Callable[[], T]) -> T:
        """Call until the server answers, for at most patience seconds; the Job runs on without us."""
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
        """Report a text unless it was reported before."""
        if text not in self._said:
            self._said.add(text)
            self._report(text)

    def _prepare(self) -> None:
        """Find out which repetitions are left and create their Job, unless it is there or the attempt is over."""
        is_new, self._is_new = self._is_new, False
        while True:
            self._tidy_previous()
            if self._record.stored is not None:
                return
            self._job = None if is_new else self._find_job()
            parts = self._load(is_new)
            if self._job is not None or self._is_complete():
                return
            if parts:
                # The Job is gone, but what is kept of it counts: the next one is for the others only.
                self._renumber()
            elif self._create(is_new):
                return
            is_new = False

    def _load(self, is_new: bool) -> bool:
        """Read stored results and plan the missing repetitions; returns whether results of this attempt are stored."""
        wanted = self._terms.repetitions
        if wanted is None:
            return False
        document = read_document(self._client, self._record, self._record.kept) or {}
        kept = wanted.own(results_by_index(document.get("results")))
        parts = {} if is_new or wanted.count == 1 else wanted.own(read_results(self._client, self._record))
        share = share_of(self._job, wanted.count)
        missing = tuple(index for index in range(wanted.count) if index not in kept)
        self._planned = missing if share is None else share
        self._results = kept | parts | self._results
        return bool(parts)

    def _is_complete(self) -> bool:
        """Whether every repetition has a result, so that there is nothing to wait for."""
        wanted = self._terms.repetitions
        return wanted is not None and len(self._results) == wanted.count

    def _is_current(self) -> bool:
        """Read the record again; returns whether it is still at this attempt. Work goes on with what was read."""
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
        """Drop the results in memory when the attempt is left; the record holds what the next one keeps."""
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
        self._previous = before

    def _tidy_previous(self) -> None:
        """Delete the Job, results and chunks of the attempt before this one."""
        previous = self._previous
        if previous is not None:
            end_job(self._client, previous)
            self._drop_results(previous)
            drop_chunks(self._client, previous, set(chunks_of(previous.kept)) - self._used_chunks())
        self._previous = None

    def _drop_results(self, record: RunRecord) -> None:
        """Delete stored results of repetitions; a single repetition never has any, its result goes into the outcome."""
        if self._terms.repetitions is not None and self._terms.repetitions.count > 1:
            drop_results(self._client, record)

    def _used_chunks(self) -> set[str]:
        """The chunks that the record names."""
        return {*self._record.chunks, *chunks_of(self._record.kept)}

    def _state_now(self) -> RunResult | None:
        """Where it stands, for a task that does not wait; None when it is over."""
        if self._is_complete():
            return None
        facts = JobReader(self._client, self._record.namespace, self._record.job_name).read()
        state = self._judge(facts, ServerClock(self._client).now())
        if state.over:
            return None
        return RunResult(self._record.name, self._record.attempt, None, state, cached=False, changed=True)

    def _follow(self) -> RunState:
        """Wait until the Job is over."""
        new, self._new_job = self._new_job, None
        return follow_job(
            self._client,
            self._record.namespace,
            self._record.job_name,
            self._judge,
            report=self._report,
            listen=self._listen,
            patience=self._terms.patience,
            due=lambda: self._due,
            known=None if new is None else RunFacts(job_facts(new)),
        )

    def _find_job(self) -> Object | None:
        """The Job of this attempt if it exists; then its files exist, too."""
        job = find_job(self._client, self._record)
        return job if job is not None and self._is_ours(job) is Ownership.OURS else None

    def _create(self, is_new: bool) -> bool:
        """Create the files, then the Job; an account that may not read logs is refused before anything starts.

        False when the Job has to be looked at: somebody else made it, or the record turns out to stand elsewhere.
        """
        record, terms = self._record, self._terms
        if terms.check_logs and not may_read_logs(self._client, record.namespace):
            cause = "the right to get pods/log is missing, so its results could not be read"
            raise MusterError("start", f"Job {record.namespace}/{record.job_name}", cause)
        names = {bundle.key: bundle.name(record.name) for bundle in terms.bundles}
        for bundle in terms.bundles:
            create_owned_map(self._client, record, names[bundle.key], {}, bundle.files)
        if record.attempt > 1:
            # The process that created it may have been killed before it could delete it.
            end_job(self._client, record, record.attempt - 1)
        job = self._manifest(record, names)
        if not is_new and not self._is_current():
            return False
        made = create_owned(_jobs(self._client), job, self._is_ours)
        # A new record without repetitions cannot have been ended meanwhile; one that was removed takes its Job along.
        if not (is_new and terms.repetitions is None) and not self._is_current():
            end_job(self._client, record)
            return False
        if made.read_back:
            return False
        self._job = self._new_job = made.obj
        return True

    def _manifest(self, record: RunRecord, bundles: t.Mapping[str, str]) -> Object:
        """The Job of this attempt, owned by the record."""
        labels = {key: text for key, text in labels_of(record).items() if key != EXPIRES_LABEL}
        indexes, failed = self._share()
        job = self._terms.job(JobContext(record.job_name, labels, bundles, indexes, failed))
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
        """The state of the run; stores results of ended pods at once, and gives up a Job that outlives its deadline."""
        terms = self._terms
        self._facts = facts = self._with_lost_pods(facts, now)
        if terms.repetitions is not None:
            self._gather(terms.repetitions)
        state = self._with_progress(
            judge_run(facts, now=now, start_timeout=terms.start_timeout, failed_as=terms.failed_as)
        )
        created = facts.job.created if facts.job is not None else None
        if state.over or terms.deadline_seconds is None or created is None:
            return state
        if now - created < terms.deadline_seconds + _DEADLINE_GRACE:
            return state
        return RunState("failed", TIMEOUT, f"nobody ended its Job after {terms.deadline_seconds:g} s")

    def _with_progress(self, state: RunState) -> RunState:
        """The state of a run that goes on, with how many of its repetitions have ended."""
        wanted = self._terms.repetitions
        if wanted is None or wanted.count == 1 or state.phase != "running":
            return state
        return dataclasses.replace(state, message=f"{len(self._results)} of {wanted.count}")

    def _with_lost_pods(self, facts: RunFacts, now: float) -> RunFacts:
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
        """Read and store the results of ended repetitions, so that they survive their pods."""
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
        """Store new results; if that fails they are still in memory, and the outcome will hold them."""
        try:
            store_results(self._client, self._record, {index: self._results[index] for index in sorted(self._unsaved)})
        except MusterError as error:
            self._say_once(f"results are not stored before the end: {error}")
        else:
            self._unsaved.clear()

    def _untried(self) -> list[int]:
        """The repetitions that were not tried because of lost pods, or of successes that were noticed too late."""
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

    def _begin_next(self) -> None:
        """Begin an attempt for the untried repetitions; the results of the others, lost pods among them, are kept."""
        wanted = self._terms.repetitions
        if wanted is None:
            raise ValueError("repetitions are needed")
        for index in self._planned:
            pod = pod_that_counts(self._facts.pods, index)
            if index not in self._results and pod is not None and (pod.lost is not None or pod.decided):
                self._results[index] = wanted.result(index, pod, self._logs.patiently)
        self._renumber()

    def _store(self, state: RunState) -> None:
        """Harvest and store the outcome; if another process stored one first, that one counts."""
        before = self._record
        if self._facts.job is None and read_record(self._client, before.namespace, before.name) is None:
            raise Cancelled(before.namespace, before.name)
        outcome = self._terms.harvest(FinishedRun(state, self._facts, self._logs.patiently, self._results))
        now = ServerClock(self._client).now()
        if self._changed(lambda record: store_outcome(self._client, record, outcome, now)):
            self._unneeded_chunks = set(chunks_of(before.kept)) - self._used_chunks()

    def _done(self) -> RunResult:
        """Tidy up, the Job last since later tasks look for nothing else, and return the outcome."""
        record = self._record
        self._drop_results(record)
        drop_chunks(self._client, record, self._unneeded_chunks)
        if self._job is not None and self._job["metadata"]["name"] == record.job_name:
            _jobs(self._client).delete(self._job)
        else:
            end_job(self._client, record)
        outcome = read_outcome(self._client, record)
        if outcome is None:
            raise MusterError("read", f"the outcome in ConfigMap {record.namespace}/{record.name}", "a part is lost")
        return RunResult(record.name, record.attempt, outcome, outcome_state(outcome), cached=False, changed=True)


def share_of(job: Object | None, count: int) -> tuple[int, ...] | None:
    """The repetitions that a Job says it is for; None when it does not tell."""
    told = ((job or {}).get("metadata", {}).get("annotations") or {}).get(SHARE_ANNOTATION)
    numbers = str(told).split()
    if told is None or not all(number.isdecimal() and len(number) < 10 for number in numbers):
        return None
    share = tuple(int(number) for number in numbers)
    return share if all(number < count for number in share) else None
