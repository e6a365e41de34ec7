# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode: the same reading and the same plan as those of a cycle, shown instead of carried out."""

from __future__ import annotations

import dataclasses
import time
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.addresses import address_objects
from ansible_collections.muster.kube.plugins.module_utils._engine.dry_run import API_TROUBLE, DryRun, dry_run
from ansible_collections.muster.kube.plugins.module_utils._engine.outcomes import Refusal
from ansible_collections.muster.kube.plugins.module_utils._engine.registry import ENGINES
from ansible_collections.muster.kube.plugins.module_utils._engine.removal import as_begun, holds_ticket
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.quota_trees import trees_in_force
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.reading.world import (
    read_records,
    read_tickets,
    read_world,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult, identity_of
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import (
    JOBS_CHANGE_SINCE,
    NEWER_VERSION,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.edits import is_edited, read_edited
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.health_steps import ACTIONS
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.meters import MeterKeeper
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.progress import with_told_progress
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.retention import (
    foreseen,
    why_removed,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.waiting import NOT_ASKED
from ansible_collections.muster.kube.plugins.module_utils._host.jmespath_search import search
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient, parallel
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, KubeError, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import server_version
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import Entry
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import require_headroom
from ansible_collections.muster.kube.plugins.module_utils._model.gang.gang import Kinds
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import REFUSED, STARTED, STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import verdict_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import kinds_of
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import micro_time_text, read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Action, Decision
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.gangs import Steering
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import Advance
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.open_entries import (
    NEW_LEASE,
    RESIZE_UNSEEN,
    Evidence,
    Standing,
    promised_elsewhere,
    resizes_unseen,
    standing_of,
    unknown_until,
    unknown_words,
    unlisted_since,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import ACCOUNT, DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import (
    CyclePlan,
    Situation,
    foresee_queue,
    plan_cycle,
    plan_words,
    walk_queue,
    without_failed,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.foresight import Foresight
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice, Queue
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.refusals import (
    FOREIGN_CONTROLLER,
    foreign_message,
    foreign_writers,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import Rescale
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import (
    Places,
    misses_its_ticket,
    scopes,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.settings import (
    SizeRules,
    SizeSettings,
    not_resized,
)
from ansible_collections.muster.kube.plugins.module_utils._store.appwrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import Records
from ansible_collections.muster.kube.plugins.module_utils._store.run_history import History
from ansible_collections.muster.kube.plugins.module_utils._store.under_way import batch_of_lease, read_lease

# A plan that is not carried out.
_NOTHING: t.Mapping[str, t.Any] = dict.fromkeys(("stops", "drained", "evictions", "resized", "planned"), ())


class _Preview:
    """One reading of the cluster and the plan that follows from it."""

    def __init__(self, client: KubeClient, options: DispatchOptions, coming: Sequence[Record] = ()) -> None:
        """Read everything, as a cycle does, but for the Lease's holder; finished gangs too, which cycles see apart.

        coming are records that a task would write: new ones, and others as they would be.
        """
        self._client = client
        self._options = options
        self._memory = Memory()
        self._identity = identity_of(client, options)
        # What dry runs showed by record, with the steering and flavors they were made for, and why gangs were refused
        # for good.
        self._shown: dict[str, tuple[Steering, Kinds, DryRun]] = {}
        self.failed: dict[str, str] = {}
        # Gangs that a cycle would leave alone, since the server does not tell whether their tickets exist.
        self._doubtful: set[str] = set()
        sight = read_records(Records(client, every_wrapper=wrapper_problem(client) is None), options, finished=True)
        replaced = {record.uid for record in coming}
        self.sight = dataclasses.replace(
            sight, mine=(*(record for record in sight.mine if record.uid not in replaced), *coming)
        )
        self.now = ServerClock(client).now()
        ours = {record.uid: record for record in self.sight.mine}
        self._elsewhere = {record.uid: record for record in self.sight.elsewhere}
        living = [record for record in ours.values() if not record.finished]
        self.writers = foreign_writers(living, self.now, adopt=options.adopt)
        self.left_alone = {uid: ours.pop(uid) for uid in self.writers if ours[uid].phase not in STARTED_PHASES}
        self._aside = {*self.left_alone, *(record.uid for record in self.sight.newer)}
        places: Places = (None,) if self.sight.blind is None else scopes(options)
        tickets = read_tickets(client, [*ours.values(), *self._elsewhere.values()], places, finished=True)
        self._elsewhere = {uid: as_begun(item, tickets.get(uid, ())) for uid, item in self._elsewhere.items()}
        edited = read_edited(client, self._memory, ours, tickets, {})
        self._lost = {uid: found.lost for uid, found in edited.items() if found.lost is not None}
        self.records = {**ours, **{uid: dataclasses.replace(ours[uid], spec=edited[uid].spec) for uid in edited}}
        records = [*self.records.values(), *self._elsewhere.values()]
        world = read_world(client, records, options, self._memory, tickets, places=places)
        world = with_told_progress(client, world, places, list(ours.values()), self.now)
        self.troubles: list[str] = []
        meters = MeterKeeper(client, options.lease.namespace, None, self.troubles.append)
        self.world = meters.told(world, self.now)
        self._lease = read_lease(client, options.lease)
        read = batch_of_lease(self._lease)
        self._batch, self.newer = read.batch, read.newer

    def unsettled(self) -> list[Entry]:
        """Entries of the batch that a cycle would give back to the queue: their holder never began them."""
        entries = self._batch.entries if self._batch is not None else ()
        known = [(entry, self.records.get(entry.uid)) for entry in entries]
        return [entry for entry, record in known if record is not None and self._standing(entry, record) == "not_begun"]

    def _standing(self, entry: Entry, record: Record) -> Standing:
        """How far an entry is."""
        return standing_of(entry, record.state, self.world.tickets.get(entry.uid, ()))

    def unknown_until(self) -> float | None:
        """Until when nobody can tell what was promised elsewhere, so that nothing is started or stopped."""
        if self.sight.blind is None or self._lease is None:
            return None
        created = read_time(self._lease.get("metadata", {}).get("creationTimestamp")) or self.now
        since = unlisted_since(batch_of_lease(self._lease), created, self.now)
        return unknown_until(since, self.now, self._options)

    def _resizes_unseen(self) -> bool:
        """Whether a gang that this run does not see is getting another size."""
        if self.sight.blind is None or self._lease is None:
            return False
        seen = {*self.records, *(record.uid for record in self._elsewhere.values())}
        return resizes_unseen(batch_of_lease(self._lease).batch, seen, self.now, self._options)

    def plan(self) -> CyclePlan:
        """What a cycle would decide, and what it would come to after the server's dry runs."""
        situation = self._situation()
        plan = plan_cycle(situation, self._options, self._memory)
        if self.newer is not None:
            return dataclasses.replace(plan, **_NOTHING, choices=plan.waiting)
        if self.unknown_until() is not None:
            held = tuple(item.postponed(*NEW_LEASE) if item.chosen else item for item in plan.choices)
            return dataclasses.replace(plan, **_NOTHING, choices=held)
        if self._resizes_unseen():
            held = tuple(item.postponed(*RESIZE_UNSEEN) if item.chosen else item for item in plan.choices)
            return dataclasses.replace(plan, choices=held)
        choices, delayed = self._tried(plan.choices)
        if delayed:
            records = without_failed(plan, self.failed, self.now)
            stopped = {item.record.uid for item in plan.stops}
            again = walk_queue(situation, self._options, self._memory, records, stopped)
            plan = plan.walked_again(again)
            choices, _delayed = self._tried(again.choices)
        return self._with_askers_tried(plan, choices)

    def _with_askers_tried(self, plan: CyclePlan, choices: Sequence[Choice]) -> CyclePlan:
        """The plan without evictions and resizes for gangs that the server would refuse all the same."""
        shrunk_for = {item.asker for item in plan.resized if item.asker is not None}
        askers = {*shrunk_for, *(item.asker.uid for item in plan.evictions)}
        asking = [item for item in choices if item.record.uid in askers]
        tried, _delayed = self._tried([dataclasses.replace(item, chosen=True) for item in asking])
        told = {item.record.uid: item for item in tried if not item.chosen and item.record.uid not in shrunk_for}
        able = {item.record.uid for item in tried if item.chosen}
        left = [told.get(item.record.uid, item) for item in choices if item.record.uid not in self.failed]
        evictions = tuple(item for item in plan.evictions if item.asker.uid in able)
        resized = tuple(item for item in plan.resized if item.asker is None or item.asker in able)
        return dataclasses.replace(plan, choices=tuple(left), evictions=evictions, resized=resized)

    def _tried(self, choices: Sequence[Choice]) -> tuple[tuple[Choice, ...], bool]:
        """The choices after dry runs of those that are chosen, and whether one of these has to wait after all."""
        chosen = [item for item in choices if item.chosen]
        fresh = [
            item
            for item in chosen
            if self._shown.get(item.record.uid, ())[:2] != (item.verdict.steering, kinds_of(item.charged))
        ]
        outcomes = parallel([partial(self._dry_run, item) for item in fresh])
        for item, outcome in zip(fresh, outcomes, strict=True):
            self._shown[item.record.uid] = item.verdict.steering, kinds_of(item.charged), outcome
            if outcome.failure is not None:
                self.failed[item.record.uid] = outcome.failure
            elif outcome.delay is not None:
                self._memory.note_refused(item.record, self.now, *outcome.delay)
        kept: list[Choice] = []
        delayed = False
        for item in choices:
            outcome = self._shown[item.record.uid][2] if item.chosen else DryRun()
            if outcome.failure is None:
                delayed = delayed or outcome.delay is not None
                kept.append(item if outcome.delay is None else item.postponed(*outcome.delay))
        return tuple(kept), delayed

    def _dry_run(self, choice: Choice) -> DryRun:
        """What the server says when it pretends to create the objects of a gang, with the rights of a real run."""
        record = choice.record
        try:
            require_headroom(record.raw["metadata"].get("annotations"), str(record))
        except BadInput as error:
            return DryRun(Refusal("failed", REFUSED, str(error)))
        try:
            plan = self._memory.plan(record, choice.verdict.steering, choice.charged)
            placed = address_objects(self._client, plan)
        except KubeError as error:
            return DryRun(Refusal("requeue", API_TROUBLE, str(error)))
        if isinstance(placed, Refusal):
            return DryRun(placed)
        return dry_run(self._identity(record.namespace), record.raw, record.attempt, placed)

    def _situation(self) -> Situation:
        """What a cycle decides on."""
        evidence = Evidence(
            self.records,
            self._elsewhere,
            self._aside,
            self.sight,
            self.world,
            self._options,
            self.now,
            over={(entry.uid, entry.batch) for entry in self.unsettled()},
        )
        seen = {**self._elsewhere, **self.records}
        trusted = {
            uid: record for uid, record in seen.items() if uid in self.records or not is_edited(self._memory, record)
        }
        ticketless = {uid for uid, record in self.records.items() if self._lost_its_ticket(record)}
        return Situation(
            self.world,
            self.records,
            tuple(evidence.attended(self._batch)),
            promised_elsewhere(evidence.open_batch(self._batch), trusted, self.world),
            self.now,
            self.now,
            search,
            History(self._client, self._options.lease.namespace).usual(),
            resting=self._doubtful,
            lost=self._lost,
            ticketless=ticketless,
            suspended_jobs_change=self._suspended_jobs_change(),
        )

    def _suspended_jobs_change(self) -> bool:
        """Whether suspended Jobs take other resources; nobody asks unless a gang could be resized."""
        asked = any(record.resizable for record in self.records.values())
        return asked and server_version(self._client) >= JOBS_CHANGE_SINCE

    def _lost_its_ticket(self, record: Record) -> bool:
        """Whether the ticket that a started gang names was not read, and the server knows none either."""
        if not ENGINES[self._options.engine].capabilities.tickets or not misses_its_ticket(record, self.world):
            return False
        try:
            return not holds_ticket(self._client, record)
        except (Forbidden, ServerFault):
            self._doubtful.add(record.uid)
            return False


def foresee_under(
    client: KubeClient, options: DispatchOptions, name: str, tree: QuotaTree | None
) -> tuple[Foresight, str | None]:
    """What the queue comes to if the quota tree of that name were this one or gone, and why nobody can tell, if so.

    Nothing is written.
    """
    preview = _Preview(client, options)
    situation = preview._situation()
    world = situation.world
    before = world.quota
    others = [item for item in before.trees if item.name != name]
    trees = sorted([*others, *([tree] if tree is not None else [])], key=lambda item: item.name)
    broken = {other: text for other, text in before.unreadable.items() if other != name}
    quota = trees_in_force(trees, broken, world.snapshot.namespaces, sees_all=preview.sight.blind is None)
    present = dataclasses.replace(situation, world=dataclasses.replace(world, quota=quota))
    return foresee_queue(present, options, preview._memory), quota.hidden


@dataclasses.dataclass(frozen=True, slots=True)
class SizesForeseen:
    """What one decision about sizes would be, its records after other steps, and what to warn of."""

    plan: CyclePlan
    records: Mapping[str, Record]
    rules: SizeRules
    now: float
    warnings: tuple[str, ...]
    unseen: tuple[str, ...]


def preview_sizes(client: KubeClient, options: DispatchOptions, settings: SizeSettings | None = None) -> SizesForeseen:
    """The decision about sizes that one cycle would make, by other settings than the stored ones if they are given."""
    preview = _Preview(client, options)
    if settings is not None:
        preview.world = dataclasses.replace(preview.world, sizes=SizeRules(settings, ""))
    plan, rules, unknown = preview.plan(), preview.world.sizes, preview.unknown_until()
    warnings = [*preview.troubles]
    if rules.problem is not None:
        warnings.append(not_resized(rules.problem))
    if preview.newer is not None:
        warnings.append(f"nothing is started or stopped: {preview.newer}")
    if unknown is not None:
        warnings.append(unknown_words(options.lease.target, unknown))
    records = {**preview._elsewhere, **preview.records, **plan.after}
    return SizesForeseen(plan, records, rules, preview.now, tuple(warnings), tuple(preview.sight.unseen()))


class Shrink(t.NamedTuple):
    """A gang that becomes smaller, now or after its next checkpoint."""

    record: Record
    size: int
    to: int


class ForeseenStart(t.NamedTuple):
    """What a gang comes to that is not queued yet.

    size is the one it starts with, now or when others have become smaller for it; None for one that waits for more than
    that. shrunk are those others.
    """

    size: int | None
    shrunk: tuple[Shrink, ...]


def foresee_starts(
    client: KubeClient, options: DispatchOptions, coming: Sequence[Record]
) -> tuple[dict[str, ForeseenStart], list[str]]:
    """What the next cycle would come to for gangs that a task would queue together, by the uids of their records.

    Who becomes smaller is told of the first gang for which that happens; what would happen without any of them is not
    told. Also told is what this account could not see. Nothing is written, and no object is tried out on the server.
    BadInput where such a dispatcher starts nothing.
    """
    preview = _Preview(client, options, coming)
    for namespace in sorted({record.namespace for record in coming}):
        if preview.world.accounts is not None and namespace not in preview.world.accounts:
            raise BadInput("dispatch to", f"the namespace {namespace}", f"it has no ServiceAccount {ACCOUNT}")
    situation = preview._situation()
    plan = _planned(preview, situation, ())
    sizes = {
        **plan.sizing.starting,
        **{item.record.uid: item.record.spec.size for item in plan.starts if item.record.spec},
    }
    shrunk = _shrinks(plan)
    told: set[str] = set()
    if shrunk:
        told = _alike(shrunk, _shrinks(_planned(preview, situation, coming)))
    found = {}
    for place, record in enumerate(coming, 1):
        fresh: set[str] = set()
        if told != shrunk.keys():
            fresh = _alike(shrunk, _shrinks(_planned(preview, situation, coming[place:]))) - told
        told |= fresh
        found[record.uid] = ForeseenStart(sizes.get(record.uid), tuple(shrunk[uid] for uid in sorted(fresh)))
    return found, preview.sight.unseen()


def _alike(shrunk: Mapping[str, Shrink], others: Mapping[str, Shrink]) -> set[str]:
    """Those that become as small in another plan."""
    return {uid for uid, item in shrunk.items() if uid in others and others[uid].to == item.to}


def _planned(preview: _Preview, situation: Situation, without: Sequence[Record]) -> CyclePlan:
    """The plan as if these records were not there, or not changed."""
    gone = {record.uid for record in without}
    records = {uid: record for uid, record in situation.records.items() if uid not in gone}
    return plan_cycle(dataclasses.replace(situation, records=records), preview._options, preview._memory, walker=Queue)


def _shrinks(plan: CyclePlan) -> dict[str, Shrink]:
    """The gangs that become smaller, by uid."""
    found = [Shrink(item.record, item.resize.size, item.resize.to) for item in plan.sizing.changes]
    for item in plan.sizing.planned:
        if item.plan is not None and item.plan.waits:
            found.append(Shrink(item.record, item.plan.size, item.plan.to))
    return {item.record.uid: item for item in found if item.to < item.size}


def preview_dispatch(client: KubeClient, options: DispatchOptions) -> DispatchResult:
    """The decisions of one cycle; later ones follow from what these bring about. Dry runs are the only writes sent."""
    began, before = time.monotonic(), dict(client.requests)
    preview = _Preview(client, options)
    plan = preview.plan()
    result = DispatchResult(decisions=[*_decisions(preview, plan, options)])
    result.unseen = preview.sight.unseen()
    for text in preview.troubles:
        result.warn(text)
    if preview.newer is not None:
        result.warn(f"nothing is started or stopped: {preview.newer}")
    unknown = preview.unknown_until()
    if unknown is not None:
        result.warn(unknown_words(options.lease.target, unknown))
    if preview.world.sizes.problem is not None:
        result.warn(not_resized(preview.world.sizes.problem))
    for uid, text in {**preview.world.unforeseen, **plan.unforeseen}.items():
        result.warn(f"{preview.records[uid].key}: {text}" if uid in preview.records else text)
    for record, problem in plan.unjudged:
        result.warn(f"{record.key}: {problem}")
    result.phases = _phases(preview, plan, result.decisions)
    result.requests = {name: count - before.get(name, 0) for name, count in client.requests.items()}
    result.seconds["all"] = time.monotonic() - began
    return result


def _decisions(preview: _Preview, plan: CyclePlan, options: DispatchOptions) -> Iterator[Decision]:
    """The plan as decisions, in the order in which a cycle carries it out."""
    now = preview.now
    for record in preview.sight.newer:
        yield _decision(record, "refuse", NEWER_VERSION, record.newer or "", now)
    for uid, writer in preview.writers.items():
        record = preview.left_alone.get(uid) or preview.records[uid]
        yield _decision(record, "refuse", FOREIGN_CONTROLLER, foreign_message(writer), now)
    for entry in preview.unsettled():
        message = f"the {entry.op} that was decided before was not begun"
        yield _decision(preview.records[entry.uid], "recover", "Settled", message, now)
    for item in plan.steps:
        if isinstance(item.step, Advance):
            step = item.step
            yield _decision(item.record, ACTIONS[step.phase], step.reason, step.message, now)
    for refused in plan.refusals:
        yield _decision(refused.record, "fail", REFUSED, refused.message, now)
    for uid, message in preview.failed.items():
        yield _decision(preview.records[uid], "fail", REFUSED, message, now)
    for stop in plan.stops:
        yield _decision(stop.record, "stop", stop.reason, stop.message, now)
    for going in (*plan.drained, *(item for group in plan.evictions for item in group.victims)):
        resizes = isinstance(going, Rescale) or going.phase == "resizing"
        yield _decision(going.record, "resize" if resizes else "evict", going.reason, going.message, now)
    for change in plan.resized:
        yield _decision(change.record, "resize", change.reason, change.message, now)
    for waiting in plan.planned:
        yield _decision(waiting.record, "plan", *plan_words(waiting), now)
    yield from (_of_choice(choice, now) for choice in plan.choices)
    over = set(foreseen(preview.records.values(), options, now))
    yield from (
        _decision(item, "expire", *why_removed(item), now) for uid, item in preview.records.items() if uid in over
    )


def _phases(preview: _Preview, plan: CyclePlan, decisions: Sequence[Decision]) -> dict[str, str]:
    """Where each gang stands now, but for those that fail: a task that waits for one of them need not wait."""
    failing = [item.uid for item in decisions if item.action == "fail"]
    failing += [item.record.uid for item in plan.stops if item.then == "failed"]
    phases: dict[str, str] = {uid: record.phase for uid, record in preview.records.items()}
    return phases | dict.fromkeys(failing, "failed")


def _of_choice(choice: Choice, now: float) -> Decision:
    """What would become of a waiting gang."""
    verdict = choice.told
    if choice.chosen:
        return _decision(choice.record, "start", STARTED, verdict_text(verdict), now, verdict)
    reason = choice.verdict.reason or NOT_ASKED
    return _decision(choice.record, "wait", reason, verdict_text(verdict), now, verdict)


def _decision(
    record: Record, action: Action, reason: str, message: str, now: float, verdict: dict[str, object] | None = None
) -> Decision:
    """One foreseen decision; the phase is the present one."""
    at = micro_time_text(int(now * 1_000_000))
    return Decision(record.key, record.uid, action, reason, message, record.attempt, record.phase, at, verdict)
