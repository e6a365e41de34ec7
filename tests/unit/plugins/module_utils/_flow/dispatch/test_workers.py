# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls side by side: quick ones are waited for, slow ones keep nobody, one group cannot take all threads."""

from __future__ import annotations

import threading

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import (
    MOST_SLOW_OF_GROUP,
    WIDTH,
    Task,
    Workers,
)

LONG = 30.0


def tasks(calls, group="team"):
    return [Task(f"{group}-{number}", group, call) for number, call in enumerate(calls)]


@pytest.fixture
def gate():
    """What slow calls wait for; opened at the end, so that their threads end."""
    made = threading.Event()
    yield made
    made.set()


def test_quick_calls_are_all_waited_for():
    done = []
    workers = Workers(patience=LONG)
    workers.run(tasks([lambda number=number: done.append(number) for number in range(100)]))
    assert sorted(done) == list(range(100))
    assert workers.busy == frozenset()


def test_no_more_than_so_many_at_once():
    together = threading.Barrier(WIDTH, timeout=LONG)
    under_way, most = [], []

    def call():
        under_way.append(1)
        most.append(len(under_way))
        together.wait()
        under_way.pop()

    Workers(patience=LONG).run(tasks([call] * (2 * WIDTH)))
    assert max(most) == WIDTH


def test_a_slow_call_keeps_nobody_and_its_key_stays_busy(gate):
    done = []
    late = threading.Event()
    workers = Workers(patience=0.01, on_late=late.set)
    workers.run([Task("slow", "a", gate.wait)])
    assert workers.busy == {"slow"}
    # As many as are quick at once: the slow one does not count among them.
    together = threading.Barrier(WIDTH, timeout=LONG)
    patient = Workers(patience=LONG)
    patient.run(tasks([together.wait] * WIDTH))
    workers.run([Task("slow", "a", lambda: done.append("twice")), Task("other", "a", lambda: done.append("other"))])
    assert done == ["other"]
    assert not late.is_set()
    gate.set()
    assert late.wait(LONG)
    assert workers.drain(LONG)
    assert workers.busy == frozenset()


def test_one_group_of_slow_calls_leaves_threads_for_others_and_goes_on_when_they_end(gate):
    begun, others = [], threading.Semaphore(0)

    def slow():
        begun.append(1)
        gate.wait(LONG)

    workers = Workers(patience=0.01)
    workers.run(tasks([slow] * (3 * MOST_SLOW_OF_GROUP), group="hostile"))
    assert len(begun) == MOST_SLOW_OF_GROUP
    assert len(workers.busy) == 3 * MOST_SLOW_OF_GROUP
    workers.run(tasks([others.release] * 20, group="other"))
    assert all(others.acquire(timeout=LONG) for _number in range(20))
    assert len(begun) == MOST_SLOW_OF_GROUP
    gate.set()
    assert workers.drain(LONG)
    assert len(begun) == 3 * MOST_SLOW_OF_GROUP


def test_what_is_not_over_in_time_is_said(gate):
    workers = Workers(patience=0.01)
    workers.run([Task("slow", "a", gate.wait)])
    assert workers.drain(0.05) is False


def test_an_error_that_a_call_did_not_expect_is_raised_once():
    workers = Workers(patience=LONG)

    def fail():
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        workers.run([Task("a", "g", fail)])
    workers.run([Task("a", "g", lambda: None)])
