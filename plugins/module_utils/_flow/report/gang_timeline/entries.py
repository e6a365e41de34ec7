# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From what gang_info and dispatch return to the rows of a gang timeline.

An entry with a timeline, or one that is not dated, is a gang. A dated entry without a timeline is a decision: it shows
what its gang waited for at that moment, and where the gang is not listed itself, decisions make up its timeline.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.causes import (
    cause_of,
    reason_words,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.reading import (
    capacity_of,
    demand_of,
    gang_key,
    moment_of,
    read_at,
    words_of,
)
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import (
    ACTIVE_PHASES,
    MOST_TRANSITIONS,
    PHASES,
    UNDOING,
    Phase,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import (
    Cause,
    GangRow,
    GangTimeline,
    Span,
    beginnings,
)
from ansible_collections.muster.kube.plugins.module_utils._model.values.fields import INT32, Fields

# Reasons that say only that a gang is queued, not what for.
_NO_REASONS = ("", "Submitted")
_CAUSE_LENGTH = 160


@dataclasses.dataclass(frozen=True, slots=True)
class _Moment:
    """A dated remark about a gang: a transition where phase is given, a cause of waiting where there is one."""

    at: float
    phase: Phase | None
    reason: str
    message: str
    cause: Cause | None


def read_timeline(data: Mapping[str, t.Any], where: str) -> GangTimeline:
    """A section from the user's values; where names it in complaints."""
    section = Fields(data, where)
    entries = [Fields(entry, f"{where}.gangs[{index}]") for index, entry in enumerate(section.sequence("gangs"))]
    decisions: dict[tuple[str, str], list[Fields]] = collections.defaultdict(list)
    gangs = []
    for entry in entries:
        if entry.get("timeline") is None and entry.get("at") is not None:
            decisions[gang_key(entry)].append(entry)
        else:
            gangs.append(entry)
    rows = [_gang(entry, decisions.get(gang_key(entry), ())) for entry in gangs]
    listed = {gang_key(entry) for entry in gangs}
    rows += [_gang_of_decisions(key, found) for key, found in decisions.items() if key not in listed]
    rows.sort(key=lambda row: (math.inf if row.first is None else row.first, row.namespace, row.name))
    as_of = read_at(gangs) if section.get("as_of") in (None, "") else moment_of(section, "as_of")
    return GangTimeline(words_of(section, "title") or "Gangs", tuple(rows), as_of, capacity_of(section))


def _gang(entry: Fields, decisions: Sequence[Fields]) -> GangRow:
    """One gang as gang_info returned it, with what decisions add."""
    timeline = [
        _transition(Fields(item, f"{entry.where}.timeline[{index}]"))
        for index, item in enumerate(entry.sequence("timeline"))
    ]
    if entry.get("submitted") is not None:
        timeline = _since(moment_of(entry, "submitted"), timeline)
    notes = [_decision(item) for item in decisions]
    verdict_text = words_of(entry, "verdict_text")
    spans = _with_causes(_spans(timeline), notes, cause_of(entry.get("verdict"), verdict_text))
    phase = entry.choice("phase", PHASES, spans[-1].phase if spans else "queued")
    attempt = entry.whole("attempt", 0, INT32 - 1)
    namespace, name = gang_key(entry)
    return GangRow(
        name=name,
        namespace=namespace,
        queue=words_of(entry, "queue"),
        phase=phase,
        spans=spans,
        starts=max(len(beginnings(spans)), _starts(attempt, phase)),
        pods=_pods(entry.get("pods")),
        verdict_text=verdict_text,
        demand=demand_of(entry),
    )


def _gang_of_decisions(key: tuple[str, str], decisions: Sequence[Fields]) -> GangRow:
    """A gang that is in no list, as far as decisions show it."""
    moments = sorted((_decision(item) for item in decisions), key=lambda moment: moment.at)
    changes = [moment for moment in moments if moment.phase is not None]
    fresh = [first for first, before in zip(changes, [None, *changes], strict=False) if _changes(before, first)]
    spans = _with_causes(_spans(fresh), moments, None)
    return GangRow(
        name=key[1],
        namespace=key[0],
        queue=next((queue for item in decisions if (queue := words_of(item, "queue"))), ""),
        phase=spans[-1].phase if spans else "unknown",
        spans=spans,
        starts=max(
            [
                len(beginnings(spans)),
                *(_starts(item.whole("attempt", 0, INT32 - 1), item.get("phase")) for item in decisions),
            ]
        ),
        verdict_text=next((words for item in reversed(decisions) if (words := words_of(item, "verdict_text"))), ""),
    )


def _changes(before: _Moment | None, moment: _Moment) -> bool:
    """Whether a decision brought another phase; one to keep waiting does not."""
    return before is None or before.phase != moment.phase


def _starts(attempt: int, phase: t.Any) -> int:
    """How many starts the number of an attempt stands for; a gang that is not started has the number of the next one.

    Old transitions are forgotten, the number is not.
    """
    return max(0, attempt if phase in (*ACTIVE_PHASES, *UNDOING, "complete") else attempt - 1)


def _transition(item: Fields) -> _Moment:
    phase: Phase = item.choice("phase", PHASES, None)
    cause = cause_of(item.get("waited_for"), "")
    return _Moment(moment_of(item, "at"), phase, words_of(item, "reason"), words_of(item, "message"), cause)


def _decision(item: Fields) -> _Moment:
    """One decision of a dispatcher."""
    phase: Phase | None = item.choice("phase", PHASES, None) if item.get("phase") else None
    text = words_of(item, "verdict_text") or words_of(item, "message")
    return _Moment(
        moment_of(item, "at"),
        phase,
        words_of(item, "reason"),
        words_of(item, "message"),
        cause_of(item.get("verdict"), text),
    )


def _since(submitted: float, timeline: list[_Moment]) -> list[_Moment]:
    """The timeline with the wait before its first entry, unless that may have been forgotten."""
    if timeline and (timeline[0].at <= submitted or len(timeline) >= MOST_TRANSITIONS):
        return timeline
    if timeline and timeline[0].phase == "queued":
        return [dataclasses.replace(timeline[0], at=submitted), *timeline[1:]]
    return [_Moment(submitted, "queued", "Submitted", "", None), *timeline]


def _spans(moments: Iterable[_Moment]) -> tuple[Span, ...]:
    """Phases from one transition to the next, in the order they were written; a clock that went back gives no time."""
    dated = [moment for moment in moments if moment.phase is not None]
    starts = list(itertools.accumulate((moment.at for moment in dated), max))
    ends: list[float | None] = [*starts[1:], None]
    return tuple(
        Span(moment.phase or "unknown", start, end, moment.reason, moment.message, moment.cause)
        for moment, start, end in zip(dated, starts, ends, strict=False)
    )


def _with_causes(spans: tuple[Span, ...], notes: Sequence[_Moment], last: Cause | None) -> tuple[Span, ...]:
    """The spans, each wait with its cause; the gang's own verdict, if it has one, is about the last of them."""
    last_wait = max((index for index, span in enumerate(spans) if span.phase == "queued"), default=None)
    return tuple(
        dataclasses.replace(span, cause=_cause(span, notes, last if index == last_wait else None))
        if span.phase == "queued"
        else span
        for index, span in enumerate(spans)
    )


def _cause(span: Span, notes: Sequence[_Moment], verdict: Cause | None) -> Cause | None:
    """What one wait was for."""
    noted = [
        (note.at, note.cause)
        for note in notes
        if note.cause and span.start <= note.at and (span.end is None or note.at <= span.end)
    ]
    if verdict is not None:
        return verdict
    if noted:
        return max(noted, key=lambda pair: pair[0])[1]
    if span.cause is not None:
        return span.cause
    if span.reason in _NO_REASONS:
        return None
    text = f"{reason_words(span.reason)}: {span.message}" if span.message else reason_words(span.reason)
    return Cause(text if len(text) <= _CAUSE_LENGTH else text[: _CAUSE_LENGTH - 1] + "…")


def _pods(value: t.Any) -> tuple[tuple[str, int], ...]:
    """Pods by phase, from a list of pods or from counts; anything else is not shown."""
    if isinstance(value, Mapping):
        counts = {str(name): count for name, count in value.items() if isinstance(count, int) and count > 0}
    elif isinstance(value, list):
        phases = [str(pod.get("phase") or "unknown").lower() for pod in value if isinstance(pod, Mapping)]
        counts = dict(collections.Counter(phases))
    else:
        counts = {}
    return tuple(sorted(counts.items()))
