# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a cycle would do now: the same reading and the same decisions, without the Lease and without a write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.care import ACTIONS, judge_gangs
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.decisions import Action, Decision
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.edits import is_edited
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.history import History
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.memory import Memory
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.promises import promised_elsewhere
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.queue import Choice, Queue
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.retention import (
    RETENTION,
    WHY_REMOVED,
    foreseen,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.sight import Sight, read_records
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.terms import DispatchTerms
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.waiting import NOT_ASKED
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.world import (
    Places,
    World,
    read_tickets,
    read_world,
    scopes,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.wrapper_kind import wrapper_problem
from ansible_collections.muster.kube.plugins.module_utils._kube.client import KubeClient
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden
from ansible_collections.muster.kube.plugins.module_utils._kube.lease import API_VERSION as LEASE_API
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record, Records
from ansible_collections.muster.kube.plugins.module_utils._kube.server_clock import ServerClock
from ansible_collections.muster.kube.plugins.module_utils._model.batch import (
    BATCH_ANNOTATION,
    Batch,
    Entry,
    keep_entries,
    read_batch,
)
from ansible_collections.muster.kube.plugins.module_utils._model.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._model.state import REFUSED, STARTED
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import micro_time_text
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import verdict_text
from ansible_collections.muster.kube.plugins.module_utils._policy.health import Advance, Expire, Undo
from ansible_collections.muster.kube.plugins.module_utils._policy.open_entries import standing_of


def preview_dispatch(client: KubeClient, terms: DispatchTerms) -> DispatchResult:
    """The decisions of one cycle as far as they can be foreseen; later ones follow from what these bring about.

    Server dry runs are left out: they are made with rights that the caller of a check may not have.
    """
    began, before = time.monotonic(), dict(client.requests)
    records_here = Records(client, every_wrapper=wrapper_problem(client) is None)
    sight = read_records(records_here, terms, finished=True)
    records, elsewhere = sight.mine, sight.elsewhere
    memory = Memory()
    places: Places = (None,) if sight.blind is None else scopes(terms)
    tickets = read_tickets(client, [*records, *elsewhere], places, finished=True)
    world = read_world(client, [*records, *elsewhere], terms, memory, tickets, places=places)
    now = ServerClock(client).now()
    result = DispatchResult(decisions=[*_foreseen(records, world, terms, now)])
    result.unseen = sight.unseen()
    moved = {item.uid for item in result.decisions}
    waiting = [record for record in records if record.uid not in moved or record.phase != "queued"]
    seen = {record.uid: record for record in (*records, *elsewhere)}
    queue = Queue(
        world,
        waiting,
        elsewhere=elsewhere,
        promises=promised_elsewhere(
            _open_batch(client, terms, seen, sight),
            {uid: record for uid, record in seen.items() if not is_edited(memory, record)},
            world,
        ),
        terms=terms,
        memory=memory,
        now=now,
        history=History(client, terms.lease.namespace).usual(),
    )
    choices = queue.decide()
    for uid, text in {**world.unforeseen, **queue.unforeseen}.items():
        result.warn(f"{seen[uid].key}: {text}")
    result.decisions += [_of_choice(choice, now) for choice in choices]
    result.phases = {record.uid: record.phase for record in records}
    result.requests = {name: count - before.get(name, 0) for name, count in client.requests.items()}
    result.seconds["all"] = time.monotonic() - began
    return result


def _foreseen(records: Sequence[Record], world: World, terms: DispatchTerms, now: float) -> list[Decision]:
    """Steps of started gangs, and gangs that can never be started as they are written."""
    found = []
    for record, step in judge_gangs(records, world, terms, now):
        if isinstance(step, Undo):
            found.append(_decision(record, "stop", step.reason, step.message, now))
        elif isinstance(step, Advance):
            found.append(_decision(record, ACTIONS[step.phase], step.reason, step.message, now))
        elif isinstance(step, Expire):
            found.append(_decision(record, "expire", "Expired", "its time to live is over", now))
        elif isinstance(step, BadInput):
            found.append(_decision(record, "refuse", "Unreadable", str(step), now))
    going = set(foreseen([item for item in records if item.spec is None or item.spec.ttl is None], terms, now))
    found += [_decision(item, "expire", RETENTION, WHY_REMOVED, now) for item in records if item.uid in going]
    for record in records:
        problem = world.problems.get(record.uid)
        if problem is not None and record.phase == "queued" and terms.may_touch(record.uid):
            found.append(_decision(record, "fail", REFUSED, problem, now))
    return found


def _open_batch(client: KubeClient, terms: DispatchTerms, records: Mapping[str, Record], sight: Sight) -> Batch | None:
    """The entries of the batch that a cycle would go on with; those not begun it would settle and decide anew."""
    path = resource_path(LEASE_API, "leases", terms.lease.namespace, terms.lease.name)
    try:
        lease = get_object(client, path) or {}
    except Forbidden:
        return None
    batch = read_batch(((lease.get("metadata") or {}).get("annotations") or {}).get(BATCH_ANNOTATION)).batch
    if batch is None:
        return None
    return keep_entries(batch, [entry for entry in batch.entries if _goes_on(entry, records, sight)])


def _goes_on(entry: Entry, records: Mapping[str, Record], sight: Sight) -> bool:
    """Whether a cycle would keep an entry."""
    record = records.get(entry.uid)
    if record is None:
        return not sight.sees(entry.namespace)
    return standing_of(entry, record.state) == "open"


def _of_choice(choice: Choice, now: float) -> Decision:
    """What would become of a waiting gang."""
    verdict = choice.verdict.as_dict()
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
