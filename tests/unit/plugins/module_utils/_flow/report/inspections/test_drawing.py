# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The comparison of inspections as a page shows it."""

from __future__ import annotations

from ansible_collections.muster.kube.tests.support.inspection_cases import (
    failed_item,
    hwinfo,
    inspection,
    item,
    packages,
    section,
    two_stacks,
)
from ansible_collections.muster.kube.tests.support.report_cases import draw_parsed


def draw(*inspections, **more):
    """The section as a tree."""
    return draw_parsed(section(list(inspections), **more))


def rows(tree, kind):
    """The cells of a table's body."""
    (body,) = [body for table in tree.find("table", kind) for body in table.find("tbody")]
    return [[item.text for item in row.children if not isinstance(item, str)] for row in body.find("tr")]


def figures(tree):
    """The figures at the top by name."""
    return {
        box.find("dt")[0].text: [item.text for item in box.find("dd")] for box in tree.find("div") if box.find("dt")
    }


def test_the_numbers_stand_in_a_table_with_change_and_verdict():
    old, new = rows(draw(*two_stacks()), "numbers")
    assert old == ["old", "8", "10.07", "9.988 – 10.11", "9.9", "10.2", "–", "–"]
    assert new[:3] == ["new", "8", "11.47"]
    assert new[6].startswith("+13.9 %")
    assert new[7].startswith("worsep < 0.001; finds changes from ")
    (heading,) = [item for item in draw(*two_stacks()).find("h3") if item.text.startswith("Wall time")]
    assert heading.text == "Wall time wall_seconds, in s"


def test_figures_tell_first_and_best_what_failed_and_what_differs():
    found = figures(draw(*two_stacks()))
    assert found["Runs"] == ["17", "1 failed"]
    assert found["Wall time, first"] == ["10.07 s", "old"]
    assert found["Wall time, best"] == ["10.07 s", "old; none is better"]
    assert found["Hardware"] == ["same", "in all that decides"]
    assert found["Packages"] == ["2", "differ, 3 are the same"]


def test_only_what_is_better_is_called_the_best():
    noisy = inspection("noisy", [5.0, 9.0, 20.0, 22.0, 30.0])
    quick = inspection("quick", [5.0, 5.1, 5.2, 5.0, 5.1, 5.1])
    old = two_stacks()[0]
    assert figures(draw(old, noisy))["Wall time, best"][1] == "old; none is better"
    assert figures(draw(old, noisy, quick))["Wall time, best"] == ["5.1 s", "quick"]
    assert "unclear" in rows(draw(old, noisy), "numbers")[1][7]


def asked(name, script="python bench.py\nsecond line\n", **run):
    """An inspection with what was asked of it."""
    base = {"args": [], "env": {}, "requests": {"cpu": "1"}, "repetitions": 2}
    items = [
        item(number, 1.0, start=f"2026-11-16T09:0{number}:00.5Z", end=f"2026-11-16T09:0{number}:01.5Z")
        for number in range(2)
    ]
    return inspection(name, [], *items, specification={"run": {**base, **run}, "script": script, "stack": None})


def test_what_differs_in_the_question_is_shown():
    tree = draw(asked("a"), asked("b", "python bench.py --fast\nsecond line\n", env={"N": "9"}, requests={"cpu": "2"}))
    found = {row[0]: row[1:] for row in rows(tree, "asked")}
    assert found["≠ Environment: N"] == ["–", "9"]
    assert found["≠ Requests: cpu"] == ["1", "2"]
    assert "Repetitions" not in " ".join(found)
    first, second = found["≠ Script"]
    assert first.startswith("2 lines, ")
    assert "-python bench.py\n+python bench.py --fast" in second


def test_where_the_questions_are_the_same_nothing_is_shown():
    assert draw(asked("a"), asked("b")).find("table", "asked") == []
    assert draw(*two_stacks()).find("table", "asked") == []


def test_when_it_was_measured_is_told():
    (row,) = rows(draw(asked("a")), "results")
    assert "16 Nov 2026, 09:00:00 – 09:01:01" in row


def test_the_end_of_stderr_is_told_of_failures():
    broken = failed_item(0, "script_failed", "the script ended with exit code 1")
    tree = draw(inspection("bad", [], {**broken, "stderr": "Traceback\nValueError: no\n"}))
    ((_name, _run, _reason, message),) = rows(tree, "failures")
    assert message.endswith("Traceback\nValueError: no")


def test_what_failed_is_named_with_its_reason():
    tree = draw(*two_stacks(), inspection("gone", [], reason="build_failed", message="no such package"))
    assert rows(tree, "failures") == [
        ["new", "8", "oom", "the script was killed"],
        ["gone", "all", "build_failed", "no such package"],
    ]
    assert draw(inspection("good", [1.0])).find("table", "failures") == []


def test_many_failures_are_folded():
    tree = draw(inspection("bad", [], *(failed_item(index) for index in range(16))))
    assert "What failed (16)" in [item.text for item in tree.find("summary")]


def different():
    """Two results of which the second ran on another CPU with another kernel."""
    other = inspection("other", [1.0, 1.1, 1.2, 1.3])
    other["runs"] = [{**run, "hwinfo": {**hwinfo("node-2", model=17), "kernel": "6.1"}} for run in other["runs"]]
    return inspection("one", [1.0, 1.1, 1.2, 1.3]), other


def test_different_hardware_stands_out_and_nothing_is_compared():
    tree = draw(*different())
    marked = [(row.classes, row.find("th")[0].text) for row in tree.find("tr", "differs")]
    assert marked == [(["differs", "decides"], "≠ CPU model"), (["differs"], "≠ Kernel")]
    assert "Not compared: they ran on different hardware" in tree.find("p", "bad")[0].text
    assert figures(tree)["Hardware"] == ["differs", "CPU model"]


def test_facts_that_are_the_same_are_folded_with_who_does_not_know_them():
    unknown = inspection("unknown", [1.0])
    unknown["runs"][0]["hwinfo"] = None
    tree = draw(inspection("known", [1.0]), unknown)
    (folded,) = tree.find("details")
    assert "CPU limit" in folded.text
    assert "not known of unknown" in folded.text
    assert figures(tree)["Hardware"] == ["–", "not known of all"]
    assert "No fact differs." in tree.text


def test_packages_that_differ_are_listed_and_long_lists_folded():
    tree = draw(*two_stacks())
    assert [row.find("th")[0].text for row in tree.find("tr", "differs")] == ["≠ numpy (pip)", "≠ scipy (pip)"]
    captions = [item.text for item in tree.find("caption")]
    assert "Packages that differ (2)" in captions
    many = [
        inspection(name, [1.0], status={"build": {"packages": packages(**{f"p{n}": version for n in range(20)})}})
        for name, version in (("a", "1"), ("b", "2"))
    ]
    assert "Packages that differ (20)" in [item.text for item in draw(*many).find("summary")]
    assert "22 packages the same in all." in draw(many[0], many[0]).text


def test_one_inspection_is_shown_without_a_comparison():
    tree = draw(inspection("alone", [1.0, 1.1]))
    assert rows(tree, "numbers")[0][6:] == ["–", "–"]
    assert tree.find("p", "lede")[0].text == "1 inspection · 2 runs"
