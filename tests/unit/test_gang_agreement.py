# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check mode of gang and the next real run agree on every gang, in whatever situation a cluster is.

Drawn are tasks that queue, change, suspend, replace, rerun, start and remove gangs in records of both kinds, beside
gangs that wait, run, end, fail, and are edited or deleted by others, servers that refuse their objects, and trees.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.dispatch.run import DispatchResult
from ansible_collections.muster.kube.plugins.module_utils._flow.fit.request import GangSource
from ansible_collections.muster.kube.plugins.module_utils._flow.gang import run
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.options import GangAsk, GangOptions, GangSettings
from ansible_collections.muster.kube.plugins.module_utils._flow.gang.run import GangAnswer, NotReached, run_gangs
from ansible_collections.muster.kube.plugins.module_utils._model.gang.state import UNDOING
from ansible_collections.muster.kube.plugins.module_utils._model.values.errors import MusterError
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.options import DispatchOptions
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.explorer_quota import (
    change_tree,
    draw_change,
    draw_queue,
    draw_tree,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryStage

SEED = int(os.environ.get("MUSTER_SEED", "1"))
FULL = float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1
# Each course shows so many worlds, one after the other.
STEPS = 20
COURSES = 20 if FULL else 2
NAMES = ("g0", "g1", "g2", "g3")
ANSWERS = ("quota", "denied", "invalid", "no_dry_run")
# Of tasks like these nobody can say beforehand what they come to.
LATER = "a real run waits"
BUSY = "is a dispatcher running?"


class Course:
    """One cluster in memory, what happens to it, and the tasks of its user, drawn by a seed."""

    def __init__(self, stage: MemoryStage, chance: random.Random, shared: random.Random | None = None) -> None:
        """With shared the cluster has a quota tree, which is drawn by it."""
        self.shared = shared
        self.stage = stage
        self.cluster = stage.cluster
        self.chance = chance
        self.objects = 0
        stage.add_namespace("a")
        stage.add_nodes(*cases.node_pool("p", 2))
        if chance.random() < 0.7:
            self.cluster.serve_wrappers(ours=chance.random() < 0.8)
        self.others = stage.dispatcher("others", ["a"])
        if shared is not None:
            change_tree(self.cluster, draw_tree(shared, ("a",)))

    def happen(self) -> None:
        """A few things between two tasks."""
        if self.shared is not None and self.shared.random() < 0.3:
            change_tree(self.cluster, draw_change(self.shared, ("a",)))
        if self.chance.random() < 0.7:
            self.others.cycle()
            self.others.release()
        self.cluster.clock.advance(self.chance.choice((0, 1, 3, 10)))
        name = self.chance.choice(NAMES)
        if self.chance.random() < 0.1:
            self.cluster.remove("configmaps", "a", name)
        if self.chance.random() < 0.1:
            self.cluster.change("configmaps", "a", name, self.edit)

    def edit(self, record: cases.Object) -> None:
        """Change the objects of a gang behind the task's back."""
        written = {**json.loads(record["data"]["gang.json"]), "objects": [self.job()]}
        record["data"]["gang.json"] = json.dumps(written)

    def job(self) -> cases.Object:
        """A Job, sometimes one that the server does not take."""
        self.objects += 1
        name = f"j{self.objects if self.chance.random() < 0.4 else self.chance.randrange(4)}"
        if self.chance.random() < 0.2:
            answer, until = self.chance.choice(ANSWERS), self.cluster.clock.now + 30
            self.cluster.barriers.append(Barrier(answer, "a", "jobs", until, name=name))
        pods, exit_code = self.chance.choice((1, 2, 2, 8, 9)), self.chance.choice((None, None, 3))
        return cases.job(name, "p", pods, seconds=self.chance.choice((None, 3)), exit_code=exit_code)

    def task(self) -> GangOptions:
        """The options of a task."""
        state = self.chance.choices(("present", "absent", "suspended"), (8, 1, 1))[0]
        names = self.chance.sample(NAMES, self.chance.choice((1, 1, 2)))
        return GangOptions(
            state=t.cast(t.Any, state),
            gangs=tuple(self.ask(name, state) for name in names),
            store=self.chance.choice(("auto", "auto", "configmap", "appwrapper")),
            replace=self.chance.random() < 0.3,
            rerun=self.chance.random() < 0.3,
            wait=False,
            wait_timeout=0.0,
            dispatch=state != "absent" and self.chance.random() < 0.5,
            wait_for=self.chance.choice((None, None, "queued", "dispatched", "complete")),
            lease=LEASE,
        )

    def ask(self, name: str, state: str) -> GangAsk:
        """One gang of a task: what is there already, something else, or only its name."""
        wish = draw_queue(self.shared) if self.shared is not None else {}
        settings = GangSettings(priority=self.chance.choice((None, None, 5)), queue=wish.get("queue"))
        if state != "present" and self.chance.random() < 0.7:
            return GangAsk(GangSource(name=name, namespace="a"))
        known = self.cluster.get("configmaps", "a", name)
        if known is not None and self.chance.random() < 0.5:
            objects = json.loads(known["data"]["gang.json"])["objects"]
            return GangAsk(GangSource(name=name, namespace="a", definition=objects), settings)
        objects = [self.job()]
        if self.chance.random() < 0.1:
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
            objects.append(self.chance.choice((node, secret, cases.service("s"))))
        definition = cases.app_wrapper(name, "a", objects) if self.chance.random() < 0.3 else objects
        return GangAsk(GangSource(name=name, namespace="a", definition=definition), settings)

    def perform(self, options: GangOptions) -> GangAnswer | MusterError:
        """What a task comes to."""
        try:
            return run_gangs(self.stage.admin, options, lambda _text: None)
        except MusterError as error:
            return error

    def dispatch(
        self, _client: t.Any, _renewal: t.Any, options: DispatchOptions, *_more: t.Any, **_rest: t.Any
    ) -> t.Any:
        """One cycle for the gangs of a task."""
        dispatcher = self.stage.dispatcher("task")
        dispatcher.terms = options
        cycle = dispatcher.cycle()
        decisions, warnings = cycle.session.journal.take()
        dispatcher.release()
        return DispatchResult(decisions=decisions, warnings=warnings)


def actions(answer: GangAnswer) -> dict[str, str]:
    """What became of each gang."""
    return {outcome.name: outcome.action for outcome in answer.outcomes}


def has_errors(answer: GangAnswer) -> bool:
    """Whether check mode says that the server would refuse an object."""
    return any(item["error"] for outcome in answer.outcomes for item in outcome.extra.get("would_create", ()))


def compare(told: GangAnswer | MusterError, done: GangAnswer | MusterError) -> None:
    """Check mode told what was done."""
    if isinstance(told, MusterError):
        if BUSY in str(done):
            # The gang before it has to be waited for.
            return
        assert (type(told), str(told).replace("it fails: ", "it failed: ")) == (type(done), str(done))
        return
    if any(LATER in (outcome.message or "") for outcome in told.outcomes):
        assert isinstance(done, MusterError), done
        return
    if isinstance(done, NotReached):
        # An undo that leads to failed may end in the very next cycle.
        assert has_errors(told) or any(item.record and item.record.phase in UNDOING for item in told.outcomes), done
        return
    assert not isinstance(done, MusterError), done
    assert actions(told) == actions(done)
    if any(outcome.extra.get("not_checked") for outcome in told.outcomes):
        # What no dry run shows may be refused after all.
        return
    assert told.changed == done.changed
    if not any(outcome.changed for outcome in told.outcomes):
        assert told.started == done.started
    for before, after in zip(told.outcomes, done.outcomes, strict=True):
        assert before.store == after.store
        if after.record is not None and after.record.uid in done.started and "would_create" in before.extra:
            made = [{key: item[key] for key in ("apiVersion", "kind", "name")} for item in before.extra["would_create"]]
            objects = after.as_result()["objects"]
            assert made == [{key: item[key] for key in ("apiVersion", "kind", "name")} for item in objects]
            assert not any(item["error"] for item in before.extra["would_create"])


@pytest.mark.parametrize("number", range(COURSES))
def test_check_mode_and_the_next_run_agree(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = 10_000 * SEED + number
    with MemoryStage(seed) as stage:
        course = Course(stage, random.Random(seed), random.Random(-seed) if number % 2 else None)
        monkeypatch.setattr(run, "run_dispatch", course.dispatch)
        for step in range(STEPS):
            course.happen()
            options = course.task()
            before = stage.cluster.version
            told = course.perform(dataclasses.replace(options, check_mode=True))
            assert stage.cluster.version == before, "check mode has written something"
            done = course.perform(options)
            try:
                compare(told, done)
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {step}: {options}\n{told}\n{done}\n{error}") from error
