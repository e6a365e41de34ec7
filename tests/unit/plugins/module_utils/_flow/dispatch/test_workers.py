# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calls side by side: quick ones are waited for, slow ones keep nobody, one group cannot take all threads."""

from __future__ import annotations

import itertools
import queue
import threading

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers import (
    MOST_SLOW_OF_GROUP,
    WIDTH,
    Task,
    Workers,
)

LIMITS = "ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.workers"

LONG = 30.0


def task(key, call):
    return Task(key, "team", call)


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


def test_an_error_is_raised_whatever_ends_well_after_it(gate):
    ended, failing = threading.Event(), threading.Event()
    workers = Workers(patience=0.01, on_late=ended.set)

    def fail():
        failing.wait(LONG)
        raise RuntimeError("broken")

    workers.run([Task("a", "g", fail), Task("b", "g", lambda: gate.wait(LONG))])
    failing.set()
    assert ended.wait(LONG)
    gate.set()
    assert workers.drain(LONG)
    with pytest.raises(RuntimeError, match="broken"):
        workers.run([])


def test_of_two_calls_of_one_key_the_first_is_made():
    done = []
    Workers(patience=LONG).run([Task("a", "g", lambda: done.append(1)), Task("a", "g", lambda: done.append(2))])
    assert done == [1]


def test_the_end_of_a_call_is_noticed_at_once():
    patient = threading.Thread(target=lambda: Workers(patience=3600.0).run([Task("a", "g", lambda: None)]), daemon=True)
    patient.start()
    patient.join(LONG)
    assert not patient.is_alive()


def test_a_call_is_slow_as_soon_as_it_has_taken_as_long_as_anybody_waits(gate):
    shown = iter([0.0, *[0.5] * 20])
    workers = Workers(patience=0.5, clock=lambda: next(shown, 100.0))
    workers.run([Task("slow", "a", gate.wait)])
    assert workers.busy == {"slow"}
    assert next(shown, None) == 0.5


def test_the_oldest_call_is_the_first_that_nobody_waits_for(gate, monkeypatch):
    """Its place is then free for others."""
    monkeypatch.setattr(f"{LIMITS}.WIDTH", 2)
    now = [0.0]
    workers = Workers(patience=1.0, clock=lambda: now[0])
    begun = threading.Event()

    def quick():
        now[0] = 0.75

    def second():
        begun.set()
        gate.wait(LONG)

    waits = []

    def wait(seconds):
        """Until the second call runs beside the first; then both have taken too long."""
        if begun.is_set():
            waits.append(seconds)
            now[0] = 2.0
        real_wait(0.01)

    real_wait = workers._changed.wait
    monkeypatch.setattr(workers._changed, "wait", wait)
    workers.run([Task("first", "a", lambda: gate.wait(LONG)), Task("q", "a", quick), Task("second", "a", second)])
    assert waits[0] == 0.25


def test_a_call_that_turns_slow_at_any_moment_makes_room_for_the_next(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.WIDTH", 1)
    moments = itertools.count()
    workers, done = Workers(patience=0.01, clock=lambda: 0.01 * next(moments)), []
    workers.run([Task("slow", "a", lambda: gate.wait(LONG)), Task("quick", "a", lambda: done.append(1))])
    assert done == [1]


def test_slow_calls_are_limited_in_all(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.MOST_SLOW", 3)
    begun = threading.Semaphore(0)
    workers = Workers(patience=0.01)
    workers.run([Task(f"slow-{name}", name, lambda: gate.wait(LONG)) for name in "abc"])
    workers.run([Task("held", "other", begun.release)])
    assert not begun.acquire(blocking=False)
    assert "held" in workers.busy
    gate.set()
    # Nobody has to ask: whoever ends makes room for those that wait.
    assert begun.acquire(timeout=LONG)


def test_calls_that_were_held_up_keep_their_order(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.WIDTH", 1)
    monkeypatch.setattr(f"{LIMITS}.MOST_SLOW_OF_GROUP", 1)
    done = queue.SimpleQueue()
    workers = Workers(patience=0.01)
    workers.run([Task("slow", "a", lambda: gate.wait(LONG))])
    workers.run([Task(f"held-{number}", "a", lambda number=number: done.put(number)) for number in range(5)])
    assert done.empty()
    gate.set()
    assert [done.get(timeout=LONG) for _number in range(5)] == [0, 1, 2, 3, 4]


def test_whoever_waits_for_everything_also_begins_what_was_held_up(gate, monkeypatch):
    """What is slow by now had not been so when the last call ended."""
    monkeypatch.setattr(f"{LIMITS}.WIDTH", 1)
    monkeypatch.setattr(f"{LIMITS}.MOST_SLOW", 3)
    now, ends, last = [0.0], threading.Semaphore(0), threading.Event()
    gates = [threading.Event(), threading.Event(), gate]
    workers = Workers(patience=0.01, on_late=ends.release, clock=lambda: now[0])

    def slow(number):
        now[0] += 1.0
        gates[number].wait(LONG)

    workers.run(tasks([lambda number=number: slow(number) for number in range(3)]))
    workers.run([Task("long", "d", lambda: last.wait(LONG)), Task("last", "e", last.set)])
    for number in range(2):
        gates[number].set()
        assert ends.acquire(timeout=LONG)
    now[0] += 1.0
    waiting = threading.Thread(target=workers.drain, args=(LONG,), daemon=True)
    waiting.start()
    assert last.wait(5.0)
    gate.set()
    waiting.join(LONG)
    assert workers.busy == frozenset()


def test_a_call_that_has_to_wait_for_its_place_is_waited_for(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.WIDTH", 1)
    workers, begun, done = Workers(patience=LONG), threading.Event(), []

    def first():
        begun.set()
        gate.wait(LONG)

    other = threading.Thread(target=workers.run, args=([Task("first", "a", first)],), daemon=True)
    other.start()
    assert begun.wait(LONG)
    real_wait = workers._changed.wait

    def wait(seconds):
        """Whoever waits for the second call lets the first one end."""
        gate.set()
        real_wait(seconds)

    monkeypatch.setattr(workers._changed, "wait", wait)
    workers.run([Task("second", "b", lambda: done.append(1))])
    assert done == [1]
    other.join(LONG)


def test_calls_in_the_background_keep_nobody_and_are_no_ones_business(gate):
    workers = Workers()
    workers.begin([task("event", gate.wait)])
    assert workers.busy == frozenset()
    done = []
    workers.run([task("start", lambda: done.append(1))])
    assert done == [1]
    gate.set()
    assert workers.drain(LONG)


def test_what_waits_for_its_turn_goes_before_the_background(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.WIDTH", 1)
    order = []
    workers = Workers(patience=LONG)
    workers.begin([task("first", gate.wait)])
    workers.begin([task("event", lambda: order.append("event"))])
    waiting = threading.Thread(target=workers.run, args=([task("start", lambda: order.append("start"))],))
    waiting.start()
    while "start" not in workers.busy:
        threading.Event().wait(0.01)
    gate.set()
    waiting.join(LONG)
    assert workers.drain(LONG)
    assert order == ["start", "event"]


def test_the_background_leaves_a_place_for_the_next_start(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.BACKGROUND_WIDTH", 2)
    begun = []
    workers = Workers()
    workers.begin([task(number, lambda: begun.append(1) or gate.wait()) for number in range(5)])
    workers.run([task("start", lambda: None)])
    assert len(begun) <= 2
    gate.set()
    assert workers.drain(LONG)
    assert len(begun) == 5


def test_the_surplus_of_the_background_is_dropped(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.MOST_BACKGROUND", 3)
    monkeypatch.setattr(f"{LIMITS}.BACKGROUND_WIDTH", 1)
    done = []
    workers = Workers()
    workers.begin([task("holds", gate.wait)])
    workers.begin([task(number, lambda: done.append(1)) for number in range(9)])
    gate.set()
    assert workers.drain(LONG)
    assert len(done) == 3


def test_slow_calls_in_the_background_hold_up_no_start_and_stay_there(gate, monkeypatch):
    monkeypatch.setattr(f"{LIMITS}.MOST_SLOW_OF_GROUP", 2)
    moments = [0.0]
    workers = Workers(clock=lambda: moments[0])
    workers.begin([task(number, gate.wait) for number in range(6)])
    moments[0] = 2.0
    done = []
    workers.run([task("start", lambda: done.append(1))])
    assert done == [1]
    assert workers.busy == frozenset()
    gate.set()
    assert workers.drain(LONG)


def test_threads_go_on_with_the_next_call_and_whoever_waits_is_woken_once(monkeypatch):
    workers = Workers(patience=LONG)
    threads, waits = [], []
    real_work, real_wait = workers._work, workers._changed.wait
    monkeypatch.setattr(workers, "_work", lambda task: threads.append(1) or real_work(task))
    monkeypatch.setattr(workers._changed, "wait", lambda seconds: waits.append(1) or real_wait(seconds))
    workers.run(tasks([lambda: None] * 100))
    assert len(threads) <= WIDTH
    assert len(waits) <= 1


def test_whoever_waits_beside_a_slow_call_is_woken_when_the_last_quick_one_ends(gate):
    workers = Workers(patience=0.01)
    workers.run([Task("slow", "a", lambda: gate.wait(LONG))])
    patient = Workers(patience=3600.0)
    patient._running, patient._awaited = workers._running, workers._awaited
    patient._running["slow"].since -= 7200.0
    done = []
    patient.run([Task("quick", "b", lambda: done.append(1))])
    assert done == [1]
