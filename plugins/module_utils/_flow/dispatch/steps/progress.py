# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What trainers of running elastic gangs tell, what they are asked for, and the plans that wait for a checkpoint."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Iterable, Sequence
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import FreshLists, Lists
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance, Superseded
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.progress import Progress
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.trainer_report import with_report
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import GangState
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import plan_words
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.resizes import PlanChange
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import Places, World
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic.checkpoint_wait import asked_after
from ansible_collections.muster.kube.plugins.module_utils._store.gang_progress import (
    ProgressStore,
    StoredProgress,
    list_progress,
    progress_name,
)
from ansible_collections.muster.kube.plugins.module_utils._store.object_store import NameTaken

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle

# What reports came to is written so often at most, but for checkpoints: a trainer tells its step twice a minute.
SAVE_SECONDS = 60.0


@dataclasses.dataclass(slots=True)
class _KnownProgress:
    """What one holder of the Lease knows of a gang's progress: as it is stored, as it is by now, and since when."""

    stored: Progress | None
    told: Progress
    saved: float


class ProgressKeeper:
    """The progress of gangs as one holder of the Lease keeps it between two writes."""

    def __init__(self, client: KubeClient, allowance: Allowance | None) -> None:
        """Nothing is read before there is an elastic gang that runs."""
        self._store = ProgressStore(client, allowance)
        self._known: dict[str, _KnownProgress] = {}
        self._maps: dict[str, StoredProgress] = {}
        # Namespaces in which this account may not read or write it, and what was warned of.
        self._barred: set[str | None] = set()
        self._warned: set[str] = set()

    def read(self, lists: Lists, places: Places, records: Sequence[Record], now: float) -> dict[str, Progress]:
        """What is known of these running gangs by now, by uid; reports that came since are taken in."""
        found: dict[tuple[str, str], StoredProgress] = {}
        for place in places:
            if place not in self._barred:
                try:
                    found.update(list_progress(lists, [place]))
                except (Forbidden, NotFound):
                    self._barred.add(place)
        self._maps = {}
        before, self._known = self._known, {}
        for record in records:
            stored = found.get((record.namespace, progress_name(record.name)))
            if stored is not None and stored.owner == record.uid:
                self._maps[record.uid] = stored
                self._known[record.uid] = _taken_in(record, stored, before.get(record.uid), now)
        return {uid: known.told for uid, known in self._known.items() if known.told != Progress()}

    def keep(self, cycle: Cycle, records: Iterable[Record]) -> None:
        """Write what is new: progress now and then, and what trainers are asked for at once."""
        now, defers = cycle.session.clock.now(), cycle.session.defers
        calls = []
        for record in records:
            stored, known = self._maps.get(record.uid), self._known.get(record.uid)
            self._warn_of(cycle, stored)
            asked = self._asked(record, stored, known)
            if stored is None or known is None:
                if not self._barred.intersection((record.namespace, None)):
                    calls.append((record, partial(self._create, cycle, record, asked)))
            elif _is_due(stored, known, now, defers=defers) or asked != stored.asked:
                calls.append((record, partial(self._write, cycle, stored, known, asked)))
            elif known.told != (stored.progress or Progress()) and not stored.newer:
                cycle.check_again(known.saved + SAVE_SECONDS)
        cycle.side_by_side(calls)

    def _asked(self, record: Record, stored: StoredProgress | None, known: _KnownProgress | None) -> float | None:
        """After which moment a checkpoint is asked for; a trainer that answered waits until that is taken back."""
        told = known.told if known is not None else Progress()
        asked = asked_after(record.state.planned if record.state is not None else None, told)
        if asked is not None or record.state is None or stored is None or stored.asked is None:
            return asked
        answered = told.checkpoint is not None and told.checkpoint.time > stored.asked
        return stored.asked if answered and _is_waited_for(record.state, stored.asked) else None

    def _warn_of(self, cycle: Cycle, stored: StoredProgress | None) -> None:
        """Tell once what cannot be read."""
        for problem in stored.problems if stored is not None else ():
            if problem not in self._warned:
                self._warned.add(problem)
                cycle.session.journal.warn(problem)

    def _create(self, cycle: Cycle, record: Record, asked: float | None) -> None:
        """The place where the trainer may report."""
        with cycle.warning_of(f"the progress of gang {record.key}"):
            try:
                self._store.create(record, asked=asked)
            except NameTaken:
                # Of a gang that was started again it is there, though it was not looked at before the gang ran.
                if self._store.read(record) is None:
                    raise
            except (Forbidden, NotFound):
                self._barred.add(record.namespace)
                raise

    def _write(self, cycle: Cycle, stored: StoredProgress, known: _KnownProgress, asked: float | None) -> None:
        """Write one gang's; whoever changed it meanwhile is taken in by the next cycle."""
        with cycle.warning_of(f"the progress of {'/'.join(stored.place)}"):
            try:
                self._store.write(stored, None if stored.newer else known.told, asked)
            except Superseded:
                return
            known.saved = cycle.session.clock.now()


def _is_waited_for(state: GangState, asked: float) -> bool:
    """Whether a trainer that has saved is right to wait: its pods are to end, or have ended and it is another one."""
    if state.planned is not None and state.planned.waits:
        return True
    last = state.resize
    return last is not None and last.method != "scale" and (read_time(last.since) or 0.0) > asked


def _taken_in(record: Record, stored: StoredProgress, before: _KnownProgress | None, now: float) -> _KnownProgress:
    """What is known of a gang after its last report; what others stored meanwhile counts more than what we knew."""
    known = _KnownProgress(stored.progress, stored.progress or Progress(), now)
    if before is not None and before.stored == stored.progress:
        known = before
    state, report = record.state, stored.report
    if report is not None and state is not None and state.allotment is not None:
        began = read_time(state.started_at) or now
        known.told = with_report(known.told, report, size=state.allotment, began=began, now=now, asked=stored.asked)
    return known


def _is_due(stored: StoredProgress, known: _KnownProgress, now: float, *, defers: bool) -> bool:
    """Whether what is known is written now; a checkpoint is at once, as is all where no other cycle follows."""
    before = stored.progress or Progress()
    if known.told == before or stored.newer:
        return False
    return not defers or known.told.checkpoint != before.checkpoint or now - known.saved >= SAVE_SECONDS


def running_elastic(records: Iterable[Record]) -> list[Record]:
    """The elastic gangs that run."""
    found = []
    for record in records:
        if record.spec is not None and record.spec.elastic is not None and record.phase == "running":
            found.append(record)
    return found


def with_progress(cycle: Cycle, world: World, places: Places) -> World:
    """The world with what the trainers of elastic gangs that run told."""
    session, running = cycle.session, running_elastic(cycle.records.values())
    told = session.progress.read(session.source.lists, places, running, session.clock.now())
    return dataclasses.replace(world, progress=told)


def with_told_progress(
    client: KubeClient, world: World, places: Places, records: Sequence[Record], now: float
) -> World:
    """The same for those who only look."""
    running = running_elastic(records)
    if not running:
        return world
    told = ProgressKeeper(client, None).read(FreshLists(client), places, running, now)
    return dataclasses.replace(world, progress=told)


def keep_progress(cycle: Cycle, plans: Sequence[PlanChange]) -> None:
    """Write the plans that changed, then what trainers are asked for, and what became of their reports."""
    if plans and cycle.session.batch().newer is None:
        cycle.side_by_side([(item.record, partial(_write_plan, cycle, item)) for item in plans])
    running = running_elastic(cycle.records.values())
    cycle.session.progress.keep(cycle, [item for item in running if not item.terminating and cycle.at_rest(item)])


def _write_plan(cycle: Cycle, item: PlanChange) -> None:
    """Write one plan, if its gang is where it was when that was decided."""
    record = cycle.records.get(item.record.uid)
    if record is None or record.state is None or item.record.state is None or not cycle.at_rest(record):
        return
    same = (record.state.attempt, record.state.planned) == (item.record.state.attempt, item.record.state.planned)
    if record.phase != "running" or not same:
        return
    written = cycle.carry_out(record, lambda old: cycle.advance(old, "running", "", "", planned=item.plan))
    if written is not None and written.phase == "running":
        cycle.decide(written, "plan", *plan_words(item))
