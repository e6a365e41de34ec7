# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Evictions under attack: forged states and pods, victims that do not go, askers that cannot start, several trees."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.muster.kube.tests.support import gang_cases as cases
from ansible_collections.muster.kube.tests.support.memory_cluster import Barrier
from ansible_collections.muster.kube.tests.support.memory_dispatcher import MemoryStage
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


def forge(stage: MemoryStage, name: str, **changed: t.Any) -> None:
    """What somebody writes into the state of a gang."""

    def edit(raw: cases.Object) -> None:
        annotations = raw["metadata"]["annotations"]
        annotations["muster.kube/state"] = json.dumps({**json.loads(annotations["muster.kube/state"]), **changed})

    stage.cluster.change("configmaps", "a", name, edit)


def test_a_victim_that_never_goes_is_not_waited_for_without_end(stage: MemoryStage) -> None:
    """Its pods have a finalizer that nobody removes; others that borrow would free enough."""
    declare(stage, leaf("x", 0), leaf("y", 8), min_run_time=0, nominate_timeout=30)
    submit(stage, "b1", 4, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "b1"))
    submit(stage, "stuck", 4, "x")
    assert stage.run_until(running(stage, "stuck"))
    kept = {"finalizers": ["example.com/stay"]}
    for pod in stage.cluster.all("pods", "a"):
        if pod["metadata"]["name"].startswith("stuck"):
            stage.cluster.change("pods", "a", pod["metadata"]["name"], lambda raw: raw["metadata"].update(kept))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(lambda: state(stage, "stuck")["phase"] == "evicting", 30)
    assert stage.run_until(running(stage, "owner"), 300), state(stage, "owner")["verdict"]


def test_labels_on_pods_do_not_make_owners_wait_for_them(stage: MemoryStage) -> None:
    """Pods of nobody that carry the label of a waiting gang look as if they were about to go."""
    declare(stage, leaf("x", 0), leaf("y", 8))
    submit(stage, "borrower", 4, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "bait", 100, "x")
    uid = found(stage, "bait")["metadata"]["uid"]
    node = next(pod["spec"]["nodeName"] for pod in stage.cluster.all("pods", "a"))
    other = "p-n1" if node == "p-n0" else "p-n0"
    for number in range(4):
        pod = cases.pod(f"squatter{number}", "b", None, node=other)
        pod["metadata"]["labels"] = {"muster.kube/gang": uid}
        stage.cluster.add("pods", pod)
    submit(stage, "owner", 4, "y")
    assert stage.run_until(running(stage, "owner"), 300), state(stage, "owner").get("verdict")


@pytest.mark.parametrize("began", ["2099-01-01T00:00:00Z", None])
def test_a_forged_start_does_not_protect_a_borrower(stage: MemoryStage, began: str | None) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4), min_run_time=60)
    submit(stage, "borrower", 8, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    forge(stage, "borrower", started_at=began)
    submit(stage, "owner", 4, "y")
    assert stage.run_until(running(stage, "owner"), 300), state(stage, "borrower")


def test_a_forged_number_of_evictions_does_no_harm(stage: MemoryStage) -> None:
    declare(stage, leaf("x", 4), leaf("y", 4))
    submit(stage, "borrower", 8, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    forge(stage, "borrower", evictions=2**31 - 1)
    submit(stage, "owner", 4, "y", max_run_time=60)
    assert stage.run_until(running(stage, "owner"), 300), state(stage, "borrower")
    assert stage.run_until(running(stage, "borrower"), 5000), state(stage, "borrower")
    assert stage.crashes == []


def test_one_that_cannot_start_speaks_for_nobody_else_of_its_kind(stage: MemoryStage) -> None:
    """Two owners ask for the same; the first would collide with an object of a gang that runs."""
    declare(stage, leaf("x", 0), leaf("y", 8))
    submit(stage, "keeper", 1, "y", job=cases.job("same-j", "p", 1))
    submit(stage, "borrower", 7, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "keeper", "borrower"))
    submit(stage, "blocked", 3, "y", job=cases.job("same-j", "p", 3))
    stage.run_for(1)
    submit(stage, "owner", 3, "y")
    assert stage.run_until(running(stage, "owner"), 120), state(stage, "owner").get("verdict")


def found(stage: MemoryStage, name: str) -> cases.Object:
    """The record of a gang."""
    record = stage.cluster.get("configmaps", "a", name)
    assert record is not None
    return record


def test_a_gang_of_others_speaks_for_nobody_of_this_run(stage: MemoryStage) -> None:
    """A run for two gangs sees an equal one, which it is not for, before its own."""
    declare(stage, leaf("x", 0), leaf("y", 8))
    submit(stage, "borrower", 8, "x")
    submit(stage, "other", 3, "y", suspended=True)
    stage.run_for(1)
    submit(stage, "owner", 3, "y", suspended=True)
    only = frozenset(found(stage, name)["metadata"]["uid"] for name in ("borrower", "owner"))
    stage.start("d", only=only)
    assert stage.run_until(running(stage, "borrower"))
    for name in ("other", "owner"):
        text = found(stage, name)["data"]["gang.json"].replace('"suspended":true', '"suspended":false')
        stage.cluster.change("configmaps", "a", name, lambda raw, text=text: raw["data"].update({"gang.json": text}))
    assert stage.run_until(running(stage, "owner"), 120), state(stage, "owner").get("verdict")


def test_a_gang_elsewhere_speaks_for_nobody_of_this_run(stage: MemoryStage) -> None:
    """The dispatcher of b sees an equal gang of a, which nobody starts, before its own."""
    declare(stage, leaf("x", 0), leaf("y", 8))
    submit(stage, "borrower", 8, "x", namespace="b")
    stage.start("d", ["b"])
    done = lambda: state(stage, "borrower", "b")["phase"] == "running"  # noqa: E731
    assert stage.run_until(done)
    submit(stage, "other", 3, "y", namespace="a")
    stage.run_for(1)
    submit(stage, "owner", 3, "y", namespace="b")
    stage.run_for(60)
    assert state(stage, "owner", "b")["phase"] == "running", state(stage, "owner", "b").get("verdict")


def test_what_was_freed_for_a_gang_elsewhere_is_not_taken(stage: MemoryStage) -> None:
    """The dispatcher of a evicts for its owner and dies; that of b finds the room free."""
    declare(stage, leaf("x", 4), leaf("y", 4), leaf("z", 0), min_run_time=0, nominate_timeout=300)
    submit(stage, "borrower", 8, "x")
    stage.start("one", ["a"])
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(lambda: state(stage, "borrower")["phase"] == "evicting", 60)
    assert stage.run_until(lambda: state(stage, "borrower")["phase"] == "queued", 60)
    stage.kill("one")
    if state(stage, "owner")["phase"] != "queued":
        pytest.fail("it was quicker than the test")
    submit(stage, "greedy", 8, "z", namespace="b")
    stage.start("two", ["b"])
    stage.run_for(60)
    assert state(stage, "greedy", "b")["phase"] == "queued"
    stage.kill("two")
    stage.start("one", ["a"])
    assert stage.run_until(running(stage, "owner"), 60)


def test_nobody_is_evicted_over_and_over_for_one_that_the_server_refuses_in_earnest(stage: MemoryStage) -> None:
    """A webhook lets dry runs pass and refuses what is meant."""
    declare(stage, leaf("x", 4), leaf("y", 4))
    submit(stage, "borrower", 8, "x")
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    stage.cluster.barriers.append(Barrier("quota", "a", "jobs", 1e9, dry=False, name="owner-.*"))
    submit(stage, "owner", 4, "y")
    stage.run_for(4000)
    assert state(stage, "borrower")["evictions"] == state(stage, "owner")["nominations"] == 3
    assert state(stage, "borrower")["phase"] == "running"


def test_two_trees_take_nobody_who_is_not_needed(stage: MemoryStage) -> None:
    """What the second tree takes would have been enough for the first, too."""
    declare(stage, leaf("x", 0), leaf("y", 8))
    declare(stage, leaf("u", 4, lending_limit={"cpu": 0}), leaf("v", 4), leaf("w", 0), tree="zone")
    submit(stage, "needed", 4, "x", labels={"zone": "w"})
    stage.start("d")
    assert stage.run_until(running(stage, "needed"))
    stage.run_for(2)
    submit(stage, "newer", 4, "x", labels={"zone": "u"})
    assert stage.run_until(running(stage, "newer"))
    submit(stage, "owner", 4, "y", labels={"zone": "v"})
    assert stage.run_until(running(stage, "owner"), 120), state(stage, "owner").get("verdict")
    assert phases(stage, "needed", "newer") == ["queued", "running"]


def test_a_second_tree_does_not_keep_an_owner_from_its_nodes(stage: MemoryStage) -> None:
    """Quota of both trees is larger than the nodes: borrowers of the first one are in the way."""
    declare(stage, leaf("x", 0), leaf("y", 16))
    declare(stage, leaf("everybody", 100), tree="zone")
    submit(stage, "borrower", 8, "x", labels={"zone": "everybody"})
    stage.start("d")
    assert stage.run_until(running(stage, "borrower"))
    submit(stage, "owner", 4, "y", labels={"zone": "everybody"})
    assert stage.run_until(running(stage, "owner"), 120), state(stage, "owner").get("verdict")


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_record_that_cannot_be_read_keeps_no_owner_from_its_own(stage: MemoryStage, mirrored: bool) -> None:
    """Whoever borrows breaks the text of a record after its start; others that borrow still go."""
    declare(stage, leaf("x", 0), leaf("y", 8), min_run_time=0)
    submit(stage, "broken", 4, "x")
    stage.start("d", mirrored=mirrored)
    assert stage.run_until(running(stage, "broken"))
    submit(stage, "borrower", 4, "x")
    assert stage.run_until(running(stage, "borrower"))
    stage.cluster.change("configmaps", "a", "broken", lambda raw: raw["data"].update({"gang.json": "{"}))
    submit(stage, "owner", 4, "y")
    assert stage.run_until(running(stage, "owner"), 120), state(stage, "owner")
    assert "evicting" in history(stage, "borrower")
    assert "evicting" not in history(stage, "broken")
