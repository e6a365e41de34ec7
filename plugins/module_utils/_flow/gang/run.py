# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use case behind gang: write the records, then wait for the gangs or start them."""

from __future__ import annotations

import dataclasses
import functools
import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.preview import preview_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult, run_dispatch
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.runtimes import Runtimes
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.hopeless import with_warnings
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangOptions, GangOutcome, Report
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.position import read_queue
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.preview import preview
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.remove import remove_record
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.requested import RequestedGang, Stores, read_wanted
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.submit import Found, Submission, find_gang
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import REACHED, SETTLED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import text_of_verdict
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import Data
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.charging import applicant
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import read_record

Connect = t.Callable[[], KubeClient]
Phases = t.Mapping[str, str]
# Looks at what is wanted and at what is there, and raises what keeps the task from doing anything.
Demand = t.Callable[[t.Sequence[RequestedGang], t.Sequence[Found]], None]

_NO_DISPATCHER = "no dispatcher has looked at it: run muster.kube.dispatch, or set dispatch: true in this task"


class NotReached(MusterError):
    """A gang failed, went away, or needed longer than the task waits; the results say where each one stands."""

    def __init__(self, target: str, cause: str, results: list[Data]) -> None:
        """Keep what is known about all gangs of the task."""
        super().__init__("wait for", target, cause)
        self.results = results

    def as_result(self) -> Data:
        """The family's keys and the gangs."""
        return {**super().as_result(), "gangs": self.results}


@dataclasses.dataclass(frozen=True, slots=True)
class GangAnswer:
    """What became of all gangs of a task."""

    outcomes: tuple[GangOutcome, ...]
    dispatched: DispatchResult | None = None
    started: frozenset[str] = frozenset()

    @property
    def changed(self) -> bool:
        """Whether a record was written or a gang started."""
        return bool(self.started) or any(outcome.changed for outcome in self.outcomes)

    def entries(self) -> list[Data]:
        """The gangs as the result shows them."""
        return [self._entry(outcome) for outcome in self.outcomes]

    def _entry(self, outcome: GangOutcome) -> Data:
        """One gang; one that was started has changed though its record was left alone by the task itself."""
        entry = outcome.as_result()
        return {**entry, "changed": entry["changed"] or entry["uid"] in self.started}

    def _left_alone(self) -> list[str]:
        """What to say of gangs that still need a dispatcher where this task was the only one there is."""
        if self.dispatched is None or self.dispatched.holder is not None:
            return []
        return [
            f"{_target(outcome)} is {outcome.record.phase}, and nobody looks after it until a dispatcher runs"
            for outcome in self.outcomes
            if outcome.record is not None and outcome.record.phase not in SETTLED_PHASES
        ]

    def as_result(self, *, diff: bool = False) -> Data:
        """The keys of the module's result."""
        result: Data = {"changed": self.changed, "gangs": self.entries()}
        warnings = [text for outcome in self.outcomes for text in outcome.warnings]
        if self.dispatched is not None:
            left = self._left_alone()
            result |= {"unseen": self.dispatched.unseen}
            result |= {"coordination": self.dispatched.coordination, "holder": self.dispatched.holder}
            result["attended"] = not left
            warnings += [*self.dispatched.warnings, *left]
        if warnings:
            result["warnings"] = warnings
        if diff:
            result["diff"] = [outcome.difference() for outcome in self.outcomes if outcome.changed]
        return result


def run_gangs(
    connect_again: Connect, options: GangOptions, report: Report, demand: Demand = lambda _wanted, _found: None
) -> GangAnswer:
    """Do what the task asks; connect_again opens one more connection to the same cluster each time.

    What a task demands of its gangs is asked for before anything is written.
    """
    wanted = read_wanted(options, Runtimes(connect_again))
    client = connect_again()
    stores = Stores(client, options.store)
    end = client.clock() + options.wait_timeout
    found = parallel([functools.partial(find_gang, client, stores, item) for item in wanted])
    demand(wanted, found)
    if options.state == "absent":
        return GangAnswer(tuple(_remove_all(client, options, wanted, found, end, report)))
    waiter = _Waiter(client, connect_again, options, end, report)
    if options.check_mode:
        return waiter.foresee(preview(client, options, wanted, found))
    submission = Submission(client, options, stores, report, end)
    outcomes = [submission.submit(item, place) for item, place in zip(wanted, found, strict=True)]
    return waiter.wait_for_goal(outcomes)


def _remove_all(
    client: KubeClient,
    options: GangOptions,
    wanted: t.Sequence[RequestedGang],
    found: t.Sequence[Found],
    end: float,
    report: Report,
) -> t.Iterator[GangOutcome]:
    """Remove each gang that is there."""
    for item, place in zip(wanted, found, strict=True):
        if place.record is None:
            yield GangOutcome(item.name, item.namespace, "unchanged", None, None)
            continue
        warnings: tuple[str, ...] = ()
        if not options.check_mode:
            warnings = remove_record(client, place.record, options, end, report)
        before = place.record.spec
        yield GangOutcome(item.name, item.namespace, "deleted", None, place.store, before=before, warnings=warnings)


class _Waiter:
    """Waits for gangs whose records are right: by starting them, or by watching a dispatcher start them."""

    def __init__(
        self, client: KubeClient, connect_again: Connect, options: GangOptions, end: float, report: Report
    ) -> None:
        """Nothing is sent yet."""
        self._client = client
        self._connect_again = connect_again
        self._options = options
        self._end = end
        self._report = report

    def wait_for_goal(self, outcomes: t.Sequence[GangOutcome]) -> GangAnswer:
        """Wait for the goal if there is one; a gang that is there already costs nothing."""
        goal = self._goal()
        if goal is None or self._all_there(goal, outcomes):
            return GangAnswer(tuple(with_warnings(self._client, outcomes)))
        if not self._options.dispatch:
            return GangAnswer(tuple(self._watch(goal, outcomes)))
        self._fail_early(goal, GangAnswer(tuple(outcomes)))
        return self._start(goal, outcomes)

    def foresee(self, outcomes: t.Sequence[GangOutcome]) -> GangAnswer:
        """What wait_for_goal would come to for gangs whose records stay as they are, as far as one cycle tells."""
        goal, kept = self._goal(), [item for item in outcomes if item.action == "unchanged"]
        if goal is None or (len(kept) == len(outcomes) and self._all_there(goal, kept)):
            return GangAnswer(tuple(outcomes))
        self._fail_early(goal, GangAnswer(tuple(kept)))
        if not self._options.dispatch or not kept:
            return GangAnswer(tuple(outcomes))
        result = preview_dispatch(self._client, self._dispatch_options(kept))
        uids = {item.record.uid: item for item in kept if item.record is not None}
        ends = {item.uid: item for item in result.decisions if item.action in ("fail", "stop")}
        for uid, outcome in uids.items():
            if result.phases.get(uid) == "failed" and "failed" not in REACHED[goal]:
                cause = f"it fails: {ends[uid].reason}: {ends[uid].message}"
                raise NotReached(_target(outcome), cause, GangAnswer(tuple(outcomes)).entries())
        return GangAnswer(tuple(outcomes), None, _started(result, uids))

    def _goal(self) -> str | None:
        """The phase to wait for; None when the record alone is enough."""
        if self._options.state == "suspended":
            return "suspended" if self._options.dispatch else None
        return self._options.goal

    def _all_there(self, goal: str, outcomes: t.Sequence[GangOutcome]) -> bool:
        """Whether nothing is left to wait for; a failed gang is an error for a task that waits."""
        phases = [outcome.record.phase if outcome.record else "gone" for outcome in outcomes]
        return all(phase in REACHED[goal] for phase in phases)

    def _start(self, goal: str, outcomes: t.Sequence[GangOutcome]) -> GangAnswer:
        """Run cycles for these gangs alone until they are where they should be or time is over."""
        options = self._dispatch_options(outcomes)
        uids = set(options.only or ())
        result = run_dispatch(self._client, self._connect_again(), options, self._report, until=_until(goal, uids))
        fresh = with_warnings(self._client, self._with_places([self._fresh(outcome) for outcome in outcomes]))
        answer = GangAnswer(tuple(fresh), result, _started(result, uids))
        self._fail_early(goal, answer)
        if self._options.wait and self._options.wait_for not in (None, "queued") and self._options.state == "present":
            self._require(goal, answer)
        return answer

    def _dispatch_options(self, outcomes: t.Sequence[GangOutcome]) -> DispatchOptions:
        """Cycles for these gangs alone."""
        left = max(0.0, self._end - self._client.clock())
        return DispatchOptions(
            lease=self._options.lease,
            lease_wait=left,
            namespaces=tuple(sorted({outcome.namespace for outcome in outcomes})),
            only=frozenset(outcome.record.uid for outcome in outcomes if outcome.record),
            duration=left if self._options.wait else None,
        )

    def _watch(self, goal: str, outcomes: t.Sequence[GangOutcome]) -> list[GangOutcome]:
        """Look at the records until some dispatcher has brought them to the goal."""
        current = list(outcomes)
        shown: dict[str, str] = {}
        while True:
            for outcome in current:
                if outcome.record and shown.get(outcome.record.uid) != outcome.record.phase:
                    shown[outcome.record.uid] = outcome.record.phase
                    self._report(f"gang {outcome.namespace}/{outcome.name}: {outcome.record.phase}")
            answer = GangAnswer(tuple(current))
            self._fail_early(goal, answer)
            if self._all_there(goal, current):
                return current
            if self._client.clock() >= self._end:
                answer = GangAnswer(tuple(self._with_places(current)))
                self._require(goal, answer)
            self._client.sleep(self._options.wait_sleep)
            current = [outcome if self._all_there(goal, [outcome]) else self._fresh(outcome) for outcome in current]

    def _fresh(self, outcome: GangOutcome) -> GangOutcome:
        """The outcome with the record as it is now; None when it was deleted or replaced meanwhile."""
        record = outcome.record
        if record is None:
            return outcome
        found = read_record(self._client, record.store, record.namespace, record.name, every_wrapper=True)
        return dataclasses.replace(outcome, record=found if found and found.uid == record.uid else None)

    def _with_places(self, outcomes: t.Sequence[GangOutcome]) -> list[GangOutcome]:
        """The outcomes with the places of those that still wait; the queue is read only if there are any."""
        waiting = [item for item in outcomes if item.record is not None and applicant(item.record) is not None]
        if not waiting:
            return list(outcomes)
        home = self._options.lease.namespace
        queue = read_queue(self._client, sorted({item.namespace for item in waiting}), home)
        places = queue.positions()
        return [
            dataclasses.replace(
                item, extra={**item.extra, "position": places.get(item.record.uid), "position_scope": queue.scope}
            )
            if item in waiting and item.record is not None
            else item
            for item in outcomes
        ]

    def _fail_early(self, goal: str, answer: GangAnswer) -> None:
        """A gang that was deleted will not get there, however long one waits, nor one that failed if that is no end."""
        for outcome in answer.outcomes:
            if outcome.record is None:
                raise NotReached(_target(outcome), "its record was deleted meanwhile", answer.entries())
            if outcome.record.phase == "failed" and not self._all_there(goal, [outcome]):
                raise NotReached(_target(outcome), f"it failed: {_last_reason(outcome.record)}", answer.entries())

    def _require(self, goal: str, answer: GangAnswer) -> None:
        """Fail for the first gang that is not where the task wants it."""
        self._fail_early(goal, answer)
        for outcome in answer.outcomes:
            if outcome.record is not None and not self._all_there(goal, [outcome]):
                text = text_of_verdict(outcome.record.state.verdict if outcome.record.state else None)
                cause = f"after {self._options.wait_timeout:g} s it is {outcome.record.phase}, not {goal}"
                holder = answer.dispatched.holder if answer.dispatched else None
                cause += (
                    f"; {holder} holds the Lease {self._options.lease.namespace}/{self._options.lease.name}"
                    if holder
                    else ""
                )
                if holder is None and text is None and outcome.record.phase == "queued":
                    cause += f"; {_NO_DISPATCHER}"
                raise NotReached(_target(outcome), f"{cause}\n{text}" if text else cause, answer.entries())


def _started(result: DispatchResult, uids: t.Collection[str]) -> frozenset[str]:
    """Those of these gangs that a dispatcher starts."""
    return frozenset(item.uid for item in result.decisions if item.action == "start" and item.uid in uids)


def _target(outcome: GangOutcome) -> str:
    """The gang as messages name it."""
    return f"gang {outcome.namespace}/{outcome.name}"


def _last_reason(record: Record) -> str:
    """What the last transition says."""
    reason, message = record.why
    return f"{reason}: {message}" if message else reason or "its record does not say why"


def _until(goal: str, uids: set[str]) -> t.Callable[[Phases], bool]:
    """Whether the phases after a cycle leave nothing to wait for; deleted gangs are not waited for."""
    ends = (*REACHED[goal], "failed")

    def done(phases: Phases) -> bool:
        """Whether every gang of ours is at an end."""
        return all(phases.get(uid, "failed") in ends for uid in uids)

    return done
