# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The section that shows quota trees: from what quota_info tells to bars, figures and tables."""

from __future__ import annotations

import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.account import fairness_data, queues_data
from ansible_collections.muster.kube.plugins.module_utils._flow.report.quota_tree.drawing import (
    AXIS,
    MOST,
    draw_quota_tree,
    lay_queue,
)
from ansible_collections.muster.kube.plugins.module_utils._flow.report.quota_tree.entries import read_quota_tree
from ansible_collections.muster.kube.plugins.module_utils._flow.report.write import write_report
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import ReportOptions
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.charges import ChargedTree, LeafCounts
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage
from ansible_collections.muster.kube.tests.support.quota_trees import GPU, gpus, queue, small_tree
from ansible_collections.muster.kube.tests.support.report_cases import SECTION_TEMPLATES, TEMPLATE, parse_page

TEXT = TEMPLATE.read_text(encoding="utf-8")


def told(usage, **more):
    """A tree as quota_info tells it."""
    counts = {leaf.name: LeafCounts(usage.used(leaf.name, GPU), 2) for leaf in usage.tree.leaves}
    charged = ChargedTree(usage, counts, ())
    return {
        "name": usage.tree.name,
        "as_of": "2026-11-18T12:00:00Z",
        "queues": queues_data(usage.tree, charged),
        "fairness": fairness_data(charged),
        **more,
    }


@pytest.fixture
def usage():
    """Red uses six of its four GPUs, blue none of its four."""
    tree = small_tree(
        queue("red", nominal={"nvidia.com/gpu": 4}),
        queue("blue", nominal={"nvidia.com/gpu": 4}, stop="hold"),
        queue("guest", nominal={"cpu": 2}),
    )
    used = TreeUsage(tree)
    used.charge("red", gpus(6))
    return used


def section(*trees, **more):
    return read_quota_tree({"type": "quota_tree", "trees": list(trees), **more}, "s")


def bars(usage, name):
    rows = section(told(usage)).trees[0].queues
    return lay_queue(next(row for row in rows if row.name == name))


def test_a_queue_that_borrows_has_a_bar_beyond_its_own(usage):
    row = bars(usage, "red")
    (bar,) = row.bars
    assert (bar.own, bar.used, bar.borrowed_from) == (AXIS.place(100), AXIS.place(100), AXIS.place(100))
    assert bar.borrowed == pytest.approx(AXIS.place(150) - AXIS.place(100))
    assert (bar.words, bar.cut) == ("6 of 4 nvidia.com/gpu, 2 borrowed", False)
    assert row.context == "6 started · 2 waiting"


def test_what_is_lent_is_marked_at_the_end_of_its_own(usage):
    row = bars(usage, "blue")
    (bar,) = row.bars
    assert (bar.lent_from, bar.used) == (AXIS.place(50), 0.0)
    assert bar.lent == pytest.approx(AXIS.place(100) - AXIS.place(50))
    assert "lent: 2" in bar.hover.splitlines()
    assert row.context.startswith("stop: hold · ")


def test_a_bar_that_is_longer_than_the_chart_is_cut_and_says_so(usage):
    usage.charge("red", gpus(2))
    usage.charge("guest", gpus(5))
    assert bars(usage, "red").bars[0].cut
    guest = {bar.words.split()[-1] if "borrowed" not in bar.words else "gpu": bar for bar in bars(usage, "guest").bars}
    assert guest["gpu"].own == 0.0
    assert guest["gpu"].borrowed == pytest.approx(AXIS.place(MOST))


def test_figures_tell_who_borrows_who_starves_and_how_even_it_is(usage):
    pair = {
        **{"starved": "root/blue", "resource": "nvidia.com/gpu", "short": "2", "waiting": 1},
        **{"borrower": "root/red", "borrowed": "2"},
    }
    drawn = draw_quota_tree(section(told(usage, pairs=[pair])))
    figures = {figure.name: (figure.value, figure.bad) for figure in drawn["figures"]}
    assert figures["Borrowing"] == ("1", False)
    assert figures["Starved"] == ("1", True)
    assert figures["Jain's index"] == ("0.50", False)
    ((_tree, rows, tables),) = drawn["trees"]
    assert [row.queue.name for row in rows] == ["root", "blue", "guest", "red"]
    assert next(table.caption for table in tables) == "Who lacks what others borrowed"


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({}, "trees.0.: name"),
        ({"name": "x", "queues": [{}]}, "queues.0.: name"),
        ({"name": "x", "queues": [{"name": "q", "resources": [{"resource": "cpu", "used": "many"}]}]}, "a quantity"),
        ({"name": "x", "fairness": {"cpu": "even"}}, "fairness.cpu"),
    ],
)
def test_wrong_data_are_named(tree, words):
    with pytest.raises(BadInput, match=words):
        section(tree)


def test_a_tree_of_which_nothing_is_known_is_shown_with_its_problem(tmp_path):
    page = written(tmp_path, {"name": "<b>x</b>", "problem": "quota_unreadable", "detail": "it is <i>no</i> JSON"})
    assert "it is &lt;i&gt;no&lt;/i&gt; JSON" in page
    assert "<i>no</i>" not in page


def written(tmp_path, *trees):
    """The page of a section."""
    dest = tmp_path / "page.html"
    data = {"type": "quota_tree", "title": None, "trees": list(trees)}
    write_report(ReportOptions(dest, "Quota", (data,), TEXT, SECTION_TEMPLATES, False))
    return dest.read_text(encoding="utf-8")


def test_a_hundred_queues_have_a_row_each_and_need_no_script(tmp_path):
    chance = random.Random(1)
    teams = [queue(f"team{number}") for number in range(10)]
    leaves = [
        queue(
            f"team{number % 10}-project{number}",
            f"team{number % 10}",
            nominal={"nvidia.com/gpu": chance.randint(0, 8), "cpu": chance.randint(0, 64), "memory": "256Gi"},
        )
        for number in range(90)
    ]
    usage = TreeUsage(small_tree(*teams, *leaves))
    for leaf in usage.tree.leaves:
        usage.charge(leaf.name, gpus(chance.randint(0, 10)))
    page = written(tmp_path, told(usage))
    rows = [row for row in parse_page(page).find("div") if "quota-row" in (row.attributes.get("class") or "")]
    assert len(rows) == 101
    text = page.partition('class="section')[2]
    assert "<script" not in text.partition("</section>")[0]
