# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dispatchers in memory that count what gangs use: every second once, whoever dies and whatever is lost."""

from __future__ import annotations

import dataclasses
import datetime
import json
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import LONGEST_REST
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import STARTED_PHASES
from ansible_collections.muster.kube.plugins.module_utils._model.quota.meter import (
    METER_KEY,
    METER_LABEL,
    Meter,
    MeterRow,
    Owner,
    meter_from_text,
    meter_name,
    meter_text,
)
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import FlavorResource
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import BEGINNING, Change
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import WRITES, Fault
from ansible_collections.muster.kube.tests.support.random_size import examples

CPU = FlavorResource("", "cpu")
EVERY = 60.0
# Whole seconds, a clock that is read in whole seconds, and the time between two cycles.
SLACK = 15.0
# Where meters are written to: one by one, or all of them where one is created.
METERS = "muster-system/configmaps(/muster-usage-[0-9a-f]+)?$"


def declare(stage: MemoryStage, *queues: cases.Object, **rest: t.Any) -> None:
    """Store a tree of these queues, as the module does."""
    text = tree_text(read_tree("default", {"queues": [{"name": "all"}, *queues], **rest}))
    metadata = {"name": "muster-quota-default", "namespace": "muster-system", "labels": {TREE_LABEL: "default"}}
    stage.cluster.remove("configmaps", "muster-system", "muster-quota-default")
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {TREE_KEY: text}})


def leaf(name: str, cpu: int, **more: t.Any) -> cases.Object:
    """A queue below the root."""
    return {"name": name, "parent": "all", "nominal": {"cpu": cpu}, **more}


def submit(stage: MemoryStage, name: str, pods: int, namespace: str = "a", user: str = "", **options: t.Any) -> None:
    """Queue a gang of pods of one CPU."""
    seconds = options.pop("seconds", None)
    job = cases.job(f"{name}-j", "p", pods, **({"seconds": seconds} if seconds else {}))
    record = cases.gang_record(name, namespace, [job], **options)
    record["metadata"].setdefault("annotations", {}).update({"muster.kube/user": user} if user else {})
    stage.cluster.add("configmaps", record)


def go_on(stage: MemoryStage, seconds: float) -> None:
    """Let time pass; a run has a cycle at least every ten seconds, whatever happens."""
    end = stage.clock.now + seconds
    while stage.clock.now < end:
        stage.run_for(min(LONGEST_REST, end - stage.clock.now))
        for actor in stage.actors.values():
            actor.news += 1


def phase(stage: MemoryStage, name: str, namespace: str = "a") -> str:
    """Where a gang stands."""
    return str(state(stage, name, namespace)["phase"])


def state(stage: MemoryStage, name: str, namespace: str = "a") -> cases.Object:
    """What the record of a gang says."""
    record = stage.cluster.get("configmaps", namespace, name)
    text = (((record or {}).get("metadata") or {}).get("annotations") or {}).get("muster.kube/state")
    return {"phase": "queued"} if text is None else t.cast("cases.Object", json.loads(text))


def meter(stage: MemoryStage, queue: str) -> Meter:
    """The stored meter of a leaf; an empty one where there is none."""
    found = stage.cluster.get("configmaps", "muster-system", meter_name("default", queue))
    if found is None:
        return Meter("default", queue)
    assert found["metadata"]["labels"] == {METER_LABEL: "true"}
    return meter_from_text(found["data"][METER_KEY], "here")


def add_meter(stage: MemoryStage, wanted: Meter) -> None:
    """Store a meter as dispatchers do."""
    name = meter_name(wanted.tree, wanted.queue)
    metadata = {"name": name, "namespace": "muster-system", "labels": {METER_LABEL: "true"}}
    stage.cluster.add("configmaps", {"metadata": metadata, "data": {METER_KEY: meter_text(wanted)}})


def used(stage: MemoryStage, queue: str) -> dict[str, float]:
    """CPU seconds by user."""
    totals: dict[str, float] = {}
    for row, amounts in meter(stage, queue).sums.items():
        totals[row.owner.user] = totals.get(row.owner.user, 0) + amounts.get(CPU, 0) / 1000
    return totals


def asked_of_meters(made: MemoryDispatcher) -> list[tuple[str, str]]:
    """The requests about meters that a dispatcher sent."""
    sent = [(method, path) for method, path, _dry in made.line.sent]
    return [(method, path) for method, path in sent if "muster-usage" in path]


@pytest.fixture
def stage() -> t.Iterator[MemoryStage]:
    """Room for sixteen pods, and the namespaces a and b."""
    with MemoryStage(1) as made:
        for name in ("a", "b"):
            made.add_namespace(name)
        made.add_nodes(*cases.node_pool("p", 4))
        yield made


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_gang_is_counted_while_it_runs_and_to_its_end(stage: MemoryStage, mirrored: bool) -> None:
    declare(stage, leaf("x", 8), leaf("y", 8, default=True))
    submit(stage, "one", 2, user="ann", queue="x", seconds=200)
    made = stage.start("d", accrue_seconds=EVERY, mirrored=mirrored)
    assert stage.run_until(lambda: phase(stage, "one") == "running")
    assert meter(stage, "x").as_of == 0
    go_on(stage, EVERY + 20)
    assert used(stage, "x")["ann"] == pytest.approx(2 * 60, abs=20)
    assert list(meter(stage, "x").open) == [stage.cluster.get("configmaps", "a", "one")["metadata"]["uid"]]
    assert stage.run_until(lambda: phase(stage, "one") == "complete")
    go_on(stage, 20)
    assert used(stage, "x")["ann"] == pytest.approx(2 * 202, abs=2 * 4)
    assert not meter(stage, "x").open
    # Nothing is left to be counted, so nothing is asked or written any more.
    asked = asked_of_meters(made)
    # A list, a creation, and a write for each interval.
    assert len(asked) <= 3 + 200 / EVERY
    go_on(stage, 10 * EVERY)
    assert asked_of_meters(made) == asked
    assert used(stage, "y") == {}


def test_many_short_gangs_share_writes(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 16, default=True))
    for number in range(30):
        submit(stage, f"g{number}", 1, user=f"u{number}", seconds=10)
    made = stage.start("d")
    assert stage.run_until(lambda: all(phase(stage, f"g{number}") == "complete" for number in range(30)))
    go_on(stage, 20)
    totals = used(stage, "x")
    assert len(totals) == 30
    assert all(9 <= seconds <= 16 for seconds in totals.values()), totals
    writes = [path for method, path, _dry in made.line.sent if method == "PUT" and "muster-usage" in path]
    assert len(writes) <= 8


def test_without_a_tree_nothing_is_asked_for(stage: MemoryStage) -> None:
    submit(stage, "one", 2, seconds=20)
    made = stage.start("d")
    assert stage.run_until(lambda: phase(stage, "one") == "complete")
    go_on(stage, 600)
    assert not [path for _method, path, _dry in made.line.sent if "usage" in path]
    made_there = [item["metadata"]["name"] for item in stage.cluster.all("configmaps", "muster-system")]
    assert made_there == ["muster-history"]


def test_gangs_from_before_a_tree_are_counted_from_its_beginning(stage: MemoryStage) -> None:
    submit(stage, "one", 2, user="ann")
    stage.start("d", accrue_seconds=EVERY)
    assert stage.run_until(lambda: phase(stage, "one") == "running")
    go_on(stage, 300)
    declare(stage, leaf("x", 8, default=True))
    go_on(stage, 100)
    assert used(stage, "x")["ann"] == pytest.approx(2 * 60, abs=2 * SLACK)


def test_trouble_with_meters_is_told_once_and_holds_up_nobody(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 8, default=True))
    made = stage.start("d", accrue_seconds=EVERY)
    made.line.faults.append(Fault("refuse", WRITES, METERS, times=10_000))
    for number in range(3):
        submit(stage, f"g{number}", 1, seconds=20)
    assert stage.run_until(lambda: all(phase(stage, f"g{number}") == "complete" for number in range(3)))
    go_on(stage, 200)
    assert stage.crashes == []
    assert made.session is not None
    _decisions, warnings = made.session.journal.take()
    assert len([text for text in warnings if "usage" in text]) == 1
    # It is tried again now and then, looking twice whether it was written after all, and not in every cycle.
    assert 2 <= len(asked_of_meters(made)) <= 2 * (2 + 260 / 60)


@dataclasses.dataclass
class Life:
    """When a gang truly was started, by what its record said over time."""

    name: str
    pods: int
    queue: str
    intervals: dict[float, float | None] = dataclasses.field(default_factory=dict)
    gone: float | None = None

    def read(self, transitions: list[list[str]]) -> None:
        """Note what a state tells; each start is an interval from its first transition to the end of the undo."""
        begun: float | None = None
        for word, at, _reason, _message in transitions:
            moment = read_time(at) or 0.0
            if word in STARTED_PHASES:
                begun = moment if begun is None else begun
                self.intervals.setdefault(begun, None)
            elif begun is not None:
                self.intervals[begun] = moment
                begun = None

    def seconds(self, now: float) -> float:
        """CPU seconds in all."""
        last = min(now, self.gone or now)
        return self.pods * sum(max(0.0, (end or last) - begin) for begin, end in self.intervals.items())


class Course:
    """Random gangs, deletions, deaths and lost answers on one stage."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.stage = MemoryStage(self.chance.randrange(1000))
        self.lives: dict[str, Life] = {}
        self.started = 0

    def begin(self) -> None:
        """A tree of two queues, and who listens."""
        stage = self.stage
        for name in ("a", "b"):
            stage.add_namespace(name)
        stage.add_nodes(*cases.node_pool("p", 4))
        declare(stage, leaf("x", 8), leaf("y", 8))
        stage.cluster.listeners.append(self.hear)

    def hear(self, change: Change) -> None:
        """What records say, and when they went."""
        life = self.lives.get(change.object["metadata"]["name"]) if change.plural == "configmaps" else None
        if life is None:
            return
        text = (change.object["metadata"].get("annotations") or {}).get("muster.kube/state")
        if text is not None:
            life.read(json.loads(text)["transitions"])
        if change.gone:
            life.gone = life.gone or self.now()

    def now(self) -> float:
        """The server's time."""
        return BEGINNING.timestamp() + self.stage.clock.now

    def dispatch(self) -> None:
        """One more process; some of its requests come to nothing."""
        self.started += 1
        made = self.stage.start(f"d{self.started}", accrue_seconds=EVERY, mirrored=self.chance.random() < 0.3)
        for _turn in range(self.chance.randrange(3)):
            trouble = self.chance.choice(("lose", "cut", "kill_before", "kill_after"))
            made.line.faults.append(Fault(trouble, WRITES, METERS, skip=self.chance.randrange(4)))

    def step(self) -> None:
        """Something happens."""
        chance, stage = self.chance, self.stage
        drawn = chance.random()
        if drawn < 0.5:
            name = f"g{len(self.lives)}"
            life = self.lives[name] = Life(name, chance.randint(1, 3), chance.choice("xy"))
            seconds = chance.choice((5, 30, 100, 300))
            submit(stage, name, life.pods, chance.choice("ab"), user=name, queue=life.queue, seconds=seconds)
        elif drawn < 0.65 and self.lives:
            name = chance.choice(list(self.lives))
            for namespace in "ab":
                stage.cluster.remove("configmaps", namespace, name)
        elif drawn < 0.75:
            alive = list(stage.actors)
            if alive:
                stage.kill(chance.choice(alive))
        for name in [name for name, actor in stage.actors.items() if actor.over]:
            stage.kill(name)
        while len(stage.actors) < 2:
            self.dispatch()
        go_on(stage, chance.choice((1, 5, 20, 80)))


@pytest.mark.parametrize("seed", range(examples(8)))
def test_what_is_counted_is_what_was_used(seed: int) -> None:
    """Of each gang at most one interval is missing, besides the time in which nobody dispatched; nothing is twice."""
    course = Course(f"course {seed}")
    with course.stage as stage:
        course.begin()
        course.dispatch()
        for _turn in range(40):
            course.step()
        for name in list(stage.actors):
            stage.kill(name)
        stage.start("last", accrue_seconds=EVERY)
        go_on(stage, 200)
        now = course.now()
        assert stage.crashes == []
        counted = {queue: used(stage, queue) for queue in "xy"}
        for life in course.lives.values():
            truth, found = life.seconds(now), counted[life.queue].get(life.name, 0.0)
            attempts = len(life.intervals)
            assert life.name not in counted["y" if life.queue == "x" else "x"]
            assert found <= truth + life.pods * attempts * 2.0, life
            assert found >= truth - life.pods * attempts * (EVERY + SLACK), life
        assert sum(len(life.intervals) for life in course.lives.values()) > 5


# What is counted stops what would start.


def reason(stage: MemoryStage, name: str, namespace: str = "a") -> tuple[str, str]:
    """Why a gang waits."""
    verdict = state(stage, name, namespace).get("verdict") or {}
    return str(verdict.get("reason")), str(verdict.get("detail"))


@pytest.mark.parametrize("mirrored", [False, True])
def test_nothing_starts_in_a_queue_whose_budget_is_spent_and_what_runs_goes_on(
    stage: MemoryStage, mirrored: bool
) -> None:
    budget = {"hours": {"cpu": "100m"}}
    declare(stage, leaf("x", 8, budget=budget), leaf("y", 8))
    submit(stage, "one", 2, queue="x")
    stage.start("d", accrue_seconds=EVERY, mirrored=mirrored)
    assert stage.run_until(lambda: phase(stage, "one") == "running")
    submit(stage, "two", 1, queue="x")
    assert stage.run_until(lambda: phase(stage, "two") == "running", 20)
    go_on(stage, 4 * EVERY)
    submit(stage, "three", 1, queue="x")
    submit(stage, "other", 1, queue="y")
    assert stage.run_until(lambda: phase(stage, "other") == "running", 20)
    assert [phase(stage, name) for name in ("one", "two", "three")] == ["running", "running", "queued"]
    word, detail = reason(stage, "three")
    assert word == "budget_spent"
    assert "of 0.1 hours of cpu; the next period begins" in detail
    # The next holder reads what this one has written.
    stage.kill("d")
    stage.start("e", mirrored=mirrored)
    go_on(stage, 30)
    assert phase(stage, "three") == "queued"
    declare(stage, leaf("x", 8, budget={"hours": {"cpu": 100}}), leaf("y", 8))
    assert stage.run_until(lambda: phase(stage, "three") == "running", 20)


@pytest.mark.parametrize("spent", [True, False])
def test_a_budget_above_counts_all_below_in_this_period_only(stage: MemoryStage, spent: bool) -> None:
    month = BEGINNING if spent else BEGINNING.replace(day=1) - datetime.timedelta(days=1)
    add_meter(stage, Meter("default", "y", sums={MeterRow(f"{month:%Y-%m}", Owner("ann", "b")): {CPU: 1000 * 3600}}))
    both = {"name": "both", "parent": "all", "budget": {"hours": {"cpu": 1}}}
    declare(stage, both, leaf("x", 4, parent="both", default=True), leaf("y", 4, parent="both"))
    submit(stage, "one", 1)
    stage.start("d")
    go_on(stage, 30)
    assert (reason(stage, "one")[0] == "budget_spent") == spent
    assert phase(stage, "one") == ("queued" if spent else "running")


def test_a_user_has_no_more_started_gangs_than_a_queue_allows(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 16, default=True, user_limits={"running": 2}))
    for number in range(4):
        submit(stage, f"a{number}", 1, user="ann", seconds=30)
    submit(stage, "b", 1, "b", user="bob")
    submit(stage, "n", 1, "b")
    stage.start("d")
    assert stage.run_until(lambda: (phase(stage, "a1"), phase(stage, "n", "b")) == ("running", "running"), 20)
    found = {name: phase(stage, name, place) for name, place in (("a2", "a"), ("a3", "a"), ("b", "b"), ("n", "b"))}
    assert found == {"a2": "queued", "a3": "queued", "b": "running", "n": "running"}
    assert reason(stage, "a2") == ("user_limit", "the user ann has 2 of 2 started gangs in queue all/x")
    told = state(stage, "a2")["verdict"]["layers"][0]["trees"][0]["reached"]
    assert (told["kind"], told["used"], told["limit"]) == ("running", "2", "2")
    assert stage.run_until(lambda: phase(stage, "a3") == "running", 60)


def test_a_strict_queue_is_not_held_up_by_a_user_with_enough(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 16, default=True, user_limits={"resources": {"cpu": 2}, "pending": 2}))
    for number in range(4):
        submit(stage, f"a{number}", 2, user="ann")
    submit(stage, "b", 2, user="bob")
    stage.start("d", policy="strict")
    assert stage.run_until(lambda: phase(stage, "b") == "running", 60)
    go_on(stage, 10)
    told = {name: reason(stage, name)[1] for name in ("a1", "a2", "a3")}
    assert told["a1"] == "the user ann has 2 of 2 cpu in queue all/x, and it asks for 2"
    assert told["a3"] == "the user ann has 2 of 2 cpu in queue all/x, and it asks for 2"
    assert phase(stage, "a0") == "running"


@pytest.mark.parametrize("readable", [True, False])
def test_queues_are_compared_by_what_they_used(stage: MemoryStage, readable: bool) -> None:
    """What y used long ago counts more than what x has now; where nobody can tell, what is borrowed decides."""
    begin = int(BEGINNING.timestamp())
    add_meter(stage, Meter("default", "y", as_of=begin, recent={CPU: 1000 * 86_400}))
    if not readable:
        name = meter_name("default", "x")
        metadata = {"name": name, "namespace": "muster-system", "labels": {METER_LABEL: "default"}}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {METER_KEY: "{"}})
    settings = {"fair": "usage", "half_life": "1d", "max_evictions": 0}
    declare(stage, leaf("x", 0), leaf("y", 0), leaf("pool", 8), settings=settings)
    submit(stage, "large", 4, queue="x")
    made = stage.start("d", accrue_seconds=EVERY)
    assert stage.run_until(lambda: phase(stage, "large") == "running")
    submit(stage, "full", 4, queue="pool", seconds=20)
    assert stage.run_until(lambda: phase(stage, "full") == "running")
    submit(stage, "of-y", 4, queue="y")
    submit(stage, "of-x", 4, queue="x")
    assert stage.run_until(lambda: "running" in (phase(stage, "of-x"), phase(stage, "of-y")), 120)
    assert phase(stage, "of-x" if readable else "of-y") == "running"
    assert made.session is not None
    _decisions, warnings = made.session.journal.take()
    assert any("queues are compared by what they borrow" in text for text in warnings) is not readable
    assert stage.crashes == []
