# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a run stands and why it failed, as a function of what is known about its Job, pods and Events."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.muster.kube.plugins.module_utils._model.inspection.job_run import (
    CANCELLED,
    CONFIG,
    EVICTED,
    IMAGE_PULL,
    OOM,
    QUOTA,
    REFUSED,
    TIMEOUT,
    UNSCHEDULABLE,
    ContainerFacts,
    EventFacts,
    Lost,
    PodFacts,
    PodLimits,
    RunFacts,
    RunState,
)

# What a kubelet says when it will not get an image however often it tries.
_NO_IMAGE = (
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "ImageInspectError",
    "SignatureValidationFailed",
)
# What a kubelet says when the pod's own description cannot be carried out; it tries again, mostly in vain.
_NO_START = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
# What a runtime says of a container whose program it could not start.
_NOT_STARTED = ("StartError", "ContainerCannotRun")
# What a node says of a container that it finds dead after it was down itself.
_FORGOTTEN = ("ContainerStatusUnknown", "Unknown")
# What is missing may be made a moment later, by hand or by an operator; a name spelled wrong never is.
_CONFIG_SECONDS = 60.0
_MISSING = re.compile(r"(?i)\b(secret|configmap)\b.*\bnot found\b")
# Words of a server that will refuse the same pod again. One that could not ask a webhook may not.
_REFUSALS = ("forbidden", "Invalid value", "denied the request", "is invalid")
_UNANSWERED = ("failed calling webhook", "failed to call webhook")
# A node that cannot do this will not learn it while a pod waits.
_NO_USERNS = "does not support user namespaces"
_KILLED = 137
# What hangs is waited for so much longer than it may take.
HANG_SECONDS = 120.0
_DELETION_SECONDS = 60.0
# A controller makes the next pod within seconds of the end of the last.
_SETTLE_SECONDS = 15.0
# The Job's controller replaces what the cluster ended, without a bound of its own.
_MOST_DISRUPTIONS = 5


def overdue_nodes(facts: RunFacts, *, now: float, limits: PodLimits) -> frozenset[str]:
    """The nodes of pods that had to be over by now: whether these nodes are there at all is worth a look."""
    late = (pod for pod in facts.pods if not pod.over and pod.begun is not None)
    own = limits.timeout + limits.grace
    return frozenset(pod.node for pod in late if pod.node is not None and now - (pod.begun or 0.0) >= own)


def with_lost_pods(facts: RunFacts, *, now: float, limits: PodLimits, gone: frozenset[str]) -> RunFacts:
    """The facts with those pods marked as lost whose end is not awaited any longer; gone are deleted nodes.

    The node reports the end of a pod, and a Job replaces no pod before that. So of a node that died nothing would
    ever be heard. One that is only not ready may come back with all that ended meanwhile, so it is waited for.
    """
    pulled = any(pod.started for pod in facts.pods)
    marked = []
    for pod in facts.pods:
        lost = None if pod.over else _lost(pod, facts, now, limits, gone, pulled)
        marked.append(pod if lost is None else dataclasses.replace(pod, lost=lost))
    return dataclasses.replace(facts, pods=tuple(marked))


def _lost(
    pod: PodFacts, facts: RunFacts, now: float, limits: PodLimits, gone: frozenset[str], pulled: bool
) -> Lost | None:
    """Why a pod is given up; None while it may still end."""
    broken = _cannot_pull(pod)
    if broken is not None and pulled:
        # Others had the image; so it is the node that cannot get it.
        return Lost(broken, now)
    ended = [item for item in facts.pods if item.index == pod.index and item.over and item.disrupted is not None]
    if len(ended) >= _MOST_DISRUPTIONS:
        return Lost(f"the cluster ended it {len(ended)} times: {ended[-1].disrupted}", now)
    if pod.ends_by is not None and now >= pod.ends_by + _DELETION_SECONDS:
        return Lost(f"its pod was deleted, and node {pod.node} did not end it", pod.ends_by + _DELETION_SECONDS)
    if pod.begun is None:
        return None
    own = limits.timeout + limits.grace
    if pod.node in gone and now - pod.begun >= own:
        return Lost(f"node {pod.node} is gone, and the pod had not ended before", pod.begun + own)
    longest = limits.timeout + HANG_SECONDS
    if now - pod.begun >= longest:
        return Lost(f"node {pod.node} did not end it {longest:g} s after its begin", pod.begun + longest)
    return None


def next_loss(facts: RunFacts, *, now: float, limits: PodLimits) -> float | None:
    """When a pod may be given up next though nothing is heard until then; None while none of them can be."""
    waits = (limits.timeout + limits.grace, limits.timeout + HANG_SECONDS)
    open_pods = [pod for pod in facts.pods if not pod.over]
    moments = [pod.begun + wait for pod in open_pods if pod.begun is not None for wait in waits]
    moments += [pod.ends_by + _DELETION_SECONDS for pod in open_pods if pod.ends_by is not None]
    return min((moment for moment in moments if moment > now), default=None)


def judge_run(facts: RunFacts, *, now: float, start_timeout: float | None, failed_as: str) -> RunState:
    """The state of a run; failed_as is the reason of a failure that has no better one.

    A pod that can never start fails the run at once. One that waits for room may wait for start_timeout seconds,
    counted from when nothing of the run was running any more.
    """
    if facts.job is None:
        return RunState("failed", CANCELLED, "its Job was deleted")
    if facts.job.complete:
        return RunState("succeeded")
    if facts.job.failure is not None:
        return _failed_job(facts, failed_as)
    for pod in facts.pods:
        if not pod.over and (broken := _cannot_pull(pod)) is not None:
            return RunState("failed", IMAGE_PULL, broken)
    if any(pod.started and not pod.over for pod in facts.pods):
        return RunState("running")
    state, final = _waiting(facts, failed_as)
    if final:
        return state
    if state.phase == "running" and (given_up := _only_lost(facts, now, failed_as)) is not None:
        return given_up
    waited = now - _idle_since(facts, now)
    if start_timeout is None:
        return state
    if state.phase == "running":
        stuck = RunState("failed", TIMEOUT, f"nobody went on with its Job for {start_timeout:g} s")
        return stuck if waited >= start_timeout else state
    longest = min(start_timeout, _CONFIG_SECONDS) if state.reason == CONFIG else start_timeout
    return _waited_too_long(state, longest) if waited >= longest else state


def pod_failure(pod: PodFacts, failed_as: str) -> tuple[str | None, str]:
    """Why one pod failed and a message; None for one that did not."""
    if pod.phase == "Succeeded" or pod.noticed_late:
        return None, ""
    if pod.lost is not None:
        return EVICTED if _cannot_pull(pod) is None else IMAGE_PULL, pod.lost.message
    return _ended_failure(pod, failed_as)


def _ended_failure(pod: PodFacts, failed_as: str) -> tuple[str, str]:
    """Why a pod failed whose end its node reported."""
    if pod.reason == "DeadlineExceeded":
        return TIMEOUT, pod.message or "it ran longer than its timeout"
    if pod.reason == "Evicted":
        return EVICTED, pod.message or "the node had to make room"
    killed = next((item for item in pod.containers if _ran_out_of_memory(item)), None)
    if killed is not None:
        return OOM, f"container {killed.name} used more memory than its limit"
    if pod.disrupted is not None:
        return EVICTED, pod.disrupted
    if pod.reason in ("NodeLost", "NodeShutdown", "Terminated", "Preempting", "Shutdown"):
        return EVICTED, pod.message or str(pod.reason)
    broken = _cannot_pull(pod)
    if broken is not None:
        return IMAGE_PULL, broken
    if pod.cut_short:
        return EVICTED, "its pod was deleted before it had ended"
    forgotten = next((item for item in pod.containers if item.ended_as in _FORGOTTEN), None)
    if forgotten is not None:
        return EVICTED, f"its node stopped, and does not know how container {forgotten.name} ended"
    ended = next((item for item in pod.containers if item.exit_code), None)
    if ended is not None and ended.ended_as in _NOT_STARTED:
        return CONFIG, f"container {ended.name} could not be started: {ended.message or ended.ended_as}"
    if ended is not None:
        return failed_as, _how_it_ended(ended)
    if pod.reason in ("UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods", "NodeAffinity"):
        return UNSCHEDULABLE, pod.message or str(pod.reason)
    return failed_as, pod.message or f"its pod is {pod.phase}"


def _only_lost(facts: RunFacts, now: float, failed_as: str) -> RunState | None:
    """The end of a Job that makes no further pod, since pods hang that are given up; None while it may make one."""
    hanging = [pod for pod in facts.pods if pod.lost is not None]
    last = max((pod.finished for pod in facts.pods if pod.finished is not None), default=None)
    if not hanging or (last is not None and now - last < _SETTLE_SECONDS):
        return None
    reason, message = pod_failure(hanging[0], failed_as)
    return RunState("failed", reason, message)


def _failed_job(facts: RunFacts, failed_as: str) -> RunState:
    """The state of a Job its controller gave up: the pods say more than the Job."""
    job = facts.job
    if job is None:
        raise ValueError("a failed Job is needed")
    if job.failure == "DeadlineExceeded":
        return RunState("failed", TIMEOUT, job.message or "it ran longer than its timeout")
    failed = [pod for pod in facts.pods if pod.phase != "Succeeded"]
    if not failed:
        return RunState("failed", failed_as, job.message)
    failures = [pod_failure(pod, failed_as) for pod in failed]
    # A special cause explains more than a plain exit code of another pod.
    reason, message = next((pair for pair in failures if pair[0] not in (None, failed_as)), failures[0])
    return RunState("failed", reason or failed_as, message)


def _waiting(facts: RunFacts, failed_as: str) -> tuple[RunState, bool]:
    """What a run waits for of which nothing runs, and whether waiting is in vain."""
    open_pods = [pod for pod in facts.pods if not pod.over]
    for pod in open_pods:
        if pod.unschedulable is not None:
            return RunState("pending", None, pod.unschedulable, "unschedulable"), False
    for pod in open_pods:
        broken = next((item for item in pod.containers if item.waiting in _NO_START), None)
        if broken is not None:
            return RunState("pending", CONFIG, f"{broken.waiting}: {broken.message}", "config"), False
    if open_pods:
        mounting = _last(facts.events, "Pod", ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"))
        scheduled = any(pod.node for pod in open_pods)
        message = mounting.message if mounting is not None else ""
        if _NO_USERNS in message:
            return RunState("failed", failed_as, message), True
        if _MISSING.search(message):
            return RunState("pending", CONFIG, message, "config"), False
        return RunState("pending", None, message, "pulling" if scheduled else "queued"), False
    refused = _last(facts.events, "Job", ("FailedCreate",))
    if refused is None:
        # Between two pods, or between the end of the last one and the controller's word on it, nothing is waited for.
        return (RunState("running"), False) if facts.pods else (RunState("pending", None, "", "queued"), False)
    return _refused(refused.message)


def _refused(answer: str) -> tuple[RunState, bool]:
    """What it means that the controller could make no pod, and whether waiting is in vain."""
    if "exceeded quota" in answer:
        return RunState("pending", None, answer, "quota"), False
    if "failed quota" in answer:
        return RunState("failed", QUOTA, answer), True
    message = f"its pods are refused: {answer.removeprefix('Error creating: ')}"
    if any(word in answer for word in _UNANSWERED):
        return RunState("pending", REFUSED, message, "queued"), False
    if any(word in answer for word in _REFUSALS):
        return RunState("failed", REFUSED, message), True
    return RunState("pending", None, answer, "queued"), False


def _waited_too_long(state: RunState, start_timeout: float) -> RunState:
    """The failure of a run that found no place in time; the message keeps what it was waiting for."""
    reason = {"quota": QUOTA, "unschedulable": UNSCHEDULABLE}.get(state.waiting_for or "", state.reason or TIMEOUT)
    head = f"it did not start within {start_timeout:g} s"
    return RunState("failed", reason, f"{head}: {state.message}" if state.message else head)


def _idle_since(facts: RunFacts, now: float) -> float:
    """Since when nothing of the run runs: the end of its last pod, or when that was given up, else its creation."""
    moments = [pod.finished for pod in facts.pods if pod.finished is not None]
    moments += [pod.lost.at for pod in facts.pods if pod.lost is not None]
    if facts.job is not None and facts.job.created is not None:
        moments.append(facts.job.created)
    return max(moments, default=now)


def _cannot_pull(pod: PodFacts) -> str | None:
    """What the kubelet says about an image it cannot get."""
    for item in pod.containers:
        if item.waiting in _NO_IMAGE:
            return f"{item.waiting}: {item.message}" if item.message else str(item.waiting)
    return None


def _ran_out_of_memory(item: ContainerFacts) -> bool:
    """Whether a container was ended for its memory; a runtime says so of one that then succeeded, too."""
    return item.ended_as == "OOMKilled" and bool(item.exit_code)


def _how_it_ended(item: ContainerFacts) -> str:
    """A container's end as text."""
    text = f"container {item.name} ended with exit code {item.exit_code}"
    if item.exit_code == _KILLED:
        text += " (killed)"
    if item.ended_as not in (None, "Error"):
        text += f", {item.ended_as}"
    return text


def _last(events: tuple[EventFacts, ...], about: str, reasons: tuple[str, ...]) -> EventFacts | None:
    """The newest Event of such a reason."""
    found = [event for event in events if event.about == about and event.reason in reasons]
    return max(found, key=lambda event: event.at, default=None)
