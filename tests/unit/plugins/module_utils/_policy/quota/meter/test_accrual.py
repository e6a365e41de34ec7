# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Counting usage: each second once, whoever counts, however often and whatever is lost."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
import random

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import advance, new_state
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import Meter, MeterRow, OpenGang, Owner
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import time_text
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.meter.accrual import (
    Sighting,
    accrue,
    began_at,
    left_at,
    metered_amounts,
    period_of,
    seconds_by_month,
)
from ansible_collections.muster.kube.tests.support.quota_trees import queue, small_tree
from ansible_collections.muster.kube.tests.support.random_size import examples

CPU = FlavorResource("", "cpu")
ANN, BOB = Owner("ann", "a"), Owner("bob", "a")
EMPTY = Meter("t", "q")
START = int(datetime.datetime(2026, 1, 10, tzinfo=datetime.UTC).timestamp())


def seen(uid="u", since=START, until=START, *, attempt=1, owner=ANN, amount=2, alive=True):
    return Sighting(uid, attempt, owner, {CPU: amount}, since, until, alive)


def total(meter):
    return sum(amounts.get(CPU, 0) for amounts in meter.sums.values())


def test_a_gang_is_counted_from_its_start_to_its_end():
    meter = accrue(EMPTY, [seen(until=START + 100)], START + 100)
    assert meter.sums == {MeterRow("2026-01", ANN): {CPU: 200}}
    assert meter.open == {"u": OpenGang(1, START + 100, ANN, {CPU: 2})}
    meter = accrue(meter, [seen(until=START + 130, alive=False)], START + 200)
    assert total(meter) == 260
    assert not meter.open
    assert accrue(meter, [seen(until=START + 130, alive=False)], START + 300).sums == meter.sums


def test_a_gang_that_is_gone_is_closed_where_it_was_left():
    meter = accrue(EMPTY, [seen(until=START + 100)], START + 100)
    after = accrue(meter, [], START + 400)
    assert (total(after), dict(after.open)) == (200, {})
    # Should it be there again, nothing before that moment is counted.
    again = accrue(after, [seen(until=START + 450)], START + 450)
    assert total(again) == 200 + 2 * 50


def test_one_that_is_left_alone_stays_as_it_is():
    meter = accrue(EMPTY, [seen(until=START + 100)], START + 100)
    after = accrue(meter, [seen("v", START + 50, START + 400)], START + 400, left_alone={"u"})
    assert after.open["u"] == meter.open["u"]
    assert total(accrue(after, [seen(until=START + 500)], START + 500)) == 2 * 300 + 2 * 500


def test_attempts_are_told_apart():
    meter = accrue(EMPTY, [seen(until=START + 100)], START + 100)
    both = [
        seen(until=START + 120, alive=False),
        seen(attempt=2, since=START + 150, until=START + 160, amount=5),
    ]
    after = accrue(meter, both, START + 160)
    assert total(after) == 2 * 120 + 5 * 10
    assert after.open["u"].attempt == 2


def test_whose_it_is_was_decided_when_it_was_first_counted():
    meter = accrue(EMPTY, [seen(until=START + 10)], START + 10)
    after = accrue(meter, [seen(until=START + 20, owner=BOB)], START + 20)
    assert {row.owner for row in after.sums} == {ANN}


def test_a_clock_that_goes_back_counts_nothing_twice():
    meter = accrue(EMPTY, [seen(until=START + 100)], START + 100)
    back = accrue(meter, [seen(until=START + 40)], START + 40)
    assert (back.sums, back.as_of, back.open["u"].until) == (meter.sums, START + 100, START + 100)
    assert total(accrue(back, [seen(until=START + 110)], START + 110)) == 220


def test_months_are_those_of_utc():
    end = int(datetime.datetime(2026, 3, 1, 0, 0, 5, tzinfo=datetime.UTC).timestamp())
    found = dict(seconds_by_month(START, end))
    assert found == {"2026-01": 22 * 86_400, "2026-02": 28 * 86_400, "2026-03": 5}
    assert not list(seconds_by_month(end, START))


@pytest.mark.parametrize(
    ("day", "period", "months", "reset"),
    [
        ((2026, 2, 28), "month", ("2026-02",), (2026, 3, 1)),
        ((2026, 12, 31), "month", ("2026-12",), (2027, 1, 1)),
        ((2026, 12, 31), "quarter", ("2026-10", "2026-11", "2026-12"), (2027, 1, 1)),
        ((2026, 5, 1), "quarter", ("2026-04", "2026-05", "2026-06"), (2026, 7, 1)),
        ((2026, 5, 1), "year", tuple(f"2026-{month:02d}" for month in range(1, 13)), (2027, 1, 1)),
    ],
)
def test_periods(day, period, months, reset):
    now = datetime.datetime(*day, 12, tzinfo=datetime.UTC).timestamp()
    assert period_of(now, period) == (months, datetime.datetime(*reset, tzinfo=datetime.UTC).timestamp())


def test_what_has_a_budget_or_a_price_is_counted_besides():
    tree = small_tree(
        queue("a", nominal={"cpu": 1}, budget={"hours": {"gpu": 1}}), settings={"prices": {"memory": "0.1"}}
    )
    demands = {"p": {"cpu": 1, "gpu": 2, "memory": 3, "pods": 4}}
    assert metered_amounts(tree, demands, {}) == {
        FlavorResource("", name): amount for name, amount in (("cpu", 1), ("gpu", 2), ("memory", 3))
    }


def states(*phases):
    """A state that went through these phases, one each second."""
    state = new_state(time_text(START), "w/e/1")
    for number, phase in enumerate(phases, 1):
        state = advance(state, phase, time_text(START + number), "R", "", "w/e/1")
    return state


@pytest.mark.parametrize(
    ("phases", "began", "left"),
    [
        ((), None, None),
        (("dispatching", "running"), 1, None),
        (("dispatching", "running", "complete"), None, 3),
        (("dispatched", "undoing", "queued", "suspended"), None, 3),
        (("dispatched", "undoing", "queued", "dispatching", "running"), 4, 3),
        (("suspended", "queued"), None, None),
    ],
)
def test_when_a_start_began_and_when_nothing_was_left_of_it(phases, began, left):
    state = states(*phases)
    assert began_at(state) == (None if began is None else START + began)
    assert left_at(state) == (None if left is None else START + left)


@dataclasses.dataclass
class Life:
    """A gang as it truly was."""

    uid: str
    amount: int
    since: int
    end: int | None = None
    # Whether whoever counts sees when it ended, or only that it is gone.
    told: bool = True


@dataclasses.dataclass
class Holder:
    """Who counts: what it knows of the meter, and the ends that it has seen and not written."""

    meter: Meter
    version: int
    seen_at: int
    lives: dict[str, Life]
    ended: list[Sighting] = dataclasses.field(default_factory=list)


class Course:
    """Random starts, ends and deletions, counted by holders that die, are late, and lose answers."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.now = START
        self.lives: list[Life] = []
        self.stored, self.version = EMPTY, 0
        self.holder = self.take()
        self.stale: list[Holder] = []

    def take(self) -> Holder:
        """Somebody begins with what is stored."""
        return Holder(self.stored, self.version, self.now, {})

    def alive(self):
        return [life for life in self.lives if life.end is None]

    def happen(self) -> None:
        chance = self.chance
        self.now += chance.choice((0, 1, 5, 40, 200, 3000))
        for _turn in range(chance.randrange(4)):
            if chance.random() < 0.5 or not self.alive():
                self.lives.append(Life(f"g{len(self.lives)}", chance.randint(1, 9), self.now))
            else:
                life = chance.choice(self.alive())
                life.end, life.told = self.now, chance.random() < 0.7

    def look(self, holder: Holder) -> list[Sighting]:
        """One cycle of a holder: what it sees now, and what it saw before that has ended."""
        living = {life.uid: life for life in self.alive()}
        for uid, life in list(holder.lives.items()):
            if uid not in living:
                end = life.end if life.told else holder.seen_at
                holder.ended.append(seen(uid, life.since, end, amount=life.amount, alive=False))
                del holder.lives[uid]
        holder.lives.update(living)
        holder.seen_at = self.now
        return [seen(life.uid, life.since, self.now, amount=life.amount) for life in living.values()]

    def write(self, holder: Holder, sightings: list[Sighting], now: int) -> None:
        """One compare-and-swap; its answer may be lost, and whoever wrote in between is read first."""
        if holder.version != self.version:
            holder.meter, holder.version = self.stored, self.version
        after = accrue(holder.meter, [*holder.ended, *sightings], now)
        self.stored, self.version = after, self.version + 1
        if self.chance.random() < 0.7:
            holder.meter, holder.version, holder.ended = after, self.version, []

    def step(self) -> None:
        """Something happens, and somebody may look, write, die or take over."""
        self.happen()
        drawn = self.chance.random()
        if drawn < 0.15:
            # Its last write may still be under way.
            late = dataclasses.replace(self.holder)
            sightings, at = self.look(late), self.now
            self.holder = self.take()
            if self.chance.random() < 0.5:
                self.write(late, sightings, at)
        sightings = self.look(self.holder)
        if self.chance.random() < 0.5:
            self.write(self.holder, sightings, self.now)


@pytest.mark.parametrize("seed", range(examples(60)))
def test_nothing_is_counted_twice_and_little_is_lost(seed):
    """What is lost is what nobody had written of a gang: since its start, or since the last write."""
    course = Course(f"meter {seed}")
    writes = [START]
    for _turn in range(40):
        before = course.version
        course.step()
        if course.version != before:
            writes.append(course.now)
    course.write(course.holder, course.look(course.holder), course.now)
    writes.append(course.now)
    truth = sum(life.amount * ((life.end or course.now) - life.since) for life in course.lives)
    longest = max(after - before for before, after in itertools.pairwise(writes))
    lost = truth - total(course.stored)
    assert 0 <= lost <= sum(life.amount * longest for life in course.lives if life.end is not None)
    # Gangs that still run are counted to the second.
    running = {uid: gang.until for uid, gang in course.stored.open.items()}
    assert running == {life.uid: course.now for life in course.alive()}
