# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A decision about sizes in words: for each elastic gang its size and why, for each idle GPU why nobody has it."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.elastic.terms import ElasticTerms
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    RESIZING_PHASES,
    STARTED_PHASES,
    WAITING_PHASES,
    resize_step,
    told_resize,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import CyclePlan
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.outcome import IdleGpus, SizeDecision
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import SizeRules

Data = dict[str, t.Any]

# Why nothing is resized at all, beside the reasons of a decision.
UNREADABLE = "settings"
REASONS: Mapping[str, str] = {
    "starts": "it starts",
    "grows": "there is room for it, and nobody waits for that",
    "shrinks": "another gang waits for its GPUs",
    "waits": "it waits in the queue",
    "behind": "a gang before it in the queue has waited for too long to be passed",
    "at_max": "it has the largest size that it may have",
    "no_room": "no node has room for a larger size, or others get it",
    "busy": "it is being started, resized or taken back, or lacks pods",
    "cooldown": "it was resized not long ago",
    "no_checkpoint": "it is only resized when its trainer has saved, and no trainer has told that",
    "near_end": "it is nearly done",
    "not_worth": "what that would save is not worth the restart",
    "not_measured": "so large a size is too far from those that were measured",
    "queued_work": "gangs wait in the queue, and what is free is for them",
    "too_many": "as many gangs as may be are being resized already",
    "no_gain": "a larger size would not be faster",
    "quota": "its namespace or its queue has no quota for a larger size",
    UNREADABLE: "the settings of sizes cannot be read",
}
# Of several reasons of gangs that were not asked the first one is told of idle GPUs.
_NOT_ASKED = (UNREADABLE, "busy", "no_checkpoint")


@dataclasses.dataclass(frozen=True, slots=True)
class SizeSight:
    """What a decision was made on: the records, those that are told by name, and the rules."""

    records: Mapping[str, Record]
    named: frozenset[str] | None
    rules: SizeRules

    def name(self, uid: str) -> str:
        """A gang as the result names it: those of other namespaces by their queue alone."""
        record = self.records.get(uid)
        if record is not None and (self.named is None or record.namespace in self.named):
            return record.key
        queue = record.spec.queue if record is not None and record.spec is not None else None
        return "another gang" if queue is None else f"a gang of queue {queue}"


@dataclasses.dataclass(frozen=True, slots=True)
class JobTold:
    """What is decided about one elastic gang; size is what it had, 0 for one that waits."""

    record: Record
    size: int
    to: int
    reason: str
    message: str
    decision: SizeDecision | None = None
    when: str | None = None
    asker: str | None = None

    @property
    def changes(self) -> bool:
        """Whether it was decided just now that it gets another size."""
        return self.size != self.to and self.reason in ("starts", "grows", "shrinks")

    def as_result(self, now: Record | None, since: float | None) -> Data:
        """One entry of the result; now is the record as it is by then, since is when the task began to act."""
        spec, state = self.record.spec, now.state if now is not None else None
        score = self.decision.score if self.decision is not None else None
        resized = told_resize(state) if _is_resized_since(now, since) else None
        return {
            "name": self.record.name,
            "namespace": self.record.namespace,
            "queue": spec.queue if spec is not None else None,
            "size": self.size,
            "to": self.to,
            "reason": self.reason,
            "message": self.message,
            "when": self.when,
            "for": self.asker,
            "wanted": self.decision.wanted if self.decision is not None else None,
            "score": None if score is None else [_plain(part) for part in score],
            "phase": now.phase if now is not None else "gone",
            "allotment": _size_of(now) if now is not None else None,
            "resize": resized,
        }


def _plain(part: float) -> float | None:
    """A part of a score; one that is worth nothing at all is no number in JSON."""
    return part if part not in (float("inf"), float("-inf")) else None


def _is_resized_since(record: Record | None, since: float | None) -> bool:
    """Whether the last resize of a gang began after a moment; times are kept in whole seconds."""
    state = record.state if record is not None else None
    if state is None or state.resize is None or since is None:
        return False
    began = read_time(state.resize.since)
    return began is not None and began >= since - 1.0


def resized_since(records: Iterable[Record], since: float) -> list[str]:
    """The gangs that were resized since a moment, by their names."""
    return sorted(record.key for record in records if _is_resized_since(record, since))


def under_way(records: Iterable[Record], now: float, patience: float) -> list[Record]:
    """The gangs between two sizes; one that has found no room for so long just waits like any other."""
    found = []
    for record in records:
        step = resize_step(record.state) if record.state is not None else None
        if step not in ("draining", "starting") or record.state is None:
            continue
        last = read_time(record.state.transitions[-1].at) if record.state.transitions else None
        if record.phase == "queued" and (last is None or now - last > patience):
            continue
        found.append(record)
    return found


def tell_jobs(plan: CyclePlan, sight: SizeSight) -> Iterator[JobTold]:
    """The elastic gangs that are named, in the order of their names."""
    choices = {choice.record.uid: choice for choice in (*plan.choices, *plan.left)}
    left = {choice.record.uid for choice in plan.left}
    decisions = {uid: item for found in plan.sizing.plans.values() for uid, item in found.decisions.items()}
    for record in sorted(sight.records.values(), key=lambda item: item.key):
        named = sight.named is None or record.namespace in sight.named
        terms = record.spec.elastic if record.spec is not None else None
        if not named or terms is None or record.newer is not None:
            continue
        decision = decisions.get(record.uid)
        if record.phase in STARTED_PHASES:
            yield _started(record, terms, decision, sight)
        elif record.phase == "queued":
            yield _waiting(record, terms, decision, choices.get(record.uid), record.uid in left, sight)


def _started(record: Record, terms: ElasticTerms, decision: SizeDecision | None, sight: SizeSight) -> JobTold:
    """A gang that has a size."""
    size = _size_of(record) or terms.wanted.min
    if decision is None:
        reason = _why_not_asked(record, terms, sight.rules)
        return JobTold(record, size, size, reason, REASONS[reason])
    asker = sight.name(decision.for_uid) if decision.for_uid is not None and decision.changes else None
    return JobTold(
        record, size, decision.size, decision.reason, REASONS[decision.reason], decision, decision.when, asker
    )


def _waiting(
    record: Record,
    terms: ElasticTerms,
    decision: SizeDecision | None,
    choice: Choice | None,
    left: bool,
    sight: SizeSight,
) -> JobTold:
    """A gang in the queue."""
    if record.state is not None and resize_step(record.state) == "starting":
        return _returning(record, terms, choice)
    if choice is not None and choice.chosen:
        size = choice.record.chosen or terms.wanted.min
        words = "a dispatcher starts it: here only sizes are decided" if left else REASONS["starts"]
        return JobTold(record, 0, size, "starts", words, decision, "now")
    if decision is not None:
        asker = sight.name(decision.for_uid) if decision.for_uid is not None else None
        reason = decision.reason
        return JobTold(record, 0, decision.size, reason, REASONS[reason], decision, decision.when, asker)
    why = None if choice is None else choice.verdict.reason
    return JobTold(record, 0, 0, "waits", REASONS["waits"] if why is None else f"{REASONS['waits']}: {why}")


def _returning(record: Record, terms: ElasticTerms, choice: Choice | None) -> JobTold:
    """A gang in the queue that was taken back to be started with another size."""
    resize = record.state.resize if record.state is not None else None
    size = resize.size if resize is not None else 0
    if choice is None or not choice.chosen:
        return JobTold(record, size, resize.to if resize is not None else size, "busy", REASONS["busy"])
    to = choice.record.chosen or terms.wanted.min
    reason = "grows" if to > size else "shrinks" if to < size else "starts"
    return JobTold(record, size, to, reason, "it starts again", when="now")


def _why_not_asked(record: Record, terms: ElasticTerms, rules: SizeRules) -> str:
    """Why a started gang had no part in the decision."""
    if rules.problem is not None:
        return UNREADABLE
    state = record.state
    at_work = state is not None and state.phase == "running" and not state.holding and not record.terminating
    return "no_checkpoint" if at_work and terms.timing == "at_checkpoint" else "busy"


def _size_of(record: Record) -> int | None:
    """The size that a gang has, while it is resized the one that it had; 0 when it waits."""
    state = record.state
    if state is None or record.phase in WAITING_PHASES:
        return 0
    if state.phase in RESIZING_PHASES and state.resize is not None:
        return state.resize.size
    return state.allotment


def tell_idle(plan: CyclePlan, sight: SizeSight, jobs: Iterable[JobTold]) -> list[Data]:
    """Each node's idle GPUs once all of it is done, why nobody gets them, and the gangs of which that is true."""
    told = list(jobs)
    return [
        _idle(resource, item, told, sight)
        for resource, found in sorted(plan.sizing.plans.items())
        for item in sorted(found.idle, key=lambda item: item.place)
    ]


def _idle(resource: str, item: IdleGpus, jobs: Iterable[JobTold], sight: SizeSight) -> Data:
    """What is idle in one place."""
    reason, uids = str(item.reason), item.jobs
    if reason == "no_jobs":
        reason, uids = _of_those_not_asked(resource, jobs) or (reason, uids)
    names = sorted({sight.name(uid) for uid in uids})
    return {"node": item.place, "resource": resource, "count": item.count, "reason": reason, "jobs": names}


def _of_those_not_asked(resource: str, jobs: Iterable[JobTold]) -> tuple[str, tuple[str, ...]] | None:
    """The reason of gangs that have such GPUs and were not asked; None when there are none."""
    kept: dict[str, list[str]] = {}
    for job in jobs:
        terms = job.record.spec.elastic if job.record.spec is not None else None
        if terms is not None and terms.range.resource == resource and job.decision is None and job.size:
            kept.setdefault(job.reason, []).append(job.record.uid)
    return next(((reason, tuple(kept[reason])) for reason in _NOT_ASKED if reason in kept), None)
