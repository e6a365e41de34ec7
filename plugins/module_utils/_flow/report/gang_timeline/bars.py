# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bars of a gang timeline: where they lie, what is written into them and what they say when pointed at."""

from __future__ import annotations

import dataclasses

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import Axis, fitting
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import (
    clock_text,
    duration_text,
    moment_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import Cause, GangRow, Span

# Nothing is too short to be seen: about two pixels of the usual width.
THINNEST = 0.25
_HOVER_LENGTH = 600


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """One span laid out, in percent of the axis; the end of a gang is a mark without width."""

    span: Span
    left: float
    width: float
    text: str
    open: bool
    hover: str

    @property
    def never(self) -> bool:
        """Whether waiting any longer is no use."""
        return self.open and self.span.cause is not None and self.span.cause.never


def lay_bars(gang: GangRow, axis: Axis, until: float) -> list[Bar]:
    """The bars of a gang, the longest first, so that a short one is drawn over its neighbors and stays visible."""
    ordered = sorted(gang.spans, key=lambda span: (span.final, -span.seconds(until)))
    return [_bar(span, axis, until, _hover(gang, span, until)) for span in ordered]


def _bar(span: Span, axis: Axis, until: float, hover: str) -> Bar:
    """One span from its start to its end, or to the last moment known."""
    left = axis.place(span.start)
    if span.final:
        return Bar(span, left, 0.0, "", False, hover)
    right = axis.place(until if span.end is None else span.end)
    width = min(max(right - left, THINNEST), 100 - left)
    return Bar(span, left, width, fitting(_texts(span, until), width), span.end is None, hover)


def length_text(span: Span, until: float) -> str:
    """How long one phase lasted."""
    return duration_text(span.seconds(until)) + (" so far" if span.end is None else "")


def _hover(gang: GangRow, span: Span, until: float) -> str:
    """Everything known about one phase, as plain lines, unless that is too much to point at."""
    lines = [f"{gang.full_name}: {span.phase}"]
    if span.final:
        lines.append(f"{moment_text(span.start)} UTC")
    else:
        end = "now" if span.end is None else clock_text(span.end)
        lines.append(f"{moment_text(span.start)} – {end} UTC ({length_text(span, until)})")
    lines += [": ".join(part for part in (span.reason, span.message) if part)]
    if span.cause is not None:
        short = f"{', '.join(span.cause.short)} – " if span.cause.short else ""
        lines += [f"waited for: {short}{span.cause.reason}", span.cause.text]
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= _HOVER_LENGTH else text[: _HOVER_LENGTH - 1] + "…"


def _texts(span: Span, until: float) -> list[str]:
    """What could be written into a bar, the most telling first."""
    if span.phase == "running":
        return [duration_text(span.seconds(until))]
    return cause_texts(span.cause) if span.cause is not None else []


def cause_texts(cause: Cause) -> list[str]:
    """A cause in fewer and fewer words: the amounts that are short, the first of them, or the reason without any."""
    if not cause.short:
        return [cause.reason]
    if cause.never:
        return [f"never: {', '.join(cause.short)}", "never"]
    more = f" +{len(cause.short) - 1}" if len(cause.short) > 1 else ""
    return [", ".join(cause.short), cause.short[0] + more]
