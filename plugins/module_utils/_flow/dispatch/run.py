# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A run of the dispatcher: take the Lease, then one cycle, or one whenever something changes for as long as asked."""

from __future__ import annotations

import collections
import dataclasses
import os
import socket
import time
import typing as t
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.cycle import run_cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.decision_log import DecisionLog
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.change_signal import (
    ChangeSignal,
    record_essence,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import MirroredSource
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle, Identity, Session
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.health_steps import save_due
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.publish import publish_events
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.recover import finish_undo
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import PATIENCE, Workers
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import (
    Conflict,
    Forbidden,
    Gone,
    KubeError,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Mirrors
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import create
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import UNDOING
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import (
    MOST_DECISIONS,
    Decision,
    DecisionBook,
    is_change,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT, DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem, wrappers_served
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease, LostLeadership

Coordination = t.Literal["cluster", "namespace"]
Report = Callable[[str], None]
Until = Callable[[Mapping[str, str]], bool]
OnCycle = Callable[[Cycle], None]

# A result holds no more warnings than this, and none that is longer: servers repeat what they were sent.
MOST_WARNINGS = 200
LONGEST_WARNING = 2_000
# How long a single cycle waits for gangs it undid to be gone.
LINGER = 10.0
_POLL = 0.2
# Rests between two cycles of a run: at most, so that time rules are seen; at least, so that changes gather.
LONGEST_REST = 10.0
SHORTEST_REST = 0.05
# The same while nothing waits for room, so that news only tell how far gangs are that were started.
CALM_REST = 0.25


@dataclasses.dataclass(slots=True)
class DispatchResult:
    """What a run came to; holder is set when another one kept the Lease all the time.

    Of a very long run only the last decisions are kept; dropped_change says that others changed something.
    """

    decisions: list[Decision] = dataclasses.field(default_factory=list)
    decisions_dropped: int = 0
    dropped_change: bool = False
    warnings: list[str] = dataclasses.field(default_factory=list)
    cycles: int = 0
    coordination: Coordination = "cluster"
    holder: str | None = None
    requests: dict[str, int] = dataclasses.field(default_factory=dict)
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)
    unseen: list[str] = dataclasses.field(default_factory=list)
    phases: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Whether anything happened to any gang."""
        return self.dropped_change or any(map(is_change, self.decisions))

    def warn(self, text: str) -> bool:
        """Keep a warning once; False when it is known. Of a very long run only the first ones are kept."""
        text = text if len(text) <= LONGEST_WARNING else f"{text[: LONGEST_WARNING - 1]}…"
        if text in self.warnings:
            return False
        if len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)
        elif len(self.warnings) == MOST_WARNINGS:
            self.warnings.append("there are more warnings; they are left out")
        return True

    def as_result(self) -> dict[str, t.Any]:
        """The keys of the module's result."""
        return {
            "changed": self.changed,
            "decisions": [item.as_dict() for item in self.decisions],
            "decisions_dropped": self.decisions_dropped,
            "cycles": self.cycles,
            "coordination": self.coordination,
            "holder": self.holder,
            "requests": self.requests,
            "seconds": {name: round(value, 4) for name, value in self.seconds.items()},
            "unseen": self.unseen,
            "warnings": self.warnings,
        }


def run_dispatch(
    client: KubeClient,
    renewal_client: KubeClient,
    options: DispatchOptions,
    report: Report,
    *,
    until: Until | None = None,
    on_cycle: OnCycle | None = None,
) -> DispatchResult:
    """Run until the duration is over, or one cycle.

    until sees the phases after each cycle and may end the run; on_cycle sees each cycle, for those who measure.
    """
    run = _Run(client, renewal_client, options, report, until, on_cycle)
    before = dict(client.requests)
    try:
        run.serve()
    finally:
        run.finish()
        run.result.requests = {name: count - before.get(name, 0) for name, count in client.requests.items()}
        run.result.seconds["all"] = time.monotonic() - run.began
    return run.result


class _Run:
    """One run: Lease after Lease if need be, and under each cycle after cycle."""

    def __init__(
        self,
        client: KubeClient,
        renewal_client: KubeClient,
        options: DispatchOptions,
        report: Report,
        until: Until | None,
        on_cycle: OnCycle | None,
    ) -> None:
        """The clock starts now."""
        self.client = client
        self.renewal_client = renewal_client
        self.options = options
        self.report = report
        self.until = until
        self.on_cycle = on_cycle
        self.log = DecisionLog(options.decision_log)
        self.result = DispatchResult()
        self.book = DecisionBook()
        self.ended: dict[str, str] = {}
        self.session: Session | None = None
        self.began = time.monotonic()
        self.end = None if options.duration is None else self.began + options.duration

    def serve(self) -> None:
        """Take the Lease and work; after it was lost try again while there is time."""
        while True:
            lease = self._take_lease()
            if lease is None:
                return
            # Of one cycle everything is waited for; a run with many has time to look again.
            workers = Workers(patience=LINGER if self.end is None else PATIENCE)
            try:
                self._lead(lease, workers)
                return
            except LostLeadership as error:
                self.result.warn(str(error))
                if self.end is None or time.monotonic() >= self.end:
                    return
            finally:
                lease.release(idle=workers.drain(lease.time_left()))

    def finish(self) -> None:
        """Bring what was gathered into the result, and what was learned into the cluster, however the run ends."""
        self.result.decisions = list(self.book)
        self.result.decisions_dropped, self.result.dropped_change = self.book.dropped, self.book.changed
        self.result.phases = dict(self.result.phases)
        if self.session is not None:
            self.session.history.save(at_once=True)

    def _lead(self, lease: DispatchLease, workers: Workers) -> None:
        """One cycle, or cycle after cycle, under one Lease; what is mirrored is listed first under this very one."""
        if self.end is None:
            session = self._open_session(lease, workers, None)
            self._wait_for_former_holders(session)
            self._finish(self._one_cycle(session))
            return
        signal = ChangeSignal()
        workers.on_late = signal.ring
        with Mirrors(self.client, signal.ring) as mirrors:
            session = self._open_session(lease, workers, MirroredSource(self.client, mirrors))
            self._wait_for_former_holders(session)
            while True:
                signal.silence()
                cycle = self._cycle_if_reachable(session)
                if time.monotonic() >= self.end or (self.until is not None and self.until(self.result.phases)):
                    self._save_states(cycle)
                    return
                signal.wait(_rest(session, cycle, self.end), at_least=_least_rest(cycle))

    def _save_states(self, cycle: Cycle | None) -> None:
        """Write what is left to be written; where that fails the next dispatcher learns it from the tickets."""
        if cycle is not None:
            save_due(cycle, after=0.0)
            publish_events(cycle)
            cycle.session.meters.flush(cycle)
            if cycle.session.amounts.later is not None:
                cycle.session.amounts.later()
            self._collect(cycle)

    def _open_session(self, lease: DispatchLease, workers: Workers, source: MirroredSource | None) -> Session:
        """What the holder of this Lease works with; without a source each cycle lists what it reads."""
        self.session = Session(
            self.client,
            lease,
            self.options,
            every_wrapper=self._takes_every_wrapper(),
            identity_of=identity_of(self.client, self.options),
            workers=workers,
            defers=source is not None,
            source=source,
            essence=record_essence(self.options, lease.identity),
        )
        return self.session

    def _wait_for_former_holders(self, session: Session) -> None:
        """Let the lease of a holder whose Lease was deleted run out before anything is decided under a new one.

        It may not have noticed yet, and what it has promised is not known.
        """
        lease = session.lease
        left = lease.time_to_wait(session.clock.now())
        if left <= 0:
            return
        self.report(f"{lease.terms.target} is new: waiting {left:.0f} s for holders of an earlier one")
        end = time.monotonic() + left
        while (left := end - time.monotonic()) > 0:
            lease.write_timeout()
            time.sleep(min(left, 1.0))

    def _takes_every_wrapper(self) -> bool:
        """Whether every AppWrapper is for us and not only those marked; a definition of others is reported once."""
        problem = wrapper_problem(self.client)
        if problem is not None and wrappers_served(self.client):
            self.result.warn(problem)
        return problem is None

    def _cycle_if_reachable(self, session: Session) -> Cycle | None:
        """One cycle; None when the cluster did not answer: it may come back, and the time left decides."""
        try:
            return self._one_cycle(session)
        except (Unreachable, ServerFault, TooManyRequests, Unauthorized, Gone) as error:
            if self.result.warn(str(error)):
                self.report(f"trying again: {error}")
            return None

    def _one_cycle(self, session: Session) -> Cycle:
        """One cycle and what it adds to the result, however it ends."""
        cycle = Cycle(session, self.report)
        try:
            run_cycle(cycle)
        finally:
            self.result.cycles += 1
            for name, seconds in cycle.seconds.items():
                self.result.seconds[name] = self.result.seconds.get(name, 0.0) + seconds
            self._collect(cycle)
        if self.on_cycle is not None:
            self.on_cycle(cycle)
        return cycle

    def _collect(self, cycle: Cycle) -> None:
        """Add a cycle's decisions to the result; of waiting gangs only the last word counts."""
        result = self.result
        decisions, warnings = cycle.session.journal.take()
        self.log.add(decisions)
        self.book.add(decisions)
        for text in warnings:
            result.warn(text)
        self._note_phases(cycle, decisions)
        result.unseen = cycle.sight.unseen()

    def _note_phases(self, cycle: Cycle, decisions: Iterable[Decision]) -> None:
        """Where each gang stands; cycles do not see those that are over, but callers wait for them too."""
        phases: dict[str, str] = {uid: record.phase for uid, record in list(cycle.records.items())}
        if cycle.saw_finished:
            self.ended.clear()
        self.ended.update(cycle.finished)
        self.ended.update({uid: record.phase for uid, record in list(cycle.records.items()) if record.finished})
        for item in decisions:
            if item.action == "expire":
                self.ended.pop(item.uid, None)
        while len(self.ended) > MOST_DECISIONS:
            del self.ended[next(iter(self.ended))]
        self.result.phases = collections.ChainMap(phases, self.ended)

    def _finish(self, cycle: Cycle) -> None:
        """Bring a single cycle to an end: starts that took long and gangs that go may not be looked at again soon."""
        session = cycle.session
        if session.workers.busy and session.workers.drain(session.lease.time_left()):
            # One more cycle reports what they came to.
            cycle = self._one_cycle(session)
        self._finish_undos(cycle)

    def _finish_undos(self, cycle: Cycle) -> None:
        """Stay a little while gangs that were undone are going, so that a single cycle leaves them in the queue."""
        end = time.monotonic() + LINGER
        while time.monotonic() < end:
            known = list(cycle.records.values())
            going = [item for item in known if item.phase in UNDOING and item.uid not in cycle.skipped]
            if not going:
                break
            cycle.side_by_side([(record, partial(finish_undo, cycle, record)) for record in going])
            time.sleep(_POLL)
        publish_events(cycle)
        self._collect(cycle)

    def _take_lease(self) -> DispatchLease | None:
        """Become the holder, in the cluster's Lease or, where this account may not, in the namespace's own."""
        waits_long = self.end is not None and not self.options.sizes_only
        patience = max(0.0, self.end - time.monotonic()) if waits_long and self.end else self.options.lease_wait
        identity = f"{socket.gethostname()}_{os.getpid()}"
        wanted = self.options.lease
        while True:
            lease = DispatchLease(self.client, wanted, identity, renewal_client=self.renewal_client)
            try:
                epoch = lease.acquire(
                    patience,
                    lambda holder: self.report(f"waiting for the Lease, held by {holder}"),
                    lambda trouble: self.report(f"trying again: {trouble}"),
                )
            except KubeError as error:
                wanted = self._other_lease(wanted, error)
                continue
            self.result.holder = None if epoch is not None else lease.holder
            return lease if epoch is not None else None

    def _other_lease(self, lease: LeaseOptions, error: KubeError) -> LeaseOptions:
        """The Lease to try after this one could not be had; the error itself when there is none."""
        if not _namespace_missing(error) and not isinstance(error, Forbidden):
            raise error
        if _namespace_missing(error) and _make_namespace(self.client, lease):
            return lease
        namespaces = self.options.namespaces
        if namespaces is None or len(namespaces) != 1 or self.result.coordination == "namespace":
            raise error
        self.result.coordination = "namespace"
        own = LeaseOptions(namespaces[0], lease.name, lease.seconds)
        self.result.warn(f"coordinated by {own.target} only, others may start gangs elsewhere: {error}")
        return own


def _rest(session: Session, cycle: Cycle | None, end: float) -> float:
    """How long to wait if nothing rings: until the next time rule may apply."""
    rest = min(LONGEST_REST, end - time.monotonic())
    if cycle is None:
        return min(rest, 1.0)
    pause = session.pauses.next_end()
    if pause is not None:
        rest = min(rest, max(_POLL, pause))
    if cycle.next_check is not None:
        rest = min(rest, max(_POLL, cycle.next_check - session.clock.now()))
    return max(0.0, rest)


def _least_rest(cycle: Cycle | None) -> float:
    """How long to wait whatever rings: in proportion to what looking and deciding took, not to what the server did."""
    if cycle is None:
        return SHORTEST_REST
    thought = sum(cycle.seconds.get(part, 0.0) for part in ("read", "decide"))
    waits = any(record.phase == "queued" for record in list(cycle.records.values()))
    return max(SHORTEST_REST if waits else CALM_REST, min(1.0, thought / 2))


def _namespace_missing(error: KubeError) -> bool:
    """Whether a Lease could not be created because there is no place for it."""
    return isinstance(error.__cause__, NotFound)


def _make_namespace(client: KubeClient, lease: LeaseOptions) -> bool:
    """Create the Lease's namespace where this account may."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": lease.namespace}}
    try:
        create(client, resource_path("v1", "namespaces"), namespace)
    except Conflict:
        return True
    except Forbidden:
        return False
    return True


def identity_of(client: KubeClient, options: DispatchOptions) -> Identity:
    """With whose rights objects are created: the caller's, or those of an account of the gang's namespace."""
    if options.namespaces is not None:
        return lambda _namespace: client

    def act_as(namespace: str) -> KubeClient:
        """The account may do what its namespace's owner allowed, and nothing else; its groups the server knows."""
        return client.acting_as(f"system:serviceaccount:{namespace}:{ACCOUNT}")

    return act_as
