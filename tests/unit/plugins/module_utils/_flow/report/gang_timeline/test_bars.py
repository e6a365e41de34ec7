# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where bars lie and what is written into them."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.axis import time_axis
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.bars import (
    THINNEST,
    cause_texts,
    lay_bars,
)
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import Cause, GangRow, Span


def row(*spans):
    """A gang with these spans."""
    return GangRow("g", "default", "", spans[-1].phase, spans)


def test_bars_start_and_end_where_their_phases_do():
    axis = time_axis(0, 100)
    gang = row(Span("queued", 0, 40), Span("running", 40, 100))
    running, queued = lay_bars(gang, axis, 100)
    assert (running.span.phase, queued.span.phase) == ("running", "queued")
    assert (queued.left, queued.left + queued.width) == pytest.approx((axis.place(0), axis.place(40)))
    assert (running.left, running.left + running.width) == pytest.approx((axis.place(40), axis.place(100)))


def test_the_same_moment_has_the_same_place_in_all_rows():
    axis = time_axis(0, 1000)
    one = lay_bars(row(Span("queued", 500, 700)), axis, 1000)[0]
    other = lay_bars(row(Span("running", 500, 501)), axis, 1000)[0]
    assert one.left == other.left


def test_short_phases_are_widened_and_drawn_last():
    axis = time_axis(0, 10_000)
    bars = lay_bars(row(Span("dispatching", 10, 11), Span("dispatched", 11, 5_000)), axis, 10_000)
    assert [item.span.phase for item in bars] == ["dispatched", "dispatching"]
    assert bars[1].width == THINNEST


def test_an_open_phase_reaches_to_the_last_moment_and_says_so():
    axis = time_axis(0, 100)
    (item,) = lay_bars(row(Span("running", 50, None)), axis, 80)
    assert item.open
    assert item.left + item.width == pytest.approx(axis.place(80))


def test_the_end_of_a_gang_is_a_mark():
    axis = time_axis(0, 100)
    bars = lay_bars(row(Span("running", 0, 50), Span("failed", 50, None)), axis, 100)
    assert (bars[-1].span.phase, bars[-1].width, bars[-1].open) == ("failed", 0, False)


@hypothesis.given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_bars_never_leave_the_axis_and_none_is_lost(moments):
    starts = sorted(moments)
    spans = [Span("queued", start, end) for start, end in zip(starts, [*starts[1:], None], strict=True)]
    bars = lay_bars(row(*spans), time_axis(starts[0], starts[-1]), starts[-1])
    assert len(bars) == len(spans)
    assert all(item.left >= 0 and item.width >= THINNEST and item.left + item.width <= 100 + 1e-9 for item in bars)


def test_a_wait_says_what_for_in_as_many_words_as_fit():
    cause = Cause("not enough free resources", ("2 nvidia.com/gpu", "96Gi memory"))
    texts = []
    for end in (1000, 200, 20):
        axis = time_axis(0, 1000)
        (item,) = lay_bars(row(Span("queued", 0, end, cause=cause)), axis, 1000)
        texts.append(item.text)
    assert texts == ["2 nvidia.com/gpu, 96Gi memory", "2 nvidia.com/gpu +1", ""]


def test_a_cause_without_amounts_is_its_reason_and_a_run_its_duration():
    assert cause_texts(Cause("a claim is missing")) == ["a claim is missing"]
    assert cause_texts(Cause("x", ("1 cpu",))) == ["1 cpu", "1 cpu"]
    (item,) = lay_bars(row(Span("running", 0, 90)), time_axis(0, 90), 90)
    assert item.text == "1 min 30 s"
