# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cases of MCAD's own quota tests by a dispatcher in memory: what runs is what the trees' arithmetic says.

The real MCAD and a real dispatcher get them in tests/integration/test_mcad_quota.py.
"""

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.mcad_forest import (
    ACTINIDES,
    CONTEXT,
    GPU,
    NESTED,
    SERVICE,
    Forest,
    asks,
    imported_tree,
)
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
from ansible_collections.muster.kube.tests.support.reclaim_cases import state

GOLD = {CONTEXT: "gold", SERVICE: "gold"}
BRONZE = {CONTEXT: "bronze", SERVICE: "gold"}
SILVER = {CONTEXT: "silver", SERVICE: "default"}


class Course:
    """A dispatcher, and what is to be expected of it."""

    def __init__(self, stage: MemoryStage) -> None:
        """Without any tree."""
        self.stage = stage
        self.forest = Forest()
        self._live: dict[str, tuple[t.Any, ...]] = {}

    def begin(self, *trees: str) -> None:
        """The dispatcher dies; the next one finds these trees, under which what runs is charged."""
        for name in list(self.stage.actors):
            self.stage.kill(name)
        for name in trees:
            tree = imported_tree(name)
            tree = dataclasses.replace(tree, settings=dataclasses.replace(tree.settings, min_run_time=0))
            metadata = {"name": f"muster-quota-{tree.name}", "namespace": "muster-system"}
            if self.stage.cluster.get("configmaps", "muster-system", metadata["name"]) is None:
                labels = {TREE_LABEL: tree.name}
                text = {TREE_KEY: tree_text(tree)}
                self.stage.cluster.add("configmaps", {"metadata": {**metadata, "labels": labels}, "data": text})
        running, self.forest = self.forest.running, Forest(*trees)
        for name in running:
            self._ask(name)
        self.stage.start("d")

    def _ask(self, name: str) -> None:
        cpu, memory, gpu, priority, labels = self._live[name]
        self.forest.submit(name, asks(cpu, memory, gpu), priority, **labels)

    def submit(self, name: str, cpu: int, memory: int = 1, gpu: int = 0, priority: int = 0, **labels: str) -> str:
        """One wrapper; what becomes of it, which is the same for all."""
        self._live[name] = (cpu, memory, gpu, priority, labels)
        requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"} | ({GPU: str(gpu)} if gpu else {})
        job = cases.job(f"{name}-j", "p", 1, **requests)
        self.stage.cluster.add("configmaps", cases.gang_record(name, "a", [job], priority=priority, labels=labels))
        self._ask(name)
        return self.compare()[name]

    def end(self, *names: str) -> dict[str, str]:
        """Wrappers are over, and others may be let in."""
        for name in names:
            del self._live[name]
            self.stage.cluster.remove("configmaps", "a", name)
            if name in self.forest.running:
                self.forest.end(name)
        for name in self._live:
            if name not in self.forest.running:
                self._ask(name)
        return self.compare()

    def compare(self) -> dict[str, str]:
        """Let the dispatcher come to rest; everything is as expected."""
        self.stage.run_for(20)
        found = {
            name: {"queued": "pending"}.get(phase := state(self.stage, name)["phase"], phase) for name in self._live
        }
        assert found == {name: "running" if name in self.forest.running else "pending" for name in self._live}
        return found


@pytest.fixture
def course() -> t.Iterator[Course]:
    """Room that nobody runs out of."""
    with MemoryStage(1) as stage:
        stage.add_namespace("a")
        stage.add_nodes(*cases.node_pool("p", 2, cpu="8", **{GPU: "16"}))
        yield Course(stage)


def test_forest_04_to_11_errors_and_borrowing(course: Course) -> None:
    course.begin(CONTEXT, SERVICE)
    assert course.submit("gold", 600, **GOLD) == "running"
    assert course.submit("unknown", 100, quota_context="platinum", quota_service="gold") == "pending"
    course.end("unknown")
    assert course.submit("urgent", 600, priority=1000, **GOLD) == "running"
    assert course.submit("bronze", 400, priority=1000, **BRONZE) == "running"
    assert course.submit("more", 400, priority=1000, **BRONZE) == "pending"
    course.end("gold", "urgent", "bronze", "more")
    assert course.submit("first", 900, **BRONZE) == "running"
    assert course.submit("second", 900, **BRONZE) == "pending"
    assert course.end("first") == {"second": "running"}
    course.end("second")
    for labels in ({}, {"team": "x"}):
        assert course.submit("unlabeled", 900, **labels) == "running"
        course.end("unlabeled")
    for _time in range(2):
        assert course.submit("again", 1000, **GOLD) == "running"
        course.end("again")
    assert course.submit("silver", 1000, 600, 16, **SILVER) == "running"
    assert course.submit("owner", 500, 300, 8, **GOLD) == "running"
    assert course.compare() == {"silver": "pending", "owner": "running"}


def test_deployment_01_trees_come_while_wrappers_run(course: Course) -> None:
    course.begin()
    assert course.submit("before", 600, **GOLD) == "running"
    course.begin(CONTEXT, SERVICE)
    assert course.submit("after", 600, **GOLD) == "pending"
    assert course.end("before") == {"after": "running"}
    assert course.submit("bronze", 400, **BRONZE) == "running"


def test_deployment_02_and_03_a_dispatcher_dies_and_a_tree_without_a_default_leaf_comes(course: Course) -> None:
    course.begin(CONTEXT, SERVICE)
    assert course.submit("gold", 600, **GOLD) == "running"
    course.begin(CONTEXT, SERVICE)
    assert course.submit("late", 600, **GOLD) == "pending"
    course.end("gold", "late")
    course.begin(CONTEXT, SERVICE, ACTINIDES)
    assert course.submit("gold", 300, **GOLD) == "pending"
    assert course.submit("plutonium", 300, quota_actinides="plutonium", **GOLD) == "running"


def test_a_hard_node_keeps_nobody_from_its_own(course: Course) -> None:
    course.begin(NESTED)
    assert course.submit("borrower", 900, quota_nested="b") == "running"
    assert course.submit("owner", 500, quota_nested="a") == "running"
    assert course.submit("above", 100, quota_nested="team") == "pending"
