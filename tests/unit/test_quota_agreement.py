# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What quota_info tells of use is what a dispatcher's walk decides on: both read the same cluster in memory."""

from __future__ import annotations

import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import read_use
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, tree_from_text
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.quotas import Quotas
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.walk import Queue
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.explorer_quota import (
    change_tree,
    draw_queue,
    draw_tree,
)
from ansible_collections.muster.kube.tests.support.memory_cluster import Change
from ansible_collections.muster.kube.tests.support.memory_controllers import Pace
from ansible_collections.muster.kube.tests.support.memory_dispatcher import LEASE, MemoryDispatcher, MemoryStage
from ansible_collections.muster.kube.tests.support.memory_wire import Fault, Killed, Line
from ansible_collections.muster.kube.tests.support.quota_trees import CPU
from ansible_collections.muster.kube.tests.support.random_size import examples

SPACES = ("a", "b")
Amounts = dict[str, dict[t.Any, int]]


def amounts_of(quotas: Quotas) -> Amounts:
    """What is used of each queue, tree by tree."""
    return {
        f"{name}/{queue.name}": {key: usage.used(queue.name, key) for key in usage.tree.keys}
        for name, usage in quotas.usages.items()
        for queue in usage.tree.queues
    }


class Opened:
    """What walks opened, and which trees they were for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on."""
        self.seen: list[Amounts] = []
        self.trees: list[t.Any] = []
        usual = Queue._open_quotas

        def open_quotas(walk: Queue) -> Quotas:
            quotas = usual(walk)
            self.seen.append(amounts_of(quotas))
            self.trees.append(walk._world.quota.trees)
            return quotas

        monkeypatch.setattr(Queue, "_open_quotas", open_quotas)


def told(stage: MemoryStage, trees: t.Iterable[t.Any]) -> Amounts:
    """The same as quota_info reads it."""
    use = read_use(Line(stage.cluster).client(), LEASE)
    charged = {tree.name: use.charged(tree) for tree in trees}
    return {
        f"{name}/{queue.name}": {key: found.usage.used(queue.name, key) for key in found.usage.tree.keys}
        for name, found in charged.items()
        if found is not None
        for queue in found.usage.tree.queues
    }


def random_event(stage: MemoryStage, chance: random.Random, number: int) -> None:
    """A user queues a gang, deletes a record or a pod, makes pods by hand, or the tree is changed."""
    namespace = chance.choice(SPACES)
    kind = chance.choices(("submit", "delete", "kill", "forge", "tree"), (6, 2, 2, 1, 1))[0]
    if kind == "submit":
        seconds = chance.choice((None, 5, 20))
        job = cases.job(f"g{number}-j", "p", chance.randint(1, 3), **({"seconds": seconds} if seconds else {}))
        names = draw_queue(chance)
        labels = {"default": names.pop("label")} if "label" in names else {}
        record = cases.gang_record(f"g{number}", namespace, [job], **names)
        record["metadata"].setdefault("labels", {}).update(labels)
        stage.cluster.add("configmaps", record)
    elif kind == "tree":
        change_tree(stage.cluster, draw_tree(chance, SPACES))
    elif kind == "forge":
        pod = {"metadata": {"name": f"own{number}", "namespace": namespace, "labels": {"muster.kube/gang": "x"}}}
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
        stage.cluster.add("pods", {**pod, "spec": spec})
    else:
        gangs = [item for item in stage.cluster.all("configmaps", namespace) if "gang.json" in item.get("data", {})]
        plural, found = ("configmaps", gangs) if kind == "delete" else ("pods", stage.cluster.all("pods", namespace))
        if found:
            stage.cluster.remove(plural, namespace, chance.choice(found)["metadata"]["name"])


@pytest.mark.parametrize("defers", [False, True])
@pytest.mark.parametrize("seed", range(examples(4)))
def test_quota_info_tells_what_a_walk_decides_on(seed: int, defers: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compared after each cycle that wrote nothing: one that did decided on what was there before."""
    chance = random.Random(seed)
    opened = Opened(monkeypatch)
    compared = used = 0
    with MemoryStage(seed, Pace(stop=chance.choice((0.5, 20.0)))) as stage:
        for name in SPACES:
            stage.add_namespace(name)
        stage.add_nodes(*cases.node_pool("p", 2))
        change_tree(stage.cluster, draw_tree(chance, SPACES))
        dispatcher = MemoryDispatcher(stage.cluster, "d")
        changes: list[Change] = []
        stage.cluster.listeners.append(changes.append)
        dispatcher.defers = defers
        for number in range(60):
            random_event(stage, chance, number)
            dispatcher.pass_time(chance.choice((0.2, 1.0, 3.0)))
            opened.seen.clear()
            changes.clear()
            dispatcher.cycle()
            if opened.seen and all(change.plural in ("leases", "events") for change in changes):
                now = told(stage, opened.trees[-1])
                assert now == opened.seen[-1], f"seed {seed}, step {number}"
                compared += 1
                used += any(amount for amounts in now.values() for amount in amounts.values())
    assert compared >= 5
    assert used


def test_start_that_was_committed_and_not_begun_is_counted_until_it_is_settled() -> None:
    """Only the batch tells of it: whoever committed it may still begin."""
    with MemoryStage(1) as stage:
        stage.add_namespace("a")
        stage.add_nodes(*cases.node_pool("p", 2))
        tree = {"extra": 0, "leaves": {"x": {"nominal": 4, "default": True}}}
        change_tree(stage.cluster, tree)
        stage.cluster.add("configmaps", cases.gang_record("one", "a", [cases.job("one-j", "p", 3)]))
        dispatcher = MemoryDispatcher(stage.cluster, "d")
        assert dispatcher.acquire()
        dispatcher.line.faults.append(Fault("kill_before", "POST", path="/configmaps"))
        with pytest.raises(Killed):
            dispatcher.cycle()
        stored = stage.cluster.get("configmaps", "muster-system", "muster-quota-default")
        assert stored is not None
        declared = tree_from_text("default", stored["data"][TREE_KEY])
        assert told(stage, [declared])["default/x"] == {CPU: 3000}
