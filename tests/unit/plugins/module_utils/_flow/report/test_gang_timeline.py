# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section as HTML: rows, bars, legend, tables."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._flow.report.entries import read_timeline
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline import draw_gang_timeline
from ansible_collections.muster.kube.tests.support.report_cases import (
    START,
    gang,
    parse_page,
    section,
    step,
    two_gangs,
    waiting_verdict,
)


def drawn(gangs, **more):
    """The section these gangs make, parsed."""
    return parse_page(draw_gang_timeline(read_timeline(section(gangs, **more), "sections[0]"), "s"))


def cells(row):
    """The texts of a table's row."""
    return [cell.text for cell in row.children]


def test_every_transition_is_one_bar_in_its_gangs_row():
    tree = drawn(two_gangs())
    rows = tree.find("div", "row")
    assert [row.find(kind="name")[0].text for row in rows] == ["first", "second"]
    assert [len(row.find(kind="bar")) for row in rows] == [5, 4]
    kinds = [
        sorted(name for item in row.find(kind="bar") for name in item.classes if name.startswith("phase"))
        for row in rows
    ]
    assert kinds[0] == ["phase-complete", "phase-dispatched", "phase-dispatching", "phase-queued", "phase-running"]


def test_bars_say_when_why_and_what_for():
    (wait,) = [
        item for item in drawn(two_gangs()).find("div", "row")[1].find(kind="bar") if "phase-queued" in item.classes
    ]
    assert wait.find("title")[0].text.splitlines() == [
        "default/second: queued",
        "16 Nov 2026, 10:00:06 – 10:00:32 UTC (26 s)",
        "Submitted",
        "waited for: 1050m cpu, 2.8Gi memory – not enough free resources",
        "second: waits: not enough free resources",
    ]
    assert wait.find("text", "inside")[0].text == "1050m cpu, 2.8Gi memory"


def test_long_texts_are_cut_where_one_points_at_them_but_not_in_the_table():
    tree = drawn([gang("g", step("failed", 0, "Bad", "m" * 1000))])
    assert len(tree.find("title")[0].text) == 600
    assert "m" * 1000 in tree.find("table", "transitions")[0].text


def test_the_legend_names_the_phases_that_occur_in_the_order_of_life():
    assert [item.text for item in drawn(two_gangs()).find("li")] == [
        "queued",
        "dispatching",
        "dispatched",
        "running",
        "complete",
    ]


def test_who_waited_for_what_when():
    (table,) = drawn(two_gangs(), as_of=START + 60).find("table", "waits")
    head, *rows = table.find("tr")
    assert cells(head) == ["Gang", "Queue", "Phase", "Waited", "For", "Started", "Ran", "Ended", "Attempts"]
    assert cells(rows[0]) == [
        *("first", "research", "completepods: 2 succeeded", "1 s", "–", "10:00:01", "27 s", "10:00:31", "1"),
    ]
    assert cells(rows[1]) == [
        *("second", "research", "runningpods: 2 running", "26 s"),
        "1050m cpu, 2.8Gi memory – not enough free resourcessecond: waits: not enough free resources",
        *("10:00:32", "25 sso far", "–", "1"),
    ]


def test_the_table_of_transitions_holds_what_the_chart_shows():
    (table,) = drawn(two_gangs(), as_of=START + 60).find("table", "transitions")
    _head, *rows = table.find("tr")
    assert len(rows) == 9
    assert cells(rows[1]) == ["first", "dispatching", "16 Nov 2026, 10:00:01", "1 s", "Fits", "fits now"]
    assert cells(rows[4])[3] == "–"
    assert cells(rows[8])[3] == "25 s so far"


def test_namespaces_are_told_where_there_are_several():
    one = drawn([gang("a", step("queued", 0))])
    two = drawn([gang("a", step("queued", 0)), gang("b", step("queued", 0), namespace="team")])
    assert [label.text for label in one.find(kind="context")] == ["research"]
    assert [label.text for label in two.find(kind="context")] == ["default · research", "team · research"]
    assert two.find("table", "waits")[0].find("th")[-1].text == "bteam"


def test_days_are_told_where_there_are_several():
    table = drawn([gang("a", step("queued", 0), step("running", 90_000))]).find("table", "waits")[0]
    assert cells(table.find("tr")[1])[5] == "11:00:0017 Nov"


def test_figures_count_phases_and_waits():
    figures = [item.text for item in drawn(two_gangs(), as_of=START + 60).find("dl", "figures")[0].children]
    assert figures == [
        "Gangs22 started",
        "Waiting0in the queue at the end",
        "Running1at the end",
        "Complete10 failed",
        "Median wait1 sall attempts together",
        "Longest wait26 ssecond",
    ]


def test_no_gangs():
    tree = drawn([])
    assert [item.text for item in tree.find("p", "empty")] == ["No gangs."]
    assert not tree.find("table")


def test_gangs_nobody_dated_are_in_the_table_only():
    tree = drawn([gang("g", verdict=waiting_verdict(cpu="1"))])
    assert not tree.find(kind="chart")
    assert cells(tree.find("table", "waits")[0].find("tr")[1])[0] == "g"


def test_the_moment_of_reading_is_marked():
    assert not drawn(two_gangs()).find("line", "as-of")
    assert len(drawn(two_gangs(), as_of=START + 60).find("line", "as-of")) == 1


def test_the_chart_is_described_for_those_who_cannot_see_it():
    (chart,) = drawn(two_gangs()).find(kind="chart")
    assert (chart.attributes["role"], chart.attributes["aria-label"]) == (
        "img",
        "Gangs: phases over time; see the tables below",
    )
