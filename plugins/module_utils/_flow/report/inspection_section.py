# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The comparison of inspections as HTML: figures, box plots with their numbers, and what differs between results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import clock_text, day_text, moment_text
from ansible_collections.muster.kube.plugins.module_utils._flow.report.box_plot import color, draw_plot, plot_unit
from ansible_collections.muster.kube.plugins.module_utils._flow.report.markup import Html, element, joined
from ansible_collections.muster.kube.plugins.module_utils._flow.report.questions import SCRIPT
from ansible_collections.muster.kube.plugins.module_utils._flow.report.scale import Unit, change_text
from ansible_collections.muster.kube.plugins.module_utils._flow.report.tables import (
    NOTHING,
    cell,
    counted,
    figures,
    note,
    table,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report_inspections import (
    Change,
    Fact,
    Failure,
    Inspections,
    Packages,
    Plot,
    Result,
    Sample,
)

# Tables longer than this are folded at first.
_FOLDED = 15
_DIGEST_LENGTH = 19
_NUMBERS = ("Median", "Middle half", "Smallest", "Largest")


def draw_inspections(section: Inspections, name: str) -> Html:
    """The whole section; name makes ids unique on the page."""
    parts = [element("h2", {"id": f"{name}-title"}, section.title), _lede(section), _figures(section)]
    if section.failures:
        parts.append(_failures_table(section.failures))
    for plot in section.plots:
        parts += [_heading(plot), draw_plot(plot), _numbers_table(plot)]
    parts.append(_results_table(section.results))
    if section.asked:
        parts.append(_asked_table(section))
    if section.hardware:
        parts.append(_hardware_table(section))
    if section.packages is not None:
        parts.append(_packages_table(section.packages, section.results))
    return joined(parts, "\n")


def _lede(section: Inspections) -> Html:
    """What the section is about, in one line."""
    said = [counted(len(section.results), "inspection"), counted(section.runs, "run")]
    if len(section.results) > 1:
        said.append(f"compared with {section.results[0].name}")
    return element("p", {"class": "lede"}, " · ".join(said))


def _figures(section: Inspections) -> Html:
    """The numbers a reader asks for first, about the first metric."""
    entries: list[tuple[str, str, str]] = [
        ("Inspections", str(len(section.results)), ""),
        ("Runs", str(section.runs), _bad(f"{section.failed_runs} failed", section.failed_runs > 0)),
    ]
    if section.plots:
        entries += _plot_figures(section.plots[0])
    entries.append(_hardware_figure(section))
    entries.append(_packages_figure(section.packages))
    return figures(entries)


def _plot_figures(plot: Plot) -> list[tuple[str, str, str]]:
    """The medians of the first and of the best result."""
    unit, best = plot_unit(plot), plot.best()
    first = plot.samples[0]
    base = NOTHING if first.box is None else unit.text(first.box.median)
    top = NOTHING if best is None or best.box is None else unit.text(best.box.median)
    name = "" if best is None else best.name
    if best is first and len(plot.samples) > 1:
        name = f"{name}; none is better" if plot.refusal is None else f"{name}; not compared"
    return [(f"{plot.title}, first", base, first.name), (f"{plot.title}, best", top, name)]


def _hardware_figure(section: Inspections) -> tuple[str, str, str]:
    """Whether the results come from the same hardware."""
    different = section.different_hardware
    if different:
        return "Hardware", "differs", _bad(", ".join(fact.name for fact in different), True)
    known = any(fact.decides and all(fact.values) for fact in section.hardware)
    return ("Hardware", "same", "in all that decides") if known else ("Hardware", NOTHING, "not known of all")


def _packages_figure(packages: Packages | None) -> tuple[str, str, str]:
    """How many packages differ."""
    if packages is None:
        return "Packages", NOTHING, "no lists to compare"
    return "Packages", str(len(packages.differing)), f"differ, {packages.same} are the same"


def _heading(plot: Plot) -> Html:
    """The title of one metric, with its path where that is another."""
    path = f" {plot.metric}" if plot.title != plot.metric else ""
    unit = plot_unit(plot).name
    said = f"{path}, in {unit}" if unit else path
    return element("h3", {}, plot.title, element("span", {"class": "note"}, said) if said else "")


def _numbers_table(plot: Plot) -> Html:
    """What the chart shows, in numbers, and what to think of it."""
    unit = plot_unit(plot)
    names = ["Result", "Runs", *_NUMBERS, "Change", "Verdict"]
    rows = [_numbers_row(sample, number, unit) for number, sample in enumerate(plot.samples)]
    refusal = element("p", {"class": "remark bad"}, f"Not compared: {plot.refusal}.") if plot.refusal else ""
    return joined([refusal, table("", names, rows, "numbers listed")])


def _numbers_row(sample: Sample, number: int, unit: Unit) -> Html:
    """One result."""
    head = element("th", {"scope": "row"}, element("span", {"class": f"pill {color(number)}"}, sample.name))
    box = sample.box
    values = [point.value for point in sample.points]
    missing = note(f"{sample.missing} without it" if sample.missing else "")
    numbers = (
        [NOTHING] * 4
        if box is None
        else [
            unit.number(box.median),
            f"{unit.number(box.low)} – {unit.number(box.high)}",
            unit.number(min(values)),
            unit.number(max(values)),
        ]
    )
    return element(
        "tr",
        {},
        head,
        cell(str(len(values)), missing, kind="number", name="Runs"),
        *(cell(text, kind="number", name=name) for name, text in zip(_NUMBERS, numbers, strict=True)),
        cell(*_change_cell(sample.change), kind="number", name="Change"),
        cell(*_verdict_cell(sample.change), kind="cause", name="Verdict"),
    )


def _change_cell(change: Change | None) -> list[str]:
    """By how much the median changed, with the interval in small print."""
    if change is None or change.percent is None:
        return [NOTHING]
    if change.interval is None:
        return [change_text(change.percent)]
    low, high = (change_text(bound) for bound in change.interval)
    return [change_text(change.percent), note(f"{low} to {high}")]


def _verdict_cell(change: Change | None) -> list[str]:
    """The verdict, and what it rests on."""
    if change is None:
        return [NOTHING]
    said = []
    if change.p_value is not None:
        said.append("p < 0.001" if change.p_value < 0.001 else f"p = {change.p_value:.3f}")
    if change.detectable is not None:
        said.append(f"finds changes from {change.detectable:.3g} %")
    if change.reason:
        said.append(change.reason)
    word = element("span", {"class": f"verdict {change.verdict}"}, change.verdict)
    return [word, note("; ".join(said))]


def _failures_table(failures: Sequence[Failure]) -> Html:
    """What failed, and why."""
    rows = [
        element(
            "tr",
            {},
            element("th", {"scope": "row"}, failure.name),
            cell("all" if failure.index is None else str(failure.index), kind="number"),
            cell(_bad(failure.reason, True), kind="word"),
            cell(failure.message or NOTHING, element("pre", {}, failure.words) if failure.words else "", kind="cause"),
        )
        for failure in failures
    ]
    drawn = table("What failed", ["Result", "Run", "Reason", "Message"], rows, "failures")
    return _folded(f"What failed ({len(rows)})", drawn) if len(rows) > _FOLDED else drawn


def _results_table(results: Sequence[Result]) -> Html:
    """Which image ran where."""
    names = ["Result", "Image", "Nodes", "Measured (UTC)", "Runs", "Failed", "Throttled"]
    rows = [_result_row(result, number) for number, result in enumerate(results)]
    return table("What was inspected", names, rows, "results")


def _result_row(result: Result, number: int) -> Html:
    """One inspection."""
    head = element("span", {"class": f"pill {color(number)}"}, result.name)
    known = result.inspection_id if result.inspection_id != result.name else ""
    digest = result.image_digest
    shown = digest if len(digest) <= _DIGEST_LENGTH else f"{digest[:_DIGEST_LENGTH]}…"
    return element(
        "tr",
        {},
        element("th", {"scope": "row"}, head, note(known)),
        cell(result.image or NOTHING, note("" if digest in result.image else shown), kind="cause"),
        cell(", ".join(result.nodes) or NOTHING),
        cell(_measured_text(result)),
        cell(str(result.runs), kind="number"),
        cell(_bad(str(result.failed), result.failed > 0), kind="number"),
        cell(NOTHING if result.throttled is None else str(result.throttled), kind="number"),
    )


def _measured_text(result: Result) -> str:
    """From when to when it was measured."""
    if result.measured is None:
        return NOTHING
    first, last = result.measured
    same_day = day_text(first, year=True) == day_text(last, year=True)
    return f"{moment_text(first)} – {clock_text(last) if same_day else moment_text(last)}"


def _asked_table(section: Inspections) -> Html:
    """What was asked, where that is not the same; how scripts differ unfolds."""
    rows = []
    for fact in section.asked:
        values = [
            cell(
                NOTHING if value in ("", "absent") else value,
                _folded("what differs", element("pre", {}, changes)) if fact.name == SCRIPT and changes else "",
            )
            for value, changes in zip(fact.values, section.scripts, strict=True)
        ]
        sign = element("span", {"class": "sign-differs", "title": "differs"}, "≠ ")
        rows.append(element("tr", {}, element("th", {"scope": "row"}, sign, fact.name), *values))
    return table("What was asked, where it differs", _columns("Asked", section.results), rows, "asked")


def _hardware_table(section: Inspections) -> Html:
    """What the runs saw of their machines: what differs side by side, what is the same in all folded."""
    different = [fact for fact in section.hardware if fact.differs]
    same = [fact for fact in section.hardware if not fact.differs]
    rows = [_fact_row(fact) for fact in different]
    caption = "Hardware that differs, as the runs saw it"
    parts: list[str] = [table(caption, _columns("Fact", section.results), rows, "facts")] if rows else []
    if not rows:
        parts = [element("h3", {}, "Hardware"), element("p", {"class": "remark"}, "No fact differs.")]
    names = [result.name for result in section.results]
    shared = table("", ["Fact", "Value"], [_same_row(fact, names) for fact in same], "facts")
    return joined([*parts, _folded(f"Facts that are the same ({len(same)})", shared) if same else ""])


def _same_row(fact: Fact, names: Sequence[str]) -> Html:
    """A fact on which all agree that know it."""
    unknown = ", ".join(name for name, value in zip(names, fact.values, strict=True) if not value)
    value = next(value for value in fact.values if value)
    head = element("th", {"scope": "row"}, fact.name)
    return element("tr", {}, head, cell(value, note(f"not known of {unknown}" if unknown else "")))


def _packages_table(packages: Packages, results: Sequence[Result]) -> Html:
    """Packages with different versions, or that only some images have."""
    said = [f"{counted(packages.same, 'package')} the same in all"]
    if packages.unlisted:
        said.append(f"no list of {', '.join(packages.unlisted)}")
    remark = element("p", {"class": "remark"}, "; ".join(said) + ".")
    if not packages.differing:
        return joined([element("h3", {}, "Packages"), remark])
    rows = [_fact_row(fact) for fact in packages.differing]
    caption = f"Packages that differ ({len(rows)})"
    folded = len(rows) > _FOLDED
    drawn = table("" if folded else caption, _columns("Package", results), rows, "facts")
    return joined([_folded(caption, drawn) if folded else drawn, remark])


def _columns(first: str, results: Iterable[Result]) -> list[str]:
    """The columns of a table of facts."""
    return [first, *(result.name for result in results)]


def _fact_row(fact: Fact) -> Html:
    """One fact; a sign tells that it differs to those who do not see the color."""
    kind = None if not fact.differs else "differs decides" if fact.decides else "differs"
    sign = element("span", {"class": "sign-differs", "title": "differs"}, "≠ ") if fact.differs else ""
    head = element("th", {"scope": "row"}, sign, fact.name)
    return element("tr", {"class": kind}, head, *(cell(value or NOTHING) for value in fact.values))


def _folded(summary: str, content: Html) -> Html:
    """Something long that is shown on demand."""
    return element("details", {"class": "all"}, element("summary", {}, summary), content)


def _bad(text: str, bad: bool) -> Html:
    """A text that is marked when it is no good news."""
    return element("span", {"class": "bad" if bad else None}, text)
