# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The status of an AppWrapper: a gang's state in the words of MCAD v1.40.0, for those who watch for them.

It is a projection and decides nothing. Made from the status before, it keeps the order of the conditions and their
times; made from nothing it is rebuilt from the transitions that are still known. A condition that comes up again is
renewed in its place, as MCAD does it, so the list stays short. Made again from itself it does not change: every
condition is renewed only when it is older than the transition it stands for.
"""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import PodCounts
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    BELOW_MINIMUM,
    DISPATCHED_PHASES,
    LOST_RACE,
    NAME_TAKEN,
    QUOTA_REFUSED,
    REFUSED,
    REQUEUE_LIMIT,
    TIME_LIMIT,
    UNDOING,
    GangState,
    Phase,
    Transition,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import NODE_REASONS, REASONS
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import parse_quantity, scaled
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text, read_micros

MOST_PENDING_PODS = 100

_INT64_MAX = 2**63 - 1
_TOTALS = {"totalcpu": "cpu", "totalmemory": "memory", "totalgpu": "nvidia.com/gpu"}
# Reasons of a verdict under which a gang is not at the head of the line.
_NOT_ASKED = ("behind", "paused", "max_starts")
_QUOTA_REASONS = ("namespace_quota", QUOTA_REFUSED)
_NO_ROOM = "Insufficient resources to dispatch AppWrapper."
_NO_QUOTA = "Insufficient quota and/or resources to dispatch AppWrapper."


@dataclasses.dataclass(frozen=True, slots=True)
class _Due:
    """A condition that must be in the list, no older than since; a new or renewed one is dated at (microseconds).

    What exact is must also say this message; what is not may keep an older one.
    """

    type: str
    reason: str
    message: str
    since: int
    at: int
    exact: bool = False


def wrapper_status(
    previous: Mapping[str, t.Any] | None,
    spec: GangSpec,
    state: GangState,
    counts: PodCounts,
    now: str,
    pending_pods: Sequence[Mapping[str, t.Any]] = (),
) -> Data:
    """The status to show; what is zero, false or empty is left out, as MCAD leaves it out.

    counts are the gang's pods as they were when the last transition was decided; pending_pods are those that cannot be
    scheduled, as podname and conditions. now dates only what has no transition of its own.
    """
    before = previous or {}
    moment = _moment(now, state)
    shown, queue_state = _shown(state)
    status = {
        "state": shown,
        "queuejobstate": queue_state,
        "canrun": state.phase in DISPATCHED_PHASES,
        "conditions": _conditions(before.get("conditions"), spec, state, counts, moment),
        "pending": counts.pending,
        "running": counts.running,
        "Succeeded": counts.succeeded,
        "failed": counts.failed,
        "template": spec.min_available if isinstance(spec.min_available, int) else 0,
        "systempriority": spec.priority,
        "numberOfRequeueings": state.requeues,
        "requeueingTimeInSeconds": _requeue_seconds(spec, state.requeues),
        "controllerfirsttimestamp": _first_seen(before, state, moment),
        "controllerfirstdispatchtimestamp": _first_dispatch(before, state),
        "pendingpodconditions": _pending(pending_pods),
        **(_totals(state) if state.phase in DISPATCHED_PHASES else {}),
    }
    return {key: value for key, value in status.items() if value}


def _shown(state: GangState) -> tuple[str, str]:
    """The two words for where a gang stands: state and queuejobstate."""
    phase: Phase = (state.then or "queued") if state.phase in UNDOING else state.phase
    if phase in DISPATCHED_PHASES:
        return ("RunningHoldCompletion", "RunningHoldCompletion") if state.holding else ("Running", "Dispatched")
    if phase == "complete":
        return "Completed", "Completed"
    if phase == "failed":
        ended = state.transitions[-1].reason if state.transitions else ""
        return "Deleted" if ended == REQUEUE_LIMIT else "Failed", "Failed"
    if phase == "dispatching":
        return "Pending", "HeadOfLine"
    if phase == "queued" and (_waits(state) or state.phase in UNDOING or _was_undone(state)):
        return "Pending", "Backoff"
    return "Pending", "Queueing"


def _waits(state: GangState) -> bool:
    """Whether the gang was asked and could not start; one whose turn has not come was not asked."""
    verdict = state.verdict or {}
    refused = verdict.get("answer") in ("waits", "never") and verdict.get("reason") not in _NOT_ASKED
    return state.phase == "queued" and refused


def _was_undone(state: GangState) -> bool:
    """Whether the gang came back to the queue from an attempt."""
    return len(state.transitions) > 1 and state.transitions[-2].phase in UNDOING


def _moment(now: str, state: GangState) -> int:
    """The time now, never before the last transition."""
    given = read_micros(now)
    if given is None:
        raise BadInput("read", "the time", f"{now!r} is no time as 2026-01-01T00:00:00Z")
    return max([given, *(read_micros(item.at) or 0 for item in state.transitions)])


def _conditions(listed: t.Any, spec: GangSpec, state: GangState, counts: PodCounts, now: int) -> list[Data]:
    """The list before, with what is due put in or renewed."""
    kept = [dict(item) for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    for due in _due(spec, state, counts, now):
        place = next((i for i, item in enumerate(kept) if _matches(item, due)), None)
        if place is None:
            kept.append(_condition(due))
            continue
        dated = read_micros(kept[place].get("lastUpdateMicroTime"))
        stale = dated is None or dated < due.since
        if stale or (due.exact and kept[place].get("message", "") != due.message):
            kept[place] = _condition(due)
    return kept


def _matches(item: Mapping[str, t.Any], due: _Due) -> bool:
    """Whether a condition is the one that is due: type and reason tell."""
    return item.get("type") == due.type and (item.get("reason") or "") == due.reason


def _condition(due: _Due) -> Data:
    """A condition as MCAD writes it; they are always true."""
    moment = micro_time_text(due.at)
    parts = {"type": due.type, "status": "True", "reason": due.reason, "message": due.message}
    dates = {"lastUpdateMicroTime": moment, "lastTransitionMicroTime": moment}
    return {key: value for key, value in {**parts, **dates}.items() if value}


def _due(spec: GangSpec, state: GangState, counts: PodCounts, now: int) -> Iterator[_Due]:
    """Everything the list must hold, in the order it happened."""
    times = [read_micros(item.at) for item in state.transitions]
    first = next((time for time in times if time is not None), now)
    yield _Due("Init", "", "", 0, first)
    yield _Due("Queueing", "AwaitingHeadOfLine", "", 0, first)
    queued = 0
    for place, (item, time) in enumerate(zip(state.transitions, times, strict=True)):
        since, at = (0, now) if time is None else (time, time)
        if item.phase == "queued":
            queued = max(queued, since)
            yield _Due("Queueing", "AwaitingHeadOfLine", "", since, at)
        elif item.phase == "dispatching":
            yield _Due("HeadOfLine", "FrontOfQueue.", "", queued, at)
        elif item.phase == "dispatched":
            yield _Due("HeadOfLine", "FrontOfQueue.", "", queued, at)
            yield _Due("Dispatched", "AppWrapperRunnable", "", since, at)
        elif item.phase == "complete":
            yield _Due("Completed", "PodsCompleted", "", since, at)
        elif item.phase in UNDOING or item.phase == "failed":
            for kind, reason, message in _mishap(item, _leads_to(state, place), spec, _minimum(spec, state), counts):
                yield _Due(kind, reason, message, since, at)
    if state.holding and state.phase in DISPATCHED_PHASES:
        yield _Due("RunningHoldCompletion", "SomeItemsCompleted", "", _attempt_began(state, times), now)
    if _waits(state):
        reason, message = _refusal(state.verdict or {})
        yield _Due("HeadOfLine", "FrontOfQueue.", "", queued, now)
        yield _Due("Backoff", reason, message, queued, now, exact=True)


def _leads_to(state: GangState, place: int) -> str:
    """What came, or is to come, after the transition at this place; a failed gang stays where it is."""
    item = state.transitions[place]
    if item.phase == "failed":
        return "failed"
    return state.transitions[place + 1].phase if place + 1 < len(state.transitions) else state.then or "queued"


def _attempt_began(state: GangState, times: Sequence[int | None]) -> int:
    """When the present attempt was dispatched, as far as it is known."""
    began = [time or 0 for item, time in zip(state.transitions, times, strict=True) if item.phase == "dispatched"]
    return began[-1] if began else 0


def _mishap(
    item: Transition, leads_to: str, spec: GangSpec, minimum: int, counts: PodCounts
) -> Iterator[tuple[str, str, str]]:
    """Why an attempt ended: type, reason and message of its conditions; what MCAD does not know keeps our word."""
    if leads_to == "complete":
        return
    reason, message, failed = item.reason, item.message, leads_to == "failed"
    if reason == REFUSED:
        yield "Failed", "ItemCreationFailure.", f"{spec.namespace}/{spec.name} creation failure: {message}"
        return
    if reason in (QUOTA_REFUSED, NAME_TAKEN):
        # Nothing was dispatched, so there is nothing to preempt.
        known = ("quota limit exceeded", _NO_QUOTA) if reason == QUOTA_REFUSED else ("AppWrapperNotRunnable.", message)
        yield ("Backoff", *known)
        return
    if reason in (BELOW_MINIMUM, REQUEUE_LIMIT):
        reason, message = (
            "MinPodsNotRunning",
            (
                "Insufficient number of Running and Completed pods, "
                f"minimum={minimum}, running={counts.running}, completed={counts.succeeded}."
            ),
        )
    elif reason == LOST_RACE:
        reason = "PodsFailedScheduling"
        message = f"Pods failed scheduling failed={counts.pending}, running={counts.running}."
    elif reason == TIME_LIMIT:
        reason = "DispatchDeadlineExceeded"
        message = f"Dispatch deadline exceeded. allowed to run for {int(spec.max_run_time or 0)} seconds"
    elif failed:
        yield "Failed", reason, message
        return
    yield "PreemptCandidate", reason, message
    if not failed:
        yield "Backoff", "PreemptionTriggered", message


def _minimum(spec: GangSpec, state: GangState) -> int:
    """The pods that must run, in one number; all of them when nothing else is said."""
    least = spec.min_available
    if least is None:
        return sum(podset["count"] for podset in state.reserved)
    return sum(least.values()) if isinstance(least, Mapping) else least


def _refusal(verdict: Mapping[str, t.Any]) -> tuple[str, str]:
    """Reason and message for a gang that waits; MCAD knows room and quota, for the rest our own sentence is told."""
    reason = str(verdict.get("reason"))
    if reason in _QUOTA_REASONS:
        return "quota limit exceeded", _NO_QUOTA
    known = reason in NODE_REASONS or verdict.get("reason") is None
    sentence = REASONS.get(reason, reason.replace("_", " "))
    if verdict.get("detail"):
        sentence = f"{sentence} ({verdict['detail']})"
    return "AppWrapperNotRunnable.", _NO_ROOM if known else f"{sentence[:1].upper()}{sentence[1:]}."


def _requeue_seconds(spec: GangSpec, requeues: int) -> int:
    """How long the gang may be below its minimum after so many requeues, as MCAD grows it."""
    rule = spec.requeue
    base = int(rule.time)
    if not requeues or rule.growth == "none":
        grown = 0
    elif rule.growth == "linear":
        grown = base * requeues
    else:
        grown = base * 2 ** min(requeues - 1, 62)
    most = _INT64_MAX if rule.max_time is None else int(rule.max_time)
    return min(grown, most, _INT64_MAX)


def _pending(pods: Sequence[Mapping[str, t.Any]]) -> list[Data]:
    """The pods that cannot be scheduled, by name; of very many only the first."""
    return sorted((dict(pod) for pod in pods), key=lambda pod: str(pod.get("podname")))[:MOST_PENDING_PODS]


def _totals(state: GangState) -> dict[str, int]:
    """What the gang holds: milli-units of cpu, bytes and GPUs, in 64 bits."""
    sums = dict.fromkeys(_TOTALS, 0)
    for podset in state.reserved:
        for field, resource in _TOTALS.items():
            sums[field] += podset["count"] * _amount(resource, podset["requests"].get(resource, 0))
    return {field: min(total, _INT64_MAX) for field, total in sums.items()}


def _amount(resource: str, value: t.Any) -> int:
    """A reserved amount, scaled; what makes no sense counts nothing, since this only informs."""
    try:
        return max(0, scaled(resource, parse_quantity(value)))
    except BadInput:
        return 0


def _first_seen(before: Mapping[str, t.Any], state: GangState, now: int) -> str:
    """When the gang was first seen; what was shown once stays."""
    shown = before.get("controllerfirsttimestamp")
    if read_micros(shown) is not None:
        return str(shown)
    times = [read_micros(item.at) for item in state.transitions]
    return micro_time_text(next((time for time in times if time is not None), now))


def _first_dispatch(before: Mapping[str, t.Any], state: GangState) -> str | None:
    """When the gang was first dispatched, None when it never was; what was shown once stays."""
    shown = before.get("controllerfirstdispatchtimestamp")
    if read_micros(shown) is not None:
        return str(shown)
    began = [read_micros(item.at) for item in state.transitions if item.phase == "dispatched"]
    first = next((time for time in (*began, read_micros(state.started_at)) if time is not None), None)
    return None if first is None else micro_time_text(first)
