# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Carrying out what a plan says about started gangs: running, complete, failed, out of time."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import SAVE_AFTER, Cycle
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import LOST_RACE, UNDOING, Phase
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.decisions import Action
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.health import (
    Advance,
    Stay,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.plan import HealthStep, Stop
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.world import World
from ansible_collections.muster.kube.plugins.module_utils._store.events import why_not_created

ACTIONS: dict[Phase, Action] = {
    "running": "running",
    "rescaling": "resize",
    "complete": "complete",
    "failed": "fail",
    "queued": "queue",
    "suspended": "suspend",
}


def apply_steps(cycle: Cycle, steps: Iterable[HealthStep]) -> None:
    """Apply the steps of a plan that need no room and so no batch."""
    cycle.side_by_side([(item.record, partial(_apply_step, cycle, item.record, item.step)) for item in steps])


def message_of(cycle: Cycle, world: World, stop: Stop) -> str:
    """Why a gang is stopped; after a lost race with what the controller reported that should have made the pods."""
    live = [obj for obj in world.items.get(stop.record.uid, {}).values() if obj is not None]
    if stop.reason != LOST_RACE or not live:
        return stop.message
    names = {str(obj["metadata"]["uid"]): str(obj["metadata"]["name"]) for obj in live}
    cause = why_not_created(cycle.session.client, stop.record.namespace, names)
    return f"{stop.message}; {cause}" if cause else stop.message


def _apply_step(cycle: Cycle, record: Record, step: Advance | Stay) -> None:
    """Apply one step."""
    if isinstance(step, Stay):
        # How items ended is noted while others, or pods, are left.
        cycle.carry_out(record, lambda old: cycle.advance(old, old.phase, "", "", **step.changes()))
        return
    written = cycle.carry_out(
        record, lambda old: cycle.advance(old, step.phase, step.reason, step.message, **step.changes())
    )
    if written is not None and written.phase == step.phase:
        cycle.decide(written, ACTIONS[step.phase], step.reason, step.message)
    elif written is not None:
        cycle.decide(written, "stop", *written.why)


def save_due(cycle: Cycle, *, after: float = SAVE_AFTER) -> None:
    """Write the states that are old enough; those of edited gangs are, so that these are taken back."""
    session, now = cycle.session, cycle.session.client.clock()
    due: list[Record] = []
    for uid, (_record, since) in list(session.unsaved.items()):
        known = cycle.records.get(uid)
        if known is None or not known.unsaved or not cycle.at_rest(known):
            continue
        if now - since >= after:
            due.append(known)
        else:
            cycle.check_again(session.clock.now() + since + after - now)
    cycle.side_by_side([(record, partial(_save, cycle, record)) for record in due])


def _save(cycle: Cycle, record: Record) -> None:
    """Write one state."""
    written = cycle.carry_out(record, cycle.save)
    if written is not None and written.phase in UNDOING:
        cycle.decide(written, "stop", *written.why)
