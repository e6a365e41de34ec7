# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carrying out what a plan says about started gangs: running, complete, failed, out of time."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle
from ansible_collections.muster.kube.plugins.module_utils._kube.errors import Forbidden, ServerFault
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import LOST_RACE, Phase
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Action
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import (
    Advance,
    Stay,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import HealthStep, Stop
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World, misses_its_ticket
from ansible_collections.muster.kube.plugins.module_utils._store.events import why_not_created

ACTIONS: dict[Phase, Action] = {
    "running": "running",
    "complete": "complete",
    "failed": "fail",
    "queued": "queue",
    "suspended": "suspend",
}


def take_steps(cycle: Cycle, steps: Iterable[HealthStep]) -> None:
    """Take the steps of a plan that need no room and so no batch."""
    cycle.side_by_side([(item.record, partial(_take, cycle, item.record, item.step)) for item in steps])


def with_causes(cycle: Cycle, world: World, stops: Iterable[Stop]) -> list[Stop]:
    """The stops of a plan; of a lost race with what the controller said that should have made the pods."""
    return [
        dataclasses.replace(item, message=_with_cause(cycle, world, item.record, item.message))
        if item.reason == LOST_RACE
        else item
        for item in stops
    ]


def find_ticketless(cycle: Cycle, world: World) -> set[str]:
    """Gangs that are said to be started although no ticket of them exists, and so nothing that it could have made.

    Their users deleted the ticket, or wrote the state, with which a gang of nothing would hold room for ever.
    """
    may_touch = cycle.office.terms.may_touch
    return {
        record.uid
        for record in list(cycle.records.values())
        if may_touch(record.uid) and _lost_its_ticket(cycle, world, record)
    }


def _lost_its_ticket(cycle: Cycle, world: World, record: Record) -> bool:
    """Whether the ticket of a started gang was not among those that were read, and the server knows none either."""
    if not misses_its_ticket(record, world) or not cycle.may_judge(record):
        return False
    doubts, key = cycle.office.doubts, f"ticket of {record.uid}"
    if doubts.pausing(key):
        return False
    doubts.look_later(key)
    try:
        return not cycle.office.engine.holds_ticket(record)
    except (Forbidden, ServerFault) as error:
        cycle.skip(record, str(error))
        return False


def _with_cause(cycle: Cycle, world: World, record: Record, message: str) -> str:
    """Why pods of a gang did not come, with what the controller that should have made them said about it."""
    items = {
        str(obj["metadata"]["uid"]): str(obj["metadata"]["name"])
        for obj in world.items.get(record.uid, {}).values()
        if obj is not None
    }
    said = why_not_created(cycle.office.client, record.namespace, items) if items else None
    return f"{message}; {said}" if said else message


def _take(cycle: Cycle, record: Record, step: Advance | Stay) -> None:
    """Take one step."""
    if isinstance(step, Stay):
        _note(cycle, record, step)
        return
    written = cycle.carry_out(
        record, lambda old: cycle.advance(old, step.phase, step.reason, step.message, **step.changes())
    )
    if written is not None:
        cycle.decide(written, ACTIONS[step.phase], step.reason, step.message)


def _note(cycle: Cycle, record: Record, step: Stay) -> None:
    """Write how the items of a gang that stays as it is ended, while others, or pods, are left."""
    cycle.carry_out(record, lambda old: cycle.advance(old, old.phase, "", "", **step.changes()))
