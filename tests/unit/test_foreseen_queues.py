# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change of a quota tree would come to, and what it does come to when it is made."""

from __future__ import annotations

import json
import os
import random
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.options import QuotaOptions
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.would import foresee_change
from ansible_collections.muster.kube.plugins.module_utils._model.quota.reading import read_tree
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, TREE_LABEL, tree_text
from ansible_collections.muster.kube.plugins.module_utils._model.quota.tree import QuotaTree
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage

Object = dict[str, t.Any]
TREE = "muster-quota-default"
SEED = int(os.environ.get("MUSTER_SEED", "1"))
CHANGES = 100 if float(os.environ.get("MUSTER_SCALE", "0.1")) >= 1 else 20
PARTS = 5
NEW = ("dispatching", "dispatched", "running")


def draw_tree(chance: random.Random) -> QuotaTree:
    """Three queues, which may also be drained, held, or all in one."""
    queues: list[Object] = [{"name": "all", "extra": {"cpu": chance.choice((0, 0, 2))}}]
    for name in "xyz":
        queue: Object = {"name": name, "parent": "all", "nominal": {"cpu": chance.randint(0, 6)}}
        queue["weight"] = chance.choice((1, 1, 2))
        queue["reclaim"] = chance.choice(("any", "any", "lower_priority", "never"))
        if chance.random() < 0.3:
            queue["borrowing_limit"] = {"cpu": chance.randint(0, 3)}
        if chance.random() < 0.1:
            queue["stop"] = chance.choice(("hold", "drain"))
        queues.append(queue)
    settings = {"min_run_time": chance.choice((0, 0, 300)), "max_evictions": chance.choice((6, 10))}
    flavors = draw_flavors(chance, queues) if chance.random() < 0.4 else []
    return read_tree("default", {"queues": queues, "flavors": flavors, "settings": settings})


def draw_flavors(chance: random.Random, queues: list[Object]) -> list[Object]:
    """Each node a kind of its own, or one for all nodes; what queues have is that much of some kinds."""
    labels = chance.sample([{cases.HOSTNAME: "p-n0"}, {cases.HOSTNAME: "p-n1"}, {}], 2)
    flavors = [{"name": f"f{number}", "node_labels": found} for number, found in enumerate(labels)]
    for queue in queues:
        for key in [name for name in ("nominal", "extra", "borrowing_limit") if name in queue]:
            given = chance.choice((("f0",), ("f1",), ("f0", "f1")))
            queue[key] = {name: dict(queue[key]) for name in given}
    return flavors


def store(stage: MemoryStage, tree: QuotaTree | None) -> None:
    """An administrator declares a tree, or removes it."""
    there = stage.cluster.get("configmaps", "muster-system", TREE) is not None
    if tree is None:
        stage.cluster.remove("configmaps", "muster-system", TREE)
    elif there:
        text = tree_text(tree)
        stage.cluster.change("configmaps", "muster-system", TREE, lambda raw: raw["data"].update({TREE_KEY: text}))
    else:
        metadata = {"name": TREE, "namespace": "muster-system", "labels": {TREE_LABEL: "default"}}
        stage.cluster.add("configmaps", {"metadata": metadata, "data": {TREE_KEY: tree_text(tree)}})


def states(stage: MemoryStage) -> dict[str, Object]:
    """What all records say."""
    found = {}
    for record in stage.cluster.all("configmaps", "a"):
        if (record["metadata"].get("labels") or {}).get("muster.kube/record") == "gang":
            text = (record["metadata"].get("annotations") or {}).get("muster.kube/state")
            found[f"a/{record['metadata']['name']}"] = json.loads(text) if text else {"phase": "queued"}
    return found


def attempts(found: dict[str, Object], phases: t.Collection[str]) -> set[tuple[str, int]]:
    """Gangs in some phases, and which attempt it is."""
    return {(key, state.get("attempt", 1)) for key, state in found.items() if state["phase"] in phases}


@pytest.mark.parametrize("part", range(PARTS))
def test_a_change_comes_to_what_was_foreseen(part: int) -> None:
    found = [come_to_what_was_foreseen(f"{SEED}/{number}") for number in range(part, CHANGES, PARTS)]
    assert sum(found)


def test_the_first_gang_in_order_has_the_room_of_a_drained_one() -> None:
    """Its pods leave one by one, and a smaller gang behind the first would fit as soon as one of them has."""
    assert come_to_what_was_foreseen("5/64")


def come_to_what_was_foreseen(seed: str) -> int:
    """How many gangs started or went when a tree was changed: those of which it was foreseen."""
    chance = random.Random(seed)
    with MemoryStage(1) as stage:
        stage.add_namespace("a")
        stage.add_nodes(*cases.node_pool("p", 2))
        store(stage, draw_tree(chance))
        for turn in range(chance.randint(3, 9)):
            job = cases.job(f"g{turn}-j", "p", chance.randint(1, 3))
            options = {"queue": chance.choice("xyz"), "priority": chance.choice((0, 0, 3))}
            stage.cluster.add("configmaps", cases.gang_record(f"g{turn}", "a", [job], **options))
        stage.start("one")
        stage.run_for(30)
        stage.kill("one")
        wanted = draw_tree(chance) if chance.random() < 0.9 else None
        before = states(stage)
        options = QuotaOptions("default", "muster-system", "present", {}, check_mode=True)
        would, notes = foresee_change(stage.admin(), options, wanted)
        assert notes == []
        assert would is not None
        assert states(stage) == before
        store(stage, wanted)
        stage.start("two")
        # Both times together are shorter than the pause of whoever was evicted.
        stage.run_for(25)
        after = states(stage)
        begun = {key for key, _attempt in attempts(after, NEW) - attempts(before, NEW)}
        went = {key for key, state in after.items() if state.get("attempt", 1) > before[key].get("attempt", 1)}
        assert (set(would["start"]), set(would["reclaim"])) == (begun, went), f"seed {seed}"
        told = {item["gang"]: item["reason"] for item in would["wait"]}
        waits = {key: state["verdict"]["reason"] for key, state in after.items() if state["phase"] == "queued"}
        assert told == {key: reason for key, reason in waits.items() if key not in went}, f"seed {seed}"
        return len(begun) + len(went)
