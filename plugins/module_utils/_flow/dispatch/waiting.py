# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting gangs: who is told what they wait for, and when it is worth a write."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping
from functools import partial

from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.office import Cycle, Told
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.queue import Choice
from ansible_collections.muster.kube.plugins.module_utils._kube.records import Record
from ansible_collections.muster.kube.plugins.module_utils._model.timestamp import read_time
from ansible_collections.muster.kube.plugins.module_utils._model.verdict import REASONS, Verdict, verdict_text

Data = Mapping[str, t.Any]

# The reason of a gang that would fit but is none of those this run is for.
NOT_ASKED = "not_asked"
# At most so many verdicts are written in one cycle, those at the head of the queue first.
MOST_VERDICTS = 50
# Numbers that changed but mean the same are written no more often than this.
VERDICT_SECONDS = 60.0


def note_waiting(cycle: Cycle, choices: Iterable[Choice], started: t.Collection[str] = ()) -> None:
    """Tell who waits for what, once for each change; the head of the queue has it written into the records."""
    told, now = cycle.office.waiting, cycle.office.clock.now()
    briefly = 0
    writes: list[tuple[Record, t.Callable[[], object]]] = []
    for choice in choices:
        record = cycle.records.get(choice.record.uid)
        if record is None or choice.chosen or record.uid in started or record.phase != "queued":
            continue
        known, gist = told.get(record.uid), _gist_of(choice.verdict)
        news = known is None or known.gist != gist
        if not news and known is not None and now - known.compared < VERDICT_SECONDS:
            continue
        if len(writes) >= MOST_VERDICTS:
            # Said once in a few words; its turn to be written comes in one of the next cycles.
            if news:
                briefly += 1
                told[record.uid] = Told(gist, 0.0)
                _decide(cycle, record, choice.verdict, None)
            continue
        told[record.uid] = Told(gist, now)
        verdict = choice.verdict.as_dict()
        if news:
            _decide(cycle, record, choice.verdict, verdict)
        if _worth_a_write(cycle, record, verdict, now):
            stamped = {**verdict, "decided_at": cycle.office.now_text()}
            writes.append((record, partial(cycle.carry_out, record, partial(_write, cycle, stamped))))
    cycle.side_by_side(writes)
    if briefly:
        cycle.report(f"{briefly} more wait; the first of the queue are told in full")


def _decide(cycle: Cycle, record: Record, verdict: Verdict, full: dict[str, t.Any] | None) -> None:
    """Note why a gang waits; one that would fit is left to whoever it belongs to."""
    reason = verdict.reason or NOT_ASKED
    cycle.decide(record, "wait", reason, verdict_text(full) if full else REASONS.get(reason, reason), full)


def _worth_a_write(cycle: Cycle, record: Record, verdict: dict[str, t.Any], now: float) -> bool:
    """Whether a record is to say why it waits, because that is not what it says already."""
    mine = cycle.office.terms.may_touch(record.uid) and cycle.at_rest(record)
    said = record.state.verdict if record.state is not None else None
    return mine and worth_writing(said, verdict, now)


def _write(cycle: Cycle, verdict: dict[str, t.Any], record: Record) -> Record:
    """The record with its new verdict."""
    return cycle.advance(record, "queued", "", "", verdict=verdict)


def worth_writing(told: Data | None, verdict: Data, now: float) -> bool:
    """Whether a record should carry the new verdict: another answer, layer or short resource, or old numbers."""
    if told is None or _gist(told) != _gist(verdict):
        return True
    written = read_time(told.get("decided_at")) or 0.0
    before = {key: value for key, value in told.items() if key != "decided_at"}
    return before != verdict and now - written > VERDICT_SECONDS


def _gist(verdict: Data) -> tuple[t.Any, ...]:
    """What a reader has to know at once."""
    listed = verdict.get("layers")
    layers = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    failing = [layer.get("layer") for layer in layers if not layer.get("passed")]
    short = {name for layer in layers for name in _short(layer.get("totals"))}
    return verdict.get("answer"), verdict.get("reason"), tuple(failing), tuple(sorted(short))


def _short(totals: t.Any) -> list[str]:
    """The resources that are short; what a record says can be written by anybody who may edit it."""
    amounts = totals.items() if isinstance(totals, Mapping) else ()
    return [name for name, total in amounts if isinstance(total, Mapping) and total.get("short") not in (None, "0")]


def _gist_of(verdict: Verdict) -> tuple[t.Any, ...]:
    """The same of a verdict that was not written out yet, which takes longer than most verdicts themselves."""
    short = tuple(sorted(name for name, total in verdict.totals.items() if total.short))
    return verdict.answer, verdict.reason, verdict.detail, verdict.space.passed, short
