# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of one run: facts of a Job, its pods and its Events, and the state they amount to."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time

Phase = t.Literal["pending", "running", "succeeded", "failed"]

BUILD_FAILED = "build_failed"
PUSH_FAILED = "push_failed"
OOM = "oom"
TIMEOUT = "timeout"
QUOTA = "quota"
UNSCHEDULABLE = "unschedulable"
IMAGE_PULL = "image_pull"
SCRIPT_FAILED = "script_failed"
EVICTED = "evicted"
CANCELLED = "cancelled"
LOST_RESULT = "lost_result"
# Admission, a webhook or a rule of the server let no pod be made.
REFUSED = "refused"
# The pod cannot be carried out as it is described: a Secret is missing, the image has no shell.
CONFIG = "config"
REASONS = (
    BUILD_FAILED,
    PUSH_FAILED,
    OOM,
    TIMEOUT,
    QUOTA,
    UNSCHEDULABLE,
    IMAGE_PULL,
    SCRIPT_FAILED,
    EVICTED,
    CANCELLED,
    LOST_RESULT,
    REFUSED,
    CONFIG,
)

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"
# Exit codes of programs that were told to end, and of those that did not listen.
_SIGNALED = (143, 137)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_INDEX_KEY = "batch.kubernetes.io/job-completion-index"


@dataclasses.dataclass(frozen=True, slots=True)
class ContainerFacts:
    """One container of a pod: why it waits, or how it ended."""

    name: str
    image: str = ""
    image_id: str = ""
    waiting: str | None = None
    message: str = ""
    exit_code: int | None = None
    ended_as: str | None = None
    started: float | None = None
    finished: float | None = None

    @property
    def ended(self) -> bool:
        """Whether it is over."""
        return self.exit_code is not None


@dataclasses.dataclass(frozen=True, slots=True)
class PodLimits:
    """How long one pod may run, and how long it is given to end after that."""

    timeout: float
    grace: float


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """Why a pod that is not over is given up, and since when."""

    message: str
    at: float


@dataclasses.dataclass(frozen=True, slots=True)
class PodFacts:
    """One pod of a Job; vanished when it was seen and is no more, lost when its end is not awaited any longer.

    begun is when its node took it, from which its timeout counts, but not before it was placed there: the clock of a
    node may be wrong. deleted is when
    its end was asked for, ends_by when it had to be over for that. Where only the latest moment of the request is
    known, deleted_by has it.
    """

    name: str
    uid: str
    phase: str = "Pending"
    index: int | None = None
    node: str | None = None
    reason: str | None = None
    message: str = ""
    created: float | None = None
    unschedulable: str | None = None
    disrupted: str | None = None
    containers: tuple[ContainerFacts, ...] = ()
    vanished: bool = False
    deleted: float | None = None
    deleted_by: float | None = None
    begun: float | None = None
    ends_by: float | None = None
    lost: Lost | None = None

    @property
    def cut_short(self) -> bool:
        """Whether it was deleted before it had ended by itself; times are whole seconds, so equal ones count."""
        if self.phase == "Succeeded":
            return False
        asked = self.deleted if self.deleted is not None else self.deleted_by
        if self.finished is None or asked is None:
            return self.finished is None and (self.vanished or asked is not None)
        return self.finished >= asked or (self.deleted is None and self._ended_by_signal)

    @property
    def _ended_by_signal(self) -> bool:
        """Whether a container ended the way those do whose pod is deleted."""
        return any(item.exit_code in _SIGNALED for item in self.containers)

    @property
    def started(self) -> bool:
        """Whether a container of it has run, or it is over."""
        ran = any(item.started is not None or item.ended for item in self.containers)
        return ran or self.phase in ("Running", "Succeeded", "Failed")

    @property
    def over(self) -> bool:
        """Whether nothing of it runs any more, or it is lost."""
        return self.vanished or self.lost is not None or self.phase in ("Succeeded", "Failed")

    @property
    def decided(self) -> bool:
        """Whether its node reported its end and the Job will not replace it; why a pod vanished is unknown."""
        return self.phase == "Succeeded" or (self.phase == "Failed" and self.disrupted is None)

    @property
    def noticed_late(self) -> bool:
        """Whether it succeeded, but its node was cut off and saw it when its time was over."""
        late = self.phase == "Failed" and self.reason == "DeadlineExceeded" and bool(self.containers)
        return late and all(item.exit_code == 0 for item in self.containers)

    @property
    def finished(self) -> float | None:
        """When its last container ended."""
        return max((item.finished for item in self.containers if item.finished is not None), default=None)

    def container(self, name: str) -> ContainerFacts | None:
        """One of its containers."""
        return next((item for item in self.containers if item.name == name), None)


@dataclasses.dataclass(frozen=True, slots=True)
class EventFacts:
    """An Event about the Job or a pod."""

    reason: str
    message: str
    about: str
    at: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class JobFacts:
    """A Job as its controller sees it."""

    name: str
    uid: str
    created: float | None = None
    succeeded: int = 0
    failed: int = 0
    suspended: bool = False
    complete: bool = False
    failure: str | None = None
    message: str = ""
    failed_indexes: tuple[int, ...] = ()
    completed_indexes: tuple[int, ...] = ()

    @property
    def over(self) -> bool:
        """Whether the controller is done with it."""
        return self.complete or self.failure is not None


@dataclasses.dataclass(frozen=True, slots=True)
class RunFacts:
    """All that was read about one run at one moment; job is None when it was deleted."""

    job: JobFacts | None
    pods: tuple[PodFacts, ...] = ()
    events: tuple[EventFacts, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class RunState:
    """What the facts amount to; waiting_for is queued, quota, unschedulable, pulling or config if pending."""

    phase: Phase
    reason: str | None = None
    message: str = ""
    waiting_for: str | None = None

    @property
    def over(self) -> bool:
        """Whether there is nothing left to wait for."""
        return self.phase in ("succeeded", "failed")

    def as_dict(self) -> Data:
        """Plain values for results."""
        return dataclasses.asdict(self)

    def words(self) -> str:
        """One line for people."""
        detail = self.reason or self.waiting_for
        head = f"{self.phase} ({detail})" if detail else self.phase
        return f"{head}: {self.message}" if self.message else head


def outcome_state(outcome: Mapping[str, t.Any]) -> RunState:
    """The state that a stored outcome holds."""
    reason = outcome.get("reason")
    return RunState("failed", str(reason), str(outcome.get("message") or "")) if reason else RunState("succeeded")


def pod_that_counts(pods: Sequence[PodFacts], index: int) -> PodFacts | None:
    """The pod that counts for a repetition: one that succeeded, else the last one."""
    own = [pod for pod in pods if (pod.index or 0) == index]
    return next((pod for pod in own if pod.phase == "Succeeded"), own[-1] if own else None)


def with_numbers(facts: RunFacts, numbers: Sequence[int]) -> RunFacts:
    """The facts with the numbers of repetitions instead of a Job's own indexes, which count from 0."""

    def numbered(indexes: Sequence[int]) -> tuple[int, ...]:
        return tuple(numbers[index] for index in indexes if index < len(numbers))

    pods = (
        dataclasses.replace(pod, index=numbers[pod.index or 0]) for pod in facts.pods if (pod.index or 0) < len(numbers)
    )
    job = facts.job
    if job is not None:
        job = dataclasses.replace(
            job,
            failed_indexes=numbered(job.failed_indexes),
            completed_indexes=numbered(job.completed_indexes),
        )
    return dataclasses.replace(facts, job=job, pods=tuple(pods))


def digest_in(text: str) -> str | None:
    """The digest at the end of what a node calls an image."""
    found: list[str] = _DIGEST.findall(text)
    return found[-1] if found else None


def job_facts(raw: Mapping[str, t.Any]) -> JobFacts:
    """The facts of a Job as the API server gives it."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or () if item.get("status") == "True"}
    failed = conditions.get("Failed")
    return JobFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        created=read_time(metadata.get("creationTimestamp")),
        succeeded=int(status.get("succeeded") or 0),
        failed=int(status.get("failed") or 0),
        suspended=bool((raw.get("spec") or {}).get("suspend")),
        complete="Complete" in conditions,
        failure=None if failed is None else str(failed.get("reason") or "Failed"),
        message=str((failed or {}).get("message") or ""),
        failed_indexes=_indexes(status.get("failedIndexes")),
        completed_indexes=_indexes(status.get("completedIndexes")),
    )


def pod_facts(raw: Mapping[str, t.Any]) -> PodFacts:
    """The facts of a pod as the API server gives it."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    stuck = scheduled.get("status") == "False" and scheduled.get("reason") in ("Unschedulable", "SchedulingGated")
    disruption = conditions.get("DisruptionTarget") or {}
    index = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}.get(_INDEX_KEY)
    inits, mains = status.get("initContainerStatuses") or (), status.get("containerStatuses") or ()
    end, grace = _deletion(metadata)
    placed = scheduled.get("lastTransitionTime") if scheduled.get("status") == "True" else None
    return PodFacts(
        name=metadata["name"],
        uid=metadata["uid"],
        phase=str(status.get("phase") or "Pending"),
        index=int(index) if isinstance(index, str) and index.isdecimal() else None,
        node=(raw.get("spec") or {}).get("nodeName") or None,
        reason=status.get("reason"),
        message=str(status.get("message") or ""),
        created=read_time(metadata.get("creationTimestamp")),
        unschedulable=str(scheduled.get("message") or "no node takes it") if stuck else None,
        disrupted=_disruption(disruption) if disruption.get("status") == "True" else None,
        containers=tuple(_container(item) for item in (*inits, *mains)),
        deleted=end - grace if end is not None and grace else None,
        deleted_by=end if not grace else None,
        begun=_later(read_time(status.get("startTime")), read_time(placed)),
        ends_by=end,
    )


def with_deletion_seen(pod: PodFacts, before: PodFacts | None) -> PodFacts:
    """A pod with the earliest moment of its deletion that was ever read: the server overwrites it at the end."""
    if before is None:
        return pod
    return dataclasses.replace(
        pod,
        deleted=_earlier(before.deleted, pod.deleted),
        deleted_by=_earlier(before.deleted_by, pod.deleted_by),
    )


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((item for item in (one, other) if item is not None), default=None)


def _later(one: float | None, other: float | None) -> float | None:
    return max((item for item in (one, other) if item is not None), default=None)


def _deletion(metadata: Mapping[str, t.Any]) -> tuple[float | None, float]:
    """The end of the time that a deleted pod was given, and how many seconds that was.

    With a finalizer a pod outlives the last request of its node, which has no grace and makes the server write the
    moment anew.
    """
    return read_time(metadata.get("deletionTimestamp")), float(metadata.get("deletionGracePeriodSeconds") or 0)


def event_facts(raw: Mapping[str, t.Any]) -> EventFacts:
    """The facts of an Event as the API server gives it."""
    seen = raw.get("lastTimestamp") or raw.get("eventTime") or raw.get("firstTimestamp")
    return EventFacts(
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        about=str((raw.get("involvedObject") or {}).get("kind") or ""),
        at=read_time(seen) or 0.0,
    )


def _container(raw: Mapping[str, t.Any]) -> ContainerFacts:
    """The facts of one container status."""
    state = raw.get("state") or {}
    waiting, running, ended = (state.get(name) or {} for name in ("waiting", "running", "terminated"))
    code = ended.get("exitCode")
    return ContainerFacts(
        name=str(raw.get("name")),
        image=str(raw.get("image") or ""),
        image_id=str(raw.get("imageID") or ""),
        waiting=waiting.get("reason"),
        message=str(waiting.get("message") or ended.get("message") or ""),
        exit_code=None if code is None else int(code),
        ended_as=ended.get("reason"),
        started=read_time(running.get("startedAt") or ended.get("startedAt")),
        finished=read_time(ended.get("finishedAt")),
    )


def _disruption(condition: Mapping[str, t.Any]) -> str:
    """Why a pod was ended early, as text."""
    parts = [str(condition[key]) for key in ("reason", "message") if condition.get(key)]
    return ": ".join(parts) or "disrupted"


def _indexes(text: t.Any) -> tuple[int, ...]:
    """Numbers out of the way a Job writes them: 1,3-5."""
    found: list[int] = []
    for part in str(text or "").split(","):
        low, dash, high = part.strip().partition("-")
        if low.isdecimal() and (high.isdecimal() or not dash):
            found.extend(range(int(low), int(high or low) + 1))
    return tuple(found)
