# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting gangs: their verdicts are reported and, where it is worth a write, put into their records."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.session import Cycle, LastVerdict
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import Record
from ansible_collections.muster.kube.plugins.module_utils._model.gang.verdict import REASONS, Verdict, verdict_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Choice
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.verdict_news import (
    VERDICT_SECONDS,
    gist_of_verdict,
    worth_writing,
)

Data = Mapping[str, t.Any]

# The reason of a gang that would fit but is none of those this run is for.
NOT_ASKED = "not_asked"
# Reasons that tell of this run only, not of the gang.
BLIND_REASONS = ("quota_not_visible",)
# At most so many verdicts are written in one cycle, those at the head of the queue first.
MOST_VERDICTS = 50


def publish_waiting(cycle: Cycle, choices: Iterable[Choice], started: t.Collection[str] = ()) -> None:
    """Report what gangs wait for, once for each change; at the head of the queue it is written into the records."""
    known, now = cycle.session.waiting, cycle.session.clock.now()
    briefly = 0
    writes: list[tuple[Record, t.Callable[[], object]]] = []
    for choice in choices:
        record = cycle.records.get(choice.record.uid)
        if record is None or choice.chosen or record.uid in started or record.phase != "queued":
            continue
        last, gist = known.get(record.uid), gist_of_verdict(choice.verdict)
        news = last is None or last.gist != gist
        if not news and last is not None and now - last.compared < VERDICT_SECONDS:
            continue
        if len(writes) >= MOST_VERDICTS:
            # Reported once, briefly; its turn to be written comes in one of the next cycles.
            if news:
                briefly += 1
                known[record.uid] = LastVerdict(gist, 0.0)
                _decide(cycle, record, choice.verdict, None)
            continue
        known[record.uid] = LastVerdict(gist, now)
        verdict = choice.told
        if news:
            _decide(cycle, record, choice.verdict, verdict)
        if _worth_a_write(cycle, record, verdict, now):
            stamped = {**verdict, "decided_at": cycle.session.now_text()}
            writes.append((record, partial(cycle.carry_out, record, partial(_write, cycle, stamped))))
    cycle.side_by_side(writes)
    if briefly:
        cycle.report(f"{briefly} more wait; the first of the queue are reported in full")


def _decide(cycle: Cycle, record: Record, verdict: Verdict, full: dict[str, t.Any] | None) -> None:
    """Note why a gang waits; one that would fit is left to the run it belongs to."""
    reason = verdict.reason or NOT_ASKED
    cycle.decide(record, "wait", reason, verdict_text(full) if full else REASONS.get(reason, reason), full)


def _worth_a_write(cycle: Cycle, record: Record, verdict: dict[str, t.Any], now: float) -> bool:
    """Whether a record is to say why it waits, because that is not what it says already."""
    may_write = cycle.session.options.may_touch(record.uid) and cycle.at_rest(record)
    written = record.state.verdict if record.state is not None else None
    if written is not None and verdict.get("reason") in BLIND_REASONS:
        # Whoever sees more has the better answer: both would write by turns.
        return False
    return may_write and worth_writing(written, verdict, now)


def _write(cycle: Cycle, verdict: dict[str, t.Any], record: Record) -> Record:
    """The record with its new verdict."""
    return cycle.advance(record, "queued", "", "", verdict=verdict)
