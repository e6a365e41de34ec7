# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keeping the meters: what gangs use is counted now and then, in the background, and never holds up a cycle."""

from __future__ import annotations

import dataclasses
import math
import threading
import typing as t
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, KubeError, NotFound
from ansible_collections.muster.kube.plugins.module_utils._kube.settled_writes import Allowance
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput, unforeseen
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, used_by
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.accrual import accrue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.book import (
    GangSight,
    Leaf,
    MeterBook,
    MeterUpdate,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.budgets import (
    SpentBudgets,
    has_budgets,
    spent_budgets,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.decay import Averages, averages
from ansible_collections.muster.kube.plugins.module_utils._store.dispatch_lease import LostLeadership
from ansible_collections.muster.kube.plugins.module_utils._store.usage_meters import (
    MeterStore,
    StoredMeter,
    list_meters,
)

if t.TYPE_CHECKING:
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle

Warn = t.Callable[[str], None]
_WITHOUT = "so that budgets do not count, and queues are compared by what they borrow"


class MeterKeeper:
    """The meters as one holder of the Lease keeps them; they are read once, and then known by what was written."""

    def __init__(self, client: KubeClient, namespace: str, allowance: Allowance | None, warn: Warn) -> None:
        """Nothing is read before somebody needs it."""
        self._client, self._namespace, self._warn = client, namespace, warn
        self._store = MeterStore(client, namespace, allowance)
        self._lock = threading.Lock()
        self._stored: dict[Leaf, StoredMeter] = {}
        self._book: MeterBook | None = None
        self._told: set[str] = set()
        # What is wrong with a meter that cannot be read.
        self._broken: str | None = None
        # Where meters may not be read or written nobody tries again.
        self._refused = False

    def told(self, world: World, now: float) -> World:
        """The world with what meters tell: spent budgets, and what queues are compared by."""
        return dataclasses.replace(world, spent=self.spent(world.quota, now), averages=self.averages(world.quota, now))

    def spent(self, trees: QuotaTrees, now: float) -> SpentBudgets:
        """The queues that may start nothing more in their period."""
        if not has_budgets(trees.trees) or trees.hidden is not None or not self.load():
            return {}
        with self._lock:
            return spent_budgets(trees.trees, self._book.meters if self._book is not None else {}, now)

    def averages(self, trees: QuotaTrees, now: float) -> dict[str, Averages]:
        """What leaves used on average, of trees whose queues are compared by that; nothing where it is not known."""
        asked = [tree for tree in trees.trees if tree.settings.fair == "usage"]
        if not asked or trees.hidden is not None or not self.load():
            return {}
        if self._broken:
            self._tell("fair", f"queues are compared by what they borrow, not by what they used: {self._broken}")
            return {}
        with self._lock:
            meters = list(self._book.meters.values()) if self._book is not None else []
        return {tree.name: averages(tree, meters, now) for tree in asked}

    def load(self) -> bool:
        """Whether the meters are known; they are listed the first time."""
        if self._book is None and not self._refused:
            try:
                found = list_meters(self._client, self._namespace)
            except KubeError as error:
                self._trouble("read", f"the usage of queues cannot be read, {_WITHOUT}: {error}", error)
                return False
            for item in found:
                if item.problem is not None:
                    self._broken = item.problem
                    name = str(item.raw["metadata"]["name"])
                    self._tell(name, f"the usage of a queue cannot be read: {item.problem}")
            known = [(item, item.meter) for item in found if item.meter is not None]
            self._stored = {(meter.tree, meter.queue): item for item, meter in known}
            self._book = MeterBook()
            self._book.begin(meter for _item, meter in known)
        return self._book is not None

    def keep(self, cycle: Cycle, world: World, now: int, *, at_once: bool) -> None:
        """Note what this cycle saw, and have written what is due."""
        if not self.load() or self._book is None or self._refused:
            return
        records = {**cycle.elsewhere, **cycle.records}
        started = {uid: record for uid, record in records.items() if record.phase in STARTED_PHASES}
        others = {uid: record for uid, record in records.items() if uid not in started}
        sight = GangSight(started, others, frozenset(cycle.aside), partial(used_by, world=world))
        every = cycle.session.options.accrue_seconds
        with self._lock:
            self._book.look(world.quota, sight, now)
            updates = self._book.due(now, every, at_once=at_once)
        # What is due later needs no cycle of its own: none is further away than a run rests at most.
        self._begin(cycle, updates)

    def flush(self, cycle: Cycle) -> None:
        """Have written at once what is known to have ended: no cycle follows."""
        now = cycle.session.clock.sure()
        if self._book is not None and now is not None and not self._refused:
            with self._lock:
                updates = self._book.due(int(now), math.inf, at_once=True)
            self._begin(cycle, updates)

    def _begin(self, cycle: Cycle, updates: t.Iterable[MeterUpdate]) -> None:
        """Have these written when there is time for it."""
        writes = [Task(("meter", *update.leaf), "", partial(self._write, update)) for update in updates]
        cycle.session.workers.begin(writes)

    def _write(self, update: MeterUpdate) -> None:
        """Write one meter, in the background; trouble is told once, and the next time tries again."""
        known, written, what = self._stored.get(update.leaf), None, "/".join(update.leaf)
        try:
            written = self._store.change(
                update.leaf,
                known,
                lambda meter: accrue(meter, update.sightings, update.now, update.left_alone, update.half_life),
            )
        except LostLeadership:
            pass
        except (KubeError, BadInput) as error:
            self._stored.pop(update.leaf, None)
            self._trouble(what, f"the usage of {what} is not counted: {error}", error)
        except Exception as error:  # noqa: BLE001 - in the background nobody else would look after it
            self._tell(what, f"the usage of {what} is not counted: {unforeseen(error)}")
        with self._lock:
            if written is not None:
                self._stored[update.leaf] = written
            if self._book is not None:
                self._book.written(update, written.meter if written is not None else None)

    def _trouble(self, what: str, text: str, error: Exception) -> None:
        """Tell once; what may not be done is not tried again."""
        self._refused = self._refused or isinstance(error, Forbidden | NotFound)
        self._tell(what, text)

    def _tell(self, what: str, text: str) -> None:
        """Warn of something once, whatever is wrong with it later."""
        if what not in self._told:
            self._told.add(what)
            self._warn(text)


def keep_meters(cycle: Cycle, world: World, *, at_once: bool = False) -> None:
    """Count what gangs use, if this run sees all of them; whatever goes wrong is told and ends nothing."""
    session, trees = cycle.session, world.quota
    own = session.lease.terms.namespace == session.options.lease.namespace
    now = session.clock.sure()
    if not trees.trees or trees.hidden is not None or not own or now is None:
        return
    with cycle.warning_of("the usage of queues"):
        session.meters.keep(cycle, world, int(now), at_once=at_once or not session.defers)
