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
import dataclasses
import hashlib
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.recorded_job.record import (
    EXPIRES_LABEL,
    MANAGED_LABEL,
    MANAGER,
    Record,
    change_record,
    create_owned,
    create_owned_map,
    create_record,
    delete_record,
    drop_chunks,
    labels_of,
    list_records,
    new_record,
    owner_of,
    read_outcome,
    read_record,
    store_outcome,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.job_watch import (
    Bell,
    Followed,
    JobBell,
    JobReader,
    follow_job,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.pod_logs import LINE_BYTES, TAIL_LINES, read_log
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import (
    ObjectGone,
    Ownership,
    Superseded,
    settle_delete,
)
from ansible_collections.muster.kube.plugins.module_utils._model.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.fields import Data, canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.job_run import (
    CANCELLED,
    TIMEOUT,
    RunFacts,
    RunState,
    outcome_state,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.run_failure import judge_run

Object = dict[str, t.Any]
Report = t.Callable[[str], None]
Listen = t.Callable[[KubeClient, str, str], Bell]

_DEADLINE_GRACE = 120.0


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
    """What a Job's description needs to know about where it will stand."""

    name: str
    attempt: int
    labels: t.Mapping[str, str]
    contents: t.Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """A run that is over, to be harvested; log reads the end of a pod's container log, None when it is lost."""

    state: RunState
    facts: RunFacts
    log: t.Callable[[str, str], bytes | None]


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedJob:
    """A specification and how it is run.

    spec is kept in the record and identity tells it apart from others of the same name; job gives the manifest
    (batch/v1) without owner; harvest makes the outcome, JSON values only. repeat says of a stored outcome that it does
    not count and the run is to be tried again; longest is the Job's own deadline, after which its controller must have
    ended it. log_lines is how many lines of a log are read from its end.
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


def run_recorded(client: KubeClient, terms: RecordedJob, report: Report, *, listen: Listen = JobBell) -> Recorded:
    """Have the Job run once for the specification; returns its outcome, stored before or now."""
    record = read_record(client, terms.namespace, terms.name)
    changed = False
    outcome = _good_outcome(client, terms, record)
    if record is not None and record.stored is not None:
        changed = _end_job(client, record)
    if record is not None and outcome is not None:
        if _outdated(record, terms):
            ttl = {"ttl": None if terms.ttl is None else str(terms.ttl)}
            record = change_record(client, record, ttl, labels=terms.labels)
            changed = True
        return Recorded(record.name, record.attempt, outcome, outcome_state(outcome), cached=True, changed=changed)
    try:
        record = _begin(client, terms, record)
        return _Attempt(client, terms, record, report, listen).run()
    except ObjectGone as error:
        raise Cancelled(terms.namespace, terms.name) from error


def _outdated(record: Record, terms: RecordedJob) -> bool:
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


def _good_outcome(client: KubeClient, terms: RecordedJob, record: Record | None) -> Data | None:
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


def _begin(client: KubeClient, terms: RecordedJob, record: Record | None) -> Record:
    """The record of an attempt that is not over: the one that goes on, the first, or the next."""
    if record is None:
        raw = new_record(terms.namespace, terms.name, terms.labels, terms.spec, terms.identity, terms.ttl)
        return create_record(client, raw)
    if record.stored is None:
        return record
    drop_chunks(client, record)
    changes = {
        "attempt": str(record.attempt + 1),
        "outcome": None,
        "finished": None,
        "ttl": None if terms.ttl is None else str(terms.ttl),
        "spec": canonical_json(terms.spec),
    }
    try:
        return change_record(client, record, changes, labels=terms.labels)
    except Superseded:
        # Another run of the same task was first; go on with its attempt.
        found = read_record(client, terms.namespace, terms.name)
        if found is None:
            raise Cancelled(terms.namespace, terms.name) from None
        return found


def _end_job(client: KubeClient, record: Record) -> bool:
    """Delete the Job of the record's attempt with its pods; returns whether there was one."""
    path = resource_path("batch/v1", "jobs", record.namespace, record.job_name)
    job = get_object(client, path)
    if job is None or job["metadata"].get("deletionTimestamp"):
        return False
    if record.uid not in _owners(job):
        return False
    settle_delete(client, path, job["metadata"]["uid"])
    return True


def _owners(raw: Object) -> list[str]:
    """The uids of an object's owners."""
    return [item.get("uid") for item in raw["metadata"].get("ownerReferences") or ()]


class _Attempt:
    """One attempt of a record, from wherever it stands to its stored outcome."""

    def __init__(self, client: KubeClient, terms: RecordedJob, record: Record, report: Report, listen: Listen) -> None:
        """Nothing is written yet."""
        self._client = client
        self._terms = terms
        self._record = record
        self._report = report
        self._listen = listen

    def run(self) -> Recorded:
        """Create what is missing, wait, harvest, store, tidy up."""
        if self._record.stored is not None:
            return self._done(self._record)
        if not self._job_exists():
            self._create()
        if not self._terms.wait:
            facts = JobReader(self._client, self._record.namespace, self._record.job_name).read()
            state = self._judge(facts, ServerClock(self._client).now())
            if not state.over:
                return Recorded(self._record.name, self._record.attempt, None, state, cached=False, changed=True)
        followed = follow_job(
            self._client,
            self._record.namespace,
            self._record.job_name,
            self._judge,
            report=self._report,
            listen=self._listen,
        )
        return self._done(self._store(followed))

    def _job_exists(self) -> bool:
        """Whether this attempt's Job is there already, so that its contents are, too."""
        path = resource_path("batch/v1", "jobs", self._record.namespace, self._record.job_name)
        job = get_object(self._client, path)
        return job is not None and self._is_ours(job) is Ownership.OURS

    def _create(self) -> None:
        """Create contents, then the Job."""
        record, terms = self._record, self._terms
        names = {item.key: item.name(record.name) for item in terms.contents}
        for item in terms.contents:
            create_owned_map(self._client, record, names[item.key], item.data, item.binary)
        labels = {key: text for key, text in labels_of(record).items() if key != EXPIRES_LABEL}
        job = terms.job(JobPlace(record.job_name, record.attempt, labels, names))
        metadata = {
            **(job.get("metadata") or {}),
            "name": record.job_name,
            "namespace": record.namespace,
            "labels": {**(job.get("metadata") or {}).get("labels", {}), **labels, MANAGED_LABEL: MANAGER},
            "ownerReferences": [owner_of(record)],
        }
        path = resource_path("batch/v1", "jobs", record.namespace)
        create_owned(self._client, record, path, {**job, "metadata": metadata}, self._is_ours)

    def _is_ours(self, job: Object) -> Ownership:
        """Whether a Job of this name is of this record; one on its way out, or of a deleted record, is a leftover."""
        if (job["metadata"].get("labels") or {}).get(MANAGED_LABEL) != MANAGER:
            return Ownership.FOREIGN
        gone = bool(job["metadata"].get("deletionTimestamp"))
        return Ownership.OURS if self._record.uid in _owners(job) and not gone else Ownership.OLDER_ATTEMPT

    def _judge(self, facts: RunFacts, now: float) -> RunState:
        """The state of the run; a Job that nobody ended at its deadline is given up."""
        terms = self._terms
        state = judge_run(facts, now=now, start_timeout=terms.start_timeout, failed_as=terms.failed_as)
        created = facts.job.created if facts.job is not None else None
        if state.over or terms.longest is None or created is None:
            return state
        if now - created < terms.longest + _DEADLINE_GRACE:
            return state
        return RunState("failed", TIMEOUT, f"nobody ended its Job after {terms.longest:g} s")

    def _store(self, followed: Followed) -> Record:
        """Harvest and keep the outcome; when another run was first, its outcome counts."""
        if followed.facts.job is None and read_record(self._client, self._record.namespace, self._record.name) is None:
            raise Cancelled(self._record.namespace, self._record.name)
        outcome = self._terms.harvest(Ended(followed.state, followed.facts, self._log))
        now = ServerClock(self._client).now()
        try:
            return store_outcome(self._client, self._record, outcome, now)
        except Superseded as error:
            found = read_record(self._client, self._record.namespace, self._record.name)
            if found is None or found.stored is None or found.attempt != self._record.attempt:
                raise Cancelled(self._record.namespace, self._record.name) from error
            return found

    def _log(self, pod: str, container: str) -> bytes | None:
        """The end of a log; None when the pod, its node or the log is gone."""
        try:
            lines = self._terms.log_lines
            return read_log(
                self._client, self._record.namespace, pod, container, tail_lines=lines, tail_bytes=lines * LINE_BYTES
            )
        except NotFound:
            return None
        except KubeError as error:
            self._report(str(error))
            return None

    def _done(self, record: Record) -> Recorded:
        """End the Job and tell the outcome."""
        _end_job(self._client, record)
        outcome = read_outcome(self._client, record)
        if outcome is None:
            raise MusterError("read", f"the outcome in ConfigMap {record.namespace}/{record.name}", "a part is lost")
        return Recorded(record.name, record.attempt, outcome, outcome_state(outcome), cached=False, changed=True)
