# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a dispatcher notes of started gangs, and when it has to be written."""

from __future__ import annotations

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.record import record_of_spec
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._model.quota.charge import Charge
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, OpenGang, Owner
from ansible_collections.muster.kube.plugins.module_utils._model.quota.trees import QuotaTrees
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.accrual import accrue
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.book import (
    END_SECONDS,
    GangSight,
    MeterBook,
)
from ansible_collections.muster.kube.tests.support.quota_trees import CPU, queue, small_tree

TREES = QuotaTrees((small_tree(queue("x", nominal={"cpu": 4}), queue("y", nominal={"cpu": 4}, default=True)),))
X, Y = ("default", "x"), ("default", "y")
START = 1_800_000_000
EVERY = 300.0
OWNER = Owner("ann", "a")


def record(uid, *phases, leaf="x", attempt=1):
    """A gang that went through these phases, given with seconds after the start."""
    state = new_state(time_text(START), "w/e/1")
    charged = () if leaf is None else (Charge("default", leaf),)
    for phase, at in phases:
        state = advance(state, phase, time_text(START + at), "R", "", "w/e/1", charged=charged, attempt=attempt)
    metadata = {
        "name": uid,
        "namespace": "a",
        "uid": uid,
        "resourceVersion": "1",
        "annotations": {"muster.kube/user": "ann"},
    }
    return record_of_spec("configmap", {"kind": "ConfigMap", "metadata": metadata}, None, None, state=state)


class Holder:
    """A book whose writes succeed unless told otherwise."""

    def __init__(self, *meters):
        self.book = MeterBook()
        self.book.begin(meters)
        self.cpu = 1000
        self.trees = TREES

    def look(self, at, *records, alone=()):
        started = {item.uid: item for item in records if item.phase not in ("queued", "complete")}
        others = {item.uid: item for item in records if item.uid not in started}
        used = lambda _record: {"p": {"cpu": self.cpu}}  # noqa: E731
        self.book.look(self.trees, GangSight(started, others, alone, used), START + at)

    def write(self, at, *, fails=False, at_once=False):
        """The leaves that were written."""
        updates = self.book.due(START + at, EVERY, at_once=at_once)
        for update in updates:
            before = self.book.meters.get(update.leaf) or Meter(*update.leaf)
            after = accrue(before, update.sightings, update.now, update.left_alone)
            self.book.written(update, None if fails else after)
        return sorted(update.leaf for update in updates)

    def seconds(self, leaf=X):
        meter = self.book.meters.get(leaf) or Meter(*leaf)
        return sum(amounts[CPU] for amounts in meter.sums.values()) / 1000


def test_a_gang_is_written_when_an_interval_is_over_and_when_it_ends():
    holder = Holder()
    running = record("u", ("dispatching", 10), ("running", 20))
    holder.look(20, running)
    assert holder.write(309) == []
    assert holder.write(310) == [X]
    assert holder.seconds() == 300
    holder.look(400, running)
    assert holder.write(400) == []
    holder.look(410, record("u", ("dispatching", 10), ("running", 20), ("complete", 405)))
    assert holder.write(410) == [X]
    assert holder.seconds() == 395
    assert not holder.book.meters[X].open
    assert holder.write(10_000) == []


def test_ends_within_seconds_share_a_write():
    holder = Holder()
    holder.look(0, record("u", ("running", 0)), record("v", ("running", 0)))
    holder.look(5, record("v", ("running", 0)))
    assert holder.write(5) == [X]
    holder.look(6)
    assert holder.write(6) == []
    assert holder.write(5 + END_SECONDS) == [X]
    holder = Holder()
    holder.look(0, record("u", ("running", 0)), record("v", ("running", 0)))
    for at, left in ((5, [record("v", ("running", 0))]), (6, [])):
        holder.look(at, *left)
        assert holder.write(at, at_once=True) == [X]


def test_one_that_is_gone_ends_when_it_was_last_seen():
    holder = Holder()
    holder.look(0, record("u", ("running", 0)))
    holder.look(50, record("u", ("running", 0)))
    holder.look(60)
    holder.write(60)
    assert holder.seconds() == 50


def test_a_write_that_failed_is_repeated_later_with_all_there_is():
    holder = Holder()
    holder.look(0, record("u", ("running", 0)))
    holder.look(20, record("u", ("running", 0), ("complete", 15)))
    assert holder.write(20, fails=True) == [X]
    assert holder.write(70) == []
    assert holder.write(80) == [X]
    assert holder.seconds() == 15


def test_while_a_write_is_under_way_there_is_no_second_one():
    holder = Holder()
    holder.look(0, record("u", ("running", 0)))
    (update,) = holder.book.due(START + 300, EVERY)
    assert holder.book.due(START + 310, EVERY) == []
    # What ended meanwhile is not forgotten when the write has ended.
    holder.look(320, record("u", ("running", 0), ("complete", 318)))
    holder.book.written(update, accrue(Meter(*X), update.sightings, update.now))
    assert holder.write(330) == [X]
    assert holder.seconds() == 318
    # One that never came back is given up.
    holder.look(340, record("v", ("running", 340)))
    assert len(holder.book.due(START + 640, EVERY)) == 1
    assert len(holder.book.due(START + 700, EVERY)) == 1


@pytest.mark.parametrize(
    ("left", "seconds"),
    [
        ([], 0),
        ([record("u", ("running", 0), ("undoing", 100), ("queued", 130), attempt=2)], 30),
        ([record("u", ("running", 0), ("undoing", 9), ("queued", 10), attempt=2)], 0),
    ],
)
def test_what_others_left_open_is_closed_at_the_end_that_its_record_tells(left, seconds):
    holder = Holder(Meter(*X, START + 100, {"u": OpenGang(1, START + 100, OWNER, {CPU: 1000})}))
    holder.look(400, *left)
    assert holder.write(400) == [X]
    assert holder.seconds() == seconds
    assert not holder.book.meters[X].open


def test_what_others_left_open_and_still_runs_is_gone_on_with():
    holder = Holder(Meter(*X, START + 100, {"u": OpenGang(1, START + 100, OWNER, {CPU: 1000})}))
    holder.look(120, record("u", ("running", 0)))
    assert holder.write(399) == []
    assert holder.write(400) == [X]
    assert holder.seconds() == 300


def test_one_that_nobody_can_read_stays_open_and_is_not_counted():
    holder = Holder(Meter(*X, START + 100, {"u": OpenGang(1, START + 100, OWNER, {CPU: 1000})}))
    holder.look(120, record("v", ("running", 110)), alone={"u"})
    holder.write(500)
    assert set(holder.book.meters[X].open) == {"u", "v"}
    assert holder.seconds() == 390
    holder.look(510, record("u", ("running", 0)), record("v", ("running", 110)))
    holder.write(900)
    assert holder.seconds() == 790 + 800


def test_a_gang_from_before_the_tree_is_counted_from_now_and_where_it_belongs():
    holder = Holder()
    old = record("u", ("running", 0), leaf=None)
    holder.look(1000, old)
    assert holder.write(1300) == [Y]
    assert holder.seconds(Y) == 300
    # Started anew it is charged to a queue.
    moved = record("u", ("running", 0), leaf="x")
    holder.look(1400, moved)
    assert holder.write(1600) == [Y]
    holder.look(1610, moved)
    assert holder.write(1900) == [X]
    assert (holder.seconds(Y), holder.seconds(X)) == (600, 300)


def test_what_it_uses_is_looked_at_anew_for_each_interval():
    holder = Holder()
    running = record("u", ("running", 0))
    holder.look(0, running)
    holder.write(300)
    holder.cpu = 3000
    holder.look(400, running)
    holder.write(600)
    assert holder.seconds() == 300 + 900


def test_a_gang_that_had_no_queue_is_counted_from_when_it_gets_one():
    holder = Holder()
    holder.trees = QuotaTrees((small_tree(queue("z", nominal={"cpu": 1})),))
    running = record("u", ("running", 0), leaf=None)
    holder.look(0, running)
    assert holder.write(1000) == []
    holder.trees = TREES
    holder.look(1000, running)
    assert holder.write(1300) == [Y]
    assert holder.seconds(Y) == 300
    # A leaf that is gone is closed, and its gangs are counted where they belong then.
    holder.trees = QuotaTrees((small_tree(queue("x", nominal={"cpu": 1}, default=True)),))
    holder.look(1400, running)
    assert holder.write(1400) == [Y]
    assert holder.write(1700) == [X]
    assert (holder.seconds(Y), holder.seconds(X)) == (400, 300)
