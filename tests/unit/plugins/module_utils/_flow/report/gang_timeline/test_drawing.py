# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section as HTML: rows, bars, legend, tables."""

from __future__ import annotations

from ansible_collections.muster.kube.tests.support.report_cases import (
    START,
    draw_parsed,
    gang,
    section,
    step,
    two_gangs,
    waiting_verdict,
)


def drawn(gangs, **more):
    """The section these gangs make, parsed."""
    return draw_parsed(section(gangs, **more))


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


def hopeless():
    """A gang that can never start as it is, beside one that waits."""
    never = {**waiting_verdict(**{"nvidia.com/gpu": "12"}), "answer": "never"}
    return [
        gang("huge", step("queued", 0, "Submitted"), verdict=never, verdict_text="huge: never fits"),
        gang("next", step("queued", 5, "Submitted"), verdict=waiting_verdict(cpu="1")),
    ]


def test_a_gang_that_can_never_start_does_not_look_like_one_that_waits():
    tree = drawn(hopeless(), as_of=str(START + 60))
    huge, later = tree.find("div", "row")
    assert [["never" in shape.classes for shape in row.find(kind="bar")] for row in (huge, later)] == [[True], [False]]
    assert huge.find("text", "inside")[0].text == "never: 12 nvidia.com/gpu"
    rows = tree.find("table", "waits")[0].find("tbody")[0].find("tr")
    assert "can never start as it is" in rows[0].text
    assert "never" not in rows[1].text
    figures = {box.find("dt")[0].text: box.text for box in tree.find(kind="figures")[0].find("div")}
    assert "1 can never start" in figures["Waiting"]


def test_a_run_that_nobody_saw_is_bounded_and_explained():
    tree = drawn([gang("quick", step("queued", 0), step("dispatched", 3, "Started"), step("complete", 100))])
    (row,) = tree.find("table", "waits")[0].find("tbody")[0].find("tr")
    assert "at most 1 min 37 s" in row.text
    assert "a dispatcher looks" in tree.find("p", "remark")[0].text
    assert not drawn(two_gangs()).find("p", "remark")


def sized(name, count, *timeline, **more):
    """A gang whose pods have a GPU each."""
    podsets = [{"name": "w", "count": count, "requests": {"cpu": "500m", "pods": "1", "nvidia.com/gpu": "1"}}]
    return gang(name, *timeline, spec={"podsets": podsets}, **more)


def busy():
    """Two gangs one after the other, and one beside the second."""
    return [
        sized("a", 6, step("queued", 0), step("dispatched", 2), step("running", 4), step("complete", 40), queue="x"),
        sized("b", 6, step("queued", 2), step("dispatched", 42), step("running", 44), queue="y"),
        sized("c", 2, step("queued", 50), step("running", 60), queue="y"),
    ]


def test_what_was_used_over_time_is_drawn_below_the_capacity():
    tree = drawn(busy(), as_of=str(START + 100), capacity={"nvidia.com/gpu": "8", "cpu": 64})
    (row,) = tree.find("div", "usage")
    assert row.find(kind="name")[0].text == "nvidia.com/gpu"
    assert row.find(kind="context")[0].text == "at most 8 of 8"
    said = [part.find("title")[0].text.splitlines() for part in row.find("rect", "used")]
    assert [lines[0] for lines in said] == [
        "10:00:02 – 10:00:40: 6 of 8 nvidia.com/gpu",
        "10:00:42 – 10:01:00: 6 of 8 nvidia.com/gpu",
        "10:01:00 – 10:01:40: 8 of 8 nvidia.com/gpu",
    ]
    assert said[2][1] == "default/b, default/c"
    assert len(row.find("line", "capacity")) == 1


def test_without_a_capacity_only_what_was_used_is_told():
    (row,) = drawn(busy(), as_of=str(START + 100)).find("div", "usage")
    assert row.find(kind="context")[0].text == "at most 8"
    assert not row.find("line", "capacity")


def test_gangs_without_known_pods_have_no_such_picture():
    assert not drawn(two_gangs()).find("div", "usage")


def test_waits_by_queue():
    tree = drawn(busy(), as_of=str(START + 100), capacity={"nvidia.com/gpu": "8"})
    rows = [cells(row) for row in tree.find("table", "queues")[0].find("tbody")[0].find("tr")]
    assert rows == [
        ["x", "1", "0", "2 s", "2 s", "3 min 48 s nvidia.com/gpu"],
        ["y", "2", "0", "10 s", "40 s", "7 min 8 s nvidia.com/gpu"],
    ]
