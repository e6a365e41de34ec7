# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Four dispatchers over a hundred gangs in twelve queues, while somebody changes the tree and two of them are killed.

Everything is counted from the history of the cluster alone, by arithmetic that is not the dispatcher's.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import random
import time
import typing as t

import pytest
from ansible_collections.muster.kube.plugins.module_utils._flow.quota.reading import read_use
from ansible_collections.muster.kube.plugins.module_utils._kube.paths import resource_path
from ansible_collections.muster.kube.plugins.module_utils._kube.reads import get_object, list_objects
from ansible_collections.muster.kube.plugins.module_utils._kube.writes import patch
from ansible_collections.muster.kube.plugins.module_utils._model.gang.batch import LeaseOptions
from ansible_collections.muster.kube.plugins.module_utils._model.quota.text import TREE_KEY, tree_from_text
from ansible_collections.muster.kube.plugins.module_utils._model.values.timestamp import read_time
from ansible_collections.muster.kube.tests.support.dispatch_process import DispatchProcess, Orders
from ansible_collections.muster.kube.tests.support.dispatch_stage import free_lease
from ansible_collections.muster.kube.tests.support.explorer_quota import MAP_NAME, QuotaReplay, Tree, stored_tree
from ansible_collections.muster.kube.tests.support.gang_cases import claim, gang_record, job, node_pool
from ansible_collections.muster.kube.tests.support.invariants import Findings, Recorder, Seen
from ansible_collections.muster.kube.tests.support.live_cluster import LiveCluster, wait_until

Object = dict[str, t.Any]
pytestmark = pytest.mark.full

RIVALS, KILLED = 4, 2
ALL_GANGS, CHANGES = 100, 16
QUEUES = tuple(f"rival-{number}" for number in range(12))
NODES = 6
# A start may rest on a tree that was replaced so many seconds before its ticket was made.
PATIENCE_OF_STARTS = 5.0
# The tree is changed after so many seconds in which no gang has ended, too.
LULL = 8.0
# Never reached when things work.
PATIENCE = 1500.0


def draw_tree(chance: random.Random) -> Tree:
    """Twelve queues, most with little of their own, that together have about what the nodes have."""
    leaves = {}
    for name in QUEUES:
        leaf: Tree = {"nominal": chance.choice((0, 1, 2, 2, 3, 6))}
        if chance.random() < 0.2:
            leaf["most"] = chance.choice((0, 2))
        if chance.random() < 0.2:
            leaf["reclaim"] = chance.choice(("never", "lower_priority"))
        if chance.random() < 0.05:
            leaf["stop"] = "hold"
        leaves[name] = leaf
    return {"extra": chance.choice((0, 2, 6)), "leaves": leaves, "settings": {"min_run_time": chance.choice((0, 0, 5))}}


def last_tree() -> Tree:
    """One under which every gang can run in the end."""
    return {"extra": 0, "leaves": {name: {"nominal": 2} for name in QUEUES}, "settings": {"min_run_time": 0}}


def rival_gang(chance: random.Random, number: int, namespace: str, pool: str) -> Object:
    """A gang of up to six pods that keeps a claim."""
    stem = f"r{number}"
    jobs = [
        job(f"{stem}-{letter}", pool, chance.randint(1, 3), seconds=chance.choice((1, 5, 15)), cpu="1")
        for letter in "ab"[: chance.randint(1, 2)]
    ]
    kept = [claim(f"{stem}-c")] if chance.random() < 0.5 else []
    queue = chance.choice(QUEUES)
    return gang_record(f"gang-{number:03}", namespace, [*kept, *jobs], priority=chance.randint(0, 3), queue=queue)


class Rivalry:
    """The cluster of one test, and what is done to it."""

    def __init__(self, cluster: LiveCluster, home: str, chance: random.Random) -> None:
        """Home holds the Lease, the tree and a part of the gangs."""
        self.cluster = cluster
        self.home = home
        self.places = (home, f"{home}-b", f"{home}-c")
        self.chance = chance
        self.changes = 0
        self.processes: list[DispatchProcess] = []

    def prepare(self) -> None:
        """Nodes, namespaces, a Lease and the first tree."""
        for place in self.places[1:]:
            self.cluster.namespace(place)
        self.cluster.add_nodes(node_pool(self.home, NODES, cpu="4"))
        first = stored_tree(draw_tree(self.chance))
        first["metadata"]["namespace"] = self.home
        lease = free_lease(LeaseOptions(self.home, "dispatch"))
        self.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", **first}, lease)

    def leave(self) -> None:
        """Take everything away again."""
        for place in self.places:
            self.cluster.clear_namespace(place)
        self.cluster.remove_nodes([node["metadata"]["name"] for node in node_pool(self.home, NODES)])

    def change_tree(self, tree: Tree) -> None:
        """Somebody declares another tree."""
        text = stored_tree(tree)["data"][TREE_KEY]
        path = resource_path("v1", "configmaps", self.home, MAP_NAME)
        patch(self.cluster.client, path, {"data": {TREE_KEY: text}})
        self.changes += 1

    def ended(self) -> int:
        """How many gangs are complete."""
        path = resource_path("v1", "configmaps")
        selector = "muster.kube/phase=complete"
        found = list_objects(
            self.cluster.client, path, keep=lambda raw: raw["metadata"]["namespace"], label_selector=selector
        )
        return sum(place in self.places for place in found.items)

    def kill_holder(self) -> bool:
        """End the process that has the Lease."""
        lease = get_object(
            self.cluster.client, resource_path("coordination.k8s.io/v1", "leases", self.home, "dispatch")
        )
        identity = str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")
        for process in self.processes:
            if process.alive and f"_{process.running.pid}_" in f"{identity}_":
                process.kill()
                return True
        return False

    def disturb(self, count: int) -> None:
        """Change the tree again and again while gangs come to their end, and kill two dispatchers on the way."""
        for turn in range(1, CHANGES):
            goal, end = count * turn // (CHANGES + 1), time.monotonic() + LULL
            wait_until("gangs to end", lambda goal=goal, end=end: self.ended() >= goal or time.monotonic() > end)
            self.change_tree(draw_tree(self.chance))
            if turn in (CHANGES // 3, 2 * CHANGES // 3):
                wait_until("somebody to dispatch", self.kill_holder)
        self.change_tree(last_tree())


@pytest.fixture
def rivalry(cluster: LiveCluster, namespace: str, seed: int) -> t.Iterator[Rivalry]:
    """A place for all this."""
    made = Rivalry(cluster, namespace, random.Random(f"{seed}/quota rivals"))
    made.prepare()
    yield made
    made.leave()


def test_nothing_is_given_twice_or_lost_while_the_tree_changes(
    rivalry: Rivalry, tmp_path: pathlib.Path, scale: float
) -> None:
    cluster, chance = rivalry.cluster, rivalry.chance
    records = [
        rival_gang(chance, number, chance.choice(rivalry.places), rivalry.home)
        for number in range(max(10, round(ALL_GANGS * scale)))
    ]
    expected = [f"{record['metadata']['namespace']}/{record['metadata']['name']}" for record in records]
    with Recorder(cluster, rivalry.places, expected=expected) as recorder, contextlib.ExitStack() as stack:
        cluster.create(*records)
        for number in range(RIVALS):
            orders = Orders(
                cluster.kubeconfig,
                rivalry.home,
                rivalry.places,
                duration=PATIENCE,
                lease_wait=PATIENCE,
                until=("complete",),
            )
            rivalry.processes.append(stack.enter_context(DispatchProcess(orders, tmp_path / f"log-{number}")))
        rivalry.disturb(len(records))
        left = [process for process in rivalry.processes if process.alive]
        wait_until("all to end", lambda: not any(process.alive for process in left), PATIENCE, 1.0)
        findings = recorder.settled(seconds=30.0)
        history = recorder.history()
    replay = QuotaReplay(PATIENCE_OF_STARTS, rivalry.home)
    for seen in history:
        replay.take(seen.at, seen.plural, seen.gone, seen.object)
    evictions, vain = evictions_in(history, replay)
    tell(findings, replay, evictions, vain, rivalry)
    assert findings.clean(), str(findings)
    assert findings.gaps == 0
    assert findings.phases == dict.fromkeys(expected, "complete")
    assert len(left) == RIVALS - KILLED
    assert replay.found == []
    assert vain == []
    assert lost_claims(cluster, rivalry.places, history) == []
    leaked = used_in_the_end(cluster, rivalry.home)
    assert leaked == dict.fromkeys(QUEUES, (0, 0))


def states_of(history: t.Iterable[Seen]) -> t.Iterator[tuple[Seen, Object]]:
    """What records said, change by change."""
    for seen in history:
        metadata = seen.object["metadata"]
        if seen.plural == "configmaps" and (metadata.get("labels") or {}).get("muster.kube/record") == "gang":
            text = (metadata.get("annotations") or {}).get("muster.kube/state")
            if text is not None:
                yield seen, json.loads(text)


def evictions_in(history: t.Iterable[Seen], replay: QuotaReplay) -> tuple[int, list[str]]:
    """How many gangs were evicted, and for whom in vain.

    In vain is what was freed for a gang that then did not start, though the tree stayed as it was meanwhile.
    """
    evictions, vain = 0, []
    phases: dict[str, str] = {}
    held: dict[str, float] = {}
    for seen, state in states_of(history):
        uid, name = seen.object["metadata"]["uid"], seen.object["metadata"]["name"]
        evictions += state["phase"] == "evicting" and phases.get(uid) != "evicting"
        phases[uid] = state["phase"]
        if state.get("nominated"):
            held.setdefault(uid, seen.at)
        elif uid in held:
            since = held.pop(uid)
            same = len(replay.trees.within(since - PATIENCE_OF_STARTS, seen.at)) == 1
            if state["phase"] == "queued" and same:
                vain.append(f"{name} was nominated for {seen.at - since:.1f} s and did not start")
    return evictions, vain


def lost_claims(cluster: LiveCluster, places: t.Iterable[str], history: t.Iterable[Seen]) -> list[str]:
    """Claims that are gone, or were made again after the first start of their gang."""
    made = {
        (item["metadata"]["namespace"], item["metadata"]["name"]): read_time(item["metadata"]["creationTimestamp"])
        or 0.0
        for place in places
        for item in list_objects(
            cluster.client, resource_path("v1", "persistentvolumeclaims", place), keep=lambda raw: raw
        ).items
    }
    lost = []
    for record, state in {
        seen.object["metadata"]["uid"]: (seen.object, state) for seen, state in states_of(history)
    }.values():
        went = [read_time(item[1]) or 0.0 for item in state["transitions"] if item[0] == "evicting"]
        for obj in json.loads(record["data"]["gang.json"])["objects"]:
            if obj["kind"] == "PersistentVolumeClaim":
                created = made.get((record["metadata"]["namespace"], obj["metadata"]["name"]))
                if created is None or (went and created > went[0]):
                    lost.append(f"{obj['metadata']['name']}: made at {created}, its gang was evicted at {went}")
    return lost


def used_in_the_end(cluster: LiveCluster, home: str) -> dict[str, tuple[int, int]]:
    """Of each queue the started gangs, and the thousandths of cpu that are used."""
    stored = get_object(cluster.client, resource_path("v1", "configmaps", home, MAP_NAME))
    assert stored is not None
    tree = tree_from_text("default", stored["data"][TREE_KEY])
    charged = read_use(cluster.client, LeaseOptions(home, "dispatch")).charged(tree)
    assert charged is not None
    return {
        name: (charged.counts[name].started, sum(charged.usage.used(name, key) for key in tree.keys)) for name in QUEUES
    }


def tell(findings: Findings, replay: QuotaReplay, evictions: int, vain: list[str], rivalry: Rivalry) -> None:
    """The figures of a run."""
    overshoot = [text for text in replay.found if text.startswith("overshoot")]
    starts = sum(findings.attempts.values())
    print(
        f"{len(findings.phases)} gangs, {starts} attempts, {evictions} evictions, tree changed {rivalry.changes} times"
    )
    print(f"overshoot {len(overshoot)}, other quota findings {len(replay.found) - len(overshoot)}, in vain {len(vain)}")
    print(f"findings {findings.counts()}")
