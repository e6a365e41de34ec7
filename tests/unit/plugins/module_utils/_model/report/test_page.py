# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures of a gang timeline."""

from __future__ import annotations

from ansible_collections.muster.kube.plugins.module_utils._model.report.page import (
    Cause,
    GangRow,
    GangTimeline,
    Span,
    beginnings,
    longest_wait,
    middle,
)


def row(*phases_and_starts, name="g", **more):
    """A gang with these phases, each ending where the next begins."""
    starts = [start for _phase, start in phases_and_starts]
    spans = tuple(
        Span(phase, start, end) for (phase, start), end in zip(phases_and_starts, [*starts[1:], None], strict=True)
    )
    return GangRow(name, "default", "", phases_and_starts[-1][0] if spans else "queued", spans, **more)


RETRIED = row(
    ("queued", 0), ("dispatched", 10), ("undoing", 70), ("queued", 80), ("dispatching", 100), ("running", 105),
    ("complete", 200),
)  # fmt: skip


def test_waits_of_all_attempts_add_up():
    assert RETRIED.seconds_in("queued", 999) == 10 + 20


def test_a_phase_that_never_was_has_no_duration():
    assert RETRIED.seconds_in("evicting", 999) is None


def test_an_open_phase_lasts_to_the_end_of_what_is_known():
    assert row(("queued", 5)).seconds_in("queued", 65) == 60
    assert row(("queued", 5)).seconds_in("queued", 1) == 0


def test_started_is_the_last_attempt_and_ended_the_final_phase():
    assert (RETRIED.first, RETRIED.started, RETRIED.ended) == (0, 100, 200)
    assert beginnings(RETRIED.spans) == [10, 100]


def test_a_gang_that_is_not_over_has_no_end():
    assert row(("queued", 0), ("running", 1)).ended is None
    assert row(("queued", 0)).started is None
    assert row(("complete", 0), ("queued", 9)).ended is None


def test_causes_are_told_once():
    cause = Cause("full")
    spans = (Span("queued", 0, 1, cause=cause), Span("queued", 1, 2, cause=cause), Span("running", 2, None))
    assert GangRow("g", "", "", "running", spans).causes() == (cause,)


def test_bounds_include_the_time_of_reading():
    gangs = (row(("queued", 10), ("running", 20)),)
    assert GangTimeline("t", gangs).bounds == (10, 20)
    assert GangTimeline("t", gangs, as_of=50).bounds == (10, 50)
    assert GangTimeline("t", gangs, as_of=15).bounds == (10, 20)


def test_without_dates_there_are_no_bounds():
    assert GangTimeline("t", (GangRow("g", "", "", "queued", ()),), as_of=50).bounds is None
    assert GangTimeline("t", ()).bounds is None


def test_the_longest_wait_names_the_first_of_equals():
    gangs = (row(("queued", 0), ("running", 5), name="a"), row(("queued", 1), ("running", 9), name="b"))
    gangs += (row(("queued", 2), ("running", 10), name="c"), row(("running", 0), name="d"))
    found = longest_wait(GangTimeline("t", gangs), 99)
    assert found is not None
    assert (found[0], found[1].name) == (8, "b")
    assert longest_wait(GangTimeline("t", ()), 99) is None


def test_the_median_is_a_value_that_occurs():
    assert (middle([3, 1, 2]), middle([4, 1, 2, 3]), middle([])) == (2, 2, None)


def test_a_run_that_nobody_saw_lasted_at_most_from_its_start_to_its_end():
    unseen = row(("queued", 0), ("dispatched", 10), ("complete", 70))
    assert unseen.unseen_run == 60
    assert RETRIED.unseen_run is None
    assert row(("queued", 0), ("dispatched", 10)).unseen_run is None
    assert row(("queued", 0), ("failed", 10)).unseen_run is None
    assert row(("dispatched", 10), ("complete", 70)).unseen_run == 60
    seen_before = row(("running", 0), ("queued", 20), ("dispatched", 30), ("complete", 70))
    assert seen_before.unseen_run == 40
    assert row(("running", 0), ("complete", 20)).unseen_run is None
