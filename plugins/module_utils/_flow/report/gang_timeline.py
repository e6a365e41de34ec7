# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gang timeline as HTML: figures, a chart with one row for each gang, and the same data as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import (
    Axis,
    build_axis,
    clock_text,
    day_text,
    duration_text,
    moment_text,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.bars import Bar, lay_bars
from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import (
    Attributes,
    Html,
    element,
    joined,
    percent,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.tables import (
    NOTHING,
    cell,
    counted,
    figures,
    note,
    table,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.usage import draw_queues, draw_usage
from ansible_collections.muster.kube.plugins.module_utils._model.report import (
    Cause,
    GangRow,
    GangTimeline,
    Span,
    longest_wait,
    middle,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report_usage import queue_waits, usages
from ansible_collections.muster.kube.plugins.module_utils._model.state import PHASES, Phase

_HOVER_LENGTH = 600
_ROW_HEIGHT, _BAR_TOP, _BAR_HEIGHT = 26, 4, 18


def draw_gang_timeline(section: GangTimeline, name: str) -> Html:
    """The whole section; name makes ids unique on the page."""
    heading = element("h2", {"id": f"{name}-title"}, section.title)
    if not section.gangs:
        return joined([heading, element("p", {"class": "empty"}, "No gangs.")])
    bounds = section.bounds
    until = bounds[1] if bounds else 0.0
    axis = build_axis(*bounds) if bounds else None
    several = len({gang.namespace for gang in section.gangs}) > 1
    parts = [heading, _lede(section, bounds), _figures(section, until)]
    if axis:
        parts += [_legend(section), _chart(section, axis, until, several)]
        parts.append(draw_usage(usages(section.gangs, section.capacity, until), axis, _axis_labels(axis)))
    days = bounds is not None and day_text(bounds[0], year=True) != day_text(bounds[1], year=True)
    parts += [_waits_table(section, until, several, days), _late_remark(section)]
    parts += [draw_queues(queue_waits(section.gangs, until)), _transitions_table(section, until, several)]
    return joined(parts, "\n")


def _lede(section: GangTimeline, bounds: tuple[float, float] | None) -> Html:
    """What the section is about, in one line."""
    said = [counted(len(section.gangs), "gang")]
    if bounds:
        first, last = bounds
        same_day = day_text(first, year=True) == day_text(last, year=True)
        end = clock_text(last) if same_day else moment_text(last)
        said.append(f"{moment_text(first)} – {end} UTC")
    if section.as_of is not None:
        said.append(f"as of {moment_text(section.as_of)} UTC")
    return element("p", {"class": "lede"}, " · ".join(said))


def _figures(section: GangTimeline, until: float) -> Html:
    """The numbers a reader asks for first."""
    gangs = section.gangs
    waits = [waited for gang in gangs if (waited := gang.seconds_in("queued", until)) is not None]
    typical, longest = middle(waits), longest_wait(section, until)
    entries: list[tuple[str, str, str]] = [
        ("Gangs", str(len(gangs)), f"{sum(gang.starts > 0 for gang in gangs)} started"),
        ("Waiting", str(sum(gang.phase == "queued" for gang in gangs)), _waiting_note(gangs)),
        ("Running", str(sum(gang.phase == "running" for gang in gangs)), "at the end"),
        ("Complete", str(sum(gang.phase == "complete" for gang in gangs)), _failed(gangs)),
        ("Median wait", NOTHING if typical is None else duration_text(typical), "all attempts together"),
        ("Longest wait", duration_text(longest[0]) if longest else NOTHING, longest[1].name if longest else ""),
    ]
    return figures(entries)


def _waiting_note(gangs: Sequence[GangRow]) -> Html | str:
    """Whether waiting helps all that wait."""
    hopeless = sum(gang.hopeless for gang in gangs)
    if not hopeless:
        return "in the queue at the end"
    return element("span", {"class": "bad"}, f"{hopeless} can never start")


def _late_remark(section: GangTimeline) -> Html:
    """How to read the times of gangs that nobody saw running."""
    if all(gang.unseen_run is None for gang in section.gangs):
        return joined([])
    words = (
        "'At most': the gang was over before anybody saw it run. Phases change when a dispatcher looks, so with "
        "single cycles (a cron job, a schedule) starts and ends are told when the next one came by."
    )
    return element("p", {"class": "remark"}, words)


def _failed(gangs: Sequence[GangRow]) -> Html:
    """How many failed, marked when there are any."""
    failed = sum(gang.phase == "failed" for gang in gangs)
    return element("span", {"class": "bad" if failed else None}, f"{failed} failed")


def _legend(section: GangTimeline) -> Html:
    """The phases that occur, with their colors, in the order of a gang's life."""
    seen = {span.phase for gang in section.gangs for span in gang.spans}
    items = [element("li", {}, _swatch(phase), phase) for phase in PHASES if phase in seen]
    return element("ul", {"class": "legend", "aria-label": "Phases"}, *items)


def _swatch(phase: Phase) -> Html:
    """A small sample of a phase as the chart draws it."""
    mark = _mark(phase, "7") if phase in ("complete", "failed") else _box(phase)
    return element("svg", {"class": "swatch", "width": 14, "height": 14, "aria-hidden": "true"}, mark)


def _box(phase: Phase) -> Html:
    """The sample of a phase that lasts."""
    return element("rect", {"class": f"phase-{phase}", "x": 1, "y": 1, "width": 12, "height": 12, "rx": 2})


def _mark(phase: Phase, x: str, y: int = 7) -> Html:
    """The sign for the end of a gang; its shape tells as much as its color."""
    return element("use", {"class": f"phase-{phase}", "href": f"#mark-{phase}", "x": x, "y": y})


def _chart(section: GangTimeline, axis: Axis, until: float, several: bool) -> Html:
    """One row for each gang below a common axis. The tables say the same to those who cannot see it."""
    lines = [_line("tick", tick.place) for tick in axis.ticks]
    if section.as_of is not None:
        lines.append(_line("as-of", axis.place(section.as_of)))
    rows = [_row(gang, axis, until, several) for gang in section.gangs if gang.spans]
    grid = element("svg", {"class": "grid", "preserveAspectRatio": "none"}, *lines)
    return element(
        "div",
        {"class": "chart", "role": "img", "aria-label": f"{section.title}: phases over time; see the tables below"},
        element("div", {"class": "axis"}, element("div", {"class": "unit"}, "UTC"), _axis_labels(axis)),
        element("div", {"class": "rows"}, grid, *rows),
    )


def _line(kind: str, place: float) -> Html:
    """A vertical line through all rows."""
    where = percent(place)
    return element("line", {"class": kind, "x1": where, "x2": where, "y1": 0, "y2": "100%"})


def _axis_labels(axis: Axis) -> Html:
    """Round moments; every second one is left out where there is little room."""
    labels = []
    for index, tick in enumerate(axis.ticks):
        x = percent(tick.place)
        # A label at an end of the axis would be cut if it were centered.
        anchor = "start" if tick.place < 3 else "end" if tick.place > 97 else "middle"
        label = element("text", {"x": x, "y": 26, "text-anchor": anchor}, tick.label)
        day = element("text", {"class": "day", "x": x, "y": 12, "text-anchor": anchor}, tick.day) if tick.day else ""
        labels.append(element("g", {"class": "odd" if index % 2 else "even"}, label, day))
    return element("svg", {"class": "labels", "height": 32}, *labels)


def _row(gang: GangRow, axis: Axis, until: float, several: bool) -> Html:
    """The label and the bars of one gang."""
    context = " · ".join(part for part in (gang.namespace if several else "", gang.queue) if part)
    label = element(
        "div",
        {"class": "label", "title": _full_name(gang) + (f"\nqueue {gang.queue}" if gang.queue else "")},
        element("span", {"class": "name"}, gang.name),
        element("span", {"class": "context"}, context),
    )
    bars = [_draw_bar(gang, item, until) for item in lay_bars(gang, axis, until)]
    track = element("svg", {"class": "track", "height": _ROW_HEIGHT}, *bars)
    return element("div", {"class": "row", "data-gang": "", "data-find": _find_text(gang)}, label, track)


def _draw_bar(gang: GangRow, item: Bar, until: float) -> Html:
    """One phase of one gang, with what there is to say about it when pointed at."""
    title = element("title", {}, _hover(gang, item.span, until))
    never = item.open and item.span.cause is not None and item.span.cause.never
    kinds = f"bar phase-{item.span.phase}" + (" open" if item.open else "") + (" never" if never else "")
    if item.span.final:
        return element("g", {"class": kinds}, title, _mark(item.span.phase, percent(item.left), _ROW_HEIGHT // 2))
    box: Attributes = {
        "x": percent(item.left),
        "y": _BAR_TOP,
        "width": percent(item.width),
        "height": _BAR_HEIGHT,
        "rx": 2,
    }
    if not item.text and not item.open:
        return element("rect", {"class": kinds, **box}, title)
    parts = [title, element("rect", box)]
    if item.text:
        inner: Attributes = {"x": percent(item.left), "y": _ROW_HEIGHT / 2 + 4, "dx": 6, "class": "inside"}
        parts.append(element("text", inner, item.text))
    if item.open:
        end = percent(item.left + item.width)
        parts.append(element("use", {"href": "#mark-open", "x": end, "y": _ROW_HEIGHT // 2}))
    return element("g", {"class": kinds}, *parts)


def _hover(gang: GangRow, span: Span, until: float) -> str:
    """Everything known about one phase, as plain lines."""
    lines = [f"{_full_name(gang)}: {span.phase}"]
    if span.final:
        lines.append(f"{moment_text(span.start)} UTC")
    else:
        end = "now" if span.end is None else clock_text(span.end)
        lines.append(f"{moment_text(span.start)} – {end} UTC ({_length(span, until)})")
    lines += [": ".join(part for part in (span.reason, span.message) if part)]
    if span.cause is not None:
        lines += [f"waited for: {_cause_text(span.cause)}", span.cause.text]
    return _cut("\n".join(line for line in lines if line), _HOVER_LENGTH)


def _waits_table(section: GangTimeline, until: float, several: bool, days: bool) -> Html:
    """Who waited for what, when."""
    names = ["Gang", "Queue", "Phase", "Waited", "For", "Started", "Ran", "Ended", "Attempts"]
    rows = [_waits_row(gang, until, several, days) for gang in section.gangs]
    return table("Who waited for what, when", names, rows, "waits listed")


def _waits_row(gang: GangRow, until: float, several: bool, days: bool) -> Html:
    """One gang in the table; days are told when there are several."""
    waited = gang.seconds_in("queued", until)
    cells = [
        cell(gang.queue or NOTHING, kind="word", name="Queue"),
        cell(_pill(gang.phase), _pods_text(gang), _never_note(gang), name="Phase"),
        cell(*_total(waited, gang.phase == "queued"), kind="number", name="Waited"),
        cell(*_cause_cell(gang), kind="cause", name="For"),
        cell(*_time_cell(gang.started, days), kind="number", name="Started"),
        cell(*_ran(gang, until), kind="number", name="Ran"),
        cell(*_time_cell(gang.ended, days), kind="number", name="Ended"),
        cell(str(gang.starts), kind="number", name="Attempts"),
    ]
    return _table_row(gang, several, cells)


def _never_note(gang: GangRow) -> Html | str:
    """A word of warning beside the phase of a gang for which waiting is no use."""
    return element("div", {"class": "note bad"}, "never starts") if gang.hopeless else ""


def _ran(gang: GangRow, until: float) -> list[str]:
    """How long a gang ran; a bound where nobody saw it run."""
    if gang.unseen_run is not None:
        return ["at most ", duration_text(gang.unseen_run)]
    return _total(gang.seconds_in("running", until), gang.phase == "running")


def _cause_cell(gang: GangRow) -> list[str]:
    """What a gang waited for; the whole verdict on demand."""
    return [_cause_line(cause) for cause in gang.causes()] or [NOTHING]


def _cause_line(cause: Cause) -> Html:
    """One cause; where there is a verdict, it unfolds."""
    if not cause.text:
        return element("div", {}, _cause_html(cause))
    return element("details", {}, element("summary", {}, _cause_html(cause)), element("pre", {}, cause.text))


def _cause_html(cause: Cause) -> Html:
    """Short amounts stand out before the reason."""
    if not cause.short:
        return joined([cause.reason])
    amounts = joined((element("b", {}, amount) for amount in cause.short), ", ")
    return joined([amounts, element("span", {"class": "why bad" if cause.never else "why"}, f" – {cause.reason}")])


def _cause_text(cause: Cause) -> str:
    """The same as plain text."""
    return f"{', '.join(cause.short)} – {cause.reason}" if cause.short else cause.reason


def _transitions_table(section: GangTimeline, until: float, several: bool) -> Html:
    """Every phase of every gang: what the chart shows, for those who read or copy."""
    rows = [_transition_row(gang, span, until, several) for gang in section.gangs for span in gang.spans]
    drawn = table("", ["Gang", "Phase", "From (UTC)", "Lasted", "Reason", "Message"], rows, "transitions")
    return element("details", {"class": "all"}, element("summary", {}, f"All transitions ({len(rows)})"), drawn)


def _transition_row(gang: GangRow, span: Span, until: float, several: bool) -> Html:
    """One phase of one gang in the table."""
    cells = [
        cell(_pill(span.phase)),
        cell(moment_text(span.start), kind="number"),
        cell(NOTHING if span.final else _length(span, until), kind="number"),
        cell(span.reason or NOTHING),
        cell(span.message or NOTHING, kind="cause"),
    ]
    return _table_row(gang, several, cells)


def _table_row(gang: GangRow, several: bool, cells: Iterable[Html]) -> Html:
    """A row about a gang, with its namespace where there are several."""
    space = note(gang.namespace if several else "")
    head = element("th", {"scope": "row"}, gang.name, space)
    return element("tr", {"data-gang": "", "data-find": _find_text(gang)}, head, *cells)


def _pill(phase: Phase) -> Html:
    """A phase with its color beside it."""
    return element("span", {"class": f"pill dot-{phase}"}, phase)


def _pods_text(gang: GangRow) -> Html | str:
    """Pods by phase, in small print."""
    said = ", ".join(f"{count} {phase}" for phase, count in gang.pods)
    return note(f"pods: {said}" if said else "")


def _time_cell(moment: float | None, days: bool) -> list[str]:
    """A moment, with its day in small print where that is not the same for all."""
    if moment is None:
        return [NOTHING]
    return [clock_text(moment), note(day_text(moment) if days else "")]


def _total(seconds: float | None, unfinished: bool) -> list[str]:
    """A sum of durations, marked when it is still growing."""
    if seconds is None:
        return [NOTHING]
    return [duration_text(seconds), note("so far" if unfinished else "")]


def _length(span: Span, until: float) -> str:
    """How long one phase lasted."""
    return duration_text(span.seconds(until)) + (" so far" if span.end is None else "")


def _find_text(gang: GangRow) -> str:
    """What the filter of the page looks at."""
    return " ".join((gang.namespace, gang.name, gang.queue, gang.phase)).lower()


def _full_name(gang: GangRow) -> str:
    """Namespace and name."""
    return f"{gang.namespace}/{gang.name}" if gang.namespace else gang.name


def _cut(text: str, most: int) -> str:
    """A text that is not too long to point at."""
    return text if len(text) <= most else text[: most - 1] + "…"
