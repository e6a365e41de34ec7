# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Removing finished gangs: cycles do not read their records, so these are looked for apart, and seldom."""

from __future__ import annotations

import dataclasses
import typing as t
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import list_metadata
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.status_writers import (
    foreign_status_writer,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.configmap_record import (
    EXPIRES_ANNOTATION,
    FINISHED_SELECTOR,
    ended_at,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import Phase, read_state
from ansible_collections.muster.kube.plugins.module_utils._model.gang.stores import STORES, Store
from ansible_collections.muster.kube.plugins.module_utils._model.gang.ticket import KEEP_ANNOTATION, is_kept
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.retention import Over, to_remove
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import scopes
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import delete_record, record_path

if t.TYPE_CHECKING:
    # The session keeps one of these, and so imports this module.
    from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle

Object = dict[str, t.Any]

# Finished records are looked for no more often than this, and so many of them are removed in one cycle at most.
SCAN_SECONDS = 60.0
MOST_REMOVALS = 50

RETENTION = "Retention"
WHY_REMOVED = "finished gangs are kept for no longer, or in no larger number"


@dataclasses.dataclass(frozen=True, slots=True)
class _Glimpse:
    """What the metadata of a record labelled as finished tells; over is None where the state says otherwise."""

    store: Store
    namespace: str
    name: str
    uid: str
    phase: Phase
    over: Over | None


class Retention:
    """The finished records as last seen, and those of them that are to go."""

    def __init__(self) -> None:
        """Nothing seen yet."""
        self._scanned: float | None = None
        self._expiring: dict[str, tuple[float, _Glimpse]] = {}
        self._backlog: list[_Glimpse] = []
        # Finished gangs that hold what is to be kept, as far as that was found out.
        self._keepers: set[str] = set()

    def note(self, record: Record) -> None:
        """Remember when the ttl of a gang that has just ended is over."""
        glimpse = _glimpse(record.store, record.raw)
        if glimpse.over is not None and glimpse.over.expires is not None and not glimpse.over.keep:
            self._expiring[record.uid] = (glimpse.over.expires, glimpse)

    def apply(self, cycle: Cycle) -> list[Record]:
        """Remove what is due, some in each cycle; returns records that are labelled as finished and are not.

        A run for single gangs removes nothing: the others are not its own.
        """
        now = cycle.session.clock.sure()
        if cycle.session.options.only is not None or now is None:
            return []
        wrong = self._scan(cycle, now) if self._is_time(cycle) else []
        due = [glimpse for moment, glimpse in self._expiring.values() if moment <= now]
        self._backlog = [*due, *self._backlog]
        self._expiring = {uid: item for uid, item in self._expiring.items() if item[0] > now}
        most = max(0, MOST_REMOVALS - self._under_way(cycle))
        taken, self._backlog = self._backlog[:most], self._backlog[most:]
        # Slow ones of a namespace must not hold up its gangs.
        cycle.session.workers.run(
            Task(
                (RETENTION, glimpse.uid), f"{RETENTION} {glimpse.namespace}", partial(self._remove, cycle, glimpse, now)
            )
            for glimpse in taken
        )
        coming = [moment for moment, _glimpse in self._expiring.values()]
        if self._backlog:
            # The end of a slow removal is news by itself.
            coming = [now + 1.0 if self._under_way(cycle) else now]
        if coming:
            cycle.check_again(min(coming))
        return wrong

    def _under_way(self, cycle: Cycle) -> int:
        """How many removals of earlier cycles have not ended."""
        return sum(isinstance(key, tuple) and key[0] == RETENTION for key in cycle.session.workers.busy)

    def _is_time(self, cycle: Cycle) -> bool:
        """Whether finished records should be looked for again; notes the moment if so."""
        now = cycle.session.client.clock()
        if self._scanned is not None and now < self._scanned + SCAN_SECONDS:
            return False
        self._scanned = now
        return True

    def _scan(self, cycle: Cycle, now: float) -> list[Record]:
        """Look at all finished records; what they hold besides their metadata stays on the server."""
        session, options = cycle.session, cycle.session.options
        seen: dict[str, _Glimpse] = {}
        for store in STORES:
            if not session.records.served(store):
                continue
            selector = session.records.selector(store, FINISHED_SELECTOR)
            for namespace in scopes(options):
                path = record_path(store, namespace)
                read = partial(_glimpses, session.client, path, store, selector)
                seen.update({glimpse.uid: glimpse for glimpse in session.records.while_served(store, read)})
        self._keepers &= seen.keys()
        over = {
            uid: dataclasses.replace(glimpse.over, keep=glimpse.over.keep or uid in self._keepers)
            for uid, glimpse in seen.items()
            if glimpse.over is not None
        }
        cycle.finished.update({uid: seen[uid].phase for uid in over})
        cycle.saw_finished = True
        due = to_remove(over.values(), now, options.keep_finished, options.keep_finished_for)
        self._backlog = [seen[uid] for uid in due]
        self._expiring = {
            uid: (item.expires, seen[uid])
            for uid, item in over.items()
            if item.expires is not None and item.expires > now and not item.keep
        }
        wrong = [glimpse for glimpse in seen.values() if glimpse.over is None][:MOST_REMOVALS]
        found = [session.records.read(item.store, item.namespace, item.name) for item in wrong]
        return [record for record in found if record is not None and not record.labelled]

    def _remove(self, cycle: Cycle, glimpse: _Glimpse, now: float) -> None:
        """Remove one record as it is now; what changed since it was seen may be a reason to leave it."""
        session = cycle.session
        with cycle.warning_of(f"{glimpse.namespace}/{glimpse.name}"):
            record = session.records.read(glimpse.store, glimpse.namespace, glimpse.name)
            if record is None or record.uid != glimpse.uid:
                return
            if _keeps_something(record):
                self._keepers.add(record.uid)
            elif _may_go(record, now, adopt=session.options.adopt):
                delete_record(session.client, record, allowance=session.lease.write_timeout)
                cycle.decide(record, "expire", *why_removed(record))


def why_removed(record: Record) -> tuple[str, str]:
    """Why a finished gang is removed, in one word and in more."""
    own = record.spec is not None and record.spec.ttl is not None
    return ("Expired", "its time to live is over") if own else (RETENTION, WHY_REMOVED)


def foreseen(records: t.Iterable[Record], options: DispatchOptions, now: float) -> list[str]:
    """Uids of finished gangs that would be removed now."""
    removable = [record for record in records if not record.terminating and not _keeps_something(record)]
    seen = [_glimpse(record.store, record.raw).over for record in removable]
    over = [item for item in seen if item is not None]
    due = to_remove(over, now, options.keep_finished, options.keep_finished_for)
    return due[:MOST_REMOVALS] if options.only is None else []


def _keeps_something(record: Record) -> bool:
    """Whether claims, or what its user marked, would go with a gang that was given no time to live.

    They were to survive the gang's attempts; what they hold may be all that the gang was for.
    """
    spec = record.spec
    return spec is not None and spec.ttl is None and any(is_kept(obj) for obj in spec.objects)


def _may_go(record: Record, now: float, *, adopt: bool) -> bool:
    """Whether a record is still one that may be removed."""
    over = _glimpse(record.store, record.raw).over
    if over is None or over.keep or record.terminating:
        return False
    if record.store == "appwrapper" and not adopt and foreign_status_writer(record.raw, now) is not None:
        return False
    ttl = record.spec.ttl if record.spec is not None else None
    return ttl is None or now >= over.ended + ttl


def _glimpses(client: KubeClient, path: str, store: Store, selector: str | None) -> list[_Glimpse]:
    """What the metadata of the records of one list tells."""
    return list_metadata(client, path, keep=partial(_glimpse, store), label_selector=selector).items


def _glimpse(store: Store, raw: Object) -> _Glimpse:
    """What the metadata of a record tells; the state decides, whatever the label says."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    state = read_state(annotations)
    ended = ended_at(state) if state is not None else None
    over = None
    if ended is not None:
        expires = read_time(annotations.get(EXPIRES_ANNOTATION))
        keep = annotations.get(KEEP_ANNOTATION) == "true"
        over = Over(metadata["uid"], ended, expires, keep, metadata["namespace"])
    phase = state.phase if state is not None else "queued"
    return _Glimpse(store, metadata["namespace"], metadata["name"], metadata["uid"], phase, over)
