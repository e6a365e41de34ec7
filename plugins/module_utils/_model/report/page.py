# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reports as typed data: a title and sections; each capability brings a section type of its own.

The gang timeline shows who waited for what, when; inspections have a file of their own. Times are seconds since 1970;
nothing here reads a clock, so equal data make equal reports.
"""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t
from collections.abc import Iterable, Mapping

from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import ACTIVE_PHASES, FINISHED_PHASES, Phase


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """What a gang waited for: the reason as text, the amounts that were short, and the whole verdict as text.

    never says that waiting would not help: it did not fit even on empty nodes.
    """

    reason: str
    short: tuple[str, ...] = ()
    text: str = ""
    never: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """One phase of a gang from its start to the next change; the last one has no end."""

    phase: Phase
    start: float
    end: float | None
    reason: str = ""
    message: str = ""
    cause: Cause | None = None

    @property
    def final(self) -> bool:
        """Whether this is a point in time rather than a stretch: the gang was over."""
        return self.phase in FINISHED_PHASES

    def seconds(self, until: float) -> float:
        """How long it lasted, up to the end of what is known."""
        return max(0.0, (until if self.end is None else self.end) - self.start)


@dataclasses.dataclass(frozen=True, slots=True)
class GangRow:
    """One gang with its phases in order; starts is how often it was started, before the first span known too.

    demand is what all its pods ask for, in scaled units, empty when that is not known.
    """

    name: str
    namespace: str
    queue: str
    phase: Phase
    spans: tuple[Span, ...]
    starts: int = 0
    pods: tuple[tuple[str, int], ...] = ()
    verdict_text: str = ""
    demand: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def full_name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def hopeless(self) -> bool:
        """Whether it is in the queue and can never start as it is."""
        cause = self.spans[-1].cause if self.spans and self.phase == "queued" else None
        return cause is not None and cause.never

    @property
    def unseen_run(self) -> float | None:
        """How long it ran at most, when its end was seen but not its run; None for others."""
        last = max((place for place, span in enumerate(self.spans) if span.phase == "queued"), default=-1)
        seen = any(span.phase == "running" for span in self.spans[last + 1 :])
        if seen or self.ended is None or self.started is None:
            return None
        return self.ended - self.started

    @property
    def first(self) -> float | None:
        """When it was first heard of."""
        return self.spans[0].start if self.spans else None

    @property
    def started(self) -> float | None:
        """When its last attempt began."""
        return max(beginnings(self.spans), default=None)

    @property
    def ended(self) -> float | None:
        """When it was over, if it is."""
        return self.spans[-1].start if self.spans and self.spans[-1].final else None

    def seconds_in(self, phase: Phase, until: float) -> float | None:
        """How long it was in a phase, all attempts together; None when it never was."""
        lengths = [span.seconds(until) for span in self.spans if span.phase == phase]
        return sum(lengths) if lengths else None

    def causes(self) -> tuple[Cause, ...]:
        """What it waited for, in order, each cause once."""
        return tuple(dict.fromkeys(span.cause for span in self.spans if span.cause is not None))


@dataclasses.dataclass(frozen=True, slots=True)
class GangTimeline:
    """The section that shows all gangs along one axis of time; as_of is when the data were read.

    capacity is what all nodes have, in scaled units, as far as it is known.
    """

    title: str
    gangs: tuple[GangRow, ...]
    as_of: float | None = None
    capacity: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The first and the last moment anything is known of; None when nothing is dated."""
        moments = [moment for gang in self.gangs for span in gang.spans for moment in (span.start, span.end)]
        dated = [moment for moment in (*moments, self.as_of) if moment is not None]
        return (min(dated), max(dated)) if any(gang.spans for gang in self.gangs) else None

    @property
    def transitions(self) -> int:
        """How many phases all gangs went through."""
        return sum(len(gang.spans) for gang in self.gangs)


@dataclasses.dataclass(frozen=True, slots=True)
class ReportOptions:
    """What to write and where; sections are still as the user gave them."""

    dest: pathlib.Path
    title: str
    sections: tuple[dict[str, t.Any], ...]
    # The page around the sections.
    template: str | None
    # What draws the sections, by file name.
    section_templates: Mapping[str, t.Any] | None
    check_mode: bool


def beginnings(spans: Iterable[Span]) -> list[float]:
    """When each attempt began: a started phase after one that is not."""
    found, before = [], None
    for span in spans:
        if span.phase in ACTIVE_PHASES and before not in ACTIVE_PHASES:
            found.append(span.start)
        before = span.phase
    return found


def middle(values: Iterable[float]) -> float | None:
    """The median, the lower one of two; None without values."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def longest_wait(section: GangTimeline, until: float) -> tuple[float, GangRow] | None:
    """How long the gang that waited longest did so, and which it is; the first of equals."""
    waits = [(waited, gang) for gang in section.gangs if (waited := gang.seconds_in("queued", until)) is not None]
    return max(waits, key=lambda wait: wait[0], default=None)
