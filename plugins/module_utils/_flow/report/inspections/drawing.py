# This file is private to the muster.kube collection; do not import it from elsewhere.
# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section that compares inspections: figures, box plots with their numbers, and what differs between results."""

from __future__ import annotations

import typing as t

from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.box_plot import (
    PlottedMetric,
    color,
    lay_plot,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.questions import SCRIPT
from ansible_collections.muster.kube.plugins.module_utils._flow.report.inspections.results import read_inspections
from ansible_collections.muster.kube.plugins.module_utils._flow.report.section import Figure, Section
from ansible_collections.muster.kube.plugins.module_utils._flow.report.words import NOTHING, counted, stretch_text
from ansible_collections.muster.kube.plugins.module_utils._model.report.inspections import Inspections

# Tables longer than this are folded at first.
_FOLDED = 15
_METRIC_OPTIONS = {
    "metric": {"type": "str", "required": True},
    "title": {"type": "str"},
    "unit": {"type": "str"},
    "direction": {"type": "str", "choices": ["lower", "higher"], "default": "lower"},
    "threshold": {"type": "float", "default": 5.0},
}


def draw_inspections(section: Inspections) -> dict[str, t.Any]:
    """What the template shows."""
    metrics = [lay_plot(plot) for plot in section.plots]
    names = [result.name for result in section.results]
    same = [fact for fact in section.hardware if not fact.differs]
    return {
        "lede": _lede(section),
        "figures": _figures(section, metrics),
        "section": section,
        "metrics": metrics,
        "names": names,
        "measured": [NOTHING if one.measured is None else stretch_text(*one.measured) for one in section.results],
        "different": [fact for fact in section.hardware if fact.differs],
        "same": [(fact, [name for name, value in zip(names, fact.values, strict=True) if not value]) for fact in same],
        "script": SCRIPT,
        "color": color,
        "counted": counted,
        "folded_from": _FOLDED,
    }


def _lede(section: Inspections) -> str:
    """What the section is about, in one line."""
    parts = [counted(len(section.results), "inspection"), counted(section.runs, "run")]
    if len(section.results) > 1:
        parts.append(f"compared with {section.results[0].name}")
    return " · ".join(parts)


def _figures(section: Inspections, metrics: list[PlottedMetric]) -> list[Figure]:
    """The numbers a reader asks for first, about the first metric."""
    failed, packages = section.failed_runs, section.packages
    return [
        Figure("Inspections", str(len(section.results))),
        Figure("Runs", str(section.runs), f"{failed} failed", failed > 0),
        *(_plot_figures(metrics[0]) if metrics else ()),
        _hardware_figure(section),
        Figure("Packages", NOTHING, "no lists to compare")
        if packages is None
        else Figure("Packages", str(len(packages.differing)), f"differ, {packages.same} are the same"),
    ]


def _plot_figures(metric: PlottedMetric) -> list[Figure]:
    """The medians of the first and of the best result."""
    plot, best = metric.plot, metric.plot.best()
    first = plot.samples[0]
    medians = [NOTHING if one is None or one.box is None else metric.unit.text(one.box.median) for one in (first, best)]
    name = "" if best is None else best.name
    if best is first and len(plot.samples) > 1:
        name = f"{name}; none is better" if plot.refusal is None else f"{name}; not compared"
    return [Figure(f"{plot.title}, first", medians[0], first.name), Figure(f"{plot.title}, best", medians[1], name)]


def _hardware_figure(section: Inspections) -> Figure:
    """Whether the results come from the same hardware."""
    if section.different_hardware:
        return Figure("Hardware", "differs", ", ".join(fact.name for fact in section.different_hardware), True)
    if any(fact.decides and all(fact.values) for fact in section.hardware):
        return Figure("Hardware", "same", "in all that decides")
    return Figure("Hardware", NOTHING, "not known of all")


INSPECTIONS = Section(
    read=read_inspections,
    draw=draw_inspections,
    summary=lambda section: {
        "inspections": len(section.results),
        "runs": section.runs,
        "failed_runs": section.failed_runs,
    },
    options={
        "inspections": {"type": "list", "elements": "dict", "default": []},
        "metrics": {"type": "list", "elements": "dict", "options": _METRIC_OPTIONS},
        "allow_different_hardware": {"type": "bool", "default": False},
    },
)
