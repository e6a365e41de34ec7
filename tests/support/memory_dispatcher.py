# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers over the cluster in memory: real cycles under the real ledger, request by request, in virtual time.

Each dispatcher has a thread of its own, yet only one thread runs at any time: it hands over before a request, chosen
by a seed, or when it rests. So every interleaving of requests is possible and each can be had again. This is the one
place that knows how the product puts its parts together.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import threading
import typing as t
from concurrent.futures import Future
from unittest import mock

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.cycle import run_cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.change_signal import record_essence
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import MirroredSource
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle, Journal, Session
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.health_steps import save_due
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task, Workers
from ansible_collections.muster.kube.plugins.module_utils._kube import client as client_module
from ansible_collections.muster.kube.plugins.module_utils._kube import reads as reads_module
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError, ServerFault, Unreachable
from ansible_collections.muster.kube.plugins.module_utils._kube.mirror import Mirrors
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import UNFORESEEN, BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT, DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease, LostLeadership
from ansible_collections.muster.kube.tests.support.memory_cluster import ADMIN, BEGINNING, Change, MemoryCluster, Object
from ansible_collections.muster.kube.tests.support.memory_controllers import FINISHED, Controllers, Pace
from ansible_collections.muster.kube.tests.support.memory_mirror import WatchPace, memory_mirrors
from ansible_collections.muster.kube.tests.support.memory_wire import Killed, Line
from ansible_collections.muster.kube.tests.support.virtual_clock import VirtualClock

LEASE = LeaseOptions("muster-system", "dispatch", 4.0)
# How long a dispatcher stays away after its turn.
_AWAY = 0.7
# Never reached when things work.
_PATIENCE = 60.0
# Kinds whose changes mean nothing to a dispatcher.
_NO_NEWS = ("events", "leases")


class Crash(Exception):
    """A dispatcher ended with an error that none may end with."""


class _Inline:
    """An executor whose calls run at once, in the thread that asks for them."""

    def __init__(self, *_anything: t.Any, **_more: t.Any) -> None:
        """As many workers as you like."""

    def __enter__(self) -> _Inline:
        """Nothing to start."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Nothing to end."""

    def submit(self, call: t.Callable[..., t.Any], *arguments: t.Any) -> Future[t.Any]:
        """Run the call; what it raises is raised by whoever asks for the result, but the end of a process at once."""
        future: Future[t.Any] = Future()
        try:
            future.set_result(call(*arguments))
        except Exception as error:  # noqa: BLE001
            future.set_exception(error)
        return future


class InlineWorkers(Workers):
    """Workers whose calls run at once, one after the other."""

    def run(self, tasks: t.Iterable[Task]) -> None:
        """Every call is quick in virtual time."""
        for task in tasks:
            task.call()

    begin = run


@contextlib.contextmanager
def inline_calls() -> t.Iterator[None]:
    """Everything the product does side by side comes one after the other inside the block."""
    with (
        mock.patch.object(client_module, "ThreadPoolExecutor", _Inline),
        mock.patch.object(reads_module, "ThreadPoolExecutor", _Inline),
    ):
        yield


class SteppedLedger(DispatchLease):
    """The ledger without a thread: whoever lets time pass renews it; while it writes, renewals must wait."""

    def __init__(self, *arguments: t.Any, clock: VirtualClock, **settings: t.Any) -> None:
        """In virtual time."""
        super().__init__(*arguments, renew_in_background=False, clock=clock, **settings)
        self._time = clock
        self._busy = False
        # A renewal that failed is tried again after a pause.
        self._not_before = 0.0

    def renew(self) -> None:
        """As the thread would."""
        with self._working():
            super().renew()

    def commit(self, annotation_text: str) -> None:
        """As always."""
        with self._working():
            super().commit(annotation_text)

    def release(self, *, idle: bool = True) -> None:
        """As always."""
        with self._working():
            super().release(idle=idle)

    def next_renewal(self) -> float | None:
        """When the Lease has to be renewed; None when it is not ours."""
        if self._busy or self.must_stop():
            return None
        due = self._time.now + self.time_left() - self.terms.seconds / 3
        return max(due, self._not_before)

    def renew_in_time(self) -> None:
        """Renew after a third of the lease; who has lost it learns of that by its next write."""
        moment = self.next_renewal()
        if moment is None or moment > self._time.now:
            return
        self._not_before = self._time.now + self.terms.seconds / 12
        with contextlib.suppress(KubeError):
            self.renew()

    @contextlib.contextmanager
    def _working(self) -> t.Iterator[None]:
        """A write is under way."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


class StrictJournal(Journal):
    """A journal that lets no error of ours pass: a run goes on after one, a test must not."""

    def warn(self, text: str) -> None:
        """As always, but for what nobody foresaw."""
        if UNFORESEEN in text:
            raise Crash(text)
        super().warn(text)


class MemoryDispatcher:
    """One process: an identity, the namespaces it looks at (None: all), and what it holds in memory while it lives."""

    def __init__(
        self,
        cluster: MemoryCluster,
        name: str,
        namespaces: t.Iterable[str] | None = None,
        *,
        latency: float = 0.0,
        mirrored: bool = False,
        **terms: t.Any,
    ) -> None:
        """Not started yet; terms are those of a run. mirrored is what reads from mirrors, as runs of many cycles do."""
        self.cluster = cluster
        self.mirrored = mirrored
        self.pace = WatchPace()
        self.mirrors: Mirrors | None = None
        # What makes mirrors, beside the cluster, the client and the pace.
        self.mirror_settings: dict[str, t.Any] = {}
        # Called when its mirrors show something new.
        self.ring: t.Callable[[], None] = lambda: None
        self.name = name
        usual: dict[str, t.Any] = {"lease": LEASE, "bind_timeout": 6.0, "start_timeout": 20.0}
        listed = None if namespaces is None else tuple(namespaces)
        self.terms = DispatchOptions(namespaces=listed, **{**usual, **terms})
        self.line = Line(cluster, latency=latency)
        self.line.before = self._before_request
        self.line.wait = self.pass_time
        self.ledger: SteppedLedger | None = None
        self.session: Session | None = None
        self.last: Cycle | None = None
        # Whether states are written when more is known, as in a run of many cycles.
        self.defers = False
        self.reports: list[str] = []
        self.troubles: list[str] = []
        self.cycles = 0
        self.lives = 0

    # Step by step, for tests that want no threads.

    def acquire(self, patience: float = 0.0) -> bool:
        """Bid for the Lease; True when it is ours."""
        self.lives += 1
        client, renewal = self.line.client(self.name), self.line.client(self.name)
        ledger = SteppedLedger(
            client,
            self.terms.lease,
            self.name,
            renewal_client=renewal,
            clock=self.cluster.clock,
            sleep=self.line.wait,
        )
        # Its own would be another one in each run.
        ledger.identity = f"{self.name}_{self.lives}"
        if ledger.acquire(patience) is None:
            return False
        self.ledger, self.session = ledger, self._make_session(client, ledger)
        return True

    def cycle(self) -> Cycle:
        """One cycle under the Lease, which is taken first if need be."""
        if self.session is None and not self.acquire():
            raise AssertionError(f"{self.name} cannot have the Lease")
        assert self.session is not None
        cycle = Cycle(self.session, self.reports.append)
        self.cycles += 1
        with inline_calls():
            run_cycle(cycle)
        self.last = cycle
        return cycle

    def pass_time(self, seconds: float) -> None:
        """Let time pass and the Lease be renewed meanwhile."""
        clock = self.cluster.clock
        end = clock.now + max(0.0, seconds)
        while clock.now < end:
            renewal = self.next_renewal()
            clock.advance_to(end if renewal is None else min(end, renewal))
            self.renew_in_time()

    def save(self) -> None:
        """Write what is left to be written, as a run does before it ends."""
        if self.last is not None and self.session is self.last.session:
            with inline_calls():
                save_due(self.last, after=0.0)

    def release(self) -> None:
        """Give the Lease back, as a process does that ends by itself."""
        if self.ledger is not None:
            with contextlib.suppress(KubeError):
                self.ledger.release()
        self.forget()

    def forget(self) -> None:
        """What a process knew is gone with it."""
        self.ledger, self.session = None, None
        if self.mirrors is not None:
            self.mirrors.close()
            self.mirrors = None

    def _make_session(self, client: KubeClient, ledger: DispatchLease) -> Session:
        """What the run of a dispatcher makes when it has got the Lease."""
        if self.mirrored:
            self.mirrors = memory_mirrors(self.cluster, client, self.ring, self.pace, **self.mirror_settings)
        session = Session(
            client,
            ledger,
            self.terms,
            every_wrapper=False,
            identity_of=self._identity(client),
            workers=InlineWorkers(),
            defers=self.defers,
            source=None if self.mirrors is None else MirroredSource(client, self.mirrors),
            essence=record_essence(self.terms, ledger.identity),
        )
        session.journal = StrictJournal()
        session.clock = ServerClock(client, wall=lambda: BEGINNING.timestamp() + self.cluster.clock.now)
        return session

    def _identity(self, client: KubeClient) -> t.Callable[[str], KubeClient]:
        """With whose rights objects are created."""
        if self.terms.namespaces is not None:
            return lambda _namespace: client
        return lambda namespace: client.acting_as(f"system:serviceaccount:{namespace}:{ACCOUNT}")

    # The thread of renewals, as it meets the requests of the others.

    def _before_request(self, _method: str, _path: str) -> None:
        """Renew when it is time, between two requests."""
        self.renew_in_time()

    def renew_in_time(self) -> None:
        """Renew when it is time."""
        if self.ledger is not None:
            self.ledger.renew_in_time()

    def next_renewal(self) -> float | None:
        """When the Lease has to be renewed; None when it is not ours."""
        return None if self.ledger is None else self.ledger.next_renewal()


class _Actor:
    """The thread of one dispatcher, which runs only while it has the baton."""

    def __init__(self, stage: MemoryStage, dispatcher: MemoryDispatcher, turn: int | None) -> None:
        """It serves for so many cycles at a time (None: for as long as it can) once it is given the baton."""
        self.stage = stage
        self.dispatcher = dispatcher
        self.turn = turn
        self.stopped = False
        self.over = False
        self.wakes = stage.clock.now
        self.bell: int | None = None
        self.news = 0
        # As of its last cycle: what it had seen then, and when it wants to look again whatever happens.
        self.seen = -1
        self.next_check: float | None = None
        self.requests_left = 0
        self._dies = False
        self._baton = threading.Semaphore(0)
        dispatcher.line.wait = self.rest
        dispatcher.line.before = self.before_request
        self._thread = threading.Thread(target=self._run, name=f"dispatcher-{dispatcher.name}", daemon=True)
        self._thread.start()

    # For whoever hands the baton.

    def runnable(self) -> bool:
        """Whether it has something to do now."""
        if self.stopped or self.over:
            return False
        return self.wakes <= self.stage.clock.now or (self.bell is not None and self.news > self.bell)

    def hear(self, change: Change) -> None:
        """Count a change that may matter to this dispatcher: elsewhere only room that becomes free, or is promised."""
        namespaces, place = self.dispatcher.terms.namespaces, change.object["metadata"].get("namespace")
        ours = namespaces is None or place is None or place in namespaces or change.plural == "configmaps"
        freed = change.plural == "pods" and (change.gone or change.object["status"].get("phase") in FINISHED)
        if change.plural in _NO_NEWS or not (ours or freed):
            return
        if self.dispatcher.mirrored:
            # News are what its mirrors can show; a little later, so that they do.
            clock = self.stage.clock
            clock.after(self.dispatcher.pace.due(clock.now) - clock.now + 0.001, self._count_news)
        else:
            self._count_news()

    def _count_news(self) -> None:
        """There is something to look at."""
        self.news += 1

    def quiet(self) -> bool:
        """Whether it has seen everything and waits for nothing."""
        return not self.over and self.seen == self.news and self.next_check is None

    def take(self) -> None:
        """It has the baton."""
        self._baton.release()

    def end(self) -> None:
        """The process is killed where it stands."""
        if not self.over:
            self._dies = True
            self.take()
            self.stage.wait_for_baton()
        self._thread.join(_PATIENCE)

    # Inside the thread.

    def runs_now(self) -> bool:
        """Whether it is this one that has the baton."""
        return threading.current_thread() is self._thread

    def stand_still(self, seconds: float) -> None:
        """The process is frozen amid what it does, a request for instance, for so long."""
        self.stopped = True
        self.wakes = self.stage.clock.now
        self.stage.clock.after(seconds, self.go_on)
        self._hand_over()

    def go_on(self) -> None:
        """It is frozen no more."""
        self.stopped = False

    def _hand_over(self) -> None:
        """Give the baton to whoever is next, and wait for it unless that is this one again."""
        following = self.stage.choose()
        if following is self:
            return
        self.stage.pass_baton(following)
        self._baton.acquire()
        if self._dies:
            raise Killed

    def before_request(self, _method: str, _path: str) -> None:
        """The only place where others get between two requests."""
        if self.requests_left <= 0:
            self.wakes = self.stage.clock.now
            self._hand_over()
        self.requests_left -= 1
        self.dispatcher.renew_in_time()

    def rest(self, seconds: float, bell: bool = False) -> None:
        """Sleep in virtual time, renewing the Lease meanwhile; with a bell any news ends the rest."""
        clock = self.stage.clock
        end = clock.now + max(0.0, seconds)
        heard = self.news
        while True:
            renewal = self.dispatcher.next_renewal()
            self.wakes = end if renewal is None else min(end, renewal)
            self.bell = heard if bell else None
            self._hand_over()
            self.bell = None
            self.dispatcher.renew_in_time()
            if clock.now >= end or (bell and self.news > heard):
                return

    def _run(self) -> None:
        """The thread."""
        self._baton.acquire()
        try:
            if not self._dies:
                self._serve()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001
            self.stage.crashes.append(f"{self.dispatcher.name}: {type(error).__name__}: {error}")
        finally:
            self.dispatcher.forget()
            self.over = True
            self.stage.pass_baton(None if self._dies else self.stage.choose())

    def _serve(self) -> None:
        """Bid for the Lease, work under it, leave it to others, and again when there is work."""
        dispatcher = self.dispatcher
        while True:
            try:
                if dispatcher.acquire(_PATIENCE):
                    self._lead()
                    dispatcher.save()
                    dispatcher.release()
            except LostLeadership as error:
                dispatcher.troubles.append(str(error))
                dispatcher.forget()
            except (KubeError, BadInput) as error:
                # The run ends with this error; whoever started it starts the next.
                dispatcher.troubles.append(str(error))
                dispatcher.release()
            self.rest(_AWAY)
            self._wait_for_work()

    def _lead(self) -> None:
        """Cycle after cycle until the turn is over; under a new Lease first nothing, as in a run."""
        ledger, session = self.dispatcher.ledger, self.dispatcher.session
        assert ledger is not None
        assert session is not None
        self.rest(ledger.time_to_wait(session.clock.now()))
        served = 0
        while True:
            news = self.news
            self.seen = -1
            try:
                cycle = self.dispatcher.cycle()
            except (Unreachable, ServerFault) as error:
                self.dispatcher.troubles.append(str(error))
                self.rest(1.0)
            else:
                self.seen, self.next_check = news, self._next_check(cycle)
            served += 1
            # Who takes turns leaves when there is nothing to do.
            if self.turn is not None and (served >= self.turn or self.seen == self.news):
                return
            self._wait_for_work()

    def _next_check(self, cycle: Cycle) -> float | None:
        """When to look again although nothing changed: soon while something is under way, else as the rules say."""
        moments = [] if cycle.next_check is None else [cycle.next_check - BEGINNING.timestamp()]
        pause = cycle.session.pauses.next_end()
        if pause is not None:
            moments.append(self.stage.clock.now + pause)
        return min(moments, default=None)

    def _wait_for_work(self) -> None:
        """Rest until something changed that was not seen, or it is time to look again."""
        clock = self.stage.clock
        while self.seen == self.news:
            longest = self.stage.longest_rest
            if self.next_check is not None:
                longest = min(longest, max(0.2, self.next_check - clock.now))
            self.rest(longest, bell=True)
            if self.next_check is not None and clock.now >= self.next_check:
                return


@dataclasses.dataclass
class Quantum:
    """How many requests a dispatcher sends before others may get between."""

    least: int = 1
    most: int = 12


class MemoryStage:
    """A cluster in memory, its controllers, and dispatchers that take turns by a seed."""

    def __init__(self, seed: int = 1, pace: Pace | None = None, *, latency: float = 0.01) -> None:
        """An empty cluster with the namespace of the Lease."""
        self.cluster = MemoryCluster()
        self.clock = self.cluster.clock
        self.controllers = Controllers(self.cluster, seed, pace)
        self.chance = random.Random(seed)
        self.latency = latency
        self.quantum = Quantum()
        self.longest_rest = 10.0
        self.crashes: list[str] = []
        self._baton = threading.Semaphore(0)
        self._done: t.Callable[[], bool] = lambda: True
        self._end = 0.0
        self.actors: dict[str, _Actor] = {}
        self.cluster.listeners.append(self._hear)
        self.add_namespace(LEASE.namespace)

    def __enter__(self) -> MemoryStage:
        """Calls come one after the other from now on."""
        self._inline = inline_calls()
        self._inline.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        """End every thread."""
        for actor in self.actors.values():
            actor.end()
        self._inline.__exit__(None, None, None)

    def _hear(self, change: Change) -> None:
        """Let dispatchers know of a change."""
        for actor in self.actors.values():
            actor.hear(change)

    # Setting up.

    def add_namespace(self, name: str) -> None:
        """A namespace with the account that gangs are started with."""
        self.cluster.add("namespaces", {"metadata": {"name": name}})
        self.cluster.add("serviceaccounts", {"metadata": {"name": ACCOUNT, "namespace": name}})

    def add_nodes(self, *nodes: Object) -> None:
        """Nodes as they are written down."""
        for node in nodes:
            self.cluster.add("nodes", node)

    def dispatcher(self, name: str, namespaces: t.Iterable[str] | None = None, **terms: t.Any) -> MemoryDispatcher:
        """A dispatcher to be run by hand, cycle by cycle."""
        return MemoryDispatcher(self.cluster, name, namespaces, **terms)

    def start(
        self, name: str, namespaces: t.Iterable[str] | None = None, *, turn: int | None = None, **terms: t.Any
    ) -> MemoryDispatcher:
        """A dispatcher with a thread; turn is after how many cycles it leaves the Lease to others."""
        made = MemoryDispatcher(self.cluster, name, namespaces, latency=self.latency, **terms)
        made.defers = True
        self.actors[name] = _Actor(self, made, turn)
        return made

    def kill(self, name: str) -> None:
        """End a process where it stands; a new one of the same name can be started."""
        self.actors.pop(name).end()

    # Letting things happen.

    def run_for(self, seconds: float) -> None:
        """Let dispatchers and time go on."""
        self.run_until(lambda: False, seconds)

    def run_until(self, done: t.Callable[[], bool], seconds: float = 600.0) -> bool:
        """Go on until something holds; False when it does not in time."""
        self._done, self._end = done, self.clock.now + seconds
        following = self.choose()
        if following is not None:
            following.take()
            self.wait_for_baton()
        return done()

    def choose(self) -> _Actor | None:
        """Who runs next; while nobody can, time goes on. None when what was waited for is there, or time is up.

        Whoever has the baton chooses, so that no thread is waked only to say who is next.
        """
        while self.clock.now < self._end and not self._done():
            ready = [actor for _name, actor in sorted(self.actors.items()) if actor.runnable()]
            if ready:
                chosen = self.chance.choice(ready)
                chosen.requests_left = self.chance.randint(self.quantum.least, self.quantum.most)
                return chosen
            moments = [actor.wakes for actor in self.actors.values() if not actor.over and not actor.stopped]
            event = self.clock.next_time()
            self.clock.advance_to(min([*moments, self._end] if event is None else [*moments, event, self._end]))
        return None

    def pass_baton(self, following: _Actor | None) -> None:
        """Wake a dispatcher, or whoever waits for all of them."""
        if following is None:
            self._baton.release()
        else:
            following.take()

    def wait_for_baton(self) -> None:
        """Until no dispatcher runs."""
        if not self._baton.acquire(timeout=_PATIENCE * 10):
            raise AssertionError("a dispatcher does not give the baton back")

    def at_rest(self) -> bool:
        """Whether nothing is planned and no dispatcher that runs has anything left to do."""
        return self.clock.next_time() is None and all(actor.quiet() for actor in self.actors.values())

    def admin(self, user: str = ADMIN) -> KubeClient:
        """A client of somebody who is no dispatcher."""
        return Line(self.cluster).client(user)
