# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Publishing what became of gangs: the status of AppWrappers, and Events."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import Task
from ansible_collections.muster.kube.plugins.module_utils._model.gang.appwrapper.status import wrapper_status
from ansible_collections.muster.kube.plugins.module_utils._model.gang.live import GangPod, count_pods
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.spec import GangSpec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    PODS_BOUND,
    SUBMITTED,
    TROUBLE_PHASES,
    GangState,
    Transition,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, pods_of
from ansible_collections.muster.kube.plugins.module_utils._store.events import EventType, post_event
from ansible_collections.muster.kube.plugins.module_utils._store.gang_records import put_status

Data = Mapping[str, t.Any]

# Pod counts alone are written no more often than this.
COUNT_SECONDS = 10.0
_COUNTS = ("pending", "running", "Succeeded", "failed", "pendingpodconditions")


def project_status(cycle: Cycle, world: World) -> None:
    """Bring the status of AppWrappers in line with their state, all at once."""
    wrappers = [
        record
        for uid, record in list(cycle.records.items())
        if record.store == "appwrapper"
        and record.state is not None
        and cycle.at_rest(record)
        and cycle.session.options.may_touch(uid)
    ]
    if not wrappers:
        return
    changes = cycle.session.journal.peek_changes()
    moved = {after.uid for before, after in changes if before.phase != after.phase}
    cycle.side_by_side([(record, partial(_project, cycle, world, record, record.uid in moved)) for record in wrappers])


def project_ends(cycle: Cycle, records: Iterable[Record]) -> set[str]:
    """Write the status of wrappers that are over where it does not say so; their uids.

    Whoever ended them may have died, or been slow, before the status was written. It is written once: another
    controller may write something else.
    """
    behind = {record.uid: (record, status) for record in records if (status := _end_status(cycle, record)) is not None}
    cycle.session.ends_projected.update(behind)
    cycle.side_by_side([(record, partial(_write_status, cycle, record, status)) for record, status in behind.values()])
    return set(behind)


def _end_status(cycle: Cycle, record: Record) -> dict[str, t.Any] | None:
    """The status of a wrapper that is over, if it is another one than it has; counts of pods stay as they are."""
    if record.store != "appwrapper" or record.state is None or record.uid in cycle.session.ends_projected:
        return None
    previous = record.raw.get("status") or {}
    status = _status(cycle, record, record.state, ())
    status.update({key: previous[key] for key in _COUNTS if key in previous})
    return None if status == previous else status


def _status(cycle: Cycle, record: Record, state: GangState, pods: t.Sequence[GangPod]) -> dict[str, t.Any]:
    """The status of a wrapper with these pods; of one that cannot be read only the failure is shown."""
    spec = record.spec or GangSpec(record.name, record.namespace, ())
    previous, now = record.raw.get("status") or {}, cycle.session.now_text()
    return wrapper_status(previous, spec, state, count_pods(pods), now, _pending(pods))


def _write_status(cycle: Cycle, record: Record, status: dict[str, t.Any]) -> None:
    """Write one status."""
    cycle.carry_out(
        record, lambda old: put_status(cycle.session.client, old, status, allowance=cycle.session.lease.write_timeout)
    )


def _project(cycle: Cycle, world: World, record: Record, moved: bool) -> None:
    """Write one status if it is behind; pod counts alone may lag a little, unless the phase has just changed."""
    if record.state is None:
        return
    previous = record.raw.get("status") or {}
    pods = pods_of(record, world)
    status = _status(cycle, record, record.state, pods)
    if status == previous:
        return
    now = cycle.session.clock.now()
    only_counts = _without_counts(status) == _without_counts(previous)
    due = cycle.session.status_written.get(record.uid, 0.0) + COUNT_SECONDS
    if only_counts and not moved and now < due:
        cycle.check_again(due)
        return
    cycle.session.status_written[record.uid] = now
    _write_status(cycle, record, status)


def _pending(pods: t.Iterable[GangPod]) -> list[dict[str, t.Any]]:
    """The pods that cannot be scheduled, as a status lists them."""
    return [
        {
            "podname": pod.name,
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": pod.unschedulable_message,
                }
            ],
        }
        for pod in pods
        if pod.live and pod.unschedulable_since is not None
    ]


def _without_counts(status: Data) -> dict[str, t.Any]:
    """A status without what changes with every pod."""
    return {key: value for key, value in status.items() if key not in _COUNTS}


def publish_events(cycle: Cycle) -> None:
    """One Event for each transition since the last time that tells something; best effort, so trouble is silent.

    Of very many at once only warnings are all told: an Event costs the server as much as an object.
    """
    client, budget = cycle.session.client, cycle.session.news
    posts: list[Task] = []
    for before, after in cycle.session.journal.take_changes():
        if after.state is None:
            continue
        last = before.state.transitions[-1] if before.state is not None and before.state.transitions else None
        news = list(after.state.transitions)
        if last is not None and last in news:
            news = news[news.index(last) + 1 :]
        for item in _worth_an_event(news):
            kind: EventType = "Warning" if item.phase in TROUBLE_PHASES else "Normal"
            if kind == "Normal" and not budget.take():
                continue
            post = partial(post_event, client, after.raw, item.reason, item.message, kind, item.at)
            posts.append(Task(("event", after.uid, item.at, item.reason), after.namespace, post))
    cycle.session.workers.begin(posts)


def _worth_an_event(news: t.Sequence[Transition]) -> list[Transition]:
    """Submitting is the user's own; of a start one Event tells, and pods have Events of their own for their nodes."""
    ended = {number for number, item in enumerate(news[:-1]) if item.phase == "dispatching"}
    return [
        item for number, item in enumerate(news) if item.reason not in (SUBMITTED, PODS_BOUND) and number not in ended
    ]
