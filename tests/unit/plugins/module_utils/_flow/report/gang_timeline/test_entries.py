# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From results of gang_info and dispatch to rows."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.report.gang_timeline.entries import read_timeline
from ansible_collections.muster.kube.plugins.module_utils._model.report.page import Cause
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import BadInput
from ansible_collections.muster.kube.tests.support.report_cases import (
    START,
    gang,
    section,
    step,
    two_gangs,
    waiting_verdict,
)


def rows(*entries, **more):
    """The rows these entries make."""
    return read_timeline(section(list(entries), **more), "sections[0]").gangs


def decision(name, after, phase, action="wait", **more):
    """A decision as dispatch returns it."""
    base = {"gang": name, "uid": "u", "action": action, "reason": "", "message": "", "attempt": 1, "phase": phase}
    return {**base, "at": START + after, "verdict": None, **more}


def test_gangs_of_gang_info():
    first, second = rows(*two_gangs())
    assert [(span.phase, span.start - START, span.end) for span in first.spans][-2:] == [
        ("running", 4, START + 31),
        ("complete", 31, None),
    ]
    assert (first.starts, first.pods, second.pods) == (1, (("succeeded", 2),), (("running", 2),))
    assert second.causes() == (
        Cause("not enough free resources", ("1050m cpu", "2.8Gi memory"), "second: waits: not enough free resources"),
    )
    assert first.causes() == ()


def test_rows_are_in_the_order_of_arrival_whatever_the_order_given():
    entries = [
        gang("late", step("queued", 9)),
        gang("undated"),
        gang("b", step("queued", 1)),
        gang("a", step("queued", 1)),
    ]
    assert [row.name for row in rows(*entries)] == ["a", "b", "late", "undated"]
    assert rows(*entries) == rows(*reversed(entries))


def test_a_wait_after_a_lost_start_says_so():
    (row,) = rows(
        gang(
            "g",
            step("queued", 0, "Submitted"),
            step("dispatched", 5),
            step("undoing", 65, "LostRace"),
            step("queued", 70, "LostRace", "room was taken"),
            attempt=2,
        )
    )
    assert row.causes() == (Cause("lost race: room was taken"),)
    assert row.starts == 1


def test_attempts_that_were_forgotten_still_count():
    assert rows(gang("g", step("running", 0), attempt=7))[0].starts == 7
    assert rows(gang("g", step("queued", 0), attempt=7))[0].starts == 6
    assert rows(gang("g", step("queued", 0), attempt=0))[0].starts == 0


def test_the_wait_before_the_first_transition_counts_from_submission():
    assert [(span.phase, span.start) for span in rows(gang("g", submitted=START))[0].spans] == [("queued", START)]
    (row,) = rows(gang("g", step("queued", 5), step("running", 9), submitted=START))
    assert [(span.phase, span.start - START) for span in row.spans] == [("queued", 0), ("running", 9)]
    (row,) = rows(gang("g", step("running", 9), submitted=START))
    assert [(span.phase, span.start - START) for span in row.spans] == [("queued", 0), ("running", 9)]


def test_what_may_have_been_forgotten_is_not_made_up():
    many = [step(("running", "undoing")[index % 2], 100 + index) for index in range(20)]
    assert rows(gang("g", *many, submitted=START))[0].spans[0].start == START + 100


def test_a_clock_that_went_back_gives_no_negative_time():
    (row,) = rows(gang("g", step("queued", 10), step("dispatched", 4), step("running", 20)))
    assert [(span.start - START, span.end) for span in row.spans] == [
        (10, START + 10),
        (10, START + 20),
        (20, None),
    ]


def test_a_finished_gang_of_gang_info_alone_says_what_it_waited_for():
    told = {"answer": "waits", "reason": "insufficient"}
    told["layers"] = [{"layer": "slots", "totals": {"nvidia.com/gpu": {"short": "4"}}}]
    waited = {**step("queued", 0, "Submitted"), "waited_for": told}
    (row,) = rows(gang("b", waited, step("running", 14), step("complete", 20), verdict=None))
    assert row.causes() == (Cause("not enough free resources", ("4 nvidia.com/gpu",)),)


def test_decisions_tell_what_each_wait_was_for():
    timeline = [step("queued", 0, "Submitted"), step("running", 50), step("queued", 100), step("running", 150)]
    (row,) = rows(
        gang("g", *timeline),
        decision("default/g", 20, "queued", verdict=waiting_verdict(cpu="2")),
        decision("default/g", 40, "queued", verdict=waiting_verdict(cpu="1")),
        decision("default/g", 120, "queued", verdict=waiting_verdict(pods="3")),
    )
    assert [cause.short for cause in row.causes()] == [("1 cpu",), ("3 pods",)]
    assert len(row.spans) == 4


def test_decisions_alone_make_a_timeline():
    (row,) = rows(
        decision("team/g", 30, "dispatched", "start", queue="q"),
        decision("team/g", 0, "queued", verdict=waiting_verdict(cpu="2"), message="short of cpu"),
        decision("team/g", 10, "queued", verdict=waiting_verdict(cpu="1"), message="still short"),
        decision("team/g", 40, "running", "running", attempt=2),
    )
    assert (row.namespace, row.name, row.queue, row.phase, row.starts) == ("team", "g", "q", "running", 2)
    assert [(span.phase, span.start - START) for span in row.spans] == [
        ("queued", 0),
        ("dispatched", 30),
        ("running", 40),
    ]
    assert row.causes() == (Cause("not enough free resources", ("1 cpu",), "still short"),)


def test_a_decision_without_a_phase_is_only_a_remark():
    (row,) = rows({"name": "g", "at": START, "action": "refuse"})
    assert (row.spans, row.phase) == ((), "unknown")


@pytest.mark.parametrize(
    "at",
    ["2026-11-16T10:00:00Z", "2026-11-16 10:00:00+00:00", "2026-11-16T11:00:00+01:00", START, float(START), str(START)],
)
def test_moments_in_all_their_forms(at):
    section_read = read_timeline(section([], as_of=at), "sections[0]")
    assert section_read.as_of == START


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"phase": "queued"}, "Cannot read sections[0].gangs[0]: name: it is missing"),
        ({"name": {"a": 1}}, "sections[0].gangs[0]: name: a text is needed, this is a dict"),
        ({"name": "g", "phase": "asleep"}, "sections[0].gangs[0]: phase: 'asleep' is none of queued"),
        ({"name": "g", "timeline": {}}, "sections[0].gangs[0]: timeline: a list is needed"),
        ({"name": "g", "timeline": ["x"]}, "sections[0].gangs[0].timeline[0]: a mapping is needed"),
        ({"name": "g", "timeline": [{"phase": "queued"}]}, "timeline[0]: at: it is missing"),
        ({"name": "g", "timeline": [{"at": START}]}, "timeline[0]: phase: it is missing"),
        ({"name": "g", "timeline": [{"phase": "queued", "at": "yesterday"}]}, "is needed, not 'yesterday'"),
        ({"name": "g", "submitted": True}, "submitted: a time such as 2026-01-31T12:00:00Z is needed, not True"),
        ({"name": "g", "submitted": -1}, "submitted: a time such as"),
        ({"name": "g", "submitted": float("nan")}, "submitted: a time such as"),
        ({"name": "g", "submitted": 1e300}, "submitted: a time such as"),
        ({"name": "g", "attempt": "two"}, "attempt: a whole number"),
    ],
)
def test_wrong_entries_are_named(entry, message):
    with pytest.raises(BadInput) as error:
        rows(entry)
    assert message in str(error.value)


def test_the_time_of_reading_is_known_from_how_long_the_last_phase_lasts():
    running = gang("g", step("queued", 0), {**step("running", 60), "seconds": 30.7})
    over = gang("h", step("queued", 0), {**step("complete", 9), "seconds": None})
    assert read_timeline(section([running, over]), "s").as_of == START + 90
    assert read_timeline(section([running], as_of=START + 500), "s").as_of == START + 500
    assert read_timeline(section([over]), "s").as_of is None
    with pytest.raises(BadInput, match=r"timeline\[0\]: seconds: a number that is not negative is needed"):
        rows(gang("g", {**step("running", 0), "seconds": "long"}))


def test_pods_of_unknown_shape_are_not_shown():
    assert rows(gang("g", pods="many"))[0].pods == ()
    assert rows(gang("g", pods=["x", {}, {"phase": "Running"}]))[0].pods == (("running", 1), ("unknown", 1))
