# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps a cycle short: what is not judged, copied, placed or looked for again for each gang."""

from __future__ import annotations

import argparse
import typing as t
from collections import Counter

import pytest
from ansible_collections.muster.kube.bench.decide import (
    AMOUNTS,
    GPU,
    GPUS,
    SIZES,
    Cluster,
    Measurement,
    Size,
    all_rows,
    rows,
)
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import reserve
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept_walk import KeptQueue
from ansible_collections.muster.kube.plugins.module_utils._policy.elastic import room_capacity
from ansible_collections.muster.kube.plugins.module_utils._policy.quota.usage import TreeUsage

QUEUES, WAITING = 100, 300
TERMS = argparse.Namespace(policy="reserve", profile=False, listing=False)


def measured(evictable: int = 0) -> Measurement:
    """A full cluster of which half of the queues borrow, after the cycle in which everything is worked out."""
    run = Measurement(Cluster(Size(20, WAITING, QUEUES, True, QUEUES, evictable), 1), TERMS)
    run.cycle()
    return run


@pytest.fixture(name="calls")
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often what is dear was done."""
    found: Counter[str] = Counter()

    def count(owner: t.Any, name: str) -> None:
        done = getattr(owner, name)

        def call(*args: t.Any, **kwargs: t.Any) -> t.Any:
            found[name] += 1
            return done(*args, **kwargs)

        monkeypatch.setattr(owner, name, call)

    count(KeptQueue, "_judge")
    count(TreeUsage, "copy")
    count(reserve, "place_outside")
    count(reserve.Reserver, "fit_without")
    count(room_capacity, "open_case")
    count(room_capacity, "try_to_fit")
    return found


def test_gangs_that_lack_quota_are_not_judged_one_by_one(calls: Counter[str]) -> None:
    run = measured()
    calls.clear()
    run.cycle()
    waits = [choice for choice in run.plan.choices if choice.verdict.reason == "quota"]
    assert len(waits) > WAITING / 2
    assert calls["_judge"] <= WAITING - len(waits)
    assert calls["copy"] <= 2


def test_a_cycle_that_evicts_looks_around_held_nodes_once_for_a_class_of_gangs(calls: Counter[str]) -> None:
    run = measured(evictable=50)
    run.cluster.follow(run.plan)
    run.cluster.end_one()
    calls.clear()
    run.cycle()
    evictions = run.plan.evictions
    reserved = [choice for choice in run.plan.choices if choice.verdict.reason == "reserved"]
    classes = len(SIZES) * len(AMOUNTS)
    assert evictions
    assert len(reserved) > 2 * classes
    # Those for whom others go look for places once for each try.
    assert calls["place_outside"] - calls["fit_without"] <= 2 * classes


def elastic(elastic: int, nodes: int = 20, **more: t.Any) -> Measurement:
    """A cluster whose GPUs are all taken by elastic gangs, after the cycle in which everything is worked out."""
    run = Measurement(Cluster(Size(nodes, 30, 10, True, elastic=elastic, **more), 1), TERMS)
    run.cycle()
    return run


def sizes(run: Measurement) -> dict[str, int]:
    """What the elastic gangs have."""
    return {uid: run.cluster.records[uid].state.allotment for uid in run.cluster.trainings}


@pytest.mark.parametrize("gangs", [10, 40])
def test_elastic_gangs_have_all_gpus_and_their_trainers_report(gangs: int) -> None:
    cluster = elastic(gangs).cluster
    assert not any(cluster.free.values())
    held = [pod.requests[GPU] for uid in cluster.trainings for pod, _gang_pod in cluster.pods[uid]]
    assert sum(held) == 20 * GPUS
    assert len(cluster.progress) == len(sizes(elastic(gangs))) == gangs


def test_those_of_fixed_size_have_the_same() -> None:
    cluster = elastic(10, fixed=True).cluster
    assert not any(cluster.free.values())
    assert not cluster.progress
    assert all(cluster.records[uid].spec.elastic is None for uid in cluster.trainings)


def test_others_grow_when_one_ended_and_shrink_for_one_that_comes() -> None:
    run = elastic(40)
    before = sizes(run)
    run.cluster.end_one()
    run.cycle()
    run.cluster.follow(run.plan)
    grown = sizes(run)
    assert any(grown[uid] > before[uid] for uid in grown) or run.plan.planned
    for _turn in range(3):
        run.cluster.come_one()
        run.cycle()
        run.cluster.follow(run.plan)
    assert any(size < grown[uid] for uid, size in sizes(run).items()) or run.plan.planned


def test_nobody_looks_for_places_where_no_gpu_is_free(calls: Counter[str]) -> None:
    run = elastic(10)
    calls.clear()
    run.cycle()
    assert calls["open_case"] == calls["try_to_fit"] == 0


def test_few_places_are_looked_for_when_one_has_to_shrink(calls: Counter[str]) -> None:
    run = elastic(40, nodes=80)
    calls.clear()
    run.cluster.come_one()
    run.cycle()
    assert run.plan.resized or run.plan.planned
    # Less than one for each gang that could shrink.
    assert 0 < calls["try_to_fit"] < 20


def test_rows_about_ranges_need_elastic_gangs() -> None:
    terms = argparse.Namespace(
        nodes=[5], waiting=[3], namespaces=1, args=["own"], rows=["idle", "queued"], queues=0, evictable=0, elastic=0
    )
    assert [row for row, _size in rows(terms)] == ["idle"]
    terms.elastic = 4
    found = dict(rows(terms))
    assert (found["queued"].gpu_queue, found["idle"].gpu_queue) == (True, False)
    assert found["idle"].plain == Size(5, 3, 1, True, elastic=4, fixed=True)


def test_clusters_of_the_usual_sizes_have_elastic_gangs_too() -> None:
    terms = argparse.Namespace(
        nodes=[200, 7], waiting=[3], namespaces=1, args=["own"], rows=["idle"], queues=0, evictable=0, elastic=0
    )
    assert [(size.nodes, size.elastic) for _row, size in all_rows(terms)] == [(200, 0), (7, 0), (200, 40)]
