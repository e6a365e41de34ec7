# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory that take quota back: who is evicted for whom, what is held meanwhile, and what comes after."""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault
from ansible_collections.muster.kube.tests.support.reclaim_cases import (
    declare,
    history,
    leaf,
    phases,
    running,
    state,
    submit,
    two_namespaces,
)


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Room for eight pods, and the namespaces a and b."""
    with two_namespaces(*cases.node_pool("p", 2)) as made:
        yield made


@pytest.mark.parametrize("mirrored", [False, True])
def test_an_owner_gets_its_own_back_from_borrowers(stage: MemoryStage, mirrored: bool) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4))
    submit(stage, "own", 4, "x")
    submit(stage, "old", 2, "x")
    stage.start("d", mirrored=mirrored)
    assert stage.run_until(running(stage, "own", "old"))
    submit(stage, "new", 2, "x")
    assert stage.run_until(running(stage, "new"))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(running(stage, "owner"), 120)
    # The newest borrowers go, as many as are needed, and what is x's own stays.
    assert phases(stage, "own", "old", "new") == ["running", "queued", "queued"]
    assert history(stage, "new")[-2:] == ["evicting", "queued"]
    told = state(stage, "new")
    assert told["evictions"] == 1
    assert told["not_before"] is not None
    assert told["transitions"][-2][2:] == ["Evicted", "queue all/y takes its own back"]
    assert "nominated" not in state(stage, "owner")


def test_no_more_go_than_have_to(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 2), leaf("y", 6))
    for name in ("one", "two", "three"):
        submit(stage, name, 2, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two", "three"))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(running(stage, "owner"), 120)
    evicted = [name for name in ("one", "two", "three") if "evicting" in history(stage, name)]
    assert len(evicted) == 1


def test_lower_priorities_of_the_own_queue_go_and_equal_ones_stay(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4, hard=True), leaf("y", 4))
    submit(stage, "low", 2, "x", priority=1)
    submit(stage, "equal", 2, "x", priority=5)
    stage.start("d")
    assert stage.run_until(running(stage, "low", "equal"))
    submit(stage, "asker", 2, "x", priority=5)
    submit(stage, "aged", 2, "x", priority=1, priority_slope=1.0)
    assert stage.run_until(running(stage, "asker"), 120)
    stage.run_for(200)
    assert phases(stage, "low", "equal", "aged") == ["queued", "running", "queued"]
    assert "evicting" not in history(stage, "equal")


@pytest.mark.parametrize(
    ("reclaim", "priority", "gets"), [("never", 9, False), ("lower_priority", 0, False), ("any", 0, True)]
)
def test_a_queue_says_whom_it_takes_from(stage: MemoryStage, reclaim: str, priority: int, gets: bool) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4, reclaim=reclaim))
    submit(stage, "borrower", 8, "x", priority=3)
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", 4, "y", priority=priority)
    stage.run_for(60)
    assert (state(stage, "owner")["phase"] == "running") is gets


def test_nobody_goes_before_its_time(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4), min_run_time="2m")
    submit(stage, "borrower", 8, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", 4, "y")
    stage.run_for(100)
    assert phases(stage, "borrower", "owner") == ["running", "queued"]
    assert state(stage, "owner")["verdict"]["reason"] == "quota"
    assert stage.run_until(running(stage, "owner"), 60)


def test_nobody_goes_for_one_that_would_not_fit_even_then(stage: MemoryStage) -> None:
    """Quota would be enough, but another part of the cluster is full with pods of nobody's gang."""
    declare(stage, leaf("x", 4), leaf("y", 4))
    submit(stage, "borrower", 6, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    job = cases.job("owner-j", "p", 1, cpu="4")
    job["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "nowhere"}
    stage.cluster.add("configmaps", cases.gang_record("owner", "a", [job], queue="y"))
    stage.run_for(60)
    assert phases(stage, "borrower", "owner") == ["running", "queued"]


def test_what_is_freed_is_held_for_the_one_it_was_freed_for(stage: MemoryStage) -> None:
    """Small gangs that come meanwhile would fit into what the first victim left; they get nothing of it."""
    declare(stage, leaf("x", 4), leaf("y", 4), leaf("z", 0), min_run_time=0)
    submit(stage, "b1", 4, "x")
    submit(stage, "b2", 4, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "b1", "b2"))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(lambda: "evicting" in phases(stage, "b1", "b2"), 60)
    for number in range(4):
        submit(stage, f"small{number}", 1, "z", priority=100)
    assert stage.run_until(running(stage, "owner"), 120)
    assert [name for name in ("b1", "b2") if "evicting" in history(stage, name)] == ["b2"]
    stage.run_for(30)
    assert all(len(history(stage, f"small{number}")) <= 1 for number in range(4))


def test_evicted_gangs_come_back_when_there_is_room(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4))
    submit(stage, "borrower", 8, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", 4, "y", max_run_time=30)
    assert stage.run_until(running(stage, "owner"), 60)
    assert stage.run_until(running(stage, "borrower"), 300)
    assert history(stage, "borrower").count("evicting") == 1
    assert state(stage, "borrower")["attempt"] == 2


def test_a_drained_queue_gives_everything_back_and_starts_nothing(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4))
    submit(stage, "one", 2, "x")
    submit(stage, "two", 2, "y")
    stage.start("d")
    assert stage.run_until(running(stage, "one", "two"))
    declare(stage, leaf("x", 4, stop="drain"), leaf("y", 4))
    assert stage.run_until(lambda: state(stage, "one")["phase"] == "queued", 60)
    stage.run_for(30)
    assert phases(stage, "one", "two") == ["queued", "running"]
    assert state(stage, "one")["verdict"]["reason"] == "queue_held"
    declare(stage, leaf("x", 4), leaf("y", 4))
    assert stage.run_until(running(stage, "one"), 30)


def test_what_drained_gangs_leave_is_held_until_the_last_of_them_has_gone(stage: MemoryStage) -> None:
    """One whose pods never go holds nothing for ever."""
    declare(stage, leaf("x", 8), leaf("y", 0))
    for name in ("quick", "slow"):
        submit(stage, name, 4, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "quick", "slow"))
    submit(stage, "big", 8, "y")
    stage.run_for(5)
    submit(stage, "small", 2, "y")
    stage.run_for(5)
    names = [pod["metadata"]["name"] for pod in stage.cluster.all("pods", "a")]
    stuck = next(name for name in names if name.startswith("slow"))
    stage.cluster.change("pods", "a", stuck, lambda raw: raw["metadata"].update(finalizers=["example.com/stays"]))
    declare(stage, leaf("x", 8, stop="drain"), leaf("y", 0))
    assert stage.run_until(lambda: phases(stage, "quick") == ["queued"])
    stage.run_for(30)
    assert phases(stage, "slow", "big", "small") == ["evicting", "queued", "queued"]
    verdict = state(stage, "big")["verdict"]
    assert (verdict["reason"], verdict["detail"]) == ("nominated", "until others have gone")
    assert stage.run_until(running(stage, "small"), 600)


def test_no_more_go_in_one_cycle_than_the_tree_allows(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 0), leaf("y", 8), min_run_time=0, max_evictions=3)
    names = [f"b{number}" for number in range(8)]
    for name in names:
        submit(stage, name, 1, "x")
    stage.start("d")
    assert stage.run_until(running(stage, *names))
    for name in ("first", "second"):
        submit(stage, name, 2, "y")

    def evicted() -> int:
        return sum("evicting" in history(stage, name) for name in names)

    assert stage.run_until(lambda: evicted() > 0, 60)
    # Two go for the first; the second asks in a later cycle.
    assert ["nominated" in state(stage, name) for name in ("first", "second")] == [True, False]
    assert stage.run_until(running(stage, "first", "second"), 60)
    assert evicted() == 4


@pytest.mark.parametrize(("most", "gets"), [(0, False), (1, True), (3, True)])
def test_an_owner_that_needs_more_than_a_cycle_may_evict_gets_them_at_once(
    stage: MemoryStage, most: int, gets: bool
) -> None:
    declare(stage, leaf("x", 0), leaf("y", 8), min_run_time=0, max_evictions=most)
    names = [f"b{number}" for number in range(8)]
    for name in names:
        submit(stage, name, 1, "x")
    stage.start("d")
    assert stage.run_until(running(stage, *names))
    submit(stage, "large", 6, "y")
    submit(stage, "other", 2, "y")
    stage.run_for(60)
    assert (phases(stage, "large", "other") == ["running"] * 2) is gets
    assert sum("evicting" in history(stage, name) for name in names) == (8 if gets else 0)


def test_a_nomination_ends_by_time(stage: MemoryStage) -> None:
    """The victim's pods take longer to go than room is held."""
    declare(stage, leaf("x", 4), leaf("y", 4), leaf("z", 0), min_run_time=0, nominate_timeout=5)
    submit(stage, "borrower", 8, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(lambda: "nominated" in state(stage, "owner"), 30)
    until = state(stage, "owner")["nominated"]["until"]
    assert stage.run_until(running(stage, "owner"), 120)
    assert until.endswith("Z")


def test_a_forged_nomination_gives_nobody_a_place_before_others(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 8), min_run_time="1h")
    submit(stage, "first", 8, "x", max_run_time=60)
    stage.start("d")
    assert stage.run_until(running(stage, "first"))
    submit(stage, "forger", 8, "x")
    submit(stage, "prior", 8, "x", priority=1)
    stage.run_for(10)

    def forge(raw: cases.Object) -> None:
        annotations = raw["metadata"]["annotations"]
        told = json.loads(annotations["muster.kube/state"])
        annotations["muster.kube/state"] = json.dumps({**told, "nominated": {"until": "2099-01-01T00:00:00Z"}})

    stage.cluster.change("configmaps", "a", "forger", forge)
    assert stage.run_until(running(stage, "prior"), 120)
    assert state(stage, "forger")["phase"] == "queued"


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("policy", ["reserve", "best_effort"])
def test_quota_is_held_for_a_gang_that_has_waited_long(stage: MemoryStage, policy: t.Any, mirrored: bool) -> None:
    """Small gangs of its queue would take what is left time and again; those that end in time may."""
    declare(stage, leaf("x", 4, reclaim="never"), leaf("y", 4))
    submit(stage, "other", 4, "y")
    submit(stage, "first", 2, "x", max_run_time=100)
    submit(stage, "last", 2, "x", max_run_time=200)
    stage.start("d", mirrored=mirrored, policy=policy, reserve_after=20.0)
    assert stage.run_until(running(stage, "other", "first", "last"))
    submit(stage, "starved", 4, "x")
    stage.run_for(40)
    submit(stage, "small", 1, "x")
    submit(stage, "short", 1, "x", max_run_time=30)
    assert stage.run_until(lambda: state(stage, "first")["phase"] not in ("running", "queued"), 100)
    stage.run_for(15)
    if policy == "best_effort":
        assert phases(stage, "starved", "small", "short") == ["queued", "running", "running"]
        return
    assert phases(stage, "starved", "small", "short") == ["queued", "queued", "running"]
    told = state(stage, "starved")["verdict"]
    assert told["reason"] == "quota"
    assert told["detail"].startswith("quota is held for it; expected to be enough by ")
    told = state(stage, "small")["verdict"]
    assert told["reason"] == "quota_reserved"
    assert told["detail"].startswith("it is held for a gang of queue all/x until ")
    assert stage.run_until(running(stage, "starved"), 120)
    assert state(stage, "small")["phase"] == "queued"
    assert stage.crashes == []


# Faults.


def used_at_most(stage: MemoryStage, limit: int) -> None:
    """No more pods ask for a node, or have one, than the tree allows in all."""
    alive = [pod for pod in stage.cluster.all("pods", "a") if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    assert len(alive) <= limit, [pod["metadata"]["name"] for pod in alive]


@pytest.mark.parametrize("trouble", ["kill_before", "kill_after", "cut", "lose", "refuse"])
@pytest.mark.parametrize("number", range(14))
def test_whatever_happens_to_one_write_of_an_eviction_it_comes_to_the_same(
    stage: MemoryStage, trouble: t.Any, number: int
) -> None:
    """Two borrowers go for one owner: its quota is given once, what is not borrowed stays, and nobody is lost."""
    declare(stage, leaf("x", 4), leaf("y", 4), leaf("z", 0))
    submit(stage, "own", 4, "x")
    stage.start("one")
    assert stage.run_until(running(stage, "own"))
    for name in ("b1", "b2"):
        submit(stage, name, 2, "x")
    assert stage.run_until(running(stage, "b1", "b2"))
    submit(stage, "owner", 4, "y")
    submit(stage, "greedy", 2, "z", priority=50)
    stage.actors["one"].dispatcher.line.faults.append(Fault(trouble, WRITES, path="configmaps|jobs", skip=number))
    for _second in range(10):
        stage.run_for(1)
        used_at_most(stage, 8)
        if stage.actors["one"].over:
            stage.kill("one")
            stage.start("one")
    assert stage.run_until(running(stage, "owner"), 120), stage.crashes
    stage.run_for(20)
    assert phases(stage, "own", "b1", "b2", "greedy") == ["running", "queued", "queued", "queued"]
    assert [history(stage, name).count("evicting") for name in ("own", "b1", "b2", "greedy")] == [0, 1, 1, 0]
    assert stage.crashes == []


# Random clusters in which nothing goes wrong.

SEED = int(os.environ.get("MUSTER_SEED", "1"))
QUIET = 300 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 15
PARTS = max(5, QUIET // 10)


class QuietCourse:
    """A tree that does not change and gangs that come one after the other; everything else is as it should be."""

    def __init__(self, stage: MemoryStage, seed: str) -> None:
        """Draw the tree; all leaves together may have what the nodes have."""
        self.stage, self.chance = stage, random.Random(seed)
        parts = sorted(self.chance.choices(range(9), k=2))
        nominal = (parts[0], parts[1] - parts[0], 8 - parts[1])
        self.nominal = dict(zip("xyz", nominal, strict=True))
        priorities = ("any", "any", "lower_priority", "never")
        self.reclaim = {name: self.chance.choice(priorities) for name in "xyz"}
        queues = [leaf(name, cpu, reclaim=self.reclaim[name]) for name, cpu in self.nominal.items()]
        declare(stage, *queues, min_run_time=self.chance.choice((0, 0, 20)), max_evictions=self.chance.choice((2, 10)))
        self.gangs: dict[str, tuple[str, int, int]] = {}

    def submit(self) -> None:
        """One more gang; some end by themselves."""
        name, queue = f"g{len(self.gangs)}", self.chance.choice("xyz")
        pods, priority = self.chance.randint(1, 4), self.chance.choice((0, 0, 0, 5))
        ends = self.chance.choice((None, None, 30, 90))
        submit(self.stage, name, pods, queue, priority=priority, **({"max_run_time": ends} if ends else {}))
        self.gangs[name] = queue, pods, priority

    def play(self) -> None:
        """Let gangs come, then wait until all is quiet."""
        self.stage.start("d", mirrored=self.chance.random() < 0.5)
        for _turn in range(self.chance.randint(4, 10)):
            self.submit()
            self.stage.run_for(self.chance.choice((0.5, 5.0, 5.0, 40.0)))
        # Longer than the first pauses, so that whoever may come back does.
        self.stage.run_for(600.0)

    def used(self, queue: str) -> int:
        """What runs of a queue."""
        alive = [name for name in self.gangs if state(self.stage, name)["phase"] == "running"]
        return sum(self.gangs[name][1] for name in alive if self.gangs[name][0] == queue)

    def starved(self) -> list[str]:
        """Gangs that still wait although what they lack is their queue's own and used by borrowers that may go."""
        borrowers = {queue for queue in "xyz" if self.used(queue) > self.nominal[queue]}
        waiting = [name for name in self.gangs if state(self.stage, name)["phase"] == "queued"]
        return [
            name
            for name in waiting
            for queue, pods, _priority in [self.gangs[name]]
            if self.used(queue) + pods <= self.nominal[queue] and borrowers - {queue} and self.reclaim[queue] == "any"
        ]


@pytest.mark.parametrize("part", range(PARTS))
def test_owners_get_their_own_and_nobody_is_evicted_in_vain_or_without_end(part: int) -> None:
    for number in range(part, QUIET, PARTS):
        with MemoryStage(1) as stage:
            stage.add_namespace("a")
            stage.add_nodes(*cases.node_pool("p", 2))
            course = QuietCourse(stage, f"{SEED}/{number}")
            course.play()
            assert stage.crashes == []
            assert course.starved() == [], f"seed {SEED}/{number}"
            for name in course.gangs:
                told = state(stage, name)
                # Whoever others went for was started.
                assert "nominated" not in told, f"seed {SEED}/{number}: {name}"
                assert told.get("evictions", 0) <= len(course.gangs), f"seed {SEED}/{number}: {name}"
