# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The session of a dispatcher: what the holder of the Lease works with, and the records while a cycle changes them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import math
import re
import threading
import time
import typing as t
from collections.abc import Callable, Collection, Hashable, Iterable
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.protocol import Engine, NotBegun, ticket_keeper
from ansible_collections.muster.kube.plugins.module_utils._engine.registry import ENGINES
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.pauses import Pauses
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.sources import ListedSource, Source
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.world import read_records
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.meters import MeterKeeper
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.progress import ProgressKeeper
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.retention import Retention
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task, Workers
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import KubeError
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import server_version
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import ObjectGone, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Batch, BatchRead
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Kinds
from ansible_collections.muster.kube.plugins.module_utils._model.gang.open_set.texts import batch_text, read_batch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record, as_stored, with_unsaved
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    Changes,
    Phase,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.status import TreeStatus
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import TreeDigests
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import (
    BadInput,
    MusterError,
    unforeseen,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import canonical_json
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Action, Decision
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import unlisted_since
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import CyclePlan
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Sight
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import DEFAULT_RULES
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import DispatchLease, LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.events import NewsBudget
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records
from ansible_collections.muster.kube.plugins.module_utils._store.run_history import History
from ansible_collections.muster.kube.plugins.module_utils._store.state_writer import StateWriter, follows

Identity = Callable[[str], KubeClient]

NEWER_VERSION = "newer_version"


# The state of a gang that was started is written so many seconds later even if there is nothing more to tell.
SAVE_AFTER = 2.0
# What a dry run showed is asked again when it is older.
REHEARSAL_SECONDS = 60.0
# The server on which suspended Jobs take other resources unless that was switched off.
JOBS_CHANGE_SINCE = (1, 36)
# Names of objects that could as well be values in JSON.
_BARE = re.compile(r"[-+.0-9e]+|true|false|null")


@dataclasses.dataclass(frozen=True, slots=True)
class LastVerdict:
    """The gist of the verdict last reported of a waiting gang, and when it was last compared with its record."""

    gist: tuple[t.Any, ...]
    compared: float


@dataclasses.dataclass(slots=True)
class ToldAmounts:
    """What was published of quota trees: when it was last looked at, and what is known to be told of each tree.

    Beside that stands when it was last compared with the cluster. later looks once more, for what changed since; barred
    tells that this account may not publish anything.
    """

    looked: float = -math.inf
    known: dict[str, tuple[TreeStatus, float]] = dataclasses.field(default_factory=dict)
    later: Callable[[], None] | None = None
    barred: bool = False


class Journal:
    """What was decided, written and warned of, by all threads, until it is taken."""

    def __init__(self) -> None:
        """Nothing happened yet."""
        self._lock = threading.Lock()
        self._decisions: list[Decision] = []
        self._warnings: list[str] = []
        self._changes: dict[str, tuple[Record, Record]] = {}

    def add(self, decision: Decision) -> None:
        """Note a decision."""
        with self._lock:
            self._decisions.append(decision)

    def warn(self, text: str) -> None:
        """Note something that a user should know."""
        with self._lock:
            self._warnings.append(text)

    def changed(self, before: Record, after: Record) -> None:
        """Note a write to a record: as it was before the first one, and as it is."""
        with self._lock:
            first, _last = self._changes.get(before.uid, (before, before))
            self._changes[before.uid] = (first, after)

    def peek_changes(self) -> list[tuple[Record, Record]]:
        """The records written since they were last taken."""
        with self._lock:
            return list(self._changes.values())

    def take_changes(self) -> list[tuple[Record, Record]]:
        """The same, once."""
        with self._lock:
            taken, self._changes = self._changes, {}
        return list(taken.values())

    def take(self) -> tuple[list[Decision], list[str]]:
        """Decisions and warnings since the last time."""
        with self._lock:
            taken = self._decisions, self._warnings
            self._decisions, self._warnings = [], []
        return taken


class Session:
    """What one holder of the Lease works with, for as long as it holds it."""

    def __init__(
        self,
        client: KubeClient,
        lease: DispatchLease,
        options: DispatchOptions,
        *,
        every_wrapper: bool,
        identity_of: Identity,
        workers: Workers | None = None,
        source: Source | None = None,
        essence: Callable[[Record], Hashable] | None = None,
        defers: bool = False,
    ) -> None:
        """identity_of gives the client that creates a namespace's objects.

        source is where cycles read, lists if not given; essence is what of a record matters to it at once; defers tells
        that cycles follow soon.
        """
        self.client = client
        self.lease, self.options, self.defers = lease, options, defers
        self.clock = ServerClock(client)
        self.source: Source = source or ListedSource(client)
        self.records = Records(client, every_wrapper=every_wrapper, lists=self.source.lists, essence=essence)
        self.sight = Sight(options.namespaces, ())
        self.writer = StateWriter(client, lease, self.now_text)
        self.engine: Engine = ENGINES[options.engine](client, lease, identity_of, self.now_text)
        self.memory = Memory()
        self.history = History(client, lease.terms.namespace)
        self.retention, self.progress = Retention(), ProgressKeeper(client, lease.write_timeout)
        # Records that are over although their tickets could not be marked.
        self.unmarked: set[str] = set()
        # When the status of AppWrappers was last written.
        self.status_written: dict[str, float] = {}
        # AppWrappers that were over when their status was written last.
        self.ends_projected: set[str] = set()
        self.waiting: dict[str, LastVerdict] = {}
        # Who else writes the status of which wrapper, as it was last reported.
        self.foreign: dict[str, str] = {}
        # Fingerprints of edited specifications that were reported; None is one that cannot be read.
        self.edited: dict[str, str | None] = {}
        # What edited gangs were started with, by record.
        self.started: dict[str, StartedAs] = {}
        self.workers = workers or Workers()
        self.journal, self.amounts = Journal(), ToldAmounts()
        self.meters = MeterKeeper(client, options.lease.namespace, lease.write_timeout, self._warn)
        self.pauses, self.news = Pauses(client.clock), NewsBudget(client.clock)
        # What was asked for lately because a list did not show it: tickets, and owners of tickets.
        self.doubts = Pauses(client.clock)
        # Entries of the batch that are over although their records do not say so, by uid and commit.
        self.over: set[tuple[str, str]] = set()
        # Attempts whose removal this holder has ordered itself.
        self.removed: set[tuple[str, int]] = set()
        # What dry runs showed, kept for those that took longer than a cycle waits.
        self.rehearsals: dict[str, Rehearsal] = {}
        # Gangs of which an object was refused, and shapes of gangs that dry runs allowed.
        self.given_back, self.allowed_shapes = set[str](), AllowedShapes(client.clock)
        # Records whose states are still to be written, and since when.
        self.unsaved: dict[str, tuple[Record, float]] = {}
        self._batch: tuple[str | None, BatchRead] = (None, BatchRead())
        self._damaged_at: float | None = None

    @functools.cached_property
    def tree_digests(self) -> TreeDigests:
        """The digests of quota trees that batches name."""
        return TreeDigests()

    @functools.cached_property
    def suspended_jobs_change(self) -> bool:
        """Whether suspended Jobs take other resources on this server; it is asked once for its version."""
        return server_version(self.client) >= JOBS_CHANGE_SINCE

    def batch(self) -> BatchRead:
        """The batch in the Lease; a text that did not change is not read again."""
        text = self.lease.batch_text()
        if text != self._batch[0]:
            self._batch = (text, read_batch(text))
        return self._batch[1]

    def commit(self, batch: Batch) -> None:
        """Write a batch into the Lease, which is the commit point of a cycle."""
        text = batch_text(batch)
        self.lease.commit(text)
        self._batch = (text, BatchRead(batch))

    def unlisted_since(self) -> float | None:
        """Since when (on the server's clock) the Lease does not list what was promised; None when it does."""
        read = self.batch()
        seen = self._damaged_at if self._damaged_at is not None else self.clock.now()
        since = unlisted_since(read, self.lease.created(), seen)
        if since is not None and read != BatchRead() and self._damaged_at is None:
            self._damaged_at = seen
            if read.problem is not None:
                target = self.lease.terms.target
                self.journal.warn(f"{target} does not tell any more what was promised: {read.problem}")
        return since

    def forget(self, alive: set[str], queued: t.Collection[str]) -> None:
        """Let go of what is known of records that are gone.

        What was reported of gangs that wait no more must be reported again when they do.
        """
        _keep_only(self.waiting, queued)
        for known in (self.status_written, self.foreign, self.edited, self.started, self.rehearsals, self.unsaved):
            _keep_only(t.cast("dict[str, t.Any]", known), alive)
        for item in [item for item in tuple(self.removed) if item[0] not in alive]:
            self.removed.discard(item)
        self.given_back &= alive
        self.ends_projected &= alive
        self.pauses.keep_only(alive)
        self.engine.forget(alive)
        self.doubts.drop_old()

    def _warn(self, text: str) -> None:
        self.journal.warn(text)

    def now_text(self) -> str:
        """The server's time as records carry it."""
        return micro_time_text(int(self.clock.now() * 1_000_000))


def _keep_only(known: dict[str, t.Any], uids: Collection[str]) -> None:
    """Forget the others, in place and by their names as they are now: threads of slow calls write meanwhile."""
    for uid in [uid for uid in tuple(known) if uid not in uids]:
        known.pop(uid, None)


@dataclasses.dataclass(frozen=True, slots=True)
class StartedAs:
    """What an edited gang was started with, found out for one version of its record; lost names an object that went."""

    resource_version: str
    spec: GangSpec
    lost: str | None


class AllowedShapes:
    """Gangs that the server would accept, by what their objects say besides their own names; for a while."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """None is known."""
        self._clock = clock
        self._until: dict[str, float] = {}

    def knows(self, spec: GangSpec, kinds: Kinds) -> bool:
        """Whether a gang that differs in its names only was allowed lately, on nodes of the same kinds."""
        now = self._clock()
        for shape in [shape for shape, until in tuple(self._until.items()) if until <= now]:
            self._until.pop(shape, None)
        return bool(self._until) and shape_of(spec, kinds) in self._until

    def add(self, spec: GangSpec, kinds: Kinds) -> None:
        """Note that a gang was allowed."""
        self._until[shape_of(spec, kinds)] = self._clock() + REHEARSAL_SECONDS

    def clear(self) -> None:
        """Forget all: one was refused after all."""
        self._until.clear()


def shape_of(spec: GangSpec, kinds: Kinds) -> str:
    """What the objects of a gang say, and where, with numbers in the place of its own names wherever these stand.

    Kinds are those of the flavors of its podsets: they add to what the objects say.
    """
    names = [spec.name, *(str(obj["metadata"].get("name") or "") for obj in spec.objects)]
    numbers = {name: str(number) for number, name in enumerate(names) if name and not _BARE.fullmatch(name)}
    added = {name: [[dict(one.node_labels), *one.tolerations] for one in found] for name, found in kinds.items()}
    bare = canonical_json([spec.namespace, spec.queue, spec.planned, added])
    if numbers:
        own = "|".join(sorted(map(re.escape, numbers), key=len, reverse=True))
        bare = re.sub(rf"(?<![A-Za-z0-9])(?:{own})(?![A-Za-z0-9])", lambda found: f"#{numbers[found[0]]}", bare)
    return hashlib.sha256(bare.encode()).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True)
class Rehearsal:
    """What the dry run of a gang showed; it holds for this version of the record, this steering and these kinds."""

    resource_version: str
    steering: dict[str, tuple[str, ...]]
    kinds: Kinds
    at: float
    reason: str | None = None
    message: str = ""


class Cycle:
    """The records as they are while a cycle changes them, and what was decided about each."""

    def __init__(self, session: Session, report: Callable[[str], None]) -> None:
        """Nothing is read or changed yet."""
        self.session = session
        self.report = report
        self.skipped: set[str] = set()
        # Phases of gangs that were over when the cycle began, as far as it came to see them; and whether it saw all.
        self.finished: dict[str, Phase] = {}
        self.saw_finished = False
        self.next_check: float | None = None
        # What it decided, None until it has, and by what about sizes.
        self.plan: CyclePlan | None = None
        self.rules = DEFAULT_RULES
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        # Those this run is for; those of other namespaces, which count but are not touched; those left alone.
        self.records: dict[str, Record] = {}
        self.elsewhere: dict[str, Record] = {}
        self.aside: dict[str, Record] = {}
        # Objects of started gangs that are gone, of gangs whose records were edited and tell nothing of them any more.
        self.lost: dict[str, str] = {}
        self.sight = session.sight
        # Records of other controllers of which there is a ticket.
        self.doubtful: set[str] = set()
        # Uids of tickets that were removed in this cycle.
        self.gone_tickets: set[str] = set()
        # Records that calls of earlier cycles are still at work on.
        self.busy: Collection[t.Hashable] = frozenset()

    def read_records(self) -> None:
        """Begin with the records as they are now; what was under way before they were read is left to its thread."""
        session = self.session
        self.busy = session.workers.busy
        self.sight = session.sight = read_records(session.records, session.options, session.sight.blind, finished=False)
        self.records = {record.uid: record for record in self.sight.mine}
        self.elsewhere = {record.uid: record for record in self.sight.elsewhere}
        self.aside = {record.uid: record for record in self.sight.newer}
        self._recall_states()
        queued = {uid for uid, record in self.records.items() if record.phase == "queued"}
        session.forget({*self.records, *self.aside}, queued)
        self._report_newer()

    def _recall_states(self) -> None:
        """Go on with what this process knows of gangs it has started, where nobody else has written since."""
        for uid, (record, since) in list(self.session.unsaved.items()):
            found = self.records.get(uid)
            if found is None or record.state is None or not follows(record, found):
                self.session.unsaved.pop(uid, None)
            elif found.spec == record.spec:
                self.records[uid] = known = with_unsaved(found, record.state)
                self.session.unsaved[uid] = known, since
            else:
                # What was started is not what its user wants by now: saving it finds that out, and takes it back.
                self.records[uid] = record
                self.session.unsaved[uid] = record, -math.inf

    def _report_newer(self) -> None:
        """Report once which records are left to a newer version."""
        reported = self.session.foreign
        for record in self.aside.values():
            if reported.get(record.uid) != NEWER_VERSION:
                reported[record.uid] = NEWER_VERSION
                self.decide(record, "refuse", NEWER_VERSION, record.newer or "")

    def at_rest(self, record: Record) -> bool:
        """Whether this cycle may write about a record: no call is under way, and it does not pause after trouble."""
        uid = record.uid
        return uid not in self.busy and uid not in self.skipped and not self.session.pauses.pausing(uid)

    def may_judge(self, record: Record) -> bool:
        """Whether this cycle may act on how it judges a gang: also on a start that only has to wait and rests."""
        uid = record.uid
        waits = record.phase == "dispatching" and not self.session.pauses.in_trouble(uid)
        return self.at_rest(record) or (waits and uid not in self.busy and uid not in self.skipped)

    @contextlib.contextmanager
    def timed(self, what: str) -> t.Iterator[None]:
        """Note how long a part of the cycle takes."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] = self.seconds.get(what, 0.0) + time.perf_counter() - started

    # Carrying out.

    @contextlib.contextmanager
    def warning_of(self, obj: str) -> t.Iterator[None]:
        """A call about an object that may fail: trouble is reported and ends nothing but the call."""
        try:
            yield
        except LostLeadership:
            raise
        except KubeError as error:
            self.session.journal.warn(f"{obj}: {error}")
        except Exception as error:  # noqa: BLE001
            self.session.journal.warn(f"{obj}: {unforeseen(error)}")

    def carry_out(self, record: Record, write: Callable[[Record], Record | None]) -> Record | None:
        """One write about one record; None when it came to nothing, then the next cycle looks again.

        A record that was deleted or changed by its user meanwhile is no trouble. Losing the Lease ends the cycle.
        """
        try:
            written = write(record)
        except LostLeadership:
            raise
        except ObjectGone:
            with self._lock:
                self.records.pop(record.uid, None)
            return None
        except Superseded:
            self.skip(record)
            return None
        except (KubeError, BadInput) as error:
            self.skip(record, str(error))
            return None
        if written is not None:
            self.keep(record, written)
            if written is not record:
                self.session.pauses.over(record.uid)
        return written

    def skip(self, record: Record, trouble: str | None = None) -> None:
        """Leave a record alone for the rest of the cycle, and after trouble for longer each time."""
        with self._lock:
            self.skipped.add(record.uid)
        if trouble is None:
            self.session.pauses.look_later(record.uid)
        else:
            self.session.pauses.trouble(record.uid, trouble)
            self.session.journal.warn(f"{record.key}: {trouble}")

    def keep(self, before: Record, after: Record) -> None:
        """Go on with a record as it is now."""
        session, uid = self.session, after.uid
        session.journal.changed(before, after)
        if after.unsaved:
            session.unsaved[uid] = after, session.unsaved.get(uid, (after, session.client.clock()))[1]
            self.check_again(session.clock.now() + SAVE_AFTER)
        else:
            session.unsaved.pop(uid, None)
            session.records.remember(after)
        with self._lock:
            self.records[uid] = after

    def check_again(self, moment: float) -> None:
        """Look again at this time at the latest, in seconds on the server's clock."""
        with self._lock:
            self.next_check = moment if self.next_check is None else min(self.next_check, moment)

    def side_by_side(self, calls: Iterable[tuple[Record, Callable[[], object]]]) -> None:
        """One call about each record, several at once; each looks after its own trouble, and slow ones go on alone."""
        tasks = [Task(record.uid, record.namespace, partial(self._alone, record, call)) for record, call in calls]
        if not tasks:
            return
        self.session.workers.run(tasks)
        with self._lock:
            # A call that has not ended keeps its record from the rest of this cycle too.
            self.skipped |= {task.key for task in tasks} & self.session.workers.busy  # type: ignore[arg-type]

    def _alone(self, record: Record, call: Callable[[], object]) -> None:
        """One call about a record; an error of ours that it provokes is reported and harms no other gang."""
        try:
            call()
        except MusterError:
            raise
        except Exception as error:  # noqa: BLE001
            self.skip(record, unforeseen(error))

    def advance(self, record: Record, phase: Phase, reason: str, message: str, **changes: t.Unpack[Changes]) -> Record:
        """Write the next phase of a record; see save for one whose present phase is not written yet."""
        writer = self.session.writer
        if not record.unsaved:
            return writer.advance(record, phase, reason, message, **changes)
        return self.save(with_unsaved(record, writer.next_state(record, phase, reason, message, **changes)))

    def save(self, record: Record) -> Record:
        """Write the state of a record that was started and not written since; it is `undoing` if that came too late.

        A gang whose record cannot be written was taken back, and its entry is over.
        """
        session, state = self.session, record.state
        keeper = ticket_keeper(session.engine)
        if keeper is None or state is None:
            return record
        now = session.client.clock()
        since = session.unsaved.get(record.uid, (record, now))[1]
        longest = max(session.options.start_timeout, 2.0 * session.lease.terms.seconds)
        try:
            return keeper.save(record, patient=now - since < longest)
        except NotBegun:
            session.unsaved.pop(record.uid, None)
            session.over.add((record.uid, state.batch or ""))
            with self._lock:
                # It waits again: nothing is promised to it for the rest of this cycle either.
                self.records[record.uid] = as_stored(record)
            raise

    def decide(
        self, record: Record, action: Action, reason: str, message: str = "", verdict: dict[str, t.Any] | None = None
    ) -> None:
        """Note and report a decision; of waiting ones only those with a verdict, as most of a queue waits."""
        now = self.records.get(record.uid, record)
        decision = Decision(
            record.key, record.uid, action, reason, message, now.attempt, now.phase, self.session.now_text(), verdict
        )
        self.session.journal.add(decision)
        if action != "wait" or verdict is not None:
            self.report(decision.line())
