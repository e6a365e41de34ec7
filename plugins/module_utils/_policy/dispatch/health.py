# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Health: what to do next with a gang that was started, as its pods, its objects and the clock tell.

Pure: a reading of the cluster in, one step out. Everything a rule needs can be read again by whoever takes over.
"""

from __future__ import annotations

import dataclasses
import math
import typing as t
from collections.abc import Callable, Iterable, Iterator, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang import state as words
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Gang
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import (
    GangPod,
    Items,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    ACTIVE_PHASES,
    WAITING_PHASES,
    Changes,
    GangState,
    Phase,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.base import (
    ExpectedPods,
    ItemOutcome,
    describe_object,
)
from ansible_collections.muster.kube.plugins.module_utils._model.pods.kinds.table import outcome_message
from ansible_collections.muster.kube.plugins.module_utils._model.pods.podset import PodSet
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._model.values.objects import group_and_kind
from ansible_collections.muster.kube.plugins.module_utils._model.values.quantity import quantity_text
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time, time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.accounting import (
    expected_counts,
    pods_by_podset,
    raised,
    started_moment,
    wanted_now,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.completion import Endings, Search
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.order import back_off
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import (
    Rescaling,
    ended,
    turned_back,
)

CountsAs = t.Literal["lost_race", "requeue"]

# After a lost race: this long, then twice as long each time, up to the most.
RACE_PAUSE = 5.0
LONGEST_RACE_PAUSE = 600.0
# A start that did not end in time is not tried again sooner.
START_PAUSE = 30.0
# So many lost races in a row make one doubt the declaration rather than the cluster.
DOUBTFUL_RACES = 3


@dataclasses.dataclass(frozen=True, slots=True)
class HealthOptions:
    """How long pods of a started gang may find no node, and how long they may be missing, in seconds."""

    bind_timeout: float = 60.0
    start_timeout: float = 300.0


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """One gang as it was read.

    state is None for a gang nobody has looked at yet. podsets are those of the start, pods those of this attempt only.
    nodes maps node names to host name labels, None when nodes cannot be read. search evaluates jmespath. terminating
    tells that the record is being deleted and only waits for others to let it go. gang_at is the gang with another
    size, None where that cannot be told.
    """

    spec: GangSpec
    state: GangState | None
    podsets: tuple[PodSet, ...]
    pods: tuple[GangPod, ...] = ()
    items: Items = dataclasses.field(default_factory=dict)
    nodes: Mapping[str, str] | None = None
    search: Search | None = None
    terminating: bool = False
    gang_at: Callable[[int], Gang | None] = lambda _size: None


@dataclasses.dataclass(frozen=True, slots=True)
class Stay:
    """Nothing to do; next_check is when a rule about time may speak next, in seconds on the server's clock.

    outcomes, here and in other steps, are those to be noted in the state, None when there is nothing new.
    """

    holding: bool = False
    next_check: float | None = None
    outcomes: dict[int, ItemOutcome] | None = None

    def changes(self) -> Changes:
        """What changes in the state."""
        return {"holding": self.holding, **_noting(self.outcomes)}


@dataclasses.dataclass(frozen=True, slots=True)
class Advance:
    """Go on to a phase; objects stay as they are."""

    phase: Phase
    reason: str
    message: str
    lost_races: int | None = None
    outcomes: dict[int, ItemOutcome] | None = None
    # What else changes, of a gang that is rescaling.
    more: Changes = dataclasses.field(default_factory=Changes)

    def changes(self) -> Changes:
        """What changes in the state besides its phase."""
        changed: Changes = {"holding": False, **self.more, **_noting(self.outcomes)}
        if self.lost_races is not None:
            changed["lost_races"] = self.lost_races
        if self.phase == "running":
            # Whoever others were evicted for got what was freed.
            changed["nominations"] = 0
        return changed


@dataclasses.dataclass(frozen=True, slots=True)
class Undo:
    """Remove the gang's objects, then go on; lost_races and requeues are the new numbers."""

    reason: str
    message: str
    then: Phase
    counts_as: CountsAs | None
    not_before: str | None
    observed: tuple[Data, ...]
    lost_races: int
    requeues: int
    outcomes: dict[int, ItemOutcome] | None = None

    def changes(self) -> Changes:
        """What changes in the state besides its phase and what it leads to."""
        return {
            "not_before": self.not_before,
            "observed": self.observed,
            "lost_races": self.lost_races,
            "requeues": self.requeues,
            "holding": False,
            **_noting(self.outcomes),
        }


Step: t.TypeAlias = "Stay | Advance | Undo"


def judge_health(subject: Subject, now: float, terms: HealthOptions | None = None) -> Step:
    """The next step of a gang; phases in which others are at work are left alone."""
    state = subject.state
    if state is not None and state.phase in ACTIVE_PHASES:
        return _Exam(subject, state, now, terms or HealthOptions()).step()
    if subject.terminating:
        return Stay()
    if state is None or state.phase in WAITING_PHASES:
        return _follow_wish(subject.spec, state, now)
    return Stay()


def depends_on_moments(state: GangState | None) -> bool:
    """Whether time changes a gang's step only at moments that are known, its next check.

    Of a started gang whose state does not tell when it began nothing can be said beforehand.
    """
    return state is None or state.phase not in ACTIVE_PHASES or bool(started_moment(state))


def start_is_overdue(state: GangState, now: float, start_timeout: float) -> bool:
    """Whether a gang has been `dispatching` for longer than a start may take: it is undone instead of finished."""
    return now >= _start_ends(state, now, start_timeout)


def _start_ends(state: GangState, now: float, start_timeout: float) -> float:
    """By when a start must have ended."""
    began = started_moment(state)
    return (now if began is None else began) + start_timeout


def _noting(outcomes: dict[int, ItemOutcome] | None) -> Changes:
    """The outcomes as a change of the state; none when there is nothing new."""
    return {} if outcomes is None else {"outcomes": outcomes}


def declared_too_small(state: GangState, podsets: Iterable[PodSet]) -> str | None:
    """Why a gang that lost races time and again should be declared larger; None when that is not the reason."""
    if state.lost_races < DOUBTFUL_RACES:
        return None
    declared = [item for item in podsets if item.source_index < 0]
    for before, after in zip(declared, raised(declared, state.observed), strict=True):
        if after.count > before.count:
            return f"podset {before.name} is declared with {before.count} pods, its objects make {after.count}"
        for name, amount in after.requests.items():
            have = before.requests.get(name, 0)
            if amount > have:
                told = f"{quantity_text(name, have)} of {name}, its pods ask for {quantity_text(name, amount)}"
                return f"podset {before.name} is declared with {told}"
    return None


def _follow_wish(spec: GangSpec, state: GangState | None, now: float) -> Step:
    """Suspend or resume a gang that holds nothing; one that pauses is to be asked again when its pause is over."""
    suspended = state is not None and state.phase == "suspended"
    if spec.suspended and not suspended:
        return Advance("suspended", words.SUSPENDED, "the gang was suspended")
    if not spec.suspended and suspended:
        return Advance("queued", words.RESUMED, "the gang was resumed")
    eligible = read_time(state.not_before) if state is not None and not suspended else None
    return Stay(next_check=eligible if eligible is not None and eligible > now else None)


def _last_change(state: GangState) -> float | None:
    """When the phase changed last."""
    return read_time(state.transitions[-1].at) if state.transitions else None


class _Exam:
    """One look at a started gang; its rules are asked in order, the first that has something to say decides."""

    def __init__(self, subject: Subject, state: GangState, now: float, terms: HealthOptions) -> None:
        """Sort the pods and ask the objects how they ended and what they want."""
        self.subject = subject
        self.spec, self.state = subject.spec, state
        self.now, self.terms = now, terms
        self.pods = pods_by_podset(subject.podsets, subject.pods, subject.items)
        self.endings = Endings(self.spec, subject.podsets, self.pods, subject.items, state.outcomes, subject.search)
        self.wanted = wanted_now(subject.podsets, subject.spec, self._known_items())
        self.started = read_time(state.started_at) or started_moment(state) or _last_change(state) or now
        self.deadlines: list[float] = []

    def _known_items(self) -> Items:
        """The objects without those that went too early: their pods are missing, not unwanted."""
        over = self.endings.seen()
        return {index: obj for index, obj in self.subject.items.items() if obj is not None or index in over}

    def step(self) -> Step:
        """What to do, with the outcomes that were not noted before."""
        step, seen = self._decide(), self.endings.seen()
        return step if seen == self.state.outcomes else dataclasses.replace(step, outcomes=seen)

    def _decide(self) -> Step:
        """What to do."""
        if self.subject.terminating:
            return self._undo(words.DELETED, "its record is being deleted", "queued")
        if self.state.phase != "dispatching" and self.endings.done():
            return self._finish()
        for rule in self._rules():
            step = rule()
            if step is not None:
                return step
        return Stay(next_check=min(self.deadlines, default=None))

    def _rules(self) -> tuple[Callable[[], Step | None], ...]:
        """The rules of the phase; before all objects exist nothing can be said of those that are missing."""
        if self.state.phase == "dispatching":
            return (self._suspended, self._failure, self._half_started)
        if self.state.phase == "rescaling":
            return (self._time_limit, self._suspended, self._failure, self._rescaling)
        last = self._starting if self.state.phase == "dispatched" else self._below_minimum
        return (self._time_limit, self._suspended, self._failure, self._lost_node, last)

    def _half_started(self) -> Undo | None:
        """A start that does not come to an end is nobody's fault that is known: neither a lost race nor a retry."""
        if self._is_before(_start_ends(self.state, self.now, self.terms.start_timeout)):
            return None
        message = f"not all of it could be created in {self.terms.start_timeout:g} seconds"
        return self._undo(words.START_TIMEOUT, message, "queued", pause=START_PAUSE)

    def _undo(
        self, reason: str, message: str, then: Phase, counts_as: CountsAs | None = None, pause: float = 0.0
    ) -> Undo:
        """An undo with the numbers that follow from what it counts as."""
        return Undo(
            reason=reason,
            message=message,
            then=then,
            counts_as=counts_as,
            not_before=time_text(math.ceil(self.now + pause)) if pause else None,
            observed=self._observed(),
            lost_races=self.state.lost_races + (counts_as == "lost_race"),
            requeues=self.state.requeues + (counts_as == "requeue"),
        )

    def _finish(self) -> Step:
        """All is done: complete, or hold until the last pods have gone; a limit or a wish ends the waiting."""
        left = sum(pod.live for pod in self.subject.pods)
        if not left:
            return Advance("complete", words.COMPLETED, "everything that has to be done is done")
        limit = self._time_limit()
        if limit is not None or self.spec.suspended:
            reason = words.TIME_LIMIT if limit is not None else words.SUSPENDED
            return self._undo(reason, f"everything is done; {left} pods were left", "complete")
        return Stay(holding=True, next_check=min(self.deadlines, default=None))

    def _time_limit(self) -> Undo | None:
        """The gang ran for as long as it may."""
        limit = self.spec.max_run_time
        began = read_time(words.work_began(self.state)) if limit is not None else None
        if limit is None or self._is_before((self.started if began is None else began) + limit):
            return None
        return self._undo(words.TIME_LIMIT, f"the gang ran for {limit:g} seconds, as long as it may", "failed")

    def _suspended(self) -> Undo | None:
        """The user wants the gang to stop."""
        return self._undo(words.SUSPENDED, "the gang was suspended", "suspended") if self.spec.suspended else None

    def _failure(self) -> Step | None:
        """An object failed, or went before anybody saw how it ended: the gang is tried again, or fails whole."""
        failed, unknown = self.endings.failed(), self.endings.unknown()
        if not failed and not unknown:
            return None
        told = [self._failure_text(index) for index in failed]
        told += [words.gone_unseen(self._name(index)) for index in unknown]
        message = "; ".join(told)
        final = self._why_not_again(failed, unknown)
        if final is None:
            return self._undo(words.ITEM_FAILED, message, "queued", "requeue", self.spec.requeue.pause)
        reason, because = final
        return self._fail(reason, f"{message}; {because}" if because else message)

    def _why_not_again(self, failed: list[int], unknown: list[int]) -> tuple[str, str] | None:
        """Why a gang with objects that failed or went is not tried again, in one word and in more; None when it is.

        Exit codes and the limit decide. What may have been done already is never started again by itself.
        """
        codes = {code for pod in self.subject.pods for code in pod.exit_codes}
        terminal = sorted(codes & set(self.spec.exit_codes_terminal))
        retryable = sorted(codes & set(self.spec.exit_codes_retryable))
        if not failed:
            return words.OUTCOME_UNKNOWN, ""
        if terminal:
            return words.ITEM_FAILED, f"exit code {terminal[0]} is not retried"
        if self.spec.exit_codes_retryable and not retryable:
            return words.ITEM_FAILED, "no exit code that is retried"
        if self.spec.requeue.limit is None and not retryable:
            return words.ITEM_FAILED, ""
        if self._limit_reached():
            return words.REQUEUE_LIMIT, self._limit_text()
        return (words.OUTCOME_UNKNOWN, "") if unknown else None

    def _fail(self, reason: str, message: str) -> Advance | Undo:
        """A gang fails whole: what still runs, or would, is taken back; else objects stay for their logs."""
        wanted = expected_counts(self.subject.podsets, self.spec, self.subject.items)
        if any(wanted.values()) or any(pod.live for pod in self.subject.pods):
            return self._undo(reason, message, "failed")
        return Advance("failed", reason, message)

    def _failure_text(self, index: int) -> str:
        """Which object failed, and what it says; one that is gone says nothing."""
        said = outcome_message(self.subject.items.get(index) or {})
        return f"{self._name(index)} failed" + (f": {said}" if said else "")

    def _name(self, index: int) -> str:
        """An object in words."""
        obj = self.subject.items.get(index) or self.spec.objects[index]
        return describe_object(obj, self.spec.namespace, index)

    def _limit_reached(self) -> bool:
        """Whether the gang was requeued as often as it may."""
        limit = self.spec.requeue.limit
        return limit is not None and self.state.requeues >= limit

    def _limit_text(self) -> str:
        """The limit in words."""
        return f"requeued {self.state.requeues} times, the limit is {self.spec.requeue.limit}"

    def _lost_node(self) -> Undo | None:
        """A podset is confined to hosts of which one is gone with its pod: nowhere else may the pod go."""
        nodes = self.subject.nodes
        if nodes is None:
            return None
        hosts = set(nodes.values())
        for name, confined_to in sorted(self.state.steering.items()):
            gone = sorted(set(confined_to) - hosts)
            if not gone or name not in self.pods:
                continue
            safe = sum(pod.bound and pod.node in nodes for pod in self.pods[name])
            if safe < self.wanted[name].prompt:
                message = f"podset {name} was confined to node {gone[0]}, which is gone"
                return self._undo(words.NODE_LOST, message, "queued")
        return None

    def _starting(self) -> Advance | Undo | None:
        """Running when every podset has its minimum bound; undone when that does not come in time."""
        missing = self._unbound()
        if not missing:
            return Advance("running", words.PODS_BOUND, "every podset has its minimum bound", lost_races=0)
        waiting = [
            pod for pod in self.subject.pods if pod.live and pod.unschedulable_since is not None and not pod.node
        ]
        for pod in sorted(waiting, key=lambda pod: (pod.unschedulable_since or 0.0, pod.name)):
            if not self._is_before((pod.unschedulable_since or 0.0) + self.terms.bind_timeout):
                said = f": {pod.unschedulable_message}" if pod.unschedulable_message else ""
                return self._lose(f"no node for pod {pod.name} in {self.terms.bind_timeout:g} seconds{said}")
        if self._is_before(self.started + self.terms.start_timeout):
            return None
        return self._lose(f"{missing} after {self.terms.start_timeout:g} seconds")

    def _rescaling(self) -> Advance | Undo | None:
        """A gang whose object gets another size: it runs with that, or gets the old one again, or is taken back."""
        resize = self.state.resize
        goal = self.subject.gang_at(resize.goal) if resize is not None else None
        if resize is None or goal is None:
            return self._undo(words.RESIZE_FAILED, "nobody can tell any more which size it is to have", "queued")
        rescaling = Rescaling(self.spec, resize, goal, self.subject.podsets, self.pods, self.wanted, self.subject.items)
        found = rescaling.judge(self._is_before, self.terms.bind_timeout, self.terms.start_timeout)
        if found is None:
            return None
        if found.end == "settled":
            message = resize.back or f"exactly the pods of size {resize.goal} are bound"
            reason = words.RESIZE_FAILED if resize.back else words.RESIZED
            return Advance("running", reason, message, more=ended(resize, goal))
        if found.end == "parked":
            return self._undo(words.RESIZE_FAILED, f"{resize.back}; {found.why}", "queued")
        back = turned_back(self.spec, resize, found.why, time_text(self.now))
        return Advance("rescaling", words.RESIZE_FAILED, found.why, more={"resize": back})

    def _lose(self, message: str) -> Undo:
        """Somebody else was faster: back to the queue, and a pause that grows."""
        pause = back_off(RACE_PAUSE, "exponential", self.state.lost_races + 1, LONGEST_RACE_PAUSE)
        return self._undo(words.LOST_RACE, message, "queued", "lost_race", pause)

    def _unbound(self) -> str:
        """Which pods lack a node, in words; empty when the minimum is bound."""
        minimum = self.spec.min_available
        have = {item.name: self._with_finished(item, "bound") for item in self.subject.podsets}
        need = {item.name: min(item.count, self._prompt(item)) for item in self.subject.podsets}
        if isinstance(minimum, int):
            got, wants = sum(have.values()), min(minimum, sum(need.values()))
            return f"{got} of {wants} pods are bound" if got < wants else ""
        if minimum is not None:
            need.update({name: min(need[name], least) for name, least in minimum.items() if name in need})
        short = [
            f"{have[name]} of {wants} pods of {name} are bound" for name, wants in need.items() if have[name] < wants
        ]
        return "; ".join(short)

    def _prompt(self, podset: PodSet) -> int:
        """How many pods of a podset come without waiting for others; those that are not wanted any more have come."""
        want = self.wanted[podset.name]
        return want.prompt + max(0, podset.count - want.now)

    def _with_finished(self, podset: PodSet, kind: t.Literal["bound", "running"]) -> int:
        """Pods that are bound or running, and those that have done their work.

        Of an object that counts its successes itself those are the ones it does not want any more.
        """
        want: ExpectedPods = self.wanted[podset.name]
        mine = self.pods[podset.name]
        succeeded = sum(pod.phase == "Succeeded" for pod in mine) - want.spare
        finished = max(0, podset.count - want.now, succeeded)
        if kind == "running":
            return finished + sum(pod.running for pod in mine)
        # A pod that ran and failed had its node; until its object makes another one it is not missing.
        failed = sum(pod.phase == "Failed" and pod.unavailable_since is not None for pod in mine)
        gap = max(0, want.now - sum(pod.live for pod in mine))
        return finished + min(failed, gap) + sum(pod.bound for pod in mine)

    def _below_minimum(self) -> Undo | None:
        """Fewer pods than asked for, for too long: requeued, or failed when that happened too often."""
        message = self._shortage()
        if not message:
            return None
        rule = self.spec.requeue
        patience = back_off(rule.time, rule.growth, self.state.requeues + 1, rule.max_time)
        if self._is_before(self._below_since() + patience):
            return None
        if self._limit_reached():
            return self._undo(words.REQUEUE_LIMIT, f"{message}; {self._limit_text()}", "failed")
        return self._undo(words.BELOW_MINIMUM, message, "queued", "requeue", rule.pause)

    def _shortage(self) -> str:
        """Which minimum is missed, in words; empty when none is."""
        minimum = self.spec.min_available
        if minimum is None:
            return "; ".join(self._members_gone())
        have = {item.name: self._with_finished(item, "running") for item in self.subject.podsets}
        if isinstance(minimum, int):
            total = sum(have.values())
            wants = min(minimum, sum(item.count for item in self.subject.podsets))
            return f"{total} of at least {wants} pods run or have succeeded" if total < wants else ""
        counts = {item.name: item.count for item in self.subject.podsets}
        needed = {name: min(counts[name], least) for name, least in minimum.items() if name in counts}
        short = [
            f"{have[name]} of at least {wants} pods of {name}" for name, wants in needed.items() if have[name] < wants
        ]
        return f"{'; '.join(short)} run or have succeeded" if short else ""

    def _members_gone(self) -> Iterator[str]:
        """Which members of a gang that needs all of them went for good; what a controller refills is not missing."""
        for index in self.endings.vanished():
            yield f"{self._name(index)} is gone"
        over = self.endings.seen()
        for index, obj in sorted(self.subject.items.items()):
            if obj is None or index in over or group_and_kind(obj) != ("", "Pod"):
                continue
            if "deletionTimestamp" in obj["metadata"]:
                yield f"{self._name(index)} is being deleted"

    def _below_since(self) -> float:
        """Since when the minimum can be missed: the last change of phase, or the last sign of a pod that went or came.

        Nothing is kept in the state for this. Pods that vanished without a trace leave only the change of phase.
        """
        signs = [pod.unavailable_since for pod in self.subject.pods if pod.unavailable_since is not None]
        return max([_last_change(self.state) or self.started, *signs])

    def _observed(self) -> tuple[Data, ...]:
        """The podsets that were ever seen larger than declared, by their pods' requests or their number.

        While a gang is rescaling its pods are of two sizes.
        """
        if self.state.phase == "rescaling":
            return self.state.observed
        seen: list[Data] = []
        before = raised(self.subject.podsets, self.state.observed)
        for podset, known in zip(self.subject.podsets, before, strict=True):
            requests = dict(known.requests)
            for pod in self.pods[podset.name]:
                for name, amount in pod.requests.items():
                    requests[name] = max(requests.get(name, 0), amount)
            count = max(known.count, self.wanted[podset.name].now) if self.state.phase == "dispatched" else known.count
            if count > podset.count or requests != dict(podset.requests):
                texts = {name: quantity_text(name, amount) for name, amount in sorted(requests.items())}
                seen.append({"name": podset.name, "count": count, "requests": texts})
        return tuple(seen)

    def _is_before(self, deadline: float) -> bool:
        """Whether a deadline lies ahead; if so it is noted as a time to look again."""
        if self.now < deadline:
            self.deadlines.append(deadline)
            return True
        return False
