# Copyright (c) 2026, The muster.kube authors
# GNU General Public License v3.0 or later (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps a cycle with many queues short: what is not judged, copied or placed again for each gang."""

from __future__ import annotations

import argparse
import typing as t
from collections import Counter

import pytest
from ansible_collections.muster.kube.bench.decide import AMOUNTS, SIZES, Cluster, Measurement, Size
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue import reserve
from ansible_collections.muster.kube.plugins.module_utils._policy.dispatch.queue.kept_walk import KeptQueue
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
