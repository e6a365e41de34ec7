# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section that shows who held which GPUs: from what elastic_job_info tells to charts, figures and tables."""

from __future__ import annotations

import copy
import itertools

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.drawing import draw_allocation
from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.entries import read_allocation
from ansible_collections.muster.kube.plugins.module_utils._flow.report.allocation.layout import (
    HEIGHT,
    MOST_JOBS,
    colors_of,
    lay_stack,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import time_axis
from ansible_collections.muster.kube.plugins.module_utils._flow.report.page import build_page
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import read_section
from ansible_collections.muster.kube.plugins.module_utils._model.report.allocation import Holding
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.report_cases import (
    GPU,
    START,
    TEMPLATE,
    TEMPLATES,
    gang,
    job,
    noted,
    parse_page,
    pod_of_others,
    resized,
    scene,
    started,
    step,
)

CREATED, BOUND = "2026-11-16T10:00:00Z", "2026-11-16T10:00:02Z"
TEXT = TEMPLATE.read_text(encoding="utf-8")


def read(*jobs, **more):
    return read_allocation({"type": "allocation", "title": None, "jobs": list(jobs), **more}, "s")


def drawn(data):
    return draw_allocation(read_allocation(data, "s"))


def figures(data):
    return {figure.name: (figure.value, figure.note) for figure in drawn(data)["figures"]}


def page(*sections):
    return build_page(TEXT, TEMPLATES, "Page", [read_section(data, "s") for data in sections])


def held(told):
    """What each job held, in seconds from the start."""
    return {
        row.name: [(item.start - START, item.end - START, item.gpus) for item in row.held] for row in read(*told).jobs
    }


def test_the_scene_is_told_as_it_was():
    told = read_allocation(scene(), "s")
    assert [row.name for row in told.jobs] == ["tune-a", "tune-b", "tune-c", "newcomer"]
    amounts = [(item.start - START, item.total, item.others) for item in told.stretches(GPU)]
    assert amounts[:4] == [(0, 0, 0), (1, 10, 0), (40, 6, 0), (45, 3, 0)]
    assert amounts[-1] == (85, 10, 2)
    rows = [(row.begun.size, row.begun.to, row.seconds, row.outcome) for one in told.jobs for row in one.resizes]
    assert rows == [(3, 4, 6, "verified"), (4, 2, 6, "verified"), (3, 4, 6, "verified")]
    assert figures(scene()) == {
        "Jobs": ("4", "3 running"),
        "Resizes": ("3", "2 larger, 1 smaller"),
        "Held at the end": ("10", f"of 10 {GPU}"),
        "Held over time": ("93 %", "of what there is"),
        "A resize took": ("6 s", "at most 6 s"),
        "Work lost": ("0 s", "by resizes"),
    }


def test_the_tables_tell_what_the_charts_show():
    tree = parse_page(page(scene()))
    tables = {(table.attributes["class"] or "").split()[0]: table for table in tree.find("table")}
    rows = [[cell.text for cell in row.children] for row in tables["waits"].find("tr")]
    assert rows[2] == [
        *("tune-b", "running", "2–4", "2", "2", "2", "0 s", "step 340 of 900, 38 %"),
        "3: 3.1 steps/s4: 4.05 steps/s",
    ]
    assert rows[1][-2:] == ["unknown", "unknown"]
    assert len(tables["resizes"].find("tr")) == 4
    last = [cell.text for cell in tables["stretches"].find("tr")[-1].children]
    assert last[1:] == ["10", "0", "default/tune-b 2, default/tune-c 4, default/newcomer 2, pods of others 2"]
    chart = tree.find("div", "chart")[0]
    assert chart.attributes["role"] == "img"
    assert "see the tables below" in (chart.attributes["aria-label"] or "")


def test_marks_and_steps_are_drawn_and_said():
    tree = parse_page(page(scene()))
    marks = [mark.text for mark in tree.find("svg", "mark") if "bar" in mark.classes]
    assert sum("checkpoint at step" in words for words in marks) == 6
    assert sum("from 3 to 4, there is room for it" in words for words in marks) == 2
    assert sum(words.startswith("default/tune-a: complete") for words in marks) == 1
    assert len(tree.find("path", "sign-shrink")) == 2
    steps = [bar.text for bar in tree.find("g", "block") if bar.text.startswith("default/tune-b: ")]
    assert any(words.startswith(f"default/tune-b: 3 {GPU}") for words in steps)


def test_blocks_lie_one_upon_the_other_below_what_there_is():
    told = read_allocation(scene(), "s")
    axis = time_axis(told.first, told.until)
    stack = lay_stack(told, GPU, axis, colors_of(told))
    for moment in range(1, 110, 3):
        place = axis.place(START + moment + 0.5)
        here = sorted((item.top, item.height) for item in stack.blocks if item.left <= place < item.left + item.width)
        assert here[-1][0] + here[-1][1] == pytest.approx(HEIGHT)
        assert here[0][0] == pytest.approx(stack.line)
        for (top, height), (below, _height) in itertools.pairwise(here):
            assert top + height == pytest.approx(below)
    # A block that goes on beside others that change is one block.
    assert sum(item.text == "tune-b" for item in stack.blocks) == 3


def test_what_a_record_did_not_note_is_unknown():
    timeline = [
        step("queued", 0),
        step("dispatching", 5),
        step("running", 8),
        step("rescaling", 20),
        step("running", 22),
    ]
    old = job("old", timeline, [noted(30, 4)], phase="running")
    assert held([old]) == {"old": [(5, 30, None)]}
    data = {**scene(), "jobs": [old], "as_of": None}
    assert figures(data)["Held over time"] == ("–", "of what there is")
    built = page(data)
    assert "nobody noted how much default/old held" in built
    assert [line.idle for _name, lines in drawn(data)["lines"] for line in lines] == ["10", "unknown"]


def test_sizes_are_known_for_longer_than_transitions():
    _timeline, sizes = started(1, 3)
    kept = [step("dispatched", 2), step("running", 3), step("resizing", 40), step("queued", 43)]
    told = job("j", kept, [*sizes, *resized(40, 3, 4, "x")[1][:2]])
    assert held([told]) == {"j": [(1, 43, 3)]}


def test_an_end_that_was_not_noted_is_one_all_the_same():
    old = job("old", [step("dispatching", 5), step("complete", 9)], [noted(5, 4)])
    assert held([old]) == {"old": [(5, 9, 4)]}


def test_a_version_that_notes_nothing_leaves_a_gap_of_unknown_size():
    timeline, sizes = started(1, 3)
    more, later = resized(40, 2, 4, "x")
    timeline = [
        *timeline,
        step("resizing", 10),
        step("queued", 12),
        step("dispatching", 14),
        step("running", 16),
        *more,
    ]
    told = held([job("j", timeline, [*sizes, *later])])
    assert told == {"j": [(1, 12, 3), (14, 40, None), (40, 43, 2), (44, 46, 4)]}


def test_a_gang_of_fixed_size_holds_what_its_podsets_ask_for():
    spec = {"podsets": [{"name": "w", "count": 2, "requests": {GPU: "2", "cpu": "1"}}], "elastic": None}
    fixed = gang("fixed", step("queued", 0), step("dispatching", 1), step("running", 2), step("failed", 9), spec=spec)
    told = read(fixed)
    assert told.jobs[0].held == (Holding(START + 1, START + 9, None, 4),)
    assert told.resources == [GPU]
    assert "fixed" in page({**scene(), "jobs": [fixed]})


def test_gang_info_tells_the_range_elsewhere():
    timeline, sizes = started(1, 3)
    elastic = {"sizes": [2, 4, 8], "resource": GPU, "podset": "x", "axis": "pods", "size": None}
    told = read({**gang("g", *timeline), "sizes": sizes, "allotment": 3, "spec": {"elastic": elastic}})
    assert (told.jobs[0].sizes, told.jobs[0].size, told.jobs[0].restarts) == ((2, 4, 8), 3, None)
    assert "2, 4, 8" in page({**scene(), "jobs": [{**gang("g", *timeline), "spec": {"elastic": elastic}}]})


def test_only_pods_that_hold_gpus_and_belong_to_none_of_the_jobs_are_others():
    one = job("one", *started(1, 4))
    pods = [
        pod_of_others("there", 2, 5),
        {**pod_of_others("over", 2, 5), "status": {"phase": "Succeeded"}},
        {**pod_of_others("waits", 2, 5), "spec": {"containers": []}},
        pod_of_others("later", 2, 500),
        pod_of_others("ours", 2, 5),
        pod_of_others("empty", 0, 5),
    ]
    pods[4]["metadata"]["labels"] = {"muster.kube/gang": "uid-one"}
    bound = pod_of_others("bound", 1, 0)
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BOUND}
    bound["status"]["conditions"] = [condition]
    told = read(one, pods=[*pods, bound], as_of=START + 60)
    assert [(pod.name, pod.start - START, pod.gpus) for pod in told.others] == [
        ("other/there", 5, 2),
        ("other/bound", 2, 1),
    ]


def test_a_plan_that_waits_and_work_that_was_lost_are_told():
    timeline, sizes = started(1, 4)
    planned = job("p", timeline, sizes, resize={"from": 4, "to": 2, "why": "x", "since": "y", "step": "planned"})
    lost = [*sizes, noted(9, 4, was=4, to=2, why="x", lost_seconds=75.0), noted(12, 2, running=True)]
    loser = job("l", timeline, lost)
    told = read(planned, loser)
    assert [row.plan for row in told.jobs] == ["", "4 → 2 planned"]
    assert [row.lost_seconds for row in told.jobs] == [75.0, 0]
    missed = {"from": 4, "to": 2, "why": "x", "since": "y", "step": "missed"}
    assert read(job("m", timeline, sizes, resize=missed)).jobs[0].plan == "4 → 2 missed: no checkpoint came"


def test_of_lost_work_nothing_is_known_where_no_trainer_told():
    timeline, sizes = started(1, 4)
    told = read(job("l", timeline, [*sizes, noted(9, 4, was=4, to=2, why="x"), noted(12, 2, running=True)]))
    assert told.jobs[0].lost_seconds is None
    assert figures({**scene(), "jobs": [job("l", timeline, [noted(9, 4, was=4, to=2, why="x")])]})["Work lost"] == (
        "–",
        "unknown of 1 job",
    )


def test_of_very_many_jobs_those_that_held_most_have_colors():
    jobs = [job(f"j{number:02}", *started(number, 2 + number % 3)) for number in range(40)]
    told = read(*jobs, as_of=START + 100)
    colors = colors_of(told)
    assert sum(color != "rest" for color in colors.values()) == MOST_JOBS - 1
    assert "29 more jobs" in page({**scene(), "jobs": jobs})


@pytest.mark.parametrize("data", [{}, {"jobs": []}, {"jobs": [{"name": "x"}]}, {"jobs": [job("x", [], [])]}])
def test_nothing_known_is_nothing_drawn(data):
    built = page({"type": "allocation", "title": None, **data})
    assert parse_page(built).find("svg", "track") == []
    assert ("No jobs." in built) == (not data.get("jobs"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": None}, r"s\.jobs\[0\]: name: it is missing"),
        ({"sizes": 7}, "sizes: a list is needed"),
        ({"sizes": [{"at": "soon", "size": 3}]}, r"sizes\[0\]: at: a time"),
        ({"sizes": [{"size": 3}]}, r"sizes\[0\]: at: it is missing"),
        ({"sizes": [{"at": START, "size": -3}]}, r"sizes\[0\]: size"),
        ({"sizes": [{"at": START, "size": 3, "gpus": "4"}]}, r"sizes\[0\]: gpus"),
        ({"sizes": [{"at": START, "size": 3, "resize": {"from": 1}}]}, r"sizes\[0\]\.resize: to"),
        ({"timeline": [{"phase": "dancing", "at": START}]}, r"timeline\[0\]: phase"),
        ({"range": []}, "a mapping is needed"),
        ({"range": {"sizes": ["2"], "resource": GPU}}, "sizes: whole numbers"),
        ({"allotment": "many"}, "allotment"),
        ({"restarts": -1}, "restarts"),
        ({"resize": "no"}, "resize: a mapping"),
        ({"progress": []}, "progress: a mapping"),
        ({"progress": {"step": 1.5}}, "progress: step"),
        ({"progress": {"speeds": {"many": 3}}}, "speeds.many"),
        ({"progress": {"checkpoints": [{"step": 3}]}}, r"checkpoints\[0\]: time"),
    ],
)
def test_wrong_data_are_named(change, words):
    timeline, sizes = started(1, 3)
    with pytest.raises(BadInput, match=words):
        read({**job("x", timeline, sizes), **change})


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (7, r"pods\[0\]"),
        ({"metadata": {}, "spec": {"nodeName": "n"}}, r"pods\[0\]\.metadata: creationTimestamp"),
        (
            {"metadata": {"creationTimestamp": "2026-11-16T10:00:00Z"}, "spec": {"nodeName": "n", "containers": 7}},
            "spec",
        ),
        ({"metadata": [], "spec": {}}, "metadata: a mapping"),
    ],
)
def test_wrong_pods_are_named(pod, words):
    with pytest.raises(BadInput, match=words):
        read(job("x", *started(1, 3)), pods=[pod])


def test_equal_data_make_an_equal_page_whatever_their_order():
    one, other = scene(), scene()
    other["jobs"] = copy.deepcopy(list(reversed(other["jobs"])))
    assert page(one) == page(other)
