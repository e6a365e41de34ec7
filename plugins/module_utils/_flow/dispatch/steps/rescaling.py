# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Gangs whose objects get another size while they are there: each cycle sees how far they are and takes the next step.

The record says what is to be done before anything is. What was done is seen by the object, so whoever takes over goes
on from the cluster alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._engine.resizing import Unchangeable
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.steps.health_steps import ACTIONS
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.patches import (
    is_suspended,
    resize_mark,
    says_suspended,
)
from ansible_collections.muster.kube.plugins.module_utils._model.elastic.resize import SUSPENDED
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import RESIZE_FAILED
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.rescaling import (
    Rescale,
    ended,
    is_about,
    turned_back,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import (
    World,
    misses_its_ticket,
    pods_of,
)

_ID_LENGTH = 16


def begin_rescaling(cycle: Cycle, world: World, batch: str, item: Rescale) -> None:
    """Write into its record what a gang is to become, then take the first step."""
    session, record = cycle.session, item.record
    resize_id = hashlib.sha256(f"{record.uid}/{batch}".encode()).hexdigest()[:_ID_LENGTH]
    changes = item.changes(resize_id, time_text(session.clock.now()))
    changes["batch"] = batch
    begun = cycle.carry_out(record, lambda old: cycle.advance(old, "rescaling", item.reason, item.message, **changes))
    if begun is None or begun.phase != "rescaling":
        return
    cycle.decide(begun, "resize", item.reason, item.message)
    _go_on(cycle, world, begun)


def steps_of_rescaling(cycle: Cycle, world: World) -> Iterator[tuple[Record, Callable[[], object]]]:
    """Calls for gangs whose objects may have to be patched now."""
    for record in list(cycle.records.values()):
        if not cycle.session.options.may_touch(record.uid) or not cycle.at_rest(record) or record.terminating:
            continue
        if record.phase == "rescaling" and _is_due(record, world):
            yield record, partial(_go_on, cycle, world, record)
        elif record.resizable and _is_left_suspended(record, world):
            yield record, partial(_take_back, cycle, record, "its state was lost while it got another size")


def _is_due(record: Record, world: World) -> bool:
    """Whether there is something to be done, as far as the last reading tells; its ticket must live."""
    resize = record.state.resize if record.state is not None else None
    place = is_about(record.spec) if record.spec is not None else None
    if resize is None or place is None:
        return True
    live = world.items.get(record.uid, {}).get(place)
    if live is None or misses_its_ticket(record, world):
        return False
    mark = resize_mark(live)
    if mark == resize.sized_mark and not is_suspended(live):
        return resize.method == "suspend" and resize.patched is None
    if mark == resize.suspended_mark and is_suspended(live):
        uid = live["metadata"]["uid"]
        left = any(uid in pod.owner_uids and (pod.terminating or not pod.finished) for pod in pods_of(record, world))
        return says_suspended(live) and not left
    return True


def _is_left_suspended(record: Record, world: World) -> bool:
    """Whether an object was suspended for a resize of which the record tells nothing any more."""
    place = is_about(record.spec) if record.spec is not None else None
    live = world.items.get(record.uid, {}).get(place) if place is not None else None
    return live is not None and is_suspended(live) and resize_mark(live).endswith(SUSPENDED)


def _take_back(cycle: Cycle, record: Record, why: str) -> None:
    """Stop a gang that nobody can give a size; it keeps its place in the queue."""
    engine = cycle.session.engine
    written = cycle.carry_out(record, lambda old: engine.stop(old, RESIZE_FAILED, why, then="queued"))
    if written is not None:
        cycle.decide(written, "stop", RESIZE_FAILED, why)


def _go_on(cycle: Cycle, world: World, record: Record) -> None:
    """Take the next step; an object that cannot be changed keeps its size, or gets it back, or the gang is stopped."""
    session, obstacle = cycle.session, None
    place = is_about(record.spec) if record.spec is not None else None

    def go_on(old: Record) -> Record:
        """As far as can be done without waiting."""
        nonlocal obstacle
        if place is None:
            obstacle = Unchangeable("nobody can tell any more which of its objects gets another size", touched=True)
            return old
        done = session.engine.resize(old, session.memory.plan(old, {}), place)
        obstacle = done.obstacle
        return done.record

    now = cycle.carry_out(record, go_on)
    if now is None:
        return
    if obstacle is not None:
        _give_up(cycle, world, now, obstacle)
    else:
        session.pauses.look_later(record.uid)


def _give_up(cycle: Cycle, world: World, record: Record, obstacle: Unchangeable) -> None:
    """End a resize whose object cannot be changed: what was not touched goes on as it was."""
    resize, why = record.state.resize if record.state is not None else None, obstacle.why
    if resize is None or resize.back or record.spec is None or is_about(record.spec) is None:
        _take_back(cycle, record, f"{resize.back}; {why}" if resize is not None and resize.back else why)
        return
    if obstacle.touched:
        back = turned_back(record.spec, resize, why, time_text(cycle.session.clock.now()))
        written = cycle.carry_out(record, lambda old: cycle.advance(old, "rescaling", RESIZE_FAILED, why, resize=back))
    else:
        before = cycle.session.memory.at_size(record, resize.size, world.snapshot)
        if before is None:
            return
        changes = ended(dataclasses.replace(resize, back=why), before)
        written = cycle.carry_out(record, lambda old: cycle.advance(old, "running", RESIZE_FAILED, why, **changes))
    if written is not None:
        cycle.decide(written, ACTIONS.get(written.phase, "stop"), RESIZE_FAILED, why)
